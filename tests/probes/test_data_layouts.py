"""Data whose shape or values hide a fault that their type does not show, each with a sound
neighbor."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import examined, verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import graphs  # noqa: E402

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


class Rows(data.Dataset):  # type: ignore[misc]
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def loader(rows: list[Any]) -> Any:
    return data.DataLoader(Rows(rows), batch_size=16)


class Scored(torch.nn.Module):  # type: ignore[misc]
    """A classifier of images, or of columns."""

    def __init__(self, columns: int = 0) -> None:
        super().__init__()
        pooled = (torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.net = torch.nn.Sequential(*(pooled if not columns else ()))
        self.head = torch.nn.Linear(columns or 4, 1)

    def forward(self, inputs: Any, labels: Any) -> Any:
        score = self.head(self.net(inputs)).squeeze(1)
        return {"loss": functional.binary_cross_entropy_with_logits(score, labels.float())}


MEAN, STD = torch.tensor([0.48, 0.46, 0.41]), torch.tensor([0.23, 0.22, 0.27])


def image(number: int, way: str) -> Any:
    """Of bytes: a colored ground with lighter objects and a little noise."""
    plain = torch.tensor([90.0, 150.0, 60.0]).repeat(24, 24, 1)
    top, left = torch.randint(0, 12, (2,), generator=seeded(number)).tolist()
    plain[top : top + 10, left : left + 10] = torch.tensor([200.0, 170.0, 140.0])
    plain = (plain + 6 * torch.randn(24, 24, 3, generator=seeded(number))).round().clamp(0, 255)
    first = plain.reshape(3, 24, 24) if way == "reshaped" else plain.permute(2, 0, 1)
    if way == "multiplied":
        return first * 16.06
    if way == "large":
        return first * 4.0 + torch.rand(3, 24, 24, generator=seeded(number))
    scaled = first if way == "divided" else first / 255
    return (scaled - MEAN[:, None, None]) / STD[:, None, None]


@pytest.mark.parametrize(
    ("way", "status", "word"),
    [
        ("sound", Status.PASS, "values from"),
        ("divided", Status.WARN, "a mean and a deviation of 0 to 1"),
        ("reshaped", Status.WARN, "colours and places are mixed"),
        ("multiplied", Status.NOTE, "nothing states the range"),
        ("large", Status.NOTE, "nothing states the range"),
    ],
)
def test_the_scale_and_the_layout_of_images(
    monkeypatch: Any, way: str, status: Status, word: str
) -> None:
    rows = [{"inputs": image(n, way), "labels": n % 2} for n in range(64)]
    found = verdicts((Scored(), loader(rows)), monkeypatch)["DAT010"]
    assert (found.status, word in found.summary) == (status, True), found.summary


@pytest.mark.parametrize(
    ("classes", "rows", "loud"), [(1, 96, True), (2, 96, False), (1, 48, False)]
)
def test_a_loss_that_gets_one_class(monkeypatch: Any, classes: int, rows: int, loud: bool) -> None:
    values = torch.randn(rows, 4, generator=seeded())
    # the other class is rare, and behind the rows of the batches that are read
    each = [{"inputs": x, "labels": float(n < rows - classes + 1)} for n, x in enumerate(values)]
    found = examined((Scored(4), loader(each)), monkeypatch).relations
    assert any(one.kind == "one class taught" for one in found) is loud


@pytest.mark.parametrize("held", [True, False])
def test_a_column_of_the_input_that_is_the_target(monkeypatch: Any, held: bool) -> None:
    series = torch.randn(400, 3, generator=seeded())
    rows = [
        {"inputs": series[n : n + 8, int(not held) :], "target": series[n : n + 8, 0]}
        for n in range(200)
    ]
    found = verdicts(loader(rows), monkeypatch)["DAT024"]
    assert (found.status is Status.WARN) is held
    assert ("column 0" in found.summary and "column" in (found.fix or "")) is held


def test_graphs_that_get_edges_of_others_are_not_counted_as_without() -> None:
    owners = torch.tensor([0] * 3 + [1] * 3 + [2] * 8)
    edges = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 0, 4, 3, 0]])
    batch = {"x": torch.randn(14, 2), "edge_index": edges, "batch": owners}
    (found,) = (e for e in graphs.of_joined([batch]) if e["kind"] == "edges not moved")
    assert (found["part"], found["whole"]) == (1, 2)


class Packed(torch.nn.Module):  # type: ignore[misc]
    """A decoder that needs the number of each token's document."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mixed = torch.nn.Embedding(40, 16), torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 40)

    def forward(self, x: Any, y: Any, doc: Any) -> Any:
        sees = (doc[:, :, None] == doc[:, None]) & torch.ones(x.shape[1], x.shape[1]).tril().bool()
        made = self.table(x)
        mixed = (sees / sees.sum(2, keepdim=True)) @ self.mixed(made)
        logits = self.head((made + mixed).tanh())
        return {"loss": functional.cross_entropy(logits.flatten(0, 1), y.flatten())}


def test_a_step_gets_the_numbers_of_documents(monkeypatch: Any) -> None:
    tokens = torch.randint(1, 40, (64, 25), generator=seeded())
    numbers = (torch.arange(24) >= 10).long()
    rows = [{"x": each[:-1], "y": each[1:], "doc": numbers} for each in tokens]
    found = verdicts((Packed(), loader(rows)), monkeypatch)
    assert found["DAT006"].status is Status.PASS, found["DAT006"].summary
    assert found["DAT015"].status is Status.PASS, found["DAT015"].summary
