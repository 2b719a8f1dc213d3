"""Merges, conversions and runs with labels: what `doctor scan` must say of each, and what not.

python benchmarks/merge_corpus.py [--only WORD] [--keep DIRECTORY]

Healthy cases may neither fail nor warn. A planted case must fail or warn in the check of its label
and say its word. `open` cases are those that cannot be decided; they must be unknown. Merges are
made by peft, files by the libraries that usually write them (gguf: pip install gguf); all of it is
small, and takes minutes. A case whose library is missing is left out, and counted.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch  # noqa: TID253
from safetensors.torch import load_file, save_file  # noqa: TID253

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
warnings.filterwarnings("ignore")

from doctor._util.records import Unknown  # noqa: E402
from doctor.checkpoint.contents import ScanRequest, read  # noqa: E402
from doctor.checkpoint.io.stages import no_stage  # noqa: E402
from doctor.checkpoint.records import Plan  # noqa: E402
from doctor.checks.checkpoint import CHECKS  # noqa: E402
from doctor.judge.check import Status  # noqa: E402

JUDGED = {check.code: check for check in CHECKS if "CKP015" <= check.code <= "CKP022"}
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


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


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


def weights(seed: int = 0, dtype: torch.dtype = BRAIN) -> State:
    state = model(seed=seed).to(dtype).state_dict()
    norms = {n: v + 0.1 * torch.rand_like(v) for n, v in state.items() if v.ndim == 1}
    return {name: tensor.clone() for name, tensor in (state | norms).items()}


def pair(
    change: Callable[[State], State | None], dtype: torch.dtype = BRAIN
) -> Callable[[Path], dict[str, Any]]:
    """Two checkpoints, the second changed."""

    def build(root: Path) -> dict[str, Any]:
        for name, state in (("one", weights(dtype=dtype)), ("other", weights(dtype=dtype))):
            if name == "other":
                state = change(state) or state
            (root / name).mkdir()
            stored = {n: v.contiguous() for n, v in state.items()}
            save_file(stored, root / name / "model.safetensors")
        return {"path": str(root / "one"), "equals": str(root / "other")}

    return build


def _fused(state: State) -> None:
    for layer in range(4):
        under = f"model.layers.{layer}."
        for owner, whole, parts in (
            ("self_attn", "qkv_proj", ("q_proj", "k_proj", "v_proj")),
            ("mlp", "gate_up_proj", ("gate_proj", "up_proj")),
        ):
            pieces = [state.pop(f"{under}{owner}.{part}.weight") for part in parts]
            state[f"{under}{owner}.{whole}.weight"] = torch.cat(pieces)


def _rotated(state: State) -> None:
    for name in list(state):
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            rows = state[name].shape[0]
            heads = state[name].reshape(rows // 16, 2, 8, 64).swapaxes(1, 2)
            state[name] = heads.reshape(rows, 64)


def _exchange(one: str, other: str) -> Callable[[State], None]:
    def change(state: State) -> None:
        state[one], state[other] = state[other], state[one]

    return change


def _set(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[State], State]:
    return lambda state: state | {name: change(state[name])}


def _every(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[State], State]:
    return lambda state: {name: change(tensor) for name, tensor in state.items()}


Q0, DOWN = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight"
EMBED, NORM = "model.embed_tokens.weight", "model.norm.weight"


def _one_element(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[5] += 0.5
    return tensor


def equalities() -> Iterator[Case]:
    healthy: dict[str, Any] = {
        "the same": lambda s: s,
        "cast to fp32": _every(torch.Tensor.float),
        "fused": _fused,
        "rotated": _rotated,
        "norms with 1 added": lambda s: {n: v.float() + (v.ndim == 1) for n, v in s.items()},
        "padded": lambda s: s | {EMBED: torch.cat([s[EMBED], torch.zeros(28, 64).bfloat16()])},
        "of a wrapper": lambda s: {f"module.{n}": v for n, v in s.items()},
        "without the head": lambda s: {n: v for n, v in s.items() if "lm_head" not in n},
        "without model.": lambda s: {n.removeprefix("model."): v for n, v in s.items()},
        "down transposed": _set(DOWN, lambda t: t.T),
    }
    for name, change in healthy.items():
        yield Case(f"equal: {name}", "healthy", pair(change))
    yield Case("equal: fp32 cast to bf16", "healthy", pair(_every(torch.Tensor.bfloat16), SINGLE))
    yield Case("equal: fp32 cast to fp16", "healthy", pair(_every(torch.Tensor.half), SINGLE))
    for kind in ("zip", "legacy", "dcp", "shards", "gguf"):
        yield Case(f"equal: {kind}", "healthy", lambda r, k=kind: _other_format(r, k))
    planted: dict[str, tuple[Any, str]] = {
        "one element": (_set(DOWN, _one_element), "1 of 8,192"),
        "q and o exchanged": (_exchange(Q0, Q0.replace("q_proj", "o_proj")), "2 of"),
        "layers exchanged": (_exchange(DOWN, DOWN.replace(".1.", ".2.")), "2 of"),
        "one tensor of zeros": (_set(DOWN, torch.zeros_like), "down_proj"),
        "another step": (_every(lambda t: t * 1.01), "another step"),
        "another model": (lambda s: weights(7), "nothing in common"),
        "a tensor missing": (lambda s: {n: v for n, v in s.items() if n != DOWN}, "down_proj"),
        "norm by 1 percent": (_set(NORM, lambda t: t * 1.02), "model.norm"),
        "rows cut": (_set(EMBED, lambda t: torch.cat([t[1:], t[:1]])), "embed_tokens"),
        "k rotated with the heads of q": (_half_rotated, "k_proj"),
        "other names": (lambda s: {f"x{i}.y": v for i, v in enumerate(s.values())}, "name"),
    }
    for name, (change, word) in planted.items():
        yield Case(f"different: {name}", "CKP018", pair(change), word)
    detour = _every(lambda t: t.half().float())
    yield Case("different: by way of fp16", "CKP018", pair(detour, SINGLE), "F16")
    yield Case(
        "different: by way of bf16",
        "CKP018",
        pair(_every(lambda t: t.bfloat16().float()), SINGLE),
        "BF16",
    )


def _half_rotated(state: State) -> None:
    name = "model.layers.0.self_attn.k_proj.weight"
    state[name] = state[name].roll(1, 0)


def _other_format(root: Path, kind: str) -> dict[str, Any]:
    state = weights()
    (root / "one").mkdir()
    save_file(state, root / "one" / "model.safetensors")
    other = root / "other"
    if kind == "dcp":
        import torch.distributed.checkpoint as dcp

        dcp.save({"model": state}, checkpoint_id=str(other))
    elif kind == "shards":
        model().to(BRAIN).save_pretrained(root / "one")
        model().to(BRAIN).save_pretrained(other, max_shard_size="50KB")
    elif kind == "gguf":
        other = root / "other.gguf"
        _write_gguf(state, other)
    else:
        other = root / "other.pt"
        torch.save(state, other, _use_new_zipfile_serialization=kind == "zip")
    return {"path": str(root / "one"), "equals": str(other)}


def _write_gguf(state: State, path: Path) -> None:
    """As llama.cpp's converter does: its names, rotated q and k, norms in fp32."""
    import gguf

    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", "model.layers.": "blk.",
    }  # fmt: skip
    state = dict(state)
    _rotated(state)
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, tensor in state.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        writer.add_tensor(name, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def loop(steps: int = 8, total: int = 20) -> dict[str, Any]:
    """The state of a plain loop."""
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=total)
    for _ in range(steps):
        net(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        scheduler.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng_state": torch.get_rng_state(),
        "step": steps,
    }


