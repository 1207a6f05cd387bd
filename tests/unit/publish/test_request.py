"""One request: plain data, priced without data, run once per key, and the same through every interface."""

from __future__ import annotations

import datetime
import json
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded, IdempotencyConflict, InvalidInput, Refused, TallystickError
from tallystick.publish import kinds
from tallystick.publish.datasets import find
from tallystick.publish.export import Files
from tallystick.publish.kinds.caps import Caps
from tallystick.publish.kinds.linear import LinearFit
from tallystick.publish.kinds.logistic import LogisticFit
from tallystick.publish.kinds.question import Question
from tallystick.publish.kinds.statement import Statement
from tallystick.publish.outcome import Offer, Outcome
from tallystick.publish.request import Cost, Request, answer, price, rehearse, run
from tallystick.tables.expressions import col
from tallystick.tables.keyset import public_table
from tallystick.tables.progress import ProgressFailed

ADD = (
    "dataset add visits.csv --population patients --unit who --max-groups 2 --max-rows-per-group 3 "
    "--bounds age=0:110 --bounds cost=0:500 --limit rho=2,delta=1e-6 --version 2026"
).split()
SQL = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def book(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ledger with visits of 400 people."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = (f"p{i % 400},{'ne'[i % 2]},{20 + i % 60},{i % 400},2026-01-0{1 + i % 3}\n" for i in range(1000))
    (tmp_path / "visits.csv").write_text("who,ward,age,cost,day\n" + "".join(rows))
    assert run(*ADD, "--type", "day=date").code == 0
    with ts.Ledger(tmp_path / "tallystick.db", create=False) as ledger:
        yield ledger


def question(book: Any, rho: float = 0.01, **options: Any) -> Question:
    table = find("visits", book).opened(book.open("patients"))
    plan = table.group_by("ward", keys=["n", "e"]).agg(n=ts.count(), age=ts.mean("age")).plan(rho=rho)
    return Question.of("visits", plan, **options)


def requests(book: Any) -> dict[str, Request]:
    """One request of every kind."""
    where = ((col("age") >= 30).to_data(),)
    wards = public_table([{"ward": "n", "name": "north"}])
    statement = "SELECT w.name, COUNT(v.age) AS n FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY w.name"
    return {
        "question": Request(question(book), key="q", why="report"),
        "statement": Request(Statement(statement, {"wards": wards}), Cost(rho=0.01), why="report"),
        "linear": Request(LinearFit("visits", "cost", ("age",), {}, where), Cost(rho=0.1), why="report"),
        "logistic": Request(
            LogisticFit("visits", "ward", ("age",), {"age": (0, 110)}, where, ("n", "e")),
            Cost(epsilon=0.2, delta=1e-8),
            why="report",
        ),
        "caps": Request(Caps("visits", ("ward",), {"age": (0, 150)}), Cost(rho=0.01), why="report"),
    }


KINDS = [module.name for module in pkgutil.iter_modules(kinds.__path__)]


def through_json(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data, allow_nan=False))


def used(book: Any) -> Any:
    return book.open("patients").used


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_back_priced_and_run_once(book: Any, kind: str) -> None:
    request = requests(book)[kind]
    text = json.dumps(request.to_data(), allow_nan=False)
    again = Request.from_json(text)
    assert again.to_data() == request.to_data()
    assert again.to_data()["what"]["kind"] == kind

    offer = price(again, book)
    assert Offer.from_data(through_json(offer.to_data())) == offer
    assert offer.fits
    assert used(book).a0 == 0
    planned = rehearse(again, book)
    assert planned.dry_run
    assert planned.offer == offer
    assert used(book).a0 == 0

    first = run(again, book)
    assert first.paid is not None
    assert not first.paid.again
    assert (used(book).a0, used(book).a1) == (offer.price_amount["a0"], offer.price_amount["a1"])
    assert first.paid.price == offer.price
    second = run(again, book)
    assert second.paid is not None
    assert second.paid.again
    assert (second.table, second.model, second.facts) == (first.table, first.model, first.facts)
    assert used(book).a0 == offer.price_amount["a0"]
    assert rehearse(again, book).paid == second.paid
    assert price(again, book).again == first.paid.charge
    assert Outcome.from_data(through_json(first.to_data())).to_data() == first.to_data()
    assert first.receipt is not None
    assert book.verify(receipts=[ts.Receipt.from_json(json.dumps(first.receipt))]).intact


@pytest.mark.parametrize("kind", KINDS)
def test_a_price_opens_no_data(book: Any, tmp_path: Path, kind: str) -> None:
    request = requests(book)[kind]
    shown = price(request, book)
    (tmp_path / "visits.csv").unlink()
    assert price(request, book) == shown
    with pytest.raises(TallystickError):
        run(request, book)
    assert used(book).a0 == 0


