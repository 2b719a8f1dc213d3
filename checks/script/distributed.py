"""Rules on training with several processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.loop import calls_reached, stepped
from doctor.checks.script.reading import exclusive, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call, Value
from doctor.facts.script_machine import ScriptMachine

HELD_OUT = re.compile("val|test|eval|dev", re.IGNORECASE)
DDP = ("DistributedDataParallel", "DDP")
OTHERS = (
    "accelerate", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric", "fairscale",
    "horovod", "ignite", "colossalai", "ray",
)  # fmt: skip
"""Frameworks that shard data or save by themselves."""


def ddp_calls(reading: Training) -> list[int]:
    """Calls that wrap a model in torch's DistributedDataParallel."""
    return [
        n
        for n in reading.methods(*DDP)
        if reading.calls[n].name.startswith(("torch.nn.parallel.", "apex.parallel."))
        and reading.calls[n].args
    ]


def set_epoch_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    calls = [reading.calls[n] for n in reading.methods("set_epoch")]
    fixed = [
        each
        for each in calls
        if each.loops and each.receiver and [value.kind for value in each.args] == ["literal"]
    ]
    if fixed and len(fixed) == len(calls):
        message = (
            f"the sampler shuffles alike in every epoch: set_epoch({fixed[0].args[0].literal})"
        )
        yield Match(fixed[0].span, message)
    if reading.mentions("set_epoch") or reading.imports_from(*OTHERS):
        return
    for number in reading.methods("DistributedSampler"):
        call = reading.calls[number]
        shuffle = evaluate.argument(reading, call, "shuffle", 3)
        if shuffle is not None and evaluate.truth(reading, shuffle, call) is not True:
            continue
        loader = _loader_of(reading, call, number)
        if loader is None or any(
            HELD_OUT.search(name) for name in (*call.targets, *loader.targets)
        ):
            continue
        if _in_epochs(reading, loader) or _epochs_in_calls(reading):
            yield Match(call.span, "the sampler shuffles alike in every epoch: no set_epoch()")


def _loader_of(reading: Training, sampler: Call, number: int) -> Call | None:
    """The DataLoader that gets the sampler."""
    for n in reading.methods("DataLoader"):
        call = reading.calls[n]
        value = call.keywords.get("sampler")
        if value is not None and (value.call == number or value.name in sampler.targets):
            return call
    return None


def _epochs_in_calls(reading: Training) -> bool:
    """A loop over a range calls functions of the file that loop over batches and train."""
    for number, loop in enumerate(reading.script.loops):
        iterable = loop.iterable
        made = reading.calls[iterable.call] if iterable and iterable.kind == "call" else None
        if made is None or made.name not in ("range", "tqdm", "trange"):
            continue
        inside = [n for n in reading.by_loop.get(number, ()) if n not in reading.backward_numbers]
        outer = calls_reached(reading, inside)
        if any(
            n in reading.backward_numbers and reading.calls[n].loops
            for n in outer
            if n not in inside
        ):
            return True
    return False


def _in_epochs(reading: Training, loader: Call) -> bool:
    """A loop over the loader, with a backward in it, runs in a loop around it."""
    for number, loop in enumerate(reading.script.loops):
        names = (loop.iterable.name, *loop.iterable.names) if loop.iterable is not None else ()
        if not set(names) & set(loader.targets):
            continue
        inside = [reading.calls[n] for n in reading.by_loop.get(number, ())]
        around = [call.loops[: call.loops.index(number)] for call in inside if number in call.loops]
        if any(c.method == "backward" for c in inside) and any(around):
            return True
    return False


