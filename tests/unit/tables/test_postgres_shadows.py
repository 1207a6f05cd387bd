"""Temporary objects that an earlier user left in a session cannot stand for the catalogue of the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.errors import Refused
from tallystick.tables.engines.postgres import PostgresEngine
from unit.tables.servers import asked, run, schema

psycopg = pytest.importorskip("psycopg")

FEW_CLASSES = "CREATE TEMP VIEW pg_class AS SELECT * FROM pg_catalog.pg_class WHERE relname <> 'whole'"
FEW_SETTINGS = "CREATE TEMP VIEW pg_settings AS SELECT * FROM pg_catalog.pg_settings WHERE false"


@pytest.fixture
def clinic(postgres: str) -> Iterator[str]:
    with schema(postgres) as name:
        run(
            postgres,
            f"CREATE TABLE {name}.whole (who int, ward text)",
            f"CREATE TABLE {name}.part () INHERITS ({name}.whole)",
            f"INSERT INTO {name}.part VALUES (1, 'a long name of a ward')",
        )
        yield name


@contextlib.contextmanager
def engine_after(url: str, *statements: str) -> Iterator[PostgresEngine]:
    """An engine on a session in which an earlier user ran some statements."""
    connection: Any = psycopg.connect(url)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    engine = PostgresEngine(connection)
    try:
        yield engine
    finally:
        engine.close()


def test_a_temporary_pg_class_does_not_hide_the_family_of_a_table(postgres: str, clinic: str) -> None:
    with engine_after(postgres, FEW_CLASSES) as engine:
        assert engine.marks(f"{clinic}.part") == asked(postgres, f"{clinic}.part")
        assert not engine.marks(f"{clinic}.part").isdisjoint(asked(postgres, f"{clinic}.whole"))


def test_a_temporary_pg_settings_does_not_hide_a_changed_setting(postgres: str) -> None:
    with (
        pytest.raises(Refused, match="gin_fuzzy_search_limit"),
        engine_after(postgres, FEW_SETTINGS, "SET gin_fuzzy_search_limit = 5"),
    ):
        pass


def test_a_temporary_domain_does_not_replace_a_type(postgres: str, clinic: str) -> None:
    """A check of a domain called text would fail on some values alone."""
    with engine_after(postgres, "CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (length(VALUE) < 3)") as engine:
        engine.schema(f"{clinic}.part")
        engine.keep("stage", f"SELECT CAST(ward AS TEXT) AS ward FROM {clinic}.part")
        assert engine.collect("SELECT ward FROM stage") == [["a long name of a ward"]]
