"""Every route inside a container of a host, where most frameworks live: its project mounted, or the image's own."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from boxes import box, inside, nothing_left
from checkouts import CANN, MINIATURES, digests
from collected import Collected
from harness import Outcome, Tool, one_error
from simhost import SimHost
from simhost.containers import Container
from wrapped import PROGRAM, PROGRAMS

Start = Callable[..., SimHost]
MOUNTED = "/data/project"
DEVICES = {2: 0, 5: 1, 6: 2}  # of the host, as the container counts them
FORWARD = "tinylm.modeling_tiny:TinyForCausalLM.forward"
PTD = "examples/mcore/llama/pretrain_llama_ptd.sh"


@dataclass(frozen=True)
class Case:
    """A miniature, what the inventory says of it, and the (phase, rank) set of its result."""

    miniature: str
    model: Mapping[str, Any]
    expected: Sequence[tuple[str, int]]
    route: str = ""
    arguments: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "cann-recipes": Case(
        "cann_recipes",
        {"route": "cann-recipes", "model": "deepseek_r1", "yaml": "r1_rank_2.yaml"},
        [("decode", 0), ("decode", 1), ("prefill", 0), ("prefill", 1)],
        arguments=("--devices", "2"),
    ),
    "mindspeed": Case(
        "mindspeed",
        {"command": f"bash {PTD}"},
        [("train", 0), ("train", 1)],
        arguments=("--devices", "2"),
    ),
    "vllm-server": Case(
        "vllm",
        {"command": "bin/vllm serve tiny --tensor-parallel-size 2", "prompt_tokens": 32},
        [("both", 0), ("both", 1)],
        route="vllm",
        arguments=("--devices", "2"),
        versions={"vllm_ascend": "0.23.0"},
    ),
    "vllm-script": Case(
        "vllm",
        {"command": "python3 plain.py 1 8"},
        [("decode", 0)],
        route="vllm",
        arguments=("--phase", "decode"),
        versions={"vllm_ascend": "0.11.0"},
    ),
    "verl": Case(
        "verl",
        {"command": "bash run_grpo.sh"},
        [("train", 0), ("train", 1)],
        arguments=("--devices", "2"),
        versions={"verl": "0.9.0"},
    ),
    "mindie-sd": Case("mindie_sd", {"command": "python3 examples/dummy_run/wan_infer.py"}, [("forward", 0)]),
    "diffusers": Case("diffusion", {"command": "python3 text_to_image.py"}, [("forward", 0)]),
    "profiler": Case(
        "scripts",
        {"command": "python3 pretrain_profiled.py"},
        [("train", 0)],
        route="script",
        arguments=("--phase", "train"),
    ),
    "step-on": Case(
        "scripts",
        {"command": "python3 generate.py --prompts 6", "step_on": [FORWARD]},
        [("decode", 0), ("prefill", 0)],
        route="script",
        arguments=("--phase", "separate"),
    ),
    "wrapper-training": Case("", {"command": "python3 main.py"}, [("train", 0)]),
}


class Place:
    """A container with three of the host's devices, and in it the project of a case."""

    def __init__(
        self, host: Start, tool: Tool, case: Case, *, mounted: bool = True, mode: str = "rw", **options: Any
    ) -> None:
        self.ascend, self.tool, self.case = host(container_engine="docker"), tool, case
        self.source = self.ascend.home / "project"  # on the host
        mounts = {self.source: f"{MOUNTED}:{mode}"} if mounted else {}
        self.container = box(self.ascend, visible=list(DEVICES), mounts=mounts, versions=case.versions, **options)
        self.path = MOUNTED if mounted else f"{self.container.home}/project"
        self.project = self.container.outside(self.path)
        if case.miniature:
            unneeded = shutil.ignore_patterns("__pycache__", ".ruff_cache")
            shutil.copytree(MINIATURES / case.miniature, self.project, ignore=unneeded, dirs_exist_ok=True)
        else:
            self.project.mkdir(exist_ok=True)
            self.write("npu_profile.py", tool("template", "--for", "training").out)
            self.write("program.py", PROGRAM)
            self.write("main.py", PROGRAMS["training"])
        if case.miniature == "cann_recipes":
            self.edit("executor/scripts/set_env.sh", "your_cann_pkgs_path", f"{self.container.home}/{CANN}")
            self.edit("executor/scripts/set_env.sh", "your_cann_recipes_path", self.path)
        self.before = digests(self.project)

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)
        self.before = digests(self.project)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.project / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def ask(self, model: Mapping[str, Any] | None = None, **keys: Any) -> None:
        """Write the inventory. `model` and `keys`: more of the model, and of the host."""
        asked = {"route": "auto", "project": self.path, **self.case.model, **(model or {})}
        env = pyyaml(self.container) if self.case.miniature in ("cann_recipes", "mindspeed") else {}
        inside(self.tool, self.ascend, models={"mine": asked}, env=env, **keys)

    def collect(self, *arguments: str) -> Outcome:
        return self.tool.collect(*self.case.arguments, *arguments, model="mine")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        given = (*self.case.arguments, *arguments)
        return self.tool.start("--host", "ascend01", "--model", "mine", "--json", *given)

    def loaded(self, count: int) -> None:
        """Wait until so many processes have their devices."""
        wait_for(lambda: len(self.ascend.held()) == count)

    def untouched(self, tmp_path: Path) -> None:
        """Nothing of the project is changed; what is new there are logs, as of any run of the user's."""
        after = digests(self.project)
        assert {path: after.get(path) for path in self.before} == self.before
        assert [path for path in set(after) - set(self.before) if not path.endswith(".log")] == []
        nothing_left(self.ascend, tmp_path)


