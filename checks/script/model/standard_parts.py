"""A rule on standard parts of networks that are written out: norms, skips, class tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.loss.low_rank import scale_inverted
from doctor.checks.script.model.norm_axes import of_tokens
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import formulas, render, written_out
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call

SKIPS = {"skip", "skips", "bridge", "lateral", "shortcut"}
CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d")
NORMALIZES = re.compile(r"norm|standard|scale|z_?score|whiten|preprocess", re.IGNORECASE)
BY_VARIANCE = re.compile(
    r"\(\((?P<x>[\w.]+)-(?:torch\.mean\((?P=x)|(?P=x)\.mean\()[^()]*\)\)/"
    r"\(?(?:torch\.var\((?P=x)|(?P=x)\.var\()[^()]*\)"
    r"(?!\.sqrt|\.pow|\*\*|\+[\w.]+\)(?:\.sqrt|\.pow|\.rsqrt|\*\*))"
)
BY_RSQRT = re.compile(
    r"(?<!\b1)(?<!\b1\.0)(?<!\b1\.)/\(?(?:torch\.rsqrt\(|[\w.()+,=-]*\.rsqrt\(\))"
)
INVERSE = re.compile(r"denorm|de_norm|unnorm|un_norm|inver", re.IGNORECASE)
MEAN_ALONE = re.compile(r"sqrt\(\(\w+\.mean\([^()]*\)\+")


def written_norms(reading: Training) -> Iterator[Match]:
    """(x - x.mean()) / x.var(), and x * rsqrt(x.mean() + eps) in an RMSNorm."""
    inverted: set[int] = set()
    for text, span, scope in reading.cached(formulas):
        function = reading.function(scope)
        named = f"{function.owner} {function.name}"
        rms = re.search(r"rms_?norm", named, re.IGNORECASE) and "sqrt(" in text
        quotient = "/" in text and "-" in text and NORMALIZES.search(named)
        norm = "/" in text and re.search("norm", named, re.IGNORECASE) and not INVERSE.search(named)
        whole = written_out(reading, scope, text) if rms or quotient or norm else ""
        if norm and scope not in inverted and BY_RSQRT.search(whole):
            inverted.add(scope)
            yield Match(span, "rsqrt() is 1 / root: values are multiplied by it, not divided")
        if quotient and BY_VARIANCE.search(whole):
            yield Match(
                span,
                "values are divided by the variance: its root is meant",
                fix="(x - mean) / (var + eps).sqrt()",
            )
        if rms and MEAN_ALONE.search(whole):
            yield Match(
                span, "the mean is not that of squares", fix="x.pow(2).mean(-1, keepdim=True)"
            )


def joined(reading: Training) -> Iterator[Match]:
    """torch.cat([x, skip], dim=0) in a forward, and the class token looked for at the other end."""
    for call in reading.named("cat", "concat"):
        function = reading.function(call.scope)
        value, axis = call.first, call.given("dim", 1)
        given = value.items if value is not None else ()
        if function.name != "forward" or function.owner not in reading.modules or len(given) < 2:
            continue
        convolves = any(
            reading.function(each.scope).owner == function.owner
            for each in reading.named(*CONVOLUTIONS)
        )
        skips = convolves and any(
            SKIPS & {w for n in each.all_names for w in words(n)} for each in given[1:]
        )
        if axis is not None and axis.literal == 0 and skips:
            yield Match(
                call.span,
                "a skip is joined along the batch, not the channels",
                fix="torch.cat([x, skip], dim=1)",
            )
        first = written_out(reading, call.scope, render(reading, given[0]))
        if re.search(r"cls|class_tok", first) and _takes_last(reading, call):
            yield Match(
                call.span,
                "the class token comes first, and the last token is read",
                fix="Take [:, 0].",
            )


def _takes_last(reading: Training, call: Call) -> bool:
    """The result of the function is made of [:, -1], and of no other token."""
    texts = [render(reading, value) for value in reading.function(call.scope).returns]
    whole = " ".join(written_out(reading, call.scope, text) for text in texts)
    return "[:,-1]" in whole and "[:,0" not in whole and "flip" not in whole


RULES = (
    Rule(
        code="SCR435",
        slug="standard-part-of-a-network",
        title="Norms and joined features have their formulas",
        severity="fail",
        find=each_of(written_norms, of_tokens, joined, scale_inverted),
        why="A part that is written out with another axis or without its root trains without an "
        "error, as another network.",
        fires=(
            "(x - x.mean()) / x.var()",
            "x.mean(1, keepdim=True) in a LayerNorm of tokens (a warning)",
            "x / torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) in a norm",
            "x * torch.rsqrt(x.mean(-1, keepdim=True) + eps) in an RMSNorm",
            "torch.cat([x, skip], dim=0) in the forward of a module",
            "torch.cat([cls, x], dim=1), and [:, -1] of the result",
            "r / alpha as the scale of a low-rank update",
        ),
        fix="(x - mean) / (var + eps).sqrt(); x.pow(2).mean(-1, keepdim=True); dim=1; [:, 0]; "
        "alpha / r.",
        sources=("torch-module",),
        needs=("mean", "rsqrt", "cat", "concat", "scaling", "alpha", "lora_alpha"),
    ),
)
