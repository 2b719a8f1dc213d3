"""Merges as peft makes them, beside their bases: read by the library, judged by the checks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: TID253
from safetensors.torch import load_file, save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Merge
from doctor.checks.checkpoint.merge_rest import REST
from doctor.checks.checkpoint.merged import ADDS_UP
from doctor.judge.check import Status, Verdict

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


GATE = ("gate", "up")


@functools.cache
def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            vocab_size=100,
        )
    )


def make(root: Path, dtype: torch.dtype, size: float = 1e-2, **settings: Any) -> Path:
    """base, adapter and merged below `root`. `size`: of what begins at zero."""
    import copy

    from peft import LoraConfig, get_peft_model

    model = copy.deepcopy(llama()).to(dtype)
    model.save_pretrained(root / "base")
    config = LoraConfig(**{"r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]} | settings)
    torch.manual_seed(1)
    adapted = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name or "lora_embedding_A" in name:
                parameter.normal_(std=size)
            elif "trainable_tokens" in name or "modules_to_save" in name:
                parameter += 0.01
    adapted.save_pretrained(root / "adapter")
    adapted.merge_and_unload().save_pretrained(root / "merged")
    return root


def scanned(model: Path, base: Path | None, *adapters: Path, **options: Any) -> Merge:
    request = ScanRequest(
        path=str(model),
        merged_from=str(base) if base else None,
        adapters=tuple((str(path), 1.0) for path in adapters),
        **options,
    )
    result = read(request, no_stage, lambda note: None)
    assert isinstance(result, Checkpoint)
    assert isinstance(result.merge, Merge), result.merge
    return result.merge


def judged(merge: Merge | Unknown) -> tuple[Verdict, Verdict]:
    from recorded_checkpoints import checkpoint

    saved = checkpoint(merge=merge)
    return ADDS_UP.judge(checkpoint=saved), REST.judge(checkpoint=saved)


def verdicts(root: Path, **options: Any) -> tuple[Status, Status]:
    merge = scanned(root / "merged", root / "base", root / "adapter", **options)
    adds_up, rest = judged(merge)
    return adds_up.status, rest.status


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_plain_merges_pass(tmp_path: Path, dtype: torch.dtype, size: float) -> None:
    assert verdicts(make(tmp_path, dtype, size)) == (Status.PASS, Status.PASS)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_dora": True},
        {"use_dora": True, "target_modules": ["embed_tokens"]},
        {"use_rslora": True},
        {"rank_pattern": {"layers.0.*q_proj": 4}, "alpha_pattern": {"q_proj": 3}},
        {"modules_to_save": ["lm_head"]},
        {"target_modules": ["embed_tokens", "down_proj"]},
        {"trainable_token_indices": [3, 99]},
    ],
)
def test_variants_pass(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert verdicts(make(tmp_path, torch.bfloat16, **settings)) == (Status.PASS, Status.PASS)


def test_an_update_below_the_rounding_is_unknown(tmp_path: Path) -> None:
    root = make(tmp_path, torch.bfloat16, 1e-9)
    adds_up, rest = verdicts(root)
    assert adds_up is Status.UNKNOWN
    assert rest is Status.PASS


def test_every_row_gives_the_same(tmp_path: Path) -> None:
    root = make(tmp_path, torch.float32)
    assert verdicts(root, deep=True) == (Status.PASS, Status.PASS)


def test_not_merged_and_merged_twice(tmp_path: Path) -> None:
    root = make(tmp_path, torch.bfloat16)
    adds_up, _ = judged(scanned(root / "base", root / "base", root / "adapter"))
    assert adds_up.status is Status.FAIL
    assert "not merged" in adds_up.summary
    file = root / "merged" / "model.safetensors"
    once, base = load_file(file), load_file(root / "base" / "model.safetensors")
    save_file({name: once[name] * 2 - base[name] for name in once}, file)
    adds_up, rest = judged(scanned(root / "merged", root / "base", root / "adapter"))
    assert "merged twice" in adds_up.summary
    assert rest.status is Status.PASS


def test_a_changed_norm_is_named(tmp_path: Path) -> None:
    root = make(tmp_path, torch.float32)
    file = root / "merged" / "model.safetensors"
    state = load_file(file)
    state["model.norm.weight"] += 0.01
    save_file(state, file)
    _, rest = judged(scanned(root / "merged", root / "base", root / "adapter"))
    assert rest.status is Status.FAIL
    assert "model.norm.weight" in rest.summary


def test_an_adapter_without_configuration_is_unknown(tmp_path: Path) -> None:
    root = make(tmp_path, torch.float32)
    (root / "adapter" / "adapter_config.json").unlink()
    request = ScanRequest(
        path=str(root / "merged"),
        merged_from=str(root / "base"),
        adapters=((str(root / "adapter"), 1.0),),
    )
    result = read(request, no_stage, lambda note: None)
    assert isinstance(result, Checkpoint)
    assert isinstance(result.merge, Unknown)


def test_projections_that_the_model_keeps_fused(tmp_path: Path) -> None:
    root = make(tmp_path, torch.bfloat16, target_modules=["q_proj", "v_proj", "up_proj"])
    for name in ("base", "merged"):
        file = root / name / "model.safetensors"
        state = load_file(file)
        for layer in range(2):
            under = f"model.layers.{layer}."
            for owner, whole, parts in (("self_attn", "qkv", "qkv"), ("mlp", "gate_up", GATE)):
                names = [f"{under}{owner}.{part}_proj.weight" for part in parts]
                state[f"{under}{owner}.{whole}_proj.weight"] = torch.cat(
                    [state.pop(each) for each in names]
                )
        save_file(state, file)
    merge = scanned(root / "merged", root / "base", root / "adapter")
    assert len(merge.weights) == 4
    assert [verdict.status for verdict in judged(merge)] == [Status.PASS, Status.PASS]


def test_experts_in_one_parameter(tmp_path: Path) -> None:
    """Stacked as peft stacks the factors of target_parameters: experts after each other."""
    import json

    torch.manual_seed(0)
    experts, rank, rows, columns = 3, 4, 16, 24
    base = {"mlp.experts.down_proj": torch.randn(experts, rows, columns)}
    down = torch.randn(experts * rank, columns) / 10
    up = torch.randn(rows, rank * experts) / 10
    product = torch.einsum(
        "ore,eri->eoi", up.reshape(rows, rank, experts), down.reshape(experts, rank, columns)
    )
    merged = {name: tensor + 2 * product for name, tensor in base.items()}
    under = "base_model.model.mlp.experts.down_proj.lora_"
    for name, state in (
        ("base/model", base),
        ("merged/model", merged),
        ("adapter/adapter_model", {f"{under}A.weight": down, f"{under}B.weight": up}),
    ):
        (tmp_path / name).parent.mkdir()
        save_file(state, f"{tmp_path / name}.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_parameters": ["x"]}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    merge = scanned(tmp_path / "merged", tmp_path / "base", tmp_path / "adapter")
    assert judged(merge)[0].status is Status.PASS
