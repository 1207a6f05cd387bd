"""The list of commands, and the one place where exceptions become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import typer

from tallystick import place
from tallystick.cli import failure
from tallystick.cli.once import once_each
from tallystick.cli.wording import Command, running
from tallystick.errors import TallystickError
from tallystick.printing import visible

app = typer.Typer(
    name="tallystick",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_COMMANDS = (
    ("epsilon", "read.epsilon", "The smallest certified epsilon at a delta."),
    ("delta", "read.delta", "The smallest certified delta at an epsilon."),
    ("compare", "compare.compare", "One composition under every accounting method."),
    ("import", "import_.import_", "Re-price a record of dp-accounting or Opacus."),
    ("explain", "explain.explain", "What a loss means to one person, in words."),
    ("calibrate", "calibrate.calibrate", "The noise, or the number of steps, that meets a goal."),
    ("train", "train.app", ""),
    ("release", "release.release", "One private number, or a column's count, mean or quantile."),
    ("respond", "respond.respond", "Randomize answers locally, or estimate from reports."),
    ("plot", "plot.plot", "Draw a loss into an SVG or PNG file."),
    ("explore", "explore.explore", "A page to play with: sliders for epsilon, rho, mu, DP-SGD."),
    ("theorem", "theorem.theorem", "A statement of the lecture notes, with a live number."),
    ("doctor", "doctor.doctor", "Versions, optional parts, self-check."),
    ("dataset", "dataset.app", ""),
    ("publish", "publish.app", ""),
    ("query", "query.query", "Ask a data set once: plan, pay, answer."),
    ("sql", "sql.sql", "Ask data sets in SQL: plan, pay, answer."),
    ("fit", "fit.app", ""),
    ("card", "card.app", ""),
    ("certificate", "certificate.app", ""),
    ("audit", "audit.app", ""),
    ("budget", "budget.budget", "Limit, used, burn-down, and what still fits."),
    ("ledger", "ledger.app", ""),
    ("account", "account.app", ""),
    ("charge", "charge.app", ""),
    ("demo", "demo.demo", "Publish a table privately in seconds, offline."),
)
"""In the order of the help: name, place in ``cli/commands``, and a line about it unless it has commands of its own."""

for _name, _place, _about in _COMMANDS:
    _module, _, _function = _place.partition(".")
    _found = getattr(import_module(f"tallystick.cli.commands.{_module}"), _function)
    if isinstance(_found, typer.Typer):
        app.add_typer(once_each(_found), name=_name)
    else:
        app.command(_name, short_help=_about)(_found)
once_each(app)


def _version(wanted: bool) -> None:
    if wanted:
        import tallystick

        print(f"tallystick {tallystick.__version__}")
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
    """All commands with their options: made once, for it takes a tenth of a second and one session may run many."""
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
        return failure.Failure("Interrupted", failure.INTERRUPTED, ("stopped at your request",)).report(as_json=as_json)
    except typer.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):  # the argument parser's own exceptions
            return failure.from_usage(error, given).report(as_json=as_json, words=words)
        print(visible(place.without_secrets(traceback.format_exc(), words), lines=True), file=sys.stderr)
        return failure.from_bug(error).report(as_json=as_json, words=words)


def _silence_stdout() -> None:
    """The reader of our output left (``| head``): there is nobody to complain to, not even at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
