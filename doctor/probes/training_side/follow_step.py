"""Where in a training step values stop being finite: a module, the loss, an operation.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
`walk` puts hooks on the modules; `anomaly`, which is slow, puts them on autograd's operations.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
import wire

training_step = wire.sibling("training_step")
inspect_step = wire.sibling("inspect_step")

spoiled, spoiled_and_no_mask = inspect_step.spoiled, inspect_step.spoiled_and_no_mask

SHOWN = 8
FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*\n\s*(?P<code>\S.*)?')
OWN_FOLDERS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.abspath(__file__)))


class Hooks:
    """Hooks on every module: the first whose output is spoiled though its inputs are not.

    Where the inputs are spoiled already and no module made them, the one that calls it did.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.first: Optional[Tuple[str, torch.nn.Module]] = None
        self._inside: List[Tuple[str, torch.nn.Module]] = []
        self._handles = []
        for name, each in module.named_modules():
            self._handles.append(
                each.register_forward_pre_hook(self._before(name), with_kwargs=True)
            )
            self._handles.append(each.register_forward_hook(self._after(name)))

    def __enter__(self) -> Hooks:
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, name: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            if self.first is None and self._inside and _spoiled_inputs((args, kwargs)):
                self.first = self._inside[-1]
            self._inside.append((name, module))

        return hook

    def _after(self, name: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            if self._inside and self._inside[-1][1] is module:
                self._inside.pop()
            if self.first is None and _any_spoiled(output):
                self.first = name, module

        return hook


def _any_spoiled(value: Any) -> bool:
    return any(spoiled(each) for _, each in _tensors(value))


def _spoiled_inputs(value: Any) -> bool:
    return any(spoiled_and_no_mask(name, each.detach()) for name, each in _tensors(value))


def _tensors(value: Any, name: str = "") -> Iterator[Tuple[str, torch.Tensor]]:
    """Every tensor in what a module takes or returns, each with its last name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif hasattr(value, "items") and hasattr(value, "keys"):
        for key, each in value.items():
            yield from _tensors(each, str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each, name)


def walk(asked: Any, stage: Any) -> Dict[str, Any]:
    """The step and the place in it where values stop being finite; {} where none do."""
    with stage("allocate"):
        subject = asked.build()
        training = asked.training(subject)
    found: Dict[str, Any] = {}
    with Hooks(subject.module) as hooks:
        for number in range(1, training_step.STEPS + training_step.MORE_WHILE_SKIPPED + 1):
            step = training.step(stage)
            found = _place(training, hooks, step)
            if found:
                wire.tell(note={"walk": dict(found, step=number)})
                if not step["skipped"]:
                    break
            elif number >= training_step.STEPS:
                break
    return dict(found, step=number) if found else {}


def _place(training: Any, hooks: Hooks, step: Dict[str, Any]) -> Dict[str, Any]:
    """Where this step stopped being finite, if it did."""
    if hooks.first is not None:
        name, module = hooks.first
        return {"born": "module", "first_module": name, "first_module_type": type(module).__name__}
    if isinstance(step["loss"], str):
        return {"born": "loss"}
    weights = training.weights
    grads = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    # Huge elements are finite, and their norm is not.
    bad = [name for name, grad in grads.items() if spoiled(grad) or spoiled(grad.float().norm())]
    if bad:
        return {"born": "gradient", "bad_gradients": _shortened(bad)}
    if bad := [n for n, w in weights.items() if spoiled(w)]:
        return {"born": "update", "bad_gradients": _shortened(bad)}
    return {}


def _shortened(names: List[str]) -> List[str]:
    rest = len(names) - SHOWN
    return names[:SHOWN] + (["%d more" % rest] if rest > 0 else [])


# The operation whose gradient is not finite


def anomaly(asked: Any, stage: Any, number: int) -> Dict[str, Any]:
    """The first operation of that step's backward pass that turns finite gradients into others.

    autograd's anomaly detection keeps where in the code each operation was called. Its own test
    is for NaN alone, which is one operation late where a gradient is inf, so that is not used.
    """
    with stage("allocate"):
        training = asked.training(asked.build())
    for _ in range(number - 1):
        training.step(stage)
    seen: List[Any] = []
    with stage("anomaly detection"), torch.autograd.detect_anomaly(check_nan=False):
        for weight in training.weights.values():
            weight.grad = None
        with training.autocast():
            loss = training.subject.loss(training.subject.module, training.subject.batch)
        for node in _nodes(loss.grad_fn):
            node.register_hook(_watching(node, seen))
        (training.scaler.scale(loss) if training.scaler else loss).backward()
    return {"operation": _called(seen[0])} if seen else {}


def _nodes(root: Any) -> Iterator[Any]:
    waiting, known = [root], {root}
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in known:
                known.add(following)
                waiting.append(following)


def _watching(node: Any, seen: List[Any]) -> Any:
    def hook(made: Any, given: Any) -> None:
        if not seen and _any_spoiled(made) and not _any_spoiled(given):
            seen.append(node)

    return hook


def _called(node: Any) -> str:
    """ "SqrtBackward0, of `x.sqrt()` in train.py, line 12"."""
    frames = [FRAME.match(line) for line in node.metadata.get("traceback_", ())]
    own = [f for f in frames if f and not f["file"].startswith(OWN_FOLDERS)]
    said: str = node.name()
    if own:
        frame = own[-1]
        code = "`%s` in " % frame["code"].strip() if frame["code"] else ""
        said += ", of %s%s, line %s" % (code, os.path.basename(frame["file"]), frame["line"])
    return said
