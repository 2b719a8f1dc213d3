"""Attention kernels, and other kernels that a GPU, a size or a dtype does not have."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="xformers-does-not-fit",
        wordings=(
            Wording(r"No operator found for `?memory_efficient_attention",
                "NotImplementedError: No operator found for `memory_efficient_attention_forward` "
                    "with inputs:",
                "No kernel of xformers takes these inputs. The lines below give a reason for each: "
                    "built without CUDA or for another torch, a GPU that is too old, float32, "
                    "inputs on the CPU, a head dimension, or a mask whose rows are not aligned.",
                'If the reasons say "wasn\'t built" or python -m xformers.info lists all as '
                    "unavailable, reinstall xformers for this torch (or leave it out: torch's own "
                    "scaled_dot_product_attention is as fast). Otherwise run in fp16 or bf16 on "
                    "the GPU; cut a mask from a tensor whose last size is a multiple of 8.",
                ("python -m xformers.info",)),
            Wording(r"\(you have \d[\w.]{1,20}\+cpu\)",
                "PyTorch 2.2.0+cu121 with CUDA 1201 (you have 2.2.0+cpu)",
                "The installed torch is a build for the CPU, so that no compiled extension for "
                    "CUDA loads.",
                "Uninstall torch and install the CUDA build that the line names first, from its "
                    "index (--index-url https://download.pytorch.org/whl/cu121 for +cu121); "
                    "reinstalling xformers changes nothing.",
                ("python -m pip uninstall torch torchvision torchaudio",)),
            Wording(r"xFormers can't load C\+\+/CUDA extensions|xFormers was built for",
                "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built "
                    "for: PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cu121)",
                "xformers was compiled for another torch than the one installed, so that its "
                    "kernels are off.",
                "Install the pair that belongs together: pip install xformers with the torch that "
                    "it asks for, from the index of the same CUDA; or uninstall xformers and use "
                    "torch's scaled_dot_product_attention.",
                ("python -m xformers.info", "python -m pip show torch xformers"))),
        why="xformers was built for another torch, CUDA or Python, or has no kernel for this call.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(id="kernel-older-than-gpu",
        errors=("RuntimeError",),
        wordings=(
            Wording(r"Expected is_sm(?:80|8x|90)\b.{0,60}to be true",
                "RuntimeError: Expected is_sm80 || is_sm90 to be true, but got false.",
                "The backward pass of this FlashAttention for head dimensions above 64 needs an "
                    "A100 or H100: consumer GPUs (sm_86, sm_89) have too little shared memory for "
                    "it.",
                "Upgrade torch (2.1 or newer has kernels for up to 256) or flash-attn, switch that "
                    "kernel off, torch.backends.cuda.enable_flash_sdp(False), or use "
                    'attn_implementation="eager".',
                ("nvidia-smi --query-gpu=name,compute_cap --format=csv",), owner=Owner.JOB),
            Wording(r"nvrtc: error: invalid value for --gpu-architecture",
                "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",
                "torch's compiler for fused kernels (TorchScript) is older than this GPU.",
                "Install a torch that has code for the GPU (TOR003; CUDA 12.8 or newer for compute "
                    "capability 10 and 12), or switch TorchScript's fuser off: PYTORCH_JIT=0.",
                ('python -c "import torch; print(torch.__version__, '
                      'torch.cuda.get_arch_list())"',)),
            Wording(r"Attempting to use hipBLASLt on an? unsupported architecture",
                "RuntimeError: Attempting to use hipBLASLt on a unsupported architecture!",
                "This build of torch takes hipBLASLt for products of matrices, and hipBLASLt has "
                    "no kernels for this GPU.",
                "Set TORCH_BLAS_PREFER_HIPBLASLT=0, with which torch takes hipBLAS, or install a "
                    "newer torch for ROCm, which asks the GPU first.",
                ("export TORCH_BLAS_PREFER_HIPBLASLT=0",))),
        why="A kernel or library of this torch has no code for this GPU, or not for this size.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(id="out-of-memory-in-disguise",
        refines=("cudnn-error",),
        errors=("RuntimeError", "LinAlgError"),
        wordings=(
            Wording(r"(?:GET|FIND) was unable to find an engine|[Uu]nable to find a valid cuDNN "
                r"algorithm",
                "RuntimeError: GET was unable to find an engine to execute this computation",
                "cuDNN found no way to compute this convolution: most often the GPU's memory is "
                    "full, so that no workspace is left; else a size, a dtype or a GPU that this "
                    "cuDNN does not support.",
                "Halve the batch or the image size and look at nvidia-smi first; then "
                    "torch.backends.cudnn.benchmark=False. If it persists at batch 1, run in "
                    "float32 without channels_last, or reinstall torch with the cuDNN of its own "
                    "wheel.",
                ("nvidia-smi",)),
            Wording(r"CUSOLVER_STATUS_\w{4,40}|CUFFT_\w{4,40}|cuFFT error|CUSPARSE_STATUS_\w{4,40}",
                "RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling "
                    "`cusolverDnCreate(handle)`",
                "A library for linear algebra or FFT failed: no memory for its workspace, NaN or "
                    "infinite values in the input, or a CUDA build that is older than the GPU "
                    "(CUFFT_INTERNAL_ERROR on RTX 40 cards with CUDA 11.7 builds).",
                "Check torch.isfinite(x).all() and free memory (smaller batch). On a newer GPU "
                    "install a torch of CUDA 11.8 or newer. For cuSOLVER try "
                    'torch.backends.cuda.preferred_linalg_library("magma"), or compute it in '
                    "float32 on the CPU.",
                ('python -c "import torch; print(torch.__version__, torch.version.cuda)"',
                    "nvidia-smi")),
            Wording(r"INTERNAL ASSERT FAILED at .{0,80}(?:CUDACachingAllocator|driver_api)|"
                r"NVML_SUCCESS == r",
                "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
                    '"../c10/cuda/CUDACachingAllocator.cpp":838, please report a bug to PyTorch.',
                "torch asks NVML about the GPU when memory is short, and NVML did not answer: the "
                    "memory is full on a vGPU, MIG slice or Jetson, the driver was upgraded "
                    "without a restart, or expandable segments are on where they are not "
                    "supported.",
                "Treat it as out of memory first (smaller batch); then check nvidia-smi "
                    '("Driver/library version mismatch": restart), and switch '
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True off.",
                ("nvidia-smi", 'echo "$PYTORCH_CUDA_ALLOC_CONF"'), owner=Owner.ENVIRONMENT)),
        why="A library of the GPU failed in a place where, most often, its memory was full, or the "
            "values were not finite.",
    ),
    Cause(id="compiled-model-refused",
        errors=("UserError", "GuardOnDataDependentSymNode", "RuntimeError", "LoweringException",
            "InductorError", "NoValidChoicesError", "Unsupported"),
        wordings=(
            Wording(r"does not know how to trace the builtin `?_?bitsandbytes|"
                r"(?:Unsupported|graph break)[\s\S]{0,300}bitsandbytes",
                "torch._dynamo.exc.Unsupported: Dynamo does not know how to trace the builtin "
                    "`_bitsandbytes.lib.cdequantize_blockwise_bf16_nf4`",
                "The kernels of bitsandbytes (4-bit and 8-bit layers) are called through ctypes, "
                    "which torch.compile cannot put into a graph, and fullgraph=True allows no "
                    "break.",
                "Compile without fullgraph=True, so that the graph breaks at these layers, or do "
                    "not compile a model with quantized layers; newer releases of bitsandbytes "
                    "(0.46) register their kernels as operators.",
                ("TORCH_LOGS=graph_breaks python train.py",)),
            Wording(r"(?:Could not (?:guard on|extract specialized integer from)|guard on) "
                r"data-dependent",
                "torch._dynamo.exc.UserError: Could not guard on data-dependent expression u0 > 0 "
                    "(unhinted: u0 > 0)",
                "A size or a branch in the compiled code depends on the values of a tensor "
                    "(.item(), nonzero, boolean masks).",
                "Leave that function out with @torch.compiler.disable, compile without "
                    "fullgraph=True, replace x[mask] by torch.where, or state what is known with "
                    "torch._check(n >= 0).",
                ("TORCH_LOGS=graph_breaks,dynamic python train.py",)),
            Wording(r"accessing tensor output of CUDAGraphs that has been overwritten",
                "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been "
                    "overwritten by a subsequent run.",
                'torch.compile with mode="reduce-overhead" or "max-autotune" reuses its '
                    "outputs' memory at the next call, and an output of the last call is still "
                    "needed: accumulation, a cached state, two calls in one step.",
                "Call torch.compiler.cudagraph_mark_step_begin() before each step, clone what "
                    'is kept (out.clone()), or compile with mode="max-autotune-no-cudagraphs" or '
                    "the default mode."),
            Wording(r"NoValidChoicesError",
                "torch._inductor.exc.LoweringException: NoValidChoicesError: No choices to select, "
                    "please consider adding ATEN into max_autotune_gemm_backends config",
                "max-autotune tried its kernels for an operation, and none fits this GPU or these "
                    "sizes: often flex_attention with little shared memory, or only Triton as a "
                    "backend.",
                "Let it fall back: TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON, or "
                    "compile without max-autotune. flex_attention: compile it with dynamic=False, "
                    'mode="max-autotune-no-cudagraphs", or pass smaller blocks in '
                    'kernel_options={"BLOCK_M": 32, "BLOCK_N": 32}.',
                ("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON python train.py",)),
            Wording(r"recompile_limit|FailOnRecompileLimitHit|cache_size_limit",
                "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with "
                    "fullgraph=True.",
                "Shapes or objects change from call to call, so that torch.compile compiles again "
                    "and again; with fullgraph=True its limit is an error.",
                "TORCH_LOGS=recompiles names what changes. Pad to fixed shapes, or compile with "
                    "dynamic=True; raise torch._dynamo.config.recompile_limit where the variants "
                    "are few.",
                commands=("TORCH_LOGS=recompiles python train.py",)),
            Wording(r"InductorError: (?:AssertionError|LoweringException|KeyError|IndexError)|"
                r"LoweringException|InternalTorchDynamoError|PassManager::run failed|expected size "
                r"\d{1,12}==\d{1,12}, stride \d{1,12}==\d{1,12} at dim",
                "torch._inductor.exc.InductorError: AssertionError: ",
                "The compiler met a state that it does not expect: a defect of this torch version "
                    "for this model, or a GPU that the kernel does not support (bf16 below compute "
                    "capability 8.0), not a missing tool.",
                "Run once without torch.compile (TORCH_COMPILE_DISABLE=1) to see that the model "
                    "works. Then upgrade torch, or leave the function that the traceback names out "
                    "with torch.compiler.disable.",
                commands=("TORCH_COMPILE_DISABLE=1 python train.py",),
                more=("torch._dynamo.exc.InternalTorchDynamoError: KeyError: 'x'",
                    "torch._inductor.exc.LoweringException: AssertionError: conv",
                    "RuntimeError: PassManager::run failed",
                    "AssertionError: expected size 768==768, stride 1==393216 at dim=1")),
            Wording(r"torch\._dynamo\.exc\.(?:Unsupported|UserError)",
                "torch._dynamo.exc.Unsupported: Unsupported method call",
                "torch.compile met Python code that it cannot put into a graph, often of a wrapper "
                    "or library (DDP, a logger) around the model, where no break of the graph is "
                    "allowed.",
                "Compile the module before it is wrapped: DDP(torch.compile(model)), or a newer "
                    "accelerate, which does so. Code of your own: take it out of the compiled part "
                    "(torch.compiler.disable), or leave fullgraph=True out, so that the graph may "
                    "break there. torch._dynamo.config.suppress_errors = True runs such parts "
                    "uncompiled.",
                commands=("TORCH_LOGS=graph_breaks python train.py",))),
        why="torch.compile cannot keep this part of the model in a graph, or found no kernel for "
            "it.",
        refines=("compile-failed", "missing-key", "hook-on-a-replaced-layer", "absent-in-samples"),
        sources=("torch-symbolic-shapes", "torch-dynamo-errors"),
    ),
    Cause(id="kernel-takes-another-dtype",
        refines=("attention-unsupported",),
        errors=("RuntimeError", "ValueError"),
        messages=(r"Expected attn_mask dtype to be bool or float",
            r"cu_seqlens\w{0,4} must have dtype int32",
            r"mixed dtype \(CPU\): expect parameter to have scalar type"),
        examples=("RuntimeError: Expected attn_mask dtype to be bool or float or to match query "
              "dtype, but got",
            "RuntimeError: cu_seqlens_q must have dtype int32",
            "RuntimeError: mixed dtype (CPU): expect parameter to have scalar type of Float"),
        wordings=(
            Wording(r"FlashAttention only supports? fp16 and bf16|Flash ?Attention ?2(?:\.0)? only "
                r"supports|cu_seqlens_[qk] must be on CUDA|Input tensor must be on CUDA device|"
                r"[qkv] must be on CUDA|Flash Attention 2(?:\.0)? with a model not initialized on "
                r"GPU",
                "RuntimeError: FlashAttention only support fp16 and bf16 data type",
                "FlashAttention takes float16 or bfloat16 on the GPU: the model was loaded in "
                    "float32, or PEFT, a norm or prepare_model_for_kbit_training cast it up and no "
                    "autocast is on; or an input or the model is on the CPU (as a warning at "
                    "loading harmless if it is moved afterwards).",
                "Load with dtype=torch.bfloat16 and train with bf16=True, run evaluation and "
                    'generation under torch.autocast("cuda", dtype=torch.bfloat16), or use '
                    'attn_implementation="sdpa". On the CPU: move model and batch to the GPU, and '
                    "check that device_map left no layer there."),),
        why="The kernel takes this argument in one dtype only.",
        fix="An attention mask: mask.bool(), or mask.to(query.dtype) for one that is added. "
            "cu_seqlens: .to(torch.int32). Norms on the CPU: keep their parameters in float32 "
            "(autocast does), or cast the input to the dtype of the weight.",
    ),
    Cause(id="mask-of-another-length",
        errors=("ValueError", "RuntimeError"),
        messages=(r"[Aa]ttention mask should be of size \(",),
        examples=("ValueError: Attention mask should be of size (1, 1, 512, 512), but is (1, 1, "
              "512, 9)",),
        why="The mask counts other positions than the layer has: a cache of past keys, padding "
            "that was cut, or transformers of another release than the model's own code.",
        fix="In training pass use_cache=False, and build the mask from the padded batch (the "
            "tokenizer's attention_mask). For a model with code of its own install the "
            "transformers in its config.json.",
    ),
)  # fmt: skip
