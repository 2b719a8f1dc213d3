"""Values of another dtype, device or type than the call expects."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation, named, tensors
from doctor.facts.raised import Operand, Raised
from doctor.facts.training import HALVES

DTYPES = re.compile(
    r"same dtype|same scalar type|expected scalar type|should be the same|Found dtype"
    r"|dtypes match|scalar types: Long, Int|m1 and m2 to have|dtype to be equal",
    re.IGNORECASE,
)
DEVICES = re.compile(r"same device|expected device|two devices|tensor is on", re.IGNORECASE)


def explain(raised: Raised) -> Explanation | None:
    """The argument whose dtype, device or type differs, and its conversion."""
    if DEVICES.search(raised.message):
        return _devices(raised)
    if DTYPES.search(raised.message):
        return _dtypes(raised)
    if raised.function == "add_" and "desired output type" in raised.message:
        return _in_place(raised)
    return _outputs(raised) or _kinds(raised)


def _dtypes(raised: Raised) -> Explanation | None:
    first = next(iter(tensors(raised)), None)
    if first is None:
        return None
    if raised.function == "embedding":
        return Explanation(
            f"the ids are {first.dtype}",
            "Pass the ids as int64, as the tokenizer returns them: ids.long(), before anything "
            "scales or normalizes them.",
        )
    if first.dtype == "uint8":
        return Explanation(
            "the input is uint8",
            "Convert the images to floats, images.float() / 255, or let a transform do it "
            "(ToTensor, ConvertImageDtype).",
        )
    floating = [each for each in tensors(raised) if each.dtype not in ("int64", "bool")]
    if len({each.dtype for each in floating}) > 1:
        return _mixed(floating)
    integers = next((each for each in tensors(raised) if each.dtype == "int64"), None)
    if integers is None or not floating:
        return None
    name = named(integers, "one argument")
    return Explanation(f"{name} is int64", f"Convert {name} with .float().")


def _mixed(floating: list[Operand]) -> Explanation:
    """Arguments of two dtypes, parameters among them or not."""
    kinds = sorted({each.dtype for each in floating})
    inputs = [each.dtype for each in floating if not each.parameter]
    half = next((each.dtype for each in floating if each.parameter and each.dtype in HALVES), "")
    cause = ", ".join(f"{named(each, '')} is {each.dtype}" for each in floating[:3])
    if not all(each.name.strip() or each.parameter for each in floating[:3]):
        cause = f"{' and '.join(kinds)} are mixed"
    double = next((e for e in floating if e.dtype == "float64" and not e.parameter), None)
    if double is not None:
        return Explanation(
            cause,
            f"Convert {named(double, 'the input')} with .float(): arrays of numpy are float64, and "
            "torch.from_numpy keeps that.",
        )
    if half and "float32" in inputs:
        return Explanation(
            cause,
            "Leave the weights in fp32 (no .half() or .bfloat16(), dtype=torch.float32 for "
            "from_pretrained) and compute under autocast (--recipe amp), or convert the input: "
            f"x.to(torch.{half}).",
        )
    return Explanation(
        cause,
        "Give both one dtype, other.to(x.dtype). Under autocast linear layers and matrix products "
        f"return {next((k for k in kinds if k in HALVES), 'half precision')}; tensors from "
        "torch.zeros are float32 unless they get dtype=.",
    )


def _in_place(raised: Raised) -> Explanation | None:
    changed, other = (*tensors(raised), None, None)[:2]
    if changed is None or other is None:
        return None
    return Explanation(
        f"a tensor of {changed.dtype} is to hold a result of {other.dtype}",
        "Create the tensor that is changed in place as floats, torch.zeros(n), instead of "
        "integers.",
    )


def _devices(raised: Raised) -> Explanation | None:
    by_device: dict[str, list[Operand]] = {}
    for each in tensors(raised):
        by_device.setdefault(each.device, []).append(each)
    if len(by_device) < 2:
        return None
    cause = ", ".join(
        f"{' and '.join(named(each, 'a tensor') for each in members[:2])} on {device}"
        for device, members in by_device.items()
    )
    on_cpu = by_device.get("cpu", [])
    weights = [each.name for each in on_cpu if each.name in ("weight", "bias")]
    if weights and not any(each.parameter for each in on_cpu):
        return Explanation(
            cause,
            "Register the layer, so that the model's .to(device) moves it: assign it to an "
            "attribute, or put it into nn.ModuleList or nn.ModuleDict instead of a plain list or "
            "dict.",
        )
    return Explanation(
        cause,
        "Create new tensors on the device of the inputs (torch.arange(n, device=x.device)), "
        "register constants with register_buffer, and move nothing by hand: the doctor moves the "
        "model and the batch to the job's device.",
    )


KINDS = {
    "numpy.ndarray": "Convert the array with torch.from_numpy(x), best where the batch is made: no "
    "gradient flows through a computation in numpy.",
    "float": "Make it a tensor, torch.tensor(x), or calculate with the number itself.",
    "int": "Make it a tensor, torch.tensor(x), or calculate with the number itself.",
    "str": "Encode the texts as numbers first: the ids of a tokenizer, or class names as indices "
    "(names.index(name), int64).",
    "dict": "Pass the fields of the dict by name, model(**batch), or the tensor in it, batch['x'].",
}
"""Type in the place of a tensor -> what to do."""


def _kinds(raised: Raised) -> Explanation | None:
    texts = [each for each in raised.operands if TEXTS.match(each.value)]
    wrong = re.search(r"must be Tensor, not (tuple|list)|'(tuple|list)' object has", raised.message)
    if texts and wrong:
        return Explanation(
            f"{texts[0].name.strip() or 'an argument'} is {texts[0].value[:60]}", KINDS["str"]
        )
    match = re.search(r"must be Tensor, not ([\w.]+)", raised.message)
    return Explanation("", KINDS[match[1]]) if match and match[1] in KINDS else None


TEXTS = re.compile(r"[\[(]['\"]")
"""A list or tuple of texts."""
OUTPUT = re.compile(
    r"must be Tensor, not (\w*(?:Output\w*|BatchEncoding))|'(\w+Output\w*)' object has"
)


def _outputs(raised: Raised) -> Explanation | None:
    """A record of outputs in the place of a tensor, as models of transformers return it."""
    match = OUTPUT.search(raised.message)
    if not match:
        return None
    record = next((each for each in raised.operands if each.value.startswith("{")), None)
    fields = record.value.strip("{}").replace("'", "") if record else "its fields"
    first = fields.partition(",")[0] if record else "logits"
    return Explanation(
        f"{match[1] or match[2]} is a record with {fields}",
        f"Take the tensor out of the record: model(...).{first}.",
    )
