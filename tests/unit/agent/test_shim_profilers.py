"""What profilers of programs become under the shim, and what is said of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from shims import WINDOW, Ran, Shim, complaints

START = """
import contextlib, os, sys, time
import torch, torch_npu
p = torch_npu.profiler
x = torch.randn(4, 4, device="npu:0")
def steps(prof, count):
    for _ in range(count):
        x @ x
        prof.step()
"""
USUAL = """
with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
    steps(prof, 6)
"""


@pytest.fixture
def under(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


def record(under: Shim, program: str, **more: Any) -> Ran:
    return under.run(START, then=program, **more)


# Call sites of the frameworks, as they pass what they pass; `kind` says which window they get.
SCHEDULE = "schedule=p.schedule(wait=0, warmup=0, active=3, repeat=1, skip_first=3)"
CONFIG = "p._ExperimentalConfig({})"
CALL_SITES = {
    "recipes": """
activities=[p.ProfilerActivity.NPU, p.ProfilerActivity.CPU], with_stack=False, record_shapes=False,
profile_memory=False, experimental_config=p._ExperimentalConfig(
    profiler_level=p.ProfilerLevel.Level1, aic_metrics=p.AiCMetrics.PipeUtilization),
schedule=p.schedule(wait=0, warmup=0, active=3, repeat=1, skip_first=3),
on_trace_ready=p.tensorboard_trace_handler("res/decode")""",
    "mindspeed": """
with_stack=True, record_shapes=True, profile_memory=True, activities=[p.ProfilerActivity.NPU],
schedule=p.schedule(wait=0, warmup=1, active=2, repeat=1, skip_first=8),
on_trace_ready=p.tensorboard_trace_handler("profile_dir/decode"), experimental_config=p._ExperimentalConfig(
    aic_metrics=p.AiCMetrics.PipeUtilization, profiler_level=p.ProfilerLevel.Level0, export_type=p.ExportType.Text,
    data_simplification=False)""",
    "vllm": """
activities=[p.ProfilerActivity.CPU, p.ProfilerActivity.NPU], with_stack=False, profile_memory=False, with_modules=True,
experimental_config=p._ExperimentalConfig(
    export_type=p.ExportType.Text, profiler_level=p.ProfilerLevel.Level1, msprof_tx=False,
    aic_metrics=p.AiCMetrics.AiCoreNone, l2_cache=False, op_attr=False, data_simplification=False,
    record_op_args=False, gc_detect_threshold=None),
on_trace_ready=p.tensorboard_trace_handler("vllm/decode", worker_name="dp0_pp0_tp0_rank0")""",
    "verl": """
with_modules=False, with_stack=False, record_shapes=False, profile_memory=False,
activities=[p.ProfilerActivity.NPU],
on_trace_ready=p.tensorboard_trace_handler("verl/decode", analyse_flag=False),
experimental_config=p._ExperimentalConfig(
    profiler_level=p.ProfilerLevel.Level1, export_type=p.ExportType.Db, mstx=True,
    mstx_domain_exclude=["communication"])""",
    "mindie-sd": """
activities=[p.ProfilerActivity.NPU], on_trace_ready=p.tensorboard_trace_handler("./decode_l1"), with_stack=False""",
    "positional schedule": """
schedule=p.schedule(0, 3, 1, 1, 2), on_trace_ready=p.tensorboard_trace_handler("decode", None, True)""",
    "nothing": """on_trace_ready=p.tensorboard_trace_handler("decode")""",
    "own list": """
