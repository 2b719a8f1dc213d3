"""CKP011 and the padding token of tokenizers as the library saves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import checkpoint as make_checkpoint
from judges import judge

from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.layouts.tokenizer import HEAD, read_tokenizer
from doctor.checkpoint.records import Tokenizer
from doctor.judge.check import Status, Verdict

JUDGE = judge("CKP011")


def judge(tokenizer: Tokenizer | None) -> Verdict:
    said = make_checkpoint(
        path="/c", layout="x", count=1, tensors=9, parameters=9, bytes=9, largest=9,
        tokenizer=tokenizer,
    )  # fmt: skip
    return JUDGE(checkpoint=said)


def saved(folder: Path, kind: str = "BPE", **tokens: str) -> Path:
    """A real tokenizer with "!" as token 0, as Llama 3 has it."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import models
    from transformers import PreTrainedTokenizerFast

    words = ["!", '"', "a", "b", "ä"]
    if kind == "BPE":
        model = models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=[])
    elif kind == "WordLevel":
        model = models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="!")
    else:
        model = models.Unigram([(word, -1.0) for word in words], unk_id=0)
    fast = PreTrainedTokenizerFast(tokenizer_object=Fast(model), **tokens)
    fast.save_pretrained(folder)
    return folder


def read(folder: Path) -> Tokenizer:
    found = read_tokenizer(LocalDirectory(folder))
    assert found is not None
    return found


KINDS = ("BPE", "WordLevel", "Unigram")


@pytest.mark.parametrize("kind", KINDS)
def test_no_padding_token(kind: str, tmp_path: Path) -> None:
    found = read(saved(tmp_path, kind))
    assert (found.pad, found.first) == (None, "!")
    verdict = judge(found)
    assert verdict.status is Status.NOTE
    assert "token 0, a common default, is '!'" in verdict.summary


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_of_its_own(kind: str, tmp_path: Path) -> None:
    found = read(saved(tmp_path, kind, pad_token="<|pad|>"))
    assert (found.pad, found.pad_id) == ("<|pad|>", 5)
    assert judge(found).status is Status.PASS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("pad", "number"), [("!", 0), ("ä", 4)])
def test_a_word_of_the_vocabulary(kind: str, pad: str, number: int, tmp_path: Path) -> None:
    found = read(saved(tmp_path, kind, pad_token=pad))
    assert (found.pad, found.pad_id) == (pad, number)
    verdict = judge(found)
    assert verdict.status is Status.WARN
    assert pad in verdict.summary


def test_padding_that_ends_texts_passes_with_a_note(tmp_path: Path) -> None:
    found = read(saved(tmp_path, pad_token="</s>", eos_token="</s>"))
    verdict = judge(found)
    assert verdict.status is Status.PASS
    assert "also ends a text" in verdict.summary


