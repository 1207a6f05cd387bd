"""Records of other libraries are re-priced from JSON, their claims judged, and pickles refused."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.foreign import from_opacus

GAUSSIAN = {"class_name": "GaussianDpEvent", "noise_multiplier": 1.0}
TRAINING = {
    "class_name": "SelfComposedDpEvent",
    "count": 1000,
    "event": {"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": GAUSSIAN},
}


def written(folder: Path, document: Any, name: str = "record.json") -> str:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_an_opacus_history_adds_up_bare_or_in_its_state() -> None:
    history = [[1.0, 0.01, 600], [1.0, 0.01, 400], [2.0, 1.0, 3]]
    loss = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01) + 3 * ts.gaussian(sigma=2)
    assert from_opacus(history) == loss
    assert from_opacus({"history": history, "mechanism": "rdp"}) == loss


def test_a_loose_claim_is_called_valid(run: Any, tmp_path: Path) -> None:
    outcome = run("import", "opacus", written(tmp_path, [[1.0, 0.01, 1000]]), "--delta", "1e-5", "--claimed", "3.5")
    assert outcome.code == 0
    assert "1000 * gaussian(sigma=1).sampled(rate=0.01)" in outcome.out
    assert "valid" in outcome.out
    assert "Poisson" in outcome.out


def test_a_claim_below_the_certified_lower_bound_ends_with_exit_five(run: Any, tmp_path: Path) -> None:
    outcome = run("import", "dp-accounting", written(tmp_path, TRAINING), "--claimed", "0.5", "--json")
    assert outcome.code == 5
    found = outcome.document["found"]
    assert outcome.document["schema"] == "tallystick/import"
    assert found["verdict"].startswith("too small")
    assert found["lower"] > 0.5
    assert math.isclose(found["difference"], 0.5 - found["upper"])


def test_who_is_protected_is_the_callers_word(run: Any, tmp_path: Path) -> None:
    outcome = run("import", "dp-accounting", written(tmp_path, GAUSSIAN), "--adjacency", "replace", "--json")
    assert outcome.code == 0
    assert outcome.document["found"]["loss"] == "gaussian(sigma=0.5, adjacency='replace')"
    assert run("import", "opacus", written(tmp_path, [[1, 0.1, 5]]), "--adjacency", "replace").code == 2
    assert run("import", "dp-accounting", written(tmp_path, GAUSSIAN), "--adjacency", "everybody").code == 2


def test_an_event_without_privacy_falsifies_every_claim(run: Any, tmp_path: Path) -> None:
    nothing = written(tmp_path, {"class_name": "NonPrivateDpEvent"})
    outcome = run("import", "dp-accounting", nothing, "--claimed", "3", "--json")
    assert outcome.code == 5
    assert outcome.document["found"]["epsilon"] == "inf"


def test_without_a_claim_there_is_no_verdict(run: Any, tmp_path: Path) -> None:
    outcome = run("import", "dp-accounting", written(tmp_path, GAUSSIAN), "--json")
    assert outcome.code == 0
    assert outcome.document["found"]["verdict"] is None
    assert math.isclose(outcome.document["found"]["epsilon"], ts.gaussian(sigma=1).epsilon(delta=1e-5))


class Trap:
    """Unpickling this would create the file it names."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


@pytest.mark.parametrize("name", ["record.pkl", "record.pt", "record.json", "record"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_refused_unopened_whatever_it_is_called(run: Any, tmp_path: Path, name: str, protocol: int) -> None:
    sprung = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(str(sprung)), protocol=protocol))
    outcome = run("import", "opacus", str(tmp_path / name))
    assert outcome.code == 2
    assert "json.dump" in outcome.errors
    assert not sprung.exists()


def test_a_torch_archive_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"PK\x03\x04archive/data.pkl")
    assert run("import", "opacus", str(tmp_path / "state")).code == 2


def nested(depth: int) -> dict[str, Any]:
    event: dict[str, Any] = GAUSSIAN
    for _ in range(depth):
        event = {"class_name": "ComposedDpEvent", "events": [event]}
    return event


