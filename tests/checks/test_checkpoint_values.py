"""CKP005 and CKP007 on records: finite values, and what changed since a baseline."""

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
from doctor.checks.checkpoint.changed import NORMS_UNCHANGED_FIX
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


def finite(result: Values | Unknown | None) -> Verdict:
    return FINITE(checkpoint=checkpoint(values=result))


def test_finite() -> None:
    verdict = finite(Values(tensors=9, bytes=1000))
    assert verdict.status is Status.PASS
    assert "9 tensors, 1,000 bytes" in verdict.summary
    assert finite(Values(tensors=9, bytes=0)).status is Status.SKIP
    masks = Values(tensors=9, bytes=1000, nonfinite=(bad(True, nan=0),))
    assert finite(masks).status is Status.PASS
    assert "-inf in 1 mask" in finite(masks).summary


@pytest.mark.parametrize(
    ("fields", "words", "remedy"),
    [
        ({"dtype": "F16", "nan": 0, "plus_inf": 9}, "beyond 65,504", "cast from"),
        ({"dtype": "F8_E4M3", "nan": 2, "minus_inf": 0}, "beyond 448", "cast from"),
        ({"dtype": "F16"}, "3 NaN", None),
        ({"dtype": "F32", "nan": 0, "plus_inf": 9}, "9 +inf", None),
        ({"name": "optimizer 5: exp_avg_sq", "file": "optimizer.pt"}, "optimizer.pt", "new opt"),
    ],
)
def test_why_values_are_not_finite(fields: dict[str, Any], words: str, remedy: str | None) -> None:
    verdict = finite(Values(tensors=9, bytes=9, nonfinite=(bad(**fields),), nonfinite_tensors=1))
    assert verdict.status is Status.FAIL
    assert words in verdict.summary
    assert (remedy or "") in (verdict.fix or "")
    assert (verdict.fix is None) == (remedy is None)


def test_weights_are_named_before_moments() -> None:
    moment, weight = bad(name="optimizer 5: exp_avg", file="a"), bad(file="z")
    found = Values(tensors=9, bytes=9, nonfinite=(moment, weight), nonfinite_tensors=2)
    assert finite(found).summary.startswith("head.weight")
    squares = Values(tensors=9, bytes=9, negative=("optimizer 5: exp_avg_sq",))
    assert finite(squares).status is Status.FAIL


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


def unchanged(
    role: str = "layers.*.norm.weight", kind: Any = "norm", count: int = 49, dtype: str = "BF16"
) -> UnchangedRole:
    return UnchangedRole(role=role, kind=kind, dtype=dtype, count=count, compared=count)


