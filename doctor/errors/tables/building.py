"""Extensions and packages that are compiled on this machine."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="compiler-not-usable",
        refines=("compile-failed", "killed-sigkill"),
        wordings=(
            Wording(r"(?:Python|pyconfig)\.h: No such file|error: Python\.h",
                "fatal error: Python.h: No such file or directory",
                "Compiled code needs the headers of Python.",
                "Install Python's headers in the image: apt-get install python3-dev "
                    "(python3.12-dev for a Python of that version); conda's and uv's own "
                    "interpreters bring them.",
                ('python -c \'import sysconfig; print(sysconfig.get_path("include"))\'',),
                more=("CalledProcessError: Command '['/bin/gcc', '/tmp/cuda_utils.c', "
                        "'-lcuda']' returned non-zero exit status 1.\n/tmp/cuda_utils.c:6: fatal "
                        "error: Python.h: No such file",
                    "pyconfig.h:3:12: fatal error: x86_64-linux-gnu/python3.10/pyconfig.h: "
                        "No such file or directory",)),
            Wording("Unknown CUDA arch|nvcc fatal {1,4}: {1,4}Unsupported gpu architecture",
                "ValueError: Unknown CUDA arch (8.9) or GPU not supported",
                "The CUDA toolkit that compiles is older than the GPU (compute_86 needs 11.1, "
                "compute_89 and 90 11.8, compute_100 and 120 12.8), or newer than an old "
                "architecture in the list (compute_70 ended with 13.0).",
                "Put a newer toolkit of torch's major CUDA version first in PATH and CUDA_HOME, "
                "or compile for an architecture that it knows and this GPU runs: "
                'TORCH_CUDA_ARCH_LIST="8.0+PTX" for a compute_86 GPU. Leave old ones out of the '
                "list.",
                ("nvcc --version",
                    "nvidia-smi --query-gpu=name,compute_cap --format=csv")),
            Wording("unsupported (?:GNU|clang|Microsoft Visual Studio) version|[Uu]nsupported "
                "NVHPC compiler",
                "#error -- unsupported GNU version! gcc versions later than 12 are not "
                "supported!",
                "nvcc refuses a C++ compiler that is newer than the toolkit knows.",
                "Install the version that the message names and give it to the build: CC=gcc-12 "
                "CXX=g++-12 NVCC_PREPEND_FLAGS='-ccbin g++-12'; or take a newer CUDA toolkit of "
                "the same major version.",
                ("sudo apt install g++-12",
                    "export CC=gcc-12 CXX=g++-12 NVCC_PREPEND_FLAGS='-ccbin g++-12'")),
            Wording(r"is less than the minimum required version by CUDA|You need C\+\+17 to "
                r"compile PyTorch|requires? GCC (?:9|1\d)|unrecognized command line option "
                r".{0,4}-std=c\+\+1[47]",
                "RuntimeError: The current installed version of g++ (4.8.5) is less than the "
                "minimum required version by CUDA 11.3 (5.0.0).",
                "The C++ compiler is too old for torch's headers (torch 2.1 and newer need "
                "C++17: g++ 9), or the extension asks for an older standard.",
                "Load or install a newer compiler (module load gcc/11, conda install -c "
                "conda-forge gxx=11) and set CC and CXX; replace -std=c++14 by -std=c++17 in "
                "the extension's setup.py.",
                ("g++ --version",
                    "export CC=gcc-11 CXX=g++-11")),
            Wording(r"CUDA_HOME (?:environment variable is not set|does not exist)|"
                r"MissingCUDAException|nvcc was not found\.|(?:[Ff]ailed to|[Cc]ould not|"
                r"[Cc]annot) find nvcc|nvcc: command not|No such file or directory: "
                r"'\S{0,200}/bin/nvcc'",
                "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA "
                "install root.",
                "A CUDA extension is compiled, and there is no compiler for CUDA (nvcc): "
                "torch's wheel brings libraries only.",
                "Prefer a prebuilt wheel of the package for this torch, CUDA and Python. To "
                "build, install the CUDA toolkit of torch.version.cuda (or a -devel image; "
                "conda install -c nvidia cuda-toolkit) and set CUDA_HOME to it. DeepSpeed only "
                "checks for it: DS_SKIP_CUDA_CHECK=1 if no operator is built.",
                ('python -c "import torch; print(torch.__version__, torch.version.cuda)"',
                    "export CUDA_HOME=/usr/local/cuda"),
                more=("UserWarning: flash_attn was requested, but nvcc was not found.  Are you "
                    "sure your environment has nvcc available?",
                    "FileNotFoundError: [Errno 2] No such file or directory: "
                    "'/usr/local/cuda/bin/nvcc'")),
            Wording(r"internal compiler error: Killed|Killed signal terminated program|died due "
                r"to signal 9|(?:pip3? install|pip wheel|setup\.py)[^\n]{0,200}exit code: 137|"
                r"nvcc error {1,4}: '\w{1,20}' died",
                "c++: internal compiler error: Killed (program cc1plus)",
                "The machine ran out of memory: each compiler of a CUDA extension needs some "
                "GB, and ninja starts one per core.",
                "Build with few at once: MAX_JOBS=2 pip install --no-build-isolation PACKAGE "
                "(NVCC_THREADS=1), on a machine with more memory, or take a prebuilt wheel.",
                ("MAX_JOBS=2 pip install --no-build-isolation PACKAGE",
                    "free -g"),
                more=('process "/bin/sh -c pip install flash-attn --no-build-isolation" did not '
                    "complete successfully: exit code: 137",)),
            Wording(r"cannot find -l(?:cuda|cudart|curand|cublas|cudnn|nvrtc|c10|torch|aio)|"
                r"libcuda\.so cannot found",
                "/usr/bin/ld: cannot find -lcuda: No such file or directory",
                "The linker does not find a library: libcuda.so belongs to the driver (only "
                "libcuda.so.1 may exist, or a container started without the GPU), the others to "
                "the CUDA toolkit.",
                "Start the container with its GPUs; add the directory with the library: export "
                "LIBRARY_PATH=/usr/local/cuda/lib64/stubs:/usr/local/cuda/lib64:$LIBRARY_PATH, "
                "or for Triton TRITON_LIBCUDA_PATH=DIRECTORY of libcuda.so.1; run sudo ldconfig "
                "after installing.",
                ("ldconfig -p | grep -E 'libcuda|libcudart|libcurand'",),
                more=("AssertionError: libcuda.so cannot found!",)),
            Wording(r"THC/THC\w{0,20}\.(?:h|cuh).{0,4}: No such file|"
                r"AT_CHECK.{0,3} was not declared in this scope",
                "fatal error: THC/THC.h: No such file or directory",
                "The extension's source is from before torch 1.11, which removed the THC "
                "headers, or before 1.5, which removed AT_CHECK.",
                "Use a newer version or fork of the extension, or install a torch of its time "
                "(1.10 or older for THC, 1.4 for AT_CHECK); by hand: write TORCH_CHECK for "
                "AT_CHECK, remove the include, THCState and THCudaCheck, and use "
                "ATen/cuda/CUDAContext.h and AT_CUDA_CHECK.",
                ("python -m pip show torch",),
                more=("deform_conv.cpp:574:3: error: 'AT_CHECK' was not declared in this scope",)),
            Wording(r"fatal error: (?!Python)\S{1,200}\.(?:h|hpp|cuh): No such file",
                "csrc/a.cpp:1:10: fatal error: cusparse.h: No such file or directory",
                "An extension is compiled, and a header is not installed: of the CUDA toolkit "
                "(cuda_runtime.h, cusparse.h), of torch (another python), or of a library.",
                "Install the package that has the header: the whole CUDA toolkit of torch's "
                "version for cu*.h, libaio-dev for libaio.h, or build in the environment of the "
                "training (--no-build-isolation) for torch/extension.h.",
                ('echo "$CUDA_HOME"',
                    "nvcc --version")),
            Wording("CalledProcessError: Command "
                r"'?\[?'?\S{0,200}(?:gcc|clang|cc)\b.{0,300}(?:main\.c|cuda_utils|-lcuda)",
                "subprocess.CalledProcessError: Command '['/usr/bin/gcc', "
                    "'/tmp/tmpk/main.c', '-O3', '-shared', '-fPIC', '-o', "
                    "'/tmp/tmpk/cuda_utils.so', '-lcuda']' returned non-zero exit status 1.",
                "Triton compiles a small C file that talks to the driver before its first "
                    "kernel, and that failed: Python.h is missing, or libcuda.so is not found.",
                "Read gcc's message above this one. Python.h: install python3-dev of this "
                    "Python (python3.10-dev), or a Python of conda or uv. cannot find -lcuda: "
                    "sudo ldconfig, or export LIBRARY_PATH with the directory of libcuda.so. "
                    "Without kernels of Triton: TORCH_COMPILE_DISABLE=1 (verl: "
                    "use_torch_compile=False).",
                ("python3-config --includes", "ldconfig -p | grep libcuda",))),
        why="A CUDA extension is compiled, and the compiler, the host's compiler or a library "
            "is missing, of another time, or out of memory.",
        sources=("torch-cpp-extension", "sglang-18644",), owner=Owner.ENVIRONMENT),
    Cause(id="extension-not-built",
        refines=("compile-failed", "library-does-not-fit", "attribute-missing"),
        messages=(r"Error (?:building extension '|compiling objects for extension)",
            r"ninja: build stopped|\['ninja', '-v'",
            r"command '\S{0,200}(?:nvcc(?:\.exe)?|gcc|g\+\+|cl\.exe|x86_64-linux-gnu-g\S{1,6})' "
              r"failed with exit (?:code|status)",
            r"Failed (?:building|to build) (?:wheel|installable wheels|`?(?:flash|mamba|causal|"
              r"apex|xformers|vllm|deepspeed))"),
        examples=("RuntimeError: Error building extension 'fused_adam'",
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit "
              "status 1.",
            "error: command '/usr/local/cuda/bin/nvcc' failed with exit code 1",
            "ERROR: Failed building wheel for flash-attn"),
        wordings=(
            Wording(r"Unable to JIT load the \w{1,40} op due to it not being compatible",
                "RuntimeError: Unable to JIT load the async_io op due to it not being compatible "
                "due to hardware/software issue. None",
                "DeepSpeed does not build an operator that its configuration asks for, because "
                "something that it needs is missing: the [WARNING] lines above say what.",
                "async_io (offloading to NVMe): apt install libaio-dev, or conda install -c "
                "conda-forge libaio with its directories in CFLAGS and LDFLAGS. Other operators: "
                "the toolkit of torch's CUDA version and a GPU that they support. ds_report lists "
                "each with its state. Or leave out what asks for it (offload to cpu, not nvme).",
                ("ds_report",)),
            Wording(r"torch_extensions/\S{1,200}\.so: cannot open shared object file",
                "ImportError: /root/.cache/torch_extensions/py310_cu121/fused_adam/fused_adam.so: "
                "cannot open shared object file: No such file or directory",
                "The extension is built at its first use, and that did not end well: the compiler "
                "failed, in this run or an earlier one, or another process was ended meanwhile.",
                "Read the first error of the build above this line (ninja missing, nvcc of another "
                "CUDA than torch's, no compiler). Then delete the extension's directory below "
                "torch_extensions and start again; on a home directory that nodes share, give each "
                "its own TORCH_EXTENSIONS_DIR.",
                ('echo "$CUDA_HOME"', "ds_report")),
            Wording(r"Failed compiling llama\.cpp|llama\.cpp/\S{0,20}quantize'? (?:or|does)",
                "RuntimeError: Unsloth: The file 'llama.cpp/llama-quantize' or "
                    "'llama.cpp/quantize' does",
                "The export to GGUF calls llama.cpp, which is not built beside the script.",
                "Build it there: git clone https://github.com/ggml-org/llama.cpp && cmake -S "
                    "llama.cpp -B llama.cpp/build && cmake --build llama.cpp/build -j, copy "
                    "build/bin/llama-* into llama.cpp; or save in 16 bits (save_pretrained_merged) "
                    "and convert elsewhere."),
            Wording(r"'DeepSpeedCPU\w{3,8}' object has no attribute 'ds_opt",
                "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'",
                "DeepSpeed's optimizer for the CPU could not be compiled; this line only "
                    "follows when the object ends.",
                "Read the compiler's first error above. It needs g++, ninja and a CUDA "
                    "toolkit of torch's version (CUDA_HOME); or build it at installation with "
                    'DS_BUILD_CPU_ADAM=1, or keep torch\'s AdamW: "zero_force_ds_cpu_optimizer": '
                    "false.",
                ("ds_report", "rm -rf ~/.cache/torch_extensions",)),),
        why="This is the last line of a build that failed: the reason is the compiler's first "
            "error above it.",
        fix="Search upwards for the first error: (a missing header, an unsupported architecture or "
            "compiler, a killed compiler) and explain that line. Often it is enough to take a "
            "prebuilt wheel for this torch, CUDA and Python, to build with pip install "
            "--no-build-isolation -v PACKAGE, and to delete what an earlier torch left: rm -rf "
            "~/.cache/torch_extensions build.",
        owner=Owner.ENVIRONMENT,
        commands=("grep -n -m1 -iE 'error:|fatal' build.log", "nvcc --version; g++ --version"),
        yields_to=("extension-abi-mismatch",), sources=("torch-cpp-extension",),
    ),
    Cause(id="compiled-part-missing",
        refines=("import-failed", "name-not-in-package", "value-is-none", "module-without-return",
            "attribute-missing"),
        errors=("ImportError", "ModuleNotFoundError", "RuntimeError", "NotImplementedError"),
        messages=(r"'_OpNamespace' '(?!aten'|prims?'|quantized'|_?c10d|inductor')\w{1,60}' "
              r"object has no attribute '\w",
            r"'NoneType' object has no attribute '(?:causal_conv1d_\w{1,20}|"
              r"selective_scan\w{0,20}|\w{0,40}_cuda)'",
            r"No module named \'(?:MultiScaleDeformableAttention|diff_gaussian_rasterization|"
              r"simple_knn|selective_scan_cuda\w{0,10}|pointnet2_ops|spconv|torch_scatter|"
              r"torch_sparse|nvdiffrast|tinycudann|fused_ssim|chamfer)\W",
            r"does not define module export function",
            r"No module named '(?:[\w.]{1,80}\.)?(?:_C\w{0,20}|_ext|_cuda|\w{1,60}_cuda|"
              r"\w{1,40}_ext|\w{1,40}_cpp|amp_C|fused_layer_norm_cuda)'",
            r"No module named '[\w.]{1,80}\.(?:csrc|data_utils_fast|token_block_utils_fast)'",
            r"cannot import name '(?:_(?:C|ext)\w{0,20}|csrc)'"),
        examples=("ModuleNotFoundError: No module named 'diff_gaussian_rasterization'",
            "AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'",
            "AttributeError: 'NoneType' object has no attribute 'causal_conv1d_fwd'",
            "ImportError: dynamic module does not define module export function (PyInit__C)",
            "ModuleNotFoundError: No module named 'mmcv._ext'",
            "ModuleNotFoundError: No module named 'fairseq.data.data_utils_fast'",
            "ImportError: cannot import name '_C' from 'detectron2' "
              "(/work/detectron2/__init__.py)"),
        wordings=(
            Wording(r"[Nn]ot compiled with (?:GPU|CUDA) support|wasn't built? with CUDA support|"
                r"was not compiled with CUDA|not implemented on CUDA",
                "RuntimeError: Not compiled with GPU support",
                "An extension was built on a machine or in a container build that had no CUDA "
                    "toolkit or no visible GPU, so that it has code for the CPU only.",
                "Build it again where this prints True and a path, with FORCE_CUDA=1 and "
                    "TORCH_CUDA_ARCH_LIST set for a container build (which sees no GPU), after "
                    "deleting build/ and *.so.",
                ('python -c "import torch; from torch.utils.cpp_extension import CUDA_HOME; '
                      'print(torch.cuda.is_available(), CUDA_HOME)"',
                    "FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=8.0 pip install --no-build-isolation ."),
                sources=("detectron2-install",)),),
        why="The package's Python part is there and its compiled part is not: it was installed "
            "without being built (a source directory, a lite package), for another Python, or the "
            "build failed.",
        fix="Build and install it for this torch: pip install --no-build-isolation -v . in its "
            "source directory, or its full prebuilt wheel (mmcv instead of mmcv-lite, apex with "
            "--cuda_ext; causal-conv1d and mamba-ssm of this torch). Do not start Python in the "
            "source directory, whose folder hides the installed package.",
        owner=Owner.ENVIRONMENT,
        commands=('python -c "import PACKAGE; print(PACKAGE.__file__)"',
            "pip install --no-build-isolation -v ."),
    ),
)  # fmt: skip
