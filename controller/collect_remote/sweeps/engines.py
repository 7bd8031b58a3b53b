"""Where the cells of a sweep run: in threads of this process, on any executor, on the workers of a Dask cluster.

A worker needs this package, the way to its hosts, and a key. It writes the result into the directory of the sweep where
it sees that, else the result comes back with the outcome.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from collect_agent.events import Event
from collect_agent.run.rundir import ARCHIVE

from ..cancel import Cancel
from ..collection import transfer
from ..collection.wire import Sent
from ..errors import CollectError, UnreachableError, UsageError, one_line
from ..parallel import in_background
from ..request import adapter_source
from ..results import growing, store
from .cells import Outcome
from .work import Task, ended, perform

if TYPE_CHECKING:
    from typing_extensions import Self  # of typing from Python 3.11 on

CONNECT_S, LOOK_S = 5.0, 2.0
OnEvent = Callable[[Event], None]
Came = tuple[Outcome, Mapping[str, bytes]]  # ... and the files of a result that is not here yet, by name


class Engine(Protocol):
    def submit(self, task: Task, on_event: OnEvent, cancel: Cancel) -> Future[Outcome]: ...

    def stop(self) -> None:
        """Have all cells leave that do not hear of a Cancel."""


class Here:
    """A thread for every cell; the schedule says how many there are."""

    def submit(self, task: Task, on_event: OnEvent, cancel: Cancel) -> Future[Outcome]:
        return in_background(lambda: perform(task, on_event, cancel))

    def stop(self) -> None:
        pass


def here(_directory: Path) -> contextlib.AbstractContextManager[Engine]:
    return contextlib.nullcontext(Here())


class Elsewhere:
    """Any executor. Use as a context manager: it leaves a mark in the directory, for workers that see it.

    Neither events nor a Cancel cross processes: what runs there is waited for.
    """

    def __init__(
        self, executor: Executor, directory: Path, run: Callable[[Task, str, str], Came] | None = None
    ) -> None:
        self._executor, self._run = executor, run or there
        self.mark = directory.absolute() / f".sweep-{os.urandom(8).hex()}"

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):  # without it results come back; the journal says what is wrong there
            self.mark.touch()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.mark.unlink()

    def submit(self, task: Task, on_event: OnEvent, cancel: Cancel) -> Future[Outcome]:  # noqa: ARG002 - see above
        here: Future[Outcome] = Future()
        self._submitted(task).add_done_callback(lambda done: here.set_result(_came(done, task)))
        return here

    def _submitted(self, task: Task) -> Future[Came]:
        adapter = task.host.models[task.request.model].adapter or ""
        try:
            text = adapter_source(Path(adapter)) if adapter.endswith(".py") else ""
            # An executor may run it again by itself, when a worker was lost.
            return self._executor.submit(self._run, dataclasses.replace(task, again=True), str(self.mark), text)
        except Exception as error:  # noqa: BLE001 - one that is broken takes nothing any more
            refused: Future[Came] = Future()
            refused.set_exception(error)
            return refused

    def stop(self) -> None:
        pass


def there(task: Task, mark: str, adapter: str, cancel: Cancel | None = None) -> Came:
    """On a worker: run a cell whose sweep has left `mark` in its directory, which may or may not be seen here.

    `adapter`: the text of the user's own, which need not be here either.
    """
    with tempfile.TemporaryDirectory(prefix="collect-remote-") as folder:
        if adapter:
            task = dataclasses.replace(task, host=_with_adapter(task, adapter, Path(folder) / "adapter.py"))
        if Path(mark).exists():
            return perform(task, cancel=cancel), {}
        out = Path(folder) / "results" / task.run_id
        outcome = perform(dataclasses.replace(task, request=dataclasses.replace(task.request, out=out)), cancel=cancel)
        return outcome, {path.name: path.read_bytes() for path in out.iterdir()} if outcome.state == "valid" else {}


def _with_adapter(task: Task, text: str, file: Path) -> Any:
    file.write_text(text, encoding="utf-8")
    model = dataclasses.replace(task.host.models[task.request.model], adapter=str(file))
    return dataclasses.replace(task.host, models={model.name: model})


def _came(done: Future[Came], task: Task) -> Outcome:
    """What has become of a cell elsewhere; its result is published here."""
    if done.cancelled():
        return Outcome("interrupted", left=True)
    try:
        outcome, files = done.result()
        return dataclasses.replace(outcome, directory=_published(files, task)) if files else outcome
    except CollectError as error:
        return ended(error, task.host.name)
    except BaseException as error:  # noqa: BLE001 - whatever an executor raises when it loses a worker
        lost = UnreachableError(f"its worker was lost: {one_line(repr(error))}", "look at the cluster")
        return ended(lost, task.host.name)


def _published(files: Mapping[str, bytes], task: Task) -> str:
    out = task.request.out
    if out is not None and out.is_dir():  # it came back twice
        return str(out)
    place = store.place(task.request.host, task.request.model, task.run_id, out)
    manifest = json.loads(files[store.MANIFEST])
    with growing.incoming(place):
        for name in (name for name in files if name != store.MANIFEST):
            (place.incoming / Path(name).name).write_bytes(files[name])
        transfer.verify(place.incoming, Sent(ARCHIVE, manifest["archive"]["size"], manifest["archive"]["sha256"]))
        store.publish(place, manifest)
    return str(place.final)


class OnDask(Elsewhere):
    """The workers of a cluster; cells that run there can be asked to leave."""

    def __init__(self, client: Any, executor: Executor, directory: Path) -> None:
        super().__init__(executor, directory, there_on_dask)
        self._client = client

    def stop(self) -> None:
        from distributed import Event as Signal

        Signal(self.mark.name, client=self._client).set()


@contextlib.contextmanager
def dask(address: str) -> Iterator[Callable[[Path], OnDask]]:
    """A cluster, for a sweep in a directory. UsageError when there is none, or no `distributed` here."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(f"--dask needs distributed: {error}", "pip install 'collect-remote[dask]'") from error
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {one_line(str(error))}", "tcp://HOST:8786"
        ) from error
    with client, client.get_executor(pure=False) as executor:
        yield functools.partial(OnDask, client, executor)


def there_on_dask(task: Task, mark: str, adapter: str) -> Came:
    from distributed import Event as Signal
    from distributed import get_client

    signal, cancel, over = Signal(Path(mark).name, client=get_client()), Cancel(), threading.Event()

    def listen() -> None:
        while not over.is_set() and not cancel.is_set:
            if signal.wait(timeout=LOOK_S):
                cancel.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        return there(task, mark, adapter, cancel)
    finally:
        over.set()
