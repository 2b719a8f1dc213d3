"""The user's own training, named with --model or --hf, in a child process that may crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.child_messages import Answer
from doctor.collect.child_output import in_torch, python_stack
from doctor.collect.children import Children, unless_cut_off
from doctor.collect.deeper import next_depth
from doctor.collect.diagnosis import diagnose, locate_small_gradients
from doctor.collect.faults import (
    HIDDEN,
    fails_without_autocast,
    fault_of,
    has_dtype_error,
    missing_cpu_kernel,
)
from doctor.collect.other_seed import (
    SEEDS,
    in_other_batches,
    reached_with_other_weights,
    try_other_seed,
)
from doctor.collect.own_answers import read_own, with_output
from doctor.collect.own_names import file_of
from doctor.collect.own_variants import try_compiled, try_orders
from doctor.collect.slower_steps import with_slower_steps
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.facts.own_model import OwnModel
from doctor.facts.training import NO_LOSS, Smoke
from doctor.job.job import Chosen, Job

OWN_SECONDS = 300.0
"""Building included: weights may come from a slow disk."""
STACKS_SHARE = 0.9
"""Of that time, after which a process writes where it hangs."""
BUSY_SECONDS = 300.0
"""More for a process that computes: a compiler takes minutes on a busy machine."""
ATTEMPT_SECONDS = 60.0
"""For one attempt of the bisection: it imports transformers and builds the model."""
BATCH = 2
"""Samples in a batch that the doctor generates."""


def subject(job: Job, chosen: Chosen) -> dict[str, object] | None:
    """The job's training as a subject of the probe `subjects.py`; None if the job names none."""
    common = {"batch": BATCH, "length": job.seq_len}
    if job.model is not None:
        file, _, name = job.model.rpartition(":")
        arguments = list(job.arguments)
        return {"kind": "factory", "file": file_of(file), "name": name, "directory": ".",
                "arguments": arguments, "seed": SEEDS[0], **common}  # fmt: skip
    if job.hf is None:
        return None
    return {
        "kind": "hf",
        "directory": job.hf,
        "layers": job.layers,
        "weights": job.weights,
        "lora": job.lora,
        "dtype": base_dtype(job, chosen),
        **common,
    }


def base_dtype(job: Job, chosen: Chosen) -> str | None:
    """The dtype of the weights that LoRA freezes: the job's precision, as usual."""
    if job.lora is None:
        return None
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[chosen.precision]


def collect_own(
    children: Children,
    python: str,
    job: Job,
    device: str,
    chosen: Chosen,
    report_progress: ReportProgress,
    child: TorchChild | None = None,
) -> OwnModel | Unknown | None:
    """Everything about the training that the job names, in a process of its own.

    `child`: a process of `python` that nothing has used yet, to be ended here.
    """
    if job.model is None and job.hf is None:
        return None
    child = child or TorchChild(children, python)
    try:
        imported = child.imported()
        if not imported.ended.ok:
            return Unknown(reason=f"torch was not imported: {imported.ended.detail}")
        own = collect_in(child, job, device, chosen, report_progress)
        return unless_cut_off(own, *_calls(own)) if isinstance(own, OwnModel) else own
    finally:
        child.end()


def _calls(own: OwnModel) -> Iterator[Ended]:
    """How every part of the training ended that is tried in the child process."""
    yield own.built
    if own.smoke is not None:
        yield from (stage.ended for stage in own.smoke.stages)
    yield from (order.ended for order in own.lora)
    if own.compiled is not None:
        yield own.compiled.ended


