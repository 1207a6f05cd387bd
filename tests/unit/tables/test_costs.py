"""What one person's rows can cost after a charge: neither a failure nor a second reading, and little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.errors import Unavailable
from tallystick.tables import run
from tallystick.tables.engines import duckdb
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.plan import Plan
from unit.tables.test_rules import agrees
from unit.tables.test_sorted_cells import visits


def full(*_: Any, **__: Any) -> Any:
    raise MemoryError


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


def few_bytes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in (run, duckdb):
        monkeypatch.setattr(module, "MOST_BYTES", most, raising=False)
        monkeypatch.setattr(module, "ROWS_PER_SHARE", 150, raising=False)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_source_may_be_gone_once_its_rows_are_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found from outside: rows were counted again where sorting was given up, so a failure told that it was."""
    table, file = visits(1, "side by side"), tmp_path / f"visits.{kind}"
    {"csv": pyarrow.csv.write_csv, "parquet": pq.write_table}[kind](table, file)
    types = dict.fromkeys(("who", "where", "kind", "stay"), "integer") | {"cost": "number"} if kind == "csv" else {}
    plan, real = asked(str(file), **types), DuckEngine.keep

    def keep(engine: DuckEngine, name: str, sql: str) -> None:
        real(engine, name, sql)
        file.unlink(missing_ok=True)

    monkeypatch.setattr(DuckEngine, "keep", keep)
    monkeypatch.setattr(run, "sums_of", full)
    few_bytes(monkeypatch, 2400)
    agrees(plan, run.integers(plan), table.to_pylist())
    assert not file.exists()


@pytest.mark.parametrize("ids", ["side by side", "texts"])
@pytest.mark.parametrize("heavy", [False, True])
def test_rows_are_counted_once_whichever_way_is_taken(ids: str, heavy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, real = [], DuckEngine.stored_rows

    def count(engine: DuckEngine, table: str) -> int:
        counted.append(table)
        return real(engine, table)

    monkeypatch.setattr(DuckEngine, "stored_rows", count)
    if heavy:
        monkeypatch.setattr(run, "sums_of", full)
        few_bytes(monkeypatch, 2400)
    table = visits(1, ids)
    plan = asked(table)
    agrees(plan, run.integers(plan), table.to_pylist())
    assert len(counted) == 1


@pytest.mark.parametrize("problem", [MemoryError, SystemError])
def test_whatever_says_that_there_is_no_room_gives_sorting_up(
    problem: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy says so with a SystemError where an array cannot grow."""
    table = visits(1, "texts")
    plan = asked(table)

    class Full:
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def execute(self, sql: str) -> Any:
            return self if '"_added"' in sql else self.connection.execute(sql)

        def fetchnumpy(self) -> Any:
            raise problem

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

    real = DuckEngine.__init__

    def opened(engine: DuckEngine, source: Any) -> None:
        real(engine, source)
        engine.connection = Full(engine.connection)  # type: ignore[assignment]

    monkeypatch.setattr(DuckEngine, "__init__", opened)
    agrees(plan, run.integers(plan), table.to_pylist())


def test_a_line_of_a_file_may_be_two_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were taken to be four, so that one column of numbers gave arrays of twice what is allowed."""
    file, most = tmp_path / "one.csv", 24 * 1000
    file.write_text("who\n" + "7\n" * 2000)
    table = ts.Private(str(file)).table(unit="who", types={"who": "integer"}).per_unit(max_rows_per_group=2)
    plan, handed, real = table.agg(n=ts.count()).plan(rho=1), [0], DuckEngine.arrays

    def arrays(engine: DuckEngine, sql: str) -> list[Any]:
        found = real(engine, sql)
        handed.append(sum(column.nbytes for column in found))
        return found

    monkeypatch.setattr(DuckEngine, "arrays", arrays)
    monkeypatch.setattr("tallystick.tables.engines.duckdb.MOST_BYTES", most, raising=False)
    monkeypatch.setattr(run, "MOST_BYTES", most, raising=False)
    [[found]] = next(iter(run.integers(plan).numbers.values())).tolist()
    assert found == 2
    assert max(handed) <= 1.5 * most


# What one person adds to a table of a thousand: half a million rows of one long text, with a character of four bytes,
# in a file of some 200 KB.
MEASURED = """
import resource, sys
import pyarrow
import tallystick as ts
from tallystick.tables import run
path = sys.argv[1]
table = ts.Private(path).table(unit="who").per_unit(max_groups=2, max_rows_per_group=2)
plan = table.group_by("w", keys=ts.private_keys(delta=1e-6)).agg(n=ts.count(), x=ts.variance("x", 0, 9)).plan(rho=1)
run.preflight(plan)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(run.integers(plan).keys), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux counts ru_maxrss in kilobytes")
def test_one_persons_texts_take_little_memory(tmp_path: Path) -> None:
    file, count = tmp_path / "hostile.parquet", 500_000
    who, group = np.arange(1000), np.arange(1000) % 3
    who, group = np.concatenate([who, np.full(count, 7)]), np.concatenate([group, np.full(count, 3)])
    texts = pa.array(["a", "b", "c", "x" * 4092 + "\U0001f600"])
    column = pa.DictionaryArray.from_arrays(pa.array(group, pa.int32()), texts)
    pq.write_table(pa.table({"who": who, "w": column, "x": np.ones(len(who))}), file)
    command = [sys.executable, "-c", MEASURED, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    groups, megabytes = map(int, done.stdout.split())
    assert groups == 4
    assert megabytes < 100


@pytest.mark.parametrize("ids", ["side by side", "texts"])
def test_rows_with_texts_are_not_kept_however_many(ids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, real, table = [], DuckEngine.keep, visits(1, ids)

    def keep(engine: DuckEngine, name: str, sql: str) -> None:
        kept.append(name)
        real(engine, name, sql)

    monkeypatch.setattr(DuckEngine, "keep", keep)
    few_bytes(monkeypatch, 2400)
    plan = asked(table)
    agrees(plan, run.integers(plan), table.to_pylist())
    assert ("_taken" in kept) == (ids != "texts")
