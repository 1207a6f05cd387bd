"""The layout of a ledger in PostgreSQL is compared with a shipped digest, by a role that may only read."""

from __future__ import annotations

import contextlib
import json
import time
from importlib import resources

import pytest

import tallystick as ts
from crash.stores import programs, server_of
from tallystick.cli import main
from tallystick.errors import InvalidInput, Refused, TallystickError, Unavailable
from tallystick.ledger import Ledger, layout
from tallystick.ledger import postgres as postgres_store
from tallystick.ledger.store import SCHEMA_VERSION, migrations
from tallystick.place import Place
from unit.tables.servers import database, role, run, with_options

psycopg = pytest.importorskip("psycopg")

READS = ("GRANT USAGE ON SCHEMA public TO {role}", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
MAKE = "PYTHONPATH=src:tests python -m unit.ledger.make_layouts"
SHIPPED = json.loads(resources.files("tallystick.ledger").joinpath("schema", "layouts.json").read_text())

CHANGES = {
    "trigger off": ("ALTER TABLE entry DISABLE TRIGGER entry_dense", "entry_dense"),
    "trigger gone": ("DROP TRIGGER seal_no_change ON seal", "seal_no_change"),
    "trigger added": (
        "CREATE TRIGGER mine BEFORE INSERT ON line FOR EACH ROW EXECUTE FUNCTION tallystick_refuse()",
        "mine",
    ),
    "function": (
        "CREATE OR REPLACE FUNCTION tallystick_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "tallystick_refuse",
    ),
    "rights of a function": ("ALTER FUNCTION tallystick_entry_dense() SECURITY DEFINER", "tallystick_entry_dense"),
    "setting of a function": ("ALTER FUNCTION tallystick_refuse() SET search_path = public", "tallystick_refuse"),
    "constraint": ("ALTER TABLE account DROP CONSTRAINT account_own0_check", "account account_own0_check"),
    "reference": ("ALTER TABLE tag DROP CONSTRAINT tag_charge_id_fkey", "tag tag_charge_id_fkey"),
    "column added": ("ALTER TABLE charge ADD COLUMN more text", "charge more"),
    "column's type": ("ALTER TABLE failure ALTER COLUMN line TYPE varchar(9)", "failure line"),
    "column's default": ("ALTER TABLE account ALTER COLUMN used0 SET DEFAULT 1", "account used0"),
    "index gone": ("DROP INDEX charge_key", "charge_key"),
    "index added": ("CREATE INDEX later ON entry (hash)", "later"),
    "rule": ("CREATE RULE never AS ON INSERT TO answer DO INSTEAD NOTHING", "answer never"),
    "rows that others see": ("ALTER TABLE entry ENABLE ROW LEVEL SECURITY", "entry table"),
    "not written to the log": ("ALTER TABLE failure SET UNLOGGED", "failure table"),
    "rows of a child": ("CREATE TABLE more_failures () INHERITS (failure)", "failure table"),
}


@pytest.fixture
def used(postgres, config):
    """A ledger with a little in it: URL of its owner, and URL of a role that may only read."""
    with database(postgres) as (_, url):
        with Ledger(url) as ledger:
            ledger.open("people", budget=ts.zcdp(rho=1), unit="person").pay(ts.zcdp(rho=0.1), why="x")
        with role(url, *READS) as (_, reads):
            yield url, reads


def report(url):
    with Ledger(url, inspect=True) as ledger:
        return ledger.verify()


def problems(url):
    found = report(url)
    assert found.not_checked == ()
    return found.problems


def test_a_role_that_may_only_read_checks_everything(used):
    _, reads = used
    assert problems(reads) == ()
    with Ledger(reads) as ledger:
        assert ledger.verify().problems == ()
        assert ledger.verify(full=False).problems == ()
        assert ledger.open("people").history()[0].why == "x"
        with pytest.raises(Unavailable, match="permission denied"):
            ledger.open("people").pay(ts.zcdp(rho=0.1), why="y")


def test_nothing_is_built_if_the_digest_is_shipped(used, monkeypatch):
    url, _ = used
    monkeypatch.setattr(layout, "built", None)
    assert problems(url) == ()
    run(url, "CREATE INDEX later ON entry (hash)")
    with Ledger(url, inspect=True) as ledger, pytest.raises(TypeError, match="not callable"):
        ledger.store.layout_problems()


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_object_is_named_to_the_owner_and_noticed_by_a_reader(used, change):
    url, reads = used
    statement, name = CHANGES[change]
    run(url, statement)
    altered = "schema object was altered, added or removed: "
    assert any(problem.startswith(altered + name) for problem in problems(url))
    if change == "rows that others see":
        with pytest.raises(Unavailable, match="row-level security"):
            problems(reads)
    else:
        assert problems(reads) == (f"the layout differs from that of version {SCHEMA_VERSION}",)


def test_a_server_of_another_version_is_compared_with_all_digests(used, monkeypatch):
    """Without a digest for its version a difference means nothing, unless the layout can be built."""
    url, reads = used
    monkeypatch.setattr(layout, "version_of", lambda connection: "99")
    assert problems(url) == problems(reads) == ()
    run(url, "CREATE INDEX later ON entry (hash)")
    assert "later" in problems(url)[0]
    found = report(reads)
    assert found.problems == ()
    assert found.not_checked == ("objects of the schema (this role may not create a schema in the database)",)


def test_a_setting_of_the_role_does_not_change_the_digest(used):
    url = with_options(used[0], options="-cquote_all_identifiers%3Don")
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW quote_all_identifiers").fetchone() == ("on",)
    with Ledger(url, inspect=True) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "built", None)  # the digest is enough
        assert ledger.store.layout_problems() == []


