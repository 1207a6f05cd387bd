"""Ask an expression everything that can be read from it, and judge each answer.

Every question is put under a clock and with warnings turned into findings; the record says what was typed, so that it
can be pasted, what was printed, and the truth with its certainty.
"""

from __future__ import annotations

import math
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from scipy.optimize import brentq

import tallystick as ts
from referee import readouts
from referee.balls import ball, near, with_full_precision, with_usual_precision
from referee.expressions import Expression
from referee.readouts import UNDECIDED, Verdict
from referee.worlds import Orders, times
from tallystick.cards import meaning
from tallystick.certificate import checker

LONGEST = 5.0
PATIENCE = 6.0
ORACLE_SECONDS = 1.5  # for one number
ORACLE_PURSE = 5.0  # for all numbers of one expression; what is asked after that is undecided, and listed so
Judge = Callable[[Any], Verdict]
ORDERS = (1.0, 2.0, 1.5, 30.0, 100.0, 1e5, math.inf, 1 + 1e-6, 16.0, 3.0)
FAILURES = ("WRONG", "slow", "warned", "crashed", "referee")


@dataclass(frozen=True)
class Record:
    readout: str
    asked: str
    printed: str
    verdict: str
    truth: str = ""
    excess: float = 0.0
    seconds: float = 0.0


