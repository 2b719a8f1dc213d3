"""Pickles with arrays of joblib, as joblib 1.6 wrote them for objects of scikit-learn 1.8.

Two of the files call a harmless command (`true`) where unpickling them would reach it: in the
pickle of an array of objects, and behind the values of an array.
"""

from __future__ import annotations

import gzip
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy  # noqa: TID253
import pytest

from doctor.checkpoint.formats.pickle_inventory import take_inventory
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.io.files import LocalDirectory

DATA = Path(__file__).parent / "data"
CALLED = "posix.system"


def inventory(path: Path) -> Inventory:
    with LocalDirectory(path.parent).open(path.name) as source:
        return take_inventory(source, path.name)


@pytest.mark.parametrize("name", ["label_encoder", "objects", "pipeline"])
def test_what_lies_behind_arrays_is_read_to_the_end(name: str) -> None:
    found = inventory(DATA / f"{name}.joblib")
    assert found.pickles == 1
    assert not found.incomplete
    assert CALLED not in found.imports
    assert any(each.startswith("sklearn.") for each in found.imports)
    assert not any(each.startswith("(") for each in found.imports)
    assert not found.actions.tricks


@pytest.mark.parametrize("name", ["command_in_array", "command_behind_array"])
def test_a_command_in_an_array_or_behind_one_is_found(name: str) -> None:
    assert CALLED in inventory(DATA / f"{name}.joblib").imports


@pytest.mark.parametrize("name", ["label_encoder", "objects"])
def test_an_array_that_is_cut_is_no_end(name: str, tmp_path: Path) -> None:
    whole = (DATA / f"{name}.joblib").read_bytes()
    (tmp_path / "cut.joblib").write_bytes(whole[: len(whole) - 12])
    assert inventory(tmp_path / "cut.joblib").incomplete


def test_a_second_pickle_behind_it_is_no_end(tmp_path: Path) -> None:
    more = (DATA / "command_behind_array.joblib").read_bytes()
    whole = (DATA / "label_encoder.joblib").read_bytes()
    (tmp_path / "two.joblib").write_bytes(whole + more)
    assert "behind" in inventory(tmp_path / "two.joblib").incomplete


def test_values_that_pickle_takes_for_opcodes_are_read_so_too(tmp_path: Path) -> None:
    """pickle.load does not know where the values of an array end: what it would call counts."""
    whole = (DATA / "command_behind_array.joblib").read_bytes()
    at = whole.index(b"\x8c\x06posix") if b"\x8c\x06posix" in whole else whole.index(b"posix") - 2
    call = whole[at : whole.index(b"R", at) + 1] + b"."
    plain = b"\x80\x04\x8c\x13joblib.numpy_pickle\x8c\x11NumpyArrayWrapper\x93"
    (tmp_path / "m.pkl").write_bytes(plain + b")\x81}b" + call)
    assert CALLED in inventory(tmp_path / "m.pkl").imports


@pytest.mark.parametrize(
    "described",
    [
        {"dtype": None, "shape": (3,)},
        {"dtype": numpy.dtype("i8"), "shape": (1 << 60,)},
        {"dtype": numpy.dtype("i8"), "shape": (2,) * 5_000},
        {"dtype": numpy.dtype("i8"), "shape": (-3,)},
        {"dtype": numpy.dtype([("x", object)]), "shape": (3,)},
    ],
    ids=["no dtype", "too long", "too many", "backwards", "fields"],
)
def test_what_describes_no_array_is_no_end(
    described: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("joblib.numpy_pickle")
    wrapper = type("NumpyArrayWrapper", (), {"__module__": module.__name__})
    module.__dict__["NumpyArrayWrapper"] = wrapper
    monkeypatch.setitem(sys.modules, "joblib", types.ModuleType("joblib"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    one = wrapper()
    one.__dict__ |= described
    (tmp_path / "m.joblib").write_bytes(pickle.dumps(one, protocol=4))
    assert "known" in inventory(tmp_path / "m.joblib").incomplete


def test_a_packed_file_is_read_as_well(tmp_path: Path) -> None:
    packed = gzip.compress((DATA / "command_in_array.joblib").read_bytes())
    (tmp_path / "m.joblib.gz").write_bytes(packed)
    assert CALLED in inventory(tmp_path / "m.joblib.gz").imports
