"""Columns of a Parquet file that DuckDB cannot read are not read, whatever their values are."""

from __future__ import annotations

import base64
import decimal
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, TallystickError
from tallystick.ledger import Account
from tallystick.tables.engines.parquet_footer import unreadable_columns

PEOPLE = 40
VALUES = {
    "decimal": (pa.decimal128(30, 2), decimal.Decimal("1.00")),
    "small decimal": (pa.decimal128(9, 2), decimal.Decimal("1.00")),
    "large decimal": (pa.decimal256(50, 2), decimal.Decimal("1.00")),
    "half float": (pa.float16(), np.float16(1)),
}


def written(path: Path, values: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"who": range(len(values)), "v": values}), path, **options)
    return path


def split(path: Path, values: pa.Array) -> Path:
    return written(path, values, use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT", "who": "PLAIN"})


def outcome(path: Path, account: Account) -> str:
    """Whether a sum of a column is refused before the charge."""
    before = account.used
    table = ts.Private(path, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    try:
        table.agg(s=ts.sum("v", 0, 10)).plan(rho=0.01).release(why="a sum")
    except InvalidInput:
        assert account.used == before
        return "refused"
    return "answered"


@pytest.mark.parametrize("kind", VALUES)
def test_one_value_does_not_decide_whether_a_release_succeeds(tmp_path: Path, account: Account, kind: str) -> None:
    """A page of missing values passed, and one person's value failed the release after its charge."""
    type_, value = VALUES[kind]
    missing = [None] * (PEOPLE - 1)
    outcomes = [
        outcome(split(tmp_path / f"{name}.parquet", pa.array([*missing, last], type_)), account)
        for name, last in (("without", None), ("with", value))
    ]
    assert outcomes == ["refused", "refused"]


def test_other_columns_of_such_a_file_are_read(tmp_path: Path, account: Account) -> None:
    values = pa.array([decimal.Decimal("1.00")] * PEOPLE, pa.decimal128(30, 2))
    file = split(tmp_path / "x.parquet", values)
    table = ts.Private(file, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    assert dict(table.schema.columns) == {"who": "integer", "v": "unsupported"}
    table.agg(n=ts.count()).plan(rho=0.1).release(why="a count")


def test_the_same_decimals_in_another_encoding_are_read(tmp_path: Path, account: Account) -> None:
    values = pa.array([decimal.Decimal("1.00")] * PEOPLE, pa.decimal128(30, 2))
    assert outcome(written(tmp_path / "plain.parquet", values, use_dictionary=False), account) == "answered"
    floats = pa.array([1.0] * PEOPLE)
    assert outcome(split(tmp_path / "floats.parquet", floats), account) == "answered"


def test_a_registered_file_that_is_replaced_by_such_a_file_is_refused(tmp_path: Path, account: Account) -> None:
    values = pa.array([decimal.Decimal("1.00")] * PEOPLE, pa.decimal128(30, 2))
    file = written(tmp_path / "x.parquet", values)
    table = ts.Private(file, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    plan = table.agg(s=ts.sum("v", 0, 10)).plan(rho=0.1)
    split(file, values)
    with pytest.raises(InvalidInput, match="BYTE_STREAM_SPLIT"):
        plan.release(why="a sum")
    assert account.used.a0 == 0


def test_identifiers_in_such_an_encoding_are_refused(tmp_path: Path, account: Account) -> None:
    stored = pa.array([uuid.UUID(int=i).bytes for i in range(PEOPLE)], pa.binary(16))
    file = split(tmp_path / "x.parquet", pa.ExtensionArray.from_storage(pa.uuid(), stored))
    table = ts.Private(file, account=account).table(unit="who").per_unit(max_groups=1, max_rows_per_group=1)
    with pytest.raises(TallystickError, match="BYTE_STREAM_SPLIT"):
        table.group_by("v", keys=ts.private_keys(delta=1e-7))


class Keys(pe.KmsClient):  # type: ignore[misc]
    """Keys that wrap themselves."""

    def __init__(self, _: object) -> None:
        pe.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("rows", [0, PEOPLE])
def test_an_encrypted_column_is_refused_before_the_charge(tmp_path: Path, account: Account, rows: int) -> None:
    table = pa.table({"who": range(rows), "v": [1.0] * rows})
    table = table.cast(pa.schema([("who", pa.int64()), ("v", pa.float64())]))
    settings = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=True)
    factory = pe.CryptoFactory(Keys)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), settings)
    file = tmp_path / "x.parquet"
    with pq.ParquetWriter(file, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    assert outcome(file, account) == "refused"


def test_far_moments_and_odd_statistics_do_not_fail_the_footer(tmp_path: Path) -> None:
    """DuckDB's parquet_metadata fails at the statistics of such a column."""
    table = pa.table(
        {
            "ms": pa.array([2**62, -(2**62)], pa.timestamp("ms")),
            "bytes": [b"\xff" * 40, b""],
            "nested": [{"a": [1], "b": "x"}, {"a": [], "b": None}],
            "v": pa.array([decimal.Decimal("1.00")] * 2, pa.decimal128(30, 2)),
            "last": [1, 2],
        }
    )
    file = tmp_path / "x.parquet"
    names = dict.fromkeys(("ms", "last", "bytes", "nested.a.list.element", "nested.b"), "PLAIN")
    pq.write_table(table, file, use_dictionary=False, column_encoding=names | {"v": "BYTE_STREAM_SPLIT"})
    assert unreadable_columns(file) == [False, False, False, True, False]


@pytest.mark.parametrize("codec", ["snappy", "gzip", "brotli", "zstd", "lz4", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_ordinary_files_are_read(tmp_path: Path, codec: str, version: str) -> None:
    file = written(tmp_path / "x.parquet", pa.array(["a"] * 9), compression=codec, data_page_version=version)
    assert unreadable_columns(file) == [False, False]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_damaged_footer_is_refused(tmp_path: Path, cut: int) -> None:
    file = written(tmp_path / "x.parquet", pa.array(["a"] * 9))
    whole = file.read_bytes()
    file.write_bytes(whole[: -8 - cut] + whole[-8:])
    with pytest.raises(InvalidInput):
        ts.Private(file).table(unit="who")


@pytest.mark.parametrize(
    "footer",
    {
        "a list of a million million truth values": b"\x59\xf1" + b"\xff" * 5 + b"\x7f",
        "a number without an end": b"\x15" + b"\x80" * 100_000,
        "a map of a million million pairs": b"\x5b" + b"\xff" * 5 + b"\x7f\x11",
        "a list for the meaning of a column": b"\x29\x2c\x55\x02\x00\x69\x05\x00\x00",
    }.values(),
)
def test_a_footer_that_names_any_number_is_damaged(tmp_path: Path, footer: bytes) -> None:
    """It is refused at once: it neither takes all memory nor a time that grows with the number."""
    file = tmp_path / "rows.parquet"
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="damaged"):
        unreadable_columns(file)