HOSTILE = [
    lambda data: data | {"format": "tallystick/request/9"},
    lambda data: data | {"more": 1},
    lambda data: data | {"why": 5},
    lambda data: data | {"key": ["k"]},
    lambda data: data | {"cost": {"rho": "0.01"}},
    lambda data: data | {"cost": {"rho": True}},
    lambda data: data | {"cost": {"sigma": 1}},
    lambda data: data | {"cost": []},
    lambda data: data | {"what": None},
    lambda data: data | {"what": {"kind": "nothing"}},
    lambda data: data | {"what": {"kind": "../question"}},
    lambda data: data | {"what": {"kind": ["question"]}},
    lambda data: data | {"what": {"kind": "__init__"}},
    lambda data: data | {"what": data["what"] | {"dataset": 5}},
    lambda data: data | {"what": data["what"] | {"path": "/etc/passwd"}},
    lambda data: data | {"what": {"kind": "question"}},
    lambda data: data | {"what": {"kind": "statement", "text": "SELECT 1", "public": {"t": 5}}},
    lambda data: data | {"what": {"kind": "caps", "dataset": "visits", "ranges": {"age": [0, 1, 2]}}},
    lambda data: data | {"what": {"kind": "linear", "dataset": "visits", "target": "cost", "features": "age"}},
    lambda data: [data],
    lambda data: None,
    lambda data: "request",
]


@pytest.mark.parametrize("changed", HOSTILE)
def test_hostile_data_are_refused_before_anything_is_asked(book: Any, changed: Any) -> None:
    data = Request(question(book), why="report").to_data()
    Request.from_data(data)
    with pytest.raises(InvalidInput):
        Request.from_data(changed(data))


