"""The recorded machines by area, each with the verdict that it must get."""

from __future__ import annotations

from doctor.report.report import Outcome

FIX, READY, RETURN, UNKNOWN = Outcome.FIX, Outcome.READY, Outcome.RETURN, Outcome.UNKNOWN

AREAS: dict[str, dict[str, Outcome]] = {
    "healthy": {
        "h100_torch2.15": READY,
        "a100": READY,
        "rtx4090": READY,
        "two_a100": READY,
        "mi300_rocm": READY,
        "cpu_only": READY,
    },
    "unreadable": {
        "nothing_readable": UNKNOWN,
        "agreed_and_unread": UNKNOWN,
        "no_driver": FIX,
        "hung_driver": RETURN,
        "torch_import_fails": FIX,
    },
    "expected": {
        "as_agreed": READY,
        "not_as_agreed": RETURN,
    },
    "torch_build": {
        "old_driver": FIX,
        "cpu_torch_beside_gpu": FIX,
        "rtx5090_torch2.6": FIX,
        "v100_torch2.11": FIX,
        "two_cudnns": FIX,
    },
    "gpu": {
        "gb10": READY,
        "mig_slice": FIX,
        "busy_gpu": FIX,
        "row_remap_failed": RETURN,
        "throttled": READY,
        "slow_card": READY,
        "wrong_product": RETURN,
        "xid_during_run": RETURN,
        "load_hangs": RETURN,
        "broken_p2p": RETURN,
    },
    "numerics": {
        "h200_torch2.11": READY,
        "titan_rtx_bf16": FIX,
        "t4": READY,
        "fp32_with_leftovers": READY,
        "attention_wrong": FIX,
        "attention_crash": FIX,
        "attention_own_shape": FIX,
        "attention_switched_off": READY,
        "attention_implementation": READY,
        "attention_unfinished": READY,
    },
    "host": {
        "shm_64mib": FIX,
        "cgroup_limit": FIX,
        "full_disk": FIX,
    },
    "checkpoint": {
        "frozen_norms": FIX,
        "swallowed_updates": FIX,
        "fp32_checkpoint": READY,
        "bf16_adapter": UNKNOWN,
        "missing_shard": FIX,
        "mixed_checkpoint": READY,
    },
    "training": {
        "smoke_segfault": FIX,
        "smoke_hang": FIX,
        "smoke_nan": FIX,
        "smoke_norms_unmoved": FIX,
        "smoke_no_gradient": FIX,
        "diagnosed_cudnn": FIX,
        "diagnosed_nothing_mends": FIX,
        "diagnosed_comes_and_goes": FIX,
        "diagnosed_hang_with_flash": FIX,
        "own_fp16": READY,
        "own_lora": READY,
        "own_lora_transformers4.57": READY,
        "own_factory_raises": FIX,
        "own_silent_adapters": FIX,
        "own_nan": FIX,
        "own_scaler_bf16": FIX,
        "own_images": UNKNOWN,
    },
}
"""Area -> machine -> verdict. `healthy` machines get no warning, failure or unknown, and their
reports are kept whole; of the others the warnings, failures and unknowns are kept."""

OUTCOMES = {name: outcome for area in AREAS.values() for name, outcome in area.items()}
