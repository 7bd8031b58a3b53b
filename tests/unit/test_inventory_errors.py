"""Every mistake in an inventory is one error: file, line, column, what is wrong, and what to do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collect_remote.errors import InventoryError
from collect_remote.inventory import load

ROOT = Path(__file__).parents[2]


def complaint(tmp_path: Path, text: str | bytes) -> InventoryError:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InventoryError) as raised:
        load(path)
    assert raised.value.message.startswith(str(path))
    assert raised.value.remedy and raised.value.exit_code == 2
    assert "\n" not in raised.value.message + raised.value.remedy
    return raised.value


# the text with a § before the place that the error must name, words of the message, words of the remedy
MISTAKES = [
    ("all: {hosts: {§", "broken YAML", "indentation"),
    ("all:\n§\thosts:\n", "cannot start any token", "blanks, not with tabs"),
    ("all: hosts§: x", "mapping values", "quote"),
    ("all: {}\n§---\nall: {}", "another document", "one document"),
    ("all: {hosts: {\n    a: ,\n    §a: }}", "duplicate key 'a' (first in line 2)", "keep one"),
    ("all: §!vault x", "tag !vault", "secrets"),
    ("all: §!!python/name:os.system x", "tag tag:yaml.org,2002:python/name:os.system", "tag"),
    ("all: §!!int x", "'x' is no int", "tag"),
    ("all: §!!int", "'' is no int", "tag"),
    ("all: §&a {b: *a}", "contains it", "write"),
    ("§[a]: 1", "key must be plain text", "quote"),
    ("all: {<<: §7}", "merges mappings", "mapping"),
    ("§- a\n- b", "must be a mapping, not a list", "key: value"),
    ("§hello", "must be a mapping, not text", "key: value"),
    ("§hosts: {a: }", "'hosts' stands outside of any group", "below `all:`"),
    ("all: {§host: {a: }}", "unknown key 'host' of group all", "'hosts'"),
    ("all: {hosts: §[a, b]}", "hosts must be a mapping, not a list", "key: value"),
    ("all: {hosts: {h: {§adress: x}}}", "unknown key 'adress' of host h", "did you mean 'address'?"),
    ("all: {vars: {§rack: 7}}", "unknown key 'rack' of group all", "x_"),
    ("all: {hosts: {h: {port: §ssh}}}", "port must be a number", "22"),
    ("all: {hosts: {h: {port: §70000}}}", "port must be a number from 1 to 65535, not 70000", "22"),
    ("all: {hosts: {h: {port: §true}}}", "port must be a number", "22"),
    ("all: {hosts: {h: {user: §7}}}", "user must be text, not the number 7", "quote"),
    ("all: {hosts: {h: {user: §on}}}", "user must be text, not true/false", "quote"),
    ("all: {hosts: {h: {user: §'{{ me }}'}}}", "user holds a template", "not evaluated"),
    ('all: {hosts: {h: {workdir: §"a\\nb"}}}', "line break", "one line"),
    ("all: {hosts: {h: {user: §' '}}}", "user is an empty text", "inherited"),
    ("all: {hosts: {h: {address: §-oProxyCommand=x}}}", "'-oProxyCommand=x'", "leading '-'"),
    ("all: {hosts: {h: {transport: §fabric}}}", "there is no transport 'fabric'", "paramiko, openssh"),
    ("all: {hosts: {h: {identity_file: §~nobody-here/x}}}", "identity_file", "write the path out"),
    ("all: {hosts: {h: {setup: §{a: b}}}}", "setup must be text", "plain text"),
    ("all: {hosts: {h: {setup: [§7]}}}", "this item must be text", "quote"),
    ("all: {hosts: {h: {env: {§A-B: 1}}}}", "'A-B' is not the name of a variable", "letters"),
    ("all: {hosts: {h: {env: {A: §yes}}}}", "variable A must be text, not true/false", "quote"),
    ('all: {hosts: {h: {env: {A: §"\\0"}}}}', "NUL", "remove"),
    ("all: {hosts: {h: {host_key: §AAAA}}}", "not a public host key", "ssh-keyscan"),
    ("all: {hosts: {h: {host_key: §ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA}}}", "damaged", "ssh-keyscan"),
    ("all: {hosts: {h: {host_key: §ssh-rsa x}}}", "damaged", "ssh-keyscan"),
    ("all: {hosts: {h: {§ansible_password: x}}}", "no password is ever read", "identity_file"),
    ("all: {vars: {§ansible_ssh_pass: x}}", "no password is ever read", "identity_file"),
    ("all: {hosts: {h: {§password: x}}}", "no password is ever read", "identity_file"),
    ("all: {hosts: {h: {container: §-it}}}", "'-it' cannot be a container", "docker ps"),
    ("all: {hosts: {h: {container: §a b}}}", "'a b' cannot be a container", "docker ps"),
    ('all: {hosts: {h: {container: §"label:=x"}}}', "container names no label", "label:KEY=VALUE"),
    ("all: {hosts: {h: {container_runtime: §lxc}}}", "'lxc' is no container runtime", "docker, podman, nerdctl"),
    ("all: {hosts: {h: {container_user: §a b}}}", "cannot be 'a b'", "without blanks"),
    ("all: {hosts: {h: {container_user: §-1}}}", "'-1' cannot be a user", "USER:GROUP"),
    ("all: {hosts: {h: {§ansible_group_priority: 7}}}", "ansible_group_priority of host h", "`vars` of a group"),
    ("all: {vars: {ansible_group_priority: §high}}", "must be a whole number, not high", "like 10"),
    ("all: {vars: {ansible_group_priority: §true}}", "must be a whole number", "like 10"),
    ("all: {vars: {§ansible_private_key: x}}", "cannot be honoured", "`identity_file`"),
    ("all: {vars: {§ansible_ssh_private_key: x}}", "cannot be honoured", "`identity_file`"),
    ("all: {vars: {§ansible_paramiko_proxy_command: x}}", "cannot be honoured", "`jump: HOST`"),
    ("all: {hosts: {h: {ansible_connection: §local}}}", "ansible_connection cannot be 'local'", "by ssh"),
    ("all: {hosts: {h: {ansible_connection: §community.docker.docker}}}", "cannot be", "`container: NAME`"),
    ("all: {hosts: {h: {ansible_connection: §winrm}}}", "cannot be 'winrm'", "ssh, paramiko"),
    ("all: {hosts: {h: {ansible_ssh_extra_args: §-C}}}", "of ansible_ssh_extra_args only -J", "~/.ssh/config"),
    ("all: {hosts: {h: {env: {A: §!vault x}}}}", "tag !vault", "nothing encrypted is read"),
    ("all: {vars: {models: {m: {adapter: x.py, o: [§!vault x]}}}}", "tag !vault", "nothing encrypted is read"),
    ("lab: {children: {§ungrouped: }}", "ungrouped cannot be a child of lab", "leave it out"),
    ("all: {hosts: {h: {port: 22, §ansible_port: 22}}}", "says port twice", "keep one"),
    ("all: {hosts: {h: {ansible_ssh_common_args: §-vvv}}}", "only -J", "~/.ssh/config"),
    ("all: {hosts: {h: {ansible_ssh_common_args: §-J x -v}}}", "only -J", "~/.ssh/config"),
    ('all: {hosts: {h: {ansible_ssh_common_args: §"-J \'x"}}}', "quotation", "quotes"),
    ("all: {hosts: {§../x: }}", "name of a host", "letters"),
    ("all: {hosts: {§'h:22': }}", "name of a host", "`port:`"),
    (f"all: {{hosts: {{§{300 * 'h'}: }}}}", "the name of a host has 300 characters", "200"),
    ("all: {vars: {models: {§a/b: {adapter: llama}}}}", "name of a model", "letters"),
    ("all: {children: {§a b: {hosts: {h: }}}}", "name of a group", "letters"),
    ("all: {hosts: {§'h[10:9]': }}", "9 comes before 10", "range"),
    ("all: {hosts: {§'h[c:a]': }}", "a comes before c", "range"),
    ("all: {hosts: {§'h[01:100]': }}", "same number of digits", "range"),
    ("all: {hosts: {§'h[1:9:0]': }}", "not a positive number", "range"),
    ("all: {hosts: {§'h[1:9:]': }}", "not a positive number", "range"),
    ("all: {hosts: {§'h[a:9]': }}", "neither two numbers", "range"),
    ("all: {hosts: {§'h[1:2': }}", "write a range as", "range"),
    ("all: {hosts: {§'h[1:999999999]': }}", "more than 65536", "range"),
    ("all: {hosts: {§'h[1:999]n[1:999]': }}", "more than 65536", "range"),
    ("rack2: {hosts: {h: }}\nlab: {children: {rack2: , §rack3: }}", "'rack3' is not defined", "mean 'rack2'?"),
    ("a: {children: {§b: }}\nb: {children: {a: }}", "round in a circle: a > b > a", "as a child"),
    ("a: {children: {§all: }}", "round in a circle: ", "as a child"),
]


@pytest.mark.parametrize(("marked", "message", "remedy"), MISTAKES, ids=[m[0].replace("§", "") for m in MISTAKES])
def test_a_mistake_has_a_place_a_cause_and_a_remedy(tmp_path: Path, marked: str, message: str, remedy: str) -> None:
    before, _, after = marked.partition("§")
    error = complaint(tmp_path, before + after)
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert error.message.startswith(f"{tmp_path}/hosts.yaml:{line}:{column}: "), error.message
    assert message in error.message
    assert remedy in error.remedy


MODELS = [
    ("{}", "names neither an adapter nor a route", "add `adapter:`"),
    ("7", "m must be a mapping", "key: value"),
    ("{adapter: lama}", "unknown adapter 'lama'", "did you mean 'llama'?"),
    ("{adapter: 7}", "adapter must be text", "quote"),
    ("{adapter: ./gone.py}", "there is no adapter file", "relative to the inventory"),
    ("{adapter: llama, route: template}", "an adapter and a route", "keep the adapter"),
    ("{route: template}", "route template needs an adapter", "name the adapter"),
    ("{route: vlm}", "unknown route 'vlm'", "known: auto, "),
    ("{route: script, project: work, command: ls}", "project of model m must be an absolute path", "mend"),
    ("{route: script, project: /w}", "needs command for route script", "add `command:`"),
    ('{route: script, project: /w, command: "a \'b"}', "command of model m must be a list of words", "mend"),
    (r'{route: script, project: /w, command: [ls, "a\0b"]}', "command of model m must be words without a NUL", "mend"),
    (r'{route: script, project: "/w\0", command: ls}', "project of model m must be an absolute path", "mend"),
    (r'{route: script, project: "/w\nx", command: ls}', "project of model m must be an absolute path", "mend"),
    (f"{{route: script, project: /w, command: [ls, {'x' * 64000}]}}", "must be 64000 characters at most", "mend"),
    ("{route: script, project: /w, command: ['']}", "command of model m must be a list of words", "mend"),
    ("{route: script, project: /w, command: ls, step_on: [f]}", "must be a list like [package.module:Cl", "mend"),
    ("{route: script, project: /w, command: ls, step_on: ['a/b.py:f']}", "must be a list like", "mend"),
    ("{route: diffusers, project: /w, command: ls, scheduler: Euler}", "must be like package.module:Class", "mend"),
    ("{route: script, project: /w, command: ls, fallback: {path: /m}}", "names no adapter", "fallback: {adapter"),
    ("{adapter: llama, layer: 2}", "no option 'layer'", "did you mean 'layers'?"),
    ("{adapter: llama, path: /x}", "no option 'path'", "known: "),
    ("{adapter: llama, dtype: bf16}", "dtype of model m must be one of bfloat16, float16, float32", ""),
    ("{adapter: llama, batch: 0}", "batch of model m must be a whole number from 1", ""),
    ("{adapter: llama, batch: true}", "batch of model m must be a whole number from 1, not true/false", ""),
    ("{adapter: llama, prompt_tokens: '9'}", "prompt_tokens of model m must be", ""),
    ("{adapter: transformers}", "needs path or config", "add `path:`"),
    ("{adapter: transformers, path: /x, config: {a: b}}", "names path and config", "keep one"),
    ("{adapter: transformers, config: llama}", "config of model m must be a mapping", ""),
    ("{adapter: diffusers, height: 64}", "needs path", "add `path:`"),
    ("{adapter: diffusers, path: /x, heigth: 64}", "no option 'heigth'", "did you mean 'height'?"),
    ("{adapter: diffusers, path: /x, guidance_scale: much}", "guidance_scale of model m must be a number", ""),
]


@pytest.mark.parametrize(("model", "message", "remedy"), MODELS, ids=[m[0][:80] for m in MODELS])
def test_a_mistake_in_a_model(tmp_path: Path, model: str, message: str, remedy: str) -> None:
    error = complaint(tmp_path, f"all:\n  hosts: {{h: }}\n  vars:\n    models:\n      m: {model}\n")
    assert message in error.message
    assert remedy in error.remedy
    assert error.message.startswith(f"{tmp_path}/hosts.yaml:5:")


def test_a_mistake_is_shown_where_it_was_made_not_where_it_is_inherited(tmp_path: Path) -> None:
    error = complaint(
        tmp_path,
        "all:\n  vars: {models: {m: {adapter: transformers, path: /x}}}\n"
        "  hosts:\n    h:\n      models:\n        m: {adapter: llama}\n",
    )
    assert error.message.startswith(f"{tmp_path}/hosts.yaml:2:46: adapter llama of model m has no option 'path'")


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("# nothing\n", "is empty"), ("all:\n", "no hosts")])
def test_an_inventory_without_hosts(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, text).message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    assert ":2:4: this is not UTF-8" in complaint(tmp_path, b"a: b\nc: \xff").message
    assert ":2:4: broken YAML: a control character" in complaint(tmp_path, "a: b\nc: \x07").message


def test_nesting_without_end(tmp_path: Path) -> None:
    assert "nested too deeply" in complaint(tmp_path, "[" * 5000).message


def test_aliases_that_multiply_are_read_once(tmp_path: Path) -> None:
    levels = ["g0: &g0 {hosts: {h: }}"]
    levels += [f"g{n}: &g{n} {{children: {{x: *g{n - 1}, y: *g{n - 1}, z: *g{n - 1}}}}}" for n in range(1, 40)]
    assert "circle" in complaint(tmp_path, "\n".join(levels)).message


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="No such file") as missing:
        load(tmp_path / "gone.yaml")
    assert missing.value.remedy
    with pytest.raises(InventoryError, match="there is no inventory in"):
        load(tmp_path)


CALM = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KEYS = ["all", "hosts", "vars", "children", "models", "adapter", "llama", "port", "22", "a[1:2]", "x_y", "é", "\0"]
SIGNS = [
    ": ",
    ":\n",
    "\n  ",
    "\n    ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "- ",
    "&x ",
    "*x",
    "<<",
    "!!int ",
    "'",
    "~",
    "\t",
    "|",
]
WORDS = st.sampled_from(KEYS) | st.sampled_from(SIGNS)


@CALM
@given(st.lists(WORDS, max_size=25).map("".join))
def test_any_text_is_an_inventory_or_an_error_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "any.yaml").write_text(text)
    with suppress(InventoryError):
        load(tmp_path / "any.yaml")


@CALM
@given(st.data())
def test_a_damaged_example_is_an_inventory_or_an_error_of_ours(tmp_path: Path, data: st.DataObject) -> None:
    text = (ROOT / "inventory.yaml").read_text()
    at = data.draw(st.integers(0, len(text)))
    (tmp_path / "any.yaml").write_text(text[:at] + data.draw(WORDS) + text[at + data.draw(st.integers(0, 9)) :])
    with suppress(InventoryError):
        load(tmp_path / "any.yaml")
