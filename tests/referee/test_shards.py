"""A campaign that was stopped goes on where it was, and what was taken out of a shard is asked again."""

from __future__ import annotations

from pathlib import Path

from referee.asking import Record
from referee.shards import Asked, Row, pack, rows_of, unpack


def test_a_shard_is_read_as_it_was_written(tmp_path: Path) -> None:
    row, shard = Row("laplace", "times"), tmp_path / "seed-1.jsonl"
    for draw, verdict in enumerate(("ok", "WRONG", "undecided")):
        row.take(Asked.of(1, row, draw, "abc", "ts.laplace(scale=1)", [Record("epsilon", "asked", "1", verdict)], 0.5))
    shard.write_text("".join(asked.line() for asked in row.asked), encoding="utf-8")
    pack([shard], tmp_path / "kept.xz")
    shard.unlink()
    unpack(tmp_path / "kept.xz", tmp_path)
    read = next(r for r in rows_of([shard]) if (r.leaf, r.transformation) == ("laplace", "times"))
    assert read.asked == row.asked
    assert read.judged("epsilon") == 2
    assert [asked.draw for asked, _ in read.told("WRONG")] == [1]
    assert read.next_draw(1) == 3
    assert read.next_draw(2) == 0
    assert [asked.failed() for asked in read.asked] == [False, True, False]
    assert read.asked[0].questions() == ("epsilon",)
    del read.asked[1]
    assert read.next_draw(1) == 1
    assert "epsilon" in read.wanted(30)
    assert any(line.startswith("laplace / times / epsilon: 2 judged") for line in read.missing())