def sampler_and_shuffle(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("DataLoader"):
        call = reading.calls[number]
        sampler, shuffle = call.keywords.get("sampler"), call.keywords.get("shuffle")
        if sampler is None or shuffle is None or sampler.kind == "choice" or call.unpacked:
            continue
        made = list(evaluate.options(reading, sampler, call))
        certain = all(each.kind == "call" for each in made)
        if evaluate.truth(reading, shuffle, call) is True and certain and not _is_none(made):
            yield Match(call.span, "DataLoader(sampler=..., shuffle=True) raises a ValueError")


def _is_none(values: list[Value]) -> bool:
    return not values or any(each.kind == "literal" and each.literal is None for each in values)


def ddp_without_sampler(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not ddp_calls(reading) or reading.imports_from(*OTHERS, "webdataset"):
        return
    if reading.mentions("shard", "split_dataset_by_node", "iterabledataset", "num_replicas"):
        return
    if any("sampler" in name.casefold() for name in reading.by_method):
        return
    for number in reading.methods("DataLoader"):
        call = reading.calls[number]
        shuffle = call.keywords.get("shuffle")
        if shuffle is None or evaluate.truth(reading, shuffle, call) is not True or call.unpacked:
            continue
        if call.keywords.get("batch_sampler") is not None or not _in_training(reading, call):
            continue
        data = call.args[0] if call.args else call.keywords.get("dataset")
        if data is not None and not _depends_on_rank(reading, data, call):
            yield Match(call.span, "every process reads the whole data: no DistributedSampler")


def _in_training(reading: Training, loader: Call) -> bool:
    """A loop over it calls backward()."""
    for number, loop in enumerate(reading.script.loops):
        names = (loop.iterable.name, *loop.iterable.names) if loop.iterable is not None else ()
        if set(names) & set(loader.targets):
            inside = [reading.calls[n] for n in reading.by_loop.get(number, ())]
            if any(c.method == "backward" for c in inside):
                return True
    return False


RANK = re.compile(r"rank|world|process_index|num_process", re.IGNORECASE)


def _depends_on_rank(reading: Training, data: Value, call: Call) -> bool:
    """The dataset, or what it is made from, takes the rank or the number of processes."""
    pending, visited = [data], set[str]()
    while pending:
        value = pending.pop()
        names = [name for name in (value.name, *value.names) if name]
        if any(RANK.search(name) for name in names):
            return True
        for name in set(names) - visited:
            visited.add(name)
            pending += [a.value for a in reading.assigned.get(reading.key(name, call.scope), ())]
    return False


def ddp_bypassed(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in ddp_calls(reading):
        wrap = reading.calls[number]
        if len(wrap.targets) != 1:
            continue
        wrapped = reading.key(wrap.targets[0], wrap.scope)
        inner = wrap.args[0].name
        original = reading.key(inner, wrap.scope) if inner else None
        uses: list[Call] = []
        through = False
        for n, call in enumerate(reading.calls):
            if not _in_step(reading, call) or reading.is_evaluation(call):
                continue
            key = reading.key(call.name, call.scope)
            through = through or key == wrapped
            past = call.method == "module" and reading.key(call.receiver, call.scope) == wrapped
            past = past or _is_loss_of_module(reading, call, wrapped)
            inside = original not in (None, wrapped) and key == original and n > number
            if past or inside:
                uses.append(call)
        if uses and not through and not wrap.arms:
            message = f"{uses[0].name}(...) goes past DDP: gradients are not averaged over the GPUs"
            yield Match(uses[0].span, message)


def _is_loss_of_module(reading: Training, call: Call, wrapped: tuple[object, str]) -> bool:
    """loss = model.module.calc_loss(x), on which backward() is called."""
    owner, name = reading.key(call.receiver, call.scope)
    return (owner, name.removesuffix(".module")) == wrapped != (owner, name) and any(
        reading.calls[n].receiver in call.targets
        for n in reading.backwards
        if reading.calls[n].scope == call.scope and reading.calls[n].receiver
    )


def _in_step(reading: Training, call: Call) -> bool:
    """In a loop whose iterations call backward() after it, and what it returns is used there."""
    if not call.loops or call.statement:
        return False
    number = reading.numbers[id(call)]
    return any(
        n > number and reading.calls[n].scope == call.scope and reading.calls[n].loops == call.loops
        for n in reading.backwards
    )


FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
COLLECTIVES = {
    "barrier", "all_reduce", "all_gather", "all_gather_object", "broadcast",
    "broadcast_object_list", "reduce_scatter", "all_to_all", "gather_object", "monitored_barrier",
    "all_gather_into_tensor", "reduce_scatter_tensor",
}  # fmt: skip
NOT_FIRST = re.compile(r"(?:\w+\.)*\w*rank\w*(?:\(\w*\))?\s*(?:!=|>)\s*0")
OF_SHARDS = {"state_dict": FSDP, "save_checkpoint": "deepspeed.initialize"}
"""What all processes must ask for together, and what makes the object."""
DEEP = 4
"""Functions between a condition and a collective. Our own number."""
OF_ACCELERATE = {"wait_for_everyone", "gather_for_metrics", "gather"}
ONE_RANK = re.compile(
    r"(?:^|[\s(.])(?:\w*\.)*(?:\w*rank\w*(?:\(\))?|process_index)\s*==\s*0\b"
    r"|is_(?:local_)?main_process(?!\w)|is_master(?!\w)|is_rank_zero|is_primary(?!\w)"
    r"|is_main_process\(\)|^master_process$",
)


def collective_on_one_rank(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods(*COLLECTIVES, *OF_ACCELERATE, "save", *OF_SHARDS):
        call = reading.calls[number]
        if not _is_collective(reading, call) or _is_of_group(call):
            continue
        site, arms = _on_one_rank(reading, call, DEEP)
        if arms and not _has_partner(reading, call, site, arms):
            message = f"{call.name} under a test for one rank: the others never join, and it hangs"
            through = "" if site is call else f"{site.method}() calls "
            yield Match(site.span, through + message)
    yield from _backward_skipped(reading)
    yield from _stepped_on_one(reading)


GROUPS = {"barrier": 0, "all_reduce": 2, "broadcast": 2, "all_gather": 2, "reduce": 3}
"""Positions of the group of processes."""
PART = re.compile(
    r"(?:^|[._\s(])(?:tp|dp|pp|cp|ep|sp|mp|model|data|pipe\w*|tensor|shard\w*|group|stage|expert|"
    r"sequence|context|\w*parallel)_(?:\w+_)*rank|get_rank\([^)\s]|get_\w+_rank"
)


def _is_of_group(call: Call) -> bool:
    """It is called by a part of the processes on purpose."""
    return "group" in call.keywords or len(call.args) > GROUPS.get(call.method, 9)


def _stepped_on_one(reading: Training) -> Iterator[Match]:
    """optimizer.step() under a test for one rank, in a loop of DDP."""
    for number in reading.methods("step") if ddp_calls(reading) else ():
        call = reading.calls[number]
        if call.loops and stepped(reading, call) and _rank_arms(reading, call.arms):
            message = "under a test for one rank: the others keep their weights"
            yield Match(call.span, f"{call.name}() {message}")


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
            test = reading.script.branches[branch].test
            if test is None or not FINITE.search(test.text):
                continue
            ends = any(
                ENDS.fullmatch(each.method) and exclusive(each.arms, call.arms)
                for each in reading.calls
            )
            if not ends and any("loss" in name.casefold() for name in test.names):
                message = "a rank with a loss that is not finite skips it alone: the others hang"
                yield Match(call.span, f"{call.name}() of DDP: {message}", "warn")


def _is_collective(reading: Training, call: Call) -> bool:
    if call.method in COLLECTIVES:
        return call.name.startswith("torch.distributed.")
    if call.method == "save":
        return call.name.startswith("torch.distributed.checkpoint.")
    if not call.receiver:
        return False
    if call.method in OF_SHARDS:
        return is_sharded(reading, call, call.receiver)
    made = reading.assigned.get(reading.key(call.receiver, call.scope), ())
    return any(
        each.value.kind == "call"
        and reading.calls[each.value.call].name == "accelerate.Accelerator"
        for each in made
    )


def is_sharded(reading: Training, call: Call, name: str) -> bool:
    """The object is a model that FSDP sharded, or an engine of DeepSpeed."""
    lineage = lineage_of(reading, name, call.scope, reading.numbers[id(call)])
    wanted = OF_SHARDS.get(call.method, FSDP)
    made = [reading.calls[n] for n in lineage.calls]
    return any(
        each.name == wanted and not any("NO_SHARD" in v.name for v in each.keywords.values())
        for each in made
    )


def _rank_arms(reading: Training, arms: Arms) -> Arms:
    """The conditions that hold on one rank only."""
    return tuple(
        (branch, arm)
        for branch, arm in arms
        if (arm == 0 and _asks_rank(reading, branch)) or (arm == 1 and _excludes(reading, branch))
    )


def _excludes(reading: Training, branch: int) -> bool:
    """Of `if is_initialized() and rank != 0: return` the rest is for one rank."""
    test = reading.script.branches[branch].test
    if reading.script.branches[branch].kind != "if" or test is None:
        return False
    parts = [part.strip(" ()") for part in test.text.split(" and ")]
    ranks = [part for part in parts if NOT_FIRST.fullmatch(part)]
    rest = [part for part in parts if part not in ranks]
    return bool(ranks) and all("is_initialized" in part or "is_available" in part for part in rest)


def _asks_rank(reading: Training, branch: int) -> bool:
    test = reading.script.branches[branch].test
    if reading.script.branches[branch].kind != "if" or test is None:
        return False
    text = test.text
    if PART.search(text):
        return False
    return bool(ONE_RANK.search(text)) and " or " not in text and "not " not in text


def _on_one_rank(reading: Training, call: Call, depth: int) -> tuple[Call, Arms]:
    """The conditions that hold on one rank only, and what stands under them: the call, or the first
    call that leads to it, where each one that does has such a condition.
    """
    arms = _rank_arms(reading, call.arms)
    sites = [reading.calls[n] for n in reading.call_sites.get(call.scope, ()) if call.scope]
    if arms or not sites or not depth:
        return call, arms
    found = [_on_one_rank(reading, site, depth - 1) for site in sites]
    return found[0] if all(each for _, each in found) else (call, ())


def _has_partner(reading: Training, call: Call, site: Call, arms: Arms) -> bool:
    """The other ranks call the same elsewhere: if not first: barrier() ... if first: barrier()."""
    for n in reading.methods(call.method):
        other = reading.calls[n]
        if other is call or other.scope != site.scope:
            continue
        if other.arms and not within(other.arms, arms) and other.arms != site.arms:
            return True
    return False


GUARDED = re.compile(
    r"rank|main|master|primary|local|world|distributed|dist\b|leader|chief|gpu|save|zero", re.I
)
BY_THEMSELVES = (
    "fullyshardeddataparallel",
    "fully_shard",
    "save_on_master",
    "setup_for_distributed",
)
"""Names of what saves on one process, or must be called by all."""
SAVERS = ("torch.save", "safetensors.torch.save_file")


def saved_by_all(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not ddp_calls(reading) or reading.imports_from(*OTHERS) or reading.mentions(*BY_THEMSELVES):
        return
    message = "every process writes the same file"
    for number in reading.methods("save", "save_file"):
        call = reading.calls[number]
        if call.name not in SAVERS or len(call.args) < 2 or _is_guarded(reading, call.arms):
            continue
        if any(_depends_on_rank(reading, value, call) for value in call.args):
            continue
        sites = [reading.calls[n] for n in reading.call_sites.get(call.scope, ())]
        if call.scope and not sites:
            yield Match(call.span, message, undecided="the callers are in another file")
        elif not any(_is_guarded(reading, site.arms) or _outer(reading, site) for site in sites):
            yield Match(call.span, message)


def _is_guarded(reading: Training, arms: Arms) -> bool:
    """Some condition is, or may be, about the process."""
    tests = [reading.script.branches[branch].test for branch, _ in arms]
    return any(test is not None and (GUARDED.search(test.text) or test.kind == "name" or
               test.kind == "call") and "__name__" not in test.text for test in tests)  # fmt: skip


def _outer(reading: Training, site: Call) -> bool:
    """The caller is itself called under such a condition."""
    sites = [reading.calls[n] for n in reading.call_sites.get(site.scope, ())] if site.scope else []
    return any(_is_guarded(reading, each.arms) for each in sites)


def loaded_to_one_gpu(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if not ddp_calls(reading) or reading.imports_from(*OTHERS):
        return
    if "CUDA_VISIBLE_DEVICES" in reading.script.identifiers:
        return
    for number in reading.methods("load"):
        call = reading.calls[number]
        if call.name != "torch.load" or call.unpacked or len(call.args) > 1:
            continue
        if "map_location" in call.keywords or not _is_loaded(reading, number, call):
            continue
        if any(
            "map_location" in reading.calls[n].keywords
            and exclusive(reading.calls[n].arms, call.arms)
            for n in reading.methods("load")
        ):
            continue
        yield Match(
            call.span, "torch.load without map_location: every process loads to the saved GPU"
        )


def _is_loaded(reading: Training, number: int, call: Call) -> bool:
    """Its result reaches load_state_dict."""
    for n in reading.methods("load_state_dict"):
        use = reading.calls[n]
        for value in use.args:
            if number in value.calls or any(
                name.partition("[")[0] in call.targets
                for name in (value.name, *value.names)
                if name
            ):
                return True
    return False


def sync_norm_after_ddp(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("convert_sync_batchnorm"):
        call = reading.calls[number]
        if not call.name.startswith("torch.nn.") or len(call.args) != 1:
            continue
        value = call.args[0]
        for option in evaluate.options(reading, value, call):
            if option.kind == "call" and option.call in ddp_calls(reading) and option.call < number:
                yield Match(call.span, "SyncBatchNorm is set after DDP wrapped the model")


RULES = (
    Rule(
        code="SCR251",
        slug="set-epoch-missing",
        title="A DistributedSampler shuffles anew in every epoch",
        severity="warn",
        find=set_epoch_missing,
        why="The order of a DistributedSampler depends on seed + epoch. Without set_epoch() every "
        "epoch has the same order, and every process the same part of the data.",
        fires=(
            "a shuffling DistributedSampler, a loop over epochs, and no set_epoch in the file",
            "set_epoch() in a loop, always with the same number",
        ),
        fix="Call sampler.set_epoch(epoch) at the start of every epoch.",
        needs=("DistributedSampler", "set_epoch"),
        sources=("torch-distributed-sampler",),
    ),
    Rule(
        code="SCR252",
        slug="ddp-without-sampler",
        title="Each process of DDP reads its own part of the data",
        severity="warn",
        find=ddp_without_sampler,
        why="Without a sampler every process reads all of the data: an epoch costs as much as on "
        "one "
        "GPU, and processes with equal seeds see equal batches.",
        fires=("DDP, and a shuffling DataLoader whose data know nothing of the rank",),
        fix="Pass sampler=DistributedSampler(dataset) and omit shuffle.",
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-distributed-sampler",),
    ),
    Rule(
        code="SCR253",
        slug="ddp-bypassed",
        title="The forward pass of a step goes through DDP",
        severity="fail",
        find=ddp_bypassed,
        why="DDP prepares its gradient hooks in forward(). model.module(x), or the model that was "
        "wrapped, leaves them unprepared: each GPU trains a model of its own.",
        fires=(
            "the loss of a training loop is computed by ddp.module(x), by a method of ddp.module, "
            "or by the inner model",
        ),
        fix="Call the wrapped model itself.",
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-ddp-notes",),
    ),
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
            "state_dict() of an FSDP model, or save_checkpoint() of DeepSpeed, under such a test",
            "the same in a function that is called under such a test only, also through others",
            "a warning: backward() of DDP is skipped where the rank's own loss is not finite",
        ),
        fix="Move the call out of the condition; reduce the flag over all ranks before a step is "
        "skipped.",
        sources=("torch-distributed", "automodel-2468", "audio-3749"),
        training=False,
        words=(
            r"barrier\(",
            r"all_reduce\(",
            r"all_gather\w*\(",
            r"broadcast\w*\(",
            r"wait_for_everyone\(",
            r"checkpoint",
            r"FullyShardedDataParallel",
        ),
    ),
    Rule(
        code="SCR255",
        slug="save-on-all-ranks",
        title="One process saves the model",
        severity="warn",
        find=saved_by_all,
        why="All processes write the same path at the same time: the file may be torn, and the "
        "time "
        "is spent once per process.",
        fires=("torch.save in a file with DDP, under no test of the rank",),
        fix="Save under if dist.get_rank() == 0, then call dist.barrier() on all ranks.",
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-ddp-notes",),
    ),
    Rule(
        code="SCR256",
        slug="load-without-map-location",
        title="Each process loads to its own GPU",
        severity="warn",
        find=loaded_to_one_gpu,
        why="torch.load restores tensors to the GPU that they were saved from, mostly GPU 0: all "
        "processes allocate there, and its memory may be exhausted.",
        fires=("torch.load without map_location in a file with DDP, given to load_state_dict",),
        fix='Pass map_location="cpu", or f"cuda:{local_rank}".',
        needs=("DistributedDataParallel", "DDP"),
        sources=("torch-load",),
    ),
    Rule(
        code="SCR257",
        slug="sampler-with-shuffle",
        title="A sampler decides the order alone",
        severity="fail",
        find=sampler_and_shuffle,
        why="DataLoader raises 'sampler option is mutually exclusive with shuffle'.",
        fires=("DataLoader(sampler=a sampler, shuffle=True)",),
        fix="Omit shuffle; DistributedSampler shuffles by default.",
        needs=("sampler",),
        sources=("torch-dataloader",),
        training=False,
        words=(r"sampler\s*=",),
    ),
    Rule(
        code="SCR259",
        slug="sync-batchnorm-after-ddp",
        title="SyncBatchNorm is set before DDP wraps the model",
        severity="fail",
        find=sync_norm_after_ddp,
        why="DDP has already taken the parameters of the layers that convert_sync_batchnorm "
        "replaces.",
        fires=("convert_sync_batchnorm of a model that DistributedDataParallel returned",),
        fix="Convert first, then wrap.",
        needs=("convert_sync_batchnorm",),
        sources=("torch-sync-batchnorm",),
    ),
)
