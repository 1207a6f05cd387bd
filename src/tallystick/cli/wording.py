"""The words of remedies in the shell: options of the command that failed, or a command that can be pasted whole."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.digits import typed
from tallystick.errors import Problem, Remedy, TallystickError
from tallystick.place import Place, shown
from tallystick.wording import (
    IN_SQL,
    groups_left_out,
    is_larger_allowance,
    kept_measures,
    larger_error,
    noise_error,
    noise_text,
    number_text,
    raised_limits,
    register,
    set_arguments,
)

NAME: Final = "NAME"
"""Stands for a dataset in a command if neither the error nor the command line names one."""
PARAMETERS: Final = {"group_by": "by"}
"""Parameters of commands that have another name than the argument in Python."""
IN_STATEMENT: Final = frozenset(("lower_max_groups", "list_keys", "find_keys"))
"""Kinds that ``tallystick sql`` words as SQL."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command of a command line: its path, its options by the names of Python, and the values that were read."""

    path: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, parser: Any, given: Sequence[str]) -> Command:
        """The command that ``given`` calls; the parser's own parameters say which option an argument comes from."""
        words, path, command = list(given), [], parser
        while words and words[0] in getattr(command, "commands", {}):
            path.append(words.pop(0))
            command = command.commands[path[-1]]
        options = {}
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            shown = parameter.metavar or parameter.name.upper()
            options[parameter.name] = parameter.opts[0] if is_option else shown
        try:
            values = command.make_context(" ".join(path), words, resilient_parsing=True).params
        except Exception:  # words that the parser itself refused
            values = {}
        return cls(tuple(path), options, values)

    def option(self, argument: str, value: Any = None) -> str | None:
        """The option that an argument of Python came from, or None if it came from elsewhere.

        An argument with another number than its option has came from inside an expression or a file.
        """
        name = argument.partition("[")[0]
        name = PARAMETERS.get(name, name)
        own = self.values.get(name)
        are_numbers = isinstance(own, int | float) and isinstance(value, int | float)
        is_other = are_numbers and number_text(own) != number_text(value)  # NaN has one text
        return None if is_other else self.options.get(name)

    def named(self, argument: str, value: Any) -> str:
        """An argument with a value, as this command takes it."""
        option = self.options.get(argument)
        if option is None:
            return f"{argument} {number_text(value)}"
        if value is True:
            return option
        text = f'"{value}"' if isinstance(value, str) else number_text(value)
        return f"{option} {text}"

    @property
    def takes_statement(self) -> bool:
        """True if the command takes a statement in SQL, which has separate options."""
        return self.path[:1] == ("sql",)

    @property
    def ledger(self) -> str:
        """The option that names the ledger, if this command line has it, without a password."""
        place = self.values.get("ledger")
        return "" if place is None else f" --ledger {shlex.quote(_public_text(str(place)))}"

    def dataset(self, remedy: Remedy) -> str:
        """The dataset that an error is about."""
        own = self.values.get("dataset") or self.values.get("name")
        return shlex.quote(str(remedy.get("dataset") or own or NAME))

    def update(self, remedy: Remedy, options: str) -> str:
        """Options of a registration: of this command, if it registers, else a command that changes it."""
        if self.path[:1] == ("dataset",) and self.path[1:] in (("add",), ("update",)):
            return options
        return f"tallystick dataset update {self.dataset(remedy)} {options}{self.ledger}"


@dataclass(frozen=True, slots=True)
class Way:
    """One way out of an error: what to type, a short name for it, and its effect."""

    action: str
    label: str = ""
    effect: str = ""

    @property
    def is_command(self) -> bool:
        """True if the action is a whole command."""
        return self.action.startswith("tallystick ")

    def __str__(self) -> str:
        named = f"{self.label}: {self.action}" if self.label else self.action
        return f"{named} ({self.effect})" if self.effect else named


def _public_text(place: str) -> str:
    """The text of a place without its secrets; a place that cannot be read is only named."""
    try:
        return str(Place.of(place))
    except TallystickError:
        return shown(place)


def _price(remedy: Remedy, command: Command) -> str:
    argument = remedy.get("argument")
    return "" if argument is None else command.named(argument, remedy["value"])


