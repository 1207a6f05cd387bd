"""An estimator owns its facts: with its card it is one file and one name; fitted by the shell it adds one command."""

from __future__ import annotations

from pathlib import Path

from contracts.edited import Copy
from sweeps import campaign_only

TOY = '''"""The share of rows whose target is above 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.learn.estimator import Estimator, NoisePart
from tallystick.learn.records import numbers
from tallystick.mechanisms.noise import add_discrete_laplace


@dataclass(frozen=True, slots=True)
class ShareRecipe:
    """Two noisy counts."""

    epsilon: float

    @property
    def noise(self) -> Any:
        return add_discrete_laplace(epsilon=self.epsilon, sensitivity=2, dimension=2)

    @property
    def privacy(self) -> Any:
        return self.noise.privacy

    def ready(self, width: int) -> None:
        """Nothing public can go wrong."""

    def noise_parts(self, columns: int) -> tuple[NoisePart, ...]:
        return (NoisePart("two counts", "discrete Laplace", self.noise.law.scale, norm="L1", sensitivity=2.0),)

    def train(self, data: Any, source: Any) -> dict[str, Any]:
        targets = numbers(data.targets, -1.0, 1.0)
        counts = [int((targets > 0).sum()), len(targets)]
        return {"counts": self.noise.draw(self.noise.prepare(counts, strict=False), source)}


class ShareAbove(Estimator):
    """The share."""

    def __init__(self, *, epsilon: float, rows_per_unit: int = 1) -> None:
        self.epsilon = epsilon
        self.rows_per_unit = rows_per_unit

    def _recipe(self) -> ShareRecipe:
        return ShareRecipe(float(self.epsilon))

    def _keep(self, answer: Any) -> None:
        above, all_rows = (float(count) for count in answer["counts"])
        self.share_ = above / max(all_rows, 1.0)
'''

PUBLISHED = '''"""The share of a registered table's rows, fitted by the shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.publish.datasets import find
from tallystick.publish.kinds import Kind
from tallystick.publish.rows import RowsWork
from tallystick.tables.expressions import col, when
from tallystick.tables.measures import sum as total


@dataclass(frozen=True, slots=True)
class ShareFit(Kind):
    """The share of rows above 50 in a column."""

    dataset: str
    column: str

    def work(self, request: Any, book: Any) -> Any:
        dataset = find(self.dataset, book)
        account = book.open(dataset.population)
        asked = Share(dataset.opened(account), self.column, request.cost.epsilon)
        return RowsWork.of(asked, dataset, account, request)


@dataclass(frozen=True, slots=True)
class Share:
    """Which column."""

    table: Any
    column: str
    epsilon: float
    delta: float | None = None

    def model(self) -> Any:
        from tallystick.learn import ShareAbove

        return ShareAbove(epsilon=self.epsilon, rows_per_unit=self.table.max_rows)

    def plan(self) -> Any:
        table = self.table.derive(one=when(col(self.column) > 0, 1, 1), target=when(col(self.column) > 50, 1, -1))
        return table.agg(one=total("one", -1, 1), target=total("target", -1, 1)).plan(epsilon=1.0)

    def read(self, fitted: Any) -> dict[str, Any]:
        return {"share": fitted.share_}


KIND = ShareFit
'''

COMMAND = '''
@app.command()
def share(
    dataset: ask.Name, column: str, epsilon: float, why: Why, card: ask.CardFile = None, ledger: Place = None,
    as_json: Json = False,
) -> None:
    """The share of rows above 50."""
    from tallystick.publish.kinds.share import ShareFit

    with opened(ledger) as book:
        request = Request(ShareFit(dataset, column), Cost(epsilon=epsilon), why=why)
        done = _fit(request, book, None, card, lambda stage: None, dry_run=False)
        _deliver("fit.share", {}, done, lambda model: ([f"share {model['share']:.2f}"], ""), as_json=as_json)

'''

USE = """
import numpy as np, tallystick as ts
from tallystick.cards import check_card, fit_card
from tallystick.learn import ShareAbove

account = ts.Ledger("toy.db").open("people", budget=ts.approx_dp(epsilon=9, delta=1e-5), unit="person")
targets = np.repeat([-1.0, 1.0], [3000, 1000])
model = ShareAbove(epsilon=1.0).fit(np.zeros((4000, 1)), targets, account=account, why="share", delta=0.0)
assert abs(model.share_ - 0.25) < 0.01
card = fit_card(model, account, dataset="people")
assert not [finding.problem for finding in check_card(card, account.ledger) if finding.problem]
assert card.facts["mechanisms"]["parts"][0]["part"] == "two counts"
"""

SHELL = """
import csv
from tallystick.cli import main

with open("people.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["who", "age"])
    writer.writerows([i, 80 if i % 4 == 0 else 20] for i in range(4000))
facts = ["--population", "all", "--unit", "who", "--limit", "epsilon=9", "--max-rows-per-group", "1"]
assert main(["dataset", "add", "people.csv", *facts, "--bounds", "age=0:110", "--ledger", "shell.db"]) == 0
asked = ["people", "age", "2", "--why", "toy", "--card", "card.html", "--ledger", "shell.db"]
assert main(["fit", "share", *asked]) == 0
assert main(["card", "verify", "card.html", "--ledger", "shell.db"]) == 0
"""


@campaign_only
def test_a_new_estimator_with_its_card_is_one_file_and_one_name(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("learn/share.py", TOY)
    copy.add_line("learn/__init__.py", '    "ShareAbove": "share",', after="_HOMES")
    copy.run(USE)
    assert copy.edited() == ["learn/__init__.py"]


def test_a_new_estimator_that_the_shell_fits_edits_two_files_besides_its_own(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("learn/share.py", TOY)
    copy.add_line("learn/__init__.py", '    "ShareAbove": "share",', after="_HOMES")
    copy.new("publish/kinds/share.py", PUBLISHED)
    copy.add_line("cli/commands/fit.py", COMMAND, after="Model = ")
    said = copy.run(SHELL)
    assert "share 0.2" in said
    assert sorted(copy.edited()) == ["cli/commands/fit.py", "learn/__init__.py"]
    assert sorted(copy.added()) == ["learn/share.py", "publish/kinds/share.py"]
