"""LogisticRegression: its price, what it refuses, what it reads by rule, and how it is paid for."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import tallystick as ts
from tallystick.accounting.expression import read_loss
from tallystick.errors import InvalidInput, Refused
from tallystick.learn import LogisticRegression, descent, estimator, logistic, scoring
from tallystick.learn.records import given
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")


def table(rows: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, (X @ [4.0, -2.0, 0.5] + 0.3 * random.logistic(size=rows) > 0).astype(int)


X, y = table()
COMMON = {"row_norm": 1.0, "classes": [0, 1]}


@pytest.fixture
def account(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-5), unit="patient")


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 1e-6},
        {"delta": 1e-6, "regularization": 50.0},
        {"delta": 1e-6, "solver": "noisy_gd"},
        {"delta": 1e-6, "solver": "noisy_gd", "adjacency": "replace", "rows_per_unit": 3},
        {},
        {"rows_per_unit": 4},
        {"adjacency": "replace"},
        {"classes": [0, 1, 2]},
        {"delta": 1e-5, "classes": ["a", "b", "c"]},
    ],
)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_published_loss_is_at_most_what_was_asked(options, epsilon):
    model = LogisticRegression(epsilon, **{**COMMON, **options})
    delta = options.get("delta", 0.0)
    assert model.privacy.epsilon(delta=delta) <= epsilon
    assert model.privacy.epsilon(delta=delta) >= 0.97 * epsilon
    assert model.privacy.protects.adjacency.value == options.get("adjacency", "add_remove")


def test_one_against_the_rest_pays_for_every_class():
    model = LogisticRegression(1.0, delta=1e-6, row_norm=1.0, classes=[0, 1, 2], solver="objective")
    assert 0.9 <= model.privacy.epsilon(delta=1e-6) <= 1.0
    single = LogisticRegression(1.0, delta=1e-6, row_norm=1.0, classes=[0, 1])
    assert model._recipe().sigma > 1.7 * single._recipe().sigma


@pytest.mark.parametrize("options", [{"delta": 1e-6}, {}, {"delta": 1e-6, "solver": "noisy_gd"}])
def test_it_learns(options):
    model = LogisticRegression(1.0, **COMMON, **options).fit(X, y)
    assert model.score(*table(seed=1), public=True) > 0.85
    assert model.coef_.shape == (1, 3)
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(np.ones(5))
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


@pytest.mark.parametrize("solver", ["noisy_gd", "objective"])
@pytest.mark.parametrize("multiclass", ["softmax", "ovr"])
def test_many_classes(multiclass, solver):
    random = np.random.default_rng(3)
    places = random.integers(0, 3, 4000)
    rows = np.eye(3)[places] * 0.9 + random.normal(size=(4000, 3)) * 0.05
    names = np.array(["red", "green", "blue"])[places]
    options = {"row_norm": 1.0, "classes": ["red", "green", "blue"], "multiclass": multiclass, "solver": solver}
    model = LogisticRegression(2.0, delta=1e-6, **options).fit(rows, names)
    assert model.privacy_.epsilon(delta=1e-6) <= 2.0
    assert model.score(rows, names, public=True) > 0.9
    assert model.predict_proba(rows[:4]).shape == (4, 3)


def test_a_larger_scale_of_rows_gives_the_same_problem():
    small, large = (
        LogisticRegression(1.0, delta=1e-6, row_norm=norm, classes=[0, 1])._recipe() for norm in (1.0, 50.0)
    )
    assert small.sigma == large.sigma
    assert small.strength(4) * 50**2 == pytest.approx(large.strength(4))


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("epsilon", [0.0, -1.0, math.nan, math.inf, "1", None, 1e6]),
        ("delta", [-0.1, 1.0, 2.0, math.nan, "x"]),
        ("row_norm", [0.0, -1.0, math.inf, None, "1"]),
        ("classes", [None, [], [1], [1, 1], "ab", [[1], [2]], [math.nan, 1.0], [None, 1], [1, "1"], 7]),
        ("solver", ["newton", "knorm", 3]),
        ("multiclass", ["other"]),
        ("regularization", [-1.0, math.nan]),
        ("most_rows", [0, -1, 1.5]),
        ("rows_per_unit", [0, -2, 1.5]),
        ("adjacency", ["sideways"]),
    ],
)
def test_bad_hyper_parameters_are_refused_before_a_charge(account, argument, bad):
    for value in bad:
        model = LogisticRegression(**{"epsilon": 1.0, "delta": 1e-6, **COMMON, argument: value})
        with pytest.raises(InvalidInput):
            model.fit(X, y, account=account, why="x")
        with pytest.raises(InvalidInput):
            _ = model.privacy
    assert not list(account.history())


def test_more_rows_than_declared_are_refused_before_a_charge(account):
    with pytest.raises(InvalidInput, match="most_rows"):
        LogisticRegression(1.0, delta=1e-6, **COMMON, most_rows=10).fit(X, y, account=account, why="x")
    assert not list(account.history())


def theta(model: LogisticRegression, rows: object, labels: object, units: object = None, seed: int = 4) -> np.ndarray:
    data = given(rows, labels, units).usable(model.rows_per_unit)
    return np.asarray(model._recipe().train(data, SeededSource(seed))["theta"])


@pytest.mark.parametrize("options", [{"delta": 1e-6}, {}, {"delta": 1e-6, "solver": "noisy_gd", "steps": 3}])
def test_odd_rows_and_labels_follow_a_rule_and_count_for_nothing(options):
    model = LogisticRegression(1.0, **COMMON, **options)
    plain = theta(model, X, y)
    odd = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, -np.inf, 0], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]])
    labels = np.concatenate([y.astype(object), np.array([0, 1, 0, "nobody", None], dtype=object)])
    np.testing.assert_allclose(theta(model, np.concatenate([X, odd]), labels), plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{"delta": 1e-6}, {}, {"delta": 1e-6, "solver": "noisy_gd", "steps": 2}])
@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (np.zeros((0, 3)), []),
        (np.full((4, 3), np.nan), [0, 1, 0, 1]),
        (np.full((4, 3), 1e308), [0, 0, 0, 0]),
        (np.full((4, 3), 5e-324), [1, 1, 1, 1]),
        (np.ones((4, 3)), ["x", None, 2.5, "0"]),
    ],
)
def test_no_content_raises_or_warns(options, rows, labels, recwarn):
    model = LogisticRegression(1.0, **COMMON, **options).fit(rows, np.array(labels, dtype=object))
    assert np.isfinite(model.coef_).all()
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]
    assert model.classes_.tolist() == [0, 1]  # declared, not learned: one class or none in the data changes no shape


def test_a_unit_keeps_its_first_rows():
    model = LogisticRegression(1.0, delta=1e-6, **COMMON, rows_per_unit=2)
    units = np.arange(len(y)) // 2
    more = np.concatenate([X, X[:500]]), np.concatenate([y, 1 - y[:500]]), np.concatenate([units, units[:500]])
    np.testing.assert_allclose(theta(model, *more), theta(model, X, y, units), rtol=1e-6, atol=1e-6)


def test_frames_are_read():
    model = LogisticRegression(1.0, delta=1e-6, **COMMON)
    names = ["a", "b", "c"]
    for frame, labels in (
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pl.DataFrame(X, schema=names), pl.Series(y)),
    ):
        np.testing.assert_allclose(theta(model, frame, labels), theta(model, X, y), rtol=1e-9)


# ---- noisy descent: one row moves the sum by what is priced ----


class Silent:
    """A noise law without noise."""

    def draw(self, size, source):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("which", ["first", "step"])
def test_one_row_moves_an_exact_sum_by_at_most_what_is_priced(monkeypatch, softmax, classes, which):
    if softmax and len(classes) == 2:
        pytest.skip("two classes have one score")
    rows = logistic.Rows(1.0, True, classes)
    recipe = descent.NoisyDescent(rows, 5.0, 3, softmax, 0.0, "add_remove")
    seen: list[tuple[float, int]] = []
    sums: list[np.ndarray] = []
    monkeypatch.setattr(descent, "integer_law", lambda sigma, longest: seen.append((sigma, longest)) or Silent())
    plain = descent.NoisyDescent.noisy_sums
    monkeypatch.setattr(descent.NoisyDescent, "noisy_sums", lambda self, *args: sums.append(plain(*args)) or sums[-1])
    random = np.random.default_rng(7)
    values, places = random.normal(size=(41, 6)), random.integers(0, len(classes), 41)
    at = random.normal(size=(recipe.outputs, 7)) * 3

    def total(kept: np.ndarray) -> np.ndarray:
        extended = rows.extended(values[kept])
        if which == "first":
            recipe.first(extended, SYSTEM)
            return sums[-1]
        columns = np.ascontiguousarray(extended.T)
        lengths = np.sqrt(sum(column * column for column in columns))
        return recipe.noisy_gradient(columns, lengths, places[kept], at, recipe.pull * rows.longest, SYSTEM).ravel()

    whole = total(np.ones(41, dtype=bool))
    step = 2.0 ** (math.floor(math.log2(1.0 if which == "first" else recipe.pull * rows.longest)) - descent.BITS)
    most = 0.0
    for gone in range(41):
        moved = (whole - total(np.arange(41) != gone)) / step
        assert np.all(moved == np.rint(moved))  # integers: no other row's low bits changed
        assert np.linalg.norm(moved) <= seen[-1][1]
        most = max(most, float(np.linalg.norm(moved)) / seen[-1][1])
    assert most > 0.8
    sigma = 5.0 if which == "step" else 5.0 / math.sqrt(3 * descent.FIRST_SHARE)
    assert seen[-1][0] == pytest.approx(sigma)


def test_theinteger_law_costs_at_most_its_gaussian():
    from fractions import Fraction

    from tallystick.accounting.adjacency import Protects

    for sigma, longest in ((0.7, 2**30), (23.0, 2**30 + 17), (400.0, 2**31)):
        law = descent.integer_law(sigma, longest)
        assert law.norm_privacy(Fraction(longest) ** 2, Protects()) <= ts.gaussian(sigma=sigma)


# ---- paying ----


def test_a_paid_fit_is_charged_once_and_the_same_key_gives_the_same_model(account):
    model = LogisticRegression(1.0, delta=1e-6, **COMMON)
    first = clone(model).fit(X, y, account=account, why="triage", key="k", delta=1e-6)
    again = clone(model).fit(X[:10], y[:10], account=account, why="triage", key="k")  # its own delta
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert first.receipt_ == again.receipt_
    assert len(list(account.history())) == 1
    assert first.privacy_ == model.privacy


def test_the_same_key_gives_the_same_model_in_another_process(account, tmp_path):
    model = LogisticRegression(1.0, delta=1e-6, **COMMON).fit(X, y, account=account, why="triage", key="k", delta=1e-6)
    code = f"""
