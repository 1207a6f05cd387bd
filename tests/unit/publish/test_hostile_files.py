"""A small helping of the campaign of mutated files: refused by name, or meaning what they say."""

from __future__ import annotations

import pytest

from campaigns.hostile_files import KINDS, campaign


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_file_is_refused_or_means_what_it_says(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path))
    done, wrong = campaign(60, 7, (kind,))
    assert wrong == []
    assert done[f"{kind} refused"] > 20


def test_a_number_no_database_holds_is_refused(tmp_path, monkeypatch):
    """Found by the campaign."""
    from tallystick.errors import InvalidInput
    from tallystick.ledger import Ledger, Receipt

    for charge in (10**30, -1, 1.5, True, "1"):
        receipt = Receipt("0" * 32, charge, ((1, "a", "zcdp", 5, 0),), "a" * 64, "b" * 64, "c" * 64, 3, "d" * 64, 0)
        with pytest.raises(InvalidInput):
            Receipt.from_json(receipt.to_json())
    with Ledger(tmp_path / "budget.db", config=tmp_path) as ledger, pytest.raises(InvalidInput):
        ledger.charge_row(10**30)
