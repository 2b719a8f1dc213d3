"""Copies through a libcuda that misbehaves on request, sums over real processes, GPU007, GPU008."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
import shims
from paths import FAKES

from doctor._util.records import Ended, Unknown
from doctor.checks.gpu.all_reduce import ADDS_UP
from doctor.checks.gpu.peer_copies import COPIES_ARRIVE
from doctor.collect import peers
from doctor.collect.before_torch import run_before_torch
from doctor.collect.child import Child
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker, end
from doctor.facts.host import Host, PcieDevice
from doctor.facts.load import AllReduce, PeerCopy, Peers, Watched
from doctor.facts.machine import Driver, Gpu, Slice
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Owner, Status, Verdict
from doctor.judge.switches import VARIABLES, Switch

FAKE = FAKES / "peers.c"
OK = Ended(how="ok")
NOBODY = Unknown(reason="NVML hung")
LINUX = Host(system="Linux")
Copies = Callable[..., tuple[PeerCopy, ...]]
Make = Callable[..., tuple[Worker, ...]]

needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or sys.platform != "linux",
    reason="the fake driver is built with gcc, for Linux",
)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes of the test can be found again; none may be left."""
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    monkeypatch.setenv(name, "1")
    yield
    assert shims.left(name) == []


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    line = ["gcc", "-Wall", "-Werror", "-shared", "-fPIC", str(FAKE)]
    subprocess.run([*line, "-o", str(folder / "libcuda.so.1")], check=True)
    return folder


