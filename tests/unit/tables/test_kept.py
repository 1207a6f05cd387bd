"""What is kept between releases is empty, belongs to one release at a time, and is no other process's."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import tallystick as ts
from tallystick.errors import TallystickError
from tallystick.tables import run
from tallystick.tables.engines import duckdb as kept
from tallystick.tables.plan import Plan
from tallystick.tables.program import compiled
from tallystick.tables.reader import open_engine


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
    [(database, _)] = kept._waiting
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


# ---- SQL that is written once, and what runs once on an empty table


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    for remembered in ("_programs", "_texts", "_rehearsed"):
        monkeypatch.setattr(run, remembered, {})


def questions(source: object, *, price: float = 1.0, groups: int = 1, most: float = 1, caps: bool = True) -> Plan:
    visits = ts.Private(source).table("visits", unit="who").per_unit(max_groups=groups, max_rows_per_group=1)
    asked = visits.group_by("ward", keys=ts.private_keys(delta=1e-8))
    return asked.agg(n=ts.count(), cost=ts.sum("cost", 0, most)).plan(rho=price, caps_share=0.05 if caps else 0)


@pytest.mark.usefixtures("forgotten")
def test_a_question_at_another_price_is_written_and_rehearsed_once(tmp_path: Path) -> None:
    source = written(tmp_path / "visits.duckdb", 3)
    one, two = questions(source), questions(source, price=0.5)
    assert one.hash != two.hash
    programs = []
    for plan in (one, two):
        run.preflight(plan)
        with open_engine(plan.query.table.source) as engine:
            programs.append(run._program(plan, engine))
            assert programs[-1] == compiled(plan.query, engine.words, plan.salt)
    assert programs[0] != programs[1]  # which groups a unit keeps is keyed by the whole plan
    assert len(run._programs) == len(run._rehearsed) == 1
    assert all(run._SALT not in text for program in programs for text in program.texts)


@pytest.mark.usefixtures("forgotten")
def test_another_question_is_written_and_rehearsed_anew(tmp_path: Path) -> None:
    source = written(tmp_path / "visits.duckdb", 3)
    others: list[dict[str, object]] = [{}, {"groups": 2}, {"most": 2}, {"caps": False}]
    for i, other in enumerate(others):
        plan = questions(source, **other)  # type: ignore[arg-type]
        run.preflight(plan)
        assert len(run._programs) == len(run._rehearsed) == i + 1
    # the question says what it said, but its caps are others
    loose = replace(plan, query=replace(plan.query, caps=replace(plan.query.caps, max_rows=7)))
    run.preflight(loose)
    assert len(run._programs) == len(others) + 1


@pytest.mark.usefixtures("forgotten")
def test_columns_of_another_type_are_rehearsed_anew(tmp_path: Path) -> None:
    place = written(tmp_path / "visits.duckdb", 3)
    plan = questions(place)
    run.preflight(plan)
    with duckdb.connect(str(place)) as connection:
        connection.execute("alter table visits alter who type integer")  # a whole number as before
    run.preflight(plan)
    assert len(run._rehearsed) == 2
    assert len(run._programs) == 1
    with duckdb.connect(str(place)) as connection:
        connection.execute("alter table visits alter cost type varchar")
    with pytest.raises(TallystickError, match="cost"):
        run.preflight(plan)


@pytest.mark.usefixtures("forgotten")
def test_a_new_price_of_a_question_that_never_ran_is_rehearsed_before_it_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallystick.ledger import Ledger
    from tallystick.tables.engines.duckdb import DuckEngine

    def broken(self: DuckEngine, sql: str) -> list[object]:
        raise ValueError("always")

    with Ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=9, delta=1e-6), unit="person")
        source = written(tmp_path / "visits.duckdb", 3)
        with monkeypatch.context() as patched:
            patched.setattr(DuckEngine, "collect", broken)
            for price in (0.1, 0.2):
                with pytest.raises(TallystickError):
                    replace(questions(source, price=price), account=account).release(why="report")
        assert account.history() == []
        assert not run._rehearsed  # what failed is not remembered as what runs
        replace(questions(source, price=0.1), account=account).release(why="report")
        assert [event.state for event in account.history()] == ["COMMITTED"]


@pytest.mark.usefixtures("forgotten")
def test_what_is_read_is_written_once_for_a_name_and_its_columns(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one.duckdb", 3), written(tmp_path / "two.duckdb", 5)
    assert [counted(questions(place)) for place in (one, two, one)] == [3, 5, 3]
    with duckdb.connect(str(one)) as connection:
        connection.execute("alter table visits add column age bigint default 40")
    table = ts.Private(one).table("visits", unit="who").per_unit(max_rows_per_group=1)
    plan = table.agg(v=ts.sum("age", 0, 50)).plan(rho=1)
    [(part, held)] = run.integers(plan).numbers.items()
    assert held[0, 0] * part.scale == 120
    assert counted(questions(one)) == 3


@pytest.mark.usefixtures("forgotten")
def test_the_copy_of_a_csv_file_belongs_to_one_run_also_beside_other_files(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("who,cost\n1,1\n2,1\n")
    duckdb.sql(f"copy (select 1 as who, 'a' as ward) to '{tmp_path / 'people.parquet'}' (format parquet)")
    files = {"visits": str(tmp_path / "visits.csv"), "people": str(tmp_path / "people.parquet")}
    visits = ts.Private(files).table("visits", unit="who").per_unit(max_rows_per_group=1)
    plan = visits.agg(n=ts.count_units()).plan(rho=1)
    assert [counted(plan), counted(plan)] == [2, 2]
    (tmp_path / "visits.csv").write_text("who,cost\n1,1\n2,1\n3,1\n")
    assert counted(plan) == 3
