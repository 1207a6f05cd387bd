"""Failures of commands: the problem with its value, the place, a command that works, and an exit code for scripts."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tallystick.cli.output import in_encoding
from tallystick.cli.streams import or_silence
from tallystick.cli.wording import Command, Way, in_shell, running_command, ways_in_shell
from tallystick.errors import (
    BudgetExceeded,
    EpsilonWithoutDelta,
    InvalidInput,
    NotDelivered,
    Problem,
    TallystickError,
)
from tallystick.place import without_secrets
from tallystick.printing import visible
from tallystick.wording import number_text

USAGE = 2
INTERRUPTED = 130
BUG = 1
NO_COMMAND = Command()
NOTHING_CHARGED = "Nothing was charged and no data was read."

_LABELS = {
    1: "Failed",
    2: "Error",
    3: "Denied",
    4: "Refused",
    5: "Falsified",
    6: "Ledger integrity",
    7: "Not authorised",
    8: "Key conflict",
    9: "Unavailable",
    10: "Charged, not delivered",
    130: "Interrupted",
}
"""The first word of a failure, by its exit code; the code itself is for scripts."""
WIDTH = 100
"""Columns up to which the effect of a way stands beside what to type."""


_COMMON: Mapping[str, Any] = {"code": "failed", "argument": None, "value": None, "remedies": []}
"""Fields that every error object has, with the values of a failure that says nothing about them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure, ready to be printed either way: sentences, amounts in a small block, and ways out."""

    kind: str
    exit_code: int
    lines: tuple[str, ...]
    details: dict[str, Any] = field(default_factory=dict)
    amounts: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[Way, ...] = ()
    are_choices: bool = False
    """True if the ways have names: each is the same request at another cost."""

    def report(self, *, as_json: bool, words: Sequence[str] = ()) -> int:
        """Print it (for people on stderr; with --json also the one object on stdout) and return the exit code.

        Secrets in ``words``, the words of the command line, are left out of what is printed.
        """
        text = "\n".join(visible(without_secrets(line, words)) for line in self.text())
        print(in_encoding(text, sys.stderr.encoding), file=sys.stderr)
        if as_json:
            from tallystick.cli.output import print_json

            details = {name: _hidden(value, words) for name, value in self.details.items()}
            message = without_secrets(" ".join(self.lines), words)
            head = {"kind": self.kind, "exit_code": self.exit_code, "message": message}
            error = {**_COMMON, **head, **details}
            with or_silence():
                print_json("tallystick/error", {"error": error})
        return self.exit_code

    def text(self) -> list[str]:
        """Return the lines that a person reads."""
        label = _LABELS[self.exit_code]
        first, *others = self.lines or (self.kind,)
        lines = [f"{label}: {first}", *(f"  {line}" for line in others)]
        if self.amounts:
            lines += ["", *_block(self.amounts)]
        if self.ways:
            lines += self._listed(label)
        return lines

    def _listed(self, label: str) -> list[str]:
        """Return the ways out: a list of choices with their names, or what to try."""
        if self.are_choices:
            return ["", "Any one of these works:", *_columns([(way.label, way) for way in self.ways], "  ")]
        heads = ["Try:", *[""] * (len(self.ways) - 1)]
        width = len(label) + 1
        return _columns([(head.ljust(width), way) for head, way in zip(heads, self.ways, strict=True)], "", " ")


def _block(amounts: Mapping[str, str]) -> list[str]:
    """Return names and amounts in two columns."""
    width = max(len(name) for name in amounts)
    return [f"  {name.ljust(width)}   {amount}" for name, amount in amounts.items()]


def _columns(rows: Sequence[tuple[str, Way]], indent: str, gap: str = "   ") -> list[str]:
    """Return names, what to type, and its effect: beside it, or below a whole command and a long line."""
    width = max(len(name) for name, _ in rows)
    options = [len(way.action) for _, way in rows if not way.is_command]
    lines = []
    for name, way in rows:
        start = f"{indent}{name.ljust(width)}{gap}"
        beside = f"{start}{way.action.ljust(max(options, default=0))}   {way.effect}"
        if way.effect and not way.is_command and len(beside) <= WIDTH:
            lines.append(beside)
            continue
        lines.append(f"{start}{way.action}")
        if way.effect:
            lines.append(f"{' ' * len(start)}{way.effect}")
    return lines


def _hidden(value: Any, words: Sequence[str]) -> Any:
    """A detail of a failure without the secrets of the command line."""
    if isinstance(value, str):
        return without_secrets(value, words)
    if isinstance(value, list):
        return [_hidden(each, words) for each in value]
    if isinstance(value, dict):
        return {name: _hidden(each, words) for name, each in value.items()}
    return value


def from_error(error: TallystickError, command: Command = NO_COMMAND) -> Failure:
    """A failure that tallystick raised on purpose, with its remedies in the words of the shell."""
    kind, code = type(error).__name__, error.exit_code
    ways = tuple(ways_in_shell(error, command))
    common = error.to_data()
    data: dict[str, Any] = {name: common[name] for name in ("code", "argument", "value", "remedies")}
    if isinstance(error, EpsilonWithoutDelta):
        costs = {"pure": error.pure, "with_delta": error.with_delta, "delta": error.delta}
        lines = tuple(_sentence(line) for line in _lines(error))
        return Failure(kind, code, (*lines, NOTHING_CHARGED), {**_texts(costs), **data}, ways=ways, are_choices=True)
    if isinstance(error, InvalidInput):
        details = {"allowed": error.allowed}
        return Failure(kind, code, (_invalid(error, command),), {**details, **data}, ways=ways)
    if isinstance(error, BudgetExceeded):
        amounts = _texts({"needed": error.asked, "left": error.left, "limit": error.limit})
        offers = [str(way) for way in ways]
        facts: dict[str, Any] = {**amounts, "fits": offers, **data}
        return Failure(kind, code, _denial(error), facts, _shown(error), ways, are_choices=True)
    if isinstance(error, NotDelivered):
        data |= {"charge": error.charge, "key": error.key, "receipt": error.receipt}
    lines = tuple(_sentence(line) for line in _lines(error) or (kind,))
    return Failure(kind, code, lines, data, ways=ways)


def _invalid(error: InvalidInput, command: Command) -> str:
    """The problem with its value, and what is allowed."""
    allowed = f" {_sentence(f'Give {error.allowed}')}" if error.allowed else ""
    if error.problem:
        return f"{_sentence(error.message)}{allowed}"
    name = command.option(error.argument, error.value) or error.argument
    if error.value is None:
        return f"{name} is missing.{allowed}"
    return f"{name} is {_short(error.value)}.{allowed}"


def _sentence(text: str) -> str:
    """The text with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!", ":")) else f"{text}."


