"""How a command fails: what was asked, what was found, what would work, and an exit code a script can branch on."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tallystick.cli.output import in_encoding
from tallystick.cli.wording import Command, in_shell, offers_in_shell, running_command
from tallystick.errors import (
    BudgetExceeded,
    EpsilonWithoutDelta,
    InvalidInput,
    NotAnswered,
    NotDelivered,
    Problem,
    TallystickError,
)
from tallystick.place import without_secrets
from tallystick.printing import visible

USAGE = 2
INTERRUPTED = 130
BUG = 1
NO_COMMAND = Command()
NOTHING_CHARGED = "nothing was charged and no data was read"

_HEADLINES = {
    1: "Failed",
    2: "Not allowed",
    3: "Denied: budget",
    4: "Refused: it could break a promise",
    5: "Falsified: evidence against the claim",
    6: "Ledger integrity",
    7: "Not authorised",
    8: "Idempotency conflict",
    9: "Unavailable",
    10: "Charged, not delivered",
    130: "Interrupted",
}


_COMMON: Mapping[str, Any] = {"code": "failed", "argument": None, "value": None, "remedies": []}
"""Fields that every error object has, with the values of a failure that says nothing about them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure, ready to be printed either way."""

    kind: str
    exit_code: int
    lines: tuple[str, ...]
    details: dict[str, Any] = field(default_factory=dict)
    headline: str = ""

    def report(self, *, as_json: bool, words: Sequence[str] = ()) -> int:
        """Print it (for people on stderr; with --json also the one object on stdout) and return the exit code.

        Secrets in ``words``, the words of the command line, are left out of what is printed.
        """
        lines = [without_secrets(line, words) for line in self.lines]
        text = [
            f"{self.headline or _HEADLINES[self.exit_code]} (exit {self.exit_code})",
            *(f"  {line}" for line in lines),
        ]
        said = "\n".join(visible(line) for line in text)
        print(in_encoding(said, sys.stderr.encoding), file=sys.stderr)
        if as_json:
            from tallystick.cli.output import print_json

            details = {name: _hidden(value, words) for name, value in self.details.items()}
            head = {"kind": self.kind, "exit_code": self.exit_code, "message": "; ".join(lines)}
            error = {**_COMMON, **head, **details}
            print_json("tallystick/error", {"error": error})
        return self.exit_code


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
    offers = offers_in_shell(error, command)
    common = error.to_data()
    data: dict[str, Any] = {name: common[name] for name in ("code", "argument", "value", "remedies")}
    if isinstance(error, EpsilonWithoutDelta):
        costs = {"pure": error.pure, "with_delta": error.with_delta, "delta": error.delta}
        lines = (*_lines(error), *offers, NOTHING_CHARGED)
        return Failure(kind, code, lines, {**_texts(costs), **data})
    if isinstance(error, InvalidInput):
        asked = command.option(error.argument, error.value) or error.argument
        found = "nothing" if error.value is None else _short(error.value)
        works = [text for text in (error.allowed, *offers) if text]
        lines = (f"asked  {asked}", f"found  {found}", *(f"works  {each}" for each in works))
        details = {"found": _short(error.value), "allowed": ", or ".join(works)}
        return Failure(kind, code, lines, {**details, **data})
    if isinstance(error, BudgetExceeded):
        amounts = _texts({"asked": error.asked, "left": error.left, "limit": error.limit})
        fits = [f"fits: {offer}" for offer in offers]
        return Failure(kind, code, (*_denial(error, amounts), *fits), {**amounts, "fits": offers, **data})
    if isinstance(error, NotDelivered):
        data |= {"charge": error.charge, "key": error.key, "receipt": error.receipt}
    # a statement says itself what is wrong with it, and that need not be a promise
    headline = "Refused" if isinstance(error, NotAnswered) else ""
    lines = (*(_lines(error) or (kind,)), *(f"works  {offer}" for offer in offers))
    return Failure(kind, code, lines, data, headline=headline)


def _lines(error: TallystickError) -> tuple[str, ...]:
    return tuple(error.message.splitlines())


def _texts(amounts: dict[str, Any]) -> dict[str, str]:
    """Amounts as text, without those that are not known."""
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _denial(error: BudgetExceeded, amounts: dict[str, str]) -> tuple[str, ...]:
    """The lines of a denial before what fits; one of an account has its amounts in its message."""
    if error.account is not None:
        return _lines(error)
    shown = "   ".join(f"{name} {amount}" for name, amount in amounts.items())
    return (*_lines(error), *([shown] if shown else []), NOTHING_CHARGED)


def note(message: Warning | str, *_: object, **__: object) -> None:
    """Print a Python warning for a person at a shell: one line on stderr."""
    text = str(message)
    if isinstance(message, Problem):
        command = running_command()
        text = message.text(lambda remedy: in_shell(remedy, command))
    print(in_encoding(f"note: {visible(text)}", sys.stderr.encoding), file=sys.stderr)


_PARSED = (
    (r"Invalid value for '(?P<asked>[^']+)': '(?P<found>.*)' is not a valid int(eger)?\.", "a whole number"),
    (r"Invalid value for '(?P<asked>[^']+)': '(?P<found>.*)' is not a valid float\.", "a number"),
    (r"Invalid value for '(?P<asked>[^']+)': '(?P<found>.*)' is not one of (?P<works>.*)\.", "one of {works}"),
    (r"Missing (argument|option|parameter) '(?P<asked>[^']+)'.*", "a value for it"),
    (r"Option '(?P<asked>[^']+)' requires an argument\.", "a value after it"),
    (r"No such option: (?P<found>\S+)( \(Possible options: (?P<works>.*)\)| Did you mean (?P<near>.*)\?)?", ""),
    (r"No such command '(?P<found>.*?)'\.( Did you mean (?P<near>.*)\?)?", ""),
    (r"Got unexpected extra arguments?( ?\(s\))? \((?P<found>.*)\)", "nothing more than the command takes"),
)
"""What the argument parser says, and what works instead."""


_THE_OTHER = {
    ("tallystick epsilon", "--epsilon"): "tallystick delta EXPR --epsilon E, which reads delta at an epsilon",
    ("tallystick delta", "--delta"): "tallystick epsilon EXPR --delta D, which reads epsilon at a delta",
}
"""Options of a command's twin, of which spelling finds nothing near."""


