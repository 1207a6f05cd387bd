"""``tallystick certificate``: written, proved, and refused with the right exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.cli import main

pytest.importorskip("flint")
WRITE = ["certificate", "write", "1000 * randomized_response(epsilon=0.1)", "--delta", "1e-6"]


def test_a_written_certificate_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proof.json"
    assert main([*WRITE, "--out", str(file)]) == 0
    assert "epsilon 19.3447 at delta 1e-6: written to" in capsys.readouterr().out.replace("\n", " ")
    assert main(["certificate", "check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "epsilon 19.3447 at delta 1e-6: proved" in said
    assert "about 1000 * randomized_response(epsilon=0.1, choices=2) (replace)" in said
    assert main(["certificate", "check", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert found["delta"] == 1e-6
    assert found["proved"] is True


def test_a_lowered_claim_exits_with_four_and_no_certificate_with_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    assert main([*WRITE, "--out", str(file)]) == 0
    body = json.loads(file.read_text(encoding="utf-8"))
    body["claim"]["epsilon"] -= 1e-6
    file.write_text(json.dumps(body), encoding="utf-8")
    assert main(["certificate", "check", str(file)]) == 4
    assert "does not prove its claim" in capsys.readouterr().err
    body["route"]["remove"]["size"] = 2**60
    file.write_text(json.dumps(body), encoding="utf-8")
    assert main(["certificate", "check", str(file)]) == 2
    file.write_bytes(b"\xff\xfe")
    assert main(["certificate", "check", str(file)]) == 2
    assert main(["certificate", "check", str(tmp_path / "absent.json")]) == 2


def test_no_file_is_overwritten_and_one_of_the_two_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    file.write_text("mine", encoding="utf-8")
    assert main([*WRITE, "--out", str(file)]) == 2
    assert file.read_text(encoding="utf-8") == "mine"
    assert main(["certificate", "write", "gdp(mu=1)", "--out", str(tmp_path / "b.json")]) == 2
    assert (
        main(
            [
                "certificate",
                "write",
                "gdp(mu=1).allocated(steps=3)",
                "--delta",
                "1e-5",
                "--out",
                str(tmp_path / "c.json"),
            ]
        )
        == 9
    )
    assert not (tmp_path / "c.json").exists()
