"""A model of roles, requests and allowances, from the rules in words; and a machine that compares it with the ledger.

The model knows one population. It holds no entries and no hashes: only who has which role since when, the requests with
what they saw, and the numbers.
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crash.stores import Clock, spend
from ramdisk import quick_folder
from tallystick.accounting.losses import zcdp
from tallystick.errors import BudgetExceeded, InvalidInput, NotAuthorised, Refused
from tallystick.ledger import Budget, Filter, Ledger
from tallystick.ledger.offline import verify_export

PEOPLE = ("root", "ann", "bob", "cat", "dan", "eve")
ROLES = ("owner", "approver", "analyst")
CLASSES = ("money", "people")
DAYS_30 = 30 * 86_400


class No(Exception):
    """The model refuses."""


@dataclass
class Grant:
    order: int
    who: str
    role: str


@dataclass
class Wish:
    """A request: who asks, for what, and what was seen."""

    order: int
    at: float
    who: str
    what: tuple[Any, ...]
    seen: Any
    state: str = "OPEN"
    votes: dict[str, Grant] = field(default_factory=dict)


@dataclass
class Model:
    """People of one population. Every method does what was asked, or raises ``No``."""

    limit: int = 100
    used: int = 0
    order: int = 0
    changed: int = 0  # order of the newest change of owners, approvers and numbers of approvals
    now: float = 0.0
    grants: list[Grant] = field(default_factory=lambda: [Grant(0, "root", "owner")])
    ended: set[str] = field(default_factory=set)
    quorum: dict[str, int] = field(default_factory=dict)
    wishes: dict[int, Wish] = field(default_factory=dict)
    allowances: dict[str, tuple[str, int, int]] = field(default_factory=dict)  # owner, limit, used

    def has(self, who: str, role: str) -> bool:
        return any((grant.who, grant.role) == (who, role) for grant in self.grants)

    def number(self, role: str) -> int:
        return sum(grant.role == role for grant in self.grants)

    def needed(self, about: str) -> int:
        """How many must approve: what was set, or 1 if there are two approvers, and 2 if there are four."""
        approvers = self.number("approver")
        return self.quorum.get(about, 2 if approvers >= 4 else 1 if approvers >= 2 else 0)

    @staticmethod
    def about(what: tuple[Any, ...]) -> str:
        if what[0] in ("raise", "allow"):
            return "money"
        return "people" if what[0] == "quorum" or what[2] in ("owner", "approver") else ""

    def may_ask(self, who: str, what: tuple[Any, ...]) -> bool:
        if what[0] == "raise":
            return any(self.has(who, role) for role in ROLES)
        if what[0] == "allow":
            return self.has(who, "owner") or self.has(who, "analyst")
        approver_may = self.about(what) == "people" and self.has(who, "approver")
        return self.has(who, "owner") or approver_may

    def may_alone(self, who: str, what: tuple[Any, ...]) -> bool:
        is_daily = what[0] == "allow" or self.about(what) == ""
        return self.has(who, "owner") and (is_daily or self.needed(self.about(what)) == 0)

    def do(self, who: str, what: tuple[Any, ...]) -> None:
        """Act at once."""
        if not self.may_alone(who, what):
            raise No
        self.effect(what)

    def effect(self, what: tuple[Any, ...]) -> None:
        self.order += 1
        kind, *rest = what
        if kind == "raise":
            if rest[0] <= self.limit:
                raise No
            self.limit = rest[0]
        elif kind == "allow":
            whose, name, limit = rest
            if name in self.allowances or not (self.has(whose, "owner") or self.has(whose, "analyst")):
                raise No
            self.allowances[name] = whose, limit, 0
        elif kind == "grant":
            if self.has(*rest) or rest[0] in self.ended:
                raise No
            self.grants.append(Grant(self.order, *rest))
        elif kind == "revoke":
            self.take(*rest)
        else:
            about, least = rest
            if least and self.number("approver") < least + 1:
                raise No
            self.quorum[about] = least
        if self.about(what) == "people":
            self.changed = self.order

    def take(self, who: str, role: str) -> None:
        """Take a role, unless nobody could decide without it."""
        if not self.has(who, role):
            raise No
        left = self.number(role) - 1
        needed = max(self.needed(about) for about in (*CLASSES, "data"))
        if (role == "owner" and not left) or (role == "approver" and needed and left < needed + 1):
            raise No
        self.grants = [grant for grant in self.grants if (grant.who, grant.role) != (who, role)]

    def end(self, by: str, who: str) -> None:
        """The operator ends somebody everywhere: ``root`` is the operator."""
        if by != "root" or who in ("root", *self.ended):
            raise No
        before = list(self.grants)
        self.order += 1
        mine = [grant for grant in self.grants if grant.who == who]
        for grant in mine:
            self.grants = before
            self.take(grant.who, grant.role)
        self.grants = [grant for grant in before if grant.who != who]
        self.ended.add(who)
        self.changed = self.order if {grant.role for grant in mine} & {"owner", "approver"} else self.changed

    def sees(self, what: tuple[Any, ...]) -> Any:
        if what[0] == "raise":
            return self.limit
        if what[0] == "allow":
            return what[2] in self.allowances
        return self.changed

    def ask(self, number: int, who: str, what: tuple[Any, ...]) -> None:
        self.order += 1
        self.wishes[number] = Wish(self.order, self.now, who, what, self.sees(what))

    def is_open(self, wish: Wish) -> bool:
        return wish.state == "OPEN" and self.now - wish.at <= DAYS_30

    def right(self, who: str, wish: Wish) -> Grant | None:
        """The role by which somebody decides: it is older than the request."""
        roles = ("approver",) if self.needed(self.about(wish.what)) else ("approver", "owner")
        mine = [grant for grant in self.grants if grant.who == who and grant.role in roles and grant.order < wish.order]
        return min(mine, default=None, key=lambda grant: grant.order)

    def counts(self, who: str, grant: Grant, wish: Wish) -> bool:
        roles = ("approver",) if self.needed(self.about(wish.what)) else ("approver", "owner")
        return grant in self.grants and grant.role in roles and who != wish.who

    def vote(self, who: str, number: int, *, yes: bool) -> str:
        wish = self.wishes[number]
        if not self.is_open(wish):
            raise No
        if yes and (self.sees(wish.what) != wish.seen or not self.may_ask(wish.who, wish.what)):
            wish.state = "VOID"
            return "VOID"
        grant = self.right(who, wish)
        if who == wish.who or who in wish.votes or grant is None:
            raise No
        if not yes:
            wish.state = "REJECTED"
            return "REJECTED"
        votes = {**wish.votes, who: grant}
        good = sum(self.counts(each, role, wish) for each, role in votes.items())
        if good >= max(1, self.needed(self.about(wish.what))):
            self.effect(wish.what)
            wish.state = "EXECUTED"
        wish.votes = votes
        self.order += 1
        return wish.state

    def withdraw(self, who: str, number: int) -> None:
        wish = self.wishes[number]
        if wish.state != "OPEN" or wish.who != who or who in self.ended:
            raise No
        wish.state = "WITHDRAWN"

    def pay(self, who: str, name: str, amount: int) -> None:
        """Pay from the population, or from an allowance and the population together."""
        if name == "clinic":
            if not self.has(who, "owner") or self.used + amount > self.limit:
                raise No
        else:
            whose, limit, used = self.allowances[name]
            has_role = self.has(who, "owner") or self.has(who, "analyst")
            if whose != who or not has_role or used + amount > limit or self.used + amount > self.limit:
                raise No
            self.allowances[name] = whose, limit, used + amount
        self.used += amount


def budget(amount: int) -> Budget:
    return Budget(Filter("zcdp"), amount, 0)


class Machine(RuleBasedStateMachine):
    """The same actions on the model and on the ledger."""

    seen: ClassVar[Counter[str]] = Counter()
    """How often requests ended how, and which rules refused: a walk that never gets anywhere compares nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=quick_folder())
        self.model, self.clock = Model(), Clock()
        self.start = self.clock.seconds
        self.ledger = Ledger(f"{self.folder.name}/ledger.db", config=self.folder.name, clock=self.clock)
        self.ledger.open("clinic", budget=budget(100), unit="person")
        self.ledger.govern(why="a team")
        self.ledger.team.begin(why="a team")
        self.ids = {"root": self.ledger.actor} | {name: self.ledger.team.add(name) for name in PEOPLE[1:]}
        self.steps = 0

    def by(self, who: str) -> Ledger:
        return self.ledger.acting_for(self.ids[who])

    def both(self, mine: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        """Do it in both, and compare: refused or not, and what comes out."""
        before = copy.deepcopy(self.model)
        try:
            expected = mine()
        except No:
            self.model, expected = before, No
        head = self.ledger.head()
        try:
            found = theirs()
        except (Refused, NotAuthorised, BudgetExceeded, InvalidInput) as refusal:
            if expected is not No:
                raise
            assert self.ledger.head() == head
            self.seen[getattr(refusal, "code", "") or type(refusal).__name__] += 1
        else:
            self.seen[expected or "done"] += 1
            assert expected is not No, "the ledger allows it"
            assert found == expected or expected is None

    def carry_out(self, book: Ledger, what: tuple[Any, ...]) -> Any:
        kind, *rest = what
        if kind == "raise":
            return book.open("clinic").raise_limit(budget(rest[0]), why="x")
        if kind == "allow":
            return book.team.allow(self.ids[rest[0]], "clinic", amount(rest[2]), called=rest[1], why="x")
        if kind == "quorum":
            return book.team.set_quorum("clinic", {rest[0]: rest[1]}, why="x")
        act = book.team.grant if kind == "grant" else book.team.revoke
        return act(self.ids[rest[0]], rest[1], "clinic", why="x")

    people = st.sampled_from(PEOPLE)
    askers = st.sampled_from((*PEOPLE, "root", "root", "ann"))
    chances = st.integers(0, 9)
    whats = st.one_of(
        st.tuples(st.just("raise"), st.integers(90, 130)),
        st.tuples(st.just("allow"), people, st.sampled_from(["one", "two", "three"]), st.integers(1, 60)),
        st.tuples(st.just("grant"), people, st.sampled_from(ROLES)),
        st.tuples(st.just("grant"), people, st.just("approver")),
        st.tuples(st.just("revoke"), people, st.sampled_from(ROLES)),
        st.tuples(st.just("quorum"), st.sampled_from(CLASSES), st.integers(0, 3)),
    )

    @rule(who=people, what=whats)
    def act(self, who: str, what: tuple[Any, ...]) -> None:
        self.both(lambda: self.model.do(who, what), lambda: self.carry_out(self.by(who), what))

    @initialize(approvers=st.sampled_from([0, 1, 2, 3, 4, 4]))
    def begin(self, approvers: int) -> None:
        """Give roles, with the approvals that this needs."""
        self.act("root", ("grant", "ann", "analyst"))
        for name in ("bob", "cat", "dan", "eve")[:approvers]:
            if self.model.needed("people") == 0:
                self.act("root", ("grant", name, "approver"))
            else:
                self.ask("root", ("grant", name, "approver"))
                for _ in range(self.model.needed("people")):
                    self.decide(5, 0, True)

    @rule(who=askers, what=whats)
    def ask(self, who: str, what: tuple[Any, ...]) -> None:
        if what[0] == "raise" and what[1] > 100:
            what = ("raise", self.model.limit + what[1] - 100)
        try:
            number = self.by(who).team.request(lambda book: self.carry_out(book, what), why="x")
        except InvalidInput:  # nothing that could be requested, as a limit that falls
            return
        except (Refused, NotAuthorised):
            is_moot = what[0] == "raise" and what[1] <= self.model.limit
            assert who in self.model.ended or is_moot or not self.model.may_ask(who, what)
            return
        assert who not in self.model.ended
        assert self.model.may_ask(who, what)
        self.model.ask(number, who, what)

    @precondition(lambda self: self.model.wishes)
    @rule(chance=chances, pick=st.integers(0, 3), yes=st.sampled_from([True, True, True, False]))
    def decide(self, chance: int, pick: int, yes: bool) -> None:
        """Mostly an approver who has not decided yet, and the newest of them as often as the first."""
        number = self.wish(pick)
        wish = self.model.wishes[number]
        new = [each.who for each in self.model.grants if each.role == "approver" and each.who not in wish.votes]
        who = new[-1 if chance > 6 else 0] if new and chance > 2 else PEOPLE[(chance + pick) % len(PEOPLE)]
        team = self.by(who).team

        def theirs() -> str:
            return (team.approve if yes else team.reject)(number, why="x").state

        if who in self.model.ended:
            self.both(self.refuse, theirs)
        else:
            self.both(lambda: self.model.vote(who, number, yes=yes), theirs)

    def refuse(self) -> None:
        raise No

    def wish(self, pick: int) -> int:
        """One of the newest requests, mostly one that is open."""
        waiting = [number for number, wish in self.model.wishes.items() if wish.state == "OPEN"]
        numbers = list(self.model.wishes) if pick == 3 or not waiting else waiting
        return numbers[-1 - pick % len(numbers)]

    @precondition(lambda self: self.model.wishes)
    @rule(who=people, pick=st.integers(0, 3))
    def withdraw(self, who: str, pick: int) -> None:
        number = self.wish(pick)
        self.both(lambda: self.model.withdraw(who, number), lambda: self.by(who).team.withdraw(number) and None)

    @rule(who=people, whom=people)
    def end(self, who: str, whom: str) -> None:
        if self.model.number("owner") and len(self.model.ended) < 2:
            self.both(
                lambda: self.model.end(who, whom), lambda: self.by(who).team.end(self.ids[whom], why="x") and None
            )

    @rule(who=people, amount=st.integers(1, 40), pick=st.integers(0, 3))
    def pay(self, who: str, amount: int, pick: int) -> None:
        names = ["clinic", *self.model.allowances]
        name = names[pick % len(names)]
        self.steps += 1

        def theirs() -> None:
            with spend(self.by(who).open(name), amount, key=f"{self.steps}"):
                pass

        self.both(lambda: self.model.pay(who, name, amount), theirs)

    @rule(days=st.sampled_from([1, 16]))
    def wait(self, days: int) -> None:
        self.clock.seconds += days * 86_400
        self.model.now = self.clock.seconds - self.start

    @invariant()
    def the_numbers_agree(self) -> None:
        clinic = self.ledger.open("clinic")
        assert (clinic.limit.a0, clinic.used.a0) == (self.model.limit, self.model.used)
        for name, (_, limit, used) in self.model.allowances.items():
            account = self.ledger.open(name)
            assert (account.limit.a0, account.used.a0) == (limit, used)

    def teardown(self) -> None:
        states = {each.number: each.state for each in self.ledger.team.requests()}
        with self.ledger.store.read() as transaction:
            authority = self.ledger.believed(transaction).authority
        roles = {(name, each) for name, number in self.ids.items() for each in authority.roles_of(number, None)}
        mine = {(grant.who, grant.role) for grant in self.model.grants} | {("root", "operator")}
        assert roles == mine
        for number, wish in self.model.wishes.items():
            assert (states[number] == "EXECUTED") == (wish.state == "EXECUTED")
        assert self.ledger.verify().problems == ()
        assert verify_export(self.ledger.export(level="chain")).problems == ()
        self.ledger.close()
        self.folder.cleanup()


def amount(units: int) -> Any:
    """A privacy loss of exactly so many units."""
    return zcdp(rho=units / 10**12)
