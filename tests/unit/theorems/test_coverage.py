"""Every row of the five lecture notes, counted from the records: what asks for a number or a picture has one.

``coverage.csv`` was read off the notes line by line: 330 rows, what each of them asks for, and where an earlier answer
was thin the function that it needs. A row that asks for nothing has a record that says why.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import importlib.util
import re
from pathlib import Path

import pytest

from tallystick.errors import InvalidInput
from tallystick.theorems import Statement, all_statements, lookup
from tallystick.theorems.live import resolve

ROOT = Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("statements_script", ROOT / "docs" / "statements.py")
assert SPEC is not None
assert SPEC.loader is not None
SCRIPT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCRIPT)
ROWS = tuple(csv.DictReader((Path(__file__).parent / "coverage.csv").read_text(encoding="utf-8").splitlines()))


def computes(statement: Statement) -> bool:
    """Does the live number of a statement call one of its own functions?"""
    tree = ast.parse(f"f{statement.text!r}", mode="eval")
    called = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}
    return bool(called & set(statement.functions))


def answered(row: dict[str, str]) -> bool:
    try:
        statement = lookup(row["number"])
    except InvalidInput:
        return False
    if row["asks"] == "nothing":
        return bool(statement.asks_nothing or statement.functions)
    if row["asks"] == "picture":
        return all(callable(resolve(name)) for name in statement.pictures) and bool(statement.pictures)
    return bool(statement.functions) and row["needs"] in ("", *statement.functions)


def test_the_rows_are_those_of_the_notes() -> None:
    assert len(ROWS) == 330
    assert sum(row["asks"] == "nothing" for row in ROWS) == 39


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['part']} {row['row']}")
def test_a_row_of_the_notes_is_answered(row: dict[str, str]) -> None:
    assert answered(row)


def test_a_record_computes_its_number_or_says_why_there_is_none() -> None:
    for one in all_statements():
        assert bool(one.asks_nothing) != bool(one.functions), f"{one.number}: functions, or why there are none"
        assert one.asks_nothing or computes(one), f"{one.number}: its number is not computed by its functions"
        assert one.asks_nothing or one.test, one.number


def test_a_record_that_computes_something_else_is_caught() -> None:
    assert computes(lookup("theorem 3.1"))
    told = lookup("theorem 3.1")
    assert not computes(dataclasses.replace(told, text="p = 0.5: epsilon = {group_pure(epsilon=1, size=1):.6f}"))
    assert not computes(dataclasses.replace(told, text="a fixed sentence: 1.0986"))


# The numbered statements of the large notes: kind, chapter, how many (lemmas and algorithms are numbered through).
COUNTS = {
    "definition": "8 1 5 2 0 0 1 1 1 1 1 2 6 3",
    "theorem": "1 2 4 2 0 1 - 2 - 2 - 3 7 3",
    "example": "4 2 6 2 4 0 7 0 1 1 0 0 7 1",
    "remark": "3 2 9 5 0 3 8 4 4 3 6 3 10 6",
    "proposition": "0 1 2 3 2 0 1 0 0 0 1 2 9 3",
    "corollary": "1 0 0 0 0 0 1 0 0 1 0 0 2 2",
    "question": "2 1 1 0 0 0 0 0 0 0 0 0 0 0",
}
APART = ["7.1", "7.2", "7.6", "7.10", "7.11", "7.12", "9.1", "9.3", "11.2", "11.3"]


def numbers() -> list[str]:
    told = [f"lemma {n}" for n in range(1, 17)] + [f"algorithm {n}" for n in range(1, 8)]
    told += [f"theorem {n}" for n in APART]
    for kind, counts in COUNTS.items():
        for chapter, count in enumerate(counts.split(), start=1):
            told += [f"{kind} {chapter}.{n}" for n in range(1, 1 + (0 if count == "-" else int(count)))]
    return told


def test_every_number_of_the_large_notes_is_answered() -> None:
    assert len(numbers()) == len(set(numbers())) == 228
    unanswered = []
    for number in numbers():
        try:
            lookup(number)
        except InvalidInput:
            unanswered.append(number)
    assert unanswered == []


def test_the_index_shows_the_errata_and_each_has_its_test() -> None:
    shown = {int(n) for statement in all_statements() for n in SCRIPT.errata(statement)}
    assert set(range(50, 67)) <= shown
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/unit/errata").glob("test_*.py"))
    tested = {int(n) for name in re.findall(r"def test_errat\w+", tests) for n in re.findall(r"_(\d+)(?=_)", name)}
    assert set(range(50, 67)) <= tested
