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

from tallystick.learn.torch.gradients import Factors, Gradients, Rows, Written

Uses = Iterator[tuple[Tensor, Gradients]]


def linear(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """One vector per example stays two factors; a sequence is written out as one product per example."""
    if given.dim() == 2:
        yield layer.weight, Factors(slope, given)
        yield layer.bias, Written(slope)
        return
    given, slope = given.flatten(1, -2), slope.flatten(1, -2)
    yield layer.weight, Written(torch.bmm(slope.transpose(1, 2), given).flatten(1))
    yield layer.bias, Written(slope.sum(1))


def convolution(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """A product of the output's gradient with the windows of the padded input."""
    sizes, groups = layer.kernel_size, layer.groups
    around = layer._reversed_padding_repeated_twice
    if any(around):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        given = nn.functional.pad(given, around, mode=mode)
    for axis, (size, step, gap) in enumerate(zip(sizes, layer.stride, layer.dilation, strict=True), start=2):
        given = given.unfold(axis, gap * (size - 1) + 1, step)[..., ::gap]
    # now (examples, channels, places ..., window ...)
    places = len(sizes)
    order = [0, *range(2, 2 + places), 1, *range(2 + places, 2 + 2 * places)]
    examples, many = len(given), math.prod(given.shape[2 : 2 + places])
    windows = given.permute(order).reshape(examples, many, groups, -1)
    slope = slope.flatten(2)
    if groups == 1:
        weight = torch.bmm(slope, windows[:, :, 0])
    else:
        apart = slope.unflatten(1, (groups, -1))
        weight = torch.einsum("bgol,blgk->bgok", apart, windows)
    yield layer.weight, Written(weight.flatten(1))
    yield layer.bias, Written(slope.sum(2))


def embedding(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """A row for each token; the padding token's row is never trained."""
    places, values = given.reshape(len(given), -1), slope.reshape(len(given), -1, slope.shape[-1])
    if layer.padding_idx is not None:
        values = values.masked_fill((places == layer.padding_idx)[..., None], 0.0)
    yield layer.weight, Rows.of(places, values, layer.num_embeddings)


def layer_norm(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """Scale and shift of what was normalised over the last axes."""
    axes = tuple(range(-len(layer.normalized_shape), 0))
    spread, middle = torch.var_mean(given, dim=axes, unbiased=False, keepdim=True)
    yield from _scale_and_shift(layer, (given - middle) * torch.rsqrt(spread + layer.eps), slope, axes)


def root_mean_square_norm(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """Like a layer norm that does not centre."""
    axes = tuple(range(-len(layer.normalized_shape), 0))
    least = torch.finfo(given.dtype).eps if layer.eps is None else layer.eps
    size = given.square().mean(dim=axes, keepdim=True)
    yield from _scale_and_shift(layer, given * torch.rsqrt(size + least), slope, axes)


def group_norm(layer: Any, given: Tensor, slope: Tensor) -> Uses:
    """Scale and shift of each channel; the channels of an instance norm are groups of their own."""
    groups = getattr(layer, "num_groups", given.shape[1])
    shape = given.shape
    grouped = given.reshape(len(given), groups, -1)
    spread, middle = torch.var_mean(grouped, dim=2, unbiased=False, keepdim=True)
    normal = ((grouped - middle) * torch.rsqrt(spread + layer.eps)).reshape(shape)
    yield layer.weight, Written((normal * slope).reshape(*shape[:2], -1).sum(2))
    yield layer.bias, Written(slope.reshape(*shape[:2], -1).sum(2))


def _scale_and_shift(layer: Any, normal: Tensor, slope: Tensor, axes: tuple[int, ...]) -> Uses:
    kept = math.prod(slope.shape[axis] for axis in axes)
    yield layer.weight, Written((normal * slope).reshape(len(slope), -1, kept).sum(1))
    bias = getattr(layer, "bias", None)
    if bias is not None:
        yield bias, Written(slope.reshape(len(slope), -1, kept).sum(1))


TABLE: dict[type[nn.Module], Callable[[Any, Tensor, Tensor], Uses]] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: root_mean_square_norm,
    nn.GroupNorm: group_norm,
    nn.InstanceNorm1d: group_norm,
    nn.InstanceNorm2d: group_norm,
    nn.InstanceNorm3d: group_norm,
}
"""By exact type: a subclass may compute something else."""
