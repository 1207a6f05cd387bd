"""A statement in SQL about registered datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallystick.cards import card
from tallystick.errors import BudgetExceeded, Refused
from tallystick.publish.catalogue import catalogue
from tallystick.publish.datasets import find, payer
from tallystick.publish.group_size import usual_size
from tallystick.publish.kinds import Kind
from tallystick.publish.outcome import Answer, Outcome, Payment
from tallystick.publish.work import Work, released_table
from tallystick.tables.keyset import PublicTable
from tallystick.tables.progress import Progress
from tallystick.tables.release import require_all_groups
from tallystick.tables.reporting.columns import person
from tallystick.tables.reporting.line import data_of
from tallystick.tables.reporting.noise import warned
from tallystick.tables.reporting.registered import other_people
from tallystick.tables.sql import answer as answers
from tallystick.tables.sql.statement import planned

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.pay import Receipt
    from tallystick.publish.request import Request
    from tallystick.tables.run import Forms
    from tallystick.tables.sql.answer import AskedAs
    from tallystick.tables.sql.statement import Statement as Planned


@dataclass(frozen=True, slots=True)
class Statement(Kind):
    """The text of a SELECT, and public tables that it may join."""

    text: str
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    account: str | None = None
    """Who pays: an allowance or a block. None is the only allowance of who asks, or the population."""
    all_groups: bool = False
    """True if the intervals of each column are to hold for all groups together."""

    def work(self, request: Request, book: Ledger) -> StatementWork:
        """Return the statement, planned; its cost is its own, that of the request, or the registered one."""
        statement = planned(self.text, catalogue(book, self.public, self.account), **request.cost.words)
        account, name = statement.plan.account, statement.released.known.dataset
        assert account is not None
        assert name is not None  # every table of a ledger's catalogue is registered
        payer(find(name, book), book, self.account)  # it refuses an account that cannot pay for these data
        asked = answers.asked_as(statement, request.key)
        why = statement.options.given.get("why", request.why) or ""
        dataset = find(name, book)
        others = other_people(statement.plan.query, dataset.about, person(statement.plan))
        statement = statement.with_notes(others)
        if self.all_groups:
            require_all_groups(statement.plan)
        return StatementWork(
            account, dataset, why, asked.key, asked.plan, statement, asked, names=asked.names,
            all_groups=self.all_groups,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class StatementWork(Work):
    """A planned statement; ``plan`` is the one form of its question if its key is automatic."""

    statement: Planned
    asked: AskedAs

    def denial(self, problem: BudgetExceeded) -> BudgetExceeded:
        """Return a denial with smaller plans, in the statement's own words and order."""
        return answers.denied_statement(self.statement, problem, self.account, self.dataset.name)

    def refusal(self, problem: Refused) -> Refused:
        """Return a refusal with costs that fit, as options of the statement if it names a cost."""
        refusal = Work.refusal(self, problem)
        return refusal.with_remedies(self.statement.options.in_statement(refusal.remedies))

    def facts(self, sizes: Sequence[int]) -> dict[str, Any]:
        """Return what EXPLAIN says."""
        explained, plan = self.explained(), self.statement.plan
        own = {"hash": plan.hash, "error": plan.error(), "notes": self.statement.notes, "again": explained.before}
        shown = {"explained": str(explained), "details": tuple(explained.details())}
        return {**Work.facts(self, sizes), **own, **shown}

    def noise(self) -> str:
        """Return which columns of the statement will be mostly noise; EXPLAIN says it in its own way."""
        plan = self.statement.plan
        explained = self.statement.options.explain
        return "" if explained else warned(plan, usual_size(plan, self.dataset, self.account))

    def rehearse(self) -> Receipt | None:
        """Check everything up to the charge, and what is done with the answer; no row is read."""
        answers.reason_of(self.statement, self.why or None)
        self.statement.released.rehearse()
        with answers.quiet_reasons(self.asked), self.statement.options.in_own_words():
            return Work.rehearse(self)

    def answer(self, progress: Progress) -> Answer:
        """Return the table that the statement asks for; EXPLAIN gives an offer, and nothing is charged."""
        if self.statement.options.explain:
            return Answer(Outcome(self.key, offer=self.offer(), dry_run=True), self.explained(), _no_card)
        with self.asking():
            made = answers.answered(
                self.statement, self.account, why=self.why or None, key=self._named, progress=progress
            )
        made = replace(made, release=self.read(made.release))
        removed = [each.to_data() for each in made.removed()]
        facts: dict[str, Any] = {"plan_hash": made.release.plan.hash, "removed": removed, "effect": made.effect}
        facts |= {"standard_errors": made.standard_errors_shown(), "all_groups": self.all_groups}
        facts["all_rows"] = data_of(made.release.all_rows())
        shown = {"notes": made.notes, "details": tuple(made.details())}
        found = {"table": released_table(made), "facts": facts, **shown}
        return Answer(self.outcome(made.release.receipt, fresh=made.fresh, **found), made, lambda: card(made))

    def forms(self) -> Forms:
        """Return the statement in its own words if it is asked in its one form, and the one form if not."""
        return answers.other_forms(self.statement, self.asked)

    def say_changed(self, payment: Payment) -> None:
        """Warn of data that changed if the key is automatic: a statement may name its own."""
        if self._named is None:
            Work.say_changed(self, payment)

    @property
    def _named(self) -> str | None:
        """The key that was given; None if it is automatic."""
        return self.key if self.asked.form is None else None

    def explained(self) -> answers.Explained:
        """Return cost, error and whether the record has the answer."""
        return answers.explained(self.statement, self.account, key=self._named)


def _no_card() -> Any:
    raise Refused("EXPLAIN releases nothing, so there is nothing that a card could promise")


KIND = Statement
