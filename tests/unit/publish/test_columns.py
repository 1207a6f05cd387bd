"""What one person wrote into a CSV file fails no release of a column and swallows nobody else's row."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.errors import InvalidInput
from tallystick.publish.columns import _records, numbers, rows_matching

ROWS = [b"%d,w,5" % i for i in range(100)]


def written(tmp_path: Path, row: bytes) -> Path:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\n".join([b"id,ward,cost", row, *ROWS[1:]]) + b"\n")
    return file


@pytest.mark.parametrize(
    "row", [b'1,"w,5', b'1,"' + b"x" * 140_000 + b'",5', b"\xff,w,5", b"1", b"", b'1,"a\nb",5', b"1,\0,5", b'"1"x,w,5']
)
def test_no_row_changes_what_the_others_say(tmp_path: Path, row: bytes) -> None:
    file = written(tmp_path, row)
    assert len(numbers(file, "cost")) in (99, 100)
    assert rows_matching(file, None, None) in (99, 100)
    assert rows_matching(file, "ward", "w") == 99


def test_a_column_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="id, ward, cost"):
        numbers(written(tmp_path, b"0,w,5"), "price")
    with pytest.raises(InvalidInput, match="can be read"):
        numbers(tmp_path / "none.csv", "cost")


def test_a_pipe_is_not_waited_for_and_a_killed_reader_leaves_no_copy(tmp_path: Path, monkeypatch) -> None:
    """Found from outside: the copy of a killed `release` stayed in the temporary folder for good."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InvalidInput, match="can be read"):
        numbers(tmp_path / "pipe.csv", "x")
    (tmp_path / "v.csv").write_text("x\n1\n")
    killed = os.fork()
    if not killed:
        with _records(tmp_path / "v.csv"):
            os._exit(0)
    os.waitpid(killed, 0)
    assert list(tmp_path.glob("tallystick-*/*/rows.csv"))
    assert numbers(tmp_path / "v.csv", "x") == [1.0]
    assert not list(tmp_path.glob("tallystick-*/*/rows.csv"))
