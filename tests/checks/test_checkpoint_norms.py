"""CKP004: arithmetic on records, and real trainings."""

from __future__ import annotations

import logging
import math
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoints import checkpoint as make_checkpoint

from doctor._util.records import Unknown
from doctor.checkpoint.records import (
    BatchStatistics,
    Checkpoint,
    History,
    Norm,
    Optimizer,
    Problem,
)
from doctor.checkpoint.scan import scan
from doctor.checks.checkpoint import norm_causes, unchanged_norms, values
from doctor.checks.checkpoint import norms as checks
from doctor.judge.check import Status, Verdict

CHECK = checks.CHECKS[0]


def norm(value: Any = "ones", dtype: str = "BF16", name: str = "layers.0.norm.weight") -> Norm:
    return Norm(name=name, dtype=dtype, size=4096, value=value)


def ran(steps: int, lr: float) -> History:
    return History(
        steps=steps, lr_sum=steps * lr, lr_squares=steps * lr * lr, covered=steps, lr_max=lr
    )


def judge(*norms: Norm, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "path": "/models/llama",
        "layout": "one safetensors file",
        "count": 1,
        "tensors": 291,
        "parameters": 10**9,
        "bytes": 2 * 10**9,
        "largest": 2 * 10**9,
        "model_type": "llama",
        "norms": norms,
    }
    return CHECK.judge(checkpoint=make_checkpoint(**{**fields, **changes}))


def test_norms_that_moved_pass() -> None:
    verdict = judge(norm("other"), norm("other", "F32"))
    assert verdict.status is Status.PASS
    assert verdict.summary == "2 of 2 norms differ from 1.0 and 0.0"


@pytest.mark.parametrize(
    ("distances", "near"),
    [((0.0057, 0.001), True), ((0.0057, 0.02), False), ((0.0057, None), False), ((1.0,), False)],
)
def test_norms_that_hardly_moved_pass_with_the_figure(
    distances: tuple[float | None, ...], near: bool
) -> None:
    norms = [msgspec.structs.replace(norm("other"), distance=each) for each in distances]
    verdict = judge(*norms)
    assert verdict.status is Status.PASS
    assert ("within 0.0057 of 1.0" in verdict.summary) is near


def test_the_run_of_the_report_fails_with_its_arithmetic() -> None:
    """49 norms, 754 steps at 3e-4, weights in bf16."""
    verdict = judge(*[norm()] * 49, history=ran(754, 3e-4))
    assert verdict.status is Status.FAIL
    for number in ("49", "754", "0.0082", "0.00195", "0.00391", "0.0003"):
        assert number in verdict.summary
    assert verdict.fix == unchanged_norms.ROUNDING_FIX


@pytest.mark.parametrize(
    ("dtype", "lr", "fix"),
    [
        ("BF16", 1.9e-3, unchanged_norms.ROUNDING_FIX),
        ("BF16", 4e-3, unchanged_norms.GRADIENT_FIX),
        ("F16", 2.4e-4, unchanged_norms.ROUNDING_FIX),
        ("F16", 3e-4, unchanged_norms.GRADIENT_FIX),
        ("F32", 1e-4, unchanged_norms.GRADIENT_FIX),
        ("F64", 1e-4, unchanged_norms.GRADIENT_FIX),
    ],
)
def test_the_cause_follows_from_the_dtype(dtype: str, lr: float, fix: str) -> None:
    verdict = judge(norm(dtype=dtype), history=ran(1000, lr))
    assert verdict.status is Status.FAIL
    assert verdict.fix == fix
    gradient = fix == unchanged_norms.GRADIENT_FIX
    assert verdict.sources == (("unsloth-4533",) if gradient else ())


@pytest.mark.parametrize("dtype", norm_causes.HALF_STEP)
def test_the_half_steps_are_those_of_torch(dtype: str) -> None:
    """A decrease of half a step is lost, ties included, and a larger one is not."""
    import torch

    kinds = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    one = torch.ones((), dtype=kinds.get(dtype, torch.float64), requires_grad=False)
    half = norm_causes.HALF_STEP[dtype]
    assert one - half == 1
    assert one + 2 * half == 1
    assert one - half * 1.02 != 1
    assert one + 2 * half * 1.02 != 1


