"""Reads what the processes of a run recorded, which is untrusted: they are the user's."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.regular_file import read_regular
from doctor._util.secrets import hide_secrets
from doctor.collect.rehearsal import records
from doctor.facts.rehearsal_runs import (
    CountedStep,
    Evaluated,
    FailedCall,
    KeptGraphs,
    RehearsedRank,
    SavedFile,
)

FILE = re.compile(r"observed(\d{1,7})-(\d{1,10})\.jsonl")
MOST_BYTES = 512 * 2**20
MOST_STEPS = 2000
MOST_SAVED = 200
MOST_FAILED = 5
MOST_LOOKS = 100
LEAST_EVALUATIONS = 2
LONGEST, MOST_FLAGS = 1000, 3


class Observed:
    """The records of one process."""

    def __init__(self, held: list[object]) -> None:
        self.records = held
        self.process: records.Process = self.of(records.Process)[0]

    def of(self, kind: type[object]) -> list[Any]:
        """The records of a kind."""
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def steps(self) -> list[records.Step]:
        return self.of(records.Step)

    @property
    def snapshots(self) -> list[records.Snapshot]:
        return self.of(records.Snapshot)

    def rank(self) -> RehearsedRank:
        """What the facts keep of it."""
        steps, memory = self.of(records.Step), self.of(records.Memory)
        evaluated = self.of(records.Evaluated)
        last = memory[-1] if memory else records.Memory(0)
        begun = self.of(records.Evaluating)
        unfinished = begun[-1] if self._evaluates() else None
        end = self.end()
        kept_mode = {each.s: [k[:100] for k in each.kinds[:5]] for each in self.of(records.Left)}
        averaged = {each.s: each.name[:200] for each in self.of(records.Averaged)}
        outputs, outputs_kept = kept_outputs(evaluated)
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
            place=hide_secrets(end.place)[:LONGEST] if end and end.error else "",
            handler=end.handler[:100] if end and end.error else "",
            in_model=end is not None and end.in_model,
            in_loader=end is not None and end.in_loader,
            dtypes=end.dtypes[:100] if end else "",
            grad_off=end is not None and end.grad_off,
            evaluating=unfinished.s if unfinished else None,
            turns=unfinished.turns if unfinished else 0,
            generating=unfinished is not None and unfinished.generates,
            evaluations=tuple(
                Evaluated(step=e.s, seconds=e.t, calls=e.calls, samples=e.samples,
                          memory=tuple(e.memory), generated=e.generated, graphs=e.graphs, of=e.of,
                          averaged=averaged.get(e.s, ""), left=tuple(kept_mode.get(e.s, ())))
                for e in evaluated
            ),
            outputs=outputs,
            outputs_kept=outputs_kept,
            resident=last.resident, allocated=last.allocated, reserved=last.reserved,
            total=last.total, gpu=last.gpu[:100],
            hashing=sum(each.seconds for each in self.snapshots),
            kept=tuple(
                KeptGraphs(step=each.s, graphs=each.graphs, used=each.used, nodes=each.nodes,
                           hooks=each.hooks)
                for each in self.of(records.Kept)[:MOST_LOOKS]
            ),
            counted=self._counted(),
            broken=next((each.text[:LONGEST] for each in self.of(records.Broken)), ""),
        )  # fmt: skip

    def end(self) -> records.End | None:
        """How it ended by itself; None where it did not."""
        ends = self.of(records.End)
        return ends[-1] if ends else None

    def _evaluates(self) -> bool:
        """Whether an evaluation had begun at the last record of one, and did not end."""
        kinds = (records.Evaluating, records.Evaluated)
        last = next((each for each in reversed(self.records) if isinstance(each, kinds)), None)
        return isinstance(last, records.Evaluating)

    def batch(self, after: int = 0) -> list[records.Tensor]:
        """The tensors of its first batch in training, or of that after a save; [] where none were
        seen."""
        return next((each.tensors for each in self.of(records.Batch) if each.s == after), [])

    def _tokens(self) -> int | None:
        """Elements of the first tensor of whole numbers in two dimensions: samples x length."""
        shapes = [shape for dtype, shape, *_ in self.batch() if dtype in ("int64", "int32")]
        return next((math.prod(shape) for shape in shapes if len(shape) == 2), None)

    def _counted(self) -> CountedStep | None:
        for each in self.of(records.Counted):
            flops = {name[:20]: count for name, count in list(each.flops.items())[:20]}
            return CountedStep(flops=flops, left_out=tuple(n[:100] for n in each.left_out[:5]))
        return None

    def saved(self) -> tuple[SavedFile, ...]:
        """Its calls that saved."""
        return tuple(
            SavedFile(step=each.s, what=each.what[:100], path=each.path[:LONGEST], seconds=each.t)
            for each in self.of(records.Saved)[:MOST_SAVED]
        )

    def failures(self) -> tuple[FailedCall, ...]:
        """Errors of saves, and those that ended threads."""
        saves, found = self.of(records.Saved), self.of(records.Failed)[:MOST_FAILED]
        return tuple(
            FailedCall(
                rank=self.process.rank,
                step=each.s,
                what=each.what[:100],
                path=each.path[:LONGEST],
                error=hide_secrets(f"{each.error}: {each.message}")[:LONGEST],
                place=hide_secrets(each.place)[:LONGEST],
                thread=each.thread,
                entry=hide_secrets(each.entry)[:LONGEST],
                repeated=any(
                    save.path == each.path and save.moment > each.moment for save in saves
                ),
            )
            for each in found
        )

    def handler(self, name: str) -> str:
        """The function that handled a signal when the training was stopped; "" for none."""
        held = [*self.of(records.Paused), *self.of(records.Handles)]
        return next((each.handlers.get(name, "") for each in held), "")

    def reached(self) -> bool | None:
        """Whether the signal came while a step waited for it; None: not known."""
        found = [each.reached for each in self.of(records.Signalled) if each.reached is not None]
        return any(found) if found else None

    def handlers_error(self) -> str:
        """Class and message of the exception that its handler raised then; "" for none."""
        found = (e for e in self.of(records.Signalled) if e.error)
        return next((hide_secrets(f"{e.error}: {e.message}")[:LONGEST] for e in found), "")

    def lost_flags(self, name: str) -> tuple[str, ...]:
        """The function that handles a signal, and the flags that it sets as variables of its own;
        () for none."""
        found: list[dict[str, list[str]]] = [p.lost_flags for p in self.of(records.Paused)]
        flags = [flag[:100] for each in found[:1] for flag in each.get(name, [])[:MOST_FLAGS]]
        return (self.handler(name)[:100], *flags) if flags else ()

    def loads(self) -> list[records.Load]:
        """States that modules took before the first step."""
        return [each for each in self.of(records.Load) if each.s == 0]


def kept_outputs(evaluated: Sequence[records.Evaluated]) -> tuple[str, int]:
    """A list that each evaluation makes longer, by one for each call at least, and that nothing
    else changes, with its last length; "" and 0 for none."""
    listed = [each for each in evaluated if each.lists][:MOST_LOOKS]
    if len(listed) < LEAST_EVALUATIONS or any(each.calls < 2 for each in listed):
        return "", 0
    for name in listed[0].lists:
        lengths = [(each.calls, each.lists.get(name, [0, 0])) for each in listed]
        grows = all(len(at) == 2 and at[1] - at[0] >= calls for calls, at in lengths)
        keeps = all(a[1][-1] == b[1][0] for a, b in pairwise(lengths))
        if grows and keeps:
            return name[:LONGEST], lengths[-1][1][1]
    return "", 0


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
    held = []
    for line in lines(path):
        try:
            held.append(records.decode(line))
        except msgspec.DecodeError:
            continue  # a killed process leaves half a line
    return Observed(held) if any(isinstance(each, records.Process) for each in held) else None


def lines(path: Path) -> Iterator[bytes]:
    """Of a file that the user's processes wrote; none where it is no regular file."""
    try:
        yield from read_regular(str(path), MOST_BYTES, follow=False).splitlines()
    except OSError:
        return
