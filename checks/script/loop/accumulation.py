"""The rule on gradient accumulation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import amp, evaluate
from doctor.checks.script.loop.steps import steps_in_loops
from doctor.checks.script.loop.zeroed import stepped, zeroes
from doctor.checks.script.reading import exclusive, flatten, within
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

EVERY = re.compile(r"%\s*\(?\s*([\w.]+)")

ACCUMULATES = re.compile("accum|micro|ga_steps|grad_")
SWITCH = re.compile(r"[\w.]*(?:clip|norm)\w*(?: (?:>|!=|is not) (?:0|0\.0|None))?")
"""The whole test of what only turns clipping on."""

AFTER_LOOP = (
    "Move zero_grad() directly behind step(); or move step() into the loop, if each batch is to "
    "be a step."
)


def not_divided(reading: Training) -> Iterator[Match]:
    for number, _, before in steps_in_loops(reading):
        step = reading.calls[number]
        if not before:
            continue
        backward = reading.calls[before[-1]]
        every = _every(reading, step, backward) or _inner(reading, step, backward)
        if not every or not reading.loss_name(backward):
            continue
        if 1 in evaluate.literals(reading, Value("name", name=every), backward) and _inner(
            reading, step, backward
        ):
            continue
        if (
            _divides(reading, every)
            or _scales_gradients(reading, before[-1], number)
            or not _own_loss(reading, backward)
        ):
            continue
        scale = amp.scale_of(reading, backward, before[-1])
        fix = ""
        if scale is not None:
            scaler, loss = reading.calls[scale], reading.loss_name(backward)
            fix = f"Call {scaler.name}({loss} / {every}).backward()."
        message = f"gradients of {every} batches are summed, and not divided"
        yield Match(backward.span, message, fix=fix)


def _every(reading: Training, step: Call, backward: Call) -> str:
    """N of `if (i + 1) % N == 0: step()` around the step alone."""
    inner = [branch for branch, _ in step.arms if branch not in {b for b, _ in backward.arms}]
    for branch in inner:
        test = reading.written_test(branch, step.scope)
        match = EVERY.search(test.text) if test is not None else None
        if match and match[1] not in ("0", "1"):
            return match[1]
    return ""


def _inner(reading: Training, step: Call, backward: Call) -> str:
    """N of `for _ in range(N)` around the backward() alone, once per step of a loop."""
    if backward.loops[:-1] != step.loops or not within(backward.arms, step.arms):
        return ""
    iterable = reading.iterable_of(backward)
    call = reading.call_of(iterable)
    if call is None or call.name != "range" or len(call.args) != 1 or call.args[0].kind != "name":
        return ""
    name = call.args[0].name
    return name if ACCUMULATES.search(name.casefold()) else ""


def _divides(reading: Training, every: str) -> bool:
    """The number, or what it is made of, divides or scales something in the file."""
    name = every.rpartition(".")[2]
    sums = any(
        key in ("reduction", "size_average") and value.literal not in ("none", "mean", "batchmean")
        for call in reading.calls
        for key, value in call.keywords.items()
    )
    if sums or reading.mentions("gradient_scale", "loss_scale"):
        return True
    if any(
        _is_number(each, name)
        for value in _values(reading)
        if value.kind == "other" and value.name in ("Div", "Mult")
        for each in value.items
    ):
        return True
    return any(each.augmented and _is_number(each.value, name) for each in reading.assignments)


def _scales_gradients(reading: Training, backward: int, step: int) -> bool:
    """Between them something is called that may divide the gradients."""
    return any(
        "grad" in reading.calls[n].name.casefold()
        and not amp.is_clip(reading.calls[n])
        and reading.calls[n].method != "zero_grad"
        for n in range(backward + 1, step)
    )


def _is_number(value: Value, name: str) -> bool:
    if value.kind == "literal":
        return str(value.literal) == name
    return any(each.rpartition(".")[2] == name for each in value.all_names)


def _values(reading: Training) -> Iterator[Value]:
    yield from flatten(each.value for each in reading.assignments)
    for call in reading.calls:
        yield from flatten(call.values)
    for function in reading.script.functions:
        yield from flatten(function.returns)


def _own_loss(reading: Training, backward: Call) -> bool:
    """The loss is computed in this function, by something that does not know of the number."""
    name = reading.loss_name(backward)
    found = evaluate.definitions_at(reading, name, backward)
    return bool(found) and all(each.scope == backward.scope for each in found)


def zeroed_between(reading: Training) -> Iterator[Match]:
    """zero_grad() before every backward() of an optimizer that steps more seldom."""
    zeros = reading.methods("zero_grad")
    for number, name, before in _seldom_steps(reading) if zeros else ():
        step = reading.calls[number]
        for zero in zeros:
            call, backward = reading.calls[zero], reading.calls[before[-1]]
            same = (call.scope, call.loops) == (backward.scope, backward.loops)
            if zero > before[-1] or not same or not within(backward.arms, call.arms):
                continue
            if _keeps_gradients(reading, step, backward):
                break
            if zeroes(reading, call, name, step):
                seldom = "in some" if step.loops else "once after them"
                message = f"{call.receiver}.zero_grad() in every batch, and {name}.step() {seldom}"
                yield Match(call.span, message, fix="" if step.loops else AFTER_LOOP)
                break
    yield from _in_accumulate(reading, zeros)


def _seldom_steps(reading: Training) -> Iterator[tuple[int, str, list[int]]]:
    """Steps after an inner loop of backward calls, or in every Nth iteration of theirs."""
    for number, name, before in (*steps_in_loops(reading), *_steps_after_loops(reading)):
        if not before:
            continue
        step, backward = reading.calls[number], reading.calls[before[-1]]
        if _every(reading, step, backward) or len(step.loops) < len(backward.loops):
            yield number, name, before


def _steps_after_loops(reading: Training) -> Iterator[tuple[int, str, list[int]]]:
    """The only step of a function that is called in a loop, and the backward calls above it."""
    for number, step in reading.numbered(reading.methods("step")):
        name = "" if step.loops or not step.scope else stepped(reading, step)
        if not name or not any(c.loops for c in reading.named(reading.function(step.scope).name)):
            continue
        others = [c for c in reading.named("step") if c.scope == step.scope and c is not step]
        before = [
            n
            for n in reading.backwards
            if n < number
            and reading.calls[n].scope == step.scope
            and not exclusive(reading.calls[n].arms, step.arms)
        ]
        if not others:
            yield number, name, before


READS = re.compile(
    r"\.grad\b|(?<![a-z])(?:grads|gradients)(?![a-z_])|(?:get|flat|save|store|collect|copy)\w*_grad"
)
"""What reads gradients, by its name: no limit of a clip and no number of batches."""


def _keeps_gradients(reading: Training, step: Call, backward: Call) -> bool:
    """The loop of backward() reads gradients, as to project those of several tasks; or it is left
    before its end, as where an attempt is repeated; or a function of the file, or another method
    of the optimizer, may do either."""
    loop = backward.loops[-1]
    places = [each for each in reading.stores if loop in each.loops]
    calls = [reading.calls[n] for n in reading.by_loop[loop]]
    names = [name for each in places for name in (each.target, *each.value.all_names)]
    names += [name for call in calls for v in call.values for name in v.all_names]
    names += [call.name for call in calls]
    if any(READS.search(name.casefold()) for name in names):
        return True
    if len(step.loops) >= len(backward.loops):
        return False
    exits = reading.function(backward.scope).exit_loops
    left = any(each.name == "break" and loop in each.loops for each in reading.script.bare)
    after = [c for c in calls if reading.number(c) > reading.number(backward)]
    own = any(
        (c.receiver in ("self", step.receiver) and c.method != "zero_grad")
        or reading.target_function(c) is not None
        for c in after
    )
    return left or own or any(loop in loops for loops in exits)


def _in_accumulate(reading: Training, zeros: list[int]) -> Iterator[Match]:
    """zero_grad() before backward() under accelerator.accumulate(model)."""
    for zero, call in reading.numbered(zeros):
        if not any(_is_accumulate(reading, value) for value in reading.contexts(call)):
            continue
        later = [n for n in reading.backwards if n > zero and reading.calls[n].scope == call.scope]
        steps = [n for n in reading.methods("step") if reading.calls[n].receiver == call.receiver]
        if not later or not any(
            n > later[0] and reading.calls[n].scope == call.scope for n in steps
        ):
            continue
        if not set(reading.calls[later[0]].contexts) & set(call.contexts):
            continue
        message = "zero_grad() before backward() discards what accumulate() gathered"
        counts = _accumulation_steps(reading)
        if all(isinstance(n, int) and n > 1 for n in counts) and counts:
            yield Match(call.span, message)
        elif counts != {1}:
            yield Match(call.span, message, undecided="the number of batches is decided elsewhere")


def _is_accumulate(reading: Training, value: Value) -> bool:
    return value.kind == "call" and reading.calls[value.call].method == "accumulate"


def _accumulation_steps(reading: Training) -> set[object]:
    found: set[object] = set()
    for call in reading.named("Accelerator"):
        value = call.keywords.get("gradient_accumulation_steps")
        found |= evaluate.literals(reading, value, call) if value is not None else {1}
    return found


def clipped_between(reading: Training) -> Iterator[Match]:
    """A clip after every backward() of an optimizer that steps more seldom."""
    clips = reading.methods(*amp.CLIPS)
    for number, _, before in _seldom_steps(reading) if clips else ():
        backward = reading.calls[before[-1]]
        for n, clip in reading.numbered(clips):
            same = (clip.scope, clip.loops) == (backward.scope, backward.loops)
            if not amp.is_clip(clip) or not before[-1] < n < number:
                continue
            if same and _keeps_gradients(reading, reading.calls[number], backward):
                break
            if same and _as_often(reading, clip, backward):
                yield Match(clip.span, f"{clip.method}() in every batch, and step() in some")
                break
    yield from _clipped_in_accumulate(reading, clips)


def _as_often(reading: Training, clip: Call, backward: Call) -> bool:
    """At most a switch for clipping is between them: if args.clip > 0."""
    tests = [reading.test_of(b) for b, _ in set(clip.arms) - set(backward.arms)]
    return all(test is not None and SWITCH.fullmatch(test.text) is not None for test in tests)


def _clipped_in_accumulate(reading: Training, clips: list[int]) -> Iterator[Match]:
    """A clip after backward() under accelerator.accumulate(model), whether it syncs or not."""
    counts = _accumulation_steps(reading) if clips else set()
    if not counts - {1} or reading.mentions("sync_gradients"):
        return
    for number, clip in reading.numbered(clips):
        if not any(_is_accumulate(reading, value) for value in reading.contexts(clip)):
            continue
        before = [reading.calls[n] for n in reading.backwards if n < number]
        if any(
            set(each.contexts) & set(clip.contexts) and within(each.arms, clip.arms)
            for each in before
        ):
            known = all(isinstance(count, int) for count in counts)
            undecided = "" if known else "the number of batches is decided elsewhere"
            message = f"{clip.method}() in every batch that accumulate() gathers"
            yield Match(clip.span, message, undecided=undecided)


RULES = (
    Rule(
        code="SCR209",
        slug="accumulation-not-divided",
        title="An accumulated loss is divided by the number of batches",
        severity="warn",
        find=not_divided,
        why="backward() adds. The sum over N batches is N times the gradient of one: with SGD the "
        "learning rate is N times larger than it says, and a clip cuts nearly every step.",
        fires=("step() in every Nth batch, and nothing in the file divides by N",),
        fix="Call (loss / N).backward().",
        sources=("torch-amp-examples",),
    ),
    Rule(
        code="SCR225",
        slug="zeroed-while-accumulating",
        title="Accumulated gradients are zeroed after the step only",
        severity="fail",
        find=zeroed_between,
        why="zero_grad() before each backward() leaves the gradient of the last batch: the others "
        "are computed and thrown away.",
        fires=(
            "zero_grad() in every batch, and step() in every Nth, or after an inner loop",
            "zero_grad() before backward() under accelerator.accumulate(), more than one batch",
        ),
        fix="Move zero_grad() directly behind step().",
        needs=("zero_grad",),
        sources=("torch-amp-examples", "accelerate-1299"),
    ),
    Rule(
        code="SCR226",
        slug="clipped-while-accumulating",
        title="Accumulated gradients are clipped once per step",
        severity="warn",
        find=clipped_between,
        why="A clip in every batch also shrinks what the batches before it left in the gradients: "
        "early batches count less than late ones, and the step's gradient has another direction.",
        fires=(
            "a clip in every batch, and step() in every Nth, or after an inner loop",
            "a clip under accelerator.accumulate() without a test of sync_gradients",
        ),
        fix="Clip directly before step(): under the same condition, with accelerate under "
        "`if accelerator.sync_gradients`.",
        needs=("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"),
        sources=("transformers-1563", "transformers-986", "accelerate-641"),
    ),
)
