"""Whatever is passed to a verb or a mechanism: an error of ours that names it, or a result; before bits are drawn."""

from __future__ import annotations

import inspect
import math
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pace import Clock
from tallystick.errors import InvalidInput, TallystickError
from tallystick.mechanisms import aggregate, keys, noise, response, select
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from unit.mechanisms.registry import VERBS, Verb

BILLION = 10**9


class Counted(Source):
    """Counts the bytes it gives; ``private`` False, so that nothing is recorded as a release."""

    __slots__ = ("given",)
    private = False

    def __init__(self) -> None:
        self.given = 0

    def read(self, count: int) -> memoryview:
        self.given += count
        return SYSTEM.read(count)


class Huge(Mapping[int, int]):
    """A mapping that claims a billion keys and would take for ever to read."""

    def __len__(self) -> int:
        return BILLION

    def __iter__(self) -> Iterator[int]:
        return iter(range(BILLION))

    def __getitem__(self, key: int) -> int:
        return 1


NEVER_A_NUMBER: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    "text",
    "1.0",
    b"1",
    1j,
    object(),
    {},
    {"a": 1},
    [],
    [1.0],
    (1.0, 2.0, 3.0),
    [None],
    np.zeros(0),
    np.zeros((2, 2)),
    np.array(["a"]),
    np.array([None, 1.0]),
    np.array([math.nan]),
    np.array("2020-01-01", dtype="datetime64[D]"),
    10**400,
    -(10**400),
    Fraction(10**400),
    np.float64("nan"),
    np.float32("inf"),
    Decimal("NaN"),
]
MAYBE_A_NUMBER: list[Any] = [
    None,
    True,
    False,
    np.True_,
    0,
    0.0,
    -0.0,
    -1,
    -1e-300,
    1e-300,
    5e-324,
    1e300,
    1.7e308,
    0.5,
    1.5,
    2,
    2**53 + 1,
    2**63,
    10**18,
    np.int8(3),
    np.uint64(2**64 - 1),
    np.float16(0.5),
    np.array(1.0),
    np.array(3),
    Decimal("0.5"),
    Fraction(1, 3),
    (3.0, 1.0),
    (0.0, 0.0),
    (-math.inf, math.inf),
    (0.0, math.nan),
    ("a", "b"),
    [(0.0, 1.0), (2.0, 1.0)],
    [0.5, 0.25],
    "replace",
    "laplace",
    "",
    range(3),
    iter([1.0]),
]


