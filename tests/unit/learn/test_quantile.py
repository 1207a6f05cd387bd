"""Quantile regression: exact one-dimensional densities of neighbours against the published loss."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.learn.quantile import QuantileRegression, SmoothedPinball, glm_delta, glm_loss

THETA = np.linspace(-25.0, 25.0, 100_001)


def density(records: list[tuple[float, float]], tau: float, h: float, ridge: float, sigma: float) -> np.ndarray:
    """Of the minimiser: the noise that makes theta optimal, times the curvature there; from the definition."""
    slope, bend = ridge * THETA, np.full(THETA.size, ridge)
    for x, y in records:
        below = 0.5 - (y - x * THETA) / (2 * h)
        slope = slope + (np.clip(below, 0, 1) - tau) * x
        bend = bend + np.where((below > 0) & (below < 1), x * x / (2 * h), 0.0)
    found = np.exp(-(slope**2) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * sigma) * bend
    assert found.sum() * (THETA[1] - THETA[0]) == pytest.approx(1.0, abs=2e-3)
    return found / found.sum()


def apart(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    level = math.exp(epsilon)
    return max(float(np.maximum(p - level * q, 0).sum()), float(np.maximum(q - level * p, 0).sum()))


@pytest.mark.parametrize("tau", [0.5, 0.9])
@pytest.mark.parametrize(("h", "ridge", "sigma"), [(0.1, 5.0, 2.0), (0.5, 0.5, 1.0), (0.05, 20.0, 4.0)])
def test_no_neighbours_are_further_apart_than_published(tau: float, h: float, ridge: float, sigma: float) -> None:
    mu, curvature = max(tau, 1 - tau) / sigma, math.log1p(1 / (2 * h) / ridge)
    loss = glm_loss(mu, curvature)
    published = {e: min(glm_delta(e, mu=mu, curvature=curvature), loss.delta(epsilon=e)) for e in (0.0, 0.2, 0.5, 1.0)}
    for common in ([], [(1.0, 1.0)] * 3, [(1.0, -1.0), (-1.0, 1.0), (0.5, 0.3)]):
        for record in itertools.product((-1.0, 1.0), (-1.0, 0.0, 1.0)):
            p, q = (density(d, tau, h, ridge, sigma) for d in ([*common, record], common))
            for epsilon, bound in published.items():
                assert apart(p, q, epsilon) <= bound + 1e-5


def test_a_twin_with_half_the_noise_is_caught() -> None:
    """A record far from the line pulls with all its strength, and a large ridge leaves no curvature to hide behind."""
    bound = glm_loss(0.9 / 2.0, math.log1p(5 / 100)).delta(epsilon=0.5)
    honest, twin = ([density(d, 0.9, 0.1, 100.0, s) for d in ([(1.0, 1.0)], [])] for s in (2.0, 1.0))
    assert 0.4 * bound < apart(*honest, 0.5) <= bound
    assert apart(*twin, 0.5) > 1.5 * bound


def test_a_constant_column_outside_the_norm_is_caught() -> None:
    """A row of norm 1 with a constant column 1 has length sqrt 2: priced as 1 it is too cheap."""
    bound = glm_loss(0.9 / 2.0, math.log1p(5 / 100)).delta(epsilon=0.5)
    p, q = (density(d, 0.9, 0.1, 100.0, 1.0 * 2.0) for d in ([(-math.sqrt(2), 1.0)] * 1, []))
    longer = apart(p, q, 0.5)
    assert longer > apart(*(density(d, 0.9, 0.1, 100.0, 2.0) for d in ([(1.0, 1.0)], [])), 0.5)
    assert longer > bound
    assert longer <= glm_loss(0.9 * math.sqrt(2) / 2.0, math.log1p(10 / 100)).delta(epsilon=0.5)
    assert QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1)._recipe().longest >= math.sqrt(2)


def test_a_solver_that_just_stops_is_caught() -> None:
    recipe = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1)._recipe()
    rng = np.random.default_rng(0)
    rows, targets = recipe.extended(rng.uniform(-1, 1, (3000, 2))), rng.uniform(-1, 1, 3000)
    objective = SmoothedPinball(rows, targets, 0.5, recipe.width, recipe.ridge, rng.normal(size=3) * 9.0)
    slope, bend = objective.gradient(np.zeros(3))
    twin = -np.linalg.solve((rows.T * bend) @ rows + recipe.ridge * np.eye(3), slope)  # one step, then "good enough"
    assert np.linalg.norm(objective.gradient(twin)[0]) > recipe.tolerance(3)


def test_it_holds_together_with_another_release() -> None:
    tau, h, ridge, sigma = 0.5, 0.1, 5.0, 2.0
    mu, curvature = 0.5 / sigma, math.log1p(1 / (2 * h) / ridge)
    loss = glm_loss(mu, curvature) + ts.pure_dp(epsilon=3.0)
    truth = math.e**3 / (1 + math.e**3)
    for record in itertools.product((-1.0, 1.0), (-1.0, 1.0)):
        p, q = (density(d, tau, h, ridge, sigma) for d in ([(1.0, 0.2), record], [(1.0, 0.2)]))
        for (a, b), epsilon in itertools.product([(truth, 1 - truth), (1 - truth, truth)], (2.0, 2.9, 3.3)):
            joint = np.concatenate([p * a, p * (1 - a)]), np.concatenate([q * b, q * (1 - b)])
            assert apart(*joint, epsilon) <= loss.delta(epsilon=epsilon) + 1e-5


def test_the_price_meets_the_goal() -> None:
    model = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, quantile=0.9)
    assert model.privacy.delta(epsilon=1.0) <= 1e-6
    assert model.privacy.epsilon(delta=1e-6) > 0.97


def test_the_minimiser_reaches_its_certificate_for_nasty_data() -> None:
    recipe = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, smoothing=0.001)._recipe()
    rng = np.random.default_rng(0)
    for rows in (np.ones((500, 2)), rng.normal(size=(300, 2)), np.zeros((4, 2)), np.zeros((0, 2))):
        targets = rng.choice([-1.0, 0.0, 1.0], len(rows))
        objective = SmoothedPinball(recipe.extended(rows), targets, 0.5, 0.001, recipe.ridge, rng.normal(size=3) * 9.0)
        theta = objective.minimum(recipe.tolerance(3), recipe.longest)
        assert np.linalg.norm(objective.gradient(theta)[0]) <= recipe.tolerance(3)


def test_how_often_it_looks_at_the_data_hardly_depends_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without halving, Newton's steps ran in circles for some data: 24 to 2,028 looks."""
    looks, plain = [0], SmoothedPinball.gradient
    monkeypatch.setattr(SmoothedPinball, "gradient", lambda *given: looks.append(looks.pop() + 1) or plain(*given))
    rng, seen = np.random.default_rng(0), []
    for quantile, rows in itertools.product((0.1, 0.5, 0.9), (0, 10, 1000)):
        recipe = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, quantile=quantile)._recipe()
        for far in (False, True):
            X = rng.uniform(-0.7, 0.7, (rows, 3))
            y = rng.choice([-1.0, 1.0], rows) if far else X[:, 0]
            tilt = rng.normal(size=4) * recipe.sigma * recipe.pull
            objective = SmoothedPinball(recipe.extended(X), y, quantile, recipe.width, recipe.ridge, tilt)
            looks[:] = [0]
            objective.minimum(recipe.tolerance(4), recipe.longest)
            seen.append(looks[0])
    assert min(seen) >= 25
    assert max(seen) <= 120


