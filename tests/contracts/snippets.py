"""Runs the code blocks of a Markdown page, in order, as one session.

```python       doctest style (``>>>``) or plain statements; ``expression  # 6.1878`` is checked to the digits shown
```console      lines after ``$``: ``tallystick`` commands run; ``make`` targets must exist; other programs are not run

Output that a page shows is compared with what is printed (``outputs.py``). If it differs, the page runs once more
without noise, and each number with noise is compared with its true value.

A page begins as the user ``olga``. ``sudo -u ann tallystick`` runs a command as the user ``ann``, with keys of her own,
as does a Python block after ``<!-- run by: ann -->``. ``$(tallystick ...)`` in a command stands for what that prints.

A block after ``<!-- not run: reason -->`` is left alone; the reason is for the reader of the page's source.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import math
import os
import re
import shlex
import tempfile
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts import outputs
from contracts.other_users import acting_as
from contracts.zero_noise import scaled_noise

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.M | re.S)
_NOT_RUN = re.compile(r"<!-- not run: \S[^>]* -->\s*\Z")
_RUN_BY = re.compile(r"<!-- run by: (?P<user>\w+) -->\s*\Z")
_INNER = re.compile(r"\$\((?P<command>[^()]*)\)")
USER = "olga"
"""Name of the user whose commands a page shows."""
_NUMBER = re.compile(r"#\s*(-?\d[\d_]*\.?\d*(?:e[-+]?\d+)?)(?![\w.])")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    source: str
    line: int
    user: str = USER


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
    for match in fences(text):
        body = re.sub(f"^{match['indent']}", "", match["body"], flags=re.M)
        other = _RUN_BY.search(text[: match.start()])
        yield Block(match["language"], body, line_of(text, match), other["user"] if other else USER)


def fences(text: str) -> Iterator[re.Match[str]]:
    """The python and console blocks of a text that are run."""
    for match in _FENCE.finditer(text):
        if match["language"] in {"python", "console"} and not _NOT_RUN.search(text[: match.start()]):
            yield match


def line_of(text: str, match: re.Match[str]) -> int:
    """The line number of the first line inside a block."""
    return text.count("\n", 0, match.start()) + 2


@dataclass(frozen=True)
class Output:
    """The output of a command or an example: as the page shows it and as it was printed."""

    where: str
    command: str
    shown: str
    printed: str
    language: str
    code: int = 0


Place = tuple[int, int]
"""The line of a block, and the place of a command or an example in it."""
NewLines = Callable[[Place, list[str]], list[str]]
"""Gives the lines below a command: from its place and the lines that the page shows."""


def run_page(page: Path) -> int:
    """Run the page's blocks; raise AssertionError naming page and line at the first wrong one; return how many ran."""
    found = list(blocks(page))
    problems = problems_of(page, outputs_of(page, found))
    assert not problems, "\n\n".join(problems)
    return len(found)


def problems_of(page: Path, printed: dict[Place, Output]) -> list[str]:
    """What is wrong in the outputs that a page shows, after a run that printed these."""
    varying = outputs.declared(page.read_text(encoding="utf-8"))
    problems = [f"{each.where}: {exit_problem(each)}" for each in printed.values() if exit_problem(each)]
    unlike = {place: each for place, each in printed.items() if not is_as_shown(each)}
    without_noise = noiseless(page) if unlike else {}
    for place, each in unlike.items():
        true = without_noise.get(place)
        text = None if true is None else true.printed
        for problem in outputs.differences(each.shown, each.printed, text, varying):
            problems.append(f"{each.where}: {each.command}\n{problem}\nThe run printed\n{each.printed}")
    return problems


def is_as_shown(each: Output) -> bool:
    """True if a page shows an output as it was printed, or does not show it."""
    if each.language == "python":
        return doctest.OutputChecker().check_output(each.shown, each.printed, _FLAGS)
    return not each.shown.strip() or not outputs.differences(each.shown, each.printed, None)


def outputs_of(page: Path, found: list[Block]) -> dict[Place, Output]:
    """Run blocks in the current folder as one session, and return the output of each command and example."""
    names: dict[str, Any] = {"__name__": "__snippet__"}
    printed: dict[Place, Output] = {}
    for block in found:
        where = f"{page.name}:{block.line}"
        for i, each in enumerate(_outputs_of_block(block, names, where)):
            printed[block.line, i] = each
    return printed


def noiseless(page: Path) -> dict[Place, Output]:
    """Outputs of a page in a session without noise. A block that then fails has no outputs."""
    names: dict[str, Any] = {"__name__": "__snippet__"}
    printed: dict[Place, Output] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), scaled_noise(0):
        for block in blocks(page):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for i, each in enumerate(_outputs_of_block(block, names, "")):
                    printed[block.line, i] = each
    return printed


def _outputs_of_block(block: Block, names: dict[str, Any], where: str) -> Iterator[Output]:
    with user_of(block):
        yield from list(_outputs_of_user(block, names, where))


def user_of(block: Block) -> contextlib.AbstractContextManager[None]:
    """Run what is in a block as its user."""
    return acting_as(block.user, _folder_of(block.user))


