"""Disks fill up, files become read-only, servers go away: nothing is granted and nothing is lost."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3

import pytest

from crash.stores import as_nobody, raised, spend
from tallystick.errors import Unavailable
from tallystick.ledger import Budget, Filter, Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 1000, 0), unit="person")


def run(account, key):
    computed = []
    with spend(account, 1, key=key) as charge:
        computed.append(True)
        charge.answer = "x" * 5000
    return computed


def test_a_full_disk_grants_nothing_and_loses_nothing(path, config):
    """A real one: the kernel refuses to let files of the child grow (EFBIG)."""
    with Ledger(path) as ledger:
        run(people(ledger), "before")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with Ledger(path, config=config) as ledger:
                account = people(ledger)
                size = max(os.path.getsize(path), os.path.getsize(f"{path}-wal")) + 60_000
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
                for number in range(60):
                    os.write(writer, (raised(lambda n=number: run(account, f"k{n}")) + "\n").encode())
            os._exit(0)
        except BaseException as error:
            os.write(writer, f"escaped-{type(error).__name__}\n".encode())
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcomes = pipe.read().split()
    os.waitpid(child, 0)
    assert set(outcomes) == {"ok", "Unavailable"}
    with Ledger(path) as ledger:
        assert ledger.verify().problems == ()
        states = [event.state for event in people(ledger).history()]
        assert states.count("COMMITTED") == 1 + outcomes.count("ok")
        run(people(ledger), "after")


def test_a_database_that_may_not_grow_fails_closed(path):
    with Ledger(path) as ledger:
        account = people(ledger)
        run(account, "before")
        connection = ledger.store._connected()
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        outcomes = [raised(lambda n=n: run(account, f"k{n}")) for n in range(30)]
        assert set(outcomes) == {"ok", "Unavailable"}
        used = account.used.a0
        connection.execute("PRAGMA max_page_count = 1000000")
        assert ledger.verify().problems == ()
        paid = [e for e in account.history() if e.paid]
        assert used == len(paid) == 1 + outcomes.count("ok") + sum(e.state != "COMMITTED" for e in paid)
        run(account, "after")


def test_a_read_only_ledger_can_be_read_but_not_spent(path, config):
    with Ledger(path) as ledger:
        run(people(ledger), "before")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chmod(path, 0o444)
            os.chmod(path.parent, 0o555)
            as_nobody()
            with Ledger(path, config=config) as ledger:
                account = ledger.open("people")
                os.write(writer, f"{account.used.a0} {raised(lambda: run(account, 'k'))}".encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcome = pipe.read()
    os.waitpid(child, 0)
    os.chmod(path.parent, 0o755)
    os.chmod(path, 0o600)
    assert outcome == "1 Unavailable"
    with Ledger(path) as ledger:
        assert people(ledger).used.a0 == 1


class Failing:
    """A connection that fails at the n-th statement with the error of a disk."""

    def __init__(self, connection, after):
        self.connection, self.left = connection, after

    def execute(self, *given):
        self.left -= 1
        if self.left == 0:
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(*given)

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("after", range(1, 20))
def test_an_input_output_error_at_any_statement_fails_closed(path, after):
    with Ledger(path) as ledger:
        account = people(ledger)
        honest = ledger.store._connected()
        ledger.store._connection = Failing(honest, after)
        outcome = raised(lambda: run(account, "k"))
        ledger.store._connection = honest
        assert outcome in ("ok", "Unavailable")
        assert ledger.verify().problems == ()
        states = [event.state for event in account.history()]
        if outcome == "ok":
            assert states == ["COMMITTED"]
        else:
            assert states in ([], ["EXECUTING"], ["BURNED"])
        assert account.used.a0 == len(states)


def test_an_error_while_burning_keeps_the_charge_and_the_first_error(path):
    with Ledger(path) as ledger:
        account = people(ledger)

        def fail():
            with spend(account, 1, key="k"):
                ledger.store._connection = Failing(ledger.store._connected(), 1)
                raise ZeroDivisionError

        assert raised(fail) == "ZeroDivisionError"
        ledger.store._connection = ledger.store._connection.connection
        assert [event.state for event in account.history()] == ["EXECUTING"]
        assert account.used.a0 == 1


def test_a_server_that_goes_away_is_unavailable_and_comes_back(postgres):
    from crash.stores import fresh_schema

    with Ledger(fresh_schema(postgres)) as ledger:
        account = people(ledger)
        backend = ledger.store._connected().info.backend_pid
        import psycopg

        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (backend,))
        assert raised(lambda: run(account, "k")) == "Unavailable"
        run(account, "k")
        assert account.used.a0 == 1
        assert ledger.verify().problems == ()


def test_a_commit_whose_reply_was_lost_is_found_and_not_burned(postgres):
    """The connection breaks after COMMIT was sent: the retry finds its own answer and hands it out once."""
    from crash.stores import fresh_schema

    cut = []

    def probe(point):
        if point == "commit: after COMMIT" and not cut:
            cut.append(point)
            raise Unavailable("the reply was lost")

    with Ledger(fresh_schema(postgres), probe=probe) as ledger:
        account = people(ledger)
        with spend(account, 1, key="k") as charge:
            charge.answer = "once"
        assert cut
        assert charge.answer == "once"
        assert [event.state for event in account.history()] == ["COMMITTED"]
        assert ledger.verify(receipts=(charge.receipt,)).problems == ()


def test_a_connection_cut_before_the_commit_does_not_lose_the_answer(postgres):
    import psycopg

    from crash.stores import fresh_schema

    with Ledger(fresh_schema(postgres)) as ledger:
        account = people(ledger)
        with spend(account, 1, key="k") as charge:
            charge.answer = "kept"
            backend = ledger.store._connected().info.backend_pid
            with psycopg.connect(postgres, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (backend,))
        assert [event.state for event in account.history()] == ["COMMITTED"]


def test_a_server_that_is_not_there_is_unavailable(config):
    with pytest.raises(Unavailable) as caught:
        Ledger("postgresql://ana:secret@127.0.0.1:1/none?connect_timeout=1")
    assert "secret" not in str(caught.value)


def test_a_copy_of_the_file_without_its_log_is_noticed(path, tmp_path):
    """The -wal file holds the newest commits: copying the main file alone is a restored old copy."""
    ledger = Ledger(path)
    run(people(ledger), "one")
    stolen = tmp_path / "copy.db"
    shutil.copyfile(path, stolen)
    outcome = raised(lambda: Ledger(stolen, create=False))
    assert outcome == "LedgerIntegrity"
    ledger.close()
