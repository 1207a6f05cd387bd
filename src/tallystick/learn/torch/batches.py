"""Who is in the next batch: drawn by the very rule that was priced, so that sampler and price cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tallystick.errors import InvalidInput, Refused
from tallystick.learn.records import first_of_each, identifiers
from tallystick.learn.training import SgdPlan
from tallystick.mechanisms.exact.coins import flip
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.mechanisms.exact.uniform import integer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """The examples of one step, for that step only; its size is private, and 0 is a size like any other."""

    tensors: tuple[Tensor, ...]
    step: int

    def __repr__(self) -> str:
        return f"<Batch of step {self.step}>"

    def __getitem__(self, place: object) -> NoReturn:
        raise Refused("only trainer.step(batch) opens a batch: it clips and adds noise")


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Tensors whose first axis is the example; the last one is the target."""

    tensors: tuple[Tensor, ...]
    ids: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, given: Any, units: Sequence[Any] | None = None, ids: Any = None) -> Examples:
        """Check containers only: types and lengths. The first example of each unit, or of each id, stays."""
        allowed = "two or more tensors with one example per row, such as (inputs, targets)"
        given = getattr(given, "tensors", given)  # a TensorDataset
        if not isinstance(given, (tuple, list)) or len(given) < 2:
            raise InvalidInput("tensors", type(given).__name__, allowed)
        if other := [type(each).__name__ for each in given if not isinstance(each, Tensor)]:
            problem = (
                f"inputs and targets must be tensors, and one is of type {other[0]}. Convert it: torch.as_tensor(array)"
            )
            raise InvalidInput("tensors", other[0], "", problem=problem)
        for tensor in given:
            _require_rows(tensor)
        if any(t.dim() == 0 or len(t) != len(given[0]) for t in given):
            raise InvalidInput("tensors", "tensors of different lengths", allowed)
        if units is not None and ids is not None:
            raise InvalidInput("ids", "ids and units", "one of them: ids name the units of a cyclic run")
        if ids is not None:
            ids = _whole(ids)
            units = ids.tolist()
        if units is None:
            return cls(tuple(given))
        kept = np.flatnonzero(first_of_each(identifiers(units, len(given[0])), 1))
        return cls(_taken(tuple(given), kept), None if ids is None else ids[kept])

    def require(self, plan: SgdPlan) -> None:
        """Raise where these examples cannot be dealt as the plan says; looks at public facts only."""
        if (plan.batches == "cyclic") != (self.ids is not None):
            raise InvalidInput("ids", self.ids, "whole numbers, one per example, for cyclic batches, and for no others")
        if plan.batches == "fixed" and len(self.tensors[0]) != plan.examples:
            raise InvalidInput("tensors", f"{len(self.tensors[0])} examples", f"the declared {plan.examples}")

    def shuffled(self, source: Source = SYSTEM) -> Examples:
        """Return the examples in a random order."""
        order = shuffled(np.arange(len(self.tensors[0])), source)
        return Examples(_taken(self.tensors, order), None if self.ids is None else self.ids[order])

    def batch(self, plan: SgdPlan, step: int, source: Source = SYSTEM) -> Batch:
        """The batch of a step, drawn exactly as it was priced, in a random order (which is ours where all take part).

        The order lets one example's coming or going touch two places of the batch only: those who stay keep theirs, but
        for one that fills the gap (``docs/theory/private-training.md``).
        """
        count = len(self.tensors[0])
        if self.ids is not None:
            chosen = np.flatnonzero(self.ids % plan.turn == step % plan.turn)
        elif plan.batches == "fixed":
            chosen = subset(int(plan.expected_batch), count, source)
        elif plan.rate == 1.0:
            return Batch(self.tensors, step)
        else:
            rate = Fraction(plan.rate)
            chosen = np.flatnonzero(flip(lambda digits: digits.of(rate), count, source))
        return Batch(_taken(self.tensors, shuffled(chosen, source)), step)


def subset(size: int, count: int, source: Source) -> NDArray[np.int64]:
    """A uniform subset of this many of ``count`` places, in order (Floyd's algorithm, with exact uniform integers).

    >>> subset(3, 3, SYSTEM).tolist()
    [0, 1, 2]
    """
    chosen: set[int] = set()
    for top in range(count - size, count):
        drawn = integer(top + 1, source)
        chosen.add(top if drawn in chosen else drawn)
    return np.array(sorted(chosen), dtype=np.int64)


def shuffled(places: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    """Return places in a random order, all orders equally likely: that of as many different random words.

    >>> sorted(shuffled(np.arange(4), SYSTEM).tolist())
    [0, 1, 2, 3]
    """
    while True:
        words = source.words(len(places))
        order = np.argsort(words)
        if not np.any(np.diff(words[order]) == 0):
            return places[order]


def _taken(tensors: tuple[Tensor, ...], chosen: NDArray[np.int64]) -> tuple[Tensor, ...]:
    places = torch.from_numpy(chosen)
    return tuple(t[places.to(t.device)] for t in tensors)


def _require_rows(tensor: Tensor) -> None:
    """Raise for a tensor whose rows cannot be taken by their numbers; its layout is public."""
    allowed = "dense tensors with numbers in memory, such as tensor.to_dense()"
    layout = str(tensor.layout).removeprefix("torch.")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        kind = next((name for name in ("nested", "quantized", "meta") if getattr(tensor, f"is_{name}")), layout)
        raise InvalidInput("tensors", f"a tensor of layout {kind}", allowed)


def _whole(ids: Any) -> NDArray[np.int64]:
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput("ids", type(ids).__name__, "whole numbers, one per example")
    return array.astype(np.int64)
