"""A failure after the start closes its source and its population, in one transaction, until the owner clears it."""

from __future__ import annotations

import json
import os
import stat

import pytest

import tallystick as ts
from crash.stores import raised, spend
from tallystick.errors import InvalidInput, Quarantined, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.pay import FAILED, pay
from unit.ledger.test_pay import Survey


@pytest.fixture
def clinic(ledger):
    return ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")


def failed(account, source="visits.csv", error=None):
    with pytest.raises(Unavailable) as told:
        pay(Survey(source=source, fails={"draw": error or ValueError("row of Ann: 37")}), account, why="x")
    return str(told.value)


def test_a_failure_closes_the_source_and_its_population_until_the_owner_clears_it(ledger, clinic):
    assert failed(clinic) == FAILED
    paid = clinic.used
    for source in ("visits.csv", "another.csv"):  # the source, and every other source of its people
        with pytest.raises(Quarantined, match="nothing was charged"):
            pay(Survey(source=source), clinic, why="next")
    assert clinic.used == paid
    number = clinic.history()[0].charge
    assert clinic.failures() == [number]
    assert clinic.clear(why="a bug in the driver, fixed") == [number]
    assert clinic.failures() == []
    assert pay(Survey(), clinic, why="next").answer == 7
    with pytest.raises(Refused, match="nothing about"):
        clinic.clear(why="again")
    assert ledger.verify().problems == ()


def test_no_other_account_gets_around_it(ledger, clinic):
    failed(clinic)
    block = ledger.open("ward", budget=ts.zcdp(rho=0.1), parent=clinic, unit="patient")
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    for account in (block, staff):
        with pytest.raises(Quarantined):
            pay(Survey(), account, why="the same source, another account")
    assert pay(Survey(source="rota.csv"), staff, why="their own data").fresh
    with pytest.raises(Quarantined):
        pay(Survey(source="rota.csv"), staff, why="also ours", also=[clinic])


def test_a_stored_answer_is_handed_out_while_the_data_are_closed(clinic):
    first = pay(Survey(), clinic, why="x", key="k")
    failed(clinic)
    assert pay(Survey(), clinic, why="x", key="k").answer == first.answer


def test_a_reservation_from_before_cannot_start(clinic):
    held = spend(clinic, 10**10, source="visits.csv").reserve()
    failed(clinic)
    with pytest.raises(Quarantined):
        held.start()
    held.refund()
    clinic.clear(why="ok")
    spend(clinic, 10**10, source="visits.csv").reserve().start().commit(1)


def test_a_killed_worker_closes_its_data_when_its_lease_runs_out(ledger, clinic, clock):
    spend(clinic, 10**10, source="visits.csv", lease=60).begin()
    pay(Survey(), clinic, why="while it may still be running")
    clock.seconds += 61
    with pytest.raises(Quarantined):
        pay(Survey(), clinic, why="after that")
    assert [event.state for event in clinic.history()] == ["CLOSED", "COMMITTED"]
    spend(clinic, 10**10, source="visits.csv", lease=60, key="second")  # not begun: nothing happens
    assert len(clinic.clear(why="the machine was restarted")) == 1
    assert [event.state for event in clinic.history()] == ["BURNED", "COMMITTED"]


def test_an_interrupt_closes_too(clinic):
    with pytest.raises(KeyboardInterrupt):
        pay(Survey(fails={"draw": KeyboardInterrupt()}), clinic, why="x")
    assert raised(lambda: pay(Survey(), clinic, why="x")) == "Quarantined"


def test_whoever_holds_the_value_closes_nothing(clinic):
    with pytest.raises(OSError, match="ward"):
        pay(Survey(source="", fails={"draw": OSError("ward")}), clinic, why="x")
    assert clinic.failures() == []


@pytest.mark.parametrize("point", ["burn: after charge_move", "burn: before quarantine_insert", "burn: before COMMIT"])
def test_burn_and_closing_are_one_transaction(place, config, point):
    class Crash(BaseException):
        pass

    armed = []

    def probe(name):
        if armed and name == point:
            raise Crash

    with Ledger(place, config=config, probe=probe) as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        charge = spend(clinic, 10**10, source="visits.csv").begin()
        armed.append(True)
        with pytest.raises(Crash):
            charge.burn()
        armed.clear()
        assert [event.state for event in clinic.history()] == ["EXECUTING"]
        assert clinic.failures() == []
        charge.burn()
        assert clinic.failures() == [charge.id]


