"""Hooks on gradients that make them 0: what each gets, and what it returns.

The hooks of parameters, of results of operations and of modules are replaced by ones that call them
and compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import torch

from ..foreign import Foreign, Function, graphs, observing
from ..foreign.places import line_of_function

if TYPE_CHECKING:
    from torch.autograd.graph import Node

MODULE_TABLES = ("_backward_hooks", "_backward_pre_hooks")


class Zeroing(NamedTuple):
    """A hook that made a gradient 0."""

    name: str
    place: str
    """Of its function: "train.py, line 12"."""
    remark: str
    """What it got and returned, and which of its variables are 0 throughout."""
    of: str = ""
    """The module that it is registered on."""

    @property
    def text(self) -> str:
        return " in ".join(filter(None, (self.name, self.place)))


class Hooks:
    """Watches hooks during one backward pass."""

    def __init__(self, smallest: float) -> None:
        self._smallest = smallest
        """Of the largest value that a hook gets: less counts as 0."""
        self.of_tensors: Dict[int, Zeroing] = {}
        """Id of a tensor -> the hook that made its gradient 0."""
        self.of_modules: List[Zeroing] = []
        self._held: List[torch.Tensor] = []
        """Tensors that are kept, so that no other gets the same id."""
        self._results: Dict[Any, int] = {}
        """Operation -> the id of its result, which has a hook."""
        self._watched: Set[Tuple[int, Any]] = set()

    def watch_result(self, tensor: torch.Tensor) -> None:
        """The same as watch of what an operation returned, once a hook is registered on it."""
        self._results[tensor.grad_fn] = id(tensor)
        self.watch(tensor)

    def of(self, node: Node) -> Optional[Zeroing]:
        """The hook that made the gradient of this operation's result, or of this leaf, 0."""
        leaf = graphs.leaf_of(node)
        return self.of_tensors.get(self._results.get(node, 0) if leaf is None else id(leaf))

    def watch(self, tensor: torch.Tensor) -> None:
        """Compare what the hooks on this tensor get and return."""
        self._held.append(tensor)
        tables: List[Tuple[Any, Any]] = [
            (tensor._backward_hooks, False),
            (getattr(tensor, "_post_accumulate_grad_hooks", None), True),
        ]
        for hooks, accumulated in tables:
            for key, hook in list((hooks or {}).items()):
                if (id(tensor), key) not in self._watched:
                    self._watched.add((id(tensor), key))
                    hooks[key] = self._watching(hook, id(tensor), accumulated)

    def watch_modules(self, module: torch.nn.Module) -> None:
        """The same for the hooks of modules, which a forward pass collects: call this before it."""
        for name, part in module.named_modules():
            for table in MODULE_TABLES:
                hooks = getattr(part, table, {})
                for key, hook in list(hooks.items()):
                    hooks[key] = self._on_module(hook, name or "the model")

    def _watching(self, hook: Function, tensor: int, accumulated: bool) -> Callable[[Any], Any]:
        """`accumulated`: the hook gets a parameter, and changes its gradient."""

        def watching(value: Any) -> Foreign:
            before = peak(value.grad if accumulated else value)
            result = hook(value)
            after = value.grad if accumulated else value if result is None else result
            self._compare(hook, before, after, tensor)
            return result

        return watching

    def _on_module(self, hook: Function, name: str) -> Callable[..., Any]:
        def watching(module: torch.nn.Module, gradients: Any, *outputs: Foreign) -> Foreign:
            before = largest(gradients)
            result = hook(module, gradients, *outputs)
            after = largest(gradients if result is None else result)
            if before > 0.0 and after <= self._smallest * before:
                self.of_modules.append(Zeroing(*line_of_function(hook), used(hook), name))
            return result

        return watching

    def _compare(self, hook: Function, before: float, after: Any, tensor: int) -> None:
        left = peak(after)
        if before > 0.0 and left <= self._smallest * before:
            rest = "none" if after is None else "%.2g" % left
            remark = "of values that are not 0 it leaves %s" % rest
            remark = ", ".join(filter(None, (remark, used(hook))))
            self.of_tensors.setdefault(tensor, Zeroing(*line_of_function(hook), remark))


def used(hook: Function) -> str:
    """ "new of its variables is 0 throughout": the variables around a function that are only 0."""
    zeros = [name for name, value in variables(hook).items() if is_zeros(value)]
    verb = "are" if len(zeros) > 1 else "is"
    return "%s of its variables %s 0 throughout" % (", ".join(zeros), verb) if zeros else ""


def variables(function: Foreign) -> Dict[str, Any]:
    """The variables around a function that it uses: of a closure, and of its module."""
    code = observing.code_of(function)
    if code is None:
        return {}
    cells = observing.attribute(function, "__closure__") or ()
    held = dict(zip(code.co_freevars, map(observing.content, cells)))
    of_module = observing.attribute(function, "__globals__", {})
    held.update((n, of_module[n]) for n in code.co_names if n in of_module)
    return held


def is_zeros(value: Foreign) -> bool:
    if isinstance(value, torch.Tensor):
        if value.is_meta or not value.numel():
            return False
        return observing.attempt(lambda: not observing.plain(value).any(), False) is True
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0


def peak(gradient: Optional[torch.Tensor]) -> float:
    """The largest absolute value; 0 if there is none."""
    if gradient is None:
        return 0.0
    dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
    return float(dense.abs().max()) if dense.numel() else 0.0


def largest(gradients: Any) -> float:
    several = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
    return max((peak(each) for each in several if isinstance(each, torch.Tensor)), default=0.0)
