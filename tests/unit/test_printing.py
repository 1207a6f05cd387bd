"""Texts as people see them: nothing in them is obeyed, run or hidden."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as drawn_from
from hypothesis import strategies as st

from tallystick.errors import InvalidInput
from tallystick.ledger.chain import checked
from tallystick.printing import csv_cell, csv_value, escaped, html_text, json_text, unescaped, visible

HOSTILE = st.text(st.sampled_from("\\xuUnrt'=ab0\x1b\n\t\x7f\x85\u202e\u200b\u2028\ud800\U000e0001é"), max_size=12)


@drawn_from(HOSTILE)
def test_an_escaped_value_is_printable_and_comes_back(text: str) -> None:
    assert escaped(text).isprintable()
    assert unescaped(escaped(text)) == text
    assert csv_cell(text).isprintable()
    assert csv_value(csv_cell(text)) == text
    assert not csv_cell(text).startswith(("=", "+", "-", "@"))


@drawn_from(HOSTILE)
def test_a_visible_line_does_not_change_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible(escaped(text)) == escaped(text)


@drawn_from(HOSTILE)
def test_json_with_escapes_has_the_same_value(text: str) -> None:
    for ascii_only in (True, False):
        made = json_text(json.dumps({"key": text}, indent=1, ensure_ascii=ascii_only))
        assert json.loads(made) == {"key": text}
        assert made.replace("\n", "").isprintable()


@pytest.mark.parametrize("hidden", ["\u034f", "\u115f", "\u3164", "\ufe0f", "\U000e0100"])
def test_characters_that_programs_may_leave_out_are_escaped(hidden: str) -> None:
    """Python calls them printable, and a terminal shows nothing: two groups looked the same."""
    shown = visible(f"no{hidden}rth")
    assert shown != "north"
    assert shown.isascii()
    assert csv_value(csv_cell(f"no{hidden}rth")) == f"no{hidden}rth"
    assert html_text(f"no{hidden}rth").isascii()
    assert hidden not in str(InvalidInput("group", f"no{hidden}rth", "another one"))
    with pytest.raises(InvalidInput):
        checked("name", f"no{hidden}rth")
