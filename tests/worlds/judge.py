"""Is one unit worth more than the plan says? The integers before noise of both packed tables, world by world."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tallystick.errors import TallystickError
from tallystick.tables import run
from tallystick.tables.keyset import PublicTable
from tallystick.tables.parts import UNITS, OfTable, Part
from tallystick.tables.plan import Plan
from worlds import questions
from worlds.engines import Host, Places
from worlds.tables import drawn

ATTEMPTS = 8
Answered = Callable[[Plan], run.Exact]


@dataclass
class Tally:
    """What was judged, and what was wrong."""

    plans: int = 0
    pairs: int = 0
    moved: int = 0
    compared: int = 0
    pairs_by: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    fullest: dict[str, float] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what another worker found."""
        self.plans += other.plans
        self.pairs += other.pairs
        self.moved += other.moved
        self.compared += other.compared
        for topic, counts in other.pairs_by.items():
            self.pairs_by[topic].update(counts)
        for kind, share in other.fullest.items():
            self.fullest[kind] = max(share, self.fullest.get(kind, 0.0))
        self.refused.update(other.refused)
        self.wrong += other.wrong


def trial(
    host: Host,
    seed: int,
    count: int,
    tally: Tally,
    *,
    plain: float = 0.3,
    local: bool = False,
    in_all: bool = False,
    rest: bool = False,
) -> None:
    """Draw tables and a question, put them on an engine, and judge; the same seed is the same trial for ever.

    With ``local`` the question has a step that sees all rows of a unit, with ``in_all`` a cap on its rows in all, and
    with ``rest`` a group for all values that are not listed.
    """
    told = f"{host.name} {seed}{' local' if local else ''}{' in all' if in_all else ''}{' rest' if rest else ''}"
    draw = random.Random(told)
    by_row, replace = draw.random() < 0.25 and not local and not in_all, draw.random() < 0.35
    worlds = drawn(draw, count, by_row=by_row, replace=replace, plain=draw.random() < plain)
    places = host.places(worlds, draw)
    for _ in range(ATTEMPTS):
        try:
            plan = questions.asked(
                places, worlds, draw, by_row=by_row, replace=replace, local=local, in_all=in_all, rest=rest
            )
        except TallystickError as refusal:
            tally.refused[_reason(refusal)] += 1
            continue
        if judge(plan, places, count, tally, told):
            shape = "each_row" if by_row else f"{worlds.unit} unit"
            _count(tally, plan, host.name, f"{host.name}, {places.kind}", shape, count)
        return


def _reason(refusal: TallystickError) -> str:
    """The text without the numbers in it."""
    words = str(refusal).split(";")[-1] if "is not allowed" in str(refusal) else str(refusal)
    return words.strip()[:100]


def _count(tally: Tally, plan: Plan, engine: str, kind: str, shape: str, count: int) -> None:
    query = plan.query
    schema = query.table.schema
    keys = "private keys" if not isinstance(query.keys, PublicTable) else "public keys"
    tally.pairs_by["engine"][engine] += count
    tally.pairs_by["source"][kind] += count
    tally.pairs_by["unit"][shape] += count
    tally.pairs_by["neighbours"][str(query.table.adjacency.value)] += count
    tally.pairs_by["keys"][keys] += count
    for column in query.columns[1:] or query.columns:
        derived = "derived " if column not in query.table.base.names else ""
        tally.pairs_by["key column"][f"{derived}{schema.type_of(column)}"] += count
    if query.caps.in_all is not None:
        tally.pairs_by["limit"]["rows in all"] += count
    for kind in {step.kind for step in query.table.steps} or {"none"}:
        tally.pairs_by["step"][kind] += count
    for kind in {part.kind for part in (*query.parts, *query.removed)}:
        tally.pairs_by["part"][kind] += count


def judge(plan: Plan, places: Places, count: int, tally: Tally, told: str, answered: Answered = run.integers) -> bool:
    """Run a plan on two neighbouring packed tables and compare: how each run ended, and how far each world moved.

    ``answered`` computes the integers; what they may be is said by ``plan`` alone.
    """
    plans = [plan.on(place) for place in (places.one, places.two)]
    ends = [_preflight(each) for each in plans]
    if ends[0] != ends[1]:
        tally.wrong.append(f"{told}: the look before the charge tells neighbours apart: {ends}"[:400])
        return False
    if ends[0] != "passed":
        tally.refused[f"preflight: {ends[0]}"[:100]] += 1
        return False
    found = []
    for each in plans:
        try:
            found.append(answered(each))
        except Exception as error:
            tally.wrong.append(f"{told}: failed after the charge ({type(error).__name__}: {error})"[:400])
            return False
    tally.plans += 1
    tally.pairs += count
    tally.wrong += [f"{told}: {problem}" for problem in _sensitivities(plan, found[0], found[1], count, tally)]
    if places.third is not None:
        tally.compared += count
        tally.wrong += [f"{told}: {p}" for p in _differences(plan, found[0], run.integers(plan.on(places.third)))]
    return True


