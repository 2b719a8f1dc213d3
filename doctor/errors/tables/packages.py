"""Packages, compiled extensions and shared libraries."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Remedy, Wording
from doctor.errors.tables.commands import LD_PATHS

ROWS = (
    Cause(id="static-tls-block",
        errors=("ImportError", "OSError"),
        messages=("static TLS block",),
        examples=("ImportError: /usr/lib/libgomp.so.1: cannot allocate memory in static TLS "
            "block",),
        why="A library was loaded too late for its thread-local memory.",
        fix="A library was loaded too late for its thread-local memory: preload the one that "
            "the error names with LD_PRELOAD, or import torch before other packages.",
        owner=Owner.ENVIRONMENT, next_check="TOR001"),
    Cause(id="address-space-limit",
        errors=("ImportError", "OSError", "MemoryError"),
        messages=("Memory allocation still failed",
            "failed to map segment",
            "(?<!OutOf)MemoryError|bad_alloc|Cannot allocate memory"),
        examples=("OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
            "ImportError: libtorch_cuda.so: failed to map segment from shared object",
            "MemoryError"),
        told_by="it is raised by an import",
        why="The process may not use enough memory to load a library.",
        fix="The process may not use enough memory to load torch's libraries: raise its limit "
            "of address space (ulimit -v unlimited) or the memory of the container.",
        commands=("ulimit -v",), owner=Owner.ENVIRONMENT, next_check="TOR001"),
    Cause(id="process-limit",
        errors=("RuntimeError", "BlockingIOError"),
        messages=("can't start new thread",
            r"\[Errno 11\] Resource temporarily unavailable",
            r"(?:what\(\): {1,3}|thread: |fork: |retry: |thread creation failed: |"
            r"pthread_create[^\n]{0,60}: ?)Resource temporarily unavailable",
            r"RLIMIT_NPROC \d{1,9} current"),
        examples=("RuntimeError: can't start new thread",
            "BlockingIOError: [Errno 11] Resource temporarily unavailable",
            "terminate called after throwing an instance of 'std::system_error'\n  what():  "
            "Resource temporarily unavailable",
            "OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 4096 max"),
        why="The limit of processes and threads of this user or container is reached. Each "
            "rank, loader worker and Ray worker starts threads of OpenMP and BLAS for all cores.",
        fix="Raise the limit of processes (ulimit -u, or pids.max of the container), end other "
            "processes of this user, or start fewer threads: OMP_NUM_THREADS=1 and "
            "OPENBLAS_NUM_THREADS=1, fewer loader workers, ray.init(num_cpus=...). Memory is "
            "not the reason.",
        commands=("ulimit -u",
            "cat /sys/fs/cgroup/pids.max"),
        title="No limit of processes and threads was reached", sources=("python-exceptions",),
        owner=Owner.ENVIRONMENT, code="LOG007"),
    Cause(id="nvjitlink-older",
        errors=("ImportError",), refines=("extension-abi-mismatch", "library-does-not-fit"),
        messages=("__nvJitLink",),
        examples=("ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, "
            "version libnvJitLink.so.12",),
        why="An older libnvJitLink is found before torch's own.",
        fix="An older libnvJitLink is found before torch's own: remove its directory from "
            "LD_LIBRARY_PATH, or install torch 2.6 or newer, which loads its own first.",
        sources=("pytorch-134929",), owner=Owner.ENVIRONMENT, next_check="TOR004"),
    Cause(id="glibc-too-old",
        errors=("ImportError", "OSError"),
        messages=("version [`']?GLIBC_",),
        examples=("ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found "
            "(required by libtorch_cpu.so)",),
        why="A library requires a newer C library than this system has.",
        fix="A library requires a newer C library (glibc) than this system has, and glibc "
            "cannot be upgraded alone: use an image of a newer distribution (Ubuntu 20.04, "
            "Debian 11 and RHEL 8 have 2.28, which wheels of torch since 2.7 require), or an "
            "older release of the package that the error names.",
        commands=("ldd --version",), sources=("pytorch-150724",),
        owner=Owner.ENVIRONMENT, next_check="TOR001"),
    Cause(id="libstdcxx-too-old",
        errors=("ImportError", "OSError"),
        refines=("extension-abi-mismatch", "library-does-not-fit"),
        messages=("version [`']?(?:GLIBCXX|CXXABI)_",
            r"undefined symbol: (?:__cxa_call_terminate|_ZS[ts]|_ZNK?S[ts])"),
        examples=("ImportError: libstdc++.so.6: version GLIBCXX_3.4.29' not found (required by "
            "cpu_adam.so)",
            "ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required "
            "by torch)",
            "ImportError: _C.cpython-312-x86_64-linux-gnu.so: undefined symbol: "
            "__cxa_call_terminate"),
        why="An older libstdc++ than that of the compiler is found first.",
        fix="An older libstdc++ is found first: remove its directory from LD_LIBRARY_PATH, or "
            "install a newer one in the environment (conda install -c conda-forge libstdcxx-ng). "
            "An extension that was compiled here can also be compiled again with the environment's "
            "own compiler (gxx_linux-64).",
        commands=('echo "$LD_LIBRARY_PATH"',), owner=Owner.ENVIRONMENT,
        sources=("detectron2-install", "pytorch-1587", "espresso-5256"),
        next_check="TOR001"),
    Cause(id="nccl-two-packages",
        errors=("ImportError",), refines=("library-does-not-fit",),
        messages=(r"undefined symbol: nccl[A-Z]\w{1,60}",),
        examples=("ImportError: "
            "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: undefined "
            "symbol: ncclCommResume",),
        why="torch found an NCCL that is older than the one it was built with. "
            "nvidia-nccl-cu12, -cu13 and -cu11 write the same file "
            "nvidia/nccl/lib/libnccl.so.2, and the one that was installed last stays; or "
            "LD_LIBRARY_PATH offers another.",
        fix="Uninstall the nvidia-nccl-cuNN packages of other CUDA versions than torch's, then "
            "reinstall torch's own with --force-reinstall. If there is only one, remove other "
            "copies of libnccl.so.2 from LD_LIBRARY_PATH and LD_PRELOAD.",
        commands=("python -m pip list | grep -i nccl",
            *LD_PATHS),
        title="torch's NCCL is the one that its wheel brought",
        yields_to=("requirement-of-torch-broken",), sources=("pytorch-186591", "returnn-1802"),
        owner=Owner.ENVIRONMENT, next_check="TOR004", code="LOG077"),
    Cause(id="extension-abi-mismatch",
        messages=(r"(?<![\w./-])(?P<library>(?![\w./-]{0,300}lib(?:bitsandbytes_cpu|"
            r"cudnn))[\w./-]{1,400}\.so[\w.]{0,40}): undefined symbol: "
            r"(?P<symbol>(?!nccl)\w{1,300})",
            r"undefined symbol\W{1,6}_ZNK?\d{0,2}(?:2at|3c10|5torch|8c10_cuda)",
            "symbol not found in flat namespace|DLL load failed while importing",
            r"libcudart\.so[\w.]{0,20}: cannot open shared object file"),
        examples=("ImportError: "
            "/opt/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64"
            "-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEa",
            "import flash_attn gives an undefined symbol, "
            "`_ZN3c105ErrorC2ENS_14SourceLocationESs`",
            "ImportError: dlopen(a.so, 0x2): symbol not found in flat namespace '__ZN2at4_ops'",
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or "
            "directory"),
        wordings=(
            Wording(r"Cannot load symbol cublas|symbol:? cublasLt",
                "OSError: nvidia/cublas/lib/libcublas.so.11: undefined symbol: "
                    "cublasLtGetStatusString, version libcublasLt.so.11",
                "Another libcublasLt is loaded than the one that came with torch: of a CUDA "
                    "toolkit in LD_LIBRARY_PATH, or of the system.",
                "Take the directories of CUDA out of LD_LIBRARY_PATH and LD_PRELOAD for the "
                    "training (unset LD_LIBRARY_PATH to try), then reinstall torch with its own "
                    "nvidia-cublas package. A server that loads its own CUDA beside torch needs "
                    "one of the same CUDA version.",
                LD_PATHS, more=("Invalid handle. Cannot load symbol cublasLtCreate",),
                sources=("pytorch-174320",)),),
        why="An extension was compiled for another torch, another C++ ABI or another CUDA. It "
            'is often wrapped in "Failed to import transformers.models...".',
        fix="Reinstall the extension for the torch that is installed: its wheel for this torch "
            "and CUDA, or pip install --no-build-isolation --no-cache-dir PACKAGE.",
        commands=LD_PATHS,
        title="Compiled extensions fit the installed torch",
        yields_to=("requirement-of-torch-broken", "wheel-for-other-torch"),
        sources=("flash-attention-1832", "flash-attention-940", "pytorch-134929"),
        owner=Owner.ENVIRONMENT, next_check="TOR004", code="LOG056"),
    Cause(id="bitsandbytes-setup",
        refines=("value-is-none", "module-without-return", "name-undefined"),
        messages=(r"\'NoneType\' object has no attribute \'c(?:quantize|dequantize|get_|adam|"
            r"igemm|lion|8bit|allocate)\w{0,60}\'|name \'(?:str2optimizer\w{1,40}|cuda_setup)\' "
            r"is not defined",
            "CUDA Setup failed despite",
            r"CUDA VERSION MISMATCH\W{1,4}Requested CUDA|"
            r"bitsandbytes.{0,200}CUDA VERSION MISMATCH",
            "Attempted to use bitsandbytes native library functionality",
            r"libbitsandbytes_\w{1,40}\.(?:so|dll): cannot open|Could not find the bitsandbytes "
            r"\w{1,20} binary at",
            "CUDA SETUP: (?:CUDA detection failed|Required library version not found)",
            r"libbitsandbytes_cpu\.so: undefined symbol",
            "Configured (?:CUDA|ROCm) binary not found at .{0,200}bitsandbytes"),
        examples=("AttributeError: 'NoneType' object has no attribute "
            "'cquantize_blockwise_fp16_nf4'",
            "NameError: name 'str2optimizer8bit_blockwise' is not defined",
            "RuntimeError: CUDA Setup failed despite GPU being available.",
            "WARNING: CUDA VERSION MISMATCH: Requested CUDA version 12.1",
            "RuntimeError: Attempted to use bitsandbytes native library functionality but it's "
            "not available.",
            "CUDA SETUP: Required library version not found: libbitsandbytes_cuda118.so. Maybe "
            "you",
            "OSError: /lib/libbitsandbytes_cuda130.so: cannot open shared object file",
            "AttributeError: /lib/libbitsandbytes_cpu.so: undefined symbol: cquantize_blockwise",
            "RuntimeError: Configured CUDA binary not found at "
            "/lib/bitsandbytes/libbitsandbytes_cuda128.so"),
        wordings=(
            Wording(r"BNB_CUDA_VERSION=\S{1,12} environment variable detected|"
                r"WARNING: Manual override via BNB_CUDA_VERSION",
                "WARNING: BNB_CUDA_VERSION=124 environment variable detected; loading "
                "libbitsandbytes_cuda124.so.",
                "The variable BNB_CUDA_VERSION makes bitsandbytes load the library of another "
                "CUDA than torch's, and that one is not installed or does not fit.",
                "Let torch's CUDA decide: unset BNB_CUDA_VERSION, also in the profile, the job "
                "script and the image. If the library is then missing, upgrade bitsandbytes.",
                ("unset BNB_CUDA_VERSION",
                    "python -m bitsandbytes")),),
        why="bitsandbytes has no compiled library for the CUDA version of torch.",
        fix="Upgrade bitsandbytes, or set BNB_CUDA_VERSION to a version that it contains; "
            "`python -m bitsandbytes` reports which one it looks for.",
        commands=("python -m bitsandbytes",),
        title="bitsandbytes has a library for the CUDA in use",
        yields_to=("cuda-toolkit-mismatch", "toolkit-of-other-cuda"),
        sources=("bitsandbytes-errors",),
        owner=Owner.ENVIRONMENT, code="LOG055"),
    Cause(id="name-not-in-package",
        refines=("import-failed",),
        messages=(r"cannot import name '\w{1,200}' from (?!partially)",
            r"ImportError: cannot import name '\w{1,200}'(?! from)",
            r"No module named '(?:transformers|torch|torchvision|torchaudio|trl|peft|accelerate|"
            r"datasets|deepspeed|diffusers|huggingface_hub|vllm|pytorch_lightning|lightning|"
            r"bitsandbytes|triton|xformers|flash_attn|unsloth|unsloth_zoo|megatron|apex|"
            r"tokenizers|numpy|wandb|ray|verl|nemo|timm|sklearn|keras|langchain|ultralytics|lerobot|"
            r"gsplat|nerfstudio|mmcv|mmdet|mmengine|monai|open_clip|sentence_transformers|"
            r"torch_geometric|fairseq|speechbrain)\."),
        examples=("ImportError: cannot import name 'GRPOConfig' from 'trl' "
            "(/opt/trl/__init__.py)",
            "ImportError: cannot import name '_worker_manager_loop'",
            "ModuleNotFoundError: No module named 'transformers.modeling_layers'",
            "ModuleNotFoundError: No module named 'lerobot.common'"),
        why="The package is installed, in a version that has no such name or module: older or "
            "newer than the code that imports it; or a file of the program has the package's "
            "name.",
        fix="A name that is new: upgrade the package. One that was removed: upgrade the package "
            "in the frame above, or install the version of its time. If the path in the message "
            "is a file of your own, or the message says that it is not a package, rename that "
            "file.",
        commands=("python -m pip show transformers trl peft accelerate",),
        sources=("python-exceptions",), owner=Owner.ENVIRONMENT),
    Cause(id="import-failed",
        errors=("ImportError",),
        messages=(r"(?:ModuleNotFound|Import)Error: No module named '?(?P<module>[\w.]{1,200})'?",
            r"ImportError: cannot import name '(?P<name>\w{1,200})'",
            r"ImportError: Using `\w{1,60}` requires|requires the following packages that were "
            r"not found",
            r"\S{1,200} requires the \S{1,200} library but it was not found"),
        examples=("ModuleNotFoundError: No module named 'flash_attn'",
            "ImportError: cannot import name 'is_torch_fx_available' from 'transformers.utils'",
            "ImportError: Using `bitsandbytes` requires accelerate",
            "ImportError: LlamaTokenizer requires the SentencePiece library but it was not found"),
        why="A package is missing in the environment that runs the training, or has another "
            "version than the code was written for.",
        fix="Install the package into the interpreter that runs the training (python -m pip, "
            "not pip alone), in the version that the code's requirements name. A module of your "
            "own is found from the directory in which the training starts; if the message names "
            "a circular import or a file of your own, rename that file or move the import.",
        commands=("python -m pip show torch transformers",),
        title="All imports succeed", sources=("python-exceptions",),
        owner=Owner.ENVIRONMENT, code="LOG060"),
    Cause(id="api-changed",
        errors=("TypeError", "AttributeError"),
        refines=("attribute-missing", "call-arguments", "name-undefined"),
        messages=(r"TypeError: (?:\w{1,40}\.)?(?:(?:[A-Z]\w{0,40})?(?:Trainer|TrainingArguments|"
            r"Tokenizer(?:Fast)?|Config|PreTrainedModel|ForCausalLM|ForConditionalGeneration|"
            r"ForSequenceClassification|DecoderLayer|Attention)|AutoModel\w{0,40}|Accelerator|"
            r"DataCollator\w{0,40}|PeftModel\w{0,40}|GradScaler|DynamicCache|AdamW|"
            r"ReduceLROnPlateau|\w{1,30}RotaryEmbedding)\.\w{1,40}\(\) got an unexpected "
            r"keyword argument '(?P<argument>\w{1,100})'",
            r"AttributeError: module '(?:torch|torchvision|torchaudio|torchmetrics|transformers|"
            r"peft|trl|accelerate|datasets|diffusers|lightning|pytorch_lightning|deepspeed|"
            r"bitsandbytes|flash_attn|xformers|triton|numpy|scipy|pandas|sklearn|timm|wandb|"
            r"tokenizers|huggingface_hub|jax|tensorflow|keras|PIL|cv2|apex|megatron|"
            r"vllm)(?:\.[\w.]{1,200})?' has no attribute '\w{1,200}'",
            r"AttributeError: '?(?:\w{0,20}(?:SFT|DPO|KTO|ORPO|CPO|PPO|GRPO|RLOO|GKD|Reward|"
            r"Seq2Seq|"
            r"Unsloth\w{1,20})Trainer|Trainer|(?:[A-Z]\w{0,40})?(?:TrainingArguments|"
            r"Tokenizer(?:Fast)?|Config|PreTrainedModel|ForCausalLM|ForConditionalGeneration|"
            r"ForSequenceClassification|DecoderLayer|Attention)|AutoModel\w{0,40}|Accelerator|"
            r"DataCollator\w{0,40}|PeftModel\w{0,40}|GradScaler|DynamicCache)(?:' object)? has "
            r"no attribute '?\w{1,200}",
            r"(?:\w{0,40}(?:Trainer|Callback|Model|Tokenizer|Plugin|Collator)\._\w{2,60}|"
            r"_unsloth_\w{3,60}|_fast_\w{3,60})\(\) (?:takes (?:from )?\d|got an unexpected|"
            r"missing \d)",
            r"'(?:AdamW?(?:8bit)?|PagedAdamW\w{0,6}|SGD|AcceleratedOptimizer)' object has no "
            r"attribute '(?:train|eval)'",
            r"name 'Pre[Tt]rained\w{3,30}' is not defined",
            r"'Lightning\w{2,30}' object has no attribute",
            r"(?:prepare_model_for_\w{3,30}|get_peft_model\w{0,20}|load_dataset|from_pretrained|"
            r"dispatch_model|flash_attn_\w{1,40}|flash_attention_\w{1,30}|"
            r"apply_rotary_pos_emb\w{0,20}|causal_mask|init_process_group)\(\) got an "
            r"unexpected keyword",
            r"AttributeError: type object '\w{0,40}(?:Trainer|TrainingArguments|Config|Tokenizer|"
            r"Accelerator|Model)' has no attribute '\w{1,200}'",
            r"module (?:diffusers|transformers|torchvision)[\w.]{0,100} has no attribute \w"),
        examples=("TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'",
            "AttributeError: module 'numpy' has no attribute 'object'",
            "AttributeError: 'LlamaAttention' object has no attribute 'rotary_emb'",
            "TypeError: GRPOTrainer._get_train_sampler() takes 1 positional argument but 2 were "
            "given",
            "AttributeError: 'AdamW' object has no attribute 'train'",
            "NameError: name 'PreTrainedConfig' is not defined. Did you mean: "
            "'PretrainedConfig'?",
            "AttributeError: type object 'Trainer' has no attribute 'add_argparse_args'",
            "AttributeError: 'LightningOptimizer' object has no attribute 'state'",
            "TypeError: prepare_model_for_kbit_training() got an unexpected keyword argument 'x'",
            "AttributeError: module diffusers has no attribute FluxPipeline"),
        why="Code and library are of different versions: an argument or attribute was renamed, "
            "removed, or is not there yet.",
        fix="Install the version that the code was written for (its requirements), or change "
            "the call as the library's migration notes say. Between two libraries: bring them "
            "to releases of one time, python -m pip install -U transformers trl peft accelerate.",
        title="The code fits the installed versions",
        remedies=(
            Remedy(package="transformers", since="5.0",
                fix="transformers 5 removed arguments that 4.x had deprecated: Trainer's "
                "tokenizer is now processing_class, torch_dtype is dtype. Change the call, or "
                "install transformers<5."),),
        sources=("transformers-43733", "lmdeploy-4435"), role="exception", code="LOG066"),
)  # fmt: skip
