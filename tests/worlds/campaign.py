"""Judge 100,000 pairs of hostile neighbouring tables on three engines, and show that broken twins are caught.

    python tests/worlds/campaign.py            # make campaign-tables; writes benchmarks/results/worlds.md
    python tests/worlds/campaign.py --repeat "PostgreSQL seed 17"

A trial is named by engine and seed and is the same for ever. Exit 1 if any pair is a violation or a twin goes free.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from crash.stores import postgres_server
from ramdisk import quick_folder
from unit.tables.spark_sessions import session
from worlds.engines import Files, Host, Postgres, Spark
from worlds.judge import Tally, trial
from worlds.twins import TWINS, Twin, listed, on, without_collation

RESULTS = ROOT / "benchmarks" / "results" / "worlds.md"
WORLDS = {"DuckDB": 250, "PostgreSQL": 200, "Spark": 250}
"""Pairs in one table; a question costs little more for many worlds than for one."""

TRIALS = {"DuckDB": 310, "PostgreSQL": 115, "Spark": 21}
BATCH = {"DuckDB": 5, "PostgreSQL": 5, "Spark": 21}
INTRODUCTION = """\
# Is one unit worth more than it pays? Hostile tables and their neighbours

Written by `make campaign-tables` (`tests/worlds/campaign.py`). A pair is two tables that differ in one unit or one row,
with values chosen to hurt: NaN, infinities, 2^63, decimals of all scales, NULL units, look-alike text, days out of
range, broken CSV lines, columns named like our own and in another order. Hundreds of pairs are packed into one table
as independent worlds. The integers before noise are compared world by world with what the plan pays for, each run must
end alike on both neighbours, and engines are compared with each other where their types allow.

