"""A retired dataset takes no new charge and stays bound; a registration is removed only before its first charge."""

from __future__ import annotations

import threading

import pytest

import tallystick as ts
from crash.stores import entries_of, spend
from tallystick.errors import IdempotencyConflict, InvalidInput, Refused, Retired, Unavailable
from tallystick.ledger import Ledger, import_ledger
from tallystick.ledger.pay import pay
from tallystick.ledger.stream import AnswerStream, Cost
from unit.ledger.test_pay import Survey

SOURCE = "visits.csv"
FIXED = {"unit": "patient", "adjacency": "add_remove"}
REGISTER_FIELDS = {"kind", "at", "dataset", "account", "source", "least", "note", "fixed", "marks"}
"""Fields of a registration in format 2."""


@pytest.fixture
def clinic(ledger):
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
    account.register("visits", source=SOURCE, fixed=FIXED, marks=["file /data/visits.csv"])
    return account


def test_a_retired_dataset_takes_no_charge_and_returns_paid_answers(ledger, clinic):
    first = pay(Survey(), clinic, why="report", key="k")
    clinic.retire("visits", why="replaced")
    used = clinic.used
    with pytest.raises(Retired, match=r"'visits' is retired.*Nothing was charged"):
        pay(Survey(), clinic, why="one more")
    assert clinic.used == used
    assert pay(Survey(), clinic, why="report", key="k").answer == first.answer
    assert ledger.datasets()["visits"].retired == "replaced"
    assert ledger.verify().problems == ()


def test_no_data_are_opened_before_the_refusal(clinic):
    clinic.retire("visits", why="replaced")
    survey = Survey()
    with pytest.raises(Retired):
        pay(survey, clinic, why="x")
    assert survey.steps == []


def test_other_datasets_of_the_population_stay_open(clinic):
    clinic.register("rota", source="rota.csv", fixed=FIXED)
    clinic.retire("visits", why="replaced")
    assert pay(Survey(source="rota.csv"), clinic, why="x").fresh
    assert pay(Survey(source="not registered"), clinic, why="x").fresh


def test_a_block_and_another_population_do_not_get_around_it(ledger, clinic):
    block = ledger.open("ward", budget=ts.zcdp(rho=0.1), parent=clinic, unit="patient")
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    clinic.retire("visits", why="replaced")
    for account in (block, staff):
        with pytest.raises(Retired):
            pay(Survey(), account, why="x")


@pytest.mark.parametrize("also", [{"source": SOURCE}, {"source": "copy", "marks": ["file /data/visits.csv"]}])
def test_a_second_name_of_the_same_data_is_closed_too(clinic, also):
    clinic.register("again", fixed=FIXED, **also)
    clinic.retire("visits", why="replaced")
    with pytest.raises(Retired, match="'visits'"):
        pay(Survey(source=also["source"]), clinic, why="x")


def test_an_inode_number_that_is_used_again_closes_nothing(clinic):
    clinic.register("old", source="old.csv", fixed=FIXED, marks=["inode 66:12", "inode 66:12@99"])
    clinic.register("new", source="new.csv", fixed=FIXED, marks=["inode 66:12", "inode 66:12@100"])
    clinic.retire("old", why="replaced")
    assert pay(Survey(source="new.csv"), clinic, why="x").fresh


def test_retired_data_are_not_registered_again(ledger, clinic):
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    clinic.retire("visits", why="replaced")
    before = ledger.head()
    for account, name, fixed in (
        (clinic, "visits", FIXED),
        (clinic, "again", FIXED),
        (clinic, "again", {"unit": "ward", "adjacency": "add_remove"}),
        (staff, "theirs", FIXED),
    ):
        with pytest.raises(Refused):
            account.register(name, source=SOURCE, fixed=fixed, update=True)
    with pytest.raises(Refused):
        clinic.register("visits", source="moved.csv", fixed=FIXED, update=True)
    with pytest.raises(Refused):
        clinic.register("again", source="moved.csv", fixed=FIXED, marks=["file /data/visits.csv"])
    assert ledger.head() == before


def test_a_failure_on_a_retired_dataset_still_closes_its_population(clinic):
    charge = spend(clinic, 10**10, source=SOURCE).begin()
    clinic.retire("visits", why="replaced")
    charge.burn()
    assert clinic.failures() == [charge.id]
    clinic.clear(why="looked at it")


def test_a_charge_that_runs_when_the_dataset_is_retired_is_committed(ledger, clinic):
    charge = spend(clinic, 10**10, source=SOURCE).begin()
    clinic.retire("visits", why="replaced")
    charge.commit(7)
    assert ledger.verify().problems == ()


