"""Charges of several threads share a transaction: each is whole or absent, and told once it is durable."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
import time
from functools import partial

import psycopg
import pytest

from crash.combined import Forgetful, Hasty, Talkative, broken, join, seals_of, together
from crash.stores import Clock, charge_rows, entries_of, fresh_schema, raised, spend
from crash.tampering import append_forged, edited
from crash.teams import Team
from sweeps import share
from tallystick.errors import BudgetExceeded, LedgerIntegrity, Refused, Unavailable
from tallystick.ledger import Budget, Filter, Ledger, combiner, journal
from tallystick.ledger.replay import Book

MANY = 16


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A busy machine must not end a transaction before all threads have joined it."""
    monkeypatch.setattr(combiner, "LONGEST", 60.0)


@pytest.fixture
def ledger(place, clock):
    with Ledger(place, clock=clock, combine=True) as opened:
        yield opened


def people(ledger, limit=1000, *, governed=True):
    account = ledger.open("people", budget=Budget(Filter("zcdp"), limit, 0), unit="person")
    if governed:
        ledger.govern(why="a service")
    return account


def states(ledger):
    with ledger.store.read() as transaction:
        return {row[2]: row[4] for row in charge_rows(transaction)}


def require_true(ledger):
    """The record is whole, the newest entry is sealed, and the state in memory is that of the chain."""
    assert ledger.verify().problems == ()
    assert not ledger.keys() or seals_of(ledger)[-1] == ledger.head().seq
    with ledger.store.read() as transaction:
        believed = ledger.believed(transaction)
        fresh = Book()
        for number, _, body in transaction.rows("entries_after", 0, 100_000):
            fresh.apply(int(number), str(body))
    if believed is not None:
        assert believed.accounts == fresh.accounts
        assert believed.charges == fresh.charges
        assert believed.answers == fresh.answers


# -- one transaction


@pytest.mark.parametrize("governed", [True, False])
def test_charges_of_many_threads_share_one_transaction_and_one_seal(ledger, governed):
    account = people(ledger, governed=governed)
    before, first = seals_of(ledger), ledger.head().seq
    begun = together(ledger, [partial(spend(account, 3, key=f"k{n}").begin) for n in range(MANY)])
    assert [charge.state for charge in begun] == ["EXECUTING"] * MANY
    assert [charge.id for charge in begun] == list(range(first + 1, first + MANY + 1))
    assert len(seals_of(ledger)) == len(before) + governed
    together(ledger, [partial(charge.commit, n) for n, charge in enumerate(begun)])
    assert len(seals_of(ledger)) == len(before) + 2 * governed
    assert set(states(ledger).values()) == {"COMMITTED"}
    assert account.used.a0 == 3 * MANY
    require_true(ledger)


def test_a_ledger_combines_only_if_it_was_opened_so(place):
    with Ledger(place) as ledger:
        assert not isinstance(ledger.store, combiner.Combiner)


def test_a_transaction_takes_no_more_blocks_than_its_limit(ledger, monkeypatch):
    monkeypatch.setattr(combiner, "MOST", 3)
    account = people(ledger)
    before = len(seals_of(ledger))
    together(ledger, [partial(spend(account, 1, key=f"k{n}").begin) for n in range(7)])
    assert len(seals_of(ledger)) - before == 3
    require_true(ledger)


def test_a_transaction_that_takes_long_takes_no_more_blocks(ledger, monkeypatch):
    monkeypatch.setattr(combiner, "LONGEST", 0.0)
    account = people(ledger)
    before = len(seals_of(ledger))
    together(ledger, [partial(spend(account, 1, key=f"k{n}").begin) for n in range(4)])
    assert len(seals_of(ledger)) - before == 4


