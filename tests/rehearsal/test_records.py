"""What a hostile command leaves in the directory of records neither hangs nor harms the doctor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.collect.rehearsal import (
    agreement,
    continuing,
    differences,
    events,
    hanging,
    observation,
    observed_run,
    on_disk,
    records,
    resume,
    resumed_data,
    runs,
    sample_order,
)
from doctor.collect.rehearsal.places import Workplace
from doctor.collect.rehearsal.rates import rates_apart
from doctor.collect.rehearsal.tail import Tail
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import OnDisk, RehearsedRank, RehearsedRun, SavedFile

PROCESS = '{"kind": "process", "rank": 0, "world": 1, "pid": 7, "moment": 1.0}\n'


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_regular_file_is_not_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / "real").write_text(PROCESS)
    for name in ("observed0-7.jsonl", events.EVENTS, "calls"):
        if kind == "pipe":
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).symlink_to(tmp_path / "real")
    assert observation.read_processes(tmp_path) == []
    assert events.read_attempts(tmp_path, "run", "calls") == []
    assert Tail(tmp_path).step() == 0


def test_the_tail_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "observed0-7.jsonl"
    path.write_text(PROCESS + '{"kind": "step", "s": 1}\n{"kind": "st')
    tail = Tail(tmp_path)
    assert tail.step() == 1
    with path.open("a") as file:
        file.write('ep", "s": 2}\n')
    assert tail.step() == 2


@pytest.mark.slow
def test_only_a_process_with_a_handler_is_asked_for_its_frames(tmp_path: Path) -> None:
    workplace = Workplace(tmp_path, tmp_path)
    request = runs.Request(workplace=workplace, files=True, network=False)
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        names = ("frames--1.txt", "frames-0.txt", "frames-1.txt", f"frames-{child.pid}.txt")
        for name in names:
            (tmp_path / name).write_text("")
        runs._Run(request, "run", child, tmp_path, 60.0, 0).frames()
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL  # and not of the signal for frames


def snapshot(when: str, **hashes: int) -> records.Snapshot:
    """With a buffer of each kind."""
    buffers = {name: ["float32", [1], value, name == "kept"] for name, value in hashes.items()}
    return records.Snapshot(
        when=when, s=4, seconds=0.0, weights={"w": ["float32", [1], 5]}, buffers=buffers,
        optimizers={}, schedules={}, scalers={},
    )  # fmt: skip


def test_lost_buffers_are_told_apart_by_what_is_saved() -> None:
    saved, now = snapshot("save", kept=1, cache=1), snapshot("start", kept=2, cache=2)
    lost = differences.differences(saved, now, None, 0)
    assert [(each.names, each.persistent) for each in lost] == [
        (("kept",), True), (("cache",), False),
    ]  # fmt: skip


def observed(*found: object) -> observation.Observed:
    process = records.Process(rank=0, world=1, pid=7, moment=1.0)
    return observation.Observed([process, *found])


def steps(*rates: float) -> list[records.Step]:
    return [records.Step(s=n, moment=n, t=0.1, rates=[rate]) for n, rate in enumerate(rates, 1)]


@pytest.mark.parametrize(
    ("schedule", "after", "differs"),
    [
        ("LinearLR", 0.2, True),
        ("ReduceLROnPlateau", 0.2, False),  # it follows losses, which are others after a resume
        ("ReduceLROnPlateau", 0.3, True),
    ],
)
def test_a_rate_that_follows_the_loss_is_compared_at_the_first_step(
    schedule: str, after: float, differs: bool
) -> None:
    whole = observed(*steps(0.3, 0.3, 0.3, 0.3, 0.2, 0.1))
    continued = observed(*steps(0.2, 0.2) if not differs or after == 0.2 else steps(0.3, 0.1))
    saved = msgspec.structs.replace(snapshot("save"), schedules={schedule: 4})
    assert (rates_apart([whole], [continued], saved) is not None) is differs


@pytest.mark.parametrize(
    ("saved", "whole", "continued", "found"),
    [
        (4, [1] * 8, [1] * 4 + [2] * 4, (4, 4, False)),  # the next fold counts anew
        (4, [1] * 8, [1] * 8, (8, 4, True)),
        (4, [1] * 10 + [2] * 10, [1] * 6 + [2] * 14, (6, 6, False)),  # two phases
        (10, [1] * 10 + [2] * 10, [1] * 20, (20, None, False)),  # the second goes on
    ],
)
def test_steps_of_one_optimizer(saved: int, whole: Any, continued: Any, found: Any) -> None:
    def run(leaders: list[int], *others: records.Snapshot) -> list[observation.Observed]:
        taken = [records.Step(n, float(n), 0.1, [], leader=o) for n, o in enumerate(leaders, 1)]
        return [observed(*taken, *others, records.End(len(leaders)))]

    held = msgspec.structs.replace(snapshot("save"), s=saved)
    state = resume.compare(
        run(whole), run(whole, held), run(continued, snapshot("start")),
        looked=True, request="", opened="a.pt",
    )  # fmt: skip
    assert state is not None
    assert (state.steps, state.expected_steps, state.counted_from_0) == found


def test_weights_under_other_names_are_lost() -> None:
    saved, now = snapshot("save"), snapshot("start")
    renamed = msgspec.structs.replace(now, weights={"v": ["float32", [1], 6]})
    more = msgspec.structs.replace(now, weights={**now.weights, **renamed.weights})
    assert [each.names for each in differences.other_names(saved, renamed, 0)] == [("w",)]
    assert differences.other_names(saved, more, 0) == []


def test_a_rank_may_take_over_the_buffers_of_rank_0() -> None:
    own, shared = snapshot("save", kept=1), snapshot("save", kept=2)
    for value, lost in ((1, False), (2, False), (3, True)):
        now = snapshot("start", kept=value)
        found = differences.differences(resume._with_shared(own, shared, now), now, None, 1)
        assert bool(found) is lost


def on_rank(rank: int, *found: object, pid: int = 7) -> observation.Observed:
    return observation.Observed([records.Process(rank=rank, world=2, pid=pid, moment=1.0), *found])


def held(part: str, value: int) -> records.Snapshot:
    weights = {"w": ["float32", [2], value, part], "v": ["float32", [1], 1, ""]}
    return msgspec.structs.replace(snapshot("step"), weights=weights)


@pytest.mark.parametrize(
    ("left", "right", "differs", "parted"),
    [
        (held("", 1), held("", 1), 0, 0),
        (held("", 1), held("", 2), 1, 0),
        (held("0:0", 1), held("0:1", 2), 0, 1),
        (held("1:0", 1), held("1:0", 2), 1, 0),  # the same part, along a replicated dimension
        (held("not known", 1), held("not known", 2), 0, 1),
    ],
)
def test_weights_are_compared_where_ranks_hold_the_same_part(
    left: Any, right: Any, differs: int, parted: int
) -> None:
    found = agreement.compare([on_rank(0, left), on_rank(1, right)], cut=False)
    assert (found.count, found.parted) == (differs, parted)


def test_epochs_of_ranks() -> None:
    def rank(number: int, batches: int | None, *ends: int) -> observation.Observed:
        epochs = [records.Epoch(s=end) for end in ends]
        return on_rank(number, records.Loader(batches), *steps(*[0.1] * 9), *epochs)

    assert agreement.compare([rank(0, 5), rank(1, None)], cut=False).epoch == ()
    found = agreement.compare([rank(0, 5, 5), rank(1, 4, 4, 8)], cut=True)
    assert found.epoch == (5, 4)
    assert found.went_on
    assert found.uneven_end
    assert not agreement.compare([rank(0, 5, 5), rank(1, 4)], cut=False).went_on


def test_what_the_samplers_of_the_ranks_shuffle_by() -> None:
    def orders(*by: str) -> tuple[str, ...]:
        ranks = [
            on_rank(n, records.Loader(5, "DistributedSampler", each)) for n, each in enumerate(by)
        ]
        return agreement.compare(ranks, cut=False).orders

    assert orders("seed 0, epoch 0", "seed 0, epoch 0") == ()
    assert orders("seed 0, epoch 0", "seed 1, epoch 0") == ("seed 0, epoch 0", "seed 1, epoch 0")
    other = on_rank(1, records.Loader(5, "RandomSampler"))
    first = on_rank(0, records.Loader(5, "DistributedSampler", "seed 0, epoch 0"))
    assert agreement.compare([first, other], cut=False).orders == ()


def taking(*samples: int) -> list[observation.Observed]:
    """One rank, a sample a step."""
    return [on_rank(0, *[records.Taken(s=n, samples=[x]) for n, x in enumerate(samples, 1)])]


@pytest.mark.parametrize(
    ("stopped", "continued", "result"),
    [
        ((1, 2, 3), (3, 4, 5, 6), (True, 0, 0, False)),
        ((1, 2, 3), (4, 3, 6, 5), (False, 0, 0, False)),
        ((1, 2, 3), (1, 2, 3, 4), (False, 2, 2, True)),
        ((1, 2, 3), (2, 1, 4, 3), (False, 2, 2, False)),
        ((1, 2, 3), (3, 4), (True, 0, 0, False)),  # cut off
        ((2, 1, 3), (3, 4), "different orders"),
        ((1, 2, 3), (), "some ranks"),
    ],
)
def test_samples_of_a_resume(stopped: Any, continued: Any, result: Any) -> None:
    runs = taking(1, 2, 3, 4, 5, 6), taking(*stopped), taking(*continued)
    found = sample_order.compare(*runs, saved_step=2)
    assert found is not None
    if isinstance(result, str):
        assert result in found.untold
    else:
        assert (found.same, found.again, found.left_out, found.anew) == result
    assert sample_order.compare([observed()], [observed()], [observed()], 2) is None


FRAMES = """Thread 0x01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
Current thread 0x02 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch/autograd/graph.py", line 8 in backward
  File "/job/train.py", line 7 in main
