"""The attention kernels that torch takes by default: tried, and compared with known bugs."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from doctor._util.records import Unknown
from doctor.checks.numerics.attention_bugs import Bug, Suspicion, covers, suspect
from doctor.checks.numerics.attention_order import (
    CUDNN,
    NAMES,
    deprioritized,
)
from doctor.checks.numerics.attention_trials import Fault, Seen, look, told
from doctor.facts.load import Attention
from doctor.facts.machine import Cuda, Host, Torch
from doctor.facts.training import Settings
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Target
from doctor.judge.attention_gates import GATES
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.sources import SOURCES
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch

SWITCHES = {
    "cudnn": Switch.CUDNN_SDP,
    "flash": Switch.FLASH_SDP,
    "mem_efficient": Switch.MEM_EFFICIENT_SDP,
}
"""Backend -> what turns it off."""
CUDNN_OFF = CALLS[Switch.CUDNN_SDP]
AVOID = {
    "no mask": "use is_causal=True where the model allows it",
    "boolean mask": "use is_causal=True instead of a mask that says the same",
    "very negative logits, mask": "pad keys to a multiple of 128, or is_causal=True and no mask",
    "very negative logits": "pad keys to a multiple of 128, or is_causal=True",
    "one query": "training is not concerned; generate and evaluate with another backend",
    "broadcast keys": "call .contiguous() on expanded keys and values",
    "fully masked row": "let no row of a mask be False everywhere; torch 2.5 gives 0 for such rows",
    "dropout": "leave the dropout of attention at 0",
}
"""Case -> what keeps clear of it."""


def cudnn_sdpa(
    torch: Torch,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    settings: Settings | Unknown,
    attention: Attention | Unknown | None,
    chosen: Chosen | Unknown,
    target: Target,
) -> Verdict:
    try:
        version = Version(torch.version)
    except InvalidVersion:
        return unknown(f"torch's version cannot be compared: {torch.version}")
    switches = settings.sdp_enabled if isinstance(settings, Settings) else {}
    suspicion: Suspicion | None = None
    if target.kind == "nvidia":
        if reason := _unlooked(torch, job_gpus):
            return reason
        assert isinstance(job_gpus, JobGpus)
        suspicion = suspect(version, torch, switches, cuda, job_gpus, host)
    if isinstance(attention, Attention):
        said = suspicion or Suspicion(f"torch {torch.version} on {attention.device}")
        capability = job_gpus.gpus[0].capability if isinstance(job_gpus, JobGpus) else None
        sure = {bug for bug in said.hits + said.unsure if covers(attention, capability, bug)}
        precision = chosen.precision if isinstance(chosen, Chosen) else None
        last = deprioritized(host, version)
        seen = look(attention, version, precision, switches, cudnn_last=last)
        return _observed(said, sure, seen, version)
    if suspicion:
        return _suspected(suspicion, version, attention)
    if attention is None:
        return skip("left out by --no-smoke or --budget")
    return unknown(f"the attention trial did not run: {attention.reason}")


def _unlooked(torch: Torch, job_gpus: JobGpus | Unknown) -> Verdict | None:
    """Why there is no stack of CUDA to look up."""
    if torch.cuda is None:
        return skip("this torch has no CUDA, so no such kernels")
    if isinstance(job_gpus, Unknown):
        return unknown(f"could not be read: {job_gpus.reason}")
    return None if job_gpus.gpus else unknown("no GPU is visible")


def _suspected(said: Suspicion, version: Version, attention: Unknown | None) -> Verdict:
    """By the table alone."""
    untried = f"; not tried: {attention.reason}" if attention else ""
    if said.hits:
        named = "; ".join(f"{bug.symptom} ({_issue(bug.source)})" for bug in said.hits)
        return warn(
            f"{said.said}: known bug: {named}{untried}",
            *_commands(said.hits, (), version),
            switches_off=_switches(said.hits, ()),
            fix=_fix(said.hits, (), (), version),
            sources=_sources(said.hits, ()),
        )
    if said.unsure:
        what = "a known bug may match, not all of these could be read"
        return unknown(f"{said.said}: {what}{untried}")
    if attention:
        return unknown(f"{said.said}: no known bug matches{untried}")
    none = "no other known bug matches" if said.switched else "no known bug matches"
    return ok(f"{said.said}: {', '.join(filter(None, [said.switched, none]))}")


def _observed(said: Suspicion, sure: set[Bug], seen: Seen, version: Version) -> Verdict:
    """By what the trial showed, with what the table suspects beside it.

    `sure`: bugs that the trial would have shown.
    """
    every = seen.faults + seen.spared
    shown = tuple(bug for bug in said.hits if any(_is(bug, each) for each in every))
    rest = tuple(bug for bug in said.hits if bug not in shown)
    doubts = [f"suspected {b.symptom} ({_issue(b.source)}), {_how_sure(b, sure)}" for b in rest]
    named = shown + tuple(bug for bug in rest if bug not in sure)
    if seen.faults or seen.wrong or named:
        known = [f"known as {_issue(bug.source)}" for bug in shown]
        answer = fail if any(each.serious for each in seen.faults) else warn
        return answer(
            f"{said.said}: {'; '.join([*told(seen.faults), *known, *seen.wrong, *doubts])}",
            *_commands(named, seen.faults, version),
            switches_off=_switches(named, seen.faults),
            fix=_fix(named, seen.faults, seen.wrong, version),
            sources=_sources(named, seen.faults),
            seconds=seen.seconds,
        )
    unsure = [bug for bug in said.unsure if bug not in sure]
    lacking = seen.lacking
    if unsure and not lacking:
        lacking = f"{_issue(unsure[0].source)} may match, not all of these could be read"
    if lacking:
        return unknown(f"{said.said}: {'; '.join([lacking, *doubts])}", seconds=seen.seconds)
    parts = [seen.praise, *filter(None, [said.switched]), *told(seen.spared), *doubts]
    return ok(f"{said.said}: {'; '.join(parts)}", seconds=seen.seconds)


def _how_sure(bug: Bug, sure: set[Bug]) -> str:
    if bug in sure:
        return "not shown by the trial on this GPU, which provoked it"
    return "not shown by the trial on this GPU, which cannot provoke it at will"


def _is(bug: Bug, fault: Fault) -> bool:
    """Whether a fault is what the table says of this bug."""
    return NAMES[bug.backend] == fault.trial.backend and (
        fault.case.name in bug.cases or fault.case.trigger == bug.source
    )


def _issue(source: str) -> str:
    return source.replace("-", "#")


def _sources(bugs: Iterable[Bug], faults: Iterable[Fault]) -> tuple[str, ...]:
    triggers = [each.case.trigger for each in faults if each.case.trigger in SOURCES]
    return tuple(dict.fromkeys([bug.source for bug in bugs] + triggers))


def _to_switch(bugs: Iterable[Bug], faults: Iterable[Fault]) -> list[str]:
    """Backends whose switch is the remedy: where keys are broadcast, .contiguous() is."""
    own = [NAMES[bug.backend] for bug in bugs if bug.backend == CUDNN]
    return list(dict.fromkeys(own + [each.trial.backend for each in faults]))


def _switches(bugs: Iterable[Bug], faults: Iterable[Fault]) -> tuple[Switch, ...]:
    return tuple(SWITCHES[name] for name in _to_switch(bugs, faults) if name in SWITCHES)


def _commands(bugs: Iterable[Bug], faults: Iterable[Fault], version: Version) -> tuple[str, ...]:
    commands = []
    for switch in _switches(bugs, faults):
        commands.append(CALLS[switch])
        if switch is Switch.CUDNN_SDP and version.release[:2] >= CUDNN_VARIABLE_SINCE:
            commands.append(f"export {VARIABLES[switch]}")
    return tuple(commands)


def _fix(
    bugs: Iterable[Bug], faults: Iterable[Fault], wrong: Iterable[str], version: Version
) -> str:
    lines = [f"{bug.symptom}: when {bug.bites}. Cure: {bug.cure}." for bug in bugs]
    backends = _to_switch(bugs, faults)
    until = "Until then " if lines else ""
    if "cudnn" in backends:
        variable = (
            f", or {VARIABLES[Switch.CUDNN_SDP]} before it"
            if version.release[:2] >= CUDNN_VARIABLE_SINCE
            else ""
        )
        lines.append(
            f"{until}{CUDNN_OFF} at the start of the script{variable}: flash and "
            "memory-efficient attention stay as they are."
        )
    for backend in ("flash", "mem_efficient"):
        if backend in backends:
            lines.append(f"{until}{CALLS[SWITCHES[backend]]} at the start of the script.")
    if any(each.trial.backend == "math" and not each.case.trigger for each in faults):
        lines.append(
            "The math backend has no kernel of its own, so suspect this torch or the device: "
            "reinstall torch in a fresh environment, then try another GPU."
        )
    for name in dict.fromkeys(each.case.name for each in faults if not each.serious):
        if name in AVOID:
            lines.append(f'Keep clear of "{name}": {AVOID[name]}.')
    if list(wrong):
        lines.append('Load the model with attn_implementation="eager", or the one that is right.')
    return "\n".join(lines)


SDPA = Check(
    code="NUM003",
    slug="cudnn-sdpa",
    title="The attention kernel taken by default is right and has no known bug here",
    why="scaled_dot_product_attention picks its kernel by itself, and on Hopper and data-centre "
    "Blackwell some versions of torch pick cuDNN's. Known bugs of single versions give NaN in one "
    "gradient, or wrong numbers without an error. bf16 is not the cause: it has fp32's range. "
    "So every backend is tried, forward and backward, in bf16 and fp16, and compared with float64. "
    "The table of known bugs only suspects: what the trial showed decides, and both are told.",
    passes=(
        f"every backend that is switched on gives finite output and gradients with a relative "
        f"Frobenius error of at most {GATES['bf16']:g} in bf16 and {GATES['fp16']:g} in fp16, and "
        "known bug is left that the trial could not provoke; without a trial, no known bug matches "
        "torch, cuDNN, compute capability and the backend that comes first",
    ),
    warns=(
        "only a mask, a length or a layout that triggers a bug goes wrong, or only a "
        "backend that torch does not take by itself, or an attn_implementation of "
        "transformers",
        "a known bug matches that the trial cannot provoke",
    ),
    fails=(
        "the backend that torch takes by itself is wrong, not finite, raises or dies "
        "on ordinary causal attention, or on the shape of --attention, in the job's "
        "precision",
    ),
    fix=f"Upgrade to a version without the bug, or call {CUDNN_OFF} at the start of the script.",
    limits="that kernels are right for every shape, mask and length: a few of each are tried, and "
    "only known bugs are compared.",
    owner=Owner.ENVIRONMENT,
    judge=cudnn_sdpa,
    sources=("bts-root", "bts-fix1", "bts-fix3", "bts-quick", "pytorch-196678", "pytorch-193893"),
)

CHECKS = (SDPA,)
