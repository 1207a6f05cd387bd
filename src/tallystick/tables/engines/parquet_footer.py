"""The footer of a Parquet file: which columns are stored in a way that DuckDB cannot read.

DuckDB finds out when it meets the first value of a column, after the charge; a page of missing values passes. So one
person's value would decide whether a release succeeds. The footer names encoding, codec and encryption of every chunk
and is read before the charge. DuckDB's own ``parquet_metadata`` also reads statistics, and fails at some values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAGIC: Final = b"PAR1"
_END: Final = 8
"""Bytes behind the footer: its length and the magic."""

# Types of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_WIDEST: Final = 63
"""Bits of the longest whole number."""
_FIXED: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
"""Bytes of the types whose length is fixed. As a field, a truth value is in the header of the field."""

# Numbers of fields in parquet.thrift.
_SCHEMA, _ROW_GROUPS = 2, 4
_CHILDREN: Final = 5
_COLUMNS: Final = 1
_METADATA, _CRYPTO, _ENCRYPTED = 3, 8, 9
_TYPE, _ENCODINGS, _CODEC = 1, 2, 4

_INT32, _INT64, _FLOAT, _DOUBLES, _BYTES, _FIXED_BYTES = 1, 2, 4, 5, 6, 7
_ANY: Final = frozenset(range(8))
_READABLE: Final = {
    0: _ANY,  # PLAIN
    2: _ANY,  # PLAIN_DICTIONARY
    3: _ANY,  # RLE, also of levels
    4: _ANY,  # BIT_PACKED, of levels
    5: frozenset({_INT32, _INT64}),  # DELTA_BINARY_PACKED
    6: frozenset({_BYTES}),  # DELTA_LENGTH_BYTE_ARRAY
    7: frozenset({_BYTES, _FIXED_BYTES}),  # DELTA_BYTE_ARRAY
    8: _ANY,  # RLE_DICTIONARY
    9: frozenset({_INT32, _INT64, _FLOAT, _DOUBLES}),  # BYTE_STREAM_SPLIT
}
"""The physical types that DuckDB reads in each encoding."""

_CODECS: Final = frozenset({0, 1, 2, 4, 6, 7})
"""Codecs that DuckDB reads: none, Snappy, gzip, Brotli, Zstandard and LZ4_RAW; not LZO and not the older LZ4."""


def unreadable_columns(path: Path) -> list[bool]:
    """For each column of a Parquet file: is some part of it stored in a way that DuckDB cannot read?

    Raise ``ValueError`` if the file is damaged.
    """
    try:
        return _Footer(_footer(path)).unreadable()
    except (IndexError, RecursionError):
        raise ValueError("the footer is damaged") from None


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _END, 0))
        end = file.read(_END)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or length > size - _END:
            raise ValueError("not a Parquet file")
        file.seek(size - _END - length)
        return file.read(length)


class _Footer:
    """A reader of the structure ``FileMetaData``, from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def unreadable(self) -> list[bool]:
        """For each column: is some chunk of one of its leaves unreadable?"""
        owners: list[int] = []
        bad: set[int] = set()
        for field, kind in self.fields():
            if field == _SCHEMA:
                owners = _owners([self.children() for _ in self.elements()])
            elif field == _ROW_GROUPS:
                bad = {leaf for _ in self.elements() for leaf in self.bad_leaves()}
            else:
                self.skip(kind)
        found = [False] * (owners[-1] + 1 if owners else 0)
        for leaf in bad:
            found[owners[leaf]] = True
        return found

    def children(self) -> int:
        """Number of parts of an element of the schema."""
        number = 0
        for field, kind in self.fields():
            if field == _CHILDREN:
                number = self.integer()
            else:
                self.skip(kind)
        return number

    def bad_leaves(self) -> list[int]:
        """The leaves whose chunks in a row group cannot be read."""
        bad = []
        for field, kind in self.fields():
            if field == _COLUMNS:
                bad = [leaf for leaf in self.elements() if not self.is_readable()]
            else:
                self.skip(kind)
        return bad

    def is_readable(self) -> bool:
        """True if DuckDB can read a chunk."""
        is_plain, has_metadata = True, False
        for field, kind in self.fields():
            if field in (_CRYPTO, _ENCRYPTED):
                is_plain = False
            if field == _METADATA:
                has_metadata = True
                is_plain = self.is_known() and is_plain
            else:
                self.skip(kind)
        return is_plain and has_metadata

    def is_known(self) -> bool:
        """True if the metadata of a chunk name an encoding and a codec that DuckDB can read."""
        physical, codec = -1, -1
        encodings: list[int] = []
        for field, kind in self.fields():
            if field == _TYPE:
                physical = self.integer()
            elif field == _ENCODINGS:
                encodings = [self.integer() for _ in self.elements()]
            elif field == _CODEC:
                codec = self.integer()
            else:
                self.skip(kind)
        nothing: frozenset[int] = frozenset()
        return codec in _CODECS and all(physical in _READABLE.get(each, nothing) for each in encodings)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of a structure; the caller reads or skips the value."""
        number = 0
        while True:
            header = self.data[self.at]
            self.at += 1
            if header == 0:
                return
            number = number + (header >> 4) if header >> 4 else self.integer()
            yield number, header & 15

    def elements(self) -> Iterator[int]:
        """The places of a list; the caller reads each element."""
        size, _ = self.list_header()
        yield from range(size)

    def list_header(self) -> tuple[int, int]:
        header = self.data[self.at]
        self.at += 1
        size = header >> 4
        return self.room_for(self.varint() if size == 15 else size), header & 15

    def room_for(self, size: int) -> int:
        """A number of elements, each of which has a byte at least: a damaged footer can name any number."""
        if size > len(self.data) - self.at:
            raise ValueError("the footer is damaged")
        return size

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > _WIDEST:
                raise ValueError("the footer is damaged")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int) -> None:
        """Go behind a value."""
        if kind in _FIXED:
            self.at += _FIXED[kind]
        elif kind in (_SHORT, _INT, _LONG):
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            size, element = self.list_header()
            self.skip_all([element] * size)
        elif kind == _MAP:
            self.skip_map()
        elif kind == _STRUCT:
            for _, field in self.fields():
                self.skip(field)
        else:
            raise ValueError("an unknown type")

    def skip_map(self) -> None:
        size = self.room_for(self.varint())
        if size == 0:
            return
        kinds = self.data[self.at]
        self.at += 1
        self.skip_all([kinds >> 4, kinds & 15] * size)

    def skip_all(self, kinds: list[int]) -> None:
        """Go behind elements of a list. There a truth value is a byte."""
        for kind in kinds:
            self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)


def _owners(children: list[int]) -> list[int]:
    """The column of each leaf, from the number of parts of every element of the schema.

    >>> _owners([2, 1, 0, 0])
    [0, 1]
    """
    owners = []
    column, left = -1, 0
    for parts in children[1:]:  # the first is the whole table
        if left == 0:
            column += 1
            left = 1
        if parts == 0:
            owners.append(column)
        left += parts - 1
    return owners
