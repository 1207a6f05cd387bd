"""Mutated exports, receipts, cards, saved plans and registrations: each is refused by name or means what it says.

    python tests/campaigns/hostile_files.py [--count 5000] [--seed 1]     files of each kind

An export is changed inside its entries and then hashed and signed again, as somebody with a key of their own would do,
so that the rules of the record are reached and not only its hashes. What is accepted must verify.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tallystick as ts
from tallystick.cards import card, check_card
from tallystick.cards.card import read_card
from tallystick.errors import TallystickError
from tallystick.ledger import Ledger, Receipt, Signer, import_ledger
from tallystick.ledger.chain import GENESIS, canonical, link
from tallystick.publish import datasets, jobs
from tallystick.tables.session import Private

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 1.5, 1e308, 5e-324, "", " ", "0", "\0",
    "\u202e", "\ud800", "x" * 3000, "../../x", "NaN", [], {}, [[]], [None], {"": None}, {"kind": "genesis"}, "zcdp",
)  # fmt: skip
DEEP = "[" * 300 + "]" * 300


def mutated(text: str, draw: random.Random) -> str:
    """The text with one thing wrong: a byte, a piece, a value, a key twice, a nest."""
    kind = draw.randrange(6)
    at, to = sorted((draw.randrange(len(text)), draw.randrange(len(text))))
    if kind == 0:
        return text[:at] + chr(draw.choice((0, 34, 44, 48, 57, 91, 92, 123, 125, 0x2028, 0xFFFD))) + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[min(to, at + draw.randrange(1, 40)) :]
    if kind == 2:
        return text[:to] + text[at:to][:200] + text[to:]
    try:
        value = json.loads(text)
    except ValueError:
        return text[::-1]
    changed(value, draw)
    again = json.dumps(value)
    if kind == 3:
        return again.replace('": ', '": 0, "twice": 1, "twice": ', 1)
    return again.replace("null", DEEP, 1) if kind == 4 and draw.random() < 0.3 else again


def changed(value: Any, draw: random.Random) -> None:
    """Replace, remove, copy or rename something at a random place of JSON data."""
    places = list(nodes(value))
    if not places:
        return
    parent, name = draw.choice(places)
    action = draw.randrange(5)
    if action == 0:
        del parent[name]
    elif action == 1 and isinstance(parent, list):
        parent.insert(draw.randrange(len(parent) + 1), copy.deepcopy(parent[name]))
    elif action == 2:
        other, there = draw.choice(places)
        parent[name] = copy.deepcopy(other[there]) if other is not parent[name] else None
    elif action == 3 and type(parent[name]) in (int, float):
        parent[name] = parent[name] + draw.choice((-1, 1, 0.5, 10**9))
    else:
        parent[name] = copy.deepcopy(draw.choice(HOSTILE))


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    for name in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, name
        yield from nodes(value[name])


class Desk:
    """Honest files of every kind, and what reading each of them does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        data = folder / "visits.csv"
        data.write_text("patient,ward,age\n" + "".join(f"p{i % 40},{'ab'[i % 2]},{i % 90}\n" for i in range(120)))
        self.ledger = Ledger(folder / "budget.db", config=folder / "config")
        self.account = self.ledger.open("patients", budget=ts.zcdp(rho=5, delta=1e-6), unit="patient")
        table = Private(str(data), account=self.account).table(unit="patient", types={"age": "number"})
        table = table.per_unit(max_groups=2, max_rows_per_group=3).bounds(age=(0, 110))
        self.dataset = datasets.register(datasets.Dataset("visits", "patients", table.to_data()), self.account)
        plan = table.group_by("ward", keys=["a", "b"]).agg(n=ts.count(), age=ts.mean("age", 0, 110)).plan(rho=0.01)
        made = plan.release(why="report", key="t1")
        assert made.receipt is not None
        self.receipt, self.plan = made.receipt.to_json(), jobs.saved("visits", plan)
        self.hash, self.card = plan.hash, card(made, dataset="visits")
        held = self.account.reserve(ts.gaussian(sigma=30), why="held")
        held.refund()
        with self.ledger.store.read() as transaction:
            self.bodies = [row[2] for row in transaction.rows("entries_after", 0, 1000)]
        self.answers = {json.loads(line).get("seq"): json.loads(line).get("answer") for line in self.ledger.export()}

    def path(self, ending: str) -> Path:
        self.number += 1
        return self.folder / f"file{self.number % 50}{ending}"

    def export(self, draw: random.Random) -> None:
        bodies = list(self.bodies)
        at = draw.randrange(len(bodies))
        bodies[at] = mutated(bodies[at], draw)
        with contextlib.suppress(ValueError, RecursionError):  # most are well-formed, or nothing but the form is tried
            bodies[at] = canonical(json.loads(bodies[at])) if draw.random() < 0.8 else bodies[at]
        signer, head, ledger_id = Signer.of_user(self.folder / "config"), GENESIS, self.ledger.id
        lines = [canonical({"format": "tallystick/export/1", "ledger": ledger_id})]
        for seq, body in enumerate(bodies, 1):
            head = link(head, body.encode("utf-8", "replace").decode())
            line = {"seq": seq, "hash": head, "body": body.encode("utf-8", "replace").decode()}
            lines.append(canonical(line | ({"answer": self.answers[seq]} if self.answers.get(seq) else {})))
        said = {"ledger": ledger_id, "seq": len(bodies), "head": head, "at": 0}
        lines.append(canonical({"checkpoint": said, "by": signer.public, "signature": signer.sign(said)}))
        if draw.random() < 0.3:
            at = draw.randrange(len(lines))
            lines[at] = mutated(lines[at], draw)
        for old in self.folder.glob("copy.db*"):
            old.unlink()
        with import_ledger(lines, self.folder / "copy.db", config=self.folder / f"new{self.number}") as copied:
            self.number += 1
            problems = copied.verify().problems
            assert not problems, f"accepted, and then: {problems[0]}"
            copied.underpriced()
            for account in copied.accounts():
                assert 0 <= account.used.a0 <= account.limit.a0
            datasets.known(copied)

    def read_receipt(self, draw: random.Random) -> None:
        found = Receipt.from_json(mutated(self.receipt, draw))
        same = found == Receipt.from_json(self.receipt)
        assert same or self.ledger.verify(receipts=[found]).problems, "a changed receipt agrees with the record"

    def read_card(self, draw: random.Random) -> None:
        path = self.path(".json")
        path.write_text(mutated(self.card.to_json(), draw).encode("utf-8", "replace").decode(), encoding="utf-8")
        found, _ = read_card(path)
        told = {k: v for k, v in found.facts.items() if k not in ("released", "decisions", "again")}
        true = {k: v for k, v in self.card.facts.items() if k in told}
        if json.loads(json.dumps(told)) != json.loads(json.dumps(true)):
            assert any(not each.holds for each in check_card(found, self.ledger)), (
                "a changed card agrees with the record"
            )

    def read_plan(self, draw: random.Random) -> None:
        path = self.path(".json")
        path.write_bytes(mutated(self.plan, draw).encode("utf-8", "replace"))
        name, text = jobs.read_saved(path)
        plan = jobs.plan_of(text, datasets.find(name, self.ledger), self.account, None)
        assert plan.hash == self.hash, "another plan was taken for this one"

    def read_registration(self, draw: random.Random) -> None:
        note = mutated(self.dataset.to_note(), draw).encode("utf-8", "replace").decode()
        found = datasets._read("visits", "patients", note, self.dataset.least_price)  # type: ignore[arg-type]
        found.opened(self.account)


KINDS: dict[str, Callable[[Desk, random.Random], None]] = {
    "export": Desk.export,
    "receipt": Desk.read_receipt,
    "card": Desk.read_card,
    "plan": Desk.read_plan,
    "registration": Desk.read_registration,
}


def campaign(count: int, seed: int, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[Counter[str], list[str]]:
    """How many of each kind were refused or accepted, and what went wrong."""
    done: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tallystick-files-") as folder:
        desk = Desk(Path(folder))
        for kind in kinds:
            draw = random.Random(f"{kind} {seed}")
            for number in range(count):
                try:
                    KINDS[kind](desk, draw)
                    done[f"{kind} accepted"] += 1
                except TallystickError:
                    done[f"{kind} refused"] += 1
                except Exception as error:
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    wrong.append(
                        f"{kind} {number}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"[:300]
                    )
        desk.ledger.close()
    return done, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    given = parser.parse_args()
    made, bad = campaign(given.count, given.seed, tuple(given.kind or KINDS))
    print(json.dumps(made, indent=1))
    print(f"{len(bad)} wrong", *bad[:60], sep="\n")