def test_a_history_that_names_no_largest_rate() -> None:
    history = History(steps=754, lr_sum=0.2262, lr_squares=754 * 9e-8, covered=754)
    assert "learning rate was 0.0003" in judge(norm(), history=history).summary


def test_one_fp32_norm_at_one_rules_rounding_out() -> None:
    verdict = judge(norm(), norm(dtype="F32"), history=ran(1000, 3e-4))
    assert verdict.fix == unchanged_norms.GRADIENT_FIX


def test_a_short_run_is_no_evidence() -> None:
    """fp32 weights at lr 1e-5 for 1000 steps, saved as bf16, are all ones and healthy."""
    verdict = judge(norm(), history=ran(1000, 1e-5))
    assert verdict.status is Status.WARN
    assert "0.001 required" in verdict.summary
    lr = 1e-3 / math.sqrt(1000)
    assert judge(norm(), history=ran(1000, lr * 1.001)).status is Status.FAIL
    assert judge(norm(), history=ran(1000, lr * 0.999)).status is Status.WARN
    assert judge(norm(), history=ran(0, 0.0)).status is Status.UNKNOWN


def test_without_a_history_nothing_is_proven() -> None:
    verdict = judge(norm())
    assert verdict.status is Status.UNKNOWN
    assert "as in a new model" in verdict.summary
    optimizer = Unknown(reason="damaged")
    verdict = judge(norm(), optimizer=optimizer)
    assert verdict.status is Status.WARN
    assert "trainer_state.json" in verdict.summary


def test_batch_norms_that_saw_batches_show_that_it_trained() -> None:
    for initial, status in ((3, Status.UNKNOWN), (0, Status.WARN)):
        seen = BatchStatistics(state="", copy=False, layers=3, initial=initial)
        assert judge(norm(), statistics=(seen,)).status is status


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "opt"},
        {"model_type": "vlm", "text_model_type": "opt"},
        {"quantized": True},
    ],
)
def test_known_reasons_only_warn(changes: dict[str, Any]) -> None:
    assert judge(norm(), history=ran(10_000, 1e-3), **changes).status is Status.WARN


def test_some_at_one_while_others_moved() -> None:
    still = [norm(name=f"layers.{n}.norm.weight") for n in range(5)]
    verdict = judge(*still, norm("other"), history=ran(1000, 3e-4))
    assert verdict.status is Status.WARN
    assert "5 of 6 norms are exactly 1.0" in verdict.summary
    assert "layers.2.norm.weight and 2 more" in verdict.summary


@pytest.mark.parametrize(
    "family",
    ["gemma", "gemma2", "gemma3", "gemma3_text", "qwen3_next", "qwen3_5_moe_text", "nemotron",
     "recurrent_gemma", "t5gemma2_encoder", "t5_gemma_module", "step3p7"],
)  # fmt: skip
def test_zero_centered_norms_are_judged_at_zero(family: str) -> None:
    verdict = judge(norm("zeros"), history=ran(1000, 3e-4), model_type=family)
    assert verdict.status is Status.FAIL
    assert "exactly 0.0" in verdict.summary
    assert verdict.fix == unchanged_norms.GRADIENT_FIX
    assert judge(norm("zeros"), model_type=family).status is Status.UNKNOWN
    assert judge(norm("other"), model_type=family).status is Status.PASS


@pytest.mark.parametrize("family", ["gemma3n", "gemma4", "llama", None])
def test_zeros_in_another_family_only_warn(family: str | None) -> None:
    verdict = judge(norm("zeros"), history=ran(1000, 3e-4), model_type=family)
    assert verdict.status is Status.WARN
    assert verdict.fix is None


def test_families_with_norms_of_both_kinds() -> None:
    verdict = judge(norm("ones"), norm("zeros"), history=ran(1000, 3e-4), model_type="qwen3_next")
    assert verdict.status is Status.FAIL
    assert "1.0 or 0.0" in verdict.summary


def test_files_without_norms_skip() -> None:
    assert judge().status is Status.SKIP


