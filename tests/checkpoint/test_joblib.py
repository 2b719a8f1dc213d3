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
from judges import judge
from safetensors.numpy import save_file  # noqa: TID253

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.formats.joblib_pickles import UNCERTAIN
from doctor.checkpoint.formats.pickle_inventory import take_inventory
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status, Verdict

DATA = Path(__file__).parent / "data"
CALLED = "posix.system"


def inventory(path: Path) -> Inventory:
    with LocalDirectory(path.parent).open(path.name) as source:
        return take_inventory(source, path.name)


def loaded(path: Path) -> Verdict:
    found = read(ScanRequest(path=str(path)), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint)
    return judge("CKP010")(checkpoint=found)


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def array(code: str, shape: bytes, state: bytes = b"") -> bytes:
    """What joblib writes before the values of an array."""
    described = b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}("
    dtype = b"cnumpy\ndtype\n" + text(code) + b"\x89\x88\x87R" + state
    described += text("subclass") + b"cnumpy\nndarray\n" + text("shape") + shape + text("order")
    described += text("C") + text("dtype") + dtype + text("allow_mmap") + b"\x89"
    return described + text("numpy_array_alignment_bytes") + b"Nub"


BEGIN = b"\x80\x02"
COMMAND = b"cos\nsystem\n" + text("true") + b"\x85R0N."
ONE, TWO = b"K\x01\x85", b"K\x02\x85"
LONGER = b"(K\x03" + text("|") + b"NNNK\x40K\x01K\x00tb"
HOSTILE = {
    "size in the state": BEGIN + array("S1", ONE, LONGER) + b"0N.".ljust(64, b"\0") + COMMAND,
    "array in an array": BEGIN
    + array("u1", TWO)
    + b"N.0"
    + array("O8", ONE)
    + BEGIN
    + array("u1", b"K" + bytes([len(COMMAND)]) + b"\x85")
    + COMMAND
    + b"..",
    "fields": BEGIN + array("V2", ONE) + b"N." + COMMAND,
    "name in escapes": BEGIN.replace(b"\x02", b"\x04")
    + array("S1", ONE, LONGER).replace(
        b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n",
        b"Vjoblib\nVnumpy_pickle.Numpy\\u0041rrayWrapper\n\x93",
    )
    + b"0N.".ljust(64, b"\0")
    + COMMAND,
}


@pytest.mark.parametrize("name", ["label_encoder", "objects", "pipeline"])
def test_what_lies_behind_arrays_is_read_and_never_known_to_be_all(name: str) -> None:
    found = inventory(DATA / f"{name}.joblib")
    assert found.pickles == 1
    assert found.incomplete == UNCERTAIN
    assert CALLED not in found.imports
    assert any(each.startswith("sklearn.") for each in found.imports)
    assert not any(each.startswith("(") for each in found.imports)
    assert not found.actions.tricks


@pytest.mark.parametrize("name", HOSTILE)
def test_arrays_that_hide_a_command_are_no_end(name: str, tmp_path: Path) -> None:
    """Files that `joblib.load` runs a command of; they are read and never loaded."""
    (tmp_path / "scaler.joblib").write_bytes(HOSTILE[name])
    found = inventory(tmp_path / "scaler.joblib")
    assert found.incomplete or "os.system" in found.imports
    save_file({"w": numpy.ones((2, 2), "f4")}, tmp_path / "model.safetensors")
    verdict = loaded(tmp_path)
    assert verdict.status in (Status.FAIL, Status.UNKNOWN)
    assert "os.system" in verdict.summary or "not read to the end" in verdict.summary


def test_a_complaint_says_too_that_it_is_not_all(tmp_path: Path) -> None:
    (tmp_path / "model.joblib").write_bytes((DATA / "pipeline.joblib").read_bytes())
    verdict = loaded(tmp_path)
    assert "not read to the end: model.joblib has arrays of joblib" in verdict.summary


@pytest.mark.parametrize("name", ["command_in_array", "command_behind_array"])
def test_a_command_in_an_array_or_behind_one_is_found(name: str) -> None:
    assert CALLED in inventory(DATA / f"{name}.joblib").imports


@pytest.mark.parametrize("name", ["label_encoder", "objects"])
def test_an_array_that_is_cut_is_no_end(name: str, tmp_path: Path) -> None:
    whole = (DATA / f"{name}.joblib").read_bytes()
    (tmp_path / "cut.joblib").write_bytes(whole[: len(whole) - 12])
    assert inventory(tmp_path / "cut.joblib").incomplete


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
