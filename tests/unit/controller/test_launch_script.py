"""Scripts that start a program, copied with more arguments for it: a shell tells what the program gets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from collect_remote.errors import EnvironmentUnfit
from collect_remote.routes.launch_script import Started, number_of, program_of, with_arguments
from collect_remote.routes.plan import Named
from collect_remote.survey.project import ProjectFacts

PROGRAMS = r"(?:pretrain|train)\w*\.py"
MORE = ("--profile", "--ranks", "0", "1", "--path", Named("{run}/own"))
TOLD = "--profile --ranks 0 1 --path /the run/own"

SCRIPTS = {
    "one-line": "torchrun pretrain_gpt.py --a 1\n",
    "no-arguments": "torchrun pretrain_gpt.py\n",
    "no-newline": "torchrun pretrain_gpt.py --a 1",
    "continued": "torchrun --x 1 \\\n    pretrain_gpt.py \\\n    --a 1 \\\n    --b 2\n",
    "dangling": "torchrun pretrain_gpt.py \\\n    --a 1 \\\n\necho done\n",
    "variables": 'A="\n --a 1 \\\n --b 2\n"\ntorchrun pretrain_gpt.py $A $B \\\n    ${C}\n',
    "array": 'A=(--a "1 2")\ntorchrun pretrain_gpt.py "${A[@]}"\n',
    "pipe": "torchrun pretrain_gpt.py --a 1 2>&1 | tee log.txt\n",
    "pipe-continued": "torchrun pretrain_gpt.py --a 1 \\\n    2>&1 | tee log.txt\n",
    "redirected": "torchrun pretrain_gpt.py --a 1 > log.txt 2>&1; cat log.txt\n",
    "number-before-a-file": "torchrun pretrain_gpt.py --a 1 >log.txt; cat log.txt\n",
    "background": "torchrun pretrain_gpt.py --a 1 &\nwait\n",
    "subshell": "(torchrun pretrain_gpt.py --a 1)\n",
    "substitution": "torchrun pretrain_gpt.py --a $(echo 1 | cat) --b 2\n",
    "quotes": "torchrun pretrain_gpt.py --a \"x | y; z\" --b '1 > 2'\n",
    "comments": "# torchrun pretrain_gpt.py --no\nX=1 # pretrain_gpt.py\ntorchrun pretrain_gpt.py --a 1 # why\n",
    "branches": "if true; then\n  torchrun pretrain_gpt.py --a 1\nelse\n  torchrun train_other.py\nfi\n",
    "its-own-place": 'cd "$(dirname "$0")/.." && torchrun pretrain_gpt.py --a 1\n',
    "its-own-source": 'cd "$(dirname "${BASH_SOURCE[0]}")/.." && torchrun pretrain_gpt.py --a 1\n',
    "in-a-folder": "torchrun $HERE/pretrain_gpt.py --a 1\n",
    "exits": "set -e\ntorchrun pretrain_gpt.py --a 1\nexit 0\n",
}


def facts(root: Path, script: str) -> ProjectFacts:
    return ProjectFacts(str(root), texts={"examples/run.sh": script})


def run(root: Path, started: Started) -> str:
    """What a torchrun says that was started so: where it was, and its arguments."""
    programs, run_dir = root / "bin", root / "the run"
    programs.mkdir()
    run_dir.mkdir()
    (programs / "torchrun").write_text('#!/bin/sh\necho "$PWD: $*; $ASCEND_RT_VISIBLE_DEVICES"\n')
    (programs / "torchrun").chmod(0o755)
    for name, text in started.files.items():
        (run_dir / name).write_text(text)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "ASCEND_RT_VISIBLE_DEVICES": "6,7"}
    values = {name: value.format(run=run_dir) for name, value in started.env.items()}
    argv = [word.format(run=run_dir) if isinstance(word, Named) else word for word in started.argv]
    done = subprocess.run(argv, cwd=root, env={**env, **values}, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.replace(str(run_dir), "/the run").replace(f"{root}: ", "")


def written(root: Path, script: str) -> ProjectFacts:
    (root / "examples").mkdir()
    (root / "examples" / "run.sh").write_text(script)
    return facts(root, script)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_program_gets_its_own_arguments_and_then_ours(tmp_path: Path, name: str) -> None:
    seen = written(tmp_path, SCRIPTS[name])
    command = ["bash", "examples/run.sh"]
    plain = run(tmp_path, Started(tuple(command), {}, {}, ())).splitlines()
    for path in (tmp_path / "bin" / "torchrun", tmp_path / "bin", tmp_path / "the run"):
        path.unlink() if path.is_file() else path.rmdir()
    longer = run(tmp_path, with_arguments(command, seen, PROGRAMS, MORE)).splitlines()
    (first,) = [line for line in plain if "pretrain_gpt.py" in line]
    told, _, devices = first.rpartition(";")
    changed = f"{told} {TOLD};{devices}"
    assert longer == [changed if line == first else line for line in plain]


def test_a_script_that_is_a_program_itself(tmp_path: Path) -> None:
    seen = written(tmp_path, '#!/bin/bash\necho "$0"\ntorchrun pretrain_gpt.py\n')
    told = run(tmp_path, with_arguments(["./examples/run.sh"], seen, PROGRAMS, MORE))
    assert told == f"./examples/run.sh\npretrain_gpt.py {TOLD}; 6,7\n"


def test_arguments_of_the_command_reach_the_copy(tmp_path: Path) -> None:
    seen = written(tmp_path, 'shift\ntorchrun pretrain_gpt.py "${@:1}"\n')
    told = run(tmp_path, with_arguments(["bash", "-e", "examples/run.sh", "x", "--b"], seen, PROGRAMS, MORE))
    assert told == f"pretrain_gpt.py --b {TOLD}; 6,7\n"


@pytest.mark.parametrize("passed", ['"$@"', "$@", "${@}", "$*"])
def test_a_script_that_passes_its_arguments_on_is_run_itself(tmp_path: Path, passed: str) -> None:
    seen = written(tmp_path, f"torchrun pretrain_gpt.py --a 1 {passed}\n")
    started = with_arguments(["bash", "examples/run.sh", "--b"], seen, PROGRAMS, MORE)
    assert started.argv == ("bash", "examples/run.sh", "--b", *MORE)
    assert started.files == {}


@pytest.mark.parametrize("line", ["export ASCEND_RT_VISIBLE_DEVICES=0,1", 'ASCEND_RT_VISIBLE_DEVICES="0,1"'])
@pytest.mark.parametrize("passed", ["", '"$@"'])
def test_devices_that_a_script_chooses_are_its_choice_where_nobody_else_chooses(
    tmp_path: Path, line: str, passed: str
) -> None:
    seen = written(tmp_path, f"{line}\ntorchrun pretrain_gpt.py {passed}\n")
    started = with_arguments(["bash", "examples/run.sh"], seen, PROGRAMS, MORE)
    assert run(tmp_path, started).endswith("; 6,7\n")


@pytest.mark.parametrize("script", ["for x in *.sh; do bash $x; done\n", "ENTRY=pretrain_gpt.py\ntorchrun $ENTRY\n"])
def test_what_does_not_show_its_program(tmp_path: Path, script: str) -> None:
    with pytest.raises(EnvironmentUnfit, match="does not show where it starts its program"):
        with_arguments(["bash", "examples/run.sh"], facts(tmp_path, script), PROGRAMS, MORE)


def test_the_program_and_the_numbers_that_a_script_says(tmp_path: Path) -> None:
    script = """
    # --train-iters 5
    export NPUS=8  # of one node
    NODES=$1
    ARGS="--train-iters 2000 --save-interval 100"
    torchrun --nproc_per_node $NPUS --nnodes ${NODES} \\
        tools/train_it.py $ARGS --eval-iters=7
    """
    seen, command = facts(tmp_path, script), ["bash", "examples/run.sh"]
    assert program_of(command, seen, PROGRAMS) == "train_it.py"
    options = ("--train-iters", "--nproc[_-]per[_-]node", "--nnodes", "--eval-iters", "--seed", "--save")
    assert [number_of(option, command, seen) for option in options] == [2000, 8, None, 7, None, None]
    assert number_of("--nnodes", ["torchrun", "--nnodes", "2", "x/train.py"], seen) == 2
    assert program_of(["torchrun", "x/train.py"], seen, PROGRAMS) == "train.py"
    assert program_of(["torchrun", "x/infer.py"], seen, PROGRAMS) is None
