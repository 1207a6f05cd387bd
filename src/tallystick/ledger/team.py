"""Roles in use: begin them, give and take them, make tokens and allowances, request, approve and reject.

Each function appends the entry; ``authority.py`` decides who may. A request is made by running the operation that it
asks for in a turn that is undone. So all checks of the operation hold for its request, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.digits import people
from tallystick.errors import InvalidInput, LedgerIntegrity, NotAuthorised, Refused, Remedy, Unavailable
from tallystick.ledger import erasure, journal, opening, registry
from tallystick.ledger.acting import (
    Proposed,
    name_at,
    new_principal,
    new_token,
    principal_of,
    require_own_name,
    token_digest,
)
from tallystick.ledger.actions import ANALYST, APPROVER, CLASSES, OWNER, ROLES
from tallystick.ledger.authority import (
    APPROVE,
    DAY,
    DOORS,
    EFFECTS,
    LONGEST_TOKEN,
    MACHINE,
    OPEN,
    PERSON,
    REJECT,
    Authority,
    Proposal,
    State,
    Token,
    effect_of,
    population_of,
    request_action,
    seen,
    stale,
)
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import check_reason, checked
from tallystick.ledger.filters import Amount, Filter
from tallystick.ledger.journal import text_shown
from tallystick.ledger.proposals import in_words
from tallystick.ledger.texts import Text, committed, opens
from tallystick.ledger.users import subject_named

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.replay import Book
    from tallystick.ledger.store import Transaction

TOKEN_DAYS: Final = 90


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidInput("role", role, f"one of: {', '.join(ROLES)}")


def _several(argument: str, values: Any) -> Sequence[str]:
    """A list of texts; one text alone is refused, which would be taken for its letters."""
    if not isinstance(values, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in values):
        raise InvalidInput(argument, type(values).__name__, "a list of texts")
    return list(values)


def _is_id(ledger: Ledger, name: str) -> bool:
    return name in ledger.writer.watch.book.authority.principals


def principal_named(ledger: Ledger, transaction: Transaction, name: str) -> str:
    """The id of a principal: the id itself, or that of a person or machine with this name."""
    checked("name", name)
    if _is_id(ledger, name):
        return name
    _book(ledger)
    number = principal_of(transaction, subject_named(name, ledger.subject))
    if number is None:
        raise InvalidInput("name", name, "a person or machine that this ledger knows")
    return number


def _principal_added(ledger: Ledger, transaction: Transaction, name: str) -> str:
    """The id of a principal, which is added in this turn if the ledger does not know it, or if it has ended."""
    checked("name", name)
    if _is_id(ledger, name):
        return name
    _book(ledger)
    subject = subject_named(name, ledger.subject)
    known = principal_of(transaction, subject)
    if known is not None and ledger.writer.watch.book.authority.is_active(known):
        return known
    number = new_principal()  # also for one that has ended: who comes back begins anew
    is_machine = subject.startswith("machine ")
    journal.append(
        transaction, "principal_add", ledger.now(),
        principal=number, person=MACHINE if is_machine else PERSON, owner=ledger.actor if is_machine else None,
        subject=committed(subject),
    )  # fmt: skip
    return number


def _book(ledger: Ledger) -> Book:
    """The state that the chain gives; refused in a ledger without roles."""
    book = ledger.writer.watch.book
    if book.authority.since is None:
        raise Refused("this ledger has no roles. Begin them first", code="no_roles")
    return book


def _population(transaction: Transaction, name: str | None) -> int | None:
    """The number of the population with this name; None for the whole ledger."""
    if name is None:
        return None
    row = transaction.row("account_named", checked("population", name))
    if row is None:
        names = [journal.AccountRow(*each).name for each in transaction.rows("accounts")]
        raise opening.unknown_account(name, names)
    account = journal.AccountRow(*row)
    if account.parent_id is not None:
        raise InvalidInput("population", name, "a population: an account that is not a block of another one")
    return account.id


def _require_approvers(
    authority: Authority, population: int | None, name: str, needed: Mapping[str, int]
) -> None:  # fmt: skip
    """Refuse numbers of approvals that need more approvers than there are.

    A new approver makes an open request for such a quorum void, so it could never be carried out.
    """
    approvers = len(authority.holders(APPROVER, population))
    largest = max(needed.values(), default=0)
    if largest and approvers <= largest:
        there = people(approvers, APPROVER)
        problem = f"{people(largest, 'approval')} on {name} need {people(largest + 1, APPROVER)}, and it has {there}"
        raise InvalidInput("needed", largest, "the role of approver to another person first", problem=problem)


class Member(NamedTuple):
    """A principal with its name and its roles: pairs of a role and a population, or None for the whole ledger."""

    id: str
    name: str
    kind: str
    roles: tuple[tuple[str, str | None], ...]
    ended: bool
    entry: int = 0
    """The ledger entry whose text is the name."""


class Raise(NamedTuple):
    """A raise of a limit that was requested: the entry, its time, both limits, and ids of who asked and approved."""

    seq: int
    at: int
    was: tuple[int, int]
    limit: tuple[int, int]
    asked_by: str
    approved_by: tuple[str, ...]


def _raise_shown(transaction: Transaction, seq: int, request: Proposal, approvers: tuple[str, ...]) -> Raise:
    first, second = request.effect["was"]
    limit0, limit1 = request.effect["limit"]
    at = int(journal.stored_entry(transaction, seq)["at"])
    return Raise(seq, at, (first, second), (limit0, limit1), request.principal, approvers)


def names_of(transaction: Transaction, people: Any) -> dict[str, str]:
    """The names of principals by id. A name that was erased or altered is shown so."""
    return {person.id: name_at(transaction, person.seq) for person in people}


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made. Its text is shown once, and the ledger has only its SHA-256."""

    seq: int
    text: str

    def __repr__(self) -> str:
        return f"<NewToken {self.seq}>"  # the text is a secret


