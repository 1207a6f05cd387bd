"""Who is in the next batch: drawn by the very rule that was priced, so that sampler and price cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tallystick.errors import InvalidInput
from tallystick.learn.records import first_of_each
from tallystick.learn.training import SgdPlan
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.randomness import SYSTEM, Source


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """The examples of one step, for that step only; its size is private, and 0 is a size like any other."""

    tensors: tuple[Tensor, ...]
    step: int

    def __repr__(self) -> str:
        return f"<Batch of step {self.step}>"


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Tensors whose first axis is the example; the last one is the target."""

    tensors: tuple[Tensor, ...]

    @classmethod
    def of(cls, given: Any, units: Sequence[Any] | None = None) -> Examples:
        """Check containers only: types and lengths. With ``units`` the first example of each unit stays."""
        allowed = "two or more tensors with one example per row, such as (inputs, targets)"
        given = getattr(given, "tensors", given)  # a TensorDataset
        if not isinstance(given, (tuple, list)) or len(given) < 2 or not all(isinstance(t, Tensor) for t in given):
            raise InvalidInput("tensors", type(given).__name__, allowed)
        if any(t.dim() == 0 or len(t) != len(given[0]) for t in given):
            raise InvalidInput("tensors", "tensors of different lengths", allowed)
        if units is None:
            return cls(tuple(given))
        if len(units) != len(given[0]):
            raise InvalidInput("units", "another number of entries", "a list with one identifier per example")
        kept = torch.from_numpy(np.flatnonzero(first_of_each(units, 1)))
        return cls(tuple(t[kept.to(t.device)] for t in given))

    def batch(self, plan: SgdPlan, step: int, source: Source = SYSTEM) -> Batch:
        """The batch of a step: a coin for each example that falls heads with exactly the plan's rate."""
        if plan.rate == 1.0:
            return Batch(self.tensors, step)
        rate = Fraction(plan.rate)
        heads = flip(lambda digits: digits.of(rate), len(self.tensors[0]), source)
        places = torch.from_numpy(np.flatnonzero(heads))
        return Batch(tuple(t[places.to(t.device)] for t in self.tensors), step)
