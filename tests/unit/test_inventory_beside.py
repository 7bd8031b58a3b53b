"""Inventories of several files: host_vars and group_vars beside them, directories of them, who is stronger."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from collect_remote.errors import InventoryError
from collect_remote.inventory import Inventory, load

Write = Callable[..., Inventory]
VAULT = "$ANSIBLE_VAULT;1.1;AES256\n3633\n"
TWO = "a2: {vars: {user: group}, hosts: {x: {port: 1}, y: }}\nlone: {hosts: {z: }}\n"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write files beside TWO in inventory.yaml and load the sources, that one if none is named."""
    monkeypatch.chdir(tmp_path)

    def write(files: Mapping[str, str], *sources: str) -> Inventory:
        for name, text in {"inventory.yaml": TWO, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return load(*(sources or ["inventory.yaml"]))

    return write


def users(found: Inventory) -> dict[str, str | None]:
    return {name: host.user for name, host in found.by_name.items()}


def test_what_lies_beside_is_stronger_than_what_it_lies_beside(inventory: Write) -> None:
    files = {"group_vars/all.yml": "{user: all, workdir: /all}"}
    assert users(inventory(files)) == {"x": "all", "y": "all", "z": "all"}
    files["group_vars/a2.yml"] = "user: a2"
    assert users(inventory(files)) == {"x": "a2", "y": "a2", "z": "all"}
    files["host_vars/x.yaml"] = "port: 7"
    found = inventory(files)
    assert (found.host("x").port, found.host("x").user, found.host("x").workdir) == (7, "a2", "/all")


@pytest.mark.parametrize("name", ["a2", "a2.yml", "a2.yaml", "a2.json", "a2/any", "a2/b/c.yml", "a2/b/c/d.json"])
def test_names_of_files(inventory: Write, name: str) -> None:
    found = inventory({f"group_vars/{name}": '{"user":\n\t"beside"}' if name.endswith("json") else "user: beside"})
    assert users(found) == {"x": "beside", "y": "beside", "z": None}
    assert found.said["x"]["user"].place.startswith(f"group_vars/{name}:1:")
    assert found.cautions == ()


@pytest.mark.parametrize(
    "name", ["a2/.b.yml", "a2/b.yml~", "a2/b.txt", "a2/.d/b.yml", "a2/d.d/b.yml", ".a2.yml", "a2.yml~"]
)
def test_files_that_nobody_means(inventory: Write, name: str) -> None:
    found = inventory(
        {
            f"group_vars/{name}": "no: [mapping",
            "group_vars/README.md": "[",
            "group_vars/a2.yml.bak": "[",
            "group_vars/lone/empty": "",
        }
    )
    assert users(found) == {"x": "group", "y": "group", "z": None}
    assert found.cautions == ()


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("group_vars/a22.yml", "the inventory has no group 'a22'", "did you mean 'a2'?"),
        ("group_vars/b/x.yml", "group_vars/b is not read", "known: all, ungrouped, a2, lone"),
        ("host_vars/n1.exmaple.org", "the inventory has no host 'n1.exmaple.org'", "known: x, y, z"),
        ("host_vars/xx", "the inventory has no host 'xx'", "did you mean 'x'?"),
        ("host_vars/a2.yml", "host_vars/a2.yml is not read: 'a2' is a group", "move it to group_vars"),
        ("group_vars/x.json", "'x' is a host", "move it to host_vars"),
        ("group_vars/lone.yml", "group_vars/lone.yml is not read: group_vars/lone is there as well", "keep one"),
    ],
)
def test_what_is_not_read_is_told_and_does_no_harm(inventory: Write, name: str, message: str, remedy: str) -> None:
    found = inventory({"group_vars/lone/some.yml": "user: z", name: "whatever: [it says"})
    (caution,) = found.cautions
    assert message in caution.message and remedy in caution.remedy
    assert users(found) == {"x": "group", "y": "group", "z": "z"}


def test_a_directory_that_serves_other_inventories_too_has_one_warning(inventory: Write) -> None:
    (caution,) = inventory({f"host_vars/h{n}.yml": "" for n in range(200)}).cautions
    assert "200 files in host_vars are not read: the inventory has no hosts h0, h1, h10" in caution.message
    assert len(caution.message) < 200
    assert "misspelt" in caution.remedy


