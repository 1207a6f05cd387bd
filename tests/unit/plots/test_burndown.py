"""The burn-down picture shows what the ledger says is left."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.ledger import Ledger
from tallystick.plots import burndown


def test_it_falls_to_what_is_left_marks_what_burned_and_skips_refunds(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        (limit,) = burndown(clinic).axes[0].get_lines()
        assert set(limit.get_ydata()) == {0.5}
        with clinic.charge(ts.zcdp(rho=0.1), why="table"):
            pass
        with pytest.raises(ZeroDivisionError), clinic.charge(ts.zcdp(rho=0.2), why="fails"):
            raise ZeroDivisionError
        clinic.reserve(ts.zcdp(rho=0.15), why="maybe").refund()
        axes = burndown(clinic).axes[0]
        stairs, burned = axes.get_lines()
        assert stairs.get_ydata() == pytest.approx([0.5, 0.4, 0.2])
        assert stairs.get_ydata()[-1] == pytest.approx(float(clinic.remaining.first))
        assert burned.get_ydata() == pytest.approx([0.2])
        assert "clinic" in axes.get_title(loc="left")
        assert axes.get_title(loc="left") == "clinic: rho 0.2 of 0.5 left after 2 charges"
        assert "spent by a request that failed" in [text.get_text() for text in axes.texts]


def test_a_population_with_blocks_is_refused_because_its_own_history_is_not_all(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=0.5), unit="patient")
        ledger.open("2026", budget=ts.zcdp(rho=0.2), unit="patient", parent=people)
        with pytest.raises(InvalidInput, match="blocks"):
            burndown(people)
