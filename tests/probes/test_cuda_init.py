"""cuInit's answers, from a fake driver in C, and what the checks make of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from fake_driver import Ask, begin, driver_of, driver_verdict

from doctor.judge.check import Owner, Status

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(
        shutil.which("gcc") is None or sys.platform != "linux",
        reason="the fake driver is built with gcc, for Linux",
    ),
]


@pytest.mark.parametrize(
    ("code", "said", "owner"),
    [
        (802, "CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized", Owner.MACHINE),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", Owner.ENVIRONMENT),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", Owner.ENVIRONMENT),
        (100, "CUDA_ERROR_NO_DEVICE (100)", Owner.ENVIRONMENT),
        (719, "CUDA_ERROR_LAUNCH_FAILED (719)", Owner.ENVIRONMENT),
        (7777, "CUDA error (7777)", Owner.ENVIRONMENT),
    ],
)
def test_cuda_error_is_read_and_judged(ask: Ask, code: int, said: str, owner: Owner) -> None:
    cuda = ask("cuda_init", CUDA_INIT=str(code))
    assert cuda.ended.code == code
    assert cuda.ended.detail == f"cuInit: {said}"
    verdict = driver_verdict(driver_of(ask(), cuda))
    assert (verdict.status, verdict.owner) == (Status.FAIL, owner)
    assert said in verdict.summary


def root_with(directory: Path, devices: str, *nodes: str) -> Path:
    """A root directory: /proc/devices, and device nodes that are links to /dev/null."""
    (directory / "proc").mkdir(parents=True)
    (directory / "dev").mkdir()
    (directory / "proc/devices").write_text(devices)
    for node in nodes:
        (directory / "dev" / node).symlink_to("/dev/null")
    return directory


NULL = "Character devices:\n  1 nvidia-uvm\n195 nvidia\n"
"""The UVM module has the major number of /dev/null here."""


@pytest.mark.parametrize(
    ("devices", "nodes", "unusable"),
    [
        (NULL, ("nvidia0", "nvidiactl", "nvidia-uvm"), {}),
        (NULL, ("nvidia0", "nvidiactl"), {"/dev/nvidia-uvm": "No such file or directory (2)"}),
        (
            "Character devices:\n234 nvidia-uvm\n",
            ("nvidia0", "nvidiactl", "nvidia-uvm"),
            {"/dev/nvidia-uvm": "belongs to device 1, the driver's is 234"},
        ),
        ("", ("nvidia0", "nvidiactl", "nvidia-uvm"), {}),
        ("", ("dxg",), None),
    ],
)
def test_an_error_of_cuinit_comes_with_the_nodes_that_cannot_be_used(
    drivers: Path, tmp_path: Path, devices: str, nodes: tuple[str, ...],
    unusable: dict[str, str] | None,
) -> None:  # fmt: skip
    root = root_with(tmp_path / "root", devices, *nodes)
    child = begin(drivers / "new", "cuda_init", str(root), CUDA_INIT="999")
    try:
        answer = child.wait(100)
    finally:
        child.kill()
    assert answer.ended.code == 999
    assert answer.notes == ({"unusable_nodes": unusable},)


def test_cuda_answers_with_version_and_count(ask: Ask) -> None:
    assert ask("cuda_init").answer == {"driver_version": 13000, "devices": 2}
    counted = ask("cuda_init", CUDA_COUNT="3")
    assert (counted.ended.code, counted.notes) == (3, ({"driver_version": 13000},))
    assert ask("cuda_init", CUDA_CRASH="1").ended.detail == "SIGSEGV inside cuInit"
