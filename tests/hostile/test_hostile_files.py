"""Files from outside are refused, or mean what they say."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hostile.files import Kind, kinds, spoiled
from sweeps import ALL
from tallystick.publish import kinds as request_kinds
from tallystick.publish.request import Request
from tallystick.strict_json import read


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kind]]:
    with kinds(tmp_path_factory.mktemp("hostile")) as found:
        yield {kind.name: kind for kind in found}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("loss", 400),
        ("certificate", 200),
        ("plan", 400),
        ("error", 600),
        ("outcome", 300),
        ("receipt", 200),
        ("card", 40),
        ("read back", 300),
        ("fit card", 40),
        ("registration", 300),
        ("export", 60),
        ("forged export", 60),
    ],
)
def test_a_spoiled_file_is_refused_or_means_what_it_says(every: dict[str, Kind], name: str, count: int) -> None:
    kind, count = every[name], count if ALL else count // 2
    assert kind.judge(kind.good) is None
    assert kind.counts["meant it"] == 1  # the good one is believed
    assert list(spoiled(kind, count, 2026)) == []
    least = 4 if name == "outcome" else 2  # cells of a table may hold any value
    assert kind.counts["refused"] > count // least


REQUESTS = [module.name for module in pkgutil.iter_modules(request_kinds.__path__)]


def test_every_kind_of_file_is_here(every: dict[str, Kind]) -> None:
    assert set(every) == {
        "loss", "certificate", "plan", "error", "outcome", "receipt", "card", "read back", "fit card", "registration",
        "export", "forged export", *(f"request: {name}" for name in REQUESTS),
    }  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_every_kind_of_request_is_read_back_and_no_spoiled_one_is_believed(every: dict[str, Kind], name: str) -> None:
    kind = import_module(f"{request_kinds.__name__}.{name}").KIND
    hostile = every[f"request: {name}"]
    request = Request.from_json(hostile.good)
    assert type(request.what) is kind
    assert Request.from_data(json.loads(json.dumps(request.to_data()))) == request
    assert request.to_data() == json.loads(hostile.good)
    assert hostile.judge(hostile.good) is None
    assert hostile.counts["meant it"] == 1  # the good one is believed
    assert list(spoiled(hostile, 200, 2026)) == []
    assert hostile.counts["refused"] > 100


def as_it_is(told: Any) -> Any:
    return told


def test_a_reader_that_passes_over_what_it_does_not_know_is_caught(every: dict[str, Kind]) -> None:
    def careless(text: str) -> str:
        told = read(text)
        return json.dumps({key: value for key, value in told.items() if key in json.loads(every["loss"].good)})

    twin = replace(every["loss"], believe=careless, meaning=as_it_is)
    assert any("does not mean what it says" in problem for problem, _ in spoiled(twin, 400, 1))


def test_a_reader_that_lets_other_errors_out_is_caught(every: dict[str, Kind]) -> None:
    twin = replace(every["loss"], believe=lambda text: str(json.loads(text)["terms"][0][1]), meaning=as_it_is)
    assert any(problem.split(":")[0] in ("JSONDecodeError", "TypeError") for problem, _ in spoiled(twin, 100, 1))


def test_a_changed_price_in_an_export_is_found_though_chain_and_signature_are_new(
    every: dict[str, Kind], tmp_path: Path
) -> None:
    kind = every["forged export"]
    told = json.loads(kind.good)
    entry = next(line for line in told[1:-1] if '"kind":"begin"' in line["body"])
    body = json.loads(entry["body"])
    body["lines"][0][1] //= 2
    from hostile.files import forged

    assert kind.judge(forged(told, told.index(entry), body)) is None
    assert kind.counts["refused"] > 0
