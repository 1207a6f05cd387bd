"""The roles of a ledger on real servers: what the keeper can do, what the reader sees, and who cannot connect."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import pytest

import tallystick as ts
from tallystick.cli import main
from tallystick.errors import InvalidInput, NotAuthorised, Refused, Unavailable
from tallystick.ledger import Ledger, layout
from tallystick.ledger import postgres as postgres_store
from tallystick.ledger.pay import pay
from tallystick.ledger.roles import ROLES, script
from tallystick.ledger.store import STATEMENTS
from tallystick.place import Place
from unit.ledger.test_pay import Survey
from unit.ledger.test_postgres_layout import older
from unit.tables.servers import database, role, run, with_options

psycopg = pytest.importorskip("psycopg")
DENIED = psycopg.errors.InsufficientPrivilege
SCHEMA = 'Team\'s "ledger" é'
TEXTS = ("Mrs Miller", "why-of-a-charge", "key-of-a-charge", "note-of-data", "question-of-Ann", "answer-of-Ann")


class Team(NamedTuple):
    """A database with a ledger and its roles: the URL of each one, for its schema."""

    database: str
    admin: str
    keeper: str
    reader: str
    other: str


def as_user(url: str, name: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}").geturl()


def in_schema(url: str, schema: str = SCHEMA, more: str = "") -> str:
    escaped = schema.replace('"', '""')
    words = f'-csearch_path="{escaped}"'.replace(" ", "\\ ") + more
    return with_options(url, options=quote(words, safe=""))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(params=["postgres", "postgres_with_icu"])
def server(request):
    """The newest server and an old one: rights of those who create roles differ between them."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def place(server):
    """The name and the URL of a database. The roles, which belong to the whole server, are dropped at the end."""
    try:
        with database(server) as found:
            yield found
    finally:
        run(server, *[f"DROP ROLE IF EXISTS {name}" for name in ROLES])


@pytest.fixture
def team(place, config):
    name, url = place
    run(url, f"CREATE SCHEMA {quoted(SCHEMA)}")
    Ledger(in_schema(url)).close()
    run(url, script(SCHEMA, name))
    with role(url) as (_, other):
        urls = [url, as_user(url, "ts_keeper"), as_user(url, "ts_reader"), other]
        yield Team(name, *map(in_schema, urls))


def test_the_keeper_does_everything_that_the_ledger_does(team):
    with Ledger(team.keeper) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
        ward = ledger.open("ward", budget=ts.zcdp(rho=0.2), parent=people)
        people.register("visits", source="visits.csv", note="note")
        assert pay(Survey(), people, why="x", key="k").fresh
        assert pay(Survey(), people, why="x", key="k").answer == 7
        receipt = ward.pay(ts.zcdp(rho=0.01), why="about Mrs Miller")
        people.reserve(ts.zcdp(rho=0.1), why="maybe").refund()
        with pytest.raises(Unavailable):
            pay(Survey(request="another", fails={"draw": ValueError("row 3")}), people, why="it burns")
        assert people.clear(why="a bug in the driver")
        people.raise_limit(ts.zcdp(rho=2), why="a new year")
        people.register("visits", source="visits.csv", note="newer", update=True)
        people.retire("visits", why="replaced")
        ledger.erase(receipt.charge, why="she asked for it", answers=True)
        ledger.govern(why="a team uses it")
        ledger.make_checkpoint()
        assert pay(Survey(source="other.csv", request="a third"), people, why="sealed").fresh
        ward.close(why="done")
        ledger.store.log_failure("a line for the operator")
        for full in (True, False):
            report = ledger.verify(full=full)
            assert report.problems == ()
        assert ledger.verify().not_checked == ()
        with pytest.raises(Refused, match="erased texts are still in the files"):
            ledger.purge()
    with psycopg.connect(team.admin) as connection:
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in WRITTEN}
    assert min(counts.values()) > 0, counts


WRITTEN = sorted({*layout.LEDGER_TABLES} - {"migration"})

