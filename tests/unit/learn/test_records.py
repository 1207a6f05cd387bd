"""Containers are checked and public; what is inside follows a rule per row, is not counted and never raises."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tallystick.errors import InvalidInput
from tallystick.learn.records import along, column, first_of_each, given, labelled, matrix, numbers, scaled

ODD = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 2.0]


@pytest.mark.parametrize(
    "X",
    [
        [1.0, 2.0],
        np.zeros((2, 0)),
        np.zeros((2, 2, 2)),
        np.array([["a", "b"]]),
        [[1, 2], [3]],
        [[1, None], [3]],
        [None, None],
        [1.0, None],
        [],
        np.array([[1, "x"]], dtype=object),
        np.array([[1j]]),
        pd.DataFrame({"a": ["x"]}),
        pl.DataFrame({"a": ["x"]}),
        None,
        3,
    ],
)
def test_a_container_that_is_no_table_of_numbers_is_refused(X):
    with pytest.raises(InvalidInput, match=r"^X = "):
        matrix("X", X)


def test_a_refusal_does_not_repeat_the_data():
    with pytest.raises(InvalidInput) as told:
        matrix("X", np.array([["secret", "b"]]))
    assert "secret" not in str(told.value)


def test_frames_give_the_same_rows_as_arrays():
    want = np.array([[1.0, 2.0], [np.nan, 4.0]])
    pandas = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [2.0, 4.0]})
    polars = pl.DataFrame({"a": [1, None], "b": [2.0, 4.0]})
    for frame in (pandas, polars):
        np.testing.assert_array_equal(matrix("X", frame), want)
    assert matrix("X", pd.DataFrame({"a": [True, False]})).tolist() == [[1.0], [0.0]]
    assert matrix("X", pl.DataFrame({"a": [True, False]})).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("odd", [None, "x", b"x", [1], pd.NA, 10**400, 1j, np.nan, {}])
def test_an_odd_entry_of_a_list_is_missing_in_its_row_and_nowhere_else(odd):
    """A list has no dtype of its own: a refusal, or another reading of the others, would tell of one entry."""
    rows = [[2**53 + 1, 0.5], [odd, 1.0], (True, 3)]
    found = matrix("X", rows)
    assert np.isnan(found[1, 0])
    np.testing.assert_array_equal(found[[0, 2]], matrix("X", [rows[0], rows[2]]))
    whole = matrix("X", [rows[0], None, rows[2]])
    np.testing.assert_array_equal(whole[[0, 2]], found[[0, 2]])
    assert np.isnan(whole[1]).all()
    assert len(given(rows, [0, 1, 0]).usable(1).rows) == 2


@pytest.mark.parametrize(("y", "units"), [([1], None), ([1, 2, 3], None), (np.ones((2, 2)), None), ([1, 2], ["a"])])
def test_lengths_must_agree(y, units):
    with pytest.raises(InvalidInput):
        given([[1.0], [2.0]], y, units)


def test_rows_without_numbers_are_left_out_one_by_one():
    rows = np.array([[entry, 1.0] for entry in ODD])
    kept = given(rows, np.arange(len(ODD))).usable(1)
    assert kept.targets.tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("norm", [1e-3, 1.0, 7.5, 1e6])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_no_scaled_row_is_longer_than_its_norm_in_exact_arithmetic(norm, constant):
    from fractions import Fraction

    random = np.random.default_rng(3)
    rows = np.concatenate(
        [random.normal(size=(50, 4)) * 10.0 ** random.integers(-300, 300, (50, 1)), [[v] * 4 for v in ODD[3:]]]
    )
    for row in scaled(rows, norm, constant=constant):
        assert np.isfinite(row).all()
        assert sum(Fraction(float(v)) ** 2 for v in row) <= Fraction(norm) ** 2


def test_a_short_row_stays_as_it_is_and_a_long_one_keeps_its_direction():
    rows = np.array([[0.3, 0.4], [3.0, 4.0]])
    np.testing.assert_allclose(scaled(rows, 1.0), [[0.3, 0.4], [0.6, 0.8]], rtol=1e-9)


def test_scaling_one_row_does_not_depend_on_the_others():
    random = np.random.default_rng(0)
    rows = random.normal(size=(20, 3)) * 3
    alone = np.concatenate([scaled(row[None], 1.0, constant=1.0) for row in rows])
    np.testing.assert_array_equal(scaled(rows, 1.0, constant=1.0), alone)


def test_what_a_row_predicts_does_not_depend_on_the_others():
    """Found from outside: marks of two equal rows changed when one of them went, at the price of one."""
    random = np.random.default_rng(0)
    for shape in ((9,), (9, 3)):
        for _ in range(50):
            rows, weights = random.normal(size=(40, 9)), random.normal(size=shape)
            each = np.concatenate([along(row[None], weights) for row in rows])
            np.testing.assert_array_equal(along(rows, weights), each)
            np.testing.assert_allclose(each, rows @ weights, rtol=1e-9, atol=1e-12)
    assert along(np.full((1, 2), 1e308), np.array([1e9, -1e9])).shape == (1,)


def test_labels_that_were_not_declared_have_no_place():
    odd = np.array(["a", "b", None, 3, float("nan"), [1], {"x": 1}], dtype=object)
    assert labelled(odd, ["b", "a"]).tolist() == [1, 0, -1, -1, -1, -1, -1]
    assert labelled(np.array([0.0, 1.0, 2.0, np.nan]), [0, 1]).tolist() == [0, 1, -1, -1]
    assert labelled(np.array([0, 1]), np.array([1, 0])).tolist() == [1, 0]


@pytest.mark.parametrize("one", [2, 0.5, "x", b"x", None, [1, 2], 10**400, pd.NA, np.float32(7), True])
def test_no_entry_changes_how_another_target_is_read(one):
    """Found from outside: NumPy types a list by all of its entries, so one text made texts of everybody's labels."""
    big = [2**53, 2**53 + 1]
    kinds = [[*big, one], (*big, one), pd.Series([*big, one], dtype=object)]
    if one is None:
        kinds += [pl.Series([*big, one]), pd.Series([*big, one], dtype="Int64")]
    for y in kinds:
        targets = given([[0.0]] * 3, y).targets
        assert labelled(targets, big)[:2].tolist() == [0, 1]
        assert numbers(targets, 0.0, 1.0)[:2].tolist() == [1.0, 1.0]
    assert given([[0.0]] * 2, [[1], [2]]).targets.tolist() == [1, 2]


