"""Lines that are harmless by themselves and, where something failed, say why: settings and
warnings above the failure. Each names in `explains` what it is the reason of."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

NO_LABELS = (
    "loss-nonfinite", "loss-zero-gradnorm-nan", "gradient-nonfinite", "loss-plateau",
    "stopped-at-nan",
)  # fmt: skip
DIVERGED = ("loss-divergence", "loss-spike", "loss-nonfinite", "gradient-nonfinite")
WAITED = ("nccl-timeout", "rendezvous-timeout", "peer-lost")
SET = r"['\"]?(?: \.{2,80} | {0,4}[=:] {0,4})"
"""Between the name of a setting and its value: Megatron's dots, a dictionary, an argument."""

ROWS = (
    Cause(
        id="answer-template-not-found",
        refines=("division-by-zero",),
        messages=(
            r"Could not find (?:response|instruction) key",
            r"[Aa]ll labels (?:in your dataset )?are (?:-100|masked|ignored)",
        ),
        examples=(
            "UserWarning: Could not find response key `### Answer: ` in the following instance: "
            "<s>### Question: a ### Answer: b</s> This instance will be ignored in loss "
            "calculation.",
            "ZeroDivisionError: Unsloth: All labels in your dataset are -100. Training losses will "
            "be all 0.",
        ),
        why="The template that marks the answer is not found in the tokenized text, so every label "
        "is -100 and the loss is a mean of nothing: NaN or 0. A trailing space or newline, or a "
        "template that is tokenized alone, gives other tokens than the same text within a sample; "
        "the template of another model's chat format is not in the text at all.",
        fix="Give the template as it stands in the text (compare it with a printed sample and with "
        "the chat format of this model), without the space or newline at its end, "
        "or its token ids as they are within a sample (tokenizer.encode(context + template)[2:]). "
        "Check one batch before training: (batch['labels'] != -100).any(dim=1).all(). An answer "
        "that max_length cuts off is masked as well. The learning rate and the precision are not "
        "the reason.",
        role="condition",
        explains=NO_LABELS,
    ),
    Cause(
        id="answers-empty",
        messages=(
            r"(?<![\d,.])[1-9][\d,]{0,12} (?:of (?:the )?[\d,]{1,14} )?(?:training )?(?:records|"
            r"samples|examples|rows|conversations) (?:have|has|with) (?:an? )?(?:empty|no|zero) "
            r"(?:assistant|answer|response|completion|target|label|output|loss)",
        ),
        examples=("WARNING: 37 of 412,906 records have an empty assistant turn (kept)",),
        why="Samples without an answer are in the data: a mean over their tokens of loss is a "
        "division by zero.",
        fix="Drop the samples without a token of loss before the training, and divide the loss by "
        "max(tokens, 1). If it comes back without them, examine the node of the named rank.",
        role="condition",
        explains=("loss-nonfinite", "gradient-nonfinite", "stopped-at-nan"),
    ),
    Cause(
        id="nothing-trainable",
        code="LOG084",
        title="Parameters are left to train",
        messages=(
            r"(?<![\w-])(?<![Nn]on )(?:[Nn]umber of |[Tt]otal )?[Tt]rainable (?:params|"
            r"parameters|weights)\s{0,4}[:=]"
            r"\s{0,4}0(?:\.0{1,4})?\s{0,2}(?:M|B|/|%|\(|\|\||of\b|,? ?[Aa]ll\b|$)",
            r"\b0(?:\.0{1,3} ?[MBK])? {1,12}Trainable params",
        ),
        examples=(
            "trainable params: 0 || all params: 6,738,415,616 || trainable%: 0.0",
            "Number of trainable parameters = 0",
            "0         Trainable params",
        ),
        why="No parameter requires a gradient: what is printed as a loss changes with the batches "
        "alone.",
        fix="Load an adapter with is_trainable=True, name target_modules that the model has, and "
        "freeze the base before the adapter is added, not after.",
        role="warning",
        sources=("peft-lora",),
        explains=("loss-plateau", "element0-no-grad", "uncaught-exception"),
    ),
    Cause(
        id="one-class-predicted",
        messages=(
            r"UndefinedMetricWarning: (?:Precision|Recall|F-score)[^\n]{0,60} ill-defined|No "
            r"positive "
            r"(?:samples|predictions|class) (?:found |were found |predicted )?in",
        ),
        examples=(
            "UndefinedMetricWarning: Precision is ill-defined and being set to 0.0 in labels with "
            "no predicted samples.",
        ),
        why="No sample is predicted to be of some class.",
        fix="Count the predictions of each class. Where one class takes all: weights per class or "
        "a balanced sampler, a lower learning rate, a threshold below 0.5 for a rare class, and a "
        "split that holds all classes.",
        role="condition",
        explains=("evaluation-stands-still",),
        sources=("fnr-diagnosis",),
    ),
    Cause(
        id="bridge-chosen",
        messages=(
            r"Bootstrap ?: Using (?:\[\d\])?(?:docker\d|br-\w|virbr\d|veth\w|tun\d|tailscale\d|"
            r"wg\d|zt\w|podman\d|cni\d|flannel|cali\w|lxc)",
        ),
        examples=("node1:88:88 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>",),
        why="NCCL chose a bridge or a tunnel of this host for its first connections. It has the "
        "same address on every host or is not reachable from the others, so a rank of another node "
        "connects to itself and is refused.",
        fix="Name the interface that the nodes share, on every node: export "
        "NCCL_SOCKET_IFNAME=eth0 (the one with the address of MASTER_ADDR), or leave the bridges "
        "out: NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-. The same for GLOO_SOCKET_IFNAME.",
        owner=Owner.ENVIRONMENT,
        commands=("ip -brief address", "export NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-"),
        role="condition",
        explains=("network-interface-wrong", "nccl-system-error", *WAITED),
        sources=("nccl-troubleshooting",),
    ),
    Cause(
        id="loopback-chosen",
        messages=(
            r"Bootstrap ?: Using (?:\[\d\])?lo:|"
            r"(?:NCCL|GLOO|TP)_SOCKET_IFNAME(?: set by environment to |['\"]?\s?[=:]\s?['\"]?=?)"
            r"lo(?![\w,])",
        ),
        examples=(
            "NCCL INFO NCCL_SOCKET_IFNAME set by environment to lo",
            "export GLOO_SOCKET_IFNAME=lo",
        ),
        why="A rank offers the address of its loopback, 127.0.0.1, which no other node reaches.",
        fix="Across nodes unset NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, or name the interface "
        "that the nodes share, on every node: export NCCL_SOCKET_IFNAME=eth0 (the one with the "
        "address of MASTER_ADDR). Look in scripts and images for what sets it to lo.",
        owner=Owner.ENVIRONMENT,
        commands=("ip -brief address", "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME"),
        role="condition",
        explains=("network-interface-wrong", "nccl-system-error", "rendezvous-timeout"),
        sources=("nccl-troubleshooting",),
    ),
    Cause(
        id="libdevice-not-found",
        messages=(r"libdevice not found at|Can't find libdevice directory",),
        examples=(
            "libdevice not found at ./libdevice.10.bc [Op:__inference_one_step_on_data_1]",
            "Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.",
        ),
        why="XLA compiles the step for the GPU and does not find libdevice.10.bc, which is in "
        "nvvm/libdevice of CUDA and not in the driver.",
        fix="Install the compiler's files in the environment (pip install 'tensorflow[and-cuda]', "
        "or conda install -c nvidia cuda-nvcc), and name the directory that has nvvm/libdevice: "
        "export XLA_FLAGS=--xla_gpu_cuda_data_dir=DIRECTORY. Or train without XLA: "
        "model.compile(jit_compile=False).",
        owner=Owner.ENVIRONMENT,
        commands=("find / -name libdevice.10.bc",),
        role="condition",
        explains=("uncaught-exception",),
    ),
    Cause(
        id="link-went-down",
        messages=(r"Got async event ?: ?port error|IBV_EVENT_PORT_ERR",),
        examples=("NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",),
        why="The InfiniBand or RoCE port that the line names lost its link while the job ran.",
        fix="Take the node out, and examine the port: cable or transceiver, the switch's port, "
        "symbol errors and link-downed counters. Resume elsewhere from the last checkpoint.",
        owner=Owner.MACHINE,
        retry="node",
        commands=("ibstat", "perfquery -x", "rdma link show"),
        role="condition",
        passing=True,
        explains=("nccl-error", *WAITED),
        sources=("nccl-troubleshooting",),
    ),
    Cause(
        id="kernel-too-old",
        sources=("accelerate-kernel",),
        messages=(r"Detected kernel version \d\S{1,20}, which is below the recommended minimum",),
        examples=(
            "Detected kernel version 5.4.0, which is below the recommended minimum of 5.5.0; this "
            "can cause the process to hang.",
        ),
        why="accelerate warns that processes may hang on a Linux kernel below 5.5.",
        fix="Run on a newer kernel (an image of the host with 5.15 or newer); until then look at "
        "where the ranks wait: py-spy dump --pid.",
        owner=Owner.MACHINE,
        role="condition",
        explains=("nccl-timeout",),
    ),
    Cause(
        id="data-ended-early",
        messages=(
            r"(?<!unexpected )\bend of (?:the )?(?:shards?|dataset|data|stream)\b",
            r"(?:[Dd]ata(?:[Ll]oader|set| iterator)?|iterator|stream|shards?) (?:is |are |was )?"
            r"exhausted|[Rr]an out of (?:data|samples|batches)",
            r"[Rr]ank[ =:_]?\d{1,5}\b[^\n]{0,60}[Ee]poch \d{1,5} (?:finished|done|completed?|ended|"
            r"over)\b[^\n]{0,20}\b\d{1,9} (?:batches|steps|iterations)",
        ),
        examples=(
            "[rank 3] INFO asr.data: end of shards after 18371 batches",
            "[rank1] WARNING data iterator exhausted at step 412",
            "INFO rank 2: epoch 1 finished after 1201 batches",
        ),
        why="A rank reached the end of its data while others had batches left: it goes on to the "
        "next collective (validation, saving) and they wait for its gradients.",
        fix="Give every rank the same number of batches: DistributedSampler with drop_last, shards "
        "of one size, a limit at the least number (all_reduce with MIN before the epoch), an "
        "endless stream with a fixed number of steps, or the Join context of DDP. A longer timeout "
        "does not help.",
        role="condition",
        passing=True,
        explains=("nccl-timeout",),
        sources=("torch-distributed-debug",),
    ),
    Cause(
        id="environment-not-activated",
        messages=(
            r"CondaError: Run 'conda init' before 'conda activate'|Your shell has not been "
            r"properly configured to use 'conda activate'|"
            r"line \d{1,6}: (?:\S{0,200}/)?(?:conda|activate|conda\.sh): (?:command not found|No "
            r"such file)",
        ),
        examples=(
            "CondaError: Run 'conda init' before 'conda activate'",
            "/var/spool/slurmd/job5/slurm_script: line 12: activate: No such file or directory",
        ),
        wordings=(
            Wording(
                r"EnvironmentNameNotFound: Could not find conda environment",
                "EnvironmentNameNotFound: Could not find conda environment: train",
                "conda has no environment of that name for this user and this installation, and "
                "the job script went on with another python, which lacks the packages.",
                "Take a name or a path that conda env list shows (conda activate PATH works as "
                "well), or create the environment, and begin the script with set -e, so that it "
                "ends there.",
                ("conda env list",),
            ),
        ),
        why="The job script could not activate its environment, and went on with the python of the "
        "shell, which lacks the packages.",
        fix="Activate it in a way that a batch shell knows: source "
        "~/miniconda3/etc/profile.d/conda.sh && conda activate NAME (or conda run -n NAME python "
        "train.py, or the path of the environment's python), and begin the script with set -e, so "
        "that it ends there.",
        role="condition",
        explains=("import-failed", "pip-refuses"),
    ),
    Cause(
        id="no-batch-formed",
        messages=(
            r"Num examples = 0\b|Total optimization steps = 0\b",
            r"(?:data_?loader_len|steps_per_epoch|total_num_steps|num_batches|num_train_examples|"
            r"num_train_samples|dataset_size|dataset_length)['\"]?(?: after \w{1,20})?"
            r"\s?[:=]\s?0(?![.\d])",
        ),
        examples=(
            "***** Running training *****   Num examples = 0",
            "[INFO] [axolotl.calculate_total_num_steps] data_loader_len: 0",
        ),
        why="Not one batch was formed: there are fewer samples or tokens than a batch or a pack "
        "takes (sample packing, drop_last, the ranks), or a filter removed all of them.",
        fix="Use more data, or turn sample packing off (also for the evaluation), shorten "
        "sequence_len, lower the batch size or pass drop_last=False; look at what filters and the "
        "length limit drop. Delete the prepared data set (last_run_prepared, the datasets cache) "
        "after the change.",
        role="condition",
        passing=True,
        explains=("division-by-zero", "dataset-empty", "checkpoint-damaged", "index-of-list"),
    ),
    Cause(
        id="optimizer-begins-anew",
        messages=(
            r"optimizer state(?: was| is)? not (?:found|loaded|restored|in the checkpoint)|fresh "
            r"optimizer\b|[Nn]o optimizer state|without optimizer state|skipping optimizer state|"
            r"unable to load optimizer|['\"]optimizer['\"] (?:is )?not in (?:the )?checkpoint|"
            r"optimizer\.pt (?:not found|is missing)|no_load_optim\s?"
            r"\.{2,60} True",
        ),
        examples=("optimizer state not found in the checkpoint, starting with a fresh optimizer",),
        why="The run continued from a checkpoint without the state of its optimizer: the moments "
        "begin at 0 while the learning rate is in the middle of its schedule, so that the first "
        "steps are far too large.",
        fix="Save and load optimizer, schedule, scaler and the position in the data with the "
        "weights (save_only_model=False, resume_from_checkpoint). Where the state is lost, start "
        "with a warm-up of some hundred steps from the last checkpoint.",
        role="condition",
        explains=(*DIVERGED, "schedule-begins-anew"),
    ),
    Cause(
        id="host-memory-nearly-full",
        messages=(
            r"CPU Virtual Memory: {1,4}used = [\d.]{1,12} GB, percent = (?:8[5-9]|9\d|100)\b",
        ),
        examples=("CPU Virtual Memory:  used = 471.06 GB, percent = 93.7%",),
        why="DeepSpeed prints the memory of the host, which was nearly full shortly before: the "
        "kernel killed a process for it. With an offloaded optimizer the fp32 weights, momenta and "
        "variances (12 bytes for each parameter) and gradients lie there, on all nodes together.",
        fix="Give the job more host memory or more nodes, offload to NVMe "
        "(offload_optimizer.device: nvme), shard over more GPUs without offload, or train an "
        "adapter or with an 8-bit optimizer. estimate_zero3_model_states_mem_needs_all_live of "
        "DeepSpeed gives the need; dmesg -T shows oom-kill if it was that.",
        owner=Owner.ENVIRONMENT,
        commands=("sudo dmesg -T | grep -iE 'killed process|oom'", "free -h"),
        role="condition",
        passing=True,
        explains=("killed-sigkill",),
    ),
    Cause(
        id="gpu-lowers-clock",
        messages=(
            r"(?:HW|SW)[ _](?:Thermal|Power Brake)?[ _]?Slowdown\s{0,30}:? ?Active|"
            r"reasons\.active=0x\w{1,16} \([^)]{0,80}(?:HW Slowdown|(?:HW|SW) Thermal Slowdown)|"
            r"[hs]w_(?:thermal|power_brake)?_?slowdown\s?[:=]\s?(?:Active|True|1\b)|"
            r"[Tt]hermal throttl\w{1,6} (?:active|detected)",
        ),
        examples=("    HW Thermal Slowdown                   : Active",),
        why="The driver reports that a GPU lowers its clock for heat or power.",
        fix="Look at the cooling and the power of that node, and leave it out until then.",
        owner=Owner.MACHINE,
        retry="node",
        commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE",),
        role="condition",
        explains=("throughput-falling", "nccl-timeout"),
        sources=("thermal-throttling",),
    ),
    Cause(
        id="one-rank-prepares-data",
        messages=(
            r"Running tokenizer on (?:\w{1,20} )?dataset|Tokenizing (?:\w{1,20} )?dataset|"
            r"Generating (?:train|validation|test) split",
            r"\b(?:Map|Filter|[A-Z]\w{4,20}ing)\b[^|\n]{0,60}: {1,4}\d{1,2}%\|[^\n]{0,160}"
            r"\[(?:[1-9]\d:\d\d|\d{1,3}:\d\d:\d\d)<[^\n]{0,40}examples/s",
        ),
        examples=(
            "Map:  56%|#####6    | 119600/212000 [29:11<22:30, 66.49 examples/s]",
            "Running tokenizer on dataset:  45%|####5     | 450/1000 [30:00<36:00]",
        ),
        why="One rank prepares the data, and the others wait for it in a collective until the "
        "limit.",
        fix="Prepare the data before the training, in a run of its own whose cache the training "
        "reads (datasets caches map; num_proc makes it faster), or raise the limit: "
        "ddp_timeout=7200 of the TrainingArguments, "
        "init_process_group(timeout=timedelta(hours=2)).",
        role="condition",
        passing=True,
        explains=("nccl-timeout", "rendezvous-timeout"),
    ),
    Cause(
        id="completions-cut-off",
        messages=(r"clip(?:ped)?_ratio['\"]?:? ?(?:1\.0|0\.9[5-9])",),
        examples=("{'loss': 0.0, 'completions/clipped_ratio': 1.0, 'reward': 0.0}",),
        why="Nearly every completion reaches the length limit and is cut off before its answer.",
        fix="Raise max_completion_length (max_response_length), or make answers shorter (thinking "
        "switched off, a prompt that asks for it); mask_truncated_completions leaves such ones out "
        "of the loss. If completions should have ended, check that the tokenizer's eos token is "
        "the one that the chat template writes.",
        role="condition",
        explains=("rewards-alike",),
    ),
    Cause(
        id="gradients-accumulated",
        messages=(
            rf"[Gg]radient[_ ][Aa]ccumulation[_ ]steps{SET}(?P<steps>[1-9]\d{{0,3}})(?![.\d])",
        ),
        examples=("  Gradient Accumulation steps = 16",),
        why="The gradients of several micro-batches are summed before a step.",
        fix="Update transformers: 4.46 and 4.47 do not divide by the steps where the model's "
        "forward does not take num_items_in_batch. In any release a forward of your own that takes "
        "**kwargs must divide by num_items_in_batch, or its class sets accepts_loss_kwargs = "
        "False; a loop of your own divides the loss by gradient_accumulation_steps. Then run "
        "again: gradients that are too large as the loss is make clipping act at every step.",
        role="condition",
        explains=("loss-summed",),
        sources=("transformers-37766",),
    ),
)
