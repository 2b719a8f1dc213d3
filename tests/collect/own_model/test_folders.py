"""Model directories that are broken, and those that only look so: each has its own remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import model_folders as folders
import pytest

from doctor._util.errors import UserError
from doctor._util.records import Ended
from doctor.checks.training import own_gradients, own_model
from doctor.collect.deeper import next_depth
from doctor.collect.own_names import find_directory
from doctor.collect.own_training import collect_in
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status

Make = Callable[[Path], Path]


def collect(child: TorchChild, directory: Path, **fields: object) -> OwnModel:
    job = Job(device="cpu", hf=str(directory), **fields)  # type: ignore[arg-type]
    own = collect_in(child, job, "cpu", Chosen("fp32", ""), lambda stage: None)
    assert isinstance(own, OwnModel), own
    return own


BROKEN: list[tuple[Make, str, str]] = [
    (
        lambda at: folders.renamed(at, lambda name: f"module.{name}"),
        "begin with 'module.'",
        "model-directory-damaged",
    ),
    (
        lambda at: folders.renamed(at, lambda name: "" if "layers.1.mlp" in name else name),
        "model.layers.1.mlp",
        "weights-not-in-the-files",
    ),
    (
        lambda at: folders.edited(at, vocab_size=128),
        'with "vocab_size": 160 instead of 128 in config.json they fit',
        "model-directory-damaged",
    ),
    (
        lambda at: folders.edited(at, vocab_size=128, intermediate_size=48),
        "[160, ",
        "model-directory-damaged",
    ),
    (
        lambda at: folders.edited(at, quantization_config={"quant_method": "bitsandbytes"}),
        "is quantized: they are F32",
        "model-directory-damaged",
    ),
    (folders.cut_off, "is cut off", "model-directory-damaged"),
    (folders.without_a_part, "model-00002-of-", "model-directory-damaged"),
    (
        lambda at: folders.edited(at, model_type="qwen9", transformers_version="9.1.0"),
        "transformers 9.1.0 wrote",
        "architecture-unknown",
    ),
    (
        lambda at: folders.with_tokenizer(at, 201, 200),
        "gives token 200, and the model has 160",
        "token-beyond-embedding",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "text", "cause"), BROKEN, ids=[each[2] for each in BROKEN])
def test_a_broken_directory_fails_with_its_own_remedy(
    make: Make, text: str, cause: str, tmp_path: Path, warm: TorchChild
) -> None:
    own = collect(warm, make(tmp_path / "model"), weights=True)
    verdict = own_model.completes(own, None)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert cause in verdict.causes
    assert "Fix the error" not in verdict.fix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "text", "status"),
    [
        (folders.saved, "its weights", Status.PASS),
        (lambda at: folders.with_tokenizer(at, 150, 0), "its tokenizer", Status.PASS),
        (lambda at: folders.with_tokenizer(at, 201, 0), "41 tokens", Status.WARN),
        (
            lambda at: folders.renamed(at, lambda name: "" if "lm_head" in name else name),
            "lm_head.weight",
            Status.WARN,
        ),
        (
            lambda at: folders.edited(at, auto_map={"AutoModel": "own.Model"}),
            "without the directory's code",
            Status.PASS,
        ),
    ],
)
def test_a_directory_that_trains(
    make: Make, text: str, status: Status, tmp_path: Path, warm: TorchChild
) -> None:
    verdict = own_model.completes(collect(warm, make(tmp_path / "model"), weights=True), None)
    assert verdict.status is status
    assert text in verdict.summary


@pytest.mark.slow
def test_quantized_weights_need_adapters(tmp_path: Path, warm: TorchChild) -> None:
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    directory = folders.edited(tmp_path / "model", quantization_config=quantized)
    verdict = own_model.completes(collect(warm, directory), None)
    assert verdict.status is Status.WARN
    assert "bitsandbytes" in verdict.summary
    assert "quantization left out" in verdict.summary
    adapted = own_model.completes(collect(warm, directory, lora=4), None)
    assert adapted.status is Status.PASS
    assert "quantization left out" in adapted.summary


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("adapter_config.json", '{"base_model_name_or_path": "meta/llama"}', "adapter of meta/lla"),
        ("adapter_config.json", "[" * 100_000, "adapter"),
        ("model.Q4.gguf", "GGUF", "GGUF"),
        ("checkpoint-7/config.json", "{}", "checkpoint-7"),
    ],
)
def test_a_directory_of_another_kind_says_what_to_name(
    name: str, content: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(UserError, match=text):
        find_directory(str(tmp_path))


# Fewer layers


HYBRID = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]


@pytest.mark.slow
def test_a_hybrid_model_is_cut_to_a_layer_of_each_kind(tmp_path: Path, warm: TorchChild) -> None:
    from transformers import Qwen3NextConfig

    sizes = dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "head_dim"), 8)
    heads = dict.fromkeys(
        ("linear_num_key_heads", "linear_num_value_heads", "num_attention_heads"), 2
    )
    config = Qwen3NextConfig(
        hidden_size=32, num_hidden_layers=8, layer_types=HYBRID * 2, num_key_value_heads=2,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, vocab_size=64,
        shared_expert_intermediate_size=16, intermediate_size=32, **sizes, **heads,
        architectures=["Qwen3NextForCausalLM"],
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    own = collect(warm, tmp_path)
    assert (own.layers, own.all_layers, own.failed_depths) == (2, 8, ())
    assert own_model.completes(own, None).status is Status.PASS
    assert own_gradients.gradients_reach_all(own, None, Job()).status is not Status.FAIL


@pytest.mark.slow
def test_an_error_that_only_the_cut_makes_is_no_failure(tmp_path: Path, warm: TorchChild) -> None:
    from transformers import RoCBertConfig

    config = RoCBertConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64,
        vocab_size=64, max_position_embeddings=64, pronunciation_vocab_size=16, shape_vocab_size=16,
        architectures=["RoCBertForMaskedLM"],
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    verdict = own_gradients.gradients_reach_all(
        collect(warm, tmp_path), None, Job(hf=str(tmp_path))
    )
    assert verdict.status is not Status.FAIL


def failed(layers: int, whole_error: str | None) -> OwnModel:
    ended = Ended(how="error", detail="ValueError: no layer 2 of 3")
    raised = Raised(errors=("ValueError",), message="no layer 2 of 3")
    return OwnModel(
        description="model", built=ended, raised=raised, layers=layers, all_layers=8,
        whole=layers == 8, whole_error=whole_error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("layers", "whole_error", "status"),
    [
        (2, "", Status.UNKNOWN),
        (2, None, Status.UNKNOWN),
        (2, "TypeError: another one", Status.UNKNOWN),
        (2, "ValueError: no layer 7 of 8", Status.FAIL),
        (8, None, Status.FAIL),
    ],
)
def test_a_failure_of_fewer_layers_is_judged_where_all_have_it(
    layers: int, whole_error: str | None, status: Status
) -> None:
    own = failed(layers, whole_error)
    assert own_model.completes(own, None).status is status
    assert (next_depth(own) is None) == (status is Status.FAIL or not own.all_parameters)
