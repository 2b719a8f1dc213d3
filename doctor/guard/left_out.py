"""Parameters that get gradients, and that neither an optimizer nor the loop changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterator

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .parameters import local
from .records import NOTE, WARN
from .values import unless_lost

if TYPE_CHECKING:
    from types import FrameType

    from .optimizer_watch import OptimizerWatch


OWN = (__name__.partition(".left_out")[0], "torch")
"""Of modules whose variables are not the training's."""
MOST_HELD = 64
"""Items of a list or a dict of a module that are looked at."""


class LeftOut:
    """Of the model, and of modules in training mode that it does not register, as in a list.

    `_before`: id of a parameter -> its gradient and that tensor's version, and some values, at the
    look before. A gradient that has not changed since is a leftover.
    """

    def __init__(self, context: Context) -> None:
        self._context, self.torch = context, context.torch
        self._before: dict[int, tuple[tuple[int, int], Foreign]] = {}

    def look(
        self,
        model: Foreign,
        roots: list[Foreign],
        held: set[int],
        watch: OptimizerWatch,
        twice: str,
    ) -> None:
        """After a step of `watch`; `held` are the ids of the parameters of all optimizers, `twice`
        says which of them two hold."""
        before, self._before = self._before, {}
        inside: list[str] = []
        outside: list[tuple[Foreign, str]] = []
        distances: list[Foreign] = []
        others = [each for each in roots if each is not model and each.training]
        for root in [model, *others]:
            for name, p in [*root.named_parameters(), *_unregistered(self.torch, root)]:
                if not p.requires_grad or p.grad is None or not p.numel() or id(p) in held:
                    continue
                gradient = id(p.grad), p.grad._version
                value = local(p).reshape(-1)[: limit.SAMPLED]
                known, values = before.get(id(p), (gradient, value))
                self._before[id(p)] = gradient, value.clone()
                if known != gradient and values.device == value.device:
                    inside += [name] * (root is model)
                    outside += [(root, name)] * (root is not model)
                    distances.append((value - values).abs().max().float())
        if not distances:
            return
        cause, text = "left-out", _described(inside, f"parameters of {type(model).__name__}")
        if not inside:
            is_twin = all(_is_twin(each, model) for each in others)
            cause, text = _apart(model, outside, watch.name, is_twin)
        cause, text = "held-twice" if twice else cause, f"{text}{twice}"
        for device in {distance.device for distance in distances}:
            here = [each for each in distances if each.device == device][: limit.MOST_LEFT_OUT]
            judge = unless_lost(self._judge, text, cause, watch)
            self._context.submit([self.torch.stack(here)], judge)

    def _judge(self, text: str, cause: str, watch: OptimizerWatch, distances: list[float]) -> None:
        if not any(distances):
            code, status = codes.OPTIMIZER_HAS_GRADIENTS, NOTE if cause == "twin" else WARN
            self._context.warn(code, text, cause, watch, status=status)


def _described(names: list[str], what: str) -> str:
    return (
        f"{len(names)} {what} get gradients, and no optimizer holds them "
        f"({', '.join(names[:2])}{', ...' if len(names) > 2 else ''}): they stay as they are"
    )


def _apart(
    model: Foreign, outside: list[tuple[Foreign, str]], optimizer: str, is_twin: bool
) -> tuple[str, str]:
    """The cause and a text for parameters of modules that are no part of the model."""
    modules = list({id(root): root for root, _ in outside}.values())
    kind = type(model).__name__
    listed = _is_listed(model, modules)
    variables = {} if listed or is_twin else {id(each): _variable(each) for each in modules}
    names = [f"{variables.get(id(root)) or type(root).__name__}.{name}" for root, name in outside]
    if listed or is_twin:
        text = _described(names, f"parameters of modules that {kind} does not register")
        return "twin" if is_twin else "unregistered", text
    text = _described(names, f"parameters of modules beside {kind}")
    if (own := _variable(model)) and all(variables.values()):
        every = ", ".join(f"*{name}.parameters()" for name in [own, *variables.values()])
        text += f"; {optimizer}([{every}], ...) holds all"
    return "beside", text


def _variable(module: Foreign) -> str:
    """The name that the training's own lines have for a module; "" where none is seen."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        found = (name for name, value in list(frame.f_locals.items()) if value is module)
        if not frame.f_globals.get("__name__", "").startswith(OWN) and (name := next(found, "")):
            return name
        frame = frame.f_back
    return ""


def _is_listed(model: Foreign, others: list[Foreign]) -> bool:
    """Whether a module of the model holds one of the others in a list or a dict."""
    ids = {id(each) for each in others}
    for module in model.modules():
        for key, value in list(vars(module).items()):
            held = value.values() if isinstance(value, dict) else value
            several = isinstance(value, (list, tuple, dict)) and not key.startswith("_")
            if several and any(id(each) in ids for each in list(held)[:MOST_HELD]):
                return True
    return False


def _is_twin(module: Foreign, model: Foreign) -> bool:
    """Whether it is of the class and the shapes of the model: a target network, which gets
    gradients where the loss is computed without no_grad(), an average, or a second critic."""
    return type(module) is type(model) and _shapes(module) == _shapes(model)


def _shapes(module: Foreign) -> list[Foreign]:
    return [p.shape for p in module.parameters()]


def _unregistered(torch: Foreign, root: Foreign) -> Iterator[tuple[str, Foreign]]:
    """Leaves of a graph that modules hold as plain attributes: a single number, or a parameter in a
    list or a dict. Other tensors may be inputs whose gradients a loss needs."""
    seen = {id(p) for p in root.parameters()}
    for path, module in root.named_modules():
        for key, value in list(vars(module).items()):
            held = value.values() if isinstance(value, dict) else value
            several = isinstance(value, (list, tuple, dict)) and not key.startswith("_")
            for each in list(held)[:MOST_HELD] if several else [value]:
                kind = type(each)
                single = kind is torch.Tensor and not several and each.numel() == 1
                if (single or kind is torch.nn.Parameter) and each.is_leaf and id(each) not in seen:
                    seen.add(id(each))
                    yield f"{path}.{key}" if path else key, each
