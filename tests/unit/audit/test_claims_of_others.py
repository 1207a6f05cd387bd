"""Three claims that others have really made, falsified from their records: no data and no model are needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.foreign import from_opacus
from tallystick.audit.recomputed import claimed_epsilon
from unit.audit.test_twins import attacked
from unit.audit.twins import TWINS

# sample rate, noise, steps, delta; what Opacus 1.6.0 prints by its GDP accountant (a central limit) and by its PRV
RECORDS = [
    (256 / 60_000, 1.1, 14_062, 1e-5, 2.3243, 2.3917),
    (0.01, 1.0, 1000, 1e-5, 1.6177, 1.8384),
    (0.0032, 0.6, 3000, 1e-5, 2.8190, 4.2648),
    (0.02, 2.0, 10_000, 1e-6, 5.2554, 5.3222),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "limit", "numerical"), RECORDS)
def test_the_central_limit_accountant_is_falsified_by_its_own_history(
    rate: float, sigma: float, steps: int, delta: float, limit: float, numerical: float
) -> None:
    run = from_opacus({"history": [[sigma, rate, steps]], "mechanism": "gdp"})
    assert claimed_epsilon(run, epsilon=limit, delta=delta).falsified
    assert claimed_epsilon(run, epsilon=limit, delta=delta).refutes == "(epsilon, delta)-DP"
    assert not claimed_epsilon(run, epsilon=numerical, delta=delta).falsified


def test_forgotten_counts_are_falsified_by_the_record_of_what_was_released() -> None:
    # A mean is a noisy sum over a noisy count: two releases, of which the claim has priced one.
    released = ts.laplace(scale=1) + ts.discrete_laplace(scale=1)
    priced = float(ts.laplace(scale=1).epsilon(delta=0.0))
    found = claimed_epsilon(released, epsilon=priced, delta=0.0)
    assert found.falsified
    assert found.epsilon_at_least(delta=0.0) == pytest.approx(2.0, rel=1e-6)


def test_a_shuffled_loader_priced_as_poisson_is_falsified() -> None:
    # One pass over shuffled batches puts a record into exactly one of eight steps: a random allocation.
    poisson = 8 * ts.gaussian(sigma=0.3).sampled(rate=0.125)
    shuffled = ts.gaussian(sigma=0.3).allocated(steps=8)
    printed = float(poisson.epsilon(delta=0.5))
    assert claimed_epsilon(shuffled, epsilon=printed, delta=0.5).falsified
    assert not claimed_epsilon(poisson, epsilon=printed, delta=0.5).falsified
    # and from draws alone, without knowing how batches were made
    twin = next(twin for twin in TWINS if twin.fault == "shuffled as Poisson")
    assert attacked(twin, twin.broken, 5, 1e-3, twin.draws).falsified


@pytest.mark.parametrize(("claimed", "code"), [("1.6177", 5), ("1.9", 0)])
def test_import_and_audit_say_the_same(run: Any, tmp_path: Path, claimed: str, code: int) -> None:
    record = tmp_path / "history.json"
    record.write_text(json.dumps([[1.0, 0.01, 1000]]))
    imported = run("import", "opacus", str(record), "--claimed", claimed, "--json")
    audited = run("audit", "accounting", "opacus", str(record), "--claimed", claimed, "--json")
    assert imported.code == audited.code == code
    assert imported.document["found"]["lower"] == audited.document["found"]["lower"]
    assert audited.document["found"]["falsified"] is (code == 5)
    assert ("too small" in imported.document["found"]["verdict"]) is (code == 5)
