"""A file system in user space that shows a directory and is strange in one way, as network file systems can be.

``squashed``   every file belongs to nobody (65534), whoever made it
``open``       everybody may write to every file and directory, whatever the umask
``no-rename``  renaming fails: EIO
``no-locks``   locks fail: ENOLCK

It speaks the kernel's FUSE protocol 7.31 (linux/fuse.h) over /dev/fuse, one request at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import sys

NOBODY = 65534
KINDS = ("squashed", "open", "no-rename", "no-locks")
_NOSUID_NODEV = 2 | 4
_POSIX_LOCKS, _ATOMIC_TRUNC, _BIG_WRITES, _FLOCK_LOCKS = 1 << 1, 1 << 3, 1 << 5, 1 << 10
_MAX_WRITE = 1 << 17
_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE, _SET_ATIME, _SET_MTIME, _ATIME_NOW, _MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256
_UNANSWERED = (2, 42)  # FORGET, BATCH_FORGET


def main(source: str, target: str, kind: str) -> int:
    """Mount `source` on `target` and serve it until it is unmounted; prints a line when it is there."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions" % device
    libc = ctypes.CDLL(None, use_errno=True)
    name = ("fuse." + kind).encode()
    if libc.mount(kind.encode(), os.fsencode(target), name, _NOSUID_NODEV, options.encode()) != 0:
        sys.stderr.write("mount: %s\n" % os.strerror(ctypes.get_errno()))
        return 1
    print("mounted", flush=True)
    disk = Disk(source, kind)
    while True:
        try:
            request = os.read(device, _MAX_WRITE + 4096)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return 0  # unmounted
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in _UNANSWERED:
            continue
        failed, answer = 0, b""
        try:
            answer = disk.answer(opcode, node, request[40:])
        except OSError as error:
            failed = error.errno or errno.EIO
        with contextlib.suppress(OSError):  # the one who asked was interrupted
            os.write(device, struct.pack("<IiQ", 16 + len(answer), -failed, unique) + answer)


