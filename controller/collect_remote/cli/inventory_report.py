"""What the inventory says of hosts and models, and where: as text and as the document of `--json`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..columns import aligned
from ..inventory import Host, Inventory
from ..survey.environment import masked

if TYPE_CHECKING:
    from ..inventory.document import Node

# What holds where the inventory says nothing; the rest has no default.
ABSENT = {
    "address": "the name of the host",
    "port": "~/.ssh/config, then 22",
    "user": "~/.ssh/config, then yours",
    "identity_file": "~/.ssh/config, the agent",
    "jump": "~/.ssh/config",
    "host_key": "known_hosts",
    "transport": "paramiko, or libssh2 for a question",
    "setup": "CANN's newest set_env.sh, and nnal's",
    "python": "python3, or the first that has torch_npu",
    "workdir": "~/collect_remote",
    "container": "none",
    "container_runtime": "the first on the host",
    "container_user": "the container's own",
}

_Entry = dict[str, Any]  # "value", and its "place", null where nothing says it


def overview(inventory: Inventory) -> dict[str, Any]:
    """Every host, its groups, where it is and where it is named; every group with its hosts."""
    own = _groups(inventory)
    return {
        "sources": [str(source) for source in inventory.sources],
        "warnings": [{"message": caution.message, "remedy": caution.remedy} for caution in inventory.cautions],
        "groups": {group: list(hosts) for group, hosts in inventory.groups.items()},
        "hosts": [
            {
                "host": host.name,
                "address": host.address,
                "port": host.port,
                "user": host.user,
                "groups": own[host.name],
                "place": inventory.places[host.name],
            }
            for host in inventory.by_name.values()
        ],
    }


def overview_text(document: Mapping[str, Any]) -> str:
    """An overview as a table."""
    rows = [
        (
            host["host"],
            (f"{host['user']}@" if host["user"] else "")
            + host["address"]
            + (f":{host['port']}" if host["port"] else ""),
            " ".join(host["groups"]),
            host["place"],
        )
        for host in document["hosts"]
    ]
    return "".join(f"{line}\n" for line in aligned([("HOST", "ADDRESS", "GROUPS", "NAMED IN"), *rows]))


def hosts_document(inventory: Inventory, hosts: Sequence[Host]) -> dict[str, Any]:
    """Every key of some hosts, its value, and where that was said. Secrets in `env` are hidden."""
    own = _groups(inventory)
    return {"hosts": [_host(inventory, host, own[host.name]) for host in hosts]}


def _host(inventory: Inventory, host: Host, groups: Sequence[str]) -> dict[str, Any]:
    said = inventory.said[host.name]
    shown = masked(host.env)
    env, models = (said[key].value or {} if key in said else {} for key in ("env", "models"))
    return {
        "host": host.name,
        "groups": groups,
        "place": inventory.places[host.name],
        "keys": {key: _entry(_plain(getattr(host, key)), said.get(key)) for key in ABSENT},
        "env": {variable: _entry(shown.get(variable), node) for variable, node in env.items()},
        "models": {
            model: _entry(host.models[model].adapter if model in host.models else None, node)
            for model, node in models.items()
        },
    }


def hosts_text(document: Mapping[str, Any]) -> str:
    """Hosts with all of their keys, a line each."""
    return "\n".join("".join(f"{line}\n" for line in _host_lines(host)) for host in document["hosts"])


def model_document(inventory: Inventory, hosts: Sequence[Host], model: str) -> dict[str, Any]:
    """Every option of a model, and where that was said; `options` is null where a host has no such model."""
    return {"hosts": [_model(inventory, host, model) for host in hosts]}


def _model(inventory: Inventory, host: Host, model: str) -> dict[str, Any]:
    options = None
    if model in host.models:
        spec, said = host.models[model], inventory.said[host.name]["models"].value[model].value
        values = {"adapter": spec.adapter, **spec.options}
        options = {field: _entry(values.get(field), node) for field, node in said.items()}
    return {"host": host.name, "model": model, "options": options}


def model_text(document: Mapping[str, Any]) -> str:
    """A model on some hosts, a line an option."""
    return "\n".join("".join(f"{line}\n" for line in _model_lines(host)) for host in document["hosts"])


def _host_lines(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"{host['host']}  in {', '.join(host['groups'])}, named in {host['place']}"
    rows = [_row(key, entry, ABSENT[key]) for key, entry in host["keys"].items()]
    rows += [_row(f"env {variable}", entry) for variable, entry in host["env"].items()]
    rows += [_row(f"model {model}", entry) for model, entry in host["models"].items()]
    yield from (f"  {line}" for line in aligned(rows))


def _model_lines(host: Mapping[str, Any]) -> Iterator[str]:
    if host["options"] is None:
        yield f"{host['host']}  has no model {host['model']}"
        return
    yield f"{host['host']}  model {host['model']}"
    yield from (f"  {line}" for line in aligned([_row(field, entry) for field, entry in host["options"].items()]))


def _row(name: str, entry: _Entry, absent: str = "") -> tuple[str, str, str]:
    value, place = entry["value"], entry["place"]
    if place is None:
        place = f"({absent})"
    elif value is None:
        place = f"taken back in {place}"
    return name, _shown(value), place


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "-"
    return value if isinstance(value, str) and value and value.isprintable() else json.dumps(value, default=str)


def _entry(value: Any, said: Node | None) -> _Entry:
    return {"value": value, "place": said.place if said else None}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value if value is None or isinstance(value, int) else str(value)


def _groups(inventory: Inventory) -> dict[str, list[str]]:
    """The groups of every host, without `all`."""
    result: dict[str, list[str]] = {host: [] for host in inventory.hosts}
    for group, hosts in inventory.groups.items():
        for host in hosts if group != "all" else ():
            result[host].append(group)
    return result
