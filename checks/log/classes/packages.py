"""Packages and compiled extensions."""

from __future__ import annotations

from doctor.checks.log.classes.log_class import LogClass, Remedy
from doctor.judge.check import Owner
from doctor.judge.error_patterns.pattern import LD_PATHS

CLASSES = (
    LogClass(
        code="LOG056",
        slug="extension-abi-mismatch",
        title="Compiled extensions fit the installed torch",
        patterns=(
            r"(?P<library>[\w./-]{1,400}\.so[\w.]{0,40}): undefined symbol: (?P<symbol>\w{1,300})",
            r"symbol not found in flat namespace|DLL load failed while importing",
            r"libcudart\.so[\w.]{0,20}: cannot open shared object file",
        ),
        examples=(
            "ImportError: /opt/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-"
            "linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEa",
            "ImportError: dlopen(a.so, 0x2): symbol not found in flat namespace '__ZN2at4_ops'",
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or "
            "directory",
        ),
        why="An extension was compiled for another torch, another C++ ABI or another CUDA. It is "
        'often wrapped in "Failed to import transformers.models...".',
        fix="Reinstall the extension for the torch that is installed: its wheel for this torch and "
        "CUDA, or pip install --no-build-isolation --no-cache-dir PACKAGE.",
        owner=Owner.ENVIRONMENT,
        commands=LD_PATHS,
        sources=("flash-attention-1832", "flash-attention-940", "pytorch-134929"),
        next_check="TOR004",
    ),
    LogClass(
        code="LOG055",
        slug="bitsandbytes-setup",
        title="bitsandbytes has a library for the CUDA in use",
        patterns=(
            r"CUDA Setup failed despite",
            r"CUDA VERSION MISMATCH",
            r"Attempted to use bitsandbytes native library functionality",
            r"libbitsandbytes_\w{1,40}\.(?:so|dll): cannot open"
            r"|Could not find the bitsandbytes \w{1,20} binary at",
            r"CUDA SETUP: (?:CUDA detection failed|Required library version not found)",
            r"libbitsandbytes_cpu\.so: undefined symbol",
        ),
        examples=(
            "RuntimeError: CUDA Setup failed despite GPU being available.",
            "WARNING: CUDA VERSION MISMATCH: Requested CUDA version 12.1",
            "RuntimeError: Attempted to use bitsandbytes native library functionality but it's not "
            "available.",
            "CUDA SETUP: Required library version not found: libbitsandbytes_cuda118.so. Maybe you",
            "OSError: /lib/libbitsandbytes_cuda130.so: cannot open shared object file",
            "AttributeError: /lib/libbitsandbytes_cpu.so: undefined symbol: cquantize_blockwise",
        ),
        why="bitsandbytes has no compiled library for the CUDA version of torch.",
        fix="Upgrade bitsandbytes, or set BNB_CUDA_VERSION to a version that it contains; "
        "`python -m bitsandbytes` reports which one it looks for.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m bitsandbytes",),
        sources=("bitsandbytes-errors",),
    ),
    LogClass(
        code="LOG060",
        slug="import-failed",
        title="All imports succeed",
        patterns=(
            r"ModuleNotFoundError: No module named '(?P<module>[\w.]{1,200})'",
            r"ImportError: cannot import name '(?P<name>\w{1,200})' from",
            r"ImportError: Using `\w{1,60}` requires"
            r"|requires the following packages that were not found",
            r"ImportError: \S{1,200} requires the \S{1,200} library but it was not found",
        ),
        examples=(
            "ModuleNotFoundError: No module named 'flash_attn'",
            "ImportError: cannot import name 'is_torch_fx_available' from 'transformers.utils'",
            "ImportError: Using `bitsandbytes` requires accelerate",
            "ImportError: LlamaTokenizer requires the SentencePiece library but it was not found",
        ),
        why="A package is missing in the environment that runs the training, or has another "
        "version "
        "than the code was written for.",
        fix="Install it into the interpreter that runs the training (python -m pip, not pip "
        "alone), "
        "in the version that the code's requirements name.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch transformers",),
        sources=("python-exceptions",),
    ),
    LogClass(
        code="LOG066",
        slug="api-changed",
        title="The code fits the installed versions",
        patterns=(
            r"TypeError: \S{1,200} got an unexpected keyword argument '(?P<argument>\w{1,100})'",
            r"AttributeError: module '[\w.]{1,200}' has no attribute '\w{1,200}'",
            r"AttributeError: '\w{1,200}' object has no attribute '\w{1,200}'",
        ),
        examples=(
            "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
            "AttributeError: module 'numpy' has no attribute 'object'",
            "AttributeError: 'LlamaAttention' object has no attribute 'rotary_emb'",
        ),
        why="Code and library are of different versions: an argument or attribute was renamed, "
        "removed, or is not there yet.",
        fix="Install the version that the code was written for, or change the call as the "
        "library's "
        "migration notes say.",
        role="exception",
        sources=("transformers-43733",),
        remedies=(
            Remedy(
                package="transformers",
                since="5.0",
                fix="transformers 5 removed arguments that 4.x had deprecated: Trainer's tokenizer "
                "is now processing_class, torch_dtype is dtype. Change the call, or install "
                "transformers<5.",
            ),
        ),
    ),
    LogClass(
        code="LOG067",
        slug="compile-failed",
        title="torch.compile and just-in-time builds succeed",
        patterns=(
            r"torch\._dynamo\.exc\.(?:BackendCompilerFailed|InternalTorchDynamoError|Unsupported)",
            r"torch\._inductor\.exc\.\w{1,60}",
            r"Error building extension '\w{1,100}'|Ninja is required to load C\+\+ extensions",
            r"OutOfResources: out of resource: shared memory",
            r"CUDA_HOME environment variable is not set|MissingCUDAException",
        ),
        examples=(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
            "torch._inductor.exc.InductorError: CalledProcessError: Command gcc failed",
            "RuntimeError: Error building extension 'fused_adam'",
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 1",
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA "
            "install "
            "root.",
        ),
        why="A kernel could not be built on this machine: no compiler, no CUDA toolkit that fits "
        "torch, or code that the compiler does not support.",
        fix="Install a C++ compiler and, for CUDA extensions, the toolkit of torch's CUDA version "
        "(CUDA_HOME); or train without torch.compile and fused kernels.",
        owner=Owner.ENVIRONMENT,
        commands=("gcc --version; nvcc --version",),
        sources=("Infinity-31", "torch-compile-ablation"),
        next_check="SMK005",
    ),
    LogClass(
        code="LOG068",
        slug="cuda-toolkit-mismatch",
        title="Extensions are built with torch's CUDA version",
        patterns=(
            r"(?:Exception|Error): .{0,60}Installed CUDA version [\d.]{1,10} does not match",
            r"The detected CUDA version \([\d.]{1,10}\) mismatches the version",
        ),
        examples=(
            "Exception: >- DeepSpeed Op Builder: Installed CUDA version 12.0 does not match the "
            "version torch was compiled with 11.7, unable to compile cuda/cpp extensions.",
            "RuntimeError: The detected CUDA version (12.1) mismatches the version that was "
            "used to "
            "compile PyTorch (11.8).",
        ),
        why="The CUDA toolkit on this machine has another major version than torch was "
        "built with, so that its extensions cannot be compiled.",
        fix="Install the toolkit of torch's CUDA version and set CUDA_HOME to it, a torch for "
        "the toolkit, or use the extension's prebuilt wheel.",
        owner=Owner.ENVIRONMENT,
        commands=("nvcc --version", 'python -c "import torch; print(torch.version.cuda)"'),
        sources=("vllm-1453", "lightseq-526"),
        next_check="TOR004",
    ),
)
