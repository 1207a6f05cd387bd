"""Intervals of a table hold its own value, the population, and what caps removed, each at its nominal rate.

A few hundred releases with a fixed seed; ``make campaign-tables`` makes 2,000 of every kind.
"""

from __future__ import annotations

import pytest

from unit.tables import coverage

LEAST = 0.95 - 4 * (0.95 * 0.05 / 300) ** 0.5  # four deviations of 300 releases


@pytest.mark.parametrize("world", ["rows alike", "one row each"])
def test_intervals_hold_what_they_are_about_and_the_usual_mistakes_do_not(world: str) -> None:
    found = coverage.covered(world, 300, seed=3)
    kinds = {name.partition(",")[0] for name in found}
    assert {"own value", "population", "naive: own value taken for the population"} <= kinds
    assert not {name: share for name, share in found.items() if not name.startswith("naive") and share < LEAST}
    mistakes = {name: share for name, share in found.items() if name.startswith("naive")}
    assert max(share for name, share in mistakes.items() if name.endswith((" mean", " middle", " n"))) < 0.8


def test_intervals_hold_what_caps_removed() -> None:
    found = coverage.removed(300, seed=3)
    assert len(found) == 4 * 5
    assert not {name: share for name, share in found.items() if not name.startswith("naive") and share < LEAST}