def from_usage(error: Exception, arguments: Sequence[str]) -> Failure:
    """A command line that could not be read: what of it, what would work, and where to look."""
    message = str(getattr(error, "format_message", lambda: error)())
    if "\n" in message:  # a command without its subcommand: the parser shows all its help
        details = {"code": "usage", "found": message}
        return Failure("UsageError", USAGE, tuple(message.splitlines()), details)
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "tallystick"
    typed = f"tallystick {_short(' '.join(arguments))}".rstrip()
    asked, found, works = _parsed(message, command, typed)
    help_line = f"{command} --help"
    advice = f"{works}; see {help_line}" if works else help_line
    lines = (f"asked  {asked}", f"found  {found}", f"works  {advice}")
    named = {"argument": None if asked == typed else asked, "value": None if found == "nothing" else found}
    shown: dict[str, Any] = {"code": "usage", **named, "asked": asked, "found": found, "works": works or help_line}
    return Failure("UsageError", USAGE, lines, shown)


def _parsed(message: str, command: str, typed: str) -> tuple[str, str, str]:
    """Return what the parser's message says was asked, what was found, and what works, if that is known."""
    for pattern, words in _PARSED:
        parsed = re.fullmatch(pattern, message)
        if parsed is not None:
            parts = {name: text for name, text in parsed.groupdict().items() if text}
            found = parts.get("found", "nothing")
            works = _THE_OTHER.get((command, found)) or _works(words, parts)
            return parts.get("asked", typed), found, works
    return typed, message, ""


def _works(words: str, parts: dict[str, str]) -> str:
    """Return what works instead: these words about the parts of a message, or else the nearest name that there is."""
    if words:
        return words.format(**parts).replace("'", "")
    near = parts.get("near") or parts.get("works")
    return f"{near} (did you mean this?)".replace("'", "") if near else ""


def from_interrupt() -> Failure:
    """A command that its caller stopped."""
    return Failure("Interrupted", INTERRUPTED, ("stopped at your request",), {"code": "interrupted"})


def from_bug(error: BaseException) -> Failure:
    """Anything else is our mistake, and says so."""
    what = f"{type(error).__name__}: {error}"
    lines = ("this is a mistake in tallystick, not in what you asked", what)
    return Failure("Bug", BUG, lines, {"code": "bug", "found": what})


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(str(each) for each in value)
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:197] + "..."
