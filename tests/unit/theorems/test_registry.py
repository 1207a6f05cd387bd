"""The registry of statements: complete, resolvable, honest about its pages, functions and tests."""

from __future__ import annotations

import importlib.util
import re
from importlib import resources
from pathlib import Path

import pytest

import tallystick.theorems as theorems
from tallystick.cli import main
from tallystick.errors import InvalidInput
from tallystick.theorems import all_statements, lookup, registry
from tallystick.theorems.live import resolve, spoken
from tallystick.theorems.statement import read

ROOT = Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("statements_script", ROOT / "docs" / "statements.py")
SCRIPT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCRIPT)


@pytest.mark.parametrize("statement", all_statements(), ids=lambda statement: statement.number)
def test_a_statement_has_a_page_a_test_functions_and_a_live_number(statement):
    assert (ROOT / "docs" / statement.page).is_file()
    if statement.asks_nothing:
        assert statement.live() == f"nothing to compute: {statement.asks_nothing}"
        assert not statement.functions
        assert not statement.test
        return
    test_text = (ROOT / statement.test).read_text(encoding="utf-8")
    functions = [resolve(name) for name in statement.functions]
    assert all(callable(resolve(name)) for name in statement.pictures)
    assert all(isinstance(function, type) or ">>>" in function.__doc__ for function in functions)
    # a page of accounting is tested by name; a mechanism through the verb that users call
    names = [name for name in statement.functions if "." not in name]
    assert not names or any(name in test_text for name in names)
    live = statement.live()
    assert len(live) > 5
    assert "nan" not in live


def test_every_exported_function_belongs_to_a_statement():
    used = {name for statement in all_statements() for name in statement.functions}
    assert set(theorems.__all__) - used == {"Statement", "all_statements", "lookup"}


def test_every_exported_name_exists_and_has_a_docstring_with_a_doctest():
    for name in theorems.__all__:
        value = getattr(theorems, name)
        assert value.__doc__
        if not isinstance(value, type):
            assert ">>>" in value.__doc__


def test_the_index_and_the_heads_of_the_pages_are_what_the_records_write():
    for page, text in SCRIPT.pages(all_statements()).items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run python docs/statements.py"


def test_every_page_is_linked_from_the_index():
    index = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(([\w-]+\.md)\)", index))
    assert linked == {path.name for path in (ROOT / "docs" / "theory").glob("*.md")} - {"index.md"}


def test_a_page_says_where_its_statements_come_from_in_one_way():
    for statement in all_statements():
        assert "seed" not in statement.source
        for notes, number in (("composition notes", "000"), ("RDP notes", "001"), ("amplification note", "004")):
            assert statement.source.count(notes) == statement.source.count(f"{notes} ({number})")


def test_numbers_are_unique_and_other_numbers_lead_to_their_statement():
    numbers = [number for statement in all_statements() for number in (statement.number, *statement.also)]
    assert len(numbers) == len(set(numbers))
    for statement in all_statements():
        assert all(lookup(number) == statement for number in statement.also)


TOY = """
[[statement]]
number = "toy 1.1"
title = "A toy"
statement = "Twice two is four."
source = "arithmetic"
page = "theory/group-privacy.md"
functions = ["group_pure"]
test = "tests/unit/theorems/test_groups.py"
live = "2 * 2 = {group_pure(epsilon=2, size=2):.0f}"
"""


def test_a_new_statement_is_one_record(monkeypatch):
    records = resources.files("tallystick.theorems").joinpath("statements.toml").read_text(encoding="utf-8")
    monkeypatch.setattr(registry, "all_statements", lambda: read(records + TOY))
    found = lookup("toy 1.1")
    assert found.live() == "2 * 2 = 4"
    texts = {page.name: text for page, text in SCRIPT.pages(registry.all_statements()).items()}
    assert "**Toy 1.1**: A toy. Twice two is four." in texts["group-privacy.md"]
    assert "| toy 1.1 | [A toy](group-privacy.md) | `group_pure` |" in texts["index.md"]


@pytest.mark.parametrize(
    "text",
    [
        "{__import__('os').getcwd()}",
        "{open('x')}",
        "{().__class__}",
        "{[x for x in [1]]}",
        "{theorems.basics.math.sin(1)}",
        "{mechanisms.base.os}",
        "{1 if 1 else 2}",
        "{group_pure.__globals__}",
    ],
)
def test_what_is_outside_the_language_of_live_numbers_is_refused(text):
    with pytest.raises((InvalidInput, ModuleNotFoundError)):
        spoken(text)


def test_an_unknown_field_is_refused():
    with pytest.raises(InvalidInput, match="colour"):
        read(TOY + 'colour = "red"\n')


def test_the_command_shows_a_mechanisms_statement_with_the_full_name_of_its_function(capsys):
    assert main(["theorem", "prop 5.2"]) == 0
    shown = capsys.readouterr().out
    assert "tallystick.mechanisms.select.accuracy.laplace_max_gap" in shown
    assert "32.40" in shown


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
        ("7.2", "theorem 7.2"),
        ("Alg. 4", "algorithm 4"),
        ("3.8", "section 3.8"),
        ("remark 3.8", "proposition 3.1"),
        ("14.5", "section 14.5"),
        ("§ 9.1", "theorem 9.1"),
        ("Sec. 7.3.1", "theorem 7.6"),
        ("004 lemma 2.1", "001 composition"),
        ("004 Def. 1.5", "004 1.5"),
        ("002 thm 13.5", "theorem 13.5"),
        ("004 1.1", "001 conversion"),
        ("004 definition 1.1", "remark 12.1"),
        ("question 1.2", "example 1.1"),
        ("fig. 2", "theorem 6.1"),
    ],
)
def test_a_statement_is_found_by_any_reasonable_spelling(asked, number):
    assert lookup(asked).number == number


@pytest.mark.parametrize("asked", ["99.9", "", "   ", "x" * 200, "theorem", None, 13.5])
def test_an_unknown_number_is_refused_with_a_hint(asked):
    with pytest.raises(InvalidInput):
        lookup(asked)


@pytest.mark.parametrize(
    ("asked", "near"), [("theorm 13.5", "theorem 13.5"), ("13.12", "proposition 13.2"), ("lemma 99", "lemma 9")]
)
def test_a_near_miss_is_told_what_is_near(asked, near):
    with pytest.raises(InvalidInput, match=f"near: .*{near}"):
        lookup(asked)


def test_a_bare_number_says_what_else_it_may_mean(capsys):
    assert registry.namesakes("14.2") == (
        "proposition 14.2",
        "corollary 14.2",
        "remark 14.2",
        "definition 14.2",
        "section 14.2",
    )
    assert registry.namesakes("lemma 6") == registry.namesakes("nothing") == ()
    assert main(["theorem", "3.8"]) == 0
    assert "see also  remark 3.8" in capsys.readouterr().out
