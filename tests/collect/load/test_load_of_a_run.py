"""Which devices of a run are put under load, and by which processes."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
import shims
from loads import AT, HANG, NOBODY, OK, Make, facts, short_deadline
from recorded import machine_file
from recorded_parts import smoke, stopped

from doctor._util.records import Ended, Unknown
from doctor.cli.options import ConfigFlags
from doctor.cli.run import run
from doctor.collect import collect, gpus
from doctor.collect.ahead import Ahead
from doctor.collect.before_torch import BeforeTorch
from doctor.collect.child import CUT_OFF
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.left_out import from_load
from doctor.collect.session import Session
from doctor.collect.torch_child import TorchChild, run_kernels
from doctor.collect.workers import Siblings, Worker, end, start_workers
from doctor.facts.facts import decode, encode
from doctor.facts.interpreter import Cuda, Torch
from doctor.facts.training import Smoke
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status


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
    session = Session(
        children=children,
        report_progress=told.append,
        started=0.0,
        host=given.host,
        timing=at_once({}),
        child=workers[0].child,
        why="",
        driver=at_once((None, None)),
        siblings=at_once(Siblings(children, preloaded.python(), 0)),
        ahead=at_once(Ahead()),
        before=at_once(BeforeTorch(gpus.Watch(children, ()), None)),
        is_slow=lambda facts: False,
        places=(),
        checkpoint=at_once(None),
        shape=at_once(None),
    )
    done = collect._examine_imported(session, given, found)
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


def at_once(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


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
