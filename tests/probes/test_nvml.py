"""NVML's answers, from a fake driver in C, and what the checks make of them."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_driver import HOST, UUIDS, Ask, driver_of, driver_verdict, gpus_of, job_gpus, judged

from doctor._util.records import Ended, Unknown
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Interpreter
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpus, match_gpus
from doctor.job.job import Job, Target
from doctor.judge.check import Owner, Status

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(
        shutil.which("gcc") is None or sys.platform != "linux",
        reason="the fake driver is built with gcc, for Linux",
    ),
]


def facts_for(code: str) -> dict[str, Any]:
    """What a check takes beside the GPUs: no steps ran."""
    return {"GPU002": {"host": HOST}, "GPU003": {"watched": None}}.get(code, {})


def no_library(probe: str) -> bool:
    """Whether this machine has no such library of its own behind the fake's folder."""
    name = {"nvml": "libnvidia-ml.so.1", "cuda_init": "libcuda.so.1"}[probe]
    try:
        ctypes.CDLL(name)
    except OSError:
        return True
    return False


def test_healthy_gpus_are_read_in_full(ask: Ask) -> None:
    nvml, cuda = ask(), ask("cuda_init")
    assert nvml.ended.ok
    first, second = gpus_of(nvml)
    assert first == Gpu(
        index=0,
        uuid=UUIDS[0],
        name="NVIDIA H200",
        bus_id="00000000:19:00.0",
        capability=(9, 0),
        memory_total=143771 * 2**20,
        memory_used=4 * 2**20,
        compute_mode=0,
        persistence=True,
        processes=0,
        display_active=False,
        mig=False,
        ecc=True,
        pci_id=0x2335,
        cores=16896,
        vbios="96.00.74.00.01",
        power_limit=700000,
        power_limit_default=700000,
        corrected=0,
        uncorrected=0,
        remap_pending=False,
        remap_failed=False,
        remap_banks=(2560, 0, 0, 0, 0),
        sram_threshold=False,
        fabric=3,
        recovery_action=0,
        unread={"retired_pages_pending": "Not Supported (3)"},
    )
    assert (second.index, second.uuid) == (1, UUIDS[1])
    assert {"nvmlInit", "nvmlDeviceGetUUID (GPU 1)"} <= {name for name, _ in nvml.stages}
    seen = driver_of(nvml, cuda)
    assert (seen.version, seen.cuda_version) == ("580.95.05", 13000)
    assert driver_verdict(seen).status is Status.PASS
    for code in ("GPU002", "GPU003"):
        assert judged(code, **facts_for(code), job_gpus=job_gpus(nvml)).status is Status.PASS


@pytest.mark.parametrize(
    ("fake", "code", "status", "said"),
    [
        ({"REMAP_FAILED": "1"}, "GPU003", Status.FAIL, "row remap failed"),
        ({"UNCORRECTED": "3"}, "GPU003", Status.FAIL, "3 uncorrected"),
        ({"ACTION": "2"}, "GPU003", Status.FAIL, "reboot the node"),
        ({"SRAM": "1"}, "GPU003", Status.FAIL, "errors in SRAM"),
        ({"REMAP_PENDING": "1"}, "GPU003", Status.WARN, "row remap pending"),
        ({"CORRECTED": "50000001"}, "GPU003", Status.WARN, "50,000,001 corrected"),
        ({"USED_MIB": "3000"}, "GPU002", Status.WARN, "2.9 GiB"),
        ({"USED_MIB": "90000", "PROCESSES": "2"}, "GPU002", Status.FAIL, "2 compute processes"),
        ({"USED_MIB": "90000", "DISPLAY": "1"}, "GPU002", Status.WARN, "desktop"),
    ],
)
def test_trouble_is_read_and_judged(
    ask: Ask, fake: dict[str, str], code: str, status: Status, said: str
) -> None:
    verdict = judged(code, **facts_for(code), job_gpus=job_gpus(ask(**fake)))
    assert verdict.status is status
    assert said in verdict.summary


def test_a_broken_gpu_is_named_by_its_uuid(ask: Ask) -> None:
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(ask(REMAP_FAILED="1")))
    assert UUIDS[0] in verdict.summary
    assert UUIDS[1] not in verdict.summary


@pytest.mark.parametrize("kind", ["old", "ancient"])
def test_older_driver_leaves_reasons_and_no_failure(ask: Ask, kind: str) -> None:
    nvml = ask(kind=kind)
    assert nvml.ended.ok
    assert nvml.answer
    assert nvml.answer["cuda_version"] == 13000
    gpu = gpus_of(nvml)[0]
    assert gpu.recovery_action is None
    assert gpu.unread["recovery_action"] == "Not Supported (3)"
    if kind == "ancient":
        assert gpu.unread["remap_failed"] == "Function Not Found (13)"
        assert gpu.memory_used == 600 * 2**20
        assert "reserve" in gpu.unread["memory_reserved"]
        assert gpu.processes == 0
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(nvml))
    assert verdict.status is Status.PASS
    assert "not readable: " in verdict.summary
    assert "recovery action (Not Supported (3))" in verdict.summary


