"""Pipelines in front of a private fit: steps that learn from rows are refused before the charge."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)

import tallystick as ts
from tallystick.cards import fit_card
from tallystick.cards.card import read_card
from tallystick.cards.check import check_card
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.account import Account

ROWS = np.random.default_rng(0).uniform(-1, 1, (60, 10))
LABELS = (ROWS[:, 0] > 0).astype(int)


class OwnNormalizer(Normalizer):
    """A subclass may learn from rows."""


class OwnPipeline(Pipeline):
    """A subclass may draw rows again."""


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.approx_dp(epsilon=9, delta=1e-5), unit="patient")


def model() -> Any:
    return ts.learn.LogisticRegression(1.0, delta=1e-6, row_norm=1.0, classes=[0, 1])


def fitted(steps: list[Any], account: Account, rows: Any = ROWS, **said: Any) -> Any:
    """A pipeline of these steps and our estimator, paid by an account."""
    pipeline = make_pipeline(*steps, model())
    options = {"account": account, "why": "triage", **said}
    return pipeline.fit(rows, LABELS, **{f"logisticregression__{name}": value for name, value in options.items()})


def shifted(rows: np.ndarray) -> np.ndarray:
    """Divide by public numbers, row by row."""
    return (rows - 0.5) / 10.0


def centred(rows: np.ndarray) -> np.ndarray:
    """Subtract the mean of the rows, which is learned from them."""
    return rows - rows.mean(axis=0)


def finite(rows: np.ndarray) -> np.ndarray:
    """Put public numbers in the place of missing, infinite and huge ones."""
    return np.nan_to_num(rows).clip(-1000, 1000)


FINITE = FunctionTransformer(finite)
ONE_HOT = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", sparse_output=False)
LEARNING = [
    [StandardScaler(), SelectKBest(k=8), PCA(4)],
    [StandardScaler(with_mean=False, with_std=False)],
    [FINITE, Normalizer(), MinMaxScaler()],
    [SimpleImputer()],
    [OwnNormalizer()],
    [OneHotEncoder(sparse_output=False)],
    [OrdinalEncoder()],
    [OrdinalEncoder(categories=[[0, 1]] * 10, handle_unknown="use_encoded_value", unknown_value=-1, min_frequency=2)],
    [TargetEncoder()],
    [ColumnTransformer([("a", Normalizer(), [0, 1]), ("b", StandardScaler(), [2])])],
    [ColumnTransformer([("a", Normalizer(), [0, 1])], remainder=StandardScaler())],
    [ColumnTransformer([("a", "passthrough", lambda rows: [int(rows[0, 0] > 0)])])],
    [FINITE, FeatureUnion([("a", Normalizer()), ("b", PCA(2))])],
    [FINITE, make_pipeline(Normalizer(), PCA(2))],
    [FunctionTransformer(centred)],
    [make_pipeline(FINITE, Normalizer(), FunctionTransformer(centred))],
    [ColumnTransformer([("a", FunctionTransformer(centred), [0, 1])])],
]


@pytest.mark.parametrize("steps", LEARNING, ids=lambda steps: "+".join(type(step).__name__ for step in steps))
def test_a_step_that_may_learn_from_rows_is_refused_before_the_charge(steps: list[Any], account: Account) -> None:
    with pytest.raises(Refused, match="release without noise"):
        fitted(steps, account, (ROWS > 0).astype(float) if "Encoder" in str(steps) else ROWS)
    assert not account.history()


def test_a_function_of_a_data_frame_that_mixes_rows_is_refused(account: Account) -> None:
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=[f"c{i}" for i in range(10)])
    with pytest.raises(Refused, match="mixes rows"):
        fitted([FunctionTransformer(lambda rows: rows - rows.mean())], account, frame)
    assert not account.history()
    fitted([FunctionTransformer(lambda rows: rows - 0.5)], account, frame)


def text_frame() -> Any:
    """Rows with one column of text and one of numbers, some of which are missing."""
    import pandas as pd

    numbers = ROWS[:, 0].copy()
    numbers[::7] = np.nan
    return pd.DataFrame({"sex": np.where(LABELS, "f", "m"), "v": numbers})


def missing_rows() -> np.ndarray:
    rows = ROWS.copy()
    rows[::7, 3] = np.nan
    return rows


def scaled_frame(frame: Any) -> Any:
    """Scale one column by its mean, and read another by itself."""
    return frame.assign(sex=(frame.sex.str.upper() == "F") * 1.0, v=(frame.v - frame.v.mean()) / frame.v.std())


def dummies(frame: Any) -> Any:
    import pandas as pd

    return pd.get_dummies(frame, dtype=float)


LEARNING_FUNCTIONS = {
    "missing numbers from other rows": (lambda rows: np.where(np.isnan(rows), np.nanmean(rows, 0), rows), missing_rows),
    "an imputer": (SimpleImputer(keep_empty_features=True).fit_transform, missing_rows),
    "outliers become the median": (
        lambda rows: np.where(np.abs(np.nan_to_num(rows)) > 100, np.nanmedian(rows, 0), np.nan_to_num(rows)),
        missing_rows,
    ),
    "huge numbers rescale": (lambda rows: rows / max(1e7, np.nanmax(np.abs(rows))), missing_rows),
    "ranks of equal values": (lambda rows: (rows[:, None] == rows[None]).sum(0).astype(float), lambda: ROWS),
    "the median of a frame": (lambda frame: frame[["v"]].fillna(frame.v.median()), text_frame),
    "frequencies of text": (lambda frame: frame.assign(sex=frame.sex.map(frame.sex.value_counts())), text_frame),
    "scaling beside text": (scaled_frame, text_frame),
    "categories of text": (dummies, text_frame),
    "codes of a list": (lambda rows: np.unique(rows, return_inverse=True)[1].reshape(-1, 1), lambda: ROWS.tolist()),
}


@pytest.mark.parametrize("case", LEARNING_FUNCTIONS)
def test_a_function_that_learns_from_rows_is_refused_whatever_shows_it(case: str, account: Account) -> None:
    function, rows = LEARNING_FUNCTIONS[case]
    with pytest.raises(Refused, match="mixes rows"):
        fitted([FunctionTransformer(function)], account, rows())
    assert not account.history()


def test_a_function_that_cannot_be_tried_is_refused_unless_the_caller_answers(account: Account) -> None:
    frame = text_frame()
    step = FunctionTransformer(lambda rows: np.array([[{"f": 0.0, "m": 1.0}[word]] for word in rows.sex]))
    with pytest.raises(Refused, match=r"cannot be tried.*preprocessing=\"public\""):
        fitted([step], account, frame)
    assert not account.history()
    fitted([step], account, frame, preprocessing="public")


def words_to_numbers(frame: Any) -> Any:
    return frame.assign(sex=frame.sex.map({"f": 0.0, "m": 1.0}).fillna(0.5))


def days(frame: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({"days": (pd.to_datetime(frame.day) - pd.Timestamp("2020-01-01")).dt.days / 1e4})


def rowwise_frames() -> dict[str, tuple[Any, Any]]:
    import pandas as pd
    import polars as pl

    text, days_of_rows = text_frame(), pd.DataFrame({"day": ["2020-03-01"] * len(ROWS)})
    typed = {"f": (ROWS[:, 0] * 10).astype(np.int8), "u": np.arange(60, dtype=np.uint8), "b": LABELS > 0}
    mixed = pd.DataFrame({**typed, "n": pd.array([1, None] * 30, dtype="Int64"), "c": pd.Categorical(text.sex)})
    columns = ColumnTransformer(
        [("d", FunctionTransformer(days), ["day"]), ("n", FunctionTransformer(words_to_numbers), ["sex", "v"])]
    )
    return {
        "text": (FunctionTransformer(words_to_numbers), text),
        "dates as text": (FunctionTransformer(days), days_of_rows),
        "dates": (FunctionTransformer(days), days_of_rows.astype("datetime64[ns]")),
        "dates of a place": (
            FunctionTransformer(lambda frame: frame.day.dt.year.to_frame()),
            days_of_rows.day.astype("datetime64[ns]").dt.tz_localize("Europe/Berlin").to_frame(),
        ),
        "dates and words in columns": (columns, text.join(days_of_rows)),
        "small numbers": (FunctionTransformer(lambda frame: frame.assign(c=frame.c.cat.codes).fillna(0) * 1.0), mixed),
        "polars": (FunctionTransformer(lambda frame: frame / 100), pl.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]})),
        "a list": (FunctionTransformer(lambda rows: np.asarray(rows, dtype=float) / 2), ROWS.tolist()),
        "an array of digits": (FunctionTransformer(lambda rows: rows.astype(float)), ROWS.round(2).astype(str)),
        "whole numbers": (FunctionTransformer(lambda rows: np.log1p(np.abs(rows))), (9 * ROWS).astype(int)),
    }


@pytest.mark.parametrize("case", list(rowwise_frames()))
def test_a_function_that_reads_one_row_at_a_time_is_allowed_for_every_type(case: str, account: Account) -> None:
    step, rows = rowwise_frames()[case]
    fitted([step], account, rows)
    assert len(account.history()) == 1


def test_the_refusal_names_the_step_and_the_way_out(account: Account) -> None:
    with pytest.raises(Refused, match=r"^SelectKBest .*preprocessing=\"public\""):
        fitted([FINITE, Normalizer(), SelectKBest(k=8)], account)


def test_a_pipeline_of_a_pipeline_is_seen(account: Account) -> None:
    inner = make_pipeline(FINITE, Normalizer(), model())
    outer = make_pipeline(StandardScaler(), inner)
    with pytest.raises(Refused, match=r"^StandardScaler"):
        outer.fit(ROWS, LABELS, pipeline__logisticregression__account=account, pipeline__logisticregression__why="x")
    assert not account.history()


def test_a_subclass_of_a_pipeline_is_refused(account: Account) -> None:
    own = OwnPipeline([("a", Normalizer()), ("model", model())])
    with pytest.raises(Refused, match=r"^OwnPipeline"):
        own.fit(ROWS, LABELS, model__account=account, model__why="x")


def test_a_transformed_target_is_refused(account: Account) -> None:
    regressor = ts.learn.LinearRegression(1.0, delta=1e-6, row_norm=1, target_bounds=(-1, 1))
    with pytest.raises(Refused, match=r"^TransformedTargetRegressor"):
        TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(ROWS, ROWS[:, 0])


def test_a_fit_without_an_account_is_refused_too() -> None:
    with pytest.raises(Refused, match=r"^StandardScaler"):
        make_pipeline(StandardScaler(), model()).fit(ROWS, LABELS)


def test_a_tuned_estimator_in_a_pipeline_is_refused_too() -> None:
    search = ts.learn.tune(model(), candidates=[{}], runs=ts.learn.geometric(mean=2), score_epsilon=1.0)
    with pytest.raises(Refused, match=r"^StandardScaler"):
        make_pipeline(StandardScaler(), search).fit(ROWS, LABELS)


ROWWISE = [
    [FunctionTransformer(shifted)],
    [FINITE, Normalizer()],
    [FunctionTransformer()],
    [FunctionTransformer(np.tanh)],
    [FINITE, FunctionTransformer(), "passthrough", Binarizer(), PolynomialFeatures(2)],
    [FINITE, ColumnTransformer([("a", Normalizer(), [0, 1]), ("b", "drop", [2])], remainder="passthrough")],
    [ColumnTransformer([("a", "passthrough", make_column_selector(dtype_include=float))])],
    [FINITE, FeatureUnion([("a", Normalizer()), ("b", make_pipeline(Binarizer(), FunctionTransformer(shifted)))])],
    [
        FINITE,
        OneHotEncoder(categories=[[0.0, 1.0]] * 10, handle_unknown="ignore", sparse_output=False),
        Normalizer(),
    ],
    [
        FINITE,
        OrdinalEncoder(categories=[[0.0, 1.0]] * 10, handle_unknown="use_encoded_value", unknown_value=-1),
    ],
]


@pytest.mark.parametrize("steps", ROWWISE, ids=lambda steps: "+".join(type(step).__name__ for step in steps))
def test_a_step_that_learns_nothing_is_allowed(steps: list[Any], account: Account) -> None:
    rows: Any = (ROWS > 0).astype(float) if "Encoder" in str(steps) else ROWS
    if "make_column_selector" in str(steps):
        import pandas as pd

        rows = pd.DataFrame(ROWS, columns=[f"c{i}" for i in range(10)])
    assert set(fitted(steps, account, rows).predict(rows)) <= {0, 1}
    assert len(account.history()) == 1


def test_the_callers_word_is_printed_on_the_card(account: Account, tmp_path: Path) -> None:
    public = fitted([StandardScaler(), PCA(4)], account, preprocessing="public")[-1]
    rowwise = fitted([ColumnTransformer([("a", FunctionTransformer(shifted), [0, 1])])], account)[-1]
    plain = model().fit(ROWS, LABELS, account=account, why="triage")
    pages = []
    for place, made in enumerate((public, rowwise, plain)):
        path = fit_card(made, account, dataset="visits").save(tmp_path / f"{place}.html")[0]
        card, page = read_card(path)
        findings = check_card(card, account.ledger, page=page)
        assert [finding.problem for finding in findings] == [""] * len(findings)
        pages.append(page)
    assert "the caller says that preprocessing learned nothing from private rows" in pages[0]
    assert "StandardScaler, PCA" in pages[0]
    assert "the caller says that every function in the preprocessing reads one row at a time" in pages[1]
    assert "the caller says" not in pages[2]


def test_a_card_from_which_the_callers_word_was_removed_fails_its_check(account: Account) -> None:
    made = fitted([StandardScaler()], account, preprocessing="public")[-1]
    card = fit_card(made, account, dataset="visits")
    facts = json.loads(card.to_json())
    del facts["again"]["plan"]["preprocessing"]
    findings = check_card(type(card)(facts), account.ledger)
    assert any(finding.problem for finding in findings)


def test_another_word_is_another_request(account: Account) -> None:
    fitted([FINITE, Normalizer()], account, key="k", preprocessing="public")
    with pytest.raises(ts.errors.IdempotencyConflict):
        fitted([FINITE, Normalizer()], account, key="k")


def test_preprocessing_is_public_or_nothing(account: Account) -> None:
    with pytest.raises(InvalidInput, match=r"^preprocessing = 'private'"):
        model().fit(ROWS, LABELS, account=account, why="x", preprocessing="private")
    assert not account.history()


def test_the_model_says_which_steps_came_before() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model().fit(ROWS, LABELS).preprocessing_ == ""
        before = make_pipeline(FINITE, Normalizer(), model()).fit(ROWS, LABELS)[-1].preprocessing_
        assert before.startswith("FunctionTransformer, Normalizer; settings ")


RAISING = [
    [Normalizer()],
    [Binarizer()],
    [PolynomialFeatures(2)],
    [FINITE, PolynomialFeatures(2), Normalizer()],
    [FunctionTransformer(validate=True)],
    [FunctionTransformer(np.nan_to_num), PolynomialFeatures(2)],
    [FunctionTransformer(shifted), Normalizer()],
    [make_pipeline(Normalizer())],
    [ColumnTransformer([("a", Normalizer(), [0, 1])])],
    [FeatureUnion([("a", Normalizer()), ("b", FINITE)])],
    [FunctionTransformer(np.tanh, inverse_func=np.arctanh)],
    [OneHotEncoder(categories=[[0.0, 1.0]] * 10, handle_unknown="ignore", sparse_output=False)],
    [FINITE, OneHotEncoder(categories=[[0.0, 1.0]] * 10, sparse_output=False)],
    [FINITE, OneHotEncoder(categories=[[0.0, 1.0]] * 10, handle_unknown="warn", sparse_output=False)],
    [FINITE, OneHotEncoder(categories=[[0.0, 1.0]] * 10, handle_unknown="ignore", drop="first", sparse_output=False)],
    [FINITE, OrdinalEncoder(categories=[[0.0, 1.0]] * 10)],
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", RAISING, ids=lambda steps: "+".join(type(step).__name__ for step in steps))
def test_a_step_that_raises_or_warns_because_of_a_row_is_refused(steps: list[Any], account: Account) -> None:
    """Found from outside: the error of an encoder showed one person's category, and nothing was charged."""
    rows = (ROWS > 0).astype(float) if "Encoder" in str(steps) else ROWS
    with pytest.raises(Refused, match=r"raises or warns on a row|undeclared category|because of some rows"):
        fitted(steps, account, rows)
    assert not account.history()


