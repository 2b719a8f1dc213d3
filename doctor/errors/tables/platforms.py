"""Windows, macOS and consumer GPUs of AMD: what works elsewhere and not there."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="windows-limits",
        errors=("OSError", "ImportError"),
        wordings=(
            Wording(r"error code: <1455>|WinError 1455",
                "RuntimeError: Couldn't open shared file mapping: <torch_14808_1591070686>, error "
                    "code: <1455>",
                "Each DataLoader worker of Windows imports torch again and reserves memory for its "
                    "libraries, more than the page file allows.",
                "Lower num_workers (0 to 2), or enlarge the page file (system properties, "
                    "advanced, performance, virtual memory: some 32 GB), then restart.",
                more=("OSError: [WinError 1455] The paging file is too small for this operation to "
                      'complete. Error loading "torch\\lib\\cudnn_cnn_train64_8.dll" or one of its '
                      "dependencies.",)),
            Wording(r"DLL load failed: |WinError (?:126|127|182|1114)\]|DLL load failed while "
                r"importing",
                "ImportError: DLL load failed: The specified module could not be found.",
                "A library that the named one needs is missing or of another version: the Visual "
                    "C++ runtime, libomp, CUDA of another version, or torch itself for an "
                    "extension.",
                "Install the current Microsoft Visual C++ Redistributable (x64) and restart; "
                    "reinstall torch with one command of its install page. For an extension "
                    "install the wheel of exactly this torch, CUDA and Python.",
                commands=('python -c "import torch; print(torch.__version__)"',),
                more=("OSError: [WinError 126] The specified module could not be found. Error "
                      'loading "torch\\lib\\fbgemm.dll" or one of its dependencies.',
                    "ImportError: DLL load failed while importing flash_attn_2_cuda: The specified "
                      "procedure could not be found."),
                sources=("torch-windows",))),
        why="Windows reserves memory for each process, and finds libraries by other rules.",
        owner=Owner.ENVIRONMENT,
    ),
    Cause(id="mps-limits",
        errors=("NotImplementedError", "RuntimeError"),
        wordings=(
            Wording(r"not (?:currently )?implemented for the MPS device",
                "NotImplementedError: The operator 'aten::linalg_svd' is not currently implemented "
                    "for the MPS device.",
                "Apple's GPU has no kernel for this operation in this torch.",
                "Set PYTORCH_ENABLE_MPS_FALLBACK=1 before Python starts (the operation runs on the "
                    "CPU), upgrade torch, or call it on x.cpu().",
                ("export PYTORCH_ENABLE_MPS_FALLBACK=1",), owner=Owner.ENVIRONMENT),
            Wording(r"Cannot convert a MPS Tensor to float64",
                "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework "
                    "doesn't support float64. Please use float32 instead.",
                "Apple's GPU has no float64; numpy arrays are float64 unless they are made "
                    "otherwise.",
                "Convert on the CPU first: torch.from_numpy(x).float(), or dtype=torch.float32.",
                owner=Owner.ENVIRONMENT),
            Wording(r"Placeholder storage has not been allocated on MPS device",
                "RuntimeError: Placeholder storage has not been allocated on MPS device!",
                "The model is on the Mac's GPU and an input is on the CPU.",
                "Move the batch, too: {key: value.to(model.device) for key, value in "
                    "batch.items()}; or keep both on the CPU (use_cpu=True of TrainingArguments).",
                owner=Owner.JOB),
            Wording(r"not linked with support for mps|MPS backend is supported on",
                "RuntimeError: PyTorch is not linked with support for mps devices",
                "The code asks for the GPU of a Mac.",
                "Choose the device by what is there: 'mps' is for PyTorch on a Mac. The doctor "
                    "moves the model to the job's device.",
                owner=Owner.JOB),
            Wording(r"MPS backend out of memory",
                "RuntimeError: MPS backend out of memory (MPS allocated: 17.83 GB, other "
                    "allocations",
                "On a Mac the GPU shares the memory of the machine, and torch takes at most a part "
                    "of it.",
                "Smaller batch, shorter sequences, gradient checkpointing, and fewer other "
                    "programs. PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts torch's limit; the "
                    "system may then swap or freeze.",
                commands=("export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",))),
        why="PyTorch on a Mac: an operation, a tensor or torch itself is not made for mps.",
        refines=("cuda-oom", "gpu-full-or-in-use"), sources=("accelerate-memory",),
    ),
    Cause(id="ascend-communication-failed",
        messages=(r"HCCL (?:function )?error|hcclComm\w{0,40}.{0,80}error code is|ERR\d{5} DIST",),
        examples=("RuntimeError: [ERROR] HCCL error in: "
              "torch_npu/csrc/distributed/ProcessGroupHCCL.cpp",
            "hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, config), error code is 4",
            "[ERROR] 2025-01-01-00:00:00 ERR02200 DIST call hccl api failed."),
        why="Communication between Ascend cards failed; the reason stands in the logs of CANN, not "
            "in this line.",
        fix="Read the first ERROR of each rank in ~/ascend/log (its EI or EJ code names it: EI0006 "
            "is a rank that did not connect in time, HCCL_CONNECT_TIMEOUT). Check that driver, "
            "CANN and torch_npu are of one release, that npu-smi info shows every card free, and "
            "between nodes HCCL_SOCKET_IFNAME and hccn_tool's ping.",
        owner=Owner.ENVIRONMENT,
        commands=("npu-smi info", "grep -rm1 ERROR ~/ascend/log"),
    ),
)  # fmt: skip
