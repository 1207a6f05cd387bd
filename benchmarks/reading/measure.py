"""Measure how the source reads, at any git revision, with one definition for all revisions.

    python benchmarks/reading/measure.py --rev HEAD
    python benchmarks/reading/measure.py --rev main --rev HEAD --entered main.json --entered head.json --json

The package of the revision is unpacked into a temporary folder and formatted with 100 columns before anything is
counted. ``--entered`` takes a file of ``entered.py``, ``--junit`` a JUnit file or ``--seconds`` a number; each is
given once per ``--rev``, in the same order, or not at all.

Definitions:
- lines: lines of the formatted files. Code lines: lines with a token that is neither a comment nor in a docstring.
- AST nodes: what ``ast.walk`` yields, with docstrings and with load and store contexts.
- a function: ``def`` or ``async def``, methods and nested functions included. Its nodes include nested functions.
- comment share: lines with a comment / lines.
- numeric constants: numbers other than 0, 1, 2 and -1, each time that one is written. Inside functions: with their
  default arguments. Named: assignments at module level with such a number in their value.
- complexity: McCabe's, as ruff counts it (rule C901), ``noqa`` ignored. It counts statements only. *Folded*
  complexity also counts what is decided inside a line: each ``and`` and ``or``, conditional expression, ``for`` and
  ``if`` of a comprehension, and ``assert``. Nested functions are counted apart.
- import cycles: modules that reach themselves by imports. Imports inside functions count, imports under
  ``TYPE_CHECKING`` do not. ``from package import name`` is an import of ``package.name`` if that is a module.
- never entered: functions that README, guides, examples and the demo never call, of all functions.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sources import Function, Named, Source, commit_of, formatted, functions, read, run_ruff

COMPLEXITY = 10
ORDINARY_NUMBERS = (0, 1, 2)  # -1 is written as a minus and a 1
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
LABELS = {
    "commit": "commit",
    "files": "files",
    "lines": "lines",
    "code_lines": "code lines",
    "nodes": "AST nodes",
    "nodes_per_code_line": "AST nodes per code line",
    "functions": "functions",
    "nodes_median_function": "AST nodes in the median function",
    "nodes_p95_function": "AST nodes in the 95th percentile function",
    "comment_share": "lines with a comment, %",
    "numbers": "numeric constants",
    "numbers_in_functions": "of these inside functions",
    "numbers_outside_functions": "of these outside functions",
    "named_numbers": "named at module level (assignments)",
    "complex_functions": f"functions above complexity {COMPLEXITY}",
    "complex_share": f"functions above complexity {COMPLEXITY}, %",
    "folded_functions": f"functions above folded complexity {COMPLEXITY}",
    "folded_share": f"functions above folded complexity {COMPLEXITY}, %",
    "modules_in_cycles": "modules in import cycles",
    "cycles": "import cycles, by size",
    "never_entered": "functions that documented use never enters",
    "never_entered_share": "functions that documented use never enters, %",
    "test_seconds": "test time, seconds",
}


def count_nodes(tree: ast.AST) -> int:
    """Return the number of AST nodes."""
    return sum(1 for _ in ast.walk(tree))


def tokens_of(source: Source) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(source.text).readline))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that belong to docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | Function) or ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def code_lines(source: Source, tokens: Iterable[tokenize.TokenInfo]) -> set[int]:
    """Return the numbers of the lines with code."""
    lines: set[int] = set()
    for token in tokens:
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(source.tree)


def comment_lines(tokens: Iterable[tokenize.TokenInfo]) -> set[int]:
    """Return the numbers of the lines with a comment."""
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def is_number(node: ast.AST) -> bool:
    """True for a number that is counted as a constant."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float | complex) and node.value not in ORDINARY_NUMBERS


def count_numbers(tree: ast.AST) -> int:
    return sum(is_number(node) for node in ast.walk(tree))


def outermost(named: list[Named]) -> list[Named]:
    """Return the functions that are not inside another function."""
    return [function for function in named if "<locals>" not in function.name]


def named_numbers(tree: ast.Module) -> int:
    """Return the number of assignments at module level with a counted number in their value."""
    assignments = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    return sum(node.value is not None and count_numbers(node.value) > 0 for node in assignments)


def count_complex(package: Path) -> int:
    """Return the number of functions above the complexity limit, as ruff counts it."""
    options = ["--select", "C901", "--config", f"lint.mccabe.max-complexity={COMPLEXITY}"]
    found = run_ruff("check", *options, "--ignore-noqa", "--output-format", "json", str(package))
    return len(json.loads(found))


def folded_complexity(function: Function) -> int:
    """Return the number of decisions of a function plus one, decisions inside a line included."""
    return 1 + sum(_decisions(node) for node in _own_nodes(function))


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function without the functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    branches = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.Assert)
    return int(isinstance(node, branches))


def module_name(path: str) -> str:
    """Return the dotted name of a file of the package: ``ledger/pay.py`` is ``tallystick.ledger.pay``."""
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(["tallystick", *parts])


def is_type_checking(node: ast.AST) -> bool:
    """True for ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run, at any depth."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and is_type_checking(child):
            for other in child.orelse:
                yield from import_statements(other)
        else:
            yield from import_statements(child)


def imported_names(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield what a statement names: a module, and a name inside it or an empty text."""
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield alias.name, ""
        else:
            yield statement.module or "", alias.name


