"""Rules on configurations of DeepSpeed and accelerate: processes, batches, stages."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.config.trainings import Options
from doctor.checks.script.distributed.batch import settings
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

BY_FILE = ("gradient_accumulation_steps", "gradient_clipping", "zero_stage",
           "offload_optimizer_device", "offload_param_device",
           "zero3_save_16bit_model")  # fmt: skip
"""What accelerate refuses beside deepspeed_config_file."""


def _options(reading: Training) -> Options:
    return Options({key: (each.value, each.span) for key, each in settings(reading).items()})


def of_deepspeed(reading: Training) -> Iterator[Match]:
    each = _options(reading)
    whole, micro = each.number("train_batch_size"), each.number("train_micro_batch_size_per_gpu")
    steps = each.number("gradient_accumulation_steps") or 1
    if whole and micro and whole % (micro * steps):
        yield Match(
            each.span("train_batch_size"),
            f"{whole:g} is not {micro:g} samples times {steps:g} times a number of GPUs",
        )
    stage = each.number("zero_optimization.stage")
    offloads = each.text("zero_optimization.offload_param.device")
    if stage is not None and stage < 3 and offloads not in ("", "none"):
        yield Match(
            each.span("zero_optimization.offload_param.device"),
            f"offload_param needs stage 3, not {stage:g}",
        )
    held = each.text("zero_optimization.offload_optimizer.device")
    if stage == 0 and held not in ("", "none"):
        yield Match(
            each.span("zero_optimization.offload_optimizer.device"),
            "offload_optimizer needs stage 1 or more",
        )
    if stage is not None and not 0 <= stage <= 3:
        yield Match(each.span("zero_optimization.stage"), f"there is no stage {stage:g}")
    warm, total = (
        each.number(f"scheduler.params.{n}") for n in ("warmup_num_steps", "total_num_steps")
    )
    if warm and total and warm >= total:
        yield Match(
            each.span("scheduler.params.warmup_num_steps"), "the warm-up is as long as the run"
        )
    peak, rate = each.number("scheduler.params.warmup_max_lr"), each.number("optimizer.params.lr")
    if peak and rate and not 0.5 < peak / rate < 2:
        yield Match(
            each.span("scheduler.params.warmup_max_lr"),
            f"the schedule goes to {peak:g}, the optimizer has {rate:g}: the schedule decides",
            "warn",
        )
    saves = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
    if stage == 3 and saves in each.table and each.text(saves) == "false":
        yield Match(
            each.span(saves), "the saved model has no weights, only shards for DeepSpeed", "warn"
        )


def of_accelerate(reading: Training) -> Iterator[Match]:
    each = _options(reading)
    yield from _of_machines(each)
    yield from _of_gpus(each)
    yield from _of_plugins(each)


def _of_machines(each: Options) -> Iterator[Match]:
    count, machines = each.number("num_processes"), each.number("num_machines") or 1
    kind, rank = each.text("distributed_type"), each.number("machine_rank")
    if count and machines and count % machines:
        yield Match(
            each.span("num_processes"),
            f"{count:g} processes cannot be shared by {machines:g} machines",
        )
    elif count and machines > 1 and count < machines:
        yield Match(each.span("num_processes"), "num_processes is for all machines together")
    address = each.text("main_process_ip")
    local = ("", "none", "null", "localhost", "127.0.0.1")
    if machines > 1 and address in local and "cpu" not in kind:
        where = "main_process_ip" if "main_process_ip" in each.table else "num_machines"
        yield Match(each.span(where), "the machines do not find each other: main_process_ip")
    if rank is not None and rank >= machines:
        yield Match(each.span("machine_rank"), f"rank {rank:g} of {machines:g} machines")


def _of_gpus(each: Options) -> Iterator[Match]:
    count, machines = each.number("num_processes"), each.number("num_machines") or 1
    kind = each.text("distributed_type")
    if kind in ("no", "none") and count and count > 1:
        message = f"distributed_type is NO: one of {count:g} processes starts"
        yield Match(each.span("distributed_type"), message, "warn")
    if each.on("use_cpu") and kind in ("multi_gpu", "fsdp", "deepspeed"):
        yield Match(each.span("use_cpu"), "use_cpu: true: the GPUs are not used")
    ids = each.text("gpu_ids")
    if count and ids and ids != "all" and machines == 1 and ids.count(",") + 1 < count:
        yield Match(each.span("gpu_ids"), f"{count:g} processes for {ids.count(',') + 1} GPUs")
    if kind == "multi_gpu" and count == 1 and machines == 1:
        yield Match(each.span("num_processes"), "one process: the other GPUs are idle", "warn")


def _of_plugins(each: Options) -> Iterator[Match]:
    kind = each.text("distributed_type")
    named = each.text("deepspeed_config.deepspeed_config_file")
    both = [k for k in BY_FILE if f"deepspeed_config.{k}" in each.table]
    if named and both:
        yield Match(
            each.span(f"deepspeed_config.{both[0]}"),
            f"{both[0]} stands in the file of DeepSpeed: accelerate refuses it here",
        )
    synced = "fsdp_config.fsdp_sync_module_states"
    if each.on("fsdp_config.fsdp_cpu_ram_efficient_loading") and each.text(synced) == "false":
        message = "one process loads the weights, and the others need fsdp_sync_module_states: true"
        yield Match(each.span(synced), message, fix="fsdp_sync_module_states: true.")
    for name, wanted in (("fsdp_config", "fsdp"), ("deepspeed_config", "deepspeed")):
        given = any(key.startswith(f"{name}.") for key in each.table)
        if given and kind == "multi_gpu":
            key = next(key for key in each.table if key.startswith(f"{name}."))
            yield Match(
                each.span(key),
                f"{name} is not read: distributed_type is {kind.upper()}, not {wanted.upper()}",
            )


RULES = (
    Rule(
        code="SCR365",
        slug="config-deepspeed",
        title="A configuration of DeepSpeed is consistent",
        severity="fail",
        find=of_deepspeed,
        why="DeepSpeed asserts that the batch is the product of its parts, and that what is "
        "offloaded is partitioned: the run stops when it starts.",
        fires=(
            "train_batch_size that no number of GPUs makes of micro batches and accumulation",
            "offload_param below stage 3, offload_optimizer at stage 0, a stage above 3",
            "a warm-up as long as the run",
            "stage 3 that saves no 16-bit weights (a warning)",
        ),
        fix="Set two of the three numbers of the batch; use the stage that the offload needs.",
        sources=("deepspeed-config",),
        kinds=("deepspeed",),
    ),
    Rule(
        code="SCR366",
        slug="config-accelerate",
        title="A configuration of accelerate is consistent",
        severity="fail",
        find=of_accelerate,
        why="num_processes counts the processes of all machines, and sections are read only for "
        "their distributed_type. What is ignored trains on one GPU or the CPU, or waits.",
        fires=(
            "num_processes that num_machines does not divide, or above 1 with distributed_type: NO",
            "several machines without main_process_ip, a machine_rank out of range",
            "use_cpu: true, fewer gpu_ids than processes",
            "fsdp_cpu_ram_efficient_loading: true, and fsdp_sync_module_states: false",
            "fsdp_config or deepspeed_config with MULTI_GPU; settings beside deepspeed_config_file",
        ),
        fix="Run `accelerate config` again, or correct the key.",
        sources=("accelerate-config",),
        kinds=("accelerate",),
    ),
)
