"""The best of K runs: the certified curve against winners listed run by run, with ties and adversarial scores."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Direction
from tallystick.accounting.expression import read_loss
from tallystick.accounting.leaves.selected import Selected, mean_runs
from tallystick.errors import InvalidInput

Law = list[float]


def negative_binomial(eta: float, gamma: float) -> Law:
    """Pr[K = k], k = 0, 1, ..., by its recursion, to the last 1e-15."""
    masses, term = [0.0], 1.0
    for k in range(1, 4000):
        # (eta)_k / k! from (eta)_{k-1} / (k-1)!; for eta = 0 the factor eta is common and left out
        term = (1.0 - gamma) if k == 1 else term * (1.0 - gamma) * (k - 1 + eta) / k
        masses.append(term)
        if term < 1e-17:
            break
    return [m / sum(masses) for m in masses]


def poisson(mean: float) -> Law:
    return [math.exp(-mean) * mean**k / math.factorial(k) for k in range(80)]


def winner(masses: Law, scores: list[int], runs: Law) -> Law:
    """The law of the best of K draws: by k, the chance that the best score is s, shared among those who have it."""
    law = [0.0] * len(masses)
    for k, chance in enumerate(runs):
        if k == 0:
            continue
        for score in set(scores):
            upto = sum(m for m, s in zip(masses, scores, strict=True) if s <= score)
            below = sum(m for m, s in zip(masses, scores, strict=True) if s < score)
            tied = upto - below
            for i, s in enumerate(scores):
                if s == score and tied > 0:
                    law[i] += chance * (upto**k - below**k) * masses[i] / tied
    return [*law, runs[0]]


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def laws() -> list[tuple[dict[str, float], Law]]:
    return [
        ({"eta": 0.0, "gamma": 0.1}, negative_binomial(0.0, 0.1)),
        ({"eta": 1.0, "gamma": 0.2}, negative_binomial(1.0, 0.2)),
        ({"eta": 2.5, "gamma": 0.3}, negative_binomial(2.5, 0.3)),
        ({"eta": -0.5, "gamma": 0.05}, negative_binomial(-0.5, 0.05)),
        ({"poisson": 0.4}, poisson(0.4)),
        ({"poisson": 6.0}, poisson(6.0)),
    ]


def a_law(rng: random.Random, size: int) -> Law:
    parts = [rng.choice([0.0, 1.0, 1.0, 5.0, 20.0]) + 0.01 * (size < 3) for _ in range(size)]
    return [x / sum(parts) for x in parts] if sum(parts) else a_law(rng, size)


@pytest.mark.parametrize(("given", "runs"), laws(), ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_no_winner_of_a_small_mechanism_exceeds_the_curve(given: dict[str, float], runs: Law) -> None:
    rng = random.Random(str(given))
    closest = 0.0
    for _ in range(5):
        size = rng.choice([2, 3, 4])
        p, q = a_law(rng, size), a_law(rng, size)
        loss = ts.selected(ts.discrete_pair(p, q), **given)
        bounds = {epsilon: loss.delta(epsilon=epsilon) for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)}
        for order in rng.sample(list(itertools.permutations(range(size))), min(5, math.factorial(size))):
            scores = [s // rng.choice([1, 2]) for s in order]  # halves tie
            a, b = winner(p, scores, runs), winner(q, scores, runs)
            for epsilon, bound in bounds.items():
                truth = max(hockey_stick(a, b, epsilon), hockey_stick(b, a, epsilon))
                assert truth <= bound * (1 + 1e-9) + 1e-12
                closest = max(closest, truth / bound if 1e-9 < bound < 1.0 else 0.0)
    assert closest > 0.5, "a bound that no order comes near would test nothing"


def test_divergences_are_above_those_of_winners() -> None:
    p, q = [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]
    for given, runs in laws():
        loss = ts.selected(ts.discrete_pair(p, q), **given)
        bounds = {order: loss.renyi(order=order) for order in (1.0, 1.5, 4.0, 20.0)}
        for scores in itertools.permutations(range(3)):
            a, b = (winner(x, list(scores), runs) for x in (p, q))
            for order, bound in bounds.items():
                assert max(renyi(a, b, order), renyi(b, a, order)) <= bound * (1 + 1e-9) + 1e-11


def renyi(p: Law, q: Law, order: float) -> float:
    some = [(x, y) for x, y in zip(p, q, strict=True) if x > 0]
    if order == 1.0:
        return sum(x * math.log(x / y) for x, y in some)
    return math.log(sum(x**order * y ** (1 - order) for x, y in some)) / (order - 1)


def test_the_divergence_of_gaussian_runs_is_that_of_the_curve_not_of_the_mean_number_of_runs() -> None:
    loss = ts.selected(ts.gdp(mu=1), gamma=0.1)
    assert 0.5 <= loss.kl() <= 2.2  # the Renyi form: 3.8
    assert loss.renyi(order=2) <= 2.7


def test_it_holds_in_compositions_where_negative_epsilons_count() -> None:
    p, q = [0.7, 0.2, 0.1], [0.2, 0.2, 0.6]
    for given, runs in laws():
        other = ts.pure_dp(epsilon=3.0)
        response = [math.exp(3) / (1 + math.exp(3)), 1 / (1 + math.exp(3))]
        loss = ts.selected(ts.discrete_pair(p, q), **given) + other
        bounds = {epsilon: loss.delta(epsilon=epsilon) for epsilon in (0.5, 2.0, 2.85, 3.3)}
        for scores in itertools.permutations(range(3)):
            a, b = winner(p, list(scores), runs), winner(q, list(scores), runs)
            joint_a = [x * y for x in a for y in response]
            joint_b = [x * y for x in b for y in response[::-1]]
            for epsilon, bound in bounds.items():
                truth = max(hockey_stick(joint_a, joint_b, epsilon), hockey_stick(joint_b, joint_a, epsilon))
                assert truth <= bound * (1 + 1e-9) + 1e-12


def test_the_price_of_one_run_is_caught() -> None:
    """What "report the best epsilon" charges is exceeded by a score that likes foreign-looking outcomes."""
    p, q = [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]
    runs = negative_binomial(1.0, 0.05)
    one = ts.discrete_pair(p, q)
    excess = max(
        hockey_stick(winner(p, list(s), runs), winner(q, list(s), runs), 1.9) - one.delta(epsilon=1.9)
        for s in itertools.permutations(range(3))
    )
    assert excess > 0.05


@pytest.mark.parametrize(
    ("mu", "eta", "gamma", "witness"),
    [(1, 0, 0.1, 5.929), (1, 1, 0.1, 6.881), (0.5, 0, 0.02, 3.148), (0.5, 1, 0.02, 3.921), (0.25, 0.5, 0.01, 1.813)],
)
def test_gaussian_runs_are_within_a_percent_of_a_score(mu: float, eta: float, gamma: float, witness: float) -> None:
    """Witnesses from the design's checks/tuning.py: most foreign-looking on top, then most own-looking, the rest."""
    found = ts.selected(ts.gdp(mu=mu), eta=eta, gamma=gamma).epsilon(delta=1e-6)
    assert witness - 5e-4 <= found <= witness * 1.008


