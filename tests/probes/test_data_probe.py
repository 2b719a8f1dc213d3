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


def test_labels_of_another_shape_are_counted_where_all_are_ignored() -> None:
    import torch

    from doctor.probes.training_side.data import labels

    counts = labels.OtherLabels()
    counts.add({"input_values": torch.randn(3, 90), "labels": torch.full((3, 5), -100)}, 10)
    counts.add({"input_values": torch.randn(2, 90), "labels": torch.tensor([[4, -100]] * 2)}, 13)
    record = counts.record()
    assert record is not None
    assert (record["documents"], record["unlabelled"]) == (5, 3)
    assert record["rows"] == [10, 11, 12]


def test_a_stop_that_a_whole_chat_masks_is_counted() -> None:
    import torch

    from doctor.probes.training_side.data import documents, row_ends, vocabulary

    ids = torch.tensor([5, 6, 9, 9, 20, 21, 2])
    masked = torch.where(ids == 2, -100, ids)
    known = vocabulary.Vocabulary(None, "", None, None, None, (2,), "here")
    rows = [documents.Document(n, ids, each, ids[:0]) for n, each in enumerate((ids, masked))]
    record = row_ends.stops(rows, known, [9, 9])
    assert record is not None
    assert (record["chats"], record["untrained"]) == (2, 1)
    apart = row_ends.stops(rows, known, [])
    assert apart is not None
    assert (apart["whole"], apart["chats"], apart["untrained"]) == (2, 2, 1)


def test_a_loader_is_timed_and_its_halves_compared() -> None:
    import torch

    from doctor.probes.training_side.data import pace, targets

    rows = torch.utils.data.TensorDataset(torch.randn(400, 4))
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    record = pace.pace(targets.source("train", loader))
    assert record is not None
    assert record["type"] == "Pace", record
    assert record["batches"] == 94
    assert min(record["halves"]) <= record["seconds"] <= max(record["halves"])
    assert pace.pace(targets.Source("train", "loader", [torch.randn(4, 4)])) is None
    few = torch.utils.data.DataLoader(rows, batch_size=100)
    assert pace.pace(targets.source("train", few))["type"] == "Unknown"


def test_a_layer_that_refuses_the_layout_is_still_known() -> None:
    import torch

    from doctor.probes.training_side.data import inputs

    found = inputs.first_input(
        torch.nn.Conv2d(3, 4, 3), lambda module, batch: module(batch), torch.zeros(2, 9, 9, 3)
    )
    assert found is not None
    assert found[1].shape == (2, 9, 9, 3)


@pytest.mark.parametrize(("shift", "matches"), [(0, "0"), (1, "1"), (2, "2")])
def test_the_offset_of_labels(shift: int, matches: str) -> None:
    import torch

    from doctor.probes.training_side.data import documents, labels

    row = torch.randperm(80)[None] + 5
    wrong = torch.roll(row, -shift, 1)
    made = documents.tokens_of({"input_ids": row, "labels": wrong})
    assert made is not None
    record = labels.labels(list(documents.documents(made, 0, None)))
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


def test_a_state_that_is_carried_to_the_next_batch_is_no_look_ahead() -> None:
    import torch

    from doctor.probes.training_side.data import documents, offsets

    class Stream(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64)
            self.layer, self.state = torch.nn.GRU(16, 16, batch_first=True), None

        def forward(self, ids: Any, labels: Any) -> Any:
            hidden, state = self.layer(self.embed(ids), self.state)
            self.state = state.detach()
            return torch.nn.functional.cross_entropy(self.head(hidden).mT, labels)

    rows = torch.randint(3, 64, (8, 16))
    real = documents.tokens_of((rows, rows))
    assert real is not None
    record = offsets.record(Stream(), lambda module, batch: module(*batch), (rows, rows), real)
    assert record["type"] == "Unknown"
    assert "keeps a state" in record["reason"]


class Filtered:
    """A dataset with a table below the rows that it lists, as `datasets` keeps it."""

    def __init__(self, labels: list[list[int]], kept: list[int]) -> None:
        import pyarrow

        self._data = pyarrow.table({"labels": labels})
        self._indices = pyarrow.table({"indices": kept})

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, row: int) -> Any:
        return self._data.slice(self._indices["indices"][row].as_py(), 1).to_pylist()[0]


