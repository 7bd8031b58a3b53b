"""What the simulated container engine tells of its containers: ``inspect`` and ``ps``."""

from __future__ import annotations

import json
import sys
import time

from . import engine, go_template
from .docker_options import Refused

COLUMNS = {
    "ID": "CONTAINER ID", "Image": "IMAGE", "Command": "COMMAND", "RunningFor": "CREATED", "Status": "STATUS",
    "Ports": "PORTS", "Names": "NAMES", "State": "STATE", "Labels": "LABELS", "Mounts": "MOUNTS",
}  # fmt: skip
TABLE = ("ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names")


def inspect(told: dict, options: dict, words: list[str]) -> int:
    """``inspect``: all that were found on stdout, those that were not on stderr."""
    found = [(name, engine.find(told["containers"], name)) for name in words]
    shown = [document(told["engine"], container) for _, container in found if container]
    if "f" not in options:
        print(json.dumps(shown, indent=4))
    else:
        try:
            print("\n".join(go_template.render(options["f"], container) for container in shown))
        except go_template.TemplateError as problem:
            print()
            unclosed = "unclosed" in str(problem)
            raise Refused("template parsing error: %s" % problem, 64 if unclosed else 1) from None
    missing = [name for name, container in found if container is None]
    sys.stdout.flush()
    for name in missing:
        sys.stderr.write(
            ('Error: no such object: "%s"\n' if told["engine"] == "podman" else "Error: No such object: %s\n") % name
        )
    return (125 if told["engine"] == "podman" else 1) if missing else 0


def document(program: str, container: dict) -> dict:
    """One container as ``inspect`` prints it."""
    labels = container["labels"]
    return {
        "Id": container["id"],
        "Created": _time(container["created"]),
        "Path": container["command"][0],
        "Args": container["command"][1:],
        "State": engine.state(container),
        "Image": "sha256:" + container["id"][::-1],
        "Name": ("/" if program == "docker" else "") + container["name"],
        "Driver": "overlay2",
        "HostConfig": {
            "Binds": [
                "%s:%s%s" % (m["Source"], m["Destination"], "" if m["RW"] else ":ro") for m in container["mounts"]
            ],
            "NetworkMode": "host",
            "Privileged": False,
            "PidMode": "",
            "Runtime": "runc",
            "Devices": [
                {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"}
                for path in container["devices"]
            ],
        },
        "Mounts": container["mounts"],
        "Config": {
            "Hostname": container["id"][:12],
            "User": container["user"],
            "Env": container["env"],
            "Cmd": container["command"],
            "Image": container["image"],
            "WorkingDir": container["workdir"],
            "Entrypoint": None,
            "Labels": labels,
        },
    }


def ps(told: dict, options: dict, words: list[str]) -> int:
    """``ps``: those that run, or all; those of every filter."""
    shown = []
    for container in told["containers"]:
        state = engine.state(container)
        if (state["Running"] or "a" in options) and all(_fits(container, state, one) for one in options.get("f", ())):
            shown.append(_row(container, state, "no-trunc" in options))
    form = options.get("format", "")
    if "q" in options:
        text = "".join(row["ID"] + "\n" for row in shown)
    elif form and not form.startswith("table"):
        text = "".join(_rendered(form, row) + "\n" for row in shown)
    else:
        form = form.partition(" ")[2] or "\\t".join("{{.%s}}" % name for name in TABLE)
        lines = [_rendered(form, row).split("\t") for row in [dict(COLUMNS, Label=lambda key: key), *shown]]
        widths = [max(map(len, column)) + 3 for column in zip(*lines)]
        text = "".join("".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)
    sys.stdout.write(text)
    return 0


def _fits(container: dict, state: dict, asked: str) -> bool:
    name, given, value = asked.partition("=")
    if not given:
        raise Refused('invalid argument "%s" for "-f, --filter" flag: invalid filter \'%s\'' % (asked, asked), 125)
    if name == "label":
        key, wanted, content = value.partition("=")
        return key in container["labels"] and (not wanted or container["labels"][key] == content)
    if name in ("name", "id"):
        return value in container[name] if name == "name" else container["id"].startswith(value)
    if name == "status":
        return bool(state["Status"] == value)
    if name == "ancestor":
        return bool(container["image"] == value)
    raise Refused("Error response from daemon: invalid filter '%s'" % name)


def _row(container: dict, state: dict, whole: bool) -> dict:
    age = "%d seconds" % (time.time() - container["created"])
    status = {"running": "Up " + age, "exited": "Exited (%d) %s ago" % (state["ExitCode"], age)}
    command = '"%s"' % " ".join(container["command"])
    return {
        "ID": container["id"] if whole else container["id"][:12],
        "Image": container["image"],
        "Command": command,
        "RunningFor": age + " ago",
        "Status": status.get(state["Status"], "Created"),
        "State": state["Status"],
        "Ports": "",
        "Names": container["name"],
        "Labels": ",".join("%s=%s" % label for label in sorted(container["labels"].items())),
        "Label": lambda key: container["labels"].get(key, ""),
        "Mounts": ",".join(mount["Source"] for mount in container["mounts"]),
    }


def _rendered(form: str, row: dict) -> str:
    form = form.replace("\\t", "\t").replace("\\n", "\n")
    if form in ("json", "{{json .}}"):
        return json.dumps({name: value for name, value in row.items() if name != "Label"}, separators=(",", ":"))
    try:
        return go_template.render(form, row)
    except go_template.TemplateError as problem:
        raise Refused("failed to execute template: %s" % problem) from None


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime(seconds))
