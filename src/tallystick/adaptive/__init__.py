"""Adaptive data analysis: answers that stay true of the population although each question depends on earlier answers.

    ts.adaptive.plan(queries=1000, tau=0.1, beta=0.05)          how many records, and how much noise
    ts.adaptive.StatisticalQueries(records, ...).ask(query)     private answers with a certified population error
    ts.adaptive.ReusableHoldout(loss, X, y, ...).score(...)     a holdout that is asked often (Thresholdout)

The proofs are in docs/theory/transfer.md; the guide is docs/theory/notes-adaptive-analysis.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick import lazy

_HOMES: dict[str, str] = {
    "Answer": "queries",
    "Plan": "planning",
    "ReusableHoldout": "holdout",
    "Route": "planning",
    "Score": "holdout",
    "StatisticalQueries": "queries",
    "Thresholdout": "holdout",
    "holdout_samples": "holdout",
    "plan": "planning",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from tallystick.adaptive.holdout import ReusableHoldout as ReusableHoldout
    from tallystick.adaptive.holdout import Score as Score
    from tallystick.adaptive.holdout import Thresholdout as Thresholdout
    from tallystick.adaptive.holdout import holdout_samples as holdout_samples
    from tallystick.adaptive.planning import Plan as Plan
    from tallystick.adaptive.planning import Route as Route
    from tallystick.adaptive.planning import plan as plan
    from tallystick.adaptive.queries import Answer as Answer
    from tallystick.adaptive.queries import StatisticalQueries as StatisticalQueries


__getattr__, __dir__ = lazy.names(__name__, _HOMES)
