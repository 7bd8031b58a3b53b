#!/usr/bin/env python3
"""A warmed-up torch_npu profile of a model: edit the settings, put your model in the place of the small Llama.

Printed by `collect-remote template`. Run it on the Ascend host, after CANN's set_env.sh:

    python3 profile_template.py

The profiles are written below OUTPUT/<phase>/.
"""

from __future__ import annotations

PHASE = "both"  # prefill, decode, both (one window), separate (two profiles), forward
STEPS = 10  # active steps (decode steps where there are two kinds)
WARMUP_STEPS = 2  # outside the profiler
LEVEL = 1  # 0, 1, 2
AIC_METRICS = "PipeUtilization"
OUTPUT = "profile_l1"
OPTIONS = {}  # of the model, see DEFAULTS below

# ---- the template: synchronisation, steps, profiler ----

import os
import re
import sys
import time
from typing import Any, Callable

SKIP_FIRST, WAIT, PROFILER_WARMUP = 0, 0, 1
MIN_DECODE_STEPS = 5
MAX_STEPS = 100000  # of a window or a warm-up; no profiler holds as many
PREFILL_STEPS = 1


class TemplateError(Exception):
    """The run cannot give a good profile; `kind` says whose fault it is (UsageError, EnvironmentUnfit or RunFailed)."""

    def __init__(self, kind: str, message: str, remedy: str = "", entry: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.remedy, self.entry = kind, message, remedy, entry


def windows(phase: str, steps: int, warmup_steps: int = 0) -> dict[str, list[str]]:
    """The windows to record: {directory name: kinds of the active steps, in order}.

    `steps` counts decode steps (or those of the only kind there is); a prefill that goes with decode is one step.
    ValueError for an unknown phase, too few steps, or too many of either sort.
    """
    if phase not in ("prefill", "decode", "both", "separate", "forward"):
        raise ValueError("unknown phase {!r}".format(phase))
    least = PREFILL_STEPS if phase == "prefill" else MIN_DECODE_STEPS
    if steps < least:
        raise ValueError("{} steps are too few for {}: at least {}".format(steps, phase, least))
    for count, what in ((steps, "steps"), (warmup_steps, "warm-up steps")):
        if count > MAX_STEPS:
            raise ValueError("{} {} are too many: at most {}".format(count, what, MAX_STEPS))
    if phase == "both":
        return {"both": ["prefill"] * PREFILL_STEPS + ["decode"] * steps}
    if phase == "separate":
        return {"prefill": ["prefill"] * PREFILL_STEPS, "decode": ["decode"] * steps}
    return {phase: [phase] * steps}


def step_calls(active: int) -> int:
    """How often `step()` is called for a window of `active` steps: what the schedule needs, and one closing call."""
    needed = SKIP_FIRST + WAIT + PROFILER_WARMUP + active
    return needed + 1


def profile(
    adapter: Any, options: dict[str, Any], request: dict[str, Any], output: str, emit: Callable[..., None]
) -> None:
    """Load, check, warm up and record; one `*_ascend_pt` directory below `output`/<window> for every window.

    request: phase, steps, warmup_steps, level (0, 1, 2), aic_metrics, export (a list of text, db), with_stack,
    record_shapes, profile_memory. `emit(stage, **fields)` reports progress; durations are seconds. TemplateError when
    the environment or the model does not allow a good profile.
    """
    try:
        plan = windows(request["phase"], request["steps"], request["warmup_steps"])
    except ValueError as error:
        raise TemplateError("UsageError", str(error), "ask for another number of steps") from error
    emit("import")
    torch, torch_npu = import_torch()
    number = int(os.environ.get("LOCAL_RANK", "0"))
    device = "npu:{}".format(number)
    free, total = open_device(torch, device)
    emit(
        "import",
        versions={"torch": torch.__version__, "torch_npu": torch_npu.__version__},
        device={
            "count": torch.npu.device_count(),
            "name": torch.npu.get_device_name(number),
            "memory_free_bytes": free,
            "memory_total_bytes": total,
            "pid": os.getpid(),
        },
    )
    emit("load")
    with torch.inference_mode():
        state = adapter.load(device, options)
        torch.npu.synchronize()
        run = Runner(torch, adapter, state)

        emit("loaded")
        emit("precheck")
        for kind in dict.fromkeys(kind for kinds in plan.values() for kind in run.needed(kinds)):
            check_output(adapter, kind, run.step(kind)[0])

        for name, kinds in plan.items():
            run.warm_up(name, kinds, request["warmup_steps"], emit)
            run.record(torch_npu, name, kinds, request, os.path.join(output, name), emit)


def import_torch() -> tuple[Any, Any]:
    """torch and torch_npu with a usable device, or a TemplateError that says what is missing."""
    try:
        import torch
        import torch_npu
    except (ImportError, RuntimeError) as error:
        # torch loads torch_npu by itself and wraps what goes wrong there in a RuntimeError.
        raise TemplateError(
            "EnvironmentUnfit",
            "cannot import torch_npu with {}: {}".format(sys.executable, error.__cause__ or error),
            "source CANN's set_env.sh (`setup` in the inventory), or name the Python that has torch_npu (`python`)",
            "import",
        ) from error
    if not torch.npu.is_available():
        raise TemplateError(
            "EnvironmentUnfit",
            "torch.npu.is_available() is False (ASCEND_RT_VISIBLE_DEVICES={})".format(
                os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
            ),
            "check the driver with npu-smi info as this user; a profile is never taken on the CPU",
            "no-usable-device",
        )
    return torch, torch_npu


def open_device(torch: Any, device: str) -> tuple[int, int]:
    """Make `device` the one of this process; its free and total memory, bytes. TemplateError when it does not open."""
    try:
        torch.npu.set_device(device)
        free, total = torch.npu.mem_get_info()
    except RuntimeError as error:
        raise TemplateError(
            "EnvironmentUnfit",
            "the device does not open: {}".format(device_error(str(error))),
            "read CANN's own log (~/ascend/log): the code alone has many causes, a driver that does not fit among them",
            "device-does-not-open",
        ) from error
    return free, total


def device_error(text: str) -> str:
    """Of what torch_npu says: its first line, the code, and the first line of CANN's own that begins with one. Pure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    code = re.search(r"(?:error code is|runtime result = |ret(?:code)?\W+)\s*(\d{6})", text)
    cause = next((line for line in lines if re.match(r"E[A-Z0-9]\d{4}\b", line)), "")
    return "; ".join(filter(None, (lines[0] if lines else "", "code " + code.group(1) if code else "", cause)))


def check_output(adapter: Any, kind: str, output: Any) -> None:
    """Refuse an empty output before anything is measured; the adapter's own `check` sees it too."""
    if output is None or (hasattr(output, "numel") and output.numel() == 0):
        raise TemplateError("RunFailed", "the {} step returned nothing".format(kind), "return the model's output")
    if hasattr(adapter, "check"):
        adapter.check(output)


class Runner:
    """One adapter and its state: every step is synchronised, timed, and counted for recompilations."""

    def __init__(self, torch: Any, adapter: Any, state: Any) -> None:
        self.torch, self.adapter, self.state = torch, adapter, state

    @staticmethod
    def needed(kinds: list[str]) -> list[str]:
        """The kinds to run so that `kinds` can: a decode step needs a prefill before it."""
        return ["prefill", *kinds] if "decode" in kinds and "prefill" not in kinds else kinds

    def step(self, kind: str) -> tuple[Any, float, int]:
        """Run one step to its end on the device: (output, seconds, recompilations)."""
        compiled, begin = self.compilations(), time.perf_counter()
        output = getattr(self.adapter, kind)(self.state)
        self.torch.npu.synchronize()
        return output, round(time.perf_counter() - begin, 6), self.compilations() - compiled

    def compilations(self) -> int:
        """Graphs that torch.compile has made so far in this process; 0 while it was never used."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo.counters["stats"]["unique_graphs"] if dynamo else 0

    def warm_up(self, name: str, kinds: list[str], count: int, emit: Callable[..., None]) -> None:
        """`count` steps of every kind outside the profiler, with the shapes that the window will have."""
        for kind in dict.fromkeys(self.needed(kinds)):
            for number in range(1, count + 1):
                _, seconds, _ = self.step(kind)
                emit("warmup", window=name, kind=kind, step=number, of=count, seconds=seconds)

    def record(
        self,
        torch_npu: Any,
        name: str,
        kinds: list[str],
        request: dict[str, Any],
        directory: str,
        emit: Callable[..., None],
    ) -> None:
        """Record one window: the profiler's own warm-up step, the active steps, the closing `step()`."""
        if "decode" in kinds:
            self.step("prefill")  # a fresh cache, so that decode starts where the warm-up started
        profiler = torch_npu.profiler
        sequence = [kinds[0]] * PROFILER_WARMUP + kinds
        calls = 0
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
            schedule=profiler.schedule(
                skip_first=SKIP_FIRST, wait=WAIT, warmup=PROFILER_WARMUP, active=len(kinds), repeat=1
            ),
            on_trace_ready=profiler.tensorboard_trace_handler(directory),
            experimental_config=experimental_config(profiler, request),
            record_shapes=request["record_shapes"],
            profile_memory=request["profile_memory"],
            with_stack=request["with_stack"],
        ) as prof:
            for number, kind in enumerate(sequence, 1 - PROFILER_WARMUP):
                _, seconds, recompiles = self.step(kind)
                if number >= 1:
                    emit(
                        "profile",
                        window=name,
                        kind=kind,
                        step=number,
                        of=len(kinds),
                        seconds=seconds,
                        recompiles=recompiles,
                    )
                if number == len(kinds):
                    emit("parse", window=name)  # torch_npu saves and parses inside the step() that closes the window
                prof.step()
                calls += 1
            prof.step()
            calls += 1
        emit("recorded", window=name)
        if calls != step_calls(len(kinds)):
            raise TemplateError("RunFailed", "the window of {} was not closed: {} step() calls".format(name, calls))


