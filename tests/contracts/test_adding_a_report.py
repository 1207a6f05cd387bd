"""A report on a table owns its facts: adding one is a part with its function, one entry and its words."""

from __future__ import annotations

from pathlib import Path

from contracts.edited import Copy

TOY = '''"""Units that are in one group alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sqlglot import exp

from tallystick.tables.capping import UNIT
from tallystick.tables.dialects import SATURATED_TOTAL, Tree, Words, case, compare, name, table, whole
from tallystick.tables.parts import WEIGHT_BITS, Caps, SortedCells
from tallystick.tables.reporting import words as sentences
from tallystick.tables.reporting.totals import Seen


@dataclass(frozen=True, slots=True)
class UnitsAlone(Seen):
    """Units with one cell: each adds 1."""

    kind: ClassVar[str] = "units alone"

    @property
    def label(self) -> str:
        return "units in one group alone"

    def peak(self, caps: Caps) -> int:
        return 1 << WEIGHT_BITS

    def asked(self, words: Words, cells: Tree, signed: bool, caps: Caps) -> exp.Query:
        added = exp.alias_(self.of_unit(words, exp.false(), caps), "_o")
        units = exp.select(added).from_(table("_cells")).group_by(name(UNIT))
        return exp.select(words.sum(name("_o"), SATURATED_TOTAL, self.peak(caps))).from_(units.subquery("_u"))

    def of_unit(self, words: Words, out: Tree, caps: Caps) -> Tree:
        is_alone = compare(exp.EQ, exp.Count(this=exp.Star()), whole(1))
        return case([(is_alone, whole(self.peak(caps)))], whole(0))

    def of_sorted(self, cells: SortedCells) -> Sequence[int]:
        sizes = np.diff(cells.start, append=len(cells.rows))
        return (int((sizes == 1).sum()) << WEIGHT_BITS,)


def asked_of(query: Any, seen_to: int) -> Sequence[UnitsAlone]:
    groups, _ = query.can_leave_out
    return (UnitsAlone(),) if groups else ()


def units_alone(part: UnitsAlone, reading: Any) -> Iterator[Any]:
    yield reading.line(part, 0, sentences.UNITS, sentences.ALONE)
'''

USE = """
import pyarrow
import tallystick as ts
from tallystick.cards import card
from tallystick.cards.check import check_card
from tallystick.tables import run
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.parts import WEIGHT_BITS
from tallystick.tables.plan import Plan
from tallystick.tables.reporting.alone import UnitsAlone

whos = [*range(1500), *range(500)]
wards = [i % 2 for i in range(1500)] + [2] * 500
rows = pyarrow.table({"who": whos, "ward": wards})
book = ts.Ledger("toy.db")
account = book.open("people", budget=ts.zcdp(rho=9), unit="who")
people = ts.Private(rows, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
plan = people.group_by("ward", keys=[0, 1, 2]).agg(n=ts.count()).plan(rho=4)
part = UnitsAlone()
assert part in plan.query.removed
assert UnitsAlone() not in people.agg(n=ts.count()).plan(rho=4).query.removed, "without groups nobody is asked"

asked = []
sort = run.sums_of
def watched(*given):
    asked.append("sorted")
    return sort(*given)
def no_memory(*given):
    asked.append("in SQL")
    raise MemoryError
for way in (watched, no_memory):
    run.sums_of = way
    [[found]] = run.integers(plan).removed[part].tolist()
    assert found == 1000 << WEIGHT_BITS, (way, found)
assert asked == ["sorted", "in SQL"], asked

run._programs.clear()  # the third way: all numbers of a unit in one reading of the cells, as on a cluster
words = type(DuckEngine.words)
words.dear = True
[[found]] = run.integers(plan).removed[part].tolist()
assert found == 1000 << WEIGHT_BITS, found
words.dear = False
run._programs.clear()
run.sums_of = sort

release = plan.release(why="test")
[line] = [each for each in release.removed() if each.what == "units in one group alone"]
assert abs(line.value - 1000) < 50
assert str(line).startswith("about ")
assert str(line).endswith(" were in one group alone"), str(line)
assert str(line) in release.about_csv()
again = Plan.from_json(plan.to_json(), account=account)
assert again.hash == plan.hash
assert all(finding.holds for finding in check_card(card(release), book, page=None))
print("used")
"""


def test_a_new_report_is_a_part_with_its_function_one_entry_and_its_words(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("tables/reporting/alone.py", TOY)
    limits, words = "tables/reporting/limits.py", "tables/reporting/words.py"
    line = "from tallystick.tables.reporting.alone import UnitsAlone, asked_of, units_alone"
    copy.add_line(limits, line, after="from tallystick.tables.reporting import words")
    entry = "    UnitsAlone: LimitReport(asked_of, UnitsSeen(), units_alone),"
    copy.add_line(limits, entry, after="    Outside: LimitReport(")
    copy.add_line(words, 'ALONE: Final = "were in one group alone"', after="COMPUTED: Final")
    assert copy.run(USE) == "used"
    assert copy.added() == ["tables/reporting/alone.py"]
    assert sorted(copy.edited()) == [limits, words]