activities={p.ProfilerActivity.CPU}, on_trace_ready=p.tensorboard_trace_handler(dir_name="decode"),
experimental_config=p._ExperimentalConfig(export_type=[p.ExportType.Db, p.ExportType.Text])""",
}
REQUESTED: dict[str, dict[str, Any]] = {
    "recipes": {"level": 1, "aic_metrics": "PipeUtilization", "activities": ["CPU", "NPU"]},
    "mindspeed": {"level": 0, "aic_metrics": "AiCoreNone", "activities": ["NPU"], "with_stack": True},
    "vllm": {"level": 1, "aic_metrics": "AiCoreNone", "schedule": None, "with_modules": True},
    "verl": {"level": 1, "aic_metrics": "PipeUtilization", "export": ["db"], "schedule": None},
    "mindie-sd": {"level": None, "aic_metrics": None, "export": None, "activities": ["NPU"]},
    "positional schedule": {
        "schedule": {"wait": 0, "active": 3, "warmup": 1, "repeat": 1, "skip_first": 2},
        "activities": None,
    },
    "nothing": {"activities": None, "schedule": None, "handler": "tensorboard"},
    "own list": {"export": ["db", "text"], "activities": ["CPU"]},
}


@pytest.mark.parametrize("site", CALL_SITES)
@pytest.mark.parametrize("scheduled", [True, False], ids=["window", "start-stop"])
def test_every_call_site_records_what_was_asked_for(under: Shim, site: str, scheduled: bool) -> None:
    program = f"with p.profile({CALL_SITES[site]}) as prof:\n    steps(prof, 6)\n"
    own = "schedule=" in CALL_SITES[site] and not scheduled
    ran = record(under, program, windows={"decode": WINDOW if scheduled else None}, phase_by=[], phase="decode")
    said = ran.untroubled().one("profiler")
    assert {name: said["requested"][name] for name in REQUESTED[site]} == REQUESTED[site]
    assert said["effective"]["level"] == 1
    assert said["effective"]["aic_metrics"] == "PipeUtilization"
    assert said["effective"]["export"] == ["text"]
    assert said["effective"]["activities"] == ["CPU", "NPU"]
    assert not any(said["effective"][name] for name in ("with_stack", "with_modules", "record_shapes"))
    if own and site == "mindspeed":  # its own window is longer than the run
        assert ran.said("closed") == []
        return
    closed = ran.one("closed")
    assert closed["id"] == said["id"]
    assert closed["how"] == ("schedule" if scheduled or own else "stop")
    assert closed["complete"]
    _, info = ran.info(closed["directory"])
    config = info["config"]
    assert config["experimental_config"]["_profiler_level"] == "Level1"
    assert config["experimental_config"]["_aic_metrics"] == "ACL_AICORE_PIPE_UTILIZATION"
    assert config["experimental_config"]["_export_type"] == ["text"]
    assert len(config["common_config"]["activities"]) == 2
    assert Path(closed["directory"]).parent == under.output / "decode"
    assert Path(closed["directory"]).name.startswith("dp0_pp0_tp0_rank0_") == (site == "vllm")
    if scheduled:
        assert config["common_config"]["schedule"]["active"] == WINDOW["active"]
    assert not (Path(closed["directory"]) / "ASCEND_PROFILER_OUTPUT").exists(), "parsed later"
    assert sorted(path.name for path in under.home.iterdir()) == ["program.py", "run"]


def test_the_request_chooses_everything(under: Shim) -> None:
    profiler = {"level": 2, "aic_metrics": "MemoryUB", "export": ["db", "text"], "with_stack": True}
    ran = record(under, USUAL, profiler={**profiler, "record_shapes": True, "profile_memory": True}).untroubled()
    effective = ran.one("profiler")["effective"]
    assert (effective["level"], effective["aic_metrics"], effective["export"]) == (2, "MemoryUB", ["db", "text"])
    assert effective["with_stack"] and effective["record_shapes"] and effective["profile_memory"]


def test_level_0_takes_no_metrics(under: Shim) -> None:
    profiler = {"level": 0, "aic_metrics": "PipeUtilization", "export": ["text"]}
    ran = record(under, USUAL, profiler=profiler).untroubled()
    assert ran.one("profiler")["effective"]["aic_metrics"] == "AiCoreNone"


# --- steps, states, directories ---


def test_every_step_is_told_with_the_state_it_ran_in(under: Shim) -> None:
    ran = record(under, USUAL).untroubled()
    assert ran.states() == ["NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert [line["n"] for line in ran.said("step")] == list(range(6))
    assert all(line["seconds"] > 0 and line["recompiles"] == 0 for line in ran.said("step"))
    assert [line["say"] for line in ran.said() if line["say"] != "step"] == [
        *("alive", "imported", "profiler", "device", "opened", "closed", "exit"),
    ]
    line = (START + USUAL).splitlines().index(USUAL.splitlines()[1]) + 1
    assert ran.one("profiler")["call_site"] == f"{under.home}/program.py:{line}"


def test_the_device_is_told_and_waited_for(under: Shim) -> None:
    gate = under.home / "gate"
    program = f"import threading; threading.Timer(0.3, lambda: open({str(gate)!r}, 'w').close()).start()" + USUAL
    ran = record(under, program, gate=str(gate)).untroubled()
    device, waiting, opened = (ran.one(word) for word in ("device", "waiting", "opened"))
    assert device["name"] == "Ascend910B3"
    assert device["memory_total_bytes"] > device["memory_free_bytes"] > 0
    assert device["pid"] == ran.said("alive")[0]["pid"]
    assert device["time"] <= waiting["time"] <= opened["time"] - 0.2
    assert waiting["id"] == opened["id"]


def test_a_gate_that_never_opens_is_passed(under: Shim) -> None:
    ran = record(
        under, USUAL + USUAL.replace("decode", "prefill"), gate=str(under.home / "gate"), gate_s=0.2
    ).untroubled()
    assert len(ran.said("waiting")) == 1, "once in a process"
    assert len(ran.said("closed")) == 2


def test_start_and_stop_without_with(under: Shim) -> None:
    program = """
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
prof.start()
steps(prof, 6)
prof.stop()
prof.stop()
"""
    ran = record(under, program).untroubled()
    assert ran.one("closed")["complete"]
    assert complaints(ran.stdout) == []


def test_handlers_built_before_the_first_start_keep_their_directories(under: Shim) -> None:
    """torch_npu has one place for a process, that of the handler built last."""
    program = """
