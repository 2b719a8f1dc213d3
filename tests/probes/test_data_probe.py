"""The probe of data: what it counts, with real tensors and files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def test_packed_rows_are_split_into_documents() -> None:
    import torch

    from doctor.probes.training_side.data import documents

    row = torch.arange(5, 17)[None]
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4]])
    batch = {"input_ids": row, "labels": row.clone(), "position_ids": positions}
    packed = documents.tokens_of(batch)
    assert packed is not None
    found = list(documents.documents(packed, 0, None))
    assert [len(each.ids) for each in found] == [4, 3, 5]
    assert documents.is_packed(packed)


@pytest.mark.parametrize(("shift", "matches"), [(0, "0"), (1, "1"), (2, "2")])
def test_the_offset_of_labels(shift: int, matches: str) -> None:
    import torch

    from doctor.probes.training_side.data import documents, labels

    row = torch.randperm(80)[None] + 5
    wrong = torch.roll(row, -shift, 1)
    made = documents.tokens_of({"input_ids": row, "labels": wrong})
    assert made is not None
    record = labels.labels(list(documents.documents(made, 0, None)), None)
    assert record is not None
    assert max(record["matches"], key=record["matches"].get) == matches
    assert record["objective"] == "next token"


@pytest.mark.parametrize(("shift", "expected"), [(0, {"0": 16}), (1, {"1": 16}), (2, {"2": 16})])
def test_the_shift_of_a_loss_is_measured(shift: int, expected: dict[str, int]) -> None:
    import torch

    from doctor.probes.training_side.data import documents, offsets

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64)
            self.layer = torch.nn.GRU(16, 16, batch_first=True)

        def forward(self, ids: Any, labels: Any) -> Any:
            logits = self.head(self.layer(self.embed(ids))[0])
            if shift:
                logits, labels = logits[:, :-shift], labels[:, shift:]
            return torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
            )

    rows = torch.randint(3, 64, (4, 32))
    real = documents.tokens_of((rows, rows))
    assert real is not None
    record = offsets.record(Recurrent(), lambda module, batch: module(*batch), (rows, rows), real)
    assert record["shifts"] == expected
    assert record["later"] == 0


def test_equal_rows_are_found_by_their_content() -> None:
    from doctor.probes.training_side.data import rows

    content = rows.Content()
    texts = ["a text of a river", "a  text of a river\n", "another text of the sea"]
    for text, label in zip(texts, (0, 1, 0), strict=True):
        made = rows.row_of({"text": text, "label": label, "id": 1})
        assert made is not None
        content.add(made)
    record = rows.repeats(content)
    assert record["repeated"] == 1
    assert record["conflicting"] == 1
    assert record["pairs"] == [[0, 1]]


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("a.jsonl", '{"text": "one"}\n{"text": "two"\n', 2),
        ("a.csv", "a,b\n1,2\n3\n", 3),
        ("a.json", '{"text": "one"}\nnonsense\n', 2),
    ],
)
def test_a_broken_row_is_named_by_its_line(tmp_path: Path, name: str, text: str, row: int) -> None:
    from doctor.probes.training_side.data import files

    (tmp_path / name).write_text(text)
    with pytest.raises(files.BrokenRow) as error:
        list(files.Rows([str(tmp_path / name)]))
    assert error.value.row == row


def test_files_of_two_splits_and_their_shards(tmp_path: Path) -> None:
    from doctor.probes.training_side.data import files

    for number in (0, 1, 3):
        (tmp_path / f"train-0000{number}-of-00004.jsonl").write_text(f'{{"text": "{number}"}}\n')
    (tmp_path / "test.jsonl").write_text("")
    sources = files.open_path(str(tmp_path))
    assert [source.name for source in sources] == ["train", "eval"]
    record = files.shards(sources)
    assert record is not None
    assert record["missing"] == ["2 of 4"]
    assert record["empty"] == ["test.jsonl"]


SLEEPERS = """
import json, os, subprocess, sys, time
def make():
    children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                                 start_new_session=True).pid for _ in range(2)]
    with open("pids", "w") as file:
        json.dump([os.getpid(), *children], file)
    os.rename("pids", "ready")
    time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the keeper is Linux's")
def test_no_process_of_the_target_outlives_a_doctor_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLEEPERS)
    command = [sys.executable, "-m", "doctor", "data", "slow.py:make", "-q"]
    doctor = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: (tmp_path / "ready").exists())
        pids = json.loads((tmp_path / "ready").read_text())
    finally:
        doctor.send_signal(signal.SIGKILL)
        doctor.wait()
    wait_for(lambda: not any(map(is_running, pids)))


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
