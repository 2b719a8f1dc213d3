"""What a prescription is made of, and what its rules ask of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from doctor.facts.facts import Facts
from doctor.facts.machine import Torch
from doctor.facts.views import JobGpus
from doctor.judge.check import Finding, Status
from doctor.judge.switches import Switch

Mode = Literal["stable", "fast", "diagnostic"]
LADDERS: dict[Mode, str] = {
    "stable": "bts-stable",
    "fast": "bts-fast",
    "diagnostic": "bts-diagnostic",
}
AUTOCAST_SINCE = {("mps", "bf16"): (2, 6), ("mps", "fp16"): (2, 8), ("cpu", "fp16"): (2, 3)}
"""The torch whose autocast takes that dtype there, for fp16 with a GradScaler; else any torch.

Source: torch/amp of the releases 2.1 to 2.8.
"""
DEVICES = {"nvidia": "cuda", "rocm": "cuda", "mps": "mps", "cpu": "cpu"}
"""Kind of target -> torch's device type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing to set, in every form that it has; what a form cannot say is left out of it."""

    name: str
    value: str
    why: str
    code: str
    """The check whose finding caused it."""
    sources: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    """Statements for the start of the script."""
    prepare: tuple[str, ...] = ()
    """Statements about `model`, once, before its optimizer is made."""
    env: tuple[str, ...] = ()
    """ "NAME=value", to be there before Python starts."""
    load: Mapping[str, str] = field(default_factory=dict)
    """Arguments of from_pretrained, as Python spells them."""
    trainer: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of transformers.TrainingArguments."""
    accelerate: Mapping[str, Any] = field(default_factory=dict)
    """Keys of an accelerate configuration."""


@dataclass(frozen=True, slots=True)
class Patient:
    """What the rules ask: the facts, the findings by code, and what was wished."""

    facts: Facts
    findings: Mapping[str, Finding]
    mode: Mode
    deterministic: bool

    def complains(self, *codes: str) -> bool:
        return any(code in self.findings and self.findings[code].complains for code in codes)

    def turns_off(self, code: str, switch: Switch) -> bool:
        """Whether the remedy of that finding turns this switch off."""
        return self.complains(code) and switch in self.findings[code].verdict.switches_off

    @property
    def cuda(self) -> bool:
        return self.facts.target.kind in ("nvidia", "rocm")

    @property
    def torch(self) -> Torch | None:
        return self.facts.torch if isinstance(self.facts.torch, Torch) else None

    def since(self, *release: int) -> bool:
        """Whether torch is that version or newer; an unread version counts as new."""
        try:
            return self.torch is None or Version(self.torch.version).release[:2] >= release
        except InvalidVersion:
            return True

    @property
    def capability(self) -> tuple[int, int] | None:
        gpus = self.facts.job_gpus
        return gpus.lowest_capability if isinstance(gpus, JobGpus) else None

    @property
    def compiles(self) -> bool:
        """torch.compile is prescribed only where the compiled step was seen to agree."""
        agreed = self.findings.get("SMK010")
        return self.mode == "fast" and agreed is not None and agreed.status is Status.PASS
