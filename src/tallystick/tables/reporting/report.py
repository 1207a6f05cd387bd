"""What is said beside a released table: how it was capped, what its columns and intervals are, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.printing import visible
from tallystick.tables.plan import Plan, intervals_about
from tallystick.tables.reporting.limits import ABOUT as ABOUT_REMOVED
from tallystick.tables.reporting.limits import INTERVAL, TOO_NOISY, Removed
from tallystick.tables.reporting.table import capped, measured, said
from tallystick.tables.table import EachRow

COMPUTED: Final = "computed from released numbers, without an interval of its own"
_TOTALS: Final = ("of", "total", "total_lower", "total_upper", "share", "share_lower", "share_upper")
_OF_REMOVED: Final = (*_TOTALS, "too_noisy")
ABOUT_COLUMNS: Final = ("what", "value", "lower", "upper", "about", *_OF_REMOVED)


@dataclass(frozen=True, slots=True)
class Told:
    """The plan of a table and the names under which it is shown.

    ``names`` are those of measures that are shown under others, ``computed`` the columns that are none, and
    ``intervals`` says whether any column has one.
    """

    plan: Plan
    names: Mapping[str, str] = field(default_factory=dict)
    computed: tuple[str, ...] = ()
    intervals: bool = True

    @property
    def who(self) -> str:
        """What one unit is called: the column that tells units apart."""
        unit = self.plan.query.table.unit
        return "row" if isinstance(unit, EachRow) else visible(unit)

    def holds(self) -> str:
        """What the numbers and their intervals are about, in a sentence."""
        query = self.plan.query
        columns = "; ".join(
            f"{visible(self.names.get(name, name))}: {visible(said(query, measure))}"
            for name, measure in query.measures
        )
        brackets = f" In brackets: {intervals_about(self.plan)}." if self.intervals else ""
        return f"Capped: {capped(query, self.who)}. {columns}.{brackets}"

    def left_out(self, removed: Iterable[Removed]) -> str:
        """What the caps and bounds left out, in a sentence; empty where it was not asked."""
        lines = list(removed)
        if not lines:
            return ""
        sentences = [f"Left out (a unit is one {self.who}): {'; '.join(map(str, lines))}."]
        noisy = [each for each in lines if each.too_noisy]
        if noisy:
            sentences.append(TOO_NOISY)
        if len(noisy) < len(lines):
            # a number with its total says itself where there may be more
            about = INTERVAL if all(each.did for each in lines) else ABOUT_REMOVED
            which = "Each of the others" if noisy else "Each"
            sentences.append(f"{which} is a {about}.")
        return " ".join(sentences)

    def about(self, removed: Iterable[Removed]) -> list[list[Any]]:
        """All of it as the rows of a table with ``ABOUT_COLUMNS``."""
        said = {"every _lower and _upper": intervals_about(self.plan)} if self.intervals else {}
        own = measured(self.plan.query, self.who)
        said |= {self.names.get(name, name): words for name, words in own.items()}
        said |= dict.fromkeys(self.computed, COMPUTED)
        lines: list[list[Any]] = [
            [what, None, None, None, words, *[None] * len(_OF_REMOVED)] for what, words in said.items()
        ]
        for each in removed:
            about = TOO_NOISY if each.too_noisy else ABOUT_REMOVED
            numbers = [each.value, each.lower, each.upper]
            others = [getattr(each, name) for name in _OF_REMOVED]
            lines.append([each.what, *numbers, f"{each}: {about}", *others])
        return lines
