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
            Wording(r"xFormers can't load C\+\+/CUDA extensions|xFormers was built for|"
                "xFormers wasn't build with CUDA support",
                "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built "
                    "for: PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cu121)",
                "xformers was compiled for another torch than the one installed, so that its "
                    "kernels are off.",
                "Install the pair that belongs together: pip install xformers with the torch that "
                    "it asks for, from the index of the same CUDA; or uninstall xformers and use "
                    "torch's scaled_dot_product_attention.",
                ("python -m xformers.info", "python -m pip show torch xformers"))),
        sources=("prompthmr-4",),
        why="xformers was built for another torch, CUDA or Python, or has no kernel for this call.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(id="kernel-does-not-fit-gpu",
        refines=("compile-failed",),
        wordings=(
            Wording(r"Expected is_sm(?:80|8x|90)\b.{0,60}to be true",
                "RuntimeError: Expected is_sm80 || is_sm90 to be true, but got false.",
                "The backward pass of this FlashAttention for head dimensions above 64 needs an "
                "A100 or H100: consumer GPUs (sm_86, sm_89) have too little shared memory for "
                "it.",
                "Upgrade torch (2.1 or newer has kernels for up to 256) or flash-attn, switch "
                "that kernel off, torch.backends.cuda.enable_flash_sdp(False), or use "
                'attn_implementation="eager".',
                ("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
                owner=Owner.JOB),
            Wording("cutlass[FB]: no kernel found to launch",
                "RuntimeError: cutlassF: no kernel found to launch!",
                "The memory-efficient attention of this torch has no kernel for this dtype on this "
                "GPU, such as bf16 before Ampere.",
                "Run it in fp16 (or fp32) on that GPU, or "
                "torch.backends.cuda.enable_mem_efficient_sdp(False).",
                ("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
                owner=Owner.JOB),
            Wording("nvrtc: error: invalid value for --gpu-architecture",
                "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",
                "torch's compiler for fused kernels (TorchScript) is older than this GPU.",
                "Install a torch that has code for the GPU (TOR003; CUDA 12.8 or newer for "
                "compute capability 10 and 12), or switch TorchScript's fuser off: "
                "PYTORCH_JIT=0.",
                ('python -c "import torch; '
                    'print(torch.__version__, torch.cuda.get_arch_list())"',),
                owner=Owner.ENVIRONMENT),
            Wording("Attempting to use hipBLASLt on an? unsupported architecture",
                "RuntimeError: Attempting to use hipBLASLt on a unsupported architecture!",
                "This build of torch takes hipBLASLt for products of matrices, and hipBLASLt "
                "has no kernels for this GPU.",
                "Set TORCH_BLAS_PREFER_HIPBLASLT=0, with which torch takes hipBLAS, or install "
                "a newer torch for ROCm, which asks the GPU first.",
                ("export TORCH_BLAS_PREFER_HIPBLASLT=0",),
                owner=Owner.ENVIRONMENT),
            Wording("out of resource: (?:shared memory|triton_)|No valid triton configs",
                "triton.runtime.errors.OutOfResources: out of resource: shared memory, "
                "Required: 663808, Hardware limit: 101376. Reducing block sizes or `num_stages` "
                "may help.",
                "The Triton kernel was compiled; its blocks need more shared memory than a "
                "multiprocessor of this GPU has. Consumer GPUs have 99 KiB, A100 163 and H100 "
                "227.",
                "Use smaller blocks or num_stages=1 for this GPU, or another kernel: "
                'attn_implementation="sdpa", another attention backend, a smaller head '
                'dimension. For torch.compile leave out mode="max-autotune".')),
        why="A kernel or library of this torch has no code for this GPU, or not for this size."),
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
            Wording(r"(?<!captures_underway\.empty\(\)) INTERNAL ASSERT FAILED at "
                r".{0,80}(?:CUDACachingAllocator|driver_api)|NVML_SUCCESS == r",
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
        refines=("compile-failed", "missing-key", "absent-in-samples"),
        wordings=(
            Wording(r"does not know how to trace the builtin `?_?bitsandbytes|(?:Unsupported|"
                r"graph break)[\s\S]{0,300}bitsandbytes",
                "torch._dynamo.exc.Unsupported: Dynamo does not know how to trace the builtin "
                "`_bitsandbytes.lib.cdequantize_blockwise_bf16_nf4`",
                "The kernels of bitsandbytes (4-bit and 8-bit layers) are called through "
                "ctypes, which torch.compile cannot put into a graph, and fullgraph=True allows "
                "no break.",
                "Compile without fullgraph=True, so that the graph breaks at these layers, or "
                "do not compile a model with quantized layers; newer releases of bitsandbytes "
                "(0.46) register their kernels as operators.",
                ("TORCH_LOGS=graph_breaks python train.py",),
                owner=Owner.JOB),
            Wording("(?:Could not (?:guard on|extract specialized integer from)|guard on) "
                "data-dependent",
                "torch._dynamo.exc.UserError: Could not guard on data-dependent expression u0 > "
                "0 (unhinted: u0 > 0)",
                "A size or a branch in the compiled code depends on the values of a tensor "
                "(.item(), nonzero, boolean masks).",
                "Compile without fullgraph=True. To keep one graph, write the branch with tensors: "
                "torch.where for an if and for x[mask], clamp for a bound, no .item() and no int() "
                "of a tensor; torch._check(n >= 0) states what is known of a size.",
                ("TORCH_LOGS=graph_breaks,dynamic python train.py",),
                owner=Owner.JOB),
            Wording("accessing tensor output of CUDAGraphs that has been overwritten",
                "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been "
                "overwritten by a subsequent run.",
                'torch.compile with mode="reduce-overhead" or "max-autotune" reuses its '
                "outputs' memory at the next call, and an output of the last call is still "
                "needed: accumulation, a cached state, two calls in one step.",
                "Call torch.compiler.cudagraph_mark_step_begin() before each step, clone what "
                'is kept (out.clone()), or compile with mode="max-autotune-no-cudagraphs" or '
                "the default mode.",
                owner=Owner.JOB),
            Wording("NoValidChoicesError",
                "torch._inductor.exc.LoweringException: NoValidChoicesError: No choices to "
                "select, please consider adding ATEN into max_autotune_gemm_backends config",
                "max-autotune tried its kernels for an operation, and none fits this GPU or "
                "these sizes: often flex_attention with little shared memory, or only Triton as "
                "a backend.",
                "Let it fall back: TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON, or "
                "compile without max-autotune. flex_attention: compile it with dynamic=False, "
                'mode="max-autotune-no-cudagraphs", or pass smaller blocks in '
                'kernel_options={"BLOCK_M": 32, "BLOCK_N": 32}.',
                ("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS=ATEN,TRITON python train.py",),
                owner=Owner.JOB),
            Wording("recompile_limit|FailOnRecompileLimitHit|cache_size_limit",
                "torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with "
                "fullgraph=True.",
                "Shapes or objects change from call to call, so that torch.compile compiles "
                "again and again; with fullgraph=True its limit is an error.",
                "TORCH_LOGS=recompiles names what changes. Pad to fixed shapes, or compile with "
                "dynamic=True; raise torch._dynamo.config.recompile_limit where the variants "
                "are few.",
                ("TORCH_LOGS=recompiles python train.py",),
                owner=Owner.JOB),
            Wording(r"InductorError: (?:AssertionError|LoweringException|KeyError|IndexError)|"
                r"LoweringException|InternalTorchDynamoError|PassManager::run failed|expected "
                r"size \d{1,12}==\d{1,12}, stride \d{1,12}==\d{1,12} at dim",
                "torch._inductor.exc.InductorError: AssertionError: ",
                "The compiler met a state that it does not expect: a defect of this torch "
                "version for this model, or a GPU that the kernel does not support (bf16 below "
                "compute capability 8.0), not a missing tool.",
                "Run once without torch.compile (TORCH_COMPILE_DISABLE=1) to see that the model "
                "works. Then upgrade torch, or leave the function that the traceback names out "
                "with torch.compiler.disable. Kernels of a library (Unsloth, "
                "flash-linear-attention) on a GPU before Ampere (T4, V100): fp16 in place of "
                "bf16, and the Triton that this torch was released with.",
                ("TORCH_COMPILE_DISABLE=1 python train.py",),
                owner=Owner.JOB,
                more=("torch._dynamo.exc.InternalTorchDynamoError: KeyError: 'x'",
                    "torch._inductor.exc.LoweringException: AssertionError: conv",
                    "RuntimeError: PassManager::run failed",
                    "AssertionError: expected size 768==768, stride 1==393216 at dim=1")),
            Wording(r"torch\._dynamo\.exc\.(?:Unsupported|UserError)",
                "torch._dynamo.exc.Unsupported: Unsupported method call",
                "torch.compile met Python code that it cannot put into a graph, often of a "
                "wrapper or library (DDP, a logger) around the model, where no break of the "
                "graph is allowed.",
                "Compile the module before it is wrapped: DDP(torch.compile(model)), or a newer "
                "accelerate, which does so. Code of your own: take it out of the compiled part "
                "(torch.compiler.disable), or leave fullgraph=True out, so that the graph may "
                "break there. torch._dynamo.config.suppress_errors = True runs such parts "
                "uncompiled.",
                ("TORCH_LOGS=graph_breaks python train.py",),
                owner=Owner.JOB),
            Wording(r"0 active drivers \(\[\]\)",
                "RuntimeError: 0 active drivers ([]). There should only be one.",
                "Triton found no GPU that it can drive: a machine without GPU, a container "
                "without libcuda.so.1, or a kernel that is imported before CUDA is visible.",
                "Check the driver (nvidia-smi) and torch.cuda.is_available() in this process; "
                "start the container with --gpus all. On a machine without GPU leave out "
                "packages that need Triton (flash-linear-attention, liger, xformers).",
                ("nvidia-smi",
                    "ldconfig -p | grep libcuda")),
            Wording(r"Windows not yet supported for torch\.compile|(?:Dynamo|torch\.compile) is "
                r"not supported on Python",
                "RuntimeError: Windows not yet supported for torch.compile",
                "This torch cannot compile on this system or Python: Python 3.12 needs torch "
                "2.4, 3.13 torch 2.6, 3.14 torch 2.10; Windows has no Triton of its own.",
                "Train without it (TORCH_COMPILE_DISABLE=1, torch_compile=False), upgrade "
                "torch, use an older Python, or WSL2.",
                ("python --version",
                    "python -m pip show torch"),
                more=("RuntimeError: Dynamo is not supported on Python 3.13+",)),
            Wording(r"Failed to create dynamic compiled|[Cc]ompiled cache[^\n]{0,60}(?:stale|"
                r"corrupt)",
                "RuntimeError: Unsloth: Failed to create dynamic compiled modules!",
                "Unsloth writes patched modules into a directory at its start; several "
                "processes wrote there at once, it may not be written, or its files are of "
                "another release.",
                "Delete unsloth_compiled_cache, let one process start first or give each run a "
                "directory of its own (UNSLOTH_COMPILE_LOCATION) that can be written, and bring "
                "unsloth, unsloth_zoo, trl and transformers to releases of one time.",
                ("rm -r unsloth_compiled_cache",
                    "python -m pip install -U unsloth unsloth_zoo"))),
        why="torch.compile cannot keep this part of the model in a graph, or found no kernel "
            "for it.",
        sources=("torch-symbolic-shapes", "torch-dynamo-errors", "torch-dynamo"),
        owner=Owner.ENVIRONMENT),
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
                    "check that device_map left no layer there."),
            Wording("TransformerEngine only supports softmax compute in FP32",
                "AssertionError: TransformerEngine only supports softmax compute in FP32.",
                "Megatron's layers of Transformer Engine compute the softmax of attention in "
                    "float32, and the configuration does not ask for that.",
                "Add --attention-softmax-in-fp32 to the arguments "
                    "(attention_softmax_in_fp32=True in TransformerConfig).")),
        why="The kernel takes this argument in one dtype only.",
        fix="An attention mask: mask.bool(), or mask.to(query.dtype) for one that is added. "
            "cu_seqlens: .to(torch.int32). Norms on the CPU: keep their parameters in float32 "
            "(autocast does), or cast the input to the dtype of the weight.",
        sources=("megatron-lm-791",),
    ),
    Cause(id="mask-refused",
        errors=("ValueError", "RuntimeError", "KeyError"),
        wordings=(
            Wording(r"[Aa]ttention mask should be of size \(",
                "ValueError: Attention mask should be of size (1, 1, 512, 512), but is (1, 1, "
                "512, 9)",
                "The mask counts other positions than the layer has: a cache of past keys, "
                "padding that was cut, or transformers of another release than the model's own "
                "code.",
                "In training pass use_cache=False, and build the mask from the padded batch "
                "(the tokenizer's attention_mask). For a model with code of its own install the "
                "transformers in its config.json."),
            Wording("attn_bias_ptr is not correctly aligned|attn_bias is not correctly aligned",
                "RuntimeError: p.attn_bias_ptr is not correctly aligned",
                "The memory-efficient attention reads the mask in blocks: its last dimension, "
                "or the place where a slice of it begins, is no multiple of 8 elements.",
                "Pad the length of the keys to a multiple of 8 (pad_to_multiple_of=8) and pass "
                "mask.contiguous() in place of an expanded or sliced one; or use a causal or no "
                "mask (is_causal=True), or SDPA's math or cuDNN kernel for this call."),
            Wording(r"Cache only has \d{1,4} layers, attempted to access layer",
                "KeyError: 'Cache only has 0 layers, attempted to access layer with index 0'",
                "A layer reads the cache of keys and values, and it is empty: gradient "
                "checkpointing runs the layer again without it, or an older model file or "
                "adapter (prefix tuning) meets a newer transformers.",
                "Train without the cache: model.config.use_cache = False. For a model file of "
                "its own (trust_remote_code) or a PEFT method that passes past_key_values "
                "install the transformers that it was written for, or upgrade peft.",
                ("python -m pip show transformers peft",))),
        why="Attention gets a mask, or a cache of keys and values, that does not fit the "
            "positions of this step."),
)  # fmt: skip
