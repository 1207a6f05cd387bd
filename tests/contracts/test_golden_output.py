"""Every command prints what its golden file says, so that the words of the terminal do not drift.

``make golden-output`` writes the files again; read the difference before you commit it.
"""

from __future__ import annotations

import pytest

from contracts import golden_session
from contracts.golden_session import CALLS, ERRORS, GOLDEN, path_of
from contracts.outputs import without_last_digits

SHOWN = [call.name for call in CALLS if call.is_shown]


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    return dict(golden_session.outputs())


@pytest.mark.xdist_group("golden output")
@pytest.mark.parametrize("name", SHOWN)
def test_a_command_prints_its_golden_output(printed: dict[str, str], name: str) -> None:
    golden = path_of(name).read_text(encoding="utf-8")
    assert without_last_digits(printed[name]) == without_last_digits(golden)


def test_every_command_has_a_golden_output_and_every_file_a_command() -> None:
    assert sorted(set(SHOWN) - set(ERRORS)) == sorted(golden_session.commands())
    assert sorted(GOLDEN.glob("*.txt")) == sorted(map(path_of, SHOWN))


def test_every_kind_of_error_has_one() -> None:
    codes = {call.name: call.code for call in CALLS if call.name in ERRORS}
    assert codes == {
        "error denied": 3,
        "error refused": 4,
        "error usage": 2,
        "error falsified": 5,
        "error ledger integrity": 6,
        "error not authorised": 7,
        "error unavailable": 9,
    }


def test_a_call_does_the_command_that_it_is_named_after() -> None:
    assert all(call.words.startswith(call.name) for call in CALLS if call.name not in ERRORS)