def plain_run(root: Path, change: Callable[[dict[str, Any]], Any], **plan: Any) -> dict[str, Any]:
    state = loop()
    change(state)
    torch.save(state, root / "ckpt.pt")
    return {"path": str(root / "ckpt.pt"), "plan": Plan(**plan)}


TRAINED: dict[str, Path] = {}


def trainer_run(root: Path, change: Callable[[Path], Any], **plan: Any) -> dict[str, Any]:
    """A directory that Trainer wrote at step 10 of 20, changed."""
    from transformers import Trainer, TrainingArguments

    if "trainer" not in TRAINED:
        place = Path(tempfile.mkdtemp(prefix="merge-corpus-"))
        data = [dict.fromkeys(("input_ids", "labels"), torch.arange(16))] * 64
        arguments = TrainingArguments(
            str(place), max_steps=20, save_steps=10, per_device_train_batch_size=4, report_to=[],
            use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        Trainer(model(), arguments, train_dataset=data).train()
        TRAINED["trainer"] = place
    path = root / "checkpoint-10"
    shutil.copytree(TRAINED["trainer"] / "checkpoint-10", path)
    return {"path": str(change(path) or path), "plan": Plan(**plan)}


def accelerate_run(root: Path, change: Callable[[Path], Any], **plan: Any) -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    net, optimizer, scheduler = accelerator.prepare(net, optimizer, scheduler)
    for _ in range(8):
        accelerator.backward(net(torch.ones(1, 8)).sum())
        optimizer.step()
        scheduler.step()
    accelerator.save_state(str(root / "state"))
    change(root / "state")
    return {"path": str(root / "state"), "plan": Plan(**plan)}


def distributed_run(root: Path, names: tuple[str, ...], **plan: Any) -> dict[str, Any]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(8):
        net(torch.ones(1, 8)).sum().backward()
        optimizer.step()
    held, state = get_state_dict(net, optimizer)
    whole = {"model": held, "optimizer": state, "train_state": {"step": 8}}
    dcp.save({name: whole[name] for name in names}, checkpoint_id=str(root / "step-8"))
    return {"path": str(root / "step-8"), "plan": Plan(**plan)}


def _state(**fields: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        file = path / "trainer_state.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


def _without(*names: str) -> Callable[[Path], None]:
    return lambda path: [(path / name).unlink() for name in names] and None


def _ranked(*ranks: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for rank in ranks:
            shutil.copy(path / "rng_state.pth", path / f"rng_state_{rank}.pth")
        (path / "rng_state.pth").unlink()

    return change


def _cut_scheduler(path: Path) -> None:
    (path / "scheduler.pt").write_bytes(b"\x80\x02")


def nothing(_: Any) -> None:
    """No change."""


def runs() -> Iterator[Case]:
    whole = ("model", "optimizer", "train_state")
    yield Case("run: plain", "healthy", lambda r: plain_run(r, nothing))
    yield Case("run: plain, 20 steps", "healthy", lambda r: plain_run(r, nothing, max_steps=20))
    yield Case("run: Trainer", "healthy", lambda r: trainer_run(r, nothing))
    yield Case(
        "run: Trainer, same plan", "healthy",
        lambda r: trainer_run(r, nothing, gpus=1, batch_size=4, max_steps=20),
    )  # fmt: skip
    yield Case("run: Trainer, longer", "healthy", lambda r: trainer_run(r, nothing, max_steps=40))
    yield Case(
        "run: Trainer of 4", "healthy", lambda r: trainer_run(r, _ranked(0, 1, 2, 3), gpus=4)
    )
    yield Case("run: accelerate", "healthy", lambda r: accelerate_run(r, nothing, gpus=1))
    yield Case("run: distributed", "healthy", lambda r: distributed_run(r, whole))
    drop = lambda *keys: lambda state: [state.pop(key) for key in keys]  # noqa: E731
    planted: tuple[tuple[str, str, str, Callable[[Path], dict[str, Any]]], ...] = (
        ("no optimizer", "CKP019", "optimizer", lambda r: plain_run(r, drop("optimizer"))),
        ("no scaler for fp16", "CKP019", "scaler",
         lambda r: plain_run(r, nothing, precision="fp16")),
        ("schedule at its end", "CKP021", "20 are done", lambda r: _ended(r)),
        ("schedule too short", "CKP021", "OneCycleLR",
         lambda r: plain_run(r, nothing, max_steps=30)),
        ("scale below 1", "CKP021", "scale",
         lambda r: plain_run(r, lambda s: s.update(scaler={"scale": 1e-4}))),
        ("Trainer without scheduler", "CKP019", "neither",
         lambda r: trainer_run(r, _without("scheduler.pt"))),
        ("Trainer without optimizer", "CKP019", "optimizer",
         lambda r: trainer_run(r, _without("optimizer.pt"))),
        ("Trainer without random state", "CKP019", "random state",
         lambda r: trainer_run(r, _without("rng_state.pth"))),
        ("Trainer, renamed", "CKP021", "directory",
         lambda r: trainer_run(r, lambda p: p.rename(p.with_name("checkpoint-12")))),
        ("Trainer, state of another step", "CKP021", "10",
         lambda r: trainer_run(r, _state(global_step=30))),
        ("Trainer, nothing left", "CKP021", "no step is left",
         lambda r: trainer_run(r, nothing, max_steps=10)),
        ("Trainer, other batch", "CKP022", "batches",
         lambda r: trainer_run(r, nothing, batch_size=8)),
        ("Trainer, other world", "CKP022", "processes",
         lambda r: trainer_run(r, _ranked(0, 1), gpus=8)),
        ("Trainer, ranks without state", "CKP020", "random state",
         lambda r: trainer_run(r, _ranked(0, 1), gpus=8)),
        ("Trainer, damaged scheduler", "CKP019", "scheduler",
         lambda r: trainer_run(r, _cut_scheduler)),
        ("old numpy", "CKP022", "numpy",
         lambda r: trainer_run(r, nothing, packages={"numpy": "1.24.0"})),
        ("old transformers", "CKP022", "transformers",
         lambda r: trainer_run(r, nothing, packages={"transformers": "4.40.0"})),
        ("accelerate without optimizer", "CKP019", "optimizer",
         lambda r: accelerate_run(r, _without("optimizer.bin"))),
        ("accelerate without random state", "CKP019", "",
         lambda r: accelerate_run(r, _without("random_states_0.pkl"))),
        ("distributed without optimizer", "CKP019", "optimizer",
         lambda r: distributed_run(r, ("model", "train_state"))),
    )  # fmt: skip
    for name, code, word, build in planted:
        yield Case(f"run: {name}", code, build, word)


def _ended(root: Path) -> dict[str, Any]:
    torch.save(loop(20), root / "ckpt.pt")
    return {"path": str(root / "ckpt.pt"), "plan": Plan()}


def judge(fields: dict[str, Any]) -> dict[str, tuple[Status, str]]:
    result = read(ScanRequest(**fields), no_stage, lambda note: None)
    if isinstance(result, Unknown):
        return {"scan": (Status.UNKNOWN, result.reason)}
    verdicts = {code: check.judge(checkpoint=result) for code, check in JUDGED.items()}
    return {code: (verdict.status, verdict.summary) for code, verdict in verdicts.items()}


def right(case: Case, verdicts: dict[str, tuple[Status, str]]) -> str:
    """ "right", "missed", "wrong" (another cause), "unknown"."""
    loud = {c for c, (status, _) in verdicts.items() if status in (Status.FAIL, Status.WARN)}
    unknown = any(status is Status.UNKNOWN for status, _ in verdicts.values())
    if case.label == "healthy":
        return "false alarm" if loud else "unknown" if unknown else "right"
    if case.label == "open":
        return "right" if unknown and not loud else "wrong"
    status, summary = verdicts.get(case.label, (Status.SKIP, ""))
    if status in (Status.FAIL, Status.WARN):
        return "right" if case.word in summary else "wrong"
    return "unknown" if unknown else "missed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    cases = [*healthy_merges(), *planted_merges(), *equalities(), *runs()]
    cases = [case for case in cases if options.only in case.name]
    tallies: dict[str, Tally] = {}
    began = time.perf_counter()
    for number, case in enumerate(cases):
        kept = options.keep / f"{number:03}" if options.keep else None
        root = kept or Path(tempfile.mkdtemp(prefix="merge-corpus-"))
        root.mkdir(parents=True, exist_ok=True)
        kind = case.label if case.label in ("healthy", "open") else "planted"
        tally = tallies.setdefault(kind, Tally())
        try:
            verdicts = judge(case.build(root))
        except ImportError as error:
            tally.counts[f"left out: {error}"] += 1
            continue
        finally:
            if kept is None:
                shutil.rmtree(root)
        result = right(case, verdicts)
        tally.counts[result] += 1
        if result != "right":
            said = "; ".join(
                f"{code} {status}: {text}"
                for code, (status, text) in verdicts.items()
                if status not in (Status.PASS, Status.SKIP)
            )
            tally.wrong.append(f"{result}: {case.name} [{case.label}] {said[:400]}")
            print(tally.wrong[-1], flush=True)
    for place in TRAINED.values():
        shutil.rmtree(place)
    for kind, tally in tallies.items():
        print(f"{kind}: {sum(tally.counts.values())} cases, {dict(tally.counts)}")
        print(*(f"  {line}" for line in tally.wrong), sep="\n")
    print(f"{time.perf_counter() - began:.0f} s")
    sys.exit(any(tally.wrong for tally in tallies.values()))


if __name__ == "__main__":
    main()
