"""How a command fails: what was asked, what was found, what would work, and an exit code a script can branch on."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tallystick.errors import BudgetExceeded, EpsilonWithoutDelta, InvalidInput, NotAnswered, TallystickError
from tallystick.place import without_secrets
from tallystick.printing import visible

USAGE = 2
INTERRUPTED = 130
BUG = 1

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
    130: "Interrupted",
}


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
        print("\n".join(visible(line) for line in text), file=sys.stderr)
        if as_json:
            from tallystick.cli.output import print_json

            details = {name: _hidden(value, words) for name, value in self.details.items()}
            error = {"kind": self.kind, "exit_code": self.exit_code, "message": "; ".join(lines), **details}
            print_json("tallystick/error", {"error": error})
        return self.exit_code


def _hidden(value: Any, words: Sequence[str]) -> Any:
    """A detail of a failure without the secrets of the command line."""
    if isinstance(value, str):
        return without_secrets(value, words)
    if isinstance(value, list):
        return [_hidden(each, words) for each in value]
    return value


SHELL_WORDS = (
    ("keys=[...] that are public knowledge", "--keys FILE with groups that are public knowledge"),
    ("keys=ts.private_keys(delta=1e-8)", "--private-keys 1e-8, which finds them in the data"),
    ("public keys (keys=[...], --keys FILE)", "public keys (--keys FILE)"),
    ("public keys, keys=[...],", "public keys, --keys FILE,"),
    (
        "say .per_unit(max_groups= and max_rows_per_group=) before group_by",
        "register it with --max-groups and --max-rows-per-group (dataset add ... --update)",
    ),
    (
        "say .per_unit(max_rows_per_group=) before group_by",
        "register it with --max-rows-per-group (dataset add ... --update)",
    ),
    ("create one with open(name, budget=...)", "create one: tallystick account open NAME --budget EXPR"),
    ("open it without budget=, or raise its limit", "leave its limit out, or raise it: tallystick account raise"),
    ("give delta=, the part", "give --delta, the part"),
    ("rigorous=True needs", "--rigorous needs"),
    ("(delta= or --delta)", "(--delta)"),
    ("rho=0.01, epsilon= and delta=, or a price", "--rho 0.01, --epsilon with --delta, or a price"),
    ("public tables come with public= or --public", "public tables come with --public"),
    ("a file written by Coins.save", "a file that 'tallystick audit coins' wrote"),
    ('kept in the record: why="...", in the shell --why', "kept in the record: --why"),
    (", in SQL or with join_on_unit", ": tallystick sql 'SELECT ... FROM a JOIN b ON a.unit = b.unit'"),
)
"""What messages say in Python, as it stands in the source, and in the shell."""
SHELL_PATTERNS = (
    (r" or \.bounds\(.*?=\(0, 100\)\)", " of dataset add ... --update"),
    (r", tables of one database, or data frames in one ts\.Private\(.*?\}\)", ", or tables of one database"),
    (r", an Arrow, pandas or Polars table, .*data frame$", ""),
    (r", or a column that is declared: types=\{'(.*?)': '(.*?)'\}", r", or dataset add ... --update --type \1=\2"),
    (r" or types=\{.*?: 'number'\}", " of dataset add ... --update"),
    (r": add pure=True\.", ": add --pure."),
    (r": add delta=(\S+)\.(?=\n|$)", r": add --delta \1."),
    (r" key='(.*?)' gives that answer", r" --key \1 gives that answer"),
)


def in_shell(text: str) -> str:
    """A message in the words of the command line.

    >>> in_shell("say .per_unit(max_rows_per_group=) before group_by")
    'register it with --max-rows-per-group (dataset add ... --update)'
    """
    for python, shell in SHELL_WORDS:
        text = text.replace(python, shell)
    for pattern, shell in SHELL_PATTERNS:
        text = re.sub(pattern, shell, text)
    return text


_OFFERS = (
    (r"(^|fits: |, or |alone: )(rho|epsilon)=([0-9.e+-]+)", r"\1--\2 \3"),
    (r"(^|fits: |, or )max_groups=([0-9]+)", r"\1dataset add ... --update --max-groups \2"),
)


_LISTED = "public keys (--keys FILE)"
_LISTED_IN_SQL = "(VALUES ('a'), ('b')) AS k(column) LEFT JOIN ..., or dataset add ... --update --keys COLUMN=FILE"


def offers_in_shell(text: str, given: Sequence[str] = ()) -> str:
    """What a denial offers, as options of the command that was given.

    >>> offers_in_shell("fits: rho=0.04 (n +-9 instead of +-3 at 95%), or max_groups=2 (fewer groups per unit)")
    'fits: --rho 0.04 (n +-9 instead of +-3 at 95%), or dataset add ... --update --max-groups 2 (fewer groups per unit)'
    """
    for pattern, shell in _OFFERS:
        text = re.sub(pattern, shell, text, flags=re.MULTILINE)
    return in_shell(text).replace(_LISTED, _LISTED_IN_SQL if "sql" in given[:1] else _LISTED)


_OPTIONS = {"keys": "--keys", "measures": "--measures", "source": "the source", "group_by": "--by"}


def _as_option(argument: str, given: Sequence[str]) -> str:
    """The option that an argument of ours came from, if there is one of its name on the command line.

    >>> _as_option("max_groups", ["dataset", "add", "--max-groups", "0"]), _as_option("types['age']", ["--type", "a=b"])
    ('--max-groups', '--type')
    """
    option = "--type" if argument.startswith("types[") else "--" + argument.split()[0].replace("_", "-")
    there = any(word == option or word.startswith(f"{option}=") for word in given)
    return option if there else _OPTIONS.get(argument, argument)


def from_error(error: TallystickError, given: Sequence[str] = ()) -> Failure:
    """A failure tallystick raised on purpose; its message already names the way out."""
    kind, code = type(error).__name__, error.exit_code
    if isinstance(error, EpsilonWithoutDelta):
        costs = {"pure": error.pure, "with_delta": error.with_delta, "delta": error.delta}
        details = {name: str(cost) for name, cost in costs.items() if cost is not None}
        return Failure(kind, code, tuple(in_shell(str(error)).splitlines()), details)
    if isinstance(error, InvalidInput):
        asked, allowed = _as_option(error.argument, given), in_shell(error.allowed) + _whole_count(error)
        found = "nothing" if error.value is None else _short(error.value)
        details = {"argument": error.argument, "found": _short(error.value), "allowed": allowed}
        return Failure(kind, code, (f"asked  {asked}", f"found  {found}", f"works  {allowed}"), details)
    if isinstance(error, BudgetExceeded):
        amounts = {"asked": error.asked, "left": error.left, "limit": error.limit}
        details = {name: str(amount) for name, amount in amounts.items() if amount is not None}
        shown = "   ".join(f"{name} {amount}" for name, amount in details.items())
        offers = [offers_in_shell(line, given) for line in error.fits]
        if "\n" in str(error):  # a ledger's denial already says all of it, in words
            lines = tuple(offers_in_shell(str(error), given).splitlines())
            return Failure(kind, code, lines, {**details, "fits": offers})
        said = (str(error), *([shown] if shown else []), "nothing was charged and no data was read")
        fits = (f"fits: {', or '.join(offers)}",) if offers else ()
        return Failure(kind, code, (*said, *fits), {**details, "fits": offers})
    lines = tuple(in_shell(str(error)).splitlines()) or (kind,)
    # a statement says itself what is wrong with it, and that need not be a promise
    return Failure(kind, code, lines, headline="Refused" if isinstance(error, NotAnswered) else "")


def _whole_count(error: InvalidInput) -> str:
    """What to do with epochs * examples / batch: a step more costs more, so up is the side that may be reported."""
    number = error.value
    if error.argument != "count" or not isinstance(number, float) or not 0.0 < number < 1e9 or number.is_integer():
        return ""
    return f"; round it up, to {math.ceil(number)}: one step too many is on the safe side"


def note(message: Warning | str, *_: object, **__: object) -> None:
    """A Python warning as a person at a shell reads it: one line on stderr."""
    print(f"note: {visible(in_shell(str(message)))}", file=sys.stderr)


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
        return Failure("UsageError", USAGE, tuple(message.splitlines()), {"found": message})
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "tallystick"
    asked, found, works = f"tallystick {_short(' '.join(arguments))}".rstrip(), message, ""
    for pattern, words in _PARSED:
        if parsed := re.fullmatch(pattern, message):
            parts = {name: text for name, text in parsed.groupdict().items() if text}
            asked, found = parts.get("asked", asked), parts.get("found", "nothing")
            near = parts.get("near") or ("" if words else parts.get("works"))
            works = words.format(**parts) or (f"{near} (did you mean this?)" if near else "")
            works = _THE_OTHER.get((command, found), works.replace("'", ""))
    help_line = f"{command} --help"
    lines = (f"asked  {asked}", f"found  {found}", f"works  {works}{'; see ' * bool(works)}{help_line}")
    return Failure("UsageError", USAGE, lines, {"asked": asked, "found": found, "works": works or help_line})


def from_bug(error: BaseException) -> Failure:
    """Anything else is our mistake, and says so."""
    what = f"{type(error).__name__}: {error}"
    return Failure("Bug", BUG, ("this is a mistake in tallystick, not in what you asked", what), {"found": what})


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(str(each) for each in value)
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:197] + "..."