def test_many_threads_never_pass_a_budget_that_is_nearly_spent(ledger):
    account = people(ledger, limit=100)
    spend(account, 77, key="before").begin()
    found = together(ledger, [lambda n=n: raised(spend(account, 3, key=f"k{n}").begin) for n in range(MANY)])
    assert found == ["ok"] * 7 + ["BudgetExceeded"] * (MANY - 7)
    assert account.used.a0 == 98
    require_true(ledger)


def test_threads_that_charge_freely_never_pass_a_budget(ledger):
    account = people(ledger, limit=100)
    found = []

    def run(number):
        for turn in range(6):
            found.append(raised(partial(spend(account, 3, key=f"{number}-{turn}").take_and_commit, turn)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(MANY)]
    for thread in threads:
        thread.start()
    join(threads)
    assert sorted(set(found)) == ["BudgetExceeded", "ok"]
    assert found.count("ok") == 33
    assert account.used.a0 == 99
    require_true(ledger)


def test_one_key_of_many_threads_is_charged_once(ledger):
    account = people(ledger)
    found = together(ledger, [partial(spend(account, 5, key="same").take_and_commit, n) for n in range(MANY)])
    assert [type(each).__name__ for each in found] == ["Receipt"] + ["AlreadyCommitted"] * (MANY - 1)
    assert {each.answer for each in found[1:]} == {0}
    assert account.used.a0 == 5


def test_each_block_has_its_own_principal_and_is_judged_alone(place):
    clock = Clock()
    team = Team(place, clock)
    team.ledger.close()
    with Ledger(place, clock=clock, combine=True) as ledger:
        by = {name: ledger.acting_for(team.ids[name]) for name in ("root", "ann", "amy", "eve")}
        paying = [("root", "clinic"), ("ann", "ann's"), ("eve", "clinic"), ("amy", "ann's"), ("root", "clinic")]
        before = ledger.head().seq
        found = together(
            ledger,
            [spend(by[who].open(account), 4, key=f"{n}").begin for n, (who, account) in enumerate(paying)],
        )
        assert [type(each).__name__ for each in found] == ["Charge", "Charge", *["NotAuthorised"] * 2, "Charge"]
        acts = [entry["act"][0] for entry in entries_of(ledger)[before:]]
        assert acts == [team.ids["root"], team.ids["ann"], team.ids["root"]]
        require_true(ledger)


def test_what_an_operator_does_has_a_transaction_for_itself(ledger):
    account = people(ledger)
    before = len(seals_of(ledger))
    together(ledger, [partial(spend(account, 1, key=f"k{n}").begin) for n in range(3)])
    account.raise_limit(Budget(Filter("zcdp"), 2000, 0), why="more")
    assert len(seals_of(ledger)) - before == 2
    require_true(ledger)


# -- a block that fails


def bug(ledger, account, key):
    """A write that fails after all its statements."""
    terms, until = journal.Terms.of(((account, 7, 0),), "{}"), ledger.lease_end(100)
    plan = "{}", journal.digest("{}")
    request = journal.Request(ledger.principal, key, "named", "test", *plan, terms.asked, until, terms.about)
    with ledger.write("begin") as transaction:
        journal.reserve(transaction, request, ledger.now(), started=True)
        raise ZeroDivisionError


def statement_that_fails(ledger):
    """A statement that the database refuses, after one that it has accepted."""
    with ledger.write("begin") as transaction:
        transaction.run("secret_insert", 5, "0" * 64)
        transaction.run("entry_insert", 1, "0" * 64, "{}")


@pytest.mark.parametrize("governed", [True, False])
@pytest.mark.parametrize("place_of_failure", [0, 2, 4])
def test_a_block_that_fails_leaves_the_others_as_they_are(ledger, governed, place_of_failure):
    account = people(ledger, governed=governed)
    held = spend(account, 1, key="held").begin()
    held.commit("an answer")
    failures = [
        (partial(bug, ledger, account, "bug"), ZeroDivisionError),
        (spend(account, 10**6, key="too much").begin, BudgetExceeded),
        (partial(statement_that_fails, ledger), LedgerIntegrity),
        (held.burn, Refused),
        (partial(bug, ledger, account, "another"), ZeroDivisionError),
    ]
    works = [spend(account, 3, key=f"k{n}").begin for n in range(4)]
    for failing, _ in failures:
        works.insert(place_of_failure, failing)
    head = ledger.head().seq
    found = together(ledger, works)
    kinds = [type(each) for each in found if isinstance(each, Exception)]
    assert kinds == [kind for _, kind in reversed(failures)]
    assert ledger.head().seq == head + 4
    assert account.used.a0 == 13
    require_true(ledger)
    together(ledger, [partial(each.commit, 1) for each in found if not isinstance(each, Exception)])
    require_true(ledger)


def test_a_text_that_the_database_cannot_hold_fails_alone(ledger):
    account = people(ledger)
    found = together(ledger, [spend(account, 1, key=f"k{n}", request="a\0b" * (n == 1)).begin for n in range(3)])
    is_postgres = ledger.store.schema != ""  # it has no character of the number 0
    assert [isinstance(each, LedgerIntegrity) for each in found] == [False, is_postgres, False]
    require_true(ledger)


def test_an_entry_that_breaks_a_rule_of_the_chain_is_undone_alone(ledger):
    account = people(ledger)

    def forge():
        with ledger.write("commit") as transaction:
            journal.append(transaction, "commit", ledger.now(), charge=10**6, fence=1, answer_hash="0" * 64)

    works = [spend(account, 1, key="a").begin, forge, spend(account, 1, key="b").begin]
    found = together(ledger, works)
    assert [isinstance(each, LedgerIntegrity) for each in found] == [False, True, False]
    assert states(ledger) == {"a": "EXECUTING", "b": "EXECUTING"}
    require_true(ledger)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_thread_that_is_interrupted_in_its_block_passes_the_turn_on(ledger, number, kind):
    account = people(ledger)

    def interrupted():
        with ledger.write("begin"):
            raise kind

    works = [spend(account, 1, key=f"k{n}").begin for n in range(2)]
    works.insert(number, interrupted)
    found = together(ledger, works)
    assert [type(each) for each in found if isinstance(each, BaseException)] == [kind]
    assert len(states(ledger)) == 2
    spend(account, 1, key="next").begin()
    require_true(ledger)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_thread_that_is_interrupted_while_it_waits_gives_its_place_up(ledger, is_first):
    account = people(ledger)
    shared = ledger.store
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with shared.store._mutex:
            is_held.set()
            may_end.wait(60)

    def queued():
        return len(shared._waiting) + (shared._leader is not None)

    threads = [threading.Thread(target=hold, daemon=True)]
    threads[0].start()
    assert is_held.wait(60)
    others = [threading.Thread(target=spend(account, 1, key=f"k{n}").begin, daemon=True) for n in range(2)]
    if not is_first:
        for thread in others:
            thread.start()
        while queued() < 2:
            time.sleep(0.001)
    main = threading.main_thread().ident

    def interrupt():
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    threads.append(threading.Thread(target=interrupt, daemon=True))
    threads[1].start()
    with pytest.raises(KeyboardInterrupt):
        spend(account, 1, key="interrupted").begin()
    if is_first:
        for thread in others:
            thread.start()
    may_end.set()
    join([*threads, *others])
    assert states(ledger) == {"k0": "EXECUTING", "k1": "EXECUTING"}
    spend(account, 1, key="next").begin()
    require_true(ledger)


def test_a_transaction_inside_a_block_is_refused_and_the_others_are_not_affected(ledger):
    account = people(ledger)

    def nested(operation):
        with ledger.write("begin"):
            if operation == "read":
                ledger.head()
            with ledger.write(operation):
                pass

    works = [partial(nested, operation) for operation in ("begin", "read", "open")]
    found = together(
        ledger, [*works[:1], spend(account, 1, key="a").begin, *works[1:], spend(account, 1, key="b").begin]
    )
    assert [isinstance(each, Unavailable) for each in found] == [True, False, True, True, False]
    with ledger.store.read(), pytest.raises(Unavailable):
        spend(account, 1, key="in a snapshot").begin()
    assert sorted(states(ledger)) == ["a", "b"]
    require_true(ledger)


def test_a_block_whose_clock_is_old_does_not_wait_for_the_connection_of_its_leader(place):
    with Ledger(place, combine=True) as ledger:
        account = people(ledger)
        plain = ledger.store.store

        def slow():
            with ledger.write("begin"):
                if hasattr(plain, "_clock"):
                    plain._clock = plain._clock[0] - 1000, plain._clock[1] - 1000
                return abs(ledger.now() / 1000 - time.time())

        found = together(ledger, [spend(account, 1, key="a").begin, slow])
        assert found[1] < 60


# -- nothing is told before it is durable


def failing_commit(ledger, kind=sqlite3.OperationalError):
    """Let the next commit of a combined transaction fail once."""
    plain = ledger.store.store

    def probe(point):
        if point == "combined: before COMMIT":
            plain._probe = None
            raise kind("disk I/O error")

    plain._probe = probe


@pytest.fixture
def failure(place):
    return psycopg.OperationalError if place.startswith("postgresql") else sqlite3.OperationalError


def test_a_transaction_that_fails_fails_for_all_and_leaves_nothing(ledger, failure):
    account = people(ledger)
    spend(account, 1, key="before").begin()
    head, actors = ledger.head(), dict(ledger.writer.actors)
    failing_commit(ledger, failure)
    found = together(ledger, [spend(account, 1, key=f"k{n}").begin for n in range(5)])
    assert [type(each) for each in found] == [Unavailable] * 5
    assert len({id(each) for each in found}) == 5
    assert (ledger.head(), ledger.writer.actors) == (head, actors)
    require_true(ledger)
    begun = together(ledger, [spend(account, 1, key=f"k{n}").begin for n in range(5)])
    assert len(begun) == 5
    assert account.used.a0 == 6
    require_true(ledger)


POINTS = ("before savepoint", "before entry_insert", "after charge_insert", "after tag_insert")


@pytest.mark.parametrize("point", POINTS)
def test_a_transaction_that_the_store_has_ended_itself_fails_for_all(ledger, point):
    """SQLite ends a transaction when the disk is full. A savepoint would then begin another one, without a seal."""
    account = people(ledger)
    plain, passed = ledger.store.store, []

    def probe(name):
        passed.append(name)
        if passed.count(f"combined: {point}") == 2:
            plain._probe = lambda name: None
            connection = plain._connection
            if ledger.store.schema:
                connection.close()
                raise psycopg.OperationalError("the connection was lost")
            connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    plain._probe = probe
    head = ledger.head()
    found = together(ledger, [spend(account, 1, key=f"k{n}").begin for n in range(4)])
    plain._probe = None
    assert [type(each).__name__ for each in found] == ["Unavailable"] * 2 + ["Charge"] * 2  # the others begin again
    assert sorted(states(ledger)) == ["k2", "k3"]
    assert ledger.head().seq == head.seq + 2
    require_true(ledger)


def test_a_bug_in_the_end_of_a_transaction_fails_for_all(ledger, monkeypatch):
    account = people(ledger)
    plain = ledger.store.store
    seal = plain._seal

    def fail(transaction):
        plain._seal = seal
        raise KeyError("a bug")

    plain._seal = fail
    found = together(ledger, [spend(account, 1, key=f"k{n}").begin for n in range(3)])
    assert [type(each) for each in found] == [KeyError, Unavailable, Unavailable]
    assert states(ledger) == {}
    spend(account, 1, key="next").begin()
    require_true(ledger)


def test_a_denial_that_rests_on_a_failed_transaction_is_not_told(ledger, failure):
    account = people(ledger, limit=10)
    failing_commit(ledger, failure)
    works = [lambda: spend(account, 100, key="first").begin(), spend(account, 8, key="a").begin]
    found = together(ledger, [*works, spend(account, 8, key="b").begin])
    assert [type(each) for each in found] == [BudgetExceeded, Unavailable, Unavailable]
    found = together(ledger, [spend(account, 8, key="a").begin, spend(account, 8, key="b").begin])
    assert [type(each).__name__ for each in found] == ["Charge", "BudgetExceeded"]


def told_early(ledger):
    """Charges that were told to their threads before another connection could see them, or before their sync."""
    account = ledger.open("people")
    durability = getattr(ledger.store.store, "_durability", None)
    lock = threading.Lock()
    with Ledger(ledger.store.place) as other:

        def is_durable(number):
            charge = spend(account, 1, key=f"k{number}")
            receipt = charge.take_and_commit(number)
            is_synced = durability is None or durability.settled() >= receipt.seq
            with lock, other.store.read() as transaction:
                return is_synced and transaction.row("entry_at", receipt.seq) is not None

        return together(ledger, [partial(is_durable, number) for number in range(6)]).count(False)


def test_a_thread_returns_only_when_its_charge_is_durable(ledger):
    people(ledger)
    assert told_early(ledger) == 0


def test_a_store_that_lets_threads_return_before_would_be_caught(ledger):
    people(ledger)
    broken(ledger, Talkative)
    assert told_early(ledger) > 0


# -- the checks that protect a charge


def test_an_account_that_was_edited_stops_the_transaction_of_every_block(place, config):
    with Ledger(place, combine=True) as ledger:
        account = people(ledger)
        other = ledger.open("others", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
        spend(other, 90, key="spent").begin()
        edited(place, ("UPDATE account SET own0 = 0, used0 = 0 WHERE name = ?", ("others",)))
        head = ledger.head()
        found = together(ledger, [spend(account, 1, key="a").begin, spend(other, 50, key="b").begin])
        assert [type(each) for each in found] == [LedgerIntegrity] * 2
        assert ledger.head() == head


def test_an_entry_that_another_writer_made_without_a_seal_stops_the_transaction(place):
    with Ledger(place, combine=True) as ledger:
        account = people(ledger)
        entry = dict(entries_of(ledger)[-1], kind="close", account=account.id, why="0" * 64, principal="local")
        entry.pop("public", None)
        entry.pop("vouched", None)
        append_forged(place, {**entry, "governed": ledger.head().seq})
        found = together(ledger, [lambda n=n: raised(spend(account, 1, key=f"k{n}").begin) for n in range(3)])
        assert found == ["LedgerIntegrity"] * 3


def test_a_seal_before_the_last_block_would_be_caught(place):
    with broken(Ledger(place, combine=True), Hasty) as ledger:
        account = people(ledger)
        together(ledger, [spend(account, 1, key=f"k{n}").begin for n in range(3)])
        newest_seal = seals_of(ledger)[-1]
        with ledger.store.read() as transaction:
            assert newest_seal < journal.head(transaction).seq
        with pytest.raises(LedgerIntegrity, match="no valid seal"):
            ledger.open("others", budget=Budget(Filter("zcdp"), 1, 0), unit="person")


def test_roles_hold_while_the_chain_is_replayed_again(place):
    clock = Clock()
    Team(place, clock).ledger.close()
    with Ledger(place, clock=clock, combine=True) as ledger:
        spend(ledger.open("clinic"), 1, key="a").begin()
        spend(ledger.open("clinic"), 1, key="b").begin()
        owner = ledger.principal
        ledger.writer.watch.forget()  # as in the moment after a transaction that failed
        assert ledger.has_roles
        assert ledger.principal == owner != journal.SHARED


# -- the model: blocks that fail leave the chain that the others alone would leave


def steps(draw, first, count):
    """Random blocks: (kind, number). About half of them fail."""
    kinds = ("pay", "pay", "begin", "begin", "deny", "bug", "stranger", "again", "commit", "commit")
    return [(draw.choice(kinds), first + number) for number in range(count)]


class Run:
    """One of two ledgers with the same entries at first, the same clock and the same random bytes."""

    def __init__(self, team):
        self.team = team
        self.account = team.by("root").open("clinic")
        self.charges = {}

    def block(self, kind, number):
        """A function that makes one write of this kind."""
        account, key = self.account, f"k{number}"
        if kind == "pay":
            return partial(spend(account, 5, key=key).take_and_commit, number)
        if kind == "begin":
            return partial(self._begin, spend(account, 6, key=key))
        if kind == "deny":
            return spend(account, 10**15, key=key).begin
        if kind == "bug":
            return partial(bug, account.ledger, account, key)
        if kind == "stranger":
            return spend(self.team.by("eve").open("clinic"), 1, key=key).begin
        if kind == "again":
            return partial(spend(account, 5, key="k0").take_and_commit, 0)
        held = sorted(self.charges)
        if kind == "commit" and held:
            return partial(self.charges.pop(held[number % len(held)]).commit, f"answer {number}")
        return partial(bug, account.ledger, account, key)

    def _begin(self, charge):
        self.charges[charge.key] = charge.begin()


def chain_of(ledger):
    with ledger.store.read() as transaction:
        tables = ("accounts", "datasets_stored", "charges_running")
        numbered = ("charges", "lines", "answer_ids", "texts", "tags")
        rows = [transaction.rows(name) for name in tables] + [transaction.rows(name, 0) for name in numbered]
        return transaction.rows("entries_after", 0, 100_000), rows


def two_alike(place, tmp_path, monkeypatch):
    """Two ledgers with roles that are alike in every byte; the first one combines its charges."""
    clock = Clock()
    second = fresh_schema(place.split("?options")[0]) if "postgresql" in place else str(tmp_path / "two.db")
    teams = []
    for number, each in enumerate((place, second)):
        monkeypatch.setattr("os.urandom", random.Random(7).randbytes)
        teams.append(Team(each, clock, config=tmp_path / f"config {number}"))
        teams[-1].ledger.signer()
    monkeypatch.setattr("os.urandom", lambda count: b"\x07" * count)
    one, two = teams
    one.ledger.close()
    one.ledger = Ledger(place, clock=clock, config=tmp_path / "config 0", combine=True)
    return clock, one, two


@pytest.mark.parametrize("seed", share(range(40), 10))
def test_blocks_that_fail_leave_the_chain_that_the_others_alone_would_leave(place, tmp_path, monkeypatch, seed):
    same_in_model(place, tmp_path, monkeypatch, seed)


def same_in_model(place, tmp_path, monkeypatch, seed, twin=None):
    draw = random.Random(seed)
    clock, one, two = two_alike(place, tmp_path, monkeypatch)
    with one.ledger, two.ledger:
        assert chain_of(one.ledger) == chain_of(two.ledger)
        if twin is not None:
            broken(one.ledger, twin)
        runs, failed = [Run(one), Run(two)], 0
        for batch in range(6):
            clock.seconds += 1
            chosen = steps(draw, 100 * batch, draw.randint(2, 9))
            works = [[run.block(*each) for each in chosen] for run in runs]
            found = together(one.ledger, works[0])
            for each, outcome, work in zip(chosen, found, works[1], strict=True):
                is_kept = not isinstance(outcome, Exception)
                failed += not is_kept
                if is_kept:
                    work()
                else:
                    assert raised(work) == type(outcome).__name__, each
        assert failed > 5
        assert chain_of(one.ledger) == chain_of(two.ledger)
        require_true(one.ledger)


def test_a_store_that_does_not_undo_a_failed_block_would_be_caught(place, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        same_in_model(place, tmp_path, monkeypatch, 0, twin=Forgetful)
