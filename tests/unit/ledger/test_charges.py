"""What a caller sees: charge first, then compute; same key, same bytes; denials that help."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tallystick as ts
from crash.stores import raised, spend
from tallystick.errors import (
    AlreadyCommitted,
    BudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    Refused,
    Unavailable,
)
from tallystick.ledger import Budget, Filter, Ledger, Receipt
from tallystick.ledger.pay import Charge, Terms


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 100, 10), unit="person")


def test_a_charge_grows_what_is_used(people):
    with spend(people, 30, 2):
        assert (people.used.a0, people.used.a1) == (30, 2)
    assert (people.remaining.a0, people.remaining.a1) == (70, 8)


def test_spending_past_the_budget_is_refused_and_costs_nothing(people):
    with spend(people, 90):
        pass
    with pytest.raises(BudgetExceeded) as caught, spend(people, 11):
        pytest.fail("data was opened")
    assert (caught.value.asked.a0, caught.value.left.a0, caught.value.limit.a0) == (11, 10, 100)
    assert caught.value.fits
    assert "Nothing was charged and no data was read" in str(caught.value)
    assert people.used.a0 == 90


def test_delta_is_a_limit_of_its_own(people):
    with pytest.raises(BudgetExceeded), spend(people, 0, 11):
        pass
    with spend(people, 0, 10):
        pass
    assert people.remaining.a1 == 0


def test_the_last_unit_can_be_spent(people):
    with spend(people, 100, 10):
        pass
    assert (people.remaining.a0, people.remaining.a1) == (0, 0)
    assert raised(lambda: spend(people, 1).reserve()) == "BudgetExceeded"


def test_the_same_key_returns_the_same_answer_and_charges_once(people):
    answer = np.array([[1.5, np.nan], [-0.0, np.inf]])
    with spend(people, 5, key="k") as charge:
        charge.answer = answer
    with pytest.raises(AlreadyCommitted) as caught, spend(people, 5, key="k"):
        pytest.fail("it ran twice")
    assert caught.value.answer.tobytes() == answer.tobytes()
    assert caught.value.receipt == charge.receipt
    assert people.used.a0 == 5


def test_a_key_used_for_something_else_is_a_conflict(people):
    with spend(people, 5, key="k"):
        pass
    for other in (spend(people, 6, key="k"), spend(people, 5, key="k", request="another question")):
        with pytest.raises(IdempotencyConflict):
            other.reserve()
    assert people.used.a0 == 5


def test_a_key_used_for_the_same_plan_on_other_data_is_a_conflict(people):
    with spend(people, 5, key="k", source="visits.csv") as charge:
        charge.answer = "about visits"
    other = spend(people, 5, key="k", source="trips.csv")
    assert (raised(other.stored), raised(other.begin)) == ("IdempotencyConflict", "IdempotencyConflict")
    assert spend(people, 5, key="k", source="visits.csv").stored()[0] == "about visits"
    assert spend(people, 5, key="k").stored()[0] == "about visits"  # to look an answer up, no data are named
    assert people.used.a0 == 5


def test_a_key_for_data_does_not_return_what_was_released_without_any(people):
    with spend(people, 5, key="k") as charge:
        charge.answer = "of a value"
    assert raised(spend(people, 5, key="k", source="visits.csv").stored) == "IdempotencyConflict"


def test_a_key_finds_its_answer_after_its_dataset_was_moved(people):
    least = ts.zcdp(rho=1e-12)
    people.register("visits", source="visits.csv", least_price=least)
    people.register("trips", source="trips.csv", least_price=least)
    with spend(people, 5, key="k", source="visits.csv") as charge:
        charge.answer = "about visits"
    people.register("visits", source="moved.csv", update=True)
    assert spend(people, 5, key="k", source="moved.csv").stored()[0] == "about visits"
    assert raised(spend(people, 5, key="k", source="trips.csv").stored) == "IdempotencyConflict"


def test_an_error_after_the_start_burns_the_charge(people):
    with pytest.raises(ZeroDivisionError), spend(people, 5, key="k"):
        raise ZeroDivisionError("a value from the data")
    assert people.used.a0 == 5
    assert [event.state for event in people.history()] == ["BURNED"]
    with pytest.raises(IdempotencyConflict, match="burned"), spend(people, 5, key="k"):
        pass
    with people.ledger.store.read() as transaction:
        assert not any("a value from the data" in row[2] for row in transaction.rows("entries_after", 0, 100))


def test_an_answer_that_cannot_be_stored_burns_the_charge(people):
    with pytest.raises(InvalidInput), spend(people, 5) as charge:
        charge.answer = object()
    assert [event.state for event in people.history()] == ["BURNED"]


def test_an_interrupt_burns_the_charge(people):
    with pytest.raises(KeyboardInterrupt), spend(people, 5):
        raise KeyboardInterrupt
    assert [event.state for event in people.history()] == ["BURNED"]


def test_a_reservation_can_be_given_back_until_it_starts(people):
    charge = spend(people, 40).reserve()
    assert people.used.a0 == 40
    charge.refund()
    assert people.used.a0 == 0
    started = spend(people, 40).reserve().start()
    with pytest.raises(Refused):
        started.refund()
    assert people.used.a0 == 40


def test_a_released_key_can_be_used_again(people):
    spend(people, 40, key="k").reserve().refund()
    with spend(people, 40, key="k"):
        pass
    assert [event.state for event in people.history()] == ["REFUNDED", "COMMITTED"]


def test_a_committed_charge_cannot_be_moved(people):
    charge = spend(people, 1)
    with charge:
        pass
    for action in (charge.start, charge.burn, charge.refund, lambda: charge.renew(lease=5)):
        assert raised(action) == "Refused"
    assert raised(lambda: charge.commit(2)) == "Refused"


def test_an_expired_reservation_is_taken_over_and_its_first_holder_is_fenced_off(people, clock):
    first = spend(people, 10, key="k", lease=5).reserve()
    assert raised(spend(people, 10, key="k").reserve) == "Unavailable"
    clock.seconds += 6
    second = spend(people, 10, key="k", lease=5).reserve()
    assert (first.id, first.fence) == (second.id, second.fence - 1)
    for action in (first.start, first.refund, lambda: first.renew(lease=5)):
        assert raised(action) == "Refused"
    second.start().commit("done")
    assert people.used.a0 == 10


def test_an_expired_execution_is_burned_and_its_answer_is_never_delivered(people, clock):
    first = spend(people, 10, key="k", lease=5)
    first.__enter__()
    clock.seconds += 6
    with pytest.raises(IdempotencyConflict, match="burned"):
        spend(people, 10, key="k").reserve()
    with pytest.raises(Refused, match="nothing was delivered"):
        first.commit("late")
    assert people.used.a0 == 10


def test_a_renewed_lease_lasts(people, clock):
    charge = spend(people, 10, lease=5).reserve()
    clock.seconds += 4
    charge.renew(lease=10)
    clock.seconds += 5
    assert people.ledger.recover() == (0, 0)
    charge.start()


def test_recovery_releases_what_never_started_and_burns_what_did(people, clock):
    spend(people, 10, lease=5).reserve()
    spend(people, 20, lease=5).reserve().start()
    clock.seconds += 6
    assert people.ledger.recover() == (1, 1)
    assert people.used.a0 == 20
    assert people.ledger.recover() == (0, 0)


def test_a_charge_on_several_accounts_is_all_or_none(ledger, people):
    small = ledger.open("small", budget=Budget(Filter("zcdp"), 5, 0), unit="person")

    def both(amount):
        return Charge(ledger, Terms.of(((small, amount, 0), (people, amount, 0)), "{}"), why="both")

    with pytest.raises(BudgetExceeded, match="small"):
        both(6).reserve()
    assert (people.used.a0, small.used.a0) == (0, 0)
    with both(5) as charge:
        pass
    assert (people.used.a0, small.used.a0) == (5, 5)
    assert len(charge.receipt.lines) == 2


def test_one_account_cannot_pay_twice_in_one_charge(people):
    from types import SimpleNamespace

    with pytest.raises(InvalidInput):
        people.ledger.charge(SimpleNamespace(), accounts=[people, people], why="x")


def test_a_receipt_survives_as_json_and_verifies(people, place):
    with spend(people, 5) as charge:
        charge.answer = 1
    receipt = Receipt.from_json(charge.receipt.to_json())
    assert people.ledger.verify(receipts=(receipt,)).problems == ()
    forged = json.loads(charge.receipt.to_json())
    forged["lines"][0][3] = 1
    assert people.ledger.verify(receipts=(Receipt.from_json(json.dumps(forged)),)).problems


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": "other"}', '{"format": "tallystick/receipt/1"}'])
def test_what_is_not_a_receipt_is_refused(text):
    with pytest.raises(InvalidInput):
        Receipt.from_json(text)


def test_a_closed_account_pays_nothing_more(people):
    people.close(why="project ended")
    with pytest.raises(Refused, match="closed"):
        spend(people, 1).reserve()
    assert people.closed
    assert raised(lambda: people.close(why="again")) == "Refused"


def test_a_charge_started_before_the_account_closed_can_finish(people):
    charge = spend(people, 1).reserve().start()
    people.close(why="ended")
    charge.commit("ok")
    assert people.ledger.verify().problems == ()


def test_principals_have_their_own_keys(place, clock):
    with Ledger(place, clock=clock) as opened:
        account = opened.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")
        for ledger in (opened.acting_for("ana"), opened.acting_for("bo")):
            with spend(ledger.open("people"), 1, key="k"):
                pass
        assert account.used.a0 == 2


def test_a_busy_key_says_so(people):
    with spend(people, 1, key="k"), pytest.raises(Unavailable, match="another worker"):
        spend(people, 1, key="k").reserve()


def test_a_charge_that_was_not_taken_says_so(people):
    charge = spend(people, 1)
    assert charge.state == "NEW"
    with pytest.raises(Refused, match="not reserved yet"):
        charge.start()
    charge.begin()  # one that is dropped unused warns


def test_history_shows_why_and_what(people):
    with spend(people, 7, why="weekly admissions"):
        pass
    (event,) = people.history()
    assert (event.why, event.amount.a0, event.state, event.paid) == ("weekly admissions", 7, "COMMITTED", True)


def test_notebook_views_escape_what_people_typed(people):
    with spend(people, 7, why="<script>alert(1)</script>") as charge:
        pass
    for view in (people, people.ledger, charge):
        assert "<script>" not in view._repr_html_()
        assert "people" in view._repr_html_()
    assert "people" in repr(people)
    assert "COMMITTED" in repr(charge)


@pytest.mark.parametrize(
    ("budget", "plan"),
    [
        (ts.zcdp(rho=0.5, delta=1e-6), 3 * ts.gaussian(sigma=1.1)),
        (ts.zcdp(rho=0.5), ts.gaussian(sigma=0.7)),
        (ts.pure_dp(epsilon=1), ts.pure_dp(epsilon=1.23456789)),
        (ts.approx_dp(epsilon=1, delta=1e-6), ts.approx_dp(epsilon=2, delta=3.3333333e-6)),
        (ts.gdp(mu=1), ts.gaussian(sigma=0.61)),
        (ts.renyi_dp({1.5: 0.4}), ts.gaussian(sigma=0.7)),
    ],
)
def test_the_limit_a_denial_names_is_just_enough(ledger, budget, plan):
    from tallystick.accounting.expression import read_loss

    account = ledger.open("ana's people", budget=budget, unit="person")
    spend(account, 10**9).reserve()
    with pytest.raises(BudgetExceeded) as caught:
        account.reserve(plan, why="too much")
    (advice,) = (remedy for remedy in caught.value.remedies if remedy.kind == "raise_limit")
    assert advice["account"] == "ana's people"
    account.raise_limit(read_loss(advice["budget"]), why="as advised")
    account.reserve(plan, why="now it fits")
    assert account.remaining.first <= account.limit.first / 100