class TooLong(BaseException):
    """Not an Exception: nothing under test may swallow it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Seconds of processor time, so that a busy machine changes no verdict."""

    def ring(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def put(readout: str, asked: str, answer: Callable[[], Any], judges: dict[str, Judge]) -> list[Record]:
    """One question; an answer of several numbers has one judge for each."""
    started = time.process_time()

    def every(verdict: str, printed: str) -> list[Record]:
        spent = time.process_time() - started
        return [Record(name, asked, printed, verdict, seconds=spent) for name in judges]

    try:
        with warnings.catch_warnings(record=True) as caught, at_most(PATIENCE):
            warnings.simplefilter("always")
            with_usual_precision()
            value = answer()
    except TooLong:
        return every("slow", "nothing")
    except ts.errors.TallystickError as error:
        late = time.process_time() - started > LONGEST
        return every("slow" if late else "refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return every("crashed", f"{type(error).__name__}: {error}")
    finally:
        with_full_precision()
    if caught:
        return every("warned", f"{value!r}, and {caught[0].category.__name__}: {caught[0].message}")
    spent = time.process_time() - started
    if spent > LONGEST:
        return every("slow", repr(value))
    return [_judged(name, asked, value, judge, spent) for name, judge in judges.items()]


@dataclass
class Purse:
    """Processor seconds left to the oracles of the expression at hand; more patience decides more, and takes longer."""

    left: float = ORACLE_PURSE
    patience: float = 1.0

    def fill(self) -> None:
        self.left = ORACLE_PURSE * self.patience


PURSE = Purse()


def _judged(name: str, asked: str, value: Any, judge: Judge, spent: float) -> Record:
    started = time.process_time()
    try:
        if PURSE.left <= 0:
            raise TooLong
        with at_most(min(ORACLE_SECONDS * PURSE.patience, PURSE.left)):
            found = judge(value)
    except TooLong:
        found = Verdict(UNDECIDED, "the oracle takes too long")
        PURSE.left -= 1.0  # what takes too long once does so again
    except Exception as error:  # a fault of ours must not stop a campaign, and must not pass for a verdict
        found = Verdict("referee", f"{type(error).__name__}: {error}")
    PURSE.left -= time.process_time() - started
    return Record(name, asked, repr(value), found.verdict, found.truth, found.excess, spent)


# --------------------------------------------------------------------------------------------------- what to ask


@dataclass
class Asker:
    """The questions to one expression."""

    expression: Expression
    rng: random.Random

    @property
    def text(self) -> str:
        return self.expression.text

    @property
    def truth(self) -> Any:
        return self.expression.truth

    def deltas(self) -> list[float]:
        """Tiny, usual, large, and exactly the mass at infinity (a knife edge) where there is some."""
        picked = [self.rng.choice([0.0, 1e-300, 1e-30, 1e-12]), self.rng.choice([1e-5, 1e-3, 0.1, 0.5, 1 - 1e-12, 1.0])]
        edge = self._edge(self.truth.variants) or self._edge([self.truth.ceiling] if self.truth.ceiling else [])
        return [*picked, edge] if edge is not None else [*picked, 1e-6]

    def _edge(self, pairs: list[Orders]) -> float | None:
        for orders in pairs:
            for world in orders:
                masses = [part.side.infinite() for part in world]
                leaks = [(mass, part) for mass, part in zip(masses, world, strict=True) if mass > 0]
                if len(leaks) == 1 and leaks[0][1].count == 1 and near(leaks[0][0]) > 0:
                    return min(1.0, near(leaks[0][0]))
        return None

    def epsilons(self) -> list[float]:
        picked = [0.0, self.rng.choice([1e-9, 0.1, 0.5, 1.0, 3.0, 30.0, 800.0])]
        top = self._top()
        return [*picked, *([top, top * 0.999] if top is not None and top < 1e300 else [2.0])]

    def _top(self) -> float | None:
        total = 0.0
        for part in self.truth.variants[0][0]:
            most = part.side.top()
            if most is None:
                return None
            total += part.count * near(most)
        return max(total, 0.0)

    def losses(self) -> list[float]:
        """Where to compare two curves."""
        top = self._top()
        usual = [0.0, 1e-3, 0.1, 0.7, 2.0, 6.0, -0.5, -2.0]
        return usual + (
            [top * share for share in (0.3, 0.6, 0.9, 0.99, 0.999999)] if top is not None and top < 1e4 else []
        )

    # ---- the read-outs ----

    def epsilon(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for d in self.deltas():
            judge = {"epsilon": lambda v, d=d: readouts.epsilon_upper(self.truth, d, v)}
            out += put("epsilon", f"{self.text}.epsilon(delta={d!r})", lambda d=d: loss.epsilon(delta=d), judge)
        return out

    def delta(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for e in self.epsilons():
            judge = {"delta": lambda v, e=e: readouts.delta_upper(self.truth, e, v)}
            out += put("delta", f"{self.text}.delta(epsilon={e!r})", lambda e=e: loss.delta(epsilon=e), judge)
        return out

    def delta_directed(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for index, way in enumerate(("remove", "add")):
            for e in (self.rng.choice([-3.0, -1.0, -0.2, -1e-9]), self.rng.choice([0.0, 0.1, 1.0])):
                judge = {"delta.directed": lambda v, e=e, i=index: readouts.delta_directed(self.truth, i, e, v)}
                asked = f"{self.text}.delta(epsilon={e!r}, direction={way!r})"
                out += put("delta", asked, lambda e=e, way=way: loss.delta(epsilon=e, direction=way), judge)
        return out

    def bayes_risk(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for prior in (self.rng.choice([0.0, 1e-12, 0.01, 0.25]), self.rng.choice([0.5, 0.7, 1 - 1e-9, 1.0])):
            judge = {"bayes_risk": lambda v, p=prior: readouts.bayes_lower(self.truth, p, v)}
            out += put(
                "bayes_risk",
                f"{self.text}.bayes_risk(prior={prior!r})",
                lambda p=prior: loss.bayes_risk(prior=p),
                judge,
            )
        return out

    def epsilon_bounds(self) -> list[Record]:
        return self._epsilon_bounds(self.deltas(), "")

    def epsilon_bounds_rigorous(self) -> list[Record]:
        return self._epsilon_bounds(self.deltas(), ", rigorous=True")

    def _epsilon_bounds(self, deltas: list[float], more: str) -> list[Record]:
        loss, out = self.expression.loss, []
        name = "epsilon_bounds_rigorous" if more else "epsilon_bounds"
        for d in deltas:
            judges = {
                f"{name}.lower": lambda v, d=d: readouts.epsilon_lower(self.truth, d, v.lower),
                f"{name}.upper": lambda v, d=d: readouts.epsilon_upper(self.truth, d, v.upper),
            }
            asked = f"{self.text}.epsilon_bounds(delta={d!r}{more})"
            out += put(name, asked, lambda d=d: loss.epsilon_bounds(delta=d, rigorous=bool(more)), judges)
        return out

    def certificate(self) -> list[Record]:
        """A claim that the independent checker proves, and one more witness: no bound from below may be above it."""
        loss, out = self.expression.loss, []
        for d in self.deltas()[1:]:
            judge = {"certificate": lambda proof, d=d: self._certified(proof, d)}
            asked = f"{self.text}.certificate(delta={d!r})"
            out += put("certificate", asked, lambda d=d: loss.certificate(delta=d), judge)
        return out

    def _certified(self, proof: Any, d: float) -> Verdict:
        checker.check(proof.text)  # what it does not prove is an error, and a finding
        lower = self.expression.loss.epsilon_bounds(delta=d).lower
        if lower > proof.epsilon:
            return Verdict(readouts.WRONG, f"a lower bound of {lower!r} is above what is proved")
        return readouts.epsilon_upper(self.truth, d, proof.epsilon)

    def delta_bounds(self) -> list[Record]:
        return self._delta_bounds(self.epsilons(), "")

    def delta_bounds_rigorous(self) -> list[Record]:
        return self._delta_bounds(self.epsilons()[1:3], ", rigorous=True")

    def _delta_bounds(self, epsilons: list[float], more: str) -> list[Record]:
        loss, out = self.expression.loss, []
        name = "delta_bounds_rigorous" if more else "delta_bounds"
        for e in epsilons:
            judges = {
                f"{name}.lower": lambda v, e=e: readouts.delta_lower(self.truth, e, v.lower),
                f"{name}.upper": lambda v, e=e: readouts.delta_upper(self.truth, e, v.upper),
            }
            asked = f"{self.text}.delta_bounds(epsilon={e!r}{more})"
            out += put(name, asked, lambda e=e: loss.delta_bounds(epsilon=e, rigorous=bool(more)), judges)
        return out

    def tradeoff(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for alpha in (self.rng.choice([0.0, 1e-300, 1e-12, 1e-3]), self.rng.choice([0.05, 0.5, 0.9, 1 - 1e-12, 1.0])):
            judge = {"tradeoff": lambda v, x=alpha: readouts.tradeoff_lower(self.truth, x, v)}
            out += put(
                "tradeoff", f"{self.text}.tradeoff(alpha={alpha!r})", lambda x=alpha: loss.tradeoff(alpha=x), judge
            )
        return out

    def power(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for alpha in (self.rng.choice([0.0, 1e-6, 0.01, 0.5]), self.rng.random()):
            judge = {"power": lambda v, x=alpha: readouts.power_upper(self.truth, x, v)}
            out += put("power", f"{self.text}.power(alpha={alpha!r})", lambda x=alpha: loss.power(alpha=x), judge)
        return out

    def renyi(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for order in self.rng.sample(ORDERS, 3):
            text = "float('inf')" if math.isinf(order) else repr(order)
            judge = {"renyi": lambda v, n=order: readouts.renyi_upper(self.truth, n, v)}
            out += put("renyi", f"{self.text}.renyi(order={text})", lambda n=order: loss.renyi(order=n), judge)
        return out

    def kl(self) -> list[Record]:
        judge = {"kl": lambda v: readouts.renyi_upper(self.truth, 1.0, v)}
        return put("kl", f"{self.text}.kl()", lambda: self.expression.loss.kl(), judge)

    def total_variation(self) -> list[Record]:
        judge = {"total_variation": lambda v: readouts.delta_upper(self.truth, 0.0, v)}
        return put(
            "total_variation", f"{self.text}.total_variation()", lambda: self.expression.loss.total_variation(), judge
        )

    def posterior(self) -> list[Record]:
        loss, out = self.expression.loss, []
        for prior, d in (
            (self.rng.choice([1e-12, 0.01, 0.5, 0.9]), 0.0),
            (self.rng.choice([0.01, 0.3]), self.rng.choice([1e-6, 0.01, 0.3])),
        ):
            judge = {"posterior": lambda v, p=prior, d=d: readouts.posterior_upper(self.truth, p, d, v)}
            asked = f"{self.text}.posterior(prior={prior!r}, delta={d!r})"
            out += put("posterior", asked, lambda p=prior, d=d: loss.posterior(prior=p, delta=d), judge)
        return out

    def gdp_bound(self) -> list[Record]:
        judge = {"gdp_bound": lambda v: readouts.gaussian_dominates(self.truth, v, self.losses())}
        return put("gdp_bound", f"{self.text}.gdp_bound()", lambda: self.expression.loss.gdp_bound(), judge)

    # ---- the loss as a random variable ----

    def _variable(self, index: int) -> tuple[str, Callable[[], Any]]:
        name = ("REMOVE", "ADD")[index]
        return f"{self.text}.privacy_loss(ts.Direction.{name})", lambda: self.expression.loss.privacy_loss(
            ts.Direction[name]
        )

    def _points(self) -> list[float]:
        top = self._top()
        return [
            0.0,
            self.rng.choice([-1.0, -0.1, 0.25, 0.5, 1.0, 2.0]),
            *([top] if top is not None and top < 1e300 else []),
        ]

    def cdf(self) -> list[Record]:
        text, make = self._variable(which := self.rng.randrange(2))
        out = []
        for x in self._points():
            judge = {"privacy_loss.cdf": lambda v, x=x: readouts.cdf_near(self.truth, which, x, v)}
            out += put("cdf", f"{text}.cdf({x!r})", lambda x=x: make().cdf(x), judge)
        return out

    def quantile(self) -> list[Record]:
        text, make = self._variable(which := self.rng.randrange(2))
        out = []
        for share in self.rng.sample([0.0, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0], 2):
            judge = {"privacy_loss.quantile": lambda v, s=share: readouts.quantile_near(self.truth, which, s, v)}
            out += put("quantile", f"{text}.quantile({share!r})", lambda s=share: make().quantile(s), judge)
        return out

    def moments(self) -> list[Record]:
        out = []
        for which in (0, 1):
            text, make = self._variable(which)
            for index, name in enumerate(("mean", "variance")):
                judge = {f"privacy_loss.{name}": lambda v, i=index, w=which: readouts.moment_near(self.truth, w, i, v)}
                out += put(name, f"{text}.{name}", lambda name=name, make=make: getattr(make(), name), judge)
        return out

    def characteristic_function(self) -> list[Record]:
        text, make = self._variable(which := self.rng.randrange(2))
        name, out = "privacy_loss.characteristic_function", []
        for t in self.rng.sample([0.0, 0.5, 1.0, 3.0], 2):
            judge = {name: lambda v, t=t: readouts.transform_near(self.truth, which, t, v)}
            asked = f"{text}.characteristic_function({t!r})"
            out += put(name, asked, lambda t=t: make().characteristic_function(t), judge)
        return out

    # ---- requirements ----

    def order(self) -> list[Record]:
        """A goal a little below the truth must not be met; the answer is judged by the curves."""
        out = []
        relation = ", adjacency='replace'" if self.expression.replaced else ""
        for d in (1e-6, 0.01):
            level = self._true_epsilon(d)
            if level is None or not 0 < level < 1e6:
                continue
            for factor in (1 - 1e-3, 1 - 1e-9, 1.01):
                e = level * factor
                asked = f"{self.text} <= ts.approx_dp(epsilon={e!r}, delta={d!r}{relation})"
                out += put(
                    "order", asked, lambda a=asked: eval(a, {"ts": ts}), {"<=": lambda v, e=e, d=d: self._met(v, e, d)}
                )
        for mu in (self.rng.choice([0.1, 0.5, 1.0, 3.0]),):
            asked = f"{self.text} <= ts.gdp(mu={mu!r}{relation})"
            judge = {
                "<=": lambda v, mu=mu: (
                    readouts.gaussian_dominates(self.truth, mu, self.losses()) if v else Verdict("ok")
                )
            }
            out += put("order", asked, lambda a=asked: eval(a, {"ts": ts}), judge)
        return out

    def _met(self, answered: bool, e: float, d: float) -> Verdict:
        if not answered:
            return Verdict("ok", "not certified")
        return readouts.epsilon_upper(self.truth, d, e)

    def _true_epsilon(self, d: float) -> float | None:
        """Roughly, from the referee's own profile."""
        started = time.process_time()
        try:
            if PURSE.left <= 0:
                return None
            with at_most(min(ORACLE_SECONDS * PURSE.patience, PURSE.left)):
                return self._root(d)
        except TooLong:
            return None
        finally:
            PURSE.left -= time.process_time() - started

    def _root(self, d: float) -> float | None:
        low = self.truth.low()
        if not low:
            return None

        def above(e: float) -> float:
            return near(readouts.profile_of(low, ball(e).exp())) - d

        end = 1.0
        while above(end) > 0:
            end *= 4
            if end > 1e7:
                return None
        return float(brentq(above, 0.0, end, xtol=1e-14 * end)) if above(0.0) > 0 else 0.0

    def calibrate(self) -> list[Record]:
        """The largest number of releases that meets a goal; judged as a composition of that many."""
        level = self._true_epsilon(1e-3)
        level = 1.0 if level is None else max(level, 1e-6)  # a goal that nothing meets is refused
        relation = ", adjacency='replace'" if self.expression.replaced else ""
        out = []
        for factor in (1.2, self.rng.choice([1.7, 2.2])):
            e = level * factor
            goal = f"ts.approx_dp(epsilon={e!r}, delta=1e-3{relation})"
            asked = f"ts.calibrate(lambda n: n * {self.text}, {goal}, integer=True, high=2)"

            def judge(n: Any, e: float = e) -> Verdict:
                return readouts.epsilon_upper(times(self.truth, int(n)), 1e-3, e)

            out += put("calibrate", asked, lambda a=asked: eval(a, {"ts": ts}), {"calibrate": judge})
        return out

    # ---- what is written elsewhere ----

    def price(self) -> list[Record]:
        out = []
        for kind, d in (
            ("zcdp", None),
            ("zcdp", 1e-6),
            ("approx", 1e-6),
            ("approx", None),
            ("gdp", None),
            ("rdp@8", None),
        ):
            account = accounts(self.expression.replaced)[kind]
            asked = f"ts.Ledger(place).open('a', budget={BUDGETS[kind]}).price({self.text}, delta={d!r})"

            def judge(amount: Any, kind: str = kind) -> Verdict:
                return self._price(kind, amount)

            out += put(
                "price",
                asked,
                lambda a=account, d=d: a.price(self.expression.loss, delta=d),
                {f"price.{kind.partition('@')[0]}": judge},
            )
        return out

    def _price(self, kind: str, amount: Any) -> Verdict:
        first, d = ball(Fraction(amount.first)), ball(Fraction(amount.delta))
        slack = 1 + ball(2.0**-50)  # parameters are read as written: 0.1 is a tenth, which no double is
        if kind == "zcdp":
            return readouts.zcdp_holds(self.truth, first * slack, d * slack, [1.0, 2.0, 8.0, 100.0], self.losses())
        if kind == "approx":
            worst = readouts.profile_of(self.truth.low(), (first * slack).exp())
            if worst is None:
                return Verdict(UNDECIDED)
            wrong = worst > d * slack and worst > ball(1e-60)
            return Verdict("WRONG" if wrong else "ok", f"H is {readouts.shown(worst)}")
        if kind == "gdp":
            root = (first * slack).sqrt()
            return readouts.gaussian_dominates(self.truth, math.nextafter(near(root), math.inf), self.losses())
        return readouts.renyi_upper(self.truth, 8.0, near(first * slack))

    def meaning(self) -> list[Record]:
        t = self.truth
        judges: dict[str, Judge] = {
            "meaning.epsilon": lambda m: readouts.epsilon_upper(t, m.delta, m.epsilon),
            "meaning.false_alarm": lambda m: readouts.even_handed(t, m.false_alarm, m.hit),
            "meaning.guess_accuracy": lambda m: readouts.delta_upper(
                t, 0.0, min(1.0, 2 * m.guess_accuracy - 1 + 2.0**-52)
            ),
            "meaning.hit_rates": lambda m: readouts.power_upper(t, 0.01, m.hit_rates[0.01]),
            "meaning.beliefs": lambda m: readouts.posterior_upper(t, 0.01, m.exceptions, m.beliefs[0.01]),
            "meaning.odds_factor": lambda m: (
                readouts.at_least(m.odds_factor, ball(m.epsilon).exp(), False) if m.epsilon < 700 else Verdict("ok")
            ),
        }
        asked = f"tallystick.cards.meaning({self.text}"
        usual = put("meaning", f"{asked})", lambda: meaning(self.expression.loss), judges)
        other = put("meaning", f"{asked}, delta=1e-3)", lambda: meaning(self.expression.loss, delta=1e-3), judges)
        return usual + other


READOUTS: tuple[str, ...] = (
    "epsilon", "delta", "epsilon_bounds", "delta_bounds", "epsilon_bounds_rigorous", "delta_bounds_rigorous",
    "certificate", "tradeoff", "power", "renyi", "kl", "total_variation", "posterior", "gdp_bound",
    "cdf", "quantile", "moments", "characteristic_function", "order", "calibrate", "price", "meaning",
    "delta_directed", "bayes_risk",
)  # fmt: skip

BUDGETS = {
    "zcdp": "ts.zcdp(rho=1, delta=.1)",
    "approx": "ts.approx_dp(epsilon=1, delta=.1)",
    "gdp": "ts.gdp(mu=1)",
    "rdp@8": "ts.renyi_dp({8: 1})",
}


@lru_cache(maxsize=2)
def accounts(replaced: bool) -> dict[str, Any]:
    """One account in each currency, in a ledger of their own; prices are asked, nothing is charged."""
    folder = Path(tempfile.mkdtemp(prefix="referee-"))
    book = ts.Ledger(folder / "prices.db", config=folder)
    relation = "replace" if replaced else "add_remove"
    made = {
        "zcdp": ts.zcdp(rho=1, delta=0.01, adjacency=relation),
        "approx": ts.approx_dp(epsilon=1, delta=0.01, adjacency=relation),
        "gdp": ts.gdp(mu=1, adjacency=relation),
        "rdp@8": ts.renyi_dp({8: 1}, adjacency=relation),
    }
    return {kind: book.open(kind, budget=budget) for kind, budget in made.items()}


def ask_all(expression: Expression, seed: str, wanted: tuple[str, ...] = READOUTS) -> list[Record]:
    """Every wanted read-out; where the loss itself cannot be made, that is the one finding."""
    PURSE.fill()  # first: an empty purse would leave the loss itself, and all after it, undecided
    built = put("constructed", expression.text, lambda: expression.loss, {"constructed": lambda _: Verdict("ok")})
    if built[0].verdict != "ok":
        return [Record(name, r.asked, r.printed, r.verdict, seconds=r.seconds) for r in built for name in wanted]
    out: list[Record] = []
    for name in random.Random(seed).sample(wanted, len(wanted)):  # no question is always the one for an empty purse
        out += getattr(Asker(expression, random.Random(f"{seed}/{name}")), name)()
    return out
