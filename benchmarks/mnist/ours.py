"""One run of ours, as a line of JSON: python ours.py CASE EPSILON SEED FOLDER"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import settings
from carriers import mnist

import tallystick as ts


def main(name: str, epsilon: float, seed: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    held = mnist(folder)
    assert held is not None
    x, y = settings.inputs(name, held[0]), torch.from_numpy(held[1])
    network = settings.model(name, seed)
    plan = ts.learn.sgd_plan(
        epsilon=epsilon,
        delta=settings.DELTA,
        examples=settings.EXAMPLES,
        batch=settings.BATCH,
        epochs=settings.EPOCHS[epsilon],
    )
    start = time.process_time()
    trainer = ts.learn.torch.Trainer(
        network,
        nn.CrossEntropyLoss(reduction="none"),
        settings.optimizer(name, network),
        plan=plan,
        clip=settings.CASES[name].clip,
    )
    trainer.fit((x, y))
    spent = time.process_time() - start
    right = settings.accuracy(network, settings.inputs(name, held[2]), torch.from_numpy(held[3]))
    print(json.dumps({"accuracy": right, "noise": plan.noise_multiplier, "seconds": spent}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
