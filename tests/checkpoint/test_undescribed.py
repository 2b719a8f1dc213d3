"""Weights that lack what describes them, and saves that were left unfinished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from judges import judge
from saved_layouts import gguf

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

LLAMA = {
    "model.embed_tokens.weight": (16, 8),
    "model.layers.0.input_layernorm.weight": (8,),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.post_attention_layernorm.weight": (8,),
    "model.norm.weight": (8,),
    "lm_head.weight": (16, 8),
}
MODEL = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 16}


def state(lead: str = "") -> dict[str, Any]:
    torch.manual_seed(1)
    return {lead + name: torch.rand(shape) for name, shape in LLAMA.items()}


def found(path: Path) -> Checkpoint | Unknown:
    return read(ScanRequest(path=str(path)), no_stage, lambda note: None)


def verdict(code: str, path: Path) -> Verdict:
    checkpoint = found(path)
    assert isinstance(checkpoint, Checkpoint), checkpoint
    return judge(code)(checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["module.a.weight", "module.b.weight"], Status.NOTE),
        (["net._orig_mod.a.weight", "net.head.weight"], Status.NOTE),
        (["s._fsdp_wrapped_module._flat_param"], Status.NOTE),
        (["module.a.weight", "n_averaged"], Status.SKIP),
        (["submodule.a.weight"], Status.SKIP),
    ],
)
def test_wrappers_in_a_file_of_ones_own(tmp_path: Path, names: list[str], status: Status) -> None:
    torch.save({name: torch.rand(4, 4) for name in names}, tmp_path / "net.pt")
    judged = verdict("CKP012", tmp_path)
    assert judged.status is status, judged.summary


def test_the_prefix_is_taken_off_as_the_fix_says(tmp_path: Path) -> None:
    names = ["module.submodule.a.weight", "module.b.weight"]
    torch.save({name: torch.rand(4, 4) for name in names}, tmp_path / "net.pt")
    fix = verdict("CKP012", tmp_path).fix or ""
    assert [name.removeprefix("module.") for name in names] == ["submodule.a.weight", "b.weight"]
    assert "name.removeprefix('module.')" in fix


@pytest.mark.parametrize(
    ("file", "lead", "beside", "status"),
    [
        ("pytorch_model.bin", "base_model.model.", (), Status.WARN),
        ("own.bin", "base_model.model.", (), Status.SKIP),
        ("pytorch_model.bin", "", ("tokenizer_config.json",), Status.WARN),
        ("pytorch_model.bin", "", (), Status.SKIP),
        ("pytorch_model.bin", "backbone.", ("tokenizer_config.json",), Status.PASS),
    ],
)
def test_no_configuration(
    tmp_path: Path, file: str, lead: str, beside: tuple[str, ...], status: Status
) -> None:
    torch.save(state(lead), tmp_path / file)
    for name in beside:
        (tmp_path / name).write_text("{}")
    judged = verdict("CKP012", tmp_path)
    assert judged.status is status, judged.summary


def test_the_lora_tensors_alone_are_no_whole_model(tmp_path: Path) -> None:
    """As a script that renames the file saves its checkpoints."""
    lead = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    torch.save(
        {f"{lead}{x}.weight": torch.rand(2, 2) for x in "AB"}, tmp_path / "pytorch_model.bin"
    )
    assert verdict("CKP012", tmp_path).status is Status.SKIP


@pytest.mark.parametrize(
    ("kind", "beside", "status"),
    [
        ("PreTrainedTokenizerFast", (), Status.WARN),
        ("TokenizersBackend", (), Status.WARN),
        ("TokenizersBackend", ("tokenizer.model",), Status.PASS),
        ("PreTrainedTokenizerFast", ("vocab.txt",), Status.PASS),
        ("ByT5Tokenizer", (), Status.PASS),
    ],
)
def test_no_vocabulary(tmp_path: Path, kind: str, beside: tuple[str, ...], status: Status) -> None:
    save_file(state(), tmp_path / "model.safetensors", {"format": "pt"})
    settings = {"tokenizer_class": kind, "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    for name in beside:
        (tmp_path / name).write_bytes(b"x")
    judged = verdict("CKP011", tmp_path)
    assert judged.status is status, judged.summary


@pytest.mark.parametrize(
    ("config", "tensors", "said"),
    [
        ({**MODEL, "vocab_size": 0}, {}, 'Write "vocab_size": 16'),
        (MODEL, {"model.layers.0.self_attn.q_proj.weight": torch.ones(32, 1).byte()}, "scales"),
    ],
)
def test_sizes_that_zero_and_bytes_hide(
    tmp_path: Path, config: Mapping[str, object], tensors: dict[str, Any], said: str
) -> None:
    save_file({**state(), **tensors}, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    (tmp_path / "tokenizer.json").write_text(
        '{"added_tokens": [{"id": 3, "content": "<pad>"}], "model": {"vocab": {"a": 0}}}'
    )
    judged = verdict("CKP012", tmp_path)
    assert judged.status is Status.FAIL
    assert said in f"{judged.summary} {judged.fix}"
    assert verdict("CKP011", tmp_path).status is not Status.FAIL


@pytest.mark.parametrize(
    ("rows", "whole", "status"), [(16, False, Status.FAIL), (17, False, Status.PASS),
                                  (16, True, Status.PASS)],
)  # fmt: skip
def test_added_tokens_of_a_class_without_tokenizer_json(
    tmp_path: Path, rows: int, whole: bool, status: Status
) -> None:
    """Where tokenizer.json is there, nothing reads added_tokens.json."""
    weights = {**state(), "model.embed_tokens.weight": torch.rand(rows, 8),
               "lm_head.weight": torch.rand(rows, 8)}  # fmt: skip
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    config = {**MODEL, "vocab_size": rows, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    (tmp_path / "added_tokens.json").write_text('{"<pad>": 16}')
    (tmp_path / ("tokenizer.json" if whole else "tokenizer.model")).write_text("{}")
    judged = verdict("CKP012", tmp_path)
    assert (judged.status is Status.FAIL) is (status is Status.FAIL), judged.summary


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({"llama.block_count": 1, "tokenizer.ggml.tokens": 6}, Status.FAIL),
        ({"llama.block_count": 1, "tokenizer.ggml.tokens": 0}, Status.PASS),
        ({"llama.block_count": 1, "general.type": "adapter"}, Status.SKIP),
    ],
)
def test_no_embedding_in_gguf(tmp_path: Path, keys: dict[str, int | str], status: Status) -> None:
    tensors = {"blk.0.attn_norm.weight": ((32,), 0, bytes(128))}
    (tmp_path / "model.gguf").write_bytes(gguf(tensors, keys=keys))
    judged = verdict("CKP012", tmp_path)
    assert judged.status is status, judged.summary


@pytest.mark.parametrize(("shared", "status"), [(True, Status.PASS), (False, Status.FAIL)])
def test_no_shared_embedding(tmp_path: Path, shared: bool, status: Status) -> None:
    names = ["encoder.block.0.layer.0.SelfAttention.q.weight", *["shared.weight"] * shared]
    save_file({name: torch.rand(8, 8) for name in names}, tmp_path / "model.safetensors")
    config = {"model_type": "mt5", "d_model": 8, "vocab_size": 8, "num_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    judged = verdict("CKP012", tmp_path)
    assert judged.status is status, judged.summary


@pytest.mark.parametrize(
    ("kind", "weights", "status"),
    [
        ("UNet2DConditionModel", False, Status.FAIL),
        ("UNet2DConditionModel", True, Status.PASS),
        ("DDIMScheduler", False, Status.PASS),
    ],
)
def test_a_component_of_a_pipeline(
    tmp_path: Path, kind: str, weights: bool, status: Status
) -> None:
    index = {"unet": ["diffusers", kind], "vae": ["diffusers", "AutoencoderKL"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    for part, name in (("unet", kind), ("vae", "AutoencoderKL")):
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text(json.dumps({"_class_name": name}))
        if weights or part == "vae":
            file = tmp_path / part / "diffusion_pytorch_model.safetensors"
            save_file({"conv.weight": torch.rand(4, 4, 3, 3)}, file)
    assert verdict("CKP001", tmp_path).status is status


@pytest.mark.parametrize(("empty", "status"), [(3, Status.FAIL), (1, Status.PASS)])
def test_an_empty_file_of_a_series(tmp_path: Path, empty: int, status: Status) -> None:
    """Behind the latest, and long before it."""
    for step in (1, 2, 3):
        torch.save({"model": {"w": torch.rand(4, 4)}, "step": step}, tmp_path / f"at_{step}.pth")
    (tmp_path / f"at_{empty}.pth").write_bytes(b"")
    if empty == 1:  # the first by its name is the one that is read, where steps do not decide
        (tmp_path / "at_1.pth").rename(tmp_path / "at_01.pth.old")
        (tmp_path / "at_0.pth").write_bytes((tmp_path / "at_2.pth").read_bytes())
    judged = verdict("CKP001", tmp_path)
    assert judged.status is status, judged.summary


def test_the_one_subdirectory_with_weights_is_read(tmp_path: Path) -> None:
    (tmp_path / "actor").mkdir()
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "notes.txt").write_text("x")
    save_file(state(), tmp_path / "actor" / "model.safetensors")
    checkpoint = found(tmp_path)
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.path.endswith("actor")
    (tmp_path / "critic").mkdir()
    save_file(state(), tmp_path / "critic" / "model.safetensors")
    both = found(tmp_path)
    assert isinstance(both, Unknown)
    assert both.reason.endswith("weights: actor, critic")


def test_a_file_of_data_below_is_not_taken_for_weights(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "noise.bin").write_bytes(b"\xff" * 99)
    assert isinstance(found(tmp_path), Unknown)


def test_a_tracker_that_names_no_iteration(tmp_path: Path) -> None:
    (tmp_path / "iter_0001000" / "mp_rank_00").mkdir(parents=True)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("2000")
    judged = verdict("CKP001", tmp_path)
    assert judged.status is Status.FAIL
    assert "iter_0001000 is here" in judged.summary
    assert "latest_checkpointed_iteration.txt" in (judged.fix or "")


def test_a_pickle_that_is_called_safetensors(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "model.safetensors")
    judged = verdict("CKP001", tmp_path)
    assert judged.status is Status.FAIL
    assert "Rename the file to .pt" in (judged.fix or "")
    (tmp_path / "model.safetensors").rename(tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt", weights_only=True).keys() == LLAMA.keys()
