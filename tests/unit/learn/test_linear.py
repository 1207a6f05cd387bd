"""Linear regression from noisy sums: what a row moves, what is released, what is refused, and twins that are caught."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import tallystick as ts
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.regression import Statistics
from tallystick.learn import scoring
from tallystick.learn.linear import LinearRegression, Sums, sensitivity
from tallystick.learn.records import given, numbers
from tallystick.mechanisms.exact.randomness import SYSTEM

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")
BOTH = [Adjacency.ADD_REMOVE, Adjacency.REPLACE]


def sums(method="adassp", *, intercept=True, adjacency="add_remove", budget=0.5, row_norm=1.0):
    return Sums(method, row_norm, intercept, -2.0, 1.0, budget, adjacency)


def released_difference(recipe, one, two):
    """What moves between two data sets, each (rows, targets)."""
    a, b = (recipe.exact(np.array(rows, dtype=float), np.array(y, dtype=float)) for rows, y in (one, two))
    return [x - y for x, y in zip(a, b, strict=True)]


def norm_of(method, difference):
    if method == "laplace":
        return float(sum(abs(x) for x in difference))
    return math.sqrt(sum(x * x for x in difference))


def worst(recipe, features, seed):
    """The farthest that one row, drawn long, short, on an axis or opposite to another, moved the sums."""
    rng = np.random.default_rng(seed)
    replaced = recipe.adjacency == "replace"
    found = 0.0
    corners = list(itertools.product([-1.0, 1.0], repeat=features))
    for trial in range(150):
        x = (
            np.array(corners[trial % len(corners)])
            if trial % 3
            else rng.standard_normal(features) * 10.0 ** (trial % 9)
        )
        x = x * recipe.row_norm / math.sqrt(features) if trial % 3 else x
        z = rng.standard_normal(features) * 10.0 ** rng.integers(-3, 4) if trial % 2 else -x
        y, w = rng.choice([recipe.low, recipe.high, 0.3]), rng.choice([recipe.low, recipe.high, -0.2])
        other = ([z], [w]) if replaced else (np.zeros((0, features)), [])
        found = max(found, norm_of(recipe.method, released_difference(recipe, ([x], [y]), other)))
    return found


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("method", ["adassp", "gram", "laplace"])
def test_no_row_moves_the_sums_farther_than_the_noise_is_made_for(method, intercept, adjacency):
    for features in (1, 2, 4):
        recipe = sums(method, intercept=intercept, adjacency=adjacency.value, row_norm=3.0)
        bound = sensitivity(method, features + intercept, adjacency)
        assert worst(recipe, features, features) <= bound
    attained = {"adassp": 0.5, "gram": 0.45, "laplace": 0.5}[method]
    assert worst(recipe, features, 1) >= attained * bound  # the bound is no fantasy


def test_the_replace_bounds_hold_and_the_first_is_attained():
    # x, z unit vectors with inner product 1/2 and opposite targets: |xx'-zz'|_F^2 + |x+z|^2 = 3/2 + 3
    x, z = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    frobenius = np.sum((np.outer(x, x) - np.outer(z, z)) ** 2) + np.sum((x + z) ** 2)
    assert frobenius == pytest.approx(4.5)
    rng, many = np.random.default_rng(5), 20_000
    drawn = rng.standard_normal((2, many, 3)) * rng.uniform(0.5, 3, (many, 1))
    a, b = drawn / np.maximum(1.0, np.linalg.norm(drawn, axis=2, keepdims=True))
    y, w = np.where(rng.random((2, many)) < 0.75, rng.integers(-1, 2, (2, many)), rng.uniform(-1, 1, (2, many)))
    squares = a[:, :, None] * a[:, None, :] - b[:, :, None] * b[:, None, :]
    two = (squares**2).sum(axis=(1, 2)) + ((y[:, None] * a - w[:, None] * b) ** 2).sum(axis=1)
    assert two.max() <= 4.5 + 1e-9
    assert (two + (y * y - w * w) ** 2).max() <= 5.5 + 1e-9
    assert two.max() > 4.2  # some come near


def test_errata_35_and_58_the_notes_count_their_sums_wrongly():
    """The notes say 3p + C(p,2) sums. With an intercept the sum of y and the number of rows are needed too; without
    one the sums of x are not. Features and targets in [0, 1]: the Laplace scale is the number of sums over epsilon.
    """
    for p in (1, 3, 6):
        pairs = p * (p - 1) // 2
        for intercept, count in ((True, 3 * p + pairs + 2), (False, 2 * p + pairs)):
            recipe = Sums("laplace", math.sqrt(p), intercept, -1.0, 1.0, 1.0, "add_remove")
            known = ts.theorems.regression_statistics(covariates=p, intercept=intercept)
            assert count == known + intercept  # the number of rows is private here
            scale, noise = recipe.scale(p), recipe.noise(p + intercept)
            assert noise.dimension == count
            law_scale = noise.law.scale * noise.granularity
            assert law_scale * scale.longest**2 == pytest.approx(count, rel=1e-4)  # in X'X
            assert law_scale * scale.longest * scale.reach == pytest.approx(count, rel=1e-4)  # in X'y


# ---- exact privacy: the law of the release on neighbouring data ----


def lattice_loss(noise, difference, draws=4000, seed=0):
    """Privacy losses log(P/Q) of releases of one data set against its neighbour, from the lattice law itself."""
    rng = np.random.default_rng(seed)
    shift = np.array(noise.prepare(list(difference), strict=False)) - np.array(
        noise.prepare([Fraction(0)] * len(difference), strict=False)
    )
    if noise.law.name == "laplace":
        points = np.rint(rng.laplace(0, noise.law.scale, (draws, len(shift))))
        return (np.abs(points - shift) - np.abs(points)).sum(axis=1) / noise.law.scale
    points = np.rint(rng.normal(0, noise.law.scale, (draws, len(shift))))
    return ((points - shift) ** 2 - points**2).sum(axis=1) / (2 * noise.law.scale**2)


def exact_mu(noise, difference):
    """Of two lattice Gaussians that far apart; the squared distance is exact."""
    return norm_of("gaussian", difference) / (noise.law.scale * noise.granularity)


@dataclass(frozen=True)
class Leaky(Sums):
    """Broken twins: half the noise, and an intercept that is not counted in the norm."""

    fault: str = ""

    def noise(self, width):
        made = super().noise(width)
        return (
            replace(made, law=replace(made.law, **{made.law.__slots__[-1]: made.law.scale / 2}))
            if self.fault == "half"
            else made
        )

    def scale(self, features):
        right = super().scale(features)
        return replace(right, longest=self.row_norm, constant=self.row_norm) if self.fault == "outside" else right


def worst_pair(recipe):
    """One row at the norm against none (or its worst partner): what every price must cover."""
    row, none = ([[1.0, 0.0]], [recipe.low]), (np.zeros((0, 2)), [])
    if recipe.adjacency == "replace":
        none = ([[-1.0, 0.0]], [recipe.high])
    return released_difference(recipe, row, none)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize("method", ["adassp", "gram"])
def test_the_gaussian_price_is_above_the_law_of_the_release_alone_and_composed(method, adjacency):
    recipe = sums(method, adjacency=adjacency)
    mu = exact_mu(recipe.noise(3), worst_pair(recipe))
    assert 0.4 * recipe.budget <= mu <= recipe.budget
    truth = ts.gdp(mu=mu, adjacency=adjacency)
    other = ts.pure_dp(epsilon=0.4, adjacency=adjacency)
    for epsilon in (0.1, 0.5, 1.0):
        assert truth.delta(epsilon=epsilon) <= recipe.privacy.delta(epsilon=epsilon)
        assert (truth + other).delta(epsilon=epsilon) <= (recipe.privacy + other).delta(epsilon=epsilon)
    losses = lattice_loss(recipe.noise(3), worst_pair(recipe))
    share = np.mean(np.maximum(0.0, 1.0 - np.exp(0.3 - losses)))
    assert share <= recipe.privacy.delta(epsilon=0.3) + 4 / math.sqrt(len(losses)) / 4


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_the_laplace_price_is_above_every_log_ratio(adjacency):
    recipe = sums("laplace", adjacency=adjacency)
    losses = lattice_loss(recipe.noise(3), worst_pair(recipe))
    assert losses.max() <= recipe.privacy.epsilon(delta=0) + 1e-9
    assert losses.max() >= 0.2 * recipe.privacy.epsilon(delta=0)


@pytest.mark.parametrize("method", ["adassp", "gram", "laplace"])
def test_half_the_noise_is_caught(method):
    twin = Leaky(method, 1.0, False, -1.0, 1.0, 0.5, "add_remove", fault="half")
    row, none = ([[1.0]], [1.0]), (np.zeros((0, 1)), [])
    difference = released_difference(twin, row, none)  # one column at its bounds: every sum moves as far as it can
    if method == "laplace":
        assert lattice_loss(twin.noise(1), difference).max() > twin.privacy.epsilon(delta=0)
    else:
        assert exact_mu(twin.noise(1), difference) > twin.budget


@pytest.mark.parametrize("method", ["adassp", "gram", "laplace"])
def test_an_intercept_outside_the_norm_is_caught(method):
    twin = Leaky(method, 1.0, True, -1.0, 1.0, 0.5, "add_remove", fault="outside")
    difference = released_difference(twin, ([[1.0]], [1.0]), (np.zeros((0, 1)), []))
    assert norm_of(method, difference) > sensitivity(method, 2, Adjacency.ADD_REMOVE)


@pytest.mark.parametrize(("method", "delta"), [("adassp", 1e-6), ("gram", 1e-6), ("laplace", None)])
def test_every_released_sum_is_noisy(method, delta):
    """diffprivlib 0.6.6 has no noise on diagonal entries of X'X of features bounded below by 0: here all have it."""
    recipe = LinearRegression(1.0, delta=delta, row_norm=1, target_bound=1, method=method)._recipe()
    rng = np.random.default_rng(0)
    data = given(rng.uniform(-0.5, 0.5, (50, 3)), rng.uniform(-1, 1, 50))
    exact = np.array([float(x) for x in recipe.exact(data.rows, data.targets)])
    noise = np.array([recipe.train(data, SYSTEM)["sums"] for _ in range(200)]) - exact
    ratio = noise.std(axis=0) / math.sqrt(recipe.noise(4).variance)
    assert ratio.min() > 0.6
    assert ratio.max() < 1.6
    assert np.abs(np.corrcoef(noise.T) - np.eye(noise.shape[1])).max() < 0.5  # and no noise is used twice


