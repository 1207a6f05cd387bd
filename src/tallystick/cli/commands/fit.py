"""``tallystick fit``: a model of a registered data set, priced without opening data, fitted once per key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import Performed, perform, say_done
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.digits import nearest
from tallystick.ledger.book import opened, place_of
from tallystick.printing import escaped
from tallystick.publish import datasets
from tallystick.publish.request import Cost, Request

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger.book import Ledger
    from tallystick.tables.table import Table

app = typer.Typer(help="Fit a model of a data set.", no_args_is_help=True, rich_markup_mode=None)

NOISY = (
    "every digit is noisy, by how much depends on the rows, which are private: with labels or conditions that few rows "
    "have, this is noise alone"
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
    out: Model = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Least squares from noisy sums of products, capped per person. The same key again: the same model, free."""
    from tallystick.publish.kinds.linear import LinearFit

    names, cost = ask.listed(features), Cost(rho, epsilon, delta, pure=pure)
    asked = {"dataset": dataset, "target": target, "features": names, "why": why, "dry_run": dry_run, **cost.words}
    with opened(ledger) as book:
        with working("fitting") as tell:
            limits, conditions = ask.intervals("bounds", bounds), _conditions(dataset, book, where)
            what = LinearFit(dataset, target, tuple(names), limits, conditions)
            done = _fit(Request(what, cost, key, why), book, out, card, tell, dry_run=dry_run)
        _deliver("fit.linear", {"ledger": place_of(ledger), **asked}, done, _line, as_json=as_json)


@app.command()
def logistic(
    dataset: ask.Name,
    target: Target,
    features: Features,
    labels: Annotated[
        list[str], typer.Option("--labels", metavar="LABEL,...", help="The labels; rows with others are left out.")
    ],
    why: Why,
    epsilon: Annotated[float, ask.amount("--epsilon", "The price, as epsilon (with --delta, or --pure).")],
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    solver: Annotated[
        str | None, typer.Option("--solver", help="With --delta objective or noisy_gd (the default), else knorm.")
    ] = None,
    bounds: Bounds = None,
    where: ask.Where = None,
    key: ask.Key = None,
    out: Model = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Logistic regression; rows are read after the charge, capped per person. The same key again: the same model."""
    from tallystick.publish.kinds.logistic import LogisticFit

    names, cost = ask.listed(features), Cost(epsilon=epsilon, delta=delta, pure=pure)
    with opened(ledger) as book:
        with working("fitting") as tell:
            table = _table(dataset, book)
            datasets.check_column("target", target, table)
            typed = [ask.typed("labels", label, table.schema.type_of(target)) for label in ask.listed(labels)]
            limits, conditions = ask.intervals("bounds", bounds), _conditions(dataset, book, where)
            what = LogisticFit(dataset, target, tuple(names), limits, conditions, tuple(typed), solver)
            done = _fit(Request(what, cost, key, why), book, out, card, tell, dry_run=dry_run)
        question = {"dataset": dataset, "target": target, "features": names, "labels": typed, "epsilon": epsilon}
        about = {"ledger": place_of(ledger), **question, "delta": delta, "pure": pure, "why": why, "dry_run": dry_run}
        _deliver("fit.logistic", about, done, _scores, as_json=as_json)


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
    name: str, about: dict[str, Any], done: Performed, lines: Callable[[Any], list[str]], *, as_json: bool
) -> None:
    facts = done.facts

    def say(console: Console) -> None:
        def say_model() -> None:
            for line in lines(facts["model"]):
                console.print(line, soft_wrap=True, markup=False)

        say_done(console, facts, say_model, same="same key, same model")

    deliver(Answer(name, about, facts, say), as_json=as_json, done=done)


def _line(model: dict[str, Any]) -> list[str]:
    ends, lines = model["intervals"] or {}, []
    for name, value in {**model["coefficients"], "intercept": model["intercept"]}.items():
        within = f"   [{nearest(ends[name][0], 4)}, {nearest(ends[name][1], 4)}]" if name in ends else ""
        lines.append(f"{escaped(name)}  {nearest(value, 5)}{within}")
    return [*lines, model["no_intervals"] or f"intervals hold in about 95 of 100 cases: {model['intervals_about']}"]


def _scores(model: dict[str, Any]) -> list[str]:
    labels = model["labels"][1:] if len(model["labels"]) == 2 else model["labels"]
    lines = []
    for label, slopes, intercept in zip(labels, model["coefficients"], model["intercepts"], strict=True):
        lines.append(f"score of {escaped(str(label))}")
        lines += [f"  {escaped(n)}  {nearest(v, 5)}" for n, v in zip(model["features"], slopes, strict=True)]
        lines.append(f"  intercept  {nearest(intercept, 5)}")
    return [*lines, NOISY]
