"""A plan: a question with its price and its error, frozen before any data is opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallystick.accounting import check
from tallystick.accounting.adjacency import Protects
from tallystick.errors import AdjacencyMismatch, InvalidInput, Refused
from tallystick.ledger.filters import USUAL_DELTA, WHAT_RHO_IS
from tallystick.printing import given, html_text, json_text, plain_up, up
from tallystick.strict_json import read, same, written
from tallystick.tables.budget import (
    PartNoise,
    errors,
    for_gaussian_account,
    lone_probability,
    priced,
    threshold,
)
from tallystick.tables.expressions import col
from tallystick.tables.keyset import PrivateKeys, PublicTable
from tallystick.tables.local import told_of_joins
from tallystick.tables.parts import ColumnPart
from tallystick.tables.reporting.columns import capped, described
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.table import place
from tallystick.tables.reporting.words import interval_meaning
from tallystick.tables.sources import source_of
from tallystick.tables.table import LONGEST_TEXT, EachRow, Query, Step, Table

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.partition import Partition
    from tallystick.tables.release import Release

FORMAT = "tallystick/plan/1"
GROUP_SIZES = (10, 100, 1_000, 10_000)
"""Rows in a group for which errors are shown where they depend on that and nobody says how many there are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be asked, how it is bounded, which noise it gets, what it costs and how wrong it will be.

    Plans with the same hash ask the same question at the same price, on whatever engine.
    """

    query: Query
    budget: Mapping[str, Any]
    noises: tuple[PartNoise, ...]
    privacy: PrivacyLoss
    threshold: int | None
    account: Account | None = field(default=None, compare=False, repr=False)
    pure: bool = field(default=False, compare=False, repr=False)
    """Whether the caller said that an epsilon without a delta is meant as pure epsilon. It is not part of the hash."""
    _digests: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Hash and question, by what could be changed of the plan: a release asks for them several times."""

    @property
    def hash(self) -> str:
        """SHA-256 over question, budget and noise; not over the place of the data."""
        key = repr(self.budget)
        if key not in self._digests:
            self._digests[key] = self._digest({"budget": dict(self.budget), "noise": self._noise_data()})
        return self._digests[key]

    @property
    def question(self) -> str:
        """The same over the question alone: plans that differ in price and noise have it in common."""
        if "" not in self._digests:
            self._digests[""] = self._digest({})
        return self._digests[""]

    def _digest(self, more: dict[str, Any]) -> str:
        query = self.query.to_data()
        query["table"] = {key: value for key, value in query["table"].items() if key != "source"}
        return hashlib.sha256(_canonical({"format": FORMAT, "query": query, **more}).encode()).hexdigest()

    @property
    def salt(self) -> str:
        """The key of the hash that picks which groups of a unit count; public, and the same on every engine."""
        return self.hash[:32]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(name for name, _ in self.query.measures)

    @property
    def delta(self) -> float | None:
        """The delta this plan spends: that of the budget, or of private keys."""
        if self.budget.get("delta"):
            return float(self.budget["delta"])
        return self.query.keys.delta if isinstance(self.query.keys, PrivateKeys) else None

    @property
    def lone_probability(self) -> float:
        """The chance that some group of one unit alone is shown: at most the delta of private keys."""
        return 0.0 if self.threshold is None else lone_probability(self.query, self.noises, self.threshold)

    def error(self, *, confidence: float = 0.95, group_size: float = 1000.0) -> dict[str, float]:
        """Half-width of the privacy noise of each measure, before any data is read.

        Exact for counts, sums and histograms. Means, variances and quantiles depend on how many rows a group has:
        ``group_size`` is what is assumed.
        """
        size = check.positive("group_size", group_size)
        return errors(self.query, self.noises, check.inside("confidence", confidence), size)

    def error_by_size(
        self, sizes: Iterable[float] = GROUP_SIZES, *, confidence: float = 0.95
    ) -> dict[str, dict[float, float]]:
        """``error`` for each size of a group in rows, of the measures whose error depends on it.

        >>> import pyarrow, tallystick as ts
        >>> visits = ts.Private(pyarrow.table({"who": [1], "age": [40.0]})).table(unit="who")
        >>> plan = visits.per_unit(max_rows_per_group=1).agg(n=ts.count(), age=ts.mean("age", 0, 100)).plan(rho=0.1)
        >>> {name: list(by_size) for name, by_size in plan.error_by_size([50, 500]).items()}
        {'age': [50, 500]}
        """
        needed = [name for name, measure in self.query.measures if measure.error_needs_size]
        found = {size: self.error(confidence=confidence, group_size=size) for size in sizes} if needed else {}
        return {name: {size: halves[name] for size, halves in found.items()} for name in needed}

    def explain(self) -> str:
        """Stages, sensitivities, noise and shares, in words."""
        return explained(self)

    def facts(self) -> dict[str, Any]:
        """Everything a privacy card says about this plan, as plain data."""
        return facts(self)

    def sql(self, *, dialect: str = "duckdb") -> str:
        """The SQL it runs: 'duckdb', 'spark' or 'postgres'."""
        from tallystick.tables.dialects import DIALECTS
        from tallystick.tables.program import text_of

        if dialect not in DIALECTS:
            raise InvalidInput("dialect", dialect, ", ".join(DIALECTS))
        return text_of(self.query, DIALECTS[dialect], self.salt)

    def on(self, source: Any) -> Plan:
        """The same plan, hash and all, with the table in another place."""
        return replace(self, query=self.query.about(replace(self.query.table, source=source_of(source))))

    def with_account(self, account: Account) -> Plan:
        """The same plan, paid by this account."""
        if account.adjacency != str(self.query.table.adjacency.value):
            raise AdjacencyMismatch(account.adjacency, self.query.table.adjacency.value)
        return replace(make_plan(self.query, self.budget, account=account), account=account, pure=self.pure)

    def release(
        self,
        *,
        why: str,
        key: str | None = None,
        progress: Callable[[str], None] | None = None,
        dataset: str | None = None,
    ) -> Release:
        """Reserve, start, compute, add noise, store the answer in the ledger, and hand it out.

        The same ``key`` again returns the stored answer, byte for byte, and charges nothing; asked of other data it is
        refused. Without a key every call is a release of its own, with noise and a price of its own: where the record
        has an answer to the same question, ``ts.errors.ChargedAgain`` warns before the charge and names its key. Data
        are known by their place, or by the name they are registered under, ``dataset``, wherever they
        are. What can be checked without data is checked before the charge; after that every failure keeps the charge.
        ``progress`` is told the name of each stage as it begins; names and number of stages are public.
        """
        from tallystick.tables.run import release

        if self.account is None:
            raise Refused(
                "no account pays for this plan: ts.Private(source, account=...) or plan.with_account(account)"
            )
        return release(self, self.account, why=why, key=key, progress=progress, dataset=dataset)

    def to_json(self) -> str:
        """The plan as text. It holds the public keys, no data and no password."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "query": self.query.to_data(),
            "budget": dict(self.budget),
            "noise": self._noise_data(),
            "hash": self.hash,
        }
        if self.pure:
            content["pure"] = True
        return json_text(json.dumps(content, indent=1, sort_keys=True))

    @classmethod
    def from_json(cls, text: str, *, account: Account | None = None, source: Any = None) -> Plan:
        """The plan that ``to_json`` wrote. It is priced again, so an edited price or noise is found and refused."""
        with written("plan", FORMAT):
            content = read(text, name="plan", longest=LONGEST_TEXT)
            if content["format"] != FORMAT:
                raise InvalidInput("format", content["format"], FORMAT)
            query = Query.from_data(content["query"], account=account)
            stated = {"pure": True} if content.get("pure") is True else {}
            plan = make_plan(query, {**content["budget"], **stated}, account=account)
            unchanged = same(content, json.loads(plan.to_json()))
        if not unchanged:
            raise Refused("this plan was edited: its question and budget do not give what else it says")
        return plan if source is None else plan.on(source)

    def _noise_data(self) -> dict[str, Any]:
        return {
            "law": self.noises[0].law.name,
            "scales": [noise.law.scale for noise in self.noises],
            "threshold": self.threshold,
        }

    def __repr__(self) -> str:
        return f"<Plan {self.hash[:12]}: {', '.join(self.measures)}; {self.privacy}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html_text(self.explain())}</pre>"


def make_plan(query: Query, budget: Mapping[str, Any], *, account: Account | None = None) -> Plan:
    """Price a question. The unit's name is that of the account, if there is one."""
    payer = account or query.table.account
    query = query if payer is None else within_block(query, payer)
    unit = None if payer is None else payer.unit
    if isinstance(query.table.unit, EachRow) and unit not in (None, "row"):
        assert payer is not None
        raise Refused(
            f"account {payer.name!r} promises something to each {unit}, and this plan protects single rows, of which a "
            f"{unit} may have many; name the column that says whose row it is, or pay from an account with unit='row'"
        )
    protects = Protects(query.table.adjacency, unit)
    words = dict(budget)
    pure = _stated_pure(words)
    offer = priced(query, words, protects)
    query, privacy = offer.query, offer.privacy
    if payer is not None and payer.currency.kind == "gdp":
        privacy = for_gaussian_account(query, offer, protects)
    return Plan(query, offer.budget, offer.noises, privacy, threshold(query, offer.noises), payer, pure)


