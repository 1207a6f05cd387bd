"""What the judge must convict: the same system with one of its protections switched off.

Each twin has a scene, tables and a question that the true system answers within its claim, and a way to break it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sqlglot import exp

import tallystick as ts
from tallystick.tables import capping, dialects, local, parts, run
from tallystick.tables.engines import csvfile, postgres
from tallystick.tables.plan import Plan
from worlds.engines import TABLE, Files, Host, Places, csv_of
from worlds.judge import Answered, Tally, judge
from worlds.tables import COLUMNS, SPELLINGS, TEXTS, Worlds, drawn

COUNT = 40
KEYS = ["a", "A", "a ", "á"]


@dataclass(frozen=True)
class Scene:
    """Tables and a question about them."""

    plan: Plan
    places: Places
    answered: Answered = run.integers


Broken = Callable[[Scene], Any]


@dataclass(frozen=True)
class Twin:
    """A protection, and the system without it."""

    name: str
    scene: Callable[[Path], Scene]
    broken: Broken

    def verdicts(self, folder: Path) -> tuple[Tally, Tally]:
        """What the judge says of the true system, and of the broken one."""
        scene = self.scene(folder)
        honest, broken = Tally(), Tally()
        judge(scene.plan, scene.places, COUNT, honest, self.name)
        # SQL that the true system wrote is not used again
        with contextlib.ExitStack() as without:
            for remembered in (run._programs, run._texts, run._rehearsed):
                without.enter_context(patch.dict(remembered, clear=True))  # type: ignore[arg-type]
            worse = without.enter_context(self.broken(scene))
            judge(worse.plan, worse.places, COUNT, broken, self.name, worse.answered)
        return honest, broken


def _worlds(*, by_row: bool = False, replace: bool = False) -> Worlds:
    found = drawn(random.Random(11), COUNT, by_row=by_row, replace=replace)
    for row in (*found.one, *found.two):
        row.pop("broken", None)
    return found if found.names == SPELLINGS[0] else Worlds(**{**vars(found), "names": SPELLINGS[0]})


def _asked(places: Places, worlds: Worlds, ask: Callable[[Any], Any], *, unit: Any = "u") -> Plan:
    types = worlds.types if places.kind == "csv" else None
    plan: Plan = ask(ts.Private(places.one).table(TABLE, unit=unit, types=types)).plan(rho=1.0)
    return plan


def _scene(ask: Callable[[Any], Any], kind: str = "memory", **how: bool) -> Callable[[Path], Scene]:
    def made(folder: Path) -> Scene:
        worlds = _worlds(**how)
        places = Files(folder, (kind,)).places(worlds, random.Random(1))
        return Scene(_asked(places, worlds, ask, unit=ts.each_row if how.get("by_row") else "u"), places)

    return made


def on(host: Host, ask: Callable[[Any], Any], **how: bool) -> Callable[[Path], Scene]:
    """The same scene on another engine."""

    def made(folder: Path) -> Scene:
        worlds = _worlds(**how)
        places = host.places(worlds, random.Random(1))
        return Scene(_asked(places, worlds, ask, unit=ts.each_row if how.get("by_row") else "u"), places)

    return made


def _capped(table: Any) -> Any:
    return table.per_unit(max_groups=1, max_rows_per_group=1)


def grouped(table: Any) -> Any:
    """By a text column, with private keys."""
    return _capped(table).group_by("w", "t", keys=ts.private_keys(delta=1e-6)).agg(rows=ts.count())


def _by_world(table: Any) -> Any:
    """One group for each world, so that no choice among a unit's groups hides a unit that became several."""
    return _capped(table).group_by("w", keys=ts.private_keys(delta=1e-6)).agg(rows=ts.count())


def _clamped(table: Any) -> Any:
    return _capped(table).group_by("w", keys=list(range(COUNT))).agg(total=ts.sum("Small", 3, 4))


def _converted(table: Any) -> Any:
    return _capped(table).group_by("w", keys=list(range(COUNT))).agg(total=ts.sum("n", 0, 1))


def listed(table: Any) -> Any:
    """Public keys that differ in case, a space or an accent."""
    return table.group_by("w", "t", keys=[(w, key) for w in range(COUNT) for key in KEYS]).agg(rows=ts.count())


def _joined(table: Any) -> Any:
    public = [{"t": key, "land": "x"} for key in KEYS]
    return table.join(public, on="t").group_by("w", keys=list(range(COUNT))).agg(rows=ts.count())


