"""A mechanism that is exported and not in every table of tests fails here: the promise of section 4 of the design."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from statistical.cases import CASES
from tallystick.mechanisms.base import Mechanism
from unit.mechanisms.coverage import BOUNDARY, ENUMERATION, INTERVAL, LAW, LOW_BITS, SUPPORT, TESTED
from unit.mechanisms.registry import MECHANISMS, NO_MECHANISM, ROOMS, VERBS

TESTS = Path(__file__).resolve().parents[2]
GUIDE = (TESTS.parent / "docs" / "reference" / "which-mechanism.md").read_text(encoding="utf-8")
for path in [
    *sorted((TESTS / "unit" / "mechanisms").rglob("test_*.py")),
    *sorted((TESTS / "statistical").glob("test_*.py")),
]:
    if path.name not in (Path(__file__).name, "test_query_privacy.py"):
        importlib.import_module(".".join(path.relative_to(TESTS).with_suffix("").parts))

CHOOSE_OR_COUNT = {
    *("AboveThreshold", "ExponentialMechanism", "NoisyMax", "PermuteAndFlip", "TopK"),
    *("RandomizedResponse", "StableCounts", "StableKeys", "UnaryEncoding"),
}


def descendants(kind: type) -> set[type]:
    return {kind} | {deep for child in kind.__subclasses__() for deep in descendants(child)}


@pytest.mark.parametrize("room", ROOMS)
def test_every_exported_verb_is_in_the_registry_or_builds_no_mechanism(room: str) -> None:
    listed = {verb.name.split(",")[0].split(".")[1] for verb in VERBS if verb.name.startswith(room + ".")}
    assert listed | NO_MECHANISM[room] == set(ROOMS[room].__all__)
    assert not listed & NO_MECHANISM[room]


def test_every_mechanism_class_is_built_by_a_verb() -> None:
    ours = {kind for kind in descendants(Mechanism) if kind.__module__.startswith("tallystick.mechanisms")}
    final = {kind for kind in ours if not kind.__abstractmethods__ and not kind.__subclasses__()}
    assert {kind.__name__ for kind in final} == {kind.__name__ for kind in MECHANISMS}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", [LAW, ENUMERATION, INTERVAL, SUPPORT, BOUNDARY])
def test_every_mechanism_has_a_test_of_this_property(name: str, mechanism: type) -> None:
    assert TESTED[name].get(mechanism), f"no test marked @checks({name!r}, {mechanism.__name__})"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.__name__)
def test_every_mechanism_that_releases_reals_has_its_low_bits_tested(mechanism: type) -> None:
    assert (mechanism in TESTED[LOW_BITS]) is (mechanism.__name__ not in CHOOSE_OR_COUNT)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda kind: kind.__name__)
def test_draws_of_every_mechanism_on_neighbours_are_counted(mechanism: type) -> None:
    assert [case.name for case in CASES if type(case.mechanism) is mechanism]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_states_its_error_and_its_price(verb) -> None:  # type: ignore[no-untyped-def]
    mechanism = verb.mechanism()
    assert mechanism.privacy.delta(epsilon=1.0) >= 0
    assert mechanism.error(**verb.asks["error"]) >= 0


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_is_in_the_guide(verb) -> None:  # type: ignore[no-untyped-def]
    assert verb.name.split(",")[0] in GUIDE
