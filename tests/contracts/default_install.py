"""Runs documented commands as if only the default installation were there: ``python default_install.py PART...``.

A part is a page, or one of commands, help and names. Every module of a package outside the default installation is
hidden from ``import``. A command must do what its page says, or end with exit 9 and one line that names the ``pip
install`` command. Everything else is printed, and the exit code is 1.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contracts import snippets
from contracts.test_installation import core_packages

SOURCE = f"{os.sep}tallystick{os.sep}"


class Without:
    """A finder of modules that does not find those of packages outside the default installation."""

    def __init__(self, finder: Any, hidden: frozenset[str]) -> None:
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self.hidden:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def hide() -> None:
    """Hide every package outside the default installation from ``import``."""
    core = core_packages()
    packages = importlib.metadata.packages_distributions()
    hidden = frozenset(module for module, owners in packages.items() if not core & set(map(normal, owners)))
    assert {"pyarrow", "matplotlib", "sklearn", "pytest"} <= hidden
    assert not {"tallystick", "numpy", "duckdb", "rich"} & hidden
    for name in sorted(hidden & set(sys.modules)):
        del sys.modules[name]
    sys.meta_path[:] = [Without(finder, hidden) for finder in sys.meta_path]
    assert importlib.util.find_spec("pyarrow") is None


def problem_of(code: int, printed: str, wanted: int) -> str:
    """Why the end of a command is wrong, or nothing."""
    if "Traceback" in printed:
        return "a traceback"
    if code == wanted:
        return ""
    if code != 9:
        return f"exit {code}"
    headline, *lines = printed.strip().splitlines()[-2:]
    one_line = headline.startswith("Unavailable") and len(lines) == 1
    return "" if one_line and "pip install" in lines[0] else "not one line with a pip command"


def run(words: Sequence[str], wanted: int, where: str) -> tuple[int, list[str]]:
    return run_typed(["tallystick", *words], wanted, where)


def run_typed(words: Sequence[str], wanted: int, where: str) -> tuple[int, list[str]]:
    code, printed = snippets.run_as_typed(list(words))
    problem = problem_of(code, printed, wanted)
    return code, [f"{where}: {shlex.join(words)}: {problem}\n{printed[-600:]}"] if problem else []


def run_page(page: Path) -> Iterator[str]:
    """The wrong ends of a page's commands. Python before the last of them is run for the files that it makes."""
    names: dict[str, Any] = {"__name__": "__snippet__"}
    blocks = list(snippets.blocks(page))
    last = max(i for i, block in enumerate(blocks) if block.language == "console")
    for block in blocks[: last + 1]:
        with snippets.user_of(block):
            yield from list(run_block(block, names, f"{page.name}:{block.line}"))


def run_block(block: snippets.Block, names: dict[str, Any], where: str) -> Iterator[str]:
    """The wrong ends of a block."""
    if block.language == "python":
        problem = run_python(block, names, where)
        examples = problem.split("Failed example:")
        if any(SOURCE in each and "ModuleNotFoundError" in each for each in examples):
            yield f"{where}: a missing package is not named as one\n{problem}"
        return
    for command, shown in snippets.commands(block.source):
        words = snippets.words_of(command)
        if snippets.is_ours(words):
            _, problems = run_typed(words, snippets.exit_code(shown), where)
            yield from problems


def run_python(block: snippets.Block, names: dict[str, Any], where: str) -> str:
    """The text of what goes wrong in a block of Python."""
    runner = snippets.run_doctest if ">>> " in block.source else snippets.run_python
    try:
        runner(block.source, names, where)
    except AssertionError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return ""


def pages() -> list[Path]:
    """The pages with commands that can be run."""
    return [page for page in snippets.pages() if any(b.language == "console" for b in snippets.blocks(page))]


# Commands that need an extra, and commands that look as if they did.

