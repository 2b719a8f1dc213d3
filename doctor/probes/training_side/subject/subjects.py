"""What the subjects of a training have in common: batches, devices, and losses of every form."""

from __future__ import annotations

import functools
from typing import Callable, List, Optional

import torch

from ..foreign import Foreign, Function, observing
from ..foreign.containers import mapped, tensors
from .training_step import Loss

CONTRACT = (
    "return (module, batch), where module(**batch) or module(*batch) gives the loss, "
    "or (module, batch, loss) with loss(module, batch) or loss(output, target)"
)


class Unsupported(Exception):
    """The doctor does not support this kind of training, which is no error of it."""


class NotAFactory(Exception):
    """The value of the factory breaks the contract; the message states the contract."""


class NotPossible(Exception):
    """This change cannot be applied to this subject; the message says why."""


def transformers_like(module: torch.nn.Module) -> Foreign:
    """The transformers model that this is or wraps (peft); None if there is none."""
    for each in module.modules():
        if observing.has(observing.attribute(each, "config"), "_attn_implementation"):
            return each
    return None


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether torch.compile or torch.jit hides the functions that it calls."""
    hidden = ("OptimizedModule", "ScriptModule", "RecursiveScriptModule", "TopLevelTracedModule")
    return any(type(each).__name__ in hidden for each in module.modules())


def attention_of(module: torch.nn.Module) -> Optional[str]:
    """transformers' attn_implementation, None if the model has none."""
    inner = transformers_like(module)
    config = observing.attribute(inner, "config")
    name = observing.attribute(config, "_attn_implementation")
    return name if isinstance(name, str) else None


def on_device(value: Foreign, device: torch.device) -> Foreign:
    """The same batch with its tensors on the device."""
    return mapped(value, lambda tensor: tensor.to(device))


def model_loss(module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """The loss of a module that computes it in its forward pass."""
    return loss_in(called(module, batch))


def called(module: torch.nn.Module, inputs: Foreign) -> Foreign:
    """The output for a tensor, a mapping of arguments, or a sequence of them."""
    if isinstance(inputs, torch.Tensor):
        return module(inputs)
    return module(**inputs) if observing.has(inputs, "items") else module(*inputs)


def loss_in(output: Foreign, source: str = "the forward pass") -> torch.Tensor:
    """The scalar loss in what `source` returned. Raises TypeError or ValueError."""
    loss = output
    if not isinstance(output, torch.Tensor):
        loss = getattr(output, "loss", None)
        if loss is None and observing.has(output, "items"):
            loss = output["loss"] if "loss" in output else _sum_of_losses(output)
        if loss is None and isinstance(output, (list, tuple)) and output:
            loss = _in_sequence(output)
    if not isinstance(loss, torch.Tensor):
        message = "%s returned no loss but %s; " % (source, described(output))
        raise TypeError(message + CONTRACT)
    if loss.numel() != 1:
        message = "the loss has the shape %s and is not a scalar; " % list(loss.shape)
        raise ValueError(message + CONTRACT)
    return loss.reshape(())


def described(output: Foreign) -> str:
    """What is in the place of a loss: "None", "a dict with logits"."""
    if output is None or isinstance(output, (int, float, str)):
        number = "" if output is None else " %.40r" % (output,)
        return type(output).__name__ + number
    if observing.has(output, "keys"):
        names = ", ".join(map(str, list(output.keys())[:8])) or "no keys"
        return "%s with %s" % (type(output).__name__, names)
    return type(output).__name__


def source_of(loss: Foreign) -> str:
    """What the user calls a function of module and batch."""
    return str(observing.attribute(loss, "doctor_source", "the loss function"))


def _in_sequence(output: Foreign) -> Foreign:
    """The first element, or the only scalar, as in (logits, loss)."""
    scalars = [each for each in output if _is_scalar(each)]
    return scalars[0] if len(scalars) == 1 else output[0]


def _sum_of_losses(output: Foreign) -> Foreign:
    """The sum of a dict of losses, as torchvision's detectors return it; None if it is not one."""
    values = list(output.values())
    return sum(values) if values and all(map(_is_scalar, values)) else None


def _is_scalar(value: Foreign) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and value.is_floating_point()


def user_loss(loss: Function, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
    """The loss of the user's function of module and batch."""
    return loss_in(loss(module, batch), source_of(loss))


def user_loss_without_batch(
    loss: Function, module: torch.nn.Module, batch: Foreign
) -> torch.Tensor:
    """The loss of the user's function of the module alone, which has its own data."""
    return loss_in(loss(module), source_of(loss))


def random_tokens(vocabulary: int, batch: int, length: int, seed: int) -> torch.Tensor:
    """Token ids, the same on every device."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(vocabulary, (batch, length), generator=draw, device="cpu")


def with_loss(loss: Function, *, without_batch: bool) -> Loss:
    return bound(user_loss_without_batch if without_batch else user_loss, loss)


def bound(form: Callable[..., torch.Tensor], loss: Function) -> Loss:
    """The form of a loss with the user's function, as loss(module, batch)."""
    return functools.partial(form, loss)


def rows_of(batch: Foreign, rows: slice) -> Foreign:
    """Some samples of a batch whose tensors have them first; single numbers stay."""
    return mapped(batch, lambda each: each[rows] if each.dim() else each)


def first_dimension(batch: Foreign) -> Optional[int]:
    """Samples of a batch: the first dimension of its tensors, if they all agree."""
    sizes: List[int] = [each.shape[0] for each in tensors(batch).values() if each.dim()]
    return sizes[0] if sizes and len(set(sizes)) == 1 else None