import numpy as np, tallystick as ts
with ts.Ledger({str(tmp_path / "budget.db")!r}) as ledger:
    model = ts.learn.LogisticRegression(1.0, delta=1e-6, row_norm=1.0, classes=[0, 1])
    model.fit(np.zeros((2, 3)), [0, 1], account=ledger.accounts()[0], why="triage", key="k", delta=1e-6)
print(model.coef_.tolist())
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == str(model.coef_.tolist())


@pytest.mark.parametrize("labels", [2, 3])
def test_which_class_a_row_gets_in_a_score_does_not_depend_on_the_others(labels):
    """Found from outside: a product of one row rounds otherwise than one of two, so both rows changed sides."""
    random = np.random.default_rng(0)
    for _ in range(200):
        row, coef = random.normal(size=(1, 9)) / 9, random.normal(size=(1 if labels == 2 else labels, 9))
        tied = -(row @ coef.T)[0]
        model = LogisticRegression(epsilon=1, row_norm=1, classes=list(range(labels)))
        model.coef_, model.intercept_, model.n_features_in_ = coef, tied, 9
        for others in (1, 2, 30):
            both = np.concatenate([row, random.normal(size=(others, 9))])
            assert scoring._predicted(model, both)[0] == scoring._predicted(model, row)[0]