LEDGER = ("--ledger", "tallystick-demo/demo-ledger.db")
ASKED = ("--rho", "0.001", "--why", "x", *LEDGER)
TRAINED = "--epsilon 1 --delta 1e-5 --examples 10000 --batch 100 --epochs 1".split()
SEX = "--target sex --features age --labels f,m --epsilon 0.1 --why x --ledger fits.db".split()
ADD = (
    "dataset add tallystick-demo/visits.csv --name visits --population p --unit patient_id --max-groups 2 "
    "--max-rows-per-group 3 --bounds age=0:110 --limit epsilon=5,delta=1e-6 --ledger fits.db"
).split()
SYNTHETIC = ("publish", "rehearse", "tallystick-demo/table.plan.json", "--synthetic", "--units", "50", *LEDGER)
WITHOUT: dict[tuple[str, ...], int] = {
    ("demo",): 0,
    ("demo", "--accounting"): 0,
    ("demo", "learn"): 9,
    ("demo", "six"): 9,
    ("doctor",): 0,
    (*SYNTHETIC, "--caps", "1x1"): 0,
    (*SYNTHETIC, "--caps", "1x1", "--plot", "errors.svg"): 9,
    tuple(ADD): 0,
    ("fit", "logistic", "visits", *SEX): 9,
    ("query", "visits", "--measures", "count", *ASKED, "--out", "t.parquet"): 9,
    ("sql", "SELECT COUNT(*) AS n FROM visits", *ASKED, "--out", "t.arrow"): 9,
    ("plot", "tallystick-demo/table.csv", "--out", "p.svg"): 9,
    ("plot", "t.parquet", "--out", "p.svg"): 9,
    ("train", "plan", *TRAINED): 0,
    ("train", "plan", *TRAINED, "--picture", "p.svg"): 9,
    ("epsilon", "gaussian(sigma=1)", "--delta", "1e-5", "--rigorous"): 9,
    ("certificate", "write", "gaussian(sigma=1)", "--delta", "1e-5", "--out", "c.json"): 9,
    ("certificate", "check", "tallystick-demo/table.plan.json"): 9,
    ("ledger", "verify", "--ledger", "postgresql://127.0.0.1:1/nothing"): 9,
}


def run_commands() -> Iterator[str]:
    for words, wanted in WITHOUT.items():
        code, problems = run(words, wanted, "commands")
        yield from problems
        if code != wanted:
            yield f"{shlex.join(words)} ended with {code}, not {wanted}"


def run_help() -> Iterator[str]:
    from tallystick.cli.app import _parser

    waiting: list[tuple[tuple[str, ...], Any]] = [((), _parser())]
    count = 0
    while waiting:
        words, command = waiting.pop()
        _, problems = run((*words, "--help"), 0, "help")
        yield from problems
        waiting += [((*words, name), each) for name, each in getattr(command, "commands", {}).items()]
        count += 1
    assert count > 40, count


def run_names() -> Iterator[str]:
    """Every public name is there, or says which package it needs."""
    import tallystick
    from tallystick.errors import Unavailable

    tried = 0
    for room in ("", ".learn", ".plots", ".audit", ".adaptive", ".inference", ".cards", ".theorems"):
        module = importlib.import_module(f"{tallystick.__name__}{room}")
        for name in module.__all__:
            tried += 1
            try:
                getattr(module, name)
            except Unavailable as error:
                if "pip install" not in str(error):
                    yield f"{room}.{name}: {error}"
            except ImportError as error:
                yield f"tallystick{room}.{name}: {error!r}"
    assert tried > 100, tried


def problems_of(part: str) -> list[str]:
    """Run a part in a new folder."""
    parts = {"commands": run_commands, "help": run_help, "names": run_names}
    before = Path.cwd()
    folder = before / part.replace("/", "-")
    folder.mkdir()
    os.chdir(folder)
    try:
        return list(parts[part]() if part in parts else run_page(snippets.ROOT / part))
    finally:
        os.chdir(before)


def main(parts: Sequence[str]) -> None:
    hide()
    os.environ["NO_COLOR"] = "1"
    found = [problem for part in parts for problem in problems_of(part)]
    if found:
        sys.exit("\n\n".join(found))
    print(f"{len(parts)} parts")


if __name__ == "__main__":
    main(sys.argv[1:])
