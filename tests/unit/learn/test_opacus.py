"""Our accountant under Opacus' interface, which is all that is here; the package itself: benchmarks/adapters."""

from __future__ import annotations

import sys
import types
from abc import ABC
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import Unavailable


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Opacus 1.6's registry and base class, without the rest of it."""
    found: dict[str, Any] = {}
    base, accountants, shelf = (types.ModuleType(name) for name in ("opacus", "opacus.a", "opacus.a.r"))
    accountants.IAccountant = type("IAccountant", (ABC,), {})  # type: ignore[attr-defined]
    shelf.register_accountant = lambda name, kind, force=False: found.update({name: kind})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opacus", base)
    monkeypatch.setitem(sys.modules, "opacus.accountants", accountants)
    monkeypatch.setitem(sys.modules, "opacus.accountants.registry", shelf)
    return found


def test_steps_become_a_certified_epsilon_that_says_what_it_cannot_see(registry: dict[str, Any]) -> None:
    ts.learn.opacus.register()
    accountant = registry["tallystick"]()
    assert registry["tallystick"].mechanism() == "tallystick"
    assert accountant.get_epsilon.__doc__
    for noise in [1.0] * 100 + [2.0] * 50:
        accountant.step(noise_multiplier=noise, sample_rate=0.01)
    assert accountant.history == [(1.0, 0.01, 100), (2.0, 0.01, 50)]
    assert len(accountant) == 150
    true = 100 * ts.gaussian(sigma=1).sampled(rate=0.01) + 50 * ts.gaussian(sigma=2).sampled(rate=0.01)
    with pytest.warns(UserWarning, match="Poisson batches at this rate"):
        assert accountant.get_epsilon(1e-5, poisson=True) == true.epsilon(delta=1e-5)


def test_without_opacus_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    with pytest.raises(Unavailable, match="pip install"):
        ts.learn.opacus.register()
