"""The sizes that config.json gives beside those that the tensors have.

Only what every model of a family keeps is compared: a stack of numbered layers, the embedding of
tokens, and the projections of families whose names are known. Where a size can be right in several
ways, any of them is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from doctor.checkpoint.records import Size
from doctor.checkpoint.tensors import Tensor

STACK = re.compile(r"((?:.*?\.)?(?:layers|layer|h|blocks|block|blk))\.(\d+)\.")
"""A numbered layer, and the row that it stands in."""

EMBEDDING = re.compile(
    r"(?:.*\.)?(?:embed_tokens|wte|word_embeddings?|shared|tok_embeddings|embed_in"
    r"|embeddings|token_embedding|embedding|token_embd)\.weight"
)

OTHER_TOWER = re.compile(r"vis(?:ion|ual)|image|audio|text|entity|encoder|decoder|memory")

OTHER_EMBEDDING = re.compile(r"vis(?:ion|ual)|image|audio|position|patch|type|per_layer|codec|mtp")

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")
LAYERS_TOO = (
    *("encoder_layers", "decoder_layers", "num_encoder_layers", "num_blocks", "depth"),
    *("encoder_num_layers", "decoder_num_layers", "num_hidden_groups"),
)
HIDDEN = (
    *("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim"),
    *("emb_dim", "n_embed", "hidden_dim", "embed_dim", "encoder_hidden_size", "d_embed"),
    "input_embedding_size",
)
VOCABULARY = ("vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab", "text_vocab_size")

PREDICTED = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
"""Layers for predicting further tokens, which are kept behind the others."""

LLAMA_LIKE = frozenset(
    {"llama", "mistral", "qwen2", "qwen3", "granite", "olmo", "olmo2", "smollm3", "gemma", "gemma2"}
    | {"starcoder2", "mixtral", "stablelm", "cohere", "ministral", "helium", "seed_oss"}
    | {"arcee", "apertus", "cohere2", "cwm", "ernie4_5", "exaone4", "gemma3_text", "glm", "glm4"}
    | {"granitemoe", "internlm3", "ministral3", "olmo3", "olmoe", "phi", "phimoe", "qwen2_moe"}
    | {"qwen3_moe"}
)
"""model_types whose projections are q_proj, k_proj and v_proj, and gate_proj but for a few."""

MOST_TENSORS = 200_000


def compare_sizes(
    config: Mapping[str, object], tensors: Sequence[Tensor], embedded: list[Tensor]
) -> tuple[Size, ...]:
    """Every size that both have; `embedded` are the tensors that are `embeddings`."""
    parts = parts_of(config)
    vectors = [tensor for tensor in tensors if len(tensor.shape) == 1]
    layers = _layers(parts, vectors)  # norms: a few of each layer
    if any(size.stored not in size.configured for size in layers) or not layers:
        layers = _layers(parts, tensors)
    of_embedding = _embedding(parts, embedded)
    sizes = [*layers, *of_embedding]
    if config.get("model_type") in LLAMA_LIKE:
        sizes += _projections(config, tensors)
        if all(size.stored in size.configured for size in of_embedding):
            sizes += _head(config, tensors)
    return tuple(sizes)


def parts_of(config: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The configuration, and those of the parts of a model that has several."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]


def _numbers(
    parts: Iterable[Mapping[str, object]], keys: Iterable[str], least: int = 1
) -> list[int]:
    values = [part.get(key) for part in parts for key in keys]
    return list(dict.fromkeys(value for value in values if type(value) is int and value >= least))


def _layers(parts: list[Mapping[str, object]], tensors: Sequence[Tensor]) -> list[Size]:
    """The longest stack, where no stack has a number of layers that is configured."""
    configured = _numbers(parts, LAYERS)
    if not configured:
        return []
    stacks: dict[str, set[int]] = {}
    for tensor in tensors[:MOST_TENSORS]:
        match = STACK.match(tensor.name)
        if match and not any(map(str.isdecimal, match[1].split("."))):
            stacks.setdefault(match[1], set()).add(int(match[2][:9]))
    if not stacks:
        return []
    further = _numbers(parts, PREDICTED)
    allowed = [*configured, *(count + more for count in configured for more in further)]
    allowed += _numbers(parts, LAYERS_TOO)
    name, numbers = max(stacks.items(), key=lambda item: (len(item[1]) in allowed, len(item[1])))
    return [Size(quantity="layers", configured=tuple(allowed), stored=len(numbers), tensor=name)]


def embeddings(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The matrices that are called as embeddings of tokens are."""
    named = [
        tensor
        for tensor in tensors
        if "emb" in tensor.name or "wte" in tensor.name or "shared.w" in tensor.name
    ]  # much faster than the patterns
    return [
        tensor
        for tensor in named
        if len(tensor.shape) == 2
        and EMBEDDING.fullmatch(tensor.name)
        and not OTHER_EMBEDDING.search(tensor.name)
    ]


