"""A step that raised, repeated once under observation: the call that refused its arguments, or the
state of the optimizer; repeat_backward.py observes the backward pass.

The repetition has a time limit of its own, and counts only if it raises the same error.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ... import wire
from ..foreign import descriptions, observing
from ..foreign.module_hooks import module_hooks
from ..gradients import graph_ends
from ..subject import subjects
from ..subject.training_step import loss_of
from ..values import value_origins
from . import freed_graphs, index_ranges, joined_shapes, own_functions, repeat_backward

SECONDS, TIMES, MOST_SECONDS = 3.0, 3.0, 30.0
"""Limit of a repetition: seconds, and as many times what the training took until it raised."""
NAMES = {
    "linear": ("input", "weight", "bias"),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d"),
        ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    ),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
}
"""Functions without a signature -> the names of their first arguments."""
NOT_REPEATED = ("CUDA error", "out of memory")
"""The device is in no state for a repetition."""
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def observe(training: Any, stage: str, error: BaseException, took: float) -> Dict[str, Any]:
    """More fields of doctor.facts.raised.Raised for an error of that stage; {} if there are none.

    A thread runs it, which is abandoned at its limit; `took` are the seconds until the error.
    """
    module = training.subject.module
    if stage not in OBSERVERS or subjects.is_compiled(module):
        return {}
    if any(text in str(error) for text in NOT_REPEATED):
        return {}
    fields: Dict[str, Any] = {}

    def run() -> None:
        try:
            fields.update(OBSERVERS[stage](training, error))
        except Exception as failure:
            wire.send(note={"repeat": wire.describe(failure)})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(SECONDS + TIMES * took, MOST_SECONDS))
    return {} if thread.is_alive() else dict(fields)


def same(again: BaseException, error: BaseException) -> bool:
    return type(again) is type(error) and str(again)[:200] == str(error)[:200]


# The forward pass


class Calls(TorchFunctionMode):
    """Remembers the last function of torch that raised, and its arguments."""

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.error: Optional[BaseException] = None
        self.call: Tuple[Any, Any, Any] = (None, (), {})
        self.sizes = joined_shapes.Sizes(samples)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        name = observing.own_name(func)
        try:
            result = func(*args, **(kwargs or {}))
        except Exception as error:
            self.error, self.call = error, (func, args, kwargs or {})
            raise
        self.sizes.follow(name, args, kwargs or {}, result)
        return result


def forward(training: Any, error: BaseException) -> Dict[str, Any]:
    """The function of torch that raised, with its arguments; the module that returned None."""
    samples = subjects.first_dimension(training.subject.batch) or 0
    calls, ends, module = Calls(samples), graph_ends.Ends(), training.subject.module
    losses = freed_graphs.Losses()
    origins = value_origins.Called(module, training.subject.batch)
    returned: Dict[str, Dict[str, Any]] = {}
    noted = module_hooks(module, after=functools.partial(_note_result, returned))
    try:
        with noted, losses, calls, ends, origins, own_functions.calls() as applied:
            loss_of(training)
    except Exception as again:
        if not same(again, error):
            return {}
        records = [
            *returned.values(),
            *losses.shared(error),
            *own_functions.observations(error, applied),
        ]
        fields: Dict[str, Any] = {"observations": records, **graph_ends.cuts(ends)}
        if calls.error is again:
            names = {id(weight): name for name, weight in module.named_parameters()}
            function, args, kwargs = calls.call
            records += joined_shapes.observations(calls.sizes, args, kwargs)
            records += index_ranges.observations(error, function, (args, kwargs), origins)
            fields["function"] = observing.own_name(function, str(function))
            fields["operands"] = descriptions.operands(bound(function, args, kwargs), names)
            if "ZeroDivision" in str(error):
                records += divisor(args[0] if fields["function"].startswith("__r") else args[-1])
        return fields
    return {}


def divisor(value: Any) -> List[Dict[str, Any]]:
    """The zeros in the divisor of whole numbers."""
    zeros = (torch.as_tensor(value) == 0).cpu()
    at = zeros.nonzero().tolist()[: index_ranges.SHOWN] if zeros.dim() else []
    count = int(zeros.sum())
    fields = {"zeros": count, "values": zeros.numel(), "at": at}
    return [{"type": "ZeroDivisor", **fields}] if count else []


def _note_result(
    returned: Dict[str, Dict[str, Any]], name: str, module: Any, args: Any, output: Any
) -> None:
    """Notes the last module that returned None, and the last that returned a tuple."""
    if output is None or type(output) in (tuple, list):
        kind = "None" if output is None else type(output).__name__
        fields = {"module": name or "the model", "kind": type(module).__name__, "value": kind}
        returned[kind] = {"type": "Returned", **fields}


def bound(function: Any, args: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments by their names; those of a function without names by "", " ", ..."""
    arguments: Dict[str, Any] = {}
    names = NAMES.get(observing.function_name(function), ())
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


# The optimizer


def optimizer(training: Any, error: BaseException) -> Dict[str, Any]:
    """State of the user's optimizer that has another shape than its parameter, and absent keys."""
    if training.update is None:
        return {}
    mine = training.update.optimizer
    kind, records = type(mine).__name__, []
    names = {id(weight): name for name, weight in training.weights.items()}
    for name, key, value in states(mine, names):
        shape, required = list(value.shape), list(training.weights[name].shape)
        if shape and shape != required:
            fields = {"key": key, "parameter": name, "shape": shape, "required": required}
            records.append({"type": "OptimizerState", "optimizer": kind, **fields})
            break
    absent = [key for key in mine.defaults if any(key not in g for g in mine.param_groups)]
    if absent:
        others = [key for key in mine.param_groups[0] if key not in ("params", *mine.defaults)]
        fields = {"absent": absent, "others": others}
        records.append({"type": "OptimizerGroups", "optimizer": kind, **fields})
    return {"observations": records}


def states(optimizer: Any, names: Dict[int, str]) -> Iterator[Tuple[str, str, torch.Tensor]]:
    for weight, state in optimizer.state.items():
        if id(weight) in names and isinstance(state, dict):
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield names[id(weight)], key, value


def scheduler(training: Any, error: BaseException) -> Dict[str, Any]:
    """The schedule with its numbers; it is not stepped again."""
    schedule = training.update.scheduler
    numbers = {
        name: value
        for name, value in vars(schedule).items()
        if type(value) in (int, float) and not name.startswith("_")
    }
    record = {"type": "Schedule", "kind": type(schedule).__name__, "numbers": numbers}
    return {"observations": [record]}


OBSERVERS: Dict[str, Callable[[Any, BaseException], Dict[str, Any]]] = {
    "forward": forward,
    "backward": repeat_backward.backward,
    "optimizer": optimizer,
    "scheduler": scheduler,
}
