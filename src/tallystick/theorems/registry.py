"""Find a statement of the lecture notes by its number: ``lookup("13.5")``, ``lookup("prop 13.5")``."""

from __future__ import annotations

import difflib

from tallystick.errors import InvalidInput
from tallystick.theorems.statement import Statement
from tallystick.theorems.statement import all_statements as all_statements

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


def lookup(number: str) -> Statement:
    """The statement with that number; a bare number means the theorem, else the proposition, and so on.

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
    known = {name: statement for statement in all_statements() for name in (statement.number, *statement.also)}
    for candidate in (" ".join(number.lower().split()), text, *(f"{kind} {text}" for kind in _KINDS)):
        if candidate in known:
            return known[candidate]
    near = difflib.get_close_matches(text, list(known), n=4, cutoff=0.5)
    allowed = "a statement's number" + (f"; near: {', '.join(near)}" if near else " such as '13.5' or '000 kl'")
    raise InvalidInput("number", number, allowed)
