"""``account.pay`` charges at once; ``account.charge`` charges nothing until it is entered, and says so."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings

import pytest

import tallystick as ts
from tallystick.errors import BudgetExceeded, IdempotencyConflict, NotCharged

LOSS = ts.zcdp(rho=0.25)


@pytest.fixture
def clinic(ledger):
    return ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")


def line_here() -> int:
    """The line that calls this function."""
    return sys._getframe(1).f_lineno


def test_a_payment_is_charged_by_the_call_and_returns_a_receipt(clinic):
    receipt = clinic.pay(LOSS, why="a count made elsewhere")
    assert clinic.used.a0 == 25 * 10**10
    assert clinic.paid(receipt) == clinic.used
    assert clinic.ledger.verify(receipts=[receipt]).intact
    [event] = clinic.history()
    assert (event.charge, event.state, event.why) == (receipt.charge, "COMMITTED", "a count made elsewhere")


def test_a_payment_is_one_transaction(clinic):
    writes = []
    before = clinic.ledger.head().seq
    store, write = clinic.ledger.store, clinic.ledger.store.write

    def counted(name):
        writes.append(name)
        return write(name)

    store.write = counted
    clinic.pay(LOSS, why="x")
    assert len(writes) == 1
    assert clinic.ledger.head().seq == before + 2  # its beginning and its commit


def test_the_same_key_pays_once_and_returns_the_same_receipt(clinic):
    first = clinic.pay(LOSS, why="x", key="january")
    assert clinic.pay(LOSS, why="x", key="january") == first
    assert len(clinic.history()) == 1
    with pytest.raises(IdempotencyConflict, match="another request"):
        clinic.pay(ts.zcdp(rho=0.1), why="x", key="january")
    with pytest.warns(UserWarning, match="was made with the reason 'x'"):
        clinic.pay(LOSS, why="another reason", key="january")
    assert len(clinic.history()) == 1


def test_a_payment_above_the_limit_is_denied_and_charges_nothing(clinic):
    with pytest.raises(BudgetExceeded):
        clinic.pay(ts.zcdp(rho=2.5), why="too much")
    assert clinic.used.a0 == 0
    assert clinic.history() == []


def test_two_accounts_pay_together_or_not_at_all(clinic, ledger):
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.1), unit="patient")
    with pytest.raises(BudgetExceeded):
        clinic.pay(LOSS, why="x", also=[staff])
    assert clinic.used.a0 == 0
    receipt = clinic.pay(ts.zcdp(rho=0.1), why="x", also=[staff])
    assert clinic.paid(receipt) == staff.paid(receipt) == staff.used


def test_a_charge_as_a_statement_warns_and_names_its_line(clinic):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        line = line_here() + 1
        clinic.charge(ts.zcdp(rho=2.5), why="forgotten")
        gc.collect()
    assert clinic.used.a0 == 0
    [warning] = told
    assert warning.category is NotCharged
    assert (warning.filename, warning.lineno) == (__file__, line)
    text = str(warning.message)
    assert f"{__file__}:{line}" in text
    assert "clinic would pay rho 2.5" in text
    assert "account.pay(" in text


def test_a_charge_of_several_accounts_that_is_dropped_warns(clinic):
    charge = [clinic.ledger.charge(LOSS, accounts=[clinic], why="forgotten")]
    with pytest.warns(NotCharged, match="would pay"):
        charge.clear()


def test_the_warning_is_shown_by_default(tmp_path):
    script = tmp_path / "forgotten.py"
    script.write_text(
        "import tallystick as ts\n"
        f"account = ts.Ledger({str(tmp_path / 'budget.db')!r}).open('clinic', budget=ts.zcdp(rho=0.5), unit='person')\n"
        "account.charge(ts.zcdp(rho=0.1), why='forgotten')\n"
        "kept = account.charge(ts.zcdp(rho=0.1), why='kept until the end')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert f"{script}:3: NotCharged" in done.stderr
    assert f"{script}:4: NotCharged" in done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


def test_a_charge_that_is_not_entered_says_so_and_says_how_to_charge(clinic):
    charge = clinic.charge(LOSS, why="x")
    shown, in_notebook = repr(charge), charge._repr_html_()
    charge.rehearse()  # a charge that was looked at does not warn
    for text in (shown, in_notebook):
        assert "not charged yet" in text
        assert "rho 0.25" in text
        assert "account.pay(" in text
    assert clinic.used.a0 == 0
    with clinic.charge(LOSS, why="x") as entered:
        assert "EXECUTING" in repr(entered)


def test_every_other_use_of_a_charge_is_silent(clinic):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clinic.pay(ts.zcdp(rho=0.01), why="x", key="k")
        clinic.pay(ts.zcdp(rho=0.01), why="x", key="k")
        clinic.reserve(ts.zcdp(rho=0.01), why="x").refund()
        clinic.charge(ts.zcdp(rho=0.01), why="x").begin().burn()
        count = ts.noise.add_gaussian(sigma=20, sensitivity=1)
        assert clinic.release(count, 5.0, why="x", key="r") == clinic.release(count, 5.0, why="x", key="r")
        with clinic.training(ts.zcdp(rho=0.001), steps=4, block=2, why="x", key="t") as run:
            for _ in range(9):
                run.step()
        with pytest.raises(BudgetExceeded), clinic.charge(ts.zcdp(rho=2), why="x"):
            pass
        with pytest.raises(ts.errors.InvalidInput):
            clinic.charge(LOSS, why="")
        gc.collect()
    assert [each for each in told if each.category is NotCharged] == []
