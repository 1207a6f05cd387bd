"""One numbered statement of the lecture notes, as it should read: a record of ``statements.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from tallystick.errors import InvalidInput
from tallystick.theorems.live import spoken


@dataclass(frozen=True, slots=True)
class Statement:
    """A theorem: its text, its source, its error in print, and a number computed now.

    ``functions`` are names in ``ts.theorems`` or dotted names under tallystick, and ``text`` has a number that they
    compute; a definition, a story or a rule about code that must not be there has ``asks_nothing`` instead: why it
    has no number, and where it is used. ``pictures`` draw it; ``page`` is relative to ``docs/``; ``test`` checks it;
    ``also`` are other numbers under which the notes tell it.
    """

    number: str
    title: str
    statement: str
    source: str
    page: str
    functions: tuple[str, ...] = ()
    test: str = ""
    text: str = ""
    asks_nothing: str = ""
    pictures: tuple[str, ...] = ()
    erratum: str | None = None
    also: tuple[str, ...] = ()

    def live(self) -> str:
        """``text`` with its numbers computed now, or why it has no number."""
        return spoken(self.text) if self.text else f"nothing to compute: {self.asks_nothing}"


def read(text: str) -> tuple[Statement, ...]:
    """The statements of a TOML text, in its order.

    >>> record = '[[statement]]\\nnumber = "toy 1"\\ntitle = "Toy"\\nstatement = "1 = 1."\\nsource = "none"\\n'
    >>> record += 'page = "theory/index.md"\\nfunctions = []\\ntest = "tests/none.py"\\nlive = "{1 + 1}"\\n'
    >>> read(record)[0].live()
    '2'
    """
    return tuple(_statement(record) for record in tomllib.loads(text)["statement"])


@cache
def all_statements() -> tuple[Statement, ...]:
    """Every statement, in the order of the notes.

    >>> all_statements()[0].number
    'course question 3'
    """
    return read(resources.files("tallystick.theorems").joinpath("statements.toml").read_text(encoding="utf-8"))


def _statement(record: Mapping[str, Any]) -> Statement:
    known: dict[str, Any] = {"text" if name == "live" else name: value for name, value in record.items()}
    if extra := set(known) - {field.name for field in fields(Statement)}:
        raise InvalidInput("statement", sorted(extra), "a record with number, title, statement, source, page, ...")
    known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return Statement(**known)
