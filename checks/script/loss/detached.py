"""A rule on losses without a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loss.cut import cut_off, is_output
from doctor.checks.script.loss.decided import entered
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Assignment, Call, Value

DETACHES = ("item", "detach", "tolist", "numpy")


def loss_detached(reading: Training) -> Iterator[Match]:
    yield from _switched_on(reading)
    yield from decided_terms(reading)
    yield from _decided_result(reading)
    yield from cut_off(reading)
    for call in reading.named("backward"):
        if call.name == "backward" or reading.is_autograd(call):
            continue
        name = reading.loss_name(call)
        if call.receiver_call >= 0 and not name:
            inner = reading.calls[call.receiver_call]
            if inner.method in DETACHES:
                yield Match(call.span, f"backward() of .{inner.method}(): no gradient is left")
            continue
        if not name or _regains(reading, name):
            continue
        results = evaluate.definitions_at(reading, name, call)
        yield from _numbers_in_sum(reading, call, results[:1])
        if results and all(_detaches(reading, each.value) for each in results):
            method = reading.calls[results[0].value.call].method
            message = f"{name} comes from .{method}(): no gradient is left"
            yield Match(call.span, message)


def _detaches(reading: Training, value: Value) -> bool:
    if value.kind != "call":
        return False
    call = reading.calls[value.call]
    return (
        call.method in DETACHES
        and not call.args
        and (call.receiver_call >= 0 or bool(call.receiver))
    )


def _numbers_in_sum(reading: Training, call: Call, results: list[Assignment]) -> Iterator[Match]:
    """Parts of the loss of a loop that are plain numbers."""
    for each in results if call.loops else ():
        for term in _terms(each.value):
            if _is_number(reading, term, call, each.position):
                message = f"{term.name} comes from .item(): it gives {call.receiver} no gradient"
                yield Match(each.span, message, "warn")


def _terms(value: Value) -> Iterator[Value]:
    """What is added up, without a number in front."""
    if value.kind == "other" and value.name in ("Add", "Sub"):
        for item in value.items:
            yield from _summand(item)


def _summand(value: Value) -> Iterator[Value]:
    if value.kind == "other" and value.name in ("Add", "Sub"):
        yield from _terms(value)
    elif value.kind == "other" and value.name == "Mult" and len(value.items) == 2:
        first, second = value.items
        yield from (second,) if first.kind == "literal" else ()
        yield from (first,) if second.kind == "literal" else ()
    else:
        yield value


def _is_number(reading: Training, value: Value, call: Call, position: int) -> bool:
    """A name that only holds the result of .item() of this iteration."""
    if value.kind != "name":
        return False
    found = evaluate.definitions(reading, value.name, call.scope, position, call.arms)
    return bool(found) and all(
        each.value.kind == "call"
        and reading.calls[each.value.call].method == "item"
        and each.loops == call.loops
        for each in found
    )


def _switched_on(reading: Training) -> Iterator[Match]:
    """loss.requires_grad = True before loss.backward(): a loss with a graph has it already."""
    for name, scope, number, arms in _losses(reading):
        results = evaluate.definitions(reading, name, scope, number, arms)
        computed = bool(results) and all(_is_computed(reading, each) for each in results)
        spans = [
            a.span
            for a in reading.assignments
            if a.target == f"{name}.requires_grad"
            and a.value.literal is True
            and a.scope == scope
            and a.position <= number
        ]
        spans += [
            c.span
            for n in reading.methods("requires_grad_")
            if n < number
            and (c := reading.calls[n]).scope == scope
            and c.receiver == name
            and not c.targets
        ]
        for span in spans[:1] if computed else ():
            message = f"{name} gets requires_grad: with a graph it has it, without one "
            yield Match(span, message + "no weight gets a gradient", "warn")
            yield from _decided_inside(reading)


def _losses(reading: Training) -> Iterator[tuple[str, int, int, Arms]]:
    """What backward() is called on, and what training_step() returns."""
    for number, call in reading.numbered(reading.backwards):
        name = reading.loss_name(call)
        if name and not name.startswith("self."):
            yield name, call.scope, number, call.arms
    for scope in reading.functions_by_name.get("training_step", ()):
        function = reading.function(scope)
        for value, (position, arms) in zip(function.returns, function.exits, strict=True):
            if value.kind == "name":
                yield value.name, scope, position, arms


def _decided_inside(reading: Training) -> Iterator[Match]:
    """A loss of this file that takes the argmax of its argument, or compares it with 0.5."""
    for number, function in enumerate(reading.script.functions):
        named = f"{function.owner} {function.name}".casefold()
        given = {p.name for p in function.parameters} - {"self"}
        if not re.search(r"loss|dice|iou|term|criterion|tversky", named) or "metric" in named:
            continue
        for call in reading.calls_in(number):
            source = call.base if call.base is not None else Value("name", name=call.receiver)
            own = given & {*source.all_names, *(v.name for v in call.args)}
            decides = call.method in ("argmax", "round", "sign")
            compares = call.method in ("float", "int", "long") and source.kind == "test"
            if own and (decides or compares):
                what = call.method if decides else "a comparison"
                yield Match(
                    call.span, f"{what} has no gradient: the loss is constant to backward()"
                )
                return


def _decided_result(reading: Training) -> Iterator[Match]:
    """p = sigmoid(logits); p = (p > 0.5).float(): the loss of this file is of decisions alone."""
    for number, function in enumerate(reading.script.functions):
        named = f"{function.owner} {function.name}".casefold()
        inputs = [p.name for p in function.parameters if p.name != "self"]
        whole = "loss" in function.name.casefold() or function.name in ("forward", "__call__")
        other = not whole or re.search("metric|weight|mask|valid|accuracy|score", named)
        if "loss" not in named or other or not inputs or not function.returns:
            continue
        for call in reading.calls_in(number):
            test = call.base if call.method in ("float", "int", "long") else None
            if test is None or test.kind != "test" or not call.target or call.arms:
                continue
            held = [a for a in reading.assignments if a.scope == number and inputs[0] in
                    a.value.all_names and a.target in test.all_names]  # fmt: skip
            places = {call.span.line, *(a.span.line for a in held[:1])}
            known = held or inputs[0] in test.all_names
            if known and not _is_read_elsewhere(reading, number, {inputs[0]}, places) and not (
                held and held[0].target != call.target
                and _is_read_elsewhere(reading, number, {held[0].target}, places)
            ):  # fmt: skip
                yield Match(call.span, "a comparison has no gradient: this loss gives none")


def _is_read_elsewhere(reading: Training, scope: int, names: set[str], lines: set[int]) -> bool:
    """Read in a function on another line, as a value or as what a method is called on."""
    return any(
        names & {n.partition(".")[0] for n in value.all_names} and span.line not in lines
        for value, span, where in reading.expressions
        if where == scope
    ) or any(
        call.receiver.partition(".")[0] in names and call.span.line not in lines
        for call in reading.calls_in(scope)
    )


def decided_terms(reading: Training) -> Iterator[Match]:
    """A term of the loss that a function of this file computes of argmax of the output alone."""
    for name, scope, number, arms in _losses(reading):
        found = evaluate.definitions(reading, name, scope, number, arms)
        terms = {n for each in found if each.scope == scope for n in each.value.calls}
        for term in sorted(terms):
            passed = reading.calls[term].args[:1]
            if not passed or not is_output(reading, passed[0], reading.calls[term]):
                continue
            function = entered(reading, term)
            returns = reading.returns(function)
            if function is None or len(returns) != 1:
                continue
            own = [p.name for p in reading.function(function).parameters if p.name != "self"]
            if not own:
                continue
            given = own[0]
            decided = [call for call in reading.calls_in(function) if call.method == "argmax"]
            if decided and _reads_decision(reading, function, returns[0], given):
                message = f"argmax has no gradient: {name} gets none through this term"
                yield Match(decided[0].span, message, fix="Use softmax(logits) in the loss.")


def _reads_decision(reading: Training, function: int, result: Value, given: str) -> bool:
    """The result depends on argmax of the parameter, and on it in no other way."""
    argmax = re.compile(rf"(?:torch\.argmax\({given}\b|\b{given}\.argmax\()")
    own = [a for a in reading.assignments if a.scope == function]
    waiting, seen, decided = [result], set[str](), False
    while waiting:
        text = render(reading, waiting.pop())
        rest = argmax.sub("", text)
        decided |= rest != text
        names = set(re.findall(r"[A-Za-z_]\w*", rest)) - seen
        if given in names or "…" in text:
            return False
        seen |= names
        waiting += [a.value for a in own if a.target in names]
    return decided


def _is_computed(reading: Training, each: Assignment) -> bool:
    """The result of a call other than of one that makes a new tensor, or of arithmetic."""
    if each.value.kind == "call":
        name = reading.calls[each.value.call].name
        return name not in MADE and reading.calls[each.value.call].method not in ("to", "Variable")
    return each.value.kind == "other" and each.value.name in ("Add", "Sub", "Mult", "Div")


MADE = ("torch.tensor", "torch.zeros", "torch.ones", "torch.as_tensor", "torch.FloatTensor",
        "torch.Tensor", "torch.rand", "torch.randn")  # fmt: skip


def _regains(reading: Training, name: str) -> bool:
    """requires_grad is turned on again between."""
    return any(each.target == f"{name}.requires_grad" for each in reading.assignments) or any(
        call.receiver == name for call in reading.named("requires_grad_")
    )


RULES = (
    Rule(
        code="SCR153",
        slug="loss-detached",
        title="The loss that backward() is called on has a graph",
        severity="fail",
        find=loss_detached,
        why="item(), detach() and numpy() leave no graph: backward() raises 'element 0 of tensors "
        "does not require grad', or is called on a plain number.",
        fires=(
            "backward() on the result of item(), detach(), tolist() or numpy()",
            "a term of the loss that a function computes of argmax of the output alone",
            "a dice loss of (sigmoid(logits) > 0.5).float()",
            "a loss of out.detach(), out.data or torch.tensor(out), and backward() on it",
            "a penalty of p.data or p.detach() of the parameters, as a term of the loss",
            "requires_grad is set on a loss that was computed (a warning)",
            "a part of the sum that backward() is called on comes from item() (a warning)",
        ),
        fix="Keep the tensor for backward(); detach a copy for the log.",
        sources=("torch-detach", "torch-no-grad"),
    ),
)
