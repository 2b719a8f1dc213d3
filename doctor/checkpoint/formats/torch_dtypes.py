"""torch's dtypes by safetensors' names."""

from __future__ import annotations

from doctor.checkpoint.dtypes import BITS

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn_x2": "F4",
    "complex64": "C64", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip

_WITHOUT_A_NAME = {
    "complex128": 128, "complex32": 32, "bcomplex32": 32, "quint8": 8, "qint8": 8, "qint32": 32,
    "quint4x2": 8, "quint2x4": 8, "bits8": 8, "bits16": 16, "bits1x8": 8, "bits2x4": 8,
    "bits4x2": 8, **{f"{sign}int{bits}": 8 for sign in ("", "u") for bits in range(1, 8)},
}  # fmt: skip
"""Bits of an element of the dtypes that safetensors does not have; they keep torch's names."""

DTYPES = {
    **{f"torch.{name}": name_there for name, name_there in _NAMES.items()},
    **{f"torch.{name}": name for name in _WITHOUT_A_NAME},
}
"""safetensors' names, by torch's."""

STORAGE_KINDS = {
    "Double": "F64", "Float": "F32", "Half": "F16", "BFloat16": "BF16", "Long": "I64", "Int": "I32",
    "Short": "I16", "Char": "I8", "Byte": "U8", "Bool": "BOOL", "ComplexFloat": "C64",
    "ComplexDouble": "complex128", "QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32",
    "QUInt4x2": "quint4x2", "QUInt2x4": "quint2x4",
}  # fmt: skip
"""The dtype of a typed storage, by the start of its class's name."""

STORAGES = {
    **{f"torch.{name}Storage": dtype for name, dtype in STORAGE_KINDS.items()},
    **{f"torch.cuda.{name}Storage": dtype for name, dtype in STORAGE_KINDS.items()},
    "torch.storage.UntypedStorage": "U8",
    "torch.storage._UntypedStorage": "U8",
    "torch.UntypedStorage": "U8",
    "torch.cuda.UntypedStorage": "U8",
}
"""The dtype of a storage's class; those without one count in bytes."""

ITEM = {
    **{dtype: bits // 8 for dtype, bits in BITS.items() if bits >= 8},
    **{dtype: bits // 8 for dtype, bits in _WITHOUT_A_NAME.items()},
    "F4": 1,
}
"""Bytes of what torch counts as one element; of F4 it holds two."""
