"""Parquet files at which Spark fails at no value. Their footers are read before the charge.

Spark looks into a file when it reads rows of it: after the charge, and only if it needs the file. It also believes a
text in the footer that names the columns of the table. So every file of a table is looked at here. A file is refused
unless each column that a release can read has the type of the table, and a codec and encodings that Spark always has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tallystick.errors import Refused
from tallystick.tables.engines.parquet_footer import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    END,
    FIXED_BYTES,
    FLOAT,
    INT32,
    INT64,
    INT96,
    Column,
    Footer,
    footer_of,
    length_of,
    read_footer,
)
from tallystick.tables.schema import UNSUPPORTED, family

_STORED_AS: Final[Mapping[str, frozenset[tuple[int, str]]]] = {
    "boolean": frozenset({(BOOLEAN, "")}),
    "tinyint": frozenset({(INT32, "int8")}),
    "smallint": frozenset({(INT32, "int16"), (INT32, "uint8")}),
    "int": frozenset({(INT32, ""), (INT32, "int32"), (INT32, "uint16")}),
    "bigint": frozenset({(INT64, ""), (INT64, "int64"), (INT32, "uint32")}),
    "float": frozenset({(FLOAT, "")}),
    "double": frozenset({(DOUBLE, "")}),
    "string": frozenset({(BYTES, ""), (BYTES, "text")}),
    "date": frozenset({(INT32, "date")}),
    "timestamp": frozenset({(INT64, "microseconds"), (INT96, "")}),
    "timestamp_ntz": frozenset({(INT64, "microseconds")}),
    "decimal(20,0)": frozenset({(INT64, "uint64")}),
}
"""The physical types and meanings in which Spark's reader of rows fails at no value, for each type of a table."""
_DECIMALS: Final = frozenset({INT32, INT64, BYTES, FIXED_BYTES})
_AT_ONCE: Final = 16
"""Footers of a remote store that are read at the same time."""
_FAR: Final = ("milliseconds", "nanoseconds")
_EMPTY: Final = Footer([], is_encrypted=False)
"""Spark does not read a file without bytes."""
_MOST_SCHEMAS: Final = 100
"""Different schemas of the files of one table. One row of a file of each is read before the charge."""


def refuse_unreadable(files: Sequence[str], columns: Mapping[str, str], configuration: Any, java: Any) -> list[str]:
    """Refuse files at which Spark could fail. Return one file of each schema among those that have bytes.

    ``files`` are the URIs that Spark lists. ``columns`` are the types of the table's columns in files.
    ``configuration`` is Hadoop's, under which Spark reads them.
    """
    wanted = {name.lower(): kind for name, kind in columns.items() if family(kind) != UNSUPPORTED}

    def look(file: str) -> str:
        footer = _footer(file, configuration, java)
        _refuse_file(footer, wanted)
        return footer.schema

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        schemas = list(pool.map(look, files))
    examples = dict(zip(schemas, files, strict=True))
    examples.pop(_EMPTY.schema, None)
    if len(examples) > _MOST_SCHEMAS:
        raise Refused(
            f"the files of this table have {len(examples)} different schemas, and at most {_MOST_SCHEMAS} are read. "
            "Write the table again"
        )
    return list(examples.values())


def _footer(file: str, configuration: Any, java: Any) -> Footer:
    """Read the footer of a local file, or of a file of another store through Hadoop."""
    uri = urlsplit(file)
    try:
        if (uri.scheme or "file") == "file":
            path = Path(unquote(uri.path))
            return footer_of(path) if path.stat().st_size else _EMPTY
        return _remote_footer(java.org.apache.hadoop.fs.Path(java.java.net.URI(file)), configuration)
    except ValueError:
        raise Refused("a file of this table is not a Parquet file, or is damaged. Write the table again") from None


def _remote_footer(path: Any, configuration: Any) -> Footer:
    system = path.getFileSystem(configuration)
    size = int(system.getFileStatus(path).getLen())
    if size == 0:
        return _EMPTY
    stream = system.open(path)
    try:
        stream.seek(max(size - END, 0))
        length = length_of(bytes(stream.readNBytes(END)), size)
        stream.seek(size - END - length)
        return read_footer(bytes(stream.readNBytes(length)))
    finally:
        stream.close()


def _refuse_file(footer: Footer, wanted: Mapping[str, str]) -> None:
    """Refuse one file by its footer. A column that it does not have is missing in its rows."""
    if footer.is_encrypted:
        raise Refused("a file of this table is encrypted. Write the table without encryption")
    found = {column.name.lower(): column for column in footer.columns}
    if len(found) < len(footer.columns):
        raise Refused("a file of this table has two columns whose names differ only by case. Rename one of them")
    for name, kind in wanted.items():
        if name in found:
            _refuse_column(found[name], kind)


def _refuse_column(column: Column, kind: str) -> None:
    """Refuse a column whose type is not the one of the table, or whose values Spark may not be able to decode."""
    if not _is_stored_as(column, kind):
        far = column.meaning in _FAR and kind.startswith("timestamp")
        remedy = f"Write its times in microseconds, not in {column.meaning}" if far else "Write the table with one type"
        raise Refused(f"column {column.name!r} is {kind} in this table, and a file has another type for it. {remedy}")
    if not all(chunk.is_common for chunk in column.chunks):
        raise Refused(
            f"a file of this table stores column {column.name!r} with a codec or an encoding that some versions of "
            "Spark cannot read. Write the table with Spark. With other writers, choose the codec Snappy, gzip or "
            "Zstandard, and do not choose BYTE_STREAM_SPLIT"
        )


def _is_stored_as(column: Column, kind: str) -> bool:
    """True if Spark reads every value of a column as a type.

    >>> _is_stored_as(Column("day", INT32, "date", []), "date"), _is_stored_as(Column("n", INT32, "", []), "bigint")
    (True, False)
    """
    if kind.startswith("decimal") and column.meaning == kind:
        return column.physical in _DECIMALS
    return (column.physical, column.meaning) in _STORED_AS.get(kind, ())
