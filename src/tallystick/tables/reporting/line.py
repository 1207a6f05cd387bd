"""A line of a report on a table, as plain data. ``words`` puts it in a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from tallystick.tables.reporting import words

MOST_TOLD: Final = 0.5
"""Share of the total. If the interval of a share holds 0 and this share too, the line is too noisy to tell."""
CELLS: Final = (
    "what", "value", "lower", "upper", "about", "of", "total", "total_lower", "total_upper",
    "share", "share_lower", "share_upper", "too_noisy",
)  # fmt: skip
"""Columns of ``table.about.csv``, in which each line is a row."""
NOT_IN_DATA: Final = ("label", "seen_to", "limit", "is_of_groups", "is_of_all")
"""Fields that choose words. The sentence has them already."""


def standard_error(column: str, error: float) -> list[Any]:
    """Return the standard error of a column as a row with the columns ``CELLS``.

    >>> standard_error("n", 22.4)[:2]
    ['standard error of n', 22.4]
    """
    return [f"standard error of {column}", error, None, None, words.STANDARD_ERROR, *[None] * (len(CELLS) - 5)]


@dataclass(frozen=True, slots=True)
class Line:
    """An event, its column or limit, and a noisy whole number of it; intervals hold the privacy noise alone.

    A line about a column has no number: ``what`` names the column, and ``did`` says what was done to it. ``of`` says
    what ``total`` and ``share`` are of, and is empty where that was not asked.
    """

    what: str
    value: int | None = None
    lower: int | None = None
    upper: int | None = None
    did: str = ""
    of: str = ""
    total: int | None = None
    total_lower: int | None = None
    total_upper: int | None = None
    share: float | None = None
    share_lower: float | None = None
    share_upper: float | None = None
    label: str = ""
    """Name of what is counted, for a table of details."""
    may_be_more: bool = False
    """True if units may have lost more than is counted: then the true share may be above ``share_upper``."""
    seen_to: int = 0
    """Rows over the limits that are counted of one person, at most; 0 for other lines."""
    limit: int = 0
    """The limit per person that is exceeded; 0 if it is not one limit."""
    is_of_groups: bool = False
    """True if the limit is one on groups."""
    is_of_all: bool = False
    """True for the number of all rows, counted or not. Its upper end may be missing."""

    @property
    def too_noisy(self) -> bool:
        """True if the interval excludes neither 0 nor half of the total.

        The rule uses only released numbers. Without a total there is no range, so the number is always shown.
        """
        if self.lower or self.share_upper is None:
            return False
        return self.share_upper >= MOST_TOLD

    def to_data(self) -> dict[str, Any]:
        """Return plain JSON data: the numbers as drawn, ``too_noisy``, and the sentence."""
        data = {name: value for name, value in asdict(self).items() if name not in NOT_IN_DATA}
        return {**data, "too_noisy": self.too_noisy, "said": str(self)}

    def to_cells(self) -> list[Any]:
        """Return the line as a row with the columns ``CELLS``: under its name for people, if it has one."""
        values = asdict(self) | {"about": words.explain(self), "what": self.label or self.what}
        if self.value is not None:
            values["too_noisy"] = self.too_noisy
        return [values.get(name) for name in CELLS]

    def __str__(self) -> str:
        return words.sentence(self)

    def with_numbers(self) -> str:
        """Return the sentence with its numbers, even if they are too noisy to tell anything."""
        return words.numbers(self)


def data_of(line: Line | None) -> dict[str, Any] | None:
    """Return a line that may be missing as JSON data."""
    return None if line is None else line.to_data()
