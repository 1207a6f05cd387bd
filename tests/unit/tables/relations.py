"""All rows of a table after its steps, as the engine has them: what is never handed out, for tests to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlglot import exp

import tallystick as ts
from tallystick.tables import run
from tallystick.tables.engines.base import Engine
from tallystick.tables.keyset import Upload
from tallystick.tables.program import _Compiler, uploads
from tallystick.tables.reader import open_engine
from tallystick.tables.schema import Schema
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
        compiler = _Compiler(query, engine.words, run._stored(query, engine), "")
        return cls(*compiler._steps(), tuple(uploads(query)))

    def upload(self, engine: Engine) -> None:
        """The public tables that it is joined with."""
        for name, upload in self.uploads:
            engine.forget(name)
            engine.upload(name, upload)

    def shown(self, rows: list[Row], columns: Sequence[str]) -> list[Row]:
        """Those columns of every row."""
        known = [name for name, kind in self.schema.columns if kind != "unsupported"]
        places = [known.index(name) for name in columns]
        return [tuple(row[place] for place in places) for row in rows]


def rows_of(table: Table, columns: list[str] | None = None) -> list[Row]:
    """The columns of every row, in any order of rows."""
    with open_engine(table.source) as engine:
        compiled = Compiled.of(table, engine)
        compiled.upload(engine)
        rows = list(zip(*engine.collect(engine.words.render(compiled.rows)), strict=True))
    return compiled.shown(rows, columns or table.schema.names)
