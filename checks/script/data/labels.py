"""Rules on the labels of a language model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.columns import built
from doctor.checks.script.data.unshifted_tokens import (
    CAUSAL,
    VIEWS,
    copied,
    is_causal,
    own_loss,
    same_window,
)
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

JOINS = ("cat", "concatenate", "concat", "hstack", "pad")
"""What puts others behind them."""


def shifted_twice(reading: Training) -> Iterator[Match]:
    for number, call in enumerate(reading.calls):
        labels = call.keywords.get("labels")
        inputs = call.given("input_ids", 0) or call.keywords.get("inputs_embeds")
        if labels is None or inputs is None or not _is_shifted(reading, labels, inputs, call):
            continue
        message = "labels are shifted here, and the model shifts them once more"
        causal = is_causal(reading, call, number)
        if causal:
            yield Match(call.span, message)
        elif causal is None:
            yield Match(call.span, message, undecided="the model's class is in another file")
    yield from _shifted_by_collator(reading)
    yield from copied(reading)
    yield from own_loss(reading)


def _shifted_by_collator(reading: Training) -> Iterator[Match]:
    """A function returns shifted labels beside input_ids, and the file has no loss of its own."""
    own = reading.mentions("logits", "cross_entropy", "crossentropy", "compute_loss")
    if reading.modules or own:
        return
    if not any(word in name for word in CAUSAL for name in reading.model_names):
        return
    for number, function in enumerate(reading.script.functions):
        place = _end(reading, number)
        exits = zip(function.returns, function.exit_spans, strict=False)
        found = [(evaluate.entry(reading, value, "labels"),
                  evaluate.entry(reading, value, "input_ids"), span, place)
                 for value, span in exits]  # fmt: skip
        for labels, inputs, span, at in [*found, *built(reading, number)]:
            if labels and inputs and _is_shifted(reading, labels, inputs, at):
                yield Match(span, f"{function.name} shifts the labels, and the model once more")
                break


def _end(reading: Training, scope: int) -> Call:
    """A place at the end of a function."""
    return Call(name="", span=reading.function(scope).span, scope=scope)


def _is_shifted(reading: Training, labels: Value, inputs: Value, call: Call) -> bool:
    """Labels begin one token later than the inputs."""
    if _offset(reading, labels, call) == 1 and _offset(reading, inputs, call) == 0:
        return True
    if inputs.kind == "name" and _offset(reading, labels, call) == 1:
        found = evaluate.definitions_at(reading, labels.name, call)
        made = [each.value for each in found] if labels.kind == "name" else [labels]
        if made and all(inputs.name in v.names for v in made):
            return True
    first, second = (_start(reading, value, call) for value in (inputs, labels))
    return bool(first) and second in (f"({first}+1)", f"(1+{first})")


def _start(reading: Training, value: Value, call: Call, depth: int = 6) -> str:
    """The start of the slice that a value is made of, through functions: i of data[i:i + n]."""
    pair = _of_dataset(reading, value.name, call) if value.kind == "name" and depth else None
    if pair is not None:
        return _start(reading, pair[0], pair[1], depth - 1)
    found_at = evaluate.options(reading, value, call)
    for option in found_at[:1] if depth else ():
        text = render(reading, option)
        if found := re.search(r"\w\[(?:\(?:,)?([^\[\]:,]+):[^\[\]]+\]", text):
            return found[1]
        made = reading.call_of(option)
        while made is not None and made.receiver_call >= 0:
            made = reading.calls[made.receiver_call]
        if made is not None and made.receiver:
            return _start(reading, Value("name", name=made.receiver), made, depth - 1)
    return ""


def _offset(reading: Training, value: Value, call: Call, depth: int = 8) -> int | None:
    """At which token a value begins: 1 for x[:, 1:], x[1:] + [-100] and roll(x, -1), through names,
    views and the pairs that a dataset returns; None where the file does not decide it.
    """
    if (bounds := _bounds(value)) is not None:
        return {"1 None": 1, "None -1": 0, "0 -1": 0}.get(f"{bounds[0]} {bounds[1]}")
    if (value.kind == "item" and value.name.endswith("[input_ids]")) or not depth:
        return 0 if depth else None
    if value.kind == "other" and value.items:
        comprehension = value.name == "ListComp"
        joined = value.name == "Add" and value.items[-1].kind == "list"
        inner = value.items[-1 if comprehension else 0]
        return _offset(reading, inner, call, depth - 1) if comprehension or joined else None
    if value.kind == "call":
        return _offset_of_call(reading, reading.calls[value.call], depth)
    return _offset_of_name(reading, value.name, call, depth) if value.kind == "name" else None


def _offset_of_name(reading: Training, name: str, call: Call, depth: int) -> int | None:
    if (pair := _of_dataset(reading, name, call)) is not None:
        return _offset(reading, pair[0], pair[1], depth - 1)
    found = evaluate.definitions_at(reading, name, call)
    if not found:
        return 0 if name.endswith("input_ids") or name == "ids" else None
    values = {_offset(reading, each.value, call, depth - 1) for each in found}
    plain = name.endswith("ids") and values == {None}
    return 0 if plain else values.pop() if len(values) == 1 else None


def _offset_of_call(reading: Training, call: Call, depth: int) -> int | None:
    if call.method == "roll":
        shifts = [call.keywords[k] for k in ("shifts",) if k in call.keywords]
        shifts += call.args[1:2] if call.name.startswith("torch.") else call.args[:1]
        return 1 if shifts and shifts[0].literal == -1 else None
    if call.method in JOINS and call.args:
        parts = call.args[0].items if call.args[0].kind == "list" else call.args[:1]
        return _offset(reading, parts[0], call, depth - 1) if parts else None
    if call.method not in VIEWS:
        return None
    plain = call.name.startswith(("torch.", "copy.", "list")) and call.args
    inner = call.args[0] if plain else objects.operand(call)
    return _offset(reading, inner, call, depth - 1) if inner is not None else None


def _of_dataset(reading: Training, name: str, call: Call) -> tuple[Value, Call] | None:
    """What __getitem__ of the one dataset of the file returns for a name that a loop binds."""
    scopes = reading.functions_by_name.get("__getitem__", [])
    for number in call.loops if len(scopes) == 1 else ():
        targets = reading.loops[number].targets
        returns = reading.function(scopes[0]).returns
        if name in targets and len(returns) == 1 and len(returns[0].items) == len(targets):
            return returns[0].items[targets.index(name)], _end(reading, scopes[0])
    return None


def _bounds(value: Value) -> tuple[object, object] | None:
    """Start and stop of x[:, start:stop], also of x[:, start:stop, :]; None of anything else."""
    index = value.items[1] if value.kind == "item" and len(value.items) == 2 else Value("other")
    last = index.items[:2][-1] if index.kind == "list" and index.items else index
    if last.kind != "slice" or len(last.items) != 3:
        return None
    return last.items[0].literal, last.items[1].literal


def without_head(reading: Training) -> Iterator[Match]:
    """AutoModel in a Trainer that computes no loss of its own."""
    for trained in reading.trained:
        sink = reading.calls[trained.sink]
        if sink.name not in ("transformers.Trainer", "transformers.Seq2SeqTrainer"):
            continue
        calls = [reading.calls[n] for n in trained.lineage.calls]
        bare = [c for c in calls if c.name == "transformers.AutoModel.from_pretrained"]
        own = "compute_loss_func" in sink.keywords or sink.unpacked
        if bare and not own and not any("trust_remote_code" in c.keywords for c in bare):
            yield Match(bare[0].span, "AutoModel has no head, and returns no loss")


RULES = (
    Rule(
        code="SCR221",
        slug="labels-shifted-twice",
        title="Labels of a causal model are shifted once",
        severity="fail",
        find=each_of(shifted_twice, same_window),
        why="Causal models of transformers shift labels inside: logits at t are compared with "
        "labels "
        "at t + 1. Labels that are shifted before train it to predict the token after the next.",
        fires=(
            "model(input_ids=x[:, :-1], labels=x[:, 1:]) of a causal model",
            "the same through names, rolled, padded, or as the pair that __getitem__ returns",
            "x = data[i:i + n] and y = data[i + 1:i + 1 + n], and then labels=y",
            "cross_entropy of a causal model's logits for x and of x itself, neither shifted",
            "the same of labels that a collator of transformers makes",
            "x and y of a language model are the same window of the tokens",
            "a function such as the collator returns these two, in a file that loads a causal "
            "model and computes no loss itself",
        ),
        fix="Pass labels=input_ids of the same length; with a loss of your own, compare "
        "logits[:, :-1] with ids[:, 1:].",
        needs=(
            "labels",
            "from_pretrained",
            "transformers",
            "cross_entropy",
            "CrossEntropyLoss",
            "y",
            "Y",
            "targets",
        ),
        sources=("transformers-causal-loss",),
    ),
    Rule(
        code="SCR230",
        slug="model-without-head",
        title="The model of a Trainer computes a loss",
        severity="fail",
        find=without_head,
        why="AutoModel returns hidden states: the Trainer raises that the model did not return a "
        "loss.",
        fires=("AutoModel.from_pretrained reaches a Trainer of transformers",),
        fix="Use the class of the task: AutoModelForCausalLM, AutoModelForSequenceClassification.",
        needs=("AutoModel",),
        sources=("transformers-trainer",),
    ),
)
