"""Twenty thousand spoiled files: each is refused, or means what it says.   (make campaign-ledger)

    python tests/campaigns/hostile_files.py [--each 3000] [--seed 1]

Writes benchmarks/results/hostile_files.md; exit 1 when a file was believed that lies, or another error came out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.files import kinds, spoiled
from ramdisk import quick_folder

PAGE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "hostile_files.md"
HEAD = """# Files from outside: refused, or they mean what they say

Written by `make campaign-ledger` (`tests/campaigns/hostile_files.py`, seed {seed}, {seconds:.0f} s). Every good file is
spoiled in one to three ways: values replaced by hostile ones, scaled, swapped or left out, keys added or doubled, text
cut, nested or made unreadable. A forged export gets a new chain of hashes and the forger's own valid signature. A file
is judged wrong when another error than tallystick's comes out, or when what was read, written again, is not the file.

| file | spoiled | refused | believed, and meant it | wrong |
|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    start, rows, found = time.perf_counter(), [], []
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder, kinds(Path(folder)) as every:
        for kind in every:
            wrong = list(spoiled(kind, given.each, given.seed))
            found += [f"{kind.name}: {problem}\n    {text[:500]}" for problem, text in wrong]
            counts = f"{kind.counts['refused']:,} | {kind.counts['meant it']:,}"
            rows.append(f"| {kind.name} | {given.each:,} | {counts} | {len(wrong)} |")
            print(rows[-1], file=sys.stderr, flush=True)
    page = HEAD.format(seed=given.seed, seconds=time.perf_counter() - start) + "\n".join(rows) + "\n"
    given.page.write_text(page, encoding="utf-8")
    print(page, *found[:20], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