# ---- exact sums and public rules ----


def test_the_sums_are_exact_whatever_the_order_and_the_number_of_rows():
    rng = np.random.default_rng(2)
    recipe = sums("gram", row_norm=1e-3)
    rows, targets = rng.uniform(-1e-3, 1e-3, (9000, 2)), rng.uniform(-2, 1, 9000)
    total = recipe.exact(rows, targets)
    order = rng.permutation(9000)
    assert recipe.exact(rows[order], targets[order]) == total
    halves = [recipe.exact(rows[a], targets[a]) for a in (order[:4000], order[4000:])]
    assert [a + b for a, b in zip(*halves, strict=True)] == total
    steps = [[int(entry) for entry in row] for row in recipe.steps(rows, targets).tolist()]
    assert total[0] == Fraction(sum(row[0] * row[0] for row in steps), 1 << 40)
    assert total[-1] == Fraction(sum(row[-1] * row[-1] for row in steps), 1 << 40)


def test_rows_that_hold_no_numbers_are_left_out_and_never_raise():
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bound=1)
    recipe = model._recipe()
    rows = [[0.5], [math.nan], [math.inf], [0.25], [1e308], [5e-324], [-0.0]]
    targets = [1.0, 1.0, 1.0, math.nan, math.inf, -math.inf, 9.0]
    with np.errstate(all="raise"):
        model.fit(rows, targets)
    data = given(rows, targets).usable(1)
    assert len(data.rows) == 5
    clean = recipe.exact(np.array([[0.5], [1e308], [5e-324], [0.0]]), np.array([1.0, 1.0, -1.0, 1.0]))
    assert recipe.exact(data.rows, numbers(data.targets, -1.0, 1.0)) == clean