def pyyaml(container: Container) -> dict[str, str]:
    """Variables with which a bare Python has PyYAML, which is put into the container's home."""
    site = container.outside(container.home) / "site"
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(yaml.__file__).parent, site / "yaml", ignore=unneeded, dirs_exist_ok=True)
    return {"PYTHONPATH": f"{container.home}/site"}


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def both_places() -> Iterator[Any]:
    """Every case with its project mounted, and in the image. CI has each once."""
    for number, name in enumerate(CASES):
        for place in ("mounted", "image"):
            further = (place == "mounted") == bool(number % 2)
            marks = [pytest.mark.exhaustive] if further else []
            yield pytest.param(name, place == "mounted", id=f"{name}-{place}", marks=marks)


@pytest.mark.parametrize(("name", "mounted"), list(both_places()))
def test_a_route_in_a_container(host: Start, tool: Tool, tmp_path: Path, name: str, mounted: bool) -> None:
    case = CASES[name]
    place = Place(host, tool, case, mounted=mounted)
    place.ask()
    found = Collected(tool, place.collect())
    assert found.profiles == [(*one, "Level1", "PipeUtilization") for one in case.expected]
    assert found.manifest["verdict"] == "valid"
    assert found.manifest["route"] == (case.route or name)
    assert found.manifest["container"]["name"] == "vllm"
    devices = {device["logic"]: device["inside"] for device in found.manifest["devices"]}
    assert len(devices) == len({rank for _, rank in case.expected})
    assert devices.items() <= DEVICES.items()
    assert {use.logic for use in place.ascend.uses()} == set(devices)
    place.untouched(tmp_path)


@pytest.mark.torch_npu
@pytest.mark.exhaustive
def test_the_real_torch_npu(host: Start, tool: Tool, tmp_path: Path, ascend_runtime: str) -> None:
    case = CASES["step-on"]
    place = Place(host, tool, case, runtime=ascend_runtime)
    place.ask()
    found = Collected(tool, place.collect())
    assert found.profiles == [(*one, "Level1", "PipeUtilization") for one in case.expected]
    place.untouched(tmp_path)


@pytest.mark.exhaustive
def test_a_job_over_the_containers_of_two_hosts(host: Start, tool: Tool, tmp_path: Path) -> None:
    places = [Place(functools.partial(host, name), tool, CASES["mindspeed"]) for name in ("ascend01", "ascend02")]
    here = {"container": "vllm", "workdir": "/workspace/runs"}
    entries = {place.ascend.name: {**here, "env": pyyaml(place.container)} for place in places}
    at = "--nnodes={nodes} --node-rank={node_rank} --master-addr={master_addr} --master-port={master_port}"
    command = f"python3 -m torch.distributed.run --nproc-per-node=2 {at} pretrain_gpt.py --train-iters 30"
    model = {"route": "mindspeed", "project": MOUNTED, "command": command}
    tool.inventory(*(place.ascend for place in places), models={"mine": model}, entries=entries)
    found = Collected(tool, tool.collect("--devices", "2", "--nodes", "ascend02", model="mine"))
    assert found.profiles == [("train", rank, "Level1", "PipeUtilization") for rank in range(4)]
    for place in places:
        place.untouched(tmp_path)


# --- whose numbers, whose files, whose paths --------------------------------------------------------------------------


def test_a_script_that_chooses_devices_gets_those_that_are_leased(host: Start, tool: Tool, tmp_path: Path) -> None:
    """It chooses by the container's numbers, and where the image has none of its own npu-smi the device files count."""
    place = Place(host, tool, CASES["mindspeed"], npu_smi="nowhere")
    place.edit(PTD, "NPUS_PER_NODE=2", "NPUS_PER_NODE=2\nexport ASCEND_RT_VISIBLE_DEVICES=0,1")
    place.ascend.set_state(processes=[{"logic": 2, "pid": 4711, "name": "python", "mb": 9000}])
    place.ask()
    found = Collected(tool, place.collect())
    assert {device["logic"]: device["inside"] for device in found.manifest["devices"]} == {5: 1, 6: 2}
    assert {use.logic for use in place.ascend.uses()} == {5, 6}
    place.untouched(tmp_path)


