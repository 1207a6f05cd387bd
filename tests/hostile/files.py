"""Each kind of file that comes from outside, and what it means to believe it.

A mutated file is either refused with an error of tallystick, or it *means what it says*: what was read, written again,
is the file. A field that is read over in silence is a lie somebody can tell.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tallystick as ts
from hostile.mutations import mutated
from tallystick import strict_json
from tallystick.accounting.certificate import Certificate
from tallystick.cards import card, fit_card
from tallystick.cards.card import read_card
from tallystick.cards.check import check_card
from tallystick.certificate import checker
from tallystick.cli.wording import Command, in_shell
from tallystick.errors import BudgetExceeded, InvalidInput, Remedy, TallystickError
from tallystick.inference import from_csv
from tallystick.ledger.book import import_ledger
from tallystick.ledger.chain import GENESIS, canonical, link
from tallystick.ledger.pay import Receipt
from tallystick.ledger.signing import Signer
from tallystick.publish.datasets import Dataset, find, read_note, register
from tallystick.publish.export import write_result
from tallystick.publish.kinds.caps import Caps
from tallystick.publish.kinds.linear import LinearFit
from tallystick.publish.kinds.logistic import LogisticFit
from tallystick.publish.kinds.question import Question
from tallystick.publish.kinds.statement import Statement
from tallystick.publish.outcome import Outcome
from tallystick.publish.request import Cost, Request, answer, price
from tallystick.tables.keyset import public_table
from tallystick.tables.plan import Plan
from tallystick.wording import in_sql

FORGER = Signer(b"f" * 32)
Judge = Callable[[str], str]
"""Believes a text or refuses it: returns what it read, as JSON of the same shape, or raises TallystickError."""


@dataclass
class Kind:
    """One kind of file: a good example, who reads it, and the fields that may say anything."""

    name: str
    good: str
    believe: Judge
    free: tuple[str, ...] = ()
    spoil: Callable[[str, random.Random], str] = mutated
    meaning: Callable[[Any], Any] = lambda told: told
    counts: dict[str, int] = field(default_factory=lambda: {"refused": 0, "meant it": 0})

    def judge(self, text: str) -> str | None:
        """None, or what is wrong with how a text was taken."""
        try:
            read = self.believe(text)
        except TallystickError:
            self.counts["refused"] += 1
            return None
        except BaseException as error:
            return f"{type(error).__name__}: {error}"[:200]
        self.counts["meant it"] += 1
        try:
            said = json.loads(text)
        except ValueError:
            return "a text that is not JSON was believed"
        lies = list(_differences(self.meaning(said), self.meaning(json.loads(read)), self.free))
        return f"believed, but it does not mean what it says at {lies[0]}" if lies else None


def _differences(said: Any, read: Any, free: tuple[str, ...], path: str = "") -> Iterator[str]:
    if any(path.startswith(name) for name in free):
        return
    if isinstance(said, dict) and isinstance(read, dict):
        for key in said.keys() | read.keys():
            if key not in said or key not in read:
                if not any(f"{path}/{key}".startswith(name) for name in free):
                    yield f"{path}/{key}"
            else:
                yield from _differences(said[key], read[key], free, f"{path}/{key}")
    elif isinstance(said, list) and isinstance(read, list) and len(said) == len(read):
        for index, (one, other) in enumerate(zip(said, read, strict=True)):
            yield from _differences(one, other, free, f"{path}/{index}")
    elif type(said) is type(read) or {type(said), type(read)} <= {int, float}:
        close = isinstance(said, float | int) and math.isclose(said, read, rel_tol=1.1e-6)
        if said != read and not close:
            yield f"{path} ({str(said)[:40]} for {str(read)[:40]})"
    else:
        yield f"{path} ({str(said)[:40]} for {str(read)[:40]})"


@contextmanager
def kinds(folder: Path) -> Iterator[list[Kind]]:
    """A loss, a plan, a receipt, a card as JSON and as HTML, and an export, all of one small ledger."""
    file = folder / "visits.csv"
    rows = (f"p{i % 100},{'north' if i % 2 else 'south'},{20 + i % 60},{i % 9}\n" for i in range(300))
    file.write_text("patient,ward,age,cost\n" + "".join(rows), encoding="utf-8")
    with ts.Ledger(folder / "ledger.db", config=folder / "config") as ledger:
        account = ledger.open("patients", budget=ts.zcdp(rho=5, delta=1e-6), unit="patient")
        table = ts.Private(str(file), account=account).table(unit="patient", types={"age": "number", "cost": "number"})
        capped = table.per_unit(max_groups=2, max_rows_per_group=2)
        asked = capped.group_by("ward", keys=["north", "south"]).agg(n=ts.count(), age=ts.mean("age", 0, 110))
        told = json.loads(capped.to_json())
        register(Dataset("visits", "patients", told, {"window": "2026"}), account)
        plan = asked.plan(rho=0.05)
        release = plan.release(why="annual report", key="t1")
        assert release.receipt is not None
        drawn = card(release, dataset="visits", about={"window": "2026"})
        made = [
            _loss(),
            _certificate(),
            _plan(plan, account),
            _request(Request(Question.of("visits", plan), key="t2", why="report"), ledger),
            _request(Request(_statement(), Cost(rho=0.05), why="report"), ledger),
            _request(Request(_fit(), Cost(rho=0.05), why="report"), ledger),
            _request(Request(_logistic(), Cost(epsilon=0.2, delta=1e-8), why="report"), ledger),
            _request(Request(_caps(), Cost(rho=0.05), why="report"), ledger),
            _error(),
            _outcome(answer(Request(Question.of("visits", plan), key="t3", why="report"), ledger).outcome, folder),
            _receipt(release.receipt, ledger),
            _card(drawn, ledger, folder),
            _read_back(release, drawn),
        ]
        model = ts.learn.LinearRegression(0.5, delta=1e-6, row_norm=1, target_bounds=(0, 9), rows_per_unit=2, ridge=3.0)
        model.fit([[0.5, 0.5]] * 9, [1.0] * 9, account=account, why="forecast")
        made.append(replace(_card(fit_card(model, account, dataset="rows"), ledger, folder), name="fit card"))
        yield [*made, _registration(ledger, account), *_exports(ledger, folder)]


def _loss() -> Kind:
    loss = 3 * ts.gaussian(sigma=2).sampled(rate=0.1) + ts.zcdp(rho=0.1, delta=1e-9)
    loss = loss + ts.discrete_pair([0.5, 0.5], [0.25, 0.75])
    read = lambda text: ts.PrivacyLoss.from_json(text).to_json()  # noqa: E731
    return Kind("loss", loss.to_json(), read, meaning=_composition)


def _certificate() -> Kind:
    """Believed if the checker proves it: what it does not read would be a claim that nobody checked."""
    proof = (3 * ts.laplace(scale=2).sampled(rate=0.1) + ts.pure_dp(epsilon=0.25)).certificate(delta=1e-3)

    def believe(text: str) -> str:
        Certificate(text).verify()
        return json.dumps(checker.read(text))

    return Kind("certificate", proof.text, believe)


def _composition(told: Any) -> Any:
    """A loss whose terms are counted: a composition has no order, and a term twice is two of it."""
    counts: Counter[str] = Counter()
    for leaf, count in told["terms"]:
        counts[json.dumps(_in_floats(leaf), sort_keys=True)] += count
    return {**told, "terms": [[json.loads(leaf), count] for leaf, count in sorted(counts.items())]}


def _in_floats(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _in_floats(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_in_floats(value) for value in told]
    return float(told) if isinstance(told, int) and not isinstance(told, bool) else told


def _plan(plan: Any, account: Any) -> Kind:
    return Kind("plan", plan.to_json(), lambda text: Plan.from_json(text, account=account).to_json())


def _statement() -> Statement:
    text = "SELECT w.name, COUNT(v.age) AS n FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY w.name"
    return Statement(text, {"wards": public_table([{"ward": "north", "name": "n"}, {"ward": "south", "name": "s"}])})


def _fit() -> LinearFit:
    where = ((ts.col("age") >= 30).to_data(),)
    return LinearFit("visits", "cost", ("age",), {"age": (0, 110), "cost": (0, 9)}, where)


def _logistic() -> LogisticFit:
    where = ((ts.col("age") >= 30).to_data(),)
    return LogisticFit("visits", "ward", ("age",), {"age": (0, 110)}, where, ("north", "south"))


def _caps() -> Caps:
    return Caps("visits", ("ward",), {"age": (0, 150)})


def _request(request: Request, ledger: Any) -> Kind:
    """A request that is priced; what it says is kept, and what it leaves out has its default."""
    data = request.to_data()

    def believe(text: str) -> str:
        read = Request.from_json(text)
        price(read, ledger)
        return json.dumps(_said(json.loads(text), read.to_data()))

    return Kind(f"request: {data['what']['kind']}", json.dumps(data), believe)


def _said(said: Any, read: Any) -> Any:
    """Fields of what was read that the text names."""
    if not isinstance(said, dict) or not isinstance(read, dict):
        return read
    return {key: _said(said.get(key), value) for key, value in read.items() if key in said}


def _error() -> Kind:
    """An error with remedies of several kinds, one of them from a newer version. Its words are made, too."""
    remedies = [
        Remedy("lower_price", argument="rho", value=0.04, measure="n", errors=[[None, 9.0, 3.0], [50, 4.0, 2.0]]),
        Remedy("keep_measures", measures=["n"], dropped=2),
        Remedy("declare_bounds", column="age", lower=0, upper=110, dataset="visits"),
        Remedy("add_noise", mechanism="gaussian", parameter="sigma", value=7.0, adjacency="add_remove", error=13.9,
               unit="patient"),
        Remedy("set_argument", argument="key", value="NEW", more={"delta": 1e-6}),
    ]  # fmt: skip
    problem = BudgetExceeded("denied", asked="rho 1", left="rho 0.1", account="patients", unit="patient")
    data = problem.with_remedies(remedies).to_data()
    data["remedies"].append({"kind": "of_a_newer_version", "day": "Monday"})
    query = Command(("query",), {"rho": "--rho"}, {})

    def believe(text: str) -> str:
        read = TallystickError.from_data(strict_json.read(text))
        assert isinstance(str(read), str)
        for remedy in read.remedies:
            in_sql(remedy)
            in_shell(remedy, query)
        return json.dumps(read.to_data())

    return Kind("error", json.dumps(data), believe)


def _outcome(outcome: Outcome, folder: Path) -> Kind:
    """An outcome that came over a socket, which is written to files."""

    def believe(text: str) -> str:
        read = Outcome.from_data(strict_json.read(text))
        for ending in (".csv", ".json"):
            write_result(folder / f"socket{ending}", read)
        return json.dumps(read.to_data())

    return Kind("outcome", json.dumps(outcome.to_data()), believe)


def _receipt(receipt: Receipt, ledger: Any) -> Kind:
    def believe(text: str) -> str:
        read = Receipt.from_json(text)
        problems = ledger.verify(receipts=[read]).problems
        if problems:
            raise TallystickError(problems[0])
        return read.to_json()

    return Kind("receipt", receipt.to_json(), believe)


def _card(drawn: Any, ledger: Any, folder: Path) -> Kind:
    path = folder / "mutated.json"

    def believe(text: str) -> str:
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        read, _ = read_card(path)
        bad = [finding for finding in check_card(read, ledger, page=None) if not finding.holds]
        if bad:
            raise TallystickError(bad[0].problem)
        return read.to_json()

    return Kind("card", drawn.to_json(), believe)


def _read_back(release: Any, drawn: Any) -> Kind:
    """A card beside its table: whatever is believed, the cells are those of the release."""
    table, facts = release.to_csv(), json.loads(drawn.to_json())
    read = {"accounting": ["plan_hash"], "again": ["plan"], "mechanisms": ["parts"], "evidence": ["charge"]}
    good = {room: {name: facts[room][name] for name in names} for room, names in read.items()}

    def cells(text: str) -> list[Any]:
        found = from_csv(table, text, measure="n")
        return [[key, cell.value, *cell.noise_interval(), cell.shown_from] for key, cell in found.items()]

    def believe(text: str) -> str:
        told = cells(text)
        return text if told == honest else json.dumps({"other cells": told})

    text = json.dumps({"schema": facts["schema"], **good})
    honest = cells(text)
    return Kind("read back", text, believe)


def _registration(ledger: Any, account: Any) -> Kind:
    """What a ledger says about a data set, which is read again before every plan."""
    data = find("visits", ledger)

    def believe(text: str) -> str:
        read = read_note("visits", account.name, text, data.least_price)
        read.opened(account)
        return read.to_note()

    return Kind("registration", data.to_note(), believe)


def _exports(ledger: Any, folder: Path) -> list[Kind]:
    """An export as it is spoiled by accident, and as a forger spoils it who makes the chain and a signature anew."""
    signer = Signer.of_user(folder / "config")
    lines = [json.loads(line) for line in ledger.export(signer=signer)]
    turn = itertools.count()

    def believe(text: str) -> str:
        told = strict_json.read(text)
        if not isinstance(told, list):
            raise InvalidInput("export", "no list", "a list")
        place, config = folder / f"imported{next(turn)}.db", folder / f"config{next(turn)}"
        import_ledger((json.dumps(line) for line in told), place, config=config)
        with ts.Ledger(place, config=config, create=False) as copy:
            report = copy.verify()
            if not report.intact or copy.underpriced():
                raise TallystickError("verify finds it")
            again = [json.loads(line) for line in copy.export(signer=FORGER)]
        place.unlink()
        # The last line is a new signature of the same checkpoint; when it was signed is not part of it.
        again[-1]["by"], again[-1]["signature"] = told[-1]["by"], told[-1]["signature"]
        again[-1]["checkpoint"]["at"] = told[-1]["checkpoint"]["at"]
        return json.dumps(again)

    def forge(text: str, draw: random.Random) -> str:
        told = json.loads(text)
        index = draw.randrange(1, len(told) - 1)
        try:
            return forged(told, index, json.loads(mutated(told[index]["body"], draw)))
        except (ValueError, RecursionError):
            return text[: draw.randrange(len(text))]

    good = json.dumps(lines)
    return [Kind("export", good, believe), Kind("forged export", good, believe, spoil=forge)]


def forged(told: list[Any], index: int, body: Any) -> str:
    """One entry changed, every later hash computed again, and the checkpoint signed by the forger."""
    lines = json.loads(json.dumps(told))
    lines[index]["body"] = canonical(body)
    head = GENESIS
    for line in lines[1:-1]:
        head = line["hash"] = link(head, line["body"])
    lines[-1]["checkpoint"]["head"] = head
    lines[-1]["by"], lines[-1]["signature"] = FORGER.public, FORGER.sign(lines[-1]["checkpoint"])
    return json.dumps(lines)


def spoiled(kind: Kind, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Mutations of one kind of file that were taken wrongly, with what was wrong."""
    draw = random.Random(f"{kind.name} {seed}")
    for _ in range(count):
        text = kind.spoil(kind.good, draw)
        problem = kind.judge(text)
        if problem is not None:
            yield problem, text
