"""Two processes train what one would: the same sums, one draw of noise, one payment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed processes", allow_module_level=True)

WORKER = """
import json, sys, warnings
import torch, torch.distributed as processes
from torch import nn
import tallystick as ts
from tallystick.learn.training import SgdPlan

warnings.simplefilter("ignore")
torch.set_num_threads(1)
rank, size, folder, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if size > 1:
    processes.init_process_group("gloo", init_method=f"file://{folder}/meet-{case}", rank=rank, world_size=size)
x = torch.randn(60, 50, generator=torch.Generator().manual_seed(1))
y = (x[:, 0] > 0).long()
cut = {"split": [slice(0, 40), slice(40, 60)], "uneven": [slice(0, 0), slice(0, 60)]}.get(case, [slice(0, 0)] * 2)
mine = slice(0, 60) if size == 1 else cut[rank]
noise = 5.0 if case == "noise" else 0.002
torch.manual_seed(rank)
model = nn.Linear(50, 40)
if size == 1:
    torch.manual_seed(0)
    model = nn.Linear(50, 40)
account = None
if rank == 0:
    limit = 1e-9 if case == "poor" else 4e6
    account = ts.Ledger(f"{folder}/{case}-{size}.db").open("clinic", budget=ts.renyi_dp({2: limit}))
start = torch.cat([p.detach().flatten() for p in model.parameters()])
trainer = ts.learn.torch.Trainer(
    model, nn.CrossEntropyLoss(reduction="none"), torch.optim.SGD(model.parameters(), lr=1.0),
    plan=SgdPlan(noise, 1.0, 1 if case == "noise" else 5, 10.0), clip=1.0, account=account,
    why="test" if rank == 0 else None,
)
if size > 1 and case == "noise":
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
try:
    trainer.fit((x[mine], y[mine]))
except ts.errors.TallystickError as problem:
    print(json.dumps({"problem": type(problem).__name__}))
    sys.exit()
end = torch.cat([p.detach().flatten() for p in model.parameters()])
charges = len(account.history()) if account else 0
moved = float((end - start).std())
print(json.dumps({"end": end.tolist(), "moved": moved, "taken": trainer.taken, "charges": charges}))
"""


def trained(folder: Path, case: str, size: int) -> list[dict[str, Any]]:
    words = [sys.executable, "-c", WORKER]
    running = [
        subprocess.Popen([*words, str(rank), str(size), str(folder), case], stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    return [json.loads(each.communicate(timeout=120)[0].splitlines()[-1]) for each in running]


@pytest.mark.parametrize("case", ["split", "uneven"])
def test_two_processes_reach_what_one_reaches(tmp_path: Path, case: str) -> None:
    first, second = trained(tmp_path, case, 2)
    (alone,) = trained(tmp_path, case, 1)
    assert first["end"] == second["end"]
    apart = torch.tensor(first["end"]) - torch.tensor(alone["end"])
    assert float(apart.std()) < 2 * 0.0002 * 10**0.5  # the noise of both runs, and next to it what was learned
    assert alone["moved"] > 20 * float(apart.std())
    assert first["taken"] == second["taken"] == 5
    assert first["charges"] == alone["charges"] > 0


def test_the_noise_of_two_processes_is_drawn_once(tmp_path: Path) -> None:
    first, second = trained(tmp_path, "noise", 2)
    assert first["end"] == second["end"]
    assert first["moved"] == pytest.approx(5.0 / 10.0, rel=0.08)  # 2,040 draws; two draws would give 1.41 times that


def test_everybody_stops_when_the_account_cannot_pay(tmp_path: Path) -> None:
    first, second = trained(tmp_path, "poor", 2)
    assert first["problem"] == "BudgetExceeded"
    assert second["problem"] == "Refused"
