"""The plain nouns of torch: dtypes, devices, sizes, and the numeric limits of a dtype."""

from __future__ import annotations

from typing import Any, Iterator, Tuple, Union

Number = Union[bool, int, float]


class dtype:
    """One element type; ``itemsize`` is in bytes, ``rank`` orders types for promotion."""

    __slots__ = ("name", "itemsize", "is_floating_point", "rank", "is_complex")

    def __init__(self, name: str, itemsize: int, floating: bool, rank: int) -> None:
        self.name = name
        self.itemsize = itemsize
        self.is_floating_point = floating
        self.rank = rank
        self.is_complex = False

    def __repr__(self) -> str:
        return "torch." + self.name

    @property
    def label(self) -> str:
        """How torch's messages call it."""
        return _LABELS.get(self.name, self.name.capitalize())

    def __reduce__(self) -> str:
        return self.name  # a module-level name, so copies and pickles stay identical


_LABELS = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
}

bool_ = dtype("bool", 1, False, 0)
uint8 = dtype("uint8", 1, False, 1)
int8 = dtype("int8", 1, False, 2)
int16 = dtype("int16", 2, False, 3)
int32 = dtype("int32", 4, False, 4)
int64 = dtype("int64", 8, False, 5)
float16 = dtype("float16", 2, True, 6)
bfloat16 = dtype("bfloat16", 2, True, 6)
float32 = dtype("float32", 4, True, 7)
float64 = dtype("float64", 8, True, 8)

_FLOAT_LIMITS = {
    "float16": (65504.0, 2.0**-10, 2.0**-14),
    "bfloat16": (3.3895313892515355e38, 2.0**-7, 2.0**-126),
    "float32": (3.4028234663852886e38, 2.0**-23, 2.0**-126),
    "float64": (1.7976931348623157e308, 2.0**-52, 2.0**-1022),
}


def promote(a: dtype, b: dtype) -> dtype:
    """The type that an operator on tensors of types ``a`` and ``b`` computes in."""
    if a.rank == b.rank:
        return a if a is b else float32
    return a if a.rank > b.rank else b


class finfo:
    def __init__(self, of: dtype) -> None:
        self.dtype = of.name
        self.max, self.eps, self.tiny = _FLOAT_LIMITS[of.name]
        self.min = -self.max
        self.smallest_normal = self.tiny
        self.bits = of.itemsize * 8


class iinfo:
    def __init__(self, of: dtype) -> None:
        self.dtype = of.name
        self.bits = of.itemsize * 8
        signed = of.name != "uint8"
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0


class Size(tuple):
    """A shape."""

    def numel(self) -> int:
        return count(self)

    def __repr__(self) -> str:
        return "torch.Size({})".format(list(self))

    def __getitem__(self, key: Any) -> Any:
        got = tuple.__getitem__(self, key)
        return Size(got) if isinstance(key, slice) else got


def count(shape: Tuple[int, ...]) -> int:
    """Number of elements of a shape."""
    n = 1
    for size in shape:
        n *= size
    return n


class device:
    """``device("npu:0")``, ``device("npu", 0)`` or ``device("cpu")``; also a context manager for factories."""

    __slots__ = ("type", "index")

    def __init__(self, kind: Any, index: Any = None) -> None:
        if isinstance(kind, device):
            kind, index = kind.type, kind.index
        elif isinstance(kind, int):
            kind, index = "npu", kind
        elif ":" in kind:
            kind, text = kind.split(":", 1)
            if not text.isdigit():
                raise RuntimeError("Invalid device string: '{}:{}'".format(kind, text))
            index = int(text)
        if kind not in ("cpu", "npu", "meta"):
            raise RuntimeError("Expected one of cpu, npu, meta device type at start of device string: {}".format(kind))
        self.type = kind
        self.index = index

    def __repr__(self) -> str:
        tail = "" if self.index is None else ", index={}".format(self.index)
        return "device(type='{}'{})".format(self.type, tail)

    def __str__(self) -> str:
        return self.type if self.index is None else "{}:{}".format(self.type, self.index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __enter__(self) -> device:
        _default_devices.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _default_devices.pop()


CPU = device("cpu")
_default_devices = [CPU]
_default_dtype = [float32]


def default_device() -> device:
    return _default_devices[-1]


def set_default_device(where: Any) -> None:
    _default_devices[0] = device(where if where is not None else "cpu")


def get_default_dtype() -> dtype:
    return _default_dtype[0]


def set_default_dtype(of: dtype) -> None:
    if not of.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default_dtype[0] = of


def public_dtypes() -> Iterator[Tuple[str, dtype]]:
    """Every name under which torch knows a dtype."""
    for one in (uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64):
        yield one.name, one
    yield "bool", bool_
    yield "half", float16
    yield "float", float32
    yield "double", float64
    yield "short", int16
    yield "int", int32
    yield "long", int64
