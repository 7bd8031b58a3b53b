"""The survey's shell functions, and how an environment comes back: by bash itself."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collect_remote.survey import environment
from collect_remote.survey.environment import kept, masked, restore
from collect_remote.survey.script import CANN_FUNCTIONS, FUNCTIONS, HANGS_S
from collect_remote.survey.survey import cann_version
from harness import gone

OLD_TO_NEW = [
    "5.1.RC2",
    "7.0.0",
    "8.0.RC2",
    "8.0.RC3.alpha001",
    "8.0.RC3.beta1",
    "8.0.RC3",
    "8.0.0.alpha003",
    "8.0.0",
    "8.0.0.1",
    "8.0.1",
    "8.1.RC1",
    "8.3.RC1",
    "8.5.0.alpha001",
    "8.5.0-beta.1",
    "8.5.0",
    "8.10.0",
    "9.1.0-beta.3",
    "9.1.0",
    "10.0.RC1",
]


def bash(script: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"],
        input=script,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_versions_of_cann_are_ranked_by_their_age() -> None:
    asked = "\n".join(f"cr_rank {version}; echo $REPLY" for version in OLD_TO_NEW)
    ranks = bash(f"{CANN_FUNCTIONS}\n{asked}").split()
    compared = "\n".join(f"[[ {one} < {two} ]] && echo yes" for one, two in itertools.pairwise(ranks))
    assert bash(compared).split() == ["yes"] * (len(OLD_TO_NEW) - 1)
    assert bash(f'{CANN_FUNCTIONS}\ncr_rank latest; echo "[$REPLY]"') == "[]\n"


@pytest.mark.parametrize(
    ("has", "more", "then"),
    [
        ("", "/a:/b", "/a:/b"),
        ("/a:", "/b", "/a::/b"),
        ("/a:/b", "/b:/c::/a", "/a:/b:/c"),
        ("/a", "/with blank:/*", "/a:/with blank:/*"),
        ("/ab", "/a", "/ab:/a"),
    ],
)
def test_a_list_is_added_to(has: str, more: str, then: str) -> None:
    assert bash(f"{FUNCTIONS}\nPYTHONPATH='{has}'\ncr_append PYTHONPATH '{more}'\nprintenv PYTHONPATH") == then + "\n"


def test_the_driver_is_where_its_installer_wrote_down(tmp_path: Path) -> None:
    for folder in ("lib64/driver", "lib64/common"):
        (tmp_path / "place" / "driver" / folder).mkdir(parents=True)
    (tmp_path / "info").write_text(f"UserName=HwHiAiUser\nDriver_Install_Path_Param={tmp_path}/place\n")
    functions = FUNCTIONS.replace("/etc/ascend_install.info", str(tmp_path / "info"))
    lib64 = f"{tmp_path}/place/driver/lib64"
    told = bash(f"{functions}\ncr_driver\nprintenv LD_LIBRARY_PATH", {"LD_LIBRARY_PATH": f"/mine:{lib64}/common"})
    assert told == f"/mine:{lib64}/common:{lib64}:{lib64}/driver\n"


def test_exactly_the_captured_environment_comes_back() -> None:
    captured = {
        "A": "it's $HOME",
        "LINES_OF_IT": "one\ntwo",
        "LATIN": b"gr\xfc\xdfe \\x".decode("utf-8", "surrogateescape"),
        "UNICODE": "昇腾",
        "EMPTY": "",
    }
    code = "import json, os; print(json.dumps({n.hex(): v.hex() for n, v in os.environb.items()}))"
    session = {"GONE": "1", "A": "before", "SSH_CLIENT": "here", "LD_GONE": "2"}
    told = json.loads(bash(f"{restore(captured)}\n{sys.executable} -c '{code}'", session))
    found = {bytes.fromhex(n).decode(): bytes.fromhex(v).decode("utf-8", "surrogateescape") for n, v in told.items()}
    assert {name: value for name, value in found.items() if name not in ("_", "PWD", "SHLVL", "LC_CTYPE")} == {
        **captured,
        "SSH_CLIENT": "here",
    }


def test_what_is_the_sessions_own_is_not_captured() -> None:
    found = {
        "A": "1",
        "_": "x",
        "SHLVL": "1",
        "SSH_AUTH_SOCK": "/s",
        "SHELLOPTS": "errexit",
        "BASH_FUNC_f%%": "() {",
        "a.b": "1",
    }
    assert kept(found) == {"A": "1"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "WANDB_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "PGPASSFILE",
        ),
        *(
            "my_secret",
            "GITHUB_PAT",
            "SESSION_COOKIE",
            "OBS_AK",
            "OBS_SK",
            "apikey",
            "BASIC_AUTH",
            "CREDENTIALS",
            "SSHPASS",
        ),
    ],
)
def test_secrets_are_masked_by_their_names(name: str) -> None:
    assert masked({name: "value"}) == {name: environment.MASK}


@pytest.mark.parametrize(
    "name", ["PATH", "LD_LIBRARY_PATH", "HOME", "ASCEND_HOME_PATH", "KEYBOARD", "TASK_QUEUE_ENABLE"]
)
def test_other_values_are_shown(name: str) -> None:
    assert masked({name: "value"}) == {name: "value"}


def test_users_in_urls_are_masked() -> None:
    value = "http://me:pass@proxy:8080,https://token@mirror/simple http://plain/x@y"
    assert masked({"http_proxy": value}) == {
        "http_proxy": "http://***@proxy:8080,https://***@mirror/simple http://plain/x@y"
    }


CFG = "# version: 1.0\nruntime_running_version=[7.7.0.1.231:8.2.RC1]\nruntime_installed_version=[7.7.0.1.231:8.2.RC1]\n"


@pytest.mark.parametrize(
    ("place", "text", "version"),
    [
        ("/usr/local/Ascend/ascend-toolkit/8.3.RC1", CFG, "8.3.RC1"),
        ("/usr/local/Ascend/cann-8.5.0", None, "8.5.0"),
        ("/usr/local/Ascend/cann-9.1.0-beta.3", None, "9.1.0-beta.3"),
        ("/opt/cann", CFG, "8.2.RC1"),
        ("/opt/cann", "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001\n", "8.1.RC1"),
        ("/opt/cann", "Version=8.0.RC3\n", "8.0.RC3"),
        ("/opt/cann", "nothing of it", None),
        (None, None, None),
    ],
)
def test_canns_version(place: str | None, text: str | None, version: str | None) -> None:
    assert cann_version(place, text) == version


def test_the_functions_are_no_program(tmp_path: Path) -> None:
    assert bash(FUNCTIONS + CANN_FUNCTIONS, {"HOME": str(tmp_path)}) == ""


def listening(program: str) -> subprocess.Popen[str]:
    """bash as the survey has it: whoever listens keeps its input open."""
    return subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-c", program],
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


HANGS = """
cr_mark=MARK
cr_use {script}
cr_tell more
"""


@pytest.mark.parametrize("what", ["sleep 600", "(sleep 600; :) & wait", "sh -c 'sleep 600; :'", "while :; do :; done"])
@pytest.mark.parametrize("reader", ["stays", "goes"])
def test_a_script_that_hangs_is_ended_with_all_it_started(tmp_path: Path, what: str, reader: str) -> None:
    hangs = tmp_path / "hangs.sh"
    hangs.write_text(f"touch {tmp_path}/sourced\nexport MINE={tmp_path}\n{what}\n")
    limit = "1" if reader == "stays" else "600"
    assert f":-{HANGS_S}}}" in FUNCTIONS
    program = FUNCTIONS.replace(f":-{HANGS_S}}}", f":-{limit}}}") + HANGS.format(script=hangs)
    with listening(program) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        if reader == "goes":
            while not (tmp_path / "sourced").exists():
                time.sleep(0.02)
            shell.stdin.close()
        said = shell.stdout.read()
        assert shell.wait(20) == -signal.SIGKILL
    assert ("MARKhangs" in said) is (reader == "stays")
    assert "more" not in said
    assert gone(lambda: with_environment(f"MINE={tmp_path}".encode()), 5.0)


def test_a_script_that_ends_leaves_no_guard_behind(tmp_path: Path) -> None:
    (tmp_path / "fine.sh").write_text("sleep 0.2 & wait\n")
    program = f"{FUNCTIONS}\ncr_mark=MARK\nexport MINE={tmp_path}\ncr_use {tmp_path}/fine.sh\ncr_tell more"
    with listening(program) as shell:
        assert shell.stdout is not None
        said = shell.stdout.read()
    assert said.split() == ["MARKuse", f"{tmp_path}/fine.sh", "MARKused", f"{tmp_path}/fine.sh", "MARKmore"]
    assert gone(lambda: with_environment(f"MINE={tmp_path}".encode()), 5.0)


def with_environment(variable: bytes) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found
