"""Replaying the chain refuses every entry that no correct ledger could contain, however well it is hashed."""

from __future__ import annotations

import json

import pytest

from crash.stores import charge_rows
from crash.tampering import furnished
from tallystick.errors import Refused
from tallystick.ledger import Ledger
from tallystick.ledger.chain import canonical, digest
from tallystick.ledger.replay import FORMAT_2, SHAPES_3, Book, Broken


@pytest.fixture
def entries(tmp_path):
    with furnished(str(tmp_path / "budget.db")) as ledger, ledger.store.read() as transaction:
        return [json.loads(row[2]) for row in transaction.rows("entries_after", 0, 1000)]


@pytest.fixture
def seq_of(tmp_path, entries):
    """The entries of charges by the texts of their keys."""
    with Ledger(tmp_path / "budget.db") as ledger, ledger.store.read() as transaction:
        return {row[2]: row[0] for row in charge_rows(transaction)}


LATE = digest("late")
"""Stands for the commitment of a key that no other charge has."""


def replayed(entries):
    book = Book()
    for seq, entry in enumerate(entries, 1):
        book.apply(seq, canonical(entry))
    return book


def first(entries, kind):
    return next(number for number, entry in enumerate(entries) if entry["kind"] == kind)


def test_the_honest_chain_replays(entries):
    book = replayed(entries)
    assert {charge.state for charge in book.charges.values()} == {
        "RESERVED", "EXECUTING", "COMMITTED", "REFUNDED", "BURNED",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fields", "rule"),
    [
        ("open", {"limit": [0, 0]}, "limit is wrong"),
        ("open", {"limit": [5, -1]}, r"whole number|least cost"),
        ("open", {"filter": "pld"}, "cannot be read"),
        ("begin", {"lines": []}, "lines are missing"),
        ("begin", {"lines": [[99, 1, 0]]}, "cannot be read"),
        ("begin", {"lines": [[3, -1, 0]]}, r"whole number|least cost"),
        ("begin", {"lines": [[3, 9 * 10**12, 0]]}, "passes its limit"),
        ("begin", {"lines": [[3, 1, 0], [2, 1, 0]]}, "out of order"),
        ("begin", {"plan": "other"}, "its hash"),
        ("commit", {"fence": 2}, "fence"),
        ("commit", {"charge": 999}, "cannot be read"),
        ("commit", {"kind": "refund"}, "refund of a charge that is EXECUTING"),
        ("commit", {"kind": "start"}, "start of a charge that is EXECUTING"),
        ("commit", {"kind": "lease", "fence": 2, "lease_until": 5}, "fence"),
        ("burn", {"kind": "invented"}, "no known kind"),
        ("refund", {"kind": "commit", "answer_hash": "0" * 64}, "commit of a charge that is RESERVED"),
        ("begin", {"lines": [[3, 1.0, 0]]}, r"whole number|least cost"),
        ("begin", {"lines": [[3, True, 0]]}, r"whole number|least cost"),
        ("begin", {"lines": [[3, 2**70, 0]]}, r"whole number|least cost"),
        ("open", {"limit": [2**70, 0]}, r"whole number|least cost"),
        ("open", {"limit": [5.5, 0]}, r"whole number|least cost"),
        ("register", {"least": 0}, r"whole number|least cost"),
        ("register", {"least": 1.5}, r"whole number|least cost"),
        ("register", {"account": 999}, "cannot be read"),
        ("register", {"fixed": {"unit": None}}, "whom it protects"),
        ("clear", {"rows": []}, "nothing is cleared"),
        ("clear", {"why": " "}, "why is not a hash"),
        ("clear", {"rows": [[3, 2]]}, "cannot be read"),
        ("raise", {"limit": [1, 0]}, "limit falls"),
        ("raise", {"was": [1, 0]}, "another limit"),
        ("raise", {"why": "another reason"}, "why is not a hash"),
        ("raise", {"why": "0" * 64}, "signature"),
        ("begin", {"key": "a text"}, "key is not a hash"),
        ("begin", {"request": "a text"}, "request is not a hash"),
        ("begin", {"why": "a text"}, "why is not a hash"),
        ("begin", {"why": "A" * 64}, "why is not a hash"),
        ("begin", {"space": "theirs"}, "no known name space"),
        ("begin", {"software": {"python": 3}}, "software is not an object of texts"),
        ("begin", {"at": 5}, "its time is before"),
        ("begin", {"governed": 2}, "newest entry about keys"),
        ("commit", {"signature": "0" * 128, "release_key": "0" * 64}, "a signature before governance"),
        ("commit", {"signature": "0" * 127}, "signature is not a signature"),
        ("burn", {"principal": None}, "principal is not a text"),
        ("register", {"note": "a text"}, "note is not a hash"),
        ("close", {"why": "a text"}, "why is not a hash"),
        ("raise", {"limit": [9 * 10**12, 10**12]}, "signature"),
    ],
)
def test_an_entry_that_breaks_a_rule_is_refused(entries, kind, fields, rule):
    entry = entries[first(entries, kind)]
    entry.update(fields)
    shape = SHAPES_3.get(entry["kind"], entry) if "kind" in fields else entry
    for name in set(entry) - set(shape) - {"kind", "at"}:
        del entry[name]
    for name in set(shape) - set(entry):
        entry[name] = ""
    with pytest.raises(Broken, match=rule):
        replayed(entries)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("open", {"extra": 1}),
        ("open", {"unit": 7}),
        ("open", {"account_kind": "team"}),
        ("open", {"adjacency": "other"}),
        ("open", {"milestones": "[3, 2]"}),
        ("open", {"milestones": "[3,2]"}),
        ("open", {"milestones": "[true]"}),
        ("open", {"at": -1}),
        ("begin", {"why": None}),
        ("begin", {"lease_until": 10**30}),
        ("begin", {"source": 5}),
        ("register", {"fixed": {"unit": 5}}),
        ("register", {"note": {}}),
        ("commit", {"charge": True}),
        ("commit", {"answer_hash": None}),
        ("raise", {"was": [1]}),
    ],
)
def test_an_entry_of_another_form_is_refused(entries, kind, fields):
    entries[first(entries, kind)].update(fields)
    with pytest.raises(Broken):
        replayed(entries)


