"""Count the files that the four walks of docs/architecture.md touch: python docs/walks.py   (make walks)

A call profiler watches one call of each walk. A file counts once; an edge is a pair (caller's file, callee's file)
that was crossed at least once. Every module is loaded before: loading is not walking.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

Walk = tuple[list[str], set[tuple[str, str]]]

WHY = "--why"

BEFORE = {
    "read an epsilon": (21, 38),
    "pay for a number": (28, 48),
    "release a table": (40, 70),
    "publish from the shell": (70, 152),
}
"""Files and edges at version 0.1.0 before the house was redrawn (commit 84f39a0), measured the same way."""


def watched(call: Callable[[], Any]) -> Walk:
    """The files of tallystick that ``call`` enters, in order of entry, and the edges between different files."""
    import tallystick

    root = str(Path(tallystick.__file__).parent) + os.sep
    order: list[str] = []
    edges: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(root):
            return
        here = frame.f_code.co_filename.removeprefix(root)
        if here not in order:
            order.append(here)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(root):
            caller = caller.f_back
        if caller is not None and (there := caller.f_code.co_filename.removeprefix(root)) != here:
            edges.add((there, here))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return order, edges


def walks(folder: Path) -> dict[str, Walk]:
    """Each walk of docs/architecture.md, made twice with different numbers; the second time is watched."""
    import duckdb

    import tallystick as ts

    for module in pkgutil.walk_packages(ts.__path__, "tallystick."):
        with contextlib.suppress(ImportError):  # an extra that is not installed is on none of the walks
            importlib.import_module(module.name)
    with duckdb.connect(str(folder / "clinic.duckdb")) as made_up:
        made_up.execute(
            "create table visits as select i % 700 as patient, i % 900 as cost,"
            " if(i % 3 = 0, 'north', 'south') as ward from range(5000) t(i)"
        )
    ledger = ts.Ledger(str(folder / "budget.db"))
    clinic = ledger.open("clinic", budget=ts.zcdp(rho=50), unit="patient")

    noise = ts.noise.add_gaussian(sigma=10, sensitivity=1)

    def plan(rho: float) -> Any:
        private = ts.Private(str(folder / "clinic.duckdb"), account=clinic)
        visits = private.table("visits", unit="patient").per_unit(max_groups=2, max_rows_per_group=5)
        asked = visits.group_by("ward", keys=["north", "south"]).agg(n=ts.count(), cost=ts.mean("cost", 0, 1_000))
        return asked.plan(rho=rho)

    first, second = plan(0.01), plan(0.02)
    first.release(why="report 1")
    return {
        "read an epsilon": watched(lambda: (10_000 * ts.gaussian(sigma=1).sampled(rate=0.01)).epsilon(delta=1e-5)),
        "pay for a number": watched(lambda: clinic.release(noise, 1_234, why="weekly admissions")),
        "release a table": watched(lambda: second.release(why="report 2")),
        "publish from the shell": _published(folder),
    }


def _published(folder: Path) -> Walk:
    rows = "".join(f"{i % 300},{'ab'[i % 2]},{i % 50}\n" for i in range(2000))
    (folder / "sales.csv").write_text("person,shop,price\n" + rows, encoding="utf-8")
    (folder / "shops.csv").write_text("shop\na\nb\n", encoding="utf-8")
    os.environ["TALLYSTICK_LEDGER"] = str(folder / "shop.db")
    add = "dataset add {0}/sales.csv --population people --unit person --limit rho=5 --max-groups 2"
    shell(add.format(folder) + " --max-rows-per-group 5")
    for name, rho in (("one", 0.01), ("two", 0.02)):
        plan = "publish plan sales --by shop --keys {0}/shops.csv --measures count --rho {2} --out {0}/{1}.plan.json"
        shell(plan.format(folder, name, rho))
    run = "publish run {0}/{1}.plan.json --key {1} {2} report --out {0}/{1}.csv --card {0}/{1}.html"
    shell(run.format(folder, "one", WHY))
    return watched(lambda: shell(run.format(folder, "two", WHY)))


def shell(line: str) -> None:
    """One command as the shell would start it, in this process and silent."""
    from tallystick.cli.app import run

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(line.split())
    if code:
        raise SystemExit(f"tallystick {line}\n{said.getvalue()}")


def main(verbose: bool) -> None:
    """One line per walk, and with --files the files in the order they are entered."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (files, edges) in walks(Path(folder)).items():
            before = BEFORE[name]
            print(f"{name:<24} {len(files):>3} files (before {before[0]}), {len(edges):>3} edges (before {before[1]})")
            if verbose:
                print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    main("--files" in sys.argv[1:])
