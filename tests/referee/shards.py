"""What a campaign keeps: one line of JSON for every expression it asked, so that runs can be resumed and merged."""

from __future__ import annotations

import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from referee import matrix
from referee.asking import FAILURES, LONGEST, READOUTS, Record

ENOUGH = 30
SLOW_ENOUGH = 2  # a read-out that was too slow this often is not asked again in this row
JUDGED = ("ok", "loose", "infinite", *FAILURES)
TOLD = ("loose", "infinite", "undecided", *FAILURES)
"""Verdicts of which every single record is kept; of the others only their number."""
GIVES = {
    "epsilon_bounds": ("epsilon_bounds.lower", "epsilon_bounds.upper"),
    "delta_bounds": ("delta_bounds.lower", "delta_bounds.upper"),
    "epsilon_bounds_rigorous": ("epsilon_bounds_rigorous.lower", "epsilon_bounds_rigorous.upper"),
    "delta_bounds_rigorous": ("delta_bounds_rigorous.lower", "delta_bounds_rigorous.upper"),
    "cdf": ("privacy_loss.cdf",),
    "quantile": ("privacy_loss.quantile",),
    "moments": ("privacy_loss.mean", "privacy_loss.variance"),
    "characteristic_function": ("privacy_loss.characteristic_function",),
    "order": ("<=",),
    "price": ("price.zcdp", "price.approx", "price.gdp", "price.rdp"),
    "meaning": tuple(cell for cell in matrix.CELLS if cell.startswith("meaning.")),
}
"""Which cells a question fills; the others fill the one of their own name."""


@dataclass(frozen=True)
class Asked:
    """One expression of a row and what came of it."""

    seed: int
    leaf: str
    transformation: str
    draw: int
    commit: str
    text: str
    verdicts: dict[str, dict[str, int]]
    told: list[Record]
    slowest: Record | None
    engine: float
    referee: float
    spent: dict[str, float] = field(default_factory=dict)  # the accountant's seconds, by read-out

    @classmethod
    def of(cls, seed: int, row: Row, draw: int, commit: str, text: str, records: list[Record], seconds: float) -> Asked:
        verdicts: dict[str, Counter[str]] = defaultdict(Counter)
        asked: dict[str, float] = {}
        spent: Counter[str] = Counter()
        for record in records:
            verdicts[record.readout][record.verdict] += 1
            if record.asked not in asked:
                spent[record.readout] += record.seconds
            asked[record.asked] = record.seconds
        return cls(
            seed,
            row.leaf,
            row.transformation,
            draw,
            commit,
            text,
            {cell: dict(counts) for cell, counts in verdicts.items()},
            [record for record in records if record.verdict in TOLD],
            max(records, key=lambda r: r.seconds, default=None),
            (engine := sum(asked.values())),
            max(0.0, seconds - engine),
            dict(spent),
        )

    def failed(self) -> bool:
        late = self.slowest is not None and self.slowest.seconds > LONGEST  # a refusal too
        return late or any(record.verdict in FAILURES for record in self.told)

    def questions(self) -> tuple[str, ...]:
        """What was asked of it."""
        return tuple(q for q in READOUTS if any(cell in self.verdicts for cell in GIVES.get(q, (q,))))

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, line: str) -> Asked:
        plain: dict[str, Any] = json.loads(line)
        plain["told"] = [Record(**record) for record in plain["told"]]
        plain["slowest"] = Record(**plain["slowest"]) if plain["slowest"] else None
        return cls(**plain)


@dataclass
class Row:
    """One leaf under one transformation."""

    leaf: str
    transformation: str
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    asked: list[Asked] = field(default_factory=list)

    def draws(self, seed: int) -> set[int]:
        """The numbers of a seed that were asked."""
        return {asked.draw for asked in self.asked if asked.seed == seed}

    def next_draw(self, seed: int) -> int:
        """The first number of a seed that was not asked; a line taken out of a shard is asked again."""
        seen = self.draws(seed)
        return next(n for n in range(len(seen) + 1) if n not in seen)

    def take(self, asked: Asked) -> None:
        self.asked.append(asked)
        for cell, counts in asked.verdicts.items():
            self.verdicts[cell].update(counts)

    def told(self, *verdicts: str) -> list[tuple[Asked, Record]]:
        return [(asked, record) for asked in self.asked for record in asked.told if record.verdict in verdicts]

    def judged(self, cell: str) -> int:
        return sum(self.verdicts[cell][verdict] for verdict in JUDGED)

    def answered(self, cell: str) -> int:
        """Judged numbers, and refusals where a refusal is an answer."""
        return self.judged(cell) + (self.verdicts[cell]["refused"] if cell in matrix.REFUSABLE else 0)

    def wanted(self, enough: int) -> tuple[str, ...]:
        """Questions that still fill a cell."""
        return tuple(
            question
            for question in READOUTS
            if any(self.is_open(cell, enough) for cell in GIVES.get(question, (question,)))
        )

    def is_open(self, cell: str, enough: int) -> bool:
        if matrix.impossible(self.leaf, self.transformation, cell):
            return len(self.asked) < 2
        return self.answered(cell) < enough and self.verdicts[cell]["slow"] < SLOW_ENOUGH

    def missing(self) -> list[str]:
        """Cells with too few judged numbers, and how their questions went."""
        return [
            f"{self.leaf} / {self.transformation} / {cell}: {self.judged(cell)} judged, "
            f"{self.verdicts[cell]['undecided']} undecided, {self.verdicts[cell]['refused']} refused"
            for cell in matrix.CELLS
            if self.answered(cell) < ENOUGH and not matrix.impossible(self.leaf, self.transformation, cell)
        ]


def pack(shards: Iterable[Path], record: Path) -> None:
    """All lines of the shards as one file that can be kept in the repository."""
    lines = "".join(shard.read_text(encoding="utf-8") for shard in shards)
    record.write_bytes(lzma.compress(lines.encode(), preset=6))


def unpack(record: Path, folder: Path) -> None:
    """The shards again, so that a campaign goes on where another machine ended."""
    found: dict[int, list[str]] = defaultdict(list)
    for line in lzma.decompress(record.read_bytes()).decode().splitlines(keepends=True):
        found[Asked.read(line).seed].append(line)
    for seed, lines in found.items():
        (folder / f"seed-{seed}.jsonl").write_text("".join(lines), encoding="utf-8")


def rows_of(shards: Iterable[Path]) -> list[Row]:
    """Every row of the matrix, with what the shards say about it."""
    rows = {(leaf, name): Row(leaf, name) for leaf in matrix.MAKERS for name in matrix.TRANSFORMATIONS}
    for shard in shards:
        if shard.exists():
            for line in shard.read_text(encoding="utf-8").splitlines():
                asked = Asked.read(line)
                rows[asked.leaf, asked.transformation].take(asked)
    return list(rows.values())
