"""What outsiders broke in mechanisms, row by row of the table in the design: each row failed on the attacked code."""

from __future__ import annotations

import contextlib
import copy
import importlib
import math
import os
import pickle
import pkgutil
import sys
import threading
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick import mechanisms as rooms
from tallystick.errors import BudgetExceeded, InvalidInput, Refused, TallystickError
from tallystick.mechanisms.base import OnlyOne, Seeded
from tallystick.mechanisms.exact.randomness import SeededSource

noise, select, response, keys, aggregate = ts.noise, ts.select, ts.response, ts.keys, ts.aggregate


def in_threads(count: int, work: Callable[[], None]) -> None:
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# 1. sparse vector streams


def test_a_stream_asked_from_many_threads_says_above_as_often_as_it_may_and_then_refuses() -> None:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            stream = select.above_threshold(threshold=0.0, epsilon=1.0, hits=1).start()
            said: list[Any] = []

            def work(stream: Any = stream, said: list[Any] = said) -> None:
                for _ in range(3):
                    try:
                        said.append(stream.ask(1e12))
                    except Refused:
                        said.append(None)

            in_threads(6, work)
            assert said.count(True) == 1
            assert stream.hits_left == 0
            with pytest.raises(Refused):
                stream.ask(1e12)
    finally:
        sys.setswitchinterval(switch)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_stream_and_a_protocol_cannot_be_copied_or_stored(copied: Callable[[Any], Any]) -> None:
    for going_on in (select.above_threshold(threshold=0.0, epsilon=1.0).start(), response.protocol(epsilon=1.0)):
        with pytest.raises(Refused, match="cannot be copied"):
            copied(going_on)


def test_whatever_can_be_asked_again_and_again_is_one_object() -> None:
    modules = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(rooms.__path__, "tallystick.mechanisms.")
    ]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    going_on = {kind for kind in kinds if hasattr(kind, "ask")}
    assert {kind.__name__ for kind in going_on} == {"Stream", "Protocol"}
    assert all(issubclass(kind, OnlyOne) for kind in going_on)


def test_a_stream_counts_what_it_hands_out() -> None:
    stream = select.above_threshold(threshold=0.0, epsilon=1.0, hits=2).start()
    assert [stream.ask(x) for x in (-1e9, 1e9, -1e9, 1e9)] == [False, True, False, True]
    assert (stream.questions, stream.hits_left) == (4, 0)
    with pytest.raises(AttributeError):
        stream.hits_left = 5  # type: ignore[misc]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_stream_ends_at_a_fork() -> None:
    stream = select.above_threshold(threshold=0.0, epsilon=1.0).start()
    child = os.fork()
    if child == 0:
        try:
            stream.ask(1e9)
        except Refused:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert stream.ask(1e9) is True


# 2. local protocol


@pytest.mark.parametrize(
    ("mechanism", "answers"),
    [
        (response.randomize(epsilon=1.0), [1] * 1000),
        (response.unary_encoding(epsilon=1.0, choices=3), np.ones(1000, dtype=int)),
        (response.laplace(epsilon=1.0, bounds=(0, 1)), np.full(1000, 0.5)),
    ],
)
def test_a_thousand_answers_of_one_person_are_refused_and_cost_nothing(mechanism: Any, answers: Any) -> None:
    talk = response.protocol(epsilon=1.5)
    with pytest.raises(InvalidInput, match="answer"):
        talk.ask("ann", mechanism, answers)
    assert talk.spent("ann") == 0
    assert talk.transcript == ()
    talk.ask("ann", mechanism, answers[:1])


def test_a_mechanism_for_many_records_is_no_question_to_one_person() -> None:
    mean = aggregate.winsorized_mean(bounds=(0, 1), epsilon=0.5)  # REPLACE, but of one record among many
    with pytest.raises(InvalidInput, match="local"):
        response.protocol(epsilon=1.0).ask("ann", mean, [1.0])


class Ann(str):
    """A name that is looked up slowly, so that threads meet between looking and paying."""

    def __hash__(self) -> int:
        time.sleep(1e-4)
        return str.__hash__(self)


def test_a_person_asked_from_many_threads_reports_as_often_as_it_can_pay() -> None:
    question = response.randomize(epsilon=1.0)
    for _ in range(5):
        talk = response.protocol(epsilon=1.0 + 1e-9)

        def work(talk: Any = talk) -> None:
            for _ in range(3):
                with contextlib.suppress(BudgetExceeded):
                    talk.ask(Ann("ann"), question, [1])

        in_threads(6, work)
        assert len(talk.transcript) == 1


