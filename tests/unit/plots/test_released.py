"""A released table as a picture: from Python, from its file, and whatever its groups are called."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.cli.app import run
from tallystick.errors import InvalidInput
from tallystick.plots.released import read_table

TABLE = {"ward": ["a$b$", "c"], "n": [10, None], "n_lower": [8, None], "n_upper": [12, None]} | {
    "age": [1.5, 2], "age_lower": [1, 1], "age_upper": [2, 3]
}  # fmt: skip


def test_bars_have_the_values_and_lines_the_intervals():
    axes = ts.plots.released(TABLE).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [10]
    (line,) = axes.containers[1].lines[2]
    assert line.get_segments()[0][:, 0].tolist() == [8, 12]
    assert ts.plots.released(TABLE, "age").axes[0].get_xlabel().startswith("age, with its 95 %")


def test_a_column_without_interval_is_refused_by_name():
    with pytest.raises(InvalidInput, match=r"age \(did you mean this\?\)"):
        ts.plots.released(TABLE, "agee")
    with pytest.raises(InvalidInput, match="no column with _lower"):
        ts.plots.released({"ward": ["a"]})


def test_the_shell_draws_a_published_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("ward,n,n_lower,n_upper\na$b$,10,8,12\nc,,,\n")
    assert read_table("t.csv").data["n"] == [10, None]
    assert run(["plot", "t.csv", "--out", "t.svg"]) == 0
    assert "<svg" in Path("t.svg").read_text()
    assert run(["plot", "nothing.csv", "--out", "t.svg"]) == 2
    assert run(["plot", "t.csv", "--field", "m", "--out", "t.svg"]) == 2
    assert "n" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_registered_file_is_not_drawn(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would be read without a charge, also through a link."""
    monkeypatch.chdir(tmp_path)
    columns = {"who": ["CANARY"], "n": [10], "n_lower": [8], "n_upper": [12]}
    file = Path(f"private.{ending}")
    if ending == "csv":
        file.write_text("who,n,n_lower,n_upper\nCANARY,10,8,12\n")
    else:
        pq.write_table(pa.table(columns), file)
    assert run(["plot", str(file), "--out", "before.svg"]) == 0
    added = ["--population", "clinic", "--unit", "who", "--max-groups", "1", "--max-rows-per-group", "1"]
    assert run(["dataset", "add", str(file), *added, "--limit", "rho=1"]) == 0
    Path(f"link.{ending}").symlink_to(file)
    for name in (file, f"link.{ending}"):
        assert run(["plot", str(name), "--out", "after.svg"]) == 4
    assert not Path("after.svg").exists()


def test_a_file_with_intervals_for_all_groups_is_drawn_and_a_column_goes_by_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("g,n_limited,n_limited_together_lower,n_limited_together_upper\na,10,5,15\n")
    table = read_table("t.csv")
    assert table.data == {"g": ["a"], "n_limited": [10], "n_limited_lower": [5], "n_limited_upper": [15]}
    for field in ("n", "n_limited"):
        assert ts.plots.released(table, field).axes[0].get_xlabel().startswith("n_limited")
