"""Inputs that a model of transformers or a packed sequence refuses, and labels of another length
than the sequences that the model computes."""

from __future__ import annotations

from doctor.checks.training.errors.explanation import Explanation, shape
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised

CLASSES = ("cross_entropy", "nll_loss")


def explain(own: OwnModel) -> Explanation | None:
    if own.raised is None:
        return None
    return ids(own.raised) or packed(own.raised) or lengths(own, own.raised)


PACKED = (
    (
        "must be sorted in decreasing order",
        "Pass enforce_sorted=False to pack_padded_sequence, or sort the batch by length, the "
        "longest first",
    ),
    (
        "should be a 1D CPU int64 tensor",
        "Pass lengths.cpu() to pack_padded_sequence, one whole number for each sample",
    ),
    (
        "has to be greater than 0",
        "Leave out samples without elements, or pass lengths.clamp(min=1) to pack_padded_sequence",
    ),
)
"""Part of a message of pack_padded_sequence -> what to do."""


def packed(raised: Raised) -> Explanation | None:
    fix = next((text for part, text in PACKED if part in raised.message), None)
    if fix is None or "ength" not in raised.message:
        return None
    return Explanation("", f"{fix}, in {raised.place}." if raised.place else f"{fix}.")


def ids(raised: Raised) -> Explanation | None:
    """Both or neither of input_ids and inputs_embeds."""
    observed = raised.observed
    if (inputs := observed.get("ids passed")) is None:
        return None
    if inputs == "both":
        return Explanation(
            "both are passed",
            "Pass only one of input_ids and inputs_embeds: leave the other out of the call, or of "
            "the batch.",
        )
    passed = observed.get("passed") or "no tensor"
    if "of the decoder" not in observed:
        return Explanation(
            f"neither is passed: the model gets {passed}",
            "Pass the token ids as input_ids, or embeddings as inputs_embeds.",
        )
    cause = f"the decoder gets neither: the model gets {passed}"
    if "smooths labels" in observed:
        return Explanation(
            f"{cause}, and the Trainer with label_smoothing_factor takes the labels out",
            "Pass data_collator=DataCollatorForSeq2Seq(tokenizer, model=model) to the Trainer, "
            "which makes decoder_input_ids from the labels, or leave out label_smoothing_factor.",
        )
    return Explanation(
        cause,
        "Pass labels, from which the model makes the inputs of its decoder, or decoder_input_ids. "
        "Where the loss is computed outside of the model, DataCollatorForSeq2Seq(tokenizer, "
        "model=model) makes decoder_input_ids.",
    )


def lengths(own: OwnModel, raised: Raised) -> Explanation | None:
    """Another number of predictions than of labels, both a multiple of the samples."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if raised.function not in CLASSES or prediction is None or target is None:
        return None
    rows, labels = shape(prediction), shape(target)
    firsts = {each.shape[0] for each in own.batch if each.shape}
    if len(rows) != 2 or len(labels) != 1 or rows[0] == labels[0] or len(firsts) != 1:
        return None
    samples = firsts.pop()
    if samples < 2 or rows[0] % samples or labels[0] % samples or labels[0] == samples:
        return None
    have, want = rows[0] // samples, labels[0] // samples
    named = [each.name for each in own.batch if want in each.shape[1:2]]
    named = named or [each.name for each in own.batch if want + 1 in each.shape[1:2]]
    of_batch = f"; {', '.join(named)} of the batch {'have' if named[1:] else 'has'} that length"
    embedded = raised.observed.get("embedded")
    cause = f"{rows[0]} predictions against {labels[0]} labels: in each of {samples} samples "
    cause += f"{have} against {want}{of_batch * bool(named)}"
    if embedded in (str(have), str(have + 1)):
        cause += f"; inputs_embeds has {embedded} positions"
    return Explanation(cause, _length_fix(have, want, known=embedded is not None))


def _length_fix(have: int, want: int, *, known: bool) -> str:
    if have < want:
        return (
            f"Cut the labels to the {have} positions that the model computes, or leave its input "
            "as long as they are: a stride, a pooling or truncation shortens it."
        )
    ignored = f"torch.cat([labels.new_full((len(labels), {have - want}), -100), labels], 1)"
    prepended = f"prepend {have - want} ignored labels to each sample, {ignored}"
    if known:
        return f"{prepended[0].upper()}{prepended[1:]}: positions of a prompt have no label."
    return (
        f"If the model puts {have - want} positions before its input (a prompt, a class token, an "
        f"image), {prepended}, or leave them out of the logits, logits[:, {have - want}:]. "
        "Otherwise make the labels from the same sequences as the input."
    )