def test_another_user_and_a_project_of_theirs(host: Start, tool: Tool, tmp_path: Path) -> None:
    """Without a name in the container's passwd; the directory is mounted from that user's on the host."""
    place = Place(host, tool, CASES["mindspeed"], user="1234")
    for path in (place.project, *place.project.rglob("*")):
        os.chown(path, 1234, 1234)
    place.container.outside("/workspace").chmod(0o777)
    place.ask(setup="/home/root/Ascend/ascend-toolkit/set_env.sh")
    found = Collected(tool, place.collect())
    assert [one[:2] for one in found.profiles] == CASES["mindspeed"].expected
    assert {path.stat().st_uid for path in place.project.rglob("*")} == {1234}
    place.untouched(tmp_path)


def test_a_project_that_may_only_be_read(host: Start, tool: Tool, tmp_path: Path) -> None:
    place = Place(host, tool, CASES["diffusers"], mode="ro")
    place.ask()
    assert place.collect().status == 0
    place.untouched(tmp_path)


@pytest.mark.parametrize(
    ("model", "message", "remedy"),
    [
        (
            {"project": "SOURCE"},
            "SOURCE, the project of model mine, is not there in the container vllm",
            "`project` means a path in the container vllm: there SOURCE of the host is /data/project",
        ),
        (
            {"project": "/somewhere"},
            "/somewhere, the project of model mine, is not there in the container vllm",
            "`project` means a path in the container vllm: correct it, or mount it there",
        ),
        (
            {"command": "python3 SOURCE/generate.py"},
            "there is no SOURCE/generate.py in /data/project in the container vllm, and the command of model mine",
            "`command` means a path in the container vllm: there SOURCE/generate.py of the host is /data/project/",
        ),
    ],
    ids=["project", "nowhere", "script"],
)
def test_a_path_of_the_host(
    host: Start, tool: Tool, tmp_path: Path, model: dict[str, str], message: str, remedy: str
) -> None:
    place = Place(host, tool, CASES["step-on"])
    here = str(place.source)
    place.ask({key: value.replace("SOURCE", here) for key, value in model.items()})
    one_error(place.collect(), 5, message=message.replace("SOURCE", here), remedy=remedy.replace("SOURCE", here))
    examined = tool("doctor", "--host", "ascend01", "--model", "mine")
    assert examined.status == 5
    assert message.replace("SOURCE", here) in examined.out
    place.untouched(tmp_path)


def test_a_model_at_a_path_of_the_host(host: Start, tool: Tool, tmp_path: Path) -> None:
    """The same for an adapter's."""
    place = Place(host, tool, Case("scripts", {}, [], versions={"transformers": "4.57.1"}))
    inside(tool, place.ascend, models={"mine": {"adapter": "transformers", "path": str(place.source / "tinylm")}})
    remedy = f"there {place.source}/tinylm of the host is /data/project/tinylm"
    one_error(place.collect(), 5, message="is not there in the container vllm", remedy=remedy)
    place.untouched(tmp_path)


def test_a_script_that_the_user_inside_cannot_read(host: Start, tool: Tool, tmp_path: Path) -> None:
    """As root leaves them behind; not: a script that uses no profiler."""
    place = Place(host, tool, CASES["profiler"], user="ascend")
    place.container.outside("/workspace").chmod(0o777)
    (place.project / "pretrain_profiled.py").chmod(0o600)
    place.ask()
    message = (
        "/data/project, the project of model mine, has pretrain_profiled.py, which cannot be read in the container"
    )
    one_error(place.collect(), 5, message=message, remedy="let ascend, as whom we are in the container, read it")
    place.untouched(tmp_path)


# --- shown, left, interrupted, stopped --------------------------------------------------------------------------------


def test_what_is_shown_of_it(host: Start, tool: Tool, tmp_path: Path) -> None:
    place = Place(host, tool, CASES["cann-recipes"])
    place.ask()
    shown = tool("--host", "ascend01", "--model", "mine", *place.case.arguments, "--dry-run")
    assert shown.status == 0, shown.err
    for line in (
        f"logic ids of the host: 2 as 0, 5 as 1, 6 as 2; mounts: {place.source} at /data/project",
        "route     cann-recipes: executor/utils/profiler_context.py has a profiler",
        "          in /data/project, until everything is recorded",
    ):
        assert line in shown.out, shown.out
    examined = tool("doctor", "--host", "ascend01", "--model", "mine")
    assert examined.status == 0, examined.out
    assert "cann-recipes: executor/utils/profiler_context.py has a profiler" in examined.out
    assert place.ascend.uses() == []
    assert digests(place.project) == place.before
    place.untouched(tmp_path)


