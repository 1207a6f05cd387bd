"""One run of Opacus with its defaults, as a line of JSON: python peer.py CASE EPSILON SEED FOLDER   (in the peers' environment)"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from pathlib import Path

import opacus
import torch
from opacus.accountants.utils import get_noise_multiplier
from torch import nn

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import settings
from carriers import mnist


def main(name: str, epsilon: float, seed: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    held = mnist(folder)
    assert held is not None
    data = torch.utils.data.TensorDataset(settings.inputs(name, held[0]), torch.from_numpy(held[1]))
    network = settings.model(name, seed)
    epochs, rate = settings.EPOCHS[epsilon], settings.BATCH / settings.EXAMPLES
    steps = math.ceil(epochs / rate - 1e-9)
    noise = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=settings.DELTA, sample_rate=rate, steps=steps, accountant="prv"
    )
    start = time.process_time()
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=network,
        optimizer=settings.optimizer(name, network),
        data_loader=torch.utils.data.DataLoader(data, batch_size=settings.BATCH),
        noise_multiplier=noise,
        max_grad_norm=settings.CASES[name].clip,
    )
    loss, taken = nn.CrossEntropyLoss(), 0
    while taken < steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            taken += 1
            if taken == steps:
                break
    spent = time.process_time() - start
    right = settings.accuracy(network, settings.inputs(name, held[2]), torch.from_numpy(held[3]))
    print(json.dumps({"accuracy": right, "noise": noise, "seconds": spent}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
