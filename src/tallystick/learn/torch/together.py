"""Several processes that train one model (``torch.distributed``): same law, same price, one payer, one draw of noise.

Each process holds examples of its own, and no example is held by two; that split must not depend on the data, and is
not checked. Each draws from its own examples by the same coin, clips and sums; sums are added, the first process adds
the noise and everybody steps with the same numbers. A process without examples joins like any other. Only the first
process talks to the ledger.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as processes
from torch import Tensor

from tallystick.errors import Refused

_OVER, _FAILED = -1, -2


class Team:
    """The processes of a run; a run in one process is a team of one."""

    def __init__(self) -> None:
        joined = processes.is_available() and processes.is_initialized()
        self.size = processes.get_world_size() if joined else 1
        self.first = not joined or processes.get_rank() == 0

    def same_start(self, parameters: list[Tensor]) -> None:
        """Everybody starts with the first process' parameters."""
        if self.size > 1:
            for parameter in parameters:
                processes.broadcast(parameter.data, src=0)

    def decide(self, ask: Callable[[], int | None]) -> int | None:
        """What the first process is told, told to all: the next step, or None. If it fails, everybody stops."""
        if self.size == 1:
            return ask()
        told = torch.tensor([_FAILED])
        try:
            if self.first:
                step = ask()
                told[0] = _OVER if step is None else step
        finally:
            processes.broadcast(told, src=0)
        if int(told) == _FAILED:
            raise Refused("the first process could not continue, so all processes stop")
        return None if int(told) == _OVER else int(told)

    def released(self, total: Tensor, noisy: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum over all processes with one draw of noise; only the first process sees the sum without it."""
        if self.size == 1:
            return noisy(total)
        total = total.double()  # sums of several processes, of which some may have needed more precision
        processes.reduce(total, dst=0)
        out = noisy(total) if self.first else torch.empty_like(total)
        out = out.to(total.dtype)
        processes.broadcast(out, src=0)
        return out