def test_it_estimates_quantiles_and_is_charged_once(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.7, 0.7, (20_000, 2))
    targets = 0.5 * rows[:, 0] + rng.normal(0, 0.2, 20_000)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.approx_dp(epsilon=2, delta=1e-5), unit="patient")
        model = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, quantile=0.9)
        model.fit(rows, targets, account=account, why="late arrivals", key="k", delta=1e-6)
        again = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, quantile=0.9)
        again.fit(rows[:3], targets[:3], account=account, why="late arrivals", key="k", delta=1e-6)
        assert np.array_equal(model.coef_, again.coef_)
        assert len(list(account.history())) == 1
    assert np.mean(targets <= model.predict(rows)) == pytest.approx(0.9, abs=0.06)
    odd = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1).fit(
        np.array([[np.nan], [1e308]]), np.array(["a", None])
    )
    assert np.isfinite(odd.coef_).all()


@pytest.mark.parametrize(
    "bad",
    [{"epsilon": 0}, {"delta": 0}, {"quantile": 1.0}, {"smoothing": 1e9}, {"row_norm": math.inf}, {"fit_intercept": 2}],
)
def test_bad_numbers_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        _ = QuantileRegression(**{"epsilon": 1.0, "delta": 1e-6, "row_norm": 1, "target_bound": 1, **bad}).privacy


def test_what_a_row_predicts_does_not_depend_on_the_others():
    random = np.random.default_rng(0)
    rows = random.normal(size=(1001, 17))
    model = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1).fit(rows, rows[:, 0])
    each = np.concatenate([model.predict(row[None]) for row in rows])
    np.testing.assert_array_equal(model.predict(rows), each)


@pytest.mark.parametrize("name", ["row_norm", "target_bound"])
def test_the_bounds_are_declared(name: str, tmp_path: Any) -> None:
    # Bounds of 1 by default clamped targets of another scale without a message.
    bounds = {"row_norm": 1.0, "target_bound": 1.0}
    del bounds[name]
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.approx_dp(epsilon=2, delta=1e-5), unit="patient")
        model = QuantileRegression(epsilon=1.0, delta=1e-6, **bounds)
        with pytest.raises(InvalidInput, match=f"^{name} = None .* from public knowledge"):
            model.fit(np.ones((9, 1)), np.full(9, 40.0), account=account, why="x")
        assert not account.history()


@pytest.mark.parametrize("rows", [1, 3])
def test_epsilon_protects_a_whole_person(rows: int) -> None:
    model = QuantileRegression(epsilon=1.0, delta=1e-6, row_norm=1, target_bound=1, rows_per_unit=rows)
    assert 0.97 < model.privacy.epsilon(delta=1e-6) <= 1.0


@pytest.mark.parametrize("rows", [2])
def test_the_exact_densities_of_data_that_differ_in_all_rows_of_a_person_are_as_near_as_priced(rows: int) -> None:
    """The minimiser's density in one dimension by quadrature; a person's rows all pull the same way, or apart."""
    options: Any = {"epsilon": 1.0, "delta": 1e-2, "row_norm": 1.0, "target_bound": 1.0, "fit_intercept": False}
    honest = QuantileRegression(**options, rows_per_unit=rows)
    worst = {}
    for name, recipe in (("honest", honest._recipe()), ("per row", QuantileRegression(**options)._recipe())):
        noise = recipe.sigma * recipe.pull
        worst[name] = 0.0
        for person in itertools.combinations_with_replacement([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)], rows):
            tables = ([(1.0, -1.0)] * 2 + list(person), [(1.0, -1.0)] * 2)
            p, q = (density(d, 0.5, recipe.width, recipe.ridge, noise) for d in tables)
            worst[name] = max(worst[name], apart(p, q, 1.0))
    assert worst["honest"] <= 1e-2
    assert worst["per row"] > 1e-2
