"""Clipped sums of gradients: the norm of every example's gradient without writing all of them out.

Hooks see the input of each layer and the place of its output in torch's graph; one backward pass to those places gives
the gradients of the outputs, and no gradient of a weight is ever computed for the batch as a whole. What each layer
makes of them is in ``layers``.

A model is judged before it sees data: by name (``refuse``) and by number (``Engine.check``: four made-up examples
against one backward pass each), and one that has changed since is refused. An example whose gradient is not finite, or
on which the model or the loss raises, counts as zero: a rule per example, so that no example can stop or poison a
step.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from tallystick.errors import InvalidInput, Refused
from tallystick.learn import made_up_rows
from tallystick.learn.torch.gradients import Gradients, Room, Written, joined
from tallystick.learn.torch.interrupts import OnlySignalsEnd
from tallystick.learn.torch.layers import TABLE

Loss = Callable[[Any, Tensor], Tensor]
_Call = tuple[nn.Module, Tensor, int, Any]  # a layer, its input and its version, the place of its output
_State = tuple[list[Any], list[Any]]  # what a model is made of and keeps; how its modules run

WITHIN = 1.0 - 2.0**-14
"""A clipped gradient ends below the clip by this factor, so that rounding does not lift it above."""

CHECKED = 4
LABELS = 2  # the try whose whole numbers are 0 and 1, as labels are that are not declared
IGNORED = -100
"""The ignore_index of torch's losses."""
CROWD, UNLIKE = 160, 9  # examples of a larger check, and those of them that are unlike the rest
TOLERANCE = 1e-4
CROWDED = 1e-2  # of a gradient that may be nearly nothing but rounding
COARSE = 0.1  # under autocast, where torch itself rounds gradients to 8 bits on the way
_CACHE = 12 << 20  # bytes of one layer's input in a micro-batch: what stays in the cache of most machines
_ROOM = 52 << 20  # bytes of written-out gradients in a micro-batch

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

ONE_FOR_ALL = "The loss returns one number for the batch. Use {}(reduction='none')."
PER_EXAMPLE = (
    "The loss returns a result of shape {shape}. It must return one number per example: shape ({rows},). For several "
    "numbers per example use their mean: lambda out, target: loss(out, target).flatten(1).mean(1)"
)


