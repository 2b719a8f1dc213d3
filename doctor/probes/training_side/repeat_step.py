"""A step that raised, repeated once under observation: the call that refused its arguments, the
operation that overwrote a value, the place where the graph ends.

Imported by own_stages.py; standard library and torch only, Python 3.9. The repetition has a time
limit of its own, and counts only if it raises the same error.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch
import wire
from torch.overrides import TorchFunctionMode

raised = wire.sibling("raised")
first_nonfinite = wire.sibling("first_nonfinite")
gradient_cuts = wire.sibling("gradient_cuts")
subjects = wire.sibling("subjects")

SECONDS = 20.0
OVERWRITTEN, NO_GRAPH = "modified by an inplace operation", "does not require grad"
NAMES = {
    "linear": ("input", "weight", "bias"),
    "conv1d": ("input", "weight", "bias"),
    "conv2d": ("input", "weight", "bias"),
    "conv3d": ("input", "weight", "bias"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
}
"""Functions without a signature -> the names of their first arguments."""
BACKWARD = re.compile(r"Error detected in (\w+)")
FORWARD_LINE = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in .*\n\s*(?P<code>.*)')
MOST = 3
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def observe(training: Any, stage: str, error: BaseException) -> Dict[str, Any]:
    """More fields of doctor.facts.raised.Raised for an error of that stage; {} if there are none.

    A thread runs it, which is abandoned after SECONDS.
    """
    module = training.subject.module
    if stage not in OBSERVERS or subjects.is_compiled(module) or "CUDA error" in str(error):
        return {}
    fields: Dict[str, Any] = {}

    def run() -> None:
        try:
            fields.update(OBSERVERS[stage](training, error))
        except Exception as failure:
            wire.send(note={"repeat": wire.describe(failure)})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return {} if thread.is_alive() else dict(fields)


def loss_of(training: Any) -> torch.Tensor:
    with training.autocast():
        subject = training.subject
        return subject.loss(subject.module, subject.batch)  # type: ignore[no-any-return]


def same(again: BaseException, error: BaseException) -> bool:
    return type(again) is type(error) and str(again)[:200] == str(error)[:200]


# The forward pass


class Calls(TorchFunctionMode):
    """Remembers the last function of torch that raised, and its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Optional[BaseException] = None
        self.call: Tuple[Any, Any, Any] = (None, (), {})

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            self.error, self.call = error, (func, args, kwargs or {})
            raise


def forward(training: Any, error: BaseException) -> Dict[str, Any]:
    """The function of torch that raised, with its arguments; the module that returned None."""
    calls, module = Calls(), training.subject.module
    returned: Dict[str, str] = {}
    handles = [
        each.register_forward_hook(_note_result(name or "the model", returned))
        for name, each in module.named_modules()
    ]
    try:
        with calls:
            loss_of(training)
    except Exception as again:
        if not same(again, error):
            return {}
        fields: Dict[str, Any] = {"observed": returned}
        if calls.error is again:
            names = {id(weight): name for name, weight in module.named_parameters()}
            function, args, kwargs = calls.call
            fields["function"] = getattr(function, "__name__", str(function))
            fields["operands"] = raised.operands(bound(function, args, kwargs), names)
        return fields
    finally:
        for each in handles:
            each.remove()
    return {}


def _note_result(name: str, returned: Dict[str, str]) -> Any:
    """Notes the last module that returned None, and the last that returned a tuple."""

    def hook(module: Any, args: Any, output: Any) -> None:
        if output is None or isinstance(output, (tuple, list)):
            kind = "None" if output is None else type(output).__name__
            returned["returned " + kind] = "%s (%s)" % (name, type(module).__name__)

    return hook


