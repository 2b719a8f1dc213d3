"""Samples, batches and their lengths, inputs of transformers, and optimizers that do not fit the
model."""

from __future__ import annotations

import re

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import (
    Explanation,
    OwnProof,
    Proof,
    first_of,
    seen_as,
)
from doctor.checks.training.errors.heads import mask_for_each_head
from doctor.checks.training.errors.shapes import CLASSES, LOSSES
from doctor.checks.training.errors.sizes import sizes_of, text
from doctor.checks.training.errors.words import listed, words
from doctor.errors.tables.factory import IN_CONTAINERS, MISSPELLED, NOT_MADE, PLAIN_TENSORS
from doctor.facts.observations import (
    AbsentInSamples,
    Layout,
    Missing,
    OptimizerGroups,
    OptimizerState,
    ParameterCount,
    Schedule,
    SharedParameters,
    Signature,
    StateKeys,
    TransformerInputs,
    UnequalSamples,
)
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Raised

LEADING = re.compile(r"^(.*)\[\d+\]$")
SAMPLES_FIRST = (
    "Put the samples first: pad_sequence(sequences, batch_first=True), or x.transpose(0, 1) before "
    "the model, and batch_first=True in recurrent layers and in nn.MultiheadAttention."
)
NO_INPUTS = (
    "Pass input_ids: the batch has no field of that name. A Trainer removes every column that "
    "forward() does not name, so rename the column of token ids to input_ids where it is made, or "
    "let the collate function return it."
)
MASK_FIX = (
    "A padding mask has its samples first whatever the input has. Where the input is (length, "
    "samples, width), transpose the mask: (ids == PAD).T; where it is (samples, length, width), "
    "pass batch_first=True to the layer."
)


LABELS_FIX = (
    "The collator pads the inputs and leaves the labels as they are. Take one that pads both in "
    "its place, DataCollatorForSeq2Seq(tokenizer), or DataCollatorForTokenClassification(tokenizer)"
    " for labels of tokens. DataCollatorForLanguageModeling makes the labels itself: leave them "
    "out of the samples."
)


ONE_HOT = (
    "Pass the number of the class in place of a row for each sample: labels.argmax(1) where each "
    "row has one 1, without a view(-1) or flatten() of the labels. Where rows have several, use "
    "binary_cross_entropy_with_logits(logits, labels.float()), with labels as they are."
)


# Lengths


def labels_unpadded(raised: Raised) -> Explanation | None:
    """Labels of other lengths, which a collator of transformers is to make a tensor of."""
    seen = raised.first(UnequalSamples)
    if seen is None or seen.field != "'labels'" or "activate truncation" not in raised.message:
        return None
    sizes = ", ".join(text(each) for each in seen.sizes[:2])
    return Explanation(f"'labels' of the samples: {sizes}", LABELS_FIX)


def mask_of_samples_first(raised: Raised) -> Explanation | None:
    """A mask of padding in the order of the query, which the layer takes with the length first."""
    layout, query = raised.first(Layout), raised.operand("query")
    masks = [sizes for name, sizes in layout.inputs.items() if "padding_mask" in name] \
        if layout else []  # fmt: skip
    if not masks or query is None or len(sizes_of(query)) != 3:
        return None
    if layout and layout.batch_first and layout.inputs.get("query") == sizes_of(query):
        return None  # the layer has not put the length first yet
    length, samples = sizes_of(query)[:2]
    if length == samples or masks[0] != (length, samples):
        return None
    return Explanation(
        f"the attention takes its input {text(sizes_of(query))} for {samples} samples of length "
        f"{length}, and takes a mask ({samples}, {length}); this one is {text(masks[0])}",
        MASK_FIX,
    )


def samples_second(raised: Raised, own: OwnModel) -> Explanation | None:
    if clause := _rows_of_the_longest(raised, own) or _lengths_of_the_first(raised, own):
        return Explanation(clause, SAMPLES_FIRST)
    return None


