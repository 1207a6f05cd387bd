"""Random scales against exact mass functions, for as long as asked: python tests/campaigns/sampler_laws.py --seconds 60

One p-value per scale; a sampler that is right gives uniform p-values, so the smallest of N is near 1/N.
Exit 1 when the smallest is below 1e-6 / N.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from statistical.goodness import g_test
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian, discrete_laplace
from tallystick.mechanisms.exact.randomness import SYSTEM

DRAWS = 400_000


def p_value(name: str, scale: float) -> float:
    reach = int(40 * scale) + 20
    k = np.arange(-reach, reach + 1)
    if name == "gaussian":
        sample, weights = discrete_gaussian(scale, size=DRAWS, source=SYSTEM), np.exp(-0.5 * (k / scale) ** 2)
    else:
        sample, weights = discrete_laplace(scale, size=DRAWS, source=SYSTEM), np.exp(-np.abs(k) / scale)
    counts = np.bincount(np.clip(sample, k[0], k[-1]) - k[0], minlength=len(k))
    return g_test(counts, weights / weights.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    rng, end, found = np.random.default_rng(), time.monotonic() + seconds, []
    while time.monotonic() < end:
        scale = float(np.exp(rng.uniform(np.log(0.2), np.log(400.0))))
        if rng.random() < 0.3:  # edges between inversion and blocks, and between block sizes
            scale = float(rng.choice([16, 31.999, 32, 33, 63.5, 64, 65, 127.9, 128, 256]))
        name = str(rng.choice(["laplace", "gaussian"]))
        found.append((p_value(name, scale), name, scale))
    found.sort()
    ranks = np.array([p for p, _, _ in found])
    print(f"{len(found)} scales; smallest p-values {[(f'{p:.2g}', n, round(s, 4)) for p, n, s in found[:3]]}")
    print("deciles of p-values:", np.round(np.quantile(ranks, np.linspace(0.1, 0.9, 9)), 3).tolist())
    return int(found[0][0] < 1e-6 / len(found))


if __name__ == "__main__":
    raise SystemExit(main())
