"""What lies on disks: the job's directories, its checkpoint and the shape of its model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal

from doctor._util.records import Ended, Unknown
from doctor._util.units import printable
from doctor.checkpoint.records import Checkpoint
from doctor.collect.background import background
from doctor.collect.children import Children, fit, read, read_checkpoint
from doctor.facts.machine import Place
from doctor.facts.training import ModelShape
from doctor.job.expect import Expect
from doctor.job.job import Job

PLACE_SECONDS = 8.0
CHECKPOINT_SECONDS = 120.0

Role = Literal["output", "cache", "temporary", "expected"]


def roles(job: Job, expect: Expect, environ: Mapping[str, str]) -> list[tuple[Role, str, bool]]:
    """The directories to examine: role, path, and whether the user named it for output."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    cache = job.cache_dir or environ.get("HF_HOME") or f"{caches}/huggingface"
    return [
        ("output", job.output_dir or job.working_dir, job.output_dir is not None),
        ("cache", printable(cache), False),
        ("temporary", environ.get("TMPDIR") or "/tmp", False),  # noqa: S108 - not written to
        *(("expected", path, False) for path in expect.disk),
    ]


def start_place(children: Children, role: Role, path: str, named: bool) -> Future[Place]:
    return background(lambda: _place(children, role, path, named))


def _place(children: Children, role: Role, path: str, named: bool) -> Place:
    arguments = (role, path, "named" if named else "assumed")
    answer = children.run_probe("place", *arguments, seconds=PLACE_SECONDS)
    content = {key: value for note in answer.notes for key, value in note.get("place", {}).items()}
    content |= (answer.answer or {}).get("place", {})
    fixed = {"type": "Place", "role": role, "path": path, "named": named, "looked": answer.ended}
    place = fit(content | fixed, Place)
    if isinstance(place, Unknown):
        ended = Ended(how="error", detail=place.reason)
        return Place(role=role, path=path, named=named, looked=ended)
    return place


def read_shape(children: Children, path: str | None) -> ModelShape | Unknown | None:
    if path is None or "://" in path:
        return None
    answer = children.run_probe("shape", path, seconds=PLACE_SECONDS)
    content = answer.answer or {}
    if content.get("absent") is True:
        return None
    return fit(content, Unknown) if "reason" in content else read(answer, "shape", ModelShape)


def read_job_checkpoint(children: Children, path: str | None) -> Checkpoint | Unknown | None:
    if path is None:
        return None
    return read_checkpoint(children.run_probe("checkpoint", path, seconds=CHECKPOINT_SECONDS))
