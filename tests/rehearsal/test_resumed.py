"""What a resume begins anew, what ranks that differ hold, and what a run that failed printed, from
records made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checks.rehearsal.running import printed_error
from doctor.collect.rehearsal import (
    agreement,
    begun_anew,
    hanging,
    observation,
    observed_run,
    records,
    resume,
    resumed_data,
)
from doctor.collect.rehearsal.rates import rates_apart
from doctor.facts.rehearsal_runs import RehearsedRun

torch = pytest.importorskip("torch")


def snapshot(when: str, **fields: Any) -> records.Snapshot:
    held = records.Snapshot(
        when=when, s=4, seconds=0.0, weights={}, buffers={}, optimizers={}, schedules={}, scalers={}
    )
    return msgspec.structs.replace(held, **fields)


def observed(*found: object) -> observation.Observed:
    return observation.Observed([records.Process(rank=0, world=1, pid=7, moment=1.0), *found])


def rates(*values: float) -> list[observation.Observed]:
    found = [records.Step(s=n, moment=n, t=0.1, rates=[v]) for n, v in enumerate(values, 1)]
    return [observed(*found)]


@pytest.mark.parametrize(
    ("now", "state", "anew"),
    [
        ({"w": "third", "norm": "ones"}, False, True),  # another seed
        ({"w": "first", "norm": "ones"}, False, True),
        ({"w": "third", "norm": "ones"}, True, False),  # the optimizer's state came back
        ({"w": "saved", "norm": "ones"}, False, False),
        ({"w": "third", "norm": "saved"}, False, False),
        ({"w": "rounded", "norm": "rounded"}, False, False),
        ({"w": "saved", "norm": "saved"}, False, False),
    ],
)
def test_a_start_without_a_seed_is_one(now: dict[str, str], state: bool, anew: bool) -> None:
    def weights(**names: str) -> dict[str, Any]:
        return {name: ["f32", [2], value] for name, value in names.items()}

    begun = snapshot("start", weights=weights(w="first", norm="ones", constant="one"))
    saved = snapshot("save", weights=weights(w="saved", norm="saved", constant="one"))
    held = {"a": records.OptimizerState([], {"w": {}})} if state else {}
    here = snapshot("start", weights=weights(**now, constant="one"), optimizers=held)
    assert resume._from_start(resume._Pair(0, saved, saved, begun, here)) is anew


def test_weights_of_an_average_beside_a_counter_of_a_new_one_are_no_fresh_start() -> None:
    def held(when: str, weight: str, count: str) -> records.Snapshot:
        weights, buffers = {"w": ["f32", [2], weight]}, {"n_averaged": ["i64", [], count]}
        return snapshot(when, weights=weights, buffers=buffers)

    begun, saved = held("start", "first", "0"), held("save", "saved", "4")
    pair = resume._Pair(0, saved, saved, begun, held("start", "averaged", "0"))
    assert not resume._from_start(pair)


WHOLE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@pytest.mark.parametrize(
    ("whole", "after", "schedules", "lost"),
    [
        (WHOLE, (0.5, 0.2, 0.3, 0.4), {}, ("0.6", "0.2", 6)),  # the first is the optimizer's
        (WHOLE, (0.5, 0.6, 0.7, 0.8), {}, None),
        (WHOLE, (0.5, 0.2, 0.3), {}, None),  # too few to tell
        (WHOLE, (0.5, 0.2, 0.35, 0.4), {}, None),  # it follows the data
        (WHOLE, (0.5, 0.2, 0.3, 0.4), {"ReduceLROnPlateau": 4}, None),
        ((*[0.5] * 6, 0.1, 0.1), (0.5, 0.5, 0.5, 0.5), {}, None),  # a drop that the loss decides
        ((0.1, 0.2, 0.3, 0.2) * 2, (0.1, 0.2, 0.3, 0.2), {}, None),  # a cycle
    ],
)
def test_a_schedule_of_ones_own_that_counts_anew(
    whole: Any, after: Any, schedules: Any, lost: Any
) -> None:
    saved = snapshot("save", schedules=schedules)
    found = rates_apart(rates(*whole), rates(*after), saved)
    assert (found and (found.before, found.after, found.step)) == lost
    assert found is None or found.fresh


@pytest.mark.parametrize(
    ("name", "before", "after", "fresh", "anew"),
    [
        ("(main) best", 0.6, -1.0, -1.0, True),
        ("Trainer.best_val_loss", 0.6, "inf", "inf", True),
        ("(train) best_acc", 0.6, 0.6, 0.0, False),
        ("(train) best_acc", 0.0, 0.0, 0.0, False),
        ("(train) best_epoch", 3.0, 0.0, 0.0, False),
        ("(train) loss", 3.0, 0.0, 0.0, False),
    ],
)
def test_a_best_result_so_far_begins_anew(
    name: str, before: Any, after: Any, fresh: Any, anew: bool
) -> None:
    states = [
        snapshot(when, attributes={name: [value]})
        for when, value in (("save", before), ("start", after), ("start", fresh))
    ]
    assert begun_anew.best_begun_anew(*states) == (name if anew else "")


@pytest.mark.parametrize(
    ("due", "continued", "again"),
    [(2, 1, True), (2, 2, False), (2, 3, False), (1, 1, False), (None, 1, False)],
)
def test_the_first_batch_of_all_after_the_resume(due: Any, continued: int, again: bool) -> None:
    """Not where the batch that was to come is that one, too: a full batch, an epoch's begin."""

    def batch(value: int, after: int) -> records.Batch:
        return records.Batch(tensors=[["int64", [8, 16], value]], s=after)

    whole = observed(batch(1, 0), *([batch(due, 4)] if due else []))
    saved = snapshot("save")
    assert resumed_data.first_batch_again([whole], [observed(batch(continued, 0))], saved) is again


