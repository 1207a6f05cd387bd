"""A plan in words, and as the plain facts that a privacy card shows. Nothing in them comes from data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tallystick import __version__
from tallystick.digits import nearest, people, plural, typed, up
from tallystick.ledger.filters import USUAL_DELTA, WHAT_RHO_IS
from tallystick.printing import visible
from tallystick.tables.aggregates import Mean
from tallystick.tables.implied import said as said_of_groups
from tallystick.tables.keyset import PrivateKeys, PublicTable
from tallystick.tables.layout import Column
from tallystick.tables.layout import lines as table_lines
from tallystick.tables.local import told_of_joins
from tallystick.tables.parts import UNITS, ColumnPart
from tallystick.tables.reporting.columns import bounded, capped, described, person
from tallystick.tables.reporting.limits import outside_parts
from tallystick.tables.reporting.noise import noise_lines
from tallystick.tables.reporting.table import place
from tallystick.tables.reporting.words import capital, interval_meaning
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.reporting.sizes import Usual
    from tallystick.tables.table import Plan, Query, Table

USUAL_SIZE = 1_000
"""Rows in a group for which an error is shown if no size is named."""
GROUP_SIZES = (10, 100, 1_000, 10_000)
"""Rows in a group for which errors are shown where they depend on that and the caller does not name sizes."""

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
    "if one unit has more rows in a group than the limit, each counts less: the limit divided by their number",
    "if one unit is in more groups than the limit, rows in the other groups are not counted",
    "a keyed hash of unit and group chooses the groups that count; weights are rounded down",
)


RULE_IN_ALL = (
    "if one unit still has more rows in all than the limit, that many count: of each group the same share, rounded up "
    "or down by a keyed hash"
)


def _rule_in_all(query: Query) -> tuple[str, ...]:
    return () if query.caps.in_all is None else (RULE_IN_ALL,)


LOCAL_RULES = (
    "private tables meet on their unit alone",
    "totals of a unit are of whole public steps, pulled between public bounds",
    "rows of a unit that tie are put in the order of all their columns",
)


def _local_rules(table: Table) -> tuple[str, ...]:
    """Rules of steps that see all rows of a unit, and which other tables take part."""
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
        **({} if query.caps.in_all is None else {"max_rows_in_all": query.caps.in_all}),
        "group_by": list(query.columns),
        "keys": _keys(plan),
        "steps": [step.kind for step in table.steps],
        "rules": [*RULES, *_rule_in_all(query), *_local_rules(table)],
        "measures": [_measure(plan, name) for name in plan.measures],
        "parts": _parts(plan),
        "budget": dict(plan.budget),
        "privacy": str(plan.privacy),
        "split": "equal predicted relative error, from public information only, unless weights are given",
        "randomness": "operating-system entropy expanded by AES-256-CTR; exact discrete noise",
        "warnings": warnings(plan),
        "intervals": interval_meaning(plan.threshold, person(plan)),
        "removed": _removed(plan),
        "clamping": _clamping(plan),
    }


def warnings(plan: Plan) -> list[str]:
    """Warnings for a person before this plan is paid for, by what is public alone."""
    table = plan.query.table
    numbers = {part.column for part in plan.query.parts if isinstance(part, ColumnPart)} & set(table.base.names)
    if table.source.member(table.name)[0].kind != "csv" or not numbers:
        return []
    return [f"cells of {', '.join(sorted(numbers))} that are not numbers count as missing"]


def error_words(plan: Plan, sizes: Iterable[float] = GROUP_SIZES) -> dict[str, str]:
    """The error of each measure in words: one number, or one for each size of a group that is assumed."""
    return {name: "; ".join(texts) for name, texts in _errors(plan, sizes).items()}


def _errors(plan: Plan, sizes: Iterable[float]) -> dict[str, list[str]]:
    """Return the errors of each measure, each with the groups in which it holds; the smallest error first."""
    by_size = plan.error_by_size(sizes)
    errors = {}
    for name, measure in plan.query.measures:
        if name in by_size:
            known = sorted(by_size[name].items(), reverse=True)
            errors[name] = [_error_of_size(plan, measure, size, half) for size, half in known]
        else:
            errors[name] = [f"±{up(plan.error()[name])}{_where(plan, measure)}"]
    return errors


def _error_of_size(plan: Plan, measure: Measure, size: float, half: float) -> str:
    where = f"in a group of {nearest(size, 12)} rows" if plan.query.columns else f"with {nearest(size, 12)} rows"
    if isinstance(measure, Mean) and half >= measure.limits[1] - measure.limits[0]:
        return f"no information {where}"
    return f"±{up(half)} {where}"


def _where(plan: Plan, measure: Measure) -> str:
    """Return the groups in which the error of a measure holds."""
    if not plan.query.columns:
        return ""
    if plan.threshold is None:
        return " in every group"
    is_chosen = UNITS in measure.parts()
    return f" well above the threshold {plan.threshold:,}" if is_chosen else " in every group that is shown"


TIMES = "(95 times in 100, privacy noise only)"
MANY = 2
"""Measures whose error depends on the size of a group, up to which all sizes are shown."""


def title(query: Query, name: str) -> str:
    """Return what is asked: the dataset by its name, its groups and how many there are."""
    by = f" by {' and '.join(map(visible, query.columns))}" if query.columns else ""
    if isinstance(query.keys, PublicTable):
        return f"{visible(name)}{by}, {people(len(query.keys.rows), 'group')}"
    return f"{visible(name)}{by}, groups found in the data" if query.columns else f"{visible(name)}, one total"


def summary(plan: Plan, sizes: Sequence[int] = (), usual: Usual | None = None, notes: Sequence[str] = ()) -> list[str]:
    """Return error, limits and bounds of a plan, as lines with a label each.

    ``sizes`` are rows in a group, for errors that depend on it. ``usual`` is a public size of a usual group.
    ``notes`` follow from what the owner registered.
    """
    rows = {
        "Error": _error_lines(plan, sizes),
        "Noise": noise_lines(plan, sizes, usual),
        "Groups": _group_lines(plan),
        "Limits": [capped(plan.query, person(plan))],
        "Bounds": bounded(plan.query),
        "Note": [*_row_level(plan), *warnings(plan), *notes],
    }
    return [line for label, texts in rows.items() for line in labelled(label, texts)]


def labelled(label: str, texts: Sequence[str]) -> list[str]:
    """Return lines behind one label.

    >>> labelled("Error", ["n ±20", "m ±3"])
    ['Error    n ±20', '         m ±3']
    """
    return [f"{label if place == 0 else '':<9}{text}" for place, text in enumerate(texts)]


def _error_lines(plan: Plan, sizes: Sequence[float]) -> list[str]:
    sized = [name for name, measure in plan.query.measures if measure.error_needs_size]
    usual = GROUP_SIZES if len(sized) <= MANY else (USUAL_SIZE,)
    errors = _errors(plan, sizes or usual)
    width = max(map(len, errors))
    lines = []
    for name, texts in errors.items():
        lines += [f"{visible(name) if place == 0 else '':<{width}}  {text}" for place, text in enumerate(texts)]
    times = _times(measure for _, measure in plan.query.measures)
    return [f"{lines[0]} {times}"] if len(lines) == 1 else [*lines, times]


def _times(measures: Iterable[Measure]) -> str:
    """Return how often errors hold, and which values the errors of means and quantiles assume."""
    assumed = dict.fromkeys(each.assumed for each in measures if each.assumed)
    return f"{TIMES[:-1]}; for {' and for '.join(assumed)})" if assumed else TIMES


def _group_lines(plan: Plan) -> list[str]:
    query = plan.query
    if isinstance(query.keys, PublicTable):
        followed = said_of_groups(query.table, query.columns, query.keys)
        return [followed] if followed else []
    if plan.threshold is None:
        return []
    who = plural(person(plan))
    return [f"found in the data; shown if the noisy number of {who} reaches {plan.threshold:,}"]


def _row_level(plan: Plan) -> list[str]:
    is_row = isinstance(plan.query.table.unit, EachRow)
    return ["single rows are protected, not the people they are about"] if is_row else []


def one_line(query: Query) -> str:
    """Return what is asked, in one line."""
    return f"{title(query, query.table.name)}: {', '.join(visible(name) for name, _ in query.measures)}"


def screen(plan: Plan) -> list[str]:
    """Return what a plan asks, its cost, error, limits and bounds, as lines."""
    head = f"Plan: {title(plan.query, plan.query.table.name)}"
    return [head, "", *labelled("Cost", [cost_words(plan)]), *summary(plan)]


def cost_words(plan: Plan) -> str:
    """Return the cost of a plan without an account: its budget, and for rho the epsilon it guarantees."""
    named = [word for word in ("rho", "epsilon", "delta") if plan.budget.get(word)]
    budget = ", ".join(f"{word} {typed(plan.budget[word])}" for word in named)
    if "rho" not in plan.budget:
        return budget
    at = _quoted_delta(plan)
    return f"{budget} (epsilon {up(plan.privacy.epsilon(delta=at))} at delta {typed(at)})"


def _removed(plan: Plan) -> list[dict[str, Any]]:
    """Reports on the caps and bounds, and how exact they are."""
    laws = {noise.part: noise.law.half_width(0.05) * noise.part.scale for noise in plan.noises}
    return [{"what": what, "error": laws[part]} for part in plan.query.removed for what in part.told]


def _clamping(plan: Plan) -> str:
    """Effect of bounds on means and totals, and what is known about it; empty if no value can be outside them."""
    moved = outside_parts(plan.query, [one for _, one in plan.query.measures if one.moved_by_clamping])
    if not moved:
        return ""
    told = any(part in plan.query.removed for part in moved)
    known = "This card says how many values were outside the bounds." if told else "It was not measured."
    return (
        "Bounds can change a mean, a total or a variance by any amount. The numbers and their intervals do not say "
        f"how far outside the bounds values were. {known}"
    )


def _keys(plan: Plan) -> dict[str, Any]:
    keys = plan.query.keys
    if isinstance(keys, PrivateKeys):
        return {"kind": "private", "delta": keys.delta, "threshold": plan.threshold, "reached": plan.lone_probability}
    return {"kind": "public" if keys else "total", "count": len(keys.rows) if isinstance(keys, PublicTable) else 1}


def _measure(plan: Plan, name: str) -> dict[str, Any]:
    measure = dict(plan.query.measures)[name]
    facts = {
        "name": name,
        **measure.to_data(),
        "said": described(plan.query, measure, person(plan)),
        "error": plan.error()[name],
    }
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
    """The delta at which the plan's epsilon is shown: that of the account, or the usual one without an account."""
    spent = plan.delta or 0.0
    usual = max(USUAL_DELTA, 10 * spent)
    return usual if plan.account is None else plan.account.quoted_delta(spent) or usual


