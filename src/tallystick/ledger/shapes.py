"""What an entry looks like: its fields and their types, for every kind. What they mean is in ``replay``."""

from __future__ import annotations

from typing import Any, Final

from tallystick.ledger.filters import LARGEST

WHOLE: Final = "whole"  # an integer from 0 to the largest amount
TEXT: Final = "text"
TEXT_OR_NONE: Final = "text or none"
WHOLE_OR_NONE: Final = "whole or none"
PAIR: Final = "pair"  # two whole numbers
PAIRS: Final = "pairs"
TRIPLES: Final = "triples"
LIST_OR_NONE: Final = "list or none"
TEXTS: Final = "texts"  # an object whose values are texts or nothing

NAMED: Final = {
    WHOLE: "a whole number in range", TEXT: "a text", TEXT_OR_NONE: "a text", WHOLE_OR_NONE: "a whole number in range",
    PAIR: "two whole numbers in range", PAIRS: "pairs of whole numbers", TRIPLES: "lines of whole numbers in range",
    LIST_OR_NONE: "a list", TEXTS: "an object of texts",
}  # fmt: skip
_CHARGE: Final = {"charge": WHOLE, "fence": WHOLE}
_REQUEST: Final = {
    "principal": TEXT, "key": TEXT, "request": TEXT, "why": TEXT, "plan": TEXT, "plan_hash": TEXT,
    "source": TEXT_OR_NONE, "lines": TRIPLES, "lease_until": WHOLE,
}  # fmt: skip
SHAPES: Final[dict[str, dict[str, str]]] = {
    "genesis": {"format": TEXT, "ledger": TEXT},
    "open": {
        "name": TEXT, "parent": WHOLE_OR_NONE, "partition": LIST_OR_NONE, "account_kind": TEXT, "filter": TEXT,
        "unit": TEXT, "adjacency": TEXT, "milestones": TEXT, "limit": PAIR,
    },
    "raise": {"account": WHOLE, "limit": PAIR, "was": PAIR, "why": TEXT, "by": TEXT, "signature": TEXT},
    "close": {"account": WHOLE, "why": TEXT},
    "register": {
        "dataset": TEXT, "account": WHOLE, "source": TEXT_OR_NONE, "least": WHOLE, "note": TEXT, "fixed": TEXTS,
    },
    "clear": {"principal": TEXT, "account": WHOLE, "rows": PAIRS, "why": TEXT},
    "reserve": _REQUEST,
    "begin": _REQUEST,
    "lease": {**_CHARGE, "lease_until": WHOLE},
    "start": _CHARGE,
    "commit": {**_CHARGE, "answer_hash": TEXT},
    "burn": {**_CHARGE, "why": TEXT},
    "refund": {**_CHARGE, "why": TEXT},
}  # fmt: skip


def problem(entry: Any) -> str:
    """What is wrong with the form of an entry; empty when nothing is.

    >>> problem({"kind": "close", "at": 5, "account": 2, "why": "done"})
    ''
    >>> problem({"kind": "close", "at": 5, "account": 2.0, "why": "done"})
    'account is not a whole number in range'
    """
    kind = entry.get("kind") if isinstance(entry, dict) else None
    shape = SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return "it is of no known kind"
    if entry.keys() != shape.keys() | {"kind", "at"}:
        return "it lacks a field or has one more"
    for name, wanted in {**shape, "at": WHOLE}.items():
        if not _fits(entry[name], wanted):
            return f"{name} is not {NAMED[wanted]}"
    return ""


def _fits(value: Any, kind: str) -> bool:
    if kind == WHOLE:
        return type(value) is int and 0 <= value <= LARGEST
    if kind == TEXT:
        return type(value) is str
    if kind in (PAIR, PAIRS, TRIPLES):
        rows = [value] if kind == PAIR else value
        width = 3 if kind == TRIPLES else 2
        return type(rows) is list and all(
            type(row) is list and len(row) == width and all(_fits(number, WHOLE) for number in row) for row in rows
        )
    if kind == TEXTS:
        return type(value) is dict and all(_fits(text, TEXT_OR_NONE) for text in value.values())
    return value is None or (type(value) is list if kind == LIST_OR_NONE else _fits(value, kind.split()[0]))
