"""No error formats the name of a file without ``place.shown``, and no error holds the password of a URL."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.errors import BudgetExceeded, InvalidInput, NotDelivered, Problem, Unavailable
from tallystick.place import unreadable

ROOM = Path(tallystick.__file__).parent
NAMES = {"path", "_path", "filename"}
"""Names of variables and attributes that hold what a user gave as a file. A ``Place`` has a text without secrets."""

NEEDED = re.compile(r"\{[^{}]*(path|filename)[\s)]*[}!:]|[^\x00-\x7f]")
"""A module without it formats none of them; Python reads some letters beyond ASCII as others."""


def error_texts(path: Path) -> Iterator[ast.FormattedValue]:
    """The formatted values in errors that a module makes."""
    kinds = {kind.__name__ for kind in errors._all_kinds(errors.TallystickError)}
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if NEEDED.search(text) else ():
        if not isinstance(node, ast.Call) or getattr(node.func, "id", None) not in kinds:
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.FormattedValue):
                yield inner


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_no_error_formats_a_file_without_leaving_out_its_secrets() -> None:
    found = []
    for path in sorted(ROOM.rglob("*.py")):
        for value in error_texts(path):
            if name_of(value.value) in NAMES:
                found.append(f"{path.relative_to(ROOM)}:{value.lineno}: {ast.unparse(value.value)}")
    assert found == []


def test_the_walk_sees_a_file_in_an_error(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(path):\n    raise Unavailable(f'{path} is busy {shown(path)}')\n")
    assert [name_of(value.value) for value in error_texts(module)] == ["path", ""]


URLS = (
    "postgresql://ana:s3cret@db/x",
    "postgresql:/ana:s3cret@db/x",
    "https://ana:s3cret@db/x.csv",
    "postgresql://ana:a/s3cret@db/x",
    "--ledgerpostgresql://:s3cret@db/x",
)


@pytest.mark.parametrize("url", URLS)
def test_no_error_holds_the_password_of_a_url(url: str) -> None:
    problems: list[Problem] = [
        InvalidInput("ledger", url, "a file"),
        InvalidInput("ledger", 3, "", problem=f"there is no ledger at {url}"),
        unreadable("plan", url, FileNotFoundError(2, "No such file or directory")),
        BudgetExceeded(f"no budget at {url}"),
        Unavailable(f"{url} cannot be written"),
        NotDelivered(f"{url} failed.", argument="out", value="t.csv", charge=1, key="k"),
    ]
    for problem in problems:
        texts = [str(problem), repr(problem), json.dumps(problem.to_data()), str(pickle.dumps(problem))]
        assert not [text for text in texts if "s3cret" in text], problem


def test_a_place_without_a_password_is_shown_as_it_is() -> None:
    text = "PostgreSQL cannot be reached at postgresql://ana@db.example:5433/x?sslmode=require: it does not answer"
    assert str(Unavailable(text)) == text
