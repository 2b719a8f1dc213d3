"""Configurations with fewer layers: which are kept, and what is renumbered."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.probes.training_side.subject.layer_cut import cut

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def part(layers: int = 2, *, in_order: bool = False, **fields: Any) -> dict[str, Any]:
    return cut({"num_hidden_layers": 12, **fields}, layers, in_order=in_order).data


def test_a_layer_of_each_kind_is_kept() -> None:
    kinds = [LINEAR, LINEAR, LINEAR, FULL] * 3
    assert part(layer_types=kinds) == {"num_hidden_layers": 2, "layer_types": [LINEAR, FULL]}
    assert part(4, layer_types=kinds)["layer_types"] == [LINEAR, LINEAR, LINEAR, FULL]
    several = part(layer_types=kinds, mlp_layer_types=["dense"] * 6 + ["sparse"] * 6)
    assert several["num_hidden_layers"] == 3
    assert several["mlp_layer_types"] == ["dense", "dense", "sparse"]


def test_with_weights_the_first_layers_are_kept_in_order() -> None:
    kinds = [LINEAR, LINEAR, LINEAR, FULL] * 3
    assert part(in_order=True, layer_types=kinds)["layer_types"] == kinds[:4]


def test_dicts_and_lists_of_layer_numbers_are_renumbered() -> None:
    kinds = ([SLIDING] * 5 + [FULL]) * 2
    cut_down = part(layer_types=kinds, per_layer_config={"05": {"head_dim": 8}, "11": {}})
    assert cut_down["per_layer_config"] == {"01": {"head_dim": 8}}
    assert part(global_attn_indexes=[2, 5, 8])["global_attn_indexes"] == [1]
    assert part(moe_layers=list(range(12)))["moe_layers"] == [0, 1]


def test_layers_that_share_keys_are_kept_beside_those_they_share() -> None:
    kinds = ([SLIDING] * 2 + [FULL]) * 4
    shared = part(layer_types=kinds, num_kv_shared_layers=6)
    assert shared["num_kv_shared_layers"] == 1
    assert shared["layer_types"] == [SLIDING, FULL, SLIDING]
    assert part(first_k_dense_replace=3)["first_k_dense_replace"] == 1


def test_a_repeated_pattern_is_kept_whole() -> None:
    assert part(block_types=["recurrent", "recurrent", "attention"])["num_hidden_layers"] == 3
    period = part(attn_layer_period=8, attn_layer_offset=4)
    assert (period["attn_layer_period"], period["attn_layer_offset"]) == (2, 1)
    assert part(hybrid_override_pattern="MMMM*-MMMM*-")["hybrid_override_pattern"] == "M*-"


@pytest.mark.parametrize(
    "fields",
    [
        {"id2label": {0: "a", 1: "b"}},
        {"transformers_version": "5.23.0-dev01"},
        {"vision_config": {"depth": 12, "hidden_size": 8}},
        {"kernel_sizes": [3, 5, 7]},
        {"eos_token_id": [1, 2]},
    ],
)
def test_what_is_not_by_layer_stays(fields: dict[str, Any]) -> None:
    assert part(**fields) == {"num_hidden_layers": 2, **fields}


def test_parts_are_cut_apart_and_the_deepest_is_reported() -> None:
    nested = {"text_config": {"num_hidden_layers": 32}, "vision_config": {"num_hidden_layers": 4}}
    result = cut(nested, 2, in_order=False)
    assert (result.layers, result.all_layers) == (2, 32)
    assert result.data["vision_config"] == {"num_hidden_layers": 2}
    assert cut({"hidden_size": 8}, 2, in_order=False)[1:] == (None, None)


def test_stages_are_not_layers() -> None:
    stages = {"num_layers": 4, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24]}
    assert cut(stages, 2, in_order=False).data == stages
