"""Jobs of Ray, and engines that a training starts: resources, devices, models."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="ray-node-not-joined",
        messages=("Failed to connect to GCS (?:at address|within)",
            r"Local node IP: (?:172\.1[78]|127\.\d{1,3})\.\d{1,3}\.\d{1,3}"),
        examples=("gcs_client.cc: Failed to connect to GCS at address 10.1.0.5:6379 within 5 "
            "seconds.",
            "Local node IP: 172.17.0.1"),
        why="A node did not join the Ray cluster: it does not reach the head at that address, "
            "or took the address of a container bridge (172.17.x, docker0) or the loopback as "
            "its own.",
        fix="Start it with the address of the network that joins the nodes: ray start "
            "--address=HEAD:6379 --node-ip-address=OWN_ADDRESS (hostname -I lists them), and "
            "the head alike. Test the port from that node (nc -vz HEAD 6379). Begin the "
            "training only when ray status shows all nodes.",
        commands=("hostname -I",
            "ray status"),
        explains=("ray-lacks-resources",), owner=Owner.ENVIRONMENT, role="condition"),
    Cause(id="ray-lacks-resources",
        refines=("cuda-unavailable", "gpu-not-visible"),
        wordings=(
            Wording(r"Total available GPUs \d{1,6}(?:\.\d)? is less than total desired GPUs|"
                r"cannot be scheduled right now|No available node types can fulfill resource "
                r"request|Placement group creation timed out|Cannot provide a placement group "
                r"requiring \d|Tensor parallel size \(\d{1,5}\) exceeds available GPUs",
                "ValueError: Total available GPUs 0 is less than total desired GPUs 8",
                "The Ray cluster has fewer free GPUs or cores than the job asks for, or no node "
                "has as many as one worker asks for: nodes have not joined, another job holds "
                "them, or Ray sees none (CUDA_VISIBLE_DEVICES, a head started without GPUs).",
                "Compare ray status with nodes x GPUs of the configuration, and the request of one "
                "worker (resources_per_worker, num_cpus) with one node. Start Ray on every node "
                "with --num-gpus, join with the head's address, end old jobs, and give the "
                "job that cluster (RAY_ADDRESS=auto).",
                ("ray status",
                    "nvidia-smi -L"),
                owner=Owner.ENVIRONMENT),
            Wording("[Uu]nable to register worker with raylet|Failed to register worker",
                "core_worker.cc: Unable to register worker with raylet. No such file or "
                "directory",
                "Ray starts as many worker processes as the node has cores, and a scheduler "
                "(Slurm), a limit of processes or a leftover session keeps them from reaching "
                "the raylet.",
                "Give the number of cores that the job holds: ray.init(num_cpus=16), ray start "
                "--num-cpus 16 (verl: ray_init.num_cpus=16 or ray_kwargs.ray_init.num_cpus). "
                "End leftovers with ray stop --force, use a short --temp-dir, and raise ulimit "
                "-u and -n.",
                ("ray stop --force",
                    "nproc; ulimit -u -n"),
                owner=Owner.ENVIRONMENT, sources=("verl-faq",)),
            Wording("ObjectStoreFullError|object store is full|Check failed: objects_valid",
                "ray.exceptions.ObjectStoreFullError: Failed to put object in object store "
                "because the object store is full",
                "Batches and weights that Ray holds in shared memory fill its object store.",
                "Give it more memory (ray.init(object_store_memory=...), a larger /dev/shm: "
                "docker run --shm-size), put large data into it once and not per call, and drop "
                "references that are no longer needed.",
                ("ray memory",
                    "df -h /dev/shm"),
                owner=Owner.ENVIRONMENT),
            Wording("RuntimeEnvSetupError|Failed to set up runtime environment",
                "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.",
                "Ray could not prepare the environment of the workers: a package that cannot be "
                "installed, a working directory above its limit, or a node without network.",
                "Read the reason below the line (dashboard_agent.log, runtime_env_setup-*.log); "
                "leave data and checkpoints out of working_dir (excludes), and put packages "
                "into the image in place of pip in runtime_env.",
                ("ls /tmp/ray/session_latest/logs",),
                owner=Owner.ENVIRONMENT),
            Wording(r"(?:ray::|RayTaskError|RayActorError|\((?!EngineCore|APIServer|"
                r"VllmWorker)\w{3,60} pid=)[\s\S]{0,3000}?No CUDA GPUs are available",
                "(RewardWorker pid=4101) RuntimeError: No CUDA GPUs are available",
                "Ray sets CUDA_VISIBLE_DEVICES to nothing for an actor or a task that asked for "
                "no GPU, however many the node has.",
                "Ask for it where the actor is made: @ray.remote(num_gpus=1), or "
                "Actor.options(num_gpus=1).remote(...); a fraction shares one. With "
                "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 Ray leaves the variable as it is.",
                ("ray status",),
                more=("ray.exceptions.RayTaskError(RuntimeError): ray::RewardWorker.__init__() "
                    "(pid=4101)\nRuntimeError: No CUDA GPUs are available",)),
            Wording("Version mismatch: The cluster was started with",
                "RuntimeError: Version mismatch: The cluster was started with: Ray: 2.40.0 "
                "Python: 3.10.12 This process on node 10.0.0.3 was started with: Ray: 2.44.1",
                "The head and this process have other versions of Ray or of Python.",
                "Use one image or environment on all nodes and for the driver: the same Ray and "
                "the same Python to its second number (pip show ray, python --version on each), "
                "then ray stop --force everywhere and start the head again.",
                ("ray --version; python --version",),
                owner=Owner.ENVIRONMENT),
            Wording("No available agent to submit job",
                "RuntimeError: Request failed with status code 500: No available agent to "
                "submit job, please try again later..",
                "The dashboard's agent of the head is not running: ray[default] is missing, its "
                "port is taken, or it failed at its start.",
                "Install ray[default], read dashboard_agent.log and raylet.out of the session, "
                "free its ports (52365, 8265), and start the head again; or run the driver on "
                "the head without ray job submit.",
                ("tail -50 /tmp/ray/session_latest/logs/dashboard_agent.log",),
                owner=Owner.ENVIRONMENT)),
        why="Ray has fewer GPUs, cores or processes than the job asks for, or its parts do not "
            "fit."),
    Cause(id="ray-killed-for-memory",
        refines=("killed-sigkill",),
        messages=(r"(?<!\b0 )Workers? \([^)]{1,200}\) killed due to memory pressure",
            r"ray\.exceptions\.OutOfMemoryError|killed due to the node running low on memory|"
            r"RayTaskError\(OutOfMemoryError\)",
            r"Memory on the node \(IP: [^\n]{1,400}?was running was"),
        examples=("(raylet) node_manager.cc:3193: 1 Workers (tasks / actors) killed due to memory "
            "pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 6a1f, IP: "
            "10.0.1.17) over the last time period.",
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
            "memory.",
            "Memory on the node (IP: 10.0.1.17, ID: 6a1f) where the task (actor ID: 3be3, "
            "name=RayTrainWorker.__init__, pid=18513, memory used=27.14GB) was running was "
            "118.62GB / 124.37GB (0.953767), which exceeds the memory usage threshold of 0.95."),
        sources=("ray-oom-prevention",),
        why="Ray's memory monitor, not the kernel, ended a worker because the host memory of the "
            "node was nearly used up; dmesg says nothing of it.",
        fix="Read the table of processes below the message (PID, MEM(GB), COMMAND). Several "
            "training workers alike: start fewer on a node (ScalingConfig num_workers, more CPUs "
            "for each), or let each hold less: a smaller shuffle buffer "
            "(local_shuffle_buffer_size), less prefetched, data streamed in place of loaded whole, "
            "weights and optimizer not offloaded to the host (param_offload, offload_optimizer). "
            "Tasks of Ray Data: lower their concurrency, or give each memory= or more num_cpus. "
            "Else take a node with more memory. A higher RAY_memory_usage_threshold only leaves "
            "the kill to the kernel.",
        commands=("ray logs raylet.out -ip NODE_IP", "ray memory --stats-only"),
        next_check="MEM002"),
    Cause(id="engine-not-usable",
        errors=("RuntimeError", "ValueError", "ConnectionError"),
        wordings=(
            Wording("Failed to infer device type|Device string must not be empty",
                "RuntimeError: Failed to infer device type",
                "vLLM found no platform: no visible GPU, a CPU build of torch, a missing "
                "nvidia-ml-py, or a vLLM of another platform.",
                "Check that torch sees the GPU in this very process (CUDA_VISIBLE_DEVICES of a "
                "Ray worker may be empty), install vllm's CUDA wheel with the torch it asks "
                "for, and run with VLLM_LOGGING_LEVEL=DEBUG, which prints why each platform was "
                "refused.",
                ('python -c "import torch; print(torch.__version__, torch.cuda.is_available())"',
                    "VLLM_LOGGING_LEVEL=DEBUG vllm serve MODEL"),
                sources=("vllm-troubleshooting",)),
            Wording(r"Model architectures? \[.{1,120}\] failed to be inspected",
                "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. "
                "Please check the logs for more details.",
                "vLLM knows the model and could not import its file: an exception stands above, "
                "usually of a package that does not fit.",
                "Read the import error above this line and fix that package (transformers, "
                "flash-attn, triton, xformers of other versions than vLLM asks for: pip check), "
                "or reinstall vllm in a fresh environment.",
                ("python -m pip check",), sources=("vllm-troubleshooting",)),
            Wording("(?:vLLM server can't be reached|server can't be reached at http)",
                "ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after "
                "240.0 seconds. Make sure the server is running by running `trl vllm-serve`.",
                "The training waits for a server that was not started, listens elsewhere, "
                "ended, or is still loading the model.",
                "Start it first (trl vllm-serve --model NAME) on other GPUs than the "
                "training's, read its log to its end, give vllm_server_host and "
                "vllm_server_port, and a longer vllm_server_timeout for large models."),
            Wording(r"requested device for vllm \(\S{1,12}\) is not available",
                "ValueError: The requested device for vllm (cuda:1) is not available.",
                "This TRL generates on a GPU of its own, and all visible GPUs train.",
                'Upgrade trl and set vllm_mode="colocate" (one GPU does both), or train on one '
                "GPU fewer: accelerate launch --num_processes N-1.",
                owner=Owner.JOB)),
        why="The engine that generates (vLLM) has no device, no model class or no address.",
        owner=Owner.ENVIRONMENT),
)  # fmt: skip