class TokenShown(NamedTuple):
    """A token as people read it. It has neither the secret nor its SHA-256."""

    number: int
    name: str
    by: str
    """Name of the principal who uses it."""
    roles: tuple[str, ...]
    population: str | None
    doors: tuple[str, ...]
    until: int
    ceiling: str | None
    state: str
    """ACTIVE, ENDED, or EXPIRED if its time is over."""


def _token_shown(
    transaction: Transaction, book: Book, token: Token, names: Mapping[str, str], at: int
) -> TokenShown:  # fmt: skip
    account = None if token.population is None else book.accounts[token.population]
    ceiling = None
    if account is not None and token.ceiling is not None:
        ceiling = str(Amount(Filter.named(account.filter), token.ceiling))
    state = "ENDED" if token.ended is not None else "ACTIVE" if at <= token.until else "EXPIRED"
    return TokenShown(
        token.seq, text_shown(transaction, token.seq, "name"), names[token.principal], token.roles,
        None if account is None else account.name, token.doors, token.until, ceiling, state,
    )  # fmt: skip


def _ceiling(transaction: Transaction, population: int | None, ceiling: PrivacyLoss | None) -> int | None:
    """The ceiling of a token, in units of the currency of its population."""
    if ceiling is None:
        return None
    if population is None:
        raise InvalidInput("ceiling", str(ceiling), "a token for one population, which has one currency")
    budget = Budget.of(ceiling)
    row = journal.account_row(transaction, population)
    if budget.filter.name != row.filter:
        raise InvalidInput("ceiling", str(ceiling), f"an amount in the currency of {row.name!r}")
    return budget.limit0


def _allowance(above: journal.AccountRow, limit: Budget, principal: str, called: str | None) -> journal.AccountRow:
    """The account of an allowance below another account."""
    if above.kind == journal.ALLOWANCE:
        raise InvalidInput("account", above.name, "a population or a block, not an allowance")
    if above.filter != limit.filter.name:
        raise InvalidInput("budget", str(limit), f"an amount in the currency of {above.name!r}")
    name = checked("called", called or f"{above.name}-{principal[:8]}")
    return above._replace(
        id=0, name=name, parent_id=above.id, partition_name=None, kind=journal.ALLOWANCE, milestones="[]",
        owner=principal, limit0=limit.limit0, limit1=limit.limit1, own0=0, own1=0, used0=0, used1=0, raises=0,
        state="open",
    )  # fmt: skip


# -- requests and decisions


class Outcome(NamedTuple):
    """The state of a request after a decision, its approvals, and how many it needs."""

    request: int
    state: str
    approvals: int
    needed: int
    effect: str = ""
    """The kind of entry that the request asks for."""


def _state(transaction: Transaction) -> State:
    judge = transaction.turn.judge
    if judge is None:
        raise Refused("this ledger has no roles, so nothing needs a request", code="no_roles")
    state: State = judge.state
    return state


