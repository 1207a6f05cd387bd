"""diffprivlib's linear regression on the same splits, in its own environment.  Run: python peers_linear.py FILE"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression
from diffprivlib.models.linear_regression import _construct_regression_obj

warnings.simplefilter("ignore")
EPSILONS = (0.1, 1.0, 10.0)


def main(path: Path) -> None:
    held = np.load(path)
    X, y = held["X"], held["y"]
    found: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        scores = []
        for split, train in enumerate(held["train"]):
            model = LinearRegression(
                epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=tuple(held["bounds"].tolist()), random_state=split
            )
            scores.append(float(model.fit(X[train], y[train]).score(X[~train], y[~train])))
        found[f"{epsilon:g}"] = scores
    found["exact diagonals"] = [float(exact_diagonals((X[:1000] + 1.0) / 2.0))]
    json.dump(found, sys.stdout)


def exact_diagonals(X: np.ndarray) -> int:
    """How many diagonal entries of X'X come out without any noise, for features whose lower bound is 0."""
    width = X.shape[1]
    bounds = (np.zeros(width), np.ones(width))
    _, released = _construct_regression_obj(
        X, X[:, 0], bounds, (np.zeros(1), np.ones(1)), 1.0, 0.0, np.random.RandomState(0)
    )
    return int(np.sum(np.isclose(np.diag(released[2]), np.sum(X**2, axis=0), rtol=1e-12)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
