"""The tokenizers of a merged model and of what it was made from, as libraries write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_checkpoints import checkpoint, merge

from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.layouts.vocabulary import compare_tokenizers
from doctor.checkpoint.records import Untouched
from doctor.checks.checkpoint.merge_rest import REST
from doctor.judge.check import Status

BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ba": 3}, "merges": ["a b", "b a"]}
PIECES = [["a", -1.0], ["b", -2.0], ["ab", -3.0]]
CUTS = {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "use_regex": True}]}
BASE = {"model": BPE, "pre_tokenizer": CUTS, "added_tokens": [{"content": "</s>", "id": 4}]}


def tokenizer(folder: Path, content: dict[str, Any], template: str = "") -> LocalDirectory:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(content))
    if template.endswith("(file)"):
        (folder / "chat_template.jinja").write_text(template.removesuffix(" (file)") + "\n")
    elif template:
        config = {"chat_template": template}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return LocalDirectory(folder)


def model(**changes: Any) -> dict[str, Any]:
    return BASE | {"model": BPE | changes}


@pytest.mark.parametrize(
    ("before", "now", "templates", "status", "word"),
    [
        (BASE, model(vocab={"b": 0, "a": 1, "ab": 2, "ba": 3}), ("", ""), Status.WARN, "0, now 1"),
        (
            {"model": {"type": "Unigram", "vocab": PIECES}},
            {"model": {"type": "Unigram", "vocab": PIECES[::-1]}},
            ("", ""), Status.WARN, "2 tokens",
        ),
        (
            BASE, BASE | {"added_tokens": [{"content": "</s>", "id": 7}]}, ("", ""),
            Status.WARN, "</s>: 4, now 7",
        ),
        (BASE, model(merges=["b a", "a b"]), ("", ""), Status.WARN, "merges"),
        (BASE, BASE | {"pre_tokenizer": {"type": "Metaspace"}}, ("", ""), Status.WARN, "pre_token"),
        (BASE, BASE | {"normalizer": {"type": "NFKC"}}, ("", ""), Status.WARN, "normalizer"),
        (BASE, model(merges=[["a", "b"], ["b", "a"]]), ("", ""), Status.PASS, "base's"),
        (
            BASE,
            BASE | {"version": "1.0", "pre_tokenizer": {
                "type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "trim_offsets": False}]
            }},
            ("{{ a }}", "{{ a }} (file)"), Status.PASS, "base's",
        ),
        (
            BASE,
            BASE | {"added_tokens": [{"content": "</s>", "id": 4}, {"content": "x", "id": 5}]},
            ("", ""), Status.NOTE, "1 further tokens",
        ),
        (BASE, BASE, ("{{ a }}", "{{ b }}"), Status.NOTE, "template"),
    ],
)  # fmt: skip
def test_tokens_of_a_merged_model(
    tmp_path: Path,
    before: dict[str, Any],
    now: dict[str, Any],
    templates: tuple[str, str],
    status: Status,
    word: str,
) -> None:
    base = tokenizer(tmp_path / "base", before, templates[0])
    merged = tokenizer(tmp_path / "merged", now, templates[1])
    change = compare_tokenizers(merged, base, "base")
    record = merge(tokenizer=change, untouched=Untouched(compared=9, equal=9))
    verdict = REST.judge(checkpoint=checkpoint(merge=record))
    assert verdict.status is status, verdict.summary
    assert word in verdict.summary


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model": 3}', '{"model": {"vocab": {"a": "b"}}}']
)
def test_what_is_no_tokenizer_is_not_compared(tmp_path: Path, text: str) -> None:
    base = tokenizer(tmp_path / "base", BASE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tokenizer.json").write_text(text)
    assert compare_tokenizers(LocalDirectory(tmp_path / "other"), base, "base") is None
    assert compare_tokenizers(base, LocalDirectory(tmp_path), "base") is None
