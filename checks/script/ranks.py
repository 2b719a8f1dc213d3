"""Which process runs a place of a script, and what wraps its model."""

from __future__ import annotations

import re

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call, Value

DDP = ("DistributedDataParallel", "DDP")
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
OTHERS = (
    "accelerate", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric", "fairscale",
    "horovod", "ignite", "colossalai", "ray",
)  # fmt: skip
"""Frameworks that shard data or save by themselves."""
OF_SHARDS = {"state_dict": FSDP, "save_checkpoint": "deepspeed.initialize"}
"""What all processes must ask for together, and what makes the object."""
RANK = re.compile(r"rank|world|process_index|num_process", re.IGNORECASE)
NOT_FIRST = re.compile(r"(?:\w+\.)*\w*rank\w*(?:\(\w*\))?\s*(?:!=|>)\s*0")
ONE_RANK = re.compile(
    r"(?:^|[\s(.])(?:\w*\.)*(?:\w*rank\w*(?:\(\))?|process_index)\s*(?:==\s*0\b|in\s*[\[({](?:-1|"
    r"None),\s*0[\])}])|is_(?:local_)?main_process(?!\w)|is_master(?!\w)|is_rank_zero|"
    r"is_primary(?!\w)|is_main_process\(\)|is_global_zero|^master_process$"
)
PART = re.compile(
    r"(?:^|[._\s(])(?:tp|dp|pp|cp|ep|sp|mp|model|data|pipe\w*|tensor|shard\w*|group|stage|expert|"
    r"sequence|context|\w*parallel)_(?:\w+_)*rank|get_rank\([^)\s]|get_\w+_rank"
)
DEPTH = 4
"""Names and functions between a condition and the rank. Our own number."""


def ddp_calls(reading: Training) -> list[int]:
    """Calls that wrap a model in torch's DistributedDataParallel."""
    return [
        n
        for n in reading.methods(*DDP)
        if reading.calls[n].name.startswith(("torch.nn.parallel.", "apex.parallel."))
        and reading.calls[n].args
    ]


def wrapping_calls(reading: Training) -> list[int]:
    """The same and those of FSDP: each process trains on data of its own."""
    sharded = [n for n in reading.methods("FullyShardedDataParallel", "fully_shard")
               if reading.calls[n].name.startswith("torch.distributed.")]  # fmt: skip
    return [*ddp_calls(reading), *sharded]


def is_accelerator(reading: Training, call: Call) -> bool:
    """The method is called on an Accelerator, also where a function gets it."""
    found = evaluate.receivers(reading, call)
    return bool(call.receiver) and any(
        each.kind == "call" and reading.calls[each.call].method == "Accelerator" for each in found
    )


def is_sharded(reading: Training, call: Call, name: str) -> bool:
    """The object is a model that FSDP sharded, or an engine of DeepSpeed."""
    lineage = lineage_of(reading, name, call.scope, reading.number(call))
    wanted = OF_SHARDS.get(call.method, FSDP)
    made = [reading.calls[n] for n in lineage.calls]
    return any(
        each.name == wanted and not any("NO_SHARD" in v.name for v in each.keywords.values())
        for each in made
    )


def depends_on_rank(reading: Training, value: Value, call: Call) -> bool:
    """The value, or what it is made from, takes the rank or the number of processes."""
    pending, visited = [value], set[str]()
    while pending:
        each = pending.pop()
        names = [name for name in each.all_names if name]
        names += [reading.calls[n].method for n in each.calls]
        if any(RANK.search(name) for name in names):
            return True
        for name in set(names) - visited:
            visited.add(name)
            pending += [a.value for a in reading.assigned_to(name, call.scope)]
    return False


def rank_arms(reading: Training, call: Call) -> Arms:
    """The conditions around a call that hold on one rank only."""
    return tuple(
        (branch, arm)
        for branch, arm in call.arms
        if reading.branches[branch].kind == "if"
        and (test := reading.test_of(branch)) is not None
        and (
            (arm == 0 and asks_first(reading, test, call.scope, DEPTH))
            or (arm == 1 and _excludes_first(reading, test, call.scope))
        )
    )


def asks_first(reading: Training, test: Value, scope: int, depth: int) -> bool:
    """It holds on the first rank only, also by a name or a function that holds the answer."""
    if PART.search(test.text) or " or " in test.text or "not " in test.text:
        return False
    if ONE_RANK.search(test.text) or (not test.text and ONE_RANK.search(test.name)):
        return True
    return any(
        bool(found) and all(asks_first(reading, v, where, depth - 1) for v, where in found)
        for part in (test, *(test.items if " and " in test.text else ()))
        if depth and (found := _meanings(reading, part, scope))
    )


def _meanings(reading: Training, value: Value, scope: int) -> list[tuple[Value, int]]:
    """What a name holds or a function of this file returns, with the scope."""
    if value.kind == "call":
        function = reading.target_function(reading.calls[value.call])
        return [(v, function) for v in reading.function(function).returns] if function else []
    name = value.name or (value.text if value.kind == "test" and value.text.isidentifier() else "")
    found = reading.assigned_to(name, scope) if name else ()
    return [(each.value, each.scope) for each in found]


def _excludes_first(reading: Training, test: Value, scope: int) -> bool:
    """Of `if is_initialized() and rank != 0: return` the rest is for one rank."""
    parts = [part.strip(" ()") for part in test.text.split(" and ")]
    ranks = [part for part in parts if NOT_FIRST.fullmatch(part)]
    rest = [part for part in parts if part not in ranks]
    if not ranks and test.kind in ("name", "call"):
        found = _meanings(reading, test, scope)
        return bool(found) and all(
            NOT_FIRST.fullmatch(value.text.strip(" ()")) is not None for value, _ in found
        )
    return bool(ranks) and all("is_initialized" in part or "is_available" in part for part in rest)


def on_one_rank(reading: Training, call: Call, depth: int = DEPTH) -> tuple[Call, Arms]:
    """The conditions that hold on one rank only, and what stands under them: the call, or the first
    call that leads to it, where each one that does has such a condition.
    """
    arms = rank_arms(reading, call)
    sites = [reading.calls[n] for n in reading.call_sites.get(call.scope, ()) if call.scope]
    if arms or not sites or not depth:
        return call, arms
    found = [on_one_rank(reading, site, depth - 1) for site in sites]
    return found[0] if all(each for _, each in found) else (call, ())
