"""Running the command line inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tallystick.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    errors: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON object on stdout; fails if there is anything else, or NaN or Infinity in it."""

        def refuse(constant: str) -> float:
            raise AssertionError(f"{constant} is not JSON")

        assert self.out.count("\n") == 1
        return json.loads(self.out, parse_constant=refuse)


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run("epsilon", "gdp(mu=1)", "--delta", "1e-5")``."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> Outcome:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
