"""A location names data only on file systems whose classes are known; no Spark is needed here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.tables.engines import spark_plan
from tallystick.tables.engines.spark_plan import place_marks
from tallystick.tables.engines.spark_stores import KNOWN, FileSystems

HDFS = "org.apache.hadoop.hdfs.DistributedFileSystem"
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
VIEW = "org.apache.hadoop.fs.viewfs.ViewFileSystem"


def java_class(name: str) -> Any:
    return SimpleNamespace(getName=lambda: name)


def systems(kept: str, configured: str, **settings: str) -> FileSystems:
    """File systems of a configuration. Hadoop keeps an object of one class, and another class is configured."""
    system = SimpleNamespace(getClass=lambda: java_class(kept))
    path = SimpleNamespace(getFileSystem=lambda configuration: system)
    static = SimpleNamespace(getFileSystemClass=lambda scheme, configuration: java_class(configured))
    hadoop = SimpleNamespace(Path=lambda text: path, FileSystem=static)
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=hadoop))))
    return FileSystems(settings, java)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_known_class_counts_for_its_schemes_alone(name: str) -> None:
    known = systems(name, name)
    for scheme in KNOWN[name]:
        assert known.know((scheme, "store", "/visits"))
        assert known.know((scheme.upper(), "store", "/visits"))
    assert not known.know(("other", "store", "/visits"))


@pytest.mark.parametrize(("kept", "configured"), [(VIEW, HDFS), (HDFS, VIEW), (VIEW, VIEW), (f"{HDFS}$1", HDFS)])
def test_one_unknown_class_is_enough_to_be_unknown(kept: str, configured: str) -> None:
    assert not systems(kept, configured).know(("hdfs", "name-node", "/visits"))


def test_hdfs_names_files_by_their_numbers_too() -> None:
    known = systems(HDFS, HDFS)
    assert known.know(("hdfs", "name-node", "/.reservedly/visits"))
    assert not known.know(("hdfs", "name-node", "/.reserved/.inodes/16386"))


@pytest.mark.parametrize("bucket", ["clinic-a1b2c3-s3alias", "clinic-A1-S3ALIAS", "clinic--ol-s3", "m1.mrap"])
def test_an_access_point_is_a_second_name_of_a_bucket(bucket: str) -> None:
    assert not systems(S3A, S3A).know(("s3a", bucket, "/visits"))


def test_a_bucket_can_be_configured_to_be_an_access_point() -> None:
    point = {"fs.s3a.bucket.clinic.accesspoint.arn": "arn:aws:s3:eu-west-1:1:accesspoint/other"}
    found = systems(S3A, S3A, **point)
    assert not found.know(("s3a", "clinic", "/visits"))
    assert found.know(("s3a", "ward", "/visits"))


def test_a_user_and_a_password_before_the_host_are_not_in_a_mark() -> None:
    assert place_marks("ftp", "ann:secret@Host", "/visits") == {"location ftp://host/visits"}


def test_a_container_of_azure_is_part_of_a_mark() -> None:
    hospital, bank = ("abfss", "hospital@acct.example", "/visits"), ("abfss", "bank@acct.example", "/visits")
    assert place_marks(*hospital) == {"location abfs://hospital@acct.example/visits"}
    assert place_marks(*hospital).isdisjoint(place_marks(*bank))
    assert place_marks("abfs", "ann:secret@acct.example", "/visits") == {"location abfs://acct.example/visits"}
    older = "location abfs://acct.example/visits"
    assert older in spark_plan._marks_above([hospital])
    assert older in spark_plan._marks_above([("abfss", "hospital@acct.example", "/visits/part-0.parquet")])
