"""``tallystick fit``: a model of a registered dataset, fitted once per key. Its cost needs no data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import Performed, perform, say_answer
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, Why, deliver, working
from tallystick.digits import interval, nearest, value_within
from tallystick.inference.regression import APPROXIMATE
from tallystick.ledger.book import opened, place_of
from tallystick.printing import escaped
from tallystick.publish import datasets
from tallystick.publish.request import Cost, Request
from tallystick.tables.layout import Column
from tallystick.tables.layout import lines as lines_of

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.tables.table import Table

app = typer.Typer(help="Fit a model of a dataset.", no_args_is_help=True, rich_markup_mode=None)

NOISY = (
    "Every number is noisy. The error depends on the data, so it is not known. With a label that few rows have, the "
    "result is noise."
)

Target = Annotated[str, typer.Option("--target", help="The column that is predicted.")]
Features = Annotated[
    list[str],
    typer.Option("--features", metavar="COLUMN,...", help="What it is predicted from; the order is in the key."),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Public bounds that the registration lacks; repeatable."),
]
Model = Annotated[Path | None, typer.Option("--out", help="Write the model to this .json file.")]


@app.command()
def linear(
    dataset: ask.Name,
    target: Target,
    features: Features,
    why: Why,
    bounds: Bounds = None,
    where: ask.Where = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    key: ask.Key = None,
    account: ask.Payer = None,
    out: Model = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Fit a linear model by least squares. The same key again gives the same model and costs nothing."""
    from tallystick.publish.kinds.linear import LinearFit

    names, cost = ask.listed(features), Cost(rho, epsilon, delta, pure=pure)
    asked = {"dataset": dataset, "target": target, "features": names, "why": why, "dry_run": dry_run, **cost.words}
    with opened(ledger) as book:
        with working("fitting") as tell:
            limits, conditions = ask.intervals("bounds", bounds), _conditions(dataset, book, where)
            what = LinearFit(dataset, target, tuple(names), limits, conditions, account=account)
            done = _fit(Request(what, cost, key, why), book, out, card, tell, dry_run=dry_run)
        about = {"ledger": place_of(ledger), **asked}
        _deliver("fit.linear", about, done, _line, as_json=as_json, quiet=quiet, details=details)


@app.command()
def logistic(
    dataset: ask.Name,
    target: Target,
    features: Features,
    labels: Annotated[
        list[str], typer.Option("--labels", metavar="LABEL,...", help="The labels; rows with others are left out.")
    ],
    why: Why,
    epsilon: Annotated[float, ask.amount("--epsilon", "The cost, as epsilon (with --delta, or --pure).")],
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    solver: Annotated[
        str | None, typer.Option("--solver", help="With --delta objective or noisy_gd (the default), else knorm.")
    ] = None,
    bounds: Bounds = None,
    where: ask.Where = None,
    key: ask.Key = None,
    account: ask.Payer = None,
    out: Model = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Fit a logistic model. The same key again gives the same model and costs nothing."""
    from tallystick.publish.kinds.logistic import LogisticFit

    names, cost = ask.listed(features), Cost(epsilon=epsilon, delta=delta, pure=pure)
    with opened(ledger) as book:
        with working("fitting") as tell:
            table = _table(dataset, book)
            datasets.check_column("target", target, table)
            typed = [ask.typed("labels", label, table.schema.type_of(target)) for label in ask.listed(labels)]
            limits, conditions = ask.intervals("bounds", bounds), _conditions(dataset, book, where)
            columns = (dataset, target, tuple(names), limits, conditions)
            what = LogisticFit(*columns, tuple(typed), solver, account=account)
            done = _fit(Request(what, cost, key, why), book, out, card, tell, dry_run=dry_run)
        question = {"dataset": dataset, "target": target, "features": names, "labels": typed, "epsilon": epsilon}
        about = {"ledger": place_of(ledger), **question, "delta": delta, "pure": pure, "why": why, "dry_run": dry_run}
        _deliver("fit.logistic", about, done, _scores, as_json=as_json, quiet=quiet, details=details)


def _table(dataset: str, book: Ledger) -> Table:
    """The registered table, whose columns conditions and labels are read by."""
    return datasets.find(dataset, book).opened()


def _conditions(dataset: str, book: Ledger, where: list[str] | None) -> tuple[Any, ...]:
    """The conditions of --where as plain data."""
    return tuple(ask.where(condition, _table(dataset, book)).to_data() for condition in where or ())


def _fit(
    request: Request, book: Ledger, out: Path | None, card: Path | None, tell: Callable[[str], None], *, dry_run: bool
) -> Performed:
    """Run the request of a fit; a model is written as JSON."""
    from tallystick.publish.export import MODELS, Files

    files = Files(out, card, MODELS)
    files.check_in(book)
    return perform(request, book, files, tell, dry_run=dry_run)


def _deliver(
    name: str,
    about: dict[str, Any],
    done: Performed,
    lines: Callable[[Any], tuple[list[str], str]],
    *,
    as_json: bool,
    quiet: bool = False,
    details: bool = False,
) -> None:
    """Print a model: ``lines`` gives its table and the sentence under it."""
    screen, facts = Screen(quiet), done.facts

    def say_model() -> None:
        table, sentence = lines(facts["model"])
        screen.result(table)
        screen.note(["", *filter(None, (sentence, facts.get("effect")))])
        screen.note(_details(facts) if details else [])

    answer = Answer(name, about, facts, lambda _: say_answer(facts, screen, say_model))
    deliver(answer, as_json=as_json, done=done, screen=screen)


def _details(facts: dict[str, Any]) -> list[str]:
    """Return what the intervals are about, and what limits and bounds changed; not the sums of the model."""
    about = facts["model"].get("intervals_about")
    changed = list(takewhile(lambda line: line != "Columns", facts["details"]))
    return ["", *([f"Intervals: {about}."] if about else []), *changed]


def _line(model: dict[str, Any]) -> tuple[list[str], str]:
    """Return the coefficients of a linear model with their intervals as a table."""
    values = {**model["coefficients"], "intercept": model["intercept"]}
    ends = model["intervals"] or {}
    shown = [value_within(value, *ends[name]) if name in ends else nearest(value) for name, value in values.items()]
    columns = [
        Column(f"{escaped(model['target'])} =", tuple(f"  {escaped(name)}" for name in values), is_text=True),
        Column("estimate", tuple(shown)),
    ]
    if ends:
        columns.append(Column("95 % interval", tuple(interval(*ends[name]) for name in values), is_text=True))
    return lines_of(columns), model["no_intervals"] or APPROXIMATE


def _scores(model: dict[str, Any]) -> tuple[list[str], str]:
    """Return the scores of a logistic model: one column for each label."""
    labels = model["labels"][1:] if len(model["labels"]) == 2 else model["labels"]
    names = tuple(f"  {escaped(name)}" for name in (*model["features"], "intercept"))
    columns = [Column("score of", names, is_text=True)]
    for label, slopes, intercept in zip(labels, model["coefficients"], model["intercepts"], strict=True):
        columns.append(Column(escaped(str(label)), tuple(map(nearest, (*slopes, intercept)))))
    return lines_of(columns), NOISY