BAD_EVENTS: dict[str, Any] = {
    "not an object": [1, 2],
    "no class": {"noise_multiplier": 1.0},
    "class is a number": {"class_name": 3},
    "unknown class": {"class_name": "MysteryDpEvent"},
    "unsupported": {"class_name": "UnsupportedDpEvent"},
    "missing field": {"class_name": "GaussianDpEvent"},
    "extra field": {**GAUSSIAN, "surprise": 1},
    "another module": {**GAUSSIAN, "module_name": "somebody.elses_events"},
    "a row too short": ["dp_accounting.dp_event", "GaussianDpEvent"],
    "a row too long": ["dp_accounting.dp_event", "GaussianDpEvent", 1.0, 2.0],
    "a row of nothing": [None, None],
    "negative noise": {"class_name": "LaplaceDpEvent", "noise_multiplier": -1},
    "noise as text": {"class_name": "GaussianDpEvent", "noise_multiplier": "1"},
    "noise is true": {"class_name": "GaussianDpEvent", "noise_multiplier": True},
    "noise is NaN": '{"class_name": "GaussianDpEvent", "noise_multiplier": NaN}',
    "noise overflows": '{"class_name": "GaussianDpEvent", "noise_multiplier": 1e999}',
    "rate above one": {"class_name": "PoissonSampledDpEvent", "sampling_probability": 1.5, "event": GAUSSIAN},
    "fractional count": {"class_name": "SelfComposedDpEvent", "count": 2.5, "event": GAUSSIAN},
    "negative count": {"class_name": "SelfComposedDpEvent", "count": -2, "event": GAUSSIAN},
    "huge count": {"class_name": "SelfComposedDpEvent", "count": 10**30, "event": GAUSSIAN},
    "events is no list": {"class_name": "ComposedDpEvent", "events": GAUSSIAN},
    "event is null": {"class_name": "SelfComposedDpEvent", "count": 2, "event": None},
    "too deep": nested(80),
    "mixed neighbours": {
        "class_name": "ComposedDpEvent",
        "events": [
            GAUSSIAN,
            {"class_name": "RandomizedResponseDpEvent", "noise_parameter": 0.5, "num_buckets": 2},
        ],
    },
    "not JSON": "{",
    "empty": "",
    "brackets without end": "[" * 100_000,
}


@pytest.mark.parametrize("document", BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_bad_events_end_with_exit_two_and_a_way_out(run: Any, tmp_path: Path, document: Any) -> None:
    outcome = run("import", "dp-accounting", written(tmp_path, document))
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Give " in outcome.errors
    assert "Traceback" not in outcome.errors
    assert len(outcome.errors) < 2000


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        None,
        3,
        [[1, 0.1]],
        [[0, 0.1, 5]],
        [[1, 2, 5]],
        [[1, 0.1, -5]],
        [[1, 0.1, 0.5]],
        [["a", 0.1, 5]],
        "[[NaN,1,1]]",
    ],
    ids=str,
)
def test_bad_histories_end_with_exit_two(run: Any, tmp_path: Path, document: Any) -> None:
    assert run("import", "opacus", written(tmp_path, document)).code == 2


@pytest.mark.parametrize(
    "extra",
    [("--delta", "nan"), ("--delta", "2"), ("--claimed", "-1"), ("--claimed", "nan"), ("--claimed", "inf")],
    ids=" ".join,
)
def test_bad_options_end_with_exit_two(run: Any, tmp_path: Path, extra: tuple[str, str]) -> None:
    assert run("import", "dp-accounting", written(tmp_path, GAUSSIAN), *extra).code == 2


def test_unknown_sources_and_missing_files_end_with_exit_two(run: Any, tmp_path: Path) -> None:
    assert run("import", "autodp", written(tmp_path, GAUSSIAN)).code == 2
    assert run("import", "opacus", str(tmp_path / "missing.json")).code == 2
    assert run("import", "opacus", str(tmp_path)).code == 2
