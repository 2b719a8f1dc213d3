"""All rows. Of two that have a message, the first of equally frequent ones counts, so tables of
specific causes come before those of families. To import all takes longer than to start a command:
`doctor.errors.match` finds the rows of a text without it."""

from __future__ import annotations

from importlib import import_module

from doctor.errors.cause import Cause

ORDER = """
    kernel_modules machine_log host_log host_tools gpu_readings started installed fabric clocks
    accelerators moved_names pictures endings launching loading deepspeed quantized
    trainer_options hub contents versions building attention platforms containers schedulers
    ray_jobs simulators arguments batches gradients optimizers sizes transforms driver serving
    limits memory rocm cuda gpu kernels links communication processes sharding shapes layers types
    devices losses graph modules schedules datasets data model_files transformers values
    environment mixtures packages compilation files factory precision scaler statements
    symptoms_policy symptoms_metrics symptoms_inputs symptoms_loss symptoms_memory symptoms_speed
    symptoms_slowness symptoms_model symptoms_kinds symptoms_data circumstances conditions
    settings_training settings_learning settings_failures notices harmless
"""
"""The modules of `doctor.errors.tables`."""
TABLES = tuple(import_module(f"doctor.errors.tables.{name}") for name in ORDER.split())
CAUSES: tuple[Cause, ...] = tuple(cause for table in TABLES for cause in table.ROWS)
BY_ID = {cause.id: cause for cause in CAUSES}
