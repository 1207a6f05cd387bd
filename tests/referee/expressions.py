"""Expressions that are both a text for tallystick and a truth for the referee."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tallystick as ts
from referee import chains, worlds
from referee.leaves import LEAVES, STATEMENTS
from referee.worlds import Truth


@dataclass(frozen=True, eq=False)
class Expression:
    """``text`` can be pasted after ``import tallystick as ts``.

    ``state`` makes what the loss *says*, where that is more than any mechanism the referee knows does: the theorem's
    own pair.  Lower ends speak of it (docs/theory/certification.md, "What a lower end says").
    """

    text: str
    make: Callable[[], Truth]
    replaced: bool = False
    state: Callable[[], Truth] | None = None

    @cached_property
    def loss(self) -> ts.PrivacyLoss:
        return eval(self.text, {"ts": ts})

    @cached_property
    def truth(self) -> Truth:
        found = self.make()
        return found if self.state is None else replace(found, stated=self.stated)

    @cached_property
    def stated(self) -> Truth:
        return self.make() if self.state is None else self.state()

    def then(
        self, text: str, change: Callable[..., Truth], *others: Expression, replaced: bool | None = None
    ) -> Expression:
        """The same change to what mechanisms do and to what is stated."""
        every = (self, *others)
        told = any(part.state is not None for part in every)
        return Expression(
            text,
            lambda: change(*(part.truth for part in every)),
            self.replaced if replaced is None else replaced,
            (lambda: change(*(part.stated for part in every))) if told else None,
        )

    def times(self, count: int) -> Expression:
        return self.then(f"({count} * {self.text})", lambda truth: worlds.times(truth, count))

    def plus(self, other: Expression) -> Expression:
        return self.then(f"({self.text} + {other.text})", worlds.plus, other)

    def sampled(self, rate: float) -> Expression:
        return self.then(f"{self.text}.sampled(rate={rate!r})", lambda t: worlds.sampled(t, rate), replaced=False)

    def truncated(self, rate: float, most: int, population: int, cut: str) -> Expression:
        text = f"{self.text}.sampled(rate={rate!r}, largest={most}, population={population}, cut={cut!r})"
        return self.then(text, lambda truth: worlds.truncated(truth, rate, most, population, cut), replaced=False)

    def subset(self, batch: int, population: int) -> Expression:
        text = f"{self.text}.subset(batch={batch}, population={population})"
        return self.then(text, lambda truth: worlds.subset(truth, batch, population), replaced=True)

    def replacement(self, batch: int, population: int) -> Expression:
        text = f"{self.text}.subset(batch={batch}, population={population}, replacement=True)"
        return self.then(text, lambda truth: worlds.replacement(truth, batch, population), replaced=True)

    def tested(self, scale: float, delta: float) -> Expression:
        """It states the worse of the test's noise beside the release, and of delta alone."""
        return Expression(
            f"ts.propose_test_release({self.text}, scale={scale!r}, delta={delta!r})",
            lambda: worlds.tested(self.truth, delta),
            False,
            lambda: worlds.worst([worlds.plus(LEAVES["laplace"](scale=scale), self.stated), worlds.leak(delta)]),
        )

    def allocated(self, steps: int) -> Expression:
        text = f"{self.text}.allocated(steps={steps})"
        return self.then(text, lambda truth: worlds.allocated(truth, steps), replaced=False)

    def for_groups(self, size: int) -> Expression:
        return self.then(f"{self.text}.for_groups({size})", lambda truth: chains.grouped(truth, size))

    def as_replace(self) -> Expression:
        """A walk in a bounded domain knows more than its add/remove claim: there the chain is no real mechanism."""
        bounded = re.search(r"diameter=(?!None)", self.text) is not None

        def change(truth: Truth) -> Truth:
            found = chains.replaced(truth)
            return replace(found, variants=[((), ())]) if bounded else found

        return self.then(f"{self.text}.as_replace()", change, replaced=True)

    def worst(self, other: Expression) -> Expression:
        text = f"ts.worst({self.text}, {other.text})"
        return self.then(text, lambda *truths: worlds.worst(list(truths)), other, replaced=False)

    def selected(self, **runs: float) -> Expression:
        spoken = ", ".join(f"{name}={value!r}" for name, value in runs.items())
        law = worlds.Poisson(runs["poisson"]) if "poisson" in runs else worlds.NegativeBinomial(**runs)
        return self.then(f"ts.selected({self.text}, {spoken})", lambda truth: worlds.selected(truth, law))


def leaf(name: str, *given: Any, replaced: bool | None = None, **named: Any) -> Expression:
    """One constructor call; ``replaced`` says for which neighbours, None for the constructor's own choice."""
    spoken = [repr(g) for g in given] + [f"{k}={v!r}" for k, v in named.items()]
    if replaced is not None:
        spoken.append(f"adjacency={'replace' if replaced else 'add_remove'!r}")
    relation = name == "randomized_response" if replaced is None else replaced
    says = STATEMENTS.get(name)
    return Expression(
        f"ts.{name}({', '.join(spoken)})",
        lambda: LEAVES[name](*given, **named, replaced=relation),
        relation,
        (lambda: says(*given, **named, replaced=relation)) if says else None,
    )
