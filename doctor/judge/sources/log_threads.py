"""Threads in which a text of a log was explained, and the fix accepted."""

from __future__ import annotations

from doctor.judge.sources.source import Source


def _thread(repository: str, number: int, title: str, kind: str = "issues") -> Source:
    name = repository.split("/")[1]
    return Source(
        f"{name}-{number}", title, f"#{number}", f"https://github.com/{repository}/{kind}/{number}"
    )


LOG_THREADS = (
    _thread("pytorch/pytorch", 16417, "CUDA out of memory: how to read the message"),
    _thread("pytorch/pytorch", 31285, "No kernel image is available for the device"),
    _thread("pytorch/pytorch", 81883, "Architectures in the wheels, and GPUs they lack"),
    _thread("thomasbrandon/mish-cuda", 10, "An extension without code for the GPU"),
    _thread("lllyasviel/Fooocus", 1313, "The NVIDIA driver is too old"),
    _thread("sgl-project/sglang", 11395, "The NVIDIA driver is too old for the wheel"),
    _thread("pytorch/pytorch", 80637, "cuDNN version incompatibility"),
    _thread("bmaltais/kohya_ss", 1096, "cuDNN of the system before that of the wheel"),
    _thread("facebookresearch/audiocraft", 186, "cuDNN version incompatibility"),
    _thread("milesial/Pytorch-UNet", 375, "Device-side assert: labels outside the classes"),
    _thread("modelscope/ms-swift", 3267, "Device-side assert: token ids beyond the embedding"),
    _thread("wilicc/gpu-burn", 1, "A GPU that falls off the bus under load"),
    _thread("NVIDIA/open-gpu-kernel-modules", 507, "Xid 79: GPU has fallen off the bus"),
    _thread("Dao-AILab/flash-attention", 762, "FlashAttention only supports Ampere GPUs"),
    _thread("Dao-AILab/flash-attention", 1485, "The same message on an A800, with offloading"),
    _thread("huggingface/transformers", 28188, "Flash attention on unsupported GPUs"),
    _thread("triton-lang/triton", 8539, "ptxas that does not know the GPU"),
    _thread("vllm-project/vllm", 31338, "ptxas of the toolkit instead of Triton's", "pull"),
    _thread("NVIDIA/nccl", 1438, "A watchdog timeout explained"),
    _thread("pytorch/pytorch", 118369, "Watchdog caught collective operation timeout"),
    _thread("NVIDIA/Megatron-LM", 1207, "Collective timeout in a training"),
    _thread("hiyouga/LlamaFactory", 7396, "Collective timeout: the ranks diverged"),
    _thread("meta-llama/llama", 856, "exitcode: -9 while a model is loaded"),
    _thread("meta-llama/llama-models", 334, "Killed while a model is loaded"),
    _thread("hpcaitech/ColossalAI", 3514, "exitcode: -9: host memory"),
    _thread("modelscope/ms-swift", 64, "SIGHUP when the terminal closes"),
    _thread("GanjinZero/RRHF", 35, "SIGHUP when the terminal closes"),
    Source(
        "Open-Llama-checkpointing",
        "Open-Llama: checkpointing needs inputs that require gradients",
        "",
        "https://github.com/s-JoL/Open-Llama",
    ),
    _thread("pytorch/pytorch", 194947, "The scaler for bf16 gradients on CUDA", "pull"),
    _thread("Facico/Chinese-Vicuna", 168, "Attempting to unscale FP16 gradients"),
    _thread("haotian-liu/LLaVA", 363, "Attempting to unscale FP16 gradients"),
    _thread("bitsandbytes-foundation/bitsandbytes", 945, "Attempting to unscale FP16 gradients"),
    _thread("tloen/alpaca-lora", 203, "expected scalar type Half but found Float"),
    _thread("hiyouga/LlamaFactory", 724, "Operands of two dtypes"),
    _thread("haotian-liu/LLaVA", 774, "Operands of two dtypes in evaluation"),
    _thread("Dao-AILab/flash-attention", 1832, "undefined symbol after an upgrade of torch"),
    _thread("Dao-AILab/flash-attention", 940, "undefined symbol: wheel of another ABI"),
    Source(
        "bitsandbytes-errors",
        "bitsandbytes: errors of the native library",
        "",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/cextension.py",
    ),
    Source(
        "accelerate-device-map",
        "accelerate: device_map and distributed training",
        "Accelerator.prepare_model",
        "https://github.com/huggingface/accelerate/blob/main/src/accelerate/accelerator.py",
    ),
    _thread("huggingface/transformers", 34631, "weights_only and the random state of a resume"),
    _thread("huggingface/transformers", 40500, "weights_only and the optimizer of a resume"),
    _thread("modelscope/ms-swift", 5808, "Weights only load failed on resume"),
    Source(
        "hf-gated",
        "Hugging Face Hub: gated models",
        "",
        "https://huggingface.co/docs/hub/models-gated",
    ),
    Source(
        "hf-offline",
        "huggingface_hub: environment variables",
        "HF_HUB_OFFLINE",
        "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables",
    ),
    _thread("ymcui/Chinese-LLaMA-Alpaca", 534, "Loss scale at its minimum"),
    _thread("NVIDIA/apex", 318, "Gradient overflow at every step"),
    _thread("facebookresearch/detectron2", 550, "Loss became infinite or NaN at an iteration"),
    _thread("huggingface/transformers", 31997, "Loss 0.0 with a NaN gradient norm"),
    Source(
        "zclip",
        "ZClip: adaptive spike mitigation for LLM pre-training",
        "",
        "https://arxiv.org/abs/2504.02507",
    ),
    Source(
        "spam",
        "SPAM: spike-aware Adam with momentum reset",
        "",
        "https://arxiv.org/abs/2501.06842",
    ),
    Source(
        "nvrx-attribution",
        "NVIDIA resiliency extension: log attribution",
        "",
        "https://github.com/NVIDIA/nvidia-resiliency-ext",
    ),
)
