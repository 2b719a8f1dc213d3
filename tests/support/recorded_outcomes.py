"""The verdict that each recorded machine gets."""

from __future__ import annotations

from recorded_parts import variants

from doctor.report.report import Outcome

AREAS: dict[str, dict[str, Outcome]] = {
    "healthy": {
        "h100_torch2.15": Outcome.READY,
        "a100": Outcome.READY,
        "rtx4090": Outcome.READY,
        "t4": Outcome.READY,
        "two_a100": Outcome.READY,
        "mi300_rocm": Outcome.READY,
        "cpu_only": Outcome.READY,
    },
    "unreadable": {
        "nothing_readable": Outcome.UNKNOWN,
        "agreed_and_unread": Outcome.UNKNOWN,
        "no_driver": Outcome.FIX,
        "hung_driver": Outcome.RETURN,
        "torch_import_fails": Outcome.FIX,
    },
    "expected": {
        "as_agreed": Outcome.READY,
        "not_as_agreed": Outcome.RETURN,
    },
    "torch_build": {
        "old_driver": Outcome.FIX,
        "cpu_torch_beside_gpu": Outcome.FIX,
        "rtx5090_torch2.6": Outcome.FIX,
        "v100_torch2.11": Outcome.FIX,
        "two_cudnns": Outcome.FIX,
        "cublas_refuses": Outcome.FIX,
    },
    "gpu": {
        "gb10": Outcome.READY,
        "mig_slice": Outcome.FIX,
        "slow_card": Outcome.READY,
        "wrong_product": Outcome.RETURN,
        "xid_during_run": Outcome.RETURN,
        "load_hangs": Outcome.RETURN,
        "broken_p2p": Outcome.RETURN,
    },
    "numerics": {
        "h200_torch2.11": Outcome.READY,
        "titan_rtx_bf16": Outcome.FIX,
        "fp32_with_leftovers": Outcome.READY,
        "attention_wrong": Outcome.FIX,
        "attention_crash": Outcome.FIX,
        "attention_own_shape": Outcome.FIX,
        "attention_switched_off": Outcome.READY,
        "attention_implementation": Outcome.READY,
        "attention_unfinished": Outcome.READY,
    },
    "host": {
        "shm_64mib": Outcome.FIX,
        "cgroup_limit": Outcome.FIX,
        "full_disk": Outcome.FIX,
    },
    "checkpoint": {
        "frozen_norms": Outcome.FIX,
        "swallowed_updates": Outcome.FIX,
        "fp32_checkpoint": Outcome.READY,
        "bf16_adapter": Outcome.UNKNOWN,
        "missing_shard": Outcome.FIX,
        "files_of_two_models": Outcome.FIX,
        "merged_twice": Outcome.FIX,
        "mixed_checkpoint": Outcome.READY,
    },
    "training": {
        "smoke_segfault": Outcome.FIX,
        "smoke_hang": Outcome.FIX,
        "smoke_nan": Outcome.FIX,
        "smoke_norms_unmoved": Outcome.FIX,
        "smoke_no_gradient": Outcome.FIX,
        "diagnosed_cudnn": Outcome.FIX,
        "diagnosed_nothing_mends": Outcome.FIX,
        "diagnosed_comes_and_goes": Outcome.FIX,
        "diagnosed_hang_with_flash": Outcome.FIX,
        "own_fp16": Outcome.READY,
        "own_lora": Outcome.READY,
        "own_lora_transformers4.57": Outcome.READY,
        "own_factory_raises": Outcome.FIX,
        "own_silent_adapters": Outcome.FIX,
        "own_nan": Outcome.FIX,
        "own_norms_in_bf16": Outcome.FIX,
        "own_scaler_bf16": Outcome.FIX,
        "own_images": Outcome.UNKNOWN,
    },
}
"""Area -> machine -> expected verdict. `healthy` machines have no warning, failure or unknown."""

for name, (area, outcome, _) in variants().items():
    AREAS[area][name] = outcome

OUTCOMES = {name: outcome for area in AREAS.values() for name, outcome in area.items()}
