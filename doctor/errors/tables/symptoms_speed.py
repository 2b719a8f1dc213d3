"""Symptoms of speed, memory and waiting, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="slower-every-epoch",
        messages=(r"(?:slower|slows? down) (?:every|each|with|over|after|and slower|during|as)|"
              r"(?:training|steps?|it|speed) (?:gets?|becomes?|getting|becoming) slow",),
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
        messages=(r"first (?:step|batch|iteration|epoch) (?:is |takes? )?(?:very |so )?(?:slow|"
              r"long|forever|minutes)|slow start ?up|startup (?:is|takes)",),
        examples=("first step takes minutes", "the first epoch is slow"),
        why="Compilation, cuDNN's benchmark, kernels that are built just in time for a GPU that "
            "the wheel has no code for, or files that are read for the first time.",
        fix="If every start is slow, look whether the wheel has code for the GPU; keep the caches "
            "of Triton and inductor on a disk that survives.",
        role="symptom",
        commands=("doctor run --only TOR003", "doctor run"),
    ),
    Cause(id="gpu-not-busy",
        messages=(r"(?:low|poor|bad) gpu (?:util|usage)|gpu (?:util\w*|usage) (?:is )?(?:low|"
              r"drops?|0|only|at \d)|gpus? .{0,12}(?:idling|starv|underutili[sz]ed|not fully)",),
        examples=("low GPU utilization", "GPU usage drops to 0",
            "gpus are idling half of the time"),
        why="The GPU waits: for data, for the host (many small kernels, .item() in the loop), for "
            "other ranks, or for a checkpoint.",
        fix="Measure the time that a step waits for the loader: if it is more than a tenth, use "
            "more workers, pin_memory, larger files; else look for synchronization in the loop.",
        role="symptom",
        commands=("doctor guard --all -- python train.py", "doctor lint train.py"),
    ),
    Cause(id="loader-slow",
        messages=(r"data ?load(?:er|ing) (?:is )?(?:very |too |so )?(?:slow|bottleneck|takes)|"
              r"bottleneck .{0,20}data|waiting for data",),
        examples=("dataloader is slow", "waiting for data"),
        why="Decoding in one process, many small files on a network disk, a collate function in "
            "Python, or too few cores for the workers.",
        fix="Iterate the loader alone and compare its rate with the training's. Then workers "
            "(cores per GPU minus one), persistent_workers, local shards.",
        role="symptom",
        commands=("doctor guard --all -- python train.py", "doctor run --only MEM002"),
        sources=("torch-tuning-loading",),
    ),
    Cause(id="more-gpus-not-faster",
        messages=(r"(?:multi|more|several|two|2|4|8)[- ]?gpus? .{0,40}(?:not faster|slower|no "
              r"speed ?up|same speed|doesn't scale)|(?:no|poor|bad) (?:speedup|scaling)|ddp (?:is "
              r")?slow",),
        examples=("2 GPUs are slower than one", "poor scaling over nodes", "DDP is slow"),
        why="The exchange of gradients costs more than it saves: small steps, PCIe without peer "
            "access, a network that NCCL does not use, or a batch that was divided.",
        fix="Compare samples per second, not steps. Measure the links; accumulate gradients with "
            "no_sync, larger micro-batches.",
        role="symptom",
        commands=("doctor run --only GPU005,GPU007,GPU008",),
    ),
    Cause(id="slower-than-expected",
        messages=(r"(?:much )?slower than (?:expected|before|others|on|a|the|v100|a100|cpu)|"
              r"(?:training|fine-?tuning) (?:is )?(?:very |too |extremely |so )slow",),
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
        messages=(r"torch\.?compile.{0,30}(?:slow|not faster|no speed|recompil|takes (?:forever|"
              r"long))|recompil(?:es|ing) (?:every|each|all)",),
        examples=("torch.compile is slower", "recompiling every step"),
        why="Shapes change, the graph breaks in many places, or compilation was counted into the "
            "time.",
        fix="TORCH_LOGS=recompiles,graph_breaks names both; pad to fixed shapes, mark "
            "dynamic=True, measure after 50 steps.",
        role="symptom",
        commands=("doctor run --only SMK010",),
    ),
    Cause(id="training-hangs",
        messages=(r"(?:training|job|process|it|run|script|program) (?:just )?(?:hangs?|hung|"
              r"freezing|froze|is stuck|gets stuck|stalls?)|hangs? (?:at|after|during|when|on|"
              r"forever|without)|stuck (?:at|after|on|in) (?:the )?(?:first|last|step|epoch|init|"
              r"barrier|\d)|no (?:output|progress)",),
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
        messages=(r"(?:hangs?|stuck) .{0,20}(?:end|last batch|finish|exit|destroy)|does not exit|"
              r"doesn't exit|never exits|(?:doesn't|does not|never|won't) (?:terminate|finish)",),
        examples=("hangs at the last batch", "process does not exit after training"),
        why="Ranks have different numbers of batches, one of them saves or evaluates alone, or "
            "threads and workers are still open.",
        fix="Equal numbers of batches on all ranks (drop_last, Join), collectives on all ranks, "
            "destroy_process_group() at the end.",
        role="symptom",
        commands=("doctor lint train.py", "doctor triage LOG_DIRECTORY"),
    ),
    Cause(id="memory-grows",
        messages=(r"memory (?:leak|grows|growing|increases|keeps|creeps|usage (?:grows|increas|"
              r"keeps))|(?:ram|vram) (?:grows|increases|is growing)|oom after .{0,20}(?:steps|"
              r"hours|epochs|iterations|while)",),
        examples=("memory leak during training", "GPU memory keeps growing",
            "OOM after a few hours"),
        why="A reference keeps the graph (total_loss += loss, a list of outputs), lengths grow "
            "with the data, pieces of memory fragment, or loader workers copy Python objects.",
        fix="Print torch.cuda.memory_allocated() per step at equal lengths: growth is a kept "
            "tensor; growth of reserved memory alone is fragmentation; growth of host memory is "
            "workers.",
        role="symptom",
        commands=("doctor guard --all -- python train.py", "doctor lint train.py"),
        sources=("torch-faq-memory",),
    ),
    Cause(id="memory-more-than-expected",
        messages=(r"(?:uses?|needs?|takes?|requires?) (?:too much|more|a lot of|so much) (?:gpu "
              r")?(?:memory|vram)|why .{0,30}(?:memory|vram)",),
        examples=("uses more memory than expected", "why do I get out of memory with a 7B model"),
        why="Weights, gradients and the two moments of Adam in fp32 take 16 bytes per parameter; "
            "activations and logits come on top.",
        fix="Let the plan of memory be computed for the model, GPU, batch and length.",
        role="symptom",
        commands=("doctor run --params 7B --batch-size 1", "doctor prescribe"),
    ),
    Cause(id="gpu-memory-not-released",
        messages=(r"(?:gpu )?memory (?:is )?(?:not|never|n't) (?:released|freed|free|cleared)|"
              r"(?:release|free|clear) (?:the )?gpu memory|zombie process",),
        examples=("GPU memory is not released", "how to free GPU memory"),
        why="A process still lives, a variable holds the tensor, or torch keeps the memory for "
            "later (reserved).",
        fix="nvidia-smi names the process; in Python delete all references, then gc.collect() and "
            "torch.cuda.empty_cache().",
        role="symptom",
        commands=("nvidia-smi", "doctor run --only GPU002"), sources=("torch-faq-memory",),
    ),
    Cause(id="checkpoint-slow",
        messages=(r"(?:sav|writ|load)(?:ing|es?) (?:a |the |of )?(?:checkpoints?|model) (?:is |"
              r"takes? )?(?:very |too |so )?(?:slow|long|forever|minutes|hours)",),
        examples=("saving checkpoints takes minutes", "loading the model is slow"),
        why="All state goes through one rank and one file, a network disk is slow, or the whole "
            "state is gathered first.",
        fix="Measure the disk, then save sharded and asynchronously "
            "(torch.distributed.checkpoint.async_save), and keep fewer.",
        role="symptom",
        commands=("doctor run --only DSK001,DSK002",),
    ),
    Cause(id="gpu-not-found",
        messages=(r"(?:gpu|cuda) .{0,6}(?:not|n't) (?:found|detected|available|recogni[sz]ed|"
              r"visible)|(?:not|n't) (?:see my gpu|detect (?:my |the |any )?gpu|using (?:my|the) "
              r"gpu)|is_available\(\) returns? false|running on (?:the )?cpu",),
        examples=("cuda is not available",
            "torch does not see my GPU",
            "torch.cuda.is_available() returns False"),
        why="A CPU wheel, a driver that is too old, a container without --gpus, or "
            "CUDA_VISIBLE_DEVICES.",
        fix="One command looks at all of them.", role="symptom",
        commands=("doctor run --only DRV,TOR,GPU001",),
    ),
    Cause(id="machine-reboots",
        messages=(r"(?:machine|computer|pc|server|node|system) (?:reboots?|restarts?|crash(?:es)?|"
              r"shuts? down|turns? off)|(?:reboots?|shut ?down) (?:during|while|when|under)",),
        examples=("the machine reboots during training", "server crashes under load"),
        why="Power: peaks of several GPUs exceed the supply; heat; memory errors; rarely the "
            "driver.",
        fix="Read the kernel log of the boot before (journalctl -b -1 -k), the Xids and the "
            "temperatures; lower the power limit as a test.",
        role="symptom",
        commands=("sudo journalctl -b -1 -k | tail -100", "doctor run --only GPU003,GPU004"),
    ),
    Cause(id="one-rank-slower",
        messages=(r"(?:one|a single) (?:rank|gpu|node|worker) (?:is )?(?:slow|much slower|lagging|"
              r"behind)|stragglers?",),
        examples=("one GPU is slower than the others", "straggler node"),
        why="All ranks wait for the slowest: a GPU that is hot or shared, a link of fewer lanes, a "
            "busy host, uneven data.",
        fix="Compare the clocks, the links and the rates of all GPUs with each other.",
        role="symptom",
        commands=("doctor run --only GPU004,GPU005",),
    ),
    Cause(id="disk-fills",
        messages=(r"disk (?:is )?(?:fills|full|filling|usage)|(?:runs?|running|ran) out of (?:disk|"
              r"space)|too many checkpoints",),
        examples=("disk fills up with checkpoints", "running out of disk"),
        why="Every checkpoint holds the optimizer, three times the weights or more; caches and "
            "logs grow beside it.",
        fix="save_total_limit, a limit of retention, HF_HOME on a large disk; plan the space "
            "before the run.",
        role="symptom",
        commands=("doctor run --only DSK001",),
    ),
)  # fmt: skip
