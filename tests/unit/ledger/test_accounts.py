"""Populations, blocks, parallel composition, raises, milestones, datasets."""

from __future__ import annotations

import pytest

import tallystick as ts
from crash.stores import entries_of, raised, spend
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.accounting.expression import read_loss
from tallystick.errors import BudgetExceeded, InvalidInput, Refused
from tallystick.ledger import Budget, Filter, Partition

WARDS = Partition("ward", by="unit id", one_block_per_unit=True)


def units(a0, a1=0):
    return Budget(Filter("zcdp"), a0, a1)


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=units(100, 10), unit="person")


def test_opening_twice_is_the_same_account(ledger, people):
    assert ledger.open("people").id == people.id
    assert ledger.open("people", budget=units(100, 10)).id == people.id


@pytest.mark.parametrize(
    "other",
    [
        units(101, 10),
        units(100, 9),
        Budget.approx(1),
        Budget.gdp(1),
        Budget.rdp(16, 1),
        units(100, 10)._replace(protects=Protects(Adjacency.REPLACE)),
    ],
)
def test_another_budget_or_filter_is_refused(ledger, people, other):
    with pytest.raises(Refused, match="exists with another"):
        ledger.open("people", budget=other)


def test_after_a_raise_the_first_budget_and_the_present_limit_open_the_account(ledger, people):
    people.raise_limit(units(200, 10), why="new consent round")
    people.raise_limit(units(300, 20), why="another round")
    for budget in (units(100, 10), units(300, 20)):
        assert ledger.open("people", budget=budget).id == people.id


@pytest.mark.parametrize("other", [units(1000, 10), units(10, 1), units(200, 10), units(300, 10), units(100, 20)])
def test_after_a_raise_every_other_budget_is_refused_with_both_limits(ledger, people, other):
    people.raise_limit(units(200, 10), why="new consent round")
    people.raise_limit(units(300, 20), why="another round")
    with pytest.raises(Refused, match=r"exists with another limit: .* \(raised from .*\), not") as caught:
        ledger.open("people", budget=other)
    reopened = next(remedy for remedy in caught.value.remedies if remedy.kind == "reopen_account")
    assert ledger.open(reopened["account"]).id == people.id


def test_a_budget_above_a_raised_limit_offers_the_raise(tmp_path):
    with ts.Ledger(tmp_path / "budget.db") as book:
        account = book.open("clinic", budget=ts.approx_dp(epsilon=1, delta=1e-5))
        account.raise_limit(ts.approx_dp(epsilon=3, delta=1e-5), why="agreed")
        with pytest.raises(Refused, match=r"epsilon=3.* \(raised from .*epsilon=1\.0.*, not .*epsilon=10") as caught:
            book.open("clinic", budget=ts.approx_dp(epsilon=10, delta=1e-5))
        higher = next(remedy for remedy in caught.value.remedies if remedy.kind == "raise_limit")
        account.raise_limit(read_loss(higher["budget"]), why="as offered")
        assert book.open("clinic", budget=ts.approx_dp(epsilon=10, delta=1e-5)).limit.first == 10


def test_another_unit_is_refused(ledger, people):
    with pytest.raises(Refused):
        ledger.open("people", budget=units(100, 10), unit="household")


def of_unit(unit, a0=100, a1=10):
    return units(a0, a1)._replace(protects=Protects(unit=unit))


def test_a_budget_that_names_another_unit_opens_no_account(ledger, people):
    with pytest.raises(Refused, match="exists with another unit: 'person', not 'visit'"):
        ledger.open("people", budget=of_unit("visit"))
    with pytest.raises(Refused, match="budget protects one 'visit', and the account is to protect one 'person'"):
        ledger.open("people", budget=of_unit("visit"), unit="person")
    with pytest.raises(Refused, match="budget protects one 'visit'"):
        ledger.open("visits", budget=of_unit("visit"), unit="person")
    with pytest.raises(Refused, match="parent's unit"):
        ledger.open("ward", budget=of_unit("visit", 50), parent=people)
    assert [account.name for account in ledger.accounts()] == ["people"]


