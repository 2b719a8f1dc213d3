"""Rules on the labels of a language model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

MASKS = ("forlanguagemodeling", "completiononly", "masked_fill", "where", "ignore_index", "seq2seq")
"""Names of what leaves padding out of the labels."""
PADDING = re.compile("pad_token_id|mask")
CAUSAL = ("ForCausalLM", "LMHeadModel", "CausalLM")


def shifted_twice(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number, call in enumerate(reading.calls):
        labels = call.keywords.get("labels")
        if labels is None:
            continue
        inputs = call.keywords.get("input_ids") or (call.args[0] if call.args else None)
        if not _is_slice(reading, labels, call, 1, None) or inputs is None:
            continue
        if not _is_slice(reading, inputs, call, None, -1):
            continue
        message = "labels are shifted here, and the model shifts them once more"
        causal = _is_causal(reading, call, number)
        if causal:
            yield Match(call.span, message)
        elif causal is None:
            yield Match(call.span, message, undecided="the model's class is in another file")
    yield from _shifted_by_collator(reading)


def _shifted_by_collator(reading: Training) -> Iterator[Match]:
    """A function returns shifted labels beside input_ids, and the file has no loss of its own."""
    own = reading.mentions("logits", "cross_entropy", "crossentropy", "compute_loss")
    if reading.modules or own:
        return
    loads = [reading.calls[n].name for n in reading.methods("from_pretrained")]
    if not loads or not any(word in name for word in CAUSAL for name in loads):
        return
    for number, function in enumerate(reading.script.functions):
        calls = reading.scope_calls(number)
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            labels = evaluate.entry(reading, value, "labels")
            inputs = evaluate.entry(reading, value, "input_ids")
            if not calls or labels is None or inputs is None:
                continue
            call = reading.calls[max(calls)]
            if _is_slice(reading, labels, call, 1, None) and _is_slice(
                reading, inputs, call, None, -1
            ):
                yield Match(span, f"{function.name} shifts the labels, and the model once more")


def _is_slice(
    reading: Training, value: Value, call: Call, start: int | None, stop: int | None
) -> bool:
    """x[:, start:stop], also through a variable or a copy."""
    if (bounds := _bounds(value)) is not None:
        return bounds == (start, stop)
    for option in evaluate.options(reading, value, call):
        while option.kind == "call":
            made = reading.calls[option.call]
            if made.method not in ("contiguous", "clone", "to", "cuda", "long"):
                return False
            option = (
                Value("call", call=made.receiver_call)
                if made.receiver_call >= 0
                else Value("other")
            )
        if _bounds(option) != (start, stop):
            return False
    return True


def _bounds(value: Value) -> tuple[object, object] | None:
    """Start and stop of the last index of x[:, start:stop]; None of anything else."""
    index = value.items[1] if value.kind == "item" and len(value.items) == 2 else Value("other")
    last = index.items[-1] if index.kind == "list" and index.items else index
    if last.kind != "slice" or len(last.items) != 3:
        return None
    return last.items[0].literal, last.items[1].literal


def _is_causal(reading: Training, call: Call, number: int) -> bool | None:
    """The model is a causal one of transformers; None where this file does not make it."""
    lineage = lineage_of(reading, call.name, call.scope, number)
    names = [reading.calls[n].name for n in lineage.calls]
    if any(word in name for word in CAUSAL for name in names):
        return True
    if any(name in reading.modules for name in names):
        return False
    return None if not lineage.complete else False


def padding_in_labels(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if reading.mentions(*MASKS) or not any(_pads(call) for call in reading.calls):
        return
    if any(PADDING.search(f"{c.left.name} {c.right.name}") for c in reading.script.comparisons):
        return
    for call in reading.calls:
        labels, ids = call.keywords.get("labels"), call.keywords.get("input_ids")
        if labels is not None and labels == ids and labels.kind in ("name", "item") and labels.name:
            yield Match(call.span, f"labels are {labels.name}: padding is learned")
    for each in reading.script.assignments:
        if not each.target.endswith("[labels]") or each.value.kind not in ("item", "call"):
            continue
        base = each.target.removesuffix("[labels]")
        if _copies(reading, each.value, f"{base}[input_ids]"):
            yield Match(each.span, f"{each.target} is a copy of input_ids: padding is learned")


def _pads(call: Call) -> bool:
    padding = call.keywords.get("padding")
    return padding is not None and padding.kind == "literal" and padding.literal in (
        True, "max_length", "longest",
    )  # fmt: skip


def _copies(reading: Training, value: Value, name: str) -> bool:
    if value.kind == "item":
        return value.name == name
    call = reading.calls[value.call]
    return call.method in ("copy", "clone", "deepcopy") and (
        name in (call.receiver, *(v.name for v in call.args))
        or (call.name.startswith("[].") and name in value.names)
    )


def mask_missing(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """model(input_ids=...) of a padded batch, without its attention mask."""
    if not any(_pads(call) for call in reading.calls):
        return
    for number, call in enumerate(reading.calls):
        ids = call.keywords.get("input_ids")
        if (
            ids is None
            or call.unpacked
            or {"attention_mask", "inputs_embeds"} & call.keywords.keys()
        ):
            continue
        if (
            len(call.args) > 0
            or not call.name
            or reading.key(call.name, call.scope) not in (reading.trained_names)
        ):
            continue
        lineage = lineage_of(reading, call.name, call.scope, number)
        names = [reading.calls[n].name for n in lineage.calls]
        if any(name.startswith("transformers.") and "from_pretrained" in name for name in names):
            yield Match(call.span, "padded input_ids without attention_mask: padding is attended")


def without_head(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
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
        find=shifted_twice,
        why="Causal models of transformers shift labels inside: logits at t are compared with "
        "labels "
        "at t + 1. Labels that are shifted before train it to predict the token after the next.",
        fires=(
            "model(input_ids=x[:, :-1], labels=x[:, 1:]) of a causal model",
            "a function such as the collator returns these two, in a file that loads a causal "
            "model and computes no loss itself",
        ),
        fix="Pass labels=input_ids of the same length.",
        needs=("labels", "from_pretrained"),
        sources=("transformers-causal-loss",),
    ),
    Rule(
        code="SCR222",
        slug="padding-in-labels",
        title="Padding is masked out of the labels",
        severity="warn",
        find=padding_in_labels,
        why="Only labels of -100 are left out of the loss. Where labels are a copy of padded "
        "input_ids, most of the loss may be the prediction of padding.",
        fires=("batch['labels'] = batch['input_ids'] beside padding=True or 'max_length'",),
        fix="Set labels to -100 where attention_mask is 0, or use DataCollatorForLanguageModeling.",
        sources=("transformers-causal-loss",),
        limits="that a collator of another file does not mask them.",
    ),
    Rule(
        code="SCR299",
        slug="attention-mask-missing",
        title="Padded batches have an attention mask",
        severity="warn",
        find=mask_missing,
        why="Without the mask every token attends to padding, and the result depends on how long "
        "the other texts of the batch are.",
        fires=("model(input_ids=...) without attention_mask, and a tokenizer that pads",),
        fix="Pass attention_mask=batch['attention_mask'], or the whole batch: model(**batch).",
        needs=("input_ids",),
        sources=("bert-nli-3", "transformers-16243"),
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
