"""Values of dp_accounting's own test suite (its repository at b5b0286) that could not be written before.

Each row names its test. Theirs are upper bounds: ours may be smaller, never below what is true, and where it is larger
the row says why. Mixtures of Gaussians are in test_mixture.py. Not written, because they are not about privacy but
about its parts there: probabilities on a grid of step 1, tails and inverses of one mechanism's loss at a point, and
helpers that turn a mean number of runs into a parameter.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.dp_events import from_dp_accounting
from tallystick.accounting.leaves.selected import mean_runs


def gaussian(sigma: float) -> dict[str, Any]:
    return {"class_name": "GaussianDpEvent", "noise_multiplier": sigma}


def laplace(scale: float) -> dict[str, Any]:
    return {"class_name": "LaplaceDpEvent", "noise_multiplier": scale}


def best(event: dict[str, Any], mean: float, shape: float | str) -> ts.PrivacyLoss:
    return from_dp_accounting({"class_name": "RepeatAndSelectDpEvent", "event": event, "mean": mean, "shape": shape})


def tree(sigma: float, steps: int | list[int]) -> ts.PrivacyLoss:
    event = {"class_name": "SingleEpochTreeAggregationDpEvent", "noise_multiplier": sigma, "step_counts": steps}
    return from_dp_accounting(event, adjacency="replace_special")


def cut(people: int, rate: float, largest: int) -> ts.PrivacyLoss:
    event = {"class_name": "TruncatedSubsampledGaussianDpEvent", "dataset_size": people, "sampling_probability": rate,
             "truncated_batch_size": largest, "noise_multiplier": 1.0}  # fmt: skip
    return from_dp_accounting(event)


# ---- rdp_privacy_accountant_test: the best of several runs ----


@pytest.mark.parametrize(("mean", "shape"), [(1000, 0), (1000, 1), (1000, 0.5), (100, 2), (1000, 5)])
def test_repeat_select_pure_negative_binomial(mean: float, shape: float) -> None:
    loss = best(laplace(1.0), mean, shape)
    for found in (loss.epsilon(delta=1e-10), loss.renyi(order=1e10)):
        assert 1.0 <= found <= (2 + shape) * (1 + 1e-6)
    assert loss.epsilon(delta=1e-10) > 0.95 * (2 + shape)


@pytest.mark.parametrize(("shape", "sigma"), [(0, 1), (0.5, 10), (1, 0.1), (2, 1)])
def test_repeat_select_trivial(shape: float, sigma: float) -> None:
    for order in (1.5, 2, 5, 10, 32, 128, 1024):
        assert best(gaussian(sigma), 1, shape).renyi(order=order) == pytest.approx(order / (2 * sigma**2), rel=1e-9)


@pytest.mark.parametrize(("rho", "gamma"), [(0.01, 0.01), (1, 0.1), (-math.log(0.99), 0.99)])
@pytest.mark.parametrize("shape", [0, 0.5, 1, 5])
def test_repeat_select_gaussian_negative_binomial(rho: float, gamma: float, shape: float) -> None:
    """Corollary 4 of Papernot and Steinke 2022; a single run is the least that any score leaves."""
    mean, left = mean_runs(shape, gamma), math.log(1 / gamma)
    loss = best(gaussian(math.sqrt(0.5 / rho)), mean, shape)
    turn = 1 + math.sqrt(math.log(mean) / rho)
    for order in (1.1, 2, math.sqrt(left / rho), turn, 3, 5, 10, 100, 1000, 10_000):
        if order > 1:
            theta = max(order, turn) - 1
            theirs = rho * theta + math.log(mean) / theta + 2 * (1 + shape) * math.sqrt(rho * left) - shape * rho
            assert rho * order * (1 - 1e-9) <= loss.renyi(order=order) <= theirs * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "mean"), [(1, 1), (0.1, 2), (10, 10), (0.001, 100), (2, 1000)])
def test_repeat_and_select_pure_poisson(epsilon: float, mean: float) -> None:
    """The sixth, a mean of 1e10 runs, is refused: we go to a million."""
    order = 1 + 1 / math.expm1(epsilon)
    one = epsilon + math.log1p(math.expm1((1 - 2 * order) * epsilon) * (order - 1) / (2 * order - 1)) / (order - 1)
    loss = best(laplace(1 / epsilon), mean, "inf")
    assert loss.renyi(order=order) <= (one + math.log(mean) * math.expm1(epsilon)) * (1 + 1e-6)
    assert loss.renyi(order=order) > -math.expm1(-mean) * one * 0.9


@pytest.mark.parametrize("sigma", [0.001, 1, 1000])
@pytest.mark.parametrize("mean", [1, 1000])
def test_repeat_and_select_gaussian_poisson(sigma: float, mean: float) -> None:
    """Means of 1e9 runs are refused: we go to a million."""
    orders = [1 + x / 10 for x in range(1, 100, 7)] + [12, 20, 40, 63, 128, 512, 1024]
    forms = []
    for order in orders:
        ratio = math.log1p(1 / (order - 1))
        x, y = ((ratio * sigma + half / sigma) / math.sqrt(2) for half in (-0.5, 0.5))
        delta = math.erfc(x) / 2 - math.exp(ratio) * math.erfc(y) / 2
        forms.append(order * 0.5 / sigma**2 + mean * delta + math.log(mean) / (order - 1))
    loss = best(gaussian(sigma), mean, "inf")
    for at, order in enumerate(orders):
        assert loss.renyi(order=order) <= min(forms[at:]) * (1 + 1e-6)


# ---- rdp_privacy_accountant_test: trees ----


@pytest.mark.parametrize(("sigma", "theirs"), [(1.13, 19.74), (8.83, 2.04), (1.13, 18.709610), (8.83, 1.773193)])
def test_compute_eps_tree(sigma: float, theirs: float) -> None:
    """1600 steps, delta 1e-6: what their test allows, and what their accountant says; ours is exact."""
    found = tree(sigma, 1600).epsilon(delta=1e-6)
    assert found <= theirs
    assert found == pytest.approx(ts.gdp(mu=math.sqrt(11) / sigma).epsilon(delta=1e-6), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "theirs"), [([400] * 4, 1800.0), ([800] * 2, 1000.0), ([10, 400, 400, 400, 390], 2000.0)]
)
def test_compose_tree_rdp(counts: list[int], theirs: float) -> None:
    """The mean loss at noise .1. Theirs at order 1 is that of a Gaussian at order 1, and so is ours."""
    total = ts.no_loss()
    for steps in counts:
        total = total + tree(0.1, steps)
    assert total.renyi(order=1) == pytest.approx(theirs, rel=1e-9)
    epsilons = []
    for sigma in (0.1, 1.1, 4.1, 9.6):  # test_compute_eps_tree_decreasing
        total = ts.no_loss()
        for steps in counts:
            total = total + tree(sigma, steps)
        epsilons.append(total.epsilon(delta=1e-6))
    assert epsilons == sorted(epsilons, reverse=True)


def test_trees_of_one_epoch_cost_the_highest_and_trees_of_one_step_are_gaussians() -> None:
    """test_single_epoch_multi_tree_rdp and test_no_tree_no_sampling."""
    assert tree(0.1, [10, 40, 30, 20]).renyi(order=1) == pytest.approx(300.0, rel=1e-9)
    for steps, sigma in ((100, 0.1), (1000, 0.01)):
        assert steps * tree(sigma, 1) == steps * ts.gaussian(sigma=sigma)


@pytest.mark.parametrize(("sigma", "steps"), [(-1, [3]), (1, [-3])])
def test_compute_rdp_tree_restart_raise(sigma: float, steps: list[int]) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        tree(sigma, steps)


# ---- rdp_privacy_accountant_test: zCDP ----


def test_compute_rdp_multi_zcdp() -> None:
    events = [{"class_name": "ZCDpEvent", "rho": rho, "xi": xi} for rho, xi in ((2.71828, 3.14159), (6.28319, 1.23456))]
    loss = from_dp_accounting({"class_name": "ComposedDpEvent", "events": events})
    assert loss.renyi(order=2) == pytest.approx(3.14159 + 1.23456 + 2 * (2.71828 + 6.28319), rel=1e-9)


@pytest.mark.parametrize(
    ("order", "theirs"),
    [
        (1.5, 0.000670579740668356),
        (2.5, 0.0010854871043885562),
        (5, 0.0021807565623080077),
        (50, 0.023846037538707728),
        (100, 167.41630754841827),
    ],
)
def test_poisson_sampled_zcdp_and_discrete_gaussian(order: float, theirs: float) -> None:
    """50 samples at .01, sigma 2.5; a Gaussian is one such mechanism, and for it theirs is up to 3 % high."""
    least = (50 * ts.gaussian(sigma=2.5).sampled(rate=0.01)).renyi(order=order)
    for inside in ({"class_name": "ZCDpEvent", "rho": 0.08}, {"class_name": "DiscreteGaussianDpEvent", "sigma": 2.5}):
        event = {"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": inside}
        found = (50 * from_dp_accounting(event)).renyi(order=order)
        assert least * (1 - 1e-9) <= found <= theirs * (1 + 1e-8)


# ---- privacy_loss_distribution_test and pld_privacy_accountant_test: truncated batches ----


def test_truncated_gaussian_matches_gaussian() -> None:
    """Where each record takes part the cut is a subset without replacement, and a cut that never comes is none."""
    subset = ts.gaussian(sigma=0.5, adjacency="replace").subset(batch=100, population=1000)
    sampled = ts.gaussian(sigma=1).sampled(rate=0.1)
    for epsilon in (0.1, 1.0, 3.0):
        assert cut(1000, 1.0, 100).delta(epsilon=epsilon) == pytest.approx(subset.delta(epsilon=epsilon), rel=1e-6)
        assert cut(1000, 0.1, 1000).delta(epsilon=epsilon) == pytest.approx(sampled.delta(epsilon=epsilon), rel=1e-6)


def test_truncated_subsampled_gaussian_basic() -> None:
    """Ours covers data sets of one record more as well, and for so few records (4 and 3) that is a tenth; at 1000
    records it is the smaller one (test_truncated.py)."""
    theirs = 17.904330
    assert theirs <= (3 * cut(4, 0.5, 2) + 2 * cut(3, 0.5, 2)).epsilon(delta=1e-6) <= 1.1 * theirs
