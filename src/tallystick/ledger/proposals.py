"""Requests in words: what would change, with the limit before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallystick.digits import ledger_entries, people
from tallystick.errors import InvalidInput
from tallystick.ledger import retirement
from tallystick.ledger.filters import Amount, Filter, quoted_delta
from tallystick.ledger.texts import ERASED

if TYPE_CHECKING:
    from tallystick.ledger.replay import Book

Names = Mapping[str, str]
"""Names of principals, by their ids."""


def in_words(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    """The change that a request asks for.

    ``was`` is the state that the requester saw, and ``note`` the text about a dataset.
    """
    try:
        return _WORDS[effect["kind"]](effect, was, book, names, note)
    except (InvalidInput, ValueError, TypeError, LookupError):  # of another program; it cannot be carried out either
        return "a change that cannot be read; do not approve it"


def _limit(currency: str, limit: Sequence[int]) -> str:
    first, second = limit
    amount = Amount(Filter.named(currency), first, second)
    epsilon = amount.as_epsilon_at(quoted_delta(amount))
    return f"{amount} ({epsilon})" if epsilon else str(amount)


def _raise(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    account = book.accounts[effect["account"]]
    before, after = _limit(account.filter, was[:2]), _limit(account.filter, effect["limit"])
    return f"raise the limit of {account.name} from {before} to {after}"


def _close(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    return f"close account {book.accounts[effect['account']].name}, for good"


def _open(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    limit = _limit(effect["filter"], effect["limit"])
    above = book.accounts[effect["parent"]].name if effect["parent"] is not None else ""
    if effect.get("owner") is not None:
        whom = names.get(effect["owner"], ERASED)
        return f"give {whom} an allowance of {limit} from {above}, called {effect['name']}"
    below = f" below {above}" if above else ""
    return f"open an account with a limit of {limit}{below}{_partition(effect['partition'])}, called {effect['name']}"


_VALUES: Final = 12
"""Values of a block that are shown."""


def _partition(partition: Sequence[Any] | None) -> str:
    """The rows of a block. Of the blocks of a partition only the largest counts above, which an approver must know."""
    if not partition:
        return ""
    name, _, _, column, values = partition
    listed = ", ".join(map(str, values[:_VALUES])) + (", ..." if len(values) > _VALUES else "")
    rows = f", for rows where {column} is {listed}" if column else ""
    return f", as a block of partition {name}{rows}: only its largest block counts above"


def _register(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    account = book.accounts[effect["account"]]
    dataset = f"dataset {effect['dataset']} of {account.name}"
    if retirement.is_removed(note):
        return f"remove the registration of {dataset}"
    if retirement.ends(note):
        return f"retire {dataset}, for good: no new queries"
    verb = "change the registration of" if was[0] else "register"
    least = Amount(Filter.named(account.filter), effect["least"])
    protects = _protected(effect["fixed"])
    return f"{verb} {dataset}, which protects {protects}, at a cost of at least {least} for each query"


_NEIGHBOURS: Final = {"add_remove": "being added or removed", "replace": "having its rows replaced"}


def _protected(fixed: Mapping[str, str | None]) -> str:
    """Whom a registration protects, by the entry itself: a note could say another thing."""
    if "unit" not in fixed:
        return "whom it does not say"
    unit = "each row" if fixed["unit"] is None else f"each {fixed['unit']}"
    against = _NEIGHBOURS.get(fixed.get("adjacency") or "", "")
    return f"{unit} against {against}" if against else unit


def _clear(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    charges = ", ".join(str(number) for number in sorted({charge for charge, _ in effect["rows"]}))
    return f"open the data of {book.accounts[effect['account']].name} again, closed by ledger entries {charges}"


def _erase(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    found = [
        f"the {what} of {ledger_entries(effect[name])}"
        for name, what in (("entries", "texts"), ("answers_of", "answers"))
        if effect[name]
    ]
    return f"erase {' and '.join(found)}"


def _where(population: int | None, book: Book) -> str:
    return "the whole ledger" if population is None else book.accounts[population].name


def _grant(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    whom = names.get(effect["principal"], ERASED)
    return f"give {whom} the role {effect['role']} on {_where(effect['population'], book)}"


def _revoke(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    grant = book.authority.grants[effect["grant"]]
    return f"take the role {grant.role} on {_where(grant.population, book)} from {names.get(grant.principal, ERASED)}"


def _quorum(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    needed = ", ".join(f"{people(number, 'approval')} for {name}" for name, number in sorted(effect["needed"].items()))
    return f"need {needed} on {_where(effect['population'], book)}"


def _key(effect: Mapping[str, Any], was: Sequence[int], book: Book, names: Names, note: str) -> str:
    verb = "let the holder of key {} write" if effect["kind"] == "key_add" else "stop accepting key {}"
    return verb.format(effect["public"])


_WORDS: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[int], Book, Names, str], str]]] = {
    "raise": _raise,
    "close": _close,
    "open": _open,
    "register": _register,
    "clear": _clear,
    "erase": _erase,
    "role_grant": _grant,
    "role_revoke": _revoke,
    "quorum": _quorum,
    "key_add": _key,
    "key_retire": _key,
}
