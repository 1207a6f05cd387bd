"""A plan in words, and as the plain facts that a privacy card shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.printing import given
from tallystick.tables.keyset import PrivateKeys, PublicTable
from tallystick.tables.table import EachRow

if TYPE_CHECKING:
    from tallystick.tables.plan import Plan

RULES = (
    "rows with a missing unit or group are dropped",
    "NaN, and CSV cells not of their declared type, are missing; without a stand-in they are left out",
    "values beyond the bounds, infinities included, count as the nearest bound; histograms leave them out",
    "CSV lines with too few cells are dropped, cells too many ignored; records over 1 MiB or not in UTF-8 are dropped",
    "of a CSV record with a quote that is not closed, the line on which it begins is dropped",
    "text is compared byte by byte, whatever collation a column has",
    "integers beyond 64 bits, and dates before the year 1 or after 9999, are missing",
    "numbers beyond 1e300 count as 1e300, those closer to 0 than 1e-300 as 0",
    "measures are rounded down to a public power-of-two step and added as integers",
    "a unit with more rows in a group than allowed keeps them all at a smaller weight, rounded down",
    "a unit with more groups than allowed keeps those with the smallest keyed hash of (unit, group)",
)


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
        "rules": list(RULES),
        "measures": [_measure(plan, name) for name in plan.measures],
        "parts": _parts(plan),
        "budget": dict(plan.budget),
        "privacy": str(plan.privacy),
        "split": "equal predicted relative error, from public information only, unless weights are given",
        "randomness": "operating-system entropy expanded by AES-256-CTR; exact discrete noise",
        "intervals": "95%, over the privacy noise; they hold the capped and clamped quantity",
    }


def _keys(plan: Plan) -> dict[str, Any]:
    keys = plan.query.keys
    if isinstance(keys, PrivateKeys):
        return {"kind": "private", "delta": keys.delta, "threshold": plan.threshold, "reached": plan.lone_probability}
    return {"kind": "public" if keys else "total", "count": len(keys.rows) if isinstance(keys, PublicTable) else 1}


def _measure(plan: Plan, name: str) -> dict[str, Any]:
    measure = dict(plan.query.measures)[name]
    told = {"name": name, **measure.to_data(), "error": plan.error()[name]}
    told.pop("whole", None)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}


def _parts(plan: Plan) -> list[dict[str, Any]]:
    query = plan.query
    told = []
    for noise in plan.noises:
        part, order = noise.part, noise.law.order
        size = part.norm(query.caps, query.table.adjacency, order) ** (1 / order)
        told.append(
            {
                "part": part.label,
                "norm": f"L{order}",
                "sensitivity": size * part.scale,
                "noise": f"discrete {noise.law.name.capitalize()}",
                "scale": noise.scale * part.scale,
                "step": part.scale,
                "share": noise.share,
            }
        )
    return told


def explained(plan: Plan) -> str:
    """The facts as lines of text."""
    told = facts(plan)
    unit, keys = told["unit"], told["keys"]
    lines = [f"plan {plan.hash[:16]} of table {told['table']!r}, {told['privacy']} ({told['adjacency']})"]
    lines.append(
        f"  caps     one {unit}: at most {told['max_groups']} groups, "
        f"in each a weight of {told['max_rows_per_group']} rows"
    )
    if told["row_level"]:
        lines.append("  WARNING  single rows are protected, not the people they are about")
    if keys["kind"] == "private":
        lines.append(
            f"  groups   from the data, shown when the noisy number of units is at least {keys['threshold']} "
            f"(delta {given(keys['delta'])})"
        )
    else:
        lines.append(f"  groups   {keys['count']} {keys['kind']}; every one appears")
    for part in told["parts"]:
        lines.append(
            f"  part     {part['part']}: {part['norm']} sensitivity {part['sensitivity']:.6g}, {part['noise']} "
            f"{part['scale']:.6g}, {100 * part['share']:.1f}% of the budget"
        )
    for measure in told["measures"]:
        lines.append(f"  measure  {measure['name']}: {measure['kind']}, +-{measure['error']:.4g} at 95%")
    lines.append("           (errors of means, variances and quantiles: for a group of 1000 rows)")
    lines += [f"  rule     {rule}" for rule in told["rules"]]
    return "\n".join(lines)
