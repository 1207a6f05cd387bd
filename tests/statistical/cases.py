"""Every mechanism with neighbouring inputs on which it is most revealing, as far as that is known.

A case is one mechanism and one pair of neighbours; ``tests/statistical/test_mechanism_claims.py`` counts some draws of
each in ``make test`` and ``tests/campaigns/mechanism_claims.py`` a million.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statistical import batches
from statistical.batches import Batch
from tallystick.mechanisms import aggregate, keys, noise, response, select
from tallystick.mechanisms.exact.randomness import SYSTEM

MANY = 1_000_000
FEW = 1_500


@dataclass(frozen=True, slots=True)
class Case:
    """``draws`` is how many fit into ``make test``; ``campaign`` how many the campaign makes on each neighbour."""

    name: str
    mechanism: Any
    left: Any
    right: Any
    batch: Batch = batches.one_by_one
    delta: float = 0.0
    draws: int = MANY
    campaign: int = MANY

    def samples(self, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Releases of both neighbours."""
        return tuple(self.batch(self.mechanism, value, size) for value in (self.left, self.right))  # type: ignore[return-value]


def additive() -> list[Case]:
    verbs: list[tuple[str, Any, Any, Any]] = [
        ("Laplace, number", noise.add_laplace(epsilon=1.0, sensitivity=0.7), 0.0, 0.7),
        ("Laplace, coarse lattice", noise.add_laplace(scale=1.0, sensitivity=0.3, granularity=0.25), 0.1, 0.4),
        ("discrete Laplace, number", noise.add_discrete_laplace(epsilon=1.0, sensitivity=3), 0, 3),
        ("Gaussian, number", noise.add_gaussian(sigma=1.0, sensitivity=1.0), 0.0, 1.0),
        ("Gaussian, epsilon and delta", noise.add_gaussian(epsilon=1.0, delta=1e-3, sensitivity=1.0), 0.0, 1.0),
        ("discrete Gaussian, number", noise.add_discrete_gaussian(sigma=1.0), 0, 1),
    ]
    found = [Case(n, m, a, b, batches.scalars, delta=1e-3 if "Gauss" in n else 0.0) for n, m, a, b in verbs]
    pairs: list[tuple[str, Any, Any, Any]] = [
        ("Laplace, vector", noise.add_laplace(epsilon=1.0, sensitivity=1.0, dimension=2), [0.0, 0.0], [0.5, 0.5]),
        ("Gaussian, vector", noise.add_gaussian(rho=0.5, sensitivity=1.0, dimension=2), [0.0, 0.0], [0.6, 0.8]),
        (
            "discrete Laplace, vector",
            noise.add_discrete_laplace(epsilon=1.0, sensitivity=2, dimension=2),
            [0, 0],
            [1, 1],
        ),
        (
            "discrete Gaussian, vector",
            noise.add_discrete_gaussian(rho=0.5, sensitivity=1.5, dimension=2),
            [0, 0],
            [1, 1],
        ),
    ]
    return found + [Case(n, m, a, b, batches.vectors, delta=1e-3 if "Gauss" in n else 0.0) for n, m, a, b in pairs]


def statistics() -> list[Case]:
    """Counts, sums, means and histograms of clamped data, under both adjacencies."""
    rows, low, high = [0.3, 2.0, 9.0], -1.0, 3.0
    found = []
    for adjacency in ("add_remove", "replace"):
        fewer, more = ([*rows], [*rows, 7.0]) if adjacency == "add_remove" else ([*rows, -5.0], [*rows, 7.0])
        about = {"lower": low, "upper": high, "adjacency": adjacency}
        totals = [noise.exact_sum(data, lower=low, upper=high) for data in (fewer, more)]
        add_sum = noise.add_laplace(epsilon=1.0, sensitivity=noise.sensitivity_of("sum", **about))  # type: ignore[arg-type]
        found.append(Case(f"sum, {adjacency}", add_sum, *totals, batches.scalars))
        counts = [sum(x > 0 for x in data) for data in (fewer, more)]
        add_count = noise.add_discrete_laplace(
            epsilon=1.0, sensitivity=noise.sensitivity_of("count", adjacency=adjacency)
        )
        found.append(Case(f"count, {adjacency}", add_count, *counts, batches.scalars))
        histogram = noise.sensitivity_of("histogram", adjacency=adjacency)
        bins = [np.histogram(data, bins=[-9, 0, 9])[0] for data in (fewer, more)]
        laplace = noise.add_discrete_laplace(epsilon=1.0, sensitivity=histogram, dimension=2)
        gaussian = noise.add_discrete_gaussian(rho=0.5, sensitivity=histogram, dimension=2)
        found.append(Case(f"histogram, Laplace, {adjacency}", laplace, *bins, batches.vectors))
        found.append(Case(f"histogram, Gaussian, {adjacency}", gaussian, *bins, batches.vectors, delta=1e-3))
    mean = noise.sensitivity_of("mean", lower=low, upper=high, n=4, adjacency="replace")
    add_mean = noise.add_laplace(epsilon=1.0, sensitivity=mean)
    totals = [noise.exact_sum([*rows, last], lower=low, upper=high) / 4 for last in (-5.0, 7.0)]
    return [*found, Case("mean, replace", add_mean, *totals, batches.scalars)]


