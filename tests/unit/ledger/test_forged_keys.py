"""Forged entries about keys: another first key, a chain that goes on from before a key was retired, a checkpoint of it.

The editor can change every row of the store for a moment. The thief has a key that was retired, or one of their own.
"""

from __future__ import annotations

import json

import pytest

from crash.stores import raised
from crash.tampering import TABLES, append_forged, edited, rows_of
from tallystick.ledger import Budget, Filter, Ledger, Signer, checkpoints, governance
from tallystick.ledger.chain import canonical, link
from tallystick.ledger.governance import seal_terms
from tallystick.ledger.journal import Position
from tallystick.ledger.replay import Book
from unit.ledger.test_forgeries import FORGED, entry_of, rows_in
from unit.ledger.test_governance import answered, opened, with_key

THIEF = Signer(b"t" * 32)
SECOND = Signer(b"2" * 32)
LIMIT = 10**6


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")


@pytest.fixture
def governed(ledger, people):
    """The entry that began governance, after one answer and before another."""
    answered(people, "before", "from before")
    number = ledger.govern(why="a team uses it")
    answered(people, "after", "from after")
    return number


def put(table, *row):
    """Edits that put a row in place of the one with its number."""
    column = {"entry_text": "entry", "tag": "charge_id", "answer": "charge_id"}.get(table, "seq")
    insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})"
    return [(f"DELETE FROM {table} WHERE {column} = ?", (row[0],)), (insert, row)]


def set_to(tables):
    """Edits that give every table these rows."""
    names = [name for name in TABLES if name != "migration"]
    deletes = [(f"DELETE FROM {name}", ()) for name in reversed(names)]
    return [
        *deletes,
        *((f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row) for name in names for row in tables[name]),
    ]


def sealed(ledger_id, position, signer):
    return put("seal", position.seq, signer.public, signer.sign(seal_terms(ledger_id, position)))


def forged_entry(place, seq, body):
    """Another entry with this number, and its hash by the entry before."""
    [(before,)] = rows_of(place, "SELECT hash FROM entry WHERE seq = ?", seq - 1)
    return Position(seq, link(before, canonical(body)))


def book_at(place, seq):
    """The state after an entry of the true chain."""
    book = Book()
    for number, _, body in rows_of(place, "SELECT seq, hash, body FROM entry ORDER BY seq"):
        if number <= seq:
            book.apply(number, body)
    return book


def checkpoint_of(book, head, signer):
    state = checkpoints.state_of(book, head)
    return put("checkpoint", head.seq, canonical(state), signer.public, signer.sign(state))


def limit_of(place, ledger, **options):
    """The limit that a new process is told, or its error."""
    found = []

    def ask():
        with Ledger(place, clock=ledger._clock, **options) as later:
            found.append(later.open("people").limit.a0)

    return raised(ask), found


def test_an_editor_without_a_key_does_not_put_another_first_key_in_place_of_the_owners(ledger, people, governed, place):
    """A first key seals its own entry. So that entry proves nothing unless the chain has it."""
    begun = {**entry_of(place, governed), "public": THIEF.public}
    at = forged_entry(place, governed, begun)
    edits = [*put("entry", *at, canonical(begun)), *sealed(ledger.id, at, THIEF)]
    last = append_forged(
        place,
        {"kind": "first_use", "at": ledger.now(), "principal": "local", "why": "0" * 64, "governed": governed},
        seal=THIEF,
    )
    book = book_at(place, last)
    book.keys_of_writers = [governance.WriterKey(THIEF.public, governed)]
    book.accounts[people.id] = book.accounts[people.id]._replace(limit0=LIMIT)
    [(_, head)] = rows_of(place, "SELECT seq, hash FROM entry WHERE seq = ?", last)
    edits += checkpoint_of(book, Position(last, head), THIEF)
    edits += [("UPDATE account SET limit0 = ?", (LIMIT,))]
    edited(place, *edits)
    assert limit_of(place, ledger) == ("LedgerIntegrity", [])
    assert raised(lambda: ledger.open("people").limit) == "LedgerIntegrity"


@pytest.fixture
def retired(ledger, people, governed, place, tmp_path):
    """The entry that retired the second key, the rows from before it, and a host that has that key and saw no more."""
    ledger.add_key(SECOND.public, why="a second host")
    config = with_key(SECOND, tmp_path / "second")
    opened(place, config, clock=ledger._clock).close()
    earlier = rows_in(place)
    number = ledger.retire_key(SECOND.public, why="it was stolen", distrusted_from=ledger.head().seq + 1)
    for key in ("one", "two"):
        answered(people, key, 1)
    return number, earlier, config