def test_somebody_who_is_never_equal_to_themselves_is_refused() -> None:
    talk = response.protocol(epsilon=1.0)
    for person in (math.nan, ("ward 3", math.nan), None, frozenset({1})):
        with pytest.raises(InvalidInput, match="person"):
            talk.ask(person, response.randomize(epsilon=1.0), [1])
    talk.ask(("ward 3", 7), response.randomize(epsilon=1.0), [1])


def test_units_without_a_name_are_one_unit() -> None:
    pairs = [(float("nan"), "x") for _ in range(1000)] + [("ann", "x")]
    assert keys.units_per_key(pairs, max_keys=1) == {"x": 2}


def test_what_a_person_spent_is_added_exactly_and_shown_rounded_up() -> None:
    question = response.randomize(epsilon=0.1)
    talk = response.protocol(epsilon=100.0)
    for _ in range(10):
        talk.ask("ann", question, [1])
    assert Fraction(talk.spent("ann")) >= 10 * Fraction(float(question.privacy.epsilon(delta=0.0)))


# 3. one conversion rule


def ranks(values: Any, **more: Any) -> set[float]:
    mechanism = select.median(epsilon=100.0, bounds=(0, 2**62), **more)
    return {mechanism.release(values) for _ in range(10)}


@pytest.mark.parametrize("more", [[], [0.5], [None], ["text"], [Decimal("0.5")], [Fraction(1, 3)], [10**30], [[1, 2]]])
def test_no_record_changes_how_the_others_are_read(more: list[Any]) -> None:
    assert ranks([2**60] * 100 + more) == {2.0**60}


def test_the_median_of_nanosecond_timestamps_is_where_they_are() -> None:
    stamps = [1_700_000_000_000_000_000 + 3_600_000_000_000 * i for i in range(2001)]
    mechanism = select.median(epsilon=1.0, bounds=(1_600_000_000_000_000_000, 1_800_000_000_000_000_000))
    for form in (stamps, np.array(stamps), np.array(stamps, dtype=np.uint64), [*stamps[:-1], float(stamps[-1])]):
        rank = np.searchsorted(np.array(stamps), mechanism.release(form))
        assert abs(rank - 1000) < 200
    with pytest.raises(InvalidInput):
        mechanism.release(np.array(stamps, dtype="datetime64[ns]"))


@pytest.mark.parametrize("build", [select.exponential, select.noisy_max, select.permute_and_flip])
def test_scores_beyond_doubles_keep_their_distance(build: Any) -> None:
    best, behind = 2**60 + 100, 2**60
    mechanism = build(epsilon=50.0)
    for scores in ([behind, best], [behind, best, 0.5], [behind, Fraction(best), Decimal(7)], np.array([behind, best])):
        assert {mechanism.release(scores) for _ in range(20)} == {1}
    even = build(epsilon=2.0)  # one apart: about 0.27 against 0.73, and rounded to doubles they would be even
    wins = sum(even.release([2**60, 2**60 + 1, 0.0]) for _ in range(2000))
    assert 1250 < wins < 1900


def test_an_integer_is_itself_in_a_sum_and_in_a_clamp() -> None:
    values = [2**60 + 1, 2**60 + 3, 0.5, 10**400, math.nan]
    assert ts.noise.exact_sum(values, lower=-(2.0**61), upper=2.0**61) == 2**61 + 4 + Fraction(1, 2)
    assert ts.noise.exact_sum(np.array([2**60 + 1]), lower=0, upper=2.0**61) == 2**60 + 1
    assert ts.noise.exact_sum([[2**60 + 1, 0.5], [0, 0]], lower=0, upper=2.0**61) == 2**60 + Fraction(3, 2)


# 4. subsample and aggregate


def whole_only(block: np.ndarray) -> float:
    """A statistic that is at home with integers only, as np.bincount is."""
    return float(np.bincount(block.astype(int) if block.dtype.kind == "f" else block).argmax())


def integers_only(block: np.ndarray) -> float:
    if block.dtype.kind != "i":
        raise TypeError("integers only")
    return float(block.max())


@pytest.mark.parametrize("statistic", [whole_only, integers_only])
@pytest.mark.parametrize("more", [0.5, 2**63, None, "text"])
def test_one_record_does_not_change_what_all_blocks_get(statistic: Any, more: Any) -> None:
    mechanism = aggregate.subsample_and_aggregate(
        statistic=statistic, blocks=20, bounds=(0, 100), epsilon=40.0, granularity=1.0
    )
    left = np.array([float(mechanism.release([10] * 400)[0]) for _ in range(20)])
    right = np.array([float(mechanism.release([10] * 399 + [more])[0]) for _ in range(20)])
    assert abs(np.median(left) - np.median(right)) < 10


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, 1e308, 10**400, "text", [1.0, 2.0], None, object(), 1j])
def test_a_block_with_nonsense_counts_as_the_middle_and_no_other_block_does(nonsense: Any) -> None:
    def statistic(block: np.ndarray) -> Any:
        return nonsense if block.max() > 50 else block.max()

    mechanism = aggregate.subsample_and_aggregate(
        statistic=statistic, blocks=20, bounds=(0, 100), epsilon=60.0, granularity=1.0
    )
    assert abs(float(mechanism.release([10.0] * 399 + [99.0])[0]) - 10) < 20


