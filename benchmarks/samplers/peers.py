"""Draws per CPU-second of other libraries; run inside the peers' environment, prints JSON.

Each peer is measured through its public Python interface, the fastest way it offers (a vector where it takes one).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.metadata import version

REPEATS = 7  # the same number as for ours
SINGLE = "real Laplace, one number per call"


def rate(call: Callable[[], object], draws: int) -> float:
    """Best of a few runs, in draws per CPU-second."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return draws / best


def opendp() -> dict[str, float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    n = 40_000
    whole, real = dp.vector_domain(dp.atom_domain(T=int)), dp.vector_domain(dp.atom_domain(T=float, nan=False))
    makers = {
        "discrete Laplace": dp.m.make_laplace(whole, dp.l1_distance(T=int), scale=10.0),
        "discrete Gaussian": dp.m.make_gaussian(whole, dp.l2_distance(T=float), scale=10.0),
        "real Laplace": dp.m.make_laplace(real, dp.l1_distance(T=float), scale=10.0),
        "real Gaussian": dp.m.make_gaussian(real, dp.l2_distance(T=float), scale=10.0),
    }
    found = {
        name: rate(lambda m=m, zero=0 if "discrete" in name else 0.0: m([zero] * n), n)  # type: ignore[misc]
        for name, m in makers.items()
    }
    single = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=10.0)
    found[SINGLE] = rate(lambda: [single(0.0) for _ in range(3000)], 3000)
    return found


def diffprivlib() -> dict[str, float]:
    from diffprivlib import mechanisms as dm

    n = 10_000
    makers = {
        "discrete Laplace": dm.Geometric(epsilon=0.1, sensitivity=1),
        "discrete Gaussian": dm.GaussianDiscrete(epsilon=0.4, delta=1e-6),
        "real Laplace": dm.Laplace(epsilon=0.1, sensitivity=1),
        "real Gaussian": dm.GaussianAnalytic(epsilon=0.35, delta=1e-5, sensitivity=1),
    }
    found = {name: rate(lambda m=m: [m.randomise(0) for _ in range(n)], n) for name, m in makers.items()}  # type: ignore[misc]
    return {**found, SINGLE: found["real Laplace"]}  # it takes one number at a time anyway


def python_dp() -> dict[str, float]:
    from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

    n = 50_000
    laplace, gaussian = LaplaceMechanism(epsilon=0.1, sensitivity=1.0), GaussianMechanism(0.35, 1e-5, 1.0)
    found = {
        "discrete Laplace": rate(lambda: [laplace.add_noise(0) for _ in range(n)], n),
        "real Laplace": rate(lambda: [laplace.add_noise(0.0) for _ in range(n)], n),
        "real Gaussian": rate(lambda: [gaussian.add_noise(0.0) for _ in range(n)], n),
    }
    return {**found, SINGLE: found["real Laplace"]}  # it takes one number at a time anyway


if __name__ == "__main__":
    peers = {"opendp": opendp, "diffprivlib": diffprivlib, "python-dp": python_dp}
    print(json.dumps({f"{name} {version(name)}": measure() for name, measure in peers.items()}))
