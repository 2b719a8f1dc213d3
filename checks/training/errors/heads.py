"""Sizes that do not fit in attention of several heads."""

from __future__ import annotations

from doctor.checks.training.errors.explanation import Explanation, module
from doctor.checks.training.errors.sizes import sizes_of, text
from doctor.facts.observations import Layout
from doctor.facts.raised import Raised


def mask_for_each_head(raised: Raised) -> Explanation | None:
    """A mask for each sample, where one for each sample and head is needed."""
    layout, heads = raised.first(Layout), raised.operand("num_heads")
    mask = layout.inputs.get("attn_mask", ()) if layout else ()
    query = layout.inputs.get("query", ()) if layout else ()
    if len(mask) != 3 or mask[0] not in query[:2] or not heads or heads.numbers in ((), (1,)):
        return None
    number = heads.numbers[0]
    return Explanation(
        f"attn_mask is {text(mask)}, one for each of {mask[0]} samples; required is one for each "
        f"sample and head, {text((mask[0] * number, *mask[1:]))}",
        f"Repeat the mask of each sample for its {number} heads: "
        f"mask.repeat_interleave({number}, dim=0), or pass one of (queries, keys) for all.",
    )


def width_of_keys(raised: Raised) -> Explanation | None:
    """Keys and values of another width than the queries, which nn.MultiheadAttention takes for
    equal unless it is told."""
    operands = {name: raised.operand(name) for name in ("query", "key", "value", "in_proj_weight")}
    sizes = {name: sizes_of(each) for name, each in operands.items() if each and each.shape}
    if raised.function != "multi_head_attention_forward" or len(sizes) < len(operands):
        return None
    width, keys, values = (sizes[name][-1] for name in ("in_proj_weight", "key", "value"))
    if sizes["query"][-1] != width or width in (keys, values):
        return None
    return Explanation(
        f"the queries are {width} wide, the keys {keys} and the values {values}",
        f"If the last dimension of the keys, {keys}, has their features, pass kdim={keys}, "
        f"vdim={values} where {module(raised)} is created, which takes the width of the queries "
        "otherwise. If it has their places, as behind a convolution and flatten(2), exchange the "
        "dimensions before the call instead, key.transpose(1, 2).",
    )


def grouped_heads(raised: Raised) -> Explanation | None:
    """Attention of fewer heads of keys than of queries."""
    operands = [sizes_of(each) for each in raised.operands[:3]]
    if raised.function != "scaled_dot_product_attention" or {len(each) for each in operands} != {4}:
        return None
    (queries, keys), (_, values) = (operands[0][1], operands[1][1]), operands[2][:2]
    if queries == keys or keys != values:
        return None
    cause = f"{queries} heads of queries and {keys} of keys and values"
    if queries % keys:
        fitting = [str(n) for n in range(1, queries + 1) if not queries % n]
        return Explanation(
            f"{cause}, which does not divide them",
            "Choose a number of heads of keys and values that divides that of queries "
            f"(num_key_value_heads of config.json): {', '.join(fitting)}.",
        )
    return Explanation(
        cause,
        f"Pass enable_gqa=True, or repeat each head of keys and values {queries // keys} times: "
        f"key.repeat_interleave({queries // keys}, dim=1).",
    )
