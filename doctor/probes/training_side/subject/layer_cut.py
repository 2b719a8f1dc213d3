"""A configuration of transformers with fewer layers: at least one of each kind is kept.

A layer is of several kinds at once: its entry in each list with one entry per layer, whether it has
an entry of its own in a dict by layer, and on which side of a count of layers it is (dense before
sparse, layers that share keys and values at the end). Lists of layer numbers and dicts by layer are
renumbered.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Set, Tuple

COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
          "decoder_layers", "num_encoder_layers", "num_decoder_layers")  # fmt: skip
"""What configurations call the number of layers."""
FIRST_OF_A_KIND = ("first_k_dense_replace", "num_dense_layers")
LAST_OF_A_KIND = ("num_kv_shared_layers",)
"""Counts of layers at the start and at the end that are of another kind."""
NUMBERS = re.compile(r"(layers|idxs|ids|indices|indexes)$")
"""Names of lists of layer numbers."""
MOST_KINDS = 16
"""Our own number: a list with more different entries gives each layer a value, not a kind."""


class Cut(NamedTuple):
    """What was kept of the largest part."""

    data: Dict[str, Any]
    layers: Optional[int]
    """After and before; None if the configuration has no number of layers."""
    all_layers: Optional[int]


def cut(data: Dict[str, Any], layers: int, *, in_order: bool) -> Cut:
    """The dict of a configuration with at most `layers` layers in each part, or one of each kind.

    `in_order`: the first ones only, as weights of a file need it.
    """
    sizes: List[Tuple[int, int]] = []
    result = _part(data, layers, in_order, sizes)
    if not sizes:
        return Cut(result, None, None)
    after, before = max(sizes, key=lambda size: (size[1], size[0]))
    return Cut(result, after, before)


def _part(
    data: Dict[str, Any], layers: int, in_order: bool, sizes: List[Tuple[int, int]]
) -> Dict[str, Any]:
    """This part of a configuration and its nested parts; adds (after, before) to `sizes`."""
    counts = {name: data[name] for name in COUNTS if _is_count(data.get(name))}
    stages = data.get("depths")  # of a hierarchical model, each with its own number of layers
    if isinstance(stages, (list, tuple)):
        counts = {name: value for name, value in counts.items() if value != len(stages)}
    kept = {count: keep(data, count, layers, in_order) for count in set(counts.values())}
    sizes.extend((len(kept[count]), count) for count in counts.values())
    only = next(iter(kept)) if len(kept) == 1 else None
    result: Dict[Any, Any] = {}
    for key, value in data.items():
        name = str(key)  # a number in a dict by label
        if key in counts:
            result[key] = len(kept[value])
        elif _is_by_layer(name, value) and len(value) in kept:
            result[key] = _selected(value, kept[len(value)])
        elif only is None:
            result[key] = _nested(value, layers, in_order, sizes)
        else:
            result[key] = _of_layers(name, value, only, kept[only])
            if result[key] is value:
                result[key] = _nested(value, layers, in_order, sizes)
    for name in ("attn_layer", "expert_layer"):
        _shorten_period(result, name, max((len(each) for each in kept.values()), default=0))
    return result


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_by_layer(name: str, value: Any) -> bool:
    """Whether it may have one entry per layer: a list, or a pattern such as "M-M*"."""
    return isinstance(value, (list, tuple)) or (
        isinstance(value, str) and name.endswith("pattern") and bool(value)
    )


def _nested(value: Any, layers: int, in_order: bool, sizes: List[Tuple[int, int]]) -> Any:
    return _part(value, layers, in_order, sizes) if isinstance(value, dict) else value


def keep(data: Dict[str, Any], count: int, layers: int, in_order: bool) -> List[int]:
    """The layers that are kept: the first of each kind, and the lowest others up to `layers`."""
    firsts = set(_first_of_each(data, count).values())
    firsts = {at for at in firsts if at < count}
    wanted = min(count, max(layers, _cycle(data, count)))
    if in_order:
        return list(range(min(count, max(wanted, max(firsts, default=0) + 1))))
    others = (at for at in range(count) if at not in firsts)
    while len(firsts) < wanted:
        firsts.add(next(others))
    return sorted(firsts)


def _first_of_each(data: Dict[str, Any], count: int) -> Dict[Hashable, int]:
    """Kind -> the first layer of it."""
    first: Dict[Hashable, int] = {}
    for name, value in data.items():
        kinds = _kinds(str(name), value, count)
        if kinds is None or len(set(map(kinds, range(count)))) > MOST_KINDS:
            continue
        for layer in range(count):
            first.setdefault((name, kinds(layer)), layer)
    return first


def _kinds(name: str, value: Any, count: int) -> Optional[Callable[[int], Hashable]]:
    """The kind of each layer in this field, None if the field does not distinguish layers."""
    if name in FIRST_OF_A_KIND and _is_count(value):
        return lambda layer: layer < value
    if name in LAST_OF_A_KIND and _is_count(value):
        return lambda layer: layer >= count - value
    if (numbers := _numbers(name, value, count)) is not None:
        chosen = set(numbers)
        return lambda layer: layer in chosen
    if _is_by_layer(name, value) and len(value) == count and not _are_sizes(value):
        return lambda layer: repr(value[layer])
    if (keys := _layer_keys(name, value, count)) is not None:
        return lambda layer: layer in keys
    return None


def _are_sizes(value: Any) -> bool:
    """Widths and depths of stages, not a flag per layer."""
    return any(isinstance(each, int) and each not in (0, 1) for each in value)


def _numbers(name: str, value: Any, count: int) -> Optional[List[int]]:
    """A list of layer numbers; None if it is none."""
    if not (isinstance(value, (list, tuple)) and value and NUMBERS.search(name)):
        return None
    if name.startswith(("out_", "look_")):  # stages, and distances
        return None
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in value)
    if not whole or list(value) != sorted(set(value)) or not 0 <= value[0] <= value[-1] < count:
        return None
    return list(value)


def _layer_keys(name: str, value: Any, count: int) -> Optional[Set[int]]:
    """The layers of a dict by layer, whose keys may be texts: "05"."""
    if not (isinstance(value, dict) and value and "layer" in name):
        return None
    if not all(str(key).isdigit() for key in value):
        return None
    keys = {int(key) for key in value}
    return keys if max(keys) < count else None


def _of_layers(name: str, value: Any, count: int, kept: List[int]) -> Any:
    """A field that names or counts layers, of those that are kept; others unchanged."""
    number = {old: new for new, old in enumerate(kept)}
    if name in FIRST_OF_A_KIND and _is_count(value):
        return sum(layer < value for layer in kept)
    if name in LAST_OF_A_KIND and _is_count(value):
        return sum(layer >= count - value for layer in kept)
    if (numbers := _numbers(name, value, count)) is not None:
        return [number[each] for each in numbers if each in number]
    if _layer_keys(name, value, count) is not None:
        return {_key(key, number[int(key)]): each for key, each in value.items()
                if int(key) in number}  # fmt: skip
    return value


def _key(old: Any, layer: int) -> Any:
    """A key of the same form for another layer."""
    return str(layer).zfill(len(old)) if isinstance(old, str) else layer


def _selected(value: Any, kept: List[int]) -> Any:
    if isinstance(value, str):
        return "".join(value[layer] for layer in kept)
    if list(value) == list(range(len(value))):  # each layer names itself
        return list(range(len(kept)))
    return [value[layer] for layer in kept]


def _cycle(data: Dict[str, Any], count: int) -> int:
    """The length of a list of kinds that repeats over the layers, as in RecurrentGemma."""
    lengths = [
        len(value)
        for name, value in data.items()
        if isinstance(value, (list, tuple)) and 1 < len(value) < count
        if str(name).endswith(("block_types", "layer_pattern"))
        if all(isinstance(each, str) for each in value)
    ]
    return max(lengths, default=0)


def _shorten_period(part: Dict[str, Any], name: str, layers: int) -> None:
    """One layer in `period` is of another kind: with fewer layers than that, in as many."""
    period, offset = part.get(name + "_period"), part.get(name + "_offset")
    if not (isinstance(period, int) and isinstance(offset, int) and 1 < layers < offset + 1):
        return
    part[name + "_period"] = min(period, layers)
    part[name + "_offset"] = layers - 1
