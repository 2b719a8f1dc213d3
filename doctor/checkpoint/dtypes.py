"""Dtypes by safetensors' names."""

from __future__ import annotations

HALVES = ("BF16", "F16")

_OF_BITS = {
    4: "F4",
    6: "F6_E2M3 F6_E3M2",
    8: "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
    16: "I16 U16 F16 BF16",
    32: "I32 U32 F32",
    64: "C64 F64 I64 U64",
}
BITS = {name: bits for bits, names in _OF_BITS.items() for name in names.split()}
"""Bits of one element, by safetensors' names of the dtypes."""
