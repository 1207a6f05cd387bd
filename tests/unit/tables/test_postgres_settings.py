"""Settings of a URL, a role, a database or the server cannot make a release of PostgreSQL depend on data."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import Refused
from tallystick.tables.engines import postgres as postgres_engine
from tallystick.tables.engines import postgres_settings
from tallystick.tables.engines.postgres_settings import FIXED, HARMLESS, LIMITS, RESTORED, begin_writable
from tallystick.tables.reader import open_engine
from tallystick.tables.sources import source_of
from unit.tables.servers import database, role, run, with_options

psycopg = pytest.importorskip("psycopg")

CLIENT, ROLE, DATABASE, ROLE_IN_DATABASE, FILE = "client", "user", "database", "database user", "configuration file"
SOURCES = (CLIENT, ROLE, DATABASE, ROLE_IN_DATABASE, FILE)


@pytest.fixture(scope="module")
def clinic(postgres: str) -> Iterator[tuple[str, str, str, str]]:
    """A database with a table and a role that may read it: URL of the owner, database, role and the role's URL."""
    with database(postgres) as (name, url):
        run(url, "CREATE TABLE visits (who int)", "INSERT INTO visits SELECT * FROM generate_series(1, 50)")
        with role(url, "GRANT SELECT ON visits TO {role}") as (user, low):
            yield url, name, user, low


@contextlib.contextmanager
def changed(clinic: tuple[str, str, str, str], source: str, name: str, value: str) -> Iterator[str]:
    """The URL of a role whose sessions have a setting from one source."""
    owner, base, user, low = clinic
    if source == CLIENT:
        yield with_options(low, options=f"-c{name}%3D{value}")
        return
    place = {
        ROLE: f"ROLE {user}",
        DATABASE: f"DATABASE {base}",
        ROLE_IN_DATABASE: f"ROLE {user} IN DATABASE {base}",
        FILE: "SYSTEM",
    }[source]
    before = setting(owner, name)
    run(owner, f"ALTER {place} SET {name} = '{value}'")
    try:
        if source == FILE:
            reload(owner, lambda: setting(owner, name) != before)
        yield low
    finally:
        run(owner, f"ALTER {place} RESET {name}")
        if source == FILE:
            reload(owner, lambda: setting(owner, name) == before)


