"""A program in a running container, as an engine starts it: it belongs to the engine, not to the client that asked.

The client passes bytes on between its own streams and those of a keeper, a process in a session of its own that has
started the program in the container's namespaces, reads whatever it prints, and tells how it ended.  A client that is
killed ends neither of them: the program's input ends, and what it prints is read and dropped.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time

_NAMESPACES = {"pid": 0x20000000, "uts": 0x04000000, "mnt": 0x00020000}
_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431  # which termios lacks
_LINGER = 2.0  # seconds that a stream may stay open after the program, as with dockerd
_CHUNK = 1 << 16


def run(place: dict, *, interactive: bool, tty: bool, detach: bool) -> tuple[int, str]:
    """Run a program: its exit status, and why it was not started ("" when it was).

    `place`: ``pid`` of the container's first process, ``argv``, ``env``, ``cwd``, ``uid``, ``gid``.
    """
    ends = {name: os.pipe() for name in ("in", "out", "err", "told")}
    keepers = {name: pair[0] if name == "in" else pair[1] for name, pair in ends.items()}
    keeper = os.fork()
    if keeper == 0:
        os.setsid()
        nothing = os.open("/dev/null", os.O_RDWR)
        for own in (0, 1, 2):  # nobody waits for the keeper's streams
            os.dup2(nothing, own)
        for pair, kept in zip(ends.values(), keepers.values()):
            os.set_inheritable(kept, True)
            os.close(pair[0] if kept == pair[1] else pair[1])
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = "import sys; sys.path.insert(0, %r); from hostside.enter import keep; keep(sys.argv[1])" % here
        spec = repr({**place, "tty": tty, "input": interactive, "ends": keepers})
        os.execve(sys.executable, [sys.executable, "-IS", "-c", code, spec], {"PATH": os.defpath})
    for kept in keepers.values():
        os.close(kept)
    own = {name: pair[1] if name == "in" else pair[0] for name, pair in ends.items()}
    if detach:
        os.close(own["in"])
        told = os.read(own["told"], _CHUNK).splitlines()[0]
    else:
        told = _pass_on(own, interactive)
    word, _, detail = told.decode().partition(" ")
    if word == "started":
        return 0, ""
    if word == "exit":
        return int(detail), ""
    status, _, why = detail.partition(" ")
    return int(status or 1), why


def _pass_on(own: dict, interactive: bool) -> bytes:
    """Serve the streams until the keeper has told how it ended and closed them; what it told last."""
    into = own["in"]
    os.set_blocking(into, False)
    if not interactive:
        os.close(into)
    waiting, source = b"", interactive
    targets = {own["out"]: 1, own["err"]: 2}
    told = b""
    while targets:
        reading = [*targets, *([0] if source and not waiting else [])]
        readable, writable, _ = select.select(reading, [into] if waiting else [], [])
        for descriptor in readable:
            data = os.read(descriptor, _CHUNK)
            if descriptor == 0:
                waiting, source = data, bool(data)
                if not data:
                    os.close(into)
            elif data:
                _write(targets[descriptor], data)
            else:
                del targets[descriptor]
        if writable:
            try:
                waiting = waiting[os.write(into, waiting) :]
            except BrokenPipeError:  # it reads no more
                waiting, source = b"", False
                os.close(into)
    while data := os.read(own["told"], _CHUNK):
        told = data
    return told.splitlines()[-1] if told else b""


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def keep(text: str) -> None:
    """The keeper: start the program, drain its output, tell its end."""
    spec = eval(text, {"__builtins__": {}})
    ends = spec["ends"]
    for end in ends.values():
        os.set_inheritable(end, False)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    spaces = {name: os.open("/proc/%d/ns/%s" % (spec["pid"], name), os.O_RDONLY) for name in _NAMESPACES}
    if spec["tty"]:
        master, slave = _terminal(spec["pid"])
        streams, sources = (slave, slave, slave), {master: ends["out"]}
    else:
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        source = ends["in"] if spec["input"] else os.open("/dev/null", os.O_RDONLY)
        streams, sources = (source, out_end, err_end), {out: ends["out"], err: ends["err"]}
    failed, failure = os.pipe()
    _join(spaces, "pid")
    child = os.fork()
    if child == 0:
        _inside(spec, spaces, streams, failure)
    for descriptor in {*streams, failure}:
        os.close(descriptor)
    why = os.read(failed, _CHUNK)
    os.write(ends["told"], b"failed " + why if why else b"started\n")
    _drain(child, sources, {ends["in"]: master} if spec["tty"] and spec["input"] else {})
    status = os.waitpid(child, 0)[1]
    if not why:
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        with contextlib.suppress(BrokenPipeError):
            os.write(ends["told"], b"exit %d\n" % code)
    os._exit(0)


def _join(spaces: dict, name: str) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(spaces[name], _NAMESPACES[name]) != 0:
        raise OSError(ctypes.get_errno(), "setns", name)


def _terminal(pid: int) -> tuple[int, int]:
    """A terminal of the container's own: master and slave."""
    pts = "/proc/%d/root/dev/pts" % pid
    master = os.open(pts + "/ptmx", os.O_RDWR | os.O_NOCTTY)
    number = struct.unpack("i", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))[0]
    fcntl.ioctl(master, _TIOCSPTLCK, bytes(4))
    return master, os.open("%s/%d" % (pts, number), os.O_RDWR | os.O_NOCTTY)


