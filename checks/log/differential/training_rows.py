"""Rows about trainings that run and do not learn as they should."""

from __future__ import annotations

import re

from doctor.checks.log.differential import evidence
from doctor.checks.log.differential.rates import adapter_scaled, too_high
from doctor.checks.log.differential.relations import (
    at_least,
    both,
    in_amp,
    in_half,
    of_family,
    of_gpu,
    of_method,
    off,
    without_bf16,
)
from doctor.checks.log.differential.row import Differential
from doctor.checks.log.differential.symptoms import (
    ANEW,
    CONTROL,
    DIVERGED,
    FLAT,
    NAN,
    OVERFITS,
    RESUMED,
    REWARDS,
    SCALER,
    STANDS,
    WORSE,
)

IN_BF16 = (
    "gemma", "qwen", "llama-3", "llama3", "mistral", "mixtral", "phi-3", "phi3", "olmo", "deepseek",
)  # fmt: skip
"""Families whose weights were trained in bf16, with activations beyond the range of fp16."""
WRONG_IN_HALF = re.compile(r"GTX 16\d\d")
"""GPUs of the Turing generation without tensor cores."""

ROWS = (
    Differential(
        id="ctc-infinite",
        symptoms=NAN,
        evidence=off("ctc_zero_infinity"),
    ),
    Differential(
        id="vae-in-fp16",
        symptoms=NAN,
        evidence=both(in_half, of_family("stable-diffusion-xl", "sdxl")),
    ),
    Differential(
        id="bf16-model-in-fp16-without-bf16",
        symptoms=(*NAN, *SCALER),
        evidence=both(in_half, of_family(*IN_BF16, "t5"), without_bf16),
    ),
    Differential(
        id="bf16-model-in-fp16",
        symptoms=(*NAN, *SCALER),
        evidence=both(in_half, of_family(*IN_BF16, "t5")),
    ),
    Differential(
        id="gpu-wrong-in-half",
        symptoms=(*NAN, *STANDS),
        evidence=both(in_amp, of_gpu(WRONG_IN_HALF)),
    ),
    Differential(
        id="adapter-scaled",
        symptoms=(*WORSE, *NAN, *FLAT),
        evidence=adapter_scaled,
        suffices=DIVERGED,
    ),
    Differential(
        id="rate-above-usual",
        symptoms=(*WORSE, *NAN, *FLAT, *STANDS, *REWARDS, *CONTROL, *OVERFITS),
        evidence=too_high,
        suffices=DIVERGED,
    ),
    Differential(
        id="resumed-with-another-batch",
        symptoms=(*WORSE, *RESUMED, *NAN),
        evidence=evidence.another_batch,
        suffices=DIVERGED,
    ),
    Differential(
        id="resumed-with-another-length",
        symptoms=ANEW,
        evidence=evidence.same_run_made_longer,
        suffices=ANEW,
    ),
    Differential(
        id="large-batch-without-warm-up",
        symptoms=(*WORSE, *NAN),
        evidence=evidence.large_batch_no_warm_up,
        suffices=DIVERGED,
    ),
    Differential(
        id="warm-up-missing",
        symptoms=WORSE,
        evidence=evidence.no_warm_up,
    ),
    Differential(
        id="gradients-unclipped",
        symptoms=(*WORSE, *NAN),
        evidence=off("clip"),
    ),
    Differential(
        id="half-precision-without-bf16",
        symptoms=NAN,
        evidence=both(in_half, without_bf16),
    ),
    Differential(
        id="half-precision-chosen",
        symptoms=NAN,
        evidence=in_half,
    ),
    Differential(
        id="second-moment-slow",
        symptoms=("loss-spike",),
        evidence=both(of_method("pretrain"), at_least("adam_beta2", 0.99)),
    ),
)
