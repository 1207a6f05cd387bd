"""The exponential mechanism and the K-norm gradient mechanism for least squares: laws listed point by point."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.learn import cells
from tallystick.learn.asymptotics import erm_covariance, kng_covariance
from tallystick.learn.erm import ExponentialERM, Moments, SlowNoise, SquaredLossRecipe
from tallystick.learn.kng import GradientRecipe, KNormGradient
from tallystick.learn.records import given
from tallystick.mechanisms.exact.randomness import SeededSource

BOTH = [ExponentialERM, KNormGradient]
UNIT = {"feature_bound": 1.0, "target_bound": 1.0, "coefficient_bound": 1.0}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def points(recipe: SquaredLossRecipe, width: int) -> np.ndarray:
    steps = np.arange(-recipe.radius, recipe.radius + 1)
    box = np.stack(np.meshgrid(*[steps] * width), axis=-1).reshape(-1, width)
    return box[np.abs(box).sum(axis=1) <= recipe.radius]


def law(recipe: SquaredLossRecipe, rows: Any, targets: Any) -> np.ndarray:
    """Probabilities of all lattice points, from the density as the notes print it, corrected; nothing of the code."""
    records = np.column_stack([np.atleast_2d(np.asarray(rows, dtype=float)), np.asarray(targets, dtype=float)])
    records, times = np.unique(records, axis=0, return_counts=True)  # few are different, of hundreds
    rows, targets = records[:, :-1], records[:, -1]
    theta = points(recipe, rows.shape[1]) * 2.0**-recipe.shift
    residuals = targets[None, :] - theta @ rows.T
    largest = 1 + recipe.bound
    replaced = recipe.protects.adjacency is Adjacency.REPLACE
    if isinstance(recipe, GradientRecipe):
        norm = np.abs((residuals * times) @ rows).max(axis=1)
        logs = -recipe.epsilon / ((4 if replaced else 2) * largest) * norm
    else:
        logs = -recipe.epsilon / ((2 if replaced else 1) * largest**2) * (residuals**2 @ times)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def small(kind: type[ExponentialERM], bits: int, **given_: Any) -> SquaredLossRecipe:
    return replace(kind(**{"epsilon": 1.0, **UNIT, **given_})._recipe(), bits=bits)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("width", [1, 2])
def test_the_sampler_has_the_stated_law(
    kind: type[ExponentialERM], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small(kind, 4 if width == 1 else 2, epsilon=3.0, coefficient_bound=1.3)
    rng = np.random.default_rng(width)
    rows, targets = rng.choice([-1.0, -0.5, 0.5, 1.0], (7, width)), rng.choice([-1.0, 0.25, 1.0], 7)
    expected, source = law(recipe, rows, targets), SeededSource(7)
    score = recipe.score(recipe.moments(given(rows, targets)))
    boxes = cells.cover(score, recipe.radius, width)
    monkeypatch.setattr(cells, "cover", lambda *_: boxes)  # they depend on the score alone: cut once for all draws
    places = {tuple(p): i for i, p in enumerate(points(recipe, width).tolist())}
    seen, draws = np.zeros(len(places)), 1500
    for _ in range(draws):
        seen[places[cells.draw(score, radius=recipe.radius, dimensions=width, source=source)]] += 1
    chi = float(((seen - draws * expected) ** 2 / (draws * expected)).sum())
    freedom = len(places) - 1
    assert chi < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("adjacency", list(Adjacency)[:2])
def test_no_point_is_more_than_e_to_the_epsilon_likelier(kind: type[ExponentialERM], adjacency: Adjacency) -> None:
    """Alone, and together with another release: every density ratio of neighbours, extreme records included."""
    recipe = small(kind, 4, adjacency=adjacency, coefficient_bound=0.7, epsilon=1.2)
    largest = worst = 0.0
    rng = np.random.default_rng(1)
    records = list(itertools.product((-1.0, 1.0), (-1.0, 0.3, 1.0)))
    joint = (recipe.privacy + ts.laplace(scale=1.0, adjacency=adjacency)).delta(epsilon=1.5)
    for size in (0, 1, 3):
        for _ in range(2):
            common = [records[i] for i in rng.choice(len(records), size)]
            for one, two in itertools.combinations(records, 2):
                first = [*common, one]
                second = [*common, two] if adjacency is Adjacency.REPLACE else common
                if not second:
                    continue
                p, q = (law(recipe, [[x] for x, _ in d], [y for _, y in d]) for d in (first, second))
                largest = max(largest, float(np.abs(np.log(p / q)).max()))
                worst = max(worst, composed(p, q, 1.5) - joint)
    assert largest <= recipe.epsilon * (1 + 1e-9)
    assert largest > 0.2 * recipe.epsilon
    assert worst <= 1e-12


def composed(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Hockey-stick divergence of the law together with Laplace noise of scale 1, both orders."""
    x = np.linspace(-14, 15, 291)
    f, g = np.exp(-np.abs(x)), np.exp(-np.abs(x - 1))
    f, g = f / f.sum(), g / g.sum()
    pairs = [(np.outer(p, f), np.outer(q, g)), (np.outer(q, g), np.outer(p, f))]
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in pairs)


