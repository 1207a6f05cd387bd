"""A leaf owns its facts: adding one is its own file and its name in the two public lists, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tallystick"

TOY = '''"""A coin that tells the truth with probability 1/2 + bias."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Direction
from tallystick.accounting.leaf import Leaf, Limit
from tallystick.accounting.leaves.pure import response_rho, two_point_law
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.accounting.pair import DominatingPair


@dataclass(frozen=True, slots=True)
class BiasedCoin(Leaf):
    """One toss."""

    kind: ClassVar[str] = "biased_coin"
    bias: float

    def __post_init__(self) -> None:
        check.keep(self, bias=check.between("bias", self.bias, 0.0, 0.49))

    @property
    def strength(self) -> float:
        return math.log((0.5 + self.bias) / (0.5 - self.bias))

    def pair(self, direction: Direction) -> DominatingPair:
        return DominatingPair.exact(two_point_law(self.strength))

    def concentrated(self) -> tuple[Fraction, Fraction]:
        return response_rho(self.strength), Fraction(0)

    def limit(self) -> Limit:
        return Limit("approx", self.strength)

    def ball_law(self, ask: Any) -> Any:
        return ask.two_points(self.strength)


@constructor
def biased_coin(*, bias: float, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """One toss of a coin that tells the truth with probability 1/2 + bias."""
    return loss_of(BiasedCoin(bias), adjacency, unit)
'''

USE = """
import json
import tallystick as ts
from tallystick.accounting.expression import read_loss
from tallystick.errors import InvalidInput
from tallystick.ledger.budget import Budget
from tallystick.ledger.filters import Filter
from tallystick.ledger.pricing import price

loss = 3 * ts.biased_coin(bias=0.25, adjacency="replace", unit="person")
assert ts.PrivacyLoss.from_json(loss.to_json()) == loss
assert read_loss(str(loss)) == loss, str(loss)
assert abs(loss.epsilon(delta=0) - 3 * 1.0986123) < 1e-6
coin = ts.biased_coin(bias=0.25)
assert Budget.of(coin).filter.kind == "approx"
assert 0 < price(coin, Filter("zcdp"), adjacency="add_remove").a0 < 10**12
try:
    ts.PrivacyLoss.from_json(coin.to_json().replace("0.25", "0.5"))
except InvalidInput as problem:
    assert "bias" in str(problem)
else:
    raise AssertionError("a text built what the constructor refuses")
try:
    import flint
except ImportError:
    pass
else:
    bounds = coin.sampled(rate=0.5).epsilon_bounds(delta=0.01, rigorous=True)
    assert bounds.lower <= coin.sampled(rate=0.5).epsilon(delta=0.01)
print("used")
"""


def test_a_new_leaf_edits_at_most_two_files_besides_its_own(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "tallystick"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "accounting" / "leaves" / "biased_coin.py").write_text(TOY, encoding="utf-8")
    _add_line(
        copy / "accounting" / "losses.py", "biased_coin", "from tallystick.accounting.leaves.{0} import {0} as {0}"
    )
    _add_line(copy / "__init__.py", "biased_coin", '    "{0}": "accounting.losses",', after="_HOMES = {")
    done = subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(copy.parent)},
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "used", done.stderr
    edited = [
        path for path in copy.rglob("*.py")
        if (old := SOURCE / path.relative_to(copy)).exists() and old.read_bytes() != path.read_bytes()
    ]  # fmt: skip
    new = [path for path in copy.rglob("*.py") if not (SOURCE / path.relative_to(copy)).exists()]
    assert len(new) == 1
    assert len(edited) <= 2


def _add_line(path: Path, name: str, line: str, after: str = "from tallystick.accounting.adjacency") -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    place = next(i for i, text in enumerate(lines) if text.startswith(after))
    path.write_text("\n".join([*lines[: place + 1], line.format(name), *lines[place + 1 :], ""]), encoding="utf-8")


def test_no_file_asks_a_leaf_for_its_kind() -> None:
    asked = re.compile(r"\b(leaf|base|terms\[0\]\[0\])\.kind\b")
    allowed = {SOURCE / "accounting" / "leaf.py"}
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path not in allowed
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert not found
