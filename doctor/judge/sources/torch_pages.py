"""torch: its documentation and its own files."""

from __future__ import annotations

from doctor.judge.sources.source import Source, page

TORCH = "https://github.com/pytorch/pytorch/blob/cf30153c4c131c8164ee7798e5022d810682e2cb"
"""torch 2.13.0; its documentation is generated from these files."""


TORCH_PAGES = (
    page(
        "torchrun-signals",
        "torch 2.13: how torchrun ends its workers",
        "PContext.close",
        f"{TORCH}/torch/distributed/elastic/multiprocessing/api.py",
    ),
    page(
        "torch-load-module",
        "torch 2.13: nn.Module",
        "load_state_dict",
        f"{TORCH}/torch/nn/modules/module.py",
    ),
    page(
        "torch-load-optimizer",
        "torch 2.13: Optimizer",
        "load_state_dict",
        f"{TORCH}/torch/optim/optimizer.py",
    ),
    Source("pytorch-install", "PyTorch: Start Locally", "", "https://pytorch.org/get-started/"),
    Source(
        "torch-batchnorm",
        "PyTorch: BatchNorm2d",
        "running estimates",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html",
        checked="2026-11-23",
    ),
    Source(
        "flight-recorder",
        "Flight Recorder for debugging stuck jobs",
        "",
        "https://docs.pytorch.org/tutorials/prototype/flight_recorder_tutorial.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-cuda-semantics",
        "PyTorch: CUDA semantics",
        "Asynchronous execution",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
        checked="2026-11-22",
    ),
    Source(
        "torch-matmul-precision",
        "torch.set_float32_matmul_precision",
        "",
        "https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html",
    ),
    Source(
        "torch-weights-only",
        "CVE-2025-32434: torch.load with weights_only=True, before 2.6",
        "GHSA-53q9-r3pm-6pq6",
        "https://github.com/pytorch/pytorch/security/advisories/GHSA-53q9-r3pm-6pq6",
    ),
    Source(
        "torch-optimizer-state",
        "torch.optim.Optimizer.state_dict",
        "",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.state_dict.html",
        checked="2026-11-23",
    ),
    Source(
        "torch-saving-best",
        "PyTorch tutorials: Saving and Loading Models",
        "Saving and Loading Model for Inference",
        "https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
        checked="2026-11-23",
    ),
    Source(
        "torch-ctc-loss",
        "PyTorch: CTCLoss, in torch/nn/modules/loss.py",
        "",
        "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/modules/loss.py",
        checked="2026-11-23",
    ),
    Source(
        "torchvision-masks",
        "torchvision: Transforming images, videos, boxes and more",
        "resize",
        "https://docs.pytorch.org/vision/stable/transforms.html",
        checked="2026-11-23",
    ),
    Source(
        "torch-data-loading",
        "PyTorch: torch.utils.data",
        "",
        "https://docs.pytorch.org/docs/stable/data.html",
        checked="2026-11-23",
    ),
    Source(
        "torch-amp-examples",
        "PyTorch: Automatic Mixed Precision examples",
        "Working with Unscaled Gradients",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-amp",
        "PyTorch: torch.amp",
        "Autocasting",
        "https://docs.pytorch.org/docs/stable/amp.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-train-mode",
        "PyTorch: Autograd mechanics",
        "Evaluation Mode (nn.Module.eval())",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-faq-memory",
        "PyTorch: Frequently Asked Questions",
        "My model reports cuda runtime error(2): out of memory",
        "https://docs.pytorch.org/docs/stable/notes/faq.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-tuning-loading",
        "PyTorch: Performance Tuning Guide",
        "Enable asynchronous data loading and augmentation",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        checked="2026-11-22",
    ),
    Source(
        "torch-ddp-notes",
        "PyTorch: Distributed Data Parallel",
        "",
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        checked="2026-11-22",
    ),
    page(
        "torch-losses",
        "PyTorch: torch.nn loss functions",
        "CrossEntropyLoss",
        f"{TORCH}/torch/nn/modules/loss.py",
    ),
    page(
        "torch-optimizer", "PyTorch: torch.optim.Optimizer", "", f"{TORCH}/torch/optim/optimizer.py"
    ),
    page(
        "torch-cross-entropy",
        "torch 2.13: losses",
        "CrossEntropyLoss",
        f"{TORCH}/torch/nn/modules/loss.py",
    ),
    page(
        "torch-lr-scheduler",
        "PyTorch: torch.optim.lr_scheduler",
        "",
        f"{TORCH}/torch/optim/lr_scheduler.py",
    ),
    page("torch-no-grad", "PyTorch: torch.no_grad", "", f"{TORCH}/torch/autograd/grad_mode.py"),
    page("torch-detach", "PyTorch: Tensor.detach", "", f"{TORCH}/torch/_tensor.py"),
    page("torch-saving", "PyTorch: Module.state_dict", "", f"{TORCH}/torch/nn/modules/module.py"),
    page("torch-module", "PyTorch: torch.nn.Module", "", f"{TORCH}/torch/nn/modules/module.py"),
    page(
        "torch-module-list",
        "PyTorch: torch.nn.ModuleList",
        "",
        f"{TORCH}/torch/nn/modules/container.py",
    ),
    page("torch-parameter", "PyTorch: torch.nn.Parameter", "", f"{TORCH}/torch/nn/parameter.py"),
    page(
        "torch-functional-dropout",
        "PyTorch: torch.nn.functional.dropout",
        "",
        f"{TORCH}/torch/nn/functional.py",
    ),
    page(
        "torch-cuda-memory", "PyTorch: torch.cuda.empty_cache", "", f"{TORCH}/torch/cuda/memory.py"
    ),
    page(
        "torch-distributed",
        "PyTorch: torch.distributed.barrier",
        "",
        f"{TORCH}/torch/distributed/distributed_c10d.py",
    ),
    page(
        "torch-distributed-sampler",
        "PyTorch: DistributedSampler",
        "",
        f"{TORCH}/torch/utils/data/distributed.py",
    ),
    page("torch-dataloader", "PyTorch: DataLoader", "", f"{TORCH}/torch/utils/data/dataloader.py"),
    page("torch-load", "PyTorch: torch.load", "", f"{TORCH}/torch/serialization.py"),
    page(
        "torch-sync-batchnorm",
        "PyTorch: SyncBatchNorm.convert_sync_batchnorm",
        "",
        f"{TORCH}/torch/nn/modules/batchnorm.py",
    ),
    page(
        "torch-linalg",
        "PyTorch: removed functions of linear algebra",
        "",
        f"{TORCH}/torch/_linalg_utils.py",
    ),
)
