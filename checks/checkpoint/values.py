"""A checkpoint's values: finite, and different from those of an earlier checkpoint."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import counted, listed, shown
from doctor.checkpoint.records import Checkpoint, NonFinite, Values
from doctor.checks.checkpoint.norm_causes import length_of_run
from doctor.checks.checkpoint.unusual_values import (
    AVERAGE_FIX,
    NO_WEIGHTS_FIX,
    alike,
    rows_inside,
    unusual,
    whole_model_is_zero,
)
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn

MASK = re.compile(r".*(?:mask|attn_bias|attention_bias)")
OF_LOSS = re.compile(r"criterion|loss")
TRAINED = re.compile(
    r"^optimizer .*(?:exp_avg|momentum)|lora_[AB]"
    r"|(?:^|[._])(?:weight|bias|running_mean|running_var)$"
)
"""Names of what is finite in every model; buffers of one's own may begin at Inf, as the least value
that an observer has seen does."""
EXTREME = re.compile(r"(?:^|[._])(?:min|max|best|lowest|highest|least|largest)(?:[._]|$)")
"""Names of single values that begin at an infinity: torch's observers have min_val and max_val."""
LARGEST = {"F16": 65504, "F8_E5M2": 57344, "F8_E4M3": 448}
"""Dtype -> its largest value, beyond which a cast gives Inf, or NaN where there is no Inf."""


def values_finite(checkpoint: Checkpoint) -> Verdict:
    values = checkpoint.values
    if values is None:
        return _vectors_finite(checkpoint)
    idle = checkpoint.training.idle_averages
    if isinstance(values, Unknown):
        return unknown(f"the values could not be read: {values.reason}")
    if verdict := _failure(values) or _without_weights(checkpoint, values):
        return verdict
    if values.tensors and not (values.bytes or values.problems or values.unchecked):
        return skip(f"{counted(values.tensors, 'tensor')}, none with a value")
    partly = values.problems or values.unchecked or not (values.tensors or values.exempt)
    if partly and not values.requested:
        return _vectors_finite(checkpoint)
    if partly:
        return _partly(values)
    if doubted := [each for each in values.nonfinite if not (each.masks or _begins_so(each))]:
        text = f"not decided: {_counts(doubted[0])}, in what may be a buffer of the model's own"
        return _idle(idle) if idle else skip(f"{text}; --deep judges every tensor")
    verdict = _finite(values, length_of_run(checkpoint) or checkpoint.training.steps)
    return _idle(idle) if idle and verdict.status is not Status.WARN else verdict


def _without_weights(checkpoint: Checkpoint, values: Values) -> Verdict | None:
    """A failure of a model; other states, such as momenta, may be zeros before the first step."""
    text = whole_model_is_zero(values)
    if not text:
        return None
    make = fail if checkpoint.model.model_type or checkpoint.training.steps else warn
    summary = f"{text}; a trained model has other values"
    return make(summary, fix=NO_WEIGHTS_FIX, seconds=values.seconds)


def _partly(values: Values) -> Verdict:
    """Why not every value could be read."""
    if values.problems:
        return unknown(values.problems[0].message, seconds=values.seconds)
    if not values.tensors and not values.exempt:
        return unknown("no tensor's values could be read", seconds=values.seconds)
    dtypes = ", ".join(shown(dtype, 20) for dtype in list(values.unchecked)[:3])
    return unknown(f"stored in {dtypes}, whose values cannot be decoded")


def _failure(values: Values) -> Verdict | None:
    """What no whole checkpoint holds; None where there is none of it."""
    found = [each for each in values.nonfinite if not (each.masks or _begins_so(each))]
    if nonfinite := [each for each in found if values.requested or _is_trained(each)]:
        first = min(nonfinite, key=_of_optimizer)
        rest = values.nonfinite_tensors - 1 - sum(map(_begins_so, values.nonfinite))
        more = f" (and {rest:,} more tensor{'s' * (rest != 1)})" if rest > 0 else ""
        reason, fix = _why_not_finite(first)
        summary = f"{_counts(first)}{more}{reason}; every stored value finite required"
        return fail(summary, fix=fix, seconds=values.seconds)
    if values.negative:
        more = f" and {len(values.negative) - 1:,} more" * (len(values.negative) > 1)
        summary = f"{shown(values.negative[0])}{more}: negative values in a mean of squares"
        fix = VARIANCE_FIX if "running_var" in values.negative[0] else MOMENT_FIX
        return fail(f"{summary}; none required", fix=fix, seconds=values.seconds)
    if values.differing:
        more = f" and {len(values.differing) - 1:,} more" * (len(values.differing) > 1)
        summary = f"the SHA-256 of {values.differing[0]}{more} is not the one that the Hub gave"
        return fail(summary, fix=CHECKSUM_FIX, seconds=values.seconds)
    if values.damaged_records:
        more = f" and {len(values.damaged_records) - 1:,} more" * (len(values.damaged_records) > 1)
        summary = f"{values.damaged_records[0]}{more}: not the CRC-32 that the zip gives for it"
        return fail(summary, fix=CRC_FIX, seconds=values.seconds)
    return None