@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_many_poisson_runs_are_read_without_a_warning_and_never_below_a_winner(mean: float) -> None:
    # The rare outcome scores best, so the other one comes out if no run had it (or nothing, if there was no run).
    rare, twice = 1 / mean, 2 / mean
    loss = ts.selected(ts.discrete_pair([rare, 1 - rare], [twice, 1 - twice]), poisson=mean)
    p, q = ([-math.expm1(-1.0), math.exp(-1.0)], [-math.expm1(-2.0), math.exp(-2.0)])
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert all(loss.delta(epsilon=e) >= hockey_stick(p, q, e) - 1e-12 for e in (0.0, 0.3, 0.7, 0.99))
        assert 0 < loss.epsilon(delta=1e-6) < (10 * loss).epsilon(delta=0.1)
        assert 0 < (10 * ts.selected(ts.exponential(epsilon=1.487), poisson=mean)).epsilon(delta=0.1) < 1e5


def test_poisson_meets_the_renyi_form() -> None:
    assert 2.732 <= ts.selected(ts.gdp(mu=0.25), poisson=20).epsilon(delta=1e-6) <= 2.80  # the curve alone: 3.10


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
def test_pure_runs_cost_two_and_eta_epsilons_at_most(eta: float) -> None:
    for epsilon in (0.01, 1.0, 5.0):
        found = ts.selected(ts.pure_dp(epsilon=epsilon), eta=eta, gamma=1e-6).epsilon(delta=0)
        assert found <= (2 + eta) * epsilon * (1 + 1e-9)
        assert found >= epsilon
    assert ts.selected(ts.pure_dp(epsilon=1), eta=1, gamma=1e-6).epsilon(delta=0) > 2.99


