"""The data of a target, looked at by a process of the training interpreter."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.children import Children, NotStartedError, fit
from doctor.collect.data_target import what_of
from doctor.collect.own_names import file_of
from doctor.collect.torch_child import ReportProgress
from doctor.facts.data import Data, Shown, Split
from doctor.facts.facts import Facts
from doctor.facts.own_model import OwnModel

PROBE = "training_side.data.look"
QUIET_SECONDS = 120.0
"""From one batch to the next, and for the import of the user's code; the probe itself waits less
long for a batch."""
RUN_SECONDS = 5.0
"""For the samples of a split in a run, whose subject is the machine and the step."""
LONG_SECONDS = 30.0
"""A factory that takes longer is not called once more. Our own number."""
CLASS = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What to look at, and how far."""

    target: str
    """As the user wrote it."""
    what: dict[str, object]
    """{"kind": "factory", "file", "name", "arguments"} or {"kind": "file", "path"} with, of two
    files, "eval"."""
    tokenizer: str = ""
    model: str = ""
    """Directory of a transformers model, built in small, where the target has no model."""
    splits: Sequence[str] = ("train", "eval")
    samples: int = 256
    seconds: float = 10.0
    show: int = 0
    pace: bool = False
    """Measure how fast the loader delivers."""
    repeats: bool = True
    """Compare the rows of train with each other, beyond the samples."""
    limit: float | None = None
    """Seconds for all of it; None: as long as notes come."""


def request_of(facts: Facts) -> DataRequest | Unknown | None:
    """What a run reads of the data of its job; None if it names none, or not why it is left out."""
    job, own = facts.job, facts.own
    if not facts.options.smoke:
        return None
    if job.data is not None and job.hf is not None:
        what = what_of(job.data, "--data")
        return DataRequest(target=job.data, what=what, tokenizer=job.hf, model=job.hf)
    options = facts.options
    if options.quick or not options.loader or not job.probes or job.model is None:
        return None
    if not isinstance(own, OwnModel) or not own.has_loader or not own.built.ok:
        return None
    seconds = own.built.seconds
    if seconds > LONG_SECONDS:
        return Unknown(
            reason=f"the factory took {seconds:.0f} s, and above {LONG_SECONDS:.0f} s it is not "
            "called once more"
        )
    file, _, name = job.model.rpartition(":")
    what = {"kind": "factory", "file": file_of(file), "name": name, "arguments": [*job.arguments]}
    on_cuda = facts.target.on_cuda
    limit = 2 * LONG_SECONDS + 2 * seconds
    return DataRequest(
        target=job.model, what=what, seconds=RUN_SECONDS, pace=on_cuda, repeats=False, limit=limit
    )


def of_own(data: Data | Unknown, own: OwnModel) -> Data | Unknown:
    """What a run knows of the loader whose first batch its own steps had.

    That it cannot be opened or read a second time is no fault of the data. Labels were learned from
    where a step had gradients.
    """
    if isinstance(data, Unknown):
        return data
    if not any(split.rows for split in data.splits):
        broken = data.problem or next((each.problem for each in data.splits if each.problem), None)
        why = broken.error if broken else data.died or "it gave no rows"
        return Unknown(reason=f"the second call of the factory, offline: {why}")
    steps = own.smoke.steps if own.smoke else ()
    learned = any(0 < float(step.grad_norm) < math.inf for step in steps)
    return msgspec.structs.replace(
        data, splits=tuple(_learned(each, learned) for each in data.splits)
    )


def _learned(split: Split, learned: bool) -> Split:
    if split.labels is None:
        return split
    return msgspec.structs.replace(
        split, labels=msgspec.structs.replace(split.labels, learned=learned)
    )


def collect_data(
    children: Children, python: str, request: DataRequest, report_progress: ReportProgress
) -> Data | Unknown:
    """What the target delivers, as far as it was read when the process ended."""
    began = time.monotonic()
    notes = Notes()
    text = json.dumps({
        **request.what, "tokenizer": request.tokenizer, "model": request.model,
        "splits": list(request.splits),
        "samples": request.samples, "seconds": request.seconds, "show": request.show,
        "pace": request.pace, "repeats": request.repeats,
    })  # fmt: skip
    try:
        child = children.start(python, PROBE, text)
    except NotStartedError as error:
        return Unknown(reason=error.ended.detail)
    try:
        if request.limit is not None:
            answer = child.wait(request.limit, report_progress)
            for each in answer.notes:
                notes.add(each)
        else:
            quiet = QUIET_SECONDS + 2 * request.seconds
            answer = child.wait(quiet, report_progress, notes.add)
    finally:
        child.kill()
    return notes.data(request.target, answer.ended, time.monotonic() - began)


class Notes:
    """The notes of the probe, as the section that they fill."""

    def __init__(self) -> None:
        self.fields: dict[str, object] = {}
        self.splits: list[Split] = []
        self.shown: list[Shown] = []

    def add(self, note: dict[str, Any]) -> None:
        if isinstance(note.get("data"), dict):
            self.fields.update(note["data"])
        split = fit(note.get("split"), Split)
        if isinstance(split, Split):
            self.splits.append(split)
        shown = fit(note.get("shown"), list[Shown])
        if isinstance(shown, list):
            self.shown += shown

    def data(self, target: str, ended: Ended, seconds: float) -> Data | Unknown:
        """The section; how the process ended stands for how the target was opened, until it was."""
        opened = {"how": ended.how, "detail": _class_of(ended)}
        fields = {"opened": {"type": "Ended", **opened}, **self.fields}
        if isinstance(fields["opened"], dict):
            fields["opened"] = {"type": "Ended", **fields["opened"]}
        section = fit({"type": "Data", "target": target, **fields, "seconds": seconds}, Data)
        if isinstance(section, Unknown):
            return section
        died = "" if ended.ok else _class_of(ended)
        shown = tuple(self.shown)
        return msgspec.structs.replace(section, splits=tuple(self.splits), shown=shown, died=died)


def _class_of(ended: Ended) -> str:
    """How a process ended, without what a library printed last: that may quote a row."""
    if ended.how == "error":
        name = ended.detail.partition(":")[0]
        return name[:80] if CLASS.fullmatch(name) else "error"
    return ended.detail or ended.how
