"""Verdicts on the user's own training without one: what is unknown, remedies, the save."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from own_code import Own, Well, completes, judged, smoke_of

from doctor._util.records import Ended, Unknown
from doctor.checks import storage
from doctor.checks.training import own_model as checks
from doctor.facts.error_texts import NO_CPU_KERNEL
from doctor.facts.machine import Place
from doctor.facts.training import Stage
from doctor.job.job import Job
from doctor.judge.check import Owner, Status, Verdict

pytestmark = pytest.mark.slow


def test_a_trained_small_model_shows_a_sound_environment() -> None:
    failed = Well(built=Ended(how="error", detail="ValueError: no"), smoke=None).own
    trained = Well().own.smoke
    assert "the environment is sound" in completes(failed, trained).summary
    assert "the environment is sound" not in completes(failed, None).summary
    assert "the environment is sound" not in completes(failed, Unknown(reason="no GPU")).summary


def test_what_was_not_recorded_is_unknown() -> None:
    nothing = Well(smoke=None).own
    for check in checks.CHECKS:
        assert judged(check, nothing).status is Status.UNKNOWN
    unsupported = Well(
        built=Ended(how="error", detail="no vocab_size"), unsupported=True, smoke=None
    ).own
    assert completes(unsupported).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("detail", "owner", "fix"),
    [
        ("peft is not installed in this interpreter", Owner.ENVIRONMENT, "Install it"),
        ("OutOfMemoryError: CUDA out of memory.", Owner.JOB, "smaller micro-batch"),
        ("IndexError: index out of range in self", Owner.JOB, "resize_token_embeddings"),
    ],
)
def test_known_errors_of_own_models_have_their_remedy(detail: str, owner: Owner, fix: str) -> None:
    verdict = completes(Well(built=Ended(how="error", detail=detail), smoke=None).own)
    assert (verdict.owner, fix in (verdict.fix or "")) == (owner, True)


def room(own: Any, free: int, **job: Any) -> Verdict:
    looked = Ended(how="ok")
    place = Place(role="output", path="/data", looked=looked, free=free, exists=True)
    verdict = storage.room_for_checkpoints(Job(**job), (place,), None, own)
    assert isinstance(verdict, Verdict)
    return verdict


def test_a_save_that_was_tried_is_the_size_of_a_checkpoint() -> None:
    tried = {"saved_weights": 10**9, "saved_optimizer": 2 * 10**9}
    own = Well(**tried).own
    fits = room(own, 8 * 10**9)
    assert fits.status is Status.PASS
    assert "2 checkpoints of 3.0 GB (trial save: weights 1.0 GB" in fits.summary
    assert room(own, 7 * 10**9).status is Status.WARN
    assert room(own, 5 * 10**9).status is Status.FAIL
    for elsewhere in (Well(**tried, whole=False).own, Unknown(reason="no GPU"), None):
        assert "the size of a checkpoint is not known" in room(elsewhere, 10**12).summary
    assert "10M parameters" in room(own, 10**12, params=10**7).summary


def test_a_kernel_that_this_cpu_lacks_is_unknown_and_steps_in_fp32_say_so() -> None:
    error = Ended(how="error", detail=f"forward: RuntimeError: {NO_CPU_KERNEL} descriptor. Run")
    smoke = replace(smoke_of(Well().own), stages=(Stage(name="forward", ended=error),), steps=())
    failed = Well(smoke=smoke).own
    assert completes(failed).status is Status.UNKNOWN
    assert "oneDNN has no kernel" in completes(failed).summary
    tried = completes(Well(without_kernel=error.detail).own)
    assert tried.status is Status.PASS
    assert "run in fp32" in tried.summary
    assert "run in fp32" not in completes(Well().own).summary


def test_dtypes_that_fit_in_fp32_only_are_a_note(own: Own) -> None:
    record = own(
        """
        class Filled(Net):
            def forward(self, x, labels):
                kept = torch.zeros(len(x), 8)
                kept.index_add(0, torch.arange(len(x)), self.a(x))
                return super().forward(x, labels)
        def make():
            return Filled(), batch()
        """,
        precision="bf16",
    )
    verdict = completes(record)
    assert verdict.status is Status.NOTE
    assert "in fp32 the steps complete" in verdict.summary
    assert judged(checks.LOSS_FINITE, record).status is Status.PASS


HIDDEN = """
    class Hidden(Net):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
        def forward(self, x, labels):
            x = self.norm(x)
            {}
            return super().forward(x, labels)
    def make():
        return Hidden(), batch()
"""


def test_an_error_that_autocast_hides_fails_where_nobody_asked_for_it(own: Own) -> None:
    """The matrix product keeps a copy in bf16, which an addition in place does not change."""
    source = HIDDEN.format("x += self.a(x)")
    record = own(source, precision="bf16")
    verdict = completes(record)
    assert verdict.status is Status.FAIL
    assert "under autocast in bf16, which nobody asked for, the steps complete" in verdict.summary
    assert "--precision bf16" in (verdict.fix or "")
    assert record.raised is not None
    asked = own(source, precision="bf16", asked="bf16")
    assert completes(asked).status is Status.PASS
    assert asked.without_autocast is None


@pytest.mark.parametrize("line", ["x = x + self.a(x)", "x = x + self.a(x); x += 1"])
def test_code_that_completes_in_fp32_too_says_so(own: Own, line: str) -> None:
    verdict = completes(own(HIDDEN.format(line), precision="bf16"))
    assert verdict.status is Status.PASS
    assert "one pass without autocast, too" in verdict.summary


def test_code_that_trains_under_autocast_elsewhere_is_not_judged_without(own: Own) -> None:
    source = HIDDEN.format("x += self.a(x)")
    training = """
    def train(model, data):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(**data)["loss"]
    """
    record = own(source + training, precision="bf16")
    assert completes(record).status is Status.PASS
    assert record.half_asked == "train.py"


def test_half_weights_that_meet_full_inputs_fail_without_autocast(own: Own) -> None:
    source = """
        def make():
            return Net().to(torch.bfloat16), batch()
        """
    verdict = completes(own(source, precision="bf16"))
    assert verdict.status is Status.FAIL
    assert "dtype" in verdict.summary


def test_a_preference_loss_of_the_model_with_itself(own: Own) -> None:
    record = own("""
        def make():
            model = nn.Linear(8, 1, bias=False)
            def loss(m, b):
                with torch.no_grad():
                    reference = model(b[0]) - model(b[1])
                margin = m(b[0]) - m(b[1]) - reference
                return -nn.functional.logsigmoid(margin).mean()
            return model, (torch.randn(6, 8), torch.randn(6, 8)), loss
        """)
    verdict = judged(checks.LOSS_FINITE, record)
    assert verdict.status is Status.WARN, verdict.summary
    assert "ln 2" in verdict.summary
