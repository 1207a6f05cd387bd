"""Numbers with their certainty: balls of python-flint at 256 bits, and the few comparisons a judge needs.

A comparison of balls is true only when it is certain, so "claimed < truth" is a conviction and its negation is not an
acquittal.  Infinity is Python's None or float infinity, never a ball.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

BITS, AMBIENT = 256, 53


def with_full_precision() -> None:
    """flint's precision is one number for the whole process, and others set it too."""
    ctx.prec = BITS


def with_usual_precision() -> None:
    """What a user of flint has: the accountant must not lean on the referee's."""
    ctx.prec = AMBIENT


with_full_precision()
ZERO, ONE = arb(0), arb(1)


def ball(number: Any) -> arb:
    """The exact value of a double, an integer, a fraction, or the decimal that a text spells."""
    if isinstance(number, arb):
        return number
    if isinstance(number, Fraction):
        return arb(fmpq(number.numerator, number.denominator))
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError("a ball is finite")
    return arb(number)


def joined(one: arb, other: arb) -> arb:
    """The smallest ball around both."""
    return one.union(other)


def largest(balls: list[arb]) -> arb:
    """An enclosure of the maximum."""
    most = balls[0]
    for other in balls[1:]:
        most = most.max(other)
    return most


def least(balls: list[arb]) -> arb:
    """An enclosure of the minimum."""
    few = balls[0]
    for other in balls[1:]:
        few = few.min(other)
    return few


def at_least_zero(mass: arb) -> arb:
    """A mass is not negative; one that cannot be told from zero stays a ball, and is not called nothing."""
    if mass > 0 or mass.is_zero():
        return mass
    return ZERO if mass <= 0 else joined(ZERO, mass.upper())


def within(ball_: arb, relative: float, absolute: float = 0.0) -> arb:
    """The ball widened by an error estimate that is not the ball's own."""
    margin = (ball_.abs_upper() * arb(relative) + arb(absolute)).upper()
    return ball_ + arb(0, margin)


def normal_tail(x: arb) -> arb:
    """P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def near(ball_: arb) -> float:
    """The nearest double of the middle, for searching, sorting and printing."""
    return float(ball_.mid())


def below_float(ball_: arb) -> float:
    """A double that is at most everything in the ball."""
    return math.nextafter(float(ball_.lower()), -math.inf)


def above_float(ball_: arb) -> float:
    """A double that is at least everything in the ball."""
    return math.nextafter(float(ball_.upper()), math.inf)
