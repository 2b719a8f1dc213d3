"""The attention kernels that torch uses by default: tested, and compared with known bugs."""

from __future__ import annotations

from packaging.version import Version

from doctor._util.records import Unknown
from doctor._util.versions import read_version
from doctor.checks.numerics.attention_bugs import Bug, Suspicion, covers, suspect
from doctor.checks.numerics.attention_ended import hardware_fault, with_killed, without_killed
from doctor.checks.numerics.attention_order import NAMES, deprioritized
from doctor.checks.numerics.attention_others import with_others
from doctor.checks.numerics.attention_remedies import commands_of, fix_of, sources_of, switches_of
from doctor.checks.numerics.attention_trials import Fault, Results, describe, evaluate
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch
from doctor.facts.load import Attention
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Settings
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.attention_gates import GATES
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.sources import issue
from doctor.judge.switches import CALLS, CPU_FP16, Switch, is_before


def cudnn_sdpa(
    torch: Torch,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    settings: Settings | Unknown,
    attention: Attention | Unknown | None,
    chosen: Chosen | Unknown,
    target: Target,
    job: Job,
    own: OwnModel | Unknown | None,
) -> Verdict:
    version = read_version(torch.version)
    if version is None:
        return unknown(f"torch's version cannot be compared: {torch.version}")
    switches = settings.sdp_enabled if isinstance(settings, Settings) else {}
    precision = chosen.precision if isinstance(chosen, Chosen) else None
    if target.kind == "cpu" and precision == "fp16" and is_before(torch.version, CPU_FP16):
        return unknown(f"torch {torch.version} does not support fp16 on the CPU, see NUM001")
    suspicion: Suspicion | None = None
    if target.kind == "nvidia":
        if verdict := _no_cuda_stack(torch, job_gpus):
            return verdict
        assert isinstance(job_gpus, JobGpus)
        suspicion = suspect(version, torch, switches, cuda, job_gpus, host)
        suspicion = suspicion.of_job(precision, masked=_is_masked(job, own) is True)
    if isinstance(attention, Attention):
        suspicion = suspicion or Suspicion(f"torch {torch.version} on {attention.device}")
        capability = job_gpus.gpus[0].capability if isinstance(job_gpus, JobGpus) else None
        finished, killed = without_killed(attention)
        candidates = suspicion.hits + suspicion.unsure + suspicion.of_masks
        sure = {bug for bug in candidates if covers(finished, capability, bug)}
        last = deprioritized(host, version)
        results = evaluate(finished, version, precision, switches, cudnn_last=last)
        verdict = with_killed(_observed(suspicion, sure, results, version), attention, killed)
        verdict = with_others(verdict, finished, version, precision, job_gpus)
        return hardware_fault(attention) or verdict
    if suspicion:
        return _suspected(suspicion, version, attention)
    if attention is None:
        return skip("omitted by --no-smoke or --budget")
    return unknown(f"the attention trial did not run: {attention.reason}")


def _is_masked(job: Job, own: OwnModel | Unknown | None) -> bool | None:
    """Whether the job's attention has a mask or is not causal; None: it is not known."""
    if job.attention_mask:
        return job.attention_mask != "causal"
    trend = own.trend if isinstance(own, OwnModel) else None
    return trend.masked_attention if trend else None


def _no_cuda_stack(torch: Torch, job_gpus: JobGpus | Unknown) -> Verdict | None:
    """The verdict if there is no CUDA stack to compare with the table."""
    if torch.cuda is None:
        return skip("this torch is built without CUDA and has no such kernels")
    if isinstance(job_gpus, Unknown):
        return unknown(f"could not be read: {job_gpus.reason}")
    return None if job_gpus.gpus else unknown("no GPU is visible")


def _suspected(suspicion: Suspicion, version: Version, attention: Unknown | None) -> Verdict:
    """The verdict by the table alone."""
    untested = f"; not tested: {attention.reason}" if attention else ""
    if suspicion.hits:
        named = "; ".join(f"{bug.symptom} ({issue(bug.source)})" for bug in suspicion.hits)
        return warn(
            f"{suspicion.stack}: known bug: {named}{untested}",
            *commands_of(suspicion.hits, (), version),
            switches_off=switches_of(suspicion.hits, ()),
            fix=fix_of(suspicion.hits, (), (), version),
            sources=sources_of(suspicion.hits, ()),
        )
    if suspicion.unsure:
        what = "a known bug may match, not all versions could be read"
        return unknown(f"{suspicion.stack}: {what}{untested}")
    some = suspicion.switched_off or suspicion.notes or suspicion.of_masks
    rest = f"no {'other ' if some else ''}known bug matches"
    parts = [suspicion.switched_off, *_notes(suspicion), rest]
    summary = f"{suspicion.stack}: {'; '.join(filter(None, parts))}"
    if attention:
        return unknown(f"{summary}{untested}")
    return note(summary) if suspicion.of_masks else ok(summary)


def _notes(suspicion: Suspicion) -> list[str]:
    """Bugs of this stack that the job does not trigger, as far as is known."""
    return [
        f"known bug that this training {how} trigger: {bug.symptom} ({issue(bug.source)}), if "
        f"{bug.condition}"
        for how, bugs in (("does not", suspicion.notes), ("is not known to", suspicion.of_masks))
        for bug in bugs
    ]