def test_a_reservation_from_before_cannot_start(ledger, clinic):
    held = spend(clinic, 10**10, source=SOURCE).reserve()
    clinic.retire("visits", why="replaced")
    with pytest.raises(Retired):
        held.start()
    held.refund()
    assert ledger.verify().problems == ()


def test_the_second_table_of_a_join_is_checked_in_the_transaction_of_the_charge(clinic):
    clinic.register("people", source="people.csv", fixed=FIXED)
    digest = next(iter(clinic.ledger.datasets()["people"].sources))
    joined = Survey()
    joined.beside = (digest,)
    first = pay(joined, clinic, why="x", key="k")
    charge = spend(clinic, 10**10, source=SOURCE)
    charge.beside = (digest,)
    charge.rehearse()
    clinic.retire("people", why="replaced")
    with pytest.raises(Retired, match="'people'"):
        charge.begin()
    assert pay(joined, clinic, why="x", key="k").answer == first.answer
    assert pay(Survey(), clinic, why="alone").fresh


def test_an_open_stream_stores_no_further_answer_of_retired_data(clinic):
    def each(first, last):
        return Cost(ts.zcdp(rho=0.001), None, f"items {first} to {last}")

    stream = AnswerStream(clinic, key="s", why="daily", items=9, whole=Cost(ts.zcdp(rho=0.01), None, "s"), each=each)
    free = AnswerStream(clinic, key="f", why="daily", items=9, whole=None, each=each)
    for one in (stream, free):
        one.open()
    stored = free.answer(0, lambda: 5, source=SOURCE).answer
    clinic.retire("visits", why="replaced")
    with pytest.raises(Retired):
        free.answer(1, lambda: 6, source=SOURCE)
    with pytest.raises(Retired):
        stream.answer(1, lambda: 6, source=SOURCE)
    assert free.answer(0, lambda: 8, source=SOURCE).answer == stored == free.replay(0).answer


def test_charges_and_retire_race_and_the_chain_has_one_order(place, ledger, clinic):
    """After the entry that retires there is no charge, and each thread saw either its charge or the refusal."""
    outcomes = []
    gate = threading.Barrier(5)

    def ask(number):
        with Ledger(place, clock=ledger._clock) as mine:
            account = mine.open("clinic")
            gate.wait()
            for turn in range(6):
                try:
                    pay(Survey(price=0.001, request=f"{number} {turn}"), account, why="race")
                    outcomes.append("paid")
                except Retired:
                    outcomes.append("retired")

    def retire():
        with Ledger(place, clock=ledger._clock) as mine:
            account = mine.open("clinic")
            gate.wait()
            account.retire("visits", why="race")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)] + [threading.Thread(target=retire)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [(entry["kind"], entry.get("note", "")) for entry in entries_of(ledger)]
    end = [seq for seq, (kind, note) in enumerate(kinds) if kind == "register" and "retired" in note]
    assert len(end) == 1
    assert all(kind not in ("begin", "reserve") for kind, _ in kinds[end[0] :])
    assert len(outcomes) == 24
    assert outcomes.count("paid") == sum(kind == "begin" for kind, _ in kinds)
    assert ledger.verify().problems == ()


def test_the_entry_has_the_fields_of_format_2(ledger, clinic):
    """Programs that do not know retirement verify the chain by these fields, and by who acts."""
    clinic.retire("visits", why="replaced")
    clinic.register("wrong", source="wrong.csv", fixed=FIXED, marks=["file /wrong.csv"])
    clinic.remove("wrong")
    ended = [entry for entry in entries_of(ledger) if entry["kind"] == "register"]
    assert len(ended) == 4
    assert all(set(entry) == REGISTER_FIELDS | {"act"} for entry in ended)


def test_it_survives_export_and_import(ledger, clinic, tmp_path, monkeypatch):
    pay(Survey(), clinic, why="x", key="k")
    clinic.retire("visits", why="replaced")
    clinic.register("wrong", source="wrong.csv", fixed=FIXED)
    clinic.remove("wrong")
    lines = list(ledger.export())
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "another"))
    with import_ledger(lines, tmp_path / "copy.db") as again:
        assert again.verify().problems == ()
        assert list(again.datasets()) == ["visits"]
        with pytest.raises(Retired):
            pay(Survey(), again.open("clinic"), why="x")


def test_a_reason_a_known_name_and_its_account_are_needed(ledger, clinic):
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    with pytest.raises(InvalidInput):
        clinic.retire("visits", why=" ")
    with pytest.raises(InvalidInput):
        clinic.retire("visists", why="x y")
    with pytest.raises(Refused, match="belongs to 'clinic'"):
        staff.retire("visits", why="x y")
    clinic.retire("visits", why="replaced")
    with pytest.raises(Retired):
        clinic.retire("visits", why="again")


