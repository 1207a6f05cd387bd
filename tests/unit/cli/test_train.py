"""Training from the shell: a plan, a charge for work done elsewhere, and the learning demo."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pace import Clock


def test_a_plan_says_noise_price_and_what_an_attacker_reaches(run, tmp_path: Path) -> None:
    words = "train plan --epsilon 3 --delta 1e-5 --examples 60000 --batch 1024 --epochs 8".split()
    outcome = run(*words, "--picture", str(tmp_path / "plan.svg"))
    assert outcome.code == 0, outcome.errors
    assert outcome.out.startswith("Noise multiplier   0.885966")
    assert "469, each example sampled with probability 0.0170667 (Poisson)" in outcome.out
    assert (tmp_path / "plan.svg").read_text().startswith("<?xml")
    found = run(*words, "--json").document["found"]
    assert found["steps"] == 469
    assert 2.999 < found["epsilon"] <= 3
    assert run("train", "plan", "--epsilon", "3", "--delta", "0", *words[6:]).code == 2


def test_a_release_made_elsewhere_is_charged_once_per_key(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("ledger", "init")
    nobody = run("charge", "add", "gaussian(sigma=10)", "--why", "report")
    assert nobody.code == 2
    assert "none yet; tallystick account open NAME" in " ".join(nobody.errors.split())
    run("account", "open", "clinic", "--budget", "zcdp(rho=0.0119999999)", "--unit", "patient")
    words = ("charge", "add", "gaussian(sigma=10)", "--why", "report", "--key", "r-1", "--json")
    first = run(*words).document["found"]
    again = run(*words).document["found"]
    assert first["fresh"]
    assert not again["fresh"]
    assert first["charge"] == again["charge"]
    assert first["left"] == again["left"]
    paid = run("charge", "add", "gaussian(sigma=10)", "--account", "clinic", "--why", "more").out
    assert paid.startswith("Charged rho 0.005 to clinic as ledger entry ")
    assert "Left: rho 0.00199 of " in paid, "0.0019999999, rounded down"
    assert run("charge", "add", "gaussian(sigma=10)", "--why", "too much").code == 3
    assert run("ledger", "verify").code == 0


def test_the_learning_demo_trains_to_a_card_in_seconds(run, tmp_path: Path, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    clock = Clock()
    outcome = run("demo", "learn")
    assert outcome.code == 0, outcome.errors
    assert clock.seconds < 30
    assert "training-card.html" in outcome.out
    card = json.loads((tmp_path / "tallystick-demo" / "training-card.json").read_text())
    assert 0.999 < card["promise"]["epsilon"] <= 1
    rows = dict(card["rows"])
    assert rows["steps"] == "100 of 100 taken here"
    assert "secure random numbers" in rows["noise"]
    assert rows["paid by"].startswith("museum, before the first step")
    assert card["receipts"]
    page = (tmp_path / "tallystick-demo" / "training-card.html").read_text()
    assert "What is not protected" in page
    assert "<script" not in page
    assert "src=" not in page
    assert run("demo", "learn", "--json").document["found"]["accuracy"] >= 0.8
    assert run("ledger", "verify", "--ledger", "tallystick-demo/learn-ledger.db").code == 0
    assert run("demo", "fly").code == 2


def test_without_torch_the_demo_says_what_is_missing(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    outcome = run("demo", "learn")
    assert outcome.code == 9
    assert "pip install '.[torch,learn]'" in outcome.errors
    assert "missing: torch" in outcome.errors
    assert not (tmp_path / "tallystick-demo").exists()
