"""A paid answer is never lost: a file, stdout or stderr that fails says where the answer is and how to get it again."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from processes import CLOSED, FULL, LEFT, command
from tallystick.errors import NotDelivered

ADD = (
    "dataset add visits.csv --population patients --unit who --max-groups 2 --max-rows-per-group 3 "
    "--bounds age=0:110 --bounds cost=0:500 --limit rho=2,delta=1e-6 --version 2026"
).split()
QUERY = "query visits --by ward --keys wards.csv --measures count --rho 0.05 --why report".split()
SQL = ["sql", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n", *"--rho 0.05 --delta 1e-8".split()]
FIT = "fit linear visits --target cost --features age --rho 0.05 --why report".split()
PLAN = "publish plan visits --by ward --keys wards.csv --measures count --rho 0.05 --out plan.json".split()
PAID = {
    "query": (QUERY, ".csv"),
    "statement": ([*SQL, "--why", "report"], ".csv"),
    "fit": (FIT, ".json"),
    "saved plan": ("publish run plan.json --why report".split(), ".csv"),
}
NO_SPACE = "No space left on device"


@pytest.fixture
def folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = (f"p{i % 100},{'ab'[i % 2]},{20 + i % 60},{i % 400}\n" for i in range(300))
    Path("visits.csv").write_text("who,ward,age,cost\n" + "".join(rows))
    Path("wards.csv").write_text("ward\na\nb\n")
    assert run(*ADD).code == 0
    assert run(*PLAN).code == 0
    return tmp_path


def left() -> int:
    """What the population has left, in units of the ledger."""
    with ts.Ledger("tallystick.db", create=False) as ledger:
        return ledger.open("patients").remaining.a0


def charges() -> list[Any]:
    with ts.Ledger("tallystick.db", create=False) as ledger:
        return [event for event in ledger.open("patients").history() if event.paid]


def fail_to_write(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let writing of these files fail as on a full disk."""
    replace = os.replace

    def put(new: Path, target: Path) -> None:
        if Path(target).name in names:
            raise OSError(28, NO_SPACE)
        replace(new, target)

    monkeypatch.setattr("tallystick.regular_file.os.replace", put)


def offered(text: str) -> list[str]:
    """The options of the remedy that stderr shows."""
    line = next(line for line in text.splitlines() if "--key" in line)
    return ["--key", shlex.split(re.search(r"--key (\S+)", line)[1])[0].rstrip(":,")]