def _with_caps(**caps: int) -> Broken:
    @contextlib.contextmanager
    def broken(scene: Scene) -> Iterator[Scene]:
        def answered(plan: Plan) -> run.Exact:
            wide = replace(plan.query, caps=replace(plan.query.caps, **caps))
            return run.integers(replace(plan, query=wide))

        yield replace(scene, answered=answered)

    return broken


def _with(*targets: tuple[Any, str, Any]) -> Broken:
    @contextlib.contextmanager
    def broken(scene: Scene) -> Iterator[Scene]:
        with contextlib.ExitStack() as stack:
            for owner, name, value in targets:
                stack.enter_context(patch.object(owner, name, value))
            yield scene

    return broken


def without_collation() -> Broken:
    """Text compared as its column says, in the stored table and in public ones."""
    plain = {**postgres._TYPES, "text": "text"}
    return _with((dialects, "_byte_by_byte", lambda text: text), (postgres, "_TYPES", plain))


@contextlib.contextmanager
def _repeated_keys(scene: Scene) -> Iterator[Scene]:
    keys = scene.plan.query.keys
    object.__setattr__(keys, "rows", keys.rows * 2)  # type: ignore[union-attr]
    yield scene


@contextlib.contextmanager
def _repeated_join(scene: Scene) -> Iterator[Scene]:
    public = scene.plan.query.table.steps[0].public
    object.__setattr__(public, "rows", public.rows * 3)  # type: ignore[union-attr]
    yield scene


@contextlib.contextmanager
def _other_engine(scene: Scene) -> Iterator[Scene]:
    """An engine that computes something else: it sees the neighbour."""
    yield replace(scene, places=replace(scene.places, third=scene.places.two))


def _never_clamped(words: Any, value: Any, ends: Any, last: Any, inside: Any) -> Any:
    return dialects.case([(dialects.missing(value), exp.Null())], inside)


def _partial_cast(self: Any, value: Any, kind: str) -> Any:
    return self.cast(value, kind)


def _line_by_line(text: Any, comma: bytes) -> Iterator[bytes]:
    """A reader that takes every line for a record."""
    yield b"".join(line.replace(b'"', b"") + b"\n" for line in text[:].split(b"\n"))


def _by_position(place: str, copy: Path) -> list[str]:
    """A reader that takes the columns to stand in one order, whatever the header says."""
    return sorted(_true_copy(place, copy))


_true_copy = csvfile.private_copy


def _forged(folder: Path) -> Scene:
    """One unit writes into a cell what would be lines of five others; a writer of CSV puts it in quotes."""
    worlds = _worlds()
    order = [column for column in COLUMNS if column != "t"] + ["t"]
    paths = []
    for name, rows, other in (("one", worlds.one, worlds.two), ("two", worlds.two, worlds.one)):
        shared = {id(row) for row in other}
        told = []
        for row in rows:
            if id(row) not in shared:  # the unit's own rows
                lines = [f"{row['w']},{7 * 10**9 + row['w'] * 10 + n},{'' if row['k'] is None else row['k']}"
                         + "," * (len(order) - 3) + "y" for n in range(5)]  # fmt: skip
                row = row | {"t": "x\n" + "\n".join(lines)}
            told.append(row)
        path = folder / f"forged-{name}.csv"
        path.write_bytes(csv_of(worlds, told, order))
        paths.append(str(path))
    places = Places("csv", *paths)

    def people(table: Any) -> Any:
        return _capped(table).group_by("w", keys=list(range(COUNT))).agg(people=ts.count_units())

    return Scene(_asked(places, worlds, people), places)


def _one_odd_row(folder: Path) -> Scene:
    """Only one row of one of the tables holds a number that a partial cast cannot take."""
    worlds = _worlds()
    for row in (*worlds.one, *worlds.two):
        row["n"] = 1
    odd = next(row for row in worlds.one if row["u"] is not None)  # rows without a unit are dropped, perhaps unread
    odd["n"] = 2**64 - 1
    two = [row for row in worlds.two if row is not odd]
    places = Files(folder, ("memory",)).places(Worlds(**{**vars(worlds), "two": two}), random.Random(1))
    return Scene(_asked(places, worlds, _converted), places)


def _met(table: Any) -> Any:
    met = table.join_on_unit(table.filter(ts.col("Small") == 127).distinct("w"), also=["w"])
    return _capped(met).group_by("w", keys=list(range(COUNT))).agg(rows=ts.count())


def _without_the_unit(step: Any, unit: str, other: str) -> list[tuple[str, str]]:
    return [(column, column) for column in step.also]


