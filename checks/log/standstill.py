"""A run that wrote nothing for long before something else ended it: what it did last."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.facts.log import Log, LogEvent
from doctor.log.collector import LAST_LINE, QUIET

HUNG = "The run hung long before it was ended, so more time does not help."
ANYWHERE = (
    "Resume from the last checkpoint, and when it stands still again look where each rank waits "
    "(py-spy dump --pid) and at the host: nvidia-smi, dmesg (Xid), a mount that does not answer."
)
SHOWN = (
    "py-spy dump --pid of each rank shows where it waits; a shorter timeout "
    "(init_process_group(timeout=...)) with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 ends such a run with "
    "the collective that is missing."
)
WITHOUT_STEPS = (
    "Not one step is in this file, so it may be the standard error alone: look in the other file "
    "of the job. If steps go on there to the end, ask for the time that the run needs, save "
    "checkpoints and resume; else it hung."
)
OVER = re.compile(
    r"\b(?:done|finish(?:ed)?|completed?|ended|took|saved|wrote|written|loaded|loss|acc\w*|skip\w*)"
    r"\b(?!\s*[-:]?\s*0%)|100%",
    re.IGNORECASE,
)
"""What a line says whose phase is over."""


@dataclass(frozen=True, slots=True)
class _Phase:
    name: str
    begins: re.Pattern[str]
    fix: str


PHASES = (
    _Phase(
        "an evaluation",
        re.compile(
            r"\b(?:evaluating|validating|testing)\b|\b(?:eval(?:uation)?|validation)\b",
            re.IGNORECASE,
        ),
        "It stood still at an evaluation, and may do so again there. Look for a collective "
        "that not every rank reaches: an evaluation, a barrier or a gather under if rank == 0, "
        "while a model under FSDP or ZeRO-3 needs all ranks in its forward pass (generate: "
        "synced_gpus=True); ranks with other numbers of batches; loader workers that wait for each "
        "other. Try it with an evaluation after a few steps.",
    ),
    _Phase(
        "a checkpoint",
        re.compile(
            r"\b(?:saving|writing|storing)\b|\bsave (?:checkpoint|model|state)|"
            r"\bcheckpointing (?:to|step|at)\b",
            re.IGNORECASE,
        ),
        "It stood still at a checkpoint, and may do so again there. All ranks take part "
        "in the saving of a sharded model or optimizer, so that it hangs under if rank == 0; else "
        "the storage did not answer: test it with dd or doctor run --only DSK001,DSK002 on that "
        "node.",
    ),
    _Phase(
        "data",
        re.compile(
            r"\b(?:loading|downloading|fetching|reading|tokenizing|opening|shuffling)\b"
            r"[^\n]{0,60}(?:data|shard|split|file|samples|\.tar|\.parquet|\.jsonl)",
            re.IGNORECASE,
        ),
        "It stood still while it read data, and may do so again there: a mount or a server that "
        "does not answer, or workers that wait for each other after a fork. Read that file by "
        "itself on the node, and try num_workers=0.",
    ),
)


@dataclass(frozen=True, slots=True)
class Standstill:
    """For how long nothing was written, after what, and what to do."""

    summary: str
    fix: str
    known: bool
    """Whether the last line names the phase in which it hung."""


def standstill(event: LogEvent, log: Log) -> Standstill | None:
    """How a run stood still before this event ended it."""
    seconds, last = int(event.groups.get(QUIET, "0")), event.groups.get(LAST_LINE, "")
    if not seconds:
        return None
    phase = (
        None if OVER.search(last) else next(filter(lambda p: p.begins.search(last), PHASES), None)
    )
    after = f" after {last!r}" if last else ""
    summary = f"before it nothing was logged for {seconds / 3600:.1f} h{after}"
    fix = f"{HUNG} {phase.fix} {SHOWN}" if phase else f"{HUNG} {ANYWHERE}"
    if phase is None and not any(curve.path == event.path for curve in log.curves):
        fix = f"{WITHOUT_STEPS} {ANYWHERE}"
    return Standstill(summary, fix, known=phase is not None)
