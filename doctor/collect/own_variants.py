"""The user's training in other forms: LoRA with checkpointing in every order, torch.compile."""

from __future__ import annotations

import tempfile
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.children import fit, read
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.facts.own_model import Compiled, LoraOrder

LORA_SECONDS = 90.0
COMPILE_SECONDS = 180.0
"""Compiling a model takes minutes, with a cold cache."""
ORDERS = (
    ("checkpointing first", False, False),
    ("LoRA first", False, False),
    ("checkpointing first", True, False),
    ("LoRA first", True, False),
    ("LoRA first", True, True),
)
"""Order, reentrant, head trained in full: in the last one gradients can vanish silently."""


def try_orders(
    child: TorchChild, request: dict[str, Any], report_progress: ReportProgress
) -> tuple[tuple[LoraOrder, ...], dict[str, str]]:
    """LoRA and checkpointing in every order, and the versions they were tried with."""
    records: list[LoraOrder] = []
    versions: dict[str, str] = {}
    for order, reentrant, save_head in ORDERS:
        kind = ", reentrant" if reentrant else ""
        report_progress(f"LoRA and gradient checkpointing: {order}{kind}")
        fields: dict[str, Any] = {"order": order, "reentrant": reentrant}
        answer = child.request(LORA_SECONDS, stage="lora", **request, **fields, save_head=save_head)
        if answer.answer == {"lora": None}:  # the model has no head to train in full
            continue
        record = read(answer, "lora", LoraOrder)
        if isinstance(record, Unknown):
            ended = Ended(how="error", detail=record.reason) if answer.ended.ok else answer.ended
            record = msgspec.convert({**fields, "type": "LoraOrder", "ended": ended}, LoraOrder)
        if not record.ended.ok and request["device"] != "cpu":
            child.end()  # a CUDA error persists: the next order needs a new process
        if save_head and "out of memory" in record.ended.detail:
            continue  # the fp32 head is the doctor's choice, not the user's
        records.append(record)
        installed = fit((answer.answer or {}).get("versions"), dict[str, str])
        versions |= {} if isinstance(installed, Unknown) else installed
    return tuple(records), versions


def try_compiled(child: TorchChild, request: dict[str, Any]) -> Compiled:
    """The step under torch.compile; its files go to a directory that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as cache:
        answer = child.request(COMPILE_SECONDS, stage="compiled", cache=cache, **request)
        record = read(answer, "compiled", Compiled)
        if isinstance(record, Compiled):
            return record
        child.end()
    ended = Ended(how="error", detail=record.reason) if answer.ended.ok else answer.ended
    return Compiled(ended=ended)
