"""``tallystick demo local``: a share of yes without noise, with noise of a curator, and with noise of each person."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working

if TYPE_CHECKING:
    from rich.console import Console

EPSILON, PEOPLE, YES = 1.0, (100, 1000, 10_000, 100_000, 1_000_000), 0.3
ASKED = 10_000


def local_story(folder: Path, *, as_json: bool) -> None:
    """Standard errors from their formulas, how many people each way is worth, and one survey that is really drawn."""
    from tallystick.cli.commands.demo import drawn_into
    from tallystick.mechanisms.noise.accuracy import proportion_variance
    from tallystick.mechanisms.response import randomize
    from tallystick.plots.mechanisms import error_in_people

    with working("central against local"):
        survey = randomize(epsilon=EPSILON)
        rows = []
        for n in PEOPLE:
            alone = YES * (1 - YES) / n
            central = proportion_variance(proportion=YES, n=n, epsilon=EPSILON)
            local = float(survey.variance(share=YES, reports=n))
            errors = {"nobody": math.sqrt(alone), "central": math.sqrt(central), "local": math.sqrt(local)}
            worth = {"central": math.floor(n * alone / central), "local": math.floor(n * alone / local)}
            rows.append({"people": n, "standard_error": errors, "worth_people": worth})
        drawn = _survey()
        place = drawn_into(folder, "local.svg", lambda: error_in_people(epsilon=EPSILON))
    facts: dict[str, Any] = {
        "epsilon": EPSILON,
        "share": YES,
        "rows": rows,
        "survey": drawn,
        "picture": place and str(place),
    }
    deliver(
        Answer("demo", {"story": "local", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json
    )


def _survey() -> dict[str, Any]:
    """One survey of made-up people, with real noise: the count with noise once, or every answer randomized."""
    import tallystick as ts
    from tallystick.mechanisms.base import UnrecordedRelease

    yes = round(YES * ASKED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedRelease)  # nobody's answers
        curator: Any = ts.noise.add_discrete_laplace(epsilon=EPSILON)
        count = int(curator.release(yes))
        survey = ts.response.randomize(epsilon=EPSILON, choices=("yes", "no"))
        estimate = survey.estimate(survey.release(["yes"] * yes + ["no"] * (ASKED - yes)))
    return {"people": ASKED, "central": count / ASKED, "local": float(estimate.values[0])}


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"[bold]What share says yes?[/bold] {YES:.0%} do. Standard error of the answer at epsilon {EPSILON:g}:")
    out.print(f"  {'people':>9} {'no privacy':>11} {'curator':>9} {'everybody':>10}   worth as many honest answers as")
    for row in facts["rows"]:
        errors, worth = row["standard_error"], row["worth_people"]
        out.print(
            f"  {row['people']:>9,} {errors['nobody']:>11.4f} {errors['central']:>9.4f} {errors['local']:>10.4f}   "
            f"{worth['central']:>9,} (curator) {worth['local']:>9,} (everybody)",
            markup=False,
        )
    survey = facts["survey"]
    out.print(
        f"One survey of {survey['people']:,} people, with real noise: {survey['central']:.2%} if a curator adds it "
        f"once, {survey['local']:.2%} if everybody randomizes.",
        markup=False,
        soft_wrap=True,
    )
    out.print("A curator's noise soon disappears beside the sampling error; local noise costs the same share for ever.")
    if facts["picture"]:
        out.print(f"Error against people: {facts['picture']}", markup=False, soft_wrap=True)
