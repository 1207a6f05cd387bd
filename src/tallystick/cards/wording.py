"""The sentences of a card that do not depend on numbers: who is trusted, and what is not protected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.printing import given, up

NEIGHBOURS: Final = {
    "add_remove": "with and without all rows of one {unit}",
    "replace": "with all rows of one {unit} replaced by any others",
}

TRUST: Final = (
    "The holder of the data, and whoever runs tallystick on it, see the data as it is: this is the central model.",
    (
        "Whoever reads the table is not trusted at all: the promise holds against every reader, with any knowledge "
        "of everybody else, any amount of computing, and other tables paid from the same account."
    ),
    (
        "The ledger is the newest copy. It refuses one that is older than what it has shown before, and anybody who "
        "keeps a receipt can check that."
    ),
    "The operating system's randomness is secret and unpredictable.",
)

FIELDS: Final = {
    "window": "which period the data covers",
    "bounds_from": "where the clipping bounds came from",
    "limit_reason": "why the limit is what it is",
    "decided_by": "who decided on limit and unit",
    "contact": "whom to ask",
}
NOT_STATED: Final = "not stated"


def not_protected(facts: Mapping[str, Any], *, population: str, unit: str) -> tuple[str, ...]:
    """What the promise leaves open, in sentences; there is always something.

    >>> facts = {"keys": {"kind": "public", "count": 4}, "row_level": False, "adjacency": "add_remove"}
    >>> len(not_protected(facts, population="clinic", unit="patient"))
    6
    """
    told = []
    if facts["row_level"]:
        told.append(
            "People. Each row is protected by itself; a person with several rows is protected less, the more rows "
            "they have."
        )
    told += [
        (
            "What is true of many. If the table shows that two things go together, it says so about you too, whether "
            f"or not you are in the data. The promise is about what your being in it adds (one {unit})."
        ),
        _about_groups(facts["keys"]),
        (
            f"Whatever was or will be told elsewhere. The promise counts what the account {population} paid for; row "
            "counts, extracts and tables released outside it add to what is known."
        ),
        (
            "What is public by decision: that the table exists, its columns and types, caps, bounds and filters, the "
            "purpose, the price."
        ),
        (
            "Groups of people who share something. For k of them together the odds grow with the k-th power of those "
            "for one, or faster."
        ),
        (
            "Timing. When the work was done, how long it took and what the machine did meanwhile is not hidden from "
            "those who can watch the machine."
        ),
    ]
    if facts["adjacency"] == "replace":
        told.append(f"How many {unit} records there are: the promise is about replacing one, not about its presence.")
    return tuple(told)


def _about_groups(keys: Mapping[str, Any]) -> str:
    if keys["kind"] == "private":
        return (
            f"Which groups are large. A group appears when its noisy number of units reaches {keys['threshold']}; a "
            f"group of one unit alone appears with probability at most {up(keys['reached'], 2)} "
            f"(allowed: {given(keys['delta'])})."
        )
    if keys["kind"] == "total":
        return "Which rows were counted at all: the table is one total, and its filter is public."
    return (
        f"The list of groups. Its {keys['count']:,} keys were public before; every one appears, also those without any "
        "data."
    )
