"""A check can begin at a signed checkpoint: it then says of everything new what a full check says."""

from __future__ import annotations

import json

import pytest

from crash.stores import raised, spend
from crash.tampering import edited, furnished, rows_of
from tallystick.ledger import Budget, Filter, Ledger, Signer, checkpoints
from tallystick.ledger.chain import canonical

THIEF = Signer(b"t" * 32)


@pytest.fixture(params=[False, True], ids=["open", "governed"])
def ledger(request, place, clock):
    """A ledger with every kind of row, and a checkpoint before its newest entries."""
    furnished(place).close()
    with Ledger(place, clock=clock) as opened:
        if request.param:
            opened.govern(why="a team uses it")
        opened.make_checkpoint()
        yield opened


def answered(account, key, answer, a0=5):
    with spend(account, a0, key=key) as charge:
        charge.answer = answer
    return charge.id


def go_on(ledger):
    """Let every kind of change happen after the checkpoint, also to what began before it."""
    people = ledger.open("people")
    answered(people, "new", 1)
    people.raise_limit(Budget.zcdp(3, 1e-6), why="more")
    ledger.open("later", budget=Budget.zcdp(1, 1e-6), unit="person")
    people.register("more", source="more.csv", fixed={"unit": "pid"})
    spend(ledger.open("later"), 10**9, key="fails", source="later.csv").begin().burn()
    ledger.open("later").clear(why="looked")


def same(ledger):
    """Compare both checks; return the quick one."""
    full, quick = ledger.verify(), ledger.verify(full=False)
    assert full.checkpoint == 0
    for name in ("ledger", "entries", "head", "accounts", "charges", "free", "losses", "sealed"):
        assert getattr(full, name) == getattr(quick, name), name
    assert bool(full.problems) == bool(quick.problems)
    return quick


def checkpoint_of(place):
    return rows_of(place, "SELECT seq, body, key, signature FROM checkpoint ORDER BY seq DESC LIMIT 1")[0]


def test_a_check_from_a_checkpoint_says_what_a_full_one_says(ledger):
    first = same(ledger)
    assert first.checkpoint == first.entries == ledger.head().seq
    assert any("which a signed checkpoint covers" in part for part in first.not_checked)
    go_on(ledger)
    later = same(ledger)
    assert (later.problems, later.checkpoint) == ((), first.checkpoint)
    assert later.entries > later.checkpoint


def test_charges_that_ran_at_the_checkpoint_end_after_it(ledger, clock):
    clock.seconds += 25 * 3600
    before = [row[4] for row in rows_of_charges(ledger)]
    assert {"RESERVED", "EXECUTING"} <= set(before)
    refunded, burned = ledger.recover()
    assert (refunded, burned) == (1, 1)
    assert same(ledger).problems == ()
    assert same(ledger).checkpoint > 0


def rows_of_charges(ledger):
    with ledger.store.read() as transaction:
        return transaction.rows("charges", 0)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE answer SET body = 'null' WHERE charge_id > ?",
        "UPDATE line SET a0 = a0 + 1 WHERE charge_id > ?",
        "UPDATE charge SET fence = 2 WHERE id > ?",
        "DELETE FROM answer WHERE charge_id > ?",
        "UPDATE entry_text SET body = 'other' WHERE field = 'why' AND entry > ?",
        "DELETE FROM tag WHERE charge_id > ?",
        "UPDATE account SET used0 = used0 + 1 WHERE id > ? OR name = 'people'",
        "UPDATE dataset SET least0 = 1 WHERE seq > ?",
        "DELETE FROM quarantine WHERE charge_id > ?",
        "UPDATE entry SET body = replace(body, 'later', 'early') WHERE seq > ?",
        f"UPDATE entry SET hash = '{'0' * 64}' WHERE seq = ? + 1",
    ],
)
def test_an_edit_after_the_checkpoint_is_found_by_both_checks(ledger, place, edit):
    go_on(ledger)
    edited(place, (edit, (checkpoint_of(place)[0],)))
    assert ledger.verify().problems, edit
    assert ledger.verify(full=False).problems, edit


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE answer SET body = 'null' WHERE charge_id <= ?",
        "UPDATE line SET a0 = a0 + 1 WHERE charge_id = (SELECT max(id) FROM charge WHERE state = 'BURNED' AND id <= ?)",
        "UPDATE entry_text SET body = 'other' WHERE field = 'why' AND entry <= ?",
        "UPDATE entry SET body = replace(body, 'person', 'people') WHERE seq < ? AND seq > 1",
    ],
)
def test_an_edit_before_the_checkpoint_is_found_by_the_full_check(ledger, place, edit):
    go_on(ledger)
    edited(place, (edit, (checkpoint_of(place)[0],)))
    assert ledger.verify().problems, edit
    assert ledger.verify(full=False).problems == ()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE account SET limit0 = limit0 + 1 WHERE name = 'old'",
        "UPDATE account SET used0 = 0, own0 = 0",
        "UPDATE dataset SET least0 = 1",
        "DELETE FROM quarantine",
        "UPDATE charge SET fence = 9 WHERE state = 'EXECUTING'",
        "UPDATE line SET a0 = 1 WHERE charge_id = (SELECT id FROM charge WHERE state = 'RESERVED')",
    ],
)
def test_what_limits_and_rules_rest_on_is_compared_by_both_checks(ledger, place, edit):
    """Totals, limits, registrations, closings and running charges are in the checkpoint itself."""
    edited(place, (edit, ()))
    assert ledger.verify().problems, edit
    assert ledger.verify(full=False).problems, edit


