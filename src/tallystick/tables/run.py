"""A plan at work: what is looked at before it is paid for, the integers it computes after that, and their noise."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tallystick.errors import (
    BelowLeastPrice,
    BudgetExceeded,
    ChargedAgain,
    InvalidInput,
    Refused,
    Remedy,
    TallystickError,
    Unavailable,
)
from tallystick.ledger.chain import SourceId
from tallystick.ledger.pay import charged_delta, find_answer, paid_before, pay, rehearse, stored_answer
from tallystick.ledger.pay import check_key as pay_check_key
from tallystick.ledger.retirement import retired
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.tables.denial import with_plans, with_prices
from tallystick.tables.dialects import SATURATED_TOTAL
from tallystick.tables.epsilon_alone import require_stated
from tallystick.tables.identity import Recognised, newest_file, recognise
from tallystick.tables.keyset import PublicTable
from tallystick.tables.parts import MOST_NUMBERS, UNITS, Binned, Integers, OfTable, Part
from tallystick.tables.program import HERE, TAKEN, Program, Sorting, compiled, share_of, taken, uploads, views
from tallystick.tables.progress import Progress, reported
from tallystick.tables.reader import Reader, open_engine, open_reader, quiet
from tallystick.tables.release import Release, answer_of
from tallystick.tables.schema import UNSUPPORTED, said
from tallystick.tables.sorting import MOST_BYTES, sums_of
from tallystick.tables.sources import (
    BESIDE,
    NO_NAMES,
    Names,
    check_limits,
    identity,
    request,
)
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from sqlglot import exp

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt
    from tallystick.ledger.registry import Registered
    from tallystick.tables.engines.base import Engine, SortingEngine
    from tallystick.tables.table import Plan, Query, Table

Forms = Sequence[tuple["Plan", Names]]
"""Other plans of the same question, with the names that a statement gives to their columns."""
CELLS, TOTALS, REMOVED = "cells", "totals", "limits and bounds"

ROWS_PER_SHARE = 3_000_000
"""Cells of this many rows take about a third of a gigabyte. What counts of a larger table is read once and kept, and
each share of the units is worked through in the memory of the one before: that costs what fresh memory would. Rows with
texts are not kept, however many: four million of one person's, in a file of 2 MB, took 16 GB.
"""


@dataclass(frozen=True, slots=True)
class Exact:
    """Integers per group before noise. They never leave this module except into tests."""

    keys: list[tuple[Any, ...]] | None
    numbers: dict[Part, Integers]
    removed: dict[OfTable, Integers] = field(default_factory=dict)
    """One integer of the whole table each."""


@dataclass(frozen=True, slots=True)
class Way:
    """Way in which integers are made: by sorting or by stages, and in how many shares of units one after the other."""

    sorting: Sorting | None
    shares: int
    most_rows: int = 0
    """Rows that are sorted at once, about: a share may have half as many more."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One run of a plan on an opened source, as the ledger's payer sees it (``ledger.pay.Payable``).

    ``source`` is the id under which the ledger charges the data and closes them when this run fails.
    """

    asked: Asked
    reader: Reader
    source: SourceId
    beside: tuple[SourceId, ...] = ()
    """The ids of the other tables of a join."""
    progress: Progress = None

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of the plan."""
        return self.asked.plan.privacy

    @property
    def request(self) -> str:
        """The plan, its data and its column names: under one key, another of them is another request."""
        return self.asked.request

    @property
    def older_request(self) -> str:
        """The request as earlier versions recorded it."""
        return self.asked.older_request

    @property
    def in_other_words(self) -> tuple[str, ...]:
        """The requests that ask the same question in another form."""
        return self.asked.in_other_words

    def preflight(self) -> None:
        """The source is there and would run the plan."""
        worker = self.reader.worker
        if worker is None:
            preflight(self.asked.plan, self.reader)
        else:
            worker.preflight(self.asked.plan)

    def draw(self) -> dict[str, Any]:
        """Integers and their noise, with the names of the columns that were asked for."""
        plan, worker = self.asked.plan, self.reader.worker
        if worker is None:
            answer = noisy_answer(plan, self.reader, self.progress)
        else:
            answer = worker.draw(plan, self.progress)
        return answer | self.asked.called.to_data()