def experimental_config(profiler: Any, request: dict[str, Any]) -> Any:
    """torch_npu's own configuration object; Level0 takes no AI-core metrics."""
    metrics = request["aic_metrics"] if request["level"] > 0 else "AiCoreNone"
    export = [getattr(profiler.ExportType, name.capitalize()) for name in request["export"]]
    return profiler._ExperimentalConfig(
        profiler_level=getattr(profiler.ProfilerLevel, "Level{}".format(request["level"])),
        aic_metrics=getattr(profiler.AiCMetrics, metrics),
        # One export type goes as a plain value: older releases know no list.
        export_type=export[0] if len(export) == 1 else export,
    )


# ---- the model: load(device, options), prefill(state) and decode(state), or forward(state); check(output) ----

from typing import Any

import torch
import torch.nn.functional as functional

DEFAULTS: dict[str, Any] = {
    "layers": 2,
    "hidden": 256,
    "intermediate": 688,
    "heads": 8,
    "kv_heads": 4,
    "vocab": 1000,
    "batch": 1,
    "prompt_tokens": 64,
    "dtype": "bfloat16",
}


class RMSNorm(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotary(position: int, length: int, size: int, device: Any) -> tuple[Any, Any]:
    """cos and sin of the rotary embedding for `length` positions from `position` on, each (length, size)."""
    inverse = 1.0 / (10000.0 ** (torch.arange(0, size, 2, device=device).float() / size))
    angles = torch.outer(torch.arange(position, position + length, device=device).float(), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Apply the rotary embedding to x of shape (batch, heads, length, size)."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos.to(x.dtype) + turned * sin.to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = o["heads"], o["kv_heads"], o["hidden"] // o["heads"]
        self.attention_norm, self.mlp_norm = RMSNorm(o["hidden"]), RMSNorm(o["hidden"])
        kv = self.kv_heads * self.size
        self.q = torch.nn.Linear(o["hidden"], o["hidden"], bias=False)
        self.k = torch.nn.Linear(o["hidden"], kv, bias=False)
        self.v = torch.nn.Linear(o["hidden"], kv, bias=False)
        self.o = torch.nn.Linear(o["hidden"], o["hidden"], bias=False)
        self.gate = torch.nn.Linear(o["hidden"], o["intermediate"], bias=False)
        self.up = torch.nn.Linear(o["hidden"], o["intermediate"], bias=False)
        self.down = torch.nn.Linear(o["intermediate"], o["hidden"], bias=False)

    def forward(self, x: Any, cos: Any, sin: Any, past: Any) -> tuple[Any, Any]:
        batch, length, hidden = x.shape
        y = self.attention_norm(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        groups = self.heads // self.kv_heads
        scores = q @ k.repeat_interleave(groups, dim=1).transpose(2, 3) * self.size**-0.5
        if length > 1:
            mask = torch.full((length, length), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            scores = scores + mask
        weights = functional.softmax(scores.float(), dim=-1).to(x.dtype)
        attended = (weights @ v.repeat_interleave(groups, dim=1)).transpose(1, 2).reshape(batch, length, hidden)
        x = x + self.o(attended)
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), (k, v)


class Llama(torch.nn.Module):
    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.size = o["hidden"] // o["heads"]
        self.embed = torch.nn.Embedding(o["vocab"], o["hidden"])
        self.layers = torch.nn.ModuleList([Layer(o) for _ in range(o["layers"])])
        self.norm = RMSNorm(o["hidden"])
        self.head = torch.nn.Linear(o["hidden"], o["vocab"], bias=False)

    def forward(self, tokens: Any, cache: Any) -> tuple[Any, Any]:
        """tokens (batch, length), (k, v) of every layer or None -> last logits (batch, vocab), new cache."""
        position = cache[0][0].shape[2] if cache else 0
        x = self.embed(tokens)
        cos, sin = rotary(position, tokens.shape[1], self.size, x.device)
        past = cache or [None] * len(self.layers)
        new = []
        for layer, kept in zip(self.layers, past):
            x, kv = layer(x, cos, sin, kept)
            new.append(kv)
        return self.head(self.norm(x[:, -1])), new


class State:
    def __init__(self, model: Llama, prompt: Any) -> None:
        self.model, self.prompt = model, prompt
        self.cache: Any = None
        self.token: Any = None

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, self.cache = self.model(tokens, cache)
        self.token = logits.argmax(-1, keepdim=True)
        return logits


def load(device: str, options: dict[str, Any]) -> State:
    o = {**DEFAULTS, **options}
    if o["hidden"] % o["heads"] or o["heads"] % o["kv_heads"]:
        raise ValueError("llama: hidden must be a multiple of heads, and heads of kv_heads")
    torch.manual_seed(0)
    model = Llama(o).to(getattr(torch, o["dtype"])).to(device).eval()
    prompt = torch.randint(0, o["vocab"], (o["batch"], o["prompt_tokens"])).to(device)
    return State(model, prompt)


def prefill(state: State) -> Any:
    """The whole prompt through a fresh cache."""
    return state.step(state.prompt, None)


def decode(state: State) -> Any:
    """One more token for every sequence of the batch."""
    return state.step(state.token, state.cache)


def forward(state: State) -> Any:
    """One whole pass over the prompt, for who wants no split: what a prefill does."""
    return prefill(state)


def check(output: Any) -> None:
    if not bool(torch.isfinite(output.float()).all()):
        raise ValueError("the logits are not finite")


# ---- run ----


def report(stage: str, **fields: Any) -> None:
    print(stage, *("{}={}".format(*item) for item in fields.items()), flush=True)


if __name__ == "__main__":
    os.umask(0o027)  # the parser refuses data that others may write
    asked = {
        "phase": PHASE,
        "steps": STEPS,
        "warmup_steps": WARMUP_STEPS,
        "level": LEVEL,
        "aic_metrics": AIC_METRICS,
        "export": ["text"],
        "with_stack": False,
        "record_shapes": False,
        "profile_memory": False,
    }
    try:
        profile(sys.modules[__name__], OPTIONS, asked, os.path.abspath(OUTPUT), report)
    except TemplateError as error:
        sys.exit("error: {}\n  try: {}".format(error.message, error.remedy))