def _stated_pure(words: dict[str, Any]) -> bool:
    """Take ``pure`` out of the words of a price: whether epsilon without a delta is said to be pure epsilon."""
    pure = words.pop("pure", None)
    if pure is None or pure is False:
        return False
    if pure is not True:
        raise InvalidInput("pure", pure, "True or False")
    if words.get("epsilon") is None or words.get("delta"):
        raise InvalidInput("pure", True, "epsilon= without delta=: pure=True says that the delta is 0")
    return True


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


# A plan in words, and as the plain facts that a privacy card shows.

RULES = (
    "rows with a missing unit or group are dropped",
    "NaN, and CSV cells not of their declared type, are missing; without a stand-in they are left out",
    "values beyond the bounds, infinities included, count as the nearest bound; histograms leave them out",
    "CSV lines with too few cells are dropped, cells too many ignored; records over 1 MiB or not in UTF-8 are dropped",
    "of a CSV record with a quote that is not closed, the line on which it begins is dropped",
    "text is compared byte by byte, whatever collation a column has",
    "texts longer than 4 KiB are missing",
    "integers beyond 64 bits, and dates before the year 1 or after 9999, are missing",
    "a moment in a column of timestamps counts as its day, in UTC",
    "numbers beyond 1e300 count as 1e300, those closer to 0 than 1e-300 as 0",
    "measures are rounded down to a public power-of-two step and added as integers",
    "a unit with more rows in a group than allowed keeps them all at a smaller weight, rounded down",
    "a unit with more groups than allowed keeps those with the smallest keyed hash of (unit, group)",
)


