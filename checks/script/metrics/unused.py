"""Rules on values that are computed and not used, or used in the place of another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def _never_read(reading: Training) -> Iterator[Match]:
    """out = model(x) in a loop that trains, and nothing reads out."""
    for number, call in reading.numbered(
        sorted(
            {
                n
                for b in reading.backwards
                for loop in reading.calls[b].loops[-1:]
                for n in reading.by_loop[loop]
            }
        )
    ):
        if len(call.targets) != 1 or not call.args or "." in call.targets[0]:
            continue
        name = call.targets[0]
        key = reading.key(call.name, call.scope)
        if key not in reading.trained_names or name.startswith("_"):
            continue
        if reading.under_no_grad(call.contexts) or not _is_module(reading, call):
            continue
        twin = any(
            reading.calls[n].args
            and reading.calls[n].scope == call.scope
            and n != number
            and reading.under_no_grad(reading.calls[n].contexts)
            for n in reading.by_loop[call.loops[-1]]
        )
        if twin and not _is_read(reading, name, call):
            yield Match(call.span, f"{name} is computed by {call.name}, and nothing reads it")


def _target_never_read(reading: Training) -> Iterator[Match]:
    """with no_grad(): soft = teacher(x).logits in a loop that trains, and nothing reads soft."""
    for each in reading.assignments if not reading.mentions("hook") else ():
        quiet = each.loops and reading.under_no_grad(each.contexts) and "." not in each.target
        if not quiet or each.target.startswith("_") or each.augmented:
            continue
        inside = {n for n in reading.by_loop.get(each.loops[-1], ())}
        run = next((c for c in reading.inside(each.value) if _is_module(reading, c)), None)
        trains = not reading.backward_numbers.isdisjoint(inside)
        own = run is not None and reading.key(run.name, run.scope) in reading.trained_names
        if run is None or own or not run.args or not trains or "[" in each.target:
            continue
        if not _is_read(reading, each.target, run) and not _has_left(reading, run.name):
            yield Match(each.span, f"{each.target} is computed by {run.name}, and nothing reads it")


def _has_left(reading: Training, network: str) -> bool:
    """teacher.features or teacher.features() is read: its last pass may have left them."""
    modes = {"eval", "train", "to", "cuda", "load_state_dict", "parameters", "requires_grad_"}
    names = [n for value, _, _ in reading.expressions for n in value.all_names]
    names += [c.name for c in reading.calls if c.method not in modes]
    return any(n.startswith(f"{network}.") for n in names)


TERMS = {"aux", "balance", "penalty", "reg", "regularization", "kl", "kld", "commitment"}


def _left_out(reading: Training) -> Iterator[Match]:
    """balance = 0.01 * aux beside a backward(), and nothing reads balance."""
    for each in reading.assignments:
        weighted = each.value.name == "Mult" and any(
            evaluate.is_number(v.literal) for v in each.value.items
        )
        if not weighted or each.augmented or "." in each.target or not TERMS & {
            w for name in (each.target, *each.value.names) for w in words(name)
        }:  # fmt: skip
            continue
        back = [reading.calls[n] for n in reading.backwards if reading.calls[n].loops == each.loops]
        if back and not _is_read(reading, each.target, back[0]):
            yield Match(each.span, f"{each.target} is computed, and no part of the loss")


def _is_module(reading: Training, call: Call) -> bool:
    made = objects.callee(reading, call)
    return bool(made) and all(
        (each is not None and each.method[:1].isupper())
        or (each is not None and "models" in each.name)
        for each in made
    )


def _is_read(reading: Training, name: str, call: Call) -> bool:
    reading.step(len(reading.expressions))
    values = reading.values_in(call.scope)
    values += [b.test for b in reading.branches if b.test is not None]
    values += [v for c in reading.comparisons for v in (c.left, c.right)]
    receivers = any(c.receiver.partition(".")[0] == name for c in reading.calls)
    return receivers or any(
        name == n.partition(".")[0].partition("[")[0] for part in values for n in part.all_names
    )


def _given_twice(reading: Training) -> Iterator[Match]:
    """model(x1, x1), where the loop binds x1 and x2 and nothing reads x2."""
    for call in reading.calls:
        if not call.loops or len(call.args) < 2:
            continue
        roots = [_root(reading, value) for value in call.args[:2]]
        if not roots[0] or roots[0] != roots[1]:
            continue
        targets = reading.loops[call.loops[-1]].targets
        if roots[0] not in targets or reading.key(call.name, call.scope) not in (
            reading.trained_names
        ):
            continue
        for other in targets:
            pair = re.sub(r"\d", "", other) == re.sub(r"\d", "", roots[0]) and other != roots[0]
            if pair and not _is_read(reading, other, call):
                yield Match(call.span, f"{roots[0]} is passed twice, and {other} is never read")


def _root(reading: Training, value: Value) -> str:
    """x of x.to(device)."""
    if value.kind == "call" and reading.calls[value.call].method in ("to", "cuda", "float"):
        return reading.calls[value.call].receiver
    return value.name if value.kind == "name" else ""


def _one_view(reading: Training) -> Iterator[Match]:
    """view = transform(x); return view, view."""
    for scope, function in enumerate(reading.script.functions):
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            names = [v.name for v in value.items[:2] if v.kind == "name"]
            if value.kind != "list" or len(names) != 2 or names[0] != names[1]:
                continue
            found = evaluate.definitions(reading, names[0], scope, len(reading.calls), ())
            made = (
                reading.calls[found[0].value.call]
                if len(found) == 1 and (found[0].value.kind == "call")
                else None
            )
            if made is not None and (
                re.search("transform|view|twocrop|contrast", f"{made.name} {function.owner}", re.I)
                or made.method in ("tf", "aug", "augment")
            ):
                yield Match(span, f"{names[0]} is both views: a random transform runs once")


def returns_nothing(reading: Training) -> Iterator[Match]:
    """forward() of a module that computes something and returns nothing."""
    for scope, function in enumerate(reading.script.functions):
        if function.returns or function.name not in ("forward", "configure_optimizers"):
            continue
        if function.owner not in reading.modules or function.decorators:
            continue
        if _ends_otherwise(reading, scope):
            continue
        calls = reading.calls_in(scope)
        if function.name == "configure_optimizers":
            if any(
                call.targets and n in reading.optimizers
                for n in reading.scope_calls(scope)
                for call in (reading.calls[n],)
            ):
                yield Match(function.span, "configure_optimizers() returns no optimizer")
            continue
        ends = [a for a in reading.assignments if a.scope == scope and "." not in a.target]
        layers = [c for c in calls if c.name.startswith("self.") and c.targets and c.args]
        last = max((a.position for a in ends), default=-1)
        if (
            layers
            and ends
            and last >= len(calls) - 1
            and any(c.targets == (ends[-1].target,) for c in calls[-1:])
            and not any(c.method in ("append", "register_buffer", "log", "yield") for c in calls)
        ):
            yield Match(function.span, f"forward() of {function.owner} returns nothing")


def _ends_otherwise(reading: Training, scope: int) -> bool:
    """It raises, or leaves its result in an attribute or in what it was given."""
    calls = reading.calls_in(scope)
    kept = any(
        a.scope == scope and ("." in a.target or a.target.endswith("]"))
        for a in reading.assignments
    ) or any("." in t or t.endswith("]") for c in calls for t in c.targets)
    if reading.function(scope).name == "configure_optimizers":
        return kept and bool(reading.mentions("automatic_optimization"))
    return kept or any(c.method in ("NotImplementedError", "update", "add_") for c in calls)


def flags(reading: Training) -> Iterator[Match]:
    """Types of command line arguments."""
    if not reading.imports_from("argparse"):
        return
    switches = []
    for call in reading.named("add_argument"):
        kind, default = call.keywords.get("type"), call.keywords.get("default")
        flag = str(call.args[0].literal) if call.args else ""
        name = flag.lstrip("-").replace("-", "_")
        if kind is not None and kind.name == "bool" and flag.startswith("-"):
            switches.append(call.span)
        elif (
            kind is None
            and "action" not in call.keywords
            and default is not None
            and (
                isinstance(default.literal, str)
                and re.fullmatch(r"[\d.]+(e-?\d+)?", default.literal)
            )
        ):
            if _is_rate(reading, name):
                yield Match(call.span, f"{flag} is a text: the optimizer raises", "fail")
        elif (
            kind is not None
            and kind.name == "int"
            and isinstance(default, Value)
            and isinstance(default.literal, float)
            and 0 < default.literal < 1
        ):
            yield Match(call.span, f"type=int of {flag}: a given fraction raises")
    for span in switches[:1]:
        more = f" (and {len(switches) - 1} more)" if len(switches) > 1 else ""
        yield Match(span, f"type=bool: every text is True, also False{more}")


def _is_rate(reading: Training, name: str) -> bool:
    """args.lr reaches an optimizer as it is."""
    if any(a.target.endswith(f".{name}") for a in reading.assignments):
        return False
    return any(
        value.kind == "name" and value.name.endswith(f".{name}")
        for n in reading.optimizers
        for value in reading.calls[n].keywords.values()
    )


RULES = (
    Rule(
        code="SCR320",
        slug="output-unused",
        title="The outputs that a loss should compare are used",
        severity="warn",
        find=each_of(_never_read, _target_never_read, _given_twice, _one_view, _left_out),
        why="An output of the trained model that nothing reads takes no part in the loss: another "
        "name stands in its place, and the loss compares something with itself.",
        fires=(
            "out = model(x) beside the output of a frozen network, and nothing reads out",
            "with no_grad(): soft = teacher(x) in a loop that trains, and nothing reads soft",
            "model(x1, x1) in a loop over (x1, x2), and nothing reads x2",
            "view = transform(x); return view, view",
            "balance = 0.01 * aux in a loop that trains, and nothing reads balance",
        ),
        fix="Use each output and each view once.",
        sources=("torch-losses",),
    ),
    Rule(
        code="SCR321",
        slug="returns-nothing",
        title="forward() and configure_optimizers() return their result",
        severity="warn",
        find=returns_nothing,
        why="Without return the result is None: the loss raises, and Lightning trains nothing.",
        fires=(
            "forward() ends in x = self.layer(x), without a return",
            "configure_optimizers() makes an optimizer and returns nothing",
        ),
        fix="Return the result.",
        sources=("torch-module",),
        needs=("forward", "configure_optimizers"),
        words=(r"def forward\s*\(", r"def configure_optimizers\s*\("),
    ),
    Rule(
        code="SCR323",
        slug="argument-type",
        title="Command line arguments have the type that they are used as",
        severity="warn",
        find=flags,
        why="argparse calls type(text): bool('False') is True, so the flag cannot be switched off. "
        "A rate without type=float is a text.",
        fires=("add_argument(type=bool)", "type=int with a default between 0 and 1"),
        errors=("the learning rate of an optimizer is an argument without a type",),
        fix="Use action=argparse.BooleanOptionalAction, and type=float for rates.",
        sources=("argparse-type",),
        needs=("add_argument",),
    ),
)