def test_the_digests_are_those_of_the_migrations():
    assert SHIPPED["made_from"] == layout.sources(), f"a migration or a query changed. Run: {MAKE}"
    assert {"15", "16", "18"} <= SHIPPED["digests"].keys()


@pytest.mark.parametrize("program", programs(), ids=str)
def test_every_server_of_this_machine_gives_the_shipped_digest(program):
    with server_of(program) as url:
        made = layout.made([url])
        with psycopg.connect(url) as connection:
            left = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tallystick%'").fetchone()
    [(version, digest)] = made["digests"].items()
    assert SHIPPED["digests"].get(version, digest) == digest, f"Run: {MAKE}"
    assert left == (0,)


def test_a_changed_migration_changes_what_digests_are_made_from(monkeypatch):
    before = layout.sources()
    *first, last = migrations("postgres")
    monkeypatch.setattr(layout, "migrations", lambda dialect: (*first, last._replace(sql=last.sql + "--")))
    assert layout.sources() != before


def test_digests_are_written_for_the_given_servers(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "_folder", lambda: tmp_path)
    layout.main([postgres])
    [version] = (made := json.loads((tmp_path / "layouts.json").read_text()))["digests"]
    assert made == {**SHIPPED, "digests": {version: SHIPPED["digests"][version]}}


@contextlib.contextmanager
def older(url, last):
    """Let this program know the migrations up to a number only."""
    known = tuple(step for step in migrations("postgres") if step.version <= last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_store, "pending", lambda dialect, applied: list(known[len(applied) :]))
        with contextlib.suppress(TallystickError):
            postgres_store.PostgresStore(Place.of(url), create=True).close()
    yield


def test_a_role_without_the_right_cannot_change_an_older_layout(postgres):
    with database(postgres) as (_, url), older(url, 2), role(url, *READS) as (_, reads):
        with pytest.raises(Refused, match="has the layout of an earlier version, and this role may not change it"):
            Ledger(reads)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT max(version) FROM migration").fetchone() == (2,)


def test_a_role_without_the_right_to_create_makes_no_ledger(postgres):
    with database(postgres) as (_, url), role(url) as (_, reads):
        run(url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "GRANT USAGE ON SCHEMA public TO PUBLIC")
        with pytest.raises(InvalidInput, match="a role that may create tables in schema 'public'"):
            Ledger(reads)


QUICKLY = "SET LOCAL lock_timeout = '200ms'"


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(postgres_store, "SETTINGS", (*postgres_store.SETTINGS, QUICKLY))
    monkeypatch.setattr(postgres_store, "OUTSIDE", QUICKLY.replace(" LOCAL", ""))


def test_every_statement_has_a_lock_timeout(used):
    """In transactions that read and write, and outside."""
    url, _ = used
    with Ledger(url) as ledger:
        with ledger.store.read() as transaction:
            shown = [transaction._execute("SHOW lock_timeout").fetchone()]
        with ledger.store.write("look") as transaction:
            shown.append(transaction._execute("SHOW lock_timeout").fetchone())
        shown.append(ledger.store._connected().execute("SHOW lock_timeout").fetchone())
    assert shown == [(postgres_store.PATIENCE,)] * 3


def test_no_setting_is_left_in_a_session_of_a_pool(used, monkeypatch):
    url, _ = used
    monkeypatch.setattr(postgres_store, "SESSION", "SELECT pg_catalog.current_schema(), 0")
    with Ledger(url) as ledger:
        assert ledger.store._connected().execute("SHOW lock_timeout").fetchone() == ("0",)


def test_a_held_lock_ends_a_command_with_exit_9_in_its_time(used, impatient, capsys):
    url, _ = used
    charge = ["charge", "add", "zcdp(rho=0.1)", "--account", "people", "--why", "y", "--ledger", url]
    with psycopg.connect(url) as other:
        other.execute(postgres_store.QUEUE)
        began = time.monotonic()
        assert main(charge) == 9
        assert time.monotonic() - began < 10
        assert "nothing was granted" in capsys.readouterr().err
    assert main(charge) == 0


def test_a_held_lock_ends_a_migration(postgres, impatient):
    with database(postgres) as (_, url), older(url, 2), psycopg.connect(url) as other:
        other.execute(postgres_store.QUEUE)
        with pytest.raises(Unavailable, match="lock timeout"):
            Ledger(url)


def test_a_held_lock_ends_a_check_and_a_purge(used, impatient):
    url, _ = used
    with Ledger(url) as ledger, psycopg.connect(url) as other:
        other.execute("LOCK TABLE entry_text IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="lock timeout"):
            ledger.verify()
        with pytest.raises(Unavailable, match="lock timeout"):
            ledger.purge()
        other.rollback()
        assert ledger.verify().problems == ()
        ledger.purge()


def test_a_purge_by_another_role_is_refused_and_not_skipped(used):
    url, reads = used
    with Ledger(reads) as ledger, pytest.raises(Refused, match="erased texts are still in the files"):
        ledger.purge()
    with Ledger(url) as ledger:
        ledger.purge()
