from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended
from doctor.checks.training import smoke as checks
from doctor.facts.diagnosis import Attempt, Diagnosis
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.judge.check import Owner, Status, Verdict

completes = checks.STEP_COMPLETES.judge
loss_finite = checks.LOSS_FINITE.judge
gradients_reach_all = checks.GRADIENTS_REACH_ALL.judge
weights_move = checks.WEIGHTS_MOVE.judge

NAMES = ("allocate", "forward", "loss", "backward", "optimizer", "compare")


def stages(*, until: str = "compare", ended: Ended | None = None) -> tuple[Stage, ...]:
    """All stages up to `until`, which ended so."""
    before = NAMES[: NAMES.index(until)]
    ok = Ended(how="ok", seconds=0.01)
    return (*(Stage(name=name, ended=ok) for name in before), Stage(name=until, ended=ended or ok))


def step(loss: Any = 5.2, grad_norm: Any = 2.0, skipped: bool = False) -> Step:
    return Step(loss=loss, grad_norm=grad_norm, lr=3e-4, skipped=skipped)


def parameter(name: str = "norm.weight", **changes: Any) -> Parameter:
    fields: dict[str, Any] = {
        "dtype": "float32",
        "had_gradient": True,
        "finite": True,
        "moved": True,
    }
    return Parameter(name=name, size=128, **(fields | changes))


def smoke(**changes: Any) -> Smoke:
    fields: dict[str, Any] = {
        "device": "cuda:0",
        "precision": "bf16",
        "recipe": "amp",
        "lr": 3e-4,
        "stages": stages(),
        "steps": (step(5.5), step(5.3), step(5.1, 1.97)),
        "parameters": (parameter("embedding.weight"), parameter()),
        "seconds": 0.31,
    }
    return Smoke(**(fields | changes))


# SMK001


def test_completed() -> None:
    verdict = completes(smoke=smoke(peak_bytes=40 * 2**20))
    assert verdict.status is Status.PASS
    assert verdict.seconds == 0.31
    assert "3 steps on cuda:0 in bf16 autocast, peak memory 40 MiB" in verdict.summary
    assert "peak" not in completes(smoke=smoke()).summary


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"precision": "fp32"}, "in fp32"),
        ({"precision": "fp16"}, "in fp16 autocast"),
        ({"recipe": "pure-bf16"}, "in pure bf16"),
    ],
)
def test_the_summary_names_the_precision(changes: dict[str, Any], ending: str) -> None:
    assert completes(smoke=smoke(**changes)).summary.endswith(ending)


def test_nothing_recorded_is_unknown() -> None:
    assert completes(smoke=smoke(stages=())).status is Status.UNKNOWN
    assert loss_finite(smoke=smoke(steps=())).status is Status.UNKNOWN
    assert gradients_reach_all(smoke=smoke(parameters=())).status is Status.UNKNOWN
    assert weights_move(smoke=smoke(parameters=())).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("until", "ended", "summary"),
    [
        ("allocate", Ended(how="error", detail="allocate: RuntimeError: no"),
         "allocate raised: RuntimeError: no on cuda:0 in bf16 autocast; completed before: none"),
        ("backward", Ended(how="signal", detail="SIGSEGV inside backward"),
         "backward crashed: SIGSEGV inside backward on cuda:0"),
        ("forward", Ended(how="timeout", detail="no answer in 120 s inside forward"),
         "forward hung: no answer in 120 s inside forward"),
        ("optimizer", Ended(how="error"), "completed before: allocate, forward, loss, backward"),
    ],
)  # fmt: skip
def test_the_failed_stage_and_those_before_are_named(
    until: str, ended: Ended, summary: str
) -> None:
    verdict = completes(smoke=smoke(stages=stages(until=until, ended=ended)))
    assert verdict.status is Status.FAIL
    assert summary in verdict.summary


