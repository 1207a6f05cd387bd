"""A question, complete and checked, but not yet paid for: table, groups and measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput, Refused
from tallystick.tables.aggregates import Measure, measure_from_data
from tallystick.tables.keyset import PrivateKeys, PublicTable, private_keys
from tallystick.tables.parts import Caps, Part, Units
from tallystick.tables.schema import all_different, new_name
from tallystick.tables.table import EachRow, Grouped, Table

if TYPE_CHECKING:
    from tallystick.tables.plan import Plan

MOST_MEASURES = 100
MOST_NUMBERS = 2_000_000
"""A release has at most so many noisy numbers; they are kept in the ledger."""

UNITS = Units()


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked. ``plan`` prices it; no data has been opened yet."""

    table: Table
    columns: tuple[str, ...]
    keys: PublicTable | PrivateKeys | None
    measures: tuple[tuple[str, Measure], ...]
    caps: Caps

    @classmethod
    def of(cls, grouped: Grouped, measures: dict[str, Measure]) -> Query:
        """Check everything that can be checked without data."""
        table = grouped.table
        if not 1 <= len(measures) <= MOST_MEASURES:
            raise InvalidInput("agg", f"{len(measures)} measures", f"1 to {MOST_MEASURES} named measures, n=ts.count()")
        declared = {name: (low, high) for name, low, high in table.declared}
        bound = []
        for name, measure in measures.items():
            new_name(name)
            if not isinstance(measure, Measure):
                raise InvalidInput(
                    f"agg({name})", type(measure).__name__, "a measure such as ts.count() or ts.mean(...)"
                )
            bound.append((name, measure.bound(table.schema, declared)))
        query = cls(table, grouped.columns, grouped.keys, tuple(bound), _caps(grouped, [m for _, m in bound]))
        query._check_size()
        return query

    def _check_size(self) -> None:
        fields = [field for name, measure in self.measures for field in measure.fields(name)]
        shown = [f"{field}{end}" for field in fields for end in ("", "_lower", "_upper")]
        if not all_different((*shown, *self.columns)):
            raise InvalidInput(
                "agg", fields[:10], "measures whose columns differ in name from each other and the groups"
            )
        numbers = self.width * (len(self.keys.rows) if isinstance(self.keys, PublicTable) else 1)
        if numbers > MOST_NUMBERS:
            raise InvalidInput(
                "agg", f"{numbers} noisy numbers", f"at most {MOST_NUMBERS}: fewer keys, measures or bins"
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The different parts of all measures, and the number of units where it decides which groups appear."""
        needed = [UNITS] if isinstance(self.keys, PrivateKeys) else []
        return tuple(dict.fromkeys(needed + [part for _, measure in self.measures for part in measure.parts()]))

    @property
    def width(self) -> int:
        """Noisy numbers per group."""
        return sum(part.width for part in self.parts)

    def plan(self, **budget: Any) -> Plan:
        """Price it: ``rho=`` (and ``delta=``), ``epsilon=`` and ``delta=``, ``epsilon=`` alone, or ``error=``.

        The budget is the total charged, the delta of private keys included. ``error=20`` asks for +-20 at
        ``confidence=`` (0.95) on the first measure, ``error={"n": 20}`` on that one. ``weights={"n": 2}`` overrides
        how the budget is split.
        """
        from tallystick.tables.plan import make_plan

        return make_plan(self, budget)

    def suggest(self, **budget: Any) -> tuple[Plan, ...]:
        """Three plans on the frontier of price and error: a quarter of the budget, the budget, four times it."""
        from tallystick.tables.plan import make_plan

        name = next((word for word in ("rho", "epsilon") if budget.get(word) is not None), None)
        if name is None:
            raise InvalidInput("budget", sorted(budget), "rho= or epsilon=")
        return tuple(make_plan(self, {**budget, name: budget[name] * times}) for times in (0.25, 1, 4))

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        keys: Any = None
        if isinstance(self.keys, PrivateKeys):
            keys = {"private": self.keys.delta}
        elif self.keys is not None:
            keys = {"public": self.keys.to_data()}
        return {
            "table": self.table.to_data(),
            "group_by": list(self.columns),
            "keys": keys,
            "measures": [[name, measure.to_data()] for name, measure in self.measures],
        }

    @classmethod
    def from_data(cls, data: dict[str, Any], **options: Any) -> Query:
        """The question that ``to_data`` wrote, checked again from the start."""
        table = Table.from_data(data["table"], **options)
        keys: Any = data["keys"]
        if keys is not None:
            given = "private" in keys
            keys = private_keys(delta=keys["private"]) if given else PublicTable.from_data(keys["public"])
        grouped = table.group_by(*data["group_by"], keys=keys)
        return grouped.agg(**{name: measure_from_data(measure) for name, measure in data["measures"]})

    def about(self, table: Table) -> Query:
        """The same question about the same table in another place."""
        return replace(self, table=table)


def _caps(grouped: Grouped, measures: list[Measure]) -> Caps:
    table = grouped.table
    if isinstance(table.unit, EachRow):
        return Caps(1, 1)
    only_units = all(part == UNITS for measure in measures for part in measure.parts())
    rows = 1 if only_units and table.max_rows is None else table.max_rows
    groups = 1 if not grouped.columns else table.max_groups
    if isinstance(grouped.keys, PublicTable) and groups is not None:
        groups = min(groups, len(grouped.keys.rows))
    if rows is None or groups is None:
        wanted = "max_rows_per_group=" if groups is not None else "max_groups= and max_rows_per_group="
        raise Refused(f"one unit could contribute without limit; say .per_unit({wanted}) before group_by")
    return Caps(groups, rows)
