"""Ids of rows that were joined to another one. They can still be explained and ignored."""

from __future__ import annotations

RETIRED: dict[str, str] = {
    "zero-inference-without-stage-3": "zero-for-evaluation-only",
    "path-to-the-loss-ends": "element0-no-grad",
    "two-devices": "device-mismatch",
    "mixed-dtypes": "dtype-mismatch",
    "index-beyond-its-table": "index-out-of-range",
    "argument-not-passed": "value-is-none",
    "distribution-of-probabilities": "distribution-parameters",
    "distribution-of-positive-scale": "distribution-parameters",
    "distribution-of-definite-matrix": "distribution-parameters",
    "weights-inside-a-checkpoint": "state-dict-keys",
    "other-keys": "state-dict-keys",
    "layer-norm-of-channels": "order-of-dimensions",
    "unflattened-target": "rows-and-labels",
    "mask-for-each-head": "attention-mask-shape",
    "mask-of-samples-first": "attention-mask-shape",
    "product-sizes": "order-of-dimensions",
    "classes-second": "order-of-dimensions",
    "one-hot-targets": "extra-dimension",
    "targets-with-channels": "extra-dimension",
    "index-dimensions": "missing-dimension",
    "mask-of-index": "differing-sizes",
    "lists-of-other-lengths": "unequal-samples",
    "backward-of-another-loss": "backward-in-the-loss",
    "hook-replaces-a-tensor": "graph-of-another-step",
    "loss-with-other-parameters": "factory-with-parameters",
    "optimizer-state": "state-of-another-optimizer",
    "integer-input": "exchanged-arguments",
    "one-spatial-element": "one-value-per-channel",
    "padding-token-in-config": "padding-token-missing",
    "assert-gather": "assert-index",
    "loss-not-scalar": "loss-of-several-values",
    "criterion-created-with-tensors": "ambiguous-truth",
    "shape-by-values-under-vmap": "number-of-a-tensor-under-vmap",
    "flash-attention-dtype": "attention-unsupported",
    "size-is-called": "not-callable",
    "batch-size-above-samples": "loader-without-batch",
    "dropout-probability": "option-out-of-range",
    "norm-epsilon": "option-out-of-range",
    "learning-rate-invalid": "option-out-of-range",
    "prefetch-without-workers": "loader-options",
    "sampler-and-shuffle": "loader-options",
    "stream-shuffled": "loader-options",
    "lengths-on-a-gpu": "packed-lengths",
    "empty-sequences": "packed-lengths",
    "unsorted-lengths": "packed-lengths",
    "empty-selection": "empty-tensors",
    "empty-list": "empty-tensors",
    "interpolation-dimensions": "interpolation-size",
    "sparse-adam-dense": "sparse-gradients",
    "factory-batch-is-array": "factory-without-batch",
    "requires-grad-of-module": "everything-is-frozen",
    "outputs-without-a-loss": "labels-missing",
}
"""Id that is no longer used -> the id of the row that took its place."""


def current(id: str) -> str:
    """The id under which a row is known now."""
    return RETIRED.get(id, id)