def bound(function: Any, args: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments by their names; those of a function without names by "", " ", ..."""
    arguments: Dict[str, Any] = {}
    names = NAMES.get(getattr(function, "__name__", ""), ())
    try:
        if not names:
            signature = inspect.signature(function)
            arguments.update(signature.bind(*args, **kwargs).arguments)
            arguments.pop("_stacklevel", None)
            return flat(arguments, signature)
    except (TypeError, ValueError):
        pass
    for number, value in enumerate(args):
        arguments[names[number] if number < len(names) else " " * number] = value
    return flat(dict(arguments, **kwargs))


def flat(arguments: Dict[str, Any], signature: Any = None) -> Dict[str, Any]:
    """The arguments, lists of tensors member by member, and those of *args."""
    result: Dict[str, Any] = {}
    for name, value in arguments.items():
        if signature is not None and signature.parameters[name].kind in VARIABLE:
            members = value if isinstance(value, dict) else dict(_numbered(value, " "))
            result.update(members)
            continue
        if (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(each, torch.Tensor) for each in value)
        ):
            inner = name.strip() or "tensors"
            result.update(("%s[%d]" % (inner, n), each) for n, each in enumerate(value))
        else:
            result[name] = value
    return result


def _numbered(values: Any, unit: str) -> Iterator[Tuple[str, Any]]:
    """Names of blanks, as many as the position: the argument has no name."""
    return ((unit * n, each) for n, each in enumerate(values))


# The backward pass


def backward(training: Any, error: BaseException) -> Dict[str, Any]:
    if OVERWRITTEN in str(error):
        return {"observed": overwritten(training, error)}
    if NO_GRAPH in str(error):
        return without_graph(training)
    if "a second time" in str(error):
        return {"observed": twice(training)}
    if "has changed the size of value" in str(error) or "hook" in str(error):
        return {"observed": hooks(training)}
    return {}


class Changes(TorchFunctionMode):
    """The calls that changed a tensor in place, and the memory that each line has used."""

    def __init__(self, names: Dict[int, str]) -> None:
        super().__init__()
        self._names = names
        self.changed: List[Tuple[str, str, int, str]] = []
        """Place, code, memory and parameter of each change."""
        self.used: Dict[str, Set[int]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        options = kwargs or {}
        before = [(each, version(each)) for each in gradient_cuts.tensors((args, options))]
        result = func(*args, **options)
        (place, code), _ = first_nonfinite.places()
        memory = self.used.setdefault(place, set())
        memory.update(address(each) for each in gradient_cuts.tensors((args, options, result)))
        for each, number in before:
            if version(each) != number:
                self.changed.append((place, code, address(each), self._names.get(id(each), "")))
        return result


def version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return -1


def address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except Exception:
        return 0


def overwritten(training: Any, error: BaseException) -> Dict[str, str]:
    """The forward line whose value autograd needed, and the lines that changed that memory."""
    module = training.subject.module
    changes = Changes({id(weight): name for name, weight in module.named_parameters()})
    kept: List[Any] = []
    with warnings.catch_warnings(record=True) as caught, torch.autograd.detect_anomaly(False):
        warnings.simplefilter("always")
        try:
            with changes:
                loss = loss_of(training)
            kept.append(loss)
            loss.backward()
            return {}
        except RuntimeError as again:
            if OVERWRITTEN not in str(again):
                return {}
    text = "\n".join(str(each.message) for each in caught)
    name = BACKWARD.search(text)
    lines = [m for m in FORWARD_LINE.finditer(text) if not _hidden(m["file"])]
    if not name or not lines:
        return {}
    last = lines[-1]
    place = "%s, line %s" % (last["file"].replace("\\", "/").rpartition("/")[2], last["line"])
    observed = {"operation": name[1], "saved": "%s (`%s`)" % (place, last["code"].strip())}
    memory = changes.used.get(place, set())
    culprits = [each for each in changes.changed if each[2] in memory]
    texts = ["%s (`%s`)" % each[:2] for each in culprits if each[0]]
    if texts:
        observed["changed"] = "; ".join(list(dict.fromkeys(texts))[:MOST])
    parameters = list(dict.fromkeys(each[3] for each in culprits if each[3]))
    if parameters:
        observed["parameters"] = ", ".join(parameters[:MOST])
    return observed


class Backwards(TorchFunctionMode):
    """The user's lines that call backward()."""

    def __init__(self) -> None:
        super().__init__()
        self.places: List[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if getattr(func, "__name__", "") == "backward":
            self.places.append("%s (`%s`)" % first_nonfinite.places()[0])
        return func(*args, **(kwargs or {}))


def twice(training: Any) -> Dict[str, str]:
    """The user's own call of backward(), and what is kept of a step with its graph."""
    subject, observed = training.subject, {}
    kept = wire.sibling("unregistered").with_graph(subject.module)
    function = subject.loss
    while isinstance(function, functools.partial):
        function = function.args[0] if function.args else function.func
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(function, "__closure__", None) or ()):
        members = gradient_cuts.tensors(_content(cell))
        if any(each.grad_fn is not None for each in members):
            kept.append(name)
    if kept:
        observed["kept"] = ", ".join(kept[:MOST])
    calls = Backwards()
    try:
        with calls:
            loss_of(training)
    except RuntimeError:
        pass
    if calls.places:
        observed["calls backward"] = calls.places[0]
    return observed


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _hidden(file: str) -> bool:
    return bool(raised.is_library(file)) or file.startswith(raised.HIDDEN)


def without_graph(training: Any) -> Dict[str, Any]:
    """Where the paths from the parameters to the loss end, and the decorator that ends them."""
    modules = gradient_cuts.Modules(training.subject.module)
    paths = gradient_cuts.Paths(training.weights, modules)
    without = WithoutGrad()
    with modules, paths.with_functions(), paths, without:
        loss = loss_of(training)
    if loss.requires_grad:
        return {}
    places: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for cut in gradient_cuts.ends(paths, set(training.weights)):
        places.setdefault((cut["kind"], cut["place"]), cut)
    cuts = sorted(places.values(), key=lambda cut: -len(cut["parameters"]))[:MOST]
    observed = {"decorated": without.function} if without.function else {}
    return {"cuts": cuts, "observed": observed}


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
            name, place = gradient_cuts.line_of_function(function)
            if place and not _hidden(getattr(function, "__code__").co_filename):  # noqa: B009
                return "%s in %s" % (name, place)
        frame = frame.f_back
    return ""


def hooks(training: Any) -> Dict[str, str]:
    """The parameters with hooks on their gradients, and those hooks."""
    found = []
    for name, weight in training.weights.items():
        for hook in (getattr(weight, "_backward_hooks", None) or {}).values():
            function, place = gradient_cuts.line_of_function(hook)
            found.append("%s: %s in %s" % (name, function, place or "a library"))
    return {"hooks": "; ".join(found[:MOST])} if found else {}


# The optimizer


def optimizer(training: Any, error: BaseException) -> Dict[str, Any]:
    """State of the user's optimizer that has another shape than its parameter, and absent keys."""
    update = training.update
    if update is None:
        return {}
    mine = update.optimizer
    observed: Dict[str, str] = {"optimizer": type(mine).__name__}
    names = {id(weight): name for name, weight in training.weights.items()}
    for name, key, value in states(mine, names):
        if value.dim() and list(value.shape) != list(training.weights[name].shape):
            shape = list(training.weights[name].shape)
            observed["state"] = "%s of %s is %s, the parameter %s" % (
                key, name, list(value.shape), shape)  # fmt: skip
            break
    absent = [key for key in mine.defaults if any(key not in g for g in mine.param_groups)]
    if absent:
        present = [key for key in mine.param_groups[0] if key not in ("params", *mine.defaults)]
        observed["absent"] = ", ".join(absent)
        observed["instead"] = ", ".join(present)
    return {"observed": observed}


def states(optimizer: Any, names: Dict[int, str]) -> Iterator[Tuple[str, str, torch.Tensor]]:
    for weight, state in optimizer.state.items():
        if id(weight) in names and isinstance(state, dict):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield names[id(weight)], key, value


OBSERVERS: Dict[str, Callable[[Any, BaseException], Dict[str, Any]]] = {
    "forward": forward,
    "backward": backward,
    "optimizer": optimizer,
}