def test_a_long_row_counts_less_and_keeps_its_line():
    recipe = sums(intercept=True, row_norm=1.0)
    short, long = recipe.steps(np.array([[1.0], [4.0]]), np.array([-2.0, -2.0]))
    assert long[1] == pytest.approx(short[1] / 4, rel=1e-5)
    assert long[2] == pytest.approx(short[2] / 4, rel=1e-5)
    assert long[0] == pytest.approx(short[0], rel=1e-5)


def test_no_rows_at_all_give_a_model():
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bound=1, method="gram").fit(np.zeros((0, 2)), [])
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict([[1.0, 1.0]])).all()
    assert not hasattr(model, "covariance_")
    with pytest.raises(Refused, match="no interval"):
        model.intervals()


# ---- the model ----


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(7)
    rows = rng.uniform(-1, 1, (40_000, 2))
    return rows, rows @ [1.0, -0.5] + 0.7 + 0.2 * rng.standard_normal(40_000)


@pytest.mark.parametrize(("method", "delta"), [("adassp", 1e-6), ("gram", 1e-6), ("laplace", None)])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_line_is_found(line, method, delta, intercept):
    rows, targets = line
    model = LinearRegression(
        2.0, delta=delta, row_norm=1.5, target_bounds=(-2, 3), method=method, fit_intercept=intercept
    )
    model.fit(rows, targets - (0 if intercept else 0.7))
    assert model.coef_ == pytest.approx([1.0, -0.5], abs=0.05)
    assert model.intercept_ == pytest.approx(0.7 if intercept else 0.0, abs=0.05)
    assert model.predict([[0.5, 0.5]]) == pytest.approx([0.25 + model.intercept_], abs=0.06)
    assert model.score(rows, targets, public=True) <= 1.0