@pytest.mark.parametrize("kind", PAID)
def test_a_file_that_fails_shows_the_outcome_and_the_remedy_charges_nothing(
    run: Any, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, ending = PAID[kind]
    with monkeypatch.context() as full:
        fail_to_write(full, f"full{ending}")
        failed = run(*words, "--out", f"full{ending}")
    assert failed.code == 10
    (charge,) = charges()
    paid, _, problem = failed.errors.partition("Charged, not delivered: ")
    assert f"as ledger entry {charge.charge}. Left: rho 1.95" in paid, "what was charged and what is left comes first"
    assert ("age" if kind == "fit" else "ward") in failed.out, "the answer is shown"
    assert "s0_0" not in failed.out, "the sums that a model is read from are not shown"
    assert f"charged as ledger entry {charge.charge}" in problem
    assert charge.key in problem
    assert NO_SPACE in problem
    before = left()
    again = run(*words, *offered(problem), "--out", f"other{ending}")
    assert again.code == 0, again.errors
    assert Path(f"other{ending}").exists()
    assert left() == before


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet", ".arrow"])
def test_every_format_fails_alike(run: Any, folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def check_nothing(*_: object) -> None:
        """Let a folder that cannot be written pass, as a disk does that fills up later."""

    monkeypatch.setattr("tallystick.publish.export._check_target", check_nothing)
    failed = run(*QUERY, "--out", f"missing/table{ending}", "--json")
    assert failed.code == 10, failed.errors
    error = json.loads(failed.out)["error"]
    assert (error["kind"], error["code"], error["argument"]) == ("NotDelivered", "not_delivered", "out")


def test_json_says_charge_key_and_receipt_in_one_object(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_write(monkeypatch, "card.html")
    failed = run(*QUERY, "--out", "table.csv", "--card", "card.html", "--json")
    error = json.loads(failed.out)["error"]
    (charge,) = charges()
    assert (error["charge"], error["key"]) == (charge.charge, charge.key)
    assert error["receipt"]["charge"] == charge.charge
    assert error["remedies"] == [{"kind": "write_again", "key": charge.key, "argument": "card"}]
    assert Path("table.csv").exists(), "the other file is written"


def test_a_failure_of_a_file_survives_a_socket() -> None:
    problem = NotDelivered("No.", argument="out", value="t.csv", charge=3, key="k", receipt={"charge": 3})
    again = NotDelivered.from_data(json.loads(json.dumps(problem.to_data())))
    assert type(again) is NotDelivered
    assert (again.charge, again.key, again.receipt) == (3, "k", {"charge": 3})
    assert str(again) == " ".join(str(problem).split())  # in one line


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which ``$Q`` is a query by a new Python; elsewhere ``command`` stands for one."""
    text = line.replace("$Q", shlex.join([sys.executable, "-m", "tallystick", *QUERY]))
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["words", "json"])
@pytest.mark.parametrize("out", [FULL, CLOSED])
def test_output_that_cannot_be_written_says_how_to_get_the_answer_again(
    run: Any, folder: Path, out: str | None, form: list[str]
) -> None:
    done = command([*QUERY, *form], out=out)
    assert done.code == 10, done.errors
    assert "Traceback" not in done.errors
    (charge,) = charges()
    assert f"charged as ledger entry {charge.charge}" in done.errors
    before = left()
    again = run(*QUERY, *offered(done.errors))
    assert again.code == 0
    assert left() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_new_process_of_a_shell_ends_as_a_copy_of_this_one_does(folder: Path) -> None:
    for given, out in {">/dev/full": FULL, ">&-": CLOSED}.items():
        new, copy = shell(f"$Q {given}"), command(QUERY, out=out)
        assert new.returncode == copy.code == 10
        said = [text[text.index("Charged, not delivered: ") :] for text in (new.stderr, copy.errors)]
        plain = {re.sub(r"\S*\d\S*", "#", text) for text in said}  # each has its own charge and key
        assert len(plain) == 1, plain


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("out", [FULL, CLOSED])
def test_output_that_cannot_be_written_does_not_keep_files_from_being_written(folder: Path, out: str | None) -> None:
    assert command([*QUERY, "--out", "table.csv"], out=out).code == 10
    assert Path("table.csv").read_text().startswith("ward,")


@pytest.mark.skipif(os.name == "nt", reason="needs a pipe of a shell")
def test_a_reader_that_left_does_not_lose_a_paid_answer(folder: Path) -> None:
    done = shell("( trap '' PIPE; sleep 0; $Q --json; echo $? >code ) | true")
    assert Path("code").read_text().strip() == "10", done.stderr
    assert "charged as ledger entry" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("errors", [FULL, CLOSED])
def test_errors_that_cannot_be_written_do_not_stop_a_command(folder: Path, errors: str | None) -> None:
    done = command(QUERY, errors=errors)
    assert done.code == 0
    assert "ward  count" in done.out
    assert command([*QUERY, "--rho", "1"], errors=errors).code == 2, "the code of a failure stays the same"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_of_a_free_command_that_cannot_be_written_is_unavailable(folder: Path) -> None:
    words = ["epsilon", "gdp(mu=1)", "--delta", "1e-5"]
    for form, out in (([], FULL), ([], CLOSED), (["--json"], FULL)):
        done = command([*words, *form], out=out)
        assert (done.code, "standard output" in done.errors) == (9, True), done.errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("out", [FULL, CLOSED, LEFT])
def test_a_refusal_keeps_its_exit_code_if_standard_output_fails(folder: Path, out: str | None) -> None:
    for rho, code in (("3", 3), ("0", 2), ("0.000001", 4)):
        done = command([*(rho if word == "0.05" else word for word in QUERY), "--json"], out=out)
        assert (done.code, "Traceback" in done.errors) == (code, False), done.errors
    assert not charges()


@pytest.mark.parametrize("form", ["", "--json"])
def test_an_answer_that_the_encoding_cannot_carry_is_escaped(folder: Path, form: str) -> None:
    Path("wards.csv").write_text("ward\nZürich ±\n")
    done = command([*QUERY, *form.split()], encoding="ascii")
    assert done.code == 0, done.errors
    assert ("Z\\u00fcrich \\u00b1" if form else "Z\\xfcrich +-") in done.out