class Engine:
    """Clipped sums of per-example gradients of ``loss(model(*inputs), target)``; ``slow`` uses torch's ``vmap``.

    ``classes`` declares the labels. An example with another label counts as zero. Where an example has several labels,
    places with the ``ignore_index`` of the loss (-100, as in torch, if it names none) are left to the loss.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, *, slow: bool = False, classes: int | Sequence[int] | None = None
    ) -> None:
        refuse(model, loss, slow=slow)
        self.classes = declared_labels(classes)
        if slow:
            warnings.warn("slow=True computes gradients with vmap: right, and many times slower", stacklevel=2)
        self.model, self.loss, self.slow = model, loss, slow
        self.parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.place = {id(p): i for i, p in enumerate(self.parameters)}
        self.layers = [m for m in model.modules() if any(id(p) in self.place for p in m.parameters(recurse=False))]
        self.room, self.micro = Room(), 64
        self._widest = 1  # bytes of the widest input of a layer, for one example
        self._coarse = False  # whether forward turns autocast on
        self._checked: _State | None = None
        self._made_up: tuple[list[Tensor], float] = ([], 1.0)
        self._try = 0  # the made-up numbers on which the model runs

    @property
    def sizes(self) -> list[int]:
        """Return how many numbers each trained parameter has."""
        return [p.numel() for p in self.parameters]

    def clipped_sum(self, tensors: Sequence[Tensor], clip: float, kind: torch.dtype = torch.float64) -> Tensor:
        """The sum over examples of min(1, clip / norm) times gradient, all trained parameters in a row.

        ``kind`` is the coarsest precision in which examples may be added up. Micro-batches are added in doubles.
        """
        device = self.parameters[0].device
        if any(p.dtype == torch.float64 for p in self.parameters) or not _single_is_single(device):
            kind = torch.float64
        total: Tensor | None = None
        for start in range(0, len(tensors[0]), self.micro):
            part = self._sum([t[start : start + self.micro] for t in tensors], clip, kind)
            total = part if total is None else total.double().add_(part)
        return torch.zeros(sum(self.sizes), dtype=kind, device=device) if total is None else total

    def _sum(self, part: list[Tensor], clip: float, kind: torch.dtype) -> Tensor:
        device = part[0].device
        out = self.undeclared(part[-1])
        try:
            part = self._replaced(part, out)
            found = self.gradients(part)
        except Exception:  # because of an example, as the check has shown that the model runs: find it and go on
            try:
                raising = self._raising(part)
                out, part = out | raising, self._replaced(part, raising)
                found = self.gradients(part)
            except Exception:  # not because of one example: the model mixes them in a way the check did not see
                return torch.zeros(sum(self.sizes), dtype=kind, device=device)
        with _no_autocast(device):
            squares = torch.stack([g.squares() for g in found.values()]).sum(0)
            out |= ~torch.isfinite(squares)
            weights = (clip * WITHIN / squares.sqrt().clamp(min=clip)).masked_fill(out, 0.0).to(kind)
            if bool(out.any()):
                found = {i: gradients.without(out) for i, gradients in found.items()}
            total = torch.empty(sum(self.sizes), dtype=kind, device=device)  # now: backward needed its room
            for i, place in reversed(list(enumerate(total.split(self.sizes)))):
                if i in found:
                    found.pop(i).sum_into(place, weights)  # and forget it
                else:
                    place.zero_()
        return total

    @property
    def ignored(self) -> int:
        """Label of the places that the loss leaves out, such as padding."""
        index = getattr(self.loss, "ignore_index", IGNORED)
        return index if isinstance(index, int) else IGNORED

    def undeclared(self, target: Tensor) -> Tensor:
        """True for every example that has a label outside the declared classes."""
        if self.classes is None:
            return torch.zeros(len(target), dtype=torch.bool, device=target.device)
        kind = torch.float64 if target.is_floating_point() else torch.int64
        ignored = () if target.dim() == 1 else (self.ignored,)
        labels = torch.tensor((*self.classes, *ignored), dtype=kind, device=target.device)
        outside = ~torch.isin(target.to(kind), labels)
        return outside if outside.dim() == 1 else outside.flatten(1).any(1)

    def _raising(self, part: list[Tensor]) -> Tensor:
        """True for every example on which the model or the loss raises alone."""
        raising = []
        for i in range(len(part[0])):
            try:
                self.gradients([t[i : i + 1] for t in part])
                raising.append(False)
            except Exception:
                raising.append(True)
        return torch.tensor(raising, device=part[0].device)

    def _replaced(self, part: list[Tensor], out: Tensor) -> list[Tensor]:
        """Return the examples with a made-up one in the marked places, so that all others stay where they are."""
        if not bool(out.any()):
            return part
        made_up = self._examples_like(part, 1)
        pairs = zip(part, made_up, strict=True)
        return [torch.where(out.view(-1, *[1] * (t.dim() - 1)), one, t) for t, one in pairs]

    def _examples_like(self, tensors: Sequence[Tensor], count: int) -> list[Tensor]:
        """Made-up examples; their labels are the declared ones, and the largest comes first."""
        rows = max(count, CHECKED)
        made_up = [_like(t, self._try, rows)[:count] for t in tensors]
        target = tensors[-1]
        if not target.is_floating_point():
            made_up[-1] = _like(target, LABELS, rows)[:count]
        if self.classes is not None:
            labels = torch.tensor([max(self.classes), *self.classes], device=target.device)
            shape = (count, *target.shape[1:])
            places = torch.arange(math.prod(shape), device=target.device) % len(labels)
            made_up[-1] = labels[places].reshape(shape).to(target)
        return made_up

    def gradients(self, tensors: Sequence[Tensor]) -> dict[int, Gradients]:
        """Each example's gradient, for every trained parameter that was used."""
        with OnlySignalsEnd():
            return self._by_vmap(tensors) if self.slow else self._by_hooks(tensors)

    def _by_hooks(self, tensors: Sequence[Tensor]) -> dict[int, Gradients]:
        calls: list[_Call] = []

        def seen(layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], out: Tensor) -> None:
            first = given[0] if given else next(iter(named.values()))
            calls.append((layer, first.detach(), first._version, torch.autograd.graph.get_gradient_edge(out)))

        hooks = [layer.register_forward_hook(seen, with_kwargs=True) for layer in self.layers]
        try:
            losses = self._losses(tensors)
        finally:
            for hook in hooks:
                hook.remove()
        slopes = torch.autograd.grad(losses.sum(), [edge for *_, edge in calls], allow_unused=True)
        with torch.no_grad(), _no_autocast(losses.device):
            return self._by_layer(calls, slopes, len(losses))

    def _by_layer(self, calls: list[_Call], slopes: Sequence[Tensor | None], examples: int) -> dict[int, Gradients]:
        self.room.clear()
        uses: dict[int, list[Gradients]] = {}
        for (layer, given, version, _), slope in zip(calls, slopes, strict=True):
            if slope is None:
                continue
            if given._version != version:
                raise Refused(
                    f"the input of {type(layer).__name__} was changed in place afterwards. Try: no in-place "
                    "operation on it"
                )
            if given.dim() == 0 or len(given) != examples:
                raise Refused(_no_example_axis(layer, given))
            self._widest = max(self._widest, _bytes(layer, given[0]))
            given = given.to(layer.weight.dtype) if given.is_floating_point() else given  # autocast mixes types
            for parameter, gradients in TABLE[type(layer)](layer, given, slope.to(layer.weight.dtype), self.room):
                if parameter is not None and id(parameter) in self.place:
                    uses.setdefault(self.place[id(parameter)], []).append(gradients)
        return {i: joined(found) for i, found in uses.items()}

    def _losses(self, tensors: Sequence[Tensor]) -> Tensor:
        with torch.enable_grad():
            losses = self.loss(self.model(*tensors[:-1]), tensors[-1])
        if not isinstance(losses, Tensor) or losses.shape != (len(tensors[0]),):
            shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            name = type(self.loss).__name__ if isinstance(self.loss, nn.Module) else "a loss with "
            problem = PER_EXAMPLE.format(shape=shape, rows=len(tensors[0])) if shape else ONE_FOR_ALL.format(name)
            raise InvalidInput("loss", f"a result of shape {shape}", "", problem=problem)
        return losses

    def _by_vmap(self, tensors: Sequence[Tensor]) -> dict[int, Gradients]:
        named = dict(self.model.named_parameters())
        trained = {name: p.detach() for name, p in named.items() if p.requires_grad}

        def one(values: dict[str, Tensor], *example: Tensor) -> Tensor:
            alone = [t.unsqueeze(0) for t in example]
            found = self.loss(torch.func.functional_call(self.model, values, tuple(alone[:-1])), alone[-1])
            return found.sum()

        axes = (None, *[0] * len(tensors))
        found = torch.func.vmap(torch.func.grad(one), in_dims=axes, randomness="different")(trained, *tensors)
        return {self.place[id(named[name])]: Written(g.flatten(1)) for name, g in found.items()}

    def check(self, tensors: Sequence[Tensor], batch: float = 1024) -> None:
        """Compare with one backward pass per example, on made-up examples like these; looks at shapes and types only.

        The copy that is checked has other weights, so that no layer hides behind a zero; also sets ``micro``,
        for batches of a size that is expected: a public number, because the sizes of micro-batches move roundings.
        """
        refuse(self.model, self.loss, slow=self.slow)  # again: it may have changed since
        twin = self._twin()
        before = [b.clone() for b in twin.model.buffers()]
        made_up, found, alone = self._first_that_runs(twin, tensors)
        if any(not torch.equal(old, new) for old, new in zip(before, twin.model.buffers(), strict=True)):
            raise Refused("the model keeps something of its examples in a buffer. Try: layers without running state")
        twin._compare(found, alone)
        self.micro = twin._fitting(found, batch)
        with _no_autocast(made_up[0].device):
            self._check_in_a_crowd(self._examples_like(tensors, max(CHECKED, min(self.micro, CROWD))))
        self._checked, self._made_up = self._state(), (made_up, batch)

    def _first_that_runs(
        self, twin: Engine, tensors: Sequence[Tensor]
    ) -> tuple[list[Tensor], dict[int, Gradients], list[list[Tensor]]]:
        """Made-up examples on which the model runs, with their gradients together and one at a time.

        Raises ``Refused`` with the first problem if the model runs on no try.
        """
        problems = []
        for attempt in range(len(made_up_rows.TRIES)):
            self._try = twin._try = attempt
            made_up = self._examples_like(tensors, CHECKED)
            try:
                twin._coarse = self._coarse = twin._turns_autocast_on(made_up)  # and lets the model speak for itself
                # an axis that is not the example has one length
                twin.gradients(self._examples_like(tensors, CHECKED + 1))
                found = twin.gradients(made_up)
                twin.undeclared(made_up[-1])
                alone = [twin._alone([t[i : i + 1] for t in made_up]) for i in range(CHECKED)]
            except (InvalidInput, Refused):
                raise
            except Exception as problem:
                problems.append(f"It says {type(problem).__name__}: {problem}"[:300])
                continue
            if all(bool(torch.isfinite(torch.cat(each)).all()) for each in alone):
                return made_up, found, alone
            problems.append("The gradient of a single example is not finite")
        raise Refused(
            "the model does not run on four made-up examples of these shapes and types (whole numbers from 2 to 9, "
            f"from 1 to 4, or 0 and 1; others normal, or between 0 and 1). {problems[0]}"
        )

    def _turns_autocast_on(self, tensors: Sequence[Tensor]) -> bool:
        """True if a module runs under autocast; raises what the model or the loss raises."""
        seen: list[bool] = []

        def look(*_: Any) -> None:
            seen.append(torch.is_autocast_enabled(tensors[0].device.type))

        hooks = [module.register_forward_hook(look) for module in self.model.modules()]
        try:
            self._losses(tensors)
        finally:
            for hook in hooks:
                hook.remove()
        return any(seen)

    def rehearse(self, tensors: Sequence[Tensor], batch: float = 1024) -> None:
        """Raise for every row that training would count as zero; for rows that are public or made up."""
        if len(tensors[0]) == 0:
            raise InvalidInput("rows", "0 rows", "at least one row")
        outside = self.undeclared(tensors[-1])
        if bool(outside.any()):
            row = int(outside.nonzero()[0])
            labels = tensors[-1][row].flatten()[:8].tolist()
            raise InvalidInput("rows", f"labels {labels} in row {row}", f"labels from the declared {self.classes}")
        self.check(tensors, batch)
        for row in range(len(tensors[0])):
            self._rehearse_one(row, [t[row : row + 1] for t in tensors])
        self._twin()._compare_in_a_crowd([t[:CROWD] for t in tensors])

    def _rehearse_one(self, row: int, example: list[Tensor]) -> None:
        try:
            found = self.gradients(example)
        except (InvalidInput, Refused):
            raise
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"[:300]
            raise Refused(
                f"the model or the loss raises on row {row}, so it would count as zero. It says {said}"
            ) from None
        if not all(bool(torch.isfinite(g.squares()).all()) for g in found.values()):
            raise Refused(f"the gradient of row {row} is not finite, so the row would count as zero")

    def _state(self) -> _State:
        """All of the model that a step must not meet changed; the trained parameters are for the optimizer to move."""
        modules = list(self.model.modules())
        trained = [(id(p), p.requires_grad, None if p.requires_grad else p._version) for p in self.model.parameters()]
        kept = [(id(b), b._version) for b in self.model.buffers()]
        return [[(id(m), type(m)) for m in modules], trained, kept], [_common_hooks(), *map(_way, modules)]

    def require_unchanged(self) -> None:
        """Raise where the model is not the one that was checked.

        ``train()``, ``eval()``, a hook that comes or goes and another ``forward`` have it checked again.
        """
        (parts, ways), checked = self._state(), self._checked
        if checked is None or parts != checked[0]:
            raise Refused(
                "the model has other layers, other trained parameters or other buffers than when it was checked; "
                "Try: change it before trainer.batches(...), which checks it"
            )
        if ways != checked[1]:
            self.check(*self._made_up)

    def require_nothing_kept(self) -> None:
        """Raise where examples have left something in the model that is not a gradient."""
        if self._checked is None or self._state()[0] != self._checked[0]:
            raise Refused("the model kept something of its examples in a buffer, without noise: do not publish it")

    def _fitting(self, found: dict[int, Gradients], batch: float) -> int:
        """How many examples at a time, from sizes alone: as few parts as fit, and equal ones."""
        written = sum(g.rows[0].numel() * g.rows.element_size() for g in found.values() if isinstance(g, Written))
        most = int(max(1, min(1024, _CACHE // self._widest, _ROOM // max(written, 1))))
        return most if batch <= most else math.ceil(batch / math.ceil(batch / most))

    def _twin(self) -> Engine:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin = Engine(copy.deepcopy(self.model), self.loss, slow=self.slow, classes=self.classes)
        random = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in twin.parameters:
                p += 0.1 * torch.randn(p.shape, generator=random).to(p)
        for module in twin.model.modules():
            if isinstance(module, _DropoutNd):
                module.eval()
        return twin

    def _compare(self, found: dict[int, Gradients], alone: list[list[Tensor]]) -> None:
        """Raise if the gradients of a batch are not those of its examples one at a time."""
        weights = torch.tensor([1.0, -0.5, 0.25, 2.0], dtype=torch.float64, device=alone[0][0].device)
        whole = max(float(torch.cat(gradients).norm()) for gradients in alone)
        tolerance = COARSE if self._coarse else TOLERANCE
        for place, parameter in enumerate(self.parameters):
            true = torch.stack([gradients[place] for gradients in alone])
            size = torch.linalg.vector_norm(true, dim=1)
            mine = found.get(place, Written(torch.zeros_like(true)))
            room = tolerance * size.max() + tolerance / 100 * whole  # some gradients are zero but for rounding
            summed = torch.empty_like(true[0])
            mine.sum_into(summed, weights)
            off = max((mine.squares().sqrt() - size).abs().max(), (summed - weights @ true).norm() / 4)
            if not off <= room:  # NaN counts as off
                name = next(n for n, p in self.model.named_parameters() if p is parameter)
                raise Refused(
                    f"the gradient of {name} is not what single examples give: examples are mixed (a loss or a layer "
                    "that looks at the whole batch), the parameter is used outside its layer, or something in the "
                    "model is random without being an nn.Dropout. Try: layers that treat examples apart"
                    + ("" if self.slow else "; slow=True for parameters used outside their layer")
                )

    def _check_in_a_crowd(self, made_up: list[Tensor]) -> None:
        """Check the gradients of a whole micro-batch with some examples that are much larger or smaller than the rest.

        A loss that looks for outliers, or for the hardest examples, treats few normal ones alike. In double precision,
        where nothing but mixing tells an example alone from one in a batch.
        """
        exact = self._twin()
        exact.model.double()
        kind = self.parameters[0].dtype
        for twin, crowd in (
            (exact, [_scaled(t.double()) if t.is_floating_point() else t for t in made_up]),
            (self._twin(), [t.to(kind) if t.is_floating_point() else t for t in made_up]),
        ):
            try:
                twin._compare_in_a_crowd(crowd)
                break
            except Refused:
                raise
            except Exception:  # it insists on its precision, or on other numbers: the few normal examples have to do
                continue

    def _compare_in_a_crowd(self, unlike: list[Tensor]) -> None:
        found = self.gradients(unlike)
        gone = ~torch.isfinite(torch.stack([g.squares() for g in found.values()]).sum(0))
        found = {place: gradients.without(gone) for place, gradients in found.items()}
        typical = torch.cat(self._alone([t[:1] for t in unlike])).norm()
        for i in range(min(UNLIKE + 1, len(gone))):
            true = torch.cat(self._alone([t[i : i + 1] for t in unlike]))
            room = CROWDED * (true.norm() + typical)
            if bool(torch.isfinite(true).all()) and not (self._one(found, i) - true).norm() <= room:
                raise Refused(
                    "the gradient of an example is not what it is alone where others are in its batch and some are "
                    "unlike the rest: a loss or a layer looks at the whole batch. Try: one that treats examples apart"
                )

    def _one(self, found: dict[int, Gradients], example: int) -> Tensor:
        """The gradient of one example out of a batch."""
        total = torch.zeros(sum(self.sizes), dtype=torch.float64, device=self.parameters[0].device)
        for place, part in enumerate(total.split(self.sizes)):
            if place in found:
                weights = torch.zeros(len(found[place].squares()), dtype=torch.float64, device=part.device)
                weights[example] = 1.0
                found[place].sum_into(part, weights)
        return total

    def _alone(self, example: list[Tensor]) -> list[Tensor]:
        found = torch.autograd.grad(self._losses(example).sum(), self.parameters, allow_unused=True)
        return [
            torch.zeros(p.numel(), dtype=torch.float64, device=p.device) if g is None else g.flatten().double()
            for g, p in zip(found, self.parameters, strict=True)
        ]


def _way(module: nn.Module) -> list[Any]:
    """How a module runs: its mode, its ``forward`` and its hooks, each under the number that torch gave it."""
    forward = vars(module).get("forward"), type(module).forward, type(module).__call__
    return [module.training, *forward, *[list(vars(module).get(name, {}).items()) for name in HOOKS]]


def _common_hooks() -> list[Any]:
    """Hooks of all modules."""
    return [list(getattr(module_hooks, f"_global{name}", {}).items()) for name in HOOKS]


def _no_example_axis(layer: nn.Module, given: Tensor) -> str:
    """Reason and way out for a layer that does not see one row per example."""
    if isinstance(layer, nn.Embedding):
        return (
            f"the input of an Embedding has shape {tuple(given.shape)}, so all examples share it, as learned positions "
            "do. Try: ts.learn.torch.Positions(length, size), or indices for every example, such as "
            "torch.arange(places).expand(len(x), places)"
        )
    return (
        f"the first axis of the input of {type(layer).__name__} (shape {tuple(given.shape)}) is not the example; "
        "Try: batch_first=True layouts, with one row per example in front of every layer"
    )


def declared_labels(classes: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Declared labels: 0 to classes - 1 for a number of classes, or the listed ones.

    >>> declared_labels(3), declared_labels([1, 2])
    ((0, 1, 2), (1, 2))
    """
    allowed = "the number of classes (labels 0 to classes - 1), or a list of different whole numbers"
    if classes is None:
        return None
    if isinstance(classes, int):
        if isinstance(classes, bool) or classes < 1:
            raise InvalidInput("classes", classes, allowed)
        return tuple(range(classes))
    try:
        labels = tuple(int(label) for label in classes)
    except (TypeError, ValueError):
        raise InvalidInput("classes", classes, allowed) from None
    if not labels or len(set(labels)) < len(labels):
        raise InvalidInput("classes", classes, allowed)
    return labels


def _bytes(layer: nn.Module, given: Tensor) -> int:
    """Size of a layer's input, for a convolution with the windows that overlap."""
    window = math.prod(getattr(layer, "kernel_size", ())) / math.prod(getattr(layer, "stride", ()))
    size: int = given.numel() * given.element_size()
    return math.ceil(size * max(1.0, window))


def _single_is_single(device: torch.device) -> bool:
    """True if torch multiplies in single precision on request: it may be set to round factors to 8 or 11 bits."""
    fine, one = _probe(device)
    with _no_autocast(device):
        return bool(torch.equal(fine @ one, fine))


def _no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Autocast, where it is on, would round what we multiply to 8 bits."""
    if torch.is_autocast_enabled(device.type):
        off: AbstractContextManager[object] = torch.autocast(device.type, enabled=False)
        return off
    return nullcontext()


@cache
def _probe(device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.full((32, 32), 1.0 + 2.0**-23, device=device), torch.eye(32, device=device)


def _scaled(given: Tensor) -> Tensor:
    """Return the batch with some examples that are a thousand times larger, and some that are as much smaller."""
    by = torch.ones(len(given), *[1] * (given.dim() - 1)).to(given)
    by[1 : UNLIKE - 1], by[UNLIKE - 1 : UNLIKE + 1] = 1e3, 1e-3
    return given * by


def _like(given: Tensor, attempt: int, count: int = CHECKED) -> Tensor:
    """Made-up examples of the same shape and type."""
    shape, is_whole = (count, *given.shape[1:]), not given.is_floating_point()
    attempt = LABELS if given.dtype == torch.bool else attempt
    return torch.from_numpy(made_up_rows.examples(shape, attempt, is_whole=is_whole)).to(given)


def refuse(model: nn.Module, loss: Loss, *, slow: bool) -> None:
    """Raise for what is known by name not to work: before training, and whatever the data are."""
    if not isinstance(model, nn.Module):
        raise InvalidInput("model", type(model).__name__, "a torch.nn.Module")
    if not callable(loss):
        raise InvalidInput("loss", loss, "a function of the model's output and the target")
    if getattr(loss, "reduction", "none") != "none":
        raise InvalidInput("loss", loss, "", problem=ONE_FOR_ALL.format(type(loss).__name__))
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise InvalidInput("model", type(model).__name__, "a model with a parameter that requires a gradient")
    if isinstance(loss, nn.Module) and any(p.requires_grad for p in loss.parameters()):
        raise InvalidInput("loss", type(loss).__name__, "a loss without parameters; put them into the model")
    kinds = {p.dtype for p in trained} - {torch.float32, torch.float64}
    if kinds:
        raise Refused(
            f"parameters of type {', '.join(map(str, kinds))}. Try: float32 or float64, also under torch.autocast"
        )
    for name, module in model.named_modules():
        for problem in _problems(module, slow=slow):
            raise Refused(f"{name or 'the model'} ({type(module).__name__}): {problem}")


def _problems(module: nn.Module, *, slow: bool) -> Iterator[str]:
    own = [p for p in module.parameters(recurse=False) if p.requires_grad]
    if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
        yield "was compiled, so its layers cannot be seen one by one. Try: the model before torch.compile"
    if isinstance(module, _BatchNorm) and (own or module.training or not module.track_running_stats):
        yield "batch norm mixes the examples of a batch. Try: nn.GroupNorm, nn.LayerNorm, or eval() and frozen"
    if isinstance(module, _InstanceNorm) and module.track_running_stats:
        yield "keeps running statistics of its examples. Try: track_running_stats=False"
    if isinstance(module, nn.Embedding) and (module.max_norm is not None or module.scale_grad_by_freq):
        yield "max_norm and scale_grad_by_freq look at the whole batch. Try: an embedding without them"
    if not own or slow:
        return
    if isinstance(module, nn.MultiheadAttention):
        yield (
            "its gradients are not seen layer by layer. Try: ts.learn.torch.Attention.from_torch(layer) in its "
            "place (in an nn.TransformerEncoderLayer, its self_attn), made with batch_first=True"
        )
    if isinstance(module, nn.RNNBase):
        yield "its gradients are not seen layer by layer. Try: ts.learn.torch.LSTM or GRU"
    if type(module) not in TABLE:
        yield (
            "has parameters that are not part of a layer that the engine knows. Try: ts.learn.torch.Positions for "
            "learned positions; or build it of "
            + ", ".join(kind.__name__ for kind in TABLE)
            + "; or slow=True, which is right for any model that treats examples apart, and many times slower"
        )
    elif any(p is not getattr(module, "weight", None) and p is not getattr(module, "bias", None) for p in own):
        yield "its weight is computed from other parameters. Try: a plain layer, or slow=True"
