"""A run pays before it draws, divides by a public number, and cannot be made to draw a step twice."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import signal
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tallystick as ts  # noqa: E402
from sweeps import share  # noqa: E402
from tallystick.digits import percent_up  # noqa: E402
from tallystick.errors import AdjacencyMismatch, BudgetExceeded, IdempotencyConflict, InvalidInput, Refused, RunEnded  # noqa: E402
from tallystick.learn.torch.batches import Examples, shuffled  # noqa: E402
from tallystick.learn.torch.noise import SLACK, LatticeNoise, normal  # noqa: E402
from tallystick.learn.torch.trainer import Trainer, UndeclaredClasses  # noqa: E402
from tallystick.learn.training import SgdPlan  # noqa: E402
from tallystick.ledger.training import EndedEarly  # noqa: E402
from tallystick.mechanisms.base import UnrecordedRelease  # noqa: E402
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource  # noqa: E402

torch.set_num_threads(1)
NONE = nn.CrossEntropyLoss(reduction="none")
PLAN = SgdPlan(noise_multiplier=2.0, rate=0.2, steps=20, expected_batch=10)
EVERYBODY = SgdPlan(noise_multiplier=1e-6, rate=1.0, steps=1, expected_batch=10)

pytestmark = [
    pytest.mark.filterwarnings("ignore::tallystick.mechanisms.base.UnrecordedRelease"),
    pytest.mark.filterwarnings("ignore::tallystick.learn.torch.trainer.UndeclaredClasses"),
    pytest.mark.filterwarnings("ignore::tallystick.ledger.training.EndedEarly"),
]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ts.Ledger]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    book = ts.Ledger(os.fspath(tmp_path / "book.db"))
    yield book
    book.close()


def data(n: int = 50) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(3)
    return torch.randn(n, 4, generator=random), torch.randint(0, 2, (n,), generator=random)


def made(plan: SgdPlan = PLAN, *, clip: float = 1.0, lr: float = 0.1, **options: Any) -> Trainer:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=lr), plan=plan, clip=clip, **options)


def weights(trainer: Trainer) -> Any:
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


# -- the run


def test_the_whole_plan_is_charged_before_the_first_batch(ledger: ts.Ledger) -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=50, batch=10, epochs=4)
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-5))
    trainer = made(plan, account=account, why="test")
    batches = trainer.batches(data())
    assert account.used.a0 == 0
    trainer.step(next(batches))
    paid = account.used
    assert 1.999 < float(paid.first) <= 2
    for batch in batches:
        trainer.step(batch)
    assert account.used == paid
    assert trainer.taken == plan.steps == 20
    assert trainer.receipt is not None
    assert ledger.verify(receipts=[trainer.receipt]).intact
    assert trainer.privacy.epsilon(delta=1e-6) <= 2


def test_an_account_that_cannot_pay_sees_no_step(ledger: ts.Ledger) -> None:
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=50, batch=10, epochs=4)
    trainer = made(plan, account=ledger.open("clinic", budget=ts.approx_dp(epsilon=1, delta=1e-5)), why="test")
    before = weights(trainer)
    with pytest.raises(BudgetExceeded):
        trainer.fit(data())
    assert torch.equal(before, weights(trainer))


def test_a_run_in_blocks_stops_where_the_budget_ends(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 9 * float(PLAN.step_loss.renyi(order=8))}))
    with pytest.warns(EndedEarly, match="after 8 of 20 planned steps. The account cannot pay for steps 8 to 12"):
        trainer = made(account=account, why="test", pay="blocks", block=4).fit(data())
    assert trainer.taken == 8
    assert trainer.run is not None
    assert trainer.run.stopped


def test_blocks_of_a_plan_that_the_account_could_pay_whole_warn_before_the_first_step(ledger: ts.Ledger) -> None:
    # The account can pay the whole plan, and its blocks end after a part of it: nothing said so.
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=50, batch=10, epochs=4)
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=2, delta=1e-5))
    trainer = made(plan, account=account, why="test", pay="blocks")
    assert trainer.run is not None
    costs = trainer.run.costs()
    assert costs.whole_fits
    assert costs.payable < plan.steps
    with warnings.catch_warnings():
        warnings.simplefilter("error", EndedEarly)
        with pytest.raises(EndedEarly, match=r"Pay the whole plan at once: .*pay='whole'"):
            trainer.fit(data())
    assert not account.history()


def test_a_copied_checkpoint_draws_no_step_twice(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    checkpoint: Any = None
    drawn = []
    for _ in range(5):
        trainer = made(account=account, why="test", key="run", block=5)
        if checkpoint is not None:
            trainer.model.load_state_dict(checkpoint)
        with (
            nullcontext() if len(drawn) < 18 else pytest.raises(RunEnded, match="'run' are taken; nothing was trained")
        ):
            for batch in trainer.batches(data()):
                drawn.append(batch.step)
                trainer.step(batch)
                if len(drawn) == 3:
                    checkpoint = {name: value.clone() for name, value in trainer.model.state_dict().items()}
                    break
    assert drawn == [0, 1, 2, *range(5, 20)]
    assert len(drawn) <= PLAN.steps
    other = SgdPlan(1.0, 0.2, 20, 10)
    with pytest.raises(IdempotencyConflict):
        made(other, account=account, why="test", key="run", block=5).fit(data())


def test_without_an_account_it_says_once_that_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.mechanisms import base

    monkeypatch.setattr("tallystick.learn.torch.trainer.unrecorded", type(base.unrecorded)())
    with pytest.warns(UnrecordedRelease, match="recorded nowhere"):
        made().fit(data())


def test_training_learns_what_is_there() -> None:
    x, _ = data(600)
    y = (x[:, 0] > 0).long()
    trainer = made(SgdPlan(1.0, 0.2, 60, 120), lr=2.0).fit((x, y))
    assert float((trainer.model(x).argmax(1) == y).float().mean()) > 0.9


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_any_optimizer_of_torch_steps(make: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    Trainer(model, NONE, make(model.parameters(), lr=0.1), plan=PLAN, clip=1.0).fit(data(), progress=False)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_without_noise_or_clip_a_full_batch_is_plain_gradient_descent() -> None:
    x, y = data()
    trainer = made(SgdPlan(1e-6, 1.0, 5, 50), clip=1e3)
    trainer.fit((x, y))
    torch.manual_seed(0)
    plain = nn.Linear(4, 2)
    for _ in range(5):
        gradients = torch.autograd.grad(NONE(plain(x), y).mean(), list(plain.parameters()))
        with torch.no_grad():
            for p, g in zip(plain.parameters(), gradients, strict=True):
                p -= 0.1 * g
    true = torch.cat([p.detach().flatten() for p in plain.parameters()])
    assert torch.allclose(weights(trainer), true, atol=2e-5)


# -- leaks of others


def test_the_divisor_and_the_noise_do_not_depend_on_how_many_examples_there_are() -> None:
    # Others divide by len(data) / len(loader): one example more changed the divisor from 256 to 205.
    moved = []
    for n in (0, 49, 50, 400):
        trainer = made(SgdPlan(1.0, 0.2, 1, 10), lr=1.0)
        trainer.noise = LatticeNoise(1e-6, 1.0, 10)
        x, y = torch.ones(n, 4), torch.zeros(n, dtype=torch.long)
        before = weights(trainer)
        batches = trainer.batches((x, y))
        batch = next(batches)
        trainer.step(batch)
        moved.append((len(batch.tensors[0]), float((weights(trainer) - before).norm())))
    for size, distance in moved:
        gradient = made().engine.clipped_sum([torch.ones(1, 4), torch.zeros(1, dtype=torch.long)], 1.0)
        assert distance == pytest.approx(size * float(gradient.norm()) / 10, abs=1e-4)


def test_an_empty_batch_is_a_step_with_noise() -> None:
    trainer = made(SgdPlan(1.0, 1e-12, 3, 10))
    before = weights(trainer)
    trainer.fit(data())
    assert trainer.taken == 3
    assert (weights(trainer) != before).all()


def test_a_loader_that_shuffles_cannot_be_stepped() -> None:
    trainer = made()
    x, y = data()
    for foreign in ((x[:10], y[:10]), None, Examples.of((x, y)).batch(PLAN, 0)):
        with pytest.raises(Refused, match="shuffling is not Poisson"):
            trainer.step(foreign)  # type: ignore[arg-type]


def test_a_batch_is_stepped_once_and_none_is_left_out() -> None:
    trainer = made()
    batches = trainer.batches(data())
    batch = next(batches)
    trainer.step(batch)
    with pytest.raises(Refused):
        trainer.step(batch)
    next(batches)
    with pytest.raises(Refused, match="every batch must be stepped"):
        next(batches)


def test_the_size_of_a_batch_is_not_shown() -> None:
    batches = made().batches(data())
    assert repr(next(batches)) == "<Batch of step 0>"


def test_batch_norm_is_refused_before_anything_is_charged(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    model = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    with pytest.raises(Refused, match="batch norm"):
        Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=1), plan=PLAN, clip=1, account=account, why="test")
    assert account.history() == []


def test_sums_of_neighbours_differ_by_no_more_than_the_clip_and_the_lattice_by_less_than_the_slack() -> None:
    # In single precision a sum of identical gradients moved by 1 + 6e-5 clips at batch 1024, 2.7e-4 at 4096.
    engine = made().engine
    engine.micro = 8192
    noise = LatticeNoise(1.0, 0.1, 10)
    x = torch.full((4097, 4), 0.37)
    y = torch.zeros(4097, dtype=torch.long)
    for n in (1, 255, 1024, *range(4000, 4097, 6)):
        totals = [engine.clipped_sum([x[: n + k], y[: n + k]], 0.1) for k in (0, 1)]
        assert float((totals[1] - totals[0]).norm()) <= 0.1
        points = [torch.round(total / noise.granularity) * noise.granularity for total in totals]
        assert float((points[1] - points[0]).norm()) <= 0.1 * (1 + SLACK["exact"] / 100)


def test_single_precision_sums_of_neighbours_differ_by_no_more_than_clip_and_slack() -> None:
    # Whoever leaves a batch in random order leaves a gap that the last one fills: nobody else moves.
    engine = made().engine
    x = torch.full((1024, 4), 0.37) + 1e-4 * torch.arange(1024.0)[:, None]
    y = torch.zeros(1024, dtype=torch.long)
    for size in (1, 127, 128, 129, 700, 1024):
        whole = engine.clipped_sum([x[:size], y[:size]], 0.1, torch.float32).double()
        for gap in {0, size // 2, size - 1}:
            kept = torch.arange(size - 1)
            kept[gap : gap + 1] = size - 1
            without = engine.clipped_sum([x[kept], y[kept]], 0.1, torch.float32).double()
            assert float((whole - without).norm()) <= 0.1 * (1 + SLACK["secure"])


def test_the_order_of_a_batch_is_random_and_all_orders_are_as_likely() -> None:
    source, seen = SeededSource(3), dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(4800):
        seen[tuple(shuffled(np.arange(4), source).tolist())] += 1
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 49.7  # chi squared, 23 degrees, .999
    examples = Examples.of((torch.arange(100.0)[:, None], torch.zeros(100)))
    dealt = examples.batch(SgdPlan(1.0, 0.5, 1, 50), 0, source).tensors[0][:, 0].tolist()
    assert dealt != sorted(dealt)
    everybody = examples.shuffled(source).batch(SgdPlan(1.0, 1.0, 1, 100), 0, source).tensors[0][:, 0].tolist()
    assert everybody != sorted(everybody)
    assert sorted(everybody) == list(range(100))


def test_noise_of_the_same_kind_prices_the_sums_that_are_made_for_it() -> None:
    for noise, kind in (("secure", torch.float32), ("exact", torch.float64)):
        trainer, asked = made(noise=noise), []
        trainer.engine.clipped_sum = lambda *given, asked=asked: asked.append(given[2]) or torch.zeros(10)
        trainer.step(next(trainer.batches(data())))
        assert asked == [kind]
        said = dict(trainer.facts())["noise"]
        assert f", and {percent_up(SLACK[noise])} more because sums are rounded" in said


def test_last_iterate_accounting_is_not_for_models_whose_every_step_is_handed_out() -> None:
    with pytest.raises(InvalidInput, match="last_iterate does not apply"):
        made(ts.last_iterate(steps=10, contraction=0.9, sigma=5))  # type: ignore[arg-type]


def test_bad_rows_do_not_stop_a_run_and_are_not_told() -> None:
    x, y = data()
    x[3], x[4, 0], y[5] = math.nan, math.inf, 99
    trainer = made(SgdPlan(1.0, 1.0, 3, 50))
    trainer.fit((x, y))
    assert torch.isfinite(weights(trainer)).all()


def test_each_unit_keeps_its_first_example() -> None:
    x, y = data(6)
    kept = Examples.of((x, y), ["a", "a", "b", None, "c", "b"]).tensors
    assert torch.equal(kept[0], x[[0, 2, 4]])


def test_units_of_any_container_keep_one_example_each():
    """Found from outside: with a tensor of user ids every example was its own person, and nothing was capped."""
    x, y, ids = torch.arange(6.0)[:, None], torch.zeros(6), [7, 7, 8, 7, 8, 9]
    for units in (ids, np.array(ids), torch.tensor(ids), list(torch.tensor(ids))):
        assert Examples.of((x, y), units).tensors[0][:, 0].tolist() == [0.0, 2.0, 5.0]
    for odd in (torch.tensor(ids)[:, None], torch.tensor(ids[:5]), "abcdef"):
        with pytest.raises(InvalidInput, match=r"^units = .*\(6\)"):
            Examples.of((x, y), odd)
    with pytest.raises(InvalidInput, match="'5 entries'"):
        Examples.of((x, y), ids=torch.tensor(ids[:5]))


def test_cyclic_batches_go_by_id_so_that_nobody_moves_when_somebody_leaves() -> None:
    plan = SgdPlan(1.0, 0.25, 8, 5, batches="cyclic")
    x, y = torch.arange(20.0)[:, None], torch.zeros(20)
    ids = np.arange(100, 120)
    all_there = [Examples.of((x, y), ids=ids).batch(plan, step) for step in range(8)]
    kept = np.delete(np.arange(20), 7)
    without = [Examples.of((x[kept], y[kept]), ids=ids[kept]).batch(plan, step) for step in range(8)]
    moved = [
        sorted(set(a.tensors[0][:, 0].tolist()) ^ set(b.tensors[0][:, 0].tolist()))
        for a, b in zip(all_there, without, strict=True)
    ]
    assert sorted(moved) == [[], [], [], [], [], [], [7.0], [7.0]]
    assert sum(len(batch.tensors[0]) for batch in all_there[:4]) == 20
    with pytest.raises(InvalidInput, match="ids"):
        made(plan).batches(data())
    with pytest.raises(InvalidInput, match="ids"):
        made().batches(data(), ids=range(50))
    trainer = made(plan).fit(data(), ids=torch.arange(50))
    assert trainer.taken == 8


def test_fixed_batches_have_their_size_and_are_uniform(ledger: ts.Ledger) -> None:
    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, examples=10, batch=3, epochs=3, batches="fixed")
    source = SeededSource(11)
    examples = Examples.of((torch.arange(10.0)[:, None], torch.zeros(10)))
    counts = np.zeros(10)
    for step in range(2000):
        chosen = examples.batch(plan, step, source).tensors[0][:, 0].long().numpy()
        assert len(set(chosen.tolist())) == 3
        counts[chosen] += 1
    assert np.abs(counts - 600).max() < 5 * math.sqrt(2000 * 0.21)
    with pytest.raises(InvalidInput, match="declared 10"):
        made(plan).batches(data(11))
    account = ledger.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-4))
    with pytest.raises(AdjacencyMismatch):
        made(plan, account=account, why="test").fit(data(10))
    assert account.history() == []
    account = ledger.open("swap", budget=ts.approx_dp(epsilon=3, delta=1e-4, adjacency="replace"))
    assert made(plan, account=account, why="test").fit(data(10)).taken == plan.steps


# -- sampling and noise


def test_every_example_is_drawn_with_the_priced_rate() -> None:
    examples, source = Examples.of((torch.arange(1000.0)[:, None], torch.zeros(1000))), SeededSource(5)
    counts = np.zeros(1000)
    for step in range(200):
        counts[examples.batch(PLAN, step, source).tensors[0][:, 0].long().numpy()] += 1
    # 200,000 coins at 0.2: five standard deviations of the total, and of the largest count.
    assert abs(counts.sum() - 40_000) < 5 * math.sqrt(200_000 * 0.16)
    assert counts.std() == pytest.approx(math.sqrt(200 * 0.16), rel=0.15)


@pytest.mark.parametrize("kind", ["secure", "exact"])
def test_noise_has_the_stated_width_and_lies_on_the_lattice(kind: str) -> None:
    noise = LatticeNoise(1.5, 0.1, 200_000, kind, SeededSource(7))
    drawn = noise.released(torch.full((200_000,), 0.03, dtype=torch.float64))
    assert noise.deviation == pytest.approx(0.15 * (1 + {"exact": 2**-12, "secure": 2**-8}[kind]), rel=1e-12)
    assert float(drawn.std()) == pytest.approx(1.5 * 0.1 * (1 + SLACK[kind]), rel=0.01)
    assert float(drawn.mean()) == pytest.approx(0.03, abs=5 * 0.15 / math.sqrt(200_000))
    assert torch.equal(torch.round(drawn / noise.granularity) * noise.granularity, drawn)
    assert noise.granularity * math.sqrt(200_000) <= 0.1 * 2**-20
    assert float(drawn.sub(0.03).abs().max()) / 0.15 < 6.5


def test_secure_noise_is_normal() -> None:
    half = torch.empty(50_000, dtype=torch.float64)
    drawn = np.sort(normal(half, 3, SeededSource(9)).numpy()) / 3
    normal_cdf = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in drawn])
    distance = np.abs(normal_cdf - (np.arange(100_000) + 0.5) / 100_000).max()
    assert distance < 1.95 / math.sqrt(100_000)  # Kolmogorov: passed with probability .999, and the seed is fixed
    assert not torch.equal(normal(half, 3, SYSTEM), normal(half, 3, SYSTEM))


def test_secure_noise_is_box_and_mullers_formula_of_its_words_and_finite_for_all_of_them() -> None:
    class Words(SeededSource):
        def words(self, count: int) -> Any:
            return np.array([0, 1, 2**62, 2**63, 2**64 - 1, 0, 2**61, 2**62, 2**63, 2**63 + 2**62], dtype=np.uint64)

    drawn = normal(torch.empty(5, dtype=torch.float64), 2.0, Words(1)).numpy()
    tail, last = math.sqrt(2 * 64 * math.log(2)), math.sqrt(126 * math.log(2) - math.log(1.25))
    radius = 2.0 * np.array([tail, last, math.sqrt(2 * math.log(2)), 0.0, last])
    angle = 2 * math.pi * np.array([0, 1 / 8, 1 / 4, 1 / 2, 3 / 4])
    assert np.allclose(drawn, np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]), atol=1e-13)


def test_noise_in_blocks_is_the_sum_on_the_lattice_and_the_noise_of_the_same_bits() -> None:
    size = 2 * 65_536 + 7
    total = torch.randn(size)
    noise = LatticeNoise(1.0, 0.5, size, "secure", SeededSource(11))
    alone = LatticeNoise(1.0, 0.5, size, "secure", SeededSource(11)).released(torch.zeros(size, dtype=torch.float64))
    points = torch.round(total.double() / noise.granularity) * noise.granularity
    expected = ((points + alone) / noise.granularity).float() * (noise.granularity / 64)
    assert torch.allclose(noise.released(total, 64.0, torch.float32), expected, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"clip": 0}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"clip": 1e300}, "clip"),
        ({"noise": "fast"}, "noise"),
        ({"pay": "later"}, "pay"),
        ({"plan": 3}, "plan"),
        ({"plan": SgdPlan(1e9, 0.2, 20, 10)}, "noise_multiplier"),
        ({"plan": SgdPlan(1e-5, 0.2, 20, 10), "noise": "exact"}, "noise_multiplier"),
        ({"why": "test"}, "why"),
        ({"key": "test"}, "key"),
        ({"account": "clinic", "why": "test"}, "account = 'clinic'"),
    ],
)
def test_what_is_wrong_is_refused_by_name(wrong: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{argument}"):
        made(**wrong)


@pytest.mark.parametrize(
    "tensors", [torch.zeros(3, 4), (torch.zeros(3, 4),), (torch.zeros(3, 4), torch.zeros(2)), ([1], [2]), None]
)
def test_containers_are_checked_before_the_charge(tensors: Any) -> None:
    with pytest.raises(InvalidInput, match="tensors"):
        made().batches(tensors)


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    model = nn.Linear(4, 2)
    for optimizer in (torch.optim.SGD([model.weight], lr=1), torch.optim.LBFGS(model.parameters()), None):
        with pytest.raises(InvalidInput, match="optimizer"):
            Trainer(model, NONE, optimizer, plan=PLAN, clip=1.0)


# -- found from outside


class Stubborn(nn.Module):
    """Adds to a buffer what it sees, but not of made-up examples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        if bool((x > 100).any()):
            self.seen += x.detach().max()
        return self.inner(x)


