"""A rule on the groups of an optimizer: each parameter in one, with the decay that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import lines, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

ALL = re.compile(r"(?P<owner>[\w.]+)\.parameters\(\)|list\((?P<list>[\w.]+)\.parameters\(\)\)")
CHOSEN = re.compile(r"ListComp<(?P<over>[\w.]+)\.named_parameters\(\),(?P<test>.*),p(?:aram)?>")
WITHOUT = re.compile(r"\bnot any\((\w+) in \w+ for \1 in (?P<list>[\w.]+)\)")
WHOLE = re.compile(r"(?:^\(?|\band )(?P<name>\w+) in (?P<list>[\w.]+)\)?$")
EXEMPT = re.compile(r"no_?decay|skip|exclude|without|bias|norm")


def grouped(reading: Training) -> Iterator[Match]:
    for number in reading.optimizers:
        call = reading.calls[number]
        value = call.given("params", 0)
        groups = _groups(reading, value, call) if value is not None else []
        if len(groups) < 2:
            continue
        yield from _twice(reading, groups, call)
        yield from _exchanged(reading, groups, call)
        yield from _exchanged_axes(reading, groups, call)
        yield from _overlap(reading, groups, call)
        yield from _in_none(reading, groups, call)


def _groups(reading: Training, value: Value, call: Call) -> list[dict[str, Value]]:
    """The dictionaries of a list that is written out."""
    for option in evaluate.options(reading, value, call):
        if option.kind == "list" and option.items and all(v.kind == "dict" for v in option.items):
            return [dict(zip(v.keys, v.items, strict=False)) for v in option.items]
    return []


def _twice(reading: Training, groups: list[dict[str, Value]], call: Call) -> Iterator[Match]:
    """model.parameters() and model.head.parameters(), or one choice twice: torch raises."""
    owners = []
    chosen: set[str] = set()
    for group in groups:
        choice = _choice(reading, group, call)
        if choice is not None and choice[0] in chosen:
            message = "two groups choose the same parameters: the optimizer raises an error"
            yield Match(call.span, message)
            return
        chosen |= {choice[0]} if choice is not None else set()
        value = group.get("params")
        found = ALL.fullmatch(render(reading, value)) if value is not None else None
        owners.append(found and (found["owner"] or found["list"]))
    for one in filter(None, owners):
        for other in filter(None, owners):
            if other.startswith(f"{one}.") or (one == other and owners.count(one) > 1):
                message = f"{other}.parameters() are in two groups: the optimizer raises an error"
                yield Match(call.span, message)
                return


def _exchanged(reading: Training, groups: list[dict[str, Value]], call: Call) -> Iterator[Match]:
    """Weight decay for biases and norms, and none for the others."""
    for group in groups:
        decay, test = group.get("weight_decay"), _test(reading, group, call)
        if decay is None or not test:
            continue
        numbers = evaluate.literals(reading, decay, call)
        names = re.fullmatch(
            r"any\(GeneratorExp<(?P<list>[\w.]+),\((?P<item>\w+) in \w+\)>\)", test
        )
        listed = names is not None and EXEMPT.search(names["list"].casefold())
        others = re.fullmatch(r"\(not any\(\w+ in \w+ for \w+ in (?P<list>[\w.]+)\)\)", test)
        left = others is not None and EXEMPT.search(others["list"].casefold())
        positive = all(isinstance(n, int | float) and n > 0 for n in numbers)
        named = decay.kind == "name" and "weight_decay" in decay.name
        if (
            listed
            and ((positive and numbers) or named)
            and _zero_elsewhere(reading, groups, group, call)
        ):
            message = "biases and norms get the weight decay, and the other weights none"
            yield Match(call.span, message, "warn")
            return
        if left and numbers == {0} and len(groups) == 2 and not listed:
            continue


VECTORS = re.compile(r"(?:\.dim\(\)|\.ndim|len\(\w+\.shape\)) ?(?:< ?2|<= ?1|== ?1)\)?,\w+>$")
"""The end of [p for ... if p.dim() < 2]: biases and scales of norms."""


def _exchanged_axes(
    reading: Training, groups: list[dict[str, Value]], call: Call
) -> Iterator[Match]:
    """Weight decay for parameters of one axis, and none for the others."""
    for group in groups:
        decay, text = group.get("weight_decay"), _members(reading, group, call)
        if decay is None or not VECTORS.search(text):
            continue
        numbers = evaluate.literals(reading, decay, call)
        positive = numbers and all(evaluate.is_number(n) and n > 0 for n in numbers)
        named = decay.kind == "name" and re.search("decay|wd", decay.name.casefold())
        if (positive or (named and numbers == {evaluate.UNDECIDED})) and _zero_elsewhere(
            reading, groups, group, call
        ):
            message = "biases and norms get the weight decay, and the other weights none"
            yield Match(call.span, message, "warn")
            return


def _zero_elsewhere(
    reading: Training, groups: list[dict[str, Value]], group: dict[str, Value], call: Call
) -> bool:
    others = [g.get("weight_decay") for g in groups if g is not group]
    return any(
        value is not None and evaluate.literals(reading, value, call) <= {0} for value in others
    )


def _test(reading: Training, group: dict[str, Value], call: Call) -> str:
    found = _choice(reading, group, call)
    return found["test"] if found else ""


def _choice(reading: Training, group: dict[str, Value], call: Call) -> re.Match[str] | None:
    """The comprehension over named_parameters() that a group is."""
    return CHOSEN.fullmatch(_members(reading, group, call))


def _members(reading: Training, group: dict[str, Value], call: Call) -> str:
    """What a group holds, also by the only assignment of a name."""
    value = group.get("params")
    text = render(reading, value) if value is not None else ""
    if value is not None and value.kind == "name":
        held = [
            a.text
            for a in reading.cached(lines)
            if a.target == value.name and a.scope == call.scope
        ]
        text = held[-1] if len(held) == 1 else ""
    return text


def _overlap(reading: Training, groups: list[dict[str, Value]], call: Call) -> Iterator[Match]:
    """'bias' not in n for one group, 'bias' in n or 'norm' in n for the other."""
    tests = [_test(reading, group, call) for group in groups]
    if len(groups) != 2 or not all(tests):
        return
    parts = [re.findall(r"[\"']([\w.]+)[\"'] (not in|in) \w+", test) for test in tests]
    for mine, other in ((0, 1), (1, 0)):
        left_out = {word for word, how in parts[mine] if how == "not in"}
        taken = {word for word, how in parts[other] if how == "in"}
        only = all(how == "not in" for _, how in parts[mine]) and all(
            how == "in" for _, how in parts[other]
        )
        plain = " or " in tests[other] or len(taken) == 1
        if left_out and taken and only and plain and taken - left_out and left_out <= taken:
            word = sorted(taken - left_out)[0]
            yield Match(
                call.span,
                f"parameters named {word} are in two groups: the optimizer raises an error",
            )
            return


def _in_none(reading: Training, groups: list[dict[str, Value]], call: Call) -> Iterator[Match]:
    """Names that hold a word of a list are left out of one group, and the other asks for names
    that are in the list, as wholes."""
    tests = [_test(reading, group, call) for group in groups]
    for test, other in (tests, tests[::-1]) if len(tests) == 2 else ():
        rest, whole = WITHOUT.search(test), WHOLE.search(other)
        if rest is None or whole is None or rest["list"] != whole["list"]:
            continue
        named = evaluate.options(reading, Value("name", name=rest["list"]), call)
        words = [v.literal for held in named for v in held.items]
        if len(named) == 1 and words and all(isinstance(word, str) for word in words):
            message = f"parameters whose names hold {words[0]} are in no group, and never train"
            fix = f"any(word in {whole['name']} for word in {whole['list']})"
            yield Match(call.span, message, fix=fix)
            return


RULES = (
    Rule(
        code="SCR412",
        slug="parameter-groups",
        title="Each parameter is in one group of its optimizer",
        severity="fail",
        find=grouped,
        why="torch raises 'some parameters appear in more than one parameter group'. Groups with "
        "exchanged conditions decay norms and biases, and no weights.",
        fires=(
            "groups of model.parameters() and model.head.parameters()",
            "conditions on names that overlap",
            "not any(word in name for word in no_decay), and name in no_decay for the others",
            "weight decay for the names in no_decay, or for p.dim() < 2, and 0 for the others "
            "(a warning)",
        ),
        fix="Choose by one test: if any(word in name for word in no_decay) goes to the group with "
        "weight_decay=0, else to the other.",
        sources=("torch-optimizer",),
        needs=("parameters", "named_parameters"),
    ),
)