@pytest.mark.parametrize("budget", [ts.approx_dp(epsilon=3, delta=1e-5), ts.zcdp(rho=1), ts.gdp(mu=2)])
def test_every_currency_pays_and_the_record_is_priced_again_from_its_text(tmp_path, budget):
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("x", budget=budget, unit="person")
        model = LogisticRegression(1.0, delta=1e-6, **COMMON).fit(X, y, account=account, why="x")
        assert ledger.verify().problems == ()
    assert read_loss(str(model.privacy_)) == model.privacy_
    assert ts.PrivacyLoss.from_json(model.privacy_.to_json()) == model.privacy_


def test_a_score_of_private_data_is_paid_for(account):
    model = LogisticRegression(1.0, delta=1e-6, **COMMON).fit(X, y)
    with pytest.raises(Refused, match="release"):
        model.score(X, y)
    with pytest.raises(InvalidInput):
        model.score(X, y, account=account, why="how good")
    share = model.score(X, y, account=account, why="how good", epsilon=0.5, key="s")
    assert share == pytest.approx(model.score(X, y, public=True), abs=0.05)
    assert model.score(X[:3], y[:3], account=account, why="how good", epsilon=0.5, key="s") == share
    assert len(list(account.history())) == 1
    nothing = model.score(np.full((3, 3), np.nan), [0, 1, 7], account=account, why="odd", epsilon=0.5)
    assert 0.0 <= nothing <= 1.0


