"""What the user asks for. Plain data, checked as far as it can be without a host."""

from __future__ import annotations

import ast
import re
import threading
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collect_agent import template
from collect_agent.npu.judge import Wish

from .choices import PHASES_OF_OTHERS
from .errors import UsageError
from .inventory.hosts import ModelSpec

DEVICE = re.compile(r"(?:logic:)?[0-9]{1,9}|[0-9]{1,9}\.[0-9]{1,9}")

_PARSER = threading.Lock()  # that of Python 3.11 counts its depth for all threads together (CPython gh-106905)
MOST_NAMES = 16  # a name may stand for several chips, and every way to pick one each is tried


@dataclass(frozen=True, slots=True)
class Request:
    """One profile to collect. `None` means: what suits the model.

    `devices`, `device_count`, `max_used`, `allow_health`: see `collect_agent.npu.Wish`. `wait`: seconds to wait for a
    free device. `timeout`: seconds for the run on the host, from the moment it has its device. `reconnect_for`: seconds
    to try to get a lost connection back. `keep_raw`: the profiler's raw data go into the archive too. `salvage`: bring
    what there is of a profile that is not valid, under a name that says so. `route`: instead of the model's own.
    `all_steps`: as many as the program makes, in place of `steps`. `ranks`: those to profile, of all by default.
    `nodes`: all hosts of one job, in the order of their ranks, `host` among them; none where it is alone. The devices
    are those of each host.
    UsageError for a device that is written in no known way, too many of them, or none.
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
    reconnect_for: float = 600.0
    keep_raw: bool = False
    salvage: bool = False
    out: Path | None = None
    route: str | None = None
    all_steps: bool = False
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.device_count < 1:
            raise UsageError(f"--devices {self.device_count}: a run needs at least one", "leave it out for one")
        if len(self.devices) > MOST_NAMES:
            raise UsageError(
                f"{len(self.devices)} devices are named, and at most {MOST_NAMES} can be", "say how many with --devices"
            )
        for name in self.devices:
            if not DEVICE.fullmatch(name):
                raise UsageError(
                    f"{name!r} does not name a device",
                    'name it by its NPU ("3"), NPU and chip ("3.1") or logic id ("logic:7")',
                )
        if self.all_steps and self.steps is not None:
            raise UsageError(f"--steps all and --steps {self.steps} do not go together", "say one of them")
        if self.nodes and (self.host not in self.nodes or len(set(self.nodes)) < len(self.nodes)):
            raise UsageError(
                f"--nodes: {', '.join(self.nodes)} names a host twice, or leaves out {self.host}",
                "name the further hosts of the job, each once",
            )
        self._require_ranks()

    def _require_ranks(self) -> None:
        beyond = [rank for rank in self.ranks if not 0 <= rank < self.world_size]
        if beyond:
            raise UsageError(
                f"--ranks {beyond[0]}: there are {self.world_size} ranks, numbered from 0",
                "a rank has a device of its own: say how many with --devices",
            )
        if not self.profiled_ranks:
            first, last = self._own_ranks[0], self._own_ranks[-1]
            raise UsageError(
                f"--ranks leaves none to profile on {self.host}, which has {first} to {last}",
                "what a host of the job did is proved by its profile: name a rank of each",
            )

    @property
    def rank_count(self) -> int:
        """Of this host: one process a device."""
        return max(self.device_count, len(self.devices))

    @property
    def node_rank(self) -> int:
        """The place of this host among those of the job."""
        return self.nodes.index(self.host) if self.nodes else 0

    @property
    def node_count(self) -> int:
        return len(self.nodes) or 1

    @property
    def world_size(self) -> int:
        """Ranks of the whole job."""
        return self.node_count * self.rank_count

    @property
    def profiled_ranks(self) -> tuple[int, ...]:
        """Of this host, by their numbers in the job."""
        return tuple(rank for rank in self._own_ranks if not self.ranks or rank in self.ranks)

    @property
    def _own_ranks(self) -> range:
        return range(self.node_rank * self.rank_count, (self.node_rank + 1) * self.rank_count)

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


def window(request: Request, model: ModelSpec, phases: Sequence[str] = ()) -> Window:
    """Decide phase and steps for this model. UsageError when the model has no such phase, or the steps are too few.

    `phases`: what the model's route can record, the default first; without a route the adapter tells.
    """
    if request.warmup_steps < 1:
        raise UsageError(
            f"--warmup-steps {request.warmup_steps}: at least one step must run before the window",
            "leave it out for the default of 2",
        )
    phase = _routed_phase(request, model, phases) if phases else _adapted_phase(request, model)
    steps = default_steps(phase) if request.steps is None else request.steps
    try:
        return Window(phase, steps, recorded(phase, steps, request.warmup_steps))
    except ValueError as error:
        raise UsageError(f"--steps {steps}: {error}", "ask for another number of steps") from error


def _routed_phase(request: Request, model: ModelSpec, phases: Sequence[str]) -> str:
    phase = request.phase or phases[0]
    if phase not in phases:
        raise UsageError(
            f"route {model.route} of model {model.name} cannot record --phase {phase}", f"it can: {', '.join(phases)}"
        )
    return phase


def _adapted_phase(request: Request, model: ModelSpec) -> str:
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
    if request.all_steps:
        raise UsageError(
            f"--steps all: the adapter of model {model.name} decodes for as long as it is asked to",
            "say how many steps to record",
        )
    return phase


def recorded(phase: str, steps: int, warmup_steps: int) -> dict[str, list[str]]:
    """`collect_agent.template.windows`, and the phases that only programs of others have. ValueError as there."""
    if phase in PHASES_OF_OTHERS:
        if steps < 1:
            raise ValueError(f"{steps} steps are too few for {phase}: at least 1")
        if max(steps, warmup_steps) > template.MAX_STEPS:
            raise ValueError(f"more than {template.MAX_STEPS} steps are too many")
        return {phase: [phase] * steps}
    return template.windows(phase, steps, warmup_steps)


def default_steps(phase: str) -> int:
    """Active steps when nobody asks for a number: a prefill or a whole forward call is long, a decode step short."""
    return {"prefill": 1, "rollout": 1, "train": 3, "forward": 5}.get(phase, 10)


def kinds(model: ModelSpec) -> set[str]:
    """The steps that the model's adapter offers, of prefill, decode and forward. UsageError for a broken file."""
    if model.adapter is None or not model.adapter.endswith(".py"):
        return {"forward"} if model.adapter == "diffusers" else {"prefill", "decode"}
    try:
        with _PARSER:
            tree = ast.parse(adapter_source(Path(model.adapter)), model.adapter)
    except (SyntaxError, ValueError, OSError) as error:
        raise UsageError(f"cannot read the adapter of model {model.name}: {error}", "mend the file") from error
    defined = _global_names(tree.body)
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


def adapter_source(path: Path) -> str:
    """The text of a user's file, decoded as Python does it (byte order mark, PEP 263), to be written as UTF-8.

    SyntaxError, UnicodeDecodeError or OSError when it cannot be read.
    """
    with tokenize.open(path) as file:
        lines = file.readlines()
    # The declaration of another encoding would be wrong from here on.
    lines[:2] = [re.sub(r"^([ \t\f]*#.*?coding[:=][ \t]*)[-\w.]+", r"\1utf-8", line) for line in lines[:2]]
    return "".join(lines)


def _global_names(body: Sequence[ast.stmt]) -> set[str]:
    """What a module defines, in whichever branch of its conditions."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef(name=name):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                names.add(name)
            case ast.If() | ast.Try() | ast.With():
                for branch in ("body", "orelse", "finalbody"):
                    names |= _global_names(getattr(node, branch, ()))
                for handler in getattr(node, "handlers", ()):
                    names |= _global_names(handler.body)
    return names
