"""Which parts of an examination fit into --budget."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from doctor._util.errors import UserError
from doctor.job.job import Job

PARTS: tuple[tuple[float, str, tuple[str, ...], dict[str, Any]], ...] = (
    (60.0, "tests under load", ("load", "peers"), {"quick": True}),
    (60.0, "comparison under torch.compile", (), {"compile": False}),
    (
        30.0,
        "the step of your own model",
        ("own",),
        {"model": None, "hf": None, "layers": None, "weights": False},
    ),
    (30.0, "attention trial", ("attention",), {}),
    (10.0, "training step", ("smoke", "watched"), {"smoke": False}),
)
"""Seconds that leave room for a part, its name, its sections, and the job without it.

Dearest first. The rooms are the doctor's own, for a warm disk; what stays is the driver, torch,
the disks and the checkpoint's headers.
"""


def parse_seconds(text: str) -> float:
    """ "8" or "8s" or "1.5m". Raises UserError."""
    found = re.fullmatch(r"(\d{1,5}(?:\.\d{1,3})?)\s*(s|m)?", text.strip())
    seconds = float(found[1]) * (60 if found[2] == "m" else 1) if found else 0.0
    if not 1 <= seconds <= 86400:
        raise UserError(f"--budget {text}: write seconds from 1 on, such as 8 or 8s")
    return seconds


def reduce(job: Job, seconds: float) -> tuple[Job, tuple[str, ...]]:
    """The job as far as it fits into `seconds`, and the names of what was left out of it."""
    left: list[str] = []
    sections: list[str] = []
    for room, name, parts, without in PARTS:
        if seconds < room and _asks(job, name):
            job = msgspec.structs.replace(job, **without)
            left.append(name)
            sections += parts
    return msgspec.structs.replace(job, budget=seconds, left_out=tuple(sections)), tuple(left)


def _asks(job: Job, name: str) -> bool:
    """Whether the job asks for a part at all."""
    return {
        "tests under load": not job.quick,
        "comparison under torch.compile": job.compile,
        "the step of your own model": bool(job.model or job.hf),
        "training step": job.smoke,
    }.get(name, True)
