"""Errata 5, 6, 28, 32, 33 and 50: the privacy loss variable as printed returns perfect privacy, or nonsense."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from scipy.integrate import quad

import tallystick as ts
import tallystick.theorems as theorems
from tallystick.theorems import DiscreteLoss, PiecewiseTradeoff
from tallystick.theorems.normal import cdf, quantile
from unit.theorems.brute import hockey

MU = 1.0


def loss_cdf(x):
    """F = G = cdf of N(mu^2/2, mu^2), the loss of a Gaussian pair."""
    return cdf((x - MU * MU / 2) / MU)


def loss_quantile(a):
    return MU * MU / 2 + MU * quantile(a)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_erratum_5_the_printed_corollary_14_1_returns_perfect_privacy(alpha):
    truth = cdf(quantile(1 - alpha) - MU)
    printed = loss_cdf(loss_quantile(1 - alpha))
    assert printed == pytest.approx(1 - alpha)
    assert printed > truth + 0.1
    found = theorems.tradeoff_of_loss_cdfs(loss_quantile, loss_cdf, alpha=alpha)
    assert found == pytest.approx(truth, rel=1e-9)
    assert ts.gdp(mu=MU).tradeoff(alpha=alpha) <= truth * (1 + 1e-12)


def test_erratum_5_the_printed_lemma_14_has_mass_above_one():
    def density(t):
        return math.exp(-((t - MU * MU / 2) ** 2) / (2 * MU * MU)) / (MU * math.sqrt(2 * math.pi))

    printed = quad(lambda t: math.exp(t) * density(t), -20, 25)[0]
    assert printed == pytest.approx(math.e, rel=1e-6)
    loss = DiscreteLoss.of_pair([0.75, 0.25], [0.25, 0.75])
    assert loss.reversed_cdf(10.0) == pytest.approx(1.0)
    assert sum(m * math.exp(t) for t, m in zip(loss.losses, loss.masses, strict=True)) > 2.3  # printed, same pair


def test_erratum_5_the_printed_lemma_15_reads_the_wrong_slope():
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    f = PiecewiseTradeoff.of_pair(p, q)
    x = 0.5  # between the losses 0 and log 6
    truth = float(p[np.log(p / q) <= x].sum())
    steep = [
        a for a, b, c in zip(f.alphas[1:], np.diff(f.betas), np.diff(f.alphas), strict=True) if -b >= math.exp(x) * c
    ]
    printed = 1 - max(steep, default=0.0)
    assert printed > truth + 0.2
    assert theorems.loss_cdf_of_tradeoff(f, x=x) == pytest.approx(truth)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_erratum_6_the_printed_delta_is_too_small(epsilon):
    printed = 1 - math.exp(epsilon) + math.exp(epsilon) * loss_cdf(epsilon)
    truth = theorems.gdp_delta(mu=MU, epsilon=epsilon)
    assert printed < truth - 0.05
    found = theorems.delta_of_loss_cdfs(loss_cdf, loss_cdf, epsilon=epsilon)
    assert found == pytest.approx(truth, rel=1e-9)
    assert found >= truth * (1 - 1e-11)  # `truth` is itself rounded up


def test_erratum_6_atoms_need_the_left_limit():
    p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    loss, back = DiscreteLoss.of_pair(p, q), DiscreteLoss.of_pair(q, p)
    for epsilon in (0.0, 0.5, math.log(3), 2.0):
        found = theorems.delta_of_loss_cdfs(loss.cdf, back.cdf_left, epsilon=epsilon)
        assert found == pytest.approx(hockey(p, q, epsilon), abs=1e-12)


def test_erratum_28_the_likelihood_ratio_is_e_to_the_plus_loss():
    p, q = np.array([0.6, 0.4]), np.array([0.3, 0.7])
    losses = np.log(p / q)
    right = float(np.sum(q * np.maximum(np.exp(losses) - 1.0, 0.0)))
    printed = float(np.sum(q * np.maximum(np.exp(-losses) - 1.0, 0.0)))
    assert right == pytest.approx(theorems.hockey_stick(p, q, epsilon=0.0))
    assert printed != pytest.approx(right, rel=0.05)


def test_erratum_32_the_printed_sign_turns_the_loss_around():
    loss = DiscreteLoss.of_pair([0.9, 0.1], [0.5, 0.5])
    t = 0.7
    printed = sum(m * cmath.exp(-1j * t * x) for x, m in zip(loss.losses, loss.masses, strict=True))
    assert printed == pytest.approx(loss.characteristic_function(t).conjugate())
    # the derivative at 0 is i E[L] = i KL > 0; the printed sign gives a negative mean
    step = 1e-6
    mean = (loss.characteristic_function(step) / 1j / step).real
    assert mean == pytest.approx(theorems.tradeoff_to_kl(PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])), rel=1e-4)


def test_erratum_33_the_pair_of_a_function_has_density_minus_its_slope():
    f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0, delta=0.1)
    printed_mass = quad(lambda x: float(f(1 - x)), 0, 1)[0] + (1 - f.betas[0])
    assert printed_mass < 0.6  # "density f(1 - x)" is not a probability
    assert f.pair()[1].sum() == pytest.approx(1.0)
    again = PiecewiseTradeoff.of_pair(*f.pair())
    assert np.allclose(again(np.linspace(0, 1, 21)), f(np.linspace(0, 1, 21)))


def test_erratum_50_mass_that_the_other_law_does_not_have_is_not_lost():
    p, q, epsilon = np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.7
    shown = q > 0
    printed = float(np.sum(q[shown] * np.maximum(p[shown] / q[shown] - math.exp(epsilon), 0.0)))
    assert printed == 0.0
    assert theorems.hockey_stick(p, q, epsilon=epsilon) == pytest.approx(0.5)