def test_intervals_cover_where_sampling_variance_alone_does_not():
    rng = np.random.default_rng(11)
    truth = np.array([1.0, -0.5, 0.3])
    hits, naive = np.zeros(3), np.zeros(3)
    for _ in range(200):
        rows = rng.uniform(-1, 1, (3000, 2))
        targets = rows @ truth[:2] + truth[2] + 0.2 * rng.standard_normal(3000)
        model = LinearRegression(2.0, delta=1e-6, row_norm=math.sqrt(2), target_bounds=(-3, 3), method="gram")
        ends = model.fit(rows, targets).intervals(confidence=0.9)
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        sampling = 1.645 * np.sqrt(np.diag(model.covariance_ - model.noise_covariance_))
        naive += np.abs(np.append(model.coef_, model.intercept_) - truth) <= sampling
    assert (hits / 200 >= 0.83).all()
    assert (hits / 200 <= 0.97).all()
    assert (naive[:2] / 200 < 0.75).all()


@pytest.mark.parametrize("per_person", [1, 5, 20])
def test_intervals_cover_however_alike_the_rows_of_a_person_are(per_person):
    """Found from outside: rows of one person counted as independent: 95 % intervals covered 30 % with 20 each."""
    rng = np.random.default_rng(7)
    truth, fits, people = np.array([1.0, -0.5, 0.3]), 100, 400
    hits, naive = np.zeros(3), np.zeros(3)
    for _ in range(fits):
        rows = rng.uniform(-1, 1, (people, 2))
        targets = rows @ truth[:2] + truth[2] + 0.5 * rng.standard_normal(people)
        rows, targets, who = (np.repeat(value, per_person, axis=0) for value in (rows, targets, np.arange(people)))
        model = LinearRegression(
            100.0, delta=1e-3, row_norm=math.sqrt(2), target_bounds=(-4, 4), method="gram", rows_per_unit=per_person
        ).fit(rows, targets, units=who)
        ends, off = model.intervals(confidence=0.9), np.append(model.coef_, model.intercept_) - truth
        hits += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        alone = np.diag((model.covariance_ - model.noise_covariance_) / per_person + model.noise_covariance_)
        naive += np.abs(off) <= 1.645 * np.sqrt(alone)
    assert (hits / fits >= 0.81).all()
    assert (hits / fits <= 0.98).all()
    assert (naive / fits < 0.75).all() == (per_person > 1)
    assert str(per_person if per_person > 1 else "one") in model.intervals_about


