"""Canaries in a training run: our trainer keeps its promise, less noise breaks it, and both controls are there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.audit.canaries import Recipe, canary_run, mislabelled, own_feature, trainer_recipe
from tallystick.cards.evidence import page
from tallystick.errors import InvalidInput

STEPS, CANARIES = 16, 400


def recipe(noise_multiplier: float) -> tuple[Recipe, ts.PrivacyLoss]:
    """A linear model of fewer than 1,000 parameters; every canary has a feature of its own."""
    torch = pytest.importorskip("torch")
    from tallystick.learn.training import SgdPlan

    torch.manual_seed(1)
    x, alone = own_feature(torch.randn(50, 5), CANARIES)
    y, labels = torch.randint(0, 2, (50,)), torch.ones(CANARIES, dtype=torch.long)

    def model() -> Any:
        made = torch.nn.Linear(5 + CANARIES, 2, bias=False)
        torch.nn.init.zeros_(made.weight)
        return made

    plan = SgdPlan(noise_multiplier=noise_multiplier, rate=1.0, steps=STEPS, expected_batch=50)
    train = trainer_recipe(
        model,
        torch.nn.CrossEntropyLoss(reduction="none"),
        lambda parameters: torch.optim.SGD(parameters, lr=0.5),
        plan=plan,
        clip=0.25,
        data=(x, y),
        canaries=(alone, labels),
        classes=2,
    )
    return train, plan.privacy


@pytest.mark.filterwarnings("error::UserWarning")
def test_an_audit_of_a_classifier_declares_its_labels() -> None:
    train, _ = recipe(2 * math.sqrt(STEPS))
    assert len(train(np.ones(CANARIES, dtype=bool), 1.0)) == CANARIES


def test_our_trainer_keeps_its_promise_between_two_controls() -> None:
    train, claim = recipe(2 * math.sqrt(STEPS))  # 1/2-GDP
    report = canary_run(train, CANARIES, claim=claim, guesses=200, significance=0.01)
    assert report.controls_hold, str(report)
    assert not report.falsified
    assert "Control, without noise: FALSIFIED, as it must be" in str(report)
    assert report.to_dict()["controls_hold"] is True
    assert page(report).count("Control, ") == 2
    assert "Control, " not in page(report.evidence)


def test_a_quarter_of_the_noise_is_falsified() -> None:
    train, _ = recipe(math.sqrt(STEPS) / 2)
    report = canary_run(train, CANARIES, claim=ts.gdp(mu=0.5), guesses=200, significance=0.01)
    assert report.falsified, str(report)
    assert report.controls_hold, str(report)  # four times as much is what was claimed


def test_scores_that_see_nothing_are_found_out_by_the_control() -> None:
    rng = np.random.default_rng(3)
    blind = canary_run(
        lambda included, noise: rng.normal(size=included.size), 200, claim=ts.gdp(mu=1), significance=1e-4
    )
    assert not blind.falsified
    assert not blind.controls_hold
    assert "this audit shows nothing" in str(blind)


def test_canaries_are_made_as_said() -> None:
    wider, alone = own_feature(np.ones((3, 2), dtype=np.float32), 4)
    assert wider.dtype == alone.dtype == np.float32
    assert not wider[:, 2:].any()
    assert not alone[:, :2].any()
    wrong = mislabelled([0, 1, 2, 3] * 100, classes=4, rng=np.random.default_rng(1))
    assert not (wrong == np.array([0, 1, 2, 3] * 100)).any()
    assert set(wrong.tolist()) == {0, 1, 2, 3}
    for bad in (
        lambda: own_feature([1.0], 3),
        lambda: mislabelled([0.5], classes=2),
        lambda: mislabelled([3], classes=3),
    ):
        with pytest.raises(InvalidInput):
            bad()
    with pytest.raises(InvalidInput):
        canary_run(3, 10, claim=ts.gdp(mu=1))  # type: ignore[arg-type]
    assert replace(wrong_report(), more_noise=wrong_report().without_noise).controls_hold is False


def wrong_report() -> Any:
    return canary_run(lambda included, noise: included + 0.0, 300, claim=ts.gdp(mu=1))
