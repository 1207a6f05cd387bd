"""The column names on the card of a statement are those of the statement that was paid for, or are not checked."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.cards import Card, card, check_card
from tallystick.cli.app import run
from tallystick.errors import IdempotencyConflict

ASKED = "SELECT SUM(a) AS x, SUM(b) AS y FROM visits"
OTHER = "SELECT SUM(a) AS y, SUM(b) AS x FROM visits"


@pytest.fixture
def book(tmp_path: Path) -> Any:
    rows = "".join(f"p{i},{i % 10},{100 + i % 10}\n" for i in range(60))
    (tmp_path / "visits.csv").write_text("patient,a,b\n" + rows)
    with ts.Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


def asked(book: Any, statement: str = ASKED, **options: Any) -> Any:
    account = book.open("people", budget=ts.zcdp(rho=9, delta=1e-6), unit="person")
    source = str(Path(book.store.place.path).parent / "visits.csv")
    types = {"a": "number", "b": "number"}
    private = ts.Private(source, account=account)
    table = private.table("visits", unit="patient", types=types)
    table = table.per_unit(max_groups=1, max_rows_per_group=1).bounds(a=(0, 10), b=(0, 200))
    return private.sql(statement, table, why="report", rho=1, **options)


def swapped(made: Card) -> Card:
    """The same card with the two names exchanged wherever they stand."""
    facts = copy.deepcopy(dict(made.facts))
    names = facts["again"]["names"]
    (first, x), (second, y) = sorted(names.items())
    facts["again"]["names"] = {first: y, second: x}
    renamed = {x: y, y: x, f"{x}_limited": f"{y}_limited", f"{y}_limited": f"{x}_limited"}
    lines = [("name", facts["released"]["measures"]), ("field", facts["chart"])]
    lines += [("column", facts["error"]["columns"]), ("column", facts["error"]["released"])]
    for word, rows in lines:
        for row in rows:
            row[word] = renamed[row[word]]
    return Card(facts)


def part(made: Card, book: Any, what: str = "column names") -> Any:
    [found] = [finding for finding in check_card(made, book) if finding.what == what]
    return found


def wrong(made: Card, book: Any) -> list[str]:
    return [finding.what for finding in check_card(made, book) if not finding.holds]


def test_a_card_with_swapped_names_is_rejected(book: Any) -> None:
    made = card(asked(book))
    assert wrong(made, book) == []
    assert part(made, book).against == "the names that were stored with the answer"
    assert wrong(swapped(made), book) == ["column names"]


def test_the_command_rejects_swapped_names(book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = card(asked(book))
    for name, each, code in (("true", made, 0), ("swapped", swapped(made), 6)):
        path = tmp_path / f"{name}.html"
        each.save(path)
        assert run(["card", "verify", str(path), "--ledger", str(book.store.place.path)]) == code
    assert "column names: the statement that was paid for has other names" in capsys.readouterr().err


def test_what_was_not_checked_is_listed(book: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card(asked(book)).save(tmp_path / "card.json")
    words = ["card", "verify", str(tmp_path / "card.json"), "--ledger", str(book.store.place.path)]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert "column names: the names that were stored with the answer" in found["checked"]
    assert [text.split(":")[0] for text in found["not_checked"]] == [
        "name of the dataset",
        "decisions people made (period, reasons, contact)",
        "text of the page (HTML)",
        "published table (CSV)",
        "author of the card",
    ]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "not checked  name of the dataset: the ledger has no registration of this name" in said


def test_other_names_under_the_same_key_are_another_request(book: Any) -> None:
    first = asked(book, key="k")
    assert not asked(book, key="k").fresh
    used = book.open("people").used
    with pytest.raises(IdempotencyConflict):
        asked(book, OTHER, key="k")
    assert book.open("people").used == used
    assert first.rows == asked(book, key="k").rows


def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charge as an earlier version did: no names in the request, none in the answer."""
    from tallystick.tables.run import Asked
    from tallystick.tables.sources import Names

    monkeypatch.setattr(Asked, "request", property(lambda self: self._request(None)))
    monkeypatch.setattr(Names, "to_data", lambda self: {})


def test_an_answer_of_an_earlier_version_is_found_again_without_a_charge(book: Any, monkeypatch: Any) -> None:
    with monkeypatch.context() as patched:
        older(patched)
        first = asked(book, key="k")
    used = book.open("people").used
    again = asked(book, key="k")
    assert not again.fresh
    assert again.rows == first.rows
    assert book.open("people").used == used
    made = card(again)
    assert wrong(made, book) == []
    assert "earlier version" in part(made, book).not_checked
    assert "earlier version" in part(swapped(made), book).not_checked


def test_the_first_digest_of_a_statement_has_its_names(book: Any) -> None:
    answer = asked(book)
    charge = answer.release.receipt.charge
    from tallystick.tables.run import Asked
    from tallystick.tables.sql.answer import names_of

    plan = answer.release.plan
    made = Asked.of(plan, plan.account, answer.statement.released.known.dataset or None)
    assert book.is_about(charge, made.request) is False
    assert book.is_about(charge, made._request(names_of(answer.statement, None).called)) is True


def test_statements_that_share_an_answer_keep_sharing_it(book: Any) -> None:
    first = asked(book, version="2026")
    used = book.open("people").used
    second = asked(book, OTHER, version="2026")
    assert not second.fresh
    assert book.open("people").used == used
    assert part(card(first), book).is_checked
    assert "share this answer" in part(card(second), book).not_checked
    assert wrong(card(second), book) == []
    assert second.rows[0]["y"] == first.rows[0]["x"]


def test_the_table_of_a_statement_is_not_called_changed(book: Any) -> None:
    answer = asked(book)
    findings = check_card(card(answer), book, table=answer.to_csv())
    [found] = [finding for finding in findings if finding.what == "published table (CSV)"]
    assert (found.problem, found.is_unverified) == ("", True), "it is not called changed, and it is not verified"