def _drain(child: int, outputs: dict, inputs: dict) -> None:
    """Pass on what the program prints, until all is closed or a moment after its end, and what a terminal is told."""
    ended = os.pidfd_open(child)
    deadline = float("inf")
    while outputs and time.monotonic() < deadline:
        watched = [*outputs, *inputs, *([ended] if deadline == float("inf") else [])]
        wait = None if deadline == float("inf") else max(0.0, deadline - time.monotonic())
        for source in select.select(watched, [], [], wait)[0]:
            if source == ended:
                deadline = time.monotonic() + _LINGER
                continue
            pipes = outputs if source in outputs else inputs
            try:
                data = os.read(source, _CHUNK)
            except OSError:  # a terminal that nobody has open any more
                data = b""
            if not data:
                del pipes[source]
                continue
            with contextlib.suppress(OSError):  # the client has gone, or the terminal
                _write(pipes[source], data)


def _inside(spec: dict, spaces: dict, streams: tuple, failure: int) -> None:
    """Become the program; never returns."""
    try:
        os.setsid()
        _join(spaces, "uts")
        _join(spaces, "mnt")
        try:
            os.chdir(spec["cwd"])
        except OSError as error:
            what = os.strerror(error.errno).lower()
            _fail(failure, 127, 'chdir to cwd ("%s") set in config.json failed: %s' % (spec["cwd"], what))
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        if spec["tty"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.umask(0o022)
        os.setgroups([])
        os.setgid(spec["gid"])
        os.setuid(spec["uid"])
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        _execute(spec["argv"], spec["env"], failure)
    except OSError as error:
        _fail(failure, 126, str(error))
    finally:
        os._exit(126)


def _execute(argv: list, env: dict, failure: int) -> None:
    name = argv[0]
    denied = False
    folders = [""] if "/" in name else env.get("PATH", "").split(":")
    for folder in folders:
        try:
            os.execve(os.path.join(folder, name), argv, env)
        except OSError as error:
            denied = denied or error.errno == errno.EACCES
            last = os.strerror(error.errno).lower()
    if denied:
        _fail(failure, 126, 'exec: "%s": permission denied' % name)
    if "/" in name:
        _fail(failure, 127, 'exec: "%s": stat %s: %s' % (name, name, last))
    _fail(failure, 127, 'exec: "%s": executable file not found in $PATH' % name)


def _fail(failure: int, status: int, why: str) -> None:
    os.write(failure, ("%d %s" % (status, why)).encode())
    os._exit(status)
