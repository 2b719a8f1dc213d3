"""What one process does alone, while the others go on, or wait for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.ranks import asks_first, on_one_rank, wrapping_calls
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

SHARED = (
    "broadcast", "all_reduce", "all_gather", "all_gather_object", "broadcast_object_list", "reduce",
    "wait_for_everyone", "barrier", "monitored_barrier",
)  # fmt: skip
PREPARES = re.compile(
    r"(?:^|_)(?:prepare|download|preprocess|tokenize|build|extract|unzip|"
    r"make|create|convert|cache|snapshot)(?:_|$)|snapshot_download|urlretrieve"
)
READS = re.compile(r"dataset|load|read|open|memmap|folder|data|packed|corpus", re.IGNORECASE)


def leaves_alone(reading: Training) -> Iterator[Match]:
    """if rank == 0 and bad >= 5: break, in the loop that trains under DDP."""
    if not wrapping_calls(reading) or not reading.backwards:
        return
    for each in reading.script.bare:
        if each.name != "break" or not each.loops:
            continue
        inside = set(reading.by_loop.get(each.loops[-1], ()))
        if inside.isdisjoint(reading.backwards) and not _enters_training(reading, inside):
            continue
        tests = [(reading.test_of(b), arm) for b, arm in each.arms]
        alone = any(
            test is not None and arm == 0 and asks_first(reading, test, each.scope, 2)
            for test, arm in tests
        )
        names = {n for test, _ in tests if test is not None for n in test.all_names}
        sent = any(
            names & {n for v in c.values for n in v.all_names} for c in (reading.named(*SHARED))
        )
        if alone and not sent:
            yield Match(
                each.span, "one process leaves the loop: the others wait in their next step"
            )


def _enters_training(reading: Training, inside: set[int]) -> bool:
    """A function of the file with a backward() is called in the loop."""
    scopes = {reading.calls[n].scope for n in reading.backwards}
    return any(reading.target_function(reading.calls[n]) in scopes for n in inside)


def not_awaited(reading: Training) -> Iterator[Match]:
    """One process prepares files, and all read them at once."""
    if any(
        reading.methods(name)
        for name in (
            "barrier",
            "wait_for_everyone",
            "main_process_first",
            "monitored_barrier",
            "local_main_process_first",
        )
    ):
        return
    if not reading.methods("init_process_group") or not reading.backwards:
        return
    for n, call in enumerate(reading.calls):
        if not PREPARES.search(call.method.casefold()) or not call.statement or not call.args:
            continue
        _, arms = on_one_rank(reading, call)
        if not arms or call.loops:
            continue
        place = render(reading, call.args[0])
        later = [
            c
            for m in reading.scope_calls(call.scope)
            if m > n
            and (c := reading.calls[m]).arms == call.arms[: len(call.arms) - len(arms)]
            and any(place in render(reading, v) for v in c.values)
            and READS.search(c.name)
        ]
        if later:
            message = f"{call.name}() runs in one process, and the others read {place} meanwhile"
            yield Match(call.span, message, "warn")


def other_number(reading: Training) -> Iterator[Match]:
    """mp.spawn(nprocs=2), and init_process_group(world_size=4)."""
    worlds = {
        v.literal
        for other in reading.named("init_process_group")
        if (v := other.keywords.get("world_size")) is not None
    }
    for call in reading.named("spawn"):
        value = call.keywords.get("nprocs")
        count = value.literal if value is not None else None
        if (
            not call.name.startswith(("torch.multiprocessing", "multiprocessing"))
            or len(worlds) != 1
        ):
            continue
        world = next(iter(worlds))
        single = not reading.mentions("node_rank", "nnodes", "num_nodes")
        if isinstance(count, int) and isinstance(world, int) and count < world and single:
            yield Match(call.span, f"{count} processes are started, and each waits for {world}")
