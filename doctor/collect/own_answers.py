"""What the process of the user's own training answered, as a record."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.child_messages import Answer
from doctor.collect.child_output import kernel_assertion, last_lines, python_stack
from doctor.collect.children import fit
from doctor.collect.other_seed import TRAINING
from doctor.collect.torch_child import cut_short
from doctor.facts.observations import readable
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised
from doctor.facts.training import Smoke


def with_output(own: OwnModel, answer: Answer, output: str, before: str) -> OwnModel:
    """The record with what the training printed before it failed, and where it was."""
    failed = not own.built.ok or own.smoke is None or not own.smoke.completed
    if not failed or own.unsupported:
        return own
    return msgspec.structs.replace(
        own,
        printed=last_lines(output, os.environ, before),
        stack=python_stack(output) if answer.ended.how in ("signal", "timeout") else (),
        assertion=kernel_assertion(output),
        busy=answer.busy,
    )


def read_own(answer: Answer, name: str, request: dict[str, Any]) -> OwnModel | Unknown:
    """The notes sent before the child ended, however it ended."""
    fields: dict[str, Any] = {"said": name, "built": msgspec.to_builtins(_built(answer))}
    for note in answer.notes:
        part = note.get("own")
        fields |= part if isinstance(part, dict) else {}
    if isinstance(raised := fields.get("raised"), dict):
        fields["raised"] = raised | {"observations": readable(raised.get("observations"))}
    own = fit({"type": "OwnModel", **fields}, OwnModel)
    if isinstance(own, OwnModel) and own.raised is not None:
        answer = _without_repetition(answer, own.raised)
    if isinstance(own, Unknown) or not own.built.ok or answer.ended.ok:
        return own
    if own.smoke is None:
        return msgspec.structs.replace(own, smoke=_interrupted_steps(answer, request))
    if own.points == ():
        reason = Unknown(reason=answer.ended.detail or answer.ended.how)
        return msgspec.structs.replace(own, points=reason)
    return own


def _without_repetition(answer: Answer, raised: Raised) -> Answer:
    """The answer that ends with the error, if the process died or hung while it was repeated."""
    if answer.ended.how not in ("signal", "timeout"):
        return answer
    detail = f"{raised.error}: {raised.message.partition(chr(10))[0]}"
    ended = Ended(how="error", detail=detail, seconds=answer.ended.seconds)
    stages = tuple((name, how if how.ok else ended) for name, how in answer.stages)
    return Answer(ended, None, answer.notes, stages)


def _built(answer: Answer) -> Ended:
    """How the child ended while it built the model."""
    if answer.ended.ok:
        return Ended(how="error", detail="the probe reported nothing about the model")
    detail = answer.ended.detail
    if answer.stages and " inside " not in detail:
        detail = f"{detail} inside {answer.stages[-1][0]}"
    return msgspec.structs.replace(answer.ended, detail=detail)


def _interrupted_steps(answer: Answer, request: dict[str, Any]) -> Smoke:
    """The steps of a training that did not complete."""
    stages = tuple(stage for stage in answer.stages if stage[0] in TRAINING)
    steps = Answer(answer.ended, None, answer.notes, stages)
    return cut_short(steps, request["device"], request["precision"], request["recipe"])
