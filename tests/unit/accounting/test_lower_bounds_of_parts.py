"""A composition reveals at least what each of its parts reveals, and its lower bound says so."""

from __future__ import annotations

import pytest

import tallystick as ts
from sweeps import campaign_only
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.bounds import Bounds
from tallystick.accounting.direction import OneDirection
from tallystick.accounting.parts import strongest_first
from tallystick.errors import Contradiction

DELTA = 1e-6
EPSILON_OF_200 = 1.80873
"""Of the first 200 steps, by an FFT of the definition that shares no code with the accountant, rounded up."""


def schedule(steps: int) -> OneDirection:
    """Sampled Gaussian steps whose noise grows: all of them are different."""
    terms = [ts.gaussian(sigma=0.8 + i / 1000).sampled(rate=0.01) for i in range(steps)]
    return OneDirection.of(sum(terms[1:], terms[0]).terms, Direction.REMOVE)


@campaign_only
def test_400_different_sampled_gaussians_have_no_smaller_lower_bound_than_200_of_them() -> None:
    found = schedule(400).grid.epsilon_bounds(DELTA)
    assert found.lower >= EPSILON_OF_200  # was 1.5887
    assert found.upper < 1.9088


@pytest.mark.parametrize("best", [10, 31, 60, 75])
def test_the_lower_bound_of_the_best_part_is_taken_wherever_it_is(best: int) -> None:
    """Whatever the engines say of the parts, the whole has at least the largest of it."""
    whole = schedule(100)
    asked = []

    def lower(part: OneDirection) -> float:
        asked.append(len(part.terms))
        return 1.0 / (1.0 + abs(len(part.terms) - best))

    found = whole._with_parts(Bounds(0.01, 2.0), lower)
    assert found.lower == max(1.0 / (1.0 + abs(size - best)) for size in asked)
    assert found.upper == 2.0
    assert min(abs(size - best) for size in asked) <= 0.15 * best
    strongest = strongest_first(whole.terms[::-1], Direction.REMOVE)
    assert strongest[0][0] == ts.gaussian(sigma=0.8).sampled(rate=0.01).terms[0][0]


def test_parts_are_read_only_where_the_whole_is_read_poorly() -> None:
    narrow, few = Bounds(1.0, 1.005), Bounds(0.5, 2.0)
    assert schedule(100)._with_parts(narrow, lambda part: 1.004) == narrow
    assert schedule(10)._with_parts(few, lambda part: 1.0) == few


def test_a_part_whose_lower_bound_passes_the_upper_bound_of_the_whole_is_a_defect() -> None:
    with pytest.raises(Contradiction):
        schedule(100)._with_parts(Bounds(0.0, 2.0), lambda part: 2.5)
