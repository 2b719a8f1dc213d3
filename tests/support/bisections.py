"""Trainings that are bisected in one process, and what came of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from shims import clock_stopped_until

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import summarize
from doctor.collect.child_messages import Answer
from doctor.collect.diagnosis import diagnose
from doctor.collect.torch_child import TorchChild, cut_short
from doctor.facts.diagnosis import Diagnosis
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.judge.check import Status, Verdict

SECONDS = 120.0

HANG_SECONDS = 0.5
"""For what is expected to hang, from when it does."""

SMALL = {"kind": "small"}

Train = Callable[..., Smoke]


class OneProcess(TorchChild):
    """Ends only after a death, so that one import of torch serves the training and its bisection.

    `hanging` are the changes and stages that are expected to hang: they alone get `HANG_SECONDS`,
    once `hangs` exists.
    """

    hanging: tuple[str, ...] = ()
    hangs = Path()

    def request(self, seconds: float, *arguments: Any, **request: Any) -> Answer:
        if request.get("change", request["stage"]) in self.hanging:
            self.hangs.unlink(missing_ok=True)
            with clock_stopped_until(self.hangs.exists):
                return super().request(HANG_SECONDS, *arguments, **request)
        answer = super().request(min(seconds, SECONDS), *arguments, **request)
        if is_stale(answer):
            super().end()
        return answer

    def end(self) -> None:
        """Nothing: a healthy process goes on."""

    def close(self) -> None:
        super().end()


def is_stale(answer: Answer) -> bool:
    parts = (answer.answer or {}).values()
    return any(isinstance(part, dict) and part.get("stale") for part in parts)


def diagnosed(
    child: TorchChild,
    subject: dict[str, Any],
    precision: str = "bf16",
    recipe: str = "amp",
    **limits: Any,
) -> Smoke:
    how = {"device": "cpu", "precision": precision, "recipe": recipe, "subject": subject}
    answer = child.request(SECONDS, stage="smoke", **how)
    smoke = smoke_of(answer, precision, recipe)
    limits = {"attempt_seconds": SECONDS, "total_seconds": 10 * SECONDS} | limits
    return msgspec.structs.replace(smoke, diagnosis=diagnose(child, subject, smoke, **limits))


PLANTED = """
requests = wire.requests

def serve():
    import torch
    F = torch.nn.functional
    places = [(F, "scaled_dot_product_attention"), (F, "linear"), (F, "silu"),
              (F, "cross_entropy"), (torch.amp, "GradScaler"),
              (probe("stages.changes"), "attempt")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    for request in requests():
        if request["stage"] != "plant":
            yield request
            continue
        for owner, name, value in originals:
            setattr(owner, name, value)
        exec(request["code"], {"wire": wire, "probe": probe})
        wire.send(answer={})

wire.requests = serve"""
"""The probe, with one request more: code that plants a fault in torch, in the place of the last."""


def smoke_of(answer: Answer, precision: Any, recipe: str) -> Smoke:
    if answer.answer:
        return msgspec.convert(answer.answer["smoke"], Smoke)
    return cut_short(answer, "cpu", precision, recipe)


def diagnosis_of(smoke: Smoke) -> Diagnosis:
    assert smoke.diagnosis
    return smoke.diagnosis


def attempts_of(smoke: Smoke) -> list[tuple[str, str]]:
    return [(each.change, each.outcome) for each in diagnosis_of(smoke).attempts]


def cause_of(smoke: Smoke, *, own: bool = False) -> str:
    return summarize(diagnosis_of(smoke), smoke, own=own)


def failure_of(smoke: Smoke) -> Verdict:
    """The first of SMK001 to SMK003 that fails."""
    verdicts = [check.judge(smoke=smoke) for check in judged.CHECKS[:3]]
    return next(verdict for verdict in verdicts if verdict.status is Status.FAIL)


ATTENTION = """
    import torch
    real = torch.nn.functional.scaled_dot_product_attention

    def attend(*given, **named):
        switches = torch.backends.cuda
        seen = real(*given, **named)
        return seen * float("nan") if {wrong} else seen

    torch.nn.functional.scaled_dot_product_attention = attend
"""

LINEAR = """
    import torch
    real = torch.nn.functional.linear

    def linear(x, weight, bias=None):
        return real(x, weight, bias) * (float("nan") if {wrong} else 1.0)

    torch.nn.functional.linear = linear
"""


def factory_of(file: Path, code: str) -> dict[str, Any]:
    file.write_text(textwrap.dedent(code), "utf-8")
    where = {"file": file.name, "name": "make", "directory": str(file.parent)}
    return {"kind": "factory", **where, "batch": 2, "length": None}


OK = Ended(how="ok")

WELL = Step(loss=5.0, grad_norm=2.0, lr=3e-4)


def parameter(**changes: Any) -> Parameter:
    known: dict[str, Any] = {"dtype": "float32", "had_gradient": True, "finite": True}
    return Parameter(name="w", size=8, moved=True, **(known | changes))


def record(ended: Ended = OK, *steps: Step, **changes: Any) -> Smoke:
    known: dict[str, Any] = {"device": "cpu", "precision": "bf16", "recipe": "amp", "lr": 3e-4}
    known |= {"stages": (Stage(name="forward", ended=ended),), "parameters": (parameter(),)}
    return Smoke(**(known | changes), steps=steps or (WELL,))
