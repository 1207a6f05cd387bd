"""A release: the stored noisy integers, read as a table of values with intervals. Reading is post-processing."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick import __version__
from tallystick.accounting import check
from tallystick.digits import people, up
from tallystick.drawing import bars
from tallystick.errors import LedgerIntegrity, Refused
from tallystick.inference.linear import half_width
from tallystick.printing import escaped, html_text, json_text, visible
from tallystick.regular_file import written_whole
from tallystick.tables.aggregates import public_bounds
from tallystick.tables.answers import answers_of
from tallystick.tables.consistent import Consistent, consistent
from tallystick.tables.estimates import Estimate, Noisy
from tallystick.tables.keyset import PublicTable
from tallystick.tables.output import Columns, beside, csv_text
from tallystick.tables.parts import UNITS
from tallystick.tables.reporting.columns import described, person, too_noisy
from tallystick.tables.reporting.limits import all_rows, limit_lines
from tallystick.tables.reporting.line import CELLS, Line, data_of
from tallystick.tables.reporting.report import Report
from tallystick.tables.reporting.sizes import sized
from tallystick.tables.reporting.words import interval_meaning
from tallystick.tables.sources import says_limited

if TYPE_CHECKING:
    from tallystick.inference.released import Answer
    from tallystick.ledger.pay import Receipt
    from tallystick.tables.aggregates import Measure
    from tallystick.tables.parts import Part
    from tallystick.tables.table import Plan

FORMAT = "tallystick/release/1"
CONFIDENCE = 0.95
NO_CONFIDENCE = 1e-9
"""A reading at this confidence has a value wherever the released count is positive. Its intervals are of no use."""


def answer_of(plan: Plan, keys: list[tuple[Any, ...]] | None, numbers: list[Any]) -> dict[str, Any]:
    """Content that the ledger keeps: noisy integers, and the groups where they were chosen privately."""
    held: Any = None
    if keys is not None:
        texts = [[v.isoformat() if isinstance(v, datetime.date) else v for v in key] for key in keys]
        held = [list(column) for column in zip(*texts, strict=True)] if texts else [[] for _ in plan.query.columns]
    made = {"format": FORMAT, "plan": plan.hash, "version": __version__, "keys": held, "numbers": list(numbers)}
    return made | sized(plan)


@dataclass(frozen=True)
class Release(Columns):
    """The published table. Equal answers give equal bytes.

    Every measure has three columns: its value, and ``_lower`` and ``_upper`` that hold the capped quantity in 95 of
    100 releases: a noise interval. No column has a population interval, which ``answers`` gives where it is valid.
    ``receipt`` is the ledger's proof of the charge; ``fresh`` is False when the ledger had the answer already and
    charged nothing now.
    """

    plan: Plan
    answer: dict[str, Any]
    receipt: Receipt | None = None
    fresh: bool = True
    most_rows: int | None = None
    """A public maximum of rows of one person, for the upper end of ``all_rows``. No noise depends on it."""
    is_joint: bool = False
    """True if the intervals of each column hold for all groups together (``for_all_groups``)."""

    def __post_init__(self) -> None:
        if self.answer.get("format") != FORMAT or self.answer.get("plan") != self.plan.hash:
            raise LedgerIntegrity("the stored answer belongs to another plan")

    @cached_property
    def keys(self) -> list[tuple[Any, ...]]:
        """The groups, in order."""
        stored, query = self.answer["keys"], self.plan.query
        if stored is None:
            return list(query.keys.rows) if isinstance(query.keys, PublicTable) else [()]
        kinds = [query.table.schema.type_of(column) for column in query.columns]
        columns = [
            [datetime.date.fromisoformat(v) for v in column] if kind == "date" else column
            for column, kind in zip(stored, kinds, strict=True)
        ]
        return list(zip(*columns, strict=True))

    @property
    def numbers(self) -> dict[Part, Noisy]:
        """The noisy integers of every part, with their law."""
        # The number of units decided which groups are shown; nothing else did.
        least: dict[Part, int | None] = {UNITS: self.plan.threshold}
        return {
            part: Noisy(np.asarray(values).reshape(-1, part.width), noise.law, part.scale, least.get(part))
            for noise, values in zip(self.plan.noises, self.answer["numbers"], strict=True)
            for part in (noise.part,)
        }

    def estimates(self, *, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """Every measure's column or columns, with intervals at any confidence."""
        numbers, estimates = self.numbers, dict[str, Estimate]()
        for name, measure in self.plan.query.measures:
            estimates |= dict(zip(measure.fields(name), measure.published(numbers, confidence), strict=True))
        return estimates

    def removed(self, *, confidence: float = CONFIDENCE) -> tuple[Line, ...]:
        """Numbers that the caps and bounds left out of the whole table, as far as the plan paid for it; whole numbers.

        Units over each cap, rows over the caps (of each unit up to a limit), values beyond each bound, each with of how
        many and which share. Values are of rows that count, each counted as much as its row.
        """
        return limit_lines(self.plan.query.removed, self.numbers, confidence, self.who)

    def all_rows(self, *, confidence: float = CONFIDENCE) -> Line | None:
        """Number of all rows in the groups, with those over the limits; None if the plan did not pay for it.

        Without ``most_rows``, a public maximum of rows of one person, its upper end is not known.
        """
        level = check.inside("confidence", confidence)
        return all_rows(self.plan.query, self.numbers, level, self.most_rows)

    @property
    def changes(self) -> tuple[Line, ...]:
        """Return what limits and bounds left out, and the number of all rows."""
        found = self.all_rows()
        return (*self.removed(), *([] if found is None else [found]))

    def widths(self, *, confidence: float = CONFIDENCE) -> dict[str, dict[str, float]]:
        """Widths of the intervals of each column: ``median`` and ``largest`` over its groups."""
        found = {}
        for name, estimate in self.estimates(confidence=confidence).items():
            wide = (estimate.upper - estimate.lower)[~np.isnan(estimate.upper - estimate.lower)]
            if wide.size:
                found[name] = {"median": float(np.median(wide)), "largest": float(wide.max())}
        return found

    def errors(self, *, confidence: float = CONFIDENCE) -> dict[str, dict[str, float]]:
        """Errors of each column, ``median`` and ``largest`` over its groups: the larger side of each interval."""
        found = {}
        for name, estimate in self.estimates(confidence=confidence).items():
            halves = (estimate.upper - estimate.lower) / 2
            sides = np.fmax(halves, np.fmax(estimate.upper - estimate.value, estimate.value - estimate.lower))
            known = sides[~np.isnan(sides)]
            if known.size:
                found[name] = {"median": float(np.median(known)), "largest": float(known.max())}
        return found

    def standard_errors(self) -> dict[str, float]:
        """Standard deviations of the noise of each column, as far as they are the same in every group.

        Counts, sums and bins have one. It is about the privacy noise alone, as the intervals are.
        """
        numbers, found = self.numbers, dict[str, float]()
        for name, measure in self.plan.query.measures:
            deviation = measure.deviation(numbers)
            if deviation is not None:
                found |= dict.fromkeys(measure.fields(name), deviation)
        return found

    def total_of(self, field: str, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Interval of the sum of a column over all groups of a public list; NaN for a column of several sums.

        The noise of different groups is independent, so the variances add up.
        """
        deviation, query = self.standard_errors().get(field), self.plan.query
        if deviation is None or not isinstance(query.keys, PublicTable):
            return math.nan, math.nan
        numbers, measure = self.numbers, query.fields[field]
        law = self.plan.noises[0].law
        step = sum(numbers[part].scale for part in measure.parts()) * max(
            1.0, abs(getattr(measure, "lower", 0.0) or 0.0)
        )
        half = half_width(law.deviations(confidence), [deviation] * len(self), step)
        middle = float(np.sum(self.estimates()[field].value))
        return middle - half, middle + half

    def for_all_groups(self) -> Release:
        """Return the table with the intervals of ``together`` in all its outputs."""
        require_all_groups(self.plan)
        return replace(self, is_joint=True)

    @property
    def all_groups(self) -> bool:
        """True if the intervals of each column hold for all groups together."""
        return self.is_joint

    def together(self, *, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """Each column with intervals that hold in all groups at once, in 95 of 100 releases.

        Each of the m groups is taken at confidence 1 - a/m, so that one of them misses with probability a at most.
        Groups that were found in the data are refused: those that are shown are not all that there are.
        """
        require_all_groups(self.plan)
        return self.estimates(confidence=_joint(check.inside("confidence", confidence), len(self)))

    def level(self, confidence: float) -> float:
        """Return the confidence of one interval: of joint ones, so that those of all groups hold together."""
        return _joint(confidence, len(self)) if self.is_joint else confidence

    def answers(self, field: str, *, of: int | None = None) -> dict[tuple[Any, ...], Answer]:
        """The cells of one column for ``ts.inference``, by their groups: each with its own two intervals.

        ``noise_interval()`` is that of the table's columns; ``population_interval()`` is about the units behind it.

        ``of`` is the public number of units in every group; it needs a plan in which a unit counts once.
        """
        return answers_of(self, field, of)

    def consistent(self, field: str, *, confidence: float = CONFIDENCE) -> Consistent:
        """One column as whole numbers that are not negative and add up with all their margins; free.

        ``consistent("n").margin("region")`` sums it. Values are moved, and biased near 0; intervals still hold the
        capped and clamped table's own numbers at least at their confidence (docs/theory/query-consistent.md).
        """
        return consistent(self, field, confidence)

    @cached_property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns: groups first, then value, lower and upper of each measure. None is "no value"."""
        groups = (list(group) for group in zip(*self.keys, strict=True)) if self.keys and self.keys[0] else ()
        columns: dict[str, list[Any]] = dict(zip(self.plan.query.columns, groups, strict=False))
        for column in self.plan.query.columns:
            columns.setdefault(column, [])
        for name, estimate in self.estimates(confidence=self.level(CONFIDENCE)).items():
            columns[name] = _plain(estimate.value)
            columns[f"{name}_lower"] = _plain(estimate.lower)
            columns[f"{name}_upper"] = _plain(estimate.upper)
        return columns

    def drawn(self) -> dict[str, list[Any]]:
        """Values of each measure, also where ``data`` has no values because the noise hides them."""
        numbers, values = self.numbers, dict[str, list[Any]]()
        for name, measure in self.plan.query.measures:
            for field, estimate in zip(measure.fields(name), measure.read(numbers, NO_CONFIDENCE), strict=True):
                values[field] = _plain(estimate.value)
        return values

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that say which group a row is about."""
        return self.plan.query.columns

    @property
    def counts(self) -> tuple[str, ...]:
        """The columns that are noisy numbers of rows or people."""
        return tuple(field for field, measure in self.plan.query.fields.items() if measure.counts)

    @property
    def limited(self) -> frozenset[str]:
        """The columns that limits per person touch and whose own names do not say it."""
        query = self.plan.query
        if not says_limited(self.answer):
            return frozenset()
        touched = [each for each in query.measures if query.is_limited(each[1]) and not _says_limited(each[1])]
        return frozenset(field for name, measure in touched for field in measure.fields(name))

    def nonnegative(self) -> dict[str, list[Any]]:
        """``data`` with values and intervals of counts, totals and bins pulled up to 0: post-processing, biased."""
        positive = [field for field, measure in self.plan.query.fields.items() if measure.never_negative]
        names = {f"{field}{end}" for field in positive for end in ("", "_lower", "_upper")}
        return {
            name: [v if v is None else max(0, v) for v in column] if name in names else column
            for name, column in self.data.items()
        }

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, written to ``path`` where one is given, with ``about_csv`` beside it."""
        text = Columns.to_csv(self)
        if path is not None:
            with written_whole(path) as table, written_whole(beside(path)) as about:
                table.write_text(text, encoding="utf-8", newline="")
                about.write_text(self.about_csv(), encoding="utf-8", newline="")
        return text

    def about_csv(self) -> str:
        """Meaning of the intervals and what the caps left out, as CSV text: ``table.about.csv`` beside a table."""
        return csv_text(CELLS, self._report.about(self.changes, self.noisy))

    @property
    def _report(self) -> Report:
        """Report beside the table, each measure under the name of its column in outputs."""
        names = {}
        for name, measure in self.plan.query.measures:
            fields = measure.fields(name)
            names[name] = self.headers[fields[0]] if len(fields) == 1 else name
        return Report(self.plan, names, all_groups=self.all_groups, errors=self.standard_errors_shown())

    def standard_errors_shown(self) -> dict[str, float]:
        """``standard_errors`` by the names of columns in outputs."""
        return {self.headers[name]: error for name, error in self.standard_errors().items()}

    def to_data(self) -> dict[str, Any]:
        """Rows, plan hash and receipt as JSON data."""
        receipt = None if self.receipt is None else json.loads(self.receipt.to_json())
        about = {
            "intervals": interval_meaning(self.plan.threshold, self.who, all_groups=self.all_groups),
            "standard_errors": self.standard_errors_shown(),
            "measures": self._report.measured(),
            "removed": [each.to_data() for each in self.removed()],
            "all_rows": data_of(self.all_rows()),
        }
        return {"format": FORMAT, "plan": self.plan.hash, "rows": self.plain_rows(), **about, "receipt": receipt}

    def to_json(self) -> str:
        """Rows, plan hash and receipt as JSON text."""
        return json_text(json.dumps(self.to_data(), indent=1))

    def __len__(self) -> int:
        return len(self.keys)

    def about(self, field: str) -> str:
        """Words for a column and what was done to its values."""
        query = self.plan.query
        measure = query.fields.get(field)
        return "" if measure is None else visible(described(query, measure, self.who))

    @property
    def holds(self) -> str:
        """Meaning of the numbers and their intervals, in a sentence to print beside them."""
        return self._report.holds()

    @property
    def who(self) -> str:
        """The word for one person: the owner's, else the name of the column that tells people apart."""
        return person(self.plan)

    @property
    def left_out(self) -> str:
        """Effect of limits and bounds, in sentences to print beside the table; empty if it was not measured."""
        return self._report.left_out(self.removed())

    @property
    def noisy(self) -> str:
        """Which means and quantiles are too noisy to use, in a sentence to print beside the table; empty if none."""
        return too_noisy(self, public_bounds(self.plan.query.fields))

    @property
    def wide(self) -> str:
        """Errors of the columns, in a sentence; of at most eight columns, since each bin is one."""
        found = self.errors()
        shown, all_of_them = list(found.items())[:8], len(found)
        errors = "; ".join(
            f"{escaped(self.headers[n])} ±{up(each['median'])} (largest ±{up(each['largest'])})" for n, each in shown
        )
        more = f"; and {all_of_them - len(shown)} more columns" if all_of_them > len(shown) else ""
        return f"Error in a middle group: {errors}{more}." if errors else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines under the table: what intervals mean, and the effect of limits and bounds if it is not small."""
        return tuple(self._report.notes(self.removed(), self.noisy))

    @property
    def effect(self) -> str:
        """The effect of limits and bounds in one sentence; empty if it is small for certain."""
        return self._report.effect(self.removed())

    def details(self) -> list[str]:
        """Return what limits and bounds changed and what each column is, as lines for a terminal."""
        return self._report.details(self.changes)

    def __str__(self) -> str:
        """The table for a terminal: values with their errors or intervals, at most 40 groups."""
        return "\n".join([*self.lines(), "", *self.notes])

    def __repr__(self) -> str:
        shown = self.headers.values()
        columns = visible(", ".join(name for name in shown if not name.endswith(("_lower", "_upper"))))
        return f"<Release of {people(len(self), 'group')}: {columns}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p><small>{html_text(line)}</small></p>" for line in self.notes)
        charts = "".join(f"<div style='max-width:640px'>{bars(each)}</div>" for each in self.bars(fields=2))
        return f"{self.html()}{charts}{notes}"


def _joint(confidence: float, groups: int) -> float:
    """Return the confidence of each of several intervals that hold together at this one (Bonferroni)."""
    return 1.0 - (1.0 - confidence) / max(1, groups)


def require_all_groups(plan: Plan) -> None:
    """Refuse intervals for all groups together if the groups were found in the data: others may exist."""
    if plan.threshold is not None:
        raise Refused("no intervals for all groups together: these groups were found in the data. Use public keys")


def _says_limited(measure: Measure) -> bool:
    """True if the column of a measure says in its own name that limits per person touch it."""
    return getattr(measure, "says_limited", None) is True


def _plain(values: Any) -> list[Any]:
    """Python numbers: whole ones as int, NaN as None."""
    cells: list[Any] = []
    for value in values.tolist():
        if math.isnan(value):
            cells.append(None)
        elif value == int(value) and abs(value) < 2**53:
            cells.append(int(value))
        else:
            cells.append(value)
    return cells
