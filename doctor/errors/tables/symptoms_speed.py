"""Symptoms of speed and waiting, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="gpu-lost-while-running", sources=("toolkit-48",),
        words=(
            "docker|container|containers|pod|podman|kubernetes los|loses|lost|disappear|vanish|"
            "suddenly|anymore|any_more|no_longer|stops gpu|gpus|nvidia_smi|cuda|nvml",
            "docker|container|containers|pod after hours|days|while|reload gpu|gpus|nvidia_smi|"
            "cuda|nvml @not|unknown|los|loses|lost|gone",
        ),
        examples=("the container loses its GPUs after some days",),
        why="systemctl daemon-reload on the host (an update, a unit that was changed) takes the "
            "devices away from running containers: NVML: Unknown Error.",
        fix="Restart the container. To prevent it, use the cgroupfs driver of Docker, or create "
            "the /dev/char links: nvidia-ctk system create-dev-char-symlinks. If the host does not "
            "see the GPU either, read its kernel log (Xid 79).",
        role="symptom",
        commands=("nvidia-smi", "doctor run --only DRV001"),
    ),
    Cause(id="session-ended-training",
        words=(
            "ssh|terminal|laptop|putty|vscode|vs_code|screen|tmux|session|my_connection clos|"
            "disconnect|lost|loses|drop|drops|sleep|logout|logged_out|log_out "
            "training|job|run|process|script|train dies|died|stop|kill|gone|ends|ended|abort|"
            "interrupt",
        ),
        examples=("training dies when I close the SSH session",),
        why="The shell that ends sends SIGHUP to what it started.",
        fix="Start it within tmux or screen, or with nohup python train.py > train.log 2>&1 & "
            "disown; where the system ends a user's processes at logout, loginctl enable-linger. "
            "Resume from the last checkpoint.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="gpu-slows-by-heat",
        words=(
            "throttl|thermal|overheat",
            "clock|clocks|mhz @fall|low|lower|slow gpu|sm$|card|temperature|hot|heat|training",
            "clock|clocks|mhz|frequency @fall|down|low|lower|from degrees|temperature|hot|"
            "heat|warm",
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
            "util|utilization|utilisation 100|99|full slow|slower|watt|watts|power !!@hang",
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
    Cause(id="hangs-at-first-collective", sources=("nccl-troubleshooting",),
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
    Cause(id="slower-every-epoch",
        words=(
            "tokens_per|tokens/s|samples_per|samples/s|images_per|images/s|throughput|it/s|"
            "mfu|speed decreas|degrad|drop|drops|fall|falls|declin|gets_worse|goes_down|"
            "sinks|halves over|hours|time|hour|day|days|gradual|slowly|steadily|after|"
            "during|epochs !upgrad !batch_size",
            "step|steps|iteration|iterations|epoch|epochs|seconds|time takes|takes_longer|"
            "longer|slower gradual|slowly|steadily|over_time|more_and_more|each_hour|"
            "than_at_the_start|than_in_the_beginning !upgrad !update !new_version",
            "slower|slow$|slows|slowdown|slowing every|each|gradual|progress|after|"
            "over_time|longer|as_training|during speed|training|step|steps|it/s|iteration|"
            "iterations|epoch|epochs|throughput|it$ !every_second !every_other !every_few "
            "!@memory !ram$ !works_fine !degrees|temperature|clock|hot$ !accuracy "
            "!curve",
            "two_rates from|drops|goes|went|slows|becomes|became over|after|about|during|later|"
            "within|hours|hour|again|restart !compil !gpus !upgrad !updat !batch_size",
            "slower_and_slower|more_and_more_slow",
            "at_first|first_time|beginning|initially|used_to|yesterday|started_with "
            "now|then|later|already each|every|per|one|an$|the>epoch|step|iteration|batch "
            "minute|minutes|min$|seconds|sec$|hours|two_rates !compil "
            "!@memory !fast",
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
            "first|1st|very_first|first_few|first_two>step|steps|batch|iteration|epoch|call "
            "slow|slower|long|longer|forever|minutes|hours !first_time",
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
    Cause(id="gpu-not-busy", sources=("speech-1204",),
        words=(
            "every_second|every_other|every_few|every_third|every_10|every_100|every_n|"
            "every_4|every_8|"
            "periodic|regularly|sometimes step|steps|batch|batches|iteration slow|slower|"
            "stall|pause|longer|spike",
            "gpu|gpus|utilization|utilisation util|usage|utilization|utilisation|load @bad|"
            "drop|drops|jump|fluctuat|0$|0%|idle|only|spik|between|half|zero|at$ !@hang "
            "!stands_still !100_% !100% !forever !out_of",
            "gpu|gpus|utilization|utilisation util|usage|utilization|utilisation|load "
            "0$|0% 100|99|98|97|96|95 !!@hang !forever !except",
            "gpu|gpus idl|starv|underutil|wait|sits|not_fully|not_used",
            "gpu|gpus|gpu_util usage|util|utilization|utilisation|load low_percent !memory !@hang",
            "gpu|gpus|nvidia_smi|nvtop|utilization|utilisation 0%|zero|idle 100%|99%|98%|97%|96%|"
            "95% then|most_of_the_time|jump|alternat|switch|bounce|spik|for_a_second|fluctuat|"
            "oscillat|on_and_off !memory|vram !gpu_0|gpu0|gpu_1|gpu1|one_gpu|other|others|rank "
            "!progress|accuracy|hang|stuck|cpu>100%",
            "dataloader|data_loader|dataloading|data_loading|loader slow|bottleneck|takes|"
            "long|limit",
            "waiting|wait data|batch|loader",
            "bottleneck data|cpu",
        ),
        examples=("low GPU utilization", "GPU usage drops to 0",
            "gpus are idling half of the time",
            "nvidia-smi shows 0% and then 100% for a second"),
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
            "single !one_of !others !rest !accuracy !curve",
            "one|1$|single two|2$|four|4$|eight|8$|gpus|cards two_rates gpu|gpus|card|cards|a100|"
            "h100|a6000|3090|4090|node|nodes !upgrad !updat !accuracy",
            "speedup|scaling @not|poor|bad|little",
            "ddp|dataparallel|data_parallel|fsdp slow|slower !hang",
            "gpus|2x|4x|8x only|just|barely>faster|speedup !compile",
            "gpus|cards longer|more_time|as_long|as_slow|slower>than|as>one|single|1$ !memory "
            "!one_before",
            "slower|longer|slow>than|as>single|one|1$>node|machine|server|host",
            "two|2$|both|4$|four|8$|eight|multiple|multi>gpu|gpus|card|cards|titan "
            "thought|should|must|expected|supposed faster|twice|quicker|speedup !@memory !fit",
            "two|2$|3$|three|4$|four|8$|eight|multi 1$|one|single>gpu|gpus|card|cards "
            "samples/sec|samples/s|it/s|s/it|sec/it|samples_per|images_per|tokens_per "
            "but|only|instead|same|still|slower !used !idle !utiliz !visible !per_gpu !memory",
            "one|single|1$>gpu|card>faster|quicker|less_time|shorter>than !of_the",
            "doubl|add|adding|second|more>gpu|gpus|card|cards time|speed|faster|throughput|longer "
            "@not|@same|longer !@loss !memory !batch !error !found",
        ),
        examples=("2 GPUs are slower than one", "poor scaling over nodes", "DDP is slow"),
        why="The exchange of gradients costs more than it saves: small steps, PCIe without peer "
            "access, a network that NCCL does not use, or a batch that was divided.",
        fix="Compare samples per second of all GPUs, not steps: N processes take N batches in "
            "each, so that max_steps is to be divided by N. find_unused_parameters=True searches "
            "the graph in each step: take the unused branch out. One machine: nvidia-smi topo -m "
            "shows the links; without NVLink accumulate gradients with no_sync and take larger "
            "micro-batches, DistributedDataParallel instead of DataParallel. Several: with "
            "NCCL_DEBUG=INFO the line NET/Socket means TCP in place of InfiniBand or RoCE "
            "(NET/IB). If the loader cannot feed one GPU, more of them wait as well.",
        role="symptom",
        commands=("doctor run --only GPU005,GPU007,GPU008", "nvidia-smi topo -m"),
    ),
    Cause(id="slower-than-expected",
        words=(
            "slower|slow than|expected|very|too|extremely|should|so$ training|train|fine_tuning|"
            "finetuning|step|model|gpu|it$|inference|run !qlora|4bit|4_bit|8bit|8_bit|quantiz "
            "!compile !gpus !the_others !ddp !checkpoint !validation|evaluation",
            "s/it|seconds_per|sec_per|per_step|per_iteration|it/s be_right|is_this_normal|"
            "is_that_normal|so_long|too_long|reasonable !qlora|4bit !gpus",
            "slower>than !qlora|4bit|4_bit|8bit|8_bit|quantiz !compile !gpus !the_others !ddp "
            "!validation|evaluation",
            "h100|h200|b200|a100|4090|5090|gpu @not|same|barely faster|speed|slower",
            "h100|h200|b200|a100|mi300x disappoint|not>worth",
            "h100|h200|b200|a100|mi300x hoped|heard_of|factor|promised|"
            "supposed "
            "two_rates|it/s|faster|speed",
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
    Cause(id="training-hangs",
        words=(
            "@hang training|job|process|run|script|program|step|barrier|forever|loader|"
            "rank|ranks|epoch|progress|init|without",
            "@hang dataloader|data_loader|loader|worker|workers|num_workers 0$|nothing|no_error|"
            "forever|minutes|never !each_epoch !every_epoch !start_of",
            "no_output|no_progress|nothing_happens|not_progress training|job|log|hours|"
            "minutes|gpu|after|script !@loss",
            "@hang|stands_still|stays_at|forever|no_progress 100%|100_%|99%|util|utilization "
            "gpu|gpus|cards|gpu_util !slow !memory_util",
            "@hang|stands_still|forever epoch|step|steps|iteration|iterations random|sometimes|"
            "each_time|every_time|always|after|middle !@loss !accuracy !slow !end !last",
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
    Cause(id="hangs-at-the-end", sources=("torch-ddp",),
        words=(
            "nccl|timeout|timeouts|timed_out|watchdog end_of|last|after|final epoch|batch|"
            "step !first !start !minutes",
            "@hang end|last|finish|finished|exit|destroy|final",
            "@hang end|last|finish|final epoch|batch|dataset|data|training|uneven|divisible",
            "@not>exit|terminat|finish|end$|ends$|quit process|script|training|program|"
            "python|job|it$ !eos|end_token|generat",
        ),
        examples=("hangs at the last batch", "process does not exit after training"),
        why="Ranks have different numbers of batches, one of them saves or evaluates alone, or "
            "threads and workers are still open.",
        fix="Equal numbers of batches on all ranks (drop_last, Join), collectives on all ranks, "
            "destroy_process_group() at the end.",
        role="symptom",
        commands=("doctor lint train.py", "doctor triage LOG_DIRECTORY"),
    ),
    Cause(id="gpu-not-found",
        words=(
            "gpu|gpus|cuda @not>found|detect|avail|recogni|visible|see$|used "
            "!second|other|others|third|half !avail>true !available>yes !gpu|code|it$>sees",
            "@not>see|detect|find|use|using|recogni gpu|gpus|cuda !second|other|others|third|half "
            "!avail>true !avail>yes !gpu|code|it$>sees",
            "falls_back|fall_back|fell_back|fallback cpu",
            "no_nvidia_driver|no_cuda_driver|no_gpu_driver found|docker|container|torch|image",
            "is_available false",
            "torch.version.cuda|version.cuda none|empty|nothing",
            "device_count 0$|zero",
            "cuda avail false",
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
    Cause(id="gpu-seen-not-used",
        words=(
            "gpu|gpus|cuda sees|seen|detected|detects|found|finds|recogni|is_available|"
            "device_count|available|true @not>use|used|using|utiliz|touch !false !@not>avail "
            "!@not>found|detect|recogni|see !memory",
            "is_available true cpu|0%|slow|idle",
            "gpu|gpus|cuda|card|3060|4060|3090|4090 low_percent|0% cpu|processor 100%|100_%|"
            "all_cores|full !!@hang",
            "gpu|cuda sees|detected|found|available|is_available 0%|1%|2%|3%|idle|zero|unused "
            "cpu !false !@not>avail !util>drop",
        ),
        examples=("torch sees my GPU but the training does not use it",
            "cuda is available is True but training runs on the cpu"),
        why="What is trained was not moved: the model or the batches stay on the CPU. Or the GPU "
            "works in short bursts and waits for data in between. Windows' Task Manager shows "
            "graphics, unless its graph is switched to CUDA.",
        fix="Print next(model.parameters()).device and the device of a batch within the loop: both "
            "must be cuda:0. If not: model.to('cuda') before the optimizer is made, and each "
            "tensor of the batch = tensor.to('cuda') (its result must be assigned). If they are, "
            "watch nvidia-smi dmon during steps, and measure the wait for the loader.",
        role="symptom",
        commands=("doctor lint train.py", "nvidia-smi dmon -s um -c 10"),
    ),
    Cause(id="machine-reboots",
        words=(
            "machine|computer|pc$|server|node|system|workstation reboot|restart|crash|shut|"
            "turns_off|turns_itself_off|turn_off|turned_off|switches_off|switches_itself|"
            "powers_off|powers_down|power_off|goes_off|black !crashes_the_kernel !kernel>restart "
            "!restarting_the_kernel !notebook !compose !no_restart !without>restart",
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
    Cause(id="one-rank-slower", sources=("stragglers-what-if",),
        words=(
            "one|single|1$>gpu|rank|node|worker|card>slow|slower|lag|behind",
            "rank|ranks|gpu|node|nodes>slow|slower|lag|behind>than|behind>the_other|others|"
            "the_rest !degrees|hotter|temperature",
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
            "disk|storage|space|quota save|saves|saving|saved|checkpoint|checkpoints "
            "gb|tb|stopp|stop|died|dead|crash|error|errors|fails|failed !@memory",
            "too_many|every|each checkpoint|checkpoints gb|disk|space|large|storage !slow "
            "!minutes !stands_still !@hang",
        ),
        examples=("disk fills up with checkpoints", "running out of disk"),
        why="Every checkpoint holds the optimizer, three times the weights or more; caches and "
            "logs grow beside it.",
        fix="save_total_limit, a limit of retention, HF_HOME on a large disk; plan the space "
            "before the run.",
        role="symptom",
        commands=("doctor run --only DSK001",),
    ),
    Cause(id="one-gpu-idle",
        words=(
            "one|only|single|first|second|other|others|rest|gpu_0|gpu_1|half gpu|gpus|card|cards "
            "used|use|uses|working|works|idle|0%|never|busy|utiliz !mostly_idle !idle_again "
            "!amd !possible_to !@memory "
            "!slow !@oom !faster "
            "!no_process !hang !not_freed !cpu !container",
        ),
        examples=("only one of my four GPUs is used",
            "the second GPU is never used",
            "training on two GPUs uses 100% of one and 0% of the other"),
        why="The script was started as one process: nothing divides the work unless a launcher "
            "starts a process for each GPU. Or CUDA_VISIBLE_DEVICES hides the others, the "
            "scheduler gave one, or device_map spread the layers, which then work in turn.",
        fix="torchrun --nproc-per-node N train.py, or accelerate launch --num_processes N (see "
            "accelerate env); print the number of processes at the start. No device_map in "
            "training. echo $CUDA_VISIBLE_DEVICES and nvidia-smi -L in the job show what it got.",
        role="symptom",
        commands=("nvidia-smi -L", "doctor run --gpus 2"),
    ),
)  # fmt: skip
