"""One run of Opacus with its defaults, as a line of JSON: python peer.py CASE EPSILON SEED FOLDER   (in the peers' environment)"""

from __future__ import annotations

import math
from collections.abc import Callable

import opacus
import settings
import torch
from opacus.accountants.utils import get_noise_multiplier
from torch import Tensor, nn


def prepared(name: str, epsilon: float, network: nn.Module, x: Tensor, y: Tensor) -> tuple[float, Callable[[], object]]:
    """The noise that Opacus finds, and what trains with it."""
    rate = settings.BATCH / settings.EXAMPLES
    steps = math.ceil(settings.EPOCHS[epsilon] / rate - 1e-9)
    noise = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=settings.DELTA, sample_rate=rate, steps=steps, accountant="prv"
    )

    def train() -> None:
        data = torch.utils.data.TensorDataset(x, y)
        model, optimizer, loader = opacus.PrivacyEngine().make_private(
            module=network,
            optimizer=settings.optimizer(name, network),
            data_loader=torch.utils.data.DataLoader(data, batch_size=settings.BATCH),
            noise_multiplier=noise,
            max_grad_norm=settings.CASES[name].clip,
        )
        loss, taken = nn.CrossEntropyLoss(), 0
        while taken < steps:
            for some, labels in loader:
                optimizer.zero_grad()
                loss(model(some), labels).backward()
                optimizer.step()
                taken += 1
                if taken == steps:
                    break

    return noise, train


if __name__ == "__main__":
    settings.measure(prepared)
