"""Half-installed simulated hosts: what is wrong with CANN, its scripts, the driver, Pythons and the work directory.

These need no network: they start the program that the SSH server starts for a session.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from simhost import SimHost

Start = Callable[..., SimHost]

SET_ENV = ". Ascend/ascend-toolkit/set_env.sh; "
IMPORT = "python3 -c 'import torch_npu; print(torch_npu.__version__)'"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="mounts need root")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start hosts with the light runtime, a plain login shell, and knobs."""
    with ExitStack() as running:

        def started(**options: object) -> SimHost:
            return running.enter_context(SimHost(tmp_path / "host", server="asyncssh", login_shell="sh", **options))

        yield started


def on(
    host: SimHost, command: str, stdin: str = "", seconds: float = 60, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command` in a session of `host`."""
    return subprocess.run(
        [host.root / "ssh" / "session"],
        env={"SSH_ORIGINAL_COMMAND": command, **(variables or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_versions_of_cann_side_by_side(start: Start) -> None:
    host = start(cann=("8.2.RC1", "8.3.RC1"))
    ascend = host.home / "Ascend"
    where = SET_ENV + "echo $ASCEND_HOME_PATH; readlink -f $ASCEND_HOME_PATH; command -v msprof"
    latest = ascend / "ascend-toolkit" / "latest"
    assert on(host, where).stdout.split() == [
        str(latest),
        str(ascend / "ascend-toolkit/8.3.RC1"),
        str(latest / "bin/msprof"),
    ]
    host.set_state(cann_latest="8.2.RC1")
    assert on(host, where).stdout.split()[1] == str(ascend / "ascend-toolkit/8.2.RC1")
    own = ". Ascend/ascend-toolkit/8.3.RC1/bin/setenv.bash; cat $ASCEND_HOME_PATH/version.cfg"
    assert "8.3.RC1" in on(host, own).stdout


def test_the_newer_layout_of_cann_beside_the_older(start: Start) -> None:
    host = start(cann=("8.3.RC1", "8.5.0"))
    for script, version in (("ascend-toolkit", "8.3.RC1"), ("cann", "8.5.0"), ("cann-8.5.0", "8.5.0")):
        told = on(host, f". Ascend/{script}/set_env.sh; cat $ASCEND_HOME_PATH/version.cfg; {IMPORT}")
        assert told.stdout.splitlines()[-2:] == [f"runtime_running_version=[{version}:{version}]", "2.13.0"]
    host.set_state(cann=("8.5.0",))
    assert sorted(path.name for path in (host.home / "Ascend").iterdir()) == ["ascend-toolkit", "cann", "cann-8.5.0"]
    assert list((host.home / "Ascend/ascend-toolkit").iterdir()) == []
    host.set_state(cann=("8.3.RC1", "8.5.0"), set_env=("ascend-toolkit",))
    assert not (host.home / "Ascend/cann/set_env.sh").exists()
    assert (host.home / "Ascend/ascend-toolkit/set_env.sh").exists()
    host.set_state(set_env=False)
    assert not (host.home / "Ascend/cann/set_env.sh").exists()


@pytest.mark.parametrize(
    ("fault", "shell", "status", "told"),
    [
        ("unset", "set -u; {}echo end", 2, ("", "ASCEND_SIMULATED_SITE")),
        ("unset", "{}echo end", 0, ("end\n", "")),
        ("errexit", "set -e; {}echo end", 2, ("", "")),
        ("errexit", "{}echo end", 0, ("end\n", "")),
        ("returns", "{}echo $?", 0, ("1\n", "")),
        ("exits", "{}echo end", 1, ("", "")),
        ("prints", "{}echo end", 0, ("CANN 8.3.RC1\nend\n", "CANN is loaded, use it well\n")),
        ("reads", "{}cat", 0, ("second\n", "")),
        ("overwrites", "{}echo $PYTHONPATH $LD_LIBRARY_PATH", 0, ("{0}/python/site-packages {0}/lib64\n", "")),
        ("no-path", "{}command -v msprof", 127, ("", "")),
        ("no-path", "{}echo $LD_LIBRARY_PATH", 0, ("{0}/lib64:{0}/lib64/plugin/opskernel:/mine\n", "")),
    ],
)
def test_a_set_env_that_is_not_well(start: Start, fault: str, shell: str, status: int, told: tuple[str, str]) -> None:
    host = start(set_env_faults=(fault,), env={"PYTHONPATH": "/mine", "LD_LIBRARY_PATH": "/mine"})
    done = on(host, shell.format(SET_ENV), "first\nsecond\n")
    assert (done.returncode, done.stdout) == (status, told[0].format(host.home / "Ascend/ascend-toolkit/latest"))
    assert told[1] in done.stderr
    host.set_state(set_env_faults=())
    assert on(host, shell.format(SET_ENV), "first\nsecond\n").stdout not in ("", done.stdout) or status == 0


def test_unknown_faults_are_refused(start: Start) -> None:
    with pytest.raises(ValueError, match="no such fault: explodes"):
        start(set_env_faults=("prints", "explodes"))


@pytest.mark.parametrize("kind", ["light", pytest.param("torch_npu", marks=pytest.mark.torch_npu)])
def test_msprof_without_its_python_part(simhost: Start, request: pytest.FixtureRequest, kind: str) -> None:
    if kind == "torch_npu":
        request.getfixturevalue("ascend_runtime")
    host = simhost(runtime=kind, server="asyncssh", msprof_py=False)
    found = SET_ENV + 'p=$(readlink -f "$(command -v msprof)"); ls ${p%/bin/msprof}/profiler_tool/analysis/msprof'
    assert on(host, SET_ENV + "command -v msprof").returncode == 0
    assert on(host, found).returncode != 0
    host.set_state(msprof_py=True)
    assert "msprof.py" in on(host, found).stdout.split()


@needs_root
def test_the_drivers_library_is_found_by_its_script_alone(start: Start) -> None:
    host = start(driver=True, libraries=("libascend_hal.so",), driver_version="25.2.0")
    missing = on(host, SET_ENV + IMPORT)
    assert missing.returncode == 1
    assert missing.stderr.endswith(
        "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory\n"
    )
    driver = "/usr/local/Ascend/driver"
    assert on(host, f". {driver}/bin/setenv.bash; {SET_ENV}{IMPORT}").stdout == "2.13.0\n"
    assert on(host, f"head -n 1 {driver}/version.info").stdout == "Version=25.2.0\n"
    assert not Path(driver).exists()
    host.set_state(driver=False)
    assert on(host, f"ls {driver}").returncode != 0


@pytest.mark.parametrize("library", ["libhccl.so", "libascendcl.so", "libatb.so", "libelse.so"])
def test_libraries_and_who_brings_them(start: Start, library: str) -> None:
    host = start(libraries=(library,), nnal=True)
    complaint = f"ImportError: {library}: cannot open"
    bare = on(host, f"export ASCEND_HOME_PATH=/; {IMPORT}")
    assert complaint in bare.stderr
    of_cann, of_both = on(host, SET_ENV + IMPORT), on(host, f". Ascend/nnal/atb/set_env.sh; {SET_ENV}{IMPORT}")
    assert (complaint in of_cann.stderr) == (library in ("libatb.so", "libelse.so"))
    assert (complaint in of_both.stderr) == (library == "libelse.so")
    host.set_state(nnal=False)
    assert not (host.home / "Ascend/nnal").exists()


def test_imports_that_do_not_end_well(start: Start) -> None:
    host = start(torch_npu_import="aborts")
    told = on(host, SET_ENV + IMPORT)
    assert told.returncode == 128 + 6
    assert told.stderr.startswith("EH9999: Inner Error!\n")
    host.set_state(torch_npu_import="static-tls")
    told = on(host, SET_ENV + IMPORT)
    assert told.returncode == 1
    library = told.stderr.splitlines()[-1].removeprefix("ImportError: ").partition(": ")[0]
    assert told.stderr.endswith(f"ImportError: {library}: cannot allocate memory in static TLS block\n")
    assert on(host, f"{SET_ENV} LD_PRELOAD={library} {IMPORT}").stdout == "2.13.0\n"
    host.set_state(torch_npu_import="hangs")
    with pytest.raises(subprocess.TimeoutExpired):
        on(host, SET_ENV + "exec " + IMPORT, seconds=0.7)
    host.set_state(torch_npu_import="works")
    assert on(host, SET_ENV + IMPORT).stdout == "2.13.0\n"


def test_versions_that_do_not_fit(start: Start) -> None:
    host = start(cann=("7.0.0",), versions={"torch": "2.1.0", "torch_npu": "2.5.1", "transformers": "4.30.0"})
    names = "('torch', 'torch_npu', 'transformers')"
    code = f"import torch, torch_npu, importlib.metadata as m; print(*map(m.version, {names}), torch.__version__)"
    assert on(host, f'{SET_ENV} python3 -c "{code}"').stdout == "2.1.0 2.5.1 4.30.0 2.1.0\n"
    assert "7.0.0" in on(host, SET_ENV + "cat $ASCEND_HOME_PATH/version.cfg").stdout
    host.set_state(versions={})
    bare = code.replace(names, names.replace(", 'transformers'", ""))
    assert on(host, f'{SET_ENV} python3 -c "{bare}"').stdout == "2.13.0 2.13.0 2.13.0+light\n"
    assert "PackageNotFoundError" in on(host, f'{SET_ENV} python3 -c "{code}"').stderr


ACTIVATE = {
    "miniconda3/envs/ascend": ". miniconda3/etc/profile.d/conda.sh; conda activate ascend",
    "venv": ". venv/bin/activate",
    ".venv": ". ./.venv/bin/activate",
    ".pyenv/versions/3.11.9": "PATH=$HOME/.pyenv/versions/3.11.9/bin:$PATH",
}


@pytest.mark.parametrize("place", ACTIVATE)
def test_the_only_python_with_the_runtime_is_one_of_the_users(simhost: Start, runtime: str, place: str) -> None:
    host = simhost(runtime=runtime, server="asyncssh", environments=(place,))
    code = 'import sys, importlib.util as u; print(sys.prefix, u.find_spec("torch_npu") is not None)'
    for program in ("python", "python3"):
        told = on(host, f"{place}/bin/{program} -c '{code}'")
        assert told.stdout.split() == [str(host.home / place), "True"], told.stderr
    assert on(host, f"python3 -c '{code}'").stdout.split() == [str(host.root), "False"]
    assert on(host, f"{ACTIVATE[place]}; command -v python3").stdout == f"{host.home / place}/bin/python3\n"
    host.set_state(environments=())
    assert not (host.home / place).exists()
    assert on(host, f"python3 -c '{code}'").stdout.split() == [str(host.root), "True"]


def test_sudo_asks_for_a_password(start: Start) -> None:
    host = start(sudo="no-terminal")
    told = on(host, "sudo id")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("sudo: a terminal is required to read the password;")
    assert on(host, "sudo -n id").stderr == "sudo: a password is required\n"
    host.set_state(sudo="waits")
    assert on(host, "sudo -n id").stderr == "sudo: a password is required\n"
    waiting = on(host, "exec 3<&0; (sleep 0.3 | sudo id; echo after $?) 2>&1")
    assert waiting.stdout == f"[sudo] password for {host.user}: after 1\n"
    host.set_state(sudo="of the machine")
    assert not (host.root / "bin" / "sudo").exists()


@needs_root
def test_a_disk_without_inodes(start: Start) -> None:
    host = start(disk_inodes=3)
    assert on(host, f"cd {host.workdir} && mkdir a b").returncode == 0
    told = on(host, f"touch {host.workdir}/c")
    assert told.returncode != 0
    assert "No space left on device" in told.stderr


@needs_root
def test_a_work_directory_with_another_name_that_is_a_link(start: Start) -> None:
    host = start(workdir="data@1:00/work", workdir_link=True, disk_mb=1)
    assert host.inventory_entry()["workdir"] == str(host.root / "data@1:00" / "work")
    assert on(host, f"cd {host.workdir} && pwd -P").stdout == f"{host.root}/storage\n"
    assert on(host, f"head -c 2000000 /dev/zero > {host.workdir}/x").returncode != 0


def strange(start: Start, kind: str, **options: object) -> SimHost:
    """A host whose work directory is strange; skips where that cannot be."""
    try:
        return start(disk=kind, **options)
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(str(error))


SQLITE = "python3 -c \"import sqlite3; c = sqlite3.connect('x.db'); c.execute('create table t (a)'); c.commit()\""


@needs_root
@pytest.mark.parametrize("kind", ["usual", "squashed", "no-rename", "no-locks"])
def test_a_work_directory_that_is_strange_in_one_way_only(start: Start, kind: str) -> None:
    host = strange(start, kind)
    work = f"cd {host.workdir} && "
    assert (
        on(host, work + "mkdir -m 700 a && mkdir a/b && echo one > a/f && echo two >> a/f && ln -s f a/l").returncode
        == 0
    )
    assert on(
        host, work + "cat a/l; ls -A a; stat -c %a a; stat -c '%a %s' a/f; rm a/l; rmdir a/b; ls -A a"
    ).stdout == ("one\ntwo\nb\nf\nl\n700\n644 8\nf\n")
    owner = "65534 65534\n" if kind == "squashed" else "0 0\n"
    assert on(host, work + "stat -c '%u %g' a/f").stdout == owner
    renamed = on(host, work + "mv -T a/f a/g && cat a/g && mkdir b && mv b c && ls")
    assert (renamed.returncode == 0) == (kind != "no-rename"), renamed.stderr
    for command in (SQLITE, "flock lock true"):
        locked = on(host, work + command)
        assert (locked.returncode == 0) == (kind != "no-locks"), locked.stderr
    fill = "python3 -c \"open('n', 'wb').write(bytes(range(256)) * 4096)\""
    assert on(host, f"{work}{fill} && wc -c < n && head -c 300000 n | tail -c 1 | od -An -tu1").stdout.split() == [
        "1048576",
        "223",
    ]
    assert (
        on(host, work + "truncate -s 5 n && chmod 640 n && touch -d @1000 n && stat -c '%a %s %Y' n").stdout
        == "640 5 1000\n"
    )
    assert on(host, work + "exec 5<>n; rm n; echo more >&5; stat -Lc %h /dev/fd/5").stdout == "0\n"
    assert (host.workdir / "lock").exists() or kind == "no-locks"


@needs_root
def test_a_work_directory_that_everybody_may_write_to(start: Start) -> None:
    host = strange(start, "open")
    told = on(host, f"cd {host.workdir} && umask 027 && mkdir a && echo > a/f && stat -c %a a a/f")
    assert told.stdout == "772\n662\n"


@needs_root
def test_a_strange_disk_can_be_small_and_goes_with_the_host(start: Start) -> None:
    host = strange(start, "squashed", disk_mb=1)
    assert "No space left" in on(host, f"head -c 2000000 /dev/zero > {host.workdir}/x").stderr
    assert str(host.workdir) in Path("/proc/mounts").read_text()
    host.stop()
    assert str(host.workdir) not in Path("/proc/mounts").read_text()


def test_a_set_env_that_never_ends(start: Start) -> None:
    host = start(set_env_faults=("hangs",))
    with pytest.raises(subprocess.TimeoutExpired):
        on(host, SET_ENV + "echo end", seconds=0.5)
    host.stop()


@needs_root
@pytest.mark.parametrize(
    ("kind", "fault", "word"),
    [
        ("squashed", "strict_owners", "owner is neither root nor the current user."),
        ("squashed", "", ""),
        ("no-locks", "", "Failed to export CANN TEXT Profiling data."),
    ],
)
def test_what_the_profiler_makes_of_a_strange_disk(start: Start, kind: str, fault: str, word: str) -> None:
    host = strange(start, kind, env={"SIMHOST_LIGHT_FAULTS": fault})
    code = """
import torch, torch_npu
from torch_npu import profiler as p
config = p._ExperimentalConfig(profiler_level=p.ProfilerLevel.Level1, aic_metrics=p.AiCMetrics.PipeUtilization)
activities = [p.ProfilerActivity.CPU, p.ProfilerActivity.NPU]
with p.profile(activities=activities, on_trace_ready=p.tensorboard_trace_handler("out"), experimental_config=config):
    torch.ones(4, device="npu:0") + 1
"""
    told = on(host, f"{SET_ENV} cd {host.workdir}; umask 027; python3 - ", code)
    assert told.returncode == 0, told.stderr
    assert word in told.stdout
    assert len(list(host.workdir.rglob("kernel_details.csv"))) == (not word)
