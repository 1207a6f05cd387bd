"""The list of commands, each imported when it is asked for, and the one place where exceptions become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from tallystick import __version__, place
from tallystick.cli import failure
from tallystick.cli.interruption import from_interrupt, stopped_alike
from tallystick.cli.once import once_each
from tallystick.cli.streams import silence_stdout, standard_streams, to_stdout
from tallystick.cli.wording import Command, running
from tallystick.errors import NotCharged, TallystickError
from tallystick.printing import visible
from tallystick.taken_charges import taken_charges

_COMMANDS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "Publish": (
        ("dataset", "dataset.app", "Register a table and the people it protects"),
        ("publish", "publish.app", "Plan a table, then publish it"),
        ("sql", "sql.sql", "Query registered datasets in SQL"),
        ("query", "query.query", "Query one dataset without SQL"),
        ("fit", "fit.app", "Fit a linear or logistic model"),
        ("card", "card.app", "Show and verify privacy cards"),
    ),
    "Budget": (
        ("budget", "budget.budget", "Show what is used and what still fits"),
        ("account", "account.app", "Open, raise, share or close a budget"),
        ("charge", "charge.app", "List charges, or record one made elsewhere"),
        ("ledger", "ledger.app", "Create, verify, export the record; roles"),
        ("token", "token.app", "Make and end tokens for programs"),
        ("serve", "serve.app", "Run a service for a team"),
    ),
    "Account for privacy": (
        ("epsilon", "read.epsilon", "Compute epsilon at a delta"),
        ("delta", "read.delta", "Compute delta at an epsilon"),
        ("explain", "explain.explain", "Say what a privacy loss means for a person"),
        ("compare", "compare.compare", "Compare accounting methods"),
        ("calibrate", "calibrate.calibrate", "Find the noise that meets a goal"),
        ("train", "train.app", "Plan a private training run"),
        ("plot", "plot.plot", "Draw a privacy loss or a published table"),
    ),
    "Check": (
        ("audit", "audit.app", "Test a privacy claim"),
        ("certificate", "certificate.app", "Write or check a proof of an epsilon"),
        ("import", "import_.import_", "Check a record of dp-accounting or Opacus"),
    ),
    "Learn": (
        ("demo", "demo.demo", "Run a story: publish, train, attack"),
        ("explore", "explore.explore", "Write an interactive page about epsilon"),
        ("theorem", "theorem.theorem", "Look up a theorem of the lecture notes"),
    ),
    "Other": (
        ("release", "release.release", "Add noise to one number (not recorded)"),
        ("respond", "respond.respond", "Randomize survey answers"),
        ("doctor", "doctor.doctor", "Check the installation"),
    ),
}
"""The groups of the help. Each line: name, place in ``cli/commands``, and what the command does."""


_PLACES = {name: (where, about) for group in _COMMANDS.values() for name, where, about in group}


@cache
def _imported(name: str) -> Any:
    """Return a command with its options. Its module is imported now, so that ``tallystick --help`` is quick."""
    where, about = _PLACES[name]
    module, _, member = where.partition(".")
    command = getattr(import_module(f"tallystick.cli.commands.{module}"), member)
    shelf = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        shelf.add_typer(once_each(command), name=name)
    else:
        shelf.command(name, short_help=about)(command)
    return typer.main.get_group(once_each(shelf)).commands[name]


class Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)

    def __getitem__(self, name: str) -> Any:
        return _imported(name)


class LazyGroup(TyperGroup):
    """A group that imports its commands one by one, and prints its help without them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": Commands()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if the name is unknown."""
        return _imported(cmd_name) if cmd_name in _PLACES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of all commands into the help, in groups; nothing is cut off."""
        for title, group in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, _, about in group], col_spacing=4)


app = typer.Typer(
    name="tallystick",
    cls=LazyGroup,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tallystick {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Publish statistics with differential privacy and a budget that is recorded. First time? tallystick demo"""
    if context.invoked_subcommand is None:
        print(context.get_help())


@cache
def _parser() -> Any:
    """Return the parser of the command line. It keeps the commands that were imported: one session may run many."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way out of it is an exit code of ``errors.py`` or ``failure.py``."""
    with standard_streams(), stopped_alike(), taken_charges() as charges:
        return _run(arguments, charges)


def _run(arguments: Sequence[str] | None, charges: Sequence[Any]) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    words = [*given, os.environ.get("TALLYSTICK_LEDGER", "")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("ignore", NotCharged)  # of Python: no command gives a charge to its caller
            warnings.showwarning = failure.note
            with running(_parser(), given):
                code = _parser().main(given, prog_name="tallystick", standalone_mode=False)
        with to_stdout():
            pass  # flushes what commands printed themselves
        if code == failure.INTERRUPTED:  # how the argument parser reports Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except TallystickError as error:
        return failure.from_error(error, Command.of(_parser(), given)).report(as_json=as_json, words=words)
    except (KeyboardInterrupt, typer.Abort):
        command = Command.of(_parser(), given)
        return from_interrupt(charges, command).report(as_json=as_json, words=words)
    except typer.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        silence_stdout()
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):  # the argument parser's own exceptions
            return failure.from_usage(error).report(as_json=as_json, words=words)
        print(visible(place.without_secrets(traceback.format_exc(), words), lines=True), file=sys.stderr)
        return failure.from_bug(error).report(as_json=as_json, words=words)
