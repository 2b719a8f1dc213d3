"""A callback of transformers that examines the machine before the first step.

from preflight_doctor.callback import PreflightCallback

trainer = Trainer(..., callbacks=[PreflightCallback()])
"""

from __future__ import annotations

import warnings
from typing import Any, Unpack

from transformers import TrainerCallback  # noqa: TID253 - who imports this module has it

import preflight_doctor
from preflight_doctor import NotReadyError, Settings

DEVICES = ("cuda", "cpu", "mps")
"""Types of devices that the doctor can examine."""


class PreflightCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Raises NotReadyError, before the first step, where the machine is not ready.

    The device, precision, output directory and batch size are those of the TrainingArguments, and
    `quick` is True; a model in bf16 without autocast is examined as such. `settings` of
    `preflight_doctor.run` override them. On each node one process examines the machine, while the
    others wait in their first collective. On a device that the doctor has no checks for it warns.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        self._settings = settings

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the Trainer."""
        if not state.is_local_process_zero:
            return
        settings = _settings(args, kwargs.get("model")) | self._settings
        if settings["device"] not in DEVICES:
            warnings.warn(f"not examined: no checks for {settings['device']}", stacklevel=2)
            return
        report = preflight_doctor.run(**settings)
        if report.outcome != "ready":
            raise NotReadyError(report)


def _settings(args: Any, model: Any) -> Settings:
    """The training as the TrainingArguments and the weights state it."""
    settings = Settings(
        quick=True,
        device=args.device.type,
        precision="bf16" if args.bf16 else "fp16" if args.fp16 else "fp32",
        output_dir=str(args.output_dir),
        batch_size=args.per_device_train_batch_size,
    )
    if settings["precision"] == "fp32" and str(getattr(model, "dtype", "")) == "torch.bfloat16":
        return settings | Settings(precision="bf16", recipe="pure-bf16")
    return settings
