"""Dataclasses as plain JSON data, and back: a field that is unknown, missing or of another type is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from types import NoneType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from tallystick.errors import InvalidInput

T = TypeVar("T")
INFINITE = ("inf", "-inf")
"""Numbers that JSON does not have are written as text."""
NAMES = {str: "text", float: "a number", int: "a whole number", bool: "true or false"}


class Plain:
    """A dataclass whose fields are plain data, or are written and read as such."""

    __slots__ = ()

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return to_fields(self)

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Return what ``to_data`` wrote; anything else is refused."""
        return from_fields(cls, data, name=cls.__name__.lower())


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


def to_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON data."""
    return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}


def from_fields(cls: type[T], data: Any, *, name: str) -> T:
    """Build a dataclass from JSON data; ``name`` is what errors call it. A field with a default may be left out."""
    known: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}  # type: ignore[arg-type]
    if not isinstance(data, dict):
        raise _mistyped(name, data, "an object")
    for unknown in [each for each in data if each not in known]:
        raise InvalidInput(name, f"the field {unknown[:40]!r}", f"the fields {', '.join(known)}")
    for each in known.values():
        if each.name not in data and each.default is MISSING and each.default_factory is MISSING:
            raise InvalidInput(name, f"no field {each.name!r}", f"the fields {', '.join(known)}")
    hints = get_type_hints(cls)
    return cls(**{each: read(f"{name}.{each}", value, hints[each]) for each, value in data.items()})


def read(name: str, data: Any, hint: Any) -> Any:
    """Return JSON data as a value of an annotated type, or refuse it."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return data
    if NoneType in inside:
        return None if data is None else read(name, data, inside[0])
    if origin is tuple:
        return _read_tuple(name, data, inside)
    if origin is not None:
        members = _of_type(name, data, dict, "an object").items()
        return {each: read(f"{name}.{each[:40]}", value, inside[1]) for each, value in members}
    if hasattr(hint, "from_data"):
        return hint.from_data(data)
    if hint is float and (type(data) is int or data in INFINITE):
        return float(data) if data in INFINITE else data
    return _of_type(name, data, hint, NAMES[hint])


def _read_tuple(name: str, data: Any, inside: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a list as a tuple of one type, of any length or of as many values as are annotated."""
    values = _of_type(name, data, list, "a list")
    if inside[-1] is not Ellipsis and len(values) != len(inside):
        raise InvalidInput(name, f"{len(values)} values", f"{len(inside)} values")
    return tuple(read(name, each, inside[0]) for each in values)


def _of_type(name: str, data: Any, kind: type[T], allowed: str) -> T:
    if type(data) is not kind:
        raise _mistyped(name, data, allowed)
    return data


def _mistyped(name: str, data: Any, allowed: str) -> InvalidInput:
    return InvalidInput(name, f"a value of type {type(data).__name__}", allowed)