@dataclass(frozen=True, slots=True)
class Asked:
    """A plan, who pays, and the names that its data have before they are opened.

    The names come from paths and URLs, and are resolved once. They tell requests apart; they decide no right.
    """

    plan: Plan
    account: Account
    dataset: str | None
    names: tuple[str, ...]
    called: Names = NO_NAMES
    """The names that a statement in SQL gives to columns of the plan."""
    forms: Forms = ()

    @classmethod
    def of(
        cls, plan: Plan, account: Account, dataset: str | None, called: Names = NO_NAMES, forms: Forms = ()
    ) -> Asked:
        """The names of the tables that take part, the first one's first."""
        source = plan.query.table.source
        names = [identity(source, leaf.name) for leaf in plan.query.table.leaves()]
        if source.unnamed:  # a table in memory is named by who pays for it
            names = [f"{name} of {account.name}" for name in names]
        return cls(plan, account, dataset, tuple(names), called, forms)

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of the plan."""
        return self.plan.privacy

    @property
    def request(self) -> str:
        """The plan, its data and its column names: under one key, another of them is another request."""
        return self._request(None if self.called.is_shared else self.called.called)

    @property
    def older_request(self) -> str:
        """The request without the names of the columns, as earlier versions recorded it."""
        has_names = bool(self.called.called) and not self.called.is_shared
        return self._request(None) if has_names else ""

    @property
    def in_other_words(self) -> tuple[str, ...]:
        """The requests that ask the same question in another form or under other names.

        A registered file has two names: its dataset, and its path in a program.
        """
        forms = [self, *(replace(self, plan=plan, called=called) for plan, called in self.forms)]
        named = [replace(form, dataset=dataset) for form in forms for dataset in self._datasets()]
        return tuple(text for form in named for text in (form.request, form._request(None)))

    def _datasets(self) -> list[str | None]:
        """The names under which the data can be asked, None for the place itself."""
        if self.plan.query.table.source.unnamed:
            return [self.dataset]
        own = self.account.ledger.names_of(self.names[0])
        return list(dict.fromkeys([self.dataset, None, *own]))

    def _request(self, called: Mapping[str, str] | None) -> str:
        first, *others = self.names
        table = self.plan.query.table
        data = f"source {first}" if self.dataset is None else f"dataset {self.dataset}"
        if table.source.kind == BESIDE:  # the plan does not name the files of the other tables
            ledger = self.account.ledger
            data += "".join(f" and {ledger.names_of(name) or name}" for name in dict.fromkeys(others))
        return request(self.plan.hash, table.name, data, called)

    @contextlib.contextmanager
    def opened(self, *, rows: bool = True) -> Iterator[tuple[Reader, tuple[SourceId, ...]]]:
        """Open the source once, recognise its data and check that this account may ask this plan of them.

        Yield the reader and the id of each table that takes part, the first one's first. Nothing is charged yet.
        What is recognised here is what the reader's engine reads.
        """
        with open_reader(self.plan.query.table.source, rows=rows, tables=_leaves(self.plan)) as reader:
            known = self._recognised(reader)
            check_allowed(self.plan, self.account, self.dataset, known)
            yield reader, tuple(each.source for each in known)

    def _recognised(self, reader: Reader) -> list[Recognised]:
        """Return what the account's ledger knows of the data of every table that takes part."""
        found = []
        for leaf, name in zip(self.plan.query.table.leaves(), self.names, strict=True):
            own = reader.identity(leaf.name)
            if reader.source.unnamed:
                own = replace(own, name=name)
            if own.name != name:  # a link was changed between two looks at it
                message = f"the path of table {leaf.name!r} leads to another file than a moment ago"
                raise Unavailable(f"{message}; nothing was charged. Ask again")
            found.append(own)
        return recognise(self.account.ledger, found)


