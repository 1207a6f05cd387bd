"""Identity of data: the name that the ledger records, and marks that every other name of the same data shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TABLE: Final = "table"
"""Kind of a relation that stores its own rows. Every other kind shows rows that come from elsewhere."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How the ledger recognises data: a recorded name, and marks that any other name of the same data shares.

    >>> one = Identity("postgres db.example:5432/clinic visits", frozenset({"postgres 7/5/16385"}))
    >>> two = Identity("postgres 10.0.0.7:5432/clinic visits", frozenset({"postgres 7/5/16385"}))
    >>> one.is_same_as(two), one.is_same_as(Identity("file /data/visits.csv"))
    (True, False)
    """

    name: str
    marks: frozenset[str] = frozenset()

    def is_same_as(self, other: Identity) -> bool:
        """True if both identities have one name, or share a mark."""
        return self.name == other.name or not self.marks.isdisjoint(other.marks)