"""
_SERVER = {"url": ""}
"""Where the workers find PostgreSQL; they are forked after it is known."""


@contextlib.contextmanager
def host_of(engine: str, folder: Path) -> Iterator[Host]:
    """A place for tables on one of the engines."""
    if engine == "DuckDB":
        yield Files(folder)
    elif engine == "PostgreSQL":
        with contextlib.closing(Postgres(_SERVER["url"], folder, mark=os.getpid())) as host:
            yield host
    else:
        with session("local[2]", folder) as spark:
            yield Spark(spark, folder)


def batch(work: tuple[str, range]) -> Tally:
    """Some trials on one engine."""
    engine, seeds = work
    tally = Tally()
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder, host_of(engine, Path(folder)) as host:
        for seed in seeds:
            trial(host, seed, WORLDS[engine], tally, plain=0.4)
            if seed % 3 == 0:  # what is told of caps and bounds is of the whole table: one world is judged by itself
                trial(host, seed, 1, tally, plain=0.4)
            if seed % 4 == 0:
                trial(host, seed, WORLDS[engine], tally, plain=0.4, in_all=True)
                trial(host, seed, 1, tally, plain=0.4, in_all=True)
    return tally


def batches(share: float) -> list[tuple[str, range]]:
    """Everything to be done, Spark first: it takes longest to start."""
    found = []
    for engine in ("Spark", "PostgreSQL", "DuckDB"):
        trials = max(1, round(TRIALS[engine] * share))
        found += [(engine, range(at, min(at + BATCH[engine], trials))) for at in range(0, trials, BATCH[engine])]
    return found


def judged(share: float, workers: int) -> Tally:
    """All trials, with a bar on stderr."""
    tally, todo, started = Tally(), batches(share), time.time()
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for done, found in enumerate(pool.imap_unordered(batch, todo), 1):
            tally.add(found)
            for problem in found.wrong:
                print(f"\nVIOLATION {problem}", file=sys.stderr)
            filled = "#" * (40 * done // len(todo))
            told = f"{tally.pairs:,} pairs, {len(tally.wrong)} violations, {time.time() - started:.0f} s"
            print(f"\r[{filled:<40}] {told}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return tally


def convicted() -> tuple[list[tuple[str, str]], bool]:
    """Every broken twin with what convicted it, and whether all were caught while the true system was not."""
    lines, fine = [], True
    with contextlib.closing(Postgres(_SERVER["url"], Path(tempfile.gettempdir()), mark=os.getpid())) as database:
        scene = on(database, listed, by_row=True)
        twins = [*TWINS]
        if database.loose:
            twins.append(Twin("text compared by its collation, PostgreSQL", scene, without_collation()))
        else:
            lines.append(("text compared by its collation, PostgreSQL", "not tried: this server was built without ICU"))
        for twin in twins:
            with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
                honest, broken = twin.verdicts(Path(folder))
            fine = fine and not honest.wrong and bool(broken.wrong)
            lines.append((twin.name, broken.wrong[0].partition(": ")[2] if broken.wrong else "NOT CAUGHT"))
    return lines, fine


def page(tally: Tally, twins: list[tuple[str, str]], server: str, seconds: float, cpu: float) -> str:
    """The results as Markdown."""
    lines = [
        *INTRODUCTION.splitlines(),
        f"- {tally.pairs:,} pairs in {tally.plans:,} plans; in {tally.moved:,} the integers moved at all",
        f"- {tally.compared:,} pairs also computed on DuckDB, to the same integers",
        f"- **{len(tally.wrong)} violations**",
        "- seeds: " + "; ".join(f"{engine} 0 to {TRIALS[engine] - 1}" for engine in TRIALS),
        f"- {server}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, shared",
        f"- {seconds:.0f} s, of them {cpu:.0f} CPU seconds in Python; PostgreSQL and Java come on top",
        "",
    ]
    lines += [f"    {problem}" for problem in tally.wrong[:50]]
    for topic, counts in tally.pairs_by.items():
        lines += [f"## Pairs by {topic}", "", f"| {topic} | pairs |", "|---|---|"]
        lines += [f"| {name} | {number:,} |" for name, number in counts.most_common()] + [""]
    lines += ["## The largest share of its claim that a part reached", "", "| part | share |", "|---|---|"]
    lines += [f"| {kind} | {share:.4f} |" for kind, share in sorted(tally.fullest.items())] + [""]
    lines += ["## Refused before anything was charged", "", "| reason | draws |", "|---|---|"]
    lines += [f"| {reason.replace('|', '/')} | {number} |" for reason, number in tally.refused.most_common()] + [""]
    lines += ["## The system without one of its protections", "", "| without | the judge says |", "|---|---|"]
    lines += [f"| {name} | {said[:110].replace('|', '/')} |" for name, said in twins] + [""]
    return "\n".join(lines)


def repeat(told: str) -> Tally:
    """One trial again, as the report names it."""
    engine, _, seed = told.split()[:3]
    return batch((engine, range(int(seed), int(seed) + 1)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0, help="of the trials; only a whole run writes the page")
    parser.add_argument("--repeat", help="engine and seed of one trial, as a violation prints them")
    parser.add_argument("--postgres", help="the URL of another server, one with ICU say; it gets schemas of its own")
    chosen = parser.parse_args()
    started = time.time()
    with contextlib.ExitStack() as stack:
        _SERVER["url"] = chosen.postgres or stack.enter_context(postgres_server()).url
        if chosen.repeat:
            tally = repeat(chosen.repeat)
            print("\n".join(tally.wrong) or f"{tally.pairs} pairs, no violation")
            return bool(tally.wrong)
        tally = judged(chosen.share, chosen.workers)
        twins, fine = convicted()
        server = server_of(_SERVER["url"])
    used = os.times()
    told = page(tally, twins, server, time.time() - started, used.user + used.children_user)
    if chosen.share == 1.0:
        RESULTS.write_text(told)
    else:
        print(told)
    return 1 if tally.wrong or not fine else 0


def server_of(url: str) -> str:
    """What the server says it is."""
    import psycopg

    with psycopg.connect(url) as connection:
        [told] = connection.execute("SHOW server_version").fetchone() or ("?",)
        [loose] = connection.execute("SELECT count(*) FROM pg_collation WHERE NOT collisdeterministic").fetchone() or (
            0,
        )
    text = (
        "texts under a collation that ignores case and accents" if loose else "built without ICU, so plain texts only"
    )
    return f"PostgreSQL {told.split()[0]}, {text}"


if __name__ == "__main__":
    sys.exit(main())
