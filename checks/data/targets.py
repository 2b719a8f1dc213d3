"""Each position is trained on the next token: the loss's own shift, and that of the labels."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checks.data.seen import no_training, of_tokens, read_of
from doctor.facts.data import Data, Labels, Offset, Split
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown

AGREED = 0.95
"""Share of positions that must agree on an offset. Our own number."""
FEW = 16
"""Positions below which labels are not compared."""


def next_token(data: Data) -> Verdict:
    split = data.split()
    if split is None or not split.rows:
        return no_training(data)
    labels = split.labels
    if labels is None or not labels.trained:
        return skip("no label is a token of its row")
    if labels.objective != "next token":
        return skip("the labels are not the row's own tokens")
    of_labels = _agreed(labels.matches, labels.compared)
    if labels.compared < FEW or of_labels is None:
        return unknown(f"only {labels.compared:,} labels could be compared with their row")
    return _judge(of_labels, labels, data.offset, split)


def _judge(
    of_labels: int, labels: Labels, offset: Offset | Unknown | None, split: Split
) -> Verdict:
    seen = f"{labels.compared:,} labels of {read_of(split)}"
    if offset is None:
        if of_labels in (0, 1):
            return skip(f"{LABELS[of_labels]}; whether the loss shifts them needs a model")
        return fail(f"{_labels(of_labels)}, in {seen}: no model is trained on that")
    if isinstance(offset, Unknown):
        return unknown(f"{_labels(of_labels)}; where the loss reads them: {offset.reason}")
    of_loss = _agreed(offset.shifts, offset.positions)
    if of_loss is None:
        return unknown(f"{_labels(of_labels)}; the loss of a label does not depend on the tokens "
                       "before it alone, so its shift was not measured")  # fmt: skip
    if of_loss < 0:
        return skip(f"{_labels(of_labels)}, and the model sees later tokens, see DAT015")
    total = of_labels + of_loss
    parts = f"{_labels(of_labels)}, and {_shift(of_loss)}"
    if total == 1:
        return ok(f"the output at t is trained on the token t+1: {parts} ({seen})")
    return fail(f"the output at t is trained on the token {_at(total)}: {parts} ({seen})",
                fix=_fix(of_labels, of_loss))  # fmt: skip


def _agreed(numbers: dict[str, int], whole: int) -> int | None:
    """The offset that nearly all positions have."""
    best = max(numbers, key=lambda each: numbers[each], default=None)
    return int(best) if best is not None and numbers[best] >= AGREED * whole else None


LABELS = {0: "labels are the row's tokens at the same place", 1: "labels are the next tokens"}


def _labels(offset: int) -> str:
    return LABELS.get(offset, f"the label at t is the token {_at(offset)}")


def _shift(offset: int) -> str:
    return "the loss does not shift them" if not offset else f"the loss shifts them by {offset}"


def _at(offset: int) -> str:
    return "t" if not offset else f"t{offset:+d}"


def _fix(of_labels: int, of_loss: int) -> str:
    if of_labels and of_loss:
        return "Shift once: give the model labels equal to input_ids, it shifts them itself."
    return "Shift the labels by one: labels[:, :-1] = input_ids[:, 1:], or use a loss that does."


NEXT = Check(
    code="DAT006",
    slug="next-token-trained",
    title="Each position is trained on the next token",
    why="A collator that shifts labels which the model shifts again trains every position on the "
    "token after the next one. The loss falls, and the model is useless.",
    passes=("the shift of the labels and that of the loss, both measured, are one together",),
    fails=("they are 0, 2 or more together, at 95 % of the positions",),
    fix="Shift the labels once, in the collator or in the model.",
    owner=Owner.JOB,
    judge=of_tokens(next_token),
    limits="that heads for further tokens are trained on them.",
    sources=("transformers-47394", "transformers-44642", "transformers-causal-loss"),
)

CHECKS = (NEXT,)