def _folder_of(user: str) -> Path | None:
    """Where a user keeps keys and heads; None for the user with whom a page begins."""
    return None if user == USER else Path(os.environ["TALLYSTICK_CONFIG_DIR"]) / f"of {user} in {Path.cwd().name}"


def _outputs_of_user(block: Block, names: dict[str, Any], where: str) -> Iterator[Output]:
    if block.language == "console":
        yield from console_outputs(block.source, where)
    elif ">>> " in block.source:
        yield from doctest_outputs(block.source, names, where)
    else:
        run_python(block.source, names, where)


class _Collector(doctest.OutputChecker):
    """Keeps the outputs of examples, and accepts all of them: they are compared later."""

    def __init__(self) -> None:
        self.outputs: list[tuple[str, str]] = []

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        self.outputs.append((want, got))
        return True


def doctest_outputs(source: str, names: dict[str, Any], where: str) -> Iterator[Output]:
    """Run the examples of a block; raise AssertionError if one of them raises an exception that it does not show."""
    report = io.StringIO()
    test = doctest.DocTestParser().get_doctest(source, names, where, where, 0)
    collector = _Collector()
    runner = doctest.DocTestRunner(checker=collector, optionflags=_FLAGS)
    result = runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert result.failed == 0, f"{where}\n{report.getvalue()}"
    for example, (want, got) in zip(test.examples, collector.outputs, strict=True):
        yield Output(where, example.source.strip(), want, got, "python")


def run_doctest(source: str, names: dict[str, Any], where: str) -> None:
    """Run the examples of a block; raise AssertionError at an output that is not as shown."""
    for each in doctest_outputs(source, names, where):
        assert is_as_shown(each), f"{where}: {each.command} printed\n{each.printed}"


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


EXIT_CODES = {
    "Error": 2,
    "Denied": 3,
    "Refused": 4,
    "Falsified": 5,
    "Ledger integrity": 6,
    "Not authorised": 7,
    "Unavailable": 9,
}
"""The exit code that the first word of a failure stands for."""


_FAILED = re.compile(rf"^({'|'.join(EXIT_CODES)}): ", re.M)


def console_outputs(source: str, where: str) -> Iterator[Output]:
    """Run the commands of tallystick in a block."""
    for command, shown in commands(source):
        arguments = words_of(command)
        if arguments[:1] == ["make"]:
            _check_targets(arguments[1:], f"{where}: {command}")
        if is_ours(arguments):
            code, printed = run_as_typed(arguments)
            yield Output(where, command, shown, _without_folder(printed), "console", code)
        else:
            yield Output(where, command, shown, shown, "console", exit_code(shown))


def words_of(command: str) -> list[str]:
    """The words of a command, with what its inner commands print."""
    return shlex.split(_INNER.sub(lambda inner: _run(inner["command"]), command), comments=True)


def is_ours(arguments: list[str]) -> bool:
    """True for a command of tallystick, also by another user."""
    return arguments[:1] == ["tallystick"] or (arguments[:2] == ["sudo", "-u"] and arguments[3:4] == ["tallystick"])


def run_as_typed(arguments: list[str]) -> tuple[int, str]:
    """Exit code and everything printed by a command of tallystick, by its user."""
    if arguments[0] == "tallystick":
        return run_tallystick(arguments[1:])
    with acting_as(arguments[2], _folder_of(arguments[2])):
        return run_tallystick(arguments[4:])


def _run(command: str) -> str:
    """What an inner command prints, in one line."""
    code, printed = run_as_typed(shlex.split(command))
    assert code == 0, f"{command}: {printed}"
    return printed.strip()


def _check_targets(named: list[str], where: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    assert set(named) <= targets, f"{where} names a target that the Makefile does not have"


HOME = "/data"
"""Folder that a page shows in place of the folder of a run."""


def _without_folder(printed: str) -> str:
    return printed.replace(str(Path.cwd()), HOME)


def exit_code(shown: str) -> int:
    """The exit code that the output on a page stands for."""
    failed = _FAILED.search(shown)
    return EXIT_CODES[failed[1]] if failed else 0


def exit_problem(each: Output) -> str:
    """A sentence about an exit code that the page does not show, or no text."""
    if each.code == exit_code(each.shown):
        return ""
    return f"{each.command} ended with exit code {each.code}\n{each.printed}"


def commands(source: str) -> Iterator[tuple[str, str]]:
    """Each ``$ command`` (continued with a backslash) with the output written below it."""
    for part in re.split(r"^\$ ", source, flags=re.M)[1:]:
        lines = part.splitlines()
        count = command_length(lines)
        command = " ".join(line.removesuffix("\\") for line in lines[:count])
        yield command, "\n".join(lines[count:])


def command_length(lines: list[str]) -> int:
    """How many of the lines belong to the command: a backslash at the end continues it."""
    return 1 + next((i for i, line in enumerate(lines) if not line.endswith("\\")), 0)


def run_tallystick(arguments: list[str]) -> tuple[int, str]:
    """Exit code and everything printed, stdout before stderr."""
    from tallystick.cli import main

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return code, out.getvalue() + errors.getvalue()
