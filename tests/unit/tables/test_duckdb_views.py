"""A DuckDB file brings SQL of its own: views and generated columns. It must not reach rows that nobody recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.ledger.account import Account
from tallystick.tables.reader import Reader, open_engine
from tallystick.tables.sources import source_of

PRIVATE = 40


@pytest.fixture
def own(tmp_path: Path) -> Any:
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as book:
        yield book.open("own", budget=ts.zcdp(rho=100), unit="who")


def written(path: Path, *statements: str) -> Path:
    with duckdb.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def people(number: int = PRIVATE, table: str = "t") -> str:
    return f"create table {table} as select i as who from range({number}) r(i)"


def capped(source: Any, account: Account, name: str) -> Any:
    return ts.Private(source, account=account).table(name, unit="who").per_unit(max_rows_per_group=1)


def ask(source: Any, account: Account, name: str, rho: float = 10) -> float:
    return capped(source, account, name).agg(n=ts.count()).plan(rho=rho).release(why="x").rows[0]["n"]


def register(path: Path, account: Account, name: str, dataset: str = "people") -> None:
    from tallystick.publish.datasets import Dataset, identified
    from tallystick.publish.datasets import register as add

    table = capped(path, account, name)
    add(Dataset(dataset, account.name, table.to_data(), identity=identified(table)), account)


def owner_of(own: Account, population: str = "clinic") -> Account:
    return own.ledger.open(population, budget=ts.zcdp(rho=50), unit="who")


# ---- a view that nobody registered


@pytest.mark.parametrize(
    "relation",
    [
        "create view v as select who from t",
        "create view v as select 1::bigint as who",
        "create view v as select 1::bigint as who from duckdb_databases()",
        "create table v (who bigint, twice bigint generated always as (who * 2))",
    ],
)
def test_what_is_no_plain_table_is_refused_even_if_nothing_is_registered(
    relation: str, tmp_path: Path, own: Account
) -> None:
    path = written(tmp_path / "mine.duckdb", people(), relation)
    with pytest.raises(Refused, match=r"CREATE TABLE \.\.\. AS .* or register it"):
        ask(path, own, "v")
    assert own.history() == []
    assert abs(ask(path, own, "t") - PRIVATE) < 15


@pytest.mark.parametrize("spelled", ["v", "V", "main.v", "MAIN.V"])
def test_every_spelling_of_a_view_is_refused(spelled: str, tmp_path: Path, own: Account) -> None:
    path = written(tmp_path / "mine.duckdb", people(), "create view V as select who from t")
    with pytest.raises(Refused, match="CREATE TABLE"):
        ask(path, own, spelled)


def test_a_table_macro_is_no_table(tmp_path: Path, own: Account) -> None:
    path = written(tmp_path / "mine.duckdb", people(), "create macro v() as table select who from t")
    for name in ("v", "v()"):
        with pytest.raises(TallystickError):
            ask(path, own, name)
    assert own.history() == []


def test_a_registered_view_answers(tmp_path: Path, own: Account) -> None:
    path = written(tmp_path / "clinic.duckdb", people(), "create view v as select who from t")
    owner = owner_of(own)
    register(path, owner, "v")
    assert abs(ask(path, owner, "v", rho=5) - PRIVATE) < 15
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        ask(path, own, "v")


# ---- the other relations of the file of a registered view


def test_the_table_below_a_registered_view_is_refused_until_it_is_registered(tmp_path: Path, own: Account) -> None:
    path = written(tmp_path / "clinic.duckdb", people(table="base"), "create view t as select * from base")
    owner = owner_of(own)
    register(path, owner, "t")
    for account in (own, owner):
        with pytest.raises(Refused, match="rows of the registered dataset 'people'"):
            ask(path, account, "base", rho=1)
    with pytest.raises(Refused, match="a source belongs to one population"):
        register(path, own, "base", "base")
    register(path, owner, "base", "base")
    assert abs(ask(path, owner, "base", rho=5) - PRIVATE) < 15


def test_a_registered_table_that_became_a_view_hides_no_other_table(tmp_path: Path, own: Account) -> None:
    """What a relation is, is asked of the file at every release, and not remembered from the registration."""
    path = written(tmp_path / "clinic.duckdb", people(), people(3, "other"))
    register(path, owner_of(own), "t")
    assert abs(ask(path, own, "other") - 3) < 15
    written(path, "drop table t", "create view t as select * from other")
    with pytest.raises(Refused, match="rows of the registered dataset 'people'"):
        ask(path, own, "other", rho=9)


# ---- files that stand beside each other, and other threads


def test_a_file_that_no_table_of_the_question_is_in_is_not_opened(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.duckdb", people(3))
    pq.write_table(pa.table({"who": [1]}), tmp_path / "private.parquet")
    source = source_of({"t": mine, "p": tmp_path / "private.parquet", "absent": tmp_path / "absent.csv"})
    with Reader(source, tables=["t"]) as reader:
        assert list(reader.files) == [str(mine)]
        engine: Any = reader.engine
        assert [each.suffix for each in engine.folder.rglob("file*")] == [".duckdb"]
        with pytest.raises(InvalidInput):
            engine.schema("p")
    with pytest.raises(InvalidInput, match="an existing file"), Reader(source, tables=["t", "absent"]):
        pass


@pytest.mark.parametrize(
    "body", ["select * from source1.main.t", "select * from _parquet1", "select * from query_table('_parquet1')"]
)
def test_a_view_reads_no_file_beside_its_own(body: str, tmp_path: Path, own: Account) -> None:
    """The file that the view names is beside its own in the source, and no table of the question is in it."""
    private = written(tmp_path / "private.duckdb", people())
    pq.write_table(pa.table({"who": range(PRIVATE)}), tmp_path / "private.parquet")
    other = private if "source1" in body else tmp_path / "private.parquet"
    mine = written(
        tmp_path / "mine.duckdb",
        f"attach '{private}' as source1 (read_only)",
        f"create temp view _parquet1 as select * from read_parquet('{tmp_path}/private.parquet')",
        f"create view a as {body}",
    )
    with pytest.raises(TallystickError):
        ask({"a": mine, "t": other}, own, "a")
    assert own.history() == []


def test_an_engine_reads_its_own_folder_only(tmp_path: Path) -> None:
    """Two releases at once: neither engine can open the snapshot of the other, whatever SQL it is given."""
    pq.write_table(pa.table({"who": range(PRIVATE)}), tmp_path / "people.parquet")
    mine = written(tmp_path / "mine.duckdb", people(3))
    with open_engine(source_of(tmp_path / "people.parquet")) as other, open_engine(source_of(mine)) as engine:
        [snapshot] = other.snapshots.values()  # type: ignore[attr-defined]
        setting = "current_setting('temp_directory')"
        for place in (
            f"'{snapshot}'",
            f"'{snapshot.parent.parent.parent}/*/*/*.parquet'",
            f"{setting} || '/../../*/*/*'",
        ):
            with pytest.raises(duckdb.PermissionException):
                engine.connection.execute(f"select * from read_parquet({place})")  # type: ignore[attr-defined]
        assert other.collect(f"select count(*) from read_parquet('{snapshot}')") == [[PRIVATE]]


@pytest.mark.parametrize("how", ["beside", "program"])
def test_the_base_of_a_view_is_refused_however_the_view_was_registered(how: str, tmp_path: Path, own: Account) -> None:
    from tallystick.publish.datasets import Dataset, identified
    from tallystick.publish.datasets import register as add

    path = written(tmp_path / "theirs.duckdb", people(), "create view v as select who from t")
    (tmp_path / "n.csv").write_text("who\n1\n")
    owner = owner_of(own)
    table = capped({"v": path, "n": tmp_path / "n.csv"} if how == "beside" else path, owner, "v")
    found = identified(table)
    if how == "beside":
        add(Dataset("people", owner.name, table.to_data(), identity=found), owner)
    else:
        owner.register("people", source=found.name, marks=found.all_marks)
    with pytest.raises(Refused, match="rows of the registered dataset 'people'"):
        ask(path, own, "t")


def test_a_url_in_place_of_a_public_file_is_not_quoted(tmp_path: Path, own: Account) -> None:
    path = written(tmp_path / "mine.duckdb", people())
    with pytest.raises(TallystickError) as caught:
        capped(path, own, "t").group_by("who", keys="postgresql://ana:Can4ry@db/x")
    problem: BaseException | None = caught.value
    while problem is not None:
        assert "Can4ry" not in str(problem)
        problem = problem.__context__
