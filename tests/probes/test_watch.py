"""GPUs watched during a run, with a fake driver in C."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_driver import HANG_SECONDS, HOST, UUIDS, Ask, begin, gpus_of, job_gpus, judged
from shims import clock_stopped_until, wait_until

from doctor._util.records import Ended, Unknown
from doctor.collect import gpus
from doctor.collect.before_torch import run_before_torch
from doctor.collect.children import Children
from doctor.facts.load import Watched
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.xids import BY_NUMBER
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status

OK, NOBODY = Ended(how="ok"), Unknown(reason="not asked")


pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(
        shutil.which("gcc") is None or sys.platform != "linux",
        reason="the fake driver is built with gcc, for Linux",
    ),
]


def watch(folder: Path, *uuids: str, **fake: str) -> tuple[Watched, ...]:
    """The records of a watch that has sampled every GPU at least once."""
    with tempfile.TemporaryDirectory() as directory:
        sampled = Path(directory, "sampled")
        child = begin(folder, "watch", "0.05", *uuids, SAMPLED=str(sampled), **fake)
        try:
            assert child.wait(100).answer == {"ready": True}
            wait_until(sampled.exists)  # a request to stop is read after all GPUs were sampled
            child.send({"stop": True})
            answer = child.wait(100)
        finally:
            child.kill()
    assert answer.ended.ok, answer.ended
    assert answer.answer
    return msgspec.convert(answer.answer["watched"], tuple[Watched, ...])


@pytest.mark.parametrize("kind", ["new", "old"])
@pytest.mark.parametrize(
    ("reasons", "status"),
    [(0x1, Status.PASS), (0x4, Status.PASS), (0x44, Status.WARN), (0x8 | 0x80, Status.WARN)],
)
def test_clocks_are_sampled_and_judged(
    drivers: Path, ask: Ask, kind: str, reasons: int, status: Status
) -> None:
    seen = watch(drivers / kind, *UUIDS, REASONS=str(reasons))
    assert [gpu.mask for gpu in seen] == [reasons, reasons]
    assert all(gpu.samples >= 1 for gpu in seen)
    verdict = judged("GPU004", watched=seen, job_gpus=job_gpus(ask()))
    assert verdict.status is status
    assert [gpu.temperature for gpu in seen] == [71, 71]


def test_the_temperature_comes_from_the_newer_call_where_the_older_is_gone(drivers: Path) -> None:
    gone = "nvmlDeviceGetTemperature:13"
    assert [gpu.temperature for gpu in watch(drivers / "new", UUIDS[0], FAIL=gone)] == [72]
    (old,) = watch(drivers / "old", UUIDS[0], FAIL=gone)
    assert (old.temperature, "(13)" in old.unread["temperature"]) == (None, True)


def test_a_quiet_run_is_recorded_in_full(drivers: Path) -> None:
    seen = watch(drivers / "new", UUIDS[0], NVLINKS="1111")
    assert seen[0].samples >= 1
    assert seen[0] == Watched(
        uuid=UUIDS[0],
        samples=seen[0].samples,
        mask=1,
        temperature=71,
        uncorrected=0,
        corrected=0,
        remapped_rows=0,
        pcie_replays=0,
        nvlink_errors=0,
        nvlinks_down=0,
        xids=(),
        clock=1980,
        link=(5, 16),
        link_max=(5, 16),
    )


def test_every_xid_of_the_catalogue_reaches_the_judge(drivers: Path) -> None:
    """Through the driver's event set, in two runs: a run keeps at most 64 events."""
    numbers = list(BY_NUMBER)
    half = len(numbers) // 2
    seen: list[int] = []
    for part in (numbers[:half], numbers[half:]):
        (gpu,) = watch(drivers / "new", UUIDS[0], XIDS=",".join(map(str, part)))
        seen += gpu.xids or ()
    assert seen == numbers


@pytest.mark.parametrize(
    ("fake", "field", "value", "status"),
    [
        ({"MORE_UNCORRECTED": "2", "UNCORRECTED": "0"}, "uncorrected", 2, Status.FAIL),
        ({"MORE_CORRECTED": "7", "CORRECTED": "100"}, "corrected", 7, Status.PASS),
        ({"MORE_REMAPPED": "1"}, "remapped_rows", 1, Status.WARN),
        ({"XIDS": "79"}, "xids", (79,), Status.FAIL),
        ({"XIDS": "13,63"}, "xids", (13, 63), Status.WARN),
        ({"XIDS": "13,43"}, "xids", (13, 43), Status.PASS),
        ({"XIDS": ",".join(["31"] * 500)}, "xids", (31,) * 64, Status.PASS),
    ],
)
def test_what_comes_during_the_run_is_counted_and_judged(
    drivers: Path, ask: Ask, fake: dict[str, str], field: str, value: Any, status: Status
) -> None:
    seen = watch(drivers / "new", *UUIDS, **fake)
    assert getattr(seen[0], field) == value
    assert getattr(seen[1], field) in (0, ())
    assert judged("GPU003", watched=seen, job_gpus=job_gpus(ask())).status is status