def release(
    plan: Plan,
    account: Account,
    *,
    why: str,
    key: str | None,
    progress: Progress,
    dataset: str | None,
    names: Names = NO_NAMES,
    forms: Forms = (),
) -> Release:
    """Pay for a plan and run it; see ``Plan.release``."""
    delta = charged_delta(account, plan.delta)
    asked = Asked.of(plan, account, dataset, names, forms)
    try:
        paid = stored_answer(asked, account, why=why, key=key, delta=delta)
        if paid is None:
            require_stated(plan, account)
            with reported(progress) as tell, asked.opened() as (reader, (source, *beside)):
                run = PlanRun(asked, reader, source, tuple(beside), tell)
                paid = pay(run, account, why=why, key=key, delta=delta)
    except BudgetExceeded as problem:
        raise with_plans(plan, problem, account, dataset) from None
    except Refused as problem:
        raise with_prices(plan, problem, account) from None
    names.require_same(paid.answer, key)
    return Release(plan, paid.answer, paid.receipt, fresh=paid.fresh)


def rehearsed(
    plan: Plan,
    account: Account,
    *,
    why: str,
    key: str | None,
    dataset: str | None,
    names: Names = NO_NAMES,
    forms: Forms = (),
) -> Receipt | None:
    """Raise what ``release`` would before it charges; the receipt where the key has its answer. No row is read."""
    delta = charged_delta(account, plan.delta)
    asked = Asked.of(plan, account, dataset, names, forms)
    try:
        paid = stored_answer(asked, account, why=why, key=key, delta=delta)
        if paid is not None:
            return paid.receipt
        require_stated(plan, account)
        with asked.opened(rows=False) as (reader, (source, *beside)):
            run = PlanRun(asked, reader, source, tuple(beside))
            return rehearse(run, account, why=why, key=key, delta=delta)
    except BudgetExceeded as problem:
        raise with_plans(plan, problem, account, dataset) from None
    except Refused as problem:
        raise with_prices(plan, problem, account) from None


def answered_before(
    plan: Plan, account: Account, *, key: str, dataset: str | None, names: Names = NO_NAMES
) -> Receipt | None:
    """The receipt where the record has this plan's answer under this key; no data is opened, nothing is charged."""
    asked = Asked.of(plan, account, dataset, names)
    try:
        paid = find_answer(asked, account, key=key, delta=charged_delta(account, plan.delta))
    except TallystickError:  # asking would raise it; a price is shown all the same
        return None
    return None if paid is None else paid.receipt


def check_key(plan: Plan, account: Account, *, key: str | None, dataset: str | None, names: Names = NO_NAMES) -> None:
    """Raise if the key cannot be used for this plan; no data is opened and nothing is charged."""
    asked = Asked.of(plan, account, dataset, names)
    pay_check_key(asked, account, key=key, delta=charged_delta(account, plan.delta))


def asked_before(
    plan: Plan, account: Account, *, dataset: str | None, names: Names = NO_NAMES, forms: Forms = ()
) -> ChargedAgain | None:
    """The warning that a fresh charge for this plan would meet; None if no charge has paid for it."""
    asked = Asked.of(plan, account, dataset, names, forms)
    try:
        return paid_before(asked, account, delta=charged_delta(account, plan.delta))
    except TallystickError:  # asking would raise it; a price is shown all the same
        return None


def check_allowed(plan: Plan, account: Account, dataset: str | None, known: list[Recognised]) -> None:
    """Refuse a plan that is not about the units, neighbours and names that its data were registered with."""
    _check_retired(account, known)
    first, *others = known
    leaf, *other_leaves = plan.query.table.leaves()
    if first.names and dataset is not None and dataset not in first.names:
        raise Refused(f"these data are registered as {', '.join(first.names)}, so they cannot answer for {dataset!r}")
    if not first.names and leaf.source.paths:
        _check_moved(account, dataset)
    _check_leaf(leaf, first, account)
    _check_least(plan, account, first)
    for other, each in zip(other_leaves, others, strict=True):
        if (each.fixed is None) != (first.fixed is None):
            raise Refused(f"of tables {leaf.name!r} and {other.name!r} only one is registered; register both")
        _check_leaf(other, each, account)
        _check_least(plan, account, each)
        _check_payer(plan, account, each.source)


