"""Where in a training step values stop being finite: a module, the loss, an operation.

`walk` puts hooks on the modules; `anomaly`, which is slow, puts them on autograd's operations.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch

from ... import wire
from ...wire import PROBES
from ..foreign import Arguments, Foreign, Options, containers, graphs
from ..foreign.module_hooks import module_hooks
from ..subject import training_step
from ..subject.plan import Plan
from ..subject.timed import Timed
from ..subject.training_step import Training
from .inspect_step import nonfinite, nonfinite_and_not_mask

if TYPE_CHECKING:
    from torch.autograd.graph import Node

MAX_NAMES = 8
FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*\n\s*(?P<code>\S.*)?')
HIDDEN_DIRECTORIES = (os.path.dirname(torch.__file__), PROBES)


class Hooks:
    """Hooks on every module: the first whose output is not finite although its inputs are.

    If its inputs are already not finite and no module produced them, the calling module did.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.first: Optional[Tuple[str, torch.nn.Module]] = None
        self._inside: List[Tuple[str, torch.nn.Module]] = []
        self.watching = module_hooks(module, self._before, self._after)

    def _before(self, name: str, module: torch.nn.Module, args: Arguments, kwargs: Options) -> None:
        if self.first is None and self._inside and _nonfinite_inputs((args, kwargs)):
            self.first = self._inside[-1]
        self._inside.append((name, module))

    def _after(self, name: str, module: torch.nn.Module, args: Arguments, output: Foreign) -> None:
        if self._inside and self._inside[-1][1] is module:
            self._inside.pop()
        if self.first is None and _any_nonfinite(output):
            self.first = name, module


def _any_nonfinite(value: Foreign) -> bool:
    return any(map(nonfinite, containers.tensors(value).values()))


def _nonfinite_inputs(value: Foreign) -> bool:
    tensors = containers.tensors(value).items()
    return any(nonfinite_and_not_mask(name, each.detach()) for name, each in tensors)


def walk(plan: Plan, stage: Timed) -> Dict[str, Any]:
    """The step and the place in it where values stop being finite; {} if all are finite."""
    with stage("allocate"):
        subject = plan.build()
        training = plan.training(subject)
    place: Dict[str, Any] = {}
    hooks = Hooks(subject.module)
    with hooks.watching:
        for number in range(1, training_step.STEPS + training_step.MORE_WHILE_SKIPPED + 1):
            step = training.step(stage)
            place = _place(training, hooks, step)
            if place:
                wire.send(note={"walk": dict(place, step=number)})
                # A scaler that skips is still calibrating gradients; outputs do not depend on it.
                if not step["skipped"] or place["born"] != "gradient":
                    break
            elif number >= training_step.STEPS:
                break
    return dict(place, step=number) if place else {}


def _place(training: Training, hooks: Hooks, step: Dict[str, Any]) -> Dict[str, Any]:
    """Where this step stopped being finite, if it did."""
    if hooks.first is not None:
        name, module = hooks.first
        return {"born": "module", "first_module": name, "first_module_type": type(module).__name__}
    if isinstance(step["loss"], str):
        return {"born": "loss"}
    weights = training.weights
    grads = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    # Huge elements are finite, but their norm is not.
    bad = [n for n, grad in grads.items() if nonfinite(grad) or nonfinite(grad.float().norm())]
    if bad:
        return {"born": "gradient", "bad_gradients": _shortened(bad)}
    if bad := [n for n, w in weights.items() if nonfinite(w)]:
        return {"born": "update", "bad_gradients": _shortened(bad)}
    return {}


def _shortened(names: List[str]) -> List[str]:
    rest = len(names) - MAX_NAMES
    return names[:MAX_NAMES] + (["%d more" % rest] if rest > 0 else [])


# The operation whose gradient is not finite


def anomaly(plan: Plan, stage: Timed, number: int) -> Dict[str, Any]:
    """The first operation of that step's backward pass that turns finite gradients non-finite.

    autograd's anomaly detection records where in the code each operation was called. Its own
    check is for NaN only, which is one operation late if a gradient is inf, so it is not used.
    """
    with stage("allocate"):
        training = plan.training(plan.build())
    for _ in range(number - 1):
        training.step(stage)
    failed: List[Any] = []
    with stage("anomaly detection"), torch.autograd.detect_anomaly(check_nan=False):
        for weight in training.weights.values():
            weight.grad = None
        with training.autocast():
            loss = training.subject.loss(training.subject.module, training.subject.batch)
        for node in graphs.nodes(loss.grad_fn):
            node.register_hook(_recorder(node, failed))
        training_step.backpropagate(training.scaler.scale(loss) if training.scaler else loss)
    return {"operation": _describe(failed[0])} if failed else {}


def _recorder(node: Node, failed: List[Any]) -> Callable[[Arguments, Arguments], None]:
    def hook(outputs: Foreign, inputs: Foreign) -> None:
        if not failed and _any_nonfinite(outputs) and not _any_nonfinite(inputs):
            failed.append(node)

    return hook


def _describe(node: Node) -> str:
    """ "SqrtBackward0, of `x.sqrt()` in train.py, line 12"."""
    description: str = node.name()
    code, place = line_of(node)
    if place:
        description += ", of %s%s" % ("`%s` in " % code if code else "", place)
    return description


def line_of(node: Foreign) -> Tuple[str, str]:
    """The code and the place of the innermost visible line that called an operation."""
    frames = [FRAME.match(line) for line in node.metadata.get("traceback_", ())]
    visible = [f for f in frames if f and not f["file"].startswith((*HIDDEN_DIRECTORIES, "<"))]
    if not visible:
        return "", ""
    frame = visible[-1]
    return (frame["code"] or "").strip(), "%s, line %s" % (
        os.path.basename(frame["file"]),
        frame["line"],
    )
