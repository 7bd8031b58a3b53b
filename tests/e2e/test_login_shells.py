"""Login shells and what their rc files do before a command: the survey works, or one error names the cause."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from collect_remote import load_inventory
from collect_remote.errors import CollectError, EnvironmentUnfit, LoginHangs
from collect_remote.ssh import shell
from collect_remote.ssh.remote import Remote
from collect_remote.survey.survey import Facts, survey
from harness import Tool, gone, one_error
from sessions import needs_sshd, shells
from simhost import SimHost

Start = Callable[..., SimHost]

HARMLESS = {
    "bash": {
        "colours": r"printf '\033[33m*** Welcome ***\033[0m\n'",
        "NULs": r"printf 'a\0b\0\n\0'",
        "CRLF": r"printf 'Welcome\r\n\r\n'",
        "no UTF-8": r"printf '\xff\xfe\xb0\xc4\n'",
        "a megabyte": r"head -c 1000000 /dev/zero | tr '\0' x; seq 100000",
        "no line end": "echo -n 'quota: 93%'",
        "our own words": "echo '::collect-remote:: begun?'; echo -n '::collect-remote:: facts of life'",
        "stty": "stty erase ^H; mesg n; tput clear",
        "return": "return 1",
        "read": "echo -n 'Project? '; read project",
        "reads": "for i in 1 2 3 4 5 6 7 8; do read answer; done; read -n 1 key",
        "set -u": "set -u; export SHELLOPTS",
        "set -e": "set -e; export SHELLOPTS",
        "set -x": "set -x; export SHELLOPTS",
        "set -o posix": "set -o posix; export POSIXLY_CORRECT=1 SHELLOPTS",
        "BASH_ENV": "echo 'echo sourced; cat; exit 3' > ~/.env; export BASH_ENV=~/.env ENV=~/.env",
        "functions": "cat() { echo no; }; python3() { echo no; }; head() { echo no; }; export -f cat python3 head",
        "aliases": "shopt -s expand_aliases; alias cat=false python3=false bash=false head=false",
        "umask": "umask 0077",
        "cd": "cd /; export CDPATH=/tmp:/",
        "trap": "trap 'echo bye; cat' EXIT; trap '' HUP INT TERM PIPE",
        "streams": "exec 2>&1 3</dev/null; echo on stdout",
        "IFS": "export IFS=/; export GLOBIGNORE='*' PS4='$(echo no) ' TMOUT=60",
        "background": "sleep 30 </dev/null >/dev/null 2>&1 &",
    },
    "csh": {
        "noise": "echo Welcome; echo -n 'quota: 93%'; stty erase ^H",
        "read": 'echo "Project?"; set project = $<',
        "environment": "setenv BASH_ENV ~/.none; setenv SHELLOPTS nounset:errexit; cd /; umask 0",
        "aliases": "alias cat false; alias python3 false; alias bash false",
        "exit": "exit 1",
    },
    "tcsh": {
        "noise": "echo Welcome; echo -n 'quota: 93%'; stty erase ^H",
        "exit": "exit 1",
    },
    "zsh": {
        "noise": r"print -n 'quota: 93%\0'; stty erase ^H",
        "read": "read 'project?Project? '",
        "options": "setopt nounset errexit shwordsplit noclobber; cd /; umask 0",
        "functions": "cat() { echo no }; python3() { echo no }; alias -g bash=false",
        "return": "return 1",
    },
    "fish": {
        "noise": r"printf 'quota: 93%%\0'; stty erase ^H",
        "read": "read -P 'Project? ' project",
        "functions": "function cat; echo no; end; function python3; echo no; end; cd /",
        "exit": "exit 1",
    },
    "dash": {"nothing": ""},
    "sh": {"nothing": ""},
}

# (shell, rc, message, remedy)
ENDING = {
    "kill": (
        "bash",
        "kill -9 $$",
        "login of .+@ascend01 was ended by a signal without a word",
        "`kill` in its rc files",
    ),
    "exit 1": (
        "bash",
        "exit 1",
        r"login of .+@ascend01 ended \(exit status 1\) without a word from the command$",
        "rc files",
    ),
    "exit 0": ("bash", "exit 0", r"ended \(exit status 0\) without a word from the command$", "look for `exit`"),
    "exit with words": (
        "bash",
        "echo 'No login here.'; exit 1",
        r"; the last that was printed: No login here\.$",
        "rc",
    ),
    "errexit": (
        "bash",
        "set -e; ls /nonexistent",
        r"status 2\) .* printed: .*cannot access '/nonexistent'",
        "rc files",
    ),
    "another program": ("bash", "exec ls /nonexistent", r"exit status 2\).*cannot access '/nonexistent'", "`exec`"),
    "a restricted shell": ("rbash", "", r"login shell of .+@ascend01 is restricted: .*restricted$", "full shell"),
    "no PATH": ("bash", "PATH=/nonexistent", r"no bash on the PATH of .+@ascend01: .*not found", "install bash"),
    "no PATH in csh": ("csh", "setenv PATH /nonexistent", r"no bash on the PATH of .+@ascend01: .*not found", "bash"),
    "no PATH in zsh": ("zsh", "PATH=/nonexistent", r"no bash on the PATH of .+@ascend01: .*not found", "install bash"),
    "no PATH in fish": ("fish", "set PATH /nonexistent", r"no bash on the PATH of .+@ascend01: .*bash", "install bash"),
    "no output": ("bash", "exec >/dev/null 2>&1", r"ended \(exit status \d\) without a word from the command$", "rc"),
    "no input": ("bash", "exec </dev/null", r"login scripts of .+@ascend01 take the input", r"\[ -t 0 \]"),
}

HANGING = {
    "sleep": (
        "bash",
        "sleep 4",
        "are not over after 2 s: they wait for input, or hang$",
        r"`ssh .*@ascend01 true` hangs",
    ),
    "question": ("bash", "echo -n 'Sure? '; sleep 4", r"not over .* printed: Sure\?$", r"\[ -t 0 \]"),
    "endless": ("bash", "yes again", "not over after 2 s: .*; the last that was printed: a", r"\[ -t 0 \]"),
    "dots": ("bash", "for i in {1..40}; do echo -n .; sleep 0.1; done", r"not over .* printed: \.{15,}$", "ssh"),
    "questions": ("bash", 'until [ "$a" = y ]; do read a || exit; done', "not over after 2 s", "ssh"),
    "cat": ("bash", "cat", "login scripts of .+@ascend01 take the input", r"look for .*`cat`.*\[ -t 0 \]"),
    "cat, unseen": ("bash", "cat >/dev/null", "not over after 2 s: they wait for input, or hang$", r"\[ -t 0 \]"),
    "csh": ("csh", "cat", "login scripts of .+@ascend01 take the input", "cat"),
    "zsh": ("zsh", "cat", "login scripts of .+@ascend01 take the input", "cat"),
    "fish": ("fish", "cat", "login scripts of .+@ascend01 take the input", "cat"),
    "head": ("bash", "sleep 1; head -n 1", "login scripts of .+@ascend01 take the input", r"\[ -t 0 \]"),
    "another shell": ("bash", "exec dash", "login scripts of .+@ascend01 take the input", r"`exec <`"),
}


def look(host: SimHost, tool: Tool) -> Facts:
    """What a survey of `host` finds."""
    tool.inventory(host)
    known = load_inventory(tool.directory / "inventory.yaml").host(host.name)
    with Remote(known) as remote:
        return survey(remote, known, "no-agent.pyz")


def refused(host: SimHost, tool: Tool, message: str, remedy: str) -> CollectError:
    """The one error in which a survey of `host` ends; nothing of it stays there."""
    with pytest.raises(CollectError) as caught:
        look(host, tool)
    error = caught.value
    assert re.search(message, error.message), error.message
    assert re.search(remedy, error.remedy), error.remedy
    assert gone(host.processes, 15)
    return error


@pytest.mark.parametrize(
    ("name", "rc"),
    [
        pytest.param(*name.values, rc, marks=name.marks, id=f"{name.values[0]}-{what}")
        for name in shells(*HARMLESS)
        for what, rc in HARMLESS[str(name.values[0])].items()
    ],
)
def test_what_does_no_harm(host: Start, tool: Tool, name: str, rc: str) -> None:
    ascend = host(login_shell=name, rc=rc)
    facts = look(ascend, tool)
    assert facts.msprof == f"{ascend.home}/Ascend/ascend-toolkit/latest/bin/msprof"
    assert facts.workdir == str(ascend.workdir)
    assert facts.npu["info"][0] == 0
    assert facts.agent_present is False


@pytest.mark.parametrize(
    ("name", "rc", "message", "remedy"),
    [
        pytest.param(*name.values, *case[1:], marks=name.marks, id=what)
        for what, case in ENDING.items()
        for name in shells(case[0])
    ],
)
def test_what_ends_the_session_is_named(host: Start, tool: Tool, name: str, rc: str, message: str, remedy: str) -> None:
    assert type(refused(host(login_shell=name, rc=rc), tool, message, remedy)) is EnvironmentUnfit


@pytest.mark.parametrize(
    ("name", "rc", "message", "remedy"),
    [
        pytest.param(*name.values, *case[1:], marks=name.marks, id=what)
        for what, case in HANGING.items()
        for name in shells(case[0])
    ],
)
def test_what_never_ends_is_named_in_time(
    host: Start, tool: Tool, monkeypatch: pytest.MonkeyPatch, name: str, rc: str, message: str, remedy: str
) -> None:
    monkeypatch.setattr(shell, "BEGIN_S", 2.0)
    assert type(refused(host(login_shell=name, rc=rc), tool, message, remedy)) is LoginHangs


def test_a_host_without_bash(host: Start, tool: Tool) -> None:
    refused(host(login_shell="sh", bash=False), tool, r"there is no bash on the PATH of .+@ascend01", "install bash")


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LANG": "zh_CN.GB18030", "LANGUAGE": "zh"}, {"LC_ALL": "nonsense"}]
)
def test_a_locale_without_utf_8(host: Start, tool: Tool, locale: dict[str, str]) -> None:
    assert look(host(env=locale, login_noise="\u6b22\u8fce"), tool).msprof


@pytest.mark.parametrize("server", [pytest.param("openssh", marks=needs_sshd), "asyncssh"])
def test_a_banner_and_what_the_login_printed(host: Start, tool: Tool, server: str) -> None:
    ascend = host(server=server, banner="Authorised use only\n", login_noise="Hello\nquota 93%")
    tool.inventory(ascend)
    known = load_inventory(tool.directory / "inventory.yaml").host("ascend01")
    with Remote(known) as remote, remote.stream("echo to you; read line; echo got $line; return 7") as stream:
        stream.send(b"mail\n")
        lines = list(stream.lines(10))
        assert stream.status() == 7
    # What the login printed on its standard error may come later, on a stream of its own.
    assert [line for line in lines if line not in (b"Hello", b"quota 93%")] == [b"to you", b"got mail"]
    assert [line for line in stream.greeting if line][:2] == ["Hello", "quota 93%"]


@pytest.mark.parametrize(
    ("name", "rc"),
    [
        pytest.param(*name.values, rc, marks=name.marks, id=shell_name)
        for shell_name, rc in {
            "bash": "exec 2>&1; set -eu; export SHELLOPTS BASH_ENV=/nonexistent; read x; echo -n 'quota: \0'; umask 0",
            "tcsh": "echo Welcome; set project = $<",
            "fish": "echo -n Welcome; read project",
            "zsh": "print -n Welcome; read project; setopt nounset",
        }.items()
        for name in shells(shell_name)
    ],
)
def test_a_complete_collection(host: Start, tool: Tool, assert_clean: Callable[..., None], name: str, rc: str) -> None:
    ascend = host(login_shell=name, rc=rc)
    tool.inventory(ascend)
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert outcome.document["verdict"] == "valid"
    assert gone(ascend.processes)


def test_the_tool_says_it_in_two_lines(host: Start, tool: Tool, assert_clean: Callable[..., None]) -> None:
    ascend = host(rc="echo 'Password expired'; exit 1")
    tool.inventory(ascend)
    error = one_error(tool.collect(), 5, message=r"ended \(exit status 1\).*Password expired", remedy="rc files")
    assert error["kind"] == "EnvironmentUnfit"
    assert error["host"] == "ascend01"
    assert_clean(ascend)
