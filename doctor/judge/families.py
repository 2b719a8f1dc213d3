"""The families of checks, in display order, with their headings."""

from __future__ import annotations

FAMILIES = {
    "JOB": "expected hardware", "DRV": "driver", "TOR": "torch build", "GPU": "device",
    "NUM": "numeric settings", "MEM": "memory", "DSK": "storage", "CKP": "checkpoint",
    "SMK": "smoke step", "DAT": "data that reach the model", "SCR": "training script",
    "RHS": "rehearsal", "GRD": "running training", "LOG": "training log", "FLT": "several nodes",
}  # fmt: skip