def import_graph(sources: list[Source]) -> dict[str, set[str]]:
    """Return, for each module, the modules of the package that it imports."""
    modules = {module_name(source.path) for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        edges: set[str] = set()
        for statement in import_statements(source.tree):
            for module, name in imported_names(statement):
                inner = f"{module}.{name}"
                edges.add(inner if inner in modules else module)
        importer = module_name(source.path)
        graph[importer] = (edges & modules) - {importer}
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that a module imports, directly or not."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(graph[module])
    return seen


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, largest first."""
    reach = {module: reachable(graph, module) for module in graph}
    groups: set[tuple[str, ...]] = set()
    for module in graph:
        if module in reach[module]:
            groups.add(tuple(sorted(other for other in reach[module] if module in reach[other])))
    return sorted((list(group) for group in groups), key=lambda group: (-len(group), group))


def never_entered(named: list[Named], entered: Path) -> int:
    """Return the number of functions that are not in a list of ``entered.py``."""
    pairs = {(path, name) for path, name in json.loads(entered.read_text())["functions"]}
    return sum((function.path, function.name) not in pairs for function in named)


def seconds_of(junit: Path) -> float:
    """Return the time of all tests in a JUnit file, added up."""
    suites = ElementTree.parse(junit).getroot().iter("testcase")
    return sum(float(case.get("time", 0)) for case in suites)


def percentage(part: int, whole: int) -> float:
    return round(100 * part / whole, 2)


def measure(revision: str, entered: Path | None, seconds: float | None) -> dict[str, Any]:
    """Return all numbers of one revision, by the names in ``LABELS``."""
    with formatted(revision) as package:
        sources = read(package)
        complex_functions = count_complex(package)
    totals: Counter[str] = Counter()
    named: list[Named] = []
    for source in sources:
        inside = functions(source)
        named.extend(inside)
        totals.update(_counts(source, inside))
    folded = sum(folded_complexity(function.node) > COMPLEXITY for function in named)
    sizes = sorted(count_nodes(function.node) for function in named)
    groups = cycles(import_graph(sources))
    result: dict[str, Any] = {
        "commit": commit_of(revision)[:12],
        "files": len(sources),
        **totals,
        "numbers_outside_functions": totals["numbers"] - totals["numbers_in_functions"],
        "nodes_per_code_line": round(totals["nodes"] / totals["code_lines"], 2),
        "functions": len(named),
        "nodes_median_function": statistics.median(sizes),
        "nodes_p95_function": sizes[int(0.95 * len(sizes))],
        "comment_share": percentage(totals["comment_lines"], totals["lines"]),
        "complex_functions": complex_functions,
        "complex_share": percentage(complex_functions, len(named)),
        "folded_functions": folded,
        "folded_share": percentage(folded, len(named)),
        "modules_in_cycles": sum(len(group) for group in groups),
        "cycles": [f"{len(group)} ({_rooms(group)})" for group in groups],
    }
    if entered is not None:
        result["never_entered"] = never_entered(named, entered)
        result["never_entered_share"] = percentage(result["never_entered"], len(named))
    if seconds is not None:
        result["test_seconds"] = seconds
    return result


def _counts(source: Source, inside: list[Named]) -> dict[str, int]:
    """Return what is added up over files."""
    tokens = tokens_of(source)
    return {
        "lines": len(source.text.splitlines()),
        "code_lines": len(code_lines(source, tokens)),
        "comment_lines": len(comment_lines(tokens)),
        "nodes": count_nodes(source.tree),
        "numbers": count_numbers(source.tree),
        "numbers_in_functions": sum(count_numbers(function.node) for function in outermost(inside)),
        "named_numbers": named_numbers(source.tree),
    }


def _rooms(group: list[str]) -> str:
    """Return the packages of a cycle, in words."""
    rooms = {module.split(".")[1] for module in group if "." in module}
    return ", ".join(sorted(rooms))


def table(results: list[dict[str, Any]]) -> str:
    """Return the numbers as a Markdown table with one column for each revision."""
    revisions = [result["commit"] for result in results]
    lines = [f"| | {' | '.join(revisions)} |", f"|---|{'--:|' * len(results)}"]
    for name, label in LABELS.items():
        if name != "commit" and any(name in result for result in results):
            cells = [_cell(result.get(name)) for result in results]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return f"{value:,}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rev", action="append", metavar="REVISION", help="a git revision; repeat it to compare")
    parser.add_argument("--entered", action="append", type=Path, metavar="FILE", help="written by entered.py")
    times = parser.add_mutually_exclusive_group()
    times.add_argument("--junit", action="append", type=Path, metavar="FILE", help="pytest --junit-xml=FILE")
    times.add_argument("--seconds", action="append", type=float, help="test time, if it was measured otherwise")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args()
    chosen.rev = chosen.rev or ["HEAD"]
    for name in ("entered", "junit", "seconds"):
        values = getattr(chosen, name)
        if values is not None and len(values) != len(chosen.rev):
            parser.error(f"--{name}: give one for each --rev, or none")
    return chosen


def main() -> None:
    chosen = arguments()
    count = len(chosen.rev)
    entered = chosen.entered or [None] * count
    seconds = chosen.seconds or [None] * count
    if chosen.junit:
        seconds = [round(seconds_of(path), 1) for path in chosen.junit]
    results = [measure(*each) for each in zip(chosen.rev, entered, seconds, strict=True)]
    print(json.dumps(results, indent=2) if chosen.json else table(results))


if __name__ == "__main__":
    main()
