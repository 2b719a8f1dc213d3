"""Tensors that report a CUDA device and keep their values on the CPU.

It proves code, not hardware: no GPU, driver, kernel or timing is exercised, only the branches that
Python takes when torch says it has GPUs.

`Pretend` is a wrapper subclass whose C++ tensor carries the device cuda:i, so that autograd,
autocast, views and optimizers treat it as a CUDA tensor by themselves, and every operation arrives
in `__torch_dispatch__`, which runs it on the CPU tensor inside. Factories arrive as kernels that
are registered for the dispatch key CUDA, so CPU tensors pay nothing. As on CUDA, an operation on
tensors of two devices raises, scalars of the CPU excepted.

Tensors of more than HOLLOW elements have no values: their inside is on the device "meta", and what
is read of them is 0. So are products of more than WORK operations. The clock of a GPU is pretended
too (see `spend`), for torch.cuda.Event.
"""

from __future__ import annotations

import ctypes
import math
import re
import weakref
from typing import Any

import pretend_record
import torch  # noqa: TID253 - this file is run in the training interpreter only
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten  # noqa: TID253

CONFIG = pretend_record.CONFIG
COUNT = int(CONFIG["count"])
HOLLOW, WORK = 1 << 23, 1 << 31
OUT_OF_RANGE = re.compile(r"out of bounds|index out of range in self")
"""In the error of the CPU, where a kernel of a GPU ends the context."""
ASSERTION = (
    "/pytorch/aten/src/ATen/native/cuda/Kernels.cu:16: %s: block: [0,0,0], thread: [0,0,0] "
    "Assertion `ind >=0 && ind < ind_dim_size` failed."
)
LAUNCH = 3e-6
"""Pretended seconds of the smallest kernel."""
RESERVED = 1 << 29
"""Bytes that the driver and a context take of each GPU."""
ACROSS = ("copy_", "_to_copy", "_foreach_copy_", "_copy_from", "set_")
"""Operations that take tensors of several devices."""
INDEXED = ("index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index_put")
"""Operations whose indices may be on the CPU."""
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_int_mm")
FACTORIES = (
    "empty.memory_format", "empty_strided", "empty_permuted", "scalar_tensor", "full", "eye",
    "eye.m", "zeros", "ones", "arange", "arange.start", "arange.start_step", "linspace", "rand",
    "rand.generator", "randn", "randn.generator", "randint", "randint.low", "randint.generator",
    "randint.low_generator", "randperm", "randperm.generator", "tril_indices", "triu_indices",
    "normal.float_float", "_efficientzerotensor",
)  # fmt: skip
CLOCK = [0.0] * COUNT
ALLOCATED, PEAK = [0] * COUNT, [0] * COUNT
_holders: dict[tuple[int, int], int] = {}
"""(device, storage) -> tensors that hold it."""
ACCELERATOR = ctypes.CDLL(CONFIG["library"])
"""accelerator.cpp, which holds the device that "cuda" means."""


def touch(index: int) -> None:
    if index >= COUNT:
        raise torch.AcceleratorError("CUDA error: invalid device ordinal")
    pretend_record.touch(index, torch.AcceleratorError)


def name_of(func: Any) -> str:
    """ "mm" of aten::mm.out."""
    return str(func._schema.name.rpartition("::")[2])


def work_of(func: Any, tensors: list[torch.Tensor]) -> int:
    """Multiplications and additions of a matrix product; 0 for anything else."""
    name = name_of(func)
    if name not in PRODUCTS:
        return 0
    left, right = tensors[1:3] if name in ("addmm", "baddbmm") else tensors[:2]
    return 2 * left.numel() * right.shape[-1]


def spend(index: int, func: Any, tensors: list[torch.Tensor]) -> None:
    """Move the GPU's clock on, by the operations of a product or the bytes of anything else."""
    rates = CONFIG["rates"]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    seconds = size / rates["copy"]
    if work := work_of(func, tensors):
        names = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        kind = names.get(tensors[0].dtype, "fp32")
        if kind == "fp32" and torch.backends.cuda.matmul.fp32_precision == "tf32":
            kind = "tf32"
        seconds = max(seconds, work / rates[kind])
    elif name_of(func) in ACROSS and len({tensor.device for tensor in tensors}) > 1:
        seconds = size / 2 / rates["host"]
    CLOCK[index] += LAUNCH + seconds


def _release(index: int, storage: int, size: int) -> None:
    key = (index, storage)
    _holders[key] -= 1
    if not _holders[key]:
        del _holders[key]
        ALLOCATED[index] -= size


def _hold(elem: torch.Tensor, index: int) -> None:
    """Count the memory of a storage for as long as a tensor of the GPU holds it."""
    storage, size = elem.untyped_storage(), elem.untyped_storage().nbytes()
    key = (index, storage._cdata)
    if key not in _holders:
        if ALLOCATED[index] + size > CONFIG["memory"] - RESERVED:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size / 2**20:.2f} MiB. GPU {index} has a "
                f"total capacity of {CONFIG['memory'] / 2**30:.2f} GiB"
            )
        ALLOCATED[index] += size
        PEAK[index] = max(PEAK[index], ALLOCATED[index])
    _holders[key] = _holders.get(key, 0) + 1
    weakref.finalize(elem, _release, index, storage._cdata, size).atexit = False