def collect_in(
    child: TorchChild, job: Job, device: str, chosen: Chosen, report_progress: ReportProgress
) -> OwnModel | Unknown:
    """Everything about the training that the job names, in this process."""
    run = _Run(child, job, device, chosen, report_progress)
    own, answer, request = _run_steps(run)
    if isinstance(own, Unknown) or not own.built.ok:
        return own
    own, answer, request = _with_another_batch(run, own, answer, request)
    own = _with_routed(run, own, request)
    own = with_slower_steps(child, own, request, report_progress)
    if answer.ended.how != "timeout" and not _crashed_outside_torch(answer, child.output):
        own = _with_diagnosis(run, own, request)
    if own.smoke is None or not own.smoke.completed:
        return own
    if job.model is not None:
        own = _with_other_seed(run, own, request)
    if job.lora is not None:
        orders, versions = try_orders(child, request, report_progress)
        own = msgspec.structs.replace(own, lora=orders, versions=own.versions | versions)
    if job.compile:
        report_progress(f"compiling {job.model or job.hf}")
        own = msgspec.structs.replace(own, compiled=try_compiled(child, request))
    return own


class _Run(NamedTuple):
    """The training that the job names, and the process that runs it."""

    child: TorchChild
    job: Job
    device: str
    chosen: Chosen
    report_progress: ReportProgress
    batch_number: int = 0
    """Batches of the loader that are left out before the one that is trained on."""

    @property
    def is_assumed(self) -> bool:
        """Whether nobody asked for the precision, so that the user may train in fp32."""
        return self.job.precision == "auto" and self.job.recipe is None


Steps = tuple[OwnModel | Unknown, Answer, dict[str, Any]]
"""The first steps, the answer that they were read from, and its request."""


def _run_steps(run: _Run) -> Steps:
    """With more layers of a model directory while fewer may be why it fails."""
    steps = _run_in_precision(run)
    failed: list[int] = []
    while isinstance(own := steps[0], OwnModel):
        layers = next_depth(own, _exempt(own, run.job))
        if layers is None:
            own = msgspec.structs.replace(own, failed_depths=tuple(failed))
            return own, *steps[1:]
        failed.append(own.layers or 0)
        deeper = msgspec.structs.replace(run.job, layers=layers)
        steps = _run_in_precision(run._replace(job=deeper))
    return steps


def _run_in_precision(run: _Run) -> Steps:
    """In the job's precision; in fp32 if a layer has no kernel on this CPU for that, or if dtypes
    do not fit, or an error is hidden, in a half precision that nobody asked for."""
    steps = _run_once(run)
    half = steps[0]
    if not isinstance(half, OwnModel) or run.chosen.precision == "fp32":
        return steps
    refused = missing_cpu_kernel(half)
    unfit = run.is_assumed and has_dtype_error(half)
    hidden = run.is_assumed and fails_without_autocast(half)
    if not (refused or unfit or hidden):
        return steps
    if hidden:
        run.child.end()  # the first call of the factory is no cause of what the second one raises
    own, answer, request = _run_once(
        run._replace(
            chosen=msgspec.structs.replace(run.chosen, precision="fp32"),
            job=msgspec.structs.replace(run.job, recipe=None),
        )
    )
    if not isinstance(own, OwnModel):
        return steps if hidden else (own, answer, request)
    if refused:
        return msgspec.structs.replace(own, without_kernel=refused), answer, request
    if hidden:
        failed = own.smoke is not None and fault_of(own.smoke) in HIDDEN
        hides = msgspec.structs.replace(own, hidden_in=run.chosen.precision)
        return (hides, answer, request) if failed else steps
    if own.smoke is None or not own.smoke.completed:
        return steps
    return msgspec.structs.replace(own, in_half=half), answer, request


def _run_once(run: _Run) -> Steps:
    child, job = run.child, run.job
    request: dict[str, Any] = {
        "subject": {**(subject(job, run.chosen) or {}), "batch_number": run.batch_number},
        "device": run.device,
        "precision": run.chosen.precision,
        "recipe": job.recipe or "amp",
    }
    name = job.model or job.hf or ""
    before = child.output
    answer = child.request(
        OWN_SECONDS,
        lambda stage: run.report_progress(f"training {name} on {run.device}: {stage}"),
        extra_seconds=BUSY_SECONDS,
        stage="own",
        limit=STACKS_SHARE * OWN_SECONDS,
        trials=job.probes,
        assumed=job.model is not None and run.is_assumed and run.chosen.precision != "fp32",
        **request,
    )
    own = read_own(answer, name, request)
    if isinstance(own, OwnModel):
        own = with_output(own, answer, child.output, before)
    return own, answer, request


