"""Further conditions: what was going on, or was configured, where something failed."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause
from doctor.errors.tables.conditions import DIVERGED

ROWS = (
    Cause(
        id="factor-is-zero",
        messages=(
            r"(?:DPO|KTO|ORPO|CPO|IPO|BCO)Config\([^\n]{0,400}\bbeta=0(?:\.0{1,4})?(?![\w.])|"
            r"\b(?:pref_beta|dpo_beta|kto_beta|simpo_beta)['\"]?\s?[:=]\s?0(?:\.0{1,4})?(?![\w.])",
            r"(?<!\w)beta['\"]?\s?[:=]\s?0(?:\.0{1,4})?(?![\w.])[^\n]{0,200}\bloss_type|loss_type"
            r"[^\n]{0,200}(?<!\w)beta['\"]?\s?[:=]\s?0(?:\.0{1,4})?(?![\w.])",
            r"lora_alpha['\"]?\s?[:=]\s?0(?:\.0)?(?![\w.])|(?<![\w.])(?:loss_weight|loss_coef\w{0,8}|"
            r"\w{2,20}_loss_(?:weight|coef\w{0,8}))['\"]?\s?[:=]\s?0(?:\.0)?(?![\w.])",
        ),
        examples=(
            "DPOConfig(beta=0.0, learning_rate=1e-6, max_length=1024)",
            "{'beta': 0.0, 'loss_type': 'sigmoid'}",
            "lora_alpha: 0",
        ),
        why="A factor of the loss, or of the adapter, is 0 in the configuration above: everything "
        "that it multiplies is 0, and with it the gradients.",
        fix="Set it to its usual value: beta 0.1 (0.01 to 0.5) for DPO and its relatives, whose "
        "implicit rewards it multiplies; lora_alpha = r or 2 r; a weight above 0 for the loss "
        "that is to be trained.",
        role="condition",
        explains=("loss-plateau",),
    ),
    Cause(
        id="layers-in-fp8",
        messages=(
            r"Swapped to \w{0,12}Float8\w{0,10} layers|[Ff]loat8 training active|"
            r"fp8_(?:format|recipe)['\"]?\s?[:=]\s?\w|mixed_precision['\"]?\s?[:=]\s?['\"]?fp8|"
            r"converters?=float8",
        ),
        examples=("Swapped to Float8Linear layers with recipe rowwise",),
        why="Layers compute in fp8, mostly compiled: both change the numbers, and a defect of a "
        "release shows as a loss that does not fall or becomes NaN.",
        fix="Repeat the first steps with the same seed and batches twice: without torch.compile, "
        "then without fp8. If the loss is sound in one of them, that part is at fault: take a "
        "stable release of torch and torchao (not a nightly), leave sensitive layers (norms, the "
        "head, the first and last blocks) out of it, or another recipe (tensorwise). If it fails "
        "in all, look at data and learning rate.",
        role="condition",
        explains=DIVERGED,
        sources=("torch-compile-ablation",),
    ),
    Cause(
        id="started-without-srun",
        messages=(r"The `?srun`? command is available on your system but is not used",),
        examples=(
            "The `srun` command is available on your system but is not used. HINT: If your "
            "intention is to run Lightning on SLURM, prepend your python command with `srun`",
        ),
        why="The script was started with python in the batch script: only the processes of the "
        "first node exist, and they wait for those of the others, which nothing starts.",
        fix="Start it with srun, one task per GPU: #SBATCH --nodes=N, --ntasks-per-node=GPUS, then "
        "srun python train.py with num_nodes=N and devices=GPUS. With torchrun: one task per node "
        "(srun --ntasks-per-node=1 torchrun --nnodes=N ...).",
        role="condition",
        explains=("rendezvous-timeout", "nccl-timeout"),
        sources=("lightning-slurm",),
    ),
    Cause(
        id="saved-at-that-time",
        messages=(
            r"(?:[Ss]aving|[Gg]athering|[Cc]onsolidating|[Mm]erging|[Ee]xporting) (?:the )?"
            r"(?:(?:final|full|whole|trained|pre-trained|consolidated|merged|best|sharded) ){0,3}"
            r"(?:model|weights|parameters|state[_ ]dict|checkpoint)\b",
            r"state_dict_type['\"]?\s?[:=]\s?['\"]?FULL_STATE_DICT",
        ),
        examples=(
            "Training Completed!!! Saving pre-trained model to ./out405",
            "fsdp_state_dict_type: FULL_STATE_DICT",
        ),
        why="The model was being saved: a full state dict gathers all weights (and the optimizer's "
        "state) in the host memory of one rank, or of every rank of a node at once.",
        fix="Save shards, which need no more memory than each rank has, and join them afterwards: "
        "SHARDED_STATE_DICT for FSDP (accelerate merge-weights, merge_fsdp_weights), torch's "
        "distributed checkpoint, zero_to_fp32.py for ZeRO-3 "
        "(stage3_gather_16bit_weights_on_model_save: false). If one file must be written, let rank "
        "0 alone offload it (rank0_only) and give its node the memory for all weights; where the "
        "others wait for it longer than their limit, raise that (ddp_timeout, timeout= of "
        "init_process_group).",
        role="condition",
        passing=True,
        explains=("killed-sigkill", "host-out-of-memory", "nccl-timeout"),
    ),
    Cause(
        id="parameters-gathered-on-demand",
        messages=(
            r"partitioned_param_coordinator\.py|deepspeed/runtime/zero/parameter_offload\.py",
            r"fsdp/_fully_shard/_fsdp_(?:param_group|state)\.py|fsdp/_unshard_utils|"
            r"fsdp/_runtime_utils\.py",
        ),
        examples=(
            "    __all_gather_params (deepspeed/runtime/zero/partitioned_param_coordinator.py:519)",
            "    wait_for_unshard (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:362)",
        ),
        why="A rank waits while it gathers the parameters of a module. ZeRO-3 and FSDP gather each "
        "module when it runs, so all ranks must run the same modules in the same order: experts "
        "that got tokens on one rank only, an image encoder for a batch without images, a branch "
        "that depends on the data, or generation that ends earlier break that.",
        fix="Make every rank run the same modules. For a mixture of experts mark its block as one "
        "unit: deepspeed.utils.set_z3_leaf_modules(model, [Qwen3MoeSparseMoeBlock]) (the class of "
        "your model), or wrap the whole block, not single experts, with FSDP. For optional parts "
        "run them on a dummy input times 0. For generation pass synced_gpus=True. A longer timeout "
        "does not help.",
        role="condition",
        explains=("nccl-timeout",),
    ),
    Cause(
        id="model-is-split",
        messages=(
            r"(?:tensor|context|sequence|pipeline)[-_ ](?:model[-_ ])?parallel(?:[-_ ]size)?['\"]?"
            r"(?:\s?[:=]\s?|\s\.{2,60}\s)(?:[2-9]|[1-9]\d)\b|\b(?:tp_size|tensor_parallel|"
            r"cp_size|tensor_parallel_degree)['\"]?\s?[:=]\s?(?:[2-9]|[1-9]\d)\b",
        ),
        examples=("using world size: 32, data-parallel size: 8, tensor-model-parallel size: 4",),
        why="Several ranks hold parts of one model and see the same samples.",
        fix="Compare the losses of ranks with another index of data parallelism.",
        role="condition",
    ),
    Cause(
        id="samples-packed",
        messages=(
            r"(?:sample_|neat_)?packing['\"]?\s?[:=]\s?['\"]?(?:[Tt]rue|bfd|wrapped)|"
            r"Packing (?:\w{1,20} ){0,2}dataset|Grouping texts|group_texts|"
            r"packed (?:sequences|samples|dataset)",
        ),
        examples=("sample_packing: true", "Packing train dataset: 100%|####| 9000/9000"),
        why="Several samples are joined to one sequence: fewer examples are trained on than there "
        "are samples.",
        fix="Compare the numbers of tokens in place of those of examples.",
        role="condition",
    ),
    Cause(
        id="training-resumed",
        messages=(
            r"(?:[Rr]esuming|[Rr]esumed|[Rr]estoring|[Rr]estored|[Cc]ontinuing|[Cc]ontinued):? "
            r"(?:\w{1,20} ){0,5}(?:from|at|with) [^\n]{0,40}"
            r"(?:checkpoint|ckpt|step|epoch|iter|\.pt|last)",
            r"^\W{0,4}(?:\[[^\]]{1,40}\] ?)?[Rr]esum(?:ing|ed) (?:training )?(?:from|checkpoint)\b",
            r"[Ll]oaded [^\n]{0,80}(?:optimizer|checkpoint|ckpt/)[^\n]{0,80}"
            r"(?:step|iteration|epoch)[ =:_]{0,3}\d",
        ),
        examples=(
            "Resuming training from checkpoint-4000",
            "[resume] loaded weights and optimizer from runs/v3/last.ckpt (global_step 48000)",
        ),
        why="The run goes on from a checkpoint.",
        fix="Restore weights, optimizer, schedule, scaler and the position in the data together.",
        role="condition",
    ),
    Cause(
        id="keys-not-matched",
        messages=(
            r"\b[Mm]issing(?:[_ ]key(?:s|\(s\))?)?\W{0,4}[1-9]\d{0,5}\b[^\n]{0,30}\b[Uu]nexpected"
            r"(?:[_ ]key(?:s|\(s\))?)?\W{0,4}[1-9]\d{0,5}\b",
            r"\b[1-9]\d{0,5} missing\b[^\n]{0,30}\b[1-9]\d{0,5} unexpected\b",
        ),
        examples=(
            "load_state_dict(strict=False): missing 149 unexpected 149",
            "loaded with 149 missing and 149 unexpected keys",
        ),
        why="Keys of the model are not in the checkpoint, and keys of the checkpoint are not in "
        "the model: they have other names, and strict=False loads the model without them.",
        fix="Load the weights under the names of the model, with strict=True: print some of the "
        "missing and unexpected keys beside each other (doctor scan FILE lists those of the "
        "checkpoint), and remove the prefix in which they differ (module. of DDP, _orig_mod. of "
        "torch.compile, model.). Go back to the last "
        "checkpoint from before this resume: later ones began with random weights.",
        role="condition",
        explains=("loss-lost-at-resume",),
        sources=("pytorch-3805",),
    ),
    Cause(
        id="more-workers-than-cores",
        messages=(r"This DataLoader will create \d{1,4} worker processes in total",),
        examples=(
            "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested "
            "max number of worker in current system is 2",
        ),
        why="The process may use fewer cores than it has loader workers, which share them: more "
        "workers do not prepare more data.",
        fix="Give the process more cores, as many as it has workers: --cpus-per-task (Slurm, also "
        "of srun), resources.limits.cpu, a launcher that does not pin each rank to one core "
        "(--cpu-bind=none, OMP_PROC_BIND=false). nproc and the last number of the warning say how "
        "many it has. Where the machine has no more, make samples cheaper: decoded or smaller "
        "data, transforms on the GPU.",
        commands=("nproc", "taskset -cp $$"),
        owner=Owner.ENVIRONMENT,
        role="condition",
        explains=("waits-for-data", "throughput-falling"),
        sources=("torch-dataloader",),
    ),
    Cause(
        id="many-processes-map",
        messages=(r"num_proc['\"]?[=:] ?(?:6[4-9]|[7-9]\d|[1-9]\d{2,3})\b",),
        examples=("Running tokenizer on dataset (num_proc=512):   3%|#4   | 1200/40000",),
        why="So many processes prepare the data at once; each holds the tokenizer, its batch and "
        "a copy of what the parent had loaded.",
        fix="Lower num_proc (preprocessing_num_workers) to the cores of the job or fewer, 8 to 32, "
        "and batch_size and writer_batch_size of map for long samples; prepare the data before "
        "the model is loaded.",
        role="condition",
        explains=(
            "killed-sigkill",
            "host-out-of-memory",
            "worker-ended-early",
            "dataloader-worker-killed",
        ),
    ),
    Cause(
        id="meeting-host-unresolved",
        messages=(r"network addresses? of .{0,120} cannot be retrieved \(gai error",),
        examples=(
            "[W socket.cpp:462] [c10d] The IPv6 network addresses of (job-master-0, 23456) cannot "
            "be retrieved (gai error: -2 - Name or service not known).",
        ),
        why="The name of the host where all ranks meet has no address on this node or in this pod: "
        "it is misspelt, has no service or DNS entry, or that host has not started yet.",
        fix="Make MASTER_ADDR (--rdzv-endpoint) a name that every node resolves, or an address. "
        "Kubernetes: a headless Service with the pod's subdomain, in the same namespace, with "
        "publishNotReadyAddresses. Check with getent hosts NAME, and that the first rank runs.",
        commands=('getent hosts "$MASTER_ADDR"',),
        owner=Owner.ENVIRONMENT,
        role="condition",
        explains=("rendezvous-timeout",),
    ),
    Cause(
        id="shards-of-other-sizes",
        sources=("torch-dcp-planner",),
        messages=(
            r"Size mismatch between saved (?P<about>torch\.Size\(\[[\d, ]{0,60}\]\)) and "
            r"(?![^\n]{0,120}(?:embed|wte|lm_head|output|_extra_state))",
        ),
        examples=(
            "ValueError: Size mismatch between saved torch.Size([4096, 4096]) and current: "
            "torch.Size([5120, 5120]) for layers.0.attention.wq.weight",
        ),
        why="The distributed checkpoint is of a model of other sizes (the first shape is the one "
        "that is stored): often that of an earlier run in the same directory, from which the "
        "trainer resumes by itself.",
        fix="For a new run name an empty directory of checkpoints. To go on with the old one, set "
        "what the tensor's name shows (vocabulary and tokenizer, hidden size, layers) back to the "
        "stored shape.",
        role="condition",
        explains=("checkpoint-of-other-keys",),
    ),
    Cause(
        id="same-batches-on-purpose",
        messages=(
            r"You requested to overfit|\boverfit_batches['\"]?\s?[:=]\s?(?!0(?:\.0)?\b)[\d.]",
        ),
        examples=("You requested to overfit but enabled train dataloader shuffling.",),
        why="A switch for tests lets every epoch train on the same few batches.",
        fix="Remove overfit_batches (also limit_train_batches, fast_dev_run) from the Trainer: all "
        "epochs saw the same batches, and nothing of the other data was learned.",
        role="condition",
        explains=("evaluation-rises",),
    ),
)
