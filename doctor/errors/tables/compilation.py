"""torch.compile and extensions that are built where the training runs."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="compile-failed",
        messages=("Unknown CUDA arch",
            r"torch\._dynamo\.exc\.(?:BackendCompilerFailed|InternalTorchDynamoError|"
            r"Unsupported|FailOnRecompileLimitHit)|triton\.compiler\.errors\.\w{1,40}",
            r"torch\._inductor\.exc\.\w{1,60}",
            r"Error building extension '\w{1,100}'|Ninja is required to load C\+\+ extensions",
            "OutOfResources: out of resource: shared memory|PassManager::run failed",
            "CUDA_HOME (?:environment variable is not set|does not exist)|MissingCUDAException",
            r"fatal error: \S{1,200}\.(?:h|hpp|cuh): No such file",
            r"nvcc fatal {1,4}: \w|unsupported (?:GNU|clang|Microsoft Visual Studio) version",
            "internal compiler error: |Killed signal terminated program|died due to signal 9",
            r"is less than the minimum required version by CUDA|You need C\+\+17 to compile "
            r"PyTorch",
            r"cannot find -l(?:cuda|cudart|curand|cublas|cudnn|nvrtc|c10|torch|aio)|libcuda\.so "
            r"cannot found",
            r"Error compiling objects for extension|ninja: build stopped|nvcc was not found\.",
            r"Failed building wheel for|command '\S{0,200}(?:nvcc(?:\.exe)?|gcc|g\+\+|cl\.exe)' "
            r"failed with",
            r"CalledProcessError: Command '?\[?'?\S{0,200}\b(?:gcc|g\+\+|clang|cc|ninja|nvcc|"
            r"cmake)\b",
            r"Internal Triton PTX codegen error|Failed to translate TritonGPU to LLVM|"
            r"NoValidChoicesError|torch\._dynamo\.exc\.UserError|LoweringException|Inductor IR\]"),
        examples=("ValueError: Unknown CUDA arch (8.9) or GPU not supported",
            "nvcc fatal   : Unsupported gpu architecture 'compute_86'",
            "c++: internal compiler error: Killed (program cc1plus)",
            "#error You need C++17 to compile PyTorch",
            "/usr/bin/ld: cannot find -lcuda: No such file or directory",
            "ninja: build stopped: subcommand failed.",
            "ERROR: Failed building wheel for flash-attn",
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit "
            "status 1.",
            "AssertionError: Found <class 'sympy.core.relational.GreaterThan'>, which is not a "
            "supported top level IR node. See [Note: Inductor IR]",
            "RuntimeError: Internal Triton PTX codegen error",
            "LLVM ERROR: Failed to translate TritonGPU to LLVM IR.",
            "torch._dynamo.exc.UserError: Could not guard on data-dependent expression u0 > 0",
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
            "torch._inductor.exc.InductorError: CalledProcessError: Command gcc failed",
            "RuntimeError: Error building extension 'fused_adam'",
            "RuntimeError: PassManager::run failed",
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 1",
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA "
            "install root.",
            "csrc/fused_adam.cpp:1:10: fatal error: torch/extension.h: No such file or directory"),
        wordings=(
            Wording(r"_dynamo\.exc\.BackendCompilerFailed: backend='\w{1,40}' "
                r"raised:(?![\s\S]{1,300}(?:gcc|g\+\+|nvcc|ptxas|CUDA_HOME|[Cc]ompiler))",
                "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
                "The backend of torch.compile raised an exception; this line only passes it "
                    "on, and the exception below it is the cause.",
                "Read and fix the exception below this line. TORCH_COMPILE_DISABLE=1 shows "
                    "whether the model runs without torch.compile.",
                ("TORCH_COMPILE_DISABLE=1 python train.py",),
                owner=Owner.JOB),
        ),
        why="A kernel could not be built on this machine: no compiler, no CUDA toolkit that "
            "fits torch, or code that the compiler does not support.",
        fix="Install a C++ compiler and, for CUDA extensions, the toolkit of torch's CUDA "
            "version (CUDA_HOME); or train without torch.compile and fused kernels.",
        commands=("gcc --version; nvcc --version",),
        title="torch.compile and just-in-time builds succeed",
        yields_to=("toolkit-of-other-cuda", "ptxas-arch"),
        sources=("infinity-31", "torch-compile-ablation", "torch-dynamo-errors"),
        owner=Owner.ENVIRONMENT, next_check="SMK005", code="LOG067"),
    Cause(id="cuda-toolkit-mismatch",
        messages=(r"(?:Exception|Error): .{0,60}Installed CUDA version [\d.]{1,10} does not "
            r"match",
            r"The detected CUDA version \([\d.]{1,10}\) mismatches the version"),
        examples=("Exception: >- DeepSpeed Op Builder: Installed CUDA version 12.0 does not "
            "match the version torch was compiled with 11.7, unable to compile cuda/cpp "
            "extensions.",
            "RuntimeError: The detected CUDA version (12.1) mismatches the version that was "
            "used to compile PyTorch (11.8)."),
        why="The CUDA toolkit on this machine has another major version than torch was built "
            "with, so that its extensions cannot be compiled.",
        fix="Install the toolkit of torch's CUDA version and set CUDA_HOME to it, a torch for "
            "the toolkit, or use the extension's prebuilt wheel.",
        commands=("nvcc --version",
            'python -c "import torch; print(torch.version.cuda)"'),
        title="Extensions are built with torch's CUDA version",
        yields_to=("toolkit-of-other-cuda",), sources=("vllm-1453", "lightseq-526"),
        owner=Owner.ENVIRONMENT, next_check="TOR004", code="LOG068"),
)  # fmt: skip
