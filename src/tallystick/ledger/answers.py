"""Answers in the record: canonical JSON with dtype, shape and values; never pickle.

The same answer always becomes the same bytes, and the bytes always become the same answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

from tallystick.errors import InvalidInput
from tallystick.ledger.chain import canonical

LARGEST_ANSWER: Final = 64 * 1024 * 1024
DEEPEST: Final = 32
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ARRAY_KINDS: Final = "biufUM"


def encode(answer: Any) -> str:
    """The canonical text of an answer: None, bool, int, float, str, lists, string-keyed dicts, numpy arrays.

    >>> encode([1, 2.5])
    '{"list":[{"int":1},{"float":2.5}]}'
    """
    text = canonical(_encode(answer, 0))
    if len(text) > LARGEST_ANSWER:
        raise InvalidInput("answer", f"{len(text)} bytes", f"at most {LARGEST_ANSWER} bytes; store a digest instead")
    return text


def decode(text: str) -> Any:
    """The answer of a canonical text.

    >>> decode(encode({"n": 3}))
    {'n': 3}
    """
    return _decode(json.loads(text))


def _encode(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise InvalidInput("answer", "nested values", f"at most {DEEPEST} levels")
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        return {"float": _number(float(value))}
    if isinstance(value, str):
        return {"str": str(value)}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("answer", "a dict with other keys", "a dict with string keys")
        return {"dict": {name: _encode(item, depth + 1) for name, item in value.items()}}
    return _encode_array(value)


def _encode_array(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInput("answer", type(value).__name__, "numbers, text, lists, dicts or numpy arrays")
    array = np.asarray(value)
    if array.dtype.kind not in _ARRAY_KINDS or (array.dtype.itemsize > 8 and array.dtype.kind in "fiu"):
        raise InvalidInput("answer", f"dtype {array.dtype}", "booleans, integers, floats, text or dates")
    dtype = array.dtype.newbyteorder("=")
    plain = array.astype("int64") if array.dtype.kind == "M" else array
    values = [_number(item) if isinstance(item, float) else item for item in plain.ravel().tolist()]
    return {
        "array" if isinstance(value, np.ndarray) else "scalar": {
            "dtype": _dtype_name(dtype),
            "shape": list(array.shape),
            "values": values,
        }
    }


def _dtype_name(dtype: Any) -> str:
    name: str = dtype.name if dtype.kind in "biufM" else f"U{dtype.itemsize // 4}"
    return name


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decode(value: Any) -> Any:
    if value is None:
        return None
    ((tag, held),) = value.items()
    return _DECODERS[tag](held)


def _decode_float(held: Any) -> float:
    return _NOT_FINITE[held] if isinstance(held, str) else float(held)


def _decode_array(held: dict[str, Any]) -> Any:
    import numpy as np

    dtype = np.dtype(held["dtype"])
    if dtype.kind == "M":
        return np.array(held["values"], dtype="int64").astype(dtype).reshape(held["shape"])
    values = [_NOT_FINITE[v] for v in held["values"] if isinstance(v, str)] if dtype.kind == "f" else []
    if values:
        held = {**held, "values": [_decode_float(v) for v in held["values"]]}
    return np.array(held["values"], dtype=dtype).reshape(held["shape"])


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    "int": int,
    "str": str,
    "float": _decode_float,
    "list": lambda held: [_decode(item) for item in held],
    "tuple": lambda held: tuple(_decode(item) for item in held),
    "dict": lambda held: {name: _decode(item) for name, item in held.items()},
    "array": _decode_array,
    "scalar": lambda held: _decode_array(held)[()],
}