def _check_moved(account: Account, dataset: str | None) -> None:
    """Refuse a file that is not registered under the name of a dataset whose registered file is at its place.

    A file that was moved leaves its place empty. Then the caller's word is taken, and a card says so.
    """
    registered = account.ledger.datasets().get(dataset or "")
    if registered is None:
        return
    place = newest_file(registered)
    if place is not None and os.path.exists(place):
        raise Refused(
            f"this file is not registered as dataset {dataset!r}, whose registered file is at its place. "
            "Leave out the other place, or register it",
            remedies=[Remedy("move_source", dataset=registered.name)],
        )


def _check_retired(account: Account, known: list[Recognised]) -> None:
    """Refuse a plan that reads rows of a retired dataset, under any name."""
    names = {name for each in known for name in (*each.names, *each.parts)}
    datasets = account.ledger.datasets() if names else {}
    for name in sorted(names):
        if datasets[name].retired is not None:
            raise retired(name)


def _check_leaf(leaf: Table, known: Recognised, account: Account) -> None:
    """One stored table is asked as it was registered."""
    as_registered(leaf, known.fixed)
    datasets = account.ledger.datasets() if known.names else {}
    same_identifiers(leaf, [datasets[name] for name in known.names])


def _check_least(plan: Plan, account: Account, known: Recognised) -> None:
    """Refuse a plan that costs less than the largest least cost of all datasets whose rows it reads."""
    names = (*known.names, *known.parts)
    if len(names) < 2:
        return
    price = plan.price(account)
    datasets = account.ledger.datasets()
    for name in names:
        least = datasets[name].least_price
        if least.filter == price.filter and price.a0 < least.a0:
            raise BelowLeastPrice(price, least)


def _check_payer(plan: Plan, account: Account, source: SourceId) -> None:
    """The owner of a second table must be who pays, and its data open: what a plan tells of them is in its cost."""
    account.admit(plan.price(account), source=source)


def as_registered(table: Table, fixed: Mapping[str, str | None] | None) -> None:
    """Refuse a plan about other units or neighbours than its data were registered with: those are whom it protects."""
    unit = None if isinstance(table.unit, EachRow) else table.unit
    if fixed and dict(fixed) != {"unit": unit, "adjacency": table.adjacency.value}:
        raise Refused(
            f"these data are registered with unit {fixed['unit'] or 'each row'!r} ({fixed['adjacency']}); a plan about "
            f"{unit or 'each row'!r} ({table.adjacency.value}) would protect other people at that cost"
        )


def same_identifiers(table: Table, registered: Iterable[Registered]) -> None:
    """Refuse a unit column read as another type than registered: 7 and 07 are one whole number and two texts."""
    unit = table.unit
    if isinstance(unit, EachRow):
        return
    declared = table.base.type_of(unit)
    for columns, _ in (about for each in registered for about in each.described()[-1:]):
        kind = columns.get(unit, declared)
        if kind != declared:
            raise Refused(
                f"unit column {unit!r} is registered as {kind}; read as {declared}, one unit could have several names"
            )


def preflight(plan: Plan, reader: Reader | None = None) -> None:
    """Before anything is charged: the source has the public schema of the plan, and everything runs.

    Every stage runs on an empty table with the columns of the source, in the engine of the source: what always fails
    fails here, and no row is looked at. What ran once on columns of the same types is not run again.
    """
    if reader is None:
        with open_reader(plan.query.table.source, rows=False, tables=_leaves(plan)) as own:
            preflight(plan, own)
        return
    with quiet("rehearsing the plan"):
        engine = reader.engine
        check_limits()
        same_columns(plan, engine)
        _rehearse_stages(plan, engine)


def _leaves(plan: Plan) -> list[str]:
    """The names of the stored tables that take part."""
    return [leaf.name for leaf in plan.query.table.leaves()]


