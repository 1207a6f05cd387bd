"""A kind of request owns its facts: adding one is its own file, and nothing else."""

from __future__ import annotations

from pathlib import Path

from contracts.edited import Copy

TOY = '''"""The number of units of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.publish.datasets import find
from tallystick.publish.kinds import Kind
from tallystick.publish.work import Work, plan_key
from tallystick.tables.measures import count_units


@dataclass(frozen=True, slots=True)
class UnitCount(Kind):
    """Which data set."""

    dataset: str

    def work(self, request: Any, book: Any) -> Work:
        dataset = find(self.dataset, book)
        account = book.open(dataset.population)
        plan = dataset.opened(account).agg(units=count_units()).plan(**request.cost.words)
        return Work(account, dataset, request.why or "", request.key_or(plan_key(plan, dataset)), plan)


KIND = UnitCount
'''

REGISTER = """
import csv
from tallystick.cli import main

with open("people.csv", "w", newline="") as file:
    csv.writer(file).writerows([["who", "age"], *([i % 500, 40] for i in range(1000))])
words = ["--population", "all", "--unit", "who", "--limit", "rho=9", "--max-rows-per-group", "1"]
assert main(["dataset", "add", "people.csv", *words, "--ledger", "toy.db"]) == 0
"""

USE = """
import json
import tallystick as ts
from tallystick.publish.kinds import Kind
from tallystick.publish.request import Request, price, rehearse, run

what = Kind.from_data({"kind": "unit_count", "dataset": "people"})
data = json.loads(json.dumps(Request(what, why="toy").to_data()))
data["cost"]["rho"] = 1.0
request = Request.from_data(data)
with ts.Ledger("toy.db") as book:
    assert price(request, book).price == "rho 1"
    assert rehearse(request, book).offer is not None
    first, second = run(request, book), run(request, book)
assert first.key.startswith("plan-")
assert (first.paid.again, second.paid.again) == (False, True)
assert first.table == second.table
assert abs(first.table.rows[0][0] - 500) < 20
print("used")
"""


def test_a_new_kind_of_request_is_its_own_file(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("publish/kinds/unit_count.py", TOY)
    copy.run(REGISTER)
    assert copy.run(USE) == "used"
    assert copy.added() == ["publish/kinds/unit_count.py"]
    assert copy.edited() == []
