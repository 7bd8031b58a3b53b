"""Containers of a simulated host, and the program of its container engine.

Messages and exit statuses are those of docker 28.2; these need no network.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from simhost import SimHost
from simhost.containers import Container

Start = Callable[..., SimHost]

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="namespaces need root")
SET_ENV = ". ~/Ascend/ascend-toolkit/set_env.sh; "
NEW_PATH = "/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start hosts with docker by name, with asyncssh."""
    with ExitStack() as running:

        def started(name: str = "host", **options: Any) -> SimHost:
            options = {"container_engine": "docker", **options}
            return running.enter_context(SimHost(tmp_path / name, server="asyncssh", **options))

        yield started


@pytest.fixture
def host(start: Start) -> SimHost:
    return start()


def box(host: SimHost, name: str = "vllm", **options: Any) -> Container:
    """A container; skips where namespaces cannot be made."""
    try:
        return host.container(name, **options)
    except PermissionError as error:
        pytest.skip(str(error))


def on(host: SimHost, command: str, data: bytes = b"") -> tuple[int, str, str]:
    """(status, stdout, stderr) of `command` in a session of `host`."""
    done = session(host, command)
    out, err = done.communicate(data, timeout=120)
    return done.returncode, out.decode(), err.decode()


def session(host: SimHost, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [host.session],
        env={"SSH_ORIGINAL_COMMAND": command},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def inside(host: SimHost, script: str, options: str = "") -> str:
    """What a shell in the container "vllm" prints."""
    status, out, err = on(host, f"docker exec {options} vllm sh -c {shlex.quote(script)}")
    assert status == 0, err
    return out


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_container_sees_of_the_host_what_is_mounted(host: SimHost) -> None:
    (host.home / "secret").write_text("of the host")
    (host.workdir / "shared").write_text("of both")
    (host.root / "models").mkdir()
    container = box(host, mounts={host.workdir: "/data/work", host.root / "models": "/models:ro"})
    assert inside(host, f"ls {host.home} {host.workdir} 2>/dev/null; cat /data/work/shared") == "of both"
    assert (
        inside(host, "ls -d ~ /tmp /workspace; pwd; ls /tmp/*.x || :") == "/home/root\n/tmp\n/workspace\n/workspace\n"
    )
    inside(host, "echo a > ~/a; echo b > /tmp/b; echo c > c; echo d > /data/work/d")
    told = [container.outside(path).read_text() for path in ("/home/root/a", "/tmp/b", "/workspace/c", "/data/work/d")]
    assert told == ["a\n", "b\n", "c\n", "d\n"]
    assert (host.workdir / "d").exists()
    assert on(host, "docker exec vllm touch /models/x")[0] == 1
    assert on(host, "docker exec vllm touch /usr/x /etc/x")[0] == 1
    assert not Path("/home/root").exists()
    with pytest.raises(ValueError, match="none of|neither"):
        container.outside("/usr/bin")


def test_a_program_starts_with_the_images_environment_alone(host: SimHost) -> None:
    container = box(host, env={"ASCEND_VISIBLE_DEVICES": "0-7", "EMPTY": ""})
    told = on(host, "export MINE=1 TAKEN=2; docker exec -e A=b=c -e TAKEN -e NOWHERE vllm env")[1].splitlines()
    assert sorted(told) == sorted(
        [
            f"PATH={NEW_PATH}",
            f"SIMHOST={container.dir}",
            "HOME=/home/root",
            f"HOSTNAME={container.id[:12]}",
            "ASCEND_VISIBLE_DEVICES=0-7",
            "EMPTY=",
            "A=b=c",
            "TAKEN=2",
        ]
    )
    assert inside(host, "hostname; umask; ps -o comm= -p 1; echo $$ >&2").split() == [
        container.id[:12],
        "0022",
        "sleep",
    ]


def test_bytes_and_status_pass_untouched(host: SimHost) -> None:
    box(host)
    data = bytes(range(256)) * (3 << 12)  # 3 MiB
    for redirect, at in (("", 0), (" >&2", 1)):
        done = session(host, f"docker exec -i vllm sh -c 'cat{redirect}; exit 7'")
        streams = done.communicate(data, timeout=120)
        assert done.returncode == 7
        assert (streams[at], streams[1 - at]) == (data, b"")
    assert on(host, "docker exec vllm cat", b"never read") == (0, "", "")
    assert on(host, "docker exec -i vllm sh -c 'exec <&-; sleep 0.2; echo done'", bytes(1 << 20)) == (0, "done\n", "")
    assert on(host, "docker exec vllm sh -c 'kill -KILL $$'")[0] == 137


def test_what_cannot_be_started(host: SimHost) -> None:
    box(host)
    begin = "OCI runtime exec failed: exec failed: unable to start container process: "
    for command, status, why in (
        ("vllm nope", 127, 'exec: "nope": executable file not found in $PATH'),
        ("vllm /no/pe", 127, 'exec: "/no/pe": stat /no/pe: no such file or directory'),
        ("vllm /etc/passwd", 126, 'exec: "/etc/passwd": permission denied'),
        ("-w /nope vllm true", 127, 'chdir to cwd ("/nope") set in config.json failed: no such file or directory'),
    ):
        assert on(host, f"docker exec {command}") == (status, f"{begin}{why}: unknown\r\n", "")
    assert on(host, "docker exec -u who vllm true")[:2] == (
        126,
        "unable to find user who: no matching entries in passwd file\r\n",
    )


def test_a_terminal_is_refused_without_one(host: SimHost) -> None:
    box(host)
    for options in ("-it", "-i -t", "--interactive --tty"):
        assert on(host, f"docker exec {options} vllm true") == (1, "", "the input device is not a TTY\n")
    assert on(host, "docker exec -t vllm sh -c 'echo a; echo b >&2; tty <&2 >/dev/null'") == (0, "a\r\nb\r\n", "")


def test_a_killed_client_leaves_the_program_alone(host: SimHost) -> None:
    container = box(host)
    script = "echo $$; cat >/dev/null; yes | head -c 1000000; echo end > /tmp/end; exec sleep 300"
    client = session(host, f"exec docker exec -i vllm sh -c {shlex.quote(script)}")
    assert client.stdout is not None
    inner = int(client.stdout.readline())
    until(lambda: len(container.processes()) == 2)  # the shell, and cat
    begun = container.processes()
    assert inner not in begun
    assert set(host.processes()) == {client.pid, *begun}
    client.kill()
    client.communicate(timeout=30)  # nobody has kept its streams open
    until((container.folder / "tmp" / "end").exists)
    until(lambda: len(container.processes()) == 1)
    assert host.processes() == container.processes()
    assert container.processes()[0] in begun
    assert inside(host, f"kill {inner}; echo sent") == "sent\n"
    until(lambda: host.processes() == [])


def test_a_program_in_the_background_holds_its_client_for_a_moment_only(host: SimHost) -> None:
    container = box(host)
    begun = time.monotonic()
    assert inside(host, "(sleep 300; echo late) & echo early") == "early\n"
    assert 1.9 < time.monotonic() - begun < 60
    assert len(container.processes()) == 2
    assert on(host, "docker exec -d vllm sleep 300") == (0, "", "")
    assert len(container.processes()) == 3


def test_zombies_stay_as_the_first_process_reaps_none(host: SimHost) -> None:
    box(host)
    inside(host, "sh -c 'sleep 0.05 >/dev/null 2>&1 & echo $! > /tmp/pid'")
    state = "sed -n 's/^State:.*(\\(.*\\))/\\1/p' /proc/$(cat /tmp/pid)/status"
    until(lambda: inside(host, state) == "zombie\n")
    assert inside(host, "kill -0 $(cat /tmp/pid); echo $?") == "0\n"


def test_inspect(host: SimHost) -> None:
    container = box(
        host, labels={"com.team": "llm", "x": "a b"}, mounts={host.workdir: "/data"}, visible=[2, 5], user=1000
    )
    (told,) = json.loads(on(host, "docker inspect vllm")[1])
    assert (told["Id"], told["Name"], told["State"]["Pid"]) == (container.id, "/vllm", container.pid)
    assert (told["State"]["Running"], told["State"]["Status"]) == (True, "running")
    config = told["Config"]
    assert (config["User"], config["Image"], config["Labels"]) == ("1000", container.image, container.labels)
    assert f"PATH={NEW_PATH}" in config["Env"]
    (mount,) = told["Mounts"]
    assert [mount[name] for name in ("Type", "Source", "Destination", "RW")] == [
        "bind",
        str(host.workdir),
        "/data",
        True,
    ]
    devices = [device["PathOnHost"] for device in told["HostConfig"]["Devices"]]
    assert devices == ["/dev/davinci2", "/dev/davinci5", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]
    assert inside(host, "ls -d /dev/davinci[0-9]*") == "/dev/davinci2\n/dev/davinci5\n"
    for form, text in {
        "{{.State.Running}} {{.Id}}": f"true {container.id}",
        "{{json .Config.Labels}}": '{"com.team":"llm","x":"a b"}',
        '{{index .Config.Labels "com.team"}}|{{.Config.Labels.none}}': "llm|<no value>",
        "{{range .Mounts}}{{.Source}}:{{.Destination}}{{println}}{{end}}": f"{host.workdir}:/data\n",
        "{{if .State.Running}}yes{{else}}no{{end}}{{if .Config.Entrypoint}}1{{else}}2{{end}}": "yes2",
        "{{.Config.Cmd}} {{.Config.Labels}}": "[sleep infinity] map[com.team:llm x:a b]",
        '{{join .Config.Cmd "+"}}': "sleep+infinity",
    }.items():
        assert on(host, f"docker inspect -f {shlex.quote(form)} vllm") == (0, text + "\n", "")
    assert on(host, "docker inspect nope") == (1, "[]\n", "Error: No such object: nope\n")
    assert on(host, "docker inspect --format '{{.Id}}' nope vllm")[::2] == (1, "Error: No such object: nope\n")
    assert on(host, "docker inspect -f '{{.State' vllm")[0] == 64
    assert 'map has no entry for key "Nope"' in on(host, "docker inspect -f '{{.Nope}}' vllm")[2]


def test_by_name_by_id_and_by_a_part_of_it(host: SimHost) -> None:
    container, other = box(host), box(host, "other")
    for word in ("vllm", container.id, container.id[:12], container.id[:6]):
        assert on(host, f"docker exec {word} hostname")[1] == container.id[:12] + "\n"
    assert on(host, f"docker exec {other.id[:12]} hostname")[1] == other.id[:12] + "\n"
    for word in ("vll", "nope", container.id[1:12]):
        assert on(host, f"docker exec {word} true") == (
            1,
            "",
            f"Error response from daemon: No such container: {word}\n",
        )


def test_ps(host: SimHost) -> None:
    one, two = box(host, labels={"team": "a", "role": "serve"}), box(host, "two", labels={"team": "b"}, running=False)
    assert on(host, "docker ps -q --no-trunc --filter label=team=a")[1] == one.id + "\n"
    assert on(host, "docker ps -q --filter label=role --filter=label=team=b")[1] == ""
    assert on(host, "docker ps -q -f label=team=b")[1] == ""
    assert on(host, "docker container ls -aq -f label=team=b -f status=created")[1] == two.id[:12] + "\n"
    assert on(host, "docker ps -a --format '{{.Names}}\\t{{.State}} {{.Label \"team\"}}'")[1] == (
        "vllm\trunning a\ntwo\tcreated b\n"
    )
    (row,) = on(host, "docker ps --format '{{json .}}'")[1].splitlines()
    assert json.loads(row)["Labels"] == "role=serve,team=a"
    head, line = on(host, "docker ps")[1].splitlines()
    assert head.split()[:3] == ["CONTAINER", "ID", "IMAGE"]
    assert line.split()[:2] == [one.id[:12], one.image]
    assert on(host, "docker ps --filter nope=1")[::2] == (1, "Error response from daemon: invalid filter 'nope'\n")


def test_start_and_stop(host: SimHost) -> None:
    container = box(host, running=False)
    stopped = 1, "", f"Error response from daemon: container {container.id} is not running\n"
    assert on(host, "docker exec vllm true") == stopped
    assert (
        on(host, "docker inspect -f '{{.State.Status}} {{.State.Running}} {{.State.Pid}}' vllm")[1]
        == "created false 0\n"
    )
    assert on(host, "docker start vllm") == (0, "vllm\n", "")
    assert container.running
    job = session(host, "docker exec vllm sleep 300")
    until(container.processes)
    assert on(host, "docker stop -t 1 vllm") == (0, "vllm\n", "")
    assert (job.wait(30), container.processes(), container.running) == (137, [], False)
    job.communicate()
    assert on(host, "docker exec vllm true") == stopped
    assert on(host, "docker inspect -f '{{.State.Status}} {{.State.ExitCode}}' vllm")[1] == "exited 137\n"
    assert on(host, "docker start vllm nope") == (
        1,
        "vllm\n",
        "Error response from daemon: No such container: nope\nError: failed to start containers: nope\n",
    )


def test_a_daemon_that_does_not_answer(host: SimHost) -> None:
    box(host)
    host.set_state(container_daemon="down")
    down = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
    assert on(host, "docker exec vllm true") == (1, "", down)
    assert on(host, "docker inspect vllm") == (1, "[]\n", down)
    host.set_state(container_daemon="denied")
    status, _, err = on(host, "docker ps")
    assert status == 1
    assert err.startswith("permission denied while trying to connect to the Docker daemon socket at unix:///var/run/")
    host.set_state(container_daemon="works", container_engine=None)
    assert on(host, f"ls {host.root}/bin/docker")[0] != 0


def test_command_lines_that_are_not_understood(host: SimHost) -> None:
    assert on(host, "docker exec --foo a b")[::2] == (
        125,
        (
            "unknown flag: --foo\n\nUsage:  docker exec [OPTIONS] CONTAINER COMMAND [ARG...]\n\n"
            "Run 'docker exec --help' for more information\n"
        ),
    )
    assert on(host, "docker exec a")[2].startswith("docker: 'docker exec' requires at least 2 arguments\n")
    assert on(host, "docker frob")[::2] == (
        1,
        "docker: unknown command: docker frob\n\nRun 'docker --help' for more information\n",
    )


@pytest.mark.parametrize(
    ("engine", "missing", "stopped"),
    [
        (
            "podman",
            (125, 'Error: no container with name or ID "x" found: no such container'),
            (255, "Error: can only "),
        ),
        ("nerdctl", (1, "FATA[0000] no such container x"), (1, "FATA[0000] ")),
    ],
)
def test_other_engines(start: Start, engine: str, missing: tuple[int, str], stopped: tuple[int, str]) -> None:
    host = start(container_engine=engine)
    container = box(host, running=False)
    assert not (host.root / "bin" / "docker").exists()
    assert on(host, f"{engine} exec x true")[::2] == (missing[0], missing[1] + "\n")
    status, _, err = on(host, f"{engine} exec vllm true")
    assert (status, err.startswith(stopped[1])) == (stopped[0], True)
    container.start()
    assert on(host, f"{engine} exec -i vllm cat", b"x") == (0, "x", "")
    assert on(host, f"{engine} inspect -f '{{{{.Name}}}}' vllm")[1] == "vllm\n"


def test_files_belong_to_the_user_of_the_container(host: SimHost) -> None:
    (host.workdir / "open").mkdir(mode=0o777)
    (host.workdir / "open").chmod(0o777)
    container = box(host, user="ascend", mounts={host.workdir: "/data"})
    assert inside(host, "id -u; echo $HOME; touch ~/a /workspace/b /data/open/c") == "1000\n/home/ascend\n"
    assert (container.home, container.outside("/home/ascend/a").stat().st_uid) == ("/home/ascend", 1000)
    assert (host.workdir / "open" / "c").stat().st_uid == 1000
    assert (
        inside(host, SET_ENV + "python3 -c 'import torch_npu as n, torch; x = torch.ones(4, device=\"npu:0\")'") == ""
    )
    assert inside(host, "id -u; echo $HOME", "-u root") == "0\n/home/root\n"
    assert inside(host, "id -u; id -g; echo $HOME", "-u 4711:33") == "4711\n33\n/\n"
    assert [use.logic for use in host.uses()] == [0]


def test_devices_and_processes_of_a_container(simhost: Start, runtime: str) -> None:
    host = simhost(server="asyncssh", container_engine="docker")
    container = box(host, runtime=runtime, visible=[2, 5])
    code = "import torch, torch_npu; x = torch.ones(4, device='npu:1'); print(torch.npu.device_count(), flush=True)"
    script = f'{SET_ENV} echo $$; exec python3 -c "{code}; input()"'
    with session(host, f"exec docker exec -i vllm sh -c {shlex.quote(script)}") as job:
        assert job.stdout is not None
        inner, count = int(job.stdout.readline()), int(job.stdout.readline())
        (pid,) = container.processes()
        assert count == 2
        assert host.held().keys() == {pid}
        assert [(use.pid, use.logic, use.beside) for use in host.uses()] == [(pid, 5, None)]
        assert f"| {pid} " in on(host, "npu-smi info")[1]
        table = inside(host, "npu-smi info")
        assert f"| {inner} " in table
        assert f"| {pid} " not in table
        assert "No running processes found in NPU 2" in table
        container.set_state(npu_smi_pids="host")
        assert f"| {pid} " in inside(host, "npu-smi info")
        beside = on(host, f"{SET_ENV} python3 -c \"import torch, torch_npu; x = torch.ones(4, device='npu:5')\"")
        assert beside[0] == 0, beside
        assert [use.beside for use in host.uses()] == [None, pid]
        job.communicate(b"\n", timeout=120)
    assert host.held() == {}
    assert host.uses()[0].end is not None


FLEETING = """python3 -c "import torch, torch_npu; x = torch.ones(4, device='npu:0')" """
OPEN = (
    """exec python3 -c "import torch, torch_npu; x = torch.ones(4, device='npu:0'); print(1, flush=True); input()" """
)


def test_containers_do_not_see_each_others_processes(host: SimHost) -> None:
    one, two = box(host, visible=[4]), box(host, "two", visible=[4])
    with session(host, f"exec docker exec -i two sh -c {shlex.quote(SET_ENV + OPEN)}") as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"1\n"
        assert one.processes() == []
        (pid,) = two.processes()
        inside(host, SET_ENV + FLEETING)
        assert on(host, f"docker exec -i two sh -c {shlex.quote(SET_ENV + FLEETING)}")[0] == 0
        assert [use.beside for use in host.uses()] == [None, pid, pid]
        assert "No running processes found in NPU 4" in inside(host, "npu-smi info")
        memory = "import torch, torch_npu; print(torch.npu.mem_get_info(0)[0] >> 20)"
        free = int(inside(host, f'{SET_ENV} python3 -c "{memory}"'))
        job.communicate(b"\n", timeout=120)
        assert int(inside(host, f'{SET_ENV} python3 -c "{memory}"')) > free


def test_software_of_its_own(host: SimHost) -> None:
    container = box(host, python3="missing", driver=True, cann=("8.5.0",), env={"IMAGE": "1"})
    assert on(host, "docker exec vllm python3 -V")[0] == 127
    assert inside(host, "cat /usr/local/Ascend/driver/version.info | head -n 1").startswith("Version=")
    container.set_state(python3="good", environments=("venv",))
    assert inside(host, "ls ~/Ascend; ~/venv/bin/python -c 'import sys; print(sys.prefix)'").split() == [
        "cann",
        "cann-8.5.0",
        "/home/root/venv",
    ]
    told = inside(
        host, ". ~/Ascend/cann/set_env.sh; echo $ASCEND_HOME_PATH; . ~/venv/bin/activate; python -c 'import torch_npu'"
    )
    assert told == "/home/root/Ascend/cann-8.5.0\n"


def test_mounts_in_usr_local_and_of_the_hosts_driver(start: Start) -> None:
    host = start(driver=True)
    driver = "/usr/local/Ascend/driver"
    box(host, mounts={driver: driver, host.root / "new": "/data"})
    assert inside(host, f"ls {driver}/lib64/driver").split() == ["libascend_hal.so", "libdrvdsmi_host.so"]
    assert on(host, "docker inspect -f '{{range .Mounts}}{{.Source}} {{end}}' vllm")[1].split()[0] == driver
    assert (host.root / "new").is_dir()


def test_all_ends_with_the_host_and_begins_anew(start: Start) -> None:
    host = start()
    container = box(host)
    job = session(host, "docker exec vllm sh -c 'trap \"\" TERM HUP; sleep 300 & sleep 300'")
    until(lambda: len(container.processes()) == 3)
    pids = [container.pid, *container.processes()]
    host.stop()
    assert [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()] == []
    job.communicate(timeout=30)
    host.start()
    assert on(host, "docker ps -aq") == (0, "", "")
    assert box(host).running


def test_not_for_an_ordinary_user(host: SimHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(PermissionError, match="needs root"):
        host.container("vllm")


def test_a_hangup_of_the_session_ends_the_client_alone(host: SimHost) -> None:
    container = box(host)
    client = session(host, "exec docker exec vllm sleep 300")
    until(container.processes)
    client.send_signal(signal.SIGHUP)
    assert client.wait(30) == -signal.SIGHUP
    client.communicate()
    assert len(container.processes()) == 1
