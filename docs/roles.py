"""Write the table of roles and actions into reference/roles.md, from ``ledger/actions.py``.

``python docs/roles.py`` after a change of the table; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.ledger.actions import ACTIONS, NO, NOBODY, ROLES

PAGE = Path(__file__).resolve().parent / "reference" / "roles.md"
START, END = "<!-- written by docs/roles.py -->", "<!-- end of what docs/roles.py writes -->"


def table() -> str:
    """The table: a row for each action, a column for each role, and the class of approvals."""
    columns = ("action", *ROLES, "no role", "approvals")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for action in ACTIONS.values():
        cells = [getattr(action, role) for role in (*ROLES, NOBODY)]
        shown = ["" if cell == NO else cell for cell in cells]
        lines.append(f"| {action.words} (`{action.name}`) | {' | '.join(shown)} | {action.needs or ''} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with the table of today's code."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
