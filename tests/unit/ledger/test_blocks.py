"""Blocks of one partition are apart: many blocks are judged as each pair of them would be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from tallystick.errors import Refused
from tallystick.ledger.partition import Blocks, Partition

texts = st.lists(st.sampled_from(["a", "b", "c", "1"]), max_size=2, unique=True)
numbers = st.lists(st.integers(1, 4), max_size=2, unique=True)


def block(column: str, values: list[str] | list[int]) -> Partition:
    return Partition("ward", "unit id", True, column if values else "", tuple(values))


blocks = st.builds(block, st.sampled_from(["ward", "room"]), st.one_of(texts, numbers))


def goes_with(left: Partition, right: Partition) -> bool:
    """Two blocks go together: one column, one type, no common value. This is the definition."""
    kinds = {type(value) for value in (*left.values, *right.values)}
    return left.column == right.column and len(kinds) <= 1 and not set(left.values) & set(right.values)


@given(st.lists(blocks, max_size=8))
def test_a_block_is_refused_exactly_if_it_does_not_go_with_one_of_the_others(tried: list[Partition]) -> None:
    known, accepted = Blocks(), []
    for each in tried:
        expected = all(goes_with(each, other) for other in accepted)
        try:
            known.require_apart(each)
        except Refused:
            assert not expected
        else:
            assert expected
            known.add(each)
            accepted.append(each)


def test_a_block_that_another_handle_opened_is_seen(tmp_path: Path) -> None:
    def cut(value: str) -> Partition:
        return Partition("ward", "unit id", True, "ward", (value,))

    first = ts.Ledger(tmp_path / "ledger.db", config=tmp_path / "config")
    second = ts.Ledger(tmp_path / "ledger.db", config=tmp_path / "config")
    with first, second:
        budget = ts.zcdp(rho=1.0)
        people = first.open("people", budget=budget)
        first.open("north", budget=budget, parent=people, partition=cut("north"))
        second.open("south", budget=budget, parent="people", partition=cut("south"))
        with pytest.raises(Refused, match="share no value"):
            first.open("other", budget=budget, parent=people, partition=cut("south"))
        first.open("east", budget=budget, parent=people, partition=cut("east"))
        assert first.verify().intact


def test_a_block_whose_transaction_failed_is_not_remembered(tmp_path: Path) -> None:
    stop = {"at": ""}

    def probe(point: str) -> None:
        if point == stop["at"]:
            raise OSError("stopped")

    with ts.Ledger(tmp_path / "ledger.db", config=tmp_path / "config", probe=probe) as ledger:
        budget = ts.zcdp(rho=1.0)
        people = ledger.open("people", budget=budget)
        cut = Partition("ward", "unit id", True, "ward", ("north",))
        stop["at"] = "open: before COMMIT"
        with pytest.raises(Exception, match="stopped"):
            ledger.open("north", budget=budget, parent=people, partition=cut)
        stop["at"] = ""
        ledger.open("north again", budget=budget, parent=people, partition=cut)
