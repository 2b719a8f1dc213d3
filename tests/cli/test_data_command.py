"""`doctor data` on real loaders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import model_folders
import pytest
from command import doctor
from paths import ROOT

CASES = ROOT / "tests" / "corpus" / "data"

pytestmark = pytest.mark.slow


def examined(tmp_path: Path, case: str, *flags: str, code: int = 0) -> dict[str, str]:
    """Code of the check -> status."""
    report = reported(tmp_path, case, *flags, code=code)
    return {finding["code"]: finding["status"] for finding in report["findings"]}


def reported(tmp_path: Path, case: str, *flags: str, code: int = 0) -> dict[str, Any]:
    for file in CASES.glob("*.py"):
        shutil.copy(file, tmp_path)
    done = doctor("data", case, "--format", "json", *flags, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_healthy_loader_passes(tmp_path: Path) -> None:
    statuses = examined(tmp_path, "chats.py:healthy")
    assert not {"warn", "fail"} & set(statuses.values())
    assert [statuses[f"DAT00{n}"] for n in (1, 2, 3, 4, 5, 6)] == ["pass"] * 6


def test_the_text_of_an_exception_is_not_reported(tmp_path: Path) -> None:
    report = reported(tmp_path, "chats.py:raises", code=1)
    assert "KeyError at chats.py:" in json.dumps(report)
    assert "the secret of a row" not in json.dumps(report)


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("nothing.py:make", "no such Python file"),
        ("chats.py", "name a function"),
        ("nothing", "no such file"),
    ],
)
def test_a_target_that_does_not_exist_is_one_line(tmp_path: Path, target: str, word: str) -> None:
    shutil.copy(CASES / "chats.py", tmp_path)
    done = doctor("data", target, cwd=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_line_behind_the_samples_that_is_broken_is_named(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"a text about number {n}"}) for n in range(400)]
    lines[349] = '{"text": "the secret of a row'
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    report = reported(tmp_path, "rows.jsonl", "--samples", "64", code=1)
    (found,) = (f for f in report["findings"] if f["status"] == "fail")
    assert found["code"] == "DAT018"
    assert "in line 350" in found["summary"]
    assert "secret" not in json.dumps(report)


def test_two_files_are_two_splits(tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"a text about number {n}, and more"}) for n in range(300)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows[:200]))
    (tmp_path / "b.jsonl").write_text("\n".join(rows[150:]))
    done = doctor("data", "a.jsonl", "b.jsonl", "--format", "json", cwd=tmp_path)
    found = {f["code"]: f["summary"] for f in json.loads(done.stdout)["findings"]}
    assert "50 of 150 rows of eval are in train, too" in found["DAT007"]


def test_a_function_has_no_second_file(tmp_path: Path) -> None:
    shutil.copy(CASES / "chats.py", tmp_path)
    (tmp_path / "b.jsonl").write_text('{"text": "one"}')
    done = doctor("data", "chats.py:healthy", "b.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("doctor: TARGET chats.py:healthy: no file of rows")


DYING = """
import os
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 128
    def __getitem__(self, number):
        if number == 40:
            os._exit(3)
        return {"x": torch.randn(8), "labels": torch.tensor(number % 3)}
def make():
    return torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2)
