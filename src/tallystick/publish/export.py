"""Files of a request: saved plans before it, and after its outcome the table, the file about it, and the card.

``Files.check`` is called before anything is charged, ``Files.write`` after it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.errors import InvalidInput, Remedy, TallystickError, Unavailable
from tallystick.place import unreadable
from tallystick.printing import json_text
from tallystick.publish.outcome import not_delivered
from tallystick.publish.request import LONGEST
from tallystick.regular_file import read_bytes, require_writable, write_whole, written_whole
from tallystick.tables.identity import FILE
from tallystick.tables.output import Columns, beside
from tallystick.tables.sources import same_file

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.publish.outcome import Answer, Outcome, Released
    from tallystick.tables.plan import Plan

SCHEMA, VERSION = "tallystick/publish-plan", 1
MODELS = (".json",)
TABLES = (".csv", ".json", ".parquet", ".arrow")
CARDS = (".html", ".htm", ".json")
PICTURES = (".svg", ".png")
ARROW = (".parquet", ".arrow")
BESIDE_LEDGER = ("", "-wal", "-shm", ".gate", ".sync", ".failures")
"""Endings of the files of a ledger."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files that an outcome is written to."""

    out: Path | None = None
    card: Path | None = None
    endings: tuple[str, ...] = TABLES
    """How the name of ``out`` may end."""
    plot: Path | None = None
    """The picture of a suggestion."""

    def check(self, *inputs: Path | str | None) -> None:
        """Refuse files that cannot be written, and ``inputs`` that would be overwritten."""
        if self.out is not None:
            _check_name("out", self.out, self.endings)
        if self.card is not None:
            _check_name("card", self.card, CARDS)
        if self.plot is not None:
            _check_name("plot", self.plot, PICTURES)
        read = [path for path in inputs if path is not None]
        for argument, path in self._written():
            if any(same_file(path, each) for each in read):
                raise InvalidInput(argument, str(path), "another name: this file is read, and would be overwritten")
        for argument, path in self._written():
            named = {"out": self.out, "card": self.card, "plot": self.plot}[argument]
            _check_target(argument, named or path, path)
        self._check_apart()

    def check_in(self, book: Ledger, *inputs: Path | str | None) -> None:
        """Run ``check`` with the file of the ledger and those of every registered dataset."""
        self.check(*inputs, *in_use(book))

    def _written(self) -> Iterator[tuple[str, Path]]:
        """Yield every file that would be written, by the argument that names it."""
        if self.out is not None:
            yield "out", self.out
            if self.out.suffix.lower() != ".json":
                yield "out", beside(self.out)
        if self.card is not None:
            yield "card", self.card
            yield "card", self.card.with_suffix(".json")
        if self.plot is not None:
            yield "plot", self.plot

    def _check_apart(self) -> None:
        if self.out is None or self.card is None:
            return
        tables = [path for argument, path in self._written() if argument == "out"]
        cards = [path for argument, path in self._written() if argument == "card"]
        if any(same_file(table, card) for table in tables for card in cards):
            raise InvalidInput("out", str(self.out), "another name than the card's files")

    def paths(self, outcome: Outcome) -> dict[str, str]:
        """Return the paths of the files that ``write`` writes, by what they hold."""
        if outcome.paid is None:
            return {}
        named = {"out": self.out, "about": self._about(outcome), "card": self.card, "card_data": self._card_data()}
        named["plot"] = self.plot
        return {name: str(path) for name, path in named.items() if path is not None}

    def _card_data(self) -> Path | None:
        """Return the file with the data of a card that is a page; a card in JSON is that file."""
        if self.card is None or self.card.suffix.lower() == ".json":
            return None
        return self.card.with_suffix(".json")

    def _about(self, outcome: Outcome) -> Path | None:
        """Return the file about the columns of a table; JSON has it inside."""
        if self.out is None or outcome.model is not None or self.out.suffix.lower() == ".json":
            return None
        return beside(self.out)

    def write(self, answer: Answer) -> dict[str, str]:
        """Write the files of an answer and return their paths by what they hold.

        An answer that is not written stays in the ledger: ``NotDelivered`` says under which key. A file that fails
        does not keep the others from being written.
        """
        outcome = answer.outcome
        failed: list[TallystickError] = []
        if self.out is not None and outcome.paid is not None:
            with _failures_to(failed, outcome, "out", self.out):
                write_result(self.out, outcome)
        if self.card is not None and outcome.paid is not None:
            with _failures_to(failed, outcome, "card", self.card):
                answer.card().save(self.card)
        if self.plot is not None and outcome.paid is not None:
            with _failures_to(failed, outcome, "plot", self.plot):
                answer.made.save_plot(self.plot)
        if failed:
            raise failed[0]
        return self.paths(outcome)


@contextmanager
def _failures_to(failed: list[TallystickError], outcome: Outcome, argument: str, path: Path) -> Iterator[None]:
    """Add an error to the list that says where the answer is, if writing it fails for any reason."""
    try:
        yield
    except Exception as problem:  # also a mistake of ours: the answer is paid for, and its key must be known
        error = not_delivered(outcome, argument, str(path), problem)
        assert error is not None  # only what is paid for is written
        error.__cause__ = problem
        failed.append(error)


def _check_name(argument: str, path: Path, endings: tuple[str, ...]) -> None:
    """Refuse a name whose ending is not that of a format which can be written."""
    ending = path.suffix.lower()
    if ending not in endings:
        given = "" if path == Path() else str(path)
        raise InvalidInput(argument, given, f"a file name that ends in {' or '.join(endings)}")
    if ending in PICTURES and find_spec("matplotlib") is None:
        remedies = [Remedy("install", packages="'tallystick[plots]'")]
        raise Unavailable("a picture needs matplotlib, which is the extra plots", remedies=remedies)
    if ending in ARROW and find_spec("pyarrow") is None:
        remedies = [Remedy("install", packages="pyarrow")]
        raise Unavailable(f"{path.name} needs pyarrow; .csv and .json do not", remedies=remedies)


