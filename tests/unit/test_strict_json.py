"""The strict JSON reader: one meaning or a refusal that names the reason and not the text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.errors import InvalidInput
from tallystick.strict_json import read

TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(10**90), 10**90) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(VALUES, st.booleans())
def test_what_json_writes_is_read_back(value: object, plain: bool) -> None:
    text = json.dumps(value, ensure_ascii=plain, allow_nan=False)
    assert read(text) == value == read(text.encode("utf-8"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 1}', "'a' twice"),
        ('[{"b": {"a": 1, "a": 2}}]', "'a' twice"),
        ("NaN", "NaN"),
        ("[-Infinity]", "-Infinity"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ("1" * 101, "100 digits"),
        ("[" * 101 + "]" * 101, "levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "levels"),
        ("[" * 1_000_000, "levels"),
        ('"\\ud800"', "broken character"),
        ('{"\\uDC00": 1}', "broken character"),
        ('"\ud800"', "broken character"),
        (b'"\xff"', "broken character"),
        ("", "no JSON"),
        ("{'a': 1}", "no JSON"),
        ("[1,]", "no JSON"),
        ("1 2", "no JSON"),
        ("\ufeff1", "no JSON"),
        ('"\n"', "no JSON"),
        (None, "NoneType"),
        (17, "int"),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: object, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read(text)


def test_brackets_inside_strings_are_not_nesting() -> None:
    text = json.dumps(["[" * 5000, '\\"{' * 5000, "\\"])
    assert read(text) == json.loads(text)


def test_the_limits_are_the_callers() -> None:
    with pytest.raises(InvalidInput, match=r"plan = .*4 characters.*; give a plan"):
        read("[1,2,3]", name="plan", allowed="a plan", longest=4)
    assert read("[[1]]", deepest=2) == [[1]]
    with pytest.raises(InvalidInput, match="levels"):
        read("[[1]]", deepest=1)


def test_the_message_does_not_repeat_the_text() -> None:
    with pytest.raises(InvalidInput) as caught:
        read('{"patient": "Ann Smith", broken')
    assert "Ann" not in str(caught.value)
