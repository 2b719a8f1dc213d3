"""The load in real children on the CPU, its deadlines, and GPU005 and GPU006 in every branch."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
import shims
from recorded import machine_file, smoke, stopped

from doctor._util.records import Ended, Unknown
from doctor.checks.gpu.load import FIGURES, FLOOR, PEAKS, REPEATABLE, SPEED
from doctor.cli.options import ConfigFlags
from doctor.cli.run import run
from doctor.collect import collect, gpus, numa
from doctor.collect.before_torch import BeforeTorch
from doctor.collect.child import CUT_OFF, PROBES
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.left_out import from_load
from doctor.collect.torch_child import TorchChild, run_kernels
from doctor.collect.workers import Siblings, Worker, end, start_workers
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Cuda, Driver, Gpu, Host, Interpreter, Slice, Torch, TorchGpu
from doctor.facts.training import Smoke
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Owner, Status, Verdict

OK = Ended(how="ok")
NOBODY = Unknown(reason="NVML hung")
Make = Callable[..., tuple[Worker, ...]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Workers on the CPU, one for each interpreter; none of their processes may be left."""
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    monkeypatch.setenv(name, "1")
    children = Children()
    made: list[Worker] = []

    def workers(*pythons: str) -> tuple[Worker, ...]:
        made.extend(Worker("cpu", None, "CPU", TorchChild(children, path)) for path in pythons)
        return tuple(made)

    yield workers
    end(tuple(made))
    assert shims.left(name) == []


@pytest.mark.slow
def test_devices_are_measured_at_the_same_time(make: Make) -> None:
    loads = gpus.measure_load(make(preloaded.python(), preloaded.python()))
    assert len(loads) == 2
    for load in loads:
        assert load.ended.ok, load.ended
        assert set(load.matmul) == {"bf16", "tf32", "fp32"}
        assert all(rate > 0 for rate in load.matmul.values())
        assert all(rate and rate > 0 for rate in (load.copy, load.to_device, load.from_device))
        assert load.products > 3
        assert load.differing == 0
        assert load.unread == {}
        assert REPEATABLE.judge(load=(load,)).status is Status.PASS


@pytest.mark.slow
def test_the_process_goes_on_to_the_smoke_step_after_the_load(make: Make) -> None:
    workers = make(preloaded.python(), preloaded.python())
    assert all(load.ended.ok for load in gpus.measure_load(workers))
    chosen = Chosen("fp32", "test")
    (smoke,) = gpus.PerGpuSmoke(workers, facts(Job(), 2, preloaded.python()), chosen).smokes()
    assert (smoke.device, smoke.completed) == ("cpu", True)


class Copying(TorchChild):
    """A process that is never started; its host copies meet those of the other node."""

    def __init__(self, meeting: threading.Barrier, running: list[int]) -> None:
        self.meeting, self.running = meeting, running

    def request(self, *arguments: Any, **fields: Any) -> Answer:
        if fields["stage"] == "host copies":
            self.running.append(1)
            self.meeting.wait(30.0)
            self.running.pop()
        return Answer(Ended(how="ok"), answer={"load": {"seconds": 1.0}})


def copying(meeting: threading.Barrier, running: list[int]) -> tuple[Worker, ...]:
    return tuple(
        Worker(f"cuda:{index}", None, "GPU", Copying(meeting, running)) for index in range(4)
    )


def test_gpus_of_different_numa_nodes_copy_at_the_same_time() -> None:
    nodes = {"cuda:0": 0, "cuda:1": 0, "cuda:2": 1, "cuda:3": 1}
    loads = gpus.measure_load(copying(threading.Barrier(2), []), nodes=nodes)
    assert [load.device for load in loads] == sorted(nodes)
    assert all(load.ended.ok for load in loads)


