"""What people see of a run while it trains and after it: steps, what was paid, whom it protects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rich.console import Console  # noqa: E402
from torch import nn  # noqa: E402

import tallystick as ts  # noqa: E402
from tallystick.learn.torch.progress import paid, shown  # noqa: E402

X, Y = torch.zeros(50, 4), torch.zeros(50, dtype=torch.int64)
PLAN = ts.learn.SgdPlan(noise_multiplier=4.0, rate=0.2, steps=20, expected_batch=10)


def trainer(**options: object) -> ts.learn.torch.Trainer:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return ts.learn.torch.Trainer(model, nn.CrossEntropyLoss(reduction="none"), optimizer, clip=1.0, **options)


def test_the_line_on_the_screen_says_what_was_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with ts.Ledger(os.fspath(tmp_path / "book.db")) as book:
        account = book.open("lab", budget=ts.renyi_dp({16: 5.0}))
        made = trainer(plan=PLAN, account=account, why="test", pay="blocks", block=5, classes=2)
        before, screen, told = paid(made.run), Console(record=True, width=300, force_terminal=True), set()
        for batch in shown(made.batches((X, Y)), made.run, PLAN.steps, screen):
            made.step(batch)
            told.add(paid(made.run))
        text = screen.export_text()
        last = text.rpartition("training")[2]
        assert f"In blocks of 5 steps it costs {made.run.costs().blocks}" in text
        assert len(told | {before}) == 5, "four blocks were paid one after the other"
        assert f"lab has paid {account.used} of {account.limit}" in last
        assert before not in last
        assert "20/20" in last


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_recorded_nowhere_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer(plan=PLAN).fit((X, Y), progress=True)
    assert made.taken == 20
    assert "recorded nowhere" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unit", "words"),
    [(None, "one example (add or remove)"), ("digit", "one example, that is one digit (add or remove)")],
)
def test_a_card_names_whom_it_protects_with_and_without_a_unit(unit: str | None, words: str) -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-5, examples=50, batch=10, epochs=4, unit=unit)
    assert dict(trainer(plan=plan).facts())["protected"] == words
