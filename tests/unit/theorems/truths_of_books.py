"""The same for what closes the notes: tails, joint laws, surveys, channels and tight pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np

from tallystick.theorems import Channel, SeparatingTest, TightPair
from unit.theorems import hostile as draw
from unit.theorems.brute import type_two_by_tests
from unit.theorems.truths import ESTIMATE, EXACT, UPPER, Claim, M, amplified_epsilon, gaussian_met, largest_step, square
from unit.theorems.truths_of_curves import Arguments, divergence, plain_masses, stick


def tails(rng: Any) -> Arguments:
    steps, bound = draw.count(rng, 1000), draw.size(rng)
    mean = bound * rng.uniform(-1, 1)
    threshold = steps * mean + rng.uniform(-1, 12) * math.sqrt(steps) * bound
    return (), {"steps": steps, "bound": bound, "mean": mean, "threshold": threshold}


def azuma_bound(steps: int, bound: float, mean: float, threshold: float) -> Any:
    excess = M(threshold) - steps * M(mean)
    if excess <= 0:
        return M(1)
    return M(0) if M(threshold) >= steps * M(bound) else mp.exp(-square(excess) / (2 * steps * square(bound)))


def surveys(rng: Any) -> Arguments:
    population = draw.count(rng) + 1
    keywords = {"epsilon": draw.zero_or_size(rng), "delta": draw.probability(rng), "population": population}
    return (), keywords | {"sample": rng.randint(1, population)}


def advanced_met(sigma: float, rate: float, steps: int, epsilon: float, delta: float) -> bool:
    """Half of delta for the composition's slack, half for the steps; and a little less noise would not do."""
    step = largest_step(epsilon, steps, delta / 2)
    each, slip = mp.log1p(mp.expm1(step) / M(rate)), min(M(1) / 2, M(delta) / (2 * steps * M(rate)))
    return gaussian_met(1 / M(sigma), each, slip) and not gaussian_met(1 / (M(sigma) * (1 - M(10) ** -6)), each, slip)


def training(rng: Any) -> Arguments:
    drawn = {"rate": 10 ** rng.uniform(-5, 0), "steps": rng.randint(1, 10**6), "epsilon": 10 ** rng.uniform(-3, 1)}
    return (), drawn | {"delta": 10 ** rng.uniform(-30, -0.1)}


def joints(rng: Any) -> Arguments:
    p, q = draw.pair(rng, 4)
    given = [draw.pair(rng, 4) for _ in p]
    both = {"p_given": [one for one, _ in given], "q_given": [other for _, other in given]}
    return (p, q), both | {"order": draw.order_or_limit(rng)}


def exact_law(masses: Sequence[float]) -> list[Fraction]:
    total = sum(map(Fraction, masses))
    return [Fraction(mass) / total for mass in masses]


def joint_met(answer: Any, p: Any, q: Any, *, p_given: Any, q_given: Any, order: float) -> bool:
    def joint(law: Any, rows: Any) -> list[Any]:
        return [a * b for a, row in zip(exact_law(law), rows, strict=True) for b in exact_law(row)]

    exact = divergence(joint(p, p_given), joint(q, q_given), order)
    chain = divergence(p, q, order)
    chain += max(divergence(a, b, order) for mass, a, b in zip(p, p_given, q_given, strict=True) if mass > 0)
    for found, truth in zip(answer, (exact, chain), strict=True):
        if M(found) < truth or (math.isfinite(found) and found > truth * (1 + 1e-6) + 1e-12):
            return False
    return bool(chain >= exact * (1 - M(10) ** -30))


def channels(rng: Any) -> Arguments:
    """Half of the wanted pairs are images under a random channel, half are anything."""
    n, m = rng.randint(2, 4), rng.randint(2, 4)
    p, q = plain_masses(rng, n), plain_masses(rng, n)
    if rng.random() < 0.5:
        return (p, q, plain_masses(rng, m), plain_masses(rng, m)), {}
    rows = np.array([plain_masses(rng, m) for _ in range(n)])
    return (p, q, (np.array(p) @ rows).tolist(), (np.array(q) @ rows).tolist()), {}


