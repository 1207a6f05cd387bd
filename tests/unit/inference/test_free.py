"""What is free, what is planned, and what is simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.inference import Noise, Released, combine, consistent_table, posterior_share
from tallystick.mechanisms.noise import add_discrete_laplace
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.mechanisms.response import laplace, randomize, unary_encoding
from unit.inference.cases import discrete_gaussian

# Combined


def test_precisions_add_up():
    parts = [
        Released(10, DiscreteGaussian(3.0)),
        Released(14, DiscreteGaussian(6.0)),
        Released(8, DiscreteGaussian(9.0)),
    ]
    best = combine(*parts)
    assert best.deviation**-2 == pytest.approx(sum(one.noise.deviation**-2 for one in parts))
    assert best.value == pytest.approx((10 / 9 + 14 / 36 + 8 / 81) / (1 / 9 + 1 / 36 + 1 / 81))
    with pytest.raises(Refused, match="of="):
        best.population_interval()
    with pytest.raises(InvalidInput):
        combine(parts[0], Released(10, DiscreteGaussian(3.0), of=20))


def test_a_consistent_table_is_the_projection_and_better_in_every_cell():
    noise = DiscreteGaussian(4.0)
    random = np.random.default_rng(1)
    table = [[Released(float(random.integers(0, 50)), noise) for _ in range(3)] for _ in range(2)]
    rows = [Released(70.0, noise), Released(60.0, DiscreteGaussian(2.0))]
    columns = [Released(40.0, noise) for _ in range(3)]
    better = consistent_table(table, rows=rows, columns=columns, total=Released(128.0, noise))
    # the weighted squares of the residuals have gradient zero at the answer
    x = np.array([[cell.value for cell in row] for row in better])
    for i in range(2):
        for j in range(3):
            slope = (x[i, j] - table[i][j].value) / 16 + (x[:, j].sum() - 40) / 16 + (x.sum() - 128) / 16
            slope += (x[i].sum() - rows[i].value) / rows[i].noise.deviation ** 2
            assert slope == pytest.approx(0.0, abs=1e-9)
            assert better[i][j].deviation < 4.0
    with pytest.raises(InvalidInput, match="totals"):
        consistent_table(table, rows=columns)


def test_the_posterior_is_that_of_a_numerical_integral():
    law, n, y = DiscreteLaplace(3.0), 20, 4
    mean, interval = posterior_share(Released(y, law, of=n), prior=(2, 3))
    k = np.arange(n + 1)
    noise = np.exp(-np.abs(y - k) / 3.0)

    def density(p):
        return float(beta.pdf(p, 2, 3) * (binom.pmf(k, n, p) @ noise))

    total = quad(density, 0, 1)[0]
    assert mean == pytest.approx(quad(lambda p: p * density(p), 0, 1)[0] / total, rel=1e-6)
    assert quad(density, 0, interval.lower)[0] / total == pytest.approx(0.025, abs=1e-6)
    assert quad(density, interval.upper, 1)[0] / total == pytest.approx(0.025, abs=1e-6)
    assert "Beta(2, 3)" in interval.about


# Planned


def test_power_is_what_a_simulation_finds():
    noise, n, first, second = DiscreteGaussian(20.0), 2000, 0.3, 0.35
    predicted = ts.inference.power(noise, difference=0.05, share=0.3, of=n)
    random = np.random.default_rng(3)
    found = 0
    for _ in range(150):
        a, b = (
            Released(int(random.binomial(n, p) + discrete_gaussian(random, 20.0)), noise, of=n) for p in (first, second)
        )
        found += ts.inference.same_share(a, b, seed=int(random.integers(2**31))).rejects()
    assert found / 150 == pytest.approx(predicted, abs=0.1)


def test_planners_are_inverse_to_power():
    budget = ts.inference.least_budget(
        lambda epsilon: add_discrete_laplace(epsilon=epsilon), difference=0.02, share=0.3, of=10_000
    )
    question = {"difference": 0.02, "share": 0.3, "of": 10_000}
    assert ts.inference.power(add_discrete_laplace(epsilon=budget), **question) >= 0.8
    assert ts.inference.power(add_discrete_laplace(epsilon=0.98 * budget), **question) < 0.8
    noise = add_discrete_laplace(epsilon=0.05)
    people = ts.inference.least_samples(noise, difference=0.02, share=0.3)
    assert ts.inference.power(noise, difference=0.02, share=0.3, of=people) >= 0.8
    assert ts.inference.power(noise, difference=0.02, share=0.3, of=people - 1) < 0.8
    with pytest.raises(Refused, match="8394 people"):
        ts.inference.least_budget(lambda e: add_discrete_laplace(epsilon=e), difference=0.02, share=0.3, of=5000)
    with pytest.raises(InvalidInput):
        ts.inference.power(noise, difference=0.9, share=0.3, of=100)


def test_effective_sizes_are_those_of_the_two_variances():
    n, epsilon, share = 1000, 1.0, 0.3
    central = ts.inference.effective_sample_size(add_discrete_laplace(epsilon=epsilon), of=n, share=share)
    noise = 2 * math.exp(-1) / (1 - math.exp(-1)) ** 2
    assert central == pytest.approx(0.21 / (0.21 / n + noise / n**2))
    local = ts.inference.effective_sample_size(randomize(epsilon=epsilon), of=n, share=share)
    # Example 3.2: (e^eps / (e^eps - 1)^2 + t (1 - t)) / n
    assert local == pytest.approx(0.21 * n / (math.e / (math.e - 1) ** 2 + 0.21))


# Simulated


def test_a_repro_interval_is_finite_and_a_bootstrap_is_labelled_asymptotic():
    def draw(mean, random):
        return random.normal(mean, 1)

    repro = ts.inference.repro_interval(draw, observed=0.0, candidates=np.linspace(-5, 5, 201))
    boot = ts.inference.bootstrap_interval(draw, float, observed=0.0)
    assert (repro.holds, boot.holds) == ("finite-sample", "asymptotic")
    assert repro.width == pytest.approx(3.92, abs=0.7)
    assert boot.width == pytest.approx(3.92, abs=0.5)
    with pytest.raises(InvalidInput, match="draws"):
        ts.inference.repro_interval(draw, observed=0.0, candidates=[0, 1], draws=10)
    with pytest.raises(InvalidInput, match="candidates"):
        ts.inference.repro_interval(draw, observed=0.0, candidates=[1, 1])


# Local


@pytest.mark.parametrize("mechanism", [randomize(epsilon=1.0, choices=3), unary_encoding(epsilon=1.0, choices=3)])
def test_shares_from_reports_are_those_of_the_mechanism(mechanism):
    reports = mechanism.release([0, 1, 2, 0, 0, 1] * 50)
    estimate = mechanism.estimate(reports)
    shares = ts.inference.from_reports(mechanism, reports)
    for i, share in enumerate(shares):
        interval = share.population_interval()
        if share.reports * share.if_false <= share.ones <= share.reports * share.if_true:
            assert (interval.lower, interval.upper) == pytest.approx((estimate.lower[i], estimate.upper[i]), abs=1e-12)
        else:  # lies alone made it: read as what is usual, which only widens
            assert interval.lower <= estimate.lower[i] + 1e-12
            assert interval.upper >= estimate.upper[i] - 1e-12
        assert share.value == pytest.approx(min(1.0, max(0.0, estimate.values[i])), abs=1e-9)


def test_a_mean_from_reports_says_both_things():
    mechanism = laplace(epsilon=2.0, bounds=(0, 1))
    answer = ts.inference.from_reports(mechanism, mechanism.release([0.2, 0.4, 0.9] * 300), about="scores")
    assert answer.noise_interval().about == "mean of scores clamped to [0, 1] among those who reported"
    assert answer.population_interval().about == "mean of scores clamped to [0, 1]"
    with pytest.raises(InvalidInput, match="mechanism"):
        ts.inference.from_reports(DiscreteGaussian(1.0), [1])


def test_noise_of_other_things_is_named():
    with pytest.raises(InvalidInput, match="its law, or a Noise"):
        Noise.of(randomize(epsilon=1.0))


def test_every_name_stays_what_it_is_once_its_file_is_loaded():
    import importlib
    import pkgutil

    for module in pkgutil.iter_modules(ts.inference.__path__):
        importlib.import_module(f"tallystick.inference.{module.name}")
    named = [getattr(ts.inference, name) for name in ts.inference.__all__]
    assert all(callable(one) and one.__doc__ for one in named)
