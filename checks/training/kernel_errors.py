"""An error of a kernel, which torch raises at a later call: its assertion, and the step on the CPU.

The call that raises on a GPU is often not the one that failed. What names it is the line that the
kernel printed, and the error of the same forward pass on the CPU.
"""

from __future__ import annotations

from doctor.facts.error_texts import ASYNCHRONOUS
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern, match_error

LABELS = (
    "Fix the labels: one is outside the classes, 0 <= label < classes. Count the classes that the "
    "last layer has, map labels that start at 1 to 0, and mark what is to be ignored with -100."
)
ASSERTIONS = (
    ErrorPattern(("n_classes", "cur_target"), LABELS, Owner.JOB),
    ErrorPattern(
        ("input_val >= zero", "target_val >= zero"),
        "Pass probabilities to binary_cross_entropy: inputs and targets in [0, 1], and no NaN. "
        "binary_cross_entropy_with_logits takes raw outputs.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("probability tensor contains", "sum of probabilities", "cumdist"),
        "Pass probabilities to torch.multinomial: finite, not negative, and with a sum above 0. "
        "Look for the first NaN before it.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("idx_dim < index_size", "idx_dim >= 0"),
        "Fix the index of gather or scatter: it exceeds the dimension that it selects from. A "
        "label of -100 is no index: use labels.clamp(min=0), and mask the result.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("srcIndex < srcSelectDimSize", "ind_dim_size", "vectorized gather"),
        "Fix the index of an embedding, index_select or gather: it exceeds the rows of the table. "
        "After adding tokens call resize_token_embeddings; compare positions with the model's "
        "length, and do not use a label of -100 as an index.",
        Owner.JOB,
    ),
    ErrorPattern(
        ("-sizes[i] <= index", "index < sizes[i]"),
        "Fix the index in x[index]: it exceeds the dimension that it selects from.",
        Owner.JOB,
    ),
)
"""Texts of the assertions in torch's kernels, and what they mean."""


def raised_later(detail: str) -> bool:
    """Whether an earlier kernel than the call that raised may have failed."""
    lower = detail.casefold()
    return any(text in lower for text in ASYNCHRONOUS)


def observed(own: OwnModel) -> str:
    """What names the kernel's error, as clauses of a summary."""
    diagnosis = own.smoke.diagnosis if own.smoke else None
    clauses = []
    if own.assertion:
        clauses.append(f"the kernel printed: {own.assertion}")
    if diagnosis and diagnosis.on_cpu:
        clauses.append(f"the same forward pass on the CPU {diagnosis.on_cpu}")
    return "".join(f"; {clause}" for clause in clauses)


def by_assertion(own: OwnModel) -> ErrorPattern | None:
    """The remedy for the assertion that failed, None if it is not known."""
    return match_error(own.assertion, ASSERTIONS) if own.assertion else None


def error_on_cpu(own: OwnModel) -> str:
    """The error of the forward pass on the CPU, if an index explains it there, else ""."""
    diagnosis = own.smoke.diagnosis if own.smoke else None
    return diagnosis.on_cpu if diagnosis and diagnosis.index_on_cpu else ""
