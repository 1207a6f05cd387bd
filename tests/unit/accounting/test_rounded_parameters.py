"""Parameters that a constructor had to round: the loss is a little too large then, and no proof from below is of it."""

from fractions import Fraction

import mpmath as mp
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput

pytest.importorskip("flint")


def number(value) -> mp.mpf:
    exact = Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator


def sampled_gaussian(shift, rate, epsilon: float) -> mp.mpf:
    """delta of removing, from the definition: x > t is the best event of 1 - q + q e^{mu x - mu^2/2} > e^epsilon."""
    mu, q, e = number(shift), number(rate), mp.exp(number(epsilon))
    t = mp.log((e - 1 + q) / q) / mu + mu / 2
    return q * mp.ncdf(mu - t) - (e - 1 + q) * mp.ncdf(-t)


def holds(loss: ts.PrivacyLoss, epsilon: float, truth: mp.mpf) -> bool:
    bounds = loss.delta_bounds(epsilon=epsilon, rigorous=True)
    assert bounds.upper - bounds.lower <= 1e-12 * bounds.upper
    return bool(number(bounds.lower) <= truth <= number(bounds.upper))


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


def test_a_mixture_of_one_part_is_a_gaussian_whose_sigma_was_rounded():
    noise, shift, chances = 0.05523895376562745, 0.16571686129688235, [0.9999999999990905, 9.094947017729282e-13]
    loss = ts.gaussian_mixture(sigma=noise, sensitivities=[0.0, shift], probabilities=chances).sampled(rate=0.5)
    truth = sampled_gaussian(Fraction(shift) / Fraction(noise), Fraction(chances[1]) / 2, 1e-9)
    assert mp.almosteq(truth, mp.mpf("4.1200907887762834366e-14"), rel_eps=1e-19)
    assert holds(loss, 1e-9, truth)
    assert holds(loss + ts.no_loss(), 1e-9, truth)


@pytest.mark.parametrize(("first", "second"), [(0.763774618976614, 0.2550690257394217), (0.1, 0.1), (0.3, 0.7)])
def test_a_sample_of_a_sample_has_a_rate_that_was_rounded(first, second):
    step = ts.gaussian(sigma=1)
    twice = step.sampled(rate=first).sampled(rate=second)
    rate = Fraction(first) * Fraction(second)
    assert holds(twice, 0.25, sampled_gaussian(1, rate, 0.25))
    # What is written is meant as it stands; of a sum of both the rounded one stays.
    written = ts.PrivacyLoss.from_json(twice.to_json())
    assert written == twice
    assert "rounded" not in twice.to_json() + str(twice)
    assert not written.terms[0][0].rounded_up
    for both in (written + twice, twice + written):
        assert both == 2 * written
        assert both.terms[0][0].rounded_up


def test_replacing_in_a_sample_of_a_sample_keeps_what_was_rounded():
    twice = ts.gaussian(sigma=1).sampled(rate=0.1).sampled(rate=0.1).as_replace()
    written = ts.PrivacyLoss.from_json(twice.to_json())
    assert written == twice
    lower = [loss.delta_bounds(epsilon=0.1, rigorous=True).lower for loss in (twice, written)]
    assert lower[0] < lower[1]


@pytest.mark.parametrize("scales", [(1.9069395045058481, 1.9177065838382221), (1.159467730757831, 1.7660278587973122)])
def test_sparse_vector_has_an_epsilon_that_was_rounded(scales):
    loss = ts.sparse_vector(threshold_scale=scales[0], answer_scale=scales[1])
    epsilon = number(1 / Fraction(scales[0]) + 2 / Fraction(scales[1]))
    assert holds(loss, 0.0, mp.tanh(epsilon / 2))
    assert holds(loss.as_replace(), 0.0, mp.tanh(epsilon))


@pytest.mark.parametrize("cut", ["anyhow", "ranked", "random"])
def test_a_cut_sample_of_a_sample_and_a_sample_of_a_cut_one_have_both_rates(cut):
    """Proofs from below were of one of the two rates: 0.0184 for 0.0052."""
    rare = {"largest": 200, "population": 210, "cut": cut}
    truth = sampled_gaussian(1, Fraction(0.1) * Fraction(0.5), 0.1)
    step = ts.gaussian(sigma=1)
    assert step.sampled(rate=0.1).sampled(rate=0.5, **rare).delta_bounds(epsilon=0.1, rigorous=True).lower <= truth
    assert step.sampled(rate=0.5, **rare).sampled(rate=0.1).delta_bounds(epsilon=0.1, rigorous=True).lower <= truth


def test_rates_too_small_for_doubles_are_refused_instead_of_raised():
    """They were read as 1e-300, and lower ends with them."""
    step = ts.pure_dp(epsilon=1)
    for ask in (
        lambda: step.sampled(rate=1e-302),
        lambda: step.sampled(rate=1e-200).sampled(rate=1e-150),
        lambda: step.sampled(rate=1e-302, largest=1, population=10, cut="anyhow"),
    ):
        with pytest.raises(InvalidInput, match="rate"):
            ask()
