"""The account on a simulated host: its login shell, the rc file that this reads, what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sessions import connected, run, shells
from simhost import SimHost

Start = Callable[..., SimHost]

# A line that only this shell understands, and what it prints.
OWN_WORDS = {
    "bash": ("[[ a == a ]] && echo ${BASH_VERSION:+yes}", b"yes\n"),
    "rbash": ("cd / 2>/dev/null || echo no", b"no\n"),
    "csh": ("if (1 == 1) echo yes", b"yes\n"),
    "tcsh": ("if (1 == 1) echo yes", b"yes\n"),
    "zsh": ("print -r -- ${ZSH_VERSION:+yes}", b"yes\n"),
    "fish": ("set x yes; echo $x", b"yes\n"),
    "dash": ("[[ a = a ]] || echo no", b"no\n"),
    "sh": ("echo ${SHELL##*/}", b"sh\n"),
}


@pytest.mark.parametrize("shell", shells("bash", "rbash", "csh", "tcsh", "zsh", "fish", "dash", "sh"))
def test_the_login_shell_runs_the_command(simhost: Start, shell: str) -> None:
    words, said = OWN_WORDS[shell]
    with connected(simhost(login_shell=shell)) as client:
        out = run(client, words)[1]
        assert out == said
        assert run(client, "cat; exit 3", b"\0 data") == (3, b"\0 data", b"")


@pytest.mark.parametrize("shell", shells("bash", "csh", "tcsh", "zsh", "fish"))
def test_it_reads_its_own_rc_file_before_a_remote_command(simhost: Start, shell: str) -> None:
    host = simhost(login_shell=shell, rc="echo from the rc file", login_noise="It's \x1b[33mnoon\x1b[0m")
    with connected(host) as client:
        noise = b"It's \x1b[33mnoon\x1b[0m\n"
        assert run(client, "echo command") == (0, noise + b"from the rc file\ncommand\n", noise)
        host.set_state(login_noise="", rc="exit 5")
        ends = shell in ("bash", "zsh")  # in the others `exit` leaves the file, not the shell
        assert run(client, "echo command") == ((5, b"", b"") if ends else (0, b"command\n", b""))
        host.set_state(rc=b"echo \xff")
        assert run(client, "true")[1] == b"\xff\n"
        host.set_state(rc="")
        assert run(client, "echo command") == (0, b"command\n", b"")
        host.set_state(rc="exit 5", login_shell="bash")
        host.set_state(rc="", login_shell=shell)
        assert run(client, "echo command") == (0, b"command\n", b"")


def test_a_shell_that_reads_no_rc_file_takes_none(simhost: Start) -> None:
    host = simhost(login_shell="dash")
    with pytest.raises(ValueError, match="dash reads no rc file"):
        host.set_state(rc="echo x")


def test_a_host_without_bash(simhost: Start) -> None:
    host = simhost(login_shell="sh", bash=False)
    with connected(host) as client:
        assert run(client, "bash -c 'echo x'")[:2] == (127, b"")
        assert run(client, "python3 -c 'print(1)' | cat")[:2] == (0, b"1\n")


def test_the_message_of_the_day_is_for_sessions_without_a_command(simhost: Start) -> None:
    host = simhost(motd="Have a nice day")
    with connected(host) as client:
        assert run(client, "echo x")[1] == b"x\n"
        channel = client.invoke_shell()
        channel.settimeout(10)
        data = b""
        while b"Have a nice day" not in data:
            block = channel.recv(1 << 16)
            assert block, data
            data += block
