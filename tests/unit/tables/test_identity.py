"""One source has one name, however its place is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

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
