"""The output head of a model: whether it is there, and whether it is the embedding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from doctor.checkpoint.analysis.equality import compare_tensors
from doctor.checkpoint.analysis.sizes import parts_of
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.tensors import Tensor

HEADS = re.compile(
    r"(?:.*\.)?(?:(?:lm_head|embed_out|output_layer|generator_lm_head)(?:\.\w+){1,3}"
    r"|(?:output|proj_out|decoder|head|predictions\.decoder)\.\w+)"
)
"""The tensors of a head; one of several modules only where no other module has its name."""

TASKS = re.compile(
    r"\w+For(?:(?:Sequence|Token|Image|Video|Audio|AudioFrame)Classification\w*|QuestionAnswering"
    r"|MultipleChoice|CTC|NextSentencePrediction|XVector)"
)
"""Classes of transformers that put a module of their own on a model without one."""

HEAD_WORDS = re.compile(
    r"classif|score|(?:^|\.)(?![qkvr]_)\w*heads?\.|logits|predict|qa_out"
    r"|(?:final|output)_layer(?!_?norm)|(?:^|\.)cls\."
)
"""Parts of names that heads have, also where they lie inside of the model."""


def lacks_head(
    config: Mapping[str, object], tensors: Iterable[Tensor], embedded: list[Tensor]
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
    config: Mapping[str, object],
    tensors: Iterable[Tensor],
    embedded: list[Tensor],
    directory: Directory,
) -> str:
    """A head with other values than the embedding that config.json ties it to; "" for none."""
    ties = [
        part["tie_word_embeddings"] for part in parts_of(config) if "tie_word_embeddings" in part
    ]
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


def task_without_head(config: Mapping[str, object], tensors: Sequence[Tensor]) -> str:
    """The class that config.json names, where its head is in no tensor; "" where it is, or none is.

    All names then begin with the model's own: bert., or there is no outer name at all.
    """
    names = config.get("architectures")
    task = next((n for n in names if isinstance(n, str)), "") if isinstance(names, list) else ""
    if "auto_map" in config or not TASKS.fullmatch(task):  # code of one's own has names of its own
        return ""
    if any(HEAD_WORDS.search(each.name) for each in tensors):
        return ""
    outer = {each.name.partition(".")[0] for each in tensors}
    bare = outer & BARE
    return task[:100] if (len(outer) == 1 and not bare) or (outer == bare and len(bare) > 1) else ""


BARE = {"embeddings", "encoder", "pooler", "layernorm", "norm", "embed_tokens", "layers"}
"""Outer names of a model that was saved without its head and without its own name."""
