"""Who may do what: principals, roles, tokens, allowances, requests and decisions, as the chain says.

This module holds the state that follows from the entries, and the rules that every entry keeps. A writer asks
``judge`` before it appends an entry, and a reader that replays the chain asks it again. So a forged approval is found
by everybody who replays the chain, from an export without texts, too.

Every entry since ``roles`` has the field ``act``: the principal who acts, the token that was used or nothing, and the
request that is carried out or nothing. It needs no field for the right itself: the rules find it.

An action that needs approvals begins with a ``request``. It holds the entry that it asks for (``effect``) and the state
that the requester saw (``was``). The last approval carries it out in the same transaction, exactly as it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from tallystick.digits import people
from tallystick.ledger.actions import (
    ACTIONS,
    ALONE,
    ANALYST,
    APPROVER,
    ASK,
    CLASSES,
    LEDGER_WIDE,
    OPERATOR,
    OWN,
    OWNER,
    ROLES,
    RUNNER,
    YES,
    Action,
    default_needed,
)

PERSON: Final = "person"
MACHINE: Final = "machine"
APPROVE: Final = "approve"
REJECT: Final = "reject"
OPEN: Final = "OPEN"
EXECUTED: Final = "EXECUTED"
VOID: Final = "VOID"
REJECTED: Final = "REJECTED"
WITHDRAWN: Final = "WITHDRAWN"
LAPSED: Final = "LAPSED"

RESERVED: Final = "RESERVED"
EXECUTING: Final = "EXECUTING"
STOPPED: Final = "stopped"
"""The reason of a burn by an operator who stops a service."""
FINISHING: Final = frozenset(("lease", "commit", "burn", "refund"))
"""Kinds of entries that finish a charge. Its holder may write them after the holder or the token has ended: a charge
that cannot finish closes the data.
"""

DAY: Final = 86_400_000
"""Milliseconds of a day."""
LAPSE: Final = 30 * DAY
"""Milliseconds after which an open request can no longer be approved."""
LONGEST_TOKEN: Final = 365 * DAY
MOST_NEEDED: Final = 9
DOORS: Final = ("http", "wire")
"""Interfaces at which a token may be used."""


class Forbidden(Exception):
    """An entry that its principal may not write. ``code`` says which rule forbids it."""

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(problem)
        self.code = code


class Act(NamedTuple):
    """Who acts, with which token, and the request that is carried out."""

    principal: str
    via: int | None = None
    under: int | None = None


class Person(NamedTuple):
    """A principal: a person, or a machine for which a person answers."""

    id: str
    seq: int
    kind: str
    owner: str | None = None
    ended: int | None = None


class Grant(NamedTuple):
    """A role of a principal, on a population or on the whole ledger."""

    seq: int
    principal: str
    role: str
    population: int | None
    revoked: int | None = None


class Token(NamedTuple):
    """A token of a principal. The chain has the SHA-256 of its 256 random bits."""

    seq: int
    principal: str
    roles: tuple[str, ...]
    population: int | None
    doors: tuple[str, ...]
    until: int
    ceiling: int | None
    digest: str
    ended: int | None = None


class Decision(NamedTuple):
    """A decision on a request, by a principal whose right is the grant."""

    seq: int
    principal: str
    is_approval: bool
    grant: int


class Proposal(NamedTuple):
    """A request: the entry that it asks for, and the state that the requester saw."""

    seq: int
    at: int
    principal: str
    effect: Mapping[str, Any]
    population: int | None
    was: tuple[int, ...]
    why: str
    state: str = OPEN
    decisions: tuple[Decision, ...] = ()
    ended: int | None = None

    def state_at(self, at: int) -> str:
        """The state at a time: a request lapses by itself."""
        return LAPSED if self.state == OPEN and at > self.at + LAPSE else self.state


class State(Protocol):
    """The part of the replayed chain that the rules read."""

    @property
    def accounts(self) -> Mapping[int, Any]:
        """Rows of accounts."""

    @property
    def charges(self) -> Mapping[int, Any]:
        """Rows of charges."""

    @property
    def lines(self) -> Mapping[int, list[tuple[int, int, int]]]:
        """Lines of charges: what each account pays."""

    @property
    def payers(self) -> Mapping[int, Sequence[int]]:
        """Populations that pay for charges, also for those that ended before a checkpoint."""

    @property
    def datasets(self) -> Sequence[Any]:
        """Registrations."""

    @property
    def sources(self) -> Mapping[int, str | None]:
        """Sources of charges."""

    @property
    def quarantines(self) -> Mapping[tuple[int, int], tuple[str, int | None, int | None]]:
        """Closings."""

    @property
    def governed(self) -> int | None:
        """The newest entry about keys."""

    @property
    def erased(self) -> set[int]:
        """Entries whose texts were erased."""

    @property
    def erased_answers(self) -> set[int]:
        """Charges whose answers were erased."""

    @property
    def authority(self) -> Authority:
        """Principals, roles, tokens and requests."""

    def population(self, account_id: int) -> int:
        """The account at the top."""


@dataclass(slots=True)
class Authority:
    """The principals, roles, tokens and requests after some prefix of the chain."""

    since: int | None = None
    """The entry ``roles``; None while no role is needed."""
    principals: dict[str, Person] = field(default_factory=dict)
    grants: dict[int, Grant] = field(default_factory=dict)
    tokens: dict[int, Token] = field(default_factory=dict)
    requests: dict[int, Proposal] = field(default_factory=dict)
    quorums: dict[int, dict[str, int]] = field(default_factory=dict)
    """Approvals that are needed by population and class, where they were set."""
    changed: dict[int, int] = field(default_factory=dict)
    """The newest entry about owners, approvers and numbers of approvals, by population; 0 stands for the ledger."""
    spent: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By token: the newest day on which it paid, and the amount of that day."""
    broken_glass: dict[int, list[int]] = field(default_factory=dict)
    """Entries ``break_glass``, by population."""
    raises: dict[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """By entry that raised a limit: the request that was carried out, and the principals whose approvals counted."""

    def copy(self) -> Authority:
        """Another state that changes apart from this one. What the dictionaries hold does not change itself."""
        return Authority(
            since=self.since,
            principals=dict(self.principals),
            grants=dict(self.grants),
            tokens=dict(self.tokens),
            requests=dict(self.requests),
            quorums={number: dict(needed) for number, needed in self.quorums.items()},
            changed=dict(self.changed),
            spent=dict(self.spent),
            broken_glass={number: list(entries) for number, entries in self.broken_glass.items()},
            raises=dict(self.raises),
        )

    # -- reading

    def is_active(self, principal: str) -> bool:
        """True if a principal is known and has not ended. A machine also needs the person who answers for it."""
        person = self.principals.get(principal)
        if person is None or person.ended is not None:
            return False
        return person.owner is None or self.is_active(person.owner)

    def roles_of(self, principal: str, population: int | None) -> set[str]:
        """Roles of a principal on a population; with None those on the ledger, and those about people anywhere.

        Auditors and operators of one population do not count for the ledger: an owner makes them.
        """
        if not self.is_active(principal):
            return set()
        return {
            grant.role
            for grant in self.grants.values()
            if grant.principal == principal and grant.revoked is None and _holds(grant, population)
        }

    def usable_roles(self, act: Act, population: int | None) -> set[str]:
        """Roles that a principal may use on a population: those of its token, if it has one."""
        found = self.roles_of(act.principal, population)
        if act.via is None:
            return found
        token = self.tokens.get(act.via)
        if token is None or token.population not in (None, population):
            return set()
        return found & set(token.roles)

    def holders(self, role: str, population: int | None) -> set[str]:
        """Principals with a role on a population; with None as in ``roles_of``."""
        return {
            grant.principal
            for grant in self.grants.values()
            if grant.role == role
            and grant.revoked is None
            and _holds(grant, population)
            and self.is_active(grant.principal)
        }

    def populations(self) -> set[int]:
        """Populations on which a principal ever had a role."""
        return {grant.population for grant in self.grants.values() if grant.population is not None}

    def needed(self, population: int | None, needs: str) -> int:
        """Approvals that an action of a class needs; for the whole ledger the most of any population."""
        if population is None:
            return max((self.needed(each, needs) for each in self.populations()), default=0)
        chosen = self.quorums.get(population, {}).get(needs)
        return default_needed(len(self.holders(APPROVER, population))) if chosen is None else chosen

    def decides(self, grant: Grant, request: Proposal) -> bool:
        """True if a decision by this role counts now: it is older than the request, it holds, and it may decide.

        Approvers decide. While no approval is needed on a population, its owners decide, too.
        """
        needs = request_action(request.effect, self).needs or ""
        wanted = {APPROVER} if self.needed(grant.population, needs) else {APPROVER, OWNER}
        reaches = grant.population is not None and request.population in (None, grant.population)
        holds = grant.revoked is None and grant.seq < request.seq and self.is_active(grant.principal)
        return reaches and holds and grant.role in wanted and self.principals[grant.principal].kind == PERSON

    def approvals(self, request: Proposal) -> list[Decision]:
        """The approvals that count now: by other persons, whose roles are older than the request and still hold."""
        return [
            decision
            for decision in request.decisions
            if decision.is_approval
            and decision.principal != request.principal
            and self.decides(self.grants[decision.grant], request)
        ]

    def missing(self, request: Proposal) -> int:
        """Approvals that a request still needs. One about the whole ledger needs those of every population."""
        needs = request_action(request.effect, self).needs or ""
        approvers = {decision.principal for decision in self.approvals(request)}
        least = max(1, self.needed(request.population, needs)) - len(approvers)
        if request.population is None:
            least = max(least, sum(self._missing_on(each, request, approvers) for each in self.populations()))
        return max(0, least)

    def _missing_on(self, population: int, request: Proposal, approvers: set[str]) -> int:
        """Approvals of one population that a request on the whole ledger lacks. Its requester may be a sole owner."""
        needed = self.needed(population, request_action(request.effect, self).needs or "")
        agree = approvers if needed else approvers | {request.principal}
        mine = [grant for grant in self.grants.values() if grant.population == population]
        found = {grant.principal for grant in mine if grant.principal in agree and self.decides(grant, request)}
        return max(0, max(1, needed) - len(found))

    def grant_to_decide(self, principal: str, request: Proposal) -> Grant | None:
        """The oldest grant by which a principal may decide on a request; None without one."""
        mine = [
            grant for grant in self.grants.values() if grant.principal == principal and self.decides(grant, request)
        ]
        return min(mine, default=None, key=lambda grant: grant.seq)

    def token_of(self, digest: str, at: int) -> Token | None:
        """The token with this digest, if it may be used at this time."""
        for token in self.tokens.values():
            if token.digest == digest and token.ended is None and at <= token.until and self.is_active(token.principal):
                return token
        return None

    # -- checking and taking entries

    def judge(self, seq: int, entry: Mapping[str, Any], state: State) -> None:
        """Raise ``Forbidden`` unless the principal of an entry may write it. ``state`` is the one before the entry."""
        act = _act_of(entry)
        if act is None:
            if self.since is not None:
                raise Forbidden("no_principal", "it does not say who acts")
            return
        kind = entry["kind"]
        if self.since is None:
            self._judge_before_roles(act, entry)
            return
        case = _Case(seq, entry, act, state, self)
        if not _is_finished(case):
            self._judge_present(act, entry)
        if kind in _BY_PRINCIPAL:
            case.require(
                entry["principal"] == act.principal, "no_principal", "it names another principal as its author"
            )
        if act.under is not None:
            case.require_approved()
        _RULES[kind](self, case)

    def _judge_before_roles(self, act: Act, entry: Mapping[str, Any]) -> None:
        """Before roles begin, an entry only says who acts. A principal is named by its first entry, or before it."""
        if entry["kind"] in ("genesis", "upgrade"):
            return
        is_itself = entry["kind"] == "principal_add" and entry["principal"] == act.principal
        if not is_itself and not self.is_active(act.principal):
            raise Forbidden("unknown_principal", "the principal who acts was not named before")
        if act.via is not None or act.under is not None:
            raise Forbidden("no_roles", "a token or a request in a ledger without roles")
        if entry["kind"] in ROLE_KINDS:
            raise Forbidden("no_roles", "roles, tokens and requests need the entry that begins roles")
        if entry["kind"] == "open" and entry["account_kind"] == ANALYST:
            raise Forbidden("no_roles", "an allowance in a ledger without roles")
        if entry["kind"] == "principal_add":
            self._judge_new_principal(entry)
            if not is_itself or entry["person"] != PERSON or entry["owner"] is not None:
                raise Forbidden("no_roles", "a principal is added by another one in a ledger without roles")

    def _judge_new_principal(self, entry: Mapping[str, Any]) -> None:
        if entry["principal"] in self.principals:
            raise Forbidden("known_principal", "a principal is added twice")
        if entry["person"] not in (PERSON, MACHINE):
            raise Forbidden("bad_principal", "a principal is a person or a machine")

    def _judge_present(self, act: Act, entry: Mapping[str, Any]) -> None:
        """Check that the principal has not ended, and that its token may be used at this time."""
        if not self.is_active(act.principal):
            raise Forbidden("unknown_principal", "the principal who acts has no role in this ledger")
        if act.via is None:
            return
        token = self.tokens.get(act.via)
        if token is None or token.principal != act.principal or token.ended is not None or entry["at"] > token.until:
            raise Forbidden("dead_token", "the token is unknown, has ended, or belongs to another principal")

    def take(self, seq: int, entry: Mapping[str, Any], state: State) -> None:
        """Change the state by an entry that was judged. ``state`` is the one after the entry."""
        act = _act_of(entry)
        effect = _EFFECTS.get(entry["kind"])
        if effect is not None:
            effect(self, seq, entry)
        if act is None:
            return
        if act.under is not None:
            request = self.requests[act.under]
            if entry["kind"] == "raise":
                approved = tuple(decision.principal for decision in self.approvals(request))
                self.raises[seq] = act.under, approved
            self.requests[act.under] = request._replace(state=EXECUTED, ended=seq)
        if entry["kind"] in ("reserve", "begin") and act.via is not None:
            self._count(act.via, entry, state)

    def _count(self, number: int, entry: Mapping[str, Any], state: State) -> None:
        """Add what a token paid to its day."""
        token = self.tokens[number]
        self.spent[number] = (entry["at"] // DAY, self.paid_today(token, entry["at"]) + _paid(token, entry, state))

    def paid_today(self, token: Token, at: int) -> int:
        """Amount that a token has paid on the day of this time."""
        day, amount = self.spent.get(token.seq, (0, 0))
        return amount if day == at // DAY else 0


def _holds(grant: Grant, population: int | None) -> bool:
    """True if a role counts on a population; with None, where it counts for the whole ledger."""
    if population is None:
        return grant.population is None or grant.role not in LEDGER_WIDE
    return grant.population in (None, population)


def _paid(token: Token, entry: Mapping[str, Any], state: State) -> int:
    """First part of what an entry pays from the population of a token."""
    return sum(int(first) for account, first, _ in entry["lines"] if state.population(account) == token.population)


def _act_of(entry: Mapping[str, Any]) -> Act | None:
    act = entry.get("act")
    return None if act is None else Act(*act)


class _Case(NamedTuple):
    """An entry that is judged, with the state before it."""

    seq: int
    entry: Mapping[str, Any]
    act: Act
    state: State
    authority: Authority

    @property
    def token(self) -> Token | None:
        return None if self.act.via is None else self.authority.tokens[self.act.via]

    def roles(self, population: int | None) -> set[str]:
        """Roles that the principal may use here: those of its token, if it has one."""
        return self.authority.usable_roles(self.act, population)

    def require(self, condition: bool, code: str, problem: str) -> None:
        """Raise ``Forbidden`` unless the condition holds."""
        if not condition:
            raise Forbidden(code, problem)

    def require_role(self, action: str, population: int | None) -> None:
        """Raise ``Forbidden`` unless a role of the principal may do this at once."""
        cell = ACTIONS[action].cell(self.roles(population))
        self.require(cell == YES, "not_authorised", f"this principal may not {ACTIONS[action].words}")

    def require_decided(self, action: str, population: int | None) -> None:
        """Raise ``Forbidden`` unless the action is approved, or its owner may do it alone."""
        if self.act.under is not None:
            return  # it is approved
        row = ACTIONS[action]
        roles = self.roles(population)
        cell = row.cell(roles)
        if cell == YES:
            return
        self.require(cell in (ALONE, ASK), "not_authorised", f"this principal may not {row.words}")
        needed = self.authority.needed(population, row.needs or "")
        reached = self.authority.populations() if population is None else {population}
        is_owner = all(OWNER in self.roles(each) for each in reached)
        is_alone = needed == 0 and cell == ALONE and OWNER in roles and is_owner
        approvals = people(max(needed, 1), "approval")
        self.require(is_alone, "needs_approval", f"this needs {approvals} by others: to {row.words}")

    def require_approved(self) -> None:
        """Check that this entry carries out its request exactly as it was stored and approved."""
        request = self.authority.requests.get(self.act.under or 0)
        if request is None:
            raise Forbidden("no_request", "it carries out a request that is not there")
        state = request.state_at(self.entry["at"])
        self.require(state == OPEN, "request_ended", "it carries out a request that has ended")
        is_same = effect_of(self.entry) == dict(request.effect)
        self.require(is_same, "other_effect", "it differs from the request that it carries out")
        problem = stale(request, self.state)
        self.require(problem == "", "stale_request", problem)
        approvals = self.authority.approvals(request)
        missing = self.authority.missing(request)
        self.require(missing == 0, "needs_approval", f"it carries out a request that needs {missing} more approvals")
        is_approver = self.act.principal in {decision.principal for decision in approvals}
        self.require(is_approver, "not_authorised", "a request is carried out by a principal who did not approve it")


# -- requests: what they ask for, and the state that they saw


def effect_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a request for an entry fixes: all but what belongs to the moment when it is carried out."""
    own = {*_OF_EVERY_ENTRY, *FIELDS_OF_MOMENT.get(entry["kind"], ())}
    return {name: value for name, value in entry.items() if name not in own}


def request_action(effect: Mapping[str, Any], authority: Authority) -> Action:
    """The action that a request asks for, by the kind of its effect."""
    kind = effect["kind"]
    if kind == "open":
        name = "open_population" if effect["parent"] is None else "set_limit"
        return ACTIONS["give_allowance" if effect["account_kind"] == ANALYST else name]
    if kind in ("role_grant", "role_revoke"):
        role = effect["role"] if kind == "role_grant" else authority.grants[effect["grant"]].role
        return ACTIONS["change_people" if role in (OWNER, APPROVER) else "change_members"]
    return ACTIONS[_ACTION_OF_EFFECT[kind]]


_ACTION_OF_EFFECT: Final = {
    "raise": "set_limit",
    "close": "close_account",
    "register": "register",
    "clear": "clear",
    "erase": "erase",
    "quorum": "change_people",
    "key_add": "change_keys",
    "key_retire": "change_keys",
}
EFFECTS: Final = ("open", "role_grant", "role_revoke", *_ACTION_OF_EFFECT)
"""Kinds of entries that a request may ask for."""
_OF_EVERY_ENTRY: Final = ("at", "act", "governed")
FIELDS_OF_MOMENT: Final[Mapping[str, tuple[str, ...]]] = {
    "raise": ("by", "signature"),
    **dict.fromkeys(("clear", "erase", "key_add", "key_retire"), ("principal",)),
}
"""Fields of an entry that its request does not fix, by kind: they are those of the moment when it is carried out."""
_BY_PRINCIPAL: Final = ("clear", "erase", "key_add", "key_retire", "burn", "refund")
"""Kinds of entries whose field ``principal`` is who acts."""


def population_of(effect: Mapping[str, Any], state: State) -> int | None:
    """The population that an effect is about; None for the whole ledger."""
    kind = effect["kind"]
    if kind == "open":
        return None if effect["parent"] is None else state.population(effect["parent"])
    if kind in ("raise", "close", "register", "clear"):
        return state.population(effect["account"])
    if kind in ("role_grant", "quorum"):
        population: int | None = effect["population"]
        return population
    if kind == "role_revoke":
        return state.authority.grants[effect["grant"]].population
    return _erased_population(effect, state) if kind == "erase" else None


def _erased_population(effect: Mapping[str, Any], state: State) -> int | None:
    """The population of the entries whose texts are erased; None if there are several, or if it is not known."""
    found = {each for number in (*effect["entries"], *effect["answers_of"]) for each in _populations_of(number, state)}
    return found.pop() if len(found) == 1 else None


def _populations_of(number: int, state: State) -> set[int | None]:
    """The populations of a charge, a role or a request. Other entries count for the whole ledger."""
    if number in state.payers:
        return set(state.payers[number])
    grant, request = state.authority.grants.get(number), state.authority.requests.get(number)
    if grant is not None:
        return {grant.population}
    return {None if request is None else request.population}


def seen(effect: Mapping[str, Any], state: State) -> tuple[int, ...]:
    """The state that a request depends on, as numbers. A request whose state has moved is void."""
    kind = effect["kind"]
    authority = state.authority
    if kind == "open":
        return tuple(number for number, account in state.accounts.items() if account.name == effect["name"])
    if kind == "erase":
        return (len(state.erased & {*effect["entries"]}), len(state.erased_answers & {*effect["answers_of"]}))
    if kind in ("raise", "close"):
        account = state.accounts[effect["account"]]
        return account.limit0, account.limit1, int(account.state == "open")
    if kind == "register":
        return (max((row.seq for row in state.datasets if row.name == effect["dataset"]), default=0),)
    if kind == "clear":
        population = state.population(effect["account"])
        rows = [key for key, row in sorted(state.quarantines.items()) if row[1] is None and key[1] == population]
        return tuple(number for row in rows for number in row)
    if kind in ("key_add", "key_retire"):
        return (state.governed or 0,)
    if kind in ("role_grant", "role_revoke", "quorum"):
        return (authority.changed.get(population_of(effect, state) or 0, 0),)
    return ()


def stale(request: Proposal, state: State) -> str:
    """The reason why a request can no longer be carried out; empty if it can."""
    authority = state.authority
    if seen(request.effect, state) != request.was:
        return "the state that the request saw has changed"
    row = request_action(request.effect, authority)
    cell = row.cell(authority.roles_of(request.principal, request.population))
    return "" if cell in (YES, ALONE, ASK) else "the requester no longer has the role to request this"


# -- rules by kind of entry


def _anybody(authority: Authority, case: _Case) -> None:
    """Every principal of the ledger may write this."""


def _spend(authority: Authority, case: _Case) -> None:
    """A release is paid by its owner from the population, or by an analyst from an allowance."""
    entry = case.entry
    case.require(entry["principal"] == case.act.principal, "no_principal", "a charge names another principal")
    case.require(case.act.under is None, "other_effect", "a charge carries out no request")
    _require_payer(case, entry["source"], entry["lines"])
    _keep_ceiling(case)


def _require_payer(case: _Case, source: str | None, lines: Iterable[Sequence[int]]) -> None:
    """Check that the principal may pay from each of these accounts now."""
    state = case.state
    action = "pay_elsewhere" if source is None else "release"
    for number, _, _ in lines:
        account = state.accounts[number]
        roles = case.roles(state.population(number))
        if account.kind == ANALYST:
            is_own = account.owner == case.act.principal and ACTIONS[action].cell(roles) in (YES, OWN)
            case.require(is_own, "not_authorised", "this allowance belongs to another principal, or its role has ended")
            continue
        may = ACTIONS[action].cell(roles - {ANALYST}) == YES
        case.require(may, "needs_allowance", f"{account.name!r} is paid from by its owners. Use an allowance")


def _keep_ceiling(case: _Case) -> None:
    token = case.token
    if token is None or token.ceiling is None:
        return
    paid = case.authority.paid_today(token, case.entry["at"]) + _paid(token, case.entry, case.state)
    case.require(paid <= token.ceiling, "token_ceiling", "the token would pay more today than its ceiling allows")


def _holder(authority: Authority, case: _Case) -> None:
    """A charge is moved on by the principal who holds it. What has not started also needs the right to pay."""
    charge = case.state.charges[case.entry["charge"]]
    is_own = charge.principal == case.act.principal or _is_older(case)
    case.require(is_own, "not_authorised", "the charge belongs to another principal")
    if charge.state == RESERVED:
        _require_payer(case, case.state.sources[charge.id], case.state.lines[charge.id])


def _is_older(case: _Case) -> bool:
    """True for an entry that keeps or ends a charge which ran when roles began. Its principal is everybody."""
    charge = case.entry["charge"]
    return case.entry["kind"] in FINISHING and charge < (case.authority.since or 0) and _runs(case)


def _runs(case: _Case) -> bool:
    """True for an entry about a charge that has started and has not ended."""
    charge = case.state.charges.get(case.entry["charge"])
    return charge is not None and charge.state == EXECUTING


def _is_finished(case: _Case) -> bool:
    """True for an entry by which the principal of a charge finishes it: it runs, or its amount is given back.

    What runs is paid, and its data may be open. So neither the end of a token nor that of the principal takes its
    answer: how long it runs can depend on the data. A reservation is not extended after the end.
    """
    kind = case.entry["kind"]
    if kind not in FINISHING or not (kind == "refund" or _runs(case)):
        return False
    return bool(case.state.charges[case.entry["charge"]].principal == case.act.principal)


def _end(authority: Authority, case: _Case) -> None:
    """A charge is ended by its holder, by every principal once its lease is over, or by an owner of its population.

    A planned stop closes no data, so it needs the right to stop jobs: a holder could hide a failure behind it.
    """
    charge = case.state.charges[case.entry["charge"]]
    if case.entry["kind"] == "burn" and case.entry["why"] == STOPPED:
        for account, _, _ in case.state.lines[charge.id]:
            case.require_role("stop_jobs", case.state.population(account))
        return
    is_over = charge.lease_until <= case.entry["at"]
    if charge.principal == case.act.principal or is_over or _is_older(case) or _holds_up(case):
        return
    for account, _, _ in case.state.lines[charge.id]:
        case.require_role("end_running", case.state.population(account))


def _holds_up(case: _Case) -> bool:
    """True for the end of a charge that keeps an owner from opening the data of one of its populations again."""
    closed = {
        population
        for (charge, population), (_, cleared, _) in case.state.quarantines.items()
        if charge == case.entry["charge"] and cleared is None
    }
    return any(ACTIONS["end_running"].cell(case.roles(each)) == YES for each in closed)


def _open_account(authority: Authority, case: _Case) -> None:
    entry = case.entry
    if entry["parent"] is None:
        case.require_role("open_population", None)
        return
    population = case.state.population(entry["parent"])
    if entry["account_kind"] != ANALYST:
        case.require_decided("set_limit", population)
        return
    case.require_decided("give_allowance", population)
    roles = authority.roles_of(entry["owner"], population)
    case.require(bool(roles & {OWNER, ANALYST, RUNNER}), "bad_principal", "an allowance of a principal without a role")


def _change_account(authority: Authority, case: _Case) -> None:
    account = case.state.accounts[case.entry["account"]]
    action = "set_limit" if case.entry["kind"] == "raise" else "close_account"
    action = "give_allowance" if account.kind == ANALYST else action
    case.require_decided(action, case.state.population(account.id))


def _register(authority: Authority, case: _Case) -> None:
    case.require_decided("register", case.state.population(case.entry["account"]))


def _clear(authority: Authority, case: _Case) -> None:
    population = case.state.population(case.entry["account"])
    is_own = all(each == population for _, each in case.entry["rows"])
    case.require(is_own, "other_population", "it opens data of another population")
    case.require_decided("clear", population)


def _erase(authority: Authority, case: _Case) -> None:
    for person in authority.principals.values():
        is_kept = person.seq in case.entry["entries"] and person.ended is None
        case.require(not is_kept, "active_name", "the name of a principal that has not ended is erased")
    for number in case.entry["entries"]:
        request = authority.requests.get(number)
        is_open = request is not None and request.state_at(case.entry["at"]) == OPEN
        case.require(not is_open, "open_request", "the texts of a request that is open are erased")
    case.require_decided("erase", _erased_population(case.entry, case.state))


def _change_key(authority: Authority, case: _Case) -> None:
    case.require_decided("change_keys", None)


def _add_principal(authority: Authority, case: _Case) -> None:
    authority._judge_new_principal(case.entry)
    roles = case.roles(None)
    case.require(
        bool(roles & {OWNER, OPERATOR}), "not_authorised", "only owners and operators give roles to new people"
    )
    is_machine = case.entry["person"] == MACHINE
    answers = case.entry["owner"] == (case.act.principal if is_machine else None)
    case.require(answers, "bad_principal", "a machine has the owner who adds it, and a person has no owner")
    case.require(not is_machine or OWNER in roles, "not_authorised", "only an owner adds a machine")


def _end_principal(authority: Authority, case: _Case) -> None:
    case.require_role("end_principal", None)
    person = authority.principals.get(case.entry["principal"])
    case.require(person is not None and person.ended is None, "unknown_principal", "a principal ends twice")
    for grant in list(authority.grants.values()):
        if grant.principal == case.entry["principal"] and grant.revoked is None:
            _keep_alive(authority, case, grant)


def _grant(authority: Authority, case: _Case) -> None:
    entry = case.entry
    role, population = entry["role"], entry["population"]
    case.require(role in ROLES, "bad_role", "a role that is not known")
    case.require(authority.is_active(entry["principal"]), "unknown_principal", "a role of an unknown principal")
    case.require(population is not None or role in LEDGER_WIDE, "bad_role", "this role needs a population")
    is_root = population is None or (
        population in case.state.accounts and case.state.accounts[population].parent_id is None
    )
    case.require(is_root, "bad_population", "a role is given on a population")
    active = [grant for grant in authority.grants.values() if grant.revoked is None]
    wanted = (entry["principal"], role, population)
    is_new = wanted not in [(grant.principal, grant.role, grant.population) for grant in active]
    case.require(is_new, "known_role", "a role is given twice")
    if role in (OWNER, APPROVER):
        is_person = authority.principals[entry["principal"]].kind == PERSON
        case.require(is_person, "bad_role", "a machine cannot be owner or approver")
    _require_granter(authority, case, role, population)


def _require_granter(authority: Authority, case: _Case, role: str, population: int | None) -> None:
    """Check who gives a role. The operator names the first owner of a population."""
    if population is None:
        case.require(case.act.under is not None, "not_authorised", "a role on the whole ledger needs a request")
        case.require_decided("change_people", None)
        return
    had_owner = any(grant.role == OWNER and grant.population == population for grant in authority.grants.values())
    if role == OWNER and not had_owner:
        case.require_role("open_population", None)
        return
    case.require_decided("change_people" if role in (OWNER, APPROVER) else "change_members", population)


def _revoke(authority: Authority, case: _Case) -> None:
    grant = authority.grants.get(case.entry["grant"])
    if grant is None or grant.revoked is not None:
        raise Forbidden("unknown_role", "a role is taken that the principal does not have")
    _keep_alive(authority, case, grant)
    if grant.population is None:
        case.require_role("end_principal", None)
    elif grant.role in (OWNER, APPROVER):
        case.require_decided("change_people", grant.population)
    else:
        case.require_decided("change_members", grant.population)


def _keep_alive(authority: Authority, case: _Case, grant: Grant) -> None:
    """A role is not taken if decisions could not be made without it."""
    others = authority.holders(grant.role, grant.population) - {grant.principal}
    if grant.role == OWNER or (grant.role == OPERATOR and grant.population is None):
        case.require(bool(others), "last_one", f"the last {grant.role} stays")
    if grant.role == APPROVER and grant.population is not None:
        needed = max(authority.needed(grant.population, needs) for needs in CLASSES)
        is_enough = needed == 0 or len(others) >= needed + 1
        case.require(
            is_enough, "too_few_approvers", f"at least {needed + 1} approvers stay while {needed} must approve"
        )


def _set_quorum(authority: Authority, case: _Case) -> None:
    entry = case.entry
    population = entry["population"]
    case.require(population in authority.populations(), "bad_population", "a quorum of a population without roles")
    numbers = dict(entry["needed"])
    is_known = numbers.keys() <= set(CLASSES) and all(0 <= each <= MOST_NEEDED for each in numbers.values())
    case.require(is_known and bool(numbers), "bad_quorum", "a quorum of a class or number that is not known")
    approvers = len(authority.holders(APPROVER, population))
    is_enough = all(each == 0 or approvers >= each + 1 for each in numbers.values())
    case.require(is_enough, "too_few_approvers", "a quorum needs one approver more than must approve")
    case.require_decided("change_people", population)


def _break_glass(authority: Authority, case: _Case) -> None:
    case.require_role("break_glass", None)
    case.require(case.act.via is None, "not_authorised", "the glass is broken on the host, without a token")
    person = authority.principals.get(case.entry["principal"])
    is_person = person is not None and person.ended is None and person.kind == PERSON
    case.require(is_person, "unknown_principal", "an approver who is not known, or a machine")
    case.require(case.entry["population"] in authority.populations(), "bad_population", "a population without roles")


def _add_token(authority: Authority, case: _Case) -> None:
    entry = case.entry
    person = authority.principals.get(entry["principal"])
    case.require(
        person is not None and person.ended is None, "unknown_principal", "a token of a principal who is not known"
    )
    is_own = person is not None and case.act.principal in (person.id, person.owner)
    case.require(is_own and case.act.via is None, "not_authorised", "a token is made by its principal, without a token")
    roles, doors = entry["roles"], entry["doors"]
    is_known = bool(roles) and set(roles) <= set(ROLES) and roles == sorted(set(roles), key=ROLES.index)
    case.require(is_known, "bad_role", "a token with a role that is not known")
    case.require(
        bool(doors) and doors == sorted(set(doors)) and set(doors) <= set(DOORS), "bad_door", "a token's doors"
    )
    is_short = entry["at"] < entry["until"] <= entry["at"] + LONGEST_TOKEN
    case.require(is_short, "bad_token", "a token that ends at once, or after more than a year")
    reach = case.state.accounts.get(entry["population"] or 0)
    is_there = entry["population"] is None or (reach is not None and reach.parent_id is None)
    case.require(is_there, "bad_population", "a token of a population that is not there")
    is_bound = entry["ceiling"] is None or entry["population"] is not None
    case.require(is_bound, "bad_token", "a ceiling of a token without a population")
    is_new = all(token.digest != entry["hash"] for token in authority.tokens.values())
    case.require(is_new, "bad_token", "a token is made twice")


def _end_token(authority: Authority, case: _Case) -> None:
    token = authority.tokens.get(case.entry["token"])
    if token is None or token.ended is not None:
        raise Forbidden("unknown_token", "a token ends that is not there")
    if case.act.principal in (token.principal, authority.principals[token.principal].owner):
        return
    if OPERATOR in case.roles(None):
        return
    mine = {each for each in authority.populations() if OWNER in case.roles(each)}
    is_mine = any(authority.roles_of(token.principal, each) for each in mine)
    case.require(is_mine, "not_authorised", "this principal may not end this token")


def _request(authority: Authority, case: _Case) -> None:
    entry = case.entry
    effect = entry["effect"]
    case.require(effect.get("kind") in EFFECTS, "bad_request", "a request for an entry that no request may ask for")
    case.require(
        effect_of(effect) == effect, "bad_request", "a request that fixes the time or the actor of its effect"
    )  # fmt: skip
    population = population_of(effect, case.state)
    case.require(entry["population"] == population, "bad_request", "a request names another population")
    case.require(tuple(entry["was"]) == seen(effect, case.state), "stale_request", "a request saw another state")
    is_its = all(effect.get(name, entry[name]) == entry[name] for name in ("why", "note"))
    case.require(is_its, "bad_request", "an effect with another reason or note than its request")
    row = request_action(effect, authority)
    cell = row.cell(case.roles(population))
    case.require(cell in (YES, ALONE, ASK), "not_authorised", f"this principal may not request to {row.words}")


def _decide(authority: Authority, case: _Case) -> None:
    entry = case.entry
    request = authority.requests.get(entry["request"])
    if request is None or request.state_at(entry["at"]) != OPEN:
        raise Forbidden("request_ended", "a decision on a request that is not open")
    case.require(request.principal != case.act.principal, "own_request", "a principal may not decide on an own request")
    case.require(entry["decision"] in (APPROVE, REJECT), "bad_decision", "a decision that is neither")
    has_decided = case.act.principal in {decision.principal for decision in request.decisions}
    case.require(not has_decided, "decided_twice", "a principal decides twice")
    grant = authority.grants.get(entry["grant"])
    if grant is None or grant.principal != case.act.principal or grant.revoked is not None:
        raise Forbidden("not_authorised", "a decision by a role that its principal does not have")
    case.require(grant.seq < request.seq, "younger_role", "a role that is younger than the request does not count")
    case.require(authority.decides(grant, request), "not_authorised", "this principal may not decide")
    may = grant.role in case.roles(grant.population)
    case.require(may, "not_authorised", "the token may not be used to decide")


def _withdraw(authority: Authority, case: _Case) -> None:
    request = _open_request(authority, case)
    case.require(request.principal == case.act.principal, "not_authorised", "a request of another principal")


def _void(authority: Authority, case: _Case) -> None:
    request = _open_request(authority, case)
    case.require(stale(request, case.state) != "", "bad_request", "a request is void, and its state has not changed")


def _open_request(authority: Authority, case: _Case) -> Proposal:
    request = authority.requests.get(case.entry["request"])
    if request is None or request.state != OPEN:
        raise Forbidden("request_ended", "a request that is not open")
    return request


def _never(authority: Authority, case: _Case) -> None:
    raise Forbidden("bad_kind", "an entry that cannot follow the beginning of roles")


_RULES: Final[Mapping[str, Callable[[Authority, _Case], None]]] = {
    **dict.fromkeys(("genesis", "upgrade", "govern", "roles"), _never),
    **dict.fromkeys(("first_use", "older"), _anybody),
    **dict.fromkeys(("reserve", "begin"), _spend),
    **dict.fromkeys(("lease", "start", "commit"), _holder),
    **dict.fromkeys(("burn", "refund"), _end),
    "open": _open_account,
    "raise": _change_account,
    "close": _change_account,
    "register": _register,
    "clear": _clear,
    "erase": _erase,
    "key_add": _change_key,
    "key_retire": _change_key,
    "principal_add": _add_principal,
    "principal_end": _end_principal,
    "role_grant": _grant,
    "role_revoke": _revoke,
    "quorum": _set_quorum,
    "break_glass": _break_glass,
    "token_add": _add_token,
    "token_end": _end_token,
    "request": _request,
    "decision": _decide,
    "withdraw": _withdraw,
    "void": _void,
}

ROLE_KINDS: Final = frozenset(
    (
        *("principal_end", "role_grant", "role_revoke", "quorum", "break_glass"),
        *("token_add", "token_end", "request", "decision", "withdraw", "void"),
    )
)
"""Kinds of entries that only a ledger with roles has."""


# -- effects by kind of entry


def _take_roles(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    principal = entry["act"][0]
    authority.since = seq
    authority.grants[seq] = Grant(seq, principal, OPERATOR, None)


def _take_principal(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.principals[entry["principal"]] = Person(entry["principal"], seq, entry["person"], entry["owner"])


def _take_first(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    """The entry that begins the format names who makes it."""
    if "act" in entry and "subject" in entry:
        authority.principals[entry["act"][0]] = Person(entry["act"][0], seq, PERSON)


def _take_end(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    principal = entry["principal"]
    authority.principals[principal] = authority.principals[principal]._replace(ended=seq)
    for grant in list(authority.grants.values()):
        if grant.principal == principal and grant.revoked is None:
            authority.grants[grant.seq] = grant._replace(revoked=seq)
            _note_change(authority, seq, grant.role, grant.population)
    for token in list(authority.tokens.values()):
        if token.principal == principal and token.ended is None:
            authority.tokens[token.seq] = token._replace(ended=seq)


def _take_grant(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.grants[seq] = Grant(seq, entry["principal"], entry["role"], entry["population"])
    _note_change(authority, seq, entry["role"], entry["population"])


def _take_revoke(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    grant = authority.grants[entry["grant"]]
    authority.grants[grant.seq] = grant._replace(revoked=seq)
    _note_change(authority, seq, grant.role, grant.population)


def _note_change(authority: Authority, seq: int, role: str, population: int | None) -> None:
    """Remember a change of owners and approvers: it makes open requests about people void."""
    if role in (OWNER, APPROVER) or population is None:
        authority.changed[population or 0] = seq


def _take_quorum(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    known = authority.quorums.setdefault(entry["population"], {})
    known.update(dict(entry["needed"]))
    authority.changed[entry["population"]] = seq


def _take_glass(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    population = entry["population"]
    authority.grants[seq] = Grant(seq, entry["principal"], APPROVER, population)
    authority.broken_glass.setdefault(population, []).append(seq)
    authority.changed[population] = seq


def _take_token(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.tokens[seq] = Token(
        seq, entry["principal"], tuple(entry["roles"]), entry["population"], tuple(entry["doors"]), entry["until"],
        entry["ceiling"], entry["hash"],
    )  # fmt: skip


def _take_token_end(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.tokens[entry["token"]] = authority.tokens[entry["token"]]._replace(ended=seq)


def _take_request(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.requests[seq] = Proposal(
        seq, entry["at"], entry["act"][0], entry["effect"], entry["population"], tuple(entry["was"]), entry["why"]
    )


def _take_decision(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    request = authority.requests[entry["request"]]
    is_approval = entry["decision"] == APPROVE
    decision = Decision(seq, entry["act"][0], is_approval, entry["grant"])
    request = request._replace(decisions=(*request.decisions, decision))
    authority.requests[request.seq] = request if is_approval else request._replace(state=REJECTED, ended=seq)


def _take_withdrawal(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.requests[entry["request"]] = authority.requests[entry["request"]]._replace(state=WITHDRAWN, ended=seq)


def _take_void(authority: Authority, seq: int, entry: Mapping[str, Any]) -> None:
    authority.requests[entry["request"]] = authority.requests[entry["request"]]._replace(state=VOID, ended=seq)


_EFFECTS: Final[Mapping[str, Callable[[Authority, int, Mapping[str, Any]], None]]] = {
    "genesis": _take_first,
    "upgrade": _take_first,
    "roles": _take_roles,
    "principal_add": _take_principal,
    "principal_end": _take_end,
    "role_grant": _take_grant,
    "role_revoke": _take_revoke,
    "quorum": _take_quorum,
    "break_glass": _take_glass,
    "token_add": _take_token,
    "token_end": _take_token_end,
    "request": _take_request,
    "decision": _take_decision,
    "withdraw": _take_withdrawal,
    "void": _take_void,
}


# -- plain data, for checkpoints


def to_data(authority: Authority) -> dict[str, Any]:
    """The state as plain data."""
    requests = [
        [*request[:3], dict(request.effect), *request[4:8], [list(each) for each in request.decisions], request.ended]
        for request in authority.requests.values()
    ]
    return {
        "since": authority.since,
        "principals": [list(each) for each in authority.principals.values()],
        "grants": [list(each) for each in authority.grants.values()],
        "tokens": [list(each) for each in authority.tokens.values()],
        "requests": requests,
        "quorums": [[number, needed] for number, needed in sorted(authority.quorums.items())],
        "changed": sorted(map(list, authority.changed.items())),
        "spent": [[number, *spent] for number, spent in sorted(authority.spent.items())],
        "broken_glass": sorted(map(list, authority.broken_glass.items())),
        "raises": [[seq, number, list(approved)] for seq, (number, approved) in sorted(authority.raises.items())],
    }


def of_data(data: Mapping[str, Any]) -> Authority:
    """The state that plain data describe."""
    requests: dict[int, Proposal] = {}
    for *fields, decisions, ended in data["requests"]:
        made = [Decision(*each) for each in decisions]
        seq, at, principal, effect, population, was, why, state = fields
        requests[seq] = Proposal(seq, at, principal, effect, population, tuple(was), why, state, tuple(made), ended)
    return Authority(
        since=data["since"],
        principals={each[0]: Person(*each) for each in data["principals"]},
        grants={each[0]: Grant(*each) for each in data["grants"]},
        tokens={each[0]: _token(each) for each in data["tokens"]},
        requests=requests,
        quorums={number: dict(needed) for number, needed in data["quorums"]},
        changed=dict(data["changed"]),
        spent={number: (day, amount) for number, day, amount in data["spent"]},
        broken_glass={number: list(entries) for number, entries in data["broken_glass"]},
        raises={seq: (number, tuple(approved)) for seq, number, approved in data["raises"]},
    )


def _token(fields: Iterable[Any]) -> Token:
    seq, principal, roles, population, doors, *rest = fields
    return Token(seq, principal, tuple(roles), population, tuple(doors), *rest)
