"""What a person sees while it runs: tqdm bars on a terminal, plain lines elsewhere, always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

from collect_agent.events import Event

INTERVAL_S = 1.0
TITLES = {
    "connect": "connecting",
    "survey": "looking at the host",
    "route": "choosing the route",
    "fallback": "trying the template instead",
    "choose": "choosing a device",
    "start": "starting the run",
    "created": "the run is there",
    "follow": "following the run",
    "stop": "stopping the run",
    "clean": "removing what has ended",
    "wait": "waiting for a device",
    "lease": "leasing a device",
    "meet": "waiting for the other hosts",
    "import": "importing torch_npu",
    "load": "loading the model",
    "loaded": "looking who is on the device",
    "precheck": "checking the model's output",
    "warmup": "warming up",
    "profile": "profiling",
    "parse": "saving and parsing",
    "recorded": "looking who is on the device",
    "harvest": "finding the profile",
    "validate": "validating",
    "pack": "packing",
    "check": "checking the archive",
    "pull": "pulling",
    "verify": "verifying",
    "publish": "publishing",
}


class Plain:
    """One line a stage, with the time since the start in seconds; steps and bytes about once a second.

    Of a job on several hosts, every line is led by its host.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = 0.0
        self._said: dict[str, tuple[str, str, float]] = {}  # by host

    def __call__(self, event: Event) -> None:
        now, node = event["time"], str(event.get("node", ""))
        self._started = self._started or now
        stage, detail = event["stage"], _detail(event)
        before, said, written = self._said.get(node, ("", "", 0.0))
        waited = now - written >= INTERVAL_S or event.get("step") == event.get("of") or "lost" in event
        if stage != before or (waited and detail not in ("", said)):
            self._said[node] = (stage, detail, now)
            title = f"{node}: {TITLES.get(stage, stage)}".removeprefix(": ")
            self._out.write(f"{now - self._started:7.1f} s  {title}{': ' + detail if detail else ''}\n")
            self._out.flush()

    def close(self) -> None:
        pass


class Bars:
    """A line a stage; a bar where there is something to count (warm-up steps, active steps, bytes), on one host."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._stage = out, ""
        self._bar: Any = None
        self._kind: Any = None
        self._plain = Plain(out)

    def __call__(self, event: Event) -> None:
        counted = ("bytes" in event or "step" in event) and "node" not in event
        total = event.get("of") if counted else None
        if event["stage"] != self._stage:
            self.close()
            self._stage = event["stage"]
        if total is None:
            self.close()
            self._plain(event)
            return
        done, unit = (event["bytes"], "B") if "bytes" in event else (event["step"], "step")
        if self._bar is None or done < self._bar.n or self._kind != event.get("kind"):
            self.close()
            self._bar, self._kind = self._new_bar(event, total, unit), event.get("kind")
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _new_bar(self, event: Event, total: int, unit: str) -> Any:
        from tqdm import tqdm

        title = TITLES.get(event["stage"], event["stage"])
        kind = event.get("kind", "")
        return tqdm(
            desc=f"{title} {kind}".strip(),
            total=total,
            unit=unit,
            unit_scale=unit == "B",
            unit_divisor=1024,
            file=self._out,
            dynamic_ncols=True,
        )


class Patient:
    """A reporter whose reader may go away (`2>&1 | head`): that is no reason to give up the run."""

    def __init__(self, report: Plain | Bars) -> None:
        self._report: Plain | Bars | None = report

    def __call__(self, event: Event) -> None:
        self._try(lambda report: report(event))

    def close(self) -> None:
        self._try(lambda report: report.close())

    def _try(self, say: Callable[[Plain | Bars], None]) -> None:
        if self._report is not None:
            try:
                say(self._report)
            except OSError:
                self._report = None


def reporter(out: TextIO | None = None) -> Patient:
    """The one that fits the stream (stderr by default)."""
    stream = out or sys.stderr
    return Patient(Bars(stream) if stream.isatty() else Plain(stream))


def preset(visible_devices: str, container: Any = None) -> str:
    """Of an ASCEND_RT_VISIBLE_DEVICES that the session on the host or in a container had, what it means for the run."""
    owner = "container" if container else "host's session"
    return f"inside ASCEND_RT_VISIBLE_DEVICES={visible_devices!r} of the {owner}"


def _detail(event: Event) -> str:
    if "lost" in event:
        return f"{event['lost']}; trying to get the connection back"
    if "visible_devices" in event:
        return preset(event["visible_devices"], event.get("container"))
    if event["stage"] == "survey" and "python" in event:
        cann = f"CANN {event['cann'] or 'of no known version'} ({', '.join(event['setup']) or 'no script sourced'})"
        place = f"in the container {event['container']}: " if event.get("container") else ""
        return f"{place}{event['python']} ({event['why']}), {cann}"
    if event["stage"] == "lease":
        return ", ".join(device["label"] for device in event["devices"]) or "none, the job has its own"
    if event["stage"] == "wait":
        return f"{'; '.join(event['reasons'])} ({event['left_s']} s left)"
    if event["stage"] in ("warmup", "profile") and "step" in event:
        return f"{event['kind']} step {event['step']} of {event['of']}, {event['seconds'] * 1e3:.1f} ms"
    if event["stage"] == "harvest" and "parse" in event:
        return f"parsing {event['parse']} in {event['where']}, {event['seconds']:.0f} s"
    if event["stage"] == "parse" and "seconds" in event:
        return f"{event['seconds']:.0f} s"
    if "died" in event:
        return f"{event['died']}; it is parsed anew"
    if event.get("of") and event.get("bytes") == event["of"]:
        return f"{event['of'] / 1e6:.1f} MB"
    return ""