def test_paths_are_relative_to_the_file_that_says_them(inventory: Write, tmp_path: Path) -> None:
    found = inventory(
        {
            "inventory.yaml": "all: {vars: {identity_file: key, models: {m: {adapter: llama}}}, hosts: {x: , y: }}",
            "host_vars/x/own.yml": "{identity_file: key, models: {m: {adapter: ./mine.py}}}",
            "host_vars/x/mine.py": "",
        }
    )
    assert found.host("y").identity_file == tmp_path / "key"
    assert found.host("x").identity_file == tmp_path / "host_vars/x/key"
    assert found.host("x").model("m").adapter == str(tmp_path / "host_vars/x/mine.py")


def test_env_and_models_are_merged_across_files(inventory: Write) -> None:
    found = inventory(
        {
            "inventory.yaml": "all: {vars: {env: {A: 1, B: 1}, models: {m: {adapter: llama, batch: 1}}}, hosts: {x: }}",
            "group_vars/all.yml": "{env: {B: 2, C: 2}, models: {m: {layers: 2}}}",
            "host_vars/x": "{env: {C: }, models: {m: {batch: 8}}}",
        }
    )
    assert found.host("x").env == {"A": "1", "B": "2"}
    assert found.host("x").model("m").options == {"batch": 8, "layers": 2}
    places = {key: node.place for key, node in found.said["x"]["models"].value["m"].value.items()}
    assert places == {
        "adapter": "inventory.yaml:1:46",
        "batch": "host_vars/x:1:27",
        "layers": "group_vars/all.yml:1:34",
    }


def test_priority_decides_between_equally_deep_groups(inventory: Write) -> None:
    text = "{vars: {user: %s, ansible_group_priority: %s}, hosts: {h: }}"
    groups = {"a": text % ("a", 2), "b": text % ("b", "'1'"), "z": "{vars: {user: z}, hosts: {h: }}"}
    text = "".join(f"{name}: {body}\n" for name, body in groups.items())
    assert inventory({"inventory.yaml": text}).host("h").user == "a"
    assert inventory({"inventory.yaml": text + "outer: {children: {z: }}\n"}).host("h").user == "z"


def test_hosts_in_no_group_are_in_the_group_of_those(inventory: Write) -> None:
    found = inventory({"inventory.yaml": "all: {hosts: {o: , p: }}\ng: {hosts: {p: }}\nungrouped: {hosts: {p: , q: }}"})
    assert found.hosts == ("o", "p", "q")
    assert found.groups == {"all": ("o", "p", "q"), "ungrouped": ("q", "o"), "g": ("p",)}
    assert users(inventory({"inventory.yaml": "all: {hosts: {h: }}", "group_vars/ungrouped.yml": "user: u"})) == {
        "h": "u"
    }


# --- several sources --------------------------------------------------------------------------------------------------


def test_the_same_host_in_two_files_is_one_and_the_later_file_wins(inventory: Write) -> None:
    files = {"more/b.yaml": "a2: {vars: {user: more}, hosts: {x: {workdir: /w}, new: }}\nother: {children: {lone: }}"}
    found = inventory(files, "inventory.yaml", "more/b.yaml")
    assert found.hosts == ("x", "y", "z", "new")
    assert (found.host("x").port, found.host("x").workdir, found.host("x").user) == (1, "/w", "more")
    assert found.host("new").user == "more"
    assert found.groups["other"] == ("z",)
    assert inventory({}, "more/b.yaml", "inventory.yaml").host("x").user == "group"


def test_a_directory_of_inventories(inventory: Write) -> None:
    files = {
        "inv/2.yml": "a: {hosts: {h: {user: two}}}",
        "inv/1.yaml": "a: {hosts: {h: {user: one, port: 1}}}",
        "inv/below/3": "b: {hosts: {h: }}",
        "inv/group_vars/b.yml": "workdir: /b",
        "inv/below/group_vars/b.yml": "workdir: /never",
        "inv/notes.md": "[",
    }
    host = inventory(files, "inv").host("h")
    assert (host.user, host.port, host.workdir) == ("two", 1, "/b")


