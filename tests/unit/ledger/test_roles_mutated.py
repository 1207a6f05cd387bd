"""Two checkers of roles, written apart, agree on every chain in which one thing was changed."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter

from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.ledger.authority import DAY
from tallystick.ledger.chain import canonical
from tallystick.ledger.pay import Charge, Terms
from tallystick.ledger.replay import Book, Broken


def spend(account, key, source=""):
    """A charge whose plan both checkers can read."""
    terms = Terms.of(((account, 10**9, 0),), '{"terms":[]}', "", source)
    return Charge(account.ledger, terms, why="test", key=key)


def chain(tmp_path, clock):
    """The entries of a ledger in which people did everything there is."""
    team = Team(str(tmp_path / "team.db"), clock)
    ledger, by = team.ledger, team.by
    by("bob").team.approve(team.raise_to("root", 2), why="ok")
    stale = [team.raise_to("root", 3), team.raise_to("cat", 4)]
    by("cat").team.approve(stale[0], why="ok")
    by("bob").team.approve(stale[1], why="void")
    by("cat").team.reject(team.raise_to("bob", 5), why="no")
    by("ann").team.withdraw(team.raise_to("ann", 6))
    by("root").team.break_glass(team.ids["eve"], "school", why="x")
    ledger.team.grant(ledger.team.add("machine:nightly"), "runner", "clinic", why="x")
    token = by("ann").team.make_token(population="clinic", ceiling=zcdp(rho=0.2))
    with spend(by("ann", token.seq).open("ann's"), "paid"):
        pass
    with spend(ledger.open("clinic"), "owner", "visits.csv"):
        pass
    by("ann").team.end_token(token.seq)
    for operation in (
        lambda book: book.open("clinic").register("visits", source="v.csv", fixed={"a": "b"}),
        lambda book: book.team.grant(team.ids["eve"], "owner", "clinic", why="x"),
        lambda book: book.team.grant(team.ids["amy"], "approver", "clinic", why="x"),
        lambda book: book.team.set_quorum("clinic", {"money": 2, "data": 0}, why="x"),
        lambda book: book.open("north", budget=zcdp(rho=0.5), parent=book.open("clinic")),
    ):
        by("bob").team.approve(team.request_of("root", operation), why="ok")
    spend(ledger.open("clinic"), "fails", "other.csv").begin().burn()
    ledger.open("clinic").clear(why="alone, as data need no approval")
    key = team.request_of("root", lambda book: book.add_key("cd" * 32, why="x"))
    for name in ("tia", "cat"):
        by(name).team.approve(key, why="ok")
    ledger.team.end(team.ids["max"], why="left")
    money = team.raise_to("root", 9)
    by("bob").team.approve(money, why="ok")
    by("amy").team.approve(money, why="ok")
    with ledger.store.read() as transaction:
        found = [json.loads(row[2]) for row in transaction.rows("entries_after", 0, 1000)]
    identity = ledger.id
    assert ledger.verify().problems == ()
    ledger.close()
    return identity, found


def problem_of(entries):
    book = Book()
    for seq, entry in enumerate(entries, 1):
        try:
            book.apply(seq, canonical(entry))
        except Broken:
            return seq
    return 0


def problem_of_stranger(stranger, identity, entries):
    ledger = stranger.Ledger(identity)
    for seq, entry in enumerate(entries, 1):
        try:
            ledger.apply(seq, copy.deepcopy(entry))
        except stranger.Problem:
            return seq
    return 0


def changed(entries, draw):
    """The chain with one value in the place of another of its field, or with one entry said by somebody else."""
    entries = copy.deepcopy(entries)
    number = draw.randrange(8, len(entries))
    entry = entries[number]
    if draw.random() < 0.1:
        days = draw.choice((1, 29, 31, 91, 366))
        for later in entries[number:]:
            later["at"] += days * DAY
        return number, "at", entries
    fields = [
        name
        for name in entry
        if name not in ("kind", "at", "governed", "signature", "by", "why", "ledger", "hash", "key")
    ]
    name = draw.choice([*fields, "act", "act"])
    if name == "effect" and draw.random() < 0.7:
        inner = draw.choice(sorted(entry["effect"]))
        values = [each["effect"].get(inner, 7) for each in entries if "effect" in each]
        values += [each[inner] for each in entries if inner in each]
        entry["effect"][inner] = draw.choice([each for each in values if type(each) is type(entry["effect"][inner])])
        return number, f"effect {inner}", entries
    others = [each[name] for each in entries if name in each and each[name] != entry[name]]
    if name == "act":
        act, place = list(entry["act"]), draw.choice((0, 0, 0, 1, 2))
        act[place] = draw.choice([each["act"][place] for each in entries if "act" in each] + [None] * (place > 0))
        entry["act"] = act
        if entry.get("principal") == entries[number]["act"][0]:
            entry["principal"] = act[0]
    elif type(entry[name]) is int:
        entry[name] = draw.choice([draw.randrange(1, len(entries)), entry[name] + 1])
    elif others:
        entry[name] = draw.choice(others)
    return number, name, entries


def test_both_checkers_agree_on_a_chain_that_was_changed(tmp_path, clock, stranger):
    identity, entries = chain(tmp_path, clock)
    assert problem_of(entries) == problem_of_stranger(stranger, identity, entries) == 0
    kinds = {entry["kind"] for entry in entries}
    assert {"request", "decision", "void", "withdraw", "break_glass", "token_end", "quorum", "principal_end"} <= kinds
    draw, seen = random.Random(34), Counter()
    for _ in range(ROUNDS):
        number, name, mutated = changed(entries, draw)
        mine, theirs = problem_of(mutated), problem_of_stranger(stranger, identity, mutated)
        assert mine == theirs, (number + 1, name, mutated[number], entries[number])
        seen[bool(mine)] += 1
    assert min(seen[True], seen[False]) > ROUNDS // 50, seen


ROUNDS = 150