@pytest.mark.parametrize(
    ("again", "rule"),
    [
        ("genesis", "second first entry"),
        ("open", "two accounts"),
        ("begin", "two live charges"),
        ("commit", "commit of a charge that is COMMITTED"),
        ("burn", "burn of a charge that is BURNED"),
        ("refund", "refund of a charge that is REFUNDED"),
        ("close", "closed twice"),
        ("clear", "cleared twice"),
        ("raise", "another limit"),
    ],
)
def test_an_entry_repeated_is_refused(entries, again, rule):
    with pytest.raises(Broken, match=rule):
        replayed([*entries, entries[first(entries, again)]])


def test_a_block_that_may_not_be_parallel_is_refused(entries):
    block = next(entry for entry in entries if entry["kind"] == "open" and entry["parent"])
    block["partition"][2] = False
    with pytest.raises(Refused):
        replayed(entries)


def test_blocks_that_share_rows_are_refused(entries):
    blocks = [entry for entry in entries if entry["kind"] == "open" and entry["parent"]]
    for block in blocks:
        block["partition"][3:] = ["ward", [block["name"]]]
    replayed(entries)
    blocks[1]["partition"][4].append(blocks[0]["name"])
    with pytest.raises(Refused, match="share no value"):
        replayed(entries)
    blocks[1]["partition"][3:] = ["", []]
    with pytest.raises(Refused, match="one column"):
        replayed(entries)


def test_a_block_in_another_currency_is_refused(entries):
    block = next(entry for entry in entries if entry["kind"] == "open" and entry["parent"])
    block["filter"] = "approx"
    with pytest.raises(Broken, match="differs from its parent"):
        replayed(entries)


def test_a_charge_on_a_closed_account_is_refused(entries):
    number = first(entries, "close")
    account = entries[number]["account"]
    charge = {**entries[first(entries, "begin")], "at": newest(entries), "key": LATE, "lines": [[account, 1, 0]]}
    with pytest.raises(Broken, match="closed account"):
        replayed([*entries, charge])
    with pytest.raises(Broken, match="closed account"):
        replayed([*entries, {**entries[first(entries, "raise")], "at": newest(entries), "account": account}])


def newest(entries):
    return entries[-1]["at"]


def about(entries, source, *, account, amount, key=LATE):
    """A charge on a source, well formed in every other way."""
    begin = entries[first(entries, "begin")]
    return {**begin, "at": newest(entries), "key": key, "source": source, "lines": [[account, amount, 0]]}


def names(entries):
    return {entry["name"]: seq for seq, entry in enumerate(entries, 1) if entry["kind"] == "open"}


def test_a_charge_on_closed_data_is_refused(entries, seq_of):
    failed = entries[seq_of["failed guests"] - 1]
    accounts = names(entries)
    replayed([*entries, about(entries, "a" * 64, account=accounts["people"], amount=40)])
    for source, name in ((failed["source"], "people"), ("a" * 64, "guests")):
        with pytest.raises(Broken, match="closed data"):
            replayed([*entries, about(entries, source, account=accounts[name], amount=100)])


