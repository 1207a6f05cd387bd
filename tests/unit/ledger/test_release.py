"""account.release with real mechanisms: charged first, then computed; types checked before, data never in errors."""

from __future__ import annotations

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded, InvalidInput


@pytest.fixture
def clinic(ledger):
    return ledger.open("clinic", budget=ts.zcdp(rho=0.5, delta=1e-6), unit="patient")


def test_the_same_key_returns_the_same_noise(clinic):
    count = ts.noise.add_gaussian(sigma=10, sensitivity=1)
    first = clinic.release(count, 120.0, why="weekly admissions", key="w46")
    assert clinic.release(count, 120.0, why="weekly admissions", key="w46") == first
    assert clinic.release(count, 120.0, why="weekly admissions", key="w47") != first
    assert [event.state for event in clinic.history()] == ["COMMITTED", "COMMITTED"]
    assert clinic.used.a0 == pytest.approx(2 * 5 * 10**9, rel=1e-9)


def test_another_mechanism_under_the_same_key_is_a_conflict(clinic):
    clinic.release(ts.noise.add_gaussian(sigma=10, sensitivity=1), 1.0, why="x", key="k")
    with pytest.raises(ts.errors.IdempotencyConflict):
        clinic.release(ts.noise.add_gaussian(sigma=20, sensitivity=2), 1.0, why="x", key="k")


def test_a_value_of_the_wrong_type_costs_nothing(clinic):
    with pytest.raises(InvalidInput):
        clinic.release(ts.noise.add_gaussian(sigma=10, sensitivity=1), "many", why="x")
    assert clinic.used.a0 == 0


def test_the_value_may_be_a_function_that_runs_after_the_charge(clinic):
    seen = []

    def load():
        seen.append(clinic.used.a0)
        return 5.0

    clinic.release(ts.noise.add_gaussian(sigma=10, sensitivity=1), load, why="x")
    assert seen[0] > 0


def test_a_denied_release_reads_nothing(clinic):
    with pytest.raises(BudgetExceeded):
        clinic.release(ts.noise.add_gaussian(sigma=0.5, sensitivity=1), lambda: pytest.fail("data was read"), why="x")


def test_an_error_while_loading_burns_the_charge(clinic):
    def broken():
        raise OSError("no such ward: Smith, John")

    with pytest.raises(OSError, match="Smith"):
        clinic.release(ts.noise.add_gaussian(sigma=10, sensitivity=1), broken, why="x")
    assert [event.state for event in clinic.history()] == ["BURNED"]


def test_anything_priced_with_a_call_can_be_released(clinic):
    class Shout:
        privacy = ts.zcdp(rho=0.01)

        def __call__(self, value):
            return np.array([value, value])

    assert clinic.release(Shout(), 2.0, why="x").tolist() == [2.0, 2.0]


def test_two_populations_pay_for_one_release(ledger, clinic):
    staff = ledger.open("staff", budget=ts.pure_dp(epsilon=1), unit="patient")
    with clinic.charge(ts.pure_dp(epsilon=0.25), why="joint table", also=[staff]) as charge:
        pass
    assert str(charge.amounts["staff"]) == "epsilon 0.25"
    assert (staff.used.a0, clinic.used.a0 > 0) == (25 * 10**10, True)


def test_a_reservation_of_a_plan_can_be_given_back(clinic):
    held = clinic.reserve(ts.gaussian(sigma=4), why="maybe")
    assert clinic.used.a0 == 31_250_000_000
    held.refund()
    assert clinic.used.a0 == 0
