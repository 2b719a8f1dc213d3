"""The user's own model, rehearsed: a training of the doctor's around a factory or a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.errors import UserError
from doctor._util.records import Unknown
from doctor._util.regular_file import read_regular
from doctor.collect.child import PROBES
from doctor.collect.own_training import subject
from doctor.collect.rehearsal import stages
from doctor.facts.rehearsal import Batches, Rehearsal, TriedBatch
from doctor.job.job import Chosen, Job

PROBE = "training_side.rehearsed.train"
FILE = "factory.jsonl"
MOST_BYTES = 2**20
SECONDS = 900.0
"""For all runs, unless the examination has a budget."""
TEXT = 500


class _How(msgspec.Struct, tag="how", tag_field="kind"):
    text: str
    own: bool


class _Batches(msgspec.Struct, tag="batches", tag_field="kind"):
    untold: str = ""
    read: int = 0
    of: int = 0
    longest: int = 0
    shortest: int = 0
    planned: list[str] = []


class _Batch(msgspec.Struct, tag="batch", tag_field="kind"):
    name: str
    samples: int
    length: int = 0
    peak: int | None = None
    total: int | None = None
    error: str = ""


_decode = msgspec.json.Decoder(_How | _Batches | _Batch).decode


def rehearse_own(
    python: str,
    job: Job,
    device: str,
    chosen: Chosen,
    ranks: int,
    budget: float | None,
    progress: Callable[[str], None],
) -> Rehearsal | Unknown:
    """All stages of a training with `job.model` or `job.hf`, on this many ranks of this machine."""
    what = subject(job, chosen)
    assert what is not None
    request: dict[str, Any] = {
        "subject": what, "device": device.partition(":")[0], "precision": chosen.precision,
        "recipe": job.recipe or "amp", "shards": job.shards,
    }  # fmt: skip
    program = [str(PROBES / "launch.py"), "2", PROBE, json.dumps(request), "{output}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [python, *(launcher if ranks > 1 else ()), *program]
    found: list[Any] = []
    options = stages.Options(
        budget=budget or SECONDS, progress=progress, look=lambda place: found.extend(_read(place))
    )
    try:
        rehearsal, _, _ = stages.rehearse(command, options)
    except UserError as error:
        return Unknown(reason=str(error))
    how = next((each for each in found if isinstance(each, _How)), None)
    return msgspec.structs.replace(
        rehearsal,
        trained=how.text[:TEXT] if how else "",
        own_trainer=how is not None and how.own,
        batches=_batches(found, request["device"]),
    )


def _batches(found: list[object], device: str) -> Batches | None:
    head = next((each for each in found if isinstance(each, _Batches)), None)
    if head is None:
        return None
    tried = tuple(
        TriedBatch(name=each.name[:TEXT], samples=each.samples, length=each.length,
                   peak=each.peak, total=each.total, error=each.error[:TEXT])
        for each in found if isinstance(each, _Batch)
    )  # fmt: skip
    return Batches(untold=head.untold[:TEXT], read=head.read, of=head.of, longest=head.longest,
                   shortest=head.shortest, planned=tuple(name[:TEXT] for name in head.planned[:9]),
                   tried=tried, device=device)  # fmt: skip


def _read(records: Path) -> Iterator[object]:
    """What the training wrote beside the records of its first run; it is the user's process."""
    try:
        data = read_regular(os.path.join(records, FILE), MOST_BYTES, follow=False)
    except OSError:
        return
    for line in data.splitlines():
        try:
            yield _decode(line)
        except msgspec.DecodeError:
            continue