def channel_met(found: Channel | SeparatingTest, p: Any, q: Any, to_p: Any, to_q: Any) -> bool:
    """A matrix is multiplied out; a test is looked for among all events of both pairs."""
    if isinstance(found, Channel):
        stochastic = bool(np.all(found.matrix >= 0)) and np.allclose(found.matrix.sum(axis=1), 1.0, atol=1e-12)
        away = max(np.max(np.abs(np.array(law) @ found.matrix - to)) for law, to in ((p, to_p), (q, to_q)))
        return stochastic and away <= found.distance + 1e-12 and found.distance < 1e-8
    before = type_two_by_tests(np.array(p), np.array(q), found.level)
    after = type_two_by_tests(np.array(to_p), np.array(to_q), found.level)
    return before > after and abs(before - found.before) < 1e-9 and abs(after - found.after) < 1e-9


def mechanisms(rng: Any) -> Arguments:
    laws = [plain_masses(rng, 3) for _ in range(rng.randint(2, 4))]
    places = [pair for pair in itertools.combinations(range(len(laws)), 2) if rng.random() < 0.7]
    return (laws, places or [(0, 1)]), {}


def support(p: Sequence[float], q: Sequence[float], slope: float) -> float:
    """The least f(a) + slope a over a, for f = T(P, Q): reject where q > slope p."""
    return math.fsum(min(slope * a, b) for a, b in zip(p, q, strict=True))


def tight_met(found: TightPair, laws: Any, neighbours: Any) -> bool:
    """A convex function is known by its supporting lines: those of the least of all neighbours', at many slopes."""
    both = [*neighbours, *((j, i) for i, j in neighbours)]
    slopes = [10 ** (k / 10) for k in range(-30, 31)]
    curve = list(zip(found.tradeoff.alphas, found.tradeoff.betas, strict=True))
    lines = [min(b + slope * a for a, b in curve) for slope in slopes]
    least = [min(support(laws[i], laws[j], slope) for i, j in both) for slope in slopes]
    same = all(abs(x - y) < 1e-9 * (1 + y) for x, y in zip(lines, least, strict=True))
    if found.data_sets is None:
        return same
    i, j = found.data_sets
    return same and all(
        abs(support(laws[i], laws[j], s) - y) < 1e-7 * (1 + y) for s, y in zip(slopes, least, strict=True)
    )


def repeats(rng: Any) -> Arguments:
    pairs = [draw.pair(rng, 3), draw.pair(rng, 3)]
    return (pairs,), {"epsilon": 10 ** rng.uniform(-9, 2), "steps": rng.randint(1, 4)}


def repeated_met(answer: float, pairs: Any, epsilon: float, steps: int) -> bool:
    def composed(law: Any) -> list[Any]:
        return [math.prod(masses) for masses in itertools.product(exact_law(law), repeat=steps)]

    truth = max(stick(composed(p), composed(q), epsilon) for p, q in pairs)
    return bool(truth <= answer <= truth * (1 + 1e-9) + 1e-14)


CLAIMS: dict[str, Claim] = {
    "azuma_tail": Claim(UPPER, azuma_bound, make=tails),
    "survey_amplified": Claim(
        (UPPER, UPPER),
        lambda epsilon, delta, sample, population: (
            amplified_epsilon(epsilon, M(sample) / population), M(delta) * sample / population
        ),
        make=surveys,
    ),
    "effective_people": Claim(
        ESTIMATE,
        lambda people, epsilon, moments, local: (
            min(M(people), (people * square(epsilon)) ** (1 - 1 / M(moments)))
            if local
            else 1 / (1 / M(people) + (1 / square(people * M(epsilon))) ** (1 - 1 / M(moments)))
        ),
        draws={"epsilon": draw.size, "local": lambda rng: rng.random() < 0.5},
    ),
    "advanced_noise": Claim(UPPER, met=advanced_met, make=training, effort=2),
    "renyi_of_joint": Claim((UPPER, UPPER), met=joint_met, make=joints),
    "composed_directions_delta": Claim(UPPER, met=repeated_met, make=repeats),
    "blackwell_channel": Claim(EXACT, met=channel_met, make=channels, effort=2),
    "tight_pair": Claim(EXACT, met=tight_met, make=mechanisms),
}  # fmt: skip