def explained(plan: Plan) -> str:
    """Return cost, error, limits and bounds of a plan, and how it is made."""
    source = plan.query.table.source
    which = place(source) if source.one_table else f"table {plan.query.table.name!r}"
    head = [f"Plan: {title(plan.query, which)}", "", *labelled("Cost", [cost_words(plan)])]
    return "\n".join([*head, *summary(plan), "", *details(plan)])


def details(plan: Plan) -> list[str]:
    """Return the noise of a plan as a table, and its hash: how it is made."""
    said, who = facts(plan), person(plan)
    neighbours = {"add_remove": f"one {who} added or removed", "replace": f"the data of one {who} replaced"}
    columns = {measure["name"]: measure["said"] for measure in said["measures"]}
    lines = ["Noise", *_noise_lines(said["parts"], who), "", "Columns", *column_lines(columns), ""]
    also = [f"{_quantity(each['what'], who)} ±{up(each['error'])}" for each in said["removed"]]
    lines += [f"Measured for the effect of limits and bounds: {'; '.join(also)}."] if also else []
    if said["keys"]["kind"] == "private":
        lines.append(f"The list of groups uses delta {typed(said['keys']['delta'])}.")
    lines += [f"Guarantee: {said['privacy']}, for {neighbours[said['adjacency']]}."]
    lines += [f"{capital(WHAT_RHO_IS)}."] if "rho" in plan.budget else []
    return [*lines, f"Intervals: {said['intervals']}.", f"Plan {plan.hash[:16]}."]


