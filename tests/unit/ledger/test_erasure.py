"""Erased texts and answers are gone from every file; the chain and the amounts stay, and the question costs again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tallystick as ts
from crash.stores import entries_of, raised, spend
from crash.tampering import edited, rows_of
from tallystick.errors import AlreadyCommitted, InvalidInput, LedgerIntegrity, Refused
from tallystick.ledger import Budget, Ledger, erasure, import_ledger
from tallystick.ledger.chain import canonical
from tallystick.ledger.offline import verify_export
from tallystick.ledger.sqlite import SqliteStore
from tallystick.ledger.stream import AnswerStream, Cost
from tallystick.ledger.texts import ERASED

CANARY = "zebedee-of-ward-7"


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget.zcdp(1), unit="person")


@pytest.fixture
def number(people):
    """A charge with the canary in all its texts and in its answer."""
    charge = spend(people, 5, key=f"key of {CANARY}", why=f"about {CANARY}", request=f"how ill is {CANARY}?")
    charge.begin().commit(f"{CANARY} is well")
    return charge.id


def again(people):
    return spend(people, 5, key=f"key of {CANARY}", why=f"about {CANARY}", request=f"how ill is {CANARY}?")


def everything(place):
    """All that the store holds: the bytes of its files, or every row of every table of its schema."""
    if not place.startswith("postgresql"):
        files = Path(place).parent.glob(f"{Path(place).name}*")
        return b"".join(each.read_bytes() for each in files if each.is_file())
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    found = [rows_of(place, f"SELECT * FROM {table}") for (table,) in rows_of(place, tables)]
    assert len(found) > 12
    return repr(found).encode()


def test_an_erased_text_is_gone_and_the_amount_and_the_chain_stay(ledger, people, number, place):
    used, before = people.used, ledger.head()
    assert CANARY.encode() in everything(place)
    erased = ledger.erase(number, why="she asked for it", answers=True)
    ledger.purge()
    assert (erased.entries, erased.answers, erased.seq) == ((number,), (number,), before.seq + 1)
    assert CANARY.encode() not in everything(place)
    assert people.used == used
    assert ledger.verify().problems == ()
    [event] = people.history()
    assert (event.charge, event.why, event.amount.a0, event.state) == (number, ERASED, 5, "COMMITTED")
    assert CANARY not in "\n".join(ledger.export())


def test_before_the_purge_the_files_still_hold_what_was_erased(tmp_path, config):
    """The search in the files can fail: SQLite leaves deleted rows in free pages and in its log."""
    place = str(tmp_path / "budget.db")
    with Ledger(place) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        again(people).begin().commit(f"{CANARY} is well")
        ledger.erase(people.history()[0].charge, why="gone", answers=True)
        assert CANARY.encode() in everything(place)
        ledger.purge()
        assert CANARY.encode() not in everything(place)


def test_the_file_is_purged_only_if_its_log_could_be_emptied(tmp_path, config):
    place = str(tmp_path / "budget.db")
    with Ledger(place) as ledger, Ledger(place) as reader:
        again(ledger.open("people", budget=Budget.zcdp(1), unit="person")).begin().commit(1)
        ledger.erase(3, why="gone")
        assert isinstance(ledger.store, SqliteStore)
        ledger.store._connected().execute("PRAGMA busy_timeout = 100")  # milliseconds; no reader ends meanwhile
        with reader.store.read() as transaction:
            transaction.row("head")
            assert raised(ledger.purge) == "Unavailable"
        ledger.purge()
        assert CANARY.encode() not in everything(place)
        assert ledger.verify().problems == ()
        again(ledger.open("people")).begin()  # it can be written after the purge


def test_an_erased_question_costs_again(ledger, people, number):
    with pytest.raises(AlreadyCommitted):
        again(people).begin()
    ledger.erase(number, why="gone")
    charge = again(people)
    assert charge.stored() is None
    assert charge.paid_before() is None
    charge.begin().commit("a new answer")
    assert (people.used.a0, charge.id > number) == (10, True)
    with pytest.raises(AlreadyCommitted) as found:
        again(people).begin()
    assert found.value.answer == "a new answer"
    assert ledger.verify().problems == ()


def test_the_entry_of_an_erasure_says_who_and_what_and_not_the_text(ledger, people, number):
    ledger.acting_for("officer").erase(number, why="she asked for it")
    last = entries_of(ledger)[-1]
    assert {name: last[name] for name in ("kind", "principal", "why", "entries", "answers_of")} == {
        "kind": "erase",
        "principal": "officer",
        "why": "she asked for it",
        "entries": [number],
        "answers_of": [],
    }


def test_an_answer_stays_unless_it_is_erased_too(ledger, people, number):
    ledger.erase(number, why="gone")
    row, _ = ledger.charge_row(number)
    assert ledger.stored_answer(row)[0] == f"{CANARY} is well"
    ledger.erase(number, why="the answer, too", answers=True)
    with pytest.raises(Refused, match=r"was erased\. Asked again, it is charged again"):
        ledger.stored_answer(row)
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("started", [False, True])
def test_a_running_charge_cannot_be_erased(ledger, people, started):
    charge = again(people)
    charge.begin() if started else charge.reserve()
    head = ledger.head()
    with pytest.raises(Refused, match="charge that runs"):
        ledger.erase(charge.id, why="gone")
    assert ledger.head() == head
    charge.burn() if started else charge.refund()
    ledger.erase(charge.id, why="gone")
    assert ledger.verify().problems == ()


def test_an_item_of_a_run_that_was_paid_whole_cannot_be_erased(ledger, people):
    """Without its key the item would be released again, and it costs nothing."""

    def each(first, end):
        return Cost(ts.zcdp(rho=0.01), None, f"steps {first} to {end}")

    options = {"items": 3, "block": 1, "why": "w", "in_order": True, "whole": Cost(ts.zcdp(rho=0.1), None, "3 steps")}
    stream = AnswerStream(people, key="run", each=each, **options)
    stream.open()
    assert stream.take() == 0
    whole, item = (event.charge for event in people.history())
    with pytest.raises(Refused, match="paid as a whole"):
        ledger.erase(item, why="gone")
    later = AnswerStream(people, key="run", each=each, **options)
    later.open()
    assert later.take() == 1
    ledger.erase(whole, why="the reason had a name in it")
    third = AnswerStream(people, key="run", each=each, **options)
    assert raised(third.open) == "IdempotencyConflict"  # its items are taken
    assert ledger.verify().problems == ()


def test_registrations_and_what_has_no_text_cannot_be_erased(ledger, people, number):
    people.register("visits", source="visits.csv", note="about wards", fixed={"unit": "pid"})
    head = ledger.head()
    for wanted, error in (
        ((people.id,), Refused), ((head.seq,), Refused), ((number + 1,), Refused),
        ((999,), InvalidInput), ((0,), InvalidInput), ((True,), InvalidInput), (("3",), InvalidInput),
        ((2**70,), InvalidInput), ((), InvalidInput), ((number, 999), InvalidInput),
    ):  # fmt: skip
        with pytest.raises(error):
            ledger.erase(*wanted, why="gone")
    with pytest.raises(InvalidInput):
        ledger.erase(number, why=" ")
    assert ledger.head() == head
    ledger.erase(number, why="gone")
    with pytest.raises(Refused, match="nothing is left"):
        ledger.erase(number, why="gone")


def test_reasons_of_other_entries_can_be_erased(ledger, people):
    people.raise_limit(Budget.zcdp(2), why=f"{CANARY} said so")
    limit = people.limit
    people.close(why=f"{CANARY} is over")
    numbers = [seq for seq, entry in enumerate(entries_of(ledger), 1) if entry["kind"] in ("raise", "close")]
    ledger.erase(*numbers, why="gone")
    assert CANARY not in json.dumps(entries_of(ledger))
    assert people.limit == limit
    assert ledger.verify().problems == ()  # the signature of the raise covers the commitment


def test_a_text_that_comes_back_after_its_erasure_is_found(ledger, people, number, place):
    rows = rows_of(place, "SELECT entry, field, salt, body FROM entry_text WHERE entry = ?", number)
    tags = rows_of(place, "SELECT * FROM tag WHERE charge_id = ?", number)
    [answer] = rows_of(place, "SELECT * FROM answer WHERE charge_id = ?", number)
    ledger.erase(number, why="gone", answers=True)
    assert (len(rows), len(tags)) == (3, 1)
    for statement, row, back in (
        ("INSERT INTO entry_text VALUES (?, ?, ?, ?)", rows[0], "DELETE FROM entry_text WHERE entry = ?"),
        ("INSERT INTO tag VALUES (?, ?, ?, ?)", tags[0], "DELETE FROM tag WHERE charge_id = ?"),
        ("INSERT INTO answer VALUES (?, ?, ?)", answer, "DELETE FROM answer WHERE charge_id = ?"),
    ):
        edited(place, (statement, row))
        assert ledger.verify().problems, statement
        edited(place, (back, (number,)))
        assert ledger.verify().problems == ()


def test_a_text_that_someone_deletes_without_an_entry_is_found(ledger, people, number, place):
    with ledger.store.write("edit") as transaction:
        erasure.remove_texts(transaction, number)
    found = ledger.verify().problems
    assert any("is missing, and no entry says that it was erased" in problem for problem in found)


def test_an_export_after_an_erasure_becomes_a_ledger(ledger, people, number, tmp_path):
    ledger.erase(number, why="gone", answers=True)
    lines = list(ledger.export())
    with import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "elsewhere", first_use="a copy") as copy:
        assert copy.verify().problems == ()
        account = copy.open("people")
        assert account.used.a0 == 5
        again(account).begin()
        assert account.used.a0 == 10


def test_an_old_text_cannot_be_smuggled_into_an_export(ledger, people, number, tmp_path):
    before = list(ledger.export())
    ledger.erase(number, why="gone")
    lines = list(ledger.export())
    old = next(json.loads(line) for line in before if json.loads(line).get("seq") == number)
    lines[number] = json.dumps({**json.loads(lines[number]), "texts": old["texts"]})
    assert raised(lambda: import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "new")) == "LedgerIntegrity"


def test_an_old_answer_cannot_be_smuggled_into_an_export(ledger, people, number, tmp_path):
    before = list(ledger.export())
    ledger.erase(number, why="gone", answers=True)
    lines = [json.loads(line) for line in ledger.export()]
    lines[number + 1]["answer"] = json.loads(before[number + 1])["answer"]
    assert lines[number + 1]["answer"]
    forged = [canonical(line) for line in lines]
    with pytest.raises(LedgerIntegrity, match="is there, although it was erased"):
        import_ledger(forged, tmp_path / "copy.db")
    assert verify_export(forged).problems


def test_the_server_keeps_no_samples_of_what_can_be_erased(place, ledger, people):
    """PostgreSQL samples columns to plan queries, and keeps the samples when rows are deleted."""
    if not place.startswith("postgresql"):
        pytest.skip("SQLite samples no columns without an index")
    for number in range(20):
        spend(people, 1, key=f"{number} {CANARY}", why=f"{number % 3} {CANARY}").begin().commit(CANARY)
    edited(place, ("ANALYZE", ()))
    sampled = rows_of(place, "SELECT tablename, attname FROM pg_stats WHERE schemaname = current_schema()")
    assert ("entry_text", "field") in sampled
    erasable = {("entry_text", "body"), ("entry_text", "salt"), ("answer", "body"), ("answer", "salt")}
    tags = {("tag", name) for name in ("key_tag", "stem_tag", "request_tag")}
    assert not (erasable | tags) & set(sampled)


def test_an_item_that_cost_nothing_is_not_erased_while_its_entry_is_edited(ledger, people, monkeypatch):
    """The entry looks as if it had a cost. A checkpoint does not hold what earlier charges paid."""

    def each(first, end):
        return Cost(ts.zcdp(rho=0.01), None, f"item {first}")

    whole = Cost(ts.zcdp(rho=0.1), None, "all")
    stream = AnswerStream(people, key="s", why="w", items=3, whole=whole, each=each)
    stream.open()
    item = stream.answer(0, lambda: 1).receipt.charge
    ledger.govern(why="a team uses it")
    ledger.make_checkpoint()
    head = ledger.head()
    monkeypatch.setattr(erasure, "_require_erasable", lambda *given: None)
    with Ledger(ledger.store.place, clock=ledger._clock) as later:
        assert raised(lambda: later.erase(item, why="gone")) == "LedgerIntegrity"
    assert (ledger.head(), ledger.verify().problems) == (head, ())