"""


def test_a_rank_waits_where_its_own_code_is(tmp_path: Path) -> None:
    (tmp_path / "frames-7.txt").write_text(FRAMES)
    (tmp_path / "frames-8.txt").write_text("")
    call = '{"name": "barrier", "number": 3, "returned": false, "place": "train.py:9"}'
    (tmp_path / "collective-8.json").write_text(call.ljust(600))
    (tmp_path / "collective-9.json").write_text("[" * 100_000)
    ranks = [on_rank(0, pid=7), on_rank(1, pid=8), on_rank(2, pid=9)]
    found = hanging.waiting(tmp_path, ranks)
    assert [(each.place, each.collective, each.inside) for each in found] == [
        ("/job/train.py:7 in main", "", False), ("train.py:9", "barrier", True), ("", "", False),
    ]  # fmt: skip


def rank(number: int, weight: int, gradient: int, **fields: Any) -> observation.Observed:
    """With one weight, and its gradient at the first step."""
    start = msgspec.structs.replace(
        snapshot("start"), s=0, weights={"w": ["float32", [1], weight]}, **fields
    )
    found = records.Gradients({"w": ["float32", [1], gradient]})
    process = records.Process(rank=number, world=2, pid=7 + number, moment=1.0)
    return observation.Observed([process, start, found])


@pytest.mark.parametrize(
    ("weights", "gradients", "averaged"),
    [
        ((1, 2), (5, 5), 1),
        ((1, 2), (5, 6), 0),  # parts of one weight, or models of their own
        ((1, 2), (0, 0), 0),
        ((1, 1), (5, 5), 0),
    ],
)
def test_weights_of_ranks_that_average_their_gradients(
    weights: tuple[int, int], gradients: tuple[int, int], averaged: int
) -> None:
    ranks = [rank(n, *each) for n, each in enumerate(zip(weights, gradients, strict=True))]
    assert agreement.compare(ranks, cut=False).averaged == averaged


@pytest.mark.parametrize(("resumed", "exchanged"), [(5, True), (6, False)])
def test_the_resume_goes_on_from_weights_that_were_exchanged(resumed: int, exchanged: bool) -> None:
    """Otherwise they were computed anew, as a schedule-free optimizer does."""
    saved = msgspec.structs.replace(snapshot("save"), exchanged=True)
    start = msgspec.structs.replace(snapshot("start"), weights={"w": ["float32", [1], resumed]})
    stopped = observed(saved, records.Exchanged(s=4))
    found = resume.compare(
        [observed()], [stopped], [observed(start)], looked=True, request="", opened=""
    )
    assert found is not None
    assert found.exchanged is exchanged
    assert not found.lost


@pytest.mark.parametrize(("weight", "known"), [(5, True), (6, False)])
def test_what_another_thread_saves_is_a_copy_of_an_earlier_state(weight: int, known: bool) -> None:
    saved = msgspec.structs.replace(snapshot("save"), background=True)
    start = msgspec.structs.replace(snapshot("start"), weights={"w": ["float32", [1], weight]})
    found = resume.compare(
        [observed()], [observed(saved)], [observed(start)], looked=True, request="", opened=""
    )
    assert (found is not None) is known


@pytest.mark.parametrize(("first", "narrow"), [((), "bfloat16"), (("bfloat16",), "")])
def test_a_pretrained_backbone_is_no_load_of_what_was_saved(
    first: tuple[str, ...], narrow: str
) -> None:
    def load(dtype: str) -> records.Load:
        return records.Load(0, "Net", 4, [], [], 0, 0, dtype)

    found = resume.compare(
        [observed(*map(load, first))],
        [observed(snapshot("save"))],
        [observed(load("bfloat16"), snapshot("start"))],
        looked=True,
        request="",
        opened="",
    )
    assert found is not None
    assert found.narrow == narrow


def test_a_handler_that_waits_is_named(tmp_path: Path) -> None:
    ended = observed(records.Paused(s=6, handlers={"SIGTERM": "on_term"}))
    frames = 'Current thread 0x1 (most recent call first):\n  File "/a/t.py", line 44 in save\n'
    path = tmp_path / "frames-7.txt"
    path.write_text(frames + '  File "/a/t.py", line 90 in on_term\n')
    assert hanging.handler(tmp_path, [ended], "SIGTERM") == "on_term, at /a/t.py:44 in save"
    assert hanging.handler(tmp_path, [ended], "SIGUSR1") == ""
    library = '  File "/usr/lib/python3.11/threading.py", line 9 in join\n'
    own = frames.partition("\n")[2] + '  File "/a/t.py", line 90 in on_term\n'
    path.write_text(frames.partition("\n")[0] + "\n" + library + own)
    assert hanging.handler(tmp_path, [ended], "SIGTERM").endswith(
        "in save, in join of threading.py"
    )
    path.write_text(frames)
    assert hanging.handler(tmp_path, [ended], "SIGTERM") == ""


def test_files_that_were_written_over(tmp_path: Path) -> None:
    found = [
        {"kind": "rewrite", "what": "open", "path": "/o/a/last.pt"},
        {"kind": "rewrite", "what": "torch.save", "path": "/o/a/last.pt"},
        {"kind": "read", "what": "open", "path": "/o/b.pt"},
    ]
    lines = "\n".join(json.dumps(each) for each in found)
    (tmp_path / events.EVENTS).write_text(lines, encoding="utf-8")
    assert events.read_overwritten(tmp_path, Path("/o")) == ("a/last.pt",)
    assert events.read_attempts(tmp_path, "run", "calls") == []


def disk(*paths: str) -> list[OnDisk]:
    return [OnDisk(path=path, bytes=9) for path in paths]


@pytest.mark.parametrize(
    ("paths", "opened", "behind"),
    [
        (("c-9", "c-10"), "c-9/m.pt", ("c-9", "c-10")),
        (("c-9", "c-10"), "", ("c-9", "c-10")),  # Rust opened it
        (("c-9", "c-10"), "best.pt", ("", "")),
        (("c-09", "c-10"), "c-09/m.pt", ("", "")),  # not by its name
        (("c-9", "d-10"), "c-9/m.pt", ("", "")),
        (("e1-s9.pt", "e1-s10.pt"), "e1-s9.pt", ("e1-s9.pt", "e1-s10.pt")),
    ],
)
def test_names_that_are_sorted_as_texts(paths: Any, opened: str, behind: Any) -> None:
    found = Resumed(saved_step=9, newest_step=10, opened=opened)
    assert continuing.sorted_as_text(disk(*paths), found) == behind
    torn = [msgspec.structs.replace(each, torn=("cut off",)) for each in disk(*paths)]
    assert continuing.sorted_as_text(torn, found) == ("", "")
    newest = msgspec.structs.replace(found, saved_step=10)
    assert continuing.sorted_as_text(disk(*paths), newest) == ("", "")


@pytest.mark.parametrize(
    ("saves", "steps", "stop"),
    [
        ((4, 8), 12, 10), ((4, 8), 11, 6), ((5,), 20, 7), ((12, 24, 36, 48), 60, 38),
        ((3, 6, 9, 12), 16, 14), ((5, 10), 12, 7), ((), 9, 5), ((), 1, 0),
    ],
)  # fmt: skip
def test_the_stop_is_after_the_save_in_the_middle_or_one_with_more_digits(
    saves: Any, steps: int, stop: int
) -> None:
    ranks = (RehearsedRank(rank=0, world=1, steps=steps),)
    saved = tuple(SavedFile(step=step, what="torch.save") for step in saves)
    run = RehearsedRun(name="run", seconds=1.0, ranks=ranks, saved=saved)
    assert continuing.stop_step(run) == stop


@pytest.mark.parametrize(
    ("path", "stop"),
    [("/o14/run/epoch.pt", 23), ("/o/run/c-{}.pt", 16), ("/o/c-{}/model.safetensors", 16)],
)
def test_only_a_number_in_the_name_is_sorted(path: str, stop: int) -> None:
    ranks = (RehearsedRank(rank=0, world=1, steps=35),)
    saves = (7, 14, 21, 28, 35)
    saved = tuple(SavedFile(step=s, what="torch.save", path=path.format(s)) for s in saves)
    run = RehearsedRun(name="run", seconds=1.0, ranks=ranks, saved=saved)
    assert continuing.stop_step(run) == stop


def saves(*found: tuple[int, str]) -> list[observation.Observed]:
    """One rank: step and path of each save, and an evaluation at the step of each."""
    process = records.Process(rank=0, world=1, pid=7, moment=1.0)
    made: list[object] = [records.Saved(s, "torch.save", path, 0.1) for s, path in found]
    evaluated = [records.Evaluated(s, 0.1, 2, 8, []) for s, _ in found]
    return [observation.Observed([process, *made, *evaluated])]


@pytest.mark.parametrize(
    ("whole", "continued", "found"),
    [
        (((4, "/o/best.pt"), (12, "/o/best.pt")), ((4, "/o/best.pt"),), ("best.pt", 8)),
        (((4, "/o/best.pt"), (8, "/o/best.pt")), ((4, "/o/best.pt"),), ("", 0)),
        (((4, "/o/best.pt"),), ((4, "/o/last.pt"), (8, "/o/best.pt")), ("", 0)),  # a later one
        (((4, "/o/best.pt"),), ((4, "/o/bestiary.pt"),), ("", 0)),
    ],
)
def test_the_best_result_is_forgotten(whole: Any, continued: Any, found: Any) -> None:
    stopped = saves((4, "/o/best.pt"))
    assert continuing.best_again(saves(*whole), stopped, saves(*continued), 4) == found
    assert continuing.best_again(saves(*whole), saves(), saves(*continued), 4) == ("", 0)


def test_files_that_several_ranks_write() -> None:
    def on(number: int, *paths: str, what: str = "torch.save") -> observation.Observed:
        return on_rank(number, *[records.Saved(4, what, path, 0.1) for path in paths])

    both = [on(0, "/o/last.pt", "/o/rng_0.pth"), on(1, "/o/last.pt", "/o/rng_1.pth")]
    assert observed_run.written_by_several(both, Path("/o")) == ("last.pt",)
    assert observed_run.written_by_several(both, Path("/p")) == ()
    parts = [on(rank, "/o/dcp", what="torch.distributed.checkpoint.save") for rank in (0, 1)]
    assert observed_run.written_by_several(parts, Path("/o")) == ()


@pytest.mark.parametrize(
    ("moment", "save", "found"),
    [
        (2500, 2, (2, "last.pt")),
        (500, 2, (0, "")),  # before the first step
        (9500, 9, (0, "")),  # no step follows
        (2500, 1, (0, "")),  # nothing is saved any more
    ],
)
def test_the_only_checkpoint_is_removed(moment: int, save: int, found: Any, tmp_path: Path) -> None:
    event = {"kind": "emptied", "what": "os.remove", "path": "/o/last.pt", "moment": moment}
    (tmp_path / events.EVENTS).write_text(json.dumps(event), encoding="utf-8")
    saved = records.Saved(save, "torch.save", "/o/next.pt", 0.1)
    process = observed(*steps(*[0.1] * 9), saved)
    assert events.read_emptied(tmp_path, [process], Path("/o")) == found


@pytest.mark.parametrize(
    ("gone", "never"),
    [
        ((3200, 6200, 9200), True),  # right after each save
        ((5900, 8900, 9200), False),  # a step later
        ((6050, 9050, 9200), False),  # right before the next one, and at the end
        ((3200,), False),  # of one phase of several
        ((), False),
    ],
)
def test_no_checkpoint_is_kept(gone: Any, never: bool, tmp_path: Path) -> None:
    lines = [
        json.dumps({"kind": "emptied", "what": "os.remove", "path": "/o/a.pt", "moment": each})
        for each in gone
    ]
    (tmp_path / events.EVENTS).write_text("\n".join(lines), encoding="utf-8")
    saved = [records.Saved(s, "torch.save", "/o/a.pt", 0.1, moment=s + 0.1) for s in (3, 6, 9)]
    process = observed(*[records.Step(s, float(s), 0.1, []) for s in range(1, 10)], *saved)
    assert events.never_kept(tmp_path, [process]) is never


@pytest.mark.parametrize(("now", "lost"), [(7, 0), (6, 1)])
def test_a_rank_that_saves_nothing_is_compared_at_the_save_of_rank_0(now: int, lost: int) -> None:
    """Rank 1 holds a part of its own, and recorded it after the step of the save."""

    def part(when: str, value: int, place: str) -> records.Snapshot:
        weights = {"w": ["float32", [1], value, place]}
        return msgspec.structs.replace(snapshot(when), weights=weights)

    stopped = [
        on_rank(0, part("step", 5, "0:0"), part("save", 5, "0:0")),
        on_rank(1, part("step", 7, "0:1")),
    ]
    continued = [on_rank(0, part("start", 5, "0:0")), on_rank(1, part("start", now, "0:1"))]
    found = resume.compare(
        [observed()], stopped, continued, looked=True, request="", opened="last.pt"
    )
    assert found is not None
    assert [each.rank for each in found.lost] == [1] * lost
    other = on_rank(0, part("step", 4, "0:0"), part("save", 5, "0:0"))  # changed before the save
    found = resume.compare(
        [observed()], [other, stopped[1]], continued, looked=True, request="", opened="last.pt"
    )
    assert found is not None
    assert not found.lost


@pytest.mark.parametrize(
    ("pids", "shared"),
    [((7, 7), ()), ((0, 1), ("last.pt",)), ((0, 99), ())],  # 99 trains nothing
)
def test_ranks_that_rename_to_one_file(pids: Any, shared: Any, tmp_path: Path) -> None:
    found = [
        {"kind": "renamed", "what": "os.rename", "path": "/o/last.pt", "pid": pid, "moment": n}
        for n, pid in enumerate(pids)
    ]
    text = "\n".join(map(json.dumps, found))
    (tmp_path / events.EVENTS).write_text(text, encoding="utf-8")
    ranks = [
        observation.Observed([records.Process(rank=rank, world=2, pid=rank, moment=1.0)])
        for rank in (0, 1)
    ]
    renamed = events.read_renamed(tmp_path)
    assert observed_run.written_by_several(ranks, Path("/o"), renamed) == shared


@pytest.mark.parametrize(
    ("gone", "last_save", "found"),
    [
        (("c-3", "c-4"), 9.0, ("c-3", "c-4")),
        (("c-4",), 3.0, ("c-4",)),
        (("c-4",), 9.0, ()),  # a later save stayed
        (("best_4.pt", "m-val_loss=0.31.ckpt"), 3.0, ()),  # kept by a result
        (("c-4.tmp", ".tmp-5"), 3.0, ()),
        (("there",), 3.0, ()),  # written again
        ((), 3.0, ()),
    ],
)
def test_a_rotation_of_the_newest(gone: Any, last_save: float, found: Any, tmp_path: Path) -> None:
    output = tmp_path / "output"
    (output / "there").mkdir(parents=True)
    removed = [
        {"kind": "newest", "what": "os.remove", "path": str(output / name), "moment": 4000 + n}
        for n, name in enumerate(gone)
    ]
    (tmp_path / events.EVENTS).write_text("\n".join(map(json.dumps, removed)), encoding="utf-8")
    saved = records.Saved(3, "torch.save", "/o/c.pt", 0.1, moment=last_save)
    process = observed(*steps(*[0.1] * 9), saved)
    assert events.read_newest_removed(tmp_path, [process], output) == found


@pytest.mark.parametrize(
    ("name", "before", "after", "fresh", "lost"),
    [
        ("Value.mean", [300.0], [0.0], [0.0], True),
        ("Value.mean", [300.0], [9.0], [1.0], True),  # updated before the first forward pass
        ("Value.mean", [300.0], [301.0], [299.0], True),  # the same, beside a counter
        ("Other.mean", [300.0], [301.0], [299.0], False),
        ("Value.mean", [300.0], [300.0], [0.0], False),
        ("Value.mean", [0.0], [0.0], [0.0], False),
        ("Value.mean", [1.0, 2.0], [], [], True),  # None at first
        ("Value.mean", [1.0, 2.0], None, None, False),  # made later
        ("Value.last_mean", [300.0], [0.0], [0.0], False),
        ("Meter.avg", [300.0], [0.0], [0.0], False),
        ("Loop.ema_loss", [300.0], [0.0], [0.0], False),
        ("Loop.position", [300.0], [0.0], [0.0], False),
        ("RunningMeanStd.m", [300.0], [0.0], [0.0], True),
        ("Policy.temperature", [0.5], [1.0], [1.0], True),
        ("len(Agent.replay)", [320.0], [0.0], [0.0], True),
        ("len(Agent.replay)", [5.0], [0.0], [0.0], False),
        ("len(Agent.rewards)", [320.0], [0.0], [0.0], False),
        ("(train) baseline", [0.7], [0.0], [0.0], True),
        ("(train) std", [1.02], [0.99], [0.98], False),  # of a batch
        ("(train) running_mean", [0.7], [0.0], [0.0], True),
        ("(<module>) running_mfu", [12.0], [-1.0], [-1.0], False),  # printed
        ("(train) avg_reward", [0.7], [0.0], [0.0], False),
        ("(train) step_avg", [0.7], [0.0], [0.0], False),
    ],
)
def test_statistics_in_attributes(
    name: str, before: Any, after: Any, fresh: Any, lost: bool
) -> None:
    def held(when: str, value: Any, count: float) -> records.Snapshot:
        values = {"Value.n": [count]} | ({} if value is None else {name: value})
        return msgspec.structs.replace(snapshot(when), attributes=values)

    found = differences.differences(held("save", before, 320), held("start", after, 32),
                                    held("start", fresh, 32), 0)  # fmt: skip
    assert [each.names for each in found] == [(name,)] * lost


def test_a_model_that_stays_in_evaluation_mode() -> None:
    process = observed(
        *steps(0.1, 0.1), records.Evaluated(s=1, t=0.1, calls=1, samples=2, memory=[]),
        records.Left(s=1, kinds=["Dropout"]),
    )  # fmt: skip
    assert process.rank().evaluations[0].left == ("Dropout",)


@pytest.mark.parametrize(
    ("first", "continued", "same"),
    [((1, 2), (3, 3), 2), ((1, 2), (3, 4), 0), ((1, 1), (3, 3), 0), ((1,), (3,), 0)],
)
def test_ranks_with_one_batch_after_the_resume(first: Any, continued: Any, same: int) -> None:
    def ranks(batches: Any) -> list[observation.Observed]:
        return [
            on_rank(number, records.Batch([["float32", [1], value]]))
            for number, value in enumerate(batches)
        ]

    assert resumed_data.same_batches(ranks(first), ranks(continued)) == same


def optimizer(*names: str, **state: int) -> dict[str, records.OptimizerState]:
    """Adam with one group, under the name that the hooks give it."""
    states = {name: {"exp_avg": ["float32", [1], value]} for name, value in state.items()}
    held = records.OptimizerState([records.Group(list(names), {})], states)
    return {f"Adam of {names[0]}": held}


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        (optimizer("b", "a", a=1, b=2), []),  # loaded by name
        (optimizer("b", "a", a=2, b=1), ["group"]),
        (optimizer("a", "b", a=2, b=1), ["optimizer"]),
        (optimizer("b", "a"), ["optimizer"]),
        (optimizer("b", a=1, b=2), []),  # another one, of which nothing is known
    ],
)
def test_an_optimizer_is_known_by_its_parameters(after: Any, lost: list[str]) -> None:
    saved = msgspec.structs.replace(snapshot("save"), optimizers=optimizer("a", "b", a=1, b=2))
    now = msgspec.structs.replace(snapshot("start"), optimizers=after)
    assert [each.kind for each in differences.differences(saved, now, None, 0)] == lost


@pytest.mark.parametrize(
    ("saved", "begun", "later", "lost"),
    [
        ([], [], [], ["a"]),
        (["a"], [], [], []),
        ([], ["a"], [], []),  # thawed by the steps
        ([], [], ["a"], []),  # the steps after the save freeze it, too
    ],
)
def test_trained_weights_that_are_frozen(saved: Any, begun: Any, later: Any, lost: Any) -> None:
    states = [
        msgspec.structs.replace(snapshot("x"), optimizers=optimizer("a", a=1), frozen=names)
        for names in (saved, ["a", "c"], begun)
    ]
    found = differences.frozen(*states, later, 0)
    assert [name for each in found for name in each.names] == lost


@pytest.mark.parametrize(
    ("fresh", "now", "kinds"),
    [(1, 1, []), (1, 2, ["reference"]), (3, 2, ["average"])],
)
def test_a_reference_is_what_no_step_changes(fresh: int, now: int, kinds: list[str]) -> None:
    begun, saved, after = (
        msgspec.structs.replace(snapshot("x"), weights={"(Copy) w": ["float32", [1], value, ""]})
        for value in (fresh, 1, now)
    )
    assert [each.kind for each in differences.differences(saved, after, begun, 0)] == kinds


LOOPS = """def decode(model):
    while not done:
        token = model()
    for batch in loader:
        evaluate(batch)

