"""The training that the user named with --model or --hf: asked for, and told whatever dies."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from doctor._util.errors import UserError
from doctor._util.records import Ended, Unknown
from doctor.collect.child import Answer
from doctor.collect.children import Children, fit, read, unless_cut_off
from doctor.collect.diagnosis import diagnose
from doctor.collect.torch_child import ReportProgress, TorchChild, cut_short
from doctor.facts.training import NO_LOSS, Compiled, LoraOrder, OwnModel, Smoke
from doctor.job.job import Chosen, Job

OWN_SECONDS = 300.0
"""Building included: weights may come from a slow disk."""
ATTEMPT_SECONDS = 60.0
"""Of a repetition in search of a fault's cause: transformers is imported and the model built."""
LORA_SECONDS = 90.0
COMPILE_SECONDS = 180.0
"""Compiling a model takes minutes, with a cold cache."""
BATCH = 2
"""Samples of a batch that the doctor makes itself."""
TRAINING = ("allocate", "forward", "loss", "backward", "optimizer", "compare")
"""Stages of the training itself; those before build the model, those after measure it."""
ORDERS = (
    ("checkpointing first", False, False),
    ("LoRA first", False, False),
    ("checkpointing first", True, False),
    ("LoRA first", True, False),
    ("LoRA first", True, True),
)
"""Order, reentrant, the head trained whole: the last one is where gradients can vanish silently."""


def factory_of(model: str) -> tuple[str, str]:
    """FILE.py:factory as file and function. Raises UserError for what is none."""
    file, colon, name = model.rpartition(":")
    if not colon or not name.isidentifier():
        raise UserError(f"--model {model} is not FILE.py:factory, such as train.py:make")
    if not file.endswith(".py") or not os.path.isfile(file):  # noqa: PTH113 - never raises
        raise UserError(f"--model {model}: there is no Python file {file}")
    return file, name


def find_folder(folder: str) -> str:
    """The folder of --hf. Raises UserError where it holds no transformers model."""
    if not os.path.isdir(folder):  # noqa: PTH112 - never raises
        said = "it is not downloaded: name a folder" if folder.count("/") == 1 else "no such folder"
        raise UserError(f"--hf {folder}: {said}")
    if not os.path.isfile(os.path.join(folder, "config.json")):  # noqa: PTH113, PTH118
        raise UserError(f"--hf {folder}: no config.json in it, so it is no transformers model")
    return folder


def subject(job: Job, chosen: Chosen) -> dict[str, Any] | None:
    """The training of the job, as the probe `subjects` takes it; None if none was named."""
    common = {"batch": BATCH, "length": job.seq_len}
    if job.model is not None:
        file, _, name = job.model.rpartition(":")
        return {"kind": "factory", "file": file, "name": name, "folder": ".", **common}
    if job.hf is None:
        return None
    return {
        "kind": "hf",
        "folder": job.hf,
        "layers": job.layers,
        "weights": job.weights,
        "lora": job.lora,
        "dtype": base_dtype(job, chosen),
        **common,
    }


def base_dtype(job: Job, chosen: Chosen) -> str | None:
    """Of the weights that LoRA freezes: the precision of the computation, as people load them."""
    if job.lora is None:
        return None
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[chosen.precision]


def collect_own(
    children: Children, python: str, job: Job, device: str, chosen: Chosen, told: ReportProgress
) -> OwnModel | Unknown | None:
    """Everything about the training that the job names, in a process of its own."""
    spec = subject(job, chosen)
    if spec is None:
        return None
    child = TorchChild(children, python)
    try:
        imported = child.imported()
        if not imported.ended.ok:
            return Unknown(reason=f"torch was not imported: {imported.ended.detail}")
        asked = {
            "subject": spec,
            "device": device,
            "precision": chosen.precision,
            "recipe": job.recipe or "amp",
        }
        own = _collect(child, job, asked, told)
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


def _collect(
    child: TorchChild, job: Job, asked: dict[str, Any], told: ReportProgress
) -> OwnModel | Unknown:
    named = job.model or job.hf or ""
    answer = child.request(
        OWN_SECONDS,
        lambda stage: told(f"training {named} on {asked['device']}: {stage}"),
        stage="own",
        **asked,
    )
    own = _own(answer, named, asked)
    if isinstance(own, Unknown) or not own.built.ok:
        return own
    own = _diagnosed(child, job, own, asked, told)
    if own.smoke is None or not own.smoke.completed:
        return own
    if job.lora is not None:
        orders, versions = try_orders(child, asked, told)
        own = msgspec.structs.replace(own, lora=orders, versions=own.versions | versions)
    if job.compile:
        told(f"compiling {named}")
        own = msgspec.structs.replace(own, compiled=try_compiled(child, asked))
    return own


