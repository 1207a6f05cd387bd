"""Public notes are part of the record, cost nothing, and the newest of a name counts."""

from __future__ import annotations

import tallystick as ts
from tallystick.ledger import Ledger, notes


def test_the_newest_note_counts_and_nothing_is_spent(place: str) -> None:
    with Ledger(place, principal=notes.PRINCIPAL) as book:
        account = book.open("patients", budget=ts.zcdp(rho=1, delta=1e-6), unit="patient")
        assert notes.newest(book, "visits") is None
        notes.write(account, "visits", {"unit": "patient_id", "bounds": [["age", 0, 110.5]], "about": None}, why="one")
        notes.write(account, "visits", {"unit": "é"}, why="two")
        notes.write(account, "other", [1], why="three")
        assert account.used.a0 == 0
    with Ledger(place) as book:
        assert notes.newest(book, "visits") == {"unit": "é"}
        assert notes.newest(book, "other") == [1]
        assert not book.verify().problems


def test_a_note_never_meets_the_key_of_a_charge(place: str) -> None:
    with Ledger(place) as book:
        account = book.open("patients", budget=ts.zcdp(rho=1), unit="patient")
        with account.charge(ts.zcdp(rho=0.1), why="a charge", key="visits 1") as charge:
            charge.answer = "an answer"
        assert notes.newest(book, "visits") is None
    with Ledger(place, principal=notes.PRINCIPAL) as book:
        notes.write(book.open("patients"), "visits", "a note", why="a note")
        assert notes.newest(book, "visits") == "a note"


def test_a_note_whose_writer_died_does_not_hide_the_one_before(place: str) -> None:
    with Ledger(place, principal=notes.PRINCIPAL) as book:
        account = book.open("patients", budget=ts.zcdp(rho=1), unit="patient")
        notes.write(account, "visits", "first", why="a note")
        account.charge(ts.no_loss(unit="patient"), why="a note", key="visits 2", request="note").reserve().start()
        assert notes.newest(book, "visits") == "first"
        notes.write(account, "visits", "third", why="a note")
        assert notes.newest(book, "visits") == "third"
