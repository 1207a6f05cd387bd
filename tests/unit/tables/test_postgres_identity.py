"""A table of a PostgreSQL server is recognised under every name, address, role and partition."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.tables import identity
from tallystick.tables.engines import postgres as postgres_engine
from tallystick.tables.engines import postgres_catalog
from tallystick.tables.reader import open_engine
from tallystick.tables.run import preflight
from tallystick.tables.sources import source_of
from unit.tables.servers import asked, database, port_of, role, run, schema, with_options

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def clinic(postgres: str) -> Iterator[str]:
    with schema(postgres) as name:
        run(postgres, f"CREATE TABLE {name}.visits (who int, ward text)", f"CREATE TABLE {name}.other (who int)")
        yield name


def test_every_address_of_a_server_gives_a_table_the_same_marks(postgres: str, clinic: str) -> None:
    table = f"{clinic}.visits"
    here = asked(postgres, table)
    assert len(here) == 3  # object, name, and name with owner
    with port_of(postgres) as port:
        addresses = [
            f"postgresql://postgres@127.1:{port}/postgres",
            f"postgresql://postgres@localhost:{port}/postgres",
            f"postgresql://postgres@clinic.invalid:{port}/postgres?hostaddr=127.0.0.1",
        ]
        for address in addresses:
            assert asked(address, table) == here
        with pytest.raises(Refused, match="Name one host"):
            asked(f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/postgres", table)
    assert asked(postgres, f"{clinic}.other").isdisjoint(here)


def test_a_table_without_a_schema_is_the_one_that_the_search_path_finds(postgres: str, clinic: str) -> None:
    grants = (f"GRANT USAGE ON SCHEMA {clinic} TO {{role}}", f"GRANT SELECT ON {clinic}.visits TO {{role}}")
    here = asked(postgres, f"{clinic}.visits")
    assert asked(with_options(postgres, options=f"-csearch_path%3D{clinic}"), "visits") == here
    with role(postgres, *grants) as (name, url), role(postgres, *grants) as (_, second):
        run(postgres, f"ALTER ROLE {name} SET search_path = {clinic}")
        assert asked(url, "visits") == asked(second, f"{clinic}.visits") == here
        with pytest.raises(InvalidInput, match="may read"):
            asked(second, "visits")
        with pytest.raises(InvalidInput, match="may read"):
            asked(second, f"{clinic}.other")


def test_a_table_has_the_same_name_mark_after_it_is_dropped_and_made_again(postgres: str, clinic: str) -> None:
    before = asked(postgres, f"{clinic}.visits")
    run(postgres, f"DROP TABLE {clinic}.visits", f"CREATE TABLE {clinic}.visits (who int)")
    after = asked(postgres, f"{clinic}.visits")
    assert [mark for mark in before & after if mark.endswith(f" postgres {clinic}.visits")]
    assert len(before & after) == 2  # with and without the owner
    run(postgres, f"ALTER TABLE {clinic}.visits RENAME TO calls")
    renamed = asked(postgres, f"{clinic}.calls")
    [kept] = renamed & after
    assert "/" in kept


def test_tables_of_two_databases_share_no_mark(postgres: str) -> None:
    run(postgres, "CREATE TABLE IF NOT EXISTS public.twins (who int)")
    with database(postgres) as (_, url):
        run(url, "CREATE TABLE public.twins (who int)")
        assert asked(url, "twins").isdisjoint(asked(postgres, "twins"))
    run(postgres, "DROP TABLE public.twins")


def test_a_partition_its_siblings_and_its_root_share_a_mark(postgres: str, clinic: str) -> None:
    run(
        postgres,
        f"CREATE TABLE {clinic}.years (who int, year int) PARTITION BY RANGE (year)",
        f"CREATE TABLE {clinic}.old PARTITION OF {clinic}.years FOR VALUES FROM (0) TO (10) PARTITION BY LIST (who)",
        f"CREATE TABLE {clinic}.old_one PARTITION OF {clinic}.old FOR VALUES IN (1)",
        f"CREATE TABLE {clinic}.new PARTITION OF {clinic}.years FOR VALUES FROM (10) TO (20)",
    )
    names = ("years", "old", "old_one", "new")
    marks = {name: asked(postgres, f"{clinic}.{name}") for name in names}
    for one in names:
        for two in names:
            assert not marks[one].isdisjoint(marks[two]), (one, two)
        assert marks[one].isdisjoint(asked(postgres, f"{clinic}.visits"))
    for leaf in ("old_one", "new"):
        assert asked(postgres, f"{clinic}.{leaf}", "kind") == identity.TABLE
    for parent in ("years", "old"):
        assert asked(postgres, f"{clinic}.{parent}", "kind") == "table with partitions"
        found = asked(postgres, f"{clinic}.{parent}", "identify")
        assert not found.plain
        assert identity.UNKNOWN in found.near
    run(postgres, f"ALTER TABLE {clinic}.years DETACH PARTITION {clinic}.new")
    assert not marks["years"].isdisjoint(asked(postgres, f"{clinic}.new"))


def test_two_parents_of_one_table_share_a_mark(postgres: str, clinic: str) -> None:
    run(
        postgres,
        f"CREATE TABLE {clinic}.costs (who int)",
        f"CREATE TABLE {clinic}.both () INHERITS ({clinic}.costs, {clinic}.other)",
    )
    assert not asked(postgres, f"{clinic}.costs").isdisjoint(asked(postgres, f"{clinic}.other"))


def test_a_view_is_not_a_table_and_says_which_tables_it_shows(postgres: str, clinic: str) -> None:
    run(
        postgres,
        f"CREATE VIEW {clinic}.seen AS SELECT who FROM {clinic}.visits WHERE ward = 'a'",
        f"CREATE VIEW {clinic}.again AS SELECT v.who FROM {clinic}.seen v, {clinic}.other o WHERE o.who = v.who",
        f"CREATE MATERIALIZED VIEW {clinic}.kept AS SELECT who FROM {clinic}.seen",
    )
    visits, other = asked(postgres, f"{clinic}.visits"), asked(postgres, f"{clinic}.other")
    assert asked(postgres, f"{clinic}.seen", "kind") == "view"
    assert asked(postgres, f"{clinic}.kept", "kind") == "materialized view"
    assert asked(postgres, f"{clinic}.seen", "reads") == visits
    assert asked(postgres, f"{clinic}.again", "reads") >= visits | other
    assert asked(postgres, f"{clinic}.kept", "reads") >= visits
    assert asked(postgres, f"{clinic}.kept", "reads").isdisjoint(other)
    assert asked(postgres, f"{clinic}.seen").isdisjoint(visits)
    assert asked(postgres, f"{clinic}.visits", "reads") == frozenset()


def test_a_table_whose_rows_come_from_elsewhere_says_so(postgres: str, clinic: str) -> None:
    run(
        postgres,
        f"CREATE FOREIGN DATA WRAPPER {clinic}_wrapper",
        f"CREATE SERVER {clinic}_server FOREIGN DATA WRAPPER {clinic}_wrapper",
        f"CREATE FOREIGN TABLE {clinic}.far (who int, year int) SERVER {clinic}_server",
        f"CREATE TABLE {clinic}.years (who int, year int) PARTITION BY RANGE (year)",
        f"CREATE TABLE {clinic}.guarded (who int)",
        f"ALTER TABLE {clinic}.guarded ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON {clinic}.guarded USING (who IN (SELECT o.who FROM {clinic}.other o))",
    )
    try:
        with pytest.raises(Unavailable):  # the wrapper has no handler, so that the table cannot be opened
            asked(postgres, f"{clinic}.far", "kind")
        assert asked(postgres, f"{clinic}.years", "kind") == identity.TABLE
        run(
            postgres,
            f"ALTER TABLE {clinic}.years ATTACH PARTITION {clinic}.far FOR VALUES FROM (0) TO (10)",
        )
        assert asked(postgres, f"{clinic}.years", "kind") == "table with a foreign partition"
    finally:
        run(postgres, f"DROP FOREIGN DATA WRAPPER {clinic}_wrapper CASCADE")
    assert asked(postgres, f"{clinic}.guarded", "kind") == identity.TABLE  # policies do not bind a superuser
    grants = [f"GRANT USAGE ON SCHEMA {clinic} TO {{role}}", f"GRANT SELECT ON {clinic}.guarded TO {{role}}"]
    with role(postgres, *grants) as (_, url):
        assert asked(url, f"{clinic}.guarded", "kind") == "table with row-level security"
        assert asked(url, f"{clinic}.guarded", "reads") == asked(postgres, f"{clinic}.other")
    assert asked(postgres, "pg_catalog.pg_statistic", "kind") == "system catalogue"
    assert asked(postgres, "pg_catalog.pg_stats", "kind") == "view"


def test_a_foreign_table_says_so_without_asking_its_server(postgres_with_icu: str) -> None:
    url = postgres_with_icu
    with schema(url) as name:
        try:
            run(url, "CREATE EXTENSION IF NOT EXISTS postgres_fdw")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server has no postgres_fdw")
        run(
            url,
            f"CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '1')",
            f"CREATE FOREIGN TABLE {name}.far (who int) SERVER {name}",
            f"CREATE VIEW {name}.seen AS SELECT who FROM {name}.far",
        )
        assert asked(url, f"{name}.far", "kind") == "foreign table"
        assert asked(url, f"{name}.seen", "reads") == asked(url, f"{name}.far")
        for table in ("far", "seen"):  # before a charge it is asked, so that no charge is lost
            plan = ts.Private(url).table(f"{name}.{table}", unit="who").per_unit(max_groups=1, max_rows_per_group=1)
            with pytest.raises(Unavailable, match=f"'{name}.{table}' cannot be opened"):
                preflight(plan.agg(n=ts.count()).plan(rho=0.1))
        run(url, f"DROP SERVER {name} CASCADE")


def test_a_role_that_may_not_identify_the_server_gets_the_grant_that_helps(postgres: str, clinic: str) -> None:
    with database(postgres) as (_, url):  # rights on functions belong to one database
        run(url, "CREATE TABLE visits (who int)", "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        with role(url, "GRANT SELECT ON visits TO {role}") as (name, low):
            with pytest.raises(Refused, match=rf'FUNCTION pg_catalog.pg_control_system\(\) TO "{name}"'):
                asked(low, "visits")
            run(url, f"GRANT EXECUTE ON FUNCTION pg_control_system() TO {name}")
            assert asked(low, "visits") == asked(url, "visits")


def test_an_open_table_cannot_be_replaced(postgres: str, clinic: str) -> None:
    with open_engine(source_of(postgres)) as engine:
        engine.marks(f"{clinic}.visits")
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SET lock_timeout = '50ms'")
            for statement in ("DROP TABLE {}", "ALTER TABLE {} RENAME TO calls", "TRUNCATE {}"):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(statement.format(f"{clinic}.visits"))
    run(postgres, f"DROP TABLE {clinic}.visits")


def before_the_lock(monkeypatch: pytest.MonkeyPatch, url: str, *statements: str) -> None:
    """Have another session run statements between the look at a name and the lock."""
    lock = postgres_engine.lock

    def changed(*given: Any) -> None:
        run(url, *statements)
        lock(*given)

    monkeypatch.setattr(postgres_engine, "lock", changed)


def test_a_table_that_was_replaced_before_the_lock_is_refused(
    postgres: str, clinic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = f"DROP TABLE {clinic}.visits", f"CREATE TABLE {clinic}.visits (who int)"
    with open_engine(source_of(postgres)) as engine:
        before_the_lock(monkeypatch, postgres, *statements)
        with pytest.raises(Unavailable, match="was replaced while it was opened"):
            engine.marks(f"{clinic}.visits")


def test_a_view_that_was_changed_while_a_second_table_was_opened_is_refused(
    postgres: str, clinic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(postgres, f"CREATE VIEW {clinic}.seen AS SELECT who FROM {clinic}.visits")
    with open_engine(source_of(postgres)) as engine:
        assert engine.reads(f"{clinic}.seen") == asked(postgres, f"{clinic}.visits")
        change = f"CREATE OR REPLACE VIEW {clinic}.seen AS SELECT who FROM {clinic}.other"
        before_the_lock(monkeypatch, postgres, change)
        with pytest.raises(Unavailable, match=f"'{clinic}.seen' was changed while it was opened"):
            engine.marks(f"{clinic}.other")


def test_a_view_that_is_replaced_during_the_wait_for_its_lock_is_identified_by_its_new_tables(
    postgres: str, clinic: str
) -> None:
    run(postgres, f"CREATE VIEW {clinic}.seen AS SELECT who FROM {clinic}.visits")
    waiting = "SELECT FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
    with psycopg.connect(postgres) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"CREATE OR REPLACE VIEW {clinic}.seen AS SELECT who FROM {clinic}.other")
        reads = pool.submit(asked, postgres, f"{clinic}.seen", "reads")
        for _ in range(2000):
            if other.execute(waiting, (f"{clinic}.seen",)).fetchall():
                break
        else:
            pytest.fail("the engine did not wait for the lock")
        other.commit()
        assert reads.result() == asked(postgres, f"{clinic}.other")


def test_rows_of_a_table_that_is_attached_after_the_identification_are_not_read(postgres: str, clinic: str) -> None:
    run(
        postgres,
        f"INSERT INTO {clinic}.visits VALUES (1, 'a')",
        f"CREATE TABLE {clinic}.late AS SELECT * FROM {clinic}.visits",
    )
    with open_engine(source_of(postgres)) as engine:
        assert engine.identify(f"{clinic}.visits").plain
        run(postgres, f"ALTER TABLE {clinic}.late INHERIT {clinic}.visits")
        stored = engine.stored(f"{clinic}.visits", engine.schema(f"{clinic}.visits"))
        [who, _] = engine.collect(engine.words.render(stored))
        assert len(who) == 1
    with open_engine(source_of(postgres)) as engine:
        assert not engine.identify(f"{clinic}.visits").plain
        stored = engine.stored(f"{clinic}.visits", engine.schema(f"{clinic}.visits"))
        [who, _] = engine.collect(engine.words.render(stored))
        assert len(who) == 2


@pytest.mark.parametrize("kind", ["TABLE", "VIEW", "MATERIALIZED VIEW", "partitions"])
def test_a_renamed_schema_does_not_exchange_the_table_that_is_read(postgres: str, clinic: str, kind: str) -> None:
    """A lock of the table does not keep others from renaming its schema."""
    if kind == "partitions":
        made = [
            f"CREATE TABLE {clinic}.mine (who int) PARTITION BY LIST (who)",
            f"CREATE TABLE {clinic}.one PARTITION OF {clinic}.mine FOR VALUES IN (1)",
            f"INSERT INTO {clinic}.mine VALUES (1)",
        ]
    else:
        made = [f"CREATE {kind} {clinic}.mine AS SELECT 1 AS who"]
    run(postgres, *made)
    with schema(postgres) as other, open_engine(source_of(postgres)) as engine:
        run(postgres, f"CREATE TABLE {other}.mine AS SELECT 2 AS who")
        table = f"{clinic}.mine"
        engine.identify(table)
        run(postgres, f"ALTER SCHEMA {clinic} RENAME TO gone", f"ALTER SCHEMA {other} RENAME TO {clinic}")
        try:
            for _ in range(2):
                stored = engine.stored(table, engine.schema(table))
                assert engine.collect(engine.words.render(stored)) == [[1]]
                engine.reset()
        finally:
            engine.close()
            run(postgres, f"ALTER SCHEMA {clinic} RENAME TO {other}", f"ALTER SCHEMA gone RENAME TO {clinic}")


def test_a_schema_that_is_renamed_before_the_view_is_made_is_refused(
    postgres: str, clinic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is made by name. It must be one of the locked table."""
    bind = postgres_engine.bind
    with schema(postgres) as other:
        run(postgres, f"CREATE TABLE {other}.visits AS SELECT * FROM {clinic}.visits")

        def renamed(*given: Any) -> None:
            run(postgres, f"ALTER SCHEMA {clinic} RENAME TO gone", f"ALTER SCHEMA {other} RENAME TO {clinic}")
            bind(*given)

        monkeypatch.setattr(postgres_engine, "bind", renamed)
        try:
            with (
                open_engine(source_of(postgres)) as engine,
                pytest.raises(Unavailable, match="was replaced while it was opened"),
            ):
                engine.marks(f"{clinic}.visits")
        finally:
            run(postgres, f"ALTER SCHEMA {clinic} RENAME TO {other}", f"ALTER SCHEMA gone RENAME TO {clinic}")