def test_rows_that_a_filter_left_out_are_projected_from_some() -> None:
    pytest.importorskip("pyarrow")
    from doctor.probes.training_side.data import rows, targets

    def left_out(dataset: Filtered) -> int:
        return rows.dropped(targets.Source("train", "dataset", dataset))

    few = Filtered([[-100] * 3, [5, 6, 7], [-100, 5, 6], [8, 9, 10]], [1, 3])
    assert left_out(few) == 1
    count = 100_000
    read: list[int] = []
    many = Filtered([[-100]] * count, list(range(0, count, 2)))
    whole = many._data

    class Counted:
        column_names, num_rows = ["labels"], count

        def column(self, name: str) -> Any:
            column = whole.column(name)
            return type("Column", (), {
                "__getitem__": lambda _, row: (read.append(row), column[row])[1],
            })()  # fmt: skip

    many._data = Counted()
    assert left_out(many) == count // 2
    assert len(read) <= 512


def test_equal_samples_are_equal_in_all_their_values() -> None:
    import torch

    from doctor.probes.training_side.data import mixing

    rows = torch.zeros(2, 20_000)
    rows[0, 4_999] = 1
    assert mixing.key_of({"x": rows[0]}) != mixing.key_of({"x": rows[1]})


def test_equal_rows_are_found_by_their_content() -> None:
    from doctor.probes.training_side.data import row_contents, rows

    content = rows.Content()
    texts = ["a text of a river", "a  text of a river\n", "another text of the sea"]
    for number, (text, label) in enumerate(zip(texts, (0, 1, 0), strict=True)):
        made = row_contents.row_of({"text": text, "label": label, "id": 1})
        assert made is not None
        content.add(made, number)
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
        ("a.json", '{"rows": [\n{"text": "one"},\n{"text": }]}', 3),
        ("a.json", '{"rows": [\n{"text": "one"}\n{"text": "two"}]}', 3),
        ("a.json", '{"text": "one", "label":\n{"text": "two"}\n', 1),
        ("a.json", '\n"text, label"\n{"text": "two"}\n{"text": "three"}\n', 2),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\nsize 9\n", 1),
    ],
)
def test_a_broken_row_is_named_by_its_line(tmp_path: Path, name: str, text: str, row: int) -> None:
    from doctor.probes.training_side.data import files

    (tmp_path / name).write_text(text)
    with pytest.raises(files.BrokenRow) as error:
        list(files.Rows([str(tmp_path / name)]))
    assert error.value.row == row


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"intents": [\n{"tag": "a"},\n{"tag": "b"}],\n"version": 2}', 2),
        ('\n{"text": "one"}\n{"text": "two"}\n', 2),
        ('[\n{"text": "one"}]', 1),
        ('{"intents": [{"tag": "a"}, {"tag": "b"}], "version": 2}', 2),
        ('{"data": [{"title": "a"}, {"title": "b"}]}\n{"data": [{"title": "c"}]}\n', 2),
        ('{"rows": [\n{"text": "one"}\n]}', 1),
        ('{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}', 1),
        ('{"text": "one", "tags": ["a"]}', 1),
        ('{\n"a": [{"w": 1}],\n"b": [{"w": 2}]}', None),
        ('{\n"name": "a"}', None),
    ],
)
def test_a_json_object_that_holds_the_rows(text: str, rows: int | None, tmp_path: Path) -> None:
    from doctor.probes.training_side.data import files

    (tmp_path / "a.json").write_text(text)
    read = files.Rows([str(tmp_path / "a.json")])
    if rows is None:
        with pytest.raises(files.NotData, match="one list of rows"):
            list(read)
    else:
        assert len(list(read)) == rows


def test_files_of_two_splits_and_their_shards(tmp_path: Path) -> None:
    from doctor.probes.training_side.data import files, shards

    for number in (0, 1, 3):
        (tmp_path / f"train-0000{number}-of-00004.jsonl").write_text(f'{{"text": "{number}"}}\n')
    (tmp_path / "test.jsonl").write_text("")
    sources = files.open_path(str(tmp_path))
    assert [source.name for source in sources] == ["train", "eval"]
    record = shards.of_sources(sources)
    assert record is not None
    assert record["missing"] == ["2 of 4"]
    assert record["empty"] == ["test.jsonl"]


