"""Ansible reads the same inventories: the same hosts in the same groups with the same variables, and the same patterns.

`env` and `models` are merged here, and replaced by Ansible, unless ANSIBLE_HASH_BEHAVIOUR says merge: that is how they
are compared. What cannot be compared: a mapping inside a model is one value for us, and is merged by Ansible then; an
empty `env` takes all back that is weaker, where Ansible has merged some of that with what is stronger before. No
inventory that is made by chance has either.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from collect_remote.errors import UsageError
from collect_remote.inventory import Inventory, load
from collect_remote.inventory.variables import KEYS

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv" / "ansible" / "bin"
Files = Mapping[str, Any]

pytestmark = pytest.mark.skipif(
    not (VENV / "ansible-inventory").exists(),
    reason=f"no ansible-core in {VENV.parent}: ./scripts/test installs it where PyPI has it",
)


def ansible(program: str, *arguments: str, directory: Path, merge: bool = False, **options: Any) -> str:
    """What a program of Ansible's venv prints, without any setting of this machine, where no inventory lies about."""
    (directory / "elsewhere").mkdir(exist_ok=True)
    (directory / "elsewhere" / "ansible.cfg").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_HOME": str(directory / "home"), "LC_ALL": "C.UTF-8"}
    environment |= {"ANSIBLE_HASH_BEHAVIOUR": "merge"} if merge else {}
    done = subprocess.run(
        [VENV / program, *arguments],
        cwd=directory / "elsewhere",
        env=environment,
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask_many(cases: Sequence[Mapping[str, Any]], directory: Path) -> list[Any]:
    """The answers of one process to many questions."""
    program = str(Path(__file__).with_name("ansible_says.py"))
    return list(json.loads(ansible("python", program, directory=directory, merge=True, input=json.dumps(cases))))


def write(directory: Path, files: Files) -> None:
    """Texts as they are, anything else as JSON or YAML."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        dump = json.dumps if path.suffix == ".json" else yaml.safe_dump
        path.write_text(content if isinstance(content, str) else dump(content, sort_keys=False))


def ours(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """The variables of every host as the inventory says them."""
    return {
        host: known({key: node.text if key == "port" else node.plain() for key, node in said.items()})
        for host, said in inventory.said.items()
    }


def known(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ours, without what was taken back. Numbers in `env` are text, as is a port."""
    found = {key: variables[key] for key in KEYS if variables.get(key) is not None}
    if "env" in found:
        found["env"] = {key: str(value) for key, value in found["env"].items() if value is not None}
    if "port" in found:
        found["port"] = str(found["port"])
    if "models" in found:
        models = {name: fields for name, fields in found["models"].items() if fields is not None}
        found["models"] = {
            name: {key: value for key, value in fields.items() if value is not None} for name, fields in models.items()
        }
    return found


def members(groups: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    return {group: set(hosts) for group, hosts in groups.items()}


# --- inventories as people write them ---------------------------------------------------------------------------------

NESTED = """
all:
  vars: {user: everyone, env: {A: 1, B: 1}, models: {llama: {adapter: llama, batch: 1, layers: 2}}}
  hosts: {lone: , twice: }
  children:
    site:
      vars: {workdir: /site}
      children:
        rack1: {hosts: {'n[01:04]': {port: 22}, 'm[a:c]': }, vars: {workdir: /rack1, env: {B: 2}}}
        rack2: {hosts: {'n[03:09:3]': , twice: }, vars: {workdir: /rack2, models: {llama: {batch: 4, layers: }}}}
rack1: {vars: {ansible_group_priority: 7}}
ungrouped: {vars: {user: nobody}, hosts: {twice: , n01: }}
"""
INVENTORIES: dict[str, tuple[list[str], Files]] = {
    "nested groups, ranges, priorities, hosts without a group": (["inv.yaml"], {"inv.yaml": NESTED}),
    "variables beside it": (
        ["inv.yaml"],
        {
            "inv.yaml": NESTED,
            "group_vars/all.yml": {"user": "beside", "workdir": "/beside"},
            "group_vars/site/2.yaml": {"workdir": "/two"},
            "group_vars/site/1.yml": {"workdir": "/one", "python": "/one"},
            "group_vars/site/deep/0.json": {"python": "/deep"},
            "group_vars/site/deep.d/0.yml": {"python": "/never"},
            "group_vars/site/3.txt": "python: /never",
            "group_vars/site/.9.yml": {"python": "/never"},
            "group_vars/site/9.yml~": {"python": "/never"},
            "group_vars/rack2": {"env": {"A": 2, "B": None}},
            "group_vars/ungrouped.json": '{\n\t"user": "alone"\n}\n',
            "group_vars/empty.yml": "",
            "host_vars/n03": {"workdir": "/n03", "models": {"llama": {"batch": 8}}},
            "host_vars/n03.yml": {"workdir": "/never"},
            "host_vars/lone.yaml": "",
        },
    ),
    "several files": (
        ["b/two.yaml", "a/one.yaml"],
        {
            "a/one.yaml": {"site": {"hosts": {"h": {"port": 1}, "one": None}, "vars": {"user": "a", "python": "/a"}}},
            "a/group_vars/site.yml": {"workdir": "/a"},
            "b/two.yaml": {
                "site": {
                    "hosts": {"h": {"port": 2}},
                    "vars": {"user": "b"},
                    "children": {"deep": {"hosts": {"h": None}}},
                }
            },
            "b/group_vars/site.yml": {"workdir": "/b"},
            "b/group_vars/deep.yml": {"workdir": "/deeper, and in a weaker directory"},
        },
    ),
    "a directory of them": (
        ["many"],
        {
            "many/b.yml": {"x": {"hosts": {"h": {"port": 2}}}},
            "many/a.yaml": {"x": {"hosts": {"h": {"port": 1}, "i": None}}},
            "many/below/c.json": {"y": {"hosts": {"h": None}}},
            "many/README.md": "- no inventory",
            "many/.hidden.yml": "- no inventory",
            "many/old.yml.bak": "- no inventory",
            "many/group_vars/y.yml": {"user": "y"},
            "many/below/group_vars/y.yml": {"user": "not read"},
            "many/host_vars/i.yml": {"user": "i"},
        },
    ),
    "what ansible-inventory writes itself": (
        ["inv.yaml"],
        {"inv.yaml": {"all": {"children": {"ungrouped": {"hosts": {"h": None}}}}}},
    ),
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_ansible_inventory_lists_the_same(name: str, tmp_path: Path) -> None:
    sources, files = INVENTORIES[name]
    write(tmp_path, files)
    inventory = load(*(tmp_path / source for source in sources))
    named = [argument for source in sources for argument in ("-i", str(tmp_path / source))]
    listed = json.loads(ansible("ansible-inventory", *named, "--list", directory=tmp_path, merge=True))
    (whole,) = ask_many([{"sources": [str(tmp_path / source) for source in sources], "patterns": []}], tmp_path)
    assert members(inventory.groups) == members(whole["groups"])
    said = listed["_meta"]["hostvars"]
    assert ours(inventory) == {host: known(said.get(host, {})) for host in whole["groups"]["all"]}


def test_what_is_not_merged_is_the_same_as_ansible_reads_it_by_default(tmp_path: Path) -> None:
    sources, files = INVENTORIES["variables beside it"]
    write(tmp_path, files)
    listed = json.loads(ansible("ansible-inventory", "-i", str(tmp_path / sources[0]), "--list", directory=tmp_path))
    for host, said in ours(load(tmp_path / sources[0])).items():
        theirs = known(listed["_meta"]["hostvars"][host])
        assert {**theirs, "env": 0, "models": 0} == {**said, "env": 0, "models": 0}


def test_the_names_that_ansible_uses_mean_the_same(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "inv.yaml": {
                "all": {
                    "vars": {"ansible_user": "me", "ansible_port": 2222, "ansible_python_interpreter": "auto_silent"},
                    "hosts": {"h": {"ansible_host": "192.0.2.7", "ansible_connection": "ssh"}, "i": None},
                }
            },
            "host_vars/i.yml": {"ansible_user": "you", "ansible_ssh_extra_args": "-J gate", "ansible_port": "22"},
        },
    )
    listed = json.loads(ansible("ansible-inventory", "-i", str(tmp_path / "inv.yaml"), "--list", directory=tmp_path))
    inventory = load(tmp_path / "inv.yaml")
    for host in inventory.by_name.values():
        said = listed["_meta"]["hostvars"][host.name]
        assert (host.user, host.port) == (said["ansible_user"], int(said["ansible_port"]))
        assert host.address == said.get("ansible_host", host.name)
        assert (host.jump and f"-J {host.jump}") == said.get("ansible_ssh_extra_args")
        assert (host.transport == "openssh") == ("ansible_connection" in said)
        assert host.python is None


def test_the_example_of_the_project(tmp_path: Path) -> None:
    source = str(ROOT / "inventory.yaml")
    listed = json.loads(ansible("ansible-inventory", "-i", source, "--list", directory=tmp_path, merge=True))
    assert ours(load(source)).keys() == listed["_meta"]["hostvars"].keys()


# --- patterns ---------------------------------------------------------------------------------------------------------

PATTERNS = [
    "all",
    "*",
    "rack1",
    "rack1:rack2",
    "rack1,rack2",
    "site:&rack1:!n01",
    "!rack1",
    "&rack2",
    "n0?",
    "n*:!~n0[12]",
]
PATTERNS += [
    "~(n|m)",
    "rack1[0]",
    "rack1[-1]",
    "rack1[1:2]",
    "rack1[2:]",
    "rack?[0]",
    "ungrouped",
    "m[ab]",
    "rack1[5:99]",
]
PATTERNS += ["n01:m*", "!n01:rack1", "rack1[0:1]:&n01", "~^rack", "~rack[12]:!rack1"]


def test_patterns_mean_the_same_hosts(tmp_path: Path) -> None:
    write(tmp_path, {"inv.yaml": NESTED})
    inventory = load(tmp_path / "inv.yaml")
    (said,) = ask_many([{"sources": [str(tmp_path / "inv.yaml")], "patterns": PATTERNS}], tmp_path)
    for pattern, hosts in said["patterns"].items():
        assert {host.name for host in inventory.select(pattern)} == set(hosts), pattern


def test_the_command_of_ansible_lists_them_too(tmp_path: Path) -> None:
    write(tmp_path, {"inv.yaml": NESTED, "more.yaml": {"rack1": {"hosts": {"more": None}}}})
    both = ("-i", str(tmp_path / "inv.yaml"), "-i", str(tmp_path / "more.yaml"))
    pattern = "rack1:&site:!n0[12]*"
    listed = ansible("ansible", *both, pattern, "--list-hosts", directory=tmp_path).split("\n")[1:]
    chosen = load(tmp_path / "inv.yaml", tmp_path / "more.yaml").select(pattern)
    assert [host.name for host in chosen] == [line.strip() for line in listed if line]


def test_only_their_own_names_mean_the_groups_that_are_always_there(tmp_path: Path) -> None:
    """The one difference: for Ansible, `a*` is every host, because of `all`."""
    write(tmp_path, {"inv.yaml": "all: {hosts: {ascend01: , other: }}"})
    (said,) = ask_many([{"sources": [str(tmp_path / "inv.yaml")], "patterns": ["a*", "all"]}], tmp_path)
    assert set(said["patterns"]["a*"]) == set(said["patterns"]["all"]) == {"ascend01", "other"}
    assert [host.name for host in load(tmp_path / "inv.yaml").select("a*")] == ["ascend01"]


# --- any inventories --------------------------------------------------------------------------------------------------

GROUPS = ("g1", "g2", "g3", "g4", "g5")
HOSTS = ("h1", "h2", "h3", "h4")
SOURCES = (
    ["a/one.yaml"],
    ["a/one.yaml", "a/two.yaml"],
    ["b/three.yaml", "a/one.yaml"],
    ["a/one.yaml", "b", "a/two.yaml"],
    ["b", "a"],
)
BESIDE = (
    *(f"group_vars/{name}" for name in ("all.yml", "all/b.json", "all/a", "ungrouped", "all/.a.yml")),
    *(f"group_vars/{group}{tail}" for group in GROUPS for tail in (".yaml", ".yml", "/x/y.json", "/x.yml", "/x.yml~")),
    *(f"host_vars/{host}{tail}" for host in HOSTS for tail in ("", ".yml", ".json")),
)
TERMS = (*GROUPS, *HOSTS, "all", "ungrouped", "h*", "g[12]*", "~h[13]", "~g", "h?", "*2")


class Maker:
    """Inventories by chance."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def case(self) -> dict[str, Any]:
        files = {name: self.document() for name in ("a/one.yaml", "a/two.yaml", "b/three.yaml")}
        places = self.chance.sample([f"{directory}/{name}" for directory in "ab" for name in BESIDE], 12)
        apart = [name for name in places if not any(other.startswith(f"{name}/") for other in places)]
        patterns = [self.pattern() for _ in range(5)]
        files |= {name: self.variables() for name in apart}
        return {"sources": self.chance.choice(SOURCES), "files": files, "patterns": patterns}

    def document(self) -> dict[str, Any]:
        """One file: every group is named in it, with those behind it as its children at most."""
        groups = {group: self.group(GROUPS[index:]) for index, group in enumerate(GROUPS, 1)}
        return {"all": {"hosts": dict.fromkeys(HOSTS), "vars": self.variables()}, **groups}

    def group(self, behind: Sequence[str]) -> dict[str, Any]:
        priority = {"ansible_group_priority": self.chance.randint(-2, 3)} if self.chance.random() < 0.3 else {}
        return {
            "vars": {**self.variables(), **priority},
            "hosts": {host: self.variables() for host in self.some(HOSTS, 0.3)},
            "children": dict.fromkeys(self.some(behind, 0.25)),
        }

    def variables(self) -> dict[str, Any]:
        values = {
            **{key: self.word() for key in ("user", "workdir", "python")},
            "env": {variable: self.word() for variable in self.some("ABC", 0.5)},
            "models": {model: self.model() for model in self.some("mn", 0.5)},
        }
        return {key: values[key] for key in self.some(list(values), 0.4)}

    def model(self) -> dict[str, Any]:
        return {
            "adapter": "llama",
            **{field: self.maybe(self.chance.randint(1, 9)) for field in self.some(("batch", "layers"), 0.5)},
        }

    def pattern(self) -> str:
        terms = self.chance.choices(TERMS, k=self.chance.randint(1, 4))
        return ":".join(self.chance.choice(("", "", "&", "!")) + term for term in terms)

    def some(self, things: Sequence[str], share: float) -> list[str]:
        return [thing for thing in things if self.chance.random() < share]

    def word(self) -> str | None:
        return self.maybe(f"w{self.chance.randrange(1000)}")

    def maybe(self, value: Any) -> Any:
        return None if self.chance.random() < 0.1 else value


@settings(max_examples=2, deadline=None, phases=[Phase.generate])  # a batch cannot shrink: the message has its case
@given(st.integers(0, 2**32).map(Random))
def test_any_inventory_is_read_as_ansible_reads_it(chance: Random) -> None:
    cases = [Maker(chance).case() for _ in range(60)]
    with tempfile.TemporaryDirectory() as name:
        asked = []
        for number, case in enumerate(cases):
            directory = Path(name, str(number))
            write(directory, case["files"])
            sources = [str(directory / source) for source in case["sources"]]
            asked.append({"sources": sources, "patterns": case["patterns"]})
        for question, case, said in zip(asked, cases, ask_many(asked, Path(name)), strict=True):
            inventory = load(*question["sources"])
            assert members(inventory.groups) == members(said["groups"]), case
            assert ours(inventory) == {host: known(values) for host, values in said["variables"].items()}, case
            patterns = {pattern: chosen(inventory, pattern) for pattern in case["patterns"]}
            assert patterns == {pattern: set(hosts) for pattern, hosts in said["patterns"].items()}, case


def chosen(inventory: Inventory, pattern: str) -> set[str]:
    """The hosts of a pattern; a refusal means none."""
    try:
        return {host.name for host in inventory.select(pattern)}
    except UsageError:
        return set()
