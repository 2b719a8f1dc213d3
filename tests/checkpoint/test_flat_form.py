"""The flat form of a checkpoint's record, as facts files had it before it got sections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checkpoint.flat_form import RENAMED, SECTIONS, from_flat, to_flat
from doctor.checkpoint.records import (
    Checkpoint,
    Contents,
    Files,
    Loading,
    ModelConfig,
    Movement,
    Optimizer,
    Training,
)
from doctor.facts.facts import decode, encode

DATA = Path(__file__).parent / "data"


def flat() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / "facts_version_1.json").read_text())["checkpoint"]
    return data


def nested() -> Checkpoint:
    return msgspec.convert(from_flat(flat()), Checkpoint)


def test_every_section_is_filled() -> None:
    checkpoint = nested()
    assert checkpoint.files == Files(
        count=2,
        bytes=6_000_000_000,
        largest=4_000_000_000,
        others=("optimizer.pt",),
        lone_shard=True,
    )
    assert (checkpoint.contents.tensors, len(checkpoint.contents.norms)) == (810, 2)
    assert checkpoint.contents.initialized_to_one[0].value == "ones"
    assert checkpoint.contents.shares[0].bytes == 32
    assert (checkpoint.model.model_type, checkpoint.model.dtype) == ("llama", "bfloat16")
    assert checkpoint.training.steps == 754
    assert checkpoint.training.history is not None
    assert (checkpoint.loading.pickles, checkpoint.loading.refused) == (1, ("__main__.Trainer",))


def test_renamed_fields_keep_their_values() -> None:
    checkpoint = nested()
    optimizer, movement = checkpoint.training.optimizer, checkpoint.movement
    assert isinstance(optimizer, Optimizer)
    assert optimizer.norms is not None
    assert (optimizer.compensation, optimizer.moments_follow_weights) == ("compensation", True)
    assert (optimizer.zero_moments, optimizer.nonzero_moments) == (3, 64)
    assert (optimizer.norms.matched_by, optimizer.norms.nonzero_moments) == ("shapes", 49)
    assert (optimizer.norms.masters_changed, optimizer.norms.masters_unchanged) == (1, 2)
    assert isinstance(movement, Movement)
    assert (movement.changed, movement.unchanged) == (761, 49)
    assert movement.unchanged_roles[0].kind == "norm"


def test_both_directions_agree() -> None:
    built = to_flat(msgspec.to_builtins(nested()))
    assert {key: value for key, value in built.items() if key in flat()} == _as_lists(flat(), built)
    assert msgspec.convert(from_flat(built), Checkpoint) == nested()


def _as_lists(data: dict[str, Any], built: dict[str, Any]) -> dict[str, Any]:
    """The stored record with the defaults that `built` adds."""
    filled: dict[str, Any] = {}
    for key, value in data.items():
        other = built[key]
        if isinstance(value, dict) and isinstance(other, dict):
            filled[key] = {**other, **_as_lists(value, other)}
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            filled[key] = [
                {**two, **_as_lists(one, two)} for one, two in zip(value, other, strict=True)
            ]
        else:
            filled[key] = value
    return filled


def test_the_table_covers_every_field_of_the_sections() -> None:
    kinds = (Files, Contents, ModelConfig, Training, Loading)
    assert {kind.__name__: {*kind.__struct_fields__} for kind in kinds} == {
        tag: {*fields} for tag, fields in SECTIONS.values()
    }
    assert {*RENAMED["Checkpoint"][1], *SECTIONS} <= {*Checkpoint.__struct_fields__}


@pytest.mark.parametrize(
    "data",
    [None, 5, [], {}, {"type": 3}, {"type": "Unknown", "reason": "x"}, {"type": "Checkpoint"}],
)
def test_anything_else_is_left_to_the_decoder(data: Any) -> None:
    copy = json.loads(json.dumps(data))
    from_flat(data)
    assert data == copy


def test_the_nested_form_stays_as_it_is() -> None:
    built = msgspec.to_builtins(nested())
    assert from_flat(built) == built


def test_a_facts_file_in_the_flat_form_is_read() -> None:
    decoded = decode((DATA / "facts_version_1.json").read_bytes())
    assert decoded.checkpoint == nested()
    assert decode(encode(decoded)) == decoded
