"""All rows of a table after its steps, as the engine has them: what is never handed out, for tests to look at."""

from __future__ import annotations

from typing import Any

import tallystick as ts
from tallystick.tables.program import _Compiler
from tallystick.tables.sources import open_engine
from tallystick.tables.table import Table

Row = tuple[Any, ...]


def rows_of(table: Table, columns: list[str] | None = None) -> list[Row]:
    """The columns of every row, in any order of rows."""
    query = table.per_unit(max_groups=1, max_rows_per_group=1).agg(n=ts.count_units())
    with open_engine(table.source) as engine:
        compiler = _Compiler(query, engine.words, engine.stored(table.name, table.base), "", (0, 1))
        for name, upload in compiler.program().uploads:
            engine.upload(name, upload)
        rows, schema = compiler._steps()
        found = engine.collect(rows)
    places = [schema.names.index(name) for name in columns or schema.names]
    return list(zip(*(found[place] for place in places), strict=True))
