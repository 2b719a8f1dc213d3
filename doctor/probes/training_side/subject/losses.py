"""In which form a loss of the user's is called: with the module, or with its output."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from ..foreign import Foreign, Function, observing
from . import loss_forms, subjects
from .subjects import CONTRACT
from .training_step import Loss

TARGETS = ("labels", "label", "targets", "target", "y")


def bound(loss: Optional[Function]) -> Loss:
    """The user's loss as a function of module and batch; of None, the model's own."""
    if loss is None:
        return subjects.model_loss
    if is_criterion(loss):
        return subjects.bound(criterion_loss, loss)
    if len(loss_forms.positional(loss) or ()) == 1:
        return subjects.bound(output_loss, loss)
    return subjects.bound(FORMS.get(loss_forms.form_of(loss), subjects.user_loss), loss)


def is_criterion(loss: Foreign) -> bool:
    """Whether it is called as criterion(output, target) whatever its parameters are called."""
    if observing.attribute(loss, "__module__", "") == "torch.nn.functional":
        return True
    if not isinstance(loss, torch.nn.Module):
        return False
    names = loss_forms.positional(loss)
    return not names or loss_forms.form_of(loss) == (loss_forms.OUTPUT, loss_forms.TARGET)


def is_loss_module(module: torch.nn.Module) -> bool:
    """Whether a module is a loss by its class, and no model."""
    own = type(module).__name__.lower().endswith(("loss", "criterion", "objective"))
    return own or type(module).__module__ == "torch.nn.modules.loss"


def criterion_loss(criterion: Function, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """criterion(module(inputs), target); of an output with logits, the logits."""
    if needs_no_target(criterion, batch):
        return output_loss(criterion, module, batch)
    inputs, target = parts_of(batch)
    output = subjects.called(module, inputs)
    logits = observing.attribute(output, "logits")
    prediction = output if logits is None else logits
    return subjects.loss_in(criterion(prediction, target), "the criterion")


def output_loss(loss: Function, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """loss(module(batch)) of a function that needs the output alone."""
    output = subjects.called(module, batch)
    return subjects.loss_in(loss(output), subjects.source_of(loss))


def output_and_target_loss(loss: Function, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """loss(module(inputs), target), where the output is passed as it is."""
    if needs_no_target(loss, batch):
        return output_loss(loss, module, batch)
    inputs, target = parts_of(batch)
    return subjects.loss_in(loss(subjects.called(module, inputs), target), subjects.source_of(loss))


def output_and_batch_loss(loss: Function, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """loss(module(inputs), batch), where the module gets what its forward has parameters for."""
    output = subjects.called(module, accepted(module, batch))
    return subjects.loss_in(loss(output, batch), subjects.source_of(loss))


def needs_no_target(loss: Function, batch: Foreign) -> bool:
    """Whether all parameters but the first have defaults, and the batch holds no target."""
    if len(loss_forms.required(loss)) != 1:
        return False
    if observing.has(batch, "items"):
        return not any(name in batch for name in TARGETS)
    return isinstance(batch, torch.Tensor) or len(batch) < 2


def parts_of(batch: Foreign) -> Tuple[Any, Any]:
    """The inputs and the target: the last part of the batch, or its key in `TARGETS`."""
    if observing.has(batch, "items"):
        target = next((name for name in TARGETS if name in batch), None)
        if target is None:
            message = "the batch has none of the keys %s for the criterion; " % ", ".join(TARGETS)
            raise ValueError(message + CONTRACT)
        return {name: each for name, each in batch.items() if name != target}, batch[target]
    if isinstance(batch, torch.Tensor) or len(batch) < 2:
        raise ValueError("a criterion needs a batch of (inputs, target); " + CONTRACT)
    *inputs, last = batch
    return inputs, last


def accepted(module: torch.nn.Module, batch: Foreign) -> Foreign:
    """The parts of a batch that the module's forward has parameters for, by name or by place; the
    last part of a tuple, a target, only where forward requires as many."""
    if isinstance(batch, torch.Tensor):
        return batch
    parameters = list(inspect.signature(module.forward).parameters.values())
    kinds = {each.kind for each in parameters}
    if observing.has(batch, "items"):
        if inspect.Parameter.VAR_KEYWORD in kinds:
            return batch
        names = {each.name for each in parameters}
        of_batch: Dict[str, Any] = {key: part for key, part in batch.items() if key in names}
        return of_batch
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return list(batch)[:-1]
    places = loss_forms.positional(module) or []
    required = [each for each in parameters if each.default is each.empty]
    return list(batch)[: max(len(required), min(len(places), len(batch) - 1))]


FORMS: Dict[Tuple[str, str], Callable[..., torch.Tensor]] = {
    (loss_forms.OUTPUT, loss_forms.TARGET): output_and_target_loss,
    (loss_forms.OUTPUT, loss_forms.BATCH): output_and_batch_loss,
}
