"""Where the values that a function of torch gets come from: the function that made them, its line,
and the parameters, buffers and tensors of the batch that they were computed from.
"""

from __future__ import annotations

import inspect
import weakref
from typing import Any, Dict, FrozenSet, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing, places
from ..subject import unregistered

RESHAPING = (
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "expand", "expand_as", "t",
    "T", "mT", "transpose", "permute", "movedim", "swapaxes", "view_as", "repeat_interleave",
    "__getitem__", "unbind", "chunk", "split", "contiguous", "clone", "detach", "data",
    "requires_grad_", "to", "type", "type_as", "float", "half", "bfloat16", "double", "cpu", "cuda",
)  # fmt: skip
"""Functions whose result holds values of their input."""


class Origin(NamedTuple):
    """What made a tensor."""

    function: str
    """"" of a parameter, a buffer or a tensor of the batch itself."""
    place: str
    names: Optional[FrozenSet[str]]
    """Parameters, buffers and tensors of the batch that it was computed from; None: several."""


class Called(TorchFunctionMode):
    """The function of torch that is being called from outside of it, its inputs, and the origins of
    all tensors that were seen."""

    def __init__(
        self, module: torch.nn.Module, batch: Foreign, passing: Sequence[str] = RESHAPING
    ) -> None:
        """`passing`: functions whose result is what their first input is."""
        super().__init__()
        self._passing = passing
        self.name = ""
        self.function: Any = None
        self.inputs: Tuple[Any, Dict[str, Any]] = ((), {})
        self._origins: Dict[int, Tuple[Any, Origin]] = {}
        for name, weight in module.named_parameters():
            self._note(weight, Origin("", "", frozenset(["the parameter " + name])))
        buffers = dict(module.named_buffers())
        for name, each in unregistered.states(module).items():
            kind = "the buffer " if name in buffers else "the tensor "
            self._note(each, Origin("", "", frozenset([kind + name])))
        for name, each in containers.tensors(batch).items():
            self._note(each, Origin("", "", frozenset([in_batch(name)])))

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        name = observing.function_name(func)
        self.name, self.function, self.inputs = name, func, (args, options)
        try:
            result = func(*args, **options)
        finally:
            self.name, self.function, self.inputs = "", None, ((), {})
        made = list(tensors(result))
        if made and name not in ("dim", "size", "shape", "device", "dtype"):
            self._follow(name, (args, options), made)
        return result

    def _follow(self, name: str, inputs: Foreign, made: Foreign) -> None:
        entries = [self.of(each) for each in tensors(inputs)]
        known = [each for each in entries if each is not None]
        if name in self._passing and known:
            origin = known[0]
        else:
            sources = [each.names for each in known]
            names = None if None in sources else frozenset().union(*filter(None, sources))
            several = names is None or len(names) > 1
            origin = Origin(name.strip("_"), places.innermost()[0][0], None if several else names)
        for each in made:
            self._note(each, origin)

    def _note(self, tensor: torch.Tensor, origin: Origin) -> None:
        try:
            self._origins[id(tensor)] = weakref.ref(tensor), origin
        except TypeError:  # a subclass without weak references
            return

    def of(self, tensor: torch.Tensor) -> Optional[Origin]:
        """What made this tensor; None if it is not known."""
        reference, origin = self._origins.get(id(tensor), (None, None))
        return origin if reference is not None and reference() is tensor else None

    def outer(self, inner: torch.Tensor) -> Optional[torch.Tensor]:
        """The input of the function that is being called that this tensor inside of it is."""
        outside, memory = list(tensors(self.inputs)), observing.memory_of(inner)
        same = [each for each in outside if observing.memory_of(each) == memory != (0, 0)]
        return same[0] if same else outside[0] if len(outside) == 1 else None

    def arguments(self) -> Dict[str, Any]:
        """The arguments of the function that is being called, by their names; {} if unknown."""
        try:
            bound = inspect.signature(self.function).bind(*self.inputs[0], **self.inputs[1])
        except (TypeError, ValueError):
            return {}
        return dict(bound.arguments)

    def public(self) -> str:
        """The name of that function, if it is one of torch.nn.functional."""
        module = getattr(self.function, "__module__", None)
        return self.name if module == "torch.nn.functional" else ""


def in_batch(name: str) -> str:
    """ "x of the batch", "part [0] of the batch"."""
    part = "part " if name.startswith("[") else ""
    return "the batch" if name == "batch" else "%s%s of the batch" % (part, name)


def tensors(value: Foreign) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in dict.values(value):
            yield from tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def described(origin: Optional[Origin], place: str) -> str:
    """ "the result of norm of the parameter proto in train.py, line 8"; `place` is that of the
    reader, which is not repeated. "" if the origin is not known."""
    if origin is None:
        return ""
    names = "".join(origin.names or ())
    if not origin.function:
        return names
    of = " of %s" % names if names else ""
    where = " in %s" % origin.place if origin.place not in ("", place) else ""
    return "the result of %s%s%s" % (origin.function, of, where)
