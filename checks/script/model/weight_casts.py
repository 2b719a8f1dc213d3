"""The rule on casts of weights that train."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.casts import CASTS, HALVES, cast_dtype, casts_of
from doctor.checks.script.lineage import Lineage, modules_of
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.trainable import trained_whole
from doctor.checks.script.training import Trained, Training
from doctor.facts.script import Assignment, Call

LAYERS = {
    f"torch.nn.{name}"
    for name in ("Embedding", "Linear", "ModuleDict", "ModuleList", "Sequential", "LayerNorm")
}


def low_precision_cast(reading: Training) -> Iterator[Match]:
    if reading.has_master_weights:
        return
    for trained in trained_whole(reading):
        for number, call in reading.numbered(casts_of(reading, trained)):
            if reading.is_evaluation(call) or not before_training(reading, number, trained):
                continue
            dtypes = cast_dtype(reading, call)
            if not dtypes & HALVES or cast_back(reading, trained.lineage, number):
                continue
            name = call.receiver or "the model"
            shown = " or ".join(sorted(dtypes & HALVES))
            message = f"{name} is cast to {shown} and trains in it"
            if dtypes <= HALVES:
                severity: Severity = "fail" if dtypes == {"fp16"} else "warn"
                yield Match(call.span, message, severity)
            else:
                yield Match(call.span, message, undecided="a flag decides the dtype")
    yield from _part_casts(reading)
    yield from _default_dtype(reading)


def _default_dtype(reading: Training) -> Iterator[Match]:
    """Modules that are made after torch.set_default_dtype(torch.bfloat16)."""
    calls = [
        n for n in reading.methods("set_default_dtype") if reading.calls[n].name[:6] == "torch."
    ]
    if len(calls) != 1 or not reading.optimizers:
        return
    call = reading.calls[calls[0]]
    value = call.first
    dtypes = evaluate.dtypes(reading, value, call) if value is not None else set()
    makes = any(n > calls[0] for each in trained_whole(reading) for n in each.lineage.calls)
    if dtypes and dtypes <= HALVES and makes and not call.arms and not call.scope:
        message = f"all weights are made in {' or '.join(sorted(dtypes))} and train in it"
        yield Match(call.span, message, "fail" if dtypes == {"fp16"} else "warn")


def _part_casts(reading: Training) -> Iterator[Match]:
    """Layers that a module of this file makes and casts: self.embed.to(torch.bfloat16)."""
    modules = modules_of(reading)
    for number, call in reading.numbered(reading.methods(*CASTS)):
        if reading.function(call.scope).owner not in modules or reading.is_named_evaluation(call):
            continue
        dtypes = cast_dtype(reading, call)
        if not dtypes or not dtypes <= HALVES or not _casts_layer(reading, call):
            continue
        if cast_back(reading, Lineage(), number) or reading.freezes:
            continue
        name = call.receiver or "a layer"
        message = f"{name} is cast to {' or '.join(sorted(dtypes))} and trains in it"
        yield Match(call.span, message, "fail" if dtypes == {"fp16"} else "warn")


def _casts_layer(reading: Training, call: Call) -> bool:
    """A layer of torch.nn, made in place, held by self, or one of several that self holds."""
    if call.receiver_call >= 0:
        made = reading.calls[call.receiver_call]
        return made.name in LAYERS and any(each.startswith("self.") for each in call.targets)
    if not call.statement:
        return False
    names = [call.receiver]
    for loop in call.loops:
        if reading.loops[loop].target == call.receiver:
            iterable = reading.loops[loop].iterable
            names += [other.receiver for other in reading.inside(iterable)] if iterable else []
    return any(_is_layer(reading, name, call.scope) for name in names)


def _is_layer(reading: Training, name: str, scope: int) -> bool:
    """self.x, or a part of it, where self.x = torch.nn.Linear(...)."""
    parts = name.split(".")
    if len(parts) < 2 or parts[0] != "self":
        return False
    return any(
        each.value.kind == "call" and reading.calls[each.value.call].name in LAYERS
        for each in reading.assigned_to(".".join(parts[:2]), scope)
    )


def before_training(reading: Training, number: int, trained: Trained) -> bool:
    """Casts after the last backward or in other functions are for saving or evaluation."""
    call, sink = reading.calls[number], reading.calls[trained.sink]
    if number in trained.lineage.calls or call.scope != sink.scope:
        return True
    last = max(reading.backwards, default=trained.sink)
    runs = [n for n in reading.methods("train") if reading.calls[n].scope == sink.scope]
    return number < max([last, trained.sink, *runs[:1]])


def cast_back(reading: Training, lineage: Lineage, number: int) -> bool:
    later = {*reading.on_object(lineage, "float", "to"), *lineage.calls}
    later |= {n for n in reading.methods("float", "to") if reading.calls[n].receiver_call == number}
    if any(n > number and "fp32" in cast_dtype(reading, reading.calls[n]) for n in later):
        return True
    return any(each.position > number for each in _parameters_in_fp32(reading, lineage))


def _parameters_in_fp32(reading: Training, lineage: Lineage) -> Iterator[Assignment]:
    """param.data = param.data.float() for the parameters of the object."""
    for each in reading.assignments:
        if not each.target.endswith(".data") or each.value.kind != "call" or not each.loops:
            continue
        iterable = reading.iterable_of(each)
        if iterable is None or "fp32" not in cast_dtype(reading, reading.calls[each.value.call]):
            continue
        owners = [call for call in reading.inside(iterable)]
        if any(
            "parameters" in owner.method
            and reading.key(owner.receiver, owner.scope) in lineage.names
            for owner in owners
        ):
            yield each


RULES = (
    Rule(
        code="SCR113",
        slug="trainable-low-precision-cast",
        title="Weights that train are not cast to half precision",
        severity="warn",
        find=low_precision_cast,
        training=True,
        why="half() and to(bfloat16) convert the weights that the optimizer updates. bf16 loses "
        "updates below half a step of its 8 bits; fp16 gradients underflow, and a GradScaler "
        "refuses them.",
        fires=("a cast to bf16 of the object whose parameters reach the optimizer",),
        errors=("the same cast to fp16",),
        fix="Keep the weights in fp32 and use torch.autocast.",
        sources=("ps-P4", "bts-fix2", "fnr-root"),
    ),
)
