"""Find a statement of the lecture notes by its number: ``lookup("13.5")``, ``lookup("prop 13.5")``."""

from __future__ import annotations

import difflib

from tallystick.errors import InvalidInput
from tallystick.theorems.statement import Statement
from tallystick.theorems.statements_approximate import APPROXIMATE
from tallystick.theorems.statements_basic import BASIC
from tallystick.theorems.statements_notes import NOTES
from tallystick.theorems.statements_pairs import PAIRS
from tallystick.theorems.statements_tradeoff import TRADEOFF

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
# Statements that are told under another number: restatements, definitions of what is computed, remarks on a row.
ALIASES = {
    "definition 9.1": "theorem 9.1",
    "remark 9.2": "lemma 6",
    "remark 9.3": "theorem 9.3",
    "remark 10.1": "theorem 3.3",
    "definition 10.1": "algorithm 5",
    "remark 10.2": "theorem 10.1",
    "remark 10.3": "theorem 10.2",
    "algorithm 6": "proposition 11.1",
    "remark 11.2": "proposition 11.1",
    "definition 11.1": "theorem 11.2",
    "remark 11.4": "theorem 11.2",
    "remark 11.5": "theorem 13.7",
    "definition 12.1": "remark 12.1",
    "definition 12.2": "remark 12.1",
    "remark 12.2": "remark 12.1",
    "remark 12.3": "proposition 3.1",
    "remark 3.3": "lemma 1",
    "remark 3.8": "proposition 3.1",
    "remark 4.4": "example 4.2",
    "example 13.1": "definition 13.1",
    "example 13.2": "definition 13.1",
    "definition 13.2": "definition 13.1",
    "remark 13.2": "proposition 13.2",
    "definition 13.3": "theorem 13.1",
    "remark 13.4": "example 13.3",
    "lemma 8": "proposition 13.3",
    "remark 13.6": "theorem 13.2",
    "proposition 13.4": "proposition 13.5",
    "lemma 9": "proposition 13.5",
    "example 13.6": "proposition 13.5",
    "definition 13.4": "theorem 13.3",
    "remark 13.7": "theorem 13.3",
    "definition 13.5": "theorem 13.4",
    "lemma 12": "theorem 13.4",
    "remark 13.8": "theorem 13.4",
    "remark 13.9": "theorem 13.6",
    "definition 13.6": "theorem 13.7",
    "lemma 13": "definition 14.1",
    "remark 14.1": "corollary 14.1",
    "remark 14.2": "lemma 15",
    "remark 14.3": "proposition 14.1",
    "remark 14.5": "proposition 14.2",
    "definition 14.2": "theorem 14.1",
    "theorem 14.2": "theorem 14.1",
    "definition 14.3": "theorem 14.3",
    "remark 14.6": "theorem 14.3",
    "000 rdp": "001 composition",
    "000 conversion": "001 conversion",
    "000 post-processing": "proposition 3.1",
    "001 kl": "remark 12.1",
    "004 1.1": "001 conversion",
    "004 1.6": "001 gaussian",
    "004 2.1": "001 composition",
}
_ALL = (*BASIC, *APPROXIMATE, *TRADEOFF, *PAIRS, *NOTES)
_BY_NUMBER = {statement.number: statement for statement in _ALL}
_BY_NUMBER |= {alias: _BY_NUMBER[number] for alias, number in ALIASES.items()}


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
