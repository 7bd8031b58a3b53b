"""What may be chosen for a profile: for the command line, which is read before anything else is imported."""

from __future__ import annotations

PHASES = ("prefill", "decode", "both", "separate", "forward", "train", "rollout")
PHASES_OF_OTHERS = ("train", "rollout")  # which only programs that are not ours have
PHASES_OF_TEMPLATE = tuple(phase for phase in PHASES if phase not in PHASES_OF_OTHERS)
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