def test_links_are_read_under_load(drivers: Path) -> None:
    fake = {"NVLINKS": "1101", "MORE_NVLINK_ERRORS": "3", "MORE_REPLAYS": "9"}
    seen = watch(drivers / "new", *UUIDS, LINK_GEN="4", LINK_WIDTH="8", **fake)
    assert (seen[0].nvlinks_down, seen[0].nvlink_errors, seen[0].pcie_replays) == (1, 3, 9)
    assert (seen[0].link, seen[0].link_max) == ((4, 8), (5, 16))


def test_errors_of_links_are_fields_on_blackwell(drivers: Path) -> None:
    fake = {"NVLINKS": "11", "NVLINK_5": "1", "MORE_NVLINK_ERRORS": "3"}
    seen = watch(drivers / "new", *UUIDS, **fake)
    assert [gpu.nvlink_errors for gpu in seen] == [3, 0]


def test_a_watch_tells_what_it_has_sampled_and_goes_on(drivers: Path) -> None:
    child = begin(drivers / "new", "watch", "0.05", *UUIDS, LINK_GEN="4", CLOCK="1500")
    try:
        assert child.wait(100).answer == {"ready": True}
        for request in ("look", "look", "stop"):
            child.send({request: True})
            answer = child.wait(100).answer
            assert answer
            seen = msgspec.convert(answer["watched"], tuple[Watched, ...])
            assert [gpu.clock for gpu in seen] == [1500, 1500]
            assert (seen[0].uncorrected is None) is (request == "look")
    finally:
        child.kill()


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        ({}, "Not Supported (3)"),
        ({"NVLINKS": "0000"}, "LookupError: no NVLink is active"),
    ],
)
def test_a_gpu_without_active_links_has_none_down(
    drivers: Path, fake: dict[str, str], reason: str
) -> None:
    seen = watch(drivers / "new", UUIDS[0], **fake)[0]
    assert (seen.nvlinks_down, seen.nvlink_errors) == (None, None)
    assert seen.unread == {"nvlinks_down": reason, "nvlink_errors": reason}


def test_a_counter_that_cannot_be_read_is_named_and_not_counted_as_fine(
    drivers: Path, ask: Ask
) -> None:
    refused = ",".join(
        (
            "nvmlDeviceGetTotalEccErrors:3",
            "nvmlDeviceGetRemappedRows:4",
            "nvmlDeviceRegisterEvents:4",
            "nvmlDeviceGetTemperature:3",
            "nvmlDeviceGetTemperatureV:13",
            "nvmlDeviceGetCurrPcieLinkGeneration:3",
            "nvmlDeviceGetPcieReplayCounter:13",
        )
    )
    seen = watch(drivers / "new", UUIDS[0], FAIL=refused)[0]
    assert seen.samples >= 1
    for field in ("uncorrected", "corrected", "remapped_rows", "xids", "temperature", "link"):
        assert getattr(seen, field) is None
        assert seen.unread[field]
    verdict = judged("GPU003", watched=(seen,), job_gpus=job_gpus(ask()))
    assert verdict.status is Status.PASS
    assert "Xid events during the run (Insufficient Permissions (4))" in verdict.summary
    assert "uncorrected errors during the run (Not Supported (3))" in verdict.summary


def test_an_old_driver_without_the_event_call_is_told(drivers: Path) -> None:
    seen = watch(drivers / "ancient", UUIDS[0], XIDS="79")[0]
    assert seen.xids is None
    assert "Function Not Found (13)" in seen.unread["xids"]


def test_a_run_of_a_slice_is_that_of_its_gpu(drivers: Path) -> None:
    part = "MIG-10000000-1111-2222-3333-444444444444"
    seen = watch(drivers / "new", part, UUIDS[0], REASONS="8", XIDS="48")
    assert [(gpu.mask, gpu.xids) for gpu in seen] == [(8, (48,)), (8, (48,))]


