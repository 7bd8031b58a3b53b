"""Which cells a sweep has: the command line, a matrix file, the models of the hosts."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from collect_remote.cli import sweep_command
from collect_remote.cli.arguments import parser
from collect_remote.errors import UsageError
from collect_remote.inventory import load
from collect_remote.sweeps.cells import Cell
from collect_remote.sweeps.plan import cells_of

INVENTORY = """
all:
  vars:
    models:
      llama: {adapter: llama, layers: 1}
      other: {adapter: llama, layers: 2}
      flux: {adapter: diffusers, path: /m}
  children:
    a2:
      hosts:
        ascend[01:02]:
    a3:
      hosts:
        ascend03: {models: {flux: }}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    return tmp_path


def cells(*words: str, matrix: str = "") -> tuple[Cell, ...]:
    if matrix:
        Path("matrix.yaml").write_text(matrix)
        words = (*words, "--matrix", "matrix.yaml")
    options = parser().parse_args(["sweep", *words])
    return sweep_command._cells(options, load("inventory.yaml"))


def keys(found: tuple[Cell, ...]) -> list[str]:
    return [one.key for one in found]


def test_hosts_models_and_phases(here: Path) -> None:
    found = cells("--hosts", "a2", "--models", "llama,other", "--phases", "prefill", "--phases", "decode")
    assert len(found) == 8
    assert keys(found)[:2] == ["ascend01/llama/prefill", "ascend02/llama/prefill"]
    assert keys(found) == keys(cells_of(load("inventory.yaml"), "a2", ["llama", "other"], ["prefill", "decode"]))


def test_a_host_that_lacks_a_model_has_no_cell_of_it(here: Path) -> None:
    assert keys(cells("--models", "flux,llama")) == [
        *("ascend01/flux/default", "ascend02/flux/default"),
        *("ascend01/llama/default", "ascend02/llama/default", "ascend03/llama/default"),
    ]
    with pytest.raises(UsageError, match="host ascend03 has no model 'flux'"):
        cells("--hosts", "a3", "--models", "flux")
    with pytest.raises(UsageError, match="model flux has no decode"):
        cells("--models", "flux", "--phases", "decode")


def test_a_matrix_varies_every_option(here: Path) -> None:
    found = cells(
        "--warmup-steps=3",
        "--level=2",
        matrix="hosts: ascend01\nmodels: llama\nphases: [decode]\nsteps: [10, 50]\nlevel: 1\nkeep-raw: [true, false]\n",
    )
    assert keys(found) == [
        f"ascend01/llama/decode steps={steps} keep-raw={raw}" for steps in (10, 50) for raw in ("on", "off")
    ]
    assert {(one.request.level, one.request.warmup_steps) for one in found} == {(1, 3)}
    assert [(one.request.steps, one.request.keep_raw) for one in found][:2] == [(10, True), (10, False)]


def test_the_values_of_the_file_do_not_come_to_those_of_the_command_line(here: Path) -> None:
    words = ("--hosts", "ascend01", "--models", "llama", "--device", "3", "--allow-health", "Warning")
    found = cells(*words, matrix="device: [1, '2,4']\nallow-health: Alarm")
    assert [one.request.devices for one in found] == [("1",), ("2", "4")]
    assert {one.request.allow_health for one in found} == {("Alarm",)}
    assert [one.request.devices for one in cells(*words, matrix="level: 2")] == [("3",)]


def test_a_switch_that_the_file_turns_off_is_off(here: Path) -> None:
    file = "models: llama\nhosts: ascend01\nkeep-raw: [true, false]\ninclude: [{model: other, with-stack: false}]"
    found = cells("--keep-raw", "--with-stack", matrix=file)
    assert [(one.request.keep_raw, one.request.with_stack) for one in found] == [
        *((True, True), (False, True)),
        (True, False),
    ]


