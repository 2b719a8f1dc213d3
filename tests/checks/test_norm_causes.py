"""CKP004 with an optimizer's state: each cause is distinguished, on records and on real runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import checkpoint as make_checkpoint
from runs import detach_norms, freeze_norms, llama, train, zero_norm_gradients

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.norms import read_vectors
from doctor.checkpoint.analysis.tensor_names import is_initialized_to_one
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.records import Checkpoint, History, Norm, NormEvidence, Optimizer, Role
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import Tensor
from doctor.checks.checkpoint import norm_causes as causes
from doctor.checks.checkpoint import norms as checks
from doctor.checks.checkpoint import unchanged_norms
from doctor.judge.check import Status, Verdict

JUDGE = checks.CHECKS[0].judge


def norm(value: Any = "ones", dtype: str = "BF16", name: str = "layers.0.norm.weight") -> Norm:
    return Norm(name=name, dtype=dtype, size=4096, value=value)


def judge(
    evidence: dict[str, Any] | None = None,
    norms: tuple[Norm, ...] = (norm(),) * 49,
    optimizer: dict[str, Any] | Unknown | None = None,
    **changes: Any,
) -> Verdict:
    known = {
        "norms": 49,
        "matched_by": "names",
        "step_min": 754.0,
        "step_max": 754.0,
        "lr_max": 3e-4,
    }
    state: Optimizer | Unknown
    if isinstance(optimizer, Unknown):
        state = optimizer
    else:
        fields: dict[str, Any] = {
            "file": "optimizer.pt",
            "kind": "Adam",
            "entries": 64,
            "parameters": 64,
            "moments": {"BF16": 64},
            "moments_follow_weights": True,
            "nonzero_moments": 64,
            "step_min": 754.0,
            "step_max": 754.0,
            "norms": NormEvidence(**{**known, **(evidence or {})}),
        }
        state = Optimizer(**{**fields, **(optimizer or {})})
    record: dict[str, Any] = {
        "path": "/runs/checkpoint-754",
        "layout": "Hugging Face Trainer",
        "count": 1,
        "tensors": 810,
        "parameters": 3 * 10**9,
        "bytes": 6 * 10**9,
        "largest": 6 * 10**9,
        "model_type": "llama",
        "norms": norms,
        "optimizer": state,
    }
    return JUDGE(checkpoint=make_checkpoint(**{**record, **changes}))


LOST = {"nonzero_moments": 49, "dtypes": {"BF16": 49}}


def test_updates_lost_to_bf16_rounding() -> None:
    """The run of the report: 49 norms, moments in bf16 that are not zero."""
    verdict = judge(LOST)
    assert verdict.status is Status.FAIL
    for number in ("754", "0.00195", "0.00391", "0.0003"):
        assert number in verdict.summary
    assert verdict.fix == causes.MASTER_FIX


def test_only_the_saved_copy_is_rounded() -> None:
    verdict = judge(
        {"nonzero_moments": 49, "dtypes": {"F32": 49}, "step_max": 20.0, "lr_max": 1e-5}
    )
    assert verdict.status is Status.PASS
    assert verdict.fix is None
    verdict = judge({"nonzero_moments": 49, "dtypes": {"F32": 49}, "masters_changed": 49})
    assert verdict.status is Status.PASS
    assert "49" in verdict.summary
    verdict = judge({"unread_moments": 49, "masters_changed": 49}, optimizer={"entries": 0})
    assert verdict.status is Status.PASS


def test_fp32_weights_that_went_far_would_show_in_the_copy() -> None:
    verdict = judge({"nonzero_moments": 49, "dtypes": {"F32": 49}})
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX
    history = History(steps=754, lr_sum=0.2, lr_squares=1e-4, covered=754, lr_max=3e-4)
    verdict = judge(
        {"nonzero_moments": 49, "dtypes": {"F32": 49}, "step_max": 20.0}, history=history
    )
    assert verdict.status is Status.WARN


def test_the_rate_is_that_of_the_optimizer_where_no_group_of_the_norms_has_one() -> None:
    in_fp32 = {"nonzero_moments": 49, "dtypes": {"F32": 49}, "lr_max": None}
    assert judge(in_fp32, optimizer={"lr": (1e-5, 3e-4)}).status is Status.WARN
    verdict = judge(in_fp32)
    assert verdict.status is Status.PASS
    assert "random walk" not in verdict.summary
    without_steps = {**in_fp32, "lr_max": 3e-4, "step_max": None}
    assert judge(without_steps).status is Status.PASS


def test_fp32_copies_at_their_initial_value_are_not_those_that_train() -> None:
    verdict = judge({**LOST, "masters_unchanged": 49})
    assert (verdict.status, verdict.fix) == (Status.WARN, causes.OTHER_COPY_FIX)
    assert "at their initial value" in verdict.summary


def test_copies_of_which_half_changed_answer_for_moments_that_cannot_be_read() -> None:
    masters = {"masters_changed": 24, "masters_unchanged": 24}
    verdict = judge({"unread_moments": 48, **masters})
    assert verdict.status is Status.PASS
    assert "could not be read" not in verdict.summary


@pytest.mark.parametrize("kind", ["SGD with momentum", "Rprop", "Adagrad", "SGD or Muon"])
def test_steps_that_are_not_as_long_as_the_rate_prove_nothing(kind: str) -> None:
    """SGD steps by rate times gradient: the rate alone does not tell how far the norms went."""
    history = History(steps=754, lr_sum=7.5, lr_squares=0.08, covered=754, lr_max=0.01)
    evidence = {"nonzero_moments": 49, "dtypes": {"F32": 49}}
    verdict = judge(evidence, optimizer={"kind": kind}, history=history)
    assert verdict.status is Status.PASS, verdict.summary
    assert "random walk" not in verdict.summary
    unmatched = {"matched_by": None, "reason": "its names are not those of the weights"}
    verdict = judge(unmatched, optimizer={"kind": kind}, history=history)
    assert verdict.status is Status.WARN
    assert kind in verdict.summary


def test_norms_of_a_base_beside_its_adapters_are_frozen_on_purpose() -> None:
    lora = Role(name="model.layers.*.q_proj.lora_A.default.weight", dtypes={"F32": 64})
    verdict = judge({"absent": 49}, roles=(lora,))
    assert verdict.status is Status.WARN
    assert "adapters" in verdict.summary
    assert judge({"absent": 49}).status is Status.FAIL
    assert judge({"zero_moments": 49}, roles=(lora,)).status is Status.FAIL


def test_fp32_files_at_one_with_gradients() -> None:
    verdict = judge({"nonzero_moments": 49, "dtypes": {"F32": 49}}, (norm(dtype="F32"),) * 49)
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX


def test_never_received_a_gradient() -> None:
    verdict = judge({"missing": 49})
    assert verdict.status is Status.FAIL
    assert "754" in verdict.summary
    assert verdict.fix == causes.NO_GRADIENT_FIX
    assert verdict.sources == ("unsloth-4533",)


def test_zero_gradients() -> None:
    verdict = judge({"zero_moments": 49})
    assert verdict.status is Status.FAIL
    assert verdict.fix == causes.NO_GRADIENT_FIX


def test_left_out_of_the_optimizer() -> None:
    verdict = judge({"absent": 49})
    assert verdict.status is Status.FAIL
    assert verdict.fix == causes.LEFT_OUT_FIX
    assert judge({"absent": 49}, model_type="opt").status is Status.WARN
    assert judge({"absent": 49}, quantized=True).status is Status.WARN


def test_too_early_to_tell() -> None:
    verdict = judge({**LOST, "step_max": 9.0})
    assert verdict.status is Status.WARN
    assert (verdict.fix, verdict.summary.count("10 required")) == (None, 1)
    verdict = judge({"missing": 49, "step_max": None}, optimizer={"entries": 0})
    assert verdict.status is Status.NOTE
    assert verdict.fix is None


@pytest.mark.parametrize("slot", ["compensation", "kahan_comp", "mantissa"])
def test_optimizers_that_lose_nothing(slot: str) -> None:
    verdict = judge(LOST, optimizer={"compensation": slot})
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX
    assert slot in verdict.summary


def test_rounding_cannot_hold_zero_centered_norms() -> None:
    verdict = judge(LOST, (norm("zeros"),) * 49, model_type="gemma2")
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX
    verdict = judge({"missing": 49}, (norm("zeros"),) * 49, model_type="gemma2")
    assert verdict.status is Status.FAIL


def test_a_rate_that_rounding_does_not_explain() -> None:
    assert judge({**LOST, "lr_max": 4e-3}).status is Status.FAIL
    verdict = judge({**LOST, "lr_max": 0.1})
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX
    assert judge({**LOST, "lr_max": 0.1}, optimizer={"kind": "Muon"}).status is Status.FAIL
    assert judge({**LOST, "lr_max": 0.0}).fix == causes.OTHER_COPY_FIX


def test_optimizers_whose_moments_do_not_tell_the_dtype_of_the_weights() -> None:
    evidence = {"nonzero_moments": 49, "dtypes": {"F32": 49}}
    verdict = judge({**evidence, "step_max": 11.0}, optimizer={"moments_follow_weights": False})
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.MASTER_FIX
    verdict = judge(evidence, optimizer={"moments_follow_weights": False})
    assert verdict.status is Status.FAIL
    assert verdict.fix == causes.MASTER_FIX


def test_causes_that_are_mixed_are_all_told() -> None:
    verdict = judge({"missing": 12, "nonzero_moments": 37, "dtypes": {"BF16": 37}})
    assert verdict.status is Status.FAIL
    assert "12 of them" in verdict.summary
    assert "37 of them" in verdict.summary
    verdict = judge({"nonzero_moments": 49, "dtypes": {"BF16": 40, "F32": 9}})
    assert verdict.status is Status.WARN


def test_some_norms_of_many() -> None:
    mixed = (norm(),) * 2 + (norm("other"),) * 47
    verdict = judge({"norms": 2, "missing": 2}, mixed)
    assert verdict.status is Status.WARN
    assert "2 of 49 norms" in verdict.summary
    assert verdict.fix == causes.NO_GRADIENT_FIX
    verdict = judge({"norms": 2, "nonzero_moments": 2, "dtypes": {"BF16": 2}}, mixed)
    assert verdict.status is Status.FAIL


def test_what_cannot_be_attributed_is_said_and_judged_without() -> None:
    verdict = judge({"matched_by": None, "reason": "4 weights have the shape [32]"})
    assert verdict.status is Status.WARN
    assert "4 weights have the shape [32]" in verdict.summary
    verdict = judge(optimizer=Unknown(reason="damaged"))
    assert "damaged" in verdict.summary


def test_norms_that_were_folded() -> None:
    folded = tuple(
        norm(name=f"model.layers.{n}.{name}.weight")
        for n in range(3)
        for name in ("input_layernorm", "post_attention_layernorm")
    )
    others = (norm("other", name="model.layers.0.self_attn.q_norm.weight"),)
    verdict = judge(norms=folded + others, **{"optimizer": Unknown(reason="none")})
    assert verdict.status is Status.WARN
    assert verdict.fix is None


def test_other_parameters_that_are_initialized_to_one() -> None:
    history = History(steps=754, lr_sum=0.2, lr_squares=1e-4, covered=754, lr_max=3e-4)
    moved = (norm("other"),)
    initialized = (norm(name="layers.0.mixer.D"), norm("other", name="layers.1.mixer.D"))
    verdict = judge(norms=moved, initialized_to_one=initialized, history=history)
    assert verdict.status is Status.WARN
    assert "layers.0.mixer.D" in verdict.summary
    assert "layers.1.mixer.D" not in verdict.summary
    verdict = judge(norms=moved, initialized_to_one=initialized)
    assert verdict.status is Status.PASS
    assert "layers.0.mixer.D" in verdict.summary
    assert (
        judge(norms=moved, initialized_to_one=initialized[1:], history=history).status
        is Status.PASS
    )


@pytest.mark.parametrize(
    ("name", "shape", "initialized"),
    [
        ("backbone.layers.0.mixer.D", (64,), True),
        ("model.layers.0.linear_attn.dt_bias", (8,), True),
        ("encoder.layer.0.layer_scale1.lambda1", (64,), True),
        ("blocks.0.ls1.gamma", (64,), True),
        ("base_model.model.layers.0.self_attn.k_proj.ia3_l", (32, 1), True),
        ("base_model.model.layers.0.mlp.down_proj.ia3_l", (1, 64), True),
        ("decoder.layers.0.activation.alpha", (1, 64, 1), True),
        ("layers.0.norm.weight", (64,), False),
        ("layers.0.mlp.up_proj.weight", (64, 64), False),
        ("layers.0.weight_scale", (64,), False),
        ("layers.0.lambda1", (64, 64), False),
    ],
)
def test_names_of_parameters_that_are_initialized_to_one(
    name: str, shape: tuple[int, ...], initialized: bool
) -> None:
    elements = math.prod(shape)
    assert (
        is_initialized_to_one(Tensor(name, "F32", shape, elements, "m", 0, 4 * elements))
        is initialized
    )


@pytest.mark.slow
def test_real_parameters_that_are_initialized_to_one(tmp_path: Path) -> None:
    from transformers import Dinov2Config, Dinov2Model, MambaConfig, MambaForCausalLM

    small = {"hidden_size": 16, "num_hidden_layers": 2}
    for count, model in (
        (2, MambaForCausalLM(MambaConfig(**small, vocab_size=32, state_size=4))),
        (4, Dinov2Model(Dinov2Config(**small, num_attention_heads=2, image_size=28))),
    ):
        model.save_pretrained(tmp_path)
        with LocalDirectory(tmp_path).open("model.safetensors") as source:
            _, found = read_vectors(source, read_shard(source, "model.safetensors").tensors)
        assert [each.value for each in found if each.name.split(".")[-1] in ("D", "lambda1")] == [
            "ones"
        ] * count


def read(path: Path) -> Checkpoint:
    found = scan(str(path))
    assert isinstance(found, Checkpoint)
    assert isinstance(found.training.optimizer, Optimizer)
    return found


def kahan(parameters: Any) -> Any:
    """AdamW whose state has what Kahan summation carries, and is lost all the same."""
    import torch

    class Compensated(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            done = super().step(closure)
            for parameter, state in self.state.items():
                state.setdefault("compensation", torch.zeros_like(parameter))
            return done

    return Compensated(parameters, lr=3e-4)


def sgd(parameters: Any) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def rounded(model: Any, path: Path) -> Path:
    """The same weights, saved as bf16 over the fp32 ones."""
    import torch

    model.to(torch.bfloat16).save_pretrained(path)
    return path


def tiny_steps(folder: Path) -> Path:
    model = llama()
    return rounded(model, train(model, folder, 20, 1e-5, lr_scheduler_type="constant"))


RUNS: dict[str, tuple[Callable[[Path], Path], Status, str | None]] = {
    "bf16": (lambda at: train(llama("bfloat16"), at, 40), Status.FAIL, causes.MASTER_FIX),
    "fp32": (lambda at: train(llama(), at, 40), Status.PASS, None),
    "fp32, saved as bf16": (tiny_steps, Status.PASS, None),
    "frozen": (
        lambda at: train(freeze_norms(llama()), at, 40),
        Status.FAIL,
        causes.LEFT_OUT_FIX,
    ),
    "detached": (
        lambda at: train(detach_norms(llama()), at, 40),
        Status.FAIL,
        causes.NO_GRADIENT_FIX,
    ),
    "detached in bf16": (
        lambda at: train(detach_norms(llama("bfloat16")), at, 40),
        Status.FAIL,
        causes.NO_GRADIENT_FIX,
    ),
    "zero gradients": (
        lambda at: train(zero_norm_gradients(llama()), at, 40),
        Status.FAIL,
        causes.NO_GRADIENT_FIX,
    ),
    "early": (lambda at: train(llama("bfloat16"), at, 5), Status.WARN, None),
    "Kahan": (
        lambda at: train(llama("bfloat16"), at, 50, optimizer=kahan),
        Status.WARN,
        causes.OTHER_COPY_FIX,
    ),
    "SGD": (
        lambda at: train(llama("bfloat16"), at, 50, optimizer=sgd),
        Status.FAIL,
        causes.MASTER_FIX,
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.slow
def test_real_runs(name: str, tmp_path: Path) -> None:
    run, status, fix = RUNS[name]
    verdict = JUDGE(checkpoint=read(run(tmp_path)))
    assert (verdict.status, verdict.fix) == (status, fix)


def test_no_state_does_not_mean_too_early_where_steps_are_told() -> None:
    none = {"entries": 0, "nonzero_moments": 0, "step_min": None, "step_max": None}
    missing = {"missing": 49, "step_min": None, "step_max": None}
    history = History(steps=754, lr_sum=0.2, lr_squares=1e-4, covered=754, lr_max=3e-4)
    verdict = judge(missing, optimizer=none, history=history)
    assert verdict.status is Status.FAIL
    assert verdict.fix == unchanged_norms.ROUNDING_FIX
    verdict = judge(missing, optimizer={**none, "kind": "SGD"})
    assert verdict.status is Status.WARN
    assert "trainer_state.json" in verdict.summary


def test_an_optimizer_that_was_made_anew_is_judged_by_the_history() -> None:
    anew = {"step_min": 3.0, "step_max": 3.0}
    history = History(steps=10_000, lr_sum=3, lr_squares=9e-4, covered=10_000, lr_max=3e-4)
    verdict = judge({**LOST, **anew}, optimizer=anew, history=history)
    assert verdict.status is Status.FAIL
    assert verdict.fix == causes.MASTER_FIX
    assert "10,000" in verdict.summary
    fp32 = {"nonzero_moments": 49, "dtypes": {"F32": 49}, **anew}
    assert judge(fp32, optimizer=anew, history=history).status is Status.WARN
    unlogged = History(steps=10_000, lr_sum=0, lr_squares=0, covered=0)
    verdict = judge(fp32, optimizer=anew, history=unlogged)
    assert "0.03" in verdict.summary
    short = History(steps=40, lr_sum=0, lr_squares=0, covered=0)
    assert judge({**LOST, **anew}, optimizer=anew, history=short).status is Status.WARN


def test_how_the_norms_were_matched_is_named() -> None:
    for matched_by, text in causes.MATCHED_BY.items():
        assert text in judge({**LOST, "matched_by": matched_by}).summary


def test_half_a_step_is_the_largest_decrease_that_rounds_back() -> None:
    torch = pytest.importorskip("torch")
    dtypes = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    for name, half in causes.HALF_STEP.items():
        for decrease, back in ((half, True), (1.01 * half, False)):
            value = torch.tensor(1.0 - decrease, dtype=torch.float64).to(dtypes.get(name))
            if name != "F64" or back:
                assert (value.item() == 1.0) is back, (name, decrease)
    assert 1.0 - 1.5 * causes.HALF_STEP["F64"] < 1.0


@pytest.mark.parametrize(
    ("steps", "rate", "status"),
    [
        (9.0, 3e-4, Status.WARN),
        (10.0, 3e-4, Status.FAIL),
        (754.0, 8 * 2.0**-9, Status.FAIL),
        (754.0, 8.5 * 2.0**-9, Status.WARN),
    ],
)
def test_steps_and_rates_from_which_rounding_is_the_cause(
    steps: float, rate: float, status: Status
) -> None:
    assert judge({**LOST, "step_max": steps, "lr_max": rate}).status is status


@pytest.mark.parametrize(
    ("trainer", "optimizer", "anew"),
    [(99, 10.0, False), (100, 10.0, True), (120, 60.0, False), (121, 60.0, True)],
)
def test_an_optimizer_at_less_than_half_of_the_steps_was_created_anew(
    trainer: int, optimizer: float, anew: bool
) -> None:
    history = History(steps=trainer, lr_sum=0.1, lr_squares=1e-8, covered=0, lr_max=3e-4)
    evidence = {**LOST, "step_max": optimizer}
    verdict = judge(evidence, optimizer={"step_max": optimizer}, history=history)
    assert (f"the trainer at {trainer}" in verdict.summary) is anew


@pytest.mark.parametrize(("squares", "status"), [(1e-6, Status.WARN), (0.99e-6, Status.PASS)])
def test_the_distance_from_which_fp32_weights_differ_in_a_copy(
    squares: float, status: Status
) -> None:
    history = History(steps=754, lr_sum=0.1, lr_squares=squares, covered=754, lr_max=3e-4)
    evidence = {"nonzero_moments": 49, "dtypes": {"F32": 49}}
    assert judge(evidence, history=history).status is status


@pytest.mark.parametrize("unusable", [{"matched_by": None}, {"norms": 48}])
def test_evidence_about_other_norms_decides_nothing(unusable: dict[str, Any]) -> None:
    verdict = judge({**LOST, **unusable})
    assert (verdict.status, verdict.fix) == (Status.WARN, None)


def test_masters_that_did_not_change_are_the_cause_even_beside_rounded_norms() -> None:
    verdict = judge({**LOST, "masters_unchanged": 49})
    assert verdict.status is Status.WARN
    assert verdict.fix == causes.OTHER_COPY_FIX


def test_the_steps_of_the_trainer_do_not_count_where_the_optimizer_took_them() -> None:
    """At 20 of the optimizer's steps the distance is 1e-5 * sqrt(20), at 39 still far too short."""
    history = History(steps=39, lr_sum=0.1, lr_squares=1e-8, covered=0, lr_max=2.2e-4)
    evidence = {"nonzero_moments": 49, "dtypes": {"F32": 49}, "step_max": 20.0}
    verdict = judge(evidence, optimizer={"step_max": 20.0}, history=history)
    assert verdict.status is Status.PASS
    assert "covers 0.00098)" in verdict.summary


def test_norms_left_out_are_known_by_the_order_of_the_others(tmp_path: Path) -> None:
    """Biases have the norms' shape; the entries fit the order of all other weights."""
    import torch

    blocks = [m for _ in range(3) for m in (torch.nn.Linear(16, 16), torch.nn.LayerNorm(16))]
    model = torch.nn.Sequential(*blocks)
    norms = {"1.weight", "3.weight", "5.weight"}
    trained = [each for name, each in model.named_parameters() if name not in norms]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    for _ in range(30):
        optimizer.zero_grad()
        model(torch.randn(4, 16)).square().mean().backward()
        optimizer.step()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 30}
    torch.save(saved, tmp_path / "ckpt.pt")
    found = scan(str(tmp_path / "ckpt.pt"))
    assert isinstance(found, Checkpoint)
    verdict = JUDGE(checkpoint=found)
    assert "in none of the optimizer's groups" in verdict.summary
    assert "unknown" not in verdict.summary


def test_a_warm_up_is_named_before_rounding() -> None:
    verdict = judge({"lr_max": 2e-7, "nonzero_moments": 49, "dtypes": {"BF16": 49}})
    assert verdict.status is Status.WARN
    assert "2e-07" in verdict.summary
