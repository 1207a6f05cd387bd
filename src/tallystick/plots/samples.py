"""Records against questions: what adaptive analysis needs by every route, k by stability and sqrt(k) by privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.plots.steps import Curve, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.adaptive.planning import Plan


def samples(plans: Sequence[Plan], *, title: str | None = None) -> Figure:
    """One line per route of ``ts.adaptive.plan`` on log-log axes, for plans of several numbers of questions."""
    if not plans or len({(plan.tau, plan.beta) for plan in plans}) != 1:
        raise InvalidInput("plans", len(plans), "plans of one tau and one beta, for several numbers of questions")
    ordered = sorted(plans, key=lambda plan: plan.queries)
    counts = tuple(plan.queries for plan in ordered)
    up = f"records, for errors below {ordered[0].tau:g} with probability {1 - ordered[0].beta:g}"
    last = ordered[-1]
    kind = "adaptive queries" if last.bounds[last.bound].adaptive else "queries"
    finding = f"{last.queries:,} {kind} need {last.samples:,} records by the best route ({last.bound})"
    title = title or finding
    figure, axes = sheet(title=title, across="adaptive queries", up=up, width=8.4, height=5.4)
    curves = [
        Curve(name, counts, tuple(float(plan.bounds[name].samples) for plan in ordered)) for name in ordered[0].bounds
    ]
    lines(axes, curves, "gaussian curve")
    return figure