FORBIDDEN = {
    **{f"TRUNCATE {table}": f"TRUNCATE {table} CASCADE" for table in layout.LEDGER_TABLES},
    **{
        f"DELETE {table}": f"DELETE FROM {table}"
        for table in sorted({*layout.LEDGER_TABLES} - {"entry_text", "tag", "answer"})
    },
    **{f"DROP {table}": f"DROP TABLE {table} CASCADE" for table in ("entry", "failure")},
    **{f"ALTER {table}": f"ALTER TABLE {table} ADD COLUMN more text" for table in ("entry", "account")},
    "migration": "INSERT INTO migration VALUES (4, 'mine')",
    "entry": "UPDATE entry SET body = body",
    "answer": "UPDATE answer SET body = body",
    "text": "UPDATE entry_text SET body = body",
    "tag": "UPDATE tag SET key_tag = key_tag",
    "secret": "UPDATE secret SET body = body",
    "seal": "UPDATE seal SET key = key",
    "line": "UPDATE line SET a0 = a0",
    "dataset": "UPDATE dataset SET note = note",
    "name of an account": "UPDATE account SET name = name",
    "kind of an account": "UPDATE account SET kind = kind",
    "key of a charge": "UPDATE charge SET key = key",
    "person of a charge": "UPDATE charge SET principal = principal",
    "source of a closing": "UPDATE quarantine SET source = source",
    "drop trigger": "DROP TRIGGER entry_no_change ON entry",
    "disable trigger": "ALTER TABLE entry DISABLE TRIGGER entry_no_change",
    "no triggers in the session": "SET session_replication_role = replica",
    "new trigger": "CREATE TRIGGER mine BEFORE INSERT ON line EXECUTE FUNCTION tallystick_refuse()",
    "function": "ALTER FUNCTION tallystick_refuse() SECURITY DEFINER",
    "new function": "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "new table": "CREATE TABLE mine (x int)",
    "new index": "CREATE INDEX mine ON entry (hash)",
    "new view": "CREATE VIEW mine AS SELECT 1 AS one",
    "temporary table": "CREATE TEMPORARY TABLE entry (x int)",
    "new schema": "CREATE SCHEMA mine",
    "drop schema": f"DROP SCHEMA {quoted(SCHEMA)} CASCADE",
    "owner": "SET ROLE ts_owner",
    "rights": "ALTER ROLE ts_keeper CREATEROLE",
    "membership": "GRANT ts_owner TO ts_keeper",
}


@pytest.mark.parametrize("who", ["keeper", "reader"])
def test_what_neither_the_keeper_nor_the_reader_can_do(team, who):
    """Every statement is tried: it would succeed for the administrator, or be refused by a trigger."""
    with Ledger(team.keeper) as ledger:
        ledger.open("people", budget=ts.zcdp(rho=1), unit="person").pay(ts.zcdp(rho=0.1), why="x")
    with psycopg.connect(getattr(team, who), autocommit=True) as connection:
        for what, statement in FORBIDDEN.items():
            try:
                connection.execute(statement)
            except DENIED:
                continue
            pytest.fail(f"the {who} can: {what}")


def test_the_administrator_is_not_denied(team):
    """The statements are denied for want of a right, and not because they make no sense. Triggers refuse some."""
    with Ledger(team.keeper) as ledger:
        ledger.open("people", budget=ts.zcdp(rho=1), unit="person").pay(ts.zcdp(rho=0.1), why="x")
    with psycopg.connect(team.admin) as connection:
        for statement in FORBIDDEN.values():
            with contextlib.suppress(psycopg.errors.RaiseException):
                connection.execute(statement)
            connection.rollback()


def test_the_reader_writes_nothing_and_reads_no_text(team):
    with Ledger(team.keeper) as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
        people.register("visits", source="visits.csv", note="note-of-data")
        question = Survey(request="question-of-Ann")
        question.draw = lambda: "answer-of-Ann"
        pay(question, people, why="why-of-a-charge", key="key-of-a-charge")
        people.raise_limit(ts.zcdp(rho=2), why="about Mrs Miller")
        people.reserve(ts.zcdp(rho=0.1), why="why-of-a-charge", key="key-of-a-charge-2")
        ledger.govern(why="about Mrs Miller")
        ledger.make_checkpoint()
        secret = ledger.store.tags.secret
    seen = {}
    with psycopg.connect(team.reader, autocommit=True) as connection:
        for table in layout.LEDGER_TABLES:
            columns = [column for [column] in connection.execute(COLUMNS, (table,))]
            for write in (f"INSERT INTO {table} DEFAULT VALUES", *[f"UPDATE {table} SET {c} = {c}" for c in columns]):
                with pytest.raises(DENIED):
                    connection.execute(write)
            with pytest.raises(DENIED):
                connection.execute(f"DELETE FROM {table}")
            try:
                seen[table] = str(connection.execute(f"SELECT * FROM {table}").fetchall())
            except DENIED:
                continue
    assert {*layout.LEDGER_TABLES} - seen.keys() == {"entry_text", "tag", "secret", "answer", "failure"}
    assert all(seen[table] != "[]" for table in ("entry", "account", "charge", "line", "dataset", "checkpoint", "seal"))
    found = [(table, text) for text in (*TEXTS, secret) for table in seen if text in seen[table]]
    assert found == []
    with psycopg.connect(team.admin) as connection:  # they are there, for those who may read them
        beside = str([connection.execute(f"SELECT * FROM {t}").fetchall() for t in ("entry_text", "answer", "secret")])
    assert all(text in beside for text in (*TEXTS, secret))


