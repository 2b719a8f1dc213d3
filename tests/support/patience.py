"""Bounds in seconds that healthy work may exceed on a busy machine, out of reach for the tests.

A test of a bound sets it itself.
"""

from __future__ import annotations

import importlib

OUT_OF_REACH = 500.0
BOUNDS = {
    "doctor.cli.init_template": ("DIRECTORY_SECONDS",),
    "doctor.cli.job_file": ("CONFIG_SECONDS",),
    "doctor.collect.attention_trial": (
        "TRIAL_SECONDS",
        "ALL_SECONDS",
        "QUICK_SECONDS",
        "IMPLEMENTATIONS_SECONDS",
    ),
    "doctor.collect.gpus": ("LOAD_SECONDS", "WATCH_SECONDS"),
    "doctor.collect.other_seed": ("AT_MOST", "SECONDS"),
    "doctor.collect.own_training": ("ATTEMPT_SECONDS", "OWN_SECONDS"),
    "doctor.collect.own_variants": ("LORA_SECONDS", "COMPILE_SECONDS"),
    "doctor.collect.peers": ("BEGIN_SECONDS", "PEER_SECONDS"),
    "doctor.collect.session": ("PLACE_SECONDS", "CHECKPOINT_SECONDS"),
    "doctor.collect.torch_child": (
        "IMPORT_SECONDS",
        "CUDA_SECONDS",
        "KERNEL_SECONDS",
        "SMOKE_SECONDS",
    ),
    "doctor.collect.training_gpus": ("LIST_SECONDS", "END_SECONDS"),
}
IN_THE_PROBE = f"""
def spoil(torch):
    import importlib
    def probe(name):
        return importlib.import_module("_doctor_probes.training_side." + name)
    probe("stages.more_steps").SECONDS = {OUT_OF_REACH}
    probe("values.first_nonfinite").SAMPLE_SECONDS = {OUT_OF_REACH}
    step = probe("repetition.repeat_step")
    step.SECONDS = step.MOST_SECONDS = {OUT_OF_REACH}
"""
"""For an interpreter of shims.py."""


def wait_for_a_busy_machine() -> None:
    """Set the bounds of this process."""
    for module, names in BOUNDS.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name)
            setattr(importlib.import_module(module), name, OUT_OF_REACH)
