"""A table of a server is recognised under every name, before the charge: who pays, the least price, the closing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import tallystick as ts
from tallystick.errors import Refused, TallystickError, Unavailable
from tallystick.ledger.account import Account
from tallystick.publish.datasets import Dataset, identified, register
from tallystick.tables import run
from unit.tables import servers

PEOPLE = 40


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[ts.Ledger]:
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as book:
        yield book


@pytest.fixture
def clinic(postgres: str) -> Iterator[str]:
    """A schema with a table of people, its partitions, and a view of it."""
    with servers.schema(postgres) as name:
        servers.run(
            postgres,
            f"CREATE TABLE {name}.visits (who bigint, year int) PARTITION BY RANGE (year)",
            f"CREATE TABLE {name}.old PARTITION OF {name}.visits FOR VALUES FROM (0) TO (2020)",
            f"CREATE TABLE {name}.new PARTITION OF {name}.visits FOR VALUES FROM (2020) TO (3000)",
            f"INSERT INTO {name}.visits SELECT i, 2000 + i FROM generate_series(1, {PEOPLE}) i",
            f"CREATE VIEW {name}.seen AS SELECT who, year FROM {name}.visits",
            f"CREATE TABLE {name}.apart AS SELECT 1::bigint AS who, 1 AS year",
        )
        yield name


def table(url: str, name: str, account: Account | None) -> Any:
    return ts.Private(url, account=account).table(name, unit="who").per_unit(max_rows_per_group=1)


def ask(url: str, name: str, account: Account, rho: float = 0.1) -> Any:
    return table(url, name, account).agg(n=ts.count()).plan(rho=rho).release(why="x")


@pytest.fixture
def owner(ledger: ts.Ledger, postgres: str, clinic: str) -> Account:
    owner = ledger.open("clinic", budget=ts.zcdp(rho=10), unit="who")
    asked = table(postgres, f"{clinic}.visits", owner)
    register(Dataset("people", "clinic", asked.to_data(), identity=identified(asked)), owner)
    return owner


def second_names(postgres: str, clinic: str) -> dict[str, tuple[str, str]]:
    """URLs and names that lead to the registered rows."""
    path = servers.with_options(postgres, options=f"-csearch_path%3D{clinic}")
    return {
        "search path": (path, "visits"),
        "application": (servers.with_options(postgres, application_name="other"), f"{clinic}.visits"),
        "partition": (postgres, f"{clinic}.old"),
        "partition by path": (path, "new"),
    }


@pytest.mark.parametrize("how", ["search path", "application", "partition", "partition by path"])
def test_a_second_name_of_a_registered_table_is_the_registered_table(
    how: str, postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    url, name = second_names(postgres, clinic)[how]
    own = ledger.open("own", budget=ts.zcdp(rho=10), unit="who")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        ask(url, name, own)
    assert own.history() == []
    assert ask(url, name, owner).fresh


def test_other_addresses_of_a_server_are_the_same_server(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    own = ledger.open("own", budget=ts.zcdp(rho=10), unit="who")
    user = urlsplit(postgres).username or "postgres"
    database = urlsplit(postgres).path
    with servers.port_of(postgres) as port:
        for host in ("127.0.0.1", "127.1", "localhost"):
            url = f"postgresql://{user}@{host}:{port}{database}"
            with pytest.raises(Refused, match="belongs to population 'clinic'"):
                ask(url, f"{clinic}.visits", own)
    assert own.history() == []


def test_a_table_that_was_dropped_and_restored_is_still_the_registered_one(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    servers.run(
        postgres,
        f"DROP TABLE {clinic}.visits CASCADE",
        f"CREATE TABLE {clinic}.visits AS SELECT i::bigint AS who, 2000 AS year FROM generate_series(1, 9) i",
    )
    own = ledger.open("own", budget=ts.zcdp(rho=10), unit="who")
    path = servers.with_options(postgres, options=f"-csearch_path%3D{clinic}")
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        ask(path, "visits", own)


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_a_table_of_another_role_at_a_free_name_is_not_the_registered_one(
    kind: str, postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    """A role that may create tables answered for the dataset with made-up rows."""
    servers.run(postgres, f"ALTER TABLE {clinic}.visits RENAME TO kept")
    with servers.role(postgres, f"GRANT CREATE, USAGE ON SCHEMA {clinic} TO {{role}}") as (_, url):
        made_up = "SELECT i::bigint AS who, 2000 AS year FROM generate_series(1, 9) i"
        servers.run(url, f"CREATE {kind} {clinic}.visits AS {made_up}")
        with pytest.raises(Refused, match="leads to another table now") as raised:
            ask(postgres, f"{clinic}.visits", owner)
        assert "Spark" not in str(raised.value)
        assert owner.history() == []
    assert ask(postgres, f"{clinic}.kept", owner).fresh


def test_a_registration_without_an_owner_is_recognised_by_its_name(
    postgres: str, clinic: str, ledger: ts.Ledger
) -> None:
    """As in version 0.1.0."""
    clinic_account = ledger.open("clinic", budget=ts.zcdp(rho=10), unit="who")
    found = identified(table(postgres, f"{clinic}.apart", clinic_account))
    marks = [mark for mark in found.all_marks if not mark.startswith("owner ")]
    clinic_account.register("apart", source=found.name, marks=marks)
    servers.run(postgres, f"ALTER TABLE {clinic}.apart RENAME TO kept")
    with servers.role(postgres, f"GRANT CREATE, USAGE ON SCHEMA {clinic} TO {{role}}") as (_, url):
        servers.run(url, f"CREATE TABLE {clinic}.apart AS SELECT 1::bigint AS who, 1 AS year")
        assert ask(postgres, f"{clinic}.apart", clinic_account).fresh


def test_a_table_that_changed_its_owner_is_still_the_registered_one(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    with servers.role(postgres) as (name, _):
        servers.run(postgres, f"ALTER TABLE {clinic}.visits OWNER TO {name}")
        assert ask(postgres, f"{clinic}.visits", owner).fresh


def test_a_view_is_refused_until_it_is_registered(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    other = ledger.open("other", budget=ts.zcdp(rho=10), unit="who")
    for account in (owner, other):
        with pytest.raises(Refused, match="'people', under another name"):
            ask(postgres, f"{clinic}.seen", account)
    view = table(postgres, f"{clinic}.seen", owner)
    register(Dataset("seen", "clinic", view.to_data(), identity=identified(view)), owner)
    assert ask(postgres, f"{clinic}.seen", owner).fresh
    with pytest.raises(Refused, match="belongs to population 'clinic'"):
        ask(postgres, f"{clinic}.seen", other)


def test_a_view_of_another_population_over_registered_rows_is_refused(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    other = ledger.open("other", budget=ts.zcdp(rho=10), unit="who")
    view = table(postgres, f"{clinic}.seen", other)
    with pytest.raises(Refused, match="under population 'clinic'"):
        register(Dataset("seen", "other", view.to_data(), identity=identified(view)), other)


def test_a_view_over_a_function_cannot_be_identified(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    servers.run(
        postgres,
        f"CREATE FUNCTION {clinic}.f() RETURNS SETOF {clinic}.visits LANGUAGE sql AS 'SELECT * FROM {clinic}.visits'",
        f"CREATE VIEW {clinic}.hidden AS SELECT who, year FROM {clinic}.f()",
    )
    own = ledger.open("own", budget=ts.zcdp(rho=10), unit="who")
    with pytest.raises(Refused, match=r"cannot be identified|under another name"):
        ask(postgres, f"{clinic}.hidden", own)
    assert own.history() == []


def test_an_unregistered_table_beside_it_can_be_asked(
    postgres: str, clinic: str, ledger: ts.Ledger, owner: Account
) -> None:
    own = ledger.open("own", budget=ts.zcdp(rho=10), unit="who")
    assert ask(postgres, f"{clinic}.apart", own).fresh


def test_a_failure_closes_a_table_under_all_its_names(
    postgres: str, clinic: str, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(run, "_integers", broken)
        with pytest.raises(Unavailable):
            ask(postgres, f"{clinic}.visits", owner)
    for url, name in second_names(postgres, clinic).values():
        with pytest.raises(TallystickError, match="closed"):
            ask(url, name, owner)


def test_the_rows_are_those_of_the_moment_before_the_charge(
    postgres: str, clinic: str, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction identifies the table, waits for the charge, and reads: later rows and renames do not count."""
    integers = run._integers

    def after(*given: Any) -> Any:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"INSERT INTO {clinic}.visits SELECT i, 2000 FROM generate_series(1000, 3000) i")
            connection.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute(f"ALTER TABLE {clinic}.visits RENAME TO gone")
        return integers(*given)

    monkeypatch.setattr(run, "_integers", after)
    assert abs(ask(postgres, f"{clinic}.visits", owner, rho=5).rows[0]["n"] - PEOPLE) < 15


def test_a_limit_on_time_does_not_end_a_release_after_its_charge(
    postgres: str, clinic: str, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every timeout of the role is lifted in the transaction, whatever the charge takes in between."""
    rights = f"GRANT USAGE ON SCHEMA {clinic} TO {{role}}", f"GRANT SELECT ON ALL TABLES IN SCHEMA {clinic} TO {{role}}"
    with servers.role(postgres, *rights) as (name, url):
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"):
            servers.run(postgres, f"ALTER ROLE {name} SET {setting} = 300")
        integers = run._integers

        def slow(*given: Any) -> Any:
            time.sleep(0.7)
            return integers(*given)

        monkeypatch.setattr(run, "_integers", slow)
        assert ask(url, f"{clinic}.visits", owner).fresh
