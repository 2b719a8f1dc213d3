"""What a report names of its origin: time, command, host, GPUs, driver and torch."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpus

PLAIN_WORD = re.compile(r"[\w@%+=:,./~\[\]-]+")
"""Words that are readable without quotes; ~ and [redacted] are no shell syntax here."""


@dataclass(frozen=True, slots=True)
class Origin:
    """None and () for what is not known, or was redacted."""

    started: str | None
    """UTC: 2026-01-31T09:05:00Z."""
    command: str | None
    host: str | None
    gpus: tuple[str, ...]
    driver: str | None
    torch: str | None


def origin_of(facts: Facts) -> Origin:
    """The origin of a report on these facts, which are redacted already if they are to be."""
    examination, gpus = facts.examination, facts.job_gpus
    return Origin(
        started=examination.started if examination else None,
        command=_joined(examination.command) if examination and examination.command else None,
        host=(facts.host.name or None) if isinstance(facts.host, Host) else None,
        gpus=tuple(gpu.name for gpu in gpus.gpus) if isinstance(gpus, JobGpus) else (),
        driver=facts.driver.version if isinstance(facts.driver, Driver) else None,
        torch=facts.torch.version if isinstance(facts.torch, Torch) else None,
    )


def _joined(words: tuple[str, ...]) -> str:
    return " ".join(word if PLAIN_WORD.fullmatch(word) else shlex.quote(word) for word in words)
