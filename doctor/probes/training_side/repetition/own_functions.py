"""The user's torch.autograd.Function that an error names: what its forward takes and returns."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import torch

from ..foreign import observing, places

NAMED = re.compile(
    r"\b\w+Backward\b.* returned an in|\b(forward|backward|setup_context)\(\)|vjp method"
    r"|staticmethod|setup_context|^missing a required argument|^too many positional"
)
"""Errors of the call of such a function, of its gradients, and of what it does not define."""


class Applied(NamedTuple):
    """One call of such a function."""

    kind: Any
    line: Dict[str, str]
    shapes: List[Optional[List[int]]]
    """Of the arguments; None for what is no tensor."""
    outputs: Optional[int]
    """Tensors that forward returned; None if it raised."""


@contextlib.contextmanager
def calls() -> Iterator[List[Applied]]:
    """The functions that are applied meanwhile, in their order."""
    applied: List[Applied] = []

    def apply(original: Any, cls: Any, *args: Any, **options: Any) -> Any:
        shapes = [list(a.shape) if isinstance(a, torch.Tensor) else None for a in args]
        place, code = places.innermost()[0]
        applied.append(Applied(cls, {"place": place, "code": code}, shapes, None))
        number = len(applied) - 1
        result = original(cls, *args, **options)
        outputs = len(result) if isinstance(result, tuple) else 1
        applied[number] = applied[number]._replace(outputs=outputs)
        return result

    with observing.functions_called(apply):
        yield applied


def observations(error: BaseException, applied: List[Applied]) -> List[Dict[str, Any]]:
    """The function that the error names; [] if it names none of these."""
    if not NAMED.search(str(error)):
        return []
    named = [each for each in applied if is_named(each.kind, str(error))]
    last = named[-1] if named else applied[-1] if applied else None
    if last is None:
        return []
    parameters = parameters_of(last.kind)
    return [
        {
            "type": "OwnFunction",
            "name": last.kind.__name__,
            "place": line_of_class(last.kind),
            "backward": places.line_of_function(last.kind.backward)[1],
            "parameters": parameters,
            "arguments": names(parameters, len(last.shapes)),
            "shapes": last.shapes,
            "applied": last.line,
            "outputs": last.outputs,
        }
    ]


def is_named(kind: Any, message: str) -> bool:
    return bool(re.search(r"\b%s(Backward\b|\.)" % re.escape(kind.__name__), message))


def parameters_of(kind: Any) -> List[str]:
    """The names of what forward takes, ctx included."""
    try:
        return list(inspect.signature(kind.forward).parameters)
    except (TypeError, ValueError):
        return []


def names(parameters: List[str], count: int) -> List[str]:
    """The names of the arguments of apply(); "argument 2" where there is none."""
    own = [each for each in parameters if each not in ("ctx", "self", "_")]
    return [own[n] if n < len(own) else "argument %d" % n for n in range(count)]


def line_of_class(kind: Any) -> str:
    """The line of "class X" in its file, else that of its forward."""
    try:
        file, number = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
        return "%s, line %d" % (os.path.basename(file or ""), number)
    except (OSError, TypeError):
        return str(places.line_of_function(kind.forward)[1])
