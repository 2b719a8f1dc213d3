"""The changes of a training that a bisection tries, and which of them can avoid a fault."""

from __future__ import annotations

from doctor.collect.faults import fault_of_step
from doctor.facts.diagnosis import Diagnosis, Fault
from doctor.facts.training import Smoke

CHANGES = (
    "cudnn-off", "flash-off", "math", "eager", "fp32-weights", "fp32", "lower-lr", "lowest-lr",
    "no-lr", "other-batch",
)  # fmt: skip
"""In the order of the attempts, after "repeat": the unchanged training."""
REPAIRS = {"bad_batch": "valid-batch", "bad_index": "valid-index", "bad_weights": "finite-weights"}
"""What is invalid before the first step -> the change that replaces it."""
PRECISIONS = ("fp32-weights", "fp32")
"""The changes that are tried where the operation is known whose gradient becomes 0."""
SWITCHES = ("cudnn-off", "flash-off", "math")
"""The changes that affect torch's attention only."""
RATES = ("lower-lr", "lowest-lr", "no-lr")
"""The changes that are tried where a step was completed before the fault."""
NOT_IMPLEMENTED = " not implemented for '"
"""In an error of a kernel that does not exist in this dtype, which another dtype alone avoids."""
NUMBERS = ("fp32", *RATES)
"""The changes that are tried where an operation and what is wrong in its inputs are known: they
alone change the inputs of an operation outside attention."""


def possible_changes(
    diagnosis: Diagnosis, smoke: Smoke, fault: Fault, *, small: bool, of_kernel: bool
) -> tuple[str, ...]:
    """The changes that can avoid the fault of `smoke`, in the order of `CHANGES`.

    `small`: the training is that of the doctor's small model; `of_kernel`: a kernel of the user's
    training failed.
    """
    source = diagnosis.source
    everything = source is None or not source.certain or "attention" in source.name
    first = fault_of_step(smoke.steps[0]) if smoke.steps else fault
    excluded: tuple[str, ...] = RATES if first and fault != "no gradient" else ()
    zeros = any(each.kind in ("zero", "hook") for each in diagnosis.cuts)
    if fault == "no gradient" and zeros:
        return PRECISIONS
    if any(NOT_IMPLEMENTED in stage.ended.detail for stage in smoke.stages):
        return PRECISIONS
    if diagnosis.attention is False and not small:
        excluded += (*SWITCHES, *(("eager",) if of_kernel else ()))
    return tuple(
        each for each in CHANGES if (everything or each in NUMBERS) and each not in excluded
    )
