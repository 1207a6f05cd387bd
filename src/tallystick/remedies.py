"""Remedies: what a caller can do about an error, as data that every interface words for itself.

A remedy is a kind and its facts. Facts are JSON values: numbers, texts, lists. No fact is a sentence, an option of the
command line or a value read from private data. ``wording.py`` has the words of Python and of SQL, ``cli/wording.py``
those of the shell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # A denied charge: each of these fits what is left.
        "lower_price": (
            "argument",
            "value",
        ),  # also: measure, errors; more; in_statement; estimator, the function or class that takes the argument
        "keep_measures": ("measures", "dropped"),  # also: argument, value
        "lower_max_groups": ("max_groups",),  # also: argument, value, unit
        "change_delta": ("delta", "cost"),
        "add_noise": ("mechanism", "parameter", "value", "adjacency", "error", "unit"),  # also: group
        "lower_loss": ("loss",),
        # also: others, which are accounts with their limits; allowances, which are names of accounts; delta, has_ledger
        "raise_limit": ("account", "budget"),
        # An argument that is missing or has another value.
        "set_argument": ("argument", "value"),  # also: more, arguments that it needs beside it; in_statement
        "mean_pure": ("epsilon", "cost", "share"),
        "give_delta": ("epsilon", "delta", "cost"),  # also: estimator, whose constructor takes the delta
        "round_up": ("value",),
        # What is public about a table.
        "list_keys": (),  # also: argument, value
        "find_keys": ("delta",),  # also: argument, value
        "declare_caps": ("caps",),
        "declare_bounds": ("column", "lower", "upper"),
        "declare_type": ("column", "type"),  # also: lower, upper, an example of bounds
        "name_public_table": (),
        "pass_frame": (),
        "join_on_unit": (),
        "update_table": (),
        "move_source": ("dataset",),
        "add_dataset": (),
        "show_datasets": (),  # also: dataset, of which the columns are meant
        "state_decisions": ("answers",),
        # Accounts, answers and the ledger.
        "open_account": ("account", "budget"),
        "reopen_account": ("account",),
        "clear_failure": ("charge",),
        "retire_dataset": ("dataset",),
        "make_request": (),  # the same action, asked of those who approve
        "give_role": ("name",),
        "show_members": (),
        "reuse_key": ("key",),
        "write_again": ("key", "argument"),  # argument: out, card or stdout, which could not be written
        "verify_ledger": (),
        "create_ledger": ("place",),
        "start_again": ("place",),
        "accept_head": (),
        "accept_first_use": (),
        "accept_older": (),
        "import_older": (),
        # Names, words of a statement and programs, which are the same in every interface.
        "rewrite": ("to",),
        "install": ("packages",),
    }
)
"""Every kind of remedy with the facts that it always has."""
OF_DATASET: Final = frozenset(
    (
        "lower_max_groups",
        "declare_caps",
        "declare_bounds",
        "declare_type",
        "update_table",
        "state_decisions",
        "clear_failure",
    )
)
"""Kinds that change a registered dataset, whose name is the fact ``dataset`` where it is known."""

TEXTS: Final = frozenset(
    (
        *("account", "adjacency", "argument", "budget", "column", "cost", "dataset", "key", "loss", "measure"),
        *("estimator", "mechanism", "name", "packages", "parameter", "place", "share", "to", "type", "unit"),
    )
)
"""Facts that are texts; like the following, only remedies from outside are checked."""
NUMBERS: Final = frozenset(("charge", "delta", "dropped", "epsilon", "error", "group", "lower", "max_groups", "upper"))
LISTS: Final = frozenset(("caps", "measures"))
"""Facts that are lists of texts."""
OBJECTS: Final = frozenset(("answers", "more"))


DEEPEST: Final = 20
"""Levels of lists and objects in data from outside; an error or a remedy has fewer than ten."""


def is_plain(value: Any, deepest: int = DEEPEST) -> bool:
    """True for JSON data: finite numbers, whole numbers of 64 bits, and at most ``deepest`` levels of nesting.

    >>> is_plain({"value": [1, None, "text"]}), is_plain(float("nan")), is_plain([[[]]], deepest=2)
    (True, False, False)
    """
    if value is None or isinstance(value, str | bool):
        return True
    if isinstance(value, int | float):
        return _is_number(value)
    if not isinstance(value, list | tuple | Mapping) or deepest == 0:
        return False
    if not isinstance(value, Mapping):
        return all(is_plain(each, deepest - 1) for each in value)
    has_names = all(isinstance(name, str) for name in value)
    return has_names and all(is_plain(each, deepest - 1) for each in value.values())


def _is_number(value: Any) -> bool:
    """True for a finite number of which every interface can write the digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _is_error(row: Any) -> bool:
    """True for a row of ``errors``: a size or None, the larger error and the error."""
    if not isinstance(row, list | tuple) or len(row) != 3:
        return False
    return (row[0] is None or _is_number(row[0])) and _is_number(row[1]) and _is_number(row[2])


