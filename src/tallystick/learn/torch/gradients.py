"""The gradients of one parameter, one for each example of a batch, in the shape that is cheapest to keep.

    Factors     gradient i is the outer product of two vectors: a linear layer that saw one vector per example
    Rows        gradient i is a table with few rows that are not zero: an embedding
    Written     gradient i is written out: everything else, and every sum of several uses

Each knows its squared norms and sums its examples times weights, in the precision of the weights. In double precision
a sum of n clipped gradients is right to n 2^-53 of their norms. In single precision ``CHUNK`` examples are summed at a
time and the sums added up, so that what one example's coming or going does to the rounding is bounded whatever the
order in which a product is summed (``docs/theory/private-training.md``).

A norm is that of the very numbers that are summed, never a difference of large terms that nearly cancel; squares are
added in single precision ``_FEW`` at a time and in double precision from there, so that a norm is right to 2^-15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tallystick.mechanisms.base import OnlyOne

CHUNK = 128
"""Examples that are summed in single precision at a time; the price of rounding grows with its square."""

_FEW = 1024
_LOST = 2.0**-125  # more than a square in single precision can lose by being too small for it
_LARGE = 2.0**126
_CACHED = 1 << 17  # numbers that stay in the cache of most machines


class Room(OnlyOne):
    """Memory for written-out gradients, used again for every micro-batch.

    To ask for it anew takes as long as to fill it. What was taken is overwritten after the next ``clear``.
    """

    def __init__(self) -> None:
        super().__init__()  # never stored: it holds gradients of examples, without noise
        self._all, self._used = torch.empty(0), 0

    def clear(self) -> None:
        """Start again, with enough room for as much as was taken since the last time."""
        if self._used > self._all.numel():
            self._all = self._all.new_empty(0)  # the old memory goes before the new comes
            self._all = self._all.new_empty(self._used)
        self._used = 0

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor of a shape, of the type and on the device of another one; nothing is written to it yet."""
        start, stop = self._used, self._used + math.prod(shape)
        self._used = -(-stop // 16) * 16  # the same product rounds alike only where it begins at like addresses
        if like.dtype != self._all.dtype or like.device != self._all.device:
            self._all = like.new_empty(0)
        if stop > self._all.numel():
            return like.new_empty(shape)
        return self._all[start:stop].view(shape)


class Gradients(Protocol):
    """Per-example gradients of one parameter."""

    def squares(self) -> Tensor:
        """Squared norm of each example's gradient, in double precision."""

    def sum_into(self, out: Tensor, weights: Tensor) -> None:
        """Write the sum of weights times gradients to ``out``, which is flat and has the precision of the weights."""

    def written(self) -> Tensor:
        """The gradients, written out: a matrix with one row per example."""

    def without(self, gone: Tensor) -> Gradients:
        """Return the gradients with the marked examples set to zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Outer products: of ``left`` (examples, outputs) and ``right`` (examples, inputs)."""

    left: Tensor
    right: Tensor
    known: Tensor | None = None  # squared norms of ``left``, where they were taken on the way

    def squares(self) -> Tensor:
        """|u v'|^2 = |u|^2 |v|^2."""
        return (squares_of(self.left) if self.known is None else self.known) * squares_of(self.right)

    def sum_into(self, out: Tensor, weights: Tensor) -> None:
        """A matrix product for all examples, or for a chunk of them at a time."""
        table = out.view(self.left.shape[1], self.right.shape[1])
        if weights.dtype == torch.float64:
            torch.mm((self.left * weights[:, None]).t(), self.right.double(), out=table)  # the slopes stay as they are
        else:
            _by_chunks(self.left, self.right, table, weights[:, None])

    def written(self) -> Tensor:
        """All outer products."""
        return torch.einsum("bp,bq->bpq", self.left, self.right).flatten(1)

    def without(self, gone: Tensor) -> Factors:
        """Both factors set to zero."""
        return Factors(_zeroed(self.left, gone), _zeroed(self.right, gone))


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """One row of numbers per example; ``last`` is their shape where the parameter's second axis is last."""

    rows: Tensor
    last: tuple[int, ...] | None = None
    known: Tensor | None = None  # their squared norms, where they were taken on the way

    def squares(self) -> Tensor:
        """Squared norms of the rows."""
        return squares_of(self.rows) if self.known is None else self.known

    def sum_into(self, out: Tensor, weights: Tensor) -> None:
        """A vector times a matrix; in double precision some columns at a time: as many as stay in the cache."""
        found = out if self.last is None else torch.empty_like(out)
        if weights.dtype == torch.float64:
            width = max(64, _CACHED // 2 // len(self.rows))
            for columns, part in zip(self.rows.split(width, dim=1), found.split(width), strict=True):
                torch.mv(columns.double().t(), weights, out=part)
        else:
            _by_chunks(self.rows, weights, found)
        if self.last is not None:
            out.copy_(self._ordered(found))

    def written(self) -> Tensor:
        """In the order of the parameter."""
        return self._ordered(self.rows)

    def without(self, gone: Tensor) -> Written:
        """Rows set to zero."""
        return Written(_zeroed(self.rows, gone), self.last)

    def _ordered(self, numbers: Tensor) -> Tensor:
        if self.last is None:
            return numbers
        return numbers.unflatten(-1, self.last).movedim(-1, -len(self.last) + 1).flatten(-len(self.last))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Tables with few rows: ``values[k]`` is row ``place[k]`` of the gradient of example ``owner[k]``."""

    owner: Tensor
    place: Tensor
    values: Tensor
    examples: int
    height: int

    @classmethod
    def of(cls, places: Tensor, values: Tensor, height: int) -> Rows:
        """From the places (examples, tokens) and what each token adds there: equal places of an example are summed."""
        examples = len(places)
        labels = places.flatten() + height * torch.arange(examples, device=places.device).repeat_interleave(
            places.shape[1]
        )
        pairs, where = torch.unique(labels, return_inverse=True)
        summed = values.new_zeros(len(pairs), values.shape[-1]).index_add(0, where, values.flatten(0, 1))
        return cls(pairs // height, pairs % height, summed, examples, height)

    def squares(self) -> Tensor:
        """Squared norms of the rows, added up for each example."""
        found = torch.zeros(self.examples, dtype=torch.float64, device=self.values.device)
        return found.index_add(0, self.owner, squares_of(self.values))

    def sum_into(self, out: Tensor, weights: Tensor) -> None:
        """Rows times the weight of their example, added in double precision and then put where they belong."""
        scaled = self.values * weights.double()[self.owner][:, None]
        places, where = torch.unique(self.place, return_inverse=True)
        found = scaled.new_zeros(len(places), scaled.shape[1]).index_add_(0, where, scaled)
        out.zero_().view(self.height, scaled.shape[1]).index_copy_(0, places, found.to(out.dtype))

    def written(self) -> Tensor:
        """Whole tables: large where the table is."""
        table = self.values.new_zeros(self.examples, self.height, self.values.shape[1])
        return table.index_put((self.owner, self.place), self.values).flatten(1)

    def without(self, gone: Tensor) -> Rows:
        """The rows of those examples set to zero."""
        values = _zeroed(self.values, gone[self.owner])
        return Rows(self.owner, self.place, values, self.examples, self.height)


def joined(uses: list[Gradients]) -> Gradients:
    """The gradients of a parameter that is used several times: its uses add up before any norm is taken."""
    if len(uses) == 1:
        return uses[0]
    if all(isinstance(use, Factors) for use in uses):
        left = torch.stack([use.left for use in uses if isinstance(use, Factors)], 1)
        right = torch.stack([use.right for use in uses if isinstance(use, Factors)], 1)
        return Written(torch.bmm(left.transpose(1, 2), right).flatten(1))
    total = uses[0].written()
    for use in uses[1:]:
        total = total + use.written()
    return Written(total)


def _by_chunks(left: Tensor, right: Tensor, out: Tensor, weights: Tensor | None = None) -> None:
    """The transpose of ``left`` (with its rows weighted) times ``right``, each chunk of rows a product of its own.

    ``addmm_`` would be allowed to round the whole sum for every row. Some columns at a time stay in the cache.
    """
    width = math.ceil(out.shape[0] / math.ceil(out.numel() / _CACHED))
    room = torch.empty_like(out[:width])
    for start in range(0, out.shape[0], width):
        total = out[start : start + width]
        for first in range(0, left.shape[0], CHUNK):
            some = slice(first, first + CHUNK)
            rows = left[some, start : start + width]
            rows = rows if weights is None else rows * weights[some]
            part = torch.matmul(rows.t(), right[some], out=room[: total.shape[0]] if first else total)
            if first:
                total.add_(part)


def squares_of(rows: Tensor) -> Tensor:
    """Squared norms of rows, in double precision: low by at most 2^-14 of them, however small the numbers are.

    A norm above 2^63 is infinite: what clips it would be too small to have all its digits in single precision.
    """
    width = rows.shape[1]
    if width <= _FEW:
        found = torch.linalg.vector_norm(rows, dim=1).double().square_().add_(_LOST * width)
        return found.masked_fill_(found > _LARGE, math.inf)
    whole = width // _FEW * _FEW
    found = torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (-1, _FEW)), dim=2).double().square_().sum(1)
    found.add_(_LOST * whole).masked_fill_(found > _LARGE, math.inf)
    return found if whole == width else found.add_(squares_of(rows[:, whole:]))


def _zeroed(rows: Tensor, gone: Tensor) -> Tensor:
    return rows.masked_fill(gone[:, None], 0.0)
