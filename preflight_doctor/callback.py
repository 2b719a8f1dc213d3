"""A callback of transformers that examines the machine before the first step.

from preflight_doctor.callback import PreflightCallback

trainer = Trainer(..., callbacks=[PreflightCallback()])
"""

from __future__ import annotations

from typing import Any, Unpack

from transformers import TrainerCallback  # noqa: TID253 - who imports this module has it

import preflight_doctor
from preflight_doctor import NotReadyError, Settings


class PreflightCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Raises NotReadyError, before the first step, where the machine is not ready.

    The device, precision, output directory and batch size are those of the TrainingArguments, and
    `quick` is True; `settings` of `preflight_doctor.run` override them. On each node one process
    examines the machine, while the others wait in their first collective.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        self._settings = settings

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the Trainer."""
        if not state.is_local_process_zero:
            return
        job = Settings(
            quick=True,
            device=args.device.type,
            precision="bf16" if args.bf16 else "fp16" if args.fp16 else "auto",
            output_dir=str(args.output_dir),
            batch_size=args.per_device_train_batch_size,
        )
        report = preflight_doctor.run(**(job | self._settings))
        if report.outcome != "ready":
            raise NotReadyError(report)
