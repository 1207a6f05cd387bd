"""Judge the accountant: every leaf, under every transformation, through every read-out.

    python tests/referee/campaign.py --minutes 30     # make campaign-accounting; writes benchmarks/results/referee.md
    python tests/referee/campaign.py --leaf laplace --transformation sampled --draws 5
    python tests/referee/campaign.py --skip delta_bounds_rigorous      # what takes longest another time
    python tests/referee/campaign.py --patience 8     # what oracles had no time to decide
    python tests/referee/campaign.py --page-only      # the page again, from the shards that are there

A draw is named by (seed, leaf, transformation, number) and is the same for ever.  Each worker has a seed of its own and
a shard, a file of JSON lines that survives a stop: started again, it goes on where it was (``--afresh`` forgets it).
A run of all rows also keeps its lines beside the page, where a later one on another machine finds them.
Rows take turns, one draw each, so that every cell has its first numbers early; a cell is asked until it has thirty
over all shards of the folder.  What no oracle decides is counted and listed, never drawn again.  ``--again`` asks the
expressions that failed once more, with all their questions: that is how a mended number shows that it is mended, and
the page says on which commit.  Exit 1 when any number is on the wrong side, warns, crashes or takes more than five
seconds, or when a cell that is not impossible has too few.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import scipy.signal  # noqa: F401 - before any clock runs: an import that is interrupted stays broken

from referee import matrix
from referee.asking import FAILURES, PURSE, READOUTS, ask_all
from referee.draws import MAKERS, TRANSFORMATIONS, drawn
from referee.page import page
from referee.shards import ENOUGH, JUDGED, Asked, Row, pack, rows_of, unpack

MOST_DRAWS = 60
MEMORY = 6 * 2**30
EXPRESSIONS = 80  # in the life of one process
UNFINISHED = 75  # its exit code when there is more to do
EVERY = 20.0  # seconds between lines of progress
RESULTS = ROOT / "benchmarks" / "results" / "referee.md"
RECORD = RESULTS.with_suffix(".jsonl.xz")
"""Every expression that the page speaks of, with its verdicts: a campaign takes longer than machines are kept."""


def commit() -> str:
    """The commit that is judged, and whether the source differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src"], cwd=ROOT, capture_output=True)
    return (head.stdout.strip() or "unknown") + ("+" if changed.returncode else "")


