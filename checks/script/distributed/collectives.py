"""Rules on calls that all processes of a job make together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.distributed import apart
from doctor.checks.script.loop.zeroed import stepped
from doctor.checks.script.ranks import (
    OF_SHARDS,
    OTHERS,
    ddp_calls,
    is_accelerator,
    is_sharded,
    on_one_rank,
    rank_arms,
)
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call

COLLECTIVES = {
    "barrier", "all_reduce", "all_gather", "all_gather_object", "broadcast",
    "broadcast_object_list", "reduce_scatter", "all_to_all", "gather_object", "monitored_barrier",
    "all_gather_into_tensor", "reduce_scatter_tensor", "reduce", "gather", "scatter",
    "scatter_object_list",
}  # fmt: skip
PLUGINS = ("FullyShardedDataParallelPlugin", "DeepSpeedPlugin")
"""Without them the launcher decides whether the ranks are replicas, of which one may save alone."""
OF_ACCELERATE = {
    "wait_for_everyone", "gather_for_metrics", "gather", "save_state", "get_state_dict", "reduce",
    "pad_across_processes", "save_model",
}  # fmt: skip
OF_REPLICAS = ("save_state", "get_state_dict", "save_model")
"""What one process does alone where each has a whole model: only shards make it wait."""
OF_STATES = {
    "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "full_optim_state_dict",
    "optim_state_dict", "set_model_state_dict", "full_tensor", "summon_full_params",
}  # fmt: skip
"""Functions of torch.distributed that gather shards."""


MOVED = "Move the call out of the condition: all ranks make it, and one uses the result."


def collective_on_one_rank(reading: Training) -> Iterator[Match]:
    for call in reading.named(*COLLECTIVES | OF_ACCELERATE | OF_STATES, "save", *OF_SHARDS):
        if not _is_collective(reading, call) or _is_of_group(call):
            continue
        site, arms = on_one_rank(reading, call)
        if arms and not _has_partner(reading, call, site, arms):
            where = f"{call.name} under a test for one rank"
            through = "" if site is call else f"{site.method}() calls "
            if _of_trainer(reading, call) or (
                call.method in OF_REPLICAS
                and is_accelerator(reading, call)
                and not reading.methods(*PLUGINS)
            ):
                message = "with shards of FSDP or ZeRO-3, which the file names, it hangs"
                yield Match(site.span, f"{through}{where}: {message}", "warn", fix=MOVED)
            else:
                message = "the others never join, and it hangs"
                yield Match(site.span, f"{through}{where}: {message}", fix=MOVED)
    yield from _backward_skipped(reading)
    yield from _stepped_on_one(reading)
    yield from apart.leaves_alone(reading)
    yield from apart.not_awaited(reading)
    yield from apart.other_number(reading)


WRAPS = ("FullyShardedDataParallel", "FSDP")
GROUPS = {
    "barrier": 0, "all_reduce": 2, "broadcast": 2, "all_gather": 2, "reduce": 3, "gather": 3,
    "scatter": 3,
}  # fmt: skip
"""Positions of the group of processes."""


def _is_of_group(call: Call) -> bool:
    """It is called by a part of the processes on purpose."""
    return "group" in call.keywords or len(call.args) > GROUPS.get(call.method, 9)


def _stepped_on_one(reading: Training) -> Iterator[Match]:
    """optimizer.step() under a test for one rank, in a loop of DDP."""
    for call in reading.named("step") if ddp_calls(reading) else ():
        if call.loops and stepped(reading, call) and rank_arms(reading, call):
            message = "under a test for one rank: the others keep their weights"
            fix = "Move the step out of the condition."
            yield Match(call.span, f"{call.name}() {message}", fix=fix)


FINITE = re.compile(r"\b(?:isfinite|isnan|isinf)\(")
AGREED = ("all_reduce", "all_gather", "all_gather_object", "reduce_dict", "broadcast", "gather")
ENDS = re.compile(r"exit|abort|\w*(?:Error|Exception|Interrupt)")


def _backward_skipped(reading: Training) -> Iterator[Match]:
    """Each rank decides alone, by its own loss, whether DDP's backward() runs."""
    if not ddp_calls(reading) or reading.imports_from(*OTHERS) or reading.mentions(*AGREED):
        return
    for number in reading.backwards:
        call = reading.calls[number]
        for branch, _ in call.arms if call.loops else ():
            test = reading.test_of(branch)
            if test is None or not FINITE.search(test.text):
                continue
            ends = any(
                ENDS.fullmatch(each.method) and exclusive(each.arms, call.arms)
                for each in reading.calls
            )
            if not ends and any("loss" in name.casefold() for name in test.all_names):
                message = "a rank with a loss that is not finite skips it alone: the others hang"
                fix = "Reduce the flag over all ranks before a step is skipped."
                yield Match(call.span, f"{call.name}() of DDP: {message}", "warn", fix=fix)