def test_a_statistic_that_warns_or_exits_says_nothing_about_its_block() -> None:
    def statistic(block: np.ndarray) -> float:
        warnings.warn("a warning about the data", stacklevel=1)
        if block.max() > 50:
            raise SystemExit
        return float(np.log(block - block).max())

    mechanism = aggregate.subsample_and_aggregate(statistic=statistic, blocks=4, bounds=(0, 100), epsilon=1.0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        mechanism.release([10.0] * 8 + [99.0])
    kinds = {warning.category for warning in heard}
    assert kinds == {aggregate.subsample.SmallSample}, "which public numbers decide"


# 5. vector noise on a coarse lattice


def test_a_vector_of_large_integers_is_not_rounded_before_the_noise() -> None:
    mechanism = noise.add_laplace(epsilon=1.0, sensitivity=64.0, dimension=2, changed=1, granularity=64.0)
    here, there = 2**60 + 127, 2**60 + 127 + 64
    for make in (list, np.array, lambda v: np.array(v, dtype=np.uint64), lambda v: [*v[:1], float(v[1])]):
        left, right = (mechanism.prepare(make([value, 0]), strict=False)[0] for value in (here, there))
        assert right - left == 1, "64 apart is one step of 64"


def test_k_norm_noise_keeps_the_distance_of_large_integers() -> None:
    mechanism = noise.add_knorm(epsilon=1e-3, norm="l1", sensitivity=1.0, granularity=1024.0)
    left, right = (mechanism.prepare([value, 0.5], strict=False)[0] for value in (2**60 + 127, 2**60 + 129))
    assert right - left == 2


# 6. several quantiles of tied data


@pytest.mark.parametrize("data", [[50] * 2000, [0] * 2000, [50] * 1000 + list(range(50)) * 20])
def test_several_quantiles_of_equal_records_are_where_they_should_be(data: list[int]) -> None:
    mechanism = select.quantiles(alphas=[0.25, 0.5, 0.75], epsilon=1.0, bounds=(0, 100), granularity=1.0)
    ordered, target = np.sort(data), np.array([0.25, 0.5, 0.75]) * len(data)
    stated = mechanism.error(confidence=1 - 1e-6)
    for _ in range(10):
        found = mechanism.release(data)
        below, through = np.searchsorted(ordered, found), np.searchsorted(ordered, found, side="right")
        assert np.maximum(below - target, target - through).max() <= stated


# 7. local Laplace at its bounds


@pytest.mark.parametrize("bound", [0.1, 0.9])
def test_an_interval_at_a_bound_that_is_no_lattice_point_holds_it(bound: float) -> None:
    mechanism = response.laplace(epsilon=8.0, bounds=(0.1, 0.9), granularity=0.25)
    people = [bound] * 4000
    held = 0
    for _ in range(200):
        found = mechanism.estimate(mechanism.release(people), confidence=0.95)
        held += bool(found.lower[0] <= bound <= found.upper[0])
    assert held >= 160, "0.95 of 200 is 190; less than 160 has a chance below 1e-12"


# 8. changed=


def test_changed_cannot_be_less_than_what_a_sensitivity_says() -> None:
    histogram = noise.sensitivity_of("histogram", adjacency="replace")
    for verb in (noise.add_laplace, noise.add_discrete_laplace):
        with pytest.raises(InvalidInput, match="changed"):
            verb(scale=1.0, sensitivity=histogram, dimension=10, changed=1)
        assert float(verb(scale=1.0, sensitivity=histogram, dimension=10).privacy.epsilon(delta=0.0)) >= 1.99
        assert float(verb(scale=1.0, sensitivity=histogram, dimension=10, changed=3).privacy.epsilon(delta=0.0)) >= 1.99
    assert noise.add_laplace(scale=1.0, sensitivity=histogram, dimension=1, changed=1).privacy is not None


# 9. functions as values, extreme bounds, NaN after the charge


def test_a_mechanism_says_whether_its_value_is_a_function() -> None:
    box = select.uniform_box([(0, 1)])
    score = select.by_rejection(epsilon=1.0, sensitivity=1.0, propose=box, score_bounds=(0, 1))
    assert score.takes_function is True
    assert select.median(epsilon=1.0, bounds=(0, 1)).takes_function is False


@pytest.mark.parametrize("granularity", [None, 2.0**-1000, 2.0**-300, 2.0**300, 2.0**900])
@pytest.mark.parametrize("epsilon", [1e-99, 1e-9, 1.0, 1e99])
@pytest.mark.parametrize("sensitivity", [1e-99, 1.0, 1e99])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_k_norm_noise_of_extreme_sizes_is_refused_or_made(
    norm: str, sensitivity: float, epsilon: float, granularity: float | None
) -> None:
    try:
        mechanism = noise.add_knorm(epsilon=epsilon, norm=norm, sensitivity=sensitivity, granularity=granularity)
    except TallystickError:
        return
    out = mechanism.release([1e308, -1e308, 0.0])
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    "bounds", [(0, 1.7e308), (-8e307, 8e307), (0, 1e-300), (0, 5e-324), (1e300, 1.1e300), (0, 2.0**900)]
)
@pytest.mark.parametrize("budget", [{"epsilon": 1e-3}, {"epsilon": 1e3}, {"rho": 1e-6}, {"rho": 1e6}])
@pytest.mark.parametrize("widening", [0.0, 0.1, 1e3, 1e308])
def test_a_winsorised_mean_of_extreme_bounds_is_refused_or_finite(bounds: Any, budget: Any, widening: float) -> None:
    try:
        mechanism = aggregate.winsorized_mean(bounds=bounds, widening=widening, **budget)
    except TallystickError:
        return
    for _ in range(5):
        assert math.isfinite(mechanism.release([bounds[0], bounds[1], bounds[1], -1e308, 1e308]))


