"""What one turn of a governed writer reads and compares: not more with every charge, and no less than it relies on."""

from __future__ import annotations

import contextlib
import fcntl
import random
import sqlite3
import threading
import time

import pytest

from crash.stores import Clock, raised, spend
from crash.tampering import append_forged, edited, newest_in
from tallystick.accounting.losses import zcdp
from tallystick.errors import Refused
from tallystick.ledger import Budget, Filter, Ledger, Partition, Signer, checkpoints, governance, signing
from tallystick.ledger.journal import head as head_of
from tallystick.ledger.replay import Book
from tallystick.ledger.signing import verified
from tallystick.ledger.sqlite import SqliteTransaction
from tallystick.ledger.store import STATEMENTS
from unit.ledger.test_forgeries import connect

GROWING = ("entry", "charge", "line", "answer", "tag", "seal", "entry_text")
THIEF = Signer(b"t" * 32)
LEAST = zcdp(rho=4e-12)


def answered(account, key, a0=5, **options):
    with spend(account, a0, key=key, **options) as charge:
        charge.answer = 1
    return charge.id


@pytest.fixture
def people(ledger):
    account = ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
    ledger.govern(why="a team uses it")
    return account


# -- what a turn reads


def statements_of(action, tmp_path, monkeypatch):
    """The statements that an action on a governed ledger with registered data runs, on a SQLite file."""
    used = set()
    execute = SqliteTransaction.run, SqliteTransaction.row, SqliteTransaction.rows

    def noted(plain):
        def run(self, statement, *values):
            used.add(statement)
            return plain(self, statement, *values)

        return run

    with Ledger(tmp_path / "budget.db", config=tmp_path / "config", clock=Clock()) as ledger:
        people = ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
        ledger.govern(why="a team uses it")
        people.register("visits", source="visits.csv", fixed={"unit": "pid"}, least_price=LEAST)
        answered(people, "first", source="visits.csv")
        ledger.make_checkpoint()
        for name, plain in zip(("run", "row", "rows"), execute, strict=True):
            monkeypatch.setattr(SqliteTransaction, name, noted(plain))
        action(people)
    return used


def scanned(path, statement):
    """The tables that SQLite reads from their first row to the last, by its own plan."""
    sql = STATEMENTS[statement]
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?")).fetchall()
    names = {alias: table for table in GROWING for alias in (table, table[0], "k", "n", "w")}
    found = [row[3].split()[1] for row in plan if row[3].startswith("SCAN")]
    return [names[name] for name in found if name in names]


def test_a_turn_scans_no_table_that_grows_with_charges(tmp_path, monkeypatch):
    used = statements_of(lambda people: answered(people, "k", source="visits.csv"), tmp_path, monkeypatch)
    assert {"seal_insert", "registrations", "entries_after", "account_by_id", "charges_expired"} <= used
    found = {statement: scanned(tmp_path / "budget.db", statement) for statement in used if statement != "head"}
    assert {statement: tables for statement, tables in found.items() if tables} == {}


def test_a_check_from_a_checkpoint_scans_no_table_that_grows_with_charges(tmp_path, monkeypatch):
    used = statements_of(lambda people: people.ledger.verify(full=False).require(), tmp_path, monkeypatch)
    assert {"charges", "lines", "tags", "texts", "seals", "answer_ids"} <= used
    found = {statement: scanned(tmp_path / "budget.db", statement) for statement in used if statement != "head"}
    assert {statement: tables for statement, tables in found.items() if tables} == {}


def test_a_check_from_a_checkpoint_reads_no_page_of_the_file_but_those_of_its_rows(people, monkeypatch):
    def unexpected():
        pytest.fail("the whole store was read")

    people.ledger.make_checkpoint()
    monkeypatch.setattr(people.ledger.store, "damage", unexpected)
    report = people.ledger.verify(full=False)
    assert report.problems == ()
    assert any("damage" in part for part in report.not_checked)


def test_without_a_checkpoint_every_check_looks_for_damage(people, monkeypatch):
    monkeypatch.setattr(people.ledger.store, "damage", lambda: ["page 7 is damaged"])
    assert [people.ledger.verify(full=full).problems for full in (True, False)] == [("page 7 is damaged",)] * 2
    assert not people.ledger.verify(full=False).not_checked


# -- what a turn compares


