"""The settings of a prescription, and the input of the rules that choose them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from doctor.facts.facts import Facts
from doctor.facts.interpreter import Torch
from doctor.facts.views import JobGpus
from doctor.judge.check import Finding, Status
from doctor.judge.switches import Switch
from doctor.prescribe.citations import RESTS_ON

Mode = Literal["stable", "fast", "diagnostic"]
AUTOCAST_SINCE = {("mps", "bf16"): (2, 6), ("mps", "fp16"): (2, 8), ("cpu", "fp16"): (2, 3)}
"""The first torch whose autocast supports that dtype on that device (fp16 with a GradScaler).

Source: torch/amp of the releases 2.1 to 2.8.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting in every output format; fields of formats that cannot express it are empty."""

    name: str
    value: str
    why: str
    code: str
    """The check whose finding is the reason."""
    sources: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    """Statements for the start of the script."""
    prepare: tuple[str, ...] = ()
    """Statements about `model`, to run once before its optimizer is created."""
    env: tuple[str, ...] = ()
    """ "NAME=value", to be set before Python starts."""
    load: Mapping[str, str] = field(default_factory=dict)
    """Arguments of from_pretrained, as Python source."""
    trainer: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of transformers.TrainingArguments."""
    beside_trainer: bool = False
    """The arguments do not do all of it: the trainer form has the statements, too."""
    accelerate: Mapping[str, Any] = field(default_factory=dict)
    """Keys of an accelerate configuration."""


@dataclass(frozen=True, slots=True)
class PrescriptionContext:
    """The facts, the findings by code, and the options of the prescription."""

    facts: Facts
    findings: Mapping[str, Finding]
    mode: Mode
    deterministic: bool

    def finding(self, setting: str) -> Finding | None:
        """The finding of the check that a setting rests on, where that was judged."""
        return self.findings.get(RESTS_ON[setting])

    def is_problem(self, setting: str) -> bool:
        """Whether that check warned or failed."""
        finding = self.finding(setting)
        return finding is not None and finding.is_problem

    def turned_off_by(self, switch: Switch) -> Finding | None:
        """The last problem whose remedy turns this switch off."""
        problems = [each for each in self.findings.values() if each.is_problem]
        return next((e for e in reversed(problems) if switch in e.verdict.switches_off), None)

    @property
    def on_cuda(self) -> bool:
        return self.facts.target.on_cuda

    @property
    def torch(self) -> Torch | None:
        return self.facts.torch if isinstance(self.facts.torch, Torch) else None

    def torch_since(self, *release: int) -> bool:
        """Whether torch is that release or newer; an unknown version counts as new."""
        try:
            return self.torch is None or Version(self.torch.version).release[:2] >= release
        except InvalidVersion:
            return True

    @property
    def capability(self) -> tuple[int, int] | None:
        gpus = self.facts.job_gpus
        return gpus.lowest_capability if isinstance(gpus, JobGpus) else None

    @property
    def use_compile(self) -> bool:
        """Whether to use torch.compile: only where the compiled step was observed to agree."""
        finding = self.finding("torch.compile")
        return self.mode == "fast" and finding is not None and finding.status is Status.PASS
