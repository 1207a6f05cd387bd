"""Statements about mechanisms: each has a page, a test, functions that exist and a number computed now."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tallystick.cli import main
from tallystick.theorems import all_statements
from tallystick.theorems.registry import lookup
from tallystick.theorems.statements_mechanisms import MECHANISMS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("statement", MECHANISMS, ids=lambda statement: statement.number)
def test_a_statement_has_a_page_a_test_functions_and_a_live_number(statement) -> None:
    assert (ROOT / "docs" / statement.page).is_file()
    assert (ROOT / statement.test).is_file()
    for name in statement.functions:
        module, function = name.rsplit(".", 1)
        assert ">>>" in getattr(importlib.import_module(f"tallystick.{module}"), function).__doc__
    live = statement.live()
    assert len(live) > 5
    assert "nan" not in live


def test_numbers_are_different_from_those_of_accounting() -> None:
    numbers = [statement.number for statement in (*all_statements(), *MECHANISMS)]
    assert len(numbers) == len(set(numbers))


def test_a_statement_is_found_by_its_bare_number() -> None:
    assert lookup("7.2", more=MECHANISMS).number == "theorem 7.2"
    assert lookup("Alg. 4", more=MECHANISMS).erratum.startswith("1:")


def test_the_command_shows_a_mechanisms_statement_with_the_full_name_of_its_function(capsys) -> None:
    assert main(["theorem", "prop 5.2"]) == 0
    shown = capsys.readouterr().out
    assert "tallystick.mechanisms.select.accuracy.laplace_max_gap" in shown
    assert "32.40" in shown
