"""What engines tell and say about containers: text in, plain data and errors out."""

from __future__ import annotations

from typing import Any

import pytest

from collect_agent.npu.choice import reasons
from collect_agent.npu.device import Device
from collect_agent.npu.inside import judge_for, reachable
from collect_agent.npu.judge import Wish
from collect_remote import errors
from collect_remote.containers import Mount, box, says
from npu_smi_tables import A2, MAPPING, Die, info, mapping

HOST_TABLE = info(A2, [Die(n, bus=f"0000:C{n}:00.0") for n in range(4)])
INSPECTED = {
    "Id": "0123456789abcdef0123",
    "Name": "/vllm",
    "State": {"Running": True, "Status": "running", "Paused": False},
    "Config": {"Image": "vllm-ascend:v0.11.0", "User": "", "Labels": {}},
    "HostConfig": {"Devices": [{"PathOnHost": "/dev/davinci2", "PathInContainer": "/dev/davinci0"}]},
    "Mounts": [
        {"Source": "/srv/a", "Destination": "/data", "RW": True},
        {"Source": "/srv/b", "Destination": "/data/deep", "RW": False},
        {"Type": "tmpfs", "Source": "", "Destination": "/run"},
    ],
}


def seen(table: str, *, inside: bool = False, chips: str = "") -> dict[str, Any]:
    return {"npu_smi": "/npu-smi", "in_container": inside, "info": [0, table], "mapping": [0, chips]}


NOTHING = {"npu_smi": None, "in_container": True}
HOST_SEEN = seen(HOST_TABLE, chips=mapping([(str(n), "0", str(n), "X") for n in range(4)], MAPPING))


def built(inspected: dict[str, Any] = INSPECTED, npu_inside: Any = NOTHING, **inside: Any) -> box.Box:
    outside = {
        "python": "/usr/bin/python3",
        "version": [3, 9, 2],
        "workdir": "/home/me/collect_remote",
        "agent_present": False,
        "npu": HOST_SEEN,
        "sources": {"/srv/a": [8, 17], "/srv/b": None},
    }
    mount = {"point": "/data", "id": [8, 17]}
    found = {"workdir": "/data/work", "nodes": [0], "mount": mount, "npu": npu_inside, **inside}
    return box.build("/usr/bin/docker", None, inspected, outside, found)


def test_what_inspect_tells() -> None:
    found = built()
    assert (found.runtime, found.name, found.image, found.user) == ("docker", "vllm", "vllm-ascend:v0.11.0", "root")
    assert found.mounts == (Mount("/srv/a", "/data", True, True), Mount("/srv/b", "/data/deep", False))
    assert found.shared == found.mounts[0]
    assert found.command("true") == ["/usr/bin/docker", "exec", "-i", found.id, "true"]
    assert found.document()["id"] == "0123456789ab"


@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("/srv/a", "/data"),
        ("/srv/a/x/run.sh", "/data/x/run.sh"),
        ("/srv/b/x", "/data/deep/x"),
        ("/srv/ab", None),
        ("/srv", None),
        ("work", None),
    ],
)
def test_where_a_path_of_the_host_is_inside(path: str, inner: str | None) -> None:
    assert built().inside(path) == inner


def test_podman_and_nerdctl_leave_out_what_docker_has() -> None:
    found = built({"Id": "0123", "Name": "vllm", "ImageName": "img", "State": {"Running": True}}, nodes=[1, 3])
    assert (found.name, found.image, found.mounts, found.shared) == ("vllm", "img", (), None)
    assert found.logic_ids == {1: 0, 3: 1}


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"Running": True, "Status": "running"}, "running"),
        ({"Running": True, "Paused": True, "Status": "paused"}, "paused"),
        ({"Running": False, "Status": "exited"}, "exited"),
        ({}, "not running"),
    ],
)
def test_whether_it_can_be_entered(state: dict[str, Any], word: str) -> None:
    assert box.state({"State": state}) == word


def test_a_mount_that_both_sides_do_not_see_alike_is_not_proven() -> None:
    assert not built(mount={"point": "/data", "id": [8, 18]}).mounts[0].proven
    assert not built(mount={"point": "/data/deep", "id": None}).mounts[1].proven


def test_a_device_file_with_another_name_inside_is_the_hosts() -> None:
    assert built().logic_ids == {2: 0}


