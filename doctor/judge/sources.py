"""The bibliography: what remedies cite. Ids are used by checks; texts live here alone."""

from __future__ import annotations

from dataclasses import dataclass

CHECKED = "2026-11-20"


@dataclass(frozen=True, slots=True)
class Source:
    """A section of a source document, or a public address with the date it was checked.

    `document` is the file name of a source document without its ending, "" for an address.
    `alias` is the short name by which `doctor explain` finds the codes that cite it.
    `correction` says what is true where the cited text is wrong or too strong.
    """

    id: str
    title: str
    section: str = ""
    url: str = ""
    document: str = ""
    alias: str = ""
    correction: str = ""
    checked: str = CHECKED


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


def _thread(repository: str, number: int, title: str) -> Source:
    name = repository.split("/")[1]
    return Source(
        f"{name}-{number}", title, f"#{number}", f"https://github.com/{repository}/issues/{number}"
    )


ADDRESSES = (
    Source(
        "cuda-minor-compatibility",
        "CUDA Compatibility",
        "Minor Version Compatibility",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    ),
    Source(
        "cuda-forward-compatibility",
        "CUDA Compatibility",
        "Forward Compatibility",
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html",
    ),
    Source(
        "cuda-gpus", "CUDA GPU Compute Capability", "", "https://developer.nvidia.com/cuda-gpus"
    ),
    Source(
        "cuda-binary-compatibility",
        "Blackwell Architecture Compatibility Guide",
        "",
        "https://docs.nvidia.com/cuda/blackwell-compatibility-guide",
    ),
    Source("pytorch-install", "PyTorch: Start Locally", "", "https://pytorch.org/get-started/"),
    Source(
        "row-remap",
        "NVIDIA GPU Memory Error Management",
        "Error Recovery and Response Flags",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
    ),
    Source(
        "xid-catalog",
        "NVIDIA XID Errors: Xid catalog",
        "",
        "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        checked="2026-11-21",
    ),
    Source(
        "device-plugin-xids",
        "NVIDIA device plugin for Kubernetes: Xids of applications",
        "internal/rm/health.go",
        "https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go",
        checked="2026-11-21",
    ),
    Source(
        "toolkit-48",
        "Containers lose access to GPUs after systemctl daemon-reload",
        "#48",
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
    ),
    Source(
        "driver-mismatch",
        "Runbook: driver module load failure",
        "",
        "https://ai-infrastructure.net/runbook-driver-module-load-failure/",
    ),
    Source(
        "thermal-throttling",
        "Cloud GPU thermal throttling",
        "",
        "https://matt.sh/cloud-gpu-thermal-throttling",
    ),
    Source(
        "azurehpc-595",
        "The software power cap is no throttling",
        "#595",
        "https://github.com/Azure/azurehpc/pull/595",
    ),
    _thread("pytorch/pytorch", 130181, "Several MIG instances in one process"),
    _thread("pytorch/pytorch", 100691, "CUDA-capable device(s) is/are busy or unavailable"),
    _thread("NVIDIA/nccl", 1716, "NCCL between MIG instances"),
    _thread("microsoft/pai", 3372, "GPU memory used by no visible process"),
    _thread("pytorch/pytorch", 35710, "CUDA error 802: system not yet initialized"),
    _thread("pytorch/pytorch", 5040, "Bus error: insufficient shared memory"),
    _thread("pytorch/pytorch", 127176, "GradScaler is not implemented for BFloat16"),
    _thread("pytorch/pytorch", 76509, "TF32 off for matmuls by default"),
    _thread("pytorch/pytorch", 139298, "NaN with cuDNN attention on H100, torch 2.5.0"),
    _thread("pytorch/pytorch", 196678, "cuDNN attention: NaN in dq on sm_90"),
    _thread("pytorch/pytorch", 193893, "cuDNN attention: wrong decode on sm_100"),
    _thread("pytorch/pytorch", 190321, "cuDNN attention: execute fails intermittently on H200"),
    _thread("pytorch/pytorch", 169849, "cuDNN attention backward out of bounds before 9.15.1"),
    _thread("pytorch/pytorch", 103749, "memory-efficient attention: NaN for fully masked rows"),
    _thread("pytorch/pytorch", 163903, "cuDNN attention refused with dropout on 9.11 to 9.13"),
    _thread("pytorch/pytorch", 191937, "memory-efficient attention wrong with broadcast keys"),
    _thread("pytorch/pytorch", 188892, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"),
    _thread("pytorch/pytorch", 134929, "undefined symbol __nvJitLinkComplete_12_4"),
    _thread("pytorch/pytorch", 172352, "Volta dropped from the CUDA 12.8 and 13 wheels"),
    _thread("pytorch/pytorch", 157517, "Maxwell and Pascal dropped from the CUDA 12.8 wheels"),
    _thread("pytorch/pytorch", 140930, "No execution plans support the graph: cuDNN attention"),
    _thread("pytorch/pytorch", 166387, "torch.compile: mixed TF32 API error with the new API only"),
    _thread("pytorch/pytorch", 129288, "is_bf16_supported(including_emulation=...)"),
    Source(
        "torch-matmul-precision",
        "torch.set_float32_matmul_precision",
        "",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    ),
    Source(
        "nvidia-tf32-override",
        "NVIDIA TF32: NVIDIA_TF32_OVERRIDE",
        "",
        "https://deeprec.readthedocs.io/en/latest/NVIDIA-TF32.html",
    ),
    Source(
        "vast-docker",
        "Vast.ai: Docker execution environment",
        "",
        "https://docs.vast.ai/guides/instances/docker-environment",
    ),
    Source(
        "runpod-disk",
        "runpodctl create pod",
        "container disk and volume",
        "https://docs.runpod.io/runpodctl/reference/runpodctl_create_pod",
    ),
    Source(
        "gpu-fryer",
        "GPU fryer: measured TFLOPS for reference",
        "Usage",
        "https://github.com/huggingface/gpu-fryer",
        checked="2026-11-21",
    ),
    Source(
        "mamf",
        "Machine Learning Engineering: accelerators",
        "Maximum Achievable Matmul FLOPS comparison table",
        "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator",
        checked="2026-11-21",
    ),
    Source(
        "dcgm",
        "NVIDIA DCGM: diagnostic floors and hardware limits",
        "nvvs/diag-skus.yaml.in",
        "https://github.com/NVIDIA/DCGM",
        checked="2026-11-21",
    ),
    Source(
        "vast-self-test",
        "Vast.ai: requirements for verification",
        "",
        "https://docs.vast.ai/documentation/host/how-to-self-test",
        checked="2026-11-21",
    ),
    Source(
        "pcie-link",
        "Power management of GPUs through PCIe: an idle link is slow",
        "",
        "https://baaz.dev/blog/understanding-power-management-in-gpu-via-pcie",
    ),
    Source(
        "cublas-reproducibility",
        "cuBLAS Library",
        "2.1.4 Results Reproducibility",
        "https://docs.nvidia.com/cuda/pdf/CUBLAS_Library.pdf",
        checked="2026-11-21",
    ),
    Source(
        "gpu-burn",
        "gpu-burn: the same product compared again and again",
        "",
        "https://github.com/wilicc/gpu-burn",
        checked="2026-11-21",
    ),
    Source(
        "nccl-troubleshooting",
        "NCCL: troubleshooting GPU-to-GPU communication and ACS",
        "",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        checked="2026-11-21",
    ),
    _thread("NVIDIA/nccl-tests", 117, "All-reduce hangs on two RTX 4090"),
    _thread("NVIDIA/nccl", 2079, "IOMMU and ACS: hangs or corrupt data between GPUs"),
    _thread("pytorch/pytorch", 84803, "Wrong data between GPUs with the IOMMU on"),
    _thread("vllm-project/vllm", 4992, "Peer access that is reported and does not work"),
    _thread("vllm-project/speculators", 765, "Trained models keep norm weights at 1.0"),
    _thread("huggingface/transformers", 24243, "OPT layer norm weights are all 1"),
    _thread("fla-org/flame", 47, "After pretraining all RMSNorm weights are still 1"),
    _thread("unslothai/unsloth", 4533, "RMSNorm weights that get no gradient"),
    _thread("huggingface/safetensors", 668, "A header over 100 MB cannot be read"),
    _thread("huggingface/huggingface_hub", 4728, "An index and shards that disagree"),
    _thread("vllm-project/vllm", 53537, "Corrupt weights that load without an error"),
    _thread("turboderp/exllamav2", 415, "Llama 3 defines no padding token"),
    Source(
        "torch-weights-only",
        "CVE-2025-32434: torch.load with weights_only=True, before 2.6",
        "GHSA-53q9-r3pm-6pq6",
        "https://github.com/pytorch/pytorch/security/advisories/GHSA-53q9-r3pm-6pq6",
    ),
    Source(
        "safetensors-format",
        "safetensors",
        "Format",
        "https://github.com/huggingface/safetensors#format",
    ),
    Source(
        "low-precision-matrix",
        "NVIDIA Transformer Engine: support matrix",
        "",
        "https://nvidia.github.io/TransformerEngine/support_matrix.html",
    ),
    Source(
        "vast-contract",
        "Vast.ai: Overview",
        "Rental contracts",
        "https://vast.ai/docs/introduction/overview",
        checked="2026-11-21",
    ),
    Source(
        "t4-ecc",
        "NVIDIA forum: T4 has only 15 GB (ECC on GDDR memory takes 6.25 %)",
        "",
        "https://forums.developer.nvidia.com/t/nvidia-t4-has-only-15g-of-memory/173099",
        checked="2026-11-21",
    ),
    Source(
        "activation-recomputation",
        "Korthikanti et al.: Reducing Activation Recomputation in Large Transformer Models",
        "4",
        "https://arxiv.org/abs/2205.05198",
        checked="2026-11-21",
    ),
    Source(
        "bnb-optimizers",
        "bitsandbytes: optimizers of 8 bits, and Lion's one state",
        "",
        "https://huggingface.co/docs/bitsandbytes/v0.50.0/reference/optim/optim_overview",
        checked="2026-11-21",
    ),
    Source(
        "optimi",
        "torch-optimi: training in pure bf16 with Kahan summation",
        "",
        "https://github.com/warner-benjamin/optimi",
    ),
)

SOURCES = {source.id: source for source in (*DOCUMENTS, *ADDRESSES)}


def is_document(id: str) -> bool:
    """Whether a source is a section of a source document rather than a public address."""
    return bool(SOURCES[id].document)


def short_section(source: Source) -> str:
    """The section's number or short name where it has one, else its heading."""
    heading = " ".join(source.section.replace("*", "").split())
    return source.alias or heading


def cite(source: Source) -> str:
    """One line: the document's name and section, or title, section and address."""
    section = " ".join(source.section.replace("*", "").split())
    if source.alias and not section.startswith(source.alias):
        section = f"{section}: {source.alias}"
    if source.document:
        return f"document {source.document}, {section}"
    said = f"{source.title}, {section}" if section else source.title
    return f"{said} <{source.url}>"
