"""Expressions that are both a text for tallystick and a truth for the referee."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tallystick as ts
from referee import chains, worlds
from referee.leaves import LEAVES
from referee.worlds import Truth


@dataclass(frozen=True, eq=False)
class Expression:
    """``text`` can be pasted after ``import tallystick as ts``."""

    text: str
    make: Callable[[], Truth]
    replaced: bool = False

    @cached_property
    def loss(self) -> ts.PrivacyLoss:
        return eval(self.text, {"ts": ts})

    @cached_property
    def truth(self) -> Truth:
        return self.make()

    def times(self, count: int) -> Expression:
        return Expression(f"({count} * {self.text})", lambda: worlds.times(self.truth, count), self.replaced)

    def plus(self, other: Expression) -> Expression:
        return Expression(f"({self.text} + {other.text})", lambda: worlds.plus(self.truth, other.truth), self.replaced)

    def sampled(self, rate: float) -> Expression:
        return Expression(f"{self.text}.sampled(rate={rate!r})", lambda: worlds.sampled(self.truth, rate))

    def truncated(self, rate: float, most: int, population: int, cut: str) -> Expression:
        text = f"{self.text}.sampled(rate={rate!r}, largest={most}, population={population}, cut={cut!r})"
        return Expression(text, lambda: worlds.truncated(self.truth, rate, most, population, cut))

    def subset(self, batch: int, population: int) -> Expression:
        text = f"{self.text}.subset(batch={batch}, population={population})"
        return Expression(text, lambda: worlds.subset(self.truth, batch, population), True)

    def replacement(self, batch: int, population: int) -> Expression:
        text = f"{self.text}.subset(batch={batch}, population={population}, replacement=True)"
        return Expression(text, lambda: worlds.replacement(self.truth, batch, population), True)

    def tested(self, scale: float, delta: float) -> Expression:
        text = f"ts.propose_test_release({self.text}, scale={scale!r}, delta={delta!r})"
        return Expression(text, lambda: worlds.tested(self.truth, delta))

    def allocated(self, steps: int) -> Expression:
        return Expression(f"{self.text}.allocated(steps={steps})", lambda: worlds.allocated(self.truth, steps))

    def for_groups(self, size: int) -> Expression:
        return Expression(f"{self.text}.for_groups({size})", lambda: chains.grouped(self.truth, size), self.replaced)

    def as_replace(self) -> Expression:
        """A walk in a bounded domain knows more than its add/remove claim: there the chain is no real mechanism."""

        def truth() -> Truth:
            found = chains.replaced(self.truth)
            bounded = re.search(r"diameter=(?!None)", self.text) is not None
            return replace(found, variants=[((), ())]) if bounded else found

        return Expression(f"{self.text}.as_replace()", truth, True)

    def worst(self, other: Expression) -> Expression:
        return Expression(f"ts.worst({self.text}, {other.text})", lambda: worlds.worst([self.truth, other.truth]))

    def selected(self, **runs: float) -> Expression:
        spoken = ", ".join(f"{name}={value!r}" for name, value in runs.items())
        law = worlds.Poisson(runs["poisson"]) if "poisson" in runs else worlds.NegativeBinomial(**runs)
        text = f"ts.selected({self.text}, {spoken})"
        return Expression(text, lambda: worlds.selected(self.truth, law), self.replaced)


def leaf(name: str, *given: Any, replaced: bool | None = None, **named: Any) -> Expression:
    """One constructor call; ``replaced`` says for which neighbours, None for the constructor's own choice."""
    spoken = [repr(g) for g in given] + [f"{k}={v!r}" for k, v in named.items()]
    if replaced is not None:
        spoken.append(f"adjacency={'replace' if replaced else 'add_remove'!r}")
    relation = name == "randomized_response" if replaced is None else replaced
    return Expression(
        f"ts.{name}({', '.join(spoken)})", lambda: LEAVES[name](*given, **named, replaced=relation), relation
    )
