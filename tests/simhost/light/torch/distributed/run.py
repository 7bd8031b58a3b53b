"""torchrun: ``python -m torch.distributed.run --nnodes=N --node-rank=K --nproc-per-node=M ... SCRIPT ARGUMENTS``.

As the real one (2.13.0) with its static rendezvous: the first host listens, the others come to it, and none starts its
ranks before all are there. Every rank is a process in a session of its own, with nothing inherited but the standard
streams, that knows its place from the environment; when one fails the others of its host are ended, and a summary says
which. The other hosts do not hear of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Sequence

FAILURE = """[{index}]:
  time      : {time}
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid}){signal}
  error_file: <N/A>
  traceback : {message}"""
BORDER, SECTION = "=" * 60, "-" * 60
PATIENCE_S = 30.0
MEETING_S = 600.0
LISTEN = "The server socket has failed to listen on any local network address. port: {}, useIpv6: false, code: -98, "
LISTEN += "name: EADDRINUSE, message: address already in use"
CONNECT = "The client socket has timed out after {:.0f}ms while trying to connect to ({}, {})."


class DistNetworkError(RuntimeError):
    """torch.distributed.DistNetworkError."""

    __module__ = "torch.distributed"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="torchrun", allow_abbrev=False)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", "--node_rank", type=int, default=0)
    parser.add_argument("--nproc-per-node", "--nproc_per_node", type=int, default=1)
    parser.add_argument("--master-addr", "--master_addr", default="127.0.0.1")
    parser.add_argument("--master-port", "--master_port", type=int, default=29500)
    parser.add_argument("script")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if options.nproc_per_node > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    with meeting(options):
        ranks = [
            subprocess.Popen(
                [sys.executable, "-u", options.script, *options.rest],
                env=dict(os.environ, **environment(local, options)),
                start_new_session=True,
            )
            for local in range(options.nproc_per_node)
        ]
        try:
            return watch(ranks, options)
        finally:
            end(ranks)


@contextlib.contextmanager
def meeting(options: Any) -> Iterator[None]:
    """Where the ranks' store listens, once every host is there."""
    place = options.master_addr, options.master_port
    with contextlib.ExitStack() as open_sockets:
        if options.node_rank:
            open_sockets.enter_context(arrive(place)).recv(1)
        else:
            store = open_sockets.enter_context(socket.socket())
            store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                store.bind(place)
            except OSError as error:
                raise DistNetworkError(LISTEN.format(place[1])) from error
            store.listen()
            others = [open_sockets.enter_context(store.accept()[0]) for _ in range(options.nnodes - 1)]
            for other in others:
                other.send(b"!")
        yield


def arrive(place: Any) -> socket.socket:
    until = time.monotonic() + MEETING_S
    while True:
        try:
            return socket.create_connection(place)
        except OSError as error:
            if time.monotonic() > until:
                raise DistNetworkError(CONNECT.format(MEETING_S * 1e3, *place)) from error
            time.sleep(0.05)


def environment(local: int, options: Any) -> Dict[str, str]:
    return {
        "RANK": str(options.node_rank * options.nproc_per_node + local),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(options.node_rank),
        "WORLD_SIZE": str(options.nnodes * options.nproc_per_node),
        "LOCAL_WORLD_SIZE": str(options.nproc_per_node),
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": str(options.master_port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_RUN_ID": "none",
    }


def watch(ranks: List["subprocess.Popen[bytes]"], options: Any) -> int:
    """0 when all have ended well; 1, after a summary, when one has not."""
    while True:
        codes = [process.poll() for process in ranks]
        bad = [(local, code) for local, code in enumerate(codes) if code]
        if bad:
            sys.stderr.write(summary(ranks, bad, options))
            return 1
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def summary(ranks: List["subprocess.Popen[bytes]"], bad: Any, options: Any) -> str:
    told = []
    for index, (local, code) in enumerate(bad):
        name = " ({})".format(signal.Signals(-code).name) if code < 0 else ""
        message = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        if code < 0:
            message = "Signal {}{} received by PID {}".format(-code, name, ranks[local].pid)
        told.append(
            FAILURE.format(
                index=index,
                time=time.strftime("%Y-%m-%d_%H:%M:%S"),
                host=socket.gethostname(),
                rank=options.node_rank * options.nproc_per_node + local,
                local=local,
                code=code,
                pid=ranks[local].pid,
                signal=name,
                message=message,
            )
        )
    others = "\n".join(told[1:]) or "  <NO_OTHER_FAILURES>"
    lines = (BORDER, options.script + " FAILED", SECTION, "Failures:", others, SECTION)
    root = ("Root Cause (first observed failure):", told[0], BORDER)
    return "\n".join(lines + root) + "\n"


def end(ranks: List["subprocess.Popen[bytes]"]) -> None:
    for number, patience in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, PATIENCE_S)):
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)
        until = time.monotonic() + patience
        while any(process.poll() is None for process in ranks):
            if time.monotonic() > until:
                break
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
