"""A rule on how tokens are drawn: temperature, the best k, and where the next token goes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import formulas, lines, lines_of, written_out
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

HOT = re.compile(r"softmax\(\(.*\*(?:self\.|args\.|config\.)?(?:temperature|temp)\)")
NEXT = re.compile(
    r"torch\.multinomial\(.*,(?:num_samples=)?1\)|.*\.multinomial\((?:num_samples=)?1\)"
    r"|.*argmax\(.*keepdim=True\)"
)
BEST = re.compile(r"topk\(.*\[0\]|topk\(.*\.values")
ABOVE = re.compile(r"(?P<x>\w+)\[\(?(?P=x)\s*>=?\s*(?P<kth>\w+)(?:[\[.)].*|\])")
FILLED_ABOVE = re.compile(
    r"(?P<x>\w+)\.masked_fill_?\(\(?(?P=x)\s*>=?\s*(?P<kth>\w+)\b"
    r"|torch\.where\(\(?(?P<y>\w+)\s*<=?\s*(?P<low>\w+)[^,]*,(?P=y),"
)
"""All that is above a threshold is filled, or all that is below it is kept."""
EXCLUDES = re.compile(r"exclu|xtc|without_top|drop_top|remove_top")
"""Functions that are to leave the best out."""
LOWEST = re.compile(r"-(?:\w+\.)*inf\b|-?float\('-?inf'\)|-1e\+?\d+")


def drawn(reading: Training) -> Iterator[Match]:
    yield from _joined_along_batch(reading)
    yield from _worst_kept(reading)
    for text, span, scope in reading.cached(formulas):
        if "multinomial(" in text and HOT.search(written_out(reading, scope, text)):
            yield Match(
                span,
                "logits are multiplied by the temperature, not divided",
                fix="logits / temperature",
            )


def _joined_along_batch(reading: Training) -> Iterator[Match]:
    """ids = torch.cat((ids, next)) in a loop that draws the next token of each row."""
    table = reading.cached(lines)
    for line in table:
        if not line.loops or not line.text.startswith("torch.cat(("):
            continue
        name = re.escape(line.target)
        found = re.fullmatch(rf"torch\.cat\(\({name},(\w+)\)(?:,(?:dim=)?0)?\)", line.text)
        if found is None:
            continue
        rows = any("[:,-1" in other.text for other in table if other.scope == line.scope)
        if rows and any(
            NEXT.fullmatch(made.text) for made in lines_of(reading, line.scope, found[1])
        ):
            yield Match(
                line.span,
                "next tokens are joined along the batch: dim=1 is the time",
                fix="torch.cat((ids, next_token), dim=1)",
            )


def _worst_kept(reading: Training) -> Iterator[Match]:
    """out[out > kth] = -inf, also by masked_fill() or where(): all but the best are kept."""
    for line in reading.cached(lines):
        found = ABOVE.fullmatch(line.target) or FILLED_ABOVE.match(line.text)
        if found is None or not LOWEST.search(line.text):
            continue
        kth = found["kth"] or found["low"]
        made = [each.text for each in lines_of(reading, line.scope, kth)]
        smallest = any("largest=False" in text for text in made)
        if EXCLUDES.search(reading.function(line.scope).name) or smallest:
            continue
        if any(BEST.search(text) for text in made):
            yield Match(
                line.span,
                f"what is above {kth} is removed: the best are lost",
                fix=f"logits[logits < {kth}] = -inf",
            )


RULES = (
    Rule(
        code="SCR436",
        slug="tokens-drawn",
        title="Tokens are drawn from the best, and joined along the time",
        severity="fail",
        find=drawn,
        why="A text is made of the next token of each row. Joined along the batch, drawn from all "
        "but the best or at the inverse of the temperature, it is no sample of the model.",
        fires=(
            "ids = torch.cat((ids, next_token), dim=0) of a token for each row",
            "logits[logits > kth] = -inf, where kth is of topk()",
            "multinomial(softmax(logits * temperature))",
        ),
        fix="torch.cat((ids, next_token), dim=1); logits[logits < kth]; logits / temperature.",
        sources=("distillation",),
        needs=("multinomial", "argmax", "topk"),
    ),
)
