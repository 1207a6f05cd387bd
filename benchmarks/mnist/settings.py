"""What both sides train, with which settings: written down before a test image was looked at, the same at every epsilon.

Clip and learning rate are not chosen for MNIST: those of the network are the ones of the design document, those of the
linear model are the ones of the digits demo. Batch and epochs are the design document's for both.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))

from carriers import mnist

Prepare = Callable[[str, float, nn.Module, Tensor, Tensor], tuple[float, Callable[[], object]]]
"""Case, epsilon, network, images and labels to the noise and what trains the network with it."""

DELTA = 1e-5
EXAMPLES = 60_000
BATCH = 1024
EPOCHS = {1.0: 6, 3.0: 8}
GOALS = {1.0: 0.955, 3.0: 0.962}
MOMENTUM = 0.9
TURNS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """One model and what it is trained with."""

    title: str
    clip: float
    rate: float


CASES = {
    "linear": Case("linear, on histograms of edges", clip=0.25, rate=4.0),
    "network": Case("two convolutions, tanh", clip=0.1, rate=1.0),
}


def model(name: str, seed: int) -> nn.Module:
    """A linear layer that starts at zero, or the small tanh network of Papernot et al. (2020), 26,010 parameters."""
    torch.manual_seed(seed)
    if name == "linear":
        layer = nn.Linear(49 * TURNS, 10)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        return layer
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def optimizer(name: str, network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=CASES[name].rate, momentum=MOMENTUM)


def inputs(name: str, pixels: np.ndarray) -> Tensor:
    """Each image by itself, and nothing computed from the others."""
    images = torch.from_numpy(pixels).view(-1, 1, 28, 28)
    if name == "linear":
        return torch.cat([edges(part) for part in images.split(2000)])
    return images.mul(2.0).sub(1.0)


def edges(images: Tensor) -> Tensor:
    """How strong the edges of each of 8 directions are in 7 x 7 overlapping cells, as square roots of shares."""
    wide = functional.pad(images, (1, 1, 1, 1))[:, 0]
    across, down = wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2], wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1]
    strength, turn = torch.hypot(across, down), torch.atan2(down, across) / (2.0 * math.pi) * TURNS % TURNS
    first = turn.floor()
    share, place = turn - first, first.long() % TURNS
    maps = torch.zeros(len(images), TURNS, 28, 28)
    maps.scatter_(1, place[:, None], (strength * (1.0 - share))[:, None])
    maps.scatter_add_(1, ((place + 1) % TURNS)[:, None], (strength * share)[:, None])
    return functional.normalize(functional.avg_pool2d(maps, 8, 4, padding=2).flatten(1), p=1).sqrt()


@torch.no_grad()
def accuracy(network: nn.Module, x: Tensor, y: Tensor) -> float:
    network.eval()
    parts = zip(x.split(500), y.split(500), strict=True)
    return sum(int((network(part).argmax(1) == true).sum()) for part, true in parts) / len(y)


def measure(prepare: Prepare) -> None:
    """Train as the command line says (CASE EPSILON SEED FOLDER) and print accuracy, noise and CPU seconds as JSON."""
    name, epsilon, seed, folder = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    held = mnist(folder)
    assert held is not None
    network = model(name, seed)
    noise, train = prepare(name, epsilon, network, inputs(name, held[0]), torch.from_numpy(held[1]))
    start = time.process_time()
    train()
    spent = time.process_time() - start
    right = accuracy(network, inputs(name, held[2]), torch.from_numpy(held[3]))
    print(json.dumps({"accuracy": right, "noise": noise, "seconds": spent}))