def _is_trained(tensor: NonFinite) -> bool:
    """Whether training made it, by its name: -inf alone may be there on purpose, as for classes
    that are masked."""
    chosen = tensor.minus_inf == tensor.nan + tensor.plus_inf + tensor.minus_inf
    return bool(TRAINED.search(tensor.name)) and not (chosen or OF_LOSS.search(tensor.name))


def _begins_so(tensor: NonFinite) -> bool:
    """Whether a buffer holds one infinity alone, as least and largest values begin before anything
    was seen, and statistics that are set after loading."""
    one = tensor.values in (tensor.plus_inf, tensor.minus_inf)
    several = tensor.values > 1 and tensor.dtype not in LARGEST
    buffer = not (tensor.masks or TRAINED.search(tensor.name))
    return one and buffer and (several or bool(EXTREME.search(tensor.name)))


def _idle(averages: tuple[str, ...]) -> Verdict:
    text = f"{listed([shown(each, 60) for each in averages], 3)} is 0 although steps were taken"
    return warn(f"{text}: the average of the weights was never updated", fix=AVERAGE_FIX)


def _of_optimizer(tensor: NonFinite) -> bool:
    return tensor.name.startswith("optimizer ")


def _why_not_finite(tensor: NonFinite) -> tuple[str, str | None]:
    """What the kind of tensor and dtype show, and the remedy for it."""
    if _of_optimizer(tensor):
        return f", in {tensor.file}", MOMENT_FIX
    largest = LARGEST.get(tensor.dtype)
    if largest is None or (tensor.nan and tensor.dtype != "F8_E4M3"):
        return "", None
    kind = {"F16": "fp16"}.get(tensor.dtype, "fp8")
    return f": a cast to {kind} makes that of what is beyond {largest:,}", OVERFLOW_FIX


def _vectors_finite(checkpoint: Checkpoint) -> Verdict:
    """Without --deep: the norms and similar vectors, as far as they were read."""
    vectors = (*checkpoint.contents.norms, *checkpoint.contents.initialized_to_one)
    nonfinite = [vector for vector in vectors if vector.value == "nonfinite"]
    if not nonfinite and checkpoint.training.idle_averages:
        return _idle(checkpoint.training.idle_averages)
    if not nonfinite:
        return skip("not requested: --deep reads every value")
    more = f" and {len(nonfinite) - 1} more" if len(nonfinite) > 1 else ""
    return fail(f"{shown(nonfinite[0].name)}{more}: NaN or Inf; every value finite required")


def _finite(values: Values, steps: int | None) -> Verdict:
    """`steps` of the run; None: not known."""
    masks = sum(tensor.masks for tensor in values.nonfinite)
    begins = [tensor for tensor in values.nonfinite if _begins_so(tensor)]
    parts = ((values.further, "of other state_dicts"), (values.moments, "of the optimizer"))
    of = ", ".join(f"{count:,} {name}" for count, name in parts if count)
    summary = counted(values.tensors, "tensor") + f" ({of})" * bool(of)
    summary += f", {values.bytes:,} bytes: every value finite"
    summary += f", apart from -inf in {counted(masks, 'mask')}" if masks else ""
    if begins:
        more = f" and {len(begins) - 1:,} more" * (len(begins) > 1)
        summary += f", apart from {shown(begins[0].name)}{more}, which hold one infinity alone"
    if values.checksums:
        files = f"{counted(values.checksums, 'file')}"
        summary += f", {files} with the SHA-256 of the Hub"
    if values.unlike_lists:
        more = f" and {len(values.unlike_lists) - 1:,} more" * (len(values.unlike_lists) > 1)
        text = f"the SHA-256 of {values.unlike_lists[0]}{more} is not the one listed beside it"
        return warn(f"{summary}; {text}", fix=LISTED_FIX, seconds=values.seconds)
    if first := next(unusual(values, steps), None):
        text, fix = first
        return warn(f"{summary}; {text}", fix=fix, seconds=values.seconds)
    summary += alike(values)
    large = [tensor for tensor in values.large if not MASK.fullmatch(tensor.name.casefold())]
    if not large or not values.requested:
        is_note = bool(values.copies) or any(not each.zero for each in values.constant)
        is_note = is_note or bool(rows_inside(values)) or bool(begins)
        passed = note if is_note else ok
        return passed(summary, seconds=values.seconds)
    count = sum(tensor.large for tensor in large)
    return warn(
        f"{summary}; {count:,} of {values.fp16_values:,} fp16 values are beyond 32752, such as in "
        f"{shown(large[0].name)}; fp16's largest is 65504",
        fix=LARGE_FIX,
        seconds=values.seconds,
    )


