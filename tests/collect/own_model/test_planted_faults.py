"""Faults planted in the user's own training, and the GradScaler on its weights."""

from __future__ import annotations

import pytest
from own_code import Own, Well, completes, judged, smoke_of

from doctor._util.records import Ended
from doctor.checks.numerics import grad_scaler
from doctor.checks.training import own_gradients
from doctor.checks.training import own_model as checks
from doctor.facts.own_model import Scaler
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Status

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        ("net = Net(); net.a.weight.data[0, 0] = float('nan'); return net, batch()", "SMK006",
         "'loss': nan"),
        ("return Net(), batch(x=torch.full((4, 8), float('nan')))", "SMK006", "'loss': nan"),
        ("return Net(), batch(labels=torch.tensor([0, 1, 7, 0]))", "SMK005", "out of bounds"),
        ("return Net(True), batch()", "SMK007", "a.weight (float32)"),
        ("return Net().bfloat16(), batch(x=torch.ones(4, 8).bfloat16())", "SMK008", "bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("without_diagnosis")
def test_a_planted_fault_is_found_by_its_check(make: str, code: str, text: str, own: Own) -> None:
    source = f"def make():\n    {make}\n"
    if code == "SMK008":
        source = NORM
    record = own(source)
    verdicts = {check.code: judged(check, record) for check in checks.CHECKS}
    assert verdicts[code].status is Status.FAIL
    assert text in verdicts[code].summary, verdicts[code].summary
    broken = [name for name, verdict in verdicts.items() if verdict.status is Status.FAIL]
    assert broken[0] == code


NORM = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
    def forward(self, x):
        return self.norm(self.inner(x)).pow(3).mean()
def make():
    return Normed().bfloat16(), {"x": torch.randn(4, 8).bfloat16()}
"""


def test_what_is_detached_on_purpose_is_named_with_a_pattern(own: Own) -> None:
    record = own("def make():\n    return Net(True), batch()\n", expect_no_grad=("a.*",))
    job = Job(expect_no_grad=("a.*",))
    for check in checks.CHECKS:
        assert judged(check, record, job).status is Status.PASS
    assert (
        "2 omitted by --expect-no-grad"
        in judged(own_gradients.GRADIENTS_REACH_ALL, record, job).summary
    )
    typo = judged(own_gradients.GRADIENTS_REACH_ALL, record, Job(expect_no_grad=("a.*", "c.*")))
    assert "no parameter matches --expect-no-grad c.*" in typo.summary
    every = Job(expect_no_grad=("*",))
    assert (
        "all 4 parameters match" in judged(own_gradients.GRADIENTS_REACH_ALL, record, every).summary
    )
    assert judged(own_gradients.GRADIENTS_REACH_ALL, record).status is Status.FAIL


def test_a_pure_bf16_run_trains_in_bf16(own: Own) -> None:
    record = own(
        "def make():\n    return Net(), batch(), lambda m, b: m(b['x'].bfloat16(), b['labels'])\n",
        precision="bf16",
        recipe="pure-bf16",
    )
    assert {each.dtype for each in smoke_of(record).parameters} == {"bfloat16"}


@pytest.mark.parametrize(
    ("dtype", "status", "text"),
    [
        ("float32", Status.PASS, "trainable weights are float32"),
        ("float16", Status.FAIL, "Attempting to unscale FP16 gradients"),
        ("bfloat16", Status.WARN, "raises on CUDA up to torch 2.15"),
    ],
)
@pytest.mark.usefixtures("without_diagnosis")
def test_the_scaler_is_tried_on_the_weights_that_train(
    dtype: str, status: Status, text: str, own: Own
) -> None:
    source = f"def make():\n    return Net().to(torch.{dtype}), batch()\n"
    record = own(source, precision="fp16", asked="fp16")
    verdict = grad_scaler.scaler_fits_weights(
        record, Chosen("fp16", "--precision fp16"), Target("cpu", "--device cpu")
    )
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary
    assert (completes(record).status is Status.FAIL) == (dtype == "float16")


def test_the_scaler_on_cuda_is_told_by_its_real_cause() -> None:
    text = 'NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented'
    ended = Ended(how="error", detail=text)
    tried = Scaler(dtype="bfloat16", of="from_pretrained", ended=ended)
    fine = Scaler(dtype="float32", of="the model", ended=Ended(how="ok"))
    target, chosen = Target("nvidia", ""), Chosen("fp16", "")
    both = Well().with_fields(scalers=(fine, tried))
    verdict = grad_scaler.scaler_fits_weights(both.own, chosen, target)
    assert verdict.status is Status.WARN
    assert text in verdict.summary
    bf16 = grad_scaler.scaler_fits_weights(both.own, Chosen("bf16", ""), target)
    assert bf16.status is Status.SKIP
    none = grad_scaler.scaler_fits_weights(Well().own, chosen, target)
    assert none.status is Status.UNKNOWN