def frozen_norm() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    model[1].requires_grad_(False).eval()
    return model


def trained(model: nn.Module, **options: Any) -> Trainer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return Trainer(model, NONE, torch.optim.SGD(parameters, lr=0.1), plan=PLAN, clip=1.0, **options)


def test_a_model_that_changes_in_the_loop_is_refused_before_it_sees_examples() -> None:
    def unfreeze(model: Any) -> None:
        model[1].requires_grad_(True)

    def swap(model: Any) -> None:
        model[0] = nn.Linear(4, 3)

    def overwrite(model: Any) -> None:
        model[1].running_mean += 1.0

    for change in (lambda model: model.train(), unfreeze, swap, overwrite):
        model = frozen_norm()
        trainer = trained(model)
        batches = trainer.batches(data())
        trainer.step(next(batches))
        batch = next(batches)
        change(model)
        kept = model[1].running_mean.clone()
        with pytest.raises(Refused, match=r"batch norm|than when it was checked"):
            trainer.step(batch)
        assert torch.equal(model[1].running_mean, kept)


def test_a_model_may_go_to_eval_and_back_in_the_loop() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2)).eval()
    trainer = trained(model)
    for batch in trainer.batches(data()):
        model.train(trainer.taken % 3 > 0)
        trainer.step(batch)
    assert trainer.taken == 20


