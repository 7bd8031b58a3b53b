"""parallel-ssh with its native client, which is C, and looks at no host keys: PROGRAM HOSTS.json AT_ONCE COMMAND."""

import json
import sys
from pathlib import Path

from pssh.clients import ParallelSSHClient
from pssh.config import HostConfig


def main(file: str, at_once: str, command: str) -> None:
    hosts = json.loads(Path(file).read_text())
    client = ParallelSSHClient(
        [host["address"] for host in hosts],
        pool_size=int(at_once),
        host_config=[
            HostConfig(user=host["user"], port=host["port"], private_key=host["identity_file"]) for host in hosts
        ],
    )
    answers = client.run_command(command)
    client.join()
    for answer in answers:
        print(*answer.stdout, sep="\n")


main(*sys.argv[1:])
