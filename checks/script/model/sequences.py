"""Rules on sequence models: what a decoder may see, masks, and the axis of the batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.kinds.clashes import clashes
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.model.directions_of_time import (
    both_directions,
    hidden_tokens,
    is_last_column,
)
from doctor.checks.script.outcomes import VIEWS, outcomes
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render, statements
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

RECURRENT = {"LSTM", "GRU", "RNN"}
PADDING_MASKS = {
    "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask", "key_padding_mask",
}  # fmt: skip


def _same_slice(reading: Training) -> Iterator[Match]:
    """model(src, tgt[:, 1:]), and the loss compares the output with tgt[:, 1:]."""
    for number, kind in loss_calls(reading):
        loss = reading.calls[number]
        if kind not in ("cross_entropy", "nll") or len(loss.args) < 2 or not loss.loops:
            continue
        target = _base(reading, loss.args[1], loss)
        if target is None or not _is_shifted(target):
            continue
        name = target.items[0].name
        for n, call in reading.numbered(reading.by_loop[loss.loops[-1]]):
            trained = reading.key(call.name, call.scope) in reading.trained_names
            if n > number or not trained or call.loops != loss.loops:
                continue
            read = [_base(reading, value, call) for value in call.args]
            if target in read:
                yield Match(
                    loss.span, f"the decoder reads {name} in the places that it is to predict"
                )
            elif _is_decoder(reading, call) and any(
                each is not None and _is_next(each, target) for each in read
            ):
                yield Match(
                    loss.span,
                    f"the decoder reads {name}[:, 1:], and is to predict the token before each",
                    fix=f"Give it {name}[:, :-1], and compare with {name}[:, 1:].",
                )


def _whole_target(reading: Training) -> Iterator[Match]:
    """model(src, tgt), and the loss compares the output with all of tgt."""
    made = reading.methods("Transformer", "TransformerDecoder")
    decodes = any(reading.calls[n].name.startswith("torch.nn.") for n in made)
    if not decodes or reading.mentions("shift", "start_token", "roll", "prepend"):
        return
    if any(STARTS.search(text) for text in _texts_of_modules(reading)):
        return
    for number, kind in loss_calls(reading):
        loss = reading.calls[number]
        if kind != "cross_entropy" or len(loss.args) < 2 or not loss.loops:
            continue
        found = re.fullmatch(
            r"(\w+)\.(?:reshape|view|flatten|contiguous\(\)\.view)\((?:-1)?\)",
            render(reading, loss.args[1]),
        )
        for n, call in reading.numbered(reading.by_loop[loss.loops[-1]] if found else ()):
            key = reading.key(call.name, call.scope)
            passed = [v.name for v in call.args[1:] if v.kind == "name"]
            if n < number and key in reading.trained_names and found and found[1] in passed:
                sets = reading.assigned_to(found[1], call.scope)
                if not any("[" in render(reading, a.value) for a in sets):
                    yield Match(loss.span, f"the decoder reads {found[1]}, which it is to predict")


STARTS = re.compile(r"(?:^|[^a-z])(?:bos|sos)(?![a-z])|\bpad\(|\[:,:-1\]", re.IGNORECASE)
"""The token that a module puts before the target itself; in the data it is a part of the target."""


def _texts_of_modules(reading: Training) -> Iterator[str]:
    """What modules of this file compute, and what a joined target is made of."""
    for text, _, scope in reading.cached(statements):
        if reading.function(scope).owner in reading.modules or "cat(" in text:
            yield text


def _base(reading: Training, value: Value, call: Call, depth: int = 4) -> Value | None:
    """The slice below views and names."""
    if value.kind == "item":
        return value if len(value.items) == 2 else None
    if value.kind == "name" and depth:
        values = objects.last_definition(reading, value.name, call)
        return _base(reading, values[0], call, depth - 1) if len(values) == 1 else None
    made = reading.call_of(value)
    if made is None or made.method not in VIEWS or not depth:
        return None
    return _base(reading, objects.receiver_of(made), made, depth - 1)


def _is_decoder(reading: Training, call: Call) -> bool:
    """It gets a source, too, or is called a decoder, and nothing turns the order around."""
    if reading.mentions("flip", "reverse", "reversed", "inverse"):
        return False
    made = [render(reading, a.value) for a in reading.assigned_to(call.name, call.scope)]
    named = any(re.match(r"(?:\w+\.)*\w*(?:decoder|gpt)", text.casefold()) for text in made)
    return len(call.args) > 1 or named


def _is_next(given: Value, target: Value) -> bool:
    """x[:, 1:] is read, and x[:, :-1] is the target."""
    ends = [_shift(value) for value in (given, target)]
    return given.items[0] == target.items[0] and ends == [(1, None), (None, -1)]


def _is_shifted(value: Value) -> bool:
    """x[:, 1:] or x[:, :-1]."""
    return _shift(value) in ((1, None), (None, -1))


def _shift(value: Value) -> tuple[object, object]:
    """The ends of the last slice."""
    index = value.items[1]
    last = index.items[-1] if index.kind == "list" and index.items else index
    if last.kind != "slice":
        return (None, None)
    start, stop = (v.literal for v in last.items[:2])
    return (start, stop)


def _without_mask(reading: Training) -> Iterator[Match]:
    """nn.Transformer on the embedded target, with nothing that hides later tokens."""
    for call in reading.calls:
        if "transformer" not in call.name.casefold() or len(call.args) < 2:
            continue
        keys = call.keywords.keys()
        if len(call.args) > 3 or call.unpacked or {"tgt_mask", "tgt_is_causal"} & keys:
            continue
        made = objects.callee(reading, call)
        plain = made and all(
            each is not None and each.name == "torch.nn.Transformer" for each in made
        )
        owner = reading.function(call.scope).owner
        embeds = any(
            reading.function(other.scope).owner == owner for other in reading.named("Embedding")
        )
        if plain and embeds and owner in reading.modules and reading.mentions("cross", "nll"):
            yield Match(
                call.span, "nn.Transformer without tgt_mask: each token sees those it is to predict"
            )


def _masked_late(reading: Training) -> Iterator[Match]:
    """masked_fill(mask, -inf) of what a softmax returned."""
    for number, call in reading.numbered(reading.methods("masked_fill", "masked_fill_")):
        if len(call.args) != 2 or not call.receiver:
            continue
        if not _is_infinite(reading, call.args[1]):
            continue
        value = Value("name", name=call.receiver)
        if outcomes(reading, value, call.scope, number - 1, call.arms) == {"softmax"}:
            yield Match(call.span, "the mask is applied after the softmax: the weights become -inf")


def _is_infinite(reading: Training, value: Value) -> bool:
    if value.kind == "call":
        call = reading.calls[value.call]
        return call.name == "float" and any(v.literal == "-inf" for v in call.args)
    return any(_is_infinite(reading, item) or item.name.endswith("inf") for item in value.items)


def mask_inverted(reading: Training) -> Iterator[Match]:
    yield from hidden_tokens(reading)
    yield from reading.cached(clashes).get("SCR315", ())


def last_of_batch(reading: Training) -> Iterator[Match]:
    """out[:, -1] of a recurrent layer without batch_first: the last sample, at every step."""
    yield from both_directions(reading)
    for call in reading.calls:
        if not call.name.startswith("self.") or reading.function(call.scope).name != "forward":
            continue
        made = objects.callee(reading, call)
        plain = made and all(
            each is not None
            and each.name.startswith("torch.nn.")
            and each.method in RECURRENT
            and ((v := each.keywords.get("batch_first")) is None or v.literal is False)
            and len(each.args) < 5
            and not each.unpacked
            for each in made
        )
        if not plain or not call.targets:
            continue
        again = [a for a in reading.assigned_to(call.targets[0], call.scope)]
        if len(again) > 1 or _moves_batch(reading, call):
            continue
        for value, span, scope in reading.expressions:
            for part in flatten([value]) if scope == call.scope else ():
                if is_last_column(part, call.targets[0]):
                    message = f"{call.name} is without batch_first, and takes (time, batch, width)"
                    yield Match(
                        span, f"{message}: [:, -1] is the last sample", fix=_remedy(reading)
                    )
                    break


def _remedy(reading: Training) -> str:
    """Batches of a loader that nothing turns have the sample first."""
    turned = {
        "permute",
        "transpose",
        "swapaxes",
        "stack",
        "pad_sequence",
    } & reading.by_method.keys()
    loader = "DataLoader" in reading.by_method and not reading.mentions("collate")
    return "Pass batch_first=True: batches of a DataLoader have the sample first." if (
        loader and not turned - {"stack"}
    ) else ""  # fmt: skip


def _moves_batch(reading: Training, call: Call) -> bool:
    return any(
        other.method in ("permute", "transpose", "swapaxes")
        for other in reading.calls_in(call.scope)
    )


RULES = (
    Rule(
        code="SCR314",
        slug="decoder-sees-target",
        title="A decoder does not see what it is to predict",
        severity="warn",
        find=each_of(_same_slice, _whole_target, _without_mask, _masked_late),
        why="The loss falls to almost 0 by copying, and generation gives nonsense: there the next "
        "token is not at hand.",
        fires=(
            "the same slice of the target is the decoder's input and the target of the loss",
            "nn.Transformer of embedded tokens without tgt_mask",
            "masked_fill(mask, -inf) after the softmax",
        ),
        fix="Feed tgt[:, :-1], compare with tgt[:, 1:], and pass "
        "tgt_mask=nn.Transformer.generate_square_subsequent_mask(n).",
        sources=("transformers-causal-loss",),
        needs=(
            "cross_entropy",
            "CrossEntropyLoss",
            "NLLLoss",
            "nll_loss",
            "masked_fill",
            "masked_fill_",
        ),
    ),
    Rule(
        code="SCR315",
        slug="padding-mask-inverted",
        title="A key padding mask is True at padding",
        severity="fail",
        find=mask_inverted,
        why="torch.nn ignores the places where a key_padding_mask is True. The attention mask of a "
        "tokenizer says the opposite: 1 where tokens are.",
        fires=(
            "key_padding_mask=tokens != pad, or attention_mask as it is",
            "scaled_dot_product_attention(attn_mask=tokens == pad), where True takes part",
        ),
        fix="Pass tokens == pad, or attention_mask == 0.",
        sources=("torch-module",),
        needs=(*sorted(PADDING_MASKS), "scaled_dot_product_attention"),
    ),
    Rule(
        code="SCR316",
        slug="last-sample-for-last-step",
        title="The last step of a recurrent layer is read along its time axis",
        severity="fail",
        find=last_of_batch,
        why="Without batch_first=True the output is (time, batch, width): [:, -1] is the last "
        "sample of the batch at each step, and samples mix.",
        fires=(
            "out[:, -1] of an LSTM, GRU or RNN without batch_first",
            "h.view(-1, 2 * width) of a bidirectional layer; its out[:, -1] (a warning)",
        ),
        fix="Pass batch_first=True to the layer, or read out[-1].",
        sources=("torch-module",),
        needs=("LSTM", "GRU", "RNN"),
    ),
)
