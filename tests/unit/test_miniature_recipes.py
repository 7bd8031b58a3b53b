"""The miniature of cann-recipes-infer: its own defaults, and what it does wrong as the real one does."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkouts import CANN, checkout, on, pyyaml
from simhost import SimHost

PLACEHOLDER = "your_cann_pkgs_path"
ENTRY = r"python.*[ /](infer|server)\.py"


class Recipes:
    """A checkout on a host, edited as its users edit it."""

    def __init__(self, host: SimHost) -> None:
        self.host, self.root = host, checkout(host, "cann_recipes")
        self.edit("executor/scripts/set_env.sh", PLACEHOLDER, str(host.home / CANN))
        self.edit("executor/scripts/set_env.sh", "your_cann_recipes_path", str(self.root))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def switch_on(self, model: str, name: str) -> None:
        self.edit(f"models/{model}/config/{name}", "enable_profiler: False", "enable_profiler: True")

    def infer(self, model: str, name: str, env: str = "") -> Any:
        return on(self.host, f"cd cann_recipes && {env} bash executor/scripts/infer.sh --model {model} --yaml {name}")

    def profiles(self) -> dict[str, list[Path]]:
        """{directory, the date as DAY: profiles in it}."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.root.rglob("*_ascend_pt")):
            parent = re.sub(r"\b20\d{6}\b", "DAY", str(path.parent.relative_to(self.root)))
            found.setdefault(parent, []).append(path)
        return found


@pytest.fixture
def recipes(tmp_path: Path) -> Iterator[Recipes]:
    with SimHost(tmp_path / "host", server="asyncssh", env=pyyaml(tmp_path)) as host:
        yield Recipes(host)


