"""Machines with a checkpoint, as facts."""

from __future__ import annotations

from typing import Any

import checkpoints
from recorded_parts import A100, H100, TORCH_2_9, TORCH_2_15, job, machine

from doctor._util.records import Unknown
from doctor.checkpoint.records import (
    AdapterUse,
    Checkpoint,
    Continuation,
    Differing,
    Equality,
    Fit,
    History,
    LayerUpdate,
    LoraFit,
    Merge,
    MergedWeight,
    Movement,
    NonFinite,
    Norm,
    NormEvidence,
    Optimizer,
    Plan,
    Problem,
    Role,
    Size,
    Tokenizer,
    UnchangedRole,
    Untouched,
    Values,
)
from doctor.facts.facts import Facts


def norms(value: str, dtype: str = "BF16", count: int = 49) -> tuple[Norm, ...]:
    return tuple(
        Norm(
            name=f"model.layers.{layer}.input_layernorm.weight",
            dtype=dtype,
            size=2048,
            value=value,  # type: ignore[arg-type]
        )
        for layer in range(count)
    )


def checkpoint(**fields: Any) -> Checkpoint:
    known: dict[str, Any] = {
        "path": "/data/runs/checkpoint-754",
        "layout": "Hugging Face model, safetensors",
        "count": 2,
        "tensors": 810,
        "parameters": 3_000_000_000,
        "bytes": 6_000_000_000,
        "largest": 4_000_000_000,
        "dtypes": {"BF16": 6_000_000_000},
        "roles": (
            Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"BF16": 48}),
            Role(name="model.layers.*.input_layernorm.weight", dtypes={"BF16": 49}),
        ),
        "norms": norms("other"),
        "model_type": "llama",
        "dtype": "bfloat16",
        "history": History(steps=754, lr_sum=0.2262, lr_squares=6.786e-5, covered=754),
        "seconds": 0.02,
    }
    return checkpoints.checkpoint(**known | fields)


def adam(count: int, dtype: str = "F32", step: float = 754.0, **fields: Any) -> Optimizer:
    """The state of AdamW for so many parameters."""
    known: dict[str, Any] = {
        "file": "optimizer.pt",
        "kind": "Adam",
        "entries": count,
        "parameters": count,
        "moments": {dtype: count},
        "moments_follow_weights": True,
        "nonzero_moments": count,
        "step_min": step,
        "step_max": step,
        "lr": (3e-4,),
    }
    return Optimizer(**known | fields)


def frozen_norms() -> Facts:
    saved = checkpoint(norms=norms("ones"))
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def lost_updates() -> Facts:
    """The run of the report with its optimizer's state, a baseline and a deep scan."""
    saved = checkpoint(
        norms=norms("ones"),
        optimizer=adam(
            64,
            "BF16",
            step=188.0,
            norms=NormEvidence(
                norms=49,
                matched_by="shapes",
                nonzero_moments=49,
                dtypes={"BF16": 49},
                step_min=188.0,
                step_max=188.0,
                lr_max=3e-4,
            ),
        ),
        tokenizer=Tokenizer(files=("tokenizer_config.json", "tokenizer.json"), first="!"),
        imports=("torch._utils._rebuild_tensor_v2", "collections.OrderedDict", "__main__.Trainer"),
        refused=("__main__.Trainer",),
        pickles=1,
        values=Values(
            tensors=810,
            bytes=6_000_000_000,
            nonfinite=(
                NonFinite(
                    name="lm_head.weight",
                    file="model-00002-of-00002.safetensors",
                    dtype="BF16",
                    values=262_144_000,
                    nan=3,
                    plus_inf=0,
                    minus_inf=0,
                    first=17,
                ),
            ),
            nonfinite_tensors=1,
            seconds=0.4,
        ),
        movement=Movement(
            baseline="/data/runs/checkpoint-0",
            changed=761,
            unchanged=49,
            kinds={"norm": (0, 49), "attention": (384, 384), "MLP": (375, 375), "head": (2, 2)},
            unchanged_roles=(
                UnchangedRole(
                    role="model.layers.*.input_layernorm.weight",
                    kind="norm",
                    dtype="BF16",
                    count=49,
                    compared=49,
                ),
            ),
            seconds=0.1,
        ),
    )
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def fp32_run() -> Facts:
    """A checkpoint as it should be: fp32 weights, everything moved, all values finite."""
    saved = checkpoint(
        dtypes={"F32": 12_000_000_000},
        dtype="float32",
        roles=(
            Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"F32": 48}),
            Role(name="model.layers.*.self_attn.q_proj.lora_A.weight", dtypes={"F32": 48}),
        ),
        norms=norms("other", dtype="F32"),
        optimizer=adam(
            810,
            lr=(3e-4, 3e-4),
            fit=Fit(weights=810),
        ),
        sizes=(
            Size(quantity="layers", configured=(48,), stored=48, tensor="model.layers"),
            Size(quantity="vocabulary", configured=(128_256,), stored=128_256, tensor="embed"),
        ),
        embedding_rows=128_256,
        lora=LoraFit(
            rank=16, stored_ranks={"16": 48}, alpha=32.0, targets=1, b_tensors=48, zero_b=0
        ),
        tokenizer=Tokenizer(
            files=("tokenizer_config.json", "tokenizer.json"),
            pad="<|finetune_right_pad_id|>",
            pad_id=128_004,
            first="!",
            vocabulary=128_256,
            largest=128_255,
        ),
        values=Values(tensors=810, bytes=12_000_000_000, seconds=0.8),
        movement=Movement(
            baseline="/data/runs/checkpoint-0", changed=810, unchanged=0, seconds=0.1
        ),
        merge=merge(),
        equality=Equality(other="/models/copy", compared=810, equal=810),
        continuation=continuation(plan=Plan(gpus=1, batch_size=4)),
    )
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def adapter_without_gradients() -> Facts:
    """A bf16 adapter, half of whose parameters never got a gradient; the deep scan stopped."""
    saved = checkpoint(
        layout="PEFT adapter",
        adapter="LORA",
        norms=(),
        roles=(
            Role(name="base_model.model.layers.*.self_attn.q_proj.lora_A.weight",
                 dtypes={"BF16": 48}),
            Role(name="base_model.model.layers.*.self_attn.q_proj.lora_B.weight",
                 dtypes={"BF16": 48}),
        ),
        optimizer=adam(
            48,
            parameters=96,
            missing=48,
            moments_follow_weights=False,
        ),
        values=Unknown(reason="adapter_model.safetensors was changed while it was read"),
        movement=Unknown(reason="the baseline: no header could be read"),
    )  # fmt: skip
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def files_of_two_models() -> Facts:
    """Configuration, adapter's configuration and optimizer of another model than the weights."""
    saved = checkpoint(
        sizes=(Size(quantity="layers", configured=(32,), stored=28, tensor="model.layers"),),
        embedding_rows=32_000,
        lora=LoraFit(rank=16, stored_ranks={"8": 48}, alpha=32.0, b_tensors=48, zero_b=0),
        optimizer=adam(
            810,
            fit=Fit(weights=810, foreign=810, example=(4096, 4096)),
        ),
    )
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def missing_shard() -> Facts:
    """One missing shard."""
    saved = checkpoint(
        problems=(
            Problem(
                kind="missing",
                file="model-00002-of-00002.safetensors",
                text="named by the index, not in the folder",
            ),
        ),
    )
    return machine(A100, torch=TORCH_2_9, job=job(checkpoint=saved.path), checkpoint=saved)


