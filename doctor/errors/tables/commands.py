"""Commands that several rows name."""

from __future__ import annotations

LD_PATHS = ('echo "$LD_LIBRARY_PATH" "$LD_PRELOAD"',)
WHO_USES_IT = ("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",)
KERNEL_LOG = ("sudo dmesg | grep -iE 'xid|nvrm'",)
MEMORY_FAULT = (
    "A cell of the GPU's memory failed, and ECC could not correct it. No setting of the job "
    "matters.",
    "Move the job to another machine. Rented: return this one and report the GPU's UUID. Your own: "
    "drain the node; once nothing uses the GPU, reset it (sudo nvidia-smi -i N --gpu-reset) or "
    "reboot: since Ampere that replaces the row. If the error comes back, or a row cannot be "
    "remapped, replace the GPU.",
    ("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", *KERNEL_LOG),
)
"""Reason, fix and commands of an error that ECC cannot correct."""
