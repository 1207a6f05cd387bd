"""One run of ours, as a line of JSON: python ours.py CASE EPSILON SEED FOLDER"""

from __future__ import annotations

from collections.abc import Callable

import settings
from torch import Tensor, nn

import tallystick as ts


def prepared(name: str, epsilon: float, network: nn.Module, x: Tensor, y: Tensor) -> tuple[float, Callable[[], object]]:
    """The noise of the plan, and what trains with it."""
    plan = ts.learn.sgd_plan(
        epsilon=epsilon,
        delta=settings.DELTA,
        examples=settings.EXAMPLES,
        batch=settings.BATCH,
        epochs=settings.EPOCHS[epsilon],
    )

    def train() -> None:
        loss, optimizer = nn.CrossEntropyLoss(reduction="none"), settings.optimizer(name, network)
        clip = settings.CASES[name].clip
        ts.learn.torch.Trainer(network, loss, optimizer, plan=plan, clip=clip).fit((x, y))

    return plan.noise_multiplier, train


if __name__ == "__main__":
    settings.measure(prepared)
