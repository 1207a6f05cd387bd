"""A training run before it runs: how much noise, how often, and what that costs. Needs no framework and no data.

    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    plan.noise_multiplier, plan.rate, plan.steps, plan.privacy

Who is in a batch is part of the price:

    poisson    every example with the same probability, independently                        add/remove neighbours
    fixed      exactly this many of a public number of examples, drawn afresh for every step replace-one neighbours
    cyclic     the examples whose turn it is, each once per pass, in an order fixed by ids   add/remove neighbours

A loader that shuffles and deals batches is none of them.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tallystick.accounting import check
from tallystick.accounting.adjacency import ANY_UNIT, Adjacency, Protects
from tallystick.accounting.calibrate import calibrate
from tallystick.accounting.losses import approx_dp, gaussian
from tallystick.errors import AdjacencyMismatch, InvalidInput

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

MOST_STEPS = 10**9
_ADJACENCY = {"poisson": Adjacency.ADD_REMOVE, "fixed": Adjacency.REPLACE, "cyclic": Adjacency.ADD_REMOVE}
BATCHES = tuple(_ADJACENCY)


@dataclass(frozen=True)
class SgdPlan:
    """Noisy gradient steps; every number in it is public.

    ``noise_multiplier`` is the noise's standard deviation over the clip, as Opacus, TF Privacy and JAX Privacy count
    it; ``expected_batch`` divides the noisy sum for every size of a batch. ``delta`` is what the run may use of
    an account's delta; it changes nothing else. ``batches`` says who takes part; fixed ones need ``examples``.
    """

    noise_multiplier: float
    rate: float
    steps: int
    expected_batch: float
    protects: Protects = ANY_UNIT
    delta: float | None = None
    batches: str = "poisson"
    examples: int | None = None

    def __post_init__(self) -> None:
        check.positive("noise_multiplier", self.noise_multiplier)
        check.positive("expected_batch", self.expected_batch)
        check.count("steps", self.steps, least=1)
        if self.delta is not None:
            check.probability("delta", self.delta)
        if not 0.0 < check.finite("rate", self.rate, "a probability above 0") <= 1.0:
            raise InvalidInput("rate", self.rate, "a probability above 0 and at most 1")
        if self.batches not in BATCHES:
            raise InvalidInput("batches", self.batches, ", ".join(BATCHES))
        if self.batches == "fixed" and (
            self.expected_batch > check.count("examples", self.examples, least=1) or self.expected_batch % 1
        ):
            raise InvalidInput("expected_batch", self.expected_batch, "a whole number of the declared examples")
        if self.protects.adjacency is not _ADJACENCY[self.batches]:
            raise AdjacencyMismatch(self.protects.adjacency.value, f"{self.batches} batches")

    @property
    def turn(self) -> int:
        """Number of steps that ``step_loss`` is about: one, or a pass of cyclic batches, one turn of each example."""
        return math.ceil(1.0 / self.rate - 1e-9) if self.batches == "cyclic" else 1

    @cached_property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of all steps together, if attackers see every noisy gradient."""
        return self.of_steps(self.steps)

    @property
    def step_loss(self) -> PrivacyLoss:
        """Privacy loss of ``turn`` steps."""
        if self.batches == "fixed":  # a replaced example moves the sum by twice the clip
            step = gaussian(sigma=self.noise_multiplier / 2.0, **self.protects.about)
            return step.subset(batch=int(self.expected_batch), population=self.examples or 0)
        step = gaussian(sigma=self.noise_multiplier, **self.protects.about)
        return step if self.rate == 1.0 or self.batches == "cyclic" else step.sampled(rate=self.rate)

    def of_steps(self, steps: int) -> PrivacyLoss:
        """Return the privacy loss of this many of the steps, for charging in blocks, each before it runs."""
        return -(-steps // self.turn) * self.step_loss

    def error(self) -> float:
        """Standard deviation of the noise in each coordinate of a mean gradient, in units of the clip.

        >>> round(SgdPlan(noise_multiplier=1.0, rate=0.01, steps=100, expected_batch=500).error(), 4)
        0.002
        """
        return self.noise_multiplier / self.expected_batch

    def __str__(self) -> str:
        who = {
            "poisson": f"each example in a batch with probability {self.rate:.6g} ({self.expected_batch:g} expected)",
            "fixed": f"{self.expected_batch:g} of {self.examples} examples in each",
            "cyclic": f"each example in every {self.turn}th ({self.expected_batch:g} expected)",
        }
        return f"{self.steps} steps, {who[self.batches]}, noise {self.noise_multiplier:.6g} times the clip"


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
    batches: str = "poisson",
) -> SgdPlan:
    """The least noise with which such a run is (epsilon, delta)-private; spends nothing.

    Say ``examples``, ``batch`` and ``epochs`` where the number of examples is public. Where it is not, say ``rate``,
    ``expected_batch`` and ``steps``, which must not be computed from the data. Add/remove neighbours, except for
    ``batches="fixed"``, which needs a public number of examples and protects against replacing one.

    >>> plan = sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    >>> plan.steps, round(plan.rate, 5), round(plan.noise_multiplier, 3)
    (469, 0.01707, 0.886)
    >>> 2.999 < plan.privacy.epsilon(delta=1e-5) <= 3
    True
    """
    if batches not in BATCHES:
        raise InvalidInput("batches", batches, ", ".join(BATCHES))
    protects = Protects(_ADJACENCY[batches], unit)
    wanted, least = check.positive("epsilon", epsilon), check.probability("delta", delta)
    if least <= 0.0:
        raise InvalidInput("delta", delta, "a number above 0: Gaussian noise has no pure guarantee")
    if examples is not None and least * examples >= 1.0:
        warnings.warn(
            f"delta = {delta} of {examples} examples allows to publish one of them as it is; take it far below "
            f"{1.0 / examples:.1g}",
            stacklevel=2,
        )
    goal = approx_dp(epsilon=wanted, delta=least, **protects.about)
    chosen = _declared(examples, batch, epochs, rate, expected_batch, steps)
    if batches == "cyclic":  # whole turns: the rate is one over a whole number
        turn = math.ceil(1.0 / chosen[0] - 1e-9)
        chosen = (1.0 / turn, turn * max(1, math.ceil(chosen[1] / turn - 1e-9)), chosen[2])
    made = partial(_made, chosen, protects, least, batches, examples if batches == "fixed" else None)
    return made(calibrate(lambda s: made(s).privacy, goal, low=0.05, high=1e7))


def at_epsilon(plan: SgdPlan, *, epsilon: float, delta: float) -> SgdPlan:
    """Return the same batches and steps with the least noise that is (epsilon, delta)-private.

    >>> plan = sgd_plan(epsilon=3, delta=1e-5, rate=0.01, expected_batch=100, steps=10)
    >>> at_epsilon(plan, epsilon=1, delta=1e-5) == sgd_plan(
    ...     epsilon=1, delta=1e-5, rate=0.01, expected_batch=100, steps=10
    ... )
    True
    """
    goal = approx_dp(epsilon=epsilon, delta=delta, **plan.protects.about)

    def made(noise: float) -> SgdPlan:
        return replace(plan, noise_multiplier=noise, delta=delta)

    return made(calibrate(lambda noise: made(noise).privacy, goal, low=0.05, high=1e7))


def _made(
    chosen: tuple[float, int, float],
    protects: Protects,
    delta: float,
    batches: str,
    examples: int | None,
    noise: float,
) -> SgdPlan:
    return SgdPlan(noise, *chosen, protects, delta, batches, examples)


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
