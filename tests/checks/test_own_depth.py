"""Gradients by depth, misused losses and unregistered tensors, judged on recorded facts."""

from __future__ import annotations

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_files, own_gradients, own_model, own_trials, own_weights
from doctor.checks.training.own_depth import FEWEST, exploding, vanishing
from doctor.facts.own_model import Misuse, OwnModel, PartialLoad, Trend, Trial
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status, ok


def parameters(norms: list[float], **fields: object) -> list[Parameter]:
    """Matrices with these gradient norms, from the input to the loss."""
    return [
        Parameter(
            name=f"layers.{index}.weight",
            dtype="float32",
            size=16,
            computed=True,
            had_gradient=norm != 0.0,
            finite=True,
            moved=True,
            dimensions=2,
            grad_norm=norm,
            order=len(norms) - index,
            **fields,  # type: ignore[arg-type]
        )
        for index, norm in enumerate(norms)
    ]


def own(norms: list[float], **fields: object) -> OwnModel:
    ok = Ended(how="ok")
    step = Step(loss=1.0, grad_norm=1.0, lr=1e-3)
    smoke = Smoke(
        device="cpu",
        precision="fp32",
        recipe="amp",
        lr=1e-3,
        stages=(Stage(name="optimizer", ended=ok),),
        steps=(step,) * 3,
        parameters=tuple(parameters(norms)),
    )
    return OwnModel(description="train.py:make", built=ok, smoke=smoke, **fields)  # type: ignore[arg-type]


FALLING = [10.0**-power for power in range(12, 0, -1)]
LEVEL = [1.0, 0.3, 2.0, 0.5] * 3
SMALL_BRANCHES = [1.0, 1e-6] * 6


def test_gradients_that_vanish_or_explode_are_a_warning() -> None:
    fading = own_gradients.gradients_reach_all(own(FALLING), None, Job())
    assert fading.status is Status.WARN
    assert "vanish" in fading.summary
    assert "layers.0.weight" in fading.summary
    growing = own_gradients.gradients_reach_all(own(FALLING[::-1]), None, Job())
    assert growing.status is Status.WARN
    assert "explode" in growing.summary


@pytest.mark.parametrize(
    "norms",
    [LEVEL, SMALL_BRANCHES, FALLING[-FEWEST + 1 :], [1e-9, *LEVEL], [*LEVEL, 1e-9], [1e-3] * 12],
    ids=["level", "branches of 1e-6", "few layers", "one at the input", "zero head", "all small"],
)
def test_uneven_gradients_without_a_trend_are_none(norms: list[float]) -> None:
    assert own_gradients.gradients_reach_all(own(norms), None, Job()).status is Status.PASS


def test_gradients_that_vanish_to_zero_name_depth_as_the_cause() -> None:
    verdict = own_gradients.gradients_reach_all(own([0.0, 0.0, *FALLING]), None, Job())
    assert verdict.status is Status.FAIL
    assert "vanish" in verdict.summary
    assert "residual" in (verdict.fix or "")


def test_weights_that_vanishing_gradients_leave_unchanged_are_one_failure() -> None:
    record = own(FALLING)
    assert record.smoke
    still = tuple(msgspec.structs.replace(each, moved=float(each.grad_norm or 0) > 5e-9)
                  for each in record.smoke.parameters)  # fmt: skip
    smoke = msgspec.structs.replace(record.smoke, parameters=still)
    record = msgspec.structs.replace(record, smoke=smoke)
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.FAIL
    assert "4 of 12 parameters do not change" in verdict.summary
    assert own_weights.weights_move(record, Job()).status is Status.UNKNOWN


def test_gradients_below_adams_epsilon_are_named() -> None:
    record = own([1e-20] * 4)
    assert record.smoke
    still = tuple(msgspec.structs.replace(each, moved=False) for each in record.smoke.parameters)
    smoke = msgspec.structs.replace(record.smoke, parameters=still)
    verdict = own_weights.weights_move(msgspec.structs.replace(record, smoke=smoke), Job())
    assert verdict.status is Status.FAIL
    assert "epsilon" in verdict.summary


def test_depth_is_unknown_without_an_order_of_the_parameters() -> None:
    without = [msgspec.structs.replace(each, order=None) for each in parameters(FALLING)]
    assert vanishing(without) == exploding(without) == ""
    biases = [msgspec.structs.replace(each, dimensions=1) for each in parameters(FALLING)]
    assert vanishing(biases) == ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("softmax", ("softmax", "logits")),
        ("sigmoid", ("sigmoid", "logits")),
        ("no log-probabilities", ("log_softmax",)),
        ("broadcast", ("[8, 1] and [8]", "squeeze")),
        ("signs", ("-1 and 1", "2 * labels - 1")),
        ("no log target", ("log_target",)),
        ("several", ("several classes", "with_logits")),
        ("padding", ("padding", "ignore_index")),
    ],
)
def test_a_misused_loss_is_a_warning(kind: str, words: tuple[str, ...]) -> None:
    misuse = Misuse(function="a_loss", kind=kind, shapes=((8, 1), (8,)))  # type: ignore[arg-type]
    verdict = own_model.loss_finite(own(LEVEL, trend=Trend(losses=(1.0,), misused=(misuse,))), None)
    assert verdict.status is Status.WARN
    text = f"{verdict.summary} {verdict.fix}"
    assert all(word in text for word in ("a_loss", *words))
    assert own_model.loss_finite(own(LEVEL, trend=Trend(losses=(1.0,))), None).status is Status.PASS


def test_parameters_of_the_loss_that_nothing_trains_are_a_warning() -> None:
    record = own(LEVEL, of_loss=("arc.weight",))
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert (verdict.status, "arc.weight" in verdict.summary) == (Status.WARN, True)
    assert "criterion.parameters()" in (verdict.fix or "")


