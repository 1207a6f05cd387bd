"""Canaries for a training run, and the two controls without which an audit of it says little.

A recipe is a function ``train(included, noise)`` that trains once, with the canaries that ``included`` names and with
``noise`` times the noise of the claim, and gives one score per canary, larger where it looks included. With noise 0 the
attack must falsify the claim (else the scores see nothing); with 4 times the noise it must not (else the coins or the
guesses are wrong).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.guesses import OneRun, one_run, plan_one_run
from tallystick.audit.inclusion import coins
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.learn.training import SgdPlan

Bits = NDArray[np.bool_]
Recipe = Callable[[Bits, float], Any]
MORE_NOISE = 4.0
ALMOST_NONE = 1e-4
"""Of the claimed noise: what our trainer adds where none is asked for."""


@dataclass(frozen=True, slots=True)
class CanaryReport:
    """The audit of a training run between its controls: the same without noise, and with four times as much."""

    evidence: OneRun
    without_noise: OneRun
    more_noise: OneRun

    @property
    def controls_hold(self) -> bool:
        """Is the run without noise falsified, and the one with four times the noise not?"""
        return self.without_noise.falsified and not self.more_noise.falsified

    @property
    def falsified(self) -> bool:
        """Was the claim refuted? It is as good as the controls are."""
        return self.evidence.falsified

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "evidence": self.evidence.to_dict(),
            "without_noise": self.without_noise.to_dict(),
            "more_noise": self.more_noise.to_dict(),
            "controls_hold": self.controls_hold,
        }

    @property
    def controls(self) -> tuple[str, str]:
        """Report of the controls: what they found, and what they had to find."""
        return (
            _control("without noise", "FALSIFIED", self.without_noise),
            _control(f"{MORE_NOISE:g} times the noise", "NOT FALSIFIED", self.more_noise),
        )

    def __str__(self) -> str:
        return "\n".join([str(self.evidence), *self.controls])


def _control(name: str, wanted: str, found: OneRun) -> str:
    right = "as it must be" if found.verdict == wanted else f"but must be {wanted}: this audit shows nothing"
    return f"Control, {name}: {found.verdict}, {right} ({found.attack})."


def canary_run(
    train: Recipe, canaries: int, *, claim: PrivacyLoss, guesses: int | None = None, significance: float = 0.05
) -> CanaryReport:
    """Train three times (as claimed, without noise, with four times the noise), each with new coins.

    >>> from tallystick.accounting.losses import gdp
    >>> rng = np.random.default_rng(1)
    >>> def sums(included, noise):                            # a noisy sum for every canary: mu = 1 with noise 1
    ...     return included + noise * rng.normal(size=included.size)
    >>> report = canary_run(sums, 1000, claim=gdp(mu=1))
    >>> report.falsified, report.controls_hold
    (False, True)
    """
    if not callable(train):
        raise InvalidInput("train", train, "a function train(included, noise) that gives a score per canary")
    count = check.count("canaries", canaries, least=1)
    declared = guesses or plan_one_run(claim, canaries=count, significance=significance).guesses

    def audited(noise: float) -> OneRun:
        drawn = coins(count)
        scores = train(drawn.included, noise)
        return one_run(scores, drawn, claim=claim, guesses=declared, significance=significance)

    return CanaryReport(audited(1.0), audited(0.0), audited(MORE_NOISE))


def own_feature(rows: Any, canaries: int) -> tuple[Any, Any]:
    """Rows with a new column for every canary, and canaries that are 1 there and 0 elsewhere.

    In a model whose first layer is linear, the gradient of such a canary has a separate direction (a Dirac canary),
    which no other record moves: the strongest kind. Both are tensors if the rows are.

    >>> wider, alone = own_feature(np.ones((3, 2)), 4)
    >>> wider.shape, alone.shape, alone.sum()
    ((3, 6), (4, 6), np.float64(4.0))
    """
    count = check.count("canaries", canaries, least=1)
    array = np.asarray(rows)
    if array.ndim != 2:
        raise InvalidInput("rows", f"shape {array.shape}", "a table: one row per example")
    wider = np.concatenate([array, np.zeros((len(array), count), dtype=array.dtype)], axis=1)
    alone = np.concatenate([np.zeros((count, array.shape[1])), np.eye(count)], axis=1).astype(array.dtype)
    if type(rows).__module__.startswith("torch"):
        import torch

        return torch.as_tensor(wider), torch.as_tensor(alone)
    return wider, alone


def mislabelled(labels: Any, *, classes: int, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
    """A wrong label for each example, at random: examples that a model fits only if it has seen them.

    >>> wrong = mislabelled([0, 1, 2], classes=3)
    >>> bool((wrong != [0, 1, 2]).all())
    True
    """
    count = check.count("classes", classes, least=2)
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not bool(((given >= 0) & (given < count)).all()):
        raise InvalidInput("labels", f"{given.dtype} of shape {given.shape}", f"whole numbers from 0 to {count - 1}")
    tosses = rng or np.random.default_rng()
    return np.asarray((given + tosses.integers(1, count, size=given.size)) % count, dtype=np.int64)


def trainer_recipe(
    model: Callable[[], Any],
    loss: Any,
    optimizer: Callable[[Any], Any],
    *,
    plan: SgdPlan,
    clip: float,
    data: Sequence[Any],
    canaries: Sequence[Any],
    classes: int | Sequence[int] | None = None,
) -> Recipe:
    """A recipe for our Trainer: ``model()`` and ``optimizer(parameters)`` build anew, scores are minus the loss.

    ``data`` and ``canaries`` are tuples of tensors as ``Trainer.fit`` takes them. Rate, steps and divisor are the
    plan's for all coins, so that including a canary or not is adding or removing it. ``classes`` declares
    the labels, as for ``Trainer``. Nothing is charged: the data of an audit should be public or made up.
    """
    import torch

    from tallystick.learn.torch.trainer import Trainer
    from tallystick.mechanisms.base import UnrecordedRelease

    def train(included: Bits, noise: float) -> Any:
        trained = model()
        kept = torch.as_tensor(np.flatnonzero(included))
        tensors = tuple(torch.cat([rows, extra[kept]]) for rows, extra in zip(data, canaries, strict=True))
        run = replace(plan, noise_multiplier=plan.noise_multiplier * max(noise, ALMOST_NONE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnrecordedRelease)
            made = optimizer(trained.parameters())
            Trainer(trained, loss, made, plan=run, clip=clip, classes=classes).fit(tensors)
        with torch.no_grad():
            return -loss(trained(*canaries[:-1]), canaries[-1]).double().cpu().numpy()

    return train
