"""Runs the code blocks of a Markdown page, in order, as one session.

```python       doctest style (``>>>``) or plain statements; ``expression  # 6.1878`` is checked to the digits shown
```console      lines after ``$``: ``tallystick`` commands run and their output is compared (``...`` is anything);
                ``make`` targets must exist; other programs are not run

A block after ``<!-- not run: reason -->`` is left alone; the reason is for the reader of the page's source.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import math
import re
import shlex
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.M | re.S)
_NOT_RUN = re.compile(r"<!-- not run: \S[^>]* -->\s*\Z")
_NUMBER = re.compile(r"#\s*(-?\d[\d_]*\.?\d*(?:e[-+]?\d+)?)(?![\w.])")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    source: str
    line: int


def pages() -> list[Path]:
    """Every Markdown page a reader meets."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "tests" / "README.md",
        *sorted(ROOT.glob("docs/**/*.md")),
    ]


def blocks(page: Path) -> Iterator[Block]:
    """The python and console blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match["language"] in {"python", "console"} and not _NOT_RUN.search(text[: match.start()]):
            body = re.sub(f"^{match['indent']}", "", match["body"], flags=re.M)
            yield Block(match["language"], body, text.count("\n", 0, match.start()) + 2)


def run_page(page: Path) -> int:
    """Run the page's blocks; raise AssertionError naming page and line at the first wrong one; return how many ran."""
    names: dict[str, Any] = {"__name__": "__snippet__"}
    count = 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.language == "console":
            run_console(block.source, where)
        elif ">>> " in block.source:
            run_doctest(block.source, names, where)
        else:
            run_python(block.source, names, where)
        count += 1
    return count


def run_doctest(source: str, names: dict[str, Any], where: str) -> None:
    report = io.StringIO()
    test = doctest.DocTestParser().get_doctest(source, names, where, where, 0)
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    result = runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert result.failed == 0, f"{where}\n{report.getvalue()}"


def run_python(source: str, names: dict[str, Any], where: str) -> None:
    comments = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(source).body:
        code = ast.get_source_segment(source, statement) or ""
        if not isinstance(statement, ast.Expr):
            exec(compile(code, where, "exec"), names)
            continue
        value = eval(compile(code, where, "eval"), names)
        claimed = _NUMBER.match(comments.get(statement.end_lineno or 0, ""))
        if claimed:
            assert agrees(float(value), claimed[1]), f"{where}: {code} is {value!r}, the page says {claimed[1]}"


def agrees(value: float, shown: str) -> bool:
    """Whether ``shown`` is ``value`` rounded (in any direction) to the digits it shows."""
    mantissa = re.sub(r"e.*", "", shown.replace("_", ""))
    exponent = int(shown.split("e")[1]) if "e" in shown else 0
    decimals = len(mantissa.split(".")[1]) if "." in mantissa else 0
    return math.isclose(value, float(shown), rel_tol=1e-12, abs_tol=1.0000001 * 10.0 ** (exponent - decimals))


EXIT_CODES = {"Error": 2, "Denied": 3, "Refused": 4, "Falsified": 5, "Ledger integrity": 6, "Unavailable": 9}
"""The exit code that the first word of a failure stands for."""


def run_console(source: str, where: str) -> None:
    for command, expected in commands(source):
        arguments = shlex.split(command, comments=True)
        if arguments[:1] == ["make"]:
            targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
            assert set(arguments[1:]) <= targets, f"{where}: {command} names no target of the Makefile"
        if arguments[:1] != ["tallystick"]:
            continue
        code, printed = run_tallystick(arguments[1:])
        failed = re.search(r"^(Error|Denied|Refused|Falsified|Ledger integrity|Unavailable): ", expected, re.M)
        wanted_code = EXIT_CODES[failed[1]] if failed else 0
        assert code == wanted_code, f"{where}: {command} ended with {code}\n{printed}"
        if expected.strip():
            matches = doctest.OutputChecker().check_output(expected.strip() + "\n", printed.strip() + "\n", _FLAGS)
            assert matches, f"{where}: {command} printed\n{printed}\nwhere the page says\n{expected}"


def commands(source: str) -> Iterator[tuple[str, str]]:
    """Each ``$ command`` (continued with a backslash) with the output written below it."""
    for part in re.split(r"^\$ ", source, flags=re.M)[1:]:
        lines = part.replace("\\\n", " ").splitlines()
        yield lines[0], "\n".join(lines[1:])


def run_tallystick(arguments: list[str]) -> tuple[int, str]:
    """Exit code and everything printed, stdout before stderr."""
    from tallystick.cli import main

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return code, out.getvalue() + errors.getvalue()