def test_left_alone_and_fetched_later(host: Start, tool: Tool, tmp_path: Path) -> None:
    place = Place(host, tool, CASES["verl"], mounted=False)
    place.ask()
    run = place.collect("--detach").document["run_id"]
    found = Collected(tool, tool("attach", run, "--host", "ascend01", "--json"))
    assert [one[:2] for one in found.profiles] == CASES["verl"].expected
    place.untouched(tmp_path)


def test_an_interrupt_ends_a_server_with_all_its_processes(host: Start, tool: Tool, tmp_path: Path) -> None:
    place = Place(host, tool, CASES["vllm-server"], env={"VLLM_MINIATURE_TROUBLES": "never_ready"})
    place.ask()
    process = place.start()
    place.loaded(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "nothing of it is left and its device is free" in out
    place.untouched(tmp_path)


def test_a_container_that_stops_is_no_case_for_the_fallback(host: Start, tool: Tool, tmp_path: Path) -> None:
    """The template would meet the same container: what has happened is the error, not what comes of trying again."""
    place = Place(host, tool, CASES["vllm-server"], env={"VLLM_MINIATURE_TROUBLES": "never_ready"})
    place.ask({"fallback": {"adapter": "llama"}})
    process = place.start()
    place.loaded(2)
    place.container.stop()
    out, err = process.communicate(timeout=60)
    message, remedy = "during the run the container vllm is not running", "`docker start vllm`; then collect again"
    one_error(Outcome(process.returncode, out, err), 6, message=message, remedy=remedy)
    assert "trying the template instead" not in err
    place.untouched(tmp_path)


# --- a job that runs already ------------------------------------------------------------------------------------------


class Job:
    """A training job in the container, which looks at a directory that is mounted there."""

    def __init__(self, host: Start, tool: Tool) -> None:
        self.place = Place(host, tool, Case("dynamic", {"route": "dynamic"}, []))
        self.file = self.place.project / "prof_config" / "profiler_config.json"
        self.place.ask({"project": f"{MOUNTED}/prof_config"})
        self.start()
        wait_for(self.file.exists)
        self.before = self.file.read_bytes()

    def start(self) -> None:
        inner = f". {self.place.container.home}/{CANN}/set_env.sh; exec {MOUNTED}/train.sh --train-iters 100000"
        # In the background of a session that ends: the container ends it.
        command = f"docker exec vllm bash -c '({inner}) </dev/null >/dev/null 2>&1 &'"
        subprocess.run([self.place.ascend.session], env={"SSH_ORIGINAL_COMMAND": command}, check=True)


@pytest.fixture
def job(host: Start, tool: Tool) -> Iterator[Job]:
    running = Job(host, tool)
    yield running
    running.place.container.stop()


def test_a_job_in_another_container_is_not_seen(job: Job, tool: Tool) -> None:
    """Also where that has the directory as well."""
    box(job.place.ascend, "other", mounts={job.place.source: MOUNTED})
    model = {"route": "dynamic", "project": f"{MOUNTED}/prof_config"}
    inside(tool, job.place.ascend, "other", models={"mine": model})
    message, remedy = "no process that can be seen from here looks at", "name that very one in the inventory"
    one_error(job.place.collect(), 5, message=message, remedy=remedy)
    assert job.file.read_bytes() == job.before


def test_a_job_needs_nothing_of_its_host(job: Job, tool: Tool) -> None:
    """No device is leased, so nothing has to keep one there."""
    outcome = job.place.collect()
    assert outcome.status == 0, outcome.err
    assert job.file.read_bytes() == job.before
    assert not (job.place.ascend.home / "collect_remote").exists()


@pytest.mark.parametrize("how", ["clean", "again"])
def test_what_a_job_was_told_when_its_container_stopped(job: Job, tool: Tool, tmp_path: Path, how: str) -> None:
    """All of the run was killed at once: its file is put back by who comes next."""
    process = job.place.start()
    wait_for(lambda: job.file.read_bytes() != job.before)
    job.place.container.stop()
    out, err = process.communicate(timeout=60)
    one_error(Outcome(process.returncode, out, err), 6, message="vllm is not running", remedy="docker start")
    assert job.file.read_bytes() != job.before
    job.place.container.start()
    if how == "clean":
        assert tool("clean", "--host", "ascend01").status == 0
    else:
        job.start()
        outcome = job.place.collect()
        assert outcome.status == 0, outcome.err
    assert job.file.read_bytes() == job.before
    job.place.container.stop()
    nothing_left(job.place.ascend, tmp_path)