COLUMNS = (
    "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = "
    "(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = current_schema() AND c.relname = %s)"
)


def test_no_other_role_can_connect(team):
    psycopg.connect(team.keeper).close()
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(team.other)
    with pytest.raises(psycopg.OperationalError, match='role "ts_owner" is not permitted to log in'):
        psycopg.connect(as_user(team.admin, "ts_owner"))


def test_nothing_in_the_schema_is_granted_to_everyone(place):
    """In the schema ``public``, where the server grants USAGE to everyone, and where a sequence was granted."""
    name, url = place
    Ledger(url).close()
    run(url, "CREATE SEQUENCE numbers", "GRANT ALL ON SEQUENCE numbers TO PUBLIC", "GRANT SELECT ON entry TO PUBLIC")
    assert public_rights(url) == {"numbers", "entry", "public", "tallystick_refuse", *FUNCTIONS}
    run(url, script("public", name))
    assert public_rights(url) == set()


FUNCTIONS = {f"tallystick_{name}" for name in ("account_update", "charge_update", "entry_dense", "quarantine_update")}


def public_rights(url: str) -> set[str]:
    """What everyone has a right on in the schema ``public``. Without a list of rights the defaults hold."""
    query = """
        SELECT o.name FROM (
          SELECT relname AS name, relnamespace AS space, coalesce(relacl, acldefault('r', relowner)) AS rights
          FROM pg_class
          UNION ALL SELECT proname, pronamespace, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
          UNION ALL SELECT nspname, oid, coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace
        ) AS o, aclexplode(o.rights) AS a WHERE a.grantee = 0 AND o.space = 'public'::regnamespace
    """
    with psycopg.connect(url) as connection:
        return {name for [name] in connection.execute(query)}


def test_the_rights_are_those_that_the_statements_of_the_ledger_need():
    """A statement that is added later is not forgotten in the script, and the script grants nothing else."""
    needed = {"INSERT": {"failure"}, "DELETE": set(), "UPDATE": {}}
    for statement in STATEMENTS.values():
        if found := re.match(r"INSERT INTO (\w+)|DELETE FROM (\w+)", statement):
            needed[statement.split()[0]].add(found[1] or found[2])
        elif found := re.match(r"UPDATE (\w+) SET (.*?) WHERE", statement):
            needed["UPDATE"].setdefault(found[1], set()).update(re.findall(r"(\w+) = ", found[2]))
    text = script("ledger", "team")
    [inserted] = re.findall(r"GRANT INSERT ON([^;]*) TO ts_keeper;", text)
    [deleted] = re.findall(r"GRANT DELETE ON([^;]*) TO ts_keeper;", text)
    updated = {
        table: set(re.findall(r"\w+", columns)) for columns, table in re.findall(r"UPDATE \((.*)\) ON (\w+)", text)
    }
    granted = {
        "INSERT": set(re.findall(r"\w+", inserted)),
        "DELETE": set(re.findall(r"\w+", deleted)),
        "UPDATE": updated,
    }
    assert granted == needed
    assert "migration" not in granted["INSERT"]


def test_the_owner_of_a_table_and_a_function_is_the_role_of_that_name(team):
    owned = (
        "SELECT pg_get_userbyid(o) FROM (SELECT relowner AS o, relnamespace AS s FROM pg_class WHERE relkind = 'r' "
        "UNION SELECT proowner, pronamespace FROM pg_proc UNION SELECT nspowner, oid FROM pg_namespace) AS a "
        "JOIN pg_namespace n ON n.oid = a.s WHERE n.nspname = current_schema()"
    )
    with psycopg.connect(team.admin) as connection:
        assert connection.execute(owned).fetchall() == [("ts_owner",)]