def test_searches_are_refused():
    model = LogisticRegression(1.0, delta=1e-6, **COMMON)
    with pytest.raises(Refused, match="Try: "):
        GridSearchCV(model, {"regularization": [1.0, 9.0]}, cv=2, error_score="raise").fit(X, y)


def test_pickles_and_predicts_the_same():
    model = LogisticRegression(1.0, **COMMON).fit(X, y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.privacy_ == model.privacy_


def test_prediction_scales_long_rows_and_refuses_what_is_no_number():
    model = LogisticRegression(1.0, **COMMON).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X[:5] * 1e6),
        model.decision_function(X[:5] / np.linalg.norm(X[:5], axis=1, keepdims=True)),
        rtol=1e-6,
    )
    with pytest.raises(InvalidInput):
        model.predict([[np.nan, 0.0, 0.0]])
    with pytest.raises(InvalidInput, match="features"):
        model.predict([[0.0, 0.0]])


@pytest.mark.parametrize("options", [{"delta": 1e-6}, {}, {"delta": 1e-6, "solver": "noisy_gd", "steps": 2}])
@pytest.mark.parametrize(("norm", "epsilon"), [(1e-9, 1.0), (1e9, 1.0), (1.0, 100.0), (1.0, 1e-4), (1e9, 100.0)])
def test_extreme_public_numbers_fit_or_are_refused_before_the_charge(account, options, norm, epsilon):
    model = LogisticRegression(epsilon, row_norm=norm, classes=[0, 1], **options)
    try:
        model.fit(X * norm, y, account=account, why="x", delta=options.get("delta"))
    except (InvalidInput, ts.errors.BudgetExceeded):
        assert not list(account.history())
    else:
        assert np.isfinite(model.coef_).all()


def test_a_failure_after_the_start_keeps_the_charge(account, monkeypatch):
    def fails(self, data, source):
        raise RuntimeError("the machine broke")

    monkeypatch.setattr(logistic.Perturbed, "train", fails)
    with pytest.raises(RuntimeError):
        LogisticRegression(1.0, **COMMON).fit(X, y, account=account, why="x")
    assert [event.state for event in account.history()] == ["BURNED"]


# ---- the law of noisy descent, by likelihood ratios on neighbouring data ----


def losses_of_descent(recipe: descent.NoisyDescent, mine: tuple, other: tuple, draws: int, seed: int) -> np.ndarray:
    """log P/Q of everything released, drawn under P: the same outputs, and the sums that either data set has then."""
    source, found = SeededSource(seed), []
    plain = descent.NoisyDescent.noisy_sums
    for _ in range(draws):
        seen: list[tuple[np.ndarray, np.ndarray, float]] = []

        def drawn(parts, longest, sigma, source, seen=seen):
            parts = list(parts)
            exact = np.array([part.sum() for part in parts])
            out = plain(parts, longest, sigma, source)
            seen.append((out, exact, sigma * longest))
            return out

        total = [0.0]

        def replayed(parts, longest, sigma, source, seen=iter(seen), total=total):
            out, exact, wide = next(seen)
            here = np.array([part.sum() for part in parts])
            total[0] += float(((out - here) ** 2 - (out - exact) ** 2).sum()) / (2 * wide**2)
            return out

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(descent.NoisyDescent, "noisy_sums", staticmethod(drawn))
            recipe.train(given(*mine), source)
            patch.setattr(descent.NoisyDescent, "noisy_sums", staticmethod(replayed))
            recipe.train(given(*other), source)
        found.append(total[0])
    return np.array(found)


