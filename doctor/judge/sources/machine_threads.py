"""Threads about drivers, GPUs and the kernels that run on them."""

from __future__ import annotations

from doctor.judge.sources.source import Source, thread

MACHINE_THREADS = (
    Source(
        "toolkit-48",
        "Containers lose access to GPUs after systemctl daemon-reload",
        "#48",
        "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
    ),
    thread(
        "fartashf/vsepp", 4, "Finish validation without running model.train()", checked="2026-11-23"
    ),
    thread(
        "pytorch/pytorch", 97191, "A collective that times out does not end", checked="2026-11-23"
    ),
    thread(
        "ggml-org/llama.cpp",
        7218,
        "CUDA: unknown error until nvidia_uvm is loaded",
        checked="2026-11-22",
    ),
    thread(
        "NVIDIA/nvidia-docker", 396, "nvidia-modprobe loads the UVM module", checked="2026-11-22"
    ),
    thread("pytorch/pytorch", 123505, "Unrecognized CachingAllocator option", checked="2026-11-22"),
    Source(
        "rocm-2232",
        "Unable to open /dev/kfd: groups video and render",
        "#2232",
        "https://github.com/ROCm/legacy-rocm-build/issues/2232",
        checked="2026-11-23",
    ),
    thread("pytorch/pytorch", 166643, "Conv3d in bf16 takes more memory in torch 2.9"),
    thread("conda-forge/pytorch-cpu-feedstock", 521, "cuBLAS 13.5.1.27 fails on RTX 50"),
    thread("NVIDIA/nvtrust", 113, "cuInit takes 6.56 s in confidential-computing mode"),
    thread("YoshitakaMo/localcolabfold", 127, "NVML mismatch inside a container only"),
    Source(
        "azurehpc-595",
        "The software power cap is no throttling",
        "#595",
        "https://github.com/Azure/azurehpc/pull/595",
    ),
    thread("pytorch/pytorch", 130181, "Several MIG instances in one process"),
    thread("pytorch/pytorch", 100691, "CUDA-capable device(s) is/are busy or unavailable"),
    thread("NVIDIA/nvidia-docker", 1483, "NVML's pids are the host's, not the container's"),
    thread("NVIDIA/nccl", 1716, "NCCL between MIG instances"),
    thread("microsoft/pai", 3372, "GPU memory used by no visible process"),
    thread("pytorch/pytorch", 35710, "CUDA error 802: system not yet initialized"),
    thread("pytorch/pytorch", 5040, "Bus error: insufficient shared memory"),
    thread("pytorch/pytorch", 127176, "GradScaler is not implemented for BFloat16"),
    thread("pytorch/pytorch", 76509, "TF32 off for matmuls by default"),
    thread("pytorch/pytorch", 139298, "NaN with cuDNN attention on H100, torch 2.5.0"),
    thread("pytorch/pytorch", 196678, "cuDNN attention: NaN in dq on sm_90"),
    thread("pytorch/pytorch", 193893, "cuDNN attention: wrong decode on sm_100"),
    thread("pytorch/pytorch", 190321, "cuDNN attention: execute fails intermittently on H200"),
    thread("Dao-AILab/quack", 182, "Triton since torch 2.12 needs driver 580 on Blackwell"),
    thread("pytorch/pytorch", 170676, "CUBLAS_STATUS_INVALID_VALUE in fp16 on B300"),
    thread("pytorch/pytorch", 192843, "cuDNN 9.24 has no attention for capability 10.7"),
    thread("NVIDIA/cudnn-frontend", 1072, "cuDNN attention: NaN in dK and dV for one query"),
    thread("pytorch/pytorch", 169849, "cuDNN attention backward out of bounds before 9.15.1"),
    thread("pytorch/pytorch", 103749, "memory-efficient attention: NaN for fully masked rows"),
    thread("pytorch/pytorch", 163903, "cuDNN attention refused with dropout on 9.11 to 9.13"),
    thread("pytorch/pytorch", 191937, "memory-efficient attention wrong with broadcast keys"),
    thread("pytorch/pytorch", 188892, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"),
    thread("pytorch/pytorch", 150724, "Wheels for glibc 2.28 on a system with 2.17"),
    thread("pytorch/pytorch", 164346, "ROCm: HIP error: invalid device function on gfx1151"),
    thread("pytorch/pytorch", 103973, "ROCm: GPUs that the wheels have no code for"),
    thread("NVIDIA/open-gpu-kernel-modules", 246, "A GPU that this kernel module cannot start"),
    thread(
        "NVIDIA/aicr", 1858, "Eight GPUs on the bus, seven in nvidia-smi -L", checked="2026-11-23"
    ),
    thread("NVIDIA/open-gpu-kernel-modules", 862, "No devices were found on an RTX 5090"),
    thread("pytorch/pytorch", 134929, "undefined symbol __nvJitLinkComplete_12_4"),
    thread("pytorch/pytorch", 172352, "Volta dropped from the CUDA 12.8 and 13 wheels"),
    thread("pytorch/pytorch", 157517, "Maxwell and Pascal dropped from the CUDA 12.8 wheels"),
    thread("pytorch/pytorch", 140930, "No execution plans support the graph: cuDNN attention"),
    thread("pytorch/pytorch", 166387, "torch.compile: mixed TF32 API error with the new API only"),
    thread("pytorch/pytorch", 129288, "is_bf16_supported(including_emulation=...)"),
    thread("pytorch/pytorch", 180713, "cuBLAS 12.8.4.1: every matmul fails on a GH200"),
    thread("pytorch/pytorch", 150852, "NCCL of a nightly does not start on a 12.2 driver"),
    thread("pytorch/serve", 1993, "CUBLAS_STATUS_NOT_INITIALIZED on a full GPU"),
    thread("mpicbg-scicomp/gearshifft", 82, "Pinned copies from the memory of the other socket"),
    thread("NVIDIA/nccl-tests", 117, "All-reduce hangs on two RTX 4090"),
    thread("NVIDIA/nccl", 2079, "IOMMU and ACS: hangs or corrupt data between GPUs"),
    thread("pytorch/pytorch", 84803, "Wrong data between GPUs with the IOMMU on"),
    thread("vllm-project/vllm", 4992, "Peer access that is reported and does not work"),
    thread("vllm-project/speculators", 765, "Trained models keep norm weights at 1.0"),
    thread("huggingface/transformers", 36567, "The dtype of config.json when a model is loaded"),
    thread(
        "huggingface/transformers",
        43140,
        "Trainer reads rng_state.pth with weights_only=True",
        checked="2026-11-23",
    ),
    thread(
        "huggingface/accelerate",
        3036,
        "load_state reads with weights_only=True",
        checked="2026-11-23",
    ),
    thread("huggingface/transformers", 24243, "OPT layer norm weights are all 1"),
    thread("fla-org/flame", 47, "After pretraining all RMSNorm weights are still 1"),
    thread("unslothai/unsloth", 4533, "RMSNorm weights that get no gradient"),
    thread("huggingface/safetensors", 668, "A header over 100 MB cannot be read"),
    thread("huggingface/huggingface_hub", 4728, "An index and shards that disagree"),
    thread("vllm-project/vllm", 53537, "Corrupt weights that load without an error"),
    thread("turboderp/exllamav2", 415, "Llama 3 defines no padding token"),
    thread("huggingface/trl", 6702, "A NaN step is invisible in log_history"),
    thread("huggingface/trl", 3857, "GRPO: loss 0.0 and grad_norm 0.0"),
    thread("huggingface/accelerate", 3256, "The optimizer holds other parameters than FSDP"),
    thread("pytorch/pytorch", 149205, "FSDP2: the optimizer does not update the parameters"),
    thread("huggingface/accelerate", 2926, "The scheduler steps too fast on several GPUs"),
    thread("huggingface/peft", 793, "LoRA B stays zero: the model equals its base"),
    thread("unslothai/unsloth", 3089, "LoRA B matrices that are not updated"),
    thread("deepspeedai/DeepSpeed", 8415, "ZeRO skips bf16 steps without a log line"),
    thread(
        "huggingface/accelerate",
        1299,
        "zero_grad() under gradient accumulation",
        checked="2026-11-23",
    ),
    thread(
        "huggingface/accelerate", 641, "Clipping under gradient accumulation", checked="2026-11-23"
    ),
    thread(
        "huggingface/transformers", 1563, "A clip after every micro-batch", checked="2026-11-23"
    ),
    thread(
        "huggingface/transformers", 986, "Clip once per step of the optimizer", checked="2026-11-23"
    ),
    thread("huggingface/peft", 2115, "Loading an adapter over a fresh one"),
)
