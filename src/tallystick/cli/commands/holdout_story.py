"""``tallystick demo holdout``: an analyst fools a holdout by asking it often, but not a reusable one. Offline."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.cli.output import console, print_json
from tallystick.digits import percent
from tallystick.mechanisms.base import UnrecordedRelease

RECORDS, FEATURES, KEPT = 4000, 4000, 500
TAU, BETA, ANSWERS = 0.05, 0.05, 2000  # threshold 0.02 and noise 0.005 follow from tau

Table = NDArray[np.int8]
Sample = tuple[Table, Table]


@dataclass(frozen=True, slots=True)
class Finding:
    """Return the report of an analyst, and the truth."""

    features: int
    reported: float
    fresh: float


def holdout_story(_folder: Path, *, as_json: bool) -> None:
    """Labels and features are fair coins, so that no model is better than 50 %; two holdouts are asked about models.

    Nothing is written.
    """
    import tallystick as ts

    random = np.random.default_rng(20261116)  # of the made-up data; the noise is not seeded
    training, aside, fresh = (_coins(random) for _ in range(3))
    plain = _analyst(training, fresh, lambda model, train: _loss(model, aside))
    holdout = ts.adaptive.ReusableHoldout(
        lambda y, predicted: y != predicted, *aside, tau=TAU, beta=BETA, queries=FEATURES + 1, answers=ANSWERS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrecordedRelease)  # nobody's records
        private = _analyst(training, fresh, lambda model, train: float(holdout.score(model, train=train)))
    if as_json:
        found = {
            name: {"features": f.features, "reported": f.reported, "fresh": f.fresh}
            for name, f in (("plain", plain), ("reusable", private))
        }
        used = {"asked": holdout.asked, "answered": holdout.answered, "certified_error": holdout.certified_error}
        needed = {"records_needed": holdout.needed.samples, "says": str(holdout)}
        print_json("tallystick/demo", {"asked": {"story": "holdout"}, "found": {**found, **used, **needed}})
        return
    screen = console()
    screen.print(f"[bold]Nothing to find[/bold]: {RECORDS:,} records of {FEATURES:,} features and a label, fair coins.")
    screen.print(
        f"An analyst asks a holdout about every feature, keeps up to {KEPT} that agree with the training data,\n"
        "lets them vote, and asks the same holdout how good the vote is.",
        markup=False,
    )
    for name, report in (("a plain holdout", plain), ("a reusable holdout", private)):
        screen.print(
            f"  {name:<20} reports {percent(round(report.reported, 3)):>7}   on fresh records it is "
            f"{percent(round(report.fresh, 3))}",
            markup=False,
        )
    screen.print(f"The reusable holdout: {holdout}", markup=False, soft_wrap=True)
    screen.print("Next: docs/theory/notes-adaptive-analysis.md", markup=False)


def _coins(random: np.random.Generator) -> Sample:
    table: Table = np.asfortranarray(random.integers(0, 2, (RECORDS, FEATURES), dtype=np.int8))
    return table, random.integers(0, 2, RECORDS, dtype=np.int8)


def _loss(model: Callable[[Table], Table], sample: Sample) -> float:
    return float(np.mean(model(sample[0]) != sample[1]))


def _analyst(training: Sample, fresh: Sample, ask: Callable[[Any, float], float]) -> Finding:
    """Keep features for which training and holdout agree that they help, or that they hurt; then let them vote."""
    agree = (training[0] != training[1][:, None]).mean(axis=0)
    asked = np.array([ask(lambda rows, j=j: rows[:, j], float(agree[j])) for j in range(FEATURES)])
    least = 0.5 / np.sqrt(RECORDS)
    good = (np.abs(agree - 0.5) > least) & (np.abs(asked - 0.5) > least) & ((agree < 0.5) == (asked < 0.5))
    order = np.argsort(-np.abs(agree - 0.5))
    kept = order[good[order]][:KEPT]
    votes = np.where(agree[kept] < 0.5, 1.0, -1.0).astype(np.float32)

    def vote(rows: Table) -> Table:
        return ((2 * rows[:, kept].astype(np.float32) - 1) @ votes > 0).astype(np.int8)

    return Finding(len(kept), 1.0 - ask(vote, _loss(vote, training)), 1.0 - _loss(vote, fresh))
