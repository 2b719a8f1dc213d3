"""The globals that torch.load(weights_only=True) imports by itself, and where versions differ."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.checkpoint.formats.torch_dtypes import DTYPES, STORAGE_KINDS

_KINDS = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte")
_REBUILD = (
    *("device_tensor_from_cpu_tensor", "device_tensor_from_numpy", "meta_tensor_no_storage"),
    *("nested_tensor", "parameter", "parameter_with_state", "qtensor", "sparse_tensor", "tensor"),
    *("tensor_v2", "tensor_v3", "wrapper_subclass"),
)
_SCHEMES = (
    *("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric"),
    *("per_tensor_affine", "per_tensor_symmetric"),
)

ALLOWED = frozenset(
    {
        *("_codecs.encode", "builtins.bytearray", "builtins.complex", "builtins.set"),
        *("collections.Counter", "collections.OrderedDict", "torch.Size", "torch.Tensor"),
        *("torch._tensor._rebuild_from_type_v2", "torch.device", "torch.nn.parameter.Parameter"),
        *("torch.serialization._get_layout", "torch.storage.TypedStorage"),
        *("torch.storage.UntypedStorage",),
        *(f"torch._utils._rebuild_{name}" for name in _REBUILD),
        *(f"torch.{name}" for name in _SCHEMES),
        *(DTYPES.keys() - {"torch.bcomplex32"}),
        *(f"torch.{name}Storage" for name in STORAGE_KINDS),
        *(f"torch.cuda.{name}Storage" for name in STORAGE_KINDS if name[0] != "Q"),
        *(f"torch.{place}{name}Tensor" for place in ("", "cuda.") for name in (*_KINDS, "Bool")),
        *(f"torch.{place}sparse.{name}Tensor" for place in ("", "cuda.") for name in _KINDS),
    }
)
"""What torch.load(weights_only=True) imports in torch 2.8 to 2.13, where no one has added to it."""

_IN_2_2 = (
    *("torch._utils._rebuild_nested_tensor", "torch._utils._rebuild_tensor_v3"),
    *("torch.float8_e4m3fn", "torch.float8_e5m2"),
)
_IN_2_3 = (
    *("collections.Counter", "torch._utils._rebuild_wrapper_subclass", "torch.bits16"),
    *("torch.bits1x8", "torch.bits2x4", "torch.bits4x2", "torch.bits8", "torch.bfloat16"),
    *("torch.bool", "torch.uint8", "torch.device", "torch.float8_e4m3fnuz"),
    *("torch.float8_e5m2fnuz", "torch.qint32", "torch.qint8", "torch.quint2x4", "torch.quint4x2"),
    *("torch.quint8",),
    *(f"torch._utils._rebuild_{name}" for name in ("parameter_with_state", "qtensor")),
    *(f"torch.{name}" for name in _SCHEMES),
)
_IN_2_5 = (
    *("_codecs.encode", "builtins.bytearray", "builtins.complex", "builtins.set"),
    *("torch._utils._rebuild_device_tensor_from_cpu_tensor",),
    *("torch._utils._rebuild_device_tensor_from_numpy", "torch.uint16", "torch.uint32"),
    *("torch.uint64",),
)
_NARROW = tuple(f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8))
SINCE = {
    "torch.bcomplex32": "2.14",
    **dict.fromkeys(_IN_2_2, "2.2"),
    **dict.fromkeys(_IN_2_3, "2.3"),
    **dict.fromkeys(_IN_2_5, "2.5"),
    **dict.fromkeys((*_NARROW, "torch.float8_e8m0fnu"), "2.7"),
    "torch.float4_e2m1fn_x2": "2.8",
}
"""The first torch that may allow it, as read from 2.1.2, 2.2.2, 2.4.1, 2.6.0 and 2.7.1 to 2.15.0;
of a release between two of them the older one counts."""
UNTIL = {"torch._utils._rebuild_nested_tensor": "2.15"}
"""The first torch that no longer allows it."""
NEWEST = "2.15"
"""The newest torch whose list was read; it stands for one that is not known."""

ALIASES = {"torch.UntypedStorage": "torch.storage.UntypedStorage"}
"""Other names under which torch allows the same."""


def refused(imports: Iterable[str]) -> tuple[str, ...]:
    """Globals that torch.load(weights_only=True) refuses."""
    return tuple(name for name in imports if ALIASES.get(name, name) not in ALLOWED)
