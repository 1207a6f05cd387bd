"""Private training steps against plain torch and Opacus, in one process and on one thread; writes results/training.md.

    python benchmarks/training/run.py [--out FILE]          Opacus is measured where it can be imported

A step is: forward, clipped sum, noise, optimizer. Ratios are medians of ratios of neighbouring steps, because the
machine is shared: one plain step, then one of each contender, again and again.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import copy
import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import tallystick as ts
from tallystick.learn.torch.replacements import Attention
from tallystick.learn.training import SgdPlan

warnings.simplefilter("ignore")
torch.set_num_threads(1)
HERE = Path(__file__).parent
ROUNDS = 15
NONE = nn.CrossEntropyLoss(reduction="none")


class Block(nn.Module):
    """A transformer layer of known parts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, 4)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.one(x)
        x = x + self.attention(y, y, y)
        return x + self.narrow(torch.relu(self.wide(self.two(x))))


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.blocks = nn.Embedding(1000, 128), nn.Sequential(Block(128), Block(128))
        self.out = nn.Linear(128, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.blocks(self.words(x)).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def images(n: int) -> Any:
    return torch.randn(n, 1, 28, 28)


CASES: list[tuple[str, Callable[[], nn.Module], Callable[[int], Any], int, int, str]] = [
    ("MLP 784-512-256-10", mlp, lambda n: torch.randn(n, 784), 256, 10, "1.9; 1.6 with torch's noise"),
    ("MLP 784-512-256-10", mlp, lambda n: torch.randn(n, 784), 1024, 10, "1.45"),
    ("CNN, two convolutions", cnn, images, 256, 10, "1.5"),
    ("CNN, two convolutions", cnn, images, 1024, 10, "1.25"),
    ("transformer 2 x 128, 64 tokens", Text, lambda n: torch.randint(0, 1000, (n, 64)), 64, 2, "1.55"),
]


def plain(model: nn.Module, x: Any, y: Any) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        NONE(model(x), y).mean().backward()
        optimizer.step()

    return step


def ours(model: nn.Module, x: Any, y: Any, noise: str) -> Callable[[], None]:
    plan = SgdPlan(1.0, 1.0, 10**6, len(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    trainer = ts.learn.torch.Trainer(model, NONE, optimizer, plan=plan, clip=1.0, noise="secure")
    batches = trainer.batches((x, y))
    if noise == "torch":  # what the noise itself costs
        trainer.noise = _Quick()  # type: ignore[assignment]
    return lambda: trainer.step(next(batches))


class _Quick:
    """torch's own noise, which is not private: anybody who knows the seed can subtract it."""

    kind = "secure"

    @staticmethod
    def released(total: Any, divisor: float, dtype: Any) -> Any:
        return torch.randn(len(total), dtype=dtype).add_(total).div_(divisor)


def opacus(model: nn.Module, x: Any, y: Any, mode: str) -> Callable[[], None]:
    from opacus import PrivacyEngine

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=len(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options: dict[str, Any] = {"module": model, "optimizer": optimizer, "data_loader": loader, "noise_multiplier": 1.0}
    options |= {"max_grad_norm": 1.0, "poisson_sampling": False}
    if mode == "ghost":
        made = PrivacyEngine().make_private(**options, criterion=nn.CrossEntropyLoss(), grad_sample_mode="ghost")
        model, optimizer, criterion = made[0], made[1], made[2]
    else:
        model, optimizer, _ = PrivacyEngine().make_private(**options, grad_sample_mode=mode)
        criterion = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

    return step


def measured(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def row(
    name: str, make: Callable[[], nn.Module], draw: Callable[[int], Any], size: int, classes: int
) -> dict[str, Any]:
    torch.manual_seed(0)
    model, x, y = make(), draw(size), torch.randint(0, classes, (size,))
    contenders: dict[str, Callable[[], None]] = {}
    makers = {
        "ours, secure noise": lambda m: ours(m, x, y, "secure"),
        "ours, torch's noise": lambda m: ours(m, x, y, "torch"),
        "Opacus ghost": lambda m: opacus(m, x, y, "ghost"),
        "Opacus hooks": lambda m: opacus(m, x, y, "hooks"),
    }
    for label, maker in makers.items():
        if label == "Opacus hooks" and name.startswith("MLP") and size > 256:
            continue  # more than 2 GB of per-example gradients
        try:
            step = maker(copy.deepcopy(model))
            step()
            contenders[label] = step
        except Exception as problem:
            print(f"   {label}: {type(problem).__name__}: {str(problem)[:150]}", flush=True)
    base = plain(copy.deepcopy(model), x, y)
    base()
    times: dict[str, list[float]] = {label: [] for label in ("plain", *contenders)}
    for _ in range(ROUNDS):
        times["plain"].append(measured(base))
        for label, step in contenders.items():
            times[label].append(measured(step))
    ratios = {label: sorted(t / p for t, p in zip(times[label], times["plain"], strict=True)) for label in contenders}
    return {"plain": statistics.median(times["plain"]) * 1e3, "ratios": ratios}


def most_memory(step: Callable[[], None]) -> float:
    """The most that tensors took at any time during three steps, beyond what there was before, in MB."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(3):
            step()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(changes, initial=0)) / 2**20


def memory(
    name: str, make: Callable[[], nn.Module], draw: Callable[[int], Any], size: int, classes: int, goal: str
) -> str:
    torch.manual_seed(0)
    model, x, y = make(), draw(size), torch.randint(0, classes, (size,))
    there = sum(t.numel() * t.element_size() for t in (x, y, *model.parameters())) / 2**20
    usual = there + most_memory(plain(copy.deepcopy(model), x, y))
    mine = there + most_memory(ours(copy.deepcopy(model), x, y, "secure"))
    return f"| {name} | {size} | {usual:.1f} | {mine:.1f} | {mine / usual:.2f} |"


def digits() -> list[float]:
    """Accuracy of the demo's model at epsilon 1, delta 1e-5, on ten splits; settings chosen on the first five."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x, y = nn.functional.normalize(torch.tensor(pixels, dtype=torch.float32)), torch.tensor(labels)
    plan = ts.learn.sgd_plan(epsilon=1, delta=1e-5, examples=1437, batch=1437, epochs=100)
    found = []
    for seed in range(10):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        mine, aside = order[:1437], order[1437:]
        model = nn.Linear(64, 10)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        optimizer = torch.optim.SGD(model.parameters(), lr=4.0, momentum=0.9)
        ts.learn.torch.Trainer(model, NONE, optimizer, plan=plan, clip=0.25).fit((x[mine], y[mine]))
        found.append(float((model(x[aside]).argmax(1) == y[aside]).float().mean()))
    return found


def told(ratios: list[float] | None) -> str:
    if ratios is None:
        return "-"
    return f"{statistics.median(ratios):.2f} [{ratios[len(ratios) // 4]:.2f}, {ratios[-1 - len(ratios) // 4]:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "training.md")
    chosen = parser.parse_args()
    labels = ("ours, secure noise", "ours, torch's noise", "Opacus ghost", "Opacus hooks")
    lines = ["| model | batch | plain, ms | " + " | ".join(labels) + " | goal |", "|---" * (4 + len(labels)) + "|"]
    for name, make, draw, size, classes, goal in CASES:
        print(name, size, flush=True)
        found = row(name, make, draw, size, classes)
        cells = [told(found["ratios"].get(label)) for label in labels]
        lines.append(f"| {name} | {size} | {found['plain']:.1f} | " + " | ".join(cells) + f" | {goal} |")
        print(lines[-1], flush=True)
    held = ["| model | batch | plain | ours | ratio |", "|---" * 5 + "|", *(memory(*case) for case in CASES)]
    accuracy = digits()
    mean, spread = statistics.mean(accuracy), statistics.stdev(accuracy)
    text = (HERE / "page.md").read_text(encoding="utf-8")
    text = text.replace("MEMORY", "\n".join(held))
    text = text.replace("TABLE", "\n".join(lines)).replace("DIGITS", f"{mean:.3f} (standard deviation {spread:.3f})")
    load = os.getloadavg()[0]
    chosen.out.write_text(text.replace("TORCH", torch.__version__).replace("LOAD", f"{load:.0f}"), encoding="utf-8")
    print(chosen.out.read_text())


if __name__ == "__main__":
    main()
