"""Flags of `doctor scan` that name other files: adapters with weights, and plans to continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor._util.errors import UserError
from doctor.checkpoint.records import Plan
from doctor.cli.continuing import plan_of
from doctor.cli.scan import ScanOptions, weighted


def test_an_adapter_with_a_weight(tmp_path: Path) -> None:
    plain, odd = tmp_path / "adapter", tmp_path / "step=100"
    plain.mkdir()
    odd.mkdir()
    assert weighted(str(plain)) == (str(plain), 1.0)
    assert weighted(f"{plain}=0.5") == (str(plain), 0.5)
    assert weighted(str(odd)) == (str(odd), 1.0)
    assert weighted(f"{odd}=-2") == (str(odd), -2.0)


@pytest.mark.parametrize("text", ["absent", "{}=half", "{}=nan", "absent=1"])
def test_what_is_no_adapter(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError):
        weighted(text.format(tmp_path))


def test_a_base_needs_adapters(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--adapter"):
        ScanOptions(merged_from=str(tmp_path)).request()
    with pytest.raises(UserError, match="--equals"):
        ScanOptions(equals=str(tmp_path / "absent")).request()


def test_flags_of_a_plan_need_continue(tmp_path: Path) -> None:
    assert plan_of(False, None, None, None) is None
    assert plan_of(True, 4, None, None) == Plan(gpus=4)
    with pytest.raises(UserError, match="--gpus needs --continue"):
        plan_of(False, 4, None, None)
    with pytest.raises(UserError, match="train"):
        plan_of(True, None, str(tmp_path / "train.py"), None)
