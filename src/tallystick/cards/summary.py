"""A privacy card in the terminal: the answers of page 1 in ten lines, and the annex on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.cards.page import view_of

Facts = Mapping[str, Any]
WIDTH: Final = 11
"""Characters of the label in front of a line."""


def summary_lines(facts: Facts, file: str) -> list[str]:
    """Return the answers of a card: who, how strong, at what cost, how accurate, and what is not protected."""
    view = view_of(facts)
    promise = facts["promise"]
    first, second = view["odds"].figures
    labels = [label.rstrip(".").lower() for label, _ in view["not_protected"]]
    return [
        f"{view['title']}. {view['about']}",
        "",
        _line("protects", f"{view['who']}. {view['counts']}"),
        _line("guarantee", f"epsilon {view['epsilon']}. {view['strength_of']}"),
        _line(f"this {view['product']}", f"{promise['price']} (epsilon {view['epsilon_alone']}), {view['share']}"),
        *([_line("model", _model(view))] if view["coefficients"] else []),
        _line("accuracy", f"{view['accuracy']}. {view['accuracy_note']}"),
        *([_line("", view["too_noisy"])] if view["too_noisy"] else []),
        *(_line(name.split()[0].lower(), effect) for name, effect, _ in view["causes"][1:]),
        "",
        view["odds"].intro,
        f"{_caption(first)} {_caption(second)}",
        "",
        f"Not protected: {', '.join(labels)}.",
        *view["raises"],
        *view["without_approval"],
        f"Details: tallystick card show {file} --details",
        f"Check:   {facts['evidence']['verify'].replace('CARD', file)}",
    ]


def detail_lines(facts: Facts) -> list[str]:
    """Return the rest of a card: attacker, columns, noise, rules, statements and evidence."""
    view = view_of(facts)
    product = view["product"]
    return [
        *_titled(f"The most the attacker can do (up to the limit; this {product} alone)", _cells(view["attacker"])),
        *_titled("What is not protected", [f"{label} {text}" for label, text in view["not_protected"]]),
        *(_titled("Columns", _cells(view["columns"])) if view["columns"] else []),
        *(_titled("Sums from which the model is computed", _cells(view["sums"])) if view["sums"] else []),
        *_titled("Noise (measured; most one can change it; noise; share of cost)", _cells(view["parts"])),
        *_titled("Processing rules", view["rules"]),
        *_titled("Statements by the owner", _cells(view["statements"])),
        *_titled("Evidence", [f"{name}: {value}" for name, value in view["evidence_texts"]]),
    ]


def _model(view: Facts) -> str:
    """Return a linear model in one line."""
    return f"{view['target']} = {', '.join(f'{name} {value}' for name, value, _ in view['coefficients'])}"


def _line(label: str, text: str) -> str:
    """Return a label and its text; further lines of the text stand below its first one."""
    return f"{label:<{WIDTH}} {text}".replace("\n", f"\n{'':<{WIDTH}} ")


def _caption(figure: Any) -> str:
    return f"{figure.before}{figure.strong}{figure.after}{figure.number}{figure.end}"


def _cells(rows: Sequence[Sequence[Any]]) -> list[str]:
    return [
        f"{name}: {'; '.join('not stated' if cell is None else str(cell) for cell in cells)}" for name, *cells in rows
    ]


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)]
