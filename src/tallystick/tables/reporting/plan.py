"""A plan in words, and as the plain facts that a privacy card shows. Nothing in them comes from data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tallystick import __version__
from tallystick.digits import nearest, typed, up
from tallystick.ledger.filters import USUAL_DELTA, WHAT_RHO_IS
from tallystick.tables.keyset import PrivateKeys, PublicTable
from tallystick.tables.local import told_of_joins
from tallystick.tables.parts import ColumnPart
from tallystick.tables.reporting.columns import capped, described
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.table import place
from tallystick.tables.reporting.words import interval_meaning
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.table import Plan, Table

GROUP_SIZES = (10, 100, 1_000, 10_000)
"""Rows in a group for which errors are shown where they depend on that and nobody says how many there are."""

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
    words = {name: f"±{up(half)}" for name, half in plan.error().items()}
    for name, halves in by_size.items():
        words[name] = "in a group of " + ", of ".join(f"{size:,g} rows ±{up(half)}" for size, half in halves.items())
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
        known = f"epsilon {up(plan.privacy.epsilon(delta=at))} at delta {typed(at)}"
        lines.append(f"  price    rho {typed(plan.budget['rho'])}, that is {known}; {WHAT_RHO_IS}")
    if said["row_level"]:
        lines.append("  WARNING  single rows are protected, not the people they are about")
    lines += [f"  WARNING  {warning}" for warning in said["warnings"]]
    if keys["kind"] == "private":
        lines.append(
            f"  groups   from the data, shown when the noisy number of units is at least {keys['threshold']} "
            f"(delta {typed(keys['delta'])})"
        )
    else:
        lines.append(f"  groups   {keys['count']} {keys['kind']}; every one appears")
    for part in said["parts"]:
        lines.append(
            f"  part     {part['part']}: {part['norm']} sensitivity {up(part['sensitivity'])}, {part['noise']} "
            f"{nearest(part['scale'])}, {nearest(100 * part['share'])} % of the budget"
        )
    told = error_words(plan)
    lines += [f"  measure  {m['name']}: {m['said']}; {told[m['name']]} at 95%" for m in said["measures"]]
    lines += [f"  told     {each['what']}, ±{up(each['error'])} at 95%" for each in said["removed"]]
    lines.append(f"  interval {said['intervals']}")
    lines.append("  rules    for missing values, bounds and malformed lines: on the card")
    return "\n".join(lines)
