"""The flat form of a checkpoint's record: older facts files, and the JSON of `doctor scan`.

The JSON of `doctor scan` keeps it, since fields are only added within a schema version.
"""

from __future__ import annotations

from typing import Any

SECTIONS = {
    "files": ("Files", {
        "count": "files",
        "bytes": "bytes",
        "largest": "largest_file",
        "others": "beside",
        "lone_shard": "lone_shard",
        "by_dtype": "by_dtype",
    }),
    "contents": ("Contents", {
        "tensors": "tensors",
        "parameters": "parameters",
        "dtypes": "dtypes",
        "roles": "roles",
        "norms": "norms",
        "initialized_to_one": "born_at_one",
        "shares": "shares",
        "statistics": "batch_statistics",
    }),
    "model": ("ModelConfig", {
        "model_type": "model_type",
        "text_model_type": "text_model_type",
        "dtype": "config_dtype",
        "quantized": "quantized",
        "adapter": "adapter",
        "unreadable": "config_unreadable",
        "sizes": "sizes",
        "head_missing": "head_missing",
        "task_without_head": "task_without_head",
        "separate_head": "separate_head",
        "wrapper": "wrapper",
        "wrapped": "wrapped",
        "missing": "missing_tensors",
        "missing_count": "missing_count",
        "ignored": "ignored_tensors",
        "ignored_count": "ignored_count",
        "quantization": "quantization",
        "lacks_config": "lacks_config",
        "lacks_embedding": "lacks_embedding",
        "empty_tensors": "empty_tensors",
        "embedding_rows": "embedding_rows",
        "unmatched": "unmatched",
        "last_matrix": "last_matrix",
        "token_ids": "token_ids",
        "source": "config_source",
        "partly": "partly_prefixed",
        "partly_wrapped": "partly_wrapped",
        "partly_example": "partly_example",
    }),
    "training": ("Training", {
        "steps": "step",
        "epoch": "epoch",
        "history": "history",
        "idle_averages": "idle_averages",
        "scale": "scale",
        "optimizer": "optimizer",
    }),
    "loading": ("Loading", {
        "pickles": "pickles",
        "imports": "imports",
        "refused": "refused",
        "executed": "executed",
        "dangerous": "dangerous",
        "protocol": "pickle_protocol",
        "beside": "pickles_beside",
        "called": "pickles_that_call",
        "tricks": "pickles_with_tricks",
        "doubtful": "doubtful_pickles",
        "unfamiliar": "unfamiliar_pickles",
        "unread": "unread_pickles",
        "own": "own_code",
        "plain": "plain_pickles",
    }),
}  # fmt: skip
"""Section -> its tag, and its fields with the flat record's names for them."""

_MOMENTS = {"zero_moments": "zero", "nonzero_moments": "moving", "unread_moments": "unread"}

RENAMED = {
    "Checkpoint": ("Checkpoint", {"movement": "moves"}),
    "Movement": (
        "Moves",
        {"changed": "moved", "unchanged": "unmoved", "unchanged_roles": "still"},
    ),
    "UnchangedRole": ("Unmoved", {}),
    "Optimizer": (
        "Optimizer",
        {**_MOMENTS, "moments_follow_weights": "follows", "compensation": "defeats"},
    ),
    "NormEvidence": (
        "Evidence",
        {
            **_MOMENTS,
            "matched_by": "by",
            "masters_changed": "masters_moved",
            "masters_unchanged": "masters_still",
        },
    ),
}
"""Tag -> the older tag, and fields with their older names."""

_OLDER = {
    older: (tag, {old: new for new, old in fields.items()})
    for tag, (older, fields) in RENAMED.items()
}


def from_flat(data: object) -> Any:
    """The nested form of a decoded `Checkpoint`; anything else stays as it is."""
    if not isinstance(data, dict) or data.get("type") != "Checkpoint":
        return data
    if isinstance(data.get("files"), dict):
        return data
    flat = _rename(data, _OLDER)
    nested: dict[str, Any] = {}
    for section, (tag, fields) in SECTIONS.items():
        present = {new: flat.pop(old) for new, old in fields.items() if old in flat}
        nested[section] = {"type": tag, **present}
    return {**flat, **nested}


def to_flat(data: dict[str, object]) -> dict[str, object]:
    """The flat form of a `Checkpoint` as `msgspec.to_builtins` gives it."""
    flat: dict[str, object] = {}
    for field, value in _rename(data, RENAMED).items():
        if field in SECTIONS:
            older = SECTIONS[field][1]
            flat |= {older[name]: held for name, held in value.items() if name in older}
        else:
            flat[field] = value
    return flat


def _rename(data: object, table: dict[str, tuple[str, dict[str, str]]]) -> Any:
    """A copy with the tags and fields of every record renamed by the table."""
    if isinstance(data, list | tuple):
        return [_rename(value, table) for value in data]
    if not isinstance(data, dict):
        return data
    tag = data.get("type")
    new_tag, fields = table.get(tag, (tag, {})) if isinstance(tag, str) else (tag, {})
    renamed = {fields.get(name, name): _rename(value, table) for name, value in data.items()}
    return {**renamed, "type": new_tag} if "type" in data else renamed
