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
)
GOOD = (
    "A cell that is not a number counts as missing.",
    "Reuse that answer without a new charge.",
    "There is no limit. A card has no signature.",
    "The error is ±20. Epsilon 1 at delta 1e-6.",
)


@pytest.mark.parametrize("sentence", BAD)
def test_sentences_of_the_old_voice_are_found_in_pages_and_in_code(prose: Any, sentence: str) -> None:
    assert prose.check("page.md", sentence)
    assert prose.check("module.py", f"text = {sentence!r}")


@pytest.mark.parametrize("sentence", GOOD)
def test_plain_sentences_pass(prose: Any, sentence: str) -> None:
    assert prose.check("page.md", sentence) == []
    assert prose.check("module.py", f"text = {sentence!r}") == []


def test_code_on_a_page_is_not_prose(prose: Any) -> None:
    assert prose.check("page.md", "```console\n$ old +-20\n```\nUse `+-` in code.") == []


def test_a_docstring_begins_with_a_verb_or_a_noun(prose: Any) -> None:
    assert prose.check("module.py", '"""Whether it fits."""')
    assert prose.check("module.py", '"""Return whether it fits."""') == []


def test_exceptions_are_few_and_have_reasons(prose: Any) -> None:
    assert len(prose.ALLOWED) <= prose.MOST_ALLOWED
    assert all(prose.ALLOWED.values())
