"""What wrappers put into the names of a model's tensors, so that from_pretrained finds none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from doctor.checkpoint.analysis.sizes import LLAMA_LIKE
from doctor.checkpoint.tensors import Tensor

COMPILED = "_orig_mod."
LEADS = ("module.", COMPILED, "_fsdp_wrapped_module.", "base_model.model.")
"""Of all names: DistributedDataParallel, torch.compile, FSDP, peft."""

FLAT = "_flat_param"
"""The last name of what FSDP makes of all parameters of a module, divided over the ranks."""

INSIDE = re.compile(
    r"_orig_mod\.|_fsdp_wrapped_module\.|_checkpoint_wrapped_module\.|base_layer\.|^module\."
)
"""Of some: each layer was wrapped by itself, or states of two models were mixed."""

NUMBER = re.compile(r"(\d{1,6})")

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


def partly_wrapped(tensors: Sequence[Tensor]) -> tuple[str, int, str]:
    """A lead of all names, or of some whose layers go on with the numbers of those without it, into
    how many names it was put, and one of them: a module of one's own may be called like a wrapper,
    and then counts its layers by itself. Without a dot, what no module is called, anywhere."""
    names = [tensor.name for tensor in tensors]
    for lead in LEADS[:3]:
        if names and all(name.startswith(lead) for name in names):
            return lead, len(names), names[0]
    for lead in LEADS[:3]:
        inside = [name.removeprefix(lead) for name in names if name.startswith(lead)]
        plain = [name for name in names if not name.startswith(lead)]
        if not inside or not plain or not {*inside}.isdisjoint(plain):
            continue
        with_lead, without = _numbers(inside), _numbers(plain)
        if any(_goes_on(with_lead[form], without[form]) for form in with_lead.keys() & without):
            return lead, len(inside), lead + inside[0]
    for part in (FLAT, COMPILED):
        if within := [name for name in names if part in name]:
            return part.rstrip("."), len(within), within[0]
    return "", 0, ""


def whole_of_peft(tensors: Sequence[Tensor]) -> int:
    """The tensors, if all are named as inside of peft's wrapper, and some are no adapter's."""
    lead = LEADS[3]
    names = [tensor.name for tensor in tensors]
    inside = all(name.startswith(lead) for name in names)
    return len(names) if inside and any("lora_" not in name for name in names) else 0


CAUSAL = re.compile(
    r"(?:model\.(?:layers\.\d+|embed_tokens|norm)|transformer\.(?:h\.\d+|wte|wpe|ln_f)|lm_head)\..+"
)


def is_causal(tensors: Sequence[Tensor]) -> bool:
    """Whether the names are those of a library's causal model, and no others."""
    names = [tensor.name for tensor in tensors]
    embeds = {ANCHORS["llama"], ANCHORS["gpt2"]}.intersection(names)
    return bool(embeds) and all(CAUSAL.fullmatch(name) for name in names)


def _numbers(names: Sequence[str]) -> dict[str, set[int]]:
    """The form of each name with one number, and its numbers."""
    found: dict[str, set[int]] = {}
    for name in names:
        parts = NUMBER.split(name)
        if len(parts) == 3:
            found.setdefault(f"{parts[0]}#{parts[2]}", set()).add(int(parts[1]))
    return found


def _goes_on(one: set[int], other: set[int]) -> bool:
    """Whether both are two consecutive numbers or more, and the second begins behind the first."""
    if min(len(one), len(other)) < 2:
        return False
    first, second = sorted((one, other), key=min)
    together = first | second
    return max(first) < min(second) and max(together) - min(together) + 1 == len(together)


def _lead(anchor: str, names: Sequence[str]) -> str:
    """What lies before the name of a tensor of the family; "" where it is called as it should."""
    ending = next((name for name in names if anchor and name.endswith(f".{anchor}")), "")
    return ending.removesuffix(anchor)
