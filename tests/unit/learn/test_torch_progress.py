"""What people see of a run while it trains and after it: steps, what was paid, whom it protects."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rich.console import Console  # noqa: E402
from torch import nn  # noqa: E402

import tallystick as ts  # noqa: E402
from tallystick.learn.torch.progress import shown, used  # noqa: E402

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
        before, screen, told = used(made.run), Console(record=True, width=80, force_terminal=True), set()
        for batch in shown(made.batches((X, Y)), made.run, PLAN.steps, screen):
            made.step(batch)
            told.add(used(made.run))
        text = screen.export_text()
        last = text.rpartition("training")[2]
        assert f"In blocks of 5 steps it costs {made.run.costs().blocks}" in " ".join(text.split())
        assert len(told | {before}) == 5, "four blocks were paid one after the other"
        assert used(made.run) in last
        assert "20/20" in last
        assert re.search(r"\d:\d\d:\d\d", last)
        assert "…" not in last
        assert f"lab has paid {account.used} of {account.limit}." in " ".join(text.split())


def test_steps_and_time_are_visible_at_80_columns_for_any_name(tmp_path: Path) -> None:
    with ts.Ledger(os.fspath(tmp_path / "book.db")) as book:
        account = book.open("people of the north, 2026", budget=ts.renyi_dp({16: 5.0}))
        plan = ts.learn.SgdPlan(noise_multiplier=40.0, rate=0.2, steps=10_000, expected_batch=10)
        made = trainer(plan=plan, account=account, why="test", classes=2)
        screen = Console(record=True, width=80, force_terminal=True)
        assert list(shown(iter([None]), made.run, plan.steps, screen)) == [None]
        text = screen.export_text()
        assert "1/10000" in text
        assert re.search(r"[\d-]:[\d-]{2}:[\d-]{2} people of the n.*used", text)


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_is_recorded_nowhere_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer(plan=PLAN).fit((X, Y), progress=True)
    assert made.taken == 20
    assert "recorded nowhere" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unit", "words"),
    [(None, "one example, added or removed"), ("digit", "one example, that is one digit, added or removed")],
)
def test_a_card_names_whom_it_protects_with_and_without_a_unit(unit: str | None, words: str) -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-5, examples=50, batch=10, epochs=4, unit=unit)
    assert dict(trainer(plan=plan).facts())["protected"] == words


@pytest.mark.filterwarnings("ignore")
def test_card_show_shows_a_training_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tallystick.cards import read_card, training_card
    from tallystick.cli.app import run
    from tallystick.errors import InvalidInput

    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-5, rate=0.2, expected_batch=10, steps=20)
    with ts.Ledger(os.fspath(tmp_path / "book.db")) as book:
        account = book.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-4), unit="patient")
        made = trainer(plan=plan, account=account, why="triage", classes=2).fit((X, Y))
        page, data = training_card(made).save(tmp_path / "card.html")
    assert run(["card", "show", str(data)]) == 0
    shown_text = capsys.readouterr().out
    assert "Training card: triage" in shown_text
    assert "guarantee: epsilon 2 at delta 1e-5, for this run" in shown_text
    for file in (page, data):
        with pytest.raises(InvalidInput, match=r"training card\. Its data are in the \.json file"):
            read_card(file)
    text = page.read_text()
    assert "Each example, by itself" in text
    assert "The account protects each patient. It was not checked that each patient has only one example." in text
    assert "The figures are for this run alone. They use the noise of its steps." in text
    assert "per patient" not in text


def test_messages_about_losses_arrays_and_reasons() -> None:
    from tallystick.errors import InvalidInput

    model = nn.Linear(4, 2)
    about = {"plan": PLAN, "clip": 1.0, "classes": 2}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told = r"^The loss returns one number for the batch\. Use CrossEntropyLoss\(reduction='none'\)\.$"
    with pytest.raises(InvalidInput, match=told):
        ts.learn.torch.Trainer(model, nn.CrossEntropyLoss(), optimizer, **about)
    with pytest.raises(InvalidInput, match=r"^why= needs account=$"):
        trainer(plan=PLAN, classes=2, why="digits")
    with pytest.raises(InvalidInput, match="must be tensors, and one is of type ndarray"):
        trainer(plan=PLAN, classes=2).fit((X.numpy(), Y.numpy()))
