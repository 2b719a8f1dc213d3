"""Files that torch did not write, that only stand for weights, or that another device saved."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
from judges import judge

from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 109003992\n" % (
    b"0" * 64
)
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(100)


def verdict(code: str, path: Path) -> Verdict:
    checkpoint = scan(str(path))
    assert isinstance(checkpoint, Checkpoint)
    return judge(code)(checkpoint=checkpoint)


@pytest.mark.parametrize("named", ["directory", "file"])
@pytest.mark.parametrize(
    "name", ["model.h5", "model.keras", "net.onnx", "svc.joblib", "weights.pkl", "best.npz"]
)
def test_a_pointer_under_a_name_that_is_not_read(name: str, named: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(POINTER)
    found = verdict("CKP001", tmp_path if named == "directory" else tmp_path / name)
    assert found.status is Status.FAIL
    assert "git-LFS pointer to 109,003,992 bytes" in found.summary
    assert "lfs pull" in found.commands[-1]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "net.bin", "best.pt", "last.ckpt"])
def test_a_short_text_in_the_place_of_weights(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"# hello")
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert found.summary.startswith(f"{name} is a text of 7 bytes, no weights")
    assert found.fix


@pytest.mark.parametrize(
    "content", [pickle.dumps({"w": [1.0]}, 0), b"\x01\x02\x03" * 9, b"text " * 900]
)
def test_what_may_be_of_another_program_stays_unknown(content: bytes, tmp_path: Path) -> None:
    """A pickle of protocol 0 is text as well."""
    (tmp_path / "net.bin").write_bytes(content)
    assert verdict("CKP001", tmp_path).status is Status.UNKNOWN


def test_a_link_to_another_machine_whose_file_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").symlink_to(r"D:\runs\epoch=9.ckpt")
    found = verdict("CKP001", tmp_path / "last.ckpt")
    assert (found.status, "lies beside it" in found.summary) == (Status.FAIL, False)
    torch.save({"w": torch.ones(3)}, tmp_path / "epoch=9.ckpt")
    for target in (r"D:\runs\epoch=9.ckpt", "D:/runs/epoch=9.ckpt", "/gone/epoch=9.ckpt"):
        (tmp_path / "last.ckpt").unlink()
        (tmp_path / "last.ckpt").symlink_to(target)
        found = verdict("CKP001", tmp_path / "last.ckpt")
        assert found.status is Status.FAIL
        assert "; epoch=9.ckpt lies beside it" in found.summary
        assert "ln -sf" in (found.fix or "")


def test_a_pointer_in_the_place_of_what_tensorflow_saved(tmp_path: Path) -> None:
    (tmp_path / "model.ckpt.index").write_bytes(bytes(50))
    (tmp_path / "model.ckpt.data-00000-of-00001").write_bytes(POINTER)
    assert verdict("CKP001", tmp_path).status is Status.FAIL
    (tmp_path / "model.ckpt.data-00000-of-00001").write_bytes(b"\x01\x02" * 50)
    assert verdict("CKP001", tmp_path).status is Status.UNKNOWN


def test_a_format_that_is_not_read_is_unknown_and_named(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(HDF5)
    (tmp_path / "weights.pickle").write_bytes(pickle.dumps({"w": [1.0]}))
    found = verdict("CKP001", tmp_path / "model.h5")
    assert (found.status, "HDF5" in found.summary) == (Status.UNKNOWN, True)
    found = verdict("CKP001", tmp_path / "weights.pickle")
    assert (found.status, "plain pickles" in found.summary) == (Status.UNKNOWN, True)


def test_a_link_under_such_a_name_says_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "model.h5").symlink_to("/elsewhere/run/model.h5")
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert "/elsewhere/run/model.h5" in found.summary
    assert "cp -rL" in (found.fix or "")


@pytest.mark.parametrize("name", ["net.pkl", "net.pickle"])
def test_what_torch_saved_is_read_under_the_names_of_pickles(name: str, tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.ones(2, 2)}, tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        assert verdict("CKP001", path).status is Status.PASS
        assert verdict("CKP010", path).status is Status.PASS


def restored(module: str, name: str) -> bytes:
    """A pickle of an object of this class, restored without a call."""
    return b"\x80\x02c%s\n%s\n)\x81}b." % (module.encode(), name.encode())


def called(module: str, name: str) -> bytes:
    return b"\x80\x02c%s\n%s\n(K\x01tR." % (module.encode(), name.encode())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (restored("sklearn.linear_model._logistic", "LogisticRegression"), Status.NOTE),
        (restored("mylib.matrices", "Factors"), Status.NOTE),
        (called("sklearn.neighbors._kd_tree", "newObj"), Status.NOTE),
        (called("sklearn._loss._loss", "__pyx_unpickle_CyHalfBinomialLoss"), Status.NOTE),
        (called("mylib.matrices", "build"), Status.WARN),
        (called("os", "system"), Status.FAIL),
        (called("sklearn.utils._testing", "_run"), Status.FAIL),
    ],
)
def test_a_pickle_of_no_torch_by_what_it_does(data: bytes, status: Status, tmp_path: Path) -> None:
    """torch.load is not what reads it: its refusal says nothing, a call of what is unknown does."""
    (tmp_path / "model.pkl").write_bytes(data)
    found = verdict("CKP010", tmp_path / "model.pkl")
    assert found.status is status, found.summary
    assert "torch.load" not in found.summary


@pytest.mark.parametrize(
    ("place", "status"),
    [("cpu", Status.PASS), ("cuda:0", Status.PASS), ("mps", Status.NOTE), ("cuda:3", Status.NOTE)],
)
def test_the_device_that_storages_come_from(place: str, status: Status, tmp_path: Path) -> None:
    save_from(place, tmp_path / "model.pth")
    found = verdict("CKP001", tmp_path)
    assert found.status is status
    if status is Status.NOTE:
        assert f"was saved from {place}" in found.summary
        assert "map_location" in (found.fix or "")


def test_ranks_are_saved_from_devices_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        save_from(f"cuda:{rank}", tmp_path / f"consolidated.0{rank}.pth")
    assert verdict("CKP001", tmp_path).status is Status.PASS


def save_from(place: str, path: Path) -> None:
    """What torch.save writes where the tensor lies on that device."""
    torch.save(OrderedDict({"fc.weight": torch.ones(2, 2)}), path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            tag = b"X" + len(place).to_bytes(4, "little") + place.encode()
            archive.writestr(name, data.replace(b"X\x03\0\0\0cpu", tag))


def test_a_tokenizer_that_is_a_pointer_is_to_be_fetched(tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.ones(2, 2)}, tmp_path / "model.pt")
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    (tmp_path / "tokenizer.json").write_bytes(POINTER)
    found = verdict("CKP011", tmp_path)
    assert found.status is Status.FAIL
    assert "git lfs pull" in (found.fix or "")
    (tmp_path / "tokenizer.json").write_text("{")
    assert "save_pretrained" in (verdict("CKP011", tmp_path).fix or "")
