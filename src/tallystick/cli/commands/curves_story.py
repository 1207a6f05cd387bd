"""``tallystick demo curves``: trade-off functions and what is made of them: hulls, samples, chains, products."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.theorems.piecewise import PiecewiseTradeoff

EPSILON, DELTA, RATE = 1.0, 0.3, 0.25
ALPHAS = (0.0, 0.05, 0.2, 0.5)


def curves_story(folder: Path, *, as_json: bool) -> None:
    """Two promises, pure epsilon and pure delta, and five ways to make a third one."""
    from tallystick import plots
    from tallystick.cli.commands.demo import drawn_into

    with working("trade-off functions"):
        curves = _curves()
        place = drawn_into(folder, "curves.svg", lambda: plots.tradeoffs(curves))
        shown = {name: [float(f(alpha)) for alpha in ALPHAS] for name, f in curves.items()}
    facts: dict[str, Any] = {"alphas": list(ALPHAS), "misses": shown, "picture": place and str(place)}
    deliver(
        Answer("demo", {"story": "curves", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json
    )


def _curves() -> dict[str, PiecewiseTradeoff]:
    from tallystick.theorems import piecewise

    made = piecewise.PiecewiseTradeoff
    f, g = made.of_approx_dp(epsilon=EPSILON), made.of_approx_dp(epsilon=0.0, delta=DELTA)
    sampled = piecewise.mixed_with_identity(f, rate=RATE)
    return {
        f"f: epsilon {typed(EPSILON)}": f,
        f"g: delta {typed(DELTA)}": g,
        "both hold: max(f, g)": piecewise.pointwise_max(f, g),
        "either may hold: hull of min(f, g)": piecewise.hull_of_min(f, g),
        f"f on a sample of {RATE:.0%}: C(f)": piecewise.hull_of_min(sampled, sampled.inverse()),
        "two people: f(1 - f)": piecewise.chained(f, f),
        "two releases: f \u2297 f": piecewise.tensor_product(f, f),
    }


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print("[bold]A guarantee is a curve[/bold]: the fewest misses for each share of false accusations.")
    out.print("A higher curve protects better.")
    out.print(f"  {'false accusations':<36}" + "".join(f"{alpha:>9.0%}" for alpha in facts["alphas"]), markup=False)
    for name, misses in facts["misses"].items():
        out.print(f"  {name:<36}" + "".join(f"{missed:>9.1%}" for missed in misses), markup=False)
    out.print("If both guarantees hold, the larger curve holds. If only one holds, the hull under both holds.")
    if facts["picture"]:
        out.print(f"The curves: {facts['picture']}", markup=False, soft_wrap=True)