def judged(call: Callable[[], Any]) -> TallystickError | None:
    """The error if it is ours; anything else raised fails the test by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except TallystickError as error:
            return error
    return None


def shown(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"[:60]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_any_argument_of_a_verb_is_taken_or_refused_by_name(verb: Verb) -> None:
    names = list(inspect.signature(verb.build).parameters)
    for name in names:
        for bad in NEVER_A_NUMBER + MAYBE_A_NUMBER:
            error = judged(lambda bad=bad, name=name: verb.build(**{**verb.arguments, name: bad}).privacy)
            if error is not None and isinstance(error, InvalidInput):
                assert error.argument in names, (name, shown(bad), error)
                assert error.allowed, (name, shown(bad))
                assert len(str(error)) < 400, (name, shown(bad))


NUMBERS = {"epsilon", "delta", "rho", "mu", "sigma", "scale", "sensitivity", "granularity", "alpha", "threshold"}
COUNTS = {"dimension", "changed", "k", "hits", "max_keys", "blocks"}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_what_is_no_number_is_refused_where_a_number_belongs(verb: Verb) -> None:
    for name in set(verb.arguments) & (NUMBERS | COUNTS | {"widening", "threshold_share"}):
        for bad in NEVER_A_NUMBER:
            error = judged(lambda bad=bad, name=name: verb.build(**{**verb.arguments, name: bad}))
            assert isinstance(error, InvalidInput), (name, shown(bad))
            assert error.argument == name, (name, shown(bad), error)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("bad", [0, 0.0, -1, -0.5, True, False])
def test_nothing_and_less_is_no_budget_no_sensitivity_and_no_count(verb: Verb, bad: Any) -> None:
    for name in set(verb.arguments) & (NUMBERS | COUNTS - {"alpha"}):
        if name in ("alpha", "threshold") and type(bad) is not bool:
            continue  # any level from 0 to 1, any threshold
        error = judged(lambda name=name: verb.build(**{**verb.arguments, name: bad}))
        assert isinstance(error, InvalidInput), name
        assert error.argument == name


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_bounds_in_the_wrong_order_are_refused(verb: Verb) -> None:
    for name in set(verb.arguments) & {"bounds", "score_bounds"}:
        for bad in ((3.0, 1.0), (1.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (1.0,), "ab", None, 3, ("a", "b")):
            error = judged(lambda bad=bad, name=name: verb.build(**{**verb.arguments, name: bad}))
            assert isinstance(error, InvalidInput), bad
            assert error.argument == name


VALUES: list[Any] = [
    *NEVER_A_NUMBER,
    *MAYBE_A_NUMBER,
    [math.nan, 1.0],
    [1.0, math.inf],
    [[1.0], [2.0, 3.0]],
    [[1.0, 2.0]],
    np.zeros((3, 0)),
    np.zeros(2, dtype=object),
    np.array([1, 2], dtype=np.uint64),
    np.array([2**64 - 1, 1], dtype=np.uint64),
    np.array([-(2**63), 2**63 - 1]),
    np.array([1.0, 2.0], dtype=np.float16),
    np.array([1e308, -1e308]),
    np.array([1j, 2j]),
    np.array([True, False]),
    [True, False],
    [10**400, 1],
    [10**18, 2**64],
    ["1", "2"],
    {"a": math.nan},
    {"a": -1},
    {"a": 10**400},
    {"a": True, "b": 2.5},
    {1: 2, "1": 3, (1,): 4, None: 5},
    [[], []],
    [{}, {}],
    [None, None],
    [0, 1, 2, "no choice"],
    np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    select.Steps([2.0, 1.0], [0.0, 1.0, 2.0]),
    select.Steps([1.0], [0.0]),
    select.Steps([math.nan], [0.0, 1.0]),
    select.Steps("ab", None),  # type: ignore[arg-type]
    lambda point: math.nan,
    lambda: 1.0,
]
HUGE: list[Any] = [np.broadcast_to(0.0, BILLION), np.broadcast_to(0, BILLION), range(BILLION), Huge()]


def offered(verb: Verb, value: Any) -> tuple[TallystickError | None, int]:
    source = Counted()
    mechanism = verb.mechanism()
    return judged(lambda: mechanism(value, source=source)), source.given


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_any_value_is_released_or_refused_before_a_bit_is_drawn(verb: Verb) -> None:
    if verb.name == "select.by_rejection":
        pytest.skip("its value is a function: what that raises is the caller's, see the next test")
    for value in VALUES:
        error, drawn = offered(verb, value)
        assert error is None or drawn == 0, shown(value)
        if isinstance(error, InvalidInput):
            assert error.allowed
            assert "1.0" not in str(error.value), "a refusal never shows the data"


def test_a_score_that_is_no_function_is_refused_before_a_bit_is_drawn() -> None:
    verb = next(verb for verb in VERBS if verb.name == "select.by_rejection")
    for value in VALUES:
        if not callable(value):
            error, drawn = offered(verb, value)
            assert isinstance(error, InvalidInput)
            assert drawn == 0


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_values_that_are_nothing_like_the_right_kind_are_always_refused(verb: Verb) -> None:
    for value in (None, "text", b"1", 1j, object(), [[1.0], [2.0, 3.0]], np.array([1j, 2j]), [None], [[[]]]):
        error, drawn = offered(verb, value)
        if verb.name == "aggregate.subsample_and_aggregate" and isinstance(value, np.ndarray):
            continue  # records may be anything an array holds
        assert error is not None, shown(value)
        assert drawn == 0


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_after_a_charge_content_is_mapped_and_nothing_of_ours_breaks(verb: Verb) -> None:
    mechanism = verb.mechanism()
    for value in VALUES:
        judged(lambda value=value: mechanism.release(value, source=Counted()))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_billion_of_anything_is_refused_at_once_and_in_little_memory(verb: Verb) -> None:
    clock = Clock()
    tracemalloc.start()
    try:
        for value in HUGE:
            error, drawn = offered(verb, value)
            assert error is not None, shown(value)
            assert drawn == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert clock.seconds < 5.0


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_other_questions_take_any_argument_or_refuse_it_by_name(verb: Verb) -> None:
    mechanism = verb.mechanism()
    for method, arguments in verb.asks.items():
        for name in arguments:
            for bad in NEVER_A_NUMBER + MAYBE_A_NUMBER:
                if name == "output":
                    continue  # an output of the mechanism, passed back
                error = judged(
                    lambda method=method, arguments=arguments, name=name, bad=bad: getattr(mechanism, method)(
                        **{**arguments, name: bad}
                    )
                )
                if isinstance(error, InvalidInput):
                    assert error.argument == name, (method, name, shown(bad))
        for bad in (0, 1, -0.5, 1.5, math.nan, "x", None, True):
            if "confidence" in arguments:
                error = judged(lambda m=method, a=arguments, b=bad: getattr(mechanism, m)(**{**a, "confidence": b}))
                assert isinstance(error, InvalidInput), (method, bad)


HELPERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "clamp": (lambda lower, upper: noise.clamp(lower, upper), {"lower": 0.0, "upper": 1.0}),
    "exact_sum": (noise.exact_sum, {"values": [1.0], "lower": 0.0, "upper": 1.0}),
    "sensitivity_of": (
        noise.sensitivity_of,
        {"statistic": "sum", "lower": 0.0, "upper": 1.0, "n": 3, "rows": 1, "adjacency": "replace"},
    ),
    "uniform_box": (select.uniform_box, {"bounds": [(0.0, 1.0)], "granularity": 0.5}),
    "units_per_key": (keys.units_per_key, {"pairs": [("a", "x")], "max_keys": 1}),
    "blocks_for": (aggregate.blocks_for, {"count": 100, "widening": 0.1}),
    "protocol": (response.protocol, {"epsilon": 1.0, "unit": None}),
    "estimate": (
        response.estimate,
        {"mechanism": response.randomize(epsilon=1.0), "reports": [0, 1], "confidence": 0.95},
    ),
}


@pytest.mark.parametrize("name", HELPERS)
def test_the_verbs_that_build_no_mechanism_refuse_by_name_too(name: str) -> None:
    function, arguments = HELPERS[name]
    for argument in arguments:
        for bad in NEVER_A_NUMBER + MAYBE_A_NUMBER:
            error = judged(lambda a=argument, b=bad: function(**{**arguments, a: b}))
            if isinstance(error, InvalidInput):
                assert error.allowed
