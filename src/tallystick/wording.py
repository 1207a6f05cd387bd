"""The words of remedies in Python and in SQL; those of the shell are in ``cli/wording.py``.

A function of a table returns None if its interface cannot offer the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Final

from tallystick.digits import plural as plural
from tallystick.digits import typed, up
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
    """The error at a lower cost beside that at the cost which was denied.

    >>> larger_error(Remedy("lower_price", argument="rho", value=0.04, measure="n", errors=[[None, 9.0, 3.0]]))
    'n ±9 instead of ±3'
    """
    measure, errors = remedy.get("measure"), remedy.get("errors")
    if not errors:
        return ""
    if errors[0][0] is None:
        _, larger, error = errors[0]
        return f"{measure} {_instead(larger, error)}"
    by_size = ", ".join(f"{_instead(larger, error)} in a group of {size:,} rows" for size, larger, error in errors)
    return f"{measure} {by_size}"


def _instead(larger: float, error: float) -> str:
    return f"±{up(larger)} instead of ±{up(error)}"


def kept_measures(remedy: Remedy) -> str:
    """The effect of dropping measures.

    >>> kept_measures(Remedy("keep_measures", measures=["n"], dropped=2))
    'drops 2 of 3 measures, error no larger'
    """
    dropped = remedy["dropped"]
    return f"drops {dropped} of {len(remedy['measures']) + dropped} measures, error no larger"


def groups_left_out(remedy: Remedy) -> str:
    """The rows that a smaller number of groups per person leaves out.

    >>> groups_left_out(Remedy("lower_max_groups", max_groups=2))
    'each person then counts in at most 2 groups, and rows in other groups are left out'
    """
    most = remedy["max_groups"]
    groups = "1 group" if most == 1 else f"{most} groups"
    unit = remedy.get("unit") or "person"
    return f"each {unit} then counts in at most {groups}, and rows in other groups are left out"


def noise_text(remedy: Remedy) -> str:
    """One release with more noise, as an expression."""
    adjacency = remedy["adjacency"]
    near = "" if adjacency == "add_remove" else f", adjacency='{adjacency}'"
    group = remedy.get("group", 1)
    people = "" if group == 1 else f".for_groups({group})"
    return f"{remedy['mechanism']}({remedy['parameter']}={typed(remedy['value'])}{near}){people}"


def noise_error(remedy: Remedy) -> str:
    """The error of one release with more noise."""
    return f"error ±{up(remedy['error'])} {plural(remedy['unit'])} at sensitivity 1"


def raised_limits(remedy: Remedy) -> list[tuple[str, str]]:
    """The accounts whose limits a remedy raises, each with its new limit."""
    return [(remedy["account"], remedy["budget"]), *map(tuple, remedy.get("others", ()))]


def is_larger_allowance(remedy: Remedy) -> bool:
    """True if a remedy raises allowances alone: the limit of the population stays."""
    return {account for account, _ in raised_limits(remedy)} <= set(remedy.get("allowances", ()))


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


def _declared_type(remedy: Remedy) -> str:
    """The type of a column, and an example of bounds for one that is without."""
    kind = f"types={{{remedy['column']!r}: {remedy['type']!r}}}"
    if remedy.get("lower") is None:
        return kind
    return f"{kind}, and its bounds: .bounds(**{{{remedy['column']!r}: ({remedy['lower']}, {remedy['upper']})}})"


def set_arguments(remedy: Remedy) -> dict[str, Any]:
    """The arguments that a remedy sets, with their values."""
    return {remedy["argument"]: remedy["value"], **remedy.get("more", {})}


def _price(remedy: Remedy) -> str:
    argument = remedy.get("argument")
    return "" if argument is None else argument_text(argument, remedy["value"])


def _with(text: str, effect: str) -> str:
    return f"{text} ({effect})" if effect else text


def _lower_price(remedy: Remedy) -> str:
    estimator = remedy.get("estimator")
    if estimator is not None:
        words = ", ".join(argument_text(*one) for one in set_arguments(remedy).items())
        return f"a lower cost: {estimator}({words}, ...)"
    return _with(_price(remedy), larger_error(remedy))


def _measures(remedy: Remedy) -> str:
    price = _price(remedy)
    kept = ", ".join(remedy["measures"])
    return _with(f"{price} with {kept} alone" if price else f"{kept} alone", kept_measures(remedy))


def _max_groups(remedy: Remedy) -> str:
    price = _price(remedy)
    same = f"the same noise then needs {price}; " if price else ""
    return _with(f"max_groups={remedy['max_groups']}", f"{same}{groups_left_out(remedy)}")


def _raised(remedy: Remedy) -> str:
    delta = remedy.get("delta")
    then = "" if delta is None else f", and then {argument_text('delta', delta)}"
    ledger = "ledger" if remedy.get("has_ledger") else "account.ledger"
    raised = []
    for account, budget in raised_limits(remedy):
        raised.append(f'{ledger}.open({account!r}).raise_limit(ts.{budget}, why="...")')
    if is_larger_allowance(remedy):
        return f"a larger allowance, which its owner gives: {' and '.join(raised)}{then}"
    return f"a higher limit, which weakens the guarantee: {' and '.join(raised)}{then}"


def _listed_keys(remedy: Remedy) -> str:
    price = _price(remedy)
    return f"public keys, keys=[...], {f'with {price}' if price else 'which need no delta'}"


def _found_keys(remedy: Remedy) -> str:
    price = _price(remedy)
    keys = f"keys=ts.private_keys(delta={number_text(remedy['delta'])})"
    return f"{keys} and {price}" if price else f"{keys}, which finds them in the data"


def _caps(remedy: Remedy) -> str:
    return f".per_unit({', '.join(f'{cap}=...' for cap in remedy['caps'])}) before group_by"


def _bounds(remedy: Remedy) -> str:
    bounds = f"({number_text(remedy['lower'])}, {number_text(remedy['upper'])})"
    column = remedy["column"]
    is_word = column.isidentifier() and not iskeyword(column)
    return f".bounds({column}={bounds})" if is_word else f".bounds(**{{{column!r}: {bounds}}})"


IN_PYTHON: Final[Mapping[str, Words]] = {
    "lower_price": _lower_price,
    "keep_measures": _measures,
    "lower_max_groups": _max_groups,
    "change_delta": lambda each: f"{argument_text('delta', each['delta'])}, for {each['cost']}",
    "add_noise": lambda each: _with(noise_text(each), noise_error(each)),
    "lower_loss": lambda each: f"a smaller loss: ts.{each['loss']}",
    "raise_limit": _raised,
    "set_argument": lambda each: ", ".join(argument_text(*one) for one in set_arguments(each).items()),
    "mean_pure": lambda each: pure_text(each, "pure=True"),
    "give_delta": lambda each: delta_text(each, _delta_argument(each)),
    "round_up": lambda each: f"{each['value']}, rounded up: one step too many is safe",
    "list_keys": _listed_keys,
    "find_keys": _found_keys,
    "declare_caps": _caps,
    "declare_bounds": _bounds,
    "declare_type": _declared_type,
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
    "make_request": lambda each: 'ledger.team.request(lambda book: ..., why="...") with the same change of book',
    "give_role": lambda each: f'ledger.team.grant({each["name"]!r}, "analyst", population, why="...") by an owner',
    "show_members": lambda each: "ledger.team.members(), which lists the roles",
    "retire_dataset": lambda each: f'account.retire({each["dataset"]!r}, why="...")',
    "reuse_key": lambda each: f"key={each['key']!r} reuses that answer without a new charge",
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
    "rewrite": lambda each: each["to"],
    "install": lambda each: f"pip install {each['packages']}",
}
"""Python's words for every kind of remedy."""


