"""What the user asks for. Plain data, checked as far as it can be without a host."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from collect_agent import template
from collect_agent.npu import Wish

from .errors import UsageError
from .inventory import ModelSpec

Phase = Literal["prefill", "decode", "both", "separate", "forward"]
PHASES: tuple[str, ...] = get_args(Phase)
# Names of torch_npu.profiler.AiCMetrics (torch_npu 2.13.0).
AIC_METRICS = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
    "AiCoreNone",
)
EXPORTS = ("text", "db")


@dataclass(frozen=True, slots=True)
class Request:
    """One profile to collect. `None` means: what suits the model.

    `devices`, `device_count`, `max_used`, `allow_health`: see `collect_agent.npu.Wish`. `wait`: seconds to wait for a
    free device. `timeout`: seconds for the run on the host, from the moment it has its device.
    """

    host: str
    model: str
    phase: str | None = None
    warmup_steps: int = 2
    steps: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int = 1
    max_used: str | None = None
    allow_health: tuple[str, ...] = ()
    allow_shared: bool = False
    wait: float = 0.0
    level: int = 1
    aic_metrics: str = "PipeUtilization"
    with_stack: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    export: str = "text"
    timeout: float = 3600.0
    out: Path | None = None

    @property
    def wish(self) -> Wish:
        return Wish(self.devices, self.device_count, self.max_used, self.allow_health)


@dataclass(frozen=True, slots=True)
class Window:
    """A request made definite: the phase, its steps, and every window that will be recorded."""

    phase: str
    steps: int
    recorded: dict[str, list[str]]

    @property
    def step_counts(self) -> dict[str, int]:
        """{directory of the phase: active steps}."""
        return {name: len(kinds) for name, kinds in self.recorded.items()}


def window(request: Request, model: ModelSpec) -> Window:
    """Decide phase and steps for this model. UsageError when the model has no such phase, or the steps are too few."""
    if request.warmup_steps < 1:
        raise UsageError(
            f"--warmup-steps {request.warmup_steps}: at least one step must run before the window",
            "leave it out for the default of 2",
        )
    can = kinds(model)
    phase = request.phase or ("both" if "decode" in can else "forward" if "forward" in can else "prefill")
    needs = {
        "both": {"prefill", "decode"},
        "separate": {"prefill", "decode"},
        "decode": {"prefill", "decode"},
    }
    missing = needs.get(phase, {phase}) - can
    if missing:
        raise UsageError(
            f"model {model.name} has no {' and no '.join(sorted(missing))}, which --phase {phase} needs",
            f"its adapter offers: {', '.join(sorted(can)) or 'nothing'}",
        )
    steps = default_steps(phase) if request.steps is None else request.steps
    try:
        return Window(phase, steps, template.windows(phase, steps))
    except ValueError as error:
        raise UsageError(f"--steps {steps}: {error}", "ask for more steps") from error


def default_steps(phase: str) -> int:
    """Active steps when nobody asks for a number: a prefill or a whole forward call is long, a decode step short."""
    return {"prefill": 1, "forward": 5}.get(phase, 10)


def kinds(model: ModelSpec) -> set[str]:
    """The steps that the model's adapter offers, of prefill, decode and forward. UsageError for a broken file."""
    if model.adapter is None or not model.adapter.endswith(".py"):
        return {"forward"} if model.adapter == "diffusers" else {"prefill", "decode"}
    try:
        tree = ast.parse(Path(model.adapter).read_text(encoding="utf-8"), model.adapter)
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"cannot read the adapter of model {model.name}: {error}", "mend the file") from error
    defined = _top_level_names(tree)
    if "load" not in defined:
        raise UsageError(
            f"{model.adapter} defines no load(device, options)", "see the adapter contract in docs/adapters.md"
        )
    offered = defined & {"prefill", "decode", "forward"}
    if not offered:
        raise UsageError(
            f"{model.adapter} defines none of prefill, decode, forward", "see the adapter contract in docs/adapters.md"
        )
    return offered


def _top_level_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
