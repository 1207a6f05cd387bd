"""Correlated noise solves C N = Z, costs what cyclic batches cost, and leaves less noise in the sum of the steps."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tallystick as ts  # noqa: E402
from tallystick.errors import InvalidInput  # noqa: E402
from tallystick.learn.torch.correlated import CorrelatedNoise, coefficients  # noqa: E402
from tallystick.learn.torch.noise import LatticeNoise  # noqa: E402
from tallystick.learn.torch.trainer import Trainer  # noqa: E402
from tallystick.learn.training import SgdPlan  # noqa: E402
from tallystick.mechanisms.exact.randomness import SeededSource  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease")


def matrix(steps: int, band: int) -> Any:
    """C written out from binomial coefficients."""
    column = [math.comb(2 * j, j) / 4**j if j < band else 0.0 for j in range(steps)]
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


@pytest.mark.parametrize(("band", "known"), [(1, 11.34), (4, 6.41), (16, 3.86), (64, 2.80), (256, 2.67)])
def test_errors_of_prefix_sums_are_the_known_ones(band: int, known: float) -> None:
    # Root mean square error of 256 prefix sums times the longest column, as the literature's tables count it.
    c = matrix(256, band)
    assert np.allclose(c[:band, 0], coefficients(band))
    errors = np.linalg.solve(c.T, np.tril(np.ones((256, 256))).T).T
    assert np.linalg.norm(errors) / 16 * np.linalg.norm(c[:, 0]) == pytest.approx(known, abs=0.006)


def test_columns_of_one_record_do_not_overlap() -> None:
    c = matrix(24, 6)
    mine = c[:, [2, 8, 14, 20]]
    assert np.allclose(mine.T @ mine, np.diag(np.diag(mine.T @ mine)))


def test_the_noise_solves_the_triangular_system() -> None:
    steps, size, band = 9, 5, 4
    made = CorrelatedNoise(2.0, 0.5, size, band, SeededSource(3))
    found = np.stack([made.released(torch.zeros(size, dtype=torch.float64)).numpy() for _ in range(steps)])
    # The same bits, drawn by the independent noise of the same width, are Z.
    fresh = LatticeNoise(made.fresh.multiplier, 0.5, size, "secure", SeededSource(3))
    z = np.stack([fresh.released(torch.zeros(size, dtype=torch.float64)).numpy() for _ in range(steps)])
    assert np.allclose(matrix(steps, band) @ found, z, atol=1e-12)
    assert fresh.multiplier == pytest.approx(2.0 * np.linalg.norm(coefficients(band)))


@pytest.mark.parametrize(("turn", "steps"), [(1, 1), (1, 5), (2, 7), (4, 16), (12, 30), (59, 59 * 8)])
def test_a_run_costs_what_the_leaf_says_and_the_leaf_what_its_columns_say(turn: int, steps: int) -> None:
    plan = SgdPlan(0.7, 1 / turn, steps, 4.0, batches="cyclic")
    made = CorrelatedNoise(plan.noise_multiplier, 1.0, 10, plan.turn)
    turns = -(-steps // turn)
    leaf = ts.correlated(
        sigma=made.fresh.multiplier, steps=steps, coefficients=made.weights, uses=turns, separation=turn
    )
    assert plan.privacy.gdp_bound() * (1 - 1e-10) <= leaf.gdp_bound() <= plan.privacy.gdp_bound() * (1 + 1e-14)
    # In fractions: whoever takes part in steps r, r + turn, ... moves C G by the root of all <c_i, c_j>, clips apart.
    column = [Fraction(weight) for weight in made.weights.tolist()]
    square = max(
        sum((sum((c * c for c in column[: steps - i]), Fraction(0)) for i in range(first, steps, turn)), Fraction(0))
        for first in range(turn)
    )
    paid = Fraction(math.nextafter(plan.privacy.gdp_bound(), 9.0)) ** 2
    assert square <= paid * Fraction(made.fresh.multiplier) ** 2, "wide enough for what the plan pays"
    assert Fraction(made.fresh.multiplier) ** 2 >= Fraction(plan.noise_multiplier) ** 2 * sum(c * c for c in column)


def test_a_cyclic_run_with_correlated_noise_ends_with_less_of_it() -> None:
    plan = SgdPlan(1.0, 1 / 16, 64, 4.0, batches="cyclic")
    spread = {}
    for correlated in (False, True):
        model = nn.Linear(500, 4)
        start = model.weight.detach().clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        loss = nn.CrossEntropyLoss(reduction="none")
        trainer = Trainer(model, loss, optimizer, plan=plan, clip=1.0, correlated=correlated)
        nobody = (torch.zeros(0, 500), torch.zeros(0, dtype=torch.long))
        trainer.fit(nobody, ids=np.zeros(0, dtype=int))
        spread[correlated] = float((model.weight.detach() - start).std())
        assert ("correlated" in dict(trainer.facts())["noise"]) == correlated
    assert spread[False] == pytest.approx(math.sqrt(64) / 4, rel=0.1)
    assert spread[True] < 0.6 * spread[False]


def test_only_cyclic_batches_may_have_it() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loss = nn.CrossEntropyLoss(reduction="none")
    with pytest.raises(InvalidInput, match="correlated"):
        Trainer(model, loss, optimizer, plan=SgdPlan(1.0, 0.5, 4, 4.0), clip=1.0, correlated=True)
    cyclic = SgdPlan(1.0, 0.5, 4, 4.0, batches="cyclic")
    with pytest.raises(InvalidInput, match="correlated"):
        Trainer(model, loss, optimizer, plan=cyclic, clip=1.0, correlated=True, noise="exact")
