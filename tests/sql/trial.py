"""A trial of the SQL door: statement after statement is planned, and every plan is judged by what is not the reader."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import duckdb
from sqlglot.errors import SqlglotError

from sql import generator, hostile, locality, neighbours
from sql.small_tables import catalogue
from tallystick.errors import TallystickError
from tallystick.tables.sql.statement import Statement, planned

NOT_RUN = (duckdb.Error, SqlglotError, ValueError, KeyError, AttributeError)
"""What says that a statement is no SQL of DuckDB's, so that there is nothing to compare."""


@dataclass
class Trial:
    """Counts of what happened to the statements of one seed, and everything that is wrong."""

    seed: int
    compare_every: int = 1
    neighbours_every: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    planned: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    hostile: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def take(self, number: int) -> None:
        """Write, plan and judge one statement."""
        one = generator.written(self.seed, number)
        self.counts["statements"] += 1
        self.written.update(one.constructs)
        kinds = [self.hostile.setdefault(kind, Counter()) for kind in one.hostile]
        for kind in kinds:
            kind["written"] += 1
        try:
            made = planned(one.text, catalogue())
        except TallystickError as problem:
            self._refused(one, str(problem))
            return
        except Exception as problem:  # whatever it is, no statement may do it
            self._found("crashed", one, f"{type(problem).__name__}: {problem}")
            return
        self.counts["planned"] += 1
        self.planned.update(one.constructs)
        for kind in kinds:
            kind["planned"] += 1
        self._judge(one, made)
        self._run(one, made, number)

    def _refused(self, one: generator.Written, said: str) -> None:
        self.counts["refused"] += 1
        self.refusals[reason(said)] += 1
        if ". Try: " not in said and "; give " not in said:
            self._found("refused without a way out", one, said)
        for kind in one.hostile & {*hostile.RELATIONS, *hostile.WHOLE}:
            try:
                outermost = kind in hostile.ADDED_UP
                unlike = locality.differs(one.text, first=self.counts["refused"], outermost=outermost)
            except NOT_RUN:
                self.hostile[kind]["no SQL of DuckDB's"] += 1
                continue
            self.hostile[kind]["rejected by the oracle" if unlike else "not rejected"] += 1

    def _judge(self, one: generator.Written, made: Statement) -> None:
        """The unit-local oracle, and whether the plan's noise is where the oracle looked."""
        try:
            unlike = locality.differs(one.text, 3 if one.hostile else 1, first=self.counts["planned"])
            _, groups = locality.rows_of(one.text)
        except NOT_RUN as problem:
            self.counts["planned, but no SQL of DuckDB's"] += 1
            if not one.hostile:
                self._found("not judged", one, f"{type(problem).__name__}: {problem}")
            return
        self.counts["judged by the oracle"] += 1
        if unlike is not None:
            self._found("not unit-local", one, unlike)
        if groups != len(made.plan.query.columns):
            self._found("noise at another level", one, f"{len(made.plan.query.columns)} groups for {groups}")

    def _run(self, one: generator.Written, made: Statement, number: int) -> None:
        turn = self.counts["planned"]
        if one.comparable and not one.hostile and turn % self.compare_every == 0:
            self.counts["compared with plain SQL"] += 1
            try:
                unlike = neighbours.unlike_plain_sql(one.text, one.keys, made, number)
            except TallystickError as problem:
                unlike = [f"{type(problem).__name__}: {problem}"]
            for line in unlike:
                self._found("unlike plain SQL", one, line)
        if turn % self.neighbours_every == 0:
            self.counts["run on neighbours"] += 1
            for line in neighbours.unequal(one.text, number):
                self._found("unequal on neighbours", one, line)

    def _found(self, what: str, one: generator.Written, said: str) -> None:
        self.counts[what] += 1
        self.wrong.append(f"{what}: {one.name}: {said[:300]}\n    {one.text}")

    def missed(self, quota: int, kinds: tuple[str, ...]) -> list[str]:
        """Constructs of which too few were planned."""
        return [f"{kind}: {self.planned[kind]} planned of {quota}" for kind in kinds if self.planned[kind] < quota]

    def tame(self) -> list[str]:
        """Forbidden relations that the oracle did not reject once, though they are not unit-local."""
        kinds = (kind for kind in hostile.RELATIONS if kind not in hostile.LOCAL_BUT_REFUSED)
        return [kind for kind in kinds if not self.hostile.get(kind, Counter())["rejected by the oracle"]]


def reason(said: str) -> str:
    """The words of a refusal without names, numbers and places."""
    found = re.match(r"sql = '(.*?)(?: at \d+:\d+)?' is not allowed", said) or re.match(r"(.*?) at \d+:\d+ ", said)
    words = found[1] if found is not None else said[:60]
    words = re.sub(r"\((?:.*)\)", "(...)", words)
    words = re.sub(r"column \S+", "column ...", words)
    return re.sub(r"\b(\d+(\.\d+)?(e-?\d+)?)\b", "n", words)[:60]
