"""Answers are canonical JSON: the same value gives the same bytes, the bytes give the same value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.errors import InvalidInput
from tallystick.ledger.chain import decode_answer as decode
from tallystick.ledger.chain import encode_answer as encode

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_plain_values_round_trip(value):
    assert decode(encode(value)) == value
    assert encode(decode(encode(value))) == encode(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, -0.0, math.nan, math.inf, -math.inf, 5e-324]),
        np.arange(6).reshape(2, 3),
        np.array([], dtype="float32"),
        np.array([2**63 - 1, -(2**63)]),
        np.array([2**64 - 1], dtype="uint64"),
        np.array(["a", "患者"]),
        np.array([True, False]),
        np.array(["2026-11-15"], dtype="datetime64[D]"),
        np.array(3.5),
        np.arange(4, dtype=">i4"),
    ],
)
def test_arrays_keep_dtype_shape_and_every_bit(array):
    found = decode(encode(array))
    assert found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


@pytest.mark.parametrize("scalar", [np.float64(2.5), np.float32(0.1), np.int64(7), np.bool_(True)])
def test_numpy_scalars_come_back_equal(scalar):
    assert decode(encode(scalar)) == scalar


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        {1: 2},
        b"bytes",
        1j,
        np.array([object()]),
        np.array([1j]),
        np.zeros(2, dtype="longdouble"),
        len,
    ],
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(InvalidInput):
        encode(value)


def test_depth_and_size_are_bounded(monkeypatch):
    deep: list = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidInput, match="levels"):
        encode(deep)
    monkeypatch.setattr("tallystick.ledger.chain.LARGEST_ANSWER", 100)
    with pytest.raises(InvalidInput, match="at most 100 bytes"):
        encode("x" * 200)
