"""Steps between a stored table and its grouped rows, and the unit of a table without a unit column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallystick.tables.expressions import Expression
    from tallystick.tables.keyset import PublicTable
    from tallystick.tables.local import LocalStep


@dataclass(frozen=True, slots=True)
class EachRow:
    """Row-level privacy: every row is its own unit."""


EACH_ROW = EachRow()
each_row: Final = EACH_ROW
"""``unit=ts.each_row``: protect single rows. Weaker than protecting the people the rows are about."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step between the stored table and the grouped rows: a filter, a derived column, a public join, or one that
    sees all rows of a unit (``local``).
    """

    kind: str
    name: str = ""
    expression: Expression | None = field(default=None, compare=False)
    public: PublicTable | None = None
    how: str = "inner"
    local: LocalStep | None = None

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.expression is not None:
            data["expression"] = self.expression.to_data()
        if self.name:
            data["name"] = self.name
        if self.public is not None:
            data |= {"public": self.public.to_data(), "how": self.how}
        if self.local is not None:
            data |= self.local.to_data()
            if self.local.other is not None:
                data["other"] = self.local.other.as_other()
        return data
