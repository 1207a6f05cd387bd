"""An engineer sees in certification.md which argument covers each cell of leaf x transformation x read-out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from referee import matrix
from referee.draws import MAKERS, TRANSFORMATIONS

SPEC = importlib.util.spec_from_file_location("cells", Path(__file__).resolve().parents[2] / "docs" / "cells.py")
assert SPEC is not None
assert SPEC.loader is not None
cells = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cells)


def test_the_table_has_every_cell_that_the_referee_judges() -> None:
    assert list(cells.LEAVES) == list(MAKERS), "give the leaf an example and an argument in docs/cells.py"
    assert list(cells.TRANSFORMATIONS) == list(TRANSFORMATIONS), "give the transformation an example in docs/cells.py"
    told = [cell for family, _ in cells.READ_OUTS.values() for cell in family]
    assert sorted(told) == sorted(matrix.CELLS)


def test_the_page_says_what_the_code_does() -> None:
    page = cells.PAGE.read_text(encoding="utf-8")
    assert cells.written(page) == page, "run python docs/cells.py"


def test_every_letter_has_an_argument_and_every_argument_a_place() -> None:
    page = cells.PAGE.read_text(encoding="utf-8")
    every = (*cells.PAIRS.values(), *cells.WAYS.values())
    told = {letter for letter, words in every if words}
    assert {letter for letter, _ in every} == told
    links = re.findall(r"\]\(([a-z-]+\.md)\)", cells.block())
    assert links
    assert all((cells.PAGE.parent / link).is_file() for link in links)
    for section in set(re.findall(r"\*([A-Z][a-z]+)\*", cells.block())):
        assert re.search(rf"^##+ {section}", page, re.MULTILINE), f"no section {section}"
