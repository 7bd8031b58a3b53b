"""A profiler for a server, switched on by request and off by itself: only where NPU_PROFILE names a directory.

    from npu_profile import Service

    service = Service()                 # once in every process with a model
    service.start(iterations=20)        # from any thread: a request like POST /start_profile
    service.stop()                      # ... and POST /stop_profile; not needed
    while serving:
        with service.iteration():       # in the thread with the model, around one forward
            model.forward(batch)

NPU_PROFILE          the directory; the first profile is written below its `1/forward`, the next below `2/forward`
NPU_PROFILE_STEPS    iterations of a request that names no number (20); never more than a thousand
NPU_PROFILE_RANKS    0, or several (0,8), or all (0)
NPU_PROFILE_LEVEL, NPU_PROFILE_METRICS    of torch_npu.profiler (1, PipeUtilization)

Send requests of the same shape first, then start, then the load: the first iterations compile. The profiler starts and
stops in the thread with the model, at an iteration, because it may not be driven from others. With several workers each
has to be told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .common import DIRECTORY, Recording, number, say, wanted

MOST_ITERATIONS = 1000


class Service:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usual = number("STEPS", 20, 1)
        self._asked = 0
        self._ending = False
        self._recordings = 0
        self._recording: Recording | None = None

    def start(self, iterations: int = 0) -> bool:
        """Record the next iterations; False where nothing is recorded, or something is already."""
        iterations = iterations or self._usual
        if not 1 <= iterations <= MOST_ITERATIONS:
            raise ValueError(f"{iterations} iterations: ask for 1 to {MOST_ITERATIONS}")
        with self._lock:
            if not wanted() or self.recording:
                return False
            self._asked, self._ending = iterations, False
            return True

    def stop(self) -> None:
        """End at the next iteration, however many are left."""
        with self._lock:
            self._asked, self._ending = 0, self._recording is not None

    @property
    def recording(self) -> bool:
        """Whether a request has not been served to its end."""
        return self._asked > 0 or self._recording is not None

    @contextmanager
    def iteration(self) -> Iterator[None]:
        with self._lock:
            self._begin_or_end()
            recording = self._recording
        yield
        if recording is not None:
            recording.step()
            if not recording.open:
                self._recording = None

    def _begin_or_end(self) -> None:
        if self._ending and self._recording is not None:
            self._recording.close()
            self._recording = None
        self._ending = False
        if self._asked:
            self._recordings += 1
            say(f"recording {self._asked} iterations")
            place = f"{DIRECTORY}/{self._recordings}"
            self._recording = Recording("forward", self._asked, directory=place)
            self._asked = 0
