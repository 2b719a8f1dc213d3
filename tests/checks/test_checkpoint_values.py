"""CKP005 and CKP007 on records: finite values, and what moved since a baseline."""

from __future__ import annotations

from typing import Any

import pytest
from checkpoints import checkpoint as make_checkpoint
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.records import (
    Checkpoint,
    History,
    Large,
    Movement,
    NonFinite,
    Optimizer,
    Problem,
    UnchangedRole,
    Values,
)
from doctor.judge.check import Status, Verdict

FINITE, MOVED = judge("CKP005"), judge("CKP007")


def checkpoint(**changes: Any) -> Checkpoint:
    return make_checkpoint(
        path="/c", layout="x", count=1, tensors=9, parameters=9, bytes=9, largest=9, **changes
    )  # fmt: skip


def bad(masks: bool = False, **changes: Any) -> NonFinite:
    known: dict[str, Any] = {
        "name": "head.weight", "file": "m", "dtype": "BF16", "values": 100, "nan": 3,
        "plus_inf": 0, "minus_inf": 1, "first": 17,
    }  # fmt: skip
    return NonFinite(**{**known, **changes}, masks=masks)


def finite(values: Values | Unknown | None) -> Verdict:
    return FINITE(checkpoint=checkpoint(values=values))


def test_finite() -> None:
    verdict = finite(Values(tensors=9, bytes=1000))
    assert verdict.status is Status.PASS
    assert "9 tensors, 1,000 bytes" in verdict.summary
    masks = Values(tensors=9, bytes=1000, nonfinite=(bad(True, nan=0),))
    assert finite(masks).status is Status.PASS
    assert "-inf in 1 mask" in finite(masks).summary


def test_not_finite() -> None:
    verdict = finite(
        Values(tensors=9, bytes=9, nonfinite=(bad(True), bad(), bad()), nonfinite_tensors=2)
    )
    assert verdict.status is Status.FAIL
    assert "head.weight: 3 NaN, 1 -inf of 100 values in BF16" in verdict.summary
    assert "(and 1 more tensor)" in verdict.summary


def test_values_near_the_end_of_fp16() -> None:
    large = Values(
        tensors=9, bytes=9, fp16_values=100, fp16_large=2,
        large=(Large(name="a.weight", values=100, large=2),),
    )  # fmt: skip
    verdict = finite(large)
    assert verdict.status is Status.WARN
    assert "2 of 100 fp16 values" in verdict.summary
    mask = Values(tensors=9, bytes=9, large=(Large(name="attn_mask", values=100, large=2),))
    assert finite(mask).status is Status.PASS


def test_values_that_are_not_known() -> None:
    assert finite(None).status is Status.SKIP
    assert "--deep" in finite(None).summary
    assert finite(Unknown(reason="gone")).status is Status.UNKNOWN
    assert finite(Values(tensors=9, bytes=9, unchecked={"U3": 1})).status is Status.UNKNOWN
    assert finite(Values(tensors=0, bytes=0)).status is Status.UNKNOWN
    problem = Problem(kind="damaged", file="m", text="was changed while it was read")
    assert finite(Values(tensors=9, bytes=9, problems=(problem,))).status is Status.UNKNOWN


def still(
    role: str = "layers.*.norm.weight", kind: Any = "norm", count: int = 49, dtype: str = "BF16"
) -> UnchangedRole:
    return UnchangedRole(role=role, kind=kind, dtype=dtype, count=count, compared=count)


def moved(*groups: UnchangedRole, moved: int = 761, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {"kinds": {"norm": (0, 49)}}
    unmoved = sum(group.count for group in groups)
    moves = Movement(
        baseline="/b", changed=moved, unchanged=unmoved, unchanged_roles=groups, **fields
    )
    return MOVED(checkpoint=checkpoint(movement=moves, **changes))


LOW = Optimizer(file="o", kind="Adam", entries=9, parameters=9, moments={"BF16": 9}, step_max=188.0)
FAR = History(steps=754, lr_sum=0.2, lr_squares=1e-4, covered=754)


def test_everything_moved() -> None:
    assert moved().status is Status.PASS
    verdict = moved(still("rotary.inv_freq", "other", 12))
    assert verdict.status is Status.PASS
    assert "12 that did not are constant buffers" in verdict.summary


def test_norms_alone_stood_still() -> None:
    """The story of the report: 761 of 810 moved."""
    verdict = moved(still(), optimizer=LOW)
    assert verdict.status is Status.FAIL
    assert "761 of 810 tensors moved; the 49 that did not are all norms" in verdict.summary
    assert "moments are BF16" in verdict.summary
    assert moved(still(), history=FAR).status is Status.FAIL
    assert moved(still(dtype="F32")).status is Status.FAIL
    verdict = moved(still())
    assert verdict.status is Status.WARN
    assert "rounded" in verdict.summary


def test_some_norms_stood_still() -> None:
    moves = Movement(baseline="/b", changed=800, unchanged=5, unchanged_roles=(still(count=5),),
                  kinds={"norm": (44, 49)})  # fmt: skip
    verdict = MOVED(checkpoint=checkpoint(movement=moves, optimizer=LOW))
    assert verdict.status is Status.WARN
    assert "44 of 49 vectors of norms moved" in verdict.summary


def test_others_that_stood_still_are_named() -> None:
    verdict = moved(still(), still("embed.weight", "embedding", 1))
    assert verdict.status is Status.WARN
    assert "1 x embed.weight" in verdict.summary


def test_nothing_moved() -> None:
    groups = (still("a.weight", "MLP", 9),)
    assert moved(*groups, changed=0, history=FAR).status is Status.FAIL
    assert moved(*groups, changed=0, optimizer=LOW).status is Status.FAIL
    assert moved(*groups, changed=0).status is Status.WARN


@pytest.mark.parametrize(
    ("moves", "status"),
    [
        (None, Status.SKIP),
        (Unknown(reason="the baseline: gone"), Status.UNKNOWN),
        (Movement(baseline="/b", changed=0, unchanged=0, added=9), Status.UNKNOWN),
    ],
)
def test_no_comparison(moves: Any, status: Status) -> None:
    assert MOVED(checkpoint=checkpoint(movement=moves)).status is status


@pytest.mark.parametrize(
    ("group", "incomparable", "words"),
    [
        (still("a.weight", "MLP", 9), 23, "23 not comparable"),
        (still(), 0, "only norms could be compared"),
        (still("rotary.inv_freq", "other", 12), 0, "only constant buffers"),
    ],
)
def test_nothing_moved_of_what_does_not_tell(
    group: UnchangedRole, incomparable: int, words: str
) -> None:
    moves = Movement(
        baseline="/b",
        changed=0,
        unchanged=group.count,
        unchanged_roles=(group,),
        incomparable=incomparable,
    )
    verdict = MOVED(checkpoint=checkpoint(movement=moves, history=FAR))
    assert verdict.status is Status.UNKNOWN
    assert words in verdict.summary