@dataclass(frozen=True)
class Shard:
    """The work of one seed: which rows, how far, until when, and where it is kept."""

    seed: int
    path: Path
    chosen: Callable[[Row], bool]
    enough: int
    most: int
    until: float
    skipped: tuple[str, ...] = ()

    def rows(self) -> list[Row]:
        found = [row for row in rows_of(shards_of(self.path.parent)) if self.chosen(row)]
        random.Random(self.seed).shuffle(found)
        return found

    def judge(self) -> None:
        """In processes that live for some expressions each: the accountant's caches would fill the memory."""
        context, code = multiprocessing.get_context("fork"), UNFINISHED
        while code == UNFINISHED:
            part = context.Process(target=self.judge_some)
            part.start()
            part.join()
            code = part.exitcode or 0
        if code:
            raise SystemExit(f"seed {self.seed} ended with {code}; start again, and the shard goes on where it was")

    def judge_some(self) -> None:
        """Let the rows take turns until every cell has enough, the draws are used up, or the time is."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        head, rows, told, left = commit(), self.rows(), time.monotonic(), EXPRESSIONS
        with self.path.open("a", encoding="utf-8") as out:
            for turn in range(self.most):
                for row in rows:
                    wanted = tuple(question for question in row.wanted(self.enough) if question not in self.skipped)
                    if len(row.draws(self.seed)) > turn or not wanted:
                        continue
                    if time.monotonic() > self.until:
                        return
                    if left == 0:
                        sys.exit(UNFINISHED)
                    asked = self.ask(row, row.next_draw(self.seed), wanted, head)
                    out.write(asked.line())
                    out.flush()
                    row.take(asked)
                    left -= 1
                    if time.monotonic() > told + EVERY:
                        told = time.monotonic()
                        print(self.progress(rows, turn), flush=True)
        print(self.progress(rows, self.most), flush=True)

    def ask(self, row: Row, draw: int, wanted: tuple[str, ...], head: str) -> Asked:
        started = time.process_time()
        made = drawn(self.seed, row.leaf, row.transformation, draw)
        records = ask_all(made, f"{self.seed}/{row.leaf}/{row.transformation}/{draw}", wanted)
        return Asked.of(self.seed, row, draw, head, made.text, records, time.process_time() - started)

    def ask_failures_again(self) -> None:
        """Each in the place of its old line."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        head, lines = commit(), []
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True):
            old = Asked.read(line)
            row = Row(old.leaf, old.transformation)
            if old.failed() and self.chosen(row):
                line = self.ask(row, old.draw, old.questions(), head).line()
            lines.append(line)
        self.path.write_text("".join(lines), encoding="utf-8")

    def progress(self, rows: list[Row], turn: int) -> str:
        counts = [sum(row.verdicts[cell][v] for row in rows for cell in matrix.CELLS) for v in JUDGED]
        failures = sum(n for v, n in zip(JUDGED, counts, strict=True) if v in FAILURES)
        cells = [
            (row, c) for row in rows for c in matrix.CELLS if not matrix.impossible(row.leaf, row.transformation, c)
        ]
        missing = sum(row.is_open(cell, self.enough) for row, cell in cells)
        limit = max(0.0, self.until - time.monotonic()) / 60
        return (
            f"seed {self.seed}, turn {turn}: {sum(counts):,} judged, {failures} failures, "
            f"{missing:,} of {len(cells):,} cells below {self.enough}"
            + (f", {limit:.0f} minutes left" if math.isfinite(limit) else "")
        )


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("seed-*.jsonl"))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1, help="of the first worker; the others count on from it")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the clock on the wall, at most")
    parser.add_argument("--draws", type=int, default=MOST_DRAWS, help="at most this many expressions per row and shard")
    parser.add_argument("--shards", type=Path, default=ROOT / "build" / "referee", help="the folder of the shards")
    parser.add_argument("--afresh", action="store_true", help="forget the shards of these seeds first")
    parser.add_argument("--again", action="store_true", help="ask the expressions that failed, and nothing else")
    parser.add_argument("--page-only", action="store_true", help="judge nothing; write the page from the shards")
    parser.add_argument(
        "--skip", action="append", default=[], choices=READOUTS, help="a question to leave for later; several"
    )
    parser.add_argument("--patience", type=float, default=1.0, help="times the usual seconds for the oracles")
    parser.add_argument("--leaf", choices=list(MAKERS))
    parser.add_argument("--transformation", choices=list(TRANSFORMATIONS))
    parser.add_argument("--page", type=Path, default=None, help="where to write; the committed page when all rows run")
    return parser.parse_args()


def run(options: argparse.Namespace, folder: Path) -> None:
    """One process for each shard: the given seeds, or those that are there and have failures to ask again."""
    until = time.monotonic() + 60 * options.minutes
    workers = []
    paths = [folder / f"seed-{seed}.jsonl" for seed in range(options.seed, options.seed + options.workers)]
    for path in shards_of(folder) if options.again else paths:
        if options.afresh:
            path.unlink(missing_ok=True)
        seed = int(path.stem.removeprefix("seed-"))
        skipped = tuple(options.skip)
        shard = Shard(seed, path, lambda row: chosen(row, options), ENOUGH, options.draws, until, skipped)
        work = shard.ask_failures_again if options.again else shard.judge
        workers.append(multiprocessing.get_context("fork").Process(target=work))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a shard was not finished")


def chosen(row: Row, options: argparse.Namespace) -> bool:
    return options.leaf in (None, row.leaf) and options.transformation in (None, row.transformation)


def main() -> int:
    options = parsed()
    PURSE.patience = options.patience
    whole = not options.leaf and not options.transformation
    folder = (
        options.shards if whole else options.shards / "-".join(filter(None, (options.leaf, options.transformation)))
    )
    folder.mkdir(parents=True, exist_ok=True)
    if whole and not options.afresh and not shards_of(folder) and RECORD.exists():
        unpack(RECORD, folder)
    if not options.page_only:
        run(options, folder)
    rows = [row for row in rows_of(shards_of(folder)) if chosen(row, options)]
    target = options.page or (RESULTS if whole else None)
    if target is not None:
        target.write_text(page(rows), encoding="utf-8")
    if target == RESULTS:
        pack(shards_of(folder), RECORD)
    failures = [record for row in rows for _, record in row.told(*FAILURES)]
    for record in failures[:60]:
        print(f"{record.verdict} {record.asked}")
        print(f"    printed {record.printed}\n    truth   {record.truth} ({record.seconds:.1f} s)")
    missing = [line for row in rows for line in row.missing()]
    for line in missing[:20]:
        print("too few:", line)
    judged = sum(row.judged(cell) for row in rows for cell in matrix.CELLS)
    print(f"{judged:,} judged, {len(failures):,} failures, {len(missing):,} cells with too few")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
