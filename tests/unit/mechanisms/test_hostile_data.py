"""Nothing inside a value makes a release fail: neighbours have the same outcome, whatever one record is.

Every exported verb gets values of its own container with one record replaced or added by something hostile. Refused is
only a container (its type, dtype, shape or length); two neighbours are refused alike or released alike, under a filter
that turns every warning into an error. A verb that reads the records together is caught by the same test.
"""

from __future__ import annotations

import datetime
import math
import random
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import TallystickError
from tallystick.mechanisms.exact.randomness import SeededSource
from unit.mechanisms.registry import VERBS, Verb

ROUNDS = 150


class Rude:
    """An object that refuses everything one may ask of it."""

    def _no(self, *_: Any) -> Any:
        raise RuntimeError("private data in an error")

    __float__ = __int__ = __index__ = __len__ = __array__ = __iter__ = __repr__ = __str__ = __bool__ = _no
    __lt__ = __gt__ = __le__ = __ge__ = _no
    __hash__ = object.__hash__


class Column:
    """What tables of other libraries look like: a length, names to iterate, and an array inside."""

    def __init__(self, inside: np.ndarray) -> None:
        self.inside = inside

    def __len__(self) -> int:
        return len(self.inside)

    def __iter__(self) -> Iterator[str]:
        return iter(["first", "second"])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.inside


class Unhashable(Rude):
    __hash__ = Rude._no  # type: ignore[assignment]


HOSTILE: list[Any] = [
    *(math.nan, math.inf, -math.inf, -0.0, 5e-324, -5e-324, 2.2e-308, 1e308, -1.7e308, 0.1),
    *(
        0,
        1,
        -1,
        2**31,
        2**53 + 1,
        -(2**53) - 1,
        2**62,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        2**64,
        10**40,
        10**400,
    ),
    *(Decimal("0.1"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), Decimal("1e999999"), Decimal("1e-999999")),
    *(Fraction(1, 3), Fraction(10**400, 3), Fraction(-1, 10**400)),
    *(True, False, None, "", "text", "1.5", "nan", b"1", 1j, complex(math.nan, 0)),
    *(np.float64("nan"), np.float32("inf"), np.float16(0.5), np.longdouble(1) / 3, np.int8(-3), np.uint64(2**64 - 1)),
    *(np.bool_(True), np.str_("x"), np.datetime64("2020-01-01"), np.datetime64("NaT"), np.timedelta64(1, "ns")),
    *(np.array(1.5), np.array(2**63), np.array([1.0]), np.array([]), np.zeros((2, 2)), np.array(None)),
    *([], [1.0], [[1.0]], (1.0, 2.0), {}, {"a": 1}, {1.0}, range(3), object(), Rude(), Unhashable(), Rude),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), lambda: 1.0, NotImplemented, Ellipsis),
]


