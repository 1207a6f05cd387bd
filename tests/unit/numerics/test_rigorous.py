"""Read-outs by ball arithmetic: against published truths, the fast enclosures, and each lemma against acb.integral."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import pytest

import tallystick as ts
from sweeps import share
from tallystick.accounting.bounds import Bounds
from tallystick.errors import NotComputable, Unavailable

flint = pytest.importorskip("flint")

from flint import acb, arb, ctx  # noqa: E402

from tallystick.numerics.rigorous import continuous, contour  # noqa: E402
from tallystick.numerics.rigorous.laws import BallLaw  # noqa: E402

gaussian, laplace = ts.gaussian, ts.laplace
PAIR = ([0.5, 0.25, 0.25], [0.25, 0.25, 0.5])
LOPSIDED = ([0.0009765625, 0.5, 0.4990234375], [0.0, 0.25, 0.75])

TRUTHS = {  # targets.md
    "W1": (10_000 * gaussian(sigma=1).sampled(rate=0.01), 1e-5, 6.18771239),
    "W3": (1000 * gaussian(sigma=2).sampled(rate=0.01), 1e-12, 1.1783036),
    "W4 at 1e-5": (100 * gaussian(sigma=10), 1e-5, 4.3771781),
    "W4 at 1e-30": (100 * gaussian(sigma=10), 1e-30, 11.743883),
    "W8": (1000 * ts.randomized_response(epsilon=0.1), 1e-6, 19.3446714),
    "W10": (50 * gaussian(sigma=0.3), 1e-5, 377.383456),
}

AT_DELTA: list[tuple[ts.PrivacyLoss, float]] = [
    (gaussian(sigma=2), 1e-100),
    (ts.gdp(mu=0.3) + 7 * gaussian(sigma=9), 1e-3),
    (laplace(scale=2), 1e-3),
    (5 * laplace(scale=3), 1e-6),
    (100_000 * laplace(scale=200), 1e-6),
    (1000 * laplace(scale=1).sampled(rate=0.05), 1e-6),
    (laplace(scale=1).sampled(rate=0.1), 1e-3),
    (ts.exponential(epsilon=1.0), 1e-3),
    (ts.exponential(epsilon=1.0).sampled(rate=0.1), 1e-3),
    (30 * ts.exponential(epsilon=0.5), 1e-6),
    (10 * ts.discrete_gaussian(sigma=4.0, sensitivity=2), 1e-6),
    (ts.discrete_gaussian(sigma=2.0).sampled(rate=0.1), 1e-5),
    (200 * ts.discrete_laplace(scale=9.0, sensitivity=3), 1e-10),
    (2000 * ts.discrete_laplace(scale=30.0, sensitivity=2), 1e-10),
    (ts.discrete_laplace(scale=3.0).sampled(rate=0.2), 1e-4),
    (1000 * ts.approx_dp(epsilon=0.1, delta=1e-9), 1e-5),
    (1000 * ts.approx_dp(epsilon=0.1, delta=1e-9), 1e-7),
    (3 * ts.approx_dp(epsilon=0.5, delta=1e-6).sampled(rate=0.3), 1e-4),
    (50 * ts.discrete_pair(*PAIR), 1e-6),
    (12 * ts.discrete_pair(*PAIR).sampled(rate=0.2), 1e-6),
    (20 * ts.discrete_pair(*LOPSIDED), 0.1),
    (1000 * ts.pure_dp(epsilon=1.0).sampled(rate=0.01), 1e-6),
    (100_000 * ts.randomized_response(epsilon=0.01, choices=5), 1e-6),
    (10 * gaussian(sigma=4) + 20 * ts.pure_dp(epsilon=0.1), 1e-6),
    (100 * gaussian(sigma=2).sampled(rate=0.05) + 3 * laplace(scale=2) + 5 * ts.pure_dp(epsilon=0.1), 1e-6),
    (gaussian(sigma=1).sampled(rate=0.3) + 5 * ts.pure_dp(epsilon=0.2), 1e-7),
    (40 * ts.pure_dp(epsilon=0.2) + 10 * ts.discrete_laplace(scale=4.0), 1e-6),
    (10 * ts.pure_dp(epsilon=0.5), 0.0),
]

AT_EPSILON: list[tuple[ts.PrivacyLoss, float]] = [
    (10_000 * gaussian(sigma=1).sampled(rate=0.01), 0.0),
    (gaussian(sigma=1), 20.0),
    (7 * laplace(scale=2), 1.0),
    (500 * ts.randomized_response(epsilon=0.1), 2.0),
    (3 * ts.exponential(epsilon=0.4), 0.5),
    (2 * gaussian(sigma=3) + ts.approx_dp(epsilon=0.1, delta=1e-5), 0.3),
]


def compatible(left: Bounds, right: Bounds) -> bool:
    return left.lower <= right.upper and right.lower <= left.upper


@pytest.mark.parametrize("name", share(TRUTHS, 3))
def test_published_truths_are_reproduced_and_another_value_is_not(name: str) -> None:
    loss, delta, truth = TRUTHS[name]
    proved = loss.epsilon_bounds(delta=delta, rigorous=True)
    assert proved.lower == pytest.approx(truth, rel=2e-8)
    assert proved.relative_width <= 1e-12
    for wrong in (proved.upper * (1 + 1e-11), proved.lower * (1 - 1e-11)):
        assert wrong not in proved
    assert not compatible(proved, Bounds(truth * 1.0001, truth * 1.001))


@pytest.mark.parametrize(("loss", "delta"), AT_DELTA, ids=[f"{loss} at {delta:g}" for loss, delta in AT_DELTA])
def test_epsilon_agrees_with_the_fast_enclosure(loss: ts.PrivacyLoss, delta: float) -> None:
    proved, fast = loss.epsilon_bounds(delta=delta, rigorous=True), loss.epsilon_bounds(delta=delta)
    assert compatible(proved, fast), (proved, fast)
    several = sum(count for _, count in loss.terms) > 1 and "exponential" in str(loss)
    assert several or proved.relative_width <= 1e-12
    assert several or loss.epsilon(delta=delta) >= proved.lower


@pytest.mark.parametrize(
    ("loss", "epsilon"), AT_EPSILON, ids=[f"{loss} at {epsilon:g}" for loss, epsilon in AT_EPSILON]
)
def test_delta_agrees_with_the_fast_enclosure(loss: ts.PrivacyLoss, epsilon: float) -> None:
    proved, fast = loss.delta_bounds(epsilon=epsilon, rigorous=True), loss.delta_bounds(epsilon=epsilon)
    assert compatible(proved, fast), (proved, fast)
    assert "exponential" in str(loss) or proved.relative_width <= 1e-12


def test_two_answers_of_randomized_response_are_the_fraction_they_should_be() -> None:
    """delta(0) of one answer is (e - 1) / (e + 1) at epsilon 1."""
    import math

    proved = ts.pure_dp(epsilon=1.0).delta_bounds(epsilon=0.0, rigorous=True)
    assert proved.lower <= math.tanh(0.5) <= proved.upper
    assert proved.upper - proved.lower <= 3e-16


def test_past_the_largest_loss_only_the_mass_at_infinity_is_left() -> None:
    long = 2000 * laplace(scale=20)
    assert long.delta_bounds(epsilon=101.0, rigorous=True) == Bounds(0.0, 0.0)
    leaky = 10 * ts.approx_dp(epsilon=0.5, delta=2.0**-20)
    proved = leaky.delta_bounds(epsilon=6.0, rigorous=True)
    assert proved.lower <= 1 - (1 - Fraction(1, 2**20)) ** 10 <= proved.upper
    assert 0 < proved.relative_width <= 4e-15  # a delta may have been rounded up, which from below is taken off


def test_what_is_not_covered_says_so() -> None:
    with pytest.raises(NotComputable, match="lattice points"):
        ts.discrete_gaussian(sigma=1e6).epsilon_bounds(delta=1e-6, rigorous=True)


def test_without_ball_arithmetic_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m.startswith("tallystick.") and "rigorous" in m]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(Unavailable, match=r"pip install '.\[rigorous\]'"):
        gaussian(sigma=1).epsilon_bounds(delta=1e-5, rigorous=True)


# --------------------------------------------------------------------------------------------------------------- lemmas


def laws() -> dict[str, tuple[BallLaw, Callable[[Any], Any]]]:
    """A law, and M(z) by adaptive rigorous integration of its definition."""
    q, mu, end = arb(0.125), arb(0.75), arb(2)
    one = arb(1)

    def line(power: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def value(z: Any) -> Any:
            def integrand(x: Any, _analytic: Any) -> Any:
                mixed = 1 - q + q * (mu * x - mu**2 / 2).exp()
                return (-x * x / 2 + power(z) * mixed.log()).exp()

            return acb.integral(integrand, -16, 20) / (2 * arb.pi()).sqrt()

        return value

    def interval(power: Callable[[Any], Any], sign: int) -> Callable[[Any], Any]:
        def value(z: Any) -> Any:
            def integrand(x: Any, _analytic: Any) -> Any:
                mixed = 1 - q + q * x.exp()
                return (-x / 2 + power(z) * mixed.log()).exp() * (-end / 2).exp() / 4

            ends = [(end, one / 2), (-end, (-end).exp() / 2)]
            total = acb.integral(integrand, -end, end)
            for loss, mass in ends:
                mixed = 1 - q + q * loss.exp()
                total += mass * (-loss).exp() * (acb(mixed).log() * power(z)).exp()
            return total

        return value

    def ahead(z: Any) -> Any:
        return 1 + z

    def back(z: Any) -> Any:
        return -z

    return {
        "Gaussian removed": (continuous.gaussian_law(mu, q, True), line(ahead)),
        "Gaussian added": (continuous.gaussian_law(mu, q, False), line(back)),
        "Laplace removed": (continuous.laplace_law(1 / end, q, True), interval(ahead, 1)),
        "Laplace added": (continuous.laplace_law(1 / end, q, False), interval(back, -1)),
    }


@pytest.mark.parametrize("name", laws())
def test_a_quadrature_contains_the_integral_and_its_error_is_small(name: str) -> None:
    rng = random.Random(name)
    with ctx.workprec(128):
        law, integral = laws()[name]
        assert law.points is not None
        for _ in range(4):
            tilt, frequency = rng.uniform(0.1, 6.0), rng.uniform(0.0, 30.0)
            found = law.points(tilt, frequency)
            z = acb(tilt, frequency)
            value = sum((mass * (z * loss).exp() for loss, mass in found.points), acb(0))
            # The tails of the line that acb.integral leaves out are below 1e-30 here.
            slack = float(found.error) + 1e-30
            difference = value - integral(z)
            assert float(abs(difference).lower()) <= slack
            assert slack <= 1e-25 * float(law.mgf(tilt))


@pytest.mark.parametrize("name", laws())
def test_the_decay_bound_is_above_the_characteristic_function(name: str) -> None:
    rng = random.Random(name)
    with ctx.workprec(96):
        law, integral = laws()[name]
        for _ in range(12):
            tilt, frequency = rng.uniform(0.1, 6.0), 10 ** rng.uniform(-1.0, 2.0)
            ratio = abs(integral(acb(tilt, frequency))) / law.mgf(tilt)
            bound = contour.decay(law, tilt, arb(frequency))
            assert ratio.lower() <= bound
            assert bound <= 1


def test_a_decay_bound_that_is_too_small_would_be_noticed() -> None:
    """The check above can fail: a tenth of the bound is below the function somewhere."""
    with ctx.workprec(96):
        law, integral = laws()["Gaussian removed"]
        ratios = [abs(integral(acb(1.0, t))) / law.mgf(1.0) for t in (0.5, 2.0, 8.0)]
        bounds = [contour.decay(law, 1.0, arb(t)) / 10 for t in (0.5, 2.0, 8.0)]
        assert any(ratio > bound for ratio, bound in zip(ratios, bounds, strict=True))


def worse_outcomes(p: list[float], q: list[float]) -> list[tuple[Fraction, Fraction]]:
    """The pair behind the larger of H(P||Q) and H(Q||P), read off its values at all levels where it bends."""
    there = [(Fraction(own), Fraction(other)) for own, other in zip(p, q, strict=True)]
    back = [(other, own) for own, other in there]

    def hockey(pairs: list[tuple[Fraction, Fraction]], a: Fraction) -> Fraction:
        return sum((max(Fraction(0), own - a * other) for own, other in pairs), Fraction(0))

    levels = sorted({own / other for own, other in there + back if own > other} | {Fraction(1)})
    for low, high in list(pairwise(levels)):
        start, end = (hockey(there, a) - hockey(back, a) for a in (low, high))
        if start * end < 0:
            levels.append(low + (high - low) * start / (start - end))
    levels = sorted(levels)
    heights = [max(hockey(there, a), hockey(back, a)) for a in levels]
    slopes = [(h - g) / (b - a) for (a, b), (g, h) in zip(pairwise(levels), pairwise(heights), strict=True)]
    kinks = [(a * (t - s), t - s) for a, s, t in zip(levels[1:], slopes, [*slopes[1:], Fraction(0)], strict=True)]
    centre = 1 - sum((own + other for own, other in kinks), Fraction(0))
    outcomes = [*kinks, *((other, own) for own, other in kinks), (centre, centre)]
    return [(own, other) for own, other in outcomes if own]


def test_a_pair_whose_orders_cross_is_taken_exactly() -> None:
    """The crossing was rounded up and then proved from below: one unit above the truth."""
    p, q = [0.125, 0.328125, 0.546875], [0.03125, 0.515625, 0.453125]
    loss = gaussian(sigma=0.5, adjacency="replace") + ts.discrete_pair(p, q, adjacency="replace")
    found = loss.delta_bounds(epsilon=1.0, rigorous=True)
    with mpmath.workdps(40):
        truth = mpmath.mpf(0)
        for own, other in worse_outcomes(p, q):
            # Each outcome leaves the Gaussian of mu = 2 its own threshold.
            left = 1 - mpmath.log(mpmath.mpf(own.numerator) * other.denominator / own.denominator / other.numerator)
            mass = mpmath.mpf(own.numerator) / own.denominator
            truth += mass * (mpmath.ncdf(1 - left / 2) - mpmath.exp(left) * mpmath.ncdf(-1 - left / 2))
        assert found.lower <= truth <= found.upper
    assert found.width <= 2e-16
