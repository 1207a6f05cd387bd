"""``tallystick calibrate``: the noise (or the number of steps) that meets a goal.

Two forms: an expression with the unknown X in it, and ``dpsgd``, which writes that expression from the words of a
training run (examples, batch, epochs) and says what other accountants would have answered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.commands.compare import table_of
from tallystick.cli.output import Answer, Json, deliver, working
from tallystick.digits import ACCOUNTANT, down, percent, percent_up, typed, up
from tallystick.errors import InvalidInput, TallystickError
from tallystick.regular_file import read_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import Bounds, PrivacyLoss
    from tallystick.accounting.expression import Template
    from tallystick.theorems.compare import Comparison

UNKNOWN = "X"
PLAN_SCHEMA, PLAN_VERSION = "tallystick/dpsgd-plan", 1


def calibrate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="EXPR|dpsgd",
            help='A loss with the unknown X, such as "1000 * gaussian(sigma=X)", or the word dpsgd.',
        ),
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon that must not be exceeded.")],
    delta: Annotated[float, typer.Option("--delta", help="... at this delta.")],
    examples: Annotated[int | None, typer.Option("--examples", help="dpsgd: how many examples there are.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="dpsgd: the expected batch size.")] = None,
    epochs: Annotated[float | None, typer.Option("--epochs", help="dpsgd: number of passes over the data.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="dpsgd: write the plan to this JSON file.")] = None,
    as_json: Json = False,
) -> None:
    """The smallest noise (or the most steps) whose certified loss meets epsilon at delta."""
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
    import tallystick as ts
    from tallystick.learn.training import sgd_plan

    with working("calibrating"):
        plan = sgd_plan(epsilon=epsilon, delta=delta, **run)
        loss = plan.privacy
        bounds = loss.epsilon_bounds(delta=delta)
    with working("asking the other accountants"):
        others = ts.compare(loss, delta=delta)
        powers = {alpha: float(loss.power(alpha=alpha)) for alpha in (0.01, 0.001)}
    asked = {"epsilon": epsilon, "delta": delta, **run}
    facts: dict[str, Any] = {
        "noise_multiplier": plan.noise_multiplier,
        "rate": plan.rate,
        "steps": plan.steps,
        "expression": str(loss),
        "epsilon": bounds.upper,
        "lower": bounds.lower,
        "upper": bounds.upper,
        "power_at_false_alarm": {f"{alpha:g}": power for alpha, power in powers.items()},
        "methods": others.to_dict()["rows"],
    }
    if save is not None:
        _write_plan(save, asked, facts, loss)
        facts["saved"] = str(save)
    deliver(
        Answer("calibrate-dpsgd", asked, facts, lambda out: _say_dpsgd(out, facts, bounds, others, delta)),
        as_json=as_json,
    )


def _say_dpsgd(out: Console, facts: dict[str, Any], bounds: Bounds, others: Comparison, delta: float) -> None:
    out.print(f"noise multiplier [bold]{up(facts['noise_multiplier'], 9)}[/bold]")
    out.print(
        f"{facts['steps']:,} steps, each example in a batch with probability {facts['rate']:.6g} (Poisson sampling)"
    )
    out.print(_enclosure(bounds, delta))
    for alpha, power in facts["power_at_false_alarm"].items():
        out.print(
            f"an attacker with {percent(float(alpha))} false alarms finds at most {percent_up(power)} of the examples"
        )
    out.print()
    out.print("What other accountants would say about this noise, and why")
    out.print(table_of(others))
    out.print("A loader that shuffles and walks through the data is not Poisson sampling; this number is not about it.")
    if "saved" in facts:
        out.print(f"plan written to {facts['saved']}", soft_wrap=True, markup=False)


def _enclosure(bounds: Bounds, delta: float) -> str:
    ends = f"{down(bounds.lower, ACCOUNTANT)} and {up(bounds.upper, ACCOUNTANT)}"
    return f"epsilon at delta {typed(delta)} is certified between {ends}"


def _require_plan(path: Path) -> None:
    """Refuse to write a plan over anything but another plan."""
    if path.exists() and f'"{PLAN_SCHEMA}"'.encode() not in read_bytes(path)[:4096]:
        raise InvalidInput("save", str(path), "another name: this file is not a training plan, and would be lost")


def _write_plan(path: Path, asked: dict[str, Any], facts: dict[str, Any], loss: PrivacyLoss) -> None:
    _require_plan(path)
    plan = {
        "schema": PLAN_SCHEMA,
        "version": PLAN_VERSION,
        "asked": asked,
        "noise_multiplier": facts["noise_multiplier"],
        "rate": facts["rate"],
        "steps": facts["steps"],
        "epsilon_bounds": [facts["lower"], facts["upper"]],
        "loss": json.loads(loss.to_json()),
    }
    try:
        path.write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput("save", str(path), f"a file that can be written ({error.strerror})") from error


def _about(template: Template) -> dict[str, Any]:
    """Neighbours and unit of the loss, from the first value of X that it allows."""
    for value in (1, 10, 1000) if template.counts_with_unknown else (1.0, 10.0, 0.1, 1000.0, 0.001):
        try:
            return template.at(value).protects.about
        except TallystickError:
            continue
    return {}
