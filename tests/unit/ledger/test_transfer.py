"""A ledger moves between stores with the same head hash, and an altered export is refused."""

from __future__ import annotations

import json

import pytest

from crash.stores import fresh_schema, raised, spend
from crash.tampering import edited, furnished
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused
from tallystick.ledger import Budget, Ledger, Signer, import_ledger
from tallystick.ledger.chain import GENESIS, canonical, link
from tallystick.ledger.offline import verify_export


@pytest.fixture
def lines(tmp_path):
    with furnished(str(tmp_path / "original.db")) as ledger:
        return list(ledger.export(withheld=True))


def rows(ledger):
    with ledger.store.read() as transaction:
        names = {"accounts": (), "charges": (0,), "lines": (0,), "datasets": (), "answer_ids": (0,), "texts": (0,)}
        return {name: [tuple(row) for row in transaction.rows(name, *after)] for name, after in names.items()}


def test_sqlite_to_postgresql_and_back_keeps_the_head_and_every_row(tmp_path, postgres):
    with furnished(str(tmp_path / "first.db")) as first:
        head, content = first.head(), rows(first)
        exported = list(first.export(withheld=True))
    with import_ledger(exported, fresh_schema(postgres)) as second:
        assert (second.head(), rows(second)) == (head, content)
        assert second.verify().problems == ()
        again = list(second.export(withheld=True))
    assert again[:-1] == exported[:-1]
    with import_ledger(again, tmp_path / "third.db") as third:
        assert (third.head(), rows(third)) == (head, content)
        assert third.verify().problems == ()
        with pytest.raises(Exception) as caught, spend(third.open("a"), 1000, 7, key="block-0"):
            pass
        assert caught.value.answer == [1, 2.5, "three"]


def test_after_a_move_the_copy_left_behind_is_refused(tmp_path, lines):
    with import_ledger(lines, tmp_path / "new.db") as moved, spend(moved.open("people"), 1):
        pass
    with pytest.raises(LedgerIntegrity):
        Ledger(tmp_path / "original.db")


def test_an_old_export_is_refused_once_the_ledger_went_on(tmp_path, lines):
    with Ledger(tmp_path / "original.db") as ledger, spend(ledger.open("people"), 1):
        pass
    with pytest.raises(LedgerIntegrity, match="would be forgotten"):
        import_ledger(lines, tmp_path / "new.db")


def test_an_export_is_imported_only_into_an_empty_place(tmp_path, lines):
    with pytest.raises(Refused, match="already holds"):
        import_ledger(lines, tmp_path / "original.db")


def changed(line, **fields):
    return json.dumps({**json.loads(line), **fields})


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines[:5], *lines[6:]],
        lambda lines: [*lines[:-2], lines[-1]],
        lambda lines: [*lines, lines[-2]],
        lambda lines: [line.replace("5000", "5001") for line in lines],
        lambda lines: [line.replace("three", "four") for line in lines],
        lambda lines: [changed(line, answer="null") if '"answer"' in line else line for line in lines],
        lambda lines: [*lines[:-1], changed(lines[-1], signature="00" * 64)],
        lambda lines: [*lines[:-1], changed(lines[-1], by="zz")],
        lambda lines: [changed(lines[0], ledger="0" * 32), *lines[1:]],
    ],
)
def test_a_damaged_export_is_refused_and_nothing_is_kept(tmp_path, lines, damage):
    with pytest.raises(LedgerIntegrity):
        import_ledger(damage(lines), tmp_path / "new.db")
    with import_ledger(lines, tmp_path / "new.db") as ledger:
        assert ledger.verify().problems == ()


@pytest.mark.parametrize("text", [[], [""], ["{}"], ["not json"], ["[1]"], ["[" * 100_000], ['{"format": "other"}']])
def test_what_is_not_an_export_is_refused(tmp_path, text):
    with pytest.raises(InvalidInput):
        import_ledger(text, tmp_path / "new.db")


@pytest.mark.parametrize("seq", [True, 1.0, "1", None])
def test_what_is_only_equal_to_the_number_of_an_entry_is_none(tmp_path, lines, seq):
    """Found by the campaign of spoiled files: true == 1."""
    first = json.loads(lines[1])
    assert first["seq"] == 1
    lines[1] = json.dumps({**first, "seq": seq})
    with pytest.raises(LedgerIntegrity, match="no number"):
        import_ledger(lines, tmp_path / "new.db")


