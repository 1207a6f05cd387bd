"""A mu that was computed and rounded up says nothing from below: lower ends are of one that was rounded down."""

from __future__ import annotations

from fractions import Fraction

import pytest
from mpmath import mp, mpf

import tallystick as ts

C, SIGMA, TAIL, STEPS = 0.75, 1.3, 4, 9


def _walk() -> tuple[ts.PrivacyLoss, mpf]:
    """The walk's mu in fractions: what the drift of STEPS - TAIL steps leaves, over the noise of the tail."""
    c, drift = Fraction(C), sum((Fraction(C) ** k for k in range(STEPS - TAIL)), Fraction(0))
    square = (drift * c**TAIL) ** 2 / (Fraction(SIGMA) ** 2 * sum(c ** (2 * k) for k in range(TAIL)))
    return ts.shift_walk(tail=TAIL, steps=STEPS, contraction=C, sigma=SIGMA), _root(square)


def _band() -> tuple[ts.PrivacyLoss, mpf]:
    """Three uses of a band of two that do not overlap: the sensitivity is the root of three times the squares."""
    loss = ts.correlated(sigma=SIGMA, steps=9, coefficients=[1.0, 0.3], uses=3, separation=3)
    return loss, _root(3 * (1 + Fraction(0.3) ** 2) / Fraction(SIGMA) ** 2)


def _last() -> tuple[ts.PrivacyLoss, mpf]:
    """A record in every step: all shifts are hidden at once, mu^2 = (sum of c^k)^2 / (sigma^2 sum of c^2k)."""
    c = Fraction(C)
    square = sum(c**k for k in range(6)) ** 2 / (Fraction(SIGMA) ** 2 * sum(c ** (2 * k) for k in range(6)))
    return ts.last_iterate(steps=6, contraction=C, sigma=SIGMA), _root(square)


def _root(square: Fraction) -> mpf:
    with mp.workdps(60):
        return mp.sqrt(mpf(square.numerator) / square.denominator)


def _delta(mu: mpf, epsilon: mpf) -> mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("made", [_walk, _band, _last])
@pytest.mark.parametrize("rigorous", [False, True])
def test_both_ends_enclose_the_mu_that_is_proved(made: object, rigorous: bool) -> None:
    if rigorous:
        pytest.importorskip("flint")
    loss, mu = made()  # type: ignore[operator]
    with mp.workdps(60):
        for epsilon in (0.0, 0.5, 2.0):
            e, rate = mpf(epsilon), mpf(0.125)
            there = mp.log1p(mp.expm1(e) / rate)
            cases = [
                (loss, _delta(mu, e)),
                (4 * loss, _delta(2 * mu, e)),
                (loss.for_groups(3), _delta(3 * mu, e)),
                (loss.sampled(rate=0.125), rate * _delta(mu, there)),  # removing is never less than adding
            ]
            for one, truth in cases:
                found = one.delta_bounds(epsilon=epsilon, rigorous=rigorous)
                assert mpf(found.lower) <= truth <= mpf(found.upper)
                assert found.upper - found.lower <= 1e-7 * found.upper


@pytest.mark.parametrize("made", [_walk, _last])
def test_no_lower_end_is_above_a_certificate(made: object) -> None:
    pytest.importorskip("flint")
    loss, _ = made()  # type: ignore[operator]
    for one in (loss, loss + ts.laplace(scale=2.0)):
        assert one.epsilon_bounds(delta=1e-6).lower <= one.certificate(delta=1e-6).epsilon
