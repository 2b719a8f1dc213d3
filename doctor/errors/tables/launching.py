"""How ranks are started: launchers, their variables, process groups, wrappers of models."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="launcher-variable-missing",
        refines=("missing-key",),
        errors=("KeyError",),
        messages=(
            r"KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT|"
            r"SLURM_\w{1,30})'",
        ),
        examples=("KeyError: 'LOCAL_RANK'",),
        why="The script reads a variable that a launcher sets, and was started with python alone.",
        fix="Start it with a launcher, also on one GPU: torchrun --nproc_per_node=1 train.py (or "
        "accelerate launch, srun). For both ways read it with a default: "
        'int(os.environ.get("LOCAL_RANK", 0)).',
        commands=("torchrun --standalone --nproc_per_node=1 train.py",),
    ),
    Cause(
        id="local-rank-argument",
        messages=(r"unrecognized arguments: .{0,200}--local[-_]rank",),
        examples=("train.py: error: unrecognized arguments: --local-rank=0",),
        why="torch.distributed.launch passes the argument --local-rank to the script (with a "
        "hyphen since torch 2.0, with an underscore before), and the script does not know it.",
        fix="Start the script with torchrun, which passes no argument, and read "
        'os.environ["LOCAL_RANK"]; or accept both: parser.add_argument("--local-rank", '
        '"--local_rank", type=int, default=0).',
        commands=("torchrun --standalone --nproc_per_node=2 train.py",),
    ),
    Cause(
        id="nccl-not-built",
        errors=("RuntimeError",),
        messages=(r"Distributed package doesn't have NCCL built in",),
        examples=("RuntimeError: Distributed package doesn't have NCCL built in",),
        why="This build of torch has no NCCL: Windows and macOS builds and CPU wheels have none.",
        fix='On Windows and macOS choose the other backend, init_process_group("gloo") '
        "(Lightning: PL_TORCH_DISTRIBUTED_BACKEND=gloo), or train in WSL2. On Linux install a "
        "CUDA wheel of torch.",
        owner=Owner.ENVIRONMENT,
        commands=(
            'python -c "import torch; print(torch.__version__, '
            'torch.distributed.is_nccl_available())"',
        ),
    ),
    Cause(
        id="nccl-without-gpus",
        errors=("ValueError", "RuntimeError"),
        messages=(r"ProcessGroupNCCL is only supported with GPUs, no GPUs found",),
        examples=("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",),
        why="The NCCL backend was asked for where torch sees no GPU.",
        fix="Make the GPUs visible (CUDA_VISIBLE_DEVICES, docker run --gpus all, a CUDA wheel of "
        "torch), or use the gloo backend on a CPU.",
        owner=Owner.ENVIRONMENT,
        commands=('python -c "import torch; print(torch.__version__, torch.cuda.device_count())"',),
        next_check="GPU001",
    ),
    Cause(
        id="group-initialized-twice",
        errors=("RuntimeError", "ValueError"),
        messages=(r"initialize the default process group twice",),
        examples=("RuntimeError: trying to initialize the default process group twice!",),
        why="init_process_group was called a second time: by the script beside the Trainer, "
        "accelerate or Lightning, or by a notebook cell that ran again.",
        fix="Call it once: leave it to the framework, or guard it with if not "
        "torch.distributed.is_initialized(). In a notebook call destroy_process_group() or "
        "restart the kernel.",
    ),
    Cause(
        id="wrapped-without-gradients",
        errors=("RuntimeError", "AssertionError"),
        messages=(
            r"DistributedDataParallel is not needed when a module doesn't have any parameters "
            r"that require",
        ),
        examples=(
            "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any "
            "parameters that require a gradient.",
        ),
        why="A module without trainable parameters is wrapped: a frozen encoder, a loss, or a "
        "model whose adapters were frozen before.",
        fix="Wrap only modules that train; move the frozen one to the device without a wrapper "
        "(leave it out of accelerator.prepare). If it should train, call requires_grad_(True) "
        "before it is wrapped.",
    ),
    Cause(
        id="wrapped-on-several-devices",
        errors=("ValueError", "RuntimeError", "AssertionError"),
        messages=(
            r"DistributedDataParallel(?:'s)? device_ids and output_device arguments only work with",
        ),
        examples=(
            "ValueError: DistributedDataParallel device_ids and output_device arguments only work "
            "with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0]",
        ),
        why='The model is on the CPU, or spread over several devices (device_map="auto"), where '
        "DistributedDataParallel expects it whole on one GPU.",
        fix="Move the whole model to the rank's GPU before it is wrapped: model.to(local_rank), "
        "then DDP(model, device_ids=[local_rank]). Load without device_map, or with "
        'device_map={"": local_rank}.',
    ),
    Cause(
        id="shards-of-frozen-parameters",
        errors=("ValueError",),
        messages=(
            r"FlatParameter`? requires uniform `?requires_grad|Must flatten tensors with uniform "
            r"`?requires_grad",
        ),
        examples=(
            "ValueError: `FlatParameter` requires uniform `requires_grad`",
            "ValueError: Must flatten tensors with uniform requires_grad when "
            "use_orig_params=False",
        ),
        why="FSDP joins the parameters of a block into one, and some of them are frozen: adapters "
        "beside frozen weights, a frozen tower.",
        fix="Set use_orig_params=True (accelerate: fsdp_use_orig_params: true), use FSDP2 "
        "(fully_shard), or wrap trainable and frozen modules apart (PEFT: "
        "fsdp_auto_wrap_policy(model)).",
    ),
    Cause(
        id="inner-shard-called-first",
        errors=("AssertionError", "RuntimeError"),
        messages=(r"Non-root FSDP instance's `_is_root` should not have been set",),
        examples=(
            "AssertionError: Non-root FSDP instance's `_is_root` should not have been set yet or "
            "should have been set to `False`",
        ),
        why="A wrapped submodule ran before the whole model did, and took itself for the root of "
        "FSDP.",
        fix="Call the outermost wrapped model first (one forward pass), and generate or evaluate "
        "through it, not through model.module or a submodule; within "
        "FSDP.summon_full_params(model) where it must be.",
    ),
    Cause(
        id="device-number-too-high",
        refines=("cuda-unavailable", "gpu-not-visible"),
        errors=("RuntimeError",),
        messages=(r"invalid device ordinal|But your machine only has: ",),
        examples=("RuntimeError: CUDA error: invalid device ordinal",),
        why="A process selects a GPU number that it does not see: more processes than GPUs on the "
        "node, the global RANK in place of LOCAL_RANK, a fixed cuda:N, or CUDA_VISIBLE_DEVICES, "
        "which makes the visible GPUs count from 0; Lightning's devices= alike.",
        fix="Start as many processes per node as GPUs are visible (torchrun --nproc_per_node=gpu, "
        "num_processes of accelerate) and select with "
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])). With CUDA_VISIBLE_DEVICES=2,3 the '
        "numbers are 0 and 1.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi -L", 'echo "$CUDA_VISIBLE_DEVICES"'),
        next_check="GPU001",
    ),
    Cause(
        id="parameters-without-gradient",
        refines=("collective-mismatch",),
        errors=("RuntimeError",),
        messages=(r"Expected to have finished reduction in the prior iteration",),
        examples=(
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one. This error indicates that your module has parameters that were "
            "not used in producing loss.",
        ),
        why="DistributedDataParallel waits for the gradient of every parameter, and some took no "
        "part in the loss of this step: unused heads, branches that depend on the data, an output "
        "that the loss ignores.",
        fix="TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters. Freeze or remove those that "
        "never take part; for branches set find_unused_parameters=True (Trainer: "
        'ddp_find_unused_parameters=True; Lightning: strategy="ddp_find_unused_parameters_true"), '
        "or add 0 * parameter.sum() to the loss.",
        commands=("TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",),
    ),
    Cause(
        id="parameter-ready-twice",
        refines=("autograd-misuse",),
        errors=("RuntimeError",),
        messages=(r"Expected to mark a variable ready only once",),
        examples=(
            "RuntimeError: Expected to mark a variable ready only once. This error is caused by "
            "one of the following reasons: 1) Use of a module parameter outside the `forward` "
            "function.",
        ),
        why="Under DistributedDataParallel a parameter got its gradient twice in one backward: "
        "reentrant checkpointing, a layer that is called several times under checkpointing, or "
        "find_unused_parameters=True beside checkpointing.",
        fix='Use non-reentrant checkpointing: gradient_checkpointing_kwargs={"use_reentrant": '
        "False}, or checkpoint(..., use_reentrant=False). Otherwise switch find_unused_parameters "
        "off, or give DDP static_graph=True where every step has the same graph.",
    ),
    Cause(
        id="shapes-differ-between-ranks",
        errors=("DistributedOperationException", "ValueError", "RuntimeError"),
        messages=(
            r"Cannot apply desired operation due to shape mismatches",
            r"output tensor size must be equal to world_size times input tensor size",
        ),
        examples=(
            "Cannot apply desired operation due to shape mismatches. All shapes across devices "
            "must be valid.",
            "ValueError: output tensor size must be equal to world_size times input tensor size",
        ),
        why="The ranks give a collective (gather, all_gather, broadcast) tensors of different "
        "sizes: other sequence lengths or a smaller last batch, or weights that have another size "
        "on some rank.",
        fix="Pad to one size before gathering: accelerator.pad_across_processes(tensor, dim=1), "
        "then accelerator.gather_for_metrics; or drop_last=True and padding to a fixed length.",
    ),
    Cause(
        id="host-name-unknown",
        refines=("network-missing",),
        errors=("OSError", "RuntimeError", "DistNetworkError", "gaierror"),
        messages=(
            r"Name or service not known|Temporary failure in name resolution|getaddrinfo failed|"
            r"nodename nor servname",
            r"IPv[46] network addresses? of .{0,120} cannot be retrieved",
        ),
        examples=(
            "socket.gaierror: [Errno -2] Name or service not known",
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -2 - Name or service not known).",
        ),
        why="A host name cannot be turned into an address on this node: MASTER_ADDR or the "
        "rendezvous endpoint names a host that this node or container does not know, or there is "
        "no DNS (no network).",
        fix="Set MASTER_ADDR (torchrun --rdzv-endpoint) to a name or an IP address that every "
        'node resolves, such as the first host\'s: scontrol show hostnames "$SLURM_JOB_NODELIST" '
        "| head -1. If the name is of a web address, this machine has no DNS or no network.",
        owner=Owner.ENVIRONMENT,
        commands=('getent hosts "$MASTER_ADDR"',),
    ),
    Cause(
        id="socket-path-too-long",
        errors=("OSError",),
        messages=(r"AF_UNIX path too long",),
        examples=("OSError: AF_UNIX path too long",),
        why="DataLoader workers and process managers make sockets in the directory for temporary "
        "files, and the path of a socket has 107 characters at most.",
        fix="Give a short directory before the start: export TMPDIR=/tmp (Ray: "
        "--temp-dir=/tmp/ray).",
        owner=Owner.ENVIRONMENT,
        commands=("export TMPDIR=/tmp",),
    ),
    Cause(
        id="start-method-set-twice",
        errors=("RuntimeError",),
        messages=(r"context has already been set",),
        examples=("RuntimeError: context has already been set",),
        why="set_start_method was called a second time, by the script and by a library, or by a "
        "module that every child imports.",
        fix='Call it once, first of all, below if __name__ == "__main__"; or use '
        'multiprocessing.get_context("spawn"), or multiprocessing_context="spawn" of the '
        "DataLoader, which changes nothing for others.",
    ),
    Cause(
        id="notebook-started-cuda",
        errors=("ValueError", "RuntimeError"),
        messages=(
            r"To launch a (?:multi-GPU|TPU) training from your notebook",
            r"CUDA has been initialized before the `?notebook_launcher",
        ),
        examples=(
            "ValueError: To launch a multi-GPU training from your notebook, the `Accelerator` "
            "should only be initialized inside your training function.",
            "RuntimeError: CUDA has been initialized before the `notebook_launcher` could create "
            "a forked subprocess.",
        ),
        why="notebook_launcher forks, and a cell before it has used CUDA or made an Accelerator.",
        fix="Restart the kernel. Make the Accelerator, the model and everything on the GPU inside "
        "the training function that notebook_launcher gets; or write a script and start it with "
        "accelerate launch.",
    ),
    Cause(
        id="replica-raised",
        errors=("RuntimeError",),
        messages=(r"Caught \w{1,60} in replica \d{1,4} on device \d{1,4}",),
        examples=("RuntimeError: Caught RuntimeError in replica 0 on device 0.",),
        why="DataParallel repeats an error of one replica; the error itself stands after "
        '"Original Traceback".',
        fix="Read the last line of the original traceback. Try on one GPU "
        "(CUDA_VISIBLE_DEVICES=0); with several use DistributedDataParallel by torchrun in place "
        "of DataParallel, which copies the model at every step and loses attributes that are no "
        "parameters or buffers.",
        role="summary",
        commands=("CUDA_VISIBLE_DEVICES=0 python train.py",),
    ),
)
