"""Names in the files of a model, and texts in the tokens of its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from doctor.probes.training_side.subject import model_files, tokenizers_text

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


class Tokenizer:
    """Knows as many words of the text as it is told to."""

    def __init__(self, words: int) -> None:
        self.words = words

    def __call__(self, text: str) -> Any:
        return {"input_ids": [hash(word) % self.words for word in text.split()]}


@pytest.mark.parametrize(("words", "used"), [(1000, True), (1, False)])
def test_a_vocabulary_that_knows_no_word_of_the_text_is_not_used(
    words: int, used: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tokenizers_text, "tokenizer_of", lambda directory: Tokenizer(words))
    rows = tokenizers_text.tokenized(str(tmp_path), 2, 16, 21)
    assert (rows is not None) is used
