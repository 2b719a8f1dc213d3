"""Adapters that lie: shapes, configurations and names of an untrusted directory end in a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy  # noqa: TID253
import pytest
from safetensors.numpy import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.merging.adapter import NoNumberError, Patterns
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
    return scanned(tmp_path)


def scanned(tmp_path: Path) -> Merge | Unknown | None:
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"r": 0.5, "target_parameters": ["x"]}, "r is 0.5"),
        ({"r": -4, "target_parameters": ["x"], "use_rslora": True}, "r is -4"),
        ({"r": True}, "r is True"),
        ({"rank_pattern": {"q_proj": 0}}, "r is 0"),
        ({"lora_alpha": float("nan")}, "no finite number"),
        ({"lora_alpha": float("inf")}, "no finite number"),
        ({"alpha_pattern": {"q_proj": "8"}}, "no finite number"),
        ({"alpha_pattern": {"a*a*a*a*b": 8}}, "pattern not evaluated"),
        ({"rank_pattern": {"(": 8}}, "pattern not evaluated"),
        ({"alpha_pattern": {str(number): 8 for number in range(6000)}}, "6,000 entries"),
    ],
)
def test_scales_that_cannot_be_known(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    found = merged(tmp_path, PLAIN, CONFIG | change)
    assert isinstance(found, Merge)
    assert found.adapters[0].unscaled == 1
    assert words in found.adapters[0].unscaled_reason


@pytest.mark.parametrize(
    ("key", "module"),
    [
        ("a*a*a*a*b", "a" * 290),
        ("(a|a)" * 40 + "b", "a" * 290),
        ("a?" * 60 + "b", "a" * 290),
        ("a{0,99}" * 4 + "b", "a" * 290),
        ("(a+)+b", "a" * 290),
        ("a*b", "a" * 301),
        ("a" * 501, "a" * 290),
    ],
)
def test_patterns_that_would_take_long(key: str, module: str) -> None:
    with pytest.raises(NoNumberError, match="not evaluated"):
        Patterns("alpha_pattern", {key: 3}).of(module)


def test_matching_ends_for_many_patterns() -> None:
    patterns = Patterns("alpha_pattern", {f"[a.]*{number}b": 3 for number in range(5000)})
    with pytest.raises(NoNumberError, match="not evaluated"):
        patterns.of("a." * 150)


@pytest.mark.parametrize(
    "key",
    [
        "q_proj",
        "layers.0.*q_proj",
        r"layers\.(0|1|2)\.self_attn\.(q|k)_proj",
        r"\d+\.\w\w\w\w_attn.q_proj",
    ],
)
def test_patterns_as_people_write_them(key: str) -> None:
    patterns = Patterns("alpha_pattern", {"v_proj": 2, key: 3})
    assert patterns.of("model.layers.0.self_attn.q_proj") == 3
    assert patterns.of("model.layers.9.mlp.up_proj") is None


def test_a_merge_without_the_buffers_and_the_tied_head_of_its_base(tmp_path: Path) -> None:
    found = merged(tmp_path, PLAIN, CONFIG)
    assert isinstance(found, Merge)
    vocabulary = numpy.linspace(0, 1, 640, dtype="f4").reshape(10, 64)
    kept = {WEIGHT: numpy.zeros((64, 64), "f4"), "model.embed_tokens.weight": vocabulary}
    left_out = {"model.layers.0.self_attn.rotary_emb.inv_freq": ones(8)}
    for head, copies in ((vocabulary, ("lm_head.weight",)), (vocabulary + 1, ())):
        base = kept | left_out | {"lm_head.weight": head}
        save_file(base, tmp_path / "base" / "model.safetensors")
        save_file(kept, tmp_path / "merged" / "model.safetensors")
        again = scanned(tmp_path)
        assert isinstance(again, Merge)
        assert again.untouched is not None
        assert again.untouched.removed == ("lm_head.weight", *left_out)
        assert again.untouched.copies == copies
