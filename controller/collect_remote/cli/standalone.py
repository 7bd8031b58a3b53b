"""The profiling template as one script that needs nothing but torch_npu: what `collect-remote template` prints."""

from __future__ import annotations

import ast
from importlib import resources

_HEAD = '''#!/usr/bin/env python3
"""A warmed-up torch_npu profile of a model: edit the settings, put your model in the place of the small Llama.

Printed by `collect-remote template`. Run it on the Ascend host, after CANN's set_env.sh:

    python3 profile_template.py

The profiles are written below OUTPUT/<phase>/.
"""

from __future__ import annotations

PHASE = "{phase}"  # prefill, decode, both (one window), separate (two profiles), forward
STEPS = {steps}  # active steps (decode steps where there are two kinds)
WARMUP_STEPS = 2  # outside the profiler
LEVEL = 1  # 0, 1, 2
AIC_METRICS = "PipeUtilization"
OUTPUT = "profile_l1"
OPTIONS = {{}}  # of the model, see DEFAULTS below
'''

_TEMPLATE = """
# ---- the template: synchronisation, steps, profiler ----

"""

_MODEL = """

# ---- the model: load(device, options), prefill(state) and decode(state), or forward(state); check(output) ----

"""

_MAIN = """

# ---- run ----


def report(stage: str, **fields: Any) -> None:
    print(stage, *("{}={}".format(*item) for item in fields.items()), flush=True)


if __name__ == "__main__":
    os.umask(0o027)  # the parser refuses data that others may write
    asked = {
        "phase": PHASE,
        "steps": STEPS,
        "warmup_steps": WARMUP_STEPS,
        "level": LEVEL,
        "aic_metrics": AIC_METRICS,
        "export": ["text"],
        "with_stack": False,
        "record_shapes": False,
        "profile_memory": False,
    }
    try:
        profile(sys.modules[__name__], OPTIONS, asked, os.path.abspath(OUTPUT), report)
    except TemplateError as error:
        sys.exit("error: {}\\n  try: {}".format(error.message, error.remedy))
"""


def script(phase: str) -> str:
    """The whole text for one phase; `STEPS` is that phase's default."""
    from ..request import default_steps

    package = resources.files("collect_agent")
    template = (package / "template.py").read_text(encoding="utf-8")
    model = (package / "adapters" / "llama.py").read_text(encoding="utf-8")
    head = _HEAD.format(phase=phase, steps=default_steps(phase))
    return "".join((head, _TEMPLATE, _body(template), _MODEL, _body(model), _MAIN))


def _body(source: str) -> str:
    """A module's text behind its docstring and its `from __future__` line, which may stand only once in a file."""
    first = next(
        node
        for node in ast.parse(source).body
        if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )
    return "".join(source.splitlines(keepends=True)[first.lineno - 1 :])
