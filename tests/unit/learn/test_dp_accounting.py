"""Our accountant under dp_accounting's interface, all that is here; the package itself: benchmarks/adapters."""

from __future__ import annotations

import enum
import sys
import types
from dataclasses import dataclass, fields, make_dataclass
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.dp_events import EVENTS, MODULE
from tallystick.errors import InvalidInput, Unavailable
from tallystick.learn import dp_accounting as adapter


class Relation(enum.Enum):
    """The three of dp_accounting 0.6."""

    ADD_OR_REMOVE_ONE = 1
    REPLACE_ONE = 2
    REPLACE_SPECIAL = 3


class Event:
    """The package's base class: fields by position, after the module and the class."""

    def to_named_tuple(self) -> tuple[Any, ...]:
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
        return (MODULE, type(self).__name__, *map(_row, values))


def _row(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_named_tuple()
    return [_row(item) for item in value] if isinstance(value, list) else value


class Base:
    """dp_accounting 0.6's PrivacyAccountant: asks before it adds."""

    @dataclass
    class CompositionErrorDetails:
        invalid_event: Any
        error_message: str

    def __init__(self, neighboring_relation: Relation) -> None:
        self.neighboring_relation = neighboring_relation

    def supports(self, event: Any) -> bool:
        return self._maybe_compose(event, 0, False) is None  # type: ignore[attr-defined, no-any-return]

    def compose(self, event: Any, count: int = 1) -> Any:
        problem = self._maybe_compose(event, count, False)  # type: ignore[attr-defined]
        if problem is not None:
            raise ValueError(problem.error_message)
        self._maybe_compose(event, count, True)  # type: ignore[attr-defined]
        return self


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The interface of the package; of its newest kinds one is missing."""
    found, events = types.ModuleType("dp_accounting"), types.ModuleType(MODULE)
    for name, kind in EVENTS.items():
        if name != "EpsilonDeltaDpEvent":
            setattr(events, name, make_dataclass(name, kind.fields, bases=(Event,)))
    vars(found).update(dp_event=events, DpEvent=Event, NeighboringRelation=Relation, PrivacyAccountant=Base)
    monkeypatch.setitem(sys.modules, "dp_accounting", found)
    adapter._kind.cache_clear()
    yield events
    adapter._kind.cache_clear()


def test_events_add_up_to_a_certified_epsilon(package: Any) -> None:
    step = package.PoissonSampledDpEvent(0.01, package.GaussianDpEvent(1.0))
    accountant = ts.learn.dp_accounting.accountant()
    assert isinstance(accountant, Base)
    assert accountant.supports(step)
    assert accountant.get_epsilon(1e-5) == 0.0
    found = accountant.compose(step, 500).compose(package.SelfComposedDpEvent(step, 500))
    true = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    assert accountant.privacy == true
    assert found.get_epsilon(1e-5) == true.epsilon(delta=1e-5)
    assert found.get_delta(1.0) == true.delta(epsilon=1.0)


def test_the_relation_is_the_accountants(package: Any) -> None:
    changed = ts.learn.dp_accounting.accountant(Relation.REPLACE_ONE)
    changed.compose(package.GaussianDpEvent(1.0))
    assert changed.privacy == ts.gaussian(sigma=0.5, adjacency="replace")
    tree = package.SingleEpochTreeAggregationDpEvent(4.0, [5, 10])
    assert ts.learn.dp_accounting.accountant(Relation.REPLACE_SPECIAL).supports(tree)
    assert not ts.learn.dp_accounting.accountant().supports(tree)
    with pytest.raises(InvalidInput, match="NeighboringRelation"):
        ts.learn.dp_accounting.accountant("replace")


def test_what_is_refused_is_not_added(package: Any) -> None:
    accountant = ts.learn.dp_accounting.accountant()
    with pytest.raises(ValueError, match="replace"):
        accountant.compose(package.RandomizedResponseDpEvent(0.5, 3))
    with pytest.raises(ValueError, match="count"):
        accountant.compose(package.GaussianDpEvent(1.0), -1)
    assert accountant.privacy == ts.no_loss()


def test_a_loss_becomes_an_event_and_is_read_again(package: Any) -> None:
    loss = 3 * ts.gaussian(sigma=1).sampled(rate=0.1) + ts.laplace(scale=2)
    event = ts.learn.dp_accounting.to_event(loss)
    assert isinstance(event, package.ComposedDpEvent)
    assert ts.learn.dp_accounting.from_event(event) == loss
    with pytest.raises(Unavailable, match="EpsilonDeltaDpEvent"):
        ts.learn.dp_accounting.to_event(ts.pure_dp(epsilon=1))
    with pytest.raises(InvalidInput, match="DpEvent"):
        ts.learn.dp_accounting.from_event({"class_name": "GaussianDpEvent", "noise_multiplier": 1.0})


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(Unavailable, match="pip install"):
        ts.learn.dp_accounting.accountant()
