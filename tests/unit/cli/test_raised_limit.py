"""A raise says what it changes, and an earlier card is out of date, not forged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ADD = "dataset add men.csv --population men --unit nr --max-groups 1 --max-rows-per-group 1 --limit rho=0.3".split()
QUERY = "query men --measures count_units --rho 0.1 --why count --key t1 --card c.html".split()
RAISE = ["account", "raise", "men", "--budget", "zcdp(rho=0.4)", "--why", "one more table"]


@pytest.fixture
def raised(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("men.csv").write_text("nr,year\n" + "".join(f"{i},1980\n" for i in range(50)))
    for words in (ADD, QUERY, ["card", "verify", "c.html"]):
        assert run(*words).code == 0
    return run


def test_a_raise_says_from_what_to_what_and_which_cards_promise_the_old_limit(raised: Any) -> None:
    for dry, done, is_now in ((["--dry-run"], "Would raise", "would then be"), ([], "Raised", "is now")):
        said = raised(*RAISE, *dry).out
        assert f"{done} men from rho 0.3 to rho 0.4\n" in said
        assert f"The limit was epsilon 3.93 at delta 1e-6 and {is_now} epsilon 4.61 at delta 1e-6\n" in said
        assert "Cards made so far show the old limit" in said


def test_a_card_from_before_a_raise_ends_with_another_exit_code_than_a_forged_one(raised: Any) -> None:
    raised(*RAISE)
    found = raised("card", "verify", "c.html")
    assert found.code == 4
    assert "the limit was raised since, from rho 0.3 to rho 0.4" in found.errors
    assert raised(*QUERY).code == 0  # the same key: a new card, and no charge
    assert raised("card", "verify", "c.html").code == 0