def test_intervals_say_which_targets_they_are_about():
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bounds=(-2, 3), method="gram")
    assert "clamped to [-2, 3]" in model.intervals_about


def test_the_noise_covariance_is_that_of_the_released_noise(line):
    rows, targets = line[0][:2000], line[1][:2000]
    made = [
        LinearRegression(2.0, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3)).fit(rows, targets) for _ in range(200)
    ]
    found = np.cov(np.array([np.append(model.coef_, model.intercept_) for model in made]).T)
    told = np.mean([model.noise_covariance_ for model in made], axis=0)
    assert np.sqrt(np.diag(found) / np.diag(told)) == pytest.approx(np.ones(3), abs=0.25)


def test_intervals_are_refused_where_they_would_say_nothing(line):
    rows, targets = line
    few = LinearRegression(0.5, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3), method="gram").fit(
        rows[:20], targets[:20]
    )
    with pytest.raises(Refused, match="no interval"):
        few.intervals()
    full = LinearRegression(2.0, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3), method="gram").fit(rows, targets)
    assert full.intervals().shape == (3, 2)
    with pytest.raises(Refused, match="no interval"):
        full.refit(ridge=5.0).intervals()
    plain = LinearRegression(2.0, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3)).fit(rows, targets)
    with pytest.raises(Refused, match="gram"):
        plain.intervals()
    with pytest.raises(InvalidInput, match="confidence"):
        full.intervals(confidence=1.5)


def test_another_ridge_reads_the_same_sums(line):
    model = LinearRegression(2.0, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3)).fit(*line)
    before, kept = model.coef_.copy(), model.statistics_
    assert np.abs(model.refit(ridge=1e6).coef_).max() < 0.1
    assert model.statistics_ is kept
    assert model.refit(ridge=None).coef_.tolist() == before.tolist()
    assert model.refit(ridge=0).ridge_ >= 0.0


def test_a_matrix_that_is_all_noise_still_gives_finite_numbers():
    bad = Statistics(-np.eye(2), np.ones(2), None, np.ones((2, 2)), np.ones(2), 0.0, None)
    assert np.linalg.eigvalsh(bad.matrix(bad.least_ridge()))[0] >= bad.tall - 1e-9
    assert np.isfinite(bad.solve(bad.stable_ridge(0.0))).all()


# ---- price, pay, refuse ----


@pytest.fixture
def account(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-5), unit="patient")


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
def test_epsilon_is_about_the_whole_unit(rows, adjacency):
    gaussian = LinearRegression(
        1.0, delta=1e-6, row_norm=1, target_bound=1, rows_per_unit=rows, adjacency=adjacency
    ).privacy
    assert 0.999 <= gaussian.epsilon(delta=1e-6) <= 1.0
    assert str(gaussian.adjacency) == adjacency
    pure = LinearRegression(1.0, row_norm=1, target_bound=1, rows_per_unit=rows, adjacency=adjacency).privacy
    assert 0.999 <= pure.epsilon(delta=0) <= 1.0


@pytest.mark.parametrize("method", ["adassp", "gram", "laplace"])
@pytest.mark.parametrize("width", [1, 4, 40])
def test_the_published_price_is_that_of_the_noise_or_above(method, width):
    recipe = sums(method)
    assert recipe.noise(width).privacy <= recipe.privacy


