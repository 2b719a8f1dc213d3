"""Results of the attention trial: which backend was wrong, and whether the job uses it."""

from __future__ import annotations

from typing import NamedTuple

from packaging.version import Version

from doctor.checks.numerics.attention_order import Switches
from doctor.errors.match import first
from doctor.facts.load import NOT_TRIED, Attention, AttentionCase, Implementation, Trial
from doctor.job.job import Precision
from doctor.judge.attention_gates import GATES, defect
from doctor.judge.known_errors import GPU_TAKEN

MODEL_GATES = {"bf16": 5e-2, "fp16": 2e-2, "fp32": 1e-3}
"""The same for a tiny model against eager in fp32, with weights rounded the same way."""
NAMED = 3
"""Faults named in a summary."""
IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2")
FALLBACKS = ("flash", "mem_efficient", "math")
"""Backends that torch uses, in this order, if its first choice is switched off."""


class Fault(NamedTuple):
    """A trial with a wrong result."""

    trial: Trial
    case: AttentionCase
    default: bool
    """torch uses this backend by default here."""
    serious: bool
    """Ordinary causal attention, or the job's shape, in the job's precision, by default."""
    detail: str
    avoided: str = ""
    """Why the job does not use this backend, "" if it may."""

    @property
    def parts(self) -> tuple[str, str]:
        """The texts before and after the dtype."""
        use = self.avoided or ("used by default" if self.default else "not the default")
        return f'{self.trial.backend} ({use}) for "{self.case.name}" in', self.detail


class Results(NamedTuple):
    """Results of the whole trial."""

    faults: list[Fault]
    """Serious ones first."""
    avoided: list[Fault]
    """Faults of backends that are switched off or put last."""
    wrong: list[str]
    """transformers' implementations with wrong results, each with the detail."""
    missing: str
    """Why the trial does not cover the attention that the job needs, "" if it does."""
    summary: str
    """What was tested, for a trial without faults."""
    seconds: float


def describe(faults: list[Fault]) -> list[str]:
    """A text per fault, at most NAMED; a fault that is the same in both dtypes appears once."""
    dtypes: dict[tuple[str, str], list[str]] = {}
    for each in faults:
        dtypes.setdefault(each.parts, []).append(each.trial.dtype)
    lines = [f"{head} {' and '.join(names)}: {how}" for (head, how), names in dtypes.items()]
    more = [f"and {len(lines) - NAMED} more"] if len(lines) > NAMED else []
    return lines[:NAMED] + more


def evaluate(
    attention: Attention,
    version: Version,
    precision: Precision | None,
    switches: Switches,
    *,
    cudnn_last: bool,
) -> Results:
    """Evaluate the trial.

    `switches`: as the job sets them. `cudnn_last`: cuDNN is used only on request.
    """
    faults = find_faults(attention, version, precision, switches, cudnn_last)
    return Results(
        [each for each in faults if not each.avoided],
        [each for each in faults if each.avoided],
        wrong_implementations(attention, precision),
        untested(attention, precision, switches),
        summarize(attention, faults, precision, switches),
        attention.seconds,
    )


def dtypes_of(precision: Precision | None) -> tuple[str, ...]:
    """The job's precision if the trial covers it; it does not cover fp32."""
    return (precision,) if precision in GATES else ()


def ordinary(case: AttentionCase) -> bool:
    """The attention that every decoder trains with, or the shape that the user named."""
    return case.job or (case.causal and not case.trigger)


def default_of(attention: Attention, group: str, switches: Switches) -> str | None:
    """The backend that the job uses: torch's choice, or the next if that is switched off."""
    chosen = attention.defaults.get(group)
    if chosen is None or switches.get(chosen, True):
        return chosen
    usable = {t.backend for t in attention.trials if _group(t) == group and t.refused is None}
    return next((b for b in FALLBACKS if b in usable and switches.get(b, True)), None)


def find_faults(
    attention: Attention,
    version: Version,
    precision: Precision | None,
    switches: Switches,
    cudnn_last: bool,
) -> list[Fault]:
    """The trials with wrong results, serious ones first."""
    cases = {case.name: case for case in attention.cases}
    job_dtypes = dtypes_of(precision)
    faults = []
    for trial in attention.trials:
        case = cases.get(trial.case)
        default = default_of(attention, _group(trial), switches) == trial.backend
        strict = default and trial.dtype in job_dtypes
        if case and (
            detail := defect(trial, case, version, strict=strict, device=attention.device)
        ):
            avoided = _avoided(trial, switches, cudnn_last=cudnn_last and not default)
            if precision == "fp32":
                avoided = "not used by a job in fp32"
            faults.append(Fault(trial, case, default, strict and ordinary(case), detail, avoided))
    return sorted(faults, key=lambda each: (not each.serious, not each.default))