@pytest.mark.parametrize("kind", BOTH)
def test_a_twin_with_half_the_noise_is_caught(kind: type[ExponentialERM]) -> None:
    honest = small(kind, 8, epsilon=0.2)
    # Many records that pull to one end, and one that pulls away from it.
    first, second = [[1.0]] * 201, [[1.0]] * 200
    a, b = [-1.0] * 200 + [1.0], [-1.0] * 200
    ratio = np.abs(np.log(law(honest, first, a) / law(honest, second, b))).max()
    assert 0.5 * 0.2 < ratio <= 0.2
    twin = replace(honest, epsilon=0.4)
    assert np.abs(np.log(law(twin, first, a) / law(twin, second, b))).max() > 0.2


def test_erratum_22_the_gradient_moves_by_four_times_one_plus_b_and_no_more_noise_is_needed() -> None:
    bound = 0.5
    rng = np.random.default_rng(0)
    ends = [(np.array(x), y) for x in itertools.product((-1.0, 1.0), repeat=2) for y in (-1.0, 1.0)]
    largest = 0.0
    for share in rng.uniform(-1, 1, 200):
        theta = bound * np.array([share, math.copysign(1 - abs(share), rng.uniform(-1, 1))])
        pulls = [2 * (y - x @ theta) * x for x, y in ends]
        largest = max(largest, max(float(np.abs(a - b).max()) for a in pulls for b in pulls))
    assert 0.98 * 4 * (1 + bound) < largest <= 4 * (1 + bound) + 1e-12
    recipe = KNormGradient(epsilon=1.0, **(UNIT | {"coefficient_bound": bound}), adjacency="replace")._recipe()
    # the density's exponent is epsilon/(2 Delta) times a gradient that has a factor 2 which the recipe's score has not
    assert recipe.rate * Fraction(4 * (1 + bound)) == pytest.approx(1.0, rel=1e-12)
    assert recipe.rate * Fraction(8 * (1 + bound)) == pytest.approx(
        2.0, rel=1e-12
    )  # the notes' constant: half the budget


def test_erratum_23_the_variance_of_the_exponential_mechanism_has_epsilon_in_it() -> None:
    rows, epsilon, curvature, sensitivity = 500, 0.7, 2.0, 1.5
    x = np.linspace(-1, 1, 400_001)
    weights = np.exp(-epsilon / (2 * sensitivity) * rows * curvature * x * x / 2)
    variance = float((weights * x * x).sum() / weights.sum())
    found = erm_covariance([[1 / curvature]], epsilon=epsilon, sensitivity=sensitivity, rows=rows)[0, 0]
    assert found == pytest.approx(variance, rel=1e-6)
    assert found != pytest.approx(2 * sensitivity / rows / curvature, rel=0.2)  # as section 7.5 prints it


def test_erratum_57_the_gram_matrix_is_of_columns_not_of_rows() -> None:
    moments = Moments.of(np.ones((50, 3)), np.ones(50))
    assert np.array(moments.gram).shape == (3, 3)


@pytest.mark.parametrize("width", [1, 2])
def test_the_limit_laws_match_the_exact_ones(width: int) -> None:
    rng = np.random.default_rng(3)
    n, epsilon = 400, 8.0 if width == 1 else 2.0
    rows = rng.choice([-1.0, 1.0], (n, width))
    targets = rng.choice([-0.5, 0.5], n)
    inverse = np.linalg.inv(2 * rows.T @ rows / n)
    for kind, covariance in ((ExponentialERM, erm_covariance), (KNormGradient, kng_covariance)):
        recipe = small(kind, 12 if width == 1 else 7, epsilon=epsilon, adjacency="replace")
        largest = 1 + recipe.bound
        sensitivity = largest**2 if kind is ExponentialERM else 4 * largest
        theta = points(recipe, width) * 2.0**-recipe.shift
        p = law(recipe, rows, targets)
        centred = theta - p @ theta
        exact = (centred * p[:, None]).T @ centred
        limit = covariance(inverse, epsilon=epsilon, sensitivity=sensitivity, rows=n)
        assert np.allclose(exact, limit, rtol=0.02, atol=0.02 * np.abs(limit).max())


