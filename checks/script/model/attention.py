"""Rules on attention: its formula, the layout of heads, and masks of what comes later."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.axis_uses import batch_first_input
from doctor.checks.script.model.einsums import over_queries, pooled_across
from doctor.checks.script.model.filled import beyond_half, nearly_zero
from doctor.checks.script.model.scaled import is_given, is_scaled
from doctor.checks.script.model.time_axis import LAYERS, time_first
from doctor.checks.script.model.triangles import written_masks
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

QK = re.compile(r"(?:\w*q\w*@\w*k\w*|matmul\(\w*q\w*,\w*k\w*)[\w.]*\.(?:transpose\(-[12],-[12]\)|"
                r"mT|T\b|transpose\([123],[123]\)|permute\()", re.IGNORECASE)  # fmt: skip


def formula(reading: Training) -> Iterator[Match]:
    for call in reading.calls:
        yield from _weights(reading, call)
        if call.method in ("view", "reshape"):
            yield from _heads(reading, call)
            yield from _merged(reading, call)


def _weights(reading: Training, call: Call) -> Iterator[Match]:
    """softmax of query times key: over the last axis, and scaled."""
    given = objects.softmax_of(reading, call)
    if given is None or not reading.function(call.scope).parameters:
        return
    value, axis = given
    text = render(reading, _defined(reading, value, call))
    found = QK.search(text)
    if not found:
        yield from over_queries(reading, call, text, axis)
        return
    if axis.literal in (0, 1, -2) and ".T" not in found[0]:
        yield Match(call.span, f"attention sums to 1 over axis {axis.literal}, not over the keys")
    if not is_scaled(reading, call, text, found[0]):
        message = "query times key is not divided by the root of its width"
        elsewhere = is_given(reading, call.scope, found[0])
        reason = "its callers are in other files, and may scale the query" if elsewhere else ""
        yield Match(call.span, message, "warn", undecided=reason)


def _defined(reading: Training, value: Value, call: Call, depth: int = 4) -> Value:
    """The product that a name holds, also scaled or masked since."""
    found = objects.last_definition(reading, value.name, call) if value.kind == "name" else []
    masked = [made for made in reading.calls_of(found) if _masks(made)]
    plain = [v for v in found if reading.call_of(v) not in masked]
    if masked and not plain:
        inner = objects.operand(masked[0])
        return _defined(reading, inner, masked[0], depth - 1) if inner and depth else value
    if len(plain) != 1 or not depth or any(made.receiver != value.name for made in masked):
        return value
    return _defined(reading, plain[0], call, depth - 1)


def _masks(made: Call) -> bool:
    """scores.masked_fill(mask, -inf): the same scores, without some."""
    return made.method in ("masked_fill", "masked_fill_")


def _heads(reading: Training, call: Call) -> Iterator[Match]:
    """view(B, heads, T, d), or view(B * heads, T, d), of what is (B, T, heads * d)."""
    given = call.args[0].items if len(call.args) == 1 else call.args
    if len(given) not in (3, 4) or call.name.startswith(("torch.", "numpy.")):
        return
    texts = [render(reading, value) for value in given]
    shape = _shape(reading, call)
    source = re.escape(call.receiver or "…")
    batch, place = (
        re.compile(rf"{re.escape(shape[axis]) if shape else '…'}|{source}\.(?:shape\[{axis}\]|"
                   rf"size\({axis}\))|\w+\.(?:shape\[{axis}\]|size\({axis}\))")
        for axis in (0, 1)
    )  # fmt: skip
    if len(given) == 3:
        joined = re.fullmatch(r"\(([\w.\[\]()]+)\*([\w.\[\]()]+)\)", texts[0])
        parts = joined.groups() if joined else ("", "")
        wrong = any(batch.fullmatch(a) and HEADS.search(b) for a, b in (parts, parts[::-1]))
        rest = texts[1]
    else:
        named = HEADS.search(texts[1]) and texts[1] not in shape
        wrong, rest = bool(named and batch.fullmatch(texts[0])), texts[2]
    if wrong and (rest == "-1" or place.fullmatch(rest)) and _is_projection(reading, call):
        yield Match(
            call.span,
            f"the axis of {shape[1] if shape else 'the places'} is not moved: view() mixes heads "
            "and places, transpose(1, 2) of view(B, T, heads, width) does not",
        )


HEADS = re.compile(r"head|(?:^|\.)(?:n_?)?h$|num_h|nhead|n_h\b", re.IGNORECASE)
JOINS = re.compile(r"scaled_dot_product_attention|@|matmul|bmm|einsum")


def _merged(reading: Training, call: Call) -> Iterator[Match]:
    """(B, heads, T, d) is viewed as (B, T, C), and the axes stay where they are."""
    given = call.args[0].items if len(call.args) == 1 else call.args
    shape = _shape(reading, call)
    if len(given) != 3 or len(shape) != 3 or [v.name for v in given[:2]] != shape[:2]:
        return
    value = objects.operand(call)
    text = expanded(reading, value, call, 2) if value is not None else ""
    while value is not None and value.kind == "call" and (
        reading.calls[value.call].method == "contiguous"
    ):  # fmt: skip
        value = objects.operand(reading.calls[value.call])
        text = expanded(reading, value, call, 2) if value is not None else ""
    parts = {name for name in re.findall(r"\b[qkv]\w*\b", text)} if JOINS.search(text) else set()
    split = parts & _in_heads(reading, call)
    product = expanded(reading, value, call, 1) if value is not None else ""
    weighted = {m for m in re.findall(r"@(\w+)\)$", product)} & _in_heads(reading, call)
    moved = re.search(r"transpose\(1,2\)|permute|swapaxes|rearrange|movedim", product)
    if (weighted or len(split) >= 2) and not moved:
        message = f"heads are the second axis: transpose(1, 2) is missing before {call.method}()"
        yield Match(call.span, message)


def _in_heads(reading: Training, call: Call) -> set[str]:
    """Names that are (B, heads, T, width) at last: x.view(B, T, heads, width).transpose(1, 2)."""
    split = re.compile(r"\.(?:view|reshape)\([^()]*,[^()]*,[^()]*,[^()]*\)\.transpose\(1,2\)$")
    place = reading.number(call)
    held = {
        a.target: render(reading, a.value)
        for a in reading.assignments
        if a.scope == call.scope and a.position <= place
    }
    return {name for name, text in held.items() if split.search(text)}


def _is_projection(reading: Training, call: Call) -> bool:
    inner = reading.before(call)
    if inner is None and call.receiver:
        values = objects.last_definition(reading, call.receiver, call)
        inner = reading.calls[values[0].call] if values and values[0].call >= 0 else None
        if inner is not None and inner.receiver == call.receiver:
            return False
    if inner is not None and inner.method in ("chunk", "split", "tensor_split"):
        inner = reading.before(inner)
    if inner is None:
        return False
    made = objects.callee(reading, inner)
    return bool(made) and all(m is not None and m.name == "torch.nn.Linear" for m in made)


def _shape(reading: Training, call: Call) -> list[str]:
    """B, T and C of `B, T, C = x.shape` or of x.size()."""
    spans: dict[Span, list[str]] = {}
    for each in reading.assignments:
        names = each.value.names
        if each.scope == call.scope and any(name.endswith(".shape") for name in names):
            spans.setdefault(each.span, []).append(each.target)
    triples = [targets for targets in spans.values() if len(targets) == 3]
    return triples[0] if len(triples) == 1 else _unpacked(reading, call)


def _unpacked(reading: Training, call: Call) -> list[str]:
    for made in reading.calls_in(call.scope):
        if made.method == "size" and not made.args and len(made.targets) == 3:
            return list(made.targets)
    return []


MASKED = {"mask", "attn_mask", "src_mask", "tgt_mask"}


def later_places(reading: Training) -> Iterator[Match]:
    """Boolean masks: torch.nn hides what is True, scaled_dot_product_attention keeps it."""
    for call in reading.calls:
        keeps = call.method == "scaled_dot_product_attention"
        layer = not keeps and _is_layer(reading, call)
        for key in sorted(MASKED & call.keywords.keys()) if keeps or layer else ():
            text = expanded(reading, call.keywords[key], call, 3)
            kind = _triangle(text)
            if kind == ("upper" if keeps else "lower"):
                what = "kept" if keeps else "hidden"
                yield Match(
                    call.span, f"{key} is True where it should be False: these places are {what}"
                )
        if layer:
            yield from _unmasked(reading, call)


def _triangle(text: str) -> str:
    """lower or upper for where a boolean mask is True, "" for anything else."""
    boolean = re.search(r"\.bool\(\)|dtype=torch\.bool|==1\b|>0\b", text)
    inverted = text.startswith("~") or "==0" in text
    if not boolean or "masked_fill" in text or "inf" in text:
        return ""
    lower, upper = "tril(" in text, "triu(" in text
    if lower == upper:
        return ""
    return ("lower" if lower else "upper") if not inverted else ("upper" if lower else "lower")


def _is_layer(reading: Training, call: Call) -> bool:
    made = objects.callee(reading, call)
    return bool(made) and all(
        m is not None and m.name.startswith("torch.nn.") and m.method in LAYERS for m in made
    )


def _unmasked(reading: Training, call: Call) -> Iterator[Match]:
    """A language model of encoder layers without a mask."""
    owner = reading.function(call.scope).owner
    if MASKED & call.keywords.keys() or len(call.args) != 1 or call.unpacked or not owner:
        return
    if "is_causal" in call.keywords or reading.mentions("causal", "subsequent", "mlm", "masked"):
        return
    made = objects.callee(reading, call)
    if any(m is None or m.method != "TransformerEncoder" for m in made):
        return
    if _learns_next(reading, owner):
        yield Match(call.span, "each token sees those that it is to predict: no mask hides them")


def _learns_next(reading: Training, owner: str) -> bool:
    """The module gets x[:, :-1], and a loss compares its output with x[:, 1:]."""
    forward = objects.method_of(reading, owner, "forward")
    sites = objects.sites(reading, forward) if forward is not None else []
    for site in sites:
        call = reading.calls[site]
        for value in call.args[:1]:
            found = re.fullmatch(r"(\w+)\[\(?:,:-1\)?\]", expanded(reading, value, call, 2))
            target = found and f"{found[1]}[:,1:]"
            texts = [
                expanded(reading, v, reading.calls[n], 2)
                for n in reading.by_method.get("cross_entropy", [])
                + reading.by_loop.get(call.loops[-1] if call.loops else -1, [])
                for v in reading.calls[n].args
            ]
            if target and any(target in text for text in texts):
                return True
    return False


RULES = (
    Rule(
        code="SCR343",
        slug="attention-formula",
        title="Attention is a softmax over keys of scaled products, by head",
        severity="fail",
        find=each_of(formula, pooled_across, beyond_half, nearly_zero),
        why="The weights of one query sum to 1 over the keys. view(B, heads, T, width) of (B, T, "
        "heads * width) puts numbers of several tokens into one row. Products that are not scaled "
        "saturate the softmax. A number that fp16 does not hold raises.",
        fires=(
            "softmax of query @ key.transpose(-2, -1) over axis 0 or 1",
            "softmax of einsum('bhid,bhjd->bhij', q, k) over i, or over another axis than j",
            "torch.bmm(w.unsqueeze(1), h) of w = softmax(scores, dim=0)",
            "view(B, heads, T, width), or view(B * heads, T, width), of a projection of (B, T, C)",
            "view(B, T, C) of the result of heads that transpose(1, 2) moved, and that stay there",
            "query @ key filled with -1e9 where all of the file's autocast computes in fp16",
            "scores that a mask fills with -1e-9",
            "softmax of query @ key without a scale (a warning)",
        ),
        fix="(q @ k.transpose(-2, -1) / width**0.5).softmax(-1), with "
        "view(B, T, heads, width).transpose(1, 2).",
        sources=("torch-sdpa",),
        needs=("softmax", "Softmax", "view", "reshape", "masked_fill", "masked_fill_"),
    ),
    Rule(
        code="SCR344",
        slug="causal-mask",
        title="A causal mask hides what comes later, and nothing else",
        severity="fail",
        find=each_of(later_places, written_masks),
        why="In torch.nn a boolean mask is True where attention is not allowed; in "
        "scaled_dot_product_attention it is True where it is. The other way round a token sees "
        "only what it is to predict. Without a mask it sees both.",
        fires=(
            "torch.tril(...).bool() as mask of nn.Transformer layers or MultiheadAttention",
            "torch.triu(...).bool() as attn_mask of scaled_dot_product_attention",
            "scores.masked_fill(torch.triu(ones) == 0, -inf), or of torch.tril(ones).bool()",
            "torch.zeros(...).masked_fill(same & tril, -inf)",
            "an encoder without a mask that learns x[:, 1:] from x[:, :-1]",
        ),
        fix="Pass nn.Transformer.generate_square_subsequent_mask(n), or is_causal=True.",
        sources=("torch-sdpa", "torch-multihead"),
        needs=("TransformerEncoder", "TransformerDecoder", "Transformer", "MultiheadAttention",
               "scaled_dot_product_attention", "TransformerEncoderLayer", "tril", "triu"),
    ),
    Rule(
        code="SCR345",
        slug="time-axis-first",
        title="Attention layers get and give the time where they have it",
        severity="fail",
        find=each_of(time_first, batch_first_input),
        why="Without batch_first=True layers of torch.nn take (time, batch, width): attention runs "
        "over the samples of the batch, and axis 1 pools them.",
        fires=(
            "x[:, 0] or x.mean(dim=1) of a Transformer layer without batch_first",
            "MultiheadAttention without batch_first of what has the batch first (a warning)",
        ),
        fix="Pass batch_first=True.",
        sources=("torch-multihead",),
        needs=("TransformerEncoderLayer", "MultiheadAttention", "TransformerDecoderLayer"),
    ),
)  # fmt: skip
