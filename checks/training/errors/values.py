"""Values that are None, of another type, dtype or device, or outside of a range."""

from __future__ import annotations

import re

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import (
    Explanation,
    Proof,
    first_of,
    named,
    seen_as,
)
from doctor.checks.training.errors.shapes import CLASSES
from doctor.checks.training.errors.sizes import INTEGERS, sizes_of, tensors, text
from doctor.checks.training.errors.words import words
from doctor.facts.observations import (
    Missing,
    NoneValue,
    Parts,
    Returned,
    Sample,
    Schedule,
    Signature,
    Variable,
    ZeroDivisor,
)
from doctor.facts.raised import Operand, Raised

PROBABILITIES = ("binary_cross_entropy_with_logits", "binary_cross_entropy")


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


def value_is_none(raised: Raised) -> Explanation | None:
    seen = raised.all(NoneValue)
    for each in seen:
        if each.function:
            return Explanation(
                words(each),
                f"Pass {each.name} to {each.function}, or handle that it is None before that line "
                f"(if {each.name} is not None).",
            )
    return Explanation(f"None: {', '.join(each.name for each in seen)}") if seen else None


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
    first = wrong[0]
    keys = re.findall(r"'(\w+)'", first.value) if first.value.startswith("{'") else []
    outputs = [key for key in keys if OUTPUTS.match(key)] if len(keys) > 1 else keys
    fix = TAKE_THE_FIELD.format(outputs[0]) if len(outputs) == 1 else ""
    return Explanation(f"{first.name} is {first.kind} {first.value}".strip(), fix)


OUTPUTS = re.compile(r"(?:logits|out(?:put)?s?|pred\w*|sample)$")
"""Names under which models return what a loss compares with the targets."""
TAKE_THE_FIELD = "Pass the tensor in the dict that the model returns: output['{}'], not the dict."


def arguments_of_forward(raised: Raised) -> Explanation | None:
    """What the forward pass of the model takes; of one argument that is missing, its name."""
    for each in raised.all(Signature):
        if each.of_model:
            missing = re.fullmatch(r".*missing 1 required positional argument: '(\w+)'",
                                   raised.message)  # fmt: skip
            fix = MISSING_ARGUMENT.format(missing[1]) if missing else ""
            return Explanation(words(each), fix)
    return None


MISSING_ARGUMENT = (
    "Pass {} to the forward pass as well, or give it a default: the batch needs a field for it (a "
    "tuple or list is passed as module(*batch), a dict as module(**batch)), or the loss passes it."
)
CALL_THE_MODEL = (
    "Call the model in the loss: a function is called as loss(module, batch), unless its first "
    "parameter is called output, logits or pred. An instance of nn.Module or a function of "
    "torch.nn.functional gets (output, target)."
)


def unpacked_parts(raised: Raised) -> Explanation | None:
    """Of a tensor, its rows."""
    for each in raised.all(Parts):
        rows = (
            f"Unpacking goes along the first dimension, {each.count} rows: transpose it first "
            f"({each.name}.t()), or unbind the dimension that is meant, .unbind(-1)."
        )
        return Explanation(words(each), rows if each.shape is not None else "")
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


def absent_from_config(raised: Raised) -> Explanation | None:
    """A setting that a library reads from the configuration of a model, and that has no default."""
    for each in raised.all(Missing):
        if each.kind == "attribute" and each.owner.endswith("Config") and not raised.place:
            return Explanation(
                f"the library reads {each.name} of {each.owner}, which has none",
                f"Pass {each.name}= where {each.owner}(...) is made{USUAL.get(each.name, '')}.",
            )
    return None


USUAL = {
    "decoder_start_token_id": ", the same number as pad_token_id for T5 and its like, or set "
    "model.config.decoder_start_token_id = model.config.pad_token_id"
}
"""Setting -> its usual value."""


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
    return Explanation("the input is uint8")


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
    fix = AS_FLOATS if raised.function in PROBABILITIES else _of_classes(raised, sizes_of(target))
    fix = AS_INDICES if as_indices else fix
    clause = f"the target {text(sizes_of(target))} is {target.dtype}{shaped}"
    return Explanation(clause, fix.format(raised.function))


AS_INDICES = (
    "Convert the labels where they are made: {} takes class indices as int64, labels.long()."
)
OF_ONE_LOGIT = (
    "Use torch.nn.functional.binary_cross_entropy_with_logits with labels.float(): over one output "
    "{} is always 0. For more than two classes give the last layer one output for each."
)
OF_ROWS = (
    "Where each row has one class (one-hot), pass class indices, labels.argmax(1). Where it may "
    "have several or none, these are labels of their own: use "
    "torch.nn.functional.binary_cross_entropy_with_logits with labels.float()."
)
AS_FLOATS = "Convert the labels where they are made: {} takes floats, labels.float()."


OF_PLACES = (
    "Where each place has one class (one-hot), pass class indices, labels.argmax over the "
    "dimension of the classes. {} takes dimension 1 of the logits for them: where they come last, "
    "logits.transpose(1, 2) of [samples, length, classes], with labels.argmax(-1). Where a place "
    "may have several classes or none, use "
    "torch.nn.functional.binary_cross_entropy_with_logits with labels.float()."
)


def _of_classes(raised: Raised, sizes: Sizes) -> str:
    """The remedy for whole numbers of the shape of the logits; "" of another loss."""
    if raised.function != "cross_entropy" or len(sizes) < 2:
        return ""
    if sizes[1] == 1:
        return OF_ONE_LOGIT
    return OF_ROWS if len(sizes) == 2 else OF_PLACES


def _indices(logits: Operand, target: Operand) -> bool:
    sizes = sizes_of(logits)
    return len(sizes) > 1 and sizes_of(target) == (sizes[0], *sizes[2:])


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
    pairs = [(named(each, text(sizes_of(each))), each.device) for each in tensors(raised)]
    return Explanation(", ".join(f"{name} is on {device}" for name, device in pairs))


PROOFS: dict[str, Proof] = {
    "module-without-return": module_without_return,
    "value-is-none": value_is_none,
    "ambiguous-truth": criterion_created,
    "module-returns-tuple": module_returns_tuple,
    "no-tensor": first_of(seen_as(Variable, CALL_THE_MODEL, kind="model"), no_tensor),
    "division-by-zero": first_of(seen_as(ZeroDivisor), seen_as(Schedule)),
    "embedding-of-floats": embedding_of_floats,
    "images-of-bytes": images_of_bytes,
    "dtype-of-labels": dtype_of_labels,
    "device-mismatch": two_devices,
    "meta-device": two_devices,
    "dtype-mismatch": mixed_dtypes,
}
NAMES: dict[str, Proof] = {
    "unpacked-rows": unpacked_parts,
    "index-of-list": seen_as(Sample),
    "missing-key": seen_as(Missing, kind="key"),
    "attribute-missing": first_of(absent_from_config, seen_as(Missing, kind="attribute")),
    "name-undefined": seen_as(Missing, kind="name"),
    "not-callable": first_of(
        seen_as(Variable, kind="one-tuple"), seen_as(Variable, kind="attribute")
    ),
    "arguments-of-forward": arguments_of_forward,
    "call-arguments": seen_as(Signature),
}
"""What Python's own error says, with what there is in its place: where nothing else is proven."""