def _rehearse_stages(plan: Plan, engine: Engine) -> None:
    """Run every stage on empty tables, unless it ran on columns of the same types before."""
    query = plan.query
    engine.try_reading([*views(query)])
    like = engine.like([*views(query)])
    shape = None if like is None else _shape(plan, like)
    if shape in _rehearsed:
        return
    for leaf, empty in _read(query, engine, rows=False).items():
        engine.keep(views(query)[leaf], empty)
    program = _program(plan, engine)
    _try_functions(engine, program)
    _upload(engine, plan)
    for way in _rehearsals(plan, engine, program):
        kept = _keep(engine, program, None, way.shares)
        _collected(plan, engine, program, None, way, 0, kept=kept)
        if _in_shares(plan, engine):
            _forget(engine, (TAKEN, *(name for name, _ in program.stages)))
    engine.reset()
    if shape is not None:
        _remember(_rehearsed, shape, True)


def _try_functions(engine: Engine, program: Program) -> None:
    """Call every function of the program on constants: data might call it for some units alone."""
    try:
        for sql in program.trial:
            engine.collect(sql)
    except Exception:
        raise Unavailable(
            "this engine cannot run a function that the plan needs. It was called on made-up constants; nothing was "
            "charged. A server in FIPS mode has no MD5, by which a unit's groups are chosen: ask without groups, or "
            "copy the table to another engine"
        ) from None


def _rehearsals(plan: Plan, engine: Engine, program: Program) -> list[Way]:
    """Every way that data may lead to, with one share and with several."""
    ways = [Way(None, 1), Way(None, 2)] if _in_shares(plan, engine) else [Way(None, 1)]
    sorting = program.by_sorting
    if sorting is None:
        return ways
    return [*ways, Way(sorting, 1)] if "text" in sorting.kinds else [*ways, Way(sorting, 1), Way(sorting, 2)]


# What depends neither on data nor on the price is done once for a question: its SQL is written once for a dialect, and
# it has to run on an empty table once for the same columns of the same engine. Questions that differ in price and noise
# alone differ in one constant of their SQL, the key of the hash that chooses groups: it is written with a stand-in that
# occurs nowhere else. A few of each are remembered while the process lives.

_MOST_REMEMBERED, _LONGEST_REMEMBERED = 256, 1 << 20
_programs: dict[tuple[Any, ...], Program] = {}
_texts: dict[tuple[Any, ...], str] = {}
_rehearsed: dict[tuple[Any, ...], bool] = {}
_lock = threading.Lock()


_SALT = secrets.token_hex(16)


def _shape(plan: Plan, where: str) -> tuple[Any, ...]:
    """Parts that SQL is made of; for plans that ``make_plan`` made the question alone says it all."""
    return (plan.question, where, plan.query.caps, plan.query.parts, plan.query.removed)


