"""The list of commands, and the one place where exceptions become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from tallystick.cli import failure
from tallystick.cli.commands import (
    account,
    budget,
    calibrate,
    card,
    charge,
    compare,
    dataset,
    demo,
    doctor,
    explain,
    import_,
    ledger,
    plot,
    publish,
    query,
    read,
    release,
    respond,
    theorem,
)
from tallystick.errors import TallystickError

app = typer.Typer(
    name="tallystick",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

app.command("epsilon", short_help="The smallest certified epsilon at a delta.")(read.epsilon)
app.command("delta", short_help="The smallest certified delta at an epsilon.")(read.delta)
app.command("compare", short_help="One composition under every accounting method.")(compare.compare)
app.command("import", short_help="Re-price a record of dp-accounting or Opacus.")(import_.import_)
app.command("explain", short_help="What a loss means to one person, in words.")(explain.explain)
app.command("calibrate", short_help="The noise, or the number of steps, that meets a goal.")(calibrate.calibrate)
app.command("release", short_help="One private number, or a column's count, mean or quantile.")(release.release)
app.command("respond", short_help="Randomize answers locally, or estimate from reports.")(respond.respond)
app.command("plot", short_help="Draw a loss into an SVG or PNG file.")(plot.plot)
app.command("theorem", short_help="A statement of the lecture notes, with a live number.")(theorem.theorem)
app.command("doctor", short_help="Versions, optional parts, self-check.")(doctor.doctor)
app.add_typer(dataset.app, name="dataset")
app.add_typer(publish.app, name="publish")
app.command("query", short_help="Ask a dataset once: plan, pay, answer.")(query.query)
app.add_typer(card.app, name="card")
app.command("budget", short_help="Limit, used, burn-down, and what still fits.")(budget.budget)
app.add_typer(ledger.app, name="ledger")
app.add_typer(account.app, name="account")
app.add_typer(charge.app, name="charge")
app.command("demo", short_help="Publish a table privately in seconds, offline.")(demo.demo)


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


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way out of it is an exit code of product.md's table."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        code = typer.main.get_command(app).main(given, prog_name="tallystick", standalone_mode=False)
        sys.stdout.flush()
        if code == failure.INTERRUPTED:  # how the argument parser reports Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except TallystickError as error:
        return failure.from_error(error).report(as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return failure.Failure("Interrupted", failure.INTERRUPTED, ("stopped at your request",)).report(as_json=as_json)
    except typer.Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):  # the argument parser's own exceptions
            return failure.from_usage(error, given).report(as_json=as_json)
        traceback.print_exc()
        return failure.from_bug(error).report(as_json=as_json)


def _silence_stdout() -> None:
    """The reader of our output left (``| head``): there is nobody to complain to, not even at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
