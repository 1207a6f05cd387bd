"""A planned statement, paid for and answered; the same question again is answered from the record, without a charge."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import (
    BudgetExceeded,
    ChargedAgain,
    IdempotencyConflict,
    InvalidInput,
    OtherReason,
    Refused,
    Remedy,
)
from tallystick.ledger.chain import digest
from tallystick.ledger.denial import can_pay
from tallystick.ledger.filters import epsilon_alone
from tallystick.ledger.texts import AutoKey
from tallystick.printing import html_text, json_text, visible
from tallystick.tables.aggregates import public_bounds
from tallystick.tables.denial import with_plans
from tallystick.tables.epsilon_alone import require_stated
from tallystick.tables.keyset import PublicTable, public_table
from tallystick.tables.output import Columns, csv_text
from tallystick.tables.release import CONFIDENCE, Release
from tallystick.tables.reporting import words
from tallystick.tables.reporting.columns import too_noisy
from tallystick.tables.reporting.limits import limit_lines
from tallystick.tables.reporting.line import CELLS, Line, data_of
from tallystick.tables.reporting.plan import cost_words, details, labelled, summary
from tallystick.tables.reporting.report import Report
from tallystick.tables.run import Forms, answered_before, asked_before, release
from tallystick.tables.sources import COMPUTED, JOINED, Names, identity, public_file, says_limited
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.one_form import OneForm, one_form
from tallystick.tables.sql.statement import Statement, planned
from tallystick.tables.table import Table
from tallystick.wording import in_sql

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.filters import Amount
    from tallystick.tables.estimates import Noisy
    from tallystick.tables.parts import Part
    from tallystick.tables.plan import Plan
    from tallystick.tables.sql.after import Released

AUTOMATIC: Final = "sql-"
"""Beginning of the automatic keys of statements."""


@dataclass(frozen=True)
class Answered(Columns):
    """The table that a statement asked for.

    A column that is an aggregate as it is has ``_lower`` and ``_upper`` beside it, which hold its capped value in 95 of
    100 releases. ``release`` is what was paid for: the noisy numbers before HAVING, ORDER BY, arithmetic and names.
    """

    statement: Statement
    release: Release
    paid: str
    left: str
    epsilon: str = ""
    """The answer alone as epsilon; empty if the cost is an epsilon."""
    form: OneForm | None = None
    """Where an automatic key was used: the form of the question that was released, whose names ``release`` has."""

    @cached_property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns."""
        shown = self.release if self.form is None else self.form.shown(self.release)
        names, rows = self._released.rows(shown)
        columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
        return {name: list(column) for name, column in zip(names, columns, strict=True)}

    @property
    def _released(self) -> Released:
        """Steps on the released table: as earlier versions made it, if they stored the answer."""
        answer = self.release.answer
        has_computed, hides = bool(answer.get(COMPUTED)), says_limited(answer)
        return replace(self.statement.released, has_computed=has_computed, hides_computed=hides)

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns without noise: groups, and what is made of them alone."""
        released = self.statement.released
        return tuple(name for name in released.names if name not in released.noisy)

    @property
    def counts(self) -> tuple[str, ...]:
        """The columns that are a count of the release as it is."""
        released = self.statement.released
        fields = [field for field, measure in released.query.fields.items() if measure.counts]
        return tuple(name for name, column in released.plain.items() if column in fields)

    @property
    def limited(self) -> frozenset[str]:
        """The columns that limits per person touch."""
        return self.statement.released.limited if says_limited(self.release.answer) else frozenset()

    @property
    def fresh(self) -> bool:
        """True if it was released now; otherwise it is the answer that the record had, and nothing was charged."""
        return self.release.fresh

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person about these numbers."""
        statement = replace(self.statement, released=self._released)
        return (*statement.notes, *self._report.notes(self.removed(), self._noisy))

    @property
    def effect(self) -> str:
        """The effect of limits and bounds in one sentence; empty if it is small for certain."""
        return self._report.effect(self.removed())

    def details(self) -> list[str]:
        """Return what limits and bounds changed and what each column is, as lines for a terminal."""
        return self._report.details(self.changes)

    @property
    def _noisy(self) -> str:
        """Which means and quantiles are too noisy to use, of those that are shown as they are."""
        fields = self.statement.released.query.fields
        shown = {name: fields.get(column) for name, column in self.statement.released.plain.items()}
        kept = {name: ends for name, ends in public_bounds(shown).items() if f"{name}_lower" in self.data}
        return too_noisy(self, kept)

    def removed(self, *, confidence: float = CONFIDENCE) -> tuple[Line, ...]:
        """Numbers left out by caps and bounds, as ``Release.removed`` says it, under the statement's own names."""
        numbers, parts = self.release.numbers, self.statement.plan.query.removed
        if self.form is None or any(self.form.part(part) not in numbers for part in parts):
            return self.release.removed(confidence=confidence)
        found: dict[Part, Noisy] = {part: numbers[self.form.part(part)] for part in parts}
        return limit_lines(parts, found, confidence, self._report.who)

    @property
    def changes(self) -> tuple[Line, ...]:
        """Return what limits and bounds left out, and the number of all rows."""
        found = self.release.all_rows()
        return (*self.removed(), *([] if found is None else [found]))

    def about_csv(self) -> str:
        """Meaning of the columns and intervals and what the caps left out, as CSV text."""
        return csv_text(CELLS, self._report.about(self.changes, self._noisy))

    @property
    def called(self) -> dict[str, str]:
        """Names of the columns of ``release`` here, of those that are shown as they are."""
        return called(self.statement, self.form)

    @property
    def _report(self) -> Report:
        """Report beside the table, each measure under the name of the column that shows it."""
        released = self._released
        computed = tuple(self.headers[name] for name in released.computed)
        return Report(
            self.statement.plan, _outputs(self.statement, self.headers), computed, released.intervals,
            all_groups=self.all_groups, errors=self.standard_errors_shown(),
        )  # fmt: skip

    def standard_errors_shown(self) -> dict[str, float]:
        """Standard deviations of the noise of the columns that are shown as they are, where groups have the same."""
        found, names = self.release.standard_errors(), {} if self.form is None else self.form.names
        own = {name: names.get(column, column) for name, column in self.statement.released.plain.items()}
        return {self.headers[name]: found[column] for name, column in own.items() if column in found}

    def for_all_groups(self) -> Answered:
        """Return the answer with intervals that hold for all groups of a column together."""
        return replace(self, release=self.release.for_all_groups())

    @property
    def all_groups(self) -> bool:
        """True if the intervals of each column hold for all groups together."""
        return self.release.all_groups

    @property
    def cost(self) -> str:
        """Words for what was charged, and what is left."""
        receipt = self.release.receipt
        assert receipt is not None
        if self.fresh:
            return f"Charged {words.charged(self.paid, self.epsilon, receipt.charge, self.left)}"
        return words.asked_before(receipt.charge)

    def to_data(self) -> dict[str, Any]:
        """Rows, notes, what the caps left out, plan hash and receipt as JSON data."""
        receipt = None if self.release.receipt is None else json.loads(self.release.receipt.to_json())
        removed = [each.to_data() for each in self.removed()]
        content = {"plan": self.release.plan.hash, "rows": self.plain_rows()}
        return {
            "format": "tallystick/sql/1",
            **content,
            "notes": list(self.notes),
            "standard_errors": self.standard_errors_shown(),
            "removed": removed,
            "all_rows": data_of(self.release.all_rows()),
            "receipt": receipt,
        }

    def to_json(self) -> str:
        """Rows, notes, what the caps left out, plan hash and receipt as JSON text."""
        return json_text(json.dumps(self.to_data(), indent=1))

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return "\n".join([*self.lines(), "", *map(visible, self.notes), self.cost])

    def __repr__(self) -> str:
        return str(self)  # a terminal shows the table that was asked for

    def _repr_html_(self) -> str:
        notes = "".join(f"<p><small>{html_text(note)}</small></p>" for note in (*self.notes, self.cost))
        return f"{self.html()}{notes}"


