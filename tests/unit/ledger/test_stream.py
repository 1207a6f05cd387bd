"""A stream of items, used as a release that refreshes would use it: one charge, one stored answer per period."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tallystick as ts
from crash.stores import charge_rows, entries_of
from tallystick.accounting.losses import no_loss
from tallystick.errors import (
    AnswerLost,
    BudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    Quarantined,
    Refused,
    Unavailable,
)
from tallystick.ledger.journal import request_digest
from tallystick.ledger.stream import AnswerStream, Cost

YEAR = ts.zcdp(rho=0.5)
PERIOD = ts.zcdp(rho=0.05)


def open_stream(account: ts.Account, key: str = "visits", **options: Any) -> AnswerStream:
    """A stream of 12 periods that is paid whole and opened."""
    month, months = ("steps", "steps") if options.get("in_order") else ("month", "months")
    plan = Cost(YEAR, None, f"12 {months} of visits")

    def cost_of_month(first: int, last: int) -> Cost:
        return Cost(PERIOD, None, f"{month} {first} to {last} of visits")

    settings: dict[str, Any] = {"items": 12, "whole": plan, "each": cost_of_month, "why": "dashboard", **options}
    stream = AnswerStream(account, key=key, **settings)
    stream.open()
    return stream


def _no_cost(first: int, last: int) -> Any:
    return None


@pytest.fixture
def account(ledger: ts.Ledger) -> ts.Account:
    return ledger.open("city", budget=ts.zcdp(rho=1), unit="patient")


def counted() -> Callable[[], dict[str, int]]:
    """A draw that returns another table each time that it is called."""
    numbers = itertools.count(100)
    return lambda: {"n": next(numbers)}


def test_one_charge_pays_for_all_answers(account: ts.Account) -> None:
    draw = counted()
    stream = open_stream(account)
    assert float(account.used.first) == pytest.approx(0.5)
    answers = [stream.answer(month, draw).answer for month in range(12)]
    assert answers == [{"n": 100 + month} for month in range(12)]
    assert float(account.used.first) == pytest.approx(0.5)
    assert account.ledger.verify(receipts=stream.receipts).intact


def test_a_stored_answer_is_returned_and_not_drawn_again(account: ts.Account) -> None:
    draw = counted()
    first = open_stream(account).answer(3, draw)
    again = open_stream(account).answer(3, draw)
    replayed = open_stream(account).replay(3)
    assert replayed is not None
    assert (first.fresh, again.fresh, replayed.fresh) == (True, False, False)
    assert first.answer == again.answer == replayed.answer == {"n": 100}
    assert first.receipt == again.receipt == replayed.receipt
    assert draw() == {"n": 101}


def test_a_replay_of_an_item_that_was_never_taken_is_none(account: ts.Account) -> None:
    stream = open_stream(account)
    before = account.history()
    assert stream.replay(0) is None
    assert account.history() == before


def test_a_stream_that_was_not_opened_gives_nothing(account: ts.Account) -> None:
    cost = Cost(PERIOD, None, "month")
    stream = AnswerStream(account, key="visits", why="w", items=12, whole=cost, each=lambda first, last: cost)
    with pytest.raises(Refused, match="not opened"):
        stream.answer(0, counted())
    with pytest.raises(Refused, match="not opened"):
        stream.take()
    assert account.history() == []


def test_an_account_that_cannot_pay_the_whole_stream_opens_nothing(ledger: ts.Ledger) -> None:
    poor = ledger.open("village", budget=ts.zcdp(rho=0.1), unit="patient")
    with pytest.raises(BudgetExceeded):
        open_stream(poor)
    assert poor.history() == []


def test_without_a_whole_charge_each_answer_is_charged(account: ts.Account) -> None:
    stream = open_stream(account, whole=None)
    draw = counted()
    for month in (0, 1, 1):
        stream.answer(month, draw)
    assert float(account.used.first) == pytest.approx(0.1)


def test_a_failed_draw_loses_its_item_and_no_other(account: ts.Account) -> None:
    draw = counted()
    stream = open_stream(account)
    with pytest.raises(ZeroDivisionError):
        stream.answer(0, lambda: 1 // 0)
    for each in (stream, open_stream(account)):
        with pytest.raises(AnswerLost, match="item 0 of stream 'visits'"):
            each.answer(0, draw)
    assert stream.replay(0) is None
    assert stream.answer(1, draw).answer == {"n": 100}


def test_a_conflict_inside_a_draw_is_not_taken_for_a_lost_item(account: ts.Account) -> None:
    def draw() -> None:
        raise IdempotencyConflict("of the draw")

    with pytest.raises(IdempotencyConflict, match="of the draw") as problem:
        open_stream(account).answer(0, draw)
    assert not isinstance(problem.value, AnswerLost)


def test_a_failure_with_a_source_tells_nothing_and_closes_the_source(account: ts.Account) -> None:
    stream = open_stream(account)
    with pytest.raises(Unavailable) as problem:
        stream.answer(0, lambda: int("a private value"), source="visits.csv")
    assert "a private value" not in str(problem.value)
    assert problem.value.__context__ is None
    with pytest.raises(Quarantined):
        stream.answer(1, counted(), source="visits.csv")
    account.clear(why="looked at the log")
    assert stream.answer(1, counted(), source="visits.csv").answer == {"n": 100}
    with pytest.raises(AnswerLost):
        stream.answer(0, counted(), source="visits.csv")


def test_a_key_belongs_to_one_stream(account: ts.Account) -> None:
    open_stream(account).answer(0, counted())
    with pytest.raises(IdempotencyConflict):
        open_stream(account, whole=Cost(YEAR, None, "52 weeks of visits"))
    other = open_stream(account, each=lambda first, last: Cost(PERIOD, None, "another question"))
    with pytest.raises(IdempotencyConflict) as problem:
        other.answer(0, counted())
    assert not isinstance(problem.value, AnswerLost)


def test_an_item_that_was_taken_has_no_answer(account: ts.Account) -> None:
    stream = open_stream(account, key="steps")
    assert stream.take() == 0
    with pytest.raises(IdempotencyConflict):
        stream.answer(0, counted())


def test_taken_items_are_in_order_and_end_with_none(account: ts.Account) -> None:
    stream = open_stream(account, items=5, block=2)
    assert [stream.take() for _ in range(7)] == [0, 1, 2, 3, 4, None, None]
    assert stream.taken == 5
    assert open_stream(account, items=5, block=2).take() is None


def test_a_block_that_was_begun_elsewhere_and_burned_is_passed(account: ts.Account) -> None:
    open_stream(account)
    account.charge(no_loss(), why="dashboard", key="visits/0", request="month 0 to 1 of visits").begin().burn()
    assert open_stream(account).take() == 1


@pytest.mark.parametrize("number", [-1, 12, 1.5, "first"])
def test_a_wrong_number_is_refused_before_anything_is_taken(account: ts.Account, number: Any) -> None:
    stream = open_stream(account)
    before = account.history()
    with pytest.raises(InvalidInput, match="number"):
        stream.answer(number, counted())
    assert account.history() == before


def test_an_answer_belongs_to_a_whole_block(account: ts.Account) -> None:
    stream = open_stream(account, block=3)
    assert stream.answer(3, counted()).answer == {"n": 100}
    with pytest.raises(InvalidInput, match="first item of a block of 3"):
        stream.answer(4, counted())


def test_a_stream_cannot_be_copied(account: ts.Account) -> None:
    stream = open_stream(account)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Refused, match="cannot be copied"):
            copied(stream)


def test_threads_get_one_answer_per_item(account: ts.Account) -> None:
    stream = open_stream(account)
    draw = counted()
    with ThreadPoolExecutor(4) as workers:
        answers = list(workers.map(lambda number: stream.answer(number // 4, draw).answer["n"], range(48)))
    for month in range(12):
        assert len(set(answers[4 * month : 4 * month + 4])) == 1
    assert len(set(answers)) == 12


def test_threads_take_each_item_once(account: ts.Account) -> None:
    stream = open_stream(account, items=60, block=7)
    with ThreadPoolExecutor(4) as workers:
        taken = list(workers.map(lambda _: stream.take(), range(60)))
    assert sorted(number for number in taken if number is not None) == list(range(60))


@pytest.mark.parametrize("other", [{"block": 1}, {"block": 4}, {"items": 24}, {"whole": Cost(PERIOD, None, "cheap")}])
def test_a_second_handle_with_other_blocks_items_or_cost_is_refused(account: ts.Account, other: Any) -> None:
    stream = open_stream(account, block=3)
    assert [stream.take() for _ in range(3)] == [0, 1, 2]
    used = account.used
    with pytest.raises(IdempotencyConflict):
        open_stream(account, **{"block": 3, **other})
    assert account.used == used
    assert open_stream(account, block=3).take() == 3


def test_blocks_that_are_charged_one_by_one_have_one_size_too(account: ts.Account) -> None:
    stream = open_stream(account, whole=None, block=2)
    stream.answer(4, lambda: "items 4 and 5")
    with pytest.raises(IdempotencyConflict):
        open_stream(account, whole=None, block=1)
    assert open_stream(account, whole=None, block=2).answer(4, counted()).answer == "items 4 and 5"


def test_steps_in_order_have_one_block_size_also_if_two_begin_at_once(
    account: ts.Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"steps": 10, "why": "model", "key": "run"}
    first = account.training(ts.gaussian(sigma=10), block=5, **settings).start()
    second = account.training(ts.gaussian(sigma=10), block=2, **settings).start()
    looked = []

    def begin_first(stream: AnswerStream, *arguments: Any) -> Any:
        """Let the other run take its first block after this one has looked for it."""
        charge = charge_of(stream, *arguments)
        if not looked:
            looked.append(True)
            assert first.step() == 0
        return charge

    charge_of = AnswerStream._charge
    monkeypatch.setattr(AnswerStream, "_charge", begin_first)
    with pytest.raises(IdempotencyConflict):
        second.step()
    with pytest.raises(IdempotencyConflict):
        second.step()


@pytest.mark.parametrize(
    "wrong",
    [{"lease": -1}, {"lease": float("nan")}, {"whole": "x"}, {"whole": Cost(YEAR, None, 5)}, {"each": _no_cost}],
)
def test_a_wrong_argument_is_refused_before_the_stream_is_charged(account: ts.Account, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        open_stream(account, **wrong)
    assert account.used.a0 == 0


def test_a_wrong_argument_of_a_training_run_is_refused(account: ts.Account) -> None:
    for wrong in ({"whole": "x"}, {"request": 5}):
        with pytest.raises(InvalidInput):
            account.training(ts.gaussian(sigma=10), steps=10, why="model", **wrong)


def test_a_key_of_an_item_that_another_request_has_is_found_before_the_charge(account: ts.Account) -> None:
    other = account.ledger.open("other", budget=ts.zcdp(rho=1), unit="patient")
    other.pay(PERIOD, why="another", key="visits/6")
    other.pay(PERIOD, why="another", key="run/6")
    other.pay(PERIOD, why="another", key="visits/report")
    for block in (1, 3):
        with pytest.raises(IdempotencyConflict, match="visits/6"):
            open_stream(account, block=block)
    assert account.used.a0 == 0
    assert open_stream(account, block=4).take() == 0, "no block begins at item 6"
    with pytest.raises(IdempotencyConflict, match="run/6"):
        account.training(ts.gaussian(sigma=10), steps=9, block=3, why="model", key="run").start()


def test_entries_of_a_training_run_are_as_in_earlier_versions(ledger: ts.Ledger) -> None:
    # Runs of earlier versions continue under these keys. Another digest or note would refuse them or pay twice.
    account = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    step = ts.gaussian(sigma=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with account.training(step, steps=30, block=10, why="model", key="whole", request="sgd") as run:
            run.step()
        with account.training(step, steps=25, block=10, why="model", key="blocks", whole=False) as run:
            while True:
                run.step()
    with ledger.store.read() as transaction:
        charges = charge_rows(transaction)
        answers = {row[0]: transaction.row("answer_of", row[0])[0] for row in charges}
    begun = {seq: entry for seq, entry in enumerate(entries_of(ledger), 1) if seq in answers}
    digests = {seq: request_digest(entry["lines"], entry["plan"], entry["request"]) for seq, entry in begun.items()}
    entries = {entry["key"]: (digests[seq][:16], answers[seq]) for seq, entry in begun.items()}
    assert entries == {
        "whole": ("4cd00ca264f68018", '{"dict":{"request":{"str":"30 steps sgd"},"run":{"str":"whole"}}}'),
        "whole/0": ("ecd9cbe42f6c3a6f", '{"dict":{"request":{"str":"steps 0 to 10 sgd"},"run":{"str":"whole"}}}'),
        "blocks/0": ("aa3cfbffc34f77ae", '{"dict":{"request":{"str":"steps 0 to 10 "},"run":{"str":"blocks"}}}'),
        "blocks/10": ("c4ac19b2cfd02735", '{"dict":{"request":{"str":"steps 10 to 20 "},"run":{"str":"blocks"}}}'),
        "blocks/20": ("c7bcc3c551e60998", '{"dict":{"request":{"str":"steps 20 to 25 "},"run":{"str":"blocks"}}}'),
    }


def test_blocks_of_a_stream_with_a_record_are_refused_before_a_charge(account: ts.Account) -> None:
    stream = open_stream(account)
    before = account.remaining
    with pytest.raises(IdempotencyConflict, match="'visits' belongs to a stream"):
        open_stream(account, whole=None, block=4, in_order=True)
    assert account.remaining == before
    assert stream.answer(0, counted()).answer == {"n": 100}


def test_take_passes_items_that_have_an_answer(account: ts.Account) -> None:
    stream = open_stream(account)
    stream.answer(0, counted())
    stream.answer(2, counted())
    assert [stream.take() for _ in range(3)] == [1, 3, 4]


def test_take_passes_an_item_whose_key_another_request_has(account: ts.Account) -> None:
    stream = open_stream(account)
    account.pay(ts.zcdp(rho=0.01), why="another request", key="visits/1")
    assert [stream.take() for _ in range(3)] == [0, 2, 3]
    with pytest.raises(IdempotencyConflict):
        stream.answer(1, counted())


def test_a_run_in_order_still_refuses_other_blocks(account: ts.Account) -> None:
    open_stream(account, in_order=True, block=2).take()
    with pytest.raises(IdempotencyConflict):
        open_stream(account, in_order=True, block=3).take()


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (1000, "12 items in blocks of 1: 12 months of visits"),
        (1000, "12 steps of visits"),
        (12, "all"),
        (1, "12 steps"),
    ],
)
def test_the_record_of_a_stream_does_not_pay_for_more_items_in_order(
    account: ts.Account, items: int, text: str
) -> None:
    """The text is that of a stream that was paid for fewer items, so the ledger finds its charge."""
    open_stream(account)
    open_stream(account, key="steps", in_order=True)
    for key in ("visits", "steps"):
        with pytest.raises(InvalidInput, match="begins with"):
            open_stream(account, key=key, items=items, whole=Cost(YEAR, None, text), in_order=True)


def test_two_handles_in_order_do_not_take_an_item_twice_because_their_texts_name_no_end(account: ts.Account) -> None:
    def cost(first: int, last: int) -> Cost:
        return Cost(PERIOD, None, f"steps {first}")

    with pytest.raises(InvalidInput, match="begins with 'steps 0 to 2'"):
        open_stream(account, in_order=True, block=2, each=cost)
    assert account.history() == []


@pytest.mark.parametrize("digits", [300, 4299, 4300, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_answer_may_be_an_integer_of_any_size(account: ts.Account, digits: int, sign: int) -> None:
    number = sign * 10**digits
    stream = open_stream(account)
    assert stream.answer(0, lambda: {"n": number}).answer == {"n": number}
    stored = stream.replay(0)
    assert stored is not None
    assert stored.answer == {"n": number}
