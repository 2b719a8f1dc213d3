"""Public addresses on several nodes: launchers, NCCL across nodes, slow nodes."""

from __future__ import annotations

from doctor.judge.sources.source import Source

TODAY = "2026-11-23"
NCCL = "https://github.com/NVIDIA/nccl/issues"

NODE_THREADS = (
    Source("slurm-scontrol", "Slurm 22.05: scontrol", "State=DRAIN and Reason of a node",
        "https://manpages.ubuntu.com/manpages/lunar/man1/scontrol.1.html", checked=TODAY),
    Source("slurm-sinfo", "Slurm: sinfo", "", "https://slurm.schedmd.com/sinfo.html",
        checked=TODAY),
    Source("nccl-234", "One node without InfiniBand hangs the job", "#234", f"{NCCL}/234",
        checked=TODAY),
    Source("nccl-2428", "NCCL_IGNORE_NET_MISMATCH turns different adapters into a silent hang",
        "#2428", f"{NCCL}/2428", checked=TODAY),
    Source("nccl-1241", "Duplicate GPU detected", "#1241", f"{NCCL}/1241", checked=TODAY),
    Source("nccl-447", "NCCL hung up: versions that do not match", "#447", f"{NCCL}/447",
        checked=TODAY),
    Source("nccl-env", "NCCL: environment variables", "",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/_sources/env.rst.txt",
        checked=TODAY),
    Source("superbench-diagnosis", "SuperBench: data diagnosis", "",
        "https://microsoft.github.io/superbenchmark/docs/user-tutorial/data-diagnosis",
        checked=TODAY),
    Source("stragglers-what-if",
        "Understanding Stragglers in Large Model Training Using What-if Analysis", "",
        "https://arxiv.org/html/2505.05713v2", checked=TODAY),
    Source("aws-clock-180", "awsome-distributed-ai: clocks of the nodes within one second", "#180",
        "https://github.com/awslabs/awsome-distributed-ai/issues/180", checked=TODAY),
    Source("vllm-internode", "vLLM: security", "Inter-Node Communication",
        "https://docs.vllm.ai/en/v0.9.1/usage/security.html", checked=TODAY),
    Source("torch-libuv-store", "PyTorch tutorials: the libuv TCPStore backend", "Introduction",
        "https://docs.pytorch.org/tutorials/_sources/intermediate/TCPStore_libuv_backend.rst.txt",
        checked=TODAY),
    Source("imbue-p2p", "cluster-health: InfiniBand tests of pairs of hosts", "",
        "https://github.com/imbue-ai/cluster-health/blob/master/host_validation/p2p_ib_test.py",
        checked=TODAY),
    Source("torch-dcp-shared", "Distributed Checkpoint: at least one file per rank",
        "Distributed Checkpoint - torch.distributed.checkpoint",
        "https://android.googlesource.com/platform/external/pytorch/+/7220201a2c/docs/source/"
        "distributed.checkpoint.rst", checked=TODAY),
)  # fmt: skip
