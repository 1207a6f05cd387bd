"""Our accountants inside the real packages, in an environment of their own; ``run.py`` makes it and calls pytest here."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from dp_accounting import dp_event

import tallystick as ts

sys.path.insert(0, str(Path(__file__).parent))

from values import ADD, DELTA, EVENTS, REPLACE, rows

TOO_SMALL = {"Gaussian, replace", "batch of 10 of 1000", "exponential mechanism, 10 times"}
"""Where the package's Renyi accountant is below ours, and why, is on the page that run.py writes."""


# ---- Opacus ----


@pytest.mark.filterwarnings("ignore")
def test_an_unchanged_script_of_opacus_reports_our_epsilon() -> None:
    opacus = pytest.importorskip("opacus")
    import torch

    ts.learn.opacus.register()
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(200, 4), torch.randint(0, 2, (200,)))
    model = torch.nn.Linear(4, 2)
    engine = opacus.PrivacyEngine(accountant="tallystick")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=20),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    mine = engine.get_epsilon(delta=1e-5)
    assert mine == (10 * ts.gaussian(sigma=1).sampled(rate=0.1)).epsilon(delta=1e-5)
    theirs = opacus.accountants.PRVAccountant()
    theirs.history = engine.accountant.history
    assert mine < theirs.get_epsilon(1e-5) < mine + 0.05  # theirs adds its error


@pytest.mark.filterwarnings("ignore")
def test_opacus_finds_its_noise_with_our_accountant() -> None:
    pytest.importorskip("opacus")
    from opacus.accountants.utils import get_noise_multiplier

    ts.learn.opacus.register()
    asked = {"target_epsilon": 3, "target_delta": 1e-5, "sample_rate": 0.01, "steps": 100}
    noise = get_noise_multiplier(**asked, accountant="tallystick")
    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, rate=0.01, expected_batch=1, steps=100)
    assert noise == pytest.approx(plan.noise_multiplier, rel=0.02)


# ---- dp_accounting ----


def test_every_kind_of_event_is_read_or_refused_by_name() -> None:
    """A kind that a newer release adds is seen here first."""
    from tallystick.accounting.dp_events import EVENTS as READ

    kinds = {name for name in vars(dp_event) if name.endswith("DpEvent")} - {"DpEvent"}
    assert kinds - set(READ) == {"UnsupportedDpEvent"}
    for name in kinds & set(READ):
        assert READ[name].fields == tuple(field.name for field in getattr(dp_event, name).__attrs_attrs__)


@pytest.mark.parametrize(
    ("name", "event", "relation"), [row for row in EVENTS if row[1] is not None], ids=lambda v: str(v)[:40]
)
def test_a_named_tuple_as_json_is_the_event(name: str, event: Any, relation: Any) -> None:
    import json

    from tallystick.accounting.dp_events import from_dp_accounting
    from tallystick.learn.dp_accounting import _word, from_event

    text = json.dumps(event.to_named_tuple()).replace("Infinity", '"inf"')
    assert from_dp_accounting(json.loads(text), adjacency=_word(relation)) == from_event(event, relation)


def test_our_epsilon_is_at_most_theirs_where_both_are_bounds() -> None:
    for name, ours, by_laws, by_renyi in rows():
        assert ours is not None, name
        if by_laws is not None and math.isfinite(ours):
            assert ours <= by_laws * (1.0 + 1e-4) + 1e-4, name
            assert ours >= by_laws - (0.02 if "often cut" in name else 2e-3) or name.startswith("exponential"), name
        if by_renyi is not None and math.isfinite(ours) and name not in TOO_SMALL:
            assert ours <= by_renyi * (1.0 + 1e-3) or "special" in name, name


def test_a_loss_written_as_an_event_costs_the_package_no_less() -> None:
    from dp_accounting.pld import PLDAccountant

    for loss, relation in [
        (1000 * ts.gaussian(sigma=1).sampled(rate=0.01) + ts.laplace(scale=3), ADD),
        (ts.discrete_laplace(scale=3, sensitivity=2), ADD),
        (ts.gaussian(sigma=1, adjacency="replace"), REPLACE),
        (100 * ts.gaussian(sigma=1).sampled(rate=0.01).as_replace(), REPLACE),
        (ts.randomized_response(epsilon=1, choices=4), REPLACE),
    ]:
        event = ts.learn.dp_accounting.to_event(loss)
        theirs = PLDAccountant(relation).compose(event).get_epsilon(DELTA)
        assert theirs >= loss.epsilon(delta=DELTA) * (1.0 - 1e-4)
        ours = ts.learn.dp_accounting.accountant(relation).compose(event).get_epsilon(DELTA)
        assert ours >= loss.epsilon(delta=DELTA) * (1.0 - 1e-9)


def test_the_package_calibrates_with_our_accountant() -> None:
    step = lambda noise: dp_event.SelfComposedDpEvent(  # noqa: E731
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise)), 1000
    )
    noise = dp_accounting.calibrate_dp_mechanism(
        ts.learn.dp_accounting.accountant, step, 2.0, DELTA, dp_accounting.LowerEndpointAndGuess(0.0, 1.0)
    )
    plan = ts.learn.sgd_plan(epsilon=2.0, delta=DELTA, rate=0.01, expected_batch=1, steps=1000)
    assert noise == pytest.approx(plan.noise_multiplier, rel=1e-3)


def test_what_is_not_understood_is_not_supported() -> None:
    accountant = ts.learn.dp_accounting.accountant()
    assert isinstance(accountant, dp_accounting.PrivacyAccountant)
    assert not accountant.supports(dp_event.UnsupportedDpEvent())
    assert not accountant.supports(dp_event.RandomizedResponseDpEvent(0.5, 3))
    with pytest.raises(dp_accounting.UnsupportedEventError, match="replace"):
        accountant.compose(dp_event.RandomizedResponseDpEvent(0.5, 3))
    assert accountant.get_epsilon(DELTA) == 0.0
    assert accountant.compose(dp_event.NonPrivateDpEvent()).get_epsilon(DELTA) == math.inf
