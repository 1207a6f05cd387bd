"""What is true only of the end of a run stays marked, whatever is made of its loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tallystick as ts
from referee.matrix import transformations_in_code
from tallystick.accounting.leaf import all_inside

WALKS = {
    "last_iterate": ts.last_iterate(steps=20, contraction=0.9, sigma=3, diameter=2),
    "in batches": ts.last_iterate(steps=20, contraction=1, sigma=3, batches=ts.cyclic(batches=5)),
    "sampled batches": ts.last_iterate(steps=10_000, contraction=0.99, sigma=3, batches=ts.poisson(rate=0.01)),
    "shift_walk": ts.shift_walk(tail=4, steps=10, contraction=1, sigma=2, diameter=3),
}
BESIDE = ts.gaussian(sigma=2)

MADE: dict[str, Callable[[ts.PrivacyLoss], ts.PrivacyLoss]] = {
    "__add__": lambda loss: loss + BESIDE,
    "__mul__": lambda loss: 3 * loss,
    "sampled": lambda loss: loss.sampled(rate=0.5),
    "allocated": lambda loss: loss.allocated(steps=3),
    "subset": lambda loss: loss.as_replace().subset(batch=1, population=4),
    "for_groups": lambda loss: loss.for_groups(2),
    "as_replace": lambda loss: loss.as_replace(),
    "worst": lambda loss: ts.worst(loss, BESIDE),
    "selected": lambda loss: ts.selected(loss, gamma=0.5),
    "propose_test_release": lambda loss: ts.propose_test_release(loss, scale=1, delta=1e-6),
}


def flags(loss: ts.PrivacyLoss) -> tuple[bool, bool]:
    inside = list(all_inside(loss.terms))
    return any(leaf.only_the_last for leaf in inside), all(leaf.attained for leaf in inside)


def test_every_transformation_is_here() -> None:
    assert set(MADE) == set(transformations_in_code())


@pytest.mark.parametrize("how", MADE)
@pytest.mark.parametrize("walk", WALKS)
def test_the_flags_survive(walk: str, how: str) -> None:
    loss = WALKS[walk]
    assert flags(loss)[0]
    made = MADE[how](loss)
    assert flags(made) == flags(loss)
    assert flags(ts.PrivacyLoss.from_json(made.to_json())) == flags(loss)


def test_noise_of_a_matrix_mechanism_stays_only_proved_to_be_enough() -> None:
    loss = ts.correlated(sigma=3, steps=8, coefficients=[1.0, 0.5], uses=2, separation=3)
    assert not flags(loss)[1]
    assert not flags(loss.as_replace())[1]


def test_a_replaced_record_is_two_displacements() -> None:
    """Homogeneity: without a domain mu doubles; inside of one the walk knows that both iterates are in it."""
    free = ts.last_iterate(steps=20, contraction=0.9, sigma=3)
    assert free.as_replace().gdp_bound() == pytest.approx(2 * free.gdp_bound(), rel=1e-12)
    small = WALKS["last_iterate"]
    assert small.gdp_bound() < small.as_replace().gdp_bound() <= 2 * small.gdp_bound() * (1 + 1e-12)


def test_too_little_noise_to_halve_is_replaced_by_the_general_rule() -> None:
    loss = ts.last_iterate(steps=1, contraction=0.0, sigma=1.5e-6)
    assert flags(loss.as_replace())[0]
