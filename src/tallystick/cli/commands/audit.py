"""``tallystick audit``: try to falsify a claim. Exit code 5 where it was falsified."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, Place, deliver, working
from tallystick.errors import ClaimFalsified, InvalidInput
from tallystick.place import unreadable
from tallystick.regular_file import write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.audit.evidence import Evidence

app = typer.Typer(help="Try to falsify a privacy claim.", no_args_is_help=True, rich_markup_mode=None)

Claim = Annotated[str, typer.Option("--claim", metavar="EXPR", help="The claim, such as 'pure_dp(epsilon=1)'.")]
Significance = Annotated[float, typer.Option("--significance", help="How often a true claim may be falsified.")]
Report = Annotated[Path | None, typer.Option("--report", metavar="PAGE.html", help="Also write an HTML page about it.")]


@app.command()
def mechanism(
    function: Annotated[str, typer.Argument(metavar="FILE.py:FUNCTION", help="A function of one dataset.")],
    first: Annotated[Path, typer.Option("--first", help="A dataset as JSON.")],
    second: Annotated[Path, typer.Option("--second", help="Its neighbour as JSON.")],
    claim: Claim,
    draws: Annotated[int, typer.Option("--draws", help="Draws from each dataset.")] = 20_000,
    significance: Significance = 0.05,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Attack a function on two neighbouring datasets. It bets on an event, and runs the code in FILE.py."""
    from tallystick.accounting.expression import read_loss
    from tallystick.audit.two_sample import mechanism as attack

    report, promised = _page(report), read_loss(claim)
    pair = (_json("first", first), _json("second", second))
    with working("drawing"), redirect_stdout(sys.stderr):  # what the function prints is no part of the verdict
        called = _function(function)
        found = attack(called, neighbours=pair, claim=promised, draws=draws, significance=significance)
    asked = {"function": function, "claim": claim, "draws": draws, "significance": significance}
    _conclude("audit.mechanism", asked, found, report, as_json=as_json)