def setting(url: str, name: str) -> tuple[str, str]:
    """Value and source of a setting in a new session."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT setting, source FROM pg_settings WHERE name = %s", (name,)).fetchone()
        assert found is not None
        return found[0], found[1]


def reload(owner: str, is_read: Callable[[], bool]) -> None:
    """Have the server read its configuration file, which it does a moment later."""
    run(owner, "SELECT pg_reload_conf()")
    assert any(is_read() for _ in range(1000))


def shown(url: str, name: str) -> Any:
    """A setting as the transaction of a release has it."""
    with open_engine(source_of(url)) as engine:
        engine.schema("visits")
        [[value]] = engine.collect(f"SHOW {name}")
        return value


@pytest.mark.parametrize("source", SOURCES)
def test_time_limits_are_lifted_wherever_they_come_from(clinic: tuple[str, str, str, str], source: str) -> None:
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"):
        with changed(clinic, source, name, "60000") as url:
            assert setting(url, name)[1] == source
            assert shown(url, name) == "0"


def test_every_time_limit_that_a_role_may_set_is_lifted_or_refused(clinic: tuple[str, str, str, str]) -> None:
    """The server is asked for its time limits: transaction_timeout is one of them since version 17."""
    owner, _, _, low = clinic
    with psycopg.connect(owner) as connection:
        version = connection.info.server_version
        limits = connection.execute("SELECT name FROM pg_settings WHERE name ~ '_timeout$' AND context = 'user'")
        names = {name for [name] in limits.fetchall()}
    assert {"statement_timeout", "idle_in_transaction_session_timeout"} < names
    assert ("transaction_timeout" in names) == (version >= 170000)
    for name in names - {"tcp_user_timeout"}:  # it is always 0 on the Unix socket of this server
        url = with_options(low, options=f"-c{name}%3D59000")
        if name in FIXED:
            assert shown(url, name) == "0"
        else:
            with pytest.raises(Refused, match=name):
                shown(url, name)


@pytest.mark.parametrize("source", SOURCES)
def test_the_length_of_a_transaction_does_not_decide_whether_it_succeeds(
    clinic: tuple[str, str, str, str], source: str
) -> None:
    """The timer runs since the transaction began, so that large data alone would end it after the charge."""
    with psycopg.connect(clinic[0]) as connection:
        if connection.info.server_version < 170000:
            pytest.skip("servers before version 17 have no transaction_timeout")
    with (
        changed(clinic, source, "transaction_timeout", "400") as url,
        open_engine(source_of(url)) as engine,
    ):
        assert engine.collect("SELECT 1 FROM pg_sleep(0.5)") == [[1]]


@pytest.mark.parametrize("source", [CLIENT, ROLE, DATABASE, ROLE_IN_DATABASE])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gin_fuzzy_search_limit", "5"),
        ("debug_print_plan", "on"),
        ("exit_on_error", "on"),
        ("backslash_quote", "on"),
        ("stats_fetch_consistency", "none"),
    ],
)
def test_a_changed_setting_that_is_not_known_to_be_harmless_is_refused(
    clinic: tuple[str, str, str, str], source: str, name: str, value: str
) -> None:
    with changed(clinic, source, name, value) as url, pytest.raises(Refused) as problem:
        ts.Private(url).table("visits", unit="who")
    assert name in str(problem.value)
    assert f"(source: {source})" in str(problem.value)
    assert ("RESET" in str(problem.value)) == (source != CLIENT)


@pytest.mark.parametrize("source", [ROLE, DATABASE, ROLE_IN_DATABASE, FILE])
def test_a_limit_of_temporary_files_is_refused_wherever_it_comes_from(
    clinic: tuple[str, str, str, str], source: str
) -> None:
    """It ends a release after the charge if, and only if, the data are large."""
    owner, _, user, _ = clinic
    with changed(clinic, source, "temp_file_limit", "64") as url:
        assert setting(url, "temp_file_limit")[1] == source
        with pytest.raises(Refused, match="temp_file_limit = 64"):
            ts.Private(url).table("visits", unit="who")
        run(owner, f"GRANT SET ON PARAMETER temp_file_limit TO {user}")
        try:
            assert shown(url, "temp_file_limit") == "-1"
        finally:
            run(owner, f"REVOKE SET ON PARAMETER temp_file_limit FROM {user}")


@pytest.mark.parametrize("source", SOURCES)
def test_memory_that_a_client_or_a_role_chose_is_set_to_the_default(
    clinic: tuple[str, str, str, str], source: str
) -> None:
    with changed(clinic, source, "work_mem", "900MB") as url:
        assert setting(url, "work_mem")[1] == source
        assert shown(url, "work_mem") == ("900MB" if source == FILE else "4MB")


@pytest.mark.parametrize("source", SOURCES)
def test_a_harmless_setting_is_allowed(clinic: tuple[str, str, str, str], source: str) -> None:
    harmless = {"random_page_cost": "1.5", "enable_mergejoin": "off", "synchronize_seqscans": "off"}
    for name, value in {**harmless, "application_name": "report", "vacuum_cost_delay": "1"}.items():
        with changed(clinic, source, name, value) as url:
            assert ts.Private(url).table("visits", unit="who").schema.names == ("who",)


def test_what_the_operator_chose_in_the_configuration_file_is_allowed(clinic: tuple[str, str, str, str]) -> None:
    with changed(clinic, FILE, "gin_fuzzy_search_limit", "5") as url:
        assert shown(url, "gin_fuzzy_search_limit") == "5"


@pytest.mark.parametrize("source", SOURCES)
def test_text_and_meaning_of_sql_are_set_by_the_release(clinic: tuple[str, str, str, str], source: str) -> None:
    given = {"TimeZone": "Asia/Tokyo", "transform_null_equals": "on", "row_security": "off", "bytea_output": "escape"}
    for name, value in given.items():
        with changed(clinic, source, name, value) as url:
            assert shown(url, name) == FIXED[name]


def test_lists_of_settings_name_settings_of_the_server_and_do_not_overlap(clinic: tuple[str, str, str, str]) -> None:
    owner, *_ = clinic
    with psycopg.connect(owner) as connection:
        known = {name for [name] in connection.execute("SELECT name FROM pg_settings").fetchall()}
    listed = [*FIXED, *RESTORED, *LIMITS, *HARMLESS]
    assert len(listed) == len(set(listed))
    newer_or_older = {"transaction_timeout", "old_snapshot_threshold", "createrole_self_grant"}
    assert set(listed) - newer_or_older <= known


@pytest.mark.parametrize("source", SOURCES)
def test_a_role_whose_transactions_are_read_only_may_release(clinic: tuple[str, str, str, str], source: str) -> None:
    with changed(clinic, source, "default_transaction_read_only", "on") as url:
        assert setting(url, "default_transaction_read_only") == ("on", source)
        assert shown(url, "transaction_read_only") == "off"
        with open_engine(source_of(url)) as engine:
            engine.schema("visits")
            engine.keep("stage", "SELECT 1 AS one")
            assert engine.collect("SELECT one FROM stage") == [[1]]


def test_a_standby_is_refused_with_a_reason() -> None:
    class Standby:
        def execute(self, _: str) -> None:
            raise psycopg.errors.FeatureNotSupported("cannot set transaction read-write mode during recovery")

    with pytest.raises(Refused, match="Connect to the primary server"):
        begin_writable(Standby())


def test_a_role_that_may_not_make_temporary_tables_gets_the_grant_that_helps(postgres: str) -> None:
    with database(postgres) as (name, url):
        run(url, "CREATE TABLE visits (who int)", f"REVOKE TEMP ON DATABASE {name} FROM PUBLIC")
        with role(url, "GRANT SELECT ON visits TO {role}") as (user, low):
            with pytest.raises(Refused, match=f'GRANT TEMP ON DATABASE "{name}" TO "{user}"'):
                ts.Private(low).table("visits", unit="who")
            run(url, f"GRANT TEMP ON DATABASE {name} TO {user}")
            assert ts.Private(low).table("visits", unit="who").schema.names == ("who",)


def test_commands_quote_the_name_of_a_role(postgres: str) -> None:
    user = "joe@example.com"
    run(postgres, f'CREATE ROLE "{user}" LOGIN', f'ALTER ROLE "{user}" SET gin_fuzzy_search_limit = 5')
    try:
        url = postgres.replace("//postgres", "//joe%40example.com", 1)
        with pytest.raises(Refused, match=f'ALTER ROLE "{user}" RESET gin_fuzzy_search_limit'):
            ts.Private(url).table("visits", unit="who")
    finally:
        run(postgres, f'DROP ROLE "{user}"')


def test_settings_of_an_extension_are_harmless_by_their_whole_prefix() -> None:
    assert postgres_settings._is_known("pg_stat_statements.track")
    assert not postgres_settings._is_known("pg_stat_statementsX.track")
    assert not postgres_settings._is_known("enable_x.seqscan")


def test_a_transaction_that_may_not_wait_names_the_setting(
    clinic: tuple[str, str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may end the transaction before the limit can be lifted."""
    stop_clocks = postgres_engine.stop_clocks

    def slow(connection: Any) -> None:
        time.sleep(0.2)
        stop_clocks(connection)

    monkeypatch.setattr(postgres_engine, "stop_clocks", slow)
    with (
        changed(clinic, ROLE, "idle_in_transaction_session_timeout", "100ms") as url,
        pytest.raises(Refused, match="RESET idle_in_transaction_session_timeout"),
    ):
        ts.Private(url).table("visits", unit="who")