made = {phase: p.profile(on_trace_ready=p.tensorboard_trace_handler("res/" + phase)) for phase in ("prefill", "decode")}
for prof in made.values():
    with prof:
        steps(prof, 6)
"""
    ran = record(under, program).untroubled()
    assert ran.profiles() == {"decode": 1, "prefill": 1}
    assert [Path(line["directory"]).parent.name for line in ran.said("closed")] == ["prefill", "decode"]


def test_directories_the_other_way_round(under: Shim) -> None:
    program = USUAL.replace("res/decode", "res/decode/prof")
    ran = record(under, program, phase_by=[["/(prefill|decode)/prof$", "decode"]]).untroubled()
    assert ran.one("profiler")["phase"] == "decode"


def test_a_handler_of_the_programs_own_is_replaced(under: Shim) -> None:
    program = """
inner = p.tensorboard_trace_handler("res/decode")
def mine(prof):
    print("mine")
    inner(prof)
with p.profile(on_trace_ready=mine) as prof:
    steps(prof, 6)
"""
    ran = record(under, program).untroubled()
    said = ran.one("profiler")
    assert said["requested"]["handler"] == "own"
    assert said["directory"] == "res/decode", "that of the handler inside"
    assert "mine" not in ran.stdout
    assert ran.one("closed")["complete"]


def test_without_a_handler_the_raw_data_are_kept(under: Shim) -> None:
    program = "with p.profile() as prof:\n    x @ x\n"
    ran = record(under, program, windows={"forward": None}, phase="forward").untroubled()
    assert ran.one("profiler")["requested"]["handler"] is None
    assert ran.profiles() == {"forward": 1}
    assert (ran.one("closed")["how"], ran.one("closed")["complete"]) == ("stop", True)


def test_a_schedule_of_the_programs_own_is_kept_where_no_window_is_asked_for(under: Shim) -> None:
    program = """
asked = []
def schedule(step):
    asked.append(step)
    return {1: p.ProfilerAction.RECORD, 2: p.ProfilerAction.RECORD_AND_SAVE}.get(step, p.ProfilerAction.NONE)
