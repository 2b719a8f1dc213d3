"""One checkpoint read by several nodes: the same findings as on one machine."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import command
import msgspec
import nodes
import pytest

from doctor._util.records import Unknown
from doctor.checkpoint.analysis.value_shares import join_values, of_share
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.records import Checkpoint, Values
from doctor.fleet.checkpoint import Identity, read_all
from doctor.fleet.messages import Reply
from doctor.probes.doctor_side.checkpoint_identity import identity

VOLATILE = {"seconds", "threads"}


def checkpoint(directory: Path, *, broken: bool = True) -> Path:
    """Two shards of 6 MiB, with NaN over the middle of a large tensor and large fp16 values."""
    numpy = pytest.importorskip("numpy")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    directory.mkdir()
    random = numpy.random.default_rng(0)
    for shard in range(2):
        tensors = {
            f"layers.{shard}.{name}.weight": random.normal(0, 0.02, (1536, 1024)).astype("float16")
            for name in ("q_proj", "up_proj")
        }
        if broken:
            tensors[f"layers.{shard}.q_proj.weight"][700:900, 3] = numpy.nan
            tensors[f"layers.{shard}.up_proj.weight"][5, 5] = 60000
        save_file(tensors, directory / f"model-0000{shard + 1}-of-00002.safetensors")
    return directory


def values_of(directory: Path, share: tuple[int, int]) -> Values:
    from contextlib import nullcontext

    request = ScanRequest(path=str(directory), deep=True, share=share)
    found = read(request, lambda stage: nullcontext(), lambda note: None)
    assert isinstance(found, Checkpoint)
    assert isinstance(found.values, Values)
    return found.values


def steady(values: Values) -> dict[str, object]:
    return {key: value for key, value in msgspec.to_builtins(values).items() if key not in VOLATILE}


@pytest.mark.parametrize("count", [2, 3, 7])
def test_shares_together_are_the_whole(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are made small, so that shares end within tensors."""
    monkeypatch.setattr("doctor.checkpoint.analysis.value_reader.PIECE", 512 * 1024)
    directory = checkpoint(tmp_path / "model")
    whole = values_of(directory, (0, 1))
    parts = [values_of(directory, (index, count)) for index in range(count)]
    assert len(whole.nonfinite) == 2
    assert whole.nonfinite[0].nan == 200
    assert steady(join_values(parts)) == steady(whole)
    assert max(part.bytes for part in parts) < 2 * whole.bytes / count


@pytest.mark.parametrize("sizes", [[1], [5, 5, 5, 5], [100, 1, 1, 1], [0, 0], []])
def test_each_item_is_in_one_share(sizes: Sequence[int]) -> None:
    items = list(enumerate(sizes))
    shares = [of_share(items, lambda item: item[1], (index, 3)) for index in range(3)]
    assert [item for share in shares for item in share] == items


def test_another_byte_is_another_identity(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "model")
    before = identity(str(directory))
    assert before["files"] == 2
    assert identity(str(directory)) == before
    with (directory / "model-00002-of-00002.safetensors").open("r+b") as file:
        file.seek(-3, 2)
        file.write(b"\x01")
    assert identity(str(directory))["digest"] != before["digest"]


def findings(text: str) -> dict[str, tuple[str, str]]:
    """Code -> status and summary, of the checkpoint's checks."""
    return {
        each["code"]: (each["status"], each["summary"])
        for each in json.loads(text)["findings"]
        if each["code"].startswith("CKP")
    }


def fleet_of(count: int, *flags: str) -> nodes.Nodes:
    return nodes.Nodes(
        count,
        flags=("--deep", "--format", "json", "--no-config", *flags),
        command=(*nodes.DOCTOR, "fleet", "scan"),
        secret="0123456789abcdef",
        deadline=3600,
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_findings_are_those_of_one_machine(count: int, tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "model")
    alone = command.doctor("scan", directory, "--deep", "--format", "json", "--no-config")
    assert alone.returncode == 1
    fleet = fleet_of(count, str(directory))
    try:
        codes = fleet.run()
        assert codes == {0: 1, **dict.fromkeys(range(1, count), 0)}, fleet.nodes[0].stderr
        assert findings(fleet.nodes[0].stdout) == findings(alone.stdout)
    finally:
        fleet.end()


@pytest.mark.slow
def test_a_node_with_other_files_reads_nothing_and_is_named(tmp_path: Path) -> None:
    """Its path is the same and its file is not, as on a local disk."""
    directory, other = checkpoint(tmp_path / "model", broken=False), tmp_path / "other"
    for file in checkpoint(other).iterdir():
        os.utime(file, (0, 0))  # copies of one second differ in the middle only, which is no sample
    link = tmp_path / "link"
    link.symlink_to(directory)
    fleet = fleet_of(3)
    try:
        fleet.start(0, str(directory))
        fleet.start(1, str(other))
        fleet.start(2, str(link))
        assert fleet.codes()[0] == 1
        report = json.loads(fleet.nodes[0].stdout)
        by_code = {each["code"]: each for each in report["findings"]}
        assert by_code["FLT009"]["status"] == "fail"
        assert "n1" in by_code["FLT009"]["summary"]
        assert by_code["CKP005"]["status"] == "pass"
        assert by_code["FLT015"]["status"] == "pass"
    finally:
        fleet.end()


class SilentFleet:
    """Orders that nobody answers, at their deadline."""

    deadline = 0.0

    def ask(self, *args: object) -> dict[int, Reply]:
        return {}


def test_a_share_of_the_first_node_that_is_late_leaves_the_values_unknown() -> None:
    own = Identity(files=1, bytes=10**9, digest="d", place="p")
    reading = threading.Event()

    def read(share: tuple[int, int]) -> Values | Unknown:
        reading.wait(60)
        return Unknown(reason="too late")

    orders: Any = SilentFleet()
    values = read_all(orders, {0: "n0", 1: "n1"}, [0, 1], own, read)
    reading.set()
    assert isinstance(values, Unknown)
    assert "n0: its share was not read before the deadline" in values.reason