def test_noise_falls_like_one_over_root_n_and_one_over_n() -> None:
    found = {}
    for kind in BOTH:
        recipe = small(kind, 14, epsilon=2.0)
        theta = points(recipe, 1)[:, 0] * 2.0**-recipe.shift
        deviations = []
        for n in (50, 800):
            p = law(recipe, np.ones((n, 1)), np.tile([0.25, 0.75], n // 2))
            deviations.append(math.sqrt(p @ (theta - p @ theta) ** 2))
        found[kind] = math.log(deviations[1] / deviations[0]) / math.log(16)
    assert found[ExponentialERM] == pytest.approx(-0.5, abs=0.03)
    assert found[KNormGradient] == pytest.approx(-1.0, abs=0.03)


def test_the_mean_by_gradient_is_laplace_noise() -> None:
    recipe = small(KNormGradient, 8, epsilon=1.0)
    p = law(recipe, np.ones((40, 1)), np.tile([0.0, 0.5], 20))
    steps = np.diff(np.log(p))
    slope = 40 * 1.0 / (2 * (1 + recipe.bound)) * 2.0**-recipe.shift  # n epsilon / (2 Delta) per lattice step
    assert np.allclose(np.abs(steps), slope, rtol=1e-9)


@pytest.mark.parametrize("kind", BOTH)
def test_any_data_is_fitted_and_nothing_raises(kind: type[ExponentialERM]) -> None:
    odd = np.array([[np.nan], [np.inf], [1e308], [-1e308], [5e-324], [2.0]])
    for targets in ([np.nan, 1, -np.inf, 1e308, 0, 2], ["a", None, 1, 2, 3, 4], [True] * 6):
        assert abs(kind(epsilon=1.0, **UNIT).fit(odd, np.array(targets, dtype=object)).coef_[0]) <= 1.0
    assert kind(epsilon=1.0, **UNIT).fit(np.zeros((0, 2)), []).coef_.shape == (2,)
    degenerate = kind(epsilon=5.0, **(UNIT | {"coefficient_bound": 2.0})).fit(np.ones((2000, 3)), np.ones(2000))
    assert np.abs(degenerate.coef_).sum() <= 2.0
    assert degenerate.predict([[1, 1, 1]])[0] == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("kind", BOTH)
def test_it_is_paid_for_and_four_columns_are_refused_with_the_reason(kind: type[ExponentialERM], tmp_path: Any) -> None:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=2), unit="patient")
        model = kind(epsilon=1.0, **UNIT, unit="patient").fit(
            np.ones((9, 1)), np.ones(9), account=account, why="x", key="k"
        )
        again = kind(epsilon=1.0, **UNIT, unit="patient").fit(
            np.ones((9, 1)), np.zeros(9), account=account, why="x", key="k"
        )
        assert model.coef_ == again.coef_
        with pytest.raises(InvalidInput, match="Markov"):
            kind(epsilon=1.0, **UNIT).fit(np.ones((9, 4)), np.ones(9), account=account, why="x")
        assert len(list(account.history())) == 1


def test_the_slow_one_says_so() -> None:
    with pytest.warns(SlowNoise, match="KNormGradient"):
        ExponentialERM(epsilon=1.0, **UNIT).fit(np.ones((9, 1)), np.ones(9))


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"feature_bound": -1},
        {"target_bound": math.nan},
        {"coefficient_bound": 1e9},
        {"adjacency": "no"},
        {"rows_per_unit": 0},
    ],
)
def test_bad_numbers_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        _ = KNormGradient(**{"epsilon": 1.0, **UNIT, **bad}).privacy


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", sorted(UNIT))
def test_every_bound_is_declared(kind: type[ExponentialERM], name: str, tmp_path: Any) -> None:
    # Bounds of 1 by default clamped targets of another scale without a message.
    given_ = {key: value for key, value in UNIT.items() if key != name}
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=2), unit="patient")
        with pytest.raises(InvalidInput, match=f"^{name} = None .* from public knowledge"):
            kind(epsilon=1.0, **given_).fit(np.ones((9, 1)), np.full(9, 40.0), account=account, why="x")
        assert not account.history()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_epsilon_protects_a_whole_person(kind: type[ExponentialERM], rows: int) -> None:
    assert 0.999 < kind(epsilon=1.0, **UNIT, rows_per_unit=rows).privacy.epsilon(delta=0) <= 1.0


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [2, 3])
def test_no_point_is_more_than_e_to_the_epsilon_likelier_with_all_rows_of_a_person(
    kind: type[ExponentialERM], adjacency: str, rows: int
) -> None:
    """Density ratios of data that differ in all rows of one person; the law is listed by ``law``, not by the code."""
    honest = small(kind, 6, epsilon=0.5, adjacency=adjacency, rows_per_unit=rows)
    per_row = small(kind, 6, epsilon=0.5, adjacency=adjacency)  # the same epsilon for each single row
    records = list(itertools.product((-1.0, 1.0), (-1.0, 1.0)))
    largest = {"honest": 0.0, "per row": 0.0}
    for common in ([(1.0, -1.0)] * 60, [(1.0, -1.0)] * 20):
        for person in itertools.combinations_with_replacement(records, rows):
            other = [(1.0, -1.0)] * rows if adjacency == "replace" else []
            for name, recipe in (("honest", honest), ("per row", per_row)):
                tables = [*common, *person], [*common, *other]
                p, q = (law(recipe, [[x] for x, _ in d], [y for _, y in d]) for d in tables)
                largest[name] = max(largest[name], float(np.abs(np.log(p / q)).max()))
    assert 0.18 < largest["honest"] <= 0.5 * (1 + 1e-9)
    assert largest["per row"] > 0.85 * rows * largest["honest"]
    if (kind, adjacency) != (KNormGradient, "replace"):  # there the bound is not tight: half of it is reached
        assert largest["per row"] > 0.5