def _is_pair_of_texts(row: Any) -> bool:
    """True for a row of ``others``: an account and its limit."""
    return isinstance(row, list | tuple) and len(row) == 2 and all(isinstance(each, str) for each in row)


def _has_type(name: str, value: Any) -> bool:
    """True if a fact has the type that its words need; facts of unknown names have any type."""
    if name in TEXTS:
        return isinstance(value, str) or (value is None and name == "measure")
    if name in NUMBERS:
        return _is_number(value)
    if name in OBJECTS:
        return isinstance(value, Mapping)
    if name in LISTS:
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if name == "others":
        return isinstance(value, list | tuple) and all(_is_pair_of_texts(row) for row in value)
    if name == "errors":
        return value is None or (isinstance(value, list | tuple) and all(_is_error(row) for row in value))
    return True


@dataclass(frozen=True, slots=True, init=False)
class Remedy:
    """One way out of an error: a kind of ``KINDS`` and its facts.

    >>> smaller = Remedy("lower_price", argument="rho", value=0.04)
    >>> smaller["value"], smaller.get("measure"), Remedy.from_data(smaller.to_data()) == smaller
    (0.04, None, True)
    """

    kind: str
    facts: Mapping[str, Any]

    def __init__(self, kind: str, /, **facts: Any) -> None:
        missing = [name for name in KINDS[kind] if name not in facts]
        if missing:
            raise TypeError(f"a remedy of kind {kind} needs {', '.join(missing)}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "facts", facts)

    def __hash__(self) -> int:
        return hash(self.kind)

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The fact of that name, or a default."""
        return self.facts.get(name, default)

    def about(self, dataset: str) -> Remedy:
        """The remedy with the name of the dataset, if it changes one and does not name it yet."""
        if self.kind not in OF_DATASET or "dataset" in self.facts:
            return self
        return Remedy(self.kind, **self.facts, dataset=dataset)

    def to_data(self) -> dict[str, Any]:
        """The remedy as JSON data."""
        return {"kind": self.kind, **self.facts}

    @classmethod
    def from_data(cls, data: Any) -> Remedy:
        """The remedy that ``to_data`` wrote, read strictly.

        A kind of a newer version is kept, and no interface has words for it. A fact that is missing or has another type
        raises ``ValueError``; ``TallystickError.from_data`` makes it ``InvalidInput``.

        >>> Remedy.from_data({"kind": "ask_again", "day": "Monday"}).to_data()
        {'kind': 'ask_again', 'day': 'Monday'}
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
            raise ValueError("a remedy is an object with a kind")
        facts = {str(name): value for name, value in data.items() if name != "kind"}
        kind = data["kind"]
        if not is_plain(facts):
            raise ValueError(f"the remedy {kind} is not plain data")
        wrong = [name for name in KINDS.get(kind, ()) if name not in facts]
        if kind in KINDS:
            wrong += [name for name, value in facts.items() if not _has_type(name, value)]
        if kind == "add_noise" and not _is_number(facts.get("value")):
            wrong.append("value")
        if wrong:
            raise ValueError(f"{wrong[0]} of the remedy {kind} is missing or has another type")
        remedy = cls.__new__(cls)
        object.__setattr__(remedy, "kind", kind)
        object.__setattr__(remedy, "facts", facts)
        return remedy