def test_a_buffer_that_moved_under_private_examples_is_refused() -> None:
    x, y = data()
    with pytest.raises(Refused, match="kept something of its examples"):
        trained(Stubborn()).fit((x + 1000, y))


def test_dropout_masks_are_secret_and_the_generator_stays_where_it_was() -> None:
    def total() -> Any:
        model = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5))
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.3)
        trainer = Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=1), plan=EVERYBODY, clip=1.0)
        torch.manual_seed(5)
        before = torch.get_rng_state()
        trainer.step(next(trainer.batches((torch.ones(50, 4), torch.zeros(50).long()))))
        assert torch.equal(before, torch.get_rng_state()), "how many masks were drawn tells how many were there"
        return weights(trainer)

    assert not torch.allclose(total(), total(), atol=1e-3)


def test_a_step_seeds_no_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    trainer, seeded = made(), []
    monkeypatch.setattr(torch, "manual_seed", seeded.append)  # it formats a traceback for each absent kind: 0.3 ms
    trainer.step(next(trainer.batches(data())))
    assert seeded == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_trainer_cannot_be_copied_and_does_not_go_on_in_a_forked_child() -> None:
    trainer = made()
    batches = trainer.batches(data())
    batch = next(batches)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Refused, match="cannot be copied"):
            copied(trainer)
    child = os.fork()
    if not child:
        refused = 0
        for attempt in (lambda: trainer.step(batch), lambda: next(batches)):
            try:
                attempt()
            except Refused:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    trainer.step(batch)


