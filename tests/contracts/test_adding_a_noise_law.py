"""A noise law owns its facts: adding one is its own file and its verb's name in noise/__init__.py, and nothing else."""

from __future__ import annotations

from pathlib import Path

from contracts.edited import Copy

TOY = '''"""Uniform noise on -width, ..., width: epsilon is 0 and delta is the shift over the number of points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tallystick.accounting import check, losses
from tallystick.mechanisms.exact.lattice import rounded_up
from tallystick.mechanisms.exact.uniform import integer
from tallystick.mechanisms.noise.additive import AdditiveNoise, site_of
from tallystick.mechanisms.noise.law import NoiseLaw


@dataclass(frozen=True, slots=True)
class DiscreteUniform(NoiseLaw):
    """Every integer up to the width is as likely."""

    name: ClassVar[str] = "uniform"
    order: ClassVar[int] = 1
    currency: ClassVar[str] = "delta"
    width: int

    @property
    def scale(self) -> float:
        return float(self.width)

    @property
    def points(self) -> int:
        return 2 * self.width + 1

    def cost(self, norm: Fraction) -> Fraction:
        return norm / self.points

    @classmethod
    def that_costs(cls, norm: Fraction, most: Fraction) -> DiscreteUniform:
        return cls(int(norm / most) // 2 + 1)

    def one(self, source: Any) -> int:
        return integer(self.points, source) - self.width

    def draw(self, size: int, source: Any) -> Any:
        return np.array([self.one(source) for _ in range(size)], dtype=np.int64)

    def mass(self, points: Any) -> Any:
        return np.where(np.abs(points) <= self.width, 1.0 / self.points, 0.0)

    @property
    def variance(self) -> float:
        return self.width * (self.width + 1) / 3.0

    def half_width(self, miss: float) -> int:
        return self.width

    def upper_tail(self, least: int) -> float:
        return min(1.0, max(0.0, (self.width - least + 1) / self.points * (1.0 + 1e-12)))

    def deviations(self, confidence: float) -> float:
        return 3.0

    def shift_privacy(self, steps: int, protects: Any) -> Any:
        return self.norm_privacy(Fraction(steps), protects)

    def norm_privacy(self, norm: Fraction, protects: Any) -> Any:
        return losses.approx_dp(epsilon=0.0, delta=min(1.0, rounded_up(self.cost(norm))), **protects.about)


def add_uniform(*, width: int, sensitivity: int = 1, adjacency: Any = None, unit: str | None = None) -> AdditiveNoise:
    """Uniform noise for integer data."""
    site = site_of(sensitivity, 1, None, None, adjacency, unit, whole=True)
    return site.with_law(None, DiscreteUniform(check.count("width", width, least=1)))
'''

USE = """
import tallystick as ts

noise = ts.noise.add_uniform(width=50_000)
assert abs(noise.privacy.delta(epsilon=0) - 1 / 100_001) < 1e-12
account = ts.Ledger("toy.db").open("people", budget=ts.approx_dp(epsilon=1, delta=1e-3), unit="person")
answer = account.release(noise, 1_000_000, why="toy", delta=1e-4)
assert abs(answer - 1_000_000) <= noise.error() == 50_000.0
low, high = noise.interval(answer)
assert low <= 1_000_000 <= high
print("used")
"""


def test_a_new_noise_law_edits_one_file_besides_its_own(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("mechanisms/noise/uniform.py", TOY)
    line = "from tallystick.mechanisms.noise.uniform import add_uniform"
    copy.add_line("mechanisms/noise/__init__.py", line, after="from tallystick.mechanisms.noise.sensitivity")
    assert copy.run(USE) == "used"
    assert copy.added() == ["mechanisms/noise/uniform.py"]
    assert copy.edited() == ["mechanisms/noise/__init__.py"]
