"""The format page is enough: a checker that was written from it alone agrees with the program, and finds changes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tallystick.ledger.offline import verify_export

VECTORS = Path(__file__).parents[2] / "vectors" / "ledger-3"
LEVELS = ("chain", "record", "answers")


@pytest.mark.parametrize("level", LEVELS)
def test_both_checkers_find_what_the_vectors_say(stranger: Any, level: str) -> None:
    expected = json.loads((VECTORS / "expected.json").read_text())
    text = (VECTORS / f"{level}.jsonl").read_bytes()
    assert stranger.check(text) == expected
    report = verify_export(text.decode("ascii").splitlines())
    assert (report.problems, report.entries, report.head, report.sealed) == (
        (), expected["entries"], expected["head"], True,
    )  # fmt: skip


def broken(text: str, draw: random.Random) -> str:
    """The export with one change: a character, a line that is gone or moved, or an end that is cut off."""
    lines = text.splitlines()
    kind, number = draw.choice(("character", "removed", "swapped", "cut")), draw.randrange(1, len(lines))
    if kind == "removed":
        del lines[number]
    elif kind == "swapped":
        lines[number], lines[number - 1] = lines[number - 1], lines[number]
    elif kind == "cut":
        lines = lines[:number]
    else:
        place = draw.randrange(len(lines[number]))
        other = draw.choice([each for each in '0a}"x' if each != lines[number][place]])
        lines[number] = lines[number][:place] + other + lines[number][place + 1 :]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("level", LEVELS)
def test_both_checkers_find_a_change(stranger: Any, level: str) -> None:
    text, draw = (VECTORS / f"{level}.jsonl").read_text(), random.Random(level)
    for _ in range(60):
        changed = broken(text, draw)
        with pytest.raises(stranger.Problem):
            stranger.check(changed.encode())
        assert is_refused(changed), changed


def is_refused(text: str) -> bool:
    try:
        return not verify_export(text.splitlines()).intact
    except ValueError:
        return True