def test_noisy_descent_loses_no_more_than_it_says_and_half_the_noise_is_caught():
    rows = logistic.Rows(1.0, True, (0, 1))
    recipe = descent.NoisyDescent(rows, 2.0, 3, False, 0.0, "add_remove")
    base = (np.array([[0.2], [-0.9], [0.5]]), [1, 0, 1])
    more = (np.array([[0.2], [-0.9], [0.5], [1.0]]), [1, 0, 1, 0])
    for mine, other in ((more, base), (base, more)):
        loss = losses_of_descent(recipe, mine, other, 300, seed=5)
        for epsilon in (0.3, 1.0):
            sticks = np.maximum(0.0, -np.expm1(epsilon - loss))
            told = recipe.privacy.delta(epsilon=epsilon)
            noise = 4 * sticks.std() / math.sqrt(len(sticks))
            assert sticks.mean() <= told + noise
            twin = descent.NoisyDescent(rows, 4.0, 3, False, 0.0, "add_remove").privacy.delta(epsilon=epsilon)
            assert sticks.mean() > twin + noise
        # Together with a randomized response of epsilon 1 about the same record: its loss is +1 or -1.
        truth = 1 / (1 + math.exp(-1))
        both = truth * np.maximum(0, -np.expm1(1 - loss - 1)) + (1 - truth) * np.maximum(0, -np.expm1(1 - loss + 1))
        claimed = (recipe.privacy + ts.pure_dp(epsilon=1)).delta(epsilon=1.0)
        assert both.mean() <= claimed + 4 * both.std() / math.sqrt(len(both))


class Learned(LogisticRegression):
    """A broken twin: its classes are those of the data."""

    def fit(self, X, y, **options):
        self.classes = sorted(set(y))
        return super().fit(X, y, **options)


def test_a_twin_that_learns_its_labels_tells_of_one_record():
    labels = np.r_[y, 2]
    rows = np.concatenate([X, [[0.0, 0.0, 0.1]]])
    twins = [Learned(1.0, row_norm=1.0, classes=None).fit(r, told).coef_.shape for r, told in ((X, y), (rows, labels))]
    assert twins[0] != twins[1]  # with the record and without it no output is the same: delta = 1
    ours = [LogisticRegression(1.0, **COMMON).fit(r, told).coef_.shape for r, told in ((X, y), (rows, labels))]
    assert ours[0] == ours[1]


def test_noisy_descent_finds_the_coefficients_where_there_are_enough_rows():
    """Found from outside: rows cut to their usual length gave slopes 40 % too large, however many rows there were."""
    random = np.random.default_rng(8)
    rows = random.uniform(-1, 1, (20_000, 3))
    labels = random.random(20_000) < 1 / (1 + np.exp(-(rows @ [2.0, -1.0, 0.5] + 0.7)))
    for intercept in (True, False):
        model = LogisticRegression(
            1.0, delta=1e-6, row_norm=3**0.5, classes=[0, 1], solver="noisy_gd", fit_intercept=intercept
        )
        wide = rows if intercept else np.column_stack([rows, np.ones(20_000)]) / 2
        found = theta(model, wide, labels.astype(int))[0] * ([1, 1, 1, 3**0.5] if intercept else 0.5)
        assert found == pytest.approx([2.0, -1.0, 0.5, 0.7], abs=0.2)


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 1e-6, "solver": "objective"},
        {},
        {"delta": 1e-6, "solver": "noisy_gd"},
        {"delta": 1e-6, "solver": "noisy_gd", "regularization": 100.0, "most_rows": 3000},
    ],
)
def test_the_noise_covariance_is_that_of_many_fits(options, monkeypatch):
    monkeypatch.setattr(estimator, "SYSTEM", SeededSource(4))  # forty fits are within a quarter, but not by any luck
    random = np.random.default_rng(9)
    rows = random.uniform(-1, 1, (3000, 2))
    labels = (random.random(3000) < 1 / (1 + np.exp(-(rows @ [1.0, -0.5] + 0.3)))).astype(int)
    model = LogisticRegression(2.0, **{"row_norm": 2**0.5, "classes": [0, 1], **options})
    fits = [clone(model).fit(rows, labels) for _ in range(40)]
    found = np.array([np.append(fit.coef_[0], fit.intercept_) for fit in fits])
    share = fits[0].predict_proba(rows)[:, 1]
    wide = np.column_stack([rows, np.ones(3000)])
    curvature = (wide.T * (share * (1 - share))) @ wide
    told = np.mean([np.diag(fit.noise_covariance(curvature)) for fit in fits], axis=0)
    assert np.sqrt(found.var(axis=0) / told) == pytest.approx(np.ones(3), abs=0.25)
    largest = np.diag(fits[0].noise_covariance(np.zeros((3, 3))))
    assert (largest >= told).all()
    with pytest.raises(Refused, match="curvature"):
        _ = fits[0].covariance_
    for bad in (np.zeros((2, 2)), -np.eye(3), np.full((3, 3), np.nan), "x"):
        with pytest.raises(InvalidInput):
            fits[0].noise_covariance(bad)
