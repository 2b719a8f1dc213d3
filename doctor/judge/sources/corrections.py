"""What is true where a section of a source document is wrong or too strong, by the source's id."""

from __future__ import annotations

_ORDER = (
    "the order that fails is the other one: with transformers 4.31 to 4.57 and reentrant "
    "checkpointing, enabling it after get_peft_model raises unless enable_input_require_grads() "
    "was called. use_reentrant=False is safe in both orders, and transformers 5 works in both."
)
_FP16_WEIGHTS = (
    'fp16 weights that are trained raise "Attempting to unscale FP16 gradients" in the GradScaler: '
    "keep them in fp32 and compute under fp16 autocast. fp16 weights are right for a frozen base "
    "under fp32 adapters."
)
_GRID = (
    "at 1.0 bf16 loses upward changes up to 2^-8 (0.0039) and downward changes up to 2^-9 "
    "(0.00195), ties included. The grid is relative: norms at 0.4 to 8 freeze as well, and an "
    "update of 4e-5 at 0.02 is lost, too."
)
_NOT_MEASURED = "nothing in the document supports these figures: measure on the machine."

CORRECTIONS = {
    "bts-root": (
        "bf16 has fp32's exponent range, so it does not overflow there; the documented NaNs are "
        "kernel and library bugs of particular versions. torch prefers cuDNN attention on "
        "capability 9.0 and 10.x only, never on Ampere."
    ),
    "bts-fix1": (
        "transformers' eager attention multiplies in the model's dtype and keeps only the softmax "
        "in fp32; SDPA's math backend keeps fp32 intermediates since torch 2.5."
    ),
    "bts-fix2": (
        "fp32 weights need memory: with AdamW some 16 to 18 bytes for each parameter instead of 8."
    ),
    "bts-fix3": (
        "pytorch#100005, cited there, is torch.triu on MPS; the cuDNN bugs are pytorch#139298, "
        "#196678 and #193893. enable_mem_efficient_sdp(True) changes nothing: it is on by default. "
        "Memory-efficient attention is a fused kernel, too, and cuDNN attention is never preferred "
        "on Ampere."
    ),
    "bts-fix4": (
        "the cited thread confirms that Llama 3 defines no padding token and that a loader's "
        'default of 0 is "!", not that padding with it makes training unstable. pad_token_id == 0 '
        "does not mean that it is missing: 0 is the padding token of BERT and T5."
    ),
    "bts-fix6": (
        "pytorch#100005, cited there, is torch.triu on MPS; the comparison of versions works "
        "because torch's version object compares by PEP 440, plain strings do not."
    ),
    "bts-fix7": (
        "adapters are fp32 by default since PEFT 0.12 only; from 0.7.1 to 0.11.1 they followed the "
        "base model's dtype."
    ),
    "bts-diagnostic": (
        "enable_flash_sdp(False) with enable_cudnn_sdp(False) leaves memory-efficient attention "
        "on, which is fused: turn it off, too. And diagnose in fp32."
    ),
    "bts-quick": (
        "fp16 in place of bf16 is no diagnostic: it narrows the range and adds a GradScaler. Try "
        "fp32. To turn all fused attention off, turn off the memory-efficient kernel, too."
    ),
    "bts-performance": _NOT_MEASURED,
    "bts-references": (
        "transformers#28687 is not confirmed: transformers#31997 shows the pattern that it is "
        "cited for. pytorch#100005 is torch.triu on MPS."
    ),
    "bts-expected": "the loss of GRPO is 0.0 at first, rightly.",
    "titan-error": (
        "the message is not a matter of Turing: an enabled GradScaler meets bf16 gradients, on any "
        "CUDA card."
    ),
    "titan-matrix": "RTX 30xx is compute capability 8.6, not 8.0. bf16 on Turing is emulated.",
    "titan-why": (
        "the _amp_foreach_non_finite_check_and_unscale_cuda error is an enabled GradScaler that "
        "meets bf16 gradients on any CUDA card, not a matter of Turing."
    ),
    "titan-edit": _FP16_WEIGHTS,
    "titan-verify": f"a model in fp16 is not what to look for: {_FP16_WEIGHTS}",
    "titan-after": _FP16_WEIGHTS,
    "titan-platform": (
        "choose the dtype of autocast so, not that of the weights: bf16 weights lose small updates "
        "(frozen norms), and fp16 weights make the GradScaler raise. Trained weights stay in fp32."
    ),
    "titan-followup": (
        "transformers sets use_cache=False, not torch; and a warning about inputs without "
        "requires_grad is not always harmless (see titan-inputs)."
    ),
    "titan-inputs": (
        "it precedes the crash of LoRA with reentrant checkpointing, where the inputs need "
        "gradients: call enable_input_require_grads(), or pass use_reentrant=False."
    ),
    "titan-performance": _NOT_MEASURED,
    "titan-warnings": (
        '"None of the inputs have requires_grad=True" is not harmless with LoRA and reentrant '
        "checkpointing."
    ),
    "ps-P2": (
        "since torch 2.9 mixing allow_tf32 with fp32_precision makes the legacy getters raise. "
        'fp32 matmuls run on the CUDA cores, not on tensor cores; on CUDA "medium" is TF32, too.'
    ),
    "ps-P3": (
        "torch.cuda.is_bf16_supported() is True on Turing and Volta too since torch 2.3 "
        "(emulation); ask is_bf16_supported(including_emulation=False) or the capability. fp8 "
        "begins with Ada (8.9)."
    ),
    "ps-P4": (
        "autocast is to be entered again in the threads of DataParallel, whose replicas take the "
        "default dtype, fp16; DDP has a process for each GPU."
    ),
    "ps-P5": (
        "torch's GradScaler prints nothing when it skips a step: a learning rate that stands still "
        "and an infinite gradient norm show it."
    ),
    "ps-P6": (
        "harmless with fp32 weights only; with bf16 weights a GradScaler raises on CUDA. It does "
        "skip steps whose gradients are not finite."
    ),
    "ps-P7": (
        "clipping scaled gradients is not without effect, it clips every step to max_norm / scale: "
        "a norm of 17.4 came out as 1.5e-5. SGD then stands still; AdamW hides it. And a second "
        "unscale_ before update() raises RuntimeError."
    ),
    "ps-P8": (
        "1e-8 and 1e-12 are 0 in fp16, so log still gives -inf and sqrt an infinite gradient: "
        "compute in fp32 (x.float()) and clamp there. log_softmax accepts any finite input."
    ),
    "ps-P9": (
        "the hook costs a synchronization of the GPU for each module and does not see outputs in "
        "tuples: it is not for every run. Anomaly mode was measured at 1.2 to 2.5 times the time."
    ),
    "ps-P10": "inside autocast(enabled=False) the inputs must be cast as well: x.float().",
    "ps-P11": (
        "a label outside [0, C) raises an IndexError or a device-side assert, it gives no NaN; and "
        "the cited paper is about mathematics, not about data."
    ),
    "ps-P13": (
        "clipping at every step is no symptom: healthy runs of large models clip most steps. A "
        "rising norm is one."
    ),
    "ps-P15": "1e-4 is PaLM's value; ST-MoE's loss for routers has 1e-3.",
    "ps-P19": (
        "CUBLAS_WORKSPACE_CONFIG is not needed since torch 2.10. Some operations have no "
        "deterministic form and raise; the loader's workers have generators of their own."
    ),
    "fnr-precision": _GRID,
    "fnr-audit": "a frozen base under LoRA may be cast: what trains must not be.",
    "fnr-root": _GRID,
    "fnr-others": (
        "other parameters can change only in part: what is lost depends on the size of an update "
        "relative to the value, not on how near that is to 1.0."
    ),
    "fnr-memory": (
        "fp32 weights cost more than 10 %: for 3 billion parameters with AdamW 50 GiB against 22 "
        "GiB in pure bf16, by the account of MEM001. Gradients and the optimizer's state count."
    ),
    "fnr-lessons": "a frozen base under LoRA, or a compensating optimizer, may be in bf16.",
    "fnr-next": (
        "the moments were gathered for rounded updates; that the optimizer adapts after a resume "
        "is not verified."
    ),
    "fnr-expected": "that frozen norms kept the loss from falling is not shown: the rest trained.",
    "cbl-root": _ORDER,
    "cbl-fix": _ORDER,
    "cbl-why": (
        f"{_ORDER} A loss of 0.0 is a NaN behind the Trainer's logging_nan_inf_filter, and a "
        "learning rate of 0.0 is normal at the first step of a warm-up."
    ),
    "cbl-apply": (
        "git reset --hard discards uncommitted work, pkill -f ends every process whose command "
        "matches, and no cache has to be cleared."
    ),
    "cbl-verification": _ORDER,
    "cbl-expected": (
        "a learning rate of 0.0 is normal at the first step of a warm-up and the last of a "
        "schedule; the loss of GRPO is 0.0 at first."
    ),
    "cbl-summary": _ORDER,
}