def test_a_missing_entry_is_data_in_a_frame_of_any_numeric_type():
    assert np.isnan(matrix("X", pl.DataFrame({"a": [None, None], "b": [1, 2]}))[:, 0]).all()
    for kind in (pl.Boolean, pl.Int64, pl.UInt8, pl.Float32):
        frame = pl.DataFrame({"a": pl.Series([1, None], dtype=pl.Int8).cast(kind), "b": [True, False]})
        assert np.isnan(matrix("X", frame)).tolist() == [[False, False], [True, False]]


def test_targets_are_clamped_or_no_numbers():
    assert numbers(np.array([-5.0, 0.5, np.inf]), -1.0, 1.0).tolist() == [-1.0, 0.5, 1.0]
    found = numbers(np.array([None, "7", 0.25, True], dtype=object), -1.0, 1.0)
    assert np.isnan(found[:2]).all()
    assert found[2:].tolist() == [0.25, 1.0]


class Rude:
    """An identifier that cannot be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        raise RuntimeError("no")


def test_units_keep_their_first_rows_and_odd_identifiers_raise_nothing():
    units = ["a", "b", "a", None, float("nan"), [Rude()], Rude(), Rude(), "a"]
    assert first_of_each(units, 2).tolist()[:6] == [True, True, True, False, False, False]
    assert not first_of_each(units, 2)[8]


def containers(names):
    torch = pytest.importorskip("torch")
    import pyarrow

    yield from (names, tuple(names), iter(names), np.array(names), np.array(names, dtype=object), [*np.array(names)])
    yield from (pd.Series(names, index=range(9, 9 + len(names))), pd.Index(names), pd.array(names), pl.Series(names))
    yield from (pyarrow.array(names), pyarrow.chunked_array([names]), memoryview(np.array(names)))
    yield from (torch.tensor(names), torch.tensor(names, dtype=torch.float32, requires_grad=True))
    yield from (list(torch.tensor(names)), [np.array(name) for name in names])


def test_units_are_read_out_of_every_container():
    """Found from outside: the entries of a tensor are hashed by their address, and every row was its own person."""
    names = [7, 7, 8, 7, 8, 7]
    for units in containers(names):
        kept = given(np.arange(6.0)[:, None], np.zeros(6), units).usable(2).rows[:, 0]
        assert kept.tolist() == [0.0, 1.0, 2.0, 4.0], type(units)


def test_what_cannot_name_a_unit_names_nobody():
    from datetime import date, datetime
    from decimal import Decimal
    from uuid import UUID

    names = ["a", b"a", 1, 2.5, date(2026, 1, 1), datetime(2026, 1, 1), Decimal("1.5"), UUID(int=1), ("a", 1)]
    assert first_of_each([*names, *names], 1).tolist() == [True] * len(names) + [False] * len(names)
    assert first_of_each([1, 1.0, True, np.int8(1), Decimal(1)], 1).tolist() == [True] + [False] * 4
    assert first_of_each(list(zip(np.array([1, 1, 2]), np.array(["a", "a", "b"]), strict=True)), 1).tolist() == [
        True, False, True,
    ]  # fmt: skip
    assert first_of_each([[1], [1], [2]], 1).tolist() == [True, False, True]  # a frame of one column, as lists
    odd = [object(), Rude(), [{}], {}, np.array([1]), pd.NA, pd.NaT, Decimal("nan"), Decimal("sNaN"), ("a", None), 1j]
    assert not first_of_each([*odd, np.datetime64("NaT", "ns"), np.float32("nan"), lambda: 1], 1).any()


def test_missing_entries_of_arrow_and_masked_arrays_are_missing_in_their_row_only():
    """Found from outside: a null made an Arrow column another type, and was refused; a mask was ignored."""
    import pyarrow

    for y in (pyarrow.array([2**53 + 1, None, 1]), pyarrow.chunked_array([[2**53 + 1], [None, 1]])):
        assert given(np.zeros((3, 1)), y).targets.tolist() == [2**53 + 1, None, 1]
    table = pyarrow.table({"a": [True, None, False], "b": [1, 2, None]})
    np.testing.assert_array_equal(matrix("X", table), [[1.0, 1.0], [np.nan, 2.0], [0.0, np.nan]])
    with pytest.raises(InvalidInput, match=r"^X = 'columns of type string'"):
        matrix("X", pyarrow.table({"a": ["x"]}))
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(matrix("X", masked), [[1.0, np.nan], [3.0, 4.0]])
    assert given(np.zeros((2, 1)), np.ma.array([5, 6], mask=[True, False])).targets.tolist() == [None, 6]
    for rows in ([None, np.ones(2)], [np.array([None, 1.0]), np.ones(2)]):
        assert np.isnan(matrix("X", rows)[0, 0])


def test_a_target_beyond_all_doubles_is_clamped_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numbers(np.array([1.0, np.longdouble("1e4000")]), -1.0, 2.0).tolist() == [1.0, 2.0]


def test_units_of_another_shape_are_refused_and_both_numbers_named():
    torch = pytest.importorskip("torch")
    ids = np.arange(3)
    odd = [ids[:, None], ids[None], torch.arange(3)[:, None], np.array(3), torch.tensor(3), pd.DataFrame({"a": ids})]
    for units in [*odd, "abc", b"abc", bytearray(3), {1: 1, 2: 2, 3: 3}, {1, 2, 3}, 3, None.__class__]:
        with pytest.raises(InvalidInput, match=r"^units = "):
            given(np.zeros((3, 1)), ids, units)
    with pytest.raises(InvalidInput, match=r"'2 entries'.*\(3\)"):
        given(np.zeros((3, 1)), ids, torch.arange(2))


def test_removing_one_unit_changes_no_row_of_another():
    random = np.random.default_rng(1)
    units = random.integers(0, 6, 60)
    rows = np.column_stack([units, np.arange(60)]).astype(float)
    whole = given(rows, units, units).usable(3).rows
    for gone in range(6):
        rest = units != gone
        without = given(rows[rest], units[rest], units[rest]).usable(3).rows
        np.testing.assert_array_equal(without, whole[whole[:, 0] != gone])


def test_a_list_of_lists_is_opened_entry_by_entry():
    """Opened only where all are lists of one, a single missing target would hide the label of everybody."""
    targets = column("y", [[0], [1], None, [0, 1], (1,)], 5)
    assert labelled(targets, [0, 1]).tolist() == [0, 1, -1, -1, 1]
    assert np.isnan(numbers(targets, 0.0, 1.0)).tolist() == [False, False, True, True, False]
