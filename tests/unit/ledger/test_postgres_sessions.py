"""Sessions of other users, roles with few rights and connection pools do not change what the ledger says."""

from __future__ import annotations

import threading
from urllib.parse import quote

import pytest

from crash.stores import spend
from tallystick.accounting.losses import zcdp
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Retired, Unavailable
from tallystick.ledger import Ledger, import_ledger, journal, postgres
from tallystick.ledger.budget import Budget
from unit.tables.servers import database, role, run, with_options

psycopg = pytest.importorskip("psycopg")

RIGHTS = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
)


@pytest.fixture
def team(postgres, tmp_path):
    """URLs of the owner of a ledger and of a role that may write to it, and the config directory."""
    with database(postgres) as (_, url):
        config = tmp_path / "config"
        with Ledger(url, config=config) as ledger:
            account = ledger.open("people", budget=Budget.zcdp(100), unit="person")
            with spend(account, 1):
                pass
        with role(url, *RIGHTS) as (_, low):
            yield url, low, config


def test_a_missing_right_is_not_called_tampering(team):
    _, low, config = team
    with Ledger(low, config=config) as ledger:
        report = ledger.verify()
    assert report.problems == ()
    assert report.not_checked == ()
    with Ledger(team[0], config=config) as ledger:
        assert ledger.verify().not_checked == ()


def test_a_function_of_another_user_in_the_schema_is_not_called(team):
    """A function whose types fit better than the server's would run with the rights of the writer."""
    url, low, config = team
    types = ("text, int, smallint", "text, int, bigint", "text, smallint, smallint")
    body = "RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'another function was called'; END $$"
    run(url, *(f"CREATE FUNCTION substr({arguments}) {body}" for arguments in types))
    with Ledger(low, config=config) as ledger:
        people = ledger.open("people")
        people.register("visits", source="visits.csv", least_price=zcdp(rho=2e-12))
        spend(people, 5, key="report/1", source="visits.csv").begin().commit(1)
        with ledger.store.read() as transaction:
            assert journal.keys_below(transaction, "local", "report") == ["report/1"]
        people.retire("visits", why="the study is over")
        with pytest.raises(Retired):
            spend(people, 5, key="report/2", source="visits.csv").begin()


def test_a_role_that_does_not_own_the_tables_is_told_that_it_purged_nothing(team):
    """The server skips such a table with a warning, and what was erased would stay in its file."""
    url, low, config = team
    with Ledger(low, config=config) as ledger, pytest.raises(Refused, match="does not own its tables"):
        ledger.purge()
    with Ledger(url, config=config) as ledger:
        ledger.purge()
        assert ledger.verify().problems == ()


def test_an_added_trigger_is_still_found_by_the_owner(team):
    url, _, config = team
    run(url, "CREATE INDEX later ON entry (hash)")
    with Ledger(url, config=config) as ledger:
        assert "schema object was altered" in ledger.verify().problems[0]


