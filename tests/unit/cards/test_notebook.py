"""The example notebook runs from top to bottom, and its objects show themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of a last expression is its output."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    values = [shown("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    pages = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    assert len(pages) == 4  # account, plan, release, card
    assert all(len(page) > 100 for page in pages)
    printed = capsys.readouterr().out
    assert "it needs rho 0.06, and rho 0.04 of 0.1 is left" in printed
    assert "NO " not in printed
    assert printed.count("ok ") == 7
    assert printed.count("not checked ") == 4


def test_notebooks_are_committed_without_output_and_are_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.ipynb"):
        assert f"`{path.name}`" in listed
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