def test_a_dry_run_changes_nothing(ledger, clinic):
    before = ledger.head()
    clinic.retire("visits", why="replaced", dry_run=True)
    clinic.remove("visits", dry_run=True)
    assert ledger.head() == before


def test_a_program_cannot_write_the_notes_itself(clinic):
    for note in ('{"format":"tallystick/retired/1"}', '{"format":"tallystick/removed/1"}'):
        with pytest.raises(InvalidInput):
            clinic.register("other", source="other.csv", note=note)


# Removing


def test_a_removed_registration_is_gone_and_can_be_made_again(ledger, clinic):
    clinic.remove("visits")
    assert ledger.datasets() == {}
    assert ledger.names_of(SOURCE) == []
    with pytest.raises(InvalidInput):
        clinic.remove("visits")
    clinic.register("patients", source=SOURCE, fixed=FIXED)
    clinic.register("visits", source=SOURCE, fixed=FIXED)
    assert sorted(ledger.datasets()) == ["patients", "visits"]
    assert ledger.datasets()["visits"].least_price == ledger.datasets()["patients"].least_price
    assert pay(Survey(), clinic, why="x").fresh
    assert ledger.verify().problems == ()


def test_the_least_cost_of_a_removed_registration_binds_no_plan(ledger, clinic):
    clinic.register("wrong", source="wrong.csv", fixed=FIXED, least_price=ts.zcdp(rho=0.4))
    clinic.remove("wrong")
    assert pay(Survey(source="wrong.csv"), clinic, why="x").fresh
    assert ledger.verify().problems == ()


def test_its_name_and_place_stay_bound(ledger, clinic):
    clinic.remove("visits")
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    with pytest.raises(Refused):
        staff.register("visits", source="elsewhere.csv")
    with pytest.raises(Refused):
        staff.register("theirs", source=SOURCE)
    with pytest.raises(Refused):
        clinic.register("wards", source=SOURCE, fixed={"unit": "ward", "adjacency": "add_remove"})
    assert ledger.verify().problems == ()


def _running(account):
    spend(account, 10**10, source=SOURCE).begin()


def _reserved(account):
    spend(account, 10**10, source=SOURCE).reserve()


def _refunded(account):
    spend(account, 10**10, source=SOURCE).reserve().refund()


def _burned(account):
    with pytest.raises(Unavailable):
        pay(Survey(fails={"draw": ValueError()}), account, why="x")


def _committed(account):
    pay(Survey(), account, why="x")


def _may_be_a_join(account):
    pay(Survey(source="another.csv"), account, why="x")


def _of_a_block(account):
    ward = account.ledger.open("ward", budget=ts.zcdp(rho=0.1), parent=account, unit="patient")
    pay(Survey(source="another.csv", price=0.01), ward, why="x")


@pytest.mark.parametrize(
    "use", [_running, _reserved, _refunded, _burned, _committed, _may_be_a_join, _of_a_block], ids=lambda f: f.__name__
)
def test_one_charge_in_any_state_keeps_the_registration(ledger, clinic, use):
    use(clinic)
    before = ledger.head()
    with pytest.raises(Refused, match="may have used") as problem:
        clinic.remove("visits")
    assert [each.kind for each in problem.value.remedies] == ["retire_dataset"]
    assert ledger.head() == before
    clinic.retire("visits", why="wrong registration")


def test_a_charge_on_the_source_from_before_the_registration_keeps_it(ledger, clinic):
    pay(Survey(source="early.csv"), clinic, why="x")
    clinic.register("early", source="early.csv", fixed=FIXED)
    clinic.register("late", source="late.csv", fixed=FIXED)
    with pytest.raises(Refused, match="may have used"):
        clinic.remove("early")
    clinic.remove("late")


def test_charges_of_other_populations_do_not_keep_it(ledger, clinic):
    staff = ledger.open("staff", budget=ts.zcdp(rho=0.5), unit="nurse")
    pay(Survey(source="rota.csv"), staff, why="x")
    clinic.remove("visits")


def test_a_retired_dataset_is_not_removed(clinic):
    clinic.retire("visits", why="replaced")
    with pytest.raises(Retired):
        clinic.remove("visits")


def test_a_key_of_another_request_is_still_refused(clinic):
    pay(Survey(), clinic, why="x", key="k")
    clinic.retire("visits", why="replaced")
    with pytest.raises(IdempotencyConflict):
        pay(Survey(request="another"), clinic, why="x", key="k")
