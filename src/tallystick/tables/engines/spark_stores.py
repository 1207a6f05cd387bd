"""File systems of Hadoop on which a location is the one name of its data.

Hadoop's configuration says which class reads a location. A class can show the files of another location
(``viewfs://``), or change what a path means (``fs.file.impl``). So a location identifies data only if Spark reads it
through one of the classes in ``KNOWN``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Place = tuple[str, str, str]
"""Scheme, authority and path of a file or folder."""

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    # A path is the kernel's path. Nothing can be configured between this class and the raw one.
    "org.apache.hadoop.fs.LocalFileSystem": frozenset({"file"}),
    # The same paths, without files of checksums beside the data.
    "org.apache.hadoop.fs.RawLocalFileSystem": frozenset({"file"}),
    # The jars of Hive put this class before LocalFileSystem. It exchanges schemes and keeps paths.
    "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem": frozenset({"file"}),
    # The authority is the name node, and the path is the name node's.
    "org.apache.hadoop.hdfs.DistributedFileSystem": frozenset({"hdfs"}),
    # The authority is a bucket. Its name is unique in Amazon S3, and a key has no second spelling.
    "org.apache.hadoop.fs.s3a.S3AFileSystem": frozenset({"s3", "s3a", "s3n"}),
    # Amazon's class for the same buckets and keys, on its own clusters.
    "com.amazon.ws.emr.hadoop.fs.EmrFileSystem": frozenset({"s3", "s3n"}),
    # The authority is a bucket. Its name is unique in Google Cloud Storage.
    "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem": frozenset({"gs"}),
    # The authority is a container of an account of Azure, without and with encryption on the way.
    "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem": frozenset({"abfs"}),
    "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem": frozenset({"abfss"}),
}
"""Classes and the schemes for which they count. Subclasses and wrappers do not: they may lead elsewhere."""

_ACCESS_POINTS: Final = ("-s3alias", "-ol-s3", ".mrap")
"""Last letters that Amazon keeps for access points, which are second names of buckets."""
_RESERVED: Final = "/.reserved/"
"""Folder of HDFS with second names of files, such as their numbers."""


class FileSystems:
    """The file systems through which Spark reads one relation.

    ``configuration`` is Hadoop's configuration of that relation. ``java`` is the virtual machine.
    """

    def __init__(self, configuration: Any, java: Any) -> None:
        self._configuration = configuration
        self._hadoop = java.org.apache.hadoop.fs
        self._asked: dict[tuple[str, str], bool] = {}

    def qualified(self, uri: Any) -> Any:
        """Return a Java URI with the scheme and the authority that the configuration adds to it."""
        path = self._hadoop.Path(uri)
        system = path.getFileSystem(self._configuration)
        return path.makeQualified(system.getUri(), system.getWorkingDirectory()).toUri()

    def know(self, place: Place) -> bool:
        """True if the location of a place is the one name of its data."""
        scheme, authority, path = place
        store = (scheme, authority)
        if store not in self._asked:
            self._asked[store] = self._is_known(scheme, authority)
        return self._asked[store] and not path.startswith(_RESERVED)

    def _is_known(self, scheme: str, authority: str) -> bool:
        """True if the classes of a store are known.

        Hadoop keeps one object per store, also if the configuration changes later. Another process, or a configuration
        that switches this off, makes a new one of the configured class. So both are asked.
        """
        path = self._hadoop.Path(f"{scheme}://{authority}/")
        system = path.getFileSystem(self._configuration)
        configured = self._hadoop.FileSystem.getFileSystemClass(scheme, self._configuration)
        classes = [system.getClass().getName(), configured.getName()]
        if not all(scheme.lower() in KNOWN.get(name, ()) for name in classes):
            return False
        return not self._is_access_point(authority)

    def _is_access_point(self, bucket: str) -> bool:
        """True if a bucket of Amazon S3 is another name of a bucket."""
        has_point = self._configuration.get(f"fs.s3a.bucket.{bucket}.accesspoint.arn") is not None
        return has_point or bucket.lower().endswith(_ACCESS_POINTS)
