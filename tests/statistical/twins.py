"""Mechanisms broken on purpose, next to the price they would claim: the test that clears ours must convict these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statistical import batches
from statistical.cases import Case
from tallystick.mechanisms import noise, select
from tallystick.mechanisms.exact.randomness import SYSTEM


@dataclass(frozen=True, slots=True)
class Twin:
    """What is released (``broken``) and the mechanism whose privacy is claimed for it."""

    fault: str
    broken: Case
    promised: Any


def half_noise() -> list[Twin]:
    scalar: list[tuple[str, Any, Any, Any, float]] = [
        ("Laplace", noise.add_laplace, {"scale": 0.5}, {"scale": 1.0}, 0.0),
        ("Gaussian", noise.add_gaussian, {"sigma": 0.5}, {"sigma": 1.0}, 1e-3),
        ("discrete Laplace", noise.add_discrete_laplace, {"scale": 0.5}, {"scale": 1.0}, 0.0),
        ("discrete Gaussian", noise.add_discrete_gaussian, {"sigma": 0.5}, {"sigma": 1.0}, 1e-3),
    ]
    found = [
        Twin(
            "half the noise",
            Case(name, verb(sensitivity=1, **half), 0, 1, batches.scalars, delta),
            verb(sensitivity=1, **whole),
        )
        for name, verb, half, whole, delta in scalar
    ]
    choice = Case("exponential", select.exponential(epsilon=2.0), [0, 3, 3, 3], [1, 2, 2, 2], batches.choices)
    return [*found, Twin("half the noise", choice, select.exponential(epsilon=1.0))]


def quantile_of(epsilon: float, adjacency: str) -> Any:
    return select.median(epsilon=epsilon, bounds=(0, 9), granularity=1.0, adjacency=adjacency)  # type: ignore[arg-type]


def quantiles() -> list[Twin]:
    """The notes' Algorithm 4 weighs a point exp(-eps |i - alpha k|): twice the exponent (errata 1)."""
    replaced = ([1, 1, 9, 9], [0, 1, 1, 9])
    printed = Case("quantile", quantile_of(2.0, "replace"), *replaced, batches.quantile_points)
    added = Case("quantile", quantile_of(1.0, "add_remove"), *replaced, batches.quantile_points)
    return [
        Twin("epsilon for epsilon/2", printed, quantile_of(1.0, "replace")),
        Twin("wrong adjacency", added, quantile_of(1.0, "replace")),
    ]


def wrong_adjacency() -> Twin:
    """A sum of values in [-1, 3] moves by 3 when a unit comes or goes and by 4 when it is replaced."""
    added, replaced = (
        noise.add_laplace(epsilon=1.0, sensitivity=noise.sensitivity_of("sum", lower=-1, upper=3, adjacency=adjacency))
        for adjacency in ("add_remove", "replace")
    )
    return Twin("wrong adjacency", Case("sum", added, 9.0, 13.0, batches.scalars), replaced)


def reused_noise() -> Twin:
    """One draw for both coordinates: their difference is released without noise."""

    def reused(mechanism: Any, value: Any, size: int) -> NDArray[Any]:
        return mechanism.law.draw(size, SYSTEM)[:, None] + np.array(value)

    vector = noise.add_discrete_laplace(epsilon=1.0, sensitivity=2, dimension=2)
    return Twin("reused noise", Case("discrete Laplace, vector", vector, [0, 0], [0, 1], reused), vector)


def unclamped() -> Twin:
    data, outlier = [0.2, 0.9, 0.5], 40.0
    mechanism = noise.add_laplace(epsilon=1.0, sensitivity=noise.sensitivity_of("sum", lower=0, upper=1))
    return Twin("unclamped sum", Case("sum", mechanism, sum(data), sum(data) + outlier, batches.scalars), mechanism)


TWINS = [*half_noise(), *quantiles(), wrong_adjacency(), reused_noise(), unclamped()]
