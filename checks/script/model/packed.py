"""A rule on recurrent layers: packed sequences, directions, and positions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

RECURRENT = ("LSTM", "GRU", "RNN")
MOVES = ("permute", "transpose", "swapaxes", "rearrange", "movedim")
HIDDEN = re.compile(r"h|hn|h_n|ht|h_t|hidden|h_last|last_hidden|hid")


def sequences(reading: Training) -> Iterator[Match]:
    for call in reading.named("pack_padded_sequence"):
        tried = any(reading.branches[branch].kind == "try" for branch, _ in call.arms)
        if not tried and reading.target_function(call) is None:
            yield from _packed(reading, call)
    yield from _one_direction(reading)
    yield from _positions(reading)


def _packed(reading: Training, call: Call) -> Iterator[Match]:
    value = call.given("lengths", 1)
    text = expanded(reading, value, call, 2) if value is not None else ""
    if re.search(r"\.cuda\(\)$|\.to\((?:'cuda[:\d]*'|(?:self\.)?device|x\.device)\)$", text):
        yield Match(
            call.span, "lengths are on the GPU: pack_padded_sequence() takes them on the CPU"
        )
    sortedness = call.keywords.get("enforce_sorted") or (
        call.args[3] if len(call.args) > 3 else None
    )
    if sortedness is None and not reading.mentions("sort", "descending") and not call.unpacked:
        message = "sequences are not sorted by length, and enforce_sorted is True by default"
        here = reading.named("DataLoader") or reading.mentions("dataset", "collate", "pad_seq")
        reason = "" if here else "the batches are made in another file"
        yield Match(call.span, message, "warn", undecided=reason)
    first = call.keywords.get("batch_first") or (call.args[2] if len(call.args) > 2 else None)
    owner = reading.function(call.scope).owner
    layers = [
        c
        for n in reading.methods(*RECURRENT)
        if reading.function((c := reading.calls[n]).scope).owner == owner
    ]
    batch = layers and all(
        (v := c.keywords.get("batch_first")) is not None and v.literal is True for c in layers
    )
    moved = any(other.method in MOVES for other in reading.calls_in(call.scope))
    if first is None and batch and not moved and not call.unpacked:
        message = "the layer has the batch first, and pack_padded_sequence() the time"
        yield Match(call.span, message, "warn")


def _one_direction(reading: Training) -> Iterator[Match]:
    """h[-1] of a bidirectional layer."""
    for made in reading.named(*RECURRENT):
        value = made.keywords.get("bidirectional")
        owner = reading.function(made.scope).owner
        if value is None or value.literal is not True or not made.name.startswith("torch.nn."):
            continue
        forward = objects.method_of(reading, owner, "forward") if owner else None
        own = [(v, s) for v, s, scope in reading.expressions if scope == forward]
        text = " ".join(render(reading, v) for v, _ in own)
        whole = re.search(
            r"\[-2\]|\.view\(|\.reshape\(|\.transpose\(|\.permute\(|\bh\w*\[0\]|\.sum\(", text
        )
        for value, span in own if forward is not None and not whole else ():
            for part in flatten([value]):
                last = part.kind == "item" and len(part.items) == 2 and part.items[1].literal == -1
                if last and part.items[0].kind == "name" and HIDDEN.fullmatch(part.items[0].name):
                    name = part.items[0].name
                    message = f"{name}[-1] is one direction of {made.method}, {name}[-2] the other"
                    yield Match(span, message, "warn")
                    return


def _positions(reading: Training) -> Iterator[Match]:
    """x + self.pe[:x.size(0)], where the layers have the batch first."""
    first = [
        c
        for c in reading.calls
        if (v := c.keywords.get("batch_first")) is not None
        and v.literal is True
        and c.method.startswith(("Transformer", "MultiheadAttention"))
    ]
    if not first or any(reading.methods(name) for name in MOVES):
        return
    for value, span, _ in reading.expressions:
        found = re.search(
            r"\+self\.(\w*(?:pe|pos)\w*)\[:(\w+)\.(?:size\(0\)|shape\[0\])", render(reading, value)
        )
        if found:
            message = f"{found[1]} is cut to the number of samples: the layers have the batch first"
            yield Match(span, message)
            return


RULES = (
    Rule(
        code="SCR398",
        slug="sequence-axes",
        title="Sequences are packed, read and numbered along their time",
        severity="fail",
        find=sequences,
        why="Packing wants lengths on the CPU, in descending order unless it is told otherwise, "
        "and the axis of the time. Positions that are cut along the batch are those of samples.",
        fires=(
            "pack_padded_sequence(x, lengths.cuda(), ...)",
            "x + self.pe[:x.size(0)] beside batch_first=True",
            "pack_padded_sequence without enforce_sorted=False, and nothing sorts; without "
            "batch_first beside a layer that has it; h[-1] of a bidirectional layer (warnings)",
        ),
        fix="Pass lengths.cpu(), batch_first=True, enforce_sorted=False; "
        "torch.cat([h[-2], h[-1]], 1); self.pe[:, :x.size(1)].",
        sources=("torch-rnn-utils",),
        needs=("pack_padded_sequence", "bidirectional", "batch_first"),
    ),
)