def called(statement: Statement, form: OneForm | None) -> dict[str, str]:
    """The names that a statement gives to columns of its release, of those that are shown as they are."""
    inside = {} if form is None else form.names
    return {inside.get(column, column): outputs for column, outputs in _outputs(statement).items()}


def _outputs(statement: Statement, headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """By column of the question, the outputs that show it as it is; ``headers`` are their names in outputs."""
    shown: dict[str, list[str]] = {}
    for name, column in statement.released.plain.items():
        shown.setdefault(column, []).append(name if headers is None else headers[name])
    return {column: ", ".join(outputs) for column, outputs in shown.items()}


def names_of(statement: Statement, form: OneForm | None) -> Names:
    """The names that are recorded with the answer; an automatic key shares it with statements in other words."""
    return Names(called(statement, form), is_shared=form is not None)


@dataclass(frozen=True, slots=True)
class Explained:
    """Cost and error of a statement. No data was opened and nothing was charged."""

    statement: Statement
    paid: str
    left: str
    recorded: str = ""
    """The hash of the plan in the record, where an automatic key makes one record of every form of the question."""
    cost: str = ""
    """The cost beside what is left, and as epsilon, for people."""
    before: int | None = None
    """The charge that has the answer, so that asking costs nothing; None without such a charge."""
    paid_before: ChargedAgain | None = None
    """The warning that the record has the answer under another key."""
    is_denied: bool = False
    """True if the account cannot pay now."""

    @property
    def plan(self) -> Any:
        """The plan."""
        return self.statement.plan

    def __str__(self) -> str:
        plan = self.statement.plan
        lines = [*labelled("Cost", [self.cost or self.paid]), *summary(plan)]
        lines += [line for note in self.statement.notes for line in labelled("Note", [note])]
        if self.is_denied:
            lines += labelled("Note", ["the account cannot pay this now, so the statement would be denied"])
        lines.append(f"{self._record()} No data was read and nothing was charged.")
        return "\n".join(visible(line) for line in lines)

    def _record(self) -> str:
        """True if the record has the answer."""
        if self.before is not None:
            return f"Asked before: ledger entry {self.before} has the answer, and it costs nothing."
        return "Not asked before." if self.paid_before is None else f"{self.paid_before.text(in_sql)}."

    def details(self) -> list[str]:
        """Return how the answer would be made, as lines for a terminal."""
        released = self.statement.released
        lines = details(self.statement.plan)
        if self.recorded:
            lines.append(f"Plan in the record: {self.recorded[:16]}, shared by statements that ask the same.")
        if not released.unchanged:
            lines.append(f"After the noise, on the released table: {released.after.sql(dialect='duckdb')}")
        return [visible(line) for line in lines]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html_text(str(self))}</pre>"


