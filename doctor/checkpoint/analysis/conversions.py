"""What converters do to names and values: a table of declared transformations.

Each of them keeps the values; whatever is found to have been applied is reported by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from doctor.checkpoint.analysis.attribution import plain

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

_GGUF_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")

_GGUF_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "position_embd": "wpe",
}

_GGUF_INNER = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}  # fmt: skip
"""llama.cpp's names of a Llama-like model -> transformers'."""

_SANDWICH = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GLM4 = {
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
    "ffn_up": "mlp.gate_up_proj",
}
_PHI3 = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_DIALECTS = tuple(_GGUF_INNER | each for each in ({}, _SANDWICH, _GLM4, _PHI3, _GPT2))
"""One name means another module in another family."""

_FIRST_LAYER = re.compile(r"(?:.*\.)?(?:layers|h)\.0\.(.+)\.\w+")

_META = (
    (re.compile(r"^tok_embeddings\."), "model.embed_tokens."),
    (re.compile(r"^layers\.(\d+)\.attention\.wq\."), r"model.layers.\1.self_attn.q_proj."),
    (re.compile(r"^layers\.(\d+)\.attention\.wk\."), r"model.layers.\1.self_attn.k_proj."),
    (re.compile(r"^layers\.(\d+)\.attention\.wv\."), r"model.layers.\1.self_attn.v_proj."),
    (re.compile(r"^layers\.(\d+)\.attention\.wo\."), r"model.layers.\1.self_attn.o_proj."),
    (re.compile(r"^layers\.(\d+)\.feed_forward\.w1\."), r"model.layers.\1.mlp.gate_proj."),
    (re.compile(r"^layers\.(\d+)\.feed_forward\.w3\."), r"model.layers.\1.mlp.up_proj."),
    (re.compile(r"^layers\.(\d+)\.feed_forward\.w2\."), r"model.layers.\1.mlp.down_proj."),
    (re.compile(r"^layers\.(\d+)\.attention_norm\."), r"model.layers.\1.input_layernorm."),
    (re.compile(r"^layers\.(\d+)\.ffn_norm\."), r"model.layers.\1.post_attention_layernorm."),
    (re.compile(r"^norm\.weight$"), "model.norm.weight"),
    (re.compile(r"^output\.weight$"), "lm_head.weight"),
)
"""Meta's and torchtitan's names -> transformers'."""

FUSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    ("W_pack", ("q_proj", "k_proj", "v_proj")),
    ("wqkv", ("wq", "wk", "wv")),
    ("qkv", ("q", "k", "v")),
    ("gate_up_proj", ("gate_proj", "up_proj")),
    ("w13", ("w1", "w3")),
)
"""A fused projection -> the parts that lie in it below each other."""

EXPERTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gate_up_proj", ("gate_proj", "up_proj")), ("gate_up_proj", ("w1", "w3")),
    ("gate_proj", ("gate_proj",)), ("gate_proj", ("w1",)), ("up_proj", ("up_proj",)),
    ("up_proj", ("w3",)), ("down_proj", ("down_proj",)), ("down_proj", ("w2",)),
)  # fmt: skip
"""The same for the experts of one tensor: each expert's parts below each other, then stacked."""


Dialect = Mapping[str, str]


def dialect(names: Iterable[str], others: Iterable[str]) -> Dialect:
    """The table of a GGUF file's names that gives most of those of another model."""
    modules = {match[1] for name in others if (match := _FIRST_LAYER.fullmatch(name))}
    first = [name for name in names if name.startswith("blk.0.")]
    inner = [name.removeprefix("blk.0.").rpartition(".")[0] for name in first]
    return max(_DIALECTS, key=lambda table: len({table.get(each) for each in inner} & modules))


def common_name(name: str, inner: Dialect = _GGUF_INNER) -> str:
    """The name that transformers gives to it, where a converter's is known; else the name."""
    name = plain(name).replace(".block_sparse_moe.", ".mlp.")
    if block := _GGUF_BLOCK.fullmatch(name):
        module, _, leaf = block[2].rpartition(".")
        there = inner.get(module, "")
        leaf = "" if module.endswith("_exps") else f".{leaf}"  # a parameter, not a module
        lead = "h" if inner.get("ffn_up") == "mlp.c_fc" else "model.layers"
        return f"{lead}.{block[1]}.{there}{leaf}" if there else name
    module, _, leaf = name.rpartition(".")
    if inner.get("ffn_up") == "mlp.c_fc" and module in ("token_embd", "output_norm"):
        return f"{'wte' if module == 'token_embd' else 'ln_f'}.{leaf}"
    if module in _GGUF_OUTER and module != "output":
        return f"{_GGUF_OUTER[module]}.{leaf}"
    for pattern, there in _META:
        if pattern.search(name):
            return pattern.sub(there, name)
    return name


def parts_of(name: str) -> list[tuple[str, ...]]:
    """Names of the parts that a tensor of this name may be fused from."""
    found = []
    for fused, parts in FUSED:
        for middle in (f".{fused}.", f".{fused}"):
            if middle in name and (middle.endswith(".") or name.endswith(middle)):
                found.append(tuple(name.replace(middle, middle.replace(fused, p)) for p in parts))
    return found


def expert_parts(name: str, experts: int) -> list[list[str]]:
    """Names of the parts of all experts, expert after expert, that one tensor may hold."""
    owner, _, last = name.rpartition(".")
    return [
        [f"{owner}.{number}.{part}.weight" for number in range(experts) for part in parts]
        for fused, parts in EXPERTS
        if last == fused
    ]


def rotary_rows(one: Array, other: Array) -> int:
    """Rows of each head, where `other` is `one` with the halves of its heads interleaved.

    llama.cpp and Meta keep the two halves of a rotary head so. 0: the rows are in no such order.
    """
    if one.ndim != 2 or one.shape != other.shape or len(one) < 4:
        return 0
    second = (one == other[1]).all(axis=1).nonzero()[0]
    for half in second.tolist()[:8]:
        if half and len(one) % (2 * half) == 0:
            heads = one.reshape(-1, 2, half, one.shape[1])
            turned = heads.swapaxes(1, 2).reshape(one.shape)
            if (turned == other).all():
                return int(2 * half)
    return 0


def same_rows(one: Array, other: Array) -> bool:
    """Whether two matrices hold the same rows, in any order."""
    if one.ndim != 2 or one.shape != other.shape:
        return False
    return sorted(map(bytes, one)) == sorted(map(bytes, other))


def same_convention(one: str, other: str) -> bool:
    """Whether two names of one tensor are one program's: equal but for what is put before them."""
    one, other = plain(one), plain(other)
    return one.endswith(other) or other.endswith(one)
