"""The environment of a run: that of the user's terminal, found without one, captured once, given exactly."""

from __future__ import annotations

import json
import os
import signal
import stat
import tarfile
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness import Outcome, Tool, command_line, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]

# A model that tells its environment in the log, by bytes, and looks for a secret where everybody can see it.
TELLS = """
import glob, json, os
import torch

def load(device, options):
    print("told " + json.dumps({name.hex(): value.hex() for name, value in os.environb.items()}), flush=True)
    secret = os.environb.get(b"MY_TOKEN")
    for path in glob.glob("/proc/[0-9]*/cmdline") if secret else []:
        try:
            with open(path, "rb") as file:
                said = file.read()
        except OSError:
            continue
        assert secret not in said, path
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""
VALUE = "s3cr3t-4711"


def run(tool: Tool, host: SimHost, **keys: Any) -> Outcome:
    (tool.directory / "tells.py").write_text(TELLS)
    tool.inventory(host, models={"tells": {"adapter": "./tells.py"}}, entries={host.name: keys})
    return tool.collect(model="tells")


def log(tool: Tool, outcome: Outcome) -> str:
    assert outcome.status == 0, outcome.err
    return (tool.directory / outcome.document["directory"] / "run.log").read_text()


def given(tool: Tool, host: SimHost, **keys: Any) -> dict[str, bytes]:
    """The environment that a run has on this host."""
    (line,) = [line for line in log(tool, run(tool, host, **keys)).splitlines() if line.startswith("told ")]
    return {bytes.fromhex(name).decode(): bytes.fromhex(value) for name, value in json.loads(line[5:]).items()}


def facts(tool: Tool, host: SimHost, **keys: Any) -> dict[str, Any]:
    tool.inventory(host, entries={host.name: keys})
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    return outcome.document["facts"]  # type: ignore[no-any-return]


# --- CANN and the driver ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "latest", "newest"),
    [
        (("8.1.RC1", "8.3.RC1", "8.2.RC1"), "8.1.RC1", "8.3.RC1"),
        (("8.0.RC3", "8.0.0"), "8.0.RC3", "8.0.0"),
        (("8.3.RC1", "8.5.0"), None, "8.5.0"),
        (("9.1.0", "8.5.0"), "8.5.0", "9.1.0"),
    ],
)
def test_of_several_canns_the_newest_is_taken_and_named(
    host: Start, tool: Tool, versions: tuple[str, ...], latest: str | None, newest: str
) -> None:
    ascend = host(cann=versions, cann_latest=latest)
    tool.inventory(ascend)
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert outcome.document["versions"]["cann"] == newest
    assert f"CANN {newest} ({ascend.home}/Ascend/" in outcome.err
    (report,) = tool("doctor", "--host", "ascend01", "--json").document["hosts"]
    assert {found["version"] for found in report["environment"]["cann"]["found"]} == set(versions)
    assert (
        f"the newest of {', '.join(dict.fromkeys(f['version'] for f in report['environment']['cann']['found']))}"
        in str(report["checks"])
    )


def test_what_the_inventory_names_is_loaded_instead(host: Start, tool: Tool) -> None:
    ascend = host(cann=("8.1.RC1", "8.3.RC1"))
    older = "~/Ascend/ascend-toolkit/8.1.RC1/bin/setenv.bash"
    assert facts(tool, ascend, setup=older)["cann_version"] == "8.1.RC1"


def test_without_set_env_the_toolkits_own_script_serves(host: Start, tool: Tool) -> None:
    ascend = host(set_env=False)
    (script,) = facts(tool, ascend)["setup"]
    assert script == f"{ascend.home}/Ascend/ascend-toolkit/8.3.RC1/bin/setenv.bash"


def test_a_session_that_has_cann_already_keeps_it(host: Start, tool: Tool) -> None:
    ascend = host(cann=("8.1.RC1", "8.3.RC1"))
    toolkit = f"{ascend.home}/Ascend/ascend-toolkit/8.1.RC1"
    own = {
        "ASCEND_TOOLKIT_HOME": toolkit,
        "ASCEND_HOME_PATH": toolkit,
        "PATH": f"{toolkit}/bin:{ascend.root}/bin:/usr/bin:/bin",
    }
    ascend.set_state(env={**ascend.knobs.env, **own})
    found = facts(tool, ascend)
    assert (found["cann_version"], found["setup"]) == ("8.1.RC1", [])


@pytest.mark.parametrize(
    "faults", [["unset"], ["errexit"], ["returns"], ["prints"], ["reads"]], ids=lambda faults: faults[0]
)
def test_scripts_are_sourced_as_the_users_shell_would(host: Start, tool: Tool, faults: list[str]) -> None:
    tool.inventory(host(set_env_faults=faults, env={"SHELLOPTS": "braceexpand:errexit:hashall:nounset"}))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err


def test_a_set_env_that_calls_exit_is_named(host: Start, tool: Tool) -> None:
    ascend = host(set_env_faults=["exits"])
    tool.inventory(ascend)
    one_error(tool.collect(), 5, message=r"ascend-toolkit/set_env\.sh ended the shell", remedy="must not call exit")


def test_a_set_env_that_overwrites_takes_nothing_from_the_session(host: Start, tool: Tool) -> None:
    own = {"LD_LIBRARY_PATH": "/lib/mine:/lib/too", "PYTHONPATH": "/mine"}
    had = given(tool, host(set_env_faults=["overwrites"], env=own))
    for name, value in own.items():
        folders = had[name].decode().split(":")
        assert folders[-len(value.split(":")) :] == value.split(":")
        assert any("ascend-toolkit" in folder for folder in folders)


def test_lists_of_the_inventory_are_added_and_replace_nothing(host: Start, tool: Tool) -> None:
    env = {"LD_LIBRARY_PATH": "/lib/mine", "PYTHONPATH": "/mine:/and/mine", "MINE": "1"}
    had = given(tool, host(env={"LD_LIBRARY_PATH": "/lib/theirs"}), env=env)
    for name, ours in (("LD_LIBRARY_PATH", ["/lib/theirs", "/lib/mine"]), ("PYTHONPATH", ["/mine", "/and/mine"])):
        folders = had[name].decode().split(":")
        assert "ascend-toolkit" in folders[0]
        assert [folder for folder in folders if folder in ours] == ours
    assert had["MINE"] == b"1"


def test_the_drivers_libraries_are_found_without_a_script(host: Start, tool: Tool) -> None:
    tool.inventory(mounted(host, driver=True, libraries=["libascend_hal.so"]))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err


def test_nnal_is_loaded_too(host: Start, tool: Tool) -> None:
    ascend = host(nnal=True, libraries=["libatb.so"])
    assert facts(tool, ascend)["setup"][1:] == [f"{ascend.home}/Ascend/nnal/atb/set_env.sh"]
    assert tool.collect().status == 0


@pytest.mark.parametrize(
    ("library", "remedy"),
    [
        ("libascend_hal.so", "driver.*lib64"),
        ("libatb.so", "nnal/atb/set_env.sh"),
        ("libge_runner.so", "toolkit.*set_env.sh"),
    ],
)
def test_a_missing_library_is_told_with_its_package(
    host: Start, tool: Tool, assert_clean: Callable[..., None], library: str, remedy: str
) -> None:
    ascend = host(libraries=[library])
    tool.inventory(ascend)
    one_error(tool.collect(), 5, message=f"cannot import torch_npu .*{library}: cannot open shared", remedy=remedy)
    assert_clean(ascend)


# --- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("miniconda3/envs/ascend", "conda environment"),
        ("venv", "venv"),
        ("project/.venv", "venv"),
        (".pyenv/versions/3.11.9", "pyenv version"),
    ],
)
def test_the_users_python_is_found(host: Start, tool: Tool, runtime: str, place: str, kind: str) -> None:
    ascend = host(runtime=runtime, environments=[place])
    tool.inventory(ascend)
    outcome = tool.collect("--phase", "prefill")
    assert outcome.status == 0, outcome.err
    assert f"{ascend.home}/{place}/bin/python3 ({kind}: {ascend.root}/bin/python3 has no torch_npu)" in outcome.err


def test_the_chosen_python_is_the_first_on_path(host: Start, tool: Tool) -> None:
    ascend = host(environments=["venv"])
    assert given(tool, ascend)["PATH"].decode().startswith(f"{ascend.home}/venv/bin:")


@pytest.mark.parametrize("python3", ["missing", "old"])
def test_a_conda_environment_serves_where_the_system_has_no_good_python(host: Start, tool: Tool, python3: str) -> None:
    ascend = host(environments=["miniconda3/envs/ascend"], python3=python3)
    assert facts(tool, ascend)["python"] == f"{ascend.home}/miniconda3/envs/ascend/bin/python3"


def test_a_named_python_is_taken_at_its_word(host: Start, tool: Tool) -> None:
    ascend = host(environments=["venv"])
    tool.inventory(ascend, entries={"ascend01": {"python": "python3"}})
    better = f"{ascend.home}/venv/bin/python3"
    one_error(tool.collect(), 5, message="python3 has no torch and torch_npu", remedy=f"these have it: {better}")


# --- given exactly ----------------------------------------------------------------------------------------------------

ODD = {
    "QUOTES": 'it\'s "quoted" $HOME `pwd` \\',
    "LINES": "one\ntwo\n\nfour ",
    "UMLAUT": "Grüße, 昇腾",
    "EMPTY": "",
    "GLOB": "* ? [a]",
}


@pytest.mark.parametrize(
    "locale",
    [{}, {"LC_ALL": "C"}, {"LC_ALL": "en_US.ISO-8859-1"}, {"LANG": "C.UTF-8"}],
    ids=["none", "C", "latin", "utf-8"],
)
def test_the_run_has_the_environment_of_the_session(host: Start, tool: Tool, locale: dict[str, str]) -> None:
    had = given(tool, host(env={**ODD, **locale}), env={"MINE": "für's Protokoll", "EMPTY_TOO": ""})
    wanted = {**ODD, **locale, "MINE": "für's Protokoll", "EMPTY_TOO": ""}
    assert {name: had[name].decode() for name in wanted} == wanted


def test_variables_that_ruin_a_profile_do_no_harm(host: Start, tool: Tool) -> None:
    harmful = {"PROFILING_MODE": "dynamic", "PROFILER_SAMPLECONFIG": "{}", "ASCEND_WORK_PATH": "/nowhere/at/all"}
    had = given(tool, host(env=harmful), env=harmful)
    assert "PROFILING_MODE" not in had
    assert "PROFILER_SAMPLECONFIG" not in had
    assert had.get("ASCEND_WORK_PATH") != b"/nowhere/at/all"


def test_secrets_stay_in_the_environment(host: Start, tool: Tool) -> None:
    ascend = host(env={"MY_TOKEN": VALUE, "PROXY": f"http://me:{VALUE}@proxy:8080"})
    keys = {"env": {"DB_PASSWORD": VALUE}}
    outcome = run(tool, ascend, **keys)
    assert outcome.status == 0, outcome.err  # and the model saw it in no argument of anybody
    texts = [outcome.out, outcome.err]
    for arguments in (["--dry-run"], ["--dry-run", "--json"]):
        texts += list(said(tool("--host", "ascend01", "--model", "tells", *arguments)))
    for arguments in ([], ["--json"]):
        texts += list(said(tool("doctor", "--host", "ascend01", "--model", "tells", *arguments)))
    assert [text for text in texts if VALUE in text] == []
    directory = tool.directory / outcome.document["directory"]
    with tarfile.open(directory / "profile_l1.tar.gz") as archive:
        members = [archive.extractfile(member) for member in archive if member.isfile()]
        assert not any(VALUE.encode() in member.read() for member in members if member)
    own = {"run.log"}  # what the model itself prints is its own
    assert not [p for p in directory.iterdir() if p.name not in own and VALUE.encode() in p.read_bytes()]


def said(outcome: Outcome) -> tuple[str, str]:
    assert outcome.status == 0, outcome.err
    return outcome.out, outcome.err


def test_what_stays_on_the_host_is_the_owners_and_holds_no_secret(host: Start, tool: Tool) -> None:
    ascend = host(umask=0, env={"MY_TOKEN": VALUE})
    (tool.directory / "raises.py").write_text("def load(d, o): raise RuntimeError('no')\ndef forward(s): pass\n")
    tool.inventory(ascend, models={"raises": {"adapter": "./raises.py"}}, entries={"ascend01": {"env": {"KEY": VALUE}}})
    assert tool.collect(model="raises").status == 6
    (there,) = ascend.workdir.glob("runs/*")
    assert stat.S_IMODE((there / "plan.json").stat().st_mode) == 0o600
    for path in ascend.workdir.rglob("*"):
        assert not path.lstat().st_mode & 0o022, path
        assert path.is_dir() or VALUE.encode() not in path.read_bytes(), path


def test_a_library_to_preload_reaches_the_run(host: Start, tool: Tool, assert_clean: Callable[..., None]) -> None:
    ascend = host(torch_npu_import="static-tls")
    tool.inventory(ascend)
    error = one_error(tool.collect(), 5, message="static TLS block", remedy=r"LD_PRELOAD: .*libgomp-804f19d4\.so")
    assert_clean(ascend)
    library = error["remedy"].partition("LD_PRELOAD: ")[2].partition("}")[0]
    preload = str(tool.directory / os.path.basename(library))
    os.symlink("/nowhere.so", preload)  # the loader only warns
    assert run(tool, ascend, env={"LD_PRELOAD": preload}).status == 0


def test_nobody_waits_for_a_password(host: Start, tool: Tool) -> None:
    ascend = host(sudo="waits")
    (ascend.home / "my_env.sh").write_text("sudo true\n. ~/Ascend/ascend-toolkit/set_env.sh\n")
    tool.inventory(ascend, entries={"ascend01": {"setup": "~/my_env.sh"}})
    assert tool.collect(timeout=60).status == 0


def mounted(host: Start, **options: Any) -> SimHost:
    if os.getuid() != 0:
        pytest.skip("a /usr/local of the host's own needs root")
    return host(**options)


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_an_interrupt_ends_a_script_that_hangs(host: Start, tool: Tool, transport: str) -> None:
    ascend = host()
    (ascend.home / "my_env.sh").write_text("sleep 600\n")
    tool.inventory(ascend, entries={"ascend01": {"setup": "~/my_env.sh", "transport": transport}})
    process = tool.start("--host", "ascend01", "--model", "llama")
    until = time.monotonic() + 20
    while not any(b"sleep" in command_line(pid) for pid in ascend.processes()):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert gone(ascend.processes, patience_s=10)