def _instead(remedy: Remedy, command: Command, *replaced: str) -> str:
    """The options of the command line that a way replaces: the named ones, and those that name another cost."""
    if remedy.get("argument"):
        others = [name for name in ("rho", "epsilon", "error") if name != remedy["argument"]]
        replaced = (*replaced, *others)
    named = [command.options[name] for name in replaced if command.values.get(name) is not None]
    return f" instead of {' and '.join(named)}" if named else ""


def _lower_price(remedy: Remedy, command: Command) -> Way:
    price = _price(remedy, command)
    is_option = remedy["argument"] in command.options
    action = f"{price}{_instead(remedy, command)}" if is_option else f"a new plan with {price}"
    effect = larger_error(remedy)
    return Way(action, "larger error" if effect else "lower cost", effect)


def _measures(remedy: Remedy, command: Command) -> Way:
    price = _price(remedy, command)
    kept = ", ".join(remedy["measures"])
    action = f"{price}{_instead(remedy, command)} with {kept} alone" if price else f"{kept} alone"
    return Way(action, "fewer measures", kept_measures(remedy))


def _groups(remedy: Remedy, command: Command) -> Way:
    price = _price(remedy, command)
    instead = _instead(remedy, command)
    then = f"then {price}{instead} has the same noise" if price else "then the same noise fits"
    update = command.update(remedy, f"--max-groups {remedy['max_groups']}")
    return Way(update, "fewer groups", f"{then}; {groups_left_out(remedy)}")


def _raised(remedy: Remedy, command: Command) -> Way:
    lines = []
    for account, budget in raised_limits(remedy):
        asks = " --request" if account in remedy.get("allowances", ()) else ""
        options = f'--budget "{budget}" --why REASON{asks}{command.ledger}'
        lines.append(f"tallystick account raise {shlex.quote(account)} {options}")
    delta = remedy.get("delta")
    then = "" if delta is None else f"then add {command.named('delta', delta)}; "
    if is_larger_allowance(remedy):
        return Way(" && ".join(lines), "larger allowance", f"{then}asks those who decide; the limit stays")
    return Way(" && ".join(lines), "higher limit", f"{then}weakens the guarantee; earlier cards no longer verify")


def _caps(remedy: Remedy, command: Command) -> Way:
    options = " ".join(f"--{cap.replace('_', '-')} 1" for cap in remedy["caps"])
    return Way(command.update(remedy, options), effect="registers how much one person counts; 1 is an example")


def _bounds(remedy: Remedy, command: Command) -> Way:
    ends = f"{number_text(remedy['lower'])}:{number_text(remedy['upper'])}"
    column = shlex.quote(remedy["column"])
    return Way(command.update(remedy, f"--bounds {column}={ends}"), effect="registers public bounds; an example")


def _type(remedy: Remedy, command: Command) -> Way:
    column, missing = shlex.quote(remedy["column"]), "cells that are not numbers then count as missing"
    if remedy.get("lower") is None:
        return Way(command.update(remedy, f"--type {column}={remedy['type']}"), effect=missing)
    low, high = typed(remedy["lower"]), typed(remedy["upper"])
    update = command.update(remedy, f"--type {column}={remedy['type']} --bounds {column}={low}:{high}")
    return Way(update, effect=f"if it holds numbers, with bounds that you choose; {missing}")


def _shown_datasets(remedy: Remedy, command: Command) -> Way:
    name = remedy.get("dataset")
    shown = "list" if name is None else f"show {shlex.quote(name)}"
    return Way(f"tallystick dataset {shown}{command.ledger}")


def _accepted(command: Command, how: str) -> str:
    return f"tallystick ledger accept {how}{command.ledger}"


def _decisions(remedy: Remedy, command: Command) -> Way:
    options = " ".join(f'--about "{name}={answer}"' for name, answer in remedy["answers"].items())
    return Way(command.update(remedy, options), effect="keeps the answers with the dataset")


def _without_limit(remedy: Remedy, command: Command) -> Way | None:
    """An account that exists needs no limit; a command that always takes one cannot leave it out."""
    option = command.options.get("limit")
    return None if option is None else Way(f"leave {option} out", effect=f"{remedy['account']} keeps its limit")