def selection() -> list[Case]:
    here, there = [0, 3, 3, 3], [1, 2, 2, 2]
    found = [
        Case("exponential", select.exponential(epsilon=1.0), here, there, batches.choices),
        Case("exponential, monotone", select.exponential(epsilon=1.0, monotone=True), [0, 1], [1, 1], batches.choices),
        Case("permute-and-flip", select.permute_and_flip(epsilon=1.0), here, there, batches.flips),
    ]
    for kind in ("laplace", "exponential", "gumbel"):
        mechanism = select.noisy_max(epsilon=1.0, noise=kind)
        found.append(Case(f"noisy max, {kind}", mechanism, here, there, batches.races))
    found += [
        Case("top-k", select.top_k(k=2, epsilon=1.0), [0, 0, 3, 3], [1, 1, 2, 2], batches.races),
    ]
    answers = {False: ([0.0, 0.0, 1.0], [1.0, 1.0, 0.0]), True: ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])}
    for hits, monotone in ((1, False), (2, False), (1, True)):
        svt = select.above_threshold(threshold=1.0, epsilon=1.0, hits=hits, monotone=monotone)
        name = f"sparse vector, {hits} hit" + ("s" if hits > 1 else "") + (", monotone" if monotone else "")
        found.append(Case(name, svt, *answers[monotone], batches.streams))
    return found


def continuum() -> list[Case]:
    replaced = ([1, 1, 9, 9], [0, 1, 1, 9])
    added = ([1, 8], [1, 8, 8])
    found = []
    for adjacency, (left, right) in (("add_remove", added), ("replace", replaced)):
        about: dict[str, Any] = {"epsilon": 1.0, "bounds": (0, 9), "granularity": 1.0, "adjacency": adjacency}
        one, two = select.median(**about), replace(select.quantiles(alphas=[0.25, 0.75], **about), tie_bits=1)
        found.append(Case(f"quantile, {adjacency}", one, left, right, batches.quantile_points))
        found.append(Case(f"several quantiles, {adjacency}", two, left, right, batches.two_quantiles))
    line = select.on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 4), granularity=0.5, base=([3.0], [1, 2]))
    box = select.uniform_box([(0, 4)], granularity=0.5)
    rejection = select.by_rejection(epsilon=1.0, sensitivity=1.0, propose=box, score_bounds=(0, 2))
    here, there = select.Steps([1.0, 2.5], [0.0, 2.0, 1.0]), select.Steps([1.0, 2.5], [1.0, 1.0, 2.0])
    scores = [lambda point, s=s: float(s.at(np.array(point))[0]) for s in (here, there)]
    return [
        *found,
        Case("exponential on a line", line, here, there, batches.line_points),
        Case("exponential by rejection", rejection, *scores, batches.proposals, draws=20_000),
    ]


def from_the_data() -> list[Case]:
    """Groups: one unit comes into one or two of them; sizes at which the choice is most telling."""
    one, two = keys.stable(epsilon=0.5, delta=0.01), keys.stable(epsilon=0.5, delta=0.01, max_keys=2)
    found = [
        Case("groups, a lone unit", one, (0,), (1,), batches.groups, delta=0.01, draws=100_000),
        Case("groups, more units", one, (3,), (4,), batches.groups, delta=0.01, draws=100_000),
        Case("groups, two per unit", two, (0, 5), (1, 6), batches.groups, delta=0.01, draws=50_000),
    ]
    for name, budget in (("Laplace", {"epsilon": 1.0}), ("Gaussian", {"rho": 0.5})):
        sizes = keys.stable_counts(delta=0.01, **budget)  # type: ignore[arg-type]
        pair = keys.stable_counts(delta=0.01, max_keys=2, **budget)  # type: ignore[arg-type]
        at = sizes.threshold
        found += [
            Case(f"sizes, {name}, a lone unit", sizes, (0,), (1,), batches.groups, delta=0.01, draws=100_000),
            Case(f"sizes, {name}, more units", sizes, (at,), (at + 1,), batches.groups, delta=0.01, draws=100_000),
            Case(f"sizes, {name}, two per unit", pair, (0, 4), (1, 5), batches.groups, delta=0.01, draws=50_000),
        ]
    pairs = [("ann", "x"), ("bob", "x"), ("bob", "y")]
    counted = keys.stable_counts(epsilon=1.0, delta=0.1)
    more = [*pairs, *((("cat", group)) for group in "xyz")]
    return [*found, Case("groups of (unit, group) pairs", counted, pairs, more, sampled_groups, 0.1, 1_000, MANY)]


