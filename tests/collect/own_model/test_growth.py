"""Losses that explode, trends cut short, indices that the code computes, frozen models."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from own_code import Own, Well, completes, judged, smoke_of

from doctor.checks.training import own_model
from doctor.checks.training.own_trend import explodes
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Step
from doctor.judge.check import Status

LINEAR = """
def make():
    model = nn.Linear(8, 1)
    x = torch.randn(16, 8) * {scale}
    batch = {{"x": x, "y": x.sum(1, keepdim=True)}}
    optimizer = torch.optim.SGD(model.parameters(), lr={rate}, momentum=0.9)
    loss = lambda module, inputs: nn.functional.mse_loss(module(inputs["x"]), inputs["y"])
    return {{"model": model, "batch": batch, "loss": loss, "optimizer": optimizer}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "scale"), [(0.5, 10.0), (0.02, 100.0)])
def test_a_loss_that_explodes_fails_if_a_lower_rate_prevents_it(
    rate: float, scale: float, own: Own
) -> None:
    record = own(LINEAR.format(rate=rate, scale=scale))
    verdict = judged(own_model.LOSS_FINITE, record)
    assert verdict.status is Status.FAIL
    assert "grows from" in verdict.summary
    assert f"the learning rate of SGD is {rate:g}" in verdict.summary
    assert "nan" not in verdict.summary


@pytest.mark.slow
def test_a_loss_that_falls_says_how_many_steps_were_run(own: Own) -> None:
    record = own(LINEAR.format(rate=0.01, scale=1.0))
    verdict = judged(own_model.LOSS_FINITE, record)
    assert verdict.status is Status.PASS
    assert "20 of 20 steps on this batch were run" in verdict.summary


def grown(*losses: float, **fields: Any) -> OwnModel:
    steps = tuple(Step(loss=loss, grad_norm=1.0, lr=0.1) for loss in losses)
    well = Well().own
    return replace(well, smoke=replace(smoke_of(well), steps=steps), **fields)


@pytest.mark.parametrize(
    ("losses", "slower", "status"),
    [
        ((2.0, 50.0, 150.0), (), Status.PASS),
        ((2.0, 50.0, 1e4), (), Status.NOTE),
        ((2.0, 50.0, 1e4), ((0.1, (2.0, 5.0, 1e3)),), Status.NOTE),
        ((2.0, 50.0, 1e4), ((0.1, (2.0, 1e3, 1e5)), (1e-4, (2.0, 1.9, 1.8))), Status.FAIL),
        ((2.0, 50.0, 1e4), ((0.1, (2.0, 1.0, "nan")),), Status.NOTE),
        ((0.001, 0.01, 0.09), (), Status.PASS),
    ],
)
def test_growth_is_a_failure_only_where_the_rate_is_its_cause(
    losses: tuple[float, ...], slower: object, status: Status
) -> None:
    assert judged(own_model.LOSS_FINITE, grown(*losses, slower=slower)).status is status


def test_a_factor_of_nan_is_no_factor() -> None:
    trend = Trend(losses=(1.0, 200.0, "nan"), loss_factor="nan", supervised=("mse_loss",))
    verdict = judged(own_model.LOSS_FINITE, grown(1.0, 200.0, 90.0, trend=trend))
    assert "times mse_loss" not in verdict.summary
    assert explodes([1.0, float("nan")])


def test_a_trend_that_was_cut_short_is_not_evaluated() -> None:
    trend = Trend(losses=(1.0, 1.0, 1.0), ran=4, planned=20, supervised=("mse_loss",))
    verdict = judged(own_model.LOSS_FINITE, grown(1.0, 1.0, 1.0, trend=trend))
    assert verdict.status is Status.PASS
    assert "4 of 20 steps" in verdict.summary
    assert "not evaluated" in verdict.summary


POSITIONS = """
class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(32, 8), nn.Embedding(16, 8)
        self.head = nn.Linear(8, 32)
    def forward(self, ids, mask):
        positions = {positions}
        return self.head(self.words(ids) + self.places(positions))

def make():
    ids, mask = torch.randint({low}, 32, (4, 12)), torch.ones(4, 12, dtype=torch.long)
    mask[:2, :3] = 0
    loss = lambda module, x: nn.functional.cross_entropy(
        module(**x).flatten(0, 1), x["ids"].clamp(0).flatten())
    return Padded(), {{"ids": ids, "mask": mask}}, loss
"""


@pytest.mark.slow
def test_an_index_that_the_code_computes_is_not_the_batch(own: Own) -> None:
    verdict = completes(own(POSITIONS.format(positions="mask.cumsum(-1) - 1", low=0)))
    assert verdict.status is Status.FAIL
    assert "he batch is the cause" not in verdict.summary
    assert "n index that the code computes" in verdict.summary
    assert "line 26" in verdict.summary
    assert "clamp(min=0)" in verdict.fix
    assert "resize_token_embeddings" not in verdict.fix


@pytest.mark.slow
def test_negative_ids_of_the_batch_are_the_batch(own: Own) -> None:
    source = POSITIONS.format(positions="(mask.cumsum(-1) - 1).clamp(min=0)", low=-2)
    verdict = completes(own(source))
    assert "he batch is the cause" in verdict.summary
    assert "masked_fill(ids < 0" in verdict.fix
    assert "num_embeddings" not in verdict.fix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ("model = PeftModel.from_pretrained(base(), saved)", "parameters-are-frozen"),
        ("model = adapted(); model.base_model.disable_adapter_layers()", "parameters-are-frozen"),
        ("model = adapted().merge_and_unload()", "parameters-are-frozen"),
        ("model = base().requires_grad_(False)", "parameters-are-frozen"),
    ],
)  # fmt: skip
def test_a_frozen_model_has_the_remedy_of_its_cause(change: str, cause: str, own: Own) -> None:
    verdict = completes(own(f"""
        import tempfile
        from peft import LoraConfig, PeftModel, get_peft_model
        config = LoraConfig(r=2, target_modules=["0"])
        def base():
            return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        def adapted():
            return get_peft_model(base(), config)
        def make():
            saved = tempfile.mkdtemp()
            adapted().save_pretrained(saved)
            {change}
            return model, (torch.randn(4, 8), torch.randint(3, (4,))), nn.CrossEntropyLoss()
        """))  # fmt: skip
    assert verdict.status is Status.FAIL
    assert cause in verdict.causes


@pytest.mark.slow
def test_an_unknown_error_says_that_its_cause_is_not_known(own: Own) -> None:
    verdict = completes(own("""
        class Odd(Exception): pass
        def make():
            def loss(module, inputs):
                raise Odd("the flux is out of order")
            return Net(), batch(), loss
        """))  # fmt: skip
    assert verdict.status is Status.FAIL
    assert verdict.fix.startswith("Cause not known")
    assert "train.py, line" in verdict.fix


NEW_SHAPES = """
kept = []
def make():
    layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))
    def loss(module, x):
        rows = x.repeat(64, 1)[: 101 + 13 * len(kept)]
        kept.append({kept})
        with torch.autocast("cpu", torch.bfloat16):  # experts that get other numbers of tokens
            return module(rows).float().square().mean()
    return layers, torch.randn(16, 64), loss
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "grows"), [("0", False), ("torch.zeros(300_000)", True)])
def test_primitives_of_new_shapes_are_no_leak(kept: str, grows: bool, own: Own) -> None:
    verdict = completes(own(NEW_SHAPES.format(kept=kept)))
    assert ("memory grows" in verdict.summary) is grows, verdict.summary