def test_some_are_left_out_and_some_are_added(here: Path) -> None:
    matrix = """
models: [llama, other]
phases: [prefill, decode]
exclude: [{model: other, phase: decode}, {host: ascend03, phase: decode}]
include: [{model: llama, phase: both, steps: 20}, {host: ascend01, model: flux}]
"""
    found = keys(cells(matrix=matrix))
    assert [key for key in found if "other" in key] == [f"ascend0{n}/other/prefill" for n in (1, 2, 3)]
    assert [key for key in found if "/decode" in key] == ["ascend01/llama/decode", "ascend02/llama/decode"]
    assert "ascend03/llama/both steps=20" in found
    assert [key for key in found if "flux" in key] == ["ascend01/flux/default"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("stesp: 5", r"matrix.yaml:1:1: a matrix has no 'stesp'"),
        ("steps: []", r"matrix.yaml:1:8: an empty list leaves no cell"),
        ("steps: [5, 5]", r"matrix.yaml:1:8: steps has the same value twice"),
        ("steps: {a: 1}", r"matrix.yaml:1:8: a value must be a word or a number, not a mapping"),
        ("steps: many", r"matrix.yaml: argument --steps: 'many' is neither a number of steps nor all"),
        ("exclude: {model: x}", r"matrix.yaml:1:10: this must be a list"),
        (
            "models: llama\nexclude: [{phase: decode}]",
            r"the matrix excludes cells by 'phase', which it has no values of",
        ),
        ("exclude: [{host: ascend3}]", r"there is no host 'ascend3'"),
        ("include: [{host: ascend3, model: llama}]", r"there is no host 'ascend3'"),
        ("exclude: [{modle: x}]", r"matrix.yaml:1:12: there is no 'modle' in a cell"),
        ("models: llama\nexclude: [{model: llama}]", r"the sweep has no cells"),
        ("models: llama\ninclude: [{model: llama}]", r"the sweep has the cell 'ascend01/llama/default' 2 times"),
        (
            "models: llama\nexclude: [{model: lama}]",
            r"matrix.yaml:2:19: the matrix has no model lama: no cell would be",
        ),
        ("exclude: [{model: lama}]", r"of model 'lama', which no host has"),
        ("include: [{phase: both}]", r"matrix.yaml:1:11: a further cell needs a model"),
        ("hosts: a2\ninclude: [{host: ascend03, model: llama}]", r"a cell on ascend03, which is not one of its hosts"),
        ("include: [{host: ascend03, model: flux}]", r"host ascend03 has no model 'flux'"),
        ("steps: true", r"argument --steps: 'true' is neither a number of steps nor all"),
        ("level: off", r"argument --level: invalid int value: 'off'"),
        ("models: ''", r"matrix.yaml:1:9: a value must be a word or a number"),
        ("keep-raw: 5", r"matrix.yaml:1:11: '5' does not turn a switch on or off"),
        ("keep-raw: ''", r"matrix.yaml:1:11: a value must be a word or a number"),
        ("wait: --", r"argument --wait: expected one argument"),
        (
            f"steps: {list(range(5, 1005))}\nwarmup-steps: {list(range(1, 101))}",
            r"the matrix has 300000 combinations on every host: at most 10000",
        ),
        ("- a", r"matrix.yaml:1:1: this must be a mapping, not a list"),
        ("", r"the matrix is empty"),
    ],
)
def test_mistakes_of_a_matrix(here: Path, matrix: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cells(matrix=matrix or "\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "--failed"], "--failed and `sweep retry` go together"),
        (["sweep", "retry"], "--failed and `sweep retry` go together"),
        (["sweep", "--resume", "--level", "2"], "--level does not go with a sweep that was begun"),
        (["sweep", "--host", "ascend01"], "a sweep has several: --hosts"),
        (["--host", "ascend01", "sweep"], "--host before 'sweep' is of no use to it"),
        (["--steps", "5", "sweep"], "--steps before 'sweep' is of no use to it"),
        (["--dry-run", "sweep"], "--dry-run before 'sweep' is of no use to it"),
        (["sweep", "--wait=--"], "argument --wait: expected one argument"),
        (["sweep", "--phases", "decod"], "argument --phase: invalid choice: 'decod'"),
    ],
)
def test_mistakes_of_a_command_line(here: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as told:
        options = parser().parse_args(words)
        options.command(options)
    assert "__main__" not in told.value.remedy
    assert [path.name for path in here.iterdir()] == ["inventory.yaml"]


def test_many_cells_at_once_may_have_many_files_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
        sweep_command._open_files(1)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (128, before[1])
        sweep_command._open_files(40)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (384, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_holds_for_every_command_may_stand_before_it(here: Path) -> None:
    options = parser().parse_args(["-i", "inventory.yaml", "--json", "sweep", "status"])
    assert (options.inventories, options.json, options.action) == ([Path("inventory.yaml")], True, "status")


def test_a_cell_is_the_same_as_long_as_what_decides_its_result_is(here: Path) -> None:
    def digests(old: str = "", new: str = "", *words: str) -> list[str]:
        assert old in INVENTORY
        Path("inventory.yaml").write_text(INVENTORY.replace(old, new) if old else INVENTORY)
        return [one.digest for one in cells("--models", "llama", *words)]

    def models(*change: str) -> set[str]:
        digests(*change)
        return {one.model_digest for one in cells("--models", "llama")}

    first = digests()
    assert digests() == first
    assert digests("", "", "--wait", "5m", "--timeout", "2h") == first
    assert digests("layers: 2", "layers: 3") == first  # of the other model
    assert not set(digests("layers: 1", "layers: 9")) & set(first)
    assert not set(digests("", "", "--level", "2")) & set(first)
    assert len(models("ascend[01:02]:", "ascend[01:02]: {models: {llama: {layers: 9}}}")) == 2
    assert len(models("ascend[01:02]:", "ascend[01:02]: {env: {A: '1'}}")) == 1
    paths = "{models: {llama: {adapter: transformers, path: %s, layers: }}}"
    assert len(models("ascend[01:02]:", f"ascend01: {paths % '/a/m8'}\n        ascend02: {paths % '/b/m8/'}")) == 2
    changed = digests("ascend[01:02]:", "ascend[01:02]: {env: {A: '1'}}")
    assert changed[:2] != first[:2]
    assert changed[2] == first[2]
