"""Check the English that people read: ``python docs/prose.py`` lists what the style guide leaves behind.

It reads the pages, templates and source files in ``SCOPE``: in Markdown and templates all text outside code, in Python
the docstrings and texts. In the files of ``TEXTS_ONLY`` it reads the texts, and the docstrings of public names only. A
rule is a pattern with what to write instead. ``ALLOWED`` lists exceptions with reasons; it has at most 40 entries and
may only shrink. ``SCOPE`` may only grow. ``TEXTS_ONLY`` may only shrink, in favour of ``SCOPE``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 40
"""Words of one sentence. The style guide asks for 20 on average."""
MOST_ALLOWED = 40

SCOPE = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/decisions/*.md",
    "docs/guides/*.md",
    "docs/reference/*.md",
    "docs/theory/*.md",
    "src/tallystick/cards/templates/*.j2",
    "src/tallystick/cli/explorer/page.html",
    "src/tallystick/*.py",
    "src/tallystick/adaptive/**/*.py",
    "src/tallystick/cards/**/*.py",
    "src/tallystick/certificate/**/*.py",
    "src/tallystick/cli/**/*.py",
    "src/tallystick/inference/**/*.py",
    "src/tallystick/ledger/**/*.py",
    "src/tallystick/plots/**/*.py",
    "src/tallystick/publish/**/*.py",
    "src/tallystick/service/**/*.py",
    "src/tallystick/tables/**/*.py",
    "src/tallystick/theorems/**/*.py",
)
"""Files that are checked."""

TEXTS_ONLY = (
    "src/tallystick/accounting/**/*.py",
    "src/tallystick/audit/**/*.py",
    "src/tallystick/learn/**/*.py",
    "src/tallystick/mechanisms/**/*.py",
    "src/tallystick/numerics/**/*.py",
)
"""Modules whose texts are checked, and the docstrings of public names; their other docstrings are not checked yet."""

RULES = {
    r"\b(nobody|somebody|whoever|whatever|anybody)\b": "name the person: owner, analyst, attacker, reader",
    r"\bfor nothing\b": "write 'without a charge'",
    r"\b(is|are) told\b|\btold (of|to)\b": "write 'is reported', 'is published'",
    r"\bof (its|their) own\b": "rebuild the sentence",
    r"(?<!there )\b(is|are|was|were) no (?!longer|more|protection)|\b(is|are|has|have) (?-i:none)\b": "negate the verb",
    r"\bdata sets?\b": "write 'dataset'",
    r"\bprice[sd]?\b(?!\()": "write 'cost'",
    r"\bdear\b": "write 'expensive'",
    r"\bhand(s|ed)? out\b": "write 'publish' or 'return'",
    r"(?<!\[)\+-": "write ±",
    r"\b\de-0\d": "write 1e-6, not 1e-06",
    r"\bgoes on\b": "write 'continues'",
    r"\bfalse alarms?\b": "write 'false accusation'",
    r"\bread-?outs?\b": "write 'value'",
    r"\bof nobody\b|\blets in\b|\bbe told no\b": "write what happens",
    r"(^|[.;,])\s*works:": "write 'Try:'",
    r"^\W*(asked|found)\W*0?$|^\W*works\s{2,}|^#+ works\b": "write sentences, not the labels asked, found and works",
    r"\bweighted down\b|\btaken away\b": "write 'counts less' or 'is left out'",
    r"\bmoved to the bound\b": "write 'counts as the bound'",
    r"\bblocks? of keys\b": "write 'groups'",
    r"\bthe account that pays\b|\bwhose data it is\b": "write 'population'",
    r"\bmost that will ever be spent\b": "write 'limit'",
    r"\bwhat it loses\b": "write 'cost' or 'privacy loss'",
    r"\b(came|given) out\b": "write 'was published'",
    r"\b(says|said) no\b": "write 'refuses' or 'denies'",
    r"\bcomes? and goes?\b": "write 'is added or removed'",
    r"\bbest there can be\b": "write 'the best possible attacker'",
    r"\bhit rates?\b": "write 'share of people found'",
    r"% sure\b": "write 'a suspicion of 1 %'",
    r"\b(wrong|safe) side\b": "write 'upper bound' or 'lower bound'",
    r"\bis read at\b": "write 'is computed at'",
    r"\bdeals (its|their) own\b": "write 'draws its batches'",
    r"\bsame key, same bytes\b|\banswered it\b": "write 'a copy of the answer'",
    r"\bburns (the charge|it)\b|\bcharge (burns|is burned)\b": "write 'the charge stays spent'",
}
"""Patterns of the style guide and the glossary, and what to write instead."""

READER_RULES = {
    r"(?<!over the )\bcaps?\b|\bcapped\b": (
        ("README.md", "docs/guides/*", "docs/reference/*", "src/*"),
        "write 'limit per person'; only labels of parts, which plans store, say 'over the cap'",
    ),
    r"(?<![\w=-])\bunits?\b(?! (of|id)\b)": (("README.md", "src/tallystick/cli/*"), "write 'person'"),
}
"""Rules for texts that users read, with the files in which they hold. They do not hold for docstrings."""

DOCSTRING_STARTS = re.compile(r"^(What|Where|Of|The same|Whether|How)\b")

SQL = re.compile(r"\n\s*[A-Z]{2,}\s")
"""Begin of a text that is SQL, or a list of its words, and not prose."""

MARKET = "the price of a good, not the cost of a query"
STORED = "cards store this sentence"

ALLOWED: dict[tuple[str, str], str] = {
    ("docs/reference/which-mechanism.md", "a best point on a scale (a price"): MARKET,
    ("docs/reference/which-mechanism.md", "The best prices are 1 and just below 4.01"): MARKET,
    ("docs/reference/which-mechanism.md", "it chooses a price by what it would earn"): MARKET,
    ("docs/reference/which-mechanism.md", "with four thousand it is a good price"): MARKET,
    ("docs/theory/selection-exponential.md", "at most the highest price"): MARKET,
    ("docs/theory/selection-exponential.md", "Revenue against the price"): MARKET,
    ("src/tallystick/mechanisms/select/noisy_law.py", "prices"): MARKET,
    ("src/tallystick/tables/reporting/plan.py", "whatever collation a column has"): STORED,
    ("src/tallystick/learn/torch/trainer.py", "is the word of whoever trained"): STORED,
}
"""Exceptions: file and a piece of the line, with the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that breaks a rule."""

    path: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text.strip()[:90]!r}: {self.advice}"


def findings(
    scope: tuple[str, ...] = SCOPE, texts_only: tuple[str, ...] = TEXTS_ONLY, root: Path = ROOT
) -> list[Finding]:
    """Return every place in scope that breaks a rule and is not allowed."""
    assert len(ALLOWED) <= MOST_ALLOWED
    whole = files(scope, root)
    texts = [path for path in files(texts_only, root) if path not in whole]
    exported = public_names(root)
    found = []
    for path in whole + texts:
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        found += check(name, text, documented=None if path in whole else exported)
    return [each for each in found if not is_allowed(each)]


def files(patterns: tuple[str, ...], root: Path = ROOT) -> list[Path]:
    """Return the files that match one of the patterns, each once."""
    return sorted({path for pattern in patterns for path in root.glob(pattern)})


def is_allowed(finding: Finding) -> bool:
    """True if an exception covers a finding."""
    return any(finding.path == path and piece in finding.text for path, piece in ALLOWED)


def public_names(root: Path = ROOT) -> set[str]:
    """Return the names that packages export: the identifiers in texts of their ``__init__.py``."""
    names = set()
    for path in root.glob("src/tallystick/**/__init__.py"):
        texts = map(text_of, ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names |= {text for text in texts if text.isidentifier()}
    return names


def check(name: str, text: str, *, documented: Collection[str] | None = None) -> list[Finding]:
    """Return what breaks a rule in one file. ``documented`` are the names whose docstrings count; None means all."""
    pieces = python_pieces(text, documented) if name.endswith(".py") else page_pieces(text)
    found = []
    for line, piece, is_docstring in pieces:
        if is_docstring and DOCSTRING_STARTS.match(piece):
            found.append(Finding(name, line, piece, "begin a docstring with a verb or a noun"))
        found += list(broken_rules(name, line, piece))
        if not is_docstring:
            found += list(broken_reader_rules(name, line, piece))
    return found


def broken_rules(name: str, line: int, piece: str) -> Iterator[Finding]:
    """Return the rules that a piece of text breaks."""
    for pattern, advice in RULES.items():
        if re.search(pattern, piece, re.IGNORECASE):
            yield Finding(name, line, piece, advice)
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\n|\n\s*(?=[│├└])", piece):
        if len(words(sentence)) > MOST_WORDS:
            yield Finding(name, line, sentence, f"split it: more than {MOST_WORDS} words")


def broken_reader_rules(name: str, line: int, piece: str) -> Iterator[Finding]:
    """Return the rules for users' texts that a text breaks."""
    for pattern, (places, advice) in READER_RULES.items():
        if any(fnmatch(name, place) for place in places) and re.search(pattern, piece, re.IGNORECASE):
            yield Finding(name, line, piece, advice)


