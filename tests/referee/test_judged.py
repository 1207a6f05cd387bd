"""A few thousand numbers of the accountant on every run: a draw of every third cell of leaves and transformations.

`make campaign-accounting` judges a hundred thousand, with more time for its oracles. The draws are those of the
campaign's seed, so a failure here is a line of its page; the read-outs that take long are asked in turn.
"""

from __future__ import annotations

import pytest
import scipy.signal  # noqa: F401 - before any clock runs: an import that is interrupted stays broken

import tallystick as ts
from pace import slower
from referee import asking
from referee.asking import FAILURES, READOUTS, ask_all
from referee.balls import ball, near
from referee.draws import MAKERS, TRANSFORMATIONS, drawn
from referee.expressions import leaf
from referee.sides import Smooth

SEED = 1
ALWAYS = ("epsilon", "delta", "epsilon_bounds", "delta_bounds", "tradeoff", "renyi", "kl", "posterior")
IN_TURN = tuple(name for name in READOUTS if name not in ALWAYS)
ROWS = [
    (leaf, transformation)
    for i, leaf in enumerate(MAKERS)
    for j, transformation in enumerate(TRANSFORMATIONS)
    if (i + j) % 3 == 0
]


@pytest.fixture(scope="module")
def here() -> float:
    """How slow this machine is."""
    return slower()


@pytest.mark.parametrize(("index", "row"), [pytest.param(i, row, id=" ".join(row)) for i, row in enumerate(ROWS)])
def test_every_number_is_on_the_safe_side(
    index: int, row: tuple[str, str], here: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ORACLE_PURSE", 0.4)
    for limit in ("LONGEST", "PATIENCE"):
        monkeypatch.setattr(asking, limit, getattr(asking, limit) * here)
    leaf, transformation = row
    made = drawn(SEED, leaf, transformation, 0)
    records = ask_all(made, f"{SEED}/{leaf}/{transformation}/0", (*ALWAYS, IN_TURN[index % len(IN_TURN)]))
    found = [f"{r.verdict}: {r.asked} printed {r.printed}, truth {r.truth}" for r in records if r.verdict in FAILURES]
    assert not found, "\n".join(found)
    assert records


def test_the_cdf_of_a_sampled_sum() -> None:
    made = leaf("laplace", scale=0.5).times(2).sampled(0.5)
    printed = made.loss.privacy_loss(ts.Direction.ADD).cdf(0.5)
    side = made.truth.low()[1]
    assert isinstance(side, Smooth)
    below, upto = side.cdf(ball(0.5)) or (ball(0), ball(1))
    assert near(below) - 1e-4 <= printed <= near(upto) + 1e-4
