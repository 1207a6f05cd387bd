"""Find a statement of the lecture notes by its number: ``lookup("13.5")``, ``lookup("prop 13.5")``."""

from __future__ import annotations

import difflib

from tallystick.accounting.theorems.statement import Statement
from tallystick.accounting.theorems.statements_approximate import APPROXIMATE
from tallystick.accounting.theorems.statements_basic import BASIC
from tallystick.accounting.theorems.statements_notes import NOTES
from tallystick.accounting.theorems.statements_pairs import PAIRS
from tallystick.accounting.theorems.statements_tradeoff import TRADEOFF
from tallystick.errors import InvalidInput

__all__ = ["Statement", "all_statements", "lookup"]

# A bare number means the first of these that has it; theorems and propositions are numbered apart in the notes.
_KINDS = {
    "theorem": ("thm", "theorem"),
    "proposition": ("prop", "proposition"),
    "corollary": ("cor", "corollary"),
    "lemma": ("lem", "lemma"),
    "remark": ("rem", "remark"),
    "example": ("ex", "example"),
    "definition": ("def", "definition"),
    "algorithm": ("alg", "algorithm"),
    "section": ("sec", "section"),
}
_ALL = (*BASIC, *APPROXIMATE, *TRADEOFF, *PAIRS, *NOTES)
_BY_NUMBER = {statement.number: statement for statement in _ALL}


def all_statements() -> tuple[Statement, ...]:
    """Every statement, in the order of the notes.

    >>> all_statements()[0].number
    'remark 3.1'
    """
    return _ALL


def lookup(number: str, *, more: tuple[Statement, ...] = ()) -> Statement:
    """The statement with that number; a bare number means the theorem, else the proposition, and so on.

    ``more`` are statements that live in other rooms (those about mechanisms).

    >>> lookup("13.5").title
    'Berry-Esseen band of the central limit theorem'
    >>> lookup("Prop. 13.5").number
    'proposition 13.5'
    """
    if not isinstance(number, str) or not number.strip() or len(number) > 80:
        raise InvalidInput("number", number, "a statement's number such as '13.5' or 'proposition 13.5'")
    words = number.lower().replace(".", ". ", 1).split() if number[:1].isalpha() else number.lower().split()
    text = " ".join(words)
    for kind, spellings in _KINDS.items():
        for spelling in (spellings[1], spellings[0] + ".", spellings[0]):
            if text.startswith(spelling):
                text = f"{kind} {text.removeprefix(spelling).strip().replace(' ', '')}"
                break
        else:
            continue
        break
    known = _BY_NUMBER | {statement.number: statement for statement in more}
    for candidate in (text, *(f"{kind} {text}" for kind in _KINDS)):
        if candidate in known:
            return known[candidate]
    near = difflib.get_close_matches(text, list(known), n=4, cutoff=0.5)
    allowed = "a statement's number" + (f"; near: {', '.join(near)}" if near else " such as '13.5' or '000 kl'")
    raise InvalidInput("number", number, allowed)
