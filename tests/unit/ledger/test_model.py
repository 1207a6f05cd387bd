"""The ledger and a hundred-line reference model, driven by Hypothesis on both stores."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from crash.stores import fresh_schema
from crash.twin import KEYS, NAMES, SOURCES, Twin, random_step
from tallystick.ledger import journal

line = st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.integers(0, 2))
lines = st.lists(line, min_size=1, max_size=3, unique_by=lambda item: item[0]).map(tuple)
index = st.integers(0, 30)


class Machine(RuleBasedStateMachine):
    server: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        place = fresh_schema(self.server) if self.server else str(self.folder / "budget.db")
        self.twin = Twin(place, self.folder / "config")

    @rule(
        key=st.sampled_from(KEYS),
        lines=lines,
        lease=st.sampled_from([10.0, 100.0]),
        started=st.booleans(),
        source=st.sampled_from(SOURCES),
    )
    def take(self, key, lines, lease, started, source):
        self.twin.take(key, lines, lease, started, source)

    @rule(name=st.sampled_from(NAMES))
    def clear(self, name):
        self.twin.clear(name)

    @rule(which=index, lease=st.sampled_from([10.0, 100.0]), started=st.booleans())
    def again(self, which, lease, started):
        self.twin.again(which, lease, started)

    @rule(which=index, action=st.sampled_from(["start", "commit", "burn", "refund"]))
    def move(self, which, action):
        self.twin.move(which, action)

    @rule(which=index, lease=st.sampled_from([10.0, 100.0]))
    def renew(self, which, lease):
        self.twin.renew(which, lease)

    @rule(seconds=st.sampled_from([1.0, 10.0, 60.0]))
    def wait(self, seconds):
        self.twin.wait(seconds)

    @rule()
    def recover(self):
        self.twin.recover()

    @rule(name=st.sampled_from(NAMES), limit=st.tuples(st.integers(1, 20), st.integers(0, 6)))
    def raise_limit(self, name, limit):
        self.twin.raise_limit(name, limit)

    @rule(name=st.sampled_from(NAMES), really=st.integers(0, 9))
    def close(self, name, really):
        if really == 0:
            self.twin.close(name)

    def teardown(self):
        self.twin.finish()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_ledger_does_what_the_model_says(store, request):
    Machine.server = request.getfixturevalue("postgres") if store == "postgres" else None
    examples = 25 if store == "sqlite" else 12
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None, derandomize=True)
    )


@pytest.mark.parametrize(
    ("mistake", "replacement"),
    [
        ("_rise", lambda *given: given[-1]),
        ("admit", lambda transaction, source, lines: None),
        ("_sources", lambda transaction, charge: (None, [])),
        ("_give_back", lambda transaction, line: None),
        ("burn", lambda transaction, charge, at, why, principal: None),
        ("_meet", lambda transaction, charge, request, at, started: journal.Claim(charge, True)),
    ],
)
def test_the_comparison_notices_a_broken_ledger(mistake, replacement, monkeypatch, tmp_path):
    monkeypatch.setattr(journal, mistake, replacement)
    with pytest.raises(AssertionError):
        walk(tmp_path)


def test_a_fence_that_is_not_raised_is_noticed(monkeypatch, tmp_path):
    honest = journal.lease
    monkeypatch.setattr(journal, "lease", lambda *given, take: honest(*given, take=False))
    with pytest.raises(AssertionError):
        walk(tmp_path)


def walk(folder):
    draw = random.Random(7)
    for number in range(20):
        twin = Twin(str(folder / f"{number}.db"))
        for _ in range(60):
            random_step(twin, draw)
        twin.finish()


def test_random_walks_exercise_every_transition_and_every_kind_of_entry(tmp_path):
    import json

    from tallystick.ledger.authority import ROLE_KINDS
    from tallystick.ledger.replay import _ACTIONS, Book

    draw, seen, kinds = random.Random(1), set(), set()
    for number in range(12):
        twin = Twin(str(tmp_path / f"{number}.db"))
        for _ in range(80):
            random_step(twin, draw)
        book = Book()
        with twin.ledger.store.read() as transaction:
            entries = transaction.rows("entries_after", 0, 10_000)
        for seq, _, body in entries:
            entry = json.loads(body)
            kinds.add(entry["kind"])
            before = book.charges.get(entry.get("charge"))
            book.apply(seq, body)
            after = book.charges.get(entry.get("charge", seq))
            if after is not None:
                seen.add((before.state if before else "", after.state))
        twin.finish()
    others = {"first_use", "older"}  # another host, or after a loss: test_first_write.py
    others |= {"govern", "key_add", "key_retire", "erase", "upgrade"}  # test_governance.py, test_erasure.py, golden
    others |= {"roles", "principal_add", *ROLE_KINDS}  # test_roles.py, test_roles_attacks.py
    assert kinds == set(_ACTIONS) - others
    assert seen == {
        ("", "RESERVED"),
        ("", "EXECUTING"),
        ("RESERVED", "RESERVED"),
        ("RESERVED", "EXECUTING"),
        ("RESERVED", "REFUNDED"),
        ("EXECUTING", "EXECUTING"),
        ("EXECUTING", "COMMITTED"),
        ("EXECUTING", "BURNED"),
    }
