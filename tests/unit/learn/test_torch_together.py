"""Two processes train what one would: the same sums, one draw of noise, one payment."""

from __future__ import annotations

import json
import os
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed processes", allow_module_level=True)

import torch.distributed as processes  # noqa: E402
from torch import nn  # noqa: E402

import tallystick as ts  # noqa: E402
from tallystick.learn.training import SgdPlan  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

X = torch.randn(60, 50, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()
NOTHING, EVERYTHING = slice(0, 0), slice(0, 60)
SHARDS = {"split": [slice(0, 40), slice(40, 60)], "uneven": [NOTHING, EVERYTHING]}


def flat(model: nn.Module) -> Any:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trained(folder: Path, rank: int, size: int, case: str) -> dict[str, Any]:
    """What one of ``size`` processes ends with."""
    mine = EVERYTHING if size == 1 else SHARDS.get(case, [NOTHING, NOTHING])[rank]
    torch.manual_seed(rank)
    model, account = nn.Linear(50, 40), None
    if rank == 0:
        limit = 1e-9 if case == "poor" else 4e6
        account = ts.Ledger(folder / f"{case}.db").open("clinic", budget=ts.renyi_dp({2: limit}))
    plan = SgdPlan(5.0, 1.0, 1, 10.0) if case == "noise" else SgdPlan(0.002, 1.0, 5, 10.0)
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=1.0), nn.CrossEntropyLoss(reduction="none")
    why = "test" if rank == 0 else None
    trainer = ts.learn.torch.Trainer(model, loss, optimizer, plan=plan, clip=1.0, account=account, why=why)
    start = flat(model)
    try:
        trainer.fit((X[mine], Y[mine]))
    except ts.errors.TallystickError as problem:
        return {"problem": type(problem).__name__}
    moved, charges = float((flat(model) - start).std()), len(account.history()) if account else 0
    return {"end": flat(model).tolist(), "moved": moved, "taken": trainer.taken, "charges": charges}


def forked(folder: Path, rank: int, size: int, cases: tuple[str, ...]) -> int:
    """A process that trains together with the others and writes what it ended with; torch is imported only once."""
    child = os.fork()
    if child:
        return child
    try:
        warnings.simplefilter("ignore")
        meeting = {"init_method": f"file://{folder}/meet", "rank": rank, "world_size": size}
        processes.init_process_group("gloo", timeout=timedelta(seconds=100), **meeting)
        (folder / f"{rank}.json").write_text(json.dumps({case: trained(folder, rank, size, case) for case in cases}))
        os._exit(0)
    finally:
        os._exit(1)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes ended with, in every case."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("two")
    children = [forked(folder, rank, 2, ("split", "uneven", "noise", "poor")) for rank in (0, 1)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process with all examples ended with."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trained(tmp_path_factory.mktemp("one"), 0, 1, "split")


@pytest.mark.parametrize("case", ["split", "uneven"])
def test_two_processes_reach_what_one_reaches(both: list[dict[str, Any]], alone: dict[str, Any], case: str) -> None:
    first, second = both[0][case], both[1][case]
    assert first["end"] == second["end"]
    apart = torch.tensor(first["end"]) - torch.tensor(alone["end"])
    assert float(apart.std()) < 2 * 0.0002 * 10**0.5  # the noise of both runs, and next to it what was learned
    assert alone["moved"] > 20 * float(apart.std())
    assert first["taken"] == second["taken"] == 5
    assert first["charges"] == alone["charges"] > 0


def test_the_noise_of_two_processes_is_drawn_once(both: list[dict[str, Any]]) -> None:
    first, second = both[0]["noise"], both[1]["noise"]
    assert first["end"] == second["end"]
    assert first["moved"] == pytest.approx(5.0 / 10.0, rel=0.08)  # 2,040 draws; two draws would give 1.41 times that


def test_everybody_stops_when_the_account_cannot_pay(both: list[dict[str, Any]]) -> None:
    assert both[0]["poor"] == {"problem": "BudgetExceeded"}
    assert both[1]["poor"] == {"problem": "Refused"}