while step < 9:
    loss.backward()
    decode(model)
"""


@pytest.mark.parametrize(("line", "loop"), [(3, "while not done"), (5, ""), (8, "")])
def test_the_loop_around_a_place(line: int, loop: str, tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(LOOPS)
    text = f'Current thread 0x1 (most recent call first):\n  File "{path}", line {line} in f\n'
    assert hanging._loop(text).partition(" (")[0] == loop
    path.write_text("while (")
    assert hanging._loop(text) == ""


@pytest.mark.parametrize(("name", "found"), [("gan.tar", True), ("model", True), ("notes", False)])
def test_a_file_of_torch_save_has_any_name(name: str, found: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if found:
        torch.save({"w": torch.ones(3)}, tmp_path / name)
    else:
        (tmp_path / name).write_text("PK")
    assert [each.path for each in on_disk.checkpoints(tmp_path)] == [name] * found


@pytest.mark.parametrize(
    ("read", "listed"),
    [
        ((("os.listdir", "/o"),), True),
        ((("glob.glob", "/o/c-*"), ("open", "/o/c-9/m.pt")), True),
        ((("open", "/o/latest"), ("os.scandir", "/o/c-9")), False),
    ],
)
def test_names_are_sorted_where_they_are_listed(read: Any, listed: bool) -> None:
    assert continuing.was_listed(read, Path("/o"), "c-9") is listed
