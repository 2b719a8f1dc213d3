"""Lists of files that belong together by their place, one of them with zeros before its numbers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.data import paired_files  # noqa: E402

PLAIN = [f"images/field_{n}.npy" for n in range(1, 25)]
PADDED = [f"density/field_{n:03d}.npy" for n in range(1, 25)]
DAYS = [f"x/2020-{m:02d}-{d:02d}.npy" for m in (1, 2) for d in range(1, 13)]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        (sorted(PLAIN), sorted(PADDED), True),
        ([Path(each) for each in sorted(PLAIN)], [Path(each) for each in sorted(PADDED)], True),
        # by number, dates in their order, and names that are no partners
        (PLAIN, PADDED, False),
        (DAYS, [each.replace("-0", "-") for each in DAYS], False),
        (sorted(PLAIN), sorted(f"m/{n:03d}_cell.npy" for n in range(1, 25)), False),
        # 01 and 1 are two files
        ([*PLAIN, "images/field_01.npy"], [*reversed(PADDED), "density/field_30.npy"], False),
    ],
)
def test_files_sorted_as_text_beside_padded_ones(
    ours: list[str], theirs: list[str], found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = SimpleNamespace(images=ours, maps=theirs)
    monkeypatch.setattr(paired_files.rows, "dataset_of", lambda source: source)
    records = paired_files.of_source(held)
    assert [each["kind"] for each in records] == ["files unpaired"] * found
