"""Dumps of simulated jobs: ranks that call operations, GPUs that run them in order, and faults."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYNC = ("sync", "", (0,))
Call = tuple[str, str, tuple[int, ...]]
"""Operation, group and its ranks; a send or recv has (sender, receiver)."""


@dataclass
class Fault:
    """What ends a rank: its host stops before a call, or completions end on its GPU."""

    kind: str
    """host, gpu, killed (no dump)."""
    at: int
    """Index of the call."""


@dataclass
class Rank:
    program: list[Call]
    fault: Fault | None = None
    entries: list[dict[str, Any]] = field(default_factory=list)
    index: int = 0
    """The next call of the host."""
    run: int = 0
    """The next entry of the GPU."""
    dead_from: int | None = None
    """Index of the call from which on no completion is observed."""

    @property
    def stopped(self) -> bool:
        """It reached its fault."""
        lost = self.dead_from is not None and any(
            entry["at"] >= self.dead_from for entry in self.entries[: self.run]
        )
        return lost or (self.fault is not None and self.index >= self.fault.at)


def simulate(
    programs: list[list[Call]], faults: dict[int, Fault]
) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """Rank -> its dump when nothing moves any more, and the ranks that reached their fault."""
    ranks = [Rank(program, faults.get(number)) for number, program in enumerate(programs)]
    names = sorted({call[1] for program in programs for call in program} - {""})
    ids = {name: str(number) for number, name in enumerate(sorted(names, key=int))}
    groups: dict[str, set[int]] = defaultdict(set)
    for program in programs:
        for _, name, members in program:
            groups[name].update(members)
    groups.pop("", None)
    counters: list[dict[Any, int]] = [defaultdict(int) for _ in ranks]
    moved = True
    while moved:
        moved = False
        for number, rank in enumerate(ranks):
            moved |= _host(number, rank, counters[number], ids, groups)
        moved |= _gpus(ranks)
    dumps = {
        number: _dump(number, rank, counters[number], ids, groups)
        for number, rank in enumerate(ranks)
        if not (rank.fault and rank.fault.kind == "killed" and rank.index >= rank.fault.at)
    }
    return dumps, {number for number, rank in enumerate(ranks) if rank.stopped}


def _host(number: int, rank: Rank, counters: Any, ids: Any, groups: Any) -> bool:
    before = rank.index
    if rank.fault and rank.fault.kind == "gpu" and rank.dead_from is None:
        rank.dead_from = rank.fault.at
        rank.fault = Fault("host", rank.fault.at + 3)  # its host goes on for a while
    while rank.index < len(rank.program):
        if rank.fault and rank.fault.kind in ("host", "killed") and rank.index >= rank.fault.at:
            break
        name, group, members = rank.program[rank.index]
        if name == "sync" and rank.run < len(rank.entries):
            break
        rank.index += 1
        if name == "sync":
            continue
        p2p = name in ("send", "recv")
        counters[group, p2p] += 1
        order = sorted(groups[group])
        source, target = (order.index(end) for end in members) if p2p else (0, 0)
        arrow = f" {source}->{target}" if name == "send" else f" {target}<-{source}"
        rank.entries.append(
            {
                "record_id": len(rank.entries),
                "pg_id": int(ids[group]),
                "process_group": (group, f"group of {len(groups[group])}"),
                "collective_seq_id": counters[group, False],
                "p2p_seq_id": counters[group, True],
                "profiling_name": f"nccl:{name}{arrow if p2p else ''}",
                "input_sizes": [[16, 8]],
                "input_dtypes": ["BFloat16"],
                "state": "scheduled",
                "retired": False,
                "is_p2p": p2p,
                "lane": (group, members, counters[group, members, p2p]),
                "at": rank.index - 1,
            }
        )
        counters[group, members, p2p] += 1
    return rank.index > before


def _gpus(ranks: list[Rank]) -> bool:
    """Run what all members have reached. A dead GPU serves its peers for a while, unobserved."""
    moved = False
    reached = defaultdict(int)
    for rank in ranks:
        if rank.run < len(rank.entries):
            reached[rank.entries[rank.run]["lane"]] += 1
    for rank in ranks:
        if rank.run < len(rank.entries):
            entry = rank.entries[rank.run]
            if reached[entry["lane"]] == len(entry["lane"][1]):
                rank.run += 1
                moved = True
                dead = rank.dead_from is not None and entry["at"] >= rank.dead_from
                entry["state"] = "scheduled" if dead else "completed"
    return moved


def _dump(number: int, rank: Rank, counters: Any, ids: Any, groups: Any) -> dict[str, Any]:
    mine = {name: group for name, group in groups.items() if number in group}
    entries = [
        {key: value for key, value in entry.items() if key not in ("lane", "at")}
        for entry in rank.entries
    ]
    return {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": {
            name: {"name": name, "desc": f"group of {len(group)}", "ranks": str(sorted(group))}
            for name, group in mine.items()
        },
        "pg_status": {
            ids[name]: {
                "last_enqueued_collective": max(counters[name, False], counters[name, True]),
                "last_started_collective": -1,
                "last_completed_collective": 0,
            }
            for name in mine
        },
        "entries": entries,
    }


def without_completed(dump: dict[str, Any]) -> dict[str, Any]:
    """The dump with pending entries only, as TORCH_INCLUDE_ONLY_ACTIVE writes it."""
    return dump | {"entries": [e for e in dump["entries"] if e["state"] != "completed"]}


def write(dumps: dict[int, dict[str, Any]], folder: Path, *, form: str = "pickle") -> list[Path]:
    """One file per rank, as torch names them."""
    paths = []
    for rank, dump in dumps.items():
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(dump, 2) if form == "pickle" else json.dumps(dump).encode())
        paths.append(path)
    return paths


def megatron(batches: int = 4) -> list[list[Call]]:
    """Two pipeline stages of eight ranks: tensor groups of four, expert groups of eight."""
    programs: list[list[Call]] = []
    for rank in range(16):
        stage, half = divmod(rank, 8)
        tensor = ("", str(1 + rank // 4), tuple(range(rank - rank % 4, rank - rank % 4 + 4)))
        expert = ("", str(5 + stage), tuple(range(8 * stage, 8 * stage + 8)))
        forward, backward = (half, half + 8), (half + 8, half)
        pair = str(10 + half)
        program: list[Call] = []
        for _ in range(batches):
            if stage:
                program.append(("recv", pair, forward))
            program += [
                ("_all_gather_base", *tensor[1:]),
                ("all_to_all", *expert[1:]),
                SYNC,
                ("_reduce_scatter_base", *tensor[1:]),
                ("_all_gather_base", *tensor[1:]),
            ]
            program.append(("send", pair, forward) if not stage else ("send", "0", backward))
            if not stage:
                program.append(("recv", "0", backward))
        program += [("all_reduce", "99", tuple(range(16))), SYNC]
        programs.append(program)
    return programs