class Disk:
    """The requests, by nodes (numbers of paths) and open files (descriptors)."""

    def __init__(self, source: str, kind: str) -> None:
        self.kind = kind
        self.paths = {1: source}
        self.nodes = {source: 1}
        self.files = {}  # descriptor -> node
        self.handlers = {
            1: self.lookup, 3: self.getattr, 4: self.setattr, 5: self.readlink, 6: self.symlink, 8: self.mknod,
            9: self.mkdir, 10: self.unlink, 11: self.rmdir, 12: self.rename, 13: self.link, 14: self.open,
            15: self.read, 16: self.write, 17: self.statfs, 18: self.release, 20: self.fsync, 25: self.nothing,
            26: self.init, 27: self.nothing_open, 28: self.readdir, 29: self.nothing, 30: self.nothing,
            31: self.lock, 32: self.lock, 33: self.lock, 35: self.create, 45: self.rename2,
        }  # fmt: skip

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        if opcode not in self.handlers:
            raise OSError(errno.ENOSYS, "not served")
        return self.handlers[opcode](node, body)

    def init(self, node: int, body: bytes) -> bytes:
        flags = _ATOMIC_TRUNC | _BIG_WRITES
        if self.kind == "no-locks":
            flags |= _POSIX_LOCKS | _FLOCK_LOCKS
        return struct.pack("<IIIIHHIIHHI", 7, 31, 1 << 17, flags, 12, 9, _MAX_WRITE, 1, 0, 0, 0).ljust(64, b"\0")

    def nothing(self, node: int, body: bytes) -> bytes:
        return b""

    def nothing_open(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0)

    def lock(self, node: int, body: bytes) -> bytes:
        raise OSError(errno.ENOLCK, "no locks")

    def lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._below(node, body))

    def getattr(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._attributes(self._place(node))

    def setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _ = struct.unpack_from(
            "<IIQQQQQQIIIIIIII", body
        )
        path = self._place(node)
        if valid & _SET_MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & (_SET_UID | _SET_GID) and self.kind != "squashed":
            owner = uid if valid & _SET_UID else -1, gid if valid & _SET_GID else -1
            os.chown(path, *owner, **self._itself(path))
        if valid & _SET_SIZE:
            os.truncate(path, size)
        if valid & (_SET_ATIME | _SET_MTIME):
            now = os.stat(path, **self._itself(path))
            times = [now.st_atime_ns, now.st_mtime_ns]
            for at, (bit, of_now, given) in enumerate(
                ((_SET_ATIME, _ATIME_NOW, atime * 10**9 + atime_ns), (_SET_MTIME, _MTIME_NOW, mtime * 10**9 + mtime_ns))
            ):
                if valid & bit:
                    times[at] = _now() if valid & of_now else given
            os.utime(path, ns=(times[0], times[1]), **self._itself(path))
        return self.getattr(node, b"")

    def readlink(self, node: int, body: bytes) -> bytes:
        return os.fsencode(os.readlink(self.paths[node]))

    def symlink(self, node: int, body: bytes) -> bytes:
        name, target, _ = body.split(b"\0")
        path = self._below(node, name)
        os.symlink(os.fsdecode(target), path)
        return self._entry(path)

    def mknod(self, node: int, body: bytes) -> bytes:
        mode, device = struct.unpack_from("<II", body)
        path = self._below(node, body[16:])
        os.mknod(path, mode, device)
        return self._entry(path)

    def mkdir(self, node: int, body: bytes) -> bytes:
        path = self._below(node, body[8:])
        os.mkdir(path)
        os.chmod(path, stat.S_IMODE(struct.unpack_from("<I", body)[0]))
        return self._entry(path)

    def unlink(self, node: int, body: bytes) -> bytes:
        path = self._below(node, body)
        os.unlink(path)
        self._forget(path)
        return b""

    def rmdir(self, node: int, body: bytes) -> bytes:
        path = self._below(node, body)
        os.rmdir(path)
        self._forget(path)
        return b""

    def rename(self, node: int, body: bytes, start: int = 8) -> bytes:
        if self.kind == "no-rename":
            raise OSError(errno.EIO, "no renaming")
        old, new, _ = body[start:].split(b"\0")
        before, after = self._below(node, old), self._below(struct.unpack_from("<Q", body)[0], new)
        os.rename(before, after)
        self._forget(after)
        for path in [path for path in self.nodes if path == before or path.startswith(before + "/")]:
            number = self.nodes.pop(path)
            self.paths[number] = after + path[len(before) :]
            self.nodes[self.paths[number]] = number
        return b""

    def rename2(self, node: int, body: bytes) -> bytes:
        if struct.unpack_from("<I", body, 8)[0]:
            raise OSError(errno.EINVAL, "flags")
        return self.rename(node, body, 16)

    def link(self, node: int, body: bytes) -> bytes:
        path = self._below(node, body[8:])
        os.link(self.paths[struct.unpack_from("<Q", body)[0]], path, follow_symlinks=False)
        return self._entry(path)

    def open(self, node: int, body: bytes) -> bytes:
        file = os.open(self.paths[node], struct.unpack_from("<I", body)[0] & ~(os.O_APPEND | os.O_NOFOLLOW))
        self.files[file] = node
        return struct.pack("<QII", file, 0, 0)

    def create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        path = self._below(node, body[16:])
        file = os.open(path, (flags & ~os.O_APPEND) | os.O_CREAT, 0o600)
        os.fchmod(file, stat.S_IMODE(mode))
        entry = self._entry(path)
        self.files[file] = self.nodes[path]
        return entry + struct.pack("<QII", file, 0, 0)

    def read(self, node: int, body: bytes) -> bytes:
        file, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(file, size, offset)

    def write(self, node: int, body: bytes) -> bytes:
        file, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(file, body[40 : 40 + size], offset), 0)

    def release(self, node: int, body: bytes) -> bytes:
        (file,) = struct.unpack_from("<Q", body)
        del self.files[file]
        os.close(file)
        return b""

    def fsync(self, node: int, body: bytes) -> bytes:
        os.fsync(struct.unpack_from("<Q", body)[0])
        return b""

    def statfs(self, node: int, body: bytes) -> bytes:
        about = os.statvfs(self.paths[node])
        counts = about.f_blocks, about.f_bfree, about.f_bavail, about.f_files, about.f_ffree
        return struct.pack("<QQQQQIIII24x", *counts, about.f_bsize, about.f_namemax, about.f_frsize, 0)

    def readdir(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        path = self.paths[node]
        text = b""
        for at, name in enumerate([".", "..", *sorted(os.listdir(path))][offset:], offset + 1):
            raw = os.fsencode(name)
            mode = os.lstat(os.path.join(path, name)).st_mode if at > 2 else stat.S_IFDIR
            entry = struct.pack("<QQII", at, at, len(raw), stat.S_IFMT(mode) >> 12) + raw
            entry += b"\0" * (-len(entry) % 8)
            if len(text) + len(entry) > size:
                break
            text += entry
        return text

    def _below(self, node: int, name: bytes) -> str:
        return os.path.join(self.paths[node], os.fsdecode(name.partition(b"\0")[0]))

    def _entry(self, path: str) -> bytes:
        attributes = self._attributes(path)
        if path not in self.nodes:
            number = len(self.paths) + 1
            self.nodes[path], self.paths[number] = number, path
        return struct.pack("<QQQQII", self.nodes[path], 0, 0, 0, 0, 0) + attributes

    def _forget(self, path: str) -> None:
        """Let the name go; the node stays known to those who have it open."""
        number = self.nodes.pop(path, None)
        if number:
            self.paths[number] = ""

    def _place(self, node: int) -> str | int:
        """The path of a node, or a descriptor of one without a name.  Raises OSError for one that is gone."""
        if self.paths[node]:
            return self.paths[node]
        for file, opened in self.files.items():
            if opened == node:
                return file
        raise OSError(errno.ENOENT, "gone")

    @staticmethod
    def _itself(place: str | int) -> dict:
        """A link itself and not what it leads to; descriptors know no difference."""
        return {} if isinstance(place, int) else {"follow_symlinks": False}

    def _attributes(self, path: str | int) -> bytes:
        found = os.stat(path, **self._itself(path))
        owner = (NOBODY, NOBODY) if self.kind == "squashed" else (found.st_uid, found.st_gid)
        mode = found.st_mode | 0o022 if self.kind == "open" else found.st_mode
        times = [divmod(time, 10**9) for time in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        return struct.pack(
            "<QQQQQQIIIIIIIIII",
            found.st_ino, found.st_size, found.st_blocks, *(whole for whole, _ in times), *(rest for _, rest in times),
            mode, found.st_nlink, *owner, found.st_rdev & 0xFFFFFFFF, 4096, 0,
        )  # fmt: skip


def _now() -> int:
    import time

    return time.time_ns()
