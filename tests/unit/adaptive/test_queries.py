"""The oracle: it pays, it counts, it refuses for public reasons, and no record can make it fail."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import tallystick as ts
from tallystick.adaptive.answer_noise import STEPS, AnswerNoise, failure_of
from tallystick.adaptive.values import total
from tallystick.digits import up
from tallystick.errors import BudgetExceeded, InvalidInput, NotCertified, Refused

pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")

ENOUGH = 12_000  # for 100 questions, tau 0.1, beta 0.05
GOAL = {"tau": 0.1, "beta": 0.05}


def account(tmp_path, rho: float):
    return ts.Ledger(tmp_path / "ledger.db").open("people", budget=ts.zcdp(rho=rho, adjacency="replace"))


def test_answers_are_near_and_paid_one_by_one(tmp_path):
    mine = account(tmp_path, 1.0)
    records = np.random.default_rng(0).random(ENOUGH)
    oracle = ts.adaptive.StatisticalQueries(records, queries=100, account=mine, why="a test", **GOAL)
    answer = oracle.ask(lambda record: record)
    assert abs(answer.value - 0.5) <= answer.error <= 0.1
    assert oracle.asked == 1
    assert answer.receipt is not None
    price = mine.price(oracle.privacy)
    assert mine.used.a0 == price.a0
    oracle.ask(lambda record: record > answer.value)
    assert mine.used.a0 == 2 * price.a0
    assert "within" in str(answer)
    assert [given.number for given in oracle.answers] == [1, 2]
    assert "98 left" in str(oracle)


def test_the_price_is_that_of_gaussian_noise_on_a_mean_of_n():
    noise = AnswerNoise("gaussian", 0.01, ENOUGH)
    expected = ts.gaussian(sigma=120, adjacency="replace")
    assert noise.privacy.epsilon(delta=1e-5) == pytest.approx(expected.epsilon(delta=1e-5), rel=1e-9)
    assert noise.privacy.epsilon(delta=1e-5) >= expected.epsilon(delta=1e-5) * (1 - 1e-12)
    draws = np.array([float(noise.mechanism.release(0)) for _ in range(2000)]) / (ENOUGH * STEPS)
    assert draws.std() == pytest.approx(0.01, rel=0.1)


def test_an_empty_account_refuses_before_reading_and_the_question_does_not_count(tmp_path):
    mine = account(tmp_path, 1e-9)
    read = []
    oracle = ts.adaptive.StatisticalQueries([0] * ENOUGH, queries=100, account=mine, why="a test", **GOAL)
    with pytest.raises(BudgetExceeded):
        oracle.ask(lambda record: read.append(record) or 0)
    assert (read, oracle.asked) == ([], 0)


def test_an_account_that_has_no_price_for_answers_is_refused_at_once(tmp_path):
    other = ts.Ledger(tmp_path / "ledger.db").open("people", budget=ts.zcdp(rho=1))  # add or remove
    with pytest.raises(InvalidInput, match="adjacency"):
        ts.adaptive.StatisticalQueries([0] * ENOUGH, queries=100, account=other, why="a test", **GOAL)


def test_a_question_from_within_a_question_does_not_wait_for_itself():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(3000), queries=5, vectorized=True, **GOAL)
    said = []

    def query(records):
        try:
            oracle.ask(lambda others: others)
        except Refused as refusal:
            said.append(str(refusal))
        return records

    oracle.ask(query)
    assert oracle.asked == 1
    assert said  # also when it was tried
    assert all("within a question" in one for one in said)


def test_too_few_records_are_refused_before_anything_is_asked():
    with pytest.raises(NotCertified, match="plan\\(queries=100") as refusal:
        ts.adaptive.StatisticalQueries([0] * 5000, queries=100, **GOAL)
    assert 0.1 < refusal.value.error <= 1
    with pytest.raises(NotCertified):  # half the noise is not certified, although it is nearer to the sample
        ts.adaptive.StatisticalQueries([0] * ENOUGH, queries=100, noise=0.004, **GOAL)


def test_the_planned_number_is_the_end():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(4000), queries=2, vectorized=True, **GOAL)
    for _ in range(2):
        oracle.ask(lambda records: records)
    with pytest.raises(Refused, match="planned"):
        oracle.ask(lambda records: records)
    assert oracle.asked == 2


def test_without_a_plan_certificates_grow_share_beta_and_end_in_a_refusal():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(3000), noise=0.014, vectorized=True, **GOAL)
    errors = []

    def ask_on():
        while len(errors) < 1000:
            errors.append(oracle.ask(lambda records: records).error)

    with pytest.raises(NotCertified, match="question"):
        ask_on()
    assert 2 <= len(errors) < 100
    assert errors == sorted(errors)
    assert errors[-1] <= 0.1
    assert oracle.asked == len(errors)
    # more than a plan of the same number can certify together would be a certificate that ignores the earlier ones
    planned = AnswerNoise("gaussian", 0.014, 3000).error(answers=len(errors), covered=len(errors), failure=0.05)
    assert errors[-1] > planned - 0.02


def test_the_shares_of_endless_questions_sum_to_beta():
    shares = [failure_of(j, 0.05) for j in range(1, 20_001)]
    assert 0.0499 < math.fsum(shares) <= 0.05
    assert shares[0] < 0.05  # a certificate of the whole of beta for each would not hold together


def test_laplace_answers_are_certified_too():
    oracle = ts.adaptive.StatisticalQueries(
        np.ones(8000), queries=5, noise=0.006, law="laplace", vectorized=True, **GOAL
    )
    answer = oracle.ask(lambda records: records)
    assert abs(answer.value - 1) <= answer.error
    assert oracle.privacy.epsilon(delta=0) == pytest.approx(1 / 48, rel=1e-6)


def test_the_certificate_of_laplace_answers_is_the_inequality_itself():
    samples, scale, queries, beta = 8000, 0.006, 5, 0.05
    found = AnswerNoise("laplace", scale, samples).error(answers=queries, covered=queries, failure=beta)
    # optimal composition of five pure answers: the binomial law of how often the truth is told
    truth = 1 / (1 + math.exp(-1 / (samples * scale)))
    heads = range(queries, -1, -1)
    chances = np.array([math.comb(queries, j) * truth**j * (1 - truth) ** (queries - j) for j in heads])
    level = np.r_[0, np.cumsum(chances[::-1])]  # of the other world, most telling outcomes first
    power = np.r_[0, np.cumsum(chances)]
    y = np.geomspace(1e-5, 0.4, 20_000)
    g = np.interp(y, level, power)
    t = np.tanh(np.log(g / y) / 4)
    a = (g - y) / t
    b = beta - a
    fits = (b > 0) & (y + g <= 1)
    expected = (scale * (1 - np.log(b[fits] / queries)) + t[fits]).min()
    assert expected <= found <= expected * 1.001


def test_real_interactions_with_an_attacker_stay_within_what_is_certified():
    plan = ts.adaptive.plan(queries=30, tau=0.1, beta=0.05)
    random = np.random.default_rng(3)
    for _ in range(5):
        coins = random.integers(0, 2, (plan.samples, 29), dtype=np.int8)
        oracle = ts.adaptive.StatisticalQueries(
            coins, queries=30, tau=0.1, beta=0.05, noise=plan.noise, vectorized=True
        )
        tilted = [oracle.ask(lambda rows, j=j: rows[:, j]).value > 0.5 for j in range(29)]
        vote = oracle.ask(lambda rows, tilted=tilted: (rows == tilted).mean(axis=1) > 0.5)
        assert max(abs(answer.value - 0.5) for answer in oracle.answers) <= vote.error <= 0.1


@pytest.mark.filterwarnings("error")
def test_no_record_makes_a_warning():
    records = np.array([0.0, 1.0, np.inf, np.nan, 1e308])
    assert total(lambda i, j: 1 / records[i:j] * 1e300 * 1e300, 5, together=True) == 3 * STEPS
    assert total(lambda i, j: np.float64(1) / records[i], 5) == 2 * STEPS
    # libraries warn in their own way, and only where a record makes them
    assert total(lambda i, j: np.nanmean([records[i]]) > 0, 5) == 3 * STEPS
    assert total(lambda i, j: np.nanmean(records[i:j, None], axis=1) > 0, 5, together=True) == 3 * STEPS


BAD = [math.nan, math.inf, -math.inf, "text", None, 1 + 2j, [1, 2], object(), 10**400, -5]


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("bad", BAD, ids=[str(type(x).__name__) + str(i) for i, x in enumerate(BAD)])
def test_one_record_moves_the_sum_by_at_most_one_whatever_it_is(bad, vectorized):
    fine = [0.25, 0.5, 0.75, 1.0]
    sums = []
    for records in (fine, [*fine[:3], bad]):
        if vectorized:
            sums.append(total(lambda i, j, r=records: np.asarray(r[i:j]), 4, together=True))
        else:
            sums.append(total(lambda i, j, r=records: r[i], 4))
    assert abs(sums[0] - sums[1]) <= STEPS
    assert sums[1] in (1.5 * STEPS, 2.5 * STEPS)


def test_a_query_that_fails_on_one_record_costs_that_record_only():
    def query(record):
        return 1 / record  # fails for 0

    def all_at_once(records):
        return [1 / record for record in records]

    records = [1] * 9 + [0]
    assert total(lambda i, j: query(records[i]), 10) == 9 * STEPS
    assert total(lambda i, j: all_at_once(records[i:j]), 10, together=True) == 9 * STEPS


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("way", [SystemExit, GeneratorExit, ValueError, BaseException])
def test_no_record_gets_out_in_an_exception_of_any_kind(way, together):
    def query(first, last):
        if first <= 3 < last:
            raise way("record 3 is a secret")
        return np.ones(last - first)

    assert total(query, 10, together=together) == 9 * STEPS
    assert total(query, 10, together=together, failed=1) == 10 * STEPS

    def stopped(first, last):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        total(stopped, 10, together=together)


def test_one_bad_record_costs_few_calls_more():
    calls = []

    def query(first, last):
        calls.append(last - first)
        assert not first <= 700 < last
        return np.ones(last - first)

    assert total(query, 4096, together=True) == 4095 * STEPS
    assert len(calls) <= 25  # one by one it would be thousands, and the clock would tell


def test_rows_of_a_data_frame_have_their_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    ages = np.random.default_rng(0).integers(18, 90, ENOUGH)
    frame = pandas.DataFrame({"age": ages, "name": ["somebody"] * ENOUGH, "weight": ages / 2.0})
    mine = account(tmp_path, 1.0)
    options = {"queries": 100, "account": mine, "why": "a test", **GOAL}
    oracle = ts.adaptive.StatisticalQueries(frame, **options)
    truth = np.mean(ages > 40)
    assert abs(oracle.ask(lambda record: record["age"] > 40).value - truth) <= 0.1
    at_once = ts.adaptive.StatisticalQueries(frame, vectorized=True, **options)
    assert abs(at_once.ask(lambda rows: rows["age"] > 40).value - truth) <= 0.1
    assert abs(at_once.ask(lambda rows: rows["weight"].to_numpy() > 20).value - truth) <= 0.1
    assert (ages == frame["age"]).all()
    with pytest.raises(InvalidInput, match="two columns of one name"):
        ts.adaptive.StatisticalQueries(pandas.concat([frame, frame], axis=1), **options)
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(InvalidInput, match="data frame of pandas or polars"):
        ts.adaptive.StatisticalQueries(arrow.table({"age": ages}), **options)


def test_polars_frames_too():
    polars = pytest.importorskip("polars")
    ages = np.random.default_rng(0).integers(18, 90, ENOUGH)
    frame = polars.DataFrame({"age": ages, "name": ["somebody"] * ENOUGH})
    oracle = ts.adaptive.StatisticalQueries(frame, queries=100, **GOAL)
    assert abs(oracle.ask(lambda record: record["age"] > 40).value - np.mean(ages > 40)) <= 0.1
    with pytest.raises(InvalidInput, match="Age"):
        oracle.ask(lambda record: record["Age"] > 40)


NEVER = {
    "a name of an array": (lambda record: record["age"] > 40, "IndexError"),
    "a column that is not there": (lambda record: record[7] > 40, "IndexError"),
    "two arguments": (lambda first, second: 1, "one argument"),
    "a name that is not defined": (lambda record: undefined_name, "NameError"),  # noqa: F821
    "a text": (lambda record: "yes", "type str"),
    "many numbers": (lambda record: record, "type ndarray"),
    "no function": ("age > 40", "str"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_can_never_work_is_refused_before_it_is_paid(tmp_path, name):
    mine = account(tmp_path, 1.0)
    rows = np.zeros((ENOUGH, 3))
    oracle = ts.adaptive.StatisticalQueries(rows, queries=100, account=mine, why="a test", **GOAL)
    query, said = NEVER[name]
    with pytest.raises(InvalidInput, match=said):
        oracle.ask(query)
    assert (oracle.asked, mine.used.a0) == (0, 0)
    oracle.ask(lambda record: 1 / 0 if record[0] == 0 else 1)  # may be the made-up record's own fault
    assert oracle.asked == 1


def test_rows_at_once_need_one_number_each():
    oracle = ts.adaptive.StatisticalQueries(np.zeros((3000, 4)), queries=2, vectorized=True, **GOAL)
    with pytest.raises(InvalidInput, match="shape"):
        oracle.ask(lambda rows: rows.mean())
    with pytest.raises(InvalidInput, match="shape"):
        oracle.ask(lambda rows: rows)


def test_records_of_a_list_are_tried_on_an_example():
    people = [{"age": 50}] * 3000
    oracle = ts.adaptive.StatisticalQueries(people, queries=2, example={"age": 1}, **GOAL)
    with pytest.raises(InvalidInput, match="KeyError"):
        oracle.ask(lambda person: person["Age"] > 40)
    assert oracle.ask(lambda person: person["age"] > 40).value > 0.8


def test_a_question_that_writes_changes_nothing():
    rows, people = np.zeros((3000, 2)), [{"age": 50} for _ in range(3000)]

    def write(record):
        record["age"] = 0
        return 1

    oracle = ts.adaptive.StatisticalQueries(people, queries=2, **GOAL)
    oracle.ask(write)
    assert all(person == {"age": 50} for person in people)
    assert ts.adaptive.StatisticalQueries(rows, queries=2, **GOAL).ask(lambda row: row.fill(1) or 1).value > 0.8
    at_once = ts.adaptive.StatisticalQueries(rows, queries=2, vectorized=True, **GOAL)
    with pytest.raises(InvalidInput, match="writes into"):
        at_once.ask(lambda rows: rows.fill(1) or rows[:, 0])
    assert not rows.any()


def test_what_was_certified_stays_as_it_is():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(3000), queries=1, **GOAL)
    for name in ("queries", "tau", "beta", "noise", "samples", "error", "asked", "answers"):
        with pytest.raises(Refused, match="certified"):
            setattr(oracle, name, 3000)
        with pytest.raises(Refused, match="certified"):
            delattr(oracle, name)
    oracle.ask(lambda record: record)
    with pytest.raises(Refused, match="planned"):
        oracle.ask(lambda record: record)


def test_an_oracle_without_a_plan_says_how_far_its_answers_are():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(2000), noise=0.02, tau=0.3, beta=0.05, vectorized=True)
    assert "the next within 0.0" in str(oracle)
    for _ in range(20):
        last = oracle.ask(lambda records: records)
    assert oracle.error == last.error > 0.15
    assert f"answers so far within {up(last.error)}" in str(oracle)


def test_an_account_is_no_name():
    with pytest.raises(InvalidInput, match="account"):
        ts.adaptive.StatisticalQueries(np.zeros(3000), queries=2, account="study", why="a test", **GOAL)


def test_answers_stay_in_the_unit_interval():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(3000), queries=8, vectorized=True, **GOAL)
    assert all(0 <= oracle.ask(lambda records: records).value <= 1 for _ in range(8))


def test_it_cannot_be_copied_and_bad_arguments_are_refused():
    oracle = ts.adaptive.StatisticalQueries(np.zeros(3000), queries=2, **GOAL)
    with pytest.raises(Refused, match="copied"):
        copy.copy(oracle)
    with pytest.raises(InvalidInput, match="query"):
        oracle.ask("age > 40")
    for wrong in (
        {"queries": 0},
        {"queries": None},
        {"noise": -1.0},
        {"noise": 1e-9},
        {"law": "cauchy", "noise": 0.01},
        {"law": "laplace"},
        {"tau": 0},
        {"beta": 2},
    ):
        with pytest.raises(InvalidInput):
            ts.adaptive.StatisticalQueries(np.zeros(3000), **{"queries": 2, **GOAL, **wrong})
    with pytest.raises(InvalidInput, match="records"):
        ts.adaptive.StatisticalQueries("abc", queries=2, **GOAL)


def test_why_is_asked_for_with_an_account(tmp_path):
    with pytest.raises(InvalidInput, match="why"):
        ts.adaptive.StatisticalQueries(np.zeros(3000), queries=2, account=account(tmp_path, 1.0), **GOAL)
