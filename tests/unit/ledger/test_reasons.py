"""A reason is words: what stands for one in a remedy that was pasted is refused before anything is spent or signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.ledger import Account


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.zcdp(rho=0.5, delta=1e-6))


@pytest.mark.parametrize("why", ["...", "…", " . ", "--", "TEXT", "text"])
def test_what_stands_for_a_reason_is_none(account: Account, why: str, tmp_path: Path) -> None:
    asked = [
        lambda: account.raise_limit(ts.zcdp(rho=0.9, delta=1e-6), why=why),
        lambda: account.pay(ts.zcdp(rho=0.1), why=why),
        lambda: account.close(why=why),
        lambda: account.clear(why=why),
    ]
    for call in asked:
        with pytest.raises(InvalidInput, match="in words of your own"):
            call()
    assert account.used.a0 == 0
    assert str(account.limit) == "rho 0.5, delta 1e-6"


def test_any_word_is_a_reason(account: Account) -> None:
    for why in ("x", "ежемесячно", "7", "a..."):
        account.pay(ts.zcdp(rho=0.01), why=why)


def test_a_raise_that_is_pasted_asks_for_a_reason_and_says_at_which_delta_epsilon_is_shown(
    run: Any, tmp_path: Path
) -> None:
    place = ["--ledger", str(tmp_path / "b.db")]
    assert run("account", "open", "clinic", "--budget", "zcdp(rho=0.5, delta=1e-6)", *place).code == 0
    words = ["account", "raise", "clinic", "--budget", "zcdp(rho=0.5, delta=2e-6)", *place]
    for more in ([], ["--dry-run"]):
        assert run(*words, "--why", "...", *more).code == 2
        assert "shown at delta 4e-6 from now on (it was 2e-6)" in run(*words, "--why", "agreed", "--dry-run").out
    assert "shown at delta 4e-6 from now on (it was 2e-6)" in run(*words, "--why", "agreed").out
    words[4] = "zcdp(rho=0.6, delta=2e-6)"
    assert "shown at" not in run(*words, "--why", "agreed").out


def test_the_limit_of_an_account_is_split_like_its_budget(account: Account) -> None:
    assert account.limit.split(12) == ts.zcdp(rho=0.5, delta=1e-6).split(12)
    for _ in range(12):
        account.pay(account.limit.split(12), why="month")