def _preflight(plan: Plan) -> str:
    try:
        run.preflight(plan)
    except Exception as error:
        text = str(error).replace(str(plan.query.table.source.place), "the source")
        return f"{type(error).__name__}: {text}"
    return "passed"


def _sensitivities(plan: Plan, one: run.Exact, two: run.Exact, count: int, tally: Tally) -> Iterator[str]:
    """Each part of each world must move by no more than is paid for, in both norms, and all of them together."""
    caps, adjacency = plan.query.caps, plan.query.table.adjacency
    prices: dict[int, Fraction] = defaultdict(Fraction)
    moved: set[int] = set()
    for noise in plan.noises:
        part = noise.part
        l1: dict[int, int] = defaultdict(int)
        l2: dict[int, int] = defaultdict(int)
        if isinstance(part, OfTable):
            # numbers of the whole table add up over worlds: judged where there is one, together where there are more
            change = [abs(int(value)) for value in (one.removed[part] - two.removed[part])[0]]
            if count > 1:
                if sum(change) > count * part.l1(caps, adjacency):
                    yield f"{count} worlds: {part.label} moves {sum(change)}"
                continue
            changes: Iterable[tuple[int, list[int]]] = [(0, change)] if any(change) else []
        else:
            changes = _changes(plan, part, one, two)
        for world, values in changes:
            l1[world] += sum(values)
            l2[world] += sum(value * value for value in values)
        most1, most2 = part.l1(caps, adjacency), part.l2_squared(caps, adjacency)
        moved |= {world for world, size in l1.items() if size}
        gaussian = noise.law.order == 2
        for world in l1:
            tally.fullest[part.kind] = max(tally.fullest.get(part.kind, 0.0), l1[world] / most1)
            scale = Fraction(noise.law.scale)
            prices[world] += Fraction(l2[world]) / (2 * scale**2) if gaussian else Fraction(l1[world]) / scale
            if l1[world] > most1 or l2[world] > most2:
                yield f"world {world}: {part.label} moves {l1[world]} of {most1} (squares {l2[world]} of {most2})"
    tally.moved += len(moved)
    if "delta" not in plan.budget:  # otherwise the price is not written in the budget
        paid = Fraction(repr(plan.budget["rho" if plan.noises[0].law.order == 2 else "epsilon"]))
        for world, price in prices.items():
            if price > paid:
                yield f"world {world}: loses {float(price)} and pays {float(paid)}"
    if one.keys is not None and two.keys is not None:
        yield from _lone_groups(plan, one, two)


def _lone_groups(plan: Plan, one: run.Exact, two: run.Exact) -> Iterator[str]:
    """What hides a group that only one of the neighbours has is that it holds one unit, and that there are few."""
    for here, there in ((one, two), (two, one)):
        assert here.keys is not None
        known = set(there.keys or ())
        lone: Counter[int] = Counter()
        for key, units in zip(here.keys, here.numbers[UNITS][:, 0], strict=True):
            if key not in known:
                lone[key[0]] += 1
                if units > 1:
                    yield f"world {key[0]}: a group that its neighbour has not holds {units} units"
        for world, groups in lone.items():
            if groups > plan.query.caps.max_groups:
                yield f"world {world}: {groups} groups that its neighbour has not"


def _changes(plan: Plan, part: Part, one: run.Exact, two: run.Exact) -> Iterator[tuple[int, list[int]]]:
    """By group: its world, and the sizes of what differs there."""
    if one.keys is None or two.keys is None:
        keys = plan.query.keys
        worlds = [row[0] for row in keys.rows] if isinstance(keys, PublicTable) else [0]
        change = one.numbers[part] - two.numbers[part]  # both below 2^62
        for group in np.flatnonzero(change.any(axis=1)):
            yield worlds[group], [abs(int(value)) for value in change[group] if value]
        return
    left, right = (dict(zip(exact.keys or (), exact.numbers[part], strict=True)) for exact in (one, two))
    nothing = np.zeros(part.width, dtype=np.int64)
    for key in left.keys() | right.keys():
        difference = left.get(key, nothing) - right.get(key, nothing)
        if difference.any():
            yield key[0], [abs(int(value)) for value in difference if value]


def _differences(plan: Plan, here: run.Exact, there: run.Exact) -> Iterator[str]:
    """Two engines must find the same integers in the same table."""
    if (here.keys is None) != (there.keys is None) or set(here.keys or ()) != set(there.keys or ()):
        yield "another engine finds other groups"
        return
    order = range(len(next(iter(here.numbers.values()))))
    places = {key: i for i, key in enumerate(there.keys or ())}
    other = [places[key] for key in here.keys] if here.keys is not None else list(order)
    for part in plan.query.parts:
        if not np.array_equal(here.numbers[part], there.numbers[part][other]):
            yield f"another engine finds other numbers for {part.label}"
    for part, numbers in here.removed.items():
        if not np.array_equal(numbers, there.removed[part]):
            yield f"another engine finds other numbers for {part.label}"