def test_the_script_can_run_again_and_takes_back_what_was_granted_since(team):
    run(team.admin, "GRANT ALL ON ALL TABLES IN SCHEMA " + quoted(SCHEMA) + " TO ts_keeper, ts_reader, PUBLIC")
    run(
        team.admin,
        "GRANT UPDATE (body) ON entry TO ts_keeper",
        f"GRANT CREATE ON DATABASE {team.database} TO ts_keeper",
    )
    run(team.admin, script(SCHEMA, team.database))
    with psycopg.connect(team.keeper, autocommit=True) as connection:
        for what in ("entry", "migration", "new schema", "TRUNCATE failure"):
            with pytest.raises(DENIED):
                connection.execute(FORBIDDEN[what])
    with psycopg.connect(team.reader, autocommit=True) as connection, pytest.raises(DENIED):
        connection.execute("SELECT * FROM entry_text")
    with Ledger(team.keeper, first_use="another host") as ledger:
        assert ledger.verify().problems == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("CREATE ROLE ts_keeper LOGIN SUPERUSER", "is an administrator"),
        ("CREATE ROLE ts_reader LOGIN BYPASSRLS", "is an administrator"),
        ("CREATE ROLE ts_keeper LOGIN IN ROLE pg_write_all_data", "is a member of another role"),
    ],
)
def test_a_role_that_has_more_rights_already_is_refused(place, change, says):
    name, url = place
    Ledger(url).close()
    run(url, change)
    with pytest.raises(psycopg.errors.RaiseException, match=says):
        run(url, script("public", name))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_roles WHERE rolname = 'ts_owner'").fetchone() == (0,)


def test_an_owner_of_the_database_who_may_create_roles_can_run_it(server):
    """Managed servers give no superuser to their customers."""
    with role(server) as (admin, _):
        run(server, f"ALTER ROLE {admin} CREATEROLE")
        try:
            with database(server) as (name, url):
                run(url, f"ALTER DATABASE {name} OWNER TO {admin}")
                own = as_user(url, admin)
                run(own, "CREATE SCHEMA team")
                Ledger(in_schema(own, "team")).close()
                run(own, script("team", name))
                with Ledger(in_schema(as_user(url, "ts_keeper"), "team")) as ledger:
                    ledger.open("people", budget=ts.zcdp(rho=1), unit="person").pay(ts.zcdp(rho=0.1), why="x")
                    assert ledger.verify().problems == ()
                    with pytest.raises(Refused):
                        ledger.purge()
                with Ledger(in_schema(own, "team", " -crole=ts_owner")) as ledger:  # as for an update of the layout
                    ledger.purge()
                run(own, script("team", name))
        finally:
            run(server, *[f"DROP ROLE IF EXISTS {each}" for each in ROLES])


def test_an_older_layout_is_changed_by_the_owner_and_not_by_the_keeper(place):
    name, url = place
    run(url, "CREATE SCHEMA team")
    with older(in_schema(url, "team"), 2):
        pass
    run(url, "CREATE ROLE ts_owner", "CREATE ROLE ts_keeper LOGIN", f"GRANT CONNECT ON DATABASE {name} TO ts_keeper")
    run(url, "GRANT USAGE ON SCHEMA team TO ts_keeper", "GRANT ALL ON ALL TABLES IN SCHEMA team TO ts_keeper")
    keeper = in_schema(as_user(url, "ts_keeper"), "team")
    with pytest.raises(Refused, match="has the layout of an earlier version"):
        Ledger(keeper)
    postgres_store.PostgresStore(Place.of(in_schema(url, "team")), create=False).close()
    run(url, script("team", name))
    with Ledger(keeper) as ledger:
        assert ledger.verify().problems == ()


def test_other_roles_that_can_connect_are_listed(team, tmp_path):
    psql = shutil.which("psql") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/psql")), None)
    if psql is None:
        pytest.skip("no psql on this machine. Debian: apt-get install postgresql-client")
    other = urlsplit(team.other).netloc.partition("@")[0]
    run(team.admin, f"GRANT CONNECT ON DATABASE {team.database} TO {other}")
    file = tmp_path / "roles.sql"
    file.write_text(script(SCHEMA, team.database))
    done = subprocess.run([psql, "-X", "-q", "-A", "-t", "-f", str(file), team.admin], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [other], "")


def test_without_a_ledger_the_script_does_nothing(place):
    name, url = place
    with pytest.raises(psycopg.errors.UndefinedTable):
        run(url, script("public", name))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'ts%'").fetchone() == (0,)
        assert connection.execute("SELECT datacl FROM pg_database WHERE datname = %s", (name,)).fetchone() == (None,)


