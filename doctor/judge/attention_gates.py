"""The largest errors that a correct attention kernel makes, and what is wrong with a trial."""

from __future__ import annotations

from packaging.version import Version

from doctor.facts.load import AttentionCase, Trial

GATES = {"bf16": 1e-2, "fp16": 2e-3}
"""Relative Frobenius error. Correct kernels stay below 4e-3 and 5e-4 at short lengths."""
EXACT_SINCE = Version("2.5")
"""Before it the math backend, and on the CPU flash too, rounds intermediates to half precision:
logits of 120 are off by 0.5."""


def defect(
    trial: Trial, case: AttentionCase, version: Version, *, strict: bool, device: str = "cuda"
) -> str:
    """What is wrong with a trial, "" if nothing is.

    Not strict: an exception does not count unless it broke CUDA, because it is visible and affects
    only code that selects this backend.
    """
    if trial.refused is not None:
        return ""
    if not trial.ended.ok:
        raised = trial.ended.how == "error" and "CUDA error" not in trial.ended.detail
        return "" if raised and not strict else trial.ended.detail or trial.ended.how
    nonfinite = [f"{name} ({n} values)" for name, n in trial.nonfinite.items() if n]
    if nonfinite:
        return f"not finite: {', '.join(nonfinite)}"
    rounding = ("math", "flash") if device == "cpu" else ("math",)
    rounds = trial.backend in rounding and version < EXACT_SINCE
    if case.judged == "finite" or rounds:
        return ""
    gate = GATES[trial.dtype]
    off = [
        f"{name} off by {float(error):.2g}"
        for name, error in trial.errors.items()
        if not float(error) <= gate
    ]
    return f"{' and '.join(off)} (at most {gate:g})" if off else ""
