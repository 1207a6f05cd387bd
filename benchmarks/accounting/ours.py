"""One row by tallystick.  Run: python ours.py ROW"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import measured

import tallystick as ts


def training(sigma: float, rate: float, steps: int) -> ts.PrivacyLoss:
    return steps * ts.gaussian(sigma=sigma).sampled(rate=rate)


def two_hundred() -> ts.PrivacyLoss:
    total = ts.no_loss()
    for i in range(50):
        total += ts.gaussian(sigma=20.0 + i) + ts.laplace(scale=30.0 + i) + ts.pure_dp(epsilon=0.02 + 0.001 * i)
        total += ts.gaussian(sigma=1 + 0.02 * i).sampled(rate=0.001 + 0.0005 * i)
    return total


def online() -> float:
    spent, last = ts.no_loss(), 0.0
    step = ts.gaussian(sigma=1.0).sampled(rate=0.01)
    for _ in range(1000):
        spent = spent + step
        last = spent.epsilon(delta=1e-5)
    return last


def calibrated() -> float:
    goal = ts.approx_dp(epsilon=2, delta=1e-5)
    return float(ts.calibrate(lambda s: training(s, 0.004, 20_000), goal))


def mixtures() -> ts.PrivacyLoss:
    one = ts.gaussian_mixture(sigma=1, sensitivities=[0, 1, 2], probabilities=[0.2, 0.6, 0.2])
    return 3 * one + 2 * ts.gaussian_mixture(sigma=2, sensitivities=[0, 2, 3], probabilities=[0.33, 0.34, 0.33])


def quiet_queries() -> float:
    return float(ts.calibrate(lambda b: 20 * ts.laplace(scale=b), ts.approx_dp(epsilon=1, delta=1e-4)))


W3 = {"W3a": 1e-12, "W3b": 1e-15, "W3c": 1e-20, "W3d": 1e-30, "W3h": 1e-100}
W1 = {"W1": 1e-5, "W3e": 1e-10, "W3f": 1e-12, "W3g": 1e-14}


def run(row: str) -> None:
    # Loads every module, as the peers' warm-up does; no law, tilt or grid of it is one of a row's.
    (30 * ts.gaussian(sigma=7.7).sampled(rate=0.3) + ts.laplace(scale=3.3)).epsilon(delta=1e-3)
    ts.gaussian(sigma=3.0).epsilon(delta=1e-5)
    ts.randomized_response(epsilon=0.7).epsilon(delta=1e-3)
    replaced = ts.gaussian(sigma=0.5, adjacency=ts.Adjacency.REPLACE)
    if row in W1:
        measured(lambda: training(1.0, 0.01, 10_000).epsilon(delta=W1[row]))
    elif row in W3:
        measured(lambda: training(2.0, 0.01, 1000).epsilon(delta=W3[row]))
    elif row == "W6":
        measured(calibrated)
    elif row == "W19":
        measured(quiet_queries)
    elif row == "W11":
        measured(online, per=1000)
    else:
        measured({
            "W2": lambda: training(0.8, 0.001, 10**6).epsilon(delta=1e-6),
            "W4a": lambda: (100 * ts.gaussian(sigma=10)).epsilon(delta=1e-5),
            "W4b": lambda: (100 * ts.gaussian(sigma=10)).epsilon(delta=1e-30),
            "W5": lambda: two_hundred().epsilon(delta=1e-6),
            "W7": lambda: (1000 * ts.laplace(scale=20.0)).epsilon(delta=1e-6),
            "W8": lambda: (1000 * ts.randomized_response(epsilon=0.1)).epsilon(delta=1e-6),
            "W9": lambda: (1000 * replaced.subset(batch=100, population=10_000)).epsilon(delta=1e-5),
            "W10": lambda: (50 * ts.gaussian(sigma=0.3)).epsilon(delta=1e-5),
            "W12": lambda: training(1.1, 256 / 60_000, 14_062).epsilon(delta=1e-5),
            "W13": lambda: training(1.0, 1e-4, 10**6).epsilon(delta=1e-6),
            "W14": lambda: mixtures().epsilon(delta=1e-6),
            "W15": lambda: (11 * ts.gaussian(sigma=1.13)).epsilon(delta=1e-6),
            "W16": lambda: ts.selected(ts.gaussian(sigma=1), eta=1, gamma=0.1).epsilon(delta=1e-6),
            "W17": lambda: ts.gaussian(sigma=1).allocated(steps=1000).epsilon(delta=1e-6),
            "W18": lambda: (3 * ts.laplace(scale=1) + 2 * ts.laplace(scale=2)).epsilon(delta=1e-14),
        }[row])  # fmt: skip


if __name__ == "__main__":
    run(sys.argv[1])
