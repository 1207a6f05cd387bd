"""The words of remedies in the shell: options of the command that failed, or a command that can be pasted whole."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick import wording
from tallystick.errors import Problem, Remedy, TallystickError
from tallystick.place import Place, shown
from tallystick.wording import (
    IN_SQL,
    delta_text,
    kept_measures,
    larger_error,
    noise_text,
    number_text,
    pure_text,
    set_arguments,
)

NAME: Final = "NAME"
"""Stands for a data set in a command if neither the error nor the command line names one."""
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
            options[parameter.name] = parameter.opts[0] if is_option else parameter.name.upper()
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
        is_other = isinstance(own, int | float) and isinstance(value, int | float) and own != value
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
        """True if the command takes a statement in SQL, which has options of its own."""
        return self.path[:1] == ("sql",)

    @property
    def ledger(self) -> str:
        """The option that names the ledger, if this command line has it, without a password."""
        place = self.values.get("ledger")
        return "" if place is None else f" --ledger {shlex.quote(_public_text(str(place)))}"

    def dataset(self, remedy: Remedy) -> str:
        """The data set that an error is about."""
        own = self.values.get("dataset") or self.values.get("name")
        return shlex.quote(str(remedy.get("dataset") or own or NAME))

    def update(self, remedy: Remedy, options: str) -> str:
        """Options of a registration: of this command, if it registers, else a command that changes it."""
        if self.path[:1] == ("dataset",) and self.path[1:] in (("add",), ("update",)):
            return options
        return f"tallystick dataset update {self.dataset(remedy)} {options}{self.ledger}"


def _public_text(place: str) -> str:
    """The text of a place without its secrets; a place that cannot be read is only named."""
    try:
        return str(Place.of(place))
    except TallystickError:
        return shown(place)


def _price(remedy: Remedy, command: Command) -> str:
    argument = remedy.get("argument")
    return "" if argument is None else command.named(argument, remedy["value"])


def _lower_price(remedy: Remedy, command: Command) -> str:
    price = _price(remedy, command)
    is_option = remedy["argument"] in command.options
    return (price if is_option else f"a new plan with {price}") + larger_error(remedy)


def _groups(remedy: Remedy, command: Command) -> str:
    price = _price(remedy, command)
    then = f" and {price}" if price else ""
    update = command.update(remedy, f"--max-groups {remedy['max_groups']}")
    return f"fewer groups per unit, same noise{then}: {update}"


def _raised(remedy: Remedy, command: Command) -> str:
    delta = remedy.get("delta")
    then = "" if delta is None else f", and then {command.named('delta', delta)}"
    account = shlex.quote(remedy["account"])
    return (
        f"a higher limit{then}: tallystick account raise {account} "
        f'--budget "{remedy["budget"]}" --why "..."{command.ledger}'
    )


def _caps(remedy: Remedy, command: Command) -> str:
    options = " ".join(f"--{cap.replace('_', '-')} 1" for cap in remedy["caps"])
    return f"register how much one unit counts, such as: {command.update(remedy, options)}"


def _bounds(remedy: Remedy, command: Command) -> str:
    ends = f"{number_text(remedy['lower'])}:{number_text(remedy['upper'])}"
    column = shlex.quote(remedy["column"])
    return f"public bounds, such as: {command.update(remedy, f'--bounds {column}={ends}')}"


def _type(remedy: Remedy, command: Command) -> str:
    return command.update(remedy, f"--type {shlex.quote(remedy['column'])}={remedy['type']}")


def _accepted(command: Command, how: str) -> str:
    return f"tallystick ledger accept {how}{command.ledger}"


def _decisions(remedy: Remedy, command: Command) -> str:
    options = " ".join(f'--about "{name}={answer}"' for name, answer in remedy["answers"].items())
    return f"answers, kept with the data set: {command.update(remedy, options)}"


def _without_limit(remedy: Remedy, command: Command) -> str | None:
    """An account that exists needs no limit; a command that always takes one cannot leave it out."""
    option = command.options.get("limit")
    return None if option is None else f"leave {option} out: account {remedy['account']} keeps its limit"


SHELL: Final[Mapping[str, Callable[[Remedy, Command], str | None]]] = {
    "lower_price": _lower_price,
    "keep_measures": lambda each, command: kept_measures(each, _price(each, command)),
    "lower_max_groups": _groups,
    "change_delta": lambda each, command: f"the same with {command.named('delta', each['delta'])}, for {each['cost']}",
    "add_noise": lambda each, command: noise_text(each),
    "lower_loss": lambda each, command: f'a smaller loss: "{each["loss"]}"',
    "raise_limit": _raised,
    "set_argument": lambda each, command: " ".join(command.named(*one) for one in set_arguments(each).items()),
    "mean_pure": lambda each, command: pure_text(each, command.named("pure", True)),
    "give_delta": lambda each, command: delta_text(each, command.named("delta", each["delta"])),
    "round_up": lambda each, command: f"round it up, to {each['value']}: one step too many is on the safe side",
    "list_keys": lambda each, command: "public keys (--keys FILE), which need no delta",
    "find_keys": lambda each, command: f"--private-keys {number_text(each['delta'])}, which finds them in the data",
    "declare_caps": _caps,
    "declare_bounds": _bounds,
    "declare_type": _type,
    "name_public_table": lambda each, command: "--public NAME=FILE for a public table",
    "pass_frame": lambda each, command: None,
    "join_on_unit": lambda each, command: (
        "'tallystick sql', in whose statements private tables meet on their unit: ... JOIN ... ON ..."
    ),
    "update_table": lambda each, command: f"tallystick dataset update {command.dataset(each)}{command.ledger}",
    "move_source": lambda each, command: (
        f"with its new place: tallystick dataset update {command.dataset(each)} --source NEW_PLACE{command.ledger}"
    ),
    "add_dataset": lambda each, command: (
        f"tallystick dataset add FILE --population WHOSE --unit COLUMN --limit rho=0.5{command.ledger}"
    ),
    "show_datasets": lambda each, command: f"tallystick dataset list{command.ledger}",
    "open_account": lambda each, command: (
        f'tallystick account open {shlex.quote(each["account"])} --budget "{each["budget"]}"{command.ledger}'
    ),
    "reopen_account": _without_limit,
    "state_decisions": _decisions,
    "clear_failure": lambda each, command: (
        f'tallystick dataset clear {command.dataset(each)} --why "..."{command.ledger}'
    ),
    "reuse_key": lambda each, command: f"--key {shlex.quote(each['key'])} gives that answer for nothing",
    "verify_ledger": lambda each, command: f"tallystick ledger verify{command.ledger}",
    "create_ledger": lambda each, command: f"tallystick ledger init {shlex.quote(each['place'])}",
    "start_again": lambda each, command: (
        "if its owner starts again on purpose: "
        f'tallystick ledger init {shlex.quote(each["place"])} --first-use --why "..."'
    ),
    "accept_head": lambda each, command: (
        "with the HASH that 'tallystick ledger head' prints on a host that knows the ledger, or that a receipt or a "
        f"card of it shows: {_accepted(command, '--expect-head HASH')}"
    ),
    "accept_first_use": lambda each, command: (
        "if no head is known, the owner of the ledger runs: " + _accepted(command, '--first-use --why "..."')
    ),
    "accept_older": lambda each, command: (
        "if the newest copy is lost, the owner of the ledger runs: " + _accepted(command, '--older --why "..."')
    ),
    "import_older": lambda each, command: (
        "if no newer export exists, the owner of the ledger runs: tallystick ledger import "
        f'{shlex.quote(str(command.values.get("file", "FILE")))} --older --why "..."{command.ledger}'
    ),
}
"""The shell's words for every kind of remedy."""
INTERFACES: Final[Mapping[str, Mapping[str, Callable[..., str | None]]]] = {**wording.INTERFACES, "shell": SHELL}
"""Every interface with its words for every kind of remedy; a new interface is an entry here."""


def in_shell(remedy: Remedy, command: Command) -> str | None:
    """A remedy as options of a command, as words of its statement, or as another command.

    >>> query = Command(("query",), {"rho": "--rho"}, {"dataset": "visits", "ledger": "a b.db"})
    >>> in_shell(Remedy("lower_price", argument="rho", value=0.04), query)
    '--rho 0.04'
    >>> in_shell(Remedy("declare_type", column="age", type="number"), query)
    "tallystick dataset update visits --type age=number --ledger 'a b.db'"
    """
    is_in_statement = remedy.kind in IN_STATEMENT or remedy.get("in_statement")  # which overrides options
    if command.takes_statement and is_in_statement:
        return IN_SQL[remedy.kind](remedy)
    return SHELL[remedy.kind](remedy, command)


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


def offers_in_shell(problem: Problem, command: Command) -> list[str]:
    """What a problem offers, a line each."""
    lines = [in_shell(remedy, command) for remedy in problem.remedies]
    return [line for line in lines if line]