def test_an_account_that_moved_while_the_ledger_was_read_is_compared_by_the_next_writer(ledger, people, place):
    guests = ledger.open("guests", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
    with Ledger(place, clock=ledger._clock) as other:
        answered(other.open("guests"), "k", 5)
        answered(people, "own", 5)
        answered(other.open("guests"), "l", 5)
    with ledger.store.read() as transaction:
        assert ledger.believed(transaction) is not None  # it has replayed the charge on the other account
    edited(place, ("UPDATE account SET limit0 = 1000 WHERE name = 'guests'", ()))
    assert raised(lambda: guests.limit) == "LedgerIntegrity"
    assert raised(lambda: answered(people, "next", 5)) == "LedgerIntegrity"


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entry_text SET body = '{}' WHERE field = 'note'",
        "UPDATE entry_text SET salt = '00112233445566778899aabbccddeeff' WHERE field = 'note'",
        "DELETE FROM entry_text WHERE field = 'note'",
        "UPDATE dataset SET least0 = 1",
        "DELETE FROM dataset",
    ],
)
def test_a_registration_is_compared_on_every_turn(ledger, people, place, edit):
    """Also one that was compared before: what was found then is remembered as a text, not as a verdict."""
    people.register("visits", source="visits.csv", note="first", fixed={"unit": "pid"}, least_price=LEAST)
    answered(people, "k")
    answered(people, "l")
    edited(place, (edit, ()))
    assert raised(lambda: answered(people, "m")) == "LedgerIntegrity"


# -- signatures that need no check


def test_a_signature_is_checked_by_making_it_again_only_if_it_is_ones_own():
    own, value = Signer(b"o" * 32), {"seq": 7}
    by_own, by_thief = own.sign(value), THIEF.sign(value)
    signing._made.clear()
    assert own.made(value, own.public, by_own)
    assert own.made(value, THIEF.public, by_thief)
    for wrong in (by_thief, by_own[:-2] + "00", "", "zz"):
        assert not own.made(value, own.public, wrong)
        assert not own.made({"seq": 8}, THIEF.public, wrong)


@pytest.mark.parametrize("wrong", [None, 7, [], {}, b"", "", "00" * 64])
def test_what_is_no_signature_or_no_key_is_refused_and_raises_nothing(wrong):
    value = {"seq": 11}
    signature = THIEF.sign(value)
    assert not verified(value, THIEF.public, wrong)
    assert not verified(value, wrong, signature)
    assert not verified({"seq": 12}, wrong, wrong)
    assert not verified({"seq": float("nan")}, THIEF.public, signature)
    assert not THIEF.made(value, wrong, wrong)


def test_a_signature_that_was_made_here_holds_for_its_own_terms_and_key_alone():
    value = {"seq": 9}
    signature = THIEF.sign(value)
    assert verified(value, THIEF.public, signature)
    assert not verified({"seq": 10}, THIEF.public, signature)
    assert not verified(value, Signer(b"o" * 32).public, signature)
    for number in range(3 * signing.MADE):
        THIEF.sign({"seq": number})
    assert len(signing._made) <= signing.MADE


# -- totals are carried, not added up again


def added_up(book, number):
    """The total of an account by its definition: own charges, blocks without a partition, the largest of each."""
    account = book.accounts[number]
    parts = {}
    for each in (row for row in book.accounts.values() if row.parent_id == number):
        own = each.partition_name or f"block {each.id}"
        parts[own] = [max(old, new) for old, new in zip(parts.get(own, (0, 0)), added_up(book, each.id), strict=True)]
    return tuple(own + sum(part[i] for part in parts.values()) for i, own in enumerate((account.own0, account.own1)))


@pytest.mark.parametrize("seed", range(5))
def test_carried_totals_are_those_that_are_added_up(tmp_path, seed):
    draw = random.Random(seed)
    with Ledger(tmp_path / "budget.db", config=tmp_path / "config", clock=Clock()) as ledger:
        accounts = [ledger.open("people", budget=Budget(Filter("approx"), 10**6, 10**6), unit="person")]
        for number in range(9):
            name = draw.choice(["", "ward", "room"])
            partition = Partition(name, by="unit id", one_block_per_unit=True) if name else None
            budget, parent = Budget(Filter("approx"), 10**6, 10**6), draw.choice(accounts)
            accounts.append(ledger.open(f"b{number}", budget=budget, parent=parent, partition=partition))
        ledger.govern(why="a team uses it")
        held = []
        for step in range(60):
            if held and draw.random() < 0.4:
                held.pop(draw.randrange(len(held))).refund()
            else:
                held.append(spend(draw.choice(accounts), draw.randrange(1, 99), draw.randrange(99)).reserve())
            if step == 30:
                ledger.make_checkpoint()
        with ledger.store.read() as transaction:
            full, later = Book(), checkpoints.newest(transaction, ledger.id, {ledger.signer().public})[0]
            for seq, _, body in transaction.rows("entries_after", 0, 1000):
                full.apply(seq, body)
                if seq > later.start:
                    later.apply(seq, body)
        for book in (full, later):
            totals = {number: (row.used0, row.used1) for number, row in book.accounts.items()}
            assert totals == {number: added_up(book, number) for number in book.accounts}
        assert (ledger.verify().problems, ledger.verify(full=False).problems) == ((), ())


# -- a writer takes its own entries as it made them