def _crashed_outside_torch(answer: Answer, output: str) -> bool:
    """Whether a signal came from a line of the user's own code, which no change of torch avoids."""
    stack = python_stack(output)
    return answer.ended.how == "signal" and bool(stack) and not in_torch(output)


def _with_another_batch(
    run: _Run, own: OwnModel, answer: Answer, request: dict[str, object]
) -> tuple[OwnModel, Answer, dict[str, object]]:
    """The record with the parameters that other batches of the loader reach; where the first batch
    gives neither a loss nor a gradient, that of the first one which does."""
    fault = fault_of(own.smoke, _exempt(own, run.job)) if own.smoke else None
    if not run.job.model or fault not in ("no gradient", "zero loss"):
        return own, answer, request
    run.report_progress(f"training {run.job.model} on other batches")
    reached, number = in_other_batches(run.child, request, own)
    if fault == "no gradient" or not number:
        return msgspec.structs.replace(own, in_other_batches=reached), answer, request
    run.child.end()
    other, of_other, again = _run_in_precision(run._replace(batch_number=number))
    if isinstance(other, Unknown) or other.smoke is None or not other.smoke.completed:
        return own, answer, request
    return msgspec.structs.replace(other, batch_number=number), of_other, again


def _with_routed(run: _Run, own: OwnModel, request: dict[str, object]) -> OwnModel:
    """The record with the parameters that get a gradient with other weights."""
    job = run.job
    if not (own.smoke and job.model and fault_of(own.smoke, _exempt(own, job)) == "no gradient"):
        return own
    run.report_progress(f"training {job.model} with other weights")
    routed, unsearched = reached_with_other_weights(run.child, request, own)
    return msgspec.structs.replace(own, routed=routed, unsearched=unsearched)


def _with_diagnosis(run: _Run, own: OwnModel, request: dict[str, Any]) -> OwnModel:
    """The record with the diagnosis of a fault in its steps."""
    if own.smoke is None or _has_no_loss(own.smoke):
        return own
    diagnosis = diagnose(
        run.child,
        request["subject"],
        own.smoke,
        run.report_progress,
        attempt_seconds=ATTEMPT_SECONDS,
        expect_no_grad=_exempt(own, run.job),
    )
    if diagnosis is None and run.job.model is not None:
        diagnosis = locate_small_gradients(
            run.child, request["subject"], own.smoke, seconds=ATTEMPT_SECONDS
        )
    smoke = msgspec.structs.replace(own.smoke, diagnosis=diagnosis)
    return msgspec.structs.replace(own, smoke=smoke)


def _with_other_seed(run: _Run, own: OwnModel, request: dict[str, object]) -> OwnModel:
    """The record with the same steps from another seed, if the first ones have no fault."""
    own = msgspec.structs.replace(own, seed=SEEDS[0])
    if own.smoke is None or fault_of(own.smoke, _exempt(own, run.job)) is not None:
        return own
    reached = tuple(each.name for each in own.smoke.parameters if each.had_gradient)
    other = try_other_seed(
        run.child,
        request,
        own.built.seconds + own.smoke.seconds,
        (*_exempt(own, run.job), *reached),
        run.report_progress,
        attempt_seconds=ATTEMPT_SECONDS,
    )
    return msgspec.structs.replace(own, other_seed=other)


def _exempt(own: OwnModel, job: Job) -> tuple[str, ...]:
    """Names and patterns of the parameters that need no gradient in the steps."""
    return (*job.expect_no_grad, *unused_by_design(own, job), *own.idle)


def unused_by_design(own: OwnModel, job: Job) -> tuple[str, ...]:
    """Parameters of a class of transformers that its loss does not depend on."""
    if job.hf is None or job.lora is not None or own.smoke is None:
        return ()
    return tuple(each.name for each in own.smoke.parameters if each.computed is False)


def _has_no_loss(smoke: Smoke) -> bool:
    """Whether the factory broke its contract, which no change of kernels or numbers fixes."""
    return any(text in stage.ended.detail for stage in smoke.stages for text in NO_LOSS)
