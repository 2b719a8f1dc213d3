"""Rules on frameworks that shard, prepare and place: FSDP, DeepSpeed, accelerate and DDP."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.distributed.local_ranks import argument_not_passed
from doctor.checks.script.distributed.plain_backward import accelerate_plain_backward
from doctor.checks.script.lineage import PARAMETERS
from doctor.checks.script.ranks import ddp_calls, is_accelerator, is_sharded
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Value


def all_on_first_gpu(reading: Training) -> Iterator[Match]:
    yield from argument_not_passed(reading)
    starts = reading.named("init_process_group")
    wraps = ddp_calls(reading)
    if not starts or not wraps:
        return
    if any("gloo" in str(v.literal) for c in starts for v in c.values):
        return
    yield from _global_rank(reading)
    known = {"CUDA_VISIBLE_DEVICES", "device_id", "set_device"} & reading.script.identifiers
    shown = any(e.target == "os.environ[CUDA_VISIBLE_DEVICES]" for e in reading.assignments)
    if known or shown or reading.mentions("local_rank"):
        return
    moved = [(n, device) for n, device in _devices(reading) if device != "cpu"]
    blind = [n for n, device in moved if device in ("cuda", "cuda:0", "0")]
    if blind and blind[0] < max(wraps) and len(blind) == len(moved):
        reason = "Slurm may show each process one GPU" if _asks_slurm(reading) else ""
        message = "every process puts its model on the first GPU"
        yield Match(reading.calls[blind[0]].span, message, undecided=reason)


def _devices(reading: Training) -> Iterator[tuple[int, str]]:
    """Calls that name a device, with "" for one that is computed."""
    for n, call in reading.numbered(reading.methods("cuda", "device", "to")):
        if call.method == "cuda" and not call.args:
            yield n, "cuda"
        if call.method == "device" and call.name != "torch.device":
            continue
        for value in call.args[-1:] if call.method == "device" else call.args[:1]:
            for each in evaluate.options(reading, value, call):
                made = reading.call_of(each)
                if made is None or made.name != "torch.device":
                    yield n, str(each.literal) if each.kind == "literal" else ""


def _global_rank(reading: Training) -> Iterator[Match]:
    """The rank among all nodes chooses the GPU of this one."""
    if reading.mentions("local_rank", "spawn", "device_count", "localhost", "gpus_per_node"):
        return
    for call in reading.named("set_device", "device", "cuda"):
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
    call = reading.call_of(value)
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
        for text in (str(each.literal), *each.all_names)
    )


def _mixed_adapters(reading: Training) -> Iterator[Match]:
    """FSDP(get_peft_model(...)): one flat parameter of frozen weights and adapters."""
    for call in reading.named("FullyShardedDataParallel"):
        keys = {"use_orig_params", "auto_wrap_policy", "ignored_modules", "ignored_states"}
        if keys & call.keywords.keys() or call.unpacked or not call.args:
            continue
        found = evaluate.options(reading, call.args[0], call)
        made = [reading.calls[v.call].method for v in found if v.kind == "call"]
        if made == ["get_peft_model"]:
            message = "adapters and frozen weights share a flat parameter: FSDP raises"
            yield Match(call.span, message, "fail")


def clip_of_shards(reading: Training) -> Iterator[Match]:
    yield from _mixed_adapters(reading)
    for call in reading.named("clip_grad_norm_"):
        if call.name != "torch.nn.utils.clip_grad_norm_" or not call.args:
            continue
        if any("isinstance(" in test.text and "FSDP" in test.text for test in reading.tests(call)):
            continue
        for n in call.args[0].calls:
            inner = reading.calls[n]
            if (
                inner.method in PARAMETERS
                and inner.receiver
                and is_sharded(reading, inner, inner.receiver)
            ):
                yield Match(call.span, f"the norm is of this process's shards of {inner.receiver}")


def prepared_in_other_order(reading: Training) -> Iterator[Match]:
    for call in reading.named("prepare"):
        if not is_accelerator(reading, call) or call.unpacked or call.keywords:
            continue
        names, targets = [v.name for v in call.args], list(call.targets)
        if names != targets and sorted(names) == sorted(targets):
            yield Match(call.span, "prepare() returns its arguments in their own order")


def not_prepared(reading: Training) -> Iterator[Match]:
    """accelerator.backward() in a loop over a DataLoader that prepare() never got."""
    prepares = [n for n in reading.methods("prepare") if is_accelerator(reading, reading.calls[n])]
    if not prepares or reading.mentions(
        "prepare_data_loader", "sampler", "split_between", "shard", "process_index", "rank",
        "split_dataset",
    ):  # fmt: skip
        return
    given = {
        name
        for other in reading.named("prepare", "append", "extend")
        for v in (*other.args, *other.unpacked)
        for name in v.all_names
    }
    for call in reading.named("DataLoader"):
        if len(call.targets) != 1 or call.targets[0] in given:
            continue
        for loop in reading.loops_of(call):
            inside = [reading.calls[n] for n in reading.by_loop.get(loop, ())]
            if any(c.method == "backward" and is_accelerator(reading, c) for c in inside):
                span = reading.calls[prepares[0]].span
                yield Match(
                    span, f"{call.targets[0]} is not prepared: all GPUs read the same batches"
                )


def saved_wrapped(reading: Training) -> Iterator[Match]:
    """model.save_pretrained() of what prepare() returned; engines and FSDP pass it on."""
    if reading.mentions("deepspeed", "fsdp", "zero3", "parallelism"):
        return
    prepared = {
        reading.key(target, other.scope)
        for other in reading.named("prepare")
        if is_accelerator(reading, other)
        for target in other.targets
    }
    for number, call in reading.numbered(
        reading.methods("save_pretrained", "push_to_hub") if prepared else ()
    ):
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
        "fp16 and calls the engine of DeepSpeed. loss.backward() does none of these; DeepSpeed "
        "before 0.18.3 then averages no gradients.",
        fires=(
            "loss.backward() in a loop of a file that prepares with Accelerator",
            "loss.backward() in a loop that calls an engine of deepspeed.initialize, where the "
            "requirements admit only versions before 0.18.3",
        ),
        errors=("the same with mixed_precision='fp16': the scaler steps over an unscaled loss",),
        fix="Call accelerator.backward(loss), or engine.backward(loss).",
        needs=("Accelerator", "deepspeed"),
        sources=("accelerate-backward", "deepspeed-7665"),
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
            "an argument --local_rank, torchrun, and LOCAL_RANK is read nowhere",
            "RANK or get_rank() chooses the GPU (a warning: right on one node only)",
        ),
        fix='torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the model is moved.',
        needs=("init_process_group",),
        sources=("examples-1142", "torch-ddp-notes", "slapo-64"),
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
        errors=("FSDP of get_peft_model() without use_orig_params and without a policy",),
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