@pytest.fixture
def copies(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: None) -> Copies:
    """Copy between so many GPUs of a fake driver."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("FAKE_MEMORY", str(tmp_path))

    def run(count: int = 2, **fake: str) -> tuple[PeerCopy, ...]:
        for name, value in fake.items():
            monkeypatch.setenv(f"FAKE_{name}", value)
        return peers.copy_around(Children(), count)

    return run


def arrive(found: tuple[PeerCopy, ...], host: Host | Unknown = LINUX, **around: Any) -> Verdict:
    known = {"watched": None, "job_gpus": NOBODY, **around}
    return COPIES_ARRIVE.judge(peers=Peers(copies=found), host=host, **known)


RESPONDS = Driver(nvml=OK, cuda=OK)
USED = {"memory_used": 30 * 2**30}


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    ("gpus", "job", "options", "expected"),
    [
        (({}, {}), Job(), RunOptions(), "2 copies"),
        (({}, {}, USED), Job(gpus=2), RunOptions(), "2 copies"),
        (({}, {}, {"name": "another", **USED}), Job(gpus=2), RunOptions(), "cuda:2 is in use"),
        (({}, USED), Job(), RunOptions(), "cuda:1 is in use"),
        (({}, {}), Job(gpus=1), RunOptions(), "None"),
        (({}, {}), Job(), RunOptions(quick=True), "None"),
        (({},), Job(), RunOptions(), "None"),
    ],
)
def test_copies_between_the_gpus_of_the_job_that_nobody_uses(
    copies: Copies, gpus: tuple[Any, ...], job: Job, options: RunOptions, expected: str
) -> None:
    """Before torch starts. CUDA's order of different models is not NVML's."""
    listed = tuple(
        Gpu(**{"index": n, "uuid": f"GPU-{n}", "name": "GPU"} | fields)
        for n, fields in enumerate(gpus)
    )
    watch, found = run_before_torch(Children(), job, options, LINUX, RESPONDS, listed)
    watch.cancel()
    if isinstance(found, tuple):
        assert all(copy.ended.ok and copy.wrong == 0 for copy in found)
        assert expected == f"{len(found)} copies"
    else:
        assert expected in (found.reason if found else "None")


def test_a_driver_that_does_not_respond_gets_no_copies() -> None:
    listed = tuple(Gpu(index=n, uuid=f"GPU-{n}", name="GPU") for n in (0, 1))
    hangs = Driver(nvml=OK, cuda=Ended(how="timeout", detail="no answer in 30 s"))
    watch, found = run_before_torch(Children(), Job(), RunOptions(), LINUX, hangs, listed)
    assert (watch.stop(NOBODY), found) == (None, None)


def test_copies_are_judged_where_no_all_reduce_was_run() -> None:
    made = (copy(), copy(1, 0))
    found = peers.without_reductions(made, Unknown(reason="left out: cuda:1 hung before"))
    assert isinstance(found, Peers)
    assert arrive(found.copies).status is Status.PASS
    verdict = ADDS_UP.judge(peers=found, job_gpus=NOBODY)
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, "left out: cuda:1 hung before")
    reason = Unknown(reason="left out: cuda:0 is in use")
    assert peers.without_reductions(reason, reason) == reason


@pytest.mark.slow
@needs_gcc
def test_copies_arrive_whole_in_every_pair(copies: Copies) -> None:
    found = copies(3)
    assert {(copy.source, copy.target) for copy in found} == set(peers.pairs(3))
    assert all(copy.ended.ok and copy.wrong == 0 and copy.rate for copy in found)
    verdict = arrive(found)
    assert verdict.status is Status.PASS
    assert "6 of 6" in verdict.summary


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(("way", "wrong"), [("garbled", 8192), ("lost", 2 * 4 * 2**20)])
def test_values_that_do_not_arrive_are_counted_and_fail(
    copies: Copies, way: str, wrong: int
) -> None:
    found = copies(P2P=way, P2P_FROM="1")
    assert [(copy.source, copy.target, copy.wrong) for copy in found] == [(0, 1, 0), (1, 0, wrong)]
    verdict = arrive(found)
    assert (verdict.status, COPIES_ARRIVE.owner) == (Status.FAIL, Owner.MACHINE)
    assert f"GPU 1 to GPU 0: {wrong:,} elements arrived with another value" in verdict.summary
    assert "GPU 0 to GPU 1" not in verdict.summary


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    ("way", "how", "said"),
    [
        ("hang", "timeout", "inside cuMemsetD32_v2"),
        ("crash", "signal", "crashed: SIGSEGV inside cuMemsetD32_v2"),
    ],
)
def test_a_copy_that_never_ends_is_named_and_ends_the_series(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str, how: str, said: str
) -> None:
    hangs = tmp_path / "hangs"
    if way == "hang":
        monkeypatch.setattr(peers, "PEER_SECONDS", 0.5)
    with shims.clock_stopped_until(hangs.exists) if way == "hang" else contextlib.nullcontext():
        found = copies(4, P2P=way, HANGING=str(hangs))
    assert [copy.ended.how for copy in found] == [how]
    verdict = arrive(found)
    assert verdict.status is Status.FAIL
    assert "GPU 0 to GPU 1: " in verdict.summary
    assert said in verdict.summary


@pytest.mark.slow
@needs_gcc
def test_gpus_without_a_way_to_each_other_are_no_fault(copies: Copies) -> None:
    found = copies(P2P="none")
    assert {copy.ended.code for copy in found} == {217}
    assert arrive(found).status is Status.SKIP
    partly = (PeerCopy(source=0, target=1, ended=OK, wrong=0, rate=2e10), found[1])
    verdict = arrive(partly)
    assert verdict.status is Status.PASS
    assert "GPU 1 to GPU 0" in verdict.summary


@pytest.mark.slow
@needs_gcc
@pytest.mark.parametrize(
    ("refused", "status", "said"),
    [
        ("cuCtxSynchronize:719", Status.FAIL, "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuMemcpyDtoD_v2:719", Status.FAIL, "cuMemcpyDtoD_v2"),
        ("cuIpcOpenMemHandle_v2:201", Status.UNKNOWN, "cuIpcOpenMemHandle_v2: CUDA error (201)"),
        ("cuIpcGetMemHandle:801", Status.SKIP, "peer access"),
        ("cuIpcGetMemHandle:999", Status.UNKNOWN, "cuIpcGetMemHandle"),
        ("cuMemAlloc_v2:2", Status.UNKNOWN, "cuMemAlloc_v2: CUDA error (2)"),
        ("cuDevicePrimaryCtxRetain:46", Status.UNKNOWN, "cuDevicePrimaryCtxRetain"),
        ("cuInit:802", Status.UNKNOWN, "cuInit"),
    ],
)
def test_a_call_that_is_refused_is_named(
    copies: Copies, refused: str, status: Status, said: str
) -> None:
    found = copies(P2P_FAIL=refused)
    assert len(found) == 2
    verdict = arrive(found)
    assert verdict.status is status, verdict.summary
    assert said in verdict.summary


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a real driver")
def test_a_machine_without_a_driver_is_unknown(mark: None) -> None:
    found = peers.copy_around(Children(), 2)
    verdict = arrive(found)
    assert verdict.status is Status.UNKNOWN
    assert "libcuda.so.1" in verdict.summary


def test_pairs_are_all_for_a_few_gpus_and_neighbours_for_many() -> None:
    assert set(peers.pairs(2)) == {(0, 1), (1, 0)}
    assert len(list(peers.pairs(4))) == 12
    around = list(peers.pairs(8))
    assert len(around) == 16
    assert {abs(source - target) for source, target in around} == {1, 7}
    assert list(peers.pairs(1)) == []


def copy(source: int = 0, target: int = 1, **fields: Any) -> PeerCopy:
    known: dict[str, Any] = {"ended": OK, "wrong": 0, "rate": 2e10}
    return PeerCopy(source=source, target=target, **{**known, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({}, Status.PASS, "2 of 2"),
        ({"nvlinks_down": 0, "nvlink_errors": 0}, Status.PASS, "2 of 2"),
        (
            {"nvlinks_down": 0, "unread": {"nvlink_errors": "Not Supported (3)"}},
            Status.PASS,
            "NVLink errors were not counted: Not Supported (3)",
        ),
        ({"nvlinks_down": 2}, Status.WARN, "2 NVLinks are down"),
        ({"nvlink_errors": 5}, Status.WARN, "5 NVLink errors during the run"),
    ],
)
def test_nvlinks_are_judged_beside_the_copies(
    fields: dict[str, Any], status: Status, said: str
) -> None:
    seen = (Watched(uuid="GPU-0", samples=3, mask=0, **fields),)
    verdict = arrive((copy(), copy(1, 0)), watched=seen)
    assert verdict.status is status
    assert said in verdict.summary


@pytest.mark.parametrize(
    ("name", "down", "status"),
    [
        ("NVIDIA H100 NVL", (6, 6), Status.PASS),
        ("NVIDIA A100 80GB PCIe", (4, 4), Status.PASS),
        ("NVIDIA H100 NVL", (6, 10), Status.WARN),
        ("NVIDIA H100 80GB HBM3", (1, 1), Status.WARN),
        ("NVIDIA A100-SXM4-80GB", (0, 2), Status.WARN),
    ],
)
def test_links_that_no_bridge_reaches_are_no_fault(
    name: str, down: tuple[int, ...], status: Status
) -> None:
    gpus = tuple(
        JobGpu(nvml=Gpu(index=index, uuid=f"GPU-{index}", name=name)) for index in range(len(down))
    )
    seen = tuple(
        Watched(uuid=f"GPU-{index}", samples=3, mask=0, nvlinks_down=count)
        for index, count in enumerate(down)
    )
    known = JobGpus(gpus=gpus, by="torch")
    assert arrive((copy(), copy(1, 0)), watched=seen, job_gpus=known).status is status


@pytest.mark.parametrize(
    ("detail", "status"),
    [
        ("no answer in 30 s inside cuInit", Status.UNKNOWN),
        ("no answer in 30 s inside cuDevicePrimaryCtxRetain", Status.UNKNOWN),
        ("no answer in 10 s inside cuIpcOpenMemHandle_v2", Status.FAIL),
        ("no answer in 10 s inside cuMemcpyDtoD_v2", Status.FAIL),
        ("no answer in 10 s", Status.FAIL),
    ],
)
def test_a_slow_start_of_cuda_tells_nothing_of_the_way(detail: str, status: Status) -> None:
    slow = copy(ended=Ended(how="timeout", detail=detail), wrong=None, rate=None)
    verdict = arrive((slow,))
    assert verdict.status is status
    assert detail in verdict.summary


def test_a_budget_that_is_over_leaves_every_pair_untried(mark: None) -> None:
    found = peers.copy_around(Children(0.0), 3)
    assert [(each.source, each.target) for each in found] == list(peers.pairs(3))
    assert arrive(found).status is Status.UNKNOWN


def test_a_broken_way_that_nccl_is_kept_off_is_a_warning() -> None:
    broken = (copy(wrong=7), copy(1, 0))
    with_iommu = Host(system="Linux", iommu_groups=31)
    assert "the IOMMU is on (31 groups)" in arrive(broken, host=with_iommu).summary
    assert "IOMMU" not in arrive(broken, host=Host(system="Linux", iommu_groups=0)).summary
    port = PcieDevice(
        address="0000:00:01.1", gpu="0000:3b:00.0", fatal=0, nonfatal=0, acs_redirects=True
    )
    with_acs = arrive(broken, host=Host(system="Linux", pcie=(port,)))
    assert "ACS redirects peer traffic at 0000:00:01.1" in with_acs.summary
    assert (
        "ACS" not in arrive((copy(), copy(1, 0)), host=Host(system="Linux", pcie=(port,))).summary
    )
    kept = Host(system="Linux", env={"NCCL_P2P_DISABLE": "1"})
    assert arrive(broken, host=kept).status is Status.WARN
    followed = Host(system="Linux", env={"NCCL_P2P_LEVEL": "LOC"})
    assert arrive(broken, host=followed).status is Status.WARN
    assert arrive(broken, host=Host(system="Linux", env={"NCCL_P2P_DISABLE": "0"})).status is (
        Status.FAIL
    )
    assert arrive(broken, host=NOBODY).status is Status.FAIL


def test_many_broken_pairs_are_counted() -> None:
    verdict = arrive(tuple(copy(0, target, wrong=1) for target in range(1, 8)))
    assert "and 3 more" in verdict.summary


def test_slices_have_no_peers() -> None:
    part = Slice(uuid="MIG-1")
    gpu = JobGpu(nvml=Gpu(index=0, uuid="GPU-0", name="H100", slices=(part,)), slice=part)
    gpus = JobGpus(gpus=(gpu,), by="torch")
    assert arrive((copy(wrong=1),), job_gpus=gpus).status is Status.SKIP
    assert ADDS_UP.judge(peers=Peers(), job_gpus=gpus).status is Status.SKIP


def test_nothing_tried_is_unknown() -> None:
    assert arrive(()).status is Status.UNKNOWN
    assert adds_up().status is Status.UNKNOWN


@pytest.fixture
def make(mark: None) -> Iterator[Make]:
    """Ranks on the CPU, one for each interpreter."""
    children = Children()
    made: list[Worker] = []

    def workers(*pythons: str) -> tuple[Worker, ...]:
        made.extend(Worker("cpu", None, "CPU", TorchChild(children, path)) for path in pythons)
        return tuple(made)

    yield workers
    end(tuple(made))


def adds_up(*reductions: AllReduce) -> Verdict:
    return ADDS_UP.judge(peers=Peers(reductions=reductions), job_gpus=NOBODY)


@pytest.mark.parametrize(
    ("name", "rate", "down", "p2p", "status"),
    [
        ("NVIDIA H100 80GB HBM3", 180e9, 0, True, Status.PASS),
        ("NVIDIA H100 80GB HBM3", 12e9, 0, True, Status.WARN),
        ("NVIDIA A100-SXM4-80GB", 12e9, 0, True, Status.WARN),
        ("NVIDIA H100 80GB HBM3", 12e9, None, True, Status.PASS),  # a machine without NVLink
        ("NVIDIA H100 80GB HBM3", 12e9, 2, True, Status.PASS),  # GPU007 warns
        ("NVIDIA H100 80GB HBM3", 12e9, 0, False, Status.PASS),  # the environment turns it off
        ("NVIDIA A100 80GB PCIe", 12e9, 0, True, Status.PASS),  # bridges between pairs only
        ("Tesla V100-SXM2-16GB", 12e9, 0, True, Status.PASS),  # not every pair has a link
    ],
)
def test_an_all_reduce_beside_nvlink_is_judged_by_its_rate(
    name: str, rate: float, down: int | None, p2p: bool, status: Status
) -> None:
    gpus = [JobGpu(nvml=Gpu(index=n, uuid=f"GPU-{n}", name=name)) for n in range(2)]
    verdict = ADDS_UP.judge(
        peers=Peers(
            reductions=(AllReduce(backend="nccl", p2p=p2p, ended=OK, ranks=2, wrong=0, rate=rate),)
        ),
        job_gpus=JobGpus(gpus=tuple(gpus), by="torch"),
        watched=tuple(
            Watched(uuid=f"GPU-{n}", samples=3, mask=0, nvlinks_down=down) for n in (0, 1)
        ),
    )
    assert verdict.status is status
    assert ("50 GB/s required" in verdict.summary) is (status is Status.WARN)


@pytest.mark.slow
def test_three_ranks_add_up(make: Make) -> None:
    found = peers.reduce(make(*[preloaded.python()] * 3), "gloo", p2p=True)
    assert found.ended.ok, found.ended
    assert (found.ranks, found.wrong, found.backend) == (3, 0, "gloo")
    assert found.rate
    assert found.rate > 0
    verdict = adds_up(found)
    assert verdict.status is Status.PASS
    assert "3 GPUs with gloo" in verdict.summary


AT = "\ndef entered(stage):\n    if stage == 'start of gloo':\n        "
ADDS_WRONG = """
def spoil(torch):
    import torch.distributed as dist
    plain = dist.all_reduce
    def all_reduce(values, *rest):
        plain(values, *rest)
        values[5] += 1
    if os.environ.get("NCCL_P2P_DISABLE") != "1":
        dist.all_reduce = all_reduce
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "how", "said"),
    [
        (AT + "os.kill(os.getpid(), signal.SIGKILL)", "signal", "rank 1: SIGKILL inside start"),
        (AT + "time.sleep(600)", "timeout", "no answer in"),
        (AT + "raise RuntimeError('NCCL error: boom')", "error", "NCCL error: boom"),
    ],
)
def test_a_rank_that_fails_ends_them_all(
    make: Make, tmp_path: Path, code: str, how: str, said: str
) -> None:
    ranks = make(preloaded.python(), shims.python(tmp_path, code))
    for rank in ranks:
        rank.child.imported()
    seconds = 4.0 if how == "timeout" else 100.0
    found = peers.reduce(ranks, "gloo", p2p=True, seconds=seconds)
    assert (found.ended.how, found.wrong) == (how, None), found.ended
    assert said in found.ended.detail
    verdict = adds_up(found)
    assert verdict.status is (Status.UNKNOWN if "SIGKILL" in said else Status.FAIL)
    assert said in verdict.summary