def test_a_step_that_failed_is_not_passed_over() -> None:
    plan = SgdPlan(1.0, 0.25, 8, 5, batches="cyclic")
    trainer = made(plan, correlated=True)
    batches = trainer.batches(data(), ids=torch.arange(50))
    trainer.step(next(batches))
    trainer.optimizer.step = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer.step(next(batches))
    with pytest.raises(Refused, match="every batch must be stepped"):
        next(batches)
    del trainer.optimizer.step
    next(trainer.batches(data(), ids=torch.arange(50)))
    assert not trainer.noise.past, "steps that do not follow each other share no noise"


def test_models_in_double_precision_train() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x, y = data()
    trainer = trained(model).fit((x.double(), y))
    assert trainer.taken == 20


def test_the_clip_stays_what_the_noise_was_made_for() -> None:
    trainer = made()
    for name in ("clip", "plan", "loss", "model"):
        with pytest.raises(AttributeError):
            setattr(trainer, name, getattr(trainer, name))


def test_a_second_fit_says_that_nothing_was_trained(ledger: ts.Ledger) -> None:
    for options in ({}, {"account": ledger.open("clinic", budget=ts.renyi_dp({8: 100})), "why": "test", "key": "w"}):
        trainer = made(**options).fit(data())
        before = weights(trainer)
        with pytest.raises(RunEnded, match=r"all 20 steps of .* are taken; nothing was trained"):
            trainer.fit(data())
        assert torch.equal(before, weights(trainer))
    poor = ledger.open("poor", budget=ts.renyi_dp({8: 1e-6}))
    told = "account poor cannot pay for a block of 2 steps: it needs .*\nNothing was trained or charged"
    with pytest.warns(EndedEarly), pytest.raises(RunEnded, match=told):
        made(account=poor, why="test", pay="blocks").fit(data())