def test_a_table_cannot_be_opened_after_rows_were_read(postgres: str, clinic: str) -> None:
    """Its snapshot would be another one."""
    with open_engine(source_of(postgres)) as engine:
        engine.schema(f"{clinic}.visits")
        engine.collect(f"SELECT who FROM {clinic}.visits")
        with pytest.raises(Unavailable, match="was not opened before"):
            engine.schema(f"{clinic}.other")


def test_a_locked_table_is_named_after_a_bounded_wait(
    postgres: str, clinic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_catalog, "LOCK_WAIT", "50ms")
    with psycopg.connect(postgres) as other:
        other.execute(f"LOCK TABLE {clinic}.visits")
        with pytest.raises(Unavailable, match=f"locks table '{clinic}.visits'"):
            ts.Private(postgres).table(f"{clinic}.visits", unit="who")
    with open_engine(source_of(postgres)) as engine:
        engine.marks(f"{clinic}.visits")
        assert engine.collect("SHOW lock_timeout") == [["0"]]


def test_a_sequence_that_shadows_a_table_is_passed_over(postgres: str, clinic: str) -> None:
    """The ledger and the engine agree on one table, also where another relation has its name."""
    with schema(postgres) as first:
        run(postgres, f"CREATE SEQUENCE {first}.visits")
        url = with_options(postgres, options=f"-csearch_path%3D{first},{clinic}")
        assert asked(url, "visits") == asked(postgres, f"{clinic}.visits")


