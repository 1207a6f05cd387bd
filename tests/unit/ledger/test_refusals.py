"""The rare refusals: each is met once, and says what is wrong."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import sys

import numpy as np
import pytest

import tallystick as ts
from crash.stores import fresh_schema, raised, spend
from crash.tampering import disarmed, furnished, rewritten, without_triggers
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Unavailable
from tallystick.ledger import Budget, Filter, Ledger, Signer, import_ledger, journal
from tallystick.ledger.chain import GENESIS, Anchor, AnchorFile, config_directory, link


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 10**12, 0), unit="person")


@pytest.fixture
def path(tmp_path):
    furnished(str(tmp_path / "budget.db")).close()
    return tmp_path / "budget.db"


def edited(path, *statements):
    """Run statements as an attacker would, with the triggers put back afterwards."""
    connection = disarmed(str(path))
    without_triggers(connection, lambda: [connection.execute(*statement) for statement in statements])
    connection.close()


def problems(path, tmp_path):
    with Ledger(path, create=False, config=tmp_path / "elsewhere") as ledger:
        return "; ".join(ledger.verify().problems)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM entry WHERE seq = 4", "entry 4 is missing"),
        ("DELETE FROM line WHERE a0 = 5000", "missing from the table"),
        ("INSERT INTO dataset VALUES ('made up', 1, 2, 2, NULL, 1, '')", "the table differs from the chain"),
        ("UPDATE answer SET body = '{\"int\":9}' WHERE charge_id = (SELECT min(charge_id) FROM answer)", "was altered"),
    ],
)
def test_verify_says_what_differs(path, tmp_path, statement, said):
    edited(path, (statement,))
    assert said in problems(path, tmp_path)


def test_an_entry_that_is_not_canonical_is_found_even_with_a_forged_chain(path, tmp_path):
    connection = disarmed(str(path))

    def edit():
        rewritten(connection, 10**9, lambda entry: None)
        seq, body = connection.execute("SELECT seq, body FROM entry ORDER BY seq DESC LIMIT 1").fetchone()
        before = connection.execute("SELECT hash FROM entry WHERE seq = ?", (seq - 1,)).fetchone()[0]
        spaced = body.replace(":", ": ", 1)
        connection.execute("UPDATE entry SET body = ?, hash = ? WHERE seq = ?", (spaced, link(before, spaced), seq))

    without_triggers(connection, edit)
    connection.close()
    assert "not canonical" in problems(path, tmp_path)


def test_a_ledger_whose_first_entry_is_foreign_is_refused(path, tmp_path):
    body = '{"at":1,"format":"something/else/1","kind":"genesis","ledger":"' + "0" * 32 + '"}'
    edited(path, ("UPDATE entry SET body = ?, hash = ? WHERE seq = 1", (body, link(GENESIS, body))))
    with pytest.raises(LedgerIntegrity, match="no valid first entry"):
        Ledger(path, config=tmp_path / "elsewhere")


def test_verify_notices_a_first_entry_that_changed_under_an_open_ledger(path, tmp_path):
    with Ledger(path, config=tmp_path / "elsewhere") as ledger:
        ledger.id = "f" * 32
        assert any("another ledger" in problem for problem in ledger.verify().problems)


def test_a_receipt_is_checked_in_every_part(ledger, people):
    with spend(people, 5, key="k") as charge:
        charge.answer = 1
    receipt = charge.receipt
    assert ledger.verify(receipts=(receipt,)).problems == ()
    for changed, said in (
        ({"ledger": "0" * 32}, "another ledger"),
        ({"seq": 10**6}, "older copy"),
        ({"charge": 10**6}, "older copy"),
        ({"head": "0" * 64}, "rewritten"),
        ({"answer_hash": "0" * 64}, "does not say"),
        ({"plan_hash": "0" * 64}, "does not say"),
        ({"lines": ((people.id, "people", "zcdp", 4, 0),)}, "does not say"),
        ({"lines": ((people.id, "others", "zcdp", 5, 0),)}, "does not say"),
    ):
        (found,) = ledger.verify(receipts=(dataclasses.replace(receipt, **changed),)).problems
        assert said in found


def test_an_answer_that_was_altered_is_not_handed_out(path, tmp_path):
    edited(path, ("UPDATE answer SET body = 'null'",))
    with Ledger(path, config=tmp_path / "elsewhere", first_use="another host") as ledger:
        block = ledger.open("a")
        with pytest.raises(LedgerIntegrity, match="was altered"), spend(block, 1000, 7, key="block-0"):
            pass


def test_missing_rows_are_named_and_nothing_is_granted(ledger, people):
    with pytest.raises(LedgerIntegrity, match="account 77"):
        ledger.account_by_id(77)
    with pytest.raises(InvalidInput):
        ledger.charge_row(77)
    with ledger.store.read() as transaction:
        with pytest.raises(LedgerIntegrity, match="entry 77"):
            journal.entry_body(transaction, 77)
        with pytest.raises(LedgerIntegrity, match="account 77"):
            journal.path_of(transaction, 77)
    with pytest.raises(LedgerIntegrity, match="account 77"), ledger.store.write("x") as transaction:
        journal.spend(transaction, journal.Line(77, 1, 0, ((77, None, None),)))
    assert ledger.head().seq == 2
    assert repr(ledger).endswith("at entry 2>")


def test_a_charge_committed_inside_its_block_is_not_committed_twice(people):
    with spend(people, 1, key="k", lease=60) as charge:
        receipt = charge.commit("early")
        assert charge.lease_until > 0
    assert charge.receipt == receipt
    assert [event.state for event in people.history()] == ["COMMITTED"]


def test_a_store_that_stays_away_burns_and_one_that_answers_late_does_not_commit_twice(place, clock):
    """Every attempt to commit is recorded but its reply is lost: the last one finds what the first one wrote."""
    lost = []

    def probe(point):
        if point == "commit: after COMMIT" and lost:
            lost.pop()
            raise Unavailable("the reply was lost")

    with Ledger(place, clock=clock, probe=probe) as ledger:
        ledger.store.pauses = (0.001, 0.001)
        people = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        lost.append(True)
        with spend(people, 1, key="late") as charge:
            charge.answer = 5
        assert charge.answer == 5

        def away():
            with spend(people, 1, key="away"):
                ledger.store.write = no_store

        def no_store(operation):
            raise Unavailable("gone")

        assert raised(away) == "Unavailable"
        del ledger.store.write
        assert [event.state for event in people.history()] == ["COMMITTED", "EXECUTING"]


def test_a_reply_that_came_too_late_is_found_after_the_last_pause(ledger, people):
    """Only the last attempt reaches the store, and finds that the first one had been written after all."""
    ledger.store.pauses = (0.001,)
    charge = spend(people, 1, key="k")
    charge.begin()
    honest, calls = charge._try_to_store, []

    def attempt(text):
        calls.append(text)
        found = honest(text)
        if len(calls) == 1:
            raise Unavailable("the reply was lost")
        return found

    charge._try_to_store = attempt
    assert charge.commit("once").charge == charge.id
    assert len(calls) == 2


def test_another_answer_found_in_its_place_is_refused(ledger, people):
    """The charge was committed by whoever took it over, with another answer: ours must not be handed out."""
    charge = spend(people, 1, key="k")
    charge.begin()
    honest = charge._try_to_store

    def usurped(text):
        charge._try_to_store = honest
        honest('{"int":1}')
        raise Unavailable("the reply was lost")

    charge._try_to_store = usurped
    with pytest.raises(Refused, match="no longer held"):
        charge.commit(2)


def test_a_delta_that_the_milestones_cannot_afford_is_refused(ledger):
    account = ledger.open("people", budget=Budget.zcdp(1, 1e-6), unit="person", milestones=[0.5])
    with pytest.raises(InvalidInput, match="more than"):
        account.so_far(delta=1e-6)
    approximate = ledger.open("others", budget=Budget.approx(1, 1e-6), unit="person", milestones=[0.5])
    with pytest.raises(InvalidInput, match="at least"):
        approximate.so_far(delta=1e-6)


def test_a_schema_with_tables_of_the_same_names_is_refused(postgres):
    import psycopg

    place = fresh_schema(postgres)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("CREATE TABLE account (id int)")
    with pytest.raises(LedgerIntegrity, match="another schema"):
        Ledger(place)


def test_without_the_driver_postgresql_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Unavailable, match="pip install"):
        Ledger("postgresql://localhost/none")


def test_a_mechanism_that_could_change_is_priced_every_time(people):
    class Growing:
        def __init__(self):
            self.sigma = 100.0

        @property
        def privacy(self):
            return ts.gaussian(sigma=self.sigma)

        def __call__(self, value):
            return value

    @dataclasses.dataclass(frozen=True)
    class Holding(Growing):
        sigmas: np.ndarray

        @property
        def privacy(self):
            return ts.gaussian(sigma=float(self.sigmas[0]))

    growing, holding = Growing(), Holding(np.array([100.0]))
    for mechanism in (growing, holding):
        before = people.used.a0
        people.release(mechanism, 1, why="once")
        small = people.used.a0 - before
        growing.sigma = holding.sigmas[0] = 10.0
        people.release(mechanism, 1, why="again")
        assert people.used.a0 - before == 101 * small
        growing.sigma = holding.sigmas[0] = 100.0


def test_one_mechanism_released_again_and_again_pays_each_time_and_in_its_own_account(ledger, people):
    mechanism = ts.noise.add_gaussian(sigma=100, sensitivity=1)
    others = ledger.open("others", budget=ts.gdp(mu=1), unit="person")
    for number in range(3):
        people.release(mechanism, 1.0, why="again", key=f"k{number}")
        others.release(mechanism, 1.0, why="again", key=f"o{number}")
    assert len({event.amount for event in people.history()}) == 1
    assert people.used.a0 == 3 * people.history()[0].amount.a0
    assert abs(others.used.a0 - 2 * people.used.a0) <= 6  # mu^2 is twice rho; each charge rounds up


def test_the_anchor_is_kept_where_the_user_keeps_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("TALLYSTICK_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_directory() == tmp_path / "tallystick"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_directory() == tmp_path / ".config" / "tallystick"


def test_an_anchor_never_goes_back(tmp_path):
    witness, other = AnchorFile("0" * 32, tmp_path), AnchorFile("0" * 32, tmp_path)
    witness.write(Anchor(9, "9" * 64))
    other.write(Anchor(5, "5" * 64))
    assert witness.read() == Anchor(9, "9" * 64)
    witness.path.unlink()
    assert AnchorFile("0" * 32, tmp_path).read() is None
    assert witness.read() == Anchor(9, "9" * 64)  # what it has seen itself it does not forget


def test_a_damaged_anchor_is_not_taken_for_none(tmp_path):
    witness = AnchorFile("0" * 32, tmp_path)
    witness.write(Anchor(9, "9" * 64))
    witness.path.write_bytes(b"garbage")
    with pytest.raises(LedgerIntegrity, match="is damaged"):
        AnchorFile("0" * 32, tmp_path).read()


@pytest.mark.parametrize("name", ["sync", "gate"])
def test_a_link_beside_the_ledger_is_not_followed(tmp_path, name):
    """A link that somebody planted there would make every reader write into the file it leads to."""
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config"):
        pass
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    (tmp_path / f"budget.db.{name}").unlink(missing_ok=True)
    (tmp_path / f"budget.db.{name}").symlink_to(precious)
    with pytest.raises(LedgerIntegrity, match="is a link"):
        ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config").head()
    assert precious.read_bytes() == b"precious"


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("ending", ["wal", "shm"])
def test_a_log_or_its_index_that_changes_while_the_ledger_is_open_is_noticed(tmp_path, ending, how):
    """Another process would get another log or index, and both could spend the last of a budget."""
    with ts.Ledger(tmp_path / "budget.db", config=tmp_path / "config") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=1))
        beside = tmp_path / f"budget.db-{ending}"
        content = beside.read_bytes() if ending == "wal" else bytes(32768)  # closing -shm would drop a lock
        if how == "replaced":
            (tmp_path / "other").write_bytes(content)
            (tmp_path / "other").replace(beside)
        else:
            beside.unlink()
        with pytest.raises(LedgerIntegrity, match="was removed or replaced"):
            account.release(ts.noise.add_gaussian(sigma=10, sensitivity=1), 5, why="x")
        assert "was removed or replaced" in ledger.verify().problems[0]


def test_two_processes_that_make_the_first_key_agree_on_one(tmp_path, monkeypatch):
    real = os.link

    def raced(source, target):
        target.write_text("ab" * 32)
        real(source, target)

    monkeypatch.setattr(os, "link", raced)
    assert Signer.of_user(tmp_path).public == Signer(bytes.fromhex("ab" * 32)).public
    assert os.listdir(tmp_path) == ["signing_key"]


def test_a_renewed_lease_survives_an_export(tmp_path, config, monkeypatch):
    with Ledger(tmp_path / "budget.db", config=config) as ledger:
        account = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        charge = spend(account, 1, key="k").reserve()
        charge.renew(lease=10_000)
        lines = list(ledger.export())
    with import_ledger(lines, tmp_path / "copy.db", config=config) as copy:
        assert copy.charge_row(charge.id)[0].lease_until == charge.lease_until
        assert copy.verify().problems == ()
    monkeypatch.setattr("tallystick.ledger.transfer.LONGEST_LINE", 100)
    with pytest.raises(InvalidInput, match="characters"):
        import_ledger(lines, tmp_path / "third.db", config=config)


def test_no_loss_and_no_finite_loss_have_their_prices(people):
    assert people.price(ts.no_loss()).a0 == 0
    with pytest.raises(Refused, match="no finite zCDP cost"):
        people.price(ts.discrete_pair([0.5, 0.5], [1.0, 0.0]))


def test_an_entry_that_is_no_json_is_found_even_with_a_forged_chain(path, tmp_path):
    connection = disarmed(str(path))

    def edit():
        seq = connection.execute("SELECT max(seq) FROM entry").fetchone()[0]
        before = connection.execute("SELECT hash FROM entry WHERE seq = ?", (seq - 1,)).fetchone()[0]
        connection.execute("UPDATE entry SET body = '{', hash = ? WHERE seq = ?", (link(before, "{"), seq))

    without_triggers(connection, edit)
    connection.close()
    assert "cannot be read" in problems(path, tmp_path)


def test_a_ledger_emptied_while_it_is_open_is_found(path, tmp_path):
    with Ledger(path, config=tmp_path / "elsewhere") as ledger:
        edited(path, ("DELETE FROM entry",))
        assert "there is no first entry" in ledger.verify().problems


def test_a_plan_that_loses_nothing_costs_nothing():
    from tallystick.ledger.pricing import truncated_rho

    assert truncated_rho(ts.no_loss(), delta=0.0) == 0
    assert truncated_rho(ts.pure_dp(epsilon=0.0), delta=0.0) == 0


def test_a_ledger_in_memory_is_refused_and_makes_no_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="records nothing"):
        Ledger(":memory:")
    assert not list(tmp_path.iterdir())


def test_an_account_and_a_ledger_are_not_sent_to_another_process(people):
    """Found from outside: joblib said that it cannot pickle a lock."""
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(Refused, match=r"ts\.Ledger\(place\)\.open\('people'\) there"):
            way(people)
        with pytest.raises(Refused, match=r"ts\.Ledger\(place\) there"):
            way(people.ledger)


@pytest.mark.parametrize("name", [1, 2**70, {"a": 1}, ["visits"], None, "\ud800"])
def test_a_name_that_is_no_text_is_not_taken_for_damage(tmp_path, name):
    """The driver fails to bind it, and its error said that the ledger is damaged."""
    with Ledger(tmp_path / "x.db", config=tmp_path) as ledger:
        clinic = ledger.open("clinic", budget=Budget.zcdp(1), unit="person")
        for change in (
            lambda: clinic.retire(name, why="old"),
            lambda: clinic.retire(name, why="old", dry_run=True),
            lambda: clinic.remove(name),
            lambda: clinic.remove(name, dry_run=True),
            lambda: ledger.account_row(name),
            lambda: clinic.register("visits", source=1 if name is None else name),
        ):
            with pytest.raises(InvalidInput):
                change()
