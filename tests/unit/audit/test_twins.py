"""Broken twins are caught and their honest originals are not: a quick part of ``make campaign-audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallystick.audit.two_sample import TwoSample, mechanism
from unit.audit.twins import TWINS, Twin, page

ROOT = Path(__file__).resolve().parents[3]
NAMED = (  # what the issue asks for, word by word
    "half the noise", "epsilon for epsilon/2", "wrong adjacency", "reused noise", "unclamped sum", "forgotten count",
    "low bits", "shuffled as Poisson", "batch size leaked", "unbounded intercept", "labels learned", "threshold",
    "fails on", "seed reused", "clip forgotten", "L2 norm", "lattice", "amplification", "charged as one",
)  # fmt: skip
QUICK = TWINS[::5]  # all of them: make campaign-audit


def attacked(twin: Twin, release: Any, seed: int, significance: float, draws: int) -> TwoSample:
    rng = np.random.default_rng(seed)
    return mechanism(
        lambda data: release(data, rng),
        neighbours=twin.neighbours,
        claim=twin.claim,
        draws=draws,
        significance=significance,
    )


@pytest.mark.parametrize("twin", QUICK, ids=lambda twin: twin.fault)
def test_a_broken_twin_is_caught(twin: Twin) -> None:
    found = attacked(twin, twin.broken, 1, 0.01, twin.draws)
    assert found.falsified, str(found)


@pytest.mark.parametrize("twin", QUICK, ids=lambda twin: twin.fault)
def test_an_honest_original_is_not(twin: Twin) -> None:
    assert not attacked(twin, twin.honest, 2, 1e-9, 1500).falsified


def test_the_twins_are_many_and_cover_what_goes_wrong() -> None:
    assert len({twin.fault for twin in TWINS}) == len(TWINS) >= 40
    faults = " ".join(twin.fault for twin in TWINS)
    assert not [name for name in NAMED if name not in faults]


def test_a_score_that_learned_its_draws_by_heart_is_not_chosen() -> None:
    # Outputs in two dimensions seldom repeat: their likelihood ratio is perfect on the draws that made it.
    twin = next(twin for twin in TWINS if twin.fault.startswith("epsilon for epsilon/2"))
    found = attacked(twin, twin.broken, 3, 0.01, 6000)
    assert found.falsified
    assert "likelihood" not in found.event


def test_the_page_lists_the_twins_of_the_code() -> None:
    kept = (ROOT / "docs" / "reference" / "broken-twins.md").read_text(encoding="utf-8")
    assert kept == page(), "write it with: python tests/campaigns/audit_twins.py --page"
