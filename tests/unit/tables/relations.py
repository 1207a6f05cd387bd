"""All rows of a table after its steps, as the engine has them: what is never handed out, for tests to look at."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp

import tallystick as ts
from tallystick.tables import run
from tallystick.tables.engines.base import Engine
from tallystick.tables.keyset import Upload
from tallystick.tables.program import _Compiler
from tallystick.tables.schema import Schema
from tallystick.tables.sources import open_engine
from tallystick.tables.table import Table

Row = tuple[Any, ...]


class Compiled(NamedTuple):
    """What a table is in SQL."""

    rows: exp.Query
    schema: Schema
    uploads: tuple[tuple[str, Upload], ...]

    @classmethod
    def of(cls, table: Table, engine: Engine) -> Compiled:
        query = table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count_units())
        compiler = _Compiler(query, engine.words, run._stored(query, engine), "", (0, 1))
        return cls(*compiler._steps(), compiler.program().uploads)

    def collected(self, engine: Engine, columns: list[str] | tuple[str, ...]) -> list[Row]:
        """Those columns of every row, in any order of rows."""
        for name, upload in self.uploads:
            engine.forget(name)
            engine.upload(name, upload)
        found = engine.collect(self.rows)
        shown = [name for name, kind in self.schema.columns if kind != "unsupported"]
        return list(zip(*(found[shown.index(name)] for name in columns), strict=True))


def rows_of(table: Table, columns: list[str] | None = None) -> list[Row]:
    """The columns of every row, in any order of rows."""
    with open_engine(table.source) as engine:
        return Compiled.of(table, engine).collected(engine, columns or table.schema.names)
