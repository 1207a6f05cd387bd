"""An aggregate owns its facts: adding one is its own file and its name in the two public lists, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from contracts.edited import SOURCE, Copy

TOY = '''"""The share of rows that have a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tallystick.tables.aggregates import Measure, Numbers, word
from tallystick.tables.estimates import Estimate, ratio
from tallystick.tables.parts import Part, Present, Rows
from tallystick.tables.schema import column_name


@dataclass(frozen=True, slots=True)
class Filled(Measure):
    """Rows with a value over rows."""

    kind: ClassVar[str] = "filled"
    column: str

    @property
    def never_negative(self) -> bool:
        return True

    def parts(self) -> tuple[Part, ...]:
        return (Present(self.column), Rows())

    def read(self, numbers: Numbers, confidence: float) -> tuple[Estimate, ...]:
        present, rows = (numbers[part] for part in self.parts())
        return (ratio(present, rows, 1.0, confidence),)

    def error(self, numbers: Numbers, confidence: float, group_size: float) -> float:
        present = numbers[self.parts()[0]]
        return min(1.0, present.law.deviations(confidence) * present.deviation / group_size)


@word
def filled(column: str) -> Measure:
    """The share of rows that have a value in this column."""
    return Filled(column_name(column))
'''

USE = """
import pyarrow
import tallystick as ts
from tallystick.cli.outcomes import plan_lines
from tallystick.publish.datasets import Dataset
from tallystick.publish.work import Work
from tallystick.errors import InvalidInput

rows = pyarrow.table({"who": list(range(4000)), "age": [None if i % 4 else 30 for i in range(4000)]})
account = ts.Ledger("toy.db").open("people", budget=ts.zcdp(rho=2), unit="who")
people = ts.Private(rows, account=account).table(unit="who").per_unit(max_rows_per_group=1)
plan = people.agg(share=ts.filled("age"), n=ts.count()).plan(rho=1, caps_share=0)
assert len(plan.noises) == 2, "the rows are shared with the count"
assert 0 < plan.error()["share"] < 0.01
try:
    people.agg(share=ts.filled("age")).plan(error=0.1)
except InvalidInput as problem:
    assert "size of the group" in str(problem)
else:
    raise AssertionError("its error needs a group size")
release = plan.release(why="test")
assert abs(release.data["share"][0] - 0.25) < 0.01, release.data
assert release.nonnegative()["share"] == release.data["share"]
offer = Work(account, Dataset("people", "people", {}), "", None, plan).offer().to_data()
assert any("±" in line and line.endswith("with 1,000 rows") for line in plan_lines(offer))
open("plan.json", "w").write(plan.to_json())
print(plan.hash)
"""

READ = """
from tallystick.tables.plan import Plan
from tallystick.tables.measures import parse
plan = Plan.from_json(open("plan.json").read())
assert dict(plan.query.measures)["share"].to_data() == {"kind": "filled", "column": "age"}
assert parse("count,filled(age)")["filled_age"].to_data() == {"kind": "filled", "column": "age"}
print(plan.hash)
"""


def test_a_new_aggregate_edits_at_most_two_files_besides_its_own(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("tables/filled.py", TOY)
    line = "from tallystick.tables.filled import filled as filled"
    copy.add_line("tables/measures.py", line, after="from tallystick.errors")
    copy.add_line("__init__.py", '    "filled": "tables.measures",', after="_HOMES = {")
    planned = copy.run(USE)
    assert copy.run(READ) == planned  # in a process that has not named it
    assert copy.added() == ["tables/filled.py"]
    assert len(copy.edited()) <= 2


def test_no_file_asks_a_measure_or_a_part_for_its_kind() -> None:
    asked = re.compile(r"\b(measure|part)\.kind\b|\bnames\[name\]\.kind\b|\blaw\.order *[!=]=")
    rooms = [SOURCE / room for room in ("tables", "cards", "cli", "publish", "plots")]
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for room in rooms
        for path in room.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if asked.search(line)
    ]
    assert not found
