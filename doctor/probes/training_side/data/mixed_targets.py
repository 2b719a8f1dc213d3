"""Whether a collating function that mixes samples, as mixup and cutmix do, mixes their targets
alike: the shares of each sample are read from the input, and compared with those of the target."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows, seeds
from .documents import host
from .relations import relation
from .targets import Source

SAMPLES, CALLS = 16, 6
MOST_VALUES = 4096
"""Values of an input that are compared, from all over it."""
LEAST_MIXED = 16
EXACT, APART, ALONE = 1e-3, 0.1, 0.95
"""Error of an input that is a sum of others, difference of two shares, and the share of a sample
that is not mixed. Our own numbers."""


class Raw(NamedTuple):
    """Samples before they are collated."""

    inputs: torch.Tensor
    classes: torch.Tensor
    """The class of each, or its vector of targets."""


def of_source(source: Source) -> List[Dict[str, Any]]:
    collate = observing.attribute(source.items, "collate_fn")
    dataset, numbers = rows.scattered(source, SAMPLES)
    if source.kind != "loader" or not callable(collate) or len(numbers) < SAMPLES // 2:
        return []
    if type(collate).__module__.startswith("torch") or is_default(collate):
        return []
    mixed = apart = 0
    with seeds.kept():
        for _ in range(CALLS):
            samples = [dataset[number] for number in numbers]
            raw = raw_of(samples)
            found = compared(collate(samples), raw) if raw is not None else None
            if found is None:
                return []
            mixed, apart = mixed + found[0], apart + found[1]
    if mixed < LEAST_MIXED or not apart:
        return []
    return [relation("targets mixed otherwise", apart, mixed)]


def is_default(collate: Foreign) -> bool:
    return str(observing.attribute(collate, "__module__", "")).startswith("torch.")


def raw_of(samples: Sequence[Foreign]) -> Optional[Raw]:
    """The input and the class of each sample, copied; None where they are anything else."""
    inputs, classes = [], []
    for sample in samples:
        values = list(sample.values()) if containers.is_mapping(sample) else sample
        if not isinstance(values, (list, tuple)) or len(values) < 2:
            return None
        each = [torch.as_tensor(one) for one in values if is_number(one)]
        value = next((one for one in each if one.is_floating_point() and one.dim() > 1), None)
        target = next((one for one in each if one is not value and is_target(one)), None)
        if value is None or target is None:
            return None
        inputs.append(host(value).double().flatten().clone())
        classes.append(host(target).clone())
    if len({len(each) for each in inputs}) > 1 or len({each.shape for each in classes}) > 1:
        return None
    return Raw(torch.stack(inputs), torch.stack(classes))


def is_number(value: Foreign) -> bool:
    plain = isinstance(value, (int, float, torch.Tensor))
    return plain or observing.has(value, "__array_interface__")


def is_target(value: torch.Tensor) -> bool:
    """A class, or a vector of them."""
    return (not value.dim() and not value.is_floating_point()) or value.dim() == 1


def compared(batch: Foreign, raw: Raw) -> Optional[Tuple[int, int]]:
    """How many inputs are mixed, and of those the ones whose target has other shares."""
    each = [host(one) for one in containers.tensors(batch).values()]
    count = len(raw.inputs)
    size = raw.inputs[0].numel()
    made = next((e for e in each if len(e) == count and e.numel() == count * size), None) if all(
        e.dim() for e in each[:1]) else None  # fmt: skip
    if made is None or not made.is_floating_point():
        return None
    shares = shares_of(made.double().reshape(count, -1), raw.inputs)
    target = target_of(batch, each, made, raw)
    if shares is None or target is None:
        return None
    wanted = shares @ vectors(raw.classes, target.shape[1])
    mixed = shares.diagonal() < ALONE
    wrong = (unsmoothed(target) - wanted).abs().amax(1) > APART
    return int(mixed.sum()), int((mixed & wrong).sum())


def vectors(classes: torch.Tensor, count: int) -> torch.Tensor:
    if classes.dim() == 2:
        return classes.double()
    return torch.nn.functional.one_hot(classes.long(), count).double()


def target_of(
    batch: Foreign, each: List[torch.Tensor], made: torch.Tensor, raw: Raw
) -> Optional[torch.Tensor]:
    """Rows x classes: as they are, or from the classes of two samples and a share."""
    count = len(made)
    highest = 1 + int(raw.classes.max()) if raw.classes.dim() == 1 else raw.classes.shape[1]
    for one in each:
        if one is not made and one.dim() == 2 and len(one) == count and one.is_floating_point():
            return one.double() if one.shape[1] >= highest else None
    two = [e for e in each if e.dim() == 1 and len(e) == count and not e.is_floating_point()]
    share = share_in(batch)
    if len(two) != 2 or share is None or raw.classes.dim() != 1:
        return None
    one, other = (vectors(e, highest) for e in two)
    target: torch.Tensor = share * one + (1 - share) * other
    return target


def share_in(batch: Foreign) -> Foreign:
    """The number from 0 to 1 beside two classes, of the batch or of each row."""
    pending = list(batch.values()) if containers.is_mapping(batch) else list(batch)
    while pending:
        value = pending.pop(0)
        if isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, float):
            return value
        elif isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() < 2:
            return host(value).double().reshape(-1, 1)
    return None


def unsmoothed(target: torch.Tensor) -> torch.Tensor:
    """Without the smoothing of labels, which leaves no class at 0."""
    lowest = target.amin(1, keepdim=True)
    count = target.shape[1]
    return target if count < 4 else (target - lowest) / (1 - count * lowest).clamp(min=0.1)


def shares_of(made: torch.Tensor, raw: torch.Tensor) -> Optional[torch.Tensor]:
    """The share of each raw sample in each input that was made: as a sum of them, or by the places
    that they have in common; None where they are made otherwise."""
    step = -(-raw.shape[1] // MOST_VALUES)
    raw, made = raw[:, ::step], made[:, ::step]
    weights: torch.Tensor = torch.linalg.lstsq(raw.T, made.T).solution
    error = float((raw.T @ weights - made.T).abs().max())
    if error <= EXACT * float(raw.abs().max()) and int(torch.linalg.matrix_rank(raw)) == len(raw):
        return weights.T
    equal = (made[:, None] == raw[None]).double().mean(2)
    own = equal.diagonal()
    others = equal - torch.diag(own)
    best, at = others.max(1)
    if bool((own + best < 1 - APART / 2).any()):
        return None
    shares = torch.diag(own)
    shares[torch.arange(len(own)), at] += 1 - own
    return shares
