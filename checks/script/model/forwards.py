"""A rule on forward(): results that are replaced, and weights over an axis of one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import Line, lines, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

LAYER = re.compile(r"(?:[\w.]+\()*self\.\w+(?:\[\w+\])?\(")


def forwards(reading: Training) -> Iterator[Match]:
    yield from _replaced(reading)
    yield from _single(reading)
    yield from _one_after_linear(reading)
    yield from _only_the_last(reading)
    yield from _added_to_itself(reading)


def _added_to_itself(reading: Training) -> Iterator[Match]:
    """x = self.conv(x); return x + x: the input of the block was overwritten."""
    for value, span, scope in reading.expressions:
        function = reading.function(scope)
        if function.name != "forward" or function.owner not in reading.modules:
            continue
        for part in flatten([value]):
            names = [v.name for v in part.items if v.kind == "name"]
            if part.name != "Add" or len(part.items) != 2 or len(names) != 2 or len(set(names)) > 1:
                continue
            given = names[0] in {p.name for p in function.parameters}
            layers = (
                reading.call_of(a.value)
                for a in reading.assigned_to(names[0], scope) if a.scope == scope
            )  # fmt: skip
            if given and any(c is not None and c.name.startswith("self.") for c in layers):
                yield Match(
                    span,
                    f"{names[0]} is added to itself: the input was overwritten",
                    fix="Keep the input under another name: h = layer(x); return x + h.",
                )


def _is_read_behind(reading: Training, name: str, loop: int) -> bool:
    """Behind the loop, and no test in it reads the name or leaves it: no early exit, no yield."""
    inside = reading.cached(_stored)[loop]
    end, scope = max(a.span.line for a in inside), inside[0].scope
    tested = (scope, name) in reading.cached(_compared)
    left = any(loop in loops for loops in reading.function(scope).exit_loops)
    return reading.cached(_last_reads).get((scope, name), 0) > end and not tested and not left


def _stored(reading: Training) -> dict[int, list[Assignment]]:
    """Assignments within each loop."""
    table: dict[int, list[Assignment]] = {}
    for each in reading.stores:
        for loop in each.loops:
            table.setdefault(loop, []).append(each)
    return table


def _compared(reading: Training) -> set[tuple[int, str]]:
    return {
        (c.scope, n) for c in reading.comparisons for v in (c.left, c.right) for n in v.all_names
    }


def _last_reads(reading: Training) -> dict[tuple[int, str], int]:
    """The last line on which a function reads a name."""
    table: dict[tuple[int, str], int] = {}
    for value, span, scope in reading.expressions:
        for name in value.all_names:
            table[scope, name] = max(span.line, table.get((scope, name), 0))
    return table


def _only_the_last(reading: Training) -> Iterator[Match]:
    """for layer in self.layers: y = layer(x), and the loop changes no x and reads no y."""
    captured = reading.mentions("hook", "capture_outputs", "feature_extractor")
    for call in reading.calls if not captured else ():
        loop = reading.loop_of(call)
        if loop is None or call.arms or len(call.args) != 1 or call.args[0].kind != "name":
            continue
        over = render(reading, loop.iterable) if loop.iterable is not None else ""
        listed = re.match(r"(?:enumerate\()?self\.\w+", over) and call.name == loop.targets[-1]
        owner = reading.function(call.scope).owner
        if not listed or owner not in reading.modules or call.args[0].name in loop.targets:
            continue
        number, source = call.loops[-1], call.args[0].name
        own = [a for a in reading.cached(_stored).get(number, ()) if a.scope == call.scope]
        others = [c for n in reading.by_loop[number] if (c := reading.calls[n]) is not call]
        kept = own[0].target if len(own) == 1 and not own[0].augmented else ""
        plain = kept.isidentifier() and kept != source and kept not in own[0].value.all_names
        around = {id(c) for a in own for c in reading.inside(a.value)}
        if (
            plain
            and all(id(c) in around for c in others)
            and _is_read_behind(reading, kept, number)
        ):
            message = f"each {call.name} reads {source}: only the last one has an effect"
            yield Match(own[0].span, message)


def _replaced(reading: Training) -> Iterator[Match]:
    """y = relu(self.conv1(x)); y = self.conv2(x): the first result is lost."""
    scopes = {
        n for n in reading.functions_by_name.get("forward", ())
        if reading.function(n).owner in reading.modules
    }  # fmt: skip
    table: dict[tuple[int, str], list[Line]] = {}
    for line in reading.cached(lines):
        if line.scope in scopes and line.target.isidentifier():
            table.setdefault((line.scope, line.target), []).append(line)
    for (scope, name), found in table.items():
        for one, other in itertools.pairwise(found):
            if one.arms or other.arms or one.loops or other.loops or other.augmented:
                continue
            layers = LAYER.match(one.text) and LAYER.match(other.text)
            plain = name != "_" and one.value.kind == "call" and other.value.kind == "call"
            if layers and plain and not _read_between(reading, scope, name, one, other):
                message = (
                    f"{name} is computed here and replaced in line {other.span.line}: "
                    "nothing reads it"
                )
                yield Match(one.span, message)


def _read_between(reading: Training, scope: int, name: str, one: Line, other: Line) -> bool:
    """Anything between both, or the second line itself, names it."""
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    tests = [b.test.text for b in reading.branches if b.test is not None]
    over = [loop.iterable for loop in reading.loops if loop.scope == scope]
    texts = [other.text, *tests, *(render(reading, v) for v in over if v is not None)]
    texts += [render(reading, a.value) for a in reading.script.parts if a.scope == scope]
    return any(word.search(text) for text in texts) or name in set(
        _roots_between(reading, scope, one, other)
    )


def _roots_between(reading: Training, scope: int, one: Line, other: Line) -> Iterator[str]:
    """What is read between two lines, and in functions within this one."""

    def near(span: Span) -> bool:
        end = (other.span.end_line, other.span.end_column)
        return one.span.order[1:] < (span.line, span.column) <= end

    for call in reading.calls:
        if call.scope == scope and near(call.span):
            yield call.receiver.split(".")[0].partition("[")[0]
    for value, span, where in reading.expressions:
        if (where == scope and near(span)) or reading.function(where).parent == scope:
            yield from (n.split(".")[0].partition("[")[0] for n in value.all_names)


def _single(reading: Training) -> Iterator[Match]:
    """softmax(self.score(x), dim=-1), where score has one output."""
    for call in reading.named("softmax"):
        value = objects.operand(call) if not call.name.startswith("torch.") else None
        value = value if value is not None else (call.first)
        place = 1 if call.name.startswith("torch.") else 0
        axis = evaluate.argument(reading, call, "dim", place)
        if value is None or axis is None or not _is_minus_one(axis):
            continue
        for option in evaluate.options(reading, value, call):
            if option.kind == "call" and _outputs(reading, reading.calls[option.call]) == 1:
                message = "softmax over an axis of one entry: each weight is 1"
                yield Match(call.span, message)
                break
    yield from _modules(reading)


def _is_minus_one(value: Value) -> bool:
    return value.literal in (-1, 2) or (
        value.kind == "other" and value.name == "USub" and value.items[0].literal == 1
    )


def _outputs(reading: Training, call: Call) -> int:
    """The features that a layer, or the last of a Sequential, makes; 0 where unknown."""
    sizes = set()
    for made in objects.callee(reading, call):
        while made is not None and made.name == "torch.nn.Sequential" and made.args:
            last = made.args[-1]
            made = reading.call_of(last)
        linear = made is not None and made.name == "torch.nn.Linear"
        size = evaluate.argument(reading, made, "out_features", 1) if linear and made else None
        sizes.add(size.literal if size is not None and isinstance(size.literal, int) else 0)
    return sizes.pop() if len(sizes) == 1 else 0


def _modules(reading: Training) -> Iterator[Match]:
    """self.softmax = nn.Softmax(dim=-1), called on the scores."""
    if "Softmax" not in reading.by_method:
        return
    for call in reading.calls:
        made = objects.known_callees(reading, call) if call.args else []
        if len(made) != 1 or made[0].name != "torch.nn.Softmax":
            continue
        axis = evaluate.argument(reading, made[0], "dim", 0)
        if axis is None or not _is_minus_one(axis):
            continue
        for option in evaluate.options(reading, call.args[0], call):
            if option.kind == "call" and _outputs(reading, reading.calls[option.call]) == 1:
                yield Match(call.span, "softmax over an axis of one entry: each weight is 1")
                break


def _one_after_linear(reading: Training) -> Iterator[Match]:
    """nn.Sequential(..., nn.Linear(d, 1), nn.Softmax(-1))."""
    for call in reading.named("Sequential"):
        parts = reading.calls_of(call.args)
        if len(parts) != len(call.args):
            continue
        for before, after in itertools.pairwise(parts):
            size = evaluate.argument(reading, before, "out_features", 1)
            one = before.name == "torch.nn.Linear" and size is not None and size.literal == 1
            axis = evaluate.argument(reading, after, "dim", 0)
            over = axis is not None and _is_minus_one(axis)
            if one and after.name == "torch.nn.Softmax" and over:
                yield Match(after.span, "softmax over an axis of one entry: each weight is 1")


RULES = (
    Rule(
        code="SCR411",
        slug="forward-without-effect",
        title="Each layer of forward() has an effect",
        severity="fail",
        find=forwards,
        why="A result that the next line replaces is lost with its layer: the layer gets no "
        "gradient. A softmax over one entry is 1 whatever the scores are.",
        fires=(
            "y = self.conv1(x), and y = self.conv2(x) before anything reads y",
            "softmax(self.score(x), dim=-1) with score = nn.Linear(d, 1)",
            "for layer in self.layers: y = layer(x), where the loop changes no x and reads no y",
            "x = self.conv(x); return x + x",
        ),
        fix="y = self.conv2(y); softmax over the axis of the places, dim=1.",
        sources=("torch-module",),
        needs=("forward", "softmax", "Softmax"),
    ),
)
