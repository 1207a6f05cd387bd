"""The four walks of docs/architecture.md stay short: a quarter fewer files than once, and fewer edges between them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"(.+?) +(\d+) files \(before (\d+)\), +(\d+) edges \(before (\d+)\)")


def test_each_walk_touches_a_quarter_fewer_files_and_crosses_fewer_edges(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "docs" / "walks.py")]
    environment = {**os.environ, "TALLYSTICK_CONFIG_DIR": str(tmp_path)}
    told = subprocess.run(script, capture_output=True, text=True, check=True, env=environment).stdout
    found = {name: [int(number) for number in numbers] for name, *numbers in LINE.findall(told)}
    assert len(found) == 4
    long = {name: n for name, n in found.items() if n[0] > 0.75 * n[1] or n[2] >= n[3]}
    assert not long, f"which file only passes a call on, or is only read with another? make walks shows them: {long}"