with p.profile(schedule=schedule, on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
    steps(prof, 4)
assert asked == sorted(set(asked)), "a function that counts its calls counts right"
"""
    ran = record(under, program, windows={"decode": None}).untroubled()
    assert ran.states() == ["NONE", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert ran.one("closed")["complete"]
    assert ran.one("profiler")["schedule"] == {}


# --- one profile of a phase ---

CYCLES = "schedule=p.schedule(wait=1, warmup=1, active=2, skip_first=1)"


@pytest.mark.parametrize(
    ("program", "window", "states"),
    [
        # A function that profiles, called again and again; before the window was whole as well.
        (
            """
for count in (3, 1, 9, 9):
    with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
        steps(prof, count)
""",
            WINDOW,
            "NONE WARMUP RECORD NONE NONE WARMUP RECORD RECORD RECORD_AND_SAVE NONE NONE NONE NONE",
        ),
        # A schedule that goes on for ever, as it does by default: torch_npu's, and a function's.
        (
            f"with p.profile({CYCLES}) as prof: steps(prof, 20)",
            None,
            "NONE NONE WARMUP RECORD RECORD_AND_SAVE" + " NONE" * 15,
        ),
        (
            """
def schedule(step): return [p.ProfilerAction.RECORD, p.ProfilerAction.RECORD_AND_SAVE][step % 2]
with p.profile(schedule=schedule) as prof: steps(prof, 5)
""",
            None,
            "RECORD RECORD_AND_SAVE NONE NONE NONE",
        ),
        # One profiler, started and stopped.
        (
            """
prof = p.profile()
for _ in range(3):
    prof.start()
    steps(prof, 2)
    prof.stop()
""",
            None,
            "RECORD RECORD",
        ),
    ],
    ids=["called again", "for ever", "a function for ever", "started again"],
)
def test_of_a_phase_there_is_one_profile_and_it_is_whole(
    under: Shim, program: str, window: dict[str, int] | None, states: str
) -> None:
    ran = record(under, program, windows={"decode": window}, phase="decode").untroubled()
    assert ran.states() == states.split()
    assert ran.profiles() == {"decode": 1}
    (closed,) = [line for line in ran.said("closed") if line["complete"]]
    assert os.path.isdir(closed["directory"])


# --- not wanted ---

MANAGER = """
class Manager:
    "One profiler at a time, the phase as it is told."
    def __init__(self):
        self.prefill, self.prof = None, None
    def set_status(self, prefill):
        if prefill == self.prefill:
            return
        if self.prof is not None:
            self.prof.stop()
        self.prefill = prefill
        self.prof = p.profile(
            schedule=p.schedule(wait=0, warmup=0, active=1 if prefill else 3, repeat=1, skip_first=0 if prefill else 3),
            on_trace_ready=p.tensorboard_trace_handler("prof/" + ("prefill" if prefill else "decode")))
        self.prof.start()
    def step(self):
        self.prof.step()
    def __del__(self):
        if self.prof is not None:
            self.prof.stop()
manager = Manager()
manager.set_status(True)
for _ in range(3):
    x @ x
    manager.step()
manager.set_status(False)
for _ in range(6):
    x @ x
    manager.step()
del manager
"""


@pytest.mark.parametrize("phases", [("prefill",), ("decode",), ("prefill", "decode")], ids="+".join)
def test_phases_that_are_not_wanted_are_inert(under: Shim, phases: tuple[str, ...]) -> None:
    windows = {phase: {**WINDOW, "skip_first": 0, "active": 1} if phase == "prefill" else WINDOW for phase in phases}
    ran = record(under, MANAGER, windows=windows).untroubled()
    assert {line["directory"]: line["wanted"] for line in ran.said("profiler")} == {
        "prof/prefill": "prefill" in phases,
        "prof/decode": "decode" in phases,
    }
    assert ran.profiles() == dict.fromkeys(sorted(phases), 1)
    assert all(line["complete"] for line in ran.said("closed"))
    assert complaints(ran.stdout) == []
    assert not (under.home / "prof").exists()


def test_an_inert_profiler_counts_its_steps_and_is_a_profiler(under: Shim) -> None:
    program = """
with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
    while prof.step_num < 4:
        x @ x
        prof.step()
    prof.add_metadata("a", "b")
assert isinstance(prof, p.profile)
"""
    ran = record(under, program, ranks=[3]).untroubled()
    assert ran.one("profiler")["wanted"] is False
    assert ran.said("opened") == ran.said("step") == []
    assert ran.profiles() == {}


def test_classes_derived_from_profile(under: Shim) -> None:
    program = """
class Mine(p.profile):
    def __init__(self, where, **options):
        super().__init__(on_trace_ready=p.tensorboard_trace_handler(where), **options)
        self.calls = 0
    def step(self):
        self.calls += 1
        super().step()
with Mine("res/decode", with_stack=True) as prof:
    steps(prof, 6)
assert isinstance(prof, p.profile) and issubclass(Mine, p.profile) and prof.calls == 6
"""
    ran = record(under, program).untroubled()
    assert ran.states() == ["NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert ran.one("closed")["complete"]


def test_the_programs_own_mistake_is_its_own(under: Shim) -> None:
    program = "p.profile(no_such_argument=1)\n"
    ran = record(under, program)
    assert ran.status == 1
    assert "unexpected keyword argument 'no_such_argument'" in ran.stderr
    assert "collect_remote_shim" not in ran.stderr.splitlines()[-1]


# --- ranks ---

RANKS = {
    "torchrun": ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, 3, "profiler_info_3.json"),
    "recipes": ({"RANK_ID": "2", "LOCAL_RANK": "0", "RANK_OFFSET": "2", "WORLD_SIZE": "4"}, 2, "profiler_info_2.json"),
    "local": ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1, "profiler_info_1.json"),
    "alone": ({}, 0, "profiler_info.json"),
    "alone, with a number": ({"LOCAL_RANK": "0", "RANK_ID": "0", "WORLD_SIZE": "1"}, 0, "profiler_info.json"),
}


@pytest.mark.parametrize("how", RANKS)
def test_ranks_that_torch_npu_does_not_know(under: Shim, how: str) -> None:
    env, rank, name = RANKS[how]
    program = USUAL + "print('RANK' in os.environ)\n"
    ran = record(under, program, env=env).untroubled()
    assert (ran.one("profiler")["rank"], ran.one("profiler")["world"]) == (rank, int(env.get("WORLD_SIZE", 1)))
    assert ran.info(ran.one("closed")["directory"])[0] == name
    assert ran.stdout.splitlines()[-1] == str("RANK" in env)


GROUP = """
def join(rank):
    torch.distributed.is_available = torch.distributed.is_initialized = lambda: True
    torch.distributed.get_rank, torch.distributed.get_world_size = lambda: rank, lambda: 2
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_known_only_later(under: Shim, rank: int) -> None:
    """A profiler that is made before the process group: it is asked for again when it starts."""
    program = (
        GROUP
        + f"""
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
join({rank})
with prof:
    steps(prof, 6)
"""
    )
    ran = record(under, program, ranks=[1]).untroubled()
    last = ran.said("profiler")[-1]
    assert (last["rank"], last["wanted"]) == (rank, rank == 1)
    assert [line["rank"] for line in ran.said("opened")] == [1] * rank
    assert ran.profiles() == {"decode": 1} if rank else ran.profiles() == {}


# --- ends ---


@pytest.mark.parametrize("count", [2, 4])
def test_a_program_that_ends_with_its_window_open(under: Shim, count: int) -> None:
    """After two steps it was recording, after four the last step was: neither is complete."""
    program = f"""
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
prof.start()
steps(prof, {count})
"""
    ran = record(under, program)
    closed = ran.one("closed")
    assert (closed["complete"], closed["how"]) == (False, "stop")
    assert Path(closed["directory"]).is_dir()
    assert ran.said()[-1]["say"] == "exit"


def test_a_program_that_ends_in_its_warmup_leaves_nothing(under: Shim) -> None:
    program = USUAL.replace("steps(prof, 6)", "steps(prof, 1)")
    ran = record(under, program)
    assert {name: ran.one("closed")[name] for name in ("directory", "complete")} == {
        "directory": None,
        "complete": False,
    }
    assert ran.profiles() == {"decode": 0}


def test_a_program_that_is_killed_has_closed_nothing(under: Shim) -> None:
    program = USUAL.replace("steps(prof, 6)", "steps(prof, 3); os.kill(os.getpid(), 9)")
    ran = record(under, program)
    assert ran.status == -9
    assert ran.said("closed") == ran.said("exit") == []
    assert len(ran.said("step")) == 3


def test_a_fork_does_not_end_what_its_parent_records(under: Shim) -> None:
    program = """
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
prof.start()
steps(prof, 3)
if os.fork() == 0:
    prof.step()
    sys.exit(0)
os.wait()
assert os.listdir(prof.prof_if.prof_path)
steps(prof, 3)
prof.stop()
"""
    ran = record(under, program).untroubled()
    assert ran.one("closed")["complete"]
    parent, child = ran.said("alive")
    assert {line["file"] for line in ran.said("step")} == {parent["file"]}
    assert [line["say"] for line in ran.said() if line["file"] == child["file"]] == ["alive", "exit"]


def test_a_profiler_that_is_made_before_a_fork_and_started_behind_it(under: Shim) -> None:
    program = """
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
if os.fork() == 0:
    with prof:
        steps(prof, 6)
    sys.exit(0)
os.wait()
"""
    made_nothing = "import torch_npu\ntorch_npu.npu.init = lambda: None\n"  # a device does not survive a fork
    ran = record(under, made_nothing + program)
    child = ran.said("alive")[1]
    (told,) = (line for line in ran.said("profiler") if line["file"] == child["file"])
    assert told["id"] == ran.said("profiler")[0]["id"]


def test_a_profiler_that_is_stopped_when_it_is_deleted(under: Shim) -> None:
    program = """
def run():
    prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
    prof.start()
    x @ x
run()
print("on")
"""
    ran = record(under, program, windows={"decode": None}).untroubled()
    assert (ran.one("closed")["how"], ran.one("closed")["complete"]) == ("stop", True)


def test_a_profiler_that_was_never_started_ends_without_a_trace(under: Shim) -> None:
    """torch_npu would delete, or finish, the directory of the recording before it."""
    program = (
        USUAL
        + """
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/prefill"))
del prof
"""
    )
    windows = {"decode": WINDOW, "prefill": {**WINDOW, "skip_first": 0}}
    ran = record(under, program, windows=windows).untroubled()
    assert ran.profiles() == {"decode": 1}
    assert list(Path(ran.one("closed")["directory"]).glob("profiler_info*.json"))
    assert complaints(ran.stdout) == []


def test_a_step_before_the_start_records_nothing(under: Shim) -> None:
    program = """
prof = p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode"))
steps(prof, 3)
prof.start()
steps(prof, 6)
prof.stop()
prof.step()
"""
    ran = record(under, program).untroubled()
    assert ran.states() == ["NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert ran.profiles() == {"decode": 1}


def test_a_stop_that_fails_is_no_closed_window(under: Shim) -> None:
    ran = record(under, USUAL, windows={"decode": None}, env={"SIMHOST_LIGHT_FAULTS": "stop_raises"})
    assert ran.status == 0
    assert "Stop profiler failed" in ran.stdout
    assert ran.said("closed")[0]["complete"] is False


# --- other releases ---

OLDER = {
    "analyse_flag": """
original = p.tensorboard_trace_handler
def tensorboard_trace_handler(dir_name=None, worker_name=None):
    return original(dir_name, worker_name)
p.tensorboard_trace_handler = inner.tensorboard_trace_handler = tensorboard_trace_handler
""",
    "export_type": """
original = p._ExperimentalConfig
class _ExperimentalConfig(original):
    def __init__(self, profiler_level="Level0", aic_metrics="ACL_AICORE_NONE", l2_cache=False):
        super().__init__(profiler_level, aic_metrics, l2_cache)
del p.ExportType
p._ExperimentalConfig = _ExperimentalConfig
""",
    "with_modules": """
original = p.profile.__init__
def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
             with_stack=False, experimental_config=None):
    original(self, activities=activities, schedule=schedule, on_trace_ready=on_trace_ready, record_shapes=record_shapes,
             profile_memory=profile_memory, with_stack=with_stack, experimental_config=experimental_config)
p.profile.__init__ = __init__
""",
    "positional": """
original = p.profile.__init__
def __init__(self, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
             with_stack=False, with_flops=False, with_modules=False, experimental_config=None, **more):
    original(self, activities=activities, schedule=schedule, on_trace_ready=on_trace_ready, record_shapes=record_shapes,
             profile_memory=profile_memory, with_stack=with_stack, experimental_config=experimental_config, **more)
p.profile.__init__ = __init__
""",
}


@pytest.mark.parametrize("what", OLDER)
def test_releases_with_other_arguments(under: Shim, tmp_path: Path, what: str) -> None:
    """A torch_npu that differs from the newest in one thing: the same program records all the same."""
    light = under.env["PYTHONPATH"]
    package = tmp_path / "older"
    package.mkdir()
    text = (
        "import sys\nimport torch_npu.profiler as p\nfrom torch_npu.profiler import profiler as inner\n" + OLDER[what]
    )
    (package / "older.py").write_text(text)
    late = """
sys.path.insert(0, {!r})
import older
os.environ["COLLECT_REMOTE_SHIM"] = os.environ.pop("LATE")
sys.path.insert(0, {!r})
import sitecustomize
"""
    call = USUAL
    if what == "positional":
        call = call.replace("on_trace_ready=", "None, p.schedule(0, 2, 1, 1), ")
    env = under.environment()
    program = late.format(str(package), str(under.directory)) + call
    changed = {"PYTHONPATH": light, "LATE": env["COLLECT_REMOTE_SHIM"], "COLLECT_REMOTE_SHIM": ""}
    ran = record(under, program, env=changed).untroubled()
    effective = ran.one("profiler")["effective"]
    assert (effective["level"], effective["aic_metrics"]) == (1, "PipeUtilization")
    assert ran.one("closed")["complete"]
    assert Path(ran.one("closed")["directory"]).parent == under.output / "decode"


def test_a_place_that_cannot_be_written_to_does_not_end_the_program(under: Shim) -> None:
    under.output.parent.mkdir(exist_ok=True)
    under.output.write_text("")
    ran = record(under, USUAL + "print('done')\n")
    assert ran.status == 0
    assert ran.stdout.splitlines()[-1] == "done"
    assert not any(line["complete"] for line in ran.said("closed"))
    assert os.path.isfile(under.output)
