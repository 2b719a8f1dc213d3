"""Texts that look like trouble and are none where nothing else is wrong."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="use-cache-with-checkpointing", sources=("transformers-layers",),
        messages=(r"use_cache=True` is incompatible with gradient checkpointing",),
        examples=("`use_cache=True` is incompatible with gradient checkpointing. Setting "
              "`use_cache=False`.",),
        why="The model switches its cache off by itself.",
        fix="", role="harmless",
    ),
    Cause(id="default-loss-chosen", sources=("transformers-modeling",),
        messages=(r"`?loss_type=None`? was set in the config but it is unrecognized",),
        examples=("`loss_type=None` was set in the config but it is unrecognized. Using the "
              "default loss: `ForCausalLMLoss`.",),
        why="The configuration names no loss, and transformers takes that of a causal language "
            "model. It is the right one there; a model of another kind has to compute its own, "
            "from the labels, in place of self.loss_function.",
        fix="", role="harmless",
    ),
    Cause(id="name-or-default-changes",
        messages=(r"torch\.utils\.checkpoint: (?:please pass in use_reentrant|the use_reentrant "
              r"parameter)",
            r"FutureWarning: `?torch\.(?:cuda|cpu)\.amp\.",
            r"torch\.meshgrid: in an upcoming release",
            r"The pynvml package is deprecated",
            r"TensorFloat32 tensor cores for float32 matrix multiplication available but not "
              r"enabled"),
        examples=("UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True or "
              "use_reentrant=False explicitly.",
            "FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.",
            "UserWarning: torch.meshgrid: in an upcoming release, it will be required to pass the "
              "indexing argument.",
            "FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
            "UserWarning: TensorFloat32 tensor cores for float32 matrix multiplication available "
              "but not enabled."),
        why="An older name, or a default that will change or could be faster (TF32: NUM002); the "
            "result is the same.",
        fix="", role="harmless", sources=("torch-recompute",),
    ),
    Cause(id="newer-gpu-of-same-major",
        messages=(r"which is of cuda capability (?:12\.1|10\.3)\b",),
        examples=("Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.",),
        why="Code for 12.0 runs on GB10 (12.1), and code for 10.0 on B300 (10.3): torch before "
            "2.11 warns of the number alone. The build is missing code only where "
            "torch.cuda.get_arch_list() has no sm_120 (sm_100).",
        fix="", role="harmless", sources=("pytorch-172629",),
    ),
    Cause(id="adapter-driver-not-installed",
        refines=("library-does-not-fit",),
        messages=(r"libibverbs: Warning: couldn't (?:open|load) ",),
        examples=("libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': "
              "libmlx5-rdmav34.so: cannot open shared object file: No such file or directory",),
        why="The image has no user-space driver for an InfiniBand or RoCE adapter. Nothing is "
            "missing where the job needs none. Where it spans nodes over such adapters, NCCL falls "
            "back to TCP: install ibverbs-providers (Debian, Ubuntu) or rdma-core, of the release "
            "of libibverbs; ibv_devinfo then lists the adapters.",
        fix="", role="harmless",
    ),
    Cause(id="inputs-made-to-require-grad",
        messages=(r"enable_input_require_grads(?:\(\))?`? (?:is |was |has been )?(?:called|enabled|"
              r"applied|registered|on)\b|(?:[Ee]nabled|[Cc]alled|[Rr]egistered|[Aa]pplied) `?"
              r"(?:model\.)?enable_input_require_grads",),
        examples=("model.enable_input_require_grads() called after the model was wrapped",
            "Enabled enable_input_require_grads for the base model"),
        why="The inputs of the checkpointed segments require gradients from here on.",
        fix="", role="harmless", sources=("torch-recompute",),
    ),
    Cause(id="leftovers-of-pip",
        messages=(r"Ignoring invalid distribution [~-]",),
        examples=("WARNING: Ignoring invalid distribution ~orch (c:\\env\\lib\\site-packages)",),
        why="Remains of an upgrade that was interrupted, which pip skips: the folders of "
            "site-packages whose names begin with ~ or - can be deleted.",
        fix="", role="harmless",
    ),
    Cause(id="scheduler-before-optimizer",
        messages=(r"Detected call of `?(?:lr_)?scheduler\.step\(\)`? before "
              r"`?optimizer\.step\(\)",),
        examples=("UserWarning: Detected call of `lr_scheduler.step()` before "
              "`optimizer.step()`.",),
        why="With a GradScaler once, at the first step of an fp16 run, which the scaler skipped. "
            "Without one the order is wrong and the first rate is left out: call optimizer.step() "
            "before scheduler.step().",
        fix="", role="harmless", sources=("torch-lr-scheduler",),
    ),
    Cause(id="request-tried-again",
        messages=(r"thrown while requesting (?:HEAD|GET|PUT|POST)|Trying to resume download|"
              r"Retrying in [\d.]{1,8} ?s(?:econds)? \[Retry (?P<tried>\d{1,3})/(?!(?P=tried)\])|"
              r"Retrying \(Retry\(total=\d",
            r"ERROR Error while calling W&B API.{0,200}<Response \[5\d\d\]>|"
              r"api: retrying (?:HTTP )?error.{0,300}wandb"),
        examples=("'(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read "
              "timed out. (read timeout=10)\"), '(Request ID: 1)')' thrown while requesting HEAD "
              "https://huggingface.co/a/b/resolve/main/config.json",
            "Retrying in 1s [Retry 1/5].",
            "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response "
              "[500]>)",
            '{"level":"INFO","msg":"api: retrying HTTP error","status":502,'
              '"url":"https://api.wandb.ai/files"}'),
        why="A request to a server (the hub, Weights & Biases) failed and is tried again; only an "
            "exception after the last try ends the program. What wandb could not send stays in "
            "its directory: wandb sync --sync-all.",
        fix="", role="harmless",
    ),
    Cause(id="tokenizers-forked",
        messages=(r"huggingface/tokenizers: The current process just got forked",),
        examples=("huggingface/tokenizers: The current process just got forked, after parallelism "
              "has already been used.",),
        why="The tokenizer goes on with one thread.",
        fix="", role="harmless",
    ),
    Cause(id="pad-token-set",
        messages=(r"Setting `pad_token_id` to `eos_token_id`",
            r"Using (?:pad|bos|cls|sep|mask|unk)_token, but it is not set yet"),
        examples=("Setting `pad_token_id` to `eos_token_id`:2 for open-end generation.",
            "Using pad_token, but it is not set yet."),
        why="Generation only.",
        fix="", role="harmless",
    ),
    Cause(id="new-head",
        messages=(r"Some weights of .{1,120} were not initialized from the model checkpoint",),
        examples=("Some weights of BertForSequenceClassification were not initialized from the "
              "model checkpoint at bert-base and are newly initialized: ['classifier.weight']",),
        why="Expected where the task has a new head. With an adapter name that layer in "
            "modules_to_save, or it is not saved.",
        fix="", role="harmless", sources=("transformers-loading-report",),
    ),
    Cause(id="no-flash-attention",
        messages=(r"You are not running the flash-attention implementation",
            r"A matching Triton is not available|Error caught was: No module named 'triton'"),
        examples=("You are not running the flash-attention implementation, expect numerical "
              "differences.",
            "A matching Triton is not available, some optimizations will not be enabled."),
        why="Another attention kernel is used.",
        fix="", role="harmless",
    ),
    Cause(id="first-overflows",
        messages=(r"(?:Gradient overflow|Overflow detected)\. {1,4}Skipping step|(?:OVERFLOW|"
              r"overflow)! {0,4}(?:Rank \d+ )?Skipping step|overflow detected, (?:ignoring "
              r"gradient, )?setting loss scale to",),
        examples=("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to "
              "32768.0",),
        why="The loss scale is being calibrated; a collapse is reported by its own check.",
        fix="", role="harmless", sources=("torch-grad-scaler",),
    ),
    Cause(id="notices-of-the-end",
        messages=(r"destroy_process_group\(\) was not called before program exit",
            r"can only test a child process",
            r"resource_tracker: There appear to be \d{1,9} leaked"),
        examples=("[rank0]:[W1] Warning: WARNING: destroy_process_group() was not called before "
              "program exit, which can leak resources.",
            "AssertionError: can only test a child process",
            "UserWarning: resource_tracker: There appear to be 6 leaked semaphore objects to "
              "clean up at shutdown"),
        why="Warnings of processes that end, and of an iterator of a DataLoader that is deleted "
            "in a process that did not make it (tqdm, a notebook). Leaked objects follow from a "
            "crash or a kill above the line.",
        fix="", role="harmless", sources=("torch-distributed", "python-multiprocessing"),
    ),
    Cause(id="notices-of-the-start",
        messages=(r"Setting OMP_NUM_THREADS environment variable for each process to be 1",
            r"(?:using GPU \d+ to perform barrier|No device id is provided via "
              r"`init_process_group`)",
            r"(?:Failed to open libibverbs|NET/IB : No device found|NET/Plugin ?: Could not find: |"
              r"No plugin found \(libnccl-net\.so\)|Plugin load .{0,80}libnccl-net\.so: cannot "
              r"open)",
            r"Waiting in store based barrier to initialize process group",
            r"socket cannot be initialized .{0,160}errno: 97",
            r"Unable to find hostfile, will proceed with training with local resources",
            r"async_io(?: requires the dev libaio|: please install the libaio)",
            r"\(raylet\) Spilled \d"),
        examples=("Setting OMP_NUM_THREADS environment variable for each process to be 1 in "
              "default, to avoid your system being overloaded",
            "[rank0]:[W1] using GPU 0 to perform barrier as devices used by this process are "
              "currently unknown.",
            "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal "
              "implementation",
            "INFO:root:Waiting in store based barrier to initialize process group for rank: 0, "
              "key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)",
            "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 "
              "(errno: 97 - Address family not supported by protocol).",
            "[WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with "
              "training with local resources only.",
            "[WARNING]  async_io requires the dev libaio .so object and headers but these were not "
              "found.",
            "(raylet) Spilled 2300 MiB, 25 objects, write throughput 900 MiB/s."),
        why="How ranks find each other and their devices: defaults of the launcher, IPv4, NCCL's "
            "own transports, one node, Ray's object store on the disk. Ranks wait for the slowest "
            "one; only a timeout is a failure.",
        fix="", role="harmless", sources=("torch-run",),
    ),
    Cause(id="cuda-asynchronous-advice",
        messages=(r"CUDA kernel errors might be asynchronously reported",),
        examples=("CUDA kernel errors might be asynchronously reported at some other API call, so "
              "the stacktrace below might be incorrect.",),
        why="Advice that belongs to an error.",
        fix="", role="harmless", sources=("torch-cuda-semantics",),
    ),
    Cause(id="notices-of-replicas",
        messages=(r"Grad strides do not match bucket view strides",
            r"find_unused_parameters=True was specified in DDP constructor, but did not find any "
              r"unused",
            r"Was asked to gather along dimension 0, but all input tensors were scalars"),
        examples=("UserWarning: Grad strides do not match bucket view strides. This may indicate "
              "grad was not created according to the gradient layout contract",
            "Warning: find_unused_parameters=True was specified in DDP constructor, but did not "
              "find any unused parameters in the forward pass.",
            "UserWarning: Was asked to gather along dimension 0, but all input tensors were "
              "scalars; will instead unsqueeze and return a vector."),
        why="DDP copies such gradients, or looks for unused parameters: it costs a little time. "
            "DataParallel returns one loss per GPU: take its mean().",
        fix="", role="harmless", sources=("torch-gather",),
    ),
    Cause(id="optimizer-step-wrapped",
        messages=(r"Seems like `optimizer\.step\(\)` has been overridden after learning rate "
              r"scheduler",),
        examples=("UserWarning: Seems like `optimizer.step()` has been overridden after learning "
              "rate scheduler initialization.",),
        why="A library wrapped the optimizer; the order of the calls is right.",
        fix="", role="harmless", sources=("torch-lr-scheduler",),
    ),
    Cause(id="array-not-writable",
        messages=(r"The given NumPy (?:array|array is) ?(?:is )?not writ",),
        examples=("UserWarning: The given NumPy array is not writable, and PyTorch does not "
              "support non-writable tensors.",),
        why="The tensor shares read-only memory; copy the array if you write into it.",
        fix="", role="harmless", sources=("torch-docs",),
    ),
)  # fmt: skip