"""


def test_rows_that_end_a_worker_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    report = reported(tmp_path, "dying.py:make", code=1)
    (found,) = (f for f in report["findings"] if f["status"] == "fail")
    assert found["code"] == "DAT018"


def test_content_is_shown_on_request_only_and_in_private_files(tmp_path: Path) -> None:
    shutil.copy(CASES / "chats.py", tmp_path)
    flags = ("--show", "2", "--output", "html=page.html")
    done = doctor("data", "chats.py:healthy", *flags, cwd=tmp_path)
    assert "[+" in done.stdout
    assert "[_" in done.stdout
    page = tmp_path / "page.html"
    assert page.stat().st_mode & 0o077 == 0
    assert "mark-trained" in page.read_text()
    assert "[+" not in doctor("data", "chats.py:healthy", cwd=tmp_path).stdout


def test_numbers_of_tensors_are_shown(tmp_path: Path) -> None:
    (tmp_path / "sorted.py").write_text(SORTED)
    shown = doctor("data", "sorted.py:make", "--show", "2", cwd=tmp_path).stdout
    assert "train, row 1  [0] min -" in shown
    assert "[+" not in shown
    assert "[0] min" not in doctor("data", "sorted.py:make", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (lambda n: {"prompt": f"What is {n} plus 1?", "completion": f"It is {n + 1}."}, True),
        (lambda n: {"width": n / 7, "height": n % 13 / 3, "kind": f"plant {n % 3}"}, False),
    ],
)
def test_the_verdict_says_that_texts_alone_were_judged(
    tmp_path: Path, row: Any, said: bool
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row(n)) + "\n" for n in range(40)))
    last = doctor("data", "rows.jsonl", cwd=tmp_path).stdout.splitlines()[-1]
    assert last.startswith("READY")
    assert ("--tokenizer DIR adds them" in last) is said


def test_run_judges_the_batch_of_its_step(tmp_path: Path) -> None:
    shutil.copy(CASES / "chats.py", tmp_path)
    flags = ("--device", "cpu", "--quick", "--format", "json")
    done = doctor("run", "--model", "chats.py:shifted", *flags, cwd=tmp_path)
    found = {f["code"]: f["status"] for f in json.loads(done.stdout)["findings"]}
    assert found["DAT006"] == "fail"
    assert found["DAT015"] == "pass"


SORTED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def make():
    x = torch.randn(128, 8, generator=torch.Generator().manual_seed(1))
    rows = TensorDataset(x, torch.arange(128) // 32)
    return torch.nn.Linear(8, 4), DataLoader(rows, batch_size=8), torch.nn.CrossEntropyLoss()
"""


def test_a_run_judges_the_loader_of_its_model(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(SORTED)
    flags = ("--device", "cpu", "--only", "DAT", "--format", "json")
    done = doctor("run", "--model", "own.py:make", *flags, cwd=tmp_path)
    found = {each["code"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["DAT009"]["status"] == "warn"
    alone = reported(tmp_path, "own.py:make")
    same = next(each for each in alone["findings"] if each["code"] == "DAT009")
    assert same["summary"] == found["DAT009"]["summary"]


MASKED = """
import torch
from torch.utils.data import DataLoader

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)

    def forward(self, input_ids, labels):
        logits = self.out(self.embed(input_ids))[:, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss}

def make():
    rows = [{"input_ids": torch.randint(3, 50, (12,)), "labels": torch.full((12,), -100)}
            for _ in range(64)]
    return Words(), DataLoader(rows, batch_size=8)
"""


@pytest.mark.parametrize(
    ("only", "expected"),
    [("SMK,DAT", {"DAT001": "fail", "SMK006": "unknown"}), ("SMK", {"SMK006": "fail"})],
)
def test_a_lack_of_labels_fails_once(tmp_path: Path, only: str, expected: dict[str, str]) -> None:
    (tmp_path / "own.py").write_text(MASKED)
    flags = ("--device", "cpu", "--only", only, "--format", "json", "--save-facts", "facts.json")
    done = doctor("run", "--model", "own.py:make", *flags, cwd=tmp_path)
    found = {each["code"]: each["status"] for each in json.loads(done.stdout)["findings"]}
    assert {code: found.get(code) for code in ("DAT001", "SMK006")} == {"DAT001": None} | expected
    data = json.loads((tmp_path / "facts.json").read_text()).get("data")
    assert (data is not None) is ("DAT" in only)


def test_a_run_judges_rows_with_a_directory(tmp_path: Path) -> None:
    model_folders.with_tokenizer(tmp_path / "llama", 160, 0)
    words = [f"w{number}" for number in range(140)]
    lines = [json.dumps({"text": " ".join(words[n : n + 30])}) for n in range(64)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    flags = ("--device", "cpu", "--hf", "llama", "--data", "rows.jsonl", "--format", "json")
    done = doctor("run", *flags, "--save-facts", "facts.json", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    found = {each["code"]: each["status"] for each in json.loads(done.stdout)["findings"]}
    assert found["DAT018"] == "pass"
    assert not {code for code, how in found.items() if how == "fail" and code.startswith("DAT")}
    (split,) = json.loads((tmp_path / "facts.json").read_text())["data"]["splits"]
    assert split["rows"] == 64


def test_data_of_a_run_need_a_model_and_must_exist(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for flags, words in (
        (("--data", "rows.jsonl"), "--data requires --hf"),
        (("--hf", ".", "--data", "rows.jsonl"), "--data rows.jsonl: no such file"),
    ):
        done = doctor("run", "--device", "cpu", *flags, cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
