"""Networks between the nodes: InfiniBand's status codes, interfaces, file systems."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="infiniband-port-down",
        messages=(r"\bPORT_DOWN\b|[Pp]hysical state: Polling",),
        examples=("state:                  PORT_DOWN (1)",
            "Physical state: Polling"),
        why="A port of an InfiniBand or RoCE adapter has no link. Ports that nobody cabled are "
            "down, too; one that the job uses hangs or refuses its connections.",
        fix="Repair the link (cable, transceiver, the switch's port, the subnet manager for a "
            "port in state Init), or leave the port out until then: NCCL_IB_HCA=^ and its name, "
            "and no rank bound to it.",
        commands=("ibstat",
            "export NCCL_IB_HCA=^PORT"),
        sources=("nccl-troubleshooting",), owner=Owner.MACHINE, retry="node"),
    Cause(id="locked-memory-limit",
        refines=("nccl-error", "completion-failed", "address-space-limit"),
        messages=(r"ibv_\w{2,40} failed.{0,40}Cannot allocate memory",
            "Failure to post internal receive buffers",
            r"(?:fi_mr_reg|ibv_reg_mr|[Mm]emory registration|register memory)[^\n]{0,60}Cannot "
            r"allocate memory"),
        examples=("misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error "
            "Cannot allocate memory",
            "misc/ibvwrap.cc:187 NCCL WARN Call to ibv_create_cq failed with error Cannot "
            "allocate memory",
            "NCCL WARN NET/OFI Unable to register memory (type = 2) for device 0. RC: -12, Error: "
            "Cannot allocate memory",
            "EFA internal error: (4112) Failure to post internal receive buffers",
            "ibv_reg_mr(address=0x7f1a, length=4096) failed: Cannot allocate memory"),
        why="InfiniBand and EFA lock the memory that they transfer, and this process may lock "
            "too little.",
        fix="Lift the limit of locked memory: ulimit -l unlimited (memlock in limits.conf), in "
            "a container --ulimit memlock=-1 or the capability IPC_LOCK, under Slurm "
            "LimitMEMLOCK of slurmd.",
        commands=("ulimit -l",), sources=("nccl-troubleshooting",), owner=Owner.ENVIRONMENT),
    Cause(id="nccl-peer-ended",
        refines=("nccl-error",),
        messages=(r"ncclRemoteError|Socket recv failed while polling|remote process exit(?:ing|ed) "
            r"(?:prematurely|or there was)",),
        examples=("ncclRemoteError: A call failed possibly due to a network error or a remote "
            "process exiting prematurely.",
            "Last error: Socket recv failed while polling for opId=0x7f1e"),
        why="The process at the other end of a connection is gone, or its node cannot be reached "
            "any more. This rank reports it and is not its cause.",
        fix="Look for the rank that failed first: its own log, the kernel log of its node (out of "
            "memory, Xid), the scheduler's record. Where no rank failed, examine the network "
            "between the nodes of both.",
        sources=("nccl-795",), owner=Owner.ENVIRONMENT, retry="again"),
    Cause(id="nvlink-sharp-fails",
        refines=("nccl-error",),
        messages=(r"transport/nvls\.cc:\d{1,5} NCCL WARN",
            "Failed to (?:bind|create|allocate) NVLink SHARP"),
        examples=("node23:12098:12141 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 1 "
            "'invalid argument'",
            "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error "
            "401"),
        why="NCCL could not set up NVLink SHARP, the sums in the NVSwitches: most often the "
            "fabric manager was restarted or updated without a reset of the GPUs, or it reports "
            "an error. The program is not at fault.",
        fix="Stop all processes on the GPUs, restart the fabric manager, and reset all GPUs "
            "together, or reboot the node; nvidia-smi -q must show Fabric State Completed, "
            "Status Success for each. Until then NCCL_NVLS_ENABLE=0 works without it, somewhat "
            "slower. Rented: return the machine.",
        commands=("nvidia-smi -q | grep -A3 Fabric",
            "systemctl status nvidia-fabricmanager",
            "export NCCL_NVLS_ENABLE=0"),
        sources=("nccl-1488", "nccl-976"), owner=Owner.MACHINE, retry="node"),
    Cause(id="link-retry-exceeded",
        refines=("nccl-error",),
        messages=(r"ompletion from peer .{0,120}(?:status|error)[ =:]{1,2}12\b",
            "IBV_WC_RETRY_EXC_ERR"),
        examples=("NET/IB: Got completion from peer 10.0.0.1<1234> with status=12 opcode=0 "
            "len=0 vendor err 129 (Recv) localGid :: hca mlx5_3",
            "NCCL WARN NET/IB: IBV_WC_RETRY_EXC_ERR"),
        why="Status 12, transport retry exceeded: the peer that the line names did not answer. "
            "Its link, switch port or cable failed, the route is wrong, or its process had died "
            "before.",
        fix="Look first whether the peer's rank failed earlier. If not, compare the error "
            "counters of the HCA in the line and of the peer's (symbol errors, link downed), "
            "and run all_reduce_perf of nccl-tests between these two nodes; keep the one with "
            "errors out. NCCL_IB_TIMEOUT=22 helps only on a congested fabric.",
        commands=("ibstat",
            "perfquery -x",
            "rdma statistic show"),
        sources=("nccl-troubleshooting",), owner=Owner.MACHINE, retry="node"),
    Cause(id="completion-failed",
        refines=("nccl-error", "link-retry-exceeded"),
        wordings=(
            Wording(r"ompletion from peer .{0,120}(?:status|error)[ =:]{1,2}(?:4|9|10|11)\b|"
                r"IBV_WC_(?:LOC_PROT|REM_ACCESS|REM_OP|REM_INV_REQ)_ERR|Call to "
                r"ibv_reg_(?:dmabuf_)?mr\w{0,20} failed",
                "NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode 5327, "
                "len 5327, vendor err 81 (Send)",
                "The HCA could not access the memory: GPUDirect RDMA without nvidia-peermem or "
                "DMA-BUF, a registration that ended, or memory that the process freed.",
                "Test with NCCL_NET_GDR_LEVEL=LOC, which leaves GPUDirect RDMA out. If that "
                "runs, load nvidia_peermem on every node, or use a driver and kernel with "
                "DMA-BUF.",
                ("lsmod | grep -E 'nvidia_peermem|ib_core'",
                    "export NCCL_NET_GDR_LEVEL=LOC"),
                more=("NCCL WARN NET/IB: IBV_WC_LOC_PROT_ERR",
                    "misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error "
                    "Operation not supported",
                    "misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr_iova2 failed with error "
                    "Invalid argument")),
            Wording(r"Couldn't (?:allocate|register) (?:GPU )?MR\b|[Ff]ailed to register memory "
                r"[^\n]{0,60}Bad address",
                "Couldn't allocate MR",
                "The adapter could not register the memory. A GPU's memory (--use_cuda) needs "
                "nvidia-peermem or DMA-BUF, which GeForce GPUs do not have; the host's needs "
                "memory that may be locked.",
                "With a GPU's memory, load nvidia-peermem on every node (sudo modprobe "
                "nvidia-peermem, after the driver of the adapters), or test with "
                "--use_cuda_dmabuf, the open kernel module and a kernel of 5.12 or newer. Without "
                "a GPU: ulimit -l unlimited.",
                ("lsmod | grep -E 'nvidia_peermem|ib_core'", "ulimit -l"),
                owner=Owner.ENVIRONMENT,
                more=("Couldn't register GPU MR",
                    "Failed to register memory 0x2e1cbac200: Bad address [14]")),
            Wording(r"ompletion from peer .{0,120}(?:status|error)[ "
                r"=:]{1,2}12\b.{0,120}[lL]ocalGid (?:fe80|::ffff:169\.254)",
                "NET/IB : Got completion from peer 10.24.7.40<44892> with status=12 opcode=0 "
                "len=0 vendor err 129 (Recv) localGid fe80::eaeb:d3ff:fe2a:8e40 remoteGids "
                "fe80::966d:aeff:fe11:7c02 hca mlx5_0",
                "The two ends talk with link-local addresses (GID fe80::), which no router "
                "passes on: over RoCE they reach each other within one subnet only. "
                "NCCL_IB_GID_INDEX names that entry, or it was chosen because the port has no "
                "IPv4 address yet.",
                "Take the entry of RoCE v2 with an IPv4 address on every node: show_gids lists "
                "them, mostly NCCL_IB_GID_INDEX=3; or unset the variable with NCCL 2.21 and "
                "newer, which chooses it (NCCL_IB_ROCE_VERSION_NUM=2, "
                "NCCL_IB_ADDR_FAMILY=AF_INET). If the list has no IPv4 entry, give the "
                "interface its address.",
                ("show_gids",
                    "export NCCL_IB_GID_INDEX=3"),
                owner=Owner.ENVIRONMENT)),
        why="An InfiniBand or RoCE transfer to another node failed; its status says why.",
        sources=("nccl-troubleshooting", "nccl-778", "perftest-126"), owner=Owner.MACHINE),
    Cause(id="link-flushed",
        refines=("nccl-error",),
        messages=(r"ompletion from peer .{0,120}(?:status|error)[ =:]{1,2}5\b",
            "IBV_WC_WR_FLUSH_ERR"),
        examples=("NET/IB: Got completion from peer 10.0.0.1<1234> with status=5 opcode=0 len=0 "
            "vendor err 249 (Recv)",
            "NCCL WARN NET/IB: IBV_WC_WR_FLUSH_ERR"),
        why="Status 5, flushed: the connection was in error before; this line follows from it.",
        fix="Find the first completion with another status on any rank, or the rank whose "
            "process ended first.",
        sources=("nccl-troubleshooting",), owner=Owner.MACHINE, retry="again"),
    Cause(id="network-interface-wrong",
        refines=("nccl-error",),
        messages=("Bootstrap : no socket interface found|Gloo connectFullMesh failed",
            "ocketStartConnect: Connect to .{0,80}failed",
            "ocket.{0,140}(?:No route to host|Network is unreachable)",
            "Could not find NET with id|Could not find a path for pattern"),
        examples=("NCCL WARN Bootstrap : no socket interface found",
            "NCCL WARN socketStartConnect: Connect to 10.0.0.2<37891> failed : Software caused "
            "connection abort",
            "socket.cc:84 NCCL WARN socketProgress: No route to host",
            "graph/topo.h:230 NCCL WARN Could not find NET with id 0"),
        wordings=(
            Wording(r"connect\w{0,12}:? .{0,40}(?:172\.17\.\d{1,3}\.\d{1,3}|127\.0\.[01]\.1|"
                r"192\.168\.122\.\d{1,3})<\d{1,5}>.{0,60}(?:refused|timed out|No route|failed)|"
                "NCCL offers the address of ",
                "NCCL WARN socketPollConnect: connect to 172.17.0.1<48213> returned Connection "
                "refused, retrying",
                "A rank offers the address of docker's or libvirt's bridge, or of the loopback, "
                "which other nodes cannot reach.",
                "Name the interface that joins the nodes, on every node: export "
                "NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0 (or exclude: "
                "^docker0,lo,virbr0). A line '127.0.1.1 hostname' in /etc/hosts gives the "
                "loopback: remove it.",
                ("ip -br addr",
                    "getent hosts $(hostname)"),
                more=("NCCL offers the address of docker0 to other nodes, which eno1 joins",)),),
        why="NCCL chose an interface that the other nodes do not reach (docker0, a link without "
            "a cable), or a firewall blocks the ports.",
        fix="Name the interface that all nodes share: NCCL_SOCKET_IFNAME=eth0, and the same for "
            "GLOO_SOCKET_IFNAME. Open all ports between the nodes. Where network devices are "
            "not found, the nodes or containers do not have the same ones: compare "
            "NCCL_DEBUG=INFO of each (NET/IB, NET/Plugin), pass /dev/infiniband into the "
            "container, and set NCCL_IB_HCA or NCCL_NET alike.",
        commands=("ip -brief address",
            "export NCCL_SOCKET_IFNAME=eth0"),
        sources=("nccl-troubleshooting",), owner=Owner.ENVIRONMENT),
    Cause(id="storage-not-answering",
        errors=("OSError",),
        messages=(r"\[Errno 116\] Stale file handle",
            r"\[Errno 107\] Transport endpoint is not connected",
            r"\[Errno 5\] Input/output error"),
        examples=("OSError: [Errno 116] Stale file handle: '/mnt/nfs/data'",
            "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/gcs'",
            "OSError: [Errno 5] Input/output error"),
        wordings=(
            Wording(r"(?:\.triton|torchinductor|torch_extensions|/triton|\.nv/|"
                r"vllm/torch_compile)[^\n]{0,300}: Stale file handle|Stale file handle: "
                r"'[^'\n]{0,300}(?:\.triton|torchinductor|torch_extensions)",
                "ImportError: /nfs/home/u/.triton/cache/5KQ7XW2/__triton_launcher.so: cannot "
                "stat shared object: Stale file handle",
                "The cache of compiled kernels is on a network file system that all nodes "
                "share: one process replaced the file that another one was about to load.",
                "Give each node, best each job, a cache on its own disk: "
                "TRITON_CACHE_DIR=/tmp/triton-$USER-$SLURM_JOB_ID, and TORCHINDUCTOR_CACHE_DIR "
                "and TORCH_EXTENSIONS_DIR alike. The other ranks' timeouts follow from it.",
                ("export TRITON_CACHE_DIR=/tmp/triton-$USER",),
                owner=Owner.JOB),
            Wording(r"Stale file handle: '[^'\n]{0,400}(?:cache|\.arrow|\.lock|"
                r"\.incomplete)|(?:cache|\.arrow|\.lock|\.so)\b[^\n]{0,200}: Stale file handle|"
                r"\[Errno 37\] No locks available",
                "OSError: [Errno 116] Stale file handle: '/nfs/cache/datasets/cache-9b1e.arrow'",
                "Several processes write or replace the same cache file on a network file "
                "system: the one that another one had open is gone, or the file system keeps no "
                "locks.",
                "Prepare the data once, by one process, before the job (map, filter and "
                "tokenize), and let the ranks only read it; or give each node a cache on a "
                "local disk (HF_DATASETS_CACHE, HF_HOME). In the program let rank 0 map first "
                "(with accelerator.main_process_first()).",
                ("export HF_DATASETS_CACHE=/local/hf_datasets",),
                owner=Owner.JOB,
                more=("ImportError: /nfs/cache/ops/fused.so: cannot stat shared object: Stale "
                    "file handle",)),
            Wording(r"file server \S{1,80} does not respond|LustreError: .{0,120}(?:evicted|rc = "
                r"-1\d\d)|Lustre: .{0,80}Connection to .{0,80}was lost",
                "file server nas01 does not respond",
                "A network file system does not answer: what reads or writes there waits in "
                    "the kernel (state D) and cannot be killed.",
                "Restore the server or the network between; the waiting processes then go on "
                    "or can be ended. Else reboot, and resume from the last complete checkpoint. "
                    "The GPUs and NCCL's timeout have no part in it. Rented: ask the provider.",
                ("ps -eo pid,stat,wchan:20,cmd | grep ' D'", "nfsstat -m; showmount -e SERVER",),
                more=("LustreError: 167-0: scratch-OST0012: This client was evicted by "
                        "scratch-OST0012",))),
        why="A network file system or a disk stopped answering while the training used it: a "
            "server that restarted, a FUSE mount that ended, a device with errors.",
        fix="Look at the mount and the kernel log of the node that the line is from, mount it "
            "anew, and resume from the last complete checkpoint.",
        commands=("mount | grep -E 'nfs|fuse|lustre'",
            "sudo dmesg -T | tail -50"),
        yields_to=("file-system-failed",),
        owner=Owner.MACHINE, retry="node"),
    Cause(id="nccl-system-error",
        refines=("nccl-error",),
        messages=(r"ncclSystemError|unhandled system error|Proxy Call to rank \d{1,6} failed",),
        examples=("torch.distributed.DistBackendError: NCCL error in: "
            "ProcessGroupNCCL.cpp:1970, unhandled system error (run with NCCL_DEBUG=INFO for "
            "details), NCCL version 2.20.5",
            "ncclInternalError: Internal check failed. Last error: Proxy Call to rank 0 failed "
            "(Connect)"),
        why="A call of the system failed in NCCL: most often too little shared memory in a "
            "container, locked memory that is limited (InfiniBand), or a network interface that "
            "the ranks cannot use. With NCCL_DEBUG=INFO the last NCCL WARN line names the call.",
        fix="In a container start with --ipc=host or --shm-size=16g (Kubernetes: a memory "
            "emptyDir at /dev/shm), and for InfiniBand with --ulimit memlock=-1 "
            "--cap-add=IPC_LOCK. Between nodes name the interface: NCCL_SOCKET_IFNAME=eth0 (and "
            "GLOO_SOCKET_IFNAME), and test without InfiniBand: NCCL_IB_DISABLE=1.",
        commands=("export NCCL_DEBUG=INFO",
            "df -h /dev/shm; ulimit -l; ip -br addr"),
        yields_to=("network-interface-wrong", "fabric-service-not-ready"),
        sources=("nccl-troubleshooting",),
        owner=Owner.ENVIRONMENT),
    Cause(id="nccl-cuda-error",
        refines=("nccl-error",),
        messages=("ncclUnhandledCudaError|unhandled cuda error",
            r"Cuda failure (?:\d{1,3} )?'out of memory'"),
        examples=("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled cuda "
            "error, NCCL version 2.14.3",
            "NCCL WARN Cuda failure 2 'out of memory'"),
        why="A CUDA call failed within NCCL: the GPU's memory is full, an earlier kernel of "
            "this process failed, the driver is too old for NCCL's CUDA, or peer-to-peer access "
            "between the GPUs does not work.",
        fix="Look for an earlier CUDA error or out-of-memory of the same rank. Then run with "
            'NCCL_DEBUG=INFO: "Cuda failure" names the error. Leave about 1 GiB of each GPU per '
            "communicator to NCCL (a smaller micro-batch, a lower share for the server that "
            "generates), and test NCCL_P2P_DISABLE=1 (consumer GPUs, virtual machines) and "
            "NCCL_CUMEM_ENABLE=0.",
        commands=("export NCCL_DEBUG=INFO",
            "nvidia-smi"),
        yields_to=("fabric-service-not-ready",), sources=("nccl-troubleshooting",),
        owner=Owner.ENVIRONMENT),
    Cause(id="watchdog-stuck",
        refines=("nccl-timeout",),
        unless=r"caught collective operation timeout|ran for \d+ milliseconds before timing out",
        messages=("ProcessGroupNCCL's watchdog got stuck|Heartbeat monitor timed out",),
        examples=("[rank1]:[F1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without "
            "making progress",
            "[rank0]:[F917] [PG ID 0 PG GUID 0(default_pg) Rank 0] Heartbeat monitor timed out! "
            "Process will be terminated after dumping debug info."),
        why="It is not a collective that took too long: the thread that watches them stood still, "
            "in a call of CUDA or NCCL that does not return, or because another thread holds "
            "Python's lock.",
        fix="Look at this rank's process and GPU while it hangs: py-spy dump --native --pid PID, "
            "dmesg for an Xid, nvidia-smi. Where another rank failed before, that one is the "
            "cause. Where the process was only busy (compiling, loading, all cores taken), raise "
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC (480 s) and give each rank cores of its own.",
        commands=("py-spy dump --native --pid PID",
            "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800"),
        sources=("nccl-troubleshooting",), owner=Owner.ENVIRONMENT, retry="again"),
)  # fmt: skip