def mixed_checkpoint() -> Facts:
    """fp8 on an A100, two dtypes in a role, half of the norms at 1.0."""
    saved = checkpoint(
        tokenizer=Tokenizer(
            files=("tokenizer_config.json",), first="!", configured={"config.json": 0}
        ),
        dtypes={"F8_E4M3": 3_000_000_000, "BF16": 3_000_000_000},
        roles=(Role(name="model.layers.*.self_attn.q_proj.weight", dtypes={"BF16": 46, "F32": 2}),),
        norms=norms("ones", count=24) + norms("other", count=25),
        history=None,
    )
    return machine(A100, torch=TORCH_2_9, job=job(checkpoint=saved.path), checkpoint=saved)


def merged_weight(number: int, **fields: Any) -> MergedWeight:
    known: dict[str, Any] = {
        "name": f"model.layers.{number}.self_attn.q_proj.weight",
        "layer": str(number),
        "kind": "attention",
        "elements": 131_072,
        "base": 0.02,
        "update": 0.004,
        "moved": 0.004,
        "residual": 3e-5,
        "bound": 1e-4,
        "mismatch": 0.0,
        "lost": 0.0,
        "changed": 130_000,
        "expected": 130_000,
        "scale": 1.0,
        "explained": 1.0,
        "adapters": (0,),
        "grid": "BF16",
    }
    return MergedWeight(**known | fields)


def merge(*weights: MergedWeight, **fields: Any) -> Merge:
    known: dict[str, Any] = {
        "base": "/models/llama",
        "adapters": (lora(),),
        "weights": weights or (merged_weight(0), merged_weight(1)),
        "untouched": Untouched(compared=289, equal=289),
        "layers": (
            LayerUpdate(layer="0", kind="attention", tensors=1, relative=0.2, scale=1.0, lost=0.0),
        ),
    }
    return Merge(**known | fields)


def lora(**fields: Any) -> AdapterUse:
    known: dict[str, Any] = {"path": "/data/adapter", "method": "LoRA", "rank": 16, "alpha": 32.0}
    return AdapterUse(**known | {"modules": 2} | fields)


def merged_twice() -> Facts:
    """A merge with twice the update, and a norm that is not the base's."""
    twice = {"scale": 2.0, "moved": 0.008, "residual": 0.004}
    saved = checkpoint(
        merge=merge(
            merged_weight(0, **twice),
            merged_weight(1, **twice),
            adapters=(lora(unmatched=("layers.9.q_proj",), unmatched_count=1),),
            untouched=Untouched(
                compared=289,
                equal=288,
                changed=("model.norm.weight by 0.01 of its size",),
                changed_count=1,
            ),
        ),
        equality=Equality(
            other="/models/copy",
            compared=291,
            equal=290,
            differing=(
                Differing(
                    name="model.norm.weight", elements=64, of=4096, largest=0.5, relative=0.01
                ),
            ),
            differing_count=1,
        ),
        continuation=continuation(
            pieces={"optimizer": "", "scheduler": "scheduler.pt", "loop state": "x"},
            ranks=8,
            reshards=False,
            counts={"trainer_state.json": 20, "scheduler": 10},
            plan=Plan(gpus=4),
        ),
    )
    return machine(H100, torch=TORCH_2_15, job=job(checkpoint=saved.path), checkpoint=saved)


def continuation(**fields: Any) -> Continuation:
    """A checkpoint of the Trainer, written by one process after 20 steps."""
    known: dict[str, Any] = {
        "framework": "transformers Trainer",
        "pieces": {
            "optimizer": "optimizer.pt",
            "scheduler": "scheduler.pt",
            "loop state": "trainer_state.json",
            "random state": "rng_state.pth",
        },
        "ranks": 1,
        "random_ranks": 1,
        "counts": {"trainer_state.json": 20, "scheduler": 20, "optimizer": 20},
        "batch_size": 4,
    }
    return Continuation(**known | fields)
