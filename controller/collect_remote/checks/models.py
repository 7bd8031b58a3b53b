"""What a model needs: the package of its adapter, and its files."""

from __future__ import annotations

from ..errors import EnvironmentUnfit
from ..inventory import ModelSpec
from ..survey.survey import Facts
from .check import Check, Subject, failed, ok

PACKAGES = ("transformers", "diffusers")  # that adapters of the same name import

PACKAGE = Subject(
    "model-package",
    "with `--model`: transformers or diffusers is installed, where the adapter is that of its name",
    "install it there (`PYTHON -m pip install NAME`), or name the Python that has it (`python`)",
    "{python} has no {package}, which the adapter of model {model} imports",
)
FILES = Subject(
    "model",
    "with `--model`: `path` is there, is not empty, its files can be read",
    "correct `path` in the inventory, or bring the files there and make them readable",
    "{path}, the `path` of model {model}, {problem} {place}",
)


def package(facts: Facts, model: ModelSpec) -> Check:
    """What the adapter imports. A user's own file is not looked into."""
    name = model.adapter
    if name not in PACKAGES:
        return ok(PACKAGE, f"the adapter of {model.name} is not known to need another package")
    if found := facts.versions[name]:
        return ok(PACKAGE, f"{name} {found}, for the adapter of {model.name}")
    return failed(
        PACKAGE,
        EnvironmentUnfit(
            PACKAGE.says.format(python=facts.python, package=name, model=model.name),
            f"install it there (`{facts.python} -m pip install {name}`), or name the Python that has it (`python`)",
        ),
    )


def files(facts: Facts, model: ModelSpec) -> Check:
    path = model.options.get("path")
    if not isinstance(path, str):
        return ok(FILES, f"{model.name} needs no files {facts.place}")
    problem = facts.models.get(path, "was not looked at")
    if problem is None:
        return ok(FILES, f"{model.name}: {path} can be read")
    says = FILES.says.format(path=path, model=model.name, problem=problem, place=facts.place)
    remedy = facts.container.advice("path", path) if facts.container and problem == "is not there" else ""
    return failed(FILES, EnvironmentUnfit(says, remedy))