SPOILED = {
    "a field of a line that is not read": lambda line: line.update(note="0") if line.get("seq") == 2 else None,
    "a number that is only equal": lambda line: line.update(seq=True) if line.get("seq") == 1 else None,
    "an answer beside another entry": lambda line: line.update(answer=None) if line.get("seq") == 2 else None,
    "a field of the last line": lambda line: line.update(note="0") if "checkpoint" in line else None,
    "a lower level": lambda line: line.update(level="chain") if "level" in line else None,
    "another level": lambda line: line.update(level="record") if "level" in line else None,
    "no answer": lambda line: line.pop("answer", None),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_line_of_an_export_says_what_its_level_says_and_nothing_else(tmp_path, lines, name):
    data = [json.loads(line) for line in lines]
    for line in data:
        SPOILED[name](line)
    spoiled = [canonical(line) for line in data]
    assert spoiled != lines
    assert verify_export(lines).problems == ()
    assert verify_export(spoiled).problems
    assert raised(lambda: import_ledger(spoiled, tmp_path / "new.db")) in ("LedgerIntegrity", "InvalidInput")


def rewritten(lines, change):
    """The export with other entries, which are linked and signed again."""
    signer, head, found = Signer(b"m" * 32), GENESIS, []
    for line in map(json.loads, lines):
        if "body" in line:
            body = json.loads(line["body"])
            change(body)
            head = link(head, canonical(body))
            line |= {"body": canonical(body), "hash": head}
        if "checkpoint" in line:
            said = {**line["checkpoint"], "head": head}
            line = {"checkpoint": said, "by": signer.public, "signature": signer.sign(said)}
        found.append(canonical(line))
    return found


@pytest.mark.parametrize("text", ["\ud800", "people\0"])
def test_text_that_a_server_cannot_hold_is_refused_in_words(lines, postgres, text):
    forged = rewritten(lines, lambda body: body.update(principal=text) if "principal" in body else None)
    with pytest.raises(LedgerIntegrity, match="cannot hold this value"):
        import_ledger(forged, fresh_schema(postgres))


def test_an_export_cannot_name_a_file_outside_the_anchors(tmp_path, config):
    body = canonical({"kind": "genesis", "at": 0, "format": "tallystick/ledger/2", "ledger": "../../escaped"})
    signer, head = Signer.of_user(), link(GENESIS, body)
    checkpoint = {"ledger": "../../escaped", "seq": 1, "head": head, "at": 0}
    forged = [
        canonical({"format": "tallystick/export/1", "ledger": "../../escaped"}),
        canonical({"seq": 1, "hash": head, "body": body}),
        canonical({"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)}),
    ]
    with pytest.raises(InvalidInput):
        import_ledger(forged, tmp_path / "new.db")
    assert not list(tmp_path.rglob("escaped"))


def test_the_checkpoint_can_be_required_to_be_somebodys(tmp_path, lines):
    signer = json.loads(lines[-1])["by"]
    assert raised(lambda: import_ledger(lines, tmp_path / "a.db", by="00" * 32)) == "LedgerIntegrity"
    import_ledger(lines, tmp_path / "b.db", by=signer).close()


def test_a_signing_key_is_made_once_and_kept_private(config):
    first, second = Signer.of_user(), Signer.of_user()
    assert first == second
    assert (config / "signing_key").stat().st_mode & 0o777 == 0o600
    assert first.seed.hex() not in repr(first)
    (config / "signing_key").write_text("nonsense")
    assert raised(Signer.of_user) == "Unavailable"


DEEP = "[" * 100_000
UNREADABLE = {
    "deep": DEEP,
    "a deep field": '{"at":1,"kind":' + DEEP,
    "many digits": '{"kind":"close","at":' + "9" * 5000 + "}",
    "no number": '{"at":NaN,"kind":"close"}',
    "a list": "[]",
    "nothing": "",
    "null": "null",
    "no kind": '{"at":1,"kind":[]}',
    "no time": '{"\\ud800":1,"kind":"close"}',
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_entry_that_cannot_be_read_is_a_problem_and_not_a_crash(ledger, place, tmp_path, name):
    """Its hash is right: whoever can write to a ledger that is not governed can make such a chain."""
    people, body = ledger.open("people", budget=Budget.zcdp(1), unit="person"), UNREADABLE[name]
    lines, position = list(ledger.export()), ledger.head()
    head, signer = link(position.hash, body), Signer(b"m" * 32)
    said = {"ledger": ledger.id, "seq": position.seq + 1, "head": head, "at": 1}
    export = [
        *lines[:-1],
        canonical({"seq": position.seq + 1, "hash": head, "body": body}),
        canonical({"checkpoint": said, "by": signer.public, "signature": signer.sign(said)}),
    ]
    assert verify_export(export).problems
    assert raised(lambda: import_ledger(export, tmp_path / "copy.db")) == "LedgerIntegrity"
    edited(place, ("INSERT INTO entry VALUES (?, ?, ?)", (position.seq + 1, head, body)))
    assert ledger.verify().problems
    assert raised(lambda: spend(people, 1).begin()) == "LedgerIntegrity"
