"""Inputs and targets of a language model that are the same tokens, neither of them shifted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.lineage import lineage_of
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import Line, formulas, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.trainers.unshifted import SHIFTS
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

CAUSAL = ("ForCausalLM", "LMHeadModel", "CausalLM")
VIEWS = {
    "contiguous", "clone", "to", "cuda", "long", "copy", "squeeze", "detach", "tolist", "tensor",
    "LongTensor", "list", "deepcopy", "flatten", "int",
}  # fmt: skip
"""What returns the tokens that it gets."""
INPUTS = {"x", "xb", "x_batch", "inputs", "input", "input_ids", "idx", "context", "src", "inp"}
TARGETS = {"y", "yb", "y_batch", "targets", "target", "labels", "tgt", "label"}
WINDOW = re.compile(r"\w\[(?:[^\[\]]*,)?(?:\w+:\(\w+\+|:-1\b|:\w+\]|1:)")
"""data[i:i + n], ids[:, :-1]."""
OTHER_TASKS = (
    "mask_token", "mask_id", "mask_prob", "mask_ratio", "masked_lm", "random_mask", "apply_mask",
    "mlm", "autoenc", "reconstruct", "noise", "corrupt", "vae", "denois", "roll", "shift",
)  # fmt: skip
"""Names of what makes a target of the same tokens, or moves them later."""
MESSAGE = "inputs and targets are the same tokens: each is to predict the next one"
FIX = "Cut the targets one token later: y = data[i + 1 : i + 1 + n]."


def same_window(reading: Training) -> Iterator[Match]:
    """x = data[i:i + n] and y = data[i:i + n]."""
    language = reading.mentions("vocab", "cross_entropy", "crossentropy", "gpt", "next_token")
    inside = "labels" in reading.script.identifiers and reading.loads
    if not language or inside or reading.mentions(*OTHER_TASKS):
        return
    shifts = {text for text, _, _ in reading.cached(formulas) if SHIFTS.search(text)}
    undecided = "" if loss_calls(reading) else "the loss, which may shift them, is in another file"
    last: dict[int, Line] = {}
    for line in reading.cached(lines):
        before = last.get(line.scope)
        pair = before is not None and before.target.casefold() in INPUTS and (
            line.target.casefold() in TARGETS
        )  # fmt: skip
        same = pair and before is not None and before.text == line.text
        later = shifts - {line.text} if same else ()  # of the logits, in the loss
        if same and not later and WINDOW.search(line.text):
            yield Match(line.span, MESSAGE, undecided=undecided, fix=FIX)
        last[line.scope] = line
    for function in reading.script.functions:
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            texts = [render(reading, item) for item in value.items] if value.kind == "list" else []
            twice = len(texts) == 2 and texts[0] == texts[1] and WINDOW.search(texts[0])
            if twice and not shifts - set(texts):
                yield Match(span, MESSAGE, undecided=undecided, fix=FIX)


def copied(reading: Training) -> Iterator[Match]:
    """cross_entropy of the logits of x and of x: each token is to be what it is."""
    if reading.mentions("mlm", "mask_token", "masked_lm", "autoencod", "reconstruct"):
        return
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind != "cross_entropy" or len(call.args) < 2:
            continue
        first, second = (_whole(reading, value, call) for value in call.args[:2])
        run = reading.call_of(first)
        if run is None or second is None or second.kind != "name" or reading.is_evaluation(call):
            continue
        given = [run.args[0]] if run.args else []
        given += [run.keywords[k] for k in ("input_ids", "x", "idx") if k in run.keywords]
        same = any(v.kind == "name" and v.name == second.name for v in given)
        if same and not _is_target_changed(reading, run, call, second.name) and (
            is_causal(reading, run, number) or _hides_later(reading)
        ):  # fmt: skip
            message = f"{second.name} is compared with what the model made of {second.name}: "
            yield Match(call.span, message + "a token is to predict the next")


def own_loss(reading: Training) -> Iterator[Match]:
    """CrossEntropyLoss()(logits.view(-1, n), labels.view(-1)) of a causal model's own labels."""
    names = reading.model_names
    causal = bool(names) and all("CausalLM" in name or "LMHead" in name for name in names)
    if not causal or reading.mentions("shift") or reading.modules or any(
        SHIFTS.search(text) for text, _, _ in reading.cached(formulas)
    ):  # fmt: skip
        return
    collated = reading.calls_where(lambda name: name.startswith("DataCollator"))
    known = bool(collated or reading.trainers or reading.mentions("default_data_collator"))
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind != "cross_entropy" or len(call.args) < 2 or reading.is_evaluation(call):
            continue
        run = reading.call_of(_whole(reading, call.args[0], call))
        labels = re.search(r"(?<![\w.])labels\b", render(reading, call.args[1]))
        if run is None or labels is None or not (run.unpacked or "input_ids" in run.keywords):
            continue
        message = "logits at t are compared with labels at t: a token is to predict the next"
        yield Match(call.span, message, undecided="" if known else "labels are of another file")


def _whole(reading: Training, value: Value, call: Call, depth: int = 6) -> Value | None:
    """The call or name below views, names and .logits; None where a part of it was taken."""
    if not depth or value.kind == "item":
        return None
    if value.kind == "name":
        return _whole_name(reading, value.name.removesuffix(".logits"), call)
    inner = value.items[0] if value.kind == "other" and value.name == "logits" else None
    if value.kind == "call":
        made = reading.calls[value.call]
        if made.method not in SHAPES:
            return value
        inner = objects.operand(made)
    return _whole(reading, inner, call, depth - 1) if inner is not None else None


SHAPES = {*VIEWS, "view", "reshape", "transpose", "permute", "float"}


def _whole_name(reading: Training, name: str, call: Call) -> Value:
    """What a name holds, where that is one call and no view of itself."""
    found = objects.last_definition(reading, name, call)
    held = found[0] if len(found) == 1 else Value("name", name=name)
    attribute = held.name.removesuffix(".logits")
    if held.kind == "name" and attribute not in (held.name, name):
        return _whole_name(reading, attribute, call)
    if held.kind == "other" and held.name == "logits" and held.items:
        held = held.items[0]
    made = reading.call_of(held)
    if made is not None and made.method not in VIEWS and made.receiver != name:
        return held
    return Value("name", name=name)


def _is_target_changed(reading: Training, run: Call, loss: Call, name: str) -> bool:
    """The name is assigned between, or a part of it is set."""
    first, last = reading.number(run), reading.number(loss)
    return f"{name}[]" in reading.script.identifiers or any(
        a.target == name and first < a.position <= last for a in reading.assignments
    )


def _hides_later(reading: Training) -> bool:
    """The network of this file is causal for certain."""
    return bool(reading.modules) and reading.mentions(
        "tril", "triu", "generate_square_subsequent_mask", "is_causal", "causal_mask"
    )


def is_causal(reading: Training, call: Call, number: int) -> bool | None:
    """The model is a causal one of transformers; None where this file does not make it."""
    lineage = lineage_of(reading, call.name, call.scope, number)
    names = [reading.calls[n].name for n in lineage.calls]
    if any(word in name for word in CAUSAL for name in names):
        return True
    if any(name in reading.modules for name in names):
        return False
    return None if not lineage.complete else False
