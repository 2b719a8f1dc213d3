"""Rules on frameworks that shard, prepare and place: FSDP, DeepSpeed, accelerate and DDP."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, gradients
from doctor.checks.script.lineage import PARAMETERS
from doctor.checks.script.loop import calls_reached
from doctor.checks.script.ranks import ddp_calls, is_accelerator, is_sharded
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.scores import is_count
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine


def accelerate_plain_backward(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    made = [n for n in reading.methods("Accelerator") if reading.calls[n].targets]
    names = {reading.key(t, reading.calls[n].scope) for n in made for t in reading.calls[n].targets}
    prepared = {
        reading.key(target, call.scope)
        for call in (reading.calls[n] for n in reading.methods("prepare"))
        if reading.key(call.receiver, call.scope) in names
        for target in call.targets
    }
    prepared |= _engines(reading)
    for number in reading.backwards if prepared else ():
        call = reading.calls[number]
        key = reading.key(call.receiver, call.scope)
        if call.args or not call.receiver or not call.loops or key in names:
            continue
        if not gradients.sources(reading, call, number) & prepared:
            continue
        fp16 = any(_mixed(reading, reading.calls[n]) == {"fp16"} for n in made)
        message = f"{call.receiver}.backward() goes past accelerator.backward()"
        if not made:
            message = f"{call.receiver}.backward() goes past the engine's backward()"
        yield Match(call.span, message, "fail" if fp16 or not made else "warn")


def _engines(reading: Training) -> set[tuple[object, str]]:
    """Names of what deepspeed.initialize returned first."""
    calls = [reading.calls[n] for n in reading.methods("initialize")]
    return {
        reading.key(call.targets[0], call.scope)
        for call in calls
        if call.name == "deepspeed.initialize" and call.targets
    }


def _mixed(reading: Training, call: Call) -> set[object]:
    value = call.keywords.get("mixed_precision")
    return evaluate.literals(reading, value, call) if value is not None else set()


def all_on_first_gpu(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    starts = [reading.calls[n] for n in reading.methods("init_process_group")]
    wraps = ddp_calls(reading)
    if not starts or not wraps:
        return
    if any("gloo" in str(v.literal) for c in starts for v in (*c.args, *c.keywords.values())):
        return
    yield from _global_rank(reading)
    known = {"CUDA_VISIBLE_DEVICES", "device_id", "set_device"} & reading.script.identifiers
    if known or reading.mentions("local_rank"):
        return
    moved = [(n, device) for n, device in _devices(reading) if device != "cpu"]
    blind = [n for n, device in moved if device in ("cuda", "cuda:0", "0")]
    if blind and blind[0] < max(wraps) and len(blind) == len(moved):
        reason = "Slurm may show each process one GPU" if _asks_slurm(reading) else ""
        message = "every process puts its model on the first GPU"
        yield Match(reading.calls[blind[0]].span, message, undecided=reason)


def _devices(reading: Training) -> Iterator[tuple[int, str]]:
    """Calls that name a device, with "" for one that is computed."""
    for n in reading.methods("cuda", "device", "to"):
        call = reading.calls[n]
        if call.method == "cuda" and not call.args:
            yield n, "cuda"
        if call.method == "device" and call.name != "torch.device":
            continue
        for value in call.args[-1:] if call.method == "device" else call.args[:1]:
            for each in evaluate.options(reading, value, call):
                made = reading.calls[each.call] if each.kind == "call" else None
                if made is None or made.name != "torch.device":
                    yield n, str(each.literal) if each.kind == "literal" else ""


def _global_rank(reading: Training) -> Iterator[Match]:
    """The rank among all nodes chooses the GPU of this one."""
    if reading.mentions("local_rank", "spawn", "device_count", "localhost", "gpus_per_node"):
        return
    for n in reading.methods("set_device", "device", "cuda"):
        call = reading.calls[n]
        for value in call.args[-1:] if call.name.startswith("torch.") or call.receiver else ():
            if any(_is_rank(reading, v) for v in evaluate.options(reading, value, call)):
                message = "the rank among all nodes chooses the GPU: on the second node it has none"
                nodes = reading.mentions("nnodes", "num_nodes", "n_nodes", "node_rank") or any(
                    launch.launcher.get("nnodes", "1") not in ("1", "1:1")
                    for launch in reading.script.launches
                )
                yield Match(call.span, message, "warn" if nodes else "note")
                return


def _is_rank(reading: Training, value: Value) -> bool:
    """int(os.environ["RANK"]) or get_rank()."""
    call = reading.calls[value.call] if value.kind == "call" else None
    if call is not None and call.name in ("int", "os.environ.get", "os.getenv") and call.args:
        return call.args[0].literal == "RANK" or _is_rank(reading, call.args[0])
    if call is not None:
        return call.name == "torch.distributed.get_rank" and not call.args
    return value.kind == "item" and value.name == "os.environ[RANK]"


def _asks_slurm(reading: Training) -> bool:
    """The ranks are Slurm's, which binds GPUs to tasks where --gpus-per-task is given."""
    return any(
        "SLURM_" in text
        for value, _, _ in reading.expressions
        for each in flatten([value])
        for text in (str(each.literal), each.name, *each.names)
    )


