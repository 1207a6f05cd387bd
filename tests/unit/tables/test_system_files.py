"""A planted link does not make errors print files of the system, or the first line of a password file."""

from __future__ import annotations

from pathlib import Path

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.publish import columns, datasets

SECRET = "db.example:5432:*:own:CaNaRy"


@pytest.mark.parametrize("target", ["/proc/self/environ", "/proc/self/status", "/proc/version"])
def test_a_file_that_the_kernel_makes_up_is_not_a_source(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error listed the environment of the process as names of columns."""
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "none.db"))
    link = tmp_path / "e.csv"
    link.symlink_to(target)
    with pytest.raises(Refused, match="leads to a file of the system"):
        ts.Private(link).table(unit="who")
    with pytest.raises(Refused, match="leads to a file of the system"):
        columns.numbers(link, "age")
    with pytest.raises(Refused, match="leads to a file of the system"):
        columns.lines(link)


@pytest.mark.parametrize(
    "text", [SECRET, "CaNaRy", f"PGPASSWORD=CaNaRy,{SECRET}", "[default],key=CaNaRy", "a\tCaNaRy", "CaNaRy" * 50]
)
def test_an_error_does_not_quote_a_first_line_that_is_not_a_header(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "none.db"))
    secret, link = tmp_path / ".pgpass", tmp_path / "p.csv"
    secret.write_text(f"{text}\n")
    link.symlink_to(secret)
    asked = (
        lambda: columns.numbers(link, "age"),
        lambda: datasets.read_table(str(link), None, "who", "add_remove", {}, {}),
        lambda: datasets.read_table(str(link), None, None, "add_remove", {"age": (0, 110)}, {}),
    )
    for ask in asked:
        with pytest.raises(TallystickError) as raised:
            ask()
        assert "canary" not in str(raised.value).lower()
        assert "column" in str(raised.value)


def test_an_error_lists_the_columns_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "none.db"))
    file = tmp_path / "visits.csv"
    file.write_text("patient_id,Date of visit,weight (kg)\n1,2026,70\n")
    with pytest.raises(InvalidInput, match=r"patient_id \(did you mean this\?\), Date of visit, weight \(kg\)"):
        columns.numbers(file, "patient")
