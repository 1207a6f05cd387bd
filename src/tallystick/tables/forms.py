"""Form of a file: how its bytes become rows. The ending of a name says it, and a registration keeps it.

The bytes of one text file are other rows if they are read with another delimiter. So a registered file is read in its
registered form, also through a link whose name has another ending.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

KINDS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".db": "duckdb",
}
"""The kind of a file, by the ending of its name."""

TABS: Final = "tsv"
_TEXT: Final = ("csv", TABS)
ENDINGS: Final = {"csv": ".csv", TABS: ".tsv", "parquet": ".parquet", "duckdb": ".duckdb"}
"""The ending that names a form in messages."""


def kind_of(place: str) -> str | None:
    """The kind of a file; None if its name has another ending.

    >>> kind_of("Visits.TSV"), kind_of("visits.txt")
    ('csv', None)
    """
    return KINDS.get(Path(place).suffix.lower())


def delimiter(place: str) -> str:
    """A tab in .tsv files, a comma elsewhere.

    >>> delimiter("visits.csv")
    ','
    """
    return "\t" if place.lower().endswith(".tsv") else ","


def form_of(kind: str, place: str) -> str:
    """The form of a file of a kind: text with tabs is another form than text with commas.

    >>> form_of("csv", "visits.tsv"), form_of("parquet", "visits.pq")
    ('tsv', 'parquet')
    """
    return TABS if kind == "csv" and delimiter(place) == "\t" else kind


def may_read(form: str, registered: str) -> bool:
    """True if a file may be read in a form, by the form of its registration.

    A folder of Spark does not say how its text files are written. Parquet and DuckDB files say it themselves. A program
    may register a path without a known ending (form ""): as text it has commas.

    >>> may_read("tsv", "csv"), may_read("parquet", "spark"), may_read("csv", "")
    (False, True, True)
    """
    if registered in ENDINGS:
        return form == registered
    return form not in _TEXT if registered else form != TABS
