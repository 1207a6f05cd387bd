"""``tallystick train``: a training run before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Json, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="A private training run before it runs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def train() -> None:
    """A private training run before it runs."""


@app.command()
def plan(
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon that must not be exceeded.")],
    delta: Annotated[float, typer.Option("--delta", help="... at this delta.")],
    examples: Annotated[int, typer.Option("--examples", help="How many examples there are; declared, and public.")],
    batch: Annotated[float, typer.Option("--batch", help="The expected batch size.")],
    epochs: Annotated[float, typer.Option("--epochs", help="Number of passes over the data.")],
    picture: Annotated[Path | None, typer.Option("--picture", help="Draw what an attacker can reach (.svg)")] = None,
    as_json: Json = False,
) -> None:
    """The least noise for a goal, what the run then costs, and what an attacker can reach. Spends nothing."""
    import tallystick as ts
    from tallystick.cards import meaning
    from tallystick.digits import up

    with working("planning"):
        made = ts.learn.sgd_plan(epsilon=epsilon, delta=delta, examples=examples, batch=batch, epochs=epochs)
        words = meaning(made.privacy, delta=delta, unit="example")
    if picture is not None:
        from tallystick import plots

        plots.save(plots.tradeoff(made.privacy, unit="example"), picture)
    facts = {
        "noise_multiplier": made.noise_multiplier,
        "rate": made.rate,
        "steps": made.steps,
        "expected_batch": made.expected_batch,
        "epsilon": words.epsilon,
        "expression": str(made.privacy),
        "error": made.error(),
        "picture": None if picture is None else str(picture),
    }

    def say(out: Console) -> None:
        out.print(str(made), soft_wrap=True, markup=False)
        out.print(f"epsilon {up(words.epsilon)} at delta {typed(delta)}, certified", markup=False)
        out.print(f"noise in a mean gradient: {made.error():.3g} of the clip in each coordinate", markup=False)
        out.print(words.plain_sentence, soft_wrap=True, markup=False)
        out.print(
            f"charge it with: tallystick charge add {str(made.privacy)!r} --delta {typed(delta)} --why ...",
            soft_wrap=True,
        )
        if picture is not None:
            out.print(f"picture written to {picture}", soft_wrap=True, markup=False)

    asked = {"epsilon": epsilon, "delta": delta, "examples": examples, "batch": batch, "epochs": epochs}
    deliver(Answer("train.plan", asked, facts, say), as_json=as_json)
