"""GPU001 to GPU004: every branch, and unknown."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended, Unknown
from doctor.checks.gpu.device import FREE, MEMORY_HEALTHY, NOT_SLOWED
from doctor.checks.gpu.visible import VISIBLE
from doctor.facts.host import Host, KernelEvent
from doctor.facts.interpreter import Cuda, Torch, TorchGpu
from doctor.facts.load import Watched
from doctor.facts.machine import Driver, Gpu, Slice
from doctor.facts.views import JobGpu, JobGpus, match_gpus
from doctor.hardware.xids import XIDS, Xid
from doctor.job.job import Job, Target
from doctor.judge.check import Owner, Status, Verdict

OK = Ended(how="ok")
DRIVER = Driver(nvml=OK, cuda=OK, version="580.95.05", cuda_version=13000)
TORCH = Torch(version="2.11.0+cu128", cuda="12.8")
NOBODY = Unknown(reason="nvmlInit: NVML Shared Library Not Found (12)")
GIB = 2**30
HEALTHY: dict[str, Any] = {
    "remap_pending": False,
    "remap_failed": False,
    "uncorrected": 0,
    "corrected": 0,
    "recovery_action": 0,
}


def nvml(index: int = 0, **fields: Any) -> Gpu:
    known = {"memory_total": 80 * GIB, "memory_used": 0, "compute_mode": 0, **HEALTHY, **fields}
    return Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H100", **known)


def by_torch(*indices: int, kernel: Ended | None = None) -> Cuda:
    gpus = (
        TorchGpu(
            index=index,
            uuid=str(index),
            name="NVIDIA H100",
            capability=(9, 0),
            memory_total=80 * GIB,
            kernel=kernel,
        )
        for index in indices
    )
    return Cuda(started=OK, gpus=tuple(gpus))


def not_started(detail: str) -> Cuda:
    return Cuda(started=Ended(how="error", detail=detail))


def visible(
    gpus: tuple[Gpu, ...] | Unknown | None,
    cuda: Cuda | Unknown | None,
    need: int | None = None,
    wanted: str | None = None,
) -> Verdict:
    env = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    host = Host(system="Linux", nvidia_devices=2, env=env)
    return VISIBLE.judge(
        job=Job(gpus=need),
        host=host,
        driver=DRIVER,
        gpus=gpus,
        torch=TORCH,
        cuda=cuda,
        job_gpus=match_gpus(host, gpus, cuda),
        target=Target("nvidia" if gpus is not None else "rocm", ""),
    )


AMD = TorchGpu(
    index=0, uuid=None, name="AMD Instinct MI300X", capability=(9, 4), memory_total=192 * GIB
)
NO_HIP = "RuntimeError: No HIP GPUs are available"


def on_rocm(cuda: Cuda, need: int | None = None, **host: Any) -> Verdict:
    nodes = {"device_nodes": ("/dev/kfd",), "unusable_amd_nodes": {}}
    return VISIBLE.judge(
        job=Job(gpus=need),
        host=Host(**{"system": "Linux", "amd_devices": 1} | nodes | host),
        driver=None,
        gpus=None,
        torch=Torch(version="2.9.0+rocm6.4", hip="6.4"),
        cuda=cuda,
        job_gpus=Unknown(reason="no GPU was examined"),
        target=Target("rocm", ""),
    )


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({}, "rocm-no-gpu"),
        ({"device_nodes": ()}, "--device=/dev/kfd"),
        ({"unusable_amd_nodes": {"/dev/kfd": "Permission denied"}}, "groups render and video"),
        ({"env": {"HIP_VISIBLE_DEVICES": "7"}}, "unset HIP_VISIBLE_DEVICES"),
        ({"env": {"ROCR_VISIBLE_DEVICES": ""}}, "unset ROCR_VISIBLE_DEVICES"),
        ({"env": {"HSA_OVERRIDE_GFX_VERSION": "9.9.9"}}, "unset HSA_OVERRIDE_GFX_VERSION"),
    ],
)
def test_rocm_without_a_gpu_is_explained_by_its_own_nodes_and_variables(
    host: dict[str, Any], words: str
) -> None:
    verdict = on_rocm(not_started(NO_HIP), **host)
    assert verdict.status is Status.FAIL
    advice = " ".join((verdict.fix or "", *verdict.commands, *verdict.causes))
    assert words in advice
    assert not any(word in advice for word in ("nvidia", "libcuda", "DRV001"))


def test_rocm_that_works_passes_whatever_the_variables_and_nodes() -> None:
    seen = Cuda(started=OK, gpus=(AMD,))
    odd = {"HIP_VISIBLE_DEVICES": "0", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    assert on_rocm(seen, env=odd).status is Status.PASS
    denied = {"/dev/dri/renderD129": "Permission denied"}
    assert on_rocm(seen, unusable_amd_nodes=denied).status is Status.PASS
    few = on_rocm(seen, need=2, env=odd)
    assert (few.status, "HIP_VISIBLE_DEVICES" in (few.fix or "")) == (Status.FAIL, True)
    assert on_rocm(seen, need=2).status is Status.FAIL


TWO = (nvml(0), nvml(1))


@pytest.mark.parametrize(
    ("need", "status"), [(None, Status.PASS), (2, Status.PASS), (3, Status.FAIL)]
)
def test_visible_gpus_are_counted(need: int | None, status: Status) -> None:
    verdict = visible(TWO, by_torch(0, 1), need)
    assert verdict.status is status
    assert "torch sees 2, NVML 2 (NVIDIA H100)" in verdict.summary
    assert f"{need or 1} required" in verdict.summary


def test_rocm_counts_through_torch_alone() -> None:
    assert visible(None, by_torch(0, 1), 2).status is Status.PASS
    assert visible(None, by_torch(0), 2).status is Status.FAIL
    assert visible(None, not_started("RuntimeError: No HIP GPUs are available")).status is (
        Status.FAIL
    )


def test_torch_and_nvml_that_disagree_are_a_warning() -> None:
    assert visible(TWO, by_torch(0)).status is Status.WARN
    assert visible(TWO, by_torch(0), 2).status is Status.FAIL


def test_chosen_gpus_agree() -> None:
    assert visible(TWO, by_torch(1), wanted="1").status is Status.PASS
    verdict = visible(TWO, by_torch(1), 2, wanted="1")
    assert verdict.status is Status.FAIL
    assert "CUDA_VISIBLE_DEVICES='1'" in (verdict.fix or "")


@pytest.mark.parametrize("wanted", ["", "-1", "2,0", "GPU-absent"])
def test_variable_that_names_nothing_fails(wanted: str) -> None:
    cuda = not_started("RuntimeError: No CUDA GPUs are available")
    verdict = visible(TWO, cuda, wanted=wanted)
    assert verdict.status is Status.FAIL
    assert f"CUDA_VISIBLE_DEVICES={wanted!r}" in verdict.summary
    assert verdict.commands == ("unset CUDA_VISIBLE_DEVICES",)


def test_variable_is_judged_without_nvml_only_where_it_is_plain() -> None:
    cuda = not_started("Torch not compiled with CUDA enabled")
    assert visible(NOBODY, cuda, wanted="").status is Status.FAIL
    assert visible(NOBODY, cuda, wanted="7").status is Status.UNKNOWN
    assert visible(NOBODY, by_torch(0), wanted="").status is Status.PASS


def test_none_available_is_none() -> None:
    verdict = visible(TWO, not_started("RuntimeError: No CUDA GPUs are available"))
    assert verdict.status is Status.FAIL
    assert "torch sees 0" in verdict.summary
    assert visible((), not_started("No CUDA GPUs are available")).status is Status.FAIL


@pytest.mark.parametrize(
    "cuda", [None, Unknown(reason="no torch"), not_started("Torch not compiled with CUDA")]
)
def test_torch_that_could_not_tell_is_unknown(cuda: Cuda | Unknown | None) -> None:
    assert visible(TWO, cuda).status is Status.UNKNOWN
    assert visible(NOBODY, cuda).status is Status.UNKNOWN
    assert visible(TWO, cuda, 3).status is Status.FAIL


def test_a_driver_that_is_too_old_is_one_failure_and_that_is_drv002() -> None:
    old = not_started("The NVIDIA driver on your system is too old (found version 11040).")
    verdict = visible(TWO, old)
    assert verdict.status is Status.UNKNOWN
    assert "see DRV002" in verdict.summary
    assert visible(TWO, old, 3).status is Status.FAIL  # two GPUs are too few all the same
    assert visible(TWO, not_started("CUDA error: unknown error")).status is Status.FAIL


def test_cuda_that_does_not_start_in_torch_fails() -> None:
    assert visible(TWO, not_started("CUDA error: unknown error")).status is Status.FAIL
    assert visible(TWO, Cuda(started=Ended(how="signal", detail="SIGSEGV"))).status is Status.FAIL
    assert visible(TWO, Cuda(started=Ended(how="signal", detail="SIGKILL"))).status is (
        Status.UNKNOWN
    )


@pytest.mark.parametrize(
    ("detail", "env", "named"),
    [
        ("ValueError: Unrecognized key 'foo' in CUDA allocator config.",
         {"PYTORCH_CUDA_ALLOC_CONF": "foo:bar"}, True),
        ("RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
         {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True"}, True),
        ("ValueError: stoull", {"PYTORCH_ALLOC_CONF": "max_split_size_mb:many"}, True),
        ("ValueError: stoull", {}, False),
        ("RuntimeError: CUDA error: unknown error",
         {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, False),
    ],
)  # fmt: skip
def test_an_option_of_the_allocator_is_named_where_it_stops_cuda(
    detail: str, env: dict[str, str], named: bool
) -> None:
    host, cuda = Host(system="Linux", nvidia_devices=2, env=env), not_started(detail)
    verdict = VISIBLE.judge(
        job=Job(), host=host, driver=DRIVER, gpus=TWO, torch=TORCH, cuda=cuda,
        job_gpus=match_gpus(host, TWO, cuda), target=Target("nvidia", ""),
    )  # fmt: skip
    assert verdict.status is Status.FAIL
    unset = f"unset {' '.join(env)}"
    assert (unset in verdict.commands) is named


def test_lost_gpu_is_the_machines_fault() -> None:
    verdict = visible((nvml(0), nvml(1, lost="GPU is lost (15)")), by_torch(0))
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.MACHINE)
    assert "GPU 1: GPU is lost (15)" in verdict.summary
    assert visible((nvml(0), nvml(1, lost="lost")), by_torch(0), wanted="0").status is Status.PASS


def test_prohibited_mode_fails() -> None:
    verdict = visible((nvml(0, compute_mode=2),), not_started("all devices are busy"))
    assert verdict.status is Status.FAIL
    assert "prohibited" in verdict.summary
    assert "nvidia-smi -i 0 -c DEFAULT" in verdict.commands[0]


BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"


@pytest.mark.parametrize(
    ("processes", "cuda", "status"),
    [
        (1, by_torch(0), Status.FAIL),
        (0, by_torch(0, kernel=Ended(how="error", detail=BUSY)), Status.FAIL),
        (None, not_started(BUSY), Status.FAIL),
        (0, by_torch(0, kernel=OK), Status.PASS),
        (1, by_torch(0, kernel=OK), Status.PASS),  # a kernel that ran proves that we got in
    ],
)
def test_exclusive_mode_fails_when_another_holds_it(
    processes: int | None, cuda: Cuda, status: Status
) -> None:
    verdict = visible((nvml(0, compute_mode=3, processes=processes),), cuda)
    assert verdict.status is status
    assert ("exclusive process" in verdict.summary) is (status is Status.FAIL)


SLICES = tuple(Slice(uuid=f"MIG-{n}", memory_total=10 * GIB, memory_used=0) for n in range(3))
SLICED = nvml(0, mig=True, slices=SLICES)


@pytest.mark.parametrize(
    ("need", "wanted", "status"),
    [
        (1, None, Status.PASS),
        (2, None, Status.WARN),
        (4, None, Status.FAIL),
        (2, "MIG-0", Status.FAIL),
        (1, "MIG-1", Status.PASS),
    ],
)
def test_mig_slices_are_counted_and_warned_of(
    need: int, wanted: str | None, status: Status
) -> None:
    assert visible((SLICED,), by_torch(0), need, wanted).status is status


def job(*gpus: Gpu | None, part: Slice | None = None) -> JobGpus:
    return JobGpus(gpus=tuple(JobGpu(nvml=gpu, slice=part) for gpu in gpus), by="environment")


def free(gpus: JobGpus, host: Host | Unknown = NOBODY) -> Verdict:
    return FREE.judge(job_gpus=gpus, host=host)


@pytest.mark.parametrize(
    ("used", "total", "status"),
    [
        (0, 80 * GIB, Status.PASS),
        (2 * GIB, 80 * GIB, Status.PASS),
        (2 * GIB, 4 * GIB, Status.PASS),  # a desktop on a small card
        (2 * GIB + 1, 80 * GIB, Status.WARN),
        (24 * GIB, 80 * GIB, Status.WARN),
        (25 * GIB, 80 * GIB, Status.FAIL),
        (3 * GIB, None, Status.WARN),
    ],
)
def test_used_memory_is_judged(used: int, total: int | None, status: Status) -> None:
    verdict = free(job(nvml(memory_used=used, memory_total=total)))
    assert verdict.status is status


def test_busy_gpu_is_named_beside_the_free_one() -> None:
    verdict = free(job(nvml(0), nvml(1, memory_used=70 * GIB, processes=1)))
    assert verdict.status is Status.FAIL
    assert "GPU 1 (NVIDIA H100): 70.0 GiB of 80.0 GiB (88%) used" in verdict.summary
    assert "1 compute processes" in verdict.summary


def test_what_the_calling_process_holds_is_not_foreign() -> None:
    mine = nvml(memory_used=70 * GIB, held=69 * GIB, processes=1)
    verdict = free(job(mine))
    assert verdict.status is Status.PASS
    assert "1.0 GiB of 80.0 GiB (1%) used" in verdict.summary
    assert "beside 69.0 GiB of this process" in verdict.summary
    assert job(mine).gpus[0].use_by_others == ""
    shared = nvml(memory_used=70 * GIB, held=20 * GIB, processes=2)
    verdict = free(job(shared))
    assert verdict.status is Status.FAIL
    assert "NVML lists 1 compute processes" in verdict.summary
    assert "50.0 GiB used" in job(shared).gpus[0].use_by_others


def test_slice_is_judged_by_its_own_memory() -> None:
    whole = nvml(memory_used=70 * GIB)
    assert free(job(whole, part=SLICES[0])).status is Status.PASS
    full = Slice(uuid="MIG-9", memory_total=10 * GIB, memory_used=9 * GIB)
    assert free(job(nvml(), part=full)).status is Status.FAIL


def test_version_1_of_the_call_is_reported() -> None:
    gpu = nvml(unread={"memory_reserved": "version 1 of the call"})
    assert "reserve" in free(job(gpu)).summary


def test_unread_memory_is_unknown_and_does_not_hide_a_busy_gpu() -> None:
    unread = nvml(0, memory_used=None, unread={"memory_used": "Insufficient Permissions (4)"})
    verdict = free(job(unread, nvml(1)))
    assert verdict.status is Status.UNKNOWN
    assert "Insufficient Permissions (4)" in verdict.summary
    assert free(job(unread, nvml(1, memory_used=70 * GIB))).status is Status.FAIL
    assert free(job(None)).status is Status.UNKNOWN
    assert free(job()).status is Status.UNKNOWN


def test_memory_that_nvml_does_not_report_is_skipped() -> None:
    gpu = nvml(0, memory_used=None, unread={"memory_used": "Not Supported (3)"})
    assert free(job(gpu)).status is Status.SKIP
    assert free(job(gpu, nvml(1, memory_used=70 * GIB))).status is Status.FAIL


@pytest.mark.parametrize(
    ("used", "total", "processes", "status"),
    [
        (2 * GIB, 8 * GIB, 0, Status.PASS),
        (3 * GIB, 8 * GIB, 0, Status.WARN),
        (3 * GIB, 8 * GIB, None, Status.WARN),
        (3 * GIB, 8 * GIB, 1, Status.FAIL),
    ],
)
def test_a_desktop_is_no_other_tenant(
    used: int, total: int, processes: int | None, status: Status
) -> None:
    gpu = nvml(memory_used=used, memory_total=total, processes=processes, display_active=True)
    assert free(job(gpu)).status is status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (Host(system="Linux", memory_total=120 * GIB, memory_available=112 * GIB), Status.PASS),
        (Host(system="Linux", memory_total=120 * GIB, memory_available=60 * GIB), Status.WARN),
        (Host(system="Linux"), Status.SKIP),
        (NOBODY, Status.SKIP),
    ],
)
def test_an_integrated_gpu_is_judged_by_the_hosts_memory(
    host: Host | Unknown, status: Status
) -> None:
    record = nvml(memory_used=None, unread={"memory_used": "Not Supported (3)"})
    view = TorchGpu(
        index=0, uuid=None, name="NVIDIA GB10", capability=(12, 1), memory_total=1, integrated=True
    )
    gpus = JobGpus(gpus=(JobGpu(nvml=record, torch=view),), by="torch")
    assert free(gpus, host).status is status


def healthy(gpus: JobGpus, watched: tuple[Watched, ...] | Unknown | None = None) -> Verdict:
    host = Host(system="Linux")
    return MEMORY_HEALTHY.judge(job_gpus=gpus, watched=watched, host=host)


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({}, Status.PASS, "row remap"),
        ({"remap_pending": True}, Status.WARN, "row remap pending"),
        ({"remap_banks": (2500, 0, 0, 2, 0)}, Status.PASS, "no errors"),
        ({"remap_banks": (2500, 0, 0, 0, 2)}, Status.WARN, "2 banks of the memory have no spare"),
        ({"retired_pages_pending": True}, Status.WARN, "page retirement pending"),
        ({"corrected": 50_000_000}, Status.PASS, "row remap"),
        ({"corrected": 50_000_001}, Status.WARN, "50,000,001"),
        ({"remap_failed": True}, Status.FAIL, "row remap failed"),
        ({"uncorrected": 1}, Status.FAIL, "1 uncorrected"),
        ({"recovery_action": 1}, Status.FAIL, "reset the GPU"),
        ({"recovery_action": 99}, Status.FAIL, "99"),
        ({"lost": "GPU is lost (15)"}, Status.FAIL, "GPU is lost"),
        ({"remap_failed": True, "remap_pending": True}, Status.FAIL, "row remap failed"),
    ],
)
def test_memory_errors_are_judged(fields: dict[str, Any], status: Status, text: str) -> None:
    verdict = healthy(job(nvml(0), nvml(1, **fields)))
    assert verdict.status is status
    assert text in verdict.summary
    assert ("GPU-1" in verdict.summary) is (status is not Status.PASS)
    assert MEMORY_HEALTHY.owner is Owner.MACHINE
    assert "UUID" in MEMORY_HEALTHY.fix


UNREAD: dict[str, Any] = {
    "remap_pending": None,
    "remap_failed": None,
    "uncorrected": None,
    "corrected": None,
    "recovery_action": None,
}


def test_what_cannot_be_read_is_named() -> None:
    gpu = nvml(**{**UNREAD, "recovery_action": 0}, unread={"corrected": "Not Supported (3)"})
    verdict = healthy(job(gpu))
    assert verdict.status is Status.PASS
    assert "not readable: row remap (not recorded), uncorrected errors" in verdict.summary
    assert "corrected errors (Not Supported (3))" in verdict.summary


@pytest.mark.parametrize("gpus", [(nvml(**UNREAD),), (nvml(0), nvml(1, **UNREAD)), (None,), ()])
def test_gpu_without_readable_counters_is_unknown(gpus: tuple[Gpu | None, ...]) -> None:
    assert healthy(job(*gpus)).status is Status.UNKNOWN


LACKED = dict.fromkeys(UNREAD, "Not Supported (3)")


@pytest.mark.parametrize(
    "unread",
    [
        LACKED,
        {**LACKED, "recovery_action": "Invalid Argument (2)"},
        {**LACKED, "remap_failed": "Function Not Found (13)"},
    ],
)
def test_a_gpu_that_has_no_counters_is_skipped(unread: dict[str, str]) -> None:
    gpu = nvml(**UNREAD, unread=unread)
    assert healthy(job(gpu)).status is Status.SKIP
    assert healthy(job(gpu), (run(xids=(79,)),)).status is Status.FAIL
    refused = {**unread, "corrected": "Insufficient Permissions (4)"}
    assert healthy(job(nvml(**UNREAD, unread=refused))).status is Status.UNKNOWN


def test_a_pending_remap_counts_although_nothing_else_could_be_read() -> None:
    gpu = nvml(**{**UNREAD, "remap_pending": True})
    assert healthy(job(gpu)).status is Status.WARN


def test_pages_alone_are_something_read() -> None:
    gpu = nvml(**UNREAD, retired_pages_pending=False)
    assert healthy(job(gpu)).status is Status.PASS


QUIET: dict[str, Any] = {
    "uncorrected": 0,
    "corrected": 0,
    "remapped_rows": 0,
    "pcie_replays": 0,
    "xids": (),
}


def run(index: int = 0, **fields: Any) -> Watched:
    """A GPU that was watched while nothing happened."""
    return Watched(uuid=f"GPU-{index}", samples=20, mask=4, **{**QUIET, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({}, Status.PASS, "0 new uncorrected errors, 0 new corrected errors, 0 new remapped rows"),
        ({}, Status.PASS, "no Xid"),
        ({"corrected": 12}, Status.PASS, "12 new corrected errors"),
        ({"xids": (13, 31, 43, 45, 13)}, Status.PASS, "Xid 13, 31, 43, 45 of an application"),
        ({"xids": (63,)}, Status.WARN, "Xid 63"),
        ({"xids": (999,)}, Status.WARN, "Xid 999 during the run"),
        ({"uncorrected": 2}, Status.FAIL, "2 new uncorrected memory errors"),
        ({"remapped_rows": 1}, Status.WARN, "1 rows remapped during the run"),
        ({"remapped_rows": 1, "uncorrected": 1}, Status.FAIL, "new uncorrected"),
        ({"xids": (48,)}, Status.FAIL, "Xid 48 during the run (uncorrectable memory error)"),
        ({"xids": (63, 79, 79)}, Status.FAIL, "Xid 79 during the run (the GPU fell off the bus)"),
        *(({"xids": (xid,)}, Status.FAIL, f"Xid {xid}") for xid in (64, 94, 95, 119, 120)),
    ],
)
def test_errors_during_the_run_are_judged(
    fields: dict[str, Any], status: Status, text: str
) -> None:
    gpus = job(nvml(0), nvml(1))
    verdict = healthy(gpus, (run(0), run(1, **fields)))
    assert verdict.status is status
    assert text in verdict.summary
    if status is Status.FAIL:
        assert "GPU-1" in verdict.summary
        assert "GPU-0" not in verdict.summary


def status_of(*xids: int, **fields: Any) -> Status:
    action = fields.pop("recovery_action", 0)
    return healthy(job(nvml(0, recovery_action=action)), (run(xids=xids, **fields),)).status


@pytest.mark.parametrize("xid", XIDS, ids=lambda xid: str(xid.number))
def test_every_xid_gets_the_verdict_of_its_grade(xid: Xid) -> None:
    verdict = healthy(job(nvml(0)), (run(xids=(xid.number,)),))
    expected = {
        "process": Status.PASS, "silent": Status.PASS, "warn": Status.WARN, "link": Status.WARN,
    }.get(xid.grade, Status.FAIL)  # fmt: skip
    assert verdict.status is expected
    assert (xid.meaning in verdict.summary) is (expected is not Status.PASS)
    if xid.grade == "link":
        assert status_of(xid.number, nvlinks_down=1) is Status.FAIL
        assert status_of(xid.number, recovery_action=1) is Status.FAIL


@pytest.mark.parametrize(
    ("fields", "gpu", "fix"),
    [
        ({"xids": (79,)}, {}, "does not answer on the PCI bus"),
        ({"xids": (48,)}, {}, "a reset remaps the row"),
        ({"xids": (119,)}, {}, "reset the GPU, or reboot"),
        ({"xids": (54,)}, {}, "auxiliary power"),
        ({"xids": (149,), "nvlinks_down": 2}, {}, "reset all GPUs of the machine together"),
        ({"xids": (74,)}, {}, "reset all GPUs of the machine together"),
        ({"remapped_rows": 2}, {}, "Reset the GPU when convenient, after draining the node"),
        ({"xids": (63,)}, {}, "Reset the GPU when convenient"),
        ({"xids": (121,)}, {}, "The GPU works on"),
        ({"xids": (39,)}, {}, "Start the job again"),
        ({"xids": (79,)}, {"recovery_action": 2}, "do what the driver requests (reboot the node)"),
        ({}, {"lost": "GPU is lost (15)"}, "does not answer on the PCI bus"),
        ({}, {"remap_pending": True}, "Reset the GPU when convenient"),
    ],
)
def test_the_remedy_follows_the_event(
    fields: dict[str, Any], gpu: dict[str, Any], fix: str
) -> None:
    verdict = healthy(job(nvml(0, **gpu)), (run(**fields),))
    assert fix in (verdict.fix or "")


def test_xid_154_does_not_say_the_recovery_action_again() -> None:
    assert status_of(154) is Status.PASS
    verdict = healthy(job(nvml(0, recovery_action=1)), (run(xids=(154,)),))
    assert verdict.status is Status.FAIL
    assert "154" not in verdict.summary


@pytest.mark.parametrize(
    ("action", "address", "status"),
    [
        (None, "0000:01:00.0", Status.WARN),
        (0, "0000:01:00.0", Status.PASS),  # the driver knows better what happened since
        (None, "0000:02:00.0", Status.PASS),  # another GPU, another tenant
    ],
)
def test_the_kernel_log_counts_where_the_driver_is_silent(
    action: int | None, address: str, status: Status
) -> None:
    gpu = nvml(0, recovery_action=action, bus_id="00000000:01:00.0")
    host = Host(system="Linux", kernel_events=(KernelEvent(address=address, xid=79),))
    verdict = MEMORY_HEALTHY.judge(job_gpus=job(gpu), watched=None, host=host)
    assert verdict.status is status
    assert ("Xid 79 in the kernel log" in verdict.summary) is (status is Status.WARN)


def test_a_run_that_was_not_watched_leaves_the_standing_counters() -> None:
    for watched in (None, Unknown(reason="NVML hung"), (), (run(7),)):
        verdict = healthy(job(nvml(0)), watched)
        assert verdict.status is Status.PASS
        assert "during the run" not in verdict.summary


def test_counters_of_the_run_that_cannot_be_read_are_named() -> None:
    partly = Watched(uuid="GPU-0", samples=9, mask=1, unread={"xids": "Not Supported (3)"})
    verdict = healthy(job(nvml(0)), (partly,))
    assert verdict.status is Status.PASS
    assert "Xid events during the run (Not Supported (3))" in verdict.summary
    assert "uncorrected errors during the run (not recorded)" in verdict.summary


@pytest.mark.parametrize(
    ("mask", "status", "text"),
    [
        (0x0, Status.PASS, "no slowdown"),
        (0x1 | 0x4, Status.PASS, "no slowdown"),  # idle, power cap
        (0x8, Status.WARN, "hardware slowdown"),
        (0x20, Status.WARN, "software thermal"),
        (0x48, Status.WARN, "hardware slowdown, hardware thermal"),  # combined masks count
        (0x84, Status.WARN, "power brake"),
        (0x2, Status.NOTE, "application clocks"),
        (0x110, Status.NOTE, "sync boost and a display"),
    ],
)
def test_slowdown_bits_are_masked(mask: int, status: Status, text: str) -> None:
    seen = (Watched(uuid="GPU-0", samples=40, mask=mask),)
    verdict = NOT_SLOWED.judge(watched=seen, job_gpus=job(nvml(0)))
    assert verdict.status is status
    assert text in verdict.summary
    assert "GPU 0 (NVIDIA H100)" in verdict.summary
    assert NOT_SLOWED.judge(watched=seen, job_gpus=NOBODY).status is status


def test_gpus_outside_the_job_are_not_judged() -> None:
    seen = (Watched(uuid="GPU-0", samples=9, mask=1), Watched(uuid="GPU-1", samples=9, mask=8))
    assert NOT_SLOWED.judge(watched=seen, job_gpus=job(nvml(0))).status is Status.PASS


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (Watched(uuid="GPU-0", samples=0, mask=0),),
        (Watched(uuid="GPU-7", samples=9, mask=1),),
    ],
)
def test_clocks_without_samples_are_unknown(seen: tuple[Watched, ...]) -> None:
    assert NOT_SLOWED.judge(watched=seen, job_gpus=job(nvml(0))).status is Status.UNKNOWN
    assert NOT_SLOWED.judge(watched=(), job_gpus=NOBODY).status is Status.UNKNOWN


def test_clocks_whose_reasons_nvml_does_not_report_are_skipped() -> None:
    lacking = Watched(uuid="GPU-0", samples=0, mask=0, unread={"samples": "Not Supported (3)"})
    assert NOT_SLOWED.judge(watched=(lacking,), job_gpus=job(nvml(0))).status is Status.SKIP
    refused = Watched(uuid="GPU-0", samples=0, mask=0, unread={"samples": "Unknown Error (999)"})
    assert NOT_SLOWED.judge(watched=(refused,), job_gpus=job(nvml(0))).status is Status.UNKNOWN


def test_gpus_that_show_the_same_share_a_sentence() -> None:
    watched = [nvml(0), nvml(1), nvml(2, remap_pending=True), nvml(3)]
    assert healthy(job(*watched[:2], watched[3])).summary.startswith("GPUs 0-1, 3 (NVIDIA H100): ")
    verdict = healthy(job(*watched))
    assert verdict.status is Status.WARN
    assert verdict.summary.startswith("GPU 2 (NVIDIA H100): row remap pending until")