def test_what_was_not_read_is_unknown() -> None:
    assert judge(norm("other"), norm("unread")).status is Status.UNKNOWN
    assert judge(tensors=0).status is Status.UNKNOWN
    problem = Problem(kind="not-inspectable", file="a.bin", text="is not inspectable yet")
    assert judge(norm(), problems=(problem,)).status is Status.UNKNOWN


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_initial_values_are_compared_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, dtype)
    almost = torch.ones(5, dtype=kind)
    almost[3] -= torch.finfo(kind).eps
    tensors = {
        "a.norm.weight": torch.ones(7, dtype=kind),
        "b.norm.weight": torch.zeros(3, dtype=kind),
        "c.norm.weight": almost,
        "d.norm.weight": torch.full((3,), torch.finfo(kind).smallest_normal, dtype=kind),
    }
    save_file(tensors, str(tmp_path / "model.safetensors"))
    found = scan(str(tmp_path))
    assert isinstance(found, Checkpoint)
    values = {norm.name[0]: norm.value for norm in found.contents.norms}
    assert values == {"a": "ones", "b": "zeros", "c": "other", "d": "other"}


def test_norms_behind_the_end_of_a_file_are_unread(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file({"norm.weight": torch.ones(64)}, str(path))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    found = scan(str(path))
    assert isinstance(found, Checkpoint)
    assert [norm.value for norm in found.contents.norms] == ["unread"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small Llamas, trained by transformers' Trainer for 100 steps and saved by it."""
    folder = tmp_path_factory.mktemp("trained")
    for dtype in ("bfloat16", "float32"):
        train(dtype, folder / dtype)
    return folder


def train(dtype: str, folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
        max_position_embeddings=16,
    )
    tokens = torch.randint(0, 64, (32, 8))
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers and accelerate
        model = LlamaForCausalLM(config).to(getattr(torch, dtype))
        arguments = TrainingArguments(
            output_dir=str(folder),
            max_steps=100,
            learning_rate=3e-4,
            per_device_train_batch_size=8,
            logging_steps=20,
            save_steps=100,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            warmup_steps=10,
        )
        rows = [{"input_ids": row, "labels": row} for row in tokens]
        Trainer(model, arguments, train_dataset=rows).train()


@pytest.mark.slow
def test_real_training_in_pure_bf16_fails(trained: Path) -> None:
    found = scan(str(trained / "bfloat16" / "checkpoint-100"))
    assert isinstance(found, Checkpoint)
    assert found.training.history is not None
    assert (found.training.history.steps, found.training.history.covered) == (100, 100)
    assert 1e-3 < math.sqrt(found.training.history.lr_squares) < 5e-3
    assert {norm.value for norm in found.contents.norms} == {"ones"}
    verdict = CHECK.judge(checkpoint=found)
    assert verdict.status is Status.FAIL
    assert verdict.fix == norm_causes.MASTER_FIX


@pytest.mark.slow
def test_real_training_with_fp32_weights_passes(trained: Path) -> None:
    found = scan(str(trained / "float32" / "checkpoint-100"))
    assert isinstance(found, Checkpoint)
    assert len(found.contents.norms) == 5
    assert CHECK.judge(checkpoint=found).status is Status.PASS


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
def test_a_norm_that_holds_nan_or_inf_did_not_move_well(
    dtype: str, bad: str, tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file

    weight = torch.full((64,), 0.9, dtype=getattr(torch, dtype))
    weight[7] = float(bad)
    fine = torch.full((64,), -torch.finfo(weight.dtype).max, dtype=weight.dtype)
    save_file({"a.norm.weight": weight, "b.norm.weight": fine}, str(tmp_path / "m.safetensors"))
    found = scan(str(tmp_path))
    assert isinstance(found, Checkpoint)
    assert [norm.value for norm in found.contents.norms] == ["nonfinite", "other"]
    assert checks.norms_changed(found).status is Status.UNKNOWN
    verdict = values.values_finite(found)
    assert verdict.status is Status.FAIL
    assert "a.norm.weight" in verdict.summary


def test_no_learning_rates_were_logged() -> None:
    verdict = judge(norm(), history=History(steps=40, lr_sum=0, lr_squares=0, covered=0))
    assert verdict.status is Status.WARN
    assert "40 steps" in verdict.summary


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [("BF16", unchanged_norms.ROUNDING_FIX), ("F32", unchanged_norms.GRADIENT_FIX)],
)
def test_the_steps_of_plain_sgd_are_not_of_the_learning_rates_size(dtype: str, fix: str) -> None:
    optimizer = Optimizer(file="o", kind="SGD", entries=0, parameters=9)
    verdict = judge(norm(dtype=dtype), optimizer=optimizer, history=ran(1000, 0.1))
    assert verdict.status is Status.WARN
    assert verdict.fix == fix
