"""One source has one name, however its place is spelled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.ledger import Ledger
from tallystick.tables import identity as identities
from tallystick.tables import run
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import of_file, recognise
from tallystick.tables.keyset import read_public
from tallystick.tables.plan import Plan
from tallystick.tables.sources import Source, identity, source_of


def named(place: str, table: str = "visits") -> str:
    return identity(source_of(place), table)


def test_a_file_is_its_real_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").symlink_to("a.csv")
    (tmp_path / "c").mkdir()
    spellings = ("a.csv", "./a.csv", "b.csv", "c/../a.csv", str(tmp_path / "a.csv"))
    assert len({named(place) for place in spellings}) == 1
    assert named("a.csv") != named("c.csv")


def test_the_tables_of_a_database_file_are_apart_and_their_case_does_not_matter() -> None:
    assert named("x.duckdb", "Visits") == named("x.duckdb", "visits") != named("x.duckdb", "bills")


def test_a_server_is_its_host_port_and_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    same = (
        "postgresql://ana:secret@DB.example/clinic",
        "postgres://db.example:5432/clinic",
        "postgresql:///clinic?host=db.example&port=5432",
        "postgresql://ben@db.example/?dbname=clinic&connect_timeout=3",
        "postgresql://d%62.example:%30543%32/cl%69nic",  # libpq reads escapes everywhere, and a port as a number
        "postgresql://db.example:05432/clinic?options=-cgeqo%3Don",
    )
    assert {named(place) for place in same} == {"postgres db.example:5432/clinic visits"}
    assert named(same[0], "public.visits") == named(same[0])
    assert named("postgresql:///clinic") == named("postgresql://127.0.0.1/clinic") == named("postgresql://[::1]/clinic")
    others = ("postgresql://db.example:5433/clinic", "postgresql://db.example/other", "postgresql://two.example/clinic")
    assert not {named(place) for place in others} & {named(same[0])}
    elsewhere = "postgresql://db.example/clinic?options=-csearch_path%3Da"
    assert named(elsewhere) != named(same[0]) != named(elsewhere.replace("search_path", "SEAR%5CCH-path"))
    assert named(elsewhere, "a.visits") == named(same[0], "a.visits")
    monkeypatch.setenv("PGHOST", "db.example")
    assert named("postgresql:///clinic") == named(same[0])
    assert "secret" not in named(same[0])


def test_the_default_schema_is_no_other_table() -> None:
    source = Source("duckdb", "clinic.duckdb")
    assert {identity(source, name) for name in ("visits", "main.visits", "MAIN.Visits")} == {identity(source, "visits")}
    assert identity(source, "other.visits") != identity(source, "visits")
    spark = Source("spark", "spark")
    assert {identity(spark, name) for name in ("visits", "default.visits", "spark_catalog.default.Visits")} == {
        identity(spark, "visits")
    }


def test_a_password_with_odd_characters_is_neither_written_nor_part_of_the_name() -> None:
    """Found from outside: libpq takes all up to the first @ for user and password."""
    for url in ("postgresql://ana:se#cret@db.example/clinic", "postgresql://ana:12?34@db.example:5432/clinic"):
        assert named(url) == "postgres db.example:5432/clinic visits"
        assert source_of(url).to_data()["place"].startswith("postgresql://ana@db.example")
    assert source_of("postgresql://:secret@db.example/clinic").to_data()["place"] == "postgresql://db.example/clinic"
    kept = source_of("postgresql://db.example/clinic?user=ana&password=secret").to_data()["place"]
    assert kept == "postgresql://db.example/clinic?user=ana"
    assert named("postgresql://ana:[x]@db.example/clinic") == "postgres db.example:5432/clinic visits"
    assert named("postgresql://[::1]:5433/clinic") == "postgres localhost:5433/clinic visits"
    assert named("postgresql://db.example:99999/clinic") == "postgres db.example:99999/clinic visits"


# ---- an engine reads the file that its name means here


PEOPLE = 77


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same people in files of every kind; work goes on beside it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "secret"
    folder.mkdir()
    pq.write_table(pa.table({"who": range(PEOPLE)}), folder / "t.parquet")
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.execute(f"create table t as select i as who from range({PEOPLE}) r(i)")
    (folder / "t.csv").write_text("who\n" + "".join(f"{i}\n" for i in range(PEOPLE)))
    return folder


def asked(source: Any, account: Any = None) -> Plan:
    kind = source_of(source).kind
    table = ts.Private(source, account=account).table(
        "t" if kind in ("duckdb", "files") else None, unit="who", types={"who": "integer"} if kind == "csv" else None
    )
    return table.per_unit(max_rows_per_group=1).agg(n=ts.count()).plan(rho=1)


def people(plan: Plan) -> int:
    [numbers] = run.integers(plan).numbers.values()
    return int(numbers.sum())


def stand_in(place: str) -> str:
    """A file of an analyst's under a name that an engine may take for another; Python takes it for what it is."""
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    Path(place).write_text("who\n" if place.endswith(".csv") else "")
    return place


