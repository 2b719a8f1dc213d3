"""The code of a user's own training, as tests write it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from doctor._util.records import Ended
from doctor.checks.training import own_model as checks
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Verdict

NET = """
import os, sys, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, cut=False):
        super().__init__()
        self.a, self.b, self.cut = nn.Linear(8, 8), nn.Linear(8, 3), cut

    def forward(self, x, labels):
        hidden = self.a(x).relu()
        hidden = hidden.detach() if self.cut else hidden
        return {"loss": nn.functional.cross_entropy(self.b(hidden).float(), labels)}

def batch(**changes):
    torch.manual_seed(0)
    return {"x": torch.randn(4, 8), "labels": torch.tensor([0, 1, 2, 0]), **changes}
"""

Own = Callable[..., OwnModel]


def job_of(file: Path, source: str, **fields: Any) -> Job:
    file.write_text(NET + textwrap.dedent(source), "utf-8")
    return Job(device="cpu", model=f"{file}:make", **fields)


def completes(own: OwnModel, small: Any = None) -> Verdict:
    return checks.completes(own, small)


def smoke_of(own: OwnModel) -> Smoke:
    assert own.smoke, own.built
    return own.smoke


def judged(check: Any, record: OwnModel, job: Job | None = None) -> Verdict:
    names = signature(check.judge).parameters
    inputs = {
        "own": record,
        "smoke": None,
        "data": None,
        "job": job or Job(),
        "options": RunOptions(),
    }
    verdict = check.judge(**{name: inputs[name] for name in names})
    assert isinstance(verdict, Verdict)
    return verdict


class Well:
    """A training without a fault, and the same with some fields changed."""

    def __init__(self, **fields: Any) -> None:
        ok = Ended(how="ok", seconds=0.1)
        smoke = Smoke(
            device="cpu",
            precision="fp32",
            recipe="amp",
            lr=3e-4,
            stages=(Stage(name="forward", ended=ok),),
            steps=(Step(loss=2.0, grad_norm=1.0, lr=3e-4),),
            parameters=(
                Parameter(
                    name="w", dtype="float32", size=4, had_gradient=True, finite=True, moved=True
                ),
            ),
        )
        self.own = OwnModel(
            **{"description": "train.py:make", "built": ok, "smoke": smoke} | fields
        )

    def with_fields(self, **fields: Any) -> Well:
        return Well(**fields)


def step(loss: Any) -> Step:
    return Step(loss=loss, grad_norm=1.0, lr=0.0)
