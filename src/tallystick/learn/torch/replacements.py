"""Attention, recurrent layers and learned positions whose gradients the engine can see example by example.

Attention and recurrent layers compute what torch's own layers compute, with the example first. ``from_torch`` copies
the weights of a layer that exists.
"""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor, nn

from tallystick.errors import InvalidInput

EXAMPLES_FIRST = "True: the first axis of every input is the example, because clipping needs examples one by one"


class NotFused:
    """Stands for the fused projection of ``nn.MultiheadAttention``, so that torch does not take its fused path."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        return NotImplemented


class Attention(nn.Module):  # type: ignore[misc]  # torch's types are not read
    """``nn.MultiheadAttention`` with ``batch_first=True``, made of linear layers.

    It takes the same arguments, masks included, and returns the same pair. It fits into the layers of torch:

        layer.self_attn = ts.learn.torch.Attention.from_torch(layer.self_attn)    # nn.TransformerEncoderLayer
    """

    in_proj_bias = None  # torch reads these to choose its fused path, which has no linear layers
    in_proj_weight = NotFused()
    batch_first = True
    _qkv_same_embed_dim = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise InvalidInput("num_heads", num_heads, f"a divisor of embed_dim ({embed_dim})")
        if not batch_first:
            raise InvalidInput("batch_first", batch_first, EXAMPLES_FIRST)
        for name, value in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if value:
                raise InvalidInput(name, value, "False")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        made: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.query = nn.Linear(embed_dim, embed_dim, **made)
        self.key = nn.Linear(kdim or embed_dim, embed_dim, **made)
        self.value = nn.Linear(vdim or embed_dim, embed_dim, **made)
        self.out_proj = nn.Linear(embed_dim, embed_dim, **made)
        self.of_weights = nn.Dropout(dropout)

    @classmethod
    def from_torch(cls, layer: Any) -> Self:
        """Copy a layer of torch with its weights and its dropout."""
        if layer.bias_k is not None or layer.add_zero_attn:
            raise InvalidInput("layer", "add_bias_kv or add_zero_attn", "an nn.MultiheadAttention without them")
        if not layer.batch_first:
            allowed = f"a layer made with batch_first={EXAMPLES_FIRST}"
            raise InvalidInput("layer", "batch_first=False", allowed)
        has_bias = layer.in_proj_bias is not None
        made = cls(layer.embed_dim, layer.num_heads, layer.dropout, has_bias, kdim=layer.kdim, vdim=layer.vdim)
        made.to(layer.out_proj.weight).train(layer.training)
        parts = (made.query, made.key, made.value)
        weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        if layer.in_proj_weight is not None:
            weights = layer.in_proj_weight.chunk(3)
        with torch.no_grad():
            for part, weight in zip(parts, weights, strict=True):
                part.weight.copy_(weight)
            made.out_proj.weight.copy_(layer.out_proj.weight)
            if has_bias:
                for part, bias in zip(parts, layer.in_proj_bias.chunk(3), strict=True):
                    part.bias.copy_(bias)
                made.out_proj.bias.copy_(layer.out_proj.bias)
        return made

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what each place of ``query`` reads of ``value``, and the weights if they are needed.

        All inputs are (examples, places, features). Masks mean what they mean in torch: True leaves a place out, and
        numbers are added to the scores.
        """
        if query.dim() != 3:
            raise InvalidInput("query", f"{query.dim()} dimensions", "(examples, places, features)")
        q, k, v = self._heads(self.query(query)), self._heads(self.key(key)), self._heads(self.value(value))
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal)
        weights: Tensor | None = None
        if need_weights or (self.training and self.of_weights.p > 0.0):
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            weights = self.of_weights((scores if mask is None else scores + mask).softmax(-1))
            read = weights @ v
        else:
            read = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(read.transpose(1, 2).flatten(2))
        if weights is None or not need_weights:
            return out, None
        return out, weights.mean(1) if average_attn_weights else weights

    def _heads(self, given: Tensor) -> Tensor:
        """(examples, places, features) as (examples, heads, places, features of a head)."""
        return given.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _mask(
        self, q: Tensor, k: Tensor, attn_mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor | None:
        """Numbers that are added to the scores (examples, heads, places, places read), or None."""
        if attn_mask is None and is_causal:
            attn_mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
        found: Tensor | None = None
        if attn_mask is not None:
            shape = (1, 1) if attn_mask.dim() == 2 else (q.shape[0], self.num_heads)
            found = _added(attn_mask, q).reshape(*shape, *attn_mask.shape[-2:])
        if padding is not None:
            hidden = _added(padding, q)[:, None, None, :]
            found = hidden if found is None else found + hidden
        return found


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask of truth values as numbers: minus infinity where it is True."""
    if mask.dtype != torch.bool:
        return mask.to(like)
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)


class Positions(nn.Module):  # type: ignore[misc]
    """Learned positions: adds a learned vector to each place. Use it instead of an ``nn.Parameter``.

    Its input is (examples, places, embed_dim), with at most ``length`` places.
    """

    def __init__(self, length: int, embed_dim: int, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, embed_dim, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, given: Tensor) -> Tensor:
        """Add the vector of each place."""
        if given.dim() != 3 or given.shape[1] > len(self.weight):
            allowed = f"(examples, places, features) with at most {len(self.weight)} places"
            raise InvalidInput("given", f"shape {tuple(given.shape)}", allowed)
        out: Tensor = given + self.weight[: given.shape[1]]
        return out


class _Recurrent(nn.Module):  # type: ignore[misc]
    """One layer, one direction, example first; ``gates`` linear maps of the input and as many of the state."""

    gates: int

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.size = hidden_size
        self.inward = nn.Linear(input_size, self.gates * hidden_size)
        self.onward = nn.Linear(hidden_size, self.gates * hidden_size)
        for p in self.parameters():
            nn.init.uniform_(p, -(hidden_size**-0.5), hidden_size**-0.5)

    @classmethod
    def from_torch(cls, layer: Any) -> Self:
        """Return the cell as one of torch's with one layer and one direction."""
        if layer.num_layers != 1 or layer.bidirectional or not layer.bias or layer.proj_size:
            raise InvalidInput("layer", "more than one layer or direction", "one layer, one direction, with bias")
        if not layer.batch_first:
            raise InvalidInput("layer", "batch_first=False", f"a layer made with batch_first={EXAMPLES_FIRST}")
        made = cls(layer.input_size, layer.hidden_size)
        with torch.no_grad():
            made.inward.weight.copy_(layer.weight_ih_l0)
            made.inward.bias.copy_(layer.bias_ih_l0)
            made.onward.weight.copy_(layer.weight_hh_l0)
            made.onward.bias.copy_(layer.bias_hh_l0)
        return made

    def forward(self, given: Tensor) -> Tensor:
        """The states (examples, times, hidden_size) of a sequence (examples, times, input_size)."""
        state = [given.new_zeros(len(given), self.size) for _ in range(2)]
        states, inward = [], self.inward(given)
        for time in range(given.shape[1]):
            state = self.step(inward[:, time], state)
            states.append(state[0])
        return torch.stack(states, 1)

    def step(self, inward: Tensor, state: list[Tensor]) -> list[Tensor]:
        """The next state."""
        raise NotImplementedError


class LSTM(_Recurrent):
    """``nn.LSTM(batch_first=True)``, states only."""

    gates = 4

    def step(self, inward: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Gates in torch's order: input, forget, cell, output."""
        enter, forget, new, out = (inward + self.onward(state[0])).chunk(4, 1)
        cell = forget.sigmoid() * state[1] + enter.sigmoid() * new.tanh()
        return [out.sigmoid() * cell.tanh(), cell]


class GRU(_Recurrent):
    """``nn.GRU(batch_first=True)``, states only."""

    gates = 3

    def step(self, inward: Tensor, state: list[Tensor]) -> list[Tensor]:
        """Gates in torch's order: reset, update, new."""
        reset, update, new = inward.chunk(3, 1)
        old_reset, old_update, old_new = self.onward(state[0]).chunk(3, 1)
        keep = (update + old_update).sigmoid()
        made = (new + (reset + old_reset).sigmoid() * old_new).tanh()
        return [made + keep * (state[0] - made), state[1]]
