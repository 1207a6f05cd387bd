"""A run of steps: paid before it is drawn, stopped by the budget, and no step drawn twice."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import tallystick as ts
from tallystick.errors import IdempotencyConflict, InvalidInput, Refused, UnitMismatch
from tallystick.ledger.training import EndedEarly, Run

STEP = ts.gaussian(sigma=10)  # rho 0.005 each


def _taken_by(run: Run, most: int = 10**6) -> int:
    """Number of steps that a loop of at most ``most`` steps takes."""
    drawn = 0
    with run:
        while drawn < most:
            run.step()
            drawn += 1
    return drawn


def test_blocks_are_charged_before_their_first_step_and_only_those(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=100, block=10, whole=False, why="model") as run:
        assert float(account.used.first) == 0
        for expected in range(15):
            assert run.step() == expected
            assert float(account.used.first) == pytest.approx(0.05 * (expected // 10 + 1))
    assert run.taken == 15
    assert not run.stopped
    assert len(run.receipts) == 2
    assert ledger.verify(receipts=run.receipts).intact


def test_a_budget_that_ends_the_run_warns_with_steps_and_reason(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.12))
    run = account.training(STEP, steps=100, block=10, whole=False, why="model")
    with pytest.warns(EndedEarly) as caught:
        assert _taken_by(run) == 20
    assert run.taken == 20
    assert run.stopped
    last = caught[-1].message
    assert isinstance(last, EndedEarly)
    assert (last.taken, last.planned) == (20, 100)
    assert "cannot pay for steps 20 to 30" in last.reason


def test_the_whole_plan_is_paid_by_default(ledger: ts.Ledger) -> None:
    # Ten blocks of an (epsilon, delta) account cost so much that the same account paid for 20 of 100 steps.
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=5, delta=1e-5))
    with account.training(STEP, steps=100, why="model", delta=1e-6) as run:
        while True:
            run.step()
    assert run.taken == 100
    assert not run.stopped


def test_blocks_that_cannot_pay_for_the_plan_are_announced_before_the_first_step(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=5, delta=1e-5))
    run = account.training(STEP, steps=100, why="model", delta=1e-6, whole=False)
    costs = run.costs()
    assert costs.whole_fits
    assert costs.whole is not None
    assert costs.blocks is not None
    assert costs.blocks.a0 > 2 * costs.whole.a0
    with pytest.warns(EndedEarly, match="Pay the whole plan at once") as caught:
        run.start()
    assert account.history() == []
    said = str(caught[0].message)
    assert str(costs.whole) in said
    assert str(costs.blocks) in said
    with pytest.warns(EndedEarly, match="cannot pay"):
        _taken_by(run)
    assert 0 < run.taken == costs.payable < 100


@pytest.mark.parametrize("steps", [7, 20, 24])
@pytest.mark.parametrize("budget", [0.0001, 0.06, 0.1, 1.0])
def test_the_steps_that_blocks_can_pay_are_the_steps_that_they_pay(
    ledger: ts.Ledger, steps: int, budget: float
) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=budget))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EndedEarly)
        run = account.training(STEP, steps=steps, block=5, whole=False, why="model")
        payable = run.costs().payable
        assert _taken_by(run) == payable


def test_costs_count_the_blocks_that_are_already_paid(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*The loop ended first")
        for _ in range(2):
            with account.training(STEP, steps=20, block=10, whole=False, why="model", key="run-1") as run:
                run.step()
    assert run.costs().payable == 20


def test_the_log_says_what_blocks_would_cost(ledger: ts.Ledger, caplog: pytest.LogCaptureFixture) -> None:
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=5, delta=1e-5))
    run = account.training(STEP, steps=100, why="model", delta=1e-6)
    with caplog.at_level("INFO", logger="tallystick.training"):
        assert _taken_by(run) == 100
    assert f"In blocks of 10 steps it costs {run.costs().blocks}" in caplog.text


def test_a_loop_that_ends_before_the_paid_plan_warns(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with pytest.warns(EndedEarly, match=r"after 15 of 100 .* loop ended first.* key='a' continues at step 20"):
        _taken_by(account.training(STEP, steps=100, why="model", key="a"), most=15)


def test_a_loop_in_blocks_and_an_error_warn_too(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with pytest.warns(EndedEarly, match=r"after 15 of 100 .* Blocks that were begun are paid.* continues at step 20"):
        _taken_by(account.training(STEP, steps=100, why="model", key="a", whole=False), most=15)
    run = account.training(STEP, steps=100, why="model", key="b")
    with pytest.warns(EndedEarly, match=r"after 1 of 100 .* key='b' continues at step 10"):
        _fail_after_one(run)


def _fail_after_one(run: Run) -> None:
    """Leave a run by an error."""
    with contextlib.suppress(ValueError), run:
        run.step()
        raise ValueError


def test_a_run_that_goes_on_warns_of_steps_that_may_be_lost(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with pytest.warns(EndedEarly, match="after 15 of 100"):
        _taken_by(account.training(STEP, steps=100, why="model", key="a"), most=15)
    with pytest.warns(EndedEarly, match="after 80 of 100 .* Steps of them that were not taken then are lost"):
        _taken_by(account.training(STEP, steps=100, why="model", key="a"))


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


@pytest.mark.filterwarnings("ignore::tallystick.ledger.training.EndedEarly")
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


def test_a_run_that_began_in_blocks_goes_on_in_blocks_by_default(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    begun = account.training(STEP, steps=30, block=10, whole=False, why="model", key="run-1")
    assert _taken_by(begun, most=3) == 3
    with account.training(STEP, steps=30, block=10, why="model", key="run-1") as again:
        assert again.step() == 10
    assert not again.whole
    assert float(account.used.first) == pytest.approx(0.1)


def test_the_whole_plan_of_a_run_that_began_in_blocks_is_refused_before_a_charge(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    _taken_by(account.training(STEP, steps=30, block=10, whole=False, why="model", key="run-1"), most=3)
    before = account.used.a0
    with pytest.raises(InvalidInput, match="began in blocks"):
        account.training(STEP, steps=30, block=10, whole=True, why="model", key="run-1").start()
    assert account.used.a0 == before > 0


@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.filterwarnings("ignore::tallystick.ledger.training.EndedEarly")
def test_blocks_of_a_run_that_is_paid_whole_are_refused_before_a_charge(ledger: ts.Ledger, most: int) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    paid = account.training(STEP, steps=30, block=10, whole=True, why="model", key="run-1").start()
    assert [paid.step() for _ in range(most)] == list(range(most))
    before = account.used.a0
    with pytest.raises(InvalidInput, match="the whole run is paid"):
        account.training(STEP, steps=30, block=10, whole=False, why="model", key="run-1").start()
    assert account.used.a0 == before > 0
    assert paid.step() == most


@pytest.mark.filterwarnings("ignore::tallystick.ledger.training.EndedEarly")
def test_a_run_that_paid_its_whole_plan_goes_on_without_a_charge_by_default(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    _taken_by(account.training(STEP, steps=30, block=10, whole=True, why="model", key="run-1"), most=3)
    with account.training(STEP, steps=30, block=10, why="model", key="run-1") as again:
        assert again.step() == 10
    assert again.whole
    assert float(account.used.first) == pytest.approx(0.15)


def test_turns_are_charged_whole(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=10, block=1, turn=4, whole=False, why="model") as run:
        for _ in range(5):
            run.step()
    assert float(account.used.first) == pytest.approx(0.01)  # two turns of rho 0.005, not five steps
    assert run.privacy == 3 * STEP


def test_a_key_belongs_to_one_plan(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=30, whole=True, why="model", key="run-1") as run:
        while True:
            run.step()
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
    with account.training(STEP, steps=12, block=4, whole=False, why="model") as run:
        mine = [run.step()]
        theirs = _in_a_child(lambda: [run.step() for _ in range(5)])
        while True:
            mine.append(run.step())
    assert theirs == [4, 5, 6, 7, 8]
    assert mine == [0, 1, 2, 3]
    assert float(account.used.first) == pytest.approx(0.06)


def test_a_run_cannot_be_copied(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=1))
    with account.training(STEP, steps=12, block=4, whole=False, why="model") as run:
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
    assert str(account.remaining) == "epsilon 0.5 at order 16"
