"""A command that is stopped says what the ledger says: nothing charged, charged and stored, or charged and lost."""

from __future__ import annotations

import os
import pkgutil
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts

ADD = "dataset add v.csv --population c --unit who --limit rho=100 --max-groups 1 --max-rows-per-group 1"
QUERY = "query v --measures count --rho 0.1 --why x"
CHARGE = "charge add gaussian(sigma=10) --why x"
WORK = "tallystick.publish.work.released_table"
COMMIT = "tallystick.ledger.pay.Charge.commit"
NOTHING = "Nothing was charged."


@pytest.fixture
def folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("v.csv").write_text("who\n" + "".join(f"p{i}\n" for i in range(40)))
    assert run(*ADD.split()).code == 0
    return tmp_path


def charges() -> list[Any]:
    with ts.Ledger("tallystick.db", create=False) as ledger:
        return list(ledger.open("c").history())


def stop_in(
    monkeypatch: pytest.MonkeyPatch, place: str, number: int = signal.SIGINT, *, is_before: bool = True
) -> None:
    """Send a signal to this process in the first call of a function, before or after its work."""
    function = pkgutil.resolve_name(place)
    is_sent = False

    def stopped(*arguments: Any, **options: Any) -> Any:
        nonlocal is_sent
        if is_sent:
            return function(*arguments, **options)
        is_sent = True
        done = None if is_before else function(*arguments, **options)
        os.kill(os.getpid(), number)
        time.sleep(0.2)  # the handler runs here
        return function(*arguments, **options) if is_before else done

    monkeypatch.setattr(place, stopped)


STORED = {
    "the outcome is made": (QUERY, WORK, True),
    "the answer was just stored": (QUERY, COMMIT, False),
    "a table is written": (f"{QUERY} --out t.csv", "tallystick.publish.export.write_result", True),
    "a card is written": (f"{QUERY} --card t.html", "tallystick.publish.export.Files.write", True),
    "elsewhere": (CHARGE, "tallystick.ledger.pay.Charge.take_and_commit", False),
}


@pytest.mark.parametrize("case", STORED)
def test_stopped_after_the_answer_is_stored_it_names_charge_and_key(
    run: Any, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, place, is_before = STORED[case]
    with monkeypatch.context() as patch:
        stop_in(patch, place, is_before=is_before)
        stopped = run(*words.split())
    (charge,) = charges()
    assert charge.state == "COMMITTED"
    assert stopped.code == 10
    assert "othing was charged" not in stopped.errors
    assert f"ledger entry {charge.charge}," in stopped.errors
    line = next(line for line in stopped.errors.splitlines() if "--key" in line)
    again = run(*words.split(), "--key", shlex.split(line.partition("--key ")[2])[0])
    assert again.code == 0, again.errors
    assert len(charges()) == 1, "the key of the remedy charges nothing"


@pytest.mark.parametrize("case", STORED)
def test_stopped_with_json_it_has_charge_key_and_receipt(
    run: Any, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, place, is_before = STORED[case]
    stop_in(monkeypatch, place, is_before=is_before)
    error = run(*words.split(), "--json").document["error"]
    (charge,) = charges()
    assert (error["kind"], error["exit_code"]) == ("NotDelivered", 10)
    assert (error["charge"], error["key"]) == (charge.charge, charge.key)
    assert error["receipt"]["charge"] == charge.charge
    assert error["remedies"][0]["key"] == charge.key


LOST = {
    "while it is stored": (COMMIT, True, "CLOSED"),
    "begun": ("tallystick.ledger.pay.Charge.begin", False, "EXECUTING"),
}


@pytest.mark.parametrize("case", LOST)
def test_stopped_before_the_answer_is_stored_it_says_that_the_charge_is_lost_and_who_opens_the_data(
    run: Any, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, is_before, state = LOST[case]
    stop_in(monkeypatch, place, is_before=is_before)
    stopped = run(*QUERY.split(), "--json")
    (charge,) = charges()
    assert charge.state == state
    assert stopped.code == 130
    assert (
        f"The charge in ledger entry {charge.charge} had started, under the key '{charge.key}'. It stays paid"
        in stopped.errors
    )
    assert "closed to further queries until their owner opens them" in stopped.errors
    assert "tallystick dataset clear v" in stopped.errors
    error = stopped.document["error"]
    assert (error["code"], error["charge"], error["key"]) == ("interrupted", charge.charge, charge.key)
    assert error["receipt"] is None
    assert error["remedies"] == [{"kind": "clear_failure", "charge": charge.charge, "dataset": "v"}]


NOT_CHARGED = {
    "stored": (QUERY, "tallystick.ledger.pay.Charge.stored"),
    "rehearse": (QUERY, "tallystick.ledger.pay.Charge.rehearse"),
    "begin": (QUERY, "tallystick.ledger.journal.reserve"),
    "elsewhere": (CHARGE, "tallystick.ledger.journal.reserve"),
    "first look": (CHARGE, "tallystick.ledger.pay.Charge.stored"),
}


@pytest.mark.parametrize("case", NOT_CHARGED)
def test_stopped_before_the_charge_it_says_that_nothing_was_charged_and_nothing_else(
    run: Any, folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, place = NOT_CHARGED[case]
    stop_in(monkeypatch, place)
    stopped = run(*words.split(), "--json")
    assert charges() == []
    assert stopped.code == 130
    assert stopped.errors.splitlines() == ["Interrupted: stopped at your request.", f"  {NOTHING}"]
    error = stopped.document["error"]
    assert (error["charge"], error["key"], error["receipt"]) == (None, None, None)


def test_a_ledger_that_cannot_be_asked_is_not_taken_for_nothing_charged(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped_again(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tallystick.ledger.pay.Charge.look_up", stopped_again, raising=False)
    stop_in(monkeypatch, WORK)
    stopped = run(*QUERY.split())
    (charge,) = charges()
    assert stopped.code == 130
    assert f"It may be charged, under the key '{charge.key}'." in stopped.errors
    assert f"the same command with --key {charge.key}" in stopped.errors
    assert NOTHING not in stopped.errors


def test_sigterm_stops_a_command_as_ctrl_c_does(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.fork() == 0:  # the old code ends the process here
        stop_in(monkeypatch, WORK, signal.SIGTERM)
        os._exit(run(*QUERY.split()).code)
    _, status = os.wait()
    assert (os.WIFEXITED(status), os.waitstatus_to_exitcode(status)) == (True, 10)
    assert [charge.state for charge in charges()] == ["COMMITTED"]


def test_a_handler_of_the_calling_program_stays(run: Any, folder: Path) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        handler = signal.getsignal(signal.SIGTERM)
        run("dataset", "list")
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
