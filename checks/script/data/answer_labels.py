"""A rule on labels that are made of token ids: which of them are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import Line, lines, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

IDS = re.compile(
    r"(?:\w+\.)*\w*(?:ids|tokens|input_ids|inputs)(?:\[[\w:]*\])?|.*\['input_ids'\]|.*\.input_ids"
)
IGNORED = re.compile(r"-100|\(?\(-100\)|(?:[A-Z_]*IGNORE\w*)|(?:\(-100\)|IGNORE\w*)\*")
TARGETS = re.compile(r"(?:\w+\.)*(?:labels?|targets?|lm_labels|lbls?|y)$")


def answers(reading: Training) -> Iterator[Match]:
    table = reading.cached(lines)
    yield from _measured_with_end(reading, table)
    for line in table:
        name, _, part = line.target.partition("[")
        if part and TARGETS.search(name):
            yield from _same_object(reading, table, line, name)
            yield from _prompt_kept(table, line, name, part[:-1])
            yield from _letters(reading, table, line, part[:-1])


def _same_object(reading: Training, table: list[Line], line: Line, name: str) -> Iterator[Match]:
    """labels = input_ids; labels[mask] = -100 changes input_ids, too."""
    if not _is_ignored(line.text):
        return
    before = [
        a
        for a in table
        if a.target == name and a.scope == line.scope and a.span.order < line.span.order
    ]
    if not before or before[-1].augmented or before[-1].arms != line.arms[: len(before[-1].arms)]:
        return
    source = before[-1]
    if source.value.kind not in ("name", "item") or not IDS.fullmatch(source.text):
        return
    if source.value.kind == "item" and any(
        v.kind in ("slice", "list") for v in source.value.items[1:]
    ):
        return
    root = source.text
    if _owner(root) == name:  # labels = labels["input_ids"]: the other name is gone
        return
    if _read_later(reading, root, line):
        yield Match(
            source.span, f"{name} is {root} itself: -100 is written into the input of the model"
        )


def _is_ignored(text: str) -> bool:
    return text.strip("()") in ("-100", "- 100") or bool(
        re.fullmatch(r"\(?-100\)?|[\w.]*IGNORE\w*", text)
    )


def _owner(root: str) -> str:
    return root.partition("[")[0].partition(".")[0]


def _read_later(reading: Training, root: str, line: Line) -> bool:
    """The ids are returned or passed on after the change; of a batch, all of it may be."""
    owner = _owner(root)
    for value, span, scope in reading.expressions:
        if scope != line.scope or span.order <= line.span.order:
            continue
        names = {_owner(n) for n in value.all_names}
        if owner in names:
            return True
    return False


def _prompt_kept(table: list[Line], line: Line, name: str, part: str) -> Iterator[Match]:
    """labels = [-100] * n; labels[:len(prompt)] = ids[:len(prompt)]: the answer is left out."""
    start = re.fullmatch(r":(len\(\w*(?:prompt|question|instruct|source|query)\w*(?:\[\w+\]"
                         r"|\.\w+|\['\w+'\])*\)"
                         r"|\w*(?:prompt|question|instruct|source"
                         r"|query)\w*len\w*)", part)  # fmt: skip
    if start is None or not re.fullmatch(rf"[\w.\[\]']+\[:{re.escape(start[1])}\]", line.text):
        return
    made = [a for a in table if a.target == name and a.scope == line.scope]
    filled = re.compile(r"\(\(?-100\)?\*.*|torch\.full(?:_like)?\(.*-100.*|.*-100\)?\*.*")
    later = [a for a in table if a.target.startswith(f"{name}[") and a.scope == line.scope]
    if made and filled.fullmatch(made[0].text) and len(later) == 1:
        yield Match(
            line.span, "the prompt is learned, and the answer left out: the slice is exchanged"
        )


def _letters(reading: Training, table: list[Line], line: Line, part: str) -> Iterator[Match]:
    """labels[: len(row["prompt"])] = -100, where the tokenizer gets row["prompt"]."""
    if "-100" not in line.text and not _is_ignored(line.text):
        return
    count = re.fullmatch(r":(?P<name>\w+)", part)
    written = part[1:] if part.startswith(":") else ""
    if count is not None:
        made = [a for a in table if a.target == count["name"] and a.scope == line.scope]
        written = made[-1].text if made else ""
    counted = re.fullmatch(r"len\((?P<text>[\w.]+(?:\['\w+'\])?)\)", written)
    if counted is None:
        return
    text = counted["text"]
    given = [
        render(reading, value)
        for n in reading.calls_where(lambda m: "tok" in m.casefold() or m == "encode")
        if reading.calls[n].scope == line.scope
        for value in reading.calls[n].args
    ]
    whole = any(re.search(rf"(?<![\w.'\[]){re.escape(text)}(?![\w\[.])", each) for each in given)
    if whole:
        yield Match(line.span, f"len({text}) counts characters, and labels are tokens")


PROMPT = re.compile(r"prompt|question|instruct|source|query|context", re.IGNORECASE)


def _measured_with_end(reading: Training, table: list[Line]) -> Iterator[Match]:
    """[-100] * len(tokenize(prompt)), where tokenize() of this file appends the end token."""
    for line in table:
        for call in reading.inside(line.value):
            function = reading.target_function(call)
            given = call.first
            if function is None or given is None or not PROMPT.search(render(reading, given)):
                continue
            counted = re.match(r"len\(", line.text) and given.kind == "name"
            if not counted or not _appends_end(reading, function, call):
                continue
            if not _joined_text(reading, call, given.name):
                continue
            name = re.escape(line.target)
            masks = re.compile(rf"\(-100\)\*{name}\b|\[:{name}\]")
            if any(masks.search(f"{o.target} {o.text}") for o in table if o.scope == line.scope):
                message = f"{call.method}() appends the end token, and counts it to the prompt"
                fix = "Measure the prompt without the end token."
                yield Match(line.span, message, fix=fix)


def _joined_text(reading: Training, call: Call, prompt: str) -> bool:
    """The same function gets prompt + answer in one text, where no end stands between them."""
    for other in reading.calls_in(call.scope):
        value = other.first if other.name == call.name and other is not call else None
        held = objects.last_definition(reading, value.name, other) if value is not None else []
        for each in (value, *held):
            if each is None or each.kind != "other" or prompt not in each.all_names:
                continue
            if not re.search(r"eos|end|</|<\|", render(reading, each), re.IGNORECASE):
                return True
    return False


def _appends_end(reading: Training, function: int, call: Call) -> bool:
    """result.append(eos) in the function, under no switch or one that is on for this call."""
    for each in reading.calls_in(function):
        names = [n for v in each.args for n in v.all_names] if each.method == "append" else []
        if not any(re.search(r"eos_token_id$|^EOS", n) for n in names):
            continue
        parameters = {p.name for p in reading.function(function).parameters}
        switches = {n for test in reading.tests(each) for n in test.all_names} & parameters
        on = [evaluate.argument_of(reading, call, function, n) for n in sorted(switches)]
        on = [
            v if v is not None else evaluate.default(reading, function, n)
            for v, n in zip(on, sorted(switches), strict=True)
        ]
        if all(v is not None and v.literal is True for v in on):
            return True
    return False


RULES = (
    Rule(
        code="SCR404",
        slug="labels-of-answers",
        title="Labels are a copy of the tokens, without those of the prompt",
        severity="fail",
        find=answers,
        why="Without a copy -100 is written into input_ids, too, where no embedding has such "
        "a row. "
        "A slice of the wrong part, or of as many tokens as the prompt has characters, "
        "trains on the prompt or on nothing.",
        fires=(
            "labels = input_ids; labels[...] = -100",
            "labels = [-100] * n; labels[:len(prompt)] = ids[:len(prompt)]",
            "labels[: len(row['prompt'])] = -100, of a text that the tokenizer gets",
            "[-100] * n of n = len(tokenize(prompt)), where tokenize() appends the end token",
        ),
        fix="labels = input_ids.clone(); labels[: len(prompt_ids)] = -100, with prompt_ids of the "
        "tokenizer.",
        sources=("fast-llm-253",),
        needs=("ignored_labels", "labels", "label", "targets", "append"),
    ),
)
