"""The probe in its own process, as a run starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.collect.child import Child, probe_command
from doctor.collect.child_messages import Answer

pytestmark = pytest.mark.slow  # starts processes

SECONDS = 240.0


@pytest.fixture
def model(tmp_path: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"norm.weight": torch.ones(8)}, str(folder / "model.safetensors"))
    return folder


def asked(path: Path, cwd: Path | None = None, python: str = sys.executable) -> Answer:
    command = probe_command(python, "doctor_side.checkpoint", str(path))
    before = Path.cwd()
    os.chdir(cwd or before)
    try:
        child = Child(command)
    finally:
        os.chdir(before)
    try:
        return child.wait(SECONDS)
    finally:
        child.kill()


def test_it_answers_with_the_checkpoint(model: Path) -> None:
    answer = asked(model)
    assert answer.answer is not None, answer
    found = msgspec.convert(answer.answer["checkpoint"], Checkpoint)
    assert [norm.value for norm in found.contents.norms] == ["ones"]
    assert "read model.safetensors" in [name for name, _ in answer.stages]


def test_it_answers_that_nothing_is_there(tmp_path: Path) -> None:
    answer = asked(tmp_path / "absent")
    found = msgspec.convert(answer.answer, Unknown)
    assert "No such file" in found.reason


def test_it_reads_what_a_scan_wants_and_tells_how_far_it_is(model: Path) -> None:
    request = '{"deep": true, "tensors": true}'
    child = Child(probe_command(sys.executable, "doctor_side.checkpoint", str(model), request))
    notes: list[dict[str, object]] = []
    try:
        answer = child.wait(SECONDS, on_note=notes.append)
    finally:
        child.kill()
    assert answer.answer is not None, answer
    found = msgspec.convert(answer.answer["checkpoint"], Checkpoint)
    assert [(share.kind, share.bytes) for share in found.contents.shares] == [("norm", 32)]
    assert found.values is not None
    rows = [row for note in notes for row in note.get("tensors", ())]  # type: ignore[attr-defined]
    assert rows == [["norm.weight", "F32", [8], "model.safetensors", 32]]
    assert any("done" in note for note in notes)


def test_a_folder_named_doctor_is_not_imported(model: Path, tmp_path: Path) -> None:
    """The working directory of a user may hold anything."""
    for name in ("doctor", "msgspec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    assert asked(model, cwd=tmp_path).ended.ok


def test_a_header_that_would_take_all_memory(tmp_path: Path) -> None:
    """A hundred million bytes of empty lists would take two gigabytes once parsed."""
    text = b'{"a":[' + b"[]," * 33_000_000 + b"[]]}"
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -v {1 << 20}\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    answer = asked(path, python=str(limited))
    assert answer.answer is not None, answer
    found = msgspec.convert(answer.answer["checkpoint"], Checkpoint)
    assert "does not list tensors" in found.problems[0].text


def test_a_file_that_never_answers_is_named(model: Path) -> None:
    """The probe tells which file it reads before it reads it."""
    answer = asked(model)
    order = [name for name, _ in answer.stages]
    assert order == [
        "import doctor",
        f"look at {model}",
        "read config.json",
        "read trainer_state.json",
        "read model.safetensors",
        "read the tokenizer's files",
    ]
