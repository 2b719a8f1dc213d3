"""What tools show of a machine as the job uses it: cores, memory, links, other people's processes.

`doctor.pasted.host_tools` writes most of these lines of what `nproc`, `free`, `df`, `ps`, `ethtool`
and the kernel print, because a single line of them says nothing.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.conditions import WAITED

ROWS = (
    Cause(id="gpu-held-by-others",
        messages=(r"Process \d{1,8} holds [\d.]{1,8} GiB of GPU \d",
            r"Process [\d, ]{1,80} of \S{1,40} has /dev/nvidia\d{1,3} open",
            r"Another process.{0,60} holds memory of GPU \d"),
        examples=("Process 118243 holds 69.6 GiB of GPU 0, this job 9.0 GiB",
            "Process 30817, 30822 of ada has /dev/nvidia0 open, and nvidia-smi lists none",
            "Another process of ada (23790 MiB) holds memory of GPU 0; GPU 1 is free"),
        why="Another process holds most of the GPU's memory: nothing in the job is too large.",
        fix="End that process (kill PID) if it is your own and left over, else ask its user or "
            "the machine's administrator to do so; or take another GPU (CUDA_VISIBLE_DEVICES). "
            "A parent with the number 1 means that the launcher has ended and left it behind. "
            "Batch size and allocator settings change nothing.",
        commands=("ps -o pid,ppid,user,lstart,stat,cmd -p PID",
            "sudo fuser -v /dev/nvidia*"),
        owner=Owner.MACHINE, next_check="GPU002"),
    Cause(id="job-without-gpus",
        messages=(r"the job was granted \S{1,120}: no GPU",
            "the batch script has no option that requests GPUs|"
            "the job's environment names no GPU that Slurm gave"),
        examples=("the job was granted cpu=8,mem=64G,node=1: no GPU",
            "the batch script has no option that requests GPUs",
            "the job's environment names no GPU that Slurm gave to it"),
        why="A job on a node with GPUs sees only those that it asked for: a partition of GPUs "
            "does not imply one, and Slurm hides the others.",
        fix="Request GPUs (#SBATCH --gres=gpu:N or --gpus-per-node=N) and submit again; "
            "nvidia-smi in the job must list them.",
        commands=("scontrol show job $SLURM_JOB_ID | grep TRES",
            "sinfo -o '%P %G'"),
        next_check="GPU001"),
    Cause(id="system-disk-full",
        messages=(r"only \S{1,8} of /\S{0,40} \(\S{1,8}\) are left",),
        examples=("only 112M of / (50G) are left; /workspace has 136T free",),
        why="Caches of models and compilers, temporary files and pip write there by default.",
        fix="Move them to a disk with room, HF_HOME, TMPDIR, TORCHINDUCTOR_CACHE_DIR and the "
            "output directory, or free space: du -xsh ~/.cache/*; pip cache purge.",
        commands=("df -h",
            "du -xsh ~/.cache/* | sort -h"),
        owner=Owner.ENVIRONMENT, role="warning", next_check="DSK001"),
    Cause(id="shm-filled",
        messages=(r"files in /dev/shm take \d{1,3} % of",),
        examples=("files in /dev/shm take 91 % of 252G",),
        why="Files in /dev/shm are memory. Workers and NCCL create theirs there, and those of "
            "runs that were killed stay.",
        fix="Delete the files that no process has open (torch_*, psm_*, nccl-*, sem.*): fuser "
            "/dev/shm/* names the others.",
        commands=("ls -lS /dev/shm | head",
            "fuser -v /dev/shm/*"),
        owner=Owner.ENVIRONMENT, role="warning", next_check="MEM003"),
    Cause(id="few-cores",
        messages=(r"\d{1,4} usable CPU cores? for \d{1,4} GPU",),
        examples=("1 usable CPU core for 4 GPUs (nproc)",),
        why="All ranks and their DataLoader workers share these cores, so that the GPUs wait "
            "for data: the scheduler or the container gives the job fewer than the machine has.",
        fix="Request cores, 8 for each GPU: #SBATCH --cpus-per-task=N with srun "
            "--cpus-per-task=N (srun does not inherit it), requests.cpu and limits.cpu "
            "in Kubernetes, docker --cpus; under mpirun --bind-to none. Then nproc inside the job "
            "must print that number.",
        commands=("nproc; taskset -cp $$",
            "scontrol show job $SLURM_JOB_ID | grep -i cpus"),
        role="warning", next_check="MEM002"),
    Cause(id="host-memory-killed",
        wordings=(
            Wording("killed at the memory limit of its container or job",
                "python was killed at the memory limit of its container or job",
                "The kernel ended the process because its control group had used all the memory "
                "that it may use. The GPUs' memory has no part in it.",
                "Raise the limit of the host's memory (Kubernetes: resources.limits.memory, "
                "Slurm: --mem, docker: --memory), or use less: fewer DataLoader workers and "
                "less prefetching, datasets that are mapped and not loaded, checkpoints loaded "
                "on one rank or with mmap. /dev/shm counts as well.",
                ("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events",)),
            Wording(r"killed (?:by \S{4,16} )?because the machine had no memory left",
                "python was killed because the machine had no memory left",
                "The kernel ended the process because the host's memory was used up. The GPUs' "
                "memory has no part in it.",
                "Use less of the host's memory: fewer DataLoader workers and less prefetching, "
                "datasets that are mapped and not loaded, no offload to the CPU, checkpoints "
                "loaded on one rank or with mmap. Look for other programs that use it, or take "
                "a machine with more; WSL has half of the memory of Windows unless .wslconfig "
                "says more (memory=).",
                ("free -h",
                    "ps aux --sort=-rss | head"))),
        why="The kernel's out-of-memory killer ended a process.",
        next_check="MEM002"),
    Cause(id="host-memory-spent",
        messages=("of the host's memory is available",),
        examples=("0.4 of 62.0 GiB of the host's memory is available, 58.0 GiB are swapped out",),
        why="The host's memory is used up: programs wait for the swap, or the kernel ends one.",
        fix="Find who uses it, and use less: fewer DataLoader workers, datasets that are mapped "
            "and not loaded, no copy of the data in each worker. Rented: take a machine with "
            "more.",
        commands=("free -h",
            "ps aux --sort=-rss | head",
            "vmstat 1 5"),
        role="warning", next_check="MEM002"),
    Cause(id="cpu-time-stolen",
        messages=("of the virtual processors' time is stolen",),
        examples=("43.2 % of the virtual processors' time is stolen",),
        why="The host of this virtual machine runs other machines on the same cores: loading of "
            "data takes longer, and the GPUs wait.",
        fix="Move to a machine with cores of its own (dedicated or pinned vCPUs, another size "
            "or host: stop and start it), and use fewer workers meanwhile. Rented: ask the "
            "provider.",
        commands=("vmstat 1 5",
            "top -b -n 1 | head -4"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="gpu-order-differs",
        messages=("a number stands for another one in CUDA",),
        examples=("GPUs of 2 kinds, and a number stands for another one in CUDA",),
        sources=("cuda-environment",),
        why="CUDA numbers the fastest GPU 0, nvidia-smi by the address on the bus: among "
            "different GPUs CUDA_VISIBLE_DEVICES=0 is another one than GPU 0 of nvidia-smi.",
        fix="export CUDA_DEVICE_ORDER=PCI_BUS_ID before the program starts, so that both count "
            "alike, or name the GPU by its UUID: CUDA_VISIBLE_DEVICES=GPU-... of nvidia-smi -L.",
        commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "nvidia-smi -L"),
        role="warning"),
    Cause(id="cpu-clock-held-low",
        messages=(r"the processors are held at (?:\d|their lowest)",),
        examples=("the processors are held at 800 MHz of 3.60 GHz (governor powersave)",
            "the processors are held at their lowest clock (governor powersave of acpi-cpufreq)"),
        why="The governor or a limit keeps the processors at a fraction of their clock: loading "
            "of data and launching of kernels take as many times longer, and the GPUs wait.",
        fix="Set the governor and lift the limit as root: cpupower frequency-set -g performance "
            "-u 100GHz, on all nodes; look for a power profile in the firmware, tuned or the "
            "BMC that sets it, and for heat. Rented: ask the provider.",
        commands=("cpupower frequency-info",
            "sudo cpupower frequency-set -g performance"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="windows-memory-spilled",
        messages=("of the host's memory stand in for the GPU's",),
        examples=("9.2 GB of the host's memory stand in for the GPU's (shared GPU memory)",),
        why="The driver of Windows moves what does not fit the GPU into the host's memory "
            "instead of refusing it: steps take many times as long, and no error comes.",
        fix="Make the step smaller (batch, sequence, checkpointing) until the shared memory "
            "stays empty, and let it fail in future: NVIDIA Control Panel, CUDA - Sysmem "
            "Fallback Policy, Prefer No Sysmem Fallback.",
        role="warning", next_check="MEM001"),
    Cause(id="driver-starts-slowly",
        messages=(r"nvidia-smi takes \d{1,4} s, and persistence mode is off",),
        examples=("nvidia-smi takes 41 s, and persistence mode is off",),
        sources=("driver-persistence",),
        why="Without persistence mode the driver initializes every GPU anew for each first "
            "process: the start of each job and of each tool takes that long.",
        fix="Switch it on: sudo nvidia-smi -pm 1, and for good sudo systemctl enable --now "
            "nvidia-persistenced (on the host, for containers too).",
        commands=("sudo nvidia-smi -pm 1",
            "systemctl status nvidia-persistenced"),
        owner=Owner.MACHINE, role="warning", next_check="DRV001"),
    Cause(id="storage-slow",
        messages=(r"the processors wait for storage \d{2,3} %",
            r"files are read (?:at|with) [\d.]{1,8} \w"),
        examples=("the processors wait for storage 61 % of the time",
            "files are read at 18.4 MB/s; at least 50 MB/s expected"),
        why="The disk or network file system with the data is slower than the GPUs: they idle.",
        fix="Put the data on a local NVMe or in memory, read few large files in order (tar "
            "shards, parquet, memory-mapped tokens) instead of many small ones, and keep caches "
            "there.",
        commands=("iostat -x 2 3",
            "df -h DATA; findmnt -T DATA"),
        owner=Owner.ENVIRONMENT, role="warning", next_check="DSK002"),
    Cause(id="network-link-slow",
        messages=(r"runs at \d{2,4} Mb/s, and the ranks talk over it",),
        examples=("eno1 runs at 1000 Mb/s, and the ranks talk over it",),
        why="Gradients go over a link of 1 Gb/s or less: the nodes wait for it in each step.",
        fix="Let the ranks use the fast network: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name "
            "its interface, NCCL_IB_HCA its adapter. If this one should be fast: its cable, the "
            "switch's port or the negotiation is at fault.",
        commands=("ip -br addr",
            "ethtool IFACE | grep Speed",
            "ibstat | grep -E 'State|Rate'"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="infiniband-port-slow",
        messages=(r"\b\w{2,40}: \d{1,4} Gb/s, the other \d{1,3} ports \d{1,4}",),
        examples=("mlx5_1: 100 Gb/s, the other 3 ports 400",),
        why="One port negotiated a lower rate than the others: the ring of all ranks runs at it.",
        fix="Reseat or replace the cable or transceiver of that port, and look at the switch's "
            "end (ibdiagnet, mlxlink). Until then leave the port out: NCCL_IB_HCA=^ and its "
            "name. Rented: return the machine.",
        commands=("ibstat",
            "sudo mlxlink -d mlx5_N",
            "ibqueryerrors"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="torch-of-user-site",
        messages=(r"torch [\w.+]{3,40} is imported from ~/\.local",),
        examples=("torch 1.13.1+cu117 is imported from ~/.local, before 2.6.0 of the environment",),
        why="Packages that pip once installed for the user (~/.local) come before those of a "
            "conda environment with the same version of Python.",
        fix="Remove that copy: python -m pip uninstall torch torchvision torchaudio outside of "
            "the environment (or PYTHONNOUSERSITE=1, python -s), then check torch.__file__ "
            "again.",
        commands=("export PYTHONNOUSERSITE=1",
            'python -c "import torch; print(torch.__file__)"'),
        owner=Owner.ENVIRONMENT, next_check="TOR001"),
    Cause(id="pip-of-other-python",
        messages=(r"pip is that of /\S{1,200}, python that of /",),
        examples=("pip is that of /home/a/miniconda3/bin, python that of /usr/bin",),
        why="pip installs into another Python than the one that runs the program.",
        fix="Call pip through the interpreter that trains, python -m pip install ..., or "
            "activate its environment first (conda activate, source .venv/bin/activate); under "
            "sudo and in batch jobs name its full path.",
        commands=("which -a python pip",
            'python -c "import sys; print(sys.executable)"'),
        owner=Owner.ENVIRONMENT, next_check="TOR001"),
    Cause(id="debugging-variable-left",
        messages=("(?:CUDA_LAUNCH_BLOCKING|PYTORCH_NO_CUDA_MEMORY_CACHING)=1 is set",),
        examples=("CUDA_LAUNCH_BLOCKING=1 is set",),
        why="A variable that was set to find a bug slows every step: the host waits for each "
            "kernel, or each tensor is allocated anew.",
        fix="Unset it before the real run, in the job's script, the shell's profile and the "
            "image.",
        commands=("env | grep -E 'CUDA|TORCH|NCCL'",), role="warning", next_check="NUM004"),
    Cause(id="fast-links-off",
        wordings=(
            Wording("NCCL_P2P_DISABLE=1 is set, and NVLink",
                "NCCL_P2P_DISABLE=1 is set, and NVLink joins the GPUs",
                "All traffic between the GPUs goes through the host's memory, although NVLink "
                "joins them: a tenth of the rate.",
                "Unset NCCL_P2P_DISABLE in the job, the image and the profile. If it was set "
                "because copies between GPUs hang here, find that cause first (IOMMU, ACS).",
                ("unset NCCL_P2P_DISABLE",
                    "nvidia-smi topo -m")),
            Wording("NCCL_IB_DISABLE=1 is set, and InfiniBand",
                "NCCL_IB_DISABLE=1 is set, and InfiniBand is there",
                "NCCL uses TCP sockets between the nodes, although the machine has InfiniBand.",
                "Unset NCCL_IB_DISABLE in the job, the image and the profile; NCCL_DEBUG=INFO "
                "must then print NET/IB.",
                ("unset NCCL_IB_DISABLE",)),
            Wording("NCCL finds no InfiniBand or EFA device",
                "NCCL finds no InfiniBand or EFA device, and the machine has some",
                "NCCL falls back to TCP sockets between the nodes: the container has no access "
                "to the adapters, or lacks their library or NCCL's plugin for them.",
                "Give the container the adapters (--device=/dev/infiniband or --privileged, "
                "--network=host, --ulimit memlock=-1; in Kubernetes the rdma resource), and "
                "install rdma-core (libibverbs) in the image; on AWS the aws-ofi-nccl plugin "
                "and FI_PROVIDER=efa. NCCL_DEBUG=INFO must then print NET/IB or NET/OFI.",
                ("ls /dev/infiniband; ibv_devinfo | head",
                    "ldconfig -p | grep ibverbs"),
                owner=Owner.ENVIRONMENT)),
        why="The ranks do not use the fast links that the machine has.",
        role="warning"),
    Cause(
        id="master-address-is-loopback",
        messages=(
            r"\S{1,80} is 127\.0\.[01]\.1 here, and the other ranks wait",
            r"(?:rdzv_endpoint|MASTER_ADDR|master_addr)['\"]?\s{0,2}[:=]\s{0,2}['\"]?127\.0\.1\.1",
        ),
        examples=(
            "node-a is 127.0.1.1 here, and the other ranks wait",
            "Starting elastic_operator with launch configs: rdzv_endpoint: 127.0.1.1:29500",
        ),
        why="A host resolves the name of rank 0's host to its own loopback address, so that its "
        "ranks look for rank 0 on themselves, or rank 0 listens where no other node can reach it.",
        fix="Remove the name from the line with 127.0.1.1 in /etc/hosts on every node (or give it "
        "the address of the network there), or set MASTER_ADDR to an IP address that the other "
        "nodes reach.",
        owner=Owner.ENVIRONMENT,
        commands=("getent hosts $(hostname)", "hostname -I"),
        role="condition",
        explains=WAITED,
    ),
    Cause(id="clock-wrong",
        messages=("RequestTimeTooSkewed|difference between the request time and the (?:current|"
            "server'?s?) time|request time and the current time|Signature (?:expired|not yet "
            "current)",
            "certificate is not yet valid"),
        examples=("botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed) "
            "when calling the GetObject operation: The difference between the request time and "
            "the current time is too large.",
            "ssl.SSLCertVerificationError: certificate verify failed: certificate is not yet "
            "valid"),
        why="The machine's clock is wrong: servers refuse its requests, or certificates are not "
            "valid yet.",
        fix="Set the clock and keep it so: sudo systemctl enable --now chrony (or "
            "systemd-timesyncd), sudo chronyc makestep; timedatectl must print 'synchronized: "
            "yes'. In a container the host's clock counts.",
        commands=("timedatectl",
            "chronyc tracking"),
        owner=Owner.MACHINE),
)  # fmt: skip