def test_hostile_text_is_refused(book: Any) -> None:
    text = json.dumps(Request(Statement(SQL), Cost(rho=0.01), why="report").to_data())
    Request.from_json(text)
    for broken in (text[:-1], text.replace("0.01", "NaN"), text.replace("0.01", "1e999"), "[" * 5000, b"\xff"):
        with pytest.raises(InvalidInput):
            Request.from_json(broken)
    with pytest.raises(InvalidInput, match="twice"):
        Request.from_json(text[:-1] + ', "why": "other"}')


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("noise", "scales"), [0.001]),
        (("budget", "rho"), 1e-9),
        (("query", "table", "unit"), "ward"),
        (("query", "table", "source", "place"), "elsewhere.csv"),
        (("hash",), "0" * 64),
    ],
)
def test_an_edited_plan_is_refused_by_price_and_run(book: Any, path: tuple[str, ...], value: Any) -> None:
    data = through_json(Request(question(book), why="report").to_data())
    place = data["what"]["plan"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    request = Request.from_data(data)
    for ask in (price, rehearse, run):
        with pytest.raises(TallystickError):
            ask(request, book)
    assert used(book).a0 == 0


def test_a_condition_that_is_none_is_refused(book: Any) -> None:
    for condition in (5, [], ["drop", "x"], ["<", ["col", "nobody"], ["lit", 1]]):
        fit = LinearFit("visits", "cost", ("age",), {}, (condition,))
        with pytest.raises(InvalidInput):
            price(Request(fit, Cost(rho=0.1)), book)


def test_a_request_names_its_cost_in_words_that_its_kind_takes(book: Any) -> None:
    fit = LogisticFit("visits", "ward", ("age",), labels=("n", "e"))
    for what, cost in (
        (question(book), Cost(rho=0.1)),
        (LinearFit("visits", "cost", ("age",)), Cost()),
        (LinearFit("visits", "cost", ("age",)), Cost(error=3)),
        (fit, Cost(rho=0.1)),
        (Caps("visits"), Cost(rho=0)),
    ):
        with pytest.raises(InvalidInput):
            run(Request(what, cost, why="report"), book)
    assert used(book).a0 == 0


def test_a_denied_request_says_what_fits_as_data(book: Any) -> None:
    request = Request(question(book, rho=5.0), why="report")
    offer = price(request, book)
    assert not offer.fits
    assert offer.would_fit is not None
    told = TallystickError.from_data(through_json(dict(offer.would_fit)))
    assert isinstance(told, BudgetExceeded)
    lower = next(remedy for remedy in told.remedies if remedy.kind == "lower_price")
    assert price(Request(question(book, rho=lower["value"])), book).fits
    for ask in (rehearse, run):
        with pytest.raises(BudgetExceeded) as denied:
            ask(request, book)
        assert denied.value.remedies == told.remedies
    assert used(book).a0 == 0


def test_one_key_is_one_request(book: Any) -> None:
    run(Request(question(book), key="k", why="report"), book)
    with pytest.raises(IdempotencyConflict):
        run(Request(question(book, rho=0.02), key="k", why="report"), book)


def test_a_new_question_is_charged_each_time_and_a_saved_plan_once(book: Any) -> None:
    for is_new, charges in ((False, 1), (True, 3)):
        request = Request(question(book, is_new=is_new), why="report")
        keys = {run(request, book).key for _ in range(2)}
        assert len(keys) == 1 + is_new
        assert len(book.open("patients").history()) == charges


def test_a_request_without_a_reason_charges_nothing(book: Any) -> None:
    for what, cost in ((question(book), Cost()), (Statement(SQL), Cost(rho=0.01))):
        for why in (None, "", " "):
            with pytest.raises(InvalidInput):
                run(Request(what, cost, why=why), book)
    assert used(book).a0 == 0


def test_principals_keep_their_keys_apart(book: Any) -> None:
    request = Request(question(book), key="k", why="report")
    first, other = run(request, book), run(request, book, "ada")
    assert first.paid is not None
    assert other.paid is not None
    assert not other.paid.again
    assert run(request, book, "ada").paid.again  # type: ignore[union-attr]
    rows = [book.charge_row(paid.charge)[0].principal for paid in (first.paid, other.paid)]
    assert rows == ["local", "ada"]
    assert book.principal == "local"
    assert book.verify().intact


def test_a_price_knows_what_its_principal_paid(book: Any) -> None:
    request = Request(question(book), key="k", why="report")
    paid = run(request, book, "ana").paid
    assert paid is not None
    assert price(request, book, principal="ana").again == paid.charge
    assert price(request, book).again is None
    assert price(request, book, principal="ben").again is None


def test_explain_in_a_statement_is_an_offer_and_charges_nothing(book: Any) -> None:
    outcome = run(Request(Statement(f"EXPLAIN {SQL}"), Cost(rho=0.01)), book)
    assert outcome.paid is None
    assert outcome.offer is not None
    assert "No data was read and nothing was charged." in outcome.offer.explained
    assert used(book).a0 == 0


def test_python_the_shell_and_a_request_give_one_answer(book: Any, run: Any) -> None:
    made = answer(Request(Statement(SQL), Cost(rho=0.01), why="report"), book).outcome
    assert made.table is not None
    python = ts.sql(SQL, ledger=book, rho=0.01, why="report")
    assert [list(row.values()) for row in python.rows] == [list(row) for row in made.table.rows]
    shell = run("sql", SQL, "--rho", "0.01", "--why", "report", "--json").document["found"]
    assert shell["rows"] == [list(row) for row in made.table.rows]
    assert shell["again"]
    assert len(book.open("patients").history()) == 1


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "arrow"])
def test_files_of_an_outcome_are_those_of_the_release(book: Any, tmp_path: Path, ending: str) -> None:
    table = find("visits", book).opened(book.open("patients"))
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    plan = table.group_by("day", keys=days).agg(n=ts.count()).plan(rho=0.1)
    made = answer(Request(Question.of("visits", plan), why="report"), book)
    sent = Outcome.from_data(through_json(made.outcome.to_data()))
    assert sent.table is not None
    assert sent.table.dates == ("day",)
    out, own = tmp_path / f"table.{ending}", tmp_path / f"own.{ending}"
    files = Files(out, tmp_path / "card.html")
    files.check_in(book)
    written = files.write(type(made)(sent, made.made, made.card))
    writers = {
        "csv": made.made.to_csv,
        "json": lambda path: path.write_text(made.made.to_json() + "\n"),
        "parquet": made.made.to_parquet,
        "arrow": made.made.to_arrow_file,
    }
    writers[ending](own)
    assert out.read_bytes() == own.read_bytes()
    assert Path(written["card"]).exists()
    if ending != "json":
        assert Path(written["about"]).read_text() == made.made.about_csv()


def test_files_are_checked_by_name_before_a_charge(book: Any, tmp_path: Path) -> None:
    for files, argument in (
        (Files(tmp_path / "visits.csv"), "out"),
        (Files(tmp_path / "tallystick.csv", tmp_path / "card.pdf"), "card"),
        (Files(tmp_path / "t.json", tmp_path / "t.html"), "out"),
        (Files(tmp_path / "nowhere" / "t.csv"), "out"),
    ):
        with pytest.raises(InvalidInput) as refused:
            files.check_in(book)
        assert refused.value.argument == argument