WORKER = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/a/train.py", line 12, in main
[rank1]: ValueError: mat1 and mat2 must have the same dtype
E1129 19:45:36.012 421 torch/distributed/elastic/multiprocessing/api.py:1019] failed (exitcode: 1)
Traceback (most recent call last):
  File "/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
train.py FAILED
------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (WORKER, ("ValueError", "mat1 and mat2 must have the same dtype")),
        (
            WORKER[: WORKER.index("E1129")]
            + "Traceback (most recent call last):\n"
            + "subprocess.CalledProcessError: Command '['/bin/python3', 'a.py']' returned non-zero "
            + "exit status 1.\n",
            ("ValueError", "mat1 and mat2 must have the same dtype"),
        ),
        ("Traceback (most recent call last):\nOSError: none\n", ("OSError", "none")),
        ("killed\n", None),
    ],
)
def test_the_error_of_a_rank_and_not_of_its_launcher(text: str, error: Any, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    tail = hanging.last_lines(tmp_path / "log")
    run = RehearsedRun(name="run", code=1, seconds=1.0, tail=tail)
    found = printed_error(run)
    assert (found and (found.error, found.message)) == error


@pytest.mark.parametrize(
    ("outside", "unwrapped"), [(["scale"], True), (["scale", "w"], True), ([], False)]
)
def test_weights_that_differ_outside_of_ddp(outside: list[str], unwrapped: bool) -> None:
    def rank(number: int, scale: int) -> observation.Observed:
        weights: dict[str, Any] = {"scale": ["float32", [], scale, ""]}
        weights["w"] = ["float32", [2], 1, ""]
        held = snapshot("step", weights=weights, replicated=True, unwrapped=outside)
        process = records.Process(rank=number, world=2, pid=number, moment=1.0)
        return observation.Observed([process, held])

    assert agreement.compare([rank(0, 1), rank(1, 2)], cut=False).unwrapped is unwrapped
    assert not agreement.compare([rank(0, 1), rank(1, 1)], cut=False).unwrapped


@pytest.mark.parametrize(
    ("savers", "world", "partial"), [((0,), 2, True), ((0, 1), 2, False), ((0,), 3, False)]
)
def test_parts_that_one_rank_saves(savers: Any, world: int, partial: bool) -> None:
    def rank(number: int) -> observation.Observed:
        process = records.Process(rank=number, world=world, pid=number, moment=1.0)
        save = records.Saved(s=4, what="torch.save", path=f"/o/m{number}.pt", t=0.1, parts=["w"])
        return observation.Observed([process, *([save] if number in savers else [])])

    found = observed_run.parts_of_one_rank([rank(0), rank(1)], Path("/o"))
    assert found == (("m0.pt", "w") if partial else ())


CONDITIONS = """
def main():
    if rank == 0:
        dist.barrier()
    else:
        work()
    if rank != 0: dist.barrier()
    if accelerator.is_main_process and step % 5 == 0: dcp.save(state)
    if ranking:
        for each in ranks: step()
    work()
"""


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        (4, "if rank == 0 (FILE:3)"),
        (6, ""),
        (7, ""),  # the others wait there for what rank 0 does first
        (8, "if accelerator.is_main_process and step % 5 == 0 (FILE:8)"),
        (10, ""),
        (11, ""),
    ],
)
def test_the_condition_on_the_rank_around_a_place(
    line: int, condition: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(CONDITIONS)
    expected = condition.replace("FILE", str(path))
    assert hanging._condition(f"{path}:{line}", "") == expected
    frames = f'Current thread 0x1:\n  File "{path}", line {line} in main\n'
    assert hanging._condition("", frames) == expected
    assert hanging._condition("", frames.replace("train", "gone")) == ""


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


def renew(model: Any) -> None:
    for name, value in model.state_dict().items():
        owner, _, key = name.rpartition(".")
        setattr(model.get_submodule(owner), key, torch.nn.Parameter(value.clone()))


@pytest.mark.parametrize(
    ("resume", "kinds"),
    [
        ("loads", set()),
        ("replaces, then makes the optimizer", {"untied"}),
        ("replaces under the optimizer", {"replaced"}),
    ],
)
def test_weights_that_a_resume_replaces(resume: str, kinds: set[str]) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved = taken("save")
    if resume == "loads":
        model.load_state_dict({name: each.clone() for name, each in model.state_dict().items()})
    elif resume == "replaces under the optimizer":
        renew(model)
    else:
        renew(model)
        del optimizer
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = resume_of(saved, taken("start"))
    own = {"embedding.weight", "head.weight"}  # objects of other tests may be in memory
    assert {each.kind for each in found.lost if own.issuperset(each.names)} == kinds
    assert optimizer


def taken(when: str) -> records.Snapshot:
    """Of what is in memory."""
    import gc

    from doctor.guard.rehearsal import state

    gc.collect()
    held = {"kind": "snapshot", "when": when, "s": 4, "seconds": 0.0, **state.snapshot(torch)}
    found = records.decode(msgspec.json.encode(held))
    assert isinstance(found, records.Snapshot)
    return found


def resume_of(saved: records.Snapshot, now: records.Snapshot) -> Any:
    """What the resume lost, beside a start with other weights."""
    begun = msgspec.structs.replace(saved, when="start", weights={}, optimizers={})
    return resume.compare(
        [observed(begun)], [observed(saved)], [observed(now)], looked=True, request="", opened=""
    )


@pytest.mark.parametrize(("earlier", "lost"), [([4], False), ([], True)])
def test_a_save_at_the_end_is_exchanged_as_those_before_it(earlier: list[int], lost: bool) -> None:
    """Of a schedule-free optimizer, which computes the weights anew; no step follows the save."""
    weights = {name: ["float32", [1], value] for name, value in (("a", 1), ("b", 2))}
    other = {name: ["float32", [1], 9] for name in weights}
    saved = snapshot("save", s=5, weights=weights, exchanged=True)
    last = records.Step(s=5, moment=1.0, t=0.1, rates=[])
    found = resume.compare(
        [observed(snapshot("start"))],
        [observed(last, *map(records.Exchanged, earlier), saved)],
        [observed(snapshot("start", weights=other))],
        looked=True, request="", opened="",
    )  # fmt: skip
    assert found is not None
    assert bool(found.lost) is lost
    assert not found.exchanged


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("LossNormalizer.mean", True),
        ("RewardNormalizer.var", True),
        ("LossMeter.mean", False),
        ("(main) loss_avg", False),
        ("LossNormalizer.last_mean", False),
    ],
)
def test_statistics_of_what_normalizes_a_loss(name: str, lost: bool) -> None:
    before = snapshot("save", attributes={name: [3.0]})
    fresh = snapshot("start", attributes={name: [0.0]})
    assert begun_anew.begun_anew(before, fresh, fresh) == [name] * lost