def steps(profile: Path) -> list[str]:
    with (profile / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open(newline="") as file:
        return [row["Step"] for row in csv.DictReader(file)]


def test_nothing_is_recorded_until_the_yaml_says_so(recipes: Recipes) -> None:
    done = recipes.infer("deepseek_r1", "r1.yaml")
    assert (done.returncode, "generated 8 tokens" in done.stdout) == (0, True)
    assert recipes.profiles() == {}
    (log,) = recipes.root.glob("models/deepseek_r1/res/*/deepseek_r1_r1/log_0.log")
    assert log.read_text() == "generated 8 tokens\n"


@pytest.mark.parametrize(
    ("model", "name", "where", "ranks"),
    [
        ("deepseek_r1", "r1", "models/deepseek_r1/res/DAY/deepseek_r1_r1/prof/{}", 1),
        ("deepseek_r1", "r1_rank_2", "models/deepseek_r1/res/DAY/deepseek_r1_r1_rank_2/prof/{}", 2),
        ("pangu_7b", "pangu_7b", "res/DAY/pangu_7b_pangu_7b/prof/{}", 1),
        ("glm_5_2", "glm_5_2", "res/DAY/glm_5_2_glm_5_2/{}/prof", 1),
    ],
    ids=["engine", "two-ranks", "runner", "reversed"],
)
def test_what_each_variant_records_of_its_own(recipes: Recipes, model: str, name: str, where: str, ranks: int) -> None:
    recipes.switch_on(model, f"{name}.yaml")
    assert recipes.infer(model, f"{name}.yaml").returncode == 0
    profiles = recipes.profiles()
    assert {path: len(found) for path, found in profiles.items()} == {
        where.format("prefill"): ranks,
        where.format("decode"): ranks,
    }
    (config,) = profiles[where.format("decode")][0].glob("profiler_info*.json")
    experimental = json.loads(config.read_text())["config"]["experimental_config"]
    assert (experimental["_profiler_level"], experimental["_aic_metrics"]) == ("Level1", "ACL_AICORE_PIPE_UTILIZATION")
    assert steps(profiles[where.format("decode")][0]) == ["3", "4", "5"]
    assert steps(profiles[where.format("prefill")][0]) == (["5"] if model == "glm_5_2" else ["0"])


def test_a_model_whose_author_switched_the_profiler_off(recipes: Recipes) -> None:
    recipes.switch_on("hunyuan_image", "hunyuan_image.yaml")
    assert recipes.infer("hunyuan_image", "hunyuan_image.yaml").returncode == 0
    assert recipes.profiles() == {}


def test_a_yaml_may_lie_outside_and_names_the_directory(recipes: Recipes) -> None:
    recipes.switch_on("deepseek_r1", "r1.yaml")
    inside = recipes.root / "models/deepseek_r1/config/r1.yaml"
    inside.rename(recipes.host.home / "r1_mine.yaml")
    assert recipes.infer("deepseek_r1", "../../../../r1_mine.yaml").returncode == 0
    assert set(recipes.profiles()) == {
        f"models/deepseek_r1/res/DAY/deepseek_r1_r1_mine/prof/{phase}" for phase in ("prefill", "decode")
    }


def test_a_rank_that_crashes_is_no_failure(recipes: Recipes) -> None:
    recipes.switch_on("deepseek_r1", "r1_rank_2.yaml")
    done = recipes.infer("deepseek_r1", "r1_rank_2.yaml", env="RECIPES_CRASH_RANK=1")
    assert done.returncode == 0
    assert "ImportError" not in done.stdout + done.stderr  # it is in a log that nobody shows
    (log,) = recipes.root.glob("models/deepseek_r1/res/*/*/log_1.log")
    assert "ImportError: cannot import name" in log.read_text()
    assert {len(found) for found in recipes.profiles().values()} == {1}


def test_too_few_tokens_leave_a_window_open(recipes: Recipes) -> None:
    recipes.switch_on("deepseek_r1", "r1.yaml")
    recipes.edit("models/deepseek_r1/config/r1.yaml", "max_new_tokens: 8", "max_new_tokens: 4")
    done = recipes.infer("deepseek_r1", "r1.yaml")
    assert done.returncode == 0
    assert "Incorrect schedule: Stop profiler while current state is RECORD" in done.stdout


def test_the_place_of_cann_has_to_be_filled_in(recipes: Recipes) -> None:
    recipes.edit("executor/scripts/set_env.sh", str(recipes.host.home / CANN), PLACEHOLDER)
    done = recipes.infer("deepseek_r1", "r1.yaml")
    assert (done.returncode, PLACEHOLDER in done.stdout) == (1, True)


def test_a_yaml_that_is_not_there(recipes: Recipes) -> None:
    done = recipes.infer("deepseek_r1", "r2.yaml")
    assert (done.returncode, "is not a file" in done.stderr) == (1, True)


def test_nothing_is_launched_beside_another_infer_py(recipes: Recipes) -> None:
    (recipes.host.home / "infer.py").write_text("import time; time.sleep(60)")
    done = on(
        recipes.host,
        f"python3 ./infer.py & other=$!; until pgrep -f '{ENTRY}' > /dev/null; do sleep 0.05; done; cd cann_recipes; "
        "bash executor/scripts/infer.sh --model deepseek_r1 --yaml r1.yaml; status=$?; kill $other; exit $status",
    )
    assert (done.returncode, "another infer.py" in done.stdout) == (1, True), done


@pytest.mark.parametrize(
    ("arguments", "status"),
    [("-f '^sleep 4[2]'", 0), ("sleep", 0), ("'sleep 42'", 1), ("-f nowhere-to-be-found[x]", 1), ("-x sleep", 2)],
)
def test_pgrep_sees_the_processes_of_its_host(recipes: Recipes, arguments: str, status: int) -> None:
    done = on(recipes.host, f"sleep 42 & pid=$!; pgrep {arguments}; status=$?; echo pid $pid; kill $pid; exit $status")
    *found, own = done.stdout.splitlines()
    assert (done.returncode, found) == (status, [own.split()[1]] if status == 0 else []), done
