"""Libraries and compilers of kernels: cuBLAS, cuDNN, FlashAttention, Triton."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Remedy, Wording
from doctor.errors.tables.commands import LD_PATHS

ROWS = (
    Cause(id="cublas",
        messages=("CUBLAS_STATUS_(?:NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR|"
            "NOT_SUPPORTED|INVALID_VALUE|MAPPING_ERROR)",),
        examples=("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
            "`cublasCreate(handle)`",
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx"),
        why="cuBLAS is usually the victim: of a full GPU while its handle is created, of an "
            "index error in an earlier kernel, or of a bf16 product on a GPU without bf16.",
        fix="Look for an assertion or an out-of-memory line before it; free the GPU; run once "
            "with CUDA_LAUNCH_BLOCKING=1. With bf16 on a GPU below compute capability 8.0 use "
            "fp16 or fp32.",
        commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",),
        title="No call of cuBLAS failed", sources=("pytorch-180713",),
        owner=Owner.ENVIRONMENT, role="consequence", next_check="TOR004", code="LOG017"),
    Cause(id="cudnn-error",
        messages=("CUDNN_STATUS_(?:NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR|BAD_PARAM|"
            "MAPPING_ERROR|NOT_SUPPORTED)",
            "No execution plans support the graph|mha_graph",
            "GET was unable to find an engine to execute this computation"),
        examples=("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
            "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans "
            "support the graph.",
            "RuntimeError: GET was unable to find an engine to execute this computation"),
        why="cuDNN refused or failed a call: the GPU is full, another cuDNN was loaded, or this "
            "shape and dtype is not supported by the version.",
        fix="Free the GPU, check which cuDNN is loaded, and for attention call "
            "torch.backends.cuda.enable_cudnn_sdp(False).",
        commands=LD_PATHS,
        title="No call of cuDNN failed", yields_to=("requirement-of-torch-broken",),
        sources=("pytorch-190321", "pytorch-188892"),
        owner=Owner.ENVIRONMENT, role="consequence", next_check="TOR004", code="LOG018"),
    Cause(id="flash-attn-unsupported-gpu",
        messages=("FlashAttention only supports (?:Ampere|Hopper)",
            r"CUDA error \(\S{4,160}flash\S{0,160}\): invalid argument"),
        examples=("RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
            "CUDA error "
            "(/xformers/third_party/flash-attention/hopper/flash_fwd_launch_template.h:188): "
            "invalid argument"),
        why="FlashAttention 2 needs compute capability 8.0, and a build that knows the GPU: "
            "kernels for Hopper fail on RTX 50. The same message appears on newer GPUs when "
            "parts of the model were offloaded to the CPU.",
        fix='Load the model with attn_implementation="sdpa", or install a build of xformers or '
            "flash-attn for this GPU. On a GPU that is supported, look for parameters on the "
            "CPU or the meta device (device_map, offloading).",
        title="FlashAttention supports the GPU",
        sources=("flash-attention-762", "transformers-28188", "flash-attention-1485"),
        owner=Owner.ENVIRONMENT, next_check="NUM003", code="LOG019"),
    Cause(id="ptxas-arch",
        refines=("kernel-does-not-fit-gpu",),
        messages=(r"ptxas(?:-\w{1,20})? fatal {1,4}: Value 'sm_\w+' is not defined for option "
            r"'gpu-name'",
            "too old to be supported by the triton GPU compiler",
            r"'sm_\w{1,6}' is not a recognized processor|does not support target 'sm_\w{1,6}'",
            r"ptxas\b.{0,400}--gpu-name=sm_\w{1,6} .{0,400}returned non-zero exit status"),
        examples=("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
            "NoTritonConfigsError: No valid triton configs.\nptxas fatal   : Value 'sm_120' is "
            "not defined for option 'gpu-name'",
            "RuntimeError: Found Tesla P100-PCIE-16GB which is too old to be supported by the "
            "triton GPU compiler, which is used as the backend.",
            "'sm_120' is not a recognized processor for this target (ignoring processor)",
            "subprocess.CalledProcessError: Command '/opt/triton/backends/nvidia/bin/ptxas "
            "-lineinfo -v --gpu-name=sm_120 /tmp/a.ptx' returned non-zero exit status 255."),
        wordings=(
            Wording(r"ptxas\b.{0,20} {1,4}: Value 'sm_1(?:03|10|21)[af]?' is not defined",
                "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
                "The ptxas that Triton brings is of CUDA 12.8, which does not know this GPU.",
                "Give Triton the ptxas of an installed toolkit, CUDA 13.0 or newer: "
                "TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas. Or install a torch whose Triton "
                "brings a newer one. Until then train without torch.compile.",
                ("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",
                    "/usr/local/cuda/bin/ptxas --version")),),
        why="Triton, or the ptxas or LLVM that it brings, is older than the GPU; or the GPU is "
            "older than what Triton compiles for (compute capability 7.0).",
        fix="New GPU: install a torch with a newer Triton (RTX 50 and B200, sm_100 to sm_121: "
            "triton 3.3 or newer, torch 2.7 with cu128; remove an old pytorch-triton), or give "
            "it the ptxas of a current toolkit: TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas. "
            "Old GPU: no torch.compile, which needs compute capability 7.0 (Volta).",
        commands=("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas",),
        title="Triton can compile for the GPU", sources=("triton-8539", "vllm-31338"),
        owner=Owner.ENVIRONMENT, next_check="TOR003", code="LOG020"),
    Cause(id="cudnn-sdpa-nan",
        messages=(r"ScaledDotProductCudnnAttentionBackward\d*' returned nan",),
        examples=("RuntimeError: Function 'ScaledDotProductCudnnAttentionBackward0' returned "
            "nan values in its 0th output.",),
        why="cuDNN attention computes NaN in the backward pass for some shapes and masks in "
            "single versions.",
        fix="Call torch.backends.cuda.enable_cudnn_sdp(False) before training.",
        title="cuDNN attention returned finite gradients",
        remedies=(
            Remedy(package="torch", until="2.5",
                fix="This torch does not select cuDNN attention by itself: remove the call that "
                "enables it."),),
        sources=("pytorch-139298", "pytorch-196678"),
        owner=Owner.ENVIRONMENT, next_check="NUM003", code="LOG021"),
)  # fmt: skip
