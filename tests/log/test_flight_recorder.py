"""Dumps of simulated jobs with known faults, real dumps, other forms, and files that lie."""

from __future__ import annotations

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from flight_dumps import Fault, megatron, simulate, without_completed, write

from doctor._util.records import Unknown
from doctor.facts.flight_recorder import FlightRecorder
from doctor.log.flight_recorder import is_dump, read_dumps

SHARED = [
    Path(__file__).resolve().parents[3] / "shared",
    Path(os.environ.get("DOCTOR_DOCUMENTS", "/nowhere")).parent,
]
REAL = next((p for s in SHARED if (p := s / "data" / "flight-recorder").is_dir()), Path("missing"))
"""Two injected faults on 16 ranks, by NVIDIA; the files are not part of the repository."""
WORLD = tuple(range(4))


def read(dumps: dict[int, dict[str, Any]], folder: Path, form: str = "pickle") -> FlightRecorder:
    recorder = read_dumps(write(dumps, folder, form=form))
    assert isinstance(recorder, FlightRecorder)
    return recorder


def evidence(recorder: FlightRecorder) -> dict[int, str]:
    return {each.rank: each.evidence for each in recorder.stopped}


def plain(*calls: str, sizes: int = 16) -> list[dict[str, Any]]:
    """Entries of one rank: "all_reduce" is pending, "all_reduce!" complete."""
    return [
        {
            "record_id": index,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": index + 1,
            "p2p_seq_id": 0,
            "profiling_name": f"nccl:{call.rstrip('!')}",
            "input_sizes": [[sizes]],
            "input_dtypes": ["Float"],
            "state": "completed" if call.endswith("!") else "scheduled",
            "is_p2p": False,
        }
        for index, call in enumerate(calls)
    ]


def dump(entries: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(WORLD))}}
    return {"version": "2.9", "pg_config": config, "entries": entries, **fields}


@pytest.mark.parametrize("case", ["gpu_error_2nd", "lock_gil_1st"])
def test_real_dumps_name_exactly_the_ranks_that_were_made_to_fail(case: str) -> None:
    if not (REAL / case).is_dir():
        pytest.skip(f"no {REAL / case}")
    truth = (REAL / case / "fault_injection.log").read_text()
    recorder = read_dumps((REAL / case).glob("_dump_*"))
    assert isinstance(recorder, FlightRecorder)
    assert f"Fault ranks: {[each.rank for each in recorder.stopped]}" in truth
    assert not recorder.unread


def test_no_simulated_rank_is_named_wrongly_and_single_faults_are_all_named(tmp_path: Path) -> None:
    programs, exact = megatron(), 0
    for seed in range(60):
        rng = random.Random(seed)
        faulty = rng.sample(range(16), rng.choice([1, 1, 2]))
        faults = {
            rank: Fault(rng.choice(["host", "gpu", "killed"]), rng.randrange(2, 28))
            for rank in faulty
        }
        dumps, reached = simulate(programs, faults)
        if seed % 2:
            dumps = {rank: without_completed(each) for rank, each in dumps.items()}
        folder = tmp_path / str(seed)
        folder.mkdir()
        named = set(evidence(read(dumps, folder, form=("pickle", "json")[seed % 3 == 0])))
        assert named <= reached, (seed, faults)
        assert named == reached or len(faulty) > 1, (seed, faults)
        exact += named == reached
    assert exact >= 55


def test_a_job_without_a_fault_has_nothing_pending(tmp_path: Path) -> None:
    dumps, reached = simulate(megatron(1), {})
    recorder = read(dumps, tmp_path)
    assert not reached
    assert (recorder.pending, recorder.stopped, recorder.waits, recorder.hung) == (0, (), (), ())


def test_all_called_and_none_completed(tmp_path: Path) -> None:
    recorder = read({rank: dump(plain("all_reduce!", "broadcast")) for rank in WORLD}, tmp_path)
    assert recorder.stopped == ()
    assert [(each.operation.name, each.arrived) for each in recorder.hung] == [("broadcast", WORLD)]


def test_a_gpu_that_did_not_start_what_the_others_started(tmp_path: Path) -> None:
    dumps = {rank: dump(plain("all_reduce")) for rank in WORLD}
    for rank in (0, 1, 3):
        dumps[rank]["entries"][0]["state"] = "started"
    assert evidence(read(dumps, tmp_path)) == {2: "not started"}