LOADS = """
def spoil(torch):
    import torch.distributed as dist
    plain = dist.all_reduce
    def all_reduce(values, *rest):
        while time.thread_time() < {seconds}:
            pass
        plain(values, *rest)
    dist.all_reduce = all_reduce
"""


@pytest.fixture
def paced() -> Iterator[list[float]]:
    """The times of the notes, on a clock of each wait that three seconds with each note move."""
    clock, times, plain = threading.local(), list[float](), Child.wait

    def ignore(stage: str) -> None:
        pass

    def wait(
        child: Child, limit: float, on_enter: Any = ignore, on_note: Any = None, extra: float = 0.0
    ) -> Answer:
        def note(record: dict[str, Any]) -> None:
            clock.now = time.monotonic() + 3.0
            times.append(clock.now)
            on_note(record)

        return plain(child, limit, on_enter, on_note and note, extra)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Child, "wait", wait)
        patch.setattr(time, "monotonic", lambda: getattr(clock, "now", 0.0))
        yield times


@pytest.mark.slow
def test_a_rank_that_makes_progress_gets_more_time(
    make: Make, tmp_path: Path, paced: list[float]
) -> None:
    ranks = make(preloaded.python(), shims.python(tmp_path, LOADS.format(seconds=4)))
    for rank in ranks:
        rank.child.imported()
    found = peers.reduce(ranks, "gloo", p2p=True, seconds=4.0, total=500.0)
    assert found.ended.how == "ok", found.ended
    assert max(paced) > 4.0


