"""A scene on top of `common.py`, as one module that needs nothing of ours."""

from __future__ import annotations

import ast
from importlib import resources

from . import marker


def module(scene: str) -> str:
    """The text of the module for one of SCENES."""
    here = resources.files(__package__)
    common, own = ((here / f"{name}.py").read_text(encoding="utf-8") for name in ("common", scene))
    docstring = ast.get_docstring(ast.parse(own), clean=False)
    head = f'"""{docstring}"""\n\n{marker(scene)}\n\nfrom __future__ import annotations\n'
    imports = sorted({*_imports(common), *_imports(own)}, key=lambda line: (line.startswith("from "), line))
    return "\n".join([head, *imports, "", _body(common), "", _body(own)])


def _imports(source: str) -> list[str]:
    """The absolute imports at the head of a module, a line each. Pure."""
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom))
    lines = [ast.unparse(node) for node in nodes if not getattr(node, "level", 0)]
    return [line for line in lines if "__future__" not in line]


def _body(source: str) -> str:
    """What stands behind the imports of a module. Pure."""
    *_, last = (node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom))
    return "\n".join(source.splitlines()[last.end_lineno :]).strip("\n") + "\n"