def test_variables_beside_several_inventories(inventory: Write) -> None:
    files = {f"{name}/i.yaml": "g: {hosts: {h: }}" for name in "ab"}
    files |= {f"{name}/host_vars/h": f"user: {name}" for name in "ab"}
    assert inventory(files, "a/i.yaml", "b/i.yaml").host("h").user == "b"
    assert inventory(files, "b", "a").host("h").user == "a"
    assert inventory(files, "a/i.yaml", "b/i.yaml", "a").host("h").user == "a"


def test_an_inventory_can_be_handed_to_another_process(inventory: Write) -> None:
    found = pickle.loads(pickle.dumps(inventory({"host_vars/x": "user: me"})))  # noqa: S301 - our own bytes
    assert found.host("x").user == "me" and found.said["x"]["user"].place == "host_vars/x:1:1"


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("group_vars/a2.yml", "user: me\n§usr: me", "unknown key 'usr' of group a2", "did you mean 'user'?"),
    ("group_vars/a2/b.json", '{"user": §7}', "user must be text", "quote it"),
    ("group_vars/a2.yml", "user: [§", "broken YAML", "brackets"),
    ("group_vars/a2.yml", "a: b\n\t§- x: {", "broken YAML", ""),
    ("group_vars/a2.yml", "§- user: me", "this item must be a mapping", "key: value"),
    (
        "group_vars/a2.yml",
        "§ansible_group_priority: 3",
        "ansible_group_priority of group a2 cannot be honoured",
        "itself",
    ),
    ("host_vars/x.yml", "§ansible_password: x", "no password is ever read", "identity_file"),
    ("host_vars/x", "port: §0", "port must be a number from 1 to 65535, not 0", "22"),
    ("host_vars/x", "models: {m: {adapter: §./gone.py}}", "there is no adapter file", "relative to the inventory file"),
    ("group_vars/all/vault.yml", "§" + VAULT, "encrypted by ansible-vault", "plain"),
    ("group_vars/a2.yml", "user: §!vault |\n  x", "the YAML tag !vault is not supported", "nothing encrypted is read"),
    ("group_vars/a2.yml", "§!vault x", "the YAML tag !vault is not supported", "nothing encrypted is read"),
]


@pytest.mark.parametrize(("name", "marked", "message", "remedy"), MISTAKES, ids=[f"{m[0]} {m[2]}" for m in MISTAKES])
def test_a_mistake_is_shown_in_its_file(inventory: Write, name: str, marked: str, message: str, remedy: str) -> None:
    before, _, after = marked.partition("§")
    with pytest.raises(InventoryError) as raised:
        inventory({name: before + after})
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    if "\t" not in marked:
        assert raised.value.message.startswith(f"{name}:{line}:{column}: "), raised.value.message
    assert message in raised.value.message and remedy in raised.value.remedy


def test_what_nobody_reads_may_be_encrypted(inventory: Write) -> None:
    found = inventory({"group_vars/a2.yml": "x_secret: !vault |\n  33\nansible_become_user: !vault x\nuser: me"})
    assert found.host("x").user == "me"


def test_vars_directories_that_are_none(inventory: Write, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cannot read group_vars: Not a directory"):
        inventory({"group_vars": "user: me"})


def test_sources_that_are_none(inventory: Write, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="cannot read gone.yaml: No such file"):
        inventory({}, "inventory.yaml", "gone.yaml")
    with pytest.raises(InventoryError, match="there is no inventory in empty"):
        inventory({"empty/README.md": ""}, "empty")
    with pytest.raises(InventoryError, match="many/hosts.ini is no YAML inventory"):
        inventory({"many/hosts.ini": "[a2]\nx"}, "many")
    with pytest.raises(InventoryError, match="second.yaml: the inventory is empty"):
        inventory({"second.yaml": ""}, "inventory.yaml", "second.yaml")
    with pytest.raises(InventoryError, match=r"second.yaml:1:\d+: child group 'nobody' is not defined"):
        inventory({"second.yaml": "g: {children: {nobody: }}"}, "inventory.yaml", "second.yaml")
    with pytest.raises(InventoryError, match=r"second.yaml:\d:\d+: the groups go round in a circle: "):
        inventory({"second.yaml": "g: {children: {a2: }}\na2: {children: {g: }}"}, "inventory.yaml", "second.yaml")
