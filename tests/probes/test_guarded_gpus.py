"""The GPUs of a guarded training, with a fake driver in C."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shims import wait_until

from doctor.cli.guard_report import report_directory
from doctor.cli.options import ConfigFlags
from doctor.collect import training_gpus
from doctor.collect.guard_records import read_gpus
from doctor.judge.check import Status

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(
        shutil.which("gcc") is None or sys.platform != "linux",
        reason="the fake driver is built with gcc, for Linux",
    ),
]


@pytest.mark.parametrize(
    ("fake", "statuses"),
    [
        ({"REASONS": "1"}, {"GPU003": Status.PASS, "GPU004": Status.PASS}),
        ({"REASONS": "64"}, {"GPU003": Status.PASS, "GPU004": Status.WARN}),
        ({"XIDS": "79"}, {"GPU003": Status.FAIL, "GPU004": Status.PASS}),
        (
            {
                "FAIL": "nvmlDeviceGetCurrentClocksThrottleReasons:999,"
                "nvmlDeviceGetCurrentClocksEventReasons:999"
            },
            {"GPU003": Status.PASS, "GPU004": Status.UNKNOWN},
        ),
    ],
)
def test_the_gpus_of_a_guarded_training_are_in_its_report(
    drivers: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fake: dict[str, str],
    statuses: dict[str, Status],
) -> None:
    sampled = tmp_path / "sampled"
    monkeypatch.setattr(training_gpus, "SAMPLE_SECONDS", 0.05)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    for name, value in {"SAMPLED": str(sampled), **fake}.items():
        monkeypatch.setenv(f"FAKE_{name}", value)
    sampler = training_gpus.GpuSampler()
    if "FAIL" not in fake:
        wait_until(sampled.exists)
    else:
        sampler._listed.result(100)
    (tmp_path / "gpus.json").write_bytes(training_gpus.encode(sampler.stop()))
    report = report_directory(tmp_path, {}, ConfigFlags(no_config=True), fail_on="fail")
    of_gpus = {f.check.code: f.status for f in report.findings if f.check.family == "GPU"}
    assert of_gpus == statuses


@contextlib.contextmanager
def waiting(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process, and its child, that wait for the end of their stdin."""
    line = "import subprocess, sys; subprocess.run(['cat'])"
    process = subprocess.Popen([sys.executable, "-c", line], stdin=subprocess.PIPE, env=env)
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("visible", [True, False])
def test_other_processes_on_the_gpus_of_a_guarded_training(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, visible: bool
) -> None:
    """`visible`: NVML's pids are those of this namespace, so the training is among them."""
    listed, mark = tmp_path / "listed", f'"{tmp_path}"'
    monkeypatch.setattr(training_gpus, "SAMPLE_SECONDS", 0.02)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    with waiting(DOCTOR_GUARD=f'{{"out": {mark}}}') as training, waiting() as other:
        wait_until(lambda: bool(children_of(training.pid)))
        own = [training.pid, *children_of(training.pid)] if visible else []
        monkeypatch.setenv("FAKE_PIDS", ",".join(map(str, [other.pid, *own])))
        monkeypatch.setenv("FAKE_LISTED", str(listed))
        sampler = training_gpus.GpuSampler(mark)
        sampler._listed.result(100)
        listed.unlink()
        wait_until(listed.exists)
        watched = sampler.stop().watched
    assert isinstance(watched, tuple)
    for gpu in watched:
        assert gpu.use is not None
        assert bool(gpu.use.with_training) is visible
        others = [(each.pid, each.memory) for each in gpu.use.others]
        assert others == ([(other.pid, 2 << 30)] if visible else [])


@pytest.mark.parametrize(("kind", "hang"), [("none", ""), ("new", "nvmlDeviceGetEccMode")])
def test_a_training_without_gpus_or_with_a_hanging_driver_ends_at_once(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, hang: str
) -> None:
    hanging = tmp_path / "hanging"
    if hang:
        monkeypatch.setattr(training_gpus, "END_SECONDS", 0.5)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / kind))
    monkeypatch.setenv("FAKE_HANG", hang)
    monkeypatch.setenv("FAKE_HANGING", str(hanging))
    sampler = training_gpus.GpuSampler()
    if hang:
        wait_until(hanging.exists)
    assert sampler.stop().watched is None
    sampler._listed.result(100)
    assert not any(child.alive for child in sampler._children._running)


def test_a_record_of_gpus_that_is_not_valid_is_none(tmp_path: Path) -> None:
    (tmp_path / "gpus.json").write_text('{"type": "TrainingGpus", "gpus": 5}')
    assert read_gpus(tmp_path).gpus is None
