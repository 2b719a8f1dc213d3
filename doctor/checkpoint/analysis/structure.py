"""Tensors that the model of config.json has and no file holds, and tensors that it has not.

For families only whose modules are the same in every layer, and whose biases are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from doctor.checkpoint.analysis.sizes import LLAMA_LIKE, STACK, embeddings
from doctor.checkpoint.analysis.wrappers import ANCHORS
from doctor.checkpoint.tensors import Tensor

ALIKE = LLAMA_LIKE | {
    *("bert", "roberta", "xlm-roberta", "electra", "distilbert", "gpt2", "gpt_neox", "bloom"),
    *("opt", "vit", "deit", "phi3", "falcon"),
}
"""model_types with the same modules in every layer, but for layers of experts."""

BIASED = frozenset(
    ("bert", "roberta", "xlm-roberta", "electra", "distilbert", "gpt2", "gpt_neox", "bloom", "opt")
)
"""model_types in which every matrix of a layer has a bias."""

QKV_BIASED = frozenset(("qwen2", "qwen2_moe"))
"""model_types in which queries, keys and values have biases, whatever config.json says."""

BIASES_BY_CONFIG = frozenset(("llama", "qwen3", "qwen3_moe", "granite", "olmo", "olmo2"))
"""model_types that have these biases where attention_bias is set."""

UNBIASED = frozenset(("mistral", "mixtral", "ministral", "gemma", "gemma2"))
"""model_types without biases of queries, keys and values."""

QK_NORMS = frozenset(("qwen3", "qwen3_moe"))

FINAL_NORM = re.compile(
    r"(?:.*\.)?(?:norm|final_layernorm|final_layer_norm|ln_f|final_norm|layernorm)\.weight"
)
HAVE_FINAL_NORM = (LLAMA_LIKE | {"gpt2", "gpt_neox", "bloom", "vit", "deit", "phi3"}) - {"olmo"}

FEWEST_LAYERS = 3
"""Of two layers neither shows which of them lacks something."""

Layers = dict[int, dict[str, Tensor]]
"""Number -> name inside of the layer -> tensor."""


SHARED = frozenset(("t5", "mt5", "umt5", "longt5"))
"""model_types whose encoder and decoder share an embedding, of which a file needs one name."""


def missing(config: Mapping[str, object], tensors: Sequence[Tensor]) -> list[str]:
    """Names that the model has, as from_pretrained would call them."""
    kind = str(config.get("model_type"))
    if kind in SHARED and not embeddings(tensors):
        return ["shared.weight"]
    if kind not in ALIKE or "auto_map" in config or "block_configs" in config:
        return []
    anchor = ANCHORS.get(kind, "")
    if anchor and not any(each.name.endswith(anchor.partition(".")[2]) for each in tensors):
        return [anchor]
    lead, layers = _longest_stack(tensors)
    names = [f"{lead}.{number}.{name}" for number, name in _of_layers(str(kind), config, layers)]
    if kind in HAVE_FINAL_NORM and not any(_is_final_norm(each.name) for each in tensors):
        names.append("the norm behind the last layer")
    return names


def _of_layers(
    kind: str, config: Mapping[str, object], layers: Layers
) -> Iterator[tuple[int, str]]:
    for number, held in layers.items():
        for name in _fewer_than_others(held, layers):
            yield number, name
        for name in _needed(kind, config, held):
            if name not in held:
                yield number, name


def _longest_stack(tensors: Sequence[Tensor]) -> tuple[str, Layers]:
    stacks: dict[str, Layers] = {}
    for tensor in tensors:
        if match := STACK.match(tensor.name):
            layer = stacks.setdefault(match[1], {}).setdefault(int(match[2][:9]), {})
            layer[tensor.name[match.end() :]] = tensor
    return max(stacks.items(), key=lambda item: len(item[1]), default=("", {}))


def _is_final_norm(name: str) -> bool:
    return bool(FINAL_NORM.fullmatch(name)) and not STACK.match(name)


def _fewer_than_others(held: Collection[str], layers: Layers) -> list[str]:
    """Matrices that this layer lacks, and has nothing else for; [] where most layers do."""
    whole = Counter(frozenset(each) for each in layers.values()).most_common(1)[0]
    if len(layers) < FEWEST_LAYERS or 2 * whole[1] <= len(layers) or not whole[0].issuperset(held):
        return []
    matrices = {
        name
        for layer in layers.values()
        for name, tensor in layer.items()
        if len(tensor.shape) > 1 or name.endswith(".bias")
    }
    return sorted((whole[0] - set(held)) & matrices)


def _needed(kind: str, config: Mapping[str, object], held: Mapping[str, Tensor]) -> Iterator[str]:
    """Vectors that belong to the matrices of a layer."""
    projections = [name for name in ("q_proj", "k_proj", "v_proj") if _of(held, name)]
    if kind in QKV_BIASED or (kind in BIASES_BY_CONFIG and config.get("attention_bias") is True):
        yield from (f"self_attn.{name}.bias" for name in projections)
    if kind in QK_NORMS and projections:
        yield from ("self_attn.q_norm.weight", "self_attn.k_norm.weight")
    if kind in LLAMA_LIKE and kind in ("llama", "mistral", "qwen2", "qwen3", "gemma"):
        yield from ("input_layernorm.weight", "post_attention_layernorm.weight")
    if kind in BIASED:
        for name, tensor in held.items():
            if name.endswith(".weight") and len(tensor.shape) == 2:
                yield f"{name.removesuffix('weight')}bias"


def _of(held: Collection[str], projection: str) -> bool:
    return any(f"self_attn.{projection}.{end}" in held for end in ("weight", "qweight"))


def ignored(config: Mapping[str, object], tensors: Sequence[Tensor]) -> list[str]:
    """Biases of queries, keys and values in a family without them: loading leaves them out."""
    kind = config.get("model_type")
    without = kind in UNBIASED or (kind == "llama" and not config.get("attention_bias"))
    if not without or "auto_map" in config:
        return []
    ends = tuple(f".self_attn.{name}.bias" for name in ("q_proj", "k_proj", "v_proj"))
    return [tensor.name for tensor in tensors if tensor.name.endswith(ends)]
