"""Write values.json: reference epsilons from the oracle.  Run: python tests/reference/make_values.py [name ...]"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reference import oracle

FILE = Path(__file__).with_name("values.json")
Terms = list[dict[str, Any]]


def gaussian(sigma: float, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"leaf": "gaussian", "sigma": sigma, "count": count, **more}


def leaf(name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"leaf": name, "count": count, **more}


def workload_5() -> Terms:
    terms: Terms = []
    for i in range(50):
        terms += [gaussian(20.0 + i), leaf("laplace", scale=30.0 + i), leaf("pure_dp", epsilon=0.02 + 0.001 * i)]
        terms += [gaussian(1 + 0.02 * i, rate=0.001 + 0.0005 * i)]
    return terms


def cases() -> dict[str, tuple[Terms, list[str]]]:
    """name -> (terms, deltas)"""
    w1, w3 = [gaussian(1.0, 10_000, rate=0.01)], [gaussian(2.0, 1000, rate=0.01)]
    rr = {"epsilon": 0.1}
    pair = {"p": [0.5, 0.25, 0.25], "q": [0.25, 0.25, 0.5]}
    lopsided = {"p": [0.5, 0.5, 0.0], "q": [0.25, 0.625, 0.125]}
    infinite = {"p": [0.0009765625, 0.5, 0.4990234375], "q": [0.0, 0.25, 0.75]}
    return {
        "W1": (w1, ["1e-5", "1e-10", "1e-12", "1e-14", "1e-30", "0.1"]),
        "W2": ([gaussian(0.8, 10**6, rate=0.001)], ["1e-6"]),
        "W3": (w3, ["1e-12", "1e-15", "1e-20", "1e-30", "1e-100"]),
        "W4": ([gaussian(10.0, 100)], ["1e-5", "1e-10", "1e-15", "1e-30", "1e-100"]),
        "W5": (workload_5(), ["1e-6"]),
        "W6 at its answer": ([gaussian(1.32557524, 20_000, rate=0.004)], ["1e-5"]),
        "W7": ([leaf("laplace", 1000, scale=20.0)], ["1e-6", "1e-30"]),
        "W8": ([leaf("randomized_response", 1000, **rr)], ["1e-6", "1e-30"]),
        "W9": ([gaussian(0.5, 1000, subset=[100, 10_000])], ["1e-5"]),
        "W10": ([gaussian(0.3, 50)], ["1e-5"]),
        # "tiny rate": ([gaussian(1.0, 10**6, rate=1e-4)], ["1e-6"]),
        "MNIST": ([gaussian(1.1, 14_062, rate=256 / 60_000)], ["1e-5"]),
        "B1 row 2": ([gaussian(1.0, 1000, rate=0.01)], ["1e-5"]),
        "B1 row 3": ([gaussian(0.6, 3000, rate=0.0032)], ["1e-5"]),
        "B1 row 4": ([gaussian(2.0, 10_000, rate=0.02)], ["1e-6"]),
        "subset of 100 steps": ([gaussian(0.8, 100, subset=[1, 10])], ["0.34", "1e-5"]),
        "subset of responses": ([leaf("randomized_response", 500, epsilon=1.0, subset=[1, 20])], ["1e-6"]),
        "one sampled step": ([gaussian(1.0, rate=0.1)], ["1e-5", "1e-9"]),
        "ten million steps": ([gaussian(5.0, 10**7, rate=0.001)], ["1e-8"]),
        "Laplace once": ([leaf("laplace", scale=2.0)], ["1e-3", "1e-6"]),
        "Laplace 30": ([leaf("laplace", 30, scale=2.0)], ["1e-6", "1e-20"]),
        "Laplace sampled": ([leaf("laplace", 5000, scale=2.0, rate=0.1)], ["1e-6", "1e-15"]),
        "Laplace sampled once": ([leaf("laplace", scale=2.0, rate=0.1)], ["1e-6"]),
        "bounded range once": ([leaf("exponential", epsilon=0.5)], ["1e-6"]),
        "bounded range 10": ([leaf("exponential", 10, epsilon=0.5)], ["1e-6"]),
        "bounded range 100": ([leaf("exponential", 100, epsilon=0.5)], ["1e-6", "1e-25"]),
        "bounded range sampled": ([leaf("exponential", 1000, epsilon=0.5, rate=0.1)], ["1e-6"]),
        "discrete Gaussian": ([leaf("discrete_gaussian", 10, sigma=3.0, sensitivity=2)], ["1e-10"]),
        "discrete Gaussian narrow": ([leaf("discrete_gaussian", 3, sigma=0.4)], ["1e-6", "1e-30"]),
        "discrete Gaussian long": ([leaf("discrete_gaussian", 10**6, sigma=300.0)], ["1e-9"]),
        "discrete Gaussian sampled": ([leaf("discrete_gaussian", 1000, sigma=3.0, rate=0.05)], ["1e-10"]),
        "discrete Gaussian sampled once": ([leaf("discrete_gaussian", sigma=3.0, rate=0.05)], ["1e-10"]),
        "discrete Laplace": ([leaf("discrete_laplace", 10_000, scale=30.0, sensitivity=2)], ["1e-10"]),
        "discrete Laplace 10": ([leaf("discrete_laplace", 10, scale=3.0, sensitivity=2)], ["1e-4", "1e-10"]),
        "discrete Laplace sampled": ([leaf("discrete_laplace", 50, scale=3.0, sensitivity=2, rate=0.05)], ["1e-10"]),
        "five choices": ([leaf("randomized_response", 10**6, epsilon=0.01, choices=5)], ["1e-6", "1e-30"]),
        "lying with 0.3": ([leaf("randomized_response", 20, flip_prob=0.3)], ["1e-6"]),
        "pure 40": ([leaf("pure_dp", 40, epsilon=0.1)], ["1e-6"]),
        "pure sampled": ([leaf("pure_dp", 1000, epsilon=1.0, rate=0.01)], ["1e-6", "1e-12"]),
        "approximate 100": ([leaf("approx_dp", 100, epsilon=0.2, delta=1e-9)], ["1e-6"]),
        "approximate sampled": ([leaf("approx_dp", 100, epsilon=0.2, delta=1e-9, rate=0.05)], ["1e-6"]),
        "infinite mass": ([leaf("approx_dp", 10, epsilon=0.2, delta=1e-7)], ["1e-6"]),
        "pair": ([leaf("discrete_pair", 20, **pair)], ["1e-3", "1e-9"]),
        "lopsided pair": ([leaf("discrete_pair", 12, **lopsided)], ["1e-3"]),
        "pair with infinite mass": ([leaf("discrete_pair", 5, **infinite)], ["0.01"]),
        "pair with infinite mass sampled": ([leaf("discrete_pair", 5, **infinite, rate=0.25)], ["0.01"]),
        "response and Laplace": ([leaf("pure_dp", 50, **rr), leaf("laplace", 3, scale=1.0)], ["1e-8"]),
        "Gaussian and lattice": ([gaussian(5.0, 10), leaf("discrete_laplace", 50, scale=9.0)], ["1e-8"]),
        "Gaussian and Laplace": ([gaussian(2.0, 4), leaf("laplace", 7, scale=3.0)], ["1e-5", "1e-20"]),
        "training and a histogram": ([*w1, leaf("laplace", 10, scale=10.0)], ["1e-6"]),
        "two lattices": ([leaf("pure_dp", 30, epsilon=0.07), leaf("discrete_laplace", 60, scale=7.0)], ["1e-7"]),
        "all sorts": (
            [
                gaussian(4.0, 12),
                gaussian(1.5, 800, rate=0.02),
                leaf("laplace", 3, scale=6.0),
                leaf("approx_dp", 4, epsilon=0.05, delta=1e-9),
                leaf("discrete_gaussian", 20, sigma=12.0),
                leaf("exponential", 5, epsilon=0.2),
            ],
            ["1e-6", "1e-8"],
        ),
        "huge epsilon": ([gaussian(0.05, 3)], ["1e-5", "1e-30"]),
        "tiny epsilon": ([gaussian(1e5, 10)], ["1e-7", "1e-12"]),
    }


def main(names: list[str]) -> None:
    oracle.MOST_NODES, oracle.MOST_WORK = 900_000, 3e9
    stored: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, (terms, deltas) in cases().items():
        for delta in deltas:
            key = f"{name} at {delta}"
            if (names and name not in names) or (not names and key in stored):
                continue
            started = time.time()
            record: dict[str, Any] = {"terms": terms, "delta": delta}
            for direction in ("remove", "add"):
                answer = oracle.epsilon(terms, delta=delta, direction=direction)
                record[direction] = answer.digits
                record[f"{direction}_error"] = float(f"{answer.error:.1e}")
                record["route"] = answer.route
            stored[key] = record
            print(
                f"{key}: {record['remove']} {record['add']} {record['remove_error']} {record['route']} "
                f"{time.time() - started:.1f} s",
                flush=True,
            )
            FILE.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
