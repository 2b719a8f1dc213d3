"""Archives of Stable-Baselines3: the policy inside is read as a checkpoint of its own."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Plan
from doctor.judge.check import Status, Verdict
from doctor.report.checkpoint import _beside

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


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


def rewritten(path: Path, *packed: str, more: tuple[str, bytes] | None = None) -> None:
    """Write an archive again, with some entries compressed and one of the same or another name."""
    with zipfile.ZipFile(path) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in (*parts, *([more] if more else [])):
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if name in packed else None)


PACKED = ("policy.pth", "pytorch_variables.pth", "policy.optimizer.pth", "extra.pth", "data")


@pytest.mark.parametrize("packed", [PACKED[:1], PACKED[2:3], PACKED])
def test_a_compressed_archive_is_not_damaged(packed: tuple[str, ...], tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip")
    rewritten(tmp_path / "best_model.zip", *packed)
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.UNKNOWN
    assert "compressed" in found.summary
    assert verdict("CKP010", tmp_path).status is Status.UNKNOWN


@pytest.mark.parametrize("packed", [(), PACKED])
@pytest.mark.parametrize("name", ["extra.pth", "policy.pth", "policy.optimizer.pth"])
def test_what_runs_in_an_archive(packed: tuple[str, ...], name: str, tmp_path: Path) -> None:
    """Compressed too, and in the second entry of a name, which is the one that Python reads."""
    save(tmp_path / "best_model.zip")
    rewritten(tmp_path / "best_model.zip", *packed, more=(name, stored({"a": Runs()})))
    assert verdict("CKP010", tmp_path).status is Status.FAIL


def test_two_entries_of_one_name(tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip")
    rewritten(tmp_path / "best_model.zip", more=("policy.pth", stored({"w": torch.ones(2)})))
    found = verdict("CKP001", tmp_path)
    assert found.status is Status.FAIL
    assert "holds 2 entries named policy.pth" in found.summary


def test_an_entry_of_two_sizes(tmp_path: Path) -> None:
    """A loader reads the smaller number of bytes, which can be another file."""
    path = tmp_path / "best_model.zip"
    save(path)
    data = path.read_bytes()
    at = data.rindex(b"policy.pth", 0, data.rindex(b"policy.optimizer.pth")) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    size = int.from_bytes(data[at + 24 : at + 28], "little")
    path.write_bytes(data[: at + 24] + (size - 10).to_bytes(4, "little") + data[at + 28 :])
    found = verdict("CKP001", path)
    assert found.status is Status.FAIL
    assert "policy.pth with two sizes" in found.summary


def stepped(*shapes: tuple[int, ...]) -> bytes:
    """The state of an optimizer after one step."""
    weights = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
    optimizer = torch.optim.Adam(weights)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    return stored(optimizer.state_dict())


@pytest.mark.parametrize(
    "names", [("policy.optimizer.pth",), ("actor.optimizer.pth", "critic.optimizer.pth"), ()]
)
def test_an_archive_holds_the_optimizer(names: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "best_model.zip"
    save(path, 1.0, "policy.optimizer.pth", "policy.pth")
    weights = {"actor.w": torch.ones(8, 4), "critic.w": torch.ones(8, 4), "target.w": torch.ones(8)}
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("policy.pth", stored(weights))
        for name in names:
            archive.writestr(name, stepped((8, 4)))
    found = read(ScanRequest(path=str(path), plan=Plan()), no_stage, lambda note: None)
    assert not isinstance(found, Unknown), found.reason
    complete = judge("CKP019")(checkpoint=found)
    if not names:
        assert complete.status is Status.FAIL
        return
    assert complete.status is Status.NOTE, complete.summary
    assert judge("CKP009")(checkpoint=found).status is Status.PASS
    fits = judge("CKP014")(checkpoint=found)
    assert fits.status is Status.PASS, fits.summary
    assert fits.summary.startswith(f"{len(names)} entries")


def test_what_was_not_read_imports_not_nothing(tmp_path: Path) -> None:
    save(tmp_path / "best_model.zip")
    found = scanned(tmp_path)
    assert isinstance(found, Checkpoint)
    lines = [text for _, text in _beside(found)]
    assert "data was not read" in lines
    assert "pytorch_variables.pth imports nothing" in lines


def test_a_cut_archive_is_not_said_to_have_more(tmp_path: Path) -> None:
    """The directories of the files inside are none of the archive."""
    path = tmp_path / "best_model.zip"
    save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "cut short" in verdict("CKP001", path).summary


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
