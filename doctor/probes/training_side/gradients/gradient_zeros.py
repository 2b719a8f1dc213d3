"""The operations whose backward pass turns a gradient into zeros, or makes it far smaller.

The backward pass runs with a hook on each operation, which sees a gradient that comes in and one of
zeros that goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import torch

from ..foreign import Arguments, Foreign, graphs
from ..foreign.places import line_of_function
from ..subject.training_step import Training
from ..values import follow_step
from . import zero_reasons
from .gradient_hooks import Zeroing, peak

if TYPE_CHECKING:
    from torch.autograd.graph import Node

MOST_ZEROS = 200
SMALL = 1e-6
"""An operation that makes a gradient smaller by this factor is reported for a tiny one."""

SUMS = {
    "AddmmBackward": (0,),
    "AddBackward": (0, 1),
    "ExpandBackward": (0,),
    "ConvolutionBackward": (2,),
    "NativeLayerNormBackward": (2,),
    "NativeBatchNormBackward": (2,),
    "CudnnBatchNormBackward": (2,),
    "NativeGroupNormBackward": (2,),
}
"""Operations -> inputs whose gradient is a sum of the incoming one: 0 if its parts cancel."""

Key = Tuple[str, str, str, str, str, str, bool]
"""Kind, name, place, code, module, remark and certain of a doctor.facts.diagnosis.Cut."""


def records(
    places: Dict[Key, Set[str]], origins: Optional[Dict[Key, Any]] = None
) -> List[Dict[str, Any]]:
    """With the zero_origins.Origin of a key, if it has one."""
    fields = ("kind", "name", "place", "code", "module", "remark", "certain")
    result: List[Dict[str, Any]] = []
    for key, names in places.items():
        result.append(dict(zip(fields, key), parameters=sorted(names)))
        if origin := (origins or {}).get(key):
            result[-1].update(origin=origin.name, origin_place=origin.place)
    return result


class Zero(NamedTuple):
    """An edge of the graph on which a gradient becomes 0, or is lost."""

    kind: str
    node: Any
    following: Any
    reason: Any
    """A zero_reasons.Reason."""


class Recorder:
    """Hooks on the operations of a graph, for the edges where a gradient becomes 0."""

    def __init__(
        self,
        root: Optional[Node],
        weights: Dict[str, torch.Tensor],
        smallest: float,
        origins: Any,
        hooks: Any,
    ) -> None:
        self.edges: List[Zero] = []
        self._hooks = hooks
        self._origins = origins
        self._smallest = smallest
        """Of the largest value of an incoming gradient: less counts as 0."""
        self._names = {id(each): name for name, each in weights.items()}
        nodes = list(graphs.nodes(root))
        self._parents = graphs.parents_of(nodes)
        self._reached: Dict[Any, int] = {}
        """Operations -> how many others gave them a gradient other than 0."""
        self._sums: Dict[Any, torch.Tensor] = {}
        """Operations with one result that several others read -> the sum of their gradients."""
        for node in nodes:
            node.register_hook(self._hook(node))

    def _hook(self, node: Node) -> Callable[[Arguments, Arguments], None]:
        def hook(outgoing: Any, incoming: Any) -> None:
            if len(self.edges) >= MOST_ZEROS:
                return
            arrived = [each for each in incoming if each is not None and not is_zero(each)]
            total = self._sums.pop(node, None)
            if arrived:
                self._compare(node, max(map(peak, arrived)), outgoing)
            elif node in self._reached:
                cancelled = is_zero(total) and self._hooks.of(node) is None
                kind = "cancelled" if cancelled else "result hook"
                self._add(kind, node, zero_reasons.NOTHING, node)

        return hook

    def _sum(self, following: Any, gradient: torch.Tensor) -> None:
        """Add up what the operations that read one result return for it."""
        before = self._sums.get(following)
        self._sums[following] = gradient if before is None else before + gradient

    def _compare(self, node: Node, largest: float, outgoing: Any) -> None:
        """Record the edges on which nothing leaves an operation, or far less than arrived."""
        for index, ((following, result), gradient) in enumerate(zip(node.next_functions, outgoing)):
            if following is None:
                continue
            if gradient is None:
                self._add("none", node, zero_reasons.NOTHING, following)
                continue
            if gradient.numel() and peak(gradient) <= self._smallest * largest:
                self._add(*self._explained(node, index, gradient, largest), following=following)
            if not is_zero(gradient):
                self._reached[following] = self._reached.get(following, 0) + 1
                if result == 0 and len(self._parents.get(following, ())) > 1:
                    self._sum(following, gradient)

    def _explained(
        self, node: Node, index: int, gradient: Any, largest: float
    ) -> Tuple[str, Any, Any]:
        if peak(gradient) > 0.0:
            text = "from %.2g to %.2g" % (largest, peak(gradient))
            return "small", node, zero_reasons.Reason(text, True)
        if index in SUMS.get(node.name().rstrip("0123456789"), ()):
            return "cancelled", node, zero_reasons.NOTHING
        if graphs.passes_on(node):
            return "zero", node, zero_reasons.unread(node, self._parents, follow_step.line_of)
        return "zero", node, zero_reasons.reason(node, index, self._names, self._origins)

    def _add(self, kind: str, node: Node, reason: Any, following: Any) -> None:
        self.edges.append(Zero(kind, node, following, reason))


def zeros(
    training: Training,
    loss: Foreign,
    weights: Dict[str, torch.Tensor],
    modules: Any,
    hooks: Any,
    origins: Any,
    small: bool,
) -> List[Dict[str, Any]]:
    """The operations nearest to the loss that turn the gradients of these parameters to 0; with
    `small`, those that make them far smaller. `hooks` are the
    gradient_hooks.Hooks and `origins` the zero_origins.ZeroOrigins of the forward pass."""
    recorder = Recorder(loss.grad_fn, training.weights, SMALL if small else 0.0, origins, hooks)
    for each in weights.values():
        hooks.watch(each)
    (training.scaler.scale(loss) if training.scaler else loss).backward()
    places: Dict[Key, Set[str]] = {}
    made_zero: Dict[Key, Any] = {}
    missing = {id(each): name for name, each in weights.items() if small or is_gone(each.grad)}
    # What cancels had a gradient; beside it a term of weight 0, as an entropy bonus, is no reason.
    for edge in sorted(recorder.edges, key=lambda each: each.kind != "cancelled"):
        reached = {
            missing[id(leaf)] for leaf in graphs.leaves(edge.following) if id(leaf) in missing
        }
        if reached:
            key = described(edge, modules.of_node.get(edge.node, ""), hooks)
            places.setdefault(key, set()).update(reached)
            made_zero.setdefault(key, edge.reason.origin)
            missing = {key: name for key, name in missing.items() if name not in reached}
    for identity, name in missing.items():
        if hook := hooks.of_tensors.get(identity):
            places.setdefault(of_hook(hook), set()).add(name)
    return records(places, made_zero)


def described(edge: Zero, inside: str, hooks: Any) -> Key:
    kind, node, _, reason = edge
    code, place = follow_step.line_of(node)
    hook = hooks.of(node)
    if hook and hasattr(node, "variable"):
        return of_hook(hook)
    if node.name().startswith(MODULE_HOOK) and hooks.of_modules:
        names = dict.fromkeys("%s (of %s)" % (each.text, each.of) for each in hooks.of_modules)
        remarks = dict.fromkeys(each.remark for each in hooks.of_modules if each.remark)
        joined = ", ".join(names), place, code, inside, ", ".join(remarks)
        return ("result hook", *joined, True)
    if kind == "result hook":
        text, remark = (hook.text, hook.remark) if hook else ("a hook", "")
        return kind, text, place, code, inside, remark, True
    own = line_of_backward(node)
    text = "%s, at %s" % (reason.text, own) if own and reason.text else reason.text or own
    return kind, node.name(), place, code, inside, text, reason.certain


MODULE_HOOK = "BackwardHookFunction"
"""The operation by which torch calls the hooks of register_full_backward_hook."""


def of_hook(hook: Zeroing) -> Key:
    """For the hook of a parameter."""
    return "hook", hook.name, hook.place, "", "", hook.remark, True


def line_of_backward(node: Node) -> str:
    """The place of the backward() of an autograd function of Python, "" of any other."""
    function = getattr(getattr(node, "_forward_cls", None), "backward", None)
    return line_of_function(function)[1] if function is not None else ""


def is_zero(gradient: Optional[torch.Tensor]) -> bool:
    return gradient is not None and gradient.numel() > 0 and not bool(gradient.any())


def is_gone(gradient: Optional[torch.Tensor]) -> bool:
    """Whether there is no gradient, or only zeros."""
    return gradient is None or is_zero(gradient)
