"""Training that pays first: our batches, clipped sums, noise, and any optimizer of torch.

    plan = ts.learn.sgd_plan(epsilon=3, delta=1e-5, examples=60_000, batch=1024, epochs=8)
    trainer = ts.learn.torch.Trainer(
        model, loss, optimizer, plan=plan, clip=0.1, classes=10, account=clinic, why="digits"
    )
    for batch in trainer.batches((x, y)):       charges the plan before the first batch is drawn
        trainer.step(batch)
    trainer.privacy, trainer.receipt

``loss`` gives one number per example. What an optimizer makes of a noisy gradient (momentum, Adam, schedules, averages
of iterates) is post-processing and free. A saved model goes on under the same ``key``: the ledger knows which blocks of
steps are left, and hands none of them out twice.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from tallystick.accounting import check
from tallystick.digits import percent_up
from tallystick.errors import BudgetExceeded, InvalidInput, Refused, RunEnded
from tallystick.learn.torch.batches import Batch, Examples
from tallystick.learn.torch.correlated import CorrelatedNoise
from tallystick.learn.torch.denial import blocks_denied, plan_denied
from tallystick.learn.torch.engine import Engine, Loss
from tallystick.learn.torch.masks import secret_masks
from tallystick.learn.torch.noise import SLACK, SUMS, LatticeNoise
from tallystick.learn.torch.together import Team
from tallystick.learn.training import SgdPlan
from tallystick.ledger.training import EndedEarly
from tallystick.mechanisms.base import OnlyOne, UnrecordedRelease, unrecorded
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt
    from tallystick.ledger.training import Run

ONLY_OURS = (
    "a step takes the batch that trainer.batches(...) returned last, once. Another loader draws batches by "
    "another rule than the one that was charged for (shuffling is not Poisson sampling)"
)


ONE_EACH = "no units were given. It was not checked that each person has only one example"
GOES_ON = (
    "this run continues at step {}. Earlier steps trained the model that was saved then: load it, or their result is "
    "lost"
)
NOT_STEPPED = (
    "every batch must be stepped: leaving one out would tell what was in it. The charge of the run stays; steps that "
    "are left can be taken under the same key"
)
_NO_STEP = -2

_PLAN = "a plan made by ts.learn.sgd_plan(...); ts.last_iterate does not apply, because every step is published"


class UndeclaredClasses(UserWarning):
    """Targets are whole numbers and ``classes=`` is not declared, so that wrong labels go unnoticed."""


UNDECLARED = (
    "The targets are whole numbers, and classes= is not declared. An example whose label has no output counts as zero, "
    "and training does not say so. Declare the labels: Trainer(..., classes=10) for 0 to 9. Then try public or made-up "
    "rows: trainer.rehearse(rows)"
)


class Trainer(OnlyOne):
    """A private training run of one model.

    ``noise`` is ``"secure"`` (secure random numbers, rounded) or ``"exact"``. With ``pay="whole"`` the plan is
    charged before the first step. With ``pay="blocks"`` each block of ``block`` steps is charged before its first step,
    so that stopping early saves the rest; ``trainer.run.costs()`` compares both. Steps are always taken from the ledger
    a block at a time (default: a tenth of them), and the rest of a block is lost when a run crashes. Without an account
    nothing is recorded.

    ``classes`` declares the labels, as a number of classes or as a list: an example with another label has gradient
    zero. If an example has several labels, the label that the loss ignores (``ignore_index``, else -100) is allowed.
    ``slow`` allows models that the engine does not know. ``correlated`` noise, for cyclic plans, costs the same and
    mostly cancels in the sum of the steps. It keeps the noise of one turn in memory, which is one gradient per step.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: Any,
        *,
        plan: SgdPlan,
        clip: float,
        account: Account | None = None,
        why: str | None = None,
        key: str | None = None,
        noise: str = "secure",
        pay: str = "whole",
        block: int | None = None,
        slow: bool = False,
        correlated: bool = False,
        classes: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(plan, SgdPlan):
            raise InvalidInput("plan", type(plan).__name__, _PLAN)
        if pay not in ("whole", "blocks"):
            raise InvalidInput("pay", pay, "'whole' or 'blocks'")
        self.engine = Engine(model, loss, slow=slow, classes=classes)
        self._plan, self._clip = plan, check.positive("clip", clip)
        self.optimizer = self._checked(optimizer)
        size = sum(self.engine.sizes)
        self.noise: LatticeNoise | CorrelatedNoise = LatticeNoise(plan.noise_multiplier, self.clip, size, noise)
        if correlated:
            if plan.batches != "cyclic" or noise != "secure":
                raise InvalidInput("correlated", True, "a plan with cyclic batches, and secure noise")
            self.noise = CorrelatedNoise(plan.noise_multiplier, self.clip, size, plan.turn)
        self.team = Team()
        self.team.same_start(self.engine.parameters)
        if self.team.size > 1 and plan.batches == "fixed":
            raise InvalidInput("plan", "fixed batches", "poisson or cyclic batches in several processes")
        self.taken = 0
        self._last: Batch | None = None
        self._whose = ONE_EACH
        self._has_places = False  # several labels per example
        self._ended = f"all {plan.steps} steps of this plan are taken"
        self.run = self._paid_by(account, why, key, pay, block)

    def _checked(self, optimizer: Any) -> Any:
        others = (torch.optim.LBFGS, torch.optim.SparseAdam)
        if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, others):
            allowed = "a torch optimizer that needs one gradient per step, which is dense because noise is"
            raise InvalidInput("optimizer", type(optimizer).__name__, allowed)
        needed = [each.name for each in signature(optimizer.step).parameters.values() if each.default is each.empty]
        if needed:
            raise InvalidInput("optimizer", f"a step that needs {', '.join(needed)}", "an optimizer with step()")
        held = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        if held != set(self.engine.place):
            raise InvalidInput("optimizer", "other parameters", "exactly the trained parameters of this model")
        return optimizer

    def _paid_by(
        self, account: Account | None, why: str | None, key: str | None, pay: str, block: int | None
    ) -> Run | None:
        if account is None:
            for name, value in (("why", why), ("key", key), ("block", block)):
                if value is not None:
                    raise InvalidInput(name, value, "", problem=f"{name}= needs account=")
            return None
        if not callable(getattr(account, "training", None)):
            raise InvalidInput("account", account, "an account, as ledger.open(name, budget=...) gives")
        if why is None:
            raise InvalidInput("why", why, "a short reason, which the ledger keeps")
        delta = self.plan.delta if account.currency.rule.spends_delta else None
        return account.training(
            self.plan.step_loss, steps=self.plan.steps, why=why, block=block, whole=pay == "whole", key=key,
            delta=delta, turn=self.plan.turn, request=f"{self.plan}, clip {self.clip!r}, {self.noise.kind} noise",
        )  # fmt: skip

    @property
    def plan(self) -> SgdPlan:
        """The plan whose cost the run paid."""
        return self._plan

    @property
    def model(self) -> nn.Module:
        """The model that is trained."""
        return self.engine.model

    @property
    def loss(self) -> Loss:
        """The loss of the examples, one number for each."""
        return self.engine.loss

    @property
    def clip(self) -> float:
        """The norm to which every example's gradient is clipped; the noise was made for it."""
        return self._clip

    @property
    def privacy(self) -> PrivacyLoss:
        """The most this run can lose, every noisy gradient seen by everybody: the whole plan."""
        return self.plan.privacy

    @property
    def units_named(self) -> bool:
        """True if the examples of the last ``batches`` or ``fit`` had units or ids."""
        return self._whose != ONE_EACH

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts of the run for a card; all of them are public."""
        source = {"secure": "secure random numbers, rounded", "exact": "secure random numbers, exact"}
        wider = percent_up(SLACK[self.noise.kind])
        wide = f"{self.plan.noise_multiplier:.6g} times the clip, and {wider} more because sums are rounded"
        alike = ", correlated over a turn" if isinstance(self.noise, CorrelatedNoise) else ""
        unit = self.plan.protects.unit
        change = "replaced" if self.plan.protects.adjacency.value == "replace" else "added or removed"
        return [
            ("model", f"{type(self.model).__name__} with {sum(self.engine.sizes):,} trained parameters"),
            ("optimizer", type(self.optimizer).__name__),
            ("protected", f"one example{f', that is one {unit}' if unit else ''}, {change}"),
            ("examples", self._whose),
            ("labels", self._labels()),
            ("batches", f"{self.plan.batches}, drawn by tallystick: {self.plan}"),
            ("steps", f"{self.taken:,} of {self.plan.steps:,} taken here"),
            ("divisor", f"{self.plan.expected_batch:g}, declared"),
            ("clip", f"every example's gradient to norm {self.clip:g}"),
            ("noise", f"{wide}; {source[self.noise.kind]}{alike}"),
        ]

    def _labels(self) -> str:
        classes = self.engine.classes
        if classes is None:
            return "not declared"
        shown = ", ".join(map(str, classes[:20])) + (", ..." if len(classes) > 20 else "")
        ignored = f"; {self.engine.ignored} marks places that the loss ignores" if self._has_places else ""
        return f"declared: {shown}{ignored}; an example with another label counts as zero"

    @property
    def receipt(self) -> Receipt | None:
        """Proof of the first payment, which is the whole plan unless blocks are paid; ``run.receipts`` has all."""
        return self.run.receipts[0] if self.run is not None and self.run.receipts else None

    def batches(self, tensors: Any, *, units: Sequence[Any] | None = None, ids: Any = None) -> Iterator[Batch]:
        """The batches of the run, drawn as the plan says; the last tensor is the target.

        Checks the model on made-up examples of these shapes, charges, and only then looks at the examples. ``units``
        names the person of each example; the first example of each stays. Cyclic plans need ``ids``, whole numbers
        that an example keeps when others leave: they decide whose turn it is.
        """
        examples = Examples.of(tensors, units, ids)
        self._whose = ONE_EACH if units is None and ids is None else "one of each unit: the first one"
        examples.require(self.plan)
        target = examples.tensors[-1]
        self._has_places = target.dim() > 1
        if self.engine.classes is None and not (target.is_floating_point() or target.is_complex()):
            warnings.warn(UNDECLARED, UndeclaredClasses, stacklevel=2)
        self.engine.check(examples.tensors, self.plan.expected_batch)
        return self._batches(examples)

    def rehearse(self, rows: Any) -> None:
        """Try public or made-up rows, as many tensors as ``fit`` gets; raises everything that goes wrong with them.

        It charges nothing, takes no step and leaves the model as it is. Training itself never raises because of a row:
        a row on which the model or the loss raises, or with a label that is not declared, counts as zero there. Do not
        rehearse private rows: an error tells something about them.
        """
        examples = Examples.of(rows)
        with torch.random.fork_rng(devices=[]):
            self.engine.rehearse(examples.tensors, self.plan.expected_batch)

    def _batches(self, examples: Examples, source: Source = SYSTEM) -> Iterator[Batch]:
        if self.run is None and self.team.first:
            self._unrecorded()
        dealt: Examples | None = None
        previous = _NO_STEP
        while (step := self.team.decide(self._next)) is not None:
            if step != previous + 1 and isinstance(self.noise, CorrelatedNoise):
                self.noise.past.clear()  # steps that do not follow each other share no noise
            is_first = dealt is None
            previous, taken = step, self.taken
            try:
                if dealt is None:  # where everybody is in every batch, one order serves all of them
                    dealt = examples.shuffled(source) if self.plan.rate == 1.0 else examples
                self._last = dealt.batch(self.plan, step, source)
            except BaseException:
                self._leave(step)
                raise
            if is_first and step and not self.taken and self.team.first:
                warnings.warn(GOES_ON.format(step), stacklevel=2)
            try:
                yield self._last
            except GeneratorExit:  # the loop was left, by a break or by an error
                self._leave(step + 1)
                raise
            if self.taken == taken:
                self._leave(step + 1)
                raise Refused(NOT_STEPPED)
        if previous == _NO_STEP:
            raise self._untrained()

    def _untrained(self) -> RunEnded:
        """The error of a run that got no step at all."""
        if self.run is None or not self.run.stopped:
            return RunEnded(f"{self._ended}; nothing was trained. Try: a new Trainer, with another key if it has one")
        return blocks_denied(self.run, self.plan)

    def _leave(self, dealt: int) -> None:
        """Warn if the loop is left before the last batch of the plan was dealt."""
        if self.run is not None:
            self.run.leave()
        elif dealt < self.plan.steps:
            reason = "The loop ended first. Nothing is recorded, so a new Trainer starts again."
            warnings.warn(EndedEarly(dealt, self.plan.steps, reason), stacklevel=3)

    def _next(self) -> int | None:
        """The number of the next step, paid for; None when there is none."""
        self._mine()  # in a forked child the same steps would be drawn again
        if self.run is None:
            return self.taken if self.taken < self.plan.steps else None
        try:
            return self.run.start().step()
        except RunEnded as ended:
            self._ended = str(ended)
            return None
        except BudgetExceeded as problem:
            raise plan_denied(problem, self.run, self.plan) from None

    def step(self, batch: Batch) -> None:
        """Clip, sum, add noise, divide by the public expected batch, and let the optimizer step."""
        with self._mine():
            if batch is not self._last or batch is None:
                raise Refused(ONLY_OURS)
            self._last = None
        self.engine.require_unchanged()
        with secret_masks():
            total = self.engine.clipped_sum(batch.tensors, self.clip, SUMS[self.noise.kind])
        self.engine.require_nothing_kept()
        kind = self.engine.parameters[0].dtype
        noisy = self.team.released(total, lambda whole: self.noise.released(whole, self.plan.expected_batch, kind))
        for parameter, part in zip(self.engine.parameters, noisy.split(self.engine.sizes), strict=True):
            parameter.grad = part.view_as(parameter).to(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.taken += 1

    def fit(self, tensors: Any, *, units: Sequence[Any] | None = None, ids: Any = None, progress: bool = False) -> Self:
        """Take all steps that are left; ``progress`` shows how many and what was paid. Raises where none is left."""
        batches = self.batches(tensors, units=units, ids=ids)
        if progress:
            from tallystick.learn.torch.progress import shown

            batches = shown(batches, self.run, self.plan.steps - self.taken)
        for batch in batches:
            self.step(batch)
        return self

    def _unrecorded(self) -> None:
        if unrecorded.first():
            warnings.warn(
                "this training run is recorded nowhere, so runs can add up unnoticed; give Trainer account= and why= "
                "to charge it (said once per process)",
                UnrecordedRelease,
                stacklevel=4,
            )
