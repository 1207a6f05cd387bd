"""Answers of commands: one JSON object, or the same numbers for a person.

Answers go to stdout. Cost, files, progress and complaints go to stderr. Colour appears only on a terminal and never
with NO_COLOR.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import place as places
from tallystick.cli.streams import to_stdout
from tallystick.printing import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tallystick.cli.outcomes import Performed

VERSION = 1

# The options that most commands share, written once so that their help texts agree.
Expression = Annotated[
    str, typer.Argument(metavar="EXPR", help='A loss, such as "1000 * gaussian(sigma=1).sampled(rate=0.01)".')
]
Json = Annotated[bool, typer.Option("--json", help="Print one versioned JSON object instead of text.")]
Place = Annotated[
    str | None,
    typer.Option("--ledger", metavar="PATH|URL", help="The ledger (default $TALLYSTICK_LEDGER, then ./tallystick.db)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]
Details = Annotated[bool, typer.Option("--details", help="Also print how the numbers were made.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result, or the names of files.")]
Why = Annotated[str, typer.Option("--why", help="The reason; it is kept in the record.")]


@dataclass(frozen=True, slots=True)
class Answer:
    """A request, its result, and a function that prints the result for people."""

    command: str
    asked: Mapping[str, Any]
    found: Mapping[str, Any]
    say: Callable[[Console], None]


def deliver(answer: Answer, *, as_json: bool, done: Performed | None = None, screen: Screen | None = None) -> None:
    """Print the answer to stdout in the form that was asked for, and write the files of a request that was paid.

    People read what was charged before a file can fail. With --json the one object says what became of the files.
    """
    recorded = None if done is None else done.recorded("stdout")
    if as_json:
        files = {} if done is None else done.write()
        with to_stdout(recorded):
            print_json(f"tallystick/{answer.command}", {"asked": answer.asked, "found": {**answer.found, **files}})
        return
    try:
        with to_stdout(recorded):
            answer.say(console())
    finally:
        shown_on = screen or Screen()
        paths = {} if done is None else done.write(shown_on)
    with to_stdout(recorded):
        shown_on.wrote(list(paths.values()))


@dataclass(frozen=True, slots=True)
class Screen:
    """Screen of a person: results on stdout, everything else on stderr."""

    quiet: bool = False
    """True if only results are printed."""

    def result(self, lines: Iterable[str]) -> None:
        """Print lines of a result as they are: a table is not wrapped."""
        out = console()
        for line in lines:
            out.print(line, soft_wrap=True, markup=False)

    def wrote(self, paths: Sequence[str]) -> None:
        """Print the names of the files that were written."""
        if self.quiet:
            self.result(paths)
        elif paths:
            self.note([f"Wrote    {', '.join(paths)}"])

    def note(self, lines: Iterable[str]) -> None:
        """Print lines beside a result, wrapped at the width of the terminal."""
        if self.quiet:
            return
        errors = console(stderr=True)
        for line in lines:
            errors.print(line, soft_wrap=not errors.is_terminal, markup=False)


def print_json(schema: str, body: Mapping[str, Any]) -> None:
    """One object on one line; infinity is written as the string "inf", because JSON has no infinity."""
    document = {"schema": schema, "version": VERSION, **body}
    text = json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)
    if not text.isprintable() or in_encoding(text, sys.stdout.encoding) != text:  # JSON escapes what is below 32 only
        text = json.dumps(_plain(document), allow_nan=False).replace("\x7f", "\\u007f")
    sys.stdout.write(text + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, places.Place):
        return value.to_data()
    number = float(value)
    return number if math.isfinite(number) else str(number)


def console(*, stderr: bool = False) -> Console:
    """A console that does not fold lines at 80 columns when the output is a file or a pipe."""
    from rich.console import Console

    class Careful(Console):
        """All text, that of table cells too, becomes output here: what a terminal would obey is shown instead."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(in_encoding(visible(text, lines=True), stream.encoding), **options)

        def on_broken_pipe(self) -> None:
            """Leave it to the caller what a reader that left means: the library would end the process."""
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    return Careful(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else 160)


def in_encoding(text: str, encoding: str | None) -> str:
    """Return the text with ``+-`` for ``±``, and escapes, if the output cannot carry its characters.

    >>> in_encoding("count ±20", "ascii"), in_encoding("count ±20", "utf-8")
    ('count +-20', 'count ±20')
    >>> print(in_encoding("Zürich", "ascii"))
    Z\\xfcrich
    """
    name = encoding or "utf-8"
    try:
        text.encode(name)
    except UnicodeEncodeError:
        return text.replace("±", "+-").encode(name, "backslashreplace").decode(name)
    return text


def _one_line(text: str, width: int) -> Text:
    """Return a text that is cut off so that it fits in one line beside a spinner."""
    from rich.text import Text

    line = Text(visible(text))
    line.truncate(width - len("* "), overflow="ellipsis")
    return line


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while ``what`` is done; nothing when stderr is not a terminal. Call it to say the stage."""
    errors = console(stderr=True)
    if not errors.is_terminal:
        yield lambda stage: None
        return
    with errors.status(what) as status:
        yield lambda stage: status.update(_one_line(f"{what}: {stage}", errors.width))
