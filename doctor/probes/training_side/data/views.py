"""A batch by the roles of its parts: nested, ragged, of numpy, tuples of tokens, mask and labels.

What a loop without a library delivers becomes the mapping that a collator of one would deliver.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing

TOKENS = ("input_ids", "inputs", "tokens", "idx", "x", "text", "token_ids", "ids", "input", "src",
          "src_tokens", "source_ids", "sequence")  # fmt: skip
LABELS = ("labels", "label_ids", "targets", "target", "label", "y", "lm_labels", "target_ids",
          "label_idx", "class_idx", "class_id", "class_label")  # fmt: skip
MASKS = ("attention_mask", "attn_mask", "attention_masks", "input_mask", "src_mask", "mask")
PADDING_MASKS = ("key_padding_mask", "src_key_padding_mask", "src_padding_mask")
"""Of bool, and true where there is padding."""
IGNORED = -100
MOST_DEPTH = 4


def of(batch: Foreign) -> Foreign:
    """A mapping of the tensors of the batch; the batch itself where that says no more."""
    if isinstance(batch, torch.Tensor):
        return batch
    if containers.is_mapping(batch) or containers.is_record(batch):
        return _of_members(batch)
    if isinstance(batch, (list, tuple)) and batch:
        return _of_sequence(batch)
    made = _tensor(batch, IGNORED)
    return batch if made is None else made


def _of_members(batch: Foreign) -> Foreign:
    members = list(_members(batch))
    flat = all(isinstance(value, (torch.Tensor, str)) for _, value in members)
    if flat and containers.is_mapping(batch) and "chosen_labels" not in batch:
        return batch
    made = dict(_flat(members, MOST_DEPTH))
    if not any(isinstance(value, torch.Tensor) for value in made.values()):
        return batch
    _add_mask_of_ragged(members, made)
    if "chosen_labels" in made and "input_ids" not in made:
        for name in ("input_ids", "attention_mask", "labels"):
            if "chosen_" + name in made:
                made[name] = made["chosen_" + name]
    return made


def _of_sequence(batch: Foreign) -> Foreign:
    first, last = batch[0], batch[-1]
    if len(batch) > 1 and (containers.is_mapping(first) or containers.is_record(first)):
        made, labels = of(first), _tensor(last, IGNORED)
        if labels is None or not containers.is_mapping(made):
            return batch
        return {**made, **({} if any(n in made for n in LABELS) else {"labels": labels})}
    parts = [_tensor(each, IGNORED) for each in batch]
    if any(each is None for each in parts):
        return batch
    tensors: List[torch.Tensor] = [each for each in parts if each is not None]
    roles = _roles(tensors)
    if roles is not None:
        return roles
    known = all(isinstance(each, torch.Tensor) for each in batch)
    return batch if known else type(batch)(tensors) if type(batch) in (list, tuple) else tensors


def _roles(parts: List[torch.Tensor]) -> Optional[Dict[str, torch.Tensor]]:
    """Tokens, their mask and what else there is, by their values; None without a mask."""
    ids = parts[0]
    if len(parts) < 2 or not is_tokens(ids) or int(ids.max()) < 2:
        return None
    mask = next((n for n, p in enumerate(parts[1:], 1) if p.shape == ids.shape and _masks(p)), None)
    if mask is None:
        return None
    made = {"input_ids": ids, "attention_mask": parts[mask]}
    others = [each for n, each in enumerate(parts[1:], 1) if n != mask]
    if others and not others[-1].is_floating_point():
        made["labels"] = others.pop()
    return {**made, **{"part_%d" % n: each for n, each in enumerate(others)}}


def _masks(value: torch.Tensor) -> bool:
    """Whether it is 1 for one stretch of each row that is not empty, and 0 around it."""
    if value.is_floating_point() or not bool(((value == 0) | (value == 1)).all()):
        return False
    changes = (value[:, 1:] != value[:, :-1]).sum(1)
    edge = (value[:, 0] != 0) | (value[:, -1] != 0)
    return bool((edge & (changes < 2)).all())


def is_tokens(value: Foreign) -> bool:
    """Whether it is whole numbers of rows x positions."""
    if not isinstance(value, torch.Tensor) or value.dim() != 2 or value.is_floating_point():
        return False
    return value.dtype not in (torch.bool, torch.uint8) and value.shape[1] > 1


def mask_of(named: Dict[str, torch.Tensor], ids: torch.Tensor) -> Optional[torch.Tensor]:
    """The mask of the tokens, not 0 where they are attended to."""
    for name in (*MASKS, *PADDING_MASKS):
        mask = named.get(name)
        if mask is None or mask.shape != ids.shape or mask.is_floating_point():
            continue
        if name not in PADDING_MASKS:
            return mask
        if mask.dtype == torch.bool:
            return ~mask
    return None


def _members(value: Foreign) -> Iterator[Tuple[str, Foreign]]:
    if containers.is_mapping(value):
        yield from ((str(name), each) for name, each in value.items())
    elif containers.is_record(value):
        for name in value.__dataclass_fields__:
            yield str(name), observing.attribute(value, name)


def _flat(members: List[Tuple[str, Foreign]], depth: int) -> Iterator[Tuple[str, Foreign]]:
    """The innermost members, by their own name where no other one has it."""
    inner: List[Tuple[str, Foreign]] = []
    names = {name for name, _ in members}
    for name, value in members:
        if depth and (containers.is_mapping(value) or containers.is_record(value)):
            for own, each in _flat(list(_members(value)), depth - 1):
                inner.append((own if own not in names else "%s.%s" % (name, own), each))
                names.add(own)
        else:
            made = _tensor(value, IGNORED if name in LABELS else 0)
            inner.append((name, value if made is None else made))
    return iter(inner)


def _add_mask_of_ragged(members: List[Tuple[str, Foreign]], made: Dict[str, Foreign]) -> None:
    for name, value in members:
        if name in TOKENS and isinstance(value, (list, tuple)) and "attention_mask" not in made:
            ids = made.get(name)
            if isinstance(ids, torch.Tensor) and ids.dim() == 2:
                lengths = torch.tensor([len(each) for each in value])
                made["attention_mask"] = (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def _tensor(value: Foreign, fill: int) -> Optional[torch.Tensor]:
    """A tensor of an array, of numbers, or of rows of whole numbers, filled up to equal lengths."""
    if isinstance(value, torch.Tensor):
        return value
    if observing.has(value, "__array_interface__") and observing.has(value, "dtype"):
        return observing.attempt(lambda: torch.tensor(value), None)
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if all(isinstance(each, (int, float)) for each in value):
        return torch.tensor(value)
    rows = [_row(each) for each in value]
    if any(row is None for row in rows):
        return None
    found: List[Any] = [row for row in rows if row is not None]
    made = torch.full((len(found), max(map(len, found))), fill)
    for number, row in enumerate(found):
        made[number, : len(row)] = row
    return made


def _row(value: Foreign) -> Optional[torch.Tensor]:
    """A row of whole numbers."""
    if isinstance(value, (list, tuple)):
        whole = bool(value) and all(type(each) is int for each in value)
        return torch.tensor(value) if whole else None
    made = _tensor(value, 0) if not isinstance(value, str) else None
    if made is None or made.dim() != 1 or made.is_floating_point():
        return None
    return made.cpu()
