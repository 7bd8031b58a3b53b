"""The Python half of `scripts/demo`: start a simulated host, run `collect-remote` against it, show what came back."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

MODELS = """\
llama: {adapter: llama, layers: 2, hidden: 256, intermediate: 688, heads: 8, kv_heads: 4, prompt_tokens: 64}
"""


def main(runtime: str) -> int:
    with tempfile.TemporaryDirectory(prefix="collect-remote-demo-") as directory:
        root = Path(directory)
        (root / "models.yaml").write_text(MODELS, encoding="utf-8")
        started = time.monotonic()
        host = subprocess.Popen(
            [
                sys.executable,
                REPOSITORY / "scripts" / "simhost",
                *("--runtime", runtime),
                *("--root", root / "hosts"),
                *("--models", root / "models.yaml"),
                *("--inventory", root / "inventory.yaml"),
            ],
            stdout=subprocess.PIPE,
        )
        try:
            wait_for(root / "inventory.yaml", host)
            say(f"== a simulated Ascend host is up after {time.monotonic() - started:.1f} s")
            return collect(root, Path.cwd())
        finally:
            host.terminate()
            host.wait()


def wait_for(inventory: Path, host: subprocess.Popen[bytes]) -> None:
    """The inventory is written when every host answers."""
    while not inventory.exists():
        if host.poll() is not None:
            sys.exit("the simulated host did not start")
        time.sleep(0.05)


def collect(root: Path, here: Path) -> int:
    command = ["collect-remote", "--host", "ascend01", "--model", "llama"]
    say(f"== {' '.join(command)}")
    started = time.monotonic()
    tool = Path(sys.executable).with_name("collect-remote")
    arguments = [*command[1:], "--inventory", root / "inventory.yaml", "--json"]
    result = subprocess.run([tool, *arguments], stdout=subprocess.PIPE, cwd=here, check=False)
    if result.returncode:
        return result.returncode
    say(f"== collected in {time.monotonic() - started:.1f} s")
    document = json.loads(result.stdout)
    archive = Path(document["archive"]["path"])
    directory = Path(document["directory"])
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    show(archive, manifest)
    print(f"\n{archive}: {manifest['verdict']}")
    print("Kernel times are simulated, never measurements: there is no NPU here.")
    return 0


def show(path: Path, manifest: dict[str, Any]) -> None:
    print(f"\n{path.parent}/")
    for entry in sorted(path.parent.iterdir()):
        print(f"  {entry.name:28} {entry.stat().st_size:>10}")
    print(f"\n{path.name}")
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            print(f"  {member.size:>10}  {member.name}")
        kernels = next(m for m in archive.getmembers() if m.name.endswith("/kernel_details.csv"))
        content = archive.extractfile(kernels)
        assert content is not None
        print("\nheaviest kernel types (simulated times)")
        for line in heaviest(io.TextIOWrapper(content, encoding="utf-8", newline="")):
            print(f"  {line}")
    print("\nchecks")
    for profile in manifest["profiles"]:
        for check in profile["checks"]:
            print(f"  {check['verdict']:8} {check['id']:26} {check['message']}")
    for check in manifest["checks"]:
        print(f"  {check['verdict']:8} {check['id']:26} {check['message']}")


def heaviest(table: io.TextIOWrapper, count: int = 10) -> list[str]:
    microseconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for row in csv.DictReader(table):
        microseconds[row["Type"]] += float(row["Duration(us)"])
        calls[row["Type"]] += 1
    whole = sum(microseconds.values())
    ordered = sorted(microseconds, key=lambda kind: -microseconds[kind])[:count]
    return [
        f"{kind:24} {calls[kind]:6} x {microseconds[kind]:12.3f} us {microseconds[kind] / whole:7.1%}"
        for kind in ordered
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
