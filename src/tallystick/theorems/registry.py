"""Find a statement of the lecture notes by its number: ``lookup("13.5")``, ``lookup("prop 13.5")``."""

from __future__ import annotations

import difflib
import re

from tallystick.errors import InvalidInput
from tallystick.theorems.statement import Statement
from tallystick.theorems.statement import all_statements as all_statements

__all__ = ["Statement", "all_statements", "lookup"]

_KINDS = {
    "theorem": ("thm", "theorem"),
    "proposition": ("prop", "proposition"),
    "corollary": ("cor", "corollary"),
    "lemma": ("lem", "lemma"),
    "remark": ("rem", "remark"),
    "example": ("ex", "example"),
    "definition": ("def", "definition"),
    "algorithm": ("alg", "algorithm"),
    "section": ("sec", "section", "§"),
    "question": ("qu", "question"),
    "figure": ("fig", "figure"),
}
# A bare number means a result if there is one, else what has a record of its own, else another name of a record.
_RESULTS = ("theorem", "proposition", "corollary", "lemma")


def lookup(number: str) -> Statement:
    """The statement with that number; a bare number means the theorem, else the proposition, and so on.

    >>> lookup("13.5").title
    'Berry-Esseen band of the central limit theorem'
    >>> lookup("Prop. 13.5").number
    'proposition 13.5'
    """
    if not isinstance(number, str) or not number.strip() or len(number) > 80:
        raise InvalidInput("number", number, "a statement's number such as '13.5' or 'proposition 13.5'")
    found = _meant(number)
    if found:
        return found[0][1]
    near = _near(_spelled(number)) or _titled(number)
    allowed = "a statement's number" + (f"; near: {', '.join(near)}" if near else " such as '13.5' or '000 kl'")
    raise InvalidInput("number", number, allowed)


def _near(name: str) -> list[str]:
    """Names that look like it: of a bare number those with a number like it, since its kind was not said."""
    if not name[:1].isdigit() or " " in name:
        return difflib.get_close_matches(name, list(_known()), n=4, cutoff=0.5)
    by_number: dict[str, list[str]] = {}
    for known in _known():
        by_number.setdefault(known.rpartition(" ")[2], []).append(known)
    return [known for one in difflib.get_close_matches(name, by_number, n=2, cutoff=0.5) for known in by_number[one]][
        :4
    ]


def _titled(words: str) -> list[str]:
    """Statements whose titles have these words."""
    wanted = set(words.lower().split())
    return [each.number for each in all_statements() if wanted <= set(re.findall(r"[\w-]+", each.title.lower()))][:4]


def namesakes(number: str) -> tuple[str, ...]:
    """Return what else a bare number may mean: sections, remarks and theorems are counted apart in the notes.

    >>> namesakes("3.8")
    ('remark 3.8',)
    >>> namesakes("remark 3.8")
    ()
    """
    return tuple(name for name, _ in _meant(number)[1:])


def _meant(number: str) -> list[tuple[str, Statement]]:
    """The names that a text may stand for, the likeliest first, with their statements."""
    known = _known()
    number = re.sub(r"(?<=\d),(?=\d)", ".", number.strip().rstrip(".:;,"))
    spelled = _spelled(number)
    # The short notes are counted from 0 and 1 again: where the large ones have no such number, theirs is meant.
    for name in (" ".join(number.lower().split()), spelled, *(f"{notes} {spelled}" for notes in ("003", "004", "000"))):
        if name in known:
            return [(name, known[name])]
    notes, _, rest = _spelled(number).rpartition(" ")
    names = [" ".join(filter(None, (notes, kind, rest))) for kind in _KINDS]
    found = [(name, known[name]) for name in names if name in known]

    def later(one: tuple[str, Statement]) -> int:
        return 0 if set(one[0].split()) & set(_RESULTS) else 1 if one[0] == one[1].number else 2

    return sorted(found, key=later)


def _known() -> dict[str, Statement]:
    return {name: statement for statement in all_statements() for name in (statement.number, *statement.also)}


def _spelled(number: str) -> str:
    """``Prop. 13.5``, ``prop13.5`` and ``proposition 13.5`` in one spelling; ``004 lemma 2.1`` keeps its notes."""
    parts = re.match(r"(?:(00[0-4])\s+)?([^\W\d]+|§)?\.?\s*(.*)", " ".join(number.lower().split()))
    assert parts is not None  # every part may be empty
    notes, word, rest = parts.groups()
    for kind, spellings in _KINDS.items():
        if word in spellings or (word or "").removesuffix("s") in spellings:
            word = kind
    return " ".join(filter(None, (None if notes == "002" else notes, word, rest)))
