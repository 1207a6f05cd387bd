"""``tallystick train``: plan a private training run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, Quiet, deliver, working
from tallystick.digits import ACCOUNTANT, down, nearest, percent_up, typed, up
from tallystick.errors import InvalidInput
from tallystick.regular_file import read_bytes, write_whole

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import PrivacyLoss
    from tallystick.learn.training import SgdPlan
    from tallystick.theorems.compare import Comparison

app = typer.Typer(help="Plan a private training run.", no_args_is_help=True, rich_markup_mode=None)
PLAN_SCHEMA, PLAN_VERSION = "tallystick/dpsgd-plan", 1
ALPHAS = (0.01, 0.001)
"""Shares of false accusations at which the attacker's success is stated."""


@app.callback()
def train() -> None:
    """Plan a private training run."""


@app.command()
def plan(
    epsilon: Annotated[float, typer.Option("--epsilon", help="Epsilon of the goal.")],
    delta: Annotated[float, typer.Option("--delta", help="Delta of the goal, for example 1e-6.")],
    examples: Annotated[int, typer.Option("--examples", help="Number of examples. It is public.")],
    batch: Annotated[float, typer.Option("--batch", help="Expected size of a batch.")],
    epochs: Annotated[float, typer.Option("--epochs", help="Number of passes over the data.")],
    compare: Annotated[bool, typer.Option("--compare", help="Show what other accountants say.")] = False,
    save: Annotated[Path | None, typer.Option("--save", help="Write the plan to this JSON file.")] = None,
    picture: Annotated[Path | None, typer.Option("--picture", help="Draw the attacker's odds into this file.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find the least noise that meets a goal. It says what an attacker could then do. Nothing is charged."""
    goal = Goal(epsilon, delta, examples, batch, epochs)
    goal.deliver(compare=compare, save=save, picture=picture, quiet=quiet, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a training run, and its size."""

    epsilon: float
    delta: float
    examples: int
    batch: float
    epochs: float

    def deliver(
        self,
        *,
        compare: bool = False,
        save: Path | None = None,
        picture: Path | None = None,
        quiet: bool = False,
        as_json: bool = False,
    ) -> None:
        """Find the plan, write its files and print it."""
        import tallystick as ts

        if save is not None:
            _require_plan(save)
        with working("planning"):
            made = ts.learn.sgd_plan(**asdict(self))
            facts = self._facts(made)
        others = None
        if compare or as_json:
            with working("asking the other accountants"):
                others = ts.compare(made.privacy, delta=self.delta)
            facts["methods"] = others.to_dict()["rows"]
        if save is not None:
            _write_plan(save, asdict(self), facts, made.privacy)
        if picture is not None:
            from tallystick import plots

            plots.save(plots.tradeoff(made.privacy, unit="example"), picture)
        written = [str(file) for file in (save, picture) if file is not None]
        facts |= {"saved": str(save) if save else None, "picture": str(picture) if picture else None}

        def say(out: Console) -> None:
            lines = [repr(made.noise_multiplier)] if quiet else self._lines(facts, others, written)
            for line in lines:
                out.print(line, soft_wrap=True, markup=False, highlight=False)

        deliver(Answer("train.plan", asdict(self), facts, say), as_json=as_json)

    def _facts(self, made: SgdPlan) -> dict[str, Any]:
        loss = made.privacy
        bounds = loss.epsilon_bounds(delta=self.delta)
        return {
            "noise_multiplier": made.noise_multiplier,
            "rate": made.rate,
            "steps": made.steps,
            "expected_batch": made.expected_batch,
            "expression": str(loss),
            "epsilon": bounds.upper,
            "lower": bounds.lower,
            "upper": bounds.upper,
            "error": made.error(),
            "power_at_false_alarm": {f"{alpha:g}": float(loss.power(alpha=alpha)) for alpha in ALPHAS},
        }

    def _lines(self, facts: dict[str, Any], others: Comparison | None, written: list[str]) -> list[str]:
        ends = f"{down(facts['lower'], ACCOUNTANT)} and {up(facts['upper'], ACCOUNTANT)}"
        found = [percent_up(power) for power in facts["power_at_false_alarm"].values()]
        delta = typed(self.delta)
        rate = nearest(facts["rate"], ACCOUNTANT)
        lines = [
            f"Noise multiplier   {up(facts['noise_multiplier'], ACCOUNTANT)}   (noise = this x clipping norm)",
            f"Steps              {facts['steps']:,}, each example sampled with probability {rate} (Poisson)",
            f"Epsilon            {up(facts['epsilon'])} at delta {delta}, certified between {ends}",
            f"Attacker           finds at most {found[0]} of examples with 1 % false accusations",
            f"Error              {nearest(facts['error'])} of the clipping norm in each coordinate of a mean gradient",
            "",
            "Valid only for Poisson sampling. A loader that shuffles the data needs other accounting.",
            f"Charge it: tallystick charge add {facts['expression']!r} --delta {delta} --why REASON",
        ]
        if others is None:
            lines.append("Other accountants: --compare")
        else:
            lines += ["", "What other accountants say about this noise", *others.lines()]
        return [*lines, *(f"Wrote {file}" for file in written)]


def _require_plan(path: Path) -> None:
    """Refuse to write a plan over anything but another plan."""
    if path.exists() and f'"{PLAN_SCHEMA}"'.encode() not in read_bytes(path)[:4096]:
        raise InvalidInput("save", str(path), "another name: this file is not a training plan, and would be lost")


def _write_plan(path: Path, asked: dict[str, Any], facts: dict[str, Any], loss: PrivacyLoss) -> None:
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
        write_whole(path, json.dumps(plan, indent=2) + "\n")
    except OSError as error:
        raise InvalidInput("save", str(path), f"a file that can be written ({error.strerror})") from error