LOCAL_RULES = (
    "private tables meet on their unit alone",
    "totals of a unit are of whole public steps, pulled between public bounds",
    "rows of a unit that tie are put in the order of all their columns",
)


def _local_rules(table: Table) -> tuple[str, ...]:
    """What steps that see all rows of a unit do, and which other tables take part."""
    others = sorted({leaf.name for leaf in table.leaves()} - {table.name})
    named = (f"other private tables that take part: {', '.join(others)}",) if others else ()
    return (*LOCAL_RULES, *told_of_joins(table), *named) if any(step.local for step in table.steps) else ()


def facts(plan: Plan) -> dict[str, Any]:
    """JSON-able facts; nothing in them comes from data."""
    from tallystick import __version__

    query, table = plan.query, plan.query.table
    return {
        "plan": plan.hash,
        "version": __version__,
        "table": table.name,
        "source": table.source.to_data(),
        "unit": "each row" if isinstance(table.unit, EachRow) else table.unit,
        "row_level": isinstance(table.unit, EachRow),
        "adjacency": table.adjacency.value,
        "max_groups": query.caps.max_groups,
        "max_rows_per_group": query.caps.max_rows,
        "group_by": list(query.columns),
        "keys": _keys(plan),
        "steps": [step.kind for step in table.steps],
        "rules": [*RULES, *_local_rules(table)],
        "measures": [_measure(plan, name) for name in plan.measures],
        "parts": _parts(plan),
        "budget": dict(plan.budget),
        "privacy": str(plan.privacy),
        "split": "equal predicted relative error, from public information only, unless weights are given",
        "randomness": "operating-system entropy expanded by AES-256-CTR; exact discrete noise",
        "warnings": warnings(plan),
        "intervals": interval_meaning(plan.threshold),
        "removed": _removed(plan),
        "clamping": _clamping(plan),
    }


