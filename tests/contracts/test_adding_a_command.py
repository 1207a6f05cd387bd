"""A command is its own file and one line of the list in cli/app.py."""

from __future__ import annotations

from pathlib import Path

from contracts.edited import SOURCE, Copy

TOY = '''"""``tallystick greet``: says hello."""

from __future__ import annotations

import typer


def greet(name: str = typer.Argument(..., help="Who is greeted.")) -> None:
    """Say hello to somebody."""
    print(f"hello {name}")
'''

USE = """
from tallystick.cli import main
assert main(["greet", "Ada"]) == 0
assert main(["--help"]) == 0
assert main(["greet", "--help"]) == 0
"""


def test_a_new_command_is_its_own_file_and_one_line(tmp_path: Path) -> None:
    copy = Copy.into(tmp_path)
    copy.new("cli/commands/greet.py", TOY)
    copy.add_line("cli/app.py", '        ("greet", "greet.greet", "Says hello."),', after='    "Other": (')
    said = copy.run(USE)
    assert said.startswith("hello Ada\n")
    assert "Says hello." in said
    assert "Who is greeted." in said
    assert copy.added() == ["cli/commands/greet.py"]
    assert copy.edited() == ["cli/app.py"]
    before, after = ((root / "cli/app.py").read_text("utf-8").splitlines() for root in (SOURCE, copy.root))
    assert len(after) == len(before) + 1
    assert [line for line in after if line not in before] == ['        ("greet", "greet.greet", "Says hello."),']