def column_lines(columns: Mapping[str, str]) -> list[str]:
    """Return each column of a table with what it is.

    >>> column_lines({"n": "number of rows"})
    ['n  number of rows']
    """
    width = max(map(len, columns), default=0)
    return [f"{visible(name):<{width}}  {visible(text)}" for name, text in columns.items()]


def _quantity(label: str, who: str) -> str:
    """Return the label of a part in the owner's word for a person."""
    for beginning, words in (
        ("units", plural(who)),
        ("rows over the caps, of each unit", f"rows over the limits, of each {who}"),
        ("rows over the cap on rows, in each group, of each unit", f"rows over the limit in each group, of each {who}"),
    ):
        if label.startswith(beginning):
            return visible(f"{words}{label.removeprefix(beginning)}")
    return visible(label)


def _noise_lines(parts: Sequence[Mapping[str, Any]], who: str) -> list[str]:
    """Return the noise of each measured quantity as lines of a table."""
    changes = [f"{up(part['sensitivity'])} ({part['norm']})" for part in parts]
    noises = [f"{part['noise'].removeprefix('discrete ')} {nearest(part['scale'])}" for part in parts]
    columns = [
        Column("measured quantity", tuple(_quantity(part["part"], who) for part in parts), is_text=True),
        Column(f"most one {who} can change it", tuple(changes)),
        Column("noise scale", tuple(noises)),
        Column("share of cost", tuple(f"{nearest(100 * part['share'])} %" for part in parts)),
    ]
    return table_lines(columns)