@pytest.mark.parametrize("nodes", [{}, {"cuda:0": 0, "cuda:1": 0, "cuda:2": 1}])
def test_gpus_of_unknown_numa_nodes_copy_one_after_the_other(nodes: dict[str, int]) -> None:
    running: list[int] = []
    most: list[int] = []
    alone = threading.Barrier(1, action=lambda: most.append(len(running)))
    gpus.measure_load(copying(alone, running), nodes=nodes)
    assert most == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("content", "nodes"),
    [("1\n", {"cuda:0": 1}), ("-1\n", {}), ("", {}), ("one", {}), (None, {})],
)
def test_the_numa_node_of_a_gpu(
    content: str | None, nodes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "0000:1b:00.0"
    folder.mkdir()
    if content is not None:
        (folder / "numa_node").write_text(content)
    monkeypatch.setattr(numa, "PCI_DEVICES", tmp_path)
    gpu = TorchGpu(index=0, uuid=None, name="GPU", capability=(9, 0), memory_total=1)
    record = Gpu(index=0, uuid="GPU-1", name="GPU", bus_id="00000000:1B:00.0")
    listed = JobGpus(gpus=(JobGpu(nvml=record, torch=gpu), JobGpu(torch=gpu)), by="torch")
    assert numa.numa_nodes(listed) == nodes


FLAKY = """
def spoil(torch):
    plain, calls = torch.mm, []
    def mm(*given, **named):
        found = plain(*given, **named)
        calls.append(1)
        if found.dtype == torch.bfloat16 and len(calls) % 2:
            found[3, 5] += 8
        return found
    torch.mm = mm
"""


@pytest.mark.slow
def test_a_product_that_comes_out_different_is_counted_and_fails(
    make: Make, tmp_path: Path
) -> None:
    (load,) = gpus.measure_load(make(shims.python(tmp_path, FLAKY)))
    assert (load.differing, load.differing_again) == (1, 1)
    verdict = REPEATABLE.judge(load=(load,))
    assert verdict.status is Status.FAIL
    assert "1 elements" in verdict.summary


ONCE = """
def spoil(torch):
    plain, calls = torch.mm, []
    def mm(*given, **named):
        found = plain(*given, **named)
        if torch.is_grad_enabled() is False and found.dtype == torch.bfloat16 and not calls:
            import traceback
            if any(frame.name == "series" for frame in traceback.extract_stack()):
                calls.append(1)
                found[3, 5] += 8
        return found
    torch.mm = mm
"""


@pytest.mark.slow
def test_a_product_that_differs_once_is_computed_again_and_warned_of(
    make: Make, tmp_path: Path
) -> None:
    (load,) = gpus.measure_load(make(shims.python(tmp_path, ONCE)))
    assert (load.differing, load.differing_again) == (1, 0)
    assert REPEATABLE.judge(load=(load,)).status is Status.WARN


ON_ROCM = """
def spoil(torch):
    torch.version.hip = "6.4"
    plain, calls = torch.mm, []
    def mm(left, right, **named):
        found = plain(left, right, **named)
        calls.append(1)
        if not torch.are_deterministic_algorithms_enabled() and found.dtype == torch.bfloat16:
            found[3, 5] += len(calls)
        return found
    torch.mm = mm
"""


@pytest.mark.slow
def test_atomics_that_rocblas_is_allowed_are_no_fault(make: Make, tmp_path: Path) -> None:
    (load,) = gpus.measure_load(make(shims.python(tmp_path, ON_ROCM)))
    assert (load.ended.how, load.differing) == ("ok", 0)


AT = "\ndef entered(stage):\n    if stage == 'calibration':\n        "
HANG = "open(__file__ + '.hangs', 'w').close(); time.sleep(600)"


@contextlib.contextmanager
def short_deadline(worker: Worker, folder: Path) -> Iterator[None]:
    """Give every request to this process half a second from when its interpreter in the folder
    hangs."""
    request = worker.child.request
    worker.child.imported()
    hangs = folder / "sitecustomize.py.hangs"
    with pytest.MonkeyPatch.context() as patch, shims.clock_stopped_until(hangs.exists):
        patch.setattr(worker.child, "request", lambda seconds, **fields: request(0.5, **fields))
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "how", "said", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "signal", "SIGSEGV inside calib", Status.FAIL),
        ("raise RuntimeError('CUDA error: b')", "error", "calibration: Runtime", Status.UNKNOWN),
        (HANG, "timeout", "inside calibration", Status.FAIL),
    ],
)
def test_a_load_that_ends_badly_names_its_stage(
    make: Make,
    tmp_path: Path,
    does: str,
    how: str,
    said: str,
    status: Status,
) -> None:
    workers = make(preloaded.python(), shims.python(tmp_path, AT + does))
    hangs = how == "timeout"
    with short_deadline(workers[1], tmp_path) if hangs else contextlib.nullcontext():
        good, broken = gpus.measure_load(workers)
    assert good.ended.ok
    assert (broken.ended.how, broken.matmul) == (how, {})
    assert said in broken.ended.detail
    assert REPEATABLE.judge(load=(good, broken)).status is status
    assert speed(broken).status is Status.UNKNOWN