@pytest.mark.parametrize(
    ("missing", "unexpected", "given", "fix"),
    [
        (("a.w", "a.b"), ("module.a.w", "module.a.b"), 2, "key.removeprefix('module.')"),
        (("net.w", "net.b"), ("w", "b"), 2, "'net.' + key"),
        (("w", "b"), (), 0, "NEW_KEY"),
        (tuple("abcd"), tuple(f"x.{each}" for each in "abcd"), 9, "key.removeprefix('x.')"),
        (("head.fc.w", "head.fc.b"), ("fc.w", "fc.b"), 60, ""),  # another head
        (("head.w", "head.b"), ("fc.w", "fc.b"), 60, ""),
    ],
)
def test_weights_that_were_left_out_are_a_warning(
    missing: tuple[str, ...], unexpected: tuple[str, ...], given: int, fix: str
) -> None:
    load = PartialLoad(
        given=given, unused=len(unexpected), missing=missing, unexpected=unexpected
    )  # fmt: skip
    verdict = own_files.with_files(own(LEVEL, partial_loads=(load,)), ok("completed"))
    assert verdict.status is (Status.WARN if fix else Status.PASS)
    assert fix in (verdict.fix or "")


def test_tensors_that_are_no_parameters_are_a_warning() -> None:
    names = tuple(f"hidden[{index}].weight" for index in range(6))
    verdict = own_gradients.gradients_reach_all(own(LEVEL, unregistered=names), None, Job())
    assert verdict.status is Status.WARN
    assert "hidden[0].weight" in verdict.summary
    assert "2 more" in verdict.summary
    assert "ModuleList" in (verdict.fix or "")


@pytest.mark.parametrize(
    ("trend", "word", "fix"),
    [
        (Trend(inverted_masks=("line 3 shows token 0 alone",)), "shows the padding", "Invert"),
        (Trend(fresh_heads=("score (Linear)",)), "frozen with the random numbers", "task_type"),
    ],
)
def test_masks_and_heads_are_warnings_with_their_remedy(trend: Trend, word: str, fix: str) -> None:
    trend = msgspec.structs.replace(trend, losses=(1.0,))
    verdict = own_model.loss_finite(own(LEVEL, trend=trend), None)
    assert (verdict.status, word in verdict.summary) == (Status.WARN, True)
    assert verdict.fix is not None
    assert fix in verdict.fix


@pytest.mark.parametrize(
    ("operation", "fix"),
    [
        ("lstm (LSTM without batch_first) reads samples as time", "Pass batch_first=True where"),
        ("softmax over the samples (dim 0) of [6, 5, 4]", "Normalize over the classes or keys"),
        ("softmax over the samples (dim 0) of [25, 20, 1]", "Normalize along dim=1,"),
        ("log_softmax over the samples (dim 0) of [6, 3]", "Normalize along dim=1,"),
        ("softmax over the samples (dim 0) of [6, 1, 5]", "Normalize along dim=2,"),
        ("softmax over the samples (dim 1) of [12, 6, 1]", "Normalize along dim=0,"),
        ("view() that exchanges axes, [6 * 5] rows as [5, 6]", "Exchange axes with transpose"),
    ],
)
def test_samples_that_mix_have_the_fix_of_what_mixes_them(operation: str, fix: str) -> None:
    trial = Trial(name="samples", applies=True, found="samples", operation=operation)
    found = own_trials.named([trial])
    assert found is not None
    assert found[1].startswith(fix)


@pytest.mark.parametrize(
    ("shapes", "code"),
    [
        ("[8, 32, 7, 7] as [8, 49, 32]", "x.flatten(2).transpose(1, 2)"),
        ("[8, 24, 4, 6] as [8, 4, 24, 6]", "x.permute(0, 2, 1, 3)"),
        ("[8, 4, 24, 6] as [8, 24, 24]", "x.transpose(1, 2).reshape(x.size(0), 24, 24)"),
        ("[8, 24, 32] as [8, 4, 24, 8]", "x.view(x.size(0), 24, 4, -1).transpose(1, 2)"),
        ("[6, 5, 8, 8] as [384, 5]", "x.permute(0, 2, 3, 1).reshape(-1, 5)"),
        (
            "[6, 2, 120, 4] as [6, 2, 4, 12, 10]",
            "x.transpose(-2, -1).reshape(x.size(0), 2, 4, 12, 10)",
        ),
        ("[2, 16, 4, 6, 6] as [8, 16, 36]", "x.transpose(1, 2).reshape(-1, 16, 36)"),
        ("[8, 16, 6, 6] as [2, 16, 4, 6, 6]", "x.reshape(-1, 4, 16, 6, 6).transpose(1, 2)"),
        ("[8, 24, 24, 6] as [8, 6, 24, 24]", ""),
        ("[9, 12, 8] as [8, 12, 9]", "x.permute(2, 1, 0)"),
    ],
)
def test_what_to_write_in_place_of_a_view_is_what_gives_its_shape(shapes: str, code: str) -> None:
    trial = Trial(name="axes", applies=True, found="axes", operation=f"view(), {shapes}")
    found = own_trials.named([trial])
    assert found is not None
    assert found[1].startswith(f"Write {code} there" if code else "Exchange axes with")


@pytest.mark.parametrize("shapes", ["[32, 12, 8] as [8, 12, 32]", "[8, 12, 32] as [32, 12, 8]"])
def test_no_permutation_is_named_where_heads_may_be_joined_or_split(shapes: str) -> None:
    trial = Trial(name="axes", applies=True, found="axes", operation=f"view(), {shapes}")
    found = own_trials.named([trial])
    assert found is not None
    assert found[1].startswith("What the axes stand for decides.")
    assert "(2, 1, 0)" not in found[1]
