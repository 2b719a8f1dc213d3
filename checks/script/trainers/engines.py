"""A rule on DeepSpeed engines: what they do themselves, and settings that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.distributed.batch import flag, number
from doctor.checks.script.rendering import expanded
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Launch, Value
from doctor.script.engine_files import engine_file

ACCUMULATION = ".json:gradient_accumulation_steps"


def engines(reading: Training) -> Iterator[Match]:
    for made in reading.named("initialize"):
        if made.name != "deepspeed.initialize" or not made.targets:
            continue
        settings = _settings(reading, made)
        yield from _batch_of_launch(reading, made)
        if settings is not None:
            yield from _halves(reading, made, settings)
        yield from _scheduler_steps(reading, made)
        engine = made.targets[0]
        accumulates = _accumulates(reading, made, settings)
        for call in reading.named("backward"):
            if call.receiver == engine and call.args and accumulates:
                yield from _divided(reading, call)
        for call in reading.named("step"):
            tested = [
                t.text
                for t in reading.tests(call)
                if re.search(r"%\s*[\w.\[\]'\"()]+\s*==", t.text)
            ]
            asked = any("boundary" in t.text for t in reading.tests(call))
            if call.receiver == engine and tested and accumulates and not asked:
                message = f"{engine}.step() counts micro batches itself: under `{tested[0]}` "
                message += "it steps in each Nth of the Nth"
                yield Match(call.span, message, fix="Call engine.step() for every micro batch.")


def _batch_of_launch(reading: Training, made: Call) -> Iterator[Match]:
    """train_batch_size is not micro batch, accumulation and the processes of the launch."""
    if reading.mentions("mpu", "pipeline", "tensor_parallel", "sequence_parallel", "autotp"):
        return
    batch = {each.key: each.value for each in reading.script.settings}
    for launch in reading.script.launches:
        name, processes = engine_file(launch), _processes(launch)
        keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        whole, micro, steps = (batch.get(f"{name}:{key}") for key in keys)
        if not name or not processes or not isinstance(whole, int) or not isinstance(micro, int):
            continue
        if not isinstance(steps, int) or micro * steps * processes == whole:
            continue
        product = f"{micro} * {steps} * {processes} GPUs"
        message = f"{name}: train_batch_size {whole} is not {product} of {launch.path}"
        machines = whole % (micro * steps * processes) == 0 and launch.program == "deepspeed"
        if machines:  # a hostfile in its default place would add machines
            message += f"; it takes {whole // (micro * steps)} GPUs"
        severity: Severity | None = "warn" if machines else None
        fix = f"train_batch_size={micro * steps * processes}, or omit it."
        yield Match(made.span, f"{message}: initialize() raises", severity, fix=fix)
        return


def _processes(launch: Launch) -> int | None:
    """What deepspeed or torchrun starts, on one machine; None where the line does not say."""
    if flag(launch, "hostfile", "include", "exclude"):
        return None
    machines = flag(launch, "num_nodes", "nnodes")
    if launch.program not in ("deepspeed", "torchrun") or machines not in (None, "1"):
        return None
    return number(flag(launch, "num_gpus", "nproc_per_node"))


def _settings(reading: Training, made: Call) -> Value | None:
    value = made.keywords.get("config") or made.keywords.get("config_params")
    found = evaluate.options(reading, value, made)
    return found[0] if len(found) == 1 and found[0].kind == "dict" else None


def _halves(reading: Training, made: Call, settings: Value) -> Iterator[Match]:
    """fp16 and bf16 are both enabled."""
    on = []
    for key in ("fp16", "bf16"):
        part = evaluate.entry(reading, settings, key)
        switch = evaluate.entry(reading, part, "enabled") if part is not None else None
        on.append(switch is not None and switch.literal is True)
    if all(on):
        message = "fp16 and bf16 are both enabled: initialize() raises"
        yield Match(made.span, message, fix="Enable one of fp16 and bf16.")


def _accumulates(reading: Training, made: Call, settings: Value | None) -> bool:
    """gradient_accumulation_steps is set here, and not to 1."""
    value = evaluate.entry(reading, settings, "gradient_accumulation_steps") if settings else None
    if value is None:
        beside = [s.value for s in reading.script.settings if s.key.endswith(ACCUMULATION)]
        return settings is None and len(beside) == 1 and beside[0] != 1
    found = evaluate.literals(reading, value, made)
    return 1 not in found and bool(found)


def _scheduler_steps(reading: Training, made: Call) -> Iterator[Match]:
    """scheduler.step() beside engine.step() of an engine that got the scheduler."""
    given = evaluate.argument(reading, made, "lr_scheduler", 6)
    names = {made.targets[3]} if len(made.targets) == 4 and made.targets[3] != "_" else set()
    if given is None or given.kind != "name":
        return
    names.add(given.name)
    loops = {c.loops for c in reading.named("step") if c.receiver == made.targets[0]}
    for call in reading.named("step"):
        if call.receiver in names and call.loops and call.loops in loops:
            message = f"{made.targets[0]}.step() steps {call.receiver}, too: it decays too fast"
            yield Match(call.span, message, fix=f"Omit {call.receiver}.step().")


def _divided(reading: Training, call: Call) -> Iterator[Match]:
    """loss / accumulation before engine.backward(loss), which divides itself."""
    text = expanded(reading, call.args[0], call, 1)
    if re.search(r"/[\w.\[\]']*(?:accum\w*|grad_acc\w*|ga_steps)", text, re.IGNORECASE):
        message = "the loss is divided twice: the engine's backward() does it"
        yield Match(call.span, message, fix="Pass the loss undivided.")


RULES = (
    Rule(
        code="SCR393",
        slug="engine-counts-itself",
        title="A DeepSpeed engine accumulates, and the loop does not",
        severity="fail",
        find=engines,
        why="The engine divides the loss, and its step() acts in each Nth micro batch only. A loop "
        "that does the same divides twice, or steps N times too rarely.",
        fires=(
            "engine.step() under a test of the remainder, beside gradient_accumulation_steps, "
            "also of the JSON file that the script names",
            "loss / accumulation before engine.backward(loss)",
            "scheduler.step() beside engine.step(), where initialize() got the scheduler",
            "train_batch_size of the JSON file of a launch beside the script, which is not micro "
            "batch * accumulation * GPUs of that launch",
            "fp16 and bf16 both enabled in the dictionary of settings",
        ),
        fix="Call engine.backward(loss) and engine.step() for every micro batch; enable one of "
        "fp16 and bf16.",
        sources=("deepspeed-config",),
        needs=("deepspeed",),
    ),
)
