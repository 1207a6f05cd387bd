"""No unit moves the integers of a plan by more than is paid for, and no failure after the charge depends on data.

Thousands of pairs of hostile neighbouring tables, drawn the same way every time; ``campaign.py`` draws more.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick as ts
from sweeps import share
from tallystick.tables.each_unit import MOST_ROWS
from tallystick.tables.local import KINDS
from unit.tables.spark_sessions import shared_session
from worlds import twins
from worlds.engines import TABLE, Files, Postgres, Spark
from worlds.judge import Tally, judge, trial
from worlds.tables import drawn

PARTS = {"rows", "units", "present", "total", "squares", "bins", "tree", "units over here", "rows over here"}
OF_TABLE = {"units over", "rows over", "outside", "units seen", "rows counted"}


@pytest.mark.parametrize("kind", ["memory", "parquet", "csv", "duckdb"])
def test_no_unit_is_worth_more_than_it_pays_on_duckdb(kind: str, tmp_path: Path) -> None:
    tally, host = Tally(), Files(tmp_path, (kind,))
    for seed in range(6):
        trial(host, seed, 120, tally)
    assert not tally.wrong, tally.wrong
    assert tally.pairs >= 600
    assert tally.moved > tally.pairs / 4


def test_no_unit_moves_what_is_told_of_the_caps_by_more_than_it_pays(tmp_path: Path) -> None:
    """Those are numbers of the whole table, so here a table is one world; each of them reaches its claim."""
    tally, host = Tally(), Files(tmp_path, ("memory",))
    for seed in range(14):
        trial(host, seed, 1, tally)
    assert not tally.wrong, tally.wrong
    assert {kind for kind in OF_TABLE if tally.fullest.get(kind) == 1.0} == OF_TABLE, tally.fullest


def test_no_unit_is_worth_more_than_it_pays_where_each_has_one_row(tmp_path: Path) -> None:
    """What is counted and chosen for a unit is its own: tables of one world, with a step that turns rows into units."""
    tally, draw = Tally(), random.Random(5)
    for seed in range(9):
        host = Files(tmp_path, (("memory", "csv", "duckdb")[seed % 3],))
        worlds = drawn(draw, 1, by_row=False, replace=seed % 2 == 0, plain=False)
        places = host.places(worlds, draw)
        private = ts.Private(places.one, adjacency="replace" if seed % 2 == 0 else None)
        table = private.table(TABLE, unit=worlds.names["u"], types=worlds.types if places.kind == "csv" else None)
        x, day = worlds.names["x"], worlds.names["day"]
        made = table.each_unit(by=[worlds.names["k"], day], values=[x, worlds.names["n"]])
        plan = (
            made.per_unit(max_groups=1, max_rows_per_group=1)
            .agg(n=ts.count(), rows=ts.histogram(MOST_ROWS, [0.5, 1.5, 1e15]), x=ts.median(x, -7, 5000.5))
            .plan(rho=1, caps_share=0)
        )
        assert judge(plan, places, 1, tally, f"seed {seed}")
    assert not tally.wrong, tally.wrong
    assert tally.moved > tally.pairs / 4
    assert {kind for kind, share in tally.fullest.items() if share == 1.0} >= {"rows", "bins"}, tally.fullest


def test_no_unit_is_worth_more_than_it_pays_after_steps_that_see_all_its_rows(tmp_path: Path) -> None:
    tally, host = Tally(), Files(tmp_path)
    for seed in range(12):
        trial(host, seed, 60, tally, local=True)
    assert not tally.wrong, tally.wrong
    assert tally.pairs >= 400
    assert tally.moved > tally.pairs / 4
    assert len(tally.pairs_by["step"].keys() & set(KINDS)) >= 5


def test_no_unit_is_worth_more_than_it_pays_where_its_rows_in_all_are_limited(tmp_path: Path) -> None:
    tally, alone, host = Tally(), Tally(), Files(tmp_path)
    for seed in (0, 1, 8, 9, 11, 13):
        trial(host, seed, 60, tally, in_all=True)
    for seed in (1, 12):
        trial(host, seed, 1, alone, in_all=True)
    assert not tally.wrong, tally.wrong
    assert not alone.wrong, alone.wrong
    assert tally.moved > tally.pairs / 4
    reached = {kind for kind, share in tally.fullest.items() if share == 1.0}
    assert reached >= {"rows", "units", "present", "total", "tree"}, tally.fullest
    assert alone.fullest["units beyond"] == alone.fullest["rows over"] == 1.0, alone.fullest


def test_no_unit_is_worth_more_than_it_pays_where_other_values_are_one_group(tmp_path: Path) -> None:
    tally, host = Tally(), Files(tmp_path)
    for seed in range(10):
        trial(host, seed, 60, tally, rest=True)
    assert not tally.wrong, tally.wrong
    assert tally.pairs >= 400
    assert tally.moved > tally.pairs / 4
    assert {kind for kind, share in tally.fullest.items() if share == 1.0} >= {"rows", "units"}, tally.fullest


@pytest.fixture
def database(postgres: str, tmp_path: Path) -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    with contextlib.closing(Postgres(postgres, tmp_path)) as host:
        yield host


def test_no_unit_is_worth_more_than_it_pays_on_postgresql(database: Postgres) -> None:
    tally = Tally()
    for seed in range(10):
        trial(database, seed, 40, tally)
    for seed in (3, 12, 20):
        trial(database, seed, 1, tally)
    assert not tally.wrong, tally.wrong
    assert tally.pairs >= 320
    assert tally.moved > tally.pairs / 4
    assert tally.compared  # with DuckDB
    for seed in range(6):
        trial(database, seed, 40, tally, plain=0.5, local=True)
    for seed in (1, 4):
        trial(database, seed, 40, tally, plain=0.5, in_all=True)
        trial(database, seed, 40, tally, plain=0.5, rest=True)
    assert not tally.wrong, tally.wrong
    assert tally.pairs_by["limit"]["rows in all"] == 80


@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
def test_no_unit_is_worth_more_than_it_pays_on_spark(tmp_path: Path) -> None:
    tally = Tally()
    session = shared_session()
    for seed in share((1, 2), 2):  # in full on DuckDB, and here with steps and without
        trial(Spark(session, tmp_path), seed, 30, tally, plain=0.5)
    trial(Spark(session, tmp_path), 3, 30, tally, plain=1, local=True)
    trial(Spark(session, tmp_path), 4, 30, tally, plain=1, in_all=True)
    trial(Spark(session, tmp_path), 5, 30, tally, plain=1, rest=True)
    assert not tally.wrong, tally.wrong
    assert tally.pairs_by["limit"]["rows in all"] == 30
    assert tally.moved > tally.pairs / 4


def test_every_part_of_a_plan_is_drawn_and_reaches_its_claim(tmp_path: Path) -> None:
    """Otherwise the tests above would say little: some world uses up all that each part may move."""
    tally, host = Tally(), Files(tmp_path)
    for seed in range(132, 148):
        trial(host, seed, 30, tally)
    assert tally.fullest.keys() == PARTS
    assert {kind for kind, share in tally.fullest.items() if share == 1.0} == PARTS


@pytest.mark.parametrize("twin", twins.TWINS, ids=lambda twin: twin.name)
def test_a_system_without_one_of_its_protections_is_convicted(twin: twins.Twin, tmp_path: Path) -> None:
    honest, broken = twin.verdicts(tmp_path)
    assert not honest.wrong, honest.wrong
    assert honest.plans == 1
    assert broken.wrong


def test_what_is_sorted_is_cut_to_what_is_paid_for_even_where_its_sql_does_not_clamp(tmp_path: Path) -> None:
    honest, broken = twins.CUT_AGAIN.verdicts(tmp_path)
    assert not honest.wrong
    assert not broken.wrong
    assert broken.moved


def test_postgresql_without_the_plain_collation_is_convicted(postgres_with_icu: str, tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with contextlib.closing(Postgres(postgres_with_icu, tmp_path)) as database:
        assert database.loose
        scene = twins.on(database, twins.listed, by_row=True)
        honest, broken = twins.Twin("collation", scene, twins.without_collation()).verdicts(tmp_path)
    assert not honest.wrong, honest.wrong
    assert broken.wrong
