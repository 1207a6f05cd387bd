"""What one person's rows can cost after a charge: neither a failure nor a second reading, and little memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import Unavailable
from tallystick.tables import run
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.plan import Plan


def asked(source: Any, column: str = "where", **types: str) -> Plan:
    table = ts.Private(source).table(unit="who", types=types or None).per_unit(max_groups=2, max_rows_per_group=4)
    return table.group_by(column, keys=ts.private_keys(delta=1e-6)).agg(n=ts.count()).plan(rho=1)


def test_nothing_of_what_an_engine_said_is_kept_by_what_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers walk along ``__context__``, whatever a traceback shows."""

    def quoting(*_: Any) -> Any:
        raise ValueError("could not convert 'Ana Lopez'")

    plan = asked(pa.table({"who": [1, 2], "where": [1, 1]}))
    for method in ("arrays", "schema"):
        with monkeypatch.context() as patched:
            patched.setattr(DuckEngine, method, quoting)
            with pytest.raises(Unavailable) as problem:
                run.integers(plan)
            assert problem.value.__context__ is None
            assert problem.value.__cause__ is None
