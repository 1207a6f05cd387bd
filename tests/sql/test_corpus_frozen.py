"""The corpus of SQL statements is what it was before the reader was written, and it speaks of tables that exist."""

from __future__ import annotations

import datetime
import hashlib
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sql.corpus.tables import rows, schema, statements

CORPUS = Path(__file__).parent / "corpus"
KINDS = {
    "aggregate", "cohort", "cte", "dashboard", "dialect", "distinct", "explain", "expression", "filter", "funnel",
    "group", "having", "options", "output_window", "per_unit", "percentile", "private_join", "public_join", "rows",
    "semi_join", "set_operation", "statement", "unit_window",
}  # fmt: skip
REASONS = {
    "bare column", "bounds", "count distinct", "ddl", "dialect", "dml", "function", "global window", "group by unit",
    "group not by unit", "join not on unit", "limit inside", "min/max", "nested aggregate", "no aggregate",
    "no private table", "now", "options", "outer join", "parameter", "population", "random", "rollup",
    "scalar subquery", "select *", "several releases", "several statements", "tablesample", "timestamp",
    "unknown name",
}  # fmt: skip
SQL_TYPES = {
    "integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP",
}  # fmt: skip
PYTHON_TYPES: dict[str, type] = {
    "integer": int, "number": float, "text": str, "boolean": bool, "date": datetime.date,
    "timestamp": datetime.datetime,
}  # fmt: skip


def test_the_files_are_those_that_were_frozen() -> None:
    frozen = dict(reversed(line.split()) for line in (CORPUS / "FROZEN").read_text(encoding="utf-8").splitlines())
    assert set(frozen) == {"statements.toml", "schema.toml"}
    for name, digest in frozen.items():
        assert hashlib.sha256((CORPUS / name).read_bytes()).hexdigest() == digest, name


def test_there_are_two_hundred_statements_each_with_an_origin_and_a_kind() -> None:
    found = statements()
    assert len(found) == len({record["id"] for record in found}) == 200
    assert len({" ".join(record["sql"].split()).lower() for record in found}) == 200
    for record in found:
        assert record["origin"].strip()
        assert record["kind"] in KINDS, record["id"]
        assert set(record) <= {"id", "kind", "origin", "expected", "reason", "says", "may_answer", "sql"}


def test_a_refusal_has_its_reason_and_an_answer_has_none() -> None:
    for record in statements():
        if record["expected"] == "answered":
            assert not {"reason", "says", "may_answer"} & set(record), record["id"]
        else:
            assert record["expected"] == "refused", record["id"]
            assert record["reason"] in REASONS, record["id"]
            assert record["says"], record["id"]
            assert record.get("may_answer", True) is True, record["id"]


def test_at_least_six_in_ten_can_be_answered_and_a_quarter_cannot() -> None:
    answered = [record for record in statements() if record["expected"] == "answered"]
    assert 120 <= len(answered) <= 150


@pytest.fixture(scope="module")
def empty_tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f'CREATE SCHEMA "{schema()["schema"]}"')
    connection.execute(f"SET schema = '{schema()['schema']}'")
    for name, table in schema()["table"].items():
        columns = ", ".join(f'"{column}" {SQL_TYPES[told["type"]]}' for column, told in table["columns"].items())
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
    # PostgreSQL and Spark have it, DuckDB does not.
    connection.execute("CREATE MACRO width_bucket(x, low, high, n) AS floor((x - low) * n / (high - low)) + 1")
    return connection


def without_our_words(sql: str) -> str:
    """The statement as an engine would take it: privacy options and bounds are no part of SQL."""
    sql = re.sub(r"WITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^)]*\))?", "", sql)
    sql = re.sub(r"\s+CLAMPED BETWEEN \d+ AND \d+", "", sql)
    return re.sub(r",\s*contribution_bounds_per_\w+ => \([^)]*\)", "", sql)


def complaint(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    try:
        connection.execute("EXPLAIN " + re.sub(r"^\s*EXPLAIN", "", without_our_words(sql)))
    except duckdb.Error as error:
        return str(error)
    return ""


def test_every_statement_to_answer_binds_to_the_tables(empty_tables: duckdb.DuckDBPyConnection) -> None:
    wrong = {
        record["id"]: said
        for record in statements()
        if record["expected"] == "answered" and (said := complaint(empty_tables, record["sql"]))
    }
    assert not wrong


def test_only_the_misspelled_statement_names_what_does_not_exist(empty_tables: duckdb.DuckDBPyConnection) -> None:
    not_a_query = {"several statements", "ddl", "dml"}
    single = [record for record in statements() if record.get("reason") not in not_a_query]
    unknown = re.compile(r"Referenced (column|table)|Table with name|does not have a column")
    lost = {record["id"] for record in single if unknown.search(complaint(empty_tables, record["sql"]))}
    assert lost == {record["id"] for record in statements() if record.get("reason") == "unknown name"}


@pytest.mark.parametrize("name", list(schema()["table"]))
def test_the_rows_of_a_table_are_as_declared(name: str) -> None:
    table, found = schema()["table"][name], rows(name)
    assert found == rows(name)
    assert 4 <= len(found) <= 200
    for row in found:
        assert list(row) == list(table["columns"])
        for column, told in table["columns"].items():
            assert fits(row[column], told), (column, row[column])
    if not table.get("public"):
        assert table["population"] in schema()["population"]
        assert table["unit"] == "each_row" or table["unit"] in table["columns"]


def fits(value: Any, told: dict[str, Any]) -> bool:
    if value is None:
        return told["type"] == "text" and "keys" not in told
    low, high = told.get("bounds", (value, value))
    return type(value) is PYTHON_TYPES[told["type"]] and low <= value <= high and value in told.get("keys", [value])