def _lines(error: TallystickError) -> tuple[str, ...]:
    return tuple(error.message.splitlines())


def _texts(amounts: dict[str, Any]) -> dict[str, str]:
    """Amounts as text, without those that are not known."""
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _shown(error: BudgetExceeded) -> dict[str, str]:
    """The block of a denial: what was needed, and what is left of the limit."""
    from tallystick.ledger.denial import needed_and_left  # loads the ledger
    from tallystick.ledger.filters import Amount

    amounts = (error.asked, error.left, error.limit)
    if error.account is None or not all(isinstance(each, Amount) for each in amounts):  # from outside, plain data
        return _texts({"needed": error.asked, "left": error.left, "limit": error.limit})
    needed, left = needed_and_left(*amounts)
    return {"needed": needed, "left": left}


def _denial(error: BudgetExceeded) -> tuple[str, ...]:
    """The sentences of a denial; amounts are in its block."""
    if error.account is None:
        return (*(_sentence(line) for line in _lines(error)), NOTHING_CHARGED)
    return (f"the budget of {error.account} is too small. {NOTHING_CHARGED}",)


def note(message: Warning | str, *_: object, **__: object) -> None:
    """Print a Python warning for a person at a shell: one line on stderr."""
    text = str(message)
    if isinstance(message, Problem):
        command = running_command()
        text = message.text(lambda remedy: in_shell(remedy, command))
    print(in_encoding(f"note: {visible(text)}", sys.stderr.encoding), file=sys.stderr)


