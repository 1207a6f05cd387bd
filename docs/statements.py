"""Write the index of statements and the heads of their pages from the records of ``tallystick.theorems``.

``python docs/statements.py`` after a record was added or changed; a test compares.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from tallystick.theorems import Statement, all_statements

DOCS = Path(__file__).resolve().parent
START, END = "<!-- written by docs/statements.py -->", "<!-- end -->"


def named(function: str) -> str:
    """Where a reader finds a function: a name in ts.theorems, or a dotted name under tallystick."""
    return f"`tallystick.{function}`" if "." in function else f"`ts.theorems.{function}`"


def entry(statement: Statement) -> str:
    """What the head of a page says of one statement."""
    number = statement.number[0].upper() + statement.number[1:]
    lines = [f"**{number}**: {statement.title}. {statement.statement}", f"<br>Source: {statement.source}."]
    if statement.erratum:
        lines.append(f"<br>Erratum {statement.erratum}.")
    if statement.functions:
        lines.append(f"<br>Code: {', '.join(map(named, statement.functions))}.")
    if statement.asks_nothing:
        lines.append(f"<br>Nothing to compute: {statement.asks_nothing}.")
    if statement.pictures:
        lines.append(f"<br>Picture: {', '.join(map(named, statement.pictures))}.")
    if statement.test:
        lines.append(f"<br>Test: `{statement.test}`.")
    return "\n".join(lines)


def errata(statement: Statement) -> list[str]:
    """The numbers of a statement's errata: ``"2: wrong; 34: n is the larger"`` has two."""
    heads = [part.split(":")[0] for part in (statement.erratum or "").split("; ") if ":" in part]
    return [number for head in heads if re.fullmatch(r"[\d, and]+", head) for number in re.findall(r"\d+", head)]


def head(statements: list[Statement]) -> str:
    return "\n\n".join(map(entry, statements))


def index(statements: tuple[Statement, ...]) -> str:
    """The table of statements, their other numbers, and the pages that belong to none."""
    rows = ["| statement | page | function | test | erratum |", "|---|---|---|---|---|"]
    for one in statements:
        link = one.page.removeprefix("theory/") if one.page.startswith("theory/") else f"../{one.page}"
        functions = ", ".join(f"`{name}`" for name in one.functions) or "nothing to compute"
        erratum = ", ".join(errata(one))
        test = f"`{one.test}`" if one.test else ""
        rows.append(f"| {one.number} | [{one.title}]({link}) | {functions} | {test} | {erratum} |")
    rows += ["", "The same statement under another number:", "", "| number | see |", "|---|---|"]
    rows += [f"| {number} | {one.number} |" for one in statements for number in one.also]
    rows += ["", "Pages that complete these:", ""]
    told = {one.page for one in statements} | {"theory/index.md"}
    for page in sorted(DOCS.glob("theory/*.md")):
        if str(page.relative_to(DOCS)) not in told:
            title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            rows.append(f"- [{title}]({page.name})")
    return "\n".join(rows)


def written(text: str, block: str) -> str:
    """``text`` with the part between the marks replaced; a page without marks gets them after its title."""
    if START not in text:
        title, rest = text.split("\n", 1)
        text = f"{title}\n\n{START}\n{END}\n{rest}"
    before, rest = text.split(START, 1)
    return f"{before}{START}\n\n{block}\n\n{END}{rest.split(END, 1)[1]}"


def pages(statements: tuple[Statement, ...]) -> dict[Path, str]:
    """Every page that the records write to, as it should be."""
    by_page = groupby(sorted(statements, key=lambda one: one.page), key=lambda one: one.page)
    blocks = {DOCS / page: head(list(group)) for page, group in by_page}
    blocks[DOCS / "theory" / "index.md"] = index(statements)
    return {page: written(page.read_text(encoding="utf-8"), block) for page, block in blocks.items()}


if __name__ == "__main__":
    for page, text in pages(all_statements()).items():
        page.write_text(text, encoding="utf-8")