@pytest.mark.slow
def test_progress_is_counted_for_a_limited_time(make: Make, tmp_path: Path) -> None:
    ranks = make(preloaded.python(), shims.python(tmp_path, LOADS.format(seconds=600)))
    for rank in ranks:
        rank.child.imported()
    found = peers.reduce(ranks, "gloo", p2p=True, seconds=1.5, total=1.5)
    assert found.ended.how == "timeout", found.ended


@pytest.mark.slow
def test_a_wrong_sum_is_counted_and_fails(make: Make, tmp_path: Path) -> None:
    found = peers.reduce(
        make(preloaded.python(), shims.python(tmp_path, ADDS_WRONG)), "gloo", p2p=True
    )
    assert found.ended.ok
    assert found.wrong == 1
    verdict = adds_up(found)
    assert verdict.status is Status.FAIL
    assert "has 1 wrong elements" in verdict.summary


@pytest.mark.slow
@needs_gcc
def test_a_failure_is_tried_once_more_without_p2p_and_the_cause_is_named(
    make: Make,
    driver: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("FAKE_MEMORY", str(tmp_path))
    monkeypatch.setenv("FAKE_P2P", "garbled")
    monkeypatch.delenv("NCCL_P2P_DISABLE", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = set(tmp_path.glob("doctor-*"))
    bad = shims.python(tmp_path / "bad", ADDS_WRONG)
    found = peers.try_peers(Children(), make(bad, bad), "gloo")
    assert [(each.p2p, each.wrong) for each in found.reductions] == [(True, 1), (False, 0)]
    assert set(tmp_path.glob("doctor-*")) == before
    verdict = adds_up(*found.reductions)
    assert verdict.status is Status.FAIL
    assert verdict.switches_off == (Switch.NCCL_P2P,)
    assert verdict.commands == (f"export {VARIABLES[Switch.NCCL_P2P]}",)
    assert "ACS" in (verdict.fix or "")
    assert arrive(found.copies).status is Status.FAIL


@pytest.mark.slow
@needs_gcc
def test_p2p_that_the_user_has_switched_off_is_not_tried(
    make: Make, driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("FAKE_MEMORY", str(tmp_path))
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    bad = shims.python(tmp_path / "bad", ADDS_WRONG)
    found = peers.try_peers(Children(), make(bad, bad), "gloo")
    assert [(each.p2p, each.wrong) for each in found.reductions] == [(False, 0)]
    verdict = adds_up(*found.reductions)
    assert verdict.status is Status.PASS
    assert "turned off in the environment" in verdict.summary


def reduction(p2p: bool = True, **fields: Any) -> AllReduce:
    known: dict[str, Any] = {"ended": OK, "ranks": 2, "wrong": 0, "rate": 2e11}
    return AllReduce(backend="nccl", p2p=p2p, **{**known, **fields})


HUNG: dict[str, Any] = {"ended": Ended(how="timeout", detail="no answer in 30 s"), "wrong": None}


RAISED: dict[str, Any] = {
    "ended": Ended(how="error", detail="rank 0: all_reduce: NCCL error: unhandled system error"),
    "wrong": None,
}
BROKEN = "peer-to-peer traffic"


@pytest.mark.parametrize(
    ("reductions", "owner", "said"),
    [
        ((reduction(wrong=None),), Owner.ENVIRONMENT, "no result"),
        ((reduction(wrong=3),), Owner.MACHINE, "has 3 wrong elements"),
        ((reduction(**HUNG), reduction(False)), Owner.MACHINE, BROKEN),
        ((reduction(wrong=1), reduction(False)), Owner.MACHINE, BROKEN),
        ((reduction(**HUNG), reduction(False, **HUNG)), Owner.ENVIRONMENT, "DISABLE=1 it hung"),
        ((reduction(**RAISED), reduction(False, **RAISED)), Owner.ENVIRONMENT, "it raised (rank"),
        ((reduction(**HUNG), reduction(False, wrong=2)), Owner.MACHINE, "it has 2 wrong elements"),
        ((reduction(False, **HUNG),), Owner.ENVIRONMENT, "hung (no answer in 30 s)"),
    ],
)
def test_sums_that_fail_tell_the_cause_and_who_can_mend_it(
    reductions: tuple[AllReduce, ...], owner: Owner, said: str
) -> None:
    verdict = adds_up(*reductions)
    assert verdict.status is Status.FAIL
    assert said in verdict.summary
    assert (verdict.owner or ADDS_UP.owner) is owner


def test_a_right_sum_passes_with_its_rate() -> None:
    verdict = adds_up(reduction())
    assert verdict.status is Status.PASS
    assert "200 GB/s" in verdict.summary


@pytest.mark.gpu
def test_real_gpus_reach_each_other() -> None:
    if not (Path("/dev/nvidia0").exists() and Path("/dev/nvidia1").exists()):
        pytest.skip("fewer than two NVIDIA GPUs here")
    children = Children()
    ranks = tuple(
        Worker(f"cuda:{index}", None, "GPU", TorchChild(children, preloaded.python()))
        for index in (0, 1)
    )
    try:
        found = peers.try_peers(children, ranks)
    finally:
        end(ranks)
    assert all(each.ended.ok or each.ended.code == 217 for each in found.copies)
    assert adds_up(*found.reductions).status is Status.PASS
