"""JSON without the json package, which imports `re`: that takes longer than all else that happens at start-up."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Strict:
    """What json.JSONDecoder would ask for."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _by_package() -> Any:
    import json

    return json.loads, json.dumps


def _by_accelerator() -> Any:
    """(loads, dumps) of the parts in C that the json package is made of, since Python 3.8 and before."""
    import _json

    context: Any = _Strict()

    scan = _json.make_scanner(context)
    encode = _json.make_encoder({}, str, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)

    def loads(text: str) -> Any:
        value, end = scan(text.strip(), 0)
        if end != len(text.strip()):
            raise ValueError("more than one document")
        return value

    def dumps(value: Any) -> str:
        return "".join(encode(value, 0))

    if loads(dumps({"a": [1, "\u00e9", None, True]})) != {"a": [1, "\u00e9", None, True]}:
        raise ValueError("another accelerator")
    return loads, dumps


try:
    loads, dumps = _by_accelerator()
except Exception:  # noqa: BLE001 - of a Python that has another, or none
    loads, dumps = _by_package()