_PARSED = (
    (r"Invalid value for '(?P<name>[^']+)': '(?P<value>.*)' is not a valid int(eger)?\.", "a whole number"),
    (r"Invalid value for '(?P<name>[^']+)': '(?P<value>.*)' is not a valid float\.", "a number"),
    (r"Invalid value for '(?P<name>[^']+)': '(?P<value>.*)' is not one of (?P<listed>.*)\.", "one of {listed}"),
    (r"Invalid value for '(?P<name>[^']+)': '(?P<value>.*)' is not (?P<listed>.*)", "{listed}"),
    (r"Missing (argument|option|parameter) '(?P<name>[^']+)'.*", ""),
    (r"Option '(?P<name>[^']+)' requires an argument\.", ""),
    (r"No such option: (?P<option>\S+)( \(Possible options: (?P<near>.*)\)| Did you mean (?P<nearest>.*)\?)?", ""),
    (r"No such command '(?P<command>.*?)'\.( Did you mean (?P<nearest>.*)\?)?", ""),
    (r"Got unexpected extra arguments?( ?\(s\))? \((?P<extra>.*)\)", ""),
)
"""What the argument parser says, and what is allowed."""


_THE_OTHER = {
    ("tallystick epsilon", "--epsilon"): "tallystick delta EXPR --epsilon E",
    ("tallystick delta", "--delta"): "tallystick epsilon EXPR --delta D",
}
"""Options of a command's twin, of which spelling finds nothing near."""


def from_usage(error: Exception) -> Failure:
    """A command line that could not be read: what of it, what is allowed, and where to look."""
    message = str(getattr(error, "format_message", lambda: error)())
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "tallystick"
    if "\n" in message:  # a command without its subcommand: the parser shows all its help
        return Failure("UsageError", USAGE, ("a command is missing.", *message.splitlines()), {"code": "usage"})
    parts, sentence = _parsed(message, command)
    value = next((parts[name] for name in ("value", "option", "command", "extra") if name in parts), None)
    details = {"code": "usage", "argument": parts.get("name"), "value": value}
    return Failure("UsageError", USAGE, (f"{sentence} See {command} --help.",), details)


def _parsed(message: str, command: str) -> tuple[dict[str, str], str]:
    """Return the parts of the parser's message, and sentences with the value and what is allowed."""
    for pattern, allowed in _PARSED:
        parsed = re.fullmatch(pattern, message)
        if parsed is not None:
            parts = {name: text for name, text in parsed.groupdict().items() if text}
            return parts, _told(parts, allowed, command)
    return {}, _sentence(message)


def _told(parts: dict[str, str], allowed: str, command: str) -> str:
    """Return the sentences about the parts of a message of the parser."""
    near = (parts.get("nearest") or parts.get("near") or "").replace("'", "")
    meant = f" Did you mean {near}?" if near else ""
    if "option" in parts:
        other = _THE_OTHER.get((command, parts["option"]))
        return f"unknown option {parts['option']}.{f' Use {other}.' if other else meant}"
    if "command" in parts:
        return f"unknown command {parts['command']}.{meant}"
    if "extra" in parts:
        return f"unexpected argument {parts['extra']}."
    if "value" not in parts:
        return f"{parts['name']} is missing."
    give = allowed.format(**parts).replace("'", "")
    return f"{parts['name']} is {_short(parts['value'])}. Give {give}."


def from_bug(error: BaseException) -> Failure:
    """Anything else is our mistake, and says so."""
    what = f"{type(error).__name__}: {error}"
    lines = ("this is a mistake in tallystick, not in your command.", what)
    return Failure("Bug", BUG, lines, {"code": "bug"})


def _short(value: object) -> str:
    """A value as a sentence shows it: text as it was typed, a number as short as it can be."""
    if isinstance(value, list | tuple):
        value = ", ".join(str(each) for each in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = value if isinstance(value, str) else number_text(value) if is_number else repr(value)
    text = " ".join(text.split())
    if not text:
        return "empty"
    return text if len(text) <= 200 else text[:197] + "..."
