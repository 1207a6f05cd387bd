"""``tallystick calibrate``: the noise (or the number of steps) that meets a goal.

Two forms: an expression with the unknown X in it, and ``dpsgd``, which is ``tallystick train plan``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, deliver, working
from tallystick.digits import ACCOUNTANT, down, typed, up
from tallystick.errors import InvalidInput, TallystickError

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import Bounds, PrivacyLoss
    from tallystick.accounting.expression import Template

UNKNOWN = "X"


def calibrate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="EXPR|dpsgd",
            help='A loss with the unknown X, such as "1000 * gaussian(sigma=X)", or the word dpsgd.',
        ),
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="Epsilon of the goal.")],
    delta: Annotated[float, typer.Option("--delta", help="Delta of the goal, for example 1e-6.")],
    examples: Annotated[int | None, typer.Option("--examples", help="dpsgd: how many examples there are.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="dpsgd: the expected batch size.")] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="dpsgd: number of passes over the data.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="dpsgd: write the plan to this JSON file.")] = None,
    as_json: Json = False,
) -> None:
    """Find the smallest noise, or the most steps, that meets a goal. dpsgd is another name of train plan."""
    training = {"--examples": examples, "--batch": batch, "--epochs": epochs}
    if target == "dpsgd":
        missing = [name for name, value in training.items() if value is None]
        if missing:
            raise InvalidInput("calibrate dpsgd", f"no {', '.join(missing)}", "--examples, --batch and --epochs")
        _dpsgd({"examples": examples, "batch": batch, "epochs": epochs}, epsilon, delta, save, as_json=as_json)
        return
    surplus = [name for name, value in {**training, "--save": save}.items() if value is not None]
    if surplus:
        raise InvalidInput("calibrate", ", ".join(surplus), "these options only with the word dpsgd instead of EXPR")
    _general(target, epsilon, delta, as_json=as_json)


def _general(text: str, epsilon: float, delta: float, *, as_json: bool) -> None:
    import tallystick as ts
    from tallystick.accounting.expression import parse

    template = parse(text, unknown=UNKNOWN)
    if not template.mentions_unknown:
        raise InvalidInput("expression", text, f"a loss in which the unknown is written {UNKNOWN}")
    integer = template.counts_with_unknown
    # The goal is about whomever the loss is about: epsilon and delta alone name no neighbours and no unit.
    goal = ts.approx_dp(epsilon=epsilon, delta=delta, **_about(template))
    with working("calibrating") as tell:

        def tried(value: float) -> PrivacyLoss:
            tell(f"{UNKNOWN} = {value:.6g}")
            return template.at(value)

        value = ts.calibrate(tried, goal, integer=integer)
        bounds = template.at(value).epsilon_bounds(delta=delta)
    facts = {UNKNOWN: value, "epsilon": bounds.upper, "lower": bounds.lower, "upper": bounds.upper}

    def say(out: Console) -> None:
        shown = f"{value:,}" if isinstance(value, int) else repr(value)
        out.print(f"{UNKNOWN} = [bold]{shown}[/bold]", soft_wrap=True)
        out.print(_enclosure(bounds, delta))

    asked = {"expression": text, "epsilon": epsilon, "delta": delta}
    deliver(Answer("calibrate", asked, facts, say), as_json=as_json)


def _dpsgd(run: dict[str, Any], epsilon: float, delta: float, save: Path | None, *, as_json: bool) -> None:
    from tallystick.cli.commands.train import Goal

    Goal(epsilon=epsilon, delta=delta, **run).deliver(save=save, as_json=as_json)


def _enclosure(bounds: Bounds, delta: float) -> str:
    ends = f"{down(bounds.lower, ACCOUNTANT)} and {up(bounds.upper, ACCOUNTANT)}"
    return f"epsilon at delta {typed(delta)} is certified between {ends}"


def _about(template: Template) -> dict[str, Any]:
    """Neighbours and unit of the loss, from the first value of X that it allows."""
    for value in (1, 10, 1000) if template.counts_with_unknown else (1.0, 10.0, 0.1, 1000.0, 0.001):
        try:
            return template.at(value).protects.about
        except TallystickError:
            continue
    return {}
