"""Draw functions by chance and show each before and after a change, for a reader who gives a verdict.

    python benchmarks/reading/draw.py --seed 31 --count 30 --before REV --after REV > drawn.md

The functions come from the tree before, in the modules of ``ROOMS``. The seed decides which, so the same command
draws the same functions. Functions inside functions are shown with their outer function and not drawn. After: the
function with the same qualified name in the same file, or else the only one with that name elsewhere.
"""

from __future__ import annotations

import argparse
import ast
import random

from sources import Named, Source, commit_of, formatted, functions, read

ROOMS = ("publish/", "ledger/", "tables/", "cli/", "errors")


class Tree:
    """The functions of one revision and their text."""

    def __init__(self, revision: str) -> None:
        self.commit = commit_of(revision)[:12]
        with formatted(revision) as package:
            self.sources = {source.path: source for source in read(package)}
        self.functions: list[Named] = []
        for source in self.sources.values():
            self.functions.extend(function for function in functions(source) if "<locals>" not in function.name)

    def text(self, function: Named) -> str:
        """Return the lines of a function with its decorators, moved to the left."""
        return _lines_of(self.sources[function.path], function.node)

    def find(self, wanted: Named) -> tuple[Named | None, str]:
        """Return the function of that name, and a word about its place."""
        alike = [function for function in self.functions if function.name == wanted.name]
        for function in alike:
            if function.path == wanted.path:
                return function, "same place"
        if len(alike) == 1:
            return alike[0], f"moved to {alike[0].path}"
        bare = wanted.name.rpartition(".")[2]
        namesakes = [function for function in self.functions if function.name.rpartition(".")[2] == bare]
        if len(namesakes) == 1:
            return namesakes[0], f"moved to {namesakes[0].path}: {namesakes[0].name}"
        return None, "removed"


def _lines_of(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.text.splitlines()[first - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in lines)


def drawn(tree: Tree, seed: int, count: int) -> list[Named]:
    """Return functions of the rooms, drawn without replacement by the seed."""
    pool = [function for function in tree.functions if function.path.startswith(ROOMS)]
    pool.sort(key=lambda function: (function.path, function.name, function.node.lineno))
    return random.Random(seed).sample(pool, count)


def entry(number: int, function: Named, before: Tree, after: Tree) -> str:
    """Return the section of one function."""
    found, place = after.find(function)
    new = "(removed)" if found is None else after.text(found)
    old = before.text(function)
    if new == old:
        place += ", unchanged"
    cells = "\n".join(f"<td valign=top>\n\n```python\n{text}\n```\n\n</td>" for text in (old, new))
    return (
        f"## {number}. `{function.path}`: `{function.name}` ({place})\n\n"
        f"<table><tr><th>before</th><th>after</th></tr><tr>\n{cells}\n</tr></table>\n\n"
        "verdict:\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--before", required=True, metavar="REVISION")
    parser.add_argument("--after", required=True, metavar="REVISION")
    chosen = parser.parse_args()
    before = Tree(chosen.before)
    after = Tree(chosen.after)
    rooms = ", ".join(room.rstrip("/") for room in ROOMS)
    print(f"# {chosen.count} functions, drawn with seed {chosen.seed}\n")
    print(f"Before: {before.commit}. After: {after.commit}. Drawn from {rooms} of the tree before.\n")
    print("Verdict: better, same or worse to read, and why in one sentence.\n")
    for number, function in enumerate(drawn(before, chosen.seed, chosen.count), start=1):
        print(entry(number, function, before, after))


if __name__ == "__main__":
    main()