def outcome(mechanism: Any, value: Any) -> str:
    """How a release ends: released, or refused with which of our errors; any other error fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            mechanism.release(value, source=SeededSource(7))
        except TallystickError as error:
            told = f"{type(error).__name__} about {getattr(error, 'argument', '')}"
            return told if "private data" not in str(error) else f"told: {error}"
    return "released"


def lists(value: Any, rng: random.Random) -> Iterator[tuple[list[Any], list[Any]]]:
    """Neighbouring lists of one length: some hostile records, one of them replaced."""
    for _ in range(ROUNDS):
        left = [rng.choice(HOSTILE) if rng.random() < 0.3 else entry for entry in value]
        right = list(left)
        right[rng.randrange(len(right))] = rng.choice(HOSTILE)
        yield left, right


def worlds(verb: Verb, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    value = verb.value
    if isinstance(value, ts.select.Steps):
        for (left, right), (low, high) in zip(lists(value.scores, rng), lists(value.breaks, rng), strict=True):
            yield ts.select.Steps(low, left), ts.select.Steps(high, right)
    elif isinstance(value, dict):
        for left, right in lists(list(value.values()), rng):
            groups = [Rude() if rng.random() < 0.2 else group for group in value]
            yield dict(zip(groups, left, strict=True)), dict(zip(value, right, strict=True))
    elif callable(value):
        for left, right in zip(rng.choices(HOSTILE, k=20), rng.choices(HOSTILE, k=20), strict=True):
            yield (lambda point, said=left: said), (lambda point, said=right: said)
        yield (lambda point: 1 / 0), value
        yield (lambda: 1.0), value
    elif isinstance(value, list):
        yield from lists(value, rng)


def scalars() -> Iterator[tuple[Any, Any]]:
    """Pairs of one type: for a single number its type is public, its content is not."""
    for left in HOSTILE:
        yield from ((left, right) for right in HOSTILE if public_type(left) == public_type(right))


def public_type(value: Any) -> tuple[Any, ...]:
    return (type(value), getattr(value, "dtype", None), getattr(value, "shape", None))


def differing(mechanism: Any, pairs: Iterator[tuple[Any, Any]]) -> list[tuple[str, str]]:
    found = ((outcome(mechanism, left), outcome(mechanism, right)) for left, right in pairs)
    return [pair for pair in found if pair[0] != pair[1]]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_neighbours_have_one_outcome_whatever_a_record_is(verb: Verb) -> None:
    pairs = scalars() if isinstance(verb.value, (int, float)) else worlds(verb, random.Random(verb.name))
    assert not differing(verb.mechanism(), pairs)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_hostile_records_are_released_not_refused(verb: Verb) -> None:
    if isinstance(verb.value, (int, float)):
        pairs: Iterator[tuple[Any, Any]] = iter((x, x) for x in HOSTILE if type(x) is type(verb.value))
    else:
        pairs = worlds(verb, random.Random("again " + verb.name))
    assert {outcome(verb.mechanism(), value) for pair in pairs for value in pair} == {"released"}


MAY_BE_EMPTY = {
    "aggregate.sampled",
    "select.quantile",
    "select.median",
    "select.quantiles",
    "keys.stable",
    "keys.stable_counts",
}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_containers_are_refused_by_what_they_are_never_by_what_is_in_them(verb: Verb) -> None:
    mechanism = verb.mechanism()
    for empty in ([], (), np.zeros(0), np.zeros(0, dtype=object)):
        assert (outcome(mechanism, empty) == "released") <= (verb.name in MAY_BE_EMPTY)
    for make in (np.array, lambda x: np.array(x, dtype=object), lambda x: np.array(x).reshape(-1, 1)):
        if isinstance(verb.value, list):
            shaped = outcome(mechanism, make(verb.value))
            assert shaped == outcome(mechanism, make(verb.value[::-1]))
    for dtype in ("S3", "U3", "M8[ns]", "m8[s]", "c16"):
        assert outcome(mechanism, np.zeros(3, dtype=dtype)) != "released" or verb.name.startswith("response.")
    for value in ("text", b"bytes", {1.0, 2.0}, iter([1.0]), None, object(), 1j, Rude(), Column(np.zeros((3, 2)))):
        assert outcome(mechanism, value) != "released"


class ReadsTogether:
    """A mechanism as it was: the records as one array, whose dtype any of them decides."""

    def __init__(self, inner: Any, read: Callable[[Any], Any]) -> None:
        self.inner, self.read = inner, read

    def release(self, value: Any, *, source: Any) -> Any:
        try:
            array = self.read(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            raise ts.errors.InvalidInput("value", "something", "numbers") from None
        return self.inner.release(array, source=source)


def test_a_mechanism_that_reads_the_records_together_is_caught() -> None:
    verb = next(verb for verb in VERBS if verb.name == "select.median")
    twin = ReadsTogether(verb.mechanism(), lambda value: np.asarray(value, dtype=np.float64))
    assert differing(twin, worlds(verb, random.Random("twin")))
