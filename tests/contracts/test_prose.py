"""The linter of the prose finds what the style guide leaves behind, and passes what it recommends."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prose() -> Any:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "docs" / "prose.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


BAD = (
    "A cell that is no number counts as missing.",
    "The key gives that answer for nothing.",
    "Nobody knows whether the data changed.",
    "The noise of their own did not choose.",
    "Register a data set first.",
    "The error is +-20.",
    "Epsilon 1 at delta 1e-06.",
    "One sentence " + "with words " * 30 + "is too long.",
    "This loss is not known. Works: a larger epsilon.",
    "asked  ",
    " found:",
    "works   a larger epsilon",
    "Rows over the limit are weighted down.",
    "An age of 130 is moved to the bound.",
    "Give a block of keys.",
    "Name the account that pays.",
    "The population is whose data it is.",
    "A limit is the most that will ever be spent.",
    "The plan says what it loses.",
    "The table came out in May.",
    "Steps were given out twice.",
    "The ledger says no.",
    "One person comes and goes.",
    "This attacker is the best there can be.",
    "The hit rate is 3 %.",
    "The attacker is 4 % sure.",
    "The number is on the safe side.",
    "A bound on the wrong side is a defect.",
    "Delta is read at epsilon 1.",
    "The loader deals its own batches.",
    "Same key, same bytes.",
    "Charge 4 answered it.",
    "A failure burns the charge.",
    "The charge is burned.",
)
GOOD = (
    "A cell that is not a number counts as missing.",
    "Reuse that answer without a new charge.",
    "There is no limit. A card has no signature.",
    "The error is ±20. Epsilon 1 at delta 1e-6.",
    "Try: a larger epsilon.",
    "A refusal names the word and what works: a list.",
    "The target y is None. Write [+-]?[0-9] for a sign.",
    "The sum " + "a + b / 2 - 3 x = " * 10 + "has few words.",
)


@pytest.mark.parametrize("sentence", BAD)
def test_sentences_of_the_old_voice_are_found_in_pages_and_in_code(prose: Any, sentence: str) -> None:
    assert prose.check("page.md", sentence)
    assert prose.check("module.py", f"text = {sentence!r}")


@pytest.mark.parametrize(
    ("name", "sentence", "is_found"),
    [
        ("docs/guides/sql.md", "Each count is capped.", True),
        ("src/tallystick/cli/app.py", "rows of one unit", True),
        ("src/tallystick/cli/app.py", "the names of --unit and 'unit id'", False),
        ("src/tallystick/tables/parts.py", "rows over the caps, of each unit up to 10", False),
        ("src/tallystick/tables/parts.py", "the caps of a table", True),
        ("docs/theory/query-removed.md", "What caps leave out", False),
    ],
)
def test_texts_for_users_have_the_words_of_the_glossary(prose: Any, name: str, sentence: str, is_found: bool) -> None:
    text = f"text = {sentence!r}" if name.endswith(".py") else sentence
    assert bool(prose.check(name, text)) == is_found
    if name.endswith(".py"):
        assert not prose.check(name, f'def call():\n    """{sentence}"""')


def test_listings_in_docstrings_are_not_sentences(prose: Any) -> None:
    listing = "\n".join(f"    draw_{i}(loss)   picture of price {i}" for i in range(30))
    assert not prose.check("module.py", f'"""Pictures.\n\n{listing}\n\nDraw them.\n"""')


@pytest.mark.parametrize("sentence", GOOD)
def test_plain_sentences_pass(prose: Any, sentence: str) -> None:
    assert prose.check("page.md", sentence) == []
    assert prose.check("module.py", f"text = {sentence!r}") == []


def test_code_on_a_page_is_not_prose(prose: Any) -> None:
    assert prose.check("page.md", "```console\n$ old +-20\n```\nUse `+-` in code.") == []


def test_a_docstring_begins_with_a_verb_or_a_noun(prose: Any) -> None:
    assert prose.check("module.py", '"""Whether it fits."""')
    assert prose.check("module.py", '"""Return whether it fits."""') == []


def test_statements_of_sql_are_not_prose(prose: Any) -> None:
    long = "\n    SELECT name, " + "column, " * 50 + "FROM a JOIN b"
    assert prose.check("module.py", f"text = {long!r}") == []
    assert prose.check("module.py", f"text = {long.strip()!r}")


def test_texts_are_checked_without_their_docstrings(prose: Any) -> None:
    module = '"""Nobody."""\nlimit = 3\n"""Nobody knows it."""\ntext = "a data set"\n'
    assert len(prose.check("module.py", module)) == 2
    assert [each.line for each in prose.check("module.py", module, documented=())] == [4]


def test_docstrings_of_public_names_are_checked_in_every_module(prose: Any) -> None:
    module = (
        'class Shown:\n    """Nobody knows."""\n    def run(self):\n        """Nobody knows."""\n    def _run(self):\n'
        '        """Nobody knows."""\ndef hidden():\n    """Nobody knows."""\n'
    )
    assert [each.line for each in prose.check("module.py", module, documented={"Shown"})] == [2, 4]
    assert {"mechanism", "LogisticRegression", "PrivacyLoss", "add_gaussian"} <= prose.public_names()


def test_every_page_is_checked(prose: Any) -> None:
    pages = {*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"}
    assert pages <= set(prose.files(prose.SCOPE))


def test_the_texts_of_every_module_are_checked(prose: Any) -> None:
    source = ROOT / "src" / "tallystick"
    assert set(source.rglob("*.py")) <= set(prose.files(prose.SCOPE + prose.TEXTS_ONLY))


def test_exceptions_are_few_and_have_reasons(prose: Any) -> None:
    assert len(prose.ALLOWED) <= prose.MOST_ALLOWED
    assert all(prose.ALLOWED.values())


def test_the_text_of_an_f_string_is_read_as_a_whole(prose: Any) -> None:
    assert prose.check("module.py", 'text = f"asked {value}"')
    assert prose.check("module.py", 'text = f"{count} values and {name} is no number"')
    assert prose.check("module.py", 'text = f"' + "with {name} and words " * 20 + '"')
    assert not prose.check("module.py", 'text = f"{percent} of {crowd} found"')
