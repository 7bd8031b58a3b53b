"""asyncssh, as its documentation runs a command on many hosts: PROGRAM HOSTS.json KNOWN_HOSTS AT_ONCE COMMAND."""

import asyncio
import json
import sys
from pathlib import Path

import asyncssh


async def main(hosts: str, known_hosts: str, at_once: str, command: str) -> None:
    known, turn = asyncssh.read_known_hosts(known_hosts), asyncio.Semaphore(int(at_once))

    async def ask(host: dict) -> str:
        options = {"username": host["user"], "client_keys": [host["identity_file"]], "known_hosts": known}
        async with turn, asyncssh.connect(host["address"], host["port"], config=None, **options) as connection:
            return (await connection.run(command, check=True)).stdout

    print(*await asyncio.gather(*map(ask, json.loads(Path(hosts).read_text()))))


asyncio.run(main(*sys.argv[1:]))
