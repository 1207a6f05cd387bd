"""The script that measures how the source reads counts what its definitions say."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "reading"
TEXT = '''"""A docstring
of two lines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tallystick.b
    from tallystick.rooms import c

LIMIT = 7  # a comment
NONE = -1


def outer(values, most=5):
    """A docstring."""
    # a comment

    def inner():
        return 3 if values else 4

    return [value + 2 for value in values if value and most] or inner()
'''


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import measure

    yield measure
    for name in ("measure", "sources"):
        sys.modules.pop(name, None)


def source(measure: Any, path: str, text: str) -> Any:
    return measure.Source(path, text, ast.parse(text))


def test_lines_numbers_and_decisions_are_counted_as_defined(measure: Any) -> None:
    one = source(measure, "a.py", TEXT)
    inside = measure.functions(one)
    counts = measure._counts(one, inside)
    assert [function.name for function in inside] == ["outer", "outer.<locals>.inner"]
    assert (counts["code_lines"], counts["comment_lines"], counts["lines"]) == (10, 2, 21)
    assert (counts["numbers"], counts["numbers_in_functions"], counts["named_numbers"]) == (4, 3, 1)
    assert [measure.folded_complexity(function.node) for function in inside] == [5, 2]
    assert counts["nodes"] == sum(1 for _ in ast.walk(ast.parse(TEXT)))


def test_cycles_count_imports_in_functions_and_not_those_for_types(measure: Any) -> None:
    sources = [
        source(measure, "a.py", "def f():\n    from tallystick.rooms import c\n"),
        source(measure, "rooms/c.py", "import tallystick.a\nfrom tallystick.b import name\n"),
        source(measure, "b.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tallystick.a\n"),
        source(measure, "rooms/__init__.py", ""),
    ]
    graph = measure.import_graph(sources)
    assert graph["tallystick.rooms.c"] == {"tallystick.a", "tallystick.b"}
    assert measure.cycles(graph) == [["tallystick.a", "tallystick.rooms.c"]]


def test_functions_that_were_not_entered_are_counted(measure: Any, tmp_path: Path) -> None:
    entered = tmp_path / "entered.json"
    entered.write_text(json.dumps({"functions": [["a.py", "outer"], ["b.py", "outer.<locals>.inner"]]}))
    inside = measure.functions(source(measure, "a.py", TEXT))
    assert measure.never_entered(inside, entered) == 1