def warnings(plan: Plan) -> list[str]:
    """What a person should know before this plan is paid for, by what is public alone."""
    table = plan.query.table
    numbers = {part.column for part in plan.query.parts if isinstance(part, ColumnPart)} & set(table.base.names)
    if table.source.member(table.name)[0].kind != "csv" or not numbers:
        return []
    return [
        (
            f"numbers of {', '.join(sorted(numbers))} are read from the texts of a CSV file: a cell that is no number "
            "counts as missing, and a column of words gives totals of 0"
        )
    ]


def error_words(plan: Plan, sizes: Iterable[float] = GROUP_SIZES) -> dict[str, str]:
    """The error of each measure in words: one number, or one for each size of a group that is assumed."""
    by_size = plan.error_by_size(sizes)
    words = {name: f"+-{plain_up(half)}" for name, half in plan.error().items()}
    for name, halves in by_size.items():
        words[name] = "in a group of " + ", of ".join(
            f"{size:,g} rows +-{plain_up(half)}" for size, half in halves.items()
        )
    return words


def _removed(plan: Plan) -> list[dict[str, Any]]:
    """What will be told of the caps and bounds, and how exactly."""
    laws = {noise.part: noise.law.half_width(0.05) * noise.part.scale for noise in plan.noises}
    return [{"what": what, "error": laws[part]} for part in plan.query.removed for what in part.told]


def _clamping(plan: Plan) -> str:
    """What bounds can do to means and totals, and what is told about it; empty where no value can be beyond them."""
    moved = outside_parts(plan.query, [one for _, one in plan.query.measures if one.moved_by_clamping])
    if not moved:
        return ""
    told = any(part in plan.query.removed for part in moved)
    known = "how many values lay beyond each bound, not how far" if told else "nothing"
    return (
        "Clamping can move a mean, a total or a variance by any amount: how far beyond a bound a value lay is nowhere "
        f"in these numbers, nor in their intervals. Told of it on this card: {known}."
    )


def _keys(plan: Plan) -> dict[str, Any]:
    keys = plan.query.keys
    if isinstance(keys, PrivateKeys):
        return {"kind": "private", "delta": keys.delta, "threshold": plan.threshold, "reached": plan.lone_probability}
    return {"kind": "public" if keys else "total", "count": len(keys.rows) if isinstance(keys, PublicTable) else 1}


def _measure(plan: Plan, name: str) -> dict[str, Any]:
    measure = dict(plan.query.measures)[name]
    facts = {"name": name, **measure.to_data(), "said": described(plan.query, measure), "error": plan.error()[name]}
    if measure.error_needs_size:
        facts["error_by_size"] = [list(pair) for pair in plan.error_by_size()[name].items()]
    facts.pop("whole", None)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in facts.items()}


def _parts(plan: Plan) -> list[dict[str, Any]]:
    query = plan.query
    parts = []
    for noise in plan.noises:
        part, order = noise.part, noise.law.order
        size = part.norm(query.caps, query.table.adjacency, order) ** (1 / order)
        parts.append(
            {
                "part": part.label,
                "norm": f"L{order}",
                "sensitivity": size * part.scale,
                "noise": f"discrete {noise.law.name.capitalize()}",
                "scale": noise.law.scale * part.scale,
                "step": part.scale,
                "share": noise.share,
            }
        )
    return parts


