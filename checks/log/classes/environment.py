"""Packages, files, disks and accounts."""

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
            r"symbol not found in flat namespace",
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
            r"libbitsandbytes_\w{1,40}\.so: cannot open",
            r"libbitsandbytes_cpu\.so: undefined symbol",
        ),
        examples=(
            "RuntimeError: CUDA Setup failed despite GPU being available.",
            "WARNING: CUDA VERSION MISMATCH: Requested CUDA version 12.1",
            "RuntimeError: Attempted to use bitsandbytes native library functionality but it's not "
            "available.",
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
        code="LOG057",
        slug="weights-only-load",
        title="torch.load accepts the checkpoint",
        patterns=(
            r"Weights only load failed",
            r"WeightsUnpickler error: Unsupported (?:global: GLOBAL (?P<global>[\w.]{1,200})|\w+)",
        ),
        examples=(
            "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, "
            "to do "
            "so you have two options",
            "	WeightsUnpickler error: Unsupported global: GLOBAL "
            "numpy.core.multiarray._reconstruct "
            "was not an allowed global by default.",
        ),
        why="Since torch 2.6 torch.load refuses pickles that name other classes than tensors and "
        "plain containers: often the random state or the optimizer of an older checkpoint.",
        fix="Examine the file with `doctor scan FILE`. If it is your own, allow the class that the "
        "message names with torch.serialization.add_safe_globals([...]), or upgrade the framework "
        "that loads it.",
        commands=("doctor scan FILE",),
        sources=("transformers-34631", "transformers-40500", "ms-swift-5808"),
        next_check="CKP001",
    ),
    LogClass(
        code="LOG058",
        slug="disk-full",
        title="The disks have room",
        patterns=(
            r"No space left on device",
            r"\[Errno 28\]",
            r"Disk quota exceeded|\[Errno 122\] \w{4}",
            r"PytorchStreamWriter failed writing file",
            r"unexpected pos \d+ vs \d+",
            r"inline_container\.cc:\d+\] \. (?:unexpected pos|PytorchStreamWriter)",
        ),
        examples=(
            "OSError: [Errno 28] No space left on device",
            "RuntimeError: [Errno 28] writing the file",
            "OSError: [Errno 122] Disk quota exceeded: '/home/a/x'",
            "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0",
            "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed",
        ),
        why="A file system is full, out of inodes, or over the user's quota: the output directory, "
        "/tmp, the Hugging Face cache, or /dev/shm.",
        fix="Free space or name another directory; keep fewer checkpoints (save_total_limit). "
        "Check "
        "df -h and df -i for the path in the message.",
        owner=Owner.ENVIRONMENT,
        commands=("df -h . /tmp /dev/shm", "df -i ."),
        next_check="DSK001",
    ),
    LogClass(
        code="LOG059",
        slug="checkpoint-damaged",
        title="The checkpoint is complete",
        patterns=(
            r"PytorchStreamReader failed",
            r"Error while deserializing header|HeaderTooLarge|MetadataIncompleteBuffer"
            r"|InvalidHeaderDeserialization",
            r"UnpicklingError: invalid load key|EOFError: Ran out of input",
            r"unexpected EOF, expected \d+ more bytes",
        ),
        examples=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
            "directory",
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "_pickle.UnpicklingError: invalid load key, 'v'.",
            "RuntimeError: unexpected EOF, expected 4096 more bytes. The file might be corrupted.",
        ),
        why="The file is cut off, is a Git LFS pointer or an error page instead of the weights, or "
        "was written while the disk was full.",
        fix="Examine it with `doctor scan`, download it again (git lfs pull), or resume from an "
        "earlier checkpoint.",
        commands=("doctor scan FILE",),
        next_check="CKP001",
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
    ),
    LogClass(
        code="LOG061",
        slug="file-missing",
        title="Files that the training reads exist",
        patterns=(
            r"FileNotFoundError: (?:\[Errno 2\] )?(?P<what>.{0,300})",
            r"does not appear to have a file named (?P<file>\S{1,200})",
            r"Error no file named \S{1,200}",
            r"is not a local folder and is not a valid model identifier",
            r"PermissionError: \[Errno 13\]",
        ),
        examples=(
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'",
            "OSError: /models/a does not appear to have a file named config.json.",
            "OSError: Error no file named pytorch_model.bin, model.safetensors found in "
            "directory a.",
            "OSError: mistral-8b is not a local folder and is not a valid model identifier "
            "listed on "
            "'https://huggingface.co/models'",
            "PermissionError: [Errno 13] Permission denied: '/data/out'",
        ),
        why="A path does not exist on this node or may not be read. The line does not say whether "
        "the configuration is wrong or the storage is not mounted.",
        fix="Check the path as the training's user on the node that reports it: ls -ld PATH; use "
        "absolute paths in batch jobs and mounts that every node has.",
        role="exception",
    ),
    LogClass(
        code="LOG062",
        slug="too-many-open-files",
        title="The limit of open files is not reached",
        patterns=(r"Too many open files|\[Errno 24\] \w{3} many", r"received 0 items of ancdata"),
        examples=(
            "OSError: [Errno 24] Too many open files",
            "RuntimeError: received 0 items of ancdata",
        ),
        why="DataLoader workers pass each tensor as an open file, and the soft limit is often "
        "1024.",
        fix="Raise the limit (ulimit -n 65536), or call "
        "torch.multiprocessing.set_sharing_strategy('file_system').",
        owner=Owner.ENVIRONMENT,
        commands=("ulimit -n",),
    ),
    LogClass(
        code="LOG063",
        slug="hf-auth",
        title="The Hugging Face account may read the model",
        patterns=(
            r"GatedRepoError|Cannot access gated repo|trying to access a gated repo",
            r"Make sure to have access to it at https?://huggingface",
            r"RepositoryNotFoundError: 40[14]",
            r"40[13] Client Error: \w{4,20} for url: https?://(?:[\w-]{1,40}\.)?huggingface",
            r"Invalid user token|You must have access to it and be authenticated",
        ),
        examples=(
            "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo",
            "OSError: You are trying to access a gated repo.",
            "Make sure to have access to it at https://huggingface.co/meta-llama/Llama-2-7b",
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: a)",
            "401 Client Error: Unauthorized for url: https://huggingface.co/a/resolve/main/b.json",
            "Access to model a is restricted. You must have access to it and be authenticated",
        ),
        why="The repository is gated or private, the licence was not accepted, or the token is "
        "missing in the job's environment.",
        fix="Accept the licence on the model's page, and log in where the job runs: `hf auth "
        "login`, "
        "or HF_TOKEN in its environment.",
        commands=("hf auth whoami",),
        sources=("hf-gated",),
    ),
    LogClass(
        code="LOG064",
        slug="hf-offline",
        title="The model hub is reachable or not needed",
        patterns=(
            r"outgoing traffic has been disabled|OfflineModeIsEnabled",
            r"We couldn't connect to 'https?://huggingface",
            r"(?:Max retries exceeded with url|NameResolutionError).{0,400}huggingface"
            r"|huggingface.{0,400}(?:Max retries exceeded|NameResolutionError|Read timed out)",
            r"LocalEntryNotFoundError",
        ),
        examples=(
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/a: "
            "offline mode is enabled.",
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
            "HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with "
            "url: /a",
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to "
            "locate the files on the Hub",
        ),
        why="A file is not in the cache, and the node has no network or HF_HUB_OFFLINE is set.",
        fix="Download it before on a node with a network (hf download REPOSITORY), into the "
        "HF_HOME "
        "that the job uses.",
        owner=Owner.ENVIRONMENT,
        commands=("hf cache scan",),
        sources=("hf-offline",),
    ),
    LogClass(
        code="LOG065",
        slug="wandb-auth",
        title="The experiment tracker accepts the login",
        patterns=(
            r"wandb.{0,300}(?:api_key not configured|UsageError)",
            r"wandb: ERROR .{0,200}(?:API key|api_key|authenticat)",
            r"wandb\.errors\.(?:errors\.)?(?:CommError|AuthenticationError|UsageError)",
        ),
        examples=(
            "wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[k])",
            "wandb: ERROR Unable to verify login in offline mode. API key must be 40 characters "
            "long",
            "wandb.errors.CommError: Error communicating with wandb backend",
        ),
        why="Weights & Biases is not logged in on this node, or it cannot be reached; the Trainer "
        "reports to it by default when it is installed.",
        fix="Set WANDB_API_KEY in the job's environment, WANDB_MODE=offline on nodes without a "
        "network, or report_to=[] (WANDB_DISABLED=true).",
        owner=Owner.ENVIRONMENT,
        commands=("export WANDB_MODE=offline",),
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
        next_check="SMK005",
    ),
)
