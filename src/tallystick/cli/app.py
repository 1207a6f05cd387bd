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
from typer.core import TyperCommand, TyperGroup

from tallystick import __version__, place
from tallystick.cli import failure
from tallystick.cli.once import once_each
from tallystick.cli.wording import Command, running
from tallystick.errors import TallystickError
from tallystick.printing import visible

_COMMANDS = (
    ("epsilon", "read.epsilon", "The smallest certified epsilon at a delta."),
    ("delta", "read.delta", "The smallest certified delta at an epsilon."),
    ("compare", "compare.compare", "One composition under every accounting method."),
    ("import", "import_.import_", "Re-price a record of dp-accounting or Opacus."),
    ("explain", "explain.explain", "What a loss means to one person, in words."),
    ("calibrate", "calibrate.calibrate", "The noise, or the number of steps, that meets a goal."),
    ("release", "release.release", "One private number, or a column's count, mean or quantile."),
    ("respond", "respond.respond", "Randomize answers locally, or estimate from reports."),
    ("plot", "plot.plot", "Draw a loss into an SVG or PNG file."),
    ("explore", "explore.explore", "A page to play with: sliders for epsilon, rho, mu, DP-SGD."),
    ("theorem", "theorem.theorem", "A statement of the lecture notes, with a live number."),
    ("doctor", "doctor.doctor", "Versions, optional parts, self-check."),
    ("query", "query.query", "Ask a data set once: plan, pay, answer."),
    ("sql", "sql.sql", "Ask data sets in SQL: plan, pay, answer."),
    ("budget", "budget.budget", "Limit, used, burn-down, and what still fits."),
    ("demo", "demo.demo", "Publish a table privately in seconds, offline."),
    ("train", "train.app", "A private training run before it runs."),
    ("dataset", "dataset.app", "Register tables under a population."),
    ("publish", "publish.app", "Price a table, then release it."),
    ("fit", "fit.app", "Fit a model of a data set."),
    ("card", "card.app", "Read and check privacy cards."),
    ("certificate", "certificate.app", "Write and check certificates."),
    ("audit", "audit.app", "Try to falsify a privacy claim."),
    ("ledger", "ledger.app", "Make, show, verify, accept, export and import the record."),
    ("account", "account.app", "Open, show, raise and close budgets."),
    ("charge", "charge.app", "What was charged, when and why."),
)
"""In the order of the help: name, place in ``cli/commands``, and the line of the help about it."""


_PLACES = {name: (where, about) for name, where, about in _COMMANDS}


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
        """Return a command, or None if there is none of this name."""
        return _imported(cmd_name) if cmd_name in _PLACES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of all commands into the help."""
        listed: dict[str, Any] = {}
        for name, (where, about) in _PLACES.items():
            is_group = where.endswith(".app")  # the line of a group is cut on a narrow terminal, the others are not
            listed[name] = TyperCommand(name, help=about, short_help=None if is_group else about)
        TyperGroup(commands=listed).format_commands(ctx, formatter)


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
    """What a release costs in privacy, what that means, and what would fit."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@cache
def _parser() -> Any:
    """Return the parser of the command line. It keeps the commands that were imported: one session may run many."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way out of it is an exit code of ``errors.py`` or ``failure.py``."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    words = [*given, os.environ.get("TALLYSTICK_LEDGER", "")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = failure.note
            with running(_parser(), given):
                code = _parser().main(given, prog_name="tallystick", standalone_mode=False)
        sys.stdout.flush()
        if code == failure.INTERRUPTED:  # how the argument parser reports Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except TallystickError as error:
        return failure.from_error(error, Command.of(_parser(), given)).report(as_json=as_json, words=words)
    except (KeyboardInterrupt, typer.Abort):
        return failure.Failure("Interrupted", failure.INTERRUPTED, ("stopped at your request.",)).report(
            as_json=as_json
        )
    except typer.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):  # the argument parser's own exceptions
            return failure.from_usage(error).report(as_json=as_json, words=words)
        print(visible(place.without_secrets(traceback.format_exc(), words), lines=True), file=sys.stderr)
        return failure.from_bug(error).report(as_json=as_json, words=words)


def _silence_stdout() -> None:
    """The reader of our output left (``| head``): there is nobody to complain to, not even at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
