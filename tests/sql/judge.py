"""What plain SQL says about a statement of the corpus, beside what its plan says before the noise.

The tables have a few rows of each unit and the caps here are larger, so both must agree, up to what the guide says is
different: groups without a value, medians from bins, variances by n, and bounds.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow

from sql.catalogue import catalogue
from sql.corpus.tables import rows, schema
from sql.test_corpus_frozen import without_our_words
from tallystick.inference.noise import Quotient
from tallystick.tables.estimates import Estimate
from tallystick.tables.release import Release, answer_of
from tallystick.tables.run import integers
from tallystick.tables.sql.catalogue import Catalogue
from tallystick.tables.sql.statement import planned

DIFFERENT = re.compile(r"VARIANCE|STDDEV|VAR_SAMP|PERCENTILE|MEDIAN|CLAMPED|contribution_|EXPLAIN", re.I)


@functools.cache
def data() -> dict[str, pyarrow.Table]:
    return {name: pyarrow.Table.from_pylist(rows(name)) for name in schema()["table"]}


@functools.cache
def uncapped() -> Catalogue:
    """The catalogue with caps beyond every unit, and nothing of the price for what caps leave out."""
    wide = {
        name: replace(
            known,
            table=known.table.per_unit(max_groups=1000, max_rows_per_group=100),
            price={"rho": 1, "caps_share": 0},
        )
        for name, known in catalogue().private.items()
    }
    return Catalogue(wide, catalogue().public)


def plain() -> duckdb.DuckDBPyConnection:
    """DuckDB with the rows of the corpus."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA public; SET schema = 'public'")
    for name, found in data().items():
        connection.register("given", found)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.execute("CREATE MACRO width_bucket(x, low, high, n) AS floor((x - low) * n / (high - low)) + 1")
    return connection


class Exact(Release):
    """A release without noise: the interval of a number is the number, so that no ratio is hidden."""

    def estimates(self, *, confidence: float = 0.95) -> dict[str, Estimate]:
        found = Release.estimates(self, confidence=confidence)
        return {name: Estimate(each.value, each.value, each.value) for name, each in found.items()}


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Read exact numbers as exact: a mean of one row has a value, which noise would hide."""
    with mock.patch.object(Quotient, "excludes_zero", lambda self, count: np.asarray(count > 0)):
        yield


def differences(sql: str, engine: duckdb.DuckDBPyConnection, of: str | None = None) -> list[Any]:
    """Rows of plain SQL that the plan's exact answer has not; ``of`` asks DuckDB something else."""
    text = re.sub(r"WITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^)]*\))?", "", sql)
    found = planned(text, uncapped())
    plan = found.plan.on({name: data()[name] for name in catalogue().private})
    exact = integers(plan)
    numbers = [exact.numbers[noise.part] for noise in plan.noises]
    with without_noise():
        names, answer = replace(found.released, hides_computed=False).rows(
            Exact(plan, answer_of(plan, exact.keys, numbers))
        )
    if DIFFERENT.search(sql):
        return []
    shown = [i for i, name in enumerate(names) if not name.endswith(("_lower", "_upper"))]
    mine = [tuple(row[i] for i in shown) for row in answer]
    theirs = engine.execute(without_our_words(of or sql)).fetchall()
    return [row for row in theirs if row[0] is not None and not any(_same(one, row) for one in mine)]


def _same(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return len(mine) == len(theirs) and all(_near(a, b) for a, b in zip(mine, theirs, strict=True))


def _near(mine: Any, theirs: Any) -> bool:
    if theirs is None:
        return mine is None or mine in (0, 1)
    if isinstance(theirs, datetime.date):
        return str(mine)[:10] == str(theirs)[:10]
    if isinstance(theirs, str | bool):
        return bool(mine == theirs)
    numbers = not isinstance(mine, str | datetime.date) and mine is not None
    return numbers and abs(float(mine) - float(theirs)) <= 2e-3 * max(1.0, abs(float(theirs)))
