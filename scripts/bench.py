"""The Python half of `scripts/bench`: rounds that interleave what is compared, medians, and ratios within each round.

ssh         `ssh host true`: the least that anything over SSH costs
run         the same agent command, on the host, without SSH: the remote run's own time
collect     the whole of `collect-remote --host ... --model ...`, the agent already there
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from collect_remote import Request, deploy, load_inventory, pipeline  # noqa: E402
from collect_remote.remote import Remote  # noqa: E402
from collect_remote.run import Run  # noqa: E402
from collect_remote.shell import wrap  # noqa: E402
from simhost import SimHost  # noqa: E402

MODELS = {"llama": {"adapter": "llama"}}


def main(rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-") as directory:
        root = Path(directory)
        with SimHost(root / "ascend01", env={"COLLECT_REMOTE_LEASE_DIR": str(root / "leases")}) as host:
            inventory = {"all": {"vars": {"models": MODELS}, "hosts": {"ascend01": host.inventory_entry()}}}
            (root / "inventory.yaml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
            contenders = {"ssh": ssh(host), "run": run_alone(host, root), "collect": collect(root)}
            for contender in contenders.values():
                contender()  # warm: the agent is uploaded, files are cached
            seconds: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(rounds):
                for name, contender in contenders.items():
                    started = time.monotonic()
                    contender()
                    seconds[name].append(time.monotonic() - started)
    report(seconds)
    return 0


def ssh(host: SimHost) -> Callable[[], None]:
    program = shutil.which("ssh")
    if program is None:
        sys.exit("error: the peer of this comparison is `ssh`: install openssh-client")
    command = [
        *(program, "-F", os.devnull, "-i", str(host.identity_file), "-p", str(host.port)),
        *("-o", f"UserKnownHostsFile={host.known_hosts}", f"{host.user}@{host.address}", "true"),
    ]
    return lambda: quiet(command)


def collect(root: Path) -> Callable[[], None]:
    tool = str(Path(sys.executable).with_name("collect-remote"))
    command = [tool, "--host", "ascend01", "--model", "llama", "--json"]
    return lambda: quiet(command, cwd=root)


def run_alone(host: SimHost, root: Path) -> Callable[[], None]:
    """The very script that starts the run, given to a session of the host without an SSH server in between."""
    entry = load_inventory(root / "inventory.yaml").host("ascend01")
    request, agent = Request(host="ascend01", model="llama"), deploy.build()
    pipeline.deploy_agent(entry)
    preview = pipeline.preview(request, entry)
    count = 0

    def start() -> None:
        nonlocal count
        count += 1
        document = pipeline.document(request, f"bench_{count}", preview.plan, preview.facts, preview.verdicts, agent)
        command, stdin = wrap(Run(Remote(entry), preview.facts, agent, document).start_script())
        environment = {**os.environ, "SSH_ORIGINAL_COMMAND": command, "SSH_CLIENT": "", "SSH_CONNECTION": ""}
        quiet([str(host.session)], input=stdin, env=environment)

    return start


def quiet(command: list[str], **options: object) -> None:
    done = subprocess.run(command, capture_output=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"error: {command[0]} failed:\n{done.stderr.decode()}{done.stdout.decode()}")


def report(seconds: dict[str, list[float]]) -> None:
    print("| what | ms, median | min - max |")
    print("| --- | ---: | ---: |")
    for name, values in seconds.items():
        ms = [value * 1e3 for value in values]
        print(f"| {name} | {statistics.median(ms):.0f} | {min(ms):.0f} - {max(ms):.0f} |")
    ratios = [(c - r) / s for s, r, c in zip(seconds["ssh"], seconds["run"], seconds["collect"], strict=True)]
    print(f"\n(collect - run) / ssh, round by round: median {statistics.median(ratios):.2f}, ", end="")
    print(f"{min(ratios):.2f} - {max(ratios):.2f} in {len(ratios)} rounds; budget 2.5")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