def words(sentence: str) -> list[str]:
    """Return the words of a sentence: numbers, operators and symbols of a formula are not words."""
    return [each for each in sentence.split() if re.search(r"[^\W\d_]{2}|^[AaI]$", each)]


def page_pieces(text: str) -> Iterator[tuple[int, str, bool]]:
    """Return the lines of a page outside code, scripts, markup and tables of numbers."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "<script", "</script", "<style", "</style")):
            is_code = not is_code
            continue
        if is_code or line.startswith(("    ", "@")):
            continue
        plain = re.sub(r"`[^`]*`|\{[{%#].*?[%#}]\}|<[^>]*>|\([^)]*\.(md|html|svg|png)[^)]*\)", " ", line)
        for cell in plain.split("|"):
            yield number, cell, False


def is_prose(text: str) -> bool:
    """Return whether a text of a module has words for people: more than one, and not SQL."""
    return " " in text and not SQL.match(text)


def python_pieces(text: str, documented_names: Collection[str] | None = None) -> Iterator[tuple[int, str, bool]]:
    """Return the texts and docstrings of a module: all docstrings, or those of some names and their methods."""
    tree = ast.parse(text)
    public = docstrings_of(tree, documented_names or ())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in statements - public and documented_names is not None:
            continue
        text = "" if id(node) in inside else text_of(node)
        if is_prose(text):
            is_docstring = id(node) in docstrings
            prose = without_listings(text.split(">>>")[0]) if is_docstring else text
            yield node.lineno, re.sub(r"``[^`]*``", " ", prose), is_docstring


def docstrings_of(tree: ast.Module, names: Collection[str]) -> set[int]:
    """Return the docstrings of some functions and classes of a module, and of the public methods of these classes."""
    found = [node for node in tree.body if getattr(node, "name", "") in names]
    classes = [node for node in found if isinstance(node, ast.ClassDef)]
    found += [method for each in classes for method in each.body if not getattr(method, "name", "_").startswith("_")]
    first = [node.body[0] for node in found]
    return {id(node.value) for node in first if isinstance(node, ast.Expr)}


def without_listings(text: str) -> str:
    """Return a docstring without its indented lines: listings of names or of code."""
    return "\n".join(line for line in cleandoc(text).splitlines() if not line.startswith("    "))


def text_of(node: ast.AST) -> str:
    """Return the text of a node, with a digit for each value of an f-string; empty if it is not a text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "0" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


if __name__ == "__main__":
    problems = findings()
    print(*problems, sep="\n")
    print(f"{len(problems)} places to rewrite; {len(ALLOWED)} allowed")
    sys.exit(bool(problems))