@pytest.mark.slow
def test_an_answer_that_is_no_load_is_an_error(make: Make, tmp_path: Path) -> None:
    lies = (
        "\ndef spoil(torch):\n    import statistics\n    statistics.median = lambda times: 'fast'"
    )
    (load,) = gpus.measure_load(make(shims.python(tmp_path, lies)))
    assert load.ended.how == "error"


def test_an_interpreter_that_does_not_start_is_an_error(make: Make, tmp_path: Path) -> None:
    (load,) = gpus.measure_load(make(str(tmp_path / "absent")))
    assert load.ended.how == "error"
    assert "No such file" in load.ended.detail


SETTINGS = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/training_side"]
import load, torch
matmul = torch.backends.cuda.matmul
seen = [matmul.fp32_precision]
for allowed in (True, False):
    with load.tf32(allowed):
        seen.append(matmul.fp32_precision)
    seen.append(matmul.fp32_precision)
print(",".join(seen))
class Old:
    allow_tf32 = False
torch.backends.cuda.matmul = Old()
with load.tf32(True):
    assert torch.backends.cuda.matmul.allow_tf32 is True
assert torch.backends.cuda.matmul.allow_tf32 is False
"""


@pytest.mark.slow
def test_tf32_is_left_as_it_was_through_either_api() -> None:
    done = subprocess.run(
        [preloaded.python(), "-c", SETTINGS, "2", str(PROBES)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    before, on, after, off, last = done.stdout.strip().split(",")
    assert (on, off) == ("tf32", "ieee")
    assert before == after == last


NEAR = """
import os, sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/training_side"]
import load, torch
assert load.cpus("0-3,8\\n") == {0, 1, 2, 3, 8}
assert load.cpus("\\n") == set()
allowed = os.sched_getaffinity(0)
here = {min(allowed)}
for local, inside in ((here, here), ({100000}, allowed), (set(), allowed)):
    load.local_cpus = lambda device: local
    with load.near(torch.device("cuda", 0)):
        assert os.sched_getaffinity(0) == inside
    assert os.sched_getaffinity(0) == allowed