def test_a_charge_below_the_least_price_or_by_another_population_is_refused(entries, seq_of):
    accounts = names(entries)
    source = entries[first(entries, "register")]["source"]
    for bad, rule in (
        (about(entries, source, account=accounts["people"], amount=39), "least cost"),
        (about(entries, "b" * 64, account=accounts["a"], amount=39), "least cost"),
        (about(entries, source, account=accounts["guests"], amount=100), "closed data"),
    ):
        with pytest.raises(Broken, match=rule):
            replayed([*entries, bad])
    rows = [[seq_of["failed guests"], accounts["guests"]]]
    opened = {**entries[first(entries, "clear")], "at": newest(entries), "rows": rows}
    with pytest.raises(Broken, match="another population"):
        replayed([*entries, opened, about(entries, source, account=accounts["guests"], amount=100)])


def test_a_registration_that_changes_nothing_is_refused(entries):
    last = [entry for entry in entries if entry["kind"] == "register"][-1]
    with pytest.raises(Broken, match="changes nothing"):
        replayed([*entries, last])


def test_a_source_of_two_populations_is_refused(entries):
    other = {**entries[first(entries, "register")], "dataset": "stolen", "account": names(entries)["guests"]}
    with pytest.raises(Broken, match="two populations"):
        replayed([*entries, other])


@pytest.fixture
def earlier():
    """A chain of format 2: its texts are in the entries themselves."""
    genesis = {"kind": "genesis", "at": 9, "format": FORMAT_2, "ledger": "0" * 32}
    people = {
        "kind": "open", "at": 8, "name": "people", "parent": None, "partition": None, "account_kind": "population",
        "filter": "zcdp", "unit": "person", "adjacency": "add_remove", "milestones": "[]", "limit": [100, 0],
    }  # fmt: skip
    close = {"kind": "close", "at": 7, "account": 2, "why": "done"}
    return [genesis, people, close]


def test_a_chain_of_format_2_replays_with_its_texts_and_its_times(earlier):
    book = replayed(earlier)
    assert (book.since, book.kinds, book.accounts[2].state) == (None, {}, "closed")


def test_after_the_upgrade_texts_are_commitments_and_times_do_not_run_backwards(earlier):
    upgrade = {"kind": "upgrade", "at": 9, "format": "tallystick/ledger/3"}
    opened = {**earlier[1], "name": "guests", "at": 9}
    assert replayed([*earlier, upgrade, opened]).since == 4
    with pytest.raises(Broken, match="why is not a hash"):
        replayed([*earlier, upgrade, opened, {**earlier[2], "at": 9, "account": 5}])
    with pytest.raises(Broken, match="its time is before"):
        replayed([*earlier, {**upgrade, "at": 6}])
    with pytest.raises(Broken, match="its time is before"):
        replayed([*earlier, upgrade, {**opened, "at": 8}])
    with pytest.raises(Broken, match="second upgrade"):
        replayed([*earlier, upgrade, upgrade])
    with pytest.raises(Broken, match="no known kind"):
        replayed([*earlier, {**upgrade, "format": "tallystick/ledger/4"}])
    with pytest.raises(Broken, match="no known kind"):
        replayed([*earlier, {"kind": "erase", "at": 9, "principal": "a", "why": "0" * 64, "entries": [2]}])


@pytest.mark.parametrize(
    ("erased", "rule"),
    [
        ({"entries": [], "answers_of": []}, "nothing is erased"),
        ({"entries": [2], "answers_of": []}, "cannot be erased"),
        ({"entries": [999], "answers_of": []}, "cannot be erased"),
        ({"entries": ["register"], "answers_of": []}, "cannot be erased"),
        ({"entries": ["held"], "answers_of": []}, "running charge"),
        ({"entries": ["running"], "answers_of": []}, "running charge"),
        ({"entries": [], "answers_of": ["burned"]}, "not stored"),
        ({"entries": [], "answers_of": [2]}, "not stored"),
        ({"entries": ["block-1", "block-0"], "answers_of": []}, "rising"),
    ],
)
def test_an_erasure_of_what_must_stay_is_refused(entries, seq_of, erased, rule):
    numbers = {**seq_of, "register": first(entries, "register") + 1}
    named = {name: [numbers.get(each, each) for each in given] for name, given in erased.items()}
    entry = {"kind": "erase", "at": newest(entries), "principal": "local", "why": "0" * 64, **named}
    with pytest.raises(Broken, match=rule):
        replayed([*entries, entry])


def test_an_erasure_is_replayed_once(entries, seq_of):
    number = seq_of["block-0"]
    entry = {"kind": "erase", "at": newest(entries), "principal": "local", "why": "0" * 64}
    entry |= {"entries": [number], "answers_of": [number]}
    book = replayed([*entries, entry])
    assert (book.erased, book.erased_answers) == ({number}, {number})
    with pytest.raises(Broken, match="answer is erased twice"):
        replayed([*entries, entry, entry])
    with pytest.raises(Broken, match="text is erased twice"):
        replayed([*entries, entry, {**entry, "answers_of": []}])