def _open(state: State, number: int, at: int) -> Proposal:
    """A request that is open at a time."""
    request = state.authority.requests.get(number) if type(number) is int else None
    if request is None:
        waiting = [str(each.seq) for each in state.authority.requests.values() if each.state_at(at) == OPEN]
        allowed = f"one of the open requests: {', '.join(waiting)}" if waiting else ""
        raise InvalidInput("request", number, allowed, problem=f"there is no request {number}")
    if request.state_at(at) != OPEN:
        raise Refused(f"request {number} has ended: {request.state_at(at).lower()}. Nothing was changed")
    return request


def _append_decision(
    ledger: Ledger, transaction: Transaction, request: Proposal, decision: str, why: str
) -> None:  # fmt: skip
    authority = _state(transaction).authority
    found = authority.grant_to_decide(ledger.actor, request)
    if request.principal == ledger.actor:
        raise NotAuthorised("You cannot decide on your own request. Nothing was changed", code="own_request")
    if found is None:
        raise NotAuthorised(
            "Only approvers whose role is older than the request decide on it. Nothing was changed",
            code="not_authorised",
        )
    journal.append(
        transaction, "decision", ledger.now(), request=request.seq, decision=decision, grant=found.seq,
        why=committed(why),
    )  # fmt: skip


def _carry_out(ledger: Ledger, transaction: Transaction, request: Proposal) -> None:
    """Append the entry that a request asks for, and change the rows that follow from it."""
    effect = dict(request.effect)
    kind = effect.pop("kind")
    for name in ("why", "note"):
        if name in effect:
            effect[name] = _text(transaction, request.seq, name, effect[name])
    _CHECKS.get(kind, _no_check)(ledger, transaction, effect)
    more = _OF_MOMENT.get(kind, _nothing)(ledger, transaction, effect)
    position = journal.append(transaction, kind, ledger.now(), under=request.seq, **effect, **more)
    _ROWS.get(kind, _no_rows)(transaction, position.seq, effect)


def _text(transaction: Transaction, entry: int, name: str, commitment: str) -> Text:
    """A text of a request, with its salt: its effect has the same commitment."""
    row = transaction.row("text_at", entry, name)
    if row is None:
        raise Refused(f"the texts of request {entry} were erased. Withdraw it, and make another one")
    text = Text(commitment, str(row[0]), str(row[1]))
    if not opens(*text):
        raise LedgerIntegrity(f"the text {name} of entry {entry} was altered", remedies=[Remedy("verify_ledger")])
    return text