@pytest.mark.parametrize(
    "step", [Normalizer(), Binarizer(), PolynomialFeatures(2)], ids=lambda step: type(step).__name__
)
@pytest.mark.parametrize("entry", [0.0, np.nan, np.inf])
def test_a_row_that_holds_no_number_changes_no_outcome(step: Any, entry: float, account: Account) -> None:
    rows = ROWS.copy()
    rows[7, 3] = entry
    fitted([FINITE, step], account, rows)
    assert len(account.history()) == 1


@pytest.mark.parametrize("value", ["a", "c", None])
def test_an_undeclared_category_changes_no_outcome(value: str | None, account: Account) -> None:
    words = np.array(["a", "b"] * 30, dtype=object)
    words[7] = value
    fitted([ONE_HOT], account, words[:, None])
    assert len(account.history()) == 1


def test_sparse_or_dense_is_not_decided_by_rows(account: Account) -> None:
    words = np.array(["a", "b"] * 30, dtype=object)[:, None]
    sparse = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    with pytest.raises(Refused, match=r"sparse_output=False\), or sparse_threshold=0"):
        fitted([ColumnTransformer([("a", sparse, [0])])], account, words)
    with pytest.raises(InvalidInput, match=r"sparse_output=False"):
        fitted([sparse], account, words)
    assert not account.history()
    fitted([ColumnTransformer([("a", sparse, [0])], sparse_threshold=0)], account, words)
    fitted([ColumnTransformer([("a", ONE_HOT, [0])])], account, words)


