"""An account: a population (or one of its blocks), its filter, its limit, and the only ways to spend from it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.ledger import acting, journal, opening, registry, views
from tallystick.ledger.chain import SourceId
from tallystick.ledger.filters import LARGEST, Amount, Filter, quoted_delta
from tallystick.ledger.journal import AccountRow, ChargeRow, Line, admit, short_accounts, would_spend
from tallystick.ledger.milestones import SpendingStatement, so_far
from tallystick.ledger.partition import Partition
from tallystick.ledger.pay import CHARGE_LEASE, LEASE, Charge, Receipt, Valued, pay, pay_elsewhere
from tallystick.ledger.texts import ERASED
from tallystick.place import shown
from tallystick.regular_file import real_path

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.signing import Signer
    from tallystick.ledger.store import Transaction
    from tallystick.ledger.training import Run

LOOKED_AT: Final = 100
"""Newest charges of an account among which answers about some data are looked for."""


class Priced(Protocol):
    """Anything with a privacy cost."""

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one release."""


@dataclass(frozen=True, slots=True)
class Event:
    """One charge as history shows it."""

    charge: int
    at: int
    state: str
    key: str
    why: str
    plan: str
    amount: Amount
    by: str = ""
    """Name of who asked; empty for charges of earlier versions, which did not record it."""
    principal: str = ""
    """Id of who asked."""

    @property
    def loss(self) -> PrivacyLoss | None:
        """The stored loss of the release; None if it is missing or cannot be read."""
        from tallystick.ledger.release_epsilon import stored_loss  # start-up: it loads the accountant

        return stored_loss(self.plan)

    @property
    def paid(self) -> bool:
        """True if it counts against the limit: everything but REFUNDED does."""
        return self.state != "REFUNDED"

    def to_dict(self) -> dict[str, object]:
        """The charge as plain data."""
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, "amount": self.amount.to_dict()}


class Spender(NamedTuple):
    """A person with the amounts spent. Charges of earlier versions do not name a person."""

    name: str
    principal: str
    charges: int
    amount: Amount


def _more_spent(known: Spender | None, event: Event) -> Spender:
    """The amounts of a person with one more charge."""
    name = event.by or "(not recorded)"
    if known is None:
        return Spender(name, event.principal, 1, event.amount)
    total = Amount(event.amount.filter, known.amount.a0 + event.amount.a0, known.amount.a1 + event.amount.a1)
    return Spender(name, event.principal, known.charges + 1, total)


