"""What a resume begins anew, and what evaluations leave behind, from records made by hand: each
reading with what is healthy and looks like it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor.collect.rehearsal import (
    begun_anew,
    differences,
    observation,
    records,
    resumed_data,
    sample_order,
)
from doctor.collect.rehearsal.numbers import numbers_anew

MUL, SIZE = "1 MulBackward0.other 1 0", "1 ViewBackward0.self_sym_sizes 1 1"
RISING = tuple(n / 10 for n in range(1, 13))


def observed(*found: object) -> observation.Observed:
    return observation.Observed([records.Process(rank=0, world=1, pid=7, moment=1.0), *found])


def run(values: Any, name: str = MUL) -> list[observation.Observed]:
    """Steps whose loss has these numbers under a name, None where it has none."""
    found = [
        records.Step(s=n, moment=n, t=0.1, rates=[0.1], numbers={name: value})
        for n, value in enumerate(values, 1)
    ]
    return [observed(*found)]


@pytest.mark.parametrize("name", [MUL, SIZE])
def test_a_number_of_the_loss_begins_anew(name: str) -> None:
    found = numbers_anew(run(RISING, name), run(RISING[:6], name), run(RISING[:8], name), 4)
    assert found is not None
    kind = "size" if name is SIZE else "number"
    assert (found.kind, found.before, found.after, found.step) == (kind, "0.5", "0.1", 5)


@pytest.mark.parametrize(
    ("whole", "stopped", "continued"),
    [
        (RISING, RISING[:6], RISING[4:]),  # computed from the step
        (RISING, RISING[:6], (0.1, 0.2)),  # too few to tell
        (RISING, RISING[:6], (0.3, 0.31, 0.32, 0.33)),  # another one
        ((3.0, 7.0, 5.0, 6.0, 2.0, 4.0, 8.0, 1.0), (3.0, 7.0, 5.0, 6.0), (3.0, 7.0, 5.0, 6.0)),
        (RISING, (0.2, 0.4, 0.6, 0.8, 0.9), RISING[:8]),  # drawn from the data
        ((0.5,) * 12, (0.5,) * 6, (0.5,) * 8),
        ((0.1, 0.2, *[0.3] * 10), (0.1, 0.2, *[0.3] * 4), (0.1, 0.2, *[0.3] * 6)),  # warmed up
        ((*RISING[:5], None, *RISING[6:]), RISING[:6], RISING[:8]),  # not in every step
    ],
)
def test_a_number_of_the_loss_that_is_healthy(whole: Any, stopped: Any, continued: Any) -> None:
    """A schedule that goes on, one that ended before the save, what follows the data."""
    assert numbers_anew(run(whole), run(stopped), run(continued), 4) is None


def snapshot(when: str, **fields: Any) -> records.Snapshot:
    held = records.Snapshot(
        when=when, s=4, seconds=0.0, weights={}, buffers={}, optimizers={}, schedules={}, scalers={}
    )
    return msgspec.structs.replace(held, **fields)


@pytest.mark.parametrize(
    ("name", "before", "after", "fresh", "anew"),
    [
        ("EarlyStopping.counter", 3.0, 0.0, 0.0, True),
        ("EarlyStopping.best", 0.4, None, None, True),
        ("EarlyStoppingCallback.early_stopping_patience_counter", 2.0, 0.0, 0.0, True),
        ("EarlyStopping.counter", 0.0, 0.0, 0.0, False),  # the last result was the best
        ("EarlyStopping.counter", 3.0, 3.0, 0.0, False),  # restored
        ("EarlyStopping.patience", 8.0, 8.0, 8.0, False),
        ("Stopwatch.counter", 3.0, 0.0, 0.0, False),
        ("EarlyStopping.last_print", 3.0, 0.0, 0.0, False),
        ("EarlyStopping.prev_loss", 3.0, 0.0, 0.0, False),
    ],
)
def test_early_stopping_begins_anew(
    name: str, before: Any, after: Any, fresh: Any, anew: bool
) -> None:
    values = [[] if each is None else [each] for each in (before, after, fresh)]
    states = [
        snapshot(when, attributes={name: value})
        for when, value in zip(("save", "start", "start"), values, strict=True)
    ]
    assert begun_anew.begun_anew(*states) == ([name] if anew else [])


@pytest.mark.parametrize(
    ("restored", "anew"),
    [({"best": [0.4]}, []), ({"bad": [2.0]}, []), ({}, ["EarlyStopping.calls"])],
)
def test_early_stopping_that_was_restored_by_hand(restored: Any, anew: list[str]) -> None:
    """How often it was called is for its log."""
    fresh = {"calls": [0.0], "best": [], "bad": [0.0]}
    before = {"calls": [5.0], "best": [], "bad": [0.0], **restored}
    states = [
        snapshot(when, attributes={f"EarlyStopping.{key}": each for key, each in held.items()})
        for when, held in (("save", before), ("start", {**fresh, **restored}), ("start", fresh))
    ]
    assert begun_anew.begun_anew(*states) == anew


@pytest.mark.parametrize(
    ("after", "lost"),
    [([0, 0.4, 2], []), ([0, "inf", 0], [("2", "0")]), ([1, 0.4, 1], [("2", "1")])],
)
def test_a_plateau_that_was_restored_by_hand(after: Any, lost: Any) -> None:
    """Its rate follows from its best result and the epochs without a better one."""
    states = [
        snapshot(when, schedules={"ReduceLROnPlateau": held})
        for when, held in (("save", [2, 0.4, 2]), ("start", after))
    ]
    found = differences.differences(*states, None, 0)
    assert [(each.before, each.after) for each in found] == lost


def trained(value: int, moment: float | None) -> dict[str, Any]:
    state = {} if moment is None else {"group 0, 0": {"step": moment}}
    group = records.Group(["group 0, 0"], {})
    entry = ["float32", [1], value, "Adam of parameters", "group 0, 0"]
    return {
        "loose": {"(<module>) log_alpha": entry},
        "optimizers": {"Adam of parameters": records.OptimizerState([group], state)},
    }


@pytest.mark.parametrize(
    ("now", "fresh", "kinds"),
    [
        (trained(1, 4.0), trained(1, None), ["loose"]),
        (trained(3, 4.0), trained(1, None), ["loose"]),  # drawn at random in each start
        (trained(2, 4.0), trained(1, None), []),  # restored
        (trained(1, 4.0), trained(2, None), []),  # no step had changed it
        (trained(1, 0.0), trained(1, None), ["optimizer"]),  # not meant to be restored: see RHS011
        (trained(1, 4.0), {}, []),  # made later, as for one batch
    ],
)
def test_a_trained_tensor_of_no_module(now: Any, fresh: Any, kinds: list[str]) -> None:
    states = snapshot("save", **trained(2, 4.0)), snapshot("start", **now)
    found = differences.differences(*states, snapshot("start", **fresh), 0)
    assert [each.kind for each in found] == kinds


def evaluated(calls: int, before: int, after: int, name: str = "Lit.outputs") -> records.Evaluated:
    lists = {name: [before, after]} if after else {}
    return records.Evaluated(s=4, t=0.1, calls=calls, samples=8, memory=[], lists=lists)


@pytest.mark.parametrize(
    ("evaluations", "kept"),
    [
        ([(2, 0, 2), (8, 2, 10), (8, 10, 18)], 18),  # Lightning's check before the training, too
        ([(8, 0, 8), (8, 0, 8)], 0),  # emptied where the evaluation begins
        ([(8, 0, 0), (8, 0, 0)], 0),  # or where it ends
        ([(8, 0, 1), (8, 1, 2)], 0),  # one result of each evaluation
        ([(8, 5, 13), (8, 20, 28)], 0),  # the training puts things into it, as into a buffer
        ([(8, 0, 8)], 0),
        ([(1, 0, 1), (1, 1, 2)], 0),
    ],
)
def test_outputs_of_all_evaluations(evaluations: list[tuple[int, int, int]], kept: int) -> None:
    found = observation.kept_outputs([evaluated(*each) for each in evaluations])
    assert found == (("Lit.outputs", kept) if kept else ("", 0))


@pytest.mark.parametrize(
    ("ends", "saved", "steps"),
    [((3, 6, 9), 9, 3), ((3, 6, 9), 8, 0), ((), 9, 0), ((9,), 9, 9)],
)
def test_the_steps_of_the_epoch_that_had_ended(
    ends: tuple[int, ...], saved: int, steps: int
) -> None:
    stopped = [observed(*[records.Epoch(s=end) for end in ends])]
    assert resumed_data.epoch_steps(stopped, saved) == steps


@pytest.mark.parametrize(
    ("saves", "key"),
    [
        (({"data": "{'pos': 24}"}, {"data": "{'pos': 48}"}), "data"),
        (({"data": "{'name': 'c4'}"}, {"data": "{'name': 'c4'}"}), ""),  # a configuration
        (({"data": "{'pos': 24}"},), ""),
        (({}, {}), ""),
    ],
)
def test_a_position_in_the_checkpoints(saves: Any, key: str) -> None:
    found = [
        records.Saved(s=6 * n, what="torch.save", path="/o/a.pt", t=0.1, positions=each)
        for n, each in enumerate(saves, 1)
    ]
    assert resumed_data.position([observed(*found)]) == key


@pytest.mark.parametrize(
    ("passes", "begins", "skipped"),
    [
        (2, 8, 2),  # 4 batches of 2 samples
        (2, 16, 0),  # 8 batches, as were taken
        (2, 0, 0),  # the epoch begins again
        (1, 8, 0),
        (2, 32, 0),  # an order of its own
    ],
)
def test_batches_that_a_resume_skips(passes: int, begins: int, skipped: int) -> None:
    def taken(begin: int, steps: int) -> list[observation.Observed]:
        found: list[object] = [
            records.Step(s=n, moment=n, t=0.1, rates=[0.1], passes=passes)
            for n in range(1, steps + 1)
        ]
        found += [
            records.Taken(s=n, samples=list(range(begin + 4 * n - 4, begin + 4 * n)))
            for n in range(1, steps + 1)
        ]
        return [observed(*found)]

    order = sample_order.compare(taken(0, 8), taken(0, 6), taken(begins, 4), 4)
    assert order is not None
    assert order.skipped == skipped
