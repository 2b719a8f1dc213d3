"""Several ranks: collectives, the rendezvous, the launcher."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import LD_PATHS

ROWS = (
    Cause(id="ranks-share-gpu",
        errors=("RuntimeError",), refines=("nccl-error",),
        messages=("Duplicate GPU detected",
            "use the same CUDA device for multiple distinct roles"),
        examples=("NCCL error: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device "
            "4000",
            "RuntimeError: Attempting to use the same CUDA device for multiple distinct "
            "roles/ranks within the same communicator."),
        wordings=(
            Wording("use the same CUDA device for multiple distinct roles",
                "RuntimeError: Attempting to use the same CUDA device for multiple distinct "
                "roles/ranks within the same communicator.",
                "TRL's trainer and its vLLM server run on the same GPU, and the weights cannot be "
                "sent from one to the other there.",
                "Give each GPUs of its own: CUDA_VISIBLE_DEVICES=0,1 trl vllm-serve ..., and "
                "CUDA_VISIBLE_DEVICES=2,3 accelerate launch ...; on one GPU use "
                'vllm_mode="colocate" without a server.',
                ('echo "$CUDA_VISIBLE_DEVICES"',)),),
        why="Two ranks use the same GPU.",
        fix="Start no more processes on a node than it has GPUs (--nproc-per-node, "
            "--num_processes), let each select its GPU by LOCAL_RANK, and check "
            "CUDA_VISIBLE_DEVICES.",
        commands=('echo "$CUDA_VISIBLE_DEVICES"',), sources=("nccl-troubleshooting",),
        owner=Owner.ENVIRONMENT, next_check="GPU008"),
    Cause(id="nccl-versions-differ",
        errors=("RuntimeError",), refines=("nccl-error",),
        messages=("Mismatched NCCL version",
            "NCCL version mismatch",
            r"NCCL \d\.\d{1,2}\.\d{1,2} on \S{1,60}, \d\.\d{1,2}\.\d{1,2} on"),
        examples=("NCCL WARN Mismatched NCCL version detected : rank 0 version 22603",
            "NCCL version mismatch: compiled 2.18, found 2.20",
            "NCCL 2.21.5 on node1, 2.18.1 on node2"),
        why="The ranks load different NCCL libraries.",
        fix="Several NCCL libraries are in use: install the same torch for every rank, and "
            "remove other copies of libnccl from LD_LIBRARY_PATH.",
        commands=LD_PATHS, sources=("nccl-troubleshooting",),
        owner=Owner.ENVIRONMENT, next_check="GPU008"),
    Cause(id="nccl-timeout",
        messages=(r"[Cc]aught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d+), "
            r"OpType=(?P<op>\w+)(?:, NumelIn=(?P<numel>\d+))?[^)]{0,200}\(ms\)=(?P<limit>\d+)\) "
            r"ran for (?P<ran>\d+) milliseconds",
            r"(?:imeout at (?:NCCL )?work|detected by watchdog at work sequence id): (?P<work>\d+)",
            r"dump signal (?:due to|from another)[^\n]{0,260}[Ll]ast enqueued (?:NCCL )?work: "
            r"(?P<enqueued>\d+)",
            "[Cc]aught collective operation timeout",
            "due to a collective timeout from|ProcessGroupNCCL's watchdog got stuck",
            "Heartbeat monitor timed out",
            r"Timed out waiting \d+ms for (?:recv|send) operation to complete",
            r"wait timeout after \d+ms, keys:",
            "Application timeout caused pair closure",
            r"Ranks? [\d, ]{1,80} failed to pass monitoredBarrier in \d+ ms",
            "monitoredBarrier.{0,120}(?:timed out|timeout)"),
        examples=("[rank3]:[E1120 12:00:30.123 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog "
            "caught collective operation timeout: WorkNCCL(SeqNum=6285, OpType=ALLREDUCE, "
            "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before "
            "timing out.",
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] Timeout at NCCL work: 1287, last enqueued "
            "NCCL work: 1287, last completed NCCL work: 1286.",
            "[PG ID 0 PG GUID 0(default_pg) Rank 1] Observed flight recorder dump signal from "
            "another rank via TCPStore. last enqueued work: 1286, last completed work: 1286",
            "RuntimeError: [Rank 0]: Watchdog caught collective operation timeout",
            "[rank1]:[F1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
            "progress",
            "[rank0]:[F917] [PG ID 0 PG GUID 0(default_pg) Rank 0] Heartbeat monitor timed out! "
            "Process will be terminated after dumping debug info.",
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
            "out waiting 10000ms for recv operation to complete",
            "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
            "/default_pg/0//1",
            "RuntimeError: [tcp/pair.cc:552] Application timeout caused pair closure",
            "RuntimeError: Ranks 2 failed to pass monitoredBarrier in 4000 ms",
            "RuntimeError: [Rank 1]: monitoredBarrier timed out after 30000ms"),
        why="A rank waited for the others until the limit. Equal sequence numbers and "
            "operations on all ranks mean a link or a step that is too slow or blocked; "
            "different ones mean that the ranks diverged: uneven data, one rank that failed, or "
            "one that saves a checkpoint alone.",
        fix="Find the rank that did not take part: an error in its log, or where it waits "
            "(py-spy dump --pid). Where one rank works alone for so long (evaluation, generation, "
            "saving, preprocessing), divide that among the ranks, or raise the timeout of "
            "init_process_group (ddp_timeout); elsewhere a longer one rarely helps.",
        commands=("export NCCL_DEBUG=INFO",
            "export TORCH_FR_BUFFER_SIZE=2000"),
        title="Every collective finished in time",
        sources=("nccl-1438", "pytorch-118369", "megatron-lm-1207", "llamafactory-7396"),
        retry="again", role="consequence", next_check="GPU008", code="LOG025"),
    Cause(id="nccl-error",
        messages=("(?P<duplicate>Duplicate GPU detected)",
            "(?P<version>Mismatched NCCL version|NCCL version mismatch)",
            "ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage",
            "ncclRemoteError|remote process exited or there was a network error",
            "NCCL error in: |unhandled (?:cuda|system) error",
            r"NCCL WARN (?:Cuda failure(?! 'CUDA driver version)|Bootstrap Root)|"
            r"ncclInvalidArgument|NCCL Error \d",
            "Got completion from peer .{0,80}with (?:error|status)",
            "NCCL WARN .{0,40}Connect to .{0,80}failed",
            r"NCCL WARN Call to \w{4,40} failed|Cuda failure (?:\d{1,3} )?'(?!CUDA driver "
            r"version)"),
        examples=("torch.distributed.DistBackendError: NCCL error in: "
            "ProcessGroupNCCL.cpp:1970, invalid usage, NCCL version 2.20.5. Duplicate GPU "
            "detected : rank 1 and rank 0 both on CUDA",
            "NCCL WARN Mismatched NCCL version detected : rank 0 version 22005",
            "ncclUnhandledCudaError: Call to CUDA function failed.",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely.",
            "node1:42:99 [0] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'",
            "RuntimeError: NCCL Error 5: invalid usage",
            "ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.35.1<49189> with "
            "error 4, opcode 5327, len 5327, vendor err 81 (Send)",
            "NCCL WARN socketStartConnect: Connect to 10.0.0.2<37891> failed : Software caused",
            "misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Invalid "
            "argument",
            "RuntimeError: NCCL error in: "
            "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:825"),
        why="NCCL could not start or continue. The last NCCL WARN line names the call. Frequent "
            "reasons: two ranks on one GPU, too little shared memory, a network interface that "
            "the ranks cannot use, different NCCL versions, or a peer that died.",
        fix="Select the GPU by LOCAL_RANK (torch.cuda.set_device), then run with "
            "NCCL_DEBUG=INFO and read the last NCCL WARN line; NCCL_SOCKET_IFNAME names the "
            "interface to use.",
        commands=("export NCCL_DEBUG=INFO",),
        title="No call of NCCL failed", yields_to=("fabric-service-not-ready",),
        sources=("nccl-troubleshooting",),
        owner=Owner.ENVIRONMENT, role="exception", next_check="GPU008", code="LOG026"),
    Cause(id="peer-lost",
        messages=(r"Connection (?:closed by peer|reset by peer) ?\[?",
            r"Connection refused \[",
            "NCCL communicator was aborted",
            "Some NCCL operations have failed or timed out",
            "(?:Broken pipe|recvValue failed on SocketImpl|sendBytes failed on)",
            "Socket closed|The client socket has failed|failed to recv, got 0 bytes",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            "To avoid data inconsistency, we are taking the entire process down",
            "Process group watchdog thread terminated with exception",
            "Connection closed by remote peer",
            "failed to send a keep-alive heartbeat to the rendezvous"),
        examples=("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
            "Connection closed by peer [127.0.0.1]:40122",
            "RuntimeError: Connection refused [10.0.0.1]:1234",
            "RuntimeError: NCCL communicator was aborted on rank 1.",
            "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out.",
            "torch.distributed.DistNetworkError: recvValue failed on SocketImpl(fd=3): Broken "
            "pipe",
            "RuntimeError: The client socket has failed to connect to any network address of "
            "(a, 1).",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            "To avoid data inconsistency, we are taking the entire process down.",
            "[rank0]:[E1] Process group watchdog thread terminated with exception: CUDA error",
            "n01:88:120 [0] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer "
            "n02<50122>",
            "The node 'n1_795_0' has failed to send a keep-alive heartbeat to the rendezvous "
            "'run' due to an error of type RendezvousConnectionError."),
        why="Another rank or the rendezvous host is gone. This rank reports the loss and is not "
            "its cause.",
        fix="Look for the rank that failed first: its own log, the kernel log of its node, the "
            "scheduler's record. Where no rank failed, check the network between the nodes and "
            "that MASTER_ADDR and MASTER_PORT are reachable.",
        title="No rank lost its peers", yields_to=("nccl-timeout",),
        sources=("nccl-795", "torch-nccl-variables"),
        owner=Owner.ENVIRONMENT, retry="again", role="consequence", code="LOG027"),
    Cause(id="rendezvous-timeout",
        messages=(r"Timed out after \d+ seconds waiting for clients\. "
            r"(?P<joined>\d+)/(?P<expected>\d+)",
            "(?:RendezvousTimeoutError|RendezvousConnectionError)",
            "Timed out initializing process group in store based barrier",
            r"store->get\('\S{1,20}'\) got error: (?:wait timeout|Socket Timeout)",
            r"The client socket has timed out after \d+ ?m?s while trying to connect",
            "DistStoreError: Socket Timeout|DistNetworkError: Unknown error"),
        examples=("torch.distributed.DistStoreError: Timed out after 61 seconds waiting for "
            "clients. 2/3 clients joined.",
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection "
            "to the C10d store has failed.",
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator, but "
            "store->get('0') got error: wait timeout after 600000ms",
            "RuntimeError: Timed out initializing process group in store based barrier on rank: "
            "0, for key: store_based_barrier_key:1 (world_size=2, worker_count=1, "
            "timeout=0:30:00)",
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
            "while trying to connect to (10.0.0.1, 29500).",
            "torch.distributed.DistStoreError: Socket Timeout",
            "torch.distributed.DistNetworkError: Unknown error"),
        wordings=(
            Wording(r"trying to connect to \(127\.0\.1\.1, ?\d",
                "torch.distributed.DistNetworkError: The client socket has timed out after "
                "60000ms while trying to connect to (127.0.1.1, 29500).",
                "The address of the rendezvous is 127.0.1.1, the loopback of each node: "
                "hostname -i, or the name of the host, gives it where /etc/hosts has the name "
                "there. No other node can reach it.",
                "Give the address that other nodes reach: MASTER_ADDR or --rdzv-endpoint from "
                "scontrol show hostnames | head -1 or hostname -I, or remove the name from the "
                "line with 127.0.1.1 in /etc/hosts on every node.",
                ("getent hosts $(hostname)",
                    "hostname -I")),),
        why="Fewer processes than WORLD_SIZE arrived at the rendezvous in time: a node did not "
            "start, started with another address or port, or is blocked by a firewall.",
        fix="Start every rank with the same MASTER_ADDR, MASTER_PORT and world size, and test "
            "the port from each node. Look for the rank that has no log, or an error in its own.",
        commands=('nc -vz "$MASTER_ADDR" "$MASTER_PORT"',),
        title="All ranks joined", sources=("metaseq-52",),
        owner=Owner.ENVIRONMENT, retry="again", code="LOG028"),
    Cause(id="port-in-use",
        messages=(r"(?:local network address\. port: |\]:|failed to bind to "
            r"\S{1,60}:)(?P<port>\d{2,5}).{0,80}[Aa]ddress already in use",
            "[Aa]ddress already in use|EADDRINUSE"),
        examples=("torch.distributed.DistNetworkError: The server socket has failed to listen "
            "on any local network address. port: 29500, useIpv6: false, code: -98, name: "
            "EADDRINUSE, message: address already in use",
            "OSError: [Errno 98] Address already in use"),
        why="Another process, often another or an earlier run on the same machine, listens on "
            "the port.",
        fix="Choose another port (torchrun --master-port, or --standalone / "
            "--rdzv-endpoint=HOST:0 for a free one), or end the leftover processes of the "
            "earlier run.",
        commands=("ss -ltnp | grep 29500",),
        title="The rendezvous port was free", sources=("torchtune-392",),
        owner=Owner.ENVIRONMENT, code="LOG029"),
    Cause(id="collective-mismatch",
        messages=("Detected mismatch between collectives on ranks",
            "Mismatch between collective operation types",
            r"params?\[\d+\] in this process with sizes .{0,200}appears not to match sizes",
            "DDP expects same model across all ranks",
            r"Message truncated : received \d+ bytes instead of"),
        examples=("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is "
            "running collective: CollectiveFingerPrint(SequenceNumber=6, OpType=ALLREDUCE",
            "RuntimeError: Mismatch between collective operation types across ranks.",
            "RuntimeError: [1]: params[0] in this process with sizes [10, 10] appears not to "
            "match sizes of the same param in process 0.",
            "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 10 params",
            "NCCL WARN Message truncated : received 1024 bytes instead of 256"),
        wordings=(
            Wording("find_unused_parameters=True`? is enabled, this likely",
                "RuntimeError: Expected to have finished reduction in the prior iteration before "
                "starting a new one. Since `find_unused_parameters=True` is enabled, this likely  "
                "means that not all `forward` outputs participate in computing loss.",
                "find_unused_parameters=True is on, and DistributedDataParallel still waits: "
                "forward returned a tensor that the loss of this step did not use.",
                "Use every output of forward in the loss, or return only those that it uses: an "
                "auxiliary head, or a loss term that is left out on some steps or ranks."),
            Wording("Expected to have finished reduction in the prior iteration|has parameters "
                "that were not used in producing|arameter indices which did not receive grad",
                "RuntimeError: It looks like your LightningModule has parameters that were not "
                "used in producing the loss returned by training_step.",
                "DistributedDataParallel waits for the gradient of every parameter, and some "
                "took no part in the loss of this step: unused heads, branches that depend on "
                "the data, an output that the loss ignores.",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters. Freeze or remove those "
                "that never take part; for branches set find_unused_parameters=True (Trainer: "
                "ddp_find_unused_parameters=True; Lightning: "
                'strategy="ddp_find_unused_parameters_true"), or add 0 * parameter.sum() to the '
                "loss.",
                more=("Parameter indices which did not receive grad for rank 0: 182",)),
            Wording("DDP expects same model across all ranks|appears not to match sizes",
                "RuntimeError: DDP expects same model across all ranks, but Rank 3 has 212 "
                "params, while rank 0 has inconsistent 214 params.",
                "The ranks built different models: a size that each takes from its own share of "
                "the data (classes, vocabulary), a branch on the rank, other frozen layers, "
                "another configuration or version on one node.",
                "Print [(name, p.shape, p.requires_grad) for name, p in "
                "model.named_parameters()] on the rank that is named and on rank 0, and compare. "
                "Take sizes from one place that all ranks read (a file, broadcast from rank 0), "
                "and build the model without branches on the rank."),),
        why="The ranks do not do the same: other parameters, parameters that take no part in "
            "the loss on some step, or collectives that only some ranks call.",
        fix="Use every parameter in the loss on every rank, or find_unused_parameters=True; "
            "keep collectives out of branches that depend on the rank or the data. "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters.",
        commands=("TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",),
        title="All ranks call the same collectives", yields_to=("nccl-versions-differ",),
        sources=("torch-distributed-debug",), code="LOG030"),
    Cause(id="device-map-distributed",
        messages=("can't train a model that has been loaded with `device_map='auto'` in any "
            "distributed",),
        examples=("ValueError: You can't train a model that has been loaded with "
            "`device_map='auto'` in any distributed mode.",),
        why='device_map="auto" spreads one model over all GPUs, so that each further rank would '
            "claim the same GPUs.",
        fix='Remove device_map, or set device_map={"": local_rank}; a single process may keep '
            "it.",
        title="The model is not spread over GPUs in a distributed training",
        sources=("accelerate-device-map",), next_check="SMK001", code="LOG031"),
    Cause(id="launcher-summary",
        messages=("ChildFailedError",
            r"failed \(exitcode: -?\d+\) local_rank",
            r"Sending process \d+ closing signal SIGTERM",
            r"torch\.multiprocessing\.spawn\.Process(?:Raised|Exited)Exception",
            r"subprocess\.CalledProcessError: Command (?!'?\[?'?\S{0,200}\b(?:gcc|g\+\+|clang|"
            r"cc|ninja|ptxas|nvcc|cmake)\b).{0,2000} returned non-zero exit status "
            r"(?!3221225477|-1073741819)",
            r"srun: error: \S{1,200}: tasks? [\d,-]{1,100}: (?:Exited with exit code|Killed|"
            r"Terminated)",
            r"(?:mpirun|prterun|orterun)(?:\.real)? (?:has exited|detected that one or more "
            r"processes)",
            r"Primary job  terminated normally, but \d+ process returned",
            r"exits? with return code = -?\d+",
            r"terminated with code \d+\. Forcefully terminating all other processes"),
        examples=("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
            "E1120 12:00:00.000 torch/distributed/elastic/multiprocessing/api.py:874] failed "
            "(exitcode: 1) local_rank: 0 (pid: 77) of binary: /usr/bin/python",
            "W1120 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 78 "
            "closing signal SIGTERM",
            "torch.multiprocessing.spawn.ProcessRaisedException:",
            "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero "
            "exit status 1.",
            "srun: error: node1: tasks 0-3: Exited with exit code 1",
            "mpirun detected that one or more processes exited with non-zero status",
            "Primary job  terminated normally, but 1 process returned",
            "[2024-01-01 00:00:00,000] [ERROR] [launch.py:321:sigkill_handler] exits with "
            "return code = 1",
            "[rank: 7] Child process with PID 37032 terminated with code 1. Forcefully "
            "terminating all other processes to avoid zombies"),
        why="torchrun, srun, mpirun and deepspeed report which process ended how. The cause is "
            "in the log of that process.",
        fix="Read the log of the rank that the summary names. `torchrun --log-dir DIR "
            "--redirects 3` keeps one log per rank, and the decorator "
            "torch.distributed.elastic.multiprocessing.errors.record adds the traceback.",
        title="A launcher's summary is explained by the logs", sources=("torch-elastic-errors",),
        role="summary", code="LOG032"),
)  # fmt: skip
