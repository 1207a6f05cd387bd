"""Notes that end a registration: retired for good, or removed before its first charge.

Both are entries of the kind ``register`` with a note in one of these formats, so the record keeps its format. Programs
that do not know the formats verify the chain, and their command line does not find the dataset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import Retired
from tallystick.ledger.chain import canonical

if TYPE_CHECKING:
    from tallystick.ledger.store import Transaction

RETIRED: Final = "tallystick/retired/1"
REMOVED: Final = "tallystick/removed/1"

RETIRED_START: Final = canonical({"format": RETIRED})[:-1]
"""Beginning of the text of every note that retires a dataset."""


def retired_note(why: str) -> str:
    """Return the note that retires a dataset.

    >>> retired_note("replaced by visits-2027")
    '{"format":"tallystick/retired/1","why":"replaced by visits-2027"}'
    """
    return canonical({"format": RETIRED, "why": why})


def removed_note() -> str:
    """Return the note that removes a registration.

    >>> removed_note()
    '{"format":"tallystick/removed/1"}'
    """
    return canonical({"format": REMOVED})


def is_removed(note: str) -> bool:
    """True if a note removes a registration.

    >>> is_removed(removed_note()), is_removed(retired_note("replaced"))
    (True, False)
    """
    return note == removed_note()


def ends(note: str) -> bool:
    """True if a note retires or removes, and says nothing about a table.

    >>> ends(retired_note("replaced")), ends('{"format":"tallystick/dataset/1"}')
    (True, False)
    """
    return note.startswith(RETIRED_START) or is_removed(note)


def reason(notes: Iterable[str]) -> str | None:
    """Return the reason of the first note that retires a dataset; None if it is not retired.

    >>> reason(["", retired_note("replaced")])
    'replaced'
    """
    for note in notes:
        if note.startswith(RETIRED_START):
            return str(json.loads(note).get("why", ""))
    return None


def identifies(mark: str) -> bool:
    """True for a mark that cannot become another file's: numbers of inodes are used again, with another time.

    >>> identifies("file /data/visits.csv"), identifies("inode 66:12"), identifies("inode 66:12@99")
    (True, False, True)
    """
    return not mark.startswith("inode ") or "@" in mark


def retired_name(transaction: Transaction, facts: Iterable[str]) -> str | None:
    """Return the retired dataset that has one of these source digests or marks, or shares one with a dataset that has.

    No dataset of most ledgers is retired, so the registrations are read only if one is.
    """
    retired = {row[0] for row in transaction.rows("datasets_noted", len(RETIRED_START), RETIRED_START)}
    return name_among(retired, _facts_by_name(transaction), facts) if retired else None


def name_among(retired: Iterable[str], known: Mapping[str, set[str]], facts: Iterable[str]) -> str | None:
    """Return the first of these retired datasets that has one of the facts, or shares one with a dataset that has."""
    own = set(facts)
    for theirs in list(known.values()):
        if not own.isdisjoint(theirs):
            own = own | theirs
    found = [name for name in sorted(retired) if not own.isdisjoint(known.get(name, ()))]
    return found[0] if found else None


def _facts_by_name(transaction: Transaction) -> dict[str, set[str]]:
    """Return the source digests and the marks of every place that each dataset has had."""
    return facts_by_name(transaction.rows("dataset_entries"))


def facts_by_name(rows: Iterable[Sequence[Any]]) -> dict[str, set[str]]:
    """Return the source digests and the marks of each dataset from its name, source and entry of each registration."""
    known: dict[str, set[str]] = {}
    for name, source, body in rows:
        facts = known.setdefault(name, set())
        facts.update(mark for mark in _marks(body) if identifies(mark))
        if source is not None:
            facts.add(source)
    return known


def _marks(body: str) -> list[str]:
    entry: dict[str, Any] = json.loads(body)
    return list(entry.get("marks", []))


def require_not_retired(transaction: Transaction, facts: Iterable[str]) -> None:
    """Raise ``Retired`` if a dataset with one of these source digests or marks is retired."""
    name = retired_name(transaction, facts)
    if name is not None:
        raise retired(name)


def retired(name: str) -> Retired:
    """Return the refusal of a new query about a retired dataset."""
    return Retired(
        f"dataset {name!r} is retired: its owner closed it for new queries. Nothing was charged. "
        "Queries that were paid for still return their answers"
    )