def test_the_command_prints_the_script_and_runs_nothing(capsys):
    words = ["ledger", "roles", "--schema", 'a"; DROP TABLE x; --{database}', "--database", "team"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed == script(words[3], "team")
    assert 'ALTER SCHEMA "a""; DROP TABLE x; --{database}" OWNER TO ts_owner;' in printed
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "tallystick/ledger.roles"
    assert found["found"] == {"roles": ["ts_owner", "ts_keeper", "ts_reader"], "script": printed}


@pytest.mark.parametrize("name", ["", "a\nb", "a\0", "é" * 32, "\u202ename", "pg_catalog", "information_schema"])
def test_a_name_that_no_ledger_can_have_is_refused(name, capsys):
    with pytest.raises(InvalidInput) as problem:
        script(name, "team")
    assert problem.value.argument == "schema"
    assert main(["ledger", "roles", "--schema", name, "--database", "team"]) == 2
    assert capsys.readouterr().out == ""


def test_a_name_of_a_database_is_checked_as_well():
    with pytest.raises(InvalidInput, match="database"):
        script("ledger", "a" * 64)
    assert script("ledger", "a" * 63)


def test_a_name_in_any_script_is_written_in_ascii(place):
    """The meaning of the script does not depend on the encoding of a terminal."""
    name, url = place
    schema = '患者 \\ 😀"'
    text = script(schema, name)
    assert text.isascii()
    run(url, f"CREATE SCHEMA {quoted(schema)}")
    (statement,) = (line for line in text.splitlines() if line.startswith("REVOKE ALL ON SCHEMA"))
    run(url, statement.partition(" FROM ")[0] + " FROM PUBLIC")


def test_the_keeper_suffices_for_a_ledger_whose_people_have_roles(team):
    """Everybody logs in as a role of the database that is a member of the keeper: that role is who acts."""
    people = ("ts_ann", "ts_bob", "ts_cat")
    urls = {name: as_user(team.keeper, name) for name in people}
    try:
        run(team.admin, *[f"CREATE ROLE {name} LOGIN INHERIT IN ROLE ts_keeper" for name in people])
        with Ledger(team.keeper) as ledger:
            assert ledger.subject == "database role ts_keeper"
            ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
            ledger.govern(why="a team uses it")
            ledger.team.begin(why="a team uses it")
            ledger.team.grant("role:ts_ann", "analyst", "people", why="works here")
            for name in ("ts_bob", "ts_cat"):
                ledger.team.grant(f"role:{name}", "approver", "people", why="decides")
            ledger.team.allow("role:ts_ann", "people", ts.zcdp(rho=0.2), called="ann's", why="a study")
            number = ledger.team.request(lambda book: book.open("people").raise_limit(ts.zcdp(rho=2), why="x"), why="x")
        with Ledger(urls["ts_ann"] + "%20-crole%3Dts_keeper") as ledger:  # SET ROLE does not change who acts
            assert ledger.subject == "database role ts_ann"
            ledger.open("ann's").pay(ts.zcdp(rho=0.1), why="her study")
            with pytest.raises(NotAuthorised):
                ledger.open("people").pay(ts.zcdp(rho=0.1), why="her study")
            with pytest.raises(NotAuthorised):
                ledger.team.approve(number, why="it is mine")
            token = ledger.team.make_token(population="people")
            assert ledger.with_token(token.text).principal == ledger.actor
        with Ledger(urls["ts_bob"]) as ledger:
            assert ledger.team.approve(number, why="fine").state == "EXECUTED"
            assert ledger.open("people").limit.a0 == 2 * 10**12
            assert ledger.verify().problems == ()
            assert ledger.verify().not_checked == ()
        with psycopg.connect(team.reader) as reader, pytest.raises(DENIED):
            reader.execute("SELECT body FROM entry_text")
    finally:
        run(team.admin, *[f"DROP ROLE IF EXISTS {name}" for name in people])


def test_a_role_that_may_not_read_all_tables_learns_which_role_may(team):
    with pytest.raises(Unavailable, match=r"permission denied for table secret.*such as ts_keeper"):
        Ledger(team.reader)
    with Ledger(team.keeper) as ledger:
        assert ledger.verify().intact


def test_a_role_that_the_server_does_not_have_is_noticed(team):
    with Ledger(team.keeper) as ledger:
        ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
        ledger.govern(why="a team")
        ledger.team.begin(why="a team")
        found = [ledger.team.lacks_user(name) for name in ("ts_reader", "role:ts_reader", "ts_mistyped", "machine:x")]
        assert found == [False, False, True, False]
