"""A ledger with roles for tests: two populations with their own people, and entries as a holder of the key forges them.

The clinic has the owner ``root``, who is the operator, too, and the approvers ``bob`` and ``cat``; the school has the
owner ``sue`` and the approvers ``tia`` and ``tom``. So one approval is needed in each of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crash.stores import Clock
from crash.tampering import append_forged
from tallystick.accounting.losses import zcdp
from tallystick.ledger import Ledger, journal, opening
from tallystick.ledger.authority import Act
from tallystick.ledger.texts import committed

SCALE = 10**12
"""Units of rho = 1."""
CLINIC = {"owner": "root", "approver": "bob", "analyst": "ann", "auditor": "aud", "operator": "opal", "runner": "max"}
"""A person with each role of the clinic, and no other."""
NOBODY = "eve"


class Team:
    """An open ledger with roles, and its people by name."""

    def __init__(self, place: str, clock: Clock, *, config: Path | None = None, approvers: bool = True) -> None:
        self.place, self.clock = place, clock
        self.ledger = ledger = Ledger(place, clock=clock, config=config)
        for name in ("clinic", "school"):
            ledger.open(name, budget=zcdp(rho=1), unit="person")
        ledger.govern(why="a team uses it")
        ledger.team.begin(why="a team uses it")
        self.ids = {"root": ledger.actor}
        given = [("sue", "owner", "school"), ("ann", "analyst", "clinic"), ("amy", "analyst", "clinic")]
        given += [("aud", "auditor", "clinic"), ("opal", "operator", "clinic"), ("max", "runner", "clinic")]
        if approvers:
            given += [(name, "approver", "clinic") for name in ("bob", "cat")]
        for name, role, population in given:
            self.ids[name] = ledger.team.add(name)
            ledger.team.grant(self.ids[name], role, population, why="works here")
        for name in (NOBODY, "tia", "tom"):
            self.ids[name] = ledger.team.add(name)
        sue = self.by("sue").team
        sue.revoke(self.ids["root"], "owner", "school", why="sue owns it now")
        for name in ("tia", "tom"):
            sue.grant(self.ids[name], "approver", "school", why="decides with sue")
        ledger.team.allow(self.ids["ann"], "clinic", zcdp(rho=0.5), called="ann's", why="a study")
        self.clinic, self.school = ledger.open("clinic").id, ledger.open("school").id
        self.own = ledger.open("ann's").id

    def by(self, name: str, via: int | None = None) -> Ledger:
        """The ledger for a person, or for one of its tokens."""
        return self.ledger.acting_for(self.ids[name], via)

    def raise_to(self, name: str, rho: float, account: str = "clinic") -> int:
        """A request of a person for a higher limit."""
        return self.by(name).team.request(
            lambda book: book.open(account).raise_limit(zcdp(rho=rho), why="more"), why="more"
        )

    def request_of(self, name: str, operation: Any) -> int:
        """A request of a person for an operation."""
        return self.by(name).team.request(operation, why="asked")

    @property
    def authority(self) -> Any:
        """The roles and requests after the newest entry."""
        with self.ledger.store.read() as transaction:
            return self.ledger.believed(transaction).authority

    def grant_of(self, name: str, role: str, population: int | None) -> int:
        """The entry that gave a role that a person has."""
        [found] = [
            grant.seq
            for grant in self.authority.grants.values()
            if grant[1:] == (self.ids[name], role, population, None)
        ]
        return int(found)

    # -- entries as they could be forged

    def entry(
        self, who: str, kind: str, /, *, via: int | None = None, under: int | None = None, **fields: Any
    ) -> dict[str, Any]:
        """An entry by a person. Texts become commitments."""
        for field in ("why", "note", "name", "subject"):
            is_text = field in fields and kind != "open" and not _is_hash(fields[field])
            fields |= {field: committed(str(fields[field])).commitment} if is_text else {}
        if kind == "raise" and "by" not in fields:
            fields |= self._signed(fields)
        principal = self.ids.get(who, who)
        return {"kind": kind, "at": self.ledger.now(), "act": [principal, via, under], **fields}

    def _signed(self, fields: dict[str, Any]) -> dict[str, Any]:
        signer = self.ledger.signer()
        with self.ledger.store.read() as transaction:
            row = journal.account_row(transaction, fields["account"])
        row = row._replace(limit0=fields["was"][0], limit1=fields["was"][1])
        terms = opening.raise_terms(self.ledger.id, row, *fields["limit"], fields["why"])
        return {"by": signer.public, "signature": signer.sign(terms)}

    def raise_entry(
        self, name: str, rho: float, *, account: int | None = None, was: float = 1, **more: Any
    ) -> dict[str, Any]:
        """A raise from a limit to another."""
        limits = {"limit": [int(rho * SCALE), 0], "was": [int(was * SCALE), 0]}
        return self.entry(name, "raise", **{"account": account or self.clinic, "why": "more", **limits, **more})

    def effect_of(self, number: int, name: str, /, **changed: Any) -> dict[str, Any]:
        """The entry that carries out a request, as it was stored or with changes."""
        effect = {**self.authority.requests[number].effect, **changed}
        more = {"principal": self.ids[name]} if {"rows", "entries", "public"} & effect.keys() else {}
        kind = effect.pop("kind")
        return self.entry(name, kind, **{"under": number, **effect, **more})

    def decision(
        self, name: str, request: int, *, grant: int | None = None, decision: str = "approve", **more: Any
    ) -> dict[str, Any]:
        """A decision by the newest role of a person."""
        if grant is None:
            grant = max(g.seq for g in self.authority.grants.values() if g.principal == self.ids[name])
        return self.entry(name, "decision", request=request, decision=decision, grant=grant, why="ok", **more)

    def begin_entry(self, name: str, account: int, rho: float, **more: Any) -> dict[str, Any]:
        """A charge on one account."""
        body = '{"terms":[]}'
        texts = {name: committed(uuid.uuid4().hex).commitment for name in ("key", "request")}
        return self.entry(
            name, "begin", **{
                "principal": self.ids.get(name, name), "space": "named", **texts, "why": "asked", "software": {},
                "plan": body, "plan_hash": journal.digest(body), "source": "ab" * 32,
                "lines": [[account, int(rho * SCALE), 0]], "lease_until": self.ledger.now() + 1000, **more,
            },
        )  # fmt: skip

    def open_entry(
        self, name: str, owner: str, *, called: str = "new", rho: float = 0.1, **more: Any
    ) -> dict[str, Any]:
        """The beginning of an allowance."""
        fields = {
            "name": called, "parent": self.clinic, "partition": None, "account_kind": "analyst", "filter": "zcdp",
            "unit": "person", "adjacency": "add_remove", "milestones": "[]", "limit": [int(rho * SCALE), 0],
            "owner": self.ids[owner],
        }  # fmt: skip
        return self.entry(name, "open", **{**fields, **more})

    def refused_by_writer(self, entries: Iterable[dict[str, Any]]) -> Any:
        """Append entries as the writer does, in one turn; return what refused them, or None."""
        head = self.ledger.head()
        try:
            with self.ledger.write("attack") as transaction:
                for entry in entries:
                    fields = {name: value for name, value in entry.items() if name not in ("kind", "at", "act")}
                    transaction.turn.act = Act(*entry["act"])
                    journal.append(transaction, entry["kind"], entry["at"], under=entry["act"][2], **fields)
        except Exception as error:
            assert self.ledger.head() == head
            return error
        return None

    def forge(self, entries: Iterable[dict[str, Any]]) -> int:
        """Append entries with true hashes and seals, as somebody with the key does; return the number of the last."""
        with self.ledger.store.read() as transaction:
            newest = journal.stored_entry(transaction, journal.head(transaction).seq)
        governed = newest["governed"]
        signer = self.ledger.signer()
        return max(append_forged(self.place, {**entry, "governed": governed}, seal=signer) for entry in entries)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


@contextmanager
def team_at(place: str, clock: Clock, **options: Any) -> Iterator[Team]:
    """A team whose ledger is closed at the end."""
    team = Team(place, clock, **options)
    try:
        yield team
    finally:
        team.ledger.close()