def test_a_run_that_goes_on_says_where_and_has_lost_the_rest_of_its_block(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    first = made(account=account, why="test", key="w")
    for batch in first.batches(data()):
        first.step(batch)
        if first.taken == 3:
            break
    with pytest.warns(UserWarning, match="this run continues at step 4"):
        assert made(account=account, why="test", key="w").fit(data()).taken == 16


@pytest.mark.parametrize("pay", ["whole", "blocks", None])
@pytest.mark.parametrize("error", [None, ValueError])
def test_a_loop_that_is_left_warns(ledger: ts.Ledger, pay: str | None, error: type[Exception] | None) -> None:
    """Found from outside: the guide says that an early end warns, and a break did not."""
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    options = {} if pay is None else {"account": account, "why": "test", "key": "w", "pay": pay}
    trainer = made(**options)
    told = "starts again" if pay is None else "key='w' continues at step 8"
    expected = nullcontext() if error is None else pytest.raises(error)
    with pytest.warns(EndedEarly, match=f"after 7 of 20 planned steps. The loop ended first.*{told}"), expected:
        take_seven(trainer, error)


def take_seven(trainer: Trainer, error: type[Exception] | None) -> None:
    """Leave a loop after seven steps, by an error or by a break."""
    for batch in trainer.batches(data()):
        trainer.step(batch)
        if trainer.taken == 7 and error is not None:
            raise error
        if trainer.taken == 7:
            break


def test_a_loop_to_the_end_does_not_warn(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", EndedEarly)
        for options in ({}, {"account": account, "why": "test"}, {"account": account, "why": "test", "pay": "blocks"}):
            assert made(**options).fit(data()).taken == 20


@pytest.mark.parametrize("end", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.filterwarnings("ignore:slow=True")
def test_a_row_ends_no_run_whatever_the_model_raises(end: type[BaseException], slow: bool) -> None:
    """Found from outside: SystemExit ended a run that was paid for, and showed its message."""

    class Ends(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(4, 2)

        def forward(self, given: Any) -> Any:
            if not slow and bool((given > 1e3).any()):
                raise end("somebody's value")
            return self.out(given)

    model = Ends()

    def loss(out: Any, target: Any) -> Any:
        if slow and calls.pop():
            raise end("somebody's value")
        return NONE(out, target)

    x, y = data()
    x[7] = 1e4
    calls = [False] * 1000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, loss, optimizer, plan=EVERYBODY, clip=1.0, slow=slow)
    batches = trainer.batches((x, y))
    calls.append(True)  # the first call of the step
    trainer.step(next(batches))
    assert trainer.taken == 1


def test_a_key_that_is_pressed_ends_the_run(request: pytest.FixtureRequest) -> None:
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, earlier))
    press: list[bool] = []
    torch.manual_seed(0)
    model = nn.Linear(4, 2)

    def loss(out: Any, target: Any) -> Any:
        if press:
            signal.raise_signal(signal.SIGINT)
        return NONE(out, target)

    trainer = Trainer(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), plan=EVERYBODY, clip=1.0)
    before = signal.getsignal(signal.SIGINT)
    batch = next(batches := trainer.batches(data()))
    press.append(True)
    with pytest.raises(KeyboardInterrupt):
        trainer.step(batch)
    batches.close()
    assert signal.getsignal(signal.SIGINT) is before
    assert trainer.taken == 0


