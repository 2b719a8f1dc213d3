"""GGUF files."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from saved_layouts import (
    gguf,
    model_of_gguf,
    scan_tensors,
    text,
    value,
)

from doctor.checkpoint.io.files import LocalDirectory

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
