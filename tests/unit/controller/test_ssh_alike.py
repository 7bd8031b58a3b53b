"""One `ssh -G` for all names that ssh_config treats alike: as many as are needed, and never another's settings."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from collect_remote.errors import ConnectError
from collect_remote.parallel import at_once
from collect_remote.ssh.ssh_alike import Answers, Said, Settings

NAMES = ["npu1", "npu2", "npu33", "gate", "192.0.2.7", "NPU1", "10.1", "b", "a", "fd00::7"]
SAID: list[Said] = [{}, {"-p": "22", "-l": "me"}, {"-l": "you", "-J": "bastion"}]
UNUSED = ("controlpath", "localcommand", "remotecommand")  # what the tool does not read

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh program here")


class Ssh:
    """`ssh -G` with one file of settings, and the names that it was asked for."""

    def __init__(self, config: Path) -> None:
        self.config, self.asked = config, list[str]()

    def __call__(self, name: str, said: Said) -> tuple[Settings, str]:
        self.asked.append(name)
        words = [word for option in said.items() for word in option]
        command = ["ssh", "-G", "-v", "-F", str(self.config), *words, "--", name]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConnectError(f"no settings for {name}")
        settings: Settings = {}
        for line in done.stdout.splitlines():
            keyword, _, value = line.partition(" ")
            if keyword not in UNUSED:
                settings.setdefault(keyword, []).append(value)
        return settings, done.stderr


@pytest.fixture
def ssh(tmp_path: Path) -> Ssh:
    return Ssh(tmp_path / "config")


@pytest.mark.parametrize(
    ("config", "shared"),
    [
        ("", True),
        ("Host npu?\n User one\nHost npu*\n Port 77\nHost *\n ConnectTimeout 7\n", True),
        ("Host npu* !npu1\n IdentityFile ~/.ssh/k\nHost=gate\n\tProxyJump = none\n", True),
        ("Host a b\n HostName a\n", True),
        ("Host *\n HostName NPU1\n", True),
        ("Host npu*\n HostName %h.example.org\n", False),
        ("Host *\n UserKnownHostsFile ~/%h\n", False),
        ("Host *\n ControlPath ~/.ssh/%r@%h\n", True),
        ("Match host npu1\n User one\n", False),
        ("Match all\n User one\n", False),
        ('Host "npu1" gate\n User one\n', False),
        ("Include more\nHost *\n User one\n", True),
        ("CanonicalizeHostname yes\nCanonicalDomains example.org\n", False),
    ],
)
def test_every_name_has_its_own_settings(config: str, shared: bool, ssh: Ssh, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host npu2 192.0.2.*\n Port 99\n")
    ssh.config.write_text(config.replace("Include more", f"Include {tmp_path}/more"))
    answers = Answers(ssh, ssh.config)
    found = {(name, number): answers.settings_of(name, said) for number, said in enumerate(SAID) for name in NAMES}
    assert (len(ssh.asked) < len(found)) == shared
    for (name, number), settings in found.items():
        assert settings == ssh(name, SAID[number])[0], (name, SAID[number])


def test_a_jump_host_is_none_of_those_behind_it(ssh: Ssh) -> None:
    ssh.config.write_text("Host *\n ProxyJump me@gate:22\n")
    shared = Answers(ssh, ssh.config)
    for name in ("npu1", "npu2", "gate", "npu3"):
        with contextlib.suppress(ConnectError):  # releases differ in what they make of a circle
            assert shared.settings_of(name, {}) == ssh(name, {})[0]
    assert ssh.asked.count("gate") == 2


def test_many_at_once_ask_once(ssh: Ssh) -> None:
    ssh.config.write_text("Host npu*\n User one\n")
    shared = Answers(ssh, ssh.config)
    names = [f"npu{number}" for number in range(40)] + [f"other{number}" for number in range(40)]
    found = at_once(lambda name: shared.settings_of(name, {}), names)
    assert [settings["hostname"] for settings in found] == [[name] for name in names]
    assert len(ssh.asked) == 2


def test_what_is_changed_is_read_again(ssh: Ssh, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "one").write_text("Host nobody\n")
    ssh.config.write_text(f"Include {tmp_path}/d/*\nUser before\n")
    shared = Answers(ssh, ssh.config)
    assert shared.settings_of("a", {})["user"] == shared.settings_of("b", {})["user"] == ["before"]
    (tmp_path / "d" / "two").write_text("User after\n")
    assert shared.settings_of("c", {})["user"] == ["after"]
    ssh.config.write_text("User again\n")
    assert shared.settings_of("a", {})["user"] == ["again"]


def test_who_waits_while_the_files_change_gets_an_answer(ssh: Ssh) -> None:
    ssh.config.write_text("User before\n")
    shared = Answers(ssh, ssh.config)
    shared.settings_of("first", {})
    begun, go_on = threading.Event(), threading.Event()

    def slowly(name: str, said: Said) -> tuple[Settings, str]:
        if name == "slow":
            begun.set()
            go_on.wait(10)
        return ssh(name, said)

    shared._ask = slowly
    found: list[Settings] = []
    asking = [
        threading.Thread(target=lambda name=name: found.append(shared.settings_of(name, {"-p": "1"})))  # type: ignore[misc]
        for name in ("slow", "waits")
    ]
    asking[0].start()
    assert begun.wait(10)
    asking[1].start()
    ssh.config.write_text("User afterwards\n")
    shared.settings_of("other", {})
    go_on.set()
    for thread in asking:
        thread.join(10)
    assert sorted(settings["hostname"] for settings in found) == [["slow"], ["waits"]]


def test_who_waits_for_one_that_is_refused_asks_for_itself(ssh: Ssh) -> None:
    ssh.config.write_text("")
    shared = Answers(ssh, ssh.config)
    shared.settings_of("first", {})
    begun, go_on = threading.Event(), threading.Event()

    def refuse(name: str, said: Said) -> tuple[Settings, str]:
        if name == "bad":
            begun.set()
            go_on.wait(10)
            raise ConnectError("no settings for bad")
        go_on.set()
        return ssh(name, said)

    def ask_for_bad() -> None:
        with pytest.raises(ConnectError, match="for bad"):
            shared.settings_of("bad", {"-p": "1"})

    shared._ask = refuse
    bad = threading.Thread(target=ask_for_bad)
    bad.start()
    assert begun.wait(10)
    good: list[Settings] = []
    waiting = threading.Thread(target=lambda: good.append(shared.settings_of("good", {"-p": "2"})))
    waiting.start()
    go_on.set()
    waiting.join(10)
    bad.join(10)
    assert [settings["port"] for settings in good] == [["2"]]
    assert shared.settings_of("bad2", {"-p": "3"})["port"] == ["3"]