@pytest.mark.parametrize("bounds", [(0, 1.7e308), (-8e307, 8e307), (0, 2.0**900)])
def test_local_noise_of_extreme_bounds_is_refused_or_finite(bounds: Any) -> None:
    try:
        mechanism = response.laplace(epsilon=1e-3, bounds=bounds)
    except TallystickError:
        return
    assert np.isfinite(mechanism.release([bounds[1]] * 100)).all()


@pytest.mark.parametrize("answer", [math.nan, math.inf, -math.inf, 10**400, 1e308, np.float32("nan"), Decimal("NaN")])
def test_a_stream_that_is_paid_for_answers_whatever_number_it_gets(answer: Any) -> None:
    stream = select.above_threshold(threshold=0.0, epsilon=1.0, hits=5).start()
    assert stream.ask(answer) in (True, False)
    with pytest.raises(InvalidInput, match="answer"):
        stream.ask("text")  # type: ignore[arg-type]
    assert stream.questions == 1


# 10. smaller


def test_a_direct_call_refuses_what_its_lattice_cannot_hold() -> None:
    scalar = noise.add_laplace(epsilon=1.0, sensitivity=1.0)
    vector = noise.add_gaussian(sigma=1.0, sensitivity=1.0, dimension=2)
    integers = noise.add_discrete_laplace(epsilon=1.0, dimension=2)
    cube = noise.add_knorm(epsilon=1.0, norm="linf", sensitivity=1.0)
    for mechanism, value in (
        (scalar, 1e13),
        (vector, [1e13, 0.0]),
        (integers, [2**62, 0]),
        (integers, np.array([2**62, 0])),
        (cube, [1e13, 0.0]),
    ):
        with pytest.raises(InvalidInput, match="lattice"):
            mechanism(value)
        mechanism.release(value)


def test_a_group_with_more_than_two_to_the_62_units_is_large_not_empty() -> None:
    sizes = {"a": 2**62 + 1, "b": 10**30, "c": 1e30, "d": math.nan, "e": -5, "f": 3.9, "g": "many"}
    assert keys.stable(epsilon=1.0, delta=1e-6).release(sizes) == ("a", "b", "c")
    shown = keys.stable_counts(epsilon=1.0, delta=1e-6).release(sizes)
    assert set(shown) == {"a", "b", "c"}
    assert min(shown.values()) > 2**61


def test_steps_with_breaks_too_small_for_the_lattice_change_score_where_they_should() -> None:
    line = select.on_line(epsilon=200.0, sensitivity=1.0, bounds=(0, 4096), granularity=1024.0)
    steps = select.Steps([5e-324], [1.0, 0.0])  # only 0 lies below the break
    assert {line.release(steps) for _ in range(20)} == {0.0}
    steps = select.Steps([5e-324], [0.0, 1.0])
    assert 0.0 not in {line.release(steps) for _ in range(20)}


def test_a_stream_with_a_seed_is_marked_as_not_private() -> None:
    stream = select.above_threshold(threshold=0.0, epsilon=1.0).start(source=SeededSource(1))
    found = stream.ask(-1e9)
    assert isinstance(found, Seeded)
    assert found.value is False
    with pytest.raises(TypeError, match="not private"):
        bool(found)