def _avoided(trial: Trial, switches: Switches, *, cudnn_last: bool) -> str:
    if not switches.get(trial.backend, True):
        return "switched off"
    return "put last" if cudnn_last and trial.backend == "cudnn" else ""


def untested(attention: Attention, precision: Precision | None, switches: Switches) -> str:
    """Why the trial does not cover the attention that the job needs, "" if it does."""
    ran: dict[tuple[str, str | None], str | None] = {
        (_group(t), t.backend): t.refused for t in attention.trials
    }
    for case in filter(ordinary, attention.cases):
        if case.left_out:
            return f"{case.name}: {case.note}"
        for dtype in dtypes_of(precision):
            group = f"{case.name}/{dtype}"
            tested = [
                name for (of, name), refusal in ran.items() if of == group and refusal is None
            ]
            unnamed = tested and group not in attention.defaults  # whichever it is, it was tested
            default = default_of(attention, group, switches)
            if default not in tested and not unnamed:
                refusals = [ran.get((group, default))] if default else _refusals(attention, group)
                reason = _reason(attention, group, default, next(iter(refusals), None))
                return f"{case.name} in {dtype} was not tested: {reason}"
    return ""


def _refusals(attention: Attention, group: str) -> list[str | None]:
    return [each.refused for each in attention.trials if _group(each) == group and each.refused]


def _reason(attention: Attention, group: str, default: str | None, refused: str | None) -> str:
    if refused or attention.cut_short:
        return refused or attention.cut_short
    if default:
        return f"torch uses {default} for it"
    return "no enabled backend supports it" if group in attention.defaults else "no trial"


def summarize(
    attention: Attention, faults: list[Fault], precision: Precision | None, switches: Switches
) -> str:
    """What was tested, with the largest error."""
    wrong = [each.trial for each in faults]
    ran = [t for t in attention.trials if t.refused is None and t.ended.ok and t not in wrong]
    shares = [float(error) / GATES[trial.dtype] for trial in ran for error in trial.errors.values()]
    largest = f", largest error {max(shares):.0%} of the limit" if shares else ""
    dtype = next(iter(dtypes_of(precision)), "bf16")
    default = default_of(attention, f"causal/{dtype}", switches)
    backends = ", ".join(sorted({t.backend for t in ran}))
    passed = f"{len(ran)} trials of {backends} correct{largest}"
    notes = [f"{case.name}: {case.note}" for case in attention.cases if case.note]
    notes += not_tried(attention)
    if not dtypes_of(precision):
        notes.append(f"the job's own precision, {precision}, is not tested")
    if attention.cut_short:
        notes.append(attention.cut_short)
    first = f"{default} by default" if default else "torch does not report its default"
    return "; ".join([first, passed, *notes])


def not_tried(attention: Attention) -> list[str]:
    """The trials that the doctor left out on purpose, in one text; none if there are none."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial in attention.trials:
        if (trial.refused or "").startswith(NOT_TRIED):
            groups.setdefault((trial.backend, trial.dtype), []).append(f'"{trial.case}"')
    texts = [f"{of} in {dtype} for {', '.join(names)}" for (of, dtype), names in groups.items()]
    return [f"{NOT_TRIED}{'; '.join(texts)}"] if texts else []


def wrong_implementations(attention: Attention, precision: Precision | None) -> list[str]:
    """transformers' implementations with wrong results, each with the detail."""
    gate = MODEL_GATES[precision or "fp32"]
    details = [(each.name, _wrong(each, gate)) for each in attention.implementations]
    return [f'attn_implementation="{name}": {detail}' for name, detail in details if detail]


def _wrong(implementation: Implementation, gate: float) -> str:
    """What is wrong with it, "" if nothing is."""
    ended = implementation.ended
    if implementation.name not in IMPLEMENTATIONS or first(ended.detail, (GPU_TAKEN,)):
        return ""  # another process used the GPU: the doctor's own, in exclusive mode
    if not ended.ok:
        return ended.detail or ended.how
    pairs = (("logits", implementation.error), ("gradients", implementation.grad_error))
    off = [
        f"{name} off by {float(error):.2g} (at most {gate:g})"
        for name, error in pairs
        if error is not None and not float(error) <= gate
    ]
    return " and ".join(off)


def _group(trial: Trial) -> str:
    return f"{trial.case}/{trial.dtype}"
