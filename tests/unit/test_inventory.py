"""What an inventory says: groups, ranges, inheritance, hosts and models."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collect_remote.errors import UsageError
from collect_remote.inventory import Host, Inventory, ModelSpec, load

ROOT = Path(__file__).parents[2]
PUBLIC_KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
Write = Callable[[str], Inventory]


@pytest.fixture
def inventory(tmp_path: Path) -> Write:
    """Load an inventory from its text."""

    def write(text: str) -> Inventory:
        path = tmp_path / "inventory.yaml"
        path.write_text(text)
        return load(path)

    return write


def test_a_host_needs_no_more_than_its_name(inventory: Write) -> None:
    found = inventory("all: {hosts: {ascend01: }}")
    assert found.hosts == ("ascend01",)
    assert found.host("ascend01") == Host(
        name="ascend01",
        address="ascend01",
        port=None,
        user=None,
        identity_file=None,
        jump=None,
        host_key=None,
        transport=None,
        setup=(),
        python=None,
        env={},
        workdir=None,
        container=None,
        container_runtime=None,
        container_user=None,
        models={},
    )


def test_every_key_of_a_host(inventory: Write, tmp_path: Path) -> None:
    host = inventory(f"""
all:
  hosts:
    ascend01:
      address: 192.0.2.11
      port: 2222
      user: profiler
      identity_file: keys/id_ed25519
      jump: me@gateway:22
      host_key: {PUBLIC_KEY} root@ascend01
      transport: openssh
      setup: [/opt/cann/set_env.sh, /opt/nnal/set_env.sh]
      python: /opt/venv/bin/python
      env: {{OMP_NUM_THREADS: 8, MASK: 0x0F, EMPTY: ""}}
      workdir: /data/runs
      container: label:com.team=llm a
      container_runtime: podman
      container_user: 1000
      x_rack: 7
      models: {{small: {{adapter: llama}}}}
""").host("ascend01")
    assert host == Host(
        name="ascend01",
        address="192.0.2.11",
        port=2222,
        user="profiler",
        identity_file=tmp_path / "keys/id_ed25519",
        jump="me@gateway:22",
        host_key=PUBLIC_KEY,
        transport="openssh",
        setup=("/opt/cann/set_env.sh", "/opt/nnal/set_env.sh"),
        python="/opt/venv/bin/python",
        env={"OMP_NUM_THREADS": "8", "MASK": "0x0F", "EMPTY": ""},
        workdir="/data/runs",
        container="label:com.team=llm a",
        container_runtime="podman",
        container_user="1000",
        models={"small": ModelSpec("small", "llama", None, {})},
    )


def test_the_names_that_ansible_uses(inventory: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    host = inventory("""
all:
  hosts:
    a:
      ansible_host: 192.0.2.7
      ansible_port: 22
      ansible_user: root
      ansible_ssh_private_key_file: ~/.ssh/lab
      ansible_python_interpreter: /usr/bin/python3.11
      ansible_ssh_common_args: -J me@gateway
      ansible_become: true
    b: {ansible_ssh_common_args: "-o ProxyJump=gateway", ansible_python_interpreter: auto_silent}
""")
    a, b = host.host("a"), host.host("b")
    assert (a.address, a.port, a.user, a.identity_file) == ("192.0.2.7", 22, "root", Path("/home/me/.ssh/lab"))
    assert (a.python, a.jump, b.python, b.jump) == ("/usr/bin/python3.11", "me@gateway", None, "gateway")


def test_more_names_that_ansible_uses(inventory: Write) -> None:
    found = inventory("""
all:
  hosts:
    a: {ansible_connection: ssh, ansible_port: "2222", ansible_ssh_extra_args: "-o ProxyJump=gate"}
    b: {ansible_connection: ansible.builtin.paramiko_ssh, ansible_port: 0x16, ansible_ssh_args: -J gate}
    c: {ansible_connection: smart, ansible_python_interpreter: /usr/bin/env python3.11, ansible_paramiko_port: 23}
  vars: {transport: openssh, ansible_host_key_checking: false, ansible_python_interpreter: auto}
""")
    said = {name: (h.transport, h.port, h.jump, h.python) for name, h in found.by_name.items()}
    assert said == {
        "a": ("openssh", 2222, "gate", None),
        "b": ("paramiko", 22, "gate", None),
        "c": (None, 23, None, "python3.11"),
    }


def test_deeper_groups_are_stronger_and_the_host_is_the_strongest(inventory: Write) -> None:
    found = inventory("""
all:
  vars: {user: everyone, workdir: /all, port: 1}
  children:
    site:
      vars: {workdir: /site, port: 2}
      children:
        rack:
          vars: {port: 3}
          hosts:
            deep:
            own: {port: 4}
      hosts: {shallow: }
  hosts: {bare: }
""")
    said = {name: (h.user, h.workdir, h.port) for name in found.hosts for h in [found.host(name)]}
    assert said == {
        "deep": ("everyone", "/site", 3),
        "own": ("everyone", "/site", 4),
        "shallow": ("everyone", "/site", 2),
        "bare": ("everyone", "/all", 1),
    }


def test_depth_is_the_longest_way_and_names_decide_between_equals(inventory: Write) -> None:
    found = inventory("""
a: {vars: {port: 1, user: a}, hosts: {h: }}
b: {vars: {port: 2, user: b}, hosts: {h: }}
outer: {children: {a: }}
""")
    # a lies below outer, so it is deeper than b
    assert (found.host("h").port, found.host("h").user) == (1, "a")
    assert inventory("b: {vars: {port: 2}, hosts: {h: }}\na: {vars: {port: 1}, hosts: {h: }}").host("h").port == 2


def test_groups_and_hosts_may_be_spoken_of_in_several_places(inventory: Write) -> None:
    found = inventory("""
