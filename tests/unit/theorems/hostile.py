"""Hostile arguments for the theorems: by the name of the argument, as far out as its domain goes."""

from __future__ import annotations

import math
import random

SEED = 20261116


def size(rng: random.Random) -> float:
    """A positive number: ordinary half of the time, otherwise anywhere between 1e-300 and 1e300."""
    if rng.random() < 0.5:
        return float(10 ** rng.uniform(-6, 3))
    return float(10 ** rng.uniform(-300, 300))


def zero_or_size(rng: random.Random) -> float:
    return 0.0 if rng.random() < 0.03 else size(rng)


def open_probability(rng: random.Random) -> float:
    kind = rng.random()
    if kind < 0.4:
        return float(10 ** rng.uniform(-12, -0.01))
    if kind < 0.6:
        return float(10 ** rng.uniform(-307, 0))
    if kind < 0.65:
        return rng.choice([5e-324, 1e-310, 2.0**-53, 1.0 - 2.0**-53, 0.5])
    if kind < 0.8:
        return 1.0 - float(10 ** rng.uniform(-15.9, -1))
    return rng.uniform(0.001, 0.999)


def probability(rng: random.Random) -> float:
    return rng.choice([0.0, 1.0]) if rng.random() < 0.1 else open_probability(rng)


def count(rng: random.Random, most: float = 1e9) -> int:
    return rng.randint(1, 5) if rng.random() < 0.4 else round(10 ** rng.uniform(0, math.log10(most)))


def order(rng: random.Random) -> float:
    kind = rng.random()
    if kind < 0.5:
        return 1.0 + float(10 ** rng.uniform(-2, 3))
    if kind < 0.75:
        return 1.0 + float(10 ** rng.uniform(-15, 0))
    return 1.0 + float(10 ** rng.uniform(0, 300))


def order_or_limit(rng: random.Random) -> float:
    return rng.choice([1.0, math.inf]) if rng.random() < 0.1 else order(rng)


def several(rng: random.Random, one, most: int = 6) -> list[float]:  # type: ignore[no-untyped-def]
    return [one(rng) for _ in range(rng.randint(1, most))]


def masses(rng: random.Random, outcomes: int) -> list[float]:
    """Probabilities of one law: some zero, some as small as 1e-300."""
    raw = [
        0.0 if rng.random() < 0.1 else float(10 ** rng.uniform(-300 if rng.random() < 0.3 else -3, 0))
        for _ in range(outcomes)
    ]
    raw[rng.randrange(outcomes)] = 1.0
    total = math.fsum(raw)
    return [mass / total for mass in raw]


def pair(rng: random.Random, most: int = 6) -> tuple[list[float], list[float]]:
    """Two laws on one space; in half of the cases they differ by little."""
    outcomes = rng.randint(2, most)
    first = masses(rng, outcomes)
    if rng.random() < 0.5:
        return first, masses(rng, outcomes)
    shift = float(10 ** rng.uniform(-15, -1))
    raw = [mass * (1.0 + rng.uniform(-1, 1) * shift) for mass in first]
    total = math.fsum(raw)
    return first, [mass / total for mass in raw]


NUMBERS = {
    "accuracy": size,
    "alpha": probability,
    "base_epsilon": size,
    "coin": probability,
    "covariates": count,
    "delta": probability,
    "delta_slack": open_probability,
    "dimension": count,
    "distance": probability,
    "divergence": zero_or_size,
    "epsilon": zero_or_size,
    "failure": open_probability,
    "moment": size,
    "moments": lambda rng: 2.0 + size(rng),
    "mu": zero_or_size,
    "order": order,
    "people": count,
    "probability": probability,
    "proportion": probability,
    "queries": count,
    "rate": probability,
    "records": count,
    "rho": zero_or_size,
    "samples": count,
    "sensitivity": size,
    "sigma": size,
    "size": count,
    "steps": count,
    "total_delta": open_probability,
    "total_epsilon": size,
}
