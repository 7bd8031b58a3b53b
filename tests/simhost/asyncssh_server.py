"""The same SSH service by asyncssh, for machines without a usable sshd: real processes behind its channels.

All servers of this process share one event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

T = TypeVar("T")
CHUNK = 1 << 16


@functools.lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="simhost-asyncssh", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(timeout=30)


class AsyncSshServer:
    """Serves the program `session`, which runs ``$SSH_ORIGINAL_COMMAND``, on `address`; files in `folder`."""

    def __init__(self, folder: Path, session: Path, address: str) -> None:
        self._folder, self._session, self._address = folder, session, address
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self.log = folder / "sshd.log"
        self.settings: Mapping[str, str] = {}
        self.banner = ""

    def start(self, port: int) -> int:
        """Start on `port`, or on a free one when it is 0; the port.

        Raises OSError when it is taken, ValueError for settings of OpenSSH.
        """
        if self.settings:
            raise ValueError(f"this server is not OpenSSH: it does not know {', '.join(self.settings)}")
        self._server = _wait(self._listen(port))
        self._note(f"Server listening on {self._address} port {self._server.get_port()}.")
        return self._server.get_port()

    async def _listen(self, port: int) -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            lambda: _Account(self),
            self._address,
            port,
            server_host_keys=[str(self._folder / "host_key")],
            process_factory=self._serve,
            encoding=None,
            allow_scp=False,
        )

    def stop(self) -> None:
        """End the server and its connections."""
        self.drop_connections()
        if self._server is not None:
            _wait(_close(self._server))
            self._server = None

    def drop_connections(self) -> None:
        """Cut the present connections without a word to their clients."""

        async def abort() -> None:
            for connection in list(self._connections):
                connection.abort()

        _wait(abort())

    def _note(self, line: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(time.strftime("%H:%M:%S ") + line + "\n")

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        client = process.get_extra_info("peername") or ("", 0)
        server = process.get_extra_info("sockname") or ("", 0)
        environment = {
            "PATH": os.defpath,
            "SSH_CLIENT": f"{client[0]} {client[1]} {server[1]}",
            "SSH_CONNECTION": f"{client[0]} {client[1]} {server[0]} {server[1]}",
        }
        if process.command is not None:
            environment["SSH_ORIGINAL_COMMAND"] = process.command
        self._note(f"Starting session: {process.command}")
        child = subprocess.Popen(
            [str(self._session)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        threading.Thread(target=_reap, args=(child, ended), daemon=True).start()
        tasks = [
            asyncio.create_task(_feed(process.stdin, child.stdin)),
            asyncio.create_task(_answer(process, child, ended)),
        ]
        await process.wait_closed()  # answered, or the client is gone: then the command's pipes close
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(
    process: asyncssh.SSHServerProcess[bytes], child: subprocess.Popen[bytes], ended: asyncio.Future[int]
) -> None:
    """Send all that the command prints, then how it ended."""
    await asyncio.gather(_drain(child.stdout, process.stdout), _drain(child.stderr, process.stderr))
    status = await ended
    if status < 0:
        process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        process.exit(status)


async def _close(server: asyncssh.SSHAcceptor) -> None:
    server.close()
    await server.wait_closed()


async def _feed(source: asyncssh.SSHReader[bytes], pipe: Any) -> None:
    """Copy what the client sends, and its end, into the command's stdin; drop what it does not want."""
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    with contextlib.closing(transport), contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(CHUNK):
            if not transport.is_closing():
                with contextlib.suppress(OSError):
                    writer.write(data)
                    await writer.drain()


async def _drain(pipe: Any, target: asyncssh.SSHWriter[bytes]) -> None:
    """Copy what comes out of `pipe` to the client."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    with contextlib.closing(transport), contextlib.suppress(OSError, asyncssh.Error):
        while data := await reader.read(CHUNK):
            target.write(data)
            await target.drain()


def _reap(child: subprocess.Popen[bytes], ended: asyncio.Future[int]) -> None:
    """Wait for `child` in a thread of its own, also when its client has long gone."""
    status = child.wait()

    def tell() -> None:
        if not ended.done():
            ended.set_result(status)

    ended.get_loop().call_soon_threadsafe(tell)


class _Account(asyncssh.SSHServer):
    """The one account of the host: the current user, with the host's authorized_keys read at every login."""

    def __init__(self, server: AsyncSshServer) -> None:
        self._server = server

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._server._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server._connections.discard(self._connection)
        self._server._note(f"Connection closed: {exc or 'by the client'}")

    def begin_auth(self, username: str) -> bool:
        keys = self._server._folder / "authorized_keys"
        if username == pwd.getpwuid(os.getuid()).pw_name and keys.stat().st_size:
            self._connection.set_authorized_keys(str(keys))
        if self._server.banner:
            self._connection.send_auth_banner(self._server.banner)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True
