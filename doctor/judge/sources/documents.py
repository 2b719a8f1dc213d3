"""Sections of the source documents, with corrections where the text is wrong or too strong."""

from __future__ import annotations

from doctor.judge.sources.corrections import CORRECTIONS
from doctor.judge.sources.source import Source

TITLES = {
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
    correction = correction or CORRECTIONS.get(id, "")
    return Source(id, TITLES[document], section, "", document, alias, correction)


def _stability(alias: str, rest: str) -> Source:
    return _document(f"ps-{alias}", "precision-stability", f"{alias} — {rest}", alias=alias)


def _universal(alias: str) -> Source:
    return _document(
        f"ps-{alias}",
        "precision-stability",
        "Pointers — adjacent layers, do NOT restate here",
        alias=alias,
    )


DOCUMENTS = (
    _document("bts-summary", "bf16-training-stability", "Summary of Changes"),
    _document("bts-root", "bf16-training-stability", "Root Cause"),
    _document("bts-fix1", "bf16-training-stability", "1. Safe Attention Backend (Critical)"),
    _document("bts-fix2", "bf16-training-stability", "2. FP32 Master Weights (Critical)"),
    _document("bts-fix3", "bf16-training-stability", "3. SDPA Backend Configuration (Critical)"),
    _document("bts-fix4", "bf16-training-stability",
        "4. Dedicated PAD Token for Llama-3.x (Important)"),
    _document("bts-fix5", "bf16-training-stability", '5. Remove device_map="auto" (Important)',
        correction='device_map="auto" is not for inference only: in one process it is a naive '
        "pipeline, one GPU busy at a time. accelerate refuses it in distributed training."),
    _document("bts-fix7", "bf16-training-stability", "7. PEFT Adapter Precision (Already Correct)"),
    _document("bts-fix6", "bf16-training-stability", "6. Conditional torch.compile (Important)"),
    _document("bts-stable", "bf16-training-stability", "Default (Stable) Configuration"),
    _document("bts-fast", "bf16-training-stability", "After Stack Upgrade (Flash Attention 2)"),
    _document("bts-diagnostic", "bf16-training-stability", "Diagnostic Mode"),
    _document("bts-quick", "bf16-training-stability", "Quick Diagnostics"),
    _document("bts-performance", "bf16-training-stability", "Performance Notes"),
    _document("bts-references", "bf16-training-stability", "Community References"),
    _document("bts-expected", "bf16-training-stability", "Expected Behavior"),
    _document("titan-error", "bf16-incompatibility-titan-rtx", "Error Summary"),
    _document("titan-script", "bf16-incompatibility-titan-rtx", "Quick Fix (2 Methods)"),
    _document("titan-edit", "bf16-incompatibility-titan-rtx", "Method 2: Manual Edit"),
    _document("titan-matrix", "bf16-incompatibility-titan-rtx", "GPU Architecture Support Matrix"),
    _document("titan-why", "bf16-incompatibility-titan-rtx", "Why This Error Occurs"),
    _document("titan-verify", "bf16-incompatibility-titan-rtx", "Complete Fix Verification"),
    _document("titan-start", "bf16-incompatibility-titan-rtx", "Start Training"),
    _document("titan-platform", "bf16-incompatibility-titan-rtx", "Why Mac Works But Remote Fails"),
    _document("titan-followup", "bf16-incompatibility-titan-rtx", "Common Follow-Up Errors"),
    _document("titan-inputs", "bf16-incompatibility-titan-rtx",
        '"None of the inputs have requires_grad=True"'),
    _document("titan-flash", "bf16-incompatibility-titan-rtx",
        '"You are not running the flash-attention implementation"'),
    _document("titan-cache", "bf16-incompatibility-titan-rtx",
        '"use_cache=True is incompatible with gradient checkpointing"'),
    _document("titan-after", "bf16-incompatibility-titan-rtx", "After (WORKS on TITAN RTX)"),
    _document("titan-performance", "bf16-incompatibility-titan-rtx", "Performance Impact"),
    _document("titan-warnings", "bf16-incompatibility-titan-rtx",
        "Related Warnings (Safe to Ignore)"),
    _document("titan-trouble", "bf16-incompatibility-titan-rtx", "Troubleshooting"),
    _stability("P1", "Which precision: fp32 / TF32 / fp16 / bf16"),
    _stability("P2",
        'TF32 is OFF by default for matmul since PyTorch 1.12 — the "why is my A100 slow" footgun'),
    _stability("P3", "Card capability gates the choice: bf16 needs Ampere+; V100/T4 are fp16-only"),
    _stability("P4",
        "autocast: wrap ONLY forward + loss, never backward, never `.half()` the model"),
    _stability("P5", "GradScaler: required for fp16 to stop gradient *underflow*"),
    _stability("P6", "bf16 needs NO GradScaler (adding one is pointless, not harmful)"),
    _stability("P7",
        "Gradient clipping under GradScaler: `unscale_` FIRST or you clip scaled grads"),
    _stability("P8", "Where NaNs come from: the four arithmetic origins"),
    _stability("P9", "Find the exact op: anomaly detection + a cheap forward hook"),
    _stability("P10", "fp16 overflow vs underflow: read the GradScaler signal"),
    _stability("P11", "NaN from the *data*, not the math"),
    _stability("P12", "Loss spike / divergence: LR too high or warmup too short"),
    _stability("P13",
        "Gradient clipping: the standard guardrail (and what constant clipping means)"),
    _stability("P14", "Skip-the-batch: drop the update when this step is non-finite"),
    _stability("P15", "z-loss: stop softmax logits from drifting unbounded"),
    _stability("P16", "qk-norm: kill attention-logit growth at high LR"),
    _stability("P17", "Initialization & normalization placement"),
    _stability("P18", "Gradient explosion vs vanishing: diagnose by logging the norm"),
    _stability("P19",
        "Deterministic / repro knobs — set them, but the *interpretation* is delegated"),
    *(_universal(alias) for alias in ("U6", "U9", "U10", "U11", "U28", "U36")),
    _document("fnr-problem", "frozen-norms-report", "Problem Statement"),
    _document("fnr-diagnosis", "frozen-norms-report", "1. Initial Diagnosis"),
    _document("fnr-gradients", "frozen-norms-report", "2. Gradient Flow Testing"),
    _document("fnr-optimizer", "frozen-norms-report", "3. Optimizer State Inspection"),
    _document("fnr-rate", "frozen-norms-report", "4. Learning Rate Analysis"),
    _document("fnr-precision", "frozen-norms-report",
        "5. BFloat16 Precision Analysis  **ROOT CAUSE FOUND**"),
    _document("fnr-audit", "frozen-norms-report", "6. Code Audit"),
    _document("fnr-root", "frozen-norms-report", "Root Cause"),
    _document("fnr-others", "frozen-norms-report", "Why Other Parameters Updated"),
    _document("fnr-fix", "frozen-norms-report", "The Fix"),
    _document("fnr-memory", "frozen-norms-report", "Memory Impact"),
    _document("fnr-test", "frozen-norms-report", "Test The Fix"),
    _document("fnr-monitor", "frozen-norms-report", "Monitor During Training"),
    _document("fnr-lessons", "frozen-norms-report", "Lessons Learned"),
    _document("fnr-next", "frozen-norms-report", "Next Steps"),
    _document("fnr-expected", "frozen-norms-report", "Expected Behavior After Fix"),
    _document("cbl-root", "checkpointing-before-lora", "Root Cause Identified"),
    _document("cbl-fix", "checkpointing-before-lora", "✅ The Fix"),
    _document("cbl-apply", "checkpointing-before-lora", "How to Apply the Fix"),
    _document("cbl-verification", "checkpointing-before-lora", "Verification"),
    _document("cbl-expected", "checkpointing-before-lora", "Expected Training Output After Fix"),
    _document("cbl-why", "checkpointing-before-lora", "Why This Happened"),
    _document("cbl-summary", "checkpointing-before-lora", "Summary"),
)  # fmt: skip
