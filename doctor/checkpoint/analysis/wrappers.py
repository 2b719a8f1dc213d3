"""What wrappers put into the names of a model's tensors, so that from_pretrained finds none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from doctor.checkpoint.analysis.sizes import LLAMA_LIKE
from doctor.checkpoint.tensors import Tensor

LEADS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "base_model.model.")
"""Of all names: DistributedDataParallel, torch.compile, FSDP, peft."""

FLAT = "_flat_param"
"""The last name of what FSDP makes of all parameters of a module, divided over the ranks."""

INSIDE = re.compile(
    r"_orig_mod\.|_fsdp_wrapped_module\.|_checkpoint_wrapped_module\.|base_layer\.|^module\."
)
"""Of some: each layer was wrapped by itself, or states of two models were mixed."""

ANCHORS = {
    **dict.fromkeys(LLAMA_LIKE, "model.embed_tokens.weight"),
    "gpt2": "transformer.wte.weight",
    "bert": "bert.embeddings.word_embeddings.weight",
    "roberta": "roberta.embeddings.word_embeddings.weight",
    "distilbert": "distilbert.embeddings.word_embeddings.weight",
    "vit": "vit.embeddings.patch_embeddings.projection.weight",
}
"""model_type -> the name of a tensor in a model with a head."""


def wrapper_of(config: Mapping[str, object], tensors: Sequence[Tensor]) -> tuple[str, int]:
    """What was put into names, and into how many; ("", 0) where nothing was."""
    names = [tensor.name for tensor in tensors]
    if flat := sum(name.endswith(FLAT) for name in names):
        return FLAT, flat
    first = names[0] if names else ""
    leads = [*LEADS, _lead(ANCHORS.get(str(config.get("model_type")), ""), names)]
    for lead in leads:
        if lead and first.startswith(lead) and all(name.startswith(lead) for name in names):
            return lead, len(names)
    found = Counter(match[0] for name in names if (match := INSIDE.search(name)))
    return found.most_common(1)[0] if found else ("", 0)


def _lead(anchor: str, names: Sequence[str]) -> str:
    """What lies before the name of a tensor of the family; "" where it is called as it should."""
    ending = next((name for name in names if anchor and name.endswith(f".{anchor}")), "")
    return ending.removesuffix(anchor)