class Account:
    """A budget for one population of protected units, guarded by one privacy filter.

    Get one from ``ledger.open(name, budget=...)``. What it promises is its **limit**, ``guarantee()``, and not what was
    used so far; a valid "so far" statement needs milestones declared when the account was opened.
    """

    def __init__(self, ledger: Ledger, row: AccountRow, path: tuple[tuple[int, int | None, str | None], ...]) -> None:
        self.ledger = ledger
        self.path = path
        self.id, self.name, self.kind, self.filter = row.id, row.name, row.kind, row.filter
        self.currency = Filter.named(row.filter)  # what it stops by; it never changes
        self.owner = row.owner
        self.unit, self.adjacency, self.partition = row.unit, row.adjacency, row.partition_name
        self.milestones: tuple[int, ...] = tuple(json.loads(row.milestones))
        self._last_terms: tuple[object, PrivacyLoss | None, str] = (None, None, "")

    @property
    def is_allowance(self) -> bool:
        """True if one person pays from this account, and the account above it pays the same."""
        return self.kind == journal.ALLOWANCE

    @property
    def kind_in_words(self) -> str:
        """The kind of the account as people read it: population, block or allowance."""
        return "allowance" if self.is_allowance else self.kind

    @property
    def shared_id(self) -> int:
        """The account that is meant when the same question is found again: that above an allowance."""
        return self.path[1][0] if self.is_allowance else self.id

    @property
    def promising(self) -> Account:
        """The account whose limit protects people: that above an allowance, from which others pay, too."""
        above = self.parent if self.is_allowance else None
        return self if above is None else above

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused(
            "an account cannot be copied, stored or sent to another process, because it holds an open ledger. Try: "
            f"ts.Ledger(place).open({self.name!r}) there; or threads, as joblib.Parallel(prefer='threads') makes them"
        )

    def _row(self) -> AccountRow:
        return self.ledger.account_row(self.name)

    @property
    def protects(self) -> Protects:
        """Whom this account protects: the unit it counts, and what makes two datasets neighbours."""
        return Protects(Adjacency(self.adjacency), self.unit)

    @property
    def limit(self) -> Amount:
        """The most that may ever be spent."""
        row = self._row()
        return self._amount(row.limit0, row.limit1)

    def _amount(self, a0: int, a1: int, *, rounds_up: bool = True) -> Amount:
        return Amount(self.currency, a0, a1, rounds_up=rounds_up, adjacency=self.adjacency)

    @property
    def used(self) -> Amount:
        """Amount that is spent or reserved, blocks included."""
        row = self._row()
        return self._amount(row.used0, row.used1)

    @property
    def remaining(self) -> Amount:
        """Limit less used. Its text is rounded down."""
        row = self._row()
        return self._amount(row.limit0 - row.used0, row.limit1 - row.used1, rounds_up=False)

    @property
    def closed(self) -> bool:
        """True if spending has been stopped for good."""
        return self._row().state == "closed"

    @property
    def parent(self) -> Account | None:
        """The account above, when this is a block."""
        return self.ledger.account_by_id(self.path[1][0]) if len(self.path) > 1 else None

    @property
    def children(self) -> list[Account]:
        """The blocks below."""
        return self.ledger.children_of(self.id)

    def partitions(self) -> list[Partition]:
        """Partitions of this block and of each block above it; a table must keep to all of them."""
        if self.kind == "population":
            return []
        return [self.ledger.partition_of(number) for number, _, name in self.path if name is not None]

    def guarantee(self) -> PrivacyLoss:
        """The loss this account promises never to exceed, against any adaptive analyst: its limit."""
        row = self._row()
        return self.currency.guarantee(row.limit0, row.limit1, self.protects)

    def quoted_delta(self, spent: float = 0.0) -> float:
        """The delta at which epsilon is shown for this account, everywhere; see ``filters.quoted_delta``."""
        return quoted_delta(self.limit, spent)

    def in_epsilon(self, amount: Amount) -> str:
        """An amount of this account as epsilon at ``quoted_delta``; empty if it is an epsilon already, or nothing."""
        return amount.as_epsilon_at(self.quoted_delta(float(amount.delta)))

    def release_epsilon(self, price: Amount, loss: PrivacyLoss | None) -> str:
        """Return the epsilon of one release at ``quoted_delta``; empty if its cost is an epsilon.

        It is read from the loss of the release. A charge without a stored loss has that of its cost.
        """
        from tallystick.ledger.release_epsilon import release_epsilon  # start-up: it loads the accountant

        return release_epsilon(loss, price, self.quoted_delta(float(price.delta)))

    def so_far(self, *, delta: float) -> SpendingStatement:
        """A valid (epsilon, delta) statement about what has been spent until now, at the milestone reached."""
        return so_far(self._row(), self.protects, delta=delta)

    def price(self, loss: PrivacyLoss, *, delta: float | None = None) -> Amount:
        """Return the cost of a plan here; charges nothing. ``delta`` is what the plan may spend of the delta limit."""
        from tallystick.ledger.denial import with_payable_delta
        from tallystick.ledger.pricing import price

        try:
            return price(loss, self.currency, self.protects, delta=delta)
        except Refused as problem:
            if problem.code != "needs_delta":
                raise
            raise with_payable_delta(
                problem, self, lambda other: price(loss, self.currency, self.protects, delta=other)
            ) from None

    def paid(self, receipt: Receipt) -> Amount:
        """Return what this account paid for a receipt, or what an allowance beside it paid for the same question."""
        for who, _, _, a0, a1 in receipt.lines:
            if who == self.id or self.ledger.account_by_id(who).shared_id == self.shared_id:
                return Amount(self.currency, a0, a1)
        raise InvalidInput("receipt", receipt.charge, f"a receipt of account {self.name!r}")

    def charge(
        self,
        loss: PrivacyLoss,
        *,
        why: str,
        key: str | None = None,
        delta: float | None = None,
        also: Sequence[Account] = (),
        lease: float = CHARGE_LEASE,
        request: str = "",
        source: str = "",
    ) -> Charge:
        """Charge a plan before data is touched, as a context manager: reserve and start, then commit or burn.

        The call alone charges nothing: enter it with ``with``, or use ``pay`` where there is no block of code.

        ``also`` names further accounts that pay the same plan, all or none. ``request`` is any public text that
        tells this request from others under the same key (a query, say); it must not contain data. ``source`` names
        the data that will be opened: a failure after the start then closes them until ``clear``.
        """
        return self.ledger.charge(
            loss, accounts=[self, *also], why=why, key=key, delta=delta, lease=lease, request=request, source=source
        )

    def pay(
        self,
        loss: PrivacyLoss,
        *,
        why: str,
        key: str | None = None,
        delta: float | None = None,
        also: Sequence[Account] = (),
    ) -> Receipt:
        """Charge now for a release that you make yourself, and return the receipt. No answer is stored.

        Call it before the release is made. The same key charges once and returns the same receipt. An account that
        cannot pay raises ``BudgetExceeded``, and then nothing is charged.
        """
        return pay_elsewhere(self, loss, why=why, key=key, delta=delta, also=also).receipt

    def reserve(self, loss: PrivacyLoss, *, why: str, key: str | None = None, **options: Any) -> Charge:
        """Take the amount without starting: give it back with ``refund()``, or ``start()`` and ``commit(answer)``."""
        return self.charge(loss, why=why, key=key, **options).reserve()

    def release(
        self,
        mechanism: Priced,
        value: Any,
        *,
        why: str,
        key: str | None = None,
        delta: float | None = None,
        also: Sequence[Account] = (),
        lease: float = LEASE,
    ) -> Any:
        """Charge, then compute, then store, then return the answer; the same key again returns the same answer.

        ``value`` may be a function without arguments: it is called only after the charge is durable (a mechanism whose
        input is a function, such as ``select.by_rejection``, gets the function). Type and shape are checked first and
        cost nothing; any failure after that keeps the charge.
        """
        is_priced = hasattr(type(mechanism), "privacy") or hasattr(mechanism, "privacy")  # without computing it
        if not is_priced:
            raise InvalidInput("mechanism", type(mechanism).__name__, "a mechanism, such as ts.noise.add_gaussian(...)")
        release = Valued(mechanism, value, *self._terms_of(mechanism))
        return pay(release, self, why=why, key=key, delta=delta, also=also, lease=lease).answer

    def training(self, loss: PrivacyLoss, *, steps: int, why: str, **options: Any) -> Run:
        """A run of ``steps`` steps that lose ``loss`` each, as a context manager; ``run.step()`` before every step.

        When steps or budget end, ``step`` leaves the ``with`` block quietly. The options are those of ``Run``:
        ``block``, ``whole``, ``key``, ``delta``, ``request`` and ``turn``.
        """
        from tallystick.ledger.training import Run

        return Run(self, loss, steps=steps, why=why, **options)

    def _terms_of(self, mechanism: Priced) -> tuple[PrivacyLoss, str]:
        """Return the loss and the description of a mechanism, remembered for the last one if it cannot change."""
        last, loss, described = self._last_terms
        if last is not mechanism or loss is None:
            loss, described = mechanism.privacy, _described(mechanism)
            if _immutable(mechanism):
                self._last_terms = (mechanism, loss, described)
        return loss, described

    def history(self, *, limit: int | None = None, after: int = 0) -> list[Event]:
        """The charges on this account itself, oldest first.

        ``limit`` is the largest number of charges, and ``after`` the ledger entry after which they begin: the last
        charge of one page is ``after`` of the next.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     for number in range(3):
        ...         _ = clinic.pay(ts.zcdp(rho=0.1), why=f"report {number}")
        ...     first = clinic.history(limit=2)
        ...     [event.why for event in clinic.history(limit=2, after=first[-1].charge)]
        ['report 2']
        """
        most = LARGEST if limit is None else check.count("limit", limit, least=1)
        with self.ledger.store.read() as transaction:
            rows = transaction.rows("charges_of", self.id, check.count("after", after), most)
            told = journal.told_states(transaction, [ChargeRow(*row[:8]) for row in rows])
            names = acting.names_in(transaction)
            is_new = [journal.is_new_format(transaction, row[0]) for row in rows]
        events = []
        for (*charge, a0, a1, text, reason), state, has_text in zip(rows, told, is_new, strict=True):
            row, body = ChargeRow(*charge), json.loads(text)
            paid = Amount(self.currency, a0, a1)
            why = (reason or ERASED) if has_text else body["why"]
            principal = body["act"][0] if "act" in body else ""
            by = names.get(principal, ERASED) if principal else ""
            events.append(Event(row.id, body["at"], state, row.key, why, body["plan"], paid, by, principal))
        return events

    def newest_answers(self, sources: Iterable[str], *, most: int = 20) -> Iterator[tuple[int, Any]]:
        """Yield the newest stored answers about some data that this account paid for, each with its ledger entry.

        ``sources`` are the digests of the data, and ``most`` the largest number of answers. They are answers that the
        caller may see: none without a role that may, and none that is withheld or was erased, or whose question was.

        >>> import pyarrow, tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     list(clinic.newest_answers(["no such data"]))
        []
        """
        if not self.ledger.may_see_answers(self):
            return
        wanted, found = set(sources), 0
        for charge in self._newest_charges(wanted):
            try:
                answer, _ = self.ledger.stored_answer(charge)
            except (Refused, Unavailable):  # erased, or withheld
                continue
            yield charge.id, answer
            found += 1
            if found == check.count("most", most, least=1):
                return

    def _newest_charges(self, sources: set[str]) -> list[ChargeRow]:
        """Return the newest charges about some data whose question was not erased, the newest first."""
        with self.ledger.store.read() as transaction:
            rows = [ChargeRow(*row) for row in transaction.rows("charges_newest", self.id, LOOKED_AT)]
            return [row for row in rows if _has_question(transaction, row.id, sources)]

    def spent_by(self) -> list[Spender]:
        """The amounts that each person spent from this account and those below it, the most first.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     _ = clinic.pay(ts.zcdp(rho=0.1), why="annual report")
        ...     [(each.charges, str(each.amount)) for each in clinic.spent_by()]
        [(1, 'rho 0.1')]
        """
        totals: dict[str, Spender] = {}
        accounts = [self]
        while accounts:
            account = accounts.pop()
            accounts += account.children
            for event in account.history():
                if event.paid:
                    known = totals.get(event.principal)
                    totals[event.principal] = _more_spent(known, event)
        return sorted(totals.values(), key=lambda each: (-each.amount.a0, -each.amount.a1, each.name))

    def limits_since(self, seq: int) -> list[Amount]:
        """The limit that was in force at this entry of the ledger, and every later one, in order."""
        with self.ledger.store.read() as transaction:
            self.ledger.believed(transaction)  # the seal of the newest entry, which the others lead to
            limits = opening.limits_of(transaction, self.id)
        earlier = [limit for at, limit in limits if at <= seq]
        later = [limit for at, limit in limits if at > seq]
        return [Amount(self.currency, *limit) for limit in (*earlier[-1:], *later)]

    def raise_limit(self, budget: PrivacyLoss, *, why: str, signer: Signer | None = None) -> Amount:
        """Raise the limit to ``budget`` (a refresh): a new entry with a reason, signed by the user's own key."""
        return opening.raise_limit(self.ledger, self, budget, why=why, signer=signer or self.ledger.signer())

    def close(self, *, why: str) -> None:
        """Stop all spending, for good."""
        opening.close_account(self.ledger, self, why=why)

    def register(
        self,
        dataset: str,
        *,
        source: Path | str | None = None,
        note: str = "",
        fixed: Mapping[str, str | None] | None = None,
        least_price: PrivacyLoss | None = None,
        update: bool = False,
        marks: Iterable[str] = (),
    ) -> None:
        """Record that a dataset, view or extract is about this population, for good.

        ``source`` is the path of a file, or a public text that says where the data are; it can belong to
        one population only (``tallystick dataset add`` also says whom it protects, and its caps and bounds). ``note``
        is public and kept in the chain, ``fixed`` is what no update may change (the unit), and ``least_price`` is what
        every plan on the source must cost (default: rho 0.0001 or epsilon 0.01). ``marks`` are further facts by which
        the same data are recognised under another name.
        """
        source = os.fspath(source) if isinstance(source, Path) else source
        if source is not None and (not isinstance(source, str) or os.path.isdir(source)):
            allowed = "a file, or a text that names the data; register each file"
            raise InvalidInput("source", shown(source) if isinstance(source, str) else source, allowed)
        if source is not None and os.path.isfile(source):
            source, *inodes = _names_of_file(source)
            marks = {*registry.checked_marks(marks), source, *inodes}
        registry.register(
            self,
            dataset,
            source=source,
            note=note,
            fixed=fixed or {},
            least_price=least_price,
            update=update,
            marks=marks,
        )

    def retire(self, dataset: str, *, why: str, dry_run: bool = False) -> None:
        """Close a registered dataset for new queries, for good. A dry run only raises what would be refused.

        Its source stays bound to this population, its unit, its limit and its closings. The source cannot be asked or
        registered under another name. A query that was paid for still returns its answer under its key.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     clinic.register("visits", source="the table of visits")
        ...     clinic.retire("visits", why="replaced by visits-2027")
        ...     ledger.datasets()["visits"].retired
        'replaced by visits-2027'
        """
        registry.retire(self, dataset, why=why, dry_run=dry_run)

    def remove(self, dataset: str, *, dry_run: bool = False) -> None:
        """Undo a wrong registration. Refused as soon as a charge may have used it; then ``retire`` closes it.

        A charge on the source counts, and every charge that the population has paid since the registration: the record
        does not say which other tables a join reads. The name and the place stay bound to the population and unit.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     clinic.register("visist", source="the table of visits")
        ...     clinic.remove("visist")
        ...     ledger.datasets()
        {}
        """
        registry.remove(self, dataset, dry_run=dry_run)

    def admit(self, price: Amount, *, source: str) -> None:
        """Raise the refusal that a plan of that cost on that source would get: closed, or below the least cost."""
        with self.ledger.store.read() as transaction:
            admit(transaction, SourceId.of(source), (Line(self.id, price.a0, price.a1, self.path),))

    def rehearse(self, price: Amount, *, source: str = "") -> None:
        """Raise the refusal or the denial that a charge of that cost would meet, here or above; charges nothing."""
        self.admit(price, source=source)
        with self.ledger.store.read() as transaction:
            would_spend(transaction, Line(self.id, price.a0, price.a1, self.path))

    def short_accounts(self, price: Amount) -> list[tuple[AccountRow, int, int]]:
        """Return the accounts that a charge would exceed, from this one upward, each with its part of the charge."""
        with self.ledger.store.read() as transaction:
            return short_accounts(transaction, Line(self.id, price.a0, price.a1, self.path))

    def failures(self) -> list[int]:
        """The failed charge that closed the population's data; later failures are shown by ``clear``."""
        return registry.failures(self)

    def clear(self, *, why: str, end_running: bool = False) -> list[int]:
        """Open the population's data again after failures; for their owner, who has looked at the operator's log.

        Refused while releases run that ran at the failure. ``end_running`` ends them: they stay paid, without an
        answer.
        """
        return registry.clear(self, why=why, end_running=end_running)

    def end_running(self, *, dry_run: bool = False) -> list[int]:
        """End the releases that run on closed data: they stay paid, without an answer. Return their charges.

        An owner may do it at once. So a request to clear the failure does not wait for them.

        >>> import tempfile, tallystick as ts
        >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        ...     slow = clinic.charge(ts.zcdp(rho=0.1), why="a report", source="the table of visits").begin()
        ...     clinic.charge(ts.zcdp(rho=0.1), why="another", source="the table of visits").begin().burn()
        ...     clinic.end_running() == [slow.id]
        True
        """
        return registry.end_running(self, dry_run=dry_run)

    def to_dict(self) -> dict[str, object]:
        """The account as plain data."""
        parent = self.parent
        return {
            "name": self.name,
            "kind": self.kind,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "filter": self.filter,
            "theorem": self.currency.rule.theorem,
            "limit": self.limit.to_dict(),
            "used": self.used.to_dict(),
            "left": self.remaining.to_dict(),
            "quoted_delta": self.quoted_delta(),
            "closed": self.closed,
            "parent": parent.name if parent else None,
            "lifetime": parent.used.to_dict() if parent else None,
            "blocks": [child.name for child in self.children],
        }

    def __repr__(self) -> str:
        row = self._row()
        used, limit = Amount(self.currency, row.used0, row.used1), Amount(self.currency, row.limit0, row.limit1)
        return f"<Account {self.name!r}: used {used} of {limit}, per {self.unit}, {self.currency.title}>"

    def _repr_html_(self) -> str:
        return views.account_html(self)


