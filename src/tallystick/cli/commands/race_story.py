"""``tallystick demo race``: the same answers, asked again and again, under four ways to add up what they lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working
from tallystick.digits import typed, up

if TYPE_CHECKING:
    from rich.console import Console

EPSILON, DELTA, GOAL = 0.1, 1e-5, 1.0
COUNTS = (1, 3, 10, 29, 100, 300, 1000, 3000, 10_000)
METHODS = {"basic": "basic", "advanced": "advanced", "optimal": "optimal", "tight": "ours"}
ASKED = (10, 100, 1000)


def race_story(folder: Path, *, as_json: bool) -> None:
    """Laplace noise at epsilon 0.1, k times: epsilon by every method, and the noise a fixed promise asks for."""
    import tallystick as ts
    from tallystick import plots
    from tallystick.cli.commands.demo import drawn_into
    from tallystick.theorems import advanced_composition
    from tallystick.theorems.compare import epsilon_against_steps

    with working("composition race"):
        one = ts.laplace(scale=1 / EPSILON)
        found = epsilon_against_steps(one, delta=DELTA, steps=COUNTS, methods=tuple(METHODS))
        curves = {METHODS[each.method]: list(each.epsilons) for each in found}
        crossing = next(
            k
            for k in range(1, 1000)
            if advanced_composition(epsilon=EPSILON, steps=k, delta_slack=DELTA)[0] < k * EPSILON
        )
        scales = [_scale(k) for k in ASKED]
        lines = [
            plots.Curve(name, COUNTS, tuple(float("inf") if e is None else e for e in row))
            for name, row in curves.items()
        ]
        place = drawn_into(folder, "race.svg", lambda: plots.steps(lines, delta=DELTA, highlight="ours"))
    facts: dict[str, Any] = {
        "epsilon_of_one": EPSILON,
        "delta": DELTA,
        "steps": list(COUNTS),
        "epsilon": curves,
        "advanced_beats_basic_from": crossing,
        "noise": [{"answers": k, "basic": k / GOAL, "ours": scale} for k, scale in zip(ASKED, scales, strict=True)],
        "picture": place and str(place),
    }
    deliver(Answer("demo", {"story": "race", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json)


def _scale(answers: int) -> float:
    """The least Laplace noise for which so many answers together keep the promise."""
    import tallystick as ts

    goal = ts.approx_dp(epsilon=GOAL, delta=DELTA)
    return float(ts.calibrate(lambda b: answers * ts.laplace(scale=b), goal, relative=1e-4))


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(
        f"[bold]One answer has epsilon {typed(EPSILON)}. What have k of them?[/bold] Epsilon at delta {typed(DELTA)}:"
    )
    out.print(f"  {'k':>7}" + "".join(f"{name:>11}" for name in facts["epsilon"]), markup=False)
    for place, k in enumerate(facts["steps"]):
        cells = (row[place] for row in facts["epsilon"].values())
        out.print(f"  {k:>7,}" + "".join(f"{'-' if e is None else up(e):>11}" for e in cells), markup=False)
    out.print(
        f"The advanced theorem as the notes print it, with all of delta as its slack, is below the sum from k = "
        f"{facts['advanced_beats_basic_from']} on; the column's sharper form is a little earlier. "
        "Ours knows that the noise is Laplace, not only its epsilon.",
        soft_wrap=True,
    )
    out.print(
        "[bold]Turned around[/bold]: Laplace noise that each of k answers needs for "
        f"({typed(GOAL)}, {typed(DELTA)}) in all:"
    )
    for row in facts["noise"]:
        out.print(
            f"  {row['answers']:>7,} answers: scale {row['basic']:,.0f} by adding up, {up(row['ours'])} by ours",
            markup=False,
        )
    if facts["picture"]:
        out.print(f"Epsilon against k: {facts['picture']}", markup=False, soft_wrap=True)
