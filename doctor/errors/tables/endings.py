"""Connections and pipes that broke, GPUs that refuse a launch, generation that ends at once."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="kernel-launch-refused",
        errors=("RuntimeError", "AcceleratorError"),
        wordings=(
            Wording("too many resources requested for launch|CUDA error: invalid configuration "
                "argument",
                "RuntimeError: CUDA error: too many resources requested for launch",
                "A kernel was started with more threads, registers or blocks than this GPU "
                "allows, or with none: a custom kernel for other GPUs, a batch with no element, "
                "or a dimension above 65,535.",
                "CUDA_LAUNCH_BLOCKING=1 shows the call. Skip empty inputs, split very large "
                "ones (attention over more than 65,535 rows), rebuild custom kernels with fewer "
                "threads per block, or upgrade torch.",
                ("CUDA_LAUNCH_BLOCKING=1 python train.py",),
                more=("RuntimeError: CUDA error: invalid configuration argument",)),
            Wording(r"(?:CUDA|HIP) error: invalid (?:argument|value|resource handle|device "
                r"context)|hipErrorInvalidValue",
                "RuntimeError: HIP error: invalid argument",
                "The driver refuses an argument of a call. Calls run later than they are made, so "
                "that the line of the traceback need not be the one.",
                "Run with CUDA_LAUNCH_BLOCKING=1 (AMD: AMD_SERIALIZE_KERNEL=3) to see the call. "
                "Start again in a new process: a context that another library destroyed or a "
                "second training in one process leaves such calls. If a plain example fails, too, "
                "driver and CUDA or ROCm of torch do not fit: upgrade the driver.",
                ("CUDA_LAUNCH_BLOCKING=1 python train.py",)),
            Wording(r"(?:less|more) than INT_MAX|canUse32BitIndexMath|(?:integer out of range|"
                r"too many "
                r"elements) for (?:32|int)|must be less than 2\*\*31|exceeds (?:the )?(?:int32|"
                r"INT_MAX|32-bit)|(?:Triton Error \[CUDA\]|CUDA driver "
                r"error): invalid argument",
                "RuntimeError: Expected canUse32BitIndexMath(input) && "
                "canUse32BitIndexMath(output) to be true, but got false.",
                "A tensor has more elements than a kernel counts with 32 bits (2,147,483,647), "
                "or a kernel is started with more blocks than a grid holds.",
                "Make the tensor of that step smaller: a smaller micro-batch, fewer frames or "
                "pixels, logits in chunks (a fused linear cross-entropy), tiled decoding of a "
                "VAE. A newer torch or triton counts with 64 bits in many kernels. For a Triton "
                "kernel also check that all its tensors are on the current GPU "
                "(torch.cuda.set_device) and that the batch is not empty.",
                more=("RuntimeError: upsample_nearest_nhwc only supports output tensors with "
                    "less than INT_MAX elements",
                    "RuntimeError: nonzero is not supported for tensors with more than INT_MAX "
                    "elements",
                    "RuntimeError: Triton Error [CUDA]: invalid argument"))),
        why="A kernel is started with more elements, threads or blocks than it counts.",
        sources=("cuda-errors",)),
    Cause(id="peer-access-missing",
        refines=("nccl-error",),
        errors=("RuntimeError", "AcceleratorError"),
        messages=(r"(?<!from \d to \d: )peer access is not supported between these two devices",),
        wordings=(
            Wording("peer mapping resources exhausted",
                "RuntimeError: CUDA error: peer mapping resources exhausted",
                "A GPU has room for eight peers: DataParallel or device_map connects more GPUs "
                    "than that.",
                "Start one process for each GPU (torchrun --nproc_per_node=N, accelerate launch "
                    "--multi_gpu), or show the process eight GPUs at most: "
                    "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7.",
                ("nvidia-smi -L",),
                owner=Owner.JOB),),
        examples=("RuntimeError: CUDA error: peer access is not supported between these two "
              "devices",
            "NCCL WARN Cuda failure 'peer access is not supported between these two devices'"),
        why="The program copies directly between two GPUs that cannot (consumer cards, different "
            "sockets, a virtual machine).",
        fix="Use NCCL_P2P_DISABLE=1 for training; vLLM: disable_custom_all_reduce=True; in code of "
            "your own copy over the CPU.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi topo -p2p r", "export NCCL_P2P_DISABLE=1"), next_check="GPU008",
        sources=("cuda-errors",),
    ),
    Cause(id="gpu-in-unknown-state",
        errors=("RuntimeError", "AcceleratorError"),
        refines=("cuda-unavailable",),
        messages=(r"cuda runtime error \(30\)|CUDA error: unknown error|CUDA_ERROR_UNKNOWN|CUDA "
              r"unknown error(?: - this may be due|\s{0,9}$)",),
        examples=("RuntimeError: CUDA error: unknown error",
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
              "environment",
            "RuntimeError: cuda runtime error (30) : unknown error at "
              "/pytorch/aten/src/THC/THCGeneral.cpp:50"),
        why="The driver cannot give this process a working GPU: the module nvidia_uvm is in a bad "
            "state (after suspend, an upgrade without a restart, in a container without "
            "/dev/nvidia-uvm), or an earlier kernel of this process crashed.",
        fix="Run nvidia-smi and a one-line test in a fresh process. If that fails too, reload the "
            "module or restart the machine; in a container start it again with its GPUs. If only "
            "the training fails, run with CUDA_LAUNCH_BLOCKING=1.",
        owner=Owner.MACHINE, retry="again",
        commands=("sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
            'python -c "import torch; print(torch.ones(1).cuda())"'),
        next_check="DRV001", sources=("cuda-errors",),
    ),
    Cause(id="tracker-process-ended",
        refines=("worker-ended-early", "peer-lost"),
        errors=("BrokenPipeError", "MailboxError", "MailboxClosedError"),
        messages=(r"wandb/sdk/lib/sock_client\.py",
            r"(?:wandb|errored).{0,80}Mailbox(?:Closed)?Error"),
        examples=(
            'File "site-packages/wandb/sdk/lib/sock_client.py", line 130, in '
            "_sendall_with_error_handle\n    sent = self._sock.send(data)\nBrokenPipeError: "
            "[Errno 32] Broken pipe",
            "wandb.errors.MailboxError: transport failed"),
        why="The process of Weights & Biases that takes what is logged had ended, and the next "
            "call of it ends the training; the training itself is not at fault.",
        fix="Read why it ended in wandb/latest-run/logs/debug-internal.log (no memory, a full "
            "disk, another protobuf), and update wandb. Call wandb.init in the process that "
            "logs, not before a fork. To train without it: WANDB_MODE=offline, or "
            "report_to=[]; wandb sync sends what was written. Where the log says before it "
            "that the run was synced, nothing is lost.",
        commands=("tail -n 50 wandb/latest-run/logs/debug-internal.log", "wandb sync --sync-all"),
        owner=Owner.ENVIRONMENT, retry="again", sources=("wandb-variables",),
    ),
    Cause(id="worker-ended-early",
        refines=("peer-lost",),
        errors=("RuntimeError", "BrokenProcessPool", "BrokenPipeError"),
        wordings=(
            Wording(r"subprocesses has abruptly died|terminated abruptly while the future|workers? "
                r"(?:is|are) no longer alive",
                "RuntimeError: One of the subprocesses has abruptly died during map operation.To "
                    "debug the error, disable multiprocessing.",
                "A process that prepares data ended without an exception of its own: most often "
                    "the kernel killed it for RAM, else native code crashed, or its error stands "
                    "further up.",
                "Search upwards for its own error. If there is none, use fewer workers (num_proc, "
                    "preprocessing_num_workers, nnUNet_n_proc_DA: each holds its own copy and at "
                    "most as many as cores help), smaller writer_batch_size, more RAM; "
                    "num_proc=None or 0 workers shows the error in the main process.",
                ("dmesg -T | grep -i -E 'killed process|out of memory'", "free -h")),
            Wording(r"BrokenPipeError",
                "BrokenPipeError: [Errno 32] Broken pipe",
                "The process at the other end of a pipe had ended: a DataLoader worker that "
                    'could not start (on Windows without if __name__ == "__main__", or a data set '
                    "that cannot be pickled), a worker that was killed, or a pager such as head.",
                "Look for an error of a worker above. Set num_workers=0 to see the real error; "
                    'on Windows and macOS put the training below if __name__ == "__main__" and the '
                    "data set's class at the top level of a file."),
            Wording(r"Pin memory thread exited unexpectedly",
                "RuntimeError: Pin memory thread exited unexpectedly",
                "The thread of the DataLoader that copies batches into pinned memory ended: host "
                    "memory or /dev/shm is exhausted, or CUDA failed in it.",
                "Look for an error of memory or of CUDA before it; use pin_memory=False, fewer "
                    "workers and a smaller prefetch_factor as a test.",
                ("df -h /dev/shm", "free -g"), owner=Owner.ENVIRONMENT),
            Wording(r"DataLoader timed out after",
                "RuntimeError: DataLoader timed out after 1 seconds",
                "A batch took longer than timeout= of the DataLoader.",
                "Find out why a batch takes longer than the timeout of the DataLoader: with "
                    "num_workers=0 the stack shows where __getitem__ waits. A larger timeout= only "
                    "waits longer.")),
        why="A worker process or thread ended or stopped responding; this is the process that "
            "waited for it.",
        sources=("datasets-workers",),
    ),
    Cause(id="failure-stands-above",
        wordings=(
            Wording(r"returned non-zero exit status|(?:training|process|job|command|subprocess|"
                r"run|task) (?:has )?failed with (?:exit )?(?:code|status)|Failed to (?:train|"
                r"fine-?tune)|(?:[Ss]ee|[Cc]heck|[Ll]ook at|[Rr]ead) (?:the )?(?:above|previous|"
                r"(?:print statements|logs?|traceback|errors?|messages?|output) above)|"
                r"Invocation of \w{3,40} method failed|Error executing job with overrides|"
                r"process (?:has )?(?:exited|finished) with (?:exit )?code [1-9]|[Bb]ack-?off "
                r"restarting failed container|CrashLoopBackOff",
                "subprocess.CalledProcessError: Command '['python', 'a.py']' returned non-zero "
                "exit status 1.",
                "This line only says that another process, or an earlier step, failed.",
                "Search the output for the first Error, Killed or Traceback, above this line or "
                "in the log of the process that it names (Kubernetes: kubectl logs --previous "
                "POD), and explain that one: doctor triage FILE does. Status 137 or -9 with "
                "nothing before it: killed, mostly for RAM; 139 or -11: a crash in native code. "
                "A program of one release calling a server of another also fails so: upgrade "
                "both.",
                ("doctor triage train.log",),
                more=("RuntimeError: the job failed. Please check the logs above",
                    "ERROR [core.py:1094] Invocation of collective_rpc method failed",
                    "Back-off restarting failed container trainer in pod train-0")),
            Wording(r"Caught \w{1,60} in replica \d{1,4} on device \d{1,4}",
                "RuntimeError: Caught RuntimeError in replica 0 on device 0.",
                "DataParallel repeats an error of one replica; the error itself stands after "
                '"Original Traceback".',
                "Read the last line of the original traceback. Try on one GPU "
                "(CUDA_VISIBLE_DEVICES=0); with several use DistributedDataParallel by torchrun "
                "in place of DataParallel, which copies the model at every step and loses "
                "attributes that are no parameters or buffers.",
                ("CUDA_VISIBLE_DEVICES=0 python train.py",)),
            Wording(r"Input tensor at index \d{1,3} has invalid shape \[[\d, ]{1,80}\], but "
                r"expected",
                "RuntimeError: Input tensor at index 1 has invalid shape [1, 452, 32000], but "
                "expected [1, 477, 32000]",
                "DataParallel joins the outputs of several GPUs, and the parts of the batch have "
                "different lengths.",
                "Start one process for each GPU (torchrun, accelerate launch), or show the program "
                "one: CUDA_VISIBLE_DEVICES=0. With DataParallel the outputs have to be padded to "
                "one length, or forward returns the loss alone.",
                ("CUDA_VISIBLE_DEVICES=0 python train.py",)),
            Wording("An error occurred while generating the dataset",
                "datasets.exceptions.DatasetGenerationError: An error occurred while generating "
                "the dataset",
                "Reading the files into the cache failed; this is only the last exception of "
                "the chain.",
                "Read the first exception of the chain above it (a cast, a JSON error, a full "
                "disk) and explain that one. After correcting the file delete what was half "
                'written: load_dataset(..., download_mode="force_redownload"), and check df -h '
                "of HF_DATASETS_CACHE.",
                ("df -h ~/.cache/huggingface",)),
            Wording(r"because of the following error[^\n]{0,60}\n[^\n]{0,20}No module named "
                r"'\w{1,40}'",
                "RuntimeError: Failed to import trl.trainer.grpo_trainer because of the following "
                "error (look up to see its traceback):\nNo module named 'mergekit'",
                "The library imports a package that is not installed, which the last line names.",
                "Install it into the interpreter that trains, by the name of its package, which "
                "is not always that of the module (flash_attn is flash-attn "
                "--no-build-isolation). Where nothing of yours needs it, bring the library and "
                "those around it to releases of one time.",
                owner=Owner.ENVIRONMENT, sources=("ms-swift-9261",)),
            Wording(r"Failed to import \w{1,40}[\w.]{0,160} because of the following error",
                "RuntimeError: Failed to import transformers.models.llama.modeling_llama "
                "because of the following error (look up to see its traceback):",
                "The library's import failed at another package; the line after this one and "
                "the traceback above name it.",
                "Fix that package: reinstall or upgrade it, or uninstall it if nothing needs it "
                "(flash-attn, torchvision, deepspeed, bitsandbytes, xformers are the usual "
                "ones).",
                owner=Owner.ENVIRONMENT),
            Wording(r"Caught \w{1,60} in (?:DataLoader worker process|pin memory thread)",
                "RuntimeError: Caught RuntimeError in DataLoader worker process 0.",
                "An error in a worker process of the DataLoader; the lines before it are the "
                "worker's own traceback.",
                "Read the original traceback below this line: it is the error. num_workers=0 shows "
                "it without the worker; in a pin memory thread look for an error of CUDA or of "
                "memory first, and try pin_memory=False.")),
        why="This line only says that another process, or an earlier step, failed.",
        sources=("torch-utils", "datasets-builder", "torch-worker"), role="summary"),
    Cause(id="raised-inside-a-library",
        refines=("list-indexed-by-name", "call-arguments", "attribute-missing", "name-undefined",
            "factory-with-parameters", "value-is-none", "module-without-return", "no-parameters"),
        messages=(r"(?:unsloth_compiled_cache/?|(?<![\w-])(?:(?:trl|peft|accelerate|unsloth|"
              r"unsloth_zoo|deepspeed|axolotl|llamafactory|setfit|sentence_transformers|"
              r"transformers/integrations)/|transformers/trainer_callback)|"
              r"(?:site|dist)-packages/(?:verl|swift)/)[\w/]{0,80}\.py(?:\"?, line \d|"
              r":\d|\]? in \w)[^\n]{0,300}\n(?:(?![^\n]{0,20}\bFile |\W{0,6}\S{1,200}\.py:"
              r"\d{1,6} in )[^\n]{0,300}\n)"
              r"{0,12}[^\n]{0,30}(?:TypeError|AttributeError|NameError|UnboundLocalError): ",
            r"Direct module loading failed for Unsloth\w{1,40}|AttributeError: _unwrapped_old_gen|"
              r"Error patching \w{1,40}Trainer|Unsloth: \w{1,60} has been moved!",
            r"module 'Unsloth\w{1,40}' has no attribute 'Unsloth"),
        examples=('/unsloth_compiled_cache/UnslothGRPOTrainer.py", line 10, in compute_loss\n    '
              'ids = inputs["ids"]\n' "TypeError: list indices must be integers or slices, not str",
            '  File "/opt/trl/trainer/utils.py", line 3, in f\n'
              "    g(1)\nTypeError: g() takes 0 positional arguments but 1 was given",
            '  File "/opt/peft/tuners/lora.py", line 3, in f\n'
              "    a.b\nAttributeError: 'Net' object has no attribute 'b'",
            '  File "/opt/trl/trainer/grpo.py", line 3, in f\n'
              "    a.update(b)\nTypeError: 'NoneType' object is not iterable",
            "File /opt/unsloth_zoo/patches/gemma.py:384, in patch.<locals>.forward(self, ids)\n"
              "    383     loss = loss_fct(logits, labels)\n--> 384 loss = outputs.loss\n\n"
              "AttributeError: 'Gemma3ModelOutputWithPast' object has no attribute 'loss'",
            '  File "/opt/unsloth/models/llama.py", line 3, in f\n'
              "    b\nNameError: name 'b' is not defined",
            "RuntimeError: Direct module loading failed for UnslothGKDTrainer: non-default "
              "argument follows default argument (UnslothGKDTrainer.py, line 620)",
            "AttributeError: _unwrapped_old_generate",
            "RuntimeError: Unsloth: Please file a bug report! Error patching SFTTrainer",
            "AttributeError: module 'UnslothIterativeSFTTrainer' has no attribute "
              "'UnslothIterativeSFTTrainer'"),
        sources=("unsloth-1723",),
        why="The error of a call was raised in code of an installed library: the libraries around "
            "it are of other releases than it was written for, or it was given something of "
            "another kind.",
        fix="Bring the libraries to releases of one time: upgrade that of the last frame, and "
            "python -m pip install -U transformers trl peft accelerate (and unsloth unsloth_zoo; "
            "delete unsloth_compiled_cache), or take the versions in the requirements of the "
            "program. If they are, look at what your code hands over in the last frame of your "
            "own.",
        owner=Owner.ENVIRONMENT,
        commands=("python -m pip list | grep -iE "
              "'torch|transformers|trl|peft|accelerate|unsloth'",),
        quotes=True,
    ),
)  # fmt: skip
