"""Installed versions that do not fit: what pip refuses, what newer packages removed."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="package-version-refused",
        errors=("ImportError", "AssertionError", "VersionConflict", "AttributeError"),
        refines=("attribute-missing",),
        messages=(r"is required for a normal functioning of this module|Found an incompatible "
              r"version of \w",
            r"is used but incompatible\. Please install",
            r"requires `?(?:accelerate|bitsandbytes|transformers|peft|trl)`? ?(?:>=|==|>)",
            r"requires (?:Accelerate|accelerate)\b.{0,20}pip install",
            r"VersionConflict",
            r"'Version' object has no attribute 'm(?:ajor|inor|icro)'"),
        examples=("ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of "
              "this module, but found tokenizers==0.20.3.",
            "AssertionError: MMCV==1.7.0 is used but incompatible. Please install mmcv>=2.0.0rc4, "
              "<2.1.0.",
            "ImportError: Using the `Trainer` with `PyTorch` requires `accelerate>=0.20.1`: Please "
              "run `pip install transformers[torch]` or `pip install accelerate -U`",
            "ImportError: Using `load_in_8bit=True` requires Accelerate: `pip install accelerate`",
            "pkg_resources.VersionConflict: (torch 1.13 (/opt/torch), "
              "Requirement.parse('torch>=2.0'))",
            "AttributeError: 'Version' object has no attribute 'major'"),
        why="A package refuses the version of another one that is installed (packaging is often "
            "too old), or was imported before it was upgraded.",
        fix="pip install the range that the message names, into this interpreter (python -m pip "
            "install \"NAME>=A,<B\"; for 'Version' object: python -m pip install -U packaging), "
            "together with the package that asks for it; then restart the interpreter or the "
            "notebook's kernel, which still holds the old one. If two packages ask for different "
            "ranges, upgrade the older of the two.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check", "python -m pip list"), sources=("transformers-versions",),
    ),
    Cause(id="pip-refuses",
        refines=("import-failed",),
        wordings=(
            Wording("Could not find suitable distribution for|No matching distribution found "
                "for|Could not find a version that satisfies the requirement|ha(?:s|ve) no wheels "
                "with a matching",
                "error: Could not find suitable distribution for "
                "Requirement.parse('torch>=1.1.0')",
                "The index has no such version for this Python, this system or this CUDA: "
                "versions such as +cu118 are only on PyTorch's own index, old ones have no "
                "wheels for a new Python.",
                "Compare with the versions that pip lists in the line before. For torch take "
                "the command of PyTorch's install page (--index-url of that CUDA); for an old "
                "release take a Python of its time (torch 1.13: up to 3.11, 2.1: up to 3.11, "
                "2.4: up to 3.12); check pip's proxy and mirror. A new Python has no wheels of "
                "torch for some months: uv venv --python 3.12, conda create python=3.12.",
                ("python --version",
                    "python -m pip index versions NAME"),
                more=("  Because torch==2.9.0+cu128 has no wheels with a matching Python ABI "
                    "tag",)),
            Wording("pip's dependency resolver does not currently take into account",
                "ERROR: pip's dependency resolver does not currently take into account all the "
                "packages that are installed. This behaviour is the source of the following "
                "dependency conflicts.",
                "The packages were installed all the same; the lines below name those that now "
                "have a dependency in another version than they ask for.",
                "Read them: where a package that the training uses is among them (torch, "
                "transformers, numpy, vllm), install versions that agree in one command. python "
                "-m pip check lists what is left.",
                ("python -m pip check",)),
            Wording("is not a supported wheel on this platform",
                "ERROR: torch-2.6.0-cp310-cp310-linux_x86_64.whl is not a supported wheel on "
                "this platform.",
                "The wheel's name says for what it was built: cp310 is Python 3.10, then the "
                "system and the processor; one of them differs here.",
                "Take the wheel whose tags are in the list of pip debug --verbose: the Python "
                "of python --version, x86_64 or aarch64, and for flash-attn also torch's "
                "version and cxx11abi.",
                ("python --version; uname -m",
                    "python -m pip debug --verbose")),
            Wording("externally-managed-environment",
                "error: externally-managed-environment",
                "The distribution protects its own Python from pip.",
                "Make an environment: python3 -m venv .venv && . .venv/bin/activate, then "
                "install there. In a throw-away container: pip install --break-system-packages.",
                ("python3 -m venv .venv && . .venv/bin/activate",)),
            Wording(r"these package versions have conflicting dependencies|ResolutionImpossible|"
                r"No solution found when resolving|which is incompatible\.|but you have "
                r"\S{1,60} \d",
                "ERROR: Cannot install torch==2.0.0 because these package versions have "
                "conflicting dependencies.",
                "The pinned versions exclude each other: an extension such as xformers, "
                "torchvision, vllm or flash-attn pins one release of torch.",
                "Pin torch alone and take the release of each extension that was made for it "
                "(the lines 'depends on torch==' of the message name it), or loosen the pin of "
                "the one that you need least; install in a fresh environment. A conflict of "
                "packages that the training does not import is only a warning.",
                ("python -m pip check",)),
            Wording("No package metadata was found for|Unable to compare versions for|"
                "DistributionNotFound",
                "importlib.metadata.PackageNotFoundError: No package metadata was found for "
                "bitsandbytes",
                "A package that the program needs is not installed in this interpreter, or was "
                "copied without pip, so that its version is unknown.",
                "Install it with this interpreter: python -m pip install NAME (of the message), "
                "and restart a notebook's kernel.",
                ("python -m pip install NAME",)),
            Wording(r"No module named 'torch'(?!\.)",
                "ModuleNotFoundError: No module named 'torch'",
                "This Python has no torch. While pip or uv builds a package (flash-attn, apex, "
                "deepspeed) it is the separate environment of the build that has none.",
                "In a build: install torch first, then pip install --no-build-isolation PACKAGE "
                "(uv: no-build-isolation-package). Otherwise start the interpreter of the "
                "environment that has it: compare python -m pip show torch with the python that "
                "starts the training, also under sudo, srun and in a notebook's kernel.",
                ("python -m pip show torch",
                    "which python torchrun"))),
        why="pip finds nothing that fits this Python, platform and the other packages, or may "
            "not install here.",
        owner=Owner.ENVIRONMENT),
    Cause(id="packages-of-several-times",
        errors=("TypeError", "ImportError", "AttributeError", "VersionError",
            "ModuleNotFoundError"),
        wordings=(
            Wording(r"Descriptors cannot (?:not )?be created directly|cannot import name "
                r"'(?:builder|runtime_version|symbol_database)' from 'google\.protobuf|Detected "
                r"(?:incompatible|mismatched) Protobuf Gencode/Runtime|'MessageFactory' object has "
                r"no attribute 'GetPrototype'",
                "TypeError: Descriptors cannot be created directly. If this call came from a "
                    "_pb2.py file, your generated code is out of date",
                "Code that an older or newer protobuf generated (tensorboard, wandb, onnx, "
                    "sentencepiece) meets the installed one: protobuf 4 refuses what older ones "
                    "generated, 6.31 removed GetPrototype, and a protobuf older than the generator "
                    "lacks builder and runtime_version.",
                "Upgrade the package whose file stands in the frame above. If protobuf is too new "
                    "for it (Descriptors, GetPrototype), install protobuf<=3.20.3 or protobuf<6; "
                    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python works without installing, but "
                    "slowly. If protobuf is too old (builder, runtime_version, gencode above "
                    "runtime), python -m pip install -U protobuf.",
                commands=("python -m pip show protobuf",),
                more=("ImportError: cannot import name 'runtime_version' from 'google.protobuf' "
                      "(/opt/google/protobuf/__init__.py)",
                    "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf "
                      "Gencode/Runtime versions when loading a.proto: gencode 6.31.1 runtime "
                      "5.29.3.",
                    "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'")),
            Wording(r"cannot import name '(?:AttrsDescriptor|triton_key|compile_ptx|ASTSource)'|No "
                r"module named 'triton\.(?:ops|common|language\.extra|backends)|"
                r"Cannot set attribute 'src' directly",
                "ImportError: cannot import name 'AttrsDescriptor' from 'triton.compiler.compiler'",
                "triton is of another version than torch or the kernel package expects (triton.ops "
                    "went in 3.0 or soon after, AttrsDescriptor moved in 3.2).",
                "Install the triton that torch asks for (pip install torch again with "
                    "--force-reinstall, or the version that pip check names), and upgrade the "
                    "package in the frame above: bitsandbytes 0.45 or newer for triton.ops, "
                    "whisper and xformers for 'src' (or triton 3.2, if torch is of its time).",
                commands=("python -m pip check", "python -m pip show torch triton"),
                more=("ModuleNotFoundError: No module named 'triton.ops'",
                    "AttributeError: Cannot set attribute 'src' directly. Use "
                      "'_unsafe_update_src()' and manually clear `.hash` of all callersinstead.")),
            Wording(r"OMP: Error #15|MKL_THREADING_LAYER=INTEL is incompatible with libgomp",
                "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already "
                    "initialized.",
                "Two packages bring different OpenMP libraries into one process, often numpy of "
                    "conda and torch of pip.",
                "Install both from one source in a new environment. For libgomp: export "
                    "MKL_THREADING_LAYER=GNU, or import numpy before torch. "
                    "KMP_DUPLICATE_LIB_OK=TRUE lets it run, with results that nobody vouches for.",
                commands=("export MKL_THREADING_LAYER=GNU",
                    "conda list | grep -iE 'openmp|mkl|numpy'"),
                more=("Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is "
                      "incompatible with libgomp.so.1 library.",)),
            Wording(r"lib(?:GL|gthread-2\.0|SM|Xext|Xrender)\.so[\w.]{0,10}: cannot open shared "
                r"object",
                "ImportError: libGL.so.1: cannot open shared object file: No such file or "
                    "directory",
                "opencv-python needs libraries of a desktop, which a container or server does not "
                    "have.",
                "Replace it: pip uninstall opencv-python, pip install opencv-python-headless; or "
                    "apt install libgl1 libglib2.0-0.",
                commands=("python -m pip install opencv-python-headless",))),
        why="Packages of several times or sources are in one environment.", owner=Owner.ENVIRONMENT,
        refines=("import-failed", "name-not-in-package", "attribute-missing",
            "library-does-not-fit"),
        sources=("xformers-1299",),
    ),
)  # fmt: skip
