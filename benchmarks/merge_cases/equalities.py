"""Two checkpoints that should be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch  # noqa: TID253
from safetensors.torch import save_file  # noqa: TID253

from merge_cases import BRAIN, SINGLE, Case, State, model


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
        "padded": lambda s: s | {EMBED: torch.cat([s[EMBED], torch.zeros(28, 64).bfloat16()])},
        "of a wrapper": lambda s: {f"module.{n}": v for n, v in s.items()},
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
        # programs of the same names have the same order, norms and head
        "rotated": (_rotated, "permuted rotary halves"),
        "norms with 1 added": (
            lambda s: {n: v.float() + (v.ndim == 1) for n, v in s.items()}, "1 was added",
        ),
        "without the head": (
            lambda s: {n: v for n, v in s.items() if "lm_head" not in n}, "lm_head",
        ),
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
    }  # fmt: skip
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