def explained(statement: Statement, account: Account | None, *, key: str | None = None) -> Explained:
    """The cost in the account's currency, where there is an account, and whether the record has the answer."""
    plan, form = statement.plan, form_of(statement)
    recorded = "" if form is None else form.plan.hash
    if account is None:
        return Explained(statement, str(plan.privacy), "", recorded, cost_words(plan))
    price = plan.price(account)
    epsilon = _epsilon(plan, account, price)
    cost = price.of_left(account.remaining) + (f" ({epsilon})" if epsilon else "")
    named = statement.options.given.get("key", key)
    asked, name = (statement.plan, named) if form is None or named else (form.plan, key_of(statement, form))
    dataset = statement.released.known.dataset
    names = names_of(statement, None if named else form)
    earlier = None if name is None else answered_before(asked, account, key=name, dataset=dataset, names=names)
    left = account.remaining.text(upward=False)
    if earlier is not None:
        return Explained(statement, str(price), left, recorded, cost, earlier.charge)
    with statement.options.in_own_words():
        require_stated(plan, account)
    forms = other_forms(statement, asked_as(statement, key))
    before = asked_before(asked, account, dataset=dataset, names=names, forms=forms)
    is_denied = not can_pay(account, price)
    return Explained(statement, str(price), left, recorded, cost, paid_before=before, is_denied=is_denied)


def _epsilon(plan: Plan, account: Account, price: Amount) -> str:
    """Return the cost of a plan alone as epsilon; empty if the cost is an epsilon."""
    return epsilon_alone(plan.privacy, price, account.quoted_delta(float(price.delta)))