def test_nothing_readable_is_unknown(ask: Ask) -> None:
    refused = "nvmlDeviceGetRemappedRows:3,nvmlDeviceGetTotalEccErrors:3,nvmlDeviceGetFieldValues:4"
    verdict = judged("GPU003", watched=None, job_gpus=job_gpus(ask(FAIL=refused)))
    assert verdict.status is Status.UNKNOWN
    assert "recovery action (Insufficient Permissions (4))" in verdict.summary


def test_every_query_may_be_refused(ask: Ask) -> None:
    names = {
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeMode",
        "nvmlDeviceGetPersistenceMode",
        "nvmlSystemGetConfComputeState",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetDisplayActive",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetNumGpuCores",
        "nvmlDeviceGetVbiosVersion",
        "nvmlDeviceGetRowRemapperHistogram",
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetPowerManagementLimit",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetRetiredPagesPendingStatus",
        "nvmlDeviceGetFieldValues",
    }
    nvml = ask(FAIL=",".join(f"{name}:888" for name in names))
    assert nvml.ended.ok
    assert nvml.answer
    assert nvml.answer["version"] is None
    assert nvml.answer["cuda_version"] is None
    for gpu in gpus_of(nvml):
        told = {name for name in gpu.__struct_fields__ if getattr(gpu, name) not in (None, "", ())}
        assert told == {"index", "unread"}
        assert set(gpu.unread.values()) == {"An error that no binding knows (888)"}


@pytest.mark.parametrize(
    ("code", "said", "owner"),
    [
        (9, "Driver Not Loaded (9)", Owner.ENVIRONMENT),
        (18, "the NVML library is version 13.580.159", Owner.ENVIRONMENT),
        (999, "Unknown Error (999)", Owner.ENVIRONMENT),
        (15, "GPU is lost (15)", Owner.MACHINE),
    ],
)
def test_error_of_the_start_is_read_and_judged(
    ask: Ask, code: int, said: str, owner: Owner
) -> None:
    nvml = ask(FAIL=f"nvmlInitWithFlags:{code}")
    assert nvml.ended.code == code
    verdict = driver_verdict(driver_of(nvml, ask("cuda_init")))
    assert verdict.status is Status.FAIL
    assert said in verdict.summary
    assert (verdict.owner or Owner.ENVIRONMENT) is owner


def test_the_library_that_does_not_match_is_located(ask: Ask, drivers: Path) -> None:
    """Here it is the fake's, which no host mounts: the image's fault, not the machine's."""
    driver = driver_of(ask(FAIL="nvmlInitWithFlags:18"), ask("cuda_init"))
    assert driver.nvml_library == str((drivers / "new" / "libnvidia-ml.so.1").resolve())
    assert driver.nvml_mounted is False


def test_a_slow_start_without_persistence_mode_is_a_warning(ask: Ask) -> None:
    nvml, cuda = ask(PERSISTENCE="0", CONFIDENTIAL="1"), ask("cuda_init")
    driver = driver_of(nvml, cuda)
    assert driver.confidential is True
    assert [gpu.persistence for gpu in gpus_of(nvml)] == [False, False]
    assert driver_verdict(driver, gpus_of(nvml)).status is Status.PASS
    slow = msgspec.structs.replace(driver, cuda=Ended(how="ok", seconds=13.1))
    assert driver_verdict(slow, gpus_of(nvml)).status is Status.WARN
    assert driver_verdict(slow, gpus_of(ask(PERSISTENCE="1"))).status is Status.PASS


def test_a_gpu_without_permission_is_not_counted(ask: Ask) -> None:
    """As under Slurm: NVML counts the GPUs of the node, the cgroup allows some."""
    nvml = ask(FAIL="nvmlDeviceGetHandleByIndex_v2@0:4")
    assert [gpu.forbidden for gpu in gpus_of(nvml)] == [True, False]
    (gpu,) = job_gpus(nvml).gpus
    assert gpu.nvml
    assert gpu.nvml.uuid == UUIDS[1]


def test_missing_libraries_are_named(ask: Ask) -> None:
    if not (no_library("nvml") and no_library("cuda_init")):
        pytest.skip("this machine has a real driver, which stands in for the missing one")
    nvml, cuda = ask(kind="none"), ask("cuda_init", "none")
    assert nvml.ended.code == 12
    assert cuda.ended.code is None
    assert "libcuda.so.1" in cuda.ended.detail
    verdict = driver_verdict(driver_of(nvml, cuda))
    assert verdict.status is Status.FAIL
    assert "NVML Shared Library Not Found (12)" in verdict.summary


@pytest.mark.parametrize("code", [15, 16])
def test_lost_gpu_keeps_the_others(ask: Ask, code: int) -> None:
    nvml = ask(FAIL=f"nvmlDeviceGetHandleByIndex_v2@0:{code}")
    lost, healthy = gpus_of(nvml)
    assert f"({code})" in (lost.lost or "")
    assert (lost.uuid, lost.memory_total) == ("", None)
    assert healthy.uuid == UUIDS[1]
    verdict = judged(
        "GPU001",
        job=Job(),
        host=HOST,
        gpus=(lost, healthy),
        cuda=None,
        job_gpus=job_gpus(nvml),
        target=Target("nvidia", ""),
    )
    assert verdict.status is Status.FAIL
    assert verdict.owner is Owner.MACHINE


