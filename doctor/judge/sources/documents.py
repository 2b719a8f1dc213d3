"""Sections of the source documents, with corrections where the text is wrong or too strong."""

from __future__ import annotations

from doctor.judge.sources.source import Source

_TITLES = {
    "bf16-training-stability": "BF16 Training Stability Fixes",
    "bf16-incompatibility-titan-rtx": "BF16 Incompatibility Error - TITAN RTX Fix",
    "precision-stability": (
        "Numerical precision & training stability — make it RUN, then stop it diverging"
    ),
    "frozen-norms-report": "Training Bug Investigation & Fix - Summary Report",
    "checkpointing-before-lora": "ROOT CAUSE FOUND - NaN Loss Issue SOLVED",
}


def _document(
    id: str, document: str, section: str, *, alias: str = "", correction: str = ""
) -> Source:
    return Source(id, _TITLES[document], section, "", document, alias, correction)


def _stability(alias: str, rest: str, correction: str = "") -> Source:
    section = f"{alias} — {rest}"
    return _document(
        f"ps-{alias}", "precision-stability", section, alias=alias, correction=correction
    )


def _universal(alias: str) -> Source:
    return _document(
        f"ps-{alias}",
        "precision-stability",
        "Pointers — adjacent layers, do NOT restate here",
        alias=alias,
    )


