"""Rules on what DDP's processes exchange by hand: features, and when gradients are averaged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import lines_in, render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

GATHERS = {"all_gather", "all_gather_into_tensor"}
SAFE = re.compile(r"torch\.distributed\.nn\.")
MODULO = re.compile(
    r"\(?(?P<left>\(?\s*(?P<name>[\w.]+)\s*(?:\+\s*(?P<plus>\d+)\s*)?\)?)\s*%\s*(?P<by>[\w.]+)"
    r"\s*(?P<operator>==|!=)\s*(?P<value>\w+(?:\s*-\s*1)?)\)?"
)


def gathered(reading: Training) -> Iterator[Match]:
    """A contrastive loss of features that dist.all_gather copied."""
    if not reading.backwards or any(word in reading.functions_by_name for word in ("backward",)):
        return
    for call in reading.named(*GATHERS):
        if SAFE.match(call.name) or (
            "distributed" not in call.name and "dist" not in call.receiver
        ):
            continue
        if reading.is_evaluation(call) or len(call.args) < 2 or call.contexts:
            continue
        held = call.args[0].name
        if not held or _own_put_back(reading, call, held):
            continue
        if _reaches_loss(reading, call, held):
            message = (
                f"{held} has no gradient: all_gather copies values, and no network learns of them"
            )
            yield Match(call.span, message)


def _own_put_back(reading: Training, call: Call, held: str) -> bool:
    """gathered[rank] = features."""
    targets = [a.target for a in reading.stores
               if a.scope == call.scope]  # fmt: skip
    joined = texts_in(reading, call.scope)
    given = call.args[1].name
    return any(t.startswith(f"{held}[") for t in targets) or any(
        re.search(rf"cat\(\(?\(?{re.escape(given)}\b", t) and given != held for t in joined if given
    ) or any("[:rank]" in t or "+1):]" in t for t in joined)  # fmt: skip


def _reaches_loss(reading: Training, call: Call, held: str) -> bool:
    """It is joined, and what comes of it is compared in a product or a loss that goes backward."""
    scope = call.scope
    joined = {
        line.target
        for line in lines_in(reading, scope)
        if re.search(rf"(?:cat|stack|concat)\(\(?{re.escape(held)}\b", line.text)
    }
    returned = any(
        re.search(rf"(?:cat|stack|concat)\(\(?{re.escape(held)}\b", render(reading, v))
        or v.name in joined
        for v in reading.function(scope).returns
    )
    if returned and scope:
        sites = reading.callers(scope)
        sites = [c for c in sites if not reading.is_evaluation(c)]
        return any(
            _compared(reading, c.scope, _held(reading, c)) or _inside_product(reading, c)
            for c in sites
        )
    return _compared(reading, scope, joined | {held})


def _held(reading: Training, call: Call) -> set[str]:
    """The names that its result is assigned to."""
    number = reading.number(call)
    return {a.target for a in reading.assignments if a.value.call == number}


def _compared(reading: Training, scope: int, names: set[str]) -> bool:
    """logits = features @ gathered.t(), and a cross entropy in the same function."""
    found = set(names)
    for line in lines_in(reading, scope):
        text = line.text
        product = re.search(r"@|matmul\(|mm\(|einsum\(|cosine_similarity\(", text)
        named = any(re.search(rf"(?<![\w.]){re.escape(n)}(?![\w])", text) for n in names if n)
        if product and named:
            found |= {line.target, "@"}
    here = any(reading.calls[n].scope == scope for n, _ in loss_calls(reading))
    stepped = any(reading.calls[n].scope == scope for n in reading.backwards)
    return "@" in found and (here or stepped)


def _inside_product(reading: Training, call: Call) -> bool:
    """gather(a) @ gather(b).t()."""
    number = reading.number(call)
    return any(
        a.scope == call.scope and number in a.value.calls and "MatMult" in _names(a.value)
        for a in reading.assignments
    )


def _names(value: Value) -> set[str]:
    return {value.name} | {n for each in value.items for n in _names(each)}


def synced(reading: Training) -> Iterator[Match]:
    yield from _other_batch(reading)
    yield from _forward_outside(reading)
    for each in reading.assignments:
        text = each.value.text.strip("() ") if each.value.kind == "test" else ""
        first = re.fullmatch(r"(\w+) == 0", text)
        over = reading.loop_of(each)
        switch = each.target.endswith(".require_backward_grad_sync")
        if first and switch and over is not None and first[1] in over.targets:
            message = "gradients are averaged in the first batch: those of the others are not"
            yield Match(each.span, message)


def _test_of(reading: Training, arms: tuple[tuple[int, int], ...]) -> tuple[str, bool]:
    """The text of the innermost condition, without a `not` in front, and whether it holds."""
    for branch, arm in reversed(arms):
        test = reading.test_of(branch)
        if reading.branches[branch].kind == "if" and test is not None:
            return (test.text or test.name).removeprefix("not "), arm == 0
    return "", True


def _last(reading: Training, text: str, holds: bool, scope: int) -> tuple[str, str, str] | None:
    """(name, divisor, remainder) in which a condition on a counter holds or fails; `!` in front
    where it is the failing of it.
    """
    text = text.strip()
    if text.startswith("not "):
        rest = text[4:].strip()
        inner = rest[1:-1] if rest.startswith("(") and rest.endswith(")") else rest
        return _last(reading, inner, not holds, scope)
    if text.isidentifier():
        found = [a for a in reading.assignments if a.target == text and a.scope == scope]
        if len(found) != 1 or found[0].value.kind != "test":
            return None
        return _last(reading, found[0].value.text, holds, scope)
    found_modulo = MODULO.fullmatch(text)
    if found_modulo is None:
        return None
    plus = int(found_modulo["plus"] or 0)
    value = found_modulo["value"].replace(" ", "")
    by = found_modulo["by"]
    if value.isdigit():
        rest = f"{int(value) - plus}"
    elif value == f"{by}-1":
        rest = f"{-1 - plus}"
    else:
        return None
    equal = (found_modulo["operator"] == "==") == holds
    return found_modulo["name"], by, rest if equal else f"!{rest}"


def _other_batch(reading: Training) -> Iterator[Match]:
    """no_sync() in the batch before the step: gradients of the others are averaged."""
    steps = [
        other for other in reading.named("step") if other.loops and "sched" not in other.receiver
    ]
    for call in reading.named("no_sync"):
        text, holds = _test_of(reading, call.arms)
        local = _last(reading, text, holds, call.scope) if text else None
        if local is None:
            continue
        for step in steps:
            if step.scope != call.scope:
                continue
            own, does = _test_of(reading, step.arms)
            stepped = _last(reading, own, does, step.scope) if own else None
            if stepped is None or stepped[:2] != local[:2] or "!" in stepped[2]:
                continue
            quiet = local[2] == stepped[2] if "!" not in local[2] else local[2] != f"!{stepped[2]}"
            if quiet:
                message = (
                    "no_sync() holds in the batch of the step: processes step on "
                    "gradients of their own"
                )
                yield Match(call.span, message, "fail")
                return


def _forward_outside(reading: Training) -> Iterator[Match]:
    """with model.no_sync(): loss.backward(), and the forward pass before it."""
    quiet = {
        number: made
        for number, context in enumerate(reading.script.contexts)
        for option in (context.value, *context.value.items)
        if (made := reading.call_of(option)) is not None and made.method == "no_sync"
    }
    if reading.mentions("fullysharded", "fsdp"):  # its no_sync() is read in the backward pass
        return
    for number, made in quiet.items():
        if not made.receiver:
            continue
        inside = [c for c in reading.calls if number in c.contexts]
        wrapped = made.receiver
        backward = any(c.method == "backward" for c in inside)
        forward = any(c.name == wrapped or c.receiver == wrapped for c in inside)
        others = any(
            c.name not in ("print",) and c.method not in ("backward", "scale", "div", "item")
            for c in inside
        )
        ran = [
            c
            for c in reading.calls
            if c.name == wrapped and c.scope == made.scope and c.loops == made.loops
            and quiet.keys().isdisjoint(c.contexts)
        ]  # fmt: skip
        if backward and not forward and not others and ran:
            message = f"{wrapped}() runs before no_sync(): gradients are averaged all the same"
            yield Match(made.span, message, "warn")


RULES = (
    Rule(
        code="SCR401",
        slug="gathered-without-gradient",
        title="Features that a loss compares across processes have gradients",
        severity="fail",
        find=gathered,
        why="torch.distributed.all_gather writes values into new tensors. A loss of them alone has "
        "no gradient for the networks that made the features.",
        fires=("a contrastive loss of features that all_gather returned, the own ones included",),
        fix="gathered[rank] = features, or torch.distributed.nn.functional.all_gather(features).",
        sources=("slip-31",),
        needs=("all_gather", "all_gather_into_tensor"),
    ),
    Rule(
        code="SCR402",
        slug="no-sync-in-wrong-batch",
        title="Gradients are averaged in the batch before the step",
        severity="fail",
        find=synced,
        why="DDP averages gradients in the backward pass outside of no_sync(). Where this is "
        "another batch than that of the step, processes step apart and their weights differ.",
        fires=(
            "no_sync() unless i % n == 0, and a step at (i + 1) % n == 0",
            "a forward pass before `with model.no_sync()`, which has no effect then (a warning)",
        ),
        fix="sync = (i + 1) % n == 0; forward and backward within "
        "`with nullcontext() if sync else model.no_sync()`; step if sync.",
        sources=(
            "funasr-3472",
            "loongforge-163",
        ),
        needs=("no_sync", "require_backward_grad_sync"),
    ),
)
