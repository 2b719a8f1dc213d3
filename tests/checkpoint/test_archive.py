"""Archives of Stable-Baselines3: the policy inside is read as a checkpoint of its own."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")


def stored(value: Any) -> bytes:
    data = io.BytesIO()
    torch.save(value, data)
    return data.getvalue()


def save(path: Path, value: float = 1.0, *left_out: str, first: str = "data") -> None:
    """An archive as `model.save()` writes it."""
    policy = {"mlp_extractor.policy_net.0.weight": torch.arange(32.0).reshape(8, 4) * value}
    parts = {
        "data": json.dumps({"policy_class": {":type:": "type", ":serialized:": "gAWV"}}).encode(),
        "pytorch_variables.pth": stored({}),
        "policy.pth": stored(policy),
        "policy.optimizer.pth": stored({"state": {}, "param_groups": []}),
        "_stable_baselines3_version": b"2.3.2",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name in (first, *(each for each in parts if each != first)):
            if name not in left_out:
                archive.writestr(name, parts.get(name, b""))


def scanned(path: Path) -> Checkpoint | Unknown:
    return read(ScanRequest(path=str(path)), no_stage, lambda note: None)


def verdict(code: str, path: Path) -> Verdict:
    found = scanned(path)
    assert not isinstance(found, Unknown), found.reason
    return judge(code)(checkpoint=found)


@pytest.mark.parametrize("named", [True, False])
def test_the_policy_is_read(named: bool, tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip")
    path = tmp_path / "best_model.zip" if named else tmp_path
    assert verdict("CKP001", path).status is Status.PASS
    assert verdict("CKP005", path).status is Status.PASS
    code = verdict("CKP010", path)  # stable_baselines3 unpickles what lies in `data`
    assert code.status is Status.UNKNOWN
    assert "Stable-Baselines3" in code.summary


def test_the_best_of_several_is_read(tmp_path: Path) -> None:
    for name in ("a_100_steps.zip", "best_model.zip"):
        save(tmp_path / name, first="policy.pth")
    assert "best_model.zip is the one of 2" in verdict("CKP001", tmp_path).summary


def test_values_of_the_policy_that_are_not_finite(tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip", float("nan"))
    assert verdict("CKP005", tmp_path).status is Status.FAIL


def test_an_archive_without_its_policy(tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip", 1.0, "policy.pth")
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert "best_model.zip holds no policy.pth" in found.summary


def test_an_archive_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "best_model.zip"
    save(path)
    path.write_bytes(path.read_bytes()[:-400])
    assert verdict("CKP001", tmp_path).status is Status.FAIL


@pytest.mark.parametrize("first", ["data", "readme.txt"])
def test_other_zips_are_no_archives(first: str, tmp_path: Path) -> None:
    save(tmp_path / "dataset.zip", 1.0, "_stable_baselines3_version", first=first)
    found = scanned(tmp_path)
    assert isinstance(found, Unknown) or "Stable-Baselines3" not in found.layout


def test_a_member_ends_where_the_next_one_begins(tmp_path: Path) -> None:
    from doctor.checkpoint.io.files import LocalDirectory

    (tmp_path / "a").write_bytes(b"0123456789")
    inside = LocalDirectory(tmp_path / "a", (("one", 2, 3),))
    with inside.open("one") as source:
        assert source.size == 3
        assert source.read(100, 0) == b"234"
        assert source.read(100, 2) == b"4"
        assert source.read(100, 5) == b""
        buffer = bytearray(8)
        assert source.read_into(buffer, 1) == 2
        assert buffer[:2] == b"34"
    assert inside.names() == ["one"]
    assert inside.exists("one")
    assert not inside.exists("two")