def _options(**options: Any) -> str:
    """Options of a statement, where SQL takes them."""
    words = []
    for name, value in options.items():
        text = f"'{value}'" if isinstance(value, str) else number_text(value)
        text = "TRUE" if value is True else text
        words.append(f"{name}={text}")
    return f"OPTIONS({', '.join(words)})"


def _price_options(remedy: Remedy) -> dict[str, Any]:
    """The cost that a remedy sets, and the arguments that it needs beside it."""
    return {} if remedy.get("argument") is None else set_arguments(remedy)


def _cost_in_sql(remedy: Remedy) -> str:
    """The cost that a remedy sets: in the statement if it has one there, else beside it."""
    price = _price_options(remedy)
    if not price or remedy.get("in_statement"):
        return _options(**price) if price else ""
    return ", ".join(argument_text(*one) for one in price.items())


def _groups_in_sql(remedy: Remedy) -> str:
    options = _options(max_groups_contributed=remedy["max_groups"], **_price_options(remedy))
    return _with(options, f"same noise; {groups_left_out(remedy)}")


def _measures_in_sql(remedy: Remedy) -> str:
    price = _cost_in_sql(remedy)
    kept = ", ".join(remedy["measures"])
    return _with(f"{price} with {kept} alone" if price else f"{kept} alone", kept_measures(remedy))


def _price_in_sql(remedy: Remedy) -> str:
    return _with(_cost_in_sql(remedy), larger_error(remedy))


IN_SQL: Final[Mapping[str, Words]] = {
    "lower_price": _price_in_sql,
    "keep_measures": _measures_in_sql,
    "lower_max_groups": _groups_in_sql,
    "set_argument": lambda each: _options(**set_arguments(each)),
    "mean_pure": lambda each: pure_text(each, "OPTIONS(pure=TRUE)"),
    "give_delta": lambda each: delta_text(each, _options(delta=each["delta"])),
    "list_keys": lambda each: "WHERE column IN ('a', 'b'), with a public list of its groups",
    "find_keys": lambda each: (
        f"{_options(delta=each['delta'], **_price_options(each))}, which finds the groups in the data"
    ),
    "reuse_key": lambda each: f"{_options(key=each['key'])} reuses that answer without a new charge",
}
"""SQL's words where a statement itself takes the remedy; other kinds are worded by Python or by the shell."""


INTERFACES: Final[Mapping[str, Mapping[str, Words]]] = {"python": IN_PYTHON, "sql": {**IN_PYTHON, **IN_SQL}}
"""The interfaces in whose words ``str(error)`` speaks, each with its words for every kind of remedy."""


_REGISTERED: dict[str, Mapping[str, Callable[..., Any]]] = dict(INTERFACES)


def register(interface: str, words: Mapping[str, Callable[..., Any]]) -> None:
    """Add an interface with its words for every kind of remedy.

    An interface calls this where its words are. A word takes the remedy, and what else the interface needs.
    """
    _REGISTERED[interface] = MappingProxyType(dict(words))


def interfaces() -> Mapping[str, Mapping[str, Callable[..., Any]]]:
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
