"""Reads what the processes of a run wrote, which is untrusted: they are the user's."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.regular_file import read_regular
from doctor._util.secrets import hide_secrets
from doctor.facts.rehearsal_runs import Evaluated, RehearsedRank, SavedFile

FILE = re.compile(r"observed(\d{1,7})-(\d{1,10})\.jsonl")
MOST_BYTES = 512 * 2**20
MOST_STEPS = 2000
MOST_SAVED = 200
LONGEST = 1000

Tensor = list[Any]
"""dtype, shape, hash; then of a buffer whether it is saved, of a weight which part it is."""


class _Process(msgspec.Struct, tag="process", tag_field="kind"):
    rank: int
    world: int
    pid: int
    moment: float


class _Step(msgspec.Struct, tag="step", tag_field="kind"):
    s: int
    moment: float
    t: float | None
    rates: list[float]
    waited: float = 0.0
    passes: int = 0


class _Memory(msgspec.Struct, tag="memory", tag_field="kind"):
    resident: int
    allocated: int | None = None
    reserved: int | None = None
    total: int | None = None


class _Saved(msgspec.Struct, tag="saved", tag_field="kind"):
    s: int
    what: str
    path: str
    t: float


class _Load(msgspec.Struct, tag="load", tag_field="kind"):
    s: int
    module: str
    given: int
    missing: list[str]
    unexpected: list[str]
    missed: int
    extra: int


class _Evaluating(msgspec.Struct, tag="evaluating", tag_field="kind"):
    s: int
    generates: bool = False


class _Evaluated(msgspec.Struct, tag="evaluated", tag_field="kind"):
    s: int
    t: float
    calls: int
    samples: int
    memory: list[int]
    generated: int = 0
    graphs: int = 0
    of: int | None = None


class _End(msgspec.Struct, tag="end", tag_field="kind"):
    s: int
    error: str = ""
    message: str = ""


class _Broken(msgspec.Struct, tag="broken", tag_field="kind"):
    text: str


class _Paused(msgspec.Struct, tag="paused", tag_field="kind"):
    s: int
    handlers: dict[str, str] = {}


class Unprepared(msgspec.Struct, tag="unprepared", tag_field="kind"):
    """accelerator.load_state() was called with no model prepared."""

    s: int


class Asks(msgspec.Struct, tag="asks", tag_field="kind"):
    """A setting of the program whose name speaks of a resume."""

    name: str
    value: str


class Exchanged(msgspec.Struct, tag="exchanged", tag_field="kind"):
    """A save after step `s` had other weights than those with which the training went on."""

    s: int


class Gradients(msgspec.Struct, tag="gradients", tag_field="kind"):
    """At the first step."""

    tensors: dict[str, Tensor]


class Group(msgspec.Struct):
    """Parameters of an optimizer by name, and its settings."""

    parameters: list[str]
    options: dict[str, Any]


class OptimizerState(msgspec.Struct):
    """Groups and the state of each parameter: numbers, or tensors."""

    groups: list[Group]
    state: dict[str, dict[str, Any]]


class Snapshot(msgspec.Struct, tag="snapshot", tag_field="kind"):
    """The state of a training after `s` steps; `when`: start, save, step, end."""

    when: str
    s: int
    seconds: float
    weights: dict[str, Tensor]
    buffers: dict[str, Tensor]
    optimizers: dict[str, OptimizerState]
    schedules: dict[str, Any]
    scalers: dict[str, Any]
    replicated: bool = False
    """A DistributedDataParallel was in memory."""
    data_parallel: bool = False
    """It, or FSDP over all ranks."""
    exchanged: bool = False
    """Of a save: the weights are others than after the step."""
    background: bool = False
    """Of a save by another thread, which holds a copy of an earlier state."""
    pending: int = 0
    """Of a save: backward passes since the last step of an optimizer."""


class _Batch(msgspec.Struct, tag="batch", tag_field="kind"):
    tensors: list[Tensor]


class Loader(msgspec.Struct, tag="loader", tag_field="kind"):
    """The first loader that trains, and the batches of its epoch; None: it has no length."""

    batches: int | None
    sampler: str


class Taken(msgspec.Struct, tag="taken", tag_field="kind"):
    """The samples that step `s` was taken with."""

    s: int
    samples: list[int | str]


class Epoch(msgspec.Struct, tag="epoch", tag_field="kind"):
    """An epoch of a loader that trains ended, after step `s`."""

    s: int


class Joined(msgspec.Struct, tag="joined", tag_field="kind"):
    """The training runs under Join, which lets ranks end unevenly."""


_Record = (
    _Process | _Step | _Memory | _Saved | _Load | _Evaluating | _Evaluated | _End | _Broken
    | _Paused | _Batch | Snapshot | Loader | Taken | Epoch | Joined | Unprepared | Exchanged
    | Gradients | Asks
)  # fmt: skip
_decode = msgspec.json.Decoder(_Record).decode


class Observed:
    """The records of one process."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records
        self.process: _Process = self.of(_Process)[0]

    def of(self, kind: type[Any]) -> list[Any]:
        """The records of a kind."""
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def steps(self) -> list[_Step]:
        return self.of(_Step)

    @property
    def snapshots(self) -> list[Snapshot]:
        return self.of(Snapshot)

    def rank(self) -> RehearsedRank:
        """What the facts keep of it."""
        steps, memory, ends = self.of(_Step), self.of(_Memory), self.of(_End)
        evaluated = self.of(_Evaluated)
        last = memory[-1] if memory else _Memory(0)
        begun = self.of(_Evaluating)
        unfinished = begun[-1] if self._evaluates() else None
        end = ends[-1] if ends else None
        error = f"{end.error}: {end.message}" if end and end.error else ""
        return RehearsedRank(
            rank=self.process.rank,
            world=self.process.world,
            steps=max((step.s for step in steps), default=0),
            seconds=tuple(s.t for s in steps if s.t is not None)[:MOST_STEPS],
            rates=tuple(tuple(step.rates) for step in steps)[:MOST_STEPS],
            waited=sum(step.waited for step in steps if step.t is not None),
            passes=steps[-1].passes if steps else 0,
            tokens=self._tokens(),
            ended=end is not None,
            error=hide_secrets(error)[:LONGEST],
            evaluating=unfinished.s if unfinished else None,
            generating=unfinished is not None and unfinished.generates,
            evaluations=tuple(
                Evaluated(step=e.s, seconds=e.t, calls=e.calls, samples=e.samples,
                          memory=tuple(e.memory), generated=e.generated, graphs=e.graphs, of=e.of)
                for e in evaluated
            ),
            resident=last.resident, allocated=last.allocated, reserved=last.reserved,
            total=last.total,
            hashing=sum(each.seconds for each in self.snapshots),
            broken=next((each.text[:LONGEST] for each in self.of(_Broken)), ""),
        )  # fmt: skip

    def _evaluates(self) -> bool:
        """Whether an evaluation had begun at the last record of one, and did not end."""
        kinds = (_Evaluating, _Evaluated)
        last = next((each for each in reversed(self.records) if isinstance(each, kinds)), None)
        return isinstance(last, _Evaluating)

    def batch(self) -> list[Tensor]:
        """The tensors of its first batch in training; [] where none were seen."""
        return next((each.tensors for each in self.of(_Batch)), [])

    def _tokens(self) -> int | None:
        """Elements of the first tensor of whole numbers in two dimensions: samples x length."""
        shapes = [shape for dtype, shape, *_ in self.batch() if dtype in ("int64", "int32")]
        return next((math.prod(shape) for shape in shapes if len(shape) == 2), None)

    def saved(self) -> tuple[SavedFile, ...]:
        """Its calls that saved."""
        return tuple(
            SavedFile(step=each.s, what=each.what[:100], path=each.path[:LONGEST], seconds=each.t)
            for each in self.of(_Saved)[:MOST_SAVED]
        )

    def saved_calls(self) -> list[_Saved]:
        """The same, as they were recorded."""
        return self.of(_Saved)

    def handler(self, name: str) -> str:
        """The function that handled a signal when the training was stopped; "" for none."""
        return next((each.handlers.get(name, "") for each in self.of(_Paused)), "")

    def loads(self) -> list[_Load]:
        """States that modules took before the first step."""
        return [each for each in self.of(_Load) if each.s == 0]


def read_processes(directory: Path) -> list[Observed]:
    """The processes of a run that trained, by rank; the latest of each rank."""
    found: dict[int, Observed] = {}
    for entry in sorted(os.listdir(directory)):
        if FILE.fullmatch(entry):
            observed = _read(directory / entry)
            if observed is not None:
                rank = observed.process.rank
                if rank not in found or found[rank].process.moment < observed.process.moment:
                    found[rank] = observed
    return [found[rank] for rank in sorted(found)]


def _read(path: Path) -> Observed | None:
    records = []
    for line in lines(path):
        try:
            records.append(_decode(line))
        except msgspec.DecodeError:
            continue  # a killed process leaves half a line
    return Observed(records) if any(isinstance(each, _Process) for each in records) else None


def lines(path: Path) -> Iterator[bytes]:
    """Of a file that the user's processes wrote; none where it is no regular file."""
    try:
        yield from read_regular(str(path), MOST_BYTES, follow=False).splitlines()
    except OSError:
        return
