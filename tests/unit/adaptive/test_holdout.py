"""The reusable holdout: its price, its certificate, its refusals, and what it does to an analyst who overfits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.adaptive.holdout import Thresholdout
from tallystick.errors import InvalidInput, Refused

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")


def wrong(y, predicted):
    return y != predicted


QUIET = {"threshold": 0.1, "noise": 0.001}
"""So little noise that nobody sees it here."""


def holdout(records: int = 2000, **options):
    random = np.random.default_rng(1)
    X = random.integers(0, 2, (records, 3))
    return ts.adaptive.ReusableHoldout(wrong, X, X[:, 0], **{"tau": 0.1, "beta": 0.05, **options})


def test_a_true_training_loss_is_confirmed_and_a_false_one_is_corrected():
    mine = holdout(answers=5, **QUIET)
    true = mine.score(lambda rows: rows[:, 0], train=0.0)
    assert (true.value, true.from_holdout) == (0.0, False)
    false = mine.score(lambda rows: rows[:, 1], train=0.0)  # claims no error, but guesses
    assert false.from_holdout
    assert false.value == pytest.approx(0.5, abs=0.05)
    assert (mine.asked, mine.answered) == (2, 1)


def test_answers_and_questions_come_to_an_end():
    mine = holdout(answers=2, queries=100, **QUIET)
    for _ in range(2):
        assert mine.score(lambda rows: rows[:, 1], train=0.0).from_holdout
    with pytest.raises(Refused, match="used up"):
        mine.score(lambda rows: rows[:, 0], train=0.0)
    other = holdout(queries=1)
    other.score(lambda rows: rows[:, 0], train=0.0)
    with pytest.raises(Refused, match="planned"):
        other.score(lambda rows: rows[:, 0], train=0.0)


def test_the_price_is_composed_exactly_and_below_the_published_form():
    setting = Thresholdout(samples=10_000, queries=1000, answers=100, threshold=0.04, noise=0.01)
    exact = 100 * ts.pure_dp(epsilon=0.01, adjacency="replace") + 100 * ts.laplace(scale=100, adjacency="replace")
    found = setting.privacy.epsilon(delta=1e-6)
    assert found == pytest.approx(exact.epsilon(delta=1e-6), rel=1e-6)
    assert found < math.sqrt(32 * 100 * math.log(2 / 1e-6)) / 100
    assert setting.gate.privacy.epsilon(delta=0) == pytest.approx(0.01)
    assert (float(setting.gate.threshold_scale), float(setting.gate.answer_scale)) == pytest.approx(
        (2 * 0.01 * 10_000 * 2**24, 4 * 0.01 * 10_000 * 2**24)
    )


def test_it_is_paid_when_it_is_opened_and_asks_cost_nothing_more(tmp_path):
    account = ts.Ledger(tmp_path / "ledger.db").open("people", budget=ts.zcdp(rho=10, adjacency="replace"))
    mine = holdout(answers=3, account=account, why="a test")
    paid = account.used.a0
    assert paid == account.price(mine.privacy).a0 > 0
    mine.score(lambda rows: rows[:, 1], train=0.0)
    assert account.used.a0 == paid
    assert mine.receipt is not None


def test_the_certificate_says_how_many_records_are_needed():
    small = holdout()
    assert not small.certified
    assert small.needed.samples > 10**5
    assert f"{small.needed.samples:,}" in str(small)
    assert "in practice" in str(holdout(records=50))
    enough = ts.adaptive.holdout_samples(queries=100, answers=2, tau=0.2, beta=0.1)
    assert enough.certified_error(beta=0.1) <= 0.2
    few = Thresholdout(enough.samples // 2, 100, 2, enough.threshold, enough.noise)
    assert few.certified_error(beta=0.1) > 0.2
    quiet = Thresholdout(enough.samples, 100, 2, enough.threshold, enough.noise / 2)
    assert quiet.certified_error(beta=0.1) > few.certified_error(beta=0.1) - 0.1  # less noise does not certify more
    more = Thresholdout(enough.samples, 100, 200, enough.threshold, enough.noise)
    assert more.certified_error(beta=0.1) > 0.2  # composition counts


def test_the_certificate_is_the_sum_of_its_parts():
    setting = Thresholdout(samples=10**6, queries=1000, answers=10, threshold=0.05, noise=0.0004)
    beta = 0.05
    noise = 2 * (1 + math.log(10 / (2 * beta / 8))) + 4 * (1 + math.log(1000 / (2 * beta / 4)))
    loss = 20 * ts.pure_dp(epsilon=1 / 400, adjacency="replace")
    y = min(
        (y for y in np.geomspace(1e-6, 0.4, 4000) if (1 - loss.tradeoff(alpha=y) - y) <= beta / 2 * level(loss, y)),
        key=lambda y: level(loss, y),
    )
    expected = 0.05 + 0.0004 * noise + level(loss, y)
    assert setting.certified_error(beta=beta) == pytest.approx(expected, rel=1e-3)


def level(loss, y: float) -> float:
    return math.tanh(math.log((1 - loss.tradeoff(alpha=y)) / y) / 4)


def test_with_enough_records_scores_are_certified_and_hold():
    setting = ts.adaptive.holdout_samples(queries=10, answers=2, tau=0.2, beta=0.1)
    y = np.zeros(setting.samples, dtype=np.int8)
    y[::2] = 1
    mine = ts.adaptive.ReusableHoldout(
        wrong, np.zeros((len(y), 1), dtype=np.int8), y, tau=0.2, beta=0.1, queries=10, answers=2
    )
    assert mine.certified
    assert "certified: every score within" in str(mine)
    for train in (0.5, 0.1):
        assert abs(mine.score(lambda rows: rows[:, 0], train=train).value - 0.5) <= 0.2


@pytest.mark.parametrize("name", ["roc_auc_score", "f1_score", "r2_score", "log_loss", "accuracy_score"])
def test_scores_of_all_records_together_are_refused_with_the_reason(name):
    metrics = pytest.importorskip("sklearn.metrics")
    with pytest.raises(InvalidInput, match="AUC, F1, R2"):
        ts.adaptive.ReusableHoldout(getattr(metrics, name), np.zeros((9, 1)), np.zeros(9), tau=0.1, beta=0.05)


def test_other_losses_that_are_none_are_refused():
    for loss in ("roc_auc", None, lambda y, p: 0.5, lambda y: y, lambda y, p: np.zeros(7)):
        with pytest.raises(InvalidInput, match="loss"):
            ts.adaptive.ReusableHoldout(loss, np.zeros((9, 1)), np.zeros(9), tau=0.1, beta=0.05)


def test_models_with_predict_work_and_one_that_can_never_work_is_refused():
    class Model:
        def predict(self, rows):
            return rows[:, 0]

    class Broken:
        def predict(self, rows):
            raise ValueError(str(rows))

    mine = holdout(**QUIET)
    assert mine.score(Model(), train=0.0).value == 0.0
    with pytest.raises(InvalidInput, match="made-up"):
        mine.score(Broken(), train=0.0)
    with pytest.raises(InvalidInput, match="model"):
        mine.score(3, train=0.0)
    with pytest.raises(InvalidInput, match="train"):
        mine.score(Model(), train=1.5)
    with pytest.raises(InvalidInput, match="y"):
        ts.adaptive.ReusableHoldout(wrong, np.zeros((9, 1)), np.zeros(8), tau=0.1, beta=0.05)


@pytest.mark.parametrize("way", [math.nan, None])
def test_a_record_on_which_a_model_fails_is_a_loss(way):
    def model(rows):
        if way is None and rows[:, 1].any():
            raise ValueError(str(rows))
        return np.where(rows[:, 1] == 1, np.nan, rows[:, 0])

    random = np.random.default_rng(1)
    X = random.integers(0, 2, (1000, 3))
    squares = ts.adaptive.ReusableHoldout(lambda y, p: (y - p) ** 2, X, X[:, 0], tau=0.1, beta=0.05, **QUIET)
    assert squares.score(model, train=0.0).value == pytest.approx(X[:, 1].mean(), abs=0.05)


def test_predictions_in_a_column_are_one_for_each_row():
    mine = holdout(**QUIET)
    assert mine.score(lambda rows: rows[:, :1], train=0.0).value == 0.0
    false = mine.score(lambda rows: rows[:, 1:2], train=0.0)
    assert false.from_holdout
    assert false.value == pytest.approx(0.5, abs=0.05)


def test_models_of_a_data_frame_see_its_names():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(1)
    frame = pandas.DataFrame({"a": random.integers(0, 2, 2000), "b": random.integers(0, 2, 2000)})
    mine = ts.adaptive.ReusableHoldout(wrong, frame, frame["a"], tau=0.1, beta=0.05, **QUIET)
    assert mine.score(lambda rows: rows["a"], train=0.0).value == 0.0
    assert mine.score(lambda rows: rows[["b"]], train=0.0).value == pytest.approx(0.5, abs=0.05)
    for never in (lambda rows: rows["c"], lambda rows: rows[5], lambda rows: 0.5, lambda rows: rows.to_numpy()):
        with pytest.raises(InvalidInput, match="model"):
            mine.score(never, train=0.5)
    assert mine.asked == 2


def test_a_loss_that_looks_at_the_other_records_is_refused():
    for loss in (
        lambda y, p: abs(y - p) / max(1e-9, abs(y - p).max()),
        lambda y, p: abs(y - p) - abs(y - p).min(),
        lambda y, p: np.argsort(np.argsort(p)) / len(p),
    ):
        with pytest.raises(InvalidInput, match="among other records"):
            ts.adaptive.ReusableHoldout(loss, np.zeros((9, 1)), np.zeros(9), tau=0.1, beta=0.05)
    for loss in (lambda y, p: (y - p) ** 2, lambda y, p: np.clip(-np.log(np.where(y == 1, p, 1 - p)), 0, 1)):
        ts.adaptive.ReusableHoldout(loss, np.zeros((9, 1)), np.zeros(9), tau=0.1, beta=0.05)


def test_what_was_paid_for_stays_as_it_is():
    mine = holdout(answers=1, **QUIET)
    for name in ("setting", "tau", "beta", "receipt", "certified_error", "needed"):
        with pytest.raises(Refused, match="certified"):
            setattr(mine, name, Thresholdout(2000, 10**6, 10**6, 0.1, 0.001))