class Pretend(torch.Tensor):
    """A tensor on cuda:`index` whose values are in `elem`, on the CPU."""

    elem: torch.Tensor
    index: int
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem: torch.Tensor, index: int) -> Any:
        made: Any = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=torch.device("cuda", index),
        )
        _hold(elem, index)
        made.elem, made.index = elem, index
        return made

    def __init__(self, *_: Any) -> None: ...

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        torch._C.TensorBase.data.__set__(self, value)  # type: ignore[attr-defined]
        self.elem, self.index = value.elem, value.index

    def __tensor_flatten__(self) -> Any:
        return ["elem"], self.index

    @staticmethod
    def __tensor_unflatten__(inner: Any, index: Any, size: Any, stride: Any) -> Any:
        return Pretend(inner["elem"], index)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy.")

    def untyped_storage(self) -> Any:
        return self.elem.untyped_storage()

    def data_ptr(self) -> int:
        return self.elem.data_ptr()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.elem.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self, **_: Any) -> str:
        return f"{self.elem!r} on cuda:{self.index}"

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        flat, spec = tree_flatten((args, kwargs))
        target = kwargs.get("device")
        index = at(func, flat) if target is None else index_of(target)
        if index is not None:
            touch(index)
        ours = {id(each.elem): each for each in flat if isinstance(each, Pretend)}
        inner = [inside(each) for each in flat]
        tensors = [each for each in inner if isinstance(each, torch.Tensor)]
        for each in {each.index for each in ours.values()}:
            spend(each, func, tensors)
        hollow = any(each.is_meta for each in tensors) or work_of(func, tensors) > WORK
        if hollow and func is torch.ops.aten._local_scalar_dense.default:
            return 0
        run = [each.to("meta") if hollow and isinstance(each, torch.Tensor) else each
               for each in inner]  # fmt: skip
        if not hollow and index is not None and pretend_record.forgets(index, name_of(func)):
            tensors[0].view(-1)[5] = 1
        made_args, made_kwargs = tree_unflatten(run, spec)
        if hollow and target is not None:
            made_kwargs["device"] = torch.device("meta")
        try:
            result = func(*made_args, **made_kwargs)
        except (IndexError, RuntimeError) as error:
            if index is None or not OUT_OF_RANGE.search(str(error)):
                raise
            pretend_record.fail_kernel(ASSERTION % name_of(func), torch.AcceleratorError)
        if hollow and func._schema.is_mutable:
            return changed(func, args, kwargs)

        def outside(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if id(value) in ours:
                view = ours[id(value)]
                if view.shape != value.shape:
                    raise NotImplementedError(f"{func} changes a shape in place")
                return view
            return onto(value, index)

        return tree_map(outside, result)


def inside(value: Any) -> Any:
    """An argument as the operation on the CPU takes it."""
    if isinstance(value, Pretend):
        return value.elem
    return torch.device("cpu") if isinstance(value, torch.device) else value


def onto(value: torch.Tensor, index: int | None) -> Any:
    """A result on the GPU, or on the CPU where `index` is None; only large ones stay hollow."""
    if value.is_meta and (index is None or value.numel() <= HOLLOW):
        value = torch.zeros(value.shape, dtype=value.dtype)
    return value if index is None else Pretend(value, index)


def changed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation on hollow tensors writes into: values that it would have, it sets to 0."""
    schema, written = func._schema.arguments, []
    for number, argument in enumerate(schema):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(each, torch.Tensor) and not inside(each).is_meta:
                    inside(each).zero_()
            written.append(value)
    return written[0] if len(written) == 1 else tuple(written)


def index_of(device: Any) -> int | None:
    """The GPU that a device names; None for the CPU."""
    device = torch.device(device)
    if device.type != "cuda":
        return None
    return ACCELERATOR.pretend_current() if device.index is None else device.index


def at(func: Any, flat: list[Any]) -> int | None:
    """The device of an operation's result. Raises where it mixes devices."""
    tensors = [each for each in flat if isinstance(each, torch.Tensor)]
    name = name_of(func)
    if name in ACROSS:
        first = tensors[0]
        return first.index if isinstance(first, Pretend) else None
    of_gpus = {each.index for each in tensors if isinstance(each, Pretend)}
    others = [each for each in tensors if not isinstance(each, Pretend) and each.dim()]
    if name in INDEXED and isinstance(tensors[0], Pretend):
        others = [each for each in others if each.dtype.is_floating_point]
    if not name.startswith("_foreach") and (len(of_gpus) > 1 or others):
        devices = sorted(f"cuda:{each}" for each in of_gpus) + ["cpu"] * bool(others)
        message = "Expected all tensors to be on the same device, but found at least two devices"
        raise RuntimeError(f"{message}, {devices[0]} and {devices[1]}!")
    return min(of_gpus)


def kernel(op: Any) -> Any:
    """A factory for CUDA."""

    def make(*args: Any, **kwargs: Any) -> Any:
        index = index_of(kwargs.pop("device"))
        assert index is not None
        touch(index)
        kwargs.pop("pin_memory", None)
        shape = next((each for each in args if isinstance(each, (list, tuple))), ())
        if math.prod(shape) > HOLLOW:
            made = torch.ops.aten.empty.memory_format(
                shape, dtype=kwargs.get("dtype"), device="meta"
            )
        else:
            made = op(*args, device="cpu", **kwargs)
        spend(index, op, [made])
        return Pretend(made, index)

    return make


LIBRARY = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Give the dispatch key CUDA its factories."""
    ACCELERATOR.pretend_devices(COUNT)
    torch.autograd.set_multithreading_enabled(False)  # its threads would be those of real GPUs
    for name in FACTORIES:
        base, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        LIBRARY.impl(op, kernel(op), "CUDA")