def other_chain(place, ledger, earlier, config):
    """The rows of a chain that the retired key continued from before it was retired, with an own key and a limit."""
    edited(place, *set_to(earlier))
    with Ledger(place, config=config, clock=ledger._clock) as thief:
        thief.add_key(THIEF.public, why="mine")
        people = thief.open("people")
        people.raise_limit(Budget(Filter("zcdp"), LIMIT, 0), why="mine")
        for key in ("three", "four", "five"):
            answered(people, key, FORGED)
        thief.make_checkpoint()
    return rows_in(place)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_chain_that_a_retired_key_continues_is_not_believed_because_it_holds_the_hash_that_was_seen(
    ledger, people, retired, place, has_checkpoint
):
    """The entry that this host has seen is put in, with the hash before it. A checkpoint lets readers begin later."""
    _, earlier, config = retired
    own = rows_in(place)
    other = other_chain(place, ledger, earlier, config)
    head = own["entry"][-1]
    entries = {row[0]: row for row in other["entry"]}
    entries[head[0]] = head
    entries[head[0] - 1] = (head[0] - 1, own["entry"][-2][1], entries[head[0] - 1][2])
    other["entry"] = sorted(entries.values())
    if not has_checkpoint:
        other["checkpoint"] = []
    edited(place, *set_to(other))
    assert limit_of(place, ledger) == ("LedgerIntegrity", [])
    assert raised(lambda: ledger.open("people").limit) == "LedgerIntegrity"
    edited(place, *set_to(own))
    assert limit_of(place, ledger) == ("ok", [100])
    assert ledger.head().seq == head[0]


@pytest.mark.parametrize("is_moment", [True, False])
def test_an_entry_about_keys_from_the_chain_of_a_retired_key_is_not_believed_in_the_true_one(
    ledger, people, retired, place, is_moment
):
    """Keys are remembered by the number of the newest entry about keys."""
    number, earlier, config = retired
    ledger.make_checkpoint()
    own = rows_in(place)
    other = other_chain(place, ledger, earlier, config)
    exchanged = [row for row in other["entry"] if row[0] == number]
    assert json.loads(exchanged[0][2])["public"] == THIEF.public
    seal = next(row for row in other["seal"] if row[0] == number)
    edited(place, *set_to(own), *put("entry", *exchanged[0]), *put("seal", *seal))
    with Ledger(place, clock=ledger._clock, inspect=is_moment) as later:
        raised(later.keys)
        before = [next(row for row in own[name] if row[0] == number) for name in ("entry", "seal")]
        if is_moment:
            edited(place, *put("entry", *before[0]), *put("seal", *before[1]))
        body = {"kind": "first_use", "at": ledger.now(), "principal": "local", "why": "0" * 64, "governed": number}
        append_forged(place, body, seal=SECOND)
        assert raised(lambda: answered(later.open("people"), "mine", 1)) == "LedgerIntegrity"


@pytest.mark.parametrize("full", [True, False])
def test_a_check_reads_no_other_chain_than_the_one_that_this_host_has_seen(
    ledger, people, retired, place, monkeypatch, full
):
    """The other chain is there for the snapshot of the check alone. It is right in itself."""
    _, earlier, config = retired
    own = rows_in(place)
    other = other_chain(place, ledger, earlier, config)
    edited(place, *set_to(own))
    damage = type(ledger.store).damage
    check_anchor, trusted_keys = Ledger.check_anchor, Ledger.trusted_keys

    def exchanged(plain):
        def run(self):
            found = plain(self)
            edited(place, *set_to(other))
            return found

        return run

    def restored(self):
        edited(place, *set_to(own))
        check_anchor(self)

    if full:
        monkeypatch.setattr(type(ledger.store), "damage", exchanged(damage))
    else:
        monkeypatch.setattr(Ledger, "trusted_keys", exchanged(trusted_keys))
    monkeypatch.setattr(Ledger, "check_anchor", restored)
    assert any("does not continue the chain" in problem for problem in ledger.verify(full=full).problems)
    monkeypatch.undo()
    assert ledger.verify(full=full).problems == ()
