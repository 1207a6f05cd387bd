"""The words of remedies in Python and in SQL; those of the shell are in ``cli/wording.py``.

A function of a table returns None if its interface cannot offer the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tallystick.digits import plural, typed, up
from tallystick.remedies import Remedy

Words = Callable[[Remedy], str | None]


def argument_text(argument: str, value: Any) -> str:
    """An argument as a call in Python has it.

    >>> argument_text("rho", 0.04), argument_text("why", "...")
    ('rho=0.04', 'why="..."')
    """
    if isinstance(value, str):
        return f'{argument}="{value}"'
    return f"{argument}={number_text(value)}"


def number_text(value: Any) -> str:
    """A number as short as it can be; another value as Python writes it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return typed(value) if is_number else repr(value)


def worded(table: Mapping[str, Words], remedy: Remedy) -> str | None:
    """A remedy in the words of a table; None for a kind of a newer version, which the table does not have."""
    words = table.get(remedy.kind)
    return None if words is None else words(remedy)


def offered(words: Words, remedies: Iterable[Remedy]) -> list[str]:
    """The words of the remedies that an interface can offer."""
    texts = [words(remedy) for remedy in remedies]
    return [text for text in texts if text]


def larger_error(remedy: Remedy) -> str:
    """The error at a lower price beside that at the price which was denied, in parentheses.

    >>> larger_error(Remedy("lower_price", argument="rho", value=0.04, measure="n", errors=[[None, 9.0, 3.0]]))
    ' (n ±9 instead of ±3 at 95%)'
    """
    measure, errors = remedy.get("measure"), remedy.get("errors")
    if not errors:
        return ""
    if errors[0][0] is None:
        _, larger, error = errors[0]
        return f" ({measure} {_instead(larger, error)} at 95%)"
    by_size = ", of ".join(f"{size:,} rows {_instead(larger, error)}" for size, larger, error in errors)
    return f" ({measure} in a group of {by_size} at 95%)"


def _instead(larger: float, error: float) -> str:
    return f"±{up(larger)} instead of ±{up(error)}"


def kept_measures(remedy: Remedy, price: str) -> str:
    """The first measures alone; ``price`` is how the interface names their price, or empty."""
    kept, dropped = remedy["measures"], remedy["dropped"]
    cost = f"{price}, same error" if price else "same error"
    return f"drop {dropped} of {len(kept) + dropped} measures ({', '.join(kept)} alone: {cost})"


def noise_text(remedy: Remedy) -> str:
    """One release with more noise, and its error."""
    adjacency = remedy["adjacency"]
    near = "" if adjacency == "add_remove" else f", adjacency='{adjacency}'"
    noise = f"{remedy['mechanism']}({remedy['parameter']}={typed(remedy['value'])}{near})"
    return f"{noise}, 95% error ±{up(remedy['error'])} {plural(remedy['unit'])} at sensitivity 1"


def pure_text(remedy: Remedy, argument: str) -> str:
    """The cost of pure epsilon, and how to say that it is meant."""
    return f"Pure epsilon {typed(remedy['epsilon'])} costs {remedy['cost']} ({remedy['share']}): add {argument}."


def delta_text(remedy: Remedy, argument: str) -> str:
    """The cost of epsilon at a delta, and how to say that it is meant."""
    epsilon, delta = typed(remedy["epsilon"]), typed(remedy["delta"])
    return f"Epsilon {epsilon} at delta {delta} costs {remedy['cost']}: add {argument}."


def _delta_argument(remedy: Remedy) -> str:
    """The argument delta, of the estimator where the remedy names one."""
    argument, estimator = argument_text("delta", remedy["delta"]), remedy.get("estimator")
    return argument if estimator is None else f"it to the estimator, {estimator}(..., {argument})"


def set_arguments(remedy: Remedy) -> dict[str, Any]:
    """The arguments that a remedy of kind ``set_argument`` sets, with their values."""
    return {remedy["argument"]: remedy["value"], **remedy.get("more", {})}


def _price(remedy: Remedy) -> str:
    argument = remedy.get("argument")
    return "" if argument is None else argument_text(argument, remedy["value"])


def _max_groups(remedy: Remedy) -> str:
    price = _price(remedy)
    same = f"same noise: {price}" if price else "same noise"
    return f"max_groups={remedy['max_groups']} (fewer groups per unit, {same})"


def _raised(remedy: Remedy) -> str:
    delta = remedy.get("delta")
    then = "" if delta is None else f", and the same with {argument_text('delta', delta)}"
    return f'a higher limit: ledger.open({remedy["account"]!r}).raise_limit(ts.{remedy["budget"]}, why="..."){then}'


def _caps(remedy: Remedy) -> str:
    return f".per_unit({', '.join(f'{cap}=...' for cap in remedy['caps'])}) before group_by"


def _bounds(remedy: Remedy) -> str:
    bounds = f"({number_text(remedy['lower'])}, {number_text(remedy['upper'])})"
    return f".bounds({remedy['column']}={bounds})"


