"""Bounds from above and from below are different types where engines make them; mypy reads this file, too.

Each mistake below is marked as one. Were it none, mypy (strict, in ``make types``) would report the mark as unused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_type_hints

import pytest

from tallystick.accounting.bounds import Bounds
from tallystick.accounting.compose import Direct
from tallystick.numerics.contour import Nodes
from tallystick.numerics.convolve import TiltedSum
from tallystick.numerics.law import Above, Below
from tallystick.numerics.smoothing import BlurredNodes


def mistakes(nodes: Nodes, blurred: BlurredNodes, grid: TiltedSum, listed: Direct) -> None:
    """Never called: what must not type-check."""
    Bounds.between(nodes.upper(1.0), nodes.lower(1.0))  # type: ignore[arg-type]
    Bounds.between(blurred.lower(1.0), blurred.lower(1.0))  # type: ignore[arg-type]
    Bounds.between(grid.excess_upper(1.0), grid.excess_upper(1.0))  # type: ignore[arg-type]
    Bounds.between(listed.lower(1.0), 0.5)  # type: ignore[arg-type]

    def claimed_above() -> Above:
        return nodes.lower(1.0)  # type: ignore[return-value]

    def claimed_below() -> Below:
        return listed.upper(1.0)  # type: ignore[return-value]

    claimed_above()
    claimed_below()


SIDES: list[tuple[Callable[..., float], object]] = [
    (Nodes.upper, Above),
    (Nodes.lower, Below),
    (BlurredNodes.upper, Above),
    (BlurredNodes.lower, Below),
    (TiltedSum.excess_upper, Above),
    (TiltedSum.excess_lower, Below),
    (Direct.upper, Above),
    (Direct.lower, Below),
]


@pytest.mark.parametrize(("reading", "side"), SIDES)
def test_every_engine_says_from_which_side(reading: Callable[..., float], side: object) -> None:
    assert get_type_hints(reading)["return"] is side


def test_a_swap_is_seen_by_mypy_only() -> None:
    # At run time they are floats: nothing is wrapped where millions are read.
    assert [type(value) for value in (Above(0.25), Below(0.25))] == [float, float]
    assert Bounds.between(Below(0.5), Above(0.25)) == Bounds(0.25, 0.25)