@pytest.mark.parametrize("named", [None, "person"])
def test_a_budget_takes_the_units_name_or_leaves_it_to_the_account(ledger, people, named):
    assert ledger.open("people", budget=of_unit(named)).id == people.id
    assert ledger.open("people", budget=of_unit(named), unit="person").id == people.id
    assert ledger.open("visits", budget=of_unit("visit")).unit == "visit"
    assert people.raise_limit(of_unit(named, 150), why="new consent round").a0 == 150


def test_a_raise_in_the_name_of_another_unit_is_refused(ledger, people):
    with pytest.raises(Refused, match=r"one 'person', and this budget one 'visit'.*that never changes"):
        people.raise_limit(of_unit("visit", 150), why="more visits")
    assert people.limit.a0 == 100


def test_a_budget_for_groups_is_refused_rather_than_read_as_one_for_single_units():
    with pytest.raises(InvalidInput, match="a budget for one unit"):
        Budget.of(ts.zcdp(rho=1).for_groups(3))


def test_an_unknown_account_is_not_created_without_a_budget(ledger):
    with pytest.raises(InvalidInput, match="there is no account nobody"):
        ledger.open("nobody")


def test_a_population_pays_the_largest_block_of_a_partition(ledger, people):
    a, b = (ledger.open(n, budget=units(90, 10), parent=people, partition=WARDS) for n in ("a", "b"))
    with spend(a, 30, 1):
        pass
    with spend(b, 50, 3):
        pass
    assert (people.used.a0, people.used.a1) == (50, 3)
    with spend(a, 40, 0):
        pass
    assert people.used.a0 == 70
    with spend(people, 30):
        pass
    assert people.remaining.a0 == 0
    with pytest.raises(BudgetExceeded, match="the budget of people is too small"), spend(a, 1):
        pass
    with spend(b, 20):
        pass
    assert (a.used.a0, b.used.a0, people.used.a0) == (70, 70, 100)
    assert ledger.verify().problems == ()


def test_giving_back_the_largest_block_falls_to_the_next_one(ledger, people):
    a, b = (ledger.open(n, budget=units(90), parent=people, partition=WARDS) for n in ("a", "b"))
    held = spend(a, 60).reserve()
    with spend(b, 25):
        pass
    assert people.used.a0 == 60
    held.refund()
    assert people.used.a0 == 25
    assert ledger.verify().problems == ()


def test_a_population_pays_the_sum_of_other_blocks(ledger, people):
    a, b = (ledger.open(n, budget=units(90), parent="people") for n in ("w45", "w46"))
    for block in (a, b):
        with spend(block, 40):
            pass
    assert people.used.a0 == 80
    assert raised(spend(b, 30).reserve) == "BudgetExceeded"
    assert a.parent.name == "people"
    assert [child.name for child in people.children] == ["w45", "w46"]
    assert "lifetime (people)" in a._repr_html_()


def test_blocks_of_blocks_carry_their_maximum_upwards(ledger, people):
    region = ledger.open("region", budget=units(90), parent=people, partition=WARDS)
    rooms = Partition("room", by="public attribute", one_block_per_unit=True)
    one, two = (ledger.open(n, budget=units(90), parent=region, partition=rooms) for n in ("one", "two"))
    for block, amount in ((one, 10), (two, 30), (one, 15)):
        with spend(block, amount):
            pass
    assert (region.used.a0, people.used.a0) == (30, 30)
    assert ledger.verify().problems == ()


@pytest.mark.parametrize(
    ("partition", "adjacency", "condition"),
    [
        (WARDS, "replace", "not add/remove"),
        (Partition("w", by="unit id", one_block_per_unit=False), "add_remove", "several blocks"),
        (Partition("w", by="median of the data", one_block_per_unit=True), "add_remove", "assigned by"),
    ],
)
def test_parallel_composition_names_the_condition_that_failed(ledger, partition, adjacency, condition):
    budget = units(100)._replace(protects=Protects(Adjacency(adjacency)))
    people = ledger.open("people", budget=budget)
    with pytest.raises(Refused, match=condition):
        ledger.open("block", budget=budget, parent=people, partition=partition)
    assert len(ledger.accounts()) == 1


def rooms(*values, column="room"):
    return Partition("room", by="public attribute", one_block_per_unit=True, column=column, values=values)