def clip_of_shards(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("clip_grad_norm_"):
        call = reading.calls[number]
        if call.name != "torch.nn.utils.clip_grad_norm_" or not call.args:
            continue
        for n in call.args[0].calls:
            inner = reading.calls[n]
            if (
                inner.method in PARAMETERS
                and inner.receiver
                and is_sharded(reading, inner, inner.receiver)
            ):
                yield Match(call.span, f"the norm is of this process's shards of {inner.receiver}")


def prepared_in_other_order(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods("prepare"):
        call = reading.calls[number]
        if not is_accelerator(reading, call) or call.unpacked or call.keywords:
            continue
        names, targets = [v.name for v in call.args], list(call.targets)
        if names != targets and sorted(names) == sorted(targets):
            yield Match(call.span, "prepare() returns its arguments in their own order")


def not_gathered(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    prepares = [n for n in reading.methods("prepare") if is_accelerator(reading, reading.calls[n])]
    prepared = {t for n in prepares for t in reading.calls[n].targets}
    if prepared:
        yield from _kept_repeats(reading, prepared)
    if not reading.mentions("gather", "reduce", "process_id", "num_process", "torchmetrics"):
        yield from _own_share(reading, prepared | (_sampled(reading) if not prepared else set()))
    yield from _not_synchronized(reading)


def _own_share(reading: Training, loaders: set[str]) -> Iterator[Match]:
    """A metric, or a count, over the share of one process."""
    for number in reading.methods("add_batch", "add"):
        call = reading.calls[number]
        loaded = evaluate.options_at(
            reading, Value("name", name=call.receiver), call.scope, number, call.arms
        )
        known = [reading.calls[v.call].name for v in loaded if v.kind == "call"]
        if (
            _over(reading, call.loops) & loaders
            and known
            and all(name in ("evaluate.load", "datasets.load_metric") for name in known)
        ):
            yield Match(call.span, f"{call.receiver} sees the share of one process only")
    for each in reading.script.assignments:
        trains = set(each.loops[-1:]) & {
            loop for n in reading.backwards for loop in reading.calls[n].loops[-1:]
        }
        over = each.augmented and not trains and _over(reading, each.loops) & loaders
        if over and is_count(reading, each.value):
            yield Match(each.span, f"{each.target} counts the share of one process only")
            return


def _over(reading: Training, loops: tuple[int, ...]) -> set[str]:
    """What the innermost loop reads."""
    iterable = reading.script.loops[loops[-1]].iterable if loops else None
    return {iterable.name, *iterable.names} if iterable is not None else set()


def _sampled(reading: Training) -> set[str]:
    """Loaders of a DistributedSampler in a file with DDP."""
    found: set[str] = set()
    for n in reading.methods("DataLoader") if ddp_calls(reading) else ():
        call = reading.calls[n]
        made = evaluate.options(reading, call.keywords.get("sampler"), call)
        if made and all(
            v.kind == "call" and reading.calls[v.call].method == "DistributedSampler" for v in made
        ):
            found |= set(call.targets)
    return found


def _kept_repeats(reading: Training, prepared: set[str]) -> Iterator[Match]:
    """gather() keeps the samples that fill the last batch; gather_for_metrics() drops them."""
    if reading.mentions("gather_for_metrics", "remainder", "samples_seen", "even_batches"):
        return
    for number in reading.methods("gather"):
        call = reading.calls[number]
        names = {n.casefold() for v in call.args for n in (v.name, *v.names)}
        outputs = any(word in name for name in names
                      for word in ("pred", "label", "logit", "ref", "target"))  # fmt: skip
        inside = [n for loop in call.loops[-1:] for n in reading.by_loop.get(loop, ())]
        trains = not reading.backward_numbers.isdisjoint(calls_reached(reading, inside))
        cut = any(
            part.kind == "slice" and any(reading.calls[n].name == "len" for n in part.calls)
            for value, _, scope in reading.expressions
            if scope == call.scope
            for part in flatten([value])
        )
        over = is_accelerator(reading, call) and _over(reading, call.loops) & prepared
        if over and outputs and not trains and not cut:
            yield Match(call.span, "gather() keeps the samples that fill up the last batch")
            return


def _not_synchronized(reading: Training) -> Iterator[Match]:
    """self.log() of a value in validation_step on several devices, without sync_dist."""
    several = any(
        v.literal in SEVERAL
        for n in reading.methods("Trainer")
        if reading.calls[n].name.startswith(("lightning.", "pytorch_lightning."))
        for key, v in reading.calls[n].keywords.items()
        if v.kind == "literal" and key in ("strategy", "devices")
    )
    for n in reading.methods("log", "log_dict") if several else ():
        call = reading.calls[n]
        step = reading.function(call.scope).name in ("validation_step", "test_step")
        value = call.args[1] if len(call.args) > 1 else call.keywords.get("value")
        if not step or call.receiver != "self" or "sync_dist" in call.keywords or value is None:
            continue
        metric = value.name.startswith("self.") or reading.mentions("torchmetrics", "all_gather")
        if not metric and value.kind in ("name", "call") and not call.unpacked:
            yield Match(call.span, "each process logs the mean of its share: sync_dist is False")
            return


SEVERAL = (*range(2, 65), "ddp", "fsdp", "ddp_find_unused_parameters_true", "deepspeed")


def not_prepared(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """accelerator.backward() in a loop over a DataLoader that prepare() never got."""
    prepares = [n for n in reading.methods("prepare") if is_accelerator(reading, reading.calls[n])]
    if not prepares or reading.mentions(
        "prepare_data_loader", "sampler", "split_between", "shard", "process_index", "rank",
        "split_dataset",
    ):  # fmt: skip
        return
    given = {
        name
        for n in reading.methods("prepare", "append", "extend")
        for v in (*reading.calls[n].args, *reading.calls[n].unpacked)
        for name in (v.name, *v.names)
    }
    for number in reading.methods("DataLoader"):
        call = reading.calls[number]
        if len(call.targets) != 1 or call.targets[0] in given:
            continue
        for loop in reading.loops_of(call):
            inside = [reading.calls[n] for n in reading.by_loop.get(loop, ())]
            if any(c.method == "backward" and is_accelerator(reading, c) for c in inside):
                span = reading.calls[prepares[0]].span
                yield Match(
                    span, f"{call.targets[0]} is not prepared: all GPUs read the same batches"
                )


def saved_wrapped(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """model.save_pretrained() of what prepare() returned; engines and FSDP pass it on."""
    if reading.mentions("deepspeed", "fsdp", "zero3", "parallelism"):
        return
    prepared = {
        reading.key(target, reading.calls[n].scope)
        for n in reading.methods("prepare")
        if is_accelerator(reading, reading.calls[n])
        for target in reading.calls[n].targets
    }
    for number in reading.methods("save_pretrained", "push_to_hub") if prepared else ():
        call = reading.calls[number]
        key = reading.key(call.receiver, call.scope)
        again = [a for a in reading.assigned.get(key, ()) if a.position > number or a.loops]
        last = max((a.position for a in reading.assigned.get(key, ())), default=0)
        newest = [a for a in reading.assigned.get(key, ()) if a.position == last]
        unwrapped = any(
            reading.calls[a.value.call].method in ("unwrap_model", "extract_model_from_parallel")
            for a in newest
            if a.value.kind == "call"
        )
        if key in prepared and not unwrapped and not again:
            message = f"{call.receiver} is wrapped on several GPUs, and has no {call.method}()"
            yield Match(call.span, message)


RULES = (
    Rule(
        code="SCR258",
        slug="accelerate-plain-backward",
        title="Accelerator calls backward",
        severity="warn",
        find=accelerate_plain_backward,
        why="accelerator.backward(loss) divides by the accumulation steps, scales the loss under "
        "fp16 and calls the engine of DeepSpeed. loss.backward() does none of these.",
        fires=(
            "loss.backward() in a loop of a file that prepares with Accelerator",
            "loss.backward() in a loop that calls an engine of deepspeed.initialize (a failure)",
        ),
        errors=("the same with mixed_precision='fp16': the scaler steps over an unscaled loss",),
        fix="Call accelerator.backward(loss).",
        needs=("Accelerator", "deepspeed"),
        sources=("accelerate-backward",),
    ),
    Rule(
        code="SCR293",
        slug="all-on-first-gpu",
        title="Each process uses its own GPU",
        severity="fail",
        find=all_on_first_gpu,
        why="cuda() without set_device is GPU 0 in every process: memory runs out there, or NCCL "
        "reports a duplicate GPU, and the other GPUs idle.",
        fires=(
            'init_process_group, DDP and cuda() or "cuda:0" in a file that never names a local GPU',
            "RANK or get_rank() chooses the GPU (a warning: right on one node only)",
        ),
        fix='torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the model is moved.',
        needs=("init_process_group",),
        sources=("examples-1142", "torch-ddp-notes"),
    ),
    Rule(
        code="SCR294",
        slug="clip-of-shards",
        title="FSDP clips the norm of all shards",
        severity="warn",
        find=clip_of_shards,
        why="torch.nn.utils.clip_grad_norm_ sees the shards of one process of a model that "
        "FullyShardedDataParallel wraps: each process scales by another norm.",
        fires=("torch.nn.utils.clip_grad_norm_ on the parameters of such a model",),
        fix="Call model.clip_grad_norm_(max_norm). With fully_shard torch's function is right.",
        needs=("FullyShardedDataParallel",),
        sources=("halos-15", "opendiloco-6"),
    ),
    Rule(
        code="SCR295",
        slug="prepared-in-other-order",
        title="prepare() is unpacked in the order of its arguments",
        severity="fail",
        find=prepared_in_other_order,
        why="accelerator.prepare returns what it is given, in that order. In another one the "
        "optimizer's name holds the model.",
        fires=("the same names on both sides of prepare() in another order",),
        fix="Unpack in the order of the arguments.",
        needs=("Accelerator",),
        sources=("accelerate-migration",),
    ),
    Rule(
        code="SCR296",
        slug="metric-not-gathered",
        title="Metrics see the data of all processes",
        severity="warn",
        find=not_gathered,
        why="A loader that accelerate prepared gives each process a share: the metric that the "
        "main process prints is of its own.",
        fires=(
            "add_batch(), or a count of right answers, in a loop over a prepared loader or one of "
            "a DistributedSampler, and no gather or reduce in the file",
            "gather() of predictions in place of gather_for_metrics(), and nothing cut off",
            "self.log() of validation_step without sync_dist, and a Trainer of Lightning with "
            "several devices",
        ),
        fix="Pass what accelerator.gather_for_metrics((predictions, labels)) returns; all_reduce "
        "counts; call self.log(..., sync_dist=True).",
        needs=("Accelerator", "DistributedSampler", "LightningModule"),
        sources=("accelerate-226", "accelerate-574", "lightning-hardware-agnostic"),
    ),
    Rule(
        code="SCR297",
        slug="loader-not-prepared",
        title="accelerate prepares the loader, too",
        severity="fail",
        find=not_prepared,
        why="Only a loader that prepare() returned gives each process a share. Without it all GPUs "
        "train on the same batches, and the GPUs beyond the first add nothing.",
        fires=("accelerator.backward() in a loop over a DataLoader that prepare() never got",),
        fix="model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        needs=("Accelerator",),
        sources=("human-policy-3", "accelerate-migration"),
    ),
    Rule(
        code="SCR298",
        slug="saved-while-wrapped",
        title="A prepared model is unwrapped before it is saved",
        severity="warn",
        find=saved_wrapped,
        why="On several GPUs prepare() returns a wrapper without save_pretrained: the save at the "
        "end of the training raises.",
        fires=("save_pretrained() or push_to_hub() of what accelerator.prepare returned",),
        fix="accelerator.unwrap_model(model).save_pretrained(path)",
        needs=("Accelerator",),
        sources=("accelerate-migration",),
    ),
)
