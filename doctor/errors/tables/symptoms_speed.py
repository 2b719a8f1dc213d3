"""Symptoms of speed, memory and waiting, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="gpu-slows-by-heat",
        words=(
            "throttl|thermal|overheat",
            "clock|clocks|mhz @fall|low|lower|slow gpu|sm$|card|temperature|hot|heat|training",
            "temperature|hot|heat|degrees|80c|83c|85c|86c|87c|88c|89c|90c|91c|95c gpu|card|"
            "training slow|slower|slows|drop|drops|clock|hot|high",
        ),
        examples=(
            "GPU throttles during training",
            "clock drops when the card is hot",
        ),
        why="The GPU lowers its clock because of heat or a limit of power.",
        fix="nvidia-smi -q -d PERFORMANCE names the reason. Heat: free the air flow, fans, dust, "
            "distance between cards, a lower power limit (nvidia-smi -pl), which costs little. "
            "Power: the limit, the supply and its cables.",
        role="symptom",
        commands=("doctor run --only GPU003,GPU004", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE",),
    ),
    Cause(id="busy-but-slow",
        words=(
            "util|utilization|utilisation 100|99|full slow|slower|watt|watts|power",
        ),
        examples=(
            "GPU utilization is 100% but training is slow",
        ),
        why="Utilization only says that some kernel ran: small ones, waiting in a collective, "
            "memory-bound or fp32 work all show 100 %.",
        fix="Look at the power (near its limit means work) and profile ten steps. Then bf16 or "
            "TF32, larger batches, a fused attention, torch.compile; with several GPUs the links.",
        role="symptom",
        commands=("doctor run --only GPU005,SMK010", "doctor lint train.py",),
    ),
    Cause(id="hangs-at-first-collective",
        words=(
            "@hang start|begin|beginning|init|first|launch|setup|initializ|initialization|"
            "before gpu|gpus|ddp|nccl|multi_gpu|distributed|torchrun|accelerate|"
            "init_process_group|rank|ranks !end !last",
        ),
        examples=(
            "multi-GPU training hangs at the start, one GPU works",
            "DDP is stuck at init_process_group",
        ),
        why="The ranks do not reach each other: a process did not start, peer access between the "
            "GPUs is broken (IOMMU or ACS), or NCCL chose a network interface that does not lead "
            "there.",
        fix="NCCL_DEBUG=INFO shows how far it gets. One machine: if it runs with "
            "NCCL_P2P_DISABLE=1, switch IOMMU or ACS off in the BIOS; /dev/shm of a container: "
            "--ipc=host. Several: NCCL_SOCKET_IFNAME, the same MASTER_ADDR and port on all, each "
            "rank its own GPU (LOCAL_RANK).",
        role="symptom",
        commands=("doctor run --only GPU005,GPU008", "NCCL_DEBUG=INFO torchrun ...",),
    ),
    Cause(id="host-memory-grows",
        words=(
            "ram$|cpu_memory|host_memory|system_memory|swap|swaps|memory worker|workers|"
            "num_workers|dataloader|dataset|loader|list @rise|leak|fill|swap|high|more|"
            "uses|killed|runs_out|much|eat|eats|eating|consum",
        ),
        examples=(
            "RAM usage rises during each epoch with num_workers=8",
        ),
        why="Each loader worker writes reference counts into the Python objects of the dataset "
            "and so copies them, page by page; or a cache in the dataset grows in each worker.",
        fix="Hold paths and labels in numpy arrays or an Arrow table instead of lists and dicts "
            "of Python objects; fewer workers and prefetch_factor; no unbounded cache in "
            "__getitem__.",
        role="symptom",
        commands=("doctor run --only MEM002", "doctor guard --all -- python train.py",),
    ),
    Cause(id="memory-at-evaluation",
        words=(
            "@oom|@memory @eval|inference|predict|prediction|generate during|only|but|fits|"
            "fine|at$|when|in$|after !ram !leak",
        ),
        examples=(
            "training fits but CUDA OOM during evaluation",
            "CUDA out of memory during evaluation only",
        ),
        why="Evaluation keeps more than training: all logits of the set for the metric, graphs "
            "without no_grad, a larger batch, or a cache of generation.",
        fix="with torch.no_grad() (or inference_mode) and model.eval(); a batch as in training. "
            "Trainer: eval_accumulation_steps=1 to 20, preprocess_logits_for_metrics with argmax, "
            "prediction_loss_only=True where no metric needs logits.",
        role="symptom", refines=("gpu-full-or-in-use",),
        commands=("doctor lint train.py", "doctor guard --all -- python train.py",),
    ),
    Cause(id="memory-of-longest-sample",
        words=(
            "@oom|@memory random|middle|sometimes|occasional|occasionally|some_batch|"
            "some_batches|certain|suddenly|unpredictab|long_sequence|long_sequences !@eval "
            "!leak !zero",
            "@oom|@memory length|lengths|sequence|sequences vary|varies|variable|varying|"
            "different|long !@eval",
        ),
        examples=(
            "OOM at a random step in the middle of the epoch",
            "CUDA out of memory in the middle of the epoch",
        ),
        why="The batch with the longest sample decides the peak, not the first steps.",
        fix="Cap the length (max_length, truncation), form batches by tokens or group by length, "
            "and run the longest batch first, so that it fails at once. "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against pieces of memory.",
        role="symptom", refines=("gpu-full-or-in-use",),
        commands=("doctor lint train.py", "doctor run --params 7B --batch-size 1",),
    ),
    Cause(id="first-gpu-fuller",
        words=(
            "gpu_0|gpu0|cuda:0|first_gpu|rank_0|one_gpu|device_0 more|much|all|other|full|"
            "extra|most @memory|process|processes|usage|used|oom",
        ),
        examples=(
            "GPU 0 uses much more memory than the others",
            "CUDA out of memory on GPU 0, the other GPUs have room",
        ),
        why="Every rank opens a context on GPU 0: set_device is missing, a checkpoint is loaded "
            "without map_location, or empty_cache and .cuda() are called before it. "
            "nn.DataParallel also gathers outputs there.",
        fix="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before anything of CUDA; "
            "torch.load(..., map_location='cpu'); DistributedDataParallel instead of "
            "DataParallel. nvidia-smi then shows one process for each GPU.",
        role="symptom", refines=("gpu-full-or-in-use",),
        commands=("doctor lint train.py", "nvidia-smi",),
    ),
    Cause(id="process-ends-silently",
        words=(
            "kernel|notebook|jupyter|colab|process|script|program|python|training dies|"
            "died|dead|killed|crash|crashes|exits|exit|quits|disappears|closes|ends "
            "without|no_error|no_message|no_traceback|silent|silently|any_error",
            "kernel|notebook|jupyter|colab>dies|died|dead|crash|crashes|restart !reboot",
        ),
        examples=(
            "jupyter kernel dies without any error",
        ),
        why="The system ended it: host memory ran out, most often while loading data or weights; "
            "or native code crashed.",
        fix="Run it as a script: python -X faulthandler train.py, then echo $? (137: killed for "
            "memory, 139: crash), and watch free -h. Memory: smaller data in RAM, fewer workers, "
            "low_cpu_mem_usage. A crash: reinstall the package in its last frame.",
        role="symptom",
        commands=("sudo dmesg -T | tail -20", "doctor run --only MEM002",),
    ),
    Cause(id="slower-every-epoch",
        words=(
            "slower|slow$|slows|slowdown|slowing|drops every|each|gradual|progress|after|"
            "over_time|longer|as_training|during speed|training|step|steps|it/s|iteration|"
            "iterations|epoch|epochs|throughput|it$ !@memory !ram$",
            "slower_and_slower",
            "speed|throughput|it/s @fall|lower time|over|from|after|during",
            "each|every>epoch|step|iteration>longer|slower>than|before|previous|last",
        ),
        examples=("slower every epoch", "training gets slower over time"),
        why="Something grows: a graph or tensors that are kept, lists of metrics, a cache of "
            "files; or the GPU lowers its clock, or the disk's cache is used up.",
        fix="Plot memory of GPU and host beside the time per step. Growing memory is a kept graph "
            "(total += loss); constant memory is heat or data.",
        role="symptom",
        commands=("doctor guard --all -- python train.py", "doctor run --only GPU004",
            "doctor lint train.py"),
    ),
    Cause(id="first-step-slow",
        words=(
            "first|1st step|steps|batch|iteration|epoch|call slow|slower|long|longer|"
            "forever|minutes|hours",
            "startup|start_up|starting slow|long|minutes|forever",
        ),
        examples=("first step takes minutes", "the first epoch is slow"),
        why="Usually no fault: torch.compile, cuDNN's benchmark, files that are read for the "
            "first time and are in the cache later; else kernels that are built just in time for a "
            "GPU that the wheel has no code for.",
        fix="Measure from the second on. Keep the caches of Triton and inductor on a disk that "
            "survives, copy data to a local disk before; if every start is slow without compile, "
            "look whether the wheel has code for the GPU.",
        role="symptom",
        commands=("doctor run --only TOR003", "doctor run"),
    ),
    Cause(id="gpu-not-busy",
        words=(
            "gpu|gpus|utilization|utilisation util|usage|utilization|utilisation|load @bad|"
            "drop|drops|jump|fluctuat|0$|0%|idle|only|spik|between|half|zero|at$",
            "gpu|gpus idl|starv|underutil|wait|sits|not_fully|not_used",
            "dataloader|data_loader|dataloading|data_loading|loader slow|bottleneck|takes|"
            "long|limit",
            "waiting|wait data|batch|loader",
            "bottleneck data|cpu",
        ),
        examples=("low GPU utilization", "GPU usage drops to 0",
            "gpus are idling half of the time"),
        why="The GPU waits: for data, for the host (many small kernels, .item() in the loop), for "
            "other ranks, or for a checkpoint.",
        fix="Measure the time that a step waits for the loader: if it is more than a tenth, use "
            "more workers (cores per GPU minus one), persistent_workers, pin_memory, smaller "
            "decoding, larger files on a local disk; else look for synchronization in the loop.",
        role="symptom",
        commands=("doctor guard --all -- python train.py", "doctor lint train.py"),
    ),
    Cause(id="more-gpus-not-faster",
        words=(
            "gpus|multi_gpu|ddp|fsdp|nodes|multi_node|dataparallel @not|only|slower|same|"
            "little|less faster|slower|speed|scal|speedup|improvement|than_one|than_1|"
            "single !one_of !others !rest",
            "speedup|scaling @not|poor|bad|little",
            "ddp|dataparallel|data_parallel|fsdp slow|slower !hang",
            "gpus|2x|4x|8x only|just|barely>faster|speedup !compile",
        ),
        examples=("2 GPUs are slower than one", "poor scaling over nodes", "DDP is slow"),
        why="The exchange of gradients costs more than it saves: small steps, PCIe without peer "
            "access, a network that NCCL does not use, or a batch that was divided.",
        fix="Compare samples per second, not steps. Measure the links; accumulate gradients with "
            "no_sync, larger micro-batches.",
        role="symptom",
        commands=("doctor run --only GPU005,GPU007,GPU008",),
    ),
    Cause(id="slower-than-expected",
        words=(
            "slower|slow than|expected|very|too|extremely|should|so$ training|train|"
            "fine_tuning|finetuning|step|model|gpu|it$|inference|run !compile !gpus "
            "!the_others !ddp !checkpoint",
            "slower>than !compile !gpus !the_others !ddp",
            "h100|h200|b200|a100|4090|5090|gpu @not|same|barely faster|speed|slower",
        ),
        examples=("training is very slow", "slower than a A100 should be",
            "much slower than expected"),
        why="fp32 without TF32, attention that materializes its scores, a GPU that is shared or "
            "slowed by heat, a model that is on the CPU, or offloading.",
        fix="Check the device and dtype of the parameters, which attention kernel runs, and the "
            "GPU's clocks under load.",
        role="symptom",
        commands=("doctor run", "doctor prescribe", "doctor lint train.py"),
    ),
    Cause(id="compile-not-faster",
        words=(
            "compile|compiled|torch.compile slow|slower|@not|recompil faster|slower|slow|"
            "speed|eager|speedup|every|each",
            "recompil every|each|all|constant|again|step|many",
        ),
        examples=("torch.compile is slower", "recompiling every step"),
        why="Shapes change, the graph breaks in many places, or compilation was counted into the "
            "time.",
        fix="TORCH_LOGS=recompiles,graph_breaks names both; pad to fixed shapes, mark "
            "dynamic=True, measure after 50 steps.",
        role="symptom",
        commands=("doctor run --only SMK010",),
    ),
    Cause(id="training-hangs",
        words=(
            "@hang training|job|process|run|script|program|step|barrier|forever|loader|"
            "rank|ranks|epoch|progress|init|without",
            "no_output|no_progress|nothing_happens|not_progress training|job|log|hours|"
            "minutes|gpu|after|script",
            "stops|stopped|quits>progress|advanc|respond|moving training|job|it$|gpu|gpus|run",
        ),
        examples=("training hangs without an error", "stuck at init",
            "job is stuck at the barrier"),
        why="A rank waits for another: uneven data, a branch on one rank, a checkpoint from one "
            "rank, a dead process, or a deadlock of workers after fork.",
        fix="py-spy dump --pid of each rank shows where it waits: all in the same collective is "
            "the network, one elsewhere is the culprit. Dumps of the flight recorder name it.",
        role="symptom",
        commands=("doctor triage LOG_DIRECTORY", "doctor lint train.py",
            "doctor run --only GPU008"),
        sources=("flight-recorder",),
    ),
    Cause(id="hangs-at-the-end",
        words=(
            "@hang end|last|finish|finished|exit|destroy|final",
            "@hang end|last|finish|final epoch|batch|dataset|data|training|uneven|divisible",
            "@not>exit|terminat|finish|end$|ends$|quit process|script|training|program|"
            "python|job|it$",
        ),
        examples=("hangs at the last batch", "process does not exit after training"),
        why="Ranks have different numbers of batches, one of them saves or evaluates alone, or "
            "threads and workers are still open.",
        fix="Equal numbers of batches on all ranks (drop_last, Join), collectives on all ranks, "
            "destroy_process_group() at the end.",
        role="symptom",
        commands=("doctor lint train.py", "doctor triage LOG_DIRECTORY"),
    ),
    Cause(id="memory-grows",
        words=(
            "@memory @rise|leak|fills|accumulat",
            "memory_leak",
            "@oom after hours|steps|epochs|epoch|iterations|while|some|few|minutes !@eval",
        ),
        examples=("memory leak during training", "GPU memory keeps growing",
            "CUDA out of memory after a few hours"),
        why="A reference keeps the graph (total_loss += loss, a list of outputs), lengths grow "
            "with the data, pieces of memory fragment, or loader workers copy Python objects.",
        fix="Print torch.cuda.memory_allocated() per step at equal lengths: growth is a kept "
            "tensor; growth of reserved memory alone is fragmentation; growth of host memory is "
            "workers.",
        role="symptom", refines=("gpu-full-or-in-use",),
        commands=("doctor guard --all -- python train.py", "doctor lint train.py"),
        sources=("torch-faq-memory",),
    ),
    Cause(id="memory-more-than-expected",
        words=(
            "@memory|@oom uses|needs|takes|requires|use|need|used|consum more|much|lot|"
            "expected|high",
            "why|how_much @memory|@oom !releas !free",
        ),
        examples=("uses more memory than expected", "why do I get out of memory with a 7B model"),
        why="Weights, gradients and the two moments of Adam in fp32 take 16 bytes per parameter; "
            "activations and logits come on top.",
        fix="Let the plan of memory be computed for the model, GPU, batch and length.",
        role="symptom",
        commands=("doctor run --params 7B --batch-size 1", "doctor prescribe"),
    ),
    Cause(id="gpu-memory-not-released",
        words=(
            "@memory|gpu @not>releas|free|clear|empt",
            "@memory releas|free|clear how|after|del|between|kill",
            "zombie process|gpu|memory",
            "nvidia_smi|gpu|gpus|@memory no_process|no_running|no_python|without_process|"
            "without_any_process|process_list_is_empty|no_other_process used|use|memory|gb|"
            "gib|mib|occupied|full|taken|reserved",
            "@memory|gpu still|stays|remains>used|occupied|allocated|full|taken|reserved|"
            "held|in_use",
        ),
        examples=("GPU memory is not released", "how to free GPU memory",
            "nvidia-smi shows 20 GB used but no processes"),
        why="A process still lives, a variable holds the tensor, or torch keeps the memory for "
            "later (reserved).",
        fix="nvidia-smi names the process; where it names none (a container, a dead parent), sudo "
            "fuser -v /dev/nvidia* does: end it. In Python delete all references, then "
            "gc.collect() and torch.cuda.empty_cache().",
        role="symptom",
        commands=("sudo fuser -v /dev/nvidia*", "doctor run --only GPU002"),
        sources=("torch-faq-memory",),
    ),
    Cause(id="checkpoint-slow",
        words=(
            "saving|save|writing|loading|load|saves checkpoint|checkpoints|model|weights|"
            "shards slow|long|forever|minutes|hours !loss !dataloader",
        ),
        examples=("saving checkpoints takes minutes", "loading the model is slow"),
        why="All state goes through one rank and one file, a network disk is slow, or the whole "
            "state is gathered first.",
        fix="Measure the disk, then save sharded and asynchronously "
            "(torch.distributed.checkpoint.async_save), and keep fewer.",
        role="symptom",
        commands=("doctor run --only DSK001,DSK002",),
    ),
    Cause(id="gpu-not-found",
        words=(
            "gpu|gpus|cuda @not>found|detect|avail|recogni|visible|see$|used",
            "@not>see|detect|find|use|using|recogni gpu|gpus|cuda",
            "is_available false",
            "running|runs|trains|training on_cpu|on_the_cpu|cpu_instead",
        ),
        examples=("cuda is not available",
            "torch does not see my GPU",
            "torch.cuda.is_available() returns False"),
        why="A CPU wheel, a driver that is too old, a container without --gpus, or "
            "CUDA_VISIBLE_DEVICES.",
        fix="One command looks at all of them.", role="symptom",
        commands=("doctor run --only DRV,TOR,GPU001",),
    ),
    Cause(id="machine-reboots",
        words=(
            "machine|computer|pc$|server|node|system|workstation reboot|restart|crash|shut|"
            "turns_off|power_off|black",
            "reboots|shuts_down during|while|when|under",
        ),
        examples=("the machine reboots during training", "server crashes under load"),
        why="Power: peaks of several GPUs exceed the supply; heat; memory errors; rarely the "
            "driver.",
        fix="Read the kernel log of the boot before (journalctl -b -1 -k), the Xids and the "
            "temperatures; lower the power limit as a test.",
        role="symptom",
        commands=("sudo journalctl -b -1 -k | tail -100", "doctor run --only GPU003,GPU004"),
    ),
    Cause(id="one-rank-slower",
        words=(
            "one|single|1$>gpu|rank|node|worker|card>slow|slower|lag|behind",
            "straggler",
        ),
        examples=("one GPU is slower than the others", "straggler node"),
        why="All ranks wait for the slowest: a GPU that is hot or shared, a link of fewer lanes, a "
            "busy host, uneven data.",
        fix="Compare the clocks, the links and the rates of all GPUs with each other.",
        role="symptom",
        commands=("doctor run --only GPU004,GPU005",),
    ),
    Cause(id="disk-fills",
        words=(
            "disk|storage|space|folder|partition|drive full|fill|fills|usage|@rise|runs_out|"
            "running_out|out_of",
            "too_many|every|each checkpoint|checkpoints gb|disk|space|large|storage",
        ),
        examples=("disk fills up with checkpoints", "running out of disk"),
        why="Every checkpoint holds the optimizer, three times the weights or more; caches and "
            "logs grow beside it.",
        fix="save_total_limit, a limit of retention, HF_HOME on a large disk; plan the space "
            "before the run.",
        role="symptom",
        commands=("doctor run --only DSK001",),
    ),
)  # fmt: skip
