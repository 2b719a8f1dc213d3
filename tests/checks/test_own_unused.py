"""Parameters that nothing of a step reads: a warning, or a note where a library holds them."""

from __future__ import annotations

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_gradients
from doctor.facts.diagnosis import Cut, Diagnosis
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict

OK = Ended(how="ok")
UNUSED = Cut(kind="unused", name="linear", place="train.py, line 9")


def judged(diagnosis: Diagnosis, *idle: str, computed: bool = False) -> Verdict:
    """Of a model with `net.body.weight`, which trains, and parameters without a gradient."""

    def parameter(name: str, reached: bool) -> Parameter:
        return Parameter(
            name=name,
            dtype="float32",
            size=16,
            computed=reached or computed,
            had_gradient=reached,
            finite=True,
            moved=reached,
            dimensions=2,
        )

    smoke = Smoke(
        device="cpu",
        precision="fp32",
        recipe="amp",
        lr=1e-3,
        stages=(Stage(name="optimizer", ended=OK),),
        steps=(Step(loss=1.0, grad_norm=1.0, lr=1e-3),) * 3,
        parameters=(parameter("net.body.weight", True), *(parameter(n, False) for n in idle)),
        diagnosis=diagnosis,
    )
    own = OwnModel(description="train.py:make", built=OK, smoke=smoke)
    return own_gradients.gradients_reach_all(own, None, Job())


def diagnosis(**fields: object) -> Diagnosis:
    known = {"type": "Diagnosis", "fault": "no gradient"}
    return msgspec.convert({**known, **fields}, Diagnosis)


@pytest.mark.parametrize(
    "seen",
    [
        diagnosis(uncalled=["head"]),
        diagnosis(unread=["head.0.weight", "head.1.weight"]),
        msgspec.structs.replace(
            diagnosis(),
            cuts=(msgspec.structs.replace(UNUSED, parameters=("head.0.weight", "head.1.weight")),),
        ),
    ],
    ids=["not called", "not read", "the result is not used"],
)
def test_a_head_that_nothing_uses_is_a_warning(seen: Diagnosis) -> None:
    verdict = judged(seen, "head.0.weight", "head.1.weight")
    assert verdict.status is Status.WARN
    assert "2 of 3 parameters got no gradient" in verdict.summary
    assert "no step used them; no fault if they are for another stage" in verdict.summary
    assert ("never called: head" in verdict.summary) is bool(seen.uncalled)
    assert "find_unused_parameters=True" in (verdict.fix or "")
    assert "--expect-no-grad 'head*'" in (verdict.fix or "")


def test_what_the_time_was_too_short_to_see_is_a_warning() -> None:
    verdict = judged(diagnosis(unfinished=True), "layer.key.weight")
    assert verdict.status is Status.WARN
    assert "computed with, and the time was over" in verdict.summary
    assert "no step used them" not in verdict.summary
    assert "look for detach" in (verdict.fix or "")
    of_library = diagnosis(unfinished=True, owners={"layer": True})
    assert judged(of_library, "layer.key.weight").status is Status.WARN
    detached = Cut(kind="detached", name="detach", parameters=("layer.key.weight",))
    seen = msgspec.structs.replace(diagnosis(unfinished=True), cuts=(detached,))
    assert judged(seen, "layer.key.weight", computed=True).status is Status.FAIL


def test_zeros_and_a_path_that_ends_stay_failures() -> None:
    head = "head.weight"
    assert judged(diagnosis(uncalled=["head"]), head, computed=True).status is Status.FAIL
    detached = Cut(kind="detached", name="detach", place="train.py, line 9", parameters=(head,))
    ended = msgspec.structs.replace(diagnosis(), cuts=(detached,))
    assert judged(ended, head).status is Status.FAIL
    assert judged(diagnosis(), head).status is Status.FAIL


OWNERS = {"net": True, "net.added": False, "net.inner": False}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("net.fc.weight", Status.PASS),
        ("net.added.weight", Status.WARN),
        ("net.inner.layer.weight", Status.WARN),
        ("other.weight", Status.WARN),
    ],
    ids=["of a library", "put there by the user", "a class of the user", "the user's"],
)
def test_what_a_library_has_for_other_uses_is_a_note(name: str, status: Status) -> None:
    verdict = judged(diagnosis(unread=[name], owners=OWNERS), name)
    assert verdict.status is status
    if status is Status.PASS:
        assert "1 more are not used by this loss: net.fc, in networks" in verdict.summary


def test_a_result_of_a_library_that_is_left_unused_is_a_note() -> None:
    name = "net.pooler.dense.weight"
    cut = msgspec.structs.replace(UNUSED, parameters=(name,))
    seen = msgspec.structs.replace(diagnosis(owners={"net": True}), cuts=(cut,))
    assert judged(seen, name).status is Status.PASS
    seen = msgspec.structs.replace(seen, owners={})
    assert judged(seen, name).status is Status.WARN