@pytest.mark.parametrize(("code", "status"), [(3, Status.SKIP), (888, Status.UNKNOWN)])
def test_clocks_that_cannot_be_read(drivers: Path, ask: Ask, code: int, status: Status) -> None:
    """What a GPU does not have is skipped; a reading that failed is unknown."""
    refused = ",".join(
        f"nvmlDeviceGetCurrentClocks{name}Reasons:{code}" for name in ("Event", "Throttle")
    )
    seen = watch(drivers / "new", *UUIDS, "GPU-absent", "", FAIL=refused)
    assert [gpu.samples for gpu in seen] == [0, 0, 0, 0]
    assert "Not Found (6)" in seen[2].unread["samples"]
    verdict = judged("GPU004", watched=seen, job_gpus=job_gpus(ask()))
    assert verdict.status is status


def test_a_request_to_stop_that_is_already_there_is_obeyed_before_a_sample(drivers: Path) -> None:
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0])
    try:
        child.send({"stop": True})
        assert child.wait(100).answer == {"ready": True}
        answer = child.wait(100).answer
        assert answer
        assert answer["watched"][0]["samples"] == 0
    finally:
        child.kill()


def test_a_watch_ends_with_its_stdin(drivers: Path) -> None:
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0])
    try:
        assert child.wait(100).answer == {"ready": True}
        child.close_stdin()
        assert child.wait(100).ended.detail == "exit status 0 and no message"
    finally:
        child.kill()


def test_a_counter_that_hangs_is_named(drivers: Path, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    fake = {"HANG": "nvmlDeviceGetRemappedRows", "HANGING": str(hanging)}
    child = begin(drivers / "new", "watch", "0.05", UUIDS[0], **fake)
    try:
        wait_until(hanging.exists)
        assert "inside counters before" in child.wait(HANG_SECONDS).ended.detail
    finally:
        child.kill()


def test_a_run_is_watched_from_its_start_to_its_end(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    monkeypatch.setenv("FAKE_XIDS", "95")
    monkeypatch.setenv("FAKE_SAMPLED", str(tmp_path / "sampled"))
    run = gpus.Watch(Children(), UUIDS)
    run.wait_until_ready()
    wait_until((tmp_path / "sampled").exists)
    seen = run.stop(NOBODY)
    assert isinstance(seen, tuple)
    assert [(gpu.uuid, gpu.xids) for gpu in seen] == [(UUIDS[0], (95,)), (UUIDS[1], ())]


@pytest.mark.parametrize(
    ("job", "options"),
    [(Job(device="cpu"), RunOptions()), (Job(), RunOptions(smoke=False, quick=True))],
    ids=["cpu", "nothing runs"],
)
def test_nothing_is_watched_where_nothing_runs_on_a_gpu(
    ask: Ask, job: Job, options: RunOptions
) -> None:
    driver = None if job.device == "cpu" else Driver(nvml=OK, cuda=OK)
    listed = None if job.device == "cpu" else gpus_of(ask())
    watch, copies = run_before_torch(Children(), job, options, HOST, driver, listed)
    assert (watch.stop(NOBODY), copies) == (None, None)


def test_of_all_watched_gpus_those_of_the_job_are_recorded(
    drivers: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's order need not be NVML's, so which ones they are is known later."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    listed = gpus_of(ask())
    driver, job = Driver(nvml=OK, cuda=OK), Job(gpus=1)
    watch, copies = run_before_torch(Children(), job, RunOptions(), HOST, driver, listed)
    last = JobGpus(gpus=(JobGpu(nvml=listed[-1]),), by="torch")
    seen = watch.stop(last)
    assert copies is None
    assert isinstance(seen, tuple)
    assert [gpu.uuid for gpu in seen] == [listed[-1].uuid]


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("nvmlInitWithFlags", "nvmlInit"),
        ("nvmlDeviceGetRemappedRows", "counters before"),
    ],
)
def test_a_watch_that_hangs_is_unknown_and_named(
    drivers: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, where: str
) -> None:
    hanging = tmp_path / "hanging"
    monkeypatch.setattr(gpus, "WATCH_SECONDS", HANG_SECONDS)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(drivers / "new"))
    monkeypatch.setenv("FAKE_HANG", call)
    monkeypatch.setenv("FAKE_HANGING", str(hanging))
    with clock_stopped_until(hanging.exists):
        seen = gpus.Watch(Children(), UUIDS).stop(NOBODY)
    assert isinstance(seen, Unknown)
    assert f"inside {where}" in seen.reason