def _remember(kept: dict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
    with _lock:
        if len(kept) >= _MOST_REMEMBERED:
            kept.pop(next(iter(kept)))
        kept[key] = value


def _program(plan: Plan, engine: Engine) -> Program:
    key = _shape(plan, engine.words.name)
    program = _programs.get(key)
    if program is None:
        program = compiled(plan.query, engine.words, _SALT)
        if sum(map(len, program.texts)) <= _LONGEST_REMEMBERED:
            _remember(_programs, key, program)
    return program.with_salt(_SALT, plan.salt)


def same_columns(plan: Plan, engine: Engine) -> None:
    """The columns of the source are, by name, those the plan was made for; text may have been declared another type."""
    source = plan.query.table.source
    for leaf in plan.query.table.leaves():
        present = dict(engine.schema(leaf.name).columns)
        for column, kind in leaf.base.columns:
            if kind == UNSUPPORTED:  # no question is about it, whatever an engine has learned to read since
                continue
            here = present.get(column)
            if here not in ((kind, "text") if source.castable else (kind,)):
                wanted = f"a table with column {column!r} of type {kind}, as planned"
                why = f" (it is {said(here)})" if here == UNSUPPORTED else ""
                raise InvalidInput("source", source.place, wanted + why)


def _stored(query: Query, engine: Engine, *, rows: bool = True) -> dict[str, exp.Query]:
    """Every stored table that takes part, read once."""
    bases = {leaf.name: leaf.base for leaf in query.table.leaves()}
    return {name: engine.stored(name, base, rows=rows) for name, base in bases.items()}


def _read(query: Query, engine: Engine, *, rows: bool) -> dict[str, str]:
    """Return the rows of every stored table as SQL, which is written once where only names decide it."""
    written: dict[str, str] = {}
    for name, base in {leaf.name: leaf.base for leaf in query.table.leaves()}.items():
        names = engine.names(name)
        key = (names, engine.words.name, base, rows)
        text = None if names is None else _texts.get(key)
        if text is None:
            text = engine.words.render(engine.stored(name, base, rows=rows))
            if names is not None and len(text) <= _LONGEST_REMEMBERED:
                _remember(_texts, key, text)
        written[name] = text
    return written


def integers(plan: Plan, progress: Progress = None) -> Exact:
    """The exact integers of a plan, from a source that is opened for this alone. For tests, audits and rehearsals."""
    with open_engine(plan.query.table.source, tables=_leaves(plan)) as engine:
        same_columns(plan, engine)
        return _integers(plan, engine, progress)


def _integers(plan: Plan, engine: Engine, progress: Progress = None) -> Exact:
    """Run the program on an engine, share of units by share where the table is large: memory stays bounded.

    Where keys are whole numbers, or texts of few rows, cells are made by sorting; the integers are the same.
    """
    query = plan.query
    for leaf, stored in _read(query, engine, rows=True).items():
        engine.show(views(query)[leaf], stored)
    program = _program(plan, engine)
    _upload(engine, plan)
    told, kept = _once(progress, program), False
    for way in _ways(plan, engine, program):
        kept = kept or _keep(engine, program, told, way.shares)
        found = _shared(plan, engine, program, told, way, kept=kept)
        if found is not None:
            return found
    raise AssertionError("stages give an answer or raise")


def _ways(plan: Plan, engine: Engine, program: Program) -> list[Way]:
    """By sorting where that can be done, and by stages, to which it is given up.

    All of it follows from how many rows are stored, which is asked once, and from what is declared.
    """
    rows = cast("SortingEngine", engine).stored_rows(plan.query.table.name) if _in_shares(plan, engine) else 0
    stages = Way(None, 1 if program.long_rows else 1 + max(rows - 1, 0) // ROWS_PER_SHARE)
    if program.by_sorting is None:
        return [stages]
    most_rows = MOST_BYTES // program.by_sorting.of_row
    sorting = Way(program.by_sorting, 1 + rows // max(most_rows, 1), most_rows)
    return [sorting, stages] if _sortable(sorting) else [stages]


def _sortable(way: Way) -> bool:
    """Texts are sorted where no text that is allowed could make rows too heavy for arrays: weighed only once they are
    there, one person's could.
    """
    return way.sorting is None or way.shares == 1 or "text" not in way.sorting.kinds


def _once(progress: Progress, program: Program) -> Progress:
    """Progress that tells each stage once, and only those that there are whether cells are sorted or not: that they
    could not be sorted would tell of the data.
    """
    if progress is None or program.by_sorting is None:
        return progress
    left = [CELLS, TOTALS, REMOVED]

    def tell(stage: str) -> None:
        if stage in left:
            left.remove(stage)
            progress(stage)

    return tell


def _keep(engine: Engine, program: Program, told: Progress, shares: int) -> bool:
    """Keep the rows that count where they are needed more than once: the source is read once."""
    if program.again and told:  # otherwise they are kept because the table is large, which nobody is told
        told(TAKEN.strip("_"))
    again = program.again or shares > 1
    if again:
        engine.keep(TAKEN, program.taken)
    return again


def _shared(plan: Plan, engine: Engine, program: Program, told: Progress, way: Way, *, kept: bool) -> Exact | None:
    """The integers of all shares; None where their rows cannot be sorted. ``kept`` says that rows are."""
    total = None
    for i in range(way.shares):
        # how many shares there are depends on the data, so only the first one is reported
        here = _collected(plan, engine, program, told if i == 0 else None, way, i, kept=kept)
        if here is None:
            return None
        total = here if total is None else together(total, here)
        if way.shares > 1 and way.sorting is None:
            _forget(engine, [name for name, _ in program.stages])
    return total


def rows(plan: Plan, engine: Engine, *, empty: bool = False) -> tuple[list[Any] | None, list[Any]]:
    """The rows a plan would sum, after its filters and within its block: their units and the measured columns.

    For a fit that must see rows: called after the charge, and before it with ``empty``, which looks at none.
    """
    query = plan.query
    with quiet("reading the table"):
        stored = _stored(query, engine, rows=not empty)
        _upload(engine, plan)
        columns = engine.collect(engine.words.render(taken(query, engine.words, stored)))
        if empty:
            engine.reset()
    if isinstance(query.table.unit, EachRow):
        return None, list(columns[1:])
    return list(columns[0]), list(columns[2:])


def _in_shares(plan: Plan, engine: Engine) -> bool:
    return engine.in_shares and not isinstance(plan.query.table.unit, EachRow)


def _upload(engine: Engine, plan: Plan) -> None:
    for name, public in uploads(plan.query):
        engine.upload(name, public)


def _forget(engine: Engine, stages: Iterable[str]) -> None:
    for name in stages:
        engine.forget(name)


def together(one: Exact, other: Exact) -> Exact:
    """The integers of two disjoint sets of units: their sums, which stop where a single sum would."""
    removed = {part: _added(value, other.removed[part]) for part, value in one.removed.items()}
    if one.keys is None or other.keys is None:
        numbers = {part: _added(values, other.numbers[part]) for part, values in one.numbers.items()}
        return Exact(None, numbers, removed)
    index = {key: i for i, key in enumerate(dict.fromkeys([*one.keys, *other.keys]))}
    numbers = {}
    for part, values in one.numbers.items():
        wide = np.zeros((len(index), values.shape[1]), dtype=np.int64)
        wide[: len(one.keys)] = values  # the first keys keep their places
        rows = np.array([index[key] for key in other.keys], dtype=np.int64)
        wide[rows] = _added(wide[rows], other.numbers[part])
        numbers[part] = wide
    return Exact(list(index), numbers, removed)


def _added(a: Integers, b: Integers) -> Integers:
    return a + np.minimum(b, SATURATED_TOTAL - a)


def _collected(
    plan: Plan, engine: Engine, program: Program, progress: Progress, way: Way, share: int, *, kept: bool
) -> Exact | None:
    """The integers of one share; None where its cells cannot be sorted."""
    query = plan.query
    tell = progress or (lambda stage: None)
    engine.show(HERE, share_of(engine.words, share, way.shares) if kept else program.taken)
    if way.sorting:
        tell(CELLS)
        return _sorted(plan, cast("SortingEngine", engine), way, way.sorting, tell)
    for name, stage in program.stages:
        tell(name.strip("_"))
        engine.keep(name, stage)
    tell(TOTALS)
    columns = engine.collect(program.totals)
    listed = isinstance(query.keys, PublicTable) or not query.columns
    width = 1 if listed else len(query.columns)
    keys: list[tuple[Any, ...]] | None = None
    if listed:
        count = len(query.keys.rows) if isinstance(query.keys, PublicTable) else 1
        places = np.asarray(columns[0], dtype=np.int64)
    else:
        keys = list(zip(*columns[:width], strict=True))
        count, places = len(keys), np.arange(len(keys))
    numbers: dict[Part, Integers] = {}
    flat = iter(columns[width:])
    for part in query.parts:
        if not isinstance(part, Binned):
            sums = np.zeros((count, 1), dtype=np.int64)
            sums[places, 0] = np.asarray(next(flat), dtype=np.int64)
            numbers[part] = sums
    for part, sql in program.bins:
        tell(part.label)
        numbers[part] = _binned(part, engine.collect(sql), count, keys, width)
    removed: dict[OfTable, Integers] = {}
    if program.removed is not None:
        tell(REMOVED)
        parts, sql = program.removed
        line = iter([int(value) for [value] in engine.collect(sql)])
        removed = {part: np.array([[next(line) for _ in range(part.width)]], dtype=np.int64) for part in parts}
    return Exact(keys, numbers, removed)


def _sorted(plan: Plan, engine: SortingEngine, way: Way, sorting: Sorting, tell: Callable[[str], None]) -> Exact | None:
    """Return the integers by sorting; None where that cannot be done.

    Of several shares one person can fill one, with any number of rows: an engine keeps on its disk what memory has no
    room for, and arrays would fail, after the charge. Where there is one, all rows together are few enough.
    """
    query = plan.query
    try:
        if way.shares > 1:
            [[rows]] = engine.collect(sorting.count)
            if rows > way.most_rows * 3 // 2:  # shares of units are not equal
                return None
        found = sums_of(engine, sorting, query)
    except MemoryError:  # the engine needs less
        return None
    tell(TOTALS)
    if query.removed:
        tell(REMOVED)
    if not isinstance(query.keys, PublicTable) and query.columns:
        numbers = {part: sums[:, np.newaxis] for part, sums in found.numbers.items()}
        return Exact(list(zip(*found.keys, strict=True)), numbers, found.removed)
    count = len(query.keys.rows) if isinstance(query.keys, PublicTable) else 1
    wide = {part: np.zeros((count, 1), dtype=np.int64) for part in query.parts}
    for part, sums in found.numbers.items():
        wide[part][found.keys[0], 0] = sums
    return Exact(None, wide, found.removed)


def _binned(part: Binned, columns: list[Any], count: int, keys: list[tuple[Any, ...]] | None, width: int) -> Integers:
    counts = np.zeros((count, part.bins.count), dtype=np.int64)
    if keys is None:
        rows = np.asarray(columns[0], dtype=np.int64)
    else:
        index = {key: i for i, key in enumerate(keys)}
        rows = np.array([index[key] for key in zip(*columns[:width], strict=True)], dtype=np.int64)
    # added, not set: keys that an engine tells apart and Python does not must not hide one another
    bins, numbers = (np.asarray(columns[i], dtype=np.int64) for i in (width, width + 1))
    np.add.at(counts, (rows, bins), numbers)
    return part.numbers(counts)


def noisy_answer(plan: Plan, reader: Reader, progress: Progress = None) -> dict[str, Any]:
    """Read the opened rows and return the noisy answer. Only a paid plan may be answered."""
    with quiet("reading the table"):
        exact = _integers(plan, reader.engine, progress)
        reader.check_unchanged()
    return noisy(plan, exact, SYSTEM)


def noisy(plan: Plan, exact: Exact, source: Source) -> dict[str, Any]:
    """Add the noise and, with private keys, drop what stays under the threshold: the answer that is stored."""
    made: dict[Part, Integers] = {}
    for noise in plan.noises:
        part = noise.part
        values = exact.removed[part] if isinstance(part, OfTable) else exact.numbers[part]
        made[part] = values + noise.law.draw(values.size, source).reshape(values.shape)
    if exact.keys is None:
        return answer_of(plan, None, list(made.values()))
    shown = shown_groups(plan, made[UNITS][:, 0], exact.keys)
    numbers = [values if isinstance(part, OfTable) else values[shown] for part, values in made.items()]
    return answer_of(plan, [exact.keys[i] for i in shown], numbers)


def shown_groups(plan: Plan, units: Integers, keys: list[tuple[Any, ...]]) -> list[int]:
    """Groups whose noisy number of units reaches the threshold, in the order of their keys.

    No more than fit in a stored answer: then the largest, decided by noisy numbers and keys alone.
    """
    assert plan.threshold is not None
    above = sorted(np.flatnonzero(units >= plan.threshold).tolist(), key=lambda i: keys[i])
    room = MOST_NUMBERS // plan.query.width
    if len(above) > room:  # of equal ones the first by key: in which order the engine found them depends on the data
        largest = np.argsort(-units[above], kind="stable")[:room]
        above = [above[i] for i in sorted(largest.tolist())]
    return above
