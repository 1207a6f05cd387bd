"""Every statement of the frozen corpus is planned, or refused with the word that its record says and a way out."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

from sql import judge
from sql.catalogue import catalogue
from sql.corpus.tables import statements
from tallystick.errors import TallystickError
from tallystick.tables.sql.statement import Statement, planned

PENDING: set[str] = set()
"""Expected to be answered, and refused for now."""

OTHER_WORD: set[str] = set()
"""Refused as expected, for a reason that comes before the one in the record."""

RUN = (
    "tpch-06", "tpch-13", "tpch-22-local", "smartnoise-case-key", "bigquery-public-groups", "redash-calendar",
    "prompt-per-bed", "prompt-ordinals", "superset-count-star-wrap", "zetasql-in-public", "opendp-cut",
    "zetasql-except", "opendp-2610-flag-then-average", "cohort-months-since", "funnel-ordered", "census-never-employed",
    "census-benefit-months", "census-several-jobs", "retention-weekly-active", "prompt-latest-row",
    "funnel-distinct-case",
)  # fmt: skip
"""Run and compared in every test; ``make campaign-sql`` runs all."""
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
    assert re.search(r"Try: \S|give \S|at most \S", found), "a refusal says what works"
    assert record["expected"] == "refused" or name in PENDING, found
    if record["expected"] == "refused" and name not in OTHER_WORD:
        assert record["says"].lower() in found.lower(), found


def test_the_share_that_is_answered_is_what_the_documentation_says() -> None:
    planned_ones = [name for name, record in BY_ID.items() if isinstance(outcome(record), Statement)]
    assert len(planned_ones) == 128


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return judge.plain()


@pytest.mark.parametrize("name", RUN)
def test_before_the_noise_an_answer_is_what_plain_sql_says(name: str, engine: duckdb.DuckDBPyConnection) -> None:
    assert not judge.differences(BY_ID[name]["sql"], engine)


def test_the_judge_finds_an_answer_to_another_question(engine: duckdb.DuckDBPyConnection) -> None:
    asked = "SELECT ward, COUNT(*) AS n FROM visits WHERE age > 50 GROUP BY ward"
    assert not judge.differences(asked, engine)
    assert judge.differences(asked, engine, of=asked.replace("50", "60"))
