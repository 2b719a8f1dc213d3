"""The codes that --all evaluates: pure rules on numbers, and real trainings."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import preloaded
import pytest

from doctor.guard import thresholds as limit
from doctor.guard.flat_loss import FlatLoss
from doctor.guard.lost_updates import lost_alarm
from doctor.guard.memory import Growth, free_host_bytes, private_bytes
from doctor.guard.pace import Pace

pytestmark = pytest.mark.usefixtures("one_thread")

MIB = 2**20
WORK = (1, 0, 8)


def codes(alarms: Any) -> list[str]:
    return [alarm.code for alarm in alarms]


def steps_of(pace: Pace, seconds: Any, count: int, *, wait: Any = 0.0, idle: Any = None) -> Any:
    alarms = []
    for step in range(1, count + 1):
        if wait:
            pace.waited(wait, idle)
        alarms += pace.step(step, seconds(step), WORK)
    return alarms


@pytest.mark.parametrize(
    ("wait", "idle", "expected"),
    [
        (0.06, None, ["GRD017"]),
        (0.04, None, []),  # without a GPU that may be another program
        (0.04, True, ["GRD017"]),
        (0.04, False, []),  # the GPU still works on what was launched
        (0.02, True, []),  # 20 % of the step
    ],
)
def test_a_stall_is_a_long_wait_of_an_idle_gpu(wait: float, idle: Any, expected: Any) -> None:
    assert codes(steps_of(Pace(), lambda step: 0.1, 100, wait=wait, idle=idle))[:1] == expected


def test_waits_of_milliseconds_are_no_stall() -> None:
    assert steps_of(Pace(), lambda step: 0.01, 200, wait=0.008) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (lambda step: 1.0 if step < 200 else 2.0, ["GRD018"]),
        (lambda step: 1.0 if step < 200 else 1.4, []),
        (lambda step: 30.0 if step % 25 == 0 else 1.0, []),  # evaluation
        (lambda step: 1.0 if step < 200 or step > 240 else 2.0, []),  # a burst
        (lambda step: 0.01 if step < 200 else 0.02, []),  # less than a minute
    ],
)
def test_steps_that_become_slower(seconds: Any, expected: list[str]) -> None:
    assert codes(steps_of(Pace(), seconds, 400)) == expected


def test_more_work_is_not_slower() -> None:
    pace = Pace()
    alarms = []
    for step in range(1, 500):
        work = (1, 0, 8) if step < 200 else (1, 0, 16)
        alarms += pace.step(step, 1.0 if step < 200 else 2.0, work)
    assert alarms == []


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (lambda step: 1000 * MIB + 2 * MIB * step, ["GRD019"]),
        (lambda step: 1000 * MIB + 0.1 * MIB * step, []),  # enough left for 1,000 steps
        (lambda step: 1000 * MIB * (1 - 0.97**step), []),  # a cache that fills up
        (lambda step: 1000 * MIB + 100 * MIB * (step // 4 % 7), []),  # lengths that vary
        (lambda step: 1000 * MIB, []),
    ],
)
def test_memory_that_grows(used: Any, expected: list[str]) -> None:
    growth = Growth("memory", "host", lambda: 1000 * MIB)
    alarms = [a for step in range(4, 400, 4) for a in growth.add(step, used(step))]
    assert codes(alarms)[:1] == expected


def test_memory_of_this_process_is_read() -> None:
    before = private_bytes()
    with mmap.mmap(-1, 32 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"a" * len(block))  # a heap may have pages that were used before
        after = private_bytes()
    if before is None or after is None:
        pytest.skip("no /proc")
    assert after - before > 16 * MIB
    assert (free_host_bytes() or 0) > 0


@pytest.mark.parametrize(
    ("loss", "rate", "vocabulary", "expected"),
    [
        (lambda step: 10.38, 1e-3, 32000, [300]),
        (lambda step: 10.38 - step / 1000, 1e-3, 32000, []),
        (lambda step: 2.0, 1e-3, 32000, []),  # a fine-tuning
        (lambda step: 10.38, 1e-6, 32000, []),  # a warm-up that has hardly begun
        (lambda step: 4.0, 1e-3, 55, []),  # a small vocabulary
    ],
)
def test_a_loss_that_stays_at_the_start(
    loss: Any, rate: float, vocabulary: int, expected: list[int]
) -> None:
    flat = FlatLoss(vocabulary)
    assert [step for step in range(1, 700) if flat.add(loss(step), rate)] == expected


@pytest.mark.parametrize(("lost", "expected"), [(60, ["GRD008"]), (40, []), (10, [])])
def test_lost_updates(lost: int, expected: list[str]) -> None:
    assert codes(lost_alarm(lost, 100, 1e-5, 7, 0)) == expected
    assert lost_alarm(lost // 4, 25, 1e-5, 7, 0) == []  # too few to speak of


torch = pytest.importorskip("torch")

from trainings import adamw, alarms, batches, guarded, loss_of, model, records, train  # noqa: E402


def state(out: Path) -> dict[str, Any]:
    return records(out, "state")[-1]


def test_most_updates_of_bf16_weights_are_lost(tmp_path: Path) -> None:
    with guarded(tmp_path, all=True):
        module = model(torch.bfloat16)
        train(module, adamw(module, 1e-5), 6)
    lost = [a for a in records(tmp_path, "alarm") if a["cause"] == "lost"]
    assert [(a["code"], a["step"]) for a in lost][:1] == [("GRD008", 1)]
    assert 0.5 < state(tmp_path)["updates_lost"] / state(tmp_path)["updates"] <= 1.0


def test_few_updates_of_fp32_weights_are_lost(tmp_path: Path) -> None:
    with guarded(tmp_path, all=True):
        module = model()
        train(module, adamw(module), 6)
    assert state(tmp_path)["updates"] == 0


class Decoding:
    """A dataset that takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 75

    def __getitem__(self, index: int) -> Any:
        if self.seconds:
            time.sleep(self.seconds)
        return next(batches(1))


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "expected"), [(0.06, {("GRD017", "warn")}), (0.0, set())])
def test_a_loader_that_is_slow(seconds: float, expected: Any, tmp_path: Path) -> None:
    with guarded(tmp_path, all=True):
        module = model()
        optimizer = adamw(module)
        for x, y in torch.utils.data.DataLoader(Decoding(seconds), batch_size=None):
            loss_of(module, x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert set(alarms(tmp_path)) == expected
    assert state(tmp_path)["batches"] == 74  # the first one starts the epoch


@pytest.mark.slow
def test_graphs_that_are_kept_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    with guarded(tmp_path, all=True) as guard:
        guard._session.watch.memory.host._free = lambda: 256 * MIB  # a small machine
        ctypes.CDLL(None).malloc_trim(0)  # what earlier tests freed would be used first
        w = torch.nn.Parameter(torch.ones(500_000))
        optimizer = torch.optim.SGD([w], lr=0.1)
        for _ in range(180):
            loss = (w.exp() * 1e-9).sum()
            loss.backward(retain_graph=True)
            optimizer.step()
            optimizer.zero_grad()
            kept.append(loss)
    assert ("GRD019", "warn") in alarms(tmp_path)


@pytest.mark.slow
def test_a_language_model_that_learns_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Embedding(1000, 8), torch.nn.Linear(8, 1000))
    torch.nn.init.normal_(module[1].weight, std=0.02)
    optimizer = adamw(module, 1e-4)
    with guarded(tmp_path, all=True):
        for _ in range(310):
            x = torch.randint(0, 1000, (2, 8))
            y = torch.randint(0, 1000, (16,))
            loss = torch.nn.functional.cross_entropy(module(x).flatten(0, 1), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert limit.FLAT_STEPS == 300
    assert alarms(tmp_path) == {("GRD015", "warn"): 300}
    assert state(tmp_path)["vocabulary"] == 1000


RANK = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
from trainings import adamw, guarded, model, train
from pathlib import Path
torch.set_num_threads(1)
rank = int(sys.argv[3])
dist.init_process_group("gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=2)
for name, rate in (("same", 1e-3), ("other", 2e-3 if rank else 1e-3)):
    with guarded(Path(sys.argv[2]) / name, all=True):
        module = torch.nn.parallel.DistributedDataParallel(model())
        train(module, adamw(module, rate), 12)
with guarded(Path(sys.argv[2]) / "joined", all=True):
    module = torch.nn.parallel.DistributedDataParallel(model())
    with module.join():  # rank 1 ends first, and gets the weights of rank 0 then
        train(module, adamw(module, 1e-3), 12 - 5 * rank)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_replicas_that_differ(tmp_path: Path) -> None:
    from doctor.checks.guard.resources import RANKS
    from doctor.collect.guard_records import read_records
    from doctor.facts.guard import Guarded

    support = Path(__file__).parent.parent / "support"
    arguments = [str(support), str(tmp_path / "out")]
    children = [
        subprocess.Popen(
            [preloaded.python(), "-c", RANK, *arguments, str(rank), str(tmp_path / "store")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for rank in range(2)
    ]
    assert [child.wait(120) for child in children] == [0, 0]
    verdicts = {}
    for name in ("same", "other"):
        observed = read_records(tmp_path / "out" / name)
        assert isinstance(observed, Guarded)
        verdicts[name] = RANKS.judge(observed)
    joined = read_records(tmp_path / "out" / "joined")
    assert isinstance(joined, Guarded)
    assert RANKS.judge(joined).status == "skip"
    assert verdicts["same"].status == "pass"
    assert "to step 10" in verdicts["same"].summary
    assert verdicts["other"].status == "fail"
    assert verdicts["other"].summary.startswith(
        "step 1: 6 sampled parameters differ between ranks 0 and 1 (0.weight, 1.weight and 4 more)"
    )