def test_gpu_lost_in_the_middle_is_asked_no_further(ask: Ask) -> None:
    nvml = ask(FAIL="nvmlDeviceGetComputeMode@1:15")
    gpu = gpus_of(nvml)[1]
    assert (gpu.uuid, gpu.lost) == (UUIDS[1], "GPU is lost (15)")
    assert "nvmlDeviceGetEccMode (GPU 1)" not in [name for name, _ in nvml.stages]
    assert judged("GPU003", watched=None, job_gpus=job_gpus(nvml)).status is Status.FAIL


def test_mig_slices_have_their_own_memory(ask: Ask) -> None:
    nvml = ask(MIG="1")
    gpu = gpus_of(nvml)[0]
    assert gpu.mig is True
    assert [part.uuid[:5] for part in gpu.slices] == ["MIG-1", "MIG-2"]
    assert gpu.slices[0].memory_total == 143771 * 2**20 // 8
    assert gpu.unread["remap_failed"] == "Not Supported (3)"
    found = match_gpus(
        msgspec.structs.replace(HOST, env={"CUDA_VISIBLE_DEVICES": gpu.slices[1].uuid}),
        gpus_of(nvml),
        None,
    )
    assert isinstance(found, JobGpus)
    assert found.gpus[0].memory_used == 4 * 2**20
    assert judged("GPU002", host=HOST, job_gpus=found).status is Status.PASS


def test_hang_in_a_query_keeps_the_gpus_before_it(ask: Ask) -> None:
    nvml = ask(HANG="nvmlDeviceGetEccMode@1", hangs=True)
    assert nvml.ended.how == "timeout"
    assert "inside nvmlDeviceGetEccMode (GPU 1)" in nvml.ended.detail
    assert [gpu.uuid for gpu in gpus_of(nvml)] == [UUIDS[0]]
    seen = driver_of(nvml, ask("cuda_init"))
    assert seen.version == "580.95.05"
    verdict = driver_verdict(seen)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.MACHINE)
    assert "nvmlDeviceGetEccMode (GPU 1)" in verdict.summary


@pytest.mark.parametrize(
    ("probe", "fake", "call"),
    [
        ("nvml", {"LOAD_SLEEP": "1"}, "nvmlInit"),
        ("nvml", {"HANG": "nvmlInitWithFlags"}, "nvmlInit"),
        ("cuda_init", {"CUDA_LOAD_SLEEP": "1"}, "dlopen libcuda.so.1"),
        ("cuda_init", {"CUDA_HANG": "1"}, "cuInit"),
    ],
)
def test_hang_at_the_start_names_the_call(
    ask: Ask, probe: str, fake: dict[str, str], call: str
) -> None:
    stuck = ask(probe, hangs=True, **fake)
    assert stuck.ended.how == "timeout"
    well = ask("cuda_init" if probe == "nvml" else "nvml")
    seen = driver_of(stuck, well) if probe == "nvml" else driver_of(well, stuck)
    verdict = driver_verdict(seen)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.MACHINE)
    assert f"inside {call}" in verdict.summary


@pytest.mark.parametrize(
    ("probe", "fake"), [("nvml", {"HANG": "nvmlInitWithFlags"}), ("cuda_init", {"CUDA_HANG": "1"})]
)
def test_a_call_that_waits_in_the_kernel_is_told_from_one_that_sleeps(
    ask: Ask, probe: str, fake: dict[str, str]
) -> None:
    assert ask(probe, hangs=True, HANG_IN_KERNEL="1", **fake).uninterruptible is True
    assert ask(probe, hangs=True, **fake).uninterruptible is False
    assert ask(probe).uninterruptible is None


def test_crash_in_a_query_is_a_signal(ask: Ask) -> None:
    nvml = ask(CRASH="nvmlDeviceGetRemappedRows@1")
    assert nvml.ended.detail == "SIGSEGV inside nvmlDeviceGetRemappedRows (GPU 1)"
    assert len(gpus_of(nvml)) == 1
    verdict = driver_verdict(driver_of(nvml, ask("cuda_init")))
    assert verdict.status is Status.FAIL
    assert "SIGSEGV" in verdict.summary


def test_facts_of_a_fake_machine_survive_their_file(ask: Ask) -> None:
    nvml, cuda = ask(FAIL="nvmlDeviceGetHandleByIndex_v2@0:15"), ask("cuda_init", CUDA_INIT="802")
    nobody = Unknown(reason="not asked")
    facts = Facts(
        job=Job(),
        host=HOST,
        driver=driver_of(nvml, cuda),
        gpus=gpus_of(nvml),
        interpreter=Interpreter(path="python", chosen="test", importing=cuda.ended),
        torch=nobody,
        places=nobody,
    )
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts
