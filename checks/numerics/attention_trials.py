"""What the attention trial observed: which backend was wrong where, and who meets it."""

from __future__ import annotations

from typing import NamedTuple

from packaging.version import Version

from doctor.checks.numerics.attention_order import Switches
from doctor.facts.load import Attention, AttentionCase, Implementation, Trial
from doctor.job.job import Precision
from doctor.judge.attention_gates import GATES, defect
from doctor.judge.error_patterns import GPU_TAKEN, match_error

MODEL_GATES = {"bf16": 5e-2, "fp16": 2e-2, "fp32": 1e-3}
"""The same of a whole tiny model against eager in fp32, with weights rounded alike."""
SHOWN = 3
"""Faults that a summary names."""
IMPLEMENTATIONS = ("eager", "sdpa", "flash_attention_2")
INSTEAD = ("flash", "mem_efficient", "math")
"""Whom torch takes when its first choice is switched off."""


class Fault(NamedTuple):
    """A trial that went wrong."""

    trial: Trial
    case: AttentionCase
    default: bool
    """torch takes this backend here by itself."""
    serious: bool
    """Ordinary causal attention, or the job's shape, in the job's precision, by default."""
    how: str
    spared: str = ""
    """Why the job does not meet it all the same."""

    @property
    def words(self) -> tuple[str, str]:
        """What stands before and after the dtype."""
        by = self.spared or ("taken by default" if self.default else "not the default")
        return f'{self.trial.backend}, {by}, for "{self.case.name}" in', self.how


class Seen(NamedTuple):
    """What a trial comes to."""

    faults: list[Fault]
    """Serious ones first."""
    spared: list[Fault]
    """Faults of backends that are switched off or put last."""
    wrong: list[str]
    """transformers' implementations that went wrong, each with how."""
    lacking: str
    """Why the trial does not tell of the attention that the job needs, "" if it does."""
    praise: str
    """What it showed, where nothing went wrong."""
    seconds: float


def told(faults: list[Fault]) -> list[str]:
    """The faults in as many words as a line bears; one that is the same in both dtypes once."""
    dtypes: dict[tuple[str, str], list[str]] = {}
    for each in faults:
        dtypes.setdefault(each.words, []).append(each.trial.dtype)
    lines = [f"{head} {' and '.join(some)}: {how}" for (head, how), some in dtypes.items()]
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more


def look(
    attention: Attention,
    version: Version,
    precision: Precision | None,
    switches: Switches,
    *,
    cudnn_last: bool,
) -> Seen:
    """`switches` as the job has them; `cudnn_last`: it is there for who asks for it."""
    found = find_faults(attention, version, precision, switches, cudnn_last)
    return Seen(
        [each for each in found if not each.spared],
        [each for each in found if each.spared],
        wrong_implementations(attention, precision),
        untold(attention, precision, switches),
        praise(attention, found, precision, switches),
        attention.seconds,
    )


def dtypes_of(precision: Precision | None) -> tuple[str, ...]:
    """The precision of the job among those of the trial; fp32 is none of them."""
    return (precision,) if precision in GATES else ()


def ordinary(case: AttentionCase) -> bool:
    """What every decoder trains with, or what the user named."""
    return case.job or (case.causal and not case.trigger)


def default_of(attention: Attention, group: str, switches: Switches) -> str | None:
    """The backend that the job meets: torch's choice, or the next where that is switched off."""
    chosen = attention.defaults.get(group)
    if chosen is None or switches.get(chosen, True):
        return chosen
    taken = {t.backend for t in attention.trials if _group(t) == group and t.refused is None}
    return next((b for b in INSTEAD if b in taken and switches.get(b, True)), None)


