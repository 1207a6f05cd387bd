"""Every statement of the frozen corpus is planned, or refused with the word that its record says and a way out."""

from __future__ import annotations

import re
from typing import Any

import pyarrow
import pytest

from sql.catalogue import catalogue
from sql.corpus.tables import rows, statements
from tallystick.errors import TallystickError
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.tables.release import Release
from tallystick.tables.run import integers, noisy, preflight
from tallystick.tables.sql.statement import Statement, planned

PENDING = {
    "tpch-03-unit", "tpch-03-where", "tpch-04-unit", "tpch-05", "tpch-07", "tpch-12", "tpch-13", "tpch-22-local",
    "smartnoise-issue-512-join", "smartnoise-issue-512-in", "zetasql-join-on-uid", "zetasql-full-join",
    "zetasql-union-all", "zetasql-except", "snowflake-entity-dedup", "snowflake-join-entity", "cleanrooms-overlap",
    "cleanrooms-user-level-cte", "cleanrooms-attribution", "opendp-2611-two-plans", "opendp-2611-intersect",
    "opendp-2611-treated-after", "opendp-2611-intermediate", "opendp-2610-any-over", "opendp-2610-min-max-over",
    "opendp-2610-flag-then-average", "opendp-lfs-hours", "census-linked-wage", "census-pay-gap",
    "census-never-employed", "census-not-in", "census-transitions", "census-several-jobs", "census-total-income",
    "census-benefit-months", "metabase-implicit-join", "looker-fanout", "qrlew-join-cte", "cohort-day-seven",
    "cohort-months-since", "cohort-window-first", "funnel-flags", "funnel-ordered", "retention-lag",
    "retention-second-order", "retention-sessions", "prompt-text-functions", "prompt-in-and-not-in",
    "prompt-distinct-pairs", "prompt-union-distinct", "prompt-latest-row",
}  # fmt: skip
"""Expected to be answered, and refused for now: they need relations of one unit, or row functions that are coming."""

OTHER_WORD = {"census-total-income-unbounded", "retention-lag-unbounded"}
"""Refused as expected, for a reason that comes before the one in the record."""

RUN = (
    "tpch-01", "tpch-19", "smartnoise-case-key", "bigquery-public-groups", "redash-calendar",
    "snowflake-inner-arithmetic", "prompt-per-bed", "prompt-ordinals", "superset-count-star-wrap",
    "zetasql-in-public", "opendp-cut",
)  # fmt: skip
BY_ID = {record["id"]: record for record in statements()}


def outcome(record: dict[str, Any]) -> Statement | str:
    try:
        return planned(record["sql"], catalogue())
    except TallystickError as problem:
        return str(problem)


@pytest.mark.parametrize("name", BY_ID)
def test_a_statement_is_planned_or_refused_as_its_record_says(name: str) -> None:
    record, found = BY_ID[name], outcome(BY_ID[name])
    if isinstance(found, Statement):
        assert record["expected"] == "answered" or record.get("may_answer"), "planned, and it must not be"
        assert name not in PENDING
        return
    assert re.search(r"works: \S|give \S", found), "a refusal says what works"
    assert record["expected"] == "refused" or name in PENDING, found
    if record["expected"] == "refused" and name not in OTHER_WORD:
        assert record["says"].lower() in found.lower(), found


def test_the_share_that_is_answered_is_what_the_documentation_says() -> None:
    planned_ones = [name for name, record in BY_ID.items() if isinstance(outcome(record), Statement)]
    assert len(planned_ones) == 76


@pytest.mark.parametrize("name", RUN)
def test_a_planned_statement_runs_and_has_the_columns_it_names(name: str) -> None:
    found = outcome(BY_ID[name])
    assert isinstance(found, Statement)
    table = found.plan.query.table.name
    plan = found.plan.on({table: pyarrow.Table.from_pylist(rows(table))})
    found.released.rehearse()
    preflight(plan)
    columns, answer = found.released.rows(Release(plan, noisy(plan, integers(plan), SYSTEM)))
    assert [each for each in columns if each in found.released.names] == list(found.released.names)
    assert all(len(row) == len(columns) for row in answer)
