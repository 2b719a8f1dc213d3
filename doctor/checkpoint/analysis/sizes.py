"""The sizes that config.json gives beside those that the tensors have.

Only what every model of a family keeps is compared: a stack of numbered layers, the embedding of
tokens, and the projections of families whose names are known. Where a size can be right in several
ways, any of them is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from doctor.checkpoint.analysis.equality import compare_tensors
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import Size
from doctor.checkpoint.tensors import Tensor

STACK = re.compile(r"((?:.*?\.)?(?:layers|layer|h|blocks|block|blk))\.(\d+)\.")
"""A numbered layer, and the row that it stands in."""

EMBEDDING = re.compile(
    r"(?:.*\.)?(?:embed_tokens|wte|word_embeddings?|shared|tok_embeddings|embed_in"
    r"|embeddings|token_embedding|embedding|token_embd)\.weight"
)

OTHER_EMBEDDING = re.compile(r"vis(?:ion|ual)|image|audio|position|patch|type|per_layer|codec|mtp")

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers")
LAYERS_TOO = (
    *("encoder_layers", "decoder_layers", "num_encoder_layers", "num_blocks", "depth"),
    *("encoder_num_layers", "decoder_num_layers", "num_hidden_groups"),
)
HIDDEN = (
    *("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim"),
    *("emb_dim", "n_embed", "hidden_dim", "embed_dim", "encoder_hidden_size", "d_embed"),
)
VOCABULARY = ("vocab_size", "padded_vocab_size", "vocabulary_size", "n_vocab", "text_vocab_size")

PREDICTED = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
"""Layers for predicting further tokens, which are kept behind the others."""

LLAMA_LIKE = frozenset(
    {"llama", "mistral", "qwen2", "qwen3", "granite", "olmo", "olmo2", "smollm3", "gemma", "gemma2"}
    | {"starcoder2", "mixtral", "stablelm", "cohere", "ministral", "helium", "seed_oss"}
)
"""model_types whose projections are q_proj, k_proj and v_proj, and gate_proj but for a few."""

HEADS = re.compile(
    r"(?:.*\.)?(?:(?:lm_head|embed_out|output_layer|generator_lm_head)(?:\.\w+){1,3}"
    r"|(?:output|proj_out|decoder|head|predictions\.decoder)\.\w+)"
)
"""The tensors of a head; one of several modules only where no other module has its name."""

MOST_TENSORS = 200_000


def compare_sizes(
    config: Mapping[str, Any], tensors: Sequence[Tensor], embedded: list[Tensor]
) -> tuple[Size, ...]:
    """Every size that both have; `embedded` are the tensors that are `embeddings`."""
    parts = _parts(config)
    vectors = [tensor for tensor in tensors if len(tensor.shape) == 1]
    layers = _layers(parts, vectors)  # norms: a few of each layer
    if any(size.stored not in size.configured for size in layers) or not layers:
        layers = _layers(parts, tensors)
    sizes = [*layers, *_embedding(parts, embedded)]
    if config.get("model_type") in LLAMA_LIKE:
        sizes += _projections(config, tensors)
    return tuple(sizes)


WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "base_model.model.")


def wrapper_of(tensors: Sequence[Tensor]) -> str:
    """What a wrapper put before the name of every tensor, "" if none did."""
    first = tensors[0].name if tensors else ""
    begin = next((each for each in WRAPPERS if first.startswith(each)), "")
    return begin if begin and all(each.name.startswith(begin) for each in tensors) else ""


def lacks_head(
    config: Mapping[str, Any], tensors: Iterable[Tensor], embedded: list[Tensor]
) -> bool:
    """Whether a causal model says that it has a head of its own, and no tensor is one."""
    names = config.get("architectures")
    causal = isinstance(names, list) and any(
        isinstance(name, str) and name.endswith(("ForCausalLM", "LMHeadModel")) for name in names
    )
    if not causal or config.get("tie_word_embeddings") is not False:
        return False
    return bool(embedded) and not any(HEADS.fullmatch(each.name) for each in tensors)


TIED = frozenset({"gpt2", "gemma", "gemma2", "gemma3", "gemma3_text"})
"""model_types that tie the head where config.json says nothing of it."""

TIED_HEAD = re.compile(r"(?:.*\.)?(?:lm_head|embed_out|output_layer)\.weight")

ROWS = 256
"""Of a head that are compared with the embedding's."""


def separate_head(
    config: Mapping[str, Any],
    tensors: Iterable[Tensor],
    embedded: list[Tensor],
    directory: Directory,
) -> str:
    """A head with other values than the embedding that config.json ties it to; "" for none."""
    ties = [part["tie_word_embeddings"] for part in _parts(config) if "tie_word_embeddings" in part]
    if not (all(ties) if ties else config.get("model_type") in TIED):
        return ""
    heads = [each for each in tensors if "w" in each.name and TIED_HEAD.fullmatch(each.name)]
    with OpenFiles(directory) as files:
        for head in heads:
            others = [each for each in embedded if each.shape[1:] == head.shape[1:]]
            if others and all(_differs(files, head, each) for each in others):
                return head.name[:500]
    return ""


def _differs(files: OpenFiles, head: Tensor, embedding: Tensor) -> bool:
    """Whether the first rows differ by more than a cast; False where they cannot be read."""
    rows = min(head.shape[0], embedding.shape[0], ROWS)
    try:
        return compare_tensors(files, head, files, embedding, rows).outcome == "differs"
    except CheckpointError:
        return False


def _parts(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The configuration, and those of the parts of a model that has several."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]


def _numbers(parts: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> list[int]:
    values = [part.get(key) for part in parts for key in keys]
    return list(dict.fromkeys(value for value in values if type(value) is int and value > 0))


def _layers(parts: list[Mapping[str, Any]], tensors: Sequence[Tensor]) -> list[Size]:
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


def _embedding(parts: list[Mapping[str, Any]], found: list[Tensor]) -> list[Size]:
    if not found:
        return []
    largest = max(found, key=lambda tensor: tensor.shape[0])
    name, (rows, columns) = largest.name[:500], largest.shape
    sizes = []
    if words := _numbers(parts, VOCABULARY):
        sizes.append(Size(quantity="vocabulary", configured=tuple(words), stored=rows, tensor=name))
    if hidden := _numbers(parts, HIDDEN):
        sizes.append(
            Size(quantity="hidden size", configured=tuple(hidden), stored=columns, tensor=name)
        )
    return sizes


def _projections(config: Mapping[str, Any], tensors: Sequence[Tensor]) -> list[Size]:
    """The first layer's, in families of which the names of the projections are known."""
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    if type(hidden) is not int or type(heads) is not int or heads < 1:
        return []
    width = config.get("head_dim")
    width = width if type(width) is int else hidden // heads
    shared = config.get("num_key_value_heads")
    shared = shared if type(shared) is int else heads
    expected = {
        "q_proj": ("queries", heads * width),
        "k_proj": ("keys", shared * width),
        "v_proj": ("values", shared * width),
        "gate_proj": ("intermediate size", config.get("intermediate_size")),
    }
    sizes: dict[str, Size] = {}
    for tensor in tensors[:MOST_TENSORS]:
        *_, last, weight = ("", "", *tensor.name.split("."))
        if weight != "weight" or last not in expected or len(tensor.shape) != 2 or last in sizes:
            continue
        quantity, configured = expected[last]
        if type(configured) is int and "expert" not in tensor.name:
            sizes[last] = Size(
                quantity=quantity,  # type: ignore[arg-type]
                configured=(configured,),
                stored=tensor.shape[0],
                tensor=tensor.name[:500],
            )
    return list(sizes.values())
