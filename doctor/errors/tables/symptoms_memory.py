"""Symptoms of memory, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="host-memory-grows", sources=("torch-data-loading",),
        words=(
            "ram$|cpu_memory|host_memory|system_memory|swap|swaps|memory worker|workers|"
            "num_workers|dataloader|dataset|loader|list @rise|leak|fill|swap|high|more|"
            "uses|killed|runs_out|much|eat|eats|eating|consum",
            "ram$|cpu_memory|host_memory|system_memory|swap @rise|leak|fill|full epoch|every|each|"
            "time|until|during|training|step|hours !gpu_ram !vram",
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
    Cause(id="memory-at-evaluation", sources=("transformers-training-args",),
        words=(
            "@oom|@memory @eval|inference|predict|prediction|generate during|only|but|fits|"
            "fine|at$|when|in$|after|loop|makes !ram !leak",
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
            "some_batches|certain|suddenly|unpredictab|long_sequence|long_sequences|"
            "out_of_nowhere|out_of_the_blue|different_step|different_steps !@eval !leak !zero",
            "@oom @not|different|another>always|same>step|place|iteration|batch|point !@eval",
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
    Cause(id="first-gpu-fuller", sources=("torch-load",),
        words=(
            "gpu_0|gpu0|cuda:0|first_gpu|rank_0|one_gpu|device_0 more|much|all|other|full|"
            "extra|most @memory|process|processes|usage|used|oom !@hang !forever !except",
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
            "oomkilled|oom_killed|oom_killer|exit_code_137|exitcode_137 container|pod|"
            "process|training|job|host|ram$|although",
            "script|job|process|program|training|run disappears|vanish|gone|simply_back|just_ends|"
            "closes without|no$|nothing|silent !gpu !checkpoint !colab !instance",
            "echo|exit|exits|exited|code|signal|status|killed|dies|died 137|-9",
            "exit|exits|exited|code|signal|status|killed|dies|died -9|137|sigkill|signal_9|"
            "killed$ nothing|no$|without|only|else|log|just|message|traceback|error "
            "!gpu_memory !watchdog !time_limit !walltime !scancel !by_me",
            "training|script|job|run|process|python just|simply|suddenly killed",
            "kernel|notebook|jupyter|colab|process|script|program|python|training dies|"
            "died|dead|killed|crash|crashes|exits|exit|quits|disappears|closes|ends "
            "without|no_error|no_message|no_traceback|silent|silently|any_error",
            "training|trainer|script|program|job|process stops|stopped|stop$|ends|ended "
            "without>error|message|exception|warning !generat !early !hang !without_errors",
            "kernel|notebook|jupyter|colab>dies|died|dead|crash|crashes|restart !reboot "
            "!occupied !not_released !still_used",
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
    Cause(id="memory-grows",
        words=(
            "@memory @rise|leak|fills|accumulat !on_ram|cpu_ram|system_ram|host_ram|cpu_memory",
            "memory_leak",
            "every|each>batch|step|iteration|epoch mb|mib|gb|gib more|higher|additional "
            "!ram$ !host "
            "!server !disk !download",
            "@memory shrink|shrinks|less_and_less|@fall free|available|left|room every|each|"
            "steps|epoch|time|after|until !learning_rate !cpu_ram|system_ram|free_m",
            "@oom after hours|steps|epochs|epoch|iterations|while|some|few|minutes !@eval",
        ),
        examples=("memory leak during training", "GPU memory keeps growing",
            "CUDA out of memory after a few hours"),
        why="A reference keeps the graph (total_loss += loss, a list of outputs), lengths grow "
            "with the data, pieces of memory fragment, or loader workers copy Python objects.",
        fix="Keep numbers, not tensors: total_loss += loss.item(), or .detach() of what is stored. "
            "Print torch.cuda.memory_allocated() per step at equal lengths: growth is a kept "
            "tensor; growth of reserved memory alone is fragmentation; growth of host memory is "
            "workers.",
        role="symptom", refines=("gpu-full-or-in-use",),
        commands=("doctor guard --all -- python train.py", "doctor lint train.py"),
        sources=("torch-faq-memory",),
    ),
    Cause(id="memory-more-than-expected",
        words=(
            "@oom|@memory batch_size|batch|sequence|length 2$|4$|8$|larger|only works|fits|"
            "fine|but|crash|max !@eval !same !equal !random !sometimes !zero2|zero_2",
            "@memory|@oom uses|needs|takes|requires|use|need|used|consum more|much|lot|"
            "expected|high !zero2|zero_2",
            "why|how_much @memory|@oom !releas !free",
            "@oom first|very_first>step|batch|iteration|forward",
            "@oom immediately|at_once|right_away|right_at_the_start|batch_1|batch_size_1|"
            "batch_of_1",
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
            "@memory releas|clear|free_up|free_the|free_gpu|free_cuda|free_all|to_free|freed|"
            "freeing|frees how|after|del|between|kill",
            "zombie process|gpu|memory",
            "nvidia_smi|gpu|gpus|@memory no_process|no_running|no_python|without_process|"
            "without_any_process|process_list_is_empty|no_other_process|nothing_runs|"
            "nothing_is_running|nothing_running|no_program|nobody_uses used|use|memory|gb|"
            "gib|mib|occupied|full|taken|reserved",
            "ctrl|killed|kill|stopped|crashed|interrupted|closed @memory|gb|gib|mib "
            "nvidia_smi|in_use|used|occupied|full|taken !@rise !leak !ram$ !disk",
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
    Cause(id="saving-saves-nothing",
        words=(
            "checkpointing|gradient_checkpointing|zero_2|zero_3|zero2|zero3|fsdp|offload|lora|"
            "qlora|8bit|8_bit|4bit|flash|flash_attention|bf16|fp16|batch_size_1|batch_size "
            "@memory|vram @not|same|no_difference|no_effect|more|unchanged|still|equal|higher "
            "!nan !leak !@eval !@rise !lora>still>@oom !not_more",
        ),
        examples=("gradient checkpointing makes no difference to memory",
            "memory usage is the same with batch size 1 and 4",
            "zero3 uses more memory than zero2"),
        why="It saves another part than the one that is large: checkpointing saves activations, "
            "ZeRO and FSDP divide weights, gradients and optimizer, LoRA saves gradients and "
            "optimizer, 4 bits the weights. Logits (batch x length x vocabulary x 4 bytes), "
            "buffers for gathering, a sampler beside it and torch's reserve stay. Or it was not "
            "switched on.",
        fix="Print torch.cuda.max_memory_allocated() after loading, after the forward pass and "
            "after the first step: the jump names the part. nvidia-smi shows what torch reserves, "
            "which never shrinks. Check that the setting acts (model.is_gradient_checkpointing, "
            "the lines of DeepSpeed, trainable parameters, the number of ranks: sharding over one "
            "GPU saves nothing).",
        role="symptom",
        commands=("doctor run --only MEM001", "doctor guard --all -- python train.py"),
    ),
)  # fmt: skip
