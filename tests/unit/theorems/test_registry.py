"""The registry of statements: complete, resolvable, honest about its pages, functions and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput
from tallystick.theorems import all_statements, lookup
from tallystick.theorems.registry import ALIASES

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("statement", all_statements(), ids=lambda statement: statement.number)
def test_a_statement_has_a_page_a_test_functions_and_a_live_number(statement):
    page = (ROOT / "docs" / statement.page).read_text(encoding="utf-8")
    assert statement.number.lower() in page.lower()
    assert (ROOT / statement.test).is_file()
    test_text = (ROOT / statement.test).read_text(encoding="utf-8")
    for name in statement.functions:
        assert hasattr(theorems, name)
        assert name in page
    if statement.functions:
        assert any(name in test_text for name in statement.functions)
    live = statement.live()
    assert isinstance(live, str)
    assert len(live) > 5
    assert "nan" not in live
    if statement.erratum:
        assert "Erratum" in page


def test_every_exported_function_belongs_to_a_statement():
    used = {name for statement in all_statements() for name in statement.functions}
    assert set(theorems.__all__) - used == {"Statement", "all_statements", "lookup"}


def test_every_exported_name_exists_and_has_a_docstring_with_a_doctest():
    for name in theorems.__all__:
        value = getattr(theorems, name)
        assert value.__doc__
        if not isinstance(value, type):
            assert ">>>" in value.__doc__


def test_the_index_maps_every_statement_to_its_function_and_test():
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    rows = {row.split("|")[1].strip().lower(): row for row in index.splitlines() if row.startswith("| ")}
    for statement in all_statements():
        row = rows[statement.number]
        assert Path(statement.page).name in row
        assert statement.test in row
        for name in statement.functions:
            assert f"`{name}`" in row


def test_other_numbers_of_a_statement_lead_to_it_and_are_in_the_index():
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    own = {statement.number for statement in all_statements()}
    for alias, number in ALIASES.items():
        assert alias not in own
        assert lookup(alias).number == number
        assert f"| {alias} | {number} |" in index


def test_every_page_is_linked_from_the_index():
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(([\w-]+\.md)\)", index))
    pages = {path.name for path in (ROOT / "docs" / "theory").glob("*.md")} - {"index.md"}
    assert {statement.page.removeprefix("theory/") for statement in all_statements()} <= linked
    assert not {name for name in linked if name not in pages}


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ("13.5", "theorem 13.5"),
        ("Theorem 13.5", "theorem 13.5"),
        ("Prop. 13.5", "proposition 13.5"),
        ("proposition13.5", "proposition 13.5"),
        ("thm 9.1", "theorem 9.1"),
        ("14.4", "remark 14.4"),
        ("lemma 6", "lemma 6"),
        ("Alg 5", "algorithm 5"),
        ("000 KL", "000 kl"),
        ("003 0.1", "003 0.1"),
        ("kov", "kov"),
        ("14.2", "theorem 14.1"),
        ("prop 14.2", "proposition 14.2"),
        ("Lemma 8", "proposition 13.3"),
        ("004 2.1", "001 composition"),
    ],
)
def test_a_statement_is_found_by_any_reasonable_spelling(asked, number):
    assert lookup(asked).number == number


@pytest.mark.parametrize("asked", ["99.9", "", "   ", "x" * 200, "theorem", None, 13.5])
def test_an_unknown_number_is_refused_with_a_hint(asked):
    with pytest.raises(InvalidInput):
        lookup(asked)
    if asked == "99.9":
        return
    with pytest.raises(InvalidInput, match=r"near: .*13\.5"):
        lookup("theorm 13.5")
