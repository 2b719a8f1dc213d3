"""What activations take: estimated from the shape of the model, or measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from memory_facts import DARK, B, gpus_of, vram

from doctor._util.records import Ended, Unknown
from doctor.checks import memory
from doctor.collect.children import Children
from doctor.facts.memory.activations import REST, estimated, measured
from doctor.facts.own_model import MemoryPoint, OwnModel
from doctor.facts.training import ModelShape
from doctor.job.job import Job
from doctor.judge.check import Status

LLAMA_8B = ModelShape(
    file="model",
    layers=32,
    hidden=4096,
    heads=32,
    intermediate=14336,
    gated=True,
    vocabulary=128_256,
)


def kept(**fields: Any) -> float:
    job = Job(**{"batch_size": 1, "seq_len": 1024} | fields)
    found = estimated(job, "bf16", LLAMA_8B)
    assert found is not None
    return found.bytes


def test_the_estimate_is_the_papers_for_a_plain_layer_but_for_norms_and_attention() -> None:
    """34 bytes for s*b*h, of which 15 are attention and norms; a feed-forward part of 4h is 19."""
    plain = ModelShape(
        file="", layers=1, hidden=100, heads=4, intermediate=400, gated=False, vocabulary=0
    )
    job = Job(batch_size=2, seq_len=10, recipe="pure-bf16")
    found = estimated(job, "bf16", plain)
    assert found is not None
    assert found.bytes == 2 * 10 * 100 * (19 + REST["16 bit"])
    eager = estimated(job, "bf16", msgspec.structs.replace(plain, attention="eager"))
    assert eager is not None
    assert eager.bytes - found.bytes == 5 * 4 * 10 * 10 * 2
    short = estimated(msgspec.structs.replace(job, checkpointing=True), "bf16", plain)
    assert short is not None
    assert short.bytes == 2 * 10 * 100 * 2 + found.bytes


def test_activations_grow_with_batch_and_length_and_shrink_with_checkpointing() -> None:
    assert kept(batch_size=4) == 4 * kept()
    assert kept(seq_len=4096) == 4 * kept()
    assert kept(checkpointing=True) < kept() / 4
    assert kept(recipe="pure-bf16") < kept()


@pytest.mark.parametrize("missing", ["batch_size", "seq_len", "shape"])
def test_nothing_is_estimated_from_half_of_it(missing: str) -> None:
    fields = {"batch_size": 1, "seq_len": 1024} | ({missing: None} if missing != "shape" else {})
    for shape in (None, DARK) if missing == "shape" else (LLAMA_8B,):
        assert estimated(Job(**fields), "bf16", shape) is None  # type: ignore[arg-type]


def autograd_keeps(layers: int, *, amp: bool) -> int:
    """Bytes that the forward pass of a small Llama saves, its weights' copies left out."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=128,
    )
    model = LlamaForCausalLM(config).to(torch.float32 if amp else torch.bfloat16)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, int] = {}
    alive = []

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    ids = torch.zeros(4, 64, dtype=torch.long)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
        model(input_ids=ids, labels=ids)
    copies = 2 * sum(p.numel() for p in model.parameters() if p.dim() == 2) if amp else 0
    return sum(found.values()) - copies


@pytest.mark.parametrize("amp", [True, False])
@pytest.mark.slow
def test_the_estimate_of_a_layer_is_what_autograd_keeps_of_it(amp: bool) -> None:
    measured_bytes = (autograd_keeps(4, amp=amp) - autograd_keeps(2, amp=amp)) / 2
    shape = ModelShape(
        file="", layers=1, hidden=128, heads=4, intermediate=352, gated=True, vocabulary=0
    )
    job = Job(batch_size=4, seq_len=64, recipe="amp" if amp else "pure-bf16")
    found = estimated(job, "bf16", shape)
    assert found is not None
    assert found.bytes == pytest.approx(measured_bytes, rel=0.12)


def test_an_estimate_joins_the_sum_and_only_warns() -> None:
    job = Job(params=B, recipe="amp", batch_size=8, seq_len=2048)
    verdict = vram(job, gpus_of(80 * B), shape=LLAMA_8B)
    assert verdict.status is Status.WARN
    assert "batch 8 of 2,048 tokens" in verdict.summary
    assert verdict.fix is not None
    assert verdict.fix.startswith(memory.SMALLER_STEP)
    assert vram(job, gpus_of(80 * B)).status is Status.PASS
    small = msgspec.structs.replace(job, checkpointing=True, batch_size=1)
    assert vram(small, gpus_of(80 * B), shape=LLAMA_8B).status is Status.PASS
    too_much = vram(job, gpus_of(17 * B), shape=LLAMA_8B)
    assert too_much.status is Status.FAIL
    assert too_much.fix is not None
    assert too_much.fix.startswith(memory.VRAM.fix)


