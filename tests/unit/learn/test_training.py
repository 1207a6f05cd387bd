"""A plan states the noise of a run before it runs; its numbers agree with other people's accountants."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.learn.training import SgdPlan


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "epsilon"),
    [
        # The truth to six places, found without this accountant; Opacus' PRV accountant says 1.8384 and 4.2648.
        (0.01, 1.0, 1_000, 1e-5, 1.828237),
        (0.0032, 0.6, 3_000, 1e-5, 4.254418),
    ],
)
def test_a_plan_costs_the_known_truth(rate: float, noise: float, steps: int, delta: float, epsilon: float) -> None:
    plan = SgdPlan(noise, rate, steps, expected_batch=256)
    assert plan.privacy.epsilon(delta=delta) == pytest.approx(epsilon, abs=6e-6)


def test_a_full_batch_is_a_gaussian_mechanism_of_root_steps() -> None:
    plan = SgdPlan(noise_multiplier=20.0, rate=1.0, steps=100, expected_batch=50)
    assert plan.privacy.epsilon(delta=1e-5) == pytest.approx(ts.gdp(mu=0.5).epsilon(delta=1e-5), rel=1e-9)


def test_the_noise_is_the_least_that_meets_the_goal() -> None:
    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    assert plan.privacy <= ts.approx_dp(epsilon=3, delta=1e-5)
    less = SgdPlan(plan.noise_multiplier * (1 - 1e-4), plan.rate, plan.steps, plan.expected_batch)
    assert less.privacy.epsilon(delta=1e-5) > 3


def test_both_ways_to_say_a_run_are_one_plan() -> None:
    by_size = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=1000, batch=100, epochs=3, unit="patient")
    by_rate = ts.learn.sgd_plan(epsilon=2, delta=1e-6, rate=0.1, expected_batch=100, steps=30, unit="patient")
    assert by_size == by_rate
    assert by_size.privacy.unit == "patient"
    assert "30 steps" in str(by_size)


def test_fixed_batches_protect_against_replacing_one_and_cost_what_subsets_cost() -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=1000, batch=100, epochs=3, batches="fixed")
    # A replaced example moves the sum by two clips: noise over sensitivity is half the multiplier.
    step = ts.gaussian(sigma=plan.noise_multiplier / 2, adjacency="replace").subset(batch=100, population=1000)
    assert plan.privacy == 30 * step
    assert str(plan.privacy.adjacency) == "replace"
    assert plan.privacy <= ts.approx_dp(epsilon=2, delta=1e-6, adjacency="replace")
    with pytest.raises(InvalidInput):
        SgdPlan(1.0, 0.1, 30, 100, batches="fixed")  # no number of examples, and the wrong neighbours


def test_cyclic_batches_cost_one_gaussian_for_every_turn() -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=1000, batch=300, epochs=3, batches="cyclic")
    assert (plan.turn, plan.steps) == (4, 12)
    assert plan.privacy == 3 * ts.gaussian(sigma=plan.noise_multiplier)
    assert plan.of_steps(5) == 2 * ts.gaussian(sigma=plan.noise_multiplier)
    assert "every 4th" in str(plan)
    with pytest.raises(InvalidInput, match="batches"):
        ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=1000, batch=300, epochs=3, batches="shuffled")


def test_blocks_of_steps_add_up_to_the_plan() -> None:
    plan = SgdPlan(1.0, 0.01, 100, expected_batch=64)
    assert plan.of_steps(40) + plan.of_steps(60) == plan.privacy


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 2}, "delta"),
        ({"examples": 0}, "examples"),
        ({"examples": 10.5}, "examples"),
        ({"batch": 1001}, "batch"),
        ({"batch": -1}, "batch"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": 1e9}, "epochs"),
        ({"epochs": math.inf}, "epochs"),
        ({"epochs": None}, "arguments"),
        ({"rate": 0.1}, "arguments"),
        ({"examples": None, "batch": None, "epochs": None, "rate": 0, "expected_batch": 1, "steps": 1}, "rate"),
        ({"examples": None, "batch": None, "epochs": None, "rate": 1.5, "expected_batch": 1, "steps": 1}, "rate"),
        ({"examples": None, "batch": None, "epochs": None, "rate": True, "expected_batch": 1, "steps": 1}, "rate"),
        ({"examples": None, "batch": None, "epochs": None, "rate": 0.1, "expected_batch": 0, "steps": 1}, "expected"),
        ({"examples": None, "batch": None, "epochs": None, "rate": 0.1, "expected_batch": 1, "steps": 0}, "steps"),
    ],
)
def test_what_is_not_a_run_is_refused_by_name(wrong: dict[str, Any], argument: str) -> None:
    right: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "examples": 1000, "batch": 100, "epochs": 3}
    with pytest.raises(InvalidInput, match=f"^{argument}"):
        ts.learn.sgd_plan(**right | wrong)


def test_planning_needs_neither_torch_nor_scikit_learn() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['sklearn'] = None\n"
        "import tallystick as ts; print(ts.learn.sgd_plan(epsilon=8, delta=1e-5, examples=500, batch=50, epochs=1))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("10 steps, each example in a batch with probability 0.1 (50 expected), noise ")


def test_the_learning_room_lists_its_names_and_no_others() -> None:
    assert "sgd_plan" in dir(ts.learn)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ts.learn.no_such_name


def test_a_delta_that_allows_to_publish_an_example_is_warned_about() -> None:
    with pytest.warns(UserWarning, match=r"delta = 0\.1 of 100 examples"):
        ts.learn.sgd_plan(epsilon=1, delta=0.1, examples=100, batch=10, epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ts.learn.sgd_plan(epsilon=1, delta=1e-3, examples=100, batch=10, epochs=1)
