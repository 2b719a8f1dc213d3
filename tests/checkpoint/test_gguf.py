"""GGUF files."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from judges import judge
from saved_layouts import (
    gguf,
    model_of_gguf,
    scan_tensors,
    text,
    value,
)

from doctor.checkpoint.io.files import LocalDirectory
from doctor.judge.check import Status

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("quietly")


def test_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(gguf(model_of_gguf()))
    checkpoint, recorder = scan_tensors(tmp_path)
    assert (checkpoint.layout, checkpoint.problems) == ("one GGUF file", ())
    assert checkpoint.contents.dtypes == {"F32": 40, "Q4_0": 36, "BF16": 12}
    assert recorder.tensors["blk.0.attn_q.weight"].shape == (2, 32)
    assert {norm.name: norm.value for norm in checkpoint.contents.norms} == {
        "blk.0.attn_norm.weight": "ones",
        "output_norm.weight": "other",
    }
    shard = recorder.shards[0]
    assert shard.metadata["general.architecture"] == "llama"
    assert torch.equal(
        value(tmp_path, recorder.tensors["output_norm.weight"]), torch.tensor([1.0, 1, 1, 1, 2])
    )


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (gguf(model_of_gguf())[:-40], "damaged", "cut short"),
        (gguf(model_of_gguf())[:90], "damaged", "header"),
        (gguf(model_of_gguf(), version=1), "not-inspectable", "version 1"),
        (gguf(model_of_gguf(), version=3 << 24), "not-inspectable", "big-endian"),
        (gguf({"a": ((33,), 2, bytes(18))}), "damaged", "rows of 33"),
        (gguf({"a": ((1, 1, 1, 1, 1), 0, bytes(4))}), "damaged", "5 dimensions"),
        (gguf({"a": ((1 << 40, 1 << 40), 0, bytes(4))}), "damaged", "2^63"),
        (gguf({"a": ((4,), 99, bytes(4))}), "note", "ggml type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), "damaged", "tensors"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 60),
            "not-inspectable",
            "more words",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 0, 1 << 60),
            "damaged",
            "longer",
        ),
        (
            b"GGUF"
            + struct.pack("<IQQ", 3, 0, 1)
            + text("k")
            + struct.pack("<I", 9)
            + struct.pack("<IQ", 9, 1) * 50,
            "not-inspectable",
            "more words",
        ),
    ],
)
def test_a_gguf_file_that_is_wrong(tmp_path: Path, data: bytes, kind: str, said: str) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    checkpoint, _ = scan_tensors(tmp_path)
    assert checkpoint.problems[0].kind == kind, checkpoint.problems
    assert said in checkpoint.problems[0].text


@pytest.mark.slow
def test_any_byte_of_a_gguf_file_may_be_wrong(tmp_path: Path) -> None:
    from doctor.checkpoint.formats.gguf import read_gguf

    good = gguf(model_of_gguf())
    path = tmp_path / "model.gguf"
    for place in range(len(good) - 100):
        for byte in (0, 255):
            path.write_bytes(good[:place] + bytes([byte]) + good[place + 1 :])
            with contextlib.ExitStack() as files:
                source = files.enter_context(LocalDirectory(tmp_path).open("model.gguf"))
                read_gguf(source, "model.gguf")


HEADER = {
    "llama.block_count": 2,
    "llama.embedding_length": 32,
    "tokenizer.ggml.tokens": 6,
    "tokenizer.ggml.eos_token_id": 5,
}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, Status.PASS, "vocabulary 6"),
        ({"tokenizer.ggml.tokens": 9}, Status.FAIL, "9 in the header"),
        ({"tokenizer.ggml.tokens": 5, "tokenizer.ggml.eos_token_id": 4}, Status.FAIL, "5 in the"),
        ({"tokenizer.ggml.tokens": 0, "llama.vocab_size": 7}, Status.FAIL, "7 in the header"),
        ({"tokenizer.ggml.tokens": 0, "llama.vocab_size": 6}, Status.PASS, "vocabulary 6"),
        ({"llama.block_count": 3}, Status.FAIL, "layers"),
        ({"llama.block_count": 1}, Status.FAIL, "layers"),
        ({"llama.block_count": 3, "llama.nextn_predict_layers": 1}, Status.PASS, ""),
        ({"llama.embedding_length": 64}, Status.FAIL, "hidden size"),
        ({"tokenizer.ggml.eos_token_id": 128001}, Status.WARN, "eos_token_id is 128,001"),
        ({"tokenizer.ggml.padding_token_id": 6}, Status.WARN, "pad_token_id"),
        ({"tokenizer.ggml.padding_token_id": 2**32 - 1}, Status.PASS, ""),
        ({"general.type": "adapter", "llama.block_count": 9}, Status.SKIP, ""),
    ],
)
def test_what_the_header_describes(
    tmp_path: Path, changes: dict[str, int | str], status: Status, said: str
) -> None:
    tensors = {
        "token_embd.weight": ((6, 32), 0, bytes(6 * 32 * 4)),
        **{f"blk.{layer}.attn_norm.weight": ((32,), 0, bytes(128)) for layer in (0, 1)},
    }
    (tmp_path / "model.gguf").write_bytes(gguf(tensors, keys=HEADER | changes))
    checkpoint, _ = scan_tensors(tmp_path)
    verdict = judge("CKP012")(checkpoint=checkpoint)
    assert (verdict.status, said in verdict.summary) == (status, True), verdict.summary


@pytest.mark.parametrize(
    ("template", "status"),
    [
        ("{% for c in ().__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}", Status.FAIL),
        ("{{ messages }}" + " " * 900 + "{{ cycler.__init__.__globals__.os.popen('id') }}",
         Status.FAIL),
        ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}", Status.PASS),
        ("the text __class__ of {{ messages[0].content }}", Status.PASS),
        ("{{ tools[0].function.__name__ }}", Status.PASS),
    ],
)  # fmt: skip
def test_the_chat_template_of_a_gguf_file(tmp_path: Path, template: str, status: Status) -> None:
    values = {"tokenizer.chat_template": template}
    (tmp_path / "model.gguf").write_bytes(gguf(model_of_gguf(), keys=values))
    checkpoint, recorder = scan_tensors(tmp_path)
    verdict = judge("CKP010")(checkpoint=checkpoint)
    assert verdict.status is status, verdict.summary
    assert len(recorder.shards[0].metadata["tokenizer.chat_template"]) <= 200
