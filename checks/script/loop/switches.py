"""Rules on global switches of torch and on a clip's norm."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp, evaluate
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

TINY_NORM = 0.001
"""Norms of gradients to clip to are 0.1 to 10; so small a number is a slip. Our own number."""


def anomaly_detection(reading: Training) -> Iterator[Match]:
    name = reading.script.path.rpartition("/")[2]
    if name.startswith("test_") or name.endswith("_test.py"):
        return
    for number, call in reading.numbered(reading.methods("set_detect_anomaly", "detect_anomaly")):
        if not call.name.startswith("torch.") or reading.is_conditional(call):
            continue
        position = 0 if call.method == "set_detect_anomaly" else None
        value = evaluate.argument(reading, call, "mode", position)
        on = True if value is None else evaluate.truth(reading, value, call)
        if value is not None and value.kind not in ("literal",):
            continue
        if on and not reading.is_evaluation(call) and not _switched_off(reading, number):
            yield Match(call.span, "anomaly detection stays on for the whole training")
    for call in reading.named("Trainer"):
        value = call.keywords.get("detect_anomaly")
        if value is not None and value.literal is True and not reading.is_flagged(call):
            yield Match(call.span, "anomaly detection stays on for the whole training")


def _switched_off(reading: Training, number: int) -> bool:
    """A later call turns it off again."""
    return any(
        n > number and reading.calls[n].args and reading.calls[n].args[0].literal is False
        for n in reading.methods("set_detect_anomaly")
    )


LEGACY_TF32 = ("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cudnn.allow_tf32")


def tf32_mixed(reading: Training) -> Iterator[Match]:
    new = [
        a
        for a in reading.assignments
        if a.target.startswith("torch.backends.") and a.target.endswith("fp32_precision")
    ]
    old = [a for a in reading.assignments if a.target in LEGACY_TF32]
    for each in old:
        if any(not exclusive(each.arms, other.arms) for other in new):
            yield Match(each.span, "allow_tf32 and fp32_precision are mixed in one program")


def no_op_switch(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(
        reading.methods("enable_mem_efficient_sdp", "enable_flash_sdp", "enable_math_sdp")
    ):
        others = [n for n in reading.methods(call.method) if n != number]
        value = evaluate.argument(reading, call, "enabled", 0)
        on = value is not None and value.literal is True
        if call.name.startswith("torch.backends.cuda") and on and not others:
            yield Match(call.span, f"{call.method}(True) changes nothing: it is on by default")


def clip_norm(reading: Training) -> Iterator[Match]:
    for call in reading.named("clip_grad_norm_", "clip_grad_norm"):
        of_an_object = bool(call.receiver) and len(call.args) == 1
        position = 0 if of_an_object else 1
        if of_an_object and call.args[0].literal == 0:
            continue  # in several libraries: no clipping
        yield from _absurd(reading, call, evaluate.argument(reading, call, "max_norm", position))
    for number in reading.arguments:
        call = reading.calls[number]
        value = evaluate.argument(reading, call, "max_grad_norm")
        if value is not None and value.literal != 0:
            yield from _absurd(reading, call, value)


def _absurd(reading: Training, call: Call, value: Value | None) -> Iterator[Match]:
    numbers = evaluate.literals(reading, value, call)
    if len(numbers) == 1:
        number = numbers.pop()
        if isinstance(number, int | float) and not isinstance(number, bool) and number < TINY_NORM:
            yield Match(call.span, f"max_norm is {number:g}: every step shrinks to almost nothing")


DETERMINISTIC = ("use_deterministic_algorithms",)


def benchmark_beside_deterministic(reading: Training) -> Iterator[Match]:
    switches = {
        a.target: a for a in reading.assignments if a.target.startswith("torch.backends.cudnn.")
    }
    benchmark = switches.get("torch.backends.cudnn.benchmark")
    deterministic = switches.get("torch.backends.cudnn.deterministic")
    if benchmark is None or benchmark.value.literal is not True or reading.is_flagged(benchmark):
        return
    if _is_on(reading, deterministic, benchmark) or _algorithms(reading):
        yield Match(benchmark.span, "cudnn.benchmark=True beside deterministic settings")


def _is_on(reading: Training, one: Assignment | None, other: Assignment) -> bool:
    return (
        one is not None
        and one.value.literal is True
        and not reading.is_flagged(one)
        and one.scope == other.scope
    )


def _algorithms(reading: Training) -> bool:
    return any(
        call.args and call.args[0].literal is True and not reading.is_flagged(call)
        for call in reading.named(*DETERMINISTIC)
    )


def dataparallel_autocast(reading: Training) -> Iterator[Match]:
    wraps = [
        n for n in reading.methods("DataParallel") if reading.calls[n].name.startswith("torch.")
    ]
    if not wraps:
        return
    for number, call in reading.numbered(amp.autocasts(reading)):
        if reading.is_evaluation(call) or "bf16" not in amp.autocast_dtypes(reading, call):
            continue
        if call.contexts or not any(c.value.call == number for c in reading.script.contexts):
            continue
        if amp.autocast_dtypes(reading, call) == {"bf16"}:
            message = "DataParallel's threads enter autocast in its default dtype, fp16"
            yield Match(call.span, message)
            return


RULES = (
    Rule(
        code="SCR144",
        slug="anomaly-detection-left-on",
        title="Anomaly detection is off while training",
        severity="warn",
        find=anomaly_detection,
        training=True,
        why="Anomaly mode checks every backward operation for NaN and records tracebacks. It is "
        "for finding one fault, and slows down every step.",
        fires=("set_detect_anomaly(True) or detect_anomaly() without a flag",),
        fix="Remove it, or let a --debug flag decide.",
        sources=("ps-P9",),
    ),
    Rule(
        code="SCR145",
        slug="tf32-mixed-api",
        title="TF32 is set through one interface",
        severity="warn",
        find=tf32_mixed,
        training=True,
        why="Since torch 2.9, reading allow_tf32 after fp32_precision was set raises RuntimeError, "
        "also inside torch.",
        fires=("allow_tf32 and fp32_precision are both set in one file",),
        fix="Set fp32_precision only, or set_float32_matmul_precision only.",
        sources=("ps-P2",),
    ),
    Rule(
        code="SCR146",
        slug="no-op-switch",
        title="Switches change something",
        severity="note",
        find=no_op_switch,
        training=True,
        why="Flash, memory-efficient and math attention are on by default.",
        fires=("enable_mem_efficient_sdp(True) and the like without a call that turns it off",),
        fix="Remove the call.",
        sources=("bts-fix3",),
    ),
    Rule(
        code="SCR147",
        slug="clip-norm-absurd",
        title="The clip norm leaves steps their size",
        severity="warn",
        find=clip_norm,
        training=True,
        why="Usual norms are 0.5 to 1. Below 0.001 every step is shrunk by orders of magnitude.",
        fires=("a literal max_norm below 0.001",),
        fix="Set max_norm to 1.0.",
        sources=("ps-P13",),
    ),
    Rule(
        code="SCR148",
        slug="benchmark-beside-deterministic",
        title="cudnn.benchmark is off where results must repeat",
        severity="warn",
        find=benchmark_beside_deterministic,
        training=True,
        why="cudnn.benchmark picks the fastest algorithm anew in every run; runs then differ.",
        fires=("cudnn.benchmark=True beside cudnn.deterministic=True in one function",),
        fix="Set torch.backends.cudnn.benchmark = False.",
        sources=("ps-P19",),
    ),
    Rule(
        code="SCR149",
        slug="dataparallel-autocast",
        title="bf16 autocast reaches the threads of DataParallel",
        severity="warn",
        find=dataparallel_autocast,
        training=True,
        why="torch.nn.DataParallel enters autocast again in each thread with the default dtype: "
        "under bf16 autocast the replicas compute in fp16, without a GradScaler.",
        fires=("torch.nn.DataParallel and bf16 autocast in one training file",),
        fix="Use DistributedDataParallel, or put autocast inside forward.",
        sources=("ps-P4",),
    ),
)
