"""The corpus's tables as a catalogue: what a registration would say, over rows in memory."""

from __future__ import annotations

import functools
from typing import Any

from sql.corpus.tables import rows, schema
from tallystick.tables.keyset import PublicTable
from tallystick.tables.schema import Schema
from tallystick.tables.sources import Source
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.steps import EACH_ROW
from tallystick.tables.table import Table


def private_table(name: str, handle: Any = None) -> Table:
    """A private table of the schema; ``handle`` holds its rows where they are to be read."""
    told = schema()["table"][name]
    kinds = {column: said["type"] for column, said in told["columns"].items()}
    columns = Schema.of({column: "unsupported" if kind == "timestamp" else kind for column, kind in kinds.items()})
    unit = EACH_ROW if told["unit"] == "each_row" else told["unit"]
    bounds = {column: tuple(said["bounds"]) for column, said in told["columns"].items() if "bounds" in said}
    table = Table(source=Source("memory", "memory", handle), name=name, schema=columns, unit=unit)
    caps = {"max_groups": told["max_groups"], "max_rows_per_group": told["max_rows_per_group"]}
    return table.bounds(**bounds).per_unit(**caps)


def public_table(name: str) -> PublicTable:
    """A public table of the schema, with its rows."""
    columns = tuple((column, said["type"]) for column, said in schema()["table"][name]["columns"].items())
    return PublicTable(columns, tuple(tuple(row.values()) for row in rows(name)))


@functools.cache
def catalogue() -> Catalogue:
    """Everything that ``schema.toml`` registers."""
    told, price = schema(), schema()["price"]
    private = {}
    for name, table in told["table"].items():
        if not table.get("public"):
            private[name] = Known(
                private_table(name),
                table["population"],
                {column: tuple(said["keys"]) for column, said in table["columns"].items() if "keys" in said},
                told["population"][table["population"]]["key_delta"],
                {"rho": price["default_rho"]},
                {"epsilon": price["highest_epsilon"], "delta": price["highest_delta"]},
            )
    return Catalogue(
        private, {name: public_table(name) for name, table in told["table"].items() if table.get("public")}
    )
