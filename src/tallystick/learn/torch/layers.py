"""What each kind of layer adds to the gradients of its parameters, from its input and the gradient of its output.

Every layer here treats examples apart: example i is row i of its input and of its output. A layer that is not in the
table is refused before training, and so is one whose settings mix examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tallystick.learn.torch.gradients import Factors, Gradients, Room, Rows, Written, squares_of
from tallystick.learn.torch.replacements import Positions

Uses = Iterator[tuple[Tensor, Gradients]]

_CACHED = 1 << 18  # numbers that stay in the cache of most machines


def linear(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """One vector per example stays two factors; a sequence is written out as one product per example."""
    if given.dim() == 2:
        known = squares_of(slope)
        yield layer.weight, Factors(slope, given, known)
        yield layer.bias, Written(slope, known=known)
        return
    given, slope = given.flatten(1, -2), slope.flatten(1, -2)
    yield layer.weight, _products(slope.transpose(1, 2)[:, None], given[:, None], room)
    yield layer.bias, Written(slope.sum(1))


def convolution(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """A product of the output's gradient with the windows of the padded input, channels last: fewer, longer copies."""
    sizes, groups = layer.kernel_size, layer.groups
    around = layer._reversed_padding_repeated_twice
    if any(around):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        given = nn.functional.pad(given, around, mode=mode)
    given = given.movedim(1, -1).contiguous().unflatten(-1, (groups, -1))
    for axis, (size, step, gap) in enumerate(zip(sizes, layer.stride, layer.dilation, strict=True), start=1):
        given = given.unfold(axis, gap * (size - 1) + 1, step)[..., ::gap]
    # now (examples, places ..., groups, channels, window ...)
    windows = given.movedim((1 + len(sizes), 2 + len(sizes)), (1, -1))
    slope = slope.flatten(2)
    shape = (layer.out_channels, *sizes, windows.shape[-1])
    yield layer.weight, _products(slope.unflatten(1, (groups, -1)), windows, room, shape)
    yield layer.bias, Written(slope.sum(2))


def embedding(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """A row for each token; the padding token's row is never trained."""
    places, values = given.reshape(len(given), -1), slope.reshape(len(given), -1, slope.shape[-1])
    if layer.padding_idx is not None:
        values = values.masked_fill((places == layer.padding_idx)[..., None], 0.0)
    yield layer.weight, Rows.of(places, values, layer.num_embeddings)


def positions(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """One example adds the slope of each place to that place's vector, and nothing to places that it does not have."""
    unused = layer.weight.shape[0] - slope.shape[1]
    yield layer.weight, Written(nn.functional.pad(slope, (0, 0, 0, unused)).flatten(1))


def layer_norm(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """Scale and shift of what was normalised over the last axes."""
    axes = tuple(range(-len(layer.normalized_shape), 0))
    normal = nn.functional.layer_norm(given, layer.normalized_shape, eps=layer.eps)
    yield from _scale_and_shift(layer, normal, slope, axes)


def root_mean_square_norm(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """Like a layer norm that does not centre."""
    axes = tuple(range(-len(layer.normalized_shape), 0))
    normal = nn.functional.rms_norm(given, layer.normalized_shape, eps=layer.eps)
    yield from _scale_and_shift(layer, normal, slope, axes)


def group_norm(layer: Any, given: Tensor, slope: Tensor, room: Room) -> Uses:
    """Scale and shift of each channel; the channels of an instance norm are groups of their own."""
    groups = getattr(layer, "num_groups", given.shape[1])
    shape = given.shape
    normal = nn.functional.group_norm(given, groups, eps=layer.eps)
    yield layer.weight, Written((normal * slope).reshape(*shape[:2], -1).sum(2))
    yield layer.bias, Written(slope.reshape(*shape[:2], -1).sum(2))


def _products(left: Tensor, right: Tensor, room: Room, last: tuple[int, ...] | None = None) -> Written:
    """A product of matrices for each example and group, and the norms, some examples at a time: they stay in the cache.

    ``left`` is (examples, groups, outputs, places); ``right`` is (examples, groups, places ..., inputs ...), and may be
    a view that overlaps itself.
    """
    examples, groups, outputs, places = left.shape
    inputs = math.prod(right.shape[1:]) // (groups * places)
    rows = room.take(left, examples, groups * outputs * inputs)
    squares = torch.empty(examples, dtype=torch.float64, device=left.device)
    many = max(1, _CACHED // max(rows.shape[1], math.prod(right.shape[1:])))
    for start in range(0, examples, many):
        some = slice(start, start + many)
        few = left[some].flatten(0, 1)
        torch.bmm(few, right[some].reshape(len(few), places, inputs), out=rows[some].view(len(few), outputs, inputs))
        squares[some] = squares_of(rows[some])
    return Written(rows, last, squares)


def _scale_and_shift(layer: Any, normal: Tensor, slope: Tensor, axes: tuple[int, ...]) -> Uses:
    kept = math.prod(slope.shape[axis] for axis in axes)
    yield layer.weight, Written((normal * slope).reshape(len(slope), -1, kept).sum(1))
    bias = getattr(layer, "bias", None)
    if bias is not None:
        yield bias, Written(slope.reshape(len(slope), -1, kept).sum(1))


TABLE: dict[type[nn.Module], Callable[[Any, Tensor, Tensor, Room], Uses]] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.Embedding: embedding,
    Positions: positions,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: root_mean_square_norm,
    nn.GroupNorm: group_norm,
    nn.InstanceNorm1d: group_norm,
    nn.InstanceNorm2d: group_norm,
    nn.InstanceNorm3d: group_norm,
}
"""By exact type: a subclass may compute something else."""
