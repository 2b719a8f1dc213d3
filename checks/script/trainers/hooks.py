"""What Lightning and the Trainer are handed: functions, pairs, splits, and values that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

CALLABLES = (
    "compute_metrics", "data_collator", "preprocess_logits_for_metrics", "model_init",
    "compute_loss_func", "formatting_func", "collate_fn", "worker_init_fn", "reward_funcs",
)  # fmt: skip
SPLIT = re.compile(r"(\w+)\[(train|test|validation)\]")
KEEPS = (
    "map", "filter", "shuffle", "select", "rename_column", "remove_columns", "with_format",
    "cast_column", "rename_columns", "cast",
)  # fmt: skip
SAVE = "Call self.save_hyperparameters() in __init__, before self.hparams is read."


def of_lightning(reading: Training) -> Iterator[Match]:
    """self.hparams without save_hyperparameters(), and (optimizer, scheduler) as a pair."""
    modules = {
        each.name
        for each in reading.script.classes
        if any(base.endswith("LightningModule") for base in each.bases)
    }
    yield from _unsaved(reading, modules)
    for scope in reading.functions_by_name.get("configure_optimizers", ()):
        function = reading.function(scope)
        if function.owner not in modules:
            continue
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            items = value.items if value.kind == "list" and len(value.items) == 2 else ()
            if (
                items
                and _is_scheduler(reading, items[1], scope)
                and items[0].kind in ("name", "call")
            ):
                message = "a tuple is of optimizers: a schedule goes into a second list"
                yield Match(span, message, "fail", fix="Return [optimizer], [scheduler].")


def _unsaved(reading: Training, modules: set[str]) -> Iterator[Match]:
    saved = reading.mentions("save_hyperparameters", "_set_hparams", "load_from_checkpoint_")
    bases = [b for c in reading.script.classes if c.name in modules for b in c.bases]
    if saved or any(not b.endswith(".LightningModule") and b != "LightningModule" for b in bases):
        return
    given = any(
        a.target == "self.hparams" or a.target.endswith(".hparams") for a in reading.assignments
    ) or any(c.receiver == "self.hparams" for c in reading.calls)
    for value, span, scope in reading.expressions if not given else ():
        names = [n for n in value.all_names if n.startswith("self.hparams.")]
        if names and reading.function(scope).owner in modules:
            message = f"{names[0]} is read, and save_hyperparameters() is never called"
            yield Match(span, message, "fail", fix=SAVE)
            return


def _is_scheduler(reading: Training, value: Value, scope: int) -> bool:
    found = [value]
    if value.kind == "name":
        held = reading.assigned_to(value.name, scope)
        found = [a.value for a in held]
    return bool(found) and all(
        v.kind == "call"
        and (
            "lr_scheduler" in (name := reading.calls[v.call].name)
            or name.startswith("transformers.get_")
        )
        for v in found
    )


def of_trainers(reading: Training) -> Iterator[Match]:
    for call in reading.calls:
        for key in CALLABLES:
            value = call.keywords.get(key)
            if value is not None and value.kind == "call":
                yield from _called(reading, value, key)
    for n in reading.arguments:
        ratio = reading.calls[n].keywords.get("warmup_ratio")
        found = evaluate.literals(reading, ratio, reading.calls[n])
        if found and all(isinstance(v, int | float) and v > 1 for v in found):
            yield Match(reading.calls[n].span, "warmup_ratio is a share of the run, at most 1")
    yield from _split_twice(reading)
    yield from _unpadded(reading)


def _called(reading: Training, value: Value, key: str) -> Iterator[Match]:
    """compute_metrics=compute_metrics(): its result is passed, which cannot be called."""
    call = reading.calls[value.call]
    function = reading.target_function(call)
    if function is None or call.args or call.keywords:
        return
    returned = reading.function(function).returns
    inner = {f.name for f in reading.script.functions if f.parent == function}
    plain = [v for v in returned if v.kind in ("dict", "literal", "list")]
    if (
        call.method in (key, "collate_fn", "data_collator")
        and not inner
        and returned
        and (len(plain) == len(returned))
    ):
        yield Match(call.span, f"{call.method}() is called here: {key} takes the function itself")


def _split_twice(reading: Training) -> Iterator[Match]:
    """load_dataset(..., split="train")["train"]."""
    for value, span, scope in reading.expressions:
        found = SPLIT.fullmatch(value.name) if value.kind == "item" else None
        if found is None:
            continue
        held = reading.assigned_to(found[1], scope)
        loaded = any(c.method == "load_dataset" for a in held for c in _chain(reading, a.value))
        if loaded and all(_is_one_split(reading, a.value, found[1], 6) for a in held):
            message = f"{found[1]} is one split already: it has no {found[2]!r}"
            yield Match(span, message)
            return


def _chain(reading: Training, value: Value) -> Iterator[Call]:
    """A call, and those on whose results it is called."""
    call = reading.call_of(value)
    while call is not None:
        yield call
        call = reading.before(call)


def _is_one_split(reading: Training, value: Value, name: str, depth: int) -> bool:
    call = reading.call_of(value)
    if call is None or not depth:
        return False
    if call.method == "load_dataset":
        split = call.keywords.get("split")
        return split is not None and isinstance(split.literal, str)
    if call.method not in KEEPS:
        return False
    if call.receiver_call >= 0:
        return _is_one_split(reading, Value("call", call=call.receiver_call), name, depth - 1)
    return call.receiver == name


def _unpadded(reading: Training) -> Iterator[Match]:
    """DataCollatorWithPadding pads no labels: rows of a causal model differ in length."""
    loads = [call.name for call in reading.named("from_pretrained")]
    causal = [n for n in loads if "CausalLM" in n or "Seq2SeqLM" in n]
    if not causal or reading.mentions("max_length_padding", "group_texts", "pack"):
        return
    keys = " ".join(
        render(reading, v) for v, _, _ in reading.expressions if v.kind in ("dict", "item")
    ) + " ".join(a.target for a in reading.assignments)
    full = any(
        (v := c.keywords.get("padding")) is not None and v.literal == "max_length"
        for c in reading.calls
    )
    for n in reading.methods("DataCollatorWithPadding"):
        if "labels" in keys and not full and reading.trainers:
            message = "DataCollatorWithPadding leaves labels as they are: rows differ in length"
            yield Match(reading.calls[n].span, message)