def _arguments(remedy: Remedy, command: Command) -> Way:
    words = " ".join(command.named(*one) for one in set_arguments(remedy).items())
    if remedy["argument"] not in ("rho", "epsilon"):
        return Way(words)
    return Way(f"{words}{_instead(remedy, command)}", "another cost")


def _pure(remedy: Remedy, command: Command) -> Way:
    effect = f"costs {remedy['cost']}, {remedy['share']}"
    return Way(f"add {command.named('pure', True)}", f"pure epsilon {number_text(remedy['epsilon'])}", effect)


def _with_delta(remedy: Remedy, command: Command) -> Way:
    label = f"epsilon {number_text(remedy['epsilon'])} at delta {number_text(remedy['delta'])}"
    return Way(f"add {command.named('delta', remedy['delta'])}", label, f"costs {remedy['cost']}")


def _public_keys(remedy: Remedy, command: Command) -> Way:
    price = f" {_price(remedy, command)}" if remedy.get("argument") else ""
    action = f"--keys FILE{price}{_instead(remedy, command, 'private_keys')}"
    return Way(action, "public groups", "a public list of the groups, which needs no delta")


def _private_keys(remedy: Remedy, command: Command) -> Way:
    price = f" {_price(remedy, command)}" if remedy.get("argument") else ""
    words = f"--private-keys {number_text(remedy['delta'])}{price}{_instead(remedy, command, 'keys')}"
    return Way(words, "smaller delta", "finds the groups in the data, which uses delta")


def _written_again(remedy: Remedy, command: Command) -> Way:
    option = command.options.get(remedy["argument"])
    another = "" if option is None else f" and another {option}"
    return Way(
        f"the same command with --key {shlex.quote(remedy['key'])}{another}", effect="reuses the answer, no charge"
    )


def _imported_older(remedy: Remedy, command: Command) -> Way:
    file = shlex.quote(str(command.values.get("file", "FILE")))
    return Way(
        f"tallystick ledger import {file} --older --why REASON{command.ledger}",
        effect="for the owner of the ledger, if no newer export exists",
    )


def _as_request(remedy: Remedy, command: Command) -> Way | None:
    """A request in place of the change; None for a command that cannot make one."""
    option = command.options.get("is_request")
    return None if option is None else Way(f"add {option}", effect="asks those who approve, and changes nothing yet")


SHELL: Final[Mapping[str, Callable[[Remedy, Command], Way | None]]] = {
    "lower_price": _lower_price,
    "keep_measures": _measures,
    "lower_max_groups": _groups,
    "change_delta": lambda each, command: Way(
        command.named("delta", each["delta"]), "another delta", f"costs {each['cost']}"
    ),
    "add_noise": lambda each, command: Way(f'"{noise_text(each)}"', "more noise", noise_error(each)),
    "lower_loss": lambda each, command: Way(f'"{each["loss"]}"', "smaller loss"),
    "raise_limit": _raised,
    "set_argument": _arguments,
    "mean_pure": _pure,
    "give_delta": _with_delta,
    "round_up": lambda each, command: Way(f"round it up to {each['value']}", effect="one step too many is safe"),
    "list_keys": _public_keys,
    "find_keys": _private_keys,
    "declare_caps": _caps,
    "declare_bounds": _bounds,
    "declare_type": _type,
    "name_public_table": lambda each, command: Way("--public NAME=FILE", effect="names a public table"),
    "pass_frame": lambda each, command: None,
    "join_on_unit": lambda each, command: Way(
        "tallystick sql", effect="its statements join private tables on the column of the person"
    ),
    "update_table": lambda each, command: Way(f"tallystick dataset update {command.dataset(each)}{command.ledger}"),
    "move_source": lambda each, command: Way(
        f"tallystick dataset update {command.dataset(each)} --source NEW_PLACE{command.ledger}"
    ),
    "add_dataset": lambda each, command: Way(
        f"tallystick dataset add FILE --population NAME --unit COLUMN --limit rho=0.5{command.ledger}"
    ),
    "show_datasets": _shown_datasets,
    "open_account": lambda each, command: Way(
        f'tallystick account open {shlex.quote(each["account"])} --budget "{each["budget"]}"{command.ledger}'
    ),
    "reopen_account": _without_limit,
    "state_decisions": _decisions,
    "clear_failure": lambda each, command: Way(
        f"tallystick dataset clear {command.dataset(each)} --why REASON{command.ledger}"
    ),
    "make_request": _as_request,
    "give_role": lambda each, command: Way(
        f"tallystick ledger grant {shlex.quote(each['name'])} analyst --population NAME --why REASON{command.ledger}",
        effect="for an owner",
    ),
    "show_members": lambda each, command: Way(f"tallystick ledger members{command.ledger}", effect="lists the roles"),
    "retire_dataset": lambda each, command: Way(
        f"tallystick dataset retire {command.dataset(each)} --why REASON{command.ledger}"
    ),
    "reuse_key": lambda each, command: Way(f"--key {shlex.quote(each['key'])}", effect="reuses that answer, no charge"),
    "write_again": _written_again,
    "verify_ledger": lambda each, command: Way(f"tallystick ledger verify{command.ledger}"),
    "create_ledger": lambda each, command: Way(
        f"tallystick ledger init {shlex.quote(each['place'])}",
        effect="makes a new ledger; to use one at another place, add --ledger PLACE",
    ),
    "start_again": lambda each, command: Way(
        f"tallystick ledger init {shlex.quote(each['place'])} --first-use --why REASON",
        effect="if its owner starts again on purpose",
    ),
    "accept_head": lambda each, command: Way(
        _accepted(command, "--expect-head HASH"),
        effect="HASH is what 'tallystick ledger head' prints on a host that knows the ledger, or a receipt shows",
    ),
    "accept_first_use": lambda each, command: Way(
        _accepted(command, "--first-use --why REASON"), effect="for the owner of the ledger, if no head is known"
    ),
    "accept_older": lambda each, command: Way(
        _accepted(command, "--older --why REASON"), effect="for the owner of the ledger, if the newest copy is lost"
    ),
    "import_older": _imported_older,
    "rewrite": lambda each, command: Way(each["to"]),
    "install": lambda each, command: Way(f"pip install {each['packages']}"),
}
"""The shell's words for every kind of remedy."""
register("shell", SHELL)