def clipped_at(bound: float) -> Any:
    return lambda rows: rows.clip(-bound, bound)


def partial_clip(bound: float) -> Any:
    return functools.partial(np.clip, a_min=0, a_max=bound)


OTHER_SETTINGS = [
    ([FunctionTransformer(lambda rows: rows / 2)], [FunctionTransformer(lambda rows: rows / 200)]),
    ([FINITE, Normalizer()], [FINITE, Normalizer(norm="l1")]),
    (
        [ColumnTransformer([("a", FunctionTransformer(lambda rows: rows / 2), [0])])],
        [ColumnTransformer([("a", FunctionTransformer(lambda rows: rows / 3), [0])])],
    ),
    ([ColumnTransformer([("a", FINITE, [0])])], [ColumnTransformer([("a", FINITE, [1])])]),
    ([FunctionTransformer(clipped_at(5e3))], [FunctionTransformer(clipped_at(1e30))]),
    ([FunctionTransformer(np.nan_to_num)], [FunctionTransformer(lambda rows: np.nan_to_num(rows, nan=-1.0))]),
    ([FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1})], [FunctionTransformer(partial_clip(2))]),
    (
        [FunctionTransformer(lambda rows: np.where(rows == 0.123, 5.0, rows))],
        [FunctionTransformer(lambda rows: np.where(rows == 0.124, 5.0, rows))],
    ),
]


@pytest.mark.parametrize(("steps", "others"), OTHER_SETTINGS)
def test_other_settings_of_a_step_are_another_request(steps: list[Any], others: list[Any], account: Account) -> None:
    """Found from outside: the same key gave the model of other preprocessing without a word."""
    first = fitted(steps, account, key="k")[-1].coef_
    assert (fitted(steps, account, key="k")[-1].coef_ == first).all()
    with pytest.raises(ts.errors.IdempotencyConflict):
        fitted(others, account, key="k")
    assert len(account.history()) == 1


def test_another_function_of_text_is_another_request(account: Account) -> None:
    frame = text_frame()

    def read(word: str) -> FunctionTransformer:
        return FunctionTransformer(lambda rows: rows.assign(sex=(rows.sex.str.upper() == word) * 1.0))

    first = fitted([read("F")], account, frame, key="k")[-1].coef_
    assert (fitted([read("F")], account, frame, key="k")[-1].coef_ == first).all()
    with pytest.raises(ts.errors.IdempotencyConflict):
        fitted([read("M")], account, frame, key="k")