DOCUMENTS = (
    _document(
        "bts-root",
        "bf16-training-stability",
        "Root Cause",
        correction="bf16 has fp32's exponent range, so it does not overflow there; the documented "
        "NaNs are kernel and library bugs of particular versions.",
    ),
    _document(
        "bts-fix1",
        "bf16-training-stability",
        "1. Safe Attention Backend (Critical)",
        correction="transformers' eager attention multiplies in the model's dtype and keeps only "
        "the softmax in fp32; SDPA's math backend keeps fp32 intermediates since torch 2.5.",
    ),
    _document("bts-fix2", "bf16-training-stability", "2. FP32 Master Weights (Critical)"),
    _document(
        "bts-fix3",
        "bf16-training-stability",
        "3. SDPA Backend Configuration (Critical)",
        correction="pytorch#100005, cited there, is torch.triu on MPS; the cuDNN bugs are "
        "pytorch#139298, #196678 and #193893. enable_mem_efficient_sdp(True) changes nothing: "
        "it is on by default.",
    ),
    _document(
        "bts-fix4",
        "bf16-training-stability",
        "4. Dedicated PAD Token for Llama-3.x (Important)",
        correction="the cited thread confirms that Llama 3 defines no padding token and that a "
        'loader\'s default of 0 is "!", not that padding with it makes training unstable.',
    ),
    _document(
        "bts-fix5",
        "bf16-training-stability",
        '5. Remove device_map="auto" (Important)',
        correction="device_map=\"auto\" is not for inference only: in one process it is a naive "
        "pipeline, one GPU busy at a time. accelerate refuses it in distributed training.",
    ),
    _document(
        "bts-fix7",
        "bf16-training-stability",
        "7. PEFT Adapter Precision (Already Correct)",
        correction="adapters are fp32 by default since PEFT 0.12 only; from 0.7.1 to 0.11.1 they "
        "followed the base model's dtype.",
    ),
    _document(
        "bts-fix6",
        "bf16-training-stability",
        "6. Conditional torch.compile (Important)",
        correction="pytorch#100005, cited there, is torch.triu on MPS; the comparison of versions "
        "works because torch's version object compares by PEP 440, plain strings do not.",
    ),
    _document("bts-stable", "bf16-training-stability", "Default (Stable) Configuration"),
    _document("bts-fast", "bf16-training-stability", "After Stack Upgrade (Flash Attention 2)"),
    _document("bts-diagnostic", "bf16-training-stability", "Diagnostic Mode"),
    _document("bts-quick", "bf16-training-stability", "Quick Diagnostics"),
    _document(
        "titan-matrix",
        "bf16-incompatibility-titan-rtx",
        "GPU Architecture Support Matrix",
        correction="RTX 30xx is compute capability 8.6, not 8.0.",
    ),
    _document(
        "titan-why",
        "bf16-incompatibility-titan-rtx",
        "Why This Error Occurs",
        correction="the _amp_foreach_non_finite_check_and_unscale_cuda error is an enabled "
        "GradScaler that meets bf16 gradients on any CUDA card, not a matter of Turing.",
    ),
    _stability("P1", "Which precision: fp32 / TF32 / fp16 / bf16"),
    _stability(
        "P2",
        'TF32 is OFF by default for matmul since PyTorch 1.12 — the "why is my A100 slow" footgun',
        "since torch 2.9 mixing allow_tf32 with fp32_precision makes the legacy getters raise.",
    ),
    _stability(
        "P3",
        "Card capability gates the choice: bf16 needs Ampere+; V100/T4 are fp16-only",
        "torch.cuda.is_bf16_supported() is True on Turing and Volta too since torch 2.3 "
        "(emulation); ask is_bf16_supported(including_emulation=False) or the capability.",
    ),
    _stability(
        "P4", "autocast: wrap ONLY forward + loss, never backward, never `.half()` the model"
    ),
    _stability("P5", "GradScaler: required for fp16 to stop gradient *underflow*"),
    _stability(
        "P6",
        "bf16 needs NO GradScaler (adding one is pointless, not harmful)",
        "harmless with fp32 weights only; with bf16 weights a GradScaler raises on CUDA.",
    ),
    _stability(
        "P7",
        "Gradient clipping under GradScaler: `unscale_` FIRST or you clip scaled grads",
        "a second unscale_ before update() raises RuntimeError: once per step means only once.",
    ),
    _stability("P8", "Where NaNs come from: the four arithmetic origins"),
    _stability("P9", "Find the exact op: anomaly detection + a cheap forward hook"),
    _stability("P10", "fp16 overflow vs underflow: read the GradScaler signal"),
    _stability("P11", "NaN from the *data*, not the math"),
    _stability("P12", "Loss spike / divergence: LR too high or warmup too short"),
    _stability(
        "P13", "Gradient clipping: the standard guardrail (and what constant clipping means)"
    ),
    _stability("P17", "Initialization & normalization placement"),
    _stability("P18", "Gradient explosion vs vanishing: diagnose by logging the norm"),
    _stability(
        "P19",
        "Deterministic / repro knobs — set them, but the *interpretation* is delegated",
        "CUBLAS_WORKSPACE_CONFIG is not needed since torch 2.10.",
    ),
    *(_universal(alias) for alias in ("U6", "U9", "U10", "U11", "U28")),
    _document("fnr-diagnosis", "frozen-norms-report", "1. Initial Diagnosis"),
    _document("fnr-optimizer", "frozen-norms-report", "3. Optimizer State Inspection"),
    _document("fnr-gradients", "frozen-norms-report", "2. Gradient Flow Testing"),
    _document(
        "fnr-precision",
        "frozen-norms-report",
        "5. BFloat16 Precision Analysis  **ROOT CAUSE FOUND**",
        correction="at 1.0 bf16 loses upward changes up to 2^-8 (0.0039) and downward changes up "
        "to 2^-9 (0.00195), ties included.",
    ),
    _document("fnr-root", "frozen-norms-report", "Root Cause"),
    _document("fnr-fix", "frozen-norms-report", "The Fix"),
    _document("fnr-memory", "frozen-norms-report", "Memory Impact"),
    _document(
        "cbl-fix",
        "checkpointing-before-lora",
        "✅ The Fix",
        correction="the order that fails is the other one: with transformers 4.31 to 4.57 and "
        "reentrant checkpointing, enabling it after get_peft_model raises unless "
        "enable_input_require_grads() was called. use_reentrant=False is safe in both orders.",
    ),
    _document(
        "cbl-root",
        "checkpointing-before-lora",
        "Root Cause Identified",
        correction="with transformers 4.31 to 4.57 and reentrant checkpointing it is the other way "
        "round: enabling it after get_peft_model raises, before it works; use_reentrant=False is "
        "safe in both orders, and transformers 5 works in both.",
    ),
    _document("cbl-verification", "checkpointing-before-lora", "Verification"),
)
