"""What a dataset holds beside its rows, against the rows: dates, files, answers."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import dates  # noqa: E402

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)
DAYS = [datetime.date(2022, 1, 1) + datetime.timedelta(days=n) for n in range(500)]


@pytest.mark.parametrize(
    ("form", "by_text", "found"),
    [
        ("%d/%m/%Y", True, True), ("%m/%d/%Y", True, True), ("%d.%m.%Y 00:00", True, True),
        ("%d %b %Y", True, True), ("%d/%m/%Y", False, False), ("%Y-%m-%d", True, False),
        ("%Y%m%d", True, False), ("sensor %d", True, False),
    ],
)  # fmt: skip
def test_dates_in_the_order_of_text(form: str, by_text: bool, found: bool) -> None:
    texts = [day.strftime(form) for day in DAYS]
    assert dates.sorted_as_text(sorted(texts) if by_text else texts) is found


class Windows(data.Dataset):  # type: ignore[misc]
    def __init__(self, form: str) -> None:
        self.dates = sorted(day.strftime(form) for day in DAYS)
        self.values = torch.rand(500, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return 400

    def __getitem__(self, number: int) -> Any:
        return self.values[number : number + 28], self.values[number + 28 : number + 35]


@pytest.mark.parametrize(("form", "loud"), [("%d/%m/%Y", True), ("%Y-%m-%d", False)])
def test_windows_of_misordered_days(form: str, loud: bool, monkeypatch: Any) -> None:
    loader = data.DataLoader(Windows(form), batch_size=32, shuffle=True)
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class Pictures(data.Dataset):  # type: ignore[misc]
    """Files, and a line for each."""

    def __init__(self, paths: list[str], lines: list[str]) -> None:
        self.paths, self.lines = paths, lines

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Any:
        image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(number))
        return {"image": image, "label": len(self.lines[number])}


READ = "class P:\n  def __init__(self):\n    self.paths = sorted(glob('*.png'))\n    {}\n"
LINES = "with open(f) as file:\n      self.lines = [line.strip() for line in file]"
TABLE = "table = pd.read_csv(f)\n    self.lines = table['caption'].tolist()"
LOADED = "self.lines = json.load(open(f))"
BY_NAME = "captions = json.load(open(f))\n    self.lines = [captions[p] for p in self.paths]"
NAMES = "self.lines = [p.split('_')[0] for p in self.paths]"
PLAIN, PADDED = "{}.png", "{:03d}.png"


@pytest.mark.parametrize(
    ("form", "code", "loud"),
    [(PLAIN, LINES, True), (PLAIN, TABLE, True), (PLAIN, LOADED, True), (PADDED, LINES, False),
     (PLAIN, BY_NAME, False), (PLAIN, NAMES, False)],
)  # fmt: skip
def test_lines_beside_files_in_the_order_of_text(
    form: str, code: str, loud: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    paths = sorted(form.format(number) for number in range(64))
    file = tmp_path / "t.py"
    file.write_text(READ.format(code))
    loader = data.DataLoader(Pictures(paths, ["ab", "abc"] * 32), batch_size=8, shuffle=True)
    found = verdicts(loader, monkeypatch, str(file))["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class Tokenizer:
    """A token for each letter."""

    eos_token_id, pad_token_id = 1, 0

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(each) for each in ids if each > 31)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(each) for each in ids]


class Questions(data.Dataset):  # type: ignore[misc]
    def __init__(self, moved: int, flat: bool) -> None:
        self.examples, self.features = [], []
        for number in range(48):
            answer = f"{100 + 7 * number} days"
            text = f"{'well ' * (number % 3)}serve it after {answer} of use"
            start = text.index(answer)
            held = {"text": [answer], "answer_start": [start]}
            row = {"context": text, "answer_text": answer}
            self.examples.append(
                {"answer": answer, "answer_start": start} if flat else {**row, "answers": held}
            )
            ids = torch.tensor([ord(each) for each in text.ljust(48)])
            span = {
                "start_positions": start + moved,
                "end_positions": start + len(answer) - 1 + moved,
            }
            self.features.append({"input_ids": ids, "attention_mask": (ids != 32).long(), **span})
            self.features[-1]["attention_mask"][: len(text)] = 1

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, number: int) -> Any:
        return self.features[number]


@pytest.mark.parametrize(("moved", "flat"), [(6, False), (-7, True), (0, False), (0, True)])
def test_spans_against_the_answers_that_are_held(moved: int, flat: bool, monkeypatch: Any) -> None:
    loader = data.DataLoader(Questions(moved, flat), batch_size=8)
    found = verdicts((loader, Tokenizer()), monkeypatch)["DAT022"]
    assert (found.status in LOUD) is bool(moved), found.summary


@pytest.mark.parametrize(("form", "found"), [("%d/%m/%Y", True), ("%Y-%m-%d", False)])
def test_tables_that_are_sorted_by_dates(form: str, found: bool, monkeypatch: Any) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(pandas.DataFrame, "sort_values", pandas.DataFrame.sort_values)
    table = pandas.DataFrame({"day": [day.strftime(form) for day in DAYS], "units": range(500)})
    look = dates.Sorted()
    table.sort_values("units")
    assert not look.records()
    assert list(table.sort_values(["day"], ascending=False).columns) == ["day", "units"]
    assert bool(look.records()) is found
