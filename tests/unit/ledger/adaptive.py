"""Adaptive analysts with finitely many outcomes, so that what they achieve can be enumerated exactly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Node:
    """A mechanism (its pair of laws) and what the analyst does after each outcome."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    after: dict[int, Node] = field(default_factory=dict)


def joint(node: Node | None) -> tuple[np.ndarray, np.ndarray]:
    """The laws of the whole transcript under both neighbours."""
    if node is None:
        return np.ones(1), np.ones(1)
    left, right = [], []
    for outcome, (p, q) in enumerate(zip(node.p, node.q, strict=True)):
        below = joint(node.after.get(outcome))
        left.append(p * below[0])
        right.append(q * below[1])
    return np.concatenate(left), np.concatenate(right)


def delta(laws: tuple[np.ndarray, np.ndarray], epsilon: float) -> float:
    """The realised delta at epsilon, the worse of the two directions."""
    p, q = laws
    scale = math.exp(epsilon)
    return max(float(np.sum(np.maximum(p - scale * q, 0))), float(np.sum(np.maximum(q - scale * p, 0))))


def renyi(laws: tuple[np.ndarray, np.ndarray], order: float) -> float:
    """The realised Renyi divergence, the worse of the two directions."""
    p, q = (law[(laws[0] > 0) | (laws[1] > 0)] for law in laws)
    with np.errstate(over="ignore"):
        sums = [np.sum(a**order * b ** (1 - order)) for a, b in ((p, q), (q, p))]
    return max(math.log(s) for s in sums) / (order - 1)


def response(epsilon: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Randomized response."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return (truth, 1 - truth), (1 - truth, truth)


def reveal(chance: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Give the data away with a small probability, else say nothing."""
    return (chance, 1 - chance, 0.0), (0.0, 1 - chance, chance)


def two_point(mass: float, loss: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Loss ``loss`` with probability ``mass``, otherwise almost nothing."""
    other = mass * math.exp(-loss)
    return (mass, 1 - mass), (other, 1 - other)


@dataclass(frozen=True)
class Tool:
    """A mechanism the analyst may use, with its integer price."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    a0: int
    a1: int = 0


def analyst(tools: list[Tool], limit: tuple[int, int], depth: int, draw: random.Random, greedy: float) -> Node | None:
    """A random strategy that the filter admits: each next mechanism depends on every outcome before it."""
    if depth == 0:
        return None
    fitting = [t for t in tools if t.a0 <= limit[0] and t.a1 <= limit[1]]
    if not fitting:
        return None
    tool = max(fitting, key=lambda t: (t.a0, t.a1)) if draw.random() < greedy else draw.choice(fitting)
    node = Node(tool.p, tool.q)
    left = (limit[0] - tool.a0, limit[1] - tool.a1)
    for outcome in range(len(tool.p)):
        below = analyst(tools, left, depth - 1, draw, greedy)
        if below is not None:
            node.after[outcome] = below
    return node


def most_achieved(
    tools: list[Tool], limit: tuple[int, int], share: Callable[[Any], float], *, trials: int, seed: int = 3
) -> float:
    """The largest share of the budget that any of many random analysts realised."""
    draw = random.Random(seed)
    best = 0.0
    for trial in range(trials):
        strategy = analyst(tools, limit, draw.choice((2, 3)), draw, greedy=(trial % 3) / 2)
        best = max(best, share(joint(strategy)))
    return best