def _is_collective(reading: Training, call: Call) -> bool:
    if call.method in COLLECTIVES | OF_STATES and call.name.startswith("torch.distributed."):
        return reading.methods("fully_shard", *WRAPS) != [] or call.method in COLLECTIVES
    if call.method == "full_tensor":
        return bool(reading.methods("fully_shard", "distribute_tensor"))
    if call.method == "save":
        return call.name.startswith("torch.distributed.checkpoint.")
    if not call.receiver:
        return False
    found = reading.assigned_to(call.receiver, call.scope)
    makers = [reading.calls[each.value.call] for each in found if each.value.kind == "call"]
    if call.method in OF_SHARDS:
        return is_sharded(reading, call, call.receiver) or any(map(_is_lightning, makers))
    if _of_trainer(reading, call):
        asked = any(re.search("fsdp|deepspeed", t.text, re.I) for t in reading.tests(call))
        return reading.mentions("fsdp", "deepspeed") and not asked
    shards = call.method not in OF_REPLICAS or reading.mentions("fsdp", "fullysharded", "deepspeed")
    return call.method in OF_ACCELERATE and shards and is_accelerator(reading, call)


def _of_trainer(reading: Training, call: Call) -> bool:
    """save_model() of a Trainer of transformers, which picks the process that writes itself."""
    if call.method != "save_model" or "save_model" in reading.functions_by_name:
        return False
    found = reading.assigned_to(call.receiver, call.scope)
    made = [reading.calls[n] for each in found if (n := each.value.call) in reading.trainers]
    own = reading.trainer_classes if reading.imports_from("transformers", "trl") else ()
    return any(each.name.startswith(("transformers.", "trl.")) or each.name in own for each in made)


def _is_lightning(made: Call) -> bool:
    """A Trainer of Lightning on several devices, whose save_checkpoint() ends in a barrier."""
    devices = made.keywords.get("devices")
    alone = devices is None or devices.literal in (1, "1")
    known = made.name.startswith(("lightning.", "pytorch_lightning.")) and made.method == "Trainer"
    return known and (not alone or "strategy" in made.keywords)


def _has_partner(reading: Training, call: Call, site: Call, arms: Arms) -> bool:
    """The other ranks call the same elsewhere: if not first: barrier() ... if first: barrier()."""
    for other in reading.named(call.method):
        if other is call or other.scope != site.scope:
            continue
        if other.arms and not within(other.arms, arms) and other.arms != site.arms:
            return True
    return False


RULES = (
    Rule(
        code="SCR254",
        slug="collective-on-one-rank",
        title="Collectives are called by every rank",
        severity="fail",
        find=collective_on_one_rank,
        why="A collective waits for all ranks of its group. Under `if rank == 0` the others never "
        "arrive, and the job hangs until the timeout.",
        fires=(
            "barrier, all_reduce, broadcast, dcp.save and the like under a test for rank 0",
            "state_dict() of an FSDP model, or save_checkpoint() of DeepSpeed or of Lightning, "
            "under such a test",
            "the same in a function that is called under such a test only, also through others",
            "break under a test for rank 0, in the loop that trains, and nothing tells the others",
            "mp.spawn(nprocs=2) of processes that wait for world_size=4",
            "a warning: rank 0 prepares files that all read, and no barrier() stands between",
            "a warning: trainer.save_model() of transformers under such a test, in a file that "
            "names DeepSpeed or FSDP",
            "a warning: backward() of DDP is skipped where the rank's own loss is not finite",
        ),
        fix="Move the call out of the condition; reduce the flag over all ranks before a step is "
        "skipped.",
        sources=("torch-distributed", "automodel-2468", "audio-3749"),
        words=(
            r"barrier\(",
            r"reduce\(",
            r"gather\(",
            r"scatter\w*\(",
            r"all_gather\w*\(",
            r"broadcast\w*\(",
            r"wait_for_everyone\(",
            r"save_(?:checkpoint|state|model)\s*\(",
            r"FullyShardedDataParallel",
            r"DistributedDataParallel",
            r"init_process_group",
        ),
    ),
)