def answered(
    statement: Statement,
    account: Account | None,
    *,
    why: str | None,
    key: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Answered:
    """Pay for the statement and answer it.

    Without a key, a declared version of the data makes one: a caller who asks the same of it, in any words, gets the
    same bytes under the names that the statement has for them.
    """
    if account is None:
        raise Refused("no account pays for this statement: ts.Private(source, account=...)")
    asked, why = asked_as(statement, key), reason_of(statement, why)
    statement.released.rehearse()
    try:
        with quiet_reasons(asked), statement.options.in_own_words():
            made = release(
                asked.plan, asked.plan.account or account, why=why, key=asked.key, progress=progress,
                dataset=statement.released.known.dataset, names=asked.names, forms=other_forms(statement, asked),
            )  # fmt: skip
    except IdempotencyConflict as problem:
        if asked.form is None:
            raise
        said = (
            f"this statement was asked before and has no answer ({problem}); to pay and try again, give it another key"
        )
        remedies = [Remedy("set_argument", argument="key", value="again")]
        raise IdempotencyConflict(said, remedies=remedies).in_words_of("sql") from None
    except BudgetExceeded as problem:
        payer = asked.plan.account or account
        raise denied_statement(statement, problem, payer, statement.released.known.dataset) from None
    assert made.receipt is not None
    price, left = account.paid(made.receipt), account.remaining
    epsilon = _epsilon(statement.plan, account, price)
    return Answered(statement, made, str(price), left.of_limit(account.limit), epsilon, asked.form)


@dataclass(frozen=True, slots=True)
class AskedAs:
    """The plan and key that a statement is paid under; ``form`` is set if the key is automatic."""

    plan: Plan
    key: str | None
    form: OneForm | None
    names: Names


def asked_as(statement: Statement, key: str | None) -> AskedAs:
    """Return the statement under the key that it or its caller names, or in one form under an automatic key.

    The automatic key of the statement may be named too: it returns the stored answer.
    """
    named = statement.options.given.get("key", key)
    form = form_of(statement) if named is None or str(named).startswith(AUTOMATIC) else None
    own = None if form is None else key_of(statement, form)
    if form is None or named not in (None, own):
        return AskedAs(statement.plan, named, None, names_of(statement, None))
    return AskedAs(form.plan, own, form, names_of(statement, form))


def other_forms(statement: Statement, asked: AskedAs) -> Forms:
    """Return the plans under which the same question may have been paid for."""
    if asked.form is not None:
        return ((statement.plan, names_of(statement, None)),)
    form = one_form(statement.plan, statement.released.query)
    return ((form.plan, names_of(statement, form)),)


@contextmanager
def quiet_reasons(asked: AskedAs) -> Iterator[None]:
    """Under an automatic key, accept that an earlier caller of the same question had another reason."""
    with warnings.catch_warnings():
        if asked.form is not None:
            warnings.simplefilter("ignore", OtherReason)
        yield


def denied_statement(
    statement: Statement, problem: BudgetExceeded, account: Account, dataset: str | None
) -> BudgetExceeded:
    """The denial of a statement, with the smaller ones that fit; a cost in the statement overrides one beside it."""
    denial = with_plans(statement.plan, problem, account, dataset)
    remedies = statement.options.in_statement(denial.remedies)
    return denial.with_remedies(remedies).in_words_of("sql")


def reason_of(statement: Statement, why: str | None) -> str:
    """Why it is asked: the statement's own word, or the one beside it."""
    said = statement.options.given.get("why", why)
    if said is None:
        remedies = [Remedy("set_argument", argument="why", value="...")]
        raise InvalidInput("why", None, "the reason, which is kept in the record", remedies=remedies)
    return str(said)


def asked_of(
    text: str,
    tables: Sequence[Table],
    account: Account | None,
    *,
    why: str | None = None,
    key: str | None = None,
    keys: Mapping[str, Iterable[Any]] | None = None,
    key_delta: float | None = None,
    public: Mapping[str, Any] | None = None,
    version: str | None = None,
    progress: Callable[[str], None] | None = None,
    **budget: Any,
) -> Answered | Explained:
    """Ask tables in hand; see ``Private.sql``."""
    if not tables or not all(isinstance(table, Table) for table in tables):
        raise InvalidInput("tables", [type(table).__name__ for table in tables], "tables made with .table(unit=...)")
    listed = {name: tuple(values) for name, values in (keys or {}).items()}
    private = {}
    for table in tables:
        own = {name: values for name, values in listed.items() if name in table.schema.names}
        private[table.name] = Known(table, "", own, key_delta, version=version)
    rows = {name: _public(given, tables[0], account) for name, given in (public or {}).items()}
    statement = planned(text, Catalogue(private, rows), **budget)
    if statement.options.explain:
        return explained(statement, account, key=key)
    return answered(statement, account, why=why, key=key, progress=progress)


def _public(given: Any, table: Table, account: Account | None) -> PublicTable:
    """A public table that was named or given; a file is opened once, and none of the private ones."""
    if isinstance(given, PublicTable):
        return given
    if isinstance(given, str | Path):
        given = public_file(given, JOINED, table.source, None if account is None else account.ledger)
    return public_table(given)


def form_of(statement: Statement) -> OneForm | None:
    """The one form of a question about data with declared versions; without them every asking is a release."""
    if any(each.version is None for each in statement.released.uses):
        return None
    return one_form(statement.plan, statement.released.query)


def key_of(statement: Statement, form: OneForm) -> AutoKey:
    """The key of a question: its one form, which data, and which declared versions of them; never what is in them."""
    uses = {
        (each.dataset or identity(each.table.source, each.table.name), each.version) for each in statement.released.uses
    }
    return AutoKey(f"{AUTOMATIC}{digest(f'{form.plan.hash} {sorted(uses, key=str)}')[:32]}")