def test_a_paid_fit_is_charged_once_per_key(account, line):
    rows, targets = line[0][:100], line[1][:100]
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bound=1)
    first = clone(model).fit(rows, targets, account=account, why="a line", key="k", delta=1e-6, units=list(range(100)))
    again = clone(model).fit(
        rows[:50], targets[:50], account=account, why="a line", key="k", delta=1e-6, units=list(range(50))
    )
    assert first.coef_.tolist() == again.coef_.tolist()
    assert first.receipt_ == again.receipt_
    assert len(list(account.history())) == 1
    with pytest.raises(ts.errors.TallystickError):
        clone(model).set_params(row_norm=2).fit(rows, targets, account=account, why="a line", key="k", delta=1e-6)
    with pytest.raises(ts.errors.TallystickError):
        model.set_params(adjacency="replace").fit(rows, targets, account=account, why="a line", delta=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0}, {"epsilon": math.nan}, {"epsilon": "1"}, {"epsilon": 1e9}, {"delta": 1.0}, {"delta": -1},
        {"row_norm": 0}, {"row_norm": math.inf}, {"row_norm": None}, {"target_bound": None}, {"target_bound": -1},
        {"target_bounds": (0, 1)}, {"target_bound": None, "target_bounds": (1, 0)}, {"method": "ols"},
        {"method": "laplace"}, {"method": "gram", "delta": None}, {"ridge": -1}, {"rows_per_unit": 0},
        {"adjacency": "both"}, {"target_bound": 1e300}, {"target_bound": None, "target_bounds": 3},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_before_the_charge(account, bad):
    options = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0, "target_bound": 1.0, **bad}
    model = LinearRegression(**options)
    with pytest.raises(InvalidInput):
        _ = model.privacy
    with pytest.raises(InvalidInput):
        model.fit([[1.0]], [1.0], account=account, why="x")
    assert not list(account.history())


def test_bad_containers_are_refused_before_the_charge(account):
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bound=1)
    for rows, targets in (
        (np.array([["a"]]), [1.0]),
        ([[1.0]], np.array(["a"])),
        ([[1.0]], [1.0, 2.0]),
        ([[1.0]], None),
        ([1.0], [1.0]),
    ):
        with pytest.raises(InvalidInput):
            model.fit(rows, targets, account=account, why="x")
    assert not list(account.history())
    model.fit([[1.0]], [1.0])
    with pytest.raises(InvalidInput, match="features"):
        model.predict([[1.0, 2.0]])
    with pytest.raises(InvalidInput, match="finite"):
        model.predict([[math.nan]])
    with pytest.raises(Refused, match="public"):
        model.score([[1.0]], [1.0])


# ---- a score of private data is a release ----


def scored(model, rows, targets, units=None, epsilon=1.0):
    noise = ts.noise.add_laplace(epsilon=epsilon, sensitivity=4 * model.rows_per_unit, dimension=4)
    return scoring.Fitted(model, given(rows, targets, units), noise, model.rows_per_unit, model._targets())


@pytest.mark.parametrize("features", [1, 3])
def test_one_row_moves_the_sums_of_a_score_by_what_is_priced_and_half_is_caught(features):
    model = LinearRegression(1.0, delta=1e-6, row_norm=1, target_bounds=(-2, 3)).fit(np.ones((9, features)), np.ones(9))
    random, most, replaced = np.random.default_rng(4), 0.0, 0.0
    wide = random.normal(size=(60, features)) * 10.0 ** random.integers(-2, 300, (60, 1))
    targets = random.choice([-2.0, 3.0, 0.1, 1e9, -np.inf], 60)
    whole = scored(model, wide, targets).exact()
    for gone in range(60):
        stay = np.arange(60) != gone
        fewer = scored(model, wide[stay], targets[stay]).exact()
        most = max(most, norm_of("laplace", [a - b for a, b in zip(whole, fewer, strict=True)]))
        other = np.where(stay[:, None], wide, -wide), np.where(stay, targets, -targets)
        swapped = scored(model, *other).exact()
        replaced = max(replaced, norm_of("laplace", [a - b for a, b in zip(whole, swapped, strict=True)]))
    assert 2.0 < most <= 4.0
    assert replaced <= 4.0
    # every log ratio of Laplace noise is the distance over the scale, so half the noise would exceed the price
    assert most / (4.0 / 2.0) > 1.0


