"""Tables of a Hive catalogue: Parquet is answered as a table of files, and other formats are refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import Refused
from tallystick.ledger import Ledger
from tallystick.publish.datasets import identified
from unit.tables.spark_sessions import session
from unit.tables.test_spark_identity import account_with, people_counted

if importlib.util.find_spec("pyspark") is None:
    pytest.skip("pyspark is not installed", allow_module_level=True)

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with a metastore of Hive in memory."""
    database = "jdbc:derby:memory:tallystick;create=true"
    hive = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": database,
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
    }
    folder = tmp_path_factory.mktemp("hive")
    with session("local[2]", folder, hive) as found:
        found._jvm.java.lang.System.setProperty("derby.system.home", str(folder))  # Derby writes its log there
        yield found


def test_a_table_of_files_is_registered_and_answered(spark: Any, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE seen (who BIGINT, cost BIGINT) STORED AS PARQUET")
    spark.sql("INSERT INTO seen SELECT id, id FROM range(9)")
    spark.sql("CREATE TABLE parts (who BIGINT) PARTITIONED BY (year INT) STORED AS PARQUET")
    spark.sql("INSERT INTO parts PARTITION (year = 1) SELECT id FROM range(7)")
    try:
        ledger = Ledger(tmp_path / "ledger.db")
        account = account_with(ledger, spark, "seen", "who", 0.01)
        account_with(ledger, spark, "parts", "who", 0.01)
        account.raise_limit(ts.zcdp(rho=9000, delta=1e-6), why="test")
        assert people_counted(account, spark, "seen") == 9
        assert people_counted(account, spark, "parts") == 7
        place = spark.table("seen").inputFiles()[0].rpartition("/")[0]
        spark.sql(f"CREATE EXTERNAL TABLE swapped (cost BIGINT, who BIGINT) STORED AS PARQUET LOCATION '{place}'")
        with pytest.raises(Refused, match="under another name"):
            people_counted(account, spark, "swapped")
    finally:
        for name in ("seen", "parts", "swapped"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_text_and_orc_are_refused_with_what_to_do(spark: Any, tmp_path: Path) -> None:
    account = Ledger(tmp_path / "ledger.db").open("clinic", budget=ts.zcdp(rho=9000), unit="person")
    spark.sql("CREATE TABLE texts (who BIGINT) STORED AS TEXTFILE")
    spark.sql("CREATE TABLE orcs (who BIGINT) STORED AS ORC")
    try:
        with pytest.raises(Refused, match="as a table of Parquet"):
            identified(ts.Private(spark).table("texts", unit="who"))
        for name in ("texts", "orcs"):
            with pytest.raises(Refused, match="Write the table as Parquet"):
                people_counted(account, spark, name)
        assert account.history() == []
    finally:
        spark.sql("DROP TABLE texts")
        spark.sql("DROP TABLE orcs")
