"""A run of steps: paid before it is drawn, stopped by the budget, and no step drawn twice."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import tallystick as ts
from tallystick.errors import IdempotencyConflict, InvalidInput, Refused, UnitMismatch

STEP = ts.gaussian(sigma=10)  # rho 0.005 each


def test_blocks_are_charged_before_their_first_step_and_only_those(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=100, block=10, why="model") as run:
        assert float(account.used.first) == 0
        for expected in range(15):
            assert run.step() == expected
            assert float(account.used.first) == pytest.approx(0.05 * (expected // 10 + 1))
    assert run.taken == 15
    assert not run.stopped
    assert len(run.receipts) == 2
    assert ledger.verify(receipts=run.receipts).intact


def test_the_budget_ends_any_loop_quietly(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.12))
    drawn = 0
    with account.training(STEP, steps=100, block=10, why="model") as run:
        while True:
            run.step()
            drawn += 1
    assert drawn == run.taken == 20
    assert run.stopped


def test_the_plan_ends_the_loop_too(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=7, why="model") as run:
        while True:
            run.step()
    assert run.taken == 7
    assert not run.stopped
    with pytest.raises(Refused, match="not started"):
        run.step()


def test_errors_of_the_loop_are_not_swallowed(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with pytest.raises(ZeroDivisionError), account.training(STEP, steps=7, why="model") as run:
        _ = 1 / run.step()  # the first step is number 0


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_started_again_gets_only_blocks_that_nobody_took(ledger: ts.Ledger, whole: bool) -> None:
    # A copied checkpoint, resumed twice: every step is drawn at most once, and nothing is paid twice.
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    drawn: list[int] = []
    for _ in range(4):
        with account.training(STEP, steps=30, block=10, whole=whole, why="model", key="run-1") as run:
            for _ in range(5):
                drawn.append(run.step())
    assert drawn == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]
    assert float(account.used.first) == pytest.approx(0.15)
    with account.training(STEP, steps=30, block=10, whole=whole, why="model", key="run-1") as run:
        run.step()
    assert run.taken == 0


def test_turns_are_charged_whole(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=10, block=1, turn=4, why="model") as run:
        for _ in range(5):
            run.step()
    assert float(account.used.first) == pytest.approx(0.01)  # two turns of rho 0.005, not five steps
    assert run.privacy == 3 * STEP


def test_a_key_belongs_to_one_plan(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=30, whole=True, why="model", key="run-1"):
        pass
    with pytest.raises(IdempotencyConflict), account.training(STEP, steps=40, whole=True, why="model", key="run-1"):
        pass


def test_the_whole_run_in_one_charge_costs_an_epsilon_account_less_than_blocks(ledger: ts.Ledger) -> None:
    used = []
    for name, whole in (("a", True), ("b", False)):
        account = ledger.open(name, budget=ts.approx_dp(epsilon=10, delta=1e-5))
        with account.training(STEP, steps=50, block=10, whole=whole, why="model", delta=1e-6) as run:
            while True:
                run.step()
        assert run.taken == 50
        used.append(account.used)
    assert used[0].a0 < used[1].a0
    assert used[0].a1 == used[1].a1


def test_what_is_wrong_is_refused_before_anything_is_charged(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1, unit="patient"))
    with pytest.raises(InvalidInput, match="steps"):
        account.training(STEP, steps=0, why="model")
    with pytest.raises(InvalidInput, match="block"):
        account.training(STEP, steps=5, block=0, why="model")
    with pytest.raises(InvalidInput, match="key"):
        account.training(STEP, steps=5, why="model", key="k" * 190)
    other = ts.gaussian(sigma=10, unit="visit")
    with pytest.raises(UnitMismatch), account.training(other, steps=5, why="model", whole=True):
        pass
    assert account.history() == []


def test_a_run_of_which_only_the_end_is_seen_is_no_loss_of_a_step(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.gdp(mu=3))
    for loss in (
        ts.last_iterate(steps=10, contraction=0.9, sigma=5),
        ts.shift_walk(tail=2, steps=5, contraction=0.9, sigma=5) + ts.gaussian(sigma=9),
        ts.last_iterate(steps=10, contraction=0.9, sigma=5).sampled(rate=0.5),
        ts.worst(ts.last_iterate(steps=10, contraction=0.9, sigma=5), ts.gaussian(sigma=2)),
        ts.selected(ts.last_iterate(steps=10, contraction=0.9, sigma=5), eta=1.0, gamma=0.1),
        ts.last_iterate(steps=10, contraction=0.9, sigma=5).as_replace(),
    ):
        with pytest.raises(InvalidInput, match="one charge"):
            account.training(loss, steps=10, why="w")
    assert not account.history()


def _in_a_child(steps: Callable[[], list[int]]) -> list[int]:
    """What a forked child draws."""
    inward, outward = os.pipe()
    child = os.fork()
    if not child:
        os.write(outward, json.dumps(steps()).encode())
        os._exit(0)
    os.close(outward)
    os.waitpid(child, 0)
    with os.fdopen(inward) as told:
        return list(json.load(told))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_draws_no_step_of_the_block_in_hand(ledger: ts.Ledger) -> None:
    # Found from outside: the block in hand was copied into the child, which drew the same paid steps again.
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=12, block=4, why="model") as run:
        mine = [run.step()]
        theirs = _in_a_child(lambda: [run.step() for _ in range(5)])
        while True:
            mine.append(run.step())
    assert theirs == [4, 5, 6, 7, 8]
    assert mine == [0, 1, 2, 3]
    assert float(account.used.first) == pytest.approx(0.06)


def test_a_run_cannot_be_copied(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=12, block=4, why="model") as run:
        run.step()
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(Refused, match="cannot be copied"):
                copied(run)


def test_threads_draw_each_step_once(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=60, block=20, why="model") as run, ThreadPoolExecutor(4) as workers:
        drawn = sorted(workers.map(lambda _: run.step(), range(60)))
    assert drawn == list(range(60))


def test_an_epsilon_of_a_renyi_account_names_its_order(ledger: ts.Ledger) -> None:
    account = ledger.open("lab", budget=ts.renyi_dp({16: 0.5}))
    assert str(account.remaining) == "epsilon 0.5000 at order 16"