def _embedding(parts: list[Mapping[str, object]], found: list[Tensor]) -> list[Size]:
    if not found:
        return []
    largest = max(found, key=lambda tensor: tensor.shape[0])
    rows, columns = largest.shape
    return [
        *_vocabulary(parts, largest, rows),
        *named_sizes(parts, "hidden size", HIDDEN, largest, columns),
    ]


def _head(config: Mapping[str, object], tensors: Sequence[Tensor]) -> list[Size]:
    """The rows of the output head: one for each token, in the library's own causal models."""
    names = config.get("architectures")
    library = f"{str(config.get('model_type')).replace('_', '')}forcausallm"
    plain = isinstance(names, list) and all(str(name).casefold() == library for name in names)
    heads = [each for each in tensors if each.name == "lm_head.weight" and len(each.shape) == 2]
    own = config.get("tie_word_embeddings") is False and "auto_map" not in config
    others = any(key.endswith("vocab_size") and key != "vocab_size" for key in config)
    if not (own and names and plain and heads) or others or "num_codebooks" in config:
        return []
    rows = heads[0].shape[0]
    sizes = named_sizes([config], "rows of the output head", VOCABULARY, heads[0], rows)
    return [msgspec.structs.replace(size, entry="", fitting=None) for size in sizes]


EXTRA_ROWS = {"mllama_text_model": 8, "mllama": 8, "moshi": 1}
"""model_type -> rows that the embedding has beyond vocab_size."""


def _vocabulary(parts: list[Mapping[str, object]], tensor: Tensor, rows: int) -> list[Size]:
    extra = [EXTRA_ROWS.get(str(part.get("model_type")), 0) for part in parts]
    return [
        msgspec.structs.replace(
            size,
            configured=(*size.configured, *(n + m for n in size.configured for m in extra if m)),
        )
        for size in named_sizes(parts, "vocabulary", VOCABULARY, tensor, rows)
    ]


def named_sizes(
    parts: list[Mapping[str, object]],
    quantity: str,
    keys: Sequence[str],
    tensor: Tensor,
    stored: int,
) -> list[Size]:
    """A size that one of these entries gives."""
    configured = _numbers(parts, keys, least=0 if keys is VOCABULARY else 1)
    if not configured:
        return []
    entries = [key for part in parts for key in keys if key in part]
    one = len(entries) == 1
    return [
        Size(
            quantity=quantity,
            configured=tuple(configured),
            stored=stored,
            tensor=tensor.name[:500],
            entry=entries[0] if one else "",
            fitting=stored if one else None,
        )
    ]


def _projections(config: Mapping[str, object], tensors: Sequence[Tensor]) -> list[Size]:
    """The first layer's, in families of which the names of the projections are known."""
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if type(hidden) is not int or type(heads) is not int or heads < 1:
        return []
    found: dict[str, Tensor] = {}
    for tensor in tensors[:MOST_TENSORS]:
        *_, last, weight = ("", "", *tensor.name.split("."))
        plain = weight == "weight" and last in PROJECTED and "expert" not in tensor.name
        if plain and len(tensor.shape) == 2:
            found.setdefault(last, tensor)
    head_dim, shared = config.get("head_dim"), config.get("num_key_value_heads")
    width = head_dim if type(head_dim) is int and head_dim > 0 else hidden // heads
    key_heads = shared if type(shared) is int else heads
    queries = found.get("q_proj")
    wide = queries.shape[0] // heads if queries and queries.shape[0] % heads == 0 else 0
    keys = found.get("k_proj")
    by_width = wide and wide != width and keys and keys.shape[0] == key_heads * wide
    inner = config.get("intermediate_size")
    expected = {
        "q_proj": (heads * width, "num_attention_heads", width),
        "k_proj": (key_heads * width, "num_key_value_heads", width),
        "v_proj": (key_heads * width, "num_key_value_heads", width),
        "gate_proj": (inner, "intermediate_size", 1),
    }
    sizes = []
    for name, tensor in found.items():
        configured, entry, unit = expected[name]
        if type(configured) is not int:
            continue
        stored = tensor.shape[0]
        fitting = stored // unit if stored % unit == 0 else None
        if by_width and name != "gate_proj":
            entry, fitting = "head_dim", wide
        sizes.append(
            Size(
                quantity=PROJECTED[name],
                configured=(configured,),
                stored=stored,
                tensor=tensor.name[:500],
                entry=entry,
                fitting=fitting,
                absent=config.get(entry) is None,
            )
        )
    return sizes


PROJECTED: dict[str, str] = {
    "q_proj": "queries",
    "k_proj": "keys",
    "v_proj": "values",
    "gate_proj": "intermediate size",
}
