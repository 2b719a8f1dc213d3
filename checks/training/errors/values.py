"""Values that are None, of another type, dtype or device, or outside of a range."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import (
    Explanation,
    Proof,
    first_of,
    named,
    seen_as,
)
from doctor.checks.training.errors.shapes import CLASSES
from doctor.checks.training.errors.sizes import INTEGERS, sizes_of, tensors, text
from doctor.checks.training.errors.words import allowed, words
from doctor.facts.observations import (
    IndexRange,
    NoneValue,
    Parts,
    Returned,
    Variable,
    Violation,
    ZeroDivisor,
)
from doctor.facts.raised import Operand, Raised

PROBABILITIES = ("binary_cross_entropy_with_logits", "binary_cross_entropy")
IGNORED = (-100, -1, 255)
"""Labels that mark what is to be ignored: in torch, in masks, in images of classes."""


# None and other types


def module_without_return(raised: Raised) -> Explanation | None:
    returned = [each for each in raised.all(Returned) if each.value == "None"]
    attributes = any("." in each.name for each in raised.all(NoneValue))
    if not returned or attributes:
        return None
    name, kind = returned[0].module, returned[0].kind
    return Explanation(
        f"{name} ({kind}) returned None",
        f"Return the result at the end of forward of {kind} ({name}): without a return it is None.",
    )


def argument_not_passed(raised: Raised) -> Explanation | None:
    for each in raised.all(NoneValue):
        if each.function:
            return Explanation(
                words(each),
                f"Pass {each.name} to {each.function}, or handle that it is None before that line "
                f"(if {each.name} is not None).",
            )
    return None


def value_is_none(raised: Raised) -> Explanation | None:
    names = [each.name for each in raised.all(NoneValue) if not each.function]
    return Explanation(f"None: {', '.join(names)}") if names else None


def module_returns_tuple(raised: Raised) -> Explanation | None:
    for each in raised.all(Returned):
        if each.value != "None":
            return Explanation(
                f"{each.module} ({each.kind}) returns a {each.value}",
                f"Take the tensor out of the {each.value} that {each.module} returns, output[0]: "
                "nn.LSTM and nn.GRU return (output, state), nn.MultiheadAttention (output, "
                "weights). In nn.Sequential that needs a module of its own, whose forward returns "
                "x[0].",
            )
    return None


def no_tensor(raised: Raised) -> Explanation | None:
    """An argument of a function of torch that is no tensor."""
    wrong = [each for each in raised.operands if each.name.partition("[")[0] in ("input", "target")
             and (each.shape is None or each.kind == "ndarray")
             and each.kind not in ("NoneType", "int", "float")]  # fmt: skip
    if not wrong:
        return None
    return Explanation(f"{wrong[0].name} is {wrong[0].kind} {wrong[0].value}".strip(), AS_TENSOR)


AS_TENSOR = (
    "Pass a tensor: texts and words as numbers (ids of a tokenizer, names.index(name)), arrays by "
    "torch.from_numpy, a record of a model of transformers by its field, .logits, a tuple by its "
    "member, x[0], a PackedSequence by nn.utils.rnn.pad_packed_sequence."
)
CALL_THE_MODEL = (
    "Call the model in the loss: a function is called as loss(module, batch). Only an instance of "
    "nn.Module or a function of torch.nn.functional gets (output, target)."
)


def unpacked_rows(raised: Raised) -> Explanation | None:
    """A tensor is unpacked along its first dimension."""
    for each in raised.all(Parts):
        if each.shape is not None:
            return Explanation(
                words(each),
                f"Unpacking goes along the first dimension, {each.count} rows: transpose it first "
                f"({each.name}.t()), or unbind the dimension that is meant, .unbind(-1).",
            )
    return None


def criterion_created(raised: Raised) -> Explanation | None:
    """A criterion that gets prediction and target when it is created."""
    name = re.fullmatch(r"(\w*Loss)\.__init__", raised.caller)
    if not name or raised.function != "__bool__":
        return None
    return Explanation(
        f"{name[1]} gets the tensors where it is created",
        f"Create the criterion first, then call it: nn.{name[1]}()(prediction, target).",
    )


def number_as_text(raised: Raised) -> Explanation | None:
    """An option that is a text, as YAML reads 1e-4."""
    texts = [each for each in raised.operands if re.fullmatch(r"'[\d.eE+-]+'", each.value)]
    if not texts:
        return None
    return Explanation(
        f"{texts[0].name} is the text {texts[0].value}",
        f"Convert it, {texts[0].name}=float(...). In YAML write 1.0e-4: without the point, 1e-4 is "
        "a text.",
    )


# Dtypes and devices


def embedding_of_floats(raised: Raised) -> Explanation | None:
    ids = raised.operand("input")
    if raised.function != "embedding" or ids is None or ids.dtype in ("", "int64", "int32"):
        return None
    return Explanation(f"the ids are {ids.dtype}")


def images_of_bytes(raised: Raised) -> Explanation | None:
    x, weight = raised.operand("input"), raised.operand("weight")
    if x is None or weight is None or x.dtype != "uint8":
        return None
    return Explanation(
        "the input is uint8",
        "Convert the images to floats, images.float() / 255, or let a transform do it (ToTensor, "
        "ConvertImageDtype).",
    )


def dtype_of_labels(raised: Raised) -> Explanation | None:
    """Labels of another dtype than the loss takes."""
    logits, target = raised.operand("input"), raised.operand("target")
    if logits is None or target is None or logits.dtype in INTEGERS:
        return None
    same = sizes_of(target) == sizes_of(logits)
    as_indices = raised.function in CLASSES and not same
    wrong = {
        True: target.dtype not in ("int64", "uint8"),
        False: target.dtype in INTEGERS,
    }[as_indices]
    known = raised.function in (*CLASSES, *PROBABILITIES)
    if not known or not wrong or not (same or (as_indices and _indices(logits, target))):
        return None
    shaped = " and has the shape of class indices" if as_indices else ""
    return Explanation(
        f"the target {text(sizes_of(target))} is {target.dtype}{shaped}",
        "Convert the labels: cross_entropy takes class indices as int64, labels.long(), or a "
        "probability for each class as floats; binary_cross_entropy takes floats, labels.float(). "
        "One-hot labels of integers become indices with labels.argmax(1).",
    )


def _indices(logits: Operand, target: Operand) -> bool:
    sizes = sizes_of(logits)
    return len(sizes) > 1 and sizes_of(target) == (sizes[0], *sizes[2:])


def exchanged_arguments(raised: Raised) -> Explanation | None:
    prediction, target = raised.operand("input"), raised.operand("target")
    if prediction is None or target is None or not target.dtype.startswith(("float", "bfloat")):
        return None
    if prediction.dtype not in INTEGERS:
        return None
    return Explanation(
        f"the first argument is {prediction.dtype}, the second {target.dtype}",
        f"Change their order: {raised.function}(prediction, target).",
    )


def result_in_integers(raised: Raised) -> Explanation | None:
    """A tensor of integers that is to hold floats."""
    changed, other = (*tensors(raised), None, None)[:2]
    if not raised.function.endswith("_") or changed is None or other is None:
        return None
    if changed.dtype not in INTEGERS or other.dtype in INTEGERS:
        return None
    return Explanation(f"a tensor of {changed.dtype} is to hold a result of {other.dtype}")


def mixed_dtypes(raised: Raised) -> Explanation | None:
    floating = [each for each in tensors(raised) if each.dtype not in INTEGERS]
    if len({each.dtype for each in floating}) < 2:
        return None
    listed = ", ".join(f"{named(each, text(sizes_of(each)))} is {each.dtype}" for each in floating)
    return Explanation(listed)


def two_devices(raised: Raised) -> Explanation | None:
    devices = {each.device for each in tensors(raised)}
    if len(devices) < 2:
        return None
    listed = (
        f"{named(each, text(sizes_of(each)))} is on {each.device}" for each in tensors(raised)
    )
    return Explanation(
        ", ".join(listed),
        "Create new tensors on the device of the inputs (torch.arange(n, device=x.device)), "
        "register constants with register_buffer, and layers as attributes or in nn.ModuleList, so "
        "that the model's .to(device) moves them.",
    )


# Ranges


def ignored_label(raised: Raised) -> Explanation | None:
    """A label that marks what is ignored, and is used as an index."""
    for each in raised.all(IndexRange):
        marks = [n for n in (each.low, each.high) if n in IGNORED]
        if marks and raised.function.strip("_") not in ("getitem", "setitem"):
            return Explanation(
                words(each),
                f"Replace the label {marks[0]}, which marks what is ignored, before it is used as "
                f"an index: labels.masked_fill(labels == {marks[0]}, 0), and leave these places "
                "out of the result.",
            )
    return None


def one_hot(raised: Raised) -> Explanation | None:
    for each in raised.all(IndexRange) if raised.function == "one_hot" else ():
        return Explanation(
            words(each),
            f"Pass num_classes={each.high + 1} or more to one_hot, or map the labels to "
            f"{allowed(each)}. A label of its own for the background takes one class more.",
        )
    return None


def beyond(raised: Raised) -> Explanation | None:
    """An index that is larger than what it indexes."""
    for each in raised.all(IndexRange) if raised.function != "one_hot" else ():
        return Explanation(
            words(each),
            f"Let the index stay within {allowed(each)}, or make the tensor larger that it reads "
            "or writes: labels that begin with 1, positions beyond a maximal length, indices of "
            "another table and nodes that a filter removed are the usual reasons.",
        )
    return None


OUTSIDE = (
    "Bring the values that log_prob gets into that range (torch.sigmoid, exp, .round(), another "
    "scale of the data), or choose a distribution of such values. Number actions or classes from 0."
)
CONSTRAINTS = (
    (
        r"Interval\(lower_bound=0\.?0?, upper_bound=1\.?0?\)|Simplex",
        "Pass logits={name} of a layer without activation in place of probs=, or make "
        "probabilities first: torch.sigmoid for each value, torch.softmax over classes.",
    ),
    (
        r"GreaterThan|Positive\b|greater_than|nonnegative",
        "Make {name} positive: torch.nn.functional.softplus({name}) + 1e-6, or exp of a "
        "logarithm that the network gives; relu and abs reach 0.",
    ),
    (
        r"Positive(Semi)?[Dd]efinite|Lower(Cholesky|Triangular)",
        "Build {name} so that it is positive definite: L @ L.mT + 1e-4 * torch.eye(n), or pass "
        "scale_tril=L, a lower triangle whose diagonal went through softplus.",
    ),
)
"""Constraint of a parameter, as torch names it -> what to do."""


def constrained_parameter(raised: Raised) -> Explanation | None:
    """Values that a distribution refuses for a parameter."""
    for each in raised.all(Violation):
        for pattern, fix in CONSTRAINTS if each.parameter != "value" and not each.nan else ():
            if re.search(pattern, each.constraint):
                return Explanation(words(each), fix.format(name=each.parameter))
    return None


CLAMPED = (
    "Look at why the divisor is 0: an empty group, a count or a length of 0. Clamp it, "
    "divisor.clamp(min=1), or leave these elements out."
)
PROOFS: dict[str, Proof] = {
    "ignored-label-as-index": ignored_label,
    "one-hot-classes": one_hot,
    "index-out-of-range": beyond,
    "distribution-parameters": constrained_parameter,
    "distribution-support": seen_as(Violation, OUTSIDE, parameter="value", nan=False),
    "function-without-return": module_without_return,
    "value-is-none": first_of(argument_not_passed, value_is_none),
    "ambiguous-truth": criterion_created,
    "tuple-of-outputs": first_of(module_returns_tuple, no_tensor),
    "not-a-tensor": first_of(seen_as(Variable, CALL_THE_MODEL, kind="model"), no_tensor),
    "division-by-zero": seen_as(ZeroDivisor, CLAMPED),
    "parts-of-value": unpacked_rows,
    "number-as-text": number_as_text,
    "integer-input": exchanged_arguments,
    "index-dtype": embedding_of_floats,
    "target-dtype": dtype_of_labels,
    "in-place-dtype": result_in_integers,
    "device-mismatch": two_devices,
    "dtype-mismatch": first_of(images_of_bytes, mixed_dtypes),
}
