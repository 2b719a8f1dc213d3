"""Device nodes of GPUs that the driver holds and NVML does not list."""

from __future__ import annotations

from pathlib import Path

from doctor.probes.doctor_side.nodes import unlisted


def hold(root: Path, address: str, minor: int | None) -> None:
    folder = root / "proc/driver/nvidia/gpus" / address
    folder.mkdir(parents=True)
    text = "Model: \t NVIDIA H100 80GB HBM3\n"
    (folder / "information").write_text(
        text if minor is None else f"{text}Device Minor: \t {minor}\n"
    )


def test_only_nodes_of_unlisted_gpus_are_opened(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for minor in (0, 1):
        hold(tmp_path, f"0000:0{minor + 1}:00.0", minor)
    (tmp_path / "dev/nvidia1").write_text("")
    assert unlisted(["00000000:01:00.0"], str(tmp_path)) == {"0000:02:00.0": ""}
    assert unlisted(["00000000:01:00.0", "00000000:02:00.0"], str(tmp_path)) == {}


def test_a_node_that_does_not_open_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "dev/nvidia1").mkdir(parents=True)
    hold(tmp_path, "0000:01:00.0", 0)
    hold(tmp_path, "0000:02:00.0", 1)
    hold(tmp_path, "0000:03:00.0", None)
    assert unlisted([], str(tmp_path)) == {
        "0000:01:00.0": "ENOENT",
        "0000:02:00.0": "EISDIR",
        "0000:03:00.0": "its number is not known",
    }


def test_a_system_without_the_driver_holds_none(tmp_path: Path) -> None:
    assert unlisted([], str(tmp_path)) == {}
