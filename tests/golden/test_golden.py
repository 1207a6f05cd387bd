"""Data of format 2 opens, verifies, spends and replays: what a user keeps, a later version must still accept."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from golden import asked
from golden.asked import DELTA, ROOT
from golden.conftest import Golden, run
from tallystick.errors import (
    AlreadyCommitted,
    BudgetExceeded,
    InvalidInput,
    LedgerIntegrity,
    Quarantined,
    Refused,
    TallystickError,
)
from tallystick.ledger import import_ledger, journal
from tallystick.ledger.texts import NAMED

pytestmark = [pytest.mark.xdist_group("golden"), pytest.mark.filterwarnings("ignore")]


def amounts(account: Any) -> dict[str, list[int]]:
    found = {"limit": account.limit, "used": account.used, "left": account.remaining}
    return {name: [amount.a0, amount.a1] for name, amount in found.items()}


# The record.


def test_a_ledger_opens_with_the_numbers_that_it_was_left_with(golden: Golden) -> None:
    expected = golden.expected
    with golden.book() as book:
        assert (book.id, *book.head()) == (expected["ledger"], expected["entries"], expected["head"])
        accounts = {account.name: account for account in book.accounts()}
        assert set(accounts) == set(expected["accounts"])
        for name, facts in expected["accounts"].items():
            account = accounts[name]
            assert amounts(account) == {word: facts[word] for word in ("limit", "used", "left")}, name
            parent = account.parent
            assert (parent.name if parent else None) == facts["parent"], name
            found = (account.filter, account.unit, account.adjacency, account.closed, list(account.milestones))
            assert found == tuple(facts[w] for w in ("filter", "unit", "adjacency", "closed", "milestones")), name
            assert account.failures() == facts["failures"], name
            events = [[event.charge, event.amount.a0, event.amount.a1] for event in account.history()]
            assert events == facts["charges"], name


def test_the_ledgers_hold_every_kind_of_account_charge_and_mechanism(golden: Golden) -> None:
    expected = golden.expected
    accounts = expected["accounts"].values()
    assert {facts["filter"].partition("@")[0] for facts in accounts} == {"zcdp", "approx", "gdp", "rdp"}
    for word in ("closed", "parent", "milestones", "failures"):
        assert any(facts[word] for facts in accounts), word
    states = {state for _, state, *_ in expected["states"]}
    assert states == {"COMMITTED", "BURNED", "REFUNDED", "RESERVED", "EXECUTING"}
    with golden.book() as book:
        plans = [event.plan for account in book.accounts() for event in account.history()]
    missing = [kind for kind in asked.KINDS if not any(f'"kind":"{kind}"' in plan for plan in plans)]
    assert not missing


def test_every_charge_is_in_the_state_that_it_was_left_in(golden: Golden) -> None:
    found = golden.run("charge", "list").found["charges"]
    states = {each["charge"]: (each["state"], each["key"], each["why"]) for each in found}
    expected = {number: (state, key, why) for number, state, _, key, why in golden.expected["states"]}
    closed = {number for number, (state, *_) in states.items() if state == "CLOSED"}
    assert {expected[number][0] for number in closed} == {"BURNED"}  # withheld until its owner clears the data
    expected |= {number: ("CLOSED", *expected[number][1:]) for number in closed}
    assert states == expected
    assert len(expected) == golden.expected["charges"]


def test_verify_passes_with_every_receipt(golden: Golden) -> None:
    receipts = golden.files("receipts")
    assert len(receipts) > 20
    options = [word for path in receipts.values() for word in ("--receipt", str(path))]
    found = golden.run("ledger", "verify", *options).found
    assert (found["intact"], found["entries"], found["head"]) == (
        True,
        golden.expected["entries"],
        golden.expected["head"],
    )
    assert found["receipts"] == len(receipts)
    assert found["underpriced"] == []


@pytest.mark.usefixtures("own_copy")
def test_a_flipped_byte_in_an_entry_is_found(golden: Golden) -> None:
    seq = golden.expected["states"][40][0]
    change_entry(golden, seq)
    outcome = golden.run("ledger", "verify")
    assert outcome.code == LedgerIntegrity.exit_code
    assert f"entry {seq} does not have its hash" in outcome.out + outcome.errors


def change_entry(golden: Golden, seq: int) -> None:
    """Change one character of an entry in the store itself, past the triggers that forbid it."""
    if "://" in golden.ledger:
        import psycopg

        with psycopg.connect(golden.ledger, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            found = connection.execute("SELECT body FROM entry WHERE seq = %s", (seq,)).fetchone()
            assert found is not None
            changed = found[0].replace("golden", "Golden", 1)
            connection.execute("UPDATE entry SET body = %s WHERE seq = %s", (changed, seq))
        assert changed != found[0]
        return
    path = Path(golden.ledger)
    with golden.book() as book:
        number = book.charge_row(seq)[1]["request"].encode()
    content = path.read_bytes()
    assert content.count(b'"request":"' + number) == 1
    other = number[:-1] + (b"0" if number[-1:] != b"0" else b"1")
    path.write_bytes(content.replace(b'"request":"' + number, b'"request":"' + other))


@pytest.mark.usefixtures("own_copy")
def test_a_receipt_that_says_another_price_is_found(golden: Golden) -> None:
    path = golden.files("receipts")["histogram"]
    receipt = json.loads(path.read_text())
    receipt["lines"][0][3] += 1
    path.write_text(json.dumps(receipt))
    assert golden.run("ledger", "verify", "--receipt", str(path)).code == LedgerIntegrity.exit_code


# Spending.

BY_REGION = ("--by", "region", "--keys", str(ROOT / "regions.csv"))
NEW = {
    "visits": ("--measures", "count_units", "--rho", "0.02"),
    "costs": ("--measures", "count,sum(cost)", *BY_REGION, "--rho", "0.03"),
    "admissions": ("--measures", "count_units", "--rho", "0.02"),
    "rows": ("--measures", "count", "--epsilon", "0.5"),
}


@pytest.mark.usefixtures("own_copy")
def test_every_open_account_can_be_spent_from_and_no_more_than_is_left(golden: Golden) -> None:
    tried = 0
    with golden.book() as book:
        for name, facts in golden.expected["accounts"].items():
            account = book.open(name)
            options = {"delta": DELTA} if account.currency.kind == "approx" and facts["limit"][1] else {}
            about = {"adjacency": facts["adjacency"]}
            if facts["closed"]:
                with pytest.raises(TallystickError), account.charge(ts.gdp(mu=0.01, **about), why="closed", **options):
                    pass
                continue
            with pytest.raises(BudgetExceeded), account.charge(ts.pure_dp(epsilon=10_000, **about), why="x", **options):
                pass
            if facts["left"][0] == 0:
                continue
            before = account.used.a0
            with account.charge(ts.pure_dp(epsilon=0.05, **about), why="one more", **options) as charge:
                charge.answer = "paid"
            assert account.used.a0 > before, name
            tried += 1
        assert book.verify().intact
    assert tried > 20


@pytest.mark.usefixtures("own_copy")
def test_closed_data_stays_closed_and_its_owner_can_open_it(golden: Golden) -> None:
    question = ("query", "closed", "--measures", "count_units", "--rho", "0.1", "--why", "again")
    assert golden.run(*question).code == Quarantined.exit_code
    assert golden.run("dataset", "clear", "closed", "--why", "the owner looked").found["charges"]
    assert golden.run(*question).found["again"] is False


@pytest.mark.usefixtures("own_copy")
def test_registered_datasets_answer_new_questions(golden: Golden) -> None:
    for name, words in NEW.items():
        found = golden.run("query", name, *words, "--why", "new").found
        assert found["again"] is False, name
        assert found["charge"] > golden.expected["entries"], name


@pytest.mark.usefixtures("own_copy")
def test_leases_run_out_as_they_were_written(golden: Golden) -> None:
    later = golden.expected["made_at"] / 1000 + 3600
    with golden.book(clock=lambda: later) as book:
        assert book.recover() == (1, 1)
        assert book.verify().intact


def test_a_raised_limit_says_what_was_spent_so_far(golden: Golden) -> None:
    with golden.book() as book:
        account = book.open("raised twice")
        statement = account.so_far(delta=1e-4)
        assert float(statement.milestone.first) == 0.25
        assert statement.statements == 5
        with pytest.raises(Refused):
            account.raise_limit(ts.zcdp(rho=0.6), why="a limit only rises")


# Replay.


def test_every_charge_replays_its_stored_answer_under_its_key(golden: Golden) -> None:
    before, known = golden.used(), asked.losses()
    charged = golden.expected["losses"]["charged"]
    assert len(charged) > 120
    with golden.book() as book:
        for account_name, name in charged:
            account = book.open(account_name)
            options = {"delta": DELTA} if account.currency.kind == "approx" else {}
            key = f"{account_name}/{name}"
            loss = stored_loss(book, key) if name == OF_THIS_PROCESSOR else known[name]
            with pytest.raises(AlreadyCommitted) as earlier:
                account.charge(loss, why="golden", key=key, **options).begin()
            assert earlier.value.answer == {"loss": name}
    assert golden.used() == before


OF_THIS_PROCESSOR = "from_tradeoff function"
"""A loss whose knots come from a function: their last digits differ between processors, and so does the request."""


def stored_loss(book: ts.Ledger, key: str) -> ts.PrivacyLoss:
    """The loss of a charge as the ledger has it."""
    with book.store.read() as transaction:
        charge = journal.charge_under(transaction, book.principal, NAMED, key)
    assert charge is not None
    _, entry = book.charge_row(charge.id)
    return ts.PrivacyLoss.from_json(entry["plan"])


def test_losses_without_a_price_are_still_refused(golden: Golden) -> None:
    known = asked.losses()
    with golden.book() as book:
        for account_name, name in golden.expected["losses"]["refused"]:
            account = book.open(account_name)
            options = {"delta": DELTA} if account.currency.kind == "approx" else {}
            with pytest.raises(Refused):
                account.price(known[name], **options)


def test_answers_of_every_type_come_back_as_they_were(golden: Golden) -> None:
    with golden.book() as book:
        account = book.open("zcdp")
        for name, answer in asked.answers().items():
            with pytest.raises(AlreadyCommitted) as earlier:
                account.charge(ts.zcdp(rho=0.001), why="golden", key=f"zcdp/answer {name}").begin()
            assert same(earlier.value.answer, answer), name


def same(one: Any, two: Any) -> bool:
    """True if two answers have the same type and the same bits."""
    if type(one) is not type(two):
        return False
    if isinstance(two, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(two, float) and math.isnan(two):
        return math.isnan(one)
    return bool(one == two)


def test_mechanisms_give_the_number_that_was_paid_for(golden: Golden) -> None:
    before = golden.used()
    with golden.book() as book:
        for name, (mechanism, value) in asked.mechanisms().items():
            ending = " replace" if mechanism.privacy.adjacency == "replace" else ""
            account = book.open(f"approx{ending}")
            answer = account.release(mechanism, value, why="golden", key=f"mechanism/{name}", delta=DELTA)
            assert plain(answer) == golden.expected["mechanisms"][name], name
    assert golden.used() == before


def plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def read_again(found: str, stored: str, measures: Iterable[tuple[str, Any]]) -> int:
    """Compare a table with the stored one; return how many values of quotients it has no longer.

    Everything has the same bytes, except for means, variances and standard deviations (see "Read differently since" in
    the README). They have the same value, or no value if the released count does not exclude 0. Their intervals hold
    the earlier ones. A quantile has the same interval, and no value if that is all of its bounds.
    """
    kinds = {name: each if isinstance(each, dict) else each.to_data() for name, each in measures}
    quotients = [name for name, each in kinds.items() if each["kind"] in ("mean", "variance")]
    quantiles = {name: each for name, each in kinds.items() if each["kind"] == "quantile"}
    now, before = (list(csv.DictReader(io.StringIO(text, newline=""))) for text in (found, stored))
    assert found.splitlines()[0] == stored.splitlines()[0]
    assert len(now) == len(before)
    gone = 0
    for new, old in zip(now, before, strict=True):
        ends = {f"{name}{end}" for name in quotients for end in ("_lower", "_upper")}
        for name in old.keys() - set(quotients) - ends - set(quantiles):
            assert new[name] == old[name], name
        for name, each in quantiles.items():
            interval = float(new[f"{name}_lower"]), float(new[f"{name}_upper"])
            is_hidden = interval == (each["lower"], each["upper"])
            assert new[name] == ("" if is_hidden else old[name]), name
        for name in quotients:
            gone += not new[name] and bool(old[name])
            assert new[name] in (old[name], ""), name
            assert float(new[f"{name}_lower"]) <= float(old[f"{name}_lower"]), name
            assert float(new[f"{name}_upper"]) >= float(old[f"{name}_upper"]), name
    return gone


def test_saved_plans_are_published_again_with_the_same_numbers_and_no_charge(golden: Golden, tmp_path: Path) -> None:
    before, gone = golden.used(), {}
    plans, tables = golden.files("plans"), golden.files("tables", ".csv")
    assert set(plans) == set(golden.expected["plans"])
    for name in golden.few(golden.expected["plans"]):
        facts = golden.expected["plans"][name]
        out = tmp_path / f"{name}.csv"
        key = () if name == "total" else ("--key", facts["key"])
        found = golden.run("publish", "run", str(plans[name]), "--why", "golden", *key, "--out", str(out)).found
        assert (found["again"], found["charge"], found["key"]) == (True, facts["charge"], facts["key"]), name
        assert found["plan_hash"] == facts["hash"], name
        measures = json.loads(plans[name].read_text())["plan"]["query"]["measures"]
        stored = tables[name].read_bytes().decode()
        gone[name] = read_again(out.read_bytes().decode(), stored, measures)
    assert golden.used() == before
    assert 0 in gone.values()


def test_saved_plans_load_with_the_same_hash(golden: Golden) -> None:
    from tallystick.tables.plan import Plan

    with golden.book() as book:
        for name, facts in golden.expected["plans"].items():
            saved = json.loads(golden.files("plans")[name].read_text())
            account = book.open(book.datasets()[facts["dataset"]].account)
            text = json.dumps(saved["plan"])
            assert Plan.from_json(text, account=account).hash == facts["hash"] == saved["plan"]["hash"], name


@pytest.mark.usefixtures("own_copy")
def test_a_plan_with_another_price_is_refused(golden: Golden) -> None:
    path = golden.files("plans")["public groups"]
    path.write_text(path.read_text().replace('"rho": 0.2', '"rho": 0.1'))
    assert golden.run("publish", "run", str(path), "--why", "golden", "--key", "table/public groups").code == 4


def test_a_query_of_a_block_is_answered_again(golden: Golden, tmp_path: Path) -> None:
    before, out = golden.used(), tmp_path / "block.csv"
    found = golden.run(*golden.expected["queries"]["block"], "--out", str(out)).found
    assert found["again"] is True
    assert out.read_bytes() == golden.files("tables", ".csv")["block"].read_bytes()
    assert golden.used() == before


def test_tables_of_sources_without_a_registration_are_answered_again(golden: Golden) -> None:
    from tallystick.tables.plan import Plan

    before = golden.used()
    with golden.book() as book:
        account = book.open("zcdp")
        for name, facts in golden.expected["loose"].items():
            source = asked.memory() if name == "memory" else None
            plan = Plan.from_json(golden.files("loose")[name].read_text(), account=account, source=source)
            for each in (plan, asked.loose_plan(name, account)):
                made = each.release(why="golden", key=f"loose/{name}")
                assert (made.fresh, made.receipt.charge, made.plan.hash) == (False, facts["charge"], facts["hash"]), (
                    name
                )
                stored = golden.files("loose", ".csv")[name].read_bytes().decode()
                gone = read_again(made.to_csv(), stored, made.plan.query.measures)
                assert gone == 0 or name == "memory", name  # a table of three people
    assert golden.used() == before


def test_statements_are_answered_again_with_the_same_numbers(golden: Golden) -> None:
    before, tables = golden.used(), golden.files("sql", ".csv")
    with golden.book() as book:
        for name, options in asked.STATEMENTS.items():
            words = {**options, "public": {k: str(ROOT / v) for k, v in options.get("public", {}).items()}}
            answer = ts.sql(words.pop("text"), ledger=book, why="golden", **words)
            facts = golden.expected["statements"][name]
            assert (answer.fresh, answer.release.receipt.charge) == (False, facts["charge"]), name
            released = answer.statement.released
            fields = released.query.fields
            shown = [(output, fields[column]) for output, column in released.plain.items() if column in fields]
            read_again(answer.to_csv(), tables[name].read_bytes().decode(), shown)
    assert golden.used() == before


def test_models_of_registered_data_are_fitted_again_without_a_charge(golden: Golden, tmp_path: Path) -> None:
    before = golden.used()
    for name in golden.few(golden.expected["fits"]):
        facts = golden.expected["fits"][name]
        out = tmp_path / f"{name}.json"
        found = golden.run("fit", *facts["words"], "--why", "golden", "--key", f"fit/{name}", "--out", str(out)).found
        assert (found["again"], found["charge"]) == (True, facts["charge"]), name
        assert near(numbers(out), numbers(golden.files("models")[name])), name
    facts = golden.expected["suggest"]
    found = golden.run(*facts["words"], "--within", "0.95", "--why", "golden", "--key", "suggest").found
    assert (found["again"], found["charge"]) == (True, facts["charge"])
    assert found["caps"] == facts["caps"]["caps"]
    assert golden.used() == before


def numbers(path: Path) -> dict[str, Any]:
    """What a model file says, without its sentences."""
    model = json.loads(path.read_text())
    return {name: value for name, value in model.items() if name not in ("intervals_about", "no_intervals")}


def near(one: Any, two: Any) -> bool:
    """True if two models agree to 12 digits: linear algebra differs in the last ones between processors.

    Their noisy sums are stored, so a second draw would differ in the first digits.
    """
    if isinstance(two, dict):
        return one.keys() == two.keys() and all(near(one[name], two[name]) for name in two)
    if isinstance(two, list):
        return len(one) == len(two) and all(map(near, one, two))
    if isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-12)
    return bool(one == two)


def test_estimators_give_the_model_that_was_paid_for(golden: Golden) -> None:
    before = golden.used()
    features, targets, labels = asked.rows()
    with golden.book() as book:
        paid = {"account": book.open("approx"), "why": "golden"}
        for name, (make, wanted, found) in asked.models().items():
            model = make()
            known = labels if wanted == "labels" else targets
            model.fit(features, known, key=f"learn/{name}", delta=DELTA, **paid)
            assert near(plain(getattr(model, found)), golden.expected["learned"][name]), name
        model = asked.models()["logistic"][0]()
        model.fit(features, labels, key="learn/logistic", delta=DELTA, **paid)
        score = model.score(features, labels, epsilon=0.5, key="learn/score", **paid)
        assert score == golden.expected["score"]
    assert golden.used() == before


@pytest.mark.usefixtures("own_copy")
def test_a_training_run_goes_on_after_the_blocks_that_were_taken(golden: Golden) -> None:
    with golden.book() as book:
        for name, (payer, taken, options) in asked.RUNS.items():
            account = book.open(payer)
            before = account.used.a0
            block = options["block"]
            with account.training(asked.STEP, why="golden", key=f"run/{name}", **options) as again:
                first = again.step()
            assert first == -(-taken // block) * block, name
            assert (account.used.a0 > before) is not options.get("whole", False), name
        assert book.verify().intact


def test_a_charge_for_work_elsewhere_is_made_once(golden: Golden) -> None:
    before = golden.used()
    facts = golden.expected["elsewhere"]
    found = golden.run(*facts["words"]).found
    assert (found["fresh"], found["charge"]) == (False, facts["charge"])
    assert golden.used() == before


# What is kept beside a ledger.


def test_an_export_becomes_the_same_ledger_in_a_new_place(golden: Golden, tmp_path: Path) -> None:
    place = str(tmp_path / "imported.db")
    export = str(golden.folder / "export.jsonl")
    found = run("ledger", "import", export, "--by", golden.expected["key"], "--ledger", place, "--json").found
    assert (found["entries"], found["head"]) == (golden.expected["entries"], golden.expected["head"])
    imported = Golden(place, golden.folder, golden.expected)
    assert imported.used() == {name: tuple(facts["used"]) for name, facts in golden.expected["accounts"].items()}
    with imported.book() as book:
        assert book.verify().require().head == golden.expected["head"]


@pytest.mark.usefixtures("own_copy")
def test_an_altered_export_is_refused(golden: Golden, tmp_path: Path) -> None:
    export = golden.folder / "export.jsonl"
    text = export.read_text()
    assert text.count("the study is over") == 4
    export.write_text(text.replace("the study is over", "the study is OVER", 1))
    place = str(tmp_path / "imported.db")
    assert run("ledger", "import", str(export), "--ledger", place, "--json").code == LedgerIntegrity.exit_code


def test_cards_say_what_the_ledger_says(golden: Golden) -> None:
    pages, facts = golden.files("cards", ".html"), golden.files("cards", ".json")
    assert set(pages) == set(facts)
    assert len(pages) > 15
    for name in golden.few(sorted(set(pages) - {"training"})):
        assert golden.run("card", "verify", str(pages[name]), "--data-only").found["agrees"] is True, name
    data = ["card", "verify", str(facts["public groups"])]
    assert golden.run(*data, "--data-only").found["agrees"] is True
    assert golden.run(*data).code == Refused.exit_code, "words and intervals of an earlier card cannot be verified"
    table = str(golden.files("tables", ".csv")["public groups"])
    words = ["card", "verify", str(pages["public groups"]), "--table", table]
    assert golden.run(*words).code == Refused.exit_code, "the text of an earlier page cannot be verified"
    alone = golden.run(*words, "--data-only")
    assert alone.code == Refused.exit_code, "the intervals of an earlier table cannot be verified"
    assert "intervals of the published table" in alone.errors


def test_intervals_of_an_earlier_card_are_not_checked_and_verify_says_so(golden: Golden) -> None:
    pages = golden.files("cards", ".html")
    words = [["card", "verify", str(pages[name]), "--data-only"] for name in ("public groups", "server")]
    cards = [golden.run(*each).found for each in words]
    told = [each for found in cards for each in found["not_checked"] if "another version (tallystick 0.1.0)" in each]
    assert told
    parts = ("intervals and predicted errors (", "sentences (")
    assert all(each.startswith(parts) for each in told)
    assert any(each.startswith(parts[0]) for each in told)


def test_a_card_made_again_now_is_checked_to_the_letter(golden: Golden, tmp_path: Path) -> None:
    name, out = "public groups", tmp_path / "card.json"
    plan, key = golden.files("plans")[name], golden.expected["plans"][name]["key"]
    made = golden.run("publish", "run", str(plan), "--why", "golden", "--key", key, "--card", str(out)).found
    assert made["again"] is True
    found = golden.run("card", "verify", str(out)).found
    assert found["agrees"] is True
    assert "another version" not in str(found)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "another epsilon": lambda card: card["promise"].update(epsilon=card["promise"]["epsilon"] / 2),
    "values of other groups": lambda card: card["chart"][0]["value"].reverse(),
    "the name of another column": lambda card: card["chart"][0].update(field=card["chart"][1]["field"]),
    "fewer left out": lambda card: card["left_out"][0].update(value=card["left_out"][0]["value"] - 1),
}


def test_a_card_with_another_number_is_refused(golden: Golden, tmp_path: Path) -> None:
    text = golden.files("cards")["public groups"].read_text()
    for name, change in CHANGES.items():
        card = json.loads(text)
        change(card)
        assert card != json.loads(text), name
        path = tmp_path / "card.json"
        path.write_text(json.dumps(card))
        assert golden.run("card", "verify", str(path)).code == LedgerIntegrity.exit_code, name


def test_certificates_are_proved_again(golden: Golden) -> None:
    pytest.importorskip("flint")
    path = golden.files("certificates")["histogram"]
    assert run("certificate", "check", str(path), "--json").found["proved"] is True


def test_registrations_say_what_they_said(golden: Golden) -> None:
    with golden.book() as book:
        found = {
            name: {
                "account": each.account,
                "sources": sorted(each.sources),
                "least": each.least_price.a0,
                "notes": list(each.notes),
                "fixed": dict(each.fixed),
            }
            for name, each in book.datasets().items()
        }
    assert found == golden.expected["datasets"]
    listed = {each["name"] for each in golden.run("dataset", "list").found["datasets"]}
    assert {
        "visits",
        "stays",
        "costs",
        "people",
        "rows",
        "admissions",
        "wards",
        "closed",
        "cleared",
        "suggested",
    } == listed


def test_a_registration_in_the_words_of_a_program_is_kept(noted: Golden) -> None:
    with noted.book() as book:
        assert book.verify().require().head == noted.expected["head"]
        datasets = book.datasets()
        assert datasets["extract"].notes == ("an extract of 2026", "an extract of 2027")
        assert len(datasets["extract"].sources) == 2
        with book.open("people").charge(ts.zcdp(rho=0.1), why="one more") as charge:
            charge.answer = 1
        assert book.verify().intact
    found = noted.run("ledger", "verify", "--receipt", str(noted.files("receipts")["people"])).found
    assert found["receipts"] == 1


def test_the_dataset_commands_leave_the_words_of_a_program_alone(noted: Golden, tmp_path: Path) -> None:
    assert noted.run("dataset", "list").found["datasets"] == []
    path = tmp_path / "pupils.csv"
    path.write_text("pupil\n" + "".join(f"p{i}\n" for i in range(30)))
    limit = ("--limit", "rho=0.5,delta=1e-6")
    added = noted.run("dataset", "add", str(path), "--population", "pupils", "--unit", "pupil", *limit)
    assert added.code == 0, added.errors
    assert [each["name"] for each in noted.run("dataset", "list").found["datasets"]] == ["pupils"]
    price = ("--rho", "0.1", "--why", "x")
    assert noted.run("query", "pupils", "--measures", "count_units", *price).found["rows"]
    assert noted.run("sql", "SELECT COUNT(DISTINCT pupil) AS n FROM pupils", *price).found["rows"]
    refused = noted.run("query", "extract", "--measures", "count_units", *price)
    assert refused.code == InvalidInput.exit_code
    assert "a program registered this one" in refused.errors
    with noted.book() as book:
        assert book.datasets()["extract"].notes == ("an extract of 2026", "an extract of 2027")
        assert book.verify().intact


@pytest.mark.usefixtures("own_copy")
def test_an_anchor_still_refuses_an_older_copy(golden: Golden) -> None:
    anchors = list((golden.folder / "config" / "anchors").iterdir())
    assert [path.name for path in anchors] == [golden.expected["ledger"]]
    seq, head = golden.expected["entries"], golden.expected["head"]
    assert anchors[0].read_text() == f"{seq:020} {head}\n"
    anchors[0].write_text(f"{seq + 1:020} {head}\n")
    with pytest.raises(LedgerIntegrity):
        golden.book()


# Format 3.


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize("governed", [False, True], ids=["open", "governed"])
def test_after_the_upgrade_nothing_costs_again(golden: Golden, tmp_path: Path, governed: bool) -> None:
    """The first entry of format 3 changes nothing about answers, cards and receipts from before."""
    with golden.book() as book:
        paid = book.open("approx").charge(ts.pure_dp(epsilon=0.01), why="the first entry", key="new", delta=DELTA)
        paid.begin().commit("a new answer")
        if governed:
            book.govern(why="a team uses it")
    with golden.book() as book, book.store.read() as transaction:
        rows = transaction.rows("entries_after", golden.expected["entries"], 10)
    kinds = [json.loads(body)["kind"] for _, _, body in rows]
    assert kinds == ["upgrade", "begin", "commit", *(["govern"] if governed else [])]
    before = golden.used()
    test_every_charge_replays_its_stored_answer_under_its_key(golden)
    test_answers_of_every_type_come_back_as_they_were(golden)
    test_mechanisms_give_the_number_that_was_paid_for(golden)
    test_statements_are_answered_again_with_the_same_numbers(golden)
    if governed:  # every answer is checked against the list that its owner vouches for
        test_saved_plans_are_published_again_with_the_same_numbers_and_no_charge(golden, tmp_path)
        test_a_charge_for_work_elsewhere_is_made_once(golden)
        test_cards_say_what_the_ledger_says(golden)
        test_registrations_say_what_they_said(golden)
    assert golden.used() == before
    with golden.book() as book:
        report = book.verify()
        assert (report.problems, report.sealed) == ((), governed)
        assert report.entries == golden.expected["entries"] + len(kinds)  # nothing else was written


@pytest.mark.usefixtures("own_copy")
def test_an_upgraded_ledger_moves_to_a_new_place_with_its_old_and_new_answers(golden: Golden, tmp_path: Path) -> None:
    with golden.book() as book:
        paid = book.open("approx").charge(ts.pure_dp(epsilon=0.01), why="the first entry", key="new", delta=DELTA)
        paid.begin().commit("a new answer")
        lines, head = list(book.export(withheld=True)), book.head().hash
    with import_ledger(lines, tmp_path / "copy.db", expect_head=head):
        pass
    moved = Golden(str(tmp_path / "copy.db"), golden.folder, golden.expected)
    test_every_charge_replays_its_stored_answer_under_its_key(moved)
    test_mechanisms_give_the_number_that_was_paid_for(moved)
    with moved.book() as book:
        assert book.verify().problems == ()
        again = book.open("approx").charge(ts.pure_dp(epsilon=0.01), why="again", key="new", delta=DELTA)
        with pytest.raises(AlreadyCommitted) as earlier:
            again.begin()
        assert earlier.value.answer == "a new answer"