def test_a_plan_about_another_table_is_refused(book: Any, run: Any, tmp_path: Path) -> None:
    (tmp_path / "later.csv").write_bytes((tmp_path / "visits.csv").read_bytes())
    assert run(*(word.replace("visits", "later") for word in ADD)).code == 0
    other = Question("later", question(book).plan)
    with pytest.raises(Refused, match="another table"):
        price(Request(other), book)


class Cancelled(BaseException):
    """A task that is cancelled, as asyncio does it."""


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_progress_does_not_stop_a_release(book: Any, kind: str) -> None:
    request, told = requests(book)[kind], []

    def leave(stage: str) -> None:
        told.append(stage)
        raise BrokenPipeError("the client left")

    with pytest.warns(ProgressFailed, match="BrokenPipeError"):
        outcome = run(request, book, progress=leave)
    assert len(told) == 1, "it is not called again"
    assert outcome.paid is not None
    again = run(request, book)
    assert again.paid is not None
    assert again.paid.again
    assert (again.table, again.model) == (outcome.table, outcome.model)
    assert price(Request(Statement(SQL), Cost(rho=0.01), why="another"), book).refused is None, "the data stay open"


@pytest.mark.parametrize("number", range(3))
def test_an_error_of_progress_in_any_stage_does_not_stop_a_release(book: Any, number: int) -> None:
    count = iter(range(100))

    def leave(stage: str) -> None:
        if next(count) == number:
            raise OSError(stage)

    request = Request(Statement("SELECT MEDIAN(age) AS m FROM visits"), Cost(rho=0.01), why="report")
    with pytest.warns(ProgressFailed):
        assert run(request, book, progress=leave).table is not None


def test_a_cancellation_in_progress_is_raised_after_the_answer_is_stored(book: Any) -> None:
    def cancel(stage: str) -> None:
        raise Cancelled

    request = requests(book)["question"]
    with pytest.raises(Cancelled):
        run(request, book, progress=cancel)
    again = run(request, book)
    assert again.paid is not None
    assert again.paid.again


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_key_is_refused_and_is_not_a_request_without_a_key(book: Any, kind: str) -> None:
    request = replace(requests(book)[kind], key="")
    for ask in (price, rehearse, run):
        with pytest.raises(InvalidInput) as caught:
            ask(request, book)
        assert caught.value.argument == "key"
    assert used(book).a0 == 0


WRONG = {
    "blank key": {"key": " "},
    "long key": {"key": "k" * 300},
    "unseen character": {"key": "k\u202e"},
    "empty reason": {"why": ""},
    "blank reason": {"why": " "},
    "control character": {"why": "report\x1b[2J"},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_a_price_refuses_keys_and_reasons_as_a_run_does(book: Any, kind: str, wrong: str) -> None:
    request = replace(requests(book)[kind], **WRONG[wrong])
    told = []
    for ask in (run, price):
        with pytest.raises(InvalidInput) as caught:
            ask(request, book)
        told.append((caught.value.argument, caught.value.allowed))
    assert told[0] == told[1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_offer_says_that_its_key_belongs_to_another_request(book: Any, kind: str) -> None:
    book.open("patients").pay(ts.zcdp(rho=0.01), why="another", key="taken")
    request = replace(requests(book)[kind], key="taken")
    with pytest.raises(IdempotencyConflict) as caught:
        run(request, book)
    refused = price(request, book).refused
    assert refused is not None
    assert TallystickError.from_data(through_json(dict(refused))).code == caught.value.code


def test_an_offer_withholds_a_failure_until_it_is_cleared(book: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = requests(book)["linear"]
    with monkeypatch.context() as failing:
        failing.setattr("tallystick.tables.run._integers", raise_an_error)
        with pytest.raises(TallystickError):
            run(request, book)
    refused = price(request, book).refused
    assert refused is not None
    assert refused["code"] == "unavailable"
    book.open("patients").clear(why="looked at the log")
    refused = price(request, book).refused
    assert refused is not None
    assert refused["code"] == "key_conflict"


def raise_an_error(*_: object) -> None:
    raise OSError


@pytest.mark.parametrize("delta", [2.2e-308, 1e-308, 1e-310, 5e-324])
@pytest.mark.parametrize("kind", ["statement", "linear", "caps"])
def test_a_delta_that_a_double_cannot_hold_exactly_is_refused(book: Any, kind: str, delta: float) -> None:
    request = replace(requests(book)[kind], cost=Cost(epsilon=1, delta=delta))
    for ask in (price, run):
        with pytest.raises(InvalidInput) as caught:
            ask(request, book)
        assert caught.value.argument == "delta"
    assert used(book).a0 == 0