def sampled_groups(mechanism: Any, value: Any, size: int) -> NDArray[Any]:
    """Each unit's groups are sampled anew in every release."""
    out = np.full((size, 3), -1.0)
    for row in range(size):
        counts = keys.units_per_key(value, max_keys=1)
        for key, count in mechanism.draw(mechanism.prepare(counts, strict=False), SYSTEM).items():
            out[row, "xyz".index(str(key))] = count
    return out


def local() -> list[Case]:
    def bits(mechanism: Any, value: Any, size: int) -> NDArray[Any]:
        return batches.people(mechanism, value, size) @ np.array([1, 2, 4])

    def talk(mechanism: Any, value: Any, size: int) -> NDArray[Any]:
        question = response.randomize(epsilon=mechanism.epsilon / 2 * (1 - 1e-12))
        out = np.empty((size, 2))
        for row in range(size):
            conversation = response.protocol(epsilon=mechanism.epsilon)
            first = conversation.ask("ann", question, [value])[0]
            out[row] = first, conversation.ask("ann", question, [value ^ first])[0]  # a question that depends on it
        return out

    return [
        Case("randomized response", response.randomize(epsilon=1.0), 0, 1, batches.people),
        Case("randomized response, 6 choices", response.randomize(epsilon=1.0, choices=6), 0, 1, batches.people),
        Case("unary encoding", response.unary_encoding(epsilon=1.0, choices=3), 0, 1, bits),
        Case("local Laplace", response.laplace(epsilon=1.0, bounds=(0, 3), granularity=1.0), 0.0, 3.0, batches.people),
        Case("interactive protocol", response.protocol(epsilon=1.0), 0, 1, talk, 0.0, 500, MANY // 4),
    ]


def aggregates() -> list[Case]:
    bounds: dict[str, Any] = {"bounds": (0, 3), "granularity": 1.0}
    here, there = [1, 1, 1, 1, 3, 3], [0, 1, 1, 1, 3, 3]
    found = [
        Case("winsorised mean", aggregate.winsorized_mean(epsilon=2.0, **bounds), here, there, batches.winsorized),
        Case(
            "winsorised mean, Gaussian",
            aggregate.winsorized_mean(rho=0.5, **bounds),
            here,
            there,
            batches.winsorized,
            delta=1e-3,
        ),
    ]
    middle = aggregate.sampled(select.median(epsilon=2.0, **bounds), rate=0.5)
    found.append(Case("median of a sample", middle, [0.0, 3.0], [0.0, 3.0, 3.0], draws=3_000))
    for adjacency, left, right in (
        ("replace", [0.0, 1.0, 1.0, 3.0, 3.0], [3.0, 1.0, 1.0, 3.0, 3.0]),
        ("add_remove", [1.0, 1.0, 3.0], [1.0, 1.0, 3.0, 0.0]),
    ):
        mechanism = aggregate.subsample_and_aggregate(
            statistic=np.max, blocks=4, epsilon=2.0, adjacency=adjacency, **bounds
        )
        found.append(
            Case(f"subsample and aggregate, {adjacency}", mechanism, left, right, batches.blocks, draws=20_000)
        )
    placed = aggregate.unbounded_winsorized_mean(epsilon=8.0, delta=0.1)
    numbers, moved = (np.array([1.0] * 200 + [1.5] * 199 + [last]) for last in (-900.0, 900.0))
    name = "winsorised mean, unknown range"
    return [*found, Case(name, placed, numbers, moved, batches.unknown_range, delta=0.1, draws=20_000)]


def k_norm() -> list[Case]:
    shifts = {"l1": [0.5, 0.5], "l2": [0.6, 0.8], "linf": [1.0, 1.0]}
    return [
        Case(
            f"K-norm, {norm}",
            noise.add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0, granularity=0.25),
            [0.0, 0.0],
            shift,
            draws=FEW,
        )
        for norm, shift in shifts.items()
    ]


CASES = [
    *additive(),
    *statistics(),
    *k_norm(),
    *selection(),
    *continuum(),
    *from_the_data(),
    *local(),
    *aggregates(),
]