def _observed(suspicion: Suspicion, sure: set[Bug], results: Results, version: Version) -> Verdict:
    """The verdict by the trial, which also names the bugs of the table.

    `sure`: bugs that the trial would have reproduced.
    """
    of_masks = [e for e in results.faults if any(_is(bug, e) for bug in suspicion.of_masks)]
    results = results._replace(faults=[e for e in results.faults if e not in of_masks])
    excluded = [b for b in suspicion.of_masks if b in sure and not any(_is(b, e) for e in of_masks)]
    suspicion = suspicion._replace(
        of_masks=tuple(bug for bug in suspicion.of_masks if bug not in excluded)
    )
    every = results.faults + results.avoided
    reproduced = tuple(bug for bug in suspicion.hits if any(_is(bug, each) for each in every))
    rest = tuple(bug for bug in suspicion.hits if bug not in reproduced)
    doubts = [
        f"suspected {bug.symptom} ({issue(bug.source)}), {_how_sure(bug, sure)}"
        for bug in (*rest, *excluded)
    ]
    named = reproduced + tuple(bug for bug in rest if bug not in sure)
    if results.faults or results.wrong or named:
        known = [f"known bug {issue(bug.source)}" for bug in reproduced]
        problem = fail if any(each.serious for each in results.faults) else warn
        problems = [*describe(results.faults), *known, *results.wrong, *doubts]
        return problem(
            f"{suspicion.stack}: {'; '.join(problems)}",
            *commands_of(named, results.faults, version),
            switches_off=switches_of(named, results.faults),
            fix=fix_of(named, results.faults, results.wrong, version),
            sources=sources_of(named, results.faults),
            seconds=results.seconds,
        )
    unsure = [bug for bug in suspicion.unsure if bug not in sure]
    missing = results.missing
    if unsure and not missing:
        missing = f"{issue(unsure[0].source)} may match, not all versions could be read"
    if missing:
        summary = f"{suspicion.stack}: {'; '.join([missing, *doubts])}"
        return unknown(summary, seconds=results.seconds)
    switched = filter(None, [suspicion.switched_off])
    found = describe(of_masks + results.avoided)
    parts = [results.summary, *switched, *found, *doubts, *_notes(suspicion)]
    passed = note if suspicion.of_masks else ok
    return passed(f"{suspicion.stack}: {'; '.join(parts)}", seconds=results.seconds)


def _how_sure(bug: Bug, sure: set[Bug]) -> str:
    if bug in sure:
        return "not reproduced by the trial on this GPU, which triggers it"
    return "not reproduced by the trial on this GPU, which cannot trigger it reliably"


def _is(bug: Bug, fault: Fault) -> bool:
    """Whether a fault is this bug of the table."""
    return NAMES[bug.backend] == fault.trial.backend and (
        fault.case.name in bug.cases or fault.case.trigger == bug.source
    )


SDPA = Check(
    code="NUM003",
    slug="cudnn-sdpa",
    title="The default attention kernel is correct and has no known bug",
    why="scaled_dot_product_attention selects its kernel; some torch versions select cuDNN's on "
    "Hopper and data-center Blackwell. Known bugs cause NaN in one gradient, or wrong numbers "
    "without an error; bf16 is not the cause. Every backend is compared with float64, forward and "
    "backward, in bf16 and fp16. The trial decides; the table of known bugs only suspects.",
    passes=(
        "the output and gradients of every enabled backend are finite, with a relative Frobenius "
        f"error of at most {GATES['bf16']:g} in bf16 and {GATES['fp16']:g} in fp16",
        "cuDNN builds a plan for each shape and dtype: it is tried in the job's precision only, "
        "and for a single query or with dropout where a bug is known; the summary names the rest",
        "no known bug matches that the trial cannot reproduce and that the job can trigger: bugs "
        "of decoding and of several images in a batch are notes, and so are bugs of masks and of "
        "attention that is not causal, unless the step of --hf or --model has such attention or "
        'attention_mask in the job file is "padding" or "none"',
        "without a trial: no such bug matches torch, cuDNN, compute capability and the first "
        "backend",
        "kernels in bf16 and fp16 do not concern a job in fp32",
    ),
    warns=(
        "a backend is wrong only for a mask, a length or a layout that triggers a bug, unless it "
        "is a known bug that the job is not known to trigger",
        "only a backend that torch does not use by default is wrong",
        "an attn_implementation of transformers is wrong",
        "a known bug matches that the trial cannot reproduce, and that training can trigger",
    ),
    fails=(
        "the default backend is wrong, not finite, raises or crashes on ordinary causal attention "
        "or on the shape of --attention, in the job's precision",
        "causal attention is wrong on another GPU of the job and correct on the first: if both are "
        "of one model, return the machine",
        "a trial ends with an error of the hardware, such as an uncorrectable ECC error",
    ),
    fix=f"Upgrade to a version without the bug, or call this at the start of the script:\n"
    f"{CALLS[Switch.CUDNN_SDP]}",
    limits="that kernels are correct for every shape, mask and length: a few of each are tested, "
    "and only known bugs are compared.",
    owner=Owner.ENVIRONMENT,
    judge=cudnn_sdpa,
    returns=True,
    sources=("bts-root", "bts-fix1", "bts-fix3", "bts-quick", "pytorch-196678", "pytorch-193893"),
)

CHECKS = (SDPA,)