def test_the_files_of_a_directory_whose_own_name_names_a_split(tmp_path: Path) -> None:
    from doctor.probes.training_side.data import files

    directory = tmp_path / "my-train-data"
    (directory / "validation").mkdir(parents=True)
    for name in ("eval.jsonl", "rows.jsonl", "validation/part-0.jsonl", "validation/train.jsonl"):
        (directory / name).write_text('{"text": "one"}\n')
    found = {each.name: each.items.paths for each in files.open_path(str(directory))}
    relative = {
        name: [str(Path(path).relative_to(directory)) for path in paths]
        for name, paths in found.items()
    }
    assert relative == {
        "train": ["validation/train.jsonl"],
        "eval": ["eval.jsonl", "validation/part-0.jsonl"],
    }


@pytest.mark.parametrize(
    ("names", "small", "short"),
    [
        ("code math chat web safety", "safety", []),
        ("a-8 a-9 a-10 a-11 safety", "safety", []),
        ("a-8 a-9 a-10 a-11 a-12", "a-12", []),
        ("a-8 a-9 a-10 a-11 a-12", "a-9", ["a-9.jsonl"]),
    ],
)
def test_sizes_are_compared_within_one_series(
    tmp_path: Path, names: str, small: str, short: list[str]
) -> None:
    from doctor.probes.training_side.data import files, shards

    for name in names.split():
        row = f'{{"text": "{name}"}}\n'
        (tmp_path / f"{name}.jsonl").write_text(row * (1 if name == small else 500))
    record = shards.of_sources(files.open_path(str(tmp_path)))
    assert record is not None
    assert record["short"] == short


def test_a_batch_is_awaited_only_while_the_loader_makes_it() -> None:
    from doctor.probes.training_side.data import reading, targets

    seen = []

    def loader() -> Any:
        for _ in range(2):
            seen.append(look.awaited_since)
            yield {"x": [1]}

    look = reading.Reading(targets.Source("train", "loader", loader()))
    between = [look.awaited_since]
    between += [look.awaited_since for _ in look.batches_of(8, 60.0)]
    assert len(seen) == 2
    assert None not in seen
    assert between == [None] * 3
    assert look.awaited_since is None


def mixed(*batches: Any) -> dict[str, Any]:
    from doctor.probes.training_side.data import documents, mixing

    counts = mixing.Mixing()
    for batch in batches:
        counts.add(batch, documents.tokens_of(batch), 0)
    return counts.record(own_order=False)


@pytest.mark.parametrize("kind", ["mask", "bool", "text and image", "bfloat16"])
def test_a_sample_is_all_of_its_inputs(kind: str) -> None:
    import torch

    ones, image = torch.ones(4, 8), torch.randn(4, 8)
    batch = {
        "mask": {"mask": ones, "x": image},
        "bool": {"keep": ones.bool(), "x": image, "y": torch.zeros(4)},
        "text and image": {"input_ids": ones.long(), "pixel_values": image},
        "bfloat16": {"x": image.bfloat16()},
    }[kind]
    record = mixed(batch)
    assert (record["samples"], record["distinct"], record["constant"]) == (4, 4, 0)


def test_a_batch_of_tensors_and_a_module_without_evaluation_are_opened() -> None:
    import torch

    from doctor.probes.training_side.data import returned, targets

    net = torch.nn.Linear(8, 2)
    batch = (torch.randn(4, 8), torch.zeros(4))
    (source,) = returned.read((net, batch, torch.nn.MSELoss())).sources
    assert list(targets.items_of(source)) == [batch]
    for name in ("training_step", "configure_optimizers"):
        setattr(net, name, lambda *arguments: None)
    net.train_dataloader = lambda: [batch]  # type: ignore[assignment]
    assert [each.name for each in returned.read(net).sources] == ["train"]


def test_constant_inputs_are_counted_beside_a_mask_and_a_number() -> None:
    import torch

    batch = {"id": torch.arange(4), "mask": torch.eye(4, 8), "x": torch.zeros(4, 8)}
    record = mixed(batch)
    assert record["constant"] == 4
    equal = {"id": torch.arange(4), "x": torch.randn(1, 8).repeat(4, 1)}
    assert mixed(equal)["distinct"] == 1
    assert mixed((torch.zeros(4, 8), torch.randn(4, 8)))["constant"] == 4


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
