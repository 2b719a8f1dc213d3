"""Adapters that lie: shapes, configurations and names of an untrusted directory end in a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy  # noqa: TID253
import pytest
from safetensors.numpy import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Merge

WEIGHT = "model.layers.0.self_attn.q_proj.weight"
LEAD = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
Arrays = dict[str, Any]


def ones(*shape: int) -> Any:
    return numpy.full(shape, 0.01, "f4")


PLAIN: Arrays = {f"{LEAD}A.weight": ones(4, 64), f"{LEAD}B.weight": ones(64, 4)}
CONFIG: dict[str, Any] = {
    "peft_type": "LORA",
    "r": 4,
    "lora_alpha": 8,
    "target_modules": ["q_proj"],
}


def merged(tmp_path: Path, adapter: Arrays, config: object) -> Merge | Unknown | None:
    base = {WEIGHT: numpy.linspace(-1, 1, 64 * 64, dtype="f4").reshape(64, 64)}
    product = base[WEIGHT] + 2 * (PLAIN[f"{LEAD}B.weight"] @ PLAIN[f"{LEAD}A.weight"])
    for name, state in (("base", base), ("merged", {WEIGHT: product})):
        (tmp_path / name).mkdir()
        save_file(state, tmp_path / name / "model.safetensors")
    (tmp_path / "adapter").mkdir()
    save_file(adapter, tmp_path / "adapter" / "adapter_model.safetensors")
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "adapter" / "adapter_config.json").write_text(text)
    request = ScanRequest(
        path=str(tmp_path / "merged"),
        merged_from=str(tmp_path / "base"),
        adapters=((str(tmp_path / "adapter"), 1.0),),
    )
    result = read(request, no_stage, lambda note: None)
    assert isinstance(result, Checkpoint)
    return result.merge


def test_the_plain_one_fits(tmp_path: Path) -> None:
    found = merged(tmp_path, PLAIN, CONFIG)
    assert isinstance(found, Merge)
    assert found.weights[0].scale == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    "adapter",
    [
        {f"{LEAD}A.weight": ones(4, 64), f"{LEAD}B.weight": ones(64, 3)},
        {f"{LEAD}A.weight": ones(4, 63), f"{LEAD}B.weight": ones(64, 4)},
        {f"{LEAD}A.weight": ones(0, 64), f"{LEAD}B.weight": ones(64, 0)},
        {f"{LEAD}A.weight": ones(4), f"{LEAD}B.weight": ones(64)},
        {f"{LEAD}A.weight": ones(2, 2, 2, 2, 2), f"{LEAD}B.weight": ones(64, 2)},
        {f"{LEAD}A.weight": numpy.ones((4, 64), "i8"), f"{LEAD}B.weight": ones(64, 4)},
        {f"{LEAD}B.weight": ones(64, 4)},
        {f"{LEAD}A.weight": ones(4, 64) * numpy.nan, f"{LEAD}B.weight": ones(64, 4)},
        {**PLAIN, f"{LEAD}magnitude_vector": ones(3)},
        {**PLAIN, "base_model.model.other": ones(2, 2)},
        {"base_model.model.x.token_adapter.trainable_tokens_delta": ones(2, 64)},
        {"\x1b[31m.lora_A.weight": ones(4, 64), "\x1b[31m.lora_B.weight": ones(64, 4)},
    ],
)
def test_shapes_that_lie(tmp_path: Path, adapter: Arrays) -> None:
    found = merged(tmp_path, adapter, CONFIG)
    assert isinstance(found, Merge)
    assert "\x1b" not in repr(found.adapters)


@pytest.mark.parametrize(
    "change",
    [
        {"r": "4", "lora_alpha": "8"},
        {"r": 10**30, "lora_alpha": 1e300},
        {"lora_alpha": None},
        {"lora_alpha": True},
        {"alpha_pattern": {"(a+)+b": 3, "(": 4, "": 5, "x" * 9000: 6}},
        {"alpha_pattern": ["q_proj"], "rank_pattern": 3},
        {"target_parameters": ["q_proj"], "r": 0},
        {"trainable_token_indices": [-1, 10**12, "a"]},
        {"peft_type": None},
        {"peft_type": "\x1b[31m" * 50},
        {"base_model_name_or_path": "\x1b]0;x\x07"},
        {"init_lora_weights": "pissa" * 5000},
    ],
)
def test_configurations_that_lie(tmp_path: Path, change: dict[str, Any]) -> None:
    found = merged(tmp_path, PLAIN, CONFIG | change)
    assert isinstance(found, Merge)
    assert "\x1b" not in repr(found.adapters)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"r": ' + "[" * 5000])
def test_no_configuration(tmp_path: Path, text: str) -> None:
    assert isinstance(merged(tmp_path, PLAIN, text), Unknown)
