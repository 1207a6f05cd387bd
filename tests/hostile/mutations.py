"""Spoil a JSON text the way an enemy, a broken disk or a careless editor would."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.0, -0.0, 0.5, 1e-300, 1e300, -1e-9, 2**31, 2**53 + 1, 2**63, 10**30, "", " ", "0",
    "1", "NaN", "null", "add_remove", "replace", "count", "=cmd()", "\x1b[2J", "a\u200bb", "\uff41", "x" * 5000, [], {},
    [[]], [None], {"kind": "gaussian", "sigma": 1}, [0, 0], "../../etc/passwd",
]  # fmt: skip


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value, the whole included."""
    found = [prefix]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*prefix, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths(inner, (*prefix, index))
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """What stands at a place."""
    for step in path:
        value = value[step]
    return value


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else at one place."""
    if not path:
        return new
    result = copy.deepcopy(value)
    at(result, path[:-1])[path[-1]] = new
    return result


def mutated(text: str, draw: random.Random) -> str:
    """One text, spoiled in one to three ways; structure first, bytes now and then."""
    if draw.random() < 0.15:
        return _bytes(text, draw)
    value = json.loads(text)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        value = _structure(value, draw)
    written = json.dumps(value, indent=draw.choice((None, 1)), sort_keys=draw.random() < 0.5)
    return _doubled(written, draw) if draw.random() < 0.1 else written


def _structure(value: Any, draw: random.Random) -> Any:
    path = draw.choice(paths(value))
    here = at(value, path)
    way = draw.randrange(7)
    if way == 0 and isinstance(here, int | float) and not isinstance(here, bool):
        return changed(value, path, here * draw.choice((0.1, 0.999, 1.0 + 1e-9, 1.001, 2, 10, -1)))
    if way == 1 and isinstance(here, dict) and here:
        less = {key: inner for key, inner in here.items() if key != draw.choice(list(here))}
        return changed(value, path, less)
    if way == 2 and isinstance(here, dict):
        return changed(value, path, {**here, draw.choice(("extra", "delta", "kind", "unit")): draw.choice(HOSTILE)})
    if way == 3 and isinstance(here, list) and here:
        longer = [*here, draw.choice(here)] if draw.random() < 0.5 else here[:-1]
        return changed(value, path, longer)
    if way == 4:
        other = draw.choice(paths(value))
        return changed(value, path, copy.deepcopy(at(value, other))) if path else value
    if way == 5 and isinstance(here, str) and here:
        place = draw.randrange(len(here))
        return changed(value, path, here[:place] + draw.choice("0aZ é\u200b'\";") + here[place + 1 :])
    return changed(value, path, copy.deepcopy(draw.choice(HOSTILE)))


def _doubled(text: str, draw: random.Random) -> str:
    """The same key twice: which one counts must not be a matter of luck."""
    marks = [index for index, letter in enumerate(text) if letter == "{" and text[index + 1 : index + 2] != "}"]
    if not marks:
        return text
    place = draw.choice(marks) + 1
    key = text[place:].lstrip().split('"')[1]
    return f"{text[:place]}{json.dumps(key)}: {json.dumps(draw.choice(HOSTILE))}, {text[place:]}"


def _bytes(text: str, draw: random.Random) -> str:
    way, place = draw.randrange(6), draw.randrange(max(1, len(text)))
    if way == 0:
        return text[:place]
    if way == 1:
        return text[:place] + chr(draw.randrange(1, 0x300)) + text[place + 1 :]
    if way == 2:
        return "\ufeff" + text
    if way == 3:
        return "[" * 100_000 + text
    if way == 4:
        return text[:place] + draw.choice(("NaN", "Infinity", "1e999", "9" * 5000, '"\\ud800"', "//")) + text[place:]
    return text + text