@pytest.mark.parametrize(
    ("detail", "owner", "fix"),
    [
        ("RuntimeError: element 0 of tensors does not require grad", Owner.JOB, "use_reentrant"),
        ("RuntimeError: element 0 of tensors does not require grad", Owner.JOB, ".detach()"),
        ("_amp_foreach_non_finite_check_and_unscale_cuda not implemented for 'BFloat16'",
         Owner.JOB, "without a scaler"),
        ("RuntimeError: Current CUDA Device does not support bfloat16. Please", Owner.ENVIRONMENT,
         "--precision"),
        ("RuntimeError: User specified an unsupported autocast device_type 'mps'",
         Owner.ENVIRONMENT, "newer torch"),
        ("AcceleratorError: CUDA error: no kernel image is available for execution",
         Owner.ENVIRONMENT, "TOR003"),
        ("RuntimeError: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", Owner.ENVIRONMENT, "libcudnn"),
        ("RuntimeError: cuDNN Frontend error: No execution plans support the graph.",
         Owner.ENVIRONMENT, "enable_cudnn_sdp(False)"),
        ("OutOfMemoryError: CUDA out of memory.", Owner.ENVIRONMENT, "Free the GPU"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Owner.MACHINE, "UUID"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", Owner.ENVIRONMENT,
         "NUM003"),
        ("RuntimeError: something else", None, ""),
    ],
)  # fmt: skip
def test_known_texts_get_their_own_remedy(detail: str, owner: Owner | None, fix: str) -> None:
    ended = Ended(how="error", detail=f"backward: {detail}")
    verdict = completes(smoke=smoke(stages=stages(until="backward", ended=ended)))
    assert verdict.status is Status.FAIL
    assert f"backward raised: {detail}" in verdict.summary
    assert verdict.owner is owner
    assert fix in (verdict.fix or "")


# SMK002


def losses(*steps: Step, **changes: Any) -> Verdict:
    verdict = loss_finite(smoke=smoke(steps=steps, **changes))
    assert isinstance(verdict, Verdict)
    return verdict


def test_prints_what_a_training_log_prints() -> None:
    verdict = loss_finite(smoke=smoke())
    assert verdict.status is Status.PASS
    assert "{'loss': 5.1000, 'grad_norm': 1.9700, 'learning_rate': 0.0003}" in verdict.summary


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf", 0.0])
def test_loss_that_is_not_one(loss: Any) -> None:
    norm = 0.0 if loss == 0.0 else 2.0
    verdict = losses(step(), step(loss, norm), step())
    assert verdict.status is Status.FAIL
    assert f"step 2: {{'loss': {float(loss):.4f}" in verdict.summary
    assert losses(step(loss, norm, skipped=True), step()).status is Status.FAIL


def test_a_loss_of_0_with_a_gradient_trains() -> None:
    assert losses(step(0.0), step()).status is Status.PASS


@pytest.mark.parametrize("norm", ["nan", "inf"])
def test_gradient_that_is_not_finite(norm: Any) -> None:
    assert losses(step(), step(5.2, norm)).status is Status.FAIL
    assert losses(step(5.2, norm, skipped=True), step()).status is Status.PASS


@pytest.mark.parametrize(
    ("skipped", "status"), [(1, Status.PASS), (10, Status.PASS), (11, Status.FAIL)]
)
def test_steps_that_the_scaler_skips(skipped: int, status: Status) -> None:
    verdict = losses(*[step(5.2, "inf", skipped=True)] * skipped, step(), step(), step())
    assert verdict.status is status
    assert f"{skipped} skipped" in verdict.summary or f"skipped {skipped} of" in verdict.summary


def test_scaler_that_skips_everything() -> None:
    verdict = losses(*[step(5.2, "inf", skipped=True)] * 3)
    assert verdict.status is Status.FAIL
    assert "skipped 3 of 3 steps" in verdict.summary