def test_own_entries_are_not_read_back(ledger, people, monkeypatch):
    """The state comes from what was made, on both stores, and is that of a replay of the rows."""
    answered(people, "first")
    monkeypatch.setattr(governance.Watch, "_read", None)
    answered(people, "second")
    spend(people, 5, key="third").reserve().refund()
    spend(people, 5, key="fourth").take_and_commit(1)
    monkeypatch.undo()
    made = ledger.writer.watch.book
    ledger.writer.watch = governance.Watch()
    with ledger.store.read() as transaction:
        replayed = ledger.believed(transaction)
    assert made is not replayed
    assert checkpoints.state_of(made, ledger.head()) == checkpoints.state_of(replayed, ledger.head())


def test_a_holder_who_lost_a_charge_is_told_so(ledger, people):
    held = spend(people, 5, key="first").begin()
    held.burn()
    with pytest.raises(Refused, match="no longer held"):
        held.commit(1)


def changed_by_trigger(place, statement):
    """Let the database run a statement after each row of ``entry`` that is written."""
    if "://" in place:
        connect(place, "DROP TRIGGER entry_no_change ON entry")
        body = f"BEGIN {statement}; RETURN NEW; END"
        connect(place, f"CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        connect(place, "CREATE TRIGGER change AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION change()")
    else:
        connect(place, "DROP TRIGGER entry_no_update")
        connect(place, f"CREATE TRIGGER change AFTER INSERT ON entry BEGIN {statement}; END")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body = replace(body, '\"fence\":1', '\"fence\":2') WHERE seq = NEW.seq",
        "UPDATE entry SET hash = upper(hash) WHERE seq = NEW.seq",
        "UPDATE entry SET hash = upper(hash) WHERE seq = NEW.seq - 1",
    ],
)
def test_an_entry_that_the_store_changes_while_it_is_written_is_not_sealed(ledger, people, place, statement):
    answered(people, "first")
    held = spend(people, 5, key="second").begin()
    changed_by_trigger(place, statement)
    with ledger.store.read() as transaction:
        head = head_of(transaction)
    assert raised(lambda: held.commit(1)) == "LedgerIntegrity"
    with ledger.store.read() as transaction:
        assert head_of(transaction) == head


# -- a writer that waits reads ahead


@contextlib.contextmanager
def gate_held(place):
    """Keep every writer of a SQLite file waiting, as another writer does in its turn."""
    with open(f"{place}.gate", "r+b") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def waiting(action):
    """Start an action in a thread; return the thread and what came out of it."""
    found = []
    thread = threading.Thread(target=lambda: found.append(raised(action)))
    thread.start()
    return thread, found


def sqlite_of(place):
    if str(place).startswith("postgresql"):
        pytest.skip("a client of PostgreSQL waits inside its transaction")


def reached(ledger, position):
    """Wait until the writer has replayed the chain up to there."""
    end = time.monotonic() + 20
    while ledger.writer.watch.position != position:
        assert time.monotonic() < end, "the writer did not read ahead"
        time.sleep(0.002)


def test_a_writer_that_waits_replays_what_others_wrote(ledger, people, place):
    sqlite_of(place)
    answered(people, "first")
    with Ledger(place, clock=ledger._clock) as other:
        answered(other.open("people"), "theirs")
    head = newest_in(place)
    assert ledger.writer.watch.position != head
    with gate_held(place):
        thread, found = waiting(lambda: answered(people, "second"))
        reached(ledger, head)
    thread.join(20)
    assert (found, people.used.a0, ledger.verify().problems) == (["ok"], 15, ())


def test_an_interrupted_replay_begins_again(ledger, people, monkeypatch):
    answered(people, "first")
    move = Book.move

    def interrupted(self, *values):
        move(self, *values)
        monkeypatch.setattr(Book, "move", move)
        raise KeyboardInterrupt

    monkeypatch.setattr(Book, "move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spend(people, 5, key="stopped").begin()
    answered(people, "second")
    assert (people.used.a0, ledger.verify().problems) == (10, ())


@pytest.mark.parametrize("way", ["no seal", "edited limit", "cut off"])
def test_what_was_read_ahead_is_not_believed_without_a_seal(ledger, people, place, way):
    sqlite_of(place)
    answered(people, "first")
    with Ledger(place, clock=ledger._clock) as other:
        answered(other.open("people"), "theirs", 5)
    if way == "no seal":
        append_forged(
            place, {"kind": "close", "at": ledger.now(), "account": people.id, "why": "0" * 64, "governed": 3}
        )
    with ledger.store.read() as transaction:
        head = head_of(transaction)
    with gate_held(place):
        thread, found = waiting(lambda: answered(people, "second"))
        reached(ledger, head)
        if way == "edited limit":
            edited(place, ("UPDATE account SET limit0 = 1000", ()))
        elif way == "cut off":
            edited(place, ("DELETE FROM entry WHERE seq = ?", (head.seq,)))
    thread.join(20)
    assert found == ["LedgerIntegrity"]
    with ledger.store.read() as transaction:
        assert head_of(transaction).seq == head.seq - (way == "cut off")