def ran(*points: tuple[int, int | None, int], **fields: Any) -> OwnModel:
    measured_points = tuple(
        MemoryPoint(batch=batch, length=length, peak_bytes=peak) for batch, length, peak in points
    )
    known: dict[str, Any] = {
        "description": "train.py:make",
        "built": Ended(how="ok"),
        "parameters": B,
    }
    return OwnModel(points=measured_points, **known | fields)


def test_a_measured_peak_beats_the_estimate() -> None:
    own = ran((1, 2048, 20 * B), (2, 2048, 22 * B))
    job = Job(recipe="amp", batch_size=8, seq_len=2048)
    verdict = vram(job, gpus_of(80 * B), shape=LLAMA_8B, own=own)
    assert verdict.status is Status.PASS
    assert "31.7 GiB" in verdict.summary  # 34e9 bytes
    assert "estimated" not in verdict.summary
    assert vram(job, gpus_of(36 * B), own=own).status is Status.WARN
    assert vram(job, gpus_of(33 * B), own=own).status is Status.FAIL
    assumed = msgspec.structs.replace(job, recipe=None)
    assert vram(assumed, gpus_of(33 * B), own=own).status is Status.FAIL


def test_another_length_is_scaled_and_named() -> None:
    found = measured(Job(batch_size=4, seq_len=4096), ran((1, 1024, 20 * B), (2, 1024, 21 * B)))
    assert found is not None
    assert found.bytes == 16 * B
    assert found.peak == 35 * B
    assert "of 1,024 tokens, scaled to 4,096" in found.basis


def test_shards_divide_the_state_and_not_the_activations() -> None:
    own = ran((1, 2048, 20 * B), (2, 2048, 22 * B))
    job = Job(params=B, recipe="amp", batch_size=8, shards=9)
    assert "14.9 GiB required" not in vram(job, gpus_of(80 * B), own=own).summary
    assert vram(job, gpus_of(21 * B), own=own).status is Status.PASS  # 18/9 + 16, of 90 %


@pytest.mark.parametrize(
    "own",
    [
        None,
        DARK,
        ran(),
        ran((1, 2048, 20 * B), (2, 1024, 20 * B)),
        ran((1, 2048, 20 * B)),
        ran((1, 2048, 20 * B), (2, 2048, 22 * B), whole=False),
        OwnModel(description="x", built=Ended(how="ok"), points=DARK),
    ],
)
def test_points_that_tell_nothing_of_the_job(own: OwnModel | Unknown | None) -> None:
    assert measured(Job(batch_size=8, seq_len=2048), own) is None


def test_one_point_at_the_jobs_own_batch_is_enough() -> None:
    found = measured(Job(batch_size=1), ran((1, 2048, 20 * B)))
    assert found is not None
    assert found.peak == 20 * B
    assert measured(Job(batch_size=1, seq_len=4096), ran((1, 2048, 20 * B))) is None


def config(folder: Path, **fields: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 176,
    "vocab_size": 100,
    "hidden_act": "silu",
}


def look(path: Path) -> dict[str, Any]:
    children = Children()
    try:
        return children.run_probe("shape", str(path), seconds=30).answer or {}
    finally:
        children.interrupt()


def test_the_shape_is_read_from_config_json(tmp_path: Path) -> None:
    told = look(config(tmp_path, **LLAMA))["shape"]
    shape = msgspec.convert(told, ModelShape)
    assert (shape.layers, shape.hidden, shape.intermediate, shape.gated) == (2, 64, 176, True)
    (tmp_path / "vision").mkdir()
    assert look(config(tmp_path / "vision", text_config=LLAMA))["shape"]["hidden"] == 64
    (tmp_path / "gpt2").mkdir()
    told = look(config(tmp_path / "gpt2", n_embd=8, n_layer=1, n_head=2, vocab_size=10))["shape"]
    assert (told["intermediate"], told["gated"]) == (32, False)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**LLAMA, "num_experts": 8}, "mixture of experts"),
        ({**LLAMA, "is_encoder_decoder": True}, "encoder"),
        ({**LLAMA, "hidden_size": "64"}, "no hidden_size"),
        ({**LLAMA, "vocab_size": -1}, "no vocab_size"),
        ({}, "no num_hidden_layers"),
    ],
)
def test_a_shape_that_is_not_a_plain_decoders(
    fields: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert said in look(config(tmp_path, **fields))["reason"]


def test_a_config_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    assert look(tmp_path)["absent"] is True
    assert look(tmp_path / "nothing")["absent"] is True
    (tmp_path / "config.json").write_text("[1")
    assert look(tmp_path) == {}
