"""A script reaches a bash of ours whole, or not at all; and what is said when it does not."""

from __future__ import annotations

import subprocess

import pytest

from collect_remote.errors import CollectError, EnvironmentUnfit, LoginHangs
from collect_remote.ssh import shell
from sessions import shells

SCRIPT = """
echo ran
cat <<'TEXT'
$(not expanded) 'quoted' "twice" \\ ! `this`
TEXT
[ "$#" = 0 ] || return 9
read -r line
echo "got $line"
return 7
echo never
"""
RAN = b"ran\n$(not expanded) 'quoted' \"twice\" \\ ! `this`\ngot mail\n"
LOGIN = "me@ascend01"


def served(command: list[str], stdin: bytes, **options: object) -> tuple[int, bytes]:
    """(status, output) of a shell as sshd starts it."""
    done = subprocess.run(
        command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=20, **options
    )  # type: ignore[call-overload]
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", shells("sh", "dash", "bash", "zsh", "csh", "tcsh", "fish"))
def test_every_login_shell_hands_over(name: str) -> None:
    command, stdin = shell.COMMAND, shell.stdin(SCRIPT)
    status, out = served([name, "-c", command], stdin + b"mail\n")
    assert status == 7
    assert out.partition(shell.BEGUN.encode() + b"\n")[2] == RAN


@pytest.mark.parametrize("name", shells("bash", "zsh"))
def test_a_shell_in_its_place_that_reads_its_commands_hands_over_too(name: str) -> None:
    status, out = served([name], shell.stdin(SCRIPT) + b"mail\n")
    assert (status, out.partition(shell.BEGUN.encode() + b"\n")[2]) == (7, RAN)


def test_one_that_cannot_runs_nothing_of_the_script() -> None:
    status, out = served(["bash", "--restricted"], shell.stdin(SCRIPT) + b"mail\n")
    assert status != 7
    assert b"ran" not in out


def test_the_environment_changes_nothing() -> None:
    command, stdin = shell.COMMAND, shell.stdin("set -o | grep -E 'errexit|nounset|posix'; type -t cat head")
    environment = {
        "PATH": "/usr/bin:/bin",
        "SHELLOPTS": "errexit:nounset:xtrace",
        "BASH_ENV": "/nonexistent",
        "POSIXLY_CORRECT": "1",
        "BASH_FUNC_cat%%": "() { echo no; }",
        "BASH_FUNC_head%%": "() { echo no; }",
    }
    _, out = served(["sh", "-c", command], stdin, env=environment)
    assert out.decode().split(shell.BEGUN + "\n")[1].split() == [
        *("errexit", "off", "nounset", "off", "posix", "off"),
        *("file", "file"),
    ]


def test_a_script_of_which_a_part_is_missing_does_not_run_at_all() -> None:
    command, stdin = shell.COMMAND, shell.stdin(SCRIPT)
    first = stdin.index(b"# collect-remote: the script begins %d" % (len(stdin) - stdin.index(b"main()")))
    for taken in (1, 64, first):
        assert served(["bash", "-c", command], stdin[taken:] + b"mail\n")[0] == 7
    for taken in (first + 1, first + 40, first + 60, len(stdin) - 3):
        status, out = served(["bash", "-c", command], stdin[taken:] + b"mail\n")
        assert (status, out) == (1, b"\n::collect-remote:: bash\n")
    for length in (first + 50, first + 80, len(stdin) - 60, len(stdin) - 36):  # the connection broke while it was sent
        assert b"ran" not in served(["bash", "-c", command], stdin[:length])[1]


@pytest.mark.parametrize(
    ("said", "status", "kind", "message"),
    [
        ([], None, LoginHangs, "the login scripts of me@ascend01 are not over after 20 s: they wait for input"),
        (["Sure?"], None, LoginHangs, "or hang; the last that was printed: Sure?"),
        (["", shell._STARTED], None, LoginHangs, "the login scripts of me@ascend01 take the input"),
        (["", shell._STARTED], 1, EnvironmentUnfit, "the login scripts of me@ascend01 take the input"),
        (["}", "main", shell._LAST_LINE], None, LoginHangs, "the login scripts of me@ascend01 take the input"),
        ([], 0, EnvironmentUnfit, "the login of me@ascend01 ended (exit status 0) without a word"),
        (
            ["This account is currently not available."],
            1,
            EnvironmentUnfit,
            "(exit status 1) without a word from the command; the last that was printed: This account is currently not",
        ),
        (["-rbash: line 1: exec: restricted", "bye"], 1, EnvironmentUnfit, "is restricted: -rbash: line 1: exec"),
        (["sh: 1: exec: bash: not found", "bye"], 127, EnvironmentUnfit, "there is no bash on the PATH of me@ascend01"),
        (["zsh:1: command not found: bash"], 127, EnvironmentUnfit, "there is no bash on the PATH of me@ascend01"),
        (["bash: Command not found."], 1, EnvironmentUnfit, "there is no bash on the PATH of me@ascend01"),
        (["fish: Unknown command: bash", "^~~^"], 127, EnvironmentUnfit, "there is no bash on the PATH of me@ascend01"),
        (["bash: module: command not found"], 3, EnvironmentUnfit, "ended (exit status 3)"),
    ],
)
def test_the_cause_is_named(said: list[str], status: int | None, kind: type[CollectError], message: str) -> None:
    error = shell.not_begun(LOGIN, said, status)
    assert type(error) is kind
    assert message in error.message
    assert error.remedy
