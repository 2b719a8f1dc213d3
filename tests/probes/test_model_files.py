"""Names in the files of a model, and texts in the tokens of its tokenizer."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

from doctor.probes.training_side.subject import (  # noqa: E402
    config_sizes,
    model_files,
    tokenizers_text,
)

NAMES = ["a.weight", "b.weight", "c.weight"]


@pytest.mark.parametrize(
    ("missing", "unexpected", "text"),
    [
        (NAMES, [f"_orig_mod.{name}" for name in NAMES], "begin with '_orig_mod.'"),
        (NAMES, [f"_orig_mod.{name}" for name in NAMES[1:]], "begin with '_orig_mod.'"),
        ([f"model.{name}" for name in NAMES], NAMES[1:], "lack the beginning 'model.'"),
        (NAMES, ["other.x.weight"], ""),
        (NAMES, [], ""),
    ],
)
def test_a_prefix_is_found_although_a_name_has_no_counterpart(
    missing: list[str], unexpected: list[str], text: str
) -> None:
    assert model_files._prefix(missing, unexpected) == text


@pytest.mark.parametrize(
    ("row", "trains"),
    [(list(range(16)), True), ([5] * 16, False), ([1, 2, 3], False), ([1, 2] * 8, False)],
)
def test_a_row_of_few_different_tokens_shows_no_gradient_of_attention(
    row: list[int], trains: bool
) -> None:
    assert tokenizers_text.trains(row, 16) is trains


@pytest.mark.parametrize(("method", "raises"), [("gptq", True), ("bitnet", False)])
def test_weights_that_a_method_quantizes_while_it_trains(
    method: str, raises: bool, tmp_path: Path
) -> None:
    save_file({"a.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    with pytest.raises(model_files.BadFiles) if raises else contextlib.nullcontext():
        model_files.require_quantized(str(tmp_path), method)


@pytest.mark.parametrize("unread", [b"", b"\xff" * 64, (9).to_bytes(8, "little") + b"not a json"])
def test_quantized_weights_may_be_in_a_file_that_cannot_be_read(
    unread: bytes, tmp_path: Path
) -> None:
    save_file({"a.weight": torch.ones(2, 2)}, tmp_path / "model-00001-of-00002.safetensors")
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(unread)
    model_files.require_quantized(str(tmp_path), "gptq")


class Sizes:
    """As a config of transformers holds them."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes

    def to_dict(self) -> dict[str, int]:
        return self.sizes

    @classmethod
    def from_dict(cls, sizes: dict[str, int]) -> Sizes:
        return cls(**sizes)


@pytest.mark.parametrize(("width", "found"), [(16, '"width": 16 instead of 8'), (800, ""), (8, "")])
def test_a_size_that_fits_is_looked_for_in_widths_alone(width: int, found: str) -> None:
    built = []

    def build(config: Sizes) -> Any:
        built.append(config.sizes["num_layers"])
        return torch.nn.Linear(config.sizes["width"], 2)

    config = Sizes(width=8, num_layers=60)
    pairs = [("weight", (2, width), (2, 8))]
    assert config_sizes.fitting(config, pairs, build) == found
    assert set(built) <= {60}
