"""Runs the attention trial: if its process dies, one trial is lost and a new process continues."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import get_args

from doctor._util.records import Number, Unknown
from doctor.collect.ahead import IMPLEMENTATIONS
from doctor.collect.child import Child
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children, NotStartedError, fit
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.facts.cudnn_stacks import NO_KNOWN_BUG, not_worth_trying
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.load import Attention, AttentionCase, Backend, Implementation, Trial
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen

TRIAL_SECONDS = 30.0
"""From one finished trial to the next; cuDNN builds its plans anew for every shape."""
ALL_SECONDS = 60.0
"""After these seconds no more trials are started."""
QUICK_SECONDS = 3.0
"""The same with --quick, which also omits the other half precision."""
DEATHS = 3
"""Processes that may die before the remaining trials are omitted."""
IMPLEMENTATIONS_SECONDS = 120.0
"""For the import of transformers, and from one implementation to the next."""

BACKENDS: tuple[str, ...] = get_args(Backend)
DTYPES = ("bf16", "fp16")
HAS_CUDNN = (8, 0)
"""The first compute capability with cuDNN attention in torch."""


@dataclass
class Records:
    """The notes of all processes so far."""

    cases: tuple[AttentionCase, ...] = ()
    trials: list[Trial] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    lowest_lse: dict[str, Number] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    """Stages that must not be entered again."""

    def add_note(self, note: dict[str, object]) -> None:
        """Record a note of probes/training_side/attention; ignore anything else."""
        trial, group = fit(note.get("trial"), Trial), str(note.get("group"))
        if isinstance(trial, Trial):
            self.add_trial(trial)
        elif "cases" in note:
            cases = fit(note["cases"], tuple[AttentionCase, ...])
            self.cases = self.cases if isinstance(cases, Unknown) else cases
        elif "default" in note:
            if note.get("sure"):
                self.done.add(f"{group}/choice")
            if isinstance(note["default"], str):
                self.defaults[group] = note["default"]
        elif isinstance(lowest := note.get("lowest_lse"), float):
            self.lowest_lse[group] = lowest

    def add_trial(self, trial: Trial) -> None:
        self.trials.append(trial)
        self.done.add(f"{trial.case}/{trial.dtype}/{trial.backend}")

    def add_death(self, answer: Answer) -> bool:
        """Record the stage in which a process died; False if it was in none."""
        if not answer.stages or answer.stages[-1][1].ok:
            return False
        stage, ended = answer.stages[-1]
        case, _, rest = stage.partition("/")
        dtype, _, backend = rest.partition("/")
        fields = {"backend": backend, "dtype": dtype, "case": case, "ended": ended}
        trial = fit(fields, Trial) if backend in BACKENDS else None
        if isinstance(trial, Trial):
            self.add_trial(trial)
        self.done.add(stage)
        return True

    def attention(self, device: str, cut_short: str, seconds: float) -> Attention:
        return Attention(
            device=device,
            cases=self.cases,
            trials=tuple(self.trials),
            defaults=self.defaults,
            lowest_lse=self.lowest_lse,
            cut_short=cut_short,
            seconds=seconds,
        )


def try_attention(
    child: TorchChild,
    facts: Facts,
    device: str,
    chosen: Chosen,
    report_progress: ReportProgress,
    records: Records | None = None,
    *,
    first_case: bool = False,
    share: tuple[int, int] = (0, 1),
) -> Attention | Unknown:
    """Every backend on every case, in as many processes as needed, in bounded time.

    `records`: what need not be tried again. `first_case`: only on that one, in the job's
    precision, as with --quick. `share`: number and count, of GPUs that share the cases.
    """
    report_progress(f"trying attention kernels on {device}")
    started, records = time.monotonic(), records or Records()
    cut_short, total = "", QUICK_SECONDS if facts.options.quick else ALL_SECONDS
    for death in range(DEATHS + 1):
        remaining = total - (time.monotonic() - started)
        done_before = len(records.done)
        answer = child.request(
            TRIAL_SECONDS,
            on_note=records.add_note,
            stage="attention",
            device=device,
            shape=facts.job.attention,
            precision=chosen.precision,
            quick=first_case or facts.options.quick,
            share=share,
            not_tried=cudnn_not_tried(facts, chosen) if device.startswith("cuda") else {},
            done=sorted(records.done),
            within=remaining,
        )
        if answer.ended.ok:
            cut_short = str((answer.answer or {}).get("cut_short", ""))
            break
        if answer.ended.how == "budget":
            return Unknown(reason=answer.ended.detail)
        cut_short = f"the process ended: {answer.ended.detail or answer.ended.how}"
        if not (records.add_death(answer) or len(records.done) > done_before):
            break
        if death == DEATHS:
            cut_short = (
                f"left out after {DEATHS + 1} processes died; the last: {answer.ended.detail}"
            )
    if not records.cases:
        return Unknown(reason=cut_short or "the attention trial reported no cases")
    return records.attention(device, cut_short, time.monotonic() - started)


def cudnn_not_tried(facts: Facts, chosen: Chosen) -> dict[str, str]:
    """Trials that would cost a plan of cuDNN and show nothing about the job -> the reason.

    None where torch refuses cuDNN attention anyway, which costs nothing.
    """
    gpus = facts.job_gpus.gpus if isinstance(facts.job_gpus, JobGpus) else ()
    capability = gpus[0].capability if gpus else None
    torch = facts.torch
    if not isinstance(torch, Torch) or torch.hip or (capability and capability < HAS_CUDNN):
        return {}
    first, other = sorted(DTYPES, key=lambda dtype: dtype != chosen.precision)
    cases = not_worth_trying(torch.version, torch.cudnn, capability)
    reasons = {f"{case}/{first}/cudnn": NO_KNOWN_BUG for case in cases}
    return reasons | {f"causal/{other}/cudnn": f"cuDNN is tried in {first} only"}


def try_implementations(
    children: Children,
    facts: Facts,
    device: str,
    chosen: Chosen,
    report_progress: ReportProgress,
    child: Child | None = None,
) -> tuple[Implementation, ...]:
    """Every attn_implementation that the installed packages offer, in a process of its own.

    `child`: this process, if it was started ahead; it is ended here.
    """
    report_progress("trying attention implementations of transformers")
    interpreter = facts.interpreter
    assert isinstance(interpreter, Interpreter)
    implementations: list[Implementation] = []

    def add_note(note: dict[str, object]) -> None:
        implementation = fit(note.get("implementation"), Implementation)
        if isinstance(implementation, Implementation):
            implementations.append(implementation)

    try:
        child = child or children.start(interpreter.path, IMPLEMENTATIONS)
    except NotStartedError as error:
        return (Implementation(name="all", ended=error.ended),)
    child.send({"device": device, "precision": chosen.precision})
    try:
        answer = child.wait(IMPLEMENTATIONS_SECONDS, on_note=add_note)
    finally:
        child.kill()
    if not answer.ended.ok:
        name = answer.stages[-1][0] if answer.stages else "all"
        implementations.append(Implementation(name=name, ended=answer.ended))
    return tuple(implementations)
