"""A CSV file, read once from front to back into a private copy whose every line break is where a record ends.

A file is RFC 4180: a cell that holds a delimiter, a quote or a line break stands in quotes, quotes inside are doubled.
Where records end follows from the bytes before and from nothing else, so what one person wrote into a cell, in quotes
as any writer of CSV puts it, cannot end a record or start another. What is not RFC 4180 costs as little as can be: a
record that is longer than ``LONGEST_RECORD``, is not UTF-8, or holds a NUL is dropped; where a quote is not closed, or
text follows one that is, only the line on which that record begins is dropped, and not the lines after it. (A writer
that does not quote at all lets people write whole lines, or open a quote that another person's text, if that
begins with a delimiter or a line break, happens to close; no reader can tell such a file from a true one.)
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tallystick.errors import InvalidInput
from tallystick.tables.files import OpenFile
from tallystick.tables.forms import delimiter
from tallystick.tables.scratch import Scratch

LONGEST_HEADER = 1 << 20
LONGEST_RECORD = 1 << 20
_BLOCK = 4 << 20
_MARK = "\ufeff".encode()
"""DuckDB leaves out a byte order mark that a file begins with. Ours is that one, so that one in a record is data."""


def header(file: BinaryIO, place: str) -> list[str]:
    """The names on the first line: the only part of a file that is read before a charge, and declared public."""
    wish = "a readable CSV file in UTF-8 with a header line"
    try:
        line = file.readline(LONGEST_HEADER)  # bytes: decoding more than this line would look at data
        names = next(csv.reader([line.decode("utf-8-sig")], delimiter=delimiter(place), strict=True), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidInput("source", place, wish) from None
    if not names:
        raise InvalidInput("source", place, wish)
    return names


def private_copy(raw: Path, place: str, copy: Path) -> list[str]:
    """Write the well-formed records of a private snapshot to ``copy``; the names in its header.

    ``place`` is the name that the file was given by. The snapshot is removed.
    """
    with raw.open("rb+") as whole, _own(copy) as out:
        raw.unlink()  # the open file stays until it is closed, and no other process can open it
        names = header(whole, place)
        start = whole.tell()
        out.write(_MARK)
        if whole.seek(0, os.SEEK_END) == start:
            out.truncate()
            return names
        whole.seek(-1, os.SEEK_END)
        if whole.read(1) != b"\n":
            whole.write(b"\n")
        whole.flush()
        with mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for piece in _records(text, delimiter(place).encode(), start):
                out.write(piece)
        out.truncate()  # room that was reserved and is not needed
    return names


def reserve(copy: Path, size: int) -> None:
    """Make the file of the records with room for ``size`` bytes, so that a full disk is met before the charge.

    Records are as long as in the file, but for those with a quote inside a bare cell, which is not RFC 4180.
    """
    with open(copy, "xb", opener=_owned) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)


def line_ends(copy: Path) -> int:
    """Number of line breaks in a private copy: at least as many as records, and more where cells hold some."""
    with copy.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))


@contextlib.contextmanager
def records(file: OpenFile) -> Iterator[Iterator[list[str]]]:
    """The cells of every well-formed record, the names of the header first; no record can fail the reading."""
    csv.field_size_limit(2 * LONGEST_RECORD)
    with contextlib.closing(Scratch()) as folder:
        copy = folder.path / "rows.csv"
        names = private_copy(file.copy(folder.path / "raw"), file.path, copy)
        with copy.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, delimiter=delimiter(file.path))
            yield itertools.chain([names], reader)


def _own(path: Path) -> BinaryIO:
    """A file that only this user can open: the reserved one, or a new one."""
    return open(path, "rb+" if path.exists() else "xb+", opener=_owned)


def _owned(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _records(text: mmap.mmap, comma: bytes, start: int) -> Iterator[bytes]:
    """Well-formed records from ``start`` on, in pieces of whole records; each ends with a line feed."""
    strict, loose, cell = _patterns(comma)
    at, end = start, len(text)
    while at < end:
        block = text[at : at + _BLOCK]
        cut = block.rfind(b"\n") + 1
        if b'"' not in block and cut:
            yield _lines(block[:cut])
            at += cut
            continue
        stop, fields = min(end, at + _BLOCK), []
        while at < stop:
            match = strict.match(text, at) or loose.match(text, at)
            if match is None:
                at = text.find(b"\n", at) + 1
                continue
            if match.end() - at <= LONGEST_RECORD:
                body = match.group().removesuffix(b"\n").removesuffix(b"\r")
                fields.append(body if match.re is strict else _requoted(body, cell, comma))
            at = match.end()
        yield _readable(fields)


def _patterns(comma: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """A record, one whose bare cells may hold quotes, and a cell of such a one."""
    quoted = rb'"(?:[^"]++|"")*+"'
    bare, loose = rb'[^"\r\n' + comma + rb"]*+", rb'(?:[^"\r\n' + comma + rb"][^\r\n" + comma + rb"]*+)?+"
    cells = [rb"(?:" + quoted + rb"|" + kind + rb")" for kind in (bare, loose)]
    records = [re.compile(cell + rb"(?:" + comma + cell + rb")*+\r?\n") for cell in cells]
    return records[0], records[1], re.compile(cells[1])


def _requoted(body: bytes, cell: re.Pattern[bytes], comma: bytes) -> bytes:
    """Return the record with all bare cells in quotes."""
    pieces, at = [], 0
    while at <= len(body):
        match = cell.match(body, at)
        assert match is not None  # the record is made of cells
        quoted = match.group()
        pieces.append(quoted if quoted.startswith(b'"') else b'"' + quoted.replace(b'"', b'""') + b'"')
        at = match.end() + 1
    return comma.join(pieces)


def _lines(lines: bytes) -> bytes:
    """Lines without quotes; nearly always as they are."""
    lines = lines.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == ord("\n"))
    if b"\r" not in lines and np.diff(ends, prepend=-1).max() <= LONGEST_RECORD and _text(lines):
        return lines
    return _readable([line for line in lines.split(b"\n")[:-1] if len(line) < LONGEST_RECORD and b"\r" not in line])


def _readable(records: list[bytes]) -> bytes:
    """The records that are text, a line feed after each."""
    joined = b"".join(record + b"\n" for record in records)
    return joined if _text(joined) else b"".join(record + b"\n" for record in records if _text(record))


def _text(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in cell
