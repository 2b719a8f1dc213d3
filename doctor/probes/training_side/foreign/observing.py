"""Reading the user's objects: their attributes and methods may raise anything, and a training that
is observed goes on.
"""

from __future__ import annotations

import contextlib
import types
from typing import Callable, Iterator, Optional, Tuple, TypeVar, Union, overload

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import Foreign

Result = TypeVar("Result")
Default = TypeVar("Default")
ABSENT: Foreign = object()


def attribute(owner: Foreign, name: str, default: Foreign = None) -> Foreign:
    """getattr, whose default also stands for a getter that raises."""
    try:
        return getattr(owner, name, default)
    except Exception:
        return default


@contextlib.contextmanager
def replaced(owner: Foreign, name: str, by: Callable[[Foreign], Foreign]) -> Iterator[None]:
    """The attribute is what `by` makes of it, as its owner holds it, and then itself again."""
    original = vars(owner)[name]
    setattr(owner, name, by(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def functions_called(by: Callable[..., Foreign]) -> contextlib.AbstractContextManager[None]:
    """Each call of an autograd function of Python goes through `by`, which gets apply first."""

    def around(original: Foreign) -> Foreign:
        return classmethod(lambda *args, **options: by(original.__func__, *args, **options))

    return replaced(torch.autograd.Function, "apply", around)


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """torch's own, which has no types."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]


def stated(owner: Foreign, *names: str) -> Foreign:
    """The first of these attributes that the owner has and that is not None; else None."""
    return next((each for name in names if (each := attribute(owner, name)) is not None), None)


def has(owner: Foreign, name: str) -> bool:
    """hasattr, which is False of a getter that raises."""
    return attribute(owner, name, ABSENT) is not ABSENT


def attempt(read: Callable[[], Result], default: Default) -> Union[Result, Default]:
    """The result of an observation; the default if the user's objects raise in it."""
    try:
        return read()
    except Exception:
        return default


def code_of(function: Foreign) -> Optional[types.CodeType]:
    """The code of a function of Python or of a method; None of any other callable."""
    code = attribute(function, "__code__")
    return code if isinstance(code, types.CodeType) else None


@overload
def plain(value: torch.Tensor) -> torch.Tensor: ...
@overload
def plain(value: Foreign) -> Foreign: ...
def plain(value: Foreign) -> Foreign:
    """The same values without a graph and without the methods of a subclass of torch.Tensor; of
    anything else the value itself."""
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach()
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return value.detach().as_subclass(torch.Tensor)
    except Exception:  # a tensor that only its own methods can read
        return value.detach()


def own_name(function: Foreign, default: str = "") -> str:
    """The __name__ of a function, which what is only called like one lacks."""
    return str(getattr(function, "__name__", default))


def function_name(func: Foreign) -> str:
    """The name under which torch hands a function to a mode; of an attribute such as `.data`, whose
    getter is handed over, that of the attribute."""
    name = own_name(func)
    return own_name(func.__self__, name) if name == "__get__" else name


def content(cell: Foreign) -> Foreign:
    """The value of a variable around a function; None if it was not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def storage_address(tensor: torch.Tensor) -> int:
    """The address of a tensor's memory; 0 of one without a storage, as sparse tensors are."""
    return int(attempt(lambda: tensor.untyped_storage().data_ptr(), 0))


def memory_of(tensor: torch.Tensor) -> Tuple[int, int]:
    """The address and the number of a tensor's values; (0, 0) of one without a storage."""
    return attempt(lambda: (tensor.data_ptr(), tensor.numel()), (0, 0))
