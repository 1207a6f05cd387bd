"""What is kept between releases is empty, belongs to one release at a time, and is no other process's."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path

import duckdb
import pytest

import tallystick as ts
from tallystick.errors import TallystickError
from tallystick.tables import run
from tallystick.tables.engines import duckdb as kept
from tallystick.tables.plan import Plan


def written(place: Path, units: int) -> Path:
    """A DuckDB file with one row for each unit."""
    place.unlink(missing_ok=True)
    with duckdb.connect(str(place)) as connection:
        connection.execute(f"create table visits as select i as who, 'a' as ward, 1.0 as cost from range({units}) t(i)")
    return place


def asked(source: object, name: str | None = None) -> Plan:
    visits = ts.Private(source).table(name, unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    return visits.group_by("ward", keys=["a"]).agg(n=ts.count(), cost=ts.sum("cost", 0, 1)).plan(rho=1)


def counted(plan: Plan) -> int:
    """Rows before noise."""
    run.preflight(plan)
    return int(next(iter(run.integers(plan).numbers.values()))[0, 0])


def test_nothing_of_a_release_is_left_in_the_database_that_waits_for_the_next(tmp_path: Path) -> None:
    kept.close_waiting()
    counted(asked(written(tmp_path / "visits.duckdb", 3), "visits"))
    [database] = kept._waiting
    databases = "select database_name from duckdb_databases() where not internal"
    assert database.execute(databases).fetchall() == [("memory",)]
    assert database.execute("select count(*) from duckdb_tables()").fetchall() == [(0,)]
    assert database.execute("select count(*) from duckdb_views() where not internal").fetchall() == [(0,)]
    cursor = database.cursor()
    for name in ("_stored", "_cells", "_keys", "_keys_given"):
        with pytest.raises(duckdb.CatalogException):
            cursor.execute(f'select * from "{name}"')
    cursor.close()


def test_a_table_in_memory_is_let_go() -> None:
    import pandas as pd

    table = pd.DataFrame({"who": [1, 2], "ward": pd.array(["a", "a"], dtype="string"), "cost": [1.0, 1.0]})
    plan = asked(table)
    assert counted(plan) == 2
    watched = weakref.ref(plan.query.table.source.handle["table"])
    del table, plan
    gc.collect()
    assert watched() is None


def test_a_file_that_was_replaced_or_written_is_read_anew_and_nobody_is_kept_from_writing_it(tmp_path: Path) -> None:
    plan = asked(written(tmp_path / "visits.duckdb", 3), "visits")
    assert counted(plan) == 3
    status = (tmp_path / "visits.duckdb").stat()
    written(tmp_path / "other.duckdb", 5).replace(tmp_path / "visits.duckdb")
    os.utime(tmp_path / "visits.duckdb", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert counted(plan) == 5
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as writer:  # raises while somebody reads
        writer.execute("insert into visits values (77, 'a', 1.0)")
    assert counted(plan) == 6


def test_a_parquet_file_that_was_rewritten_in_the_same_instant_is_read_anew(tmp_path: Path) -> None:
    place = tmp_path / "visits.parquet"

    def write(first: int) -> None:
        rows = f"select i + {first} as who, 'a' as ward, 1.0 as cost from range(4) t(i) where i + {first} < 6"
        duckdb.sql(f"copy ({rows}) to '{place}' (format parquet)")
        os.utime(place, ns=(10**18, 10**18))

    write(0)
    plan = asked(place)
    assert counted(plan) == 4
    write(3)
    assert counted(plan) == 3


def test_releases_in_threads_have_databases_of_their_own(tmp_path: Path) -> None:
    plans = [asked(written(tmp_path / f"{units}.duckdb", units), "visits") for units in range(2, 6)]
    found: dict[int, list[int]] = {}

    def work(i: int) -> None:
        found[i] = [counted(plans[i]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(plans))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [i + 2] * 3 for i in range(len(plans))}
    assert len(kept._waiting) <= kept._MOST_WAITING


def test_a_child_has_no_database_of_its_parents(tmp_path: Path) -> None:
    plan = asked(written(tmp_path / "visits.duckdb", 3), "visits")
    assert counted(plan) == 3
    assert kept._waiting
    child = os.fork()
    if child == 0:
        os._exit(10 + counted(plan) if not kept._waiting else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13
    assert counted(plan) == 3


def test_a_source_that_cannot_be_opened_leaves_a_database_that_works(tmp_path: Path) -> None:
    good = asked(written(tmp_path / "visits.duckdb", 3), "visits")
    (tmp_path / "bad.duckdb").write_text("no database")
    bad = good.on(tmp_path / "bad.duckdb")
    for _ in range(2):
        with pytest.raises(TallystickError):
            run.preflight(bad)
        assert counted(good) == 3