def test_the_operators_log_has_class_plan_and_time_and_no_data(ledger, clinic, place):
    failed(clinic)
    if "://" in place:
        import psycopg

        with psycopg.connect(place) as connection:
            (line,) = connection.execute("SELECT line FROM failure").fetchone()
    else:
        path = f"{place}.failures"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path) as log:
            (line,) = log.read().splitlines()
    told = json.loads(line)
    assert set(told) == {"at", "charge", "plan_hash", "error"}
    assert (told["error"], told["charge"]) == ("ValueError", clinic.history()[0].charge)
    assert "Ann" not in line
    with ledger.store.read() as transaction:
        assert not any("ValueError" in row[2] for row in transaction.rows("entries_after", 0, 1000))


def test_closings_travel_with_an_export(ledger, clinic, tmp_path, config):
    from tallystick.ledger import import_ledger

    clinic.register("visits", source="visits.csv", note="{}", fixed={"unit": "pid"})
    failed(clinic)
    clinic.clear(why="ok")
    failed(clinic)
    with import_ledger(ledger.export(withheld=True), tmp_path / "copy.db", config=tmp_path / "elsewhere") as copy:
        assert copy.verify().problems == ()
        assert copy.open("clinic").failures() == clinic.failures()
        assert copy.datasets() == ledger.datasets()


# -- registrations


def test_a_source_belongs_to_one_population(ledger, clinic):
    clinic.register("visits", source="visits.csv")
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    with pytest.raises(Refused, match="another population"):
        staff.register("the same", source="visits.csv")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        pay(Survey(), staff, why="the same rows, another budget")
    block = ledger.open("ward", budget=ts.zcdp(rho=0.1), parent=clinic, unit="patient")
    block.register("ward visits", source="visits.csv")
    assert pay(Survey(), block, why="a block of the same people").fresh


def test_a_source_stays_with_its_population_after_the_data_moved(ledger, clinic):
    clinic.register("visits", source="visits.csv")
    clinic.register("visits", source="moved.csv", update=True)
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    for source in ("visits.csv", "moved.csv"):
        with pytest.raises(Refused):
            staff.register("theirs", source=source)


def test_whom_a_dataset_protects_never_changes(clinic):
    clinic.register("visits", source="visits.csv", fixed={"unit": "pid", "adjacency": "add_remove"})
    with pytest.raises(Refused, match="whom it protects"):
        clinic.register("visits", source="visits.csv", fixed={"unit": None, "adjacency": "add_remove"}, update=True)


def test_a_change_has_to_be_asked_for(clinic):
    clinic.register("visits", source="visits.csv", note="one")
    with pytest.raises(InvalidInput):
        clinic.register("visits", source="visits.csv", note="two")
    clinic.register("visits", source="visits.csv", note="two", update=True)
    assert clinic.ledger.datasets()["visits"].note == "two"


# -- the least price


@pytest.mark.parametrize(
    ("budget", "least", "small", "enough"),
    [
        (ts.zcdp(rho=0.5), "rho 0.0001", ts.zcdp(rho=0.00009), ts.zcdp(rho=0.0001)),
        (ts.pure_dp(epsilon=1), "epsilon 0.01", ts.pure_dp(epsilon=0.009), ts.pure_dp(epsilon=0.01)),
        (ts.gdp(mu=1), "mu^2 0.0002", ts.gdp(mu=0.014), ts.gdp(mu=0.0145)),
    ],
)
def test_plans_on_registered_data_cost_at_least_a_little(ledger, budget, least, small, enough):
    account = ledger.open("clinic", budget=budget, unit="patient")
    account.register("visits", source="visits.csv")
    assert str(ledger.datasets()["visits"].least_price).startswith(least)
    with pytest.raises(Refused, match="the least cost of this dataset is"):
        account.charge(small, why="x", source="visits.csv").begin()
    assert account.used.a0 == 0
    account.charge(enough, why="x", source="visits.csv").begin()


def test_the_least_price_is_stated_at_registration_and_holds_for_every_place_of_the_data(clinic):
    clinic.register("visits", source="visits.csv", least_price=ts.zcdp(rho=0.01))
    for source in ("visits.csv", "a copy of visits.csv"):
        with pytest.raises(Refused, match="the least cost of this dataset is"):
            pay(Survey(source=source, price=0.009), clinic, why="x")
    assert pay(Survey(price=0.01), clinic, why="x").fresh
    assert pay(Survey(source="", price=0.001), clinic, why="a value in hand").fresh


@pytest.mark.parametrize("price", [ts.pure_dp(epsilon=0.1), ts.zcdp(rho=0.6)])
def test_a_least_price_in_another_currency_or_above_the_limit_is_refused(clinic, price):
    with pytest.raises(InvalidInput, match="least_price"):
        clinic.register("visits", source="visits.csv", least_price=price)
    assert clinic.ledger.datasets() == {}


def test_the_default_never_exceeds_the_limit(ledger):
    small = ledger.open("small", budget=ts.zcdp(rho=0.00001), unit="patient")
    small.register("visits", source="visits.csv")
    small.charge(ts.zcdp(rho=0.00001), why="x", source="visits.csv").begin()
