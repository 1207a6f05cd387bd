"""Texts as people see them: nothing in them is obeyed, run or hidden."""

from __future__ import annotations

import json

from hypothesis import given as drawn_from
from hypothesis import strategies as st

from tallystick.printing import csv_cell, csv_value, escaped, json_text, unescaped, visible

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