all: {children: {a2: {hosts: {x: {port: 7}}}}}
a2: {vars: {user: me}}
lab: {hosts: {x: {workdir: /w}, y: }}
""")
    x = found.host("x")
    assert (found.hosts, x.port, x.user, x.workdir) == (("x", "y"), 7, "me", "/w")


def test_models_merge_by_field_and_env_by_variable(inventory: Write) -> None:
    found = inventory("""
all:
  vars:
    env: {A: 1, B: 1, C: 1}
    models:
      llama: {adapter: transformers, path: /m, batch: 1, prompt_tokens: 64}
      flux: {adapter: diffusers, path: /f}
  children:
    a3:
      vars: {env: {B: 2, C: }, models: {llama: {batch: 4}, flux: }}
      hosts:
        h: {models: {llama: {path: , config: {model_type: llama}}}}
  hosts: {plain: }
""")
    h = found.host("h")
    assert h.env == {"A": "1", "B": "2"}
    assert list(h.models) == ["llama"]
    assert h.model("llama").options == {"batch": 4, "prompt_tokens": 64, "config": {"model_type": "llama"}}
    assert found.host("plain").model("flux") == ModelSpec("flux", "diffusers", None, {"path": "/f"})
    assert found.host("plain").model("llama").options["batch"] == 1


def test_an_empty_value_takes_an_inherited_one_back(inventory: Write) -> None:
    found = inventory("all: {vars: {jump: gate, setup: /s}, hosts: {near: {jump: , setup: }, far: }}")
    assert (found.host("near").jump, found.host("near").setup) == (None, ())
    assert (found.host("far").jump, found.host("far").setup) == ("gate", ("/s",))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("n[1:3]", ["n1", "n2", "n3"]),
        ("n[08:11].example.org", [f"n{i}.example.org" for i in ("08", "09", "10", "11")]),
        ("n[1:9:4]", ["n1", "n5", "n9"]),
        ("r[a:c]", ["ra", "rb", "rc"]),
        ("r[a:b]n[1:2]", ["ran1", "ran2", "rbn1", "rbn2"]),
    ],
)
def test_host_ranges(inventory: Write, pattern: str, names: list[str]) -> None:
    found = inventory(f"all: {{hosts: {{'{pattern}': {{port: 5}}}}}}")
    assert list(found.hosts) == names
    assert all(found.host(name).port == 5 for name in names)


def test_merge_keys_and_aliases(inventory: Write) -> None:
    found = inventory("""
all:
  vars: {models: {a: &base {adapter: llama, layers: 4, heads: 8}, b: {<<: *base, heads: 16}}}
  hosts: {h: }
""")
    assert found.host("h").model("b").options == {"layers": 4, "heads": 16}


def test_an_adapter_file_is_found_beside_the_inventory(inventory: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def load(device, options): ...")
    found = inventory("all: {vars: {models: {m: {adapter: ./mine.py, anything: [1, {deep: true}]}}}, hosts: {h: }}")
    assert found.host("h").model("m") == ModelSpec(
        "m", str(tmp_path / "mine.py"), None, {"anything": [1, {"deep": True}]}
    )


@pytest.mark.parametrize(
    "written",
    [
        "[run, on, 1_000, 12:30:45, 0x10, 010, 1.10, 1e-5, 'a b', ''] ",
        "\"run on 1_000 12:30:45 0x10 010 1.10 1e-5 'a b' ''\"",
    ],
)
def test_the_words_of_a_command_are_what_was_written(inventory: Write, written: str) -> None:
    """YAML takes some for numbers or for true, and would write them in another way."""
    models = f"{{m: {{route: script, project: /w, command: {written}}}}}"
    model = inventory(f"all: {{hosts: {{h: }}, vars: {{models: {models}}}}}").host("h").model("m")
    assert model.options["command"] == ["run", "on", "1_000", "12:30:45", "0x10", "010", "1.10", "1e-5", "a b", ""]


def test_unknown_names_come_with_the_nearest_known_one(inventory: Write) -> None:
    found = inventory("all: {vars: {models: {llama: {adapter: llama}}}, hosts: {'ascend[01:40]': }}")
    with pytest.raises(UsageError, match="no host 'ascend1'") as host:
        found.host("ascend1")
    assert "did you mean 'ascend" in host.value.remedy and "and 20 more" in host.value.remedy
    with pytest.raises(UsageError, match="host ascend01 has no model 'lama'") as model:
        found.host("ascend01").model("lama")
    assert "did you mean 'llama'?" in model.value.remedy
    with pytest.raises(UsageError) as none:
        inventory("all: {hosts: {h: }}").host("h").model("x")
    assert "under `models`" in none.value.remedy


def test_hosts_are_plain_data(inventory: Write) -> None:
    host = inventory("all: {vars: {models: {m: {adapter: llama}}}, hosts: {h: }}").host("h")
    assert pickle.loads(pickle.dumps(host)) == host  # noqa: S301 - our own bytes


def test_names_of_hosts_do_not_need_the_yaml_library() -> None:
    code = "import collect_remote.inventory, sys; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "controller")})


def test_the_example_is_an_inventory() -> None:
    found = load(ROOT / "inventory.yaml")
    assert {"ascend01", "ascend02", "ascend-a3-a"} <= set(found.hosts)
    assert found.host("ascend01").model("llama").adapter == "llama"
    assert "flux" not in found.host("ascend-a3-a").models


def test_the_example_in_the_documentation_is_an_inventory(inventory: Write) -> None:
    page = (ROOT / "docs" / "inventory.md").read_text()
    found = inventory(page.partition("```yaml\n")[2].partition("```")[0])
    assert (len(found.hosts), found.host("ascend-a3-d").model("llama").options["batch"]) == (20, 4)
