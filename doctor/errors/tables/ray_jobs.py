"""Jobs of Ray, and engines that a training starts: resources, devices, models."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="ray-workers-refused",
        messages=(r"[Uu]nable to register worker with raylet|Failed to register worker",),
        examples=(
            "core_worker.cc: Unable to register worker with raylet. No such file or directory",
        ),
        why="Ray starts as many worker processes as the node has cores, and a scheduler (Slurm), "
        "a limit of processes or a leftover session keeps them from reaching the raylet.",
        fix="Give the number of cores that the job holds: ray.init(num_cpus=16), ray start "
        "--num-cpus 16 (verl: ray_init.num_cpus=16 or ray_kwargs.ray_init.num_cpus). End "
        "leftovers with ray stop --force, use a short --temp-dir, and raise ulimit -u and -n.",
        owner=Owner.ENVIRONMENT,
        commands=("ray stop --force", "nproc; ulimit -u -n"),
    ),
    Cause(
        id="ray-too-few-gpus",
        errors=("ValueError", "AssertionError"),
        messages=(
            r"Total available GPUs \d{1,6}(?:\.\d)? is less than total desired GPUs",
            r"cannot be scheduled right now|No available node types can fulfill resource request|"
            r"Placement group creation timed out",
        ),
        examples=(
            "ValueError: Total available GPUs 0 is less than total desired GPUs 8",
            "(autoscaler) Error: No available node types can fulfill resource request {'GPU': 8.0}",
        ),
        why="The Ray cluster has fewer GPUs than the job asks for: nodes have not joined, another "
        "cluster or job holds them, or Ray sees none (CUDA_VISIBLE_DEVICES, a head started "
        "without GPUs).",
        fix="Compare ray status with nodes x GPUs of the configuration. Start Ray on every node "
        "with --num-gpus, join with the head's address, end old jobs, and give the job that "
        "cluster (RAY_ADDRESS=auto).",
        owner=Owner.ENVIRONMENT,
        commands=("ray status", "nvidia-smi -L"),
    ),
    Cause(
        id="ray-actor-not-created",
        refines=("actor-died",),
        messages=(r"actor died because of an error raised in its creation task",),
        examples=(
            "ray.exceptions.RayActorError: The actor died because of an error raised in its "
            "creation task, ray::LLMRayActor.__init__() (pid=433508)",
        ),
        why="The constructor of a Ray actor raised; its own exception stands at the end of the "
        "lines of that pid.",
        fix="Read the last exception with that pid (or the worker's log below "
        "/tmp/ray/session_latest/logs) and explain that one: usually the package versions, the "
        "GPU memory, or the model's path on that node.",
        commands=("grep -l Error /tmp/ray/session_latest/logs/worker-*.err",),
    ),
    Cause(
        id="engine-without-device",
        errors=("RuntimeError",),
        messages=(r"Failed to infer device type|Device string must not be empty",),
        examples=(
            "RuntimeError: Failed to infer device type",
            "RuntimeError: Device string must not be empty",
        ),
        why="vLLM found no platform: no visible GPU, a CPU build of torch, a missing "
        "nvidia-ml-py, or a vLLM of another platform.",
        fix="Check that torch sees the GPU in this very process (CUDA_VISIBLE_DEVICES of a Ray "
        "worker may be empty), install vllm's CUDA wheel with the torch it asks for, and run with "
        "VLLM_LOGGING_LEVEL=DEBUG, which prints why each platform was refused.",
        owner=Owner.ENVIRONMENT,
        commands=(
            'python -c "import torch; print(torch.__version__, torch.cuda.is_available())"',
            "VLLM_LOGGING_LEVEL=DEBUG vllm serve MODEL",
        ),
        next_check="GPU001",
    ),
    Cause(
        id="engine-model-not-imported",
        errors=("ValueError",),
        messages=(r"Model architectures? \[.{1,120}\] failed to be inspected",),
        examples=(
            "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. Please "
            "check the logs for more details.",
        ),
        why="vLLM knows the model and could not import its file: an exception stands above, "
        "usually of a package that does not fit.",
        fix="Read the import error above this line and fix that package (transformers, "
        "flash-attn, triton, xformers of other versions than vLLM asks for: pip check), or "
        "reinstall vllm in a fresh environment.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip check",),
    ),
    Cause(
        id="bfloat16-on-older-gpu",
        errors=("ValueError",),
        messages=(r"Bfloat16 is only supported on GPUs with compute capability of at least 8",),
        examples=(
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least "
            "8.0. Your Tesla T4 GPU has compute capability 7.5.",
        ),
        why="The engine takes the checkpoint's dtype, bfloat16, and this GPU (T4, V100, RTX 20) "
        "has no hardware for it.",
        fix='Give dtype="half" (--dtype half; verl: rollout.dtype=float16), which also must be '
        "the training's dtype, or use a GPU of compute capability 8.0 or newer.",
        commands=("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
    ),
)
