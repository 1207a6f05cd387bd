"""Promises of the ledger's source: no unsafe loaders, no SQL from strings, every transition exercised somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tallystick.ledger.store import STATEMENTS, migrations

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tallystick" / "ledger"
FILES = sorted(SOURCE.glob("*.py"))


def test_nothing_in_the_ledger_can_run_code_it_has_read() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "yaml", "jsonpickle", "subprocess"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & forbidden, path.name
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in forbidden, path.name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, path.name


def test_the_ledger_draws_no_noise_and_touches_no_mechanism() -> None:
    for path in FILES:
        assert not re.search(r"tallystick\.(mechanisms|query|learn|plots|cards|cli)", path.read_text()), path.name
        assert not re.search(r"\b(random|secrets)\.", path.read_text()), path.name


def test_both_dialects_have_the_same_migrations_tables_and_columns() -> None:
    left, right = migrations("sqlite"), migrations("postgres")
    assert [(m.version, m.name) for m in left] == [(m.version, m.name) for m in right]

    def plain(sql: str) -> str:
        sql = re.sub(r"\) STRICT(, WITHOUT ROWID)?;", ");", sql)
        return re.sub(r"\bBIGINT\b", "INTEGER", sql)

    assert plain(left[0].sql) == plain(right[0].sql)


def test_only_one_statement_can_grow_what_is_used() -> None:
    growing = [name for name, sql in STATEMENTS.items() if re.search(r"used0 = used0 \+", sql)]
    assert growing == ["spend"]
    assert "used0 + ? <= limit0" in STATEMENTS["spend"]


def test_no_amount_in_the_schema_is_a_float() -> None:
    for dialect in ("sqlite", "postgres"):
        for step in migrations(dialect):
            assert not re.search(r"\b(REAL|FLOAT|DOUBLE|NUMERIC|DECIMAL)\b", step.sql, re.I)