def _names_of_file(path: str) -> tuple[str, str, str]:
    """Return a file by its place and by its inode, as ``tables.identity`` names them. Links are resolved once."""
    place = real_path(path)
    with contextlib.suppress(OSError):
        status = os.stat(place, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            inode = f"inode {status.st_dev}:{status.st_ino}"
            return f"file {place}", inode, f"{inode}@{status.st_mtime_ns}"
    raise Unavailable(f"{shown(path)} was replaced while it was registered. Nothing was changed. Register it again")


def _has_question(transaction: Transaction, charge: int, sources: set[str]) -> bool:
    """Return whether a charge is about some data and the text of its question is there."""
    if journal.stored_entry(transaction, charge).get("source") not in sources:
        return False
    return not journal.is_new_format(transaction, charge) or transaction.row("text_at", charge, "request") is not None


def _described(mechanism: object) -> str:
    """Public parameters of a mechanism, to tell two requests under one key apart."""
    text = repr(mechanism)
    return type(mechanism).__qualname__ if " at 0x" in text else text[:10_000]


def _immutable(mechanism: object) -> bool:
    """True for a frozen dataclass of hashable parts: the same object always has the same cost."""
    parameters = getattr(type(mechanism), "__dataclass_params__", None)
    try:
        return bool(parameters and parameters.frozen and hash(mechanism) is not None)
    except TypeError:  # an array inside could be changed in place
        return False


def check_account(account: Any) -> None:
    """Raise if something else was given for an account, such as its name."""
    if not isinstance(account, Account):
        allowed = 'an account: ts.Ledger("budget.db").open("clinic", budget=...), or .open("clinic") if it exists'
        raise InvalidInput("account", account, allowed)
