"""Every stated error holds where it is hardest: tied data, extreme values, and data at the bounds.

Each case says when one release is as close as its mechanism states; that must be possible at the stated confidence,
and impossible for a twin that is too noisy. False alarms have a probability below 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from statistical.goodness import at_most
from tallystick.mechanisms import aggregate, keys, noise, response, select
from tallystick.mechanisms.exact.randomness import SYSTEM
from unit.mechanisms.coverage import BOUNDARY, checks
from unit.mechanisms.registry import MECHANISMS

LEVEL, DRAWS = 0.9, 100


@dataclass(frozen=True, slots=True)
class Case:
    """``good(output)`` by what ``mechanism`` states; ``twin`` is noisier than it may be."""

    name: str
    mechanism: Any
    twin: Any
    value: Any
    good: Callable[[Any], bool]
    draws: int = DRAWS


def covers(case: Case, releases: Any) -> bool:
    """Is it possible that a release of these is good with probability ``LEVEL``?"""
    prepared = releases.prepare(case.value, strict=False)
    good = sum(bool(case.good(releases.release_prepared(prepared, SYSTEM))) for _ in range(case.draws))
    return at_most(good, case.draws) >= LEVEL


class Always:
    """Releases one output whatever the data: the twin of results that even much noise leaves right."""

    def __init__(self, mechanism: Any, output: Any) -> None:
        self.prepare, self.output = mechanism.prepare, output

    def release_prepared(self, prepared: Any, source: Any) -> Any:
        return self.output


def additive() -> Iterator[Case]:
    """Intervals at 0, beyond 2^53 lattice steps, and at the last value the lattice holds."""
    verbs: list[tuple[Any, dict[str, Any]]] = [
        (noise.add_laplace, {"scale": 1.0, "sensitivity": 1.0}),
        (noise.add_gaussian, {"sigma": 1.0, "sensitivity": 1.0}),
    ]
    for verb, about in verbs:
        (size,) = {"scale", "sigma"} & set(about)
        for value in (0.0, 0.1, 1e-300, 3.3e12, -4.39e12):
            mechanism, twin = verb(**about), verb(**{**about, size: 10.0, "granularity": 2.0**-20})
            yield Case(f"{verb.__name__} at {value:g}", mechanism, twin, value, within(mechanism, value))
    for verb, size in ((noise.add_discrete_laplace, "scale"), (noise.add_discrete_gaussian, "sigma")):
        for value in (0, 2**53 + 1, -(2**62) + 5):
            mechanism, twin = verb(**{size: 3.0}), verb(**{size: 30.0})
            yield Case(f"{verb.__name__} at {value}", mechanism, twin, value, within(mechanism, value))


def within(mechanism: Any, value: Any) -> Callable[[Any], bool]:
    def good(output: Any) -> bool:
        low, high = mechanism.interval(output, confidence=LEVEL)
        return bool(low <= value <= high)

    return good


def cubes() -> Iterator[Case]:
    lengths = {
        "l1": lambda v: np.abs(v).sum(),
        "l2": lambda v: np.sqrt((v**2).sum()),
        "linf": lambda v: np.abs(v).max(),
    }
    for norm, length in lengths.items():
        for value in ([0.0], [0.0, 0.0, 0.0], [1e9, -1e9, 0.1]):
            mechanism, twin = (noise.add_knorm(epsilon=e, norm=norm, sensitivity=1.0) for e in (1.0, 0.05))
            error = mechanism.error(confidence=LEVEL, dimension=len(value))

            def good(output: Any, value: Any = value, error: float = error, length: Any = length) -> bool:
                return bool(length(output - np.array(value)) <= error)

            yield Case(f"K-norm {norm} at {value[0]:g}, {len(value)} wide", mechanism, twin, value, good)


def choosers() -> Iterator[Case]:
    """One or several tied best ones, all others just farther behind than stated; also as integers beyond doubles."""
    verbs: dict[str, Any] = {"exponential": select.exponential, "permute-and-flip": select.permute_and_flip}
    for kind in ("laplace", "gumbel", "exponential"):
        verbs[f"noisy max, {kind}"] = partial(select.noisy_max, noise=kind)
    for name, verb in verbs.items():
        mechanism, twin = verb(epsilon=1.0), verb(epsilon=0.001)
        gap = int(mechanism.error(confidence=LEVEL, candidates=30)) + 1
        for best, top in ((1, 0), (5, 0), (1, 2**60 + 1)):
            scores = [top] * best + [top - gap] * (30 - best)
            yield Case(f"{name}, {best} at {top}", mechanism, twin, scores, lambda chosen, best=best: chosen < best)
    mechanism, twin = select.top_k(k=3, epsilon=1.0), select.top_k(k=3, epsilon=0.001)
    gap = int(mechanism.error(confidence=LEVEL, candidates=30)) + 1
    for top in (0, 2**60 + 1):
        scores = [top] * 3 + [top - gap] * 27
        yield Case(f"top-k at {top}", mechanism, twin, scores, lambda chosen: max(chosen) < 3)


def ranks(data: np.ndarray, alphas: Any, error: float) -> Callable[[Any], bool]:
    def good(found: Any) -> bool:
        below, through = np.searchsorted(data, found), np.searchsorted(data, found, side="right")
        target = np.array(alphas) * data.size
        return bool(np.max(np.maximum(below - target, target - through)) <= error)

    return good


TIED = {
    "all equal": np.full(3_000, 7.0),
    "all at the lower bound": np.zeros(3_000),
    "all at the upper bound": np.full(3_000, 63.0),
    "half equal": np.sort(np.concatenate((np.full(1_500, 40.0), np.repeat(np.arange(50.0), 30)))),
    "at both bounds": np.repeat([0.0, 63.0], 1_500),
}


def quantiles() -> Iterator[Case]:
    about: dict[str, Any] = {"bounds": (0, 63), "granularity": 1.0}
    for name, data in TIED.items():
        for alpha in (0.0, 0.25, 0.5, 1.0):
            mechanism = select.quantile(alpha=alpha, epsilon=1.0, **about)
            good = ranks(data, [alpha], mechanism.error(confidence=LEVEL))
            wrong = [point for point in range(64) if not good([float(point)])]
            if wrong:  # otherwise every result is right
                yield Case(f"quantile {alpha}, {name}", mechanism, Always(mechanism, wrong[0]), data, good, 80)
        alphas = [0.1, 0.25, 0.5, 0.9]
        mechanism, twin = (select.quantiles(alphas=alphas, epsilon=e, **about) for e in (4.0, 1e-4))
        good = ranks(data, alphas, mechanism.error(confidence=LEVEL))
        yield Case(f"quantiles, {name}", mechanism, twin, data, good, 80)


def thresholds() -> Iterator[Case]:
    """Ten tied answers just below what may be called above, and just above what may be called below."""
    for threshold in (0.0, 1e15):
        for side, wanted in ((-1, False), (1, True)):
            mechanism, twin = (select.above_threshold(threshold=threshold, epsilon=e, hits=10) for e in (1.0, 0.001))
            error = mechanism.error(confidence=LEVEL, queries=10)
            answers = [threshold + side * np.ceil(error)] * 10
            name = f"sparse vector at {threshold:g}, {wanted}"
            yield Case(name, mechanism, twin, answers, lambda said, w=wanted: set(said) == {w}, 100)


def lines() -> Iterator[Case]:
    about: dict[str, Any] = {"sensitivity": 1.0, "bounds": (0, 4), "granularity": 0.5, "base": ([3.0], [1, 2])}
    mechanism, twin = (select.on_line(epsilon=e, **about) for e in (1.0, 0.001))
    gap = mechanism.error(confidence=LEVEL) * 1.001
    for name, steps, best in (
        ("lower end", select.Steps([0.25], [0.0, -gap]), 0.0),
        ("upper end", select.Steps([3.75], [-gap, 0.0]), 4.0),
    ):
        yield Case(f"line, best at its {name}", mechanism, twin, steps, lambda found, best=best: found == best)
    flat = select.Steps([], [0.0])
    yield Case("line, all tied", mechanism, Always(mechanism, -1.0), flat, lambda found: 0 <= found <= 4)
    box = select.uniform_box([(0, 4)], granularity=0.5)
    rejection, worse = (
        select.by_rejection(epsilon=e, sensitivity=1.0, propose=box, score_bounds=(-12, 0)) for e in (1.0, 0.001)
    )
    behind = rejection.error(confidence=LEVEL, share=1 / 9) * 1.001
    for corner in (0.0, 4.0):

        def score(point: Any, corner: float = corner) -> float:
            return 0.0 if point == (corner,) else -behind

        yield Case(f"rejection, best at {corner}", rejection, worse, score, lambda point, c=corner: point == (c,), 150)


def groups() -> Iterator[Case]:
    shown, twin = keys.stable(epsilon=0.5, delta=0.01), keys.stable(epsilon=0.5, delta=1e-6)
    size = shown.error(confidence=LEVEL)
    for count in (size, size + 1):
        yield Case(f"groups of {count - size:+d}", shown, twin, {"a": count}, lambda found: found == ("a",))
    for budget, wide in (({"epsilon": 0.1}, {"epsilon": 0.01}), ({"rho": 0.005}, {"rho": 0.00005})):
        counts = keys.stable_counts(delta=0.01, **budget)  # type: ignore[arg-type]
        other = replace(keys.stable_counts(delta=0.01, **wide), threshold=counts.threshold)  # type: ignore[arg-type]
        error = counts.error(confidence=LEVEL)
        for size in (counts.threshold + 5_000, 2**61):

            def good(found: Any, size: int = size, error: float = error) -> bool:
                return abs(found.get("a", 0) - size) <= error

            yield Case(f"sizes of {size}, {budget}", counts, other, {"a": size}, good)


def surveys() -> Iterator[Case]:
    """Everybody gives the same answer, one of two, or a bound; many people and few."""
    coins, worse = (response.randomize(epsilon=e) for e in (1.0, 0.05))
    yield Case("randomized response, all say 0", coins, worse, [0] * 300, estimated(coins, 1.0))
    yield Case("randomized response, all say 1", coins, worse, [1] * 300, estimated(coins, 0.0))
    bits, noisier = (response.unary_encoding(epsilon=e, choices=3) for e in (1.0, 0.05))
    never = Always(bits, np.zeros((300, 3), dtype=bool))  # the bit of the true choice is fair at any epsilon
    yield Case("unary encoding, all say 0", bits, never, [0] * 300, estimated(bits, 1.0))
    yield Case("unary encoding, all say 2", bits, noisier, [2] * 300, estimated(bits, 0.0))
    for bounds in ((0.1, 0.9), (-1e12, 1e12), (1e9 + 0.1, 1e9 + 0.7)):
        mechanism, twin = (response.laplace(epsilon=e, bounds=bounds) for e in (1.0, 0.02))
        for bound in bounds:
            good = estimated(mechanism, bound)
            yield Case(f"local mean at {bound:g} of {bounds}", mechanism, twin, [bound] * 300, good)
    coarse, wide = (response.laplace(epsilon=e, bounds=(0.1, 0.9), granularity=0.25) for e in (8.0, 0.1))
    for bound in (0.1, 0.9):
        yield Case(f"coarse local mean at {bound}", coarse, wide, [bound] * 2_000, estimated(coarse, bound), 200)


def estimated(mechanism: Any, truth: float) -> Callable[[Any], bool]:
    """The interval holds the truth, and so does the estimate with its stated error."""

    def good(reports: Any) -> bool:
        found = mechanism.estimate(reports, confidence=LEVEL)
        close = abs(found.values[0] - truth) <= mechanism.error(confidence=LEVEL, reports=found.reports)
        return bool(found.lower[0] <= truth <= found.upper[0]) and close and bool(found.standard_errors[0] > 0)

    return good


def means() -> Iterator[Case]:
    """Numbers at a bound that is no lattice point, all equal, and at both bounds: the widened range is all of it."""
    for budget, wide in (({"epsilon": 2.0}, {"epsilon": 0.02}), ({"rho": 0.5}, {"rho": 0.00005})):
        mechanism, twin = (aggregate.winsorized_mean(bounds=(0.1, 99.9), granularity=0.25, **b) for b in (budget, wide))  # type: ignore[arg-type]
        for data in (np.repeat([0.1, 99.9], 200), np.full(400, 99.9), np.full(400, 0.1)):
            width = float(np.ptp(data)) or 99.8 / 50
            error = mechanism.error(confidence=LEVEL, count=400, width=width)
            truth = float(data.mean())
            name = f"winsorised mean of {data[0]} and {data[-1]}, {budget}"
            yield Case(name, mechanism, twin, data, lambda out, t=truth, e=error: abs(out - t) <= e)
        # The error is stated for a range of this width. With half of this epsilon, 28 releases in 100 find a wider
        # one, and the case failed once in nine runs.
        budget = {name: 2 * size if name == "epsilon" else size for name, size in budget.items()}
        split, worse = (
            aggregate.subsample_and_aggregate(statistic=np.max, blocks=100, bounds=(0.1, 99.9), granularity=0.25, **b)  # type: ignore[arg-type]
            for b in (budget, wide)
        )
        error = split.error(confidence=LEVEL, width=99.8 / 10)
        data = np.full(400, 99.9)
        yield Case(
            f"blocks at a bound, {budget}", split, worse, data, lambda out, e=error: abs(out[0] - 99.9) <= e, 100
        )
    every, blurred = (
        aggregate.sampled(noise.add_laplace(epsilon=e, sensitivity=99.9), rate=1.0, total=noise.clamp(0.1, 99.9))
        for e in (2.0, 0.02)
    )
    for data in (np.full(40, 99.9), np.full(40, 0.1), np.array([])):
        truth, error = float(np.sum(data)), every.error(confidence=LEVEL)
        name = f"a sample of everybody, {data.size} at {data[:1]}"
        yield Case(name, every, blurred, data, lambda out, t=truth, e=error: abs(out - t) <= e)
    unknown, vague = (aggregate.unbounded_winsorized_mean(epsilon=e, delta=0.1) for e in (8.0, 0.25))
    for value in (1e6, -1e-200, 1e270, 0.0):
        bins = 2.0 ** (np.frexp(value)[1] - 39) if value else 2.0**-959
        error = unknown.error(confidence=LEVEL, count=2_000, width=9 * bins)
        yield Case(
            f"unknown range, all at {value:g}",
            unknown,
            vague,
            np.full(2_000, value),
            lambda out, v=value, e=error: out is not None and abs(out - v) <= e,
            100,
        )


CASES = [
    case
    for part in (additive, cubes, choosers, quantiles, thresholds, lines, groups, surveys, means)
    for case in part()
]


@checks(BOUNDARY, *{type(case.mechanism) for case in CASES})
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stated_error_holds_on_tied_extreme_and_boundary_data(case: Case) -> None:
    assert covers(case, case.mechanism)
    assert not covers(case, case.twin)


def test_every_mechanism_has_a_case() -> None:
    assert {type(case.mechanism) for case in CASES} == set(MECHANISMS)
