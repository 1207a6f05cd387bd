"""The transfer theorem against mechanisms small enough to compute every posterior, and its noise against simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import tallystick as ts
from tallystick.accounting.generalization import (
    approx_deviation,
    curve_deviation,
    deviation,
    gaussian_answers_error,
    laplace_mean_tail,
    loss_deviation,
    normal_mean_tail,
    transfer_error,
)
from tallystick.errors import InvalidInput


def concave_hull(points: np.ndarray) -> np.ndarray:
    kept: list[tuple[float, float]] = []
    for x, y in sorted(map(tuple, points), key=lambda p: (p[0], -p[1])):
        if kept and x == kept[-1][0]:
            continue
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (x - kept[-2][0]) <= (y - kept[-2][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((x, y))
    return np.array(kept)


def worst_curve(mechanism: np.ndarray) -> np.ndarray:
    """The least concave g above all pairs of inputs (in both orders, so that it is symmetric)."""
    points = []
    for p, q in itertools.permutations(mechanism, 2):
        order = np.argsort(-(p / q))
        points += list(zip(np.r_[0, np.cumsum(q[order])], np.r_[0, np.cumsum(p[order])], strict=True))
    return concave_hull(np.array(points))


def deviations(mechanism: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every output of one record's mechanism: its probability, and the worst query's posterior less prior mean."""
    outputs = prior @ mechanism
    posterior = prior[:, None] * mechanism / outputs
    return outputs, 0.5 * np.abs(posterior - prior[:, None]).sum(axis=0)


def violations(scale: float, seed: int, cases: int) -> int:
    """How often Pr[deviation > scale * t] > a."""
    random, found = np.random.default_rng(seed), 0
    for _ in range(cases):
        inputs, outputs = random.integers(2, 5), random.integers(2, 7)
        mechanism = np.exp(random.choice([0.05, 0.3, 1.0, 3.0]) * random.normal(size=(inputs, outputs)))
        mechanism *= random.dirichlet(np.ones(outputs)) + 1e-6
        mechanism /= mechanism.sum(axis=1, keepdims=True)
        curve = worst_curve(mechanism)
        masses, far = deviations(mechanism, random.dirichlet(np.ones(inputs) * random.choice([0.5, 1, 10])))
        for failure in (0.01, 0.1, 0.3, 0.7):
            t = deviation(lambda y, c=curve: float(np.interp(y, c[:, 0], c[:, 1])) * (1 + 1e-12), failure)
            found += masses[far > scale * t].sum() > failure
    return found


def test_no_random_mechanism_deviates_more_often_than_the_theorem_says():
    assert violations(1.0, seed=1, cases=250) == 0


def test_half_the_deviation_is_refuted_by_some_mechanism():
    assert violations(0.5, seed=1, cases=250) > 0


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_pure_privacy_attains_the_bound(epsilon):
    truth, prior = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon / 2))
    mechanism = np.array([[truth, 1 - truth], [1 - truth, truth]])
    _, far = deviations(mechanism, np.array([prior, 1 - prior]))
    bound = approx_deviation(epsilon=epsilon, delta=0.0, failure=1e-9)
    assert far.max() <= bound
    assert far.max() == pytest.approx(bound, rel=1e-9)
    assert bound == pytest.approx(math.tanh(epsilon / 4), rel=1e-9)


def test_one_gaussian_answer_about_one_record_exactly():
    # a coin, answered once with noise 1/mu: the posterior mean is off by tanh(|log odds|/2)/2
    for mu, prior in itertools.product((0.1, 0.5, 1.5), (0.5, 0.2)):
        x = np.linspace(-12, 12 + mu, 400_001)
        density = [np.exp(-((x - shift) ** 2) / 2) / math.sqrt(2 * math.pi) for shift in (0, mu)]
        whole = (1 - prior) * density[0] + prior * density[1]
        far = np.abs(prior * density[1] / whole - prior)
        for failure in (0.5, 0.05, 1e-3):
            t = curve_deviation(mu=mu, failure=failure)
            assert float(whole[far > t].sum() * (x[1] - x[0])) <= failure


