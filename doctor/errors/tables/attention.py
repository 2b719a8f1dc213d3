"""Attention kernels, and other kernels that a GPU, a size or a dtype does not have."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="xformers-no-operator",
        errors=("NotImplementedError",),
        messages=(r"No operator found for `?memory_efficient_attention",),
        examples=(
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with "
            "inputs:",
        ),
        why="No kernel of xformers takes these inputs. The lines below give a reason for each: "
        "built without CUDA or for another torch, a GPU that is too old, float32, inputs on the "
        "CPU, a head dimension, or a mask whose rows are not aligned.",
        fix='If the reasons say "wasn\'t built" or python -m xformers.info lists all as '
        "unavailable, reinstall xformers for this torch (or leave it out: torch's own "
        "scaled_dot_product_attention is as fast). Otherwise run in fp16 or bf16 on the GPU; cut "
        "a mask from a tensor whose last size is a multiple of 8.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m xformers.info",),
    ),
    Cause(
        id="xformers-on-cpu-build",
        messages=(r"\(you have \d[\w.]{1,20}\+cpu\)",),
        examples=("PyTorch 2.2.0+cu121 with CUDA 1201 (you have 2.2.0+cpu)",),
        why="The installed torch is a build for the CPU, so that no compiled extension for CUDA "
        "loads.",
        fix="Uninstall torch and install the CUDA build that the line names first, from its index "
        "(--index-url https://download.pytorch.org/whl/cu121 for +cu121); reinstalling xformers "
        "changes nothing.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip uninstall torch torchvision torchaudio",),
        next_check="TOR002",
    ),
    Cause(
        id="xformers-of-other-torch",
        yields_to=("xformers-on-cpu-build",),
        messages=(r"xFormers can't load C\+\+/CUDA extensions|xFormers was built for",),
        examples=(
            "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for: "
            "PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cu121)",
        ),
        why="xformers was compiled for another torch than the one installed, so that its kernels "
        "are off.",
        fix="Install the pair that belongs together: pip install xformers with the torch that it "
        "asks for, from the index of the same CUDA; or uninstall xformers and use torch's "
        "scaled_dot_product_attention.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m xformers.info", "python -m pip show torch xformers"),
    ),
    Cause(
        id="flash-attention-in-float32",
        refines=("attention-unsupported",),
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"FlashAttention only supports? fp16 and bf16|Flash ?Attention ?2(?:\.0)? only "
            r"supports",
            r"cu_seqlens_[qk] must be on CUDA|Input tensor must be on CUDA device|[qkv] must be "
            r"on CUDA|Flash Attention 2(?:\.0)? with a model not initialized on GPU",
        ),
        examples=(
            "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            "ValueError: Flash Attention 2 only supports torch.float16 and torch.bfloat16",
            "RuntimeError: cu_seqlens_q must be on CUDA",
            "You are attempting to use Flash Attention 2.0 with a model not initialized on GPU. "
            "Make sure to move the model to GPU after initializing it on CPU with "
            "`model.to('cuda')`.",
        ),
        why="FlashAttention takes float16 or bfloat16 on the GPU: the model was loaded in "
        "float32, or PEFT, a norm or prepare_model_for_kbit_training cast it up and no autocast "
        "is on; or an input or the model is on the CPU (as a warning at loading harmless if it is "
        "moved afterwards).",
        fix="Load with dtype=torch.bfloat16 and train with bf16=True, run evaluation and "
        'generation under torch.autocast("cuda", dtype=torch.bfloat16), or use '
        'attn_implementation="sdpa". On the CPU: move model and batch to the GPU, and check that '
        "device_map left no layer there.",
    ),
    Cause(
        id="flash-attention-older-gpu",
        errors=("RuntimeError",),
        messages=(r"Expected is_sm(?:80|8x|90)\b.{0,60}to be true",),
        examples=("RuntimeError: Expected is_sm80 || is_sm90 to be true, but got false.",),
        why="The backward pass of this FlashAttention for head dimensions above 64 needs an A100 "
        "or H100: consumer GPUs (sm_86, sm_89) have too little shared memory for it.",
        fix="Upgrade torch (2.1 or newer has kernels for up to 256) or flash-attn, switch that "
        "kernel off, torch.backends.cuda.enable_flash_sdp(False), or use "
        'attn_implementation="eager".',
        commands=("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
    ),
    Cause(
        id="cudnn-finds-no-algorithm",
        refines=("cudnn-error",),
        errors=("RuntimeError",),
        messages=(
            r"(?:GET|FIND) was unable to find an engine",
            r"[Uu]nable to find a valid cuDNN algorithm",
        ),
        examples=(
            "RuntimeError: GET was unable to find an engine to execute this computation",
            "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
        ),
        why="cuDNN found no way to compute this convolution: most often the GPU's memory is full, "
        "so that no workspace is left; else a size, a dtype or a GPU that this cuDNN does not "
        "support.",
        fix="Halve the batch or the image size and look at nvidia-smi first; then "
        "torch.backends.cudnn.benchmark=False. If it persists at batch 1, run in float32 without "
        "channels_last, or reinstall torch with the cuDNN of its own wheel.",
        commands=("nvidia-smi",),
    ),
    Cause(
        id="linear-algebra-library-failed",
        errors=("RuntimeError", "LinAlgError"),
        messages=(r"CUSOLVER_STATUS_\w{4,40}|CUFFT_\w{4,40}|cuFFT error|CUSPARSE_STATUS_\w{4,40}",),
        examples=(
            "RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling "
            "`cusolverDnCreate(handle)`",
            "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
        ),
        why="A library for linear algebra or FFT failed: no memory for its workspace, NaN or "
        "infinite values in the input, or a CUDA build that is older than the GPU "
        "(CUFFT_INTERNAL_ERROR on RTX 40 cards with CUDA 11.7 builds).",
        fix="Check torch.isfinite(x).all() and free memory (smaller batch). On a newer GPU "
        "install a torch of CUDA 11.8 or newer. For cuSOLVER try "
        'torch.backends.cuda.preferred_linalg_library("magma"), or compute it in float32 on the '
        "CPU.",
        commands=(
            'python -c "import torch; print(torch.__version__, torch.version.cuda)"',
            "nvidia-smi",
        ),
    ),
    Cause(
        id="fuser-older-than-gpu",
        errors=("RuntimeError",),
        messages=(r"nvrtc: error: invalid value for --gpu-architecture",),
        examples=("RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",),
        why="torch's compiler for fused kernels (TorchScript) is older than this GPU.",
        fix="Install a torch that has code for the GPU (TOR003; CUDA 12.8 or newer for compute "
        "capability 10 and 12), or switch TorchScript's fuser off: PYTORCH_JIT=0.",
        owner=Owner.ENVIRONMENT,
        commands=(
            'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list())"',
        ),
        next_check="TOR003",
    ),
    Cause(
        id="graph-output-overwritten",
        errors=("RuntimeError",),
        messages=(r"accessing tensor output of CUDAGraphs that has been overwritten",),
        examples=(
            "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten "
            "by a subsequent run.",
        ),
        why='torch.compile with mode="reduce-overhead" or "max-autotune" reuses its outputs\' '
        "memory at the next call, and an output of the last call is still needed: accumulation, a "
        "cached state, two calls in one step.",
        fix="Call torch.compiler.cudagraph_mark_step_begin() before each step, clone what is kept "
        '(out.clone()), or compile with mode="max-autotune-no-cudagraphs" or the default mode.',
    ),
    Cause(
        id="compiled-data-dependent",
        refines=("compile-failed",),
        errors=("UserError", "GuardOnDataDependentSymNode"),
        messages=(
            r"(?:Could not (?:guard on|extract specialized integer from)|guard on) data-dependent",
        ),
        examples=(
            "torch._dynamo.exc.UserError: Could not guard on data-dependent expression u0 > 0 "
            "(unhinted: u0 > 0)",
        ),
        why="A size or a branch in the compiled code depends on the values of a tensor (.item(), "
        "nonzero, boolean masks).",
        fix="Leave that function out with @torch.compiler.disable, compile without "
        "fullgraph=True, replace x[mask] by torch.where, or state what is known with "
        "torch._check(n >= 0).",
        commands=("TORCH_LOGS=graph_breaks,dynamic python train.py",),
    ),
    Cause(
        id="autotuning-without-choice",
        refines=("compile-failed",),
        errors=("LoweringException", "InductorError", "NoValidChoicesError"),
        messages=(r"NoValidChoicesError",),
        examples=(
            "torch._inductor.exc.LoweringException: NoValidChoicesError: No choices to select, "
            "please consider adding ATEN into max_autotune_gemm_backends config",
        ),
        why="max-autotune tried its kernels for an operation, and none fits this GPU or these "
        "sizes: often flex_attention with little shared memory, or only Triton as a backend.",
        fix="Let it fall back: TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON, or compile "
        "without max-autotune. flex_attention: compile it with dynamic=False, "
        'mode="max-autotune-no-cudagraphs", or pass smaller blocks in kernel_options={"BLOCK_M": '
        '32, "BLOCK_N": 32}.',
        commands=("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON python train.py",),
    ),
    Cause(
        id="allocator-assertion",
        errors=("RuntimeError",),
        messages=(
            r"INTERNAL ASSERT FAILED at .{0,80}(?:CUDACachingAllocator|driver_api)|NVML_SUCCESS "
            r"== r",
        ),
        examples=(
            "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
            '"../c10/cuda/CUDACachingAllocator.cpp":838, please report a bug to PyTorch.',
        ),
        why="torch asks NVML about the GPU when memory is short, and NVML did not answer: the "
        "memory is full on a vGPU, MIG slice or Jetson, the driver was upgraded without a "
        "restart, or expandable segments are on where they are not supported.",
        fix="Treat it as out of memory first (smaller batch); then check nvidia-smi "
        '("Driver/library version mismatch": restart), and switch '
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True off.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi", 'echo "$PYTORCH_CUDA_ALLOC_CONF"'),
    ),
    Cause(
        id="optimizer-state-on-gpu",
        errors=("AssertionError",),
        messages=(r"If capturable=False, state_steps should not be CUDA tensors",),
        examples=("AssertionError: If capturable=False, state_steps should not be CUDA tensors.",),
        why="The optimizer's step counters were moved to the GPU, by loading a state with "
        'map_location="cuda" or by moving all of its state; torch 1.12.0 did so itself.',
        fix='Load the state with map_location="cpu" and let load_state_dict place it; leave '
        'state["step"] on the CPU; upgrade torch 1.12.0. As a workaround set capturable=True in '
        "each group.",
    ),
    Cause(
        id="scaler-without-scale",
        errors=("AssertionError",),
        messages=(r"Attempted (?:unscale_|step|update) but _scale is None",),
        examples=(
            "AssertionError: Attempted unscale_ but _scale is None. This may indicate your script "
            "did not use scaler.scale(loss or outputs) earlier in the iteration.",
        ),
        why="scaler.unscale_ or scaler.step came before any scaler.scale(loss): the loss was not "
        "scaled in this step.",
        fix="Call scaler.scale(loss).backward(), then scaler.unscale_(optimizer), the clipping, "
        "scaler.step(optimizer) and scaler.update(), with one scaler for the whole training.",
    ),
    Cause(
        id="kernel-takes-another-dtype",
        errors=("RuntimeError",),
        messages=(
            r"Expected attn_mask dtype to be bool or float",
            r"cu_seqlens\w{0,4} must have dtype int32",
            r"mixed dtype \(CPU\): expect parameter to have scalar type",
        ),
        examples=(
            "RuntimeError: Expected attn_mask dtype to be bool or float or to match query dtype, "
            "but got",
            "RuntimeError: cu_seqlens_q must have dtype int32",
            "RuntimeError: mixed dtype (CPU): expect parameter to have scalar type of Float",
        ),
        why="The kernel takes this argument in one dtype only.",
        fix="An attention mask: mask.bool(), or mask.to(query.dtype) for one that is added. "
        "cu_seqlens: .to(torch.int32). Norms on the CPU: keep their parameters in float32 "
        "(autocast does), or cast the input to the dtype of the weight.",
    ),
    Cause(
        id="mask-of-another-length",
        errors=("ValueError", "RuntimeError"),
        messages=(r"[Aa]ttention mask should be of size \(",),
        examples=(
            "ValueError: Attention mask should be of size (1, 1, 512, 512), but is (1, 1, 512, 9)",
        ),
        why="The mask counts other positions than the layer has: a cache of past keys, padding "
        "that was cut, or transformers of another release than the model's own code.",
        fix="In training pass use_cache=False, and build the mask from the padded batch (the "
        "tokenizer's attention_mask). For a model with code of its own install the transformers "
        "in its config.json.",
    ),
)