def _check_target(argument: str, named: Path, path: Path) -> None:
    """Refuse a file that cannot be written: the one that an argument names, or one that is written beside it."""
    try:
        require_writable(path)
    except OSError as error:
        if path == named:
            raise _unwritable(path, error, argument) from None
        allowed = f"another name: {path.name} is written beside it, and cannot be written ({error.strerror})"
        raise InvalidInput(argument, str(named), allowed) from None


def in_use(book: Ledger) -> list[str]:
    """Return the files of the ledger and of every registered dataset: nothing may be written there."""
    place = book.store.place.path
    used = [] if place is None else [f"{place}{ending}" for ending in BESIDE_LEDGER]
    for dataset in book.datasets().values():
        used += [file for _, file, _ in dataset.tables()]
        used += [mark.removeprefix(FILE) for mark in dataset.marks if mark.startswith(FILE)]
    return used


def check_unused(argument: str, path: Path, book: Ledger) -> None:
    """Refuse to write to a file of the ledger or of a registered dataset."""
    if any(same_file(path, each) for each in in_use(book)):
        raise InvalidInput(argument, str(path), "another name: the ledger or a dataset is in this file")


@dataclass(frozen=True)
class _Table(Columns):
    """A released table with its dates as dates."""

    released: Released

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that name a group."""
        return self.released.groups

    @property
    def counts(self) -> tuple[str, ...]:
        """The columns that are noisy numbers of rows or people."""
        return self.released.counts

    @cached_property
    def data(self) -> dict[str, list[Any]]:
        """The table as columns."""
        released = self.released
        columns: dict[str, list[Any]] = {name: [] for name in released.columns}
        for row in released.rows:
            for name, value in zip(released.columns, row, strict=True):
                is_date = name in released.dates and value is not None
                columns[name].append(datetime.date.fromisoformat(value) if is_date else value)
        return columns


def write_result(out: Path, outcome: Outcome) -> dict[str, str]:
    """Write a model or a table in the format of the file's name, and beside a table the file about it."""
    table = outcome.table
    _check_result(outcome)
    if outcome.model is not None:
        text = json.dumps(outcome.model, indent=1, sort_keys=True)
        return {"out": str(write_text(out, json_text(text) + "\n"))}
    assert table is not None  # checked above
    if out.suffix.lower() == ".json":
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        text = json.dumps({**table.document, "rows": rows}, indent=1)
        return {"out": str(write_text(out, json_text(text) + "\n"))}
    readable = strict_json.written("outcome", "tallystick/outcome")  # refuses columns of mixed types
    with readable, written_whole(out) as new, written_whole(beside(out)) as about:
        _write_columns(new, out.suffix.lower(), _Table(table))
        about.write_text(table.about, encoding="utf-8", newline="")
    return {"out": str(out), "about": str(beside(out))}


def _check_result(outcome: Outcome) -> None:
    """Refuse an outcome that has nothing to write, or whose table is not one. It may come from outside."""
    if outcome.model is not None:
        return
    table = outcome.table
    if table is None:
        raise InvalidInput("outcome", "neither a table nor a model", "an outcome that has one")
    width = len(table.columns)
    if len(set(table.columns)) < width or any(len(row) != width for row in table.rows):
        raise InvalidInput("outcome", "a table of uneven rows", "a table with a value for each of its columns")
    with strict_json.written("outcome", "tallystick/outcome"):
        _Table(table).data  # noqa: B018  # reads its dates


def _write_columns(out: Path, ending: str, table: _Table) -> None:
    writers = {".parquet": table.to_parquet, ".arrow": table.to_arrow_file}
    writers.get(ending, table.to_csv)(out)


def write_text(path: Path, text: str) -> Path:
    """Write a text file as it is, newline for newline."""
    try:
        return write_whole(path, text)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError, argument: str = "out") -> InvalidInput:
    return InvalidInput(argument, str(path), f"a file that can be written ({error.strerror})")


# Saved plans.


def saved(dataset: str, plan: Plan) -> str:
    """Return a plan and the dataset it is about, as the text of a file."""
    data = {"schema": SCHEMA, "version": VERSION, "dataset": dataset, "plan": json.loads(plan.to_json())}
    return json_text(json.dumps(data, indent=1, sort_keys=True)) + "\n"


def read_saved(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the name of the dataset and the plan of a saved file."""
    allowed = "a plan that 'publish plan' saved"
    try:
        text = read_bytes(path)
    except OSError as error:
        raise unreadable("plan", path, error) from None
    data = strict_json.read(text, name="plan", allowed=allowed, longest=LONGEST)
    try:
        if (data["schema"], data["version"]) != (SCHEMA, VERSION):
            raise ValueError
        return str(data["dataset"]), dict(data["plan"])
    except (ValueError, KeyError, TypeError):
        raise InvalidInput("plan", str(path), allowed) from None


def read_plan(path: Path) -> Plan:
    """Return the plan of a saved file, without the account that paid for it."""
    from tallystick.tables.plan import Plan

    return Plan.from_json(json.dumps(read_saved(path)[1]))


def check_plan_file(out: Path | None) -> None:
    """Refuse to write a plan to anything but a new .json file or another plan."""
    if out is None:
        return
    _check_name("out", out, MODELS)
    _check_target("out", out, out)
    if out.exists():
        try:
            read_saved(out)
        except InvalidInput:
            raise InvalidInput("out", str(out), "another name: this file is not a plan, and would be lost") from None
