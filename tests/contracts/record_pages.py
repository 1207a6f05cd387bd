"""Writes the output of real runs into the console blocks of the documentation: ``make pages``.

    python tests/contracts/record_pages.py [--all] [PAGE ...]

A page is recorded if the output that it shows is not what its commands print. ``--all`` records
every page with commands. All console blocks of a page come from one run. Commands, prose and Python
blocks stay as they are, or the page is refused.

A command without output on the page stays without. A line ``...`` stays: the lines before it and
after it are as many as before.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contracts import outputs, snippets


class RecordRefused(Exception):
    """A page that cannot be recorded without a change of something else than output."""


def record(page: Path, printed: dict[snippets.Place, snippets.Output]) -> str:
    """The text of a page with the outputs of a run in its console blocks."""
    text = page.read_text(encoding="utf-8")
    for each in printed.values():
        if problem := snippets.exit_problem(each):
            raise RecordRefused(f"{each.where}: {problem}")
    new = _with_outputs(text, printed)
    if without_outputs(new) != without_outputs(text):
        raise RecordRefused(f"{page.name}: an output looks like a command or the end of a block")
    return new


def without_outputs(text: str) -> str:
    """A page without the output in its console blocks: what the recorder does not change."""
    return _replaced(text, lambda place, shown: [])


def _with_outputs(text: str, printed: dict[snippets.Place, snippets.Output]) -> str:
    def new_lines(place: snippets.Place, shown: list[str]) -> list[str]:
        if not any(line.strip() for line in shown):
            return shown
        return recorded_lines(shown, printed[place].printed.strip("\n").splitlines())

    return _replaced(text, new_lines)


def _replaced(text: str, new_lines: snippets.NewLines) -> str:
    """The text with other lines below each command of the blocks that are run."""
    parts, end = [], 0
    for match in snippets.fences(text):
        if match["language"] != "console":
            continue
        line = snippets.line_of(text, match)
        lines = _block_lines(match["body"], match["indent"], line, new_lines)
        parts += [text[end : match.start("body")], *lines]
        end = match.end("body")
    return "".join([*parts, text[end:]])


def _block_lines(body: str, indent: str, line: int, new_lines: snippets.NewLines) -> Iterator[str]:
    first, *commands = re.split(rf"^(?={re.escape(indent)}\$ )", body, flags=re.M)
    yield first
    for i, part in enumerate(commands):
        lines = part.splitlines()
        count = snippets.command_length(lines)
        yield from (f"{each}\n" for each in lines[:count])
        shown = [each.removeprefix(indent) for each in lines[count:]]
        for each in new_lines((line, i), shown):
            yield f"{indent}{each}".rstrip() + "\n"


def recorded_lines(shown: list[str], printed: list[str]) -> list[str]:
    """The printed lines, cut where the page cuts them."""
    parts = _parts(shown)
    if len(parts) == 1:
        return printed
    first, *middle, last = parts
    kept = [*printed[: len(first)], outputs.CUT]
    for part in middle:
        start = _place(part[0], printed)
        kept += [*printed[start : start + len(part)], outputs.CUT]
    return [*kept, *(printed[-len(last) :] if last else [])]


def _parts(shown: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == outputs.CUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _place(line: str, printed: list[str]) -> int:
    nearest = difflib.get_close_matches(line, printed, n=1, cutoff=0.0)
    return printed.index(nearest[0])


def run(page: Path) -> dict[snippets.Place, snippets.Output]:
    """The outputs of a page, run in a new folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _silence():
        return snippets.outputs_of(page, list(snippets.blocks(page)))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what the Python blocks of a page print."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        yield


def main(words: list[str]) -> None:
    """Record the pages that are named, or all."""
    os.environ["NO_COLOR"] = "1"
    names = {Path(word).resolve() for word in words if word != "--all"}
    chosen = [page for page in snippets.pages() if page in names or not names]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TALLYSTICK_CONFIG_DIR"] = folder
        for page in chosen:
            _record_page(page, is_forced="--all" in words)


def _record_page(page: Path, *, is_forced: bool) -> None:
    if all(block.language != "console" for block in snippets.blocks(page)):
        return
    printed = run(page)
    if is_forced or snippets.problems_of(page, printed):
        page.write_text(record(page, printed), encoding="utf-8")
        print(f"recorded {page.relative_to(snippets.ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
