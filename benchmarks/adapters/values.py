"""Epsilons of ours beside those of dp_accounting's own two accountants, event by event; runs in the peers' environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import dp_accounting
from dp_accounting import dp_event as e
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import tallystick as ts

ADD, REPLACE, SPECIAL = (
    dp_accounting.NeighboringRelation[name] for name in ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")
)
DELTA = 1e-5
GAUSSIAN = e.GaussianDpEvent(1.0)
STEP = e.PoissonSampledDpEvent(0.01, GAUSSIAN)


def newer(name: str, *fields: Any) -> Any:
    """An event that older releases do not have."""
    kind = getattr(e, name, None)
    return None if kind is None else kind(*fields)


EVENTS: list[tuple[str, Any, Any]] = [
    ("Gaussian", GAUSSIAN, ADD),
    ("Gaussian, replace", GAUSSIAN, REPLACE),
    ("Laplace, 10 times", e.SelfComposedDpEvent(e.LaplaceDpEvent(5.0), 10), ADD),
    ("discrete Laplace", e.SelfComposedDpEvent(e.DiscreteLaplaceDpEvent(0.2, 1), 10), ADD),
    ("1000 Poisson steps", e.SelfComposedDpEvent(STEP, 1000), ADD),
    ("100 Poisson steps, replace", e.SelfComposedDpEvent(STEP, 100), REPLACE),
    ("100 Poisson steps, special", e.SelfComposedDpEvent(STEP, 100), SPECIAL),
    ("Poisson Laplace", e.SelfComposedDpEvent(e.PoissonSampledDpEvent(0.1, e.LaplaceDpEvent(1.0)), 10), ADD),
    ("batch of 10 of 1000", e.SelfComposedDpEvent(e.SampledWithoutReplacementDpEvent(1000, 10, e.GaussianDpEvent(4.0)), 100), REPLACE),
    ("10 draws of 1000", e.SelfComposedDpEvent(e.SampledWithReplacementDpEvent(1000, 10, e.GaussianDpEvent(4.0)), 100), REPLACE),
    ("tree of 8 leaves, special", e.SingleEpochTreeAggregationDpEvent(4.0, 8), SPECIAL),
    ("trees of 5 and 10, replace", e.SingleEpochTreeAggregationDpEvent(4.0, [5, 10]), REPLACE),
    ("best of a geometric 10", e.RepeatAndSelectDpEvent(GAUSSIAN, 10.0, 1.0), ADD),
    ("best of a logarithmic 10", e.RepeatAndSelectDpEvent(GAUSSIAN, 10.0, 0.0), ADD),
    ("best of a Poisson 10", e.RepeatAndSelectDpEvent(e.GaussianDpEvent(4.0), 10.0, math.inf), ADD),
    ("mixture of two", e.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.9, 0.1]), ADD),
    ("mixture of three", e.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.8, 0.1, 0.1]), ADD),
    ("zCDP", e.ZCDpEvent(0.1), ADD),
    ("zCDP with an offset", e.ZCDpEvent(0.1, 0.2), ADD),
    ("randomized response, replace", e.RandomizedResponseDpEvent(0.5, 4), REPLACE),
    ("randomized response, special", e.RandomizedResponseDpEvent(0.5, 4), SPECIAL),
    ("cut batches", e.SelfComposedDpEvent(e.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 40, 1.0), 100), ADD),
    ("often cut batches", e.SelfComposedDpEvent(e.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 16, 1.0), 128), ADD),
    ("several", e.ComposedDpEvent([e.SelfComposedDpEvent(STEP, 100), e.LaplaceDpEvent(3.0), GAUSSIAN]), ADD),
    ("nothing", e.NoOpDpEvent(), ADD),
    ("no privacy", e.NonPrivateDpEvent(), ADD),
    ("no noise", e.GaussianDpEvent(0.0), ADD),
    ("epsilon and delta, 3 times", newer("EpsilonDeltaDpEvent", 0.5, 1e-7) and e.SelfComposedDpEvent(newer("EpsilonDeltaDpEvent", 0.5, 1e-7), 3), ADD),
    ("discrete Gaussian", newer("DiscreteGaussianDpEvent", 2.0, 1.0, 1), ADD),
    ("discrete Gaussian, some dimension", newer("DiscreteGaussianDpEvent", 2.0, 1.0), ADD),
    ("exponential mechanism, 10 times", newer("ExponentialMechanismDpEvent", 0.2) and e.SelfComposedDpEvent(newer("ExponentialMechanismDpEvent", 0.2), 10), ADD),
    ("permute and flip", newer("PermuteAndFlipDpEvent", 1.0), ADD),
]  # fmt: skip


def epsilon(make: Callable[[Any], Any], event: Any, relation: Any) -> float | None:
    """What an accountant says, or None where it does not support the event."""
    accountant = make(relation)
    return float(accountant.compose(event).get_epsilon(DELTA)) if accountant.supports(event) else None


def rows() -> Iterator[tuple[str, float | None, float | None, float | None]]:
    """Ours, by loss distributions, by Renyi divergences."""
    for name, event, relation in EVENTS:
        if event is not None:
            makers: list[Callable[[Any], Any]] = [
                ts.learn.dp_accounting.accountant,
                PLDAccountant,
                lambda relation: RdpAccountant(neighboring_relation=relation),
            ]
            yield name, *(epsilon(make, event, relation) for make in makers)  # type: ignore[misc]


def told(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


if __name__ == "__main__":
    print(f"| event, delta {DELTA:g} | tallystick | by loss distributions | by Renyi divergences |\n|---|---|---|---|")
    for name, *found in rows():
        print(f"| {name} | " + " | ".join(map(told, found)) + " |", flush=True)
