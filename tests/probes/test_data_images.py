"""Images with boxes, points or mixed targets that do not fit to them, with sound neighbors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


class Rows(data.Dataset):  # type: ignore[misc]
    def __init__(self, rows: list[Any], change: Any = lambda row: row) -> None:
        self.rows, self.change = rows, change

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.change(self.rows[number])


def batches(rows: list[Any]) -> Any:
    return torch.stack([row[0] for row in rows]), [row[1] for row in rows]


def photograph(number: int, height: int, width: int, dark: bool = False) -> tuple[Any, Any]:
    """An image with an object, and its box."""
    image = torch.rand(3, height, width, generator=seeded(number)) * (0.0 if dark else 0.4)
    place = torch.rand(2, generator=seeded(number)) * torch.tensor([width - 21, height - 21])
    x, y = (int(each) for each in place)
    image[:, y : y + 20, x : x + 20] = 0.9
    return image, torch.tensor([[x, y, x + 20.0, y + 20.0]])


def letterboxed(way: str) -> Any:
    """Into a square, with bars above and below, left and right, or behind the image."""
    rows = []
    for number in range(64):
        high = way == "high" or (way.startswith("either") and number % 2)
        height, width = (96, 48) if high else (48, 96)
        image, box = photograph(number, height, width, way == "dark")
        top, left = (96 - height) // 2, (96 - width) // 2
        if way == "behind":
            top = left = 0
        if way == "dark":
            top = left = 0
            out = functional.pad(image, (0, 96 - width, 0, 96 - height), value=0.0)
        else:
            bars = (left, 96 - width - left, top, 96 - height - top)
            out = functional.pad(image, bars, value=0.0 if way == "either" else 0.45)
        if way in ("moved", "either moved"):
            box = box + torch.tensor([left, top, left, top])
        rows.append((out, {"boxes": box, "labels": torch.ones(1, dtype=torch.long)}))
    return data.DataLoader(Rows(rows), batch_size=8, shuffle=True, collate_fn=batches)


@pytest.mark.parametrize(
    ("way", "loud"),
    [("wide", True), ("high", True), ("either", True), ("moved", False), ("either moved", False),
     ("behind", False), ("dark", False)],
)  # fmt: skip
def test_boxes_beside_a_letterboxed_image(way: str, loud: bool, monkeypatch: Any) -> None:
    found = verdicts(letterboxed(way), monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary
    assert not loud or "bars" in found.summary


def face(number: int) -> tuple[Any, Any]:
    """An image that no mirror leaves alike, with five points."""
    image = torch.rand(1, 32, 32, generator=seeded(number)).repeat(3, 1, 1)
    points = torch.tensor([[10.0, 10], [20, 10], [15, 16], [11, 22], [19, 22]])
    return image, points + torch.rand(5, 2, generator=seeded(number))


def mirrored(way: str) -> Any:
    def change(row: tuple[Any, Any]) -> Any:
        image, points = row
        if torch.rand(()) < 0.5 and way != "never":
            image, points = image.flip(-1), points.clone()
            points[:, 0] = 31 - points[:, 0]
            if way == "swapped":
                points = points[[1, 0, 2, 4, 3]]
        return {"image": image, "landmarks": points}

    return data.DataLoader(Rows([face(n) for n in range(64)], change), batch_size=8, shuffle=True)


NAMED = "POINTS = ['left_eye', 'right_eye', 'nose', 'left_mouth', 'right_mouth']\n"
SHORT = "POINTS = 'l_eye r_eye nose l_mouth r_mouth'.split()\n"
CORNERS = "left, right = pad // 2, pad - pad // 2  # corners of a sheet\n"


@pytest.mark.parametrize(
    ("way", "code", "loud"),
    [("kept", NAMED, True), ("kept", SHORT, True), ("kept", CORNERS, False),
     ("swapped", NAMED, False), ("never", NAMED, False)],
)  # fmt: skip
def test_points_of_a_mirrored_face(
    way: str, code: str, loud: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "t.py"
    file.write_text(code)
    found = verdicts(mirrored(way), monkeypatch, str(file))["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class Mix:
    """Mixup or CutMix as people write it; `fault` is what is different."""

    def __init__(self, fault: str = "", form: str = "rows", cut: bool = False) -> None:
        self.fault, self.form, self.cut = fault, form, cut

    def __call__(self, samples: list[Any]) -> Any:
        x = torch.stack([each[0] for each in samples])
        y = torch.tensor([each[1] for each in samples])
        perm, share = torch.randperm(len(x)), 0.3 + 0.2 * float(torch.rand(()))
        if self.cut:
            mixed, kept = self.patched(x, x[perm], share)
        else:
            mixed, kept = share * x + (1 - share) * x[perm], share
        other = y[torch.randperm(len(x))] if self.fault == "permutations" else y[perm]
        kept = {"exchanged": 1 - kept, "not corrected": share}.get(self.fault, kept)
        if self.form == "two classes":
            return mixed, y, other, kept
        one, two = (functional.one_hot(each, 6).float() for each in (y, other))
        if self.fault == "not mixed":
            return mixed, one
        target = kept * one + (1 - kept) * two
        return mixed, 0.9 * target + 0.1 / 6 if self.form == "smoothed" else target

    def patched(self, x: Any, other: Any, share: float) -> tuple[Any, float]:
        size = x.shape[-1]
        side = int(size * (1 - share) ** 0.5)
        at = size - side // 2  # half of it lies beyond the border
        x = x.clone()
        x[:, :, at:, :side] = other[:, :, at:, :side]
        return x, 1 - (size - at) * side / size**2


@pytest.mark.parametrize(
    ("collate", "loud"),
    [
        (Mix("permutations"), True),
        (Mix("permutations", "two classes"), True),
        (Mix("exchanged"), True),
        (Mix("not mixed"), True),
        (Mix("not corrected", cut=True), True),
        (Mix(), False),
        (Mix(form="two classes"), False),
        (Mix(form="smoothed"), False),
        (Mix(cut=True), False),
    ],
)
def test_targets_of_mixed_inputs(collate: Any, loud: bool, monkeypatch: Any) -> None:
    kinds = torch.randint(0, 6, (96,), generator=seeded())
    images = torch.rand(96, 3, 12, 12, generator=seeded(1)) + kinds[:, None, None, None] / 6
    rows = [(image, int(kind)) for image, kind in zip(images, kinds, strict=True)]
    loader = data.DataLoader(Rows(rows), batch_size=16, shuffle=True, collate_fn=collate)
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary
    assert not loud or "mixed" in found.summary