_LABELS: Final = {"set_argument": "another cost", "lower_max_groups": "fewer groups", "find_keys": "groups of the data"}
"""Labels of remedies that a statement words."""


def way_in_shell(remedy: Remedy, command: Command) -> Way | None:
    """A remedy as options of a command, as words of its statement, or as another command.

    >>> query = Command(("query",), {"rho": "--rho"}, {"dataset": "visits", "ledger": "a b.db"})
    >>> way_in_shell(Remedy("declare_type", column="age", type="number"), query).action
    "tallystick dataset update visits --type age=number --ledger 'a b.db'"
    """
    is_in_statement = remedy.kind in IN_STATEMENT or remedy.get("in_statement")  # which overrides options
    if command.takes_statement and is_in_statement and remedy.kind in IN_SQL:
        text = IN_SQL[remedy.kind](remedy)
        return None if text is None else Way(text, _LABELS.get(remedy.kind, ""))
    words = SHELL.get(remedy.kind)
    return None if words is None else words(remedy, command)


def in_shell(remedy: Remedy, command: Command) -> str | None:
    """A remedy in one line of the shell's words.

    >>> in_shell(Remedy("lower_price", argument="rho", value=0.04), Command(("query",), {"rho": "--rho"}))
    'lower cost: --rho 0.04'
    """
    way = way_in_shell(remedy, command)
    return None if way is None else str(way)


_RUNNING: ContextVar[Callable[[], Command]] = ContextVar("running", default=Command)


@contextmanager
def running(parser: Any, given: Sequence[str]) -> Iterator[None]:
    """Remember the command line that runs, for words about it."""
    token = _RUNNING.set(lambda: Command.of(parser, given))
    try:
        yield
    finally:
        _RUNNING.reset(token)


def running_command() -> Command:
    """The command that runs now."""
    return _RUNNING.get()()


def ways_in_shell(problem: Problem, command: Command) -> list[Way]:
    """Return the ways that a problem offers."""
    ways = [way_in_shell(remedy, command) for remedy in problem.remedies]
    return [way for way in ways if way is not None]


def offers_in_shell(problem: Problem, command: Command) -> list[str]:
    """Return what a problem offers, a line each."""
    return [str(way) for way in ways_in_shell(problem, command)]