def test_one_parameter_whose_gradient_is_not_finite() -> None:
    verdict = loss_finite(smoke=smoke(parameters=(parameter(), parameter("q", finite=False))))
    assert verdict.status is Status.FAIL
    assert "q (float32)" in verdict.summary


# The diagnosis

TRIED = (
    Attempt(change="repeat", outcome="same", loss="nan", grad_norm="nan"),
    Attempt(change="cudnn-off", outcome="fixed", loss=5.2, grad_norm=2.0),
)
BROKEN = Ended(how="error", detail="backward: CUDA error: device-side assert triggered")


@pytest.mark.parametrize(
    ("judge", "fault", "changes"),
    [
        (completes, "raised", {"stages": stages(until="backward", ended=BROKEN)}),
        (loss_finite, "non-finite loss", {"steps": (step("nan", "nan"),)}),
        (loss_finite, "non-finite gradient", {"steps": (step(5.2, "inf", skipped=True),)}),
        (loss_finite, "non-finite gradient", {"parameters": (parameter(finite=False),)}),
        (gradients_reach_all, "no gradient", {"parameters": (parameter(had_gradient=False),)}),
    ],
)
def test_the_cause_is_added(judge: Any, fault: Any, changes: dict[str, Any]) -> None:
    plain = judge(smoke=smoke(**changes))
    verdict = judge(smoke=smoke(diagnosis=Diagnosis(fault=fault, attempts=TRIED), **changes))
    assert verdict.status is plain.status is Status.FAIL
    assert verdict.summary.startswith(f"{plain.summary}. ")
    assert "without cuDNN attention" in verdict.summary
    assert "torch.backends.cuda.enable_cudnn_sdp(False)" in (verdict.fix or "").splitlines()
    assert (verdict.fix or "").splitlines()[-1] == (
        "  cuDNN attention off  no fault    loss 5.2, grad_norm 2"
    )
    assert "bts-quick" in verdict.sources


def test_a_known_remedy_is_kept_if_the_bisection_is_inconclusive() -> None:
    diagnosis = Diagnosis(fault="raised", attempts=TRIED[:1])
    verdict = completes(
        smoke=smoke(stages=stages(until="backward", ended=BROKEN), diagnosis=diagnosis)
    )
    assert (verdict.fix or "").startswith("Check the labels and token ids")


# SMK003, SMK004


def test_gradients() -> None:
    assert gradients_reach_all(smoke=smoke()).status is Status.PASS
    without = tuple(parameter(f"w{number}", had_gradient=False) for number in range(6))
    verdict = gradients_reach_all(smoke=smoke(parameters=(parameter(), *without)))
    assert verdict.status is Status.FAIL
    assert "6 of 7" in verdict.summary
    assert "w3 (float32) and 2 more" in verdict.summary
    assert "w4" not in verdict.summary


def test_all_weights_change() -> None:
    verdict = weights_move(smoke=smoke())
    assert verdict.status is Status.PASS
    assert "all 2 trainable parameters changed in 3 steps at lr 0.0003" in verdict.summary


def test_unchanged_bf16_norms_are_owned_by_the_job() -> None:
    unchanged = parameter(dtype="bfloat16", moved=False)
    verdict = weights_move(smoke=smoke(recipe="pure-bf16", parameters=(parameter("w"), unchanged)))
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)
    assert "1 of 2 parameters are unchanged" in verdict.summary
    assert "norm.weight (bfloat16)" in verdict.summary
    assert "2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards" in verdict.summary
    assert verdict.fix is None
    assert "fp32" in checks.WEIGHTS_MOVE.fix


@pytest.mark.parametrize(
    "changes", [{"dtype": "float32"}, {"dtype": "bfloat16", "had_gradient": False}]
)
def test_weights_unchanged_for_another_reason(changes: dict[str, Any]) -> None:
    verdict = weights_move(smoke=smoke(parameters=(parameter(moved=False, **changes),)))
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert "SMK003" in (verdict.fix or "")