SPELLED = ("file:{}/t.{}", "./file:{}/t.{}", "mine/..\\secret/t.{1}", "secret\\t.{1}", "mine/*..\\..\\secret/t.{1}",
           "secret/*.{1}", "secret/?.{1}", "mine/t.{1}?x/../../secret/t.{1}")  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "csv"])
@pytest.mark.parametrize("spelled", SPELLED)
def test_no_spelling_of_a_path_is_read_as_another_file_than_it_names(secret: Path, kind: str, spelled: str) -> None:
    """Found from outside: DuckDB read file:/x as /x and a backslash as a slash, with accounts of their own."""
    place = stand_in(spelled.format(secret, kind))
    if os.path.realpath(place) == str(secret / f"t.{kind}"):
        return
    for source in (place, {"t": place}):
        try:
            found = people(asked(source))
        except TallystickError:
            continue  # the stand-in is empty
        assert found == 0


def test_a_backslash_in_a_real_path_leads_to_no_other_file(secret: Path) -> None:
    for kind in ("parquet", "duckdb"):
        os.rename(secret / f"t.{kind}", secret / f"a\\t.{kind}")
        (secret / f"link.{kind}").symlink_to(secret / f"a\\t.{kind}")
        for place in (f"secret/a\\t.{kind}", f"secret/link.{kind}"):
            assert people(asked(place)) == PEOPLE  # the engine reads a snapshot under a name of ours
    os.rename(secret / "t.csv", secret / "a\\t.csv")
    assert people(asked("secret/a\\t.csv")) == PEOPLE  # no engine reads that name


