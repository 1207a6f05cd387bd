"""Private snapshots of local files that Spark reads.

Spark opens a local path when it reads the rows, and the path may lead to another file by then. So each file is opened
once, before the charge. Its identity comes from the opened file, and Spark reads a snapshot that was made from it.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from tallystick.errors import Refused
from tallystick.tables.files import FileId, OpenFile
from tallystick.tables.identity import inode_marks
from tallystick.tables.scratch import Scratch


class LocalFiles:
    """The local files of one release, each opened once."""

    def __init__(self) -> None:
        self._scratch: Scratch | None = None
        self._versions: dict[Path, tuple[int, int]] = {}
        self._indexes: list[tuple[Any, int]] = []
        self.marks: dict[str, frozenset[str]] = {}
        """Marks of each opened file, by the path that Spark listed."""
        self.reals: dict[str, str] = {}
        """The path to which the name of each opened file led, by the path that Spark listed."""
        self.missing: set[str] = set()
        """Paths that lead to no file here. Spark may read them through another file system, or on another machine."""

    def index_of(self, relation: Any, session: Any) -> Any:
        """Return an index of snapshots of the files of a relation; its own index if its files are not local."""
        index = relation.location()
        files = [urlsplit(file) for file in index.inputFiles()]
        local = [unquote(uri.path) for uri in files if (uri.scheme or "file") == "file"]
        if len(local) < len(files):
            self.missing |= set(local)
            return index
        local = [path for path in local if not is_summary(path)]
        columns = len(relation.partitionSchema().fields())
        folder = self._folder()
        self.missing |= {path for path in local if not os.path.isfile(path)}
        if not self.missing.isdisjoint(local):
            return index
        seen: set[FileId] = set()
        for number, path in enumerate(local):
            found = self._keep(path, folder, number, columns)
            if found in seen:
                raise Refused(
                    "this table lists one file twice, by links or mounts, so its people would count twice. Remove the "
                    "second name of the file"
                )
            seen.add(found)
        # a path without escapes: the URI of a folder with other letters than ASCII is another path to Hadoop
        root = session._jvm.org.apache.hadoop.fs.Path("file", None, str(folder))
        kept = index_at(root, relation.partitionSchema(), session)
        self._indexes.append((kept, len(local)))
        return kept

    def _folder(self) -> Path:
        """Return a new private folder for the files of one relation."""
        if self._scratch is None:
            self._scratch = Scratch()
        return Scratch(self._scratch.path).path

    def _keep(self, path: str, folder: Path, number: int, columns: int) -> FileId:
        """Open a file, note its marks, and make its snapshot below the folders that name its partition."""
        inside = folder.joinpath(*_partition_folders(path, columns))
        inside.mkdir(parents=True, exist_ok=True)
        with OpenFile(path) as file:
            self.reals[path] = file.real
            self.marks[path] = inode_marks(file.id, file.written) | {f"file {file.real}"}
            kept = file.snapshot(inside, f"part-{number:06}")
        self._versions[kept] = _version(kept)
        return file.id

    def check_found(self) -> None:
        """Refuse snapshots that Spark does not find: where it finds no folder, it reads no rows."""
        if any(int(index.allFiles().size()) != number for index, number in self._indexes):
            raise Refused(
                "Spark does not find the private copies of this table's files. Set TMPDIR to a folder whose path "
                "has only ASCII characters"
            )

    def unchanged(self) -> bool:
        """False if a snapshot is a hard link and its file was written to."""
        return all(_version(kept) == version for kept, version in self._versions.items())

    def close(self) -> None:
        """Remove the snapshots."""
        if self._scratch is not None:
            self._scratch.close()


def is_summary(path: str) -> bool:
    """True for a file that Spark lists and does not read as data, such as ``_common_metadata``."""
    name = PurePosixPath(path).name
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _partition_folders(path: str, columns: int) -> list[str]:
    """Return the names of the folders ``column=value`` above a file.

    >>> _partition_folders("/data/visits/year=2024/month=1/part-0.parquet", 2)
    ['year=2024', 'month=1']
    """
    *folders, _ = PurePosixPath(path).parts
    return folders[len(folders) - columns :]


def _version(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def index_at(root: Any, columns: Any, session: Any) -> Any:
    """Return an index of one file, or of the files in a folder, by its path in Hadoop.

    ``columns`` are those of partitions: the names of folders below ``root`` have their values. The index has no options
    of a reader: these could leave out files, or name another folder.
    """
    java = session._jvm
    rooms = java.org.apache.spark.sql.execution.datasources
    nothing = java.scala.Option.apply(None)
    roots = java.PythonUtils.toSeq([root])
    no_cache = getattr(getattr(rooms, "NoopCache$"), "MODULE$")
    no_options = java.PythonUtils.toScalaMap(java.java.util.HashMap())
    declared = java.scala.Option.apply(columns)
    return rooms.InMemoryFileIndex(session._jsparkSession, roots, no_options, declared, no_cache, nothing, nothing)
