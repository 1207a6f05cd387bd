"""One composition under every method: bounds above the truth, approximations marked, reasons given."""

from __future__ import annotations

import json
import math

import pytest

import tallystick as ts
from tallystick.accounting.expression import read_loss
from tallystick.theorems.compare import METHODS, Kind, compare, epsilon_against_steps

LOSSES = {
    "gaussian": 100 * ts.gaussian(sigma=10),
    "sampled gaussian": 1000 * ts.gaussian(sigma=1).sampled(rate=0.01),
    "laplace": 1 * ts.laplace(scale=2),
    "pure": 40 * ts.pure_dp(epsilon=0.2),
    "approximate": 20 * ts.approx_dp(epsilon=0.2, delta=1e-8),
    "response": 100 * ts.randomized_response(epsilon=0.3, choices=4),
    "discrete gaussian": 30 * ts.discrete_gaussian(sigma=5),
    "discrete laplace": 4 * ts.discrete_laplace(scale=3),
    "exponential": 3 * ts.exponential(epsilon=0.5),
    "zcdp": 10 * ts.zcdp(rho=0.01),
    "renyi": 10 * ts.renyi_dp({2: 0.01, 8: 0.05}),
    "pair": 3 * ts.discrete_pair([0.7, 0.2, 0.1], [0.2, 0.3, 0.5]),
    "mixture": 3 * ts.pure_dp(epsilon=0.2) + 5 * ts.gaussian(sigma=4),
    "nothing": ts.no_loss(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_bound_is_above_the_truth_and_every_method_answers_or_says_why(name):
    found = compare(LOSSES[name], delta=1e-5)
    truth = LOSSES[name].epsilon_bounds(delta=1e-5).lower
    assert [row.method for row in found] == list(METHODS)
    for row in found:
        if row.kind is Kind.REFUSED:
            assert row.epsilon is None
            assert len(row.note) > 10
        elif row.kind is Kind.BOUND:
            assert truth <= row.epsilon * (1 + 1e-9)
    assert found["tight"].kind is Kind.BOUND


def test_the_limit_theorem_is_an_approximation_that_can_be_too_small():
    step = ts.gaussian(sigma=1.1).sampled(rate=256 / 60000)
    (curve,) = epsilon_against_steps(step, delta=1e-5, steps=[14062], methods=["GDP limit"])
    assert curve.kind is Kind.APPROXIMATION
    assert curve.epsilons[0] < 2.3815  # the truth is at least 2.38159692135
    assert curve.epsilons[0] == pytest.approx(2.32, abs=0.02)


def test_a_hundred_gaussians_under_every_method():
    found = compare(LOSSES["gaussian"], delta=1e-5)
    assert found["tight"].epsilon == pytest.approx(4.3771781, abs=1e-6)
    assert found["GDP limit"].epsilon == pytest.approx(4.3771781, abs=1e-6)  # Gaussians are their own limit
    assert found["RDP (Mironov)"].epsilon == pytest.approx(0.5 + 2 * math.sqrt(0.5 * math.log(1e5)), abs=1e-4)
    assert found["zCDP"].epsilon == pytest.approx(ts.theorems.zcdp_to_approx(rho=0.5, delta=1e-5), rel=1e-9)
    assert found["moments accountant"].epsilon == pytest.approx(5.302585, abs=1e-5)
    each = ts.gaussian(sigma=10).epsilon(delta=1e-7)
    assert found["basic"].epsilon == pytest.approx(100 * each, rel=1e-9)
    order = [
        found[name].epsilon for name in ("basic", "advanced", "optimal", "moments accountant", "RDP (better)", "tight")
    ]
    assert order == sorted(order, reverse=True)


def test_pure_steps_meet_the_closed_forms():
    found = compare(LOSSES["pure"], delta=1e-5)
    optimum = ts.theorems.optimal_composition_epsilon(epsilon=0.2, steps=40, total_delta=1e-5)
    assert found["optimal"].epsilon == pytest.approx(optimum, rel=1e-6)
    assert found["tight"].epsilon == pytest.approx(optimum, rel=1e-4)  # optimal is tight for pure steps
    advanced, _ = ts.theorems.advanced_composition_tight_mean(epsilons=[0.2] * 40, delta_slack=1e-5)
    assert found["advanced"].epsilon <= advanced * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("laplace(scale=1) + zcdp(rho=0.1)", "delta0 = 1e-05 for the one step that is not pure, 0 for the others"),
        (
            "pure_dp(epsilon=1) + 2 * laplace(scale=1) + 4 * gaussian(sigma=9)",
            "delta0 = 2.5e-06 for each of the 4 steps that are not pure, 0 for the others",
        ),
        ("4 * gaussian(sigma=9)", "delta0 = 2.5e-06 per step"),
        ("4 * pure_dp(epsilon=1)", "delta0 = 2.5e-06 per step"),
    ],
)
def test_the_delta0_of_basic_composition_adds_up_to_delta(text, said):
    """Said of every step, where pure steps were read at 0, it added up to more."""
    assert compare(read_loss(text), delta=1e-5)["basic"].note == said


