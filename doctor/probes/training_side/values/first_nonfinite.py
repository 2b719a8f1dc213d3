"""The operation whose result is the first that is not finite, and the samples that cause it.

The step is repeated under the dispatch mode of follow_values.py.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ... import wire
from ..foreign import Arguments, Foreign, Function, Options, Types
from ..subject import batch_samples, unregistered
from ..subject.plan import Plan
from ..subject.timed import Timed
from ..subject.training_step import Training, backpropagate
from . import follow_values, inspect_step, value_origins, watched_modules

SAMPLE_SECONDS = 4.0


def trace(plan: Plan, stage: Timed, number: int) -> Dict[str, Any]:
    """The first operation of that step whose result is not finite, as an origin; {} if unknown.

    If this step reads a value of a module that an earlier one made so, it is that one's operation.
    """
    training = started(plan, stage)
    initial = spoiled(training, ())
    first: Dict[str, int] = {}
    for step in range(1, number):
        training.step(stage)
        for name in spoiled(training, initial):
            first.setdefault(name, step)
    without_fault = bool(first) and is_finite_without(training, initial)
    training = started(plan, stage, number - 1) if first else training
    begun = time.perf_counter()
    follow, loss = followed(training, stage)
    if without_fault and not _finite(loss):
        name = min(first, key=lambda each: first[each])
        if record := of_state(plan, stage, first[name], name):
            return {"source": record}
    record = of_step(training, follow, loss, number)
    if record and not _finite(loss) and not spoiled(training, initial):
        seconds = max(SAMPLE_SECONDS, 20 * (time.perf_counter() - begun))
        with stage("sample by sample"):
            samples = batch_samples.samples_of
            record.update(samples(training, min(seconds, 2 * SAMPLE_SECONDS)))
    return {"source": record} if record else {}


def is_finite_without(training: Training, initial: Sequence[str]) -> bool:
    """Whether the loss is finite once the values of states that are not are replaced by 1."""
    states, subject = unregistered.states(training.subject.module), training.subject
    for name in spoiled(training, initial):
        states[name].detach().nan_to_num_(1.0, 1.0, 1.0)  # 0 may be a divisor
    with torch.no_grad(), training.autocast():
        return _finite(subject.loss(subject.module, subject.batch))


def started(plan: Plan, stage: Timed, steps: int = 0) -> Training:
    """A fresh training after that many steps."""
    with stage("allocate"):
        training = plan.training(plan.build())
    for _ in range(steps):
        training.step(stage)
    return training


def spoiled(training: Training, initial: Sequence[str]) -> List[str]:
    """The states of modules that are not finite now, without those that were not at the start; a
    mask may hold -inf."""
    return [
        name
        for name, each in unregistered.states(training.subject.module).items()
        if each.layout == torch.strided and not each.is_meta and name not in initial
        if inspect_step.nonfinite_and_not_mask(name, each.detach())
    ]


def of_state(plan: Plan, stage: Timed, step: int, name: str) -> Dict[str, Any]:
    """The operation of that step whose result a module holds for the next one; {} if unknown."""
    training = started(plan, stage, step - 1)
    follow, _ = followed(training, stage)
    source = follow.origin(unregistered.states(training.subject.module).get(name))
    return {} if source is None else dict(source._asdict(), step=step, state=name)


def of_step(
    training: Training, follow: follow_values.Follow, loss: torch.Tensor, number: int
) -> Dict[str, Any]:
    """The operation that makes the loss, or a gradient, of this step non-finite; {} if unknown."""
    source = _of_gradients(training, follow)
    if not _finite(loss):
        source = follow.origin(loss) or _first(follow) or follow.mask(loss)
    if source is None:
        return {}
    record: Dict[str, Any] = dict(source._asdict(), step=number)
    wire.send(note={"trace": {"source": record}})
    return record


def followed(training: Training, stage: Timed) -> Tuple[follow_values.Follow, torch.Tensor]:
    """A follow_values.Follow of one step, and its loss; backward() runs if the loss is finite."""
    subject = training.subject
    called = value_origins.Called(subject.module, subject.batch)
    modules = watched_modules.Modules(subject.module)
    follow = follow_values.Follow(called, modules)
    with stage("operation by operation"):
        for weight in training.weights.values():
            weight.grad = None
        with modules.watched(), follow:
            with training.autocast(), called, ListedLengths():
                loss = subject.loss(subject.module, subject.batch)
            if _finite(loss):
                follow.backward = True
                backpropagate(training.scaler.scale(loss) if training.scaler else loss)
    return follow, loss


def _first(follow: follow_values.Follow) -> Optional[follow_values.Operation]:
    """The only operation with such a result; of several, none is blamed."""
    return follow.origins[0] if len(follow.origins) == 1 else None


def _of_gradients(
    training: Training, follow: follow_values.Follow
) -> Optional[follow_values.Operation]:
    for weight in training.weights.values():
        if weight.grad is not None and not _finite(weight.grad):
            return follow.origin(weight.grad)
    return None


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor.detach()).all())


FUNCTIONS = (torch.ctc_loss, torch.nn.functional.ctc_loss)
LENGTHS = {"input_lengths": 2, "target_lengths": 3}
"""Argument -> its position."""


class ListedLengths(TorchFunctionMode):
    """Passes lengths on the CPU to the CTC loss as lists of integers.

    While a dispatch mode is active, torch keeps tensors of lengths as they are, and then divides
    the losses of a GPU by lengths of the CPU, which raises. Without a mode it makes lists of them.
    """

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        if func in FUNCTIONS:
            positions = LENGTHS.values()
            args = [listed(x) if number in positions else x for number, x in enumerate(args)]
            options = {name: listed(x) if name in LENGTHS else x for name, x in options.items()}
        return func(*args, **options)


def listed(lengths: Foreign) -> Foreign:
    """A tensor of the CPU as a list; a GPU's would have to be waited for, and needs no list."""
    on_cpu = isinstance(lengths, torch.Tensor) and lengths.device.type == "cpu"
    return lengths.tolist() if on_cpu else lengths
