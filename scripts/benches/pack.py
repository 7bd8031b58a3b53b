"""Validating and packing a profile as the agent does, against `tar czf`, `sha256sum` and `json.load`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import collect_agent

from . import made
from .sides import Ratio, command, rounds_of, table

MIB = 1 << 20
SIZES = (128 * MIB, 512 * MIB)
OURS = r"""
import re, sys
sys.path.insert(0, sys.argv[1])
from collect_agent import validate
from collect_agent.output import pack
verdict = validate.validate(sys.argv[2])
packed = pack.pack(
    pack.tree(sys.argv[2], "profile_l1/both"), sys.argv[3], manifest=lambda files: {"verdict": verdict, "files": files}
)
print(packed["size"], re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read()).group(1))
"""
PEER = "tar czf {archive} -C {place} {name} && sha256sum {archive} && {python} -c {load} {trace}"
LOAD = "'import json, sys; json.load(open(sys.argv[1]))'"


def run(rounds: int) -> str:
    return "\n\n".join(packed(size, rounds) for size in SIZES)


def packed(size: int, rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-") as directory:
        place = Path(directory)
        profile = made.profile(place / "made", size)
        archives = {name: place / f"{name}.tar.gz" for name in ("typed", "ours")}
        typed = PEER.format(
            archive=archives["typed"],
            place=profile.parent,
            name=profile.name,
            python=sys.executable,
            load=LOAD,
            trace=profile / "ASCEND_PROFILER_OUTPUT" / "trace_view.json",
        )
        agent = str(Path(collect_agent.__file__).parents[1])
        ours = [sys.executable, "-I", "-S", "-c", OURS, agent, str(profile), str(archives["ours"])]
        rounds_told = rounds_of({"typed": command("bash", "-c", typed), "ours": command(*ours)}, rounds)
        sizes = {name: archive.stat().st_size for name, archive in archives.items()}
        whole = sum(file.stat().st_size for file in profile.rglob("*") if file.is_file())
        memory = json.loads(subprocess.check_output(ours).split()[1]) / 1024
    larger = 100 * (sizes["ours"] / sizes["typed"] - 1)
    return (
        f"A profile of {whole / MIB:.0f} MiB; archives of {sizes['typed'] / MIB:.1f} (typed) and"
        f" {sizes['ours'] / MIB:.1f} MiB ({larger:+.1f} %); {memory:.0f} MiB of memory in the packing process.\n\n"
        + table(rounds_told, [Ratio("typed", "ours", 2.0)], whole)
    )
