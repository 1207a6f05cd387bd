"""One strict reader of JSON for every room: a text means one thing or is refused, before anything is built from it.

Python's reader keeps the last of two equal keys, takes NaN and Infinity, turns 1e999 into infinity, spends time on
integers of any length, recurses as deep as the text asks and accepts half of a surrogate pair. None of it happens
here.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from tallystick.errors import InvalidInput, TallystickError

LONGEST_TEXT = 10_000_000
DEEPEST = 100
MOST_DIGITS = 100

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class _Problem(ValueError):
    """Why a text is refused; never leaves this file."""


def read(
    text: Any, *, name: str = "text", allowed: str = "JSON", longest: int = LONGEST_TEXT, deepest: int = DEEPEST
) -> Any:
    """The value of a JSON text (``str`` or UTF-8 ``bytes``); what is not plain JSON is refused, and the reason named.

    The text itself is never part of the message, because it may hold private values.

    >>> read('{"sigma": 2}')
    {'sigma': 2}
    >>> read('{"sigma": 2, "sigma": 1}')
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: text = "the key 'sigma' twice" is not allowed; give JSON
    """
    try:
        return _read(text, longest, deepest)
    except _Problem as found:
        problem = str(found)
    raise InvalidInput(name, problem, allowed)  # outside the handler: the reader's own error holds the text


def same(data: Any, again: Any) -> bool:
    """True if what was read is what would be written: a field that is passed over in silence can hide a lie.

    >>> same({"a": 1, "b": [True]}, {"b": [True], "a": 1}), same({"a": 1}, {"a": True})
    (True, False)
    """
    return json.dumps(data, sort_keys=True) == json.dumps(again, sort_keys=True)


def _read(text: Any, longest: int, deepest: int) -> Any:
    if not isinstance(text, str | bytes):
        raise _Problem(f"a value of type {type(text).__name__}")
    if len(text) > longest:
        raise _Problem(f"a text of more than {longest} characters")
    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        _check_depth(plain, deepest)
        value = json.loads(
            plain,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
        if "\\u" in plain or not plain.isascii():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except _Problem:
        raise
    except UnicodeError:
        raise _Problem("a text with a broken character") from None
    except json.JSONDecodeError as problem:
        raise _Problem(f"no JSON at character {problem.pos + 1}") from None
    except RecursionError:
        raise _Problem("a text nested too deeply") from None
    return value


def _check_depth(text: str, deepest: int) -> None:
    """Count brackets outside strings, so that the parser never has to go deeper than it may."""
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRINGS.sub('""', text)):
        depth += 1 if bracket in "[{" else -1
        if depth > deepest:
            raise _Problem(f"more than {deepest} levels of nesting")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _Problem(f"the key {key[:40]!r} twice")
        members[key] = value
    return members


def _constant(text: str) -> NoReturn:
    raise _Problem(f"{text}, which is not a JSON number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Problem(f"the number {text[:40]}, which is too large")
    return number


def _int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise _Problem(f"a whole number of more than {MOST_DIGITS} digits")
    return int(text)


@contextlib.contextmanager
def written(what: str, form: str) -> Iterator[None]:
    """Raise one error for everything that is wrong with the shape of a text: it is not what we wrote."""
    try:
        yield
    except TallystickError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise InvalidInput(what, "this text", f"JSON of format {form}") from None