def test_functions_of_others_raise_no_alarm_and_those_of_the_ledger_do(team):
    """Another user may create functions of any name in the schema. Only those that triggers call matter."""
    url, _, config = team
    run(url, "CREATE FUNCTION tallystick_hello() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    with Ledger(url, config=config) as ledger:
        assert ledger.verify().problems == ()
    with psycopg.connect(url) as connection:
        called = "SELECT p.proname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal"
        names = {name for [name] in connection.execute(called).fetchall()}
    assert names
    for name in names:
        body = "'BEGIN RETURN NEW; END'"
        run(url, f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS {body}")
    with Ledger(url, config=config) as ledger:
        found = ledger.verify().problems
    assert all(any(name in problem for problem in found) for name in names)


def test_temporary_tables_of_a_session_do_not_stand_for_the_ledger(team, monkeypatch):
    """A pool hands out sessions in which another user made temporary tables of the ledger's names."""
    url, _, config = team
    connect = postgres.Place.connect

    def used_before(self, **options):
        connection = connect(self, **options)
        for table in ("account", "entry", "migration"):
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM public.{table} WITH NO DATA")
        return connection

    monkeypatch.setattr(postgres.Place, "connect", used_before)
    with Ledger(url, config=config) as ledger:
        account = ledger.open("people")
        assert account.used.a0 == 1
        with spend(account, 1):
            pass
    monkeypatch.undo()
    with Ledger(url, config=config) as ledger:
        assert ledger.open("people").used.a0 == 2


def test_settings_of_a_role_do_not_reach_a_transaction(team):
    url, _, config = team
    hostile = "-csynchronous_commit%3Doff -cdefault_transaction_read_only%3Don -cstatement_timeout%3D7000"
    with Ledger(with_options(url, options=hostile.replace(" ", "%20")), config=config) as ledger:
        account = ledger.open("people")
        with spend(account, 1):
            pass
        with ledger.store.write("look") as transaction:
            shown = [transaction._execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit",)]
        assert shown == ["on"]
        assert account.used.a0 == 2


def test_a_lock_that_is_held_ends_in_an_error(team, monkeypatch):
    url, _, config = team
    monkeypatch.setattr(postgres, "SETTINGS", (*postgres.SETTINGS, "SET LOCAL lock_timeout = '200ms'"))
    with Ledger(url, config=config) as ledger, psycopg.connect(url) as other:
        other.execute(postgres.QUEUE)
        with pytest.raises(Unavailable, match="nothing was granted"):
            ledger.open("more", budget=Budget.zcdp(1))
        other.rollback()
        assert ledger.open("more", budget=Budget.zcdp(1)).used.a0 == 0


def test_statements_are_not_prepared_behind_a_pool(team, monkeypatch):
    """A pool tells its clients a process of its own, and may change the server's session between transactions."""
    url, _, config = team
    with Ledger(url, config=config) as ledger:
        assert ledger.store._connected().prepare_threshold is not None
    monkeypatch.setattr(postgres, "SESSION", "SELECT pg_catalog.current_schema(), 0")
    with Ledger(url, config=config) as ledger:
        assert ledger.store._connected().prepare_threshold is None
        account = ledger.open("people")
        for _ in range(8):
            with spend(account, 1):
                pass
        with ledger.store.read() as transaction:
            assert transaction._execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_two_threads_spend_through_one_connection(team):
    url, _, config = team
    with Ledger(url, config=config) as ledger:
        account = ledger.open("people")

        def spend_ten():
            for _ in range(10):
                with spend(account, 1):
                    pass

        threads = [threading.Thread(target=spend_ten) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert account.used.a0 == 21


def with_path(url, *schemas):
    return with_options(url, options="-csearch_path%3D" + "%2C".join(schemas))


def test_every_table_of_the_ledger_comes_from_one_schema(team):
    """Two schemas in the path: empty tables in the first one would hide what is registered in the second."""
    url, _, config = team
    run(
        url,
        "CREATE SCHEMA fake",
        "CREATE TABLE fake.migration AS SELECT * FROM public.migration",
        "CREATE TABLE fake.dataset AS SELECT * FROM public.dataset WITH NO DATA",
    )
    with pytest.raises((LedgerIntegrity, Unavailable)):
        Ledger(with_path(url, "fake", "public"), config=config)


def test_a_function_of_another_user_is_not_called(team):
    url, _, config = team
    run(
        url,
        "CREATE TABLE called ()",
        "CREATE FUNCTION public.hashtext(name) RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO public.called DEFAULT VALUES; RETURN 1; END $$",
    )
    with Ledger(url, config=config) as ledger, spend(ledger.open("people"), 1):
        pass
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM called").fetchone() == (0,)


def test_a_path_of_two_schemas_makes_no_second_ledger(team):
    url, low, config = team
    run(url, "CREATE SCHEMA scratch", "GRANT ALL ON SCHEMA scratch TO PUBLIC")
    run(url, "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    name = low.partition("//")[2].partition("@")[0]
    run(url, f"REVOKE USAGE ON SCHEMA public FROM {name}")
    with pytest.raises(InvalidInput, match="this database has a ledger in schema 'public'"):
        Ledger(with_path(low, "public", "scratch"), config=config)
    with pytest.raises(InvalidInput, match="GRANT USAGE ON SCHEMA"):
        Ledger(with_path(low, "public"), config=config)


@pytest.mark.parametrize("name", ["Team Ledger", "a.b", 'with"quote', "order", "t", "患者"])
def test_any_name_of_a_schema_verifies(postgres, tmp_path, name):
    quoted = name.replace('"', '""')
    with database(postgres) as (_, url):
        run(url, f'CREATE SCHEMA "{quoted}"')
        path = quote(f'"{quoted}"'.replace(" ", "\\ "), safe="")
        with Ledger(with_path(url, path), config=tmp_path / "config") as ledger:
            with spend(ledger.open("people", budget=Budget.zcdp(9), unit="person"), 1):
                pass
            assert ledger.verify().problems == ()


def test_other_tables_in_the_schema_are_not_called_tampering(team):
    url, _, config = team
    run(
        url,
        "CREATE TABLE of_somebody (x int PRIMARY KEY)",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    with Ledger(url, config=config) as ledger:
        assert ledger.verify().problems == ()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_the_encoding_of_a_client_does_not_matter(team, encoding):
    url, _, config = team
    with Ledger(with_options(url, client_encoding=encoding), config=config) as ledger:
        assert ledger.open("患者", budget=Budget.zcdp(9), unit="person").name == "患者"
        assert ledger.verify().problems == ()


def test_a_table_that_is_locked_ends_in_an_error(team, monkeypatch):
    url, _, config = team
    monkeypatch.setattr(postgres, "SETTINGS", (*postgres.SETTINGS, "SET LOCAL lock_timeout = '200ms'"))
    with Ledger(url, config=config) as ledger, psycopg.connect(url) as other:
        other.execute("LOCK TABLE entry IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable):
            ledger.head()


def test_an_operator_of_another_user_is_not_called_by_verify(team):
    """In a schema where others may create, an operator for names matches better than the server's for texts."""
    url, _, config = team
    run(
        url,
        "CREATE SEQUENCE called",
        "CREATE FUNCTION spy(name, name) RETURNS text LANGUAGE sql AS $$ SELECT nextval('called')::text $$",
        "CREATE OPERATOR || (LEFTARG = name, RIGHTARG = name, FUNCTION = spy)",
        "CREATE FUNCTION concat_ws(text, name, name) RETURNS text LANGUAGE sql AS $$ SELECT nextval('called')::text $$",
        "CREATE FUNCTION concat_ws(text, name, name, text, boolean) RETURNS text LANGUAGE sql AS "
        "$$ SELECT nextval('called')::text $$",
        'CREATE FUNCTION concat_ws(text, name, name, "char", text) RETURNS text LANGUAGE sql AS '
        "$$ SELECT nextval('called')::text $$",
    )
    with Ledger(url, config=config) as ledger:
        assert ledger.verify().problems == ()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT is_called FROM called").fetchone() == (False,)


def test_a_url_that_leads_to_another_schema_is_noticed(postgres, tmp_path):
    """The default path has the schema of the role's name first. Another user may make it later."""
    config = tmp_path / "config"
    with database(postgres) as (_, url):
        with Ledger(url, config=config) as ledger, spend(ledger.open("a", budget=Budget.zcdp(9), unit="person"), 1):
            pass
        run(url, "CREATE SCHEMA other")
        with Ledger(with_path(url, "other"), config=config) as ledger:
            ledger.open("a", budget=Budget.zcdp(1000), unit="person")
        run(url, "ALTER SCHEMA other RENAME TO postgres")
        with pytest.raises(LedgerIntegrity, match="this host knows ledger"):
            Ledger(url, config=config)
        with Ledger(url, config=config, inspect=True) as ledger:
            assert "this host knows ledger" in ledger.verify().problems[0]
            with pytest.raises(LedgerIntegrity, match="this host knows ledger"):
                ledger.open("b", budget=Budget.zcdp(1), unit="person")


def test_a_copy_in_a_schema_that_comes_first_is_noticed(postgres, tmp_path):
    """The copy has the same identifier and head, and may say that nothing is spent."""
    config = tmp_path / "config"
    with database(postgres) as (_, url):
        with Ledger(url, config=config) as ledger, spend(ledger.open("a", budget=Budget.zcdp(9), unit="person"), 8):
            pass
        copy_to(url, "postgres")
        run(url, "UPDATE postgres.account SET own0 = 0, used0 = 0")
        with pytest.raises(LedgerIntegrity, match=r"in schema 'public' at .* in schema 'postgres'"):
            Ledger(url, config=config)


def test_a_copy_in_another_schema_is_noticed_under_every_url(postgres, tmp_path):
    """A host remembers the schema of a ledger in its database, besides the text of a URL."""
    config = tmp_path / "config"
    with database(postgres) as (_, url):
        with Ledger(url, config=config) as ledger, spend(ledger.open("a", budget=Budget.zcdp(9), unit="person"), 8):
            pass
        copy_to(url, "postgres")
        other = url.replace("?", "?application_name=other&")
        assert other != url
        with pytest.raises(LedgerIntegrity, match="this host knows ledger"):
            Ledger(other, config=config)
        with Ledger(with_path(other, "public"), config=config) as ledger:
            assert ledger.open("a").used.a0 == 8


def copy_to(url, schema):
    """Copy the ledger in the schema public into a new schema, whole and up to date."""
    run(url, f"CREATE SCHEMA {schema}")
    for table in postgres.LEDGER_TABLES:
        run(url, f"CREATE TABLE {schema}.{table} (LIKE public.{table} INCLUDING ALL)")
        run(url, f"INSERT INTO {schema}.{table} SELECT * FROM public.{table}")


def cut_off(url):
    """End all other connections to a database."""
    own = "pid <> pg_backend_pid() AND datname = current_database()"
    run(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {own}")


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_ledger_that_reconnects_stays_in_its_schema(team, action):
    """Another user makes a copy in a schema that the path finds first, and the connection breaks."""
    url, _, config = team
    with Ledger(url, config=config) as ledger:
        account = ledger.open("people")
        before = ledger.head()
        copy_to(url, "postgres")
        run(url, "UPDATE postgres.account SET own0 = 0, used0 = 0")
        cut_off(url)
        with pytest.raises(Unavailable):
            ledger.head()
        if action == "read":
            assert (account.used.a0, ledger.head()) == (1, before)
            return
        with spend(account, 1):
            pass
        counted = "SELECT (SELECT count(*) FROM public.entry), (SELECT count(*) FROM postgres.entry)"
        with psycopg.connect(url) as connection:
            [here, there] = connection.execute(counted).fetchone()
        assert there == before.seq < here == ledger.head().seq


ELSEWHERE = r"leads to another server|old or altered copy"


@pytest.mark.parametrize("change", ["another database", "an older copy"])
def test_a_ledger_that_reconnects_elsewhere_answers_nothing(team, postgres, monkeypatch, change):
    """The host name leads to another server now, or the server was restored from an older backup."""
    url, _, config = team
    connect = psycopg.connect
    with database(postgres) as (_, other), Ledger(url, config=config) as ledger, monkeypatch.context() as patch:
        if change == "another database":
            with Ledger(other, config=config) as second:
                second.open("people", budget=Budget.zcdp(100), unit="person")
        else:
            older = ledger.head().seq - 1
            run(url, "ALTER TABLE entry DISABLE TRIGGER ALL", f"DELETE FROM entry WHERE seq > {older}")
        cut_off(url)
        with pytest.raises(Unavailable):
            ledger.head()
        if change == "another database":
            patch.setattr("psycopg.connect", lambda *given, **more: connect(other, **more))
        for _ in range(2):  # the second try is checked, too
            with pytest.raises(LedgerIntegrity, match=ELSEWHERE):
                ledger.open("people")
            with pytest.raises(LedgerIntegrity, match=ELSEWHERE):
                ledger.open("more", budget=Budget.zcdp(1), unit="person")


def test_a_second_copy_in_one_database_is_imported_and_not_used(team):
    """An import is asked for, so it succeeds. On this host the ledger is in another schema, so the copy is not used."""
    url, _, config = team
    run(url, "CREATE SCHEMA moved")
    place = with_path(url, "moved")
    with Ledger(url, config=config) as ledger:
        lines, known = list(ledger.export()), ledger.head()
    with import_ledger(lines, place, config=config) as copy:
        assert (copy.head(), copy.is_exchanged) == (known, True)
        with pytest.raises(LedgerIntegrity, match="in schema 'public' at"):
            copy.open("more", budget=Budget.zcdp(1), unit="person")
    with pytest.raises(LedgerIntegrity, match="in schema 'public' at"):
        Ledger(place, config=config)
    with Ledger(place, config=config, expect_head=known.hash) as moved:  # the owner moves the ledger
        moved.open("more", budget=Budget.zcdp(1), unit="person")
    with pytest.raises(LedgerIntegrity, match="in schema 'moved' at"):
        Ledger(url, config=config)