def test_blocks_of_one_partition_share_no_rows(ledger, people):
    ledger.open("one", budget=units(90), parent=people, partition=rooms("r1", "r2"))
    for other in (rooms("r2", "r3"), rooms("r3", column="ward"), rooms(column="")):
        with pytest.raises(Refused, match="share no value"):
            ledger.open("two", budget=units(90), parent=people, partition=other)
    two = ledger.open("two", budget=units(90), parent=people, partition=rooms("r3", "7"))
    assert two.partitions() == [rooms("r3", "7")]
    with pytest.raises(Refused, match="never changes"):
        ledger.open("two", budget=units(90), parent=people, partition=rooms("r4"))
    assert ledger.verify().problems == ()


@pytest.mark.parametrize(
    ("column", "values"), [("x", ()), ("", ("a",)), ("x", (1.5,)), ("x", ("a", "a")), ("x", (True,)), ("x", ("1", 1))]
)
def test_a_predicate_is_a_column_and_its_values(column, values):
    with pytest.raises(InvalidInput, match="column="):
        rooms(*values, column=column)


def test_a_block_keeps_its_parents_currency_and_unit(ledger, people):
    with pytest.raises(Refused, match="currency"):
        ledger.open("block", budget=Budget.approx(1), parent=people)
    with pytest.raises(Refused, match="unit"):
        ledger.open("block", budget=units(5), parent=people, unit="household")
    with pytest.raises(InvalidInput, match="parent="):
        ledger.open("block", budget=units(5), partition=WARDS)


def test_a_limit_rises_with_a_signed_reason(ledger, people):
    with spend(people, 100):
        pass
    assert people.raise_limit(units(150, 10), why="new consent round").a0 == 150
    with spend(people, 50):
        pass
    assert people.remaining.a0 == 0
    assert ledger.open("people", budget=units(100, 10)).limit.a0 == 150
    [entry] = [entry for entry in entries_of(ledger) if entry["kind"] == "raise"]
    assert entry["why"] == "new consent round"
    assert len(entry["signature"]) == 128
    assert ledger.verify().problems == ()


def test_a_limit_never_falls_and_never_changes_currency(people):
    for budget, error in (
        (units(99, 10), Refused),
        (units(100, 9), Refused),
        (units(100, 10), InvalidInput),
        (Budget.approx(9), Refused),
    ):
        with pytest.raises(error):
            people.raise_limit(budget, why="x")
    people.close(why="end")
    with pytest.raises(Refused, match="closed"):
        people.raise_limit(units(200, 10), why="x")


def test_a_dataset_belongs_to_one_population(ledger, people):
    people.register("visits")
    people.register("visits")
    other = ledger.open("others", budget=units(5))
    with pytest.raises(Refused, match="whom it protects"):
        other.register("visits")
    assert {name: row.account for name, row in ledger.datasets().items()} == {"visits": "people"}


@pytest.mark.parametrize(
    "milestones", [[0.5, 0.25], [0.0], [1.0], [0.5, 0.5], [float("nan")], [-1], list(range(1, 2000))]
)
def test_milestones_must_increase_below_the_limit(ledger, milestones):
    with pytest.raises(InvalidInput):
        ledger.open("people", budget=Budget.zcdp(1), milestones=milestones)


def test_without_milestones_there_is_no_so_far(people):
    with pytest.raises(Refused, match="no milestones"):
        people.so_far(delta=1e-6)


def test_an_approximate_milestone_shares_delta(ledger):
    account = ledger.open("people", budget=Budget.approx(2, 1e-7), milestones=[0.5, 1.0])
    with spend(account, 6 * 10**11):
        pass
    said = account.so_far(delta=1e-6)
    assert (said.epsilon, said.statements) == (1.0, 3)
    assert "cut at epsilon 1" in str(said)
    with pytest.raises(InvalidInput, match="at least"):
        account.so_far(delta=2e-7)
    for delta in (0, 1, -1, float("nan")):
        with pytest.raises(InvalidInput):
            account.so_far(delta=delta)


def test_the_text_of_what_is_left_is_rounded_down(ledger):
    account = ledger.open("people", budget=Budget.of(ts.zcdp(rho=0.0272)), unit="person")
    account.pay(ts.zcdp(rho=0.00001 / 3), why="a first release")
    assert str(account.remaining) == "rho 0.0271"
    assert str(account.used) == "rho 3.34e-6"
    account.pay(ts.zcdp(rho=float(str(account.remaining).split()[1])), why="what the text says fits")