def _spread(table: Any) -> Any:
    """A few rows of a unit, in some of many groups."""
    capped = table.per_unit(max_groups=4, max_rows_per_group=2, max_rows=3)
    return capped.group_by("w", "t", keys=ts.private_keys(delta=1e-6)).agg(rows=ts.count())


def _all_at_once(self: Any, value: Any, order: Any = None) -> Any:
    """A running sum that forgets its order: each cell's share of the rows is rounded by itself."""
    return _true_sum(self, value)


def _with_ties(self: Any, value: Any, order: Any = None) -> Any:
    """A running sum up to the last of the cells that tie, as SQL has it where nothing else is said."""
    made = _true_sum(self, value, order)
    for window in made.find_all(exp.Window):
        window.set("spec", None)
        if order is not None:
            window.set("order", exp.Order(expressions=order.expressions[:1]))
    return made


_true_sum = capping.Capping._added


def _rest(table: Any) -> Any:
    """By a text column, of which two values are listed and all others are one group."""
    capped = table.per_unit(max_groups=3, max_rows_per_group=1)
    listed = [(w, key) for w in range(COUNT) for key in KEYS[:2]]
    return capped.group_by("w", "t", keys=listed, other={"t": "the rest"}).agg(rows=ts.count())


@contextlib.contextmanager
def _merged_after_limits(scene: Scene) -> Iterator[Scene]:
    """Limit the groups of a unit by the values themselves, and add the other values up after that."""

    def answered(plan: Plan) -> run.Exact:
        table = replace(plan.query.table, steps=(), schema=plan.query.table.base, stored=None)
        every = [(w, key) for w in range(COUNT) for key in TEXTS]
        single = run.integers(table.group_by("w", "t", keys=every).agg(rows=ts.count()).plan(rho=1.0))
        places = {key: at for at, key in enumerate(plan.query.keys.rows)}  # type: ignore[union-attr]
        made = {part: np.zeros((len(places), part.width), dtype=np.int64) for part in plan.query.parts}
        for (world, key), row in zip(every, single.numbers[parts.Rows()], strict=True):
            made[parts.Rows()][places[(world, key if key in KEYS[:2] else "the rest")]] += row
        exact = run.integers(plan)
        return replace(exact, numbers={**exact.numbers, **made})

    yield replace(scene, answered=answered)


NOT_SORTED = (run, "_sortable", lambda way: False)
"""Cells by SQL alone: sorted ones are cut to what is paid for once more, which would hide what is missing."""

TWINS = [
    Twin(
        "private tables joined without the unit", _scene(_met), _with((local.JoinOnUnit, "_alike", _without_the_unit))
    ),
    Twin("no cap on groups", _scene(grouped), _with_caps(max_groups=10_000)),
    Twin("no cap on rows", _scene(grouped), _with_caps(max_rows=1_024)),
    Twin("no cap on rows in all", _scene(_spread), _with_caps(in_all=None)),
    Twin(
        "each group's share of the rows rounded by itself",
        _scene(_spread),
        _with((capping.Capping, "_added", _all_at_once), NOT_SORTED),
    ),
    Twin(
        "groups that tie share their rows",
        _scene(_spread),
        _with((capping.Capping, "_added", _with_ties), (capping, "PRIME", 2), NOT_SORTED),
    ),
    Twin("other values limited one by one", _scene(_rest), _merged_after_limits),
    Twin("no clamping", _scene(_clamped), _with((parts, "_clamped", _never_clamped), NOT_SORTED)),
    Twin("a public key twice", _scene(listed, by_row=True), _repeated_keys),
    Twin("a joined key three times, rows protected", _scene(_joined, by_row=True), _repeated_join),
    Twin("text compared by its collation", _scene(listed, "duckdb", by_row=True), without_collation()),
    Twin("CSV records split at line ends", _forged, _with((csvfile, "_records", _line_by_line))),
    Twin("CSV columns by position", _scene(_by_world, "csv"), _with((csvfile, "private_copy", _by_position))),
    Twin("a cast that raises", _scene(_converted), _with((dialects.DuckWords, "try_cast", _partial_cast))),
    Twin(
        "a look at rows before the charge",
        _one_odd_row,
        _with((dialects.DuckWords, "try_cast", _partial_cast), (run, "preflight", lambda plan: run.integers(plan))),
    ),
    Twin("another engine computes something else", _scene(grouped), _other_engine),
]

CUT_AGAIN = Twin("no clamping of what is sorted", _scene(_clamped), _with((parts, "_clamped", _never_clamped)))
"""Not convicted: what a sorted cell adds is cut to the peak that is paid for, whatever the SQL of its rows says."""