@app.command()
def table(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What `publish plan --out` wrote.")],
    first: Annotated[Path, typer.Option("--first", help="A small made-up table, CSV.")],
    second: Annotated[Path, typer.Option("--second", help="Its neighbour: one person more, or another person.")],
    claim: Annotated[str | None, typer.Option("--claim", metavar="EXPR", help="Default: what the plan says.")] = None,
    draws: Annotated[int, typer.Option("--draws", help="How often each table is asked.")] = 2_000,
    significance: Significance = 0.05,
    report: Report = None,
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Attack a table plan on two neighbouring tables. They are made up, it bets on an event, and nothing is charged."""
    from tallystick.accounting.expression import read_loss
    from tallystick.audit.plans import check_neighbours
    from tallystick.audit.two_sample import mechanism as attack
    from tallystick.publish.export import read_plan
    from tallystick.tables.sources import unpaid_file

    report, asked_for = _page(report), read_plan(plan)
    pair = (unpaid_file(first, "--first", place=place), unpaid_file(second, "--second", place=place))
    check_neighbours(asked_for, *pair)
    promised = None if claim is None else read_loss(claim)
    with working("releasing"):
        found = attack(asked_for, neighbours=pair, claim=promised, draws=draws, significance=significance)
    asked = {"plan": str(plan), "claim": claim, "draws": draws, "significance": significance}
    _conclude("audit.table", asked, found, report, as_json=as_json)


@app.command()
def coins(
    canaries: Annotated[int, typer.Argument(help="One coin for each.")],
    out: Annotated[Path, typer.Option("--out", help="The file for the coins; keep it secret until the audit.")],
    as_json: Json = False,
) -> None:
    """Draw the coins that include or leave out canaries. Do it before a training run."""
    from tallystick.audit.inclusion import coins as draw

    if out.exists():
        raise InvalidInput("out", str(out), "a file that does not exist: coins are drawn once")
    drawn = draw(canaries)
    drawn.save(out)
    facts = {"file": str(out), "canaries": len(drawn), "commitment": drawn.commitment}

    def say(screen: Console) -> None:
        screen.print(f"{len(drawn)} coins in {out}; publish the commitment before the training:", soft_wrap=True)
        screen.print(drawn.commitment, soft_wrap=True)

    deliver(Answer("audit.coins", {"canaries": canaries}, facts, say), as_json=as_json)


@app.command()
def plan(
    claim: Claim,
    canaries: Annotated[int, typer.Option("--canaries", help="How many there will be.")],
    significance: Significance = 0.05,
    runs: Annotated[int, typer.Option("--runs", help="Independent training runs.")] = 1,
    as_json: Json = False,
) -> None:
    """Return how many guesses to declare, from the claim alone."""
    from tallystick.accounting.expression import read_loss
    from tallystick.audit.guesses import plan_one_run

    found = plan_one_run(read_loss(claim), canaries=canaries, significance=significance, runs=runs)
    facts = {
        "guesses": found.guesses, "canaries": found.canaries, "expected_mu": found.expected, "caught_mu": found.caught
    }  # fmt: skip
    asked = {"claim": claim, "canaries": canaries, "significance": significance, "runs": runs}
    deliver(Answer("audit.plan", asked, facts, lambda out: out.print(str(found), soft_wrap=True)), as_json=as_json)


@app.command()
def run(
    scores: Annotated[list[Path], typer.Argument(metavar="SCORES...", help="A number per canary: lines or JSON.")],
    coin: Annotated[list[Path], typer.Option("--coins", help="What `audit coins` wrote; once per run.")],
    claim: Claim,
    guesses: Annotated[int | None, typer.Option("--guesses", help="Declared beforehand (default: planned).")] = None,
    significance: Significance = 0.05,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Test a training run with canaries. It asks if more coins were guessed than the claim allows."""
    from tallystick.accounting.expression import read_loss
    from tallystick.audit.guesses import one_run
    from tallystick.audit.inclusion import Coins

    if len(scores) != len(coin):
        raise InvalidInput("coin", len(coin), f"one file for each of {len(scores)} files of scores")
    report, promised = _page(report), read_loss(claim)
    drawn, values = [Coins.load(path) for path in coin], [_scores(path) for path in scores]
    with working("judging"):
        single = len(drawn) == 1
        found = one_run(
            values[0] if single else values,
            drawn[0] if single else drawn,
            claim=promised,
            guesses=guesses,
            significance=significance,
        )
    asked = {"claim": claim, "guesses": guesses, "significance": significance, "runs": len(drawn)}
    _conclude("audit.run", asked, found, report, as_json=as_json)


@app.command()
def accounting(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="dp-accounting, opacus, or loss.")],
    record: Annotated[str, typer.Argument(metavar="FILE|EXPR", help="Its record as JSON, or a loss.")],
    claimed: Annotated[float, typer.Option("--claimed", help="The epsilon that was claimed.")],
    delta: Annotated[float, typer.Option("--delta", help="The delta of the claim.")] = 1e-5,
    adjacency: Annotated[str, typer.Option("--adjacency", help="Whom a dp-accounting record protects.")] = "add_remove",
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Recompute the epsilon of another accountant. It is falsified if it is certainly too small."""
    from tallystick.accounting.expression import read_loss
    from tallystick.accounting.foreign import read_record
    from tallystick.audit.recomputed import claimed_epsilon

    report = _page(report)
    if source == "loss":
        loss = read_loss(record)
    else:
        content = _bytes("FILE", Path(record))
        loss = read_record(source.replace("_", "-"), Path(record).name, content, adjacency=adjacency)
    with working("asking the accountant"):
        found = claimed_epsilon(loss, epsilon=claimed, delta=delta)
    asked = {"source": source, "record": record, "claimed": claimed, "delta": delta, "adjacency": adjacency}
    _conclude("audit.accounting", asked, found, report, as_json=as_json)


@app.command()
def ledger(place: Place = None, as_json: Json = False) -> None:
    """Recompute the chain and the cost of every charge. A charge is falsified if its plan costs more today."""
    from tallystick.ledger.book import opened, place_of

    with opened(place) as book, working("verifying"):
        record = book.verify().require()
        cheap = book.underpriced()
    verdict = "FALSIFIED" if cheap else "NOT FALSIFIED"
    facts = {"verdict": verdict, "falsified": bool(cheap), "entries": record.entries, "underpriced": cheap}

    def say(out: Console) -> None:
        said = "Some charges are below their cost today" if cheap else "Every charge covers its cost"
        out.print(f"{said}: {record.entries} entries intact, {len(cheap)} charges below their cost", soft_wrap=True)
        for line in cheap:
            out.print(line, soft_wrap=True, markup=False)

    deliver(Answer("audit.ledger", {"ledger": place_of(place)}, facts, say), as_json=as_json)
    if cheap:
        raise typer.Exit(ClaimFalsified.exit_code)


def _page(path: Path | None) -> Path | None:
    """Return the place of the report after a check, before any draw, that a page can be written there."""
    if path is None:
        return None
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput("report", str(path), "a file name that ends in .html, in a folder that exists")
    if path.exists() and not _bytes("report", path)[:100].lstrip().lower().startswith(b"<!doctype html"):
        raise InvalidInput("report", str(path), "another name: this file is not a page, and would be overwritten")
    return path


def _conclude(command: str, asked: dict[str, Any], found: Evidence, report: Path | None, *, as_json: bool) -> None:
    facts = {**found.to_dict(), **({"report": str(report)} if report else {})}
    deliver(
        Answer(command, asked, facts, lambda out: out.print(str(found), markup=False, soft_wrap=True)), as_json=as_json
    )
    if report is not None:
        from tallystick.cards.evidence import page

        write_whole(report, page(found))
    if found.falsified:
        raise typer.Exit(ClaimFalsified.exit_code)


def _function(place: str) -> Callable[[Any], Any]:
    path, _, name = place.rpartition(":")
    allowed = "FILE.py:FUNCTION, a function of one dataset in a Python file"
    if not path or not Path(path).is_file():
        raise InvalidInput("FUNCTION", place, allowed)
    spec = importlib.util.spec_from_file_location("audited", path)
    if spec is None or spec.loader is None:
        raise InvalidInput("FUNCTION", place, allowed)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:  # of the file's own code; an exit would look like a verdict
        told = f"{place}, which fails when it is read ({type(problem).__name__}: {problem})"
        raise InvalidInput("FUNCTION", told, allowed) from problem
    function = getattr(module, name, None)
    if not callable(function):
        raise InvalidInput("FUNCTION", place, allowed)
    return function  # type: ignore[no-any-return]


def _there(name: str, path: Path) -> Path:
    if not path.is_file():
        raise InvalidInput(name, str(path), "a CSV file that was made up")
    return path


def _bytes(name: str, path: Path) -> bytes:
    """Read a file without a charge; refused if it is registered."""
    from tallystick.tables.sources import unpaid_file

    try:
        with unpaid_file(path, name) as opened, opened.stream() as raw:
            return raw.read()
    except OSError as problem:
        raise unreadable(name, path, problem) from None


def _json(name: str, path: Path) -> Any:
    from tallystick import strict_json

    return strict_json.read(_bytes(name, path), name=name, allowed="a dataset as JSON")


def _scores(path: Path) -> list[float]:
    content = _bytes("SCORES", path)
    if content.lstrip()[:1] == b"[":
        from tallystick import strict_json

        return list(strict_json.read(content, name="SCORES", allowed="a list of numbers"))
    try:
        return [float(line) for line in content.decode("utf-8").split()]
    except ValueError:
        raise InvalidInput("SCORES", str(path), "one number per line, or a list of numbers as JSON") from None