def _rows_of_the_longest(raised: Raised, own: OwnModel) -> str:
    """As many predictions as the longest sequence has positions, and one label for each."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if not LOSSES.search(raised.function) or prediction is None or target is None:
        return ""
    rows, labels = sizes_of(prediction)[:1], sizes_of(target)[:1]
    for name, shapes in _sequences(own).items():
        if rows != labels == (len(shapes),) and rows == (max(size[0] for size in shapes),):
            return (
                f"{rows[0]} predictions against {labels[0]} labels: {name or 'the batch'} has "
                f"{labels[0]} sequences, of which the longest has {rows[0]} positions"
            )
    return ""


def _lengths_of_the_first(raised: Raised, own: OwnModel) -> str:
    """Lengths whose largest is the first dimension, which a layer takes for the samples."""
    layout = raised.first(Layout)
    whole = [each for each in own.batch if len(each.shape) == 1 and "int" in each.dtype]
    for lengths in whole if layout is not None and layout.batch_first else ():
        longest = -1 if lengths.high is None else int(float(lengths.high))
        for each in own.batch:
            if each.shape[:2] == (longest, *lengths.shape):
                return (
                    f"of {each.name} of the batch, {text(each.shape)}, the first dimension is the "
                    f"largest of {lengths.name}, and the second one the number of samples"
                )
    return ""


def _sequences(own: OwnModel) -> dict[str, list[Sizes]]:
    """The lists of tensors in the batch, by their names."""
    lists: dict[str, list[Sizes]] = {}
    for each in own.batch:
        if (match := LEADING.match(each.name)) and each.shape:
            lists.setdefault(match[1], []).append(each.shape)
    return lists


def labels_of_another_length(raised: Raised, own: OwnModel) -> Explanation | None:
    """Another number of predictions than of labels, both a multiple of the samples."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if raised.function not in CLASSES or prediction is None or target is None:
        return None
    rows, labels = sizes_of(prediction), sizes_of(target)
    firsts = {each.shape[0] for each in own.batch if each.shape}
    if len(rows) != 2 or len(labels) != 1 or rows[0] == labels[0] or len(firsts) != 1:
        return None
    samples = firsts.pop()
    if samples < 2 or rows[0] % samples or labels[0] % samples or labels[0] == samples:
        return None
    have, want = rows[0] // samples, labels[0] // samples
    if have == 1 and want == rows[1]:
        return Explanation(
            f"{want} labels for each of {samples} samples, as many as classes", ONE_HOT
        )
    names = [each.name for each in own.batch if {want, want + 1} & set(each.shape[1:2])]
    embedded = [each.positions for each in raised.all(TransformerInputs)]
    cause = f"in each of {samples} samples {have} predictions against {want} labels"
    cause += f" ({listed(names)} of the batch)" if names else ""
    cause += (
        f"; inputs_embeds has {embedded[0]} positions" if {have, have + 1} & {*embedded} else ""
    )
    if have < want:
        return Explanation(
            cause,
            f"Cut the labels to the {have} positions that the model computes, or leave its input "
            "as long as they are: a stride, a pooling or truncation shortens it.",
        )
    return Explanation(
        cause,
        f"Where the model puts {have - want} positions before its input (a prompt, a class token, "
        f"an image), prepend as many ignored labels, torch.cat([labels.new_full((len(labels), "
        f"{have - want}), -100), labels], 1), or leave them out of the logits, "
        f"logits[:, {have - want}:]. Otherwise make the labels from the same sequences.",
    )


def removed_columns(raised: Raised, own: OwnModel) -> Explanation | None:
    """Columns that a Trainer removed, where forward lacks an argument, a key or its labels."""
    if not own.removed_columns:
        return None
    names = listed(own.removed_columns)
    cause = f"the Trainer removed {names} of the samples, which forward has no argument for"
    if "did not return a loss" in raised.message:
        return Explanation(
            f"{cause}, so that no labels are left",
            f"Rename the column with the targets ({names}) to labels, or to label, which the "
            "default collator renames: dataset.rename_column(NAME, 'labels').",
        )
    absent = [each.needs for each in raised.all(Signature) if each.of_model]
    if not (absent or raised.all(Missing)):
        return None
    return Explanation(
        cause,
        "Give the columns of the data the names of forward's arguments, or forward theirs; or "
        "pass remove_unused_columns=False with a data_collator that makes what forward takes.",
    )


