"""Attention and recurrent layers made of linear layers, for torch's own, whose parts the engine cannot see.

They compute what torch's do, example first; ``from_torch`` copies the weights of one that exists.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from tallystick.errors import InvalidInput


class Attention(nn.Module):  # type: ignore[misc]  # torch's types are not read
    """Scaled dot-product attention with several heads (``nn.MultiheadAttention`` with ``batch_first=True``)."""

    def __init__(self, embed_dim: int, num_heads: int, *, bias: bool = True) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise InvalidInput("num_heads", num_heads, f"a divisor of embed_dim ({embed_dim})")
        self.heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(embed_dim, embed_dim, bias=bias) for _ in range(4))

    @classmethod
    def from_torch(cls, layer: Any) -> Self:
        """The same attention as one of torch's."""
        if layer.in_proj_weight is None or layer.bias_k is not None or layer.dropout:
            raise InvalidInput("layer", "kdim, vdim, bias_k or dropout", "a plain nn.MultiheadAttention")
        made = cls(layer.embed_dim, layer.num_heads, bias=layer.in_proj_bias is not None)
        with torch.no_grad():
            parts = (made.query, made.key, made.value)
            for part, weight in zip(parts, layer.in_proj_weight.chunk(3), strict=True):
                part.weight.copy_(weight)
            made.out.weight.copy_(layer.out_proj.weight)
            if layer.in_proj_bias is not None:
                for part, bias in zip(parts, layer.in_proj_bias.chunk(3), strict=True):
                    part.bias.copy_(bias)
                made.out.bias.copy_(layer.out_proj.bias)
        return made

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
        """What each place of ``query`` reads of ``value``; all are (examples, places, embed_dim)."""
        apart = [
            part(given).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part, given in ((self.query, query), (self.key, key), (self.value, value))
        ]
        read = nn.functional.scaled_dot_product_attention(*apart, is_causal=causal)
        out: Tensor = self.out(read.transpose(1, 2).flatten(2))
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
        """The same cell as one of torch's with one layer and one direction."""
        if layer.num_layers != 1 or layer.bidirectional or not layer.bias or layer.proj_size:
            raise InvalidInput("layer", "more than one layer or direction", "one layer, one direction, with bias")
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
