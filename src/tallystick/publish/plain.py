"""Dataclasses as plain JSON data, and back: a field that is unknown, missing or of another type is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from tallystick.errors import InvalidInput
from tallystick.remedies import is_plain
from tallystick.strict_json import DEEPEST

T = TypeVar("T")
INFINITE = ("inf", "-inf")
"""Numbers that JSON does not have are written as text."""
TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    tuple: ((list,), "a list"),
    Mapping: ((dict,), "an object"),
}
"""By annotated type: the types of JSON data that are read as it, and their name."""


class Plain:
    """A dataclass whose fields are plain data, or are written and read as such."""

    __slots__ = ()

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return {each.name: to_plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Return what ``to_data`` wrote; anything else is refused."""
        return read_fields(cls, data)


def to_plain(value: Any) -> Any:
    """Return a value as JSON data; an object with ``to_data`` is written by it."""
    if hasattr(value, "to_data"):
        return value.to_data()
    if isinstance(value, Mapping):
        return {name: to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    is_infinite = isinstance(value, float) and math.isinf(value)
    return str(value) if is_infinite else value


def read_fields(cls: type[T], data: Any) -> T:
    """Build a dataclass from JSON data; a field with a default may be left out."""
    name, known = cls.__name__, {each.name: each for each in fields(cls)}  # type: ignore[arg-type]
    needed = {each.name for each in known.values() if each.default is MISSING and each.default_factory is MISSING}
    if not isinstance(data, dict) or not needed <= data.keys() <= known.keys():
        wrong = sorted(data.keys() - known.keys() or needed - data.keys()) if isinstance(data, dict) else []
        raise InvalidInput(name, wrong or type(data).__name__, f"an object with fields {', '.join(known)}")
    hints = get_type_hints(cls)
    return cls(**{each: read(f"{name}.{each}", value, hints[each]) for each, value in data.items()})


def read(name: str, data: Any, hint: Any) -> Any:
    """Return JSON data as a value of an annotated type, or refuse it."""
    inside, kind = get_args(hint), get_origin(hint) or hint
    if NoneType in inside:
        return None if data is None else read(name, data, inside[0])
    if hasattr(kind, "from_data"):
        return kind.from_data(data)
    if kind is Any and is_plain(data, DEEPEST):
        return data
    if kind is Any:
        raise InvalidInput(name, f"a value of type {type(data).__name__}", "plain JSON data")
    if kind is float and data in INFINITE:
        return float(data)
    types, allowed = TYPES[kind]
    is_nan = isinstance(data, float) and not math.isfinite(data)
    if type(data) not in types or is_nan:
        raise InvalidInput(name, f"a value of type {type(data).__name__}", allowed)
    if kind is tuple:
        return _read_tuple(name, data, inside)
    if kind is Mapping:
        return {each: read(f"{name}.{each[:40]}", value, inside[1]) for each, value in data.items()}
    return data


def _read_tuple(name: str, data: list[Any], inside: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list as a tuple: of one type and any length, or of the annotated types."""
    if inside[-1] is Ellipsis:
        return tuple(read(name, each, inside[0]) for each in data)
    if len(data) != len(inside):
        raise InvalidInput(name, f"{len(data)} values", f"{len(inside)} values")
    return tuple(read(name, each, kind) for each, kind in zip(data, inside, strict=True))