def with_total(body, **fields):
    """The state of a checkpoint in which nothing was spent."""
    state = json.loads(body)
    for row in state["accounts"]:
        row[12:16] = [0, 0, 0, 0]
    return {**state, **fields}


@pytest.mark.parametrize(
    "way", ["altered", "foreign key", "name of the owner", "another ledger", "no JSON", "no state"]
)
def test_a_checkpoint_with_a_wrong_or_foreign_signature_is_not_used(ledger, place, way):
    seq, body, public, signature = checkpoint_of(place)
    state = with_total(body)
    own = ledger.signer()
    edits = {
        "altered": (canonical(state), public, signature),
        "foreign key": (canonical(state), THIEF.public, THIEF.sign(state)),
        "name of the owner": (canonical(state), public, THIEF.sign(state)),
        "another ledger": (canonical({**state, "ledger": "0" * 32}), public, own.sign({**state, "ledger": "0" * 32})),
        "no JSON": ("not JSON", public, signature),
        "no state": ("{}", public, own.sign({})),
    }
    edited(place, ("UPDATE checkpoint SET body = ?, key = ?, signature = ?", edits[way]))
    for user in (ledger, Ledger(place, clock=ledger._clock)):
        assert user.verify(full=False).checkpoint == 0
        answered(user.open("people"), f"key {user is ledger}", 1)
    user.close()
    if way != "foreign key" or ledger.keys():
        assert any(f"the checkpoint of entry {seq}" in problem for problem in ledger.verify().problems)


def test_a_check_that_believed_every_signature_would_use_it(ledger, place, monkeypatch):
    _, body, _, _ = checkpoint_of(place)
    edited(place, ("UPDATE checkpoint SET body = ?", (canonical(with_total(body)),)))
    assert ledger.verify(full=False).problems
    assert ledger.verify(full=False).checkpoint == 0
    monkeypatch.setattr(checkpoints, "verified", lambda *given: True)
    report = ledger.verify(full=False)
    assert report.checkpoint > 0
    assert any("account" in problem for problem in report.problems)  # the totals of the tables differ from it


def test_a_checkpoint_of_another_copy_is_not_used(ledger, place):
    """The signature is right, and the chain has another entry there."""
    seq, body, _, _ = checkpoint_of(place)
    state = {**json.loads(body), "hash": "0" * 64}
    edited(place, ("UPDATE checkpoint SET body = ?, signature = ?", (canonical(state), ledger.signer().sign(state))))
    assert ledger.verify(full=False).checkpoint == 0
    assert any(f"the checkpoint of entry {seq}" in problem for problem in ledger.verify().problems)


def test_a_user_with_another_key_begins_at_the_start_unless_the_ledger_is_governed(ledger, place, tmp_path):
    is_governed = bool(ledger.keys())
    with Ledger(place, config=tmp_path / "other") as other:
        report = other.verify(full=False)
        assert (report.problems, report.checkpoint > 0) == ((), is_governed)


def test_a_ledger_that_was_altered_gets_no_checkpoint(ledger, place):
    before = checkpoint_of(place)[0]
    go_on(ledger)
    edited(place, ("UPDATE answer SET body = 'null'", ()))
    assert raised(ledger.make_checkpoint) == "LedgerIntegrity"
    assert checkpoint_of(place)[0] == before


def test_a_checkpoint_is_made_once_for_an_entry_and_again_for_a_later_one(ledger, place):
    first = checkpoint_of(place)
    ledger.make_checkpoint()
    assert checkpoint_of(place) == first
    go_on(ledger)
    ledger.make_checkpoint()
    assert checkpoint_of(place)[0] == ledger.head().seq > first[0]
    assert same(ledger).checkpoint == ledger.head().seq


def test_what_was_erased_after_the_checkpoint_is_gone_for_both_checks(ledger, place):
    number = rows_of(place, "SELECT min(charge_id) FROM answer")[0][0]
    ledger.erase(number, why="gone", answers=True)
    assert same(ledger).problems == ()
    later = answered(ledger.open("people"), "new", 1)
    ledger.erase(later, why="gone", answers=True)
    assert same(ledger).problems == ()


def test_a_stolen_key_is_named_by_both_checks(place, clock):
    second = Signer(b"2" * 32)
    with Ledger(place, clock=clock) as ledger:
        people = ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
        ledger.govern(why="a team uses it")
        ledger.add_key(second.public, why="a second host")
        ledger.writer.signer = second
        numbers = [answered(people, "before", 1)]
        ledger.make_checkpoint()
        numbers.append(answered(people, "after", 2))
        ledger.writer.signer = Signer.of_user()
        ledger.retire_key(second.public, why="stolen", distrusted_from=numbers[0])
        assert ledger.verify().distrusted == tuple(numbers)
        assert ledger.verify(full=False).distrusted == tuple(numbers)


def test_a_writer_of_a_governed_ledger_goes_on_from_a_checkpoint(place, clock):
    """It reads only what is new, and finds an edited total all the same."""
    furnished(place).close()
    with Ledger(place, clock=clock) as ledger:
        ledger.govern(why="a team uses it")
        ledger.make_checkpoint()
    with Ledger(place, clock=clock) as later:
        answered(later.open("people"), "k", 1)
        assert later.writer.watch.book.start > 0
        assert later.verify().problems == ()
    edited(place, ("UPDATE account SET used0 = 0, own0 = 0", ()))
    with Ledger(place, clock=clock) as later:
        assert raised(lambda: answered(later.open("guests"), "k2", 1)) == "LedgerIntegrity"
