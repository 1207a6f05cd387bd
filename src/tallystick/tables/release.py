"""A release: the stored noisy integers, read as a table of values with intervals. Reading is post-processing."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick import __version__
from tallystick.accounting import check
from tallystick.digits import people, up
from tallystick.drawing import bars
from tallystick.errors import LedgerIntegrity, Refused
from tallystick.printing import escaped, html_text, json_text, visible
from tallystick.regular_file import written_whole
from tallystick.tables.aggregates import public_bounds
from tallystick.tables.answers import answers_of
from tallystick.tables.consistent import Consistent, consistent
from tallystick.tables.estimates import Estimate, Noisy
from tallystick.tables.keyset import PublicTable
from tallystick.tables.output import Columns, beside, csv_text
from tallystick.tables.parts import UNITS
from tallystick.tables.reporting.columns import described, measured
from tallystick.tables.reporting.limits import limit_lines
from tallystick.tables.reporting.line import CELLS, Line
from tallystick.tables.reporting.report import Report
from tallystick.tables.reporting.sizes import sized
from tallystick.tables.reporting.words import interval_meaning, too_noisy_to_use

if TYPE_CHECKING:
    from tallystick.inference.released import Answer
    from tallystick.ledger.pay import Receipt
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

    def together(self, *, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """Each column with intervals that hold in all groups at once, in 95 of 100 releases.

        Each of the m groups is taken at confidence 1 - a/m, so that one of them misses with probability a at most.
        Groups that were found in the data are refused: those that are shown are not all that there are.
        """
        if self.plan.threshold is not None:
            raise Refused("no intervals for all groups together: these groups were found in the data. Use public keys")
        miss = (1.0 - check.inside("confidence", confidence)) / max(1, len(self))
        return self.estimates(confidence=1.0 - miss)

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
        for name, estimate in self.estimates().items():
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
        return csv_text(CELLS, Report(self.plan).about(self.removed(), self.noisy))

    def to_data(self) -> dict[str, Any]:
        """Rows, plan hash and receipt as JSON data."""
        receipt = None if self.receipt is None else json.loads(self.receipt.to_json())
        about = {
            "intervals": interval_meaning(self.plan.threshold, self.who),
            "measures": measured(self.plan.query, self.who),
            "removed": [each.to_data() for each in self.removed()],
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
        return Report(self.plan).holds()

    @property
    def who(self) -> str:
        """The word for one person: the owner's, else the name of the column that tells people apart."""
        return Report(self.plan).who

    @property
    def left_out(self) -> str:
        """Effect of limits and bounds, in sentences to print beside the table; empty if it was not measured."""
        return Report(self.plan).left_out(self.removed())

    @property
    def noisy(self) -> str:
        """Which means and quantiles are too noisy to use, in a sentence to print beside the table; empty if none."""
        return too_noisy_to_use(self.data, public_bounds(self.plan.query.fields), self.groups)

    @property
    def wide(self) -> str:
        """Errors of the columns, in a sentence; of at most eight columns, since each bin is one."""
        found = self.errors()
        shown, all_of_them = list(found.items())[:8], len(found)
        errors = "; ".join(f"{escaped(n)} ±{up(each['median'])} (largest ±{up(each['largest'])})" for n, each in shown)
        more = f"; and {all_of_them - len(shown)} more columns" if all_of_them > len(shown) else ""
        return f"Error in a middle group: {errors}{more}." if errors else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines under the table: what intervals mean, and the effect of limits and bounds if it is not small."""
        return tuple(Report(self.plan).notes(self.removed(), self.noisy))

    @property
    def effect(self) -> str:
        """The effect of limits and bounds in one sentence; empty if it is small for certain."""
        return Report(self.plan).effect(self.removed())

    def details(self) -> list[str]:
        """Return what limits and bounds changed and what each column is, as lines for a terminal."""
        return Report(self.plan).details(self.removed())

    def __str__(self) -> str:
        """The table for a terminal: values with their errors or intervals, at most 40 groups."""
        return "\n".join([*self.lines(), "", *self.notes])

    def __repr__(self) -> str:
        columns = visible(", ".join(name for name in self.columns if not name.endswith(("_lower", "_upper"))))
        return f"<Release of {people(len(self), 'group')}: {columns}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<p><small>{html_text(line)}</small></p>" for line in self.notes)
        charts = "".join(f"<div style='max-width:640px'>{bars(each)}</div>" for each in self.bars(fields=2))
        return f"{self.html()}{charts}{notes}"


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
