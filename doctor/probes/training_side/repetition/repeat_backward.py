"""A backward pass that raised, repeated once: the line that overwrote a value, the place where the
graph ends; freed_graphs.py observes a graph that was freed.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import graphs, observing, places, stack_frames
from ..gradients import gradient_cuts
from ..subject.training_step import loss_of
from ..values import follow_step, value_origins, watched_modules
from . import freed_graphs, own_functions

NO_DERIVATIVE = "derivative for aten::"
OVERWRITTEN, NO_GRAPH = "modified by an inplace operation", "does not require grad"
BACKWARD = re.compile(r"Error detected in (\w+)")
FORWARD_LINE = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in .*\n\s*(?P<code>.*)')
MOST = 3
Records = List[Dict[str, Any]]


def backward(training: Any, error: BaseException) -> Dict[str, Any]:
    text = str(error)
    if NO_GRAPH in text:
        return without_graph(training)
    return {"observations": observations(training, error, text)}


def observations(training: Any, error: BaseException, text: str) -> Records:
    if OVERWRITTEN in text:
        return overwritten(training)
    if "a second time" in text:
        return freed_graphs.twice(training)
    if NO_DERIVATIVE in text:
        return line_of(training, "NotImplemented")
    if "has changed the size of value" in text or "hook" in text:
        return hooks(training)
    if operation := OPERATION.search(text):
        return line_of(training, operation[1])
    if own_functions.NAMED.search(text):
        with own_functions.calls() as applied:
            loss_of(training)
        return own_functions.observations(error, applied)
    return []


OPERATION = re.compile(r"Function (\w+Backward\d+) returned an invalid gradient")
"""An operation of torch itself, whose gradients do not fit."""


def line_of(training: Any, name: str) -> Records:
    """The forward line of the first operation of that name."""
    with torch.autograd.detect_anomaly(check_nan=False):
        loss = loss_of(training)
    for node in graphs.nodes(loss.grad_fn):
        if name in node.name():
            code, place = follow_step.line_of(node)
            line = {"place": place, "code": code}
            return [{"type": "Operation", "name": node.name(), "line": line}] if place else []
    return []


class Changes(TorchFunctionMode):
    """The calls that changed a tensor in place, and the memory that each line has used."""

    def __init__(self, names: Dict[int, str]) -> None:
        super().__init__()
        self._names = names
        self.changed: List[Tuple[str, str, int, str, int]] = []
        """Place, code, memory, parameter and number of the call of each change."""
        self.used: Dict[str, Set[int]] = {}
        self.last: Dict[str, int] = {}
        """Place -> number of its last call."""
        self._calls = 0
        self._alive: List[torch.Tensor] = []
        """Tensors that were changed: no other gets their memory."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        options = kwargs or {}
        before = [(each, version(each)) for each in value_origins.tensors((args, options))]
        result = func(*args, **options)
        (place, code), _ = places.innermost()
        self._calls += 1
        self.last[place] = self._calls
        memory = self.used.setdefault(place, set())
        memory.update(
            observing.storage_address(each)
            for each in value_origins.tensors((args, options, result))
        )
        for each, number in before:
            if version(each) != number:
                name = self._names.get(id(each), "")
                self.changed.append(
                    (place, code, observing.storage_address(each), name, self._calls)
                )
                self._alive.append(each)
        return result


def version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return -1


def overwritten(training: Any) -> Records:
    """The forward line whose value autograd needed, and the lines that changed that memory."""
    module = training.subject.module
    changes = Changes({id(weight): name for name, weight in module.named_parameters()})
    losses: List[Any] = []
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly(False):
        warnings.simplefilter("always")
        try:
            with changes:
                loss = loss_of(training)
            losses.append(loss)
            torch.autograd.backward(loss)
            return []
        except RuntimeError as again:
            if OVERWRITTEN not in str(again):
                return []
    text = "\n".join(str(each.message) for each in caught)
    name = BACKWARD.search(text)
    lines = [m for m in FORWARD_LINE.finditer(text) if not _hidden(m["file"])]
    if not name or not lines:
        return []
    last = lines[-1]
    place = "%s, line %s" % (last["file"].replace("\\", "/").rpartition("/")[2], last["line"])
    memory = changes.used.get(place, set())
    of_memory = [each for each in changes.changed if each[2] in memory]
    after = [each for each in of_memory if each[4] > changes.last.get(place, 0)]
    culprits = after or of_memory  # the line may run several times
    changed = list(dict.fromkeys(each[:2] for each in culprits if each[0]))
    parameters = list(dict.fromkeys(each[3] for each in culprits if each[3]))
    return [
        {
            "type": "Saved",
            "operation": re.sub(r"Backward\d*$", "", name[1]),
            "line": {"place": place, "code": last["code"].strip()},
            "changed": [{"place": each[0], "code": each[1]} for each in changed[:MOST]],
            "parameters": parameters[:MOST],
        }
    ]


def _hidden(file: str) -> bool:
    return bool(stack_frames.is_library(file)) or file.startswith(stack_frames.HIDDEN)


def without_graph(training: Any) -> Dict[str, Any]:
    """Where the paths from the parameters to the loss end, and the decorator that ends them."""
    modules = watched_modules.Modules(training.subject.module)
    paths = gradient_cuts.Paths(training.weights, modules, 0.0)
    without = WithoutGrad()
    with modules.watched(), paths.with_functions(), paths, without:
        loss = loss_of(training)
    if loss.requires_grad:
        return {}
    by_place: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for cut in gradient_cuts.ends(paths, set(training.weights), loss):
        by_place.setdefault((cut["kind"], cut["place"]), cut)
    cuts = sorted(by_place.values(), key=lambda cut: -len(cut["parameters"]))[:MOST]
    records = [{"type": "NoGradFunction", "function": without.function}] if without.function else []
    return {"cuts": cuts, "observations": records}


class WithoutGrad(TorchFunctionMode):
    """Remembers the first function of the user that a decorator runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.function = ""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if not self.function and not torch.is_grad_enabled():
            self.function = decorated()
        return func(*args, **(kwargs or {}))


def decorated() -> str:
    """The innermost function that runs inside a context manager used as a decorator."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "decorate_context" and "func" in frame.f_locals:
            function = frame.f_locals["func"]
            name, place = places.line_of_function(function)
            if place and not _hidden(getattr(function, "__code__").co_filename):  # noqa: B009
                return "%s in %s" % (name, place)
        frame = frame.f_back
    return ""


def hooks(training: Any) -> Records:
    """The hooks on gradients of parameters."""
    records = []
    for name, weight in training.weights.items():
        for hook in (getattr(weight, "_backward_hooks", None) or {}).values():
            function, place = places.line_of_function(hook)
            fields = {"function": function, "on": name, "place": place or "a library"}
            records.append({"type": "Hook", "kind": "gradient", **fields})
    return records[:MOST]
