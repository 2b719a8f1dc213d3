"""How ranks are started: launchers, their variables, process groups, wrappers of models."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="launched-wrongly",
        refines=("missing-key", "import-failed", "attribute-missing"),
        wordings=(
            Wording(r"KeyError: 'SLURM_\w{1,30}'",
                "KeyError: 'SLURM_NTASKS'",
                "The script reads a variable that Slurm sets: within a job only, and some only "
                "where the option was given (SLURM_NTASKS: --ntasks).",
                "Start it in a job with srun, and give the option that sets the variable: #SBATCH "
                "--ntasks=1 (SLURM_NTASKS, SLURM_PROCID), --ntasks-per-node, --cpus-per-task, "
                "--gpus-per-node. torchrun sets none of them. To run it elsewhere read it with a "
                'default: int(os.environ.get("SLURM_NTASKS", 1)).',
                ("srun --ntasks=1 python train.py",)),
            Wording(r"KeyError: '(?:LOCAL_RANK|RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|"
                r"MASTER_PORT)'",
                "KeyError: 'LOCAL_RANK'",
                "The script reads a variable that a launcher sets, and was started with python "
                "alone.",
                "Start it with a launcher, also on one GPU: torchrun --nproc_per_node=1 "
                "train.py (or accelerate launch, srun). For both ways read it with a default: "
                'int(os.environ.get("LOCAL_RANK", 0)).',
                ("torchrun --standalone --nproc_per_node=1 train.py",)),
            Wording(r"[Mm]ake sure to properly initialize your accelerator|must initialize the "
                r"accelerate state|'(?:Accelerator|Partial)State' object has no attribute '",
                "ValueError: Please make sure to properly initialize your accelerator via "
                "`accelerator = Accelerator()` before using any functionality from the "
                "`accelerate` library.",
                "A part of accelerate is used before its state exists, or after it was reset: "
                "get_logger or a plugin before Accelerator(), TrainingArguments of an earlier "
                "run, or a package that was upgraded under a running interpreter.",
                "Create Accelerator() (or PartialState()) first, and TrainingArguments anew for "
                "each run, after the last Accelerator. In a notebook restart the kernel after an "
                "installation, and upgrade accelerate and transformers together.",
                ("python -m pip show accelerate transformers",),
                more=("AttributeError: 'AcceleratorState' object has no attribute "
                    "'distributed_type'",)),
            Wording("unrecognized arguments: .{0,200}--local[-_]rank",
                "train.py: error: unrecognized arguments: --local-rank=0",
                "torch.distributed.launch passes the argument --local-rank to the script (with "
                "a hyphen since torch 2.0, with an underscore before), and the script does not "
                "know it.",
                "Start the script with torchrun, which passes no argument, and read "
                'os.environ["LOCAL_RANK"]; or accept both: parser.add_argument("--local-rank", '
                '"--local_rank", type=int, default=0).',
                ("torchrun --standalone --nproc_per_node=2 train.py",)),
            Wording("initialize the default process group twice",
                "RuntimeError: trying to initialize the default process group twice!",
                "init_process_group was called a second time: by the script beside the Trainer, "
                "accelerate or Lightning, or by a notebook cell that ran again.",
                "Call it once: leave it to the framework, or guard it with if not "
                "torch.distributed.is_initialized(). In a notebook call destroy_process_group() "
                "or restart the kernel."),
            Wording("Process group cannot be None",
                "AssertionError: Process group cannot be None",
                "destroy_process_group() was called where no group was made: in one process "
                "without a launcher, or a second time.",
                "Guard it: if torch.distributed.is_initialized(): destroy_process_group(). What "
                "the training did before it is done and saved."),
            Wording("[Dd]efault process group is not initialized|environment variable (?:RANK|"
                "MASTER_ADDR|WORLD_SIZE|MASTER_PORT) expected|Default process group has not "
                "been initialized|parallel group is not initialized",
                "AssertionError: Default process group is not initialized",
                "torch.distributed was started without a launcher, which sets RANK and the "
                "others.",
                "Start it with torchrun, or initialize torch.distributed only if it was started "
                "by a launcher ('RANK' in os.environ). For one process set RANK=0, "
                "WORLD_SIZE=1, LOCAL_RANK=0, MASTER_ADDR=localhost and MASTER_PORT=29500. "
                "Megatron's groups: initialize them (initialize_model_parallel) before the "
                "model, with the version that the code was written for."),
            Wording("To launch a (?:multi-GPU|TPU) training from your notebook|CUDA has been "
                "initialized before the `?notebook_launcher",
                "ValueError: To launch a multi-GPU training from your notebook, the "
                "`Accelerator` should only be initialized inside your training function.",
                "notebook_launcher forks, and a cell before it has used CUDA or made an "
                "Accelerator.",
                "Restart the kernel. Make the Accelerator, the model and everything on the GPU "
                "inside the training function that notebook_launcher gets; or write a script "
                "and start it with accelerate launch."),
            Wording(r"number of (?:tasks per node|nodes) configured in SLURM|You set "
                r"`--ntasks=\d{1,6}` in your SLURM bash script",
                "ValueError: You set `devices=4` in Lightning, but the number of tasks per node "
                "configured in SLURM `--ntasks-per-node=1` does not match. HINT: Set "
                "`devices=1`.",
                "Under Slurm Lightning starts no processes itself: srun has to start one for "
                "each GPU, and the batch script asks for another number.",
                "Ask Slurm for one task per GPU and keep devices: #SBATCH --nodes=N "
                "--ntasks-per-node=GPUS --gres=gpu:GPUS with Trainer(devices=GPUS, "
                "num_nodes=N), started by srun. The hint to lower devices would leave the other "
                "GPUs idle. In an interactive job, or with torchrun, unset SLURM_NTASKS or set "
                "SLURM_JOB_NAME=bash.",
                ("env | grep SLURM_NTASKS",),
                more=("RuntimeError: You set `--ntasks=8` in your SLURM bash script, but this "
                    "variable is not supported. HINT: Use `--ntasks-per-node=8` instead.",)),
            Wording("not enough slots available in the system",
                "There are not enough slots available in the system to satisfy the 8 slots that "
                "were requested by the application",
                "mpirun counts one process per core, or what the hostfile says, and is asked "
                "for more.",
                "Name the slots: mpirun -np 16 -H node1:8,node2:8, or slots=8 behind each host "
                "of the hostfile; --oversubscribe only for tests.",
                owner=Owner.ENVIRONMENT),
            Wording(r"Host key verification failed|ssh exited with exit code 255|Permission "
                r"denied \(publickey|unable to reliably start one or more daemons",
                "pdsh@node1: node2: ssh exited with exit code 255",
                "The launcher starts the other nodes over ssh, and this user does not get there "
                "without a password, a known key or the same shell environment.",
                "Let ssh node2 hostname work without a question from the first node "
                "(ssh-copy-id, ssh-keyscan node2 >> ~/.ssh/known_hosts), with the same paths "
                "and libraries there; or start the job on each node by itself (torchrun with "
                "--rdzv-endpoint, srun, deepspeed --no_ssh --node_rank=N).",
                ("ssh node2 hostname",),
                owner=Owner.ENVIRONMENT),
            Wording("No module named 'mpi4py'",
                "ModuleNotFoundError: No module named 'mpi4py'",
                "DeepSpeed looks for MPI because no launcher has set RANK, WORLD_SIZE and "
                "MASTER_ADDR.",
                "Start with deepspeed train.py, torchrun --nproc_per_node=1 train.py or "
                "accelerate launch; or leave the DeepSpeed configuration out on one GPU. In a "
                "notebook set RANK=0, LOCAL_RANK=0, WORLD_SIZE=1, MASTER_ADDR=localhost and "
                "MASTER_PORT first. mpi4py is needed for mpirun only.",
                ("torchrun --standalone --nproc_per_node=1 train.py",)),
            Wording("launcher 'pdsh' not installed|pdsh: command not found",
                "RuntimeError: launcher 'pdsh' not installed.",
                "The deepspeed command starts other nodes by pdsh and ssh, as the hostfile says.",
                "Install pdsh on the first node (apt install pdsh) with ssh keys to all nodes; "
                "or start torchrun or deepspeed --no_ssh --node_rank=N on each node by itself.",
                ("sudo apt install pdsh",),
                owner=Owner.ENVIRONMENT),
            Wording("'Dummy(?:Optim|Scheduler)' object has no attribute",
                "AttributeError: 'DummyOptim' object has no attribute 'step'",
                "accelerate made a stand-in for the optimizer that DeepSpeed should build, and "
                "DeepSpeed is not active: the configuration names it, but the processes were "
                "not launched with it.",
                "Launch with the DeepSpeed configuration (accelerate launch --config_file, "
                "deepspeed, torchrun) and without other accelerate settings in the environment; "
                "or leave deepspeed= out on one GPU and use a real optimizer.")),
        why="The ranks of a distributed training are started by a launcher, which gives each "
            "its number, and make one process group, once.",
        sources=("torch-distributed",)),
    Cause(id="backend-not-usable",
        errors=("RuntimeError", "ValueError", "OSError", "DistNetworkError", "gaierror",
            "PermissionError"),
        refines=("network-missing",),
        wordings=(
            Wording("Distributed package doesn't have NCCL built in",
                "RuntimeError: Distributed package doesn't have NCCL built in",
                "This build of torch has no NCCL: Windows and macOS builds and CPU wheels have "
                "none.",
                'On Windows and macOS choose the other backend, init_process_group("gloo") '
                "(Lightning: PL_TORCH_DISTRIBUTED_BACKEND=gloo), or train in WSL2. On Linux "
                "install a CUDA wheel of torch.",
                ('python -c "import torch; print(torch.__version__, '
                    'torch.distributed.is_nccl_available())"',)),
            Wording("ProcessGroupNCCL is only supported with GPUs, no GPUs found",
                "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
                "The NCCL backend was asked for where torch sees no GPU.",
                "Make the GPUs visible (CUDA_VISIBLE_DEVICES, docker run --gpus all, a CUDA "
                "wheel of torch), or use the gloo backend on a CPU.",
                ('python -c "import torch; print(torch.__version__, torch.cuda.device_count())"',)),
            Wording("Tensors must be CUDA and dense|No backend type associated with device type "
                "cpu",
                "RuntimeError: Tensors must be CUDA and dense",
                "NCCL moves GPU tensors only, and the call got one on the CPU: offloaded "
                "states, or an object that is saved.",
                "Move it to the GPU first, or start the group with both: "
                'init_process_group("cpu:gloo,cuda:nccl").',
                owner=Owner.JOB),
            Wording("use_libuv was requested but PyTorch was built? without? libuv|built "
                "without libuv support",
                "RuntimeError: use_libuv was requested but PyTorch was built without libuv "
                "support",
                "torch 2.4 and newer start the rendezvous with libuv, which Windows builds do "
                "not have.",
                "Set USE_LIBUV=0 in the environment before torchrun (or "
                'init_method="tcp://localhost:29500?use_libuv=0"), or train on one GPU without '
                "a launcher.",
                ("set USE_LIBUV=0",)),
            Wording("Name or service not known|Temporary failure in name resolution|getaddrinfo "
                "failed|nodename nor servname|Unable to (?:find|resolve) address for|IPv[46] "
                "network addresses? of .{0,120} cannot be retrieved|hostname of the rendezvous "
                "endpoint .{0,80}must be",
                "socket.gaierror: [Errno -2] Name or service not known",
                "A host name cannot be turned into an address on this node: MASTER_ADDR or the "
                "rendezvous endpoint names a host that this node or container does not know, or "
                "there is no DNS (no network).",
                "Set MASTER_ADDR (torchrun --rdzv-endpoint) to a name or an IP address that "
                "every node resolves, such as the first host's: scontrol show hostnames "
                '"$SLURM_JOB_NODELIST" | head -1. If the name is of a web address, this machine '
                "has no DNS or no network.",
                ('getent hosts "$MASTER_ADDR"',)),
            Wording(r"failed to (?:bind|listen).{0,160}(?:errno|code): -?13\b",
                "torch.distributed.DistNetworkError: The server socket has failed to bind to "
                "[::]:80 (errno: 13 - Permission denied).",
                "Ports below 1024 are for root.",
                "Choose MASTER_PORT, or --master-port of torchrun, above 1024.")),
        why="The backend of the process group, or the address of rank 0, cannot be used here.",
        sources=("torch-distributed",), owner=Owner.ENVIRONMENT),
    Cause(id="wrapper-refuses-model",
        wordings=(
            Wording("DistributedDataParallel is not needed when a module doesn't have any "
                "parameters that require",
                "RuntimeError: DistributedDataParallel is not needed when a module doesn't have "
                "any parameters that require a gradient.",
                "A module without trainable parameters is wrapped: a frozen encoder, a loss, or "
                "a model whose adapters were frozen before.",
                "Wrap only modules that train; move the frozen one to the device without a "
                "wrapper (leave it out of accelerator.prepare). If it should train, call "
                "requires_grad_(True) before it is wrapped."),
            Wording("DistributedDataParallel(?:'s)? device_ids and output_device arguments only "
                "work with",
                "ValueError: DistributedDataParallel device_ids and output_device arguments "
                "only work with single-device/multiple-device GPU modules or CPU modules, but "
                "got device_ids [0]",
                'The model is on the CPU, or spread over several devices (device_map="auto"), '
                "where DistributedDataParallel expects it whole on one GPU.",
                "Move the whole model to the rank's GPU before it is wrapped: "
                "model.to(local_rank), then DDP(model, device_ids=[local_rank]). Load without "
                'device_map, or with device_map={"": local_rank}.'),
            Wording("FlatParameter`? requires uniform `?requires_grad|Must flatten tensors with "
                "uniform `?requires_grad",
                "ValueError: `FlatParameter` requires uniform `requires_grad`",
                "FSDP joins the parameters of a block into one, and some of them are frozen: "
                "adapters beside frozen weights, a frozen tower.",
                "Set use_orig_params=True (accelerate: fsdp_use_orig_params: true), use FSDP2 "
                "(fully_shard), or wrap trainable and frozen modules apart (PEFT: "
                "fsdp_auto_wrap_policy(model))."),
            Wording("Non-root FSDP instance's `_is_root` should not have been set",
                "AssertionError: Non-root FSDP instance's `_is_root` should not have been set "
                "yet or should have been set to `False`",
                "A wrapped submodule ran before the whole model did, and took itself for the "
                "root of FSDP.",
                "Call the outermost wrapped model first (one forward pass), and generate or "
                "evaluate through it, not through model.module or a submodule; within "
                "FSDP.summon_full_params(model) where it must be."),
            Wording("Cannot flatten integer dtype",
                "ValueError: Cannot flatten integer dtype tensors",
                "FSDP joins the parameters of a block into one tensor of floats, and the base "
                "model is quantized: its weights are stored as integers.",
                "With 4 bits set bnb_4bit_quant_storage to the compute dtype (torch.bfloat16); "
                "8-bit weights cannot be sharded by FSDP: load them unquantized, or use DDP or "
                "ZeRO."),
            Wording("chunk expects at least a 1-dimensional tensor",
                "RuntimeError: chunk expects at least a 1-dimensional tensor",
                "One process sees several GPUs, so that the trainer wraps the model in "
                "nn.DataParallel, which splits every argument, and one is a single number.",
                "Show the process one GPU (CUDA_VISIBLE_DEVICES=0), or start one process for "
                "each GPU: torchrun --nproc-per-node=N, accelerate launch. A newer transformers "
                "leaves num_items_in_batch whole.",
                ("CUDA_VISIBLE_DEVICES=0 python train.py",)),
            Wording("'(?:DataParallel|DistributedDataParallel|OptimizedModule)' object has no "
                "attribute",
                "AttributeError: 'DistributedDataParallel' object has no attribute 'head'",
                "The attribute belongs to the model inside the wrapper.",
                "Ask the model inside the wrapper: model.module for DataParallel and DDP, "
                "model._orig_mod for torch.compile."),
            Wording("Could not find the transformer layer class",
                "ValueError: Could not find the transformer layer class to wrap in the model.",
                "FSDP was told to wrap a class that the model has not: another model's name in "
                "the configuration, or one inside of an adapter or a vision tower.",
                "Write the class of the repeated block of this model, as print(model) shows it, "
                "into fsdp_transformer_layer_cls_to_wrap (LlamaDecoderLayer, Qwen2DecoderLayer "
                "...), or leave it out: the model's _no_split_modules are taken.",
                ("accelerate env",)),
            Wording(r"uniform dtype but got (?:torch\.\w{1,20} and )?torch\.int8",
                "ValueError: Must flatten tensors with uniform dtype but got torch.float16 and "
                "torch.int8",
                "The model holds quantized int8 weights, which have no gradient: FSDP cannot join "
                "them with the other parameters, and full training cannot change them.",
                "For full training load the unquantized model. For adapters (LoRA) load that one, "
                "or quantize it to 4 bits with bnb_4bit_quant_storage set to the compute dtype."),
            Wording(r"(?:Must flatten tensors with|requires) uniform dtype|len\(set\(t\.dtype "
                r"for t in tensors\)\) == 1",
                "assert len(set(t.dtype for t in tensors)) == 1",
                "FSDP and ZeRO-3 join the parameters of a block into one tensor, and they have "
                "two dtypes: adapters, norms or quantized weights beside the others.",
                "Load and create all parameters in one dtype (dtype= of from_pretrained, "
                "model.to(torch.bfloat16)); for QLoRA set bnb_4bit_quant_storage to the compute "
                "dtype; or use FSDP2 (fully_shard), which keeps each parameter apart.",
                more=("ValueError: Must flatten tensors with uniform dtype but got "
                    "torch.bfloat16 and torch.float32",))),
        why="DataParallel, DDP and FSDP take a model in one form and on one device, and hide it "
            "behind the wrapper.",
        sources=("torch-ddp", "accelerate-plugins", "torch-flat-param")),
    Cause(id="device-number-too-high",
        errors=("RuntimeError",), refines=("cuda-unavailable", "gpu-not-visible"),
        messages=("invalid device ordinal|But your machine only has: ",),
        examples=("RuntimeError: CUDA error: invalid device ordinal",),
        wordings=(
            Wording(r"(?:p2p|shm)\.cc:\d{1,5} NCCL WARN Cuda failure (?:\d{1,3} )?'invalid device "
                "ordinal",
                "n1:8:9 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device "
                    "ordinal'",
                "Each process sees a GPU of its own alone, and NCCL cannot open that of the "
                    "other rank for a copy within the node: the scheduler binds GPUs to tasks "
                    "(--gpus-per-task, --gpu-bind), or CUDA_VISIBLE_DEVICES has one number for "
                    "each rank. The device that the program selects is right.",
                "Let every task see all GPUs of the node, and select by LOCAL_RANK: Slurm "
                    "--gpus-per-node=N or --gres=gpu:N with --gpu-bind=none in place of "
                    "--gpus-per-task, no CUDA_VISIBLE_DEVICES for each rank. NCCL_P2P_DISABLE=1 "
                    "avoids it, slowly.",
                ("nvidia-smi -L", 'echo "$CUDA_VISIBLE_DEVICES"',)),
        ),
        why="A process selects a GPU number that it does not see: more processes than GPUs on "
            "the node, the global RANK in place of LOCAL_RANK, a fixed cuda:N, or "
            "CUDA_VISIBLE_DEVICES, which makes the visible GPUs count from 0; Lightning's "
            "devices= alike.",
        fix="Start as many processes per node as GPUs are visible (torchrun "
            "--nproc_per_node=gpu, num_processes of accelerate) and select with "
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])). With '
            "CUDA_VISIBLE_DEVICES=2,3 the numbers are 0 and 1.",
        commands=("nvidia-smi -L",
            'echo "$CUDA_VISIBLE_DEVICES"'),
        sources=("cuda-errors",), owner=Owner.ENVIRONMENT, next_check="GPU001"),
)  # fmt: skip
