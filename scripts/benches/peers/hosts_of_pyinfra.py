"""The inventory of pyinfra, from the files that FLEET_HOSTS and FLEET_KNOWN_HOSTS name."""

import json
import os
from pathlib import Path

hosts = [
    (
        host["name"],
        {
            "ssh_hostname": host["address"],
            "ssh_port": host["port"],
            "ssh_user": host["user"],
            "ssh_key": host["identity_file"],
            "ssh_known_hosts_file": os.environ["FLEET_KNOWN_HOSTS"],
            "ssh_strict_host_key_checking": "yes",
        },
    )
    for host in json.loads(Path(os.environ["FLEET_HOSTS"]).read_text())
]
