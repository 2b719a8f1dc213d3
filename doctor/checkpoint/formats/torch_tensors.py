"""One tensor: what the functions that torch pickles it with say of its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_dtypes import DTYPES, ITEM, STORAGES
from doctor.checkpoint.pickle.nodes import Global, ObjectNode, Persistent, members, state_attributes
from doctor.checkpoint.tensors import Tensor

Place = Callable[[str], tuple[int, int]]
"""The key of a storage -> where its bytes begin and how many they are. Raises CheckpointError."""

WIDEST = 1 << 63
MOST_DIMENSIONS = 64

UTILS = "torch._utils._rebuild_"
PLAIN = {f"{UTILS}tensor": 4, f"{UTILS}tensor_v2": 4, f"{UTILS}tensor_v3": 7}
"""Functions that take a storage, an offset, a shape and strides; how many arguments they need."""

INNER = {
    f"{UTILS}parameter",
    f"{UTILS}parameter_with_state",
    f"{UTILS}device_tensor_from_cpu_tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
}
"""Functions whose first argument is a tensor with the same bytes."""

TYPED = {"torch._tensor._rebuild_from_type", "torch._tensor._rebuild_from_type_v2"}
"""Functions that are given a function, a class, its arguments and a state."""

WRAPPER = f"{UTILS}wrapper_subclass"

SPARSE = f"{UTILS}sparse_tensor"
SPARSE_ROWS = ("compressed_indices", "plain_indices", "values")
NESTED = f"{UTILS}nested_tensor"
NESTED_PARTS = ("values", "sizes", "strides", "offsets")

OPAQUE = {
    SPARSE: "sparse tensors",
    NESTED: "nested tensors",
    f"{UTILS}qtensor": "quantised tensors",
    f"{UTILS}meta_tensor_no_storage": "tensors of the meta device, without values",
    f"{UTILS}device_tensor_from_numpy": "tensors that are kept as numpy arrays",
    f"{UTILS}xla_tensor": "tensors that are kept as numpy arrays",
    WRAPPER: "tensors of subclasses",
}
"""Functions that make tensors of other kinds; the plain tensors in these are found."""


TENSORS = frozenset((*PLAIN, *INNER, *TYPED, *OPAQUE))
"""Functions that make tensors."""


def is_tensor(node: object) -> bool:
    """Whether a node is what torch makes a tensor of."""
    return type(node) is ObjectNode and node.name in TENSORS


def plain(function: str, args: tuple[object, ...], name: str, file: str, place: Place) -> Tensor:
    """The tensor that one of PLAIN makes. Raises CheckpointError."""
    if len(args) < PLAIN[function]:
        _damaged(name, "made of too few arguments")
    storage, offset, size, stride = args[:4]
    shape, strides = _sizes(size, name), _sizes(stride, name)
    dtype, begin, room = _storage(storage, name, place)
    if function.endswith("_v3"):
        dtype = _dtype(args[6], name)
    if type(offset) is not int or not 0 <= offset < WIDEST or len(shape) != len(strides):
        _damaged(name, "without an offset, or with strides that do not fit its shape")
    return _laid_out(name, dtype, shape, strides, file, (begin, offset, room))


def _storage(storage: object, name: str, place: Place) -> tuple[str, int, int]:
    """Its dtype, where it begins and the bytes that it says it has. Raises CheckpointError."""
    fields = storage.id if type(storage) is Persistent else None
    if type(fields) is not tuple or len(fields) not in (5, 6) or fields[0] != "storage":
        _damaged(name, "without a storage")
    _, kind, key, _, count, *views = fields
    dtype = STORAGES.get(kind.text) if type(kind) is Global else None
    if dtype is None:
        text = shown(kind.text) if type(kind) is Global else "no global"
        raise CheckpointError("not-inspectable", f"has {shown(name)} in a storage of class {text}")
    if type(key) is not str or type(count) is not int or not 0 <= count < WIDEST:
        _damaged(name, "in a storage without a key or a size")
    begin, size = place(key)
    declared = count * ITEM[dtype]
    if declared > size:
        text = f"in a storage of {size:,} bytes that says it has {declared:,}"
        _damaged(name, text)
    if views and views[0] is not None:
        return (dtype, *_view(views[0], begin, declared, ITEM[dtype], name))
    return dtype, begin, declared


def _damaged(name: str, text: str) -> NoReturn:
    raise CheckpointError("damaged", f"has {shown(name)} {text}")


def _view(view: object, begin: int, size: int, item: int, name: str) -> tuple[int, int]:
    """A storage inside another, as legacy files have them."""
    if type(view) is not tuple or len(view) != 3 or not all(type(n) is int for n in view[1:]):
        _damaged(name, "in a view of a storage that is described wrongly")
    _, offset, count = view
    if offset < 0 or count < 0 or (offset + count) * item > size:
        _damaged(name, "in a view that lies outside its storage")
    return begin + offset * item, count * item


def _sizes(value: object, name: str) -> tuple[int, ...]:
    sizes = value if type(value) is tuple else tuple(members(value))
    if len(sizes) > MOST_DIMENSIONS:
        _damaged(name, f"with {len(sizes):,} dimensions")
    for size in sizes:
        if type(size) is not int or not 0 <= size < WIDEST:
            _damaged(name, "with a shape or strides that are no sizes")
    return sizes


def _dtype(value: object, name: str) -> str:
    dtype = DTYPES.get(value.text) if type(value) is Global else None
    if dtype is None:
        class_name = shown(value.text) if type(value) is Global else "no global"
        raise CheckpointError("not-inspectable", f"has {shown(name)} of dtype {class_name}")
    return dtype


def _laid_out(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    file: str,
    place: tuple[int, int, int],
) -> Tensor:
    """`place`: where the storage begins, the tensor's offset in it, the storage's bytes."""
    elements, reach, dense = _extent(shape, strides)
    if elements >= WIDEST or reach >= WIDEST:
        _damaged(name, "with a shape of more than 2^63 elements")
    begin, offset, room = place
    item = ITEM[dtype]
    if not elements:
        return Tensor(name, dtype, shape, 0, file, begin, begin)
    if (offset + reach) * item > room:
        text = f"whose bytes end at {(offset + reach) * item:,} of a storage of {room:,}"
        _damaged(name, text)
    begin, end = begin + offset * item, begin + (offset + reach) * item
    if dtype == "F4" and dense and shape:  # torch counts pairs, safetensors what is in them
        shape, elements = (*shape[:-1], shape[-1] * 2), elements * 2
    elif dtype == "F4":
        dtype = "float4_e2m1fn_x2"
    return Tensor(name, dtype, shape, elements, file, begin, end, None if dense else strides)


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int, bool]:
    """Elements, how far they reach, and whether they lie in C order without gaps."""
    elements, reach, dense = 1, 1, True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1:
            dense = dense and stride == elements
            reach += (length - 1) * stride
        elements *= length
    return elements, reach, dense


def inside(node: ObjectNode) -> ObjectNode | None:
    """The tensor that has the bytes of a parameter, of a tensor of a class, or of a shard."""
    name, args = node.name, node.args
    if name in INNER:
        return args[0] if args and type(args[0]) is ObjectNode else None
    if name not in TYPED or len(args) < 4 or type(args[2]) is not tuple:
        return None
    function = args[0]
    if type(function) is Global and function.text == WRAPPER:
        local = state_attributes(args[3]).get("_local_tensor")
        return local if type(local) is ObjectNode else None
    return ObjectNode(function, args[2])
