"""Commands that several rows name."""

from __future__ import annotations

LD_PATHS = ('echo "$LD_LIBRARY_PATH" "$LD_PRELOAD"',)
WHO_USES_IT = ("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",)
KERNEL_LOG = ("sudo dmesg | grep -iE 'xid|nvrm'",)