def _quoted_delta(plan: Plan) -> float:
    """The delta at which the plan's epsilon is shown: that of the account that pays, or the usual one without any."""
    spent = plan.delta or 0.0
    usual = max(USUAL_DELTA, 10 * spent)
    return usual if plan.account is None else plan.account.quoted_delta(spent) or usual


def explained(plan: Plan) -> str:
    """The facts as lines of text."""
    said = facts(plan)
    unit, keys = said["unit"], said["keys"]
    source = plan.query.table.source
    which = place(source) if source.one_table else f"table {said['table']!r}"
    lines = [f"plan {plan.hash[:16]} of {which}, {said['privacy']} ({said['adjacency']})"]
    lines.append(f"  caps     {capped(plan.query, unit)}")
    if "rho" in plan.budget:
        at = _quoted_delta(plan)
        known = f"epsilon {up(plan.privacy.epsilon(delta=at), 3)} at delta {given(at)}"
        lines.append(f"  price    rho {given(plan.budget['rho'])}, that is {known}; {WHAT_RHO_IS}")
    if said["row_level"]:
        lines.append("  WARNING  single rows are protected, not the people they are about")
    lines += [f"  WARNING  {warning}" for warning in said["warnings"]]
    if keys["kind"] == "private":
        lines.append(
            f"  groups   from the data, shown when the noisy number of units is at least {keys['threshold']} "
            f"(delta {given(keys['delta'])})"
        )
    else:
        lines.append(f"  groups   {keys['count']} {keys['kind']}; every one appears")
    for part in said["parts"]:
        lines.append(
            f"  part     {part['part']}: {part['norm']} sensitivity {plain_up(part['sensitivity'])}, {part['noise']} "
            f"{part['scale']:,.6g}, {100 * part['share']:.1f}% of the budget"
        )
    told = error_words(plan)
    lines += [f"  measure  {m['name']}: {m['said']}; {told[m['name']]} at 95%" for m in said["measures"]]
    lines += [f"  told     {each['what']}, +-{plain_up(each['error'])} at 95%" for each in said["removed"]]
    lines.append(f"  interval {said['intervals']}")
    lines.append("  rules    for missing values, bounds and malformed lines: on the card")
    return "\n".join(lines)


# A table that a block pays for keeps to its block: the block's predicate is the first filter of its plan.


def within_block(query: Query, payer: Account) -> Query:
    """The question about the rows of the payer's block; refused when nothing says which rows these are.

    A population pays the largest of its blocks only, so a block that could ask about everybody would be asked once per
    block and paid for once.
    """
    partitions = payer.partitions()
    return query.about(_within(query.table, payer, partitions)) if partitions else query


def _within(table: Table, payer: Account, partitions: Sequence[Partition]) -> Table:
    """A table, and every other that it meets, with the filters of the payer's block first."""
    filters = []
    for partition in partitions:
        if not partition.column:
            raise Refused(
                f"account {payer.name!r} is a block of {partition.name!r} that does not say which rows are its own, so "
                "a table could ask about everybody at the price of one block; open it with "
                "Partition(..., column=, values=), or without partition="
            )
        condition = col(partition.column).isin(partition.values)
        kind = "text" if isinstance(partition.values[0], str) else "integer"
        if table.base.type_of(partition.column) != kind:
            raise Refused(
                f"blocks of {partition.name!r} are told apart by {kind} values, and {partition.column!r} is "
                f"{table.base.type_of(partition.column)} here: two blocks could share rows"
            )
        filters.append(Step("filter", expression=condition))
    steps = [
        replace(step, local=step.local and step.local.with_other(lambda other: _within(other, payer, partitions)))
        for step in table.steps
    ]
    there = [step.to_data() for step in table.steps[: len(filters)]]
    if not same(there, [step.to_data() for step in filters]):  # 1 and 1.0 are equal to Python, and different filters
        steps = [*filters, *steps]
    return replace(table, stored=table.base, steps=tuple(steps))
