"""Parquet files at which Spark could fail are refused by their footers. Only the last test needs Spark."""

from __future__ import annotations

import datetime
import importlib.util
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from tallystick.errors import Refused
from tallystick.tables.engines import spark_parquet
from tallystick.tables.engines.parquet_footer import footer_of
from tallystick.tables.engines.spark_parquet import _remote_footer, refuse_unreadable
from unit.tables.spark_sessions import shared_session
from unit.tables.test_parquet_footer import Keys

MOMENT = datetime.datetime(2020, 1, 1)
TYPES = {
    "flag": (pa.bool_(), True, "boolean"),
    "byte": (pa.int8(), 1, "tinyint"),
    "short": (pa.int16(), 1, "smallint"),
    "number": (pa.int32(), 1, "int"),
    "long": (pa.int64(), 1, "bigint"),
    "unsigned": (pa.uint32(), 1, "bigint"),
    "single": (pa.float32(), 1.5, "float"),
    "double": (pa.float64(), 1.5, "double"),
    "text": (pa.string(), "a", "string"),
    "day": (pa.date32(), MOMENT.date(), "date"),
    "moment": (pa.timestamp("us"), MOMENT, "timestamp"),
    "zoned": (pa.timestamp("us", tz="UTC"), MOMENT, "timestamp"),
    "amount": (pa.decimal128(9, 2), Decimal("1.00"), "decimal(9,2)"),
    "nested": (pa.list_(pa.int64()), [1], "array<bigint>"),
}


def look(path: Path, columns: dict[str, str]) -> None:
    refuse_unreadable([path.as_uri()], columns, None, None)


def test_ordinary_files_are_accepted(tmp_path: Path) -> None:
    """With every type, codec and encoding that a writer chooses by itself, without rows, and without a column."""
    table = pa.table({name: pa.array([value, None], kind) for name, (kind, value, _) in TYPES.items()})
    columns = {name: kind for name, (_, _, kind) in TYPES.items()} | {"not there": "bigint"}
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        for version in ("1.0", "2.0"):
            path = tmp_path / f"{codec} {version}.parquet"
            pq.write_table(table, path, compression=codec, data_page_version=version)
            look(path, columns)
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet", use_deprecated_int96_timestamps=True)
    look(tmp_path / "none.parquet", columns)
    (tmp_path / "empty").write_bytes(b"")
    look(tmp_path / "empty", columns)


@pytest.mark.parametrize("kind", sorted({kind for _, _, kind in TYPES.values()} - {"array<bigint>"}))
def test_another_type_than_that_of_the_table_is_refused(tmp_path: Path, kind: str) -> None:
    for name, (stored, value, own) in TYPES.items():
        if own != kind:
            pq.write_table(pa.table({"a": pa.array([value], stored)}), tmp_path / f"{name}.parquet")
            with pytest.raises(Refused, match="another type"):
                look(tmp_path / f"{name}.parquet", {"A": kind})


def test_codecs_encodings_names_and_units_of_time_are_judged(tmp_path: Path) -> None:
    rows = pa.table({"a": [1.5, 2.5], "b": [1, 2]})
    written: dict[str, tuple[pa.Table, dict[str, Any], str]] = {
        "brotli": (rows, {"compression": "brotli"}, "codec"),
        "split": (rows, {"use_dictionary": False, "use_byte_stream_split": ["a"]}, "BYTE_STREAM_SPLIT"),
        "case": (rows.append_column("A", rows["a"]), {}, "only by case"),
    }
    for name, (table, options, reason) in written.items():
        pq.write_table(table, tmp_path / name, **options)
        with pytest.raises(Refused, match=reason):
            look(tmp_path / name, {"a": "double"})
    look(tmp_path / "split", {"b": "bigint"})  # the other column is not read
    for unit in ("ms", "ns"):
        pq.write_table(pa.table({"a": pa.array([MOMENT], pa.timestamp(unit))}), tmp_path / unit)
        with pytest.raises(Refused, match="microseconds"):
            look(tmp_path / unit, {"a": "timestamp"})


def test_what_spark_wrote_about_the_columns_is_not_believed(tmp_path: Path) -> None:
    """Other writers keep that text, and store other types."""
    text = '{"type":"struct","fields":[{"name":"a","type":"double","nullable":true,"metadata":{}}]}'
    rows = pa.table({"a": pa.array([1.5], pa.float32())})
    pq.write_table(rows.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": text}), tmp_path / "a")
    with pytest.raises(Refused, match="another type"):
        look(tmp_path / "a", {"a": "double"})


def test_one_file_of_each_schema_is_named_and_few_schemas_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some types differ for Spark alone, so it reads a row of one file of each schema before the charge."""
    moments = {"a local": pa.timestamp("us"), "b in UTC": pa.timestamp("us", tz="UTC"), "c": pa.timestamp("us")}
    for name, kind in moments.items():
        pq.write_table(pa.table({"a": pa.array([MOMENT], kind)}), tmp_path / name)
    pq.write_table(
        pa.table({"a": pa.array([MOMENT], pa.timestamp("us")), "half": pa.nulls(1, pa.float16())}), tmp_path / "d"
    )
    (tmp_path / "e").write_bytes(b"")
    files = [path.as_uri() for path in sorted(tmp_path.iterdir())]
    examples = refuse_unreadable(files, {"a": "timestamp_ntz"}, None, None)
    assert {Path(file).name for file in examples} == {"c", "b%20in%20UTC", "d"}
    monkeypatch.setattr(spark_parquet, "_MOST_SCHEMAS", 2)
    with pytest.raises(Refused, match="3 different schemas"):
        refuse_unreadable(files, {"a": "timestamp_ntz"}, None, None)


def test_damaged_and_encrypted_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a Parquet file")
    with pytest.raises(Refused, match="not a Parquet file"):
        look(tmp_path / "text", {"a": "bigint"})
    settings = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=True)
    properties = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), settings)
    rows = pa.table({"who": [1], "v": [1]})
    with pq.ParquetWriter(tmp_path / "secret", rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    with pytest.raises(Refused, match="encrypted"):
        look(tmp_path / "secret", {"who": "bigint"})


@pytest.mark.xdist_group("spark")
def test_the_footer_of_a_remote_file_is_read_through_hadoop(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    pq.write_table(pa.table({"a": range(999)}), tmp_path / "a b.parquet")
    spark = shared_session()
    path = spark._jvm.org.apache.hadoop.fs.Path((tmp_path / "a b.parquet").as_uri().replace("%20", " "))
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    assert _remote_footer(path, configuration) == footer_of(tmp_path / "a b.parquet")
