"""Memory: of the GPU, of the host, of /dev/shm."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="cuda-oom",
        messages=("OutOfMemoryError: (?:CUDA|HIP|XPU|NPU) out of memory",
            r"(?:CUDA|HIP|XPU|NPU) out of memory\.[*_` ]{1,5}Tried to allocate",
            "RuntimeError: (?:CUDA|HIP|XPU|NPU) out of memory",
            r"Tried to allocate [\d.]{1,12} [KMGT]iB(?: \(|\. )GPU \d",
            r"(?:CUDA|HIP) error: out of memory|cuda runtime error \(2\) : out of memory",
            "CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation",
            r"RESOURCE_EXHAUSTED: .{0,80}(?:[Oo]ut of|bottom of|HBM) memory|OOM when allocating "
            r"tensor|RESOURCE_EXHAUSTED: .{0,80}\bHBM\b",
            "CUDA Error: out of memory at",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "Failed to CUDA calloc async",
            "MPS backend out of memory",
            r"PhysX error:[^\n]{0,60}fail(?:ed)? to allocate|ERROR_OUT_OF_DEVICE_MEMORY"),
        examples=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU "
            "0 has a total capacity of 23.64 GiB of which 513.19 MiB is free. Including "
            "non-PyTorch memory, this process has 23.13 GiB memory in use. Of the allocated "
            "memory 21.50 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but "
            "unallocated.",
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB "
            "total capacity; 9.70 GiB already allocated; 10.38 MiB free; 9.75 GiB reserved in "
            "total by PyTorch)",
            "**RuntimeError: CUDA out of memory.** Tried to allocate 1.71 GiB",
            "RuntimeError: CUDA error: out of memory",
            "failed to allocate 6.69M (7012352 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY",
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 "
            "bytes.",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "cublasCreate(handle)",
            "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
            "Failed to CUDA calloc async 608 bytes",
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.06 GB)",
            "PhysX error: PxgCudaDeviceMemoryAllocator fail to allocate memory 339738624 bytes!!"),
        wordings=(
            Wording(r"XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory",
                "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
                "268435456 bytes.",
                "An allocation of JAX on the GPU failed. At its start JAX reserves three quarters "
                "of the GPU, whatever else uses it.",
                "If another framework or process uses the GPU as well, set "
                "XLA_PYTHON_CLIENT_MEM_FRACTION=0.3 (or XLA_PYTHON_CLIENT_PREALLOCATE=false) "
                "before jax is imported. If JAX has it alone: smaller batches with accumulation, "
                "jax.checkpoint, or shard over more devices.",
                ("nvidia-smi",)),),
        why="An allocation on the GPU failed. The numbers of the message distinguish a single "
            "request that no GPU could serve, fragmentation, memory of other processes, and a "
            "model that needs more than there is.",
        fix="Reduce what the step needs: smaller micro-batch with gradient accumulation, "
            "gradient checkpointing, shorter sequences, an 8-bit optimizer, or shard with FSDP "
            "or ZeRO-3.",
        title="No GPU ran out of memory", sources=("pytorch-16417", "jax2torch-2"),
        next_check="MEM001", code="LOG002"),
    Cause(id="killed-sigkill",
        messages=(r"exitcode {0,6}: -9\b|return code = -9\b",
            r"[Ss]ignal 9 \(SIGKILL\) received",
            r"terminated with signal SIGKILL|exited on signal 9\b|xited with code -9\b",
            r"died with <Signals\.SIGKILL: 9>",
            r"^\s{0,20}Killed\s{0,20}$|: line \d+: {1,9}\d+ Killed\b|\bmake(?:\[\d+\])?: \*\*\* "
            r"\[[^\]\n]{1,200}\] Killed",
            r"exit status 137\b|exit code:? 137\b|xited with code 137\b|exitcode {0,4}: 137\b",
            "(?P<confirmed>[Oo]ut of memory: Kill(?:ed)? process)",
            "(?P<memcg>Memory cgroup out of memory: Kill)",
            r"(?P<slurm>[Dd]etected \d+ oom[-_]kill event|oom_kill event in |Exceeded (?:job|"
            r"step) memory limit|tasks? [\d,-]{1,100}: Out Of Memory)",
            r"(?P<kubernetes>\bOOMKilled\b)",
            r"(?P<ray>(?<!\b0 )Workers? \([^)]{1,200}\) (?:killed|running low on memory)|"
            r"ray\.exceptions\.OutOfMemoryError|killed due to the node running low on memory|"
            r"Memory on the node \(IP: [^\n]{1,400}?was running was)",
            r"\[\d{1,3}\] {1,4}[+-]? {0,4}\d{2,8} killed "),
        examples=("E0712 03:01:22 torch.distributed.elastic.multiprocessing.api: [ERROR] failed "
            "(exitcode: -9) local_rank: 0 (pid: 1234) of binary: /usr/bin/python",
            "  traceback : Signal 9 (SIGKILL) received by PID 4410",
            "  exitcode  : -9 (pid: 3309)",
            "srun: error: node1: task 4: Out Of Memory",
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with "
            "signal SIGKILL",
            "subprocess.CalledProcessError: Command '['python', 'a.py']' died with "
            "<Signals.SIGKILL: 9>.",
            "Killed",
            "bash: line 1: 12345 Killed                  python train.py",
            "make: *** [Makefile:22: train] Killed",
            "pod exited with exit code 137",
            "[55.1] Out of memory: Killed process 4242 (python) total-vm:91234kB",
            "Memory cgroup out of memory: Killed process 77 (pt_data_worker)",
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=55.0.",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=55.0. Some of the step "
            "tasks have been OOM Killed.",
            "  Reason: OOMKilled",
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
            "memory",
            "[1]    12345 killed     python train.py"),
        why="SIGKILL comes from outside: from the kernel's out-of-memory killer, a container's "
            "or scheduler's memory limit, or a person. Frequent reasons are a checkpoint that "
            "every rank loads into host memory, and DataLoader workers that each hold a copy of "
            "the data.",
        fix="Confirm it in the kernel log or in the scheduler's record, then give the job more "
            "host memory (Slurm: --mem, Kubernetes: resources.limits.memory, Docker: --memory), "
            "load the checkpoint on one rank or with mmap, and use fewer workers.",
        commands=("sudo dmesg -T | grep -iE 'killed process|oom'",
            "cat /sys/fs/cgroup/memory.events"),
        title="No process was killed by SIGKILL",
        sources=("llama-856", "llama-models-334", "colossalai-3514"),
        next_check="MEM002", code="LOG003"),
    Cause(id="shm-bus-error",
        messages=("killed by signal: Bus error",
            r"insufficient shared memory \(shm\)",
            r"\bSIGBUS\b|exitcode {0,6}: -7\b|return code = -7\b|Bus error \(core dumped\)|"
            r"Fatal Python error: Bus error",
            r"unable to (?:open|mmap|allocate|resize) (?:shared memory|file|\d+ "
            r"bytes)(?![^\n]{0,200}Too many open)[^\n]{0,200}(?:/torch_|No space left|Cannot "
            r"allocate)",
            r"Error while creating shared memory segment|failed to extend /dev/shm|"
            r"shm\.h:\d{1,4} NCCL WARN Call to posix_fallocate failed|/dev/shm[^\n]{0,120}No "
            r"space left|No space left [^\n]{0,60}/dev/shm"),
        examples=("RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. "
            "It is possible that dataloader's workers are out of shared memory. Please try to "
            "raise your shared memory limit.",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm).",
            "Signal 7 (SIGBUS) received by PID 88",
            "RuntimeError: unable to write to file </torch_1234_1>: unable to mmap 128 bytes "
            "from file </torch_1234_1>: Cannot allocate memory (12)",
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc (size "
            "9637888)",
            "misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to "
            "9637892 bytes, error: No space left on device (28)",
            "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            "OSError: [Errno 28] No space left on device: '/dev/shm/torch_2217_9'"),
        why="DataLoader workers and NCCL exchange data in /dev/shm, which containers limit to "
            "64 MiB by default.",
        fix="Enlarge /dev/shm (docker run --ipc=host or --shm-size=16g; in Kubernetes a memory "
            "emptyDir), or use fewer workers. Where it is large already, the file lies on "
            "other storage: look for a full disk (df -h) and I/O errors (dmesg), and copy a file "
            "that was cut off while it was mapped (*.bin, *.npy) anew.",
        commands=("df -h /dev/shm",),
        title="Shared memory was not exhausted",
        sources=("pytorch-5040", "nccl-troubleshooting", "nccl-342", "nccl-525"),
        owner=Owner.ENVIRONMENT, next_check="MEM003", code="LOG004"),
    Cause(id="dataloader-worker-killed",
        messages=(r"DataLoader worker \(pids?\(?s?\)?:? ?[\d, ]{1,200}\) (?:is killed by "
            r"signal: (?!Bus)|exited unexpectedly)",),
        examples=("RuntimeError: DataLoader worker (pid 4521) is killed by signal: Killed.",
            "RuntimeError: DataLoader worker (pid(s) 1234, 1235) exited unexpectedly"),
        why="A worker process of the DataLoader ended without an exception: the out-of-memory "
            "killer took it, or native code in it crashed.",
        fix="Look for an out-of-memory kill in the kernel log. Use fewer workers, a smaller "
            "prefetch_factor, and data that workers share (memory-mapped arrays instead of "
            "lists of objects). With num_workers=0 the error of a crash shows.",
        wordings=(
            Wording(r"is killed by signal: Segm",
                "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
                "Native code crashed in a worker process of the DataLoader.",
                "With num_workers=0 and python -X faulthandler the line of the crash shows.",
                ("python -X faulthandler train.py",)),),
        commands=("sudo dmesg -T | grep -iE 'killed process|segfault'",),
        title="No DataLoader worker died", yields_to=("killed-sigkill",),
        sources=("pytorch-5040",), next_check="MEM002", code="LOG005"),
    Cause(id="host-out-of-memory",
        errors=("RuntimeError", "MemoryError"),
        messages=(r"DefaultCPUAllocator: (?:can't|not enough|not able)[^\n]{0,40} allocate",
            r"\[enforce fail at \S{0,60}(?:alloc_cpu|CPUAllocator)\.cpp",
            "DefaultCPUAllocator: not enough memory",
            r"numpy[^\n]{0,60}ArrayMemoryError|Unable to allocate [\d.]+ [KMGTP]iB for an array",
            r"^(?:.{0,60}\b)?MemoryError\b",
            "std::bad_alloc"),
        examples=("RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: "
            "can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12",
            "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0.",
            "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 16 "
            "bytes.",
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 3.00 GiB for an array "
            "with shape (1,)",
            "MemoryError",
            "terminate called after throwing an instance of 'std::bad_alloc'"),
        wordings=(
            Wording(r"\[Errno 12\] Cannot allocate memory",
                "OSError: [Errno 12] Cannot allocate memory",
                "The operating system refused memory, most often to os.fork(), which starts "
                "loader workers and subprocesses: the machine or the container is at its limit, "
                "or a copy of the large parent does not count as allowed.",
                "Look at free -g at that time. If memory is free, it is the fork: EFA holds its "
                "buffers in huge pages that a child would need again (FI_EFA_USE_HUGE_PAGE=0), "
                "or vm.overcommit_memory=2 counts the whole parent once more (1 or 0). Start "
                "workers before the model is built, keep them (persistent_workers=True), or use "
                "multiprocessing_context='forkserver'. If none is free: fewer workers, and "
                "checkpoints loaded with mmap or on one rank.",
                ("free -g",
                    "grep -i huge /proc/meminfo",
                    "cat /proc/sys/vm/overcommit_memory")),),
        why="The operating system refused memory to the process: the machine, the container or "
            "`ulimit -v` is at its limit, or one request is absurdly large.",
        fix="Compare the size in the message with the memory of the machine and of the control "
            "group. A size that is far too large often comes from an outer product by "
            "broadcasting, (n, 1) with (n,). Load checkpoints with mmap or on one rank, and use "
            "fewer DataLoader workers.",
        commands=("free -g",
            "ulimit -v"),
        title="No allocation of host memory failed", sources=("memseg-3", "deeplog-50"),
        next_check="MEM002", code="LOG006"),
)  # fmt: skip