@pytest.mark.parametrize(
    ("entries", "by", "values"),
    [
        (plain("broadcast"), "operation", ["all_reduce", "broadcast"]),
        (plain("all_reduce", sizes=8), "size", ["[[16]]", "[[8]]"]),
    ],
)
def test_a_rank_that_calls_something_else(
    entries: list[dict[str, Any]], by: str, values: list[str], tmp_path: Path
) -> None:
    dumps = {rank: dump(plain("all_reduce")) for rank in WORLD} | {3: dump(entries)}
    (mismatch,) = read(dumps, tmp_path).mismatches
    assert mismatch.by == by
    assert [(v.value, v.ranks) for v in mismatch.variants] == [
        (values[0], (0, 1, 2)),
        (values[1], (3,)),
    ]


def test_a_rank_without_a_dump_that_the_others_wait_for(tmp_path: Path) -> None:
    recorder = read({rank: dump(plain("all_reduce")) for rank in (0, 1, 3)}, tmp_path)
    assert evidence(recorder) == {2: "no dump"}
    assert recorder.without_dump == (2,)


def test_an_older_dump_without_groups_and_status(tmp_path: Path) -> None:
    def old(*calls: str) -> dict[str, Any]:
        entries = [
            {"pg_id": 0, "seq_id": e["collective_seq_id"], "profiling_name": e["profiling_name"],
             "state": e["state"], "input_sizes": e["input_sizes"]}
            for e in plain(*calls)
        ]  # fmt: skip
        return {"version": "1.4", "entries": entries, "nccl_comm_state": {}}

    dumps = {rank: old("all_reduce!", "all_reduce") for rank in (0, 1)} | {2: old("all_reduce!")}
    assert evidence(read(dumps, tmp_path)) == {2: "not called"}


def test_a_json_dump_with_numbers_as_text_and_its_own_rank(tmp_path: Path) -> None:
    dumps = {rank: dump(plain("all_reduce!", "all_reduce"), rank=rank) for rank in (0, 1, 2)}
    status = {"0": {"last_enqueued_collective": "1", "last_completed_collective": "1"}}
    dumps[3] = dump([], rank=3, pg_status=status)
    for name, each in zip("abcd", dumps.values(), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(each))
    recorder = read_dumps(tmp_path.iterdir())
    assert isinstance(recorder, FlightRecorder)
    assert evidence(recorder) == {3: "not called"}


def test_files_that_are_no_dumps_are_named_and_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (mark,)

    good = {rank: dump(plain("all_reduce!")) for rank in (0, 1)}
    paths = write(good, tmp_path)
    bad = {
        "_dump_2": pickle.dumps(dump(plain("all_reduce!")) | {"pg_status": Evil()}, 2),
        "_dump_3": pickle.dumps(dump([]), 2)[:40],
        "_dump_4": b'{"entries": [' + b"[" * 100_000,
        "_dump_5": b"",
        "_dump_6": pickle.dumps({"entries": [{"pg_id": [], "collective_seq_id": -5}, 7, None]}, 2),
        "dump": pickle.dumps(dump([]), 2),
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        paths.append(tmp_path / name)
    paths.append(tmp_path / "_dump_7")
    recorder = read_dumps(paths)
    assert isinstance(recorder, FlightRecorder)
    assert not mark.exists()
    assert recorder.ranks == (0, 1, 2, 6)
    names = sorted(Path(name).name for name in recorder.unread)
    assert names == ["_dump_3", "_dump_4", "_dump_5", "_dump_7", "dump"]
    assert isinstance(read_dumps(paths[-1:]), Unknown)


def test_sizes_that_contain_themselves_are_shortened(tmp_path: Path) -> None:
    sizes: list[Any] = [[1] * 1000]
    sizes.append(sizes)
    entries = plain("all_reduce")
    entries[0]["input_sizes"] = sizes
    dumps = {0: dump(entries), 1: dump(plain("all_reduce"))}
    (mismatch,) = read(dumps, tmp_path).mismatches
    assert mismatch.by == "size"
    assert all(len(variant.value) <= 200 for variant in mismatch.variants)


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("_dump_3", pickle.dumps(dump([]), 2), True),
        ("nccl_trace_rank_0", pickle.dumps(dump([]), 4), True),
        ("trace.json", json.dumps(dump([])).encode(), True),
        ("rank3.log", b"the log prints pg_config and more", False),
        ("model_0.json", b'{"hidden_size": 4096}', False),
        ("notes.txt", pickle.dumps(dump([]), 2), False),
    ],
)
def test_a_dump_is_recognized_by_its_start(name: str, head: bytes, expected: bool) -> None:
    assert is_dump(name, head[:4096]) is expected
