"""Eighteen questions that a new user asks of ratings, some of them by people with very many rows, and their truth.

The truth is that of DuckDB on all rows: no limit, no noise. The table's own value is that after limits, without noise.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

import tallystick as ts
from sql.judge import Exact, without_noise
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.release import Release, answer_of
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import Statement, planned

COURSES = [f"c{number:02}" for number in range(14)]
LECTURERS = ["ann", "bob", "eva", "jan"]
FIRST, LAST = datetime.date(2026, 1, 1), datetime.date(2026, 6, 30)
STUDENTS = 3_000
HEAVY = (100_000, *[1_000] * 20)
"""Rows of the people with very many."""
PER_STUDENT = "SELECT student, COUNT(*) AS n FROM ratings GROUP BY student"
BY_COURSE = "SELECT course, COUNT(*) AS n, COUNT(DISTINCT student) AS people FROM ratings GROUP BY course"
QUESTIONS = {
    "how many ratings": "SELECT COUNT(*) AS n FROM ratings",
    "how many students": "SELECT COUNT(DISTINCT student) AS people FROM ratings",
    "ratings of each course": "SELECT course, COUNT(*) AS n FROM ratings GROUP BY course",
    "students of each course": "SELECT course, COUNT(DISTINCT student) AS people FROM ratings GROUP BY course",
    "the mean": "SELECT AVG(stars) AS stars FROM ratings",
    "the mean of each course": "SELECT course, AVG(stars) AS stars, COUNT(*) AS n FROM ratings GROUP BY course",
    "how often each rating": "SELECT stars, COUNT(*) AS n FROM ratings GROUP BY stars",
    "the share of each rating": (
        "SELECT stars, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM ratings GROUP BY stars"
    ),
    "ratings of each month": "SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM ratings GROUP BY month",
    "a mean as a ratio": "SELECT course, SUM(stars) / COUNT(*) AS stars FROM ratings GROUP BY course",
    "the mean of each lecturer": "SELECT lecturer, AVG(stars) AS stars FROM ratings GROUP BY lecturer",
    "the sum of each course": "SELECT course, SUM(stars) AS stars FROM ratings GROUP BY course",
    "guests and others": (
        "SELECT guest, AVG(stars) AS stars, COUNT(DISTINCT student) AS people FROM ratings GROUP BY guest"
    ),
    "the share of bad ratings": (
        "SELECT course, 1.0 * COUNT(*) FILTER (WHERE stars <= 2) / COUNT(*) AS bad FROM ratings GROUP BY course"
    ),
    "ratings for each student of a course": f"SELECT course, n / people AS each FROM ({BY_COURSE}) AS t",
    "who gave a bad rating": "SELECT COUNT(DISTINCT CASE WHEN stars <= 2 THEN student END) AS people FROM ratings",
    "ratings for each student": f"SELECT AVG(n) AS each FROM ({PER_STUDENT}) AS t",
    "some courses and all others": (
        "SELECT CASE WHEN course IN ('c00', 'c01') THEN course ELSE 'other' END AS course, COUNT(*) AS n "
        "FROM ratings GROUP BY 1"
    ),
}  # fmt: skip
WORLDS: dict[str, tuple[Mapping[str, int], bool]] = {
    "limits in each group": ({"max_groups": 5, "max_rows_per_group": 3}, True),
    "a limit on all rows": ({"max_rows": 20}, True),
    "one row each": ({"max_groups": 1, "max_rows_per_group": 1}, False),
}
"""Limits per person, and whether people have more rows than one."""


def ratings(*, has_many: bool, seed: int = 7) -> pa.Table:
    """Rows of made-up students; heavy ones give the same rating again and again, to the first courses."""
    draw = np.random.default_rng(seed)
    own = draw.geometric(0.15, STUDENTS).clip(1, 40) if has_many else np.ones(STUDENTS, dtype=int)
    counts = np.concatenate([own, HEAVY]) if has_many else own
    student = np.repeat(np.arange(len(counts)), counts)
    is_heavy = student >= STUDENTS
    course = np.where(is_heavy, draw.integers(0, 3, len(student)), draw.integers(0, 14, len(student)))
    stars = np.where(is_heavy, 1, draw.choice(5, len(student), p=[0.05, 0.1, 0.2, 0.35, 0.3]) + 1)
    days = draw.integers(0, (LAST - FIRST).days + 1, len(student))
    return pa.table(
        {
            "student": student,
            "course": [COURSES[i] for i in course],
            "lecturer": [LECTURERS[i % 4] for i in course],
            "stars": stars,
            "guest": (student % 5 == 0) & (course % 2 == 0),
            "day": [FIRST + datetime.timedelta(days=int(day)) for day in days],
        }
    )


@dataclass(frozen=True)
class Asked:
    """One question in one world: planned, computed exactly, and answered with fresh noise as often as wanted."""

    text: str
    statement: Statement
    rows: pa.Table

    @cached_property
    def exact(self) -> run.Exact:
        """Integers before the noise."""
        return run.integers(self.statement.plan.on({"ratings": self.rows}))

    @cached_property
    def own(self) -> dict[Any, dict[str, Any]]:
        """Values of the table after limits, without noise, by group."""
        plan, exact = self.statement.plan, self.exact
        numbers = [exact.numbers.get(noise.part, exact.removed.get(noise.part)) for noise in plan.noises]
        release = Exact(plan, answer_of(plan, exact.keys, numbers))
        with without_noise():
            names, rows = replace(self.statement.released, hides_computed=False).rows(release)
        return self._by_group(names, rows)

    @cached_property
    def truth(self) -> dict[Any, dict[str, Any]]:
        """Values of all rows, by group."""
        with duckdb.connect() as connection:
            connection.register("ratings", self.rows)
            found = connection.execute(self.text)
            names = [column[0] for column in found.description or ()]
            return self._by_group(names, found.fetchall())

    def answer(self, seed: int) -> dict[Any, dict[str, Any]]:
        """Released values with their intervals, by group."""
        plan = self.statement.plan
        release = Release(plan, run.noisy(plan, self.exact, SeededSource(seed)))
        return self._by_group(*self.statement.released.rows(release))

    def _by_group(self, names: list[str], rows: list[tuple[Any, ...]]) -> dict[Any, dict[str, Any]]:
        """Rows by their values without noise; a column without an interval belongs to nothing else."""
        noisy = self.statement.released.noisy
        groups = [name for name in self.statement.released.names if name not in noisy]
        by_name = [dict(zip(names, row, strict=True)) for row in rows]
        return {tuple(_plain(row[name]) for name in groups): row for row in by_name}

    def intervals(self, answer: Mapping[Any, Mapping[str, Any]]) -> Iterator[tuple[Any, str, float, float]]:
        """Every interval of an answer: its group, its column and its ends."""
        for group, row in answer.items():
            for name in self.statement.released.noisy:
                low, high = row.get(f"{name}_lower"), row.get(f"{name}_upper")
                if low is not None and high is not None:
                    yield group, name, low, high

    def ends(self, seed: int) -> Iterator[tuple[Any, str, float, float]]:
        """The intervals of ``answer``, read before the steps after the noise: these change no end, and take long."""
        plan, released = self.statement.plan, self.statement.released
        release = Release(plan, run.noisy(plan, self.exact, SeededSource(seed)))
        data = {**release.data, **released._found(release)}
        made = {name: next(value.find_all(exp.Column)).name for name, value in released._made_of().items()}
        groups = [made[name] for name in released.names if name not in released.noisy]
        for name, pair in released._ends().items():
            if name in released.noisy and pair:
                for row in zip(*(data[column] for column in (*groups, *pair.values())), strict=True):
                    if None not in row[-2:]:
                        yield tuple(_plain(value) for value in row[:-2]), name, *row[-2:]


def _plain(value: Any) -> Any:
    return value.date() if isinstance(value, datetime.datetime) else value


def asked(world: str, rho: float = 0.1) -> dict[str, Asked]:
    """All questions in a world."""
    limits, has_many = WORLDS[world]
    rows = ratings(has_many=has_many)
    table = ts.Private({"ratings": rows}).table("ratings", unit="student").per_unit(**limits)
    table = table.bounds(stars=(1, 5), day=(FIRST, LAST))
    known = Known(table, keys={"course": tuple(COURSES), "lecturer": tuple(LECTURERS)})
    catalogue = Catalogue({"ratings": known})
    return {name: Asked(text, planned(text, catalogue, rho=rho), rows) for name, text in QUESTIONS.items()}


def held(each: Asked, seed: int) -> list[bool]:
    """Whether the intervals of one release hold the table's own values; a value without an interval is not one."""
    return [low <= each.own[group][name] <= high for group, name, low, high in each.ends(seed)]
