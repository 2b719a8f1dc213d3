"""The attention trial from outside: a process that dies loses one trial, the next goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from doctor._util.records import Number, Unknown
from doctor.collect.child import Answer
from doctor.collect.children import Children, NotStartedError, fit, unless_cut_off
from doctor.collect.torch_child import Told, TorchChild
from doctor.facts.facts import Facts
from doctor.facts.load import Attention, AttentionCase, Backend, Implementation, Trial
from doctor.facts.machine import Interpreter
from doctor.job.job import Chosen

TRIAL_SECONDS = 30.0
"""From one finished trial to the next; cuDNN builds its plans anew for every shape."""
ALL_SECONDS = 60.0
"""After these no more trials are begun."""
QUICK_SECONDS = 3.0
"""The same with --quick, which leaves the other half precision out too."""
DEATHS = 3
"""Processes that may be lost before the rest is left out."""
IMPLEMENTATIONS_SECONDS = 120.0
"""The import of transformers included."""

BACKENDS: tuple[str, ...] = get_args(Backend)


@dataclass
class _Heard:
    """What the notes of all processes told so far."""

    cases: tuple[AttentionCase, ...] = ()
    trials: list[Trial] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    lowest_lse: dict[str, Number] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    """Stages that need not, or must not, be entered again."""

    def take(self, note: dict[str, Any]) -> None:
        """A note of probes/training_side/attention_trial.py; anything else is passed over."""
        trial, group = fit(note.get("trial"), Trial), str(note.get("group"))
        if isinstance(trial, Trial):
            self.add(trial)
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

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)
        self.done.add(f"{trial.case}/{trial.dtype}/{trial.backend}")

    def died(self, answer: Answer) -> bool:
        """Take what a process died in; False where it was in no stage, so nothing is learned."""
        if not answer.stages or answer.stages[-1][1].ok:
            return False
        stage, ended = answer.stages[-1]
        case, _, rest = stage.partition("/")
        dtype, _, backend = rest.partition("/")
        record = {"backend": backend, "dtype": dtype, "case": case, "ended": ended}
        trial = fit(record, Trial) if backend in BACKENDS else None
        if isinstance(trial, Trial):
            self.add(trial)
        self.done.add(stage)
        return True


def try_attention(
    child: TorchChild, facts: Facts, device: str, chosen: Chosen, told: Told
) -> Attention | Unknown:
    """Every backend on every case, in as many processes as it takes, within a bounded time."""
    told(f"trying attention kernels on {device}")
    began, heard = time.monotonic(), _Heard()
    cut, whole = "", QUICK_SECONDS if facts.options.quick else ALL_SECONDS
    for death in range(DEATHS + 1):
        left = whole - (time.monotonic() - began)
        known = len(heard.done)
        answer = child.ask(
            TRIAL_SECONDS,
            heard=heard.take,
            stage="attention",
            device=device,
            shape=facts.job.attention,
            precision=chosen.precision,
            quick=facts.options.quick,
            done=sorted(heard.done),
            within=left,
        )
        if answer.ended.ok:
            cut = str((answer.answer or {}).get("cut_short", ""))
            break
        if answer.ended.how == "budget":
            return Unknown(reason=answer.ended.detail)
        cut = f"the process ended: {answer.ended.detail or answer.ended.how}"
        if not (heard.died(answer) or len(heard.done) > known):
            break
        if death == DEATHS:
            cut = (
                f"left out after {DEATHS + 1} processes were lost; the last: {answer.ended.detail}"
            )
    if not heard.cases:
        return Unknown(reason=cut or "the attention trial told nothing")
    return Attention(
        device=device,
        cases=heard.cases,
        trials=tuple(heard.trials),
        defaults=heard.defaults,
        lowest_lse=heard.lowest_lse,
        cut_short=cut,
        seconds=time.monotonic() - began,
    )


def try_implementations(
    children: Children, facts: Facts, device: str, chosen: Chosen, told: Told
) -> tuple[Implementation, ...]:
    """Every attn_implementation that the installed packages offer, in a process of its own."""
    told("trying attention implementations of transformers")
    interpreter = facts.interpreter
    assert isinstance(interpreter, Interpreter)
    found: list[Implementation] = []

    def hear(note: dict[str, Any]) -> None:
        one = fit(note.get("implementation"), Implementation)
        if isinstance(one, Implementation):
            found.append(one)

    arguments = ("training_side/attention_implementations", device, chosen.precision)
    try:
        child = children.start(interpreter.path, *arguments)
    except NotStartedError as error:
        return (Implementation(name="all", ended=error.ended),)
    try:
        answer = child.wait(IMPLEMENTATIONS_SECONDS, on_note=hear)
    finally:
        child.kill()
    if not answer.ended.ok:
        name = answer.stages[-1][0] if answer.stages else "all"
        found.append(Implementation(name=name, ended=answer.ended))
    return tuple(found)


def collect_attention(
    child: TorchChild, children: Children, facts: Facts, device: str, told: Told
) -> Attention | Unknown | None:
    """The attention trial; None where the user, or the budget, left it out."""
    chosen = facts.chosen
    if not facts.options.smoke or "attention" in facts.options.omitted:
        return None
    if isinstance(chosen, Unknown):
        return chosen
    found = try_attention(child, facts, device, chosen, told)
    if isinstance(found, Unknown) or not facts.job.hf:
        return found
    tried = try_implementations(children, facts, device, chosen, told)
    found = msgspec.structs.replace(found, implementations=tried)
    return unless_cut_off(found, *(each.ended for each in tried))