def test_names_and_rights_that_do_not_fit_say_what_would(postgres: str, clinic: str) -> None:
    run(postgres, f'CREATE TABLE {clinic}."a.b" (who int)', f"CREATE DOMAIN {clinic}.code AS text")
    run(postgres, f"CREATE TABLE {clinic}.coded (who {clinic}.code)")
    with pytest.raises(InvalidInput, match="through a view"):
        asked(postgres, f"{clinic}.a.b")
    with pytest.raises(Refused, match="a view that casts it to text"):
        ts.Private(postgres).table(f"{clinic}.coded", unit="who")
    grants = (f"GRANT USAGE ON SCHEMA {clinic} TO {{role}}", f"GRANT SELECT (who) ON {clinic}.visits TO {{role}}")
    with role(postgres, *grants) as (_, url), pytest.raises(InvalidInput, match="rights on columns are not enough"):
        asked(url, f"{clinic}.visits")


def register(account: Any, url: str, name: str, table: str, unit: str, least: float) -> None:
    own = asked(url, table, "identify")
    fixed = {"unit": unit, "adjacency": "add_remove"}
    account.register(name, source=f"{url} {table}", fixed=fixed, least_price=ts.zcdp(rho=least), marks=own.all_marks)


def test_a_view_at_the_name_of_a_registered_table_does_not_borrow_its_registration(
    postgres: str, clinic: str, tmp_path: Path
) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    register(account, postgres, "visits", f"{clinic}.visits", "who", 0.01)
    register(account, postgres, "other", f"{clinic}.other", "who", 1.0)

    def ask() -> Any:
        table = ts.Private(postgres, account=account).table(f"{clinic}.visits", unit="who")
        return table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count()).plan(rho=0.02).release(why="try")

    assert ask().receipt is not None
    run(postgres, f"ALTER TABLE {clinic}.visits RENAME TO moved")
    for rows in (f"SELECT who FROM {clinic}.other", f"SELECT row_number() OVER ()::int AS who FROM {clinic}.moved"):
        run(postgres, f"CREATE VIEW {clinic}.visits AS {rows}")
        with pytest.raises(Refused):
            ask()
        run(postgres, f"DROP VIEW {clinic}.visits")


def test_a_joined_table_with_two_names_costs_the_larger_of_their_least_prices(
    postgres: str, clinic: str, tmp_path: Path
) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9), unit="person")
    register(account, postgres, "visits", f"{clinic}.visits", "who", 0.01)
    register(account, postgres, "dear", f"{clinic}.other", "who", 1.0)
    register(account, with_options(postgres, application_name="x"), "cheap", f"{clinic}.other", "who", 0.01)
    source = ts.Private(postgres, account=account)
    first, second = (source.table(f"{clinic}.{name}", unit="who") for name in ("visits", "other"))
    joined = first.join_on_unit(second).per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count())
    with pytest.raises(Refused, match="the least cost of this dataset is rho 1"):
        joined.plan(rho=0.02).release(why="try")
