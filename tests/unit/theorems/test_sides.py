"""Every theorem is on its declared side of an independent truth, at hostile arguments, without a warning.

The functions are listed from the code: one that has no declared side and no oracle fails here.
"""

from __future__ import annotations

import inspect
import math
import random
import warnings
from collections.abc import Sequence
from typing import Any

import mpmath as mp
import pytest

import tallystick.theorems as theorems
from sweeps import ALL
from tallystick.errors import TallystickError
from unit.theorems import hostile
from unit.theorems.truths import CLAIMS as NUMBERS
from unit.theorems.truths import ESTIMATE, EXACT, LOWER, UPPER, Claim
from unit.theorems.truths_of_books import CLAIMS as BOOKS
from unit.theorems.truths_of_curves import CLAIMS as CURVES

CLAIMS: dict[str, Claim] = NUMBERS | CURVES | BOOKS
DRAWS = 30 if ALL else 15
LARGEST = mp.mpf(1.7976931348623157e308)
TINIEST = mp.mpf(10) ** -319
"""Below this a positive number may be any positive number."""


def arguments(name: str, claim: Claim, rng: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if claim.make is not None:
        return claim.make(rng)
    names = inspect.signature(getattr(theorems, name)).parameters
    makers = {key: value for key, value in {**hostile.NUMBERS, **claim.draws}.items() if key in names}
    assert set(makers) == set(names), f"no draws for {set(names) - set(makers)}"
    return (), {key: maker(rng) for key, maker in makers.items()}


def fault(value: float, truth: Any, side: str, near: float) -> str | None:
    """Why ``value`` is not a good answer, or None."""
    if math.isnan(value):
        return "NaN"
    exact = mp.mpf(value)
    if side == UPPER and exact < truth:
        return f"{value!r} is below {mp.nstr(truth, 20)}"
    if side == LOWER and exact > truth:
        return f"{value!r} is above {mp.nstr(truth, 20)}"
    if mp.isinf(truth) or truth > LARGEST * (1 - 1e-9):
        return None if math.isinf(value) or exact > 1e307 else f"{value!r} is far from {mp.nstr(truth, 20)}"
    allowed = abs(truth) * near + TINIEST + (mp.mpf(10) ** -305 if side in (EXACT, ESTIMATE) else 0)
    if near < math.inf and abs(exact - truth) > allowed:
        return f"{value!r} is far from {mp.nstr(truth, 20)}"
    return None


def judge(claim: Claim, answer: Any, args: Sequence[Any], keywords: dict[str, Any]) -> str | None:
    with mp.workdps(80):
        if claim.met is not None:
            flat = answer if isinstance(answer, tuple | list) else (answer,)
            if any(isinstance(x, float) and math.isnan(x) for x in flat):
                return "NaN"
            return None if claim.met(answer, *args, **keywords) else f"{answer!r} does not meet the statement"
        assert claim.truth is not None
        truth = claim.truth(*args, **keywords)
        if isinstance(claim.side, str):
            return fault(answer, truth, claim.side, claim.near)
        for value, exact, side in zip(answer, truth, claim.side, strict=True):
            found = fault(value, exact, side, claim.near)
            if found:
                return found
        return None


def sweep(name: str, draws: int, seed: int = hostile.SEED) -> tuple[int, list[str]]:
    """How many answers were judged, and what was wrong with them."""
    rng, claim = random.Random(f"{name} {seed}"), CLAIMS[name]
    judged, faults = 0, []
    for _ in range(max(1, draws // claim.effort)):
        args, keywords = arguments(name, claim, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                answer = getattr(theorems, name)(*args, **keywords)
            except TallystickError:
                continue
            except Exception as error:
                faults.append(f"{name}(*{args}, **{keywords}) raised {error!r}")
                continue
        judged += 1
        found = judge(claim, answer, args, keywords)
        if found:
            faults.append(f"{name}(*{args}, **{keywords}): {found}")
    return judged, faults


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_a_theorem_is_on_its_declared_side(name: str) -> None:
    judged, faults = sweep(name, DRAWS)
    assert not faults, "\n".join(faults[:5])
    assert judged >= DRAWS // CLAIMS[name].effort // 4


def test_every_theorem_has_a_declared_side_and_an_oracle() -> None:
    functions = {name for name in theorems.__all__ if not isinstance(getattr(theorems, name), type)}
    assert functions - {"all_statements", "lookup"} == set(CLAIMS)
    for claim in CLAIMS.values():
        sides = (claim.side,) if isinstance(claim.side, str) else claim.side
        assert set(sides) <= {UPPER, LOWER, EXACT, ESTIMATE}
        assert (claim.truth is None) != (claim.met is None)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("pure_to_zcdp", lambda epsilon: epsilon * math.tanh(epsilon / 2) * (1 - 1e-13)),
        ("gdp_delta", lambda mu, epsilon: 0.0),
        ("sampling_rate_for", lambda epsilon, base_epsilon: 1.0),
        ("group_pure", lambda epsilon, size: math.inf),
        ("analytic_gaussian_sigma", lambda epsilon, delta, sensitivity: sensitivity),
        ("pointwise_max", lambda f, g: f),
    ],
)
def test_a_broken_twin_is_caught(name: str, twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = inspect.signature(getattr(theorems, name))
    twin.__signature__ = keep
    monkeypatch.setattr(theorems, name, twin)
    _, faults = sweep(name, DRAWS)
    assert faults
