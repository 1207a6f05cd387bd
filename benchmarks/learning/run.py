"""Accuracy of private logistic regression on three public tables, beside diffprivlib on the same splits.

    .venv/bin/python benchmarks/learning/run.py [--peers PYTHON] [--splits 20] [--data FOLDER] [--closer 100]

All settings are the constructors' defaults; only what must be declared is (norm, classes, delta, most_rows). Results go
to benchmarks/results/learning.md. Peers live in their own environment, .peers/learning, which is made on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import tallystick as ts

sys.path.insert(0, str(Path(__file__).parent))
import data as tables

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers" / "learning"
NEEDED = ["diffprivlib==0.6.6", "scikit-learn==1.7.2"]
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-6
FIRST_SEED = 2_000
"""Of the splits. Splits 0 to 19 and 1000 to 1019 have been looked at and are never used again."""
MOST_ROWS = {"breast_cancer": 1_000, "digits": 2_000, "adult": 100_000}
GOALS = {
    ("adult", DELTA): 0.840,
    ("adult", 0.0): 0.825,
    ("breast_cancer", DELTA): 0.95,
    ("breast_cancer", 0.0): 0.80,
    ("digits", DELTA): 0.89,
}


def splits(y: np.ndarray, count: int) -> np.ndarray:
    """Three quarters of each class, at random: the same for everybody."""
    masks = []
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        random, mask = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
        for label in np.unique(y):
            places = random.permutation(np.flatnonzero(y == label))
            mask[places[: round(0.75 * len(places))]] = True
        masks.append(mask)
    return np.array(masks)


def ours(name: str, X: np.ndarray, y: np.ndarray, masks: np.ndarray, epsilon: float, delta: float) -> list[float]:
    """Test accuracy per split; every fit with fresh noise."""
    found = []
    for mask in masks:
        model = ts.learn.LogisticRegression(
            epsilon,
            delta=delta or None,
            row_norm=1.0,
            classes=sorted(set(y.tolist())),
            most_rows=MOST_ROWS[name],
        )
        found.append(model.fit(X[mask], y[mask]).score(X[~mask], y[~mask], public=True))
    return found


def plain(X: np.ndarray, y: np.ndarray, masks: np.ndarray) -> list[float]:
    """scikit-learn without privacy."""
    from sklearn.linear_model import LogisticRegression

    fits = (LogisticRegression(max_iter=2000).fit(X[m], y[m]).score(X[~m], y[~m]) for m in masks)
    return [float(score) for score in fits]


def environment(given: str | None) -> str:
    if given:
        return given
    if not PEERS.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        subprocess.run([str(PEERS / "bin" / "pip"), "install", "--quiet", *NEEDED], check=True)
    return str(PEERS / "bin" / "python")


def told(scores: list[float]) -> str:
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f}"


def page(rows: dict[str, dict[str, list[float]]], found: dict[str, list[float]], count: int, seconds: float) -> str:
    lines = [
        "# Private logistic regression", "",
        f"Test accuracy, mean ± standard error over {count} splits (75/25, stratified), the same splits for everybody. Features in [-1, 1] by public bounds, a constant column, "
        "rows scaled to norm 1 (the preparation that was written down before anything was measured), everybody with the constructor's defaults. Ours are rules of public numbers and of what was released ([derived](../../docs/theory/objective-perturbation.md)). "
        "Earlier rules of gradient descent (breast_cancer and digits with a delta) had been changed after looking at splits 0 to 19 of these tables, and cut rows so hard that coefficients came out 40 % too large. "
        f"The present one was derived, tried on made-up data only, and frozen. One first run, on other splits and with rows without the constant column, was stopped when its breast_cancer figures were out (0.946 at epsilon 1); then this page was computed once, on splits {FIRST_SEED} and following. Tables of this kind had been seen before, so it is no blind trial. "
        f"The rows with delta = {DELTA:g} are a weaker promise than the pure ones, and diffprivlib 0.6.6 is pure: compare it with our pure rows. "
        "Written by `benchmarks/learning/run.py`; data are downloaded (pinned by hash) and not part of this repository.", "",
        "| data | who | epsilon 0.1 | 1 | 10 |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, cells in rows.items():
        lines.append(f"| {name} | no privacy | {told(cells['plain'])} | | |")
        for delta in (DELTA, 0.0):
            kind = f"ours, delta = {DELTA:g}" if delta else "**ours, pure**"
            lines.append(f"| | {kind} | " + " | ".join(told(cells[f"{e:g}|{delta:g}"]) for e in EPSILONS) + " |")
        for peer in ("diffprivlib, C=1", "diffprivlib, C=100"):
            if f"{name}|1|{peer}" in found:
                lines.append(
                    f"| | {peer} (pure) | " + " | ".join(told(found[f"{name}|{e:g}|{peer}"]) for e in EPSILONS) + " |"
                )
    lines += ["", "| goal at epsilon 1 | asked | reached |", "|---|---|---|"]
    for (name, delta), goal in GOALS.items():
        if name in rows:
            mean = np.mean(rows[name][f"1|{delta:g}"])
            verdict = f"{mean:.4f}" if mean >= goal else f"{mean:.4f}, **missed**"
            lines.append(f"| {name}, {f'delta = {delta:g}' if delta else 'pure'} | {goal:.3f} | {verdict} |")
    return "\n".join([*lines, "", f"{seconds:.0f} CPU seconds of ours, one thread, on a shared machine.", ""])


def closer(sets: dict[str, tuple[np.ndarray, np.ndarray] | None], count: int) -> str:
    """The goals of the two small tables with a delta again, on more splits, as 20 of them leave a wide error."""
    lines = [
        "",
        f"The same goals with a delta on {count} splits (the first of them are those above, with fresh noise):",
        "",
    ]
    lines += ["| goal at epsilon 1 | asked | reached |", "|---|---|---|"]
    for name in ("breast_cancer", "digits"):
        X, y = sets[name] or (np.zeros((0, 1)), np.zeros(0))
        scores, goal = ours(name, X, y, splits(y, count), 1.0, DELTA), GOALS[name, DELTA]
        missed = "" if np.mean(scores) >= goal else ", **missed**"
        lines.append(f"| {name}, delta = {DELTA:g} | {goal:.3f} | {told(scores)}{missed} |")
    return "\n".join([*lines, ""])


def main() -> None:
    warnings.simplefilter("ignore")
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--peers", help="python of an environment with diffprivlib")
    options.add_argument("--splits", type=int, default=20)
    options.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--without-peers", action="store_true")
    options.add_argument("--closer", type=int, help="only add the two small goals on so many splits to the page")
    asked = options.parse_args()
    result = ROOT / "benchmarks" / "results" / "learning.md"
    if asked.closer:
        small = {"breast_cancer": tables.breast_cancer(), "digits": tables.digits()}
        result.write_text(result.read_text(encoding="utf-8") + closer(small, asked.closer), encoding="utf-8")
        return
    sets = {"breast_cancer": tables.breast_cancer(), "digits": tables.digits(), "adult": tables.adult(asked.data)}
    rows: dict[str, dict[str, list[float]]] = {}
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        for name, held in sets.items():
            if held is None:
                continue
            X, y = held
            masks = splits(y, asked.splits)
            np.savez(Path(folder) / f"{name}.npz", X=X, y=y, train=masks)
            rows[name] = {"plain": plain(X, y, masks)}
            for epsilon in EPSILONS:
                for delta in (DELTA, 0.0):
                    rows[name][f"{epsilon:g}|{delta:g}"] = ours(name, X, y, masks, epsilon, delta)
                    print(name, epsilon, delta, told(rows[name][f"{epsilon:g}|{delta:g}"]), flush=True)
        seconds = time.process_time() - start
        found: dict[str, list[float]] = {}
        if not asked.without_peers:
            script = [environment(asked.peers), str(Path(__file__).with_name("peers.py")), folder]
            found = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    result.write_text(page(rows, found, asked.splits, seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