def test_without_a_view_of_the_host_there_are_no_devices() -> None:
    assert built(INSPECTED | {"HostConfig": {}}, nodes=[7]).logic_ids == {}


def test_the_bus_address_joins_both_views_and_the_map_inside_counts() -> None:
    """Its map, and not the place in its table: 3 before 1."""
    table = info(A2, [Die(3, bus="0000:C3:00.0"), Die(1, bus="0000:C1:00.0")])
    told = mapping([("3", "0", "1", "X"), ("1", "0", "0", "X")], MAPPING)
    assert built(npu_inside=seen(table, inside=True, chips=told), nodes=[0, 2]).logic_ids == {3: 1, 1: 0}


def test_one_device_that_cannot_be_joined_leaves_it_to_the_device_files() -> None:
    table = info(A2, [Die(3, bus="0000:C3:00.0"), Die(1, bus="0000:AA:00.0")])
    assert built(npu_inside=seen(table, inside=True)).logic_ids == {2: 0}


def devices(*logic: int) -> list[Device]:
    return [
        Device(n, 0, n, name="910B3", health="OK", utilisation_pct=0, memory_used_mb=3300, memory_total_mb=65536)
        for n in logic
    ]


def test_only_what_the_container_has_is_free() -> None:
    inside = {"name": "vllm", "logic_ids": [[1, 0], [2, 1], [3, 2]]}
    judged = judge_for(devices(0, 1, 2, 3), Wish(), "0,2", inside)
    assert [verdict.free for verdict in judged] == [False, True, False, True]
    assert judged[0].reason == "not in the container vllm"
    assert judged[2].reason == ("not allowed: logic id 1 of the container, outside its ASCEND_RT_VISIBLE_DEVICES=0,2")
    assert [verdict.free for verdict in reachable(judged, None, inside)] == [False, True, True, True]
    assert reasons(judged, Wish()) == [
        "NPU 2 chip 0 (logic 2) " + judged[2].reason,
        "1 more is not in the container vllm",
    ]


@pytest.mark.parametrize(
    ("said", "status", "kind", "message", "remedy"),
    [
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: x",
            *(1, errors.EnvironmentUnfit, "may not use docker", "usermod -aG docker"),
        ),
        ("Got permission denied ... /var/run/docker.sock", 1, errors.EnvironmentUnfit, "may not use", "usermod"),
        (
            "Cannot connect to the Docker daemon at unix:///x",
            1,
            errors.EnvironmentUnfit,
            "does not answer",
            "systemctl",
        ),
        ("Error response from daemon: No such container: x", 1, errors.EnvironmentUnfit, "has gone", "ps -a"),
        ("Error response from daemon: container 01 is not running", 1, errors.EnvironmentUnfit, "not running", "start"),
        ("Error: can only create exec sessions on running containers", 255, errors.EnvironmentUnfit, "not ru", "start"),
        ("Error response from daemon: Container x is paused, unpause", 1, errors.EnvironmentUnfit, "paused", "unpause"),
        ('exec: "sh": executable file not found in $PATH: unknown', 127, errors.EnvironmentUnfit, "no bash", "install"),
        ("sh: 1: exec: bash: not found", 127, errors.EnvironmentUnfit, "no bash", "install"),
        ("unable to find user who: no matching entries", 126, errors.EnvironmentUnfit, "user who", "container_user"),
        ("something new", 3, errors.EnvironmentUnfit, r"exit status 3\): something new", "docker exec -i vllm bash"),
        ("", None, errors.UnreachableError, "does not enter", "hangs"),
    ],
)
def test_what_engines_say(said: str, status: int | None, kind: type, message: str, remedy: str) -> None:
    error = says.not_entered("vllm", "docker", [said], status, going=False)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error
    assert remedy in error.remedy


def test_what_engines_say_while_a_run_goes_on() -> None:
    stopped = says.not_entered("vllm", "docker", ["container 01 is not running"], 1, going=True)
    assert type(stopped) is errors.RunFailed
    assert stopped.message == "during the run the container vllm is not running (stopped)"
    # A daemon may come back, and the container has gone on meanwhile.
    assert type(says.not_entered("vllm", "docker", ["Cannot connect to the Docker daemon"], 1, going=True)) is (
        errors.UnreachableError
    )
