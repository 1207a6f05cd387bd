"""``tallystick demo``: a table about 10,000 people who do not exist is published; a second query is denied.

Every command that the story shows is really run, in this process, with the exit code that is printed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Json, console, print_json
from tallystick.errors import InvalidInput, TallystickError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure
    from rich.console import Console

FILES = "files"
"""The word that writes files and tells no story."""
STORIES = {
    "learn": "learning_story",
    "holdout": "holdout_story",
    "reconstruct": "reconstruct_story",
    "differencing": "differencing_story",
    "linkage": "linkage_story",
    "curves": "curves_story",
    "race": "race_story",
    "iterate": "iterate_story",
    "local": "local_story",
    "game": "game_story",
    "six": "six_story",
}
"""A story is a file beside this one, with a function of its name."""
OWN_FILES = ("demo-ledger.db", "demo-ledger.db-wal", "demo-ledger.db-shm", "demo-ledger.db.datasets.json")


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One command of the story: why it is run, its words, and the exit code it must have."""

    why: str
    words: str
    code: int = 0


def demo(
    story: Annotated[
        str | None,
        typer.Argument(
            help="Another story, or 'files': only write the files that the guides use.",
            metavar=f"[{'|'.join((FILES, *STORIES))}]",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(help="With 'files': the folder for them.", metavar="[FOLDER]")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for the demo's files.")] = Path("tallystick-demo"),
    accounting: Annotated[
        bool, typer.Option("--accounting", help="The accounting story instead: a year at a clinic, without data.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Publish a table privately, be denied a second one, verify the record, get a privacy card. Offline, seconds."""
    if story == FILES:
        from tallystick.cli.commands.demo_files import write_files

        write_files(folder or out, as_json=as_json)
        return
    if folder is not None:
        raise InvalidInput("folder", str(folder), f"no folder here: 'demo {FILES} FOLDER' takes one, stories take out")
    if story is not None:
        if story not in STORIES:
            allowed = f"{FILES}, {', '.join(STORIES)}, or nothing for the story of a published table"
            raise InvalidInput("story", story, allowed)
        told = importlib.import_module(f"tallystick.cli.commands.{STORIES[story]}")
        getattr(told, STORIES[story])(out, as_json=as_json)
        return
    if accounting:
        from tallystick.cli.commands.accounting_story import accounting_story

        accounting_story(out, as_json=as_json)
        return
    _prepare(out)
    steps = _steps(out)
    stages: list[dict[str, Any]] = []
    screen = None if as_json else console()
    if screen:
        screen.print("[bold]A clinic publishes a table[/bold] about 10,000 synthetic people, one year of visits.")
    for number, step in enumerate(steps, 1):
        code, text = _run([*shlex.split(step.words), *(["--json"] if as_json else [])])
        if code != step.code:
            raise TallystickError(f"the demo's step {number} ended with {code}, not {step.code}:\n{text}")
        stages.append({"why": step.why, "command": f"tallystick {step.words}", "exit_code": code, "said": text})
        if screen:
            _say(screen, number, step, text)
    card, following = out / "card.html", _next(out)
    if screen is None:
        facts = [{**each, "said": _document(each["said"])} for each in stages]
        asked, files = {"out": str(out), "accounting": False}, {"card": str(card), "table": str(out / "table.csv")}
        print_json("tallystick/demo", {"asked": asked, "found": {"steps": facts, **files, "next": following}})
        return
    screen.print("\n[bold]The privacy card[/bold]: open it in a browser, or print it")
    screen.print(str(card), soft_wrap=True, markup=False)
    screen.print("\nTry next:")
    for command in following:
        screen.print(f"  {command}", soft_wrap=True, markup=False)


def drawn_into(folder: Path, name: str, draw: Callable[[], Figure]) -> Path | None:
    """A story's picture, in its folder; None without matplotlib, because the story needs no picture."""
    from tallystick.plots import save

    try:
        figure = draw()
    except Unavailable:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(folder), f"a folder that can be written ({error.strerror})") from error
    return save(figure, folder / name)


def _prepare(folder: Path) -> None:
    """The demo's files, fresh: the data, the public list of groups, and no ledger of an earlier demo."""
    from tallystick.cli.commands.demo_files import regions
    from tallystick.cli.demo_data.make_visits import bundled

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in OWN_FILES:
            (folder / name).unlink(missing_ok=True)
        (folder / "visits.csv").write_bytes(bundled())
        (folder / "regions.csv").write_bytes(regions())
        start_again(folder / "demo-ledger.db")
    except OSError as error:
        raise InvalidInput("out", str(folder), f"a folder that can be written ({error.strerror})") from error


def start_again(ledger: Path) -> None:
    """Make an empty ledger where an earlier demo had one, which this host remembers."""
    from tallystick.ledger import Ledger

    Ledger(ledger, first_use="the demo starts again").close()


def _steps(folder: Path) -> tuple[StoryStep, ...]:
    def at(name: str) -> str:
        return shlex.quote(str(folder / name))

    ledger = f"--ledger {at('demo-ledger.db')}"
    files = f"--out {at('table.csv')} --card {at('card.html')}"
    run = f"publish run {at('table.plan.json')} --key report-t1 --why 'annual report' {files} {ledger}"
    return (
        StoryStep(
            "Register the table once: the people it protects, limits per person, bounds, and one budget for all tables",
            f"dataset add {at('visits.csv')} --population patients-2026 --unit patient_id --max-groups 2 "
            "--max-rows-per-group 3 --bounds age=0:110 --limit rho=0.1 --about 'window=1 January to 31 December 2026' "
            "--about 'bounds_from=chosen before the data was seen: no patient is older than 110' "
            "--about 'limit_reason=an example' --about 'decided_by=the demo' --about 'contact=none: synthetic data' "
            + ledger,
        ),
        StoryStep(
            "Plan a table: see cost and error before anything is spent",
            f"publish plan visits --by region,sex --keys {at('regions.csv')} --measures 'count_units,mean(age)' "
            f"--rho 0.06 --out {at('table.plan.json')} {ledger}",
        ),
        StoryStep("Publish it: the budget is charged before the data is read", run),
        StoryStep("Run it again: the same key charges nothing", run),
        StoryStep(
            "Ask for one more table: it does not fit the budget, so it is denied",
            f"query visits --by region --keys {at('regions.csv')} --measures count --rho 0.06 --why curiosity {ledger}",
            code=3,
        ),
        StoryStep("Verify the record", f"ledger verify {ledger}"),
        StoryStep("Verify the card against the record", f"card verify {at('card.html')} {ledger}"),
    )


def _run(words: list[str]) -> tuple[int, str]:
    """One command in this process; what it prints, errors included, unless it answers in JSON."""
    from tallystick.cli.app import run

    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = run(words)
    return code, said.getvalue() if "--json" in words else said.getvalue() + complained.getvalue()


def _say(screen: Console, number: int, step: StoryStep, text: str) -> None:
    """Show a command and all that it printed."""
    screen.print(f"\n[bold]{number}. {step.why}[/bold]")
    screen.print(f"$ tallystick {step.words}", soft_wrap=True, markup=False, style="dim")
    screen.print(text.rstrip(), soft_wrap=True, markup=False)


def _document(text: str) -> Any:
    return json.loads(text)


def _next(folder: Path) -> list[str]:
    ledger = shlex.quote(str(folder / "demo-ledger.db"))
    # After `make demo` the command is in .venv/bin, which is not on the path.
    here = Path(sys.argv[0])
    named = here.name == "tallystick" and not shutil.which("tallystick")
    command = shlex.quote(str(here)) if named else "tallystick"
    return [
        f"{command} card show {shlex.quote(str(folder / 'card.html'))}",
        f"{command} budget --ledger {ledger}",
        f"{command} demo --accounting",
    ]