def test_a_score_of_private_data_is_paid_for_and_close_to_the_truth(line, tmp_path):
    rows, targets = line
    model = LinearRegression(2.0, delta=1e-6, row_norm=1.5, target_bounds=(-2, 3)).fit(rows, targets)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=2), unit="patient")
        with pytest.raises(Refused, match="release"):
            model.score(rows, targets)
        with pytest.raises(InvalidInput, match="epsilon"):
            model.score(rows, targets, account=account, why="how good")
        with pytest.raises(InvalidInput, match="score"):
            model.score(rows, targets, public=True, epsilon=1)
        with pytest.raises(InvalidInput, match="features"):
            model.score(rows[:, :1], targets, account=account, why="how good", epsilon=0.5)
        found = model.score(rows, targets, account=account, why="how good", epsilon=0.5, key="s")
        assert found == pytest.approx(model.score(rows, targets, public=True), abs=0.02)
        assert model.score(rows[:3], targets[:3], account=account, why="how good", epsilon=0.5, key="s") == found
        with pytest.raises(ts.errors.TallystickError):  # the same key, another price
            model.score(rows, targets, account=account, why="how good", epsilon=0.6, key="s")
        assert len(list(account.history())) == 1
        odd = model.score([[np.nan, 1], None, [1e308, -1e308]], [1, 2, None], account=account, why="odd", epsilon=0.5)
        assert math.isfinite(odd)
        assert odd <= 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["QuantileRegression", "ExponentialERM", "KNormGradient"])
def test_every_regressor_is_scored_for_a_price(kind, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.uniform(-0.7, 0.7, (20_000, 2))
    targets = rows @ [0.6, -0.3] + rng.normal(0, 0.1, 20_000)
    options = {"feature_bound": 1, "target_bound": 1, "coefficient_bound": 1}
    if kind == "QuantileRegression":
        options = {"delta": 1e-6, "row_norm": 1, "target_bound": 1}
    model = getattr(ts.learn, kind)(epsilon=2.0, **options).fit(rows, targets)
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.pure_dp(epsilon=2), unit="patient")
        found = model.score(rows, targets, account=account, why="how good", epsilon=1.0)
        assert found == pytest.approx(model.score(rows, targets, public=True), abs=0.05)
        with pytest.raises(Refused, match="release"):
            model.score(rows, targets)
        assert len(list(account.history())) == 1


PUBLIC = {  # why each of scikit-learn's checks cannot hold here
    "check_fit_score_takes_y": "a score is a release",
    "check_n_features_in_after_fitting": "a score is a release",
    "check_pipeline_consistency": "a score is a release",
    "check_regressors_train": "a score is a release",
    "check_estimators_empty_data_messages": "data are not refused: no rows are data",
    "check_estimators_nan_inf": "data are not refused: NaN is data",
    "check_supervised_y_no_nan": "data are not refused: an infinite target is data",
    "check_dtype_object": "what an object array holds is data, so the type is refused",
    "check_regressor_data_not_an_array": "randomness",
    "check_regressors_int": "randomness",
    "check_fit_idempotent": "randomness",
    "check_supervised_y_2d": "randomness",
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks():
    model = LinearRegression(1.0, delta=1e-6, row_norm=5, target_bound=5)
    failed = {
        found["check_name"]
        for found in check_estimator(model, on_fail=None, on_skip=None)
        if found["status"] == "failed"
    }
    assert failed <= set(PUBLIC)
