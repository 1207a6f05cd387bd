"""Which datasets a ledger knows, and what is public about each.

The ledger itself records that a dataset belongs to a population. The rest is where the data lies, its schema, unit,
caps and bounds, and the answers to what only a person can say; no data and no password. For a ledger in a file it is
kept in a small JSON file beside it; in a PostgreSQL ledger it is a note in the record, so every machine sees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.place import place_of
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused

if TYPE_CHECKING:
    from tallystick.ledger import Account, Ledger
    from tallystick.tables.table import Table

FORMAT = "tallystick/datasets/1"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table under a population."""

    name: str
    population: str
    table: Mapping[str, Any]
    about: Mapping[str, str] = field(default_factory=dict)

    def opened(self, account: Account | None = None) -> Table:
        """The table as a question can be asked of it; its file is not opened."""
        from tallystick.tables.table import Table

        return Table.from_json(json.dumps(self.table), account=account)

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"population": self.population, "table": dict(self.table), "about": dict(self.about)}


def file_beside(ledger: str | None) -> Path:
    """Where the datasets of a ledger in a file are kept.

    >>> str(file_beside("team.db"))
    'team.db.datasets.json'
    """
    return Path(place_of(ledger) + ".datasets.json")


def known(ledger: str | None) -> dict[str, Dataset]:
    """Every registered dataset, by name."""
    if "://" in place_of(ledger):
        return _noted(ledger)
    path = file_beside(ledger)
    if not path.exists():
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["format"] != FORMAT:
            raise ValueError
        return {
            name: Dataset(name, each["population"], each["table"], each["about"])
            for name, each in held["datasets"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise LedgerIntegrity(f"{path} cannot be read; add the datasets again: tallystick dataset add ...") from None


def _noted(ledger: str | None) -> dict[str, Dataset]:
    from tallystick.ledger import Ledger, notes

    found = {}
    try:
        with Ledger(place_of(ledger), create=False, principal=notes.PRINCIPAL) as book:
            for name in book.datasets():
                held = notes.newest(book, f"dataset {name}")
                if held is not None:  # attached by a program, not by 'dataset add'
                    found[name] = Dataset(name, held["population"], held["table"], held["about"])
    except InvalidInput:  # no ledger there yet: what opens it for good says so
        return {}
    except (KeyError, TypeError, AttributeError):
        raise LedgerIntegrity("a dataset's note cannot be read; run: tallystick ledger verify") from None
    return found


def find(name: str, ledger: str | None) -> Dataset:
    """A dataset by name, or an error that lists those there are."""
    datasets = known(ledger)
    if name not in datasets:
        listed = ", ".join(sorted(datasets)) or "none yet; tallystick dataset add FILE ..."
        raise InvalidInput("dataset", name, f"one of: {listed}")
    return datasets[name]


def account_of(dataset: Dataset, book: Ledger) -> Account:
    """The account that pays for a dataset; the ledger's own record decides."""
    recorded = book.datasets().get(dataset.name)
    if recorded != dataset.population:
        raise LedgerIntegrity(
            f"the ledger has dataset {dataset.name!r} under {recorded!r}, its registration under "
            f"{dataset.population!r}; this is another ledger, or the registration was edited"
        )
    return book.open(dataset.population)


def check_new(dataset: Dataset, ledger: str | None, *, update: bool) -> None:
    """A name is registered once; caps, bounds and place may be updated on request, whom it protects may not."""
    found = known(ledger).get(dataset.name)
    if found is None or found.to_data() == dataset.to_data():
        return
    if (found.population, found.table["unit"], found.table["adjacency"]) != (
        dataset.population,
        dataset.table["unit"],
        dataset.table["adjacency"],
    ):
        raise Refused(
            f"dataset {dataset.name!r} is registered under population {found.population!r} with unit "
            f"{found.table['unit']!r}; whom it protects does not change. Works: another --name"
        )
    if not update:
        raise InvalidInput("dataset", dataset.name, "a new --name, or --update to change caps, bounds or place")


def keep(dataset: Dataset, ledger: str | None) -> None:
    """Write a dataset down, whole or not at all; two who write at once take turns."""
    if "://" in place_of(ledger):
        from tallystick.ledger import Ledger, notes

        with Ledger(place_of(ledger), create=False, principal=notes.PRINCIPAL) as book:
            account = book.open(dataset.population)
            note = json.loads(json.dumps(dataset.to_data()))
            notes.write(account, f"dataset {dataset.name}", note, why=f"registered dataset {dataset.name}")
        return
    path = file_beside(ledger).absolute()
    try:
        with _turn(path.parent):
            everything = {**known(ledger), dataset.name: dataset}
            told = {"format": FORMAT, "datasets": {name: each.to_data() for name, each in sorted(everything.items())}}
            draft = path.with_name(path.name + ".new")
            draft.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
            draft.replace(path)
    except OSError as error:
        raise InvalidInput("ledger", str(path), f"a folder that can be written ({error.strerror})") from None


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """A lock on the folder: it leaves no file behind and ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