def test_the_rows_of_a_release_are_not_counted_where_the_role_may_stop_it(clinic: tuple[str, str, str, str]) -> None:
    """Every role may read how many rows all sessions have inserted: more, if a temporary table has any rows."""
    owner, _, user, low = clinic
    assert inserted(owner, low, rows=1000) != inserted(owner, low, rows=0)  # otherwise nothing would be shown here
    assert inserted(owner, owner, rows=1000) == inserted(owner, owner, rows=0)
    with psycopg.connect(owner) as connection:
        may_grant = connection.info.server_version >= 150000
    if may_grant:
        run(owner, f"GRANT SET ON PARAMETER track_counts TO {user}")
        assert inserted(owner, low, rows=1000) == inserted(owner, low, rows=0)
        run(owner, f"REVOKE SET ON PARAMETER track_counts FROM {user}")


def inserted(owner: str, url: str, rows: int) -> int:
    """Rows that the server counts as inserted, in all tables, while a release makes a table of so many rows."""
    before = all_inserted(owner)
    with open_engine(source_of(url)) as engine:
        engine.schema("visits")
        engine.keep("stage", f"SELECT 7 AS who FROM generate_series(1, {rows})")
    return all_inserted(owner) - before


def all_inserted(url: str) -> int:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(others).fetchall() != [(0,)]:  # a session that ends writes its counters
            time.sleep(0.02)
        if connection.info.server_version < 150000:
            time.sleep(1.2)  # a process of its own collects them once in a second
        counted = "SELECT tup_inserted FROM pg_stat_database WHERE datname = current_database()"
        [[rows]] = connection.execute(counted).fetchall()
        return int(rows)


def test_settings_of_an_extension_that_is_not_loaded_yet(clinic: tuple[str, str, str, str]) -> None:
    """A function in a view fails at a person with two rows if the client says so; it is not loaded before."""
    owner, name, _, low = clinic
    run(
        owner,
        "CREATE FUNCTION one(w int) RETURNS int LANGUAGE plpgsql AS "
        "$$ DECLARE f int; BEGIN SELECT v.who INTO f FROM public.visits v WHERE v.who = w; RETURN f; END $$",
        "INSERT INTO visits VALUES (7)",
        "CREATE VIEW seen AS SELECT public.one(who) AS who FROM visits",
        "GRANT SELECT ON seen TO PUBLIC",
    )
    for written in ("-cplpgsql.extra_errors%3Dtoo_many_rows", "--plpgsql.extra-errors%3Dtoo_many_rows"):
        url = with_options(low, options=written)
        with pytest.raises(Refused):  # as a setting that may hold a secret
            ts.Private(url).table("seen", unit="who")
    run(owner, f"ALTER DATABASE {name} SET plpgsql.extra_errors = 'too_many_rows'")
    with open_engine(source_of(low)) as engine:
        engine.schema("seen")
        assert len(engine.collect("SELECT who FROM public.seen")[0]) == 51
