"""A training run before it runs: how much noise, how often, and what that costs. Needs no framework and no data.

    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    plan.noise_multiplier, plan.rate, plan.steps, plan.privacy

Each step takes every example with the same probability, independently (Poisson sampling); a loader that shuffles and
deals fixed batches is another mechanism, and this price is not its price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tallystick.accounting import check
from tallystick.accounting.adjacency import EVERYBODY, Protects
from tallystick.accounting.calibrate import calibrate
from tallystick.accounting.losses import approx_dp, gaussian
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

MOST_STEPS = 10**9


@dataclass(frozen=True)
class SgdPlan:
    """Noisy gradient steps with Poisson batches; every number in it is public.

    ``noise_multiplier`` is the noise's standard deviation over the clip, as Opacus, TF Privacy and JAX Privacy count
    it; ``expected_batch`` divides the noisy sum, whatever the size of a batch is. ``delta`` is what the run may use of
    an account's delta; it changes nothing else.
    """

    noise_multiplier: float
    rate: float
    steps: int
    expected_batch: float
    protects: Protects = EVERYBODY
    delta: float | None = None

    def __post_init__(self) -> None:
        check.positive("noise_multiplier", self.noise_multiplier)
        check.positive("expected_batch", self.expected_batch)
        check.count("steps", self.steps, least=1)
        if self.delta is not None:
            check.probability("delta", self.delta)
        if not 0.0 < check.finite("rate", self.rate, "a probability above 0") <= 1.0:
            raise InvalidInput("rate", self.rate, "a probability above 0 and at most 1")

    @cached_property
    def privacy(self) -> PrivacyLoss:
        """What all steps together lose, every noisy gradient seen by everybody."""
        return self.of_steps(self.steps)

    @property
    def step_loss(self) -> PrivacyLoss:
        """What one step loses."""
        step = gaussian(sigma=self.noise_multiplier, **self.protects.about)
        return step if self.rate == 1.0 else step.sampled(rate=self.rate)

    def of_steps(self, steps: int) -> PrivacyLoss:
        """What so many of the steps lose, for charging in blocks, each before it runs."""
        return steps * self.step_loss

    def error(self) -> float:
        """Standard deviation of the noise in each coordinate of a mean gradient, in units of the clip.

        >>> round(SgdPlan(noise_multiplier=1.0, rate=0.01, steps=100, expected_batch=500).error(), 4)
        0.002
        """
        return self.noise_multiplier / self.expected_batch

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, each example in a batch with probability {self.rate:.6g} "
            f"({self.expected_batch:g} expected), noise {self.noise_multiplier:.6g} times the clip"
        )


def sgd_plan(
    *,
    epsilon: float,
    delta: float,
    examples: int | None = None,
    batch: float | None = None,
    epochs: float | None = None,
    rate: float | None = None,
    expected_batch: float | None = None,
    steps: int | None = None,
    unit: str | None = None,
) -> SgdPlan:
    """The least noise with which such a run is (epsilon, delta)-private; spends nothing.

    Say ``examples``, ``batch`` and ``epochs`` where the number of examples is public. Where it is not, say ``rate``,
    ``expected_batch`` and ``steps``, which must not be computed from the data. Add/remove neighbours.

    >>> plan = sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    >>> plan.steps, round(plan.rate, 5), round(plan.noise_multiplier, 3)
    (469, 0.01707, 0.886)
    >>> 2.999 < plan.privacy.epsilon(delta=1e-5) <= 3
    True
    """
    goal = approx_dp(epsilon=check.positive("epsilon", epsilon), delta=check.probability("delta", delta), unit=unit)
    if delta <= 0.0:
        raise InvalidInput("delta", delta, "a number above 0: Gaussian noise has no pure guarantee")
    chosen = _declared(examples, batch, epochs, rate, expected_batch, steps)
    protects = Protects(unit=unit)
    noise = calibrate(lambda s: SgdPlan(s, *chosen, protects).privacy, goal, low=0.05, high=1e7)
    return SgdPlan(noise, *chosen, protects, delta)


def _declared(
    examples: int | None,
    batch: float | None,
    epochs: float | None,
    rate: float | None,
    expected_batch: float | None,
    steps: int | None,
) -> tuple[float, int, float]:
    """Rate, steps and expected batch, from one of the two ways to say them."""
    by_size = {"examples": examples, "batch": batch, "epochs": epochs}
    by_rate = {"rate": rate, "expected_batch": expected_batch, "steps": steps}
    size_named = [name for name, value in by_size.items() if value is not None]
    rate_named = [name for name, value in by_rate.items() if value is not None]
    if len(size_named) + len(rate_named) != 3 or (size_named and rate_named):
        said = ", ".join([*size_named, *rate_named]) or "none of them"
        raise InvalidInput("arguments", said, "examples, batch and epochs; or rate, expected_batch and steps")
    if examples is not None and batch is not None and epochs is not None:
        size, each = check.count("examples", examples, least=1), check.positive("batch", batch)
        if each > size:
            raise InvalidInput("batch", batch, f"a number of examples, at most {size}")
        turns = math.ceil(check.positive("epochs", epochs) * size / each - 1e-9)
        return each / size, _few("epochs", max(1, turns)), each
    assert rate is not None
    assert expected_batch is not None
    assert steps is not None
    return rate, _few("steps", check.count("steps", steps, least=1)), check.positive("expected_batch", expected_batch)


def _few(name: str, steps: int) -> int:
    if steps > MOST_STEPS:
        raise InvalidInput(name, f"{steps} steps", f"at most {MOST_STEPS} steps")
    return steps
