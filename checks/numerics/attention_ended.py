"""Attention trials that ended with an error of the hardware, or were killed from outside."""

from __future__ import annotations

import msgspec

from doctor.facts.load import Attention, Trial
from doctor.judge.check import Owner, Status, Verdict
from doctor.judge.known_errors import KILLED, fail_by, find_cause


def hardware_fault(attention: Attention) -> Verdict | None:
    """The failure of the machine if a trial on any GPU ended with an error of the hardware."""
    for each in (attention, *attention.others):
        for trial in each.trials:
            pattern = find_cause(trial.ended)
            if pattern and pattern.owner is Owner.MACHINE:
                return fail_by(pattern, _describe(each, trial), seconds=attention.seconds)
    for implementation in attention.implementations:
        pattern = find_cause(implementation.ended)
        if pattern and pattern.owner is Owner.MACHINE:
            where = f'{attention.device}: attn_implementation="{implementation.name}"'
            return fail_by(pattern, f"{where}: {implementation.ended.detail}")
    return None


def without_killed(attention: Attention) -> tuple[Attention, Trial | None]:
    """The trials that nobody ended from outside, and one that somebody did."""
    killed = [trial for trial in attention.trials if find_cause(trial.ended) is KILLED]
    rest = tuple(trial for trial in attention.trials if trial not in killed)
    return msgspec.structs.replace(attention, trials=rest), next(iter(killed), None)


def with_killed(verdict: Verdict, attention: Attention, killed: Trial | None) -> Verdict:
    """Unknown instead of a pass if a trial was killed: it shows nothing about its kernel."""
    if killed is None or verdict.status in (Status.FAIL, Status.WARN):
        return verdict
    return fail_by(KILLED, _describe(attention, killed), seconds=attention.seconds)


def _describe(attention: Attention, trial: Trial) -> str:
    where = f'{attention.device}: {trial.backend} for "{trial.case}" in {trial.dtype}'
    return f"{where}: {trial.ended.detail or trial.ended.how}"
