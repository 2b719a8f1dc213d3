"""Faults of kernels and of precision, planted in torch before the probe runs."""

from __future__ import annotations

import json
from pathlib import Path

import preloaded
import pytest
from bisections import ATTENTION, LINEAR, Train, attempts_of, cause_of, diagnosis_of, failure_of

from doctor.catalog import CHECKS
from doctor.collect.changes import CHANGES, RATES
from doctor.collect.collect import collect
from doctor.facts.facts import decode, encode
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Owner, Status
from doctor.judge.engine import examine

pytestmark = pytest.mark.slow


def test_a_sound_training_has_no_diagnosis(train_planted: Train) -> None:
    assert train_planted("").diagnosis is None


CUDNN_EVERYWHERE = """
    probe("stages.changes").CUDNN_DEVICES = ("cuda", "cpu")
"""
"""cuDNN's switch exists in a CPU build too, so its effect on a GPU is tested on the CPU."""


def test_cudnn_attention(train: Train) -> None:
    prelude = ATTENTION.format(wrong="switches.cudnn_sdp_enabled()") + CUDNN_EVERYWHERE
    smoke = train(prelude, separate=True)
    assert attempts_of(smoke) == [("repeat", "same"), ("cudnn-off", "fixed"), ("repeat", "same")]
    diagnosis = diagnosis_of(smoke)
    assert (diagnosis.first_module, diagnosis.first_module_type) == (
        "layers.0.attention",
        "Attention",
    )
    verdict = failure_of(smoke)
    assert (
        "Finite without cuDNN attention, NaN with it: cuDNN's attention kernel is the cause "
        "(document bf16-training-stability, Quick Diagnostics)"
    ) in verdict.summary
    assert verdict.owner is Owner.ENVIRONMENT
    assert "torch.backends.cuda.enable_cudnn_sdp(False)" in (verdict.fix or "").splitlines()
    assert "bts-quick" in verdict.sources


def test_flash_attention(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="switches.flash_sdp_enabled()"))
    assert attempts_of(smoke)[1:3] == [("cudnn-off", "not possible"), ("flash-off", "fixed")]
    assert "NaN with flash: the flash attention kernel is the cause" in cause_of(smoke)


def test_fused_attention(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="switches.mem_efficient_sdp_enabled()"))
    assert attempts_of(smoke) == [
        ("repeat", "same"),
        ("cudnn-off", "not possible"),
        ("flash-off", "same"),
        ("math", "fixed"),
        ("repeat", "same"),
    ]
    assert "NaN with the fused kernels: the fused attention path is the cause" in cause_of(smoke)


def test_attention_with_every_backend(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="True"))
    assert attempts_of(smoke)[-2:] == [("eager", "fixed"), ("repeat", "same")]
    assert "finite with eager attention, NaN with scaled_dot_product_attention" in cause_of(smoke)


def test_half_precision_weights(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="weight.dtype == torch.bfloat16"), recipe="pure-bf16")
    assert attempts_of(smoke)[-3:] == [
        ("eager", "same"),
        ("fp32-weights", "fixed"),
        ("repeat", "same"),
    ]
    assert "finite with fp32 weights, NaN with bf16 weights" in cause_of(smoke)


def test_autocast(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong='torch.is_autocast_enabled("cpu")'))
    diagnosis = diagnosis_of(smoke)
    assert [each.outcome for each in diagnosis.attempts if each.change == "fp32-weights"] == [
        "not possible"
    ]
    assert diagnosis.fixed_by
    assert diagnosis.fixed_by.change == "fp32"
    assert "finite in fp32, NaN in bf16: bf16 arithmetic is the cause" in cause_of(smoke)


def test_no_change_fixes_a_broken_installation(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="True"))
    diagnosis = diagnosis_of(smoke)
    assert not diagnosis.fixed_by
    expected = [change for change in CHANGES if change not in RATES]  # it is faulty in step 1
    assert [change for change, _ in attempts_of(smoke)] == ["repeat", *expected]
    assert {outcome for _, outcome in attempts_of(smoke)} == {"same", "not possible"}
    assert (diagnosis.first_module, diagnosis.step) == ("layers.0.attention.qkv", 1)
    assert "none of the 5 changes that could be tried fixes it" in cause_of(smoke)
    assert "layers.0.attention.qkv (Linear), in step 1" in cause_of(smoke)
    verdict = failure_of(smoke)
    assert verdict.owner is Owner.ENVIRONMENT
    lines = (verdict.fix or "").splitlines()
    assert lines[2:4] == [
        "  unchanged                      same fault    loss nan, grad_norm nan",
        "  cuDNN attention off            not possible  cuDNN attention runs on NVIDIA GPUs only",
    ]
    assert len({line.index("same fault") for line in lines if "same fault" in line}) == 1


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}


def test_attention_of_a_transformers_model(train_planted: Train, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    subject = {"kind": "hf", "directory": str(tmp_path), "layers": 1, "weights": False,
               "lora": None, "dtype": None, "batch": 2, "length": 16}  # fmt: skip
    smoke = train_planted(ATTENTION.format(wrong="True"), changes=("eager",), subject=subject)
    assert attempts_of(smoke)[-2:] == [("eager", "fixed"), ("repeat", "same")]
    text = cause_of(smoke, own=True)
    assert "finite with eager attention, NaN with the model's own attention implementation" in text
    assert diagnosis_of(smoke).first_module == "model.layers.0.self_attn"


PLANTED_BY_THE_ENVIRONMENT = """
import builtins
real = builtins.__import__

def importing(name, *given, **named):
    module = real(name, *given, **named)
    if name == "torch" and given and given[0]["__name__"].endswith("torch_stages"):
        builtins.__import__ = real
        plant(module)
    return module

def plant(torch):
    attend = torch.nn.functional.scaled_dot_product_attention

    def attention(*given, **named):
        wrong = torch.backends.cuda.flash_sdp_enabled()
        return attend(*given, **named) * (float("nan") if wrong else 1.0)

    torch.nn.functional.scaled_dot_product_attention = attention

builtins.__import__ = importing
"""


def test_a_whole_run_names_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED_BY_THE_ENVIRONMENT, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    messages: list[str] = []
    job = Job(device="cpu", python=preloaded.python())
    facts = collect(job, RunOptions(quick=True), Expect(), messages.append)
    findings = {finding.check.code: finding for finding in examine(CHECKS, facts)}
    assert findings["SMK001"].status is Status.PASS
    assert findings["SMK002"].status is Status.FAIL
    text = "Finite without cuDNN and flash attention, NaN with flash: the flash attention kernel"
    assert text in findings["SMK002"].verdict.summary
    assert "finding the cause (flash-off): forward" in messages
    assert decode(encode(facts)) == facts