def test_several_records_and_adaptive_queries_by_enumeration():
    # two records, two randomized answers; the second question depends on the first answer
    keep = 0.7
    for prior in (0.5, 0.3):
        table: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for sample in itertools.product((0, 1), repeat=2):
            weight = math.prod(prior if x else 1 - prior for x in sample)
            for outputs in itertools.product((0, 1), repeat=2):
                asked = sample[0], sample[1] if outputs[0] else sample[0]
                chance = math.prod(keep if said == bit else 1 - keep for said, bit in zip(outputs, asked, strict=True))
                table.setdefault(outputs, []).append((weight * chance, sum(sample) / 2))
        epsilon = 2 * math.log(keep / (1 - keep))
        for rows in table.values():
            total = sum(w for w, _ in rows)
            assert abs(sum(w * mean for w, mean in rows) / total - prior) <= math.tanh(epsilon / 4) + 1e-12


def test_the_accountant_gives_what_the_closed_form_gives():
    loss = 100 * ts.gaussian(sigma=100, adjacency="replace")
    assert loss_deviation(loss, failure=0.02) == pytest.approx(curve_deviation(mu=0.1, failure=0.02), rel=1e-6)
    pure = ts.pure_dp(epsilon=0.4, adjacency="replace")
    assert loss_deviation(pure, failure=0.02) == pytest.approx(math.tanh(0.1), rel=1e-6)
    approx = ts.approx_dp(epsilon=0.1, delta=1e-4, adjacency="replace")
    assert loss_deviation(approx, failure=0.05) == pytest.approx(
        approx_deviation(epsilon=0.1, delta=1e-4, failure=0.05), rel=1e-4
    )


def test_a_loss_about_another_neighbour_is_refused():
    with pytest.raises(InvalidInput, match="replace"):
        loss_deviation(ts.gaussian(sigma=10), failure=0.05)


def test_the_older_forms_are_larger():
    for mu, failure in itertools.product((0.01, 0.1, 0.5), (0.05, 0.001)):
        one_sided = ndtr(ndtri(failure) + mu) / failure - 1
        assert curve_deviation(mu=mu, failure=failure) < one_sided / 2
    for epsilon, delta, failure in itertools.product((0.0, 0.05, 0.5), (0.0, 1e-5, 1e-3), (0.05, 0.01)):
        jung = math.expm1(epsilon) + 2 * delta / failure
        assert approx_deviation(epsilon=epsilon, delta=delta, failure=failure) <= jung * (1 + 1e-9)
        assert (
            transfer_error(accuracy=0.1, slack=0.01, epsilon=epsilon, delta=delta, failure=failure)
            <= 0.11 + jung + 1e-9
        )


def test_the_mean_of_a_tail_is_what_a_conditional_mean_needs():
    # Given only "Z > z or not" the conditional mean is x(p) with probability p: the bound is attained.
    random = np.random.default_rng(2)
    for tail, draws in ((normal_mean_tail, random.normal(size=10**6)), (laplace_mean_tail, random.laplace(size=10**6))):
        for p in (0.3, 0.05, 0.01):
            above = np.sort(draws)[-round(p * 10**6) :]
            assert above.mean() == pytest.approx(tail(failure=p), rel=0.01)
        assert tail(failure=0.05) > np.quantile(draws, 0.95)  # the quantile alone is not enough


def test_lattice_noise_is_hardly_further_out():
    steps, p = 2.0**10, 0.01
    k = np.arange(-60 * 2**10, 60 * 2**10 + 1)
    gauss = np.exp(-((k / steps) ** 2) / 2)
    laplace = np.exp(-np.abs(k) / steps)
    for weights, tail in ((gauss, normal_mean_tail), (laplace, laplace_mean_tail)):
        masses = weights / weights.sum()
        best = min(u + float((np.maximum(k - u, 0) * masses).sum()) / p for u in range(2**10, 6 * 2**10, 8))
        assert best <= tail(failure=p) * steps * (1 + 1 / steps)


def test_the_certified_error_of_the_design_note():
    # .175 with the older curve form, .201 with Jung et al.; 95 % of an attack's errors are below .075
    assert 0.075 < gaussian_answers_error(samples=20_000, sigma=0.02, queries=202, failure=0.05) < 0.175
