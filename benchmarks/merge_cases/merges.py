"""Merges, healthy and with one mistake each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch  # noqa: TID253
from safetensors.torch import load_file, save_file  # noqa: TID253

from merge_cases import (
    BRAIN,
    HALF,
    SINGLE,
    Case,
    State,
    adapted,
    edited,
    merge,
    model,
    request,
    scaled,
    several,
)  # fmt: skip


def healthy_merges() -> Iterator[Case]:
    sizes = {SINGLE: (3e-6, 1e-3, 1.0), BRAIN: (1e-3, 1e-2, 1.0), HALF: (3e-4, 1e-2, 1.0)}
    for dtype, several_sizes in sizes.items():
        for size in several_sizes:
            yield Case(
                f"plain {dtype} {size:g}", "healthy", lambda r, d=dtype, s=size: merge(r, d, s)
            )
        for name, settings in VARIANTS.items():
            yield Case(
                f"{name} {dtype}", "healthy", lambda r, d=dtype, s=settings: merge(r, d, 1e-2, **s)
            )
        yield Case(
            f"two adapters {dtype}", "healthy", lambda r, d=dtype: several(r, d, 1e-2, (1.0, 1.0))
        )
        yield Case(
            f"weighted adapters {dtype}",
            "healthy",
            lambda r, d=dtype: several(r, d, 1e-2, (0.3, 0.7)),
        )
    for kind in ("nf4", "fp4", "int8"):
        yield Case(f"over {kind}", "healthy", lambda r, k=kind: over_quantized(r, k))
    yield Case("saved in fp16", "healthy", lambda r: merge(r, SINGLE, 1e-2, saved_as=HALF))
    yield Case("saved in bf16", "healthy", lambda r: merge(r, SINGLE, 1e-2, saved_as=BRAIN))
    yield Case("bf16 saved in fp32", "healthy", lambda r: merge(r, BRAIN, 1e-2, saved_as=SINGLE))


VARIANTS: dict[str, dict[str, Any]] = {
    "rank 64": {"r": 64, "target_modules": "all-linear"},
    "rsLoRA": {"use_rslora": True, "r": 16},
    "DoRA": {"use_dora": True},
    "patterns": {"rank_pattern": {"layers.0.*q_proj": 4}, "alpha_pattern": {"up_proj": 3}},
    "embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "head saved whole": {"modules_to_save": ["lm_head"]},
    "trained tokens": {"trainable_token_indices": [1, 5, 99]},
    "Conv1D of GPT-2": {
        "kind": "gpt2", "target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True,
    },
    "GPT-2 with biases": {
        "kind": "gpt2", "target_modules": ["c_attn"], "fan_in_fan_out": True, "bias": "all",
    },
    "convolution": {"kind": "vit", "target_modules": ["query", "projection"]},
    "tied": {"kind": "tied"},
    "mixture of experts, attention": {"kind": "mixtral", "target_modules": ["q_proj", "v_proj"]},
}  # fmt: skip


def over_quantized(root: Path, kind: str) -> dict[str, Any]:
    """Merged into what is left of a base that bitsandbytes quantized."""
    import bitsandbytes.functional as bnb

    fields = merge(root, BRAIN, 1e-2)
    file = root / "merged" / "model.safetensors"
    state, base = load_file(file), load_file(root / "base" / "model.safetensors")
    for name, value in state.items():
        if "q_proj" in name or "up_proj" in name:
            wide = base[name].float()
            if kind == "int8":
                expanded = bnb.int8_vectorwise_dequant(*bnb.int8_vectorwise_quant(wide.half())[:2])
            else:
                expanded = bnb.dequantize_4bit(*bnb.quantize_4bit(wide, quant_type=kind))
            moved = value.float() - wide
            state[name] = (expanded.float() + moved).bfloat16()
    save_file(state, file, {"format": "pt"})
    return fields


def planted_merges() -> Iterator[Case]:
    for dtype in (SINGLE, BRAIN, HALF):

        def plain(root: Path, d: torch.dtype = dtype) -> dict[str, Any]:
            return merge(root, d, 1e-2)

        changes: dict[str, tuple[Any, str, str]] = {
            "twice": (scaled(2.0), "CKP015", "twice"),
            "half": (scaled(0.5), "CKP015", "lora_alpha / r"),
            "subtracted": (scaled(-1.0), "CKP015", "subtracted"),
            "alpha not divided": (scaled(8.0), "CKP015", "not divided"),
            "as rsLoRA": (scaled(8**0.5), "CKP015", "rsLoRA"),
            "by a tenth more": (scaled(1.1), "CKP015", "times the update"),
            "not merged": (lambda s, b: dict(b), "CKP015", "not merged"),
            "in part": (_in_part, "CKP015", "in part"),
            "one layer by another factor": (_one_scaled, "CKP015", "another scale"),
            "layers in the wrong order": (_swapped_layers, "CKP015", ""),
            "noise in all": (_noise, "CKP015", ""),
            "NaN": (_nan, "CKP015", "NaN"),
            "a row left out": (_row_left_out, "CKP015", "row 17"),
            "an element": (_element, "CKP015", "row 17"),
            "rows of one rank left out": (_rank_left_out, "CKP015", "rows"),
            "everything cast to fp8 on the way": (_through_fp8, "CKP016", "differ"),
            "renamed layers": (_renamed, "CKP015", ""),
            "norm": (_norm, "CKP016", "layers.2.input_layernorm"),
            "embedding row": (_row, "CKP016", "embed_tokens"),
            "tensor missing": (_missing, "CKP016", "down_proj"),
        }
        for name, (change, code, word) in changes.items():
            yield Case(f"{name} {dtype}", code, edited(plain, change), word)
        yield Case(f"another base {dtype}", "CKP015", lambda r, p=plain: _other_base(r, p), "base")
        yield Case(
            f"head not replaced {dtype}",
            "CKP015",
            edited(
                lambda r, d=dtype: merge(r, d, 1e-2, modules_to_save=["lm_head"]),
                lambda s, b: s | {"lm_head.weight": b["lm_head.weight"]},
            ),
            "lm_head",
        )
        yield Case(
            f"one of two adapters {dtype}", "CKP015", lambda r, d=dtype: _one_of_two(r, d), ""
        )
        yield Case(f"weights exchanged {dtype}", "CKP015", lambda r, d=dtype: _exchanged(r, d), "")
        yield Case(
            f"adapter of zeros {dtype}", "CKP017", lambda r, d=dtype: merge(r, d, 0.0), "zero"
        )
        yield Case(
            f"adapter of another width {dtype}", "CKP017", lambda r, d=dtype: _wider(r, d), "shapes"
        )
    yield Case("lost in bf16", "CKP015", lambda r: merge(r, BRAIN, 3e-5), "lost")
    yield Case("below bf16", "open", lambda r: merge(r, BRAIN, 1e-9))
    yield Case("below fp16", "open", lambda r: merge(r, HALF, 1e-11))
    yield Case("LoHa", "open", lambda r: _method(r, "LoHaConfig"))
    yield Case("OFT", "open", lambda r: _method(r, "OFTConfig"))
    yield Case("IA3", "open", lambda r: _method(r, "IA3Config"))
    yield Case("PiSSA without its base", "open", _pissa)


def _row_left_out(state: State, base: State) -> None:
    name = "model.layers.1.self_attn.q_proj.weight"
    state[name][17] = base[name][17]


def _element(state: State, base: State) -> None:
    state["model.layers.1.self_attn.q_proj.weight"][17, 5] += 1


def _rank_left_out(state: State, base: State) -> None:
    """Of two ranks, the second kept the base's rows."""
    for name, tensor in state.items():
        tensor[len(tensor) // 2 :] = base[name][len(tensor) // 2 :]


def _through_fp8(state: State, base: State) -> State:
    return {n: v.to(torch.float8_e4m3fn).to(v.dtype) for n, v in state.items()}


def _renamed(state: State, base: State) -> State:
    """The layers in reverse order, base and update alike."""
    return {
        ".".join(str(3 - int(part)) if part.isdecimal() else part for part in n.split(".")): v
        for n, v in state.items()
    }


def by_bitsandbytes(root: Path, kind: str, *, expanded_first: bool) -> dict[str, Any]:
    """Merged by peft into a model that transformers loaded quantized, as for QLoRA."""
    import bitsandbytes  # noqa: F401
    import transformers as t
    from peft import PeftModel

    model().to(BRAIN).save_pretrained(root / "base")
    four = {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_compute_dtype": BRAIN}
    config = t.BitsAndBytesConfig(**({"load_in_8bit": True} if kind == "int8" else four))

    def load() -> Any:
        return t.AutoModelForCausalLM.from_pretrained(
            root / "base", quantization_config=config, dtype=BRAIN, device_map="cpu"
        )

    adapted(load(), 1e-2).save_pretrained(root / "adapter")
    base = load().dequantize() if expanded_first else load()
    merged = PeftModel.from_pretrained(base, root / "adapter").merge_and_unload()
    merged = merged if expanded_first else merged.dequantize()
    merged.config.__dict__.pop("quantization_config", None)
    merged.to(BRAIN).save_pretrained(root / "merged")
    return request(root)


def quantized_merges() -> Iterator[Case]:
    for kind in ("nf4", "fp4", "int8"):
        for first, name in ((True, "expanded"), (False, "quantized")):
            again = not first and kind != "int8"
            yield Case(
                f"by bitsandbytes into {name} {kind}",
                "CKP015" if again else "CKP016",
                lambda r, k=kind, f=first: by_bitsandbytes(r, k, expanded_first=f),
                f"both rounded to {kind}" if again else f"quantized to {kind}",
            )


def by_mergekit(root: Path, **config: Any) -> dict[str, Any]:
    """base + adapter as mergekit writes it, with a method of its own."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    merge(root, SINGLE, 1e-2)
    shutil.rmtree(root / "merged")
    place = {"model": f"{root / 'base'}+{root / 'adapter'}"}
    described = {"models": [place], "merge_method": "linear", "dtype": "float32"} | config
    described["models"] = [each | place for each in described["models"]]
    if described["merge_method"] != "linear":
        described["base_model"] = str(root / "base")
    options = MergeOptions(copy_tokenizer=False, lora_merge_cache=str(root / "cache"))
    run_merge(MergeConfiguration.model_validate(described), str(root / "merged"), options)
    return request(root)


def merges_by_mergekit() -> Iterator[Case]:
    whole = [{"parameters": {"weight": 1.0}}]
    yield Case("mergekit linear", "healthy", lambda r: by_mergekit(r, models=whole))
    yield Case(
        "mergekit, saved in bf16", "healthy",
        lambda r: by_mergekit(r, models=whole, dtype="bfloat16"),
    )  # fmt: skip
    half = [{"parameters": {"weight": 0.5}}]
    yield Case(
        "mergekit, half of the task vector", "CKP015",
        lambda r: by_mergekit(r, models=half, merge_method="task_arithmetic"), "0.5 times",
    )  # fmt: skip
    thinned = [{"parameters": {"weight": 1.0, "density": 0.4}}]
    for method in ("ties", "dare_ties"):
        yield Case(
            f"mergekit {method}", "CKP015",
            lambda r, m=method: by_mergekit(r, models=thinned, merge_method=m),
        )  # fmt: skip


def _in_part(state: State, base: State) -> State:
    return {n: base[n] if ".layers.1." in n or ".layers.3." in n else v for n, v in state.items()}


def _one_scaled(state: State, base: State) -> State:
    name = "model.layers.2.self_attn.q_proj.weight"
    return state | {name: scaled(3.0)({name: state[name]}, base)[name]}


def _swapped_layers(state: State, base: State) -> State:
    result = dict(state)
    for part in ("self_attn.q_proj", "mlp.up_proj"):
        for one, other in ((0, 1), (1, 0), (2, 3), (3, 2)):
            here, there = (f"model.layers.{n}.{part}.weight" for n in (one, other))
            moved = state[there].float() - base[there].float()
            result[here] = (base[here].float() + moved).to(state[here].dtype)
    return result


def _noise(state: State, base: State) -> State:
    torch.manual_seed(3)
    return {
        n: v + 0.003 * torch.randn_like(v) if "q_proj" in n or "up_proj" in n else v
        for n, v in state.items()
    }


def _nan(state: State, base: State) -> State:
    state["model.layers.1.mlp.up_proj.weight"][0, 0] = float("nan")
    return state


def _norm(state: State, base: State) -> State:
    state["model.layers.2.input_layernorm.weight"] *= 1.05
    return state


def _row(state: State, base: State) -> State:
    state["model.embed_tokens.weight"][17] *= 1.5
    return state


def _missing(state: State, base: State) -> State:
    del state["model.layers.0.mlp.down_proj.weight"]
    return state


def _other_base(root: Path, plain: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    fields = plain(root)
    dtype = load_file(root / "base" / "model.safetensors")["lm_head.weight"].dtype
    model(seed=9).to(dtype).save_pretrained(root / "base")
    return fields


def _one_of_two(root: Path, dtype: torch.dtype) -> dict[str, Any]:
    fields = several(root, dtype, 1e-2, (1.0, 1.0))
    shutil.rmtree(root / "merged")
    merged = adapted(model().to(dtype), 1e-2, seed=1).merge_and_unload()
    merged.save_pretrained(root / "merged")
    return fields


def _exchanged(root: Path, dtype: torch.dtype) -> dict[str, Any]:
    fields = several(root, dtype, 1e-2, (0.2, 0.8))
    (first, one), (second, other) = fields["adapters"]
    return fields | {"adapters": ((first, other), (second, one))}


def _wider(root: Path, dtype: torch.dtype) -> dict[str, Any]:
    merge(root, dtype, 1e-2)
    file = root / "adapter" / "adapter_model.safetensors"
    state = load_file(file)
    wider = {n: torch.cat([v, v], 1) if "lora_A" in n else v for n, v in state.items()}
    save_file(wider, file, {"format": "pt"})
    return {"path": str(root / "base"), "adapters": ((str(root / "adapter"), 1.0),)}


def _method(root: Path, name: str) -> dict[str, Any]:
    import peft

    base = model()
    base.save_pretrained(root / "base")
    extra = {"feedforward_modules": ["down_proj"]} if name == "IA3Config" else {}
    targets = ["q_proj", "down_proj"] if extra else ["q_proj"]
    result = peft.get_peft_model(base, getattr(peft, name)(target_modules=targets, **extra))
    result.save_pretrained(root / "adapter")
    result.merge_and_unload().save_pretrained(root / "merged")
    return request(root)


def _pissa(root: Path) -> dict[str, Any]:
    fields = merge(root, SINGLE, 1e-2, init_lora_weights="pissa")
    model().save_pretrained(root / "base")
    return fields