def test_number_zero_may_be_padding(tmp_path: Path) -> None:
    """T5 and Gemma have <pad> there."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import models
    from transformers import PreTrainedTokenizerFast

    fast = Fast(models.WordLevel({"<pad>": 0, "a": 1}, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<pad>").save_pretrained(tmp_path)
    found = read(tmp_path)
    assert found.pad_id == 0
    assert judge(found).status is Status.PASS


def test_the_configuration_is_compared(tmp_path: Path) -> None:
    saved(tmp_path, pad_token="<|pad|>")
    (tmp_path / "generation_config.json").write_text('{"pad_token_id": 0}')
    verdict = judge(read(tmp_path))
    assert verdict.status is Status.WARN
    assert "pad_token_id is 0 in generation_config.json" in verdict.summary
    (tmp_path / "generation_config.json").write_text('{"pad_token_id": 5}')
    (tmp_path / "config.json").write_text('{"vocab_size": 5}')
    verdict = judge(read(tmp_path))
    assert verdict.status is Status.FAIL
    assert "5 embeddings" in verdict.summary
    (tmp_path / "config.json").write_text('{"text_config": {"vocab_size": 6}}')
    assert judge(read(tmp_path)).status is Status.PASS


def test_zero_by_default_is_told(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "config.json").write_text('{"pad_token_id": 0}')
    verdict = judge(read(tmp_path))
    assert verdict.status is Status.WARN
    assert "pad_token_id is 0 in config.json" in verdict.summary


def test_older_files(tmp_path: Path) -> None:
    """added_tokens_decoder and special_tokens_map.json, as transformers 4 wrote them."""
    settings = {
        "added_tokens_decoder": {"128004": {"content": "<|pad|>", "special": True}},
        "pad_token": None,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": {"content": "<|pad|>"}}')
    found = read(tmp_path)
    assert (found.pad, found.pad_id) == ("<|pad|>", 128004)


def test_a_long_tokenizer_is_read_in_part(tmp_path: Path) -> None:
    saved(tmp_path, pad_token="<|pad|>")
    path = tmp_path / "tokenizer.json"
    found = json.loads(path.read_text("utf-8"))
    found["model"]["vocab"] |= {f"word{n}": n + 10 for n in range(200_000)}
    path.write_text(json.dumps(found), "utf-8")
    assert path.stat().st_size > 2 * HEAD
    assert read(tmp_path).pad_id == 5


def test_what_is_not_there_and_what_is_not_told(tmp_path: Path) -> None:
    assert read_tokenizer(LocalDirectory(tmp_path)) is None
    assert judge(None).status is Status.SKIP
    saved(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    assert judge(read(tmp_path)).status is Status.UNKNOWN
    (tmp_path / "tokenizer_config.json").write_text("{")
    assert judge(read(tmp_path)).status is Status.FAIL


@pytest.mark.parametrize(
    "settings",
    [
        {"pad_token": 3},
        {"pad_token": {"content": ["x"]}},
        {"pad_token": "x" * 5000},
        {"pad_token": "\x1b[31m"},
        {"added_tokens_decoder": {"9" * 5000: {"content": "a"}, "1": 2}},
        {"added_tokens_decoder": [1]},
    ],
)
@pytest.mark.parametrize(
    "vocabulary",
    ["{}", '{"added_tokens": [', '{"added_tokens": ' + "[" * 100_000, '{"vocab": {"\ud800": 0',
     '{"added_tokens": [{"id": true, "content": "a"}], "vocab": [["!", 0', "\x00\xff"],
)  # fmt: skip
def test_files_of_strangers(settings: Any, vocabulary: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "tokenizer.json").write_bytes(vocabulary.encode("utf-8", "surrogatepass"))
    (tmp_path / "config.json").write_text('{"pad_token_id": "0", "vocab_size": true}')
    found = read(tmp_path)
    assert found.pad is None or found.pad.isprintable()
    judge(found)


@pytest.mark.parametrize(("outer", "inner"), [(4, 6), (6, 4), ("6", 6)])
def test_the_larger_vocabulary_of_two_counts(outer: Any, inner: int, tmp_path: Path) -> None:
    """The outer vocab_size of a model with several parts can be a default."""
    saved(tmp_path, pad_token="<|pad|>")
    said = {"vocab_size": outer, "text_config": {"vocab_size": inner}}
    (tmp_path / "config.json").write_text(json.dumps(said))
    assert read(tmp_path).vocabulary == 6
    assert judge(read(tmp_path)).status is Status.PASS


@pytest.mark.parametrize(
    ("config", "tokens", "exchanged"),
    [
        ({"bos_token_id": 4, "eos_token_id": 0, "pad_token_id": 3}, {"pad_token": "[PAD]"}, True),
        ({"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 4}, {"pad_token": "[PAD]"}, True),
        # Roles that it does not have; its own numbers; a chat model's end of a turn; a padding
        # token that was set anew; none.
        (
            {"bos_token_id": 4, "eos_token_id": 0, "pad_token_id": 1},
            {"pad_token": "[PAD]", "bos_token": "", "eos_token": ""},
            False,
        ),
        ({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}, {}, False),
        ({"bos_token_id": 1, "eos_token_id": 4, "pad_token_id": 3}, {}, False),
        ({"bos_token_id": 1, "eos_token_id": [4, 2], "pad_token_id": 4}, {}, False),
        ({"eos_token_id": 4}, {}, False),
    ],
)
def test_numbers_of_several_roles_that_are_other_tokens(
    config: dict[str, Any], tokens: dict[str, str], exchanged: bool, tmp_path: Path
) -> None:
    names = {"bos_token": '"', "eos_token": "a", "pad_token": "b"}
    saved(tmp_path, "WordLevel", **{role: own for role, own in (names | tokens).items() if own})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    found = read(tmp_path)
    assert bool(found.exchanged) is exchanged, found.exchanged
    if exchanged:
        assert "model that the weights come from" in judge(found).fix
        (tmp_path / "generation_config.json").write_text(json.dumps(config))
        assert not read(tmp_path).exchanged
