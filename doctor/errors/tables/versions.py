"""Installed versions that do not fit: what pip refuses, what newer packages removed."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="package-version-refused",
        errors=("ImportError", "AssertionError", "VersionConflict", "AttributeError"),
        refines=("attribute-missing", "property-raised"),
        messages=(
            r"is required for a normal functioning of this module|Found an incompatible version "
            r"of \w",
            r"is used but incompatible\. Please install",
            r"requires `?(?:accelerate|bitsandbytes|transformers|peft|trl)`? ?(?:>=|==|>)",
            r"requires (?:Accelerate|accelerate)\b.{0,20}pip install",
            r"VersionConflict",
            r"'Version' object has no attribute 'm(?:ajor|inor|icro)'",
        ),
        examples=(
            "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this "
            "module, but found tokenizers==0.20.3.",
            "AssertionError: MMCV==1.7.0 is used but incompatible. Please install mmcv>=2.0.0rc4, "
            "<2.1.0.",
            "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`: "
            "Please run `pip install transformers[torch]` or `pip install accelerate -U`",
            "ImportError: Using `load_in_8bit=True` requires Accelerate: `pip install accelerate`",
            "pkg_resources.VersionConflict: (torch 1.13 (/opt/torch), "
            "Requirement.parse('torch>=2.0'))",
            "AttributeError: 'Version' object has no attribute 'major'",
        ),
        why="A package refuses the version of another one that is installed (packaging is often "
        "too old), or was imported before it was upgraded.",
        fix="pip install the range that the message names, into this interpreter (python -m pip "
        "install \"NAME>=A,<B\"; for 'Version' object: python -m pip install -U packaging), "
        "together with the package that asks for it; then restart the interpreter or the "
        "notebook's kernel, which still holds the old one. If two packages ask for different "
        "ranges, upgrade the older of the two.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check", "python -m pip list"),
    ),
    Cause(
        id="package-metadata-missing",
        errors=("PackageNotFoundError", "DistributionNotFound"),
        messages=(
            r"No package metadata was found for|Unable to compare versions for",
            r"DistributionNotFound",
        ),
        examples=(
            "importlib.metadata.PackageNotFoundError: No package metadata was found for "
            "bitsandbytes",
            "pkg_resources.DistributionNotFound: The 'torch' distribution was not found and is "
            "required by the application",
        ),
        why="A package that the program needs is not installed in this interpreter, or was copied "
        "without pip, so that its version is unknown.",
        fix="Install it with this interpreter: python -m pip install NAME (of the message), and "
        "restart a notebook's kernel.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip install NAME",),
    ),
    Cause(
        id="no-matching-distribution",
        messages=(
            r"Could not find suitable distribution for",
            r"No matching distribution found for|Could not find a version that satisfies the "
            r"requirement",
        ),
        examples=(
            "error: Could not find suitable distribution for Requirement.parse('torch>=1.1.0')",
            "ERROR: No matching distribution found for torch==2.1.0+cu118",
        ),
        why="The index has no such version for this Python, this system or this CUDA: versions "
        "such as +cu118 are only on PyTorch's own index, old ones have no wheels for a new Python.",
        fix="Compare with the versions that pip lists in the line before. For torch take the "
        "command of PyTorch's install page (--index-url of that CUDA); for an old release take a "
        "Python of its time (torch 1.13: up to 3.11, 2.1: up to 3.11, 2.4: up to 3.12); check "
        "pip's proxy and mirror.",
        owner=Owner.ENVIRONMENT,
        commands=("python --version", "python -m pip index versions NAME"),
    ),
    Cause(
        id="wheel-of-other-python",
        messages=(r"is not a supported wheel on this platform",),
        examples=(
            "ERROR: torch-2.6.0-cp310-cp310-linux_x86_64.whl is not a supported wheel on this "
            "platform.",
        ),
        why="The wheel's name says for what it was built: cp310 is Python 3.10, then the system "
        "and the processor; one of them differs here.",
        fix="Take the wheel whose tags are in the list of pip debug --verbose: the Python of "
        "python --version, x86_64 or aarch64, and for flash-attn also torch's version and "
        "cxx11abi.",
        owner=Owner.ENVIRONMENT,
        commands=("python --version; uname -m", "python -m pip debug --verbose"),
    ),
    Cause(
        id="system-python-protected",
        messages=(r"externally-managed-environment",),
        examples=("error: externally-managed-environment",),
        why="The distribution protects its own Python from pip.",
        fix="Make an environment: python3 -m venv .venv && . .venv/bin/activate, then install "
        "there. In a throw-away container: pip install --break-system-packages.",
        owner=Owner.ENVIRONMENT,
        commands=("python3 -m venv .venv && . .venv/bin/activate",),
    ),
    Cause(
        id="numpy-name-removed",
        refines=("api-changed",),
        errors=("AttributeError",),
        messages=(
            r"module 'numpy' has no attribute '\w{1,40}'",
            r"`np\.\w{1,20}` was removed in the NumPy 2\.0 release",
        ),
        examples=(
            "AttributeError: module 'numpy' has no attribute 'object'.",
            "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` "
            "instead.",
        ),
        why="numpy 1.24 removed np.object, np.bool, np.int and np.float; numpy 2.0 removed "
        "np.float_, np.NaN, np.Inf and others. The frame above names the package that still uses "
        "them.",
        fix="Upgrade that package; else install numpy<1.24 (for np.bool, np.int, np.object) or "
        "numpy<2 (for the others). In code of your own write bool, int, float, object, np.float64 "
        "and np.nan.",
        owner=Owner.ENVIRONMENT,
        commands=('python -m pip install "numpy<2"', "python -m pip check"),
    ),
    Cause(
        id="setuptools-parts-removed",
        refines=("import-failed", "name-not-in-package"),
        errors=("ModuleNotFoundError", "ImportError", "AttributeError"),
        messages=(
            r"No module named '(?:pkg_resources|distutils)",
            r"cannot import name 'packaging' from 'pkg_resources'",
            r"module 'distutils' has no attribute 'version'",
        ),
        examples=(
            "ModuleNotFoundError: No module named 'pkg_resources'",
            "ImportError: cannot import name 'packaging' from 'pkg_resources'",
            "AttributeError: module 'distutils' has no attribute 'version'",
        ),
        why="Newer Pythons and setuptools no longer contain these modules: distutils left Python "
        "in 3.12, pkg_resources lost parts in setuptools 70 and is gone from the newest.",
        fix="Install the setuptools of the program's time: python -m pip install "
        '"setuptools<70" (59.5.0 for tensorboard of torch 1.10 and older), in a build with '
        "--no-build-isolation; or upgrade the package in the frame above.",
        owner=Owner.ENVIRONMENT,
        commands=('python -m pip install "setuptools<70"',),
    ),
    Cause(
        id="torch-module-removed",
        refines=("import-failed", "name-not-in-package"),
        errors=("ModuleNotFoundError", "ImportError"),
        messages=(
            r"cannot import name \'(?:container_abcs|inf|string_classes|int_classes)\' from "
            r"\'torch\._six|No module named \'pytorch_lightning\.utilities\.distributed",
            r"No module named 'torch\.(?:_six|utils\.model_zoo|distributed\.(?:_shard\.checkpoint|"
            r"_tensor)|onnx\.symbolic_registry)",
            r"No module named 'torchvision\.transforms\.functional_tensor",
            r"cannot import name '(?:log|_get_socket_with_port)' from 'torch\.distributed\.elastic",
        ),
        examples=(
            "ImportError: cannot import name 'container_abcs' from 'torch._six' (unknown location)",
            "ModuleNotFoundError: No module named 'pytorch_lightning.utilities.distributed'",
            "ModuleNotFoundError: No module named 'torch._six'",
            "ModuleNotFoundError: No module named 'torchvision.transforms.functional_tensor'",
            "ImportError: cannot import name 'log' from "
            "'torch.distributed.elastic.agent.server.api' "
            "(/opt/torch/distributed/elastic/agent/server/api.py)",
        ),
        why="A package uses an internal module or name that a newer torch or torchvision removed "
        "(torch._six in 2.0, functional_tensor in torchvision 0.17, a logger of DeepSpeed in "
        "torch 2.4).",
        fix="Upgrade the package whose file stands in the frame above (deepspeed to 0.14.5 or "
        "newer, apex, timm, basicsr); or install the torch that it was written for; a single "
        "import can be edited: functional_tensor is transforms.functional, inf of torch._six is "
        "torch.inf, container_abcs is collections.abc, pytorch_lightning.utilities.distributed is "
        "...rank_zero (or pytorch-lightning<1.8).",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show torch torchvision",),
    ),
    Cause(
        id="hub-function-removed",
        refines=("import-failed", "name-not-in-package"),
        errors=("ImportError",),
        messages=(
            r"cannot import name '(?:cached_download|HfFolder|Repository|is_offline_mode|"
            r"hf_cache_home|url_to_filename)' from 'huggingface_hub",
        ),
        examples=(
            "ImportError: cannot import name 'cached_download' from 'huggingface_hub' "
            "(/opt/huggingface_hub/__init__.py)",
        ),
        why="huggingface_hub removed the function (cached_download in 0.26, HfFolder and "
        "Repository in 1.0), and an older diffusers, transformers or sentence-transformers still "
        "imports it.",
        fix="Upgrade the package in the frame above (pip install -U diffusers transformers "
        "sentence-transformers datasets), or install huggingface_hub<0.26 (cached_download) or "
        "<1.0 (the others).",
        owner=Owner.ENVIRONMENT,
        commands=('python -m pip install "huggingface_hub<0.26"',),
    ),
    Cause(
        id="triton-of-other-torch",
        refines=("import-failed", "name-not-in-package"),
        errors=("ImportError", "ModuleNotFoundError"),
        messages=(
            r"cannot import name '(?:AttrsDescriptor|triton_key|compile_ptx|ASTSource)'",
            r"No module named 'triton\.(?:ops|common|language\.extra|backends)",
        ),
        examples=(
            "ImportError: cannot import name 'AttrsDescriptor' from 'triton.compiler.compiler'",
            "ModuleNotFoundError: No module named 'triton.ops'",
        ),
        why="triton is of another version than torch or the kernel package expects (triton.ops "
        "went in 3.0 or soon after, AttrsDescriptor moved in 3.2).",
        fix="Install the triton that torch asks for (pip install torch again with "
        "--force-reinstall, or the version that pip check names), and upgrade the package in the "
        "frame above: bitsandbytes 0.45 or newer for triton.ops.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check", "python -m pip show torch triton"),
    ),
    Cause(
        id="protobuf-too-new",
        refines=("import-failed", "name-not-in-package", "attribute-missing", "property-raised"),
        errors=("TypeError", "ImportError", "AttributeError", "VersionError"),
        messages=(
            r"Descriptors cannot (?:not )?be created directly",
            r"cannot import name '(?:builder|runtime_version|symbol_database)' from "
            r"'google\.protobuf",
            r"Detected (?:incompatible|mismatched) Protobuf Gencode/Runtime",
            r"'MessageFactory' object has no attribute 'GetPrototype'",
        ),
        examples=(
            "TypeError: Descriptors cannot be created directly. If this call came from a _pb2.py "
            "file, your generated code is out of date",
            "ImportError: cannot import name 'runtime_version' from 'google.protobuf' "
            "(/opt/google/protobuf/__init__.py)",
            "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf "
            "Gencode/Runtime versions when loading a.proto: gencode 6.31.1 runtime 5.29.3.",
            "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",
        ),
        why="Code that an older or newer protobuf generated (tensorboard, wandb, onnx, "
        "sentencepiece) meets the installed one: protobuf 4 refuses what older ones "
        "generated, 6.31 removed GetPrototype, and a protobuf older than the generator lacks "
        "builder and runtime_version.",
        fix="Upgrade the package whose file stands in the frame above. If protobuf is too new "
        "for it (Descriptors, GetPrototype), install protobuf<=3.20.3 or protobuf<6; "
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python works without installing, but slowly. "
        "If protobuf is too old (builder, runtime_version, gencode above runtime), python -m "
        "pip install -U protobuf.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip show protobuf",),
    ),
    Cause(
        id="openmp-twice",
        messages=(r"OMP: Error #15", r"MKL_THREADING_LAYER=INTEL is incompatible with libgomp"),
        examples=(
            "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already "
            "initialized.",
            "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with "
            "libgomp.so.1 library.",
        ),
        why="Two packages bring different OpenMP libraries into one process, often numpy of conda "
        "and torch of pip.",
        fix="Install both from one source in a new environment. For libgomp: export "
        "MKL_THREADING_LAYER=GNU, or import numpy before torch. KMP_DUPLICATE_LIB_OK=TRUE lets it "
        "run, with results that nobody vouches for.",
        owner=Owner.ENVIRONMENT,
        commands=("export MKL_THREADING_LAYER=GNU", "conda list | grep -iE 'openmp|mkl|numpy'"),
    ),
    Cause(
        id="opengl-missing",
        refines=("library-does-not-fit",),
        errors=("ImportError",),
        messages=(
            r"lib(?:GL|gthread-2\.0|SM|Xext|Xrender)\.so[\w.]{0,10}: cannot open shared object",
        ),
        examples=(
            "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        ),
        why="opencv-python needs libraries of a desktop, which a container or server does not "
        "have.",
        fix="Replace it: pip uninstall opencv-python, pip install opencv-python-headless; or apt "
        "install libgl1 libglib2.0-0.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip install opencv-python-headless",),
    ),
    Cause(
        id="requirements-conflict",
        messages=(
            r"these package versions have conflicting dependencies|ResolutionImpossible|No "
            r"solution found when resolving",
            r"which is incompatible\.|but you have \S{1,60} \d",
        ),
        examples=(
            "ERROR: Cannot install torch==2.0.0 because these package versions have conflicting "
            "dependencies.",
            "trl 0.9 requires transformers<4.40, but you have transformers 4.50 which is "
            "incompatible.",
        ),
        why="The pinned versions exclude each other: an extension such as xformers, torchvision, "
        "vllm or flash-attn pins one release of torch.",
        fix="Pin torch alone and take the release of each extension that was made for it (the "
        "lines 'depends on torch==' of the message name it), or loosen the pin of the one that "
        "you need least; install in a fresh environment. A conflict of packages that the training "
        "does not import is only a warning.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check",),
    ),
)
