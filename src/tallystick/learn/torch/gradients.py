"""The gradients of one parameter, one for each example of a batch, in the shape that is cheapest to keep.

    Factors     gradient i is the outer product of two vectors: a linear layer that saw one vector per example
    Rows        gradient i is a table with few rows that are not zero: an embedding
    Written     gradient i is written out: everything else, and every sum of several uses

Each knows its squared norms and adds up its examples times weights. Sums are in double precision, from what torch
computed in single precision, so that a sum of n clipped gradients is right to n 2^-53 of the clip. A norm is that of
the very numbers that are summed, never a difference of large terms that nearly cancel; squares are added in single
precision sixteen at a time and in double precision from there, so that a norm is right to 2^-20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_FEW = 16
_BLOCK = 1 << 16


class Gradients(Protocol):
    """Per-example gradients of one parameter."""

    def squares(self) -> Tensor:
        """Squared norm of each example's gradient, in double precision."""

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add weights times gradients to ``total``, which is flat; it and the weights are in double precision."""

    def written(self) -> Tensor:
        """The gradients, written out: a matrix with one row per example."""

    def without(self, gone: Tensor) -> Gradients:
        """The same with the marked examples set to zero, whatever they were."""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Outer products: of ``left`` (examples, outputs) and ``right`` (examples, inputs)."""

    left: Tensor
    right: Tensor

    def squares(self) -> Tensor:
        """|u v'|^2 = |u|^2 |v|^2."""
        return _squares(self.left) * _squares(self.right)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """One matrix product for all examples."""
        left, right = self.left.double().mul_(weights[:, None]), self.right.double()
        total.view(left.shape[1], right.shape[1]).addmm_(left.t(), right)

    def written(self) -> Tensor:
        """All outer products."""
        return torch.einsum("bp,bq->bpq", self.left, self.right).flatten(1)

    def without(self, gone: Tensor) -> Factors:
        """Both factors set to zero."""
        return Factors(_zeroed(self.left, gone), _zeroed(self.right, gone))


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """One row of numbers per example."""

    rows: Tensor

    def squares(self) -> Tensor:
        """Squared norms of the rows."""
        return _squares(self.rows)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """A vector times a matrix, some columns at a time: as many as stay in the cache in double precision."""
        width = max(64, _BLOCK // len(self.rows))
        for start in range(0, self.rows.shape[1], width):
            columns = self.rows[:, start : start + width].double()
            total[start : start + width].addmv_(columns.t(), weights)

    def written(self) -> Tensor:
        """As they are."""
        return self.rows

    def without(self, gone: Tensor) -> Written:
        """Rows set to zero."""
        return Written(_zeroed(self.rows, gone))


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
        return found.index_add(0, self.owner, _squares(self.values))

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Rows times the weight of their example, added where they belong."""
        scaled = self.values.double().mul_(weights[self.owner][:, None])
        total.view(self.height, scaled.shape[1]).index_add_(0, self.place, scaled)

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


def _squares(rows: Tensor) -> Tensor:
    whole = rows.shape[1] // _FEW * _FEW
    parts = torch.linalg.vector_norm(rows[:, :whole].unflatten(1, (-1, _FEW)), dim=2).double()
    rest = torch.linalg.vector_norm(rows[:, whole:], dim=1).double()
    return parts.square_().sum(1).add_(rest.square_())


def _zeroed(rows: Tensor, gone: Tensor) -> Tensor:
    return rows.masked_fill(gone[:, None], 0.0)
