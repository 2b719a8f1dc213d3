"""Cases of merge_corpus.py: how merges are made by peft."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch  # noqa: TID253
from safetensors.torch import load_file, save_file  # noqa: TID253

State = dict[str, torch.Tensor]
HALF, SINGLE = torch.float16, torch.float32
BRAIN = torch.bfloat16


@dataclass(frozen=True)
class Case:
    """`build` writes files below a directory and returns the fields of the request."""

    name: str
    label: str
    """"healthy", "open", or the code that must speak."""
    build: Callable[[Path], dict[str, Any]]
    word: str = ""


def model(kind: str = "llama", seed: int = 0) -> Any:
    import transformers as t

    torch.manual_seed(seed)
    if kind == "gpt2":
        return t.GPT2LMHeadModel(
            t.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=32)
        )
    if kind == "mixtral":
        return t.MixtralForCausalLM(
            t.MixtralConfig(
                hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, vocab_size=100, num_local_experts=4,
            )
        )  # fmt: skip
    if kind == "vit":
        return t.ViTForImageClassification(
            t.ViTConfig(
                hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                image_size=32, patch_size=8,
            )
        )  # fmt: skip
    tied = kind == "tied"
    return t.LlamaForCausalLM(
        t.LlamaConfig(
            hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=100, tie_word_embeddings=tied,
        )
    )  # fmt: skip


def adapted(base: Any, size: float, seed: int = 1, **settings: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        **{"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "up_proj"]} | settings
    )
    torch.manual_seed(seed)
    result = get_peft_model(base, config)
    fill(result, size)
    return result


def fill(adapted_model: Any, size: float) -> None:
    """What begins at zero gets values of this size, as training would give it."""
    with torch.no_grad():
        for name, parameter in adapted_model.named_parameters():
            if "lora_B" in name or "lora_embedding_A" in name:
                parameter.normal_(std=size)
            elif "trainable_tokens" in name or "modules_to_save" in name:
                parameter += size
            elif "magnitude" in name:
                parameter *= 1 + size


def merge(
    root: Path, dtype: torch.dtype, size: float, kind: str = "llama", **settings: Any
) -> dict[str, Any]:
    """base, adapter and merged below `root`, as peft makes them."""
    base = model(kind).to(dtype)
    base.save_pretrained(root / "base")
    saved_as = settings.pop("saved_as", None)
    result = adapted(base, size, **settings)
    result.save_pretrained(root / "adapter")
    merged = result.merge_and_unload()
    (merged.to(saved_as) if saved_as else merged).save_pretrained(root / "merged")
    return request(root)


def request(root: Path, *weights: float) -> dict[str, Any]:
    names = [f"adapter{number or ''}" for number in range(max(len(weights), 1))]
    given = weights or (1.0,)
    return {
        "path": str(root / "merged"),
        "merged_from": str(root / "base"),
        "adapters": tuple((str(root / n), w) for n, w in zip(names, given, strict=True)),
    }


def several(root: Path, dtype: torch.dtype, size: float, weights: tuple[float, ...]) -> Any:
    """Adapters one after the other, each scaled by its weight before it is merged."""
    base = model().to(dtype)
    base.save_pretrained(root / "base")
    merged = base
    for number, weight in enumerate(weights):
        result = adapted(copy.deepcopy(model().to(dtype)), size, seed=number + 1)
        result.save_pretrained(root / f"adapter{number or ''}")
        again = adapted(merged, size, seed=number + 1)
        for module in again.modules():
            if hasattr(module, "scaling") and isinstance(module.scaling, dict):
                module.scaling = {key: value * weight for key, value in module.scaling.items()}
        merged = again.merge_and_unload()
    merged.save_pretrained(root / "merged")
    return request(root, *weights)


def edited(
    make: Callable[[Path], dict[str, Any]],
    change: Callable[[State, State], State | None],
) -> Callable[[Path], dict[str, Any]]:
    """A merge whose stored values are changed: `change` gets (merged, base)."""

    def build(root: Path) -> dict[str, Any]:
        fields = make(root)
        file = root / "merged" / "model.safetensors"
        state, base = load_file(file), load_file(root / "base" / "model.safetensors")
        state = change(state, base) or state
        save_file({n: v.contiguous() for n, v in state.items()}, file, {"format": "pt"})
        return fields

    return build


def scaled(factor: float) -> Callable[[State, State], State]:
    def change(state: State, base: State) -> State:
        return {
            name: (base[name].float() + factor * (value.float() - base[name].float())).to(
                value.dtype
            )
            for name, value in state.items()
        }

    return change