def test_the_best_delta0_is_printed_and_beats_halving():
    found = compare(LOSSES["gaussian"], delta=1e-5)
    assert "delta0 = " in found["advanced"].note
    half, _ = ts.theorems.advanced_composition_tight_mean(
        epsilons=[ts.gaussian(sigma=10).epsilon(delta=5e-8)] * 100, delta_slack=5e-6
    )
    assert found["advanced"].epsilon <= half * (1 + 1e-9)


def test_the_band_is_told_and_holds_the_truth():
    for name in ("pure", "sampled gaussian", "mixture"):
        note = compare(LOSSES[name], delta=0.05)["GDP limit"].note
        low, high = (float(end) for end in note.split("band [")[1].rstrip("]").split(", "))
        truth = LOSSES[name].epsilon_bounds(delta=0.05)
        assert low <= truth.upper * (1 + 1e-3)
        assert truth.lower <= high * (1 + 1e-3)


def test_leaks_have_no_renyi_divergence_and_curves_no_limit():
    found = compare(LOSSES["approximate"], delta=1e-5)
    for method in ("moments accountant", "RDP (Mironov)", "RDP (better)", "zCDP", "GDP limit"):
        assert found[method].kind is Kind.REFUSED
    assert compare(LOSSES["zcdp"], delta=1e-5)["GDP limit"].kind is Kind.REFUSED


def test_at_delta_zero_only_pure_methods_answer():
    found = compare(LOSSES["pure"], delta=0.0)
    assert found["basic"].epsilon == pytest.approx(8.0, rel=1e-9)
    assert found["optimal"].epsilon == pytest.approx(8.0, rel=1e-9)
    assert found["tight"].epsilon == pytest.approx(8.0, rel=1e-9)
    for method in ("advanced", "moments accountant", "RDP (better)", "zCDP", "GDP limit"):
        assert found[method].kind is Kind.REFUSED


def test_groups_are_refused_by_step_methods_and_read_by_the_tight_one():
    found = compare(ts.gdp(mu=1).for_groups(2), delta=1e-5)
    assert found["basic"].kind is Kind.REFUSED
    assert found["tight"].epsilon == pytest.approx(ts.gdp(mu=2).epsilon(delta=1e-5))


def test_the_table_is_json():
    table = json.loads(json.dumps(compare(LOSSES["approximate"], delta=1e-5).to_dict()))
    assert table["delta"] == 1e-5
    assert {row["kind"] for row in table["rows"]} == {"bound", "refused"}
    assert "exact (tallystick)" in str(compare(LOSSES["nothing"], delta=1e-5))
    assert compare(LOSSES["nothing"], delta=1e-5)._repr_html_().count("<tr>") == len(METHODS) + 1
    with pytest.raises(KeyError):
        compare(LOSSES["nothing"], delta=1e-5)["no such method"]


def test_epsilon_grows_with_the_steps_under_every_method():
    curves = epsilon_against_steps(ts.gaussian(sigma=10), delta=1e-5, steps=[1, 10, 100])
    assert [curve.method for curve in curves] == list(METHODS)
    for curve in curves:
        assert curve.steps == (1, 10, 100)
        assert list(curve.epsilons) == sorted(curve.epsilons)
    tight = curves[-1].epsilons
    assert tight[-1] == pytest.approx(4.3771781, abs=1e-6)


@pytest.mark.parametrize(("delta", "steps"), [(2.0, [1]), (float("nan"), [1]), (1e-5, [0]), (1e-5, [1.5])])
def test_bad_deltas_and_steps_are_refused(delta, steps):
    with pytest.raises(ts.errors.InvalidInput):
        epsilon_against_steps(ts.gdp(mu=1), delta=delta, steps=steps)


@pytest.mark.parametrize(
    ("loss", "every"),
    [
        (ts.last_iterate(steps=1000, contraction=0.99, sigma=50), 1000 * ts.gaussian(sigma=50)),
        (ts.last_iterate(steps=60, contraction=1, sigma=5, batches=ts.cyclic(batches=6)), 10 * ts.gaussian(sigma=5)),
        (
            ts.last_iterate(steps=5000, contraction=1, sigma=2, diameter=5, batches=ts.poisson(rate=0.01), delta=1e-5),
            5000 * ts.gaussian(sigma=2).sampled(rate=0.01),
        ),
    ],
    ids=["full", "cyclic", "poisson"],
)
def test_an_iteration_has_rows_about_every_iterate_and_one_about_the_last(
    loss: ts.PrivacyLoss, every: ts.PrivacyLoss
) -> None:
    found, composed = ts.compare(loss, delta=1e-5), ts.compare(every, delta=1e-5)
    assert found["tight"].epsilon == pytest.approx(composed["tight"].epsilon, rel=1e-9)
    assert found["zCDP"].epsilon == pytest.approx(composed["zCDP"].epsilon, rel=1e-9)
    assert found["last iterate"].epsilon == loss.epsilon(delta=1e-5)
    assert found["last iterate"].epsilon < 0.9 * found["tight"].epsilon
    assert "every iterate released" in str(found)
    assert "every iterate released" in found.to_dict()["about"]


def test_other_losses_have_no_row_about_a_last_iterate() -> None:
    with pytest.raises(KeyError):
        ts.compare(10 * ts.gaussian(sigma=5), delta=1e-5)["last iterate"]
