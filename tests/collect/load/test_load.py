"""The load on a device: products, copies, and what goes wrong in its process."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

import preloaded
import pytest
import shims
from loads import AT, HANG, Make, facts, short_deadline, speed
from probe_code import REGISTERED

from doctor._util.records import Ended
from doctor.checks.gpu.load import REPEATABLE
from doctor.collect import gpus
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker, end
from doctor.facts.interpreter import TorchGpu
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status


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


@pytest.mark.parametrize(("slow", "measured"), [(False, 1), (True, 2)])
def test_what_looks_slow_is_measured_again(slow: bool, measured: int) -> None:
    workers = copying(threading.Barrier(1), [])[:1]
    loaded = gpus.run_load_tests(
        Children(0.0), workers, facts(Job(), 4, ""), lambda doing: None, is_slow=lambda seen: slow
    ).load
    assert isinstance(loaded, tuple)
    assert [load.measured for load in loaded] == [measured]


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
    monkeypatch.setattr(gpus, "PCI_DEVICES", tmp_path)
    gpu = TorchGpu(index=0, uuid=None, name="GPU", capability=(9, 0), memory_total=1)
    record = Gpu(index=0, uuid="GPU-1", name="GPU", bus_id="00000000:1B:00.0")
    listed = JobGpus(gpus=(JobGpu(nvml=record, torch=gpu), JobGpu(torch=gpu)), by="torch")
    assert gpus.numa_nodes(listed) == nodes


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
import torch
load = probe("load.load")
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
        [preloaded.python(), "-c", REGISTERED + SETTINGS, "2"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    before, on, after, off, last = done.stdout.strip().split(",")
    assert (on, off) == ("tf32", "ieee")
    assert before == after == last


NEAR = """
import os, torch
near = probe("load.near")
assert near.cpus("0-3,8\\n") == {0, 1, 2, 3, 8}
assert near.cpus("\\n") == set()
allowed = os.sched_getaffinity(0)
here = {min(allowed)}
for local, inside in ((here, here), ({100000}, allowed), (set(), allowed)):
    near.local_cpus = lambda device: local
    with near.near(torch.device("cuda", 0)):
        assert os.sched_getaffinity(0) == inside
    assert os.sched_getaffinity(0) == allowed
"""


@pytest.mark.slow
def test_copies_run_next_to_the_gpu_and_the_process_may_use_all_cpus_afterwards() -> None:
    subprocess.run([preloaded.python(), "-c", REGISTERED + NEAR, "2"], check=True, timeout=120)


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
