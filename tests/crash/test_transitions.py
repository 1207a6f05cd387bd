"""The whole table of charge states: every action in every state, and every change of state in the database itself."""

from __future__ import annotations

import itertools

import pytest

from crash.stores import raised, spend
from tallystick.errors import LedgerIntegrity
from tallystick.ledger import Budget, Filter

STATES = ("RESERVED", "EXECUTING", "COMMITTED", "REFUNDED", "BURNED")

# (state, action) -> the state after it; everything that is not here is refused and changes nothing.
ALLOWED = {
    ("RESERVED", "start"): "EXECUTING",
    ("RESERVED", "refund"): "REFUNDED",
    ("RESERVED", "renew"): "RESERVED",
    ("EXECUTING", "commit"): "COMMITTED",
    ("EXECUTING", "burn"): "BURNED",
    ("EXECUTING", "renew"): "EXECUTING",
}
# The same after the lease ran out, for the next one who comes.
EXPIRED = {
    ("RESERVED", "recover"): "REFUNDED",
    ("EXECUTING", "recover"): "BURNED",
    ("RESERVED", "reserve again"): "RESERVED",
    ("RESERVED", "begin again"): "EXECUTING",
    ("EXECUTING", "reserve again"): "BURNED",
    ("EXECUTING", "begin again"): "BURNED",
}
ACTIONS = {
    "start": lambda charge: charge.start(),
    "commit": lambda charge: charge.commit(7),
    "burn": lambda charge: charge.burn(),
    "refund": lambda charge: charge.refund(),
    "renew": lambda charge: charge.renew(lease=50),
}


def brought_to(account, state, key):
    charge = spend(account, 3, key=key, lease=100).reserve()
    for action in {"RESERVED": (), "REFUNDED": ("refund",), "EXECUTING": ("start",)}.get(
        state, ("start", "commit" if state == "COMMITTED" else "burn")
    ):
        ACTIONS[action](charge)
    return charge


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 1000, 0), unit="person")


def states_of(account, key):
    return [event.state for event in account.history() if event.key == key]


def test_every_action_in_every_state(ledger, people):
    for state, action in itertools.product(STATES, ACTIONS):
        key, before = f"{state}, {action}", people.used.a0
        charge = brought_to(people, state, key)
        outcome = raised(lambda charge=charge, action=action: ACTIONS[action](charge))
        after = ALLOWED.get((state, action))
        assert (outcome, states_of(people, key)) == (("ok", [after]) if after else ("Refused", [state])), key
        assert people.used.a0 - before == (0 if (after or state) == "REFUNDED" else 3), key
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("action", ["recover", "reserve again", "begin again"])
def test_what_the_next_one_finds_when_a_lease_has_run_out(ledger, people, clock, action):
    for state in STATES:
        brought_to(people, state, state)
    clock.seconds += 1000
    for state in STATES:
        again = spend(people, 3, key=state, lease=100)
        if action == "recover":
            ledger.recover()
        else:
            raised(again.reserve if action == "reserve again" else again.begin)
        found = [EXPIRED.get((state, action), state)]
        if state == "REFUNDED" and action != "recover":  # its key is free again
            found.append("RESERVED" if action == "reserve again" else "EXECUTING")
        assert states_of(people, state) == found
    assert people.used.a0 == 3 * sum(event.paid for event in people.history())
    assert ledger.verify().problems == ()


def test_the_database_allows_no_other_change_of_state(ledger, people):
    allowed = {(state, new) for (state, _), new in {**ALLOWED, **EXPIRED}.items()}
    for old in STATES:
        charge = brought_to(people, old, old)
        for new in STATES:

            def change(new=new, charge=charge):
                with ledger.store.write("edit") as transaction:
                    assert transaction.run("charge_move_replay", new, charge.id, charge.id) == 1
                    raise ZeroDivisionError  # back to how it was

            assert raised(change) == ("ZeroDivisionError" if (old, new) in allowed else "LedgerIntegrity"), (old, new)


def test_an_entry_is_never_skipped_or_written_twice(ledger, people):
    for seq in (99, 1):
        with pytest.raises(LedgerIntegrity), ledger.store.write("edit") as transaction:
            transaction.run("entry_insert", seq, "0" * 64, "{}")
