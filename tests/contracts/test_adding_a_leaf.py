"""A leaf owns its facts: adding one is its own file and its name in the two public lists, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from contracts.edited import SOURCE, Copy

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
assert 0 < price(coin, Filter("zcdp"), coin.protects).a0 < 10**12
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
    copy = Copy.into(tmp_path)
    copy.new("accounting/leaves/biased_coin.py", TOY)
    line = "from tallystick.accounting.leaves.biased_coin import biased_coin as biased_coin"
    copy.add_line("accounting/losses.py", line, after="from tallystick.accounting.adjacency")
    copy.add_line("__init__.py", '    "biased_coin": "accounting.losses",', after="_HOMES = {")
    assert copy.run(USE) == "used"
    assert len(copy.added()) == 1
    assert len(copy.edited()) <= 2


def test_no_file_asks_a_leaf_for_its_kind() -> None:
    asked = re.compile(r"\b(leaf|base|terms\[0\]\[0\])\.kind\b")
    written = re.compile(r"""(leaf|base|record)\w*(\[0\])?(\["kind"\]|\.get\("kind")""")  # the same of its JSON
    allowed = {SOURCE / "accounting" / "leaf.py", SOURCE / "certificate" / "checker.py"}  # the reader; the stranger
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path not in allowed
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line) or written.search(line)
    ]
    assert not found