"""


@pytest.mark.slow
def test_copies_run_next_to_the_gpu_and_the_process_may_use_all_cpus_afterwards() -> None:
    subprocess.run([preloaded.python(), "-c", NEAR, "2", str(PROBES)], check=True, timeout=120)


def facts(job: Job, count: int, python: str, options: RunOptions | None = None) -> Facts:
    listed = tuple(
        TorchGpu(index=i, uuid=f"GPU-{i}", name="GPU", capability=(9, 0), memory_total=1)
        for i in range(count)
    )
    return Facts(
        job=job,
        options=options or RunOptions(),
        host=Host(system="Linux", nvidia_devices=count),
        interpreter=Interpreter(path=python, chosen="test", importing=OK),
        torch=Unknown(reason="not asked"),
        cuda=Cuda(started=OK, gpus=listed),
        places=(),
    )


@pytest.mark.parametrize(
    ("options", "count", "size"),
    [
        (RunOptions(), 1, 1),
        (RunOptions(), 3, 3),
        (RunOptions(smoke=False), 3, 3),
        (RunOptions(quick=True), 3, 1),
        (RunOptions(smoke=False, quick=True), 3, 1),
    ],
)
def test_a_process_is_started_for_each_other_gpu_that_has_something_to_do(
    options: RunOptions, count: int, size: int, tmp_path: Path
) -> None:
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/bash\nsleep 300\n")
    sleeper.chmod(0o755)
    children = Children()
    first = TorchChild(children, str(sleeper))
    workers = start_workers(children, first, facts(Job(), count, str(sleeper), options))
    try:
        assert [worker.device for worker in workers] == [f"cuda:{i}" for i in range(size)]
        assert workers[0].child is first
    finally:
        end(workers)
    assert not any(worker.child._child.alive for worker in workers if worker.child._child)


class Recorder:
    """Stands for a process and records the kernels it is requested to run."""

    def __init__(self, name: str, requests: list[tuple[str, int]]) -> None:
        self._name, self._requests = name, requests

    def request(self, seconds: float, stage: str, index: int) -> Answer:
        self._requests.append((self._name, index))
        return Answer(OK, {"kernel": {"how": "ok"}})


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "by"), [("abc", "abc"), ("a", "aaa")])
def test_a_gpu_is_touched_by_the_process_that_works_on_it_alone(processes: str, by: str) -> None:
    """In exclusive compute mode a second process is refused."""
    requests: list[tuple[str, int]] = []
    cuda = facts(Job(), 3, preloaded.python()).cuda
    assert isinstance(cuda, Cuda)
    recorders: Any = [Recorder(name, requests) for name in processes]
    done = run_kernels(cuda, recorders, lambda doing: None)
    assert sorted(requests) == sorted(zip(by, range(3), strict=True))
    assert [gpu.kernel and gpu.kernel.ok for gpu in done.gpus] == [True] * 3


def test_a_budget_that_is_over_leaves_the_watch_out() -> None:
    watch = gpus.Watch(Children(0.0), ["GPU-0"])
    watch.wait_until_ready()
    assert watch.stop(NOBODY) == Unknown(reason=CUT_OFF.detail)


def test_quick_leaves_the_load_out_and_says_so() -> None:
    quick = facts(Job(), 1, preloaded.python(), RunOptions(quick=True))
    worker = Worker("cuda:0", "GPU-0", "GPU", None)  # type: ignore[arg-type]
    assert gpus.run_load_tests(Children(), (worker,), quick, lambda doing: None) is quick
    assert gpus.without_load(quick, NOBODY).load is None
    assert gpus.without_load(facts(Job(), 1, preloaded.python()), NOBODY).load == NOBODY
    assert gpus.without_load(facts(Job(device="cpu"), 0, preloaded.python()), NOBODY).load is None


@pytest.mark.slow
def test_a_run_fills_the_sections_of_every_device_and_ends_the_others(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = make(preloaded.python(), preloaded.python())
    found = Torch(version="2.13.0")
    given = facts(Job(device="cpu"), 0, preloaded.python()).with_(torch=found, cuda=None)
    workers[0].child.imported()
    monkeypatch.setattr(collect, "start_workers", lambda *arguments: workers)
    told: list[str] = []
    children = Children()
    siblings = Siblings(children, preloaded.python(), 0)
    before = BeforeTorch(gpus.Watch(children, ()), None)
    done = collect._examine_torch(
        given, found, workers[0].child, siblings, before, children, told.append
    )
    assert isinstance(done.smoke, Smoke)
    assert done.smoke.completed
    assert [each.completed for each in done.siblings] == [True]
    assert isinstance(done.load, tuple)
    assert [each.differing for each in done.load] == [0, 0]
    assert (done.peers, done.watched) == (None, None)
    assert "putting the GPUs under load" in told
    assert workers[1].child._child is not None
    assert not workers[1].child._child.alive
    assert decode(encode(done)) == done


STUCK = Ended(how="timeout", detail="no answer in 120 s inside forward")


@pytest.mark.parametrize("sibling", [False, True])
def test_a_gpu_that_hung_in_the_smoke_step_is_not_put_under_load(sibling: bool) -> None:
    hung = stopped("forward", STUCK)
    steps = {"smoke": smoke(), "siblings": (hung,)} if sibling else {"smoke": hung}
    several = facts(Job(), 2, preloaded.python()).with_(**steps)
    workers = tuple(
        Worker(f"cuda:{index}", None, "GPU", None)  # type: ignore[arg-type]
        for index in (0, 1)
    )
    done = gpus.run_load_tests(Children(), workers, several, lambda doing: None)
    assert isinstance(done.load, Unknown)
    assert "hung before: no answer in 120 s inside forward" in done.load.reason
    assert done.peers == done.load
    alone = gpus.run_load_tests(Children(), workers[:1], several, lambda doing: None)
    assert alone.peers is None


def test_a_gpu_whose_kernel_failed_is_not_put_under_load() -> None:
    several = facts(Job(), 2, preloaded.python())
    assert isinstance(several.cuda, Cuda)
    ran = [
        msgspec.structs.replace(gpu, kernel=Ended(how=how, detail="CUDA error: no kernel image"))
        for gpu, how in zip(several.cuda.gpus, ("ok", "error"), strict=True)
    ]
    tried = several.with_(cuda=msgspec.structs.replace(several.cuda, gpus=tuple(ran)))
    assert from_load(tried, "cuda:0") is None
    assert isinstance(from_load(tried, "cuda:1"), Unknown)


@pytest.mark.slow
def test_gpus_that_hung_under_load_are_not_used_for_copies(make: Make, tmp_path: Path) -> None:
    workers = make(preloaded.python(), shims.python(tmp_path, AT + HANG))
    several = facts(Job(), 2, preloaded.python()).with_(smoke=smoke())
    with short_deadline(workers[1], tmp_path):
        done = gpus.run_load_tests(Children(), workers, several, lambda doing: None)
    assert isinstance(done.load, tuple)
    assert [load.ended.how for load in done.load] == ["ok", "timeout"]
    assert isinstance(done.peers, Unknown)


@pytest.mark.parametrize("code", ["GPU005", "GPU006", "GPU007", "GPU008"])
def test_quick_leaves_out_what_a_facts_file_holds(code: str) -> None:
    machine = machine_file("two_a100")
    for quick, status in ((False, Status.PASS), (True, Status.SKIP)):
        report = run({"quick": quick, "only": (code,)}, ConfigFlags(), facts_file=machine)
        (finding,) = report.findings
        assert finding.status is status
        assert ("--quick" in finding.verdict.summary) is bool(quick)


H200, L40S, T4 = "NVIDIA H200", "NVIDIA L40S", "Tesla T4"


def load(name: str = H200, rate: float | None = 780.0, index: int = 0, **fields: Any) -> Load:
    known: dict[str, Any] = {
        "device": f"cuda:{index}",
        "uuid": f"GPU-{index}",
        "name": name,
        "ended": OK,
        "matmul": {"bf16": rate * 1e12} if rate else {},
        "size": 8192,
        "to_device": 55e9,
        "products": 100,
        "differing": 0,
    }
    return Load(**{**known, **fields})


def watched(index: int = 0, **fields: Any) -> Watched:
    known: dict[str, Any] = {"samples": 30, "mask": 4, "link": (5, 16), "link_max": (5, 16)}
    return Watched(uuid=f"GPU-{index}", **{**known, **fields})


def speed(
    *loads: Load,
    seen: Any = None,
    gpus: JobGpus | Unknown = NOBODY,
    driver: Driver | Unknown | None = None,
) -> Verdict:
    around = (watched(),) if seen is None else seen
    return SPEED.judge(load=loads, watched=around, job_gpus=gpus, driver=driver)


@pytest.mark.parametrize(
    ("loads", "status", "said"),
    [
        ((load(),), Status.PASS, "780 TFLOP/s in bf16"),
        ((load(rate=596),), Status.PASS, "596 TFLOP/s"),
        ((load(rate=595),), Status.WARN, "596 TFLOP/s"),
        ((load("NVIDIA H100 80GB HBM3", 560.0),), Status.PASS, "730"),
        ((load(rate=318),), Status.WARN, "596 TFLOP/s"),
        ((load(rate=317),), Status.FAIL, "596 TFLOP/s"),
        ((load(L40S, 200.0),), Status.PASS, "145 TFLOP/s"),
        ((load(L40S, 144.0),), Status.FAIL, "145 TFLOP/s"),
        ((load(T4, None, matmul={"fp16": 3e13}),), Status.SKIP, "30 TFLOP/s in fp16"),
        ((load(), load(rate=650, index=1)), Status.WARN, "GPU 1 (NVIDIA H200): 650"),
        ((load(), load(rate=720, index=1)), Status.PASS, "720"),
        ((load(L40S, 300.0), load(L40S, 239.0, 1)), Status.WARN, "240 TFLOP/s"),
        ((load(L40S, 300.0), load(L40S, 241.0, 1)), Status.PASS, "241 TFLOP/s"),
        ((load(rate=None),), Status.UNKNOWN, "see GPU006"),
        ((load(ended=Ended(how="timeout")),), Status.UNKNOWN, "see GPU006"),
        ((), Status.UNKNOWN, "no GPU was put under load"),
    ],
)
def test_the_matmul_rate_is_judged_by_measured_figures(
    loads: tuple[Load, ...], status: Status, said: str
) -> None:
    verdict = speed(*loads)
    assert verdict.status is status
    assert said in verdict.summary


@pytest.mark.parametrize(
    ("name", "rate", "status"),
    [
        ("NVIDIA GeForce RTX 4080 Laptop GPU", 13.0, Status.SKIP),
        ("NVIDIA GeForce RTX 4080 Laptop GPU", 5.0, Status.WARN),
        ("NVIDIA GeForce RTX 4080", 13.0, Status.SKIP),
        (T4, 13.0, Status.SKIP),
        (T4, 6.0, Status.WARN),
    ],
)
def test_copies_are_judged_by_the_lanes_in_use(name: str, rate: float, status: Status) -> None:
    seen = Watched(uuid="GPU-0", samples=9, mask=0, link=(4, 8), link_max=(4, 16))
    one = load(name, None, matmul={"bf16": 9e13}, to_device=rate * 1e9)
    verdict = speed(one, seen=(seen,))
    assert verdict.status is status
    assert "x16" in verdict.summary


@pytest.mark.parametrize(
    ("name", "lanes", "most", "other", "status"),
    [
        (T4, 8, 16, None, Status.SKIP),
        (T4, 4, 16, None, Status.WARN),
        (T4, 4, 4, None, Status.SKIP),
        ("NVIDIA GeForce RTX 4080", 4, 16, None, Status.SKIP),
        ("NVIDIA GeForce RTX 4080", 1, 16, None, Status.WARN),
        (T4, 8, 16, 8, Status.SKIP),
        (T4, 8, 16, 16, Status.WARN),
    ],
)
def test_lanes_are_compared_with_what_healthy_boards_have(
    name: str, lanes: int, most: int, other: int | None, status: Status
) -> None:
    widths = (lanes,) if other is None else (lanes, other)
    loads = (
        load(name, None, i, matmul={"bf16": 9e13}, to_device=1.5e9 * width)
        for i, width in enumerate(widths)
    )
    seen = tuple(watched(i, link=(4, w), link_max=(4, most)) for i, w in enumerate(widths))
    assert speed(*loads, seen=seen).status is status


def test_a_link_that_stays_slow_under_load_is_a_warning_without_copies_too() -> None:
    unmeasured = load(to_device=None, unread={"to_device": "RuntimeError: cannot pin"})
    for generation, status in ((2, Status.WARN), (3, Status.PASS)):
        seen = (watched(link=(generation, 16)),)
        assert speed(unmeasured, seen=seen).status is status


def test_a_link_that_cannot_carry_what_was_measured_was_not_read() -> None:
    placeholder = (watched(link=(1, 1)),)
    assert speed(load(to_device=20e9), seen=placeholder).status is Status.PASS
    assert speed(load(to_device=0.2e9), seen=placeholder).status is Status.WARN


def on_gpu(**fields: Any) -> JobGpus:
    """The first GPU with these fields of NVML, or of torch for `integrated`."""
    integrated = fields.pop("integrated", False)
    view = TorchGpu(
        index=0, uuid="0", name=H200, capability=(9, 0), memory_total=1, integrated=integrated
    )
    record = Gpu(index=0, uuid="GPU-0", name=H200, **fields)
    return JobGpus(gpus=(JobGpu(nvml=record, torch=view),), by="torch")


def test_a_gpu_that_others_use_is_not_called_broken() -> None:
    for used in ({"processes": 1}, {"memory_used": 5 * 2**30}):
        assert speed(load(rate=100), gpus=on_gpu(**used)).status is Status.WARN
    assert speed(load(rate=100), gpus=on_gpu(processes=0, memory_used=0)).status is Status.FAIL


def test_the_link_of_an_integrated_gpu_is_not_judged() -> None:
    seen = (watched(link=(1, 1), link_max=(5, 16)),)
    one = load("NVIDIA GB10", 60, to_device=0.2e9)
    assert speed(one, seen=seen, gpus=on_gpu(integrated=True)).status is Status.SKIP
    assert speed(one, seen=seen, gpus=on_gpu()).status is Status.WARN


@pytest.mark.parametrize("confidential", [True, False])
def test_encrypted_copies_may_be_slow(confidential: bool) -> None:
    if "confidential" not in Driver.__struct_fields__:
        pytest.skip("the fact is not recorded yet")
    driver = msgspec.convert(
        {"nvml": {"how": "ok"}, "cuda": {"how": "ok"}, "confidential": confidential}, Driver
    )
    status = Status.PASS if confidential else Status.WARN
    assert speed(load(to_device=9e9), driver=driver).status is status


@pytest.mark.parametrize(
    ("rate", "around", "status", "said"),
    [
        (55.0, {}, Status.PASS, "55.0 GB/s from the host over PCIe 5.0 x16"),
        (26.0, {}, Status.PASS, "26.0 GB/s"),
        (25.0, {}, Status.WARN, "25.2 GB/s"),
        (13.0, {"link": (4, 16), "link_max": (4, 16)}, Status.PASS, "PCIe 4.0 x16"),
        (12.0, {"link": (4, 16), "link_max": (4, 16)}, Status.WARN, "at least 12.6 GB/s"),
        (25.0, {"link": (5, 8)}, Status.PASS, "PCIe 5.0 x8"),
        (12.0, {"link": (3, 16)}, Status.PASS, "PCIe 3.0 x16"),
        (3.0, {"link": (1, 16)}, Status.WARN, "over PCIe 1.0 x16"),
        (3.5, {"link": (3, 4), "link_max": (3, 4)}, Status.PASS, "PCIe 3.0 x4"),
        (0.9, {"link": (3, 1), "link_max": (3, 1)}, Status.WARN, "at least 2.9 GB/s"),
        (2.0, {"link": None, "unread": {"link": "refused (4)"}}, Status.WARN, "refused (4)"),
        (20.0, {"link": None}, Status.PASS, "PCIe link not read (not recorded)"),
        (55.0, {"pcie_replays": 8}, Status.PASS, "55.0"),
        (55.0, {"pcie_replays": 9}, Status.WARN, "9 PCIe packets"),
        (400.0, {"link": (7, 16), "link_max": (7, 16)}, Status.PASS, "PCIe 7.0 x16"),
    ],
)
def test_the_way_to_the_host_is_judged_by_what_the_slot_can_do(
    rate: float, around: dict[str, Any], status: Status, said: str
) -> None:
    verdict = speed(load(to_device=rate * 1e9), seen=(watched(**around),))
    assert verdict.status is status, verdict.summary
    assert said in verdict.summary


def test_a_slow_link_is_told_of_a_model_without_a_figure_too() -> None:
    verdict = speed(load(T4, 30.0, to_device=1e9))
    assert verdict.status is Status.WARN
    assert verdict.sources == ("pcie-link",)


@pytest.mark.parametrize("seen", [(), NOBODY, (watched(7),)])
def test_a_run_that_was_not_watched_is_said_to_be(seen: Any) -> None:
    verdict = speed(load(), seen=seen)
    assert verdict.status is Status.PASS
    assert "PCIe link not read (not watched)" in verdict.summary


def test_copies_that_were_not_measured_are_named() -> None:
    refused = load(to_device=None, unread={"to_device": "RuntimeError: cannot pin"})
    assert "RuntimeError: cannot pin" in speed(refused).summary


def test_a_slowdown_meanwhile_is_named_as_the_cause() -> None:
    slow = (watched(mask=0x4 | 0x40),)
    assert "see GPU004" in speed(load(rate=300), seen=slow).summary
    assert "see GPU004" not in speed(load(), seen=slow).summary


def test_a_slice_is_not_judged() -> None:
    part = Slice(uuid="MIG-1")
    whole = Gpu(index=0, uuid="GPU-0", name=H200, mig=True, slices=(part,))
    gpus = JobGpus(gpus=(JobGpu(nvml=whole, slice=part),), by="torch")
    verdict = speed(load(uuid="MIG-1", rate=90), gpus=gpus)
    assert verdict.status is Status.SKIP
    assert "MIG slice" in verdict.summary


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_passed_and_missed(name: str) -> None:
    rate = FIGURES[name].rate / 1e12
    assert speed(load(name, rate)).status is Status.PASS
    missed = speed(load(name, rate * 0.7))
    assert missed.status is Status.WARN
    assert missed.sources == (FIGURES[name].source,)


@pytest.mark.parametrize("name", PEAKS)
def test_every_peak_gives_a_floor(name: str) -> None:
    peak = PEAKS[name].rate / 1e12
    assert speed(load(name, peak * FLOOR * 1.01)).status is Status.PASS
    missed = speed(load(name, peak * FLOOR * 0.99))
    assert missed.status is Status.FAIL
    assert missed.sources == (PEAKS[name].source,)


@pytest.mark.parametrize(
    ("fields", "status", "owner", "said"),
    [
        ({}, Status.PASS, Owner.MACHINE, "8192 x 8192"),
        ({"differing": 3}, Status.FAIL, Owner.MACHINE, "3 elements"),
        ({"differing": 3, "differing_again": 1}, Status.FAIL, Owner.MACHINE, "3 elements"),
        ({"differing": 3, "differing_again": 0}, Status.WARN, Owner.MACHINE, "second series"),
        ({"differing": None}, Status.UNKNOWN, Owner.MACHINE, "not compared"),
        (
            {"ended": Ended(how="error", detail="CUDA error: uncorrectable ECC error")},
            Status.FAIL,
            Owner.MACHINE,
            "raised: CUDA error: uncorrectable ECC",
        ),
        (
            {"ended": Ended(how="error", detail="CUDA out of memory. Tried to allocate")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "see GPU002",
        ),
        (
            {"ended": Ended(how="error", detail="cuDNN version incompatibility")},
            Status.FAIL,
            Owner.ENVIRONMENT,
            "cuDNN",
        ),
        (
            {"ended": Ended(how="timeout", detail="no answer in 60 s inside bf16 matmul")},
            Status.FAIL,
            Owner.MACHINE,
            "hung: no answer in 60 s",
        ),
        (
            {"ended": Ended(how="signal", detail="SIGSEGV")},
            Status.FAIL,
            Owner.ENVIRONMENT,
            "crashed: SIGSEGV",
        ),
        (
            {"ended": Ended(how="signal", detail="SIGKILL inside bf16 matmul")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "killed from outside",
        ),
        (
            {"ended": Ended(how="error", detail="RuntimeError: an error in no table")},
            Status.UNKNOWN,
            Owner.MACHINE,
            "in no table",
        ),
    ],
)
def test_the_same_product_is_judged(
    fields: dict[str, Any], status: Status, owner: Owner, said: str
) -> None:
    verdict = REPEATABLE.judge(load=(load(), load(index=1, **fields)))
    assert verdict.status is status
    assert (verdict.owner or REPEATABLE.owner) is owner
    assert said in verdict.summary
    if status is Status.FAIL:
        assert "GPU 1 (NVIDIA H200), GPU-1" in verdict.summary


def test_no_load_is_unknown() -> None:
    assert REPEATABLE.judge(load=()).status is Status.UNKNOWN


def test_a_load_survives_its_file() -> None:
    told = load(unread={"to_device": "why"})
    assert msgspec.json.decode(msgspec.json.encode(told), type=Load) == told


@pytest.mark.gpu
def test_a_real_gpu_is_put_under_load() -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here: /dev/nvidiactl is missing")
    children = Children()
    child = TorchChild(children, preloaded.python())
    worker = Worker("cuda:0", None, "GPU", child)
    try:
        (found,) = gpus.measure_load((worker,))
    finally:
        end((worker,))
    assert found.ended.ok, found.ended
    assert found.differing == 0
    assert all(rate > 1e11 for rate in found.matmul.values())
