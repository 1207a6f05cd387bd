"""The page of roles shows the table of the code, and names every class of approvals and every role."""

from __future__ import annotations

import runpy

from contracts.snippets import ROOT
from tallystick.ledger.actions import ACTIONS, CLASSES, ROLES

SCRIPT = runpy.run_path(str(ROOT / "docs" / "roles.py"))


def test_the_page_shows_the_table_of_the_code() -> None:
    page = SCRIPT["PAGE"].read_text(encoding="utf-8")
    assert SCRIPT["written"](page) == page, "run python docs/roles.py"


def test_every_action_role_and_class_is_in_the_table() -> None:
    text = SCRIPT["table"]()
    assert all(f"(`{name}`)" in text for name in ACTIONS)
    assert all(f" {role} |" in text.splitlines()[0] for role in ROLES)
    assert all(f"| {each} |" in text for each in CLASSES)
