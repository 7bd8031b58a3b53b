"""torchrun on one host: ``python -m torch.distributed.run --nnodes=1 --nproc-per-node=N ... SCRIPT ARGUMENTS``.

As the real one (2.13.0): every rank is a process in a session of its own, with nothing inherited but the standard
streams, that knows its place from the environment; when one fails the others are ended, and a summary says which.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Sequence

FAILURE = """[{index}]:
  time      : {time}
  host      : {host}
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid}){signal}
  error_file: <N/A>
  traceback : {message}"""
BORDER, SECTION = "=" * 60, "-" * 60
PATIENCE_S = 30.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="torchrun", allow_abbrev=False)
    parser.add_argument("--nnodes", default="1")
    parser.add_argument("--nproc-per-node", "--nproc_per_node", type=int, default=1)
    parser.add_argument("--master-addr", "--master_addr", default="127.0.0.1")
    parser.add_argument("--master-port", "--master_port", type=int, default=29500)
    parser.add_argument("script")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if options.nproc_per_node > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    with socket.socket() as meeting:  # where the ranks' store listens
        meeting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        meeting.bind((options.master_addr, options.master_port))
        ranks = [
            subprocess.Popen(
                [sys.executable, "-u", options.script, *options.rest],
                env=dict(os.environ, **environment(rank, options)),
                start_new_session=True,
            )
            for rank in range(options.nproc_per_node)
        ]
        try:
            return watch(ranks, options.script)
        finally:
            end(ranks)


def environment(rank: int, options: Any) -> Dict[str, str]:
    count = str(options.nproc_per_node)
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": str(options.master_port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_RUN_ID": "none",
    }


def watch(ranks: List["subprocess.Popen[bytes]"], script: str) -> int:
    """0 when all have ended well; 1, after a summary, when one has not."""
    while True:
        codes = [process.poll() for process in ranks]
        bad = [(rank, code) for rank, code in enumerate(codes) if code]
        if bad:
            sys.stderr.write(summary(ranks, bad, script))
            return 1
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def summary(ranks: List["subprocess.Popen[bytes]"], bad: Any, script: str) -> str:
    told = []
    for index, (rank, code) in enumerate(bad):
        name = " ({})".format(signal.Signals(-code).name) if code < 0 else ""
        message = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        if code < 0:
            message = "Signal {}{} received by PID {}".format(-code, name, ranks[rank].pid)
        told.append(
            FAILURE.format(
                index=index,
                time=time.strftime("%Y-%m-%d_%H:%M:%S"),
                host=socket.gethostname(),
                rank=rank,
                code=code,
                pid=ranks[rank].pid,
                signal=name,
                message=message,
            )
        )
    others = "\n".join(told[1:]) or "  <NO_OTHER_FAILURES>"
    lines = (BORDER, script + " FAILED", SECTION, "Failures:", others, SECTION)
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
