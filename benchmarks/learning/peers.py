"""diffprivlib on the same splits, in its own environment.  Run: python peers.py FOLDER, prints JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression

warnings.simplefilter("ignore")
EPSILONS = (0.1, 1.0, 10.0)


def main(folder: Path) -> None:
    found: dict[str, list[float]] = {}
    for path in sorted(folder.glob("*.npz")):
        held = np.load(path)
        X, y, name = held["X"], held["y"], path.stem
        for epsilon in EPSILONS:
            for strength in (1.0, 100.0):
                scores = []
                for split, train in enumerate(held["train"]):
                    model = LogisticRegression(
                        epsilon=epsilon,
                        data_norm=1.0,
                        C=strength,
                        max_iter=1000,
                        random_state=split,
                    )
                    scores.append(float(model.fit(X[train], y[train]).score(X[~train], y[~train])))
                found[f"{name}|{epsilon:g}|diffprivlib, C={strength:g}"] = scores
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
