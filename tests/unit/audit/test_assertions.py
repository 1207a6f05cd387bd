"""The assertions as other projects use them: from their own test files, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import tallystick as ts
from tallystick.audit.assertions import assert_costs, assert_private
from tallystick.errors import InvalidInput

OTHERS = """
import random

def randomized(bits):
    return [b if random.random() < 0.75 else 1 - b for b in bits]

def test_what_we_promise(assert_private):
    assert_private(randomized, ([0], [1]), 1.2, draws=4000)

def test_what_we_do_not_keep(assert_private):
    assert_private(randomized, ([0], [1]), 0.2, draws=4000)

def test_costs(assert_costs):
    import tallystick as ts
    assert_costs(ts.pure_dp(epsilon=1), 1.0)
"""


def test_the_fixtures_work_in_another_project(tmp_path: Path) -> None:
    (tmp_path / "test_others.py").write_text(OTHERS)
    known = any(point.value == "tallystick.audit.plugin" for point in entry_points(group="pytest11"))
    named = [] if known else ["-p", "tallystick.audit.plugin"]  # a checkout that was installed before there was one
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *named, "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(ts.__file__).parents[1])},
    )
    assert "1 failed, 2 passed" in run.stdout, run.stdout + run.stderr
    assert "The claim is false: pure_dp(epsilon=0.2)" in run.stdout


def test_a_claim_may_be_an_epsilon_a_pair_or_a_loss() -> None:
    rng = np.random.default_rng(1)

    def flips(bit: int) -> int:
        return int(bit ^ (rng.random() < 0.25))

    for claim in (1.2, (1.2, 0.0), (0.9, 0.3), ts.pure_dp(epsilon=1.2)):
        assert not assert_private(flips, (0, 1), claim, draws=2000).falsified
    for claim in (0.3, (0.3, 0.01), ts.gdp(mu=0.1)):
        with pytest.raises(AssertionError, match="The claim is false"):
            assert_private(flips, (0, 1), claim, draws=4000)


def test_costs_are_compared_on_the_safe_side() -> None:
    mechanism = ts.noise.add_laplace(epsilon=1, sensitivity=1)
    assert_costs(mechanism, 1.0)
    assert_costs(mechanism, ts.pure_dp(epsilon=1))
    assert_costs(ts.gaussian(sigma=1), 5, delta=1e-5)
    for at_most in (0.99, (0.9, 1e-9), ts.pure_dp(epsilon=0.9)):
        with pytest.raises(AssertionError):
            assert_costs(mechanism, at_most)
    with pytest.raises(AssertionError, match="inf"):
        assert_costs(ts.gaussian(sigma=1), 100)


def test_bad_input_is_named() -> None:
    for call, argument in (
        (lambda: assert_costs(3, 1), "plan"),
        (lambda: assert_costs(ts.pure_dp(epsilon=1), -1), "at_most"),
        (lambda: assert_private(sum, ([], []), -1.0), "claim"),
        (lambda: assert_private(sum, ([], []), 1.0, flake=0), "flake"),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.argument == argument


def test_an_assertion_that_cannot_fail_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot falsify"):
        assert_private(sum, ([1, 0], [1, 0, 1]), 8.0)
    with pytest.raises(InvalidInput, match="cannot falsify"):
        assert_private(lambda data: 0, ([1, 0], [1, 0, 1]), 1.0, draws=40)
    with pytest.raises(InvalidInput, match="not both"):
        assert_costs(ts.gaussian(sigma=1), (5.1, 1e-6), delta=1e-30)
    assert_costs(10 * ts.pure_dp(epsilon=0.1), 1.0)