IN_PYTHON: Final[Mapping[str, Words]] = {
    "lower_price": lambda each: _price(each) + larger_error(each),
    "keep_measures": lambda each: kept_measures(each, _price(each)),
    "lower_max_groups": _max_groups,
    "change_delta": lambda each: f"the same with {argument_text('delta', each['delta'])}, for {each['cost']}",
    "add_noise": noise_text,
    "lower_loss": lambda each: f"a smaller loss: ts.{each['loss']}",
    "raise_limit": _raised,
    "set_argument": lambda each: ", ".join(argument_text(*one) for one in set_arguments(each).items()),
    "mean_pure": lambda each: pure_text(each, "pure=True"),
    "give_delta": lambda each: delta_text(each, _delta_argument(each)),
    "round_up": lambda each: f"round it up, to {each['value']}: one step too many is on the safe side",
    "list_keys": lambda each: "public keys, keys=[...], which need no delta",
    "find_keys": lambda each: f"keys=ts.private_keys(delta={number_text(each['delta'])}), which finds them in the data",
    "declare_caps": _caps,
    "declare_bounds": _bounds,
    "declare_type": lambda each: f"types={{{each['column']!r}: {each['type']!r}}}",
    "name_public_table": lambda each: "public={'name': 'file.csv'} for a public table",
    "pass_frame": lambda each: "data frames of Arrow, pandas, Polars or Spark, or a dict of them in ts.Private(...)",
    "join_on_unit": lambda each: ".join_on_unit(...), where private tables meet on their unit",
    "update_table": lambda each: "account.register(..., update=True)",
    "state_decisions": lambda each: f"about={each['answers']!r}",
    "move_source": lambda each: None,
    "add_dataset": lambda each: None,
    "show_datasets": lambda each: "ledger.datasets()",
    "open_account": lambda each: f"ledger.open({each['account']!r}, budget=ts.{each['budget']})",
    "reopen_account": lambda each: f"ledger.open({each['account']!r}), without budget=",
    "clear_failure": lambda each: 'account.clear(why="...")',
    "reuse_key": lambda each: f"key={each['key']!r} gives that answer for nothing",
    "write_again": lambda each: f"the same request with key={each['key']!r}, which charges nothing",
    "verify_ledger": lambda each: "ledger.verify()",
    "create_ledger": lambda each: f"ts.Ledger({each['place']!r})",
    "start_again": lambda each: (
        f'ts.Ledger({each["place"]!r}, first_use="the reason"), if its owner starts again on purpose'
    ),
    "accept_head": lambda each: (
        'ts.Ledger(place, expect_head="HASH"), where HASH is a head that another host, a receipt '
        "or a card of the ledger shows"
    ),
    "accept_first_use": lambda each: 'ts.Ledger(place, first_use="the reason"), if no head is known',
    "accept_older": lambda each: (
        'ts.Ledger(place, older="the reason"), if the newest copy is lost; the charges in between must be charged again'
    ),
    "import_older": lambda each: (
        'import_ledger(lines, place, older="the reason"), if no newer export exists; the charges in between must be '
        "charged again"
    ),
}
"""Python's words for every kind of remedy."""


def _options(**options: Any) -> str:
    """Options of a statement, where SQL takes them."""
    words = []
    for name, value in options.items():
        text = f"'{value}'" if isinstance(value, str) else number_text(value)
        words.append(f"{name}={text}")
    return f"OPTIONS({', '.join(words)})"


def _price_options(remedy: Remedy) -> dict[str, Any]:
    argument = remedy.get("argument")
    return {} if argument is None else {argument: remedy["value"]}


def _groups_in_sql(remedy: Remedy) -> str:
    options = _options(max_groups_contributed=remedy["max_groups"], **_price_options(remedy))
    return f"{options} (fewer groups per unit, same noise)"


def _measures_in_sql(remedy: Remedy) -> str:
    price = _price_options(remedy)
    return kept_measures(remedy, _options(**price) if price else "")


IN_SQL: Final[Mapping[str, Words]] = {
    "lower_price": lambda each: _options(**_price_options(each)) + larger_error(each),
    "keep_measures": _measures_in_sql,
    "lower_max_groups": _groups_in_sql,
    "set_argument": lambda each: _options(**set_arguments(each)),
    "mean_pure": lambda each: pure_text(each, "OPTIONS(pure=TRUE)"),
    "give_delta": lambda each: delta_text(each, _options(delta=each["delta"])),
    "list_keys": lambda each: "(VALUES ('a'), ('b')) AS k(column) LEFT JOIN ..., a public list of groups",
    "find_keys": lambda each: f"{_options(delta=each['delta'])}, which finds the groups in the data",
    "reuse_key": lambda each: f"{_options(key=each['key'])} gives that answer for nothing",
}
"""SQL's words where a statement itself takes the remedy; other kinds are worded by Python or by the shell."""


INTERFACES: Final[Mapping[str, Mapping[str, Words]]] = {"python": IN_PYTHON, "sql": {**IN_PYTHON, **IN_SQL}}
"""The interfaces in whose words ``str(error)`` speaks, each with its words for every kind of remedy."""


_REGISTERED: dict[str, Mapping[str, Callable[..., str | None]]] = dict(INTERFACES)


def register(interface: str, words: Mapping[str, Callable[..., str | None]]) -> None:
    """Add an interface with its words for every kind of remedy.

    An interface calls this where its words are. A word takes the remedy, and what else the interface needs.
    """
    _REGISTERED[interface] = MappingProxyType(dict(words))


def interfaces() -> Mapping[str, Mapping[str, Callable[..., str | None]]]:
    """Every interface that is imported, with its words.

    >>> sorted({"python", "sql"} & interfaces().keys())
    ['python', 'sql']
    """
    return MappingProxyType(_REGISTERED)


def in_python(remedy: Remedy) -> str | None:
    """A remedy as a call of Python."""
    return worded(IN_PYTHON, remedy)


def in_sql(remedy: Remedy) -> str | None:
    """A remedy as words of a statement, or else as a call of Python."""
    return worded(INTERFACES["sql"], remedy)