def _with_principal(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> dict[str, Any]:
    """Who carries it out."""
    return {"principal": ledger.actor}


def _raise_signature(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> dict[str, Any]:
    row = journal.account_row(transaction, effect["account"])
    signer = ledger.signer()
    limit0, limit1 = effect["limit"]
    terms = opening.raise_terms(ledger.id, row, limit0, limit1, effect["why"].commitment)
    return {"by": signer.public, "signature": signer.sign(terms)}


def _nothing(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> dict[str, Any]:
    """The request fixes all fields."""
    return {}


_OF_MOMENT: Final[dict[str, Callable[[Ledger, Transaction, Mapping[str, Any]], dict[str, Any]]]] = {
    "raise": _raise_signature,
    **dict.fromkeys(("clear", "erase", "key_add", "key_retire"), _with_principal),
}
"""By kind of entry, how its fields of the moment are made: those of ``FIELDS_OF_MOMENT``."""


def _no_check(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> None:
    """Compare nothing: the state that the requester saw says enough."""


def _check_register(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> None:
    registry.check_requested(transaction, effect, journal.path_of(transaction, effect["account"])[-1][0])


def _check_erasure(ledger: Ledger, transaction: Transaction, effect: Mapping[str, Any]) -> None:
    erasure.check_requested(transaction, effect)


_CHECKS: Final[dict[str, Callable[[Ledger, Transaction, Mapping[str, Any]], None]]] = {
    "open": opening.check_requested,
    "register": _check_register,
    "erase": _check_erasure,
}
"""Checks of an operation that depend on more than the state which its requester saw."""


def _no_rows(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    """The entry is only in the chain."""


def _rows_of_raise(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    transaction.run("raise_limit", *effect["limit"], effect["account"], *effect["was"])


def _rows_of_close(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    transaction.run("close_account", effect["account"])


def _rows_of_open(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    names = ("name", "parent", None, "account_kind", "filter", "unit", "adjacency", "milestones", "owner")
    partition = effect["partition"][0] if effect["partition"] else None
    values = [partition if name is None else effect.get(name) for name in names]
    transaction.run("account_insert", seq, *values, *effect["limit"])


def _rows_of_register(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    population = journal.path_of(transaction, effect["account"])[-1][0]
    note = effect["note"].commitment
    row = (effect["dataset"], seq, effect["account"], population, effect["source"], effect["least"], note)
    transaction.run("dataset_insert", *row)


def _rows_of_clear(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    for charge, population in effect["rows"]:
        transaction.run("quarantine_clear", seq, charge, population)


def _rows_of_erasure(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    for number in effect["entries"]:
        erasure.remove_texts(transaction, number)
    for number in effect["answers_of"]:
        transaction.run("answer_delete", number)


def _rows_of_key(transaction: Transaction, seq: int, effect: Mapping[str, Any]) -> None:
    transaction.turn.governed = seq


_ROWS: Final[dict[str, Callable[[Transaction, int, Mapping[str, Any]], None]]] = {
    "raise": _rows_of_raise,
    "close": _rows_of_close,
    "open": _rows_of_open,
    "register": _rows_of_register,
    "clear": _rows_of_clear,
    "erase": _rows_of_erasure,
    "key_add": _rows_of_key,
    "key_retire": _rows_of_key,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as people read it."""

    number: int
    at: int
    state: str
    by: str
    """Name of the requester."""
    action: str
    population: str | None
    why: str
    effect: Mapping[str, Any]
    was: tuple[int, ...]
    approvals: int
    needed: int
    decisions: tuple[tuple[str, str, str], ...]
    """Name, approve or reject, and the reason of each decision."""
    change: str = ""
    """What would change, in words."""
    note: str = ""
    """What a registration would say about its dataset."""
    deciders: tuple[str, ...] = ()
    """Names of the principals who may decide, and have not."""


def _asked(transaction: Transaction, book: Book, request: Proposal, names: Mapping[str, str], at: int) -> Asked:
    authority = book.authority
    row = request_action(request.effect, authority)
    decisions = tuple(
        (names[each.principal], APPROVE if each.is_approval else REJECT, text_shown(transaction, each.seq, "why"))
        for each in request.decisions
    )
    state = request.state_at(at)
    if state == OPEN and stale(request, book):
        state = "VOID"
    approvals = len(authority.approvals(request))
    note = text_shown(transaction, request.seq, "note")
    return Asked(
        number=request.seq, at=request.at, state=state, by=names[request.principal], action=row.words,
        population=None if request.population is None else book.accounts[request.population].name,
        why=text_shown(transaction, request.seq, "why"), effect=request.effect, was=request.was, approvals=approvals,
        needed=approvals + authority.missing(request), decisions=decisions,
        change=in_words(request.effect, request.was, book, names, note), note=note,
        deciders=tuple(names[each] for each in _waited_for(authority, request)),
    )  # fmt: skip


def _waited_for(authority: Authority, request: Proposal) -> list[str]:
    """The principals who may decide on a request and have not, in the order in which they came."""
    done = {request.principal, *(decision.principal for decision in request.decisions)}
    return [each for each in authority.principals if each not in done and authority.grant_to_decide(each, request)]


class Team:
    """Who may do what in a ledger with roles: ``ledger.team``.

    >>> import tempfile, tallystick as ts
    >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db", config=folder) as ledger:
    ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    ...     _ = ledger.govern(why="a team uses it")
    ...     _ = ledger.team.begin(why="a team uses it")
    ...     _ = ledger.team.grant("ann", "analyst", "clinic", why="she works here")
    ...     [member.roles for member in ledger.team.members() if member.name == "ann"]
    [(('analyst', 'clinic'),)]
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def begin(self, *, why: str, dry_run: bool = False) -> int:
        """Begin roles: from then on every action needs one. The caller becomes the operator, and the first owner."""
        ledger = self.ledger
        check_reason(why)
        require_own_name(ledger)
        with ledger.write("roles", dry_run=dry_run) as transaction:
            if transaction.turn.governed is None:
                raise Refused("roles need a governed ledger. Govern it first", code="not_governed")
            if ledger.has_roles:
                raise Refused("this ledger has roles already. Nothing was changed", code="has_roles")
            position = journal.append(transaction, "roles", ledger.now(), why=committed(why))
            for account in (journal.AccountRow(*row) for row in transaction.rows("accounts")):
                if account.parent_id is None:
                    journal.append(
                        transaction, "role_grant", ledger.now(), principal=transaction.turn.act.principal, role=OWNER,
                        population=account.id, why=committed(why),
                    )  # fmt: skip
        return position.seq

    def add(self, name: str, *, dry_run: bool = False) -> str:
        """Name a person, or with ``machine:NAME`` a machine for which the caller answers; return the id.

        A principal that the ledger knows is returned as it is.
        """
        with self.ledger.write("principal", dry_run=dry_run) as transaction:
            return _principal_added(self.ledger, transaction, name)

    def end(self, name: str, *, why: str, dry_run: bool = False) -> int:
        """End a principal with all roles and tokens; return the number of the entry."""
        ledger = self.ledger
        check_reason(why)
        with ledger.write("principal", dry_run=dry_run) as transaction:
            principal = principal_named(ledger, transaction, name)
            return journal.append(
                transaction, "principal_end", ledger.now(), principal=principal, why=committed(why)
            ).seq  # fmt: skip

    def grant(self, name: str, role: str, population: str | None, *, why: str, dry_run: bool = False) -> int:
        """Give a role; return the number of the entry. ``name`` is a person or machine, or the id of a principal."""
        ledger = self.ledger
        check_reason(why)
        _check_role(role)
        found = principal_named if ledger.captured is not None else _principal_added
        with ledger.write("grant", dry_run=dry_run) as transaction:
            principal = found(ledger, transaction, name)
            return journal.append(
                transaction, "role_grant", ledger.now(),
                principal=principal, role=role, population=_population(transaction, population), why=committed(why),
            ).seq  # fmt: skip

    def lacks_user(self, name: str) -> bool:
        """True if a name is of no user of this machine, or of no role of the database.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     ledger.team.lacks_user("not a user"), ledger.team.lacks_user("machine:nightly")
        (True, False)
        """
        ledger = self.ledger
        return not _is_id(ledger, name) and ledger.store.lacks(subject_named(name, ledger.subject))

    def revoke(self, name: str, role: str, population: str | None, *, why: str, dry_run: bool = False) -> int:
        """Take a role; return the number of the entry. Tokens with the role lose it at once."""
        ledger = self.ledger
        check_reason(why)
        _check_role(role)
        with ledger.write("revoke", dry_run=dry_run) as transaction:
            principal = principal_named(ledger, transaction, name)
            wanted = (principal, role, _population(transaction, population), None)
            found = [each.seq for each in _book(ledger).authority.grants.values() if each[1:] == wanted]
            if not found:
                raise InvalidInput("role", role, f"a role that {name} has")
            return journal.append(transaction, "role_revoke", ledger.now(), grant=found[0], why=committed(why)).seq

    def set_quorum(
        self, population: str, needed: Mapping[str, int], *, why: str, dry_run: bool = False
    ) -> int:  # fmt: skip
        """Set how many must approve, by class of actions; return the number of the entry."""
        ledger = self.ledger
        check_reason(why)
        if not isinstance(needed, Mapping):
            raise InvalidInput("needed", type(needed).__name__, "numbers of approvals by class, such as {'money': 1}")
        for name, number in needed.items():
            if name not in CLASSES:
                raise InvalidInput("needed", name, f"one of: {', '.join(CLASSES)}")
            if type(number) is not int or number < 0:
                raise InvalidInput("needed", number, "a whole number of approvals")
        with ledger.write("quorum", dry_run=dry_run) as transaction:
            root = _population(transaction, population)
            _require_approvers(_book(ledger).authority, root, population, needed)
            return journal.append(
                transaction, "quorum", ledger.now(), population=root, needed=dict(needed), why=committed(why)
            ).seq  # fmt: skip

    def break_glass(self, name: str, population: str, *, why: str, dry_run: bool = False) -> int:
        """Make a person approver without approvals; return the number of the entry. Every later card shows it."""
        ledger = self.ledger
        check_reason(why)
        with ledger.write("break glass", dry_run=dry_run) as transaction:
            return journal.append(
                transaction, "break_glass", ledger.now(), principal=_principal_added(ledger, transaction, name),
                population=_population(transaction, population), why=committed(why),
            ).seq  # fmt: skip

    def roles(self, population: str) -> set[str]:
        """The roles of who acts here, on a population."""
        ledger = self.ledger
        number = ledger.account_row(checked("population", population)).id
        return ledger.writer.watch.book.authority.roles_of(ledger.actor, number)

    def approved_raises(self, account: int) -> list[Raise]:
        """The raises of a limit that were requested and approved, oldest first."""
        ledger = self.ledger
        with ledger.store.read() as transaction:
            book = ledger.believed(transaction)
            if book is None:
                return []
            requests = book.authority.requests
            return [
                _raise_shown(transaction, seq, requests[number], approvers)
                for seq, (number, approvers) in sorted(book.authority.raises.items())
                if requests[number].effect["account"] == account
            ]

    def glass_broken(self, population: int) -> list[tuple[int, int]]:
        """The entries that made an approver of a population without approvals, each with its time."""
        ledger = self.ledger
        with ledger.store.read() as transaction:
            book = ledger.believed(transaction)
            entries = [] if book is None else book.authority.broken_glass.get(population, [])
            return [(number, int(journal.stored_entry(transaction, number)["at"])) for number in entries]

    def members(self) -> list[Member]:
        """The principals of a ledger, in the order in which they came."""
        ledger = self.ledger
        with ledger.store.read() as transaction:
            book = ledger.believed(transaction)
            authority = book.authority if book is not None else Authority()
            names = names_of(transaction, authority.principals.values())
            accounts = {number: row.name for number, row in book.accounts.items()} if book is not None else {}
        found = []
        for person in authority.principals.values():
            roles = tuple(
                (each.role, None if each.population is None else accounts[each.population])
                for each in authority.grants.values()
                if each.principal == person.id and each.revoked is None
            )
            has_ended = not authority.is_active(person.id)
            found.append(Member(person.id, names[person.id], person.kind, roles, has_ended, person.seq))
        return found

    def make_token(
        self,
        *,
        roles: Sequence[str] = (ANALYST,),
        name: str = "",
        population: str | None = None,
        doors: Sequence[str] = ("http",),
        days: float = TOKEN_DAYS,
        ceiling: PrivacyLoss | None = None,
        principal: str | None = None,
        dry_run: bool = False,
    ) -> NewToken:
        """Make a token for the caller or a machine of the caller. ``ceiling`` is the most that it pays on one day."""
        ledger = self.ledger
        for role in _several("roles", roles):
            _check_role(role)
        for door in _several("doors", doors):
            if door not in DOORS:
                raise InvalidInput("doors", door, f"one of: {', '.join(DOORS)}")
        if not isinstance(days, int | float) or not 0 < days <= LONGEST_TOKEN / DAY:
            raise InvalidInput("days", days, f"a number of days up to {LONGEST_TOKEN // DAY}")
        text = new_token()
        with ledger.write("token", dry_run=dry_run) as transaction:
            _book(ledger)
            whose = ledger.actor if principal is None else principal_named(ledger, transaction, principal)
            number = _population(transaction, population)
            position = journal.append(
                transaction, "token_add", ledger.now(), principal=whose, roles=sorted(set(roles), key=ROLES.index),
                population=number, doors=sorted(set(doors)), until=ledger.now() + int(days * DAY),
                ceiling=_ceiling(transaction, number, ceiling), hash=token_digest(text),
                name=committed(checked("name", name, empty=True)),
            )  # fmt: skip
        return NewToken(position.seq, text)

    def tokens(self) -> list[TokenShown]:
        """The tokens of a ledger, oldest first. None of them is shown itself."""
        ledger = self.ledger
        with ledger.store.read() as transaction:
            book = ledger.believed(transaction)
            if book is None:
                return []
            names = names_of(transaction, book.authority.principals.values())
            return [
                _token_shown(transaction, book, token, names, ledger.now()) for token in book.authority.tokens.values()
            ]

    def end_token(self, number: int, *, dry_run: bool = False) -> int:
        """End a token; return the number of the entry."""
        ledger = self.ledger
        if type(number) is not int:
            raise InvalidInput("number", number, "the number of a token")
        with ledger.write("token", dry_run=dry_run) as transaction:
            _book(ledger)
            return journal.append(transaction, "token_end", ledger.now(), token=number).seq

    def allow(
        self,
        name: str,
        account: str,
        budget: PrivacyLoss,
        *,
        why: str,
        called: str | None = None,
        dry_run: bool = False,
    ) -> str:
        """Give a person an allowance: an account below a population, or a block, from which only this person pays.

        What it pays is paid by the account above as well, so both limits hold. Return the name of the new account.
        """
        ledger = self.ledger
        check_reason(why)
        limit = Budget.of(budget)
        opening.require_small_delta(limit)
        with ledger.write("allowance", dry_run=dry_run) as transaction:
            _book(ledger)
            principal = principal_named(ledger, transaction, name)
            above = transaction.row("account_named", checked("account", account))
            if above is None:
                names = [journal.AccountRow(*each).name for each in transaction.rows("accounts")]
                raise opening.unknown_account(account, names)
            wanted = _allowance(journal.AccountRow(*above), limit, principal, called)
            if transaction.row("account_named", wanted.name) is not None:
                raise InvalidInput("called", wanted.name, "a name that no account has. An allowance is raised instead")
            row = opening.insert_account(ledger, transaction, wanted)
        return row.name

    def request(self, operation: Callable[[Ledger], Any], *, why: str, dry_run: bool = False) -> int:
        """Append a request for what an operation would do; return its number. Nothing else is changed.

        The operation runs with a copy of the ledger whose writes are undone.
        """
        ledger = self.ledger
        check_reason(why)
        if not callable(operation):
            raise InvalidInput("operation", type(operation).__name__, "a function of a ledger, which makes the change")
        ledger.recover()
        trial = ledger.proposing()
        with contextlib.suppress(Proposed):
            operation(trial)
        found = trial.captured or []
        if len(found) != 1 or found[0].entry["kind"] not in EFFECTS:
            raise InvalidInput("operation", len(found), "one change that can be requested")
        entry, texts, was = found[0]
        effect = effect_of(entry)
        with ledger.write("request", dry_run=dry_run) as transaction:
            state = _state(transaction)
            if seen(effect, state) != was:
                raise Unavailable("another change came before this request. Nothing was changed. Make it again")
            return journal.append(
                transaction, "request", ledger.now(), effect=effect, population=population_of(effect, state),
                was=list(seen(effect, state)), why=texts.get("why") or committed(why),
                note=texts.get("note") or committed(""),
            ).seq  # fmt: skip

    def approve(self, number: int, *, why: str, dry_run: bool = False) -> Outcome:
        """Approve a request. The last approval that it needs carries it out, exactly as it is stored.

        If the state that the request saw has changed, the request becomes void instead.
        """
        ledger = self.ledger
        check_reason(why)
        with ledger.write("approve", dry_run=dry_run) as transaction:
            state = _state(transaction)
            request = _open(state, number, ledger.now())
            if stale(request, state):
                journal.append(transaction, "void", ledger.now(), request=number)
                return Outcome(number, "VOID", 0, 0)
            _append_decision(ledger, transaction, request, APPROVE, why)
            decided = state.authority.requests[number]
            approvals, missing = len(state.authority.approvals(decided)), state.authority.missing(decided)
            if not missing:
                _carry_out(ledger, transaction, decided)
            needed, kind = approvals + missing, request.effect["kind"]
            return Outcome(number, OPEN if missing else "EXECUTED", approvals, needed, kind)

    def reject(self, number: int, *, why: str, dry_run: bool = False) -> Outcome:
        """Reject a request: it can no longer be approved."""
        ledger = self.ledger
        check_reason(why)
        with ledger.write("reject", dry_run=dry_run) as transaction:
            request = _open(_state(transaction), number, ledger.now())
            _append_decision(ledger, transaction, request, REJECT, why)
        return Outcome(number, "REJECTED", 0, 0)

    def withdraw(self, number: int, *, dry_run: bool = False) -> Outcome:
        """Withdraw an own request."""
        ledger = self.ledger
        with ledger.write("withdraw", dry_run=dry_run) as transaction:
            _open(_state(transaction), number, 0)
            journal.append(transaction, "withdraw", ledger.now(), request=number)
        return Outcome(number, "WITHDRAWN", 0, 0)

    def requests(self) -> list[Asked]:
        """The requests of a ledger, oldest first."""
        ledger = self.ledger
        with ledger.store.read() as transaction:
            book = ledger.believed(transaction)
            if book is None or book.authority.since is None:
                return []
            names = names_of(transaction, book.authority.principals.values())
            return [_asked(transaction, book, each, names, ledger.now()) for each in book.authority.requests.values()]
