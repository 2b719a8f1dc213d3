"""Entries of config.json that shape what the weights compute, beside those of another model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.addresses import locate
from doctor.checkpoint.io.files import Directory, LocalDirectory, read_json
from doctor.checkpoint.io.urls import is_address
from doctor.checkpoint.layouts.model_config import LIMIT
from doctor.checkpoint.records import ChangedSetting

SHAPES = re.compile(
    r"type|rope_type|(?:rope_|rotary_|global_rope_|local_rope_)\w+|factor|\w+_freq_factor"
    r"|original_max_position_embeddings|beta_(?:fast|slow)|partial_rotary_factor|rotary_pct"
    r"|\w*(?:eps|epsilon|softcapping|multiplier|scaling|scaling_factor)|\w*activation(?:_function)?"
    r"|hidden_act|act_fn|query_pre_attn_scalar|logit_scale|num_experts_per_tok|norm_topk_prob"
    r"|position_embedding_type|alibi|use_parallel_residual|use_bidirectional_attention"
)
"""Names of entries that show in no tensor's shape, and change what every layer computes."""

ROPE = ("rope_parameters", "rope_scaling")
"""Entries that hold those of RoPE, in transformers 5 and 4."""

PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
MOST = 100


def changed_settings(directory: Directory, origin: str) -> tuple[ChangedSetting, ...]:
    """Those that both configurations have with other values.

    `origin`: the path or address of the model that the weights come from. () where a config.json
    cannot be read, or the two are of other families.
    """
    try:
        now = read_json(directory, "config.json", LIMIT)
        before = read_json(_folder(origin), "config.json", LIMIT)
    except CheckpointError:
        return ()
    if now.get("model_type") != before.get("model_type"):
        return ()
    new, old = _settings(now), _settings(before)
    new |= _lost(now, new, old)
    return tuple(
        ChangedSetting(name=name[:100], before=json.dumps(old[name])[:200], now=text[:200])
        for name in sorted(old.keys() & new.keys())
        if (text := json.dumps(new[name])) != json.dumps(old[name])
    )[:MOST]


def _folder(origin: str) -> Directory:
    if is_address(origin):
        return locate(origin)[0]
    place = Path(origin)
    return LocalDirectory(place if place.is_dir() else place.parent)


def _lost(
    now: Mapping[str, object], new: Mapping[str, object], old: Mapping[str, object]
) -> dict[str, object]:
    """The base and the kind of RoPE that the earlier configuration alone names, as None.

    In families whose default is known: from_pretrained takes that instead.
    """
    if now.get("model_type") not in PLAIN_ROPE or ROPE[0] in now or any(map(BASE.search, new)):
        return {}
    return {
        name: None
        for name, default in {"rope_theta": 10_000.0, "rope_type": "default"}.items()
        if name in old and name not in new and old[name] != default
    }


PLAIN_ROPE = frozenset(
    ("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "phi3")
)
"""model_types whose RoPE has the base 10,000 and no scaling, where config.json says nothing."""
BASE = re.compile(r"theta|base|freq")


def _settings(config: Mapping[str, object], under: str = "") -> dict[str, object]:
    """The entries that matter; those of RoPE without the name of what holds them."""
    found: dict[str, object] = {}
    rope = [part for key in ROPE if isinstance(part := config.get(key), dict)]
    if ROPE[0] in config or ROPE[1] in config:
        found[f"{under}rope_type"] = "default"
    for part in rope:
        inner = {key: value for key, value in part.items() if isinstance(value, dict)}
        for key, value in inner.items():
            found |= _plain(value, f"{under}{key}.")
        found |= _plain(part, under)
    found |= _plain(config, under)
    for key in () if under else PARTS:
        if isinstance(part := config.get(key), dict):
            found |= _settings(part, f"{key}.")
    return found


def _plain(config: Mapping[str, object], under: str) -> dict[str, object]:
    """Entries of one level that are numbers, names or flags; 1 and 1.0 are the same."""
    return {
        under + ("rope_type" if key == "type" else key): float(value)
        if type(value) is int
        else value
        for key, value in config.items()
        if SHAPES.fullmatch(key) and isinstance(value, str | int | float)
    }