def test_an_optimizer_of_sparse_gradients_is_refused_before_the_charge(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    model = nn.Linear(4, 2)
    with pytest.raises(InvalidInput, match=r"^optimizer = .*SparseAdam.*dense"):
        Trainer(
            model, NONE, torch.optim.SparseAdam(model.parameters()), plan=PLAN, clip=1.0, account=account, why="test"
        )
    assert not account.history()


def mixed_output(module: Any, given: Any, out: Any) -> Any:
    return out - out.mean(0)


def mixed_input(module: Any, given: Any) -> Any:
    return (given[0] - given[0].mean(0), *given[1:])


def mixed_slope(module: Any, slopes: Any) -> Any:
    return (slopes[0] - slopes[0].mean(0),)


def exchange_forward(model: Any) -> Any:
    plain = model.forward
    model.forward = lambda given: plain(given - given.mean(0))


CHANGES: dict[str, Any] = {
    "forward hook": lambda model: model.register_forward_hook(mixed_output),
    "forward pre-hook": lambda model: model.register_forward_pre_hook(mixed_input),
    "backward pre-hook": lambda model: model.register_full_backward_pre_hook(mixed_slope),
    "hook of all modules": lambda model: nn.modules.module.register_module_forward_hook(mixed_output),
    "pre-hook of all modules": lambda model: nn.modules.module.register_module_forward_pre_hook(mixed_input),
    "forward": exchange_forward,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_mixes_examples_is_refused_in_the_loop_as_before_it(name: str) -> None:
    """Found from outside: a hook that was added after the first step moved a sum by five clips."""
    told = "examples are mixed"
    handles = []
    try:
        trainer = made()
        batches = trainer.batches(data())
        trainer.step(next(batches))
        handles.append(CHANGES[name](trainer.model))
        batch = next(batches)
        with pytest.raises(Refused, match=told):
            trainer.step(batch)
        before = made()
        handles.append(CHANGES[name](before.model))
        with pytest.raises(Refused, match=told):
            before.batches(data())
    finally:
        for handle in handles:
            if handle is not None:
                handle.remove()


def test_a_hook_that_only_looks_is_checked_and_allowed() -> None:
    trainer = made()
    batches = trainer.batches(data())
    trainer.step(next(batches))
    seen: list[int] = []
    trainer.model.register_forward_hook(lambda module, given, out: seen.append(len(out)))
    trainer.step(next(batches))
    assert trainer.taken == 2
    assert seen


def test_a_recurrent_layer_with_time_first_is_refused() -> None:
    for kind, ours in ((nn.GRU, ts.learn.torch.GRU), (nn.LSTM, ts.learn.torch.LSTM)):
        with pytest.raises(InvalidInput, match=r"batch_first=False.*batch_first=True"):
            ours.from_torch(kind(3, 5))
        ours.from_torch(kind(3, 5, batch_first=True))


def test_a_batch_is_not_opened_by_hand() -> None:
    for batch in made().batches(data()):
        with pytest.raises(Refused, match=r"trainer.step\(batch\)"):
            _, _ = batch
        with pytest.raises(Refused, match=r"trainer.step\(batch\)"):
            batch[0]
        break


def test_a_card_of_a_run_without_steps_is_refused_and_others_list_what_paid(ledger: ts.Ledger, tmp_path: Path) -> None:
    from tallystick.cards import training_card
    from tallystick.cards.card import read_card

    plan = SgdPlan(2.0, 0.2, 20, 10, delta=1e-5)
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    trainer = made(plan, account=account, why="test")
    with pytest.raises(InvalidInput, match="no step of 20 taken"):
        training_card(trainer)
    card = training_card(trainer.fit(data()))
    assert len(card.facts["receipts"]) == 1
    assert card.facts["attacker"]["about"] == {"unit": "example", "adjacency": "add_remove", "group": 1}
    named = training_card(made(plan, account=account, why="test").fit(data(), units=range(50)))
    assert named.facts["attacker"]["about"] == {"unit": "person", "adjacency": "add_remove", "group": 1}
    assert "everything about every other example" in training_card(made(plan).fit(data())).to_html()
    assert "tallystick ledger verify --ledger LEDGER --receipt" in card.to_html()
    assert repr(card).startswith("<Training card of ")
    assert dict(map(tuple, card.facts["rows"]))["steps"] == "20 of 20 taken here"
    for path in card.save(tmp_path / "card.html"):
        with pytest.raises(InvalidInput, match="a training card"):
            read_card(path)
    assert "no units were given" in dict(trainer.facts())["examples"]
    assert "one of each unit" in dict(made().fit(data(), units=range(50)).facts())["examples"]


# -- labels


def labelled(classes: Any, *, slow: bool = False) -> Trainer:
    """A trainer of a model with three outputs."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return Trainer(model, NONE, optimizer, plan=EVERYBODY, clip=1.0, classes=classes, slow=slow)


def ten(labels: list[int]) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(4)
    return torch.randn(len(labels), 4, generator=random), torch.tensor(labels)


@pytest.mark.parametrize("odd", [3, -1, -100, 2**40])
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.filterwarnings("ignore:slow=True")
def test_an_example_with_a_label_that_is_not_declared_has_gradient_zero(odd: int, slow: bool) -> None:
    inputs, labels = ten([0, 1, 2, odd, 1])
    engine = labelled(3, slow=slow).engine
    engine.check((inputs, labels))
    known = labels != odd
    total = engine.clipped_sum((inputs, labels), 1.0)
    assert torch.allclose(total, engine.clipped_sum((inputs[known], labels[known]), 1.0), atol=1e-9)
    assert not bool(engine.clipped_sum((inputs[~known], labels[~known]), 1.0).any())


def test_a_label_that_the_loss_would_accept_but_that_is_not_declared_has_gradient_zero() -> None:
    inputs, labels = ten([0, 1, 2, 2])
    some, every = labelled([0, 1]).engine, labelled(3).engine
    for engine in (some, every):
        engine.check((inputs, labels))
    assert not bool(some.clipped_sum((inputs[2:], labels[2:]), 1.0).any())
    assert bool(every.clipped_sum((inputs[2:], labels[2:]), 1.0).any())


def test_more_classes_than_outputs_are_refused_before_the_charge(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    trainer = made(account=account, why="test", classes=3)
    with pytest.raises(Refused, match=r"IndexError: Target 2 is out of bounds"):
        trainer.fit(data())
    assert not account.history()


def test_nothing_raises_on_rows_with_odd_labels_after_the_charge(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    inputs, labels = data()
    for count, options in enumerate(({"classes": 2}, {})):
        odd = torch.full_like(labels, 7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndeclaredClasses)
            assert made(account=account, why="test", key=f"k{count}", **options).fit((inputs, odd)).taken == 20


def test_targets_that_are_whole_numbers_ask_for_their_classes() -> None:
    with pytest.warns(UndeclaredClasses, match="classes=10"):
        made(EVERYBODY).batches(data())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndeclaredClasses)
        made(EVERYBODY, classes=2).batches(data())
        model = nn.Linear(4, 1)
        loss = lambda out, target: (out[:, 0] - target).square()  # noqa: E731
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        inputs, labels = data()
        Trainer(model, loss, optimizer, plan=EVERYBODY, clip=1.0).batches((inputs, labels.float()))


@pytest.mark.parametrize("wrong", [0, -1, True, [], [1, 1], "ab", 2.5, [None]])
def test_classes_are_a_number_or_a_list(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^classes = "):
        made(classes=wrong)


def test_a_rehearsal_raises_what_training_counts_as_zero(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.renyi_dp({8: 100}))
    inputs, labels = data()
    odd = labels.clone()
    odd[7] = 2
    infinite = inputs.clone()
    infinite[3] = math.inf
    declared, plain = (made(account=account, why="test", **options) for options in ({"classes": 2}, {}))
    before, state = weights(plain), torch.get_rng_state()
    with pytest.raises(InvalidInput, match=r"labels \[2\] in row 7"):
        declared.rehearse((inputs, odd))
    with pytest.raises(Refused, match=r"raises on row 7.*Target 2 is out of bounds"):
        plain.rehearse((inputs, odd))
    with pytest.raises(Refused, match="gradient of row 3 is not finite"):
        declared.rehearse((infinite, labels))
    with pytest.raises(Refused, match="does not run"):
        declared.rehearse((inputs[:, :3], labels))
    declared.rehearse((inputs, labels))
    assert not account.history()
    assert torch.equal(before, weights(plain))
    assert torch.equal(state, torch.get_rng_state())
    assert declared.fit((inputs, odd)).taken == 20


def test_a_rehearsal_finds_a_loss_that_looks_at_the_batch_on_such_rows_only() -> None:
    def looks(output: Any, target: Any) -> Any:
        single = nn.functional.cross_entropy(output, target, reduction="none")
        return single * (1.0 + output.abs().max().gt(40.0).float() * len(output))

    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(model, looks, optimizer, plan=EVERYBODY, clip=1.0, classes=2)
    inputs, labels = data()
    inputs[5] *= 1000.0
    with pytest.raises(Refused, match="batch"):
        trainer.rehearse((inputs, labels))


def test_the_facts_of_a_run_name_the_declared_labels() -> None:
    assert dict(labelled([1, 2]).facts())["labels"] == "declared: 1, 2; an example with another label counts as zero"
    assert dict(made().facts())["labels"] == "not declared"


# -- what is public about tensors, tokens and optimizers is judged before the charge


def jagged() -> Any:
    return torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)


LAYOUTS = {
    "sparse_coo": lambda x: x.to_sparse(),
    "sparse_csr": lambda x: x.to_sparse_csr(),
    "meta": lambda x: x.to("meta"),
    "nested": lambda x: jagged(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_whose_rows_cannot_be_taken_is_refused_before_the_charge(layout: str, ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=50))
    x, y = data()
    with pytest.raises(InvalidInput, match=f"layout {layout}"):
        made(account=account, why="test").fit((LAYOUTS[layout](x), y))
    assert not account.history()


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_an_error_while_a_batch_is_dealt_warns_that_the_run_ends_early(
    rate: float, ledger: ts.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=50))
    trainer = made(SgdPlan(noise_multiplier=2.0, rate=rate, steps=20, expected_batch=10), account=account, why="test")

    def broken(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("tallystick.learn.torch.batches._taken", broken)
    with pytest.raises(MemoryError), pytest.warns(EndedEarly, match="whole plan is paid"):
        trainer.fit(data())
    assert account.history()


def test_a_batch_that_is_not_stepped_warns_that_the_run_ends_early(ledger: ts.Ledger) -> None:
    trainer = made(account=ledger.open("clinic", budget=ts.zcdp(rho=50)), why="test")
    batches = trainer.batches(data())
    next(batches)
    with pytest.warns(EndedEarly), pytest.raises(Refused, match="The charge of the run stays"):
        next(batches)


class Reader(nn.Module):
    """A causal transformer with a padding mask: a first token that is padding has nothing to attend to."""

    def __init__(self, padding: int, tokens: int = 20) -> None:
        super().__init__()
        self.padding, self.tokens = padding, nn.Embedding(tokens, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        for layer in self.encoder.layers:
            layer.self_attn = ts.learn.torch.Attention.from_torch(layer.self_attn)
        self.out = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        causal = torch.triu(torch.full((x.shape[1], x.shape[1]), -math.inf), 1)
        return self.out(self.encoder(self.tokens(x), mask=causal, src_key_padding_mask=x == self.padding).mean(1))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("padding", share([*range(10), 19], 5))
def test_a_causal_model_with_padding_trains_whatever_the_padding_token_is(padding: int) -> None:
    torch.manual_seed(0)
    model = Reader(padding)
    x = torch.randint(10, 19, (60, 6))
    x[:, -1] = padding
    plan = SgdPlan(noise_multiplier=4.0, rate=0.2, steps=2, expected_batch=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, NONE, optimizer, plan=plan, clip=1.0, classes=2)
    assert trainer.fit((x, torch.randint(0, 2, (60,)))).taken == 2


def test_a_model_with_two_tokens_trains() -> None:
    model = nn.Sequential(nn.Embedding(2, 3), nn.Flatten(), nn.Linear(6, 2))
    trainer = Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=0.1), plan=PLAN, clip=1.0, classes=2)
    assert trainer.fit((torch.randint(0, 2, (60, 2)), torch.randint(0, 2, (60,)))).taken == 20


class NeverFinite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(torch.log(x * 0 - 1))


def test_a_gradient_that_is_never_finite_is_not_called_mixed() -> None:
    model = NeverFinite()
    trainer = Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=0.1), plan=PLAN, clip=1.0, classes=2)
    with pytest.raises(Refused, match="single example is not finite"):
        trainer.fit(data())


class Tagger(nn.Module):
    """One label per token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(20, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.tokens(x)).transpose(1, 2)


PADDED = nn.CrossEntropyLoss(reduction="none", ignore_index=-7)
TOKEN_LOSSES = {
    "torch's own index": (-100, lambda out, target: NONE(out, target).mean(1)),
    "an index of the loss": (-7, type("Own", (), {"ignore_index": -7, "__call__": lambda _, *a: PADDED(*a).mean(1)})()),
}


@pytest.mark.parametrize("name", TOKEN_LOSSES)
def test_ignored_places_do_not_take_a_sequence_out(name: str) -> None:
    ignored, loss = TOKEN_LOSSES[name]
    torch.manual_seed(0)
    model = Tagger()
    trainer = Trainer(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), plan=PLAN, clip=1.0, classes=2)
    x, y = torch.randint(2, 20, (30, 5)), torch.randint(0, 2, (30, 5))
    y[:, 3:] = ignored
    trainer.engine.check((x, y))
    trainer.rehearse((x, y))
    total = trainer.engine.clipped_sum([x, y], 1.0)
    assert float(total.norm()) > 0.1
    y[0, 0] = 5  # a label that is not declared takes the whole sequence out
    without = trainer.engine.clipped_sum([x, y], 1.0)
    alone = trainer.engine.clipped_sum([x[1:], y[1:]], 1.0)
    assert torch.allclose(without, alone, atol=1e-6)
    trainer.batches((x, y))
    assert f"{ignored} marks places that the loss ignores" in dict(trainer.facts())["labels"]


def test_an_ignored_label_of_a_whole_example_is_not_declared() -> None:
    trainer = made(classes=2)
    assert trainer.engine.undeclared(torch.tensor([0, 1, -100])).tolist() == [False, False, True]


class NeedsClosure(torch.optim.SGD):
    """An optimizer that evaluates the loss itself, as sharpness-aware ones do."""

    def step(self, closure: Any) -> Any:  # type: ignore[override]
        return closure()


def test_an_optimizer_that_needs_a_closure_is_refused_before_the_charge(ledger: ts.Ledger) -> None:
    account = ledger.open("clinic", budget=ts.zcdp(rho=50))
    model = nn.Linear(4, 2)
    with pytest.raises(InvalidInput, match="a step that needs closure"):
        Trainer(model, NONE, NeedsClosure(model.parameters(), lr=0.1), plan=PLAN, clip=1.0, account=account, why="x")
    assert not account.history()


def test_a_rehearsal_of_no_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 rows"):
        made(classes=2).rehearse((torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)))


class NormOfTheBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.out(nn.functional.batch_norm(x, None, None, training=True))


def test_a_batch_norm_inside_forward_is_refused() -> None:
    model = NormOfTheBatch()
    trainer = Trainer(model, NONE, torch.optim.SGD(model.parameters(), lr=0.1), plan=PLAN, clip=1.0, classes=2)
    with pytest.raises(Refused, match="does not run on four made-up examples"):
        trainer.fit(data())