def _diagnosed(
    child: TorchChild, job: Job, own: OwnModel, asked: dict[str, Any], told: ReportProgress
) -> OwnModel:
    """With the cause of what went wrong in the steps, where a search found one."""
    if own.smoke is None or _gave_no_loss(own.smoke):
        return own
    found = diagnose(
        child,
        asked["subject"],
        own.smoke,
        told,
        attempt_seconds=ATTEMPT_SECONDS,
        expected=job.expect_no_grad,
    )
    return msgspec.structs.replace(own, smoke=msgspec.structs.replace(own.smoke, diagnosis=found))


def _gave_no_loss(smoke: Smoke) -> bool:
    """Whether the factory's contract was broken: no change of kernels or numbers mends that."""
    return any(said in stage.ended.detail for stage in smoke.stages for said in NO_LOSS)


def _own(answer: Answer, named: str, asked: dict[str, Any]) -> OwnModel | Unknown:
    """What was told before the end, whatever the end was."""
    known: dict[str, Any] = {"said": named, "built": msgspec.to_builtins(_died(answer))}
    for note in answer.notes:
        fields = note.get("own")
        known |= fields if isinstance(fields, dict) else {}
    own = fit({"type": "OwnModel", **known}, OwnModel)
    if isinstance(own, Unknown) or not own.built.ok or answer.ended.ok:
        return own
    if own.smoke is None:
        return msgspec.structs.replace(own, smoke=_training(answer, asked))
    if own.points == ():
        said = Unknown(reason=answer.ended.detail or answer.ended.how)
        return msgspec.structs.replace(own, points=said)
    return own


def _died(answer: Answer) -> Ended:
    if answer.ended.ok:
        return Ended(how="error", detail="the probe told nothing of the model")
    where = f" inside {answer.stages[-1][0]}" if answer.stages else ""
    detail = answer.ended.detail
    where = "" if " inside " in detail else where
    return msgspec.structs.replace(answer.ended, detail=f"{detail}{where}")


def _training(answer: Answer, asked: dict[str, Any]) -> Smoke:
    """The steps of a training that did not come to its end."""
    stages = tuple(stage for stage in answer.stages if stage[0] in TRAINING)
    cut = Answer(answer.ended, None, answer.notes, stages)
    return cut_short(cut, asked["device"], asked["precision"], asked["recipe"])


def try_orders(
    child: TorchChild, asked: dict[str, Any], told: ReportProgress
) -> tuple[tuple[LoraOrder, ...], dict[str, str]]:
    """LoRA and checkpointing in every order; and the versions they were tried with."""
    found: list[LoraOrder] = []
    versions: dict[str, str] = {}
    for order, reentrant, save_head in ORDERS:
        told(f"LoRA and gradient checkpointing: {order}{', reentrant' if reentrant else ''}")
        known: dict[str, Any] = {"order": order, "reentrant": reentrant}
        answer = child.request(LORA_SECONDS, stage="lora", **asked, **known, save_head=save_head)
        if answer.answer == {"lora": None}:  # it has no head to train whole
            continue
        one = read(answer, "lora", LoraOrder)
        if isinstance(one, Unknown):
            ended = Ended(how="error", detail=one.reason) if answer.ended.ok else answer.ended
            one = msgspec.convert({**known, "type": "LoraOrder", "ended": ended}, LoraOrder)
        if not one.ended.ok and asked["device"] != "cpu":
            child.end()  # a CUDA error sticks: the next order wants a new process
        if save_head and "out of memory" in one.ended.detail:
            continue  # the head in fp32 is the doctor's own wish
        found.append(one)
        told_versions = fit((answer.answer or {}).get("versions"), dict[str, str])
        versions |= {} if isinstance(told_versions, Unknown) else told_versions
    return tuple(found), versions


def try_compiled(child: TorchChild, asked: dict[str, Any]) -> Compiled:
    """The step under torch.compile; its files go to a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as cache:
        answer = child.request(COMPILE_SECONDS, stage="compiled", cache=cache, **asked)
        found = read(answer, "compiled", Compiled)
        if isinstance(found, Compiled):
            return found
        child.end()
    ended = Ended(how="error", detail=found.reason) if answer.ended.ok else answer.ended
    return Compiled(ended=ended)
