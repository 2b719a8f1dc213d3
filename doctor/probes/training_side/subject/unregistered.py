"""Tensors that a model trains with and that are not among its parameters."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, Dict, Iterable, Iterator, List, Set, Tuple

import torch

from ..foreign import Foreign, graphs, observing
from .training_step import Subject


def graphs_in(module: torch.nn.Module) -> Dict[str, Any]:
    """Attributes of the modules that are, or hold, tensors with a graph -> the operation that made
    them; the first backward() frees these graphs."""
    return with_nodes({**attributes(module), **dict(module.named_buffers())})


def attributes(module: torch.nn.Module) -> Dict[str, Any]:
    """Name -> value of what the modules hold beside parameters, buffers and modules."""
    own = vars(torch.nn.Module())
    return {
        "%s.%s" % (prefix, name) if prefix else name: value
        for prefix, part in module.named_modules()
        for name, value in list(vars(part).items())
        if name not in own
    }


def states(module: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """What a module carries from step to step beside its parameters, by name: buffers, and tensors
    that attributes hold directly or in a list or dict, as averages, codebooks and queues."""
    found: Dict[str, torch.Tensor] = dict(module.named_buffers())
    for name, value in attributes(module).items():
        held = [(name, value), *(("%s[%r]" % (name, key), each) for key, each in members(value))]
        found.update((key, each) for key, each in held if isinstance(each, torch.Tensor))
    return found


def with_nodes(values: Dict[str, Any]) -> Dict[str, Any]:
    """Name -> the operation that made a tensor with a graph: "hidden" of these values, or
    "state['hidden']" of a list, tuple or dict among them."""
    named = dict(values)
    for name, value in values.items():
        named.update(
            ("%s[%r]" % (name, key), each)
            for key, each in members(value)
            if isinstance(each, torch.Tensor)
        )
    return {
        name: each.grad_fn
        for name, each in named.items()
        if isinstance(each, torch.Tensor) and each.grad_fn is not None
    }


class Created:
    """Watches two forward passes for parameters that are created anew in each: they never train.

    `subject` is the one to train. Parameters of a criterion or of another network, which another
    optimizer may hold, stay the same.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject._replace(loss=self._loss)
        self.shapes: List[List[int]] = []
        self._original = subject.loss
        self._passes: List[List[torch.Tensor]] = []
        """The leaves of both passes, which keeps their ids apart."""

    def _loss(self, module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
        loss = self._original(module, batch)
        if len(self._passes) < 2:
            leaves = graphs.leaves(loss.grad_fn)
            self._passes.append([each for each in leaves if isinstance(each, torch.nn.Parameter)])
            if len(self._passes) == 2:
                before = {id(each) for each in (*self._passes[0], *module.parameters())}
                after = self._passes[1]
                self.shapes = [list(each.shape) for each in after if id(each) not in before]
                self._passes = [[], []]
        return loss


MOST = 1000
"""Members of a list or dict that are looked at."""


def unregistered(subject: Subject) -> List[str]:
    """Names of leaf tensors with a gradient that attributes of the model's modules hold, in plain
    lists or dicts or directly, and that are neither parameters of the model nor in a group of the
    user's optimizer."""
    module = subject.module
    ids: Set[int] = {id(each) for each in module.parameters()}
    if subject.update is not None:
        groups = subject.update.optimizer.param_groups
        ids |= {id(each) for group in groups for each in group["params"]}
    held = (pair for name, value in attributes(module).items() for pair in leaves(name, value))
    return [name for name, leaf in held if id(leaf) not in ids]


def of_loss(subject: Subject) -> List[str]:
    """Names of parameters that the user's loss holds, that get a gradient, and that are neither
    the model's nor in a group of the user's optimizer: centers of classes, learned weights.

    A network that a loss holds, as a discriminator or features of pictures, trains elsewhere or
    not at all, so only modules count whose parameters are their own, or those of one layer.
    """
    function = observing.attribute(subject.loss, "args", (None,))[0]
    if subject.update is None or function is None:
        return []
    ids = {id(each) for each in subject.module.parameters()}
    ids |= {id(w) for group in subject.update.optimizer.param_groups for w in group["params"]}
    names = []
    for holder, held in modules_of(function).items():
        owners = [each for each in held.modules() if list(each.parameters(recurse=False))]
        own = all(not type(each).__module__.startswith("torch.nn.") for each in owners)
        if own or len(owners) == 1:
            names += [name for name, leaf in leaves(holder, held) if id(leaf) not in ids]
    return names


def modules_of(function: Foreign) -> Dict[str, torch.nn.Module]:
    """The modules that a loss is, or that it reads: attributes of its object, variables."""
    if isinstance(function, torch.nn.Module):
        return {type(function).__name__: function}
    values = dict(observing.attribute(observing.attribute(function, "__self__", function),
                                      "__dict__", {}))  # fmt: skip
    variables = observing.attempt(lambda: inspect.getclosurevars(function), None)
    if variables is not None:
        values.update({**variables.globals, **variables.nonlocals})
    return {name: each for name, each in values.items() if isinstance(each, torch.nn.Module)}


DEEPEST = 2
"""Lists and dicts within one another that are looked at."""


def leaves(name: str, value: Foreign, depth: int = 0) -> Iterator[Tuple[str, torch.Tensor]]:
    """The leaf tensors with a gradient in a tensor, a module, or a list or dict of them, of lists
    of them as well."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf and value.grad is not None:
            yield name, value
    elif isinstance(value, torch.nn.Module):
        for inner, weight in value.named_parameters():
            yield from leaves("%s.%s" % (name, inner), weight)
    else:
        for key, each in members(value) if depth < DEEPEST else ():
            yield from leaves("%s[%r]" % (name, key), each, depth + 1)


def members(value: Foreign) -> Iterable[Tuple[Any, Any]]:
    """Indices or keys, and the members of a list or dict; of anything else nothing. Methods of a
    subclass are not called: they may raise, or compute."""
    if isinstance(value, (list, tuple)):
        kind: Any = list if isinstance(value, list) else tuple
        return enumerate(itertools.islice(kind.__iter__(value), MOST))
    return list(itertools.islice(dict.items(value), MOST)) if isinstance(value, dict) else ()