@pytest.mark.parametrize("base", [ts.gdp(mu=1), ts.zcdp(rho=0.05), ts.laplace(scale=3)])
def test_it_is_never_above_the_renyi_form(base: ts.PrivacyLoss) -> None:
    """Papernot and Steinke (2022, Theorem 2), written again here."""
    eta, gamma = 1.0, 0.05
    loss = ts.selected(base, eta=eta, gamma=gamma)
    mean = (1 - gamma) / (gamma * (1 - gamma))
    orders = [1.5, 2.0, 4.0, 10.0, 30.0]
    slack = min((1 - 1 / a) * base.renyi(order=a) + math.log(1 / gamma) / a for a in orders)
    for a in orders:
        form = base.renyi(order=a) + (1 + eta) * slack + math.log(mean) / (a - 1)
        assert loss.renyi(order=a) <= form * (1 + 1e-9)
        for epsilon in (1.0, 3.0):
            delta = math.exp((a - 1) * (form - epsilon)) / a * (1 - 1 / a) ** (a - 1)
            assert loss.delta(epsilon=epsilon) <= delta * (1 + 1e-6)


def test_a_leak_is_weighted_by_the_mean_number_of_runs() -> None:
    loss = ts.selected(ts.approx_dp(epsilon=0, delta=1e-6), eta=1, gamma=0.1)
    assert 0.999e-5 <= loss.delta(epsilon=50.0) <= 1.001e-5


def test_mean_runs() -> None:
    for eta, gamma in [(0.0, 0.1), (1.0, 0.2), (2.5, 0.3), (-0.5, 0.05), (1e-10, 0.1)]:
        exact = float(np.dot(np.arange(len(negative_binomial(eta, gamma))), negative_binomial(eta, gamma)))
        assert mean_runs(eta, gamma) == pytest.approx(exact, rel=1e-6)


def test_texts_and_directions() -> None:
    for loss in (
        ts.selected(ts.gaussian(sigma=2).sampled(rate=0.1) + ts.laplace(scale=1), eta=1, gamma=0.1),
        ts.selected(ts.randomized_response(epsilon=1), poisson=3),
        3 * ts.selected(ts.selected(ts.pure_dp(epsilon=0.1), gamma=0.5), gamma=0.5),
    ):
        assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
        assert read_loss(str(loss)) == loss
    tilted = Selected(ts.discrete_pair([1.0, 0.0], [0.5, 0.5]).terms[0][0], 0.0, 0.1)
    assert not tilted.symmetric
    assert tilted.pair(Direction.REMOVE).upper is not tilted.pair(Direction.ADD).upper


@pytest.mark.parametrize(
    "refused",
    [
        {},
        {"eta": 1.0},
        {"gamma": 1.0},
        {"gamma": 0.0},
        {"gamma": 0.1, "eta": -1.0},
        {"gamma": 0.1, "poisson": 2.0},
        {"poisson": 0.0},
        {"poisson": math.nan},
    ],
)
def test_what_is_no_law_of_runs_is_refused(refused: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        ts.selected(ts.gdp(mu=1), **refused)


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(InvalidInput):
        ts.selected("gdp", gamma=0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        ts.selected(ts.gdp(mu=1).for_groups(2), gamma=0.1)
    assert ts.selected(ts.no_loss(), gamma=0.1) == ts.no_loss()


def test_the_largest_loss_grows_with_the_score_and_does_not_jump() -> None:
    """At the top of the curve rounding left a positive delta, so that the read-out gave up: 1.5 for 1.004."""
    found = []
    for score in (0.3, 0.4, 0.45, 0.49, 0.5, 0.51, 0.55, 0.6):
        run = ts.worst(ts.exponential(epsilon=0.5), ts.laplace(scale=1 / score))
        found.append(ts.selected(run, eta=1, gamma=0.2).epsilon(delta=0))
    assert found == sorted(found)
    assert found[1] < 1.01  # a proof in ball arithmetic says 1.0075 at most