def sample_of_one_row(raised: Raised, own: OwnModel) -> Explanation | None:
    """Token ids [samples, 1, length], whose sizes a library unpacks as two."""
    rows = [each for each in own.batch if "int" in each.dtype and len(each.shape) == 3]
    rows = [each for each in rows if each.shape[1] == 1]
    if raised.place or not rows or not raised.message.startswith("too many values to unpack"):
        return None
    return Explanation(
        f"{listed([each.name for each in rows])} of the batch: {text(rows[0].shape)} has a "
        "dimension of 1 that the model does not take",
        "Remove the dimension of 1 in the dataset: a tokenizer with return_tensors='pt' gives "
        "[1, length] for one text, take ['input_ids'][0], or leave return_tensors out.",
    )


# State dicts and optimizers


def prefixed_keys(raised: Raised) -> Explanation | None:
    for keys in raised.all(StateKeys):
        if prefix := prefix_of(keys.unexpected, keys.missing):
            return Explanation(
                f"the keys of the file begin with {prefix}",
                f"Remove the prefix: {{key.removeprefix('{prefix}'): value for key, value in "
                "state.items()}.",
            )
        if prefix := prefix_of(keys.missing, keys.unexpected):
            return Explanation(
                f"the keys of the model begin with {prefix}, those of the file do not",
                f"Load the file into that part, model.{prefix.rstrip('.')}.load_state_dict(state), "
                f"or add the prefix: {{'{prefix}' + key: value for key, value in state.items()}}.",
            )
    return None


def differing_keys(raised: Raised) -> Explanation | None:
    """Keys of a file that are not the model's, where they and not sizes are what is refused."""
    refused = "key(s) in state_dict" in raised.message
    keys = raised.first(StateKeys)
    return Explanation(words(keys)) if keys and refused else None


def prefix_of(longer: tuple[str, ...], shorter: tuple[str, ...]) -> str:
    """What each of the longer names has in front of one of the shorter ones, "" if not all have."""
    if not shorter or len(longer) < len(shorter):
        return ""
    prefixes = {name[: -len(shorter[0])] for name in longer if name.endswith(f".{shorter[0]}")}
    fitting = (prefix for prefix in prefixes
               if all(f"{prefix}{name}" in longer for name in shorter))  # fmt: skip
    return next(fitting, "")


def no_parameters(raised: Raised) -> Explanation | None:
    """Something else than parameters for an optimizer."""
    params = raised.operand("params")
    if params is None or params.kind in ("generator", "list", "tuple", "dict"):
        return None
    return Explanation(f"params is {params.value or 'one tensor'}")


def empty_parameter_list(raised: Raised) -> Explanation | None:
    """An optimizer beside a model that has no parameter, or only frozen ones."""
    seen = raised.first(ParameterCount)
    if seen is None:
        return None
    fix = ""
    if not seen.parameters:
        fixes = {"layers": IN_CONTAINERS, "tensors": PLAIN_TENSORS, "": NOT_MADE}
        fix = fixes.get(seen.held.partition(" ")[0], MISSPELLED)
    elif not seen.trainable:
        fix = (
            f"Call requires_grad_(True) on the part of {seen.model} that is to train, before the "
            f"optimizer is made: all {seen.parameters} parameters are frozen."
        )
    return Explanation(words(seen), fix)


PROOFS: dict[str, Proof] = {
    "absent-in-samples": seen_as(AbsentInSamples),
    "unequal-samples": first_of(labels_unpadded, seen_as(UnequalSamples)),
    "attention-mask-shape": first_of(mask_of_samples_first, mask_for_each_head),
    "decoder-without-inputs": seen_as(TransformerInputs, refused=True, decoder=True, ids=False),
    "ids-and-embeddings": first_of(
        seen_as(
            TransformerInputs, NO_INPUTS, refused=True, decoder=False, ids=False, embeddings=False
        ),
        seen_as(TransformerInputs, refused=True, decoder=False),
    ),
    "prefixed-keys": prefixed_keys,
    "state-dict-keys": differing_keys,
    "shared-parameters": seen_as(SharedParameters),
    "empty-parameter-list": empty_parameter_list,
    "no-parameters": no_parameters,
    "schedule-end": seen_as(Schedule),
    "state-of-another-optimizer": first_of(seen_as(OptimizerState), seen_as(OptimizerGroups)),
}
OWN_PROOFS: dict[str, OwnProof] = {
    "samples-second": samples_second,
    "labels-of-another-length": labels_of_another_length,
    "columns-dropped": removed_columns,
    "extra-dimension": sample_of_one_row,
}