def _counts(tensor: NonFinite) -> str:
    kinds = (("NaN", tensor.nan), ("+inf", tensor.plus_inf), ("-inf", tensor.minus_inf))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)
    total = f"of {tensor.values:,} values in {tensor.dtype}"
    return f"{shown(tensor.name)}: {counts} {total}, the first at index {tensor.first:,}"


MOMENT_FIX = (
    "Resume from an earlier checkpoint. Or keep these weights and begin with a new optimizer: "
    "resume without this state, with a warm-up, and look for the batch or the overflow that made "
    "it: the first resumed step would make the weights NaN."
)
VARIANCE_FIX = (
    "Compute the statistics again with torch.optim.swa_utils.update_bn(loader, model), or return "
    "to an earlier checkpoint: the root of a negative variance is NaN in eval(). Averages of "
    "weights that extrapolate make such ones."
)
OVERFLOW_FIX = (
    "Go back to the checkpoint in fp32 or bf16 that this one was cast from, and keep its dtype. "
    "Where it was trained in fp16, return to a checkpoint from before the overflow."
)
CRC_FIX = (
    "Copy the file again, or return to another checkpoint: bytes of it changed after it was saved."
)

CHECKSUM_FIX = (
    "Download the file again: what is here is not what the Hub has. If it was changed on purpose, "
    "move it out of the cache, which is shared by all programs."
)


LISTED_FIX = (
    "Copy or download the file again from where the list of checksums comes from. If the file was "
    "saved again since, write the list again: sha256sum *.safetensors > SHA256SUMS."
)

LARGE_FIX = (
    "Load these weights in fp32 or bf16, whose range is larger: a product with such a value "
    "overflows fp16."
)


FINITE = Check(
    code="CKP005",
    slug="values-finite",
    title="Every stored value is finite",
    why="One NaN or infinity in the weights makes every loss NaN, and nothing reports it before "
    "the first step: safetensors and torch load it silently. In the optimizer's moments one makes "
    "the first resumed step NaN. A download that stopped inside a file of the right length leaves "
    "zeros, which are looked for, too.",
    passes=(
        "no stored value is NaN or infinite, apart from -inf in masks, by their names or "
        "by the triangle that it fills: of the weights, of other state_dicts in the same files, "
        "and of the optimizer's state",
    ),
    notes=(
        "a buffer holds one infinity alone, as observers and statistics begin",
        "matrices hold one value that is not 0, or are copies of others, as tied weights are",
        "rows of zeros lie before others in an embedding or a head",
    ),
    warns=(
        "a matrix has values beyond a million times what nearly all of it is below",
        "a moment of the optimizer is beyond 1e20",
        "fp16 values are beyond 32752, half of fp16's largest",
        "a file has another SHA-256 than a list beside it, such as SHA256SUMS, gives (with --deep)",
        "the weights of one layer are 50 times as large as those of most",
        "most matrices of an average of the weights have nothing in common with the model's, or "
        "its count of updates is 0 after steps (also without --deep)",
        "a stretch of zeros begins or ends inside a matrix, apart from rows of embeddings (without "
        "--deep, of several matrices)",
        "a quarter of an embedding's rows or more are zeros, or of a head's before others",
        "an average of the weights has the model's own values after 10 steps or more",
        "all matrices of a layer are copies of another layer's, in at most a third of the layers",
        "a matrix is all zeros that is not known to be initialized so (LoRA's B)",
        "pytorch_model.bin beside safetensors holds other values",
    ),
    fails=(
        "a tensor that is not a mask holds a NaN or an infinity (without --deep, one that is "
        "trained by its name holds more than -inf)",
        "nearly all matrices of the model are all zeros",
        "a mean of squares is negative: in the optimizer's state, or a batch norm's variance",
        "without --deep, beyond 256 MiB: a norm does, as far as it was read",
        "a record of a file of torch.save has another CRC-32 than the zip's directory gives",
        "a file from the Hugging Face Hub has another SHA-256 than the Hub gave for it, in its "
        "cache or beside a download",
    ),
    fix="Return to a checkpoint from before the training diverged, or download the file again and "
    "compare its checksum with the source's.",
    limits="that the values are good: finite ones can be wrong too. Without --deep, what a model "
    "may hold on purpose (zeros, copies, averages, larger layers) is not reported. The states of "
    "schedulers, random generators and callbacks are not read, and a stretch of zeros shorter "
    "than 4 MiB can be missed.",
    owner=Owner.JOB,
    judge=values_finite,
    required="checkpoint",
    sources=("ps-P14", "vllm-53537"),
)

CHECKS = (FINITE,)