def find_faults(
    attention: Attention,
    version: Version,
    precision: Precision | None,
    switches: Switches,
    cudnn_last: bool,
) -> list[Fault]:
    """The trials that went wrong, serious ones first."""
    cases = {case.name: case for case in attention.cases}
    wanted = dtypes_of(precision)
    found = []
    for trial in attention.trials:
        case = cases.get(trial.case)
        default = default_of(attention, _group(trial), switches) == trial.backend
        strict = default and trial.dtype in wanted
        if case and (how := defect(trial, case, version, strict=strict)):
            spared = _spared(trial, switches, cudnn_last=cudnn_last and not default)
            found.append(Fault(trial, case, default, strict and ordinary(case), how, spared))
    return sorted(found, key=lambda each: (not each.serious, not each.default))


def _spared(trial: Trial, switches: Switches, *, cudnn_last: bool) -> str:
    if not switches.get(trial.backend, True):
        return "switched off"
    return "put last" if cudnn_last and trial.backend == "cudnn" else ""


def untold(attention: Attention, precision: Precision | None, switches: Switches) -> str:
    """Why the trial does not tell of the attention that the job needs, "" if it does."""
    ran: dict[tuple[str, str], str | None] = {
        (_group(t), t.backend): t.refused for t in attention.trials
    }
    for case in filter(ordinary, attention.cases):
        if case.left_out:
            return f"{case.name}: {case.note}"
        for dtype in dtypes_of(precision):
            group = f"{case.name}/{dtype}"
            some = [name for (of, name), refused in ran.items() if of == group and refused is None]
            unnamed = some and group not in attention.defaults  # whichever it is, it was tried
            default = default_of(attention, group, switches)
            if default not in some and not unnamed:
                why = _why(attention, group, default, ran.get((group, default or "")))
                return f"{case.name} in {dtype} was not tried: {why}"
    return ""


def _why(attention: Attention, group: str, default: str | None, refused: str | None) -> str:
    if refused or attention.cut_short:
        return refused or attention.cut_short
    if default:
        return f"torch takes {default} there"
    return "no backend that is switched on takes it" if group in attention.defaults else "no trial"


def praise(
    attention: Attention, found: list[Fault], precision: Precision | None, switches: Switches
) -> str:
    """What the trial showed where nothing went wrong."""
    wrong = [each.trial for each in found]
    ran = [t for t in attention.trials if t.refused is None and t.ended.ok and t not in wrong]
    shares = [float(error) / GATES[trial.dtype] for trial in ran for error in trial.errors.values()]
    worst = f", at worst at {max(shares):.0%} of the error allowed" if shares else ""
    dtype = next(iter(dtypes_of(precision)), "bf16")
    default = default_of(attention, f"causal/{dtype}", switches)
    said = f"{len(ran)} trials of {', '.join(sorted({t.backend for t in ran}))} right{worst}"
    notes = [f"{case.name}: {case.note}" for case in attention.cases if case.note]
    if not dtypes_of(precision):
        notes.append(f"the job's own precision, {precision}, is not tried")
    if attention.cut_short:
        notes.append(attention.cut_short)
    first = f"{default} by default" if default else "torch does not tell its default"
    return "; ".join([first, said, *notes])


def wrong_implementations(attention: Attention, precision: Precision | None) -> list[str]:
    """transformers' implementations that went wrong, each with how."""
    gate = MODEL_GATES[precision or "fp32"]
    said = [(each.name, _wrong(each, gate)) for each in attention.implementations]
    return [f'attn_implementation="{name}": {how}' for name, how in said if how]


def _wrong(tried: Implementation, gate: float) -> str:
    if tried.name not in IMPLEMENTATIONS or match_error(tried.ended.detail, (GPU_TAKEN,)):
        return ""  # the GPU was held meanwhile, by the doctor's own process in exclusive mode
    if not tried.ended.ok:
        return tried.ended.detail or tried.ended.how
    pairs = (("logits", tried.error), ("gradients", tried.grad_error))
    off = [
        f"{name} off by {float(error):.2g} (at most {gate:g})"
        for name, error in pairs
        if error is not None and not float(error) <= gate
    ]
    return " and ".join(off)


def _group(trial: Trial) -> str:
    return f"{trial.case}/{trial.dtype}"
