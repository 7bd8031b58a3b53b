"""Why a device may not be used, in words, and what can be done; docs/troubleshooting.md lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """`says` has the words of one case in braces; `means`: what it comes from, and what to do."""

    says: str
    means: str

    def __call__(self, **words: object) -> str:
        return self.says.format(**words)


_ASK_AGAIN = "npu-smi was cut off: ask again"
OUTSIDE = "not in the container"  # begins the reason of what a container does not have

UNHEALTHY = Reason("unhealthy: {health}", "accept it with `--allow-health {health}`, if you know better")
NO_MEMORY = Reason("unhealthy: no memory, the device does not answer", "it needs a reset by its administrator")
BUSY = Reason("busy: {processes}", "who has it, and how much; also what a job that was killed has left behind")
COMPUTING = Reason("busy: {percent} % utilisation and no visible process", "a process in another container")
HIDDEN = Reason(
    "busy: {used} used and no visible process",
    "more than an idle chip has: a process in another container. Where you know that it is idle: `--max-used 6GB`",
)
ABOVE = Reason(HIDDEN.says + ", more than {limit}", "more than `--max-used` allows")
ABOVE_IDLEST = Reason(
    HIDDEN.says + ", {idlest} on the idlest of its kind", "as above, and 1 GB more than idle chips differ by"
)
NOT_ALLOWED = Reason(
    "not allowed: outside {setting} of the host's session",
    "ASCEND_RT_VISIBLE_DEVICES is set there: name a device inside of it, or unset it",
)
NOT_ALLOWED_INSIDE = Reason(
    "not allowed: logic id {id} of the container, outside its ASCEND_RT_VISIBLE_DEVICES={setting}",
    "it is set in the container: name a device inside of it, or unset it there",
)
NOT_INSIDE = Reason(OUTSIDE + " {container}", "the container was started without it (`--device /dev/davinciN`)")
LEASED = Reason(
    "{device} is leased by {holder}",
    "another collection has it. Leases are locks on `/tmp/collect_remote_*.lock`; they vanish with their process, the "
    "empty files stay",
)
DOUBTFUL = Reason(
    "unknown: {doubt}", "what cannot be read is never free; the doubt is one of the following, or npu-smi's"
)
NO_TABLE = Reason("the output of npu-smi ends before the processes", _ASK_AGAIN)
CUT = Reason("the output of npu-smi ends among the processes", _ASK_AGAIN)
UNSPOKEN = Reason("npu-smi says nothing of its processes", _ASK_AGAIN + "; some versions never do of idle ones")
NO_LOGIC_ID = Reason(
    "npu-smi does not tell its logic id",
    "`npu-smi info -m` on the host lacks the device, which may be falling off the bus",
)
NOT_TOLD = Reason("{who} does not tell its {what}", "see what `npu-smi info` prints there")