@pytest.mark.parametrize("spelled", ["file:{}/t.parquet", "mine/..\\secret/t.parquet", "secret/*.parquet"])
def test_a_public_table_is_the_file_that_was_looked_at(secret: Path, spelled: str) -> None:
    """With a pattern for a name, the private files that match it were public."""
    place = stand_in(spelled.format(secret))
    with pytest.raises(InvalidInput):
        read_public(OpenFile(place))
    if "\\" not in place:
        with Path(place).open("wb") as file:
            pq.write_table(pa.table({"who": [1000]}), file)
        assert [row[0] for row in read_public(OpenFile(place)).rows] == [1000]


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "csv"])
def test_a_relative_path_means_the_folder_of_each_question(
    secret: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL that is remembered from another folder would read the other folder's people."""
    os.rename(secret, secret.with_name("one"))
    other = secret.with_name("two")
    other.mkdir()
    pq.write_table(pa.table({"who": [1]}), other / "t.parquet")
    (other / "t.csv").write_text("who\n1\n")
    with duckdb.connect(other / "t.duckdb") as connection:
        connection.execute("create table t as select 1::bigint as who")
    for folder, count in (("one", PEOPLE), ("two", 1)):
        monkeypatch.chdir(secret.with_name(folder))
        assert people(asked(f"t.{kind}")) == count


def test_a_link_is_read_as_what_it_is_called(secret: Path) -> None:
    """The real name says nothing of the kind: a table of tabs may be kept as t.csv, a database without an ending."""
    os.rename(secret / "t.duckdb", secret / "people")
    (secret / "link.duckdb").symlink_to("people")
    (secret / "tabs").write_text("who\tage\n1\t2\n")
    (secret / "link.tsv").symlink_to("tabs")
    assert people(asked("secret/link.duckdb")) == people(asked({"t": "secret/link.duckdb"})) == PEOPLE
    types = {"who": "integer", "age": "integer"}
    table = ts.Private("secret/link.tsv").table(unit="who", types=types)
    assert people(table.per_unit(max_rows_per_group=1).agg(n=ts.count()).plan(rho=1)) == 1


def test_one_database_under_two_names_is_opened_once(secret: Path) -> None:
    (secret / "link.duckdb").symlink_to("t.duckdb")
    (secret / "u.duckdb").symlink_to("t.duckdb")
    with duckdb.connect(secret / "t.duckdb") as connection:
        connection.execute("create table u as select who from t limit 5")
    one, two = (ts.Private({"t": "secret/link.duckdb", "u": "secret/u.duckdb"}).table(n, unit="who") for n in "tu")
    plan = one.with_units_in(two).per_unit(max_rows_per_group=1).agg(n=ts.count()).plan(rho=1)
    assert people(plan) == 5


@pytest.mark.parametrize("spelled", ["file:{}/t.parquet", "mine/..\\secret/t.duckdb"])
def test_a_registered_file_has_no_other_name(secret: Path, tmp_path: Path, spelled: str) -> None:
    kind = spelled.rpartition(".")[2]
    place = stand_in(spelled.format(secret))
    with ts.Ledger(tmp_path / "l.db", config=tmp_path) as ledger:
        owner = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="who")
        owner.register("people", source=identity(source_of(f"secret/t.{kind}"), "t"))
        own = ledger.open("own", budget=ts.zcdp(rho=100), unit="who")
        with pytest.raises(Refused, match="belongs to"):
            asked(f"secret/t.{kind}", own).release(why="x")
        with pytest.raises(TallystickError):
            asked(place, own).release(why="x")
        assert own.history() == []


@pytest.mark.parametrize("spelling", [".visits", "main..visits", "visits.", "."])
def test_a_name_with_an_empty_piece_is_no_second_name(tmp_path: Path, spelling: str) -> None:
    """DuckDB was handed main.visits for .visits, which the ledger took for other data: its registration was escaped."""
    file = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(file) as connection:
        connection.execute("CREATE TABLE visits AS SELECT range AS patient FROM range(50)")
    with pytest.raises(InvalidInput, match="a dot between"):
        ts.Private(file).table(spelling, unit="patient")
    with pytest.raises(InvalidInput, match="a dot between"):
        identity(source_of(file), spelling)


def test_a_folder_of_spark_is_looked_through_once_for_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its partitions are marked, too. A hard link to a file in a partition is recognised."""
    day = tmp_path / "rows" / "day=1"
    day.mkdir(parents=True)
    (day / "new.csv").write_text("who\n1\n")
    os.link(day / "new.csv", tmp_path / "mine.csv")
    (tmp_path / "other.csv").write_text("who\n1\n")
    marks = {"spark spark_catalog.default.rows", f"file {day.parent}", f"file {day}"}
    walked = []
    look = identities.files_below

    def watched(folder: Any) -> Any:
        walked.append(str(folder))
        return look(folder)

    monkeypatch.setattr(identities, "files_below", watched)
    with OpenFile(tmp_path / "mine.csv") as mine, OpenFile(tmp_path / "other.csv") as other:
        opened = [of_file(file, "csv", "") for file in (mine, other)]
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("owner", budget=ts.zcdp(rho=1), unit="who").register("rows", source="spark rows", marks=marks)
        assert [found.names for found in recognise(ledger, opened)] == [("rows",), ()]
    assert walked == [str(day.parent)] * 2  # the second time for the form of the one that is registered