def changed(*groups: UnchangedRole, count: int = 761, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {"kinds": {"norm": (0, 49)}}
    unmoved = sum(group.count for group in groups)
    movement = Movement(
        baseline="/b", changed=count, unchanged=unmoved, unchanged_roles=groups, **fields
    )
    return MOVED(checkpoint=checkpoint(movement=movement, **changes))


LOW = Optimizer(file="o", kind="Adam", entries=9, parameters=9, moments={"BF16": 9}, step_max=188.0)
FAR = History(steps=754, lr_sum=0.2, lr_squares=1e-4, covered=754)


def test_everything_changed() -> None:
    assert changed().status is Status.PASS
    verdict = changed(unchanged("rotary.inv_freq", "other", 12))
    assert verdict.status is Status.PASS
    assert "12" in verdict.summary


def test_norms_alone_are_unchanged() -> None:
    """The story of the report: 761 of 810 moved."""
    verdict = changed(unchanged(), optimizer=LOW)
    assert verdict.status is Status.FAIL
    for number in ("761 of 810", "49", "BF16"):
        assert number in verdict.summary
    assert verdict.fix == NORMS_UNCHANGED_FIX
    assert changed(unchanged(), history=FAR).status is Status.FAIL
    assert changed(unchanged(dtype="F32")).status is Status.FAIL
    verdict = changed(unchanged())
    assert verdict.status is Status.WARN
    assert verdict.fix == NORMS_UNCHANGED_FIX


def test_some_norms_are_unchanged() -> None:
    movement = Movement(
        baseline="/b",
        changed=800,
        unchanged=5,
        unchanged_roles=(unchanged(count=5),),
        kinds={"norm": (44, 49)},
    )
    verdict = MOVED(checkpoint=checkpoint(movement=movement, optimizer=LOW))
    assert verdict.status is Status.WARN
    assert "44 of 49" in verdict.summary


def test_others_that_are_unchanged_are_named() -> None:
    verdict = changed(unchanged(), unchanged("embed.weight", "embedding", 1))
    assert verdict.status is Status.WARN
    assert "1 x embed.weight" in verdict.summary


def test_nothing_changed() -> None:
    groups = (unchanged("a.weight", "MLP", 9),)
    assert changed(*groups, count=0, history=FAR).status is Status.FAIL
    assert changed(*groups, count=0, optimizer=LOW).status is Status.FAIL
    assert changed(*groups, count=0).status is Status.WARN


@pytest.mark.parametrize(
    ("movement", "status"),
    [
        (None, Status.SKIP),
        (Unknown(reason="the baseline: gone"), Status.UNKNOWN),
        (Movement(baseline="/b", changed=0, unchanged=0, added=9), Status.UNKNOWN),
    ],
)
def test_no_comparison(movement: Any, status: Status) -> None:
    assert MOVED(checkpoint=checkpoint(movement=movement)).status is status


@pytest.mark.parametrize(
    ("group", "incomparable"),
    [
        (unchanged("a.weight", "MLP", 9), 23),
        (unchanged(), 0),
        (unchanged("rotary.inv_freq", "other", 12), 0),
    ],
)
def test_nothing_changed_of_what_does_not_tell(group: UnchangedRole, incomparable: int) -> None:
    movement = Movement(
        baseline="/b",
        changed=0,
        unchanged=group.count,
        unchanged_roles=(group,),
        incomparable=incomparable,
    )
    verdict = MOVED(checkpoint=checkpoint(movement=movement, history=FAR))
    assert verdict.status is Status.UNKNOWN


def by_layer(role: str, kind: str, count: int = 4, compared: int = 4) -> UnchangedRole:
    names = tuple(role.replace("*", str(number)) for number in range(count))
    return UnchangedRole(
        role=role, kind=kind, dtype="F32", count=count, compared=compared, names=names
    )  # type: ignore[arg-type]


OTHERS = (by_layer("layers.*.mlp.weight", "MLP"), by_layer("layers.*.norm.weight", "norm"))
PARTS = {"attention": (8, 8), "MLP": (0, 4), "norm": (0, 4), "embedding": (0, 1)}


@pytest.mark.parametrize(
    ("roles", "kinds", "changes", "status"),
    [
        (OTHERS, PARTS, {}, Status.NOTE),
        (OTHERS, PARTS | {"MLP": (4, 8)}, {}, Status.NOTE),
        ((*OTHERS, by_layer("layers.*.k.weight", "attention")), PARTS, {}, Status.NOTE),
        ((*OTHERS, by_layer("layers.*.q.weight", "attention", 2)), PARTS, {}, Status.WARN),
        (OTHERS, PARTS | {"embedding": (1, 1)}, {}, Status.WARN),
        (OTHERS, PARTS | {"norm": (1, 5)}, {}, Status.WARN),
        (OTHERS, PARTS, {"optimizer": LOW}, Status.WARN),
    ],
)
def test_some_kinds_of_matrices_in_every_layer(
    roles: tuple[UnchangedRole, ...], kinds: Any, changes: dict[str, Any], status: Status
) -> None:
    """As after merging adapters; a layer or an embedding that is out of line is a warning."""
    movement = Movement(baseline="/b", changed=8, unchanged=9, unchanged_roles=roles, kinds=kinds)
    verdict = MOVED(checkpoint=checkpoint(movement=movement, **changes))
    assert verdict.status is status, verdict.summary
